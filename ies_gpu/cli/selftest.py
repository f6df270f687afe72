"""Self-test of a device: the pipeline on D1 and D7, stage by stage, against a device that is known to be right.

Every stage starts from the reference's input, so a fault shows up where it arises and not in later stages. Without a
CUDA device, the fused CPU kernels are compared with plain code.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..backend import Backend, get_backend, to_device
from ..backend.kernels import agreement
from ..choice.criterion import candidate_subsets, score_pass
from ..choice.rmetric import cometric, tangents
from ..choice.search import search_exhaustive
from ..datasets.synthetic import Dataset, load
from ..embedding.diffusion import Embedding, diffusion_map
from ..embedding.graph import radius_graph
from ..embedding.laplacian import Laplacian, gaussian_kernel, graph_laplacian
from ..results.selection import Selection
from ..select import select_coordinates

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

    def timed(self, work: Callable[[], Any]) -> tuple[Any, float]:
        """What ``work`` gives here, and the seconds it took."""
        with self.backend.active():
            self.backend.synchronise()
            begin = time.perf_counter()
            result = work()
            self.backend.synchronise()
        return result, time.perf_counter() - begin

    def take(self, value: Any) -> Any:
        """An array, CSR, Laplacian or several of them, from the host to here."""
        if isinstance(value, tuple):
            return tuple(map(self.take, value))
        if isinstance(value, Laplacian):
            return Laplacian(self.take(value.transition), self.take(value.weights), value.bandwidth)
        with self.backend.active():
            return to_device(value, self.backend)

    def give(self, array: Any) -> np.ndarray:
        """An array, on the host."""
        return self.backend.to_host(array)

    def select(self, data: Dataset, dtype: str = "float64") -> Selection:
        """The whole pipeline here."""
        with kernels_from_environment(self.kernels):
            return select_coordinates(
                data.X,
                intrinsic_dim=data.intrinsic_dim,
                subset_size=data.subset_size,
                bandwidth=data.bandwidth,
                device=self.backend.device,
                dtype=dtype,
                tol=TOL,
            )


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
    """Compare stage after stage, as they are done. Fewer points get a bandwidth that keeps the degrees."""
    for side in (reference, tested):  # compile, so that seconds are those of work
        for dtype in ("float64", "mixed", "float32"):
            side.select(scaled("D1", 600), dtype)
    for name in DATA:
        trial = Trial(scaled(name, n_samples), reference, tested)
        yield from steps(trial)
        yield from wholes(trial)


def scaled(name: str, n: int) -> Dataset:
    """A data set of n points, with a bandwidth that keeps the degrees of the paper's 10,000."""
    data = load(name, n_samples=n)
    return replace(data, bandwidth=data.bandwidth * (POINTS / n) ** (1 / data.intrinsic_dim))


class Trial(NamedTuple):
    """A data set on two sides."""

    data: Dataset
    reference: Side
    tested: Side

    def stage(
        self, name: str, given: Any, work: Callable[[Side, Any], Any], differ: Callable[[Any, Any], dict[str, float]]
    ) -> tuple[Any, list[Outcome]]:
        """Do the same on both sides: the reference's result, and how far the other is from it, in one part or more."""
        expected, slow = self.reference.timed(partial(work, self.reference, self.reference.take(given)))
        try:
            found, fast = self.tested.timed(partial(work, self.tested, self.tested.take(given)))
            worst, note = differ(found, expected), ""
        except Exception as error:  # whatever a device can do: the stages behind this one are still worth a try
            worst, fast, note = {name: float("inf")}, 0.0, f"{type(error).__name__}: {error}"
        seconds = (slow, fast)
        return expected, [Outcome(self.data.name, k, number(w), BOUNDS[k], seconds, note) for k, w in worst.items()]

    def matrix(self, found: Any, expected: Any) -> float:
        """Two CSR matrices: the same pattern, and the largest difference of entries."""
        pairs = ((found.indices, expected.indices), (found.indptr, expected.indptr))
        if not all(np.array_equal(self.tested.give(a), b) for a, b in pairs):
            return float("inf")
        return self.relative(found.data, expected.data)

    def relative(self, found: Any, expected: np.ndarray) -> float:
        """Largest difference in units of the largest entry."""
        found = self.tested.give(found)
        if found.shape != expected.shape:
            return float("inf")
        return float(np.abs(found - expected).max(initial=0.0) / max(float(np.abs(expected).max(initial=0.0)), 1e-300))


