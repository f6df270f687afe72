"""``ies-gpu doctor``: what is installed, which device would be used, and whether it computes what it should."""

from __future__ import annotations

import argparse
import json
import os
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..findings import render
from .console import Console, listed, say, say_json
from .flags import in_flags
from .options import add_command, add_talk, check_ending, count, device

if TYPE_CHECKING:
    from .selftest import Outcome, Side

FEWEST_POINTS = 1_000
GPU_STATUS = "this version has not been run on a GPU by its authors; please run --selftest --device cuda on yours"
NO_GPU = "no GPU was tested: this compares the CPU kernels with plain code (--device cuda insists on a GPU)"


def add(commands: Any) -> None:
    doctor = add_command(
        commands,
        "doctor",
        run,
        "show what is installed and which device would be used",
        "ies-gpu doctor --selftest --device cuda",
    )
    option = doctor.add_argument_group("self-test").add_argument
    option("--selftest", action="store_true", help="compare the device with the CPU, stage by stage (takes minutes)")
    option("--points", type=count, metavar="N", help="points per data set (10000)")
    option("--device", type=device, metavar="DEV", help="auto, cpu, cuda or cuda:N (auto: a GPU if there is one)")
    option("-o", "--output", metavar="FILE.JSON", help="file for the report, which you can attach to an issue")
    add_talk(doctor, as_json="print the report as one JSON object", progress=False)


def run(args: argparse.Namespace, console: Console) -> int:
    if args.selftest:
        return run_selftest(args)
    for name in ("points", "device", "output"):
        if getattr(args, name):
            args.parser.error(f"--{name} needs --selftest")
    facts = examine()
    if args.json:
        say_json(facts)
        return 0
    tell(facts)
    return 0


def tell(facts: dict[str, Any]) -> None:
    """The facts as text."""
    listed("versions", [f"{name} {version}" for name, version in facts["versions"].items()])
    listed("missing", [f"{name} ({what})" for name, what in facts["missing"].items()])
    listed("system", [facts["system"]])
    listed("processor", [f"{facts['cores']} cores, {facts['threads']} of them available"])
    listed("memory", [f"{facts['memory_free'] / 2**30:.1f} GiB free; a run uses at most half of it by default"])
    listed("kernels", [facts["kernels"]])
    listed("kernel cache", [facts["kernel_cache"]])
    listed("device", [render(f"{facts['device']}: {facts['device_reason']}", in_flags)])
    listed("GPU status", [facts["gpu_status"]])


def run_selftest(args: argparse.Namespace) -> int:
    """Print facts, then a line per stage as it finishes, or the report as JSON."""
    points = args.points or 10_000
    if points < FEWEST_POINTS:
        args.parser.error(f"--points must be at least {FEWEST_POINTS}, got {points}")
    check_ending(args.parser, "-o", args.output, ".json")
    from ..files.writing import check_output, whole_or_nothing
    from .selftest import compare, sides

    if args.output:
        check_output(args.output, ".json")
    facts = examine(args.device or "auto")
    reference, tested = sides(args.device or "auto")
    on_gpu = tested.backend.device != "cpu"
    if not args.json:
        if not on_gpu:
            listed("self-test", [NO_GPU])
        tell(facts)
        begin_table(reference, tested, points)
    outcomes = []
    for outcome in compare(reference, tested, points):
        outcomes.append(outcome)
        if not args.json:
            tell_outcome(outcome)
    report = make_report(facts, reference, tested, points, outcomes)
    if args.output:
        with whole_or_nothing(args.output) as file:
            file.write((json.dumps(report, indent=1) + "\n").encode())
    if args.json:
        say_json(report)
    else:
        wrong = [f"{outcome.data} {outcome.stage}" for outcome in outcomes if not outcome.ok]
        say("  all stages agree" if not wrong else f"  out of bounds: {'; '.join(wrong)}")
        if args.output:
            say(f"  report saved in {args.output}{'; please attach it to your issue' if on_gpu else ''}")
        if not on_gpu:
            listed("self-test", [NO_GPU])
    return 0 if report["ok"] else 1


