"""Spectra from arrays and FITS files, and bad files."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import datasets
from tests.extras import needed


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
    np.savez(tmp_path / "s.npz", spectra=flux, wavelengths=waves, redshift=np.zeros(5))
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
    np.testing.assert_allclose(one.wavelengths, waves / 1.25)  # at rest
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
    np.savez(path, R=rng.normal(size=(7, 5, 3)), z=np.array(list("CHHHH")))
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


def test_one_file_is_at_rest_like_several(tmp_path):
    rest = np.linspace(4000, 5000, 200)
    redshift = np.array([0.0, 0.05])
    waves = np.linspace(4000, 5500, 300)
    flux = np.exp(-(((waves / (1 + redshift[:, None]) - 4500) / 60) ** 2))
    np.savez(tmp_path / "s.npz", flux=flux, wavelengths=waves, redshift=redshift)
    found, several = datasets.load_spectra(tmp_path / "s.npz"), datasets.load_spectra([tmp_path / "s.npz"])
    np.testing.assert_array_equal(found.flux, several.flux)
    np.testing.assert_array_equal(found.wavelengths, several.wavelengths)
    line = np.interp(rest, found.wavelengths, found.flux[0])
    np.testing.assert_allclose(np.interp(rest, found.wavelengths, found.flux[1]), line, atol=0.01)
    np.savez(tmp_path / "s.npz", flux=flux, wavelengths=waves, redshift=np.array([0.1, np.nan]))
    with pytest.raises(ValueError, match=r"s\.npz: spectrum 1 has a redshift of nan"):
        datasets.load_spectra(tmp_path / "s.npz")


@pytest.mark.parametrize("redshift", [0.25, [0.25], [[0.25], [0.25], [0.25]]], ids=["scalar", "one", "a column"])
def test_a_redshift_of_any_shape_counts(tmp_path, rng, redshift):
    waves = np.linspace(1000, 2000, 9)
    np.savez(tmp_path / "s.npz", flux=rng.uniform(1, 2, (3, 9)), wavelengths=waves, redshift=redshift)
    found = datasets.load_spectra(tmp_path / "s.npz")
    np.testing.assert_allclose(found.wavelengths, waves / 1.25)
    np.testing.assert_array_equal(found.values["redshift"], np.full(3, 0.25))


def test_redshifts_of_other_spectra_are_refused(tmp_path, rng):
    np.savez(tmp_path / "s.npz", flux=rng.uniform(1, 2, (3, 9)), wavelengths=np.arange(1, 10), redshift=np.zeros(4))
    with pytest.raises(ValueError, match=r"redshift must have one value for each of 3 spectra, got shape \(4,\)"):
        datasets.load_spectra(tmp_path / "s.npz")
