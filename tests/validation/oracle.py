"""What functions that compute should return, computed again: dense, slow, and straight from the formulas.

Each check takes a :class:`Problem`, calls the public function with its name, and compares. Steps take the package's own
result of the step before, so that each is judged alone.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse.csgraph
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

import ies_gpu
from ies_gpu import datasets
from ies_gpu.choice.criterion import candidate_subsets
from ies_gpu.parameters.judgement import unexplained_variance
from tests.extension import nystrom_extension
from tests.validation.oracle_problem import Problem, log_volumes, same


def radius_graph(p: Problem) -> None:
    same(ies_gpu.radius_graph(p.X, radius=p.radius).toarray(), p.graph)


def knn_graph(p: Problem) -> None:
    k = 1 + p.n % 7
    near = np.argsort(p.D + np.diag(np.full(p.n, np.inf)), axis=1)[:, :k]
    joined = np.zeros((p.n, p.n), dtype=bool)
    np.put_along_axis(joined, near, True, axis=1)
    same(ies_gpu.knn_graph(p.X, n_neighbors=k).toarray(), np.where(joined | joined.T, p.D, 0.0))


def gaussian_kernel(p: Problem) -> None:
    same(ies_gpu.gaussian_kernel(scipy.sparse.csr_array(p.graph), bandwidth=p.eps).toarray(), p.K)


def graph_laplacian(p: Problem) -> None:
    found = ies_gpu.graph_laplacian(scipy.sparse.csr_array(p.own), bandwidth=p.eps, alpha=p.alpha)
    same(found.matrix.toarray(), np.eye(p.n) - p.P)


def laplacian_of_points(p: Problem) -> None:
    same(p.L.matrix.toarray(), np.eye(p.n) - p.P)
    same(p.L.scale, 4 / p.eps**2)


def diffusion_map(p: Problem) -> None:
    check_pairs(p, p.map.coordinates, p.map.eigenvalues)


def smallest_eigenpairs(p: Problem) -> None:
    kernel = p.K - np.eye(p.n)
    L = np.diag(kernel.sum(axis=1)) - kernel
    found = ies_gpu.smallest_eigenpairs(scipy.sparse.csr_array(L), p.m)
    assert_allclose(found.eigenvalues, np.linalg.eigvalsh(L)[: p.m], rtol=1e-6, atol=1e-9)
    same(L @ found.vectors, found.vectors * found.eigenvalues)


def check_pairs(p: Problem, Y: np.ndarray, values: np.ndarray) -> None:
    """The smallest eigenvalues beside 0, small residuals, orthogonal in the weights."""
    assert_allclose(values, p.eigenvalues[1 : p.m + 1], rtol=1e-6, atol=1e-9)
    size = np.sqrt((Y * Y).mean(axis=0))
    assert np.abs((p.P @ Y - (1 - values) * Y) / size).max() < 1e-6
    gram = Y.T @ (p.weights[:, None] * Y)
    size = np.sqrt(np.diag(gram))
    assert_allclose(gram / np.outer(size, size), np.eye(len(values)), atol=1e-6)


def naive_cometric(p: Problem) -> np.ndarray:
    steps = p.map.coordinates[None] - p.map.coordinates[:, None]
    return 0.5 * 4 / p.eps**2 * np.einsum("ij,ija,ijb->iab", p.P, steps, steps)


def cometric(p: Problem) -> None:
    same(ies_gpu.cometric(p.map.coordinates, p.L), naive_cometric(p))


def projectors(H: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Onto the leading d eigenvectors, and where these are well apart from the others."""
    values, vectors = np.linalg.eigh(H)
    U = vectors[:, :, ::-1][:, :, :d]
    values = values[:, ::-1]
    apart = values[:, d - 1] - (values[:, d] if H.shape[1] > d else 0) > 1e-6 * values[:, 0]
    return U @ U.transpose(0, 2, 1), apart


