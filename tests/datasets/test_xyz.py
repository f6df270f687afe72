"""XYZ files come back as they went, and bad ones are named."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import datasets
from tests.datasets.test_molecules import random_frames


def test_xyz_round_trip(tmp_path, rng):
    R, z = random_frames(rng), np.array([6, 8, 17, 1, 1])
    energy = rng.normal(size=7)
    datasets.write_xyz(tmp_path / "a.xyz", R, z, values={"energy": energy})
    back = datasets.load_molecule(tmp_path / "a.xyz")
    np.testing.assert_array_equal(back.R, R)
    np.testing.assert_array_equal(back.values["energy"], energy)
    assert back.z.tolist() == z.tolist() and back.symbols == ("C", "O", "Cl", "H", "H")


def test_what_xyz_cannot_hold_is_not_written(tmp_path, rng):
    R, z, path = random_frames(rng), np.array([6, 8, 17, 1, 1]), tmp_path / "a.xyz"
    for wrong in ([0, 8, 17, 1, 1], [6, 8, 17, 1, 119], [6, 8, 17, 1, 1.5]):
        with pytest.raises(ValueError, match="z: atomic numbers must be between 1 and 118"):
            datasets.write_xyz(path, R, wrong)
    with pytest.raises(ValueError, match=r"values\['energy'\] must have one number for each of the 7 frames"):
        datasets.write_xyz(path, R, z, values={"energy": np.zeros(3)})
    for values, message in (
        ({"E": np.zeros(7), "e": np.ones(7)}, "'E' and 'e' are one name"),
        ({"Properties": np.zeros(7)}, "'Properties' names the columns"),
    ):
        with pytest.raises(ValueError, match=message):
            datasets.write_xyz(path, R, z, values=values)
    assert not list(tmp_path.iterdir())


def test_the_first_bad_atom_of_many_is_named(tmp_path):
    z = np.ones(5000)
    z[3000:] = 200
    with pytest.raises(ValueError, match="between 1 and 118, but atom 3000 has 200") as caught:
        datasets.write_xyz(tmp_path / "a.xyz", np.zeros((1, 5000, 3)), z)
    assert len(str(caught.value)) < 100


def test_xyz_as_others_write_it(tmp_path):
    (tmp_path / "plain.xyz").write_text("2\n\nh 0 0 0\nCL 1.5 0 0\n\n2\nstep 2\nH 0 0 0.1\nCl 1.5e0 0 0\n\n")
    plain = datasets.load_molecule(tmp_path / "plain.xyz")
    assert plain.R.shape == (2, 2, 3) and plain.z.tolist() == [1, 17] and plain.values == {}
    comment = 'Lattice="9 0 0 0 9 0 0 0 9" Properties=id:I:1:pos:R:3:species:S:1:forces:R:3 energy=-3.5 pbc="F F F"'
    (tmp_path / "ase.extxyz").write_text(f"1\n{comment}\n7 1 2 3 O 9 9 9\n")
    ase = datasets.load_molecule(tmp_path / "ase.extxyz")
    assert ase.R.tolist() == [[[1, 2, 3]]] and ase.z.tolist() == [8] and ase.values["energy"].tolist() == [-3.5]


BAD_XYZ = {
    "empty": ("", "no frames"),
    "no count": ("H 0 0 0\n", "line 1: expected the number of atoms"),
    "cut": ("2\n\nH 0 0 0\n", "line 1: a frame of 2 atoms is cut short"),
    "word": ("1\n\nH 0 x 0\n", "line 3: expected three coordinates"),
    "short": ("1\n\nH 0 0\n", "line 3: expected three coordinates"),
    "element": ("1\n\nQq 0 0 0\n", "'Qq' is not a chemical element"),
    "other atoms": ("1\n\nH 0 0 0\n1\n\nO 0 0 0\n", "line 4: the atoms differ from those of the first frame"),
    "nan": ("1\n\nH 0 0 nan\n", "NaN"),
    "properties": ("1\nProperties=pos:R:3\n0 0 0\n", "line 2: Properties"),
    "flat": ("1\nProperties=species:S:1:pos:R:2:mass:R:1\nO 0 0 16\n", "line 2: Properties"),
    "odd digit": ("\u00b2\n\nH 0 0 0\n", "line 1: expected the number of atoms"),
}


@pytest.mark.parametrize("kind", BAD_XYZ)
def test_bad_xyz(tmp_path, kind):
    text, message = BAD_XYZ[kind]
    (tmp_path / "bad.xyz").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        datasets.load_molecule(tmp_path / "bad.xyz")
    assert "bad.xyz" in str(caught.value)
