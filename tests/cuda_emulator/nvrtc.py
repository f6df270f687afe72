"""The CUDA sources compiled for real GPUs by CuPy's NVRTC, without a GPU or a driver, and what ptxas says of them.

``python -m tests.cuda_emulator.nvrtc benchmarks/results/cuda-kernels.md`` writes the table of the documentation again.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

from cupy.cuda import nvrtc

from ies_gpu.backend.kernels.cuda import csr, launch, neighbours, text

SOURCES = ("tangent_rows", "score_block", "csr", "neighbours")
ARCHITECTURES = (70, 75, 80, 86, 89, 90, 100, 120)  # 70 with CUDA 12 only
OPTIONS = ("--std=c++17", "-ftz=true", "--ptxas-options=-v")  # as CuPy compiles a RawKernel, and a report
REPORT = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers([^\n]*)",
    re.DOTALL,
)
SUMMING = ("product", "totals", "column_products", "descend")  # what adds up in shared memory
MARKS = ("<!-- table: begin -->\n", "<!-- table: end -->\n")


class Resources(NamedTuple):
    """What one entry point takes on one architecture."""

    registers: int
    stack: int
    spills: int
    static_shared: int


def version() -> str:
    """NVRTC's version."""
    return "{}.{}".format(*nvrtc.getVersion())


def architectures() -> list[int]:
    """Those of ours that this NVRTC compiles for."""
    return [arch for arch in ARCHITECTURES if arch in nvrtc.getSupportedArchs()]


def compile_source(name: str, arch: int, *entries: str) -> dict[str, Resources]:
    """Compile a source with all of its entry points, or some, to machine code; resources by entry point."""
    program = nvrtc.createProgram(text.source(name, *entries), f"{name}.cu", [], [])
    try:
        nvrtc.compileProgram(program, [*OPTIONS, f"-arch=sm_{arch}"])
    except nvrtc.NVRTCError as error:
        raise RuntimeError(nvrtc.getProgramLog(program)) from error
    log = nvrtc.getProgramLog(program)
    if not nvrtc.getCUBIN(program).startswith(b"\x7fELF"):
        raise RuntimeError(f"no machine code for sm_{arch}:\n{log}")
    found = {}
    for entry, stack, stores, loads, registers, rest in REPORT.findall(log):
        static = re.search(r"(\d+) bytes smem", rest)
        found[entry] = Resources(int(registers), int(stack), int(stores) + int(loads), int(static[1]) if static else 0)
    return found


def dynamic_shared(entry: str) -> int:
    """Bytes of dynamic shared memory at the largest sizes that an entry point takes."""
    itemsize = 4 if "_f32" in entry else 8
    sizes = range(1, launch.MAX_COMPONENTS + 1)
    if entry == "degrees":
        return neighbours.DEGREE_THREADS * 8
    if entry in text.ENTRIES["neighbours"]:
        return neighbours.shared_bytes(neighbours.MAX_COLUMNS)
    if entry in text.ENTRIES["csr"]:
        return csr.THREADS * 8 if entry.startswith(SUMMING) else 0
    if entry.startswith("tangent"):
        return max(launch.tangent_launch(1, m, itemsize).shared_bytes for m in sizes)
    d = int(entry.split("_")[2])
    launches = (launch.score_launch(1, m, d, q, itemsize) for m in sizes for q in range(1, 65))
    return max(launch.shared_bytes for launch in launches)


def table() -> str:
    """Markdown: registers by entry point and architecture, shared memory, spills."""
    found = {arch: {} for arch in architectures()}
    for arch, entries in found.items():
        for name in SOURCES:
            entries |= compile_source(name, arch)
    header = ["entry point", *(f"sm_{arch}" for arch in found), "spilled bytes", "shared memory, static + dynamic"]
    lines = [
        f"Registers per thread, NVRTC {version()}:",
        "",
        "| " + " | ".join(header) + " |",
        "|---" * len(header) + "|",
    ]
    for entry in sorted(next(iter(found.values()))):
        each = [entries[entry] for entries in found.values()]
        spills, static = (max(getattr(one, field) for one in each) for field in ("spills", "static_shared"))
        cells = [f"`{entry}`", *(str(one.registers) for one in each), str(spills)]
        lines.append("| " + " | ".join([*cells, f"{static} + {dynamic_shared(entry):,} bytes"]) + " |")
    return "\n".join(lines) + "\n"


def main(path: str) -> None:
    """Replace the table between the marks of a Markdown file."""
    before, rest = Path(path).read_text(encoding="utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    Path(path).write_text(before + MARKS[0] + table() + MARKS[1] + after, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
