"""Frames from files and from the objects of other libraries."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from ies_gpu import datasets
from tests.extras import needed
from tests.said import refused

Z = [8, 1, 1]


@pytest.fixture
def frames(rng):
    return rng.normal(size=(5, 3, 3))


@pytest.mark.parametrize("names", [("R", "z"), ("coords", "nuclear_charges")])
def test_npz_of_both_kinds(tmp_path, frames, names):
    arrays = {names[0]: frames, names[1]: np.array(Z), "energies": np.arange(5.0), "name": np.array("x")}
    np.savez(tmp_path / "m.npz", **arrays)
    back = datasets.load_molecule(tmp_path / "m.npz")
    np.testing.assert_array_equal(back.R, frames)
    assert set(back.values) == {"energies"}
    np.savez(tmp_path / "m.npz", **arrays | {names[1]: np.tile(Z, (5, 1))})  # repeated for each frame
    assert datasets.load_molecule(tmp_path / "m.npz").z.tolist() == Z


def test_angles_and_distances_need_no_elements(tmp_path, frames):
    np.savez(tmp_path / "m.npz", R=frames, z=np.array(["O", "H", "H"]))  # texts are not read
    for source in (tmp_path / "m.npz", Universe(frames, ["", "", ""]), Universe(frames)):
        found = datasets.load_molecule(source)
        np.testing.assert_array_equal(found.R, frames)
        assert found.z.tolist() == [0, 0, 0]
        assert datasets.planar_angles(found.R).shape == datasets.pairwise_distances(found.R).shape == (5, 3)


def test_bad_npz(tmp_path, frames):
    path = tmp_path / "bad.npz"
    with pytest.raises(FileNotFoundError, match=r"bad\.npz"):
        datasets.load_molecule(path)
    nan = np.where(np.arange(5)[:, None, None] == 4, np.nan, frames)
    for arrays, message in [
        ({"z": Z}, "no positions"),
        ({"R": frames[0], "z": Z}, r"no positions .*R \(3, 3\)"),
        ({"R": frames[:, :, :2], "z": Z}, "shape"),
        ({"R": frames, "z": Z[:2]}, "one atomic number"),
        ({"R": nan, "z": Z}, "the first is frame 4"),
        ({"R": np.array([{}], dtype=object), "z": Z}, "no positions"),
    ]:
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match=message) as caught:
            datasets.load_molecule(path)
        assert "bad.npz" in str(caught.value)
    np.savez(path, R=frames, z=Z)
    path.write_bytes(path.read_bytes()[:200])
    with refused("file.damaged"):
        datasets.load_molecule(path)
    (tmp_path / "m.pdb").write_text("ATOM")
    with pytest.raises(ValueError, match=r"not from '\.pdb'"):
        datasets.load_molecule(tmp_path / "m.pdb")


def test_atoms_of_ase(frames):
    ase = needed("ase", "molecules")
    made = [ase.Atoms(numbers=Z, positions=frame, info={"step": k}) for k, frame in enumerate(frames)]
    found = datasets.load_molecule(made)
    np.testing.assert_array_equal(found.R, frames)
    assert found.z.tolist() == Z and found.values["step"].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="frame 1 has different atoms from frame 0"):
        datasets.load_molecule([made[0], ase.Atoms(numbers=[8, 8, 1], positions=frames[0])])


def test_xyz_plain_and_extended(tmp_path):
    needed("ase", "molecules")
    (tmp_path / "plain.xyz").write_text("2\n\nH 0 0 0\nCl 1.5 0 0\n2\nstep 2\nH 0 0 0.1\nCl 1.5e0 0 0\n")
    plain = datasets.load_molecule(tmp_path / "plain.xyz")
    assert plain.R[1].tolist() == [[0, 0, 0.1], [1.5, 0, 0]] and plain.z.tolist() == [1, 17] and plain.values == {}
    comment = 'Lattice="9 0 0 0 9 0 0 0 9" Properties=id:I:1:pos:R:3:species:S:1:forces:R:3 energy=-3.5 q=2 pbc="F F F"'
    (tmp_path / "long.extxyz").write_text(f"1\n{comment}\n7 1 2 3 O 9 9 9\n")
    found = datasets.load_molecule(tmp_path / "long.extxyz")
    assert found.R.tolist() == [[[1, 2, 3]]] and found.z.tolist() == [8]
    assert found.values["energy"].tolist() == [-3.5] and found.values["q"].tolist() == [2]


@pytest.mark.parametrize("text", ["", "H 0 0 0\n", "2\n\nH 0 0 0\n", "1\n\nH 0 x 0\n", "1\n\nQq 0 0 0\n",
                                  "1\n\nH 0 0 nan\n", "1\n\nH 0 0 0\n1\n\nO 0 0 0\n"])  # fmt: skip
def test_a_bad_xyz_file_is_named(tmp_path, text):
    needed("ase", "molecules")
    (tmp_path / "bad.xyz").write_text(text)
    with pytest.raises(ValueError, match=r"bad\.xyz"):
        datasets.load_molecule(tmp_path / "bad.xyz")


class Universe:
    """As MDAnalysis has it: ``atoms.positions`` is that of the frame at which the iteration stands."""

    def __init__(self, R, elements=None):
        known = {} if elements is None else {"elements": elements}
        self.R, self.atoms = R, SimpleNamespace(positions=np.array(R[0]), **known)

    @property
    def trajectory(self):
        for frame in self.R:
            self.atoms.positions[:] = frame  # one buffer for all frames
            yield frame


@pytest.mark.filterwarnings("ignore")  # of MDAnalysis, about others
def test_a_file_with_its_topology(frames, tmp_path):
    mdanalysis = needed("MDAnalysis", "molecules")
    made = mdanalysis.Universe.empty(3, trajectory=True)
    for name, values in (("name", ["O", "H1", "H2"]), ("element", ["O", "H", "H"]), ("resname", ["HOH"])):
        made.add_TopologyAttr(name, values)
    made.load_new(frames)
    path, water = tmp_path / "water.xtc", tmp_path / "water.pdb"
    made.atoms.write(water)
    made.atoms.write(path, frames="all")
    for found in (datasets.load_molecule(path, topology=water), datasets.load_molecule(made)):
        np.testing.assert_allclose(found.R, frames, atol=0.011)  # .xtc keeps hundredths of an Angstrom
        assert found.z.tolist() == Z
    some = datasets.load_molecule(path, topology=water, atoms=[2, 0])
    assert some.z.tolist() == [8, 1]  # in the order of the file
    np.testing.assert_allclose(some.R, frames[:, [0, 2]], atol=0.011)
    group = datasets.load_molecule(made.select_atoms("element H"))
    np.testing.assert_allclose(group.R, frames[:, 1:], atol=1e-6)
    with pytest.raises(FileNotFoundError, match=r"no\.pdb"):
        datasets.load_molecule(path, topology=tmp_path / "no.pdb")
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"water\.xtc cannot be read by MDAnalysis"):
        datasets.load_molecule(path, topology=water)


@pytest.mark.parametrize(("name", "library"), [("a.xyz", "ase"), ("a.xtc", "MDAnalysis")])
def test_what_to_install_is_said(tmp_path, monkeypatch, name, library):
    for module in (library, "ase.io"):
        monkeypatch.setitem(sys.modules, module, None)
    for file in (name, "a.pdb"):
        (tmp_path / file).write_text("x")
    topology = None if name == "a.xyz" else tmp_path / "a.pdb"
    with pytest.raises(ImportError, match=rf"{name} needs {library}: pip install 'ies-gpu\[molecules\]'"):
        datasets.load_molecule(tmp_path / name, topology=topology)


def test_anything_else():
    for odd in (3, ["ethanol.xyz"], np.zeros((2, 3, 3))):
        with pytest.raises(TypeError, match="source must be the path of a file"):
            datasets.load_molecule(odd)
    with pytest.raises(ValueError, match="no frames"):
        datasets.load_molecule([])
