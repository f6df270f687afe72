"""
Tutorial: make a map, judge it
==============================

Install the package, make a map of 2,000 points, and then try to prove it wrong. It takes a minute on a laptop.

.. code-block:: bash

   pip install 'ies-gpu[plot] @ git+https://github.com/ies-gpu/ies-gpu'

:doc:`/install` has other ways, such as from a clone.
"""

# %%
# The data
# --------
#
# In practice you would not know where the points come from. Here they lie on a long strip of 25 by 4, in three columns,
# with some noise. We set aside where on the strip each point lies until the end. Your own points are an array or a data
# frame with one row per point (:doc:`/data`).

from ies_gpu import datasets

strip = datasets.load("D1", n_samples=2_000)
X = strip.X
along, across = strip.truth.T
print(X.shape)

# %%
# Choose coordinates
# ------------------
#
# We pass only the points, so the bandwidth, the dimension and the number of coordinates are found as well.

from ies_gpu import plot, select_coordinates

selection = select_coordinates(X)
print(selection)

# %%
# The first line has the answer, and the verdict under it says whether to trust it, with the answers to three questions:
# does the map keep every direction (*rank*), is it whole (*shape*), would another sample choose it (*stable*).
# :doc:`reading` explains every line. Two coordinates were chosen, and they are not the first two. Here are the first
# two, coloured by two columns of the data.

columns = {"column 1 of X": X[:, 0], "column 2 of X": X[:, 1]}
plot.embedding(selection, (0, 1), colors=columns, title="The first two").savefig("first.png")

# %%
# And the chosen ones:

plot.embedding(selection, colors=columns, title="The chosen").savefig("chosen.png")

# %%
# The first two make a curve, on which the second column is scattered. The chosen two fill an area, and both columns
# vary smoothly over it. That is what you want to see: neighbours in the map have similar values. It does not matter
# that one end is stretched.
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
# The run has resampled the points but kept the eigenvectors. Refits on parts of the data let the eigenvectors vary too.

from ies_gpu import selection_stability

print(selection_stability(selection, X=X))

# %%
# A low share does not make the map wrong. Here the output says why it is low: the eigenvalues of two neighbours are so
# close that a sample may swap them. The next check shows that the map stays the same.
#
# Does it depend on the bandwidth?
# --------------------------------
#
# The numbers of the coordinates may change with the bandwidth, because eigenvalues swap places. The picture should
# not.

import numpy as np

bandwidth = selection.diagnostics["parameters"]["bandwidth"]
for factor in (0.8, 1.25):
    other = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=factor * bandwidth)
    shared = abs(np.corrcoef(selection.embedding.T, other.embedding.T)[:2, 2:]).max(axis=1)
    print(f"{factor} times the bandwidth: {', '.join(other.names)}, correlations {shared.round(2)}")

# %%
# Compare with what you know
# --------------------------
#
# The best test is something that the map has not seen. Here that is the place on the strip; in practice it may be a
# temperature, a label or a time. Colour by it, and ask how well the map predicts it.

plot.embedding(selection, colors={"along": along, "across": across}).savefig("truth.png")

from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsRegressor

for name, Y in {"chosen": selection.embedding, "first two": selection.coordinates[:, :2]}.items():
    for what, value in {"along": along, "across": across}.items():
        scores = cross_val_score(KNeighborsRegressor(10), Y / Y.std(axis=0), value[selection.points], cv=5)
        print(f"{name:10} predict {what:7} with R2 = {scores.mean():.2f}")

# %%
# Save it, and add new points
# ---------------------------
#
# Save the result, and a model that puts new points into the same map (:doc:`/new-points`).

selection.save("run.npz")  # ies_gpu.load("run.npz"), or 'ies-gpu show run.npz'
model = selection.model(X)
model.save("model.npz")
print(model.transform(datasets.load("D1", n_samples=3, random_state=1).X))

# %%
# Where to go from here: :doc:`/parameters` if the verdict is doubtful, :doc:`/pipelines` for scikit-learn, and
# :doc:`when_not_to_use_it`.
