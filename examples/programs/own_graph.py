"""
Your own graph or kernel
========================

You do not need points. A sparse matrix of distances or of weights is enough, from any program. Here the distances are
great circles on a globe, between places in a belt along the equator.
"""

import numpy as np
from sklearn.neighbors import radius_neighbors_graph

from ies_gpu import plot, select_coordinates

n = 3_000
rng = np.random.default_rng(0)
places = np.radians(np.column_stack([rng.uniform(-12, 12, n), rng.uniform(-75, 75, n)]))  # latitude, longitude
graph = radius_neighbors_graph(places, 0.2, mode="distance", metric="haversine")  # in radii of the globe
print(f"{graph.nnz / n:.0f} neighbours for each of {n:,} places")

# %%
# Distances need a bandwidth. The package itself uses a third of the radius.

selection = select_coordinates(graph=graph, bandwidth=0.2 / 3, intrinsic_dim=2, subset_size=2)
print(selection)
colors = {"longitude": places[:, 1], "latitude": places[:, 0]}
plot.embedding(selection, colors=colors).savefig("places.png")

# %%
# Weights are used as they are. These give the same result, because the call above computed the same weights from the
# distances.

kernel = graph.copy()
kernel.data = np.exp(-((kernel.data / (0.2 / 3)) ** 2))
kernel.setdiag(1.0)  # each place is its own nearest neighbour
again = select_coordinates(kernel=kernel, intrinsic_dim=2, subset_size=2)
print(again.names, "as before" if again.subset == selection.subset else "another set")
