"""Whatever a public function is given, it answers with finite numbers or refuses in words of ours."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu.files.points import read_points
from tests.validation.hostile import calls, judged, outcome, places, values


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
    own = calls()[name][1]
    argument = next(iter(own))
    assert outcome((name, argument), own[argument]) == "answer"


ONCE = {
    "10**400": ["radius_graph radius"], "Fraction(10**400)": ["select_coordinates bandwidth"],
    "ragged": ["score_subsets subsets", "regularization_path scores", "select_coordinates(laplacian) coordinates"],
    "huge scores": ["regularization_path scores"], "huge bases": ["leave_one_out_regret bases"],
    "huge kernel": ["graph_laplacian kernel"], "huge map": ["cometric coordinates"],
    "raises": ["score_subsets bases", "DiffusionMap.fit X"], "points": ["umap_init selection"],
    "1": ["Selection.model feature_names", "Selection.save path", "Model.transform columns"],
    "a null character": ["load path"], "no rows": ["select_coordinates(graph) graph", "tangent_bases laplacian"],
    "-1": ["datasets.load random_state"], "unprintable": ["select_coordinates n_neighbors"],
}  # fmt: skip


@pytest.mark.parametrize("label", ONCE)
def test_what_once_came_through(label):
    for place in ONCE[label]:
        assert outcome(tuple(place.split()), values()[label]) == "refused", place


@pytest.mark.parametrize("suffix", [".csv", ".npy", ".npz", ".txt"])
def test_files_of_chance(suffix, rng, tmp_path):
    letters = list('0123456789.,;-+eE"\t\n\r naif\0\ufeffä\u2028😀x')
    for k in range(40):
        size = int(rng.integers(0, 300))
        content = rng.bytes(size) if k % 2 else "".join(rng.choice(letters, size)).encode()
        (path := tmp_path / f"file{suffix}").write_bytes(content)
        try:
            read_points(path)
        except Exception as error:
            assert judged(error) == "refused"
