"""The whole pipeline: every entry, invariances, honest results."""

import numpy as np
import pytest
import scipy.sparse
from scipy.spatial.distance import cdist

from ies_gpu import (
    DisconnectedGraphError,
    datasets,
    diffusion_map,
    gaussian_kernel,
    graph_laplacian,
    laplacian_of_points,
    radius_graph,
    select_coordinates,
)
from ies_gpu.embedding.diffusion import signs
from tests.backends import to_host
from tests.comparison import stored_as
from tests.manifolds import rectangle
from tests.said import refused, warned
from tests.thorough import first_of

N = 2000
X, _, EPS = rectangle(N, 3.4, noise=0.1, degree=100)
OPTIONS = {"intrinsic_dim": 2, "subset_size": 2}


@pytest.fixture(scope="module")
def reference():
    return select_coordinates(X, bandwidth=EPS, **OPTIONS)


def same_set(a, b):
    """The same coordinates up to sign: eigenvectors of two runs are compared, not their numbers."""
    assert a.subset == b.subset
    ours, theirs = (found.embedding / np.linalg.norm(found.embedding, axis=0) for found in (a, b))
    np.testing.assert_allclose(np.abs(np.einsum("ij,ij->j", ours, theirs)), 1, atol=1e-6)


def test_every_entry_gives_the_same_set(reference):
    graph = radius_graph(X, radius=3 * EPS)
    kernel = gaussian_kernel(graph, bandwidth=EPS)
    laplacian = graph_laplacian(kernel, bandwidth=EPS)
    embedding = diffusion_map(laplacian)
    last = {"coordinates": embedding.coordinates, "eigenvalues": embedding.eigenvalues}
    for entry in (
        {"graph": graph, "bandwidth": EPS}, {"kernel": kernel}, {"laplacian": laplacian, **last},
        {"laplacian": laplacian.matrix, **last},
    ):  # fmt: skip
        same_set(reference, select_coordinates(**entry, **OPTIONS))
    # without the points, columns cannot decide the signs
    agree = np.sign((embedding.coordinates * reference.coordinates).sum(axis=0))
    np.testing.assert_allclose(embedding.coordinates * agree * N**0.5, reference.coordinates, atol=1e-4)
    np.testing.assert_allclose(embedding.eigenvalues, reference.eigenvalues, atol=1e-12)


def test_vectors_that_are_not_eigenvectors_of_the_laplacian_are_noticed(rng):
    """Their rows in another order give a set too, and nothing else would show that it means nothing."""
    laplacian = laplacian_of_points(X, bandwidth=EPS)
    found = diffusion_map(laplacian, n_components=8)
    given = {"laplacian": laplacian.matrix, "eigenvalues": found.eigenvalues, **OPTIONS}
    right = select_coordinates(coordinates=7 * found.coordinates, **given)
    assert max(right.diagnostics["residuals"]) < 1e-6 and not right.diagnostics["warnings"]
    with warned("eigenvectors.foreign"), warned("dimension.missing"):
        select_coordinates(coordinates=found.coordinates[rng.permutation(N)], **given)


@pytest.mark.filterwarnings("error")
def test_eigenvectors_in_single_precision_or_another_unit_are_eigenvectors():
    """Their rounding is more than a hundredth of an eigenvalue of 9e-7, but their rows are in order."""
    laplacian = laplacian_of_points(np.linspace(0, 1, 3000)[:, None], bandwidth=6e-4)
    found = diffusion_map(laplacian, n_components=4)
    assert found.eigenvalues[0] < 1e-6
    for coordinates in (found.coordinates.astype("float32"), 1e-170 * found.coordinates):
        given = {"coordinates": coordinates, "eigenvalues": found.eigenvalues}
        selection = select_coordinates(laplacian=laplacian, **given, intrinsic_dim=1, subset_size=1, device="cpu")
        assert max(selection.diagnostics["residuals"]) < 1e-6 and not selection.diagnostics["warnings"]


def test_other_peoples_matrices(reference):
    """Dense distances keep their digits, and are cut like points."""
    distances = cdist(X, X)
    for scale in (1.0, 1e-150):
        other = select_coordinates(graph=scale * distances, bandwidth=scale * EPS, **OPTIONS)
        same_set(reference, other)
        np.testing.assert_allclose(other.eigenvalues, reference.eigenvalues, rtol=1e-9)
    sparse = scipy.sparse.coo_array(np.where(distances <= 3 * EPS, np.exp(-((distances / EPS) ** 2)), 0))
    late = select_coordinates(kernel=sparse, bandwidth=EPS, n_components=6, **OPTIONS)
    same_set(reference, late)
    expected = reference.laplace_beltrami_eigenvalues[:6]
    np.testing.assert_allclose(late.laplace_beltrami_eigenvalues, expected, rtol=1e-8)


