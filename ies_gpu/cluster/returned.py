"""The way back: results in the user's order of points, as NumPy arrays or, for points that stay away, Dask arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Backend, get_backend
from ..errors import ClusterError
from ..run.options import Options
from .matrix import Graph, Rows
from .scores import Table
from .source import Source
from .team import Team

NAMES = ("coordinates", "regrets", "log_volumes", "singular_values", "bases")


def check_room(source: Source, options: Options) -> None:
    """Refuse, before the work, a result that does not fit the client."""
    if not source.local:
        return
    m, d = options.n_components, options.intrinsic_dim
    need = 8 * source.n * (m + d + 10 + (m * d if options.keep_bases else 0))
    free = get_backend("cpu").free_memory()
    if need > free:
        raise ClusterError(
            f"the result takes {need / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free here; pass X as a Dask array "
            "or as a path, and the result stays on the workers as Dask arrays"
        )


def arrays(
    team: Team,
    source: Source,
    graph: Graph,
    coordinates: list[Any],
    tangents: list[Any],
    table: Table,
    options: Options,
) -> dict[str, Any]:
    """The arrays of the result by name."""
    keep = bool(options.keep_bases)
    packed = team.map(packed_block, graph.transitions, coordinates, table.regrets, table.volumes, tangents, keep)
    found = at_client(team, graph, packed) if source.local else on_workers(team, source, graph, packed)
    return found | ({} if keep else {"bases": None})


def packed_block(
    backend: Backend, P: Rows, coordinates: Any, regrets: Any, volumes: Any, tangents: tuple[Any, Any], keep: bool
) -> tuple[np.ndarray, ...]:
    """The rows of a block in the input, and its results on the host."""
    bases, sigma = tangents
    kept = (coordinates, regrets, volumes, sigma, *((bases,) if keep else ()))
    return (P.rows, *(backend.to_host(array) for array in kept))


def at_client(team: Team, graph: Graph, packed: list[Any]) -> dict[str, Any]:
    """NumPy arrays, filled block by block."""
    rows, total, out = [], int(graph.sizes.sum()), {}
    places = np.empty(0, dtype=np.int64)
    owners = team.gather(team.map(rows_of, packed))
    points = np.sort(np.concatenate(owners))
    for block, own in zip(packed, owners, strict=True):
        places = np.searchsorted(points, own)
        for name, array in zip(NAMES, team.gather([block])[0][1:], strict=False):
            if name not in out:
                out[name] = np.empty((total, *array.shape[1:]), dtype=array.dtype)
            out[name][places] = array
        rows.append(own)
    return out | {"points": points}


def on_workers(team: Team, source: Source, graph: Graph, packed: list[Any]) -> dict[str, Any]:
    """Dask arrays in the chunks of the input."""
    import dask.array as da

    owners = team.gather(team.map(rows_of, packed))
    points = np.sort(np.concatenate(owners))
    spans = list(zip(source.ends[:-1].tolist(), source.ends[1:].tolist(), strict=True))
    chunks = [
        team.submit(
            one_chunk,
            *(
                team.submit(rows_between, block, a, b)
                for block, own in zip(packed, owners, strict=True)
                if ((own >= a) & (own < b)).any()
            ),
        )
        for a, b in spans
    ]
    sizes = np.diff(np.searchsorted(points, source.ends)).tolist()
    shapes = team.gather([team.submit(shapes_of, packed[0])])[0]
    found: dict[str, Any] = {"points": points}
    for k, (name, (tail, dtype)) in enumerate(zip(NAMES, shapes, strict=False)):
        parts = [
            da.from_delayed(team.submit(member, chunk, k), shape=(size, *tail), dtype=dtype)
            for chunk, size in zip(chunks, sizes, strict=True)
            if size
        ]
        found[name] = da.concatenate(parts, axis=0)
    return found


def rows_of(backend: Backend, packed: tuple[np.ndarray, ...]) -> np.ndarray:
    return packed[0]


def shapes_of(backend: Backend, packed: tuple[np.ndarray, ...]) -> list[tuple[tuple[int, ...], str]]:
    return [(array.shape[1:], array.dtype.name) for array in packed[1:]]


def rows_between(backend: Backend, packed: tuple[np.ndarray, ...], first: int, last: int) -> tuple[np.ndarray, ...]:
    chosen = np.flatnonzero((packed[0] >= first) & (packed[0] < last))
    return tuple(array[chosen] for array in packed)


def one_chunk(backend: Backend, *pieces: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    joined = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
    order = np.argsort(joined[0])
    return tuple(array[order] for array in joined[1:])


def member(backend: Backend, chunk: tuple[np.ndarray, ...], k: int) -> np.ndarray:
    return chunk[k]
