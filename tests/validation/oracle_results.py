"""The whole pipeline and what is made of its result, computed again."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse.csgraph
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

import ies_gpu
from ies_gpu.backend import get_backend
from ies_gpu.resources import estimate_resources
from tests.extension import nystrom_extension
from tests.validation.oracle_problem import Problem, log_volumes, same
from tests.validation.oracle_steps import check_best, check_pairs, unexplained

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


def select_each_part(p: Problem) -> None:
    """A part far away has the map that it has alone."""
    both = np.concatenate([p.X, p.X + 1e3 * p.radius])
    parts = ies_gpu.select_each_part(both, **p.kernel_options, **p.sizes, device="cpu")
    assert {tuple(part.points) for part in parts} == {tuple(range(p.n)), tuple(range(p.n, 2 * p.n))}
    for part in parts:
        assert_allclose(part.eigenvalues, p.selection.eigenvalues, rtol=1e-6, atol=1e-9)


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


def check_nystrom_extension(p: Problem) -> None:
    given = (p.X, p.selection.coordinates, p.selection.eigenvalues)
    check_extension(p, lambda new: nystrom_extension(new, *given, **p.kernel_options), range(p.m))


def selection_model(p: Problem) -> None:
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


def round_trip(value: Any, names: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        value.save(Path(folder, "file.npz"))
        again = ies_gpu.load(Path(folder, "file.npz"))
    for name in names:
        assert_array_equal(getattr(again, name), getattr(value, name))


def saved_selection(p: Problem) -> None:
    names = ("subset", "zeta", "coordinates", "eigenvalues", "regrets", "bases", "singular_values", "log_volumes")
    round_trip(p.selection, names)


def saved_model(p: Problem) -> None:
    names = ("X", "degrees", "coordinates", "eigenvalues", "bandwidth", "radius", "subset", "alpha")
    round_trip(p.model, names)


def selection_score(p: Problem) -> None:
    chosen = p.sets[-1]
    assert_allclose(p.selection.score(chosen), log_volumes(p.selection.bases, chosen), atol=1e-7)


def selection_exports(p: Problem) -> None:
    frame, text = p.selection.to_pandas(), json.loads(p.selection.to_json())
    same(frame.to_numpy(), p.selection.embedding)
    same(text["eigenvalues"], p.selection.eigenvalues)
    assert tuple(text["subset"]) == p.selection.subset


def selection_pages(p: Problem) -> None:
    with tempfile.TemporaryDirectory() as folder:
        p.selection.to_html(Path(folder, "page.html"), title="a <b> & c")
        text = Path(folder, "page.html").read_text(encoding="utf-8")
    assert "a &lt;b&gt; &amp; c" in text and "<b> & c" not in text.replace("\\u003c", "")
    assert p.selection.explore() is not None


def diagnose(p: Problem) -> None:
    found = ies_gpu.diagnose(p.selection, laplacian=p.L)
    assert found.subset == p.selection.subset and len(found.collapse) == p.n
    assert np.isfinite(found.collapse).all()
    assert_allclose(found.volumes, np.exp(log_volumes(p.selection.bases, p.selection.subset)), atol=1e-6)


def selection_stability(p: Problem) -> None:
    found = ies_gpu.selection_stability(p.selection, X=p.X, n_refits=2, share=0.999)
    assert found.refits == {p.selection.subset: 1.0} and found.failed_refits == 0  # a sample of all is the sample


def umap_init(p: Problem) -> None:
    found = ies_gpu.umap_init(p.selection, subset=(0, 1))
    Y = p.selection.coordinates[:, :2]
    assert_allclose(found, 10 * Y / np.abs(Y).max(), atol=2e-3)


def check_estimate_resources(p: Problem) -> None:
    """More points never need less."""
    small, large = (estimate_resources(n=n * 1000, dim=3, degree=50.0) for n in (p.n, 2 * p.n))
    assert large.peak_bytes > small.peak_bytes > 0


def devices(p: Problem) -> None:
    assert get_backend("cpu").device == ies_gpu.backend_of(p.X).device == "cpu"


def anndata(p: Problem) -> None:
    found = ies_gpu.anndata.select(p.cells, **p.kernel_options, **p.sizes, device="cpu")
    assert found.subset == p.selection.subset
    same(p.cells.obsm["X_ies"], found.embedding)
