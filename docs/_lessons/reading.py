"""
Reading a result
================

What ``print(selection)`` and ``ies-gpu show`` print, line by line, and what the pictures show.
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
# **verdict**
#   Whether you can trust the map, in one word, with the question that failed and why. If it is *sure*, go on. If it is
#   *likely*, look at the pictures first. If it is *doubtful*, follow the advice beside it, or :doc:`/parameters`. The
#   next lines have the answers behind it, each *good*, *fair*, *bad* or *not checked*; ``selection.judgement`` has them
#   for programs.
# **rank**
#   Does the map keep every direction around a point? It gives the share of the variance that is lost along the worst
#   one; :doc:`/judging` has the limits.
# **shape**
#   Is it free of folds, knots and overlaps? Up to 1,000 points are looked at; :doc:`/judging` shows where they are.
# **stable**
#   Would another sample choose this set, or a twin of it? If few resamples do, the set is not stable. If many do, that
#   proves little, since they keep the eigenvectors, and the line says "not checked" until you refit (:doc:`/judging`).
# **doubt**
#   Further reasons to doubt the choice, the gravest first.
# **needed**
#   Are the leading coordinates worse? If not, you may as well use them. The verdict does not depend on it.
# **redundant**
#   Why others were passed over: those that are functions of an earlier coordinate, and those that are about the product
#   of two. Looked at are the coordinates up to a few after the last chosen one.
# **zeta**
#   The weight of the penalty on fast coordinates, and the interval in which the same set wins. A wide interval is a
#   good sign. Do not compare zeta between data sets; ``selection.zeta_dimensionless`` can be compared.
# **mean score**
#   The mean logarithm of the volumes: 0 is perfect, -0.7 is half the volume. Compare it with the score of the first
#   coordinates, in brackets. If that is far below (-3 or less), the first coordinates have lost a dimension. If the two
#   are nearly equal, the first coordinates would do just as well.
# **runners-up**
#   The next best sets. If one of them differs from the chosen set by a neighbouring number (``phi8`` for ``phi7``),
#   the two have close eigenvalues, and another sample may choose the other. See :doc:`/judging`.
# **search**
#   Only for searches that do not score every set: how many they scored, and what they guarantee.
# **note**
#   What else was done. Here ``phi7`` is turned a little towards eigenvectors that the sample cannot tell from it,
#   because the map is better for it (:doc:`/theory/criterion`). ``selection.embedding`` has it turned,
#   ``selection.coordinates`` as it was; ``untangle=False`` leaves it alone. For d = 1, all scores are 0, so the first
#   coordinates are chosen.
# **features**
#   Only for molecules on the command line: what describes the shape of a frame.
# **mean degree**
#   Neighbours per point. 100 to 600 is usual. Below 20 the graph is thin; near the number of points there is no shape
#   left.
# **automatic**
#   What was found because you did not pass it, and how much of the variance of X the chosen coordinates explain.
# **residuals**
#   How accurate the eigenvectors are. Below 1e-6 is good.
# **device**
#   Where it ran. If you might expect a GPU, the reason why none was used is in brackets.
# **warning**
#   What may be wrong. See :doc:`/messages`.
#
# The path
# --------
#
# Each set is a straight line: it starts at its score and falls with its penalty. At each zeta the uppermost line wins.
# Below are the sets that win somewhere, and for each of them the regret of the points. The first set from the left
# whose upper quartile is not above 0 is chosen: for three quarters of the points there is no better set. The *loss* is
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
# In a shell
# ----------
#
# After ``selection.save("run.npz")``, ``ies-gpu show run.npz`` prints the same, followed by the path as a table: each
# set with its interval of zeta, its mean score and the 75th percentile of its regret. ``--json`` prints everything,
# with the settings, the seconds by stage and the versions that you need to repeat the run.

selection.save("run.npz")
