"""How far results are from plain code: audits of a run, and CUDA kernels on small inputs before their first use.

A difference is the largest one, infinite where a number is not finite. Eigenvectors and best sets are compared by what
defines them, not number by number. An audit computes seeded rows of what a run found once more. The order in space
needs none: it only decides what is fast. The eigensolver's own loops are checked by residuals of audited products.
"""

import functools
import importlib
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..findings import Finding, one_line, tell, warning
from .array import PART_BYTES, Array, column_sums, few_on_host, namespace, on_host, row_slots, sample_rows, starts_of
from .base import Backend, ran_out_of_memory
from .kernels import plain
from .kernels.cuda import launch

ROWS = 256  # of each audit; of few points a share, as plain code takes some 20 times as long for each
SOUND = -12.0  # below this the logarithm of a volume is the logarithm of rounding
PIECE_BYTES = 1 << 20, 8 << 20  # of differences between points, at least and at most
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
    "turn": ((),), "column_products": EITHER, "orthonormal": ((DOUBLE,),),
    "symmetric_product": PAIRS[:2],
}  # fmt: skip
TYPED = {
    "near_pairs": (8,), "spmm": (2, 3), "scaled_entries": (2,), "smallest_labels": (2,),
    "tangent_rows": (2, 3), "score_block": (0,), "symmetric_entries": (2,), "column_products": (0,),
    "orthonormal": (0,), "tangent_rows_single": (2,), "symmetric_product": (2, 3),
}  # fmt: skip


def largest(*errors: Any) -> float:
    """Return the largest entry of some arrays, 0 if all are empty; NaN counts as infinite. It waits once."""
    found = [error.max() for error in errors if error.size]
    if not found:
        return 0.0
    worst = float(namespace(errors[0]).stack(found).max())
    return worst if math.isfinite(worst) else math.inf


