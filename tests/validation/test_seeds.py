"""``random_state`` is None, an int, a RandomState or a Generator, everywhere, and results say which seed was used."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.sparse.csgraph

import ies_gpu
from ies_gpu import (
    DiffusionMap,
    datasets,
    diffusion_map,
    laplacian_of_points,
    radius_graph,
    select_coordinates,
    smallest_eigenpairs,
    tangent_bases,
)
from tests.said import refused

X = datasets.load("D1", n_samples=400).X
SIZES = {"intrinsic_dim": 2, "subset_size": 2, "n_components": 10, "bandwidth": 1.2}
LAPLACIAN = laplacian_of_points(X, bandwidth=1.2)
COMBINATORIAL = scipy.sparse.csgraph.laplacian(radius_graph(X, radius=1.2))
SELECTION = select_coordinates(X, device="cpu", **SIZES)
PHI = SELECTION.coordinates
BASES = tangent_bases(PHI, LAPLACIAN, intrinsic_dim=2)
CALLS = {
    "DiffusionMap": lambda state: DiffusionMap(4, bandwidth=1.2, random_state=state).fit(X).embedding_,
    "IndependentCoordinates": lambda state: (
        ies_gpu.IndependentCoordinates(random_state=state, **SIZES).fit(X).embedding_
    ),
    "datasets.load": lambda state: datasets.load("D1", n_samples=50, random_state=state).X,
    "diffusion_map": lambda state: diffusion_map(LAPLACIAN, n_components=4, random_state=state).coordinates,
    "estimate_dimension": lambda state: ies_gpu.estimate_dimension(X, random_state=state).value,
    "search_submodular": lambda state: (
        ies_gpu.search_submodular(BASES, SELECTION.eigenvalues, subset_size=2, random_state=state).zeta
    ),
    "select_coordinates": lambda state: select_coordinates(X, random_state=state, **SIZES).coordinates,
    "selection_stability": lambda state: (
        ies_gpu.selection_stability(SELECTION, X=X, n_refits=1, random_state=state).random_state
    ),
    "smallest_eigenpairs": lambda state: smallest_eigenpairs(COMBINATORIAL, 4, random_state=state).vectors,
    "umap_init": lambda state: ies_gpu.umap_init(SELECTION, random_state=state),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_generator_in_the_same_state_gives_the_same_result(name):
    first, again = (CALLS[name](np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert np.shape(CALLS[name](None)) == np.shape(first)


def test_every_public_function_with_a_seed_is_here():
    found = {
        name for name in ies_gpu.__all__
        if (inspect.isfunction(value := getattr(ies_gpu, name)) or name in CALLS)
        and "random_state" in inspect.signature(value).parameters
    }  # fmt: skip
    assert found == CALLS.keys() - {"datasets.load"}


def test_results_say_which_seed_was_used():
    state = np.random.default_rng(3)
    selection = select_coordinates(X, random_state=state, **SIZES)
    seed = selection.diagnostics["parameters"]["random_state"]
    assert seed == int(np.random.default_rng(3).integers(2**31))
    np.testing.assert_array_equal(select_coordinates(X, random_state=seed, **SIZES).coordinates, selection.coordinates)
    assert diffusion_map(LAPLACIAN, n_components=4, random_state=np.random.default_rng(3)).info["random_state"] == seed
    with refused("random_state.type", TypeError):
        select_coordinates(X, random_state="x", **SIZES)
