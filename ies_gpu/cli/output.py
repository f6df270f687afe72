"""How the commands print: folded lines, lists with a label."""

from __future__ import annotations

import json
import re
import textwrap
from typing import Any

from .console import Console

WIDTH = 80


def say(text: str) -> None:
    """Print, folded to 80 columns; the continuation of an indented line stands under its text."""
    for line in text.split("\n"):
        if len(line) <= WIDTH or "ies-gpu fit " in line:
            print(line, flush=True)  # a command to copy stays whole
            continue
        label = re.match(r"\s*[\w ]*?\s{2,}", line)
        hang = " " * (len(label[0]) if label else 2)
        folded = textwrap.wrap(
            line, WIDTH, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
        )
        print("\n".join(folded), flush=True)


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
