"""Ethanol: from positions of atoms to the torus of its two torsions.

python examples/ethanol.py trajectory.npz [number of frames]

Features are all angles of all triangles of atoms, then principal components. A molecule vibrates in all of its
dimensions, so that no frame has near neighbours: without self-loops its own weight does not outweigh theirs.
"""

import sys

from ies_gpu import datasets, plot, select_coordinates

path, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
R = datasets.load_molecule(path).R
R = R[:: max(1, len(R) // n)]
X = datasets.pca(R, 50, transform=datasets.planar_angles).scores

selection = select_coordinates(X, intrinsic_dim=2, subset_size=3, components="largest", self_loops=False)
print(selection)
torsions = {"OH torsion": (8, 2, 0, 1), "methyl torsion": (5, 1, 0, 2)}  # as sGDML and MD17 number the atoms
colors = {name: datasets.torsion(R, atoms)[selection.points] for name, atoms in torsions.items()}
plot.embedding(selection, colors=colors, cmap="twilight").savefig("ethanol.png")
