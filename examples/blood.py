"""
Blood cells, from scanpy's graph
================================

A map of 700 cells that come with scanpy (``pip install scanpy``), from the graph of ``scanpy.pp.neighbors``.
:doc:`/anndata` says what the picture shows, and what it does not.

Run it with ``python examples/blood.py``.
"""

import scanpy

import ies_gpu

cells = scanpy.datasets.pbmc68k_reduced()
selection = ies_gpu.anndata.select(cells, use="connectivities", subset_size=2)
print(selection)
ies_gpu.plot.embedding(selection, colors=cells.obs["bulk_labels"]).savefig("blood.png")
# or, as for any other embedding: scanpy.pl.embedding(cells, basis="ies", color="bulk_labels")
