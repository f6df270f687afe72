"""What commands print, folded to 80 columns, and what a run shows on the error stream: a bar, lines or JSON."""

import json
import os
import re
import shutil
import textwrap
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from ..files.remote import is_remote, shown
from ..run.progress import Bar

WIDTH = 80
EVERY = 0.5  # seconds between two JSON lines of one stage
COLOURS = {"error": "31", "warning": "33"}  # red, yellow


class Console:
    """The messages and the progress of one run, as "bar", "lines", "json" or "quiet": warnings and errors only."""

    def __init__(self, stream: IO[str], style: str) -> None:
        self.stream, self.style, self.stage, self.bar = stream, style, "", Bar(stream)
        self.begin = self.last = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Follow ``(stage, 0, 0)`` at the beginning of a stage to ``(stage, 1, 1)`` at its end."""
        now, ended = time.perf_counter(), (done, total) == (1, 1)
        if (done, total) == (0, 0):
            self.stage, self.begin, self.last = stage, now, -EVERY
        if stage != self.stage or self.style == "quiet":
            return
        if self.style == "bar":
            self.bar(stage, done, total)
        if self.style == "json" and (ended or now - self.last >= EVERY):
            self.last = now
            self._event("info", stage=stage, done=done, total=total or None, seconds=round(now - self.begin, 3))
        if ended and self.style != "json":
            self._line(f"{stage:<24}{now - self.begin:8.2f} s")
        self.stage = "" if ended else stage

    def close(self) -> None:
        self.bar.close()
        self.stage = ""

    def write(self, text: str) -> None:
        """Write a line for people."""
        if self.style in ("bar", "lines"):
            self._line(text)

    def say(self, level: str, message: str, code: str = "", **more: int) -> None:
        """Say in every style that something is a warning or an error, in JSON with its code."""
        self.bar.close()
        message = " ".join(message.split())
        if self.style == "json":
            self._event(level, message=message, **({"code": code} if code else {}), **more)
            return
        label = f"ies-gpu: {level}:"
        text = fold(f"{label} {message}", max(40, shutil.get_terminal_size().columns), "  ")
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or os.name == "nt"
        if self.stream.isatty() and not plain:
            text = f"\x1b[{COLOURS[level]}m{label}\x1b[0m{text.removeprefix(label)}"
        self._line(text)

    def end(self, message: str, status: int) -> None:
        """Write the last JSON line: how the run ended, unless by an error. People see that without it."""
        if self.style == "json":
            self._event("info" if status == 0 else "error", message=message, status=status)

    def _event(self, level: str, **content: Any) -> None:
        from ..backend.cpu import peak_memory, resident_memory  # which loads NumPy

        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        held = resident_memory()
        memory = {"bytes": held, "peak_bytes": max(held, peak_memory())}  # Linux may notice a new peak late
        self._line(json.dumps({"time": now, "level": level, **content, **memory}))

    def _line(self, line: str) -> None:
        try:
            self.stream.write(line + "\n")
            self.stream.flush()
        except BrokenPipeError:
            raise
        except OSError:  # failing to write the log, say on a full disk, must not lose the work
            pass


def fold(text: str, width: int, hang: str) -> str:
    """Wrap a text at words; one that is longer than a line, such as a path, stays whole."""
    return textwrap.fill(text, width, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False)


def say(text: str) -> None:
    """Print, folded to 80 columns; the continuation of an indented line stands under its text."""
    for line in text.split("\n"):
        if len(line) > WIDTH and "ies-gpu fit " not in line:  # a command to copy stays whole
            label = re.match(r"\s*[\w -]*?\s{2,}", line)
            line = fold(line, WIDTH, " " * (len(label[0]) if label else 2))
        print(line, flush=True)


def say_json(value: Any) -> None:
    """Print a value as JSON on one line, for other programs; it is never folded."""
    print(json.dumps(value), flush=True)


def listed(label: str, *items: str) -> None:
    """Print a label and its items, if there are any."""
    if items:
        say(f"  {label:<16}{', '.join(items)}")


def file_name(path: str) -> str:
    return shown(path).rpartition("/")[2] if is_remote(path) else Path(path).name


def address(path: str | os.PathLike[str]) -> str:
    """Return what to put into the address bar of a browser."""
    return shown(os.fspath(path)) if is_remote(path) else Path(path).resolve().as_uri()
