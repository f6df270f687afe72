"""The push-forward metric of a map: co-metric, tangent bases, metric (algorithm RMetric of the paper)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..backend import Backend, active_backend, at_home, backend_of, report, step, to_device
from ..backend.array import Array
from ..backend.compare import audit_tangents
from ..embedding.laplacian import Laplacian, check_laplacian
from ..findings import refusal
from ..validation import check_integer, check_real_array

if TYPE_CHECKING:
    from ..embedding.diffusion import Embedding


class RiemannianMetric(NamedTuple):
    """The push-forward metric of a map at every point, as Algorithm 1 of the paper returns it.

    Attributes
    ----------
    G : ndarray of shape (n_samples, n_components, n_components)
        The metric, the pseudo-inverse of ``H``, of rank d.
    H : ndarray of shape (n_samples, n_components, n_components)
        The co-metric, reduced to rank d.
    U : ndarray of shape (n_samples, n_components, intrinsic_dim)
        The tangent bases, orthonormal columns.
    sigma : ndarray of shape (n_samples, intrinsic_dim)
        The singular values of ``H``, descending.
    """

    G: Array
    H: Array
    U: Array
    sigma: Array


@at_home
def cometric(coordinates: Array, laplacian: Any) -> Array:
    """Return the co-metric at every point, ``H(i) = 1/2 (4/eps^2) sum_j P_ij (y_j - y_i)(y_j - y_i)'``.

    Parameters
    ----------
    coordinates : ndarray of shape (n_samples, n_components)
        The coordinates Y of the points.
    laplacian : Laplacian or sparse matrix of shape (n_samples, n_samples)
        The Laplacian, or a sparse ``I - P``; only its off-diagonal entries matter. The factor ``4/eps^2`` is included
        if the bandwidth is known.

    Returns
    -------
    ndarray of shape (n_samples, n_components, n_components)
        One positive semi-definite matrix per point.

    Examples
    --------
    >>> import ies_gpu
    >>> strip = ies_gpu.datasets.load("D1", n_samples=400)
    >>> laplacian = ies_gpu.laplacian_of_points(strip.X, bandwidth=0.8)
    >>> ies_gpu.cometric(strip.X, laplacian).shape
    (400, 3, 3)
    """
    Y, laplacian, backend, _ = _check(coordinates, laplacian)
    P = laplacian.operator
    H = backend.xp.empty((len(Y), Y.shape[1], Y.shape[1]), dtype=Y.dtype)
    with backend.active():
        for block in P.blocks(Y.shape[1], backend):
            with block as part:
                rows, own = P.cometric(Y, part, backend)
                H[rows] = laplacian.scale * own
        return laplacian.rows.to_user(H)


@at_home
def tangent_bases(coordinates: Array, laplacian: Any, *, intrinsic_dim: int) -> Array:
    """Return a basis of the tangent space at every point: the leading eigenvectors of the co-metric.

    Parameters
    ----------
    coordinates : ndarray of shape (n_samples, n_components)
        The coordinates of the points.
    laplacian : Laplacian or sparse matrix of shape (n_samples, n_samples)
        The Laplacian, or a sparse ``I - P``.
    intrinsic_dim : int
        The dimension d of the manifold.

    Returns
    -------
    ndarray of shape (n_samples, n_components, intrinsic_dim)
        The bases U, with orthonormal columns.

    Examples
    --------
    >>> import ies_gpu
    >>> strip = ies_gpu.datasets.load("D1", n_samples=400)
    >>> laplacian = ies_gpu.laplacian_of_points(strip.X, bandwidth=0.8)
    >>> embedding = ies_gpu.diffusion_map(laplacian, n_components=10)
    >>> ies_gpu.tangent_bases(embedding.coordinates, laplacian, intrinsic_dim=2).shape
    (400, 10, 2)
    """
    Y, laplacian, backend, d = _check(coordinates, laplacian, intrinsic_dim)
    with backend.active():
        return laplacian.rows.to_user(tangents(Y, laplacian, d, backend)[0])


@at_home
def riemannian_metric(coordinates: Array, laplacian: Any, *, intrinsic_dim: int) -> RiemannianMetric:
    """Return metric, co-metric, tangent bases and singular values at every point (Algorithm 1 of the paper).

    The co-metric is ``H = U diag(sigma) U'``, the metric its pseudo-inverse ``G = U diag(1/sigma) U'``, both of rank d.

    Parameters
    ----------
    coordinates, laplacian, intrinsic_dim : as in :func:`tangent_bases`
        The coordinates of the points, the Laplacian and the dimension d of the manifold.

    Returns
    -------
    RiemannianMetric
        The arrays ``G``, ``H``, ``U`` and ``sigma``.

    Examples
    --------
    >>> import ies_gpu
    >>> strip = ies_gpu.datasets.load("D1", n_samples=400)
    >>> laplacian = ies_gpu.laplacian_of_points(strip.X, bandwidth=0.8)
    >>> metric = ies_gpu.riemannian_metric(strip.X, laplacian, intrinsic_dim=2)
    >>> metric.G.shape, metric.U.shape
    ((400, 3, 3), (400, 3, 2))
    """
    Y, laplacian, backend, d = _check(coordinates, laplacian, intrinsic_dim)
    U, sigma = map(laplacian.rows.to_user, tangents(Y, laplacian, d, backend))
    xp, transposed = backend.xp, U.transpose(0, 2, 1)
    inverse = xp.where(sigma > 0, 1 / xp.where(sigma > 0, sigma, 1), 0)
    G, H = (xp.matmul(U * values[:, None, :], transposed) for values in (inverse, sigma))
    return RiemannianMetric(G, H, U, sigma)


class Tangents(NamedTuple):
    """Tangent bases (n, m, d) of the co-metric and its leading singular values (n, d), in the order of the device."""

    bases: Array
    singular_values: Array


@step(
    "tangents", kernel="tangent_rows", single=True, pack=Tangents._asdict,
    audit=lambda found, L, embedding, **_: (  # tiles are plain code already
        audit_tangents(L, embedding.vectors, found, backend_of(found.bases)) if L.operator.has_matrix else None
    ),
    unpack=lambda content, *_, **__: Tangents(*(active_backend().asarray(content[name]) for name in Tangents._fields)),
)  # fmt: skip
def tangent_spaces(laplacian: Laplacian, embedding: Embedding, *, intrinsic_dim: int, dtype: str) -> Tangents:
    """Return a basis of the tangent space at every point of a map, and the singular values of its co-metric."""
    Y = embedding.vectors.astype(dtype, copy=False)
    return Tangents(*tangents(Y, laplacian, intrinsic_dim, backend_of(Y)))


def tangents(Y: Array, laplacian: Laplacian, d: int, backend: Backend) -> tuple[Array, Array]:
    """Return tangent bases U (n, m, d) and singular values (n, d), the latter with the factor ``4/eps^2``."""
    xp, (n, m), P = backend.xp, (laplacian.shape[0], Y.shape[1]), laplacian.operator
    U, sigma = xp.empty((n, m, d), dtype=Y.dtype), xp.empty((n, d))  # in float32 the factor may overflow
    with backend.active():
        for block in P.blocks(m, backend, d):
            with block as part:
                rows, bases, values = P.tangents(Y, part, d, backend)
                U[rows], sigma[rows] = bases, values
                report(rows.stop, n)
    sigma *= laplacian.scale
    return U, sigma


def _check(coordinates: Array, laplacian: Any, intrinsic_dim: Any = None) -> tuple[Array, Laplacian, Backend, int]:
    laplacian = check_laplacian(laplacian)
    Y = check_real_array("coordinates", coordinates, 2)
    if len(Y) != laplacian.shape[0]:
        text = f"coordinates has {len(Y)} rows but laplacian is for {laplacian.shape[0]} points"
        raise refusal("coordinates.rows", text)
    m, why = Y.shape[1], " (the number of coordinates)"
    d = 0 if intrinsic_dim is None else check_integer("intrinsic_dim", intrinsic_dim, low=1, high=m, why=why)
    backend = backend_of(laplacian.operator.matrix.data if laplacian.operator.has_matrix else laplacian.anchor)
    with backend.active():
        return laplacian.rows.to_device(to_device(Y, backend)), laplacian, backend, d
