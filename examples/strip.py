"""A long strip: its first two eigenvectors make a curve, the two that are chosen make the strip.

python examples/strip.py [number of points]
"""

import sys

from ies_gpu import datasets, plot, save, select_coordinates

n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
strip = datasets.load("D1", n_samples=n)
bandwidth = 0.25 * (10_000 / n) ** 0.5  # as many neighbours for each point, however many points

selection = select_coordinates(strip.X, intrinsic_dim=2, subset_size=2, bandwidth=bandwidth)
print(selection)
plot.embedding(selection, (0, 1), colors=strip.colors, title="The first two").savefig("strip-first.png")
plot.embedding(selection, colors=strip.colors, title="The chosen two").savefig("strip-chosen.png")
save(selection, "strip.npz")
