"""``ies-gpu doctor``: what is installed, and which device would be used."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from .. import __version__
from ..console import Console
from ..export import plain
from .options import add_command, add_talk
from .output import listed, say


def add(commands: Any) -> None:
    doctor = add_command(
        commands, "doctor", run, "tell what is installed and which device would be used", "ies-gpu doctor"
    )
    add_talk(doctor, as_json="print it as one JSON object", progress=False)


def run(args: argparse.Namespace, console: Console) -> int:
    facts = examine()
    if args.json:
        say(json.dumps(facts))
        return 0
    listed("versions", [f"{name} {version}" for name, version in facts["versions"].items()])
    listed("missing", [f"{name} ({what})" for name, what in facts["missing"].items()])
    listed("system", [facts["system"]])
    listed("processor", [f"{facts['cores']} cores, of which {facts['threads']} may be used"])
    listed("memory", [f"{facts['memory_free'] / 2**30:.1f} GiB free; a run takes at most half unless told otherwise"])
    listed("kernels", [facts["kernels"]])
    listed("kernel cache", [facts["kernel_cache"]])
    listed("device", [f"{facts['device']}: {facts['device_reason']}"])
    return 0


def examine() -> dict[str, Any]:
    """Everything that ``doctor`` tells."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from ..backend import get_backend
    from ..backend.cpu import CpuBackend, available_memory, available_threads

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
    chosen, host = get_backend("auto"), CpuBackend()
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
    }


def kernel_cache(kernels: Any) -> str:
    """Where compiled CPU kernels are kept, so that only the first run waits for the compiler."""
    if kernels.NAME == "plain":
        return "none: plain kernels are not compiled"
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        return f"{given} (from NUMBA_CACHE_DIR)"
    folder = Path(kernels.__file__).parent
    if os.access(folder, os.W_OK):
        return str(folder / "__pycache__")
    return "the user's cache folder, as the package cannot be written to; NUMBA_CACHE_DIR chooses another"
