"""Turn chosen eigenvectors within the blur of the sample, so that their map is as straight as the sample allows.

A finite sample mixes eigenvectors whose eigenvalues are close, and the right set then still gives a bow-tie or a wave.
How far two are mixed has a standard error, which prices every turn; no group of eigenvectors is cut off. One
turn lessens the energy that coordinates share, in closed form; another, from there on, makes the map as open as
possible. Where a map has a side, a third makes it show the same one everywhere. A turn must explain the points better
and lose no more of the worst direction around a point than before; the one that explains them best is taken. Without
points, random functions that the graph has averaged stand in for them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend import backend_of, step
from ..backend.array import Array, column_norms, column_units, spaced_rows
from ..embedding.graph import leading_axes
from ..findings import Finding, note, option, refusal
from ..validation import check_real_array
from . import faults
from .criterion import check_subsets, coordinate_names, formula, stray_coordinates

TOO_FEW = 100  # points, below which nothing is turned
TURNED_BY, TESTED_BY = 1_000, 2_000  # points at most that a turn is found from, and tested on
BLURS = 1.0, 0.5  # of the standard error, which is an upper bound: about twice the error
SHARED = 0.001  # what a turn costs, in units of its standard error squared: beside the energy that is shared,
OPEN = 0.003  # beside the logarithm of the volume,
ONE_SIDED = 0.0001, 0.004  # and beside the energy of a turn to one side, which may go far
ENOUGH = {"maxiter": 60, "ftol": 1e-4}  # steps, and how little one may gain: less changes no figure
FLOOR = 0.02  # of a squared volume, at which the logarithm ends
AMONG = 10, 15, 20  # neighbours, by which the sides of a map are told
SMALL = 0.02  # weights that are left out
EXPLAINS = 0.95  # of what was unexplained of the points is left by a turn
NOISE = 0.9  # unexplained share of an axis from which on it is noise
LOST, MENDS = 0.9, 0.9  # a direction as good as lost, and times that what may be lost then
WORSE = 0.2  # of the gain on one axis, the most that may be lost on another


@step("untangle")
def untangle(
    coordinates: Array, eigenvalues: Array, bases: Array, singular_values: Array, subset: Sequence[int], *,
    X: Array = None, laplacian: Any = None, rows: np.ndarray | None = None, n_samples: int | None = None,
) -> np.ndarray | None:  # fmt: skip
    """Turn the chosen coordinates but the first, if that straightens the map.

    Parameters
    ----------
    coordinates : ndarray of shape (n_samples, n_components)
        Eigenvectors.
    eigenvalues : ndarray of shape (n_components,)
        Their eigenvalues, in the units of the singular values: those of the Laplace-Beltrami operator.
    bases, singular_values : ndarray of shape (n_samples, n_components, d) and (n_samples, d)
        The tangent bases of these coordinates and the singular values of their co-metric, as ``U`` and ``sigma`` of
        :func:`ies_gpu.riemannian_metric`.
    subset : sequence of int
        The chosen ones, 0-based.
    X : ndarray of shape (n_samples, n_features), optional
        The points, by which a turn is tested.
    laplacian : Laplacian, optional
        In place of the points: its graph averages random functions, and these are predicted instead.
    rows : ndarray of shape (n_samples,), optional
        The row of ``X``, or of what the Laplacian was made from, of each point, where the coordinates stand in another
        order.
    n_samples : int, optional
        How many points the eigenvectors were computed from, if only some of them are given.

    Returns
    -------
    ndarray of shape (n_components, s) or None
        The weights W: ``coordinates @ W`` are the turned coordinates, each as long as the one it was turned from. None
        if no turn passes the test.

    Examples
    --------
    >>> import ies_gpu
    >>> from ies_gpu.choice.untangle import untangle
    >>> strip = ies_gpu.datasets.load("D1", n_samples=1000).X
    >>> laplacian = ies_gpu.laplacian_of_points(strip, bandwidth=0.8)
    >>> embedding = ies_gpu.diffusion_map(laplacian, n_components=12)
    >>> metric = ies_gpu.riemannian_metric(embedding.coordinates, laplacian, intrinsic_dim=2)
    >>> values = laplacian.scale * embedding.eigenvalues
    >>> untangle(embedding.coordinates, values, metric.U, metric.sigma, (0, 6), X=strip).shape
    (12, 2)
    """
    Y = check_real_array("coordinates", coordinates, 2)
    backend, (n, m) = backend_of(Y), Y.shape
    S = [int(k) for k in check_subsets([list(subset)], m)[0]]
    if X is None and laplacian is None:
        raise refusal("untangle.untested", "a turn is tested by the points or by their graph", "pass X or laplacian")
    if n < TOO_FEW or len(S) < 2 or bases.shape[2] < 2:  # along a curve, coordinates share all of their energy
        return None

    def some(array: Array, most: int, order: np.ndarray | None = None) -> np.ndarray:
        home, taken = backend_of(array), spaced_rows(n, most)
        with home.active():
            return home.to_host(array[home.asarray(taken if order is None else order[taken])]).astype(float)

    lengths = np.maximum(backend.to_host(column_norms(Y)), 1e-300)
    unit = n**0.5 / lengths  # to root mean square 1
    values = np.array(backend.to_host(eigenvalues), dtype=float)
    top = values.max() or 1.0  # in whose unit squares neither overflow nor vanish
    values, speeds = values / top, np.maximum(some(singular_values, TURNED_BY), 0.0) / top
    F, Z = some(bases, TURNED_BY) * np.sqrt(speeds)[:, None, :] * unit[:, None], some(Y, TURNED_BY) * unit
    price = 1 / np.clip(mixing_angles(Z, values, F, n_samples or n)[S], 1e-4, 1e4) ** 2
    price[:, stray_coordinates(Y)] = 1e8
    price[range(len(S)), S] = 0
    start = np.eye(m)[S]
    turns, d = [start], F.shape[2]
    for dear in (price / blur**2 for blur in (BLURS[1:] if len(S) == d else BLURS)):
        apart = less_shared(F, start, dear)
        turns += [apart, more_open(F, values, apart, dear)]
    if len(S) == d:
        signs = max(sides(F, values, Z), key=lambda signs: one_sided(F, start, ONE_SIDED[0] * price, signs)[1])
        turns += [one_sided(F, start, cost * price, signs)[0] for cost in ONE_SIDED]
    if X is not None:
        ground = faults.ground_of_points(some(X, TESTED_BY, rows), d)
    else:
        functions, size = faults.averaged_functions(laplacian)
        ground = faults.ground_of_functions(some(laplacian.rows.to_user(functions), TESTED_BY, rows), size / n, d)
    W = best_turn([without_small(W) for W in turns], some(Y, TESTED_BY) * unit, ground)
    if W is None:
        return None
    W = W.T * unit[:, None]
    long = backend.to_host(column_norms(Y @ backend.asarray(W)))
    return W * lengths[S] / np.maximum(long, 1e-300)


def mixing_angles(Y: np.ndarray, values: np.ndarray, F: np.ndarray, n: int) -> np.ndarray:
    """Theta (m, m): the standard error of the angle by which a sample of n turns each eigenvector towards each other.

    To first order that is ``E_kl / (lambda_k - lambda_l)``, where ``E_kl`` is a mean over the points of
    ``<grad phi_k, grad phi_l> - (lambda_k + lambda_l) / 2 phi_k phi_l``. F (q, m, d) and Y (q, m) hold gradients and
    values at q of the points. It is an upper bound: renormalisation removes part of the noise.
    """
    errors = np.empty((Y.shape[1], Y.shape[1]))
    for k, value in enumerate(values):
        mixed = np.matmul(F, F[:, k, :, None])[:, :, 0] - 0.5 * (value + values) * (Y[:, k, None] * Y)
        errors[k] = mixed.std(axis=0) / n**0.5
    return errors / np.maximum(np.abs(values[:, None] - values), 1e-12 * values.max())


def shared_energy(F: np.ndarray, W: np.ndarray, j: int) -> tuple[np.ndarray, np.ndarray]:
    """Matrices Q and C (m, m): of ``psi = w @ phi``, ``w'Qw`` is the energy along the other rows of W, ``w'Cw`` all."""
    q, m, d = F.shape
    others = np.matmul(np.delete(W, j, axis=0), F)
    along = np.matmul(others.transpose(0, 2, 1), others)
    along /= np.maximum(np.trace(along, axis1=1, axis2=2), 1e-300)[:, None, None]
    flat = F.transpose(1, 0, 2).reshape(m, q * d)
    return np.matmul(F, along).transpose(1, 0, 2).reshape(m, q * d) @ flat.T / q, flat @ flat.T / q


def less_shared(F: np.ndarray, W: np.ndarray, price: np.ndarray) -> np.ndarray:
    """Each coordinate but the first in turn: the least energy shared with the others, an eigenproblem of m x m."""
    from scipy.linalg import eigh

    W = W.copy()
    for j in range(1, len(W)):
        Q, C = shared_energy(F, W, j)
        size = np.maximum(C.diagonal(), 1e-12 * C.diagonal().max())
        W[j] = eigh(Q + SHARED * np.diag(price[j] * size), C + 1e-9 * np.diag(size))[1][:, 0]
        W[j] /= np.linalg.norm(W[j])
    return W


def sides(F: np.ndarray, values: np.ndarray, Y: np.ndarray) -> list[np.ndarray]:
    """Signs (q,) that make tangent bases point alike, by some numbers of neighbours of points Y (q, m).

    Planes of eigenvectors over their eigenvalues turn least from a point to the next: there, slow ones prevail.
    """
    values = np.maximum(values, 1e-12)
    slow = F / values[:, None]
    slow /= np.maximum(np.linalg.det(slow.transpose(0, 2, 1) @ slow), 1e-300)[:, None, None] ** (0.5 / F.shape[2])
    near = faults.nearest(Y / np.sqrt(values), max(AMONG))
    alike = faults.likeness(slow, near)
    return [faults.carried(slow, alike[:, :k], near[:, :k], along_best=True) for k in AMONG]


def one_sided(F: np.ndarray, W: np.ndarray, price: np.ndarray, signs: np.ndarray) -> tuple[np.ndarray, float]:
    """Each coordinate but the first in turn: the largest mean gradient across the others, to one side, for its energy.

    Volume does not tell a map from one that is turned over in places. By the signs (q,) of :func:`sides` the gradient
    across the others has a direction. Its mean is linear in w, so that a system of m equations gives the turn. With it
    comes how large the means are: least where signs are wrong.
    """
    (q, m, d), W, found = F.shape, W.copy(), 0.0
    flat = F.transpose(1, 0, 2).reshape(m, q * d)
    C = flat @ flat.T / q
    size = np.maximum(C.diagonal(), 1e-12 * C.diagonal().max())
    for j in range(1, d):
        others = np.matmul(np.delete(W, j, axis=0), F)
        across = np.stack([(-1) ** c * np.linalg.det(np.delete(others, c, axis=2)) for c in range(d)], axis=1)
        across *= (signs / np.maximum(np.linalg.norm(across, axis=1), 1e-300))[:, None]
        mean = flat @ across.ravel() / q
        w = np.linalg.solve(C + np.diag((price[j] + 1e-9) * size), mean)
        W[j], found = w / np.linalg.norm(w), found + mean @ w
    return W, found


def more_open(F: np.ndarray, values: np.ndarray, W: np.ndarray, price: np.ndarray) -> np.ndarray:
    """The turn of all coordinates but the first that makes the mean logarithm of the map's volume largest, from W on.

    Every coordinate counts with mean squared speed 1, so that none gains by being steep.
    """
    from scipy.optimize import minimize

    (q, m, d), (s, _), price = F.shape, W.shape, price[1:]
    flat = np.ascontiguousarray(F.transpose(1, 0, 2)).reshape(m, q * d)
    energies = (flat * flat).mean(axis=1) * d
    first = W[:1] @ flat / np.sqrt(energies @ W[0] ** 2)

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        w = x.reshape(s - 1, m)
        length, energy = (w * w).sum(axis=1)[:, None], ((w * w) @ energies)[:, None]
        V = np.concatenate([first, w @ flat / np.sqrt(energy)])
        V3 = V.reshape(s, q, d).transpose(1, 0, 2)
        G = np.matmul(V3.transpose(0, 2, 1), V3) + FLOOR * np.eye(d)
        cost = (price * w * w).sum(axis=1)[:, None] / length
        rise = np.matmul(V3, np.linalg.inv(G)).transpose(1, 0, 2).reshape(s, q * d)[1:]  # d (log det G / 2) / dV
        slope = rise @ flat.T / q / np.sqrt(energy) - w * energies * ((rise * V[1:]).sum(axis=1)[:, None] / q / energy)
        slope -= OPEN * 2 * w * (price - cost) / length
        return OPEN * cost.sum() - 0.5 * np.linalg.slogdet(G)[1].mean(), -slope.ravel()

    found = minimize(value, W[1:].ravel(), jac=True, method="L-BFGS-B", options=ENOUGH).x.reshape(s - 1, m)
    return np.concatenate([W[:1], found / np.linalg.norm(found, axis=1, keepdims=True)])


def without_small(W: np.ndarray) -> np.ndarray:
    """Rows of unit length without their small weights, the largest weight positive."""
    W = np.where(np.abs(W) < SMALL, 0.0, W)
    W *= np.sign(W[range(len(W)), np.abs(W).argmax(axis=1)])[:, None]
    return W / np.linalg.norm(W, axis=1, keepdims=True)


def best_turn(turns: list[np.ndarray], Y: np.ndarray, ground: faults.Ground) -> np.ndarray | None:
    """The turn of eigenvectors Y by which points are explained best, or None if that is the first, which is none.

    It must leave clearly less of the points unexplained than the first, on the mean of the axes that are not noise, and
    hardly more on any, and lose no more of the worst direction around a point. Where a direction is as good as lost,
    the set is wrong, and a turn has to mend it.
    """

    def lost(k: int) -> float:  # by planes, as means lose much along a direction in which points are far apart
        return faults.lost_in(ground.regions, ground.values - faults.plane_through(ground.values, maps[k], near[k]))

    X = ground.values @ leading_axes(ground.values, faults.COMPONENTS)
    maps = [faults.blurred(Y @ W.T, 0.0) for W in turns]
    near = [faults.nearest(Z, faults.MORE) for Z in maps]
    errors = [X - faults.mean_over(X, rows[:, : faults.NEIGHBOURS]) for rows in near]
    left = np.array([(each / column_units(X)).var(axis=0) for each in errors])
    shares = left[:, np.min(left, axis=0) < NOISE]
    if shares.size == 0:  # no map tells anything
        return None
    means, less = shares.mean(axis=1), shares[0] - shares
    passed = (means <= EXPLAINS * means[0]) & (-less.min(axis=1) <= WORSE * less.max(axis=1))
    before = lost(0)
    most = before if before < LOST else MENDS * before
    return next((turns[k] for k in means.argsort() if passed[k] and lost(k) <= most), None)


def turns_said(W: np.ndarray, subset: Sequence[int]) -> list[Finding]:
    """What was turned, from weights (m, s) of eigenvectors of one length, and where so far that it is a new choice."""
    found = []
    for w, k in zip(W.T / np.linalg.norm(W, axis=0)[:, None], subset, strict=True):
        name = coordinate_names([k])[0]
        if w[k] ** 2 < 0.5:
            text = f"{name} is turned so far, to {formula(w)}, that it is a new choice"
            found.append(note("untangle.new_choice", text, f"{option('untangle', False)} keeps {name}"))
        elif formula(w) != name:  # less is not worth a word
            found.append(note("untangle.turned", f"{name} is turned to {formula(w)}, which the sample leaves open"))
    return found
