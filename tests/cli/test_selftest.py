"""``ies-gpu doctor --selftest``: it passes where all is well, and a broken kernel is reported."""

from __future__ import annotations

import json
import sys
import warnings

import pytest

from ies_gpu import select
from ies_gpu.backend import get_backend
from ies_gpu.backend.compare import TYPES
from ies_gpu.cli import doctor, main, selftest
from tests.backends import needs_cupy
from tests.real_cupy import plugged_in

KERNELS, RUNS = [("small", kernel) for kernel in TYPES], [*selftest.BOUNDS]


@pytest.fixture(autouse=True)
def strip_only(monkeypatch):
    monkeypatch.setattr(selftest, "DATA", ("D1",))


def run_cli(capsys, *arguments: str) -> tuple[int, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status = main(["doctor", "--selftest", "--points", "1000", *arguments])
    return status, capsys.readouterr().out


def wrong_of(report: dict) -> dict[str, str]:
    return {stage["stage"]: stage["note"] for stage in report["stages"] if not stage["ok"]}


def test_the_report_has_every_kernel_and_run_as_text_or_json(capsys):
    pytest.importorskip("numba")
    status, out = run_cli(capsys)
    assert status == 0 and "cpu with plain code and cpu, 1,000 points" in out
    assert max(map(len, out.splitlines())) <= 80
    said = " ".join(out.split())
    assert said.startswith(f"self-test {doctor.NO_GPU} versions")
    assert said.endswith(f"all stages agree self-test {doctor.NO_GPU}")
    status, out = run_cli(capsys, "--json")
    report = json.loads(out)
    assert status == 0 and report["ok"] is True and report["gpu_tested"] is False
    assert [(stage["data"], stage["stage"]) for stage in report["stages"]] == [*KERNELS, *(("D1", run) for run in RUNS)]
    assert all(0 <= stage["difference"] <= stage["bound"] and stage["seconds"][1] > 0 for stage in report["stages"])


def test_whoever_asks_for_the_gpu_does_not_pass_without_one(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert run_cli(capsys, "--device", "cuda") == (1, "")


@pytest.mark.thorough
@needs_cupy
def test_on_a_device_every_kernel_and_run_is_compared(capsys):
    with plugged_in() as machine:
        status, out = run_cli(capsys, "--json")
        assert machine.current == 0
    report = json.loads(out)
    assert status == 0 and report["ok"] is True and len(report["stages"]) == len(KERNELS) + len(RUNS)
    assert report["tested"]["device"] == "cuda:0"
    assert (report["tested"]["kernels"], report["tested"]["gpu"]) == ("cuda", "CPU in disguise")
    assert report["facts"]["device"] == "cuda:0" and report["gpu_tested"] is True
    for kernel in ("tangent_rows_f64", "tangent_rows_f32", "score_block_2_f64", "product_f32_f64"):
        assert machine.counts[f"kernel {kernel}"] > 0


FAULTS = {
    "tangent_rows_f64": ("tangent", lambda values: values[-1].__imul__(1.001)),  # sigma
    "score_block_2_f64": ("score", lambda values: values[-3].__iadd__(1.0)),  # partial totals
}


@pytest.mark.thorough
@needs_cupy
@pytest.mark.parametrize("kernel", FAULTS)
def test_a_kernel_that_is_wrong_on_many_rows_is_reported(capsys, kernel):
    """It is right on the guard's few rows; the run repeats the stage on plain code and says so."""
    stage, spoil = FAULTS[kernel]

    def broken(name, values):
        if name == kernel and len(values[-1]) > 800:
            spoil(values)

    with plugged_in(spoil=broken):
        status, out = run_cli(capsys, "--json")
    wrong = wrong_of(json.loads(out))
    assert status == 1 and "whole" in wrong and set(wrong) <= {"whole", "whole, mixed"}
    assert "differs from plain code" in wrong["whole"] and stage in wrong["whole"]


@pytest.mark.thorough
@needs_cupy
def test_a_kernel_that_does_not_compile_is_reported(capsys):
    with plugged_in(compiles=False):
        status, out = run_cli(capsys)
    assert status == 1 and "WRONG" in out and "does not run" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_a_broken_cpu_kernel_is_reported(capsys, monkeypatch):
    fused = pytest.importorskip("ies_gpu.backend.kernels.fused")
    original = fused.score_block

    def broken(U, subsets, totals, best, best_score):
        original(U, subsets, totals, best, best_score)
        totals += 1e-6 * len(U)

    monkeypatch.setattr(fused, "score_block", broken)
    status, out = run_cli(capsys, "--json", "--device", "cpu")
    assert status == 1 and "score_block" in wrong_of(json.loads(out))


def test_a_run_that_raises_does_not_end_the_test(monkeypatch):
    original = select.select_coordinates

    def failing(X, *, dtype, **options):
        if len(X) >= 1000 and dtype == "mixed":
            raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")
        return original(X, dtype=dtype, **options)

    monkeypatch.setattr(select, "select_coordinates", failing)
    outcomes = [outcome for outcome in selftest.compare(get_backend("cpu"), 1000) if outcome.data == "D1"]
    assert [outcome.ok for outcome in outcomes] == [True, False, True]
    assert outcomes[1].note == "RuntimeError: CUDA_ERROR_ILLEGAL_ADDRESS"


def test_wrong_use(capsys):
    assert main(["doctor", "--selftest", "--points", "10"]) == 2
    assert main(["doctor", "--points", "2000"]) == 2
    assert "needs --selftest" in capsys.readouterr().err
