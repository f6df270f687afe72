"""Algorithm 2 of the paper (IndEigenSearch): which set of coordinates is the best, with zeta by Algorithm 3.

Beside it, whether another sample would choose the same set, and which sets count as the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend import Do, active_backend, at_home, backend_of, call, report, step, to_host
from ..backend.array import Array
from ..backend.compare import audit_scores
from ..findings import option, refusal, tell, warning
from ..options import TABLE, documented, is_auto
from ..validation import check_integer, check_real_array, check_seed
from .criterion import CandidateSets, Scores, all_sets, check_bases, log_volumes, score_pass, stray_coordinates
from .pool import branch_sets, greedy_sets, submodular_sets
from .regularization import Segment, first_acceptable, regret_of, regularization_path, segment_at

if TYPE_CHECKING:
    from ..embedding.diffusion import Embedding
    from .rmetric import Tangents

NEAR = 0.05  # relative difference of eigenvalues whose eigenvectors a sample mixes
RIVALS, DRAWS = 30, 400  # best sets among which another sample chooses, and how many samples


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes
    ----------
    subset : tuple of int
        The chosen set, counted from 0, ascending.
    zeta : float
        The weight of the penalty, given or found.
    zeta_interval : tuple of (float, float or None)
        The range of zeta on which the set is the best; None for no upper end.
    path : tuple of Segment
        The regularization path over the sets that were scored, from ``zeta = inf`` down.
    passed : bool
        Whether the chosen set passed the percentile of the regret. Always True if zeta was given.
    subsets : ndarray of shape (n_subsets, subset_size)
        All sets that were scored, in lexicographic order.
    scores : ndarray of shape (n_subsets,)
        Their mean scores ``R(S)``.
    regrets : ndarray of shape (n_samples, n_segments)
        The leave-one-out regret of each set on the path, with respect to the sets that were scored.
    percentiles : ndarray of shape (n_segments,)
        The percentile of the regret of each set on the path.
    search_order : tuple of int
        The chosen set in the order in which the search added its members.
    details : dict
        Which ``method`` ran, its ``guarantee`` in words, whether the path is that of enumeration (``path_exact``),
        ``pool_size``, ``sets_scored`` of ``sets_total``, and other counts of the method.
    """

    subset: tuple[int, ...]
    zeta: float
    zeta_interval: tuple[float, float | None]
    path: tuple[Segment, ...]
    passed: bool
    subsets: np.ndarray
    scores: np.ndarray
    regrets: Array
    percentiles: np.ndarray
    search_order: tuple[int, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)


def independent_coordinates(
    bases: Array, eigenvalues: np.ndarray, subset_size: int, zeta: float | None = None, percentile: float = 75.0, *,
    search: str = "exhaustive", do: Do = call, **limits: Any,
) -> SearchResult:  # fmt: skip
    """Choose the set S with coordinate 1 that maximises ``L(S; zeta) = R(S) - zeta sum_{k in S} lambda_k``.

    This is Algorithm 2 of the paper after its first two lines, which give ``bases`` U (n, m, d) and ``eigenvalues``
    lambda (m,). For ``zeta=None`` the range of zeta comes from Algorithm 3, with ``percentile`` alpha. ``search`` names
    the sets to look at, within its ``limits``.
    """
    # for all S with s members, one of them coordinate 1, and all points i: R(S) = R1(S) - R2(S), the mean of R(S; i)
    sets, scores = do(score_sets, bases, eigenvalues, subset_size, zeta, search, limits)
    backend = backend_of(bases)
    means = backend.to_host(scores.totals) / len(bases)
    # S_* = argmax_S L(S; zeta), for every zeta at once
    path = regularization_path(means, sets.subsets, eigenvalues)
    # Algorithm 3, from zeta = inf down: the first S_* with a regret D(S, i) whose percentile is not positive
    on_path = np.array([segment.subset for segment in path], dtype=np.int32)
    regrets = regret_of(bases, on_path, sets.subsets, scores)
    percentiles = backend.to_host(backend.percentile(regrets, percentile))
    found = first_acceptable(percentiles) if zeta is None else segment_at(path, zeta)
    segment = path[-1 if found is None else found]
    return SearchResult(
        subset=segment.subset, zeta=zeta if zeta is not None else 0.0 if found is None else segment.middle,
        zeta_interval=(segment.low, None if np.isinf(segment.high) else segment.high),
        path=path, passed=found is not None,
        subsets=sets.subsets, scores=means, regrets=regrets, percentiles=percentiles,
        search_order=sets.orders.get(segment.subset, segment.subset), details=sets.details,
    )  # fmt: skip


