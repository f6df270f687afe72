"""What CuPy's functions cost beside their result: launches, waits and temporaries, as its 14.2 sources have them.

Launches of libraries (sorts, scans, factorisations) are counted as one per pass over the data. Bytes moved are those of
the operands, the result and the temporaries, each once: what a perfect cache would leave.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .machine import Machine


def nothing(args: tuple[Any, ...], out: Any) -> int:
    return 0


def of_first(factor: float = 1.0, plus: int = 0) -> Callable[[tuple[Any, ...], Any], int]:
    """Bytes for each entry of the first argument: ``factor`` of its own size, and ``plus``."""
    return lambda args, out: int(factor * args[0].nbytes + plus * args[0].size)


class Cost(NamedTuple):
    launches: int = 1
    waits: int = 0
    scratch: Callable[[tuple[Any, ...], Any], int] = nothing


VIEWS = {"reshape", "ravel", "transpose", "swapaxes", "broadcast_to", "expand_dims", "squeeze", "view", "asarray",
         "ascontiguousarray", "asfortranarray", "astype", "atleast_1d", "atleast_2d", "empty", "empty_like",
         "may_share_memory", "shares_memory", "result_type"}  # fmt: skip
REDUCTIONS = {"sum", "mean", "max", "min", "amax", "amin", "any", "all", "prod", "argmax", "argmin", "std", "var",
              "norm", "isin"}  # fmt: skip
COSTS = {
    # cumsum of the counts, arange and searchsorted of the result's length, take
    "repeat": Cost(6, 2, lambda args, out: 16 * out.size + 8 * args[1].size),
    "nonzero": Cost(4, 1, of_first(0, 4)),
    "flatnonzero": Cost(4, 1, of_first(0, 4)),
    "argwhere": Cost(4, 1, of_first(0, 4)),
    "unique": Cost(12, 2, of_first(3, 12)),
    "bincount": Cost(5, 2),
    "array_equal": Cost(2, 1),
    "allclose": Cost(6, 1),
    "argsort": Cost(6, 0, of_first(2, 8)),  # a copy, keys and numbers in two buffers each
    "argpartition": Cost(6, 0, of_first(2, 8)),
    "sort": Cost(5, 0, of_first(1)),
    "partition": Cost(5, 0, of_first(1)),
    "lexsort": Cost(16, 0, of_first(1, 8)),  # a merge sort for each key
    "median": Cost(8, 0, of_first(2)),
    "percentile": Cost(12, 0, of_first(2)),
    "cumsum": Cost(3),
    "norm": Cost(3, 0, of_first(1)),
    "mean": Cost(2),
    "eigh": Cost(6, 0, of_first(2)),
    "svd": Cost(6, 0, of_first(2)),
    "solve": Cost(4, 0, of_first(1)),
    "triu_indices": Cost(8, 1),
}


def charge(machine: Machine, name: str, args: tuple[Any, ...], out: Any, axis: Any = None) -> None:
    """Count what a function did that NumPy has just done."""
    arrays = [part for value in args for part in (value if isinstance(value, list | tuple) else (value,))]
    arrays = [part for part in arrays if isinstance(part, np.ndarray)]
    results = [part for part in (out if isinstance(out, tuple | list) else (out,)) if isinstance(part, np.ndarray)]
    if name in VIEWS and (name.startswith("empty") or any(np.may_share_memory(a, b) for a in arrays for b in results)):
        return
    by_array = name != "repeat" or (len(args) > 1 and isinstance(args[1], np.ndarray))
    cost = COSTS.get(name, Cost()) if by_array else Cost()
    launches = max(1, len(args[0])) if name in ("concatenate", "stack", "hstack", "vstack") else cost.launches
    given = (np.stack(args[0]), *args[1:]) if name == "lexsort" else args  # its keys are made one array
    scratch = cost.scratch(given, out) if arrays and (arrays[0] is args[0] or given is not args) else 0
    machine.scratch(scratch and scratch + sum(part.nbytes for part in results))
    machine.launch(launches, sum(part.nbytes for part in (*arrays, *results)) + 2 * scratch)
    for _ in range(cost.waits):
        machine.synchronise()
    if name in REDUCTIONS and arrays:
        machine.reduce(arrays[0], axis)


def charge_product(machine: Machine, a: np.ndarray, b: np.ndarray, out: Any) -> None:
    """A GEMM; operands that lie neither in rows nor in columns are copied first."""
    copied = sum(part.nbytes for part in (a, b) if not (part.flags.c_contiguous or part.flags.f_contiguous))
    machine.scratch(copied and copied + np.asarray(out).nbytes)
    machine.launch(1 + (copied > 0), a.nbytes + b.nbytes + np.asarray(out).nbytes + 2 * copied)
