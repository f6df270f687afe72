"""
Reading a result
================

What ``print(selection)`` and ``ies-gpu show`` print, line by line, and what to do about each warning.
"""

from ies_gpu import datasets, plot, select_coordinates

strip = datasets.load("D1", n_samples=5_000)
selection = select_coordinates(strip.X, intrinsic_dim=2, subset_size=2, bandwidth=0.35)
print(selection)

# %%
# Line by line
# ------------
#
# **Selection of phi1, ... from phi1..phi20 (... points)**
#   The chosen coordinates. ``phi1`` is the first non-constant eigenvector. In arrays counting starts at 0, so ``phi7``
#   is ``selection.coordinates[:, 6]``. If there are fewer points than you passed, some were left out, and a warning
#   says which.
# **zeta**
#   The weight of the penalty on fast coordinates, and the interval in which the same set wins. A wide interval is a
#   good sign. Do not compare zeta between data sets; ``selection.zeta_dimensionless`` can be compared.
# **mean score**
#   The mean logarithm of the volumes: 0 is perfect, -0.7 is half the volume. Compare it with the score of the first
#   coordinates, in brackets. If that is far below (-3 or less), the first coordinates have lost a dimension. If the two
#   are nearly equal, the first coordinates would do just as well.
# **runners-up**
#   The next best sets. If one of them differs from the chosen set by a neighbouring number (``phi8`` for ``phi7``),
#   the two have close eigenvalues, and another sample may choose the other. See :doc:`/stability`.
# **search**
#   Only for searches that do not score every set: how many they scored, and what they guarantee.
# **note**
#   Only for d = 1: all scores are 0, so the first coordinates are chosen.
# **features**
#   Only for molecules on the command line: what describes the shape of a frame.
# **mean degree**
#   Neighbours per point. 100 to 600 is usual. Below 20 the graph is thin; near the number of points there is no shape
#   left.
# **automatic**
#   What was found because you did not pass it, and how much of the variance of X the chosen coordinates explain.
# **verdict**
#   With *automatic*: how sure that choice is, in one word, and the reasons, the most serious first. If it is *sure*, go
#   on. If it is *likely*, look at the pictures first. If it is *doubtful*, there is a warning too, and
#   :doc:`/parameters` says what to look at.
# **residuals**
#   How accurate the eigenvectors are. Below 1e-6 is good.
# **device**
#   Where it ran. If you could expect a GPU, the reason why none was used is in brackets.
# **warning**
#   What may be wrong. See below.
#
# The path
# --------
#
# Each set is a straight line: it starts at its score and falls with its penalty. At each zeta the uppermost line wins.
# Below are the sets that win somewhere, and for each of them the regret of the points. The first set from the left
# whose upper quartile is not above 0 is chosen: three quarters of the points know no better set. The *loss* is
# **maximised**, because the paper calls the penalised score a loss (:doc:`/theory/criterion`).

plot.path(selection).savefig("path.png")

# %%
# The volumes
# -----------
#
# One volume per point: how far the tangent vectors of the map are from being dependent. With the chosen set, most
# points are well above 0; with the first two coordinates, nearly all are at 0.

plot.volumes(selection).savefig("volumes.png")

# %%
# ``ies-gpu show``
# ----------------
#
# ``ies-gpu show`` prints the same, followed by tables. The *path* lists, from zeta = inf down, each set with its
# interval of zeta, its mean score and the 75th percentile of its regret. The *best sets* are those at the chosen zeta,
# by loss. The *settings*, the *seconds* by stage and the *versions* let you repeat the run.

import subprocess
import sys

selection.save("run.npz")
shown = subprocess.run([sys.executable, "-m", "ies_gpu", "show", "run.npz"], capture_output=True, text=True, check=True)
print(shown.stdout)

