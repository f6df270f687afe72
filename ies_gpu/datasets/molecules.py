"""Frames of a molecule, and features of its shape, which do not depend on its position and orientation."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import Backend, at_home, backend_of, to_host
from ..backend.array import Array
from ..files.points import POSITIONS, XYZ, check_readable, needs, read_numbers, sound
from ..files.writing import check_path
from ..findings import IESWarning, brief, listen, refusal, tell, warning
from ..validation import check_integer, check_members, check_real_array

NUMBERS = ("z", "nuclear_charges", "numbers", "atomic_numbers")  # of atoms, in an .npz
STRAIGHT = 1e-10  # a sine up to this is rounding error
BENT = 0.1  # chains that come nearer to a line than this have no torsion worth following
LEAST = 5  # frames of either hand before we speak of mirror images
BOND = 1.25  # times the sum of two covalent radii: atoms further apart are not bonded
COLUMNS = 50  # principal components of the features
SAMPLE = 5e7  # numbers that principal components are computed from, and that are in memory at once
MOST = 1_000_000  # columns of features
WORDS = {
    "angles": "angles of triangles of atoms",
    "distances": "distances between atoms",
    "torsions": "cosines and sines of torsions",
}


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Frames of one molecule.

    Attributes
    ----------
    R : ndarray of shape (n_frames, n_atoms, 3)
        Positions, in the unit of the file, usually Angstrom.
    z : ndarray of shape (n_atoms,)
        Atomic numbers, 0 where the file does not know the element.
    """

    R: np.ndarray
    z: np.ndarray

    def __len__(self) -> int:
        return len(self.R)

    def __repr__(self) -> str:
        return f"Trajectory({len(self.R):,} frames of {len(self.z)} atoms)"


def load_molecule(
    path: str | os.PathLike[str], *, topology: str | os.PathLike[str] | None = None, atoms: Sequence[int] | None = None
) -> Trajectory:
    """Load the frames of a molecule from a file.

    Parameters
    ----------
    path : str or path-like
        An ``.npz`` as in MD17, rMD17 or sGDML, with positions called R, coords or positions (n_frames, n_atoms, 3) and
        perhaps atomic numbers called z, nuclear_charges, numbers or atomic_numbers (n_atoms,). With the extra
        ``molecules``, ``.xyz`` and ``.extxyz`` files, and with a ``topology`` any trajectory that MDAnalysis reads.
    topology : str or path-like, optional
        The file with the atoms of such a trajectory, such as a ``.pdb``.
    atoms : sequence of int, optional
        The atoms to keep, 0-based, such as those of a molecule without its solvent, in the order of the file.

    Returns
    -------
    Trajectory
        Positions and atomic numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from ies_gpu import datasets
    >>> water = np.array([[0.0, 0.0, 0.0], [0.96, 0.0, 0.0], [-0.24, 0.93, 0.0]])
    >>> np.savez("water.npz", R=[water, 1.1 * water], z=[8, 1, 1])
    >>> datasets.load_molecule("water.npz")
    Trajectory(2 frames of 3 atoms)
    """
    path = Path(check_path(path))
    check_readable(path)
    library, read = READERS.get(path.suffix.lower(), ("", None))
    if topology is not None:
        check_readable(Path(check_path(topology)))
        library, read = "MDAnalysis", partial(_read_trajectory, topology=topology, atoms=atoms)
    if read is None:
        text = f"molecules are read from {', '.join(READERS)} files, not from '{path.suffix}'"
        raise refusal("file.ending", f"{path}: {text}", "for a trajectory of another kind, give its topology too")
    try:
        with sound(path), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about fields that we do not use
            found = read(path)
    except ImportError:
        raise needs(path, library, "molecules") from None
    if found.R.ndim != 3 or found.R.shape[2] != 3 or 0 in found.R.shape or found.z.shape != found.R.shape[1:2]:
        text = f"{path}: positions must have shape (frames, atoms, 3), one number per atom"
        raise refusal("molecule.shape", f"{text}, got {found.R.shape} and {found.z.shape}")
    if atoms is None or topology is not None:
        return found
    kept = sorted(_checked_atoms(atoms, len(found.z)))
    return Trajectory(found.R[:, kept], found.z[kept])


