"""New points: the Nystrom extension against its definition, closed forms, and what happens far from all points."""

import numpy as np
import pytest

from ies_gpu import IESWarning, diffusion_map, gaussian_kernel, graph_laplacian, laplacian_of_points, radius_graph
from ies_gpu.embedding.nystrom import KernelRule, kernel_degrees
from tests.extension import nystrom_extension
from tests.manifolds import rectangle


def trained(X, bandwidth):
    return diffusion_map(laplacian_of_points(X, bandwidth=bandwidth), n_components=6)


@pytest.fixture(scope="module")
def strip():
    X, _, bandwidth = rectangle(700, 3.3, noise=0.2, degree=60)
    return X, bandwidth, trained(X, bandwidth)


def by_definition(new, X, Y, eigenvalues, eps, radius):
    """``1/mu * sum_j P(x, x_j) phi(j)`` with every normalisation written out, the new point's own degree too."""

    def kernel(a, b):
        distance = np.linalg.norm(a[:, None] - b[None], axis=2)
        return np.where(distance <= radius, np.exp(-(distance**2) / eps**2), 0)

    w = kernel(X, X).sum(axis=1)
    K = kernel(new, X)
    K = K / K.sum(axis=1, keepdims=True) / w
    return (K / K.sum(axis=1, keepdims=True)) @ Y / (1 - eigenvalues)


def test_training_points_return_and_copies_are_neighbours_without_self_loops(on, strip, monkeypatch):
    """A training point is not its own neighbour, but its copies are, in whatever blocks; a far one keeps its degree."""
    monkeypatch.setattr("ies_gpu.embedding.graph.TILE_COLUMNS", 256)
    X, bandwidth, _ = strip
    X = np.vstack([X, X[::10], X[:1] - [6.2 * bandwidth, 0, 0]])  # exp(-6.2^2) is lost beside 1
    radius = 6.5 * bandwidth
    kernel = gaussian_kernel(radius_graph(X, radius=radius), bandwidth=bandwidth)
    kernel.setdiag(0)
    degrees = on(kernel_degrees)(X, KernelRule(bandwidth, radius, self_loops=False))
    np.testing.assert_allclose(degrees, np.asarray(kernel.sum(axis=1)).ravel(), rtol=1e-9)
    found, options = diffusion_map(graph_laplacian(kernel), n_components=4), {"radius": radius, "self_loops": False}
    again = on(nystrom_extension)(X, X, found.coordinates, found.eigenvalues, bandwidth=bandwidth, **options)
    assert np.abs(again - found.coordinates).max() <= 1e-6 * np.abs(found.coordinates).max()


@pytest.mark.parametrize("radius", [None, 2.0])
def test_new_points_follow_the_definition(on, strip, rng, radius):
    X, bandwidth, found = strip
    reach = 3 * bandwidth if radius is None else radius * bandwidth
    new = X[rng.integers(0, len(X), 50)] + 0.3 * bandwidth * rng.normal(size=(50, 3))
    options = {"bandwidth": bandwidth, "radius": None if radius is None else reach}
    got = on(nystrom_extension)(new, X, found.coordinates, found.eigenvalues, **options)
    expected = by_definition(new, X, found.coordinates, found.eigenvalues, bandwidth, reach)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)
    assert on(nystrom_extension)(X[:0], X, found.coordinates, found.eigenvalues, **options).shape == (0, 6)


def test_many_columns_are_projected_for_the_boxes_only(on, rng):
    X, _, bandwidth = rectangle(400, 2.0, degree=80)
    Q = np.linalg.qr(rng.normal(size=(30, 3)))[0]  # an isometry into 30 columns changes no distance
    found, new = trained(X, bandwidth), X[:40] + 0.5 * bandwidth
    flat, deep = (
        on(nystrom_extension)(new @ turn, X @ turn, found.coordinates, found.eigenvalues, bandwidth=bandwidth)
        for turn in (np.eye(3), Q.T)
    )
    np.testing.assert_allclose(deep, flat, rtol=0, atol=1e-10)


def test_blocks_do_not_change_the_result(on, backend, strip, monkeypatch):
    X, bandwidth, found = strip
    given = X + 0.2 * bandwidth, X, found.coordinates, found.eigenvalues
    whole, calls = on(nystrom_extension)(*given, bandwidth=bandwidth), []
    monkeypatch.setattr(type(backend), "rows_a_tile", 7)
    monkeypatch.setattr("ies_gpu.embedding.graph.TILE_COLUMNS", 64)
    blocked = on(nystrom_extension)(*given, bandwidth=bandwidth, progress=lambda *now: calls.append(now))
    np.testing.assert_allclose(blocked, whole, rtol=0, atol=1e-13)
    assert len(calls) == 100 and calls[-1] == (700, 700)


def test_a_point_at_exactly_the_radius_is_a_neighbour(on):
    X, Y = np.column_stack([np.arange(40.0) / 8, np.zeros(40)]), np.arange(40.0)[:, None]
    new = np.array([[-0.75, 0.0], [-0.75 * (1 + 1e-9), 0.0]])
    with pytest.warns(IESWarning, match="1 of 2 new points"):
        got = on(nystrom_extension)(new, X, Y, np.array([0.5]), bandwidth=0.25, radius=0.75)
    assert got[0, 0] == 0.0 and np.isnan(got[1])  # the first point alone, whose value is 0


@pytest.mark.parametrize("far", [1e3, 1e160, 1e300])
@pytest.mark.parametrize("columns", [3, 12])
def test_points_without_neighbours(on, strip, far, columns):
    X, bandwidth, found = strip
    X = np.pad(X, ((0, 0), (0, columns - 3)))
    new = X[:6].copy()
    new[1, 0], new[4, -1] = far, -far
    args = (new, X, found.coordinates, found.eigenvalues)
    with pytest.warns(IESWarning, match=r"2 of 6 new points have no training point within radius=.* NaN \(rows 1, 4\)"):
        got = on(nystrom_extension)(*args, bandwidth=bandwidth)
    assert np.isnan(got[[1, 4]]).all()
    np.testing.assert_allclose(got[[0, 2, 3, 5]], found.coordinates[[0, 2, 3, 5]], rtol=0, atol=1e-8)
    with pytest.warns(IESWarning, match="coordinates of the nearest training point"):
        got = on(nystrom_extension)(*args, bandwidth=bandwidth, isolated="nearest")
    assert np.isfinite(got).all()
    assert (got[1] == found.coordinates[X[:, 0].argmax()]).all()  # far along the first axis


def test_coordinates_that_the_diffusion_damps_are_named(strip):
    X, bandwidth, found = strip
    values = found.eigenvalues.copy()
    values[3] = 1.0
    with pytest.warns(IESWarning, match=r"damps phi4 by more than 1000"):
        got = nystrom_extension(X[:5], X, found.coordinates, values, bandwidth=bandwidth)
    assert np.isfinite(got).all()
