"""The smallest eigenpairs of Laplacians of all kinds, by closed forms and by dense algebra."""

import warnings
from itertools import product as product_of
from math import comb

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.csgraph import laplacian as laplacian_of
from scipy.spatial import KDTree

from ies_gpu import smallest_eigenpairs
from ies_gpu.embedding.eigensolvers import factorised
from ies_gpu.embedding.eigensolvers.choose_solver import SOLVERS
from tests.said import refused

METHODS = ["auto", "lanczos", "factorised"]  # and one more, on a graph large enough for it


def ring(m: int) -> scipy.sparse.csr_matrix:
    A = scipy.sparse.diags([np.ones(m - 1)], [1], shape=(m, m), format="lil")
    A[0, m - 1] = 1
    return (A + A.T).tocsr()


def line(m: int) -> scipy.sparse.csr_matrix:
    return scipy.sparse.diags([np.ones(m - 1), np.ones(m - 1)], [-1, 1], format="csr")


def product(*parts: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """The Laplacian of a product of graphs, whose eigenvalues are sums of those of the factors; rows shuffled."""
    L = laplacian_of(parts[0])
    for part in parts[1:]:
        L = scipy.sparse.kronsum(L, laplacian_of(part))
    shuffle = np.random.default_rng(0).permutation(L.shape[0])
    return L.tocsr()[shuffle][:, shuffle]


def of_ring(m: int) -> np.ndarray:
    return 2 - 2 * np.cos(2 * np.pi * np.arange(m) / m)


def of_line(m: int) -> np.ndarray:
    return 2 - 2 * np.cos(np.pi * np.arange(m) / m)


def sums(*values: np.ndarray) -> np.ndarray:
    return np.sort(sum(np.meshgrid(*values)).ravel())


def multiplicities(values: np.ndarray, k: int) -> np.ndarray:
    """How often each of the first k values is among them, to nine digits of the largest."""
    rounded = (values[:k] / values[-1]).round(9)
    return (rounded[:, None] == rounded).sum(axis=0)


def kernel(n: int, dim: int = 2, seed: int = 0) -> scipy.sparse.csr_matrix:
    """Weights of a connected graph of random points, as different as those of kernels are."""
    X = np.random.default_rng(seed).uniform(size=(n, dim))
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    near = np.sort(squares, axis=1)[:, 9]
    W = np.where(squares <= np.maximum(near[:, None], near), np.exp(-squares / np.median(near)), 0.0)
    np.fill_diagonal(W, 0.0)
    W[np.arange(n - 1), np.arange(1, n)] += 1e-3
    return scipy.sparse.csr_matrix(np.maximum(W, W.T))


def check(L: scipy.sparse.csr_matrix, found, exact: np.ndarray, tol: float = 1e-8) -> None:
    """Eigenvalues are the exact ones, vectors orthonormal eigenvectors, and what is said of them is true."""
    k, scale = len(found.eigenvalues), abs(L).sum(axis=1).max()
    assert found.eigenvalues == pytest.approx(exact[:k], abs=1e-10 * scale)
    V = found.vectors
    assert np.abs(V.T @ V - np.eye(k)).max() < 1e-8
    residuals = np.linalg.norm(L @ V - V * found.eigenvalues, axis=0)
    assert residuals.max() <= tol * scale
    assert found.residuals == pytest.approx(residuals, abs=1e-12 * scale)
    assert (found.angles < 0.01).all()


CLOSED = {
    "ring": (lambda: product(ring(700)), lambda: np.sort(of_ring(700))),
    "path": (lambda: product(line(1500)), lambda: of_line(1500)),
    "grid": (lambda: product(line(40), line(40)), lambda: sums(of_line(40), of_line(40))),
    "torus": (lambda: product(ring(40), ring(40)), lambda: sums(of_ring(40), of_ring(40))),
    "cube": (lambda: product(ring(12), ring(12), ring(12)), lambda: sums(of_ring(12), of_ring(12), of_ring(12))),
}


@pytest.mark.parametrize(
    ("name", "solver"), [pair for pair in product_of(CLOSED, METHODS) if pair != ("path", "lanczos")]
)
def test_combinatorial_laplacians_have_the_eigenvalues_of_their_closed_forms(name, solver):
    L, exact = (part() for part in CLOSED[name])
    found = smallest_eigenpairs(L, 15, solver=solver)
    check(L, found, exact)
    assert (found.multiplicities == multiplicities(exact, 15)).all()
    assert found.info["method"] == solver or solver == "auto"
    gaps = [abs(exact[j] - exact[abs(exact - exact[j]) > 1e-9 * exact[-1]]).min() for j in range(15)]
    assert found.gaps[:12] == pytest.approx(gaps[:12], rel=1e-5)


def hypercube(d: int) -> scipy.sparse.csr_matrix:
    return product(*[line(2)] * d)


def complete_bipartite(a: int, b: int) -> scipy.sparse.csr_matrix:
    return laplacian_of(scipy.sparse.bmat([[None, np.ones((a, b))], [np.ones((b, a)), None]], format="csr"))


def die(m: int) -> scipy.sparse.csr_matrix:
    """Points of a lattice on the surface of a cube: a sphere with the 48 symmetries of an octahedron."""
    X = np.stack(np.meshgrid(*[np.arange(-m, m + 1)] * 3), axis=-1).reshape(-1, 3)
    A = KDTree(X := X[abs(X).max(axis=1) == m]).sparse_distance_matrix(KDTree(X), 1.1)
    return laplacian_of(A.tocsr())


COPIES = {
    "cube": (30, lambda: product(*[line(20)] * 3), lambda: sums(*[of_line(20)] * 3)),
    "torus": (30, lambda: product(*[ring(80)] * 2), lambda: sums(*[of_ring(80)] * 2)),
    "hypercube": (56, lambda: hypercube(10), lambda: np.repeat(2.0 * np.arange(11), [comb(10, j) for j in range(11)])),
    "bipartite": (15, lambda: complete_bipartite(3, 2000), lambda: np.repeat([0.0, 3, 2000, 2003], [1, 1999, 2, 1])),
    "sphere": (25, lambda: die(7), lambda: np.linalg.eigvalsh(die(7).toarray())),
}


@pytest.mark.thorough
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", COPIES)
def test_no_copy_of_a_multiple_eigenvalue_is_missed(name, solver):
    """Six, eight, 45 and 1,999 copies: more than any block or number of guards."""
    k, make, closed = COPIES[name]
    L, exact = make(), closed()
    found = smallest_eigenpairs(L, k, solver=solver)
    check(L, found, exact)
    assert (found.multiplicities == multiplicities(exact, k)).all()
    assert found.info["method"] == solver or solver in ("auto", "multilevel")  # which may hand over, and says so


@pytest.mark.parametrize("solver", ["auto", "lanczos", "factorised"])
def test_the_smallest_alone_has_the_gap_of_the_closed_form(solver):
    found = smallest_eigenpairs(laplacian_of(line(900)), 1, solver=solver)
    assert abs(found.eigenvalues[0]) < 1e-12
    np.testing.assert_allclose(found.gaps, 2 - 2 * np.cos(np.pi / 900), rtol=1e-6)


def test_more_pairs_than_is_usual_need_not_be_given_up(monkeypatch):
    monkeypatch.setattr(factorised, "MOST_SOLVES", 60)
    found = smallest_eigenpairs(laplacian_of(line(500)), 100, solver="factorised")
    np.testing.assert_allclose(found.eigenvalues, 2 - 2 * np.cos(np.pi * np.arange(100) / 500), atol=1e-12)
    assert found.info["method"] == "factorised"


def test_the_multilevel_method_is_taken_if_it_is_asked_for():
    L = product(line(120), line(60))
    found = smallest_eigenpairs(L, 8, solver="multilevel")
    check(L, found, sums(of_line(120), of_line(60)))
    assert found.info["method"] == "multilevel"


@pytest.mark.parametrize("n", [150, 900])
@pytest.mark.parametrize("given", [True, False])
def test_a_normalised_laplacian_of_a_weighted_graph(n, given):
    L, root = laplacian_of(kernel(n), normed=True, return_diag=True)
    found = smallest_eigenpairs(L, 10, null=root if given else None)
    check(L, found, np.linalg.eigvalsh(L.toarray()))
    assert abs(found.vectors[:, 0] @ root) == pytest.approx(np.linalg.norm(root), rel=1e-9)


def test_a_rough_guard_hides_no_eigenvector_that_was_missed():
    """Four random blocks that hang by links of weight 1e-3: the 59th of 60 vectors was within the eight guards."""
    rng, A = np.random.default_rng(1), np.zeros((420, 420))
    for first in range(0, 420, 105):
        block = np.triu(rng.random((105, 105)) < 0.1, 1).astype(float)
        A[first : first + 105, first : first + 105] = block + block.T
        k = np.arange(first, first + 104)
        A[k, k + 1] = A[k + 1, k] = 1
    for first in range(0, 315, 105):
        A[first, first + 105] = A[first + 105, first] = 1e-3
    L = laplacian_of(scipy.sparse.csr_matrix(A), normed=True)
    found = smallest_eigenpairs(L, 60, tol=1e-4, solver="lanczos", random_state=0)
    np.testing.assert_allclose(found.eigenvalues, np.linalg.eigvalsh(L.toarray())[:60], rtol=0, atol=1e-6)


@pytest.mark.parametrize("sides", [(11, 11), (45, 45), (1000, 5)])
def test_dirichlet_conditions_leave_no_zero(sides):
    """On a long strip the lowest eigenvalues are close together, and far from 0."""
    one, other = (scipy.sparse.diags([-np.ones(m - 1), 2 * np.ones(m), -np.ones(m - 1)], [-1, 0, 1]) for m in sides)
    L = scipy.sparse.kronsum(one, other).tocsr()
    found = smallest_eigenpairs(L, 6)
    check(L, found, sums(*(2 - 2 * np.cos(np.pi * np.arange(1, m + 1) / (m + 1)) for m in sides)))
    assert found.multiplicities.tolist() == ([1, 2, 2, 1, 2, 2] if sides[0] == sides[1] else [1] * 6)


def test_a_mesh_whose_obtuse_angles_give_weights_of_either_sign():
    X = np.stack(np.meshgrid(np.arange(30) * 1.0, np.arange(30) * 0.3), axis=-1).reshape(-1, 2)
    X += np.random.default_rng(0).uniform(-0.1, 0.1, X.shape)
    a = np.arange(900).reshape(30, 30)
    faces = np.concatenate(
        [np.stack([a[:-1, :-1], a[1:, :-1], a[:-1, 1:]], -1), np.stack([a[1:, 1:], a[:-1, 1:], a[1:, :-1]], -1)]
    )
    faces = faces.reshape(-1, 3)
    W = scipy.sparse.csr_matrix((900, 900))
    for turn in range(3):
        i, j, o = np.roll(faces, turn, axis=1).T
        u, v = X[i] - X[o], X[j] - X[o]
        cotangent = (u * v).sum(axis=1) / abs(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0])
        W = W + scipy.sparse.coo_matrix((0.5 * cotangent, (i, j)), shape=W.shape)
    W = (W + W.T).tocsr()
    assert (W.data < -0.01).any()
    L = (scipy.sparse.diags(np.asarray(W.sum(axis=1)).ravel()) - W).tocsr()
    found = smallest_eigenpairs(L, 12)
    check(L, found, np.linalg.eigvalsh(L.toarray()))


