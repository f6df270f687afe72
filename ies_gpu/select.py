"""``select_coordinates``: from points, or any later stage, to the chosen coordinates, of all points or each part."""

import os
from dataclasses import replace
from typing import Any

import numpy as np

from .backend import backend_of
from .backend.array import Array
from .findings import DisconnectedGraphError, Finding, first_few, listen, option, refusal, tell, warning
from .options import DEFAULTS, Options, documented, explain_keywords
from .parameters.judgement import judge
from .results.assembly import assemble, conclude, index_of, points_of, with_index
from .results.selection import Selection
from .run.run import Inputs, Progress, Run, choose, find_turn, fit_input
from .validation import check_array, check_integer, check_points

Told = tuple[Selection, list[Finding]]  # a result, and what is said of it


@explain_keywords
@documented
def select_coordinates(
    X: Array = None, *, graph: Array = None, kernel: Array = None, laplacian: Any = None, coordinates: Array = None,
    eigenvalues: Array = None, intrinsic_dim: int | str = "auto", subset_size: int | str = "auto",
    bandwidth: float | str | None = "auto", n_neighbors: int | None = None, radius: float | None = None,
    self_loops: bool = True, metric: str = "euclidean", alpha: float = 1.0, n_components: int = 20,
    zeta: float | str = "auto", percentile: float = 75, search: str = "exhaustive", untangle: bool = True,
    scale: str = "rms", diffusion_time: float = 1.0, disconnected: str = "auto", device: str = "auto",
    dtype: str = "float64", memory_limit: int | None = None, n_threads: int | None = None, random_state: Any = 0,
    tol: float = 1e-8, keep_bases: bool | None = None, checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False, progress: Progress | bool | None = None, client: Any = None,
) -> Selection:  # fmt: skip
    """Choose the few eigenvectors that together give a smooth map of full rank and vary slowest.

    The whole pipeline of Chen and Meila [1]_, from the neighbour graph to the search for the set S of ``subset_size``
    coordinates, the first among them, that maximises ``R(S) - zeta * sum of the eigenvalues of S``. ``R(S)`` is 0 for
    coordinates that are independent at every point and very negative for a set that loses rank. If you know
    ``intrinsic_dim``, ``subset_size`` and ``bandwidth``, pass them: the run is several times faster.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), optional
        The points, one per row: a NumPy or CuPy array, a data frame, or a tensor. Exactly one of ``X``, ``graph``,
        ``kernel`` and ``laplacian`` is required.
    graph : sparse matrix or ndarray of shape (n_samples, n_samples), optional
        Distances between neighbours, symmetric. Infinity in a dense matrix means "not neighbours".
    kernel : sparse matrix or ndarray of shape (n_samples, n_samples), optional
        Symmetric affinities, none of them negative.
    laplacian : Laplacian or sparse matrix of shape (n_samples, n_samples), optional
        A renormalised Laplacian from :func:`graph_laplacian`, or a sparse ``I - P``.
    coordinates, eigenvalues : ndarray, optional
        The eigenvectors of ``laplacian`` without the constant one, (n_samples, n_components), and their eigenvalues,
        ascending, as :func:`diffusion_map` returns them; only with ``laplacian``.
    {intrinsic_dim, subset_size, bandwidth, n_neighbors, radius, self_loops, metric, alpha, n_components, zeta,
    percentile, search, untangle, scale, diffusion_time, disconnected, device, dtype, memory_limit, n_threads,
    random_state, tol, keep_bases, checkpoint, resume}
    progress : bool or callable, optional
        True shows a bar per stage and says if kernels must be compiled first. A function is called as
        ``progress(stage, done, total)``; ``total`` is 0 when it is not known.
    client : dask.distributed.Client, optional
        Compute on the workers of a Dask cluster, with ``intrinsic_dim``, ``subset_size`` and ``bandwidth`` as numbers.
        ``X`` is then an array, a Dask array, or the path of an ``.npy`` file that all workers can read; from the last
        two, the arrays of the result are Dask arrays.

    Returns
    -------
    Selection
        The chosen set with its coordinates, the path, the ranking of other sets, and diagnostics. Its arrays are on the
        device of the input, one row per point; ``findings`` has what it warned of.

    Raises
    ------
    ValueError, TypeError, DeviceError, ClusterError
        If an argument is out of range or of the wrong type, or names a device or workers that cannot be used.
    DisconnectedGraphError
        If the graph falls into parts and ``disconnected="raise"``, with a bandwidth that connects them.

    Notes
    -----
    Eigenvectors have no sign of their own. Of these numbers the first that is at least four standard errors from zero,
    or else the clearest, is made positive: the third moment of the coordinate, its correlation with the squared
    distance from the mean of ``X``, and with each column of ``X``. Neither the seed nor the order of the rows matters,
    except with ``client``. Eigenvectors that share an eigenvalue, as on a circle, can also rotate among themselves.

    References
    ----------
    .. [1] Y.-C. Chen and M. Meila, "Selecting the independent coordinates of manifolds with large aspect ratios",
           NeurIPS 2019. https://arxiv.org/abs/1907.01651
    .. [2] T. Berry and J. Harlim, "Variable bandwidth diffusion kernels", Applied and Computational Harmonic Analysis
           40, 2016.

    Examples
    --------
    On a long strip, the second coordinate that is needed is not the second eigenvector:

    >>> from ies_gpu import datasets, select_coordinates
    >>> strip = datasets.load("D1", n_samples=400)
    >>> selection = select_coordinates(strip.X, intrinsic_dim=2, subset_size=2, bandwidth=1.2)
    >>> selection.names, selection.embedding.shape
    (('phi1', 'phi7'), (400, 2))
    """
    given = Inputs.of(
        X=X, graph=graph, kernel=kernel, laplacian=laplacian, coordinates=coordinates, eigenvalues=eigenvalues
    )
    options = Options(
        entry=given.entry, intrinsic_dim=intrinsic_dim, subset_size=subset_size, bandwidth=bandwidth,
        n_neighbors=n_neighbors, radius=radius, self_loops=self_loops, metric=metric, alpha=alpha,
        n_components=given.n_components(n_components), zeta=zeta, percentile=percentile, search=search,
        untangle=untangle, scale=scale, diffusion_time=diffusion_time, disconnected=disconnected, device=device,
        dtype=dtype, memory_limit=memory_limit, n_threads=n_threads, random_state=random_state, tol=tol,
        keep_bases=keep_bases, checkpoint=checkpoint, resume=resume,
    )  # fmt: skip
    if client is not None:
        from .cluster.run import ClusterRun

        opened: Run = ClusterRun(client, options, given, progress)
    else:
        opened = Run(options, given.to_euclidean(options.metric), progress)
    with opened as run:  # run(step, ...) calls a step, and times, retries, audits and saves it
        selection = run_steps(run, run.given, run.options)
    return with_index(selection, index_of(X))


