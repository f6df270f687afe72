"""Bandwidth, intrinsic dimension and number of coordinates, as an automatic run finds them, and why."""

from dataclasses import dataclass, field
from typing import Any

from ..backend.array import Array
from ..findings import Judged, refusal
from ..select import select_coordinates


@dataclass(frozen=True)
class Parameters:
    """Parameters found from points, what each is based on, and how sure it is.

    Attributes
    ----------
    bandwidth : float or "local"
        The bandwidth of the kernel.
    intrinsic_dim : int
        The dimension of the manifold.
    subset_size : int
        How many coordinates to choose.
    verdict : {"sure", "likely", "doubtful"}
        How sure they are together, as in :attr:`Selection.verdict`.
    confidence : dict of str to Judged
        For each parameter that was found, a ``level`` ("high", "fair" or "low") and the ``facts`` behind it.
    basis : dict
        What was compared, such as ``"scan"``, ``"spectrum"`` and ``"sizes"``: a result's ``diagnostics["automatic"]``.
    """

    bandwidth: float | str
    intrinsic_dim: int
    subset_size: int
    verdict: str
    confidence: dict[str, Judged]
    basis: dict[str, Any] = field(repr=False)


def estimate_parameters(X: Array, **options: Any) -> Parameters:
    """Estimate bandwidth, intrinsic dimension and number of coordinates for points.

    These are the values that :func:`select_coordinates` uses for the same points and options.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points, one row per point.
    **options
        Options of :func:`select_coordinates`, such as ``intrinsic_dim=2`` where it is known, or ``random_state``.

    Returns
    -------
    ies_gpu.Parameters
        The values, what each is based on, and how sure it is.

    Examples
    --------
    >>> import ies_gpu
    >>> strip = ies_gpu.datasets.load("D1", n_samples=1000)
    >>> found = ies_gpu.estimate_parameters(strip.X)
    >>> found.intrinsic_dim, found.subset_size
    (2, 2)
    >>> found.confidence["intrinsic_dim"].level
    'high'
    """
    selection = select_coordinates(X, **options)
    found = selection.diagnostics["automatic"]
    if found is None:
        text = "bandwidth, intrinsic_dim and subset_size are all given, so there is nothing to estimate"
        raise refusal("parameters.given", text, "leave at least one of them out")
    values = {name: found[name] for name in ("bandwidth", "intrinsic_dim", "subset_size")} | found["chosen"]
    sure = {name: Judged(**judged) for name, judged in found["confidence"].items()}
    return Parameters(**values, verdict=selection.verdict or "", confidence=sure, basis=found)
