"""Eigenpairs of a user's own graph or kernel, whose rows stand in no order, against ARPACK and other programs."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from threadpoolctl import threadpool_limits

from ies_gpu import diffusion_map, gaussian_kernel, graph_laplacian, knn_graph, radius_graph

from .measure import seconds
from .problems import strip
from .stages import PATIENCE, STOPPED, Row, arpack, residual_in_words, row

N = 100_000


def kernel_of(n: int, neighbours: int | None) -> scipy.sparse.csr_matrix:
    """The kernel of a strip in random order: of a radius graph of degree 160, or of nearest neighbours."""
    X, bandwidth = strip(n)
    if neighbours is None:
        return gaussian_kernel(radius_graph(X, radius=3 * bandwidth), bandwidth=bandwidth)
    graph = knn_graph(X, n_neighbors=neighbours)
    return gaussian_kernel(graph, bandwidth=float(np.median(graph.data)))


def against_arpack(neighbours: int | None, name: str, goal: float) -> list[Row]:
    """Laplacian and 20 eigenvectors, the order included, against ARPACK on the symmetric matrix as it was given."""
    diffusion_map(graph_laplacian(kernel_of(8_000, neighbours)))  # compiles
    kernel = kernel_of(N, neighbours)
    mine, found = seconds(lambda: diffusion_map(graph_laplacian(kernel)))
    laplacian = graph_laplacian(kernel)
    root = np.sqrt(laplacian.weights)
    S = (scipy.sparse.diags(root) @ laplacian.transition @ scipy.sparse.diags(1 / root)).tocsr()
    with threadpool_limits(1):
        theirs, values = arpack(S)
    assert values is None or np.abs(1 - values[1:] - found.eigenvalues).max() < 1e-10
    stage = f"Laplacian and 21 eigenpairs, {name}, n={N:,}"
    more = {"method": found.info["method"]} | ({"reason": STOPPED} if values is None else {})
    rows = [row(stage, "scipy eigsh, 1 thread", mine, theirs, goal, **more)]
    return rows + ([] if neighbours is None else [against_amg(kernel, stage, mine), against_multigrid(S, stage, mine)])


def against_amg(kernel: scipy.sparse.csr_matrix, stage: str, mine: float) -> Row:
    """scikit-learn's spectral embedding with its multigrid solver, which stops at a tolerance of its own."""
    try:
        import pyamg  # noqa: F401
        from sklearn.manifold import spectral_embedding
    except ImportError as missing:
        return row(stage, "scikit-learn, amg", mine, None, 4, reason=f"not run: {missing}")
    with threadpool_limits(1):
        theirs, vectors = seconds(
            lambda: spectral_embedding(kernel, n_components=20, eigen_solver="amg", random_state=0, drop_first=True)
        )
    return row(stage, "scikit-learn, amg", mine, theirs, 4, reason=residual_in_words(kernel, vectors))


def against_multigrid(S: scipy.sparse.csr_matrix, stage: str, mine: float) -> Row:
    """What ``amg`` is made of, pyamg and SciPy's LOBPCG, on the same matrix and with time to reach our residual."""
    peer = "scipy lobpcg with pyamg, to 1e-8"
    try:
        import pyamg
    except ImportError as missing:
        return row(stage, peer, mine, None, 4, reason=f"not run: {missing}")
    n = S.shape[0]
    L = (scipy.sparse.identity(n) - S).tocsr()
    start = np.random.default_rng(0).normal(size=(n, 21))

    def solve() -> str | None:
        cycle = pyamg.smoothed_aggregation_solver((L + 1e-5 * scipy.sparse.identity(n)).tocsr()).aspreconditioner()
        end = time.perf_counter() + PATIENCE

        def precondition(block: np.ndarray) -> np.ndarray:
            if time.perf_counter() > end:
                raise TimeoutError
            return cycle @ block

        M = scipy.sparse.linalg.LinearOperator(L.shape, matvec=precondition, matmat=precondition, dtype=np.float64)
        try:
            values, vectors = scipy.sparse.linalg.lobpcg(L, start, M=M, tol=1e-8, maxiter=5_000, largest=False)
        except TimeoutError:
            return STOPPED
        return f"residual {np.linalg.norm(L @ vectors - vectors * values, axis=0).max():.1g}"

    with threadpool_limits(1):
        theirs, reason = seconds(solve)
    return row(stage, peer, mine, theirs, 4, reason=reason)


def unordered_kernel() -> list[Row]:
    return against_arpack(None, "kernel of degree 160 in random order", 5)


def neighbours_15() -> list[Row]:
    return against_arpack(15, "15 nearest neighbours", 4)


def neighbours_30() -> list[Row]:
    return against_arpack(30, "30 nearest neighbours", 4)


def scanpy_diffmap() -> list[Row]:
    """scanpy's ``tl.diffmap`` on the same graph of 15 neighbours; 15 components, as it has by default."""
    stage = f"diffusion map of 15 nearest neighbours, n={N:,}"
    diffusion_map(graph_laplacian(kernel_of(8_000, 15)))  # compiles
    kernel = kernel_of(N, 15)
    mine, found = seconds(lambda: diffusion_map(graph_laplacian(kernel), n_components=14))
    try:
        import anndata
        import scanpy
    except ImportError as missing:
        return [row(stage, "scanpy tl.diffmap", mine, None, 4, reason=f"not run: {missing}")]
    cells: Any = anndata.AnnData(np.zeros((N, 1), dtype=np.float32))
    cells.obsp["connectivities"] = cells.obsp["distances"] = kernel
    keys = {"connectivities_key": "connectivities", "distances_key": "distances"}
    cells.uns["neighbors"] = keys | {"params": {"n_neighbors": 15, "method": "umap"}}
    with threadpool_limits(1):
        theirs, _ = seconds(lambda: scanpy.tl.diffmap(cells, n_comps=15))
    off = np.abs(1 - cells.uns["diffmap_evals"][1:] - found.eigenvalues).max()
    return [row(stage, "scanpy tl.diffmap", mine, theirs, 4, method=found.info["method"], difference=float(off))]


ALL = {
    "unordered_kernel": unordered_kernel,
    "neighbours_15": neighbours_15,
    "neighbours_30": neighbours_30,
    "scanpy_diffmap": scanpy_diffmap,
}
