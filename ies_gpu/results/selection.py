"""``select_coordinates``: from points, or from any later stage, to the chosen coordinates."""

from __future__ import annotations

import json
import os
import platform
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import __version__
from ..backend import Backend, backend_of, device_near, get_backend, to_device
from ..backend.kernels import plain
from ..choice.criterion import check_subsets, log_volumes, penalties
from ..choice.regularization import Segment
from ..choice.search import METHODS, SearchResult, check_counts, check_percentile, check_zeta, ranked
from ..parameters.automatic import Calibrated, calibrate, check_automatic
from ..parameters.scan import Settings
from ..parameters.verdict import automatic_line, doubts_of, is_auto, stray_coordinates, thin_points
from ..run.checkpoint import Checkpoint
from ..run.inputs import Prepared, check_entry, check_request, prepare
from ..run.log import DTYPES, Progress, Run, Stages
from ..run.stages import Ask, chosen_solver, embed, search_stage, tangent_stage
from ..validation import check_choice, check_integer, check_number, check_points, check_sizes
from .export import as_frame, as_plain, coordinate_names

KEEP_BYTES = 512 << 20  # tangent bases up to here are kept in the result unless asked otherwise


class Ranking(NamedTuple):
    """All sets scored to the end by falling loss at zeta*: subsets (q, s), losses (q,), unpenalised scores (q,)."""

    subsets: np.ndarray
    losses: np.ndarray
    scores: np.ndarray


