"""Parameters found from the points: each rule against a fact or brute force, and the whole on small sets."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from ies_gpu import (
    DisconnectedGraphError,
    IESWarning,
    datasets,
    estimate_bandwidth,
    estimate_dimension,
    levina_bickel_dimension,
    load,
    save,
    select_coordinates,
    suggest_subset_size,
    two_nn_dimension,
    unexplained_variance,
)
from ies_gpu.parameters.bandwidth import (
    Distances,
    consistency_curve,
    degree_bandwidth,
    kernel_sum_slopes,
    mean_degree,
    sampled_distances,
)
from ies_gpu.parameters.dimension import local_spectrum
from ies_gpu.parameters.scan import Scan, largest_size
from tests.manifolds import rectangle


def plane(n: int, d: int, noise: float = 0.0, columns: int = 8, seed: int = 0) -> np.ndarray:
    """A flat cube of dimension d, rotated in space, with noise in every direction."""
    rng = np.random.default_rng(seed)
    frame = np.linalg.qr(rng.normal(size=(columns, columns)))[0][:d]
    return rng.uniform(-1, 1, (n, d)) @ frame + noise * rng.normal(size=(n, columns))


def quality(selection, truth) -> float:
    """The worst R^2 of a true coordinate by nearest neighbours on the chosen ones (an angle: of cosine and sine)."""
    worst = 1.0
    for name, values in truth.items():
        values = values[selection.points]
        columns = [np.cos(values), np.sin(values)] if name in ("alpha", "beta") else [values]
        left = [unexplained_variance(column[:, None], selection.embedding) for column in columns]
        worst = min(worst, 1 - float(np.mean(left)))
    return worst


@pytest.fixture(scope="module")
def strip():
    """A strip of 1,200 points, long enough that phi2 repeats phi1."""
    points, flat, _ = rectangle(1200, 4.3, noise=0.1, degree=60)
    return points, flat


@pytest.fixture(scope="module")
def automatic(strip):
    return select_coordinates(strip[0])


# --- distances alone


def test_the_bandwidth_of_neighbours_has_the_degree_it_promises():
    X = plane(900, 2, 0.02)
    everyone = sampled_distances(X, queries=900)
    np.testing.assert_array_equal(everyone.rows, np.arange(900))
    np.testing.assert_allclose(everyone.table, cdist(X, X), atol=1e-14)
    eps = degree_bandwidth(everyone)
    within = (cdist(X, X) <= 3 * eps * (1 + 1e-12)).sum() / 900  # itself counted
    assert within == pytest.approx(0.06 * 900, abs=2 / 900)
    assert mean_degree(everyone, eps) == pytest.approx(within - 1, abs=2 / 900)
    # a sample of points comes close
    assert degree_bandwidth(sampled_distances(X)) == pytest.approx(eps, rel=0.05)


def test_few_points_get_twenty_neighbours():
    X = plane(100, 2)
    eps = degree_bandwidth(sampled_distances(X))
    assert (cdist(X, X) <= 3 * eps * (1 + 1e-12)).sum() / 100 == pytest.approx(20, abs=0.02)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_kernel_sum_grows_with_the_dimension(d):
    """On a flat torus sum K = n (sqrt(pi) eps)^d / volume exactly in the mean: the slope is d where points are many."""
    rng = np.random.default_rng(d)
    n = 3000
    apart = np.abs(rng.uniform(0, 1, (200, 1, d)) - rng.uniform(0, 1, (n, d)))
    table = np.sqrt((np.minimum(apart, 1 - apart) ** 2).sum(axis=2))
    slopes = kernel_sum_slopes(Distances(np.arange(200), table), np.array([0.1, 0.15]))
    np.testing.assert_allclose(slopes, d, atol=0.05 * d)


def test_slopes_are_derivatives():
    distances = sampled_distances(plane(300, 2, 0.1))
    total = [np.log(np.exp(-((distances.table / eps) ** 2)).sum()) for eps in (0.3 * 0.999, 0.3 * 1.001)]
    expected = (total[1] - total[0]) / np.log(1.001 / 0.999)
    assert kernel_sum_slopes(distances, np.array([0.3]))[0] == pytest.approx(expected, rel=1e-5)


def test_the_metric_is_most_consistent_between_too_small_and_too_large():
    """Isolated points have co-metric 0, a distance of 1 from the identity; so has a blob within a large bandwidth."""
    X = plane(1000, 2)
    curve = consistency_curve(X, 2, np.array([0.003, 0.1, 10.0]))
    assert curve[0] == pytest.approx(1, abs=0.05)
    assert curve[2] == pytest.approx(1, abs=0.05)
    assert curve[1] < 0.45


# --- dimension


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_local_spectrum_of_a_flat_sample_is_one_along_it_and_zero_across(d):
    """``exp(-r^2/eps^2)`` has variance eps^2/2 in every direction, seen from points far from the edges."""
    rng = np.random.default_rng(d)
    X = np.column_stack([rng.uniform(-1, 1, (6000, d)), 0.01 * rng.normal(size=(6000, 2))])
    eps = 0.15 if d < 3 else 0.2
    inner = np.flatnonzero((np.abs(X[:, :d]) < 1 - 3 * eps).all(axis=1))[:200]
    inner = Distances(inner, cdist(X[inner], X))
    spectrum = local_spectrum(X, inner, eps)
    np.testing.assert_allclose(spectrum[:d].mean(), 1, atol=0.05)
    np.testing.assert_allclose(spectrum[d:].mean(), 0.01**2 / (eps**2 / 2), rtol=0.3)


def test_the_local_spectrum_of_ten_thousand_points_is_the_plain_one(monkeypatch):
    """There nothing is corrected: eigenvalues of the weighted covariance with the point itself, by brute force."""
    monkeypatch.setattr("ies_gpu.parameters.dimension.SAMPLE_SIZE", 60)
    X = plane(60, 2, 0.1, columns=4)
    distances = sampled_distances(X, queries=60)
    expected = np.zeros(4)
    for x in X:
        r = np.linalg.norm(X - x, axis=1)
        w = np.where(r <= 3 * 0.3, np.exp(-((r / 0.3) ** 2)), 0)
        covariance = np.cov(X.T, aweights=w, ddof=0)
        expected += np.linalg.eigvalsh(covariance)[::-1] / (0.3**2 / 2) / 60
    np.testing.assert_allclose(local_spectrum(X, distances, 0.3), expected, rtol=1e-10)


def test_fewer_points_give_nearly_the_spectrum_of_more(monkeypatch):
    """The covariance of few points is too small; the correction leaves less than half of that."""
    X = plane(3000, 2, 0.05)
    fewer = sampled_distances(X[:500], queries=500)

    def trace(points, distances, standard):
        monkeypatch.setattr("ies_gpu.parameters.dimension.SAMPLE_SIZE", standard)
        return local_spectrum(points, distances, 0.15).sum()

    whole = trace(X, sampled_distances(X), 3000)
    as_it_is, corrected = trace(X[:500], fewer, 500), trace(X[:500], fewer, 3000)
    assert as_it_is < 0.9 * whole
    assert abs(corrected - whole) < 0.5 * (whole - as_it_is)


@pytest.mark.parametrize("d", [2, 3])
def test_noise_below_the_threshold_is_not_counted_by_local_pca_but_by_the_others(d):
    X = plane(3000, d, noise=0.05)
    found = estimate_dimension(X)
    assert found.value == d
    assert (found.curve[d:] < 0.45).all()
    assert estimate_dimension(X, method="two_nn").value > d


def test_more_columns_than_points():
    X = plane(300, 2, noise=1e-3, columns=400)
    found = estimate_dimension(X)
    assert found.value == 2


@pytest.mark.parametrize("d", [1, 2, 3])
def test_nearest_neighbours_know_the_dimension_of_a_clean_cube(d):
    X = np.random.default_rng(d).uniform(0, 1, (4000, d))
    assert two_nn_dimension(X) == pytest.approx(d, rel=0.06)
    assert levina_bickel_dimension(X).dimension == pytest.approx(d, rel=0.12)  # a little low: edges
    for method in ("two_nn", "levina_bickel", "slope"):
        assert estimate_dimension(X[:2000], method=method).value == d


def test_nearest_neighbour_estimates_by_brute_force():
    X = np.random.default_rng(0).normal(size=(80, 3))
    T = np.sort(cdist(X, X), axis=1)[:, 1:]
    assert two_nn_dimension(X) == pytest.approx(79 / np.log(T[:, 1] / T[:, 0]).sum())
    inverse = {k: np.log(T[:, k - 1 : k] / T[:, : k - 1]).mean(axis=1) for k in (5, 9)}
    harmonic = np.mean([1 / v.mean() for v in inverse.values()])
    arithmetic = np.mean([(1 / v).mean() for v in inverse.values()])
    assert levina_bickel_dimension(X, neighbors=(5, 9)).dimension == pytest.approx(harmonic)
    assert levina_bickel_dimension(X, neighbors=(5, 9), average="mean").dimension == pytest.approx(arithmetic)


def test_copies_are_left_out_of_nearest_neighbour_estimates():
    X = np.random.default_rng(0).normal(size=(200, 2))
    twice = np.vstack([X, X[:20]])
    T = np.sort(cdist(twice, twice), axis=1)[20:200, 1:]
    assert two_nn_dimension(twice) == pytest.approx(179 / np.log(T[:, 1] / T[:, 0]).sum())
    assert levina_bickel_dimension(twice).zero_distances == 40


# --- unexplained variance


def test_a_chart_explains_everything_and_noise_nothing():
    rng = np.random.default_rng(0)
    flat = rng.uniform(0, 1, (2000, 2))
    X = np.column_stack([flat[:, 0], np.sin(3 * flat[:, 0]), flat[:, 1]])
    assert unexplained_variance(X, np.exp(flat)) < 0.01
    # independent coordinates: the mean of 10 others is off by 1 + 1/10 of the variance
    assert unexplained_variance(X, rng.normal(size=(2000, 2))) == pytest.approx(1.1, abs=0.05)
    assert unexplained_variance(X, flat[:, :1]) == pytest.approx(1.1 * X[:, 2].var() / X.var(axis=0).sum(), rel=0.1)


def test_unexplained_variance_by_brute_force():
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(70, 4)), rng.normal(size=(70, 2)) * [1, 100]
    D = cdist(Y / Y.std(axis=0), Y / Y.std(axis=0))
    np.fill_diagonal(D, np.inf)
    predicted = np.array([X[np.argsort(row)[:10]].mean(axis=0) for row in D])
    expected = ((X - predicted) ** 2).sum() / ((X - X.mean(axis=0)) ** 2).sum()
    assert unexplained_variance(X, Y) == pytest.approx(expected)
    assert unexplained_variance(1e-160 * X + 5e-160, Y) == pytest.approx(expected)


# --- the whole


def test_everything_automatic_unrolls_the_strip(strip, automatic):
    X, flat = strip
    found = automatic.diagnostics["automatic"]
    assert found["chosen"]["intrinsic_dim"] == found["chosen"]["subset_size"] == 2
    assert unexplained_variance(flat, automatic.embedding) < 0.03
    assert unexplained_variance(flat, automatic.coordinates[:, :2]) > 0.03  # the first two would not do
    assert 0 < found["fvu"] < 0.03
    assert found["fvu"] == pytest.approx(unexplained_variance(X, automatic.embedding))
    assert min(row["fvu"] for row in found["scan"]) >= found["fvu"] / 1.01
    assert "automatic" in repr(automatic)
    assert max(map(len, repr(automatic).splitlines())) <= 80


def test_automatic_is_the_same_as_its_own_numbers_given(strip, automatic):
    chosen = automatic.diagnostics["automatic"]["chosen"]
    given = select_coordinates(strip[0], **chosen)
    assert given.subset == automatic.subset
    np.testing.assert_allclose(given.coordinates, automatic.coordinates, atol=1e-8)
    np.testing.assert_allclose(given.eigenvalues, automatic.eigenvalues, atol=1e-12)
    assert given.diagnostics["automatic"] is None
    assert given.zeta == pytest.approx(automatic.zeta)
    assert given.diagnostics["parameters"] == automatic.diagnostics["parameters"]


@pytest.mark.parametrize(
    "given",
    [
        {"bandwidth": 0.15},
        {"intrinsic_dim": 2},
        {"subset_size": 3},
        {"bandwidth": 0.15, "intrinsic_dim": 2},
        {"bandwidth": 0.15, "subset_size": 2, "radius": 0.4},
        {"intrinsic_dim": 1, "subset_size": 2},
    ],
    ids=str,
)
def test_any_combination_of_given_and_automatic(strip, given):
    found = select_coordinates(strip[0][:700], n_components=10, **given)
    parameters = found.diagnostics["parameters"]
    assert all(parameters[name] == value for name, value in given.items())
    names = {"bandwidth", "intrinsic_dim", "subset_size"}
    assert set(found.diagnostics["automatic"]["chosen"]) == names - set(given)
    assert len(found.subset) == parameters["subset_size"] >= parameters["intrinsic_dim"]


def test_a_circle_needs_two_coordinates():
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)  # no gap in which small bandwidths could cut it
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    found = select_coordinates(X, n_components=8)
    assert found.diagnostics["automatic"]["chosen"]["intrinsic_dim"] == 1
    assert found.subset == (0, 1)
    assert unexplained_variance(X, found.embedding) < 1e-3


def test_a_sample_stands_for_many_points(strip, monkeypatch):
    """Beyond the sample's size the bandwidth is carried over, shrunk by (n/N)^(-1/(d+4)), and checked on all points."""
    monkeypatch.setattr("ies_gpu.parameters.automatic.calibrate.__kwdefaults__", {"sample_size": 700})
    X, flat = strip
    found = select_coordinates(X)
    carried = found.diagnostics["automatic"]["carried"]
    assert found.coordinates.shape == (1200, 20)
    assert unexplained_variance(flat, found.embedding) < 0.03
    assert carried["holds"]
    small = carried["tried"][0]
    sample = [row["bandwidth"] for row in found.diagnostics["automatic"]["scan"]]
    assert min(abs(small["bandwidth"] * (1200 / 700) ** (1 / 6) / np.array(sample) - 1)) < 1e-12


