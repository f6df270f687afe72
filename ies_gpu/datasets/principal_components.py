"""Principal components of many columns, in blocks of rows: the features never have to exist as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..backend import Backend, Block, at_home, backend_of
from ..backend.array import Array
from ..errors import brief
from ..validation import check_integer, check_real_array

DENSE = 600  # with more columns than this, only the eigenvectors that are needed are computed


class Components(NamedTuple):
    """Principal components.

    Attributes
    ----------
    scores : ndarray of shape (n_samples, n_columns)
        The centred features, projected on the leading axes.
    axes : ndarray of shape (n_features, n_columns)
        The axes, orthonormal; the largest entry of each is positive.
    variances : ndarray of shape (n_columns,)
        The variance along each axis, largest first.
    mean : ndarray of shape (n_features,)
        The mean of the features.
    explained : float
        The share of the total variance that these axes explain.
    """

    scores: Array
    axes: Any
    variances: Any
    mean: Any
    explained: float


@at_home
def pca(features: Array, n_columns: int = 50, *, transform: Callable[[Any], Any] | None = None) -> Components:
    """Compute the leading principal components.

    The covariance is summed in blocks of rows.

    Parameters
    ----------
    features : ndarray of shape (n_samples, n_features), or (n_samples, ...) with a ``transform``
        On the host or on a device.
    n_columns : int, default=50
        How many components to keep; all of them if there are fewer.
    transform : callable, optional
        Computes the features of a block of rows, so that they never exist for all rows at once:
        ``pca(R, transform=planar_angles)``.

    Returns
    -------
    Components
        Scores, axes, variances, mean, and the share of the variance that they explain.

    Examples
    --------
    >>> from ies_gpu import datasets
    >>> found = datasets.pca(datasets.load("D7", n_samples=400).X, n_columns=3)
    >>> found.scores.shape, found.axes.shape
    ((400, 3), (13, 3))
    >>> found.explained > 0.9
    True
    """
    k = check_integer("n_columns", n_columns, low=1)
    X = check_real_array("features", features, np.ndim(features) if transform is not None else 2)
    backend = backend_of(X)
    if transform is not None and not callable(transform):
        raise TypeError(f"transform must be a function of a block of rows, got {brief(transform)}")
    if len(X) < 2:
        raise ValueError(f"features must have at least 2 rows, got {len(X)}")
    with backend.active():
        p = _features(X[:1], transform).shape[1]
        if p < 1:
            raise ValueError("features must have at least 1 column, got 0")
        _check_room(p, backend)
        mean, covariance = _moments(X, transform, p, backend)
        variances, axes = _leading(backend.to_host(covariance), min(k, p, len(X) - 1))
        on_device = backend.asarray(axes)
        scores = backend.xp.empty((len(X), axes.shape[1]))
        for block in _blocks(len(X), p, backend):
            with block as rows:
                scores[rows] = (_features(X[rows], transform) - mean) @ on_device
    total = float(backend.xp.trace(covariance))
    explained = float(variances.sum() / total) if total > 0 else 1.0
    return Components(scores, on_device, backend.asarray(variances), mean, explained)


def _features(rows: Array, transform: Callable[[Any], Any] | None) -> Array:
    if transform is None:
        return rows
    made = check_real_array("transform(features)", transform(rows), 2)
    if len(made) != len(rows):
        raise ValueError(f"transform must return one row for each of the {len(rows)} rows, got {len(made)}")
    return made


def _check_room(p: int, backend: Backend) -> None:
    needed, budget = 24 * p * p, backend.memory_budget()
    if needed > budget:
        raise ValueError(
            f"the covariance of {p:,} columns needs {needed / 2**30:.1f} GB of the {budget / 2**30:.1f} GB allowed; "
            "use fewer features, such as pairwise distances instead of angles, or fewer atoms"
        )


def _blocks(n: int, p: int, backend: Backend) -> Iterator[Block]:
    return backend.blocks(n, 32.0 * p, "components")


def _moments(X: Array, transform: Callable[[Any], Any] | None, p: int, backend: Backend) -> tuple[Any, Any]:
    """Mean (p,) and covariance (p, p), summed about the mean of the first block to avoid cancellation."""
    xp = backend.xp
    sums, products, centre = xp.zeros(p), xp.zeros((p, p)), None
    for block in _blocks(len(X), p, backend):
        with block as rows:
            moved = _features(X[rows], transform)
            first = moved.mean(axis=0) if centre is None else centre
            moved = moved - first
            share, product = moved.sum(axis=0), moved.T @ moved
            sums += share
            products += product
            centre = first
    n = len(X)
    products -= xp.outer(sums, sums) / n
    return centre + sums / n, products / (n - 1)


def _leading(covariance: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues, largest first, and their eigenvectors (p, k) with a fixed sign."""
    p = len(covariance)
    if p <= DENSE or k > p // 3 or not covariance.any():  # ARPACK refuses a matrix of zeros
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = values[-k:], vectors[:, -k:]
    else:
        from scipy.sparse.linalg import eigsh

        start = np.random.default_rng(0).normal(size=p)
        values, vectors = eigsh(covariance, k, which="LA", v0=start, tol=1e-12)
    order = np.argsort(values)[::-1]
    values, vectors = np.maximum(values[order], 0.0), vectors[:, order]
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(k)]
    return values, vectors * np.where(largest < 0, -1.0, 1.0)
