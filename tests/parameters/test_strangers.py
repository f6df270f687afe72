"""The first call on data that are no textbook manifold or of uneven density, with nothing given but the points."""

import warnings

import numpy as np
import pytest
from sklearn import datasets as theirs

import ies_gpu
from benchmarks import shapes
from ies_gpu import DisconnectedGraphError, diagnose, plot, select_coordinates, select_each_part
from ies_gpu.embedding.parts import SCATTERED
from ies_gpu.parameters.distances import sampled_distances
from ies_gpu.parameters.judgement import unexplained_variance
from ies_gpu.parameters.scan import UNEVEN, unevenness
from tests.manifolds import plane, rectangle
from tests.said import refused, warned
from tests.thorough import first_of

QUIET = pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
STRIP = rectangle(1200, 4.3, noise=0.1, degree=60)[0]


def moved_away(count):
    points = STRIP.copy()
    points[:count] = 30 + 40 * np.random.default_rng(0).uniform(-1, 1, (count, 3))
    return points


@pytest.mark.parametrize("count", first_of(12, 1))
def test_a_few_outliers_are_left_out_and_named(count):
    with warned("graph.left_out"):
        found = select_coordinates(moved_away(count))
    np.testing.assert_array_equal(found.points, np.arange(count, len(STRIP)))
    # the map is that of the points without them
    without = select_coordinates(STRIP[count:])
    assert found.subset == without.subset
    assert found.diagnostics["parameters"]["disconnected"] == "most"


def test_more_than_a_few_are_an_error_before_long_work_and_one_with_a_given_bandwidth_has_advice_that_works():
    points, seen = moved_away(int(1.5 * SCATTERED[0] * len(STRIP))), []
    with refused("graph.disconnected", DisconnectedGraphError):
        select_coordinates(points, progress=lambda stage, *_: seen.append(stage))
    assert "eigenvectors" not in seen
    points, known = moved_away(1), {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.15}
    with refused("graph.disconnected", DisconnectedGraphError) as told:
        select_coordinates(points, **known)
    assert told.value.finding.advised == {"disconnected": "'largest'"}  # a bandwidth would join nearly all pairs
    with warned("graph.left_out"):
        assert len(select_coordinates(points, disconnected="largest", **known).points) == len(points) - 1


@pytest.mark.parametrize("name", ["iris", "blobs", "circles"])
def test_clusters_are_an_error_with_their_sizes(name):
    X, sizes = {
        "iris": (theirs.load_iris().data, [100, 50]),
        "blobs": (theirs.make_blobs(600, centers=3, cluster_std=0.4, random_state=1)[0], [200, 200, 200]),
        "circles": (theirs.make_circles(600, factor=0.3, noise=0.03, random_state=0)[0], [300, 300]),
    }[name]
    with refused("graph.disconnected", DisconnectedGraphError) as caught:
        select_coordinates(X)
    assert [len(part) for part in caught.value.parts] == sizes


T = np.linspace(0, 1, 500)
CURVES = {
    "spiral": np.column_stack([T * np.cos(9 * T), T * np.sin(9 * T)]),
    "a moon": theirs.make_moons(600, noise=0.01, random_state=0)[0],
    "line": np.outer(T, [1, 2, 3]),
}


@pytest.mark.parametrize("name", CURVES)
@QUIET
def test_a_curve_has_a_picture_and_says_that_its_scores_are_zero(name, tmp_path):
    parts = select_each_part(CURVES[name])
    assert len(parts) == (2 if name == "a moon" else 1)
    for found in parts:
        plot.embedding(found).savefig(tmp_path / "picture.png")  # the last of the README's five lines
        assert found.subset == (0,) and (found.ranking.scores == 0).all()
        assert "with intrinsic_dim=1 all scores are 0" in repr(found)


@QUIET
def test_a_column_in_another_unit_is_hinted_at_and_copies_make_the_choice_doubtful():
    """Three copies of each: alone, the 200 points are seen to be a surface."""
    with warned("columns.units"):
        assert select_coordinates(STRIP * [1000, 1, 1]).verdict != "sure"
    strip = np.random.default_rng(0).uniform(size=(200, 2)) * [6, 1]
    with warned("choice.doubtful"):
        found = select_coordinates(np.repeat(strip, 3, axis=0))
    assert found.verdict == "doubtful" and "choice.copies" in {finding.code for finding in found.findings}


@pytest.mark.parametrize("n", [500, *(pytest.param(n, marks=pytest.mark.slow) for n in (1000, 1500, 2000, 3000))])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
@QUIET
def test_a_small_swiss_roll_is_unrolled_by_two_or_three_coordinates(n, seed):
    X, along = theirs.make_swiss_roll(n, random_state=seed)
    found = select_coordinates(X)
    assert len(found.subset) <= 3
    left = [unexplained_variance(column[:, None], found.embedding) for column in (along, X[:, 1])]
    assert max(left) < 0.2


@pytest.mark.thorough
def test_a_torus_whose_walls_nearly_touch_in_the_map_says_so_by_the_measure_of_a_diagnosis():
    """The walls of seed 1 meet unless they are turned; those of the strip, whose ends are flat, do not."""
    torus = shapes.load("torus", 2000, 1).X
    with warned("choice.nearly_touch"):
        found = select_coordinates(torus, keep_bases=True, untangle=False)
    seen, (reason,) = diagnose(found), found.findings
    share = np.mean((seen.collapse > 3) & (seen.flatness >= 0.15))
    told = float(reason.text.split("%")[0].removeprefix("at "))  # of 1,000 points
    assert told == pytest.approx(100 * share, abs=1.5)
    assert seen.counts["overlap"] > 0 and found.verdict != "sure"
    assert diagnose(select_coordinates(torus, keep_bases=True)).clean
    assert select_coordinates(STRIP).diagnostics["warnings"] == ()


