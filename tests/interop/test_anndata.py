"""AnnData objects: what is read, what is written, and that a file keeps it."""

import numpy as np
import pandas
import pytest
import scipy.sparse
import scipy.spatial

from ies_gpu import DisconnectedGraphError, datasets, select_coordinates
from ies_gpu import knn_graph as neighbours
from ies_gpu.interop.anndata import entry_of, select
from tests.extras import needed
from tests.said import refused, warned

anndata = needed("anndata", "anndata")
SIZES = {"intrinsic_dim": 2, "subset_size": 2}
FAR = ("distances", "mine_distances", "far")  # names of distances


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


def both_sides(cells):
    return {"graph": (distances := cells.obsp["distances"]).maximum(distances.T)}


@pytest.mark.parametrize(
    ("use", "known", "given"),
    [
        *((name, {"bandwidth": 1.0}, lambda cells: {"X": cells.obsm["X_pca"]}) for name in ("X_pca", "X")),
        ("connectivities", {}, lambda cells: {"kernel": cells.obsp["connectivities"]}),  # an empty diagonal stays empty
        ("own", {}, lambda cells: {"kernel": cells.obsp["own"]}),
        *((name, {"bandwidth": 0.6}, both_sides) for name in FAR),
    ],
)
def test_what_the_cells_hold_is_taken_for_what_it_is(adata, use, known, given):
    assert adata.obsp["connectivities"].diagonal().max() == 0
    adata.obsp["own"] = adata.obsp["connectivities"] + 2 * scipy.sparse.identity(700)
    for name in FAR:
        adata.obsp[name] = scanpy_distances(adata.obsm["X_pca"])
    adata.uns["mine"] = {"distances_key": "far"}
    expected = select_coordinates(**given(adata), **known, **SIZES)
    assert select(adata, use=use, key_added="own", **known, **SIZES).subset == expected.subset
    np.testing.assert_allclose(adata.obsm["X_own"], expected.embedding, rtol=0, atol=1e-12)
    assert adata.uns["own"]["names"].tolist() == list(expected.names)


def test_eigenvalues_are_those_of_scanpy(adata):
    scanpy = needed("scanpy", "test-all")
    adata.uns["neighbors"] = {"connectivities_key": "connectivities", "params": {"n_neighbors": 15, "method": "umap"}}
    scanpy.tl.diffmap(adata, n_comps=9)
    found = select(adata, use="connectivities", n_components=8, **SIZES)
    np.testing.assert_allclose(1 - found.eigenvalues, adata.uns["diffmap_evals"][1:], rtol=0, atol=1e-5)


def test_a_file_keeps_what_was_written(adata, tmp_path):
    selection = select(adata, use="X_pca", bandwidth=1.0, **SIZES)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    np.testing.assert_array_equal(again.obsm["X_ies"], adata.obsm["X_ies"])
    kept = again.uns["ies"]
    assert kept["params"]["use"] == "X_pca" and kept["params"]["bandwidth"] == 1.0
    np.testing.assert_array_equal(kept["rotation"], selection.rotation)
    assert list(adata.uns["ies"])[:4] == ["names", "subset", "verdict", "judgement"]
    for name, value in adata.uns["ies"].items():
        if name != "params":
            np.testing.assert_equal(kept[name], value, err_msg=name)


def test_cells_left_out_get_nan(adata):
    graph = adata.obsp["connectivities"].tolil()
    graph[3], graph[:, 3] = 0, 0
    adata.obsp["connectivities"] = graph.tocsr()
    with pytest.raises(DisconnectedGraphError):
        select(adata, use="connectivities", **SIZES)
    assert "X_ies" not in adata.obsm
    with warned("graph.left_out"):
        select(adata, use="connectivities", disconnected="largest", **SIZES)
    assert np.flatnonzero(np.isnan(adata.obsm["X_ies"]).any(axis=1)).tolist() == [3]
    assert any("2 parts" in text for text in adata.uns["ies"]["warnings"])


def test_what_is_missing_or_does_not_fit_is_named(adata):
    adata.obsp["distances"] = scanpy_distances(adata.obsm["X_pca"])
    for cells, use, code in (
        (adata, "X_umap", "use.missing"),
        (adata, "distances", "entry.automatic"),  # without a bandwidth
        (np.zeros((5, 2)), "X_pca", "adata.type"),
    ):
        with refused(code, (ValueError, TypeError)):
            select(cells, use=use, **SIZES)


def test_sizes_of_a_graph_are_found_from_its_points(adata):
    found = select(adata, use="connectivities")
    assert found.diagnostics["parameters"]["intrinsic_dim"] == 2 and len(found.subset) in (2, 3)
    assert len(select(adata, use="connectivities", subset_size=2).subset) == 2
    for name, wrong in (("intrinsic_dim", {"intrinsic_dim": "2"}), ("subset_size", {"subset_size": "2"})):
        with refused(f"{name}.*", (ValueError, TypeError)):
            select(adata, use="connectivities", **wrong)
    del adata.obsm["X_pca"]
    with refused("use.points"):
        select(adata, use="connectivities")
    adata.uns["neighbors"] = {"params": {"use_rep": "X_other"}}
    adata.obsm["X_other"] = adata.X.toarray()
    assert select(adata, use="connectivities").subset == found.subset


def test_other_cells_go_into_the_same_map(adata):
    """In single precision, as scanpy keeps principal components."""
    adata.obsm["X_pca"] = adata.obsm["X_pca"].astype(np.float32)
    first, second = adata[::2].copy(), adata[1::2].copy()
    model = select(first, bandwidth=1.3, **SIZES).model(first.obsm["X_pca"])
    np.testing.assert_allclose(model.transform(first.obsm["X_pca"]), first.obsm["X_ies"], rtol=0, atol=1e-6)
    assert np.isfinite(model.transform(second.obsm["X_pca"])).all()


def scanpy_distances(X, k=15):
    """As scanpy keeps them: the k nearest of each cell, not symmetric."""
    distances = scipy.spatial.distance.cdist(X, X)
    rows, nearest = np.repeat(np.arange(len(X)), k), np.argsort(distances, axis=1)[:, 1 : k + 1].ravel()
    return scipy.sparse.csr_matrix((distances[rows, nearest], (rows, nearest)), shape=distances.shape)


def test_copies_of_a_cell_stay_neighbours(adata):
    X = np.repeat(np.asarray(adata.obsm["X_pca"])[:300], 2, axis=0)
    cells = anndata.AnnData(X=X.astype("f4"), obsm={"X_pca": X})
    cells.obsp["distances"] = scanpy_distances(X)  # some entries are stored zeros
    stored, graph = cells.obsp["distances"], entry_of(cells, "distances")[1]
    assert all(i + 1 in graph.indices[graph.indptr[i] : graph.indptr[i + 1]] for i in range(0, 600, 2))
    np.testing.assert_array_equal(graph.toarray(), np.maximum(stored.toarray(), stored.toarray().T))
