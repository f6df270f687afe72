"""The input that is refused and the odd input that is accepted: the table behind the tests and ``docs/input.md``.

``python -m tests.validation.cases`` writes the page again, with the messages that the code gives now.
"""

from __future__ import annotations

import os
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import scipy.sparse

from ies_gpu import (
    DisconnectedGraphError,
    diffusion_map,
    laplacian_of_points,
    select_coordinates,
)
from ies_gpu.cli.options import flags_of
from ies_gpu.options import DEFAULTS, ENTRIES, TABLE
from tests.manifolds import rectangle

PAGE = Path(__file__).parents[2] / "docs" / "input.md"
X, _, EPS = rectangle(600, 2.3, degree=60)
GOOD = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": EPS, "n_components": 8}


def spoiled(value, rows=(3, 77)):
    bad = X.copy()
    bad[list(rows), 1] = value
    return bad


def objects(value):
    bad = X.astype(object)
    bad[5, 0] = value
    return bad


LAPLACIAN = laplacian_of_points(X, bandwidth=EPS)
MAP = diffusion_map(LAPLACIAN, n_components=8)
LATE = {
    "X": None,
    "bandwidth": None,
    "laplacian": LAPLACIAN,
    "coordinates": MAP.coordinates,
    "eigenvalues": MAP.eigenvalues,
}
ASYMMETRIC = scipy.sparse.csr_array(np.triu(np.ones((10, 10))))

