"""AnnData in, AnnData out: chosen coordinates for those who work with scanpy. Public as ``ies_gpu.anndata``."""

from typing import Any

import numpy as np
import scipy.sparse

from ..backend import backend_of, to_host
from ..embedding.given import both_ways
from ..findings import brief, refusal
from ..options import AUTO, is_auto
from ..parameters.dimension import estimate_dimension
from ..parameters.judgement import unexplained_variance
from ..parameters.scan import FALL
from ..results.selection import Selection
from ..results.text import in_input_rows
from ..select import select_coordinates
from ..validation import check_integer, check_sparse_storage, check_square_sparse, check_text

__all__ = ["select"]


def select(adata: Any, *, use: str = "X_pca", key_added: str = "ies", **options: Any) -> Selection:
    """Choose coordinates for the cells of an AnnData object, and write them into it.

    ``adata.obsm["X_ies"]`` (n, s) is for ``scanpy.pl.embedding(adata, basis="ies")``, with NaN for cells that were left
    out; ``adata.uns["ies"]`` has names, verdict, eigenvalues and settings.

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
    >>> model = selection.model(adata.obsm["X_pca"])  # doctest: +SKIP
    >>> other.obsm["X_ies"] = model.transform(other.obsm["X_pca"])  # doctest: +SKIP
    """
    if not all(hasattr(adata, part) for part in ("obsm", "obsp", "uns", "n_obs")):  # without importing that library
        text = f"adata must be an AnnData object, got {brief(adata)}"
        raise refusal("adata.type", text, "for arrays use select_coordinates", TypeError)
    check_text("use", use)
    check_text("key_added", key_added)
    entry, value = entry_of(adata, use)
    given = {entry: value}
    selection = select_coordinates(**given, **options) if entry == "X" else _from_graph(adata, use, given, **options)
    adata.obsm[f"X_{key_added}"] = in_input_rows(selection, adata.n_obs)
    adata.uns[key_added] = summary(selection, use)
    return selection


def entry_of(adata: Any, use: str) -> tuple[str, Any]:
    """Return the argument of ``select_coordinates`` and its value."""
    if use != "X" and use not in adata.obsp:
        if use in adata.obsm:
            return "X", adata.obsm[use]
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
        d = estimate_dimension(points).value
        d = d if is_auto(s) else min(d, check_integer("subset_size", s, low=1))
    best, left = None, np.inf
    for size in range(d, 2 * check_integer("intrinsic_dim", d, low=1) + 1) if is_auto(s) else [s]:
        found = select_coordinates(**given, intrinsic_dim=d, subset_size=size, **options)
        still = unexplained_variance(points[to_host(found.points)], to_host(found.embedding))
        if best is not None and left - still < FALL:  # one more as long as it explains more of the variance
            break
        best, left = found, still
    assert best is not None
    return best


def summary(selection: Selection, use: str) -> dict[str, Any]:
    """Return what an ``.h5ad`` file can keep of a result: numbers, words and arrays of them, but no None."""
    known, (low, high), asked = selection.diagnostics, selection.zeta_interval, selection.judgement.items()
    params = {name: value for name, value in known["parameters"].items() if isinstance(value, str | bool | int | float)}
    return {
        "names": np.array(selection.names, dtype=object),
        "subset": np.array(selection.subset),
        "verdict": selection.verdict,
        "judgement": {name: one._asdict() | ({"figure": np.nan} if one.figure is None else {}) for name, one in asked},
        **({} if selection.rotation is None else {"rotation": to_host(selection.rotation)}),
        "zeta": float(selection.zeta),
        "zeta_interval": np.array([low, np.inf if high is None else high]),
        "eigenvalues": np.asarray(selection.eigenvalues),
        "mean_degree": float(known["mean_degree"]),
        "device": known["device"],
        "warnings": np.array([f"{finding.code}: {finding}" for finding in selection.findings], dtype=object),
        "params": {"use": use} | params,
    }