def run_steps(run: Run, given: Inputs, asked: Options) -> Selection:
    fit: Any = None
    found: Any = None
    options, report = asked, None
    laplacian = None  # with its matrix, where there are no points to judge a map by
    if asked.automatic:
        from .parameters.automatic import find_parameters

        options, report, fit, found = run(find_parameters, given, asked)
        run.options = options
    # the functions that take a run are no steps: they call them by it, as the options ask
    if fit is None or run.checkpoint is not None:  # which saves the steps one by one
        fit, laplacian = fit_input(given, options, run)
        found = choose(fit.tangents, fit.embedding, options, run)
    n, rows = len(fit.embedding.vectors), fit.laplacian.rows
    # where all lie on a cluster, in a BlockLaplacian without rows, some of the points are judged
    sample, X = fit.laplacian.some_rows(fit) if rows is None else (fit, points_of(given, rows.used))
    weights = find_turn(sample, found, X, laplacian, n, run) if options.untangle else None
    is_given = "intrinsic_dim" not in asked.automatic
    judgement = run(judge, sample, found, X, laplacian, n, has_given_dimension=is_given, weights=weights)
    del laplacian
    return conclude(run(assemble, given, options, fit, found, weights), run, report, judgement)


def select_each_part(
    X: Array = None, *, graph: Array = None, kernel: Array = None, progress: Progress | bool | None = None,
    **options: Any,
) -> list[Selection]:  # fmt: skip
    """Choose coordinates for each part of a disconnected graph on its own.

    Parts that are too small for a map are named in a warning.

    Parameters
    ----------
    X, graph, kernel : array-like or sparse matrix, optional
        The points, the distances between neighbours, or the affinities, as in :func:`select_coordinates`; one of them.
    progress : bool or callable, optional
        As in :func:`select_coordinates`.
    **options : dict
        Options of :func:`select_coordinates`; ``disconnected``, ``checkpoint``, ``resume`` and ``client`` do not apply.

    Returns
    -------
    list of Selection
        One result per part, the largest first; ``points`` has the rows of its points.

    Examples
    --------
    >>> import numpy as np
    >>> from ies_gpu import datasets, select_each_part
    >>> strip = datasets.load("D1", n_samples=400).X
    >>> two = np.vstack([strip, strip[:300] + 100])
    >>> [len(part.points) for part in select_each_part(two, intrinsic_dim=2, subset_size=2, bandwidth=1.2)]
    [400, 300]
    """
    for name in ("disconnected", "checkpoint", "resume", "client"):
        if options.get(name) not in (None, False):
            text = f"{option(name)} does not work with {option('select_each_part')}, which makes several maps"
            raise refusal(f"{name}.each", text, "leave it out")
    m = check_integer("n_components", options.setdefault("n_components", DEFAULTS["n_components"]), low=1)
    given = Inputs.of(X=X, graph=graph, kernel=kernel)
    value = check_points(given.value) if given.entry == "X" else given.value
    value = value.tocsr() if hasattr(value, "tocsr") else check_array(given.entry, value)
    done, refused = map_parts(value, given.entry, options | {"progress": progress}, fewest=m + 2)
    done.sort(key=lambda pair: -len(pair[0].points))
    for number, (part, said) in enumerate(done, 1):
        part.diagnostics["part"] = {"number": number, "of": len(done)}
        for finding in said:
            tell(replace(finding, text=f"part {number} of {len(done)}: {finding.text}"))
    parts = [with_index(part, index_of(X)) for part, _ in done]
    say_left_out(value.shape[0], parts, m, refused)
    return parts


