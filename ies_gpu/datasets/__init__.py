"""The paper's synthetic manifolds D1 to D13, and readers of molecules and spectra."""

from __future__ import annotations

from .molecules import Trajectory, load_molecule, pairwise_distances, planar_angles, torsion
from .principal_components import Components, pca
from .spectra import Spectra, load_spectra, normalize_spectra
from .synthetic import Dataset, load, names
from .trajectories import trajectory_of
from .xyz import write_xyz

__all__ = [
    "Components",
    "Dataset",
    "Spectra",
    "Trajectory",
    "load",
    "load_molecule",
    "load_spectra",
    "names",
    "normalize_spectra",
    "pairwise_distances",
    "pca",
    "planar_angles",
    "torsion",
    "trajectory_of",
    "write_xyz",
]