# by section of the page, what is wrong: the arguments that are changed, the error's type, words of its message
# fmt: off
REFUSED = {
    "Points": {
        "NaN in two rows": ({"X": spoiled(np.nan)}, ValueError, r"X contains NaN or infinite values in 2 rows \(3, 77\) and 1 column \(1\); drop the rows"),
        "a column without numbers": ({"X": np.hstack([X, np.full((600, 1), np.nan)])}, ValueError, r"and 1 column \(3\); drop the columns"),
        "infinity in one row": ({"X": spoiled(np.inf, [9])}, ValueError, r"in 1 row \(9\)"),
        "None among objects": ({"X": objects(None)}, ValueError, r"NaN or infinite values in 1 row \(5\)"),
        "masked entries": ({"X": np.ma.masked_greater(X, 0.9)}, ValueError, "X has masked entries"),
        "no points": ({"X": np.empty((0, 3))}, ValueError, r"at least 2 points.*\(0, 3\)"),
        "no columns": ({"X": np.empty((9, 0))}, ValueError, r"at least 1 column.*\(9, 0\)"),
        "a single point": ({"X": X[:1]}, ValueError, "at least 2 points"),
        "fewer points than eigenvectors": ({"X": X[:9]}, ValueError, "9 points are too few for n_components=8, which may be 7 at most"),
        "copies of one point": ({"X": np.ones((50, 3))}, ValueError, "50 copies of one point"),
        "a word among the numbers": ({"X": objects("a")}, TypeError, "X must be numeric, but it contains 'a'"),
        "strings": ({"X": X.astype(str)}, TypeError, "X must be numeric, got dtype <U"),
        "dates": ({"X": np.zeros((9, 2), dtype="datetime64[s]")}, TypeError, "X must be numeric"),
        "complex numbers": ({"X": X + 1j}, TypeError, "X must be real, got dtype complex128"),
        "ragged lists": ({"X": [[1, 2], [3]]}, TypeError, "X must be an array of numbers"),
        "a one-dimensional array": ({"X": X[:, 0]}, ValueError, r"X must have 2 axes, got shape \(600,\); use X.reshape\(-1, 1\)"),
        "a three-dimensional array": ({"X": X[None]}, ValueError, r"X must have 2 axes, got shape \(1, 600, 3\)"),
        "sparse points": ({"X": scipy.sparse.csr_array(X)}, TypeError, r"X must be a dense array.*X.toarray\(\)"),
        "a path": ({"X": "points.npy"}, TypeError, "X must be an array, got the path 'points.npy'; load the file first"),
        "no input": ({"X": None}, ValueError, "pass exactly one of X, graph, kernel, laplacian; got none"),
        "two inputs": ({"kernel": np.eye(600)}, ValueError, "got X, kernel"),
    },
    "Bandwidth and radius": {
        "bandwidth=None": ({"bandwidth": None}, ValueError, "bandwidth is required with X"),
        "bandwidth=0": ({"bandwidth": 0}, ValueError, "bandwidth must be a finite number greater than 0, got 0"),
        "bandwidth=-1.0": ({"bandwidth": -1.0}, ValueError, "bandwidth must be a finite number greater than 0, got -1"),
        "bandwidth=nan": ({"bandwidth": np.nan}, ValueError, "bandwidth must be a finite number"),
        "bandwidth='wide'": ({"bandwidth": "wide"}, ValueError, "bandwidth must be a number, 'auto', 'fixed' or 'local', got 'wide'"),
        "a bandwidth too small for any neighbour": ({"bandwidth": EPS / 1e4}, DisconnectedGraphError, "have no neighbour within radius=.*raise bandwidth"),
        "a bandwidth that connects all points": ({"bandwidth": 100.0}, ValueError, "connects every sampled point to all 600 points.*lower bandwidth"),
        "radius=-2": ({"radius": -2}, ValueError, "radius must be a finite number greater than 0"),
        "a radius with a kernel": ({"X": None, "kernel": np.eye(9), "radius": 1.0}, ValueError, "radius=1.0 works only with X or graph, not with kernel"),
    },
    "Sizes": {
        "intrinsic_dim=0": ({"intrinsic_dim": 0}, ValueError, "intrinsic_dim must be at least 1, got 0"),
        "intrinsic_dim above n_components": ({"intrinsic_dim": 9}, ValueError, r"intrinsic_dim must be between 1 and 8 \(n_components is 8\), got 9"),
        "intrinsic_dim=2.5": ({"intrinsic_dim": 2.5}, TypeError, "intrinsic_dim must be an integer or 'auto', got 2.5"),
        "intrinsic_dim=True": ({"intrinsic_dim": True}, TypeError, "intrinsic_dim must be an integer or 'auto', got True"),
        "subset_size below intrinsic_dim": ({"subset_size": 1}, ValueError, r"subset_size must be between 2 and 8 \(intrinsic_dim is 2"),
        "subset_size above n_components": ({"subset_size": 9}, ValueError, "subset_size must be between 2 and 8"),
        "n_components=0": ({"n_components": 0}, ValueError, "n_components must be at least 1, got 0"),
        "n_components=8.0": ({"n_components": 8.0}, TypeError, "n_components must be an integer, got 8.0"),
        "too many sets to score": ({"n_components": 100, "subset_size": 12}, ValueError, "sets, more than 2,000,000"),
    },
    "Other options": {
        "percentile=101": ({"percentile": 101}, ValueError, "percentile must be between 0 and 100, got 101"),
        "percentile=0.75": ({"percentile": 0.75}, ValueError, "percentile goes from 0 to 100, got 0.75; pass 75 if that is a share"),
        "percentile=-1": ({"percentile": -1}, ValueError, "percentile must be between 0 and 100"),
        "zeta=-0.5": ({"zeta": -0.5}, ValueError, "zeta must be a finite number, at least 0, got -0.5"),
        "zeta=inf": ({"zeta": np.inf}, ValueError, "zeta must be a finite number"),
        "zeta='best'": ({"zeta": "best"}, ValueError, "zeta must be a number or 'auto', got 'best'"),
        "device='tpu'": ({"device": "tpu"}, ValueError, "device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got 'tpu'"),
        "device=0": ({"device": 0}, ValueError, "device must be 'auto'"),
        "search='psychic'": ({"search": "psychic"}, ValueError, "search must be one of 'exhaustive'"),
        "dtype='float16'": ({"dtype": "float16"}, ValueError, "dtype must be one of 'float64', 'mixed', 'float32', got 'float16'"),
        "disconnected='all'": ({"disconnected": "all"}, ValueError, "disconnected must be one of 'auto', 'raise', 'most', 'largest', got 'all'"),
        "self_loops=0.5": ({"self_loops": 0.5}, TypeError, "self_loops must be True or False, got 0.5"),
        "memory_limit=10": ({"memory_limit": 10}, ValueError, "memory_limit must be at least 1048576"),
        "n_threads=0": ({"n_threads": 0}, ValueError, "n_threads must be between 1 and 65536"),
        "tol=0": ({"tol": 0}, ValueError, "tol must be a finite number greater than 0 and below 1"),
        "random_state=-1": ({"random_state": -1}, ValueError, "random_state must be at least 0"),
        "progress=3": ({"progress": 3}, TypeError, "progress must be True or a function"),
    },
    "Your own graph, kernel or embedding": {
        "a graph of strings": ({"X": None, "graph": X.astype(str)}, TypeError, "graph must be numeric"),
        "negative distances": ({"X": None, "graph": -X[:9, :1] @ X[:9, :1].T}, ValueError, "graph must not have negative"),
        "affinities as distances": ({"X": None, "graph": np.exp(-((X[:99, :1] - X[:99, :1].T) ** 2))}, ValueError, "pass it as kernel"),
        "zeros for no neighbours": ({"X": None, "graph": np.diag(np.ones(98), 1) + np.diag(np.ones(98), -1)}, ValueError, r"98% of its distances are 0.*csr_array"),
        "a disconnected graph": ({"X": None, "graph": scipy.sparse.identity(50)}, DisconnectedGraphError, "50 parts"),
        "an asymmetric kernel": ({"X": None, "kernel": ASYMMETRIC}, ValueError, "kernel must be symmetric"),
        "a negative kernel": ({"X": None, "kernel": -np.eye(9)}, ValueError, "kernel must not have negative entries, got -1"),
        "a kernel with NaN": ({"X": None, "kernel": np.full((9, 9), np.nan)}, ValueError, "kernel contains NaN"),
        "a kernel without rows": ({"X": None, "kernel": np.zeros((0, 0))}, ValueError, "at least 2 points"),
        "a matrix that is not I - P": ({**LATE, "laplacian": scipy.sparse.identity(600)}, ValueError, "rows that sum to 0"),
        "the generator P - I": ({**LATE, "laplacian": -LAPLACIAN.matrix}, ValueError, "no positive entry off the diagonal.*pass -laplacian"),
        "a Laplacian that is not square": ({**LATE, "laplacian": np.ones((4, 5))}, ValueError, r"laplacian must be square, got shape \(4, 5\)"),
        "coordinates with a row missing": ({**LATE, "coordinates": MAP.coordinates[:-1]}, ValueError, "coordinates has 599 rows but laplacian is for 600"),
        "no coordinates": ({**LATE, "coordinates": None}, ValueError, "laplacian needs coordinates and eigenvalues"),
        "coordinates with NaN": ({**LATE, "coordinates": MAP.coordinates * np.nan}, ValueError, "coordinates contains NaN"),
        "too few eigenvalues": ({**LATE, "eigenvalues": MAP.eigenvalues[:3]}, ValueError, r"one entry per coordinate \(8\), got 3"),
        "falling eigenvalues": ({**LATE, "eigenvalues": MAP.eigenvalues[::-1]}, ValueError, "eigenvalues must be ascending"),
        "negative eigenvalues": ({**LATE, "eigenvalues": -MAP.eigenvalues[::-1]}, ValueError, "eigenvalues must be those of I - P, none of them negative"),
        "the constant eigenvector": ({**LATE, "coordinates": np.column_stack([np.ones(600), MAP.coordinates[:, 1:]])}, ValueError, "column 0 of coordinates is constant"),
        "another number of coordinates": ({**LATE, "n_components": 5}, ValueError, "n_components=5 differs from the 8 columns of coordinates"),
        "eigenvalues beside points": ({"eigenvalues": MAP.eigenvalues}, ValueError, "work only with laplacian, not with X"),
    },
}
# fmt: on
CASES = {name: case for section in REFUSED.values() for name, case in section.items()}


