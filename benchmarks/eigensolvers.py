"""``python -m benchmarks.eigensolvers [NAME ...]``: which eigensolver is chosen on graphs of many kinds.

``python -m benchmarks.eigensolvers --large``: graphs of 150,000 to 1,000,000 rows, with peaks of memory.

``python -m benchmarks.eigensolvers laplacians``: ``smallest_eigenpairs`` beside SciPy's ``eigsh`` (plain, with
``sigma=0``, and that with SuperLU in symmetric mode), LOBPCG with the inverse diagonal or pyamg before it, and SLEPc.

``--rows FILE`` appends what is measured to a file, and skips what it has; ``--table`` only prints what it has. Set
OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1 and NUMBA_NUM_THREADS=1: seconds are of the processor.

Beside it each one alone: seconds for 20 eigenvectors to 1e-8, with rows in random order, in a process of its own that
is stopped when it takes about twice as long as the best so far. Where the chosen one is far from the best, both run
again and the lower seconds count. Where crc32 of its name is divisible by 3, a graph is set aside: no threshold may be
touched for its sake. The look is all that the choice takes, but the order of the rows.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import sys
import time
import warnings
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.ndimage
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg
import scipy.spatial

from ies_gpu import diffusion_map, graph_laplacian, knn_graph, radius_graph, smallest_eigenpairs
from ies_gpu.embedding.eigensolvers import choose_solver
from ies_gpu.embedding.smallest import lowest_pair

from . import slepc
from .measure import keep, kept

MOST, MOST_LARGE = 40, 400  # processor seconds for a method
AGAIN = 1.3  # from this ratio to the best on, both are measured again
MEMORY = 12 << 30  # bytes that a process may take
METHODS = ("auto", "multilevel", "factorised", "lanczos", "arpack")  # on large graphs, in about the order of seconds
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


def curve(n: int) -> np.ndarray:
    t = R(0).uniform(0, 30, n)
    return np.column_stack([t * np.cos(t), t * np.sin(t), 3 * t]) + 0.3 * R(1).normal(size=(n, 3))


def hubs(n: int, links: int = 2) -> scipy.sparse.csr_matrix:
    """A random graph whose new nodes are tied to older ones, the more often the older they are."""
    new = np.repeat(np.arange(1, n), links)
    old = (new * R(0).uniform(size=len(new)) ** 2).astype(int)
    return joined(n, new, old)


def joined(n: int, a: np.ndarray, b: np.ndarray) -> scipy.sparse.csr_matrix:
    W = scipy.sparse.csr_matrix((np.ones(len(a)), (a, b)), shape=(n, n))
    return ((W + W.T + scipy.sparse.identity(n)) > 0).astype(float).tocsr()


def small_world(n: int, shortcuts: int) -> scipy.sparse.csr_matrix:
    """A ring of four neighbours each, and random shortcuts."""
    ring = np.arange(n)
    ends = [(ring, (ring + 1) % n), (ring, (ring + 2) % n), R(0).integers(0, n, (2, shortcuts))]
    return joined(n, *np.concatenate([np.stack(pair) for pair in ends], axis=1))


POINTS: dict[str, Callable[..., np.ndarray]] = {
    "windows": windows, "strip": strip, "roll": roll, "star": star, "bridged": lambda n, dim=2: bridged(n, dim),
    "sphere": sphere, "3-sphere": lambda n: sphere(n, 3), "torus": torus, "normal": normal, "box": box,
    "cube": lambda n: box(n, 3), "clusters": lambda n, dim=3: clusters(n, dim, 4), "outliers": outliers, "curve": curve,
}  # fmt: skip
# points by shape, number and, after "in", columns; then their graph
NAMES = """
windows 20k, degree 27; windows 20k, degree 80; windows 60k, degree 27; windows 8k, degree 40; windows 30k, 10 nearest;
windows 12k, degree 60; strip 20k, 8 nearest; strip 20k, 50 nearest; strip 60k, 15 nearest; strip 10k, degree 160;
strip 60k, degree 27; strip 60k, degree 60; strip 5k, 8 nearest; strip 8k, degree 40; strip 30k, degree 100;
strip 40k, 10 nearest; strip 50k, degree 40; roll 20k, 10 nearest; roll 30k, degree 60; roll 12k, degree 150;
roll 6k, degree 40; roll 8k, 15 nearest; roll 15k, degree 30; roll 40k, 12 nearest; roll 20k, degree 100;
star 20k, degree 60; star 8k, 10 nearest; star 30k, degree 30; star 10k, degree 120; bridged 20k, degree 40;
bridged 15k in 3, degree 60; bridged 8k in 2, 10 nearest; bridged 20k in 5, 15 nearest; bridged 10k in 4, degree 50;
sphere 10k, degree 300; sphere 30k, degree 60; sphere 8k, 10 nearest; sphere 20k, degree 30; sphere 15k, degree 120;
sphere 50k, 12 nearest; 3-sphere 10k, degree 60; 3-sphere 20k, 12 nearest; 3-sphere 8k, degree 150;
torus 40k, degree 50; torus 10k, degree 80; torus 20k, 10 nearest; torus 30k, degree 25; normal 20k in 1, degree 60;
normal 20k in 2, degree 60; normal 20k in 3, degree 60; normal 10k in 5, degree 60; normal 15k in 6, 10 nearest;
normal 5k in 20, 20 nearest; normal 10k in 2, 10 nearest; normal 30k in 2, degree 30; normal 8k in 3, degree 100;
normal 20k in 4, 15 nearest; normal 6k in 8, degree 60; normal 10k in 10, 10 nearest; normal 10k in 4, degree 40;
cube 20k, degree 40; box 10k in 5, degree 60; box 20k in 2, 8 nearest; box 40k in 2, degree 20;
box 10k in 2, degree 200; box 15k in 4, degree 50; box 20k in 3, 10 nearest; box 8k in 6, 15 nearest;
box 6k in 3, degree 120; box 30k in 3, degree 25; clusters 20k, 10 nearest; clusters 10k, degree 80;
clusters 8k in 5, 15 nearest; clusters 20k in 10, 10 nearest; clusters 6k, degree 150; outliers 20k, degree 60;
outliers 30k, 10 nearest; curve 20k, degree 30; curve 40k, 8 nearest; curve 8k, degree 100
"""


def graph_of(name: str) -> scipy.sparse.csr_matrix:
    """The graph that a name describes."""
    shape, number, *dim = name.partition(",")[0].replace("in ", "").split()
    X = POINTS[shape](int(number[:-1]) * 1000, *map(int, dim))
    left, right = name.split()[-2:]
    return near(X, int(right)) if left == "degree" else nearest(X, int(left))


ZOO: dict[str, Callable[[], scipy.sparse.csr_matrix]] = {
    name: partial(graph_of, name) for name in NAMES.replace("\n", " ").strip().split("; ")
} | {
    "grid 150 x 150": lambda: grid(150, 150),
    "grid 25 x 25 x 25": lambda: grid(25, 25, 25),
    "grid 60 x 400": lambda: grid(60, 400),
    "grid 7 x 7 x 7 x 7": lambda: grid(7, 7, 7, 7),
    "path of 20k": lambda: grid(20_000),
    "hubs, 10k": lambda: hubs(10_000),
    "random tree, 20k": lambda: hubs(20_000, 1),
    "small world, 20k, few shortcuts": lambda: small_world(20_000, 200),
    "small world, 20k, many shortcuts": lambda: small_world(20_000, 10_000),
}

LARGE = {
    name: partial(graph_of, name)
    for name in (
        "cube 150k, 12 nearest", "sphere 150k, degree 40", "windows 150k, degree 27", "normal 200k in 6, 10 nearest",
        "strip 200k, degree 60", "windows 300k, 10 nearest", "cube 300k, degree 30", "strip 500k, 15 nearest",
        "strip 1000k, 10 nearest", "sphere 1000k, 12 nearest", "cube 1000k, 10 nearest",
    )
}  # fmt: skip


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
    looks, choose = [0.0], choose_solver.Problem.first_choice

    def timed(problem: Any) -> str:
        start = time.process_time()
        chosen = choose(problem)
        looks.append(time.process_time() - start)
        return chosen

    choose_solver.Problem.first_choice = timed
    found = diffusion_map(laplacian, solver=method)
    seconds, tried = time.process_time() - begin, "fallback" in found.info
    return {"seconds": seconds, "look": sum(looks), "method": found.info["method"], "tried": tried}


def apart(work: Callable[[], dict[str, Any]], most: float) -> dict[str, Any]:
    """What work returns in a process of its own, with the bytes it took; "stopped" after so many processor seconds."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(most), math.ceil(most) + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        try:
            with open("/proc/self/statm") as held:
                before = int(held.read().split()[1]) * resource.getpagesize()
            found = work()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
            os.write(write, json.dumps(found | {"peak": peak}).encode())
        except Exception as failure:
            os.write(write, json.dumps({"method": str(failure).partition(",")[0] or type(failure).__name__}).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"method": "stopped"}


