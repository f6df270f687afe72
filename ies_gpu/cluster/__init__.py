"""The same pipeline on the workers of a Dask cluster, for points that outgrow one machine."""
