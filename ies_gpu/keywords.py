"""Keywords of other packages, and misspelt ones, answered with ours."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
KERNEL = "the kernel here is exp(-distance^2 / bandwidth^2), so pass"
# ours, by the name elsewhere; of lengths also how they are converted
SAME = {
    "n_jobs": "n_threads",
    "tolerance": "tol",
    "eigen_tol": "tol",
    "n_eigs": "n_components",
    "n_evecs": "n_components",
    "n_comps": "n_components",
    "n_eigenpairs": "n_components",
    "n_eigenvectors": "n_components",
    "k": "n_neighbors",
    "knn": "n_neighbors",
    "t": "diffusion_time",
    "seed": "random_state",
    "random_seed": "random_state",
    "verbose": "progress",
    "intrinsic_dimension": "intrinsic_dim",
}
LENGTHS: dict[str, list[tuple[str, str, Callable[[float], float]]]] = {
    "gamma": [("", "1 / sqrt(gamma)", lambda gamma: gamma**-0.5)],
    "sigma": [("", "sqrt(2) * sigma", lambda sigma: 2**0.5 * sigma)],
    "epsilon": [
        (" as for pydiffmap", "2 * sqrt(epsilon)", lambda epsilon: 2 * epsilon**0.5),
        (" as for datafold", "sqrt(2 * epsilon)", lambda epsilon: (2 * epsilon) ** 0.5),
    ],
}


def answers(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorator: the error for an unknown keyword names the one that was meant."""
    known = inspect.signature(function).parameters

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        for name, value in kwargs.items():
            if name not in known:
                owner = function.__qualname__.removesuffix(".__init__")
                raise TypeError(f"{owner} has no option {name!r}{meant(name, value, [*known])}")
        return function(*args, **kwargs)

    return call


def meant(name: str, value: Any, known: list[str]) -> str:
    """What to write instead of an unknown keyword, as the rest of a sentence."""
    if name in ("eigen_solver", "eig_solver", "solver"):
        return "; the eigensolver is chosen by the size of the problem, so leave it out"
    if name == "affinity":
        way = "kernel=affinities" if "kernel" in known else "metric='precomputed_affinity' and the affinities as X"
        return f"; the kernel is Gaussian. For affinities of your own pass {way}"
    if name in LENGTHS and "bandwidth" in known:
        return f"; {KERNEL} {', or '.join(converted(value, *each) for each in LENGTHS[name])}"
    ours = SAME.get(name, "")
    near = [ours] if ours in known else get_close_matches(name, known, n=1, cutoff=0.7)
    return f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(name for name in known if name != 'self')}"


def converted(value: Any, where: str, formula: str, convert: Callable[[float], float]) -> str:
    """A length of another convention as our bandwidth, in numbers where it is one."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and float(value) > 0:
        return f"bandwidth={convert(float(value)):.6g}{where} ({formula})"
    return f"bandwidth={formula}{where}"
