"""Whatever a public function is given, it answers with finite numbers or refuses in words of ours."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

from ies_gpu.files.points import read_points
from tests.validation.hostile import calls, judged, outcome, places, values

hypothesis = pytest.importorskip("hypothesis", reason="pip install 'ies-gpu[test]' brings hypothesis")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

numbers = st.one_of(st.integers(), st.floats(), st.fractions(), st.decimals(), st.complex_numbers(), st.booleans())
anything = st.recursive(
    st.one_of(st.none(), numbers, st.text(max_size=20), st.binary(max_size=20), st.dates()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.sets(st.integers(), max_size=4),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.lists(inner, max_size=4).map(lambda parts: np.array([*parts, None], dtype=object)),
    ),
    max_leaves=12,
)


def filled(shape: tuple[int, ...], value: float, dtype: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.full(shape, value).astype(dtype)


arrays = st.builds(
    filled,
    st.lists(st.integers(0, 4), max_size=4).map(tuple),
    st.sampled_from([0.0, -1.0, 1e300, 1e-300, np.nan, np.inf]),
    st.sampled_from(["f8", "f4", "f2", "?", "c16", "O", ">f8"]),
)
hostile = st.one_of(anything, arrays, st.sampled_from(["a value of the table"] * 3))


def bounded(examples: int) -> settings:
    return settings(
        max_examples=examples, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )


def check_call(data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(places()))
    value = data.draw(hostile)
    if isinstance(value, str) and value == "a value of the table":
        value = values()[data.draw(st.sampled_from(list(values())))]
    if place[1] == "path" and isinstance(value, str | bytes):
        value = [value]  # no files with names of chance
    with np.errstate(all="ignore"):
        assert outcome(place, value) in ("answer", "refused"), (place, value)


@bounded(200)
@given(st.data())
def test_hostile_arguments(data):
    check_call(data)


@pytest.mark.slow
@bounded(3000)
@given(st.data())
def test_many_hostile_arguments(data):
    check_call(data)


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


@bounded(100)
@given(st.sampled_from([".csv", ".npy", ".npz", ".txt"]), st.one_of(st.binary(max_size=400), st.text(max_size=200)))
def test_files_of_chance(suffix, content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"file{suffix}")
        path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
        try:
            read_points(path)
        except Exception as error:
            assert judged(error) == "refused"
