"""Which sets of coordinates there are, how they are written (from phi1, in arrays from 0), and the criterion."""

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np

from ..backend import Backend, at_home, backend_of
from ..backend.array import Array, column_maxima, column_sums
from ..findings import brief, option, refusal
from ..options import count_subsets
from ..validation import check_flag, check_integer, check_members, check_real_array

NEAR_ZERO = 0.1  # volumes below count as lost
FEW = 10  # points, and fewer than 1% of all: a coordinate that lives on so few says nothing about the shape
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def candidate_subsets(n_components: int, subset_size: int) -> np.ndarray:
    """Return every set of ``subset_size`` coordinates that contains the first one (q, s), in lexicographic order."""
    m = check_integer("n_components", n_components, low=1)
    s = check_integer("subset_size", subset_size, low=1, high=m, why=f" (n_components is {m})")
    count = count_subsets(m, s)
    rest = np.fromiter(chain.from_iterable(combinations(range(1, m), s - 1)), dtype=np.int32, count=count * (s - 1))
    return np.hstack([np.zeros((count, 1), dtype=np.int32), rest.reshape(count, s - 1)])


def check_bases(bases: Array, low: int = 1) -> Array:
    """Return tangent bases (n, m, d), refused if they are of fewer than ``low`` points."""
    if len(bases := check_real_array("bases", bases, 3)) < low:
        text = f"bases must hold at least {low} point{'s' * (low > 1)}, got shape {tuple(bases.shape)}"
        raise refusal("bases.shape", text)
    return bases


def check_spanning(subsets: Array, bases: Array, name: str = "subsets") -> np.ndarray:
    """Return sets (q, s), refused if they are of too few coordinates to span the tangent spaces."""
    sets, d = check_subsets(subsets, bases.shape[1], name), bases.shape[2]
    if sets.shape[1] < d:
        text = f"{option(name)} must have at least {option('intrinsic_dim', d)} members, got {sets.shape[1]}"
        raise refusal(f"{name}.size", text)
    return sets


def check_subsets(subsets: Array, m: int, name: str = "subsets") -> np.ndarray:
    """Sets (q, s) as an integer array with members between 0 and m - 1, none twice."""
    try:
        array = np.atleast_2d(np.asarray(subsets))
    except Exception:  # sets of unequal size, or objects that cannot be converted
        array = np.empty(0)
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "iu":
        text = f"{option(name)} must be sets of integers, all of one size, got {brief(subsets)}"
        raise refusal(f"{name}.type", text, kind=TypeError)
    if array.min() < 0 or array.max() >= m:
        text = f"{option(name)} must have members between 0 and {m - 1}, got {array.min()} to {array.max()}"
        raise refusal(f"{name}.range", text)
    if array.shape[1] > 1 and (np.diff(np.sort(array, axis=1), axis=1) == 0).any():
        raise refusal(f"{name}.repeated", f"{option(name)} must not name a coordinate twice")
    return np.ascontiguousarray(array, dtype=np.int32)


class CandidateSets(NamedTuple):
    """The sets (q, s) that a search names, how it went, and the order in which sets were built, where known."""

    subsets: np.ndarray
    details: dict[str, Any]
    orders: Mapping[tuple[int, ...], tuple[int, ...]] = {}


def all_sets(m: int, s: int, method: str = "exhaustive") -> CandidateSets:
    """Name every set of s of m coordinates that contains the first."""
    subsets = candidate_subsets(m, s)
    counts = {"pool_size": len(subsets), "sets_scored": len(subsets), "sets_total": len(subsets)}
    return CandidateSets(subsets, {"method": method, "guarantee": "exact", "path_exact": True, **counts})


class Scores(NamedTuple):
    """Of sets: ``sum_i R(S; i)`` (q,). Of points: the number of the best set, the first of equals, and its score."""

    totals: Array
    best: Array
    best_scores: Array


