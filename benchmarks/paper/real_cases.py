"""The real and simulated data: files, features and parameters."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA

from ies_gpu import IESWarning, Selection, backend_of, datasets, select_coordinates
from ies_gpu.parameters.judgement import unexplained_variance

USUAL = 10_000  # points of the usual run


@dataclass(frozen=True)
class RealCase:
    """A file and what to do with it.

    Attributes
    ----------
    file : str
        Below the data folder.
    what : str
        A description for the page.
    features : {"angles", "distances", "spectra"}
    d, s : int
        Intrinsic dimension and number of coordinates.
    torsions : dict of four atoms by name
        The true coordinates.
    stray : float
        Share of the points that are left out because they are too far from all others.
    self_loops : bool
        Molecules vibrate in all dimensions, so a frame's own weight would outweigh its neighbours.
    swap : tuple of int
        Two atoms of a kind whose exchange takes the molecule to its mirror image.
    """

    name: str
    file: str
    what: str
    features: str
    d: int
    s: int
    torsions: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)
    stray: float = 0.0
    self_loops: bool = False
    swap: tuple[int, int] | None = None


CASES = (
    RealCase(
        "ethanol", "ethanol/ethanol_sgdml_md.npz", "ethanol, sGDML-MD at 500 K", "angles", 2, 3,
        {"OH torsion": (8, 2, 0, 1), "methyl torsion": (5, 1, 0, 2)},
    ),
    RealCase(
        "malondialdehyde", "malondialdehyde/malondialdehyde_sgdml_md.npz", "malondialdehyde, sGDML-MD at 500 K",
        "angles", 2, 3,
        {"torsion O-C-C-C": (4, 0, 1, 2), "torsion C-C-C-O": (3, 2, 1, 0)},
    ),
    RealCase(
        "aspirin", "aspirin/aspirin_sgdml_md.npz", "aspirin, sGDML-MD at 500 K", "distances", 3, 4,
        {
            "acid OH torsion": (13, 9, 10, 7), "acetyl torsion": (6, 12, 11, 8),
            "acid torsion": (7, 10, 5, 6), "ester torsion": (11, 12, 6, 5),
        },
    ),
    RealCase(
        "chloromethane", "chloromethane/sn2_xtb_md.npz",
        "CH3Cl + Cl- exchange, GFN2-xTB metadynamics; stands in for the paper's set, which is not public",
        "angles", 2, 3, swap=(4, 5),
    ),
    RealCase(
        "itokawa", "itokawa/itokawa_nirs.npz",
        "near-infrared spectra of asteroid Itokawa; they stand in for galaxy spectra", "spectra", 2, 2,
        stray=0.03, self_loops=True,
    ),
)  # fmt: skip


class Features(NamedTuple):
    """Principal components (n, 50) of a file's features, the rows they belong to, and colours for pictures.

    ``mirror`` (n,) is the point nearest to each point's mirror image, where the molecule has one.
    """

    X: np.ndarray
    rows: np.ndarray
    explained: float
    colors: dict[str, np.ndarray]
    notes: tuple[str, ...]
    mirror: np.ndarray | None = None


def features(case: RealCase, path: Path, n: int | None) -> Features:
    """Features of all rows of a file, or of n of them."""
    found = spectral_features(path, n) if case.features == "spectra" else molecular_features(case, path, n)
    if case.stray == 0:
        return found
    keep = dense_rows(found.X, case.stray)
    note = f"The {case.stray:.0%} of the points with the sparsest neighbourhoods were left out."
    colors = {name: values[keep] for name, values in found.colors.items()}
    return found._replace(X=found.X[keep], rows=found.rows[keep], colors=colors, notes=(*found.notes, note))


def dense_rows(X: np.ndarray, stray: float) -> np.ndarray:
    """All points but the share of them furthest from their tenth neighbour, in the ten leading components.

    A point that is barely connected to the rest gets its own eigenvector, which says nothing about the manifold.
    """
    lead = np.ascontiguousarray(X[:, :10])
    reach = backend_of(lead).nearest(lead, min(10, len(lead) - 1))[0][:, -1]
    return np.flatnonzero(reach <= np.quantile(reach, 1 - stray))


def molecular_features(case: RealCase, path: Path, n: int | None) -> Features:
    """Angles or distances, and the torsions as colours."""
    loaded = datasets.load_molecule(path)
    rows = taken(np.arange(len(loaded)), n)
    R = loaded.R[rows]
    transform = datasets.planar_angles if case.features == "angles" else datasets.pairwise_distances
    angles = transform(R)
    found = PCA(min(50, *angles.shape), random_state=0).fit(angles)
    colors: dict[str, np.ndarray] = {}
    for name, atoms in case.torsions.items():
        cosine, sine = datasets.torsion_features(R, [atoms]).T
        colors[name] = np.arctan2(sine, cosine)
    with np.load(path) as file:
        if "q" in file:
            colors["reaction coordinate"] = file["q"][rows].astype(float)
    mirror = None if case.swap is None else mirror_images(R, case.swap, transform, found)
    return Features(found.transform(angles), rows, found.explained_variance_ratio_.sum(), colors, (), mirror)


def mirror_images(R: np.ndarray, swap: tuple[int, int], transform: Any, components: PCA) -> np.ndarray:
    """The frame most like each frame with two of its atoms exchanged."""
    from scipy.spatial import cKDTree

    order = np.arange(R.shape[1])
    order[list(swap)] = swap[::-1]
    frames, images = (components.transform(transform(atoms)) for atoms in (R, R[:, order]))
    return cKDTree(frames).query(images)[1]


class Mirrored(NamedTuple):
    """The set most like the mirror image of another, its place in the ranking from 1 on, and how alike: 0 to 1."""

    subset: tuple[int, ...]
    place: int
    alike: float


def mirror_set(selection: Selection, mirror: np.ndarray, subset: tuple[int, ...]) -> Mirrored:
    """The set in the ranking that comes closest to the mirror image of a set.

    Each coordinate is correlated with the values of all coordinates at the mirror image of each point. Two sets are as
    similar as the weakest correlation in their best pairing. Images among the points that were left out are ignored.
    """
    from scipy.optimize import linear_sum_assignment

    place = np.full(len(mirror), -1)
    place[selection.points] = np.arange(len(selection.points))
    image = place[mirror[selection.points]]
    Y = selection.coordinates
    m = Y.shape[1]
    similar = np.abs(np.corrcoef(Y[image >= 0], Y[image[image >= 0]], rowvar=False)[:m, m:])[list(subset)]
    alike = []
    for other in selection.ranking.subsets:
        pairs = similar[:, other]
        alike.append(pairs[linear_sum_assignment(-pairs)].min())
    best = int(np.argmax(alike))
    return Mirrored(tuple(int(k) for k in selection.ranking.subsets[best]), best + 1, float(alike[best]))


def spectral_features(path: Path, n: int | None) -> Features:
    """Spectra of unit length, each once, and a band ratio as colour."""
    with np.load(path, allow_pickle=False) as file:
        spectra, wavelengths = file["spectra"].astype(np.float64), file["wavelengths"]
    spectra /= np.linalg.norm(spectra, axis=1, keepdims=True)
    first = np.sort(np.unique(spectra, axis=0, return_index=True)[1])
    repeated = len(spectra) - len(first)
    notes = (f"{repeated:,} of {len(spectra):,} spectra are copies of another and were left out.",) if repeated else ()
    rows = taken(first, n)
    bands = [(wavelengths >= low) & (wavelengths <= high) for low, high in ((950, 1050), (1450, 1550))]
    above, below = (spectra[rows][:, band].mean(axis=1) for band in bands)
    found = PCA(min(50, len(wavelengths)), random_state=0)
    X = found.fit_transform(spectra[rows])
    return Features(X, rows, found.explained_variance_ratio_.sum(), {"band ratio 1.0 / 1.5 um": above / below}, notes)


def taken(usable: np.ndarray, n: int | None) -> np.ndarray:
    """All rows, or n of them at random, in their order."""
    if n is None or n >= len(usable):
        return usable
    return np.sort(np.random.default_rng(0).choice(usable, n, replace=False))


def fit(case: RealCase, X: np.ndarray, bandwidth: float | str, device: str, **options: Any) -> Selection:
    """The choice on the largest connected part."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IESWarning)  # kept in the result, and told on the page
        return select_coordinates(
            X, intrinsic_dim=case.d, subset_size=case.s, bandwidth=bandwidth, self_loops=case.self_loops,
            disconnected="largest", untangle=False, device=device, **options,
        )  # fmt: skip


def torsion_r2(angle: np.ndarray, Y: np.ndarray) -> float:
    """How well coordinates explain an angle (n,): R^2 of its cosine and sine."""
    return 1 - unexplained_variance(np.column_stack([np.cos(angle), np.sin(angle)]), Y)
