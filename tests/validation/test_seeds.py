"""``random_state`` is None, an int, a RandomState or a Generator, everywhere, and results say which seed was used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ies_gpu import datasets, diffusion_map, laplacian_of_points, select_coordinates
from tests.comparison import assert_same
from tests.said import refused
from tests.validation.hostile import calls, places

SEEDED = [name for name, argument in places() if argument == "random_state" and "(" not in name]


def content(value: Any) -> Any:
    """The public attributes of an object, and of those in it."""
    if type(value).__module__.startswith("ies_gpu") and hasattr(value, "__dict__"):
        own = {name: part for name, part in vars(value).items() if name not in ("random_state", "backend")}
        return {name: content(part) for name, part in own.items() if not name.startswith("_")}
    return value


@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
@pytest.mark.parametrize("name", SEEDED)
def test_a_generator_in_the_same_state_gives_the_same_result(name):
    function, own = calls()[name]
    first, again = (content(function(**own, random_state=np.random.default_rng(7))) for _ in range(2))
    assert_same(first, again)
    assert type(content(function(**own, random_state=None))) is type(first)


def test_results_say_which_seed_was_used():
    X = datasets.load("D1", n_samples=400).X
    laplacian = laplacian_of_points(X, bandwidth=1.2)
    sizes = {"intrinsic_dim": 2, "subset_size": 2, "n_components": 10, "bandwidth": 1.2}
    selection = select_coordinates(X, random_state=np.random.default_rng(3), **sizes)
    seed = selection.diagnostics["parameters"]["random_state"]
    assert seed == int(np.random.default_rng(3).integers(2**31))
    np.testing.assert_array_equal(select_coordinates(X, random_state=seed, **sizes).coordinates, selection.coordinates)
    assert diffusion_map(laplacian, n_components=4, random_state=np.random.default_rng(3)).info["random_state"] == seed
    with refused("random_state.type", TypeError):
        select_coordinates(X, random_state="x", **sizes)
