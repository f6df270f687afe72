"""A molecule as the input of ``fit``: the frames of a trajectory, as features of their shape."""

from __future__ import annotations

import argparse
from functools import partial
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from ..datasets.molecules import bonded_chains, load_molecule, pairwise_distances, planar_angles, torsion_features
from ..findings import IESWarning, listen

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


def read_frames(args: argparse.Namespace) -> tuple[Any, str]:
    """Return features of frames in a few columns, and what they are in words."""
    molecule = load_molecule(args.points, topology=args.topology, atoms=args.atoms)
    if len(molecule) < 2:
        raise ValueError(f"{args.points} holds one frame, and a map needs many")
    kind = args.features or "angles"
    X, found = reduced(molecule, kind)
    columns, count = found.components_.shape
    about = f"{count:,} {WORDS[kind]} ({len(molecule.z)} atoms)"
    if columns < count:
        about += f", as {columns} principal components with {found.explained_variance_ratio_.sum():.1%} of the variance"
    return X, about


def reduced(molecule: Trajectory, kind: str, sample: float = SAMPLE) -> tuple[Any, Any]:
    """Return principal components of the features, and scikit-learn's fit, which has seen a sample of many frames."""
    from sklearn.decomposition import PCA

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
