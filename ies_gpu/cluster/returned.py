"""The way back: results in the user's order of points, as NumPy arrays or, for points that stay away, Dask arrays."""

from __future__ import annotations

import os
import shutil
from itertools import pairwise
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import Backend
from ..errors import ClusterError
from ..files.writing import check_output
from ..findings import refusal
from .matrix import BlockLaplacian, Rows
from .source import Source
from .team import PARSING, Pieces, Team, item

NAMES = ("coordinates", "regrets", "log_volumes", "singular_values", "bases")
VOLUMES = NAMES.index("log_volumes")


def arrays(source: Source, laplacian: BlockLaplacian, tall: list[Pieces]) -> dict[str, Any]:
    """Return arrays in pieces by name, in the order of the input, and the points of the input that they are for."""
    team = laplacian.team
    packed = team.map(packed_block, laplacian.transitions, *(pieces.parts for pieces in tall))
    owners = team.gather(team.map(item, packed, 0))
    points = np.sort(np.concatenate(owners))
    found = at_client(team, packed, owners, points) if source.local else on_workers(source, packed, owners, points)
    return found | {"points": points}


def packed_block(backend: Backend, P: Rows, *arrays: Any) -> tuple[np.ndarray, ...]:
    """The rows of a block in the input, and its results on the host; of volumes there is one set."""
    host = [backend.to_host(array) for array in arrays]
    host[VOLUMES] = np.ascontiguousarray(host[VOLUMES][:, 0])
    return (P.rows, *host)


def at_client(team: Team, packed: list[Any], owners: list[np.ndarray], points: np.ndarray) -> dict[str, Any]:
    """NumPy arrays, filled block by block."""
    out: dict[str, Any] = {}
    for block, own in zip(packed, owners, strict=True):
        places = np.searchsorted(points, own)
        for name, array in zip(NAMES, team.gather([block])[0][1:], strict=False):
            if name not in out:
                out[name] = np.empty((len(points), *array.shape[1:]), dtype=array.dtype)
            out[name][places] = array
    return out


def on_workers(source: Source, packed: list[Any], owners: list[np.ndarray], points: np.ndarray) -> dict[str, Any]:
    """Dask arrays in the chunks of the input."""
    import dask.array as da
    from dask import delayed

    team = source.team
    sizes = np.diff(np.searchsorted(points, source.ends)).tolist()
    chunks = [
        team.submit(
            one_chunk,
            *(
                team.submit(rows_between, block, a, b, block=i)
                for i, (block, own) in enumerate(zip(packed, owners, strict=True))
                if ((own >= a) & (own < b)).any()
            ),
        )
        for (a, b), size in zip(pairwise(source.ends.tolist()), sizes, strict=True)
        if size
    ]
    kinds = team.submit(lambda _, own: [(array.shape[1:], array.dtype.name) for array in own[1:]], packed[0], block=0)
    shapes = team.gather([kinds])[0]
    team.wait(chunks)
    found: dict[str, Any] = {}
    for k, (name, (tail, dtype)) in enumerate(zip(NAMES, shapes, strict=False)):
        parts = [
            da.from_delayed(delayed(getitem)(chunk, k), shape=(size, *tail), dtype=dtype)
            for chunk, size in zip(chunks, filter(None, sizes), strict=True)
        ]
        found[name] = da.concatenate(parts, axis=0)
    return found


def padded(array: Any, points: np.ndarray, n: int) -> Any:
    """A Dask array with a row for each of n points of the input, NaN for those that are not among ``points``."""
    import dask
    import dask.array as da

    if len(points) == n:
        return array
    array = array.rechunk(dict.fromkeys(range(1, array.ndim), -1))
    ends = np.cumsum(array.chunks[0])
    firsts = np.concatenate([[0], points[ends[:-1]], [n]])  # each chunk takes the missing rows before the next one
    fill = dask.delayed(filled, pure=True)
    parts = [
        da.from_delayed(fill(piece, points[a:b] - first, last - first), (last - first, *array.shape[1:]), array.dtype)
        for piece, a, b, first, last in zip(
            array.to_delayed().ravel(), ends - array.chunks[0], ends, firsts[:-1], firsts[1:], strict=True
        )
    ]
    return da.concatenate(parts, axis=0)


def filled(rows: np.ndarray, places: np.ndarray, n: int) -> np.ndarray:
    """Rows at their places among n, the others NaN."""
    out = np.full((n, *rows.shape[1:]), np.nan, dtype=rows.dtype)
    out[places] = rows
    return out


def write_rows(array: Any, path: str | os.PathLike[str]) -> None:
    """Write a Dask array by block, completely or not at all; no block passes the client.

    Parameters
    ----------
    array : dask.array.Array
        Such as ``selection.embedding``; its chunks are on the workers of the current client.
    path : str or path-like
        An ``.npy`` file or a ``.zarr`` folder on storage that all workers share.

    Raises
    ------
    ValueError
        If the path ends otherwise, or a folder is there already.
    """
    target = Path(path).absolute()
    check_rows_output(target)
    array = array.rechunk(dict.fromkeys(range(1, array.ndim), -1))
    temporary = target.with_name(f".{target.name[:50]}.{os.urandom(6).hex()}.tmp")
    try:
        if target.suffix == ".npy":
            np.lib.format.open_memmap(temporary, mode="w+", dtype=array.dtype, shape=array.shape).flush()
            firsts = np.cumsum([0, *array.chunks[0][:-1]]).tolist()
            pieces = array.to_delayed().ravel()
            import dask

            put = dask.delayed(put_rows, pure=False)
            dask.compute(*(put(piece, str(temporary), first) for piece, first in zip(pieces, firsts, strict=True)))
        else:
            array.rechunk({0: max(array.chunks[0], default=1)}).to_zarr(str(temporary))
        os.replace(temporary, target)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        temporary.unlink(missing_ok=True)


def check_rows_output(path: Path) -> None:
    """Check, before long work, that rows can be written there by block."""
    if path.suffix not in (".npy", ".zarr"):
        raise refusal("output.rows", f"{path}: the workers write .npy or .zarr", "choose one of them")
    if path.suffix == ".zarr" and path.exists():
        raise refusal("output.exists", f"{path} already exists", "choose another name, or delete it")
    if path.suffix == ".npy":
        check_output(path, ".npy")
    elif not path.absolute().parent.is_dir():
        text = f"the folder {path.absolute().parent} does not exist"
        raise refusal("output.no_folder", text, "create it first", FileNotFoundError)


def put_rows(rows: np.ndarray, path: str, first: int) -> None:
    """Write some rows of an ``.npy`` file that is there."""
    if not Path(path).exists():
        text = f"a worker cannot see {Path(path).parent}"
        raise refusal("cluster.not_shared", text, "put the output on storage that all workers share", ClusterError)
    with PARSING:
        file = np.load(path, mmap_mode="r+", allow_pickle=False)
    file[first : first + len(rows)] = rows
    file.flush()


def rows_between(backend: Backend, packed: tuple[np.ndarray, ...], first: int, last: int) -> tuple[np.ndarray, ...]:
    chosen = np.flatnonzero((packed[0] >= first) & (packed[0] < last))
    return tuple(array[chosen] for array in packed)


def one_chunk(backend: Backend, *pieces: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    joined = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
    order = np.argsort(joined[0])
    return tuple(array[order] for array in joined[1:])