def difference(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """Return how far arrays are from others, in units of the largest entry of each; integers must be the same."""
    errors = []
    for ours, theirs in zip(found, expected, strict=True):
        if not hasattr(theirs, "dtype"):
            continue
        if ours.shape != theirs.shape:
            return math.inf
        xp, exact = namespace(theirs), theirs.dtype.kind != "f"
        apart = xp.abs(ours.astype("float64") - theirs)
        if apart.size:
            unit = xp.abs(theirs).max().astype("float64")
            errors.append(xp.where(apart > 0, math.inf, apart) if exact else apart / xp.where(unit > 0, unit, 1))
    return largest(*errors)


def tangent_difference(
    indptr: Array, indices: Array, weights: Array, Y: Array, rows: Array, U: Array, sigma: Array
) -> float:
    """Return how far some rows' U (r, m, d) is from orthonormal eigenvectors, and sigma from LAPACK's eigenvalues.

    In units of the largest one; signs and repeated values do no harm.
    """
    xp, H = namespace(Y), plain.cometric_rows(indptr, indices, weights, Y, rows)
    expected = xp.asarray(plain.leading_eigenvectors(on_host(H), U.shape[2])[1])
    scale = xp.where(expected[:, :1] > 0, expected[:, :1], 1)
    residual = xp.abs(xp.matmul(H, U) - U * sigma[:, None, :]) / scale[:, :, None]
    gram = xp.abs(xp.matmul(U.transpose(0, 2, 1), U) - xp.eye(U.shape[2], dtype=U.dtype))
    return largest(residual, gram, xp.abs(sigma - expected) / scale)


def score_difference(U: Array, subsets: Array, totals: Array, best: Array, best_score: Array) -> float:
    """Return how far mean scores of the sound sets, best volumes and volumes of the best sets are from right.

    Sets with nearly equal scores may change places, so the numbers of the best sets are not compared; nor are scores
    near log 0, but the volumes they are logarithms of.
    """
    xp, table = namespace(U), plain.log_volumes(U, subsets)
    volumes, sound = xp.exp(table.max(axis=1)), table.min(axis=0) > SOUND
    means, own = xp.abs(totals - table.sum(axis=0))[sound] / len(U), table[xp.arange(len(U)), best]
    return largest(means, xp.abs(xp.exp(best_score) - volumes), xp.abs(xp.exp(own) - volumes))


def graph_difference(X: Array, rows: Array, ends: Array, distances: Array, radius: float) -> float:
    """Return how far some points' neighbours, themselves included, are off in number and in their distances' sum."""
    xp, counts, chosen = namespace(X), np.diff(ends), X[namespace(X).asarray(rows)][:, None]
    fewest, most, total = (xp.zeros(len(rows)) for _ in range(3))
    share, limit = (X.nbytes, PIECE_BYTES[1]) if xp is np else (8 * X.nbytes, PART_BYTES)
    room = min(max(PIECE_BYTES[0], share), limit)
    step = max(1, room // (8 * X.shape[1] * len(rows)))
    for first in range(0, len(X), step):  # in pieces: the points may be a large mapped file
        apart = X[first : first + step] - chosen
        apart /= radius  # in its own memory
        apart *= apart
        lengths = xp.sqrt(apart.sum(axis=2))
        inside = lengths <= 1 - 1e-12  # a pair at the very radius may fall on either side of it by rounding
        fewest += inside.astype("float64").sum(axis=1)
        most += (lengths <= 1 + 1e-12).astype("float64").sum(axis=1)
        total += xp.where(inside, lengths, 0).sum(axis=1)
    fewest, most, total = on_host(xp.stack([fewest, most, total]))
    own = np.add.reduceat(distances.astype(np.float64) / radius, ends[:-1])
    apart = np.abs(total + (counts - fewest) - own) / np.maximum(counts, 1)
    return largest((fewest - counts) / most, (counts - most) / most, apart)


def audited_rows(n: int) -> np.ndarray:
    """Return the rows of an audit: few enough that it takes less time than what it checks."""
    return sample_rows(n, min(ROWS, max(16, n // 40)), n)


def rows_on_host(matrix: Array, rows: np.ndarray, backend: Backend) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return some rows of a CSR on the host, as one of their own: where they begin and end, columns, entries."""
    ends, slots = row_slots(backend.to_host(matrix.indptr), rows)
    places = backend.asarray(slots)
    return ends, backend.to_host(matrix.indices[places]), backend.to_host(matrix.data[places])


def all_finite(backend: Backend, *arrays: Array) -> bool:
    return bool(np.isfinite(backend.all_to_host(*(array.sum() for array in arrays))).all())


# Samples are compared on the host: they are few, and on a device each operation would be compiled, and launched.


def audit_tangents(laplacian: Any, Y: Array, tangents: tuple[Array, Array], backend: Backend) -> float:
    """Return the largest difference over sampled rows; numbers that are not finite count in every row."""
    sampled, host, (U, sigma) = audited_rows(len(Y)), backend.to_host, tangents
    Y = Y.astype(U.dtype, copy=False)
    per_row = plain.tangent_bytes(Y.shape[1], U.shape[2], laplacian.operator.degree)
    worst = 0.0 if all_finite(backend, U, sigma) else math.inf
    for block in backend.blocks(len(sampled), per_row, "tangents"):
        with block as part:
            rows, P = sampled[part], laplacian.operator.matrix
            places, given = backend.asarray(rows), (P.indptr, P.indices, P.data, Y, rows)
            if backend.is_remote:  # these rows alone, and behind them those of each entry
                ends, columns, weights = rows_on_host(P, rows, backend)
                near = host(Y[backend.asarray(np.concatenate([rows, columns]))])
                given = ends, len(rows) + np.arange(len(columns)), weights, near, np.arange(len(rows))
            found = host(U[places]), host(sigma[places]) / laplacian.scale
            worst = max(worst, tangent_difference(*given, *found))
    return worst


def audit_scores(U: Array, subsets: Array, scores: Any, backend: Backend) -> float:
    """Return the largest difference over sampled points, and of two sets' mean scores, which ``log_volumes`` give."""
    xp, kernels, size, d, host = backend.xp, backend.kernels, subsets.shape[1], U.shape[2], backend.to_host
    if not all_finite(backend, scores.totals, scores.best_scores):
        return math.inf
    sets, at_once = backend.asarray(subsets), min(backend.block_bytes(), PART_BYTES)
    rows = audited_rows(len(U))[: max(1, int(at_once / plain.score_bytes(len(subsets), size, d)))]
    places = backend.asarray(rows)
    sample = xp.ascontiguousarray(U[places])
    totals, number, value = xp.zeros(len(sets)), xp.empty(len(rows), dtype=scores.best.dtype), xp.empty(len(rows))
    kernels.score_block(sample, sets, totals, number, value)
    found = totals, scores.best[places], scores.best_scores[places]
    worst = score_difference(host(sample), subsets, *map(host, found))
    means = host(scores.totals) / len(U)
    chosen = np.unique([int(means.argmax()), int(np.random.default_rng(len(U)).integers(len(means)))])
    chosen = chosen[means[chosen] > SOUND]
    if not len(chosen):
        return worst
    few, again = backend.asarray(subsets[chosen]), np.zeros(len(chosen))
    for block in backend.blocks(len(U), kernels.table_bytes(len(chosen), size, d), "search"):
        with block as part:
            again += host(column_sums(kernels.log_volumes(U[part], few)))
    return max(worst, float(np.abs(again / len(U) - means[chosen]).max()))


def audit_products(K: Any, backend: Backend) -> float:
    """Return how far ``spmm`` of a seeded vector is off on sampled rows, in units of that of absolute values."""
    rows, vector = audited_rows(K.shape[0]), np.random.default_rng(K.nnz % 2**32).normal(size=K.shape[1])
    product = backend.kernels.spmm(K.indptr, K.indices, K.data, backend.asarray(vector))
    some, found = rows_on_host(K, rows, backend), backend.to_host(product[backend.asarray(rows)])
    scale, apart = plain.spmm(*some, np.abs(vector)), np.abs(plain.spmm(*some, vector) - found)
    worst = largest(apart / np.where(scale > 0, scale, 1))
    return worst if all_finite(backend, product) else math.inf


def audit_graph(X: Array, graph: Any, radius: float, backend: Backend) -> float:
    """Return the largest relative difference of degrees and sums of distances over sampled rows, with diagonal."""
    rows = sample_rows(len(X), 32, len(X))
    ends, _, distances = rows_on_host(graph, rows, backend)
    return graph_difference(few_on_host(X), rows, ends, distances, radius)


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
            kernels = self.kernels if self.trusted(name, *types_of(name, arguments)) else plain
            return getattr(kernels, name)(*arguments, **more)

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
    basis = np.ascontiguousarray(np.linalg.qr(V)[0].T[: n // 2]) if kernel == "orthonormal" else V
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
        "smallest_labels": [[*matrix, np.minimum(rng.permutation(n), np.arange(n)).astype(np.int32)]],
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
        "orthonormal": [[image[:, 0], rows, np.zeros(1 + 2 * len(rows)), np.zeros(n)] for rows in (basis, basis[:0])],
    }
    return cases[kernel]
