"""
A molecule with two torsions
============================

From the positions of atoms to the torus of ethanol's two torsions.

**The frames are made up**: a skeleton like ethanol's, in which both torsions turn freely and all atoms vibrate. For
your own, take ``R = datasets.load_molecule("trajectory.npz").R`` (:doc:`/data`).
"""

import numpy as np
from scipy.spatial.transform import Rotation
from sklearn.decomposition import PCA

from ies_gpu import datasets, plot, select_coordinates

# C, C, O, then the hydrogens: 3 and 4 on the first C, 5 to 7 on the second, 8 on the oxygen, in Ångström
SKELETON = np.array(
    [
        [0.00, 0.00, 0.00], [1.51, 0.00, 0.00], [-0.58, 1.30, 0.00], [-0.36, -0.55, 0.88], [-0.36, -0.55, -0.88],
        [1.90, 1.02, 0.00], [1.90, -0.51, 0.88], [1.90, -0.51, -0.88], [-1.54, 1.20, 0.00],
    ]
)  # fmt: skip


def made_up(n):
    """Frames in which the methyl group and the hydroxyl hydrogen turn, and every atom vibrates."""
    rng = np.random.default_rng(0)
    R = np.tile(SKELETON, (n, 1, 1))
    for group, (a, b) in (([8], (0, 2)), ([5, 6, 7], (0, 1))):
        axis = (SKELETON[b] - SKELETON[a]) / np.linalg.norm(SKELETON[b] - SKELETON[a])
        turns = Rotation.from_rotvec(rng.uniform(-np.pi, np.pi, (n, 1)) * axis)
        for atom in group:
            R[:, atom] = turns.apply(R[:, atom] - SKELETON[b]) + SKELETON[b]
    return R + rng.normal(scale=0.02, size=R.shape)


R = made_up(3_000)

# %%
# The features are the principal components of the angles of all triangles of atoms. They do not change when the
# molecule moves or turns as a whole.

X = PCA(50, random_state=0).fit_transform(datasets.planar_angles(R))
print(X.shape)

# %%
# A molecule vibrates in all of its dimensions, so no frame has near neighbours. Without self-loops, the frame's own
# weight cannot outweigh theirs. The two torsions turn alike, so
# their torus needs four coordinates: a circle for each.

selection = select_coordinates(X, intrinsic_dim=2, subset_size=4, disconnected="largest", self_loops=False)
print(selection)

# %%
# We judge the map by something it has not seen: the two torsions.

torsions = {"OH torsion": (8, 2, 0, 1), "methyl torsion": (5, 1, 0, 2)}  # as sGDML and MD17 number the atoms
cosine, sine = np.split(datasets.torsion_features(R[selection.points], list(torsions.values())), 2, axis=1)
colors = dict(zip(torsions, np.arctan2(sine, cosine).T, strict=True))
plot.embedding(selection, colors=colors, cmap="twilight").savefig("ethanol.png")
