"""Frames from files, and features of molecules whose geometry is known."""

import gc
import sys
from functools import partial

import numpy as np
import pytest

from ies_gpu import datasets
from tests.extras import needed
from tests.said import refused, warned

Z = [8, 1, 1]


def moved(rng, R):
    """The same shapes turned and shifted, each frame differently."""
    turns = np.linalg.qr(rng.normal(size=(len(R), 3, 3)))[0]
    turns *= np.sign(np.linalg.det(turns))[:, None, None]  # rotations, no reflections
    return R @ turns + rng.normal(size=(len(R), 1, 3))


@pytest.mark.parametrize(("second", "third", "angles"), [
    ([0.96, 0], [0.96 * np.cos(1.82), 0.96 * np.sin(1.82)], [1.82, (np.pi - 1.82) / 2, (np.pi - 1.82) / 2]),
    ([3, 0], [0, 4], [np.pi / 2, np.arctan(4 / 3), np.arctan(3 / 4)]),
    ([1, 0], [3, 0], [0, np.pi, 0]),
    ([1, 0], [np.cos(1e-9), np.sin(1e-9)], [1e-9, np.pi / 2, np.pi / 2]),  # the arc cosine would give 0 or 1.5e-8
])  # fmt: skip
def test_angles_of_triangles(second, third, angles):
    R = np.insert(np.array([[[0, 0], second, third]], dtype=float), 2, 0.0, axis=2)
    np.testing.assert_allclose(datasets.planar_angles(R)[0], angles, rtol=1e-6, atol=1e-15)


def torsion(R, atoms=(0, 1, 2, 3)):
    """The angle of one chain, as a point of the unit circle."""
    cosine, sine = datasets.torsion_features(R, [atoms]).T
    return cosine + 1j * sine


@pytest.mark.parametrize("angle", [0.0, 0.3, 2.5, np.pi, -0.3, -2.5])
def test_torsion_is_the_angle_of_the_last_bond_about_the_middle_one(angle, rng):
    # seen along b to c (down the z axis) the atom d stands clockwise of a by the angle
    d = [1.2 * np.cos(angle), -1.2 * np.sin(angle), -2.0]
    R = np.array([[[1.0, 0, 0], [0.0, 0, 0], [0.0, 0, -1.5], d]])
    for same in (R, moved(rng, R), R[:, ::-1], 1e-150 * R, 1e150 * R):  # in any unit
        np.testing.assert_allclose(torsion(same), np.exp(1j * angle), atol=1e-12)
    np.testing.assert_allclose(torsion(R * [1, -1, 1]), np.exp(-1j * angle), atol=1e-12)


def chain(torsions):
    """Atoms in bonds of 1.5 Angstrom at the angle of a tetrahedron, one after the other (n, k + 3, 3)."""
    bend = np.arccos(-1 / 3)
    R = [np.tile(atom, (len(torsions), 1)) for atom in ([1.5 * np.sin(bend), 0, 2], [0, 0, 1.5], [0.0, 0, 0])]
    for angle in torsions.T[:, :, None]:
        axis, side = (R[-1] - R[-2]) / 1.5, R[-3] - R[-2]
        side = side - (side * axis).sum(axis=1, keepdims=True) * axis
        side /= np.linalg.norm(side, axis=1, keepdims=True)
        turned = np.cos(angle) * side + np.sin(angle) * np.cross(axis, side)
        R.append(R[-1] + 1.5 * (np.sin(bend) * turned - np.cos(bend) * axis))
    return np.stack(R, axis=1)


def test_a_molecule_and_its_mirror_image(rng, on):
    """Distances and angles are equal; of the torsions the cosines are, and the sines change their sign."""
    R, chains = rng.normal(size=(7, 5, 3)), [(0, 1, 2, 3), (1, 4, 0, 2)]
    mirrored = moved(rng, R * [1, -1, 1])
    for unsigned in (datasets.pairwise_distances, datasets.planar_angles):
        np.testing.assert_allclose(on(unsigned)(mirrored), on(unsigned)(R), atol=1e-12)
    cosine, sine = np.split(on(datasets.torsion_features)(R, chains), 2, axis=1)
    found = np.split(on(datasets.torsion_features)(mirrored, chains), 2, axis=1)
    np.testing.assert_allclose(found, [cosine, -sine], atol=1e-12)
    assert (np.abs(sine) > 1e-3).all()


