"""Sparse input whose index arrays are damaged is refused, and entries stored twice are added or refused."""

import itertools

import numpy as np
import pytest
import scipy.sparse

from ies_gpu import (
    Laplacian,
    cometric,
    diffusion_map,
    gaussian_kernel,
    graph_laplacian,
    radius_graph,
    select_coordinates,
    tangent_bases,
)
from tests.backends import sent, to_host
from tests.manifolds import rectangle
from tests.said import refused
from tests.thorough import first_of

X, _, EPS = rectangle(300, 2.3, degree=40)
GRAPH = radius_graph(X, radius=3 * EPS)
KERNEL = gaussian_kernel(GRAPH, bandwidth=EPS)
LAPLACIAN = graph_laplacian(KERNEL, bandwidth=EPS)
SIZES = {"intrinsic_dim": 2, "subset_size": 2, "n_components": 6}


def csr(data, indices, indptr, n=300):
    """The three arrays as a CSR, whatever the constructor would say of them."""
    made = scipy.sparse.csr_matrix((n, n))
    made.data, made.indices, made.indptr = data, indices, indptr
    return made


def damaged(matrix, part, place, value):
    """The same with one number of an index array changed."""
    arrays = {name: getattr(matrix, name).copy() for name in ("data", "indices", "indptr")}
    arrays[part][place] = value
    return csr(**arrays)


def stored_twice(matrix):
    return csr(np.repeat(matrix.data / 2, 2), np.repeat(matrix.indices, 2), matrix.indptr * 2)


DAMAGED = {
    "an index beyond the shape": lambda m: damaged(m, "indices", 7, 10**6),
    "an index just beyond the shape": lambda m: damaged(m, "indices", 7, 300),
    "a negative index": lambda m: damaged(m, "indices", 7, -1),
    "an indptr that falls": lambda m: damaged(m, "indptr", 5, m.indptr[-1]),
    "a negative indptr": lambda m: damaged(m, "indptr", 5, -3),
    "an indptr that ends too late": lambda m: damaged(m, "indptr", 300, m.nnz + 9),
    "an indptr that ends too early": lambda m: damaged(m, "indptr", 300, m.nnz - 1),
    "an indptr that begins late": lambda m: damaged(m, "indptr", 0, 1),
    "an indptr that is too short": lambda m: csr(m.data, m.indices, m.indptr[:-1]),
    "too few values": lambda m: csr(m.data[:-1], m.indices, m.indptr),
}
USES = {
    "gaussian_kernel": (GRAPH, lambda m: gaussian_kernel(m, bandwidth=EPS)),
    "graph_laplacian": (KERNEL, graph_laplacian),
    "select_coordinates(graph)": (GRAPH, lambda m: select_coordinates(graph=m, bandwidth=EPS, **SIZES)),
    "select_coordinates(kernel)": (KERNEL, lambda m: select_coordinates(kernel=m, **SIZES)),
    "cometric": (LAPLACIAN.matrix, lambda m: cometric(X, m)),
    "tangent_bases": (LAPLACIAN.matrix, lambda m: tangent_bases(X, m, intrinsic_dim=2)),
    "Laplacian.matrix": (LAPLACIAN.transition, lambda m: Laplacian(m).matrix),
    "diffusion_map": (LAPLACIAN.transition, lambda m: diffusion_map(Laplacian(m, LAPLACIAN.weights), n_components=3)),
}


@pytest.mark.parametrize(
    ("damage", "use"),
    [*((damage, "cometric") for damage in DAMAGED), *(("a negative index", use) for use in USES if use != "cometric")],
)
def test_damaged_indices_are_refused(damage, use):
    matrix, function = USES[use]
    with refused("*.damaged"):
        function(DAMAGED[damage](matrix))


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr"])
def test_every_format_is_looked_at_and_entries_stored_twice_are_added(format):
    twice = stored_twice(KERNEL)
    if format == "coo":
        rows = np.repeat(np.arange(300), np.diff(twice.indptr))
        twice = scipy.sparse.coo_array((twice.data, (rows, twice.indices)), shape=twice.shape)
    elif format != "csr":
        twice = (twice.T if format == "csc" else twice).asformat(format)
    before = twice.data.copy()
    found, expected = graph_laplacian(twice), graph_laplacian(KERNEL)
    np.testing.assert_array_equal(found.transition.toarray(), expected.transition.toarray())
    np.testing.assert_array_equal(twice.data, before)
    (twice.col if format == "coo" else twice.indices)[3] = 10**6
    with refused("kernel.damaged"):
        graph_laplacian(twice)


