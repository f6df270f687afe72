"""Features of a molecule's shape, which do not depend on its position and orientation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ..backend import Backend, at_home, backend_of, to_host
from ..backend.array import Array
from ..errors import brief
from ..findings import tell, warning
from ..validation import check_integer, check_members, check_real_array

STRAIGHT = 1e-10  # a sine up to this is rounding error
BENT = 0.1  # chains that come nearer to a line than this have no torsion worth following
LEAST = 5  # frames of either hand before we speak of mirror images
BOND = 1.25  # times the sum of two covalent radii: atoms further apart are not bonded
# atomic number and covalent radius in Angstrom (Cordero et al. 2008)
ELEMENTS = {
    "H": (1, 0.31), "B": (5, 0.84), "C": (6, 0.76), "N": (7, 0.71), "O": (8, 0.66), "F": (9, 0.57), "Si": (14, 1.11),
    "P": (15, 1.07), "S": (16, 1.05), "Cl": (17, 1.02), "Se": (34, 1.20), "Br": (35, 1.20), "I": (53, 1.39),
}  # fmt: skip


@at_home
def pairwise_distances(R: Array) -> Array:
    """Compute the distances between all pairs of atoms, which are the same for a molecule and its mirror image.

    Parameters
    ----------
    R : ndarray of shape (n_frames, n_atoms, 3)
        Positions.

    Returns
    -------
    ndarray of shape (n_frames, n_atoms * (n_atoms - 1) / 2)
        Distances of the pairs (0, 1), (0, 2), ... in lexicographic order.

    Examples
    --------
    >>> import numpy as np
    >>> from ies_gpu import datasets
    >>> frames = np.array([[[0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 4.0, 0.0]]])
    >>> datasets.pairwise_distances(frames)
    array([[3., 4., 5.]])
    """
    R, backend = _positions(R, least=2)
    _tell_of_mirror_images(R, "distances")
    first, second = (backend.asarray(k) for k in np.triu_indices(R.shape[1], 1))
    norm = backend.xp.linalg.norm
    return _by_rows(R, len(first), 64.0, lambda R, _: norm(R[:, first] - R[:, second], axis=2), backend)


@at_home
def planar_angles(R: Array) -> Array:
    """Compute the inner angles of all triangles of atoms, which are the same for a molecule and its mirror image.

    Parameters
    ----------
    R : ndarray of shape (n_frames, n_atoms, 3)
        Positions.

    Returns
    -------
    ndarray of shape (n_frames, 3 * C(n_atoms, 3))
        In radians. Triangles (0, 1, 2), (0, 1, 3), ... in lexicographic order, each with the angles at its first,
        second and third atom.

    Raises
    ------
    ValueError
        If two atoms of a frame coincide, because their angles are undefined.

    Examples
    --------
    >>> import numpy as np
    >>> from ies_gpu import datasets
    >>> frames = np.array([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> np.degrees(datasets.planar_angles(frames)).round(6)
    array([[90., 45., 45.]])
    """
    R, backend = _positions(R, least=3)
    _tell_of_mirror_images(R, "angles")
    triangles = np.array(list(combinations(range(R.shape[1]), 3)))
    corners = triangles[:, [[0, 1, 2], [1, 2, 0], [2, 0, 1]]].reshape(-1, 3)
    at, left, right = (backend.asarray(k) for k in corners.T)
    return _by_rows(R, len(corners), 200.0, lambda R, start: _angles(R, at, left, right, backend, start), backend)


def _angles(R: Array, at: Array, left: Array, right: Array, backend: Backend, first_frame: int) -> Array:
    """Return the angles between the directions from some atoms to others."""
    xp, atoms = backend.xp, R.shape[1]
    ways = R[:, None, :, :] - R[:, :, None, :]  # [frame, from, to]
    lengths = xp.linalg.norm(ways, axis=3)
    lengths[:, xp.arange(atoms), xp.arange(atoms)] = 1.0
    if bool((lengths == 0).any()):
        frame, a, b = (int(k[0]) for k in xp.nonzero(lengths == 0))
        raise ValueError(f"R: atoms {a} and {b} coincide in frame {first_frame + frame}; their angles are undefined")
    units = xp.ascontiguousarray((ways / lengths[..., None]).reshape(len(R), -1, 3).transpose(2, 0, 1))
    u, v = units[:, :, at * atoms + left], units[:, :, at * atoms + right]
    # the half angle by its tangent: the arc cosine would lose half of the digits near 0 and pi
    return 2 * xp.arctan2(xp.sqrt(((u - v) ** 2).sum(axis=0)), xp.sqrt(((u + v) ** 2).sum(axis=0)))


@at_home
def torsion(R: Array, atoms: Sequence[int]) -> Array:
    """Compute the torsion (dihedral angle) of a chain of four atoms, in radians.

    Parameters
    ----------
    R : ndarray of shape (n_frames, n_atoms, 3)
        Positions.
    atoms : sequence of 4 int
        The chain a-b-c-d, 0-based.

    Returns
    -------
    ndarray of shape (n_frames,)
        In [-pi, pi]: 0 if a and d eclipse each other; positive if d is clockwise of a, looking from b to c. NaN if
        three of the atoms are on one line.

    Examples
    --------
    >>> import numpy as np
    >>> from ies_gpu import datasets
    >>> chain = np.array([[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 1.0]]])
    >>> np.degrees(datasets.torsion(chain, (0, 1, 2, 3))).round(6)
    array([90.])
    """
    R, backend = _positions(R, least=4)
    sine, cosine = _twists(R, _checked_chains("atoms", [atoms], R.shape[1]), backend)[:, :, 0]
    return backend.xp.arctan2(sine, cosine)


@at_home
def torsion_features(R: Array, chains: Any = None, *, z: Array = None) -> Array:
    """Compute the cosines and sines of torsions; the sines tell a molecule from its mirror image.

    Parameters
    ----------
    R : ndarray of shape (n_frames, n_atoms, 3)
        Positions.
    chains : sequence of (int, int, int, int), optional
        Chains of four atoms, 0-based. By default all chains of bonded atoms that are not nearly straight; then
        positions must be in Angstrom.
    z : ndarray of shape (n_atoms,), optional
        Atomic numbers, which tell the bonds; needed if no chains are given.

    Returns
    -------
    ndarray of shape (n_frames, 2 * n_chains)
        The cosine of each chain's torsion, then the sine of each.

    Examples
    --------
    >>> import numpy as np
    >>> from ies_gpu import datasets
    >>> peroxide = np.array([[[0.0, 0.96, 0.0], [0.0, 0.0, 0.0], [1.45, 0.0, 0.0], [1.45, 0.0, 0.96]]])
    >>> datasets.torsion_features(peroxide, z=[1, 8, 8, 1]).round(6)
    array([[0., 1.]])
    """
    R, backend = _positions(R, least=4)
    named = bonded_chains(R, z) if chains is None else _checked_chains("chains", chains, R.shape[1])

    def features(R: Array, start: int) -> Array:
        sine, cosine = _twists(R, named, backend)
        if bool((undefined := backend.xp.isnan(sine)).any()):
            frame, k = (int(k[0]) for k in backend.xp.nonzero(undefined))
            raise ValueError(
                f"R: three atoms of the chain {tuple(named[k].tolist())} are on one line in frame {start + frame}, so "
                "its torsion is undefined; leave the chain out"
            )
        return backend.xp.concatenate([cosine, sine], axis=1)

    return _by_rows(R, 2 * len(named), 400.0, features, backend)


def _twists(R: Array, chains: np.ndarray, backend: Backend) -> Array:
    """Return sine and cosine (2, n, chains) of the torsions, NaN where three atoms are on one line."""
    xp = backend.xp
    first, left, right, bend = _normals(R, backend.asarray(chains), xp)
    size = xp.where(xp.minimum(*bend) > STRAIGHT, bend[0] * bend[1], xp.nan)
    return xp.stack([(first * right).sum(axis=2), (left * right).sum(axis=2)]) / size


def _normals(R: Array, chains: Array, xp: Any) -> tuple[Any, Any, Any, list[Any]]:
    """Return the first bond's direction, the normals of both pairs of bonds, and the sines of the angles in them."""
    bonds = xp.diff(R[:, chains], axis=2)
    lengths = xp.linalg.norm(bonds, axis=3, keepdims=True)
    u, v, w = xp.moveaxis(bonds / xp.where(lengths > 0, lengths, 1.0), 2, 0)
    left, right = xp.cross(u, v), xp.cross(v, w)
    return u, left, right, [xp.linalg.norm(normal, axis=2) for normal in (left, right)]


def bonded_chains(R: Array, z: Array) -> np.ndarray:
    """Return all chains (k, 4) of atoms that are bonded one to the next in most frames and not nearly straight."""
    z = None if z is None else to_host(check_real_array("z", z, 1))
    if z is None or z.shape != R.shape[1:2]:
        got = "none" if z is None else f"shape {z.shape}"
        raise ValueError(f"z must give an atomic number for each of {R.shape[1]} atoms, got {got}; or pass chains=")
    radius = np.array([dict(ELEMENTS.values()).get(k, np.nan) for k in z])
    if np.isnan(radius).any():
        unknown = brief(z[np.isnan(radius)][0].item())
        raise ValueError(f"z: the bonds of atomic number {unknown} are not known here; pass chains=")
    some = to_host(R[:: max(1, len(R) // 20)])
    apart = np.median([np.linalg.norm(frame[:, None] - frame, axis=2) for frame in some], axis=0)
    bonded = (apart < BOND * (radius[:, None] + radius)) & ~np.eye(len(z), dtype=bool)
    near = [np.flatnonzero(row).tolist() for row in bonded]
    found = [(a, b, c, d) for b in range(len(z)) for c in near[b] if b < c for a in near[b] for d in near[c]]
    chains = np.array([chain for chain in found if len(set(chain)) == 4], dtype=np.int64).reshape(-1, 4)
    chains = chains[np.minimum(*_normals(some, chains, np)[3]).min(axis=0) > BENT]
    if not len(chains):
        raise ValueError("R has no bent chain of four bonded atoms; are positions in Angstrom? Or pass chains=")
    return chains


def _tell_of_mirror_images(R: Array, what: str) -> None:
    """Warn if frames occur in both hands, and no four atoms always have the same one, which would tell them apart."""
    some, atoms = to_host(R[:: max(1, len(R) // 200)]), R.shape[1]
    if atoms < 4 or len(some) < 2 * LEAST:
        return
    apart = np.linalg.norm(some[0][:, None] - some[0], axis=2)
    fours = np.concatenate(
        [
            np.argsort(apart, axis=1)[:, :4],  # an atom and those around it
            np.argsort(np.random.default_rng(0).random((500, atoms)), axis=1)[:, :4],
        ]
    )
    u, v, w = (some[:, fours[:, k]] - some[:, fours[:, 0]] for k in (1, 2, 3))
    sizes = np.prod([np.linalg.norm(side, axis=2) for side in (u, v, w)], axis=0)
    hands = (np.cross(u, v) * w).sum(axis=2) / np.where(sizes > 0, sizes, 1.0)
    left, right = (hands < -BENT).sum(axis=0), (hands > BENT).sum(axis=0)
    fixed = (np.minimum(left, right) == 0) & (np.maximum(left, right) > len(some) / 2)
    if (np.minimum(left, right) >= LEAST).any() and not fixed.any():
        text = f"the frames occur in both hands, and {what} are the same for a frame and its mirror image, so they "
        tell(warning("molecule.mirrored", f"{text}lose the sign of torsions", "torsion_features keeps it"))


def _by_rows(R: Array, columns: int, bytes_each: float, make: Callable[[Array, int], Array], backend: Backend) -> Array:
    """Return features (n, columns) of frames; ``make`` gets a block of frames, and the number of the first."""
    out = backend.xp.empty((len(R), columns))
    with backend.active():
        for block in backend.blocks(len(R), bytes_each * columns, "features"):
            with block as rows:
                out[rows] = make(R[rows], rows.start)
    return out


def _positions(R: Array, least: int) -> tuple[Any, Backend]:
    R = check_real_array("R", R, 3)
    if R.shape[1] < least or R.shape[2] != 3:
        raise ValueError(f"R must have shape (frames, {least} or more atoms, 3), got {R.shape}")
    return R, backend_of(R)


def _checked_chains(name: str, chains: Any, atoms: int) -> np.ndarray:
    found = []
    for chain in check_members(name, chains, "chains of four atoms"):
        found.append([check_integer(name, k, low=0) for k in check_members(name, chain, "four numbers")])
        if len(set(found[-1])) != 4 or len(found[-1]) != 4 or max(found[-1]) >= atoms:
            raise ValueError(f"{name} must be four different numbers between 0 and {atoms - 1}, got {brief(chain)}")
    if not found:
        raise ValueError(f"{name} must name at least one chain of four atoms, got none")
    return np.array(found)
