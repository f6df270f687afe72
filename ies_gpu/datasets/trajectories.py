"""Frames of a molecule: from an ``.npz``, from files that ASE or MDAnalysis read, and from their objects."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import brief, one_line
from ..files.containers import needs
from ..files.points import POSITIONS, XYZ, check_readable, read_numbers
from ..files.writing import check_path
from ..validation import check_integer, check_members
from .molecules import ELEMENTS

NUMBERS = ("z", "nuclear_charges", "numbers", "atomic_numbers")


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Frames of one molecule.

    Attributes
    ----------
    R : ndarray of shape (n_frames, n_atoms, 3)
        Positions, in the unit of the source, usually Angstrom.
    z : ndarray of shape (n_atoms,)
        Atomic numbers, 0 where the source does not know the element.
    values : dict of {str: ndarray of shape (n_frames, ...)}
        Whatever else the source gives per frame, such as energies.
    path : str
        Where it came from.
    """

    R: np.ndarray
    z: np.ndarray
    values: dict[str, np.ndarray] = field(default_factory=dict)
    path: str = ""

    def __len__(self) -> int:
        return len(self.R)

    def __repr__(self) -> str:
        names = f", with {', '.join(self.values)}" if self.values else ""
        return f"Trajectory({len(self.R):,} frames of {len(self.z)} atoms{names}; {self.path})"


def load_molecule(
    source: Any, *, topology: str | os.PathLike[str] | None = None, atoms: Sequence[int] | None = None
) -> Trajectory:
    """Load the frames of a molecule from a file, or take them over from ASE or MDAnalysis.

    Parameters
    ----------
    source : str, path-like, list of ase.Atoms, MDAnalysis.Universe or MDAnalysis.AtomGroup
        An ``.npz`` as in MD17, rMD17 or sGDML, with positions called R, coords or positions (n_frames, n_atoms, 3) and,
        if they are known, atomic numbers called z, nuclear_charges, numbers or atomic_numbers (n_atoms,). With the
        extra ``molecules``, ``.xyz`` and ``.extxyz`` files, and with a ``topology`` any trajectory that MDAnalysis
        reads, such as ``.xtc`` or ``.dcd``. Frames have the same atoms in the same order.
    topology : str or path-like, optional
        The file with the atoms of such a trajectory, such as a ``.pdb``.
    atoms : sequence of int, optional
        The atoms to keep, 0-based, such as those of a molecule without its solvent, in the order of the source.

    Returns
    -------
    Trajectory
        Positions, atomic numbers, and whatever else the source gives per frame.

    Examples
    --------
    >>> import numpy as np
    >>> from ies_gpu import datasets
    >>> water = np.array([[0.0, 0.0, 0.0], [0.96, 0.0, 0.0], [-0.24, 0.93, 0.0]])
    >>> np.savez("water.npz", R=[water, 1.1 * water], z=[8, 1, 1])
    >>> datasets.load_molecule("water.npz")
    Trajectory(2 frames of 3 atoms; water.npz)
    """
    name = "source"
    if isinstance(source, str | os.PathLike):
        source, name = _opened(Path(check_path(source)), topology), str(source)
    if isinstance(source, Trajectory):
        found = source
    elif hasattr(source, "atoms") and hasattr(getattr(source, "universe", source), "trajectory"):
        found, atoms = _from_mdanalysis(source, atoms), None
    else:
        found = _from_ase(source, name)
    if found.R.ndim != 3 or found.R.shape[2] != 3 or 0 in found.R.shape:
        raise ValueError(f"{name}: positions must have shape (frames, atoms, 3), got {found.R.shape}")
    bad = np.flatnonzero(~np.isfinite(found.R).all(axis=(1, 2)))
    if len(bad):
        raise ValueError(f"{name}: {len(bad)} frames contain NaN or infinite positions, the first is frame {bad[0]}")
    kept = slice(None) if atoms is None else _checked_atoms(atoms, len(found.z))
    return Trajectory(found.R[:, kept], found.z[kept], found.values, found.path if name == "source" else name)


