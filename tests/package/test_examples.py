"""Every example runs, on the CPU, on fewer points than it would by itself."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from ies_gpu import datasets, load
from tests.extras import needed

ROOT = Path(__file__).parents[2]
WORKSTATION = ("points.npy", "results", "-d", 2, "-s", 2, "--bandwidth", 0.9)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run an example in an empty folder; returns what it printed."""
    monkeypatch.chdir(tmp_path)

    def running(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        running.defined = runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
        return capsys.readouterr().out

    return running


def test_strip(run):
    assert "Selection of phi1" in run("strip.py", 1000)
    assert load("strip.npz").coordinates.shape == (1000, 20)
    assert Path("strip-first.png").stat().st_size > 10_000 and Path("strip-chosen.png").stat().st_size > 10_000


@pytest.mark.thorough
def test_torus(run):
    assert "500 new points in phi1" in run("torus.py", 1000)
    assert np.isfinite(np.load("torus-new.npy")).all() and load("torus-model.npz").X.shape == (1000, 13)


def turned_molecule(n):
    """Nine atoms of which one turns about one bond and three about another, and all tremble."""
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(9, 3))
    frames = np.tile(atoms, (n, 1, 1)) + 0.02 * rng.normal(size=(n, 9, 3))
    for group, (a, b) in (([8], (0, 2)), ([5, 6, 7], (0, 1))):
        axis = atoms[b] - atoms[a]
        turns = Rotation.from_rotvec(rng.uniform(-np.pi, np.pi, (n, 1)) * axis / np.linalg.norm(axis))
        for atom in group:
            frames[:, atom] = turns.apply(frames[:, atom] - atoms[b]) + atoms[b]
    return frames


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")  # few frames
def test_ethanol(run):
    np.savez("ethanol.npz", R=turned_molecule(700), z=np.array([6, 6, 8, 1, 1, 1, 1, 1, 1]))
    assert "Selection of phi1" in run("ethanol.py", "ethanol.npz", 700)
    assert Path("ethanol.png").stat().st_size > 10_000


def test_own_graph(run):
    assert "as before" in run("own_graph.py", 900)
    assert Path("places.png").stat().st_size > 10_000


def test_cluster(run):
    out = run("cluster.py", 1000)
    assert "stopped" in out and "resumed: ['graph'" in out


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")  # few points
def test_swiss_roll_and_spectra(run):
    assert "chosen     along   R2" in run("swiss_roll.py", 800)
    assert "(400, 10)\nSelection of phi1" in run("spectra.py", 400)
    assert Path("roll-chosen.png").exists() and Path("spectra.png").exists()


@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")  # few points
def test_spectra_of_sdss_are_read_at_rest(run):
    """Flux equal to its wavelength at rest, seen at a redshift of .25, with channels that were not measured."""
    Table, fits = needed("astropy.table", "astro").Table, needed("astropy.io.fits", "astro")
    run("spectra.py", 400)
    seen = np.linspace(5000, 8000, 301)
    flux, ivar = seen / 1.25, np.ones(301)
    flux[60:63], ivar[60:63] = -99, 0
    tables = Table({"loglam": np.log10(seen), "flux": flux, "ivar": ivar}), Table({"Z": [0.25]})
    fits.HDUList([fits.PrimaryHDU(), *map(fits.table_to_hdu, tables)]).writeto("spec.fits")
    at = np.linspace(4100, 6300, 50)
    np.testing.assert_allclose(run.defined["read_sdss"]("spec.fits", at), at)


def test_pipeline(run):
    out = run("pipeline.py", 900)
    assert "independentcoordinates__bandwidth" in out and "phi1" in out


def test_cells(run):
    anndata = needed("anndata", "anndata")
    out = run("cells.py", 800)
    assert "(600, 2)" in out and "new cells: (200, 2)" in out
    assert anndata.read_h5ad("cells.h5ad").obsm["X_ies"].shape == (600, 2)


@pytest.mark.filterwarnings("ignore")  # of scanpy
def test_blood(run):
    needed("scanpy", "test-all")
    assert "Selection of phi1" in run("blood.py")
    assert Path("blood.png").stat().st_size > 10_000


@pytest.mark.filterwarnings("ignore")  # of scanpy
def test_a_biologists_first_half_hour(run):
    needed("scanpy", "test-all")
    assert "old cells (350, 2) new cells (350, 2)" in run("biologist.py")
    assert all(Path(f"biologist-{name}.png").stat().st_size > 10_000 for name in ("graph", "new"))
    assert needed("anndata", "anndata").read_h5ad("cells.h5ad").obsm["X_ies"].shape == (350, 2)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")  # few frames
def test_a_chemists_first_half_hour(run):
    needed("ase", "molecules")
    out = run("chemist.py", 700)
    assert "700 frames of 9 atoms; ASE" in out and "Selection of phi1" in out
    assert Path("chemist.png").stat().st_size > 10_000


@pytest.mark.thorough
def test_an_astronomers_first_half_hour(run, monkeypatch):
    needed("astropy", "astro")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    out = run("astronomer.py", 900)
    assert "Selection of phi1" in out and out.count("star0") == 2
    assert Path("astronomer.png").stat().st_size > 10_000


def test_an_engineers_first_half_hour(run):
    out = run("engineer.py", 900)
    score, columns = (float(line.rpartition(": ")[2]) for line in out.splitlines()[:2])
    assert score > columns + 0.3 and "Model of phi1" in out and "row" in out
    assert Path("engineer.png").stat().st_size > 10_000


def test_workstation_on_the_cpu(run):
    np.save("points.npy", datasets.load("D1", n_samples=800).X)
    out = run("workstation.py", *WORKSTATION, "--device", "cpu")
    assert "device          cpu" in out and "eigenvectors" in out
    chosen = load("results/run.npz")
    np.testing.assert_array_equal(np.load("results/embedding.npy"), chosen.embedding)
    assert json.loads(Path("results/summary.json").read_text())["names"] == list(chosen.names)
    again = load("results/model.npz").transform(np.load("points.npy"))
    np.testing.assert_allclose(again, chosen.embedding, rtol=0, atol=1e-8)


def test_workstation_does_not_fall_back_silently(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)  # not installed
    np.save("points.npy", datasets.load("D1", n_samples=800).X)
    with pytest.raises(RuntimeError, match=r"device='cuda' cannot be used"):
        run("workstation.py", *WORKSTATION)