def steps(trial: Trial) -> Iterator[Outcome]:
    """The steps from points to the chosen set, each fed with what the reference made of the one before."""
    eps, give = trial.data.bandwidth, trial.tested.give
    graph, made = trial.stage(
        "graph",
        trial.data.X,
        lambda _, X: radius_graph(X, radius=3 * eps),
        lambda found, expected: {"graph": trial.matrix(found, expected)},
    )
    yield from made
    kernel, made = trial.stage(
        "kernel",
        graph,
        lambda _, distances: gaussian_kernel(distances, bandwidth=eps),
        lambda found, expected: {"kernel": trial.matrix(found, expected)},
    )
    yield from made
    laplacian, made = trial.stage(
        "laplacian",
        kernel,
        lambda _, affinities: graph_laplacian(affinities, bandwidth=eps),
        lambda found, expected: {
            "laplacian": max(
                trial.matrix(found.transition, expected.transition), trial.relative(found.weights, expected.weights)
            )
        },
    )
    yield from made
    embedding, made = trial.stage(
        "eigenvectors",
        laplacian,
        lambda _, operator: diffusion_map(operator, n_components=M, tol=TOL),
        lambda found, expected: {
            "eigenvalues": trial.relative(found.eigenvalues, expected.eigenvalues),
            "eigenvectors": residual(laplacian, found, give),
        },
    )
    yield from made
    yield from choice_steps(trial, laplacian, embedding)


def choice_steps(trial: Trial, laplacian: Laplacian, embedding: Embedding) -> Iterator[Outcome]:
    """The same from the eigenvectors on."""
    d, s, give = trial.data.intrinsic_dim, trial.data.subset_size, trial.tested.give
    Y, values, sets = embedding.coordinates, embedding.eigenvalues, candidate_subsets(M, s)
    H, _ = trial.reference.timed(lambda: cometric(Y, laplacian))
    (U, _), made = trial.stage(
        "tangents",
        (Y, laplacian),
        lambda side, given: tangents(given[0], given[1], d, side.backend),
        lambda found, expected: {"tangents": agreement.eigenpairs(H, give(found[0]), give(found[1]), expected[1])},
    )
    yield from made
    _, made = trial.stage(
        "scores",
        U,
        lambda _, bases: score_pass(bases, sets),
        lambda found, expected: {"scores": scores(found, expected, len(U), give)},
    )
    yield from made
    _, made = trial.stage(
        "search",
        U,
        lambda _, bases: search_exhaustive(bases, values, subset_size=s),
        lambda found, expected: {
            "search": trial.relative(found.percentiles, expected.percentiles)
            if found.subset == expected.subset
            else float("inf")
        },
    )
    yield from made


def number(value: float) -> float:
    """NaN counts as disagreement."""
    return value if np.isfinite(value) else float("inf")


def residual(laplacian: Laplacian, found: Embedding, give: Callable[[Any], np.ndarray]) -> float:
    """Largest ``|S v - mu v|`` of pairs, computed on the host with SciPy."""
    phi, values = give(found.coordinates), give(found.eigenvalues)
    root = np.sqrt(laplacian.weights)[:, None]
    v = root * phi
    errors = np.linalg.norm(root * (laplacian.transition @ phi) - (1 - values) * v, axis=0)
    return float((errors / np.linalg.norm(v, axis=0)).max())


def scores(found: Any, expected: Any, n: int, give: Callable[[Any], np.ndarray]) -> float:
    """Mean scores that are not the logarithm of rounding, and each point's best volume."""
    means, others = give(found.totals) / n, expected.totals / n
    best = agreement.volumes(give(found.best_scores), expected.best_scores)
    return max(agreement.largest(np.abs(means - others)[others > SOUND]), best)


def wholes(trial: Trial) -> Iterator[Outcome]:
    """The whole pipeline in float64 on both, and in the other precisions on the tested side only."""
    data, reference, tested = trial
    expected, slow = reference.timed(lambda: reference.select(data))
    for dtype in ("float64", "mixed", "float32"):
        stage = "whole" if dtype == "float64" else f"whole, {dtype}"
        note, difference, fast = "", float("inf"), 0.0
        try:
            found, fast = tested.timed(partial(tested.select, data, dtype))
            difference = selections(found, expected, dtype == "float64")
            complaints = [str(said) for said in found.findings if said not in expected.findings]
            if complaints:  # what was repeated on plain code agrees, but is no success
                difference, note = float("inf"), " ".join(complaints)
        except Exception as error:
            note = f"{type(error).__name__}: {error}"
        yield Outcome(data.name, stage, number(difference), BOUNDS[stage], (slow, fast), note)


def selections(found: Selection, expected: Selection, strict: bool) -> float:
    """Largest difference of sound mean scores; infinite where another set was chosen (or is on the path)."""
    same = found.subset == expected.subset
    if strict:
        same = same and [s.subset for s in found.path] == [s.subset for s in expected.path]
    means, others = (s.ranking.scores[np.lexsort(s.ranking.subsets.T[::-1])] for s in (found, expected))
    return agreement.largest(np.abs(means - others)[others > SOUND]) if same else float("inf")
