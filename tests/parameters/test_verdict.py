"""The verdict on an automatic choice."""

import numpy as np
import pytest

import ies_gpu
from benchmarks import shapes
from benchmarks.strangers import chosen
from ies_gpu import datasets, select_coordinates
from ies_gpu.choice.faults import ground_of_points
from ies_gpu.findings import judgement_in, note, question_of, verdict_on
from ies_gpu.parameters.judgement import dimension_findings, unexplained_variance
from tests.said import warned
from tests.thorough import first_of

QUIET = pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")


def entries(X, bandwidth, neighbors):
    """The same points as a graph, as a kernel, and as a Laplacian with its eigenvectors."""
    graph = ies_gpu.knn_graph(X, n_neighbors=neighbors)
    kernel = ies_gpu.gaussian_kernel(graph, bandwidth=bandwidth)
    laplacian = ies_gpu.graph_laplacian(kernel)
    found = ies_gpu.diffusion_map(laplacian, n_components=20)
    yield {"graph": graph, "bandwidth": bandwidth}
    yield {"kernel": kernel}
    yield {"laplacian": laplacian, "coordinates": found.coordinates, "eigenvalues": found.eigenvalues}


def test_runs_without_points_have_a_verdict_and_a_wrong_dimension_is_seen(strip):
    X = strip[0]
    for given in entries(X, 0.12, 40):
        found = select_coordinates(**given, intrinsic_dim=2, subset_size=2)
        assert found.verdict in ("sure", "likely") and found.judgement["rank"].level != "bad"
        assert {name for name, answer in found.judgement.items() if answer.figure is None} == set()
    wrong = select_coordinates(**given, intrinsic_dim=1, subset_size=2)
    assert wrong.verdict == "doubtful" and "dimension.other" in {finding.code for finding in wrong.findings}


def branches(n):
    """A walk that branches twice, with the affinities of its nearest neighbours, as cells that differentiate have."""
    rng, axes = np.random.default_rng(0), np.eye(6)
    t, branch = rng.uniform(size=n), rng.integers(0, 4, n)
    first, second = axes[4 + branch // 2], axes[branch] + 0.8 * axes[4 + branch // 2]
    X = np.minimum(t, 0.4)[:, None] * first + np.maximum(t - 0.4, 0)[:, None] * second + 0.02 * rng.normal(size=(n, 6))
    return ies_gpu.gaussian_kernel(ies_gpu.knn_graph(X, n_neighbors=15), bandwidth=0.1)


@QUIET  # a tree has no two dimensions
def test_where_the_leading_coordinates_do_as_well_a_note_says_so_and_the_verdict_is_on_the_rest():
    found = select_coordinates(kernel=branches(640), intrinsic_dim=2, subset_size=4)
    assert found.subset != (0, 1, 2, 3) and found.judgement["needed"].level in ("fair", "bad")
    assert found.verdict == "doubtful" and "choice.leading_as_good" in {finding.code for finding in found.findings}
    assert all(question_of(finding) != "needed" for finding in found.findings if finding.is_doubt)
    assert verdict_on([note("choice.leading_as_good", "as good")]) == "sure"
    # files of versions that did not ask say that nothing was checked
    assert {answer.level for answer in judgement_in({"automatic": None}).values()} == {"unchecked"}


@QUIET
def test_loops_are_left_out_where_many_coordinates_are_stray_with_them():
    """A sheet with heavy-tailed noise, as the principal components of cells have."""
    rng = np.random.default_rng(0)
    t, h = (rng.uniform(size=(1000, 2)) * [4, 1]).T
    X = np.column_stack([np.cos(t), np.sin(t), h, 0.06 * rng.standard_t(3, size=(1000, 20))])
    found = select_coordinates(X, intrinsic_dim=2, subset_size=2)
    assert found.diagnostics["parameters"]["self_loops"] is False
    assert "stray.without_loops" in {finding.code for finding in found.findings}


@pytest.mark.parametrize("n", first_of(1000, 3000))
@QUIET
def test_more_coordinates_are_advised_exactly_where_all_of_them_lose_a_direction(n):
    """The width of a strip of 30:1 comes after some 30 waves along it."""
    strip = shapes.load("strip 30", n, 3)
    few, more = (select_coordinates(strip.X, n_components=m) for m in (20, 40))
    (advice,) = (finding.advice for finding in few.findings if finding.code == "dimension.missing")
    assert few.verdict == "doubtful" and "n_components" in advice
    assert "dimension.missing" not in {finding.code for finding in more.findings}
    width = [1 - unexplained_variance(strip.X[:, 1:2], found.embedding) for found in (few, more)]
    assert width[0] < 0.2 < 0.5 < width[1]
    assert n == 1000 or more.verdict != "doubtful"


@QUIET  # of its other warnings
def test_noise_in_all_directions_is_doubtful_and_says_why_in_one_warning():
    X = np.random.default_rng(0).normal(size=(600, 12))
    with warned("choice.doubtful") as said:
        found = select_coordinates(X, n_components=8)
    (doubt,) = said
    reasons = [finding for finding in found.findings if finding.is_doubt]
    assert found.verdict == verdict_on(reasons) == "doubtful"
    assert all(reason.text in doubt.text for reason in reasons)
    assert "choice.doubtful" not in {finding.code for finding in found.findings}  # its reasons are there


@pytest.mark.slow
def test_on_the_cases_set_aside_sure_is_right_in_95_of_100():
    rows = [chosen(*case)[0] for case in shapes.SET_ASIDE]
    sure = [row["right"] for row in rows if row.get("verdict") == "sure"]
    assert len(sure) >= 30 and np.mean(sure) >= 0.95


def test_a_curve_with_two_dimensions_is_said_to_have_one():
    """A helix of three turns; the tangent planes do not show it: at this bandwidth they see the bends."""
    t = np.random.default_rng(0).uniform(0, 6 * np.pi, 600)
    X = np.column_stack([np.cos(t), np.sin(t), 0.3 * t])
    with warned("dimension.other"):
        found = select_coordinates(X, intrinsic_dim=2, bandwidth=0.3, subset_size=2)
    said = next(finding for finding in found.findings if finding.code == "dimension.other")
    assert said.severity == "grave" and said.advised == {"intrinsic_dim": "1"}
    assert select_coordinates(X, intrinsic_dim=1, bandwidth=0.3, subset_size=2).verdict == "sure"


@pytest.mark.parametrize("name", [f"D{k}" for k in range(1, 14)])
def test_no_shape_of_the_paper_is_taken_for_one_of_fewer_dimensions(name):
    for n in (400, 1000):
        data = datasets.load(name, n_samples=n)
        found = dimension_findings(ground_of_points(data.X, data.intrinsic_dim).values, data.intrinsic_dim)
        assert all(int(finding.advised["intrinsic_dim"]) > data.intrinsic_dim for finding in found)
    assert dimension_findings(np.repeat(np.eye(2), 200, axis=0), 1) == []  # nothing can be seen of copies
