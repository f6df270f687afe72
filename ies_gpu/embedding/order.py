"""An order of rows found from a matrix alone: rows that belong together are matched, then pairs of pairs and so on.

The tree of them gives the order, and its branches are the cells that points have in the order of space.
"""

from __future__ import annotations

import numpy as np

from ..backend import backend_of, host_of
from ..backend.array import Array

FEWEST_GROUPS = 256  # matching stops when no more groups than this are left
END = 127  # depth of the edge behind the last row: it is one of all cells


def matrix_order(matrix: Array) -> tuple[np.ndarray, np.ndarray]:
    """Return an order of the rows of a symmetric matrix of affinities, none of them negative, found on the host.

    Each row is matched with the one that it is tied to most, pairs are added up and matched in turn, small groups
    first; what ties two groups is measured per pair of rows in them. Returned are the old row at each new place (n,),
    and the depth of the edge before each row (n + 1,): those of depth r or more are edges of groups of up to ``2**r``.
    """
    backend = backend_of(matrix.data)
    host, kernels = backend.to_host, host_of(backend).kernels
    parts = host(matrix.indptr).astype(np.int64), host(matrix.indices), host(matrix.data).astype(np.float32)
    n = matrix.shape[0]
    sizes, rounds = np.ones(n, dtype=np.float32), []
    generator = np.random.default_rng(n)
    while len(sizes) > FEWEST_GROUPS:
        visits = np.argsort(sizes + generator.uniform(0, 0.5, len(sizes)), kind="stable")
        mates = kernels.heavy_matching(*parts, (1 / sizes).astype(np.float32), visits)
        leaders = np.flatnonzero(mates >= np.arange(len(mates)))
        if len(leaders) > 0.9 * len(mates):  # a star, or what is like one
            break
        *parts, labels = kernels.contract_pairs(*parts, leaders, mates)
        sizes = np.bincount(labels, weights=sizes).astype(np.float32)
        rounds.append(labels)
    place, edges = np.arange(len(sizes)), np.full(len(sizes) + 1, len(rounds), dtype=np.int8)
    edges[-1] = END
    for depth in reversed(range(len(rounds))):
        group = place[rounds[depth]]
        order = np.argsort(group, kind="stable")
        first = np.flatnonzero(np.diff(group[order], prepend=-1))
        finer = np.full(len(group) + 1, depth, dtype=np.int8)
        finer[first], finer[-1] = edges[:-1], END
        place, edges = np.argsort(order), finer
    return np.argsort(place), edges
