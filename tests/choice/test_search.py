"""The searches beside enumeration: their steps and bounds against brute force, their promises against enumeration."""

import warnings
from functools import cache
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from ies_gpu import (
    IESWarning,
    datasets,
    leave_one_out_regret,
    score_subsets,
    search_branch_and_bound,
    search_exhaustive,
    search_greedy,
    search_submodular,
    select_coordinates,
)
from ies_gpu.backend import get_backend
from ies_gpu.choice.criterion import candidate_subsets, penalties
from ies_gpu.choice.pool import ROUNDING, Tree, bound_of
from ies_gpu.choice.regularization import regularization_path
from tests.said import refused

SEARCHES = [search_greedy, search_submodular, search_branch_and_bound]


def frames(rng, n=60, m=9, d=2):
    """Random orthonormal columns, with a few points at which coordinates vanish, coincide or are parallel."""
    U = np.linalg.qr(rng.normal(size=(n, m, d)))[0]
    U[0, :4] = 0
    U[1, 1:5] = U[1, :1]
    U[2, :6, -1] = 2 * U[2, :6, 0]
    U[3, :5, 0] *= 1e-9
    return U, np.sort(rng.uniform(0.01, 1, m))


def enumerated(U, values, s, zeta):
    """All sets and their losses."""
    sets = candidate_subsets(U.shape[1], s)
    return sets, score_subsets(U, sets) - zeta * penalties(sets, values)


def test_the_regret_is_exactly_zero_where_the_set_is_the_best(rng, on):
    """Both sums of the regret are the same one, so nothing is left of their rounding."""
    U, _ = frames(rng, n=500)
    sets = candidate_subsets(9, 3)
    best = score_subsets(U, sets, per_point=True).argmax(axis=1)
    regrets = on(leave_one_out_regret)(U, sets[:, ::-1], candidates=sets)
    assert (regrets[np.arange(500), best] == 0).all()


def test_volumes_that_are_rounded_otherwise_reject_no_set():
    """As on a GPU in float32, where scores and volumes come from different kernels."""
    U, values = frames(np.random.default_rng(1), n=600, m=6)
    U[:450, :, 1] = 0
    U[:450, 3, 1] = 1  # the second direction is that of one coordinate: most points agree
    backend = get_backend("cpu")
    with backend.active():  # another may have other kernels, after other tests
        expected = search_exhaustive(U, values, subset_size=2)
    kernels = vars(backend.kernels)
    rounded = {"log_volumes": lambda *given: kernels["log_volumes"](*given).astype(np.float32).astype(float)}
    backend.kernels = SimpleNamespace(**kernels | rounded)
    with backend.active():
        found = search_exhaustive(U, values, subset_size=2)
    assert expected.passed and (found.subset, found.zeta, found.passed) == (expected.subset, expected.zeta, True)


@pytest.mark.parametrize(("d", "s"), [(1, 3), (2, 3), (2, 5), (3, 5)])
def test_no_completion_exceeds_the_bound_which_is_the_score_where_one_is_to_come(rng, on, d, s):
    U, _ = frames(rng, d=d)
    whole = U[4:]  # without points that a coordinate floors
    level, weights = on(bound_of)(whole, (0, 2, 5, 6)[:d], 1)
    for k in {7, 8}:
        score = score_subsets(whole, [sorted([*(0, 2, 5, 6)[:d], k])])[0]
        assert level + weights[k] == pytest.approx(score, abs=1e-10)
    sets = candidate_subsets(9, s)
    scores = dict(zip(map(tuple, sets.tolist()), score_subsets(U, sets), strict=True))
    for size in range(1, s):
        for members in map(tuple, candidate_subsets(9, size).tolist()):
            level, weights = bound_of(U, members, s - size)
            for rest in combinations(sorted(set(range(9)) - set(members)), s - size):
                subset = tuple(sorted((*members, *rest)))
                assert scores[subset] <= level + weights[list(rest)].sum() + 1e-10


