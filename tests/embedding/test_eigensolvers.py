"""The eigensolvers: agreement with dense algebra, nothing missed, and work that does not grow with n."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse

from ies_gpu import diffusion_map, gaussian_kernel, knn_graph, radius_graph
from ies_gpu.backend import get_backend
from ies_gpu.embedding.eigensolvers import choose_solver as eigen
from ies_gpu.embedding.eigensolvers import factorised, multilevel, solver_costs
from ies_gpu.embedding.eigensolvers.choose_solver import SymmetricTransition, leading_eigenpairs
from ies_gpu.embedding.eigensolvers.lanczos import add_missed
from ies_gpu.embedding.graph import ordered_radius_graph, spatial_order
from ies_gpu.embedding.laplacian import Laplacian, SparseMatrix, apply_gaussian, graph_laplacian, normalise
from tests.backends import cpu_backend, sent, to_host
from tests.thorough import first_of


def laplacian_of(X: np.ndarray, bandwidth: float) -> Laplacian:
    """The Laplacian of points put into KD order."""
    ordered = np.ascontiguousarray(X[spatial_order(X)])
    graph = ordered_radius_graph(ordered, 3 * bandwidth, diagonal=True)
    return normalise(SparseMatrix(apply_gaussian(graph, bandwidth)), bandwidth)


def strip(n: int, *, degree: float = 120.0, ratio: float = 6.25, seed: int = 0) -> Laplacian:
    X = np.random.default_rng(seed).uniform(0, 1, (n, 2)) * [ratio, 1]
    return laplacian_of(X, np.sqrt(degree * ratio / (np.pi * n)) / 3)


def flat_torus(side: int, *, reach: int = 3) -> Laplacian:
    """A grid on the product of two circles: every eigenvalue but a few comes four- or eightfold."""
    angle = 2 * np.pi * np.arange(side) / side
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    X = np.column_stack([np.repeat(circle, side, axis=0), np.tile(circle, (side, 1))])
    # a radius between two distances of the grid: rounding must not decide who is a neighbour
    return laplacian_of(X, 2 * np.sin(np.pi * (reach + 0.1) / side) / 3)


def dense(laplacian: Laplacian) -> np.ndarray:
    root = np.sqrt(laplacian.weights)
    return root[:, None] * laplacian.transition.toarray() / root


def exact(laplacian: Laplacian, count: int) -> np.ndarray:
    return np.linalg.eigvalsh(dense(laplacian))[::-1][:count]


def pairs(laplacian: Laplacian, backend, count: int = 21, *, solver: str = "auto", ordered=False, tol: float = 1e-8):
    start = backend.asarray(np.random.default_rng(1).normal(size=laplacian.shape[0]))
    operator = SymmetricTransition(sent(laplacian, backend), backend)
    ordered = ordered or solver == "multilevel"
    return to_host(leading_eigenpairs(operator, count, start=start, tol=tol, ordered=ordered, solver=solver))


@pytest.fixture
def quick():
    backend = cpu_backend("numba")
    with backend.active():
        yield backend


def true_residuals(laplacian: Laplacian, found) -> np.ndarray:
    root = np.sqrt(laplacian.weights)[:, None]
    image = root * (laplacian.transition @ (found.vectors / root))
    return np.linalg.norm(image - found.vectors * found.values, axis=0)


def check(laplacian: Laplacian, found, tol: float = 1e-8) -> None:
    """Residuals of the full operator, orthonormal vectors, falling values."""
    assert true_residuals(laplacian, found).max() <= tol
    assert np.abs(found.vectors.T @ found.vectors - np.eye(len(found.values))).max() < 1e-10
    assert (np.diff(found.values) <= 1e-14).all()


@pytest.mark.parametrize(
    ("n", "solver", "method"), [(390, "auto", "dense"), (700, "auto", "lanczos"), (1500, "multilevel", "multilevel")]
)
def test_agrees_with_dense_eigh(backend, n, solver, method):
    laplacian = strip(n)
    found = pairs(laplacian, backend, 12, solver=solver)
    assert found.info["method"] == method, found.info
    np.testing.assert_allclose(found.values, exact(laplacian, 12), atol=1e-12)
    check(laplacian, found)


@pytest.mark.parametrize("stored", first_of(np.float64, np.float32))
def test_without_the_matrix_of_cells_the_pairs_are_the_same(quick, monkeypatch, stored):
    """Very large problems do without it, and storage in float32 without the entries of S."""
    laplacian = strip(2000)
    laplacian.transition.data = laplacian.transition.data.astype(stored)
    usual = pairs(laplacian, quick, 12, solver="multilevel")
    monkeypatch.setattr("ies_gpu.embedding.eigensolvers.multilevel.MERGED_UP_TO", 100)
    found = pairs(laplacian, quick, 12, solver="multilevel")
    assert found.info["method"] == usual.info["method"] == "multilevel", found.info
    assert found.info["iterations"] == usual.info["iterations"]
    np.testing.assert_allclose(found.values, exact(laplacian, 12), atol=1e-12 if stored == np.float64 else 1e-7)
    np.testing.assert_allclose(found.values, usual.values, atol=1e-12)
    assert found.residuals.max() <= 1e-8


@pytest.mark.parametrize("tol", first_of(1e-11, 1e-8, 1e-5))
def test_every_residual_is_below_the_tolerance(quick, tol):
    laplacian = strip(3000)
    assert pairs(strip(300), quick, 5, solver="factorised").info["method"] == "dense"  # whatever is asked for
    for method in eigen.SOLVERS[1:]:
        found = pairs(laplacian, quick, solver=method, tol=tol)
        assert found.info["method"] == method, found.info
        assert found.residuals.max() <= tol
        np.testing.assert_allclose(found.residuals, true_residuals(laplacian, found), atol=1e-13)


@pytest.mark.parametrize("method", ["lanczos", "multilevel"])
def test_multiple_eigenvalues_of_a_torus_are_found_in_full(quick, method):
    laplacian = flat_torus(40)
    found = pairs(laplacian, quick, solver=method)
    assert found.info["method"] == method, found.info
    np.testing.assert_allclose(found.values, exact(laplacian, 21), atol=1e-12)
    # 1, then (1,0): 4, (1,1): 4, (2,0): 4, (2,1): 8
    assert np.flatnonzero(np.diff(found.values) < -1e-6).tolist() == [0, 4, 8, 12]


def test_an_even_circle_is_solved_by_the_multilevel_method(quick):
    """Every eigenvalue comes twice. The coarse level missed one of each, so its inverse blew up: residuals were NaN."""
    n, reach = 10_000, 50
    angle = 2 * np.pi * np.arange(n) / n
    bandwidth = 2 * np.sin(np.pi * (reach + 0.5) / n) / 3
    found = pairs(laplacian_of(np.column_stack([np.cos(angle), np.sin(angle)]), bandwidth), quick, ordered=True)
    assert found.info["method"] == "multilevel" and "fallback" not in found.info
    steps = np.arange(1, reach + 1)
    weights = 2 * np.exp(-((2 * np.sin(np.pi * steps / n) / bandwidth) ** 2))
    waves = 1 - np.cos(2 * np.pi * steps * np.repeat(np.arange(1, 11), 2)[:, None] / n)
    np.testing.assert_allclose(1 - found.values[1:], waves @ weights / (1 + weights.sum()), rtol=1e-8)


@pytest.mark.parametrize("roughness", [0.0, 1e-2])
@pytest.mark.parametrize("missing", [1, 12])
def test_a_missed_copy_is_found_and_added(quick, rng, missing, roughness):
    """Guards need not have converged; what is added beside the wanted pairs must be an eigenvector all the same."""
    laplacian = flat_torus(24)
    operator = SymmetricTransition(laplacian, quick)
    values, vectors = np.linalg.eigh(dense(laplacian))
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = np.delete(np.arange(21), missing)
    rough = vectors[:, kept].copy()
    rough[:, 16:] += roughness * rng.normal(size=(operator.n, 4)) / np.sqrt(operator.n)
    rough = np.linalg.qr(rough)[0] * np.sign(np.sum(np.linalg.qr(rough)[0] * rough, axis=0))
    found, basis = add_missed(operator, values[kept].copy(), rough, 16, 1e-9)
    np.testing.assert_allclose(found[:16], values[:16], atol=1e-9)
    residuals = np.linalg.norm(operator(basis[:, :16]) - basis[:, :16] * found[:16], axis=0)
    assert residuals.max() < 1e-8
    assert np.linalg.norm(vectors[:, missing] - basis @ (basis.T @ vectors[:, missing])) < 1e-6


@pytest.mark.parametrize("method", ["lanczos", "factorised"])
def test_more_copies_than_are_wanted(quick, method):
    """On a star of equal rays every vector that is 0 at the hub comes once per ray but one: 15 of 39 are found."""
    rays, n = 40, 481
    nodes = np.arange(1, n)
    K = scipy.sparse.csr_matrix((np.ones(n - 1), (nodes, np.maximum(nodes - rays, 0))), shape=(n, n))
    K = (K + K.T + scipy.sparse.identity(n)).tocsr()
    found = pairs(graph_laplacian(K), quick, 16, solver=method)
    assert found.info["method"] == method
    one_ray = dense(graph_laplacian(K))[1::rays, 1::rays]
    np.testing.assert_allclose(found.values[1:], np.linalg.eigvalsh(one_ray)[-1], atol=1e-13)


def test_points_that_hold_what_starts_there_are_cells_of_their_own(quick, rng):
    """A chance of return, the sum of squares of a row of S, that is far above the others; and a pair that clings."""
    n = 3000
    bandwidth = np.sqrt(120 * 6.25 / (np.pi * n)) / 3
    X = rng.uniform(0, 1, (n, 2)) * [6.25, 1]
    far = np.array(
        [[2.0, 1 + 2.4 * bandwidth], [4.0, 1 + 2.4 * bandwidth], [4.0 + 0.1 * bandwidth, 1 + 2.4 * bandwidth]]
    )
    points = np.concatenate([X, far])
    laplacian = laplacian_of(points, bandwidth)
    a, b = (pairs(laplacian, quick, solver=method) for method in ("lanczos", "multilevel"))
    np.testing.assert_allclose(a.values, b.values, atol=1e-10)  # those of the points, near 1, are not missed
    chance = (dense(laplacian) ** 2).sum(axis=1)
    level = multilevel.build_levels(SymmetricTransition(laplacian, quick), 5)[0]
    lonely, held = multilevel.lonely_points(level)
    added, pair = (np.flatnonzero(np.isin(spatial_order(points), rows)) for rows in ([n, n + 1, n + 2], [n + 1, n + 2]))
    assert set(pair) <= set(held) <= set(lonely)
    assert set(added) <= set(lonely) and len(lonely) < 30
    assert np.median(chance[lonely]) > 2.5 * np.median(chance)


def test_a_walk_counts_the_eigenvalues_near_one(quick):
    """What is left of random signs is the trace of S to a power, here by dense algebra, to within the error of two."""
    laplacian = laplacian_of(np.random.default_rng(0).uniform(0, 1, (1500, 2)) * [6.25, 1], 0.06)
    operator = SymmetricTransition(laplacian, quick)
    walk, values = solver_costs.Walk(operator), np.linalg.eigvalsh(dense(laplacian))
    walk.until(64)
    for T, left in walk.left.items():
        assert left == pytest.approx((values**T).sum(), rel=0.25)
    assert list(walk.left) == [4, 16, 64] and operator.products == 0
    times = [
        walk.time_until(left) for left in (2 * walk.left[4], (walk.left[4] * walk.left[16]) ** 0.5, walk.left[64] / 2)
    ]
    assert times[0] < 4 < times[1] < 16 < 64 < times[2]  # also where nobody has looked


@pytest.mark.parametrize("columns", [2, 6])
def test_a_graph_in_many_dimensions_is_left_to_lanczos_at_once(quick, columns):
    """Its factor would fill up and cells do not represent its eigenvectors: either took a minute, Lanczos a second."""
    X = np.random.default_rng(0).uniform(0, 1, (6000, columns))
    X[:, 0] *= 4
    graph = knn_graph(X, n_neighbors=22)
    found = diffusion_map(graph_laplacian(gaussian_kernel(graph, bandwidth=float(np.median(graph.data)))))
    assert "fallback" not in found.info and (found.info["method"] == "lanczos") == (columns == 6)
    assert columns == 2 or found.info["products"] < 1000


@pytest.mark.parametrize("size", first_of(18, 10, 40))
def test_a_loose_tolerance_does_not_end_before_a_group_is_found(quick, size):
    """Three groups above the strip, nearly cut off, and too large for their points to be cells of their own."""
    rng = np.random.default_rng(3)
    n = 8000
    bandwidth = np.sqrt(120 * 6.25 / (np.pi * n)) / 3
    X = np.column_stack([rng.uniform(0, 1, (n, 2)) * [6.25, 1], np.zeros(n)])
    middles = np.column_stack([np.linspace(1.3, 5, 3), rng.uniform(0.4, 0.6, 3), np.full(3, 2.55 * bandwidth)])
    groups = middles[:, None] + bandwidth * rng.normal(size=(3, size, 3)) * [0.15, 0.15, 0.02]
    laplacian = laplacian_of(np.concatenate([X, groups.reshape(-1, 3)]), bandwidth)
    found = pairs(laplacian, quick, 4, solver="multilevel", tol=1e-3)
    np.testing.assert_allclose(found.values, pairs(laplacian, quick, 4).values, rtol=0, atol=1e-6)


def test_interlacing_catches_a_value_that_was_skipped():
    values = 1 - np.array([0, 1, 2, 4, 5.0]) * 1e-3  # the pair at 3e-3 is missing
    coarse = 1 - 1.1 * np.array([0, 1, 2, 3, 4.0]) * 1e-3
    with pytest.raises(multilevel.NotConvergedError, match="below that of the coarse level"):
        multilevel.check_interlacing(values, coarse, 5)
    multilevel.check_interlacing(1 - (1 - coarse) / 1.1, coarse, 5)


@pytest.mark.parametrize("reason", ["stalled", "inexact", "nan"])
@pytest.mark.parametrize("method", ["lanczos", "factorised"])
def test_doubt_leads_to_another_method_and_is_said(quick, monkeypatch, method, reason):
    laplacian = strip(1200)
    if method == "lanczos":
        monkeypatch.setattr(solver_costs, "MOST_WORK", 0)
    if reason == "stalled":
        monkeypatch.setattr(multilevel, "MAX_ITERATIONS", 2)
    else:
        wrong = np.nan if reason == "nan" else 1 + 1e-6
        ours = eigen.multilevel_eigenpairs

        def spoiled(*args, **options):
            values, vectors = ours(*args, **options)
            return values * wrong, vectors

        monkeypatch.setattr(eigen, "multilevel_eigenpairs", spoiled)
    found = pairs(laplacian, quick, 8, solver="multilevel")
    assert found.info["method"] == method and found.info["fallback"]
    check(laplacian, found)


@pytest.mark.parametrize("blocks", [1, 500])
def test_invariant_subspaces_do_not_end_lanczos(backend, blocks):
    """The identity, and 500 blocks of two points: Krylov spaces of dimension 1 and 2."""
    matrix = scipy.sparse.identity(500, format="csr")
    if blocks > 1:
        matrix = scipy.sparse.kron(matrix, [[0.75, 0.25], [0.25, 0.75]], format="csr")
    found = pairs(Laplacian(matrix, np.ones(matrix.shape[0])), backend, 6)
    np.testing.assert_allclose(found.values, 1, atol=1e-12)
    assert found.residuals.max() < 1e-10
    assert np.abs(found.vectors.T @ found.vectors - np.eye(6)).max() < 1e-10


@pytest.mark.thorough
def test_block_products_do_not_grow_with_n(quick):
    small, large = (pairs(strip(n, degree=100), quick, solver="multilevel").info for n in (8_000, 32_000))
    assert small["method"] == large["method"] == "multilevel"
    assert large["block_products"] <= 1.5 * small["block_products"] <= 90
    for size, cells in zip(large["coarse_sizes"], (4096, 512), strict=True):
        assert cells <= size < cells + 32_000 / 100  # a few points at the edge are cells of their own
    # Lanczos needs more for more points, since 1 - mu falls like 1 / n
    few, many = (pairs(strip(n, degree=100), quick, solver="lanczos").info["products"] for n in (2_000, 8_000))
    assert many > 1.4 * few and many > 8 * small["block_products"]


def test_the_choice_follows_the_graph(quick):
    """A smooth strip, one with noise that no cell fits, and so few neighbourhoods that Lanczos is quick."""
    rng, eps = np.random.default_rng(0), np.sqrt(120 * 6.25 / (np.pi * 6000)) / 3
    noisy = np.column_stack([rng.uniform(0, 1, (6000, 2)) * [6.25, 1], eps * rng.normal(size=6000)])
    chosen = {"multilevel": strip(20_000), "factorised": laplacian_of(noisy, eps), "lanczos": strip(6000, degree=2600)}
    for method, laplacian in chosen.items():
        info = pairs(laplacian, quick, ordered=True).info
        assert info["method"] == method and "fallback" not in info, info


def test_the_same_bits_twice_and_for_any_number_of_threads():
    laplacian = strip(3000)
    found = []
    for threads in (2, 2, 1):
        backend = cpu_backend("numba")
        backend.n_threads = threads
        with backend.active():
            found.append(pairs(laplacian, backend, solver="multilevel"))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].values, other.values)
        np.testing.assert_array_equal(found[0].vectors, other.vectors)


@pytest.mark.parametrize("enough", first_of(0, 20))
@pytest.mark.parametrize("shorter", [0.0, 0.6])
def test_ending_the_levels_early_and_poor_guards_change_nothing(quick, monkeypatch, shorter, enough):
    """With 0 the first coarse level is the last, and factorised; guards of a coarse level need not be good."""
    laplacian = strip(9000)
    monkeypatch.setattr(factorised, "FACTORISED_FROM", 500)
    monkeypatch.setattr(multilevel, "SHORTER", shorter)
    monkeypatch.setattr(multilevel, "ENOUGH", enough)
    monkeypatch.setattr(multilevel, "SMALLEST", 100)
    a, b = (pairs(laplacian, quick, ordered=ordered) for ordered in (False, True))
    assert b.info["method"] == "multilevel" and "fallback" not in b.info
    assert (len(b.info["coarse_sizes"]) == 1) == (shorter == 0)
    np.testing.assert_allclose(a.values, b.values, atol=1e-10)


def test_a_level_whose_first_eigenvalue_rounding_took_above_one_is_factorised():
    """The shift follows it: with entries in float32 it can be 1 + 1e-8, and 1 + 1e-9 - S is then not positive."""
    n = 600
    A = scipy.sparse.diags([np.ones(n - 1), np.ones(n), np.ones(n - 1)], [-1, 0, 1])
    degrees = np.asarray(A.sum(axis=1)).ravel()
    scale = scipy.sparse.diags(1 / np.sqrt(degrees))
    S = ((1 + 2e-8) * (scale @ A @ scale)).tocsr()
    top = np.sqrt(degrees) / np.linalg.norm(np.sqrt(degrees))
    operator = SimpleNamespace(backend=get_backend("cpu"), top=top)
    values, vectors = factorised.factorised_eigenpairs(
        operator, solver_costs.Look(S), 6, np.random.default_rng(0).normal(size=n), 1e-8, {}
    )
    expected = np.linalg.eigvalsh(S.toarray())[::-1][:6]
    np.testing.assert_allclose(values[:6], expected, atol=1e-12)
    assert np.linalg.norm(S @ vectors - vectors * values[:6], axis=0).max() < 1e-8


@pytest.mark.parametrize(("n", "method"), [(300, "dense"), (1200, "lanczos")])
def test_vectors_have_nothing_of_the_constant_one_where_parts_hang_by_a_thread(n, method):
    """Two strips whose nearest points have a weight of exp(-15): the residuals that are allowed hide the constant."""
    rng, eps = np.random.default_rng(0), 0.25
    left, right = (rng.uniform(size=(n // 2, 2)) * [3, 1] for _ in range(2))
    right[:, 0] += left[:, 0].max() - right[:, 0].min() + 3.9 * eps
    kernel = gaussian_kernel(radius_graph(np.vstack([left, right]), radius=4.5 * eps), bandwidth=eps)
    laplacian = graph_laplacian(kernel)
    found, w = diffusion_map(laplacian, n_components=6), laplacian.weights
    assert found.info["method"] == method and found.eigenvalues[0] < 1e-8
    assert (np.abs(w @ found.coordinates) < 1e-14 * np.sqrt(w.sum() * (w @ found.coordinates**2))).all()
