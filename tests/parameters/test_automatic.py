"""Parameters found from the points: the whole, on small sets."""

import numpy as np
import pytest

from ies_gpu import DisconnectedGraphError, datasets, estimate_dimension, estimate_parameters, select_coordinates
from ies_gpu.parameters.judgement import unexplained_variance
from ies_gpu.parameters.scan import ALIKE
from tests.comparison import assert_agreement
from tests.manifolds import plane, rectangle
from tests.said import refused, warned

QUIET = pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")


def quality(selection, truth) -> float:
    """The worst R^2 of a true coordinate by nearest neighbours on the chosen ones (an angle: of cosine and sine)."""
    worst = 1.0
    for name, values in truth.items():
        values = values[selection.points]
        columns = [np.cos(values), np.sin(values)] if name in ("alpha", "beta") else [values]
        left = [unexplained_variance(column[:, None], selection.embedding) for column in columns]
        worst = min(worst, 1 - float(np.mean(left)))
    return worst


def test_everything_automatic_unrolls_the_strip(strip, automatic):
    X, flat = strip
    found, embedding = automatic.diagnostics["automatic"], automatic.coordinates[:, list(automatic.subset)]
    assert found["chosen"]["intrinsic_dim"] == found["chosen"]["subset_size"] == 2
    assert unexplained_variance(flat, automatic.embedding) < 0.03
    assert unexplained_variance(flat, automatic.coordinates[:, :2]) > 0.03  # the first two would not do
    # the blur is drawn at random, so that it differs for a coordinate of the other sign
    assert 0 < found["fvu"] < 0.03
    assert found["fvu"] == pytest.approx(unexplained_variance(X, embedding, blur=0.01), rel=0.1)
    assert min(row["lost"] for row in found["scan"]) >= found["lost"] - ALIKE
    assert found["local"] is None  # an even density costs no trial of a bandwidth that follows it
    assert automatic.verdict == "sure" and {finding.severity for finding in automatic.findings} <= {"note"}
    assert "automatic" in repr(automatic) and "verdict         sure" in repr(automatic)
    assert max(map(len, repr(automatic).splitlines())) <= 80


@pytest.mark.parametrize("backend", ["cuda", pytest.param("gpu", marks=pytest.mark.gpu)], indirect=True)
def test_a_device_finds_what_the_cpu_finds(backend):
    X = rectangle(650, 4.3, noise=0.1, degree=60)[0]
    given = {"n_components": 10, "tol": 1e-12}  # with 1e-8 two sets tie at the smallest bandwidth
    found, expected = (select_coordinates(X, device=device, **given) for device in (backend.device, "cpu"))
    mine, theirs = (s.diagnostics["automatic"] for s in (found, expected))
    assert_agreement(found, expected)
    assert mine["chosen"] == pytest.approx(theirs["chosen"])
    np.testing.assert_allclose(mine["spectrum"], theirs["spectrum"], rtol=1e-10)
    # at bandwidths that are not chosen, sets may be nearly tied
    both = [(a, b) for a, b in zip(mine["scan"], theirs["scan"], strict=True) if a["subset"] == b["subset"]]
    assert len(both) >= len(mine["scan"]) - 1
    np.testing.assert_allclose(*np.array([(a["lost"], b["lost"]) for a, b in both]).T, rtol=0.05)


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
    [{"bandwidth": 0.15}, {"intrinsic_dim": 2}, {"subset_size": 3}, {"bandwidth": 0.15, "intrinsic_dim": 2},
     {"bandwidth": 0.15, "subset_size": 2, "radius": 0.4}, {"intrinsic_dim": 1, "subset_size": 2}], ids=str,
)  # fmt: skip
@QUIET  # one dimension is too few for a strip
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
    monkeypatch.setattr("ies_gpu.parameters.automatic.calibrate.__defaults__", (700,))
    X, flat = strip
    found = select_coordinates(X)
    carried = found.diagnostics["automatic"]["carried"]
    assert found.coordinates.shape == (1200, 20)
    assert unexplained_variance(flat, found.embedding) < 0.03
    assert carried["holds"]
    small = carried["tried"][0]
    sample = [row["bandwidth"] for row in found.diagnostics["automatic"]["scan"]]
    assert min(abs(small["bandwidth"] * (1200 / 700) ** (1 / 6) / np.array(sample) - 1)) < 1e-12


def two_strips(gap):
    points = rectangle(1000, 3.1, degree=60)[0]
    return np.vstack([points[:500], points[500:] + [0, gap, 0]])


def test_a_graph_in_parts_is_an_error_unless_the_largest_is_wanted_or_another_bandwidth_joins_it():
    given = {"n_components": 8, "intrinsic_dim": 2, "subset_size": 2}
    stray = np.vstack([two_strips(0.0), [[300.0, 0, 0]]])
    for X, way in ((two_strips(500.0), "auto"), (stray, "raise")):
        with refused("graph.disconnected", DisconnectedGraphError):
            select_coordinates(X, disconnected=way, **given)
    for way in ("auto", "most", "largest"):
        with warned("graph.left_out"):
            found = select_coordinates(stray, disconnected=way, **given)
        assert len(found.points) == 1000
    # two strips that only the larger bandwidths join: the smaller ones are named with the reason
    with warned("choice.doubtful"):  # by a narrow neck
        found = select_coordinates(two_strips(1.5), **given)
    left_out = found.diagnostics["automatic"]["left_out"]
    assert found.diagnostics["graph_components"] == 1
    assert left_out and all("parts" in row["reason"] for row in left_out)
    assert max(row["bandwidth"] for row in left_out) < found.diagnostics["parameters"]["bandwidth"]