def test_what_is_no_symmetric_laplacian_is_refused():
    L = laplacian_of(kernel(60))
    walk = scipy.sparse.diags(1 / L.diagonal()) @ L
    indefinite = scipy.sparse.csr_matrix(np.cos(np.add.outer(np.arange(60.0), np.arange(60.0))) + 2 * np.eye(60))
    cases = {
        "laplacian.asymmetric": (walk, {}),
        "laplacian.sign": (-L, {}),
        "laplacian.top": (indefinite, {}),
        "null.vector": (L, {"null": np.arange(60.0)}),
        "graph.disconnected": (scipy.sparse.block_diag([L, L], format="csr"), {}),
    }
    for code, (matrix, options) in cases.items():
        with refused(code):
            smallest_eigenpairs(matrix, 3, **options)


def test_parts_that_hang_by_a_thread_below_the_tolerance_are_told_apart_or_told_of():
    W = scipy.sparse.block_diag([kernel(500, seed=s) for s in range(3)], format="lil")
    W[0, 500] = W[500, 0] = 1e-9
    W[500, 1000] = W[1000, 500] = 3e-9
    L = laplacian_of(W.tocsr())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = smallest_eigenpairs(L, 6)
    values, vectors = np.linalg.eigh(L.toarray())
    overlap = np.abs(np.sum(vectors[:, :6] * found.vectors, axis=0))
    assert said or (overlap > 0.99995).all()
    assert found.eigenvalues[1:3] == pytest.approx(values[1:3], rel=1e-3)


def test_every_backend_gives_them(on):
    L = laplacian_of(kernel(405), normed=True).tocsr()
    check(L, on(smallest_eigenpairs)(L, 3), np.linalg.eigvalsh(L.toarray()))
