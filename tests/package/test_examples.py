"""Every example runs."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from ies_gpu import load
from tests.extras import needed

EXAMPLES = Path(__file__).parents[2] / "examples"
thorough = pytest.mark.thorough


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run an example in an empty folder; returns what it printed and defined."""
    monkeypatch.chdir(tmp_path)

    def running(name):
        defined = runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out, defined

    return running


@pytest.mark.parametrize(
    ("name", "words", "pictures"),
    [
        pytest.param("shapes/strip.py", "Selection of phi1", "strip-first strip-chosen strip-path", marks=thorough),
        pytest.param("shapes/swiss_roll.py", "chosen     along   R2", "roll-points roll-chosen", marks=thorough),
        pytest.param("shapes/torus.py", "500 new points in phi1", "", marks=thorough),
        pytest.param("fields/ethanol.py", "Selection of phi1", "ethanol", marks=thorough),
        ("programs/own_graph.py", "as before", "places"),
        ("programs/pipeline.py", "Model of phi1", "pipeline"),
    ],
)
def test_an_example_says_and_draws_what_it_should(run, name, words, pictures):
    assert words in run(name)[0]
    assert all(Path(f"{picture}.png").stat().st_size > 10_000 for picture in pictures.split())
    if name == "shapes/strip.py":
        assert load("strip.npz").coordinates.shape == (5000, 20)


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
