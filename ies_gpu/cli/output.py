"""How the commands print: folded lines, lists with a label."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from .console import Console, coloured, fold

WIDTH = 80


def say(text: str, *, heading: bool = False) -> None:
    """Print, folded to 80 columns; the continuation of an indented line stands under its text.

    The first line of a heading is bold on a terminal. A command to copy stays whole.
    """
    for number, line in enumerate(text.split("\n")):
        if len(line) > WIDTH and "ies-gpu fit " not in line:
            label = re.match(r"\s*[\w -]*?\s{2,}", line)
            line = fold(line, WIDTH, " " * (len(label[0]) if label else 2))
        print(coloured(line, "heading", sys.stdout) if heading and number == 0 else line, flush=True)


def say_json(value: Any) -> None:
    """Print a value as JSON on one line, for other programs; it is never folded."""
    print(json.dumps(value), flush=True)


def announce_compiling(console: Console, device: str = "auto") -> None:
    """Say so if the first stages will take longer because kernels must be compiled."""
    from ..backend import get_backend

    if longer := get_backend(device).first_run():
        console.note(longer)


def listed(label: str, items: list[str]) -> None:
    """Print a label and its items."""
    if items:
        say(f"  {label:<16}{', '.join(items)}")