@step(
    "search", kernel="score_block", single=True,
    audit=lambda found, bases, *_: audit_scores(bases, found[0].subsets, found[1], backend_of(bases)),
)  # fmt: skip
def score_sets(
    bases: Array, eigenvalues: np.ndarray, subset_size: int, zeta: float | None, search: str, limits: dict[str, Any]
) -> tuple[CandidateSets, Scores]:
    """Let a search name sets, and add up R(S; i) over all points for each of them."""
    sets = SEARCHES[search](bases, eigenvalues, subset_size, zeta, **limits)
    return sets, score_pass(bases, sets.subsets, report)


SEARCHES: dict[str, Callable[..., CandidateSets]] = {
    "exhaustive": lambda bases, eigenvalues, s, zeta: all_sets(bases.shape[1], s),
    "greedy": greedy_sets,
    "submodular": submodular_sets,
    "branch_and_bound": branch_sets,
}


def renumber(found: SearchResult, numbers: Sequence[int]) -> SearchResult:
    """Return the same result with the number ``numbers[k]`` for coordinate k."""
    new = np.asarray(numbers, dtype=found.subsets.dtype)
    subset, order = (tuple(new[list(members)].tolist()) for members in (found.subset, found.search_order))
    path = tuple(replace(segment, subset=tuple(new[list(segment.subset)].tolist())) for segment in found.path)
    return replace(found, subset=subset, path=path, subsets=new[found.subsets], search_order=order)


@step(
    "search", calls=True, pack=lambda found: {**vars(found), "path": [dict(vars(segment)) for segment in found.path]},
    unpack=lambda content, *_, **__: SearchResult(**content | {
        "path": tuple(Segment(**segment) for segment in content["path"]),
        "regrets": active_backend().asarray(content["regrets"]),
    }),
)  # fmt: skip
def choose_coordinates(
    tangents: Tangents, embedding: Embedding, *, subset_size: int, zeta: float | None = None,
    percentile: float = 75.0, search: str = "exhaustive", random_state: int = 0, do: Do = call,
) -> SearchResult:  # fmt: skip
    """Choose among the coordinates of a map that are not stray, by Algorithm 2; what is doubtful is told of."""
    bases, values, backend = tangents.bases, embedding.eigenvalues, backend_of(tangents.bases)
    stray = stray_coordinates(embedding.vectors)
    kept = [k for k in range(len(values)) if k not in stray]
    if subset_size <= len(kept) < len(values):  # all, if too few are left for a set
        bases, values = bases[:, backend.asarray(kept)], values[kept]
    limits = {"random_state": random_state} if search == "submodular" else {}
    found = independent_coordinates(bases, values, subset_size, zeta, percentile, search=search, do=do, **limits)
    if len(values) == len(kept):
        found = renumber(found, kept)
    if found.details.get("gap"):
        text = "branch and bound stopped at its limit: the loss of another set may be higher by up to "
        advice = f"lower {option('n_components')} or {option('subset_size')}, or call search_branch_and_bound with a "
        tell(warning("search.gap", f"{text}{found.details['gap']:.3g}", f"{advice}larger node_limit"))
    if not found.passed:
        text = f"for every set on the path, percentile {percentile:g} of the regret is positive"
        advice = f"a larger {option('subset_size')}, another {option('bandwidth')} or a lower {option('percentile')}"
        tell(warning("search.regret", f"{text}; the set for zeta = 0 is returned", f"try {advice}"))
    return found