def frame():
    import pandas as pd

    return pd.DataFrame({"x": X[:, 0], "y": X[:, 1].astype(np.float32), "n": np.arange(600) / 600})


def readonly(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


# what is odd: how it is made, what its bandwidth is multiplied by, and a note for the page
ACCEPTED = {
    "constant columns": (lambda: np.column_stack([X, np.full(600, 7.0)]), 1.0, "They change no distance."),
    "duplicates": (lambda: np.concatenate([X, X[:40]]), 1.0, "Equal points are neighbours of each other."),
    "integers": (lambda: np.round(1e6 * X).astype(np.int64), 1e6, "Any width."),
    "unsigned bytes": (lambda: np.round(80 * X[:, :2]).astype(np.uint8), 80.0, "Differences do not wrap around."),
    "half precision": (lambda: X.astype(np.float16), 1.0, "Converted to float64."),
    "single precision": (lambda: X.astype(np.float32), 1.0, "Converted to float64."),
    "big-endian numbers": (lambda: X.astype(">f8"), 1.0, "Converted to the machine's byte order."),
    "numbers as Python objects": (lambda: X.astype(object), 1.0, "Converted to float64."),
    "fractions": (
        lambda: np.array([[Fraction(float(v)) for v in row] for row in X], dtype=object),
        1.0,
        "Anything that becomes a float.",
    ),
    "a list of lists": (lambda: X.tolist(), 1.0, ""),
    "a data frame": (frame, 2.5, "From pandas, or anything else that becomes a numeric array."),
    "Fortran order": (lambda: np.asfortranarray(X), 1.0, ""),
    "a strided view": (lambda: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3], 1.0, ""),
    "a reversed view": (lambda: X[::-1], 1.0, ""),
    "a read-only array": (lambda: readonly(X), 1.0, "Your array is never written to."),
    "huge numbers": (lambda: 1e150 * X, 1e150, "Lengths are measured in bandwidths, so nothing overflows."),
    "tiny numbers": (lambda: 1e-150 * X, 1e-150, "Likewise."),
    "points far from the origin": (lambda: X + 1e6, 1.0, "Differences are taken before squares."),
}


