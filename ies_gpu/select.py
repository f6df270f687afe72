"""``select_coordinates``: from points, or from any later stage, to the chosen coordinates."""

from __future__ import annotations

import os
from typing import Any, Literal, overload

from .backend.array import Array
from .keywords import answers
from .parameters.automatic import PARAMETERS
from .results.assembly import RESULT, labelled, labels_of, told
from .results.parts import each_part
from .results.selection import Selection
from .run.inputs import Inputs
from .run.options import Options, is_each
from .run.progress import Progress
from .run.stage import Run
from .run.stages.eigenvectors import EIGENVECTORS
from .run.stages.graph import GRAPH, LAPLACIAN
from .run.stages.search import SEARCH
from .run.stages.tangents import TANGENTS

STAGES = (PARAMETERS, GRAPH, LAPLACIAN, EIGENVECTORS, TANGENTS, SEARCH)  # that a checkpoint saves


@overload
def select_coordinates(
    X: Array = ...,
    *,
    graph: Array = ...,
    kernel: Array = ...,
    laplacian: Any = ...,
    coordinates: Array = ...,
    eigenvalues: Array = ...,
    intrinsic_dim: int | str = ...,
    subset_size: int | str = ...,
    bandwidth: float | str | None = ...,
    n_neighbors: int | None = ...,
    radius: float | None = ...,
    self_loops: bool = ...,
    metric: str = ...,
    alpha: float = ...,
    n_components: int = ...,
    zeta: float | str = ...,
    percentile: float = ...,
    search: str = ...,
    scale: str = ...,
    diffusion_time: float = ...,
    components: Literal["each"],
    device: str = ...,
    dtype: str = ...,
    memory_limit: int | None = ...,
    n_threads: int | None = ...,
    random_state: int = ...,
    tol: float = ...,
    keep_bases: bool | None = ...,
    checkpoint: str | os.PathLike[str] | None = ...,
    resume: bool = ...,
    progress: Progress | bool | None = ...,
    client: Any = ...,
) -> list[Selection]: ...


@overload
def select_coordinates(
    X: Array = ...,
    *,
    graph: Array = ...,
    kernel: Array = ...,
    laplacian: Any = ...,
    coordinates: Array = ...,
    eigenvalues: Array = ...,
    intrinsic_dim: int | str = ...,
    subset_size: int | str = ...,
    bandwidth: float | str | None = ...,
    n_neighbors: int | None = ...,
    radius: float | None = ...,
    self_loops: bool = ...,
    metric: str = ...,
    alpha: float = ...,
    n_components: int = ...,
    zeta: float | str = ...,
    percentile: float = ...,
    search: str = ...,
    scale: str = ...,
    diffusion_time: float = ...,
    components: Literal["auto", "raise", "most", "largest"] = ...,
    device: str = ...,
    dtype: str = ...,
    memory_limit: int | None = ...,
    n_threads: int | None = ...,
    random_state: int = ...,
    tol: float = ...,
    keep_bases: bool | None = ...,
    checkpoint: str | os.PathLike[str] | None = ...,
    resume: bool = ...,
    progress: Progress | bool | None = ...,
    client: Any = ...,
) -> Selection: ...


