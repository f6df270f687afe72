"""From points on shared storage to the chosen coordinates, with the points in blocks on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..choice.criterion import penalties
from ..choice.search import SearchResult, ranked
from ..embedding.connectivity import FEWEST, disconnected
from ..errors import ClusterError, DisconnectedGraphError
from ..parameters.verdict import doubts_of
from ..results.selection import Ranking, Selection
from ..run.fingerprint import versions
from ..run.inputs import Inputs
from ..run.log import Log, Report
from ..run.options import Options
from ..run.progress import Progress
from . import blocks, matrix, returned
from .eigenpairs import eigenpairs
from .matrix import Graph
from .scores import coordinates_of, facts_of, searched, stray_among, tangent_blocks
from .source import Source
from .team import Team


def select_on_cluster(
    given: Inputs, client: Any, options: Options, progress: Progress | bool | None = None
) -> Selection:
    """What :func:`ies_gpu.select_coordinates` does with a Dask client."""
    check_options(options)
    team = Team(client, options.device)
    team.check_versions()
    log = CountingLog(team, progress)
    with log.stage("order"):
        source = Source(team, given.value)
        options.check_sizes(source.n)
        returned.check_room(source, options)
        points = blocks.shared_out(team, source, block_count(team))
        team.wait(points)
    graph, kept = connected_graph(team, points, options, log, source.n)
    del points
    info: dict[str, Any] = {}
    with log.stage("eigenvectors") as report:
        values, V, residuals = eigenpairs(team, graph, options.n_components + 1, options.tol, info, report)
        coordinates = coordinates_of(team, V, graph, source.n, options.random_state)
        eigenvalues = 1.0 - values[1:]
    with log.stage("tangents"):
        tangents = tangent_blocks(team, graph, coordinates, options)
        team.wait(tangents)
    with log.stage("search"):
        stray = stray_among(team, coordinates)
        found, table = searched(team, tangents, stray, eigenvalues, options)
        facts = facts_of(team, tangents, table) | {"stray_coordinates": stray, "stray_points": []}
    with log.stage("result"):
        arrays = returned.arrays(team, source, graph, coordinates, tangents, table, options)
    diagnostics = facts | {
        "device_reason": f"on {len(client.nthreads())} workers of the Dask cluster at {client.scheduler.address}",
        "residuals": residuals[1:].tolist(),
        "solver": info,
        "graph_components": kept,
        "mean_degree": graph.nnz / graph.sizes.sum() - 1,
        "approximations": [],
        "regret_passed": found.passed,
        "sets_scored": len(found.subsets),
        "search": found.details,
        "audit": {},
        "versions": versions(),
        "automatic": None,
    }
    selection = result(found, eigenvalues, arrays, options, diagnostics)
    for message in doubts_of(diagnostics, found.subset, int(graph.sizes.sum()), options):
        log.warn(message)
    diagnostics.update(log.results(), parameters=options.parameters, cluster=log.costs | {"blocks": len(graph.sizes)})
    return selection


class CountingLog(Log):
    """A log that also keeps what each stage asked of the cluster: tasks, rounds, bytes sent by workers."""

    def __init__(self, team: Team, progress: Progress | bool | None) -> None:
        super().__init__(progress)
        self.team = team
        self.costs: dict[str, dict[str, int]] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[Report]:
        before = self.team.tasks, self.team.rounds, self.team.bytes_sent()
        with super().stage(name) as report:
            yield report
        after = self.team.tasks, self.team.rounds, self.team.bytes_sent()
        own = self.costs.setdefault(name, dict.fromkeys(("tasks", "rounds", "bytes"), 0))
        for key, begin, end in zip(own, before, after, strict=True):
            own[key] += max(0, end - begin)  # a worker that was lost takes its count with it


def check_options(options: Options) -> None:
    """Refuse what a cluster run does not do."""
    if options.entry != "X":
        raise ValueError(f"client works only with X, not with {options.entry}")
    if options.automatic:
        raise ValueError(
            f"{options.automatic[0]}='auto' does not work with client; find it on a sample of the points on one "
            "machine, and pass the number"
        )
    if options.search != "exhaustive":
        raise ValueError(f"search={options.search!r} does not work with client; use 'exhaustive'")
    for name in ("metric", "alpha", "scale"):
        value, usual = getattr(options, name), getattr(Options, name)
        if value != usual:
            raise ValueError(f"{name}={value!r} does not work with client, only {usual!r} does")
    if options.checkpoint is not None:
        raise ValueError("checkpoint does not work with client; a lost worker costs time, not the result")
    if options.memory_limit is not None or options.n_threads is not None:
        raise ValueError("memory_limit and n_threads do not work with client; set them when you start the workers")


def block_count(team: Team) -> int:
    """A power of two, and at least one block per thread."""
    threads = team.n_threads()
    if threads < 1:
        raise ClusterError("the cluster has no workers; start some, or wait with client.wait_for_workers(1)")
    return 1 << (threads - 1).bit_length()


def connected_graph(team: Team, points: list[Any], options: Options, log: Log, n: int) -> tuple[Graph, int]:
    """The transition matrix of the graph, or of its largest part, and how many parts there were."""
    count = 1
    while True:
        with log.stage("graph"):
            kernels = matrix.kernel_blocks(
                team, points, options.radius, options.bandwidth, options.storage, options.self_loops
            )
            team.wait(kernels)
        with log.stage("components"):
            sizes, labels = matrix.parts_of_graph(team, kernels)
        if labels is None:
            break
        count = max(count, len(sizes))
        if sizes.max() < FEWEST[options.components] * n:
            raise DisconnectedGraphError(disconnected(sizes))
        log.warn(
            f"the graph has {len(sizes)} parts; continuing with the largest, {sizes.max():,} of {n:,} points. "
            "selection.points has the rows that are used"
        )
        keep = [label == sizes.argmax() for label in labels]
        left = [i for i, own in enumerate(keep) if own.any()]
        points = team.map(blocks.kept, [points[i] for i in left], [keep[i] for i in left])
    with log.stage("laplacian"):
        graph = matrix.transition_blocks(team, kernels)
        team.wait(graph.transitions)
        return graph, count


def result(
    found: SearchResult, eigenvalues: np.ndarray, arrays: dict[str, Any], options: Options, diagnostics: dict[str, Any]
) -> Selection:
    """The result, in the user's order of points."""
    order = ranked(found.subsets, found.scores, eigenvalues, found.zeta)
    losses = found.scores - found.zeta * penalties(found.subsets, eigenvalues)
    return Selection(
        subset=found.subset,
        search_order=found.search_order,
        zeta=found.zeta,
        zeta_interval=found.zeta_interval,
        eigenvalues=eigenvalues,
        laplace_beltrami_eigenvalues=4.0 / options.bandwidth**2 * eigenvalues,
        path=found.path,
        regret_percentiles=found.percentiles,
        ranking=Ranking(found.subsets[order], losses[order], found.scores[order]),
        diagnostics=diagnostics,
        **arrays,
    )