def test_scores_of_bases_in_float32_do_not_pass_their_bounds(rng, backend):
    U = backend.asarray(np.linalg.qr(rng.normal(size=(300, 9, 2)))[0].astype(np.float32))
    tree = Tree(U, np.sort(rng.uniform(0.01, 1, 9)), 4, 0)
    sets = candidate_subsets(9, 4).tolist()
    tree.pool.add(map(tuple, sets))
    for *members, last in sets:
        level, weights = bound_of(tree.pool.bases, tuple(members), 1)  # with one to come the bound is the score
        assert tree.pool.scores[*members, last] <= level + weights[last] + ROUNDING


@pytest.mark.parametrize("zeta", [0.0, 0.05, 0.5])
@pytest.mark.parametrize(("d", "s"), [(1, 1), (1, 3), (2, 2), (2, 4), (3, 4), (2, 9)])
def test_branch_and_bound_finds_what_enumeration_finds(rng, on, d, s, zeta):
    U, values = frames(rng, d=d)
    found = on(search_branch_and_bound)(U, values, subset_size=s, zeta=zeta)
    sets, losses = enumerated(U, values, s, zeta)
    assert found.details["guarantee"] == "exact" and found.details["gap"] == 0
    assert losses[(sets == found.subset).all(axis=1)][0] == pytest.approx(losses.max(), abs=1e-9)
    assert found.details["pool_size"] <= found.details["sets_scored"] <= found.details["sets_total"] == len(sets)


def test_branch_and_bound_traces_the_exact_path_and_with_a_penalty_skips_most_sets(rng):
    U, values = frames(rng, n=100, m=11)
    found, expected = (f(U, values, subset_size=4) for f in (search_branch_and_bound, search_exhaustive))
    assert found.details["path_exact"]
    assert [piece.subset for piece in found.path] == [piece.subset for piece in expected.path]
    np.testing.assert_allclose([p.low for p in found.path], [p.low for p in expected.path], atol=1e-9)
    how = search_branch_and_bound(frames(rng, n=200, m=14)[0], np.linspace(0.1, 3, 14), subset_size=5, zeta=0.3).details
    assert how["sets_scored"] < 0.3 * how["sets_total"]


@pytest.mark.parametrize("limit", [0, 4])
def test_the_gap_holds_when_a_limit_stops_the_search(rng, limit):
    U, values = frames(rng, n=100, m=12, d=3)
    for zeta in (0.0, 0.1):
        found = search_branch_and_bound(U, values, subset_size=5, zeta=zeta, node_limit=limit)
        sets, losses = enumerated(U, values, 5, zeta)
        own = losses[(sets == found.subset).all(axis=1)][0]
        assert found.details["gap"] > 0 and "proved gap" in found.details["guarantee"]
        assert own <= losses.max() <= own + found.details["gap"] + 1e-9
        assert found.details["nodes"] <= limit


@pytest.mark.parametrize(("d", "s", "zeta"), [(2, 3, 0.0), (2, 5, 0.1), (3, 5, 0.02), (4, 4, 0.05)])
def test_submodular_search_reports_a_true_loss_that_no_exchange_improves(rng, on, d, s, zeta):
    U, values = frames(rng, m=12, d=d)
    found = on(search_submodular)(U, values, subset_size=s, zeta=zeta)
    sets, losses = enumerated(U, values, s, zeta)
    own = found.scores[(found.subsets == found.subset).all(axis=1)][0] - zeta * values[list(found.subset)].sum()
    assert own == pytest.approx(losses[(sets == found.subset).all(axis=1)][0], abs=1e-12)
    assert own >= losses[np.isin(sets, found.subset).sum(axis=1) == s - 1].max() - 1e-12
    assert found.details["guarantee"] == "exact over the pool only" and not found.details["path_exact"]


def test_the_seed_decides_what_the_submodular_search_looks_at(rng):
    U, values = frames(rng, m=14)
    one, same, other = (search_submodular(U, values, subset_size=5, random_state=k).subsets for k in (0, 0, 1))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


