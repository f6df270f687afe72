"""Chosen coordinates as the start of UMAP."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..backend import backend_of
from ..choice.naming import coordinate_numbers
from ..results.selection import Selection, check_selection
from ..validation import check_integer

REACH = 10.0  # umap-learn brings its own spectral start to a largest coordinate of 10
NOISE = 1e-4  # and adds this much, so that no two points coincide


def umap_init(selection: Selection, subset: Sequence[int | str] | None = None, *, random_state: int = 0) -> np.ndarray:
    """The array for ``umap.UMAP(init=...)``, as umap-learn scales its own spectral start.

    umap-learn takes an array as it is, but for noise where points coincide, and stretches each column to [0, 10] before
    the first epoch. Its spectral start is brought to a largest coordinate of 10 and blurred by 1e-4; so is this one.

    Parameters
    ----------
    selection : Selection
    subset : sequence of int or str, optional
        0-based numbers or names such as "phi7"; the chosen set unless given. ``range(s)`` gives the usual start by the
        first eigenvectors.
    random_state : int
        Seed of the noise.

    Returns
    -------
    array (n, s), float32, on the host
        For ``n_components=s``.
    """
    selection = check_selection(selection)
    Y = backend_of(selection.coordinates).to_host(selection.coordinates)
    chosen = Y[:, coordinate_numbers(selection.subset if subset is None else subset, Y.shape[1])]
    rng = np.random.default_rng(check_integer("random_state", random_state, low=0))
    scaled = chosen * (REACH / np.abs(chosen).max())
    return (scaled + rng.normal(scale=NOISE, size=scaled.shape)).astype(np.float32)
