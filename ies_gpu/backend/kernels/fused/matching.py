"""Groups of rows from a matrix alone: heavy matching and contraction; see :mod:`..plain_multilevel`."""

from __future__ import annotations

import numpy as np

from ...array import Array
from .tasks import SPARSE_CHUNK, compiled, in_threads


@compiled(entry=True)
def matched(indptr, indices, data, scale, visits, mates):
    """One thread: who is free depends on who came before."""
    for i in visits:
        if mates[i] >= 0:
            continue
        best, heaviest = i, np.float32(0)
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            weight = data[p] * scale[j]
            if (weight > heaviest or (weight == heaviest and j < best)) and weight > 0 and j != i and mates[j] < 0:
                best, heaviest = j, weight
        mates[i] = best
        mates[best] = i


def heavy_matching(indptr: Array, indices: Array, data: Array, scale: Array, visits: Array) -> Array:
    """See :func:`.plain_multilevel.heavy_matching`."""
    mates = np.full(len(visits), -1, dtype=np.int64)
    matched(indptr, indices, data, scale, visits, mates)
    return mates


@compiled(fused=True, entry=True)
def contracted(indptr, indices, data, leaders, mates, labels, total, seen, first, last, counts, out_indices, out_data):
    """Rows of a pair added up in the dense row ``total``; ``seen`` says which of its entries belong to this pair."""
    place = 0
    for c in range(first, last):
        before = place
        i = leaders[c]
        for side in range(2):
            if side == 1:
                if mates[i] == i:
                    break
                i = mates[i]
            for p in range(indptr[i], indptr[i + 1]):
                j = labels[indices[p]]
                if j == c:
                    continue
                if seen[j] != c:
                    seen[j], total[j] = c, 0.0
                    out_indices[place] = j
                    place += 1
                total[j] += data[p]
        for p in range(before, place):
            out_data[p] = total[out_indices[p]]
        counts[c] = place - before
    return place


def contract_pairs(
    indptr: Array, indices: Array, data: Array, leaders: Array, mates: Array
) -> tuple[Array, Array, Array, Array]:
    """See :func:`.plain_multilevel.contract_pairs`."""
    cells = len(leaders)
    labels = np.empty(len(mates), dtype=np.int32)
    labels[leaders] = labels[mates[leaders]] = np.arange(cells, dtype=np.int32)
    counts = np.empty(cells, dtype=np.int64)
    widths = np.diff(indptr)
    second = np.where(mates[leaders] == leaders, 0, widths[mates[leaders]])
    rooms = np.concatenate([[0], np.cumsum(widths[leaders] + second)])

    def chunk(first: int, last: int) -> tuple[Array, Array]:
        room = int(rooms[last] - rooms[first])
        found, values = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.float32)
        total, seen = np.empty(cells), np.full(cells, -1)
        used = contracted(
            indptr, indices, data, leaders, mates, labels, total, seen, first, last, counts, found, values
        )
        return found[:used].copy(), values[:used].copy()

    parts = in_threads(chunk, cells, max(SPARSE_CHUNK, cells // 16))
    starts = np.zeros(cells + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts, np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), labels
