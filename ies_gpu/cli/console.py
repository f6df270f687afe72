"""What a run shows on the error stream: a bar on a terminal, plain lines, JSON lines, or nothing."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
import time
from datetime import UTC, datetime
from typing import IO, Any

from ..system.memory import peak_memory, resident_memory

UNITS = {"eigenvectors": " steps", "tangents": " points", "search": " points"}  # what a stage counts
EVERY = 0.5  # seconds between two JSON lines of one stage
COLOURS = {"error": "31", "warning": "33", "heading": "1"}  # red, yellow, bold


def takes_colours(stream: IO[str]) -> bool:
    """Return whether a stream is a terminal with colours; NO_COLOR and FORCE_COLOR overrule what it is."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    old_windows = os.name == "nt" and "WT_SESSION" not in os.environ
    return stream.isatty() and os.environ.get("TERM") != "dumb" and not old_windows


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
        self.reached: tuple[int, int | None] = (0, None)
        self.bar: Any = None

    def progress(self, stage: str, done: int, total: int) -> None:
        """Follow ``(stage, 0, 0)`` at the beginning of a stage to ``(stage, 1, 1)`` at its end."""
        if self.style == "quiet":
            return
        if (done, total) == (0, 0):
            self._close_bar()
            self.stage, self.begin, self.last = stage, time.perf_counter(), 0.0
            self.reached = (0, None)
            if self.style == "json":
                self._stand()
            elif self.style == "bar":
                self._open_bar()
        elif stage == self.stage and (done, total) == (1, 1):
            self._finish()
        elif stage == self.stage:
            self.reached = (done, total or None)
            if self.style == "bar":
                self._move_bar()
            elif self.style == "json" and time.perf_counter() - self.last >= EVERY:
                self._stand()

    def _stand(self) -> None:
        """Report how far the stage is; a total of null is unknown."""
        self.last = time.perf_counter()
        done, total = self.reached
        self._event("info", stage=self.stage, done=done, total=total, seconds=round(self.last - self.begin, 3))

    def _finish(self) -> None:
        self._close_bar()
        if self.style == "json":
            end = self.reached[1] or self.reached[0] or 1
            self.reached = (end, end)
            self._stand()
        else:
            self._write(f"{self.stage:<24}{time.perf_counter() - self.begin:8.2f} s")
        self.stage = ""

    def _open_bar(self) -> None:
        from tqdm import tqdm

        tqdm.monitor_interval = 0  # no thread of its own: stages report often enough
        self.bar = tqdm(
            desc=f"{self.stage:<24}",
            unit=UNITS.get(self.stage, ""),
            unit_scale=True,
            bar_format="{desc}[{elapsed}]",
            dynamic_ncols=True,
            leave=False,  # the line with the seconds takes its place
            file=self.stream,
        )

    def _move_bar(self) -> None:
        done, total = self.reached
        known = "{desc}{percentage:3.0f}%|{bar}| [{elapsed}<{remaining}, {rate_fmt}]"
        self.bar.bar_format = known if total else "{desc}{n_fmt}{unit} [{elapsed}, {rate_fmt}]"
        self.bar.total = total
        self.bar.update(done - self.bar.n)

    def _close_bar(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def close(self) -> None:
        """Clean up the line, wherever the run ended."""
        self._close_bar()
        self.stage = ""

    def note(self, text: str) -> None:
        """A line for people."""
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
        self._close_bar()
        if self.style == "json":
            self._event("info" if status == 0 else "error", message=message, status=status)

    def _say(self, level: str, message: str, **more: Any) -> None:
        self._close_bar()
        message = " ".join(message.split())
        if self.style == "json":
            self._event(level, message=message, **more)
        else:
            label = f"ies-gpu: {level}:"
            text = fold(f"{label} {message}", max(40, shutil.get_terminal_size().columns), "  ")
            self._write(coloured(label, level, self.stream) + text.removeprefix(label))

    def _event(self, level: str, **content: Any) -> None:
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