def test_torsions_of_all_bonded_chains(rng):
    needed("ase", "molecules")
    angles = rng.uniform(-np.pi, np.pi, (40, 2))
    cosine, sine = np.split(datasets.torsion_features(chain(angles), z=[6] * 5), 2, axis=1)
    np.testing.assert_allclose(cosine + 1j * sine, np.exp(1j * angles), atol=1e-12)
    straight = np.array([[[-2.0, 1, 0], [-1.2, 0, 0], [0, 0, 0], [1.2, 0, 0], [2, 1, 0]]])
    for code, chains, z in (
        ("R.no_chain", None, [6] * 5), ("R.straight", [(0, 1, 2, 3)], None), ("z.shape", None, None),
        ("z.shape", None, [6] * 4), ("z.unknown", None, [6] * 4 + [0]),
    ):  # fmt: skip
        with refused(code):
            datasets.torsion_features(straight, chains, z=z)


def test_the_loss_of_signs_is_said_where_signs_are_lost(rng):
    pentane = chain(rng.uniform(-np.pi, np.pi, (60, 2)))
    for unsigned in (datasets.pairwise_distances, datasets.planar_angles):
        with warned("molecule.mirrored"):
            unsigned(pentane)
        unsigned(chain(rng.uniform(0.2, 2.9, (60, 2))))  # one hand only
        unsigned(pentane * [1, 0, 1])  # flat
        sides = np.diff(pentane[:, :3], axis=1)
        sixth = pentane[:, 1] + np.cross(sides[:, 0], sides[:, 1])  # always on one side of the first three atoms
        unsigned(np.concatenate([pentane, sixth[:, None]], axis=1))


def test_bad_geometry(rng):
    R = rng.normal(size=(7, 5, 3))
    R[3, 1] = R[3, 4]
    for code, work in (
        ("R.coincide", lambda: datasets.planar_angles(R)),
        ("R.shape", lambda: datasets.planar_angles(R[:, :2])),
        ("R.not_finite", lambda: datasets.planar_angles(R * np.nan)),
        *(("chains.range", partial(torsion, R, atoms)) for atoms in ((0, 1, 1, 2), (0, 1, 2), (0, 1, 2, 5))),
    ):
        with refused(code):
            work()
    with refused("chains.type", TypeError):
        torsion(R, (0, 1, 2.5, 3))
    R = np.array([[[0, 0, 0], [0.1, 0.2, 0.3], 3 * np.array([0.1, 0.2, 0.3]), [3, 1, 0]]])  # not exactly three steps
    for atoms in ((0, 1, 2, 3), (3, 2, 1, 0)):
        with refused("R.straight"):
            torsion(R, atoms)
    R[0, 0, 2] += 1e-6  # all but a line
    assert np.isfinite(torsion(R)[0])


@pytest.fixture
def frames(rng):
    return rng.normal(size=(5, 3, 3))


@pytest.mark.parametrize("names", [("R", "z"), ("coords", "nuclear_charges")])
def test_npz_of_both_kinds(tmp_path, frames, names):
    others = {"energies": np.arange(5.0), "name": np.array("x")}
    # numbers may be repeated for each frame, and texts are not read
    for numbers, z in ((Z, Z), (np.tile(Z, (5, 1)), Z), (np.array(["O", "H", "H"]), [0, 0, 0])):
        np.savez(tmp_path / "m.npz", **others, **{names[0]: frames, names[1]: numbers})
        back = datasets.load_molecule(tmp_path / "m.npz")
        assert (frames == back.R).all() and len(back) == 5 and back.z.tolist() == z


