"""Ethanol: from positions of atoms to the torus of its two torsions.

python examples/ethanol.py trajectory.npz [number of frames]

Features are all angles of all triangles of atoms, then principal components.
"""

import sys

from sklearn.decomposition import PCA

from ies_gpu import datasets, plot, select_coordinates

path, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
molecule = datasets.load_molecule(path)
frames = slice(None, None, max(1, len(molecule.R) // n))
X = PCA(50, random_state=0).fit_transform(datasets.planar_angles(molecule.R[frames]))

selection = select_coordinates(X, intrinsic_dim=2, subset_size=3, bandwidth=0.6 * (10_000 / len(X)) ** 0.25)
print(selection)
torsions = molecule.values.get("tau")
colors = None if torsions is None else {"first torsion": torsions[frames, 0], "second torsion": torsions[frames, 1]}
plot.embedding(selection, colors=colors, cmap="twilight").savefig("ethanol.png")
