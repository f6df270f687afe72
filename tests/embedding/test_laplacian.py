"""Kernel and Laplacian against their formulas."""

import numpy as np
import pytest
import scipy.sparse

from ies_gpu import cometric, diffusion_map, gaussian_kernel, graph_laplacian, laplacian_of_points, radius_graph
from ies_gpu.embedding.graph import spatial_order
from ies_gpu.embedding.laplacian import Laplacian, check_laplacian, normalise, with_weights
from ies_gpu.embedding.tiles import TiledMatrix
from tests.backends import to_host
from tests.said import refused


@pytest.fixture
def cloud(rng):
    return rng.normal(size=(300, 3)) * [3, 1, 0.1]


def test_equal_points_have_weight_one_and_the_input_is_left_alone(on, cloud):
    cloud[10] = cloud[11]
    graph = radius_graph(cloud, radius=1.5)
    distances = graph.data.copy()
    kernel = on(gaussian_kernel)(graph, bandwidth=0.5)
    assert kernel[10, 11] == kernel[11, 10] == 1.0 and (kernel.diagonal() == 1.0).all()
    affinities = kernel.data.copy()
    graph_laplacian(kernel)
    assert (graph.data == distances).all() and (kernel.data == affinities).all()


@pytest.mark.parametrize("store", [True, False])
def test_tiles_are_the_same_kernel_in_single_precision(backend, cloud, store):
    def product(matrix, V):
        return to_host(matrix @ backend.asarray(V))

    X = cloud[spatial_order(cloud)]
    K = gaussian_kernel(radius_graph(X, radius=1.5), bandwidth=0.5).toarray()
    expected = graph_laplacian(K)
    kernel = TiledMatrix(backend.asarray(X), bandwidth=0.5, radius=1.5, store=store, side=70)
    assert kernel.nnz == np.count_nonzero(K)
    assert len(kernel.pairs) < kernel.n_blocks * (kernel.n_blocks + 1) / 2  # empty tiles were skipped
    np.testing.assert_allclose(product(kernel, np.eye(300)), K, atol=1e-7)
    laplacian = normalise(kernel, 0.5)
    np.testing.assert_allclose(to_host(laplacian.weights), expected.weights, rtol=1e-6)
    np.testing.assert_allclose(product(laplacian.transition, np.ones(300)), 1, rtol=1e-13)
    V = np.random.default_rng(0).normal(size=(300, 3))
    np.testing.assert_allclose(product(laplacian.transition, V), expected.transition @ V, atol=1e-6)
    kernel.drop_diagonal()
    np.testing.assert_allclose(product(kernel, np.eye(300)), K - np.eye(300), atol=1e-7)


@pytest.mark.parametrize("columns", [3, 40])  # 40 are too many for differences: products find the distances
@pytest.mark.parametrize("self_loops", [True, False])
def test_the_laplacian_of_points_is_the_three_steps(backend, cloud, rng, self_loops, columns):
    cloud = cloud @ rng.normal(size=(3, columns)) / columns**0.5
    kernel = gaussian_kernel(radius_graph(cloud, radius=6.0), bandwidth=2.0)
    kernel.setdiag(1.0 if self_loops else 0.0)
    steps = graph_laplacian(kernel, bandwidth=2.0)
    at_once = laplacian_of_points(cloud, bandwidth=2.0, self_loops=self_loops)
    # sums run in the order of space, and in that of the input
    np.testing.assert_allclose(at_once.transition.toarray(), steps.transition.toarray(), rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(at_once.weights, steps.weights, rtol=1e-13)
    assert at_once.bandwidth == 2.0
    assert laplacian_of_points(cloud, bandwidth=2.0, radius=8.0).transition.nnz > steps.transition.nnz


def test_a_plain_matrix_or_one_in_single_precision_is_taken_as_a_laplacian(cloud):
    laplacian = laplacian_of_points(cloud, bandwidth=0.5)
    wrapped = check_laplacian(scipy.sparse.coo_array(laplacian.matrix))
    assert abs(wrapped.transition - laplacian.transition).max() < 1e-15
    H = laplacian.scale * cometric(cloud, laplacian.matrix)  # added up in the order of the input, and below in another
    np.testing.assert_allclose(cometric(cloud, laplacian), H, rtol=1e-12, atol=1e-15 * abs(H).max())
    single = Laplacian(laplacian.transition.astype(np.float32), laplacian.weights)
    np.testing.assert_allclose(cometric(cloud, single), cometric(cloud, laplacian.matrix), rtol=1e-4, atol=1e-6)
    degrees = scipy.sparse.diags_array(np.arange(1.0, len(cloud) + 1))
    cometric(cloud, degrees @ laplacian.matrix)  # of another time scale at each point: P has a negative diagonal


def test_a_laplacian_whose_rates_are_negative_is_refused(cloud):
    """Its co-metric is negative: its leading eigenvectors are those that should come last."""
    laplacian = laplacian_of_points(cloud, bandwidth=0.5)
    transition = scipy.sparse.csr_array(scipy.sparse.eye_array(len(cloud)) + laplacian.matrix)
    with refused("laplacian.negative"):
        cometric(cloud, Laplacian(transition, laplacian.weights))


@pytest.mark.parametrize("factor", [1e-150, 1e-280, 1e-300, 1e-308, 1e-312, 1e-320, 1e150])
def test_a_kernel_of_tiny_numbers_is_scaled_or_refused_but_never_nan(factor):
    kernel = np.exp(-np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0))))
    try:
        found = graph_laplacian(factor * kernel)
    except ValueError as error:
        assert "kernel" in str(error) and factor < 1e-280
    else:
        np.testing.assert_allclose(found.transition.toarray(), graph_laplacian(kernel).transition.toarray(), rtol=1e-12)
        assert np.isfinite(found.weights).all()


def test_a_plain_matrix_has_the_map_of_its_laplacian(on, cloud):
    """The weights are found by the walk along a tree, up to a factor."""
    laplacian = laplacian_of_points(cloud, bandwidth=1.5, alpha=0.5)
    expected, found = diffusion_map(laplacian, n_components=4), on(diffusion_map)(laplacian.matrix, n_components=4)
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=0, atol=1e-9)
    signs = np.sign((found.coordinates * expected.coordinates).sum(axis=0))
    np.testing.assert_allclose(found.coordinates * signs, expected.coordinates, rtol=0, atol=1e-6)
    ratio = with_weights(check_laplacian(laplacian.matrix)).weights / laplacian.weights
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)


def test_a_walk_that_is_not_reversible_has_no_map():
    circular = np.array([[0, 0.9, 0.1], [0.1, 0, 0.9], [0.9, 0.1, 0]])
    apart = scipy.sparse.block_diag([[[0.5, 0.5], [0.5, 0.5]]] * 2).toarray()
    for P, code in ((circular, "laplacian.walk"), (apart, "graph.disconnected")):
        with refused(code):
            diffusion_map(scipy.sparse.csr_array(np.eye(len(P)) - P), n_components=1)
