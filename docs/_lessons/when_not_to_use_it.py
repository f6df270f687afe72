"""
When not to use it
==================

The method assumes that the points lie near *one* smooth shape of *one* low dimension, and that there are enough of them
to see it. Here is what happens when that is not the case, and what to do instead.
"""

import warnings

import numpy as np
from matplotlib.figure import Figure

from ies_gpu import DisconnectedGraphError, estimate_dimension, select_coordinates

warnings.simplefilter("ignore")  # each case below prints its own
rng = np.random.default_rng(0)


def side_by_side(left, right, colors, titles, name):
    """Draw two columns of the data beside two coordinates of the map."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    for axes, points, title in zip(figure.subplots(1, 2), (left, right), titles, strict=True):
        axes.scatter(*points[:, :2].T, c=colors, s=4, cmap="viridis")
        axes.set_title(title)
    figure.savefig(name)


def report(selection):
    """Print the choice and every doubt about it."""
    print(", ".join(selection.names), "-", selection.verdict)
    for message in map(str, selection.findings):
        print("-", message)


# %%
# Clusters
# --------
#
# Here are three groups with gaps between them. Nothing connects the groups, so no map can show where they are in
# relation to each other. The error says how large they are.

centres = np.repeat([[0, 0, 0], [9, 0, 0], [4, 8, 0]], 400, axis=0)
blobs = centres + rng.normal(size=centres.shape)
try:
    report(select_coordinates(blobs))
except DisconnectedGraphError as error:
    print(error)

# %%
# With a bandwidth wide enough to bridge the gaps, the first coordinates only say which group a point is in. Each
# group shrinks to a spot. That is spectral clustering: useful, but not a map.

wide = select_coordinates(blobs, intrinsic_dim=2, subset_size=2, bandwidth=3.5)
report(wide)
group = np.arange(1200) // 400
side_by_side(blobs, wide.embedding, group, ("three groups", "their map: three spots"), "clusters.png")

# %%
# **Instead**: make one map per group. If gaps separate the groups, the error says how. If they touch, cluster
# first (HDBSCAN, Leiden) and call ``select_coordinates(X[labels == k])``. For a picture of all groups at once, use UMAP
# or t-SNE.
#
# Trees
# -----
#
# A Y has dimension 1 on its arms, and no dimension at the fork. With d = 1 all scores are 0 and the first coordinates
# are chosen. With d = 2 the method looks for a second direction that does not exist, and may mistake noise for it.

arm, place = rng.integers(0, 3, 1500), rng.uniform(0, 5, 1500)
directions = np.array([[0, -1], [0.87, 0.5], [-0.87, 0.5]])
tree = np.hstack([place[:, None] * directions[arm], np.zeros((1500, 6))])
tree += rng.normal(scale=0.08, size=(1500, 8))
line = select_coordinates(tree, intrinsic_dim=1, subset_size=2, bandwidth=0.5)
report(line)
side_by_side(tree, line.embedding, arm, ("a tree", "d = 1: the first two, arms kept apart"), "tree.png")

# %%
# For a tree the *first* coordinates are the right ones: one fewer than there are arms. With d = 2 the run doubts
# itself, and says that the first coordinates are as good.

report(select_coordinates(tree, intrinsic_dim=2, subset_size=2, bandwidth=0.25))

# %%
# **Instead**: use the first coordinates (``DiffusionMap``), or a method for trajectories, such as ``scanpy.tl.dpt`` or
# PAGA.
#
# Density that varies by orders of magnitude
# ------------------------------------------
#
# One bandwidth has to suit all points. This fan is a thousand times as dense at its tip as at its rim. A bandwidth that
# joins the rim blurs the tip, and even so some points of the rim are left out.

flat = rng.uniform(size=(1500, 2))
fan = np.exp(4 * flat[:, :1]) * np.column_stack([np.cos(flat[:, 1]), np.sin(flat[:, 1])])
report(select_coordinates(fan, bandwidth="fixed"))

# %%
# If you pass only the points, the bandwidth follows the density here. All points are in the map, which shows the whole
# fan, coloured by the angle. But the few points at the rim remain uncertain: two of them may be neighbours, or there
# may be a gap between them.

followed = select_coordinates(fan)
report(followed)
print("bandwidth:", followed.diagnostics["parameters"]["bandwidth"])
side_by_side(fan, followed.embedding, flat[:, 1], ("dense tip, sparse rim", "its map"), "uneven.png")

# %%
# **Instead**: thin out the dense part, or take logarithms if that makes sense. Compare the map with and without the
# sparse end.
#
# Too few points
# --------------
#
# Here is a strip with 2,000 and with 120 points. With few points, each has few neighbours, and the chosen coordinates
# change from sample to sample.

for size, bandwidth in ((2000, 0.25), (120, 1.0)):
    chosen = []
    for seed in range(6):
        own = np.random.default_rng(seed)
        strip = np.column_stack([own.uniform(0, 9, size), own.uniform(0, 2, size)])
        strip += own.normal(0, 0.1, (size, 2))
        try:
            selection = select_coordinates(strip, intrinsic_dim=2, subset_size=2, bandwidth=bandwidth)
            chosen.append(selection.names[1])
        except DisconnectedGraphError:
            chosen.append("none (in parts)")
    print(f"{size:5} points: phi1 with", ", ".join(chosen))

# %%
# **Instead**: use PCA, or a parametric model. If you must, look at :doc:`/judging` before you believe a choice.
#
# Many dimensions
# ---------------
#
# A cube of six dimensions has six directions, and the number of points needed to fill it grows with the sixth power.
# Among 3,000 points none has close neighbours, so a sixth of the variance around a point is lost along the worst
# direction. The six sides of this cube are still found, by the first six coordinates. If one side is four times as
# long, three times as much or more is lost, and the verdict is *doubtful*.

cube = rng.uniform(size=(3000, 6))
found = estimate_dimension(cube)
print("dimension", found.value, "-", found.confidence)
report(select_coordinates(cube, intrinsic_dim=6, subset_size=6, bandwidth=0.27))

# %%
# **Instead**: reduce the data to the few directions that matter with PCA and map these, or use features that do not see
# the others.
#
# No manifold at all
# ------------------
#
# In Gaussian noise in ten dimensions there is nothing to find, but there are always eigenvectors, and there is always
# a best set. Here they belong to single points far out, and the run says so.

noise = rng.normal(size=(1500, 10))
cloud = select_coordinates(noise, intrinsic_dim=2, subset_size=2, bandwidth=1.6, disconnected="largest")
report(cloud)
side_by_side(noise[cloud.points], cloud.embedding, noise[cloud.points, 0], ("noise", "its map"), "noise.png")

# %%
# Believe a result if it survives the checks of the :doc:`tutorial`: other bandwidths, other samples, and above all
# something that the map has not seen.