def map_parts(value: Array, entry: str, options: dict[str, Any], fewest: int) -> tuple[list[Told], list[str]]:
    """Return the result of each part, which may have parts again, with what is said of it; and why parts have none."""
    everything = np.arange(value.shape[0])
    done: list[Told] = []
    refused: list[str] = []
    waiting, backend = [(everything, "raise")], backend_of(value.data if hasattr(value, "tocsr") else value)
    while waiting:
        rows, way = waiting.pop()
        whole, chosen = rows is everything, backend.asarray(rows)
        part = value if whole else value[chosen] if entry == "X" else value[chosen][:, chosen]
        try:
            with listen() as said:
                found = select_coordinates(**{entry: part}, **options | {"disconnected": way})
        except DisconnectedGraphError as error:
            if not error.parts and way == "raise":  # many points without a neighbour: one part, then the rest
                waiting.append((rows, "largest"))
            elif not error.parts and whole:
                raise
            waiting += [(rows[part], "most") for part in error.parts if len(part) >= fewest]
            continue
        except ValueError as error:  # too few points to estimate anything from, or no shape; what was asked is sound
            if whole:
                raise
            refused.append(f"of one with {len(rows):,} points: {error}")
            continue
        stray = [int(rows[row]) for row in found.diagnostics["stray_points"]]
        found = replace(found, points=rows[found.points], diagnostics=found.diagnostics | {"stray_points": stray})
        # the rows left out are reported for all parts together
        done.append((found, [finding for finding in said if finding.code != "graph.left_out"]))
        if way == "largest" and len(rest := np.setdiff1d(rows, found.points)) >= fewest:
            waiting.append((rest, way))
    return done, refused


def say_left_out(n: int, parts: list[Selection], m: int, refused: list[str]) -> None:
    """Name the rows that are in no map, and why parts were refused; an error where there is no map."""
    if not parts and refused:
        raise refusal("graph.no_map", f"no part of the graph gives a map, {refused[0]}", kind=DisconnectedGraphError)
    if not parts:
        text = f"no part of the graph is large enough for {option('n_components', m)}"
        advice = f"raise {option('bandwidth')}, or lower {option('n_components')}"
        raise refusal("graph.small_part", text, advice, DisconnectedGraphError)
    why = f", or in parts without one ({refused[0]})" if refused else ""
    left = np.setdiff1d(np.arange(n), np.concatenate([part.points for part in parts]))
    if len(left):
        text = f"{len(left):,} {'row is' if len(left) == 1 else 'rows are'} in none of the {len(parts)} maps "
        text += f"({first_few(left)}): too far from the others, or in parts too small for a map with "
        tell(warning("graph.in_no_map", f"{text}{option('n_components', m)}{why}"))
