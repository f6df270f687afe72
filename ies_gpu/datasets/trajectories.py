"""Trajectories that ASE, mdtraj or MDAnalysis hold in memory, or read from a file with a topology."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import brief, one_line
from ..files.points import check_readable
from ..validation import check_real_array
from .molecules import Trajectory, check_atom_numbers
from .xyz import SYMBOLS, check_atoms

NANOMETRE = 10.0  # in Angstrom


def trajectory_of(source: Any) -> Trajectory:
    """Take over the frames of a molecule from ASE, mdtraj or MDAnalysis.

    Parameters
    ----------
    source : list of ase.Atoms, mdtraj.Trajectory, MDAnalysis.Universe or MDAnalysis.AtomGroup
        Frames with the same atoms in the same order. An ``ase.io.Trajectory`` works too. Of an MDAnalysis universe all
        frames of ``universe.trajectory`` are read, for all atoms or for the group. The atoms must know their elements.

    Returns
    -------
    Trajectory
        Positions in Angstrom (mdtraj has nanometres) and atomic numbers.

    Raises
    ------
    TypeError
        If the source is something else.
    ValueError
        If frames have different atoms, or elements are not known.

    See Also
    --------
    ies_gpu.datasets.load_molecule : Read a file.

    Examples
    --------
    >>> import ase.build  # doctest: +SKIP
    >>> from ies_gpu import datasets
    >>> frames = [ase.build.molecule("CH3CH2OH") for _ in range(3)]  # doctest: +SKIP
    >>> datasets.trajectory_of(frames)  # doctest: +SKIP
    Trajectory(3 frames of CCOHHHHHH; ASE)
    """
    if hasattr(source, "xyz") and hasattr(source, "topology"):
        R, z, origin = _from_mdtraj(source)
    elif hasattr(source, "atoms") and hasattr(_universe(source), "trajectory"):
        R, z, origin = _from_mdanalysis(source)
    else:
        R, z, origin = _from_ase(source)
    numbers = np.asarray(z, dtype=int)
    check_atoms(origin, numbers)
    return Trajectory(check_real_array("positions", R, 3), numbers, {}, origin)


def read_trajectory(path: Path, topology: Path, atoms: Sequence[int] | None) -> Trajectory:
    """Read a file whose atoms are in another one, by MDAnalysis, or by mdtraj where there is no MDAnalysis."""
    check_readable(topology)
    found = [name for name in READERS if importlib.util.find_spec(name) is not None]
    if not found:
        raise ImportError(f"{path} needs MDAnalysis or mdtraj: pip install MDAnalysis")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of these libraries, about fields that we do not use
            read = trajectory_of(READERS[found[0]](path, topology, atoms))
    except MemoryError:
        raise
    except Exception as error:  # they raise what they like
        told = one_line(error)
        raise ValueError(f"{path} cannot be read by {found[0]} with the atoms of {topology}: {told}") from None
    return Trajectory(read.R, read.z, read.values, str(path))


def _by_mdanalysis(path: Path, topology: Path, atoms: Sequence[int] | None) -> Any:
    import MDAnalysis

    universe = MDAnalysis.Universe(str(topology), str(path), to_guess=("types", "masses", "elements"))
    return universe if atoms is None else universe.atoms[check_atom_numbers(atoms, len(universe.atoms))]


def _by_mdtraj(path: Path, topology: Path, atoms: Sequence[int] | None) -> Any:
    import mdtraj

    count = mdtraj.load_topology(str(topology)).n_atoms
    kept = None if atoms is None else check_atom_numbers(atoms, count)
    return mdtraj.load(str(path), top=str(topology), atom_indices=kept)


READERS = {"MDAnalysis": _by_mdanalysis, "mdtraj": _by_mdtraj}


def _from_mdtraj(source: Any) -> tuple[np.ndarray, list[int], str]:
    elements = [atom.element for atom in source.topology.atoms]
    if any(element is None for element in elements):
        raise ValueError("the mdtraj topology has atoms without an element; set atom.element for each")
    return NANOMETRE * np.asarray(source.xyz, dtype=float), [e.atomic_number for e in elements], "mdtraj"


def _universe(source: Any) -> Any:
    """Of a group of atoms the universe that has the frames; a universe is its own."""
    return getattr(source, "universe", source)


def _from_mdanalysis(source: Any) -> tuple[np.ndarray, list[int], str]:
    atoms = source.atoms
    symbols = [str(symbol).strip().capitalize() for symbol in getattr(atoms, "elements", ())]
    if not symbols or not set(symbols) <= set(SYMBOLS):
        raise ValueError(
            "the MDAnalysis universe does not know the elements of its atoms; add them, e.g. with "
            "universe.guess_TopologyAttrs(to_guess=['elements'])"
        )
    frames = [np.array(atoms.positions, dtype=float) for _ in _universe(source).trajectory]
    return np.array(frames), [SYMBOLS.index(symbol) + 1 for symbol in symbols], "MDAnalysis"


def _from_ase(source: Any) -> tuple[np.ndarray, list[int], str]:
    try:
        frames = list(source) if not hasattr(source, "get_positions") else [source]
        positions = [np.array(frame.get_positions(), dtype=float) for frame in frames]
        numbers = [list(frame.get_atomic_numbers()) for frame in frames]
    except Exception:  # no frames of ASE; whatever it is may fail as it likes
        raise TypeError(
            "trajectory_of takes a list of ase.Atoms, an mdtraj.Trajectory, or an MDAnalysis.Universe or AtomGroup, "
            f"got {brief(source)}; files are read by load_molecule"
        ) from None
    if not frames:
        raise ValueError("there are no frames")
    if other := [k for k, row in enumerate(numbers) if row != numbers[0]]:
        raise ValueError(
            f"frame {other[0]} has different atoms from frame 0; keep frames of one molecule, atoms in one order"
        )
    return np.array(positions), numbers[0], "ASE"
