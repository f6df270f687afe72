"""``ies-gpu doctor --selftest``: it passes where all is well, and a broken kernel is reported."""

import json
import sys
import warnings
from types import SimpleNamespace

import pytest

from ies_gpu.backend.compare import TYPES
from ies_gpu.cli import doctor, main, selftest
from tests.backends import cpu_backend, needs_cupy
from tests.real_cupy import plugged_in

KERNELS, RUNS = [("small", kernel) for kernel in TYPES], [*selftest.BOUNDS]


def self_test(capsys, device: str = "auto", as_json: bool = True) -> tuple[int, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status = doctor.run_selftest(doctor.examine(device), device, 1000, as_json=as_json, names=("D1",))
    return status, capsys.readouterr().out


def test_the_report_has_every_kernel_and_run_as_text_or_json(capsys):
    pytest.importorskip("numba")
    status, out = self_test(capsys, as_json=False)
    said = " ".join(out.split())
    assert status == 0 and "cpu with plain code and cpu, 1,000 points" in said
    assert max(map(len, out.splitlines())) <= 80 and said.startswith(f"self-test {doctor.NO_GPU} versions")
    assert said.endswith(f"all stages agree self-test {doctor.NO_GPU}")
    status, out = self_test(capsys)
    report = json.loads(out)
    assert status == 0 and report["ok"] is True and report["gpu_tested"] is False
    assert [(stage["data"], stage["stage"]) for stage in report["stages"]] == [*KERNELS, *(("D1", run) for run in RUNS)]
    assert all(0 <= stage["difference"] <= stage["bound"] and stage["seconds"][1] > 0 for stage in report["stages"])


@pytest.mark.thorough
@needs_cupy
def test_on_a_device_every_kernel_and_run_is_compared(capsys):
    with plugged_in() as machine:
        status, out = self_test(capsys)
        assert machine.current == 0
    report = json.loads(out)
    assert status == 0 and report["ok"] is True and len(report["stages"]) == len(KERNELS) + len(RUNS)
    assert report["tested"]["device"] == report["facts"]["device"] == "cuda:0" and report["gpu_tested"] is True
    assert (report["tested"]["kernels"], report["tested"]["gpu"]) == ("cuda", "CPU in disguise")
    for kernel in ("tangent_rows_f64", "tangent_rows_f32", "score_block_2_f64", "product_f32_f64"):
        assert machine.counts[f"kernel {kernel}"] > 0


@pytest.mark.thorough
@needs_cupy
def test_a_kernel_that_is_wrong_on_many_rows_is_reported(capsys):
    """It is right on the guard's few rows; the run repeats the stage on plain code and says so."""

    def broken(name, values):
        if name == "tangent_rows_f64" and len(values[-1]) > 800:
            values[-1].__imul__(1.001)  # sigma

    with plugged_in(spoil=broken):
        status, out = self_test(capsys)
    wrong = {stage["stage"]: stage["note"] for stage in json.loads(out)["stages"] if not stage["ok"]}
    assert status == 1 and "whole" in wrong and set(wrong) <= {"whole", "whole, mixed"}
    assert "differs from plain code" in wrong["whole"] and "tangent" in wrong["whole"]


def test_a_broken_kernel_and_a_run_that_raises_are_reported_beside_the_others():
    tested = cpu_backend("numba")

    def broken(U, subsets, totals, best, best_score):
        fused.score_block(U, subsets, totals, best, best_score)
        totals += 1e-6 * len(U)

    def failing(name, n, device, dtype="float64"):
        if n >= 1000 and dtype == "mixed":
            raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")
        return selftest.run(name, n, device, dtype)

    fused, tested.kernels = tested.kernels, SimpleNamespace(**vars(tested.kernels) | {"score_block": broken})
    found = {outcome.stage: outcome for outcome in selftest.compare(tested, 1000, ("D1",), failing)}
    assert list(found) == [*TYPES, *RUNS]
    assert {stage for stage in found if not found[stage].ok} == {"score_block", "whole, mixed"}
    assert found["whole, mixed"].note == "RuntimeError: CUDA_ERROR_ILLEGAL_ADDRESS"


@pytest.mark.thorough
def test_runs_of_full_size_that_take_two_routes_agree(monkeypatch):
    """With the default ``tol`` they were 1.5e-6 apart: a GPU that is right would have been called wrong."""
    fast, _ = selftest.run("D1", 10_000, "cpu")
    monkeypatch.setenv("IES_GPU_KERNELS", "plain")
    slow, _ = selftest.run("D1", 10_000, "cpu")
    assert selftest.selection_difference(slow, fast, strict=True) < selftest.BOUNDS["whole"] / 10


def test_wrong_use_and_a_gpu_that_is_not_there(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert main(["doctor", "--selftest", "--device", "cuda"]) == 1 and capsys.readouterr().out == ""
    assert main(["doctor", "--selftest", "--points", "10"]) == 2
    assert main(["doctor", "--points", "2000"]) == 2
    assert "needs --selftest" in capsys.readouterr().err
