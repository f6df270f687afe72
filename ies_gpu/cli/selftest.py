"""Self-test of a device: its kernels, and the pipeline on D1 and D7 stage by stage, against what is known to be right.

Every stage starts from the reference's input, so a fault shows up where it arises and not in later stages. Without a
CUDA device, the fused CPU kernels are compared with plain code.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..backend import Backend, backend_of, get_backend, to_device
from ..backend import compare as by
from ..backend.kernels.cuda import launch
from ..choice.criterion import candidate_subsets, score_pass
from ..choice.rmetric import cometric, tangents
from ..choice.search import search_exhaustive
from ..datasets.synthetic import Dataset, load
from ..embedding.diffusion import diffusion_map
from ..embedding.graph import radius_graph
from ..embedding.laplacian import Laplacian, gaussian_kernel, graph_laplacian
from ..results.selection import Selection
from ..select import select_coordinates

Work = Callable[..., Any]
CSR = ("indptr", "indices", "data")
DATA = ("D1", "D7")
POINTS = 10_000
M = 20  # eigenvectors
TOL = 1e-8
SOUND = -2.0  # mean scores above this are not the logarithm of rounding
# allowed differences; relative to the largest entry, or absolute where that is the natural scale
BOUNDS = {
    "graph": 1e-12,
    "kernel": 1e-12,
    "laplacian": 1e-12,
    "eigenvalues": 1e-10,
    "eigenvectors": 2 * TOL,  # residual on the reference's matrix
    "tangents": 1e-9,
    "scores": 1e-10,
    "search": 1e-9,
    "whole": 1e-6,
    "whole, mixed": 1e-4,
    "whole, float32": 1e-3,
}


class Outcome(NamedTuple):
    """One stage of one data set: the largest difference, its bound, and the seconds of both sides."""

    data: str
    stage: str
    difference: float
    bound: float
    seconds: tuple[float, float]
    note: str = ""

    @property
    def ok(self) -> bool:
        return self.difference <= self.bound


@dataclass(frozen=True)
class Side:
    """One of the two that are compared."""

    backend: Backend
    label: str
    kernels: str  # for IES_GPU_KERNELS: "plain", or "" for the fastest

    def timed(self, work: Work, *given: Any) -> tuple[Any, float]:
        """What ``work`` makes here of arrays, matrices and Laplacians of the host, and the seconds it took."""
        there = [self.take(value) for value in given]
        with self.backend.active():
            self.backend.synchronise()
            begin = time.perf_counter()
            result = work(*there)
            self.backend.synchronise()
        return result, time.perf_counter() - begin

    def take(self, value: Any) -> Any:
        """An array, matrix or Laplacian, from the host to here."""
        if isinstance(value, Laplacian):
            return Laplacian(self.take(value.transition), self.take(value.weights), value.bandwidth)
        with self.backend.active():
            return to_device(value, self.backend)

    def select(self, data: Dataset, dtype: str = "float64") -> Selection:
        """The whole pipeline here."""
        sizes: dict[str, Any] = {
            "intrinsic_dim": data.intrinsic_dim,
            "subset_size": data.subset_size,
            "bandwidth": data.bandwidth,
        }
        with kernels_from_environment(self.kernels):
            return select_coordinates(data.X, **sizes, device=self.backend.device, dtype=dtype, tol=TOL)


@contextmanager
def kernels_from_environment(name: str) -> Iterator[None]:
    """Which CPU kernels a new backend loads."""
    before = os.environ.pop("IES_GPU_KERNELS", None)
    if name:
        os.environ["IES_GPU_KERNELS"] = name
    try:
        yield
    finally:
        os.environ.pop("IES_GPU_KERNELS", None)
        if before is not None:
            os.environ["IES_GPU_KERNELS"] = before


def sides(device: str = "auto") -> tuple[Side, Side]:
    """The reference, and what is put to the test: CPU and CUDA, or plain code and the fused kernels of the CPU."""
    tested = get_backend(device)
    if tested.device != "cpu":
        with kernels_from_environment(""):
            return Side(get_backend("cpu"), "cpu", ""), Side(tested, tested.device, "")
    with kernels_from_environment("plain"):
        plain = get_backend("cpu")
        assert plain.kernels.NAME == "plain"  # loaded now, while the environment says so
    with kernels_from_environment(""):
        fused = get_backend("cpu")
        return Side(plain, "plain", "plain"), Side(fused, fused.kernels.NAME, "")


def compare(reference: Side, tested: Side, n_samples: int = POINTS) -> Iterator[Outcome]:
    """Compare kernels on small inputs, then stage after stage. Fewer points get a bandwidth that keeps the degrees."""
    for kernel, kinds in by.TYPES.items():
        yield kernel_outcome(tested, kernel, kinds)
    for side in (reference, tested):  # compile, so that seconds are those of work
        for dtype in ("float64", "mixed", "float32"):
            side.select(scaled("D1", 600), dtype)
    for name in DATA:
        data = scaled(name, n_samples)
        yield from stages(data, reference, tested)
        yield from wholes(data, reference, tested)


def kernel_outcome(tested: Side, kernel: str, kinds: tuple[tuple[Any, ...], ...]) -> Outcome:
    """One kernel for all types, in units of what each of them allows."""
    kernels: Any = tested.backend.kernels if tested.backend.device == "cpu" else launch  # unguarded
    worst, note = 0.0, ""
    begin = time.perf_counter()
    with tested.backend.active():
        for types in kinds:
            try:
                apart = by.kernel_difference(kernels, tested.backend.xp, kernel, types)
            except Exception as error:  # whatever a device can do: the others are still worth a try
                apart, note = math.inf, said(error)
            worst = max(worst, apart / by.tolerance(types))
    return Outcome("small", kernel, worst, 1.0, (0.0, time.perf_counter() - begin), note)


def scaled(name: str, n: int) -> Dataset:
    """A data set of n points, with a bandwidth that keeps the degrees of the paper's 10,000."""
    data = load(name, n_samples=n)
    return replace(data, bandwidth=data.bandwidth * (POINTS / n) ** (1 / data.intrinsic_dim))


