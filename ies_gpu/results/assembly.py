"""Put a result together from the steps of a run, back in the user's order of points."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..backend import Backend, active_backend, backend_of, step, to_device, to_host
from ..backend.array import Array, count_true, few_on_host, spaced_rows
from ..backend.kernels import plain
from ..choice.criterion import log_volumes, penalties, ranked, stray_coordinates, stray_points
from ..choice.search import SearchResult
from ..choice.untangle import turns_said
from ..embedding.diffusion import Embedding, scale_factors, signs
from ..embedding.laplacian import Laplacian, Rows
from ..findings import verdict_on, warning, warnings_for
from ..options import Options
from ..parameters.judgement import Judgement, graph_warnings
from ..run.run import Fit, Inputs, Run, versions
from ..validation import check_points, points_digest
from .selection import Ranking, Selection, as_words

LENGTHS = 5_000  # rows that tell the lengths of columns well enough for words
KEEP_BYTES = 512 << 20  # tangent bases up to here are kept in the result unless asked otherwise


@step("result")
def assemble(given: Inputs, options: Options, fit: Fit, found: SearchResult, weights: Array | None) -> Selection:
    """Return the result, in the user's order of points and on the user's device; ``weights`` turn its coordinates."""
    laplacian, embedding, (bases, sigma) = fit
    rows, home, to_user = laplacian.rows, given.home, to_user_of(given, laplacian.rows)
    as_given = points_of(given, rows.used, as_given=True)
    coordinates, units = orient_and_scale(given, options, laplacian, embedding)
    kept = None
    if bases.nbytes <= KEEP_BYTES if options.keep_bases is None else options.keep_bases:
        kept = to_user(bases)
        with home.active():
            kept *= home.xp.sign(units)[:, None].astype(kept.dtype)
    volumes = log_volumes(bases, np.array([found.subset], dtype=np.int32))[:, 0]
    about = diagnostics_of(laplacian, embedding, sigma, volumes, found)
    stray = stray_points(embedding.vectors, about["stray_coordinates"])
    about |= {
        "stray_points": sorted(rows.numbers[stray].tolist()),
        "storage": about["storage"] | {"memory_limit": backend_of(bases).memory_budget()},
        "points_digest": None if as_given is None else points_digest(as_given),
        "n_features": None if as_given is None else int(as_given.shape[1]),
    }
    return Selection(
        **choice_of(found, embedding.eigenvalues, laplacian.bandwidth),
        coordinates=coordinates,
        regrets=to_user(found.regrets),
        log_volumes=to_user(volumes),
        bases=kept,
        singular_values=to_user(sigma),
        points=rows.used,
        rotation=None if weights is None else home.asarray(in_units(weights, found.subset, to_host(units))),
        diagnostics=about,
    )


def to_user_of(given: Inputs, rows: Rows) -> Callable[[Array], Array]:
    """Return the function that copies rows to the user's order and device; a copy may be overwritten."""
    back = active_backend().asarray(np.argsort(rows.order))
    return lambda array: to_device(array[back], given.home)


def orient_and_scale(given: Inputs, options: Options, laplacian: Laplacian, found: Embedding) -> tuple[Array, Array]:
    """Return eigenvectors in the user's order, and the sign and scale they got; given ones stay as they are."""
    to_user, X = to_user_of(given, laplacian.rows), points_of(given, laplacian.rows.used)
    Y, time = to_user(found.vectors), options.diffusion_time
    if options.entry == "laplacian":
        return Y, given.home.xp.ones(Y.shape[1])
    weights = to_user(laplacian.operator_weights) if X is None or options.scale == "diffusion" else None
    with given.home.active():
        factors = scale_factors(Y, found.eigenvalues, options.scale, weights, time)
        units = signs(Y, X=X, weights=weights) * factors
        return Y * units, units


def choice_of(found: SearchResult, eigenvalues: np.ndarray, bandwidth: float | None) -> dict[str, Any]:
    """Return what a result holds that is not one row per point, by name, but for ``diagnostics``."""
    order = ranked(found.subsets, found.scores, eigenvalues, found.zeta)
    losses = found.scores - found.zeta * penalties(found.subsets, eigenvalues)
    own = {name: getattr(found, name) for name in ("subset", "search_order", "zeta", "zeta_interval", "path")}
    return own | {
        "eigenvalues": eigenvalues,
        "laplace_beltrami_eigenvalues": None if bandwidth is None else 4.0 / bandwidth**2 * eigenvalues,
        "regret_percentiles": found.percentiles,
        "ranking": Ranking(found.subsets[order], losses[order], found.scores[order]),
    }


def points_of(given: Inputs, used: np.ndarray, *, as_given: bool = False) -> Any:
    """Return the points that were used, as the user has them; in the metric of the run, or ``as_given``."""
    if (X := given.points if as_given else given.values.get("X")) is None:
        return None
    X = check_points(X)
    return X if len(used) == len(X) else X[given.home.asarray(used)]


