"""Trajectories of other libraries: their own objects, and look-alikes where the libraries are hard to provoke."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ies_gpu import datasets
from ies_gpu.datasets.trajectories import READERS
from tests.extras import needed

Z = [8, 1, 1]


@pytest.fixture
def frames(rng):
    return rng.normal(size=(5, 3, 3))


def test_ase(frames):
    R = frames
    ase = needed("ase", "test-all")
    made = [ase.Atoms(numbers=Z, positions=frame) for frame in R]
    found = datasets.trajectory_of(made)
    np.testing.assert_array_equal(found.R, R)
    assert found.symbols == ("O", "H", "H") and found.path == "ASE"
    with pytest.raises(ValueError, match="frame 1 has different atoms from frame 0"):
        datasets.trajectory_of([made[0], ase.Atoms(numbers=[8, 8, 1], positions=R[0])])


def test_mdtraj_is_in_nanometres(frames):
    R = frames
    atoms = [SimpleNamespace(element=SimpleNamespace(atomic_number=z)) for z in Z]
    found = datasets.trajectory_of(SimpleNamespace(xyz=R / 10, topology=SimpleNamespace(atoms=atoms)))
    np.testing.assert_allclose(found.R, R, rtol=1e-14)
    assert found.z.tolist() == Z
    atoms[1].element = None
    with pytest.raises(ValueError, match="atoms without an element"):
        datasets.trajectory_of(SimpleNamespace(xyz=R, topology=SimpleNamespace(atoms=atoms)))


class Universe:
    """As MDAnalysis has it: ``atoms.positions`` is that of the frame at which the iteration stands."""

    def __init__(self, R, elements):
        self.R, self.atoms = R, SimpleNamespace(positions=np.array(R[0]), elements=elements)

    @property
    def trajectory(self):
        for frame in self.R:
            self.atoms.positions[:] = frame  # one buffer for all frames
            yield frame


def test_mdanalysis_reuses_its_buffer(frames):
    R = frames
    found = datasets.trajectory_of(Universe(R, ["O", "H", "H"]))
    np.testing.assert_array_equal(found.R, R)
    assert found.z.tolist() == Z
    with pytest.raises(ValueError, match="does not know the elements"):
        datasets.trajectory_of(Universe(R, ["", "", ""]))


@pytest.mark.filterwarnings("ignore")  # of these libraries, about others
def test_files_as_mdtraj_and_mdanalysis_read_them(frames, tmp_path):
    mdtraj, mdanalysis = needed("mdtraj", "test-all"), needed("MDAnalysis", "test-all")
    topology = mdtraj.Topology()
    residue = topology.add_residue("HOH", topology.add_chain())
    for name, number in zip(("O", "H1", "H2"), Z, strict=True):
        topology.add_atom(name, mdtraj.element.Element.getByAtomicNumber(number), residue)
    made = mdtraj.Trajectory(frames / 10, topology)
    names = str(tmp_path / "water.pdb"), str(tmp_path / "water.xtc")
    made[0].save_pdb(names[0])
    made.save_xtc(names[1])
    universe = mdanalysis.Universe(*names)
    for source in (made, mdtraj.load(names[1], top=names[0]), universe):
        found = datasets.trajectory_of(source)
        np.testing.assert_allclose(found.R, frames, atol=0.011)  # .xtc keeps hundredths of an Angstrom
        assert found.z.tolist() == Z
    group = datasets.trajectory_of(universe.select_atoms("element H"))
    np.testing.assert_allclose(group.R, frames[:, 1:], atol=0.011)
    assert group.symbols == ("H", "H")


def test_anything_else():
    for odd in (3, ["ethanol.xyz"], np.zeros((2, 3, 3))):
        with pytest.raises(TypeError, match="files are read by load_molecule"):
            datasets.trajectory_of(odd)
    with pytest.raises(ValueError, match="there are no frames"):
        datasets.trajectory_of([])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("installed", ["MDAnalysis", "mdtraj"])
def test_a_file_with_its_topology(frames, tmp_path, installed, monkeypatch):
    mdtraj, _ = needed("mdtraj", "test-all"), needed("MDAnalysis", "test-all")
    topology = mdtraj.Topology()
    residue = topology.add_residue("HOH", topology.add_chain())
    for name, number in zip(("O", "H1", "H2"), Z, strict=True):
        topology.add_atom(name, mdtraj.element.Element.getByAtomicNumber(number), residue)
    made = mdtraj.Trajectory(frames / 10, topology)
    made[0].save_pdb(str(tmp_path / "water.pdb"))
    made.save_xtc(str(tmp_path / "water.xtc"))
    monkeypatch.setattr("ies_gpu.datasets.trajectories.READERS", {installed: READERS[installed]})
    path, water = tmp_path / "water.xtc", tmp_path / "water.pdb"
    found = datasets.load_molecule(path, topology=water)
    np.testing.assert_allclose(found.R, frames, atol=0.011)  # .xtc keeps hundredths of an Angstrom
    assert found.z.tolist() == Z and found.path == str(path)
    some = datasets.load_molecule(path, topology=water, atoms=[2, 0])
    assert some.z.tolist() == [8, 1]  # in the order of the file
    np.testing.assert_allclose(some.R, frames[:, [0, 2]], atol=0.011)
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=f"water.xtc cannot be read by {installed} with the atoms of"):
        datasets.load_molecule(path, topology=water)


def test_a_topology_without_a_library(tmp_path, monkeypatch):
    monkeypatch.setattr("ies_gpu.datasets.trajectories.READERS", {})
    for name in ("a.xtc", "a.pdb"):
        (tmp_path / name).write_text("x")
    with pytest.raises(ImportError, match="needs MDAnalysis or mdtraj: pip install MDAnalysis"):
        datasets.load_molecule(tmp_path / "a.xtc", topology=tmp_path / "a.pdb")
    with pytest.raises(FileNotFoundError, match=r"b\.pdb does not exist"):
        datasets.load_molecule(tmp_path / "a.xtc", topology=tmp_path / "b.pdb")
