"""From points on shared storage to the chosen coordinates, with the points in blocks on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..backend import Backend, get_backend
from ..embedding.connectivity import disconnected, holds_enough, left_out, refuse_small_part
from ..embedding.diffusion import check_pairs
from ..errors import ClusterError
from ..findings import option, refusal
from ..parameters.verdict import doubts_of
from ..results.assembly import choice_of
from ..results.selection import Selection
from ..run.fingerprint import versions
from ..run.inputs import Inputs
from ..run.log import Log, Report
from ..run.options import Options
from ..run.progress import Progress
from . import blocks, matrix, returned
from .checks import check_source, facts_of_points
from .eigenpairs import eigenpairs
from .matrix import Graph
from .saved import Shelf
from .scores import coordinates_of, facts_of, searched, stray_among, tangent_blocks
from .source import Source
from .team import Team, item

BYTES_PER_POINT = 2_000  # of a block, with 60 neighbours and 20 coordinates
ON_CLUSTER = f"with {option('client')}"
SHARE = 10  # a block takes at most 1/SHARE of the memory that a worker's thread has


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
        options.check_shape(source.n, source.width)
        team.data = source.n * BYTES_PER_POINT
        returned.check_room(source, options)
    shelf = Shelf(team, options, source.chunks, log)
    try:
        # the small matrices of the client: on several threads BLAS takes many times as long for them
        with losses_told(options), get_backend("cpu", n_threads=1).active():
            return run_stages(team, source, options, log, shelf)
    finally:
        shelf.close()


@contextmanager
def losses_told(options: Options) -> Iterator[None]:
    """Say what was lost where Dask gives up, and how to go on."""
    from distributed import CancelledError, KilledWorker
    from distributed.comm import CommClosedError

    resume = option("resume", True)
    again = f"pass {resume}" if options.checkpoint else f"start it again with {option('checkpoint')} and {resume}"
    try:
        yield
    except KilledWorker as error:
        text = f"several workers died in the same task, probably out of memory ({error.args[0]})"
        advice = f"use more or larger workers, or {option('dtype', 'mixed')}, and {again}"
        raise refusal("cluster.workers_died", text, advice, ClusterError) from error
    except (CancelledError, CommClosedError) as error:
        text = f"the scheduler was lost ({type(error).__name__})"
        raise refusal("cluster.scheduler_lost", text, f"start a cluster and {again}", ClusterError) from error


def run_stages(team: Team, source: Source, options: Options, log: CountingLog, shelf: Shelf) -> Selection:
    """Graph, eigenvectors, tangents and search, each from the checkpoint where it is there."""
    client = team.client
    graph, known = shelf.get_graph() or computed_graph(team, source, options, log, shelf)
    source.chunks.clear()
    coordinates, pairs = mapped(team, graph, source.n, options, log, shelf)
    eigenvalues = pairs["eigenvalues"]
    saved = shelf.get_arrays("tangents", ("bases", "sigma"))
    if saved is not None:
        tangents = team.map(pair, *saved[0])
    else:
        with log.stage("tangents"):
            tangents = tangent_blocks(team, graph, coordinates, options)
            team.wait(tangents)
        shelf.put_arrays("tangents", ("bases", "sigma"), [team.map(item, tangents, k) for k in range(2)])
    with log.stage("search"):
        stray = stray_among(team, coordinates)
        found, table = searched(team, tangents, stray, eigenvalues, options)
        facts = known | facts_of(team, tangents, table) | {"stray_coordinates": stray, "stray_points": []}
    with log.stage("result"):
        arrays = returned.arrays(team, source, graph, coordinates, tangents, table, eigenvalues, options)
    workers = "1 worker" if len(client.nthreads()) == 1 else f"{len(client.nthreads())} workers"
    diagnostics = facts | {
        "device_reason": f"on {workers} of the Dask cluster at {client.scheduler.address}",
        **{name: pairs[name].tolist() for name in ("residuals", "gaps", "angles")},
        "solver": pairs["info"],
        "mean_degree": graph.nnz / graph.sizes.sum() - 1,
        "approximations": [],
        "regret_passed": found.passed,
        "sets_scored": len(found.subsets),
        "search": found.details,
        "audit": {},
        "versions": versions(),
        "automatic": None,
    }
    chosen = choice_of(found, eigenvalues, options.bandwidth)
    selection = Selection(**chosen, **arrays, diagnostics=diagnostics)
    for finding in doubts_of(diagnostics, found.subset, int(graph.sizes.sum()), options):
        log.warn(finding)
    diagnostics.update(log.results(), parameters=options.parameters, cluster=log.costs)
    diagnostics["cluster"] |= {"blocks": len(graph.sizes), "rows_exchanged": matrix.rows_exchanged(team, graph)}
    diagnostics.update(shelf.results())
    return selection


def computed_graph(
    team: Team, source: Source, options: Options, log: CountingLog, shelf: Shelf
) -> tuple[Graph, dict[str, Any]]:
    """The graph, saved, and what ``diagnostics`` says of it and its points."""
    with log.stage("checks"):
        check_source(team, source, options)
    with log.stage("order"):
        points = blocks.shared_out(team, source, block_count(team, source.n))
        team.wait(points)
        source.chunks.clear()
    found = connected_graph(team, points, options, log, source.n)
    shelf.put_graph(*found)
    return found


def mapped(
    team: Team, graph: Graph, n: int, options: Options, log: CountingLog, shelf: Shelf
) -> tuple[list[Any], dict[str, Any]]:
    """Coordinates by block, and what is known of them: eigenvalues, their accuracy, and how they were found."""
    saved = shelf.get_arrays("eigenvectors", ("coordinates",))
    if saved is not None:
        (coordinates,), known = saved
        return coordinates, known
    info: dict[str, Any] = {}
    with log.stage("eigenvectors") as report:
        values, V, accuracy = eigenpairs(team, graph, options.n_components + 1, options.tol, info, report)
        check_pairs(values, accuracy, options.tol, "the workers", log.warn)
        coordinates = coordinates_of(team, V, graph, n, options.random_state)
        team.wait(coordinates)
    known = {name: getattr(accuracy, name)[1:] for name in ("residuals", "gaps", "angles")}
    known |= {"eigenvalues": 1.0 - values[1:], "info": info}
    shelf.put_arrays("eigenvectors", ("coordinates",), [coordinates], **known)
    return coordinates, known


def pair(backend: Backend, first: Any, second: Any) -> tuple[Any, Any]:
    return first, second


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
        raise refusal("client.entry", f"{option('client')} works only with X, not with {options.entry}")
    if options.nearest:
        near = options.n_neighbors
        asked = option("bandwidth", options.bandwidth) if near is None else option("n_neighbors", near)
        advice = f"pass a number for {option('bandwidth')} instead, or use one machine"
        raise refusal("client.nearest", f"{asked} does not work {ON_CLUSTER}", advice)
    if options.automatic:
        name = options.automatic[0]
        text = f"{option(name, getattr(options, name))} does not work {ON_CLUSTER}"
        raise refusal("client.automatic", text, "find it on a sample of the points on one machine, and pass the number")
    if options.search != "exhaustive":
        text = f"{option('search', options.search)} does not work {ON_CLUSTER}"
        raise refusal("client.search", text, "use 'exhaustive'")
    for name in ("metric", "alpha"):
        value, usual = getattr(options, name), getattr(Options, name)
        if value != usual:
            text = f"{option(name, value)} does not work {ON_CLUSTER}, only {usual!r} does"
            raise refusal(f"client.{name}", text)
    limits = {name: getattr(options, name) for name in ("memory_limit", "n_threads")}
    given = [option(name, value) for name, value in limits.items() if value is not None]
    if given:
        does, it = ("does", "it") if len(given) == 1 else ("do", "them")
        text = f"{' and '.join(given)} {does} not work {ON_CLUSTER}"
        raise refusal("client.limits", text, f"set {it} when you start the workers")


def block_count(team: Team, n: int) -> int:
    """A power of two: at least one block per thread, and small enough that what comes and goes with it is, too."""
    threads, least = team.n_threads(), team.least_memory()
    if threads < 1:
        text = "the cluster has no workers"
        raise refusal("cluster.no_workers", text, "start some, or wait with client.wait_for_workers(1)", ClusterError)
    wanted = max(threads, n * BYTES_PER_POINT * SHARE // least)
    return 1 << (int(wanted) - 1).bit_length()


def connected_graph(team: Team, points: list[Any], options: Options, log: Log, n: int) -> tuple[Graph, dict[str, Any]]:
    """The transition matrix of the graph, or of its largest part, and what ``diagnostics`` says of both."""
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
        if not holds_enough(sizes, n, options.components):
            raise disconnected(sizes, each=False)
        refuse_small_part(int(sizes.max()), n, options.n_components)
        log.warn(left_out(len(sizes), int(sizes.max()), n))
        keep = [label == sizes.argmax() for label in labels]
        left = [i for i, own in enumerate(keep) if own.any()]
        team.settle(len(left))
        points = team.map(blocks.kept, [points[i] for i in left], [keep[i] for i in left])
    with log.stage("checks"):
        facts = facts_of_points(team, points, int(sizes.sum()), n)
    with log.stage("laplacian"):
        graph = matrix.transition_blocks(team, kernels)
        team.wait(graph.transitions)
        return graph, facts | {"graph_components": count}
