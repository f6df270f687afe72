"""Compares kernels with plain code on small inputs, before their first use on a GPU."""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..findings import Finding, one_line, tell, warning
from .array import starts_of
from .audit import difference, score_difference, tangent_difference
from .base import ran_out_of_memory
from .kernels import plain
from .kernels.cuda import launch

# roundings add up to some 1e-13 and 1e-5, whether or not a product and a sum are rounded together
TOLERANCE = {"float64": 1e-9, "float32": 1e-3}
DOUBLE, SINGLE = TOLERANCE
EITHER, PAIRS = ((DOUBLE,), (SINGLE,)), ((DOUBLE, DOUBLE), (SINGLE, DOUBLE), (SINGLE, SINGLE))
# the types for which a kernel has a text each, that of the results last, or all are float32; arguments that have them
TYPES: dict[str, tuple[tuple[Any, ...], ...]] = {
    "near_pairs": EITHER, "spmm": PAIRS, "scaled_entries": EITHER,
    "smallest_labels": EITHER, "tangent_rows": (*PAIRS, (DOUBLE, SINGLE)), "tangent_rows_single": ((SINGLE,),),
    "score_block": tuple(itertools.product(range(1, launch.MAX_DIM + 1), TOLERANCE)), "symmetric_entries": EITHER,
    **dict.fromkeys(("merge_columns", "merge_rows", "block_product", "restrict", "shifted_product", "descend"), ((),)),
    "turn": ((),), "column_products": EITHER, "unit_beside": ((DOUBLE,),),
    "symmetric_product": PAIRS[:2],
}  # fmt: skip
TYPED = {
    "near_pairs": (8,), "spmm": (2, 3), "scaled_entries": (2,), "smallest_labels": (2,),
    "tangent_rows": (2, 3), "score_block": (0,), "symmetric_entries": (2,), "column_products": (0,),
    "unit_beside": (0,), "tangent_rows_single": (2,), "symmetric_product": (2, 3),
}  # fmt: skip


class Kernels:
    """The CUDA kernels of one device. Before its first use each is compared with plain code, or gives way to it."""

    def __init__(self, device: str, kernels: Any = launch) -> None:
        self.device, self.kernels = device, kernels
        self.faults: dict[str, str] = {}  # why a kernel is not used, by name and types; by an empty name, why none is
        self.compared: set[str] = set()

    @property
    def NAME(self) -> str:  # noqa: N802 - as in the kernel modules
        return plain.NAME if "" in self.faults else self.kernels.NAME

    def __getattr__(self, name: str) -> Any:
        if name not in TYPES:
            return getattr(self.kernels, name)

        @functools.wraps(getattr(plain, name))
        def guarded(*arguments: Any, **more: Any) -> Any:
            """The kernel, if it agrees with plain code for arrays of these types."""
            if self.trusted(name, *types_of(name, arguments)):
                return getattr(self.kernels, name)(*arguments, **more)
            return getattr(plain, name)(*arguments, **more)

        setattr(self, name, guarded)  # looked up once
        return guarded

    def complaints(self) -> list[Finding]:
        """Return each fault as a finding."""
        advice, ours = "please report this with the output of 'ies-gpu doctor --selftest'", "the CUDA kernel"
        named = ((f"{ours} {kernel!r} is" if kernel else f"{ours}s are", why) for kernel, why in self.faults.items())
        texts = (f"{what} not used on {self.device}: {why}. Plain code runs instead, slower" for what, why in named)
        return [warning("kernel.not_used", text, advice) for text in texts]

    def trusted(self, kernel: str, *types: Any) -> bool:
        """Return whether a kernel agrees with plain code for some types; say so once if it does not.

        A kernel that differs is not used. Where one does not even run, others will not either: none is used then.
        """
        name = " ".join(map(str, (kernel, *types)))
        if "" not in self.faults and name not in self.compared:
            self.compared.add(name)
            try:
                difference = kernel_difference(self.kernels, importlib.import_module("cupy"), kernel, types)
                if not difference <= tolerance(types):
                    self.faults[name] = f"it differs from plain code by {difference:.1e} on a small input"
            except Exception as error:  # CompileException, a launch that failed, a driver that is too old for it
                if isinstance(error, MemoryError) or ran_out_of_memory(error):
                    self.compared.remove(name)
                    raise
                self.faults[""] = f"{kernel} does not run ({one_line(error)})"
            if name in self.faults or "" in self.faults:
                tell(self.complaints()[-1])
        return "" not in self.faults and name not in self.faults


