"""Points are known by a digest, and rows by their names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ies_gpu import datasets, select_coordinates
from ies_gpu.results.same_points import rows_by_name, used_points
from tests.said import refused


@pytest.fixture(scope="module")
def named():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_KERNELS", "plain")
        X = datasets.load("D1", n_samples=300).X
        found = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.4)
    return replace(found, index=np.array([f"cell{k}" for k in range(300)]))


def test_rows_are_found_by_name_where_all_names_are_there_once(named):
    order = np.random.default_rng(0).permutation(300)
    rows = rows_by_name(named, named.index[order])
    np.testing.assert_array_equal(order[rows], np.arange(300))
    np.testing.assert_array_equal(rows_by_name(named, named.index), np.arange(300))
    numbered = replace(named, index=np.arange(1, 301))
    np.testing.assert_array_equal(rows_by_name(numbered, [str(k) for k in range(300, 0, -1)]), np.arange(299, -1, -1))


def test_positions_must_do_where_names_do_not_fit(named):
    others, twice = [f"other{k}" for k in range(300)], ["cell0", *named.index[:-1]]
    for labels in (others, twice, named.index[:-1], [*named.index, "more"]):
        assert rows_by_name(named, labels) is None
    assert rows_by_name(replace(named, index=None), named.index) is None
    assert rows_by_name(replace(named, index=np.array(["a"] * 300)), np.array(["a"] * 300)) is None


def test_of_a_part_the_labels_may_be_those_of_all_the_input(named):
    part = replace(named, points=np.arange(0, 300, 2), index=named.index[::2])
    np.testing.assert_array_equal(rows_by_name(part, named.index[::-1]), np.arange(299, 0, -2))


def test_another_number_of_columns_is_named(named):
    X = datasets.load("D1", n_samples=300).X
    with refused("X.columns"):
        used_points(named, X[:, :2])