def _read_npz(path: Path) -> Trajectory:
    arrays = read_numbers(path)
    there = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "none"
    R = next((arrays[name] for name in POSITIONS if name in arrays), None)
    if R is None or R.ndim != 3:
        wanted = f"positions (frames, atoms, 3) called {', '.join(POSITIONS)}"
        raise refusal("file.no_array", f"{path} has no {wanted}; its arrays of numbers: {there}")
    z = next((arrays[name] for name in NUMBERS if name in arrays), np.zeros(R.shape[1], dtype=int))
    if z.ndim == 2 and len(z) and (z == z[0]).all():
        z = z[0]  # some files repeat the atoms for each frame
    return Trajectory(R, z)


def _read_trajectory(path: Path, topology: Any, atoms: Sequence[int] | None) -> Trajectory:
    """Return the frames that MDAnalysis reads, of which only the wanted atoms are ever in memory at once."""
    from ase.data import atomic_numbers
    from MDAnalysis import Universe

    universe = Universe(str(topology), str(path), to_guess=("types", "masses", "elements"))
    group = universe.atoms if atoms is None else universe.atoms[sorted(_checked_atoms(atoms, len(universe.atoms)))]
    frames = [np.array(group.positions, dtype=float) for _ in universe.trajectory]  # one buffer for all frames
    z = [atomic_numbers.get(str(symbol).capitalize(), 0) for symbol in group.elements]
    return Trajectory(np.array(frames), np.array(z))


def _read_xyz(path: Path) -> Trajectory:
    from ase.io import read

    frames = read(path, index=":", format="extxyz")  # of which plain XYZ is a part
    z = [frame.numbers for frame in frames]
    if other := [k for k, numbers in enumerate(z) if not np.array_equal(numbers, z[0])]:
        text = f"{path}: frame {other[0]} has different atoms from frame 0"
        raise refusal("file.atoms", text, "keep one molecule, atoms in one order")
    return Trajectory(np.array([frame.positions for frame in frames]), np.array(z[0]))


READERS = {".npz": ("NumPy", _read_npz), **dict.fromkeys(XYZ, ("ase", _read_xyz))}  # and with a topology MDAnalysis


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
    pairs = np.stack(np.triu_indices(R.shape[1], 1), axis=1)
    first, second = (backend.asarray(k) for k in pairs.T)

    def lengths(backend: Backend, R: Array) -> list[Array]:
        return [backend.xp.linalg.norm(R[:, first] - R[:, second], axis=2)]

    return _swept(backend, lengths, R, 64.0, pairs, "R.far", "too far apart for a distance")


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
    atoms = R.shape[1]

    def angles(backend: Backend, R: Array) -> list[Array]:
        xp = backend.xp
        ways = R[:, None, :, :] - R[:, :, None, :]  # [frame, from, to]
        lengths = xp.linalg.norm(ways, axis=3, keepdims=True)
        units = ways / xp.where(lengths > 0, lengths, xp.nan)
        units = xp.ascontiguousarray(units.reshape(len(R), -1, 3).transpose(2, 0, 1))
        u, v = units[:, :, at * atoms + left], units[:, :, at * atoms + right]
        # the half angle by its tangent: the arc cosine would lose half of the digits near 0 and pi
        return [2 * xp.arctan2(xp.sqrt(((u - v) ** 2).sum(axis=0)), xp.sqrt(((u + v) ** 2).sum(axis=0)))]

    return _swept(backend, angles, R, 200.0, corners, "R.coincide", "two of which coincide, so they have no angle")


