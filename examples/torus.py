"""
A high torus, and new points
============================

A torus is a surface, but no two coordinates can show it: it takes three. We put a second sample into the map of the
first.

Run it with ``python examples/torus.py [number of points]``.
"""

import sys

import numpy as np

from ies_gpu import datasets, plot, select_coordinates

n = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
torus = datasets.load("D7", n_samples=n)
bandwidth = 1.5 * (10_000 / n) ** 0.5

selection = select_coordinates(torus.X, intrinsic_dim=2, subset_size=3, bandwidth=bandwidth)
print(selection)
plot.embedding(selection, colors=torus.colors, cmap="twilight").savefig("torus.png")

# %%
# The first three are all functions of the height, so the torus becomes a curve.

plot.embedding(selection, (0, 1, 2), colors=torus.colors, cmap="twilight").savefig("torus-first.png")

# %%
# The Nyström extension gives new points their place.

model = selection.model(torus.X)
model.save("torus-model.npz")
new = datasets.load("D7", n_samples=500, random_state=1)
np.save("torus-new.npy", model.transform(new.X, isolated="nearest"))
print(f"500 new points in {', '.join(model.names)}: torus-new.npy")
