"""AnnData, as scanpy users have it: coordinates in ``adata.obsm["X_ies"]``, everything else in ``adata.uns["ies"]``.

python examples/cells.py [number of cells]
"""

import sys

import anndata
import numpy as np
from sklearn.decomposition import PCA

from ies_gpu import datasets
from ies_gpu.interop.anndata import select

n = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000
rng = np.random.default_rng(0)
strip = datasets.load("D1", n_samples=n)
genes = strip.X @ rng.normal(size=(3, 40)) / 40**0.5 + 0.02 * rng.normal(size=(n, 40))  # cells along a wide path

adata = anndata.AnnData(genes)
adata.obsm["X_pca"] = PCA(10, random_state=0).fit_transform(adata.X)  # or scanpy.pp.pca(adata)
select(adata, intrinsic_dim=2, subset_size=2, bandwidth=0.25 * (10_000 / n) ** 0.5)
print(adata.uns["ies"]["names"], adata.obsm["X_ies"].shape)
adata.write_h5ad("cells.h5ad")  # then scanpy.pl.embedding(adata, basis="ies")
