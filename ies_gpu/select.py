"""``select_coordinates``: from points, or from any later stage, to the chosen coordinates."""

from __future__ import annotations

import os
from typing import Any

from .parameters.automatic import PARAMETERS
from .results.assembly import RESULT, told
from .results.selection import Selection
from .run.graph import GRAPH, LAPLACIAN
from .run.inputs import Inputs
from .run.log import Progress
from .run.options import Options
from .run.stage import Run
from .run.stages import EIGENVECTORS, SEARCH, TANGENTS

STAGES = (PARAMETERS, GRAPH, LAPLACIAN, EIGENVECTORS, TANGENTS, SEARCH)  # that a checkpoint saves


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
    components: str = "auto",
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
    components : {"auto", "raise", "most", "largest"}
        What to do when the graph is disconnected: raise an error, go on with the largest part if it holds at least 95 %
        of the points ("most"), or whatever it holds ("largest"); points that are left out are named in a warning.
        "auto" is "most" while the bandwidth is found, and "raise" with a given one.
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
    given = Inputs.of(
        X=X, graph=graph, kernel=kernel, laplacian=laplacian, coordinates=coordinates, eigenvalues=eigenvalues
    )
    options = Options(
        entry=given.entry,
        intrinsic_dim=intrinsic_dim,
        subset_size=subset_size,
        bandwidth=bandwidth,
        radius=radius,
        self_loops=self_loops,
        n_components=given.n_components(n_components),
        zeta=zeta,
        percentile=percentile,
        search=search,
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
    report = None
    with Run(options, given, progress, STAGES) as run:
        if options.automatic:
            settled, report, stages = run.stage(PARAMETERS, given)
            run.go_on_with(settled, stages)
        graph = run.stage(GRAPH, given)
        matrix = run.later(LAPLACIAN, given, graph)
        embedding = graph.embedding or run.stage(EIGENVECTORS, graph, matrix)
        tangents = run.stage(TANGENTS, matrix, embedding)
        found = run.stage(SEARCH, tangents, embedding)
        selection = run.stage(RESULT, graph, embedding, tangents, found)
    return told(selection, run, report)