def types_of(kernel: str, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Return those of a kernel's types that arguments have."""
    given = (arguments[place] for place in TYPED.get(kernel, ()))
    types = tuple(str(getattr(argument, "dtype", argument)) for argument in given)
    return (min(arguments[0].shape[2], launch.MAX_DIM), *types) if kernel == "score_block" else types


def tolerance(types: Sequence[Any]) -> float:
    """Return how far a kernel of some types may be from plain code on a small input."""
    return TOLERANCE[types[-1] if types else SINGLE]


def kernel_difference(kernels: Any, xp: Any, kernel: str, types: Sequence[Any], **sizes: Any) -> float:
    """Return how far a kernel is from plain code on small inputs; 0 where there is no such kernel.

    Plain code works on the host: CuPy need not compile what nothing else takes.
    """
    worst = 0.0
    for case in small_cases(kernel, types, **sizes):
        given = [xp.array(a) if isinstance(a, np.ndarray) else a for a in case]
        results = getattr(kernels, kernel)(*given)
        results = list(results) if isinstance(results, tuple) else [results]
        # and the arguments, to which a kernel may write
        found = [a.get(blocking=False) if hasattr(a, "get") else a for a in (*results, *given)]
        if xp is not np:  # the device is waited for once
            xp.cuda.get_current_stream().synchronize()
        results = found[: len(results)]
        if kernel in ("tangent_rows", "tangent_rows_single"):
            worst = max(worst, tangent_difference(*case[:5], *results))
        elif kernel == "score_block":
            worst = max(worst, score_difference(*found[1:]))
        elif kernel != "near_pairs":
            expected = getattr(plain, kernel)(*case)
            worst = max(worst, difference(found, [*(expected if isinstance(expected, tuple) else [expected]), *case]))
        elif results[0] is not None:  # of which plain code has none: tiles find the same pairs
            counts, columns, distances = plain.tile_graph(case[0], case[0], case[5])
            worst = max(worst, difference(results, [starts_of(counts), columns, distances]))
    return worst


def small_cases(kernel: str, types: Sequence[Any] = (), *, n: int = 80, k: int = 20, seed: int = 0) -> list[list[Any]]:
    """Return arguments of a kernel, once or more, as NumPy arrays.

    A matrix has n rows of up to 69 positive entries, the first of none and the second of one; vectors have k columns.
    """
    rng, dtype = np.random.default_rng(seed), types[-1] if types else SINGLE
    counts = rng.integers(0, min(n, 70), n)
    counts[:2] = np.arange(2)[:n]
    columns = [np.sort(rng.choice(n, count, replace=False)) for count in counts]
    indices = np.concatenate(columns).astype(np.int32)
    pattern = np.concatenate([[0], np.cumsum(counts)]), indices
    data = rng.random(len(indices)).astype(types[0] if types and kernel != "score_block" else SINGLE)
    V, P, image = (rng.normal(size=(n, k)).astype(dtype) for _ in range(3))
    cells = np.unique([0, min(1, n - 1), *rng.integers(0, n, n // 8), n])  # of consecutive rows
    left, right, factor = (rng.random(size) + 1 for size in (n, n, k))
    curvature, weights, shift = rng.random(k) - 0.1, left.astype(SINGLE), (100 + factor).astype(SINGLE)
    matrix, scale = (*pattern, data), 0.9 ** np.arange(k, dtype=dtype)
    if kernel == "near_pairs":
        Z, ends = np.sort(rng.random((n, 3)), axis=0), np.unique([0, *range(min(n, 50), n, 2), n])  # one cell is large
        parts = [Z[first:last] for first, last in itertools.pairwise(ends)]
        boxes = (np.array([end(part, axis=0) for part in parts]) for end in (np.min, np.max))
        return [[Z, ends, *boxes, 0.04, 0.2, True, 1.0, dtype]]
    if kernel == "score_block":
        bases = np.linalg.qr(rng.normal(size=(n, 10, types[0])))[0].astype(dtype)
        sets = np.array(list(itertools.combinations(range(10), max(3, types[0]))), dtype=np.int32)
        return [[bases, sets, np.zeros(len(sets)), np.zeros(n, dtype=np.int32), np.zeros(n)]]
    if kernel == "merge_rows":
        return [[*plain.merge_columns(*matrix, cells, weights), cells, weights, len(cells) - 1]]
    cases: dict[str, list[list[Any]]] = {
        "spmm": [[*matrix, V], [*matrix, V[:, 0].copy()]],
        "symmetric_product": [[*matrix, left, right, V[:, 0].copy()]],
        "scaled_entries": [[*matrix, left, right]],
        "smallest_labels": [[*matrix, rng.permutation(n).astype(np.int32)]],
        "tangent_rows": [[*matrix, V * scale, rng.permutation(n)[: n // 2], min(k, launch.MAX_DIM)]],
        "tangent_rows_single": [[*matrix, (V * scale).astype(DOUBLE), rng.permutation(n), min(k, launch.MAX_DIM)]],
        "symmetric_entries": [[*matrix, left]],
        "merge_columns": [[*matrix, cells, weights]],
        "block_product": [[*matrix, V], [*matrix, V, P, shift]],
        "restrict": [[cells, weights, V]],
        "shifted_product": [[*matrix, shift, P, image]],
        "descend": [[np.zeros_like(P), V, P, image, factor, curvature]],
        "turn": [[V, P, factor, factor[::-1].copy()]],
        "column_products": [[V, P], [V]],
        "unit_beside": [[V[:, 0], image, np.zeros(1), np.zeros(n)] for image in (P[:, 0], None)],
    }
    return cases[kernel]
