"""What every public function should return, computed again: dense, slow, and straight from the formulas.

:data:`CHECKS` has one entry per public function and method. Each takes a :class:`Problem`, calls the function and
compares. Steps take the package's own result of the step before, so that each is judged alone.
"""

# ruff: noqa: N802, the names are those of the paper
from __future__ import annotations

import itertools
import json
import tempfile
import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse.csgraph
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

import ies_gpu
from ies_gpu import datasets

TINY = 1e-300


class Problem:
    """A few points of a strip, an arc or a ring with a connected graph, and everything that follows from them."""

    def __init__(self, seed: int, shape: str, n: int, m: int, d: int, alpha: float, self_loops: bool) -> None:
        self.n, self.m, self.d, self.s = n, m, d, d + seed % 2
        self.alpha, self.self_loops = alpha, self_loops
        self.rng = np.random.default_rng(seed)
        along, across = self.rng.uniform(size=(2, n))
        turn = {"strip": 0.01, "arc": 3.0, "ring": 2 * np.pi}[shape]
        angle, reach = along * turn, 3.0 / turn + 0.8 * across
        self.X = np.column_stack([reach * np.cos(angle), reach * np.sin(angle), 0.02 * self.rng.normal(size=n)])
        longest = scipy.sparse.csgraph.minimum_spanning_tree(self.D).data.max()
        self.radius = float(max(1.2 * longest, np.quantile(self.D, 0.12)))
        self.eps = self.radius / 3
        self.sizes = {"intrinsic_dim": self.d, "subset_size": self.s, "n_components": m}
        self.kernel_options = {"bandwidth": self.eps, "alpha": alpha, "self_loops": self_loops}

    # --- dense ---

    @cached_property
    def D(self) -> np.ndarray:
        return cdist(self.X, self.X)

    @cached_property
    def graph(self) -> np.ndarray:
        return np.where(self.radius >= self.D, self.D, 0.0)

    @cached_property
    def K(self) -> np.ndarray:
        K = np.where(self.radius >= self.D, np.exp(-((self.D / self.eps) ** 2)), 0.0)
        np.fill_diagonal(K, 1.0)
        return K

    def transition(self, K: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """P, and the weights by which its eigenvectors are orthogonal."""
        w = K.sum(axis=1) ** alpha
        K = K / np.outer(w, w)
        return K / K.sum(axis=1, keepdims=True), K.sum(axis=1)

    @cached_property
    def P(self) -> np.ndarray:
        return self.transition(self.K - (0 if self.self_loops else np.eye(self.n)), self.alpha)[0]

    @cached_property
    def weights(self) -> np.ndarray:
        return self.transition(self.K - (0 if self.self_loops else np.eye(self.n)), self.alpha)[1]

    @cached_property
    def eigenvalues(self) -> np.ndarray:
        root = np.sqrt(self.weights)
        S = root[:, None] * self.P / root
        return np.linalg.eigvalsh(np.eye(self.n) - 0.5 * (S + S.T))

    # --- the package's own, as input of later steps ---

    @cached_property
    def L(self) -> Any:
        return ies_gpu.laplacian_of_points(self.X, **self.kernel_options)

    @cached_property
    def map(self) -> Any:
        return ies_gpu.diffusion_map(self.L, n_components=self.m)

    @cached_property
    def U(self) -> np.ndarray:
        return ies_gpu.tangent_bases(self.map.coordinates, self.L, intrinsic_dim=self.d)

    @cached_property
    def selection(self) -> Any:
        return ies_gpu.select_coordinates(self.X, **self.kernel_options, **self.sizes, keep_bases=True, device="cpu")

    @cached_property
    def model(self) -> Any:
        return ies_gpu.model_of(self.selection, self.X)

    @cached_property
    def sets(self) -> list[tuple[int, ...]]:
        return [(0, *rest) for rest in itertools.combinations(range(1, self.m), self.s - 1)]

    @cached_property
    def volumes(self) -> np.ndarray:
        """Log volumes (n, sets) of the package's tangent bases."""
        return np.column_stack([log_volumes(self.U, chosen) for chosen in self.sets])

    @cached_property
    def penalties(self) -> np.ndarray:
        return np.array([self.map.eigenvalues[list(chosen)].sum() for chosen in self.sets])

    @cached_property
    def cells(self) -> SimpleNamespace:
        return SimpleNamespace(n_obs=self.n, X=self.X, obsm={"X_pca": self.X}, obsp={}, uns={}, var_names=list("abc"))


def log_volumes(U: np.ndarray, chosen: tuple[int, ...]) -> np.ndarray:
    """Point by point: columns of the rows S of U scaled to length 1, half the log determinant of their Gram matrix."""
    found = []
    for u in U:
        part = u[list(chosen)]
        lengths = np.linalg.norm(part, axis=0)
        part = part / np.where(lengths > 0, lengths, 1)
        found.append(0.5 * np.log(max(np.linalg.det(part.T @ part), TINY)))
    return np.array(found)


def same(found: Any, expected: Any, tol: float = 1e-9) -> None:
    scale = max(1e-12, float(np.abs(expected).max(initial=0.0)))
    assert_allclose(np.asarray(found), expected, rtol=tol, atol=tol * scale)


# --- graph, kernel, Laplacian ---


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
    kernel = p.K if p.self_loops else p.K - np.eye(p.n)
    found = ies_gpu.graph_laplacian(scipy.sparse.csr_array(kernel), bandwidth=p.eps, alpha=p.alpha)
    same(found.matrix.toarray(), np.eye(p.n) - p.P)


def laplacian_of_points(p: Problem) -> None:
    same(p.L.matrix.toarray(), np.eye(p.n) - p.P)
    same(p.L.scale, 4 / p.eps**2)


def diffusion_map(p: Problem) -> None:
    check_pairs(p, p.map.coordinates, p.map.eigenvalues)


def check_pairs(p: Problem, Y: np.ndarray, values: np.ndarray) -> None:
    """The smallest eigenvalues beside 0, small residuals, orthogonal in the weights."""
    assert_allclose(values, p.eigenvalues[1 : p.m + 1], rtol=1e-6, atol=1e-9)
    size = np.sqrt((Y * Y).mean(axis=0))
    assert np.abs((p.P @ Y - (1 - values) * Y) / size).max() < 1e-6
    gram = Y.T @ (p.weights[:, None] * Y)
    size = np.sqrt(np.diag(gram))
    assert_allclose(gram / np.outer(size, size), np.eye(len(values)), atol=1e-6)


# --- tangents, scores, searches ---


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


def candidate_subsets(p: Problem) -> None:
    assert [tuple(row) for row in ies_gpu.candidate_subsets(p.m, p.s).tolist()] == p.sets


def score_subsets(p: Problem) -> None:
    assert_allclose(ies_gpu.score_subsets(p.U, np.array(p.sets)), p.volumes.mean(axis=0), atol=1e-8)


def check_best(p: Problem, found: Any, zeta: float, scores: np.ndarray) -> None:
    losses = scores - zeta * p.penalties
    assert found.subset in p.sets
    assert losses[p.sets.index(found.subset)] >= losses.max() - 1e-8


def check_search(p: Problem, search: Callable[..., Any], *, best: bool) -> None:
    zeta, scores = float(p.rng.uniform(0, 2) / p.map.eigenvalues[-1]), p.volumes.mean(axis=0)
    found = search(p.U, p.map.eigenvalues, subset_size=p.s, zeta=zeta)
    if best:
        check_best(p, found, zeta, scores)
    losses = dict(zip(p.sets, scores - zeta * p.penalties, strict=True))
    seen = [tuple(row) for row in found.subsets.tolist()]
    assert_allclose(found.scores, [scores[p.sets.index(row)] for row in seen], atol=1e-8)
    assert losses[found.subset] >= max(losses[row] for row in seen) - 1e-8


def search_exhaustive(p: Problem) -> None:
    check_search(p, ies_gpu.search_exhaustive, best=True)


def search_branch_and_bound(p: Problem) -> None:
    check_search(p, ies_gpu.search_branch_and_bound, best=True)


def search_greedy(p: Problem) -> None:
    check_search(p, ies_gpu.search_greedy, best=p.s == p.d)


def search_submodular(p: Problem) -> None:
    check_search(p, ies_gpu.search_submodular, best=False)


def greedy_order(p: Problem) -> None:
    """Every step is the best one from where it starts."""
    zeta = float(p.rng.uniform(0, 2) / p.map.eigenvalues[-1])
    order = ies_gpu.greedy_order(p.U, p.map.eigenvalues, zeta=zeta)
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


# --- estimates ---


def nearest(X: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    D = cdist(X, X)
    np.fill_diagonal(D, np.inf)
    order = np.argsort(D, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(D, order, axis=1), order


def two_nn_dimension(p: Problem) -> None:
    near = nearest(p.X, 2)[0]
    same(ies_gpu.two_nn_dimension(p.X), (p.n - 1) / np.log(near[:, 1] / near[:, 0]).sum())


def levina_bickel_dimension(p: Problem) -> None:
    near = nearest(p.X, 12)[0]
    inverse = [np.log(near[:, k - 1 : k] / near[:, : k - 1]).mean(axis=1).mean() for k in (8, 12)]
    same(ies_gpu.levina_bickel_dimension(p.X, neighbors=(8, 12)).by_neighbors, 1 / np.array(inverse))


def estimate_dimension(p: Problem) -> None:
    for method in ("two_nn", "levina_bickel", "slope", "local_pca"):
        found = ies_gpu.estimate_dimension(p.X, method=method)
        assert 1 <= found.value <= 3 and abs(found.value - found.raw) <= 3
    same(ies_gpu.estimate_dimension(p.X, method="two_nn").raw, ies_gpu.two_nn_dimension(p.X))


def unexplained(X: np.ndarray, Y: np.ndarray, k: int) -> float:
    near = nearest(Y / Y.std(axis=0), k)[1]
    error, centred = X - X[near].mean(axis=1), X - X.mean(axis=0)
    return float((error**2).sum() / (centred**2).sum())


def unexplained_variance(p: Problem) -> None:
    Y = p.map.coordinates[:, :2]
    same(ies_gpu.unexplained_variance(p.X, Y, n_neighbors=5), unexplained(p.X, Y, 5))


def estimate_bandwidth(p: Problem) -> None:
    """Each bandwidth of the curve has the degree that is said, and the value is one of them."""
    found = ies_gpu.estimate_bandwidth(p.X, **p.sizes)
    assert np.isclose(found.bandwidths, found.value).any()
    assert np.isfinite(found.curve).all() and (found.curve >= 0).all()
    counted = [(3 * eps >= p.D).sum() / p.n for eps in found.bandwidths]
    assert_allclose(found.degrees, counted, atol=1.5)  # with or without the point itself, sampled or not


def suggest_subset_size(p: Problem) -> None:
    found = ies_gpu.suggest_subset_size(p.X, bandwidth=p.eps, intrinsic_dim=p.d, n_components=p.m)
    assert p.d <= found.value <= p.m


# --- the whole, and what is made of it ---


def select_coordinates(p: Problem) -> None:
    found = p.selection
    check_pairs(p, found.coordinates, found.eigenvalues)
    scores = np.array([log_volumes(found.bases, chosen).mean() for chosen in p.sets])
    ranked = dict(zip(map(tuple, found.ranking.subsets.tolist()), found.ranking.scores, strict=True))
    assert_allclose([ranked[chosen] for chosen in p.sets], scores, atol=1e-6)
    check_best(p, found, found.zeta, scores)
    same(found.embedding, found.coordinates[:, list(found.subset)])
    graph = {"graph": scipy.sparse.csr_array(p.graph), "bandwidth": p.eps, "self_loops": p.self_loops}
    kernel = {"kernel": scipy.sparse.csr_array(p.K if p.self_loops else p.K - np.eye(p.n))}
    for entry in (graph, kernel):
        other = ies_gpu.select_coordinates(**entry, **p.sizes, alpha=p.alpha, device="cpu")
        assert_allclose(other.eigenvalues, p.eigenvalues[1 : p.m + 1], rtol=1e-6, atol=1e-9)


def estimators(p: Problem, kind: Any, **options: Any) -> Any:
    fitted = kind(**p.kernel_options, n_components=p.m, device="cpu", isolated="nan", **options).fit(p.X)
    assert_allclose(fitted.eigenvalues_, p.selection.eigenvalues, rtol=1e-9)
    return fitted


def diffusion_map_fit(p: Problem) -> None:
    fitted = estimators(p, ies_gpu.DiffusionMap)
    assert_allclose(np.abs(fitted.embedding_ / fitted.embedding_.std(axis=0)),
                    np.abs(p.selection.coordinates / p.selection.coordinates.std(axis=0)), atol=1e-6)  # fmt: skip


def independent_coordinates_fit(p: Problem) -> None:
    fitted = estimators(p, ies_gpu.IndependentCoordinates, intrinsic_dim=p.d, subset_size=p.s)
    assert fitted.selection_.subset == p.selection.subset
    same((fitted.embedding_**2).mean(axis=0), np.ones(p.s))
    size = np.sqrt((fitted.embedding_**2).sum(axis=0) / (p.selection.embedding**2).sum(axis=0))
    check_extension(p, lambda new: fitted.transform(new) / size, p.selection.subset)


def extension(p: Problem, new: np.ndarray) -> np.ndarray:
    """Nystroem's formula, row by row; NaN for a point without neighbours."""
    D = cdist(new, p.X)
    K = np.where(p.radius >= D, np.exp(-((D / p.eps) ** 2)), 0.0)
    w = (p.K - (0 if p.self_loops else np.eye(p.n))).sum(axis=1) ** p.alpha
    with np.errstate(invalid="ignore"):
        P = K / w / (K / w).sum(axis=1, keepdims=True)
    return P @ p.selection.coordinates / (1 - p.selection.eigenvalues)


def check_extension(p: Problem, transform: Callable[[np.ndarray], np.ndarray], columns: Any) -> None:
    new = np.concatenate([p.X[:5] + 0.1 * p.eps, p.X[:1] + 100 * p.radius])
    expected = extension(p, new)[:, list(columns)]
    assert np.isnan(expected[-1]).all()
    assert_allclose(transform(new), expected, rtol=1e-7, atol=1e-9)


def nystrom_extension(p: Problem) -> None:
    given = (p.X, p.selection.coordinates, p.selection.eigenvalues)
    check_extension(p, lambda new: ies_gpu.nystrom_extension(new, *given, **p.kernel_options), range(p.m))


def model_of(p: Problem) -> None:
    same(p.model.degrees, (p.K - (0 if p.self_loops else np.eye(p.n))).sum(axis=1))
    assert p.model.subset == p.selection.subset


def model_transform(p: Problem) -> None:
    check_extension(p, p.model.transform, p.selection.subset)


def model_inverse_transform(p: Problem) -> None:
    Y = p.selection.embedding
    spread = Y.std(axis=0)
    near = np.argsort(cdist(Y[:6] * 1.001 / spread, Y / spread), axis=1)[:, :10]
    same(p.model.inverse_transform(Y[:6] * 1.001), p.X[near].mean(axis=1))
    same(p.model.inverse_error.unexplained, unexplained(p.X, Y, 10))


def round_trip(p: Problem, save: Any, load: Any, value: Any, names: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        save(value, Path(folder, "file.npz"))
        again = load(Path(folder, "file.npz"))
    for name in names:
        assert_array_equal(getattr(again, name), getattr(value, name))


def save_and_load(p: Problem) -> None:
    names = ("subset", "zeta", "coordinates", "eigenvalues", "regrets", "bases", "singular_values", "log_volumes")
    round_trip(p, ies_gpu.save, ies_gpu.load, p.selection, names)


def save_and_load_model(p: Problem) -> None:
    names = ("X", "degrees", "coordinates", "eigenvalues", "bandwidth", "radius", "subset", "alpha")
    round_trip(p, ies_gpu.save_model, ies_gpu.load_model, p.model, names)


def selection_score(p: Problem) -> None:
    chosen = p.sets[-1]
    assert_allclose(p.selection.score(chosen), log_volumes(p.selection.bases, chosen), atol=1e-7)


def selection_exports(p: Problem) -> None:
    frame, text = p.selection.to_pandas(every=True), json.loads(p.selection.to_json())
    same(frame.to_numpy(), p.selection.coordinates)
    same(text["eigenvalues"], p.selection.eigenvalues)
    assert tuple(text["subset"]) == p.selection.subset


def selection_pages(p: Problem) -> None:
    with tempfile.TemporaryDirectory() as folder:
        p.selection.to_html(Path(folder, "page.html"), title="a <b> & c")
        text = Path(folder, "page.html").read_text(encoding="utf-8")
    assert "a &lt;b&gt; &amp; c" in text and "<b> & c" not in text.replace("\\u003c", "")
    assert p.selection.explore() is not None


def volume_histogram(p: Problem) -> None:
    found = ies_gpu.volume_histogram(p.selection, bins=10)
    volumes = np.minimum(np.exp(log_volumes(p.selection.bases, p.selection.subset)), 1)
    assert found.counts.sum() == p.n
    assert np.abs(found.counts - np.histogram(volumes, 10, range=(0, 1))[0]).sum() <= 2  # at an edge: rounding
    assert abs(found.share_near_zero - (volumes < 0.1).mean()) <= 1 / p.n


def size_verdict(p: Problem) -> None:
    if len(p.sets) < 2:
        return
    found = ies_gpu.size_verdict(p.selection)
    for chosen, share in ((found.best, found.share_best), (found.union, found.share_union)):
        volumes = np.exp(log_volumes(p.selection.bases, chosen))
        assert abs(share - (volumes < 0.1).mean()) <= 1 / p.n
    assert found.too_small == (found.share_best >= 0.015 and found.share_union <= 0.3 * found.share_best)


def diagnose(p: Problem) -> None:
    found = ies_gpu.diagnose(p.selection, laplacian=p.L)
    assert found.subset == p.selection.subset and len(found.collapse) == p.n
    assert np.isfinite(found.collapse).all()
    assert_allclose(found.volumes, np.exp(log_volumes(p.selection.bases, p.selection.subset)), atol=1e-6)


def selection_stability(p: Problem) -> None:
    found = ies_gpu.selection_stability(p.selection, n_bootstrap=4, n_refits=0)
    assert set(found.bootstrap) <= set(p.sets) and np.isclose(sum(found.bootstrap.values()), 1)


def procrustes_error(p: Problem) -> None:
    truth, Y = p.X[:, :2], p.map.coordinates[:, :2]
    same(ies_gpu.procrustes_error(truth, Y), scipy.spatial.procrustes(truth, Y)[2], 1e-8)
    turn = np.linalg.qr(p.rng.normal(size=(2, 2)))[0]
    assert ies_gpu.procrustes_error(truth, 3 * truth @ turn + 1) < 1e-9


def llr_ranking(p: Problem) -> None:
    """Weighted least squares at every point, with all other points."""
    Y = p.map.coordinates / np.sqrt((p.map.coordinates**2).mean(axis=0))
    found = ies_gpu.llr_ranking(Y, n_samples=None)
    k = p.m - 1
    D = cdist(Y[:, :k], Y[:, :k])
    h = np.median(D[np.triu_indices(p.n, 1)]) / 3
    same(found.bandwidths[k], h, 1e-3)  # the root of the median square
    if np.partition(D, 1, axis=1)[:, 1].max() > 2 * h:
        return  # a point far from all others: what a fit says there is left to rounding
    errors = []
    for i in range(p.n):
        root = np.sqrt(np.exp(-((D[i] / h) ** 2)))
        root[i] = 0
        A = np.column_stack([np.ones(p.n), Y[:, :k]])
        fit, _, _, spread = np.linalg.lstsq(root[:, None] * A, root * Y[:, k], rcond=1e-10)
        if spread[0] > 1e3 * spread[-1]:
            return  # a fit that its neighbours hardly determine: its small ridge tells
        errors.append(A[i] @ fit - Y[i, k])
    assert_allclose(found.residuals[k], np.linalg.norm(errors) / np.linalg.norm(Y[:, k]), rtol=0.05)
    assert sorted(found.order) == list(range(p.m)) and found.residuals[0] == 1


def umap_init(p: Problem) -> None:
    found = ies_gpu.umap_init(p.selection, subset=(0, 1))
    Y = p.selection.coordinates[:, :2]
    assert_allclose(found, 10 * Y / np.abs(Y).max(), atol=2e-3)


def estimate_resources(p: Problem) -> None:
    """More points never need less."""
    small, large = (ies_gpu.estimate_resources(n=n * 1000, dim=3, degree=50.0) for n in (p.n, 2 * p.n))
    assert large.peak_bytes > small.peak_bytes > 0


def devices(p: Problem) -> None:
    assert ies_gpu.get_backend("cpu").device == ies_gpu.backend_of(p.X).device == "cpu"


def anndata(p: Problem) -> None:
    found = ies_gpu.anndata.select(p.cells, **p.kernel_options, **p.sizes, device="cpu")
    assert found.subset == p.selection.subset
    same(p.cells.obsm["X_ies"], found.embedding)
    new = SimpleNamespace(**vars(p.cells) | {"obsm": {"X_pca": p.X[:7]}, "uns": {}, "n_obs": 7})
    same(ies_gpu.anndata.transform(p.cells, new), found.embedding[:7], 1e-6)


# --- data ---


def load_data(p: Problem) -> None:
    name = datasets.names()[p.n % len(datasets.names())]
    first, again = (datasets.load(name, n_samples=p.n, random_state=3) for _ in range(2))
    assert_array_equal(first.X, again.X)
    assert 0.75 * p.n <= len(first.X) <= p.n and np.isfinite(first.X).all()


def frames(p: Problem) -> np.ndarray:
    return p.rng.normal(size=(3, 5, 3))


def pairwise_distances(p: Problem) -> None:
    R = frames(p)
    same(datasets.pairwise_distances(R), [scipy.spatial.distance.pdist(frame) for frame in R])


def planar_angles(p: Problem) -> None:
    R = frames(p)
    found = datasets.planar_angles(R).reshape(3, -1, 3)
    same(found.sum(axis=2), np.full(found.shape[:2], np.pi))
    a, b = R[:, 1] - R[:, 0], R[:, 2] - R[:, 0]
    cosine = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert_allclose(np.cos(found[:, 0, 0]), cosine, atol=1e-9)


def torsion(p: Problem) -> None:
    """Turning the last atom about the axis adds the angle."""
    R, turn = frames(p), float(p.rng.uniform(-1, 1))
    axis = (R[:, 2] - R[:, 1]) / np.linalg.norm(R[:, 2] - R[:, 1], axis=1, keepdims=True)
    arm = R[:, 3] - R[:, 2]
    along = (arm * axis).sum(axis=1, keepdims=True) * axis
    moved = R.copy()
    moved[:, 3] = R[:, 2] + along + np.cos(turn) * (arm - along) + np.sin(turn) * np.cross(axis, arm)
    change = datasets.torsion(moved, (0, 1, 2, 3)) - datasets.torsion(R, (0, 1, 2, 3))
    assert_allclose(np.exp(1j * change), np.exp(1j * turn), atol=1e-7)


def pca(p: Problem) -> None:
    centred = p.X - p.X.mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    found = datasets.pca(p.X, n_columns=2)
    same(np.abs(found.scores), np.abs(left * values)[:, :2], 1e-7)
    same(found.explained, (values**2)[:2].sum() / (values**2).sum())


def molecules(p: Problem) -> None:
    R, energy = frames(p), p.rng.normal(size=3)
    with tempfile.TemporaryDirectory() as folder:
        datasets.write_xyz(Path(folder, "a.xyz"), R, [6, 1, 1, 8, 1], values={"energy": energy})
        found = datasets.load_molecule(Path(folder, "a.xyz"))
    assert_array_equal(found.R, R)
    assert_array_equal(found.values["energy"], energy)
    atoms = [SimpleNamespace(get_positions=lambda R=R: R, get_atomic_numbers=lambda: [6, 1, 1, 8, 1]) for R in R]
    assert_array_equal(datasets.trajectory_of(atoms).R, R)


def spectra(p: Problem) -> None:
    flux, waves = p.rng.uniform(1, 2, size=(4, 6)), np.sort(p.rng.uniform(1, 9, size=6))
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder, "s.npz"), flux=flux[:, ::-1], loglam=np.log10(waves[::-1]))
        found = datasets.load_spectra(Path(folder, "s.npz"))
    same(found.wavelengths, waves)
    same(found.flux, flux)
    same(np.linalg.norm(datasets.normalize_spectra(flux), axis=1), np.ones(4))
    same(found.normalized("mean").flux.mean(axis=1), np.ones(4))


def pictures(p: Problem) -> None:
    """What is drawn is what was found: the marks of the map, and the heights of the histogram."""
    drawn = ies_gpu.plot.embedding(p.selection, subset=(0, 1)).axes[0].collections[0].get_offsets()
    Y = p.selection.coordinates[:, :2]
    assert len(drawn) >= p.n - 2  # one stray at most in either column
    if len(drawn) == p.n:
        same(np.sort(np.asarray(drawn), axis=0), np.sort(Y / np.sqrt((Y**2).mean(axis=0)), axis=0), 1e-6)
    bars = [bar.get_height() for bar in ies_gpu.plot.volumes(p.selection).axes[0].patches[:50]]
    same(sum(bars), 100.0)
    assert ies_gpu.plot.points(p.X).axes and ies_gpu.plot.path(p.selection).axes
    assert ies_gpu.plot.set_label((0, 6)) == r"$\{\phi_{1},\, \phi_{7}\}$"


# fmt: off
CHECKS: dict[str, Callable[[Problem], None]] = {
    "get_backend": devices, "backend_of": devices, "radius_graph": radius_graph, "knn_graph": knn_graph,
    "gaussian_kernel": gaussian_kernel, "graph_laplacian": graph_laplacian, "laplacian_of_points": laplacian_of_points,
    "diffusion_map": diffusion_map, "cometric": cometric, "riemannian_metric": riemannian_metric,
    "tangent_bases": tangent_bases, "candidate_subsets": candidate_subsets, "score_subsets": score_subsets,
    "search_exhaustive": search_exhaustive, "search_greedy": search_greedy, "greedy_order": greedy_order,
    "search_submodular": search_submodular, "search_branch_and_bound": search_branch_and_bound,
    "regularization_path": regularization_path, "leave_one_out_regret": leave_one_out_regret,
    "estimate_dimension": estimate_dimension, "levina_bickel_dimension": levina_bickel_dimension,
    "two_nn_dimension": two_nn_dimension, "unexplained_variance": unexplained_variance,
    "estimate_bandwidth": estimate_bandwidth, "suggest_subset_size": suggest_subset_size,
    "select_coordinates": select_coordinates, "diagnose": diagnose, "selection_stability": selection_stability,
    "llr_ranking": llr_ranking, "procrustes_error": procrustes_error, "size_verdict": size_verdict,
    "volume_histogram": volume_histogram, "nystrom_extension": nystrom_extension, "model_of": model_of,
    "save_model": save_and_load_model, "load_model": save_and_load_model, "save": save_and_load, "load": save_and_load,
    "estimate_resources": estimate_resources, "umap_init": umap_init, "Model.transform": model_transform,
    "Model.inverse_transform": model_inverse_transform, "Selection.score": selection_score,
    "Selection.to_pandas": selection_exports, "Selection.to_json": selection_exports,
    "Selection.to_html": selection_pages, "Selection.explore": selection_pages,
    "DiffusionMap.fit": diffusion_map_fit, "IndependentCoordinates.fit": independent_coordinates_fit,
    "anndata.select": anndata, "anndata.transform": anndata, "datasets.load": load_data, "datasets.names": load_data,
    "datasets.load_molecule": molecules, "datasets.write_xyz": molecules, "datasets.trajectory_of": molecules,
    "datasets.load_spectra": spectra, "datasets.normalize_spectra": spectra,
    "datasets.pairwise_distances": pairwise_distances, "datasets.planar_angles": planar_angles,
    "datasets.torsion": torsion, "datasets.pca": pca, "plot.embedding": pictures, "plot.path": pictures,
    "plot.points": pictures, "plot.set_label": pictures, "plot.volumes": pictures,
}
# fmt: on


def check(name: str, problem: Problem) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        CHECKS[name](problem)