def test_results_with_reports_are_saved_and_loaded(automatic, tmp_path):
    save(automatic, tmp_path / "run.npz")
    assert load(tmp_path / "run.npz").diagnostics["automatic"] == automatic.diagnostics["automatic"]


# --- graphs in parts


def two_strips(gap: float, n: int = 500) -> np.ndarray:
    points = rectangle(2 * n, 3.1, degree=60)[0]
    return np.vstack([points[:n], points[n:] + [0, gap, 0]])


def test_a_graph_in_parts_is_an_error_unless_the_largest_is_wanted():
    X = two_strips(500.0)
    given = {"n_components": 8, "intrinsic_dim": 2, "subset_size": 2}
    with pytest.raises(DisconnectedGraphError, match="2 parts"):
        select_coordinates(X, **given)
    stray = np.vstack([two_strips(0.0), [[300.0, 0, 0]]])
    with pytest.raises(DisconnectedGraphError, match="2 parts"):
        select_coordinates(stray, **given)
    with pytest.warns(IESWarning, match="2 parts; going on with the largest, 1,000 of 1,001"):
        found = select_coordinates(stray, components="largest", **given)
    assert len(found.points) == 1000


def test_bandwidths_that_break_the_graph_are_left_out():
    """Two strips that only the larger bandwidths join: the smaller ones are named with the reason."""
    X = two_strips(1.25)
    found = select_coordinates(X, n_components=8, intrinsic_dim=2, subset_size=2)
    left_out = found.diagnostics["automatic"]["left_out"]
    assert found.diagnostics["graph_components"] == 1
    assert left_out
    assert all("parts" in row["reason"] for row in left_out)
    assert max(row["bandwidth"] for row in left_out) < found.diagnostics["parameters"]["bandwidth"]


