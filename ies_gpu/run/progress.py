"""``progress=True``: a bar per stage, in a terminal or a notebook."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from functools import cache
from typing import IO, Any

from ..findings import refusal

Progress = Callable[[str, int, int], None]


UNITS = {"eigenvectors": " steps", "tangents": " points", "search": " points"}  # what a stage counts
BEGUN, COUNTED = "{desc}[{elapsed}]", "{desc}{n_fmt}{unit} [{elapsed}, {rate_fmt}]"
SHARE = "{desc}{percentage:3.0f}%|{bar}| [{elapsed}<{remaining}, {rate_fmt}]"


class Bar:
    """What ``progress(stage, done, total)`` reports as a bar of tqdm, which leaves nothing behind."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream
        self.bar: Any = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        if (done, total) == (0, 0) or self.bar is None:
            self.close()
            about = {"desc": f"{stage:<24}", "unit": UNITS.get(stage, ""), "unit_scale": True, "bar_format": BEGUN}
            self.bar = tqdm()(**about, leave=False, dynamic_ncols=True, file=self.stream)
        if (done, total) == (1, 1):
            self.close()
        elif done or total:
            self.bar.total, self.bar.bar_format = total or None, SHARE if total else COUNTED
            self.bar.update(done - self.bar.n)

    def close(self) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None


def listener(progress: Progress | bool | None) -> Progress | None:
    """The function to call: yours, a bar for True, none for False."""
    if progress is True:
        return Bar()
    if progress is None or progress is False:
        return None
    if not callable(progress):
        text = f"progress must be True or a function of (stage, done, total), got {progress!r}"
        raise refusal("progress.type", text, kind=TypeError)
    return progress


def say(message: str, *, visibly: bool) -> None:
    """A sentence above the bar, or in the log."""
    if visibly:
        tqdm().write(message, file=sys.stderr)
    else:
        logging.getLogger("ies_gpu").info(message)


@cache
def tqdm() -> Any:
    """The bar that suits the place: a widget where a notebook has ipywidgets, text elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # text is fine
        from tqdm.auto import tqdm

    return tqdm
