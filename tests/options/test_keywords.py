"""Keywords of other packages and misspelt ones: the error names ours."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from ies_gpu import DiffusionMap, IndependentCoordinates, diffusion_map, knn_graph, select_coordinates
from tests.said import refused

X = np.random.default_rng(0).normal(size=(40, 3))
WHOLE = (DiffusionMap, IndependentCoordinates, lambda **more: select_coordinates(X, **more))


@pytest.mark.parametrize(
    ("calls", "foreign", "words"),
    [
        (WHOLE, {"n_jobs": -1}, "did you mean 'n_threads'"),
        (WHOLE, {"seed": 1}, "did you mean 'random_state'"),
        (WHOLE, {"bandwith": 1.0}, "did you mean 'bandwidth'"),
        (WHOLE, {"gamma": 2.0}, "exp(-distance^2 / bandwidth^2), so pass bandwidth = 1 / sqrt(gamma)"),
        (WHOLE, {"eigen_solver": "arpack"}, "leave it out"),
        (WHOLE, {"affinity": "rbf"}, "precomputed_affinity"),
        (WHOLE[:2], {"nonsense": 1}, "it has n_components, "),
        ([lambda **more: knn_graph(X, **more)], {"k": 3}, "did you mean 'n_neighbors'"),
        ([lambda **more: knn_graph(X, **more)], {"gamma": 3}, "it has X, n_neighbors"),
        ([lambda **more: diffusion_map(None, **more)], {"n_component": 3}, "did you mean 'n_components'"),
    ],
)
def test_a_foreign_keyword_is_answered_with_ours(calls, foreign, words):
    for call in calls:
        with refused("keyword.unknown", TypeError) as caught:
            call(**foreign)
        assert words in str(caught.value)


def test_signatures_stay():
    assert "bandwidth" in inspect.signature(select_coordinates).parameters
    assert DiffusionMap(3).get_params() == DiffusionMap(n_components=3).get_params()
    assert IndependentCoordinates(7).n_components == 7
