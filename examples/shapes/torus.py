"""
A high torus, and new points
============================

A torus is a surface, but no two coordinates can show it: it takes three. We put a second sample into the map of the
first.
"""

import numpy as np

from ies_gpu import datasets, plot, select_coordinates

torus = datasets.load("D7", n_samples=4_000)
selection = select_coordinates(torus.X, intrinsic_dim=2, subset_size=3, bandwidth=2.4)
print(selection)
angle = {"alpha": torus.colors["alpha"]}
plot.embedding(selection, colors=angle, cmap="twilight").savefig("torus.png")

# %%
# The first three are all functions of the height, so the torus becomes a curve.

plot.embedding(selection, (0, 1, 2), colors=angle, cmap="twilight").savefig("torus-first.png")

# %%
# The Nyström extension gives new points their place.

model = selection.model(torus.X)
model.save("torus-model.npz")
new = datasets.load("D7", n_samples=500, random_state=1)
np.save("torus-new.npy", model.transform(new.X, isolated="nearest"))
print(f"500 new points in {', '.join(model.names)}: torus-new.npy")
