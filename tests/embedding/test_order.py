"""An order of rows found from a matrix alone, and what is computed in it."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from ies_gpu import diffusion_map, gaussian_kernel, graph_laplacian, radius_graph, select_coordinates
from ies_gpu.backend.kernels import plain
from ies_gpu.embedding.eigensolvers import choose_solver, solver_costs
from ies_gpu.embedding.eigensolvers.choose_solver import SymmetricTransition
from ies_gpu.embedding.eigensolvers.factorised import ShiftedInverse, factorised_eigenpairs
from ies_gpu.embedding.eigensolvers.solver_costs import Factorisation
from ies_gpu.embedding.graph import matrix_order
from ies_gpu.findings import NotConvergedError
from tests.backends import ask_for, cpu_backend
from tests.embedding.eigenproblems import box, expander, joined, long_strip, nearest
from tests.said import refused


def shuffled_strip(n: int, degree: float = 90.0):
    """Points of a 6 x 1 rectangle in random order, their kernel and bandwidth."""
    X = np.random.default_rng(3).uniform(0, 1, (n, 2)) * [6, 1]
    bandwidth = np.sqrt(degree * 6 / (np.pi * n)) / 3
    return X, gaussian_kernel(radius_graph(X, radius=3 * bandwidth), bandwidth=bandwidth), bandwidth


def test_groups_are_nested_connected_and_small():
    X, K, _ = shuffled_strip(3000)
    order, edges = matrix_order(K)
    assert sorted(order) == list(range(3000))
    ordered, P = X[order], K[order][:, order].tocoo()
    labels = [np.cumsum(edges[:-1] >= depth) - 1 for depth in range(5)]  # of the group of each row after some rounds
    for depth in (1, 2, 3, 4):
        label = labels[depth]
        assert np.bincount(label).max() <= 2**depth
        # one label for several parts would be a group that does not hang together
        inside = label[P.row] == label[P.col]
        within = scipy.sparse.csr_matrix((P.data[inside], (P.row[inside], P.col[inside])), shape=P.shape)
        assert connected_components(within)[0] == label.max() + 1
        assert (np.diff(label)[np.diff(labels[depth - 1]) == 0] == 0).all()
    means = np.stack([np.bincount(labels[3], weights=x) for x in ordered.T], axis=1) / np.bincount(labels[3])[:, None]
    # a square cell of 8 of 3,000 points on an area of 6 has a mean square distance to its middle of 8 * 6 / 3000 / 6
    assert ((ordered - means[labels[3]]) ** 2).sum(axis=1).mean() < 2 * 8 / 3000


def test_fused_matching_is_that_of_plain(rng):
    fused = pytest.importorskip("ies_gpu.backend.kernels.fused.products")
    A = scipy.sparse.random(700, 700, density=0.02, format="csr", rng=rng)
    A = (A + A.T + scipy.sparse.identity(700)).tocsr()
    parts = A.indptr.astype(np.int64), A.indices, np.round(A.data, 1).astype(np.float32)  # with many equal weights
    scale, visits = rng.uniform(0.5, 1, 700).astype(np.float32), rng.permutation(700)
    mates = plain.heavy_matching(*parts, scale, visits)
    np.testing.assert_array_equal(fused.heavy_matching(*parts, scale, visits), mates)
    np.testing.assert_array_equal(mates[mates], np.arange(700))
    leaders, small = np.flatnonzero(mates >= np.arange(700)), []
    for module in (plain, fused):
        indptr, indices, data, labels = module.contract_pairs(*parts, leaders, mates)
        small.append(scipy.sparse.csr_matrix((data, indices, indptr), shape=(len(leaders),) * 2).toarray())
        assert (labels == labels[mates]).all()
    np.testing.assert_allclose(*small, rtol=1e-5)


def test_a_map_of_a_kernel_comes_back_in_the_users_order(backend, on):
    _, K, bandwidth = shuffled_strip(3000)
    laplacian = graph_laplacian(K, bandwidth=bandwidth)
    found = on(diffusion_map)(laplacian, n_components=6, solver="multilevel")
    assert found.info["method"] == "multilevel", found.info
    image = laplacian.transition @ found.coordinates
    np.testing.assert_allclose(image, found.coordinates * (1 - found.eigenvalues), atol=1e-7)
    with cpu_backend("numba").active():
        other = diffusion_map(laplacian, n_components=6, solver="lanczos")
    np.testing.assert_allclose(found.eigenvalues, other.eigenvalues, rtol=1e-9)
    np.testing.assert_allclose(found.coordinates, other.coordinates, atol=1e-7)  # signs too: one start vector


def test_a_selection_from_a_kernel_is_that_of_the_points(tmp_path, monkeypatch):
    monkeypatch.setattr(choose_solver, "MULTILEVEL_FROM", 1000)
    ask_for(monkeypatch, "multilevel")
    X, K, bandwidth = shuffled_strip(2500)
    common = {"bandwidth": bandwidth, "intrinsic_dim": 2, "subset_size": 2, "n_components": 10}
    expected, found = select_coordinates(X, **common), select_coordinates(kernel=K, checkpoint=tmp_path, **common)
    assert found.diagnostics["solver"]["method"] == "multilevel"
    assert "order" in found.diagnostics["seconds"] and found.subset == expected.subset
    signs = np.sign((found.coordinates * expected.coordinates).sum(axis=0))  # without points they follow another rule
    np.testing.assert_allclose(found.coordinates * signs, expected.coordinates, atol=1e-7)
    np.testing.assert_allclose(found.log_volumes, expected.log_volumes, atol=1e-4)
    again = select_coordinates(kernel=K, checkpoint=tmp_path, resume=True, **common)
    np.testing.assert_array_equal(again.coordinates, found.coordinates)


def test_a_sparse_graph_is_factorised_on_the_host_and_says_so(backend, on):
    K = long_strip(np.random.default_rng(0), 1500)
    found = on(diffusion_map)(graph_laplacian(K), n_components=6)
    assert found.info["method"] == "factorised" and "on the host" in found.info["reason"]
    assert found.eigenvalues[0] < 1e-4 and found.residuals.max() < 1e-9


def test_no_expander_is_factorised(rng):
    """Its factor would fill up: 100,000 points of degree 10 would take more entries than any memory holds."""
    with (backend := cpu_backend("numba")).active():
        large, small = (SymmetricTransition(graph_laplacian(expander(rng, n)), backend) for n in (100_000, 4000))
        assert Factorisation(large, 6).look.work > 5 * solver_costs.MOST_WORK
        assert not Factorisation(small, 6).is_cheap
        operator = SymmetricTransition(graph_laplacian(nearest(box(rng, 4000, 1, 1), 12)), backend)
        surface = Factorisation(operator, 6)
        fill = surface.look.fill
        assert surface.is_cheap
        entries = ShiftedInverse(surface.look, operator.top, backend).factor.plan.fill
        assert 0.5 * fill < entries < 2 * fill


@pytest.mark.parametrize(("name", "count"), [("expander", 4), ("strip", 4), ("strip", 60)])
def test_nothing_is_factorised_in_less_memory_than_it_takes(rng, monkeypatch, name, count):
    K = expander(rng, 1500) if name == "expander" else long_strip(rng, 20_000)
    with (backend := cpu_backend("numba")).active():
        operator = SymmetricTransition(graph_laplacian(K), backend)
        look, start = Factorisation(operator, count).look, rng.normal(size=operator.n)
        factorised_eigenpairs(operator, look, count, start, 1e-8, {})  # loads what there is to load
        tracemalloc.start()
        factorised_eigenpairs(operator, Factorisation(operator, count).look, count, start, 1e-8, {})
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        monkeypatch.setattr(type(backend), "memory_budget", lambda _: most)
        assert not Factorisation(operator, count).fits
        monkeypatch.setattr(type(backend), "memory_budget", lambda _: 10 * most)
        assert Factorisation(operator, count).fits


def test_mixtures_are_not_returned(monkeypatch, rng):
    """Two sheets on a thread, an iteration that cannot separate them, and no factorisation to help."""
    K, ours = joined(rng, [nearest(box(rng, 400, 1, 1), 8) for _ in range(2)], 1e-5), choose_solver.krylov
    monkeypatch.setattr(solver_costs, "MOST_WORK", 0)
    monkeypatch.setattr(choose_solver, "krylov", lambda S, count, start, tol, *more: ours(S, count, start, 1.0, *more))
    with refused("eigenvectors.not_converged", NotConvergedError):
        diffusion_map(graph_laplacian(K), n_components=5)