def combinatorial(W: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    return scipy.sparse.csgraph.laplacian(W - scipy.sparse.diags(W.diagonal())).tocsr()


def normalised(W: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    return scipy.sparse.csgraph.laplacian(W, normed=True).tocsr()


def mesh(n: int) -> scipy.sparse.csr_matrix:
    """The cotangent Laplacian of a triangulated sphere."""
    X = sphere(n)
    faces = scipy.spatial.ConvexHull(X).simplices
    W = scipy.sparse.csr_matrix((n, n))
    for turn in range(3):
        i, j, o = np.roll(faces, turn, axis=1).T
        u, v = X[i] - X[o], X[j] - X[o]
        cotangent = (u * v).sum(axis=1) / np.linalg.norm(np.cross(u, v), axis=1)
        W = W + scipy.sparse.coo_matrix((0.5 * cotangent, (i, j)), shape=W.shape)
    return combinatorial((W + W.T).tocsr())


LAPLACIANS: dict[str, Callable[[], scipy.sparse.csr_matrix]] = {
    "grid 200 x 200": lambda: combinatorial(grid(200, 200)),
    "grid 28 x 28 x 28": lambda: combinatorial(grid(28, 28, 28)),
    "path of 30,000": lambda: combinatorial(grid(30_000)),
    "mesh of a sphere, cotangents": lambda: mesh(30_000),
    "road-like: plane, 4 nearest": lambda: combinatorial(nearest(box(40_000, 2), 4)),
    "kernel of a strip, degree 60, normalised": lambda: normalised(near(strip(30_000), 60)),
    "kernel of a roll, 10 nearest, normalised": lambda: normalised(nearest(roll(30_000), 10)),
    "kernel of a cloud in 6, 10 nearest, normalised": lambda: normalised(nearest(normal(15_000, 6), 10)),
    "clusters, 10 nearest, combinatorial": lambda: combinatorial(nearest(clusters(20_000, 3, 4), 10)),
    "graph with hubs, normalised": lambda: normalised(hubs(10_000) - scipy.sparse.identity(10_000)),
    "three parts": lambda: combinatorial(scipy.sparse.block_diag([grid(120, 100), grid(90, 70), grid(300)])),
}


def smallest(L: scipy.sparse.csr_matrix, way: str, k: int = 10) -> dict[str, Any]:
    """Seconds and the worst residual of one way to the smallest eigenpairs, in units of the largest eigenvalue.

    All are to reach a residual of 1e-8. The matrix comes in the format that each wants, and LOBPCG is told the vector
    of the smallest eigenvalue, which ours must find.
    """
    n, scale = L.shape[0], float(abs(L).sum(axis=1).max())
    identity, sigma, eigsh = scipy.sparse.identity(n), -1e-9 * scale, scipy.sparse.linalg.eigsh  # exactly 0 is singular
    columns, shifted, turned = L.tocsc(), (L - sigma * identity).tocsc(), (scale * identity - L).tocsr()
    if way in ("lobpcg", "amg"):
        (known, value), rows = lowest_pair(L, None, 0), shifted.tocsr()
        known = known[:, None] / np.linalg.norm(known)
    begin = time.process_time()
    if way == "ours":
        found = smallest_eigenpairs(L, k)
        w, V, way = found.eigenvalues, found.vectors, found.info["method"]
    elif way == "eigsh":
        w, V = eigsh(columns, k, sigma=sigma, tol=1e-8)
    elif way == "symmetric":
        options = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
        inverse = scipy.sparse.linalg.LinearOperator((n, n), scipy.sparse.linalg.splu(shifted, **options).solve)
        w, V = eigsh(columns, k, sigma=sigma, tol=1e-8, OPinv=inverse)
    elif way == "plain":  # its tolerance is of the eigenvalue: turned round that is the scale
        w, V = eigsh(turned, k, which="LA", tol=1e-8, maxiter=100_000, ncv=40)
        w = scale - w
    elif way in ("lobpcg", "amg"):
        if way == "amg":
            import pyamg

            inverse = pyamg.smoothed_aggregation_solver(rows, B=known).aspreconditioner()
        else:
            inverse = scipy.sparse.diags(1 / np.maximum(L.diagonal(), 1e-12 * scale))
        X, stop = R(0).normal(size=(n, k - 1)), 1e-8 * scale
        w, V = scipy.sparse.linalg.lobpcg(L, X, M=inverse, Y=known, tol=stop, largest=False, maxiter=4000)
        w, V = np.append(value, w), np.hstack([known, V])
    seconds = time.process_time() - begin
    if way == "slepc":
        w, V, seconds, way = slepc.eigenpairs(L, k, sigma)
    worst = float(np.linalg.norm(L @ V - V * w, axis=0).max()) / scale
    return {"seconds": seconds, "method": way, "residual": worst, "values": sorted((w / scale).tolist())}


WAYS = {
    "ours": "ours: s, residual, method", "eigsh": "eigsh(sigma=0)", "symmetric": "the same, symmetric SuperLU",
    "plain": "eigsh, plain", "lobpcg": "LOBPCG, diagonal", "amg": "LOBPCG, pyamg", "slepc": "SLEPc: s, residual, BLAS",
}  # fmt: skip


def laplacian_row(name: str) -> dict[str, Any]:
    """All ways on one Laplacian, the lower seconds of two rounds."""
    L, found = LAPLACIANS[name](), dict[str, Any]()
    for way in 2 * list(WAYS):
        before = found.get(way, {"seconds": 0})
        if before["seconds"] < MOST / 8:
            one = {"seconds": np.inf} | apart(lambda way=way: smallest(L, way), MOST / 4)
            found[way] = min(one, found.get(way, one), key=lambda each: each["seconds"])
    return {"n": L.shape[0], "entries": L.nnz / L.shape[0], "found": found}


def print_laplacians(rows: list[dict[str, Any]]) -> None:
    """Print the table of ways to the ten smallest eigenpairs of Laplacians of many kinds."""
    print(f"| Laplacian | n | entries per row | {' | '.join(WAYS.values())} | missed by |")
    print("|---" * (len(WAYS) + 4) + "|")
    for row in rows:
        found, cells = row["found"], []
        for way, one in found.items():
            how = f", {one['method']}" if way in ("ours", "slepc") else ""
            cells.append(f"{one['seconds']:.2f}, {one['residual']:.0e}{how}" if "values" in one else one["method"])
        values = {way: np.array(one["values"]) for way, one in found.items() if "values" in one}
        most = max(map(len, values.values()))
        best = np.min([each for each in values.values() if len(each) == most], axis=0)
        # the j-th of a true subset is never below the j-th of all
        missed = [way for way, each in values.items() if len(each) < most or (each > best * 1.001 + 1e-9).any()]
        print(f"| {row['name']} | {row['n']:,} | {row['entries']:.0f} | {' | '.join(cells)} | {', '.join(missed)} |")


def zoo_row(name: str, zoo: dict[str, Callable[[], Any]], most: float) -> dict[str, Any]:
    """What each method does on one graph: the chosen one first, the others alone."""
    K, best, found = zoo[name](), most / 2, dict[str, Any]()

    def measure(method: str) -> dict[str, Any]:
        return {"seconds": np.inf} | apart(lambda: solve(K, method), min(most, 1 + 2 * best))

    for method in METHODS:
        found[method] = measure(method)
        best = min(best, *alone(found).values(), found["auto"]["seconds"])
    own = alone(found)
    if own and AGAIN * min(own.values()) < found["auto"]["seconds"] < np.inf:
        for method in ("auto", min(own, key=lambda method: own[method])):
            found[method] = min(found[method], measure(method), key=lambda one: one["seconds"])
    return {"n": K.shape[0], "entries": K.nnz / K.shape[0], "found": found}


def alone(found: dict[str, Any]) -> dict[str, float]:
    """Seconds of each method that got there itself."""
    return {key: one["seconds"] for key, one in found.items() if one["method"] == key}


def print_zoo(rows: list[dict[str, Any]]) -> None:
    """Print the table, and the median and worst ratio of those graphs that were set aside and of the others."""
    ratios: dict[bool, dict[str, float]] = {False: {}, True: {}}
    print("| graph | n | degree | chosen | " + " | ".join(METHODS) + " | ratio to the best | look | set aside |")
    print("|---" * (len(METHODS) + 7) + "|")
    for row in rows:
        name, found, auto = row["name"], row["found"], row["found"]["auto"]
        best = min(alone(found).values(), default=np.inf)
        ratio = ratios[set_aside(name)][name] = auto["seconds"] / best if best < np.inf else np.nan
        cells = [
            name,
            f"{row['n']:,}",
            f"{row['entries']:.0f}",
            auto["method"] + " after another" * auto.get("tried", 0),
        ]
        for method, one in found.items():
            gave_up = "" if one["method"] == method or method == "auto" else "no, "
            peak = f" ({one['peak'] / 1e9:.1f} GB)" if row["n"] > 100_000 and "peak" in one else ""
            cells.append(f"{gave_up}{one['seconds']:.2f}{peak}" if one["seconds"] < np.inf else one["method"])
        look = auto.get("look", 0) / min(auto["seconds"], best)
        print(f"| {' | '.join(cells)} | {ratio:.2f} | {look:.1%} | {'yes' if set_aside(name) else 'no'} |")
    for aside, values in ratios.items():
        if known := sorted((ratio, name) for name, ratio in values.items() if not np.isnan(ratio)):
            every, (worst, which) = [ratio for ratio, _ in known], known[-1]
            print(
                f"{'set aside' if aside else 'others'}: {len(values)} graphs, {len(known)} with a ratio, median ",
                end="",
            )
            print(
                f"{statistics.median(every):.2f}, worst {worst:.2f} ({which}), {sum(r > 1.5 for r in every)} above 1.5"
            )


def rows_of(
    names: list[str], measure: Callable[[str], dict[str, Any]] | None, path: str | None
) -> list[dict[str, Any]]:
    """The rows of a file, or measured."""
    rows = {row["name"]: row for row in kept(path)}
    for name in names:
        if name not in rows and measure:
            print(f"{name} ...", file=sys.stderr, flush=True)
            rows[name] = {"name": name} | measure(name)
            keep(path, rows[name])
    return [rows[name] for name in names if name in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--rows", metavar="FILE")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not options.table:
        small = near(roll(6_000), 40)
        for method in METHODS[:4]:
            solve(small, method)  # compiles
    if options.names == ["laplacians"]:
        print_laplacians(rows_of(list(LAPLACIANS), None if options.table else laplacian_row, options.rows))
        return
    zoo, most = (LARGE, MOST_LARGE) if options.large else (ZOO, MOST)
    measure = None if options.table else partial(zoo_row, zoo=zoo, most=most)
    print_zoo(rows_of(options.names or list(zoo), measure, options.rows))


if __name__ == "__main__":
    main()
