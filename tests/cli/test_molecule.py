"""Trajectories as the input of ``ies-gpu fit``."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from ies_gpu import cli, datasets, load
from ies_gpu.datasets.molecules import principal_components
from tests.extras import needed

from .conftest import HOPELESS

pytestmark = pytest.mark.usefixtures("plain_kernels")
N = 400
Z = [1, 8, 8, 1]  # hydrogen peroxide, and its torsion
FIT = ["-d", "1", "-s", "2", "--bandwidth", "0.15", "-m", "6", "-q"]


def turned(torsion: np.ndarray) -> np.ndarray:
    """H-O-O-H with the second hydrogen turned about the axis of the oxygens."""
    R = np.zeros((len(torsion), 4, 3))
    R[:, 0] = [-0.3, 0.9, 0.0]
    R[:, 2] = [1.45, 0.0, 0.0]
    R[:, 3] = np.column_stack([np.full(len(torsion), 1.75), 0.9 * np.cos(torsion), 0.9 * np.sin(torsion)])
    return R


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("molecule")
    torsion = np.random.default_rng(0).permutation(np.linspace(0.2, 2.9, N))
    R = turned(torsion)
    np.savez(folder / "peroxide.npz", R=R, z=Z, torsion=torsion, E=np.zeros((N, 1)))
    np.savez(folder / "unnamed.npz", R=R)
    np.savez(folder / "featured.npz", X=R[:, 3], R=R, z=Z)
    return folder


def fit(folder, name, *more):
    return cli.main(["fit", str(folder / name), *FIT, "-o", str(folder / "run.npz"), *more])


def test_a_trajectory_is_mapped_by_its_angles(folder, capsys):
    """Twelve angles, as in Python, and the map knows the torsion that makes them."""
    assert fit(folder, "peroxide.npz", "--coordinates", str(folder / "map.npy")) == 0
    molecule = datasets.load_molecule(folder / "peroxide.npz")
    found = load(folder / "run.npz")
    assert found.diagnostics["n_features"] == datasets.planar_angles(molecule.R).shape[1]
    assert "12 angles of triangles of atoms (4 atoms)" in found.diagnostics["features"]
    first = np.load(folder / "map.npy")[:, 0]
    with np.load(folder / "peroxide.npz") as arrays:
        assert abs(np.corrcoef(first, arrays["torsion"])[0, 1]) > 0.95
    assert cli.main(["show", str(folder / "run.npz")]) == 0
    assert found.diagnostics["features"] in " ".join(capsys.readouterr().out.split())


def test_positions_and_atoms_in_an_archive_are_a_molecule(folder, capsys):
    """And not the energies, the only array with two axes; ``--key`` still reads these."""
    for name in ("peroxide.npz", "unnamed.npz"):  # distances need no elements
        assert fit(folder, name, "--features", "distances", "--bandwidth", "0.05") == 0
        assert "6 distances between atoms (4 atoms)" in load(folder / "run.npz").diagnostics["features"]
    assert fit(folder, "peroxide.npz", "--key", "E") == 1
    assert "400 copies of one point" in capsys.readouterr().err
    assert fit(folder, "featured.npz") == 0  # features of one's own are points
    assert load(folder / "run.npz").diagnostics["n_features"] == 3


def test_principal_components_of_a_sample_are_those_of_all_frames(rng):
    # if the features vary in few directions, as they do here: two torsions have four cosines and sines
    R = np.concatenate([turned(rng.uniform(-3, 3, 500)), turned(rng.uniform(-3, 3, 500))[:, 1:] + [0, 9, 9]], axis=1)
    molecule = datasets.Trajectory(R, np.array(Z + Z[1:]))
    whole, _ = principal_components(molecule, "distances")
    parts, _ = principal_components(molecule, "distances", sample=21 * 120)
    assert whole.shape == parts.shape == (500, 21)
    np.testing.assert_allclose(pdist(whole), pdist(parts), atol=1e-9)  # all 21 are kept: only turned


@pytest.mark.filterwarnings("always::ies_gpu.IESWarning")
def test_of_frames_of_both_hands_it_is_said_that_torsions_keep_the_sign(folder, capsys):
    needed("ase", "molecules")
    np.savez(folder / "both.npz", R=turned(np.linspace(-np.pi, np.pi, N, endpoint=False)), z=Z)
    for kind in ("torsions", "angles"):
        assert fit(folder, "both.npz", "--features", kind) == 0
        assert ("--features torsions keeps it" in " ".join(capsys.readouterr().err.split())) is (kind == "angles")


def test_what_does_not_work_is_said_before_the_run(folder, capsys):
    (folder / "traj.xtc").write_bytes(b"no trajectory")
    np.savez(folder / "large.npz", R=np.zeros((3, 200, 3)), z=[6] * 200)
    for name, more, status, words in (
        ("peroxide.npz", ["--atoms", "0-9"], 1, "atoms must be different numbers between 0 and 3"),
        ("peroxide.npz", ["--atoms", "3-0"], 2, "rising ranges, such as 0-8,12, got '3-0'"),
        ("peroxide.npz", ["--model", "model.npz"], 2, "--model does not work with a molecule"),
        ("peroxide.npz", ["--columns", "a"], 2, "are for tables, not for molecules"),
        ("points.npy", ["--atoms", "0-3"], 2, "points.npy is no molecule; leave out --atoms"),
        ("traj.xtc", ["--topology", "no.pdb"], 1, "no.pdb does not exist"),
        ("traj.xtc", [], 1, "reads trajectories with --topology"),
        ("large.npz", [], 1, "choose fewer atoms, distances or torsions"),
    ):
        assert fit(folder, name, *HOPELESS, *more) == status
        assert words in " ".join(capsys.readouterr().err.split())
