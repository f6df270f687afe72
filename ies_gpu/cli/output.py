"""What the commands print: folded lines, lists with a label, strict JSON."""

from __future__ import annotations

import math
import re
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..selection import Selection

WIDTH = 80


def say(text: str) -> None:
    """Print, folded to 80 columns; the continuation of an indented line stands under its text."""
    for line in text.split("\n"):
        if len(line) <= WIDTH or "ies-gpu fit " in line or line.startswith("{"):
            print(line, flush=True)  # a command to copy and JSON stay whole
            continue
        label = re.match(r"\s*[\w ]*?\s{2,}", line)
        hang = " " * (len(label[0]) if label else 2)
        folded = textwrap.wrap(
            line, WIDTH, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
        )
        print("\n".join(folded), flush=True)


def listed(label: str, items: list[str]) -> None:
    """A label and what belongs to it."""
    if items:
        say(f"  {label:<16}{', '.join(items)}")


def best_sets(selection: Selection, number: int = 5) -> list[tuple[list[int], float, float]]:
    """The first sets of the ranking with loss and score."""
    subsets, losses, scores = (part[:number].tolist() for part in selection.ranking)
    return list(zip(subsets, losses, scores, strict=True))


def as_json(selection: Selection, **more: Any) -> dict[str, Any]:
    """A result for machines; sets are 0-based, names counted from 1 as in the paper."""
    from ..selection import coordinate_names

    ranking = [
        {"subset": subset, "names": coordinate_names(subset), "loss": loss, "score": score}
        for subset, loss, score in best_sets(selection)
    ]
    n, m = selection.coordinates.shape
    result = {
        "subset": selection.subset,
        "names": selection.names,
        "zeta": selection.zeta,
        "zeta_interval": selection.zeta_interval,
        "zeta_dimensionless": selection.zeta_dimensionless,
        "n_points": n,
        "n_components": m,
        "ranking": ranking,
        "eigenvalues": selection.eigenvalues,
        "laplace_beltrami_eigenvalues": selection.laplace_beltrami_eigenvalues,
        "diagnostics": selection.diagnostics,
        **more,
    }
    return plain(result)


def plain(value: Any) -> Any:
    """Strict JSON: arrays as lists, numbers that are not finite as null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)
