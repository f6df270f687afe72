"""What the paper prints in Table S3, counted from 1 as there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


def set_text(subset: Iterable[int]) -> str:
    """A set as the paper writes it: ``{1, 7}`` for ``(0, 6)``."""
    return "{" + ", ".join(str(k + 1) for k in subset) + "}"


class Published(NamedTuple):
    """The five best sets of the exact search, the order of the greedy search, and that of LLR."""

    best: tuple[tuple[int, ...], ...]
    greedy: tuple[int, ...]
    llr: tuple[int, ...]


def _row(best: str, greedy: str, llr: str) -> Published:
    sets = tuple(tuple(map(int, one.split())) for one in best.split(","))
    return Published(sets, tuple(map(int, greedy.split())), tuple(map(int, llr.split())))


PUBLISHED = {
    "D1": _row("1 7, 1 8, 1 9, 1 10, 1 12", "1 7 6 4 3 2 5", "1 7 14 16 11 18 6"),
    "D2": _row("1 4, 1 8, 1 9, 1 10, 1 12", "1 4 8 6 5 3 2", "1 4 8 5 17 11 14"),
    "D3": _row("1 9, 1 10, 1 11, 1 13, 1 18", "1 9 5 2 3 4 6", "1 9 19 16 12 10 4"),
    "D4": _row("1 8, 1 10, 1 11, 1 14, 1 15", "1 8 3 2 4 10 5", "1 8 11 10 19 16 4"),
    "D5": _row("1 6, 1 8, 1 10, 1 11, 1 13", "1 6 2 8 3 10 4", "1 6 19 8 18 14 12"),
    "D6": _row("1 2 8, 1 2 11, 1 4 8, 1 2 17, 1 2 13", "1 2 8 3 4 6 5", "1 2 8 10 3 13 6"),
    "D7": _row("1 4 5, 1 4 8, 1 5 7, 1 7 12, 1 7 8", "1 5 4 3 6 2 8", "1 2 5 4 15 6 10"),
    "D8": _row("1 2 7, 1 4 7, 1 3 7, 1 2 9, 1 5 7", "1 7 2 4 3 13 5", "1 2 7 13 12 15 14"),
    "D9": _row("1 3 4, 1 3 7, 1 4 6, 1 3 10, 1 7 9", "1 3 4 2 9 7 6", "1 3 4 2 19 8 7"),
    "D10": _row("1 2 4, 1 3 4, 1 4 5, 1 6 9, 1 6 14", "1 4 2 3 5 6 8", "1 4 2 3 8 5 6"),
    "D11": _row("1 2 5, 1 4 8, 1 4 5, 1 8 9, 1 2 8", "1 5 2 4 8 3 9", "1 2 5 8 10 9 11"),
    "D12": _row("1 2 5, 1 4 5, 1 2 7, 1 3 5, 1 2 8", "1 5 2 3 4 6 8", "1 5 2 6 10 9 4"),
    "D13": _row("1 2 5 10, 1 3 5 10, 1 4 5 10, 1 5 6 10, 1 2 8 10", "1 5 10 2 4 3 6", "1 2 10 5 14 15 16"),
}
