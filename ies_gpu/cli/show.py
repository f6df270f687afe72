"""``ies-gpu show``: print a saved result."""

from __future__ import annotations

import argparse
from typing import Any

from .console import Console, listed, say, say_json
from .parser import add_command, add_talk, in_flags, say_in_flags


def add(commands: Any) -> None:
    show = add_command(commands, "show", run, "print a saved result", "ies-gpu show run.npz")
    show.add_argument("run_file", metavar="RUN.NPZ", help="file that 'ies-gpu fit -o' wrote")
    add_talk(show, as_json="print the result as one JSON object", progress=False)


def run(args: argparse.Namespace, console: Console) -> int:
    from ..choice.naming import names_text
    from ..results.selection import Selection
    from ..results.storage import load_as
    from ..results.text import as_plain, best_sets, facts, summary

    selection = load_as(Selection, args.run_file)
    if args.json:
        say_json(as_plain(selection, in_flags))
        return 0
    say(f"{summary(selection, say_in_flags)}\n\nRegularization path, from zeta = inf down")
    say(f"{'zeta from':>11}{'to':>11}{'mean score':>12}{'regret':>9}  set")
    for segment, regret in zip(selection.path, selection.regret_percentiles, strict=True):
        here = "  <- chosen" if segment.subset == selection.subset else ""
        numbers = f"{segment.low:11.4g}{segment.high:11.4g}{segment.score:12.3f}{regret:9.3f}"
        say(f"{numbers}  {names_text(segment.subset)}{here}")
    say(f"\nBest sets at zeta = {selection.zeta:.4g}\n{'loss':>11}{'mean score':>12}  set")
    for subset, loss, score in best_sets(selection):
        say(f"{loss:11.4f}{score:12.4f}  {names_text(subset)}")
    say("")
    known = facts(selection)
    listed("settings", *known.get("settings", []))
    listed("seconds", *(f"{stage} {took:.2f}" for stage, took in selection.diagnostics.get("seconds", {}).items()))
    listed("versions", *known.get("versions", []))
    return 0
