"""Examples that need no more than the package, or a library. The site is built by running every one."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from tests.extras import needed

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run an example in an empty folder; returns what it printed and defined."""
    monkeypatch.chdir(tmp_path)

    def running(name):
        defined = runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out, defined

    return running


@pytest.mark.parametrize(("name", "words"), [("own_graph", "as before"), ("pipeline", "Model of phi1")])
def test_programs(run, name, words):
    assert words in run(f"programs/{name}.py")[0]


@pytest.mark.thorough
def test_spectra(run):
    """Flux equal to its wavelength at rest, seen at a redshift of 0.25, with channels that were not measured."""
    out, defined = run("fields/spectra.py")
    assert "(2000, 10)\nSelection of phi1" in out
    Table, fits = needed("astropy.table", "astro").Table, needed("astropy.io.fits", "astro")
    seen = np.linspace(5000, 8000, 301)
    flux, ivar = seen / 1.25, np.ones(301)
    flux[60:63], ivar[60:63] = -99, 0
    tables = Table({"loglam": np.log10(seen), "flux": flux, "ivar": ivar}), Table({"Z": [0.25]})
    fits.HDUList([fits.PrimaryHDU(), *map(fits.table_to_hdu, tables)]).writeto("spec.fits")
    at = np.linspace(4100, 6300, 50)
    np.testing.assert_allclose(defined["read_sdss"]("spec.fits", at), at)


@pytest.mark.filterwarnings("ignore")  # of scanpy
def test_cells(run):
    needed("scanpy", "test-all")
    assert "old cells (350, 2) new cells (350, 2)" in run("fields/cells.py")[0]
    assert needed("anndata", "anndata").read_h5ad("cells.h5ad").obsm["X_ies"].shape == (350, 2)
