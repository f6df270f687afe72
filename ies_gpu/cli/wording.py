"""What the package says to Python programmers, in the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Collection

FLAGS = {"n_components": "-m", "intrinsic_dim": "-d", "subset_size": "-s", "n_samples": "-n", "degree": "--degree"}
OWN = ("n_samples", "degree")  # words of other meanings too, where a command has no such option
SENTENCES = {
    "selection.points has the rows that were used": "'ies-gpu show --csv' lists the rows that were used",
    "leave out the rows in diagnostics['stray_points']": "leave out the stray points ('ies-gpu show --json' lists "
    "their rows as stray_points)",
    "ies_gpu.diagnose(selection).collapse shows where: it is above 3 there": "'ies-gpu report --diagnose' shows where",
    "set self_loops=False": "pass --no-self-loops",
    "use fewer features, such as pairwise distances instead of angles, or fewer atoms": "use --features distances, or "
    "fewer atoms with --atoms",
    "resume=True": "--resume",
    "not work with client": "not work on a cluster",
    "load reads what 'ies-gpu fit -o' or save wrote": "give a file that 'ies-gpu fit -o' wrote",
    "load_model reads what 'ies-gpu fit --model' wrote": "give a file that 'ies-gpu fit --model' wrote",
}


def as_options(text: str, known: Collection[str] | None = None) -> str:
    """Advice for Python, disconnected='largest' or "use radius=0.6", in the words of the command line.

    Of ``known``, the options of a command, those are named that may have another meaning elsewhere; without
    ``--device``, the variable is advised that every command heeds.
    """
    for theirs, ours in SENTENCES.items():
        text = text.replace(theirs, ours)
    text = re.sub(r"drop the rows, e\.g\. .*\]", "remove these rows (counted from 0) from the file", text)
    text = re.sub(r"drop the columns, e\.g\. .*\]", "leave them out with --columns", text)
    if known is not None and "--device" not in known:
        text = re.sub(r"\b(use|try) device='(\w+)'", r"set IES_GPU_DEVICE=\2", text)
    text = re.sub(r"\b(bandwidth|disconnected|device|dtype|search|metric|scale)='([\w:]+)'", r"--\1 \2", text)
    text = re.sub(r"\bn_neighbors=(\d+)", r"--neighbors \1", text)
    text = re.sub(r"\bmemory_limit=(\d+)", lambda found: f"--memory-limit {as_limit(int(found[1]))}", text)
    text = re.sub(r"\bmemory_limit(=?)", lambda found: "--memory-limit" + " " * len(found[1]), text)
    text = re.sub(r"\b(\d{5,}) bytes\b", lambda found: in_bytes(int(found[1])), text)
    # a value that was found, as in "intrinsic_dim 2", is a name and stays one
    flags = {name: flag for name, flag in FLAGS.items() if name not in OWN or flag in (known or ())}
    text = re.sub(rf"\b({'|'.join(flags)})(=|\b(?! \d))", lambda found: flags[found[1]] + " " * len(found[2]), text)
    return re.sub(r"(use |\()(bandwidth|radius)=", r"\1--\2 ", text)


def as_limit(size: int) -> str:
    """Bytes as ``--memory-limit`` takes them, in powers of 1024, rounded up to three digits."""
    unit, letter = (1 << 30, "G") if size >= 1 << 30 else (1 << 20, "M")
    digits = 2 if size < 10 * unit else 1 if size < 100 * unit else 0
    return f"{-(-size * 10**digits // unit) / 10**digits:.{digits}f}".removesuffix(".00").removesuffix(".0") + letter


def in_bytes(size: float) -> str:
    """A size for people, in powers of 1000."""
    if size < 1e6:
        return f"{size / 1e3:.1f} kB"
    return f"{size / 1e6:.1f} MB" if size < 1e9 else f"{size / 1e9:.2f} GB"
