"""Separators, borders and fronts: what is eliminated when, and factors that solve."""

import numpy as np
import pytest
import scipy.sparse

from ies_gpu import diffusion_map, graph_laplacian
from ies_gpu.embedding.eigensolvers.elimination import LEAF, Cholesky, Elimination
from ies_gpu.embedding.graph import matrix_order
from ies_gpu.findings import NotConvergedError
from tests.embedding.eigenproblems import box, expander, nearest


def path(m: int) -> scipy.sparse.csr_matrix:
    return scipy.sparse.diags([np.ones(m - 1), np.ones(m), np.ones(m - 1)], [-1, 0, 1]).tocsr()


def star(n: int) -> scipy.sparse.csr_matrix:
    A = scipy.sparse.lil_matrix((n, n))
    A[0] = A[:, 0] = 1
    return (A + scipy.sparse.identity(n)).tocsr()


def hubs(n: int, count: int) -> scipy.sparse.csr_matrix:
    """Nodes that are joined to some hubs only."""
    A = scipy.sparse.lil_matrix((n, n))
    A[:count] = 1
    return (A + A.T + scipy.sparse.identity(n)).tocsr()


def hypercube(dim: int) -> scipy.sparse.csr_matrix:
    """The graph of the corners, each joined to itself with as much weight as to all others."""
    A, edge, one = scipy.sparse.csr_matrix((1, 1)), scipy.sparse.csr_matrix([[0.0, 1], [1, 0]]), scipy.sparse.identity
    for k in range(dim):
        A = scipy.sparse.kron(A, one(2)) + scipy.sparse.kron(one(2**k), edge)
    return (A + dim * one(2**dim)).tocsr()


GRAPHS = {
    "points": lambda rng: nearest(box(rng, 900, 1, 1), 10),
    "grid": lambda rng: scipy.sparse.kron(path(40), path(25)).tocsr(),
    "path": lambda rng: path(700),
    "star": lambda rng: star(500),
    "hubs": lambda rng: hubs(600, 3),
    "expander": lambda rng: expander(rng, 600),
    "complete": lambda rng: scipy.sparse.csr_matrix(np.ones((150, 150))),
    "two parts": lambda rng: scipy.sparse.block_diag([nearest(box(rng, 400, 1, 1), 8), path(300)]).tocsr(),
}


def shifted(W: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """A graph's Laplacian, and a hundredth of it all: positive."""
    W = W - scipy.sparse.diags(W.diagonal())
    degrees = np.asarray(W.sum(axis=1)).ravel()
    return (scipy.sparse.diags(1.01 * degrees + 0.01) - W).tocsr()


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_factor_stays_within_its_blocks_and_solves(rng, name, depth):
    W = GRAPHS[name](rng)
    A, n = shifted(W), W.shape[0]
    plan = Elimination(A, *matrix_order(W), depth)
    np.testing.assert_array_equal(np.sort(plan.order), np.arange(n))
    L, panels = np.linalg.cholesky(A.toarray()[plan.order][:, plan.order]), 0
    inside = np.zeros((n, n), dtype=bool)
    for s, (first, last) in enumerate(zip(plan.starts, plan.starts[1:], strict=False)):
        border = plan.border[plan.begins[s] : plan.begins[s + 1]]
        assert (border >= last).all() and len(np.unique(border)) == len(border)
        inside[np.append(np.arange(first, last), border), first:last] = True
        panels += (last - first) * (last - first + len(border))
    assert not (np.abs(L) > 1e-14)[~inside].any()
    assert panels == plan.fill == plan.panels[-1]
    factor, V = Cholesky(A, plan), rng.normal(size=(n, 5))
    np.testing.assert_allclose(A @ factor.solve(V), V, atol=1e-10)
    np.testing.assert_allclose(A @ factor.solve(V[:, 0]), V[:, 0], atol=1e-10)


@pytest.mark.parametrize("name", ["points", "grid", "expander"])
def test_the_sides_of_a_separator_are_not_joined(rng, name):
    """Each block takes up what the two before it on the stack have left; no entry crosses between those."""
    W = GRAPHS[name](rng)
    plan = Elimination(W, *matrix_order(W), 1)
    P, waiting, cuts = W[plan.order][:, plan.order], [], 0
    for s, (first, last) in enumerate(zip(plan.starts, plan.starts[1:], strict=False)):
        begin = first
        if plan.separates[s]:
            (begin, middle), (_, end) = waiting[-2:]
            assert middle == waiting[-1][0] and end == first
            assert P[begin:middle, middle:end].nnz == 0
            del waiting[-2:]
            cuts += 1
        waiting.append((begin, last))
    assert waiting == [(0, W.shape[0])] and cuts > 3


@pytest.mark.parametrize("side", [60, 120])
def test_the_factor_of_a_grid_has_no_more_entries_than_nested_dissection_promises(side):
    """George: 31/4 n log2 n at most, for the grid of nine-point stars."""
    W = scipy.sparse.kron(path(side), path(side)).tocsr()
    n = side**2
    assert Elimination(W, *matrix_order(W), 1).fill < 31 / 4 * n * np.log2(n)


@pytest.mark.parametrize("count", [1, 3])
def test_nodes_that_hang_at_hubs_are_eliminated_before_these(count):
    """Each of them then has no more than the rows of its block and the hubs below it."""
    W = hubs(n := 3000, count)
    assert Elimination(W, *matrix_order(W), 1).fill <= n * (LEAF + count)


def test_a_matrix_that_is_not_positive_is_refused(rng):
    W = GRAPHS["points"](rng)
    with pytest.raises(NotConvergedError):
        Cholesky((shifted(W) - 3 * scipy.sparse.identity(W.shape[0])).tocsr(), Elimination(W, *matrix_order(W), 1))


@pytest.mark.parametrize("solver", ["factorised", "lanczos"])
def test_more_copies_than_a_block_has_vectors_are_all_found(solver):
    """The walk on the corners of a cube in 9 dimensions has ``1 - k / 9`` binomial(9, k) times."""
    found = diffusion_map(graph_laplacian(hypercube(9), alpha=0), n_components=20, solver=solver)
    np.testing.assert_allclose(found.eigenvalues, np.repeat([1, 2], [9, 11]) / 9, atol=1e-10)