def tangent_bases(p: Problem) -> None:
    expected, apart = projectors(naive_cometric(p), p.d)
    assert_allclose((p.U @ p.U.transpose(0, 2, 1))[apart], expected[apart], atol=1e-6)
    assert_allclose(p.U.transpose(0, 2, 1) @ p.U, np.broadcast_to(np.eye(p.d), (p.n, p.d, p.d)), atol=1e-9)


def riemannian_metric(p: Problem) -> None:
    found, H = ies_gpu.riemannian_metric(p.map.coordinates, p.L, intrinsic_dim=p.d), naive_cometric(p)
    values = np.linalg.eigvalsh(H)[:, ::-1][:, : p.d]
    assert_allclose(found.sigma, values, rtol=1e-6, atol=1e-9 * values.max())
    onto, apart = projectors(H, p.d)
    assert_allclose(found.H[apart], (onto @ H @ onto)[apart], atol=1e-6 * np.abs(H).max())
    assert_allclose((found.G @ found.H)[apart], onto[apart], atol=1e-5)


def check_candidate_subsets(p: Problem) -> None:
    assert [tuple(row) for row in candidate_subsets(p.m, p.s).tolist()] == p.sets


def score_subsets(p: Problem) -> None:
    assert_allclose(ies_gpu.score_subsets(p.U, np.array(p.sets)), p.volumes.mean(axis=0), atol=1e-8)


def check_best(p: Problem, found: Any, zeta: float, scores: np.ndarray) -> None:
    losses = scores - zeta * p.penalties
    assert found.subset in p.sets
    assert losses[p.sets.index(found.subset)] >= losses.max() - 1e-8


def check_search(p: Problem, search: Callable[..., Any]) -> None:
    zeta, scores = float(p.rng.uniform(0, 2) / p.map.eigenvalues[-1]), p.volumes.mean(axis=0)
    found = search(p.U, p.map.eigenvalues, subset_size=p.s, zeta=zeta)
    exact = search in (ies_gpu.search_exhaustive, ies_gpu.search_branch_and_bound)
    if exact or (search is ies_gpu.search_greedy and p.s == p.d):
        check_best(p, found, zeta, scores)
    losses = dict(zip(p.sets, scores - zeta * p.penalties, strict=True))
    seen = [tuple(row) for row in found.subsets.tolist()]
    assert_allclose(found.scores, [scores[p.sets.index(row)] for row in seen], atol=1e-8)
    assert losses[found.subset] >= max(losses[row] for row in seen) - 1e-8


def check_greedy_order(p: Problem) -> None:
    """Every step is the best one from where it starts."""
    zeta = float(p.rng.uniform(0, 2) / p.map.eigenvalues[-1])
    order = ies_gpu.search_greedy(p.U, p.map.eigenvalues, subset_size=p.m, zeta=zeta).search_order
    assert sorted(order) == list(range(p.m))

    def loss(chosen: tuple[int, ...]) -> float:
        return log_volumes(p.U, chosen).mean() - zeta * p.map.eigenvalues[list(chosen)].sum()

    starts = [(0, *rest) for rest in itertools.combinations(range(1, p.m), p.d - 1)]
    assert loss(order[: p.d]) >= max(map(loss, starts)) - 1e-8
    for k in range(p.d, p.m):
        rest = set(range(p.m)) - set(order[:k])
        assert loss(order[: k + 1]) >= max(loss((*order[:k], j)) for j in rest) - 1e-8


def regularization_path(p: Problem) -> None:
    """At any zeta the segment that holds it has the best loss."""
    scores = p.volumes.mean(axis=0)
    path = ies_gpu.regularization_path(scores, np.array(p.sets), p.map.eigenvalues)
    assert path[0].high == np.inf and path[-1].low == 0
    assert all(a.low == b.high for a, b in itertools.pairwise(path))
    for zeta in [0.0, *p.rng.uniform(0, 3 / p.map.eigenvalues[0], 20), 1e6 / p.map.eigenvalues[0]]:
        held = next(segment for segment in path if segment.low <= zeta)
        check_best(p, held, zeta, scores)


