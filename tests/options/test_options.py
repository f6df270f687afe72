"""One table of options: signatures, estimators, flags and documentation are those of it, and other names lead to it."""

import inspect
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from ies_gpu import DiffusionMap, IndependentCoordinates, diffusion_map, knn_graph, select_coordinates
from ies_gpu.cli.parser import Parser, add_options, flags_of, options_of
from ies_gpu.constraints import Switch
from ies_gpu.findings import code_of
from ies_gpu.options import DEFAULTS, ENTRIES, INPUTS, TABLE, Options
from tests.said import refused
from tests.validation.hostile import values

NAMES = [name for name in TABLE if name != "entry"]
KNOWN = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.25}
MORE = [False, "auto", "fixed", "local", "exhaustive", "rms", "float64", "cosine", 0.25, 2, 75, 100, 101, 1 << 62]


def test_the_signature_is_that_of_the_table():
    found = inspect.signature(select_coordinates).parameters
    assert [name for name in found if name not in INPUTS] == [*NAMES, "progress", "client"]
    assert {name: found[name].default for name in NAMES} == {name: DEFAULTS[name] for name in NAMES}
    assert all(found[name].kind is inspect.Parameter.KEYWORD_ONLY for name in NAMES)


@pytest.mark.parametrize("make", [DiffusionMap, IndependentCoordinates])
def test_the_parameters_of_the_estimators_are_those_of_the_table(make):
    own = inspect.signature(make).parameters
    positional = [name for name, each in own.items() if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert positional == ["n_components"] and make(3).get_params() == make(n_components=3).get_params()
    shared = own.keys() & TABLE
    assert {name: own[name].default for name in shared} == {name: DEFAULTS[name] for name in shared}
    missing = {name for name in NAMES if name not in own} - {"keep_bases", "checkpoint", "resume"}
    choice = {"intrinsic_dim", "subset_size", "zeta", "percentile", "search", "untangle"}
    assert missing == (choice if make is DiffusionMap else set())


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_value_is_taken_as_it_is_or_refused_by_name(name):
    taken = 0
    for value in [value for label, value in values().items() if label != "raises"] + MORE:
        try:
            found = getattr(Options(**KNOWN | {name: value}), name)
        except (TypeError, ValueError) as error:
            owner, kind = code_of(error).split(".")
            assert owner == name or name in str(error) or name in ("subset_size", "n_components"), (value, error)
            assert isinstance(error, TypeError) <= (kind == "type"), (value, error)  # words are out of range
            continue
        taken += 1
        settled = {"bandwidth": ("local",), "disconnected": ("raise",), "radius": (0.75,)}.get(name, ())
        same = found == (float(value) if isinstance(found, float) and value is not None else value)
        assert same or found in settled or name == "random_state", (value, found)
        assert isinstance(found, str | bool | int | float | None), (value, found)
    assert taken


def test_the_defaults_are_sound_and_settled_options_stay():
    options = Options()
    assert options.changed == {"disconnected": "most"}
    again = replace(Options(**KNOWN), search="greedy")
    assert again.radius == pytest.approx(0.75) and again.disconnected == "raise"


OTHER = {"metric": "cosine", "alpha": 0.5, "scale": "unit", "n_neighbors": 5, "radius": 2.0, "self_loops": False}


@pytest.mark.parametrize("name", OTHER)
def test_each_option_works_with_its_inputs_only(name):
    assert {name for name in NAMES if TABLE[name].entries != ENTRIES} == OTHER.keys()
    for entry in ENTRIES:
        lengths = {"bandwidth": None} if entry in ENTRIES[2:] else {}
        with nullcontext() if entry in TABLE[name].entries else refused(f"{name}.entry"):
            Options(**KNOWN | lengths | {name: OTHER[name], "entry": entry})


def test_flags_give_what_python_takes():
    command = Parser(prog="fit")
    names = [name for name in NAMES if name != "keep_bases"]
    add_options(command, *names)
    assert options_of(command.parse_args([])) == {name: DEFAULTS[name] for name in names}
    words = {
        "intrinsic_dim": "3", "bandwidth": "local", "memory_limit": "1G", "random_state": "5", "zeta": "auto",
        "device": "cuda:1", "metric": "cosine", "n_components": "1e2", "checkpoint": "folder",
    }  # fmt: skip
    read = {"intrinsic_dim": 3, "memory_limit": 1 << 30, "random_state": 5, "n_components": 100}
    for name, word in words.items():
        found = options_of(command.parse_args([flags_of(name)[0], word]))
        assert found == {key: DEFAULTS[key] for key in names} | {name: read.get(name, word)}
    for name in names:
        if isinstance(TABLE[name].accepts, Switch):
            assert options_of(command.parse_args(flags_of(name)))[name] is not DEFAULTS[name]


X = np.random.default_rng(0).normal(size=(40, 3))
WHOLE = (DiffusionMap, IndependentCoordinates, lambda **more: select_coordinates(X, **more))


def test_a_foreign_keyword_is_answered_with_ours():
    for calls, foreign, words in (
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
    ):
        for call in calls:
            with refused("keyword.unknown", TypeError) as caught:
                call(**foreign)
            assert words in str(caught.value)
