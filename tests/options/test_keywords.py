"""Keywords of other packages and misspelt ones: the error names ours, and lengths are converted as they should be."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

import ies_gpu
from ies_gpu import DiffusionMap, IndependentCoordinates, diffusion_map, knn_graph, select_coordinates

X = np.random.default_rng(0).normal(size=(40, 3))


@pytest.mark.parametrize("call", [DiffusionMap, IndependentCoordinates, lambda **more: select_coordinates(X, **more)])
@pytest.mark.parametrize(
    ("foreign", "ours"),
    [
        ({"n_jobs": -1}, "'n_threads'"),
        ({"n_eigs": 5}, "'n_components'"),
        ({"seed": 1}, "'random_state'"),
        ({"bandwith": 1.0}, "'bandwidth'"),
        ({"eigen_solver": "amg"}, "leave it out"),
        ({"affinity": "precomputed"}, "affinities"),
        ({"sigma": "auto"}, "bandwidth = sqrt(2) * sigma"),
        ({"nonsense": 1}, "it has "),
    ],
)
def test_a_foreign_keyword_is_answered_with_ours(call, foreign, ours):
    with pytest.raises(TypeError, match=rf"has no option '{next(iter(foreign))}'.*{re.escape(ours)}"):
        call(**foreign)


@pytest.mark.parametrize(
    ("name", "value", "kernels"),
    [
        ("gamma", 1.7, [lambda d2: np.exp(-1.7 * d2)]),
        ("sigma", 0.8, [lambda d2: np.exp(-d2 / (2 * 0.8**2))]),
        ("epsilon", 0.8, [lambda d2: np.exp(-d2 / (4 * 0.8)), lambda d2: np.exp(-d2 / (2 * 0.8))]),
    ],
)
def test_a_length_of_another_convention_is_converted(name, value, kernels):
    """The kernel with the bandwidth of the message is that of the other package."""
    with pytest.raises(TypeError) as caught:
        DiffusionMap(**{name: value})
    bandwidths = [float(number) for number in re.findall(r"bandwidth=([\d.]+)", str(caught.value))]
    squared = ((X[:, None] - X) ** 2).sum(axis=2)
    assert len(bandwidths) == len(kernels)
    for bandwidth, kernel in zip(bandwidths, kernels, strict=True):
        ours = ies_gpu.gaussian_kernel(ies_gpu.radius_graph(X, radius=100.0), bandwidth=bandwidth)
        np.testing.assert_allclose(ours.toarray(), kernel(squared), rtol=1e-4)
    if name == "gamma":
        np.testing.assert_allclose(ours.toarray(), rbf_kernel(X, gamma=value), rtol=1e-4)


def test_steps_answer_too_and_signatures_stay():
    with pytest.raises(TypeError, match="knn_graph has no option 'k'; did you mean 'n_neighbors'"):
        knn_graph(X, k=3)
    with pytest.raises(TypeError, match="diffusion_map has no option 'n_evecs'; did you mean 'n_components'"):
        diffusion_map(None, n_evecs=3)
    assert "bandwidth" in inspect.signature(select_coordinates).parameters
    assert DiffusionMap(3).get_params() == DiffusionMap(n_components=3).get_params()
    assert IndependentCoordinates(7).n_components == 7