def score_pass(bases: Array, subsets: Array, progress: Callable[[int, int], None] | None = None) -> Scores:
    """Return the totals of all sets and the best set of each point; the (n, q) table never exists."""
    (q, s), d, backend = subsets.shape, bases.shape[2], backend_of(bases)

    def scored(backend: Backend, U: Array) -> Scores:
        xp = backend.xp
        found = Scores(xp.zeros(q), xp.empty(len(U), dtype=xp.int32), xp.empty(len(U)))
        backend.kernels.score_block(U, backend.asarray(subsets), *found)
        return found

    with backend.active():
        return Scores(*backend.sweep(
            scored, bases, bytes_per_row=lambda kernels: kernels.score_bytes(q, s, d), stage="search", sums=1, rows=2,
            progress=progress,
        ))  # fmt: skip


@at_home
def score_subsets(bases: Array, subsets: Array, *, per_point: bool = False) -> Array:
    """Return the mean scores ``R(S)`` of sets of coordinates.

    ``R(S; i) = 1/2 log max(det(U_S' U_S) / prod_k |u_k^S|^2, 1e-30)`` is the logarithm of the volume spanned by the
    normalised projections of the tangent vectors: 0 if they are orthogonal, -34.5 if the set has lost rank.

    Parameters
    ----------
    bases : ndarray of shape (n_samples, n_components, intrinsic_dim)
        The tangent bases, from :func:`tangent_bases`.
    subsets : array-like of shape (n_subsets, subset_size)
        The sets, counted from 0.
    per_point : bool, default=False
        Whether to return the score of each set at each point instead of the mean.

    Returns
    -------
    ndarray of shape (n_subsets,) or (n_samples, n_subsets)
        The scores, none of them positive.

    Examples
    --------
    >>> import ies_gpu
    >>> X = ies_gpu.datasets.load("D1", n_samples=400).X
    >>> strip = ies_gpu.select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=0.8, n_components=10)
    >>> slowest, independent = ies_gpu.score_subsets(strip.bases, [[0, 1], [0, 6]])
    >>> bool(slowest < independent)
    True
    """
    per_point, bases = check_flag("per_point", per_point), check_bases(bases)
    sets = check_spanning(subsets, bases)
    return log_volumes(bases, sets) if per_point else score_pass(bases, sets).totals / len(bases)


def log_volumes(bases: Array, subsets: Array) -> Array:
    """Return ``R(S; i)`` of given sets at every point: (n, q)."""
    (q, s), d, backend = subsets.shape, bases.shape[2], backend_of(bases)

    def volumes(backend: Backend, U: Array) -> tuple[Array]:
        return (backend.kernels.log_volumes(U, backend.asarray(subsets)),)

    with backend.active():
        per_row = lambda kernels: kernels.table_bytes(q, s, d)  # noqa: E731
        return backend.sweep(volumes, bases, bytes_per_row=per_row, stage="search", rows=1)[0]


def penalties(subsets: np.ndarray, eigenvalues: np.ndarray) -> np.ndarray:
    """``sum_{k in S} lambda_k`` of each set."""
    return np.asarray(eigenvalues)[subsets].sum(axis=1)


def ranked(subsets: np.ndarray, scores: np.ndarray, eigenvalues: np.ndarray, zeta: float) -> np.ndarray:
    """Numbers of the sets by falling ``R(S) - zeta sum lambda_k``; equal ones in lexicographic order."""
    return np.argsort(-(scores - zeta * penalties(subsets, eigenvalues)), kind="stable")


def share_near_zero(log_volumes: Array) -> float:
    """Return the share of points with a volume below 0.1, from ``R(S; i)`` (n,)."""
    return float((log_volumes < np.log(NEAR_ZERO)).mean())