def begin_table(reference: Side, tested: Side, points: int) -> None:
    """Say what is compared, and print the column heads."""
    listed("compared", [f"{tested.label} with {reference.label}, {points:,} points"])
    say("")
    say(
        f"  {'data':<5}{'stage':<16}{'difference':>11}{'bound':>9}{reference.label:>11} s{tested.label:>11} s",
        heading=True,
    )


def tell_outcome(outcome: Outcome) -> None:
    """Print one line, and another if something is wrong."""
    slow, fast = outcome.seconds
    numbers = f"{outcome.difference:>11.1e}{outcome.bound:>9.0e}{slow:>13.3f}{fast:>13.3f}"
    say(f"  {outcome.data:<5}{outcome.stage:<16}{numbers}{'' if outcome.ok else '  WRONG'}")
    if outcome.note:
        say(f"    {' '.join(outcome.note.split())}")


def make_report(
    facts: dict[str, Any], reference: Side, tested: Side, points: int, outcomes: list[Outcome]
) -> dict[str, Any]:
    """Everything, as strict JSON; seconds are by side."""
    from ..results.text import plain

    stages = [
        {
            **{name: value for name, value in outcome._asdict().items() if name != "seconds"},
            "seconds": dict(zip((reference.label, tested.label), outcome.seconds, strict=True)),
            "ok": outcome.ok,
        }
        for outcome in outcomes
    ]
    return plain(
        {
            "report": "ies-gpu doctor --selftest",
            "gpu_tested": tested.backend.device != "cpu",
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "facts": facts,
            "reference": {"label": reference.label, **reference.backend.describe()},
            "tested": {"label": tested.label, **tested.backend.describe()},
            "points": points,
            "stages": stages,
            "ok": all(outcome.ok for outcome in outcomes),
        }
    )


def examine(device: str = "auto") -> dict[str, Any]:
    """Collect everything that ``doctor`` shows."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from ..backend import get_backend
    from ..backend.cpu import CpuBackend, available_memory, available_threads
    from ..results.text import plain

    optional = {"numba": "slower without it", "matplotlib": "for pictures", "cupy": "for CUDA devices"}
    found, missing = {"ies_gpu": __version__, "python": platform.python_version()}, {}
    for name in ("numpy", "scipy", "numba", "threadpoolctl", "tqdm", "matplotlib", "cupy"):
        for package in (name, f"{name}-cuda12x", f"{name}-cuda13x"):
            try:
                found[name] = version(package)
                break
            except PackageNotFoundError:
                continue
        else:
            missing[name] = optional.get(name, "needed")
    with warnings.catch_warnings():  # the line about the device says the same
        warnings.simplefilter("ignore", RuntimeWarning)
        chosen, host = get_backend(device), CpuBackend()
    return {
        "versions": found,
        "missing": missing,
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "cores": os.cpu_count() or 1,
        "threads": available_threads(),
        "memory_free": available_memory(),
        "kernels": host.kernels.NAME,
        "kernel_cache": kernel_cache(host.kernels),
        **{key: plain(value) for key, value in chosen.describe().items() if key in ("device", "device_reason")},
        "gpu_status": GPU_STATUS,
    }


def kernel_cache(kernels: Any) -> str:
    """Where compiled CPU kernels are kept, so that only the first run has to compile."""
    if kernels.NAME == "plain":
        return "none: plain kernels are not compiled"
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        return f"{given} (from NUMBA_CACHE_DIR)"
    folder = Path(kernels.__file__).parent
    if os.access(folder, os.W_OK):
        return str(folder / "__pycache__")
    return "your cache folder, because the package folder is read-only; set NUMBA_CACHE_DIR to change it"