def _opened(path: Path, topology: str | os.PathLike[str] | None) -> Any:
    """Return what a file holds: a trajectory, or what the library made of it that reads such files."""
    check_readable(path)
    if topology is not None:
        check_readable(Path(check_path(topology)))
        try:
            from MDAnalysis import Universe
        except ImportError:
            raise needs(path, "MDAnalysis", "molecules") from None
        guessed = ("types", "masses", "elements")
        return _read(path, "MDAnalysis", lambda: Universe(str(topology), str(path), to_guess=guessed))
    if path.suffix.lower() in XYZ:
        try:
            from ase.io import read
        except ImportError:
            raise needs(path, "ase", "molecules") from None
        return _read(path, "ASE", lambda: read(path, index=":", format="extxyz"))  # of which plain XYZ is a part
    if path.suffix.lower() != ".npz":
        raise ValueError(
            f"{path}: molecules are read from .npz, {' and '.join(XYZ)} files, not from '{path.suffix}'; for a "
            "trajectory of another kind, give its topology too"
        )
    return _read_npz(path)


def _read(path: Path, library: str, read: Callable[[], Any]) -> Any:
    """Return what a library makes of a file; it may raise what it likes, and warn of fields that we do not use."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read()
    except MemoryError:
        raise
    except Exception as error:
        why = one_line(error) or type(error).__name__
        raise ValueError(f"{path} cannot be read by {library}: {why}") from None


def _read_npz(path: Path) -> Trajectory:
    arrays = read_numbers(path)
    there = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "none"
    R = next((arrays.pop(name) for name in POSITIONS if name in arrays), None)
    if R is None or R.ndim != 3:
        raise ValueError(
            f"{path} has no positions (frames, atoms, 3) called {', '.join(POSITIONS)}; its arrays of numbers: {there}"
        )
    z = next((arrays.pop(name) for name in NUMBERS if name in arrays), np.zeros(R.shape[1], dtype=int))
    if z.ndim == 2 and len(z) and (z == z[0]).all():
        z = z[0]  # some files repeat the atoms for each frame
    if z.shape != R.shape[1:2]:
        raise ValueError(f"{path}: {R.shape[1]} atoms need one atomic number each, got shape {z.shape}")
    return Trajectory(R, z, {name: a for name, a in arrays.items() if a.ndim and len(a) == len(R)})


def _from_mdanalysis(source: Any, atoms: Sequence[int] | None) -> Trajectory:
    """Return all frames of a universe or a group of atoms, which know their elements or not."""
    group = source.atoms if atoms is None else source.atoms[_checked_atoms(atoms, len(source.atoms))]
    universe = getattr(source, "universe", source)
    frames = [np.array(group.positions, dtype=float) for _ in universe.trajectory]  # one buffer for all frames
    symbols = getattr(group, "elements", [""] * len(group.positions))
    z = [ELEMENTS.get(str(symbol).capitalize(), (0, 0.0))[0] for symbol in symbols]
    return Trajectory(np.array(frames), np.array(z), {}, "MDAnalysis")


def _from_ase(source: Any, name: str) -> Trajectory:
    try:
        frames = [source] if hasattr(source, "get_positions") else list(source)
        R = [np.array(frame.get_positions(), dtype=float) for frame in frames]
        z = [np.array(frame.get_atomic_numbers()) for frame in frames]
    except Exception:  # no frames of ASE; whatever it is may fail as it likes
        raise TypeError(
            "source must be the path of a file, a list of ase.Atoms, or an MDAnalysis.Universe or AtomGroup, got "
            f"{brief(source)}; arrays of positions go to planar_angles and its kind as they are"
        ) from None
    if not frames:
        raise ValueError(f"{name} has no frames")
    if other := [k for k, numbers in enumerate(z) if not np.array_equal(numbers, z[0])]:
        raise ValueError(
            f"{name}: frame {other[0]} has different atoms from frame 0; keep one molecule, atoms in one order"
        )
    # energies, and what the comment lines of a file give
    known = [{**getattr(f, "info", {}), **getattr(getattr(f, "calc", None), "results", {})} for f in frames]
    shared = [key for key in known[0] if all(np.isscalar(values.get(key)) for values in known)]
    columns = {str(key): np.array([values[key] for values in known]) for key in shared}
    return Trajectory(np.array(R), z[0], {key: c for key, c in columns.items() if c.dtype.kind in "buif"}, "ASE")


def _checked_atoms(atoms: Sequence[int], count: int) -> list[int]:
    """Return the numbers of atoms in rising order, or raise if one is not there or comes twice."""
    numbers = [check_integer("atoms", k, low=0) for k in check_members("atoms", atoms, "numbers such as range(22)")]
    if not numbers or len(set(numbers)) < len(numbers) or max(numbers) >= count:
        raise ValueError(f"atoms must be different numbers between 0 and {count - 1}, got {brief(tuple(numbers))}")
    return sorted(numbers)