@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")  # of what is doubtful beside that
@pytest.mark.parametrize("rounding", first_of(1e-14, 0.0))  # as by scikit-learn, which finds distances by products
def test_a_matrix_that_is_passed_as_points_is_noticed(rounding, rng):
    matrix = np.exp(-(cdist(X[:300], X[:300]) ** 2)) * (1 + rounding * rng.normal(size=(300, 300)))
    with warned("X.symmetric"):
        select_coordinates(matrix, n_neighbors=30, n_components=6, **OPTIONS)


def test_results_hang_together(reference):
    s, d = reference, reference.diagnostics
    n, m = s.coordinates.shape
    assert (n, m) == (N, 20)
    np.testing.assert_allclose(s.laplace_beltrami_eigenvalues, 4 / EPS**2 * s.eigenvalues, rtol=1e-12)
    assert s.eigenvalues[0] > 0 and (np.diff(s.eigenvalues) >= 0).all()
    low, high = s.zeta_interval
    assert low <= s.zeta <= (np.inf if high is None else high)
    assert s.zeta_dimensionless == s.zeta * s.eigenvalues[0]
    np.testing.assert_allclose(np.percentile(s.regrets, 75, axis=0), s.regret_percentiles, rtol=1e-12)
    np.testing.assert_array_equal(s.points, np.arange(n))
    np.testing.assert_array_equal(signs(s.coordinates, X=X), 1)  # the convention, on what came out
    assert {"device", "device_reason", "seconds", "peak_bytes", "floored_points", "warnings", "versions"} <= d.keys()
    assert len(d["residuals"]) == 20 and max(d["residuals"]) <= 1e-8 and d["graph_components"] == 1
    assert d["mean_degree"] == pytest.approx(radius_graph(X, radius=3 * EPS).nnz / N)
    assert d["audit"] and all(value < 1e-7 for value in d["audit"].values())


def test_progress_is_reported_by_stage():
    seen = []
    select_coordinates(X, bandwidth=EPS, **OPTIONS, progress=lambda *event: seen.append(event))
    stages = list(dict.fromkeys(stage for stage, _, _ in seen))
    graph = ["checks", "neighbours", "order", "graph", "kernel", "components", "products", "laplacian"]
    assert stages == [*graph, "eigenvectors", "tangents", "search", "untangle", "verdict", "result"]
    assert all(done <= total for _, done, total in seen if total)
    assert {stage for stage, done, total in seen if (done, total) == (1, 1)} == set(stages)  # each is ended


@pytest.mark.parametrize(("storage", "self_loops"), [("tiles", True), ("recomputed", True), ("recomputed", False)])
def test_tiles_find_what_csr_finds(monkeypatch, storage, self_loops):
    """Stored where they fit, and computed anew where they do not."""
    dense = {"bandwidth": 2.8 * EPS, "n_components": 10, "self_loops": self_loops, **OPTIONS}
    csr = select_coordinates(X, **dense)
    stored_as(monkeypatch, storage)
    tiled = select_coordinates(X, **dense)
    assert tiled.diagnostics["approximations"] and tiled.diagnostics["parameters"]["self_loops"] is self_loops
    assert tiled.subset == csr.subset
    np.testing.assert_allclose(tiled.eigenvalues, csr.eigenvalues, atol=1e-7)
    assert tiled.diagnostics["mean_degree"] == csr.diagnostics["mean_degree"]


def test_neither_float32_nor_threads_change_the_choice(reference):
    single = select_coordinates(X, bandwidth=EPS, **OPTIONS, dtype="float32", keep_bases=True)
    assert single.subset == reference.subset and single.bases.dtype == np.float32
    np.testing.assert_allclose(single.eigenvalues, reference.eigenvalues, atol=1e-7)
    alone = select_coordinates(X, bandwidth=EPS, **OPTIONS, n_threads=1, keep_bases=False)
    same_set(reference, alone)
    assert alone.diagnostics["n_threads"] == 1
    with refused("bases.not_kept"):
        alone.score((0, 1))


def two_strips():
    rng = np.random.default_rng(0)
    points, order = rng.uniform(size=(2000, 2)) * [6, 1], rng.permutation(2000)
    points[1500:] += [0, 11]
    return points[order], order


@pytest.mark.parametrize(("scale", "radius"), [(1.0, None), (1.0, 0.7), (1.0, 11.0), (1e-150, None), (1e150, None)])
def test_a_disconnected_graph_is_refused_with_a_way_out(scale, radius):
    """The strips are 10 apart. Within 0.7 nothing joins them, and at 11 only exp(-(10 / 0.2)^2), which is 0."""
    points = scale * two_strips()[0]
    with refused("graph.disconnected", DisconnectedGraphError) as caught:
        select_coordinates(points, bandwidth=0.2 * scale, radius=radius, **OPTIONS)
    advised = {name: float(value) for name, value in caught.value.finding.advised.items() if name != "disconnected"}
    assert (9.9 < 3 * advised["bandwidth"] / scale < 11) or radius is not None
    assert select_coordinates(points, **advised, **OPTIONS).diagnostics["graph_components"] == 1


