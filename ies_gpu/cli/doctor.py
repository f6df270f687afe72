"""``ies-gpu doctor``: what is installed, which device would be used, and whether it computes what it should."""

import argparse
import os
import warnings
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from .. import __version__
from ..constraints import Integer
from ..findings import render
from .console import Console, listed, say, say_json
from .parser import add_command, add_options, add_talk, in_flags, read_by

LIBRARIES = {  # and what is missing without them
    **dict.fromkeys(("numpy", "scipy", "threadpoolctl", "tqdm"), "needed"),
    **{"numba": "slower without it", "matplotlib": "for pictures", "cupy": "for CUDA devices"},
}
GPU_STATUS = "this version has not been run on a GPU by its authors; please send what --selftest --device cuda --json "
GPU_STATUS += "prints on yours to https://github.com/ies-gpu/ies-gpu/issues/new?template=gpu.yml"
NO_GPU = "no GPU was tested: this compares the CPU kernels with plain code (--device cuda insists on a GPU)"


def add(commands: Any) -> None:
    text, example = "show what is installed and which device would be used", "ies-gpu doctor --selftest --device cuda"
    doctor = add_command(commands, "doctor", run, text, example)
    add_options(doctor, "device")
    option = doctor.add_argument_group("self-test").add_argument
    option("--selftest", action="store_true", help="compare the device with the CPU (takes minutes)")
    option("--points", type=read_by(Integer(1000)), metavar="N", help="points per data set (10000)")
    add_talk(doctor, as_json="print the report as one JSON object, which you can attach to an issue", progress=False)


def run(args: argparse.Namespace, console: Console) -> int:
    if args.points and not args.selftest:
        args.parser.error("--points needs --selftest")
    facts = examine(args.device)
    if args.selftest:
        return run_selftest(facts, args.device, args.points or 10_000, as_json=args.json)
    say_json(facts) if args.json else tell(facts)
    return 0


def examine(device: str) -> dict[str, Any]:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from ..backend import get_backend
    from ..backend.cpu import CpuBackend, available_memory, available_threads
    from ..results.text import plain

    versions = {"ies_gpu": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        for package in (name, f"{name}-cuda12x", f"{name}-cuda13x"):
            with suppress(PackageNotFoundError):
                versions[name] = version(package)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # the line about the device says the same
        chosen = get_backend(device).describe()
    return {
        "versions": versions,
        "missing": {name: what for name, what in LIBRARIES.items() if name not in versions},
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "cores": os.cpu_count() or 1,
        "threads": available_threads(),
        "memory_free": available_memory(),
        "kernels": CpuBackend().kernels.NAME,
        **{key: plain(chosen[key]) for key in ("device", "device_reason")},
        "gpu_status": GPU_STATUS,
    }


def tell(facts: dict[str, Any]) -> None:
    listed("versions", *(f"{name} {version}" for name, version in facts["versions"].items()))
    listed("missing", *(f"{name} ({what})" for name, what in facts["missing"].items()))
    listed("system", facts["system"])
    listed("processor", f"{facts['cores']} cores, {facts['threads']} of them available")
    listed("memory", f"{facts['memory_free'] / 2**30:.1f} GiB free; a run uses at most half of it by default")
    listed("kernels", facts["kernels"])
    listed("device", render(f"{facts['device']}: {facts['device_reason']}", in_flags))
    listed("GPU status", facts["gpu_status"])


def run_selftest(facts: dict[str, Any], device: str, points: int, *, as_json: bool, **more: Any) -> int:
    """Print facts, then a line per kernel and run as it finishes, or everything as JSON; return the exit status."""
    from ..backend import get_backend
    from ..results.text import plain
    from .selftest import compare

    tested = get_backend(device)
    about, stages = [] if tested.device != "cpu" else [NO_GPU], []
    if not as_json:
        listed("self-test", *about)
        tell(facts)
        listed("compared", f"{tested.device} with plain code and cpu, {points:,} points")
        say(f"\n  {'data':<7}{'stage':<18}{'difference':>11}{'bound':>9}{'cpu':>11} s{'tested':>11} s")
    for found in compare(tested, points, **more):
        stages.append(found._asdict() | {"ok": found.ok})
        if not as_json:
            numbers = "{:>11.1e}{:>9.0e}{:>13.3f}{:>13.3f}".format(found.difference, found.bound, *found.seconds)
            say(f"  {found.data:<7}{found.stage:<18}{numbers}{'' if found.ok else '  WRONG'}")
            if found.note:
                say(f"    {' '.join(found.note.split())}")
    wrong = [f"{stage['data']} {stage['stage']}" for stage in stages if not stage["ok"]]
    if as_json:
        report = {"report": "ies-gpu doctor --selftest", "gpu_tested": not about, "facts": facts, "points": points}
        report |= {"created": datetime.now(UTC).isoformat(timespec="seconds"), "tested": tested.describe()}
        say_json(plain(report | {"stages": stages, "ok": not wrong}))
    else:
        say(f"  out of bounds: {'; '.join(wrong)}" if wrong else "  all stages agree")
        listed("self-test", *about)
    return 1 if wrong else 0
