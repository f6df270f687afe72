"""``ies-gpu show``: print a saved result."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .console import Console, listed, say, say_json
from .parser import add_command, add_talk, in_flags, say_in_flags

if TYPE_CHECKING:
    from ..results.selection import Selection


def add(commands: Any) -> None:
    show = add_command(commands, "show", run, "print a saved result", "ies-gpu show run.npz")
    show.add_argument("run_file", metavar="RUN.NPZ", help="file that 'ies-gpu fit -o' wrote")
    add_talk(show, as_json="print the result as one JSON object", progress=False)


def run(args: argparse.Namespace, console: Console) -> int:
    from ..results.selection import Selection
    from ..results.storage import load_as
    from ..results.text import as_plain, summary

    selection = load_as(Selection, args.run_file)
    if args.json:
        say_json(as_plain(selection, in_flags))
        return 0
    say(summary(selection, say_in_flags), heading=True)
    show_tables(selection)
    return 0


def show_tables(selection: Selection) -> None:
    """Print the path, the best sets, the settings and the seconds."""
    from ..choice.naming import names_text
    from ..results.text import best_sets, facts

    say("")
    say("Regularization path, from zeta = inf down", heading=True)
    say(f"{'zeta from':>11}{'to':>11}{'mean score':>12}{'regret':>9}  set")
    for segment, regret in zip(selection.path, selection.regret_percentiles, strict=True):
        here = "  <- chosen" if segment.subset == selection.subset else ""
        names = names_text(segment.subset)
        numbers = f"{segment.low:11.4g}{segment.high:11.4g}{segment.score:12.3f}{regret:9.3f}"
        say(f"{numbers}  {names}{here}")
    say("")
    say(f"Best sets at zeta = {selection.zeta:.4g}", heading=True)
    say(f"{'loss':>11}{'mean score':>12}  set")
    for subset, loss, score in best_sets(selection):
        say(f"{loss:11.4f}{score:12.4f}  {names_text(subset)}")
    known = facts(selection)
    say("")
    listed("settings", known.get("settings", []))
    listed("seconds", [f"{stage} {seconds:.2f}" for stage, seconds in selection.diagnostics.get("seconds", {}).items()])
    listed("versions", known.get("versions", []))
