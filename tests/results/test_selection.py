"""Points are known by a digest, which ``test_model`` shows, and rows by their names."""

from dataclasses import replace

import numpy as np

from ies_gpu import datasets, select_coordinates
from ies_gpu.results.selection import rows_by_name


def test_rows_are_found_by_name_where_all_names_are_there_once(plain_kernels):
    X = datasets.load("D1", n_samples=300).X
    found = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.4)
    named = replace(found, index=np.array([f"cell{k}" for k in range(300)]))
    order = np.random.default_rng(0).permutation(300)
    np.testing.assert_array_equal(order[rows_by_name(named, named.index[order])], np.arange(300))
    numbered = replace(named, index=np.arange(1, 301))
    np.testing.assert_array_equal(rows_by_name(numbered, [str(k) for k in range(300, 0, -1)]), np.arange(299, -1, -1))
    part = replace(named, points=np.arange(0, 300, 2), index=named.index[::2])  # labels may be those of all the input
    np.testing.assert_array_equal(rows_by_name(part, named.index[::-1]), np.arange(299, 0, -2))
    # where names do not fit, positions must do
    others, twice = [f"other{k}" for k in range(300)], ["cell0", *named.index[:-1]]
    for labels in (others, twice, named.index[:-1], [*named.index, "more"]):
        assert rows_by_name(named, labels) is None
    assert rows_by_name(found, named.index) is None
    assert rows_by_name(replace(named, index=np.array(["a"] * 300)), np.array(["a"] * 300)) is None