@at_home
def torsion_features(R: Array, chains: Any = None, *, z: Array = None) -> Array:
    """Compute the cosines and sines of torsions; the sines tell a molecule from its mirror image.

    Parameters
    ----------
    R : ndarray of shape (n_frames, n_atoms, 3)
        Positions.
    chains : sequence of (int, int, int, int), optional
        Chains a-b-c-d of atoms, 0-based. By default all chains of bonded atoms that are not nearly straight; then
        positions must be in Angstrom, and the extra ``molecules`` knows how long bonds are.
    z : ndarray of shape (n_atoms,), optional
        Atomic numbers, which tell the bonds; needed if no chains are given.

    Returns
    -------
    ndarray of shape (n_frames, 2 * n_chains)
        The cosine of each chain's torsion, then the sine of each; ``arctan2(sine, cosine)`` is the angle. It is 0 if
        a and d eclipse each other, and positive if d is clockwise of a, looking from b to c.

    Examples
    --------
    >>> import numpy as np
    >>> from ies_gpu import datasets
    >>> peroxide = np.array([[[0.0, 0.96, 0.0], [0.0, 0.0, 0.0], [1.45, 0.0, 0.0], [1.45, 0.0, 0.96]]])
    >>> datasets.torsion_features(peroxide, [(0, 1, 2, 3)]).round(6)
    array([[0., 1.]])
    """
    R, backend = _positions(R, least=4)
    if chains is None:
        named = bonded_chains(R, z)
    else:
        given = check_members("chains", chains, "chains of atoms") or [[]]
        named = np.array([_checked_atoms(chain, R.shape[1], "chains", 4) for chain in given])

    def features(backend: Backend, R: Array) -> list[Array]:
        first, left, right, bend = _normals(R, backend.asarray(named), xp := backend.xp)
        size = xp.where(xp.minimum(*bend) > STRAIGHT, bend[0] * bend[1], xp.nan)
        return [xp.concatenate([(side * right).sum(axis=2) / size for side in (left, first)], axis=1)]

    why = "three of which are on one line, so they have no torsion: leave the chain out"
    return _swept(backend, features, R, 800.0, named, "R.straight", why)


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
        raise refusal("z.shape", f"z must give a number for each of {R.shape[1]} atoms, got {got}", "or pass chains=")
    try:
        from ase.data import covalent_radii as radii
    except ImportError:
        raise ImportError("finding bonds needs ase: pip install 'ies-gpu[molecules]'; or pass chains=") from None
    if unknown := [brief(number) for number in z.tolist() if number not in range(1, len(radii))]:
        raise refusal("z.unknown", f"z: the bonds of atomic number {unknown[0]} are not known here", "pass chains=")
    radius, some = radii[z.astype(int)], to_host(R[:: max(1, len(R) // 20)])
    apart = np.median([np.linalg.norm(frame[:, None] - frame, axis=2) for frame in some], axis=0)
    bonded = (apart < BOND * (radius[:, None] + radius)) & ~np.eye(len(z), dtype=bool)
    near = [np.flatnonzero(row).tolist() for row in bonded]
    found = [(a, b, c, d) for b in range(len(z)) for c in near[b] if b < c for a in near[b] for d in near[c]]
    chains = np.array([chain for chain in found if len(set(chain)) == 4], dtype=np.int64).reshape(-1, 4)
    chains = chains[np.minimum(*_normals(some, chains, np)[3]).min(axis=0) > BENT]
    if not len(chains):
        raise refusal("R.no_chain", "R has no bent chain of four bonded atoms", "use Angstrom, or pass chains=")
    return chains


def principal_components(molecule: Trajectory, kind: str, sample: float = SAMPLE) -> tuple[np.ndarray, str]:
    """Return features of frames in a few columns, and what they are; of many frames, a sample gives the directions."""
    from sklearn.decomposition import PCA

    count = len(molecule.z)
    make, width = (planar_angles, 3 * comb(count, 3)) if kind == "angles" else (pairwise_distances, comb(count, 2))
    if kind == "torsions":
        chains = bonded_chains(molecule.R, molecule.z)
        make, width = partial(torsion_features, chains=chains), 2 * len(chains)
    if len(molecule) < 2:
        raise refusal("molecule.frames", "there is one frame, and a map needs many")
    if width > MOST:
        text = f"{count:,} atoms have {width:,} {kind}, more than {MOST:,}"
        raise refusal("molecule.features", text, "choose fewer atoms, distances or torsions")
    most = max(2 * COLUMNS, int(sample / width))
    rng, n = np.random.default_rng(0), len(molecule)
    some = make(molecule.R[np.sort(rng.choice(n, most, replace=False))] if n > most else molecule.R)
    found = PCA(min(COLUMNS, *some.shape, len(some) - 1), random_state=0).fit(some)
    with listen(IESWarning):  # the sample has been warned about
        blocks = [found.transform(make(molecule.R[k : k + most])) for k in range(0, n, most)]
    columns = found.components_.shape[0]
    about = f"{width:,} {WORDS[kind]} ({count} atoms)"
    if columns < width:
        about += f", as {columns} principal components with {found.explained_variance_ratio_.sum():.1%} of the variance"
    return np.concatenate(blocks), about


def _tell_of_mirror_images(R: Array, what: str) -> None:
    """Warn if frames occur in both hands, and no four atoms always have the same one, which would tell them apart."""
    some, atoms = to_host(R[:: max(1, len(R) // 200)]), R.shape[1]
    if atoms < 4 or len(some) < 2 * LEAST:
        return
    around = np.linalg.norm(some[0][:, None] - some[0], axis=2).argsort(axis=1)[:, :4]
    fours = np.concatenate([around, np.random.default_rng(0).random((500, atoms)).argsort(axis=1)[:, :4]])
    u, v, w = (some[:, fours[:, k]] - some[:, fours[:, 0]] for k in (1, 2, 3))
    sizes = np.prod([np.linalg.norm(side, axis=2) for side in (u, v, w)], axis=0)
    hands = (np.cross(u, v) * w).sum(axis=2) / np.where(sizes > 0, sizes, 1.0)
    left, right = (hands < -BENT).sum(axis=0), (hands > BENT).sum(axis=0)
    fixed = (np.minimum(left, right) == 0) & (np.maximum(left, right) > len(some) / 2)
    if (np.minimum(left, right) >= LEAST).any() and not fixed.any():
        text = f"the frames occur in both hands, and {what} are the same for a frame and its mirror image, so they "
        tell(warning("molecule.mirrored", f"{text}lose the sign of torsions", "torsion_features keeps it"))


def _swept(backend: Backend, work: Any, R: Array, size: float, atoms: np.ndarray, code: str, why: str) -> Array:
    """Return features of frames, made in blocks of ``size`` bytes for each of some atoms; an error where one is NaN."""
    with backend.active():
        found = backend.sweep(work, R, bytes_per_row=size * len(atoms), stage="features", rows=1)[0]
        found = backend.xp.ascontiguousarray(found)  # NumPy may lay out what an index has picked in any order
    frames, columns = np.nonzero(to_host(found != found))
    if len(frames):
        those = tuple(atoms[columns[0] % len(atoms)].tolist())
        raise refusal(code, f"R: frame {frames[0]} has the atoms {those}, {why}")
    return found


def _positions(R: Array, least: int) -> tuple[Any, Backend]:
    R = check_real_array("R", R, 3)
    if not len(R) or R.shape[1] < least or R.shape[2] != 3:
        raise refusal("R.shape", f"R must have shape (1 or more frames, {least} or more atoms, 3), got {R.shape}")
    return R, backend_of(R)


def _checked_atoms(members: Any, atoms: int, name: str = "atoms", count: int | None = None) -> list[int]:
    """Return different numbers of atoms, ``count`` of them if that is given."""
    found = [check_integer(name, k, low=0) for k in check_members(name, members, "numbers such as range(22)")]
    if not found or len(found) != (count or len(found)) or len({*found}) < len(found) or max(found) >= atoms:
        many = f"{count} " if count else ""
        text = f"{name} must be {many}different numbers between 0 and {atoms - 1}, got {brief(members)}"
        raise refusal(f"{name}.range", text)
    return found
