"""AnnData in, AnnData out: chosen coordinates for those who work with scanpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from ..backend import backend_of
from ..results.selection import Selection
from ..select import select_coordinates
from ..validation import check_sparse_storage


def select(adata: Any, *, use: str = "X_pca", key_added: str = "ies", **options: Any) -> Selection:
    """Choose coordinates for the cells of an AnnData object, and write them into it.

    Written are ``adata.obsm["X_ies"]`` (n, s), so that ``scanpy.pl.embedding(adata, basis="ies")`` draws them, and
    ``adata.uns["ies"]`` with names, eigenvalues and settings; cells that ``components="largest"`` leaves out get NaN.

    Parameters
    ----------
    adata : anndata.AnnData
    use : str
        ``"X_pca"`` or another array in ``adata.obsm`` is taken as points; ``"X"`` is ``adata.X`` itself.
        ``"connectivities"`` or another graph in ``adata.obsp`` is taken as kernel, as ``scanpy.pp.neighbors`` makes it;
        where its diagonal is empty each cell is its own neighbour with weight 1, as in the paper's kernel. A graph
        needs ``intrinsic_dim`` and ``subset_size``, which can be found from points only.
    key_added : str
        Writes ``obsm["X_" + key_added]`` and ``uns[key_added]``.
    **options
        Of ``select_coordinates``.

    Returns
    -------
    Selection
    """
    entry, value = entry_of(adata, use, options.get("self_loops", True))
    if entry == "kernel":
        options.pop("self_loops", None)  # it has the diagonal asked for
    selection = select_coordinates(**{entry: value}, **options)
    embedding = backend_of(selection.embedding).to_host(selection.embedding)
    whole = np.full((adata.n_obs, embedding.shape[1]), np.nan)
    whole[backend_of(selection.points).to_host(selection.points)] = embedding
    adata.obsm[f"X_{key_added}"] = whole
    adata.uns[key_added] = summary(selection, use)
    return selection


def entry_of(adata: Any, use: str, self_loops: bool = True) -> tuple[str, Any]:
    """The argument of ``select_coordinates`` and its value."""
    if use == "X" or use in adata.obsp:
        value = adata.X if use == "X" else adata.obsp[use]
        if scipy.sparse.issparse(value):  # here already: SciPy converts without a look at the indices
            check_sparse_storage(f"adata.{'X' if use == 'X' else f'obsp[{use!r}]'}", value)
    if use == "X":
        return "X", adata.X.toarray() if scipy.sparse.issparse(adata.X) else adata.X
    if use in adata.obsp:
        return "kernel", with_self(adata.obsp[use]) if self_loops else scipy.sparse.csr_array(adata.obsp[use])
    if use in adata.obsm:
        return "X", adata.obsm[use]
    known = ", ".join(repr(key) for key in ["X", *adata.obsp, *adata.obsm])
    raise ValueError(
        f"use={use!r} is in neither adata.obsp nor adata.obsm; there are {known}. Run scanpy.pp.neighbors(adata) for "
        "'connectivities' or scanpy.pp.pca(adata) for 'X_pca'"
    )


def with_self(kernel: Any) -> Any:
    """A kernel in which every point is its own neighbour with weight 1, unless its diagonal says something else."""
    kernel = scipy.sparse.csr_array(kernel)
    if kernel.diagonal().any():
        return kernel
    return (kernel + scipy.sparse.eye_array(kernel.shape[0], dtype=kernel.dtype, format="csr")).tocsr()


def summary(selection: Selection, use: str) -> dict[str, Any]:
    """What an ``.h5ad`` file can keep: numbers, words and arrays of them."""
    info = selection.diagnostics
    low, high = selection.zeta_interval
    params = {
        name: value
        for name, value in info["parameters"].items()
        if isinstance(value, str | bool | int | float) and value is not None
    }
    return {
        "names": np.array(selection.names, dtype=object),
        "subset": np.array(selection.subset),
        "zeta": float(selection.zeta),
        "zeta_interval": np.array([low, np.inf if high is None else high]),
        "eigenvalues": np.asarray(selection.eigenvalues),
        "mean_degree": float(info["mean_degree"]),
        "device": info["device"],
        "warnings": np.array(info["warnings"], dtype=object),
        "params": {"use": use, **params},
    }
