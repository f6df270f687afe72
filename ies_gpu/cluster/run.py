"""A run on the workers of a Dask cluster: replaced are steps that need rows of other blocks, and the way back."""

from collections.abc import Callable
from operator import getitem
from typing import Any

import numpy as np

from ..backend import Backend, Do, call, report, step
from ..choice.criterion import log_volumes
from ..choice.rmetric import Tangents, tangent_spaces, tangents
from ..choice.search import SearchResult
from ..embedding.diffusion import Embedding, check_pairs, diffusion_map, start_vector
from ..embedding.laplacian import Laplacian
from ..embedding.parts import holds_enough, in_parts, refuse_small_part, tell_left_out
from ..findings import ClusterError, one_line, option, refusal
from ..options import Options, check_on_cluster
from ..results.assembly import assemble, choice_of, diagnostics_of, in_units
from ..results.selection import Selection
from ..run.run import Fit, Inputs, Log, Progress, Run, laplacian_of
from . import blocks
from .arrays import Pieces, TeamBackend
from .blocks import BlockLaplacian, Rows, Source, collect
from .levels import eigenpairs, over_root
from .team import Team, calls, item, joined

NAMES = ("coordinates", "regrets", "log_volumes", "singular_values", "bases")
VOLUMES = NAMES.index("log_volumes")


class ClusterRun(Run):
    """A run on the workers of a client."""

    def __init__(self, client: Any, options: Options, given: Inputs, progress: Progress | bool | None = None) -> None:
        check_on_cluster(options)
        self.team = Team(client, options.device)
        self.team.check_versions()
        log = Log(progress)
        with log.stage("order"):
            source = Source(self.team, given.value, options)
        super().__init__(options, Inputs({"source": source}), log=log, backend=TeamBackend(self.team))

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return super().__call__(REPLACED.get(function, function), *args, **kwargs)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        super().__exit__(kind, error, trace)
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        if isinstance(error, KilledWorker | CancelledError | CommClosedError):
            text = f"Dask gave up: {one_line(error)}"
            advice = f"use more or larger workers, or {option('dtype', 'mixed')}, and start it again"
            raise refusal("cluster.lost", text, advice, ClusterError) from error

    def results(self) -> dict[str, Any]:
        costs = {"blocks": len(self.team.near), "tasks": self.team.tasks, "rounds": self.team.rounds}
        return super().results() | {"cluster": costs}

    def _agrees(self, *_: Any) -> bool:
        return True  # nothing is sampled from pieces


@step("laplacian", composite=True)
def laplacian_in_blocks(given: Inputs, options: Options, do: Do = call) -> BlockLaplacian:
    """Return the Laplacian of the points, or of the largest part of their graph: rows of other blocks are near."""
    source = given.values["source"]
    team, n, count = source.team, source.n, 1
    points = do(blocks.partition, team, source, options)
    while True:
        kernels = do(blocks.kernel_blocks, team, points, options)
        sizes, labels = do(blocks.parts_of_graph, team, kernels)
        if labels is None:
            break
        count = max(count, len(sizes))
        if not holds_enough(sizes, n, options.disconnected):
            raise in_parts(sizes, each=False)
        refuse_small_part(int(sizes.max()), n, options.n_components)
        tell_left_out(len(sizes), int(sizes.max()), n)
        keep = [label == sizes.argmax() for label in labels]
        left = [i for i, own in enumerate(keep) if own.any()]
        team.assign_workers(len(left))
        some, masks = [points[i] for i in left], [keep[i] for i in left]
        kept = calls(lambda at, own, keep: (own.rows[keep], own.X[at.asarray(np.flatnonzero(keep))]), some, masks)
        points = team.map(collect, [(own,) for own in kept])
    facts = {"graph_components": count, "approximations": []}
    known, sample = do(blocks.facts_of_points, team, points, source.width, int(sizes.sum()), n)
    return do(blocks.transition_blocks, team, kernels, n, options.bandwidth, facts | known, sample)


@step("eigenvectors")
def map_in_blocks(laplacian: BlockLaplacian, *, n_components: int, tol: float, random_state: int) -> Embedding:
    """Return the diffusion map: products with S exchange the rows of neighbours."""
    team, info = laplacian.team, dict[str, Any]()
    values, V, accuracy = eigenpairs(laplacian, n_components + 1, tol, info, report)
    check_pairs(values, accuracy, tol, "the workers")
    phi = team.map(over_root, V[:, 1:].parts, laplacian.roots)

    def length_and_sign(backend: Backend, phi: Any, P: Rows, *start: int) -> tuple[np.ndarray, np.ndarray]:
        along = backend.asarray(start_vector(*start)[P.rows]) @ phi  # which decides on signs
        return backend.to_host((phi * phi).sum(axis=0)), backend.to_host(along)

    start = laplacian.n_input, random_state
    squares, along = team.total(team.map(length_and_sign, phi, laplacian.transitions, *start))
    factors = np.where(along < 0, -1.0, 1.0) / np.sqrt(squares)
    vectors = (Pieces(team, phi, (len(V), n_components)) * factors).astype("float64")
    team.wait(vectors.parts)
    few = {name: getattr(accuracy, name)[1:] for name in ("residuals", "gaps", "angles")}
    return Embedding(vectors, 1.0 - values[1:], **few, info=info)


