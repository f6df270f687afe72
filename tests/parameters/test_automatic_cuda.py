"""The automatic choice on the stand-in for CuPy: the same as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import estimate_bandwidth, estimate_dimension, select_coordinates, unexplained_variance
from tests.backend.test_cuda import assert_same, cupy, machine  # noqa: F401 - fixtures
from tests.fake_cupy import missing
from tests.manifolds import rectangle

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "CuPy")
X = rectangle(900, 4.3, noise=0.1, degree=60)[0]


def test_automatic_agrees_with_the_cpu(machine):  # noqa: F811
    found, expected = (select_coordinates(X, device=device, n_components=10) for device in ("cuda", "cpu"))
    mine, theirs = (s.diagnostics["automatic"] for s in (found, expected))
    assert_same(found, expected)
    assert mine["chosen"] == pytest.approx(theirs["chosen"])
    np.testing.assert_allclose(mine["spectrum"], theirs["spectrum"], rtol=1e-10)
    np.testing.assert_allclose([r["fvu"] for r in mine["scan"]], [r["fvu"] for r in theirs["scan"]], rtol=1e-3)


def test_rules_take_device_arrays(cupy):  # noqa: F811
    given = cupy.asarray(X)
    for method in ("degree", "slope", "consistency"):
        mine, theirs = (estimate_bandwidth(x, method=method).value for x in (given, X))
        assert mine == pytest.approx(theirs)
    for method in ("local_pca", "levina_bickel", "two_nn", "slope"):
        mine, theirs = (estimate_dimension(x, method=method).raw for x in (given, X))
        assert mine == pytest.approx(theirs)
    assert unexplained_variance(given, given[:, :1]) == pytest.approx(unexplained_variance(X, X[:, :1]))