# %%
# Warnings, and what to do
# ------------------------
#
# A warning means that the result may be wrong. Each has a code, which never changes, and stands with the reasons to
# doubt an automatic choice in ``selection.findings``, in the file and in ``--json``. In the sentences below, dots stand
# for what varies.
#
# About the graph
# ...............
#
# ``graph.left_out``: "the graph has ... parts"
#   Rows were left out; ``selection.points`` has those that were used. If the rows left out are strays, all is well. If
#   they are many, you have clusters: see :doc:`when_not_to_use_it`.
# ``graph.in_no_map``: "... in none of the ... maps"
#   From ``select_each_part``: these rows are strays, or belong to parts with too few points for a map.
# "part ... of ...:"
#   From ``select_each_part``: the message applies to this part only.
# ``graph.complete``: "... connects ... of all pairs of points"
#   Nearly all points are neighbours of each other. Lower the bandwidth, or leave it on ``"auto"``. If you passed
#   ``n_neighbors``, lower that.
# ``X.symmetric``: "X is a symmetric matrix, as distances and affinities are"
#   Each row of X was taken as a point. If X holds distances, pass it as ``graph``; affinities are a ``kernel``.
# ``molecule.mirrored``: "the frames occur in both hands"
#   Frames of a molecule are described by angles or distances, which their mirror images share. Use
#   ``datasets.torsion_features`` (``--features torsions``) if the sign of torsions matters.
# ``stray.excluded``: "... concentrated on a few stray points"
#   Single points have coordinates of their own, because they are barely connected to the rest. Pass
#   ``self_loops=False`` (molecules), raise the bandwidth, or leave out the rows in ``diagnostics["stray_points"]``.
# ``stray.kept``: "... so none could be excluded"
#   The same, for nearly all coordinates. Do not trust the map until one of these steps has helped.
#
# About parameters that were found
# ................................
#
# ``choice.doubtful``: "the automatic choice is doubtful:"
#   One of the reasons below follows. Try your own values and compare the pictures.
# ``choice.unexplained``: "the chosen coordinates explain ... of the variance of X"
#   The map leaves out much of the data. It may be noise, or a part of the shape: colour the map by the columns.
# ``choice.sheets``: "of the points, the map has several sheets on top of each other"
#   The map folds. Try one more coordinate.
# ``choice.regret``: "no set passes the regret test"
#   See "About the choice" below.
# ``choice.copies``: "each point comes ... times on average"
#   Copies predict each other, so every bandwidth looks good. Drop them.
# ``choice.few_points``: "only ... points"
#   Below 1,000 points nothing is sure. Look at the picture.
# ``choice.not_carried``: "the bandwidth found on ... points does not suit all of them"
#   The search ran on a sample. Try bandwidths around the one it found on all points.
# ``dimension.guess``: "no direction stands out from the noise around a point"
#   Set ``intrinsic_dim`` if you know it, or reduce the noise.
# ``dimension.close``: "the dimension may be ... instead of"
#   Run it with this dimension too, and compare.
# ``bandwidth.only_one``: "only one bandwidth keeps the points together"
#   There was nothing to compare with. Leave out strays and run again.
# ``bandwidth.only_local``: "no fixed bandwidth keeps the points together, only one that follows their density"
#   The density varies a lot. Take logarithms if that makes sense, or look at the sparse part on its own.
# ``choice.nearly_touch``: "parts that are far apart in X nearly touch in the map"
#   Points that are far apart lie side by side in the map. Look at it in three dimensions; with more points, or one more
#   coordinate, the parts may separate.
# ``choice.leading_as_good``: "the leading ... X just as well (for trees and clusters, prefer ...)"
#   The chosen coordinates add nothing to the first ones. See :doc:`when_not_to_use_it`.
# ``bandwidth.narrow``: "other bandwidths near ... explain visibly less"
#   Try values in between.
# ``size.largest_tried``: "coordinates, the most that were tried, may be too few"
#   Pass a larger ``subset_size``.
# ``size.one_more``: "coordinates may be better than"
#   Run it with this number too, and compare.
# ``dimension.bounded``: "the points seem to have ... dimensions"
#   You asked for fewer coordinates than the data seem to need. Raise ``subset_size``, or set ``intrinsic_dim`` if you
#   know it.
# ``columns.units``: "column ... of X has nearly all of the variance"
#   One column is much wider than the others. If the units differ, scale the columns.
# ``choice.one_column``: "the points look like a line along one column, which may be in another unit"
#   The same, as a reason for doubt.
# ``points.guessed``: "... points are too few to estimate anything from them"
#   There are fewer than 100 points. The values are guesses; pass your own.
# ``points.fewer_components``: "... needs at least ... points"
#   It was lowered. That is fine for small folds in cross-validation.
# ``points.fewer_neighbors``: "... needs at least ... points"
#   The same.
#
# About the choice
# ................
#
# ``search.regret``: "for every set on the path, percentile ... of the regret is positive"
#   No set satisfies three quarters of the points; the one with the best score is returned. Try ``subset_size`` + 1
#   first, then another bandwidth.
# ``dimension.thin``: "hardly vary along one of the ... dimensions"
#   The eigenvectors to choose from do not see all dimensions. Raise ``n_components``; a strip L times as long as wide
#   needs more than L. If that does not help, ``intrinsic_dim`` is too large.
# ``dimension.too_large``: "the points look like a shape of dimension ..."
#   For example, nearest neighbours lie along a curve, but ``intrinsic_dim`` is 2. A second coordinate then shows bends
#   and noise. Lower ``intrinsic_dim``. There is no warning for the opposite case, because noise looks like more
#   dimensions.
# ``search.gap``: "branch and bound stopped at its limit"
#   The set is good but not proven to be the best; the message says by how much another set could win.
# ``umap.not_two``: "... chosen, but UMAP makes 2 by default"
#   Pass ``n_components=`` to UMAP, or two coordinates to ``umap_init``.
#
# About new points
# ................
#
# ``new_points.isolated``: "... new points have no"
#   They are far from all training points, and get NaN or the coordinates of the nearest one. Do not interpret them.
# ``points.isolated``: "... training points ... no neighbour in the map"
#   The same for training points of an estimator that were left out of the map.
# ``new_points.faint``: "the diffusion damps ... by more than"
#   These coordinates are too fast to be continued to new points. Lower ``n_components`` or the bandwidth.
#
# About the computation
# .....................
#
# ``eigenvectors.residual``: "the eigensolver reached a residual of"
#   The eigenvectors are less accurate than you asked for. Up to 1e-6 that is harmless; otherwise, treat close
#   eigenvalues with care.
# ``memory.slow``: "... times as long as with enough memory"
#   The kernel does not fit into memory. The message names a ``memory_limit`` that would be enough.
# ``eigenvectors.foreign``: "phi... is not an eigenvector of laplacian"
#   You passed ``coordinates`` that do not belong to ``laplacian``. Usually their rows are in another order.
# ``kernel.differs``: "the kernel ... differs from plain code by"
#   A compiled kernel disagreed with plain code on sampled rows. The stage was repeated without it, so the result is
#   right. Please report it.
# ``kernel.not_compared``: "the kernel ... was not compared with plain code"
#   The check ran out of memory. The result is probably right, but unchecked.
# ``kernel.not_used``: "the CUDA kernels are not used on"
#   Plain CuPy code ran instead, slower. Please report it.
# ``device.cpu``: "running on the CPU:"
#   CuPy is installed, but no GPU could be used. Pass ``device="cpu"`` if that is what you want.
#
# About files and checkpoints
# ...........................
#
# "the first line, ..., is read as a point"
#   The table has no header, and its first line looks like column numbers, or like years above other numbers. Delete
#   that line if it is not one of your points.
# "the first line, ..., is read as the names of the columns"
#   The line numbers the columns after the row names, as pandas does, but it could also be a point. If it is one, put a
#   line with column names above it.
# ``checkpoint.not_saved``: "the stage ... was not saved"
#   The disk was full or not writable. The result is right; a restart would take longer.
# ``checkpoint.damaged``: "... is damaged; the stage is recomputed"
#   A checkpoint file was incomplete. The result is right.
# ``checkpoint.other_job``: "... holds a checkpoint of another job"
#   The checkpoint folder belongs to other data or options. Everything was recomputed, and the folder now holds this
#   job.