@pytest.mark.parametrize("search", [search_exhaustive, *SEARCHES])
def test_the_pool_is_what_the_choice_is_made_from(rng, search):
    U, values = frames(rng, m=10)
    mixed = rng.permutation(values)  # the path begins with the smallest penalty, whatever the order
    begun, expected = (f(U, mixed, subset_size=4).path[0].penalty for f in (search, search_exhaustive))
    assert begun == pytest.approx(expected, abs=1e-12)
    for zeta in ("auto", 0.0, 0.4):
        found = search(U, values, subset_size=4, zeta=zeta)
        assert found.details["pool_size"] == len(found.subsets) == len(found.scores) <= found.details["sets_scored"]
        assert np.array_equal(found.subsets, np.unique(found.subsets, axis=0))  # once each, in lexicographic order
        np.testing.assert_array_equal(found.scores, score_subsets(U, found.subsets))
        assert (found.subsets == np.arange(4)).all(axis=1).any()  # the first coordinates can always be compared with
        assert sorted(found.search_order) == list(found.subset)
        if zeta != "auto":
            low, high = found.zeta_interval
            assert low <= zeta <= (np.inf if high is None else high)
            losses = found.scores - zeta * penalties(found.subsets, values)
            assert found.subset == tuple(found.subsets[losses.argmax()].tolist()) and found.zeta == zeta
        else:
            expected = regularization_path(found.scores, found.subsets, values)
            assert found.path == expected and found.details.get("zetas_asked", 1) >= 1


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    ("n", "m", "d", "s"), [(2, 4, 2, 3), (5, 6, 6, 6), (30, 6, 2, 6), (30, 5, 1, 1), (30, 5, 1, 4)]
)
def test_edges(rng, search, n, m, d, s):
    U = np.linalg.qr(rng.normal(size=(n, m, d)))[0]
    values = np.sort(rng.uniform(0.1, 1, m))
    for zeta in ("auto", 0.1):
        found = search(U, values, subset_size=s, zeta=zeta)
        assert len(found.subset) == s and found.subset[0] == 0 and np.isfinite(found.scores).all()


@pytest.mark.parametrize("search", SEARCHES)
def test_equal_coordinates_and_equal_eigenvalues(rng, search):
    U = np.repeat(np.linalg.qr(rng.normal(size=(30, 4, 2)))[0], 2, axis=1)
    found = search(U, np.ones(8), subset_size=3, zeta=0.1)
    _, losses = enumerated(U, np.ones(8), 3, 0.1)
    own = found.scores[(found.subsets == found.subset).all(axis=1)][0] - 0.3
    assert own <= losses.max() + 1e-12
    if search is not search_greedy:
        assert own == pytest.approx(losses.max(), abs=1e-9)
    zeros = search(np.zeros((10, 5, 2)), np.arange(1.0, 6), subset_size=3)
    assert zeros.subset == (0, 1, 2)  # every set has lost rank everywhere: the penalty decides


def searched(search, **wrong):
    return lambda U, values: search(**{"bases": U, "eigenvalues": values, "subset_size": 3} | wrong)


def regret(subsets, candidates, n=60):
    return lambda U, _: leave_one_out_regret(U[:n], subsets, candidates=candidates)


@pytest.mark.parametrize(("code", "call"), [
    ("subset_size.range", searched(search_greedy, subset_size=1)),
    ("zeta.range", searched(search_submodular, zeta=-1.0)),
    ("node_limit.range", searched(search_branch_and_bound, node_limit=-1)),
    ("eigenvalues.number", searched(search_greedy, eigenvalues=np.arange(8.0))),
    ("bases.shape", searched(search_greedy, bases=np.ones((1, 9, 2)))),  # leaving one out must leave one
    *((f"subsets.{code}", lambda U, _, subset=subset: score_subsets(U, [subset]))
      for subset, code in (([0, 9], "range"), ([1, 1], "repeated"), ([0], "size"), ([-1, 0], "range"))),
    ("bases.shape", lambda U, _: score_subsets(U[:0], [[0, 1]])),
    ("search.too_many", lambda *_: candidate_subsets(100, 12)),
    ("subsets.size", regret([[0]], [[0], [1]])),
    ("candidates.size", regret([[0, 1]], [[0], [1]])),
    ("candidates.size", regret([[0, 1]], [[0, 1, 2]])),
    ("candidates.range", regret([[0, 1]], [[0, 9]])),
    ("bases.shape", regret([[0, 1]], [[0, 1]], n=1)),
])  # fmt: skip
def test_wrong_arguments(rng, code, call):
    with refused(code):
        call(*frames(rng))


