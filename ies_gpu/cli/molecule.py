"""A molecule as the input of ``fit``: the frames of a trajectory, as features of their shape."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from functools import partial
from math import comb
from typing import TYPE_CHECKING, Any

from ..errors import IESWarning
from ..files.remote import is_remote, shown
from ..findings import listen
from .parser import chosen_of

if TYPE_CHECKING:
    from ..datasets.molecules import Trajectory

COLUMNS = 50  # principal components of the features
SAMPLE = 5e7  # numbers that principal components are computed from, and that are in memory at once
MOST = 1_000_000  # columns of features
WORDS = {
    "angles": "angles of triangles of atoms",
    "distances": "distances between atoms",
    "torsions": "cosines and sines of torsions",
}


def add_molecule(option: Callable[..., Any]) -> None:
    """Add the options that a molecule has."""
    about = "file with the atoms, if POINTS is a trajectory such as traj.xtc (needs MDAnalysis)"
    option("--topology", metavar="TOP.PDB", help=about)
    option("--atoms", type=atoms, metavar="A,B-C", help="atoms to use, by number from 0, such as 0-21 (all)")
    about = "what describes the shape of a frame (angles); only torsions tell it from its mirror image"
    option("--features", choices=tuple(WORDS), help=about)


def atoms(text: str) -> tuple[int, ...]:
    """Return the numbers in a list of numbers and ranges, both ends included: 0-8,12."""
    found: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            raise argparse.ArgumentTypeError(f"must be numbers from 0 and rising ranges, such as 0-8,12, got {text!r}")
        found += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return tuple(found)


def is_molecule(args: argparse.Namespace) -> bool:
    """Return whether the points are frames of a molecule; refuse what does not go with what they are."""
    from ..files.points import holds_molecule

    found = args.topology is not None or (args.key is None and holds_molecule(args.points))
    given = [option for option, value in (("--atoms", args.atoms), ("--features", args.features)) if value is not None]
    if given and not found:
        args.parser.error(f"{shown(args.points)} is no molecule; leave out {' and '.join(given)}")
    if found and args.model:
        args.parser.error(
            "--model does not work with a molecule, because new frames would need the same principal components; "
            "docs/data.md shows how in Python"
        )
    if found and any(value is not None for value in chosen_of(args).values()):
        args.parser.error("--key, --columns and --index-col are for tables, not for molecules")
    if found and is_remote(args.points):
        args.parser.error(f"a molecule must be a local file, got {shown(args.points)}; download it first")
    return found


def read_frames(args: argparse.Namespace) -> tuple[Any, str, dict[str, Any]]:
    """Return features of frames in a few columns, what they are in words, and the numbers that the file has per frame.

    Their principal components are those of a sample, if there are many frames.
    """
    from ..datasets.molecules import load_molecule

    molecule = load_molecule(args.points, topology=args.topology, atoms=args.atoms)
    if len(molecule) < 2:
        raise ValueError(f"{args.points} holds one frame, and a map needs many")
    kind = args.features or "angles"
    X, found = reduced(molecule, kind)
    columns, count = found.components_.shape
    about = f"{count:,} {WORDS[kind]} ({len(molecule.z)} atoms)"
    if columns < count:
        about += f", as {columns} principal components with {found.explained_variance_ratio_.sum():.1%} of the variance"
    values = {name: value.reshape(-1) for name, value in molecule.values.items() if value.size == len(molecule)}
    return X, about, values


def reduced(molecule: Trajectory, kind: str, sample: float = SAMPLE) -> tuple[Any, Any]:
    """Return principal components of the features, and scikit-learn's fit, which has seen a sample of many frames."""
    import numpy as np
    from sklearn.decomposition import PCA

    from ..datasets.molecules import bonded_chains, pairwise_distances, planar_angles, torsion_features

    count = len(molecule.z)
    make, width = (planar_angles, 3 * comb(count, 3)) if kind == "angles" else (pairwise_distances, comb(count, 2))
    if kind == "torsions":
        chains = bonded_chains(molecule.R, molecule.z)
        make, width = partial(torsion_features, chains=chains), 2 * len(chains)
    elif width > MOST:
        way = "--atoms" if kind == "distances" else "--features distances or torsions, or --atoms"
        raise ValueError(f"{count:,} atoms have {width:,} {kind}, more than {MOST:,}; use {way}")
    most = max(2 * COLUMNS, int(sample / width))
    rng, n = np.random.default_rng(0), len(molecule)
    some = make(molecule.R[np.sort(rng.choice(n, most, replace=False))] if n > most else molecule.R)
    found = PCA(min(COLUMNS, *some.shape, len(some) - 1), random_state=0).fit(some)
    with listen(IESWarning):  # the sample has been warned about
        blocks = [found.transform(make(molecule.R[k : k + most])) for k in range(0, n, most)]
    return np.concatenate(blocks), found
