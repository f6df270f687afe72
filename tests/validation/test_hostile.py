"""Whatever a public function is given, it answers with finite numbers or refuses in words of ours."""

from typing import Any

import numpy as np
import pytest

from tests.comparison import assert_same
from tests.validation.hostile import calls, outcome, places, values


@pytest.mark.parametrize("count", [250, pytest.param(4000, marks=pytest.mark.slow)])
def test_hostile_arguments(count):
    rng = np.random.default_rng(count)
    labels = list(values())
    for which in rng.integers(len(places()), size=count):
        label = labels[rng.integers(len(labels))]
        with np.errstate(all="ignore"):
            assert outcome(places()[which], values()[label]) in ("answer", "refused"), (places()[which], label)


@pytest.mark.parametrize("name", calls())
def test_sound_arguments_give_an_answer(name):
    argument, value = next(iter(calls()[name][1].items()))
    assert outcome((name, argument), value) == "answer"


ONCE = {
    "10**400": ["radius_graph radius"], "Fraction(10**400)": ["select_coordinates bandwidth"],
    "ragged": ["score_subsets subsets", "regularization_path scores", "select_coordinates(laplacian) coordinates"],
    "huge scores": ["regularization_path scores"], "huge bases": ["leave_one_out_regret bases"],
    "huge kernel": ["graph_laplacian kernel"], "huge map": ["cometric coordinates"],
    "raises": ["score_subsets bases", "DiffusionMap.fit X"], "points": ["umap_init selection"],
    "1": ["Selection.model feature_names", "Selection.save path"],
    "a null character": ["load path"], "no rows": ["select_coordinates(graph) graph", "tangent_bases laplacian"],
    "-1": ["datasets.load random_state"], "unprintable": ["select_coordinates n_neighbors"],
}  # fmt: skip


@pytest.mark.parametrize("label", ONCE)
def test_what_once_came_through(label):
    for place in ONCE[label]:
        assert outcome(tuple(place.split()), values()[label]) == "refused", place


def content(value: Any) -> Any:
    """The public attributes of an object, and of those in it."""
    if type(value).__module__.startswith("ies_gpu") and hasattr(value, "__dict__"):
        own = {name: part for name, part in vars(value).items() if name not in ("random_state", "backend")}
        return {name: content(part) for name, part in own.items() if not name.startswith("_")}
    return value


@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
@pytest.mark.parametrize("name", [name for name, part in places() if part == "random_state" and "(" not in name])
def test_a_generator_in_the_same_state_gives_the_same_result(name):
    function, own = calls()[name]
    first, again = (content(function(**own | {"random_state": np.random.default_rng(7)})) for _ in range(2))
    assert_same(first, again)
    assert type(content(function(**own | {"random_state": None}))) is type(first)


def test_results_say_which_seed_was_used():
    run, own = calls()["select_coordinates"]
    selection = run(**own, random_state=np.random.default_rng(3))
    seed = selection.diagnostics["parameters"]["random_state"]
    assert seed == int(np.random.default_rng(3).integers(2**31))
    np.testing.assert_array_equal(run(**own, random_state=seed).coordinates, selection.coordinates)
    step, own = calls()["diffusion_map"]
    assert step(**own, random_state=np.random.default_rng(3)).info["random_state"] == seed
