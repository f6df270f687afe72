"""The CUDA sources compiled for real GPUs by CuPy's NVRTC, without a GPU or a driver, and what ptxas says of them."""

import re

from cupy.cuda import nvrtc

from ies_gpu.backend.kernels.cuda import text

OPTIONS = ("--std=c++17", "-ftz=true", "--ptxas-options=-v")  # as CuPy compiles a RawKernel, and a report
REPORT = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads",
    re.DOTALL,
)


def architectures() -> tuple[int, ...]:
    """Those that this NVRTC compiles for."""
    return tuple(nvrtc.getSupportedArchs())


def spilled_bytes(name: str, arch: int, *entries: str) -> dict[str, int]:
    """Compile entry points of a source to machine code; bytes of local memory, for stack and spills, of each."""
    program = nvrtc.createProgram(text.source(name, *entries), f"{name}.cu", [], [])
    try:
        nvrtc.compileProgram(program, [*OPTIONS, f"-arch=sm_{arch}"])
    except nvrtc.NVRTCError as error:
        raise RuntimeError(nvrtc.getProgramLog(program)) from error
    log = nvrtc.getProgramLog(program)
    if not nvrtc.getCUBIN(program).startswith(b"\x7fELF"):
        raise RuntimeError(f"no machine code for sm_{arch}:\n{log}")
    return {entry: sum(map(int, numbers)) for entry, *numbers in REPORT.findall(log)}
