"""
A swiss roll
============

scikit-learn's roll is a sheet of 90 by 21, rolled up. We pass only its points.
"""

import numpy as np
from sklearn.datasets import make_swiss_roll

from ies_gpu import plot, select_coordinates

X, along = make_swiss_roll(3_000, random_state=0)
colors = {"along the roll": along, "across": X[:, 1]}
plot.points(X, colors={"along the roll": along}).savefig("roll-points.png")

# %%
# The bandwidth, the dimension and the number of coordinates are found from the points.

selection = select_coordinates(X)
print(selection)
plot.embedding(selection, colors=colors).savefig("roll-chosen.png")

# %%
# Is it the sheet? Both of its sides should be functions of the map. Here is how much of each the ten nearest points in
# the map explain, for the chosen two and for the first two.

from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsRegressor

for name, Y in {"chosen": selection.embedding, "first two": selection.coordinates[:, :2]}.items():
    Y = Y / Y.std(axis=0)
    for side, value in {"along": along, "across": X[:, 1]}.items():
        guess = cross_val_predict(KNeighborsRegressor(10), Y, value[selection.points])
        print(f"{name:10} {side:7} R2 = {np.corrcoef(guess, value[selection.points])[0, 1] ** 2:.2f}")
