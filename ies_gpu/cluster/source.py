"""Where the points of a cluster run come from: each worker reads its own rows of a file, or gets them in chunks."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import Backend, get_backend
from ..errors import ClusterError, brief
from ..files.containers import open_zarr
from ..findings import refusal
from ..options import Options
from ..validation import check_real_array, check_unmasked
from .team import PARSING, Team

CHUNK_BYTES = 64 << 20  # of one task that reads points
FEWEST_CHUNKS = 4
SENT_BYTES = 8 << 20  # the same where the points go with the task, by way of the scheduler


class Source:
    """Points in chunks of rows.

    Attributes
    ----------
    n, width : int
        How many points there are, and how many columns.
    ends : ndarray of shape (chunks + 1,)
        Where chunks begin, and n.
    chunks : list of Future
        The rows of each, as float64 on the workers.
    local : bool
        Whether the points are an array of the client, so that the results should be, too.
    """

    def __init__(self, team: Team, X: Any, options: Options) -> None:
        self.team = team
        kind = "path" if isinstance(X, (str, os.PathLike)) else "dask" if hasattr(X, "to_delayed") else "array"
        shape, dtype = self._shape(X, kind)
        check_unmasked("X", X)
        if len(shape) != 2 or min(shape) < 1:
            raise refusal("X.shape", f"X must have 2 axes, one row per point, got shape {shape}")
        if np.dtype(dtype).kind not in "buif":
            raise refusal("X.type", f"X must hold real numbers, got dtype {dtype}", kind=TypeError)
        self.n, self.width, self.local = int(shape[0]), int(shape[1]), kind == "array"
        options.check_shape(self.n, self.width)
        if self.local:
            way = "pass X as a Dask array or as a path, and the result stays on the workers as Dask arrays"
            check_room(self.n, options.n_components, options.intrinsic_dim, bool(options.keep_bases), way)
        if kind == "dask":
            X = X.rechunk({1: -1})
            self.ends = np.concatenate([[0], np.cumsum(X.chunks[0])])
            team.tasks += len(self.ends) - 1
            given = team.client.compute(X.to_delayed().ravel().tolist())
            self.chunks = team.map(checked, given, self.ends[:-1].tolist())
            return
        path = str(Path(X).absolute()) if kind == "path" else mapped_file(X)
        most = (CHUNK_BYTES if path is not None else SENT_BYTES) // (8 * self.width)
        rows = max(1, min(-(-self.n // FEWEST_CHUNKS), most))  # however many workers: a checkpoint is known by them
        self.ends = np.append(np.arange(0, self.n, rows), self.n)
        spans = list(pairwise(self.ends.tolist()))
        if path is not None:
            self.chunks = team.map(read, path, spans)
        else:
            self.chunks = [
                team.submit(checked, np.array(X[a:b], dtype=np.float64), a, block=k) for k, (a, b) in enumerate(spans)
            ]

    @staticmethod
    def _shape(X: Any, kind: str) -> tuple[tuple[int, ...], Any]:
        """Shape and dtype without reading the points."""
        if kind == "path":
            opened = open_rows(os.fspath(X))
            return tuple(opened.shape), opened.dtype
        shape, dtype = getattr(X, "shape", None), getattr(X, "dtype", None)
        if shape is None or dtype is None:
            text = f"X must be an array, a Dask array or a path to .npy or .zarr with client, got {brief(X)}"
            raise refusal("X.type", text, kind=TypeError)
        if any(size != size for size in shape):  # Dask does not know how many rows a filtered array has
            raise refusal("X.chunks", "X has chunks of unknown size", "call X.compute_chunk_sizes() first")
        return tuple(shape), dtype


def check_room(n: int, m: int, d: int, bases: bool, way: str) -> None:
    """Refuse, before the work, a result that does not fit the client."""
    need, free = 8 * n * (m + d + 10 + (m * d if bases else 0)), get_backend("cpu").free_memory()
    if need > free:
        text = f"the result takes {need / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free here"
        raise refusal("cluster.result_too_large", text, way, ClusterError)


def check_room_for(path: str, m: int, d: Any) -> None:
    """The same for points in a file whose result is to be saved here."""
    way = "leave out -o, and let the workers write the coordinates: --coordinates map.zarr or map.npy"
    check_room(len_of(path), m, 2 if d == "auto" else d, False, way)


def len_of(path: str) -> int:
    """How many points a file has."""
    return int(open_rows(path).shape[0])


def mapped_file(X: Any) -> str | None:
    """The file behind a memory map that shows all of it, as ``numpy.load(..., mmap_mode="r")`` gives it.

    Changes to a map of mode "c" are in the memory of this process alone, so the file is not what it shows.
    """
    name = getattr(X, "filename", None)
    if not isinstance(X, np.memmap) or name is None or not str(name).endswith(".npy") or X.mode == "c":
        return None
    whole = np.load(name, mmap_mode="r", allow_pickle=False)
    same = whole.shape == X.shape and whole.dtype == X.dtype and whole.offset == X.offset
    return str(name) if same and X.flags.c_contiguous == whole.flags.c_contiguous else None


READ = (".npy", ".zarr")  # endings of files whose rows can be read one by one


def open_rows(path: str) -> Any:
    """Open a file whose rows can be read one by one."""
    ending = Path(path).suffix.lower()
    if ending not in READ:
        way = "read it with dask.dataframe and pass its to_dask_array(lengths=True)" if ending == ".parquet" else ""
        raise refusal("X.format", f"{path}: with client, points are read from .npy or .zarr", way)
    if not Path(path).exists():
        raise refusal("X.missing", f"{path} does not exist", "check the path", FileNotFoundError)
    if ending == ".npy":
        with PARSING:
            return np.load(path, mmap_mode="r", allow_pickle=False)
    arrays = open_zarr(Path(path))
    if list(arrays) != ["X"]:
        text, advice = f"{path} must be one array of numbers", f"give the path of one, such as {path}/X.zarr"
        raise refusal("X.arrays", text, advice)
    return arrays["X"]


def read(backend: Backend, path: str, span: tuple[int, int]) -> np.ndarray:
    """Some rows of a file."""
    try:
        opened = open_rows(path)
    except FileNotFoundError:
        text, advice = f"a worker cannot see {path}", "put it on storage that all workers share"
        raise refusal("cluster.not_shared", text, advice, ClusterError) from None
    return checked(backend, opened[span[0] : span[1]], span[0])


def checked(backend: Backend, rows: Any, first: int) -> np.ndarray:
    """Rows as float64, all of them finite and their squares, too."""
    check_unmasked("X", rows)
    rows = np.array(rows, dtype=np.float64, order="C")
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        row = first + int(np.argmin(finite))
        raise refusal("X.not_finite", f"X must be finite, but row {row} is not", "drop such rows or fill them in")
    return check_real_array("X", rows, 2)
