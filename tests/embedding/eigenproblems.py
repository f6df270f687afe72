"""Kernels of graphs of all kinds, easy and hard, and their eigenvalues by other means than ours.

Eigenvalues of a graph of up to 1,500 points come from dense algebra. Those of larger ones come from SciPy's
shift-inverted ARPACK, and Sylvester's law of inertia then counts how many there are above the last: none is missed.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

DENSE = 1500


class Problem(NamedTuple):
    name: str
    kernel: scipy.sparse.csr_matrix
    count: int


def largest_part(K: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    parts, labels = connected_components(K, directed=False)
    if parts == 1:
        return K
    rows = np.flatnonzero(labels == np.bincount(labels).argmax())
    return K[rows][:, rows].tocsr()


def of_edges(n: int, a: np.ndarray, b: np.ndarray, weights: np.ndarray | float = 1.0) -> scipy.sparse.csr_matrix:
    """Unit self-loops and the given edges, in both directions."""
    K = scipy.sparse.csr_matrix((np.ones(len(a)) * weights, (a, b)), shape=(n, n))
    return (K.maximum(K.T) + scipy.sparse.identity(n)).tocsr()


def nearest(X: np.ndarray, k: int) -> scipy.sparse.csr_matrix:
    n = len(X)
    distance, j = KDTree(X).query(X, k + 1)
    scale = np.median(distance[:, -1])
    weights = np.maximum(np.exp(-((distance[:, 1:] / scale) ** 2)), 1e-6).ravel()
    return largest_part(of_edges(n, np.repeat(np.arange(n), k), j[:, 1:].ravel(), weights))


def within(X: np.ndarray, degree: float) -> scipy.sparse.csr_matrix:
    tree = KDTree(X)
    radius = np.median(tree.query(X[:50], int(degree) + 1)[0][:, -1])
    pairs = tree.query_pairs(radius, output_type="ndarray")
    squares = ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(axis=1)
    return largest_part(of_edges(len(X), *pairs.T, np.exp(-9 * squares / radius**2)))


def box(rng: np.random.Generator, n: int, *sides: float) -> np.ndarray:
    return rng.uniform(0, 1, (n, len(sides))) * sides


def joined(rng: np.random.Generator, parts: list[scipy.sparse.csr_matrix], weight: float) -> scipy.sparse.csr_matrix:
    """Parts in a row, each tied to the next by one edge of a given weight."""
    K = scipy.sparse.block_diag(parts, format="lil")
    ends = np.cumsum([0] + [part.shape[0] for part in parts])
    for left in range(len(parts) - 1):
        a, b = rng.integers(ends[left], ends[left + 1]), rng.integers(ends[left + 1], ends[left + 2])
        K[a, b] = K[b, a] = weight
    return K.tocsr()


def grid(rng: np.random.Generator, sides: tuple[int, ...], around: bool) -> scipy.sparse.csr_matrix:
    """A grid, or one that closes around: exact symmetry, so that eigenvalues come several times."""
    places = np.arange(int(np.prod(sides))).reshape(sides)
    edges = []
    for axis, side in enumerate(sides):
        shifted = np.roll(places, -1, axis=axis)
        keep = slice(None) if around else slice(0, side - 1)
        part = (slice(None),) * axis + (keep,)
        edges.append(np.stack([places[part].ravel(), shifted[part].ravel()]))
    a, b = np.concatenate(edges, axis=1)
    shuffle = rng.permutation(places.size)
    return of_edges(places.size, shuffle[a], shuffle[b])


def knn_graph(rng: np.random.Generator, n: int) -> scipy.sparse.csr_matrix:
    sides = rng.uniform(1, 4, rng.integers(1, 6))
    return nearest(box(rng, n, *sides), int(rng.integers(6, 31)))


def radius_graph(rng: np.random.Generator, n: int) -> scipy.sparse.csr_matrix:
    n = min(n, 3000)
    return within(box(rng, n, *rng.uniform(1, 6, 2)), float(np.exp(rng.uniform(np.log(20), np.log(min(600, n / 2))))))


def threads(rng: np.random.Generator, n: int) -> scipy.sparse.csr_matrix:
    count = int(rng.integers(2, 5))
    parts = [nearest(box(rng, n // count, 1, 1), int(rng.integers(6, 16))) for _ in range(count)]
    return joined(rng, parts, 10.0 ** rng.uniform(-4, 0))


def duplicates(rng: np.random.Generator, n: int) -> scipy.sparse.csr_matrix:
    X = box(rng, n // 3, 3, 1)
    return nearest(np.concatenate([X, X, X[: n // 4]]), int(rng.integers(10, 31)))


def hubs(rng: np.random.Generator, n: int) -> scipy.sparse.csr_matrix:
    K = nearest(box(rng, n, 4, 1), int(rng.integers(6, 12))).tolil()
    for hub in rng.integers(0, K.shape[0], 3):
        spokes = rng.integers(0, K.shape[0], n // 10)
        K[hub, spokes] = 0.5
        K[spokes, hub] = 0.5
    return K.tocsr()


def star(rng: np.random.Generator, n: int) -> scipy.sparse.csr_matrix:
    """One eigenvalue almost n times; with long rays, one for each ray. So many copies only dense algebra can count."""
    n = min(n, DENSE)
    rays = int(rng.integers(3, n // 2))
    nodes = np.arange(1, n)
    return of_edges(n, nodes, np.where(nodes <= rays, 0, nodes - rays))


def path(rng: np.random.Generator, n: int) -> scipy.sparse.csr_matrix:
    i = rng.permutation(n)
    return of_edges(n, i[:-1], i[1:], rng.uniform(0.2, 1, n - 1))


def tree(rng: np.random.Generator, n: int) -> scipy.sparse.csr_matrix:
    n = min(n, DENSE)  # many leaves on one node are as many copies
    nodes = np.arange(1, n)
    parents = (nodes * rng.uniform(0, 1, n - 1) ** rng.uniform(0.1, 2)).astype(int)
    return of_edges(n, nodes, np.minimum(parents, nodes - 1), rng.uniform(0.2, 1, n - 1))


def expander(rng: np.random.Generator, n: int) -> scipy.sparse.csr_matrix:
    half = int(rng.integers(3, 8))
    ends = np.concatenate([rng.permutation(n) for _ in range(half)])
    return largest_part(of_edges(n, np.tile(np.arange(n), half), ends))


def barbell(rng: np.random.Generator, n: int) -> scipy.sparse.csr_matrix:
    bells = [nearest(box(rng, n // 3, 1, 1), int(rng.integers(6, 20))) for _ in range(2)]
    return joined(rng, [bells[0], path(rng, n // 3), bells[1]], 1.0)


def long_strip(rng: np.random.Generator, n: int) -> scipy.sparse.csr_matrix:
    """So long that the first eigenvalues are near 1e-7."""
    return nearest(box(rng, n, rng.uniform(50, 400), 1), int(rng.integers(6, 15)))


KINDS: dict[str, Callable[[np.random.Generator, int], scipy.sparse.csr_matrix]] = {
    "knn": knn_graph,
    "radius": radius_graph,
    "threads": threads,
    "square grid": lambda rng, n: grid(rng, (int(n**0.5),) * 2, False),
    "flat torus": lambda rng, n: grid(rng, (int(n**0.5),) * 2, True),
    "cube": lambda rng, n: grid(rng, (int(n ** (1 / 3)),) * 3, bool(rng.integers(2))),
    "duplicates": duplicates,
    "hubs": hubs,
    "star": star,
    "path": path,
    "tree": tree,
    "expander": expander,
    "barbell": barbell,
    "long strip": long_strip,
}


def problem(kind: str, seed: int, low: int, high: int) -> Problem:
    """One of the problems of a kind, of ``low`` to ``high`` points."""
    rng = np.random.default_rng([seed, *kind.encode()])
    K = KINDS[kind](rng, int(np.exp(rng.uniform(np.log(low), np.log(high)))))
    K.sort_indices()
    return Problem(f"{kind} {seed}", K, int(rng.integers(3, 25)))


def symmetric(K: scipy.sparse.csr_matrix) -> tuple[scipy.sparse.csc_matrix, np.ndarray]:
    """S and the root of its weights, from the kernel by the formulas of the paper."""
    w = np.asarray(K.sum(axis=1)).ravel()
    L = scipy.sparse.diags(1 / w) @ K @ scipy.sparse.diags(1 / w)
    root = np.sqrt(np.asarray(L.sum(axis=1)).ravel())
    return (scipy.sparse.diags(1 / root) @ L @ scipy.sparse.diags(1 / root)).tocsc(), root


def above(S: scipy.sparse.csc_matrix, value: float) -> int:
    """How many eigenvalues of S are larger than a value: the negative pivots of ``value - S``."""
    shifted = (value * scipy.sparse.identity(S.shape[0]) - S).tocsc()
    factor = scipy.sparse.linalg.splu(
        shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    assert (factor.perm_r == factor.perm_c).all()  # or the signs of the pivots would mean nothing
    return int((factor.U.diagonal() < 0).sum())


def distances_from_one(S: scipy.sparse.csc_matrix, count: int) -> np.ndarray:
    """The ``count`` smallest ``1 - mu``, the zero first."""
    n = S.shape[0]
    if n <= DENSE:
        return 1 - np.linalg.eigvalsh(S.toarray())[::-1][:count]
    values = scipy.sparse.linalg.eigsh(
        S, min(count + 30, n - 2), sigma=1 + 1e-6, which="LM", return_eigenvectors=False,
        v0=np.random.default_rng(0).normal(size=n),
    )  # fmt: skip
    return 1 - np.sort(values)[::-1][:count]