@pytest.mark.parametrize("noise", [0.08, pytest.param(0.15, marks=pytest.mark.slow)])
@QUIET
def test_no_coordinate_of_a_noisy_tree_that_lives_on_a_few_points_is_chosen(noise):
    """Each chosen one lives on at least 1 % of the points, by its participation ratio."""
    X = shapes.tree(900, np.random.default_rng(3), noise)[0]
    chosen = select_coordinates(X, bandwidth=0.45, intrinsic_dim=2, subset_size=2).embedding ** 2
    assert (chosen.sum(axis=0) ** 2 / (chosen**2).sum(axis=0)).min() >= 9


def fan(n, growth):
    """A sector in polar coordinates with a radius of exp(growth * u): the density falls by exp(2 * growth)."""
    flat = np.random.default_rng(0).uniform(size=(n, 2))
    return np.exp(growth * flat[:, :1]) * np.column_stack([np.cos(flat[:, 1]), np.sin(flat[:, 1])]), flat


@pytest.fixture(scope="module")
def followed():
    X, flat = fan(1000, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so uneven a shape is doubtful
        return X, flat, select_coordinates(X, device="cpu")


def test_the_ratio_of_two_densities():
    """Half of the points evenly on a circle of radius 1, half on one of radius 5: 5 times as dense, as a sheet 25."""
    angle = np.linspace(0, 2 * np.pi, 1500, endpoint=False)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    distances = sampled_distances(np.vstack([circle, 5 * circle + 20]))
    assert unevenness(distances, 1) == pytest.approx(5)
    assert unevenness(distances, 2) == pytest.approx(25)
    square = plane(3000, 2)
    assert unevenness(sampled_distances(square), 2) < UNEVEN / 2  # in a corner there are a quarter of the neighbours
    assert unevenness(sampled_distances(np.repeat(square[:20], 150, axis=0)), 2) == 1  # copies


@QUIET
def test_it_is_followed_where_that_explains_more(followed):
    X, flat, found = followed
    report = found.diagnostics["automatic"]
    assert report["chosen"]["bandwidth"] == found.diagnostics["parameters"]["bandwidth"] == "local"
    assert report["local"]["taken"] and report["local"]["fvu"] == report["fvu"]
    assert report["fvu"] < min(row["fvu"] for row in report["scan"])
    assert unexplained_variance(flat, found.embedding) < 0.1
    assert "bandwidth local, intrinsic_dim 2" in repr(found)
    given = select_coordinates(X, device="cpu", **report["chosen"])
    assert given.subset == found.subset
    np.testing.assert_allclose(given.coordinates, found.coordinates, atol=1e-8)
    # where a fixed one loses nothing visible, it is not tried
    report = select_coordinates(shapes.load("uneven density", 1000, 2).X, device="cpu").diagnostics["automatic"]
    assert report["local"] is None
    assert report["chosen"]["bandwidth"] == report["bandwidth"]


@pytest.mark.thorough
@QUIET
def test_a_fixed_bandwidth_is_found_on_request_and_has_a_place_for_new_points(followed):
    X, _, found = followed
    fixed = select_coordinates(X, bandwidth="fixed", device="cpu")
    report = fixed.diagnostics["automatic"]
    assert report["local"] is None and report["fvu"] > found.diagnostics["automatic"]["fvu"]
    assert fixed.model(X).transform(X[:3]).shape == (3, len(fixed.subset))
    with refused("model.local"):
        found.model(X)
    estimated = ies_gpu.estimate_parameters(X, bandwidth="fixed", device="cpu").bandwidth
    for eps in (estimated, ies_gpu.IndependentCoordinates(device="cpu").fit(X).bandwidth_):
        assert eps == pytest.approx(report["chosen"]["bandwidth"])
    with refused("bandwidth.n_neighbors"):
        select_coordinates(X, bandwidth="fixed", n_neighbors=30)


@QUIET
def test_points_that_no_fixed_bandwidth_keeps_together():
    X, flat = fan(1000, 4)
    with pytest.raises(DisconnectedGraphError):
        select_coordinates(X, bandwidth="fixed", device="cpu")
    found = select_coordinates(X, device="cpu")
    assert len(found.points) == len(X) and found.verdict != "sure"
    assert "bandwidth.only_local" in {finding.code for finding in found.findings}
    assert unexplained_variance(flat, found.embedding) < 0.2


@pytest.mark.thorough
@QUIET
def test_it_is_followed_on_all_points_where_a_sample_was_tried(monkeypatch, tmp_path):
    monkeypatch.setattr("ies_gpu.parameters.automatic.calibrate.__defaults__", (700,))
    X, flat = fan(1200, 3)
    found = select_coordinates(X, device="cpu", checkpoint=tmp_path)
    assert found.diagnostics["parameters"]["bandwidth"] == "local"
    assert len(found.diagnostics["automatic"]["carried"]["tried"]) == 1
    assert unexplained_variance(flat, found.embedding) < 0.1
    again = select_coordinates(X, device="cpu", checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(again.coordinates, found.coordinates)
