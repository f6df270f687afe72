"""A molecule as the input of ``fit``: the frames of a trajectory, as features of their shape."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ..files.remote import is_remote, shown
from .options import chosen_of

COLUMNS = 50  # principal components of the features
WORDS = {"angles": "angles of triangles of atoms", "distances": "distances between atoms"}


class Frames(NamedTuple):
    """Features of frames (n, columns), what they are in words, and the numbers that the file has per frame."""

    X: Any
    about: str
    values: dict[str, Any]


def add_molecule(option: Callable[..., Any]) -> None:
    option(
        "--topology",
        metavar="TOP.PDB",
        help="file with the atoms, if POINTS is a trajectory such as traj.xtc (needs MDAnalysis or mdtraj)",
    )
    option("--atoms", type=atoms, metavar="A,B-C", help="atoms to use, by number from 0, such as 0-21 (all)")
    option("--features", choices=tuple(WORDS), help="what describes the shape of a frame (angles)")


def is_molecule(args: argparse.Namespace) -> bool:
    """Whether the points are frames of a molecule; what only a molecule has is refused otherwise."""
    from ..datasets.molecules import holds_molecule

    found = args.topology is not None or (args.key is None and holds_molecule(args.points))
    given = [option for option, value in (("--atoms", args.atoms), ("--features", args.features)) if value is not None]
    if given and not found:
        args.parser.error(f"{shown(args.points)} is no molecule; leave out {' and '.join(given)}")
    return found


def check_molecule(args: argparse.Namespace) -> None:
    """Check that what was asked for works with a molecule."""
    if args.model:
        args.parser.error(
            "--model does not work with a molecule, because new frames would need the same principal components; "
            "docs/real-data.md shows how in Python"
        )
    if any(value is not None for value in chosen_of(args).values()):
        args.parser.error("--key, --columns and --index-col are for tables, not for molecules")
    if is_remote(args.points):
        args.parser.error(f"a molecule must be a local file, got {shown(args.points)}; download it first")


def read_frames(args: argparse.Namespace) -> Frames:
    """Read the frames and reduce the features of their shape to a few columns."""
    from ..datasets.molecules import load_molecule, pairwise_distances, planar_angles
    from ..datasets.principal_components import pca

    molecule = load_molecule(args.points, topology=args.topology, atoms=args.atoms)
    kind = args.features or "angles"
    found = pca(molecule.R, COLUMNS, transform={"angles": planar_angles, "distances": pairwise_distances}[kind])
    count, columns = found.axes.shape
    about = f"{count:,} {WORDS[kind]} ({len(molecule.z)} atoms)"
    if columns < count:
        about += f", as {columns} principal components with {found.explained:.1%} of the variance"
    values = {name: value.reshape(-1) for name, value in molecule.values.items() if value.size == len(molecule)}
    return Frames(found.scores, about, values)


def atoms(text: str) -> tuple[int, ...]:
    """Numbers and ranges of numbers, both ends included: 0-8,12."""
    found: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            raise argparse.ArgumentTypeError(f"must be numbers from 0 and rising ranges, such as 0-8,12, got {text!r}")
        found += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return tuple(found)
