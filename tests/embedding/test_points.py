"""The Laplacian of points by itself: the bits of a run, the order of the input, parts, neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import DisconnectedGraphError, diffusion_map, laplacian_of_points, select_coordinates, tangent_bases
from tests.manifolds import rectangle
from tests.said import refused, warned

X, _, EPS = rectangle(500, 3.0, degree=40)
FAR = np.vstack([X[:250], [[90.0] * X.shape[1], [90.01] * X.shape[1]], X[250:]])  # two points on their own
ON_HOST = pytest.mark.parametrize("backend", ["plain", "numba"], indirect=True)  # the same kernels by hand and in a run
SIZES = {"intrinsic_dim": 2, "subset_size": 2, "n_components": 8}


@pytest.mark.parametrize("asked", [
    {"bandwidth": EPS}, {"bandwidth": EPS, "self_loops": False}, {"bandwidth": EPS, "alpha": 0.5},
    {"bandwidth": EPS, "n_neighbors": 20}, {"bandwidth": "local"},
])  # fmt: skip
@ON_HOST
def test_steps_by_hand_give_the_bits_of_a_run(backend, asked):
    found = select_coordinates(X, **asked, **SIZES, scale="unit", device="cpu")
    laplacian = laplacian_of_points(X, **asked, intrinsic_dim=2)
    embedding = diffusion_map(laplacian, n_components=8)
    np.testing.assert_array_equal(embedding.eigenvalues, found.eigenvalues)
    # signs follow X in a run, which also scales once more
    np.testing.assert_allclose(abs(embedding.coordinates), abs(found.coordinates), rtol=1e-14)
    U = tangent_bases(embedding.coordinates, laplacian, intrinsic_dim=2)
    np.testing.assert_array_equal(abs(U), abs(found.bases))


def test_a_graph_in_parts_is_kept_refused_or_reduced():
    whole = laplacian_of_points(FAR, bandwidth=EPS)
    assert whole.shape == (502, 502) and whole.facts["graph_components"] is None
    with refused("graph.disconnected", DisconnectedGraphError):
        laplacian_of_points(FAR, bandwidth=EPS, disconnected="raise")
    with warned("graph.left_out"):
        largest = laplacian_of_points(FAR, bandwidth=EPS, disconnected="largest")
    assert largest.facts["graph_components"] == 2
    np.testing.assert_array_equal(largest.rows.used, np.delete(np.arange(502), [250, 251]))
    alone = laplacian_of_points(X, bandwidth=EPS)
    np.testing.assert_allclose(largest.transition.toarray(), alone.transition.toarray(), atol=1e-14)
    assert not np.array_equal(alone.rows.order, np.arange(500))  # though that is the order of the matrix
    assert diffusion_map(largest, n_components=3).coordinates.shape == (500, 3)


@ON_HOST
def test_a_laplacian_with_its_rows_can_be_given_with_its_map(backend):
    """Its own order is not that of the input, in which the coordinates are passed."""
    laplacian = laplacian_of_points(X, bandwidth=EPS)
    embedding = diffusion_map(laplacian, n_components=8)
    given = {"laplacian": laplacian, "coordinates": -embedding.coordinates, "eigenvalues": embedding.eigenvalues}
    found = select_coordinates(**given, intrinsic_dim=2, subset_size=2, device="cpu")
    expected = select_coordinates(X, bandwidth=EPS, **SIZES, device="cpu")
    np.testing.assert_array_equal(found.coordinates, -embedding.coordinates)  # as they were given, signs too
    assert found.subset == expected.subset and not [f for f in found.findings if f.severity == "warning"]
    np.testing.assert_array_equal(found.singular_values, expected.singular_values)
