"""Neighbour graphs against all pairs, and other people's graphs in every form."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from scipy.spatial.distance import cdist

from ies_gpu import gaussian_kernel, knn_graph, radius_graph
from ies_gpu.backend import base
from ies_gpu.embedding import laplacian
from ies_gpu.embedding.given import check_sides
from ies_gpu.embedding.graph import cell_starts, n_levels, spatial_order
from tests.said import refused


def dense_of(graph, missing=np.nan):
    """The graph as a matrix, NaN where nothing is stored (a stored zero is a distance)."""
    out = np.full(graph.shape, missing)
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    out[rows, graph.indices] = graph.data
    return out


def expected(X, radius):
    distance = cdist(X, X)
    np.fill_diagonal(distance, np.inf)
    return np.where(distance <= radius, distance, np.nan)


@pytest.mark.parametrize(("n", "reach"), [(2, 0.7), (65, 0.7), (700, 0.7), (2000, 0.1)])  # the last with far cells
@pytest.mark.parametrize("columns", [1, 3, 40])
def test_radius_graph_is_all_pairs_within_the_radius(on, rng, n, reach, columns):
    X = rng.normal(size=(n, columns)) * np.linspace(3, 0.3, columns)
    radius = np.median(cdist(X, X)) * reach + 1e-9
    graph = on(radius_graph)(X, radius=radius)
    np.testing.assert_allclose(dense_of(graph), expected(X, radius), rtol=1e-11, atol=1e-14)
    rows = np.repeat(np.arange(n), np.diff(graph.indptr))
    assert graph.indices.dtype == np.int32 and (np.diff(rows * n + graph.indices) > 0).all()


def test_pairs_at_exactly_the_radius_count_and_duplicates_keep_their_zero(on):
    X = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0], [8.0 + 1e-9, 4.0]])
    graph = dense_of(on(radius_graph)(X, radius=5.0))
    assert graph[0, 1] == graph[0, 2] == 5.0
    assert graph[1, 2] == graph[2, 1] == 0.0
    assert np.isnan(graph[1, 3])
    assert np.isnan(np.diag(graph)).all()


@pytest.mark.parametrize(("scale", "shift"), [(1e-150, 0.0), (1e150, 0.0), (1.0, 2.0**20)])
def test_neither_units_nor_the_origin_matter(on, rng, scale, shift):
    """The shift is a power of two: differences are rounded, not destroyed."""
    X = rng.normal(size=(150, 3))
    a, b = on(radius_graph)(X, radius=0.9), on(radius_graph)((X + shift) * scale, radius=0.9 * scale)
    assert (a.indices == b.indices).all()
    np.testing.assert_allclose(b.data / scale, a.data, rtol=1e-10, atol=1e-8 if shift else 0)


def test_tiles_wider_than_one_piece_are_joined(on, rng, monkeypatch):
    monkeypatch.setattr("ies_gpu.embedding.graph.TILE_COLUMNS", 37)
    X = rng.normal(size=(300, 2))
    np.testing.assert_allclose(dense_of(on(radius_graph)(X, radius=1.5)), expected(X, 1.5), rtol=1e-11)


def test_cells_hold_what_the_order_promises(on, rng):
    Z = rng.normal(size=(1003, 3)) * [5, 1, 0.1]
    order = on(spatial_order)(Z)
    assert sorted(order) == list(range(1003))
    assert n_levels(1003, 8) == 7
    starts = cell_starts(1003, 1)
    ordered = Z[order]
    # the first cut is along the widest side: nothing of the left half lies right of anything of the right half
    assert ordered[: starts[1], 0].max() <= ordered[starts[1] :, 0].min()
    widths = [np.ptp(ordered[a:b], axis=0).max() for a, b in pairwise(cell_starts(1003, 7))]
    assert np.mean(widths) < 1.0


@pytest.mark.parametrize("columns", [2, 30])
def test_knn_graph_is_the_union_of_both_directions(on, rng, columns):
    X = rng.normal(size=(120, columns))
    distance = cdist(X, X)
    np.fill_diagonal(distance, np.inf)
    near = np.argsort(distance, axis=1, kind="stable")[:, :5]
    mask = np.zeros((120, 120), dtype=bool)
    np.put_along_axis(mask, near, True, axis=1)
    mask |= mask.T
    np.testing.assert_allclose(dense_of(on(knn_graph)(X, n_neighbors=5)), np.where(mask, distance, np.nan), atol=1e-7)


def test_knn_graph_of_equal_points_never_names_the_point_itself(on):
    graph = dense_of(on(knn_graph)(np.repeat([[0.0], [1.0]], 6, axis=0), n_neighbors=3))
    assert np.isnan(np.diag(graph)).all()
    assert ((graph == 0).sum(axis=1) >= 3).all()
    assert np.isnan(graph[:6, 6:]).all()


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
    np.testing.assert_allclose(dense_of(check_sides(cdist(X, X), radius=1.0)[0]), expected(X, 1.0), atol=1e-15)
    infinite = np.where(cdist(X, X) <= 1.0, cdist(X, X), np.inf)
    np.testing.assert_allclose(dense_of(check_sides(infinite)[0]), expected(X, 1.0), atol=1e-15)


def test_zeros_in_the_gaps_of_a_graph_are_no_distances(on, rng):
    """As in ``kneighbors_graph(X, 5, mode="distance").toarray()``: they would make copies of most points."""
    X = rng.uniform(size=(40, 2))
    sparse = knn_graph(X, n_neighbors=5)
    with refused("graph.zeros"):
        on(gaussian_kernel)(sparse.toarray(), bandwidth=0.3)
    copies = cdist(np.repeat(X[:20], 3, axis=0), np.repeat(X[:20], 3, axis=0))
    assert on(gaussian_kernel)(copies, bandwidth=0.3).nnz == 3600


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array, scipy.sparse.coo_matrix])
def test_affinities_are_not_taken_for_distances(rng, form):
    X = rng.uniform(size=(40, 2))
    affinities = np.exp(-(cdist(X, X) ** 2))
    cut = np.where(affinities < 0.95, 0, affinities)
    for given in (affinities, cut, affinities * (1 + 1e-15 * rng.normal(size=(40, 40)))):
        with refused("graph.affinities"):
            gaussian_kernel(form(given), bandwidth=0.3)
    rounded = cdist(X, X) + 1e-4 * np.eye(40)  # as some libraries leave it
    np.testing.assert_array_equal(
        gaussian_kernel(form(rounded), bandwidth=0.3).toarray(), gaussian_kernel(cdist(X, X), bandwidth=0.3).toarray()
    )


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