def leave_one_out_regret(p: Problem) -> None:
    found = ies_gpu.leave_one_out_regret(p.U, np.array(p.sets), candidates=np.array(p.sets))
    best = p.volumes.argmax(axis=1)
    clear = np.sort(p.volumes, axis=1)[:, -1] - np.sort(p.volumes, axis=1)[:, -2:-1].max(axis=1, initial=-np.inf) > 1e-9
    elsewhere = (p.volumes.sum(axis=0) - p.volumes) / (p.n - 1)
    expected = np.take_along_axis(elsewhere, best[:, None], axis=1) - elsewhere
    assert_allclose(found[clear], expected[clear], atol=1e-7)


def estimate_dimension(p: Problem) -> None:
    assert 1 <= ies_gpu.estimate_dimension(p.X).value <= 3


def unexplained(X: np.ndarray, Y: np.ndarray, k: int) -> float:
    D = cdist(Y / Y.std(axis=0), Y / Y.std(axis=0))
    np.fill_diagonal(D, np.inf)
    near = np.argsort(D, axis=1, kind="stable")[:, :k]
    error, centred = X - X[near].mean(axis=1), X - X.mean(axis=0)
    return float((error**2).sum() / (centred**2).sum())


def check_unexplained_variance(p: Problem) -> None:
    Y = p.map.coordinates[:, :2]
    same(unexplained_variance(p.X, Y, n_neighbors=5), unexplained(p.X, Y, 5))


def estimate_parameters(p: Problem) -> None:
    """Each bandwidth of the scan has the degree that is said, and the value is one of them."""
    found = ies_gpu.estimate_parameters(p.X, **p.sizes, bandwidth="fixed")
    rows = found.basis["scan"]
    assert np.isclose([row["bandwidth"] for row in rows], found.bandwidth).any()
    assert all(np.isfinite(row["fvu"]) and row["fvu"] >= 0 for row in rows)
    counted = [(3 * row["bandwidth"] >= p.D).sum() / p.n for row in rows]
    assert_allclose([row["mean_degree"] for row in rows], counted, atol=1.5)  # with or without the point itself
    given = ies_gpu.estimate_parameters(p.X, bandwidth=p.eps, intrinsic_dim=p.d, n_components=p.m)
    assert p.d <= given.subset_size <= p.m


def select_coordinates(p: Problem) -> None:
    found = p.selection
    check_pairs(p, found.coordinates, found.eigenvalues)
    scores = np.array([log_volumes(found.bases, chosen).mean() for chosen in p.sets])
    ranked = dict(zip(map(tuple, found.ranking.subsets.tolist()), found.ranking.scores, strict=True))
    assert_allclose([ranked[chosen] for chosen in p.sets], scores, atol=1e-6)
    check_best(p, found, found.zeta, scores)
    same(found.embedding, found.coordinates[:, list(found.subset)])
    graph = {"graph": scipy.sparse.csr_array(p.graph), "bandwidth": p.eps, "self_loops": p.self_loops}
    for entry in (graph, {"kernel": scipy.sparse.csr_array(p.own)}):
        other = ies_gpu.select_coordinates(**entry, **p.sizes, alpha=p.alpha, device="cpu")
        assert_allclose(other.eigenvalues, p.eigenvalues[1 : p.m + 1], rtol=1e-6, atol=1e-9)


def select_each_part(p: Problem) -> None:
    both = np.concatenate([p.X, p.X + 1e3 * p.radius])
    parts = ies_gpu.select_each_part(both, **p.kernel_options, **p.sizes, device="cpu")
    assert {tuple(part.points) for part in parts} == {tuple(range(p.n)), tuple(range(p.n, 2 * p.n))}
    for part in parts:
        assert_allclose(part.eigenvalues, p.selection.eigenvalues, rtol=1e-6, atol=1e-9)


