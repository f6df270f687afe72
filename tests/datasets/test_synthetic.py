"""The synthetic manifolds are what their table says."""

import numpy as np
import pytest

from ies_gpu import datasets
from tests.said import refused

COLUMNS = dict(zip(datasets.names(), (3, 3, 3, 3, 3, 4, 13, 13, 3, 3, 13, 13, 14), strict=True))


@pytest.mark.parametrize("name", datasets.names())
def test_every_set_has_its_columns_truth_and_colours(name):
    data = datasets.load(name, n_samples=3000)
    n = len(data.X)
    assert data.X.shape == (n, COLUMNS[name]) and np.isfinite(data.X).all()
    assert 2600 < n < 3200  # cavities take up to a tenth, and D5 draws until there are enough
    assert data.truth.shape == (n, data.subset_size) and all(color.shape == (n,) for color in data.colors.values())
    assert data.reference_subset[0] == 0 and len(data.reference_subset) == data.subset_size >= data.intrinsic_dim


def test_seeds_decide_and_names_may_be_lower_case():
    a, b, c = (datasets.load("d8", n_samples=50, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(a.X, b.X)
    assert (a.X != c.X).any() and a.name == "D8"
    with refused("name.choice"):
        datasets.load("D99")


def test_cavities_are_empty_and_ellipses_are_full():
    x, y = datasets.load("D2").X[:, :2].T
    assert not ((np.abs(x) <= 2 * np.pi / 3) & (np.abs(y) <= 2 / 3)).any()
    assert len(x) == pytest.approx(10_000 * (1 - (2 / 3) ** 2 * np.pi / (4 * np.pi) / 2 * 1.0), rel=0.1)
    assert len(datasets.load("D5").X) == pytest.approx(10_200, rel=0.02)


def test_tori_lie_on_their_surface():
    data = datasets.load("D7")
    x, y, z = data.truth.T
    np.testing.assert_allclose(((np.hypot(x, y) - 3) / 2) ** 2 + (z / 16) ** 2, 1, rtol=1e-12)
    assert np.std(data.X[:, :3] - data.truth) == pytest.approx(0.1, rel=0.03)
    assert np.std(data.X[:, 3:]) == pytest.approx(0.5, rel=0.03)
    data = datasets.load("D13", n_samples=2000)
    x, y, z, w = data.truth.T
    np.testing.assert_allclose(np.hypot(np.hypot(np.hypot(z, w) - 8, y) - 2, x), 1, rtol=1e-9)


def test_the_swiss_roll_is_rolled_isometrically_enough():
    data = datasets.load("D3")
    t = data.truth[:, 0] - data.truth[:, 0].min()
    np.testing.assert_allclose(np.hypot(data.X[:, 0], data.X[:, 2]), t / 2, atol=1e-12)
