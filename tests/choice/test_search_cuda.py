"""The searches on the stand-in for CuPy: only what CuPy has, on the device, and the same answers as on the CPU."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import ies_gpu
from tests.backend.test_cuda import on_cpu, on_cuda
from tests.fake_cupy import missing, standing_in

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "CuPy")
SEARCHES = ("greedy", "submodular", "branch_and_bound")


@pytest.fixture
def machine(monkeypatch):
    monkeypatch.delenv("IES_GPU_DEVICE", raising=False)
    with standing_in() as made:
        yield made


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_takes_device_arrays_and_answers_as_on_the_cpu(machine, name, rng):
    cupy = sys.modules["cupy"]
    U, values = np.linalg.qr(rng.normal(size=(300, 10, 2)))[0], np.sort(rng.uniform(0.01, 0.3, 10))
    search = getattr(ies_gpu, f"search_{name}")
    for zeta in ("auto", 0.05):
        expected = search(U, values, subset_size=4, zeta=zeta)
        found = search(cupy.asarray(U), cupy.asarray(values), subset_size=4, zeta=zeta)
        assert found.subset == expected.subset and found.details == expected.details
        np.testing.assert_array_equal(found.subsets, expected.subsets)
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-12)
        assert isinstance(found.regrets, cupy.ndarray)
    downloads = [shape for direction, shape in machine.transfers if direction == "down"]
    assert downloads and max(np.prod(shape, dtype=int) for shape in downloads) < len(U)  # points stay on the device


def test_greedy_order_on_device_arrays(machine, rng):
    cupy = sys.modules["cupy"]
    U, values = np.linalg.qr(rng.normal(size=(200, 8, 3)))[0], np.sort(rng.uniform(0.01, 0.3, 8))
    order = ies_gpu.greedy_order(cupy.asarray(U), cupy.asarray(values), zeta=0.1)
    assert order == ies_gpu.greedy_order(U, values, zeta=0.1)


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_whole_run_with_each_search(machine, name, dtype):
    arguments = {"search": name, "n_components": 8, "dtype": dtype}
    found, expected = on_cuda("D7", 900, **arguments), on_cpu("D7", 900, **arguments)
    assert found.diagnostics["device"] == "cuda:0" and found.diagnostics["search"]["method"] == name
    assert found.subset == expected.subset and sorted(found.search_order) == list(found.subset)


@pytest.mark.parametrize("name", SEARCHES)
def test_memory_that_runs_out_in_a_search_changes_nothing(name, monkeypatch):
    monkeypatch.delenv("IES_GPU_DEVICE", raising=False)

    def run(refused: int | None) -> tuple[ies_gpu.Selection, int]:
        seen, now = 0, ""

        def progress(stage: str, done: int, total: int) -> None:
            nonlocal now
            now = stage if done != total or total == 0 else ""

        def refuse(size: int) -> bool:
            nonlocal seen
            seen += now == "search"
            return now == "search" and seen == refused

        with standing_in() as made:
            made.refuse = refuse
            return on_cuda("D7", 700, n_components=7, search=name, progress=progress), seen

    expected, count = run(None)
    for refused in (1, count // 3, count - 1):
        found, _ = run(refused)
        assert found.subset == expected.subset
        np.testing.assert_allclose(found.ranking.scores, expected.ranking.scores, atol=1e-12)
