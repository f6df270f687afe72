"""
A scikit-learn pipeline
=======================

Scale, choose coordinates and regress, with cross-validation, a grid search and named columns.

Run it with ``python examples/pipeline.py [number of points]``.
"""

import sys

from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ies_gpu import IndependentCoordinates, datasets

n = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000
roll = datasets.load("D3", n_samples=n)  # a rolled-up strip
X, along = roll.X, roll.truth[:, 0]  # and where along it each point lies
folds = KFold(3, shuffle=True, random_state=0)

# StandardScaler makes every column equally wide: right for columns in different units, wrong for a column of noise
chooser = IndependentCoordinates(intrinsic_dim=2, subset_size=2, bandwidth=0.4)
pipeline = make_pipeline(StandardScaler(), chooser, LinearRegression())
print("R2 of a straight line on the columns:", cross_val_score(LinearRegression(), X, along, cv=folds).round(2))
print("R2 of a straight line on the chosen coordinates:", cross_val_score(pipeline, X, along, cv=folds).round(2))

# %%
# You can search for the bandwidth as for any other parameter.

search = GridSearchCV(pipeline, {"independentcoordinates__bandwidth": [0.35, 0.5]}, cv=folds).fit(X, along)
print("best:", search.best_params_, round(search.best_score_, 3))
print(chooser.set_output(transform="pandas").fit(X).transform(X[:5]))