def near_pairs(eigenvalues: np.ndarray) -> tuple[tuple[int, int], ...]:
    """Return the numbers of neighbours with ``(larger - smaller) / larger <= 0.05``."""
    values = np.asarray(eigenvalues, dtype=float)
    differences = np.diff(values) / np.maximum(np.abs(values[1:]), 1e-300)
    return tuple((k, k + 1) for k in np.flatnonzero(differences <= NEAR).tolist())


def same_up_to_twins(one: tuple[int, ...], other: tuple[int, ...], pairs: tuple[tuple[int, int], ...]) -> bool:
    """Whether two sets take as many members from each run of nearly equal eigenvalues."""
    group = {k: k for k in (*one, *other)}
    for first, second in pairs:  # rising, so that runs of three and more are joined too
        group[second] = group.get(first, first)
    return sorted(group.get(k, k) for k in one) == sorted(group.get(k, k) for k in other)


def recurrence(bases: np.ndarray, n: int, found: SearchResult, eigenvalues: np.ndarray) -> float:
    """Return the share of other samples of n points that would choose the same set up to twins, of the best ones.

    Eigenvectors and zeta are kept. This sample and another each have their own error, so that the difference between
    the scores of two sets varies with twice the variance of a mean over n points, which some bases (q, m, d) tell.
    """
    losses = found.scores - found.zeta * np.asarray(eigenvalues)[found.subsets].sum(axis=1)
    best = np.argsort(-losses, kind="stable")[:RIVALS]
    sets, losses = found.subsets[best], losses[best]
    values, axes = np.linalg.eigh(2 / n * np.cov(log_volumes(bases, sets).T).reshape(len(sets), -1))
    drawn = np.random.default_rng(0).normal(size=(DRAWS, len(sets))) * np.sqrt(np.maximum(values, 0))
    winners, times = np.unique((losses + drawn @ axes.T).argmax(axis=1), return_counts=True)
    pairs = near_pairs(eigenvalues)
    same = [same_up_to_twins(found.subset, tuple(sets[k].tolist()), pairs) for k in winners]
    return float(times @ same) / DRAWS


SHARED = {
    "parameters": """Parameters
----------
bases : ndarray of shape (n_samples, n_components, intrinsic_dim)
    The tangent bases, from :func:`tangent_bases`.
eigenvalues : ndarray of shape (n_components,)
    The eigenvalues of the unscaled Laplacian, ascending.
subset_size : int
    How many coordinates to choose, at least ``intrinsic_dim``.""",
    "returns": """Returns
-------
SearchResult
    The chosen set, zeta, the path and the regret.""",
    "examples": """Examples
--------
>>> import ies_gpu
>>> X = ies_gpu.datasets.load("D1", n_samples=400).X
>>> known = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.8, "n_components": 10}
>>> strip = ies_gpu.select_coordinates(X, **known)""",
}
by_itself = partial(documented, own=SHARED)  # decorator: fills a docstring from what the searches share


@at_home
@by_itself
def search_exhaustive(
    bases: Array, eigenvalues: Array, *, subset_size: int, zeta: float | str = "auto", percentile: float = 75
) -> SearchResult:
    """Score every set of ``subset_size`` coordinates that contains the first one, and choose the best.

    {parameters, zeta, percentile}

    {returns}

    {examples}
    >>> found = ies_gpu.search_exhaustive(strip.bases, strip.eigenvalues, subset_size=2)
    >>> found.subset, found.details["guarantee"]
    ((0, 6), 'exact')
    """
    return _searched("exhaustive", bases, eigenvalues, subset_size, zeta, percentile)


