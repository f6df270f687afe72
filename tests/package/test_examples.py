"""Every example runs."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from ies_gpu import load
from tests.extras import needed

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run an example in an empty folder; returns what it printed."""
    monkeypatch.chdir(tmp_path)

    def running(name):
        running.defined = runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return running


def drawn(*names):
    return all(Path(f"{name}.png").stat().st_size > 10_000 for name in names)


def test_strip(run):
    assert "Selection of phi1" in run("shapes/strip.py")
    assert load("strip.npz").coordinates.shape == (5000, 20)
    assert drawn("strip-first", "strip-chosen", "strip-path")


@pytest.mark.thorough
def test_swiss_roll(run):
    assert "chosen     along   R2" in run("shapes/swiss_roll.py")
    assert drawn("roll-points", "roll-chosen")


@pytest.mark.thorough
def test_torus(run):
    assert "500 new points in phi1" in run("shapes/torus.py")
    assert np.isfinite(np.load("torus-new.npy")).all() and load("torus-model.npz").X.shape == (4000, 13)


@pytest.mark.thorough
def test_ethanol(run):
    assert "Selection of phi1" in run("fields/ethanol.py")
    assert drawn("ethanol")


@pytest.mark.thorough
def test_spectra(run):
    """Flux equal to its wavelength at rest, seen at a redshift of 0.25, with channels that were not measured."""
    assert "(2000, 10)\nSelection of phi1" in run("fields/spectra.py")
    assert drawn("spectra", "spectra-first")
    Table, fits = needed("astropy.table", "astro").Table, needed("astropy.io.fits", "astro")
    seen = np.linspace(5000, 8000, 301)
    flux, ivar = seen / 1.25, np.ones(301)
    flux[60:63], ivar[60:63] = -99, 0
    tables = Table({"loglam": np.log10(seen), "flux": flux, "ivar": ivar}), Table({"Z": [0.25]})
    fits.HDUList([fits.PrimaryHDU(), *map(fits.table_to_hdu, tables)]).writeto("spec.fits")
    at = np.linspace(4100, 6300, 50)
    np.testing.assert_allclose(run.defined["read_sdss"]("spec.fits", at), at)


@pytest.mark.filterwarnings("ignore")  # of scanpy
def test_cells(run):
    needed("scanpy", "test-all")
    assert "old cells (350, 2) new cells (350, 2)" in run("fields/cells.py")
    assert drawn("cells-graph", "cells-new")
    assert needed("anndata", "anndata").read_h5ad("cells.h5ad").obsm["X_ies"].shape == (350, 2)


def test_own_graph(run):
    assert "as before" in run("programs/own_graph.py")
    assert drawn("places")


def test_pipeline(run):
    out = run("programs/pipeline.py")
    score, columns = (float(line.rpartition(": ")[2]) for line in out.splitlines()[:2])
    assert score > columns + 0.3 and "Model of phi1" in out and "row" in out
    assert drawn("pipeline")
