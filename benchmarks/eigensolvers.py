"""``python -m benchmarks.eigensolvers [NAME ...]``: which eigensolver is chosen on graphs of many kinds.

Beside it each one alone: processor seconds (set OMP_NUM_THREADS=1) for 20 eigenvectors to 1e-8, with rows in random
order, in a process of its own that is stopped after ``PATIENCE``. Where crc32 of its name is divisible by 3, a graph is
set aside: no threshold may be touched for its sake.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.ndimage
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg

from ies_gpu import diffusion_map, graph_laplacian, knn_graph, radius_graph

PATIENCE = 8  # processor seconds
METHODS = ("auto", "lanczos", "multilevel", "factorised", "arpack")
R = np.random.default_rng


def kernel_of(graph: scipy.sparse.csr_matrix, bandwidth: float) -> scipy.sparse.csr_matrix:
    """The Gaussian kernel of the largest part of a graph of distances, without weights that hardly count."""
    K = graph.astype(np.float64)
    K.data = np.exp(-((K.data / bandwidth) ** 2))
    K.data[K.data < 1e-9] = 0
    K.eliminate_zeros()
    K = (K + scipy.sparse.identity(K.shape[0])).tocsr()
    part = scipy.sparse.csgraph.connected_components(K)[1]
    keep = np.flatnonzero(part == np.bincount(part).argmax())
    return K[keep][:, keep].tocsr()


def near(X: np.ndarray, degree: float) -> scipy.sparse.csr_matrix:
    """A radius graph of a mean degree."""
    some = X[R(0).choice(len(X), 300, replace=False)]
    squares = (some**2).sum(axis=1)[:, None] + (X**2).sum(axis=1) - 2 * some @ X.T
    radius = float(np.sqrt(max(np.quantile(squares, min(1, degree / len(X))), 1e-12)))
    return kernel_of(radius_graph(np.ascontiguousarray(X), radius=radius), radius / 3)


def nearest(X: np.ndarray, k: int) -> scipy.sparse.csr_matrix:
    graph = knn_graph(X, n_neighbors=k)
    return kernel_of(graph, float(np.median(graph.data)))


def windows(n: int) -> np.ndarray:
    """Windows of 32 x 32 pixels that move over a smooth random image, in ten principal components."""
    rng = R(88)
    image = scipy.ndimage.gaussian_filter(rng.normal(size=(140, 330)), 4)
    x, y, step, one = rng.uniform(0, 290, n), rng.uniform(0, 100, n), np.arange(0, 32, 4), np.ones((n, 8, 8))
    at = [one * (y[:, None, None] + step[None, :, None]), one * (x[:, None, None] + step[None, None, :])]
    P = scipy.ndimage.map_coordinates(image / image.std(), at, order=1).reshape(n, -1)
    P -= P.mean(axis=0)
    return P @ np.linalg.eigh(P.T @ P)[1][:, ::-1][:, :10]


def strip(n: int) -> np.ndarray:
    return np.column_stack([R(0).uniform(0, 25, n), R(1).uniform(0, 4, n), 0.02 * R(2).normal(size=n)])


def roll(n: int) -> np.ndarray:
    t = 1.5 * np.pi * (1 + 2 * R(0).uniform(size=n))
    return np.column_stack([t * np.cos(t), 21 * R(1).uniform(size=n), t * np.sin(t)]) + 0.1 * R(2).normal(size=(n, 3))


def sphere(n: int, dim: int = 2) -> np.ndarray:
    X = R(0).normal(size=(n, dim + 1))
    return X / np.linalg.norm(X, axis=1)[:, None]


def torus(n: int) -> np.ndarray:
    s, t = R(9).uniform(0, 2 * np.pi, (2, n))
    return np.column_stack([(2 + np.cos(t)) * np.cos(s), (2 + np.cos(t)) * np.sin(s), np.sin(t)])


def normal(n: int, dim: int) -> np.ndarray:
    return R(dim).normal(size=(n, dim))


def box(n: int, dim: int) -> np.ndarray:
    return R(dim + 10).uniform(size=(n, dim))


def star(n: int, arms: int = 12) -> np.ndarray:
    ways = sphere(arms, 3)[R(3).integers(0, arms, n)]
    return 5 * R(4).uniform(size=n)[:, None] ** 0.7 * ways + 0.02 * R(5).normal(size=(n, 4))


def clusters(n: int, dim: int, apart: float, count: int = 12) -> np.ndarray:
    return apart * R(11).normal(size=(count, dim))[R(12).integers(0, count, n)] + R(13).normal(size=(n, dim))


def bridged(n: int, dim: int, count: int = 15) -> np.ndarray:
    """Clusters in a chain, joined by threads of points."""
    middles = R(4).uniform(0, 20, (count, dim))
    middles = middles[np.argsort(middles[:, 0])]
    many, few = n * 9 // 10, n // 10
    t, e = R(5).uniform(size=few)[:, None], R(6).integers(0, count - 1, few)
    threads = middles[e] * (1 - t) + middles[e + 1] * t + 0.02 * R(7).normal(size=(few, dim))
    return np.concatenate([middles[R(8).integers(0, count, many)] + 0.6 * R(9).normal(size=(many, dim)), threads])


def grid(*shape: int) -> scipy.sparse.csr_matrix:
    K: Any = scipy.sparse.identity(1)
    for m in shape:
        K = scipy.sparse.kron(K, scipy.sparse.diags([np.ones(m - 1), np.ones(m), np.ones(m - 1)], [-1, 0, 1]))
    return K.tocsr()


def outliers(n: int) -> np.ndarray:
    far = n // 500
    stray = np.column_stack([R(1).uniform(0, 25, far), R(2).uniform(0, 4, far), R(3).uniform(-0.6, 0.6, far)])
    return np.concatenate([strip(n), stray])


ZOO: dict[str, Callable[[], scipy.sparse.csr_matrix]] = {
    "windows 20k, degree 27": lambda: near(windows(20_000), 27),
    "windows 20k, degree 80": lambda: near(windows(20_000), 80),
    "windows 60k, degree 27": lambda: near(windows(60_000), 27),
    "strip 20k, 8 nearest": lambda: nearest(strip(20_000), 8),
    "strip 20k, 50 nearest": lambda: nearest(strip(20_000), 50),
    "strip 60k, 15 nearest": lambda: nearest(strip(60_000), 15),
    "strip 10k, degree 160": lambda: near(strip(10_000), 160),
    "strip 60k, degree 27": lambda: near(strip(60_000), 27),
    "strip 60k, degree 60": lambda: near(strip(60_000), 60),
    "roll 20k, 10 nearest": lambda: nearest(roll(20_000), 10),
    "roll 30k, degree 60": lambda: near(roll(30_000), 60),
    "roll 12k, degree 150": lambda: near(roll(12_000), 150),
    "star 20k, degree 60": lambda: near(star(20_000), 60),
    "bridged 20k, degree 40": lambda: near(bridged(20_000, 2), 40),
    "bridged 15k in 3, degree 60": lambda: near(bridged(15_000, 3), 60),
    "sphere 10k, degree 300": lambda: near(sphere(10_000), 300),
    "sphere 30k, degree 60": lambda: near(sphere(30_000), 60),
    "3-sphere 10k, degree 60": lambda: near(sphere(10_000, 3), 60),
    "torus 40k, degree 50": lambda: near(torus(40_000), 50),
    "normal 20k in 1, degree 60": lambda: near(normal(20_000, 1), 60),
    "normal 20k in 2, degree 60": lambda: near(normal(20_000, 2), 60),
    "normal 20k in 3, degree 60": lambda: near(normal(20_000, 3), 60),
    "normal 10k in 5, degree 60": lambda: near(normal(10_000, 5), 60),
    "normal 15k in 6, 10 nearest": lambda: nearest(normal(15_000, 6), 10),
    "normal 5k in 20, 20 nearest": lambda: nearest(normal(5_000, 20), 20),
    "cube 20k, degree 40": lambda: near(box(20_000, 3), 40),
    "box 10k in 5, degree 60": lambda: near(box(10_000, 5), 60),
    "clusters 20k, 10 nearest": lambda: nearest(clusters(20_000, 3, 4), 10),
    "clusters 10k, degree 80": lambda: near(clusters(10_000, 3, 4), 80),
    "grid 150 x 150": lambda: grid(150, 150),
    "grid 25 x 25 x 25": lambda: grid(25, 25, 25),
    "strip 20k with outliers, degree 60": lambda: near(outliers(20_000), 60),
    "roll 6k, degree 40": lambda: near(roll(6_000), 40),
}


def set_aside(name: str) -> bool:
    return zlib.crc32(name.encode()) % 3 == 0


def solve(K: scipy.sparse.csr_matrix, method: str) -> dict[str, Any]:
    """Seconds of one method, and what it says."""
    laplacian = graph_laplacian(K)
    begin = time.process_time()
    if method == "arpack":
        root = np.sqrt(laplacian.weights)
        S = (scipy.sparse.diags(root) @ laplacian.transition @ scipy.sparse.diags(1 / root)).tocsr()
        begin = time.process_time()
        scipy.sparse.linalg.eigsh(S, 21, which="LA", tol=1e-8, maxiter=100_000)
        return {"seconds": time.process_time() - begin, "method": "arpack"}
    found = diffusion_map(laplacian, solver=method)
    return {"seconds": time.process_time() - begin, "method": found.info["method"], "tried": "fallback" in found.info}


def apart(K: scipy.sparse.csr_matrix, method: str) -> dict[str, Any]:
    """The same in a process of its own, which is stopped when it takes too long."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE + 1))
        try:
            os.write(write, json.dumps(solve(K, method)).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"seconds": np.inf, "method": method}