def in_units(weights: np.ndarray, subset: tuple[int, ...], units: np.ndarray) -> np.ndarray:
    """Return the weights (m, s) in the units of the eigenvectors; a turned one has the unit of the chosen."""
    found = weights * np.abs(units[list(subset)]) / units[:, None]
    return found * np.sign(found[np.abs(weights).argmax(axis=0), range(len(subset))])


def diagnostics_of(
    laplacian: Any, embedding: Embedding, sigma: Array, volumes: Array, found: SearchResult
) -> dict[str, Any]:
    """Return how the result came about, as plain values: what is known on one machine and on a cluster."""
    return {
        **backend_of(sigma).describe(),
        "residuals": [float(r) for r in embedding.residuals],
        "gaps": [float(g) for g in embedding.gaps],
        "angles": [float(a) for a in embedding.angles],
        "solver": embedding.info,
        **laplacian.facts,
        **count_doubtful(sigma, volumes),
        "stray_coordinates": stray_coordinates(embedding.vectors),
        "regret_passed": found.passed,
        "sets_scored": found.details["sets_scored"],
        "search": found.details,
        "versions": versions(),
    }


def count_doubtful(singular_values: Array, volumes: Array) -> dict[str, Any]:
    """Return at how many points the set has lost rank, and at which share of them tangents are in doubt."""

    def counts(backend: Backend, sigma: Array, volumes: Array) -> tuple[Array, ...]:
        sigma, volumes = few_on_host(sigma), few_on_host(volumes)
        floored = volumes <= 0.5 * np.log(plain.FLOOR) + 1e-9  # the least score there is
        # of equal ones any mixture is a basis, and scores differ
        equal = (sigma[:, :-1] - sigma[:, 1:] <= 1e-6 * sigma[:, :1]).any(axis=1)
        return count_true(floored), count_true(equal)

    backend, n = backend_of(singular_values), len(singular_values)
    found = backend.sweep(counts, singular_values, volumes, bytes_per_row=100.0, stage="result", sums=2)
    floored, equal = (int(backend.to_host(count)) for count in found)
    return {"floored_points": floored, "degenerate_points": equal / n}


def conclude(selection: Selection, run: Run, automatic: dict[str, Any] | None, judgement: Judgement) -> Selection:
    """Warn about what is doubtful in the result, and record what is known at the end of the run."""
    log, about = run.log, selection.diagnostics
    log.keep(judgement.findings)
    reasons = [finding for finding in log.findings if finding.is_doubt]
    found = [] if automatic is None else warnings_for(reasons)
    found += graph_warnings(about, selection.subset, len(selection.points), run.options)
    if "X" in run.given.values and is_symmetric(run.given.points):
        text = "X is a symmetric matrix, as distances and affinities are, but its rows were taken as points"
        found.append(warning("X.symmetric", text, "if they are not, pass it as graph or kernel"))
    for finding in found:
        log.warn(finding)
    if selection.rotation is not None:
        Y, home = selection.coordinates, backend_of(selection.coordinates)
        with home.active():
            some = to_host(Y[home.asarray(spaced_rows(len(Y), LENGTHS))])  # the rest may lie on many machines
        lengths = np.linalg.norm(some, axis=0)
        log.keep(turns_said(to_host(selection.rotation) * lengths[:, None], selection.subset))
    answers = {name: answer._asdict() for name, answer in judgement.answers.items()}
    about.update(verdict=verdict_on(reasons), judgement=answers, lost=answers["rank"]["figure"])
    log.keep(run.backend.complaints())
    about.update(run.results(), automatic=automatic)
    return selection


def is_symmetric(X: Array) -> bool:
    """Return whether points are more likely a matrix of distances or affinities."""
    shape = getattr(X, "shape", None) or check_points(X).shape
    if shape[0] != shape[-1]:  # most points, of which no copy is made then
        return False
    X = check_points(X)
    rows = backend_of(X).asarray(spaced_rows(len(X), 200))
    some = X[rows]
    return bool(abs(some - X[:, rows].T).max() <= 1e-10 * abs(some).max())  # products round the two halves differently


def index_of(X: Any) -> Any:
    """Return the index of a data frame."""
    return getattr(X, "index", None) if hasattr(X, "columns") else None


def with_index(selection: Selection, labels: Any) -> Selection:
    """Return the result with the labels of its rows, such as the index of a data frame; plain numbering is none."""
    if labels is None:
        return selection
    labels = np.asarray(labels)
    if labels.ndim != 1 or np.array_equal(labels, np.arange(len(labels))):
        return selection
    labels = np.array(as_words(labels)) if labels.dtype.hasobject else labels  # no file of ours can hold objects
    return replace(selection, index=labels[to_host(selection.points)])
