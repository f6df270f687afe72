"""
Blood cells with scanpy
=======================

Blood cells from scanpy: coordinates for scanpy's plots, a place for cells that came later, and a file for colleagues.
"""

import scanpy

import ies_gpu

cells = scanpy.datasets.pbmc68k_reduced()  # 700 cells, with PCA, neighbours and labels
old, new = cells[::2].copy(), cells[1::2].copy()

# %%
# From the graph of ``scanpy.pp.neighbors``: every cell gets a place, however far apart the clusters are. The verdict is
# doubtful, and rightly: these cells are clusters rather than one sheet.

selection = ies_gpu.anndata.select(cells, use="connectivities", intrinsic_dim=2, subset_size=2)
print(selection)
ies_gpu.plot.embedding(selection, colors=cells.obs["bulk_labels"]).savefig("cells-graph.png")

# %%
# From the principal components, so that other cells can be placed later. Cosine distances compare the profiles of
# cells, not their sequencing depth. Now ``scanpy.pl.embedding(old, basis="ies", color="bulk_labels")`` works too.

known = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.5}
half = ies_gpu.anndata.select(old, metric="cosine", self_loops=False, disconnected="largest", **known)
model = half.model(old.obsm["X_pca"])
new.obsm["X_ies"] = model.transform(new.obsm["X_pca"], isolated="nearest")
print("old cells", old.obsm["X_ies"].shape, "new cells", new.obsm["X_ies"].shape)
ies_gpu.plot.points(new.obsm["X_ies"], colors=new.obs["bulk_labels"]).savefig("cells-new.png")

# %%
# One file holds everything.

new.write_h5ad("cells.h5ad")
