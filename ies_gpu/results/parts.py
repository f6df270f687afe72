"""One map per part of a disconnected graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..backend import backend_of
from ..backend.array import Array
from ..errors import DisconnectedGraphError, first_few
from ..findings import Finding, listen, option, refusal, tell, warning
from ..options import DEFAULTS
from ..run.fit import Inputs
from ..validation import check_array, check_integer, check_points
from .selection import Selection


def each_part(select: Callable[..., Selection], given: Inputs, asked: dict[str, Any]) -> list[Selection]:
    """Return one result per part, the largest first; at its own bandwidth a part may fall into parts again."""
    for name in ("disconnected", "checkpoint", "resume", "client"):
        if asked.get(name) not in (None, False):
            text = f"{option(name)} does not work with {option('select_each_part')}, which makes several maps"
            raise refusal(f"{name}.each", text, "leave it out")
    asked.setdefault("n_components", DEFAULTS["n_components"])
    fewest = check_integer("n_components", asked["n_components"], low=1) + 2
    value = check_points(given.value) if given.entry == "X" else given.value
    if not hasattr(value, "tocsr"):
        value = check_array(given.entry, value)
    everything = np.arange(value.shape[0])
    done: list[tuple[Selection, list[Finding]]] = []
    refused: list[str] = []
    waiting = [(everything, "raise")]
    while waiting:
        rows, way = waiting.pop()
        whole = rows is everything
        own = {given.entry: value if whole else part_of(value, rows, given.entry)}
        try:
            with listen() as said:
                found = select(**own, **asked | {"disconnected": way})
        except DisconnectedGraphError as error:
            if not error.parts and way == "raise":  # many points without a neighbour: one part, then the rest
                waiting.append((rows, "largest"))
            elif not error.parts and whole:
                raise
            waiting += [(rows[part], "most") for part in error.parts if len(part) >= fewest]
            continue
        except ValueError as error:  # too few points to estimate anything from, or no shape; what was asked is sound
            if whole:
                raise
            refused.append(f"of one with {len(rows):,} points: {error}")
            continue
        # the rows left out are reported for all parts together
        done.append((in_whole(found, rows), [finding for finding in said if finding.code != "graph.left_out"]))
        if way == "largest" and len(rest := np.setdiff1d(rows, done[-1][0].points)) >= fewest:
            waiting.append((rest, way))
    done.sort(key=lambda pair: -len(pair[0].points))
    parts = [part for part, _ in done]
    for number, (part, said) in enumerate(done, 1):
        part.diagnostics["part"] = {"number": number, "of": len(done)}
        for finding in said:
            tell(replace(finding, text=f"part {number} of {len(done)}: {finding.text}"))
    say_left_out(everything, parts, asked["n_components"], refused)
    return parts


def part_of(value: Array, rows: np.ndarray, entry: str) -> Array:
    """Return the points of a part, or the block of its rows and columns."""
    chosen = backend_of(value.data if hasattr(value, "tocsr") else value).asarray(rows)
    if entry == "X":
        return value[chosen]
    value = value.tocsr() if hasattr(value, "tocsr") else value
    return value[chosen][:, chosen]


def in_whole(part: Selection, rows: np.ndarray) -> Selection:
    """Return the result with its points counted in the whole input."""
    stray = [int(rows[row]) for row in part.diagnostics["stray_points"]]
    return replace(part, points=rows[part.points], diagnostics=part.diagnostics | {"stray_points": stray})


def say_left_out(everything: np.ndarray, parts: list[Selection], m: int, refused: list[str]) -> None:
    """Name the rows that are in no map, and why parts were refused; an error where there is no map."""
    if not parts and refused:
        raise refusal("graph.no_map", f"no part of the graph gives a map, {refused[0]}", kind=DisconnectedGraphError)
    if not parts:
        text = f"no part of the graph is large enough for {option('n_components', m)}"
        advice = f"raise {option('bandwidth')}, or lower {option('n_components')}"
        raise refusal("graph.small_part", text, advice, DisconnectedGraphError)
    why = f", or in parts without one ({refused[0]})" if refused else ""
    left = np.setdiff1d(everything, np.concatenate([part.points for part in parts]))
    if len(left):
        text = f"{len(left):,} {'row is' if len(left) == 1 else 'rows are'} in none of the {len(parts)} maps "
        text += f"({first_few(left)}): too far from the others, or in parts too small for a map with "
        tell(warning("graph.in_no_map", f"{text}{option('n_components', m)}{why}"))
