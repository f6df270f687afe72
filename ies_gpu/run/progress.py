"""Progress as bars, in a terminal or a notebook."""

import sys
import warnings
from functools import cache
from typing import IO, Any

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

    def write(self, message: str) -> None:
        """Write a sentence above the bar."""
        tqdm().write(message, file=sys.stderr)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


@cache
def tqdm() -> Any:
    """Return the bar that suits the place: a widget where a notebook has ipywidgets, text elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # text is fine
        from tqdm.auto import tqdm

    tqdm.monitor_interval = 0  # no thread of its own: stages report often enough
    return tqdm
