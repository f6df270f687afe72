"""The paper's synthetic manifolds D1 to D13, and features of molecules."""

from __future__ import annotations

from .molecules import Trajectory, load_molecule, pairwise_distances, planar_angles, torsion, torsion_features
from .synthetic import Dataset, load, names

__all__ = ["Dataset", "load", "names"]
__all__ += ["Trajectory", "load_molecule", "pairwise_distances", "planar_angles", "torsion", "torsion_features"]
