"""The guard of the CUDA kernels: each is compared with plain code on a small input before its first use on a device."""

from __future__ import annotations

import functools
import importlib
import itertools
from typing import Any

import numpy as np

from ..errors import first_line
from ..findings import Finding, tell, warning
from .array import Array
from .kernels import agreement, plain
from .kernels.cuda import launch
from .out_of_memory import ran_out_of_memory

GUARD_TOLERANCE = {"float64": 1e-9, "float32": 1e-3}
# kernels over the rows of a sparse matrix, and what they are compared with plain code together with: products and the
# like for each pair of types, those of the multilevel eigensolver all at once
LEVELS = (
    "symmetric_entries", "merge_columns", "merge_rows", "block_product", "restrict", "shifted_product", "descend",
    "turn", "column_products",
)  # fmt: skip
OVER_ROWS = dict.fromkeys(("spmm", "vector_product", "scaled_entries", "smallest_labels"), "rows")
OVER_ROWS |= dict.fromkeys(LEVELS, "levels") | dict.fromkeys(("near_pairs", "degrees"), "pairs")


class Kernels:
    """The CUDA kernels of one device, compared with their plain twins before the first use; all else is plain code.

    Attributes
    ----------
    fault : str
        Why they are not used, if they are not.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.fault = ""
        self.compared: set[str] = set()  # precisions

    @property
    def NAME(self) -> str:  # noqa: N802 - as in the kernel modules
        return plain.NAME if self.fault else launch.NAME

    def __getattr__(self, name: str) -> Any:
        if name not in OVER_ROWS:
            return getattr(launch, name)

        @functools.wraps(getattr(plain, name))
        def guarded(*arguments: Any, **more: Any) -> Any:
            """The kernel, if it agrees with plain code for arrays of these types."""
            group = OVER_ROWS[name]
            if group == "rows":
                group += "".join(f" {a.dtype}" for a in (arguments[2], arguments[3]) if a.dtype.kind == "f")
            return getattr(launch if self.trusted(group) else plain, name)(*arguments, **more)

        return guarded

    def tangent_rows(
        self, indptr: Array, indices: Array, weights: Array, Y: Array, rows: Array, d: int
    ) -> tuple[Array, Array]:
        sound = self.trusted(str(Y.dtype)) and (weights.dtype == Y.dtype or self.trusted("mixed"))
        tangents = launch.tangent_rows if sound else launch.tangents_in_parts
        return tangents(indptr, indices, weights, Y, rows, d)

    def score_bytes(self, q: int, s: int, d: int) -> float:
        return (plain if self.fault else launch).score_bytes(q, s, d)

    def score_block(self, U: Array, subsets: Array, totals: Array, best: Array, best_score: Array) -> None:
        sound = self.trusted(f"scores {min(U.shape[2], launch.MAX_DIM)} {U.dtype}")
        score = launch.score_block if sound else launch.score_in_parts
        score(U, subsets, totals, best, best_score)

    def tangent_bytes(self, m: int, d: int, degree: float) -> float:
        return (plain if self.fault else launch).tangent_bytes(m, d, degree)

    def scaled_bytes(self, degree: float) -> float:
        return (plain if self.fault else launch).scaled_bytes(degree)

    @property
    def complaint(self) -> Finding | None:
        """The fault as a finding, if there is one."""
        if not self.fault:
            return None
        text = f"the CUDA kernels are not used on {self.device}: {self.fault}. Plain code runs instead, slower"
        return warning("kernel.not_used", text, "please report this with the output of 'ies-gpu doctor --selftest'")

    def trusted(self, name: str) -> bool:
        """Whether the kernels agree with their twins in a precision; said once if they do not."""
        if self.fault or name in self.compared:
            return not self.fault
        xp = importlib.import_module("cupy")
        for kernel, difference in GUARDED[name.partition(" ")[0]].items():
            try:
                worst = difference(xp, name)
            except Exception as error:  # CompileException, a launch that failed, a driver that is too old for it
                if isinstance(error, MemoryError) or ran_out_of_memory(error):
                    raise
                self.fault = f"{kernel} does not run ({first_line(error)})"
                break
            if not worst <= allowed(name):
                self.fault = f"{kernel} differs from plain code by {worst:.1e} on a small input"
                break
        self.compared.add(name)
        if (said := self.complaint) is not None:
            tell(said)
        return not self.fault


def allowed(name: str) -> float:
    """How far a kernel may be from plain code; those of the levels compute in float32."""
    return GUARD_TOLERANCE["float32" if name == "levels" or name.endswith("float32") else "float64"]


def tangent_difference(xp: Any, precision: str) -> float:
    """How far ``tangent_rows`` is from plain code, in units of the largest eigenvalue, on 40 rows of up to 69."""
    dtype = "float64" if precision == "mixed" else precision
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 70, 40)
    counts[:2] = 0, 1
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    indices = rng.integers(0, 40, indptr[-1]).astype(np.int32)
    Y = (rng.normal(size=(40, 20)) * 0.9 ** np.arange(20)).astype(dtype)
    weights = rng.random(indptr[-1]).astype("float32" if precision == "mixed" else dtype)
    on_host = (indptr, indices, weights, Y, rng.permutation(40))
    starts, places, entries, points, rows = (xp.asarray(array) for array in on_host)
    U, sigma = launch.tangent_rows(starts, places, entries, points, rows, 3)
    return agreement.tangent_rows(starts, places, entries, points, rows, U, sigma)


def score_difference(xp: Any, name: str) -> float:
    """How far ``score_block`` is from plain code, in volumes and mean scores, on 50 points and up to 252 sets."""
    _, d, dtype = name.split()
    bases = np.linalg.qr(np.random.default_rng(1).normal(size=(50, 10, int(d))))[0]
    U = xp.asarray(np.ascontiguousarray(bases, dtype=dtype))
    sets = xp.asarray(np.array(list(itertools.combinations(range(10), max(3, int(d)))), dtype=np.int32))
    totals, best, score = xp.zeros(len(sets)), xp.empty(50, dtype=xp.int32), xp.empty(50)
    launch.score_block(U, sets, totals, best, score)
    return agreement.score_block(U, sets, totals, best, score)


def small_matrix(xp: Any, dtype: str) -> tuple[Array, Array, Array]:
    """A CSR (80, 80) with rows of up to 69 positive entries; rows 0 and 1 have none and one."""
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 70, 80)
    counts[:2] = 0, 1
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    columns = np.concatenate([np.sort(rng.choice(80, size=count, replace=False)) for count in counts])
    parts = indptr, columns.astype(np.int32), rng.random(indptr[-1]).astype(dtype)
    return tuple(xp.asarray(part) for part in parts)


def rows_difference(xp: Any, name: str) -> float:
    """How far products, scaled entries and labels are from plain code, for a matrix and vectors of some types."""
    stored, *others = name.split()[1:]
    matrix = small_matrix(xp, stored)
    rng = np.random.default_rng(3)
    if not others:  # labels, which are integers
        labels = xp.asarray(rng.permutation(80).astype(np.int32))
        found, expected = (module.smallest_labels(*matrix, labels) for module in (launch, plain))
        return agreement.largest(xp.abs(found - expected))
    block = xp.asarray(rng.normal(size=(80, 21)), dtype=others[0])
    worst = max(agreement.spmm(*matrix, V, launch.spmm(*matrix, V)) for V in (block, xp.ascontiguousarray(block[:, 0])))
    if others[0] == "float64":
        left, right = (xp.asarray(rng.random(80)) for _ in range(2))
        entries = [matrix[2].copy() for _ in range(2)]
        for module, data in zip((launch, plain), entries, strict=True):
            module.scaled_entries(*matrix[:2], data, left, right)
        worst = max(worst, agreement.largest(xp.abs(entries[0] - entries[1])) * (1.0 if stored == "float64" else 1e-3))
    return worst


def levels_difference(xp: Any, name: str) -> float:
    """How far the loops of the multilevel eigensolver are from plain code, on 80 rows in 11 cells and 9 columns."""
    rng = np.random.default_rng(4)
    starts = xp.asarray(np.array([0, 1, 9, 17, 24, 32, 40, 41, 48, 60, 72, 80]))
    weights, R, P, shift = (
        xp.asarray(rng.random(shape).astype(np.float32)) for shape in ((80,), (80, 9), (80, 9), (9,))
    )
    shift += 100  # so that the shifted matrix is positive
    root, results = xp.asarray(1 + rng.random(80)), []
    indptr, indices, entries = small_matrix(xp, "float64")
    for module in (launch, plain):
        matrix = indptr, indices, module.symmetric_entries(indptr, indices, entries, root)
        merged = module.merge_columns(*matrix, starts, weights)
        Z, left, turned, image = xp.zeros_like(P), R.copy(), P.copy(), xp.empty_like(P)
        curvature = module.shifted_product(*matrix, shift, P, image)
        square = module.column_products(R, R)
        after = module.descend(Z, left, P, image, square, curvature)
        module.turn(left, turned, after, square)
        blocks = module.block_product(*matrix, P), module.block_product(*matrix, P, R, shift)
        smaller = module.merge_rows(*merged, starts, weights, 11)
        sums = module.restrict(starts, weights, R), curvature, after
        results.append((*merged, *smaller, *blocks, *sums, Z, left, turned, matrix[2], image))
    return agreement.largest(*(xp.abs(a - b) / xp.abs(b).max() for a, b in zip(*results, strict=True)))


def pairs_difference(xp: Any, name: str) -> float:
    """How far the pairs of 150 points in three cells are from plain code, infinite where they are others."""
    Z = xp.asarray(np.sort(np.random.default_rng(5).random((150, 3)), axis=0))
    starts = xp.asarray(np.array([0, 50, 100, 150]))
    boxes = (xp.stack([Z[k : k + 50].min(axis=0) for k in (0, 50, 100)]), xp.stack([Z[k + 49] for k in (0, 50, 100)]))
    counts, columns, distances = plain.tile_graph(Z, Z, 0.2)
    found = launch.near_pairs(Z, starts, *boxes, 0.04, 0.2, True, 1.0, "float64")
    assert found is not None
    rows = xp.arange(150)
    ends, degrees = xp.concatenate([xp.zeros(1, dtype=xp.int64), xp.cumsum(counts)]), launch.degrees(Z, rows, 0.2)
    if not bool((found[0] == ends).all() & (degrees == counts).all()) or not bool((found[1] == columns).all()):
        return float("inf")
    return agreement.largest(xp.abs(found[2] - distances))


GUARDED: dict[str, dict[str, Any]] = {
    "float64": {"tangent_rows": tangent_difference},
    "float32": {"tangent_rows": tangent_difference},
    "mixed": {"tangent_rows": tangent_difference},
    "scores": {"score_block": score_difference},
    "rows": {"csr": rows_difference},
    "levels": {"csr": levels_difference},
    "pairs": {"neighbours": pairs_difference},
}
# every check that can be asked for
CHECKS = (
    "float64", "float32", "mixed", "levels", "pairs", "rows float64", "rows float32", "rows float64 float64",
    "rows float32 float64", "rows float32 float32", *(f"scores {d} {t}" for d in range(1, 9) for t in GUARD_TOLERANCE),
)  # fmt: skip
