"""LLR and evaluation on the stand-in for CuPy: device arrays in, the same numbers as on the CPU."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import ies_gpu

from .fake_cupy import missing, standing_in

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "CuPy")


@pytest.fixture
def upload(monkeypatch):
    monkeypatch.delenv("IES_GPU_DEVICE", raising=False)
    with standing_in():
        yield sys.modules["cupy"].asarray


def test_llr(upload, rng):
    x, y = rng.uniform(0, np.pi, (2, 400))
    Y = np.column_stack([np.cos(x), np.cos(2 * x), np.cos(y)])
    for n_samples in (None, 150):
        expected, found = (ies_gpu.llr_ranking(a, n_samples=n_samples) for a in (Y, upload(Y)))
        assert found.order == expected.order
        np.testing.assert_allclose(found.residuals, expected.residuals, rtol=1e-9)
        np.testing.assert_allclose(found.bandwidths, expected.bandwidths, rtol=1e-12)


def test_procrustes_and_dimension(upload, rng):
    A, B = rng.normal(size=(2, 300, 3))
    expected = ies_gpu.procrustes_error(A, B)
    for first, second in ((upload(A), upload(B)), (A, upload(B)), (upload(A), B)):
        assert ies_gpu.procrustes_error(first, second) == pytest.approx(expected, abs=1e-12)
    for average in ("harmonic", "mean"):
        one, two = (ies_gpu.levina_bickel_dimension(a, average=average) for a in (A, upload(A)))
        np.testing.assert_allclose(two.by_neighbors, one.by_neighbors, rtol=1e-9)
        assert two.zero_distances == one.zero_distances == 0


def test_the_rule_for_s(upload):
    data = ies_gpu.datasets.load("D1", n_samples=1200)
    arguments = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.75, "n_components": 8}
    there = ies_gpu.select_coordinates(upload(data.X), **arguments)
    here = ies_gpu.select_coordinates(data.X, device="cpu", **arguments)
    for s in (2, 3):
        expected, found = (ies_gpu.size_verdict(a, subset_size=s) for a in (here, there))
        assert found[:3] == expected[:3]
        np.testing.assert_allclose(found[3:6], expected[3:6], atol=2e-3)
        assert found.too_small == expected.too_small


@pytest.mark.slow
def test_a_small_reproduction(upload, tmp_path):
    pytest.importorskip("matplotlib")
    from ies_gpu.paper.book import Book
    from ies_gpu.paper.synthetic import fill
    from ies_gpu.paper.synthetic_cases import Plan

    plan = Plan(
        ("D1",), points=1200, llr_points=100, limit_sizes=(300,), limit_seeds=(0,), time_sizes=(300,),
        slow_sizes=(100,), dimension_points=100, lemma_cells=(5,),
    )  # fmt: skip
    results = []
    for device in ("cpu", "cuda"):
        book = Book(tmp_path / device)
        fill(book, plan._replace(device=device))
        results.append((book.folder / "results.csv").read_text())
    assert results[0] == results[1]
