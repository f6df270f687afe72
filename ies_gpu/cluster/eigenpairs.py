"""The leading eigenpairs on a cluster: the multilevel method in blocks, or the whole matrix on one worker."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Backend
from ..backend.base import index_type
from ..embedding.diffusion import start_vector
from ..embedding.eigensolvers import multilevel
from ..embedding.eigensolvers.accuracy import ROUNDING, Accuracy, accuracy_of, separated
from ..embedding.eigensolvers.coarsest import last_level_pairs
from ..embedding.eigensolvers.eigenpairs import (
    SymmetricTransition,
    has_many_neighbourhoods,
    leading_eigenpairs,
    refuse_pairs,
)
from ..embedding.laplacian import Laplacian
from ..errors import ClusterError, NotConvergedError
from ..findings import option, refusal
from .levels import TopLevel
from .matrix import BlockLaplacian
from .team import Call, Pieces, Team, item


def eigenpairs(
    team: Team, graph: BlockLaplacian, count: int, tol: float, info: dict[str, Any], progress: Any = None
) -> tuple[np.ndarray, Pieces, Accuracy]:
    """The ``count`` leading pairs of S: values, vectors in pieces, and how accurate they are.

    A graph on which the multilevel method is not expected to win, or does not converge, is solved on one worker if it
    fits there: such graphs are small, or so dense that few points make up a neighbourhood.
    """
    n = int(graph.sizes.sum())
    if has_many_neighbourhoods(n, graph.nnz, count):
        try:
            return multilevel_pairs(team, graph, count, tol, info, progress)
        except (NotConvergedError, np.linalg.LinAlgError) as doubt:
            info["fallback"] = str(doubt)
    return pairs_on_one(team, graph, count, tol, info)


def pairs_on_one(
    team: Team, graph: BlockLaplacian, count: int, tol: float, info: dict[str, Any]
) -> tuple[np.ndarray, Pieces, Accuracy]:
    """The same by one worker, which gets the whole matrix."""
    need, n = 40 * graph.nnz, int(graph.sizes.sum())  # the matrix, its parts on the way, and vectors
    most = team.memory_of(0)
    if need > most:
        why = info.get("fallback", "it is too dense for the multilevel method")
        text = f"the eigenvectors of this graph cannot be computed in blocks ({why}), and its matrix takes "
        text += f"{need / 1e9:.1f} GB, more than the {most / 1e9:.1f} GB of a worker"
        advice = f"lower {option('bandwidth')} or use larger workers"
        raise refusal("cluster.matrix_too_large", text, advice, ClusterError)
    pairs = team.submit(whole_pairs, graph.sizes.tolist(), count, tol, *graph.transitions, *graph.roots, block=0)
    values, accuracy, more = team.gather([team.submit(item, pairs, 0, block=0)])[0]
    info |= more
    parts = [team.submit(item, Call(item, (pairs, 1)), i, block=0) for i in range(len(graph.sizes))]
    return values, Pieces(team, parts, (n, count)), accuracy


def multilevel_pairs(
    team: Team, graph: BlockLaplacian, count: int, tol: float, info: dict[str, Any], progress: Any
) -> tuple[np.ndarray, Pieces, Accuracy]:
    """The same by the multilevel method, with everything tall in pieces."""
    level = TopLevel(team, graph)
    level.build(count + multilevel.GUARDS)
    history: list[float] = []
    aim = min(multilevel.AIM * tol, multilevel.REFRESH)
    try:
        values, X, coarse = multilevel.solve(level, count, aim, 0.0, last_level_pairs, level.exact, history, progress)
    finally:
        info |= {"block_products": level.products, "iterations": len(history), "products": level.columns}
        info["coarse_sizes"] = [level.coarse.n]
        info["travelled"] = level.travelled | {"gram": level.backend.kernels.numbers}
    multilevel.check_interlacing(values, coarse.values, count)
    V = beside_top(team, X[:, :count], level)
    values, accuracy, gram, coupling = measured(team, level, values, V)
    if accuracy.doubtful.size and np.isfinite(accuracy.residuals).all():
        apart, turn = separated(values[1:count], gram[1:, 1:], coupling[1:, 1:])
        values = np.concatenate([values[:1], apart, values[count:]])
        V = Pieces(team, team.map(separate, V.parts, turn), V.shape)
        values, accuracy, gram, _ = measured(team, level, values, V)
    refuse_pairs(float(np.abs(gram - np.eye(count)).max()), float(accuracy.residuals.max()), tol)
    info["method"] = "multilevel"
    return values[:count].copy(), V, accuracy


def measured(
    team: Team, level: TopLevel, values: np.ndarray, V: Pieces
) -> tuple[np.ndarray, Accuracy, np.ndarray, np.ndarray]:
    """The values, the accuracy of vectors in pieces, their inner products, and those with their residuals."""
    squares, gram, coupling = team.total(
        team.map(squares_and_gram, level.exact(V).parts, V.parts, values[: V.shape[1]].copy())
    )
    noise = max(ROUNDING, float(np.abs(coupling[1:, 0]).max(initial=0.0)))
    return values, accuracy_of(values, np.sqrt(squares), coupling, noise), gram, coupling


def beside_top(team: Team, V: Pieces, level: TopLevel) -> Pieces:
    """Vectors in pieces, turned so that they have nothing of the known one; see :func:`multilevel.beside_top`."""
    along = team.total(team.map(along_top, V.parts, level.graph.roots, level.length))
    parts = team.map(turned, V.parts, level.graph.roots, level.length, multilevel.reflection(along))
    return Pieces(team, parts, V.shape)


# --- tasks -----------------------------------------------------------------------------------------------------------


def whole_pairs(backend: Backend, sizes: list[int], count: int, tol: float, *parts: Any) -> Any:
    """The values of the matrix put together from its blocks, with what is known of them, and the vectors by block."""
    blocks, roots = parts[: len(sizes)], parts[len(sizes) :]
    first, xp = np.concatenate([[0], np.cumsum(sizes)]), backend.xp
    indptr = xp.concatenate([xp.zeros(1, dtype=xp.int64), *(xp.diff(P.matrix.indptr) for P in blocks)]).cumsum()
    indices = []
    for i, P in enumerate(blocks):
        wanted = [backend.asarray(want) + int(first[j]) for j, want in P.wants.items()]
        indices.append(xp.concatenate([xp.arange(int(first[i]), int(first[i + 1])), *wanted])[P.matrix.indices])
    kind = index_type(int(indptr[-1]))
    data = xp.concatenate([P.matrix.data for P in blocks])
    shape = (int(first[-1]), int(first[-1]))
    matrix = backend.sparse.csr_matrix((data, xp.concatenate(indices).astype(kind), indptr.astype(kind)), shape=shape)
    matrix.sort_indices()
    weights = xp.concatenate([root[:n] for root, n in zip(roots, sizes, strict=True)]) ** 2
    operator = SymmetricTransition(Laplacian(matrix, weights), backend)
    start = backend.asarray(start_vector(len(weights), 0))
    pairs = leading_eigenpairs(operator, count, start=start, tol=tol)
    vectors = [xp.ascontiguousarray(part) for part in xp.split(pairs.vectors, first[1:-1].tolist())]
    return (backend.to_host(pairs.values), pairs.accuracy, pairs.info), vectors


def along_top(backend: Backend, V: Any, root: Any, length: float) -> np.ndarray:
    return backend.to_host((root[: len(V)] / length) @ V)


def turned(backend: Backend, V: Any, root: Any, length: float, reflection: np.ndarray) -> Any:
    V = V @ backend.asarray(reflection)
    V[:, 0] = root[: len(V)] / length
    return V


def squares_and_gram(backend: Backend, SV: Any, V: Any, values: np.ndarray) -> tuple[np.ndarray, ...]:
    """The squares of residuals, and the inner products of vectors with each other and with residuals."""
    R = SV - V * backend.asarray(values)
    return tuple(backend.to_host(part) for part in ((R * R).sum(axis=0), V.T @ V, V.T @ R))


def separate(backend: Backend, V: Any, turn: np.ndarray) -> Any:
    """The vectors but the first, turned."""
    return backend.xp.concatenate([V[:, :1], V[:, 1:] @ backend.asarray(turn)], axis=1)