@at_home
@by_itself
def search_greedy(
    bases: Array, eigenvalues: Array, *, subset_size: int, zeta: float | str = "auto", percentile: float = 75
) -> SearchResult:
    """Start with the best set of d coordinates and add the best next one until there are enough.

    This is the paper's greedy search; with ``subset_size = intrinsic_dim`` it scores every set. With ``zeta="auto"`` it
    runs at zeta = 0 and wherever the lines found so far cross; path and regret cover only the sets that were scored.
    ``search_order`` is the order of adding, the first d coordinates ascending.

    {parameters, zeta, percentile}

    {returns}

    {examples}
    >>> found = ies_gpu.search_greedy(strip.bases, strip.eigenvalues, subset_size=3)
    >>> len(found.search_order)
    3
    """
    return _searched("greedy", bases, eigenvalues, subset_size, zeta, percentile)


@at_home
@by_itself
def search_submodular(
    bases: Array, eigenvalues: Array, *, subset_size: int, zeta: float | str = "auto", percentile: float = 75,
    random_state: int = 0,
) -> SearchResult:  # fmt: skip
    """Search for a good set where there are too many to enumerate, such as 10 of 200 coordinates.

    The score is a difference of submodular functions. From several starts (the best set known, a set grown by greedy
    additions, random sets) members are exchanged one at a time [1]_, until no exchange improves the result; nothing
    proves that it is the best. Path and regret cover only the sets that were scored.

    {parameters, zeta, percentile}
    random_state : int, default=0
        The seed for random starts and orders.

    {returns}

    References
    ----------
    .. [1] G. Nemhauser, L. Wolsey and M. Fisher, "An analysis of approximations for maximizing submodular set
           functions", Mathematical Programming 14, 1978.

    {examples}
    >>> found = ies_gpu.search_submodular(strip.bases, strip.eigenvalues, subset_size=4)
    >>> found.details["guarantee"]
    'exact over the pool only'
    """
    seed = check_seed(random_state)
    return _searched("submodular", bases, eigenvalues, subset_size, zeta, percentile, random_state=seed)


@at_home
@by_itself
def search_branch_and_bound(
    bases: Array, eigenvalues: Array, *, subset_size: int, zeta: float | str = "auto", percentile: float = 75,
    node_limit: int = 20_000,
) -> SearchResult:  # fmt: skip
    """Find the best set, as enumeration does, without scoring sets that cannot be the best.

    A set A stands for all sets that contain it, and its upper bound is compared with the best loss found so far. If
    sets have nearly equal scores and the penalty is small, most of them remain and are scored. With ``zeta="auto"`` a
    finished search gives the exact path; the regret covers only the sets that were scored.

    {parameters, zeta, percentile}
    node_limit : int, default=20000
        How many sets A to look into, for all zeta together. If they are used up, ``details["gap"]`` says by how much
        the loss of another set can be higher at most.

    {returns}

    {examples}
    >>> found = ies_gpu.search_branch_and_bound(strip.bases, strip.eigenvalues, subset_size=3, zeta=1.0)
    >>> found.details["guarantee"]
    'exact'
    """
    limit = check_integer("node_limit", node_limit, low=0)
    return _searched("branch_and_bound", bases, eigenvalues, subset_size, zeta, percentile, node_limit=limit)


def _searched(
    search: str, bases: Array, eigenvalues: Array, subset_size: Any, zeta: Any, percentile: Any, **limits: Any
) -> SearchResult:
    bases = check_bases(bases, 2)
    _, m, d = bases.shape
    if not 1 <= d <= m:
        raise refusal("bases.shape", f"bases must have shape (n, m, d) with 1 <= d <= m, got {bases.shape}")
    values = to_host(check_real_array("eigenvalues", eigenvalues, 1))
    if len(values) != m:
        raise refusal("eigenvalues.number", f"eigenvalues must have one entry per coordinate ({m}), got {len(values)}")
    s = check_integer("subset_size", subset_size, low=d, high=m, why=f" (intrinsic_dim is {d}, n_components is {m})")
    alpha = TABLE["percentile"].accepts.check("percentile", percentile)
    weight = None if is_auto(zeta) else TABLE["zeta"].accepts.check("zeta", zeta)
    with backend_of(bases).active():
        return independent_coordinates(bases, values, s, weight, alpha, search=search, **limits)
