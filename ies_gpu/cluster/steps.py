"""The steps of the pipeline that a cluster does its own way: what needs rows of other blocks, and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Backend
from ..backend.sampling import sample_rows
from ..backend.steps import Do, call, report, step
from ..choice.criterion import log_volumes
from ..choice.rmetric import Tangents, tangents, unpacked_tangents
from ..choice.search import SearchResult
from ..embedding.connectivity import holds_enough, in_parts, left_out, refuse_small_part
from ..embedding.diffusion import Embedding, check_pairs, packed_map, start_vector, unpacked_map
from ..embedding.laplacian import Laplacian
from ..findings import tell
from ..options import Options
from ..parameters.judgement import LOOKED, Judgement, Sample, judged, leading, unchecked
from ..results.assembly import choice_of, diagnostics_of
from ..results.selection import Selection
from ..run.fit import Fit
from ..run.inputs import Inputs
from . import returned
from .blocks import kept, partition, taken_rows
from .checks import check_source, facts_of_points
from .eigenpairs import eigenpairs
from .levels import over_root
from .matrix import (
    BlockLaplacian,
    Rows,
    kernel_blocks,
    packed_blocks,
    parts_of_graph,
    transition_blocks,
    unpacked_blocks,
)
from .team import Call, Pieces, item, joined


@step("laplacian", composite=True, pack=packed_blocks, unpack=unpacked_blocks)
def laplacian_in_blocks(given: Inputs, options: Options, do: Do = call) -> BlockLaplacian:
    """Return the Laplacian of the points, or of the largest part of their graph: rows of other blocks are near."""
    source = given.values["source"]
    team, n, count = source.team, source.n, 1
    do(check_source, team, source, options)
    points = do(partition, team, source, team.block_count(n))
    while True:
        kernels = do(kernel_blocks, team, points, options)
        sizes, labels = do(parts_of_graph, team, kernels)
        if labels is None:
            break
        count = max(count, len(sizes))
        if not holds_enough(sizes, n, options.disconnected):
            raise in_parts(sizes, each=False)
        refuse_small_part(int(sizes.max()), n, options.n_components)
        tell(left_out(len(sizes), int(sizes.max()), n))
        keep = [label == sizes.argmax() for label in labels]
        left = [i for i, own in enumerate(keep) if own.any()]
        team.assign_workers(len(left))
        points = team.map(kept, [points[i] for i in left], [keep[i] for i in left])
    facts = {"graph_components": count, "approximations": []}
    facts |= do(facts_of_points, team, points, source.width, int(sizes.sum()), n)
    return do(transition_blocks, team, kernels, n, options.bandwidth, facts)


@step("eigenvectors", pack=packed_map, unpack=unpacked_map)
def map_in_blocks(laplacian: BlockLaplacian, *, n_components: int, tol: float, random_state: int) -> Embedding:
    """Return the diffusion map: products with S exchange the rows of neighbours."""
    team, info = laplacian.team, dict[str, Any]()
    values, V, accuracy = eigenpairs(team, laplacian, n_components + 1, tol, info, report)
    check_pairs(values, accuracy, tol, "the workers", tell)
    phi = team.map(over_root, V[:, 1:].parts, laplacian.roots)
    start = laplacian.n_input, random_state
    squares, along = team.total(team.map(length_and_sign, phi, laplacian.transitions, *start))
    factors = np.where(along < 0, -1.0, 1.0) / np.sqrt(squares)
    vectors = (Pieces(team, phi, (len(V), n_components)) * factors).astype("float64")
    team.wait(vectors.parts)
    few = {name: getattr(accuracy, name)[1:] for name in ("residuals", "gaps", "angles")}
    return Embedding(vectors, 1.0 - values[1:], **few, info=info)


def length_and_sign(backend: Backend, phi: Any, P: Rows, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The squares of eigenvectors, and their products with the start vector, which decide on signs."""
    start = backend.asarray(start_vector(n, seed)[P.rows])
    return backend.to_host((phi * phi).sum(axis=0)), backend.to_host(start @ phi)


@step("tangents", pack=Tangents._asdict, unpack=unpacked_tangents)
def tangents_in_blocks(
    laplacian: BlockLaplacian, embedding: Embedding, *, intrinsic_dim: int, dtype: str = "float64"
) -> Tangents:
    """Return the tangent spaces: those of a block take the coordinates of its neighbours in others."""
    team, Y, d = laplacian.team, embedding.vectors, intrinsic_dim
    others = team.exchanged(Y.parts)
    found = team.map(tangent_rows, laplacian.transitions, d, laplacian.bandwidth, dtype, Y.parts, others)
    team.wait(found)
    bases, sigma = ([Call(item, (future, k)) for future in found] for k in range(2))
    return Tangents(Pieces(team, bases, (*Y.shape, d)), Pieces(team, sigma, (len(Y), d)))


def tangent_rows(backend: Backend, P: Rows, d: int, bandwidth: float, dtype: str, own: Any, *others: Any) -> Any:
    Y = joined(backend, own, *others).astype(dtype, copy=False)
    return tangents(Y, Laplacian(P.matrix, bandwidth=bandwidth), d, backend)


@step("verdict")
def judge_in_blocks(fit: Fit, found: SearchResult, *_: Any, **__: Any) -> Judgement:
    """Judge shape and stability of a map by some of its rows; what it loses of the points is not looked at."""
    laplacian: Any = fit.laplacian
    wanted = sample_rows(laplacian.n_input, LOOKED, 0)
    pieces = (array.parts for array in (fit.embedding.vectors, *fit.tangents))
    some = taken_rows(laplacian.team, laplacian.transitions, wanted, *pieces)[1:]
    Y, bases, sigma = (array.astype(float) for array in some)
    sample = Sample(Y, bases, sigma, len(fit.embedding.vectors))
    return judged([], unchecked(), sample, found, fit.embedding.eigenvalues, leading(found))


@step("result")
def assemble_in_blocks(given: Inputs, options: Options, fit: Fit, found: SearchResult) -> Selection:
    """Return the result with its arrays where the points are: at the client, or in the chunks of the input."""
    laplacian: Any = fit.laplacian
    embedding, (bases, sigma) = fit.embedding, fit.tangents
    volumes = log_volumes(bases, np.array([found.subset], dtype=np.int32))
    tall = [embedding.vectors, found.regrets, volumes, sigma, *([bases] if options.keep_bases else [])]
    if options.scale != "unit":
        tall[0] = tall[0] * scale_factors(laplacian, embedding, options)
    return Selection(
        **choice_of(found, embedding.eigenvalues, options.bandwidth),
        **{"bases": None} | returned.arrays(given.values["source"], laplacian, tall),
        diagnostics=diagnostics_of(laplacian, embedding, sigma, volumes, found) | {"stray_points": []},
    )


def scale_factors(laplacian: BlockLaplacian, embedding: Embedding, options: Options) -> np.ndarray:
    """What to multiply coordinates of unit length by; see :func:`ies_gpu.embedding.scale_and_sign.scale_factors`."""
    Y, eigenvalues = embedding.vectors, embedding.eigenvalues
    if options.scale == "rms":
        return np.full(len(eigenvalues), np.sqrt(len(Y)))
    squares, whole = laplacian.team.total(laplacian.team.map(weighted_squares, Y.parts, laplacian.roots))
    return abs(1.0 - eigenvalues) ** options.diffusion_time / np.sqrt(squares / whole)


def weighted_squares(backend: Backend, Y: Any, root: Any) -> tuple[np.ndarray, float]:
    weights = root[: len(Y)] ** 2
    return backend.to_host(weights @ (Y * Y)), float(weights.sum())
