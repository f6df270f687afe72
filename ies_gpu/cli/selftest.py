"""Self-test of a device: its kernels against plain code, and runs on D1 and D7 against the CPU in float64."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import select
from ..backend import Backend
from ..backend import compare as by
from ..backend.kernels.cuda import launch
from ..datasets.synthetic import bandwidth_for, load
from ..results.selection import Selection

SOUND = -2.0  # mean scores above this are not the logarithm of rounding
# how far mean scores may be from those of the CPU in float64, by run and precision
BOUNDS = {"whole": 1e-6, "whole, mixed": 1e-4, "whole, float32": 1e-3}


class Outcome(NamedTuple):
    """One kernel, or one run on a data set: the largest difference, its bound, and the seconds of both sides."""

    data: str
    stage: str
    difference: float
    bound: float
    seconds: tuple[float, float]
    note: str = ""

    @property
    def ok(self) -> bool:
        return self.difference <= self.bound


def run(name: str, n: int, device: str, dtype: str = "float64") -> tuple[Selection, float]:
    """Run the whole pipeline on n points, with the degrees of the paper's; return the seconds it took as well."""
    data = load(name, n_samples=n)
    options: dict[str, Any] = {"intrinsic_dim": data.intrinsic_dim, "subset_size": data.subset_size}
    options |= {"device": device, "dtype": dtype, "bandwidth": bandwidth_for(name, n)}
    # eigenvectors with residuals of 1e-8, found by two routes, can differ by more than the bound
    options["tol"] = 1e-10 if dtype == "float64" else 1e-8
    begin = time.perf_counter()
    return select.select_coordinates(data.X, **options), time.perf_counter() - begin


def compare(
    tested: Backend, n_samples: int = 10_000, names: tuple[str, ...] = ("D1", "D7"), run: Callable[..., Any] = run
) -> Iterator[Outcome]:
    yield from (compare_kernel(tested, *kernel_and_types) for kernel_and_types in by.TYPES.items())
    for device in {"cpu", tested.device}:  # compile, so that seconds are those of work
        for dtype in ("float64", "mixed", "float32"):
            run("D1", 600, device, dtype)
    for name in names:
        expected, slow = run(name, n_samples, "cpu")
        for stage, bound in BOUNDS.items():
            dtype, apart, fast = stage.partition(", ")[2] or "float64", math.inf, 0.0
            try:
                found, fast = run(name, n_samples, tested.device, dtype)
                # what was repeated on plain code agrees, but is no success
                note = " ".join(str(finding) for finding in found.findings if finding.topic == "kernel")
                apart = math.inf if note else selection_difference(found, expected, strict=dtype == "float64")
            except Exception as error:
                note = f"{type(error).__name__}: {error}"
            yield Outcome(name, stage, apart, bound, (slow, fast), note)


def compare_kernel(tested: Backend, kernel: str, kinds: tuple[tuple[Any, ...], ...]) -> Outcome:
    """Compare one kernel with plain code for all types, in units of what each of them allows."""
    kernels: Any = tested.kernels if tested.device == "cpu" else launch  # unguarded
    worst, note, begin = 0.0, "", time.perf_counter()
    with tested.active():
        for types in kinds:
            try:
                apart = by.kernel_difference(kernels, tested.xp, kernel, types)
            except Exception as error:  # whatever a device can do: the others are still worth a try
                apart, note = math.inf, f"{type(error).__name__}: {error}"
            worst = max(worst, apart / by.tolerance(types))
    return Outcome("small", kernel, worst, 1.0, (0.0, time.perf_counter() - begin), note)


def selection_difference(found: Selection, expected: Selection, *, strict: bool) -> float:
    """Return the largest difference of sound mean scores; infinite where another set is chosen, or on the path."""
    same = found.subset == expected.subset
    if strict:
        same = same and [s.subset for s in found.path] == [s.subset for s in expected.path]
    means, others = (s.ranking.scores[np.lexsort(s.ranking.subsets.T[::-1])] for s in (found, expected))
    return by.largest(np.abs(means - others)[others > SOUND]) if same else math.inf