@answers
def select_coordinates(
    X: Array = None,
    *,
    graph: Array = None,
    kernel: Array = None,
    laplacian: Any = None,
    coordinates: Array = None,
    eigenvalues: Array = None,
    intrinsic_dim: int | str = "auto",
    subset_size: int | str = "auto",
    bandwidth: float | str | None = "auto",
    n_neighbors: int | None = None,
    radius: float | None = None,
    self_loops: bool = True,
    metric: str = "euclidean",
    alpha: float = 1.0,
    n_components: int = 20,
    zeta: float | str = "auto",
    percentile: float = 75,
    search: str = "exhaustive",
    scale: str = "unit",
    diffusion_time: float = 1.0,
    components: str = "auto",
    device: str = "auto",
    dtype: str = "float64",
    memory_limit: int | None = None,
    n_threads: int | None = None,
    random_state: Any = 0,
    tol: float = 1e-8,
    keep_bases: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress | bool | None = None,
    client: Any = None,
) -> Selection | list[Selection]:
    """Choose the few eigenvectors that together give a smooth map of full rank and vary slowest.

    The slowest eigenvectors of a Laplacian are often functions of each other: on a long strip the first six may only
    say how far along the strip a point is. This function runs the whole pipeline of Chen and Meila [1]_: neighbour
    graph, renormalised Laplacian, diffusion map, tangent bases, and the search for the set S of ``subset_size``
    coordinates, the first among them, that maximises ``R(S) - zeta * sum of the eigenvalues of S``. ``R(S)`` is 0 for
    coordinates that are independent at every point and very negative for a set that loses rank.

    Pass the points, or start later from your own graph, kernel or eigenvectors: exactly one of ``X``, ``graph``,
    ``kernel`` and ``laplacian`` is required. If you know ``intrinsic_dim``, ``subset_size`` and ``bandwidth``, pass
    them: the run is several times faster.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), optional
        The points, one row per point: a NumPy or CuPy array, a data frame, or anything that speaks DLPack. Arrays on a
        GPU are used where they are.
    graph : sparse matrix or ndarray of shape (n_samples, n_samples), optional
        Distances between neighbours, symmetric. Infinity in a dense matrix means "not neighbours".
    kernel : sparse matrix or ndarray of shape (n_samples, n_samples), optional
        Symmetric affinities, none of them negative.
    laplacian : Laplacian or sparse matrix of shape (n_samples, n_samples), optional
        A renormalised Laplacian from :func:`graph_laplacian`, or a sparse ``I - P``. Needs ``coordinates`` and
        ``eigenvalues``.
    coordinates : ndarray of shape (n_samples, n_components), optional
        The eigenvectors of ``laplacian``, without the constant one, as :func:`diffusion_map` returns them.
    eigenvalues : ndarray of shape (n_components,), optional
        The eigenvalues of ``laplacian``, ascending.
    intrinsic_dim : int or "auto", default="auto"
        The dimension d of the manifold. "auto" estimates it from ``X``; a graph, kernel or Laplacian needs a number.
    subset_size : int or "auto", default="auto"
        How many coordinates to choose, at least ``intrinsic_dim``. "auto" adds coordinates while each explains enough
        of the variance of ``X``; a graph, kernel or Laplacian needs a number.
    bandwidth : float, "auto", "fixed" or "local", default="auto"
        The length eps in the Gaussian kernel ``exp(-distance^2 / eps^2)``. "fixed" tries several on ``X`` and takes the
        one whose chosen coordinates explain ``X`` best. "local" follows the density: points with distant neighbours get
        a longer one [2]_. "auto" is "fixed", or "local" where the density is uneven and that explains more;
        ``diagnostics["automatic"]`` shows what was compared. A graph needs a number; a kernel or Laplacian needs none.
    n_neighbors : int, optional
        Make the graph of this many nearest neighbours of each point instead of all within the radius; two points are
        neighbours if either is among the nearest of the other. The bandwidth is then "local" unless you pass a number.
    radius : float, optional
        Points no further apart than this are neighbours, by default ``3 * bandwidth``. A sparse graph is used as given
        unless you pass a radius; a dense one, which has a distance for every pair, is cut at the default too.
    self_loops : bool, default=True
        Whether each point is its own neighbour, ``K_ii = 1``, as in the paper. With noise in many dimensions a point
        can outweigh all its neighbours, and single points get coordinates of their own; False prevents that.
    metric : {"euclidean", "cosine", "correlation"}, default="euclidean"
        How distances between the rows of ``X`` are measured. "cosine" and "correlation" are chords between rows of unit
        length, ``sqrt(2 - 2 cos)``, and as fast as "euclidean". For other distances, pass ``graph``, for example from
        ``sklearn.neighbors.radius_neighbors_graph(X, radius, mode="distance", metric="manhattan")``.
    alpha : float, default=1.0
        How strongly the sampling density is corrected for, from 0 to 1: 1 as in the paper, so that only the shape
        counts; 1/2 for the process whose density the points have (Fokker-Planck); 0 for the plain random walk on the
        graph, which is slow to leave dense regions. It changes eigenvectors and eigenvalues, and so the choice.
    n_components : int, default=20
        How many eigenvectors to choose from.
    zeta : float or "auto", default="auto"
        The weight of the smoothness penalty. "auto" lowers it from infinity to the first set that passes the
        leave-one-out regret test, and takes the middle of the range on which that set is the best.
    percentile : float, default=75
        The percentile of the regret that must not be positive for "auto" to accept a set.
    search : {"exhaustive", "greedy", "submodular", "branch_and_bound"}, default="exhaustive"
        Score every set; the paper's greedy search; a local search for large ``n_components`` and ``subset_size``; or an
        exact search that skips sets which provably cannot win. ``diagnostics["search"]`` says what was guaranteed.
    scale : {"unit", "rms", "diffusion"}, default="unit"
        How the coordinates are scaled: to Euclidean length 1, as in the paper; to root mean square 1, which suits most
        regressors and plots; or to lengths ``(1 - lambda_k)^t``, so that distances in all coordinates are the
        diffusion distances at time t. It changes nothing but ``coordinates`` and ``embedding``.
    diffusion_time : float, default=1.0
        The time t of ``scale="diffusion"``: the larger it is, the shorter the fast coordinates become.
    components : {"auto", "raise", "most", "largest", "each"}, default="auto"
        What to do with a disconnected graph: raise an error, continue with its largest part if that holds at least 95 %
        of the points, or 90 % where all others are scattered ("most"), or continue in any case ("largest"). A warning
        names the points that are left out. "auto" is "most" while the bandwidth is being found, and "raise" with a
        given one. "each" makes one map per part and returns a list.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default="auto"
        Where to compute. "auto" uses CUDA if it works and the CPU otherwise.
    dtype : {"float64", "mixed", "float32"}, default="float64"
        "mixed" stores the graph in float32 and computes in float64, which takes two thirds of the memory. "float32"
        also computes tangent bases and scores in float32. The eigensolver and all sums always use float64.
    memory_limit : int, optional
        How many bytes the run may use, on top of what the process holds at the start and the libraries take (some 220
        MB); by default half of the memory that is free. Where the graph does not fit, slower ways are announced by a
        warning; ``diagnostics["storage"]`` says what was done.
    n_threads : int, optional
        How many CPU threads to use, by default all that the process may.
    random_state : int, RandomState, Generator or None, default=0
        The seed for the eigensolver's start vector, for the samples behind "auto", and for the random starts of the
        submodular search. The signs of the coordinates do not depend on it; see Notes.
    tol : float, default=1e-8
        The largest residual that an eigenpair may have.
    keep_bases : bool, optional
        Whether to keep the tangent bases, which :meth:`Selection.score` needs. By default they are kept up to 512 MB,
        and with ``client`` not at all.
    checkpoint : str or path-like, optional
        A local folder in which to save each finished stage. A folder that already holds stages is an error unless
        ``resume`` is True.
    resume : bool, default=False
        Continue from the stages in ``checkpoint``; the result is the same to the bit. Damaged stages and stages of a
        different job are recomputed with a warning; an empty folder starts a new job.
    progress : bool or callable, optional
        True shows a bar per stage, in a terminal or a notebook, and says if kernels must be compiled first. A function
        is called as ``progress(stage, done, total)``; ``total`` is 0 when it is not known.
    client : dask.distributed.Client, optional
        Compute on the workers of a Dask cluster, for points that outgrow one machine. ``X`` is then an array, a Dask
        array, or the path of an ``.npy`` or ``.zarr`` file that all workers can read; from the last two, the arrays of
        the result are Dask arrays. Needs ``intrinsic_dim``, ``subset_size`` and ``bandwidth`` as numbers, and searches
        exhaustively. The folder ``checkpoint`` must be one that all workers see.

    Returns
    -------
    Selection
        The chosen set with its coordinates, the regularization path, the ranking of other sets, and diagnostics. Its
        arrays are on the device of the input, one row per point. With ``components="each"``, a list of one such result
        per part, the largest first; ``points`` has the rows of its points.

    Raises
    ------
    ValueError
        If an argument is out of range or arguments do not fit together. The message says what to change.
    TypeError
        If an argument has the wrong type.
    DisconnectedGraphError
        If the graph falls into parts and ``components="raise"``. The message gives their sizes and a bandwidth that
        connects them.
    DeviceError
        If you asked for a device that cannot be used.
    ClusterError
        If the workers behind ``client`` cannot run the job.

    Warns
    -----
    IESWarning
        If the result may be wrong, for example because no set passes the regret. What was found is
        also in ``selection.findings``.

    See Also
    --------
    selection_stability : How sure the choice is, from repeated runs.
    estimate_resources : The memory and time that a run will need.
    IndependentCoordinates : The same as a scikit-learn transformer.

    Notes
    -----
    Eigenvectors have no sign of their own, so a rule chooses one. It looks at these numbers in order: the third moment
    of the coordinate, its correlation with the squared distance from the mean of ``X``, and its correlation with each
    column of ``X``. The first that is at least four standard errors from zero is made positive. If none is that clear,
    the clearest decides, and another sample may decide differently. Neither the seed nor the order of the rows matters.
    Eigenvectors that share an eigenvalue, as on a circle, can also rotate among themselves; no rule prevents that. With
    ``client``, signs follow ``random_state`` instead.

    References
    ----------
    .. [1] Y.-C. Chen and M. Meila, "Selecting the independent coordinates of manifolds with large aspect ratios",
           NeurIPS 2019. https://arxiv.org/abs/1907.01651
    .. [2] T. Berry and J. Harlim, "Variable bandwidth diffusion kernels", Applied and Computational Harmonic Analysis
           40, 2016.

    Examples
    --------
    On a long strip, the second coordinate that is needed is not the second eigenvector:

    >>> import ies_gpu
    >>> strip = ies_gpu.datasets.load("D1", n_samples=400)
    >>> selection = ies_gpu.select_coordinates(
    ...     strip.X, intrinsic_dim=2, subset_size=2, bandwidth=0.8, n_components=10
    ... )
    >>> selection.names
    ('phi1', 'phi7')
    >>> selection.subset
    (0, 6)
    >>> selection.embedding.shape
    (400, 2)

    Start from a kernel of your own:

    >>> graph = ies_gpu.knn_graph(strip.X, n_neighbors=40)
    >>> kernel = ies_gpu.gaussian_kernel(graph, bandwidth=0.8)
    >>> selection = ies_gpu.select_coordinates(kernel=kernel, intrinsic_dim=2, subset_size=2, n_components=10)
    >>> len(selection.subset)
    2
    """
    if is_each(components):
        parts = each_part(select_coordinates, locals())
        return [labelled(part, labels_of(X)) for part in parts]
    given = Inputs.of(
        X=X, graph=graph, kernel=kernel, laplacian=laplacian, coordinates=coordinates, eigenvalues=eigenvalues
    )
    options = Options(
        entry=given.entry,
        intrinsic_dim=intrinsic_dim,
        subset_size=subset_size,
        bandwidth=bandwidth,
        n_neighbors=n_neighbors,
        radius=radius,
        self_loops=self_loops,
        metric=metric,
        alpha=alpha,
        n_components=given.n_components(n_components),
        zeta=zeta,
        percentile=percentile,
        search=search,
        scale=scale,
        diffusion_time=diffusion_time,
        components=components,
        device=device,
        dtype=dtype,
        memory_limit=memory_limit,
        n_threads=n_threads,
        random_state=random_state,
        tol=tol,
        keep_bases=keep_bases,
        checkpoint=checkpoint,
        resume=resume,
    )
    if client is not None:
        from .cluster.pipeline import select_on_cluster

        return select_on_cluster(given, client, options, progress)
    given, report = given.in_metric(options.metric), None
    with Run(options, given, progress, STAGES) as run:
        if options.automatic:
            settled, report, stages = run.stage(PARAMETERS, given)
            run.go_on_with(settled, stages)
        graph = run.stage(GRAPH, given)
        matrix = run.later(LAPLACIAN, given, graph)
        embedding = graph.embedding or run.stage(EIGENVECTORS, graph, matrix)
        tangents = run.stage(TANGENTS, matrix, embedding)
        graph = graph._replace(laplacian=None)
        del matrix  # it has done its work
        found = run.stage(SEARCH, tangents, embedding)
        selection = run.stage(RESULT, graph, embedding, tangents, found)
    return labelled(told(selection, run, report), labels_of(X))
