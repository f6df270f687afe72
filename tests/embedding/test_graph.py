"""Neighbour graphs against all pairs, and other people's graphs in every form."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from scipy.spatial.distance import cdist, pdist

from ies_gpu import gaussian_kernel, knn_graph, radius_graph
from ies_gpu.backend import base
from ies_gpu.embedding import laplacian
from ies_gpu.embedding.given import check_sides
from ies_gpu.embedding.graph import WIDE, cell_starts, essential_columns, leading_axes, n_levels, spatial_order
from tests.said import refused


def dense_of(graph):
    """The graph as a matrix, NaN where nothing is stored (a stored zero is a distance)."""
    out = np.full(graph.shape, np.nan)
    out[np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr)), graph.indices] = graph.data
    return out


def expected(X, radius):
    distance = cdist(X, X)
    np.fill_diagonal(distance, np.inf)
    return np.where(distance <= radius, distance, np.nan)


# with far cells, and with tiles that are wider than one piece
@pytest.mark.parametrize(("n", "reach", "piece"), [
    (2, 0.7, 16_384), (65, 0.7, 16_384), (700, 0.7, 16_384), (2000, 0.1, 16_384), (300, 0.7, 37),
])  # fmt: skip
@pytest.mark.parametrize("columns", [1, 3, 40])
def test_radius_graph_is_all_pairs_within_the_radius(on, rng, monkeypatch, n, reach, piece, columns):
    monkeypatch.setattr("ies_gpu.embedding.graph.TILE_COLUMNS", piece)
    X = rng.normal(size=(n, columns)) * np.linspace(3, 0.3, columns)
    radius = np.median(cdist(X, X)) * reach + 1e-9
    graph = on(radius_graph)(X, radius=radius)
    np.testing.assert_allclose(dense_of(graph), expected(X, radius), rtol=1e-11, atol=1e-14)
    rows = np.repeat(np.arange(n), np.diff(graph.indptr))
    assert graph.indices.dtype == np.int32 and (np.diff(rows * n + graph.indices) > 0).all()


def test_pairs_at_exactly_the_radius_count_and_duplicates_keep_their_zero(on):
    X = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0], [8.0 + 1e-9, 4.0]])
    graph = dense_of(on(radius_graph)(X, radius=5.0))
    assert graph[0, 1] == graph[0, 2] == 5.0 and graph[1, 2] == graph[2, 1] == 0.0
    assert np.isnan(graph[1, 3]) and np.isnan(np.diag(graph)).all()


@pytest.mark.parametrize(("scale", "shift"), [(1e-150, 0.0), (1e150, 0.0), (1.0, 2.0**20)])
def test_neither_units_nor_the_origin_matter(on, rng, scale, shift):
    """The shift is a power of two: differences are rounded, not destroyed."""
    X = rng.normal(size=(150, 3))
    a, b = on(radius_graph)(X, radius=0.9), on(radius_graph)((X + shift) * scale, radius=0.9 * scale)
    assert (a.indices == b.indices).all()
    np.testing.assert_allclose(b.data / scale, a.data, rtol=1e-10, atol=1e-8 if shift else 0)


def test_cells_hold_what_the_order_promises(on, rng):
    Z = rng.normal(size=(1003, 3)) * [5, 1, 0.1]
    ordered, half = Z[on(spatial_order)(Z)], cell_starts(1003, 1)[1]
    assert ordered[:half, 0].max() <= ordered[half:, 0].min()  # the first cut is along the widest side
    widths = [np.ptp(ordered[a:b], axis=0).max() for a, b in pairwise(cell_starts(1003, n_levels(1003, 8)))]
    assert len(widths) == 1 << 7 and np.mean(widths) < 1.0


def test_axes_of_wide_points_are_found_from_few_rows(backend, rng, monkeypatch):
    """The covariance of 20,000 columns would take 3 GB, and its eigenvectors an hour."""
    X = np.zeros((1500, WIDE + 500))
    X[:, 3:7] = rng.normal(size=(1500, 4)) * [4.0, 3.0, 2.0, 1.0]
    X = X + 1e-3 * rng.normal(size=X.shape)
    seen, eigh = [], backend.xp.linalg.eigh
    monkeypatch.setattr(backend.xp.linalg, "eigh", lambda A: seen.append(A.shape) or eigh(A))
    axes = backend.to_host(leading_axes(backend.asarray(X), 4))
    assert max(max(shape) for shape in seen) <= WIDE
    np.testing.assert_allclose(np.abs(axes[3:7]), np.eye(4), atol=0.1)
    for few in (backend.asarray(X[:5]), backend.asarray(np.tile(X[:1], (30, 1)))):  # still an order of all points
        axes = backend.to_host(leading_axes(few, 8))
        np.testing.assert_allclose(axes.T @ axes, np.eye(axes.shape[1]), atol=1e-12)
        assert sorted(backend.to_host(spatial_order(few))) == list(range(len(few)))


def test_columns_that_add_nothing_are_left_out_and_distances_stay(rng):
    X = rng.normal(size=(500, 7)) @ rng.normal(size=(7, 100)) + 1e-7 * rng.normal(size=(500, 100)) + 30.0
    wide = rng.normal(size=(WIDE + 200, 7)) @ rng.normal(size=(7, WIDE + 50))
    for points, columns in ((X, 7), (wide, 7), (rng.normal(size=(300, WIDE + 50)), 299)):  # no more than points span
        Z = essential_columns(points)
        assert Z.shape == (len(points), columns)
        np.testing.assert_allclose(pdist(Z), pdist(points), rtol=1e-9)
    many = np.concatenate([X] * 20)
    many[1, 3] += 50.0  # a row that no sample has
    for whole in (rng.normal(size=(500, 100)), rng.normal(size=(WIDE + 200, WIDE + 50)), X[:, :60], many):
        assert essential_columns(whole) is whole


@pytest.mark.parametrize("columns", [2, 30])
def test_knn_graph_is_the_union_of_both_directions(on, rng, columns):
    X = rng.normal(size=(120, columns))
    distance = expected(X, np.inf)  # NaN on the diagonal, which is sorted last
    near = distance <= np.sort(distance, axis=1)[:, 4:5]
    whole = np.where(near | near.T, distance, np.nan)
    np.testing.assert_allclose(dense_of(on(knn_graph)(X, n_neighbors=5)), whole, atol=1e-7)


def test_knn_graph_of_equal_points_never_names_the_point_itself(on):
    graph = dense_of(on(knn_graph)(np.repeat([[0.0], [1.0]], 6, axis=0), n_neighbors=3))
    assert np.isnan(np.diag(graph)).all() and np.isnan(graph[:6, 6:]).all() and ((graph == 0).sum(axis=1) >= 3).all()


def test_any_sparse_format_is_the_same_graph_and_one_side_is_enough(rng):
    """What is stored on one side only counts on both, a zero too: the distance of two equal points."""
    graph = radius_graph(rng.normal(size=(40, 2)), radius=1.0)
    for form in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia"):
        np.testing.assert_array_equal(dense_of(check_sides(graph.asformat(form))[0]), dense_of(graph))
    np.testing.assert_array_equal(dense_of(check_sides(scipy.sparse.csr_array(graph))[0]), dense_of(graph))
    lopsided = scipy.sparse.csr_matrix(([0.0, 1.0, 1.0, 3.0], ([0, 1, 2, 2], [1, 2, 1, 0])), shape=(3, 3))
    whole = [[np.nan, 0, 3], [0, np.nan, 1], [3, 1, np.nan]]
    np.testing.assert_array_equal(dense_of(check_sides(lopsided)[0]), whole)


def test_a_dense_matrix_of_distances_is_cut_at_the_radius(rng):
    X = rng.normal(size=(40, 2))
    X[3] = X[4]
    distances = cdist(X, X)
    for found, _ in (check_sides(distances, radius=1.0), check_sides(np.where(distances <= 1, distances, np.inf))):
        np.testing.assert_allclose(dense_of(found), expected(X, 1.0), atol=1e-15)


def test_zeros_in_the_gaps_of_a_graph_are_no_distances(on, rng):
    """As in ``kneighbors_graph(X, 5, mode="distance").toarray()``: they would make copies of most points."""
    X = rng.uniform(size=(40, 2))
    with refused("graph.zeros"):
        on(gaussian_kernel)(knn_graph(X, n_neighbors=5).toarray(), bandwidth=0.3)
    copies = np.repeat(X[:20], 3, axis=0)
    assert on(gaussian_kernel)(cdist(copies, copies), bandwidth=0.3).nnz == 3600


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array, scipy.sparse.coo_matrix])
def test_affinities_are_not_taken_for_distances(rng, form):
    X = rng.uniform(size=(40, 2))
    affinities = np.exp(-(cdist(X, X) ** 2))
    cut = np.where(affinities < 0.95, 0, affinities)
    for given in (affinities, cut, affinities * (1 + 1e-15 * rng.normal(size=(40, 40)))):
        with refused("graph.affinities"):
            gaussian_kernel(form(given), bandwidth=0.3)
    rounded = form(cdist(X, X) + 1e-4 * np.eye(40))  # as some libraries leave it
    one, other = (gaussian_kernel(graph, bandwidth=0.3).toarray() for graph in (rounded, cdist(X, X)))
    np.testing.assert_array_equal(one, other)


def test_indices_are_wide_where_the_number_of_entries_is(monkeypatch, rng):
    """At 2^31 entries; here at a smaller number, since the types are chosen before SciPy looks at the values."""
    X = rng.normal(size=(40, 2))
    close = radius_graph(X, radius=1.0)
    seen, original = [], scipy.sparse.csr_matrix

    def watched(parts, shape):
        seen.append((parts[1].dtype.name, parts[2].dtype.name))
        return original(parts, shape=shape)

    monkeypatch.setattr(scipy.sparse, "csr_matrix", watched)
    for limit, expected in ((close.nnz + 40, "int64"), (close.nnz + 41, "int32")):
        monkeypatch.setattr(base, "WIDE", limit)
        laplacian.with_diagonal(close)  # 40 entries more than the graph has
        assert seen.pop() == (expected, expected)
    monkeypatch.setattr(base, "WIDE", 10)
    knn_graph(X, n_neighbors=3)
    check_sides(cdist(X, X), radius=1.0)
    assert set(seen) == {("int64", "int64")}
