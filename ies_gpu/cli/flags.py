"""What the package found, in the words of the command line."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial

from ..findings import Finding, in_python, sentence
from ..options import TABLE

FLAGS = {name: about.flag or f"--{name.replace('_', '-')}" for name, about in TABLE.items()}
FLAGS |= {"select_each_part": "--each-part"}
OWN = {"n_samples": "-n", "degree": "--degree"}  # words of other meanings too, where a command has no such option
# by code, or by its last part, where a shell needs other advice than Python
ADVICE = {
    "graph.left_out": "'ies-gpu show --csv' lists the rows that were used",
    "metric.choice": "for other distances, make a graph with scikit-learn and call select_coordinates(graph=...)",
    "molecule.mirrored": "--features torsions keeps it",
    "choice.nearly_touch": "'ies-gpu report' shows where",
    "shape.folded": "'ies-gpu report' shows where",
    "not_finite": "remove these rows (counted from 0) from the file",
    "not_finite_columns": "leave them out with --columns",
}


def say(finding: Finding, known: Collection[str] | None = None) -> str:
    """Return the sentence of a finding with flags for options; ``known`` are the flags of the command."""
    advice = ADVICE.get(finding.code) or ADVICE.get(finding.code.rpartition(".")[2]) or finding.advice
    return sentence(replace(finding, advice=advice), partial(in_flags, known=known))


def in_flags(name: str, value: str | None, known: Collection[str] | None = None) -> str:
    """Write an option as a flag, or as the variable that every command heeds where the command has no such flag."""
    if name == "client":
        return "a cluster"
    if name == "device" and known is not None and "--device" not in known:
        return f"IES_GPU_DEVICE={plain(value or '')}".rstrip("=")
    flag = FLAGS.get(name) or (OWN.get(name) if OWN.get(name) in (known or ()) else None)
    if flag is None:
        return in_python(name, value)
    if name in ("self_loops", "untangle") and value == "False":
        return f"--no-{flag.removeprefix('--')}"
    if value is None or value == "True":
        return flag
    return f"{flag} {as_limit(int(value)) if name == 'memory_limit' else plain(value)}"


def plain(value: str) -> str:
    """Return a value as a shell takes it: words without the quotes of Python."""
    with suppress(ValueError, SyntaxError):
        found = literal_eval(value)
        return found if isinstance(found, str) else value
    return value


def as_limit(size: int) -> str:
    """Return bytes as ``--memory-limit`` takes them, in powers of 1024, rounded up to three digits."""
    unit, letter = (1 << 30, "G") if size >= 1 << 30 else (1 << 20, "M")
    digits = 2 if size < 10 * unit else 1 if size < 100 * unit else 0
    return f"{-(-size * 10**digits // unit) / 10**digits:.{digits}f}".removesuffix(".00").removesuffix(".0") + letter
