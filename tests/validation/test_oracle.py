"""Every public function on random problems, against an independent computation; none is left out."""

from __future__ import annotations

import inspect

import pytest

import ies_gpu
from tests.validation.hostile import calls
from tests.validation.oracle import CHECKS, INTERNAL, check
from tests.validation.oracle_problem import Problem

pytest.importorskip("hypothesis", reason="pip install 'ies-gpu[test]' brings hypothesis")
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

problems = st.builds(
    Problem,
    seed=st.integers(0, 2**31),
    shape=st.sampled_from(["strip", "arc", "ring"]),
    n=st.integers(45, 90),
    m=st.integers(3, 6),
    d=st.integers(1, 2),
    alpha=st.sampled_from([1.0, 0.5, 0.0]),
    self_loops=st.booleans(),
)


def examples(name: str, number: int) -> None:
    @settings(
        max_examples=number, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )  # fmt: skip
    @given(problems)
    def judged(problem: Problem) -> None:
        check(name, problem)

    judged()


# one name for functions that are judged together
NAMES = list({function: name for name, function in reversed(CHECKS.items())}.values())[::-1]


@pytest.mark.parametrize("name", NAMES)
def test_an_independent_computation_agrees(name):
    examples(name, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_independent_computation_agrees_many_times(name):
    examples(name, 40)


def test_the_counts_that_are_promised():
    assert 4 * len(NAMES) >= 180 and 40 * len(NAMES) >= 1800


def public() -> set[str]:
    """Every public function, and every method of a public class that a user calls."""
    found = set()
    for name in ies_gpu.__all__:
        value = getattr(ies_gpu, name)
        if inspect.ismodule(value):
            found |= {f"{name}.{k}" for k in value.__all__ if inspect.isfunction(getattr(value, k))}
        elif inspect.isclass(value):
            own = vars(value) | {
                name: getattr(value, name) for name in ("fit", "save") if hasattr(value, name)
            }  # of a base
            methods = (k for k, v in own.items() if inspect.isfunction(v) and not k.startswith("_"))
            found |= {f"{name}.{method}" for method in methods}
        elif callable(value):
            found.add(name)
    return found


def test_no_public_function_is_left_out():
    assert public() == CHECKS.keys() - INTERNAL.keys()
    hostile = {name.partition("(")[0] for name in calls()}
    bare = {"Parameters.plot", "Selection.to_json", "Selection.to_pandas", "datasets.names"}  # they take no arguments
    assert public() - hostile == bare
