"""How coordinates and sets of them are written: arrays count from 0, people and the paper from 1."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..findings import option, refusal

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def coordinate_names(subset: Iterable[int]) -> tuple[str, ...]:
    """The paper's names: ``("phi1", "phi7")`` for ``(0, 6)``."""
    return tuple(f"phi{k + 1}" for k in subset)


def names_text(subset: Iterable[int]) -> str:
    """The names in a sentence: ``phi1, phi7`` for ``(0, 6)``. A negative member is unknown, and written ``?``."""
    return ", ".join("?" if k < 0 else f"phi{k + 1}" for k in subset)


def page_text(subset: Iterable[int]) -> str:
    """A set on pages and in pictures: ``{φ₁, φ₇}`` for ``(0, 6)``. A negative member is unknown, and written ``?``."""
    return in_symbols(f"{{{names_text(subset)}}}")


def in_symbols(text: str) -> str:
    """A text for a page, with the names of coordinates as symbols: ``φ₇`` for ``phi7``."""
    return re.sub(r"\bphi(\d+)\b", lambda name: "φ" + name[1].translate(SUBSCRIPTS), text)


def formula(weights: Iterable[float], most: int = 3) -> str:
    """A combination of coordinates by its largest weights, beside the largest: ``phi7 + 0.5 phi8``."""
    ordered = sorted(enumerate(weights), key=lambda pair: -abs(pair[1]))
    first, largest = ordered[0]
    terms = [(k, weight / largest) for k, weight in ordered[1:] if abs(weight) >= 0.05 * abs(largest)]
    text = "".join(f" {'-' if part < 0 else '+'} {abs(part):.1g} phi{k + 1}" for k, part in terms[:most])
    return f"phi{first + 1}{text}{' + ...' * (len(terms) > most)}"


def coordinate_numbers(subset: Any, m: int) -> tuple[int, ...]:
    """A set of coordinates as 0-based numbers, given as such or by name: ``(0, 6)`` or ``("phi1", "phi7")``."""
    import numpy as np  # here, because ``ies-gpu --help`` loads this module

    from ..findings import brief
    from ..validation import check_members
    from .criterion import check_subsets

    numbers = []
    for member in check_members("subset", subset, "a set such as (0, 6) or ('phi1', 'phi7')"):
        if isinstance(member, str):
            if not re.fullmatch(r"phi[1-9]\d*", member):
                text = f"subset must contain numbers, or names such as 'phi7', got {brief(member)}"
                raise refusal("subset.type", text)
            if int(member[3:]) > m:
                text = f"subset names {member}, but there are only phi1 to phi{m}"
                raise refusal("subset.range", text, f"raise {option('n_components')}")
            member = int(member[3:]) - 1
        elif not np.isscalar(member):
            text = f"subset must be one set of numbers or names, got {brief(subset)}"
            raise refusal("subset.type", text, kind=TypeError)
        numbers.append(member)
    return tuple(int(k) for k in check_subsets([numbers], m)[0])
