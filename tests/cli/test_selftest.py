"""``ies-gpu doctor --selftest``: it passes where all is well, and a broken kernel is reported where it is broken."""

from __future__ import annotations

import json
import sys
import warnings

import pytest

from ies_gpu.backend.compare import TYPES
from ies_gpu.backend.kernels import plain
from ies_gpu.cli import doctor, main, selftest
from tests.backends import needs_cupy
from tests.real_cupy import plugged_in
from tests.thorough import first_of

KERNELS, STAGES = [("small", kernel) for kernel in TYPES], [*selftest.BOUNDS]


@pytest.fixture
def strip_only(monkeypatch):
    monkeypatch.setattr(selftest, "DATA", ("D1",))


def stages(report: dict, ok: bool) -> set[str]:
    return {stage["stage"] for stage in report["stages"] if stage["ok"] == ok}


def run_cli(capsys, *arguments: str) -> tuple[int, str]:
    status = main(["doctor", "--selftest", "--points", "1000", *arguments])
    return status, capsys.readouterr().out


def test_on_the_cpu_plain_code_and_numba_are_compared(capsys, tmp_path):
    pytest.importorskip("numba")
    path = tmp_path / "report.json"
    status, out = run_cli(capsys, "-o", str(path))
    assert status == 0
    assert "numba with plain, 1,000 points" in out
    assert "all stages agree" in out
    assert max(map(len, out.splitlines())) <= 80
    said = " ".join(out.split())
    first, last = said.index(doctor.NO_GPU), said.rindex(doctor.NO_GPU)
    assert first < said.index("versions") and last > said.index("all stages agree")
    assert said.endswith(doctor.NO_GPU) and "attach" not in said
    report = json.loads(path.read_text())
    assert report["ok"] is True and report["gpu_tested"] is False
    named = [(stage["data"], stage["stage"]) for stage in report["stages"]]
    assert named == [*KERNELS, *((d, s) for d in ("D1", "D7") for s in STAGES)]
    for stage in report["stages"]:
        assert 0 <= stage["difference"] <= stage["bound"]
        assert set(stage["seconds"]) == {"plain", "numba"}
        assert stage["seconds"]["numba"] > 0
    assert report["facts"]["versions"]["ies_gpu"]


@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_whoever_asks_for_the_gpu_does_not_pass_without_one(capsys, monkeypatch, tmp_path, name):
    monkeypatch.setitem(sys.modules, "cupy", None)
    status, out = run_cli(capsys, "--device", name, "-o", str(tmp_path / "report.json"))
    assert status == 1 and not out
    assert not (tmp_path / "report.json").exists()


@needs_cupy
def test_on_a_device_every_stage_is_compared(capsys, strip_only):
    with plugged_in() as machine:
        status, out = run_cli(capsys, "--json")
        assert machine.current == 0
    report = json.loads(out)
    assert status == 0
    assert report["ok"] is True
    assert len(report["stages"]) == len(KERNELS) + len(STAGES)
    assert (report["reference"]["device"], report["tested"]["device"]) == ("cpu", "cuda:0")
    assert report["tested"]["kernels"] == "cuda"
    assert report["tested"]["gpu"] == "CPU in disguise"
    assert report["facts"]["device"] == "cuda:0" and report["gpu_tested"] is True
    for kernel in ("tangent_rows_f64", "tangent_rows_f32", "score_block_2_f64", "product_f32_f64"):
        assert machine.counts[f"kernel {kernel}"] > 0


FAULTS = {
    "tangent_rows_f64": ("tangents", lambda values: values[-1].__imul__(1.001)),  # sigma
    "score_block_2_f64": ("scores", lambda values: values[-3].__iadd__(1.0)),  # partial totals
}


@needs_cupy
@pytest.mark.parametrize("kernel", first_of(*FAULTS))
def test_a_broken_kernel_is_reported_where_it_is_broken(capsys, strip_only, kernel):
    """It is right on the guard's few rows and wrong on many; the whole repeats the stage on plain code and says so."""
    stage, spoil = FAULTS[kernel]

    def broken(name, values):
        if name == kernel and len(values[-1]) > 800:
            spoil(values)

    with plugged_in(spoil=broken), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status, out = run_cli(capsys, "--json")
    report = json.loads(out)
    assert status == 1
    assert report["ok"] is False
    wrong = stages(report, ok=False)
    assert stage in wrong
    assert wrong <= {stage, "search", "whole", "whole, mixed"}
    assert "whole" in wrong
    note = next(entry["note"] for entry in report["stages"] if entry["stage"] == "whole")
    assert "differs from plain code" in note
    assert next(entry["difference"] for entry in report["stages"] if entry["stage"] == "whole") is None  # infinite


@pytest.mark.thorough
@needs_cupy
def test_a_kernel_that_does_not_compile_is_reported(capsys, strip_only):
    with plugged_in(compiles=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status, out = run_cli(capsys)
    assert status == 1
    assert "WRONG" in out
    assert "does not run" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_a_broken_cpu_kernel_is_reported(capsys, monkeypatch, strip_only):
    fused = pytest.importorskip("ies_gpu.backend.kernels.fused")
    original = fused.score_block

    def broken(U, subsets, totals, best, best_score):
        original(U, subsets, totals, best, best_score)
        totals += 1e-6 * len(U)

    monkeypatch.setattr(fused, "score_block", broken)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status, out = run_cli(capsys, "--json", "--device", "cpu")
    report = json.loads(out)
    assert status == 1
    assert {"graph", "eigenvectors", "tangents"} <= stages(report, ok=True)
    assert "scores" in stages(report, ok=False)


def test_a_stage_that_raises_does_not_end_the_test(monkeypatch, strip_only):
    reference, tested = selftest.sides("cpu")
    original = selftest.gaussian_kernel

    def failing(graph, *, bandwidth):
        from ies_gpu.backend.base import current

        if current.get() is tested.backend:
            raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")
        return original(graph, bandwidth=bandwidth)

    monkeypatch.setattr(selftest, "gaussian_kernel", failing)
    outcomes = list(selftest.compare(reference, tested, 1000))
    wrong = [outcome for outcome in outcomes if not outcome.ok]
    assert [outcome.stage for outcome in wrong] == ["kernel"]
    assert wrong[0].note == "RuntimeError: CUDA_ERROR_ILLEGAL_ADDRESS"
    assert [outcome.stage for outcome in outcomes if outcome.data == "D1"] == STAGES


def test_wrong_use(capsys, tmp_path):
    for arguments in (["--points", "10"], ["-o", "report.txt"]):
        assert main(["doctor", "--selftest", *arguments]) == 2
    assert main(["doctor", "--points", "2000"]) == 2
    assert "needs --selftest" in capsys.readouterr().err


def test_without_numba_plain_code_is_all_there_is(monkeypatch):
    monkeypatch.setattr("ies_gpu.backend.cpu.load_kernels", lambda: plain)
    reference, tested = selftest.sides("cpu")
    assert (reference.label, tested.label) == ("plain", "plain")