def said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def stages(data: Dataset, reference: Side, tested: Side) -> Iterator[Outcome]:
    """The stages from points to the chosen set, each fed with what the reference made of the one before."""
    eps, d, s, host = data.bandwidth, data.intrinsic_dim, data.subset_size, tested.backend.to_host

    def both(work: Work, differ: Callable[[Any, Any], dict[str, float]], *given: Any) -> tuple[Any, list[Outcome]]:
        """Do the same on both sides: the reference's result, and how far the other is from it, in one part or more."""
        expected, slow = reference.timed(work, *given)
        try:
            found, fast = tested.timed(work, *given)
            worst, note = differ(found, expected), ""
        except Exception as error:  # whatever a device can do: the stages behind this one are still worth a try
            worst, fast, note = dict.fromkeys(differ(expected, expected), math.inf), 0.0, said(error)
        return expected, [Outcome(data.name, k, v, BOUNDS[k], (slow, fast), note) for k, v in worst.items()]

    def apart(found: list[Any], expected: list[Any]) -> float:
        return by.difference([*map(host, found)], expected)

    def same(*names: str) -> Callable[[Any, Any], float]:
        return lambda found, expected: apart(*([getattr(one, name) for name in names] for one in (found, expected)))

    graph, made = both(lambda X: radius_graph(X, radius=3 * eps), lambda *two: {"graph": same(*CSR)(*two)}, data.X)
    yield from made
    affinities, made = both(
        lambda graph: gaussian_kernel(graph, bandwidth=eps), lambda *two: {"kernel": same(*CSR)(*two)}, graph
    )
    yield from made
    laplacian, made = both(
        lambda kernel: graph_laplacian(kernel, bandwidth=eps),
        lambda found, expected: {
            "laplacian": max(same(*CSR)(found.transition, expected.transition), same("weights")(found, expected))
        },
        affinities,
    )
    yield from made
    pairs, made = both(
        lambda laplacian: diffusion_map(laplacian, n_components=M, tol=TOL),
        lambda found, expected: {
            "eigenvalues": same("eigenvalues")(found, expected),
            "eigenvectors": residual(laplacian, host(found.coordinates), host(found.eigenvalues)),
        },
        laplacian,
    )
    yield from made
    H, _ = reference.timed(cometric, pairs.coordinates, laplacian)
    (U, _), made = both(
        lambda Y, laplacian: tangents(Y, laplacian, d, backend_of(Y)),
        lambda found, expected: {"tangents": by.eigenpair_difference(H, host(found[0]), host(found[1]), expected[1])},
        pairs.coordinates,
        laplacian,
    )
    yield from made
    _, made = both(
        lambda bases: score_pass(bases, candidate_subsets(M, s)),
        lambda found, expected: {
            "scores": max(
                mean_difference(host(found.totals) / len(U), expected.totals / len(U)),
                by.volume_difference(host(found.best_scores), expected.best_scores),
            )
        },
        U,
    )
    yield from made
    _, made = both(
        lambda bases: search_exhaustive(bases, pairs.eigenvalues, subset_size=s),
        lambda found, expected: {
            "search": apart(
                [found.percentiles, np.array(found.subset)], [expected.percentiles, np.array(expected.subset)]
            )
        },
        U,
    )
    yield from made


def residual(laplacian: Laplacian, phi: np.ndarray, values: np.ndarray) -> float:
    """Largest ``|S v - mu v|`` of pairs, computed on the host with SciPy."""
    root = np.sqrt(laplacian.weights)[:, None]
    v = root * phi
    errors = np.linalg.norm(root * (laplacian.transition @ phi) - (1 - values) * v, axis=0)
    return by.largest(errors / np.linalg.norm(v, axis=0))


def mean_difference(means: np.ndarray, others: np.ndarray) -> float:
    """Largest difference of mean scores that are not the logarithm of rounding."""
    return by.largest(np.abs(means - others)[others > SOUND])


def wholes(data: Dataset, reference: Side, tested: Side) -> Iterator[Outcome]:
    """The whole pipeline in float64 on both, and in the other precisions on the tested side only."""
    expected, slow = reference.timed(lambda: reference.select(data))
    for dtype in ("float64", "mixed", "float32"):
        stage = "whole" if dtype == "float64" else f"whole, {dtype}"
        note, apart, fast = "", math.inf, 0.0
        try:
            found, fast = tested.timed(partial(tested.select, data, dtype))
            apart = selection_difference(found, expected, dtype == "float64")
            complaints = [str(finding) for finding in found.findings if finding not in expected.findings]
            if complaints:  # what was repeated on plain code agrees, but is no success
                apart, note = math.inf, " ".join(complaints)
        except Exception as error:
            note = said(error)
        yield Outcome(data.name, stage, apart, BOUNDS[stage], (slow, fast), note)


def selection_difference(found: Selection, expected: Selection, strict: bool) -> float:
    """Largest difference of sound mean scores; infinite where another set was chosen (or is on the path)."""
    same = found.subset == expected.subset
    if strict:
        same = same and [s.subset for s in found.path] == [s.subset for s in expected.path]
    means = (s.ranking.scores[np.lexsort(s.ranking.subsets.T[::-1])] for s in (found, expected))
    return mean_difference(*means) if same else math.inf
