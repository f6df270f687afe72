"""
Tutorial: make a map, then judge it
===================================

We have 2,000 measurements of 8 numbers each, and suspect that they depend on two hidden quantities. We make a map of
these, and then try to prove it wrong. It takes a minute on a laptop.
"""

# %%
# The data
# --------
#
# In practice you would not know where the points come from. Here they are a long sheet, bent into an S, turned in eight
# dimensions, with some noise. We set the two hidden quantities aside until the end.

import numpy as np
from scipy.stats import ortho_group

rng = np.random.default_rng(0)
n = 2_000
along, across = rng.uniform(-7, 7, n), rng.uniform(0, 2.2, n)
bend = 4.5 * np.sin(along / 4.5)
sheet = np.column_stack([bend, across, np.sign(along) * 4.5 * (1 - np.cos(along / 4.5))])
X = np.hstack([sheet, np.zeros((n, 5))]) @ ortho_group.rvs(8, random_state=0)
X += rng.normal(scale=0.05, size=X.shape)

# %%
# Choose coordinates
# ------------------
#
# We pass only the points, so the bandwidth, the dimension and the number of coordinates are found as well.

from ies_gpu import plot, select_coordinates

selection = select_coordinates(X)
print(selection)

# %%
# :doc:`reading` explains every line. Two coordinates were chosen, and they are not the first two. Here are the first
# two, coloured by two columns of the data.

columns = {"column 1 of X": X[:, 0], "column 2 of X": X[:, 1]}
plot.embedding(selection, (0, 1), colors=columns, title="The first two").savefig("first.png")

# %%
# And the chosen ones:

plot.embedding(selection, colors=columns, title="The chosen").savefig("chosen.png")

# %%
# The first two make a curve. The chosen two fill an area, and the columns vary smoothly over it. That is what you
# want to see: neighbours in the map have similar values.
#
# Is the map one-to-one?
# ----------------------
#
# The volume at each point says how far the chosen coordinates are from losing a dimension there. Volumes near 1 are
# good. A peak near 0 would mean a fold, or too few eigenvectors to choose from.

plot.volumes(selection).savefig("volumes.png")

# %%
# ``diagnose`` looks for the places where a map fails: coordinates that depend on each other, knots, sheets that pass
# through each other. For comparison, we also look at the first two.

from ies_gpu import diagnose

print("chosen:   ", diagnose(selection, X=X).verdict)
print("first two:", diagnose(selection, X=X, subset=(0, 1)).verdict)

# %%
# Would another sample give the same set?
# ---------------------------------------
#
# Refits on parts of the data say how often the same set is chosen.

from ies_gpu import selection_stability

print(selection_stability(selection, X=X, n_refits=10))

# %%
# A low share does not make the map wrong. Here the output says why it is low: the eigenvalues of two neighbours are so
# close that a sample may swap them. Up to such a swap the choice is safe, and the next check shows that the map stays
# the same.
#
# Does it depend on the bandwidth?
# --------------------------------
#
# The numbers of the coordinates may change with the bandwidth, because eigenvalues swap places. The picture should
# not.

bandwidth = selection.diagnostics["parameters"]["bandwidth"]
for factor in (0.8, 1.25):
    other = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=factor * bandwidth)
    shared = abs(np.corrcoef(selection.embedding.T, other.embedding.T)[:2, 2:]).max(axis=1)
    print(f"{factor} times the bandwidth: {', '.join(other.names)}, correlations {shared.round(2)}")

# %%
# Compare with what you know
# --------------------------
#
# The best test is something that the map has not seen. Here that is the two hidden quantities; in practice it may be a
# temperature, a label or a time. Colour by it, and ask how well the map predicts it.

plot.embedding(selection, colors={"along": along, "across": across}).savefig("truth.png")

from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsRegressor

for name, Y in {"chosen": selection.embedding, "first two": selection.coordinates[:, :2]}.items():
    for what, value in {"along": along, "across": across}.items():
        score = cross_val_score(KNeighborsRegressor(10), Y / Y.std(axis=0), value[selection.points], cv=5).mean()
        print(f"{name:10} predict {what:7} with R2 = {score:.2f}")

# %%
# Save it
# -------
#
# Save the result, and a model that puts new points into the same map.

selection.save("run.npz")  # ies_gpu.load("run.npz"), or 'ies-gpu show run.npz'
selection.model(X).save("model.npz")  # ies_gpu.load("model.npz").transform(new)

# %%
# Where to go from here: :doc:`/parameters` if a choice is doubtful, :doc:`/new-points`, :doc:`/scikit-learn` for
# pipelines, and :doc:`when_not_to_use_it`.
