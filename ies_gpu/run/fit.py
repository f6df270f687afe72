"""The steps at given parameters, which a run and every trial of the automatic search share."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..backend import to_host
from ..backend.array import Array
from ..backend.steps import Do
from ..choice.rmetric import Tangents, tangent_spaces
from ..choice.search import SearchResult, choose_coordinates
from ..choice.untangle import untangle
from ..embedding.diffusion import Embedding, diffusion_map
from ..embedding.laplacian import Laplacian
from ..options import Options


class Fit(NamedTuple):
    """A map with its tangent spaces. The Laplacian is without its matrix: several would not fit beside each other."""

    laplacian: Laplacian
    embedding: Embedding
    tangents: Tangents


def mapped(laplacian: Laplacian, options: Options, do: Do) -> Embedding:
    """Return the diffusion map that the options ask for, with its few numbers on the host."""
    m, seed = options.n_components, options.random_state
    found = do(diffusion_map, laplacian, n_components=m, tol=options.tol, random_state=seed)
    few = ("eigenvalues", "residuals", "gaps", "angles")
    return replace(found, **{name: to_host(getattr(found, name)) for name in few})


def fit(laplacian: Laplacian, options: Options, do: Do, embedding: Embedding | None = None) -> Fit:
    """Return the map of a Laplacian, unless it is given, and its tangent spaces."""
    embedding = embedding or mapped(laplacian, options, do)
    d, dtype = options.intrinsic_dim, options.arithmetic
    tangents = do(tangent_spaces, laplacian, embedding, intrinsic_dim=d, dtype=dtype)
    return Fit(laplacian.without_matrix, embedding, tangents)


def searched(tangents: Tangents, embedding: Embedding, options: Options, do: Do) -> SearchResult:
    """Return the choice that the options ask for."""
    return do(
        choose_coordinates, tangents, embedding, subset_size=options.subset_size, zeta=options.zeta_given,
        percentile=options.percentile, search=options.search, random_state=options.random_state,
    )  # fmt: skip


def untangled(
    X: Array | None, laplacian: Laplacian | None, options: Options, fit: Fit, found: SearchResult, do: Do
) -> np.ndarray | None:
    """Return the weights of eigenvectors in the chosen coordinates; None if these stay as they are.

    They are tested by the points or, without them, by the graph of the Laplacian.
    """
    if not options.untangle or (X is None and laplacian is None):
        return None
    values, rows = fit.laplacian.scale * fit.embedding.eigenvalues, fit.laplacian.rows.order
    tested_by = {"laplacian": laplacian} if X is None else {"X": X, "rows": rows}
    return do(untangle, fit.embedding.vectors, values, *fit.tangents, found.subset, **tested_by)
