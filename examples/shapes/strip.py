"""
A long strip
============

The first two eigenvectors of a strip of 25 by 4 give a curve. The chosen two give the strip.
"""

from ies_gpu import datasets, plot, select_coordinates

strip = datasets.load("D1", n_samples=5_000)
selection = select_coordinates(strip.X, intrinsic_dim=2, subset_size=2, bandwidth=0.35)
print(selection)
selection.save("strip.npz")  # read it with ies_gpu.load, or 'ies-gpu show strip.npz'

# %%
# The first eigenvector varies along the strip. So does the second, twice as fast: it is a function of the first, and
# the map has lost the width.

width = {"width": strip.truth[:, 1]}
plot.embedding(selection, (0, 1), colors=width, title="The first two").savefig("strip-first.png")

# %%
# The chosen partner is the slowest eigenvector that varies across the strip.

plot.embedding(selection, colors=width, title="The chosen two").savefig("strip-chosen.png")

# %%
# The path shows how the choice depends on the penalty zeta: at each zeta the uppermost line wins, and the regret
# decides between the winners.

plot.path(selection).savefig("strip-path.png")
