"""Data sets, features and pictures, computed again."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse.csgraph
from numpy.testing import assert_allclose, assert_array_equal

import ies_gpu
from ies_gpu import datasets
from tests.validation.oracle_problem import Problem, same

# --- data ---


def load_data(p: Problem) -> None:
    name = datasets.names()[p.n % len(datasets.names())]
    first, again = (datasets.load(name, n_samples=p.n, random_state=3) for _ in range(2))
    assert_array_equal(first.X, again.X)
    # cavities take up to a tenth of the points; D5 draws 1.3 for each and keeps 0.785 of them: five standard deviations
    chance = 5 * np.sqrt(0.22 * p.n)
    assert 0.9 * p.n - chance <= len(first.X) <= 1.02 * p.n + chance and np.isfinite(first.X).all()


def frames(p: Problem) -> np.ndarray:
    return p.rng.normal(size=(3, 5, 3))


def pairwise_distances(p: Problem) -> None:
    R = frames(p)
    same(datasets.pairwise_distances(R), [scipy.spatial.distance.pdist(frame) for frame in R])


def planar_angles(p: Problem) -> None:
    R = frames(p)
    found = datasets.planar_angles(R).reshape(3, -1, 3)
    same(found.sum(axis=2), np.full(found.shape[:2], np.pi))
    a, b = R[:, 1] - R[:, 0], R[:, 2] - R[:, 0]
    cosine = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert_allclose(np.cos(found[:, 0, 0]), cosine, atol=1e-9)


def torsion_features(p: Problem) -> None:
    """Turning the last atom about the axis adds the angle."""
    R, turn = frames(p), float(p.rng.uniform(-1, 1))
    axis = (R[:, 2] - R[:, 1]) / np.linalg.norm(R[:, 2] - R[:, 1], axis=1, keepdims=True)
    arm = R[:, 3] - R[:, 2]
    along = (arm * axis).sum(axis=1, keepdims=True) * axis
    moved = R.copy()
    moved[:, 3] = R[:, 2] + along + np.cos(turn) * (arm - along) + np.sin(turn) * np.cross(axis, arm)
    chains = [(4, 2, 0, 1), (0, 1, 2, 3)]
    cosine, sine = np.split(datasets.torsion_features(np.concatenate([R, moved]), chains), 2, axis=1)
    before, after = np.split((cosine + 1j * sine)[:, 1], 2)
    assert_allclose(after, before * np.exp(1j * turn), atol=1e-7)


def molecules(p: Problem) -> None:
    R = frames(p)
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder, "a.npz"), R=R, z=[6, 1, 1, 8, 1], energy=np.zeros(3))
        found = datasets.load_molecule(Path(folder, "a.npz"))
    assert_array_equal(found.R, R)
    assert found.z.tolist() == [6, 1, 1, 8, 1]


def pictures(p: Problem) -> None:
    """What is drawn is what was found: the marks of the map, and the heights of the histogram."""
    drawn = ies_gpu.plot.embedding(p.selection, subset=(0, 1)).axes[0].collections[0].get_offsets()
    Y = p.selection.coordinates[:, :2]
    assert len(drawn) >= p.n - 2  # one stray at most in either column
    if len(drawn) == p.n:
        same(np.sort(np.asarray(drawn), axis=0), np.sort(Y / np.sqrt((Y**2).mean(axis=0)), axis=0), 1e-6)
    bars = [bar.get_height() for bar in ies_gpu.plot.volumes(p.selection).axes[0].patches[:50]]
    same(sum(bars), 100.0)
    assert ies_gpu.plot.points(p.X).axes and ies_gpu.plot.path(p.selection).axes
    assert len(p.selection.subset) == 1 or ies_gpu.plot.diagnosis(ies_gpu.diagnose(p.selection)).axes
    found = ies_gpu.estimate_parameters(p.X, bandwidth=p.eps, intrinsic_dim=p.d, n_components=p.m)
    heights = [bar.get_height() for bar in found.plot().axes[0].patches]
    same(heights, [row["fvu"] for row in found.basis["sizes"]])
    assert ies_gpu.plot.style.set_label((0, 6)) == r"$\{\phi_{1},\, \phi_{7}\}$"