def estimators(p: Problem) -> None:
    known = {**p.kernel_options, "n_components": p.m, "device": "cpu", "isolated": "nan"}
    whole, chosen = ies_gpu.DiffusionMap(**known), ies_gpu.IndependentCoordinates(**known | p.sizes)
    for fitted in (whole.fit(p.X), chosen.fit(p.X)):
        assert_allclose(fitted.eigenvalues_, p.selection.eigenvalues, rtol=1e-9)
    apart = [np.abs(Y / Y.std(axis=0)) for Y in (whole.embedding_, p.selection.coordinates)]
    assert_allclose(*apart, atol=1e-6)
    assert chosen.selection_.subset == p.selection.subset
    same((chosen.embedding_**2).mean(axis=0), np.ones(p.s))
    size = np.sqrt((chosen.embedding_**2).sum(axis=0) / (p.selection.embedding**2).sum(axis=0))
    check_extension(p, lambda new: chosen.transform(new) / size, p.selection.subset)


def check_extension(p: Problem, transform: Callable[[np.ndarray], np.ndarray], columns: Any) -> None:
    """Nystroem's formula, row by row; NaN for a point without neighbours."""
    new = np.concatenate([p.X[:5] + 0.1 * p.eps, p.X[:1] + 100 * p.radius])
    D = cdist(new, p.X)
    K = np.where(p.radius >= D, np.exp(-((D / p.eps) ** 2)), 0.0) / p.own.sum(axis=1) ** p.alpha
    with np.errstate(invalid="ignore"):
        P = K / K.sum(axis=1, keepdims=True)
    expected = (P @ p.selection.coordinates / (1 - p.selection.eigenvalues))[:, list(columns)]
    assert np.isnan(expected[-1]).all()
    assert_allclose(transform(new), expected, rtol=1e-7, atol=1e-9)


def models(p: Problem) -> None:
    model, Y = p.selection.model(p.X), p.selection.embedding
    same(model.degrees, p.own.sum(axis=1))
    check_extension(p, model.transform, p.selection.subset)
    given = (p.X, p.selection.coordinates, p.selection.eigenvalues)
    check_extension(p, lambda new: nystrom_extension(new, *given, **p.kernel_options), range(p.m))
    spread = Y.std(axis=0)
    near = np.argsort(cdist(Y[:6] * 1.001 / spread, Y / spread), axis=1)[:, :10]
    same(model.inverse_transform(Y[:6] * 1.001), p.X[near].mean(axis=1))
    same(model.inverse_error.unexplained, unexplained(p.X, Y, 10))


def scores_of_a_result(p: Problem) -> None:
    volumes = log_volumes(p.selection.bases, p.sets[-1])
    assert_allclose(p.selection.score(p.sets[-1]), volumes, atol=1e-7)


def diagnose(p: Problem) -> None:
    found = ies_gpu.diagnose(p.selection, laplacian=p.L)
    assert found.subset == p.selection.subset and np.isfinite(found.collapse).all() and len(found.collapse) == p.n
    assert_allclose(found.volumes, np.exp(log_volumes(p.selection.bases, p.selection.subset)), atol=1e-6)


def selection_stability(p: Problem) -> None:
    found = ies_gpu.selection_stability(p.selection, X=p.X, n_refits=2, share=0.999)
    assert found.refits == {p.selection.subset: 1.0} and found.failed_refits == 0  # a sample of all is the sample


def umap_init(p: Problem) -> None:
    Y = p.selection.coordinates[:, :2]
    assert_allclose(ies_gpu.umap_init(p.selection, subset=(0, 1)), 10 * Y / np.abs(Y).max(), atol=2e-3)


def features_of_a_molecule(p: Problem) -> None:
    R = p.rng.normal(size=(3, 5, 3))
    same(datasets.pairwise_distances(R), [scipy.spatial.distance.pdist(frame) for frame in R])
    angles = datasets.planar_angles(R).reshape(3, -1, 3)
    same(angles.sum(axis=2), np.full(angles.shape[:2], np.pi))
