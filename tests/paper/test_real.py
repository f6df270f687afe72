"""The reproduction on real data, with small files of the same kinds."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import ies_gpu
from benchmarks.paper.book import Book
from benchmarks.paper.real import fill
from benchmarks.paper.real_cases import CASES, features, mirror_set, torsion_r2


@pytest.fixture
def folder(tmp_path, rng):
    """A chain of four atoms whose torsion turns freely, and whose first angle swings; and spectra."""
    turn, bend = rng.uniform(-np.pi, np.pi, 700), rng.uniform(1.2, 2.0, 700)
    a = np.column_stack([np.sin(bend), 0 * bend, np.cos(bend)])
    b, c = np.zeros((700, 3)), np.tile([0.0, 0, -1.5], (700, 1))
    R = np.stack([a, b, c, np.column_stack([np.cos(turn), -np.sin(turn), np.full(700, -2.0)])], axis=1)
    (tmp_path / "chain").mkdir()
    np.savez(tmp_path / "chain" / "m.npz", R=R, z=np.array([1, 6, 6, 1]), q=R[:, 3, 0])
    t, u = rng.uniform(0, 1, (2, 700))
    waves = np.linspace(900, 1600, 30)
    flux = 2 + t[:, None] * np.sin(waves / 90) + 0.3 * u[:, None] * np.cos(waves / 50)
    np.savez(tmp_path / "s.npz", spectra=np.vstack([flux, flux[:20]]), wavelengths=waves)
    return tmp_path


CHAIN = replace(CASES[0], name="chloromethane", file="chain/m.npz", torsions={"turn": (0, 1, 2, 3)}, swap=(0, 3))
SPECTRA = replace(CASES[-1], file="s.npz")


@pytest.mark.thorough
def test_the_book_has_tables_and_pictures(tmp_path, folder):
    book = Book(tmp_path / "book")
    missing, damaged = replace(CASES[1], file="nowhere.npz"), replace(CASES[2], file="damaged.npz")
    (folder / damaged.file).write_bytes(b"PK")
    with pytest.warns(ies_gpu.IESWarning) as caught:
        fill(book, (CHAIN, SPECTRA, missing, damaged), folder, None, "cpu")
    said = [str(w.message) for w in caught if "not computed" in str(w.message)]  # on the console too, not only here
    assert "nowhere.npz" in said[0] and "damaged.npz" in said[1]
    book.write()
    names = {item.name for item in book.items}
    assert {"chloromethane-loss", "chloromethane-maps", "chloromethane-scan", "itokawa-maps", "real-runtime"} <= names
    assert {"real-torsions", "malondialdehyde-missing", "aspirin-missing"} <= names
    for item in book.items:
        if item.image:
            assert (book.folder / item.image).stat().st_size > 5000
    rows = {item.name: getattr(item, "rows", ()) for item in book.items}
    own = [row for row in rows["real-runtime"] if row[-1] == "cpu"]
    assert len(own) == 2 and all(row[5] >= row[7] + sum(row[9:13]) - 1e-9 for row in own)
    assert any(row[0] == "Ethanol" and row[1] == 555_092 for row in rows["real-runtime"])
    assert f"{np.mean([row[3] for row in rows['real-torsions']]):.0%} of the torsions" in book.results[0]


def test_copies_of_spectra_are_left_out(folder):
    found = features(replace(SPECTRA, stray=0.0), folder / "s.npz", None)
    assert len(found.X) == 700 and "20 of 720" in found.notes[0]
    assert len(features(SPECTRA, folder / "s.npz", 100).X) == 97  # three of a hundred are too far from the others


def test_the_mirror_image_of_a_set_is_found_among_all(rng):
    mirror = np.roll(np.arange(600), 300)
    odd, one, noise = rng.normal(size=(3, 600))
    odd -= odd[mirror]
    points = np.delete(np.arange(600), [5, 400])  # whose images count no more
    Y = np.column_stack([odd, one, -one[mirror], noise])[points]
    ranking = SimpleNamespace(subsets=np.array([(0, 1), (0, 3), (0, 2)]))
    selection = SimpleNamespace(points=points, coordinates=Y, ranking=ranking)
    found = mirror_set(selection, mirror, (0, 1))
    assert found[:2] == ((0, 2), 3) and found.alike == pytest.approx(1)
    assert mirror_set(selection, mirror, (0, 3)).alike < 0.2  # noise is like nothing


def test_r2_is_one_for_the_angle_itself_and_zero_for_noise(rng):
    angle = rng.uniform(-np.pi, np.pi, 3000)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    assert torsion_r2(angle, circle) > 0.999
    # the mean of 10 others that have nothing to do with it adds a tenth of the variance
    assert torsion_r2(angle, rng.normal(size=(3000, 2))) == pytest.approx(-0.1, abs=0.03)
    assert torsion_r2(angle, circle[:, :1]) == pytest.approx(0.45, abs=0.05)  # the sine is lost, and guessed by ten
