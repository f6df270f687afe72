"""What an example defines for the reader's own files. The site is built by running every example."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from tests.extras import needed

EXAMPLE = Path(__file__).parents[2] / "examples" / "fields" / "spectra.py"


@pytest.mark.thorough
def test_spectra(tmp_path, monkeypatch, capsys):
    """Flux equal to its wavelength at rest, seen at a redshift of 0.25, with channels that were not measured."""
    monkeypatch.chdir(tmp_path)
    defined = runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "(2000, 10)\nSelection of phi1" in capsys.readouterr().out
    Table, fits = needed("astropy.table", "astro").Table, needed("astropy.io.fits", "astro")
    seen = np.linspace(5000, 8000, 301)
    flux, ivar = seen / 1.25, np.ones(301)
    flux[60:63], ivar[60:63] = -99, 0
    tables = Table({"loglam": np.log10(seen), "flux": flux, "ivar": ivar}), Table({"Z": [0.25]})
    fits.HDUList([fits.PrimaryHDU(), *map(fits.table_to_hdu, tables)]).writeto("spec.fits")
    at = np.linspace(4100, 6300, 50)
    np.testing.assert_allclose(defined["read_sdss"]("spec.fits", at), at)
