"""CUDA text to a shared library of the CPU, by g++.

Libraries are kept in the folder that ``IES_GPU_TEST_CACHE`` names, else in ``~/.cache/ies_gpu_tests``, by the hash of
all that went into them. Two processes may ask for the same one: the first holds a lock and compiles, the other waits.
"""

import fcntl
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

HEADER, RUNTIME = (Path(__file__).with_name(name) for name in ("cuda_cpu.h", "runtime.cpp"))
# no contraction: a multiply-add is rounded twice, as in NumPy
FLAGS = ("-std=c++17", "-O1", "-ffp-contract=off", "-fcf-protection=none", "-fno-strict-aliasing", "-fPIC", "-w")
FUSED = ("-O2", "-mfma", "-ffp-contract=fast")  # but for texts that are to round as a GPU does
BOUNDS = r"(?:__launch_bounds__\s*\([^)]*\)\s*)?"
BEFORE = r'(?<!>)(?<!> )(?:extern\s*"C"\s*(?:{\s*)?|[;{}]\s*)'  # no template<...>
ENTRY = re.compile(rf"{BEFORE}__global__\s+{BOUNDS}void\s+{BOUNDS}(\w+)\s*\(")
SHARED = re.compile(
    r"extern\s+__shared__\s+(?:__align__\(\w+\)\s+)?([\w:]+(?:\s+(?:long|int|char))*)\s+(\w+)\s*\[\s*\]\s*;"
)
LAUNCHER = """
extern "C" int launch_{name}(const unsigned* sizes, size_t shared_bytes, void** values, int schedule, unsigned seed,
                             int strict, int skip) {{
    return emulator::launch<{kernel}>({kernel}, sizes, shared_bytes, values, schedule, seed, strict, skip);
}}
extern "C" int widths_{name}(int* out) {{ return emulator::widths(static_cast<decltype(&{kernel})>({kernel}), out); }}
"""


def missing() -> str:
    """Why kernels cannot be emulated here; empty if they can."""
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        return "the CUDA emulator switches stacks in x86-64 assembly, on Linux"
    return "" if shutil.which("g++") else "the CUDA emulator needs g++"


def has_fused_multiply_add() -> bool:
    """Whether this processor rounds a product and a sum together where it is told to."""
    return "fma" in Path("/proc/cpuinfo").read_text().split()


def cache_folder() -> Path:
    named = os.environ.get("IES_GPU_TEST_CACHE")
    folder = Path(named) if named else Path.home() / ".cache" / "ies_gpu_tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def preprocessed(text: str) -> str:
    """The text with its macros written out: they make the entry points."""
    bare = re.sub(r"^\s*#\s*include.*$", "", text, flags=re.MULTILINE)
    return subprocess.run(["g++", "-E", "-P", "-"], input=bare, capture_output=True, text=True, check=True).stdout


def named_by(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def made_once(path: Path, code: Callable[[], str], *flags: str | Path) -> Path:
    """The file that g++ makes of some code, which is asked for only if nobody has made the file before."""
    if path.exists():
        return path
    lock = path.with_suffix(".lock")
    try:
        lock.touch()
    except OSError as error:
        error.add_note("the environment variable IES_GPU_TEST_CACHE names another folder for what g++ makes")
        raise
    with open(lock, "w") as held, tempfile.TemporaryDirectory(dir=path.parent) as work:
        fcntl.flock(held, fcntl.LOCK_EX)
        if path.exists():
            return path
        text, made = Path(work, "kernel.cpp"), Path(work, "made")
        text.write_text(code())
        done = subprocess.run(["g++", *FLAGS, *flags, "-o", made, text], capture_output=True, text=True)
        if done.returncode:
            kept = path.with_suffix(".refused.cpp")
            kept.write_text(text.read_text())
            raise RuntimeError(f"g++ refused a text, kept as {kept}:\n{done.stderr[:3000]}")
        os.replace(made, path)  # whole or not at all
    lock.unlink(missing_ok=True)
    return path


@functools.cache
def gcc() -> str:
    return subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout


@functools.cache
def runtime() -> Path:
    """The library that runs the threads of all texts, so that g++ need not compile this for each of them."""
    texts = RUNTIME.read_text(), HEADER.read_text()
    path = cache_folder() / f"runtime_{named_by(gcc(), *FLAGS, *texts)}.so"
    return made_once(path, lambda: texts[0], "-shared", "-O2", f"-I{HEADER.parent}", f"-Wl,-soname,{path.name}")


@functools.cache
def prelude(includes: tuple[str, ...], headers: tuple[tuple[str, str], ...]) -> Path:
    """Return the folder of the precompiled headers, which take longer than most texts, named by what went into them.

    It holds copies of the headers: g++ knows a ``#pragma once`` by its path, and the tree may be gone, or be elsewhere.
    """
    texts = {HEADER.name: HEADER.read_text(), **dict(headers)}
    texts["prelude.h"] = "".join(f"#include {name}\n" for name in (f'"{HEADER.name}"', *includes))
    folder = cache_folder() / f"prelude_{named_by(gcc(), *FLAGS, *chain.from_iterable(sorted(texts.items())))}"
    folder.mkdir(exist_ok=True)

    def copy_headers() -> str:
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        return texts["prelude.h"]

    made_once(folder / "prelude.h.gch", copy_headers, "-x", "c++-header", f"-I{folder}")
    return folder


def build(
    source: str, *, named: dict[str, str] | None = None, defines: Sequence[str] = (), includes: tuple[str, ...] = (),
    headers: tuple[tuple[str, str], ...] = (),
) -> Path:  # fmt: skip
    """A library with ``launch_...`` and ``widths_...`` for each entry point of the text.

    ``named`` are instances of templates by the name that their launcher is to have; ``headers`` are names and texts,
    ``includes`` those that every text begins with.
    """
    text = re.sub(r"\bstatic\s+(?=__shared__)", "", source)  # which is static for us
    text = SHARED.sub(r"\1* \2 = reinterpret_cast<\1*>(emulator::shared.data());", text)
    folder = prelude(includes, headers)
    name = named_by(folder.name, runtime().name, *defines, *(named or {}).values(), text, LAUNCHER)

    def with_launchers() -> str:
        entries = {name: f"::{name}" for name in sorted(set(ENTRY.findall(preprocessed(text))))}
        entries |= {name: f"({expression})" for name, expression in (named or {}).items()}
        launchers = (LAUNCHER.format(name=name, kernel=kernel) for name, kernel in entries.items())
        return f'#include "prelude.h"\n#line 1 "kernel.cu"\n{text}\n{"".join(launchers)}'

    beside = "-Wl,--no-as-needed,-rpath,$ORIGIN", runtime()  # wherever the folder is
    return made_once(cache_folder() / f"{name}.so", with_launchers, "-shared", *defines, f"-I{folder}", *beside)