@step("tangents")
def tangents_in_blocks(laplacian: BlockLaplacian, embedding: Embedding, *, intrinsic_dim: int, dtype: str) -> Tangents:
    """Return the tangent spaces: those of a block take the coordinates of its neighbours in others."""
    team, Y, d, bandwidth = laplacian.team, embedding.vectors, intrinsic_dim, laplacian.bandwidth

    def tangent_rows(at: Backend, P: Rows, own: Any, others: tuple[Any, ...]) -> Any:
        return tangents(joined(at, own, others).astype(dtype, copy=False), Laplacian(P.matrix, None, bandwidth), d, at)

    found = team.map(tangent_rows, laplacian.transitions, Y.parts, team.exchanged(Y.parts))
    team.wait(found)
    bases, sigma = (calls(item, found, k) for k in range(2))
    return Tangents(Pieces(team, bases, (*Y.shape, d)), Pieces(team, sigma, (len(Y), d)))


@step("result")
def assemble_in_blocks(given: Inputs, options: Options, fit: Fit, found: SearchResult, weights: Any) -> Selection:
    """Return the result with its arrays where the points are: at the client, or in the chunks of the input."""
    laplacian: Any = fit.laplacian
    embedding, (bases, sigma) = fit.embedding, fit.tangents
    volumes = log_volumes(bases, np.array([found.subset], dtype=np.int32))
    Y, team = embedding.vectors, laplacian.team
    factors = np.full(Y.shape[1], np.sqrt(len(Y)) if options.scale == "rms" else 1.0)
    if options.scale == "diffusion":  # see :func:`ies_gpu.embedding.diffusion.scale_factors`

        def weighted_squares(backend: Backend, Y: Any, root: Any) -> tuple[np.ndarray, float]:
            weights = root[: len(Y)] ** 2
            return backend.to_host(weights @ (Y * Y)), float(weights.sum())

        squares, whole = team.total(team.map(weighted_squares, Y.parts, laplacian.roots))
        factors = abs(1.0 - embedding.eigenvalues) ** options.diffusion_time / np.sqrt(squares / whole)
    tall = [Y * factors, found.regrets, volumes, sigma, *([bases] if options.keep_bases else [])]
    return Selection(
        **choice_of(found, embedding.eigenvalues, options.bandwidth),
        **{"bases": None} | returned(given.values["source"], laplacian, tall),
        rotation=None if weights is None else in_units(weights, found.subset, factors),
        diagnostics=diagnostics_of(laplacian, embedding, sigma, volumes, found) | {"stray_points": []},
    )


# --- the way back: the user's order of points -------------------------------------------------------------------------


def returned(source: Source, laplacian: BlockLaplacian, tall: list[Pieces]) -> dict[str, Any]:
    """Return arrays in pieces by name, in the order of the input, and the points of the input that they are for."""
    team = laplacian.team

    def packed_block(at: Backend, P: Rows, *arrays: Any) -> tuple[np.ndarray, ...]:
        host = [at.to_host(array) for array in arrays]
        host[VOLUMES] = np.ascontiguousarray(host[VOLUMES][:, 0])  # there is one set
        return (P.rows, *host)

    packed = team.map(packed_block, laplacian.transitions, *(pieces.parts for pieces in tall))
    owners = team.gather(team.map(item, packed, 0))
    points = np.sort(np.concatenate(owners))
    if not source.local:
        return on_workers(source, packed, owners, points) | {"points": points}
    found: dict[str, Any] = {"points": points}
    for block, own in zip(packed, owners, strict=True):  # one by one: the client has room for the result, once
        for name, array in zip(NAMES, team.gather([block])[0][1:], strict=False):
            if name not in found:
                found[name] = np.empty((len(points), *array.shape[1:]), dtype=array.dtype)
            found[name][np.searchsorted(points, own)] = array
    return found


def on_workers(source: Source, packed: list[Any], owners: list[np.ndarray], points: np.ndarray) -> dict[str, Any]:
    """Return Dask arrays in the chunks of the input."""
    import dask.array as da
    from dask import delayed
    from distributed import futures_of

    team, sizes = source.team, np.diff(np.searchsorted(points, source.ends))
    chunks, order = tuple(sizes[sizes > 0].tolist()), np.argsort(np.concatenate(owners))
    kinds = team.submit(lambda _, own: [(array.shape[1:], array.dtype.name) for array in own[1:]], packed[0], block=0)
    found, blocks = dict[str, Any](), list(zip(packed, owners, strict=True))
    for k, (name, (tail, dtype)) in enumerate(zip(NAMES, team.gather([kinds])[0], strict=False), 1):
        parts = [da.from_delayed(delayed(getitem)(block, k), (len(own), *tail), dtype) for block, own in blocks]
        found[name] = da.concatenate(parts)[order].rechunk({0: chunks}, balance=False)
    kept = team.client.persist(list(found.values()))
    team.wait(futures_of(kept))
    return dict(zip(found, kept, strict=True))


REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {
    laplacian_of: laplacian_in_blocks,
    diffusion_map: map_in_blocks,
    tangent_spaces: tangents_in_blocks,
    assemble: assemble_in_blocks,
}
