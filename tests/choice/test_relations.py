"""Relations between eigenfunctions of rectangles, which are known exactly."""

import numpy as np
import pytest

from ies_gpu import diffusion_map, laplacian_of_points
from ies_gpu.choice.relations import find_relations
from tests.manifolds import neumann


@pytest.mark.parametrize("a", [1.7, 6.21])
def test_exact_eigenfunctions_of_a_rectangle_have_all_their_relations(rng, a):
    X = rng.uniform(size=(4000, 2)) * [a, 1]
    pairs, values, functions = neumann(X, a, 14)
    found = find_relations(functions, values)
    for k, (p, q) in enumerate(pairs):
        if (p, q) in ((1, 0), (0, 1)):
            assert k not in found
        elif p == 0 or q == 0:  # a Chebyshev polynomial of the first one along that side
            assert found[k] == (pairs.index((min(p, 1), min(q, 1))),)
        else:
            assert found[k] == tuple(sorted((pairs.index((p, 0)), pairs.index((0, q)))))


@pytest.mark.parametrize("a", [2.2, 4.43])
def test_computed_eigenvectors_are_given_no_false_relation(rng, a):
    X = rng.uniform(size=(1500, 2)) * [a, 1]
    embedding = diffusion_map(laplacian_of_points(X, bandwidth=2.7 * (a / 1500) ** 0.5), n_components=14)
    pairs, _, truth = neumann(X, a, 40)
    Y = embedding.coordinates / np.linalg.norm(embedding.coordinates, axis=0)
    alike = (Y.T @ (truth / np.linalg.norm(truth, axis=0))) ** 2
    near, clear = [pairs[k] for k in alike.argmax(axis=1)], alike.max(axis=1) > 0.8
    named = 0
    for k, own in find_relations(embedding.coordinates, embedding.eigenvalues).items():
        if not clear[k]:
            continue
        named += 1
        (p, q), parts = near[k], [near[i] for i in own]
        if len(own) == 1:
            assert (p == 0, q == 0) == (parts[0][0] == 0, parts[0][1] == 0) and 0 in (p, q)
        else:
            assert {(p, 0), (0, q)} == set(parts)
    known = sum(clear[k] and near[k] not in ((1, 0), (0, 1)) for k in range(14))
    assert named >= 0.5 * known  # mixed factors hide the rest


def test_coordinates_of_a_sphere_are_no_products(rng):
    X = rng.normal(size=(3000, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    second = np.stack([X[:, 0] * X[:, 1], X[:, 1] * X[:, 2]], axis=1)  # of eigenvalue 6, the factors have 2 each
    assert find_relations(np.concatenate([X, second], axis=1), np.array([2.0, 2.0, 2.0, 6.0, 6.0])) == {}
