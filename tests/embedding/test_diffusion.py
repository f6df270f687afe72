"""Scale: lengths and diffusion distances. Sign: what must not decide it, and what must."""

import numpy as np
import pytest

import ies_gpu
from ies_gpu import datasets, graph_laplacian, select_coordinates
from ies_gpu.embedding.diffusion import CLEAR, scale_factors, signs
from tests.said import refused

KNOWN = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 1.2, "n_components": 10}


@pytest.fixture(scope="module")
def strip():
    return datasets.load("D1", n_samples=500).X


@pytest.fixture(scope="module")
def unit(strip):
    return select_coordinates(strip, **KNOWN, scale="unit")


@pytest.mark.parametrize("t", [0.0, 1.0, 2.5])
def test_diffusion_distances(on, rng, t):
    """Distances in all n - 1 scaled coordinates are those between the rows of P^t, weighted by 1 / pi."""
    points = rng.normal(size=(30, 2))
    kernel = np.exp(-((points[:, None] - points) ** 2).sum(axis=2))
    laplacian = graph_laplacian(kernel)
    pi = laplacian.weights / laplacian.weights.sum()
    root = np.sqrt(pi)
    values, vectors = np.linalg.eigh(root[:, None] * laplacian.transition.toarray() / root)
    power = (vectors * np.abs(values) ** t) @ vectors.T / root[:, None] * root  # P^t
    Y, mu = (vectors / root[:, None])[:, :-1], values[:-1]
    Y = Y / np.linalg.norm(Y, axis=0)
    Y = Y * on(scale_factors)(Y, 1 - mu, "diffusion", weights=laplacian.weights, diffusion_time=t)
    expected = (((power[:, None] - power) ** 2) / pi).sum(axis=2)
    np.testing.assert_allclose(((Y[:, None] - Y) ** 2).sum(axis=2), expected, atol=1e-9)


@pytest.mark.parametrize("scale", ["rms", "diffusion"])
def test_scale_changes_nothing_else(strip, unit, scale):
    other = select_coordinates(strip, **KNOWN, scale=scale)
    assert other.subset == unit.subset and other.zeta == unit.zeta
    for name in ("log_volumes", "regrets", "bases", "singular_values", "eigenvalues"):
        np.testing.assert_array_equal(getattr(other, name), getattr(unit, name), err_msg=name)
    factors = other.coordinates / unit.coordinates
    np.testing.assert_allclose(factors, np.broadcast_to(factors[0], factors.shape), rtol=1e-6)
    assert (factors > 0).all()
    np.testing.assert_allclose(np.linalg.norm(unit.coordinates, axis=0), 1, rtol=1e-12)
    if scale == "rms":
        np.testing.assert_allclose((other.coordinates**2).mean(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(ies_gpu.diagnose(other).collapse, ies_gpu.diagnose(unit).collapse, rtol=1e-6)
    placed, again = (one.model(strip).transform(strip[:20] + 0.05) for one in (other, unit))
    np.testing.assert_allclose(placed, again * factors[0][list(unit.subset)], rtol=1e-9)


def test_scales_that_are_refused(strip):
    for code, scale, time in (
        ("scale.choice", "long", 1), ("diffusion_time.scale", "rms", 2), ("diffusion_time.range", "diffusion", -1),
    ):  # fmt: skip
        with refused(code):
            select_coordinates(strip, **KNOWN, scale=scale, diffusion_time=time)


def test_neither_seeds_nor_rows_decide_signs(strip, unit):
    order = np.random.default_rng(3).permutation(500)
    for seed in range(2):
        other = select_coordinates(strip[order], **KNOWN, random_state=seed, scale="unit")
        np.testing.assert_allclose(other.coordinates, unit.coordinates[order], atol=1e-6)
        projections = (np.einsum("ikd,ild->ikl", own.bases, own.bases) for own in (other, unit))
        np.testing.assert_allclose(next(projections), next(projections)[order], atol=1e-4)


def test_other_samples_of_a_symmetric_strip_point_the_same_way():
    """phi1 is odd along the strip: its third moment is noise, the first column of the points is not."""
    for seed in range(4):
        X = datasets.load("D1", n_samples=500, random_state=seed).X
        assert np.corrcoef(select_coordinates(X, **KNOWN).coordinates[:, 0], X[:, 0])[0, 1] > 0.9


def test_the_rule_in_its_order(on, rng):
    x, noise = rng.uniform(-1, 1, (2, 4000))
    X, skewed, even, odd = np.column_stack([noise, x]), -np.exp(3 * x), np.cos(2 * np.pi * x), np.sin(np.pi / 2 * x)
    skewed, even = skewed - skewed.mean(), even - even.mean()
    Y = np.column_stack([skewed, even, odd])
    found = on(signs)(Y, X=X)
    assert found.tolist() == [-1, 1 if np.corrcoef(even, x**2 + noise**2)[0, 1] > 0 else -1, 1]
    # the first is settled by its own distribution, whatever the points; the last turns with its column
    assert on(signs)(Y, X=-X).tolist() == [*found[:2], -1]
    assert on(signs)(-Y, X=X).tolist() == (-found).tolist()
    assert abs((skewed**3).sum()) > CLEAR * np.sqrt((skewed**6).sum())


def test_a_grid_whose_coordinates_have_no_third_moment(on):
    """Every moment of a symmetric grid is zero to rounding, and the sign must still not be."""
    x = np.linspace(0, 1, 60)
    Y = np.column_stack([np.cos(k * np.pi * (np.arange(60) + 0.5) / 60) for k in range(1, 6)])
    jitter = 1e-13 * np.random.default_rng(0).normal(size=Y.shape)
    for flip, X in ((1, None), (-1, None), (1, x[:, None]), (-1, x[:, None])):
        np.testing.assert_array_equal(on(signs)(flip * Y + jitter, X=X), flip * on(signs)(Y, X=X))
