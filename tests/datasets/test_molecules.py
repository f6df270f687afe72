"""Molecules and spectra: features of known geometries, files that come back as they went, and bad files."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import datasets
from ies_gpu.datasets.principal_components import DENSE
from tests.extras import needed


def random_frames(rng, n=7, atoms=5):
    return rng.normal(size=(n, atoms, 3))


def moved(rng, R):
    """The same shapes turned and shifted, each frame differently."""
    turns = np.linalg.qr(rng.normal(size=(len(R), 3, 3)))[0]
    turns *= np.sign(np.linalg.det(turns))[:, None, None]  # rotations, no reflections
    return R @ turns + rng.normal(size=(len(R), 1, 3))


def test_angles_of_triangles():
    water = np.array([[[0.0, 0, 0], [0.96, 0, 0], [0.96 * np.cos(1.82), 0.96 * np.sin(1.82), 0]]])
    np.testing.assert_allclose(datasets.planar_angles(water)[0], [1.82, (np.pi - 1.82) / 2, (np.pi - 1.82) / 2])
    right = np.array([[[0.0, 0, 0], [3, 0, 0], [0, 4, 0]]])
    np.testing.assert_allclose(datasets.planar_angles(right)[0], [np.pi / 2, np.arctan(4 / 3), np.arctan(3 / 4)])
    line = np.array([[[0.0, 0, 0], [1, 0, 0], [3, 0, 0]]])
    np.testing.assert_allclose(datasets.planar_angles(line)[0], [0, np.pi, 0], atol=1e-15)


def test_a_nearly_straight_angle_keeps_its_digits():
    bend = 1e-9  # the arc cosine would give 0 or 1.5e-8
    R = np.array([[[0.0, 0, 0], [1, 0, 0], [np.cos(bend), np.sin(bend), 0]]])
    np.testing.assert_allclose(datasets.planar_angles(R)[0, 0], bend, rtol=1e-6)


def test_angles_of_every_triangle_add_up_to_pi_and_ignore_motion(rng, on):
    R = random_frames(rng)
    angles = on(datasets.planar_angles)(R)
    assert angles.shape == (7, 30)
    np.testing.assert_allclose(angles.reshape(7, -1, 3).sum(axis=2), np.pi)
    np.testing.assert_allclose(on(datasets.planar_angles)(moved(rng, R)), angles, atol=1e-12)
    assert [on(datasets.planar_angles)(random_frames(rng, n=1, atoms=k)).shape[1] for k in (9, 21)] == [252, 3990]


def test_distances_in_the_order_of_scipy(rng):
    from scipy.spatial.distance import pdist

    R = random_frames(rng)
    np.testing.assert_allclose(datasets.pairwise_distances(R), np.array([pdist(frame) for frame in R]))


@pytest.mark.parametrize("angle", [0.0, 0.3, 2.5, np.pi, -0.3, -2.5])
def test_torsion_is_the_angle_of_the_last_bond_about_the_middle_one(angle, rng):
    # seen along b to c (down the z axis) the atom d stands clockwise of a by the angle
    a, b, c = [1.0, 0, 0], [0.0, 0, 0], [0.0, 0, -1.5]
    d = [1.2 * np.cos(angle), -1.2 * np.sin(angle), -2.0]
    R = np.array([[a, b, c, d]])
    found = datasets.torsion(R, (0, 1, 2, 3))[0]
    assert -np.pi <= found <= np.pi
    np.testing.assert_allclose(np.exp(1j * found), np.exp(1j * angle), atol=1e-12)
    np.testing.assert_allclose(np.exp(1j * datasets.torsion(moved(rng, R), (0, 1, 2, 3))[0]), np.exp(1j * found))
    np.testing.assert_allclose(np.exp(1j * datasets.torsion(R[:, ::-1], (0, 1, 2, 3))[0]), np.exp(1j * found))
    mirrored = R * [1, -1, 1]
    np.testing.assert_allclose(np.exp(1j * datasets.torsion(mirrored, (0, 1, 2, 3))[0]), np.exp(-1j * found))


def test_torsion_has_no_value_on_a_line():
    step = np.array([0.1, 0.2, 0.3])  # three of them are not exactly three steps
    for line in ([0.0, 0, 0], [1, 0, 0], [2, 0, 0]), (0 * step, step, 3 * step):
        R = np.array([[*line, [3, 1, 0]]])
        assert np.isnan(datasets.torsion(R, (0, 1, 2, 3))[0])
        assert np.isnan(datasets.torsion(R, (3, 2, 1, 0))[0])
        R[0, 0, 2] += 1e-6  # all but a line
        assert np.isfinite(datasets.torsion(R, (0, 1, 2, 3))[0])


@pytest.mark.parametrize("p", [8, DENSE + 40])
def test_components_are_those_of_the_svd(p, rng):
    X = rng.normal(size=(400, p)) * np.linspace(3, 0.5, p) + 100
    found = datasets.pca(X, 6)
    centred = X - X.mean(axis=0)
    _, sigma, axes = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(found.variances, sigma[:6] ** 2 / 399, rtol=1e-9)
    np.testing.assert_allclose(np.abs(np.diag(axes[:6] @ found.axes)), 1, rtol=1e-7)
    np.testing.assert_allclose(np.abs(found.scores), np.abs(centred @ axes[:6].T), atol=1e-5)
    np.testing.assert_allclose(found.explained, (sigma[:6] ** 2).sum() / (sigma**2).sum(), rtol=1e-9)


def test_components_in_blocks_are_those_of_all_rows_at_once(rng, on, backend, monkeypatch):
    R = random_frames(rng, n=300)
    whole = on(datasets.pca)(on(datasets.planar_angles)(R), 5)
    monkeypatch.setattr(type(backend), "block_bytes", lambda self: 32 * 30 * 7)  # seven rows at a time
    blocked = on(datasets.pca)(R, 5, transform=datasets.planar_angles)
    np.testing.assert_allclose(blocked.scores, whole.scores, atol=1e-10)
    np.testing.assert_allclose(blocked.mean, whole.mean)


def test_fewer_components_than_asked_for(rng):
    found = datasets.pca(rng.normal(size=(5, 12)), 50)
    assert found.scores.shape == (5, 4)  # five points span four directions
    np.testing.assert_allclose(found.explained, 1)


@pytest.mark.parametrize("p", [8, DENSE + 40])
def test_rows_that_do_not_vary_have_no_variance(p):
    found = datasets.pca(np.full((9, p), 2.0), 6)
    assert found.scores.shape == (9, 6) and not found.scores.any() and not found.variances.any()


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
    assert not list(tmp_path.iterdir())


def test_xyz_as_others_write_it(tmp_path):
    (tmp_path / "plain.xyz").write_text("2\n\nh 0 0 0\nCL 1.5 0 0\n\n2\nstep 2\nH 0 0 0.1\nCl 1.5e0 0 0\n\n")
    plain = datasets.load_molecule(tmp_path / "plain.xyz")
    assert plain.R.shape == (2, 2, 3) and plain.z.tolist() == [1, 17] and plain.values == {}
    comment = 'Lattice="9 0 0 0 9 0 0 0 9" Properties=id:I:1:pos:R:3:species:S:1:forces:R:3 energy=-3.5 pbc="F F F"'
    (tmp_path / "ase.extxyz").write_text(f"1\n{comment}\n7 1 2 3 O 9 9 9\n")
    ase = datasets.load_molecule(tmp_path / "ase.extxyz")
    assert ase.R.tolist() == [[[1, 2, 3]]] and ase.z.tolist() == [8] and ase.values["energy"].tolist() == [-3.5]


@pytest.mark.parametrize("names", [("R", "z"), ("coords", "nuclear_charges")])
def test_npz_of_both_kinds(tmp_path, rng, names):
    R = random_frames(rng)
    arrays = {names[0]: R, names[1]: np.array([6, 1, 1, 1, 1]), "energies": np.arange(7.0), "name": np.array("x")}
    np.savez(tmp_path / "m.npz", **arrays)
    back = datasets.load_molecule(tmp_path / "m.npz")
    np.testing.assert_array_equal(back.R, R)
    assert set(back.values) == {"energies"}
    np.savez(tmp_path / "m.npz", **arrays | {names[1]: np.tile([6, 1, 1, 1, 1], (7, 1))})  # repeated for each frame
    assert datasets.load_molecule(tmp_path / "m.npz").z.tolist() == [6, 1, 1, 1, 1]


BAD_XYZ = {
    "empty": ("", "no frames"),
    "no count": ("H 0 0 0\n", "line 1: expected the number of atoms"),
    "cut": ("2\n\nH 0 0 0\n", "line 1: a frame of 2 atoms is cut short"),
    "word": ("1\n\nH 0 x 0\n", "line 3: expected three coordinates"),
    "short": ("1\n\nH 0 0\n", "line 3: expected three coordinates"),
    "element": ("1\n\nQq 0 0 0\n", "'Qq' is not a chemical element"),
    "other atoms": ("1\n\nH 0 0 0\n1\n\nO 0 0 0\n", "line 4: this frame has other atoms than the first"),
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


def test_bad_npz(tmp_path, rng):
    path = tmp_path / "bad.npz"
    with pytest.raises(FileNotFoundError, match=r"bad\.npz"):
        datasets.load_molecule(path)
    R, z = random_frames(rng), np.ones(5, dtype=int)
    for arrays, message in [
        ({"z": z}, "no positions"),
        ({"R": R}, "no atomic numbers"),
        ({"R": R[0], "z": z}, "shape"),
        ({"R": R, "z": z[:3]}, "one atomic number"),
        ({"R": R, "z": 0 * z}, "between 1 and 118"),
        ({"R": np.where(np.arange(7)[:, None, None] == 4, np.nan, R), "z": z}, "the first is frame 4"),
        ({"R": np.array([{}], dtype=object), "z": z}, "no positions"),
    ]:
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match=message) as caught:
            datasets.load_molecule(path)
        assert "bad.npz" in str(caught.value)
    np.savez(path, R=R, z=z)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"bad\.npz.*damaged"):
        datasets.load_molecule(path)
    with path.open("wb") as file:
        np.save(file, R)  # an .npy by the wrong name
    with pytest.raises(ValueError, match=r"bad\.npz.*damaged"):
        datasets.load_molecule(path)
    (tmp_path / "m.pdb").write_text("ATOM")
    with pytest.raises(ValueError, match=r"not from '\.pdb'"):
        datasets.load_molecule(tmp_path / "m.pdb")


def test_bad_geometry(rng):
    R = random_frames(rng)
    R[3, 1] = R[3, 4]
    with pytest.raises(ValueError, match="atoms 1 and 4 coincide in frame 3"):
        datasets.planar_angles(R)
    for atoms in ((0, 1, 1, 2), (0, 1, 2), (0, 1, 2, 5)):
        with pytest.raises(ValueError, match="four different numbers"):
            datasets.torsion(R, atoms)
    with pytest.raises(TypeError, match=r"atoms must be an integer, got 2\.5"):
        datasets.torsion(R, (0, 1, 2.5, 3))
    with pytest.raises(ValueError, match="3 or more atoms"):
        datasets.planar_angles(R[:, :2])


def test_the_advice_about_frames_with_nan_helps(rng):
    R = random_frames(rng)
    R[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"1 row \(3\)") as caught:
        datasets.planar_angles(R)
    advice = str(caught.value).partition("e.g. ")[2]
    np.testing.assert_array_equal(eval(advice), np.delete(R, 3, axis=0))


def test_normalised_spectra(rng):
    flux = rng.uniform(1, 2, (5, 9))
    np.testing.assert_allclose(np.linalg.norm(datasets.normalize_spectra(flux), axis=1), 1)
    np.testing.assert_allclose(datasets.normalize_spectra(flux, how="mean").mean(axis=1), 1)
    brighter = flux * rng.uniform(1, 9, (5, 1))
    np.testing.assert_allclose(datasets.normalize_spectra(brighter), datasets.normalize_spectra(flux))
    with pytest.raises(ValueError, match="1 spectra have a length"):
        datasets.normalize_spectra(np.vstack([flux, np.zeros(9)]))


def test_spectra_from_npz(tmp_path, rng):
    flux, waves = rng.uniform(1, 2, (5, 9)), np.linspace(2000, 1000, 9)
    np.savez(tmp_path / "s.npz", spectra=flux, wavelengths=waves, redshift=np.arange(5.0))
    found = datasets.load_spectra(tmp_path / "s.npz")
    np.testing.assert_array_equal(found.flux, flux[:, ::-1])  # wavelengths rise
    np.testing.assert_allclose(found.band_ratio((1900, 2000), (1000, 1100)), flux[:, 0] / flux[:, -1])
    assert set(found.values) == {"redshift"}
    np.savez(tmp_path / "s.npz", flux=flux, loglam=np.log10(waves))
    np.testing.assert_allclose(datasets.load_spectra(tmp_path / "s.npz").wavelengths, waves[::-1])
    with pytest.raises(ValueError, match="no channel"):
        found.band_ratio((1, 2), (1000, 1100))


def test_bad_spectra(tmp_path, rng):
    path, flux = tmp_path / "bad.npz", rng.uniform(1, 2, (5, 9))
    for arrays, message in [
        ({"flux": flux}, "no wavelengths"),
        ({"wavelengths": np.arange(9)}, "no spectra"),
        ({"flux": flux, "wavelengths": np.arange(8)}, "shape"),
        ({"flux": flux, "wavelengths": np.zeros(9)}, "finite and different"),
        ({"flux": np.full((5, 9), np.inf), "wavelengths": np.arange(9)}, "NaN or infinite"),
    ]:
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match=message) as caught:
            datasets.load_spectra(path)
        assert "bad.npz" in str(caught.value)
    with pytest.raises(ValueError, match="no FITS files"):
        datasets.load_spectra(tmp_path)
    (tmp_path / "s.txt").write_text("1 2 3")
    with pytest.raises(ValueError, match=r"not from '\.txt'"):
        datasets.load_spectra(tmp_path / "s.txt")


def test_fits(tmp_path, rng):
    fits = needed("astropy.io.fits", "astro")
    waves, flux = np.geomspace(4000, 8000, 40), rng.uniform(1, 2, 40)
    column = fits.Column
    # one spectrum as SDSS writes it: a channel in each row, the redshift in a table of its own
    table = [column("flux", "E", array=flux), column("loglam", "D", array=np.log10(waves))]
    table.append(column("ivar", "E", array=np.r_[np.ones(10), 0, np.ones(29)]))
    redshift = fits.BinTableHDU.from_columns([column("Z", "E", array=[0.25])])
    fits.HDUList([fits.PrimaryHDU(), fits.BinTableHDU.from_columns(table), redshift]).writeto(tmp_path / "one.fits")
    one = datasets.load_spectra(tmp_path / "one.fits")
    np.testing.assert_allclose(one.wavelengths, waves)
    keep = np.arange(40) != 10
    np.testing.assert_allclose(one.flux[0, keep], flux[keep], rtol=1e-6)
    inside = flux[9] + (flux[11] - flux[9]) * (waves[10] - waves[9]) / (waves[11] - waves[9])
    np.testing.assert_allclose(one.flux[0, 10], inside, rtol=1e-6)  # not measured: between its neighbours
    np.testing.assert_allclose(one.values["redshift"], [0.25])
    # an image whose rows are spectra
    header = fits.Header({"COEFF0": np.log10(4000), "COEFF1": 1e-3})
    many = rng.uniform(1, 2, (6, 40))
    fits.PrimaryHDU(many, header).writeto(tmp_path / "many.fits")
    found = datasets.load_spectra(tmp_path / "many.fits")
    np.testing.assert_allclose(found.flux, many)
    np.testing.assert_allclose(found.wavelengths, 4000 * 10 ** (1e-3 * np.arange(40)))
    # a folder: at rest, on the wavelengths that all cover
    both = datasets.load_spectra(tmp_path)
    assert both.flux.shape[0] == 7
    np.testing.assert_allclose(both.wavelengths[[0, -1]], [4000, min(8000 / 1.25, found.wavelengths[-1])])
    (tmp_path / "broken.fits").write_bytes(b"SIMPLE  =  no")
    with pytest.raises(ValueError, match=r"broken\.fits"):
        datasets.load_spectra(tmp_path / "broken.fits")


def write_table(path, **columns):
    """A FITS table; columns with two axes hold a spectrum in each row."""
    fits = needed("astropy.io.fits", "astro")
    cells = {name: f"{values.shape[1]}D" if values.ndim == 2 else "D" for name, values in columns.items()}
    table = fits.BinTableHDU.from_columns([fits.Column(n, cells[n], array=v) for n, v in columns.items()])
    fits.HDUList([fits.PrimaryHDU(), table]).writeto(path, overwrite=True)
    return path


def test_channels_without_a_measurement_lie_between_their_neighbours(tmp_path):
    waves = np.linspace(4000, 5000, 20)
    line = waves / 1000  # so that what lies between is known
    seen, ivar = line.copy(), np.ones(20)
    seen[5:8], ivar[5:8] = -99, 0
    falling = write_table(tmp_path / "a.fits", flux=seen[::-1], wavelength=waves[::-1], ivar=ivar[::-1])
    np.testing.assert_allclose(datasets.load_spectra(falling).flux[0], line)
    flux, weights = np.vstack([seen, 2 * line]), np.vstack([ivar, np.ones(20)])
    many = write_table(tmp_path / "b.fits", flux=flux, wavelength=np.tile(waves, (2, 1)), ivar=weights)
    np.testing.assert_allclose(datasets.load_spectra(many).flux, [line, 2 * line])
    none = write_table(tmp_path / "c.fits", flux=seen, wavelength=waves, ivar=0 * ivar)
    with pytest.raises(ValueError, match=r"c\.fits: only 0 channels of spectrum 0 were measured"):
        datasets.load_spectra(none)


def test_texts_and_objects_beside_the_numbers(tmp_path, rng):
    flux, waves = rng.uniform(1, 2, (5, 9)), np.arange(1.0, 10)
    path = tmp_path / "a.npz"
    names = np.array(["a", None, "b", "c", "d"], dtype=object)
    np.savez(path, flux=flux, wavelengths=waves, names=names)
    np.testing.assert_array_equal(datasets.load_spectra(path).flux, flux)
    np.savez(path, flux=flux, wavelengths=np.array(list("abcdefghi")))
    with pytest.raises(ValueError, match=r"a\.npz has no wavelengths.*numbers: flux \(5, 9\)"):
        datasets.load_spectra(path)
    np.savez(path, R=random_frames(rng), z=np.array(list("CHHHH")))
    with pytest.raises(ValueError, match=r"a\.npz has no atomic numbers.*numbers: R \(7, 5, 3\)"):
        datasets.load_molecule(path)


def test_a_damaged_fits_file_is_named_wherever_it_is_cut(tmp_path, rng):
    path = write_table(tmp_path / "cut.fits", flux=rng.uniform(1, 2, 20), wavelength=np.arange(20.0))
    whole = path.read_bytes()
    for size in (0, 100, 2880, 5760, len(whole) // 2880 * 2880 - 2880):  # blocks of FITS have 2880 bytes
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"cut\.fits"):
            datasets.load_spectra(path)


@pytest.mark.parametrize("redshift", [np.nan, -1.0, -9999.0])
def test_a_redshift_that_is_none(tmp_path, redshift):
    waves = np.linspace(4000, 5000, 20)
    good, bad = (
        write_table(tmp_path / name, flux=np.ones((1, 20)), wavelength=waves[None], z=np.array([z]))
        for name, z in (("good.fits", 0.1), ("bad.fits", redshift))
    )
    with pytest.raises(ValueError, match=r"bad\.fits: spectrum 0 has a redshift of"):
        datasets.load_spectra([good, bad])
