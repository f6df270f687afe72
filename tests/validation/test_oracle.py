"""Functions that compute, on random problems, against an independent computation; none is left out."""

import inspect
import warnings
from functools import partial

import pytest

import ies_gpu
from tests.validation import oracle
from tests.validation.hostile import calls
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
CHECKS = {
    name: check
    for name, check in inspect.getmembers(oracle, inspect.isfunction)
    if check.__module__ == oracle.__name__ and list(inspect.signature(check).parameters) == ["p"]
}
for name in ("exhaustive", "branch_and_bound", "greedy", "submodular"):
    CHECKS[f"search_{name}"] = partial(oracle.check_search, search=getattr(ies_gpu, f"search_{name}"))
# checks of several functions or methods
JOINT = {
    "estimators": {"DiffusionMap.fit", "IndependentCoordinates.fit"},
    "models": {"Selection.model", "Model.transform", "Model.inverse_transform"},
    "scores_of_a_result": {"Selection.score"},
    "features_of_a_molecule": {"datasets.pairwise_distances", "datasets.planar_angles"},
}
# what reads, writes, draws, or has closed forms: the tests of its room compare it with what it must be
ELSEWHERE = {
    "backend_of", "load", "Selection.save", "Model.save", "Selection.to_pandas", "Selection.to_json",
    "Selection.to_html", "Selection.explore", "anndata.select", "datasets.load", "datasets.names",
    "datasets.load_molecule", "datasets.torsion_features",
    *(f"plot.{kind}" for kind in ("embedding", "path", "points", "volumes", "diagnosis")),
}  # fmt: skip


@pytest.mark.parametrize("number", [7, pytest.param(70, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CHECKS)
def test_an_independent_computation_agrees(name, number):
    @settings(
        max_examples=number, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )  # fmt: skip
    @given(problems)
    def judged(problem: Problem) -> None:
        CHECKS[name](problem)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        judged()


def public() -> set[str]:
    """Every public function, and every method of a public class that a user calls."""
    found = set()
    for name in ies_gpu.__all__:
        value = getattr(ies_gpu, name)
        if inspect.ismodule(value):
            found |= {f"{name}.{k}" for k in value.__all__ if inspect.isfunction(getattr(value, k))}
        elif inspect.isclass(value):
            own = vars(value) | {name: getattr(value, name) for name in ("fit", "save") if hasattr(value, name)}
            methods = (k for k, v in own.items() if inspect.isfunction(v) and not k.startswith("_"))
            found |= {f"{name}.{method}" for method in methods}
        elif callable(value):
            found.add(name)
    return found


def test_no_public_function_is_left_out():
    assert public() == (CHECKS.keys() & public()).union(*JOINT.values(), ELSEWHERE)
    hostile = {name.partition("(")[0] for name in calls()}
    bare = {"Selection.to_json", "Selection.to_pandas", "datasets.names"}  # they take no arguments
    assert public() - hostile == bare