# --- warnings that need no automatic choice


def test_coordinates_that_lack_a_dimension_are_named(strip):
    """phi1 to phi3 of a long strip all depend on its length alone: the second dimension is not there."""
    given = {"bandwidth": 0.12, "intrinsic_dim": 2, "subset_size": 2}
    with pytest.warns(IESWarning, match="phi1..phi3 hardly vary along 2 dimensions.*raise n_components"):
        select_coordinates(strip[0], n_components=3, **given)
    assert select_coordinates(strip[0], n_components=10, **given).diagnostics["warnings"] == ()


def test_a_nearly_complete_graph_is_named():
    X = plane(300, 2)
    with pytest.warns(IESWarning, match="joins 9.% of all pairs"):
        select_coordinates(X, bandwidth=0.7, intrinsic_dim=2, subset_size=2, n_components=5)


# --- errors


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bandwidth": None}, "bandwidth is needed with X"),
        ({"radius": 1.0}, "radius goes with a bandwidth"),
        ({"intrinsic_dim": "two"}, "intrinsic_dim must be an integer, got 'two'"),
        ({"subset_size": 30}, "subset_size must lie between 1 and 20"),
        ({"X": None, "kernel": np.eye(30)}, "intrinsic_dim is needed with kernel"),
        ({"X": None, "kernel": np.eye(30), "intrinsic_dim": 1}, "subset_size is needed with kernel"),
        ({"X": None, "graph": np.ones((30, 30))}, "bandwidth is needed with graph"),
        ({"X": np.repeat(plane(10, 2), 30, axis=0)}, "copies of each other"),
        ({"X": plane(15, 2)}, "n_components must be at most 13"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_errors(changed, message):
    with pytest.raises((ValueError, TypeError), match=message):
        select_coordinates(**{"X": plane(40, 2), **changed})


def test_a_dimension_above_the_size_asked_for_is_capped_with_a_warning():
    with pytest.warns(IESWarning) as caught:
        found = select_coordinates(plane(1500, 3), subset_size=2, n_components=8, bandwidth=0.2)
    assert any("seem to have 3 dimensions" in str(warning.message) for warning in caught)
    assert found.diagnostics["parameters"]["intrinsic_dim"] == 2


def scanned(*tables: dict[int, float]) -> Scan:
    """Trials at bandwidths 1, 2, 4, ... that leave given fractions for given sizes."""
    work = SimpleNamespace(eigenvalues=np.arange(20))
    trials = [
        SimpleNamespace(bandwidth=2.0**k, fvu=lambda s, table=table: table[s], work=work)
        for k, table in enumerate(tables)
    ]
    return Scan(tuple(trials), {}, 1.0)


def test_sizes_are_compared_each_at_its_own_best_bandwidth():
    """As on D7: at the bandwidth that is best for two coordinates a third adds nothing, at another it adds much."""
    torus = scanned({2: 0.053, 3: 0.052, 4: 0.051}, {2: 0.060, 3: 0.021, 4: 0.021}, {2: 0.061, 3: 0.060, 4: 0.05})
    assert torus.best(2).bandwidth == 1
    assert torus.settle(2, 4) == 3
    assert torus.best(3).bandwidth == 2
    assert torus.gain(3) == pytest.approx(0)
    assert torus.settle(2, 2) == 2  # no further than allowed


def test_equally_good_bandwidths_are_decided_by_the_rule_of_neighbours():
    assert scanned({2: 0.1000}, {2: 0.0995}, {2: 0.2}).best(2).bandwidth == 1
    assert scanned({2: 0.1000}, {2: 0.0950}, {2: 0.2}).best(2).bandwidth == 2


def test_a_narrow_choice_is_looked_at_more_closely():
    """The best bandwidth leaves .04, a step beside it half as much again; trials between do not take the doubt away."""
    narrow = scanned({2: 0.06}, {2: 0.04}, {2: 0.06})
    assert narrow.is_narrow(2) and narrow.beside(2) == pytest.approx(1.5)
    np.testing.assert_allclose(narrow.between(), [2**0.5, 2**1.5])
    assert not scanned({2: 0.046}, {2: 0.04}, {2: 0.046}).is_narrow(2)  # 15 % more
    assert not scanned({2: 0.006}, {2: 0.004}, {2: 0.006}).is_narrow(2)  # .002 of the variance
    assert scanned({2: 0.04}).beside(2) == 0
    close = Scan(
        tuple(SimpleNamespace(bandwidth=2 ** (0.25 * k), fvu=lambda s, k=k: 0.04 + 0.01 * abs(k)) for k in (-1, 0, 1)),
        {}, 1.0,
    )  # fmt: skip
    steps = Scan(
        tuple(SimpleNamespace(bandwidth=2 ** (0.5 * k), fvu=lambda s, k=k: 0.04 + 0.02 * abs(k)) for k in (-1, 0, 1)),
        {}, 1.0,
    )  # fmt: skip
    both = steps.joined(close)
    assert [t.bandwidth for t in both.trials] == sorted(t.bandwidth for t in both.trials)
    assert both.best(2).fvu(2) == 0.04 and both.beside(2) == pytest.approx(1.5)  # a step away, as before


def test_the_largest_size():
    assert largest_size(1, 20) == 2
    assert largest_size(2, 20) == 4
    assert largest_size(5, 20) == 8
    assert largest_size(5, 6) == 6
    assert largest_size(4, 300) == 4  # C(299, 4) sets of five are too many


# --- estimates


@pytest.mark.parametrize("method", ["degree", "slope", "consistency"])
def test_rules_for_the_bandwidth(strip, method):
    found = estimate_bandwidth(strip[0][:500], method=method)
    assert found.bandwidths.min() <= found.value <= found.bandwidths.max() * (1 + 1e-12)
    assert (np.diff(found.degrees) >= 0).all()
    assert found.confidence.split(":")[0] in ("high", "fair", "low")
    if method == "degree":
        return
    best = found.curve.max() if method == "slope" else found.curve.min()
    assert found.curve[found.bandwidths == found.value] == best


def test_estimates_agree_with_the_automatic_run(strip, automatic):
    chosen = automatic.diagnostics["automatic"]["chosen"]
    bandwidth = estimate_bandwidth(strip[0])
    assert bandwidth.value == pytest.approx(chosen["bandwidth"])
    assert bandwidth.subsets[list(bandwidth.bandwidths).index(bandwidth.value)] == automatic.subset
    size = suggest_subset_size(strip[0], bandwidth=chosen["bandwidth"], intrinsic_dim=2)
    assert size.value == chosen["subset_size"]
    assert size.sizes == (2, 3)
    assert size.unexplained[0] - size.unexplained[1] <= 0.01
    assert estimate_dimension(strip[0]).value == chosen["intrinsic_dim"]


def test_every_estimate_has_a_picture(strip):
    X = strip[0][:500]
    estimates = [estimate_dimension(X, method=m) for m in ("local_pca", "levina_bickel", "two_nn", "slope")]
    estimates += [estimate_bandwidth(X, method=m) for m in ("degree", "slope")]
    estimates += [suggest_subset_size(X, bandwidth=0.2, intrinsic_dim=2, n_components=8)]
    for estimate in estimates:
        axes = estimate.plot().axes[0]
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        assert str(estimate.value)[:3] in axes.figure.get_suptitle()


def test_wrong_estimates_are_refused():
    X = plane(40, 2)
    for call, message in (
        (lambda: estimate_bandwidth(X, method="magic"), "method must be one of 'fvu'"),
        (lambda: estimate_dimension(X, method="magic"), "method must be one of 'local_pca'"),
        (lambda: estimate_bandwidth(X, method="degree", degree=2), "degree must be a finite number"),
        (lambda: estimate_dimension(X, sample_size=0), "sample_size must be 2 or more"),
        (lambda: levina_bickel_dimension(X, neighbors=[1]), "neighbors must be 3 or more"),
        (lambda: levina_bickel_dimension(X, average="geometric"), "average must be one of"),
        (lambda: suggest_subset_size(X, bandwidth=-1), "bandwidth must be a finite number greater than 0"),
        (lambda: unexplained_variance(X, X[:3]), "coordinates has 3 rows for 40 points"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


# --- at the paper's size


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"D{k}" for k in range(1, 13)])
@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
def test_the_automatic_choice_is_as_good_as_the_published_one(name):
    data = datasets.load(name)
    given = {"bandwidth": data.bandwidth, "intrinsic_dim": data.intrinsic_dim, "subset_size": data.subset_size}
    automatic, published = select_coordinates(data.X), select_coordinates(data.X, **given)
    assert quality(automatic, data.colors) >= quality(published, data.colors) - 0.05
    assert automatic.diagnostics["parameters"]["intrinsic_dim"] == data.intrinsic_dim


@pytest.mark.slow
@pytest.mark.parametrize("name", ["D1", "D7", "D8"])
@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
def test_a_bandwidth_is_carried_to_forty_thousand_points(name):
    """As good on all points as the published parameters on a quarter of them."""
    data = datasets.load(name, n_samples=40_000)
    few = datasets.load(name)
    given = {"bandwidth": data.bandwidth, "intrinsic_dim": data.intrinsic_dim, "subset_size": data.subset_size}
    # a few of 40,000 points with noise in 13 columns are alone at any useful bandwidth
    automatic, published = select_coordinates(data.X, components="largest"), select_coordinates(few.X, **given)
    assert len(automatic.points) > 0.999 * len(data.X)
    assert automatic.diagnostics["automatic"]["carried"]["holds"]
    assert quality(automatic, data.colors) >= quality(published, few.colors) - 0.05