M = 20


@cache
def tangents(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Bases and eigenvalues of a data set on 1,000 points, with a bandwidth that keeps the degrees."""
    full, data = datasets.load(name, n_samples=10), datasets.load(name, n_samples=1000)
    bandwidth = full.bandwidth * 10 ** (1 / full.intrinsic_dim)
    with warnings.catch_warnings():  # rolls and tori become nearly complete graphs; the search does not mind
        warnings.simplefilter("ignore", IESWarning)
        found = select_coordinates(
            data.X, intrinsic_dim=full.intrinsic_dim, subset_size=full.subset_size, bandwidth=bandwidth, n_components=M
        )
    return found.bases, found.eigenvalues


def instance(number: int) -> tuple[np.ndarray, np.ndarray, int, float]:
    """Bases, eigenvalues, s, and a zeta inside the path; odd numbers are frames by the Haar measure."""
    rng = np.random.default_rng(number)
    if number % 2:
        d = int(rng.integers(2, 5))
        U, values = np.linalg.qr(rng.normal(size=(300, M, d)))[0], np.sort(rng.uniform(0.01, 1, M))
    else:
        U, values = tangents(f"D{1 + number // 2 % 12}")
        d = U.shape[2]
    s = int(rng.integers(d, min(d + 3, 6)))
    sets = candidate_subsets(M, s)
    path = regularization_path(score_subsets(U, sets), sets, values)
    return U, values, s, float(rng.uniform(0, path[0].low or 1.0))  # where the first set is the best for every zeta


def reaches(search, number: int) -> bool:
    """Whether a search finds a set as good as the best."""
    U, values, s, zeta = instance(number)
    sets, losses = enumerated(U, values, s, zeta)
    own = losses[(sets == search(U, values, subset_size=s, zeta=zeta).subset).all(axis=1)][0]
    assert own <= losses.max()
    return own >= losses.max() - 1e-9


@pytest.mark.parametrize("numbers", [(1, 3, 5), pytest.param(range(200), marks=pytest.mark.slow)])
def test_searches_find_the_best_sets(numbers):
    assert all(reaches(search_branch_and_bound, number) for number in numbers)
    assert sum(reaches(search_submodular, number) for number in numbers) >= 0.95 * len(numbers)


@pytest.mark.slow
def test_greedy_chooses_what_enumeration_chooses_on_the_manifolds():
    agreeing = 0
    for data in (datasets.load(f"D{number}") for number in range(1, 13)):
        s = data.subset_size
        found = select_coordinates(data.X, intrinsic_dim=data.intrinsic_dim, subset_size=s, bandwidth=data.bandwidth)
        agreeing += search_greedy(found.bases, found.eigenvalues, subset_size=s).subset == found.subset
    assert agreeing >= 11


@pytest.mark.slow
def test_branch_and_bound_proves_the_best_of_forty_coordinates():
    data = datasets.load("D1")
    found = select_coordinates(
        data.X, intrinsic_dim=2, subset_size=4, bandwidth=data.bandwidth, n_components=40, keep_bases=True
    )
    for zeta in (0.0, 30.0):
        proved = search_branch_and_bound(found.bases, found.eigenvalues, subset_size=4, zeta=zeta)
        sets, losses = enumerated(found.bases, found.eigenvalues, 4, zeta)
        assert proved.details["guarantee"] == "exact"
        assert proved.subset == tuple(sets[losses.argmax()].tolist())
