"""AnnData objects: what is read, what is written, and that a file keeps it."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import scipy.sparse

from ies_gpu import DisconnectedGraphError, IESWarning, datasets, select_coordinates
from ies_gpu import knn_graph as neighbours
from ies_gpu.interop.anndata import select
from tests.extras import needed

anndata = needed("anndata", "anndata")
SIZES = {"intrinsic_dim": 2, "subset_size": 2}


@pytest.fixture
def adata():
    """A strip of cells with a graph as scanpy makes it: fuzzy, symmetric, in single precision, without a diagonal."""
    X = datasets.load("D1", n_samples=700).X
    made = anndata.AnnData(scipy.sparse.csr_matrix(X), obs=pandas.DataFrame(index=[f"cell{k}" for k in range(700)]))
    made.obsm["X_pca"] = X
    graph = neighbours(X, n_neighbors=15)
    graph.data = np.exp(-(graph.data**2)).astype(np.float32)
    made.obsp["connectivities"] = graph
    return made


def test_points_of_obsm(adata):
    expected = select_coordinates(adata.obsm["X_pca"], bandwidth=1.0, **SIZES)
    returned = select(adata, bandwidth=1.0, **SIZES)
    assert returned.subset == expected.subset
    np.testing.assert_array_equal(adata.obsm["X_ies"], expected.embedding)
    assert adata.uns["ies"]["names"].tolist() == list(expected.names)
    other = select(adata, use="X", key_added="mine", bandwidth=1.0, **SIZES)
    np.testing.assert_allclose(adata.obsm["X_mine"], expected.embedding, rtol=0, atol=1e-12)
    assert other.subset == tuple(adata.uns["mine"]["subset"])


def test_the_graph_is_the_kernel_with_ones_on_its_diagonal(adata):
    graph = adata.obsp["connectivities"]
    found = select(adata, use="connectivities", **SIZES)
    expected = select_coordinates(kernel=graph + scipy.sparse.identity(700), **SIZES)
    np.testing.assert_allclose(found.embedding, expected.embedding, rtol=0, atol=1e-12)
    assert graph.diagonal().max() == 0  # the object's own graph is left as it was
    adata.obsp["own"] = graph + 2 * scipy.sparse.identity(700)
    expected = select_coordinates(kernel=adata.obsp["own"], **SIZES)
    np.testing.assert_array_equal(select(adata, use="own", **SIZES).embedding, expected.embedding)


def test_a_file_keeps_what_was_written(adata, tmp_path):
    select(adata, use="X_pca", bandwidth=1.0, **SIZES)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    np.testing.assert_array_equal(again.obsm["X_ies"], adata.obsm["X_ies"])
    kept = again.uns["ies"]
    assert list(kept["names"]) == list(adata.uns["ies"]["names"])
    assert kept["params"]["use"] == "X_pca" and kept["params"]["bandwidth"] == 1.0
    for name, value in adata.uns["ies"].items():
        if name != "params":
            np.testing.assert_array_equal(kept[name], value, err_msg=name)


def test_cells_left_out_get_nan(adata):
    graph = adata.obsp["connectivities"].tolil()
    graph[3], graph[:, 3] = 0, 0
    adata.obsp["connectivities"] = graph.tocsr()
    with pytest.raises(DisconnectedGraphError):
        select(adata, use="connectivities", **SIZES)
    assert "X_ies" not in adata.obsm
    with pytest.warns(IESWarning, match="2 parts"):
        select(adata, use="connectivities", components="largest", **SIZES)
    assert np.flatnonzero(np.isnan(adata.obsm["X_ies"]).any(axis=1)).tolist() == [3]
    assert "2 parts" in adata.uns["ies"]["warnings"][0]


def test_a_missing_key_is_named(adata):
    with pytest.raises(ValueError, match=r"use='X_umap' is in neither .* there are 'X', 'connectivities', 'X_pca'"):
        select(adata, use="X_umap", **SIZES)
