"""
An engineer's first half hour
=============================

A data frame in a pipeline with a grid search, new points, and the way back from coordinates to columns.

Run it with ``python examples/engineer.py [number of points]`` (``pip install pandas``).
"""

import sys

import numpy as np
import pandas
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.pipeline import make_pipeline

from ies_gpu import IndependentCoordinates, datasets, load, plot

n = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000
roll = datasets.load("D3", n_samples=n)  # a rolled-up strip
frame = pandas.DataFrame(roll.X, columns=["x", "y", "z"], index=[f"row{k}" for k in range(n)])
train, test, along, along_test = train_test_split(frame, roll.truth[:, 0], random_state=0)

# %%
# The coordinates have root mean square 1, so a ridge regression can follow without a scaler.

chooser = IndependentCoordinates(intrinsic_dim=2, subset_size=2)
pipeline = make_pipeline(chooser, Ridge(0.1)).set_output(transform="pandas")
search = GridSearchCV(
    pipeline, {"independentcoordinates__bandwidth": [0.8, 1.2]}, cv=KFold(3, shuffle=True, random_state=0)
).fit(train, along)
print("best:", search.best_params_, "R2 on the rows held out:", round(search.score(test, along_test), 3))
print("R2 of the columns themselves:", round(Ridge(0.1).fit(train, along).score(test, along_test), 3))

# %%
# Put the held-out rows into the map, and go back from the map to the columns.

best = search.best_estimator_[0]
placed = best.transform(test)
print(placed.head())
back = best.inverse_transform(placed)
rms = np.sqrt(((back - test.to_numpy()) ** 2).sum(axis=1).mean())
print(f"back to columns: off by {rms:.2f} (rms), {best.inverse_error_.rms:.2f} by leaving out training rows")
plot.points(placed, colors=pandas.Series(along_test, name="along the strip")).savefig("engineer.png")

# %%
# Save a model for a service that will get new rows.

best.model_.save("model.npz")
print(load("model.npz"))