def test_bad_npz(tmp_path, frames):
    path = tmp_path / "bad.npz"
    for arrays, code in [
        ({"z": Z}, "file.no_array"), ({"R": frames[0], "z": Z}, "file.no_array"),
        ({"R": frames[:, :, :2], "z": Z}, "molecule.shape"), ({"R": frames, "z": Z[:2]}, "molecule.shape"),
        ({"R": np.array([{}], dtype=object), "z": Z}, "file.no_array"),
    ]:  # fmt: skip
        np.savez(path, **arrays)
        with refused(code):
            datasets.load_molecule(path)
    path.write_bytes(path.read_bytes()[:200])
    with refused("file.damaged"):
        datasets.load_molecule(path)
    (tmp_path / "m.pdb").write_text("ATOM")
    with refused("file.ending"):
        datasets.load_molecule(tmp_path / "m.pdb")


def test_xyz_plain_and_extended(tmp_path):
    needed("ase", "molecules")
    (tmp_path / "plain.xyz").write_text("2\n\nH 0 0 0\nCl 1.5 0 0\n2\nstep 2\nH 0 0 0.1\nCl 1.5e0 0 0\n")
    plain = datasets.load_molecule(tmp_path / "plain.xyz")
    assert plain.R[1].tolist() == [[0, 0, 0.1], [1.5, 0, 0]] and plain.z.tolist() == [1, 17]
    comment = 'Lattice="9 0 0 0 9 0 0 0 9" Properties=id:I:1:pos:R:3:species:S:1:forces:R:3 energy=-3.5 q=2 pbc="F F F"'
    (tmp_path / "long.extxyz").write_text(f"1\n{comment}\n7 1 2 3 O 9 9 9\n")
    found = datasets.load_molecule(tmp_path / "long.extxyz")
    assert found.R.tolist() == [[[1, 2, 3]]] and found.z.tolist() == [8]
    other_atoms = "1\n\nH 0 0 0\n1\n\nO 0 0 0\n"
    for text, code in (("H 0 0 0\n", "damaged"), ("1\n\nH 0 x 0\n", "damaged"), (other_atoms, "atoms")):
        (tmp_path / "bad.xyz").write_text(text)
        with refused(f"file.{code}"):
            datasets.load_molecule(tmp_path / "bad.xyz")


@pytest.mark.filterwarnings("ignore")  # of MDAnalysis, about others
def test_a_file_with_its_topology(frames, tmp_path):
    mdanalysis = needed("MDAnalysis", "molecules")
    made = mdanalysis.Universe.empty(3, trajectory=True)
    made.load_new(frames)
    for name, values in (("name", ["O", "H1", "H2"]), ("element", ["O", "H", "H"]), ("resname", ["HOH"])):
        made.add_TopologyAttr(name, values)
    path, water = tmp_path / "water.xtc", tmp_path / "water.pdb"
    made.atoms.write(water)
    made.atoms.write(path, frames="all")
    for atoms, kept in ((None, [0, 1, 2]), ([2, 0], [0, 2])):  # in the order of the file
        found = datasets.load_molecule(path, topology=water, atoms=atoms)
        np.testing.assert_allclose(found.R, frames[:, kept], atol=0.011)  # .xtc keeps hundredths of an Angstrom
        assert found.z.tolist() == [Z[k] for k in kept]
    with refused("file.missing", FileNotFoundError):
        datasets.load_molecule(path, topology=tmp_path / "no.pdb")
    path.write_bytes(b"nothing")
    with refused("file.damaged"):
        datasets.load_molecule(path, topology=water)
    gc.collect()  # a reader that could not open its file complains when it goes


@pytest.mark.parametrize(("name", "library"), [("a.xyz", "ase"), ("a.xtc", "MDAnalysis")])
def test_what_to_install_is_said(tmp_path, monkeypatch, name, library):
    for module in (library, "ase.io", "ase.data"):
        monkeypatch.setitem(sys.modules, module, None)
    for file in (name, "a.pdb"):
        (tmp_path / file).write_text("x")
    topology = None if name == "a.xyz" else tmp_path / "a.pdb"
    with pytest.raises(ImportError) as caught:
        datasets.load_molecule(tmp_path / name, topology=topology)
    assert f"{name} needs {library}: pip install 'ies-gpu[molecules]'" in str(caught.value)