@dataclass(frozen=True, repr=False, eq=False)
class Selection:
    """The chosen coordinates and everything that led to them; arrays live where the input did.

    Attributes
    ----------
    subset : tuple of int
        S*, 0-based, rising, 0 always in it.
    names : tuple of str
        The same for people: ``("phi1", "phi7")``.
    search_order : tuple of int
        The order in which the search added them.
    zeta, zeta_interval, zeta_dimensionless
        zeta*, the interval on which S* is optimal (None for no upper end), and ``zeta * lambda_1``.
    coordinates, embedding : array (n, m), (n, s)
        All eigenvectors, and the chosen ones.
    eigenvalues, laplace_beltrami_eigenvalues : array (m,)
        Of ``L = I - P``, rising, the constant left out; and times ``4/eps^2`` (None without a bandwidth).
    path : tuple of Segment
        The regularization path from zeta = inf down.
    regrets, regret_percentiles : array (n, len(path)), (len(path),)
        Leave-one-out regret of each set of the path.
    ranking : Ranking
    log_volumes : array (n,)
        ``R(S*; i)``.
    bases, singular_values : array (n, m, d) or None, (n, d)
        Tangent bases of the co-metric (kept up to a size) and its leading singular values.
    points : array (n,)
        The rows of the input that were used.
    diagnostics : dict
    """

    subset: tuple[int, ...]
    search_order: tuple[int, ...]
    zeta: float
    zeta_interval: tuple[float, float | None]
    coordinates: Any
    eigenvalues: Any
    laplace_beltrami_eigenvalues: Any
    path: tuple[Segment, ...]
    regrets: Any
    regret_percentiles: np.ndarray
    ranking: Ranking
    log_volumes: Any
    bases: Any
    singular_values: Any
    points: Any
    diagnostics: dict[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        return coordinate_names(self.subset)

    @property
    def embedding(self) -> Any:
        return self.coordinates[:, list(self.subset)]

    @property
    def zeta_dimensionless(self) -> float:
        return self.zeta * float(self.eigenvalues[0])

    def score(self, subset: Sequence[int | str]) -> Any:
        """``R(S; i)`` of any set, 0-based numbers or names, at every point."""
        if self.bases is None:
            raise ValueError("the tangent bases were not kept; run select_coordinates with keep_bases=True")
        d = self.bases.shape[2]
        sets = np.array([sorted(coordinate_numbers(subset, self.bases.shape[1]))], dtype=np.int32)
        if sets.shape[1] < d:
            raise ValueError(f"subset must have at least intrinsic_dim={d} members, got {tuple(subset)}")
        return log_volumes(self.bases, sets)[:, 0]

    def to_pandas(self, *, every: bool = False) -> Any:
        """The chosen coordinates, or every one, as a ``pandas.DataFrame`` with columns ``phi1``, ``phi7``.

        Rows are named by their numbers in the input, which matter when ``components="largest"`` left some out.
        """
        return as_frame(self, every)

    def to_json(self) -> str:
        """The result less the arrays over points as one line of strict JSON, as ``ies-gpu fit --json`` prints it."""
        return json.dumps(as_plain(self))

    def __repr__(self) -> str:
        d = self.diagnostics
        n, m = self.coordinates.shape
        low, high = self.zeta_interval
        upper = "inf)" if high is None else f"{high:.4g}]"
        quiet = d["device"] == "cpu" and "not installed" in d["device_reason"]  # nobody asked for CUDA
        lines = [
            f"Selection of {', '.join(self.names)} from phi1..phi{m} ({n:,} points)",
            f"  zeta            {self.zeta:.4g}, optimal on [{low:.4g}, {upper}",
            f"  mean score      {self.ranking.scores[self._rank]:.3f} "
            f"(first {len(self.subset)} coordinates: {self._first_score()})",
            f"  runners-up      {self._runners_up()}",
            self._search_line(),
            f"  mean degree     {d['mean_degree']:.0f}",
            f"  automatic       {automatic_line(d['automatic'])}" if d.get("automatic") else "",
            f"  residuals       at most {max(d['residuals']):.1e}" if d["residuals"] else "",
            f"  device          {d['device']}" + ("" if quiet else f" ({d['device_reason']})"),
            *(f"  warning         {message}" for message in d["warnings"]),
        ]
        wrap = partial(textwrap.fill, width=80, subsequent_indent=18 * " ", break_long_words=False)
        return "\n".join(wrap(line) for line in lines if line)

    @property
    def _rank(self) -> int:
        return int(np.flatnonzero((self.ranking.subsets == self.subset).all(axis=1))[0])

    def _first_score(self) -> str:
        first = np.arange(len(self.subset))
        scores = self.ranking.scores[(self.ranking.subsets == first).all(axis=1)]
        return f"{scores[0]:.3f}" if len(scores) else "not scored"

    def _search_line(self) -> str:
        how = self.diagnostics.get("search", {})  # not in files of earlier versions
        if how.get("method", "exhaustive") == "exhaustive":
            return ""
        share = f"{how['sets_scored']:,} of {how['sets_total']:,} sets"
        return f"  search          {how['method']}, {share}: {how['guarantee']}"

    def _runners_up(self) -> str:
        others = [s for s in self.ranking.subsets[:4].tolist() if tuple(s) != self.subset][:3]
        return "; ".join(", ".join(coordinate_names(s)) for s in others) or "none"


def coordinate_numbers(subset: Any, m: int) -> tuple[int, ...]:
    """A set of coordinates as 0-based numbers, given as such or by name: ``(0, 6)`` or ``("phi1", "phi7")``."""
    if isinstance(subset, str) or not np.iterable(subset):
        raise TypeError(f"subset must be a set such as (0, 6) or ('phi1', 'phi7'), got {subset!r}")
    numbers = []
    for member in subset:
        if isinstance(member, str):
            if not re.fullmatch(r"phi[1-9]\d*", member):
                raise ValueError(f"subset must hold numbers, or names such as 'phi7', got {member!r}")
            member = int(member[3:]) - 1
        elif not np.isscalar(member):
            raise TypeError(f"subset must be one set of numbers or names, got {subset!r}")
        numbers.append(member)
    return tuple(int(k) for k in check_subsets([numbers], m)[0])


def select_coordinates(
    X: Any = None,
    *,
    graph: Any = None,
    kernel: Any = None,
    laplacian: Any = None,
    coordinates: Any = None,
    eigenvalues: Any = None,
    intrinsic_dim: int | str = "auto",
    subset_size: int | str = "auto",
    bandwidth: float | str | None = "auto",
    radius: float | None = None,
    self_loops: bool = True,
    n_components: int = 20,
    zeta: float | str = "auto",
    percentile: float = 75,
    search: str = "exhaustive",
    components: str = "raise",
    device: str = "auto",
    dtype: str = "float64",
    memory_limit: int | None = None,
    n_threads: int | None = None,
    random_state: int = 0,
    tol: float = 1e-8,
    keep_bases: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Selection:
    """Choose the few eigenvectors that together give a smooth map of full rank and vary slowest.

    Parameters
    ----------
    X : array (n, D)
        Points. Exactly one of ``X``, ``graph``, ``kernel``, ``laplacian`` is given.
    graph : sparse matrix or array (n, n)
        Distances between neighbours.
    kernel : sparse matrix or array (n, n)
        Symmetric affinities.
    laplacian, coordinates, eigenvalues
        A renormalised Laplacian (or sparse ``I - P``) with its eigenvectors (n, m) and eigenvalues (m,).
    intrinsic_dim : int or "auto"
        d, the dimension of the manifold.
    subset_size : int or "auto"
        s, how many coordinates to choose.
    bandwidth : float or "auto"
        eps of the Gaussian kernel. What is "auto" of these three is found from ``X``, and
        ``diagnostics["automatic"]`` says how; it takes several times as long. With ``graph`` all three must be given,
        with ``kernel`` and ``laplacian`` the first two.
    radius : float
        Neighbours are points no further apart than this: ``3 * bandwidth`` unless given. A sparse graph is taken as it
        is unless a radius is given.
    self_loops : bool
        ``K_ii = 1``, as in the paper. False sets it to 0: with noise in many dimensions a point's nearest neighbours
        are far, its own weight outweighs them all, and single points get coordinates of their own.
    n_components : int
        m, how many eigenvectors to choose from.
    zeta : float or "auto"
        Weight of the smoothness penalty; "auto" finds it by the leave-one-out regret.
    percentile : float
        Of the regret, which must not be positive; 75 in the paper.
    search : {"exhaustive", "greedy", "submodular", "branch_and_bound"}
        Enumeration; the paper's greedy search; the procedures for large ``n_components`` and ``subset_size``; or
        enumeration less the sets that are proved not to be the best. What was promised is in ``diagnostics["search"]``.
    components : {"raise", "largest"}
        What to do when the graph is disconnected.
    device : {"auto", "cpu", "cuda", "cuda:N"}
    dtype : {"float64", "mixed", "float32"}
        ``mixed`` stores the graph in float32 and computes in float64: two thirds of the memory. ``float32`` also
        computes tangent bases and scores in float32. The eigensolver and all sums are in float64. See
        docs/precision.md for what each costs.
    memory_limit : int
        Bytes that the run may take; half of the free memory unless given.
    n_threads : int
        CPU threads; all that the process may use unless given.
    random_state : int
        Seed of the eigensolver's start vector.
    tol : float
        Bound on the residual of every eigenpair.
    keep_bases : bool, optional
        Keep the tangent bases, which ``Selection.score`` needs; by default up to 512 MB.
    checkpoint : path, optional
        A local folder in which each finished stage is saved. One that holds stages already is an error without
        ``resume``.
    resume : bool
        Take what is finished from that folder; the result is the same to the bit. Stages that are damaged or of
        another job are told of and computed again, and an empty folder is a beginning.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    Selection

    Raises
    ------
    DisconnectedGraphError
        Before the eigensolver, with the sizes of the parts and a radius that would connect them.
    """
    check_choice("search", search, METHODS)
    check_choice("components", components, ("raise", "largest"))
    check_choice("dtype", dtype, DTYPES)
    weight, alpha = check_zeta(zeta), check_percentile(percentile)
    tol = check_number("tol", tol, high=1.0)
    random_state = check_integer("random_state", random_state, low=0)
    if memory_limit is not None:
        memory_limit = check_integer("memory_limit", memory_limit, low=1 << 20)
    if n_threads is not None:
        n_threads = check_integer("n_threads", n_threads, low=1)
    given = {"X": X, "graph": graph, "kernel": kernel, "laplacian": laplacian}
    given |= {"coordinates": coordinates, "eigenvalues": eigenvalues}
    entry = check_entry(given)
    bandwidth, automatic = check_automatic(entry, bandwidth, intrinsic_dim, subset_size, radius)
    least = 1 if is_auto(intrinsic_dim) else intrinsic_dim
    if coordinates is None:  # otherwise their number is the number of columns
        d, s, m = check_sizes(None, least, least if is_auto(subset_size) else subset_size, n_components)
        check_counts(search, m, d, s)
    log = Stages(progress)
    rest = (radius, components, n_components, self_loops)
    request = check_request(entry, 1.0 if is_auto(bandwidth) else bandwidth, *rest)
    home = backend_of(given["coordinates" if entry == "laplacian" else entry])  # where the results go
    run = Run(get_backend(device_near(home, device), memory_limit=memory_limit, n_threads=n_threads), log, dtype, {})
    job = {"entry": entry, **request._asdict(), "intrinsic_dim": intrinsic_dim, "subset_size": subset_size}
    job |= {"zeta": zeta, "percentile": alpha, "search": search, "dtype": dtype, "random_state": random_state}
    job |= {"tol": tol, "versions": versions(), "solver": chosen_solver(), "automatic": automatic}
    if is_auto(bandwidth):
        job |= {"bandwidth": "auto", "radius": None}

    def find(bases: Any, values: np.ndarray, s: int, run: Run) -> SearchResult:
        return search_stage(bases, values, Ask(search, s, random_state), weight, alpha, run)

    def look() -> Calibrated:
        points = run.backend.retried("checks", partial(to_device, check_points(X), run.backend))
        check_sizes(len(points), 1, 1, n_components)
        settings = Settings(components, n_components, random_state, tol, radius, self_loops, find)
        return calibrate(points, bandwidth, intrinsic_dim, subset_size, settings, run)

    stage, report = None, None
    size: list[Any] = [intrinsic_dim, subset_size]
    with run.backend.active(), Checkpoint(checkpoint, resume, job, given, run) as saved:
        if automatic:
            stage, eps, *size, report = saved.calibrated(look)
            request = check_request(entry, eps, *rest)
        if stage is not None:
            (work, bases, sigma, found), (d, s), m = stage, size, n_components
        else:
            work = saved.prepared(partial(prepare, given, entry, request, run))
            n, m = work.laplacian.shape[0], n_components if work.coordinates is None else work.coordinates.shape[1]
            d, s, m = check_sizes(n, size[0], size[1], m)
            check_counts(search, m, d, s)
            work = saved.embedded(work, partial(embed, work, m, random_state, tol, run))
            bases, sigma = saved.tangents(partial(tangent_stage, work, d, run))
            found = saved.search(partial(find, bases, work.eigenvalues, s, run))
        keep = bases.nbytes <= KEEP_BYTES if keep_bases is None else keep_bases
        with log.stage("result"):
            result = run.backend.retried("result", partial(assemble, work, bases, sigma, found, keep, run, home))
    for message in doubts_of(result.diagnostics, len(work.points), m, d, entry, request.self_loops):
        log.warn(message)
    log.keep(run.backend.complaints())
    parameters = {"entry": entry, **request._asdict(), "n_components": m, "intrinsic_dim": d, "subset_size": s}
    parameters |= {"zeta": zeta, "percentile": alpha, "search": search, "dtype": dtype}
    parameters |= {"random_state": random_state, "tol": tol}
    result.diagnostics.update(log.results(), parameters=parameters, automatic=report, **saved.results())
    return result


def assemble(
    work: Prepared, bases: Any, sigma: Any, found: SearchResult, keep_bases: bool, run: Run, home: Backend
) -> Selection:
    """The result, back in the user's order of points and on the user's device."""
    back = run.backend.asarray(np.argsort(work.order))

    def returned(array: Any) -> Any:
        return to_device(array[back], home)

    volumes = log_volumes(bases, np.array([found.subset], dtype=np.int32))[:, 0]
    order = ranked(found.subsets, found.scores, work.eigenvalues, found.zeta)
    losses = found.scores - found.zeta * penalties(found.subsets, work.eigenvalues)
    scale = None if work.laplacian.bandwidth is None else work.laplacian.scale
    return Selection(
        subset=found.subset,
        search_order=found.search_order,
        zeta=found.zeta,
        zeta_interval=found.zeta_interval,
        coordinates=returned(work.coordinates),
        eigenvalues=work.eigenvalues,
        laplace_beltrami_eigenvalues=None if scale is None else scale * work.eigenvalues,
        path=found.path,
        regrets=returned(found.regrets),
        regret_percentiles=found.percentiles,
        ranking=Ranking(found.subsets[order], losses[order], found.scores[order]),
        log_volumes=returned(volumes),
        bases=returned(bases) if keep_bases else None,
        singular_values=returned(sigma),
        points=work.points,
        diagnostics=diagnostics_of(work, sigma, volumes, found, run),
    )


def diagnostics_of(work: Prepared, sigma: Any, volumes: Any, found: SearchResult, run: Run) -> dict[str, Any]:
    """How the result came about, as plain values."""
    gaps = -run.backend.xp.diff(sigma, axis=1)
    stray, rows = stray_coordinates(work.coordinates, run.backend)
    return {
        **run.backend.describe(),
        "residuals": [float(r) for r in work.residuals],
        "solver": work.solver,
        "graph_components": work.graph_components,
        "mean_degree": work.mean_degree,
        "approximations": list(work.approximations),
        "floored_points": int((volumes <= 0.5 * np.log(plain.FLOOR) + 1e-9).sum()),
        "degenerate_points": float((gaps <= 1e-6 * sigma[:, :1]).any(axis=1).mean()) if gaps.size else 0.0,
        "thin_points": thin_points(sigma),
        "stray_coordinates": stray,
        "stray_points": sorted(work.points[work.order[rows]].tolist()),
        "regret_passed": found.passed,
        "sets_scored": found.details["sets_scored"],
        "search": found.details,
        "audit": run.audit,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Of everything that touched the numbers."""
    import scipy

    found = {"ies_gpu": __version__, "python": platform.python_version(), "numpy": np.__version__}
    found["scipy"] = scipy.__version__
    try:
        import numba

        found["numba"] = numba.__version__
    except ImportError:
        pass
    return found
