"""Molecules: trajectories from files, and features of their shape that do not depend on position and orientation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import Backend, at_home, backend_of
from ..backend.array import Array
from ..errors import brief
from ..files.chosen import NAMES
from ..files.points import check_readable, listed, npz_shapes, read_numbers
from ..files.writing import check_path
from ..validation import check_integer, check_members, check_real_array
from .xyz import SYMBOLS, check_atoms, read_xyz

POSITIONS = ("R", "coords", "positions")  # sGDML and MD17; rMD17; others
STRAIGHT = 1e-10  # a sine up to this is rounding error
ENDINGS = (".npz", ".xyz", ".extxyz")
NUMBERS = ("z", "nuclear_charges", "numbers", "atomic_numbers")


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Frames of one molecule.

    Attributes
    ----------
    R : ndarray of shape (n_frames, n_atoms, 3)
        Positions, in the unit of the file, usually Angstrom.
    z : ndarray of shape (n_atoms,)
        Atomic numbers.
    values : dict of {str: ndarray of shape (n_frames, ...)}
        Whatever else the file gives per frame: energies, forces, torsions.
    path : str
        Where it came from.
    """

    R: np.ndarray
    z: np.ndarray
    values: dict[str, np.ndarray] = field(default_factory=dict)
    path: str = ""

    @property
    def symbols(self) -> tuple[str, ...]:
        """The chemical symbol of each atom."""
        return tuple(SYMBOLS[k - 1] for k in self.z)

    def __len__(self) -> int:
        return len(self.R)

    def __repr__(self) -> str:
        names = f", with {', '.join(self.values)}" if self.values else ""
        return f"Trajectory({len(self.R):,} frames of {''.join(self.symbols)}{names}; {self.path})"


def load_molecule(
    path: str | os.PathLike[str],
    *,
    topology: str | os.PathLike[str] | None = None,
    atoms: Sequence[int] | None = None,
) -> Trajectory:
    """Read a trajectory from a file.

    Parameters
    ----------
    path : str or path-like
        An ``.npz`` as in MD17, rMD17 or sGDML, with positions called R, coords or positions (n_frames, n_atoms, 3), and
        atomic numbers called z, nuclear_charges, numbers or atomic_numbers (n_atoms,); or an ``.xyz`` or ``.extxyz``
        file, plain or extended, with the same atoms in the same order in every frame. With a ``topology``, any
        trajectory that MDAnalysis or mdtraj reads, such as ``.xtc`` or ``.dcd``.
    topology : str or path-like, optional
        The file with the atoms of such a trajectory, such as a ``.pdb``. MDAnalysis is used if it is installed, and
        mdtraj otherwise.
    atoms : sequence of int, optional
        The atoms to keep, 0-based, such as those of a molecule without its solvent, in the order of the file.
        ``values`` stay as they are.

    Returns
    -------
    Trajectory
        Positions, atomic numbers, and whatever else the file gives per frame.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is damaged or holds something else. The message names the file, and the line of an XYZ file.
    ImportError
        If a topology is given, and neither MDAnalysis nor mdtraj is installed.

    Examples
    --------
    >>> import numpy as np
    >>> from ies_gpu import datasets
    >>> water = np.array([[0.0, 0.0, 0.0], [0.96, 0.0, 0.0], [-0.24, 0.93, 0.0]])
    >>> datasets.write_xyz("water.xyz", [water, 1.1 * water], [8, 1, 1])
    >>> datasets.load_molecule("water.xyz")
    Trajectory(2 frames of OHH; water.xyz)
    """
    path = Path(check_path(path))
    check_readable(path)
    if topology is not None:
        from .trajectories import read_trajectory

        return read_trajectory(path, Path(check_path(topology)), atoms)
    suffix = path.suffix.lower()
    if suffix not in ENDINGS:
        raise ValueError(
            f"{path}: molecules are read from .npz, .xyz and .extxyz files, not from '{path.suffix}'; for a trajectory "
            "of another kind, give its topology too"
        )
    R, z, values = _read_npz(path) if suffix == ".npz" else read_xyz(path)
    R, z = _checked(path, R, z)
    kept = slice(None) if atoms is None else check_atom_numbers(atoms, len(z))
    return Trajectory(R[:, kept], z[kept], values, str(path))


