"""The paper's synthetic manifolds D1 to D13, and features of molecules."""

from .molecules import Trajectory, load_molecule, pairwise_distances, planar_angles, torsion_features
from .synthetic import Dataset, load, names

__all__ = ["Dataset", "load", "names"]
__all__ += ["Trajectory", "load_molecule", "pairwise_distances", "planar_angles", "torsion_features"]