def refusal(name: str) -> Exception:
    """The error that a case raises."""
    changed, kind, _ = CASES[name]
    try:
        select_coordinates(**{"X": X, **GOOD, **changed})
    except kind as error:
        return error
    raise AssertionError(f"{name} is not refused")


def cell(text: str) -> str:
    """A message in a table; what NumPy adds to ours changes from version to version."""
    return re.sub(r"(must be an array of numbers: ).*", r"\1...", text).replace("|", r"\|")


def page() -> str:
    """The text of ``docs/input.md``."""
    lines = [INTRODUCTION]
    for section, cases in REFUSED.items():
        lines += [f"### {section}", "", "| input | error | message |", "|---|---|---|"]
        for name, (_, kind, _) in cases.items():
            shown = f"`{name}`" if re.match(r"\w+=", name) else name
            lines.append(f"| {shown} | `{kind.__name__}` | {cell(str(refusal(name)))} |")
        lines.append("")
    lines += ["## The options", "", "As `select_coordinates` and `ies-gpu fit` take them.", "", *options_table(), ""]
    lines += ["## What is accepted", "", "| input | note |", "|---|---|"]
    lines += [f"| {name} | {note} |" if note else f"| {name} | |" for name, (_, _, note) in ACCEPTED.items()]
    return "\n".join([*lines, "", TENSORS])


def options_table() -> list[str]:
    """A line for each option of the table."""
    lines = ["| option | default | must be | only with | on a cluster | flag |", "|---|---|---|---|---|---|"]
    for name, about in TABLE.items():
        if name in ("entry", "keep_bases"):
            continue
        default = "" if DEFAULTS[name] is None else f"`{DEFAULTS[name]!r}`"
        only = "" if about.entries == ENTRIES else ", ".join(f"`{entry}`" for entry in about.entries)
        flags = " ".join(f"`{flag}`" for flag in flags_of(name))
        no = "no" if about.cluster else ""
        lines.append(
            " ".join(f"| {part}".rstrip() for part in (f"`{name}`", default, about.accepts.span, only, no, flags))
            + " |"
        )
    return lines


INTRODUCTION = """# Input: what is accepted, and what is refused

<!-- Written by `python -m tests.validation.cases`. Edit tests/validation/cases.py instead. -->

All input is checked before any long work begins. This takes a fraction of a second even for 100,000 points: a hopeless
bandwidth, for example, shows up in a sample of 400 rows. Each row below is a test, and the messages come from the code.
Files are checked in the same way: one line says that a file is missing, truncated or of the wrong kind, and an output
that cannot be written is refused before the run begins.

## What is refused

In these examples the points have shape (600, 3), with `intrinsic_dim=2`, `subset_size=2` and `n_components=8`.
"""

TENSORS = """Tensors of PyTorch, JAX and other libraries that support DLPack or `__cuda_array_interface__` are used without a copy if
they are in float64 and C order: by NumPy on the host, by CuPy on a GPU. Read-only tensors are not copied either, if their
library can mark them as read-only (DLPack 1.0). A tensor that requires grad is refused (pass `X.detach()`). So are sparse
tensors, and dtypes and devices that NumPy and CuPy do not know. `tests/backend/test_dlpack.py` has the cases.
"""


if __name__ == "__main__":
    os.environ["IES_GPU_DEVICE"] = "cpu"
    PAGE.write_text(page())
