"""Chosen coordinates as the start of UMAP."""

from collections.abc import Sequence

import numpy as np
from scipy.spatial import KDTree

from ..backend import to_host
from ..backend.array import Array
from ..choice.criterion import coordinate_numbers
from ..findings import refusal
from ..results.selection import Selection, check_selection, is_whole, used_points
from ..validation import check_points

REACH = 10.0  # umap-learn brings its own spectral start to a largest coordinate of 10
NOISE = 1e-4  # and adds this much, so that no two points coincide


def umap_init(selection: Selection, subset: Sequence[int | str] | None = None, *, X: Array = None) -> np.ndarray:
    """Return the array for ``umap.UMAP(init=...)``, scaled like umap-learn's own spectral start.

    umap-learn stretches each column to [0, 10] before the first epoch.

    Parameters
    ----------
    selection : Selection
        The result of :func:`ies_gpu.select_coordinates`.
    subset : sequence of int or str, optional
        0-based numbers or names such as "phi7". By default the chosen set. ``range(s)`` gives the usual start by the
        first eigenvectors.
    X : array of shape (n, D), optional
        The points of both, needed only if some are not in the map: these get the row of the nearest point that is.

    Returns
    -------
    array of shape (n, s), float32
        One row per input point, on the host, for ``umap.UMAP(n_components=s)``.

    Examples
    --------
    >>> from ies_gpu import datasets, select_coordinates, umap_init
    >>> X = datasets.load("D1", n_samples=500).X
    >>> selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.2)
    >>> umap_init(selection, X=X).shape
    (500, 2)
    """
    selection = check_selection(selection)
    Y = to_host(selection.coordinates)
    chosen = to_host(selection.embedding) if subset is None else Y[:, coordinate_numbers(subset, Y.shape[1])]
    if X is not None:
        X, kept = to_host(check_points(X)), to_host(selection.points)
        used, rows = used_points(selection, X), np.full(len(X), -1)
        rows[kept] = np.arange(len(kept))
        if len(left_out := np.flatnonzero(rows < 0)):
            rows[left_out] = KDTree(used).query(X[left_out])[1]
        chosen = chosen[rows]
    elif not is_whole(selection):
        text = "some points are not in the map, and UMAP needs a row for each"
        advice = "use umap_init(selection, X=X), which gives each of them the row of its nearest point, or fit UMAP to "
        raise refusal("umap.left_out", text, f"{advice}X[selection.points] only")
    noise = np.random.default_rng(0).normal(scale=NOISE, size=chosen.shape)
    return (chosen * (REACH / np.abs(chosen).max()) + noise).astype(np.float32)