def stray_coordinates(coordinates: Array) -> list[int]:
    """Return the numbers of the coordinates (n, m) that live on a few points only, by ``(sum v^2)^2 / sum v^4``.

    Points that hang on the rest by a thread have such coordinates, with small eigenvalues, which crowd out those of the
    shape.
    """
    (n, m), backend = coordinates.shape, backend_of(coordinates)
    limits: dict[str, Any] = {"bytes_per_row": 24.0 * m, "stage": "search"}
    (sizes,) = backend.sweep(lambda _, Y: (column_sums(abs(Y)),), coordinates, sums=1, **limits)
    sizes = backend.to_host(sizes)
    units = np.where(sizes > 0, sizes, 1.0)  # powers neither overflow nor vanish

    def powers(home: Any, Y: Array) -> tuple[Array, Array]:
        Y = Y / home.asarray(units)
        squares = Y * Y
        return column_sums(squares), column_sums(squares * squares)

    second, fourth = map(backend.to_host, backend.sweep(powers, coordinates, sums=2, **limits))
    spread = second**2 / np.maximum(fourth, 1e-300)
    return np.flatnonzero(spread < min(FEW, n / 100)).tolist()


def stray_points(coordinates: Array, stray: list[int]) -> np.ndarray:
    """Return the rows of the points on which stray coordinates live."""
    if not stray:  # CuPy cannot reshape an array without columns
        return np.empty(0, dtype=np.int64)
    backend = backend_of(coordinates)
    sizes = abs(coordinates[:, backend.asarray(np.array(stray, dtype=np.int64))])
    return backend.to_host(backend.xp.nonzero((sizes >= 0.1**0.5 * column_maxima(sizes)).any(axis=1))[0])


def coordinate_names(subset: Iterable[int]) -> tuple[str, ...]:
    """Return the paper's names: ``("phi1", "phi7")`` for ``(0, 6)``."""
    return tuple(f"phi{k + 1}" for k in subset)


def names_text(subset: Iterable[int]) -> str:
    """Return the names in a sentence: ``phi1, phi7`` for ``(0, 6)``. A negative member is unknown: ``?``."""
    return ", ".join("?" if k < 0 else f"phi{k + 1}" for k in subset)


def page_text(subset: Iterable[int]) -> str:
    """Return a set as pages show it: ``{φ₁, φ₇}`` for ``(0, 6)``. A negative member is unknown, and written ``?``."""
    return in_symbols(f"{{{names_text(subset)}}}")


def in_symbols(text: str) -> str:
    """Return a text for a page, with the names of coordinates as symbols: ``φ₇`` for ``phi7``."""
    return re.sub(r"\bphi(\d+)\b", lambda name: "φ" + name[1].translate(SUBSCRIPTS), text)


def formula(weights: Iterable[float], most: int = 3) -> str:
    """Return a combination of coordinates by its largest weights, beside the largest: ``phi7 + 0.5 phi8``."""
    ordered = sorted(enumerate(weights), key=lambda pair: -abs(pair[1]))
    first, largest = ordered[0]
    terms = [(k, weight / largest) for k, weight in ordered[1:] if abs(weight) >= 0.05 * abs(largest)]
    text = "".join(f" {'-' if part < 0 else '+'} {abs(part):.1g} phi{k + 1}" for k, part in terms[:most])
    return f"phi{first + 1}{text}{' + ...' * (len(terms) > most)}"


def coordinate_numbers(subset: Any, m: int) -> tuple[int, ...]:
    """Return a set of coordinates as 0-based numbers, given as such or by name: ``(0, 6)`` or ``("phi1", "phi7")``."""
    numbers = []
    for member in check_members("subset", subset, "a set such as (0, 6) or ('phi1', 'phi7')"):
        if isinstance(member, str):
            if not re.fullmatch(r"phi[1-9]\d*", member):
                text = f"subset must contain numbers, or names such as 'phi7', got {brief(member)}"
                raise refusal("subset.type", text)
            if int(member[3:]) > m:
                text = f"subset names {member}, but there are only phi1 to phi{m}"
                raise refusal("subset.range", text, f"raise {option('n_components')}")
            member = int(member[3:]) - 1
        elif not np.isscalar(member):
            text = f"subset must be one set of numbers or names, got {brief(subset)}"
            raise refusal("subset.type", text, kind=TypeError)
        numbers.append(member)
    return tuple(int(k) for k in check_subsets([numbers], m)[0])
