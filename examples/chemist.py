"""
A chemist's first half hour
===========================

Ethanol from ASE: two torsions turn, all atoms vibrate, and the map finds the torsions by itself.

Run it with ``python examples/chemist.py [number of frames]`` (``pip install 'ies-gpu[molecules]'``). **The frames are
made up**; pass your own list of ``ase.Atoms``, an MDAnalysis universe or a file to ``datasets.load_molecule``.
"""

import sys

import ase.build
import numpy as np
from sklearn.decomposition import PCA

from ies_gpu import IndependentCoordinates, datasets, plot

n = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000
rng = np.random.default_rng(0)
ethanol = ase.build.molecule("CH3CH2OH")  # C, C, O, then hydrogens: 3 on O, 4 and 5 on C1, 6 to 8 on C0
frames = []
for hydroxyl, methyl in rng.uniform(0, 360, (n, 2)):
    frame = ethanol.copy()
    frame.set_dihedral(0, 1, 2, 3, hydroxyl, indices=[3])
    frame.set_dihedral(2, 1, 0, 6, methyl, indices=[6, 7, 8])
    frame.rattle(0.02, rng=rng)
    frames.append(frame)

# %%
# The features are the angles of all triangles of atoms. They do not change when the molecule moves or turns as a whole.

trajectory = datasets.load_molecule(frames)
print(trajectory)
X = PCA(20, random_state=0).fit_transform(datasets.planar_angles(trajectory.R))

# %%
# Vibrations are noise in many dimensions, so we pass ``self_loops=False``: no frame counts as its own neighbour. This
# torus needs four coordinates.

chooser = IndependentCoordinates(intrinsic_dim=2, subset_size=4, self_loops=False, components="largest").fit(X)
print(chooser.selection_)
torsions = {"OH torsion": (3, 2, 1, 0), "methyl torsion": (6, 0, 1, 2)}
colors = {name: datasets.torsion(trajectory.R, atoms)[chooser.selection_.points] for name, atoms in torsions.items()}
plot.embedding(chooser.selection_, colors=colors, cmap="twilight").savefig("chemist.png")
print("share of the variance that the map does not explain:", round(chooser.inverse_error_.unexplained, 3))
