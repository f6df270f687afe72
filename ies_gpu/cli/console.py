"""What commands print, folded to 80 columns, and what a run shows on the error stream: a bar, lines or JSON."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from ..errors import in_bytes
from ..files.remote import is_remote, shown

WIDTH = 80
EVERY = 0.5  # seconds between two JSON lines of one stage
COLOURS = {"error": "31", "warning": "33", "heading": "1"}  # red, yellow, bold


def takes_colours(stream: IO[str]) -> bool:
    """Return whether a stream is a terminal with colours, and NO_COLOR does not forbid them."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or os.name == "nt"
    return stream.isatty() and not plain


def coloured(text: str, kind: str, stream: IO[str]) -> str:
    """Return a text in the colour of its kind, unless the stream takes none."""
    return f"\x1b[{COLOURS[kind]}m{text}\x1b[0m" if text and takes_colours(stream) else text


def fold(text: str, width: int, hang: str) -> str:
    """Wrap a text at words; one that is longer than a line, such as a path, stays whole."""
    lines = textwrap.wrap(
        text, width, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )
    return "\n".join(lines)


class Console:
    """The messages of one run; ``progress`` is passed to ``select_coordinates``.

    Parameters
    ----------
    stream : text file
    style : {"bar", "lines", "json", "quiet"}
        ``quiet`` still shows warnings and errors.
    """

    def __init__(self, stream: IO[str], style: str) -> None:
        self.stream, self.style = stream, style
        self.stage = ""
        self.begin = self.last = 0.0
        self.reached: tuple[int, int | None] = (0, None)  # a total of None is unknown
        self.bar: Any = None

    def progress(self, stage: str, done: int, total: int) -> None:
        """Follow ``(stage, 0, 0)`` at the beginning of a stage to ``(stage, 1, 1)`` at its end."""
        now, ended = time.perf_counter(), (done, total) == (1, 1)
        if (done, total) == (0, 0):
            self.stage, self.begin, self.last, self.reached = stage, now, -EVERY, (0, None)
        if stage != self.stage or self.style == "quiet":
            return
        if ended:
            most = self.reached[1] or self.reached[0] or 1
            self.reached = (most, most)
        elif done or total:
            self.reached = (done, total or None)
        if self.style == "bar":
            self._move_bar(stage, done, total)
        if self.style == "json" and (ended or now - self.last >= EVERY):
            self.last = now
            about = {"stage": stage, "done": self.reached[0], "total": self.reached[1]}
            self._event("info", **about, seconds=round(now - self.begin, 3))
        if ended and self.style != "json":
            self._write(f"{stage:<24}{now - self.begin:8.2f} s")
        self.stage = "" if ended else stage

    def _move_bar(self, stage: str, done: int, total: int) -> None:
        if self.bar is None:
            from ..run.log import Bar, tqdm

            tqdm().monitor_interval = 0  # no thread of its own: stages report often enough
            self.bar = Bar(self.stream)
        self.bar(stage, done, total)

    def close(self) -> None:
        """Clean up the line, wherever the run ended."""
        if self.bar is not None:
            self.bar.close()
        self.stage = ""

    def note(self, text: str) -> None:
        """Write a line for people."""
        if self.style in ("bar", "lines"):
            self._write(text)

    def warning(self, message: str, **more: str) -> None:
        """Say in every style that the result may be wrong."""
        self._say("warning", message, **more)

    def error(self, message: str, status: int = 1, **more: str) -> None:
        """Say in every style that the run has failed and ends with this status."""
        self._say("error", message, status=status, **more)

    def end(self, message: str, status: int) -> None:
        """Write the last JSON line: how the run ended, unless by an error. People see that without it."""
        if self.style == "json":
            self._event("info" if status == 0 else "error", message=message, status=status)

    def _say(self, level: str, message: str, **more: Any) -> None:
        if self.bar is not None:
            self.bar.close()
        message = " ".join(message.split())
        if self.style == "json":
            self._event(level, message=message, **more)
        else:
            label = f"ies-gpu: {level}:"
            text = fold(f"{label} {message}", max(40, shutil.get_terminal_size().columns), "  ")
            self._write(coloured(label, level, self.stream) + text.removeprefix(label))

    def _event(self, level: str, **content: Any) -> None:
        from ..backend.machine import peak_memory, resident_memory  # which loads NumPy

        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        memory = {"bytes": resident_memory(), "peak_bytes": peak_memory()}
        self._write(json.dumps({"time": now, "level": level, **content, **memory}))

    def _write(self, line: str) -> None:
        try:
            self.stream.write(line + "\n")
            self.stream.flush()
        except BrokenPipeError:
            raise
        except OSError:  # failing to write the log, say on a full disk, must not lose the work
            pass


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


def file_name(path: str) -> str:
    """Return the name of a file or URL, without its folder."""
    return shown(path).rpartition("/")[2] if is_remote(path) else Path(path).name


def with_size(place: str, path: str) -> str:
    """Return a place with the size of the file that was written there; that of a URL is not known."""
    return f"{place} ({in_bytes(os.path.getsize(path))})" if os.path.isfile(path) else place


def address(path: str | os.PathLike[str]) -> str:
    """Return what to put into the address bar of a browser."""
    return shown(os.fspath(path)) if is_remote(path) else Path(path).resolve().as_uri()