def holds_molecule(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a molecule by its ending, or as an ``.npz`` with positions (n, atoms, 3) and atomic numbers.

    An ``.npz`` that has points as well, such as features in X, holds points.
    """
    path = Path(path)
    if path.suffix.lower() != ".npz":
        return path.suffix.lower() in ENDINGS
    shapes = npz_shapes(path) if path.is_file() else {}
    placed = any(len(shapes.get(name, ())) == 3 and shapes[name][2] == 3 for name in POSITIONS)
    featured = any(len(shapes.get(name, ())) == 2 for name in NAMES)
    return placed and not featured and any(name in shapes for name in NUMBERS)


def check_atom_numbers(atoms: Sequence[int], count: int) -> list[int]:
    """Numbers of atoms, each once, in rising order."""
    numbers = [check_integer("atoms", k, low=0) for k in check_members("atoms", atoms, "numbers such as range(22)")]
    if not numbers or len(set(numbers)) < len(numbers) or max(numbers) >= count:
        raise ValueError(f"atoms must be different numbers between 0 and {count - 1}, got {brief(tuple(numbers))}")
    return sorted(numbers)


def _read_npz(path: Path) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    arrays = read_numbers(path)
    chosen = []
    for what, names in (("positions", POSITIONS), ("atomic numbers", NUMBERS)):
        name = next((name for name in names if name in arrays), None)
        if name is None:
            raise ValueError(
                f"{path} has no {what} (looked for {', '.join(names)}); its arrays of numbers: {listed(arrays)}"
            )
        chosen.append(name)
    R, z = arrays[chosen[0]], arrays[chosen[1]]
    n = len(R) if R.ndim else 0
    return R, z, {key: a for key, a in arrays.items() if key not in chosen and a.ndim and len(a) == n}


def _checked(path: Path, R: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if R.ndim != 3 or R.shape[2] != 3 or 0 in R.shape:
        raise ValueError(f"{path}: positions must have shape (frames, atoms, 3), got {R.shape}")
    if z.ndim == 2 and len(z) and (z == z[0]).all():
        z = z[0]  # some files repeat the atoms for each frame
    if z.shape != R.shape[1:2]:
        raise ValueError(f"{path}: {R.shape[1]} atoms need one atomic number each, got shape {z.shape}")
    check_atoms(str(path), z)
    bad = np.flatnonzero(~np.isfinite(R).all(axis=(1, 2)))
    if len(bad):
        raise ValueError(f"{path}: {len(bad)} frames contain NaN or infinite positions, the first is frame {bad[0]}")
    return R, z.astype(np.int64)


@at_home
def pairwise_distances(R: Array) -> Array:
    """Compute the distances between all pairs of atoms.

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
    first, second = _columns(list(combinations(range(R.shape[1]), 2)), backend)
    out = backend.xp.empty((len(R), len(first)))
    with backend.active():
        for block in backend.blocks(len(R), 64.0 * len(first), "features"):
            with block as rows:
                out[rows] = backend.xp.linalg.norm(R[rows][:, first] - R[rows][:, second], axis=2)
    return out


@at_home
def planar_angles(R: Array) -> Array:
    """Compute the three inner angles of every triangle of atoms, in radians.

    Parameters
    ----------
    R : ndarray of shape (n_frames, n_atoms, 3)
        Positions.

    Returns
    -------
    ndarray of shape (n_frames, 3 * C(n_atoms, 3))
        Triangles (0, 1, 2), (0, 1, 3), ... in lexicographic order, each with the angles at its first, second and third
        atom.

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
    triangles = list(combinations(range(R.shape[1]), 3))
    corners = _columns([(a, b, c) for t in triangles for a, b, c in (t, t[1:] + t[:1], t[2:] + t[:2])], backend)
    out = backend.xp.empty((len(R), len(corners[0])))
    with backend.active():
        for block in backend.blocks(len(R), 200.0 * len(corners[0]), "features"):
            with block as rows:
                out[rows] = _angles(R[rows], corners, backend, rows.start)
    return out


def _angles(R: Array, corners: tuple[Any, ...], backend: Backend, first_frame: int) -> Array:
    """Angles at ``corners[0]`` between the directions to ``corners[1]`` and ``corners[2]``."""
    xp = backend.xp
    atoms = R.shape[1]
    ways = R[:, None, :, :] - R[:, :, None, :]  # [frame, from, to]
    lengths = xp.linalg.norm(ways, axis=3)
    lengths[:, xp.arange(atoms), xp.arange(atoms)] = 1.0
    if bool((lengths == 0).any()):
        frame, a, b = (int(k[0]) for k in xp.nonzero(lengths == 0))
        raise ValueError(f"R: atoms {a} and {b} coincide in frame {first_frame + frame}; their angles are undefined")
    units = xp.ascontiguousarray((ways / lengths[..., None]).reshape(len(R), -1, 3).transpose(2, 0, 1))
    u = units[:, :, corners[0] * atoms + corners[1]]
    v = units[:, :, corners[0] * atoms + corners[2]]
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
    chain = [check_integer("atoms", k, low=0) for k in check_members("atoms", atoms, "four numbers")]
    if len(set(chain)) != 4 or len(chain) != 4 or max(chain) >= R.shape[1]:
        raise ValueError(f"atoms must be four different numbers between 0 and {R.shape[1] - 1}, got {tuple(chain)}")
    xp = backend.xp
    R = R[:, chain] - R[:, chain[:1]]
    R = R / ((len(R) and float(abs(R).max())) or 1.0)  # products of four lengths neither overflow nor vanish
    a, b, c, d = (R[:, k] for k in range(4))
    before, axis, after = b - a, c - b, d - c
    left, right = xp.cross(before, axis), xp.cross(axis, after)
    least = [STRAIGHT * xp.linalg.norm(bond, axis=1) * xp.linalg.norm(axis, axis=1) for bond in (before, after)]
    sine = (xp.cross(left, right) * axis).sum(axis=1) / xp.maximum(xp.linalg.norm(axis, axis=1), 1e-300)
    cosine = (left * right).sum(axis=1)
    undefined = (xp.linalg.norm(left, axis=1) <= least[0]) | (xp.linalg.norm(right, axis=1) <= least[1])
    return xp.where(undefined, xp.nan, xp.arctan2(sine, cosine))


def _positions(R: Array, least: int) -> tuple[Any, Backend]:
    R = check_real_array("R", R, 3)
    if R.shape[1] < least or R.shape[2] != 3:
        raise ValueError(f"R must have shape (frames, {least} or more atoms, 3), got {R.shape}")
    return R, backend_of(R)


def _columns(rows: list[tuple[int, ...]], backend: Backend) -> tuple[Any, ...]:
    return tuple(backend.asarray(column) for column in np.array(rows, dtype=np.int64).T)
