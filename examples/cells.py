"""
Cells along a path, in AnnData
==============================

Coordinates go into ``adata.obsm["X_ies"]``, and everything else into ``adata.uns["ies"]``. The cells are made up: a
strip, seen through 40 genes.

Run it with ``python examples/cells.py [number of cells]``.
"""

import sys

import anndata
import numpy as np
from sklearn.decomposition import PCA

import ies_gpu
from ies_gpu import datasets

n = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000
rng = np.random.default_rng(0)
strip = datasets.load("D1", n_samples=n)
genes = strip.X @ rng.normal(size=(3, 40)) / 40**0.5 + 0.02 * rng.normal(size=(n, 40))  # cells along a wide path

adata = anndata.AnnData(genes)
adata.obsm["X_pca"] = PCA(10, random_state=0).fit_transform(adata.X)  # or scanpy.pp.pca(adata)
adata.obs["along"] = strip.truth[:, 0]
old, new = adata[: n * 3 // 4].copy(), adata[n * 3 // 4 :].copy()
selection = ies_gpu.anndata.select(old, intrinsic_dim=2, subset_size=2, bandwidth=0.25 * (13_000 / n) ** 0.5)
print(old.uns["ies"]["names"], old.obsm["X_ies"].shape)
old.write_h5ad("cells.h5ad")
ies_gpu.plot.embedding(selection, colors=old.obs["along"]).savefig("cells.png")
# or scanpy.pl.embedding(old, basis="ies", color="along")

# %%
# Place cells that came later. They must be in the same principal components.

ies_gpu.anndata.transform(old, new, isolated="nearest")
print("new cells:", new.obsm["X_ies"].shape)