def test_weights_lost_to_rounding_do_not_connect():
    """exp(-(1.7 / .25)^2) = 1e-20 joins the two squares on paper only: phi_1 would be any mixture with the constant."""
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.uniform(size=(150, 2)), rng.uniform(size=(150, 2)) + [2.7, 0]])
    with refused("graph.zero_eigenvalue", DisconnectedGraphError):
        select_coordinates(points, bandwidth=0.25, radius=2.5, **OPTIONS)


def test_the_largest_part_can_be_taken():
    points, order = two_strips()
    kernel = gaussian_kernel(radius_graph(points, radius=0.6), bandwidth=0.2)
    for entry in ({"X": points, "bandwidth": 0.2}, {"kernel": kernel}):
        with warned("graph.left_out"):
            part = select_coordinates(**entry, disconnected="largest", **OPTIONS)
        np.testing.assert_array_equal(part.points, np.flatnonzero(order < 1500))
        alone = select_coordinates(points[part.points], bandwidth=0.2, **OPTIONS)
        assert part.subset == alone.subset and part.diagnostics["graph_components"] == 2
        np.testing.assert_allclose(part.eigenvalues, alone.eigenvalues, rtol=1e-8)


def test_noise_in_many_dimensions_makes_points_stray_unless_they_have_no_self_loops():
    """Noise of size .11 in 100 columns keeps points of a circle 1.5 apart: exp(-(1.5 / .56)^2) is small against 1."""
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 2 * np.pi, 1500)
    circle = np.column_stack([np.cos(t), np.sin(t)])
    noisy = np.hstack([circle, np.zeros((1500, 98))]) + 0.11 * rng.normal(size=(1500, 100))
    options = {"intrinsic_dim": 1, "subset_size": 2, "bandwidth": 0.56, "n_components": 10}
    with warned("stray.excluded") as said:
        select_coordinates(noisy, **options)
    assert said[0].advised["self_loops"] == "False"
    found = select_coordinates(noisy, self_loops=False, **options)
    assert found.diagnostics["stray_coordinates"] == []
    Y = np.column_stack([np.ones(1500), found.coordinates[:, :2]])
    left = circle - Y @ np.linalg.lstsq(Y, circle, rcond=None)[0]
    assert left.var() < 0.1 * circle.var()


def test_points_that_hang_by_a_thread_are_named(reference):
    """Rows 2000 to 2004 stand 2.5 eps from the strip and far from each other: each has a coordinate of its own."""
    assert reference.diagnostics["stray_coordinates"] == reference.diagnostics["stray_points"] == []
    far = np.vstack([X, [(place, -2.5 * EPS, 0) for place in (0.4, 1.0, 1.6, 2.2, 2.8)]])
    with warned("stray.excluded"):
        crowded = select_coordinates(far, bandwidth=EPS, **OPTIONS)
    assert len(crowded.diagnostics["stray_coordinates"]) == 5
    rows = crowded.diagnostics["stray_points"]
    assert rows == [N, N + 1, N + 2, N + 3, N + 4]
    assert not select_coordinates(np.delete(far, rows, axis=0), bandwidth=EPS, **OPTIONS).diagnostics["stray_points"]


def test_an_untruncated_kernel_is_judged_by_its_weights():
    """A radius beyond the diameter: the Gaussian of scikit-learn, UQpy and datafold."""
    strip = datasets.load("D1", n_samples=600).X
    sizes = {"intrinsic_dim": 2, "subset_size": 2, "n_components": 10}
    kernel = gaussian_kernel(radius_graph(strip, radius=1e3), bandwidth=0.9)
    expected = select_coordinates(kernel=kernel, **sizes)
    found = select_coordinates(strip, bandwidth=0.9, radius=1e3, **sizes)
    assert found.subset == expected.subset
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=0, atol=1e-9)
    with refused("graph.all_pairs"):
        select_coordinates(strip, bandwidth=100.0, radius=1e3, **sizes)


MOVES = {
    "permutation": lambda X, rng: (rng.permutation(len(X)), X, 1.0),
    "rotation": lambda X, rng: (slice(None), X @ np.linalg.qr(rng.normal(size=(3, 3)))[0], 1.0),
    "translation": lambda X, rng: (slice(None), X + rng.normal(size=3) * 100, 1.0),
    "scaling": lambda X, rng: (slice(None), X * 2.0**20, 2.0**20),
}


@pytest.mark.parametrize("move", MOVES)
def test_moved_points_give_the_same_choice(move, backend, rng):
    points, _, bandwidth = rectangle(300, 2.3, degree=40)
    order, moved, unit = MOVES[move](points, rng)
    first, second = (
        select_coordinates(backend.asarray(X), bandwidth=eps, n_components=6, **OPTIONS)
        for X, eps in ((points, bandwidth), (moved[order], bandwidth * unit))
    )
    assert first.subset == second.subset
    np.testing.assert_allclose(to_host(second.eigenvalues), to_host(first.eigenvalues), rtol=1e-6)
    expected = np.abs(to_host(first.coordinates)[order])
    np.testing.assert_allclose(np.abs(to_host(second.coordinates)), expected, atol=1e-5)