@QUIET
def test_a_nearly_complete_graph_and_many_columns_are_named_and_a_dimension_above_the_size_is_capped():
    known = {"intrinsic_dim": 2, "subset_size": 2, "n_components": 5}
    with warned("graph.complete"):
        select_coordinates(plane(300, 2), bandwidth=0.7, **known)
    found = select_coordinates(plane(400, 2, noise=0.05, columns=301), bandwidth="fixed", **known)
    assert "columns.many" in [finding.code for finding in found.findings]
    with warned("dimension.bounded"):
        found = select_coordinates(plane(1500, 3), subset_size=2, n_components=8, bandwidth=0.2)
    assert found.diagnostics["parameters"]["intrinsic_dim"] == 2


def test_errors():
    for call, changed, code in (
        (select_coordinates, {"bandwidth": None}, "bandwidth.missing"),
        (select_coordinates, {"radius": 1.0}, "radius.automatic"),
        (select_coordinates, {"intrinsic_dim": "two"}, "intrinsic_dim.type"),
        (select_coordinates, {"subset_size": 30}, "subset_size.range"),
        (select_coordinates, {"X": None, "kernel": np.eye(30)}, "entry.automatic"),
        (select_coordinates, {"X": None, "kernel": np.eye(30), "intrinsic_dim": 1}, "entry.automatic"),
        (select_coordinates, {"X": None, "graph": np.ones((30, 30))}, "entry.automatic"),
        (select_coordinates, {"X": np.repeat(plane(10, 2), 30, axis=0)}, "X.copies"),
        (select_coordinates, {"X": plane(15, 2)}, "points.too_few"),
        (estimate_dimension, {"sample_size": 0}, "sample_size.range"),
        (estimate_parameters, {"bandwidth": -1}, "bandwidth.range"),
        (estimate_parameters, {"magic": 1}, "keyword.unknown"),
    ):
        with refused(code, (ValueError, TypeError)):
            call(**{"X": plane(40, 2), **changed})


def test_parameters_by_themselves_are_those_of_the_automatic_run_and_what_is_given_is_not_looked_for(strip, automatic):
    found, chosen = estimate_parameters(strip[0]), automatic.diagnostics["automatic"]["chosen"]
    assert {name: getattr(found, name) for name in chosen} == chosen
    assert found.verdict == automatic.verdict and found.basis == automatic.diagnostics["automatic"]
    assert found.confidence.keys() == chosen.keys()
    assert all(judged.level in ("high", "fair", "low") and judged.facts for judged in found.confidence.values())
    assert estimate_dimension(strip[0]).value == chosen["intrinsic_dim"]
    found = estimate_parameters(strip[0][:600], bandwidth=0.2, intrinsic_dim=2, n_components=8)
    assert (found.bandwidth, found.intrinsic_dim) == (0.2, 2) and found.confidence.keys() == {"subset_size"}
    assert [row["subset_size"] for row in found.basis["sizes"]] and len(found.basis["scan"]) == 1
    with refused("parameters.given"):
        estimate_parameters(strip[0][:600], bandwidth=0.2, intrinsic_dim=2, subset_size=2, n_components=8)


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"D{k}" for k in range(1, 13)])
@QUIET
def test_the_automatic_choice_is_as_good_as_the_published_one(name):
    data = datasets.load(name)
    given = {"bandwidth": data.bandwidth, "intrinsic_dim": data.intrinsic_dim, "subset_size": data.subset_size}
    automatic, published = select_coordinates(data.X), select_coordinates(data.X, **given)
    assert quality(automatic, data.colors) >= quality(published, data.colors) - 0.05
    assert automatic.diagnostics["parameters"]["intrinsic_dim"] == data.intrinsic_dim


@pytest.mark.slow
@pytest.mark.parametrize("name", ["D1", "D7", "D8"])
@QUIET
def test_a_bandwidth_is_carried_to_forty_thousand_points(name):
    """As good on all points as the published parameters on a quarter of them."""
    data, few = datasets.load(name, n_samples=40_000), datasets.load(name)
    given = {"bandwidth": data.bandwidth, "intrinsic_dim": data.intrinsic_dim, "subset_size": data.subset_size}
    # a few of 40,000 points with noise in 13 columns are alone at any useful bandwidth
    automatic, published = select_coordinates(data.X, disconnected="largest"), select_coordinates(few.X, **given)
    assert len(automatic.points) > 0.999 * len(data.X)
    assert automatic.diagnostics["automatic"]["carried"]["holds"]
    assert quality(automatic, data.colors) >= quality(published, few.colors) - 0.05


def test_a_far_point_among_many_is_left_out_with_a_warning():
    """It is in none of the samples that are tried first, so that only the run on all points finds it."""
    X = np.random.default_rng(0).uniform(size=(6000, 2)) * [8, 1]
    X[4] = 40.0
    with warned("graph.left_out"):
        found = select_coordinates(X, intrinsic_dim=2, subset_size=2, n_components=10)
    assert len(found.points) == 5999 and 4 not in found.points