def main(names: list[str]) -> None:
    """Print the table, and the median and worst ratio of those graphs that were set aside and of the others."""
    warnings.simplefilter("ignore")
    small = near(roll(2_000), 40)
    for method in METHODS[1:4]:
        solve(small, method)  # compiles
    ratios: dict[bool, list[float]] = {False: [], True: []}
    print("| graph | n | degree | chosen | " + " | ".join(METHODS) + " | ratio to the best | set aside |")
    print("|---" * (len(METHODS) + 6) + "|")
    for name in names or ZOO:
        K = ZOO[name]()
        found = {method: apart(K, method) for method in METHODS}
        # alone, a method counts only if it got there itself
        alone = [one["seconds"] for key, one in found.items() if key != "auto" and one["method"] == key]
        ratio = found["auto"]["seconds"] / min(alone, default=np.inf)
        ratios[set_aside(name)].append(ratio)
        cells = [
            f"{one['seconds']:.2f}" if one["method"] == key or key == "auto" else f"no, {one['seconds']:.1f}"
            for key, one in found.items()
        ]
        chosen = found["auto"]["method"] + (" after another" if found["auto"].get("tried") else "")
        n = K.shape[0]
        print(f"| {name} | {n:,} | {K.nnz / n:.0f} | {chosen} | {' | '.join(cells)} | {ratio:.2f} | ", end="")
        print(f"{'yes' if set_aside(name) else 'no'} |", flush=True)
    for aside, values in ratios.items():
        known = [value for value in values if np.isfinite(value)]
        if known:
            kind = "set aside" if aside else "others"
            print(f"{kind}: {len(values)} graphs, median {statistics.median(known):.2f}, worst {max(known):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
