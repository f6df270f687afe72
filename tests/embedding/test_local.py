"""A bandwidth that follows the density, on shapes with closed forms whose density varies by 100."""

import numpy as np
import pytest

from ies_gpu import IndependentCoordinates, cometric, diffusion_map, laplacian_of_points, load, select_coordinates
from ies_gpu.embedding.local import local_bandwidths, local_kernel, local_laplacian
from ies_gpu.parameters.judgement import unexplained_variance
from tests.manifolds import rectangle
from tests.said import refused

RATIO, LENGTH = 100.0, 2.3


def uneven_circle(n):
    """Points at the quantiles of a density proportional to exp(a cos t), 100 times as high at t = 0 as at pi."""
    t = np.linspace(0, 2 * np.pi, 200_001)
    total = np.cumsum(np.exp(0.5 * np.log(RATIO) * np.cos(t)))
    t = np.interp((np.arange(n) + 0.5) / n, (total - total[0]) / (total[-1] - total[0]), t)
    return np.column_stack([np.cos(t), np.sin(t)])


def uneven_rectangle(n, seed=0):
    """Random points of [0, 2.3] x [0, 1] with a density that grows by 100 along the length."""
    x, y = np.random.default_rng(seed).uniform(size=(2, n))
    return np.column_stack([LENGTH * np.log(1 + x * (RATIO - 1)) / np.log(RATIO), y])


def exact(shape):
    if shape == "circle":
        return np.array([1.0, 1, 4, 4, 9, 9])
    return np.sort([np.pi**2 * ((a / LENGTH) ** 2 + b**2) for a in range(6) for b in range(6) if a + b])[:6]


def ratios(shape, n, k):
    X, d = (uneven_circle(n), 1) if shape == "circle" else (uneven_rectangle(n), 2)
    laplacian = local_laplacian(local_kernel(X, k), d)
    return laplacian.scale * diffusion_map(laplacian, n_components=6).eigenvalues / exact(shape)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["circle", "rectangle"])
def test_eigenvalues_are_those_of_the_shape_whatever_the_density(shape):
    np.testing.assert_allclose(ratios(shape, 10_000, 96), 1, atol=0.05)


@pytest.mark.thorough
def test_eigenvalues_of_fewer_points_of_which_a_fixed_bandwidth_tells_less():
    np.testing.assert_allclose(ratios("rectangle", 2500, 96), 1, atol=0.15)
    X = uneven_rectangle(2500)
    for bandwidth in (0.08, 0.12, 0.18):  # below, the sparse end hangs by weights that rounding loses
        laplacian = laplacian_of_points(X, bandwidth=bandwidth)
        found = laplacian.scale * diffusion_map(laplacian, n_components=6).eigenvalues
        assert np.abs(found / exact("rectangle") - 1).max() > 0.2


def test_the_metric_of_a_rectangle_is_the_identity():
    X = uneven_rectangle(3000)
    inner = (X[:, 0] > 0.4) & (X[:, 0] < 1.9) & (X[:, 1] > 0.25) & (X[:, 1] < 0.75)
    H = cometric(X, local_laplacian(local_kernel(X, 64), 2))[inner]
    np.testing.assert_allclose(H.mean(axis=0), np.eye(2), atol=0.08)


def test_the_transition_matrix_is_one_and_reversible(rng):
    X = rng.normal(size=(200, 3)) ** 3
    laplacian = local_laplacian(local_kernel(X, 20), 2)
    P = laplacian.transition.toarray()
    flow = laplacian.weights[:, None] * P
    assert (P >= 0).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(flow, flow.T, atol=1e-12 * laplacian.weights.max())
    # the bandwidth of a point is three times shorter than the distance to its last neighbour, on the median
    furthest = np.sort(np.linalg.norm(X[:, None] - X, axis=2), axis=1)[:, 20]
    assert np.median(furthest / local_bandwidths(laplacian)) == pytest.approx(3)
    other = local_laplacian(local_kernel(1e-150 * X, 20), 2)  # whatever the unit
    np.testing.assert_allclose(other.transition.toarray(), P, atol=1e-12)


@pytest.mark.parametrize("given", [{"bandwidth": "local"}, {"n_neighbors": 40}, {"n_neighbors": 40, "bandwidth": 0.15}])
def test_a_strip_is_unrolled(given, tmp_path):
    X, flat, _ = rectangle(900, 4.3, degree=60)
    found = select_coordinates(X, intrinsic_dim=2, subset_size=2, n_components=10, **given)
    width = flat[:, 1:]
    assert unexplained_variance(width, found.embedding) < 0.3
    assert unexplained_variance(width, found.coordinates[:, :2]) > 0.7  # the first two would not do
    found.save(tmp_path / "run.npz")
    assert load(tmp_path / "run.npz").subset == found.subset
    if given.get("bandwidth", "local") != "local":
        np.testing.assert_allclose(found.model(X).transform(X), found.embedding, rtol=0, atol=1e-6)
    else:
        with refused("model.local"):
            found.model(X)


def test_what_does_not_fit_is_refused(rng):
    X = rng.normal(size=(200, 2))
    for k, radius, code in ((1, None, "n_neighbors.range"), (200, None, "n_neighbors.range"), (5, 1.0, "radius.*")):
        with refused(code):
            select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.0, n_neighbors=k, radius=radius)
    with refused("intrinsic_dim.local"):
        laplacian_of_points(X, bandwidth="local")
    with refused("bandwidth.local"):  # a transformer needs a place for new points
        IndependentCoordinates(bandwidth="local").fit(X)