def test_so_is_every_backend(backend):
    found, expected = (graph_laplacian(sent(matrix, backend)).transition for matrix in (stored_twice(KERNEL), KERNEL))
    np.testing.assert_array_equal(to_host(found.toarray()), to_host(expected.toarray()))
    matrix = sent(KERNEL.copy(), backend)
    matrix.indices[3] = 10**6
    with refused("kernel.damaged"):
        graph_laplacian(matrix)
    short = sent(LAPLACIAN.transition.copy(), backend)
    short.indptr[5] = 0
    with refused("laplacian.transition.damaged"):
        cometric(backend.asarray(X), Laplacian(short))


def test_what_scipy_remembers_of_a_matrix_is_not_trusted():
    rows = [np.arange(a, b)[::-1] for a, b in itertools.pairwise(KERNEL.indptr)]
    order = np.concatenate(rows)
    reversed_rows = csr(KERNEL.data[order], KERNEL.indices[order], KERNEL.indptr)
    reversed_rows.has_sorted_indices = reversed_rows.has_canonical_format = True
    found = graph_laplacian(reversed_rows)
    np.testing.assert_array_equal(found.transition.toarray(), graph_laplacian(KERNEL).transition.toarray())


def test_two_distances_of_one_pair_are_refused():
    first, second = GRAPH.tocoo(), GRAPH.T.tocoo()  # a list of neighbours with each pair from both of its ends
    data, rows, columns = (
        np.concatenate([getattr(first, part), getattr(second, part)]) for part in ("data", "row", "col")
    )
    for graph in (scipy.sparse.coo_array((data, (rows, columns)), shape=GRAPH.shape), stored_twice(GRAPH)):
        for use in ("gaussian_kernel", "select_coordinates(graph)"):
            with refused("graph.repeated"):
                USES[use][1](graph)


def test_a_laplacian_of_ones_own_is_checked():
    P, w = LAPLACIAN.transition, LAPLACIAN.weights
    with refused("laplacian.weights"):
        diffusion_map(Laplacian(P, w[:-1]), n_components=3)
    for code, own in (
        ("bandwidth.range", Laplacian(P, w, -1.0)),
        ("transition.shape", Laplacian(scipy.sparse.csr_array((3, 4)), None)),
    ):
        with refused(f"laplacian.{code}"):
            cometric(X, own)


def weakly_tied(asymmetric):
    """The kernel with one more point, tied to the others by weights that count for nothing beside the largest."""
    K = scipy.sparse.block_diag([KERNEL, scipy.sparse.csr_array((1, 1))]).tolil()
    pairs = {(300, 0): 6e-9, (0, 300): 1e-9, (300, 5): 1e-9, (5, 300): 8e-9}
    for (i, j), weight in pairs.items():
        K[i, j] = weight if asymmetric else 0.5 * (weight + pairs[j, i])
    return K.tocsr()


@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
def test_a_kernel_that_is_not_quite_symmetric_is_that_of_its_average():
    """Within 1e-8 of the largest entry, which in a row of small ones is all there is."""
    before = (uneven := weakly_tied(True)).copy()
    for take in (
        lambda K: select_coordinates(kernel=K, **SIZES), lambda K: diffusion_map(graph_laplacian(K), n_components=6)
    ):  # fmt: skip
        np.testing.assert_allclose(take(uneven).eigenvalues, take(weakly_tied(False)).eigenvalues, rtol=1e-9)
    assert (uneven != before).nnz == 0
    for K in (KERNEL.toarray(), KERNEL.copy()):  # and if it is far from that, the way that is told works
        K[0, KERNEL.indices[1]] += 0.5
        with refused("kernel.asymmetric") as error:
            graph_laplacian(K)
        assert graph_laplacian(eval(str(error.value).rpartition("use ")[2], {"kernel": K})).shape == (300, 300)


@pytest.mark.parametrize("dtype", first_of("float32", "mixed"))
@pytest.mark.parametrize("unit", first_of(1e-150, 1e-46, 1e40))
def test_the_unit_of_a_kernel_does_not_matter_in_single_precision(unit, dtype):
    """P is the same, whatever the kernel is multiplied by."""
    expected = select_coordinates(kernel=KERNEL, **SIZES)
    found = select_coordinates(kernel=KERNEL * unit, dtype=dtype, **SIZES)
    assert found.subset == expected.subset
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=1e-5)
