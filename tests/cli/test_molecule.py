"""Trajectories as the input of ``ies-gpu fit``."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ies_gpu import cli, datasets, load
from tests.extras import needed

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
    datasets.write_xyz(folder / "peroxide.xyz", R, Z, values={"torsion": torsion})
    np.savez(folder / "peroxide.npz", R=R, z=Z, E=np.zeros((N, 1)))
    return folder


def fit(folder, name, *more):
    return cli.main(["fit", str(folder / name), *FIT, "-o", str(folder / "run.npz"), *more])


def test_a_trajectory_is_mapped_by_its_angles(folder, capsys):
    """Twelve angles, as in Python, and the map knows the torsion that makes them."""
    assert fit(folder, "peroxide.xyz", "--coordinates", str(folder / "map.npy")) == 0
    molecule = datasets.load_molecule(folder / "peroxide.xyz")
    features = datasets.pca(molecule.R, 50, transform=datasets.planar_angles)
    found = load(folder / "run.npz")
    assert found.diagnostics["n_features"] == features.scores.shape[1]
    assert "12 angles of triangles of atoms (4 atoms)" in found.diagnostics["features"]
    first = np.load(folder / "map.npy")[:, 0]
    assert abs(np.corrcoef(first, molecule.values["torsion"])[0, 1]) > 0.95
    assert cli.main(["show", str(folder / "run.npz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["diagnostics"]["features"] == found.diagnostics["features"]
    assert cli.main(["show", str(folder / "run.npz")]) == 0
    assert found.diagnostics["features"] in " ".join(capsys.readouterr().out.split())


def test_positions_and_atoms_in_an_archive_are_a_molecule(folder, capsys):
    """And not the energies, the only array with two axes; ``--key`` still reads these."""
    assert fit(folder, "peroxide.npz", "--features", "distances", "--bandwidth", "0.05") == 0
    assert "6 distances between atoms (4 atoms)" in load(folder / "run.npz").diagnostics["features"]
    assert fit(folder, "peroxide.npz", "--key", "E") == 1
    assert "400 copies of one point" in capsys.readouterr().err
    with np.load(folder / "peroxide.npz") as arrays:
        np.savez(folder / "featured.npz", X=arrays["R"][:, 3], **arrays)
    assert fit(folder, "featured.npz") == 0  # features of one's own are points
    assert load(folder / "run.npz").diagnostics["n_features"] == 3


def test_self_loops_are_advised_against_unless_they_are_left_out(folder, capsys):
    loud = [option for option in FIT if option != "-q"]
    for more in ([], ["--no-self-loops"]):
        assert cli.main(["fit", str(folder / "peroxide.xyz"), *loud, *more]) == 0
        assert ("--no-self-loops often gives a better map" in capsys.readouterr().err) is not bool(more)


def test_too_many_atoms_for_angles_have_a_way_out(folder, rng, capsys):
    datasets.write_xyz(folder / "large.xyz", rng.normal(size=(3, 60, 3)), [6] * 60)
    assert fit(folder, "large.xyz") == 1
    assert "; use --features distances, or fewer atoms with --atoms" in capsys.readouterr().err


def test_some_atoms(folder):
    assert fit(folder, "peroxide.xyz", "--atoms", "0,2-3", "--features", "distances", "--bandwidth", "0.05") == 0
    assert "3 distances between atoms (3 atoms)" in load(folder / "run.npz").diagnostics["features"]


def test_numbers_per_frame_colour_the_picture(folder, monkeypatch):
    drawn = []
    monkeypatch.setattr("ies_gpu.cli.fit.draw", lambda selection, path, colors: drawn.append(colors))
    assert fit(folder, "peroxide.xyz", "--plot", str(folder / "map.png"), "--color", "torsion") == 0
    np.testing.assert_array_equal(
        drawn[0]["torsion"], datasets.load_molecule(folder / "peroxide.xyz").values["torsion"]
    )


@pytest.mark.filterwarnings("ignore")  # of these libraries, about others
def test_a_trajectory_with_its_topology(folder):
    mdtraj = needed("mdtraj", "test-all")
    needed("MDAnalysis", "test-all")
    topology = mdtraj.Topology()
    residue = topology.add_residue("HOO", topology.add_chain())
    for name, number in zip(("H1", "O1", "O2", "H2"), Z, strict=True):
        topology.add_atom(name, mdtraj.element.Element.getByAtomicNumber(number), residue)
    made = mdtraj.Trajectory(datasets.load_molecule(folder / "peroxide.xyz").R / 10, topology)
    made[0].save_pdb(str(folder / "top.pdb"))
    made.save_dcd(str(folder / "traj.dcd"))
    assert fit(folder, "peroxide.xyz") == 0
    wanted = load(folder / "run.npz").embedding
    assert fit(folder, "traj.dcd", "--topology", str(folder / "top.pdb")) == 0
    np.testing.assert_allclose(load(folder / "run.npz").embedding, wanted, atol=1e-3 / np.sqrt(N))


@pytest.mark.parametrize(
    ("name", "more", "status", "words"),
    [
        ("peroxide.xyz", ["--atoms", "0-9"], 1, "atoms must be different numbers between 0 and 3"),
        ("peroxide.xyz", ["--atoms", "3-0"], 2, "rising ranges, such as 0-8,12, got '3-0'"),
        ("peroxide.xyz", ["--model", "model.npz"], 2, "--model does not work with a molecule"),
        ("peroxide.xyz", ["--columns", "a"], 2, "are for tables, not for molecules"),
        ("points.npy", ["--atoms", "0-3"], 2, "points.npy is no molecule; leave out --atoms"),
        ("traj.xtc", [], 1, "for a trajectory, use 'ies-gpu fit' with --topology"),
    ],
)
def test_what_does_not_work_is_said_before_the_run(folder, name, more, status, words, monkeypatch, capsys):
    monkeypatch.setattr("ies_gpu.cli.fit.select", lambda *_: pytest.fail("the run began"))
    (folder / "traj.xtc").write_bytes(b"no trajectory")
    assert fit(folder, name, *more) == status
    assert words in " ".join(capsys.readouterr().err.split())
