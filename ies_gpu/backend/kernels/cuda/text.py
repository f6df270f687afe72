"""The CUDA sources and their entry points; CuPy, which compiles them, is imported only when one is first asked for.

A ``.cu`` file holds templates, and macros that make an entry point for one choice of types. One line with such a macro
is appended to it for each kernel that is asked for, so that NVRTC compiles no more than what runs.
"""

import functools
from importlib import resources
from typing import Any

C_TYPES = {"f32": "float", "f64": "double"}
PAIRS = (("f32", "f32"), ("f32", "f64"), ("f64", "f64"))  # of a matrix and of vectors


def entry_lines() -> dict[str, dict[str, str]]:
    """By source and entry point, the line that makes it."""
    c = C_TYPES
    tangent = {f"tangent_rows_{t}": f"{c[t]}, {c[t]}, {c[t]}" for t in c}
    tangent |= {f"tangent_rows_{t}_w{w[1:]}": f"{c[t]}, {c[w]}, {c[t]}" for t, w in (("f32", "f64"), ("f64", "f32"))}
    tangent["tangent_rows_single"] = "float, float, double"
    score = {f"score_block_{d}_{t}": f"{c[t]}, {d}, {3 if d <= 3 else 2}" for d in range(1, 9) for t in c}
    rows = {f"product_{a}_{b}": f"{c[a]}, {c[b]}" for a, b in PAIRS}
    rows |= {f"scaled_{a}_{b}": f"{c[a]}, {c[b]}" for a, b in (("f32", "f32"), ("f64", "f32"), ("f64", "f64"))}
    rows |= {f"{name}_{t}": c[t] for name in ("smallest_label", "column_products") for t in c}
    rows |= dict.fromkeys(
        ("merge_columns", "merge_rows", "restricted", "descend", "turn", "totals", "beside", "unit"), ""
    )
    near = {f"near_pairs_{t}": c[t] for t in c}
    return {
        name: {entry: f"{macro(name, entry)}({entry}{', ' * bool(types)}{types})" for entry, types in entries.items()}
        for name, entries in (("tangent_rows", tangent), ("score_block", score), ("csr", rows), ("neighbours", near))
    }


def macro(name: str, entry: str) -> str:
    """Return the macro of an entry point: that of its file, or its own name where a file has several."""
    return (entry.partition("_f")[0] if name in ("csr", "neighbours") else name).upper()


ENTRIES = entry_lines()


def source(name: str, *entries: str) -> str:
    """Text of ``name``.cu with some of its entry points, by default with all."""
    text = resources.files(__package__).joinpath(f"{name}.cu").read_text(encoding="utf-8")
    lines = [ENTRIES[name][entry] for entry in entries or ENTRIES[name]]
    return "\n".join([text, *lines, ""])


@functools.cache
def load_kernel(name: str, entry: str) -> Any:
    """Return the kernel ``entry`` of ``name``.cu; CuPy compiles it when it is first called, for each device."""
    import cupy

    return cupy.RawKernel(source(name, entry), entry, options=("--std=c++17",))


def suffix(dtype: Any) -> str:
    """End of an entry point's name: ``f32`` or ``f64``."""
    if dtype not in ("float32", "float64"):
        raise TypeError(f"the CUDA kernels take float32 or float64, got {dtype}")
    return f"f{str(dtype)[-2:]}"
