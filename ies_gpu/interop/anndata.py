"""AnnData in, AnnData out: chosen coordinates for those who work with scanpy. Public as ``ies_gpu.anndata``."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from ..backend import backend_of, to_host
from ..backend.array import Array, spaced_rows
from ..embedding.kernel import both_ways
from ..embedding.nystrom import KernelRule
from ..findings import IESWarning, brief, listen, option, refusal
from ..options import AUTO, LOCAL, is_auto
from ..parameters.dimension import estimate_dimension
from ..parameters.explained import unexplained_variance
from ..parameters.scan import FALL
from ..results.model import Model, make_model
from ..results.selection import ROWS, Selection
from ..results.text import in_input_rows
from ..select import select_coordinates
from ..validation import check_points, check_sparse_storage, check_square_sparse, check_text

__all__ = ["select", "transform"]
UNCHANGED = 0.05  # of a coordinate's size that cells of the map may be off; 0.03 where two thirds of them were dropped


def select(adata: Any, *, use: str = "X_pca", key_added: str = "ies", **options: Any) -> Selection:
    """Choose coordinates for the cells of an AnnData object, and write them into it.

    This writes ``adata.obsm["X_ies"]`` (n, s), which ``scanpy.pl.embedding(adata, basis="ies")`` draws, and
    ``adata.uns["ies"]`` with names, verdict, eigenvalues and settings. Cells that ``disconnected="largest"`` leaves out
    get NaN.

    Parameters
    ----------
    adata : anndata.AnnData
        The cells.
    use : str, default "X_pca"
        What to start from. ``"X_pca"`` or another array in ``adata.obsm`` is taken as points; ``"X"`` is ``adata.X``
        itself. ``"distances"``, as ``scanpy.pp.neighbors`` makes them, is taken as a graph, and needs ``bandwidth``.
        Other matrices in ``adata.obsp``, such as ``"connectivities"``, are taken as kernel, with their diagonal as it
        is: scanpy leaves it empty, so the eigenvalues are those of ``scanpy.tl.diffmap``.
    key_added : str, default "ies"
        Writes ``obsm["X_" + key_added]`` and ``uns[key_added]``.
    **options : dict
        Options of :func:`ies_gpu.select_coordinates`. With a matrix in ``adata.obsp``, ``intrinsic_dim`` and
        ``subset_size`` are found from the points that the neighbours were computed from.

    Returns
    -------
    Selection
        The same result as :func:`ies_gpu.select_coordinates` returns.

    Examples
    --------
    >>> import anndata, ies_gpu  # doctest: +SKIP
    >>> adata = anndata.read_h5ad("cells.h5ad")  # doctest: +SKIP
    >>> selection = ies_gpu.anndata.select(adata, disconnected="largest")  # doctest: +SKIP
    >>> adata.obsm["X_ies"].shape == (adata.n_obs, len(selection.names))  # doctest: +SKIP
    True
    """
    _check_cells(adata=adata)
    check_text("use", use)
    check_text("key_added", key_added)
    entry, value = entry_of(adata, use)
    given = {entry: value}
    selection = select_coordinates(**given, **options) if entry == "X" else _from_graph(adata, use, given, **options)
    adata.obsm[f"X_{key_added}"] = in_input_rows(selection, adata.n_obs)
    adata.uns[key_added] = summary(selection, use)
    if selection.rotation is not None:  # new cells are placed by the eigenvectors
        adata.obsm[f"{key_added}_eigenvectors"] = in_input_rows(selection, adata.n_obs, every=True)
    return selection


def transform(adata: Any, new: Array, *, key: str = "ies", **options: Any) -> np.ndarray:
    """Put the cells of another AnnData object into the map of the first.

    This writes ``new.obsm["X_ies"]`` and ``new.uns["ies"]``. It needs nothing but what ``select`` wrote into ``adata``,
    so ``adata`` may come from a file.

    Parameters
    ----------
    adata : anndata.AnnData
        The cells of the map, after ``select`` from points (not from a graph).
    new : anndata.AnnData
        Other cells, with the same kind of points: for ``use="X_pca"`` in the same principal components, such as
        ``(new.X - mean) @ adata.varm["PCs"]`` with the mean that PCA subtracted from ``adata.X``.
    key : str, default "ies"
        The ``key_added`` of ``select``.
    **options : dict
        Options of :meth:`ies_gpu.Model.transform`, such as ``isolated="nearest"`` for cells without a neighbour.

    Returns
    -------
    array of shape (n_new, s)
        The same as ``new.obsm["X_ies"]``.

    Examples
    --------
    >>> import anndata, ies_gpu  # doctest: +SKIP
    >>> adata = anndata.read_h5ad("cells.h5ad")  # doctest: +SKIP
    >>> old, new = adata[::2].copy(), adata[1::2].copy()  # doctest: +SKIP
    >>> selection = ies_gpu.anndata.select(old, disconnected="largest")  # doctest: +SKIP
    >>> places = ies_gpu.anndata.transform(old, new)  # doctest: +SKIP
    """
    _check_cells(adata=adata, new=new)
    if check_text("key", key) not in adata.uns or f"X_{key}" not in adata.obsm:
        text = f"adata has no map under key={brief(key)}"
        raise refusal("key.missing", text, "call ies_gpu.anndata.select(adata) first")
    about = adata.uns[key]
    use = str(about["params"]["use"])
    entry, X = entry_of(adata, use)
    if entry != "X":
        text = f"new cells need a map of points: this one was made from the graph {use!r}, whose distances to new "
        raise refusal("model.entry", f"{text}cells are not known", "call select with use='X_pca'")
    if about["params"]["bandwidth"] == LOCAL:
        text = f"new cells need one bandwidth for all cells, but this map has {option('bandwidth', 'local')}"
        raise refusal("model.local", text, f"call select with {option('bandwidth', 'fixed')} or a number")
    if use == "X" and list(adata.var_names) != list(new.var_names):
        text = "new must have the same genes as adata in the same order"
        raise refusal("new.genes", text, "use new[:, adata.var_names]")
    if use != "X" and use not in new.obsm:
        text = f"new.obsm has no {use!r}"
        advice = "put the new cells into the same space as adata first, for PCA by (new.X - mean) @ adata.varm['PCs']"
        raise refusal("new.space", text, f"{advice}; a separate PCA would give different axes")
    model = model_of_cells(adata, key, np.asarray(to_host(X), dtype=float), options.get("device", "auto"))
    rows = spaced_rows(len(model.X), ROWS)
    with listen(IESWarning):
        found = model.transform(model.X[rows])
    off = np.abs(found - model.embedding[rows]).max(axis=1) / np.sqrt((model.embedding**2).mean(axis=0)).max()
    if not np.median(off) <= UNCHANGED:  # NaN where they have no neighbours any more
        where = "adata.X" if use == "X" else f"adata.obsm[{use!r}]"
        text = f"{where} is not what the map was made from, so it was changed after select"
        raise refusal("adata.changed", text, "call select again")
    new.obsm[f"X_{key}"] = model.transform(entry_of(new, use)[1], **options)
    new.uns[key] = {name: about[name] for name in ("names", "subset", "params")}
    return new.obsm[f"X_{key}"]


def model_of_cells(adata: Any, key: str, X: np.ndarray, device: str) -> Model:
    """Return the model of the cells that are in the map, from what ``select`` wrote."""
    about, rotation = adata.uns[key], adata.uns[key].get("rotation")
    whole = np.asarray(adata.obsm[f"X_{key}" if rotation is None else f"{key}_eigenvectors"], dtype=float)
    kept, values, subset = np.isfinite(whole).all(axis=1), np.asarray(about["eigenvalues"]), np.asarray(about["subset"])
    if rotation is None:
        values, subset = values[subset], np.arange(len(subset))
    # a file has numbers of NumPy, and no None
    known = {name: np.asarray(value).item() for name, value in about["params"].items() if name in KernelRule._fields}
    rule, more = KernelRule(**{"radius": None} | known), {"device": device, "rotation": rotation}
    return make_model(check_points(X[kept]), whole[kept], values, rule, subset.tolist(), **more)


def _check_cells(**given: Any) -> None:
    """Check that these are AnnData objects, without importing that library."""
    for name, value in given.items():
        if not all(hasattr(value, part) for part in ("obsm", "obsp", "uns", "n_obs")):
            text = f"{name} must be an AnnData object, got {brief(value)}"
            raise refusal(f"{name}.type", text, "for arrays use select_coordinates", TypeError)


def entry_of(adata: Any, use: str) -> tuple[str, Any]:
    """Return the argument of ``select_coordinates`` and its value."""
    if use != "X" and use not in adata.obsp and use in adata.obsm:
        return "X", adata.obsm[use]
    if use != "X" and use not in adata.obsp:
        known = ", ".join(repr(key) for key in ["X", *adata.obsp, *adata.obsm])
        text = f"use={brief(use)} is in neither adata.obsp nor adata.obsm; there are {known}"
        advice = "run scanpy.pp.neighbors(adata) for 'connectivities' or scanpy.pp.pca(adata) for 'X_pca'"
        raise refusal("use.missing", text, advice)
    name, value = ("adata.X", adata.X) if use == "X" else (f"adata.obsp[{use!r}]", adata.obsp[use])
    home = backend_of(value)
    if home.device != "cpu" and home.sparse.issparse(value):  # as rapids-singlecell leaves it
        value = value.get()
    if scipy.sparse.issparse(value):  # here already: SciPy converts without a look at the indices
        check_sparse_storage(name, value)
    if use == "X":
        return "X", value.toarray() if scipy.sparse.issparse(value) else value
    named = [about.get("distances_key") for about in adata.uns.values() if isinstance(about, dict)]
    if use == "distances" or use.endswith("_distances") or use in named:  # scanpy's names
        return "graph", both_ways(check_square_sparse(name, value, add=False))[0]
    return "kernel", scipy.sparse.csr_array(value)


def _from_graph(
    adata: Any, use: str, given: dict[str, Any], *, intrinsic_dim: Any = AUTO, subset_size: Any = AUTO, **options: Any
) -> Selection:
    """Choose from a graph or kernel; sizes that are "auto" are found from the points that it was made of."""
    d, s = intrinsic_dim, subset_size
    if not (is_auto(d) or is_auto(s)):
        return select_coordinates(**given, intrinsic_dim=d, subset_size=s, **options)
    key = use.removesuffix("connectivities").removesuffix("distances").removesuffix("_") or "neighbors"
    space = dict(adata.uns.get(key) or {}).get("params", {}).get("use_rep") or "X_pca"
    if space not in adata.obsm:
        text = f"intrinsic_dim and subset_size are needed with use={use!r}: 'auto' finds them from the points in "
        advice = "give both, or run scanpy.pp.pca(adata)"
        raise refusal("use.points", f"{text}adata.obsm[{space!r}], which is missing", advice)
    points = np.asarray(to_host(adata.obsm[space]), dtype=float)
    if is_auto(d):
        d = min(estimate_dimension(points).value, np.inf if is_auto(s) else s)
    best, left = None, np.inf
    for size in range(d, 2 * d + 1) if is_auto(s) else [s]:  # one more as long as it explains more of the variance
        found = select_coordinates(**given, intrinsic_dim=d, subset_size=size, **options)
        still = unexplained_variance(points[to_host(found.points)], to_host(found.embedding))
        if best is not None and left - still < FALL:
            break
        best, left = found, still
    return best if best is not None else found


def summary(selection: Selection, use: str) -> dict[str, Any]:
    """Return what an ``.h5ad`` file can keep of a result: numbers, words and arrays of them, but no None."""
    known, (low, high) = selection.diagnostics, selection.zeta_interval
    unknown = {"figure": np.nan}
    params = {name: value for name, value in known["parameters"].items() if isinstance(value, str | bool | int | float)}
    return {
        "names": np.array(selection.names, dtype=object),
        "subset": np.array(selection.subset),
        "verdict": selection.verdict,
        "judgement": {
            name: answer._asdict() | (unknown if answer.figure is None else {})
            for name, answer in selection.judgement.items()
        },
        **({} if selection.rotation is None else {"rotation": np.asarray(to_host(selection.rotation))}),
        "zeta": float(selection.zeta),
        "zeta_interval": np.array([low, np.inf if high is None else high]),
        "eigenvalues": np.asarray(selection.eigenvalues),
        "mean_degree": float(known["mean_degree"]),
        "device": known["device"],
        "warnings": np.array([f"{finding.code}: {finding}" for finding in selection.findings], dtype=object),
        "params": {"use": use} | params,
    }
