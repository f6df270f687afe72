"""Figures that a notebook shows by itself, each once, in the order in which they were made."""

from __future__ import annotations

import io
import sys
from typing import Any

from matplotlib.figure import Figure

_waiting: list[Picture] = []  # made in the cell that runs, not shown yet


class Picture(Figure):
    """A figure that belongs to no window; a notebook shows it without ``%matplotlib inline``."""

    def savefig(self, *args: Any, **options: Any) -> None:
        _forget(self)  # you know where it is
        super().savefig(*args, **options)

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        super().savefig(file, format="png")
        return file.getvalue()

    def _ipython_display_(self) -> None:
        earlier = _waiting[: _waiting.index(self)] if self in _waiting else []
        for figure in [*earlier, self]:
            _show(figure)


def await_cell(figure: Any) -> Any:
    """Return the figure; the end of the notebook's cell, if one is running, shows it unless that was done before."""
    shell = _kernel_shell()
    if shell is not None and isinstance(figure, Picture):
        if _show_waiting not in shell.events.callbacks["post_run_cell"]:
            shell.events.register("post_run_cell", _show_waiting)
        _waiting.append(figure)
    return figure


def _kernel_shell() -> Any:
    """The shell of a notebook; None in a script or a terminal."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return shell if hasattr(shell, "kernel") else None


def _show_waiting(*_: Any) -> None:
    for figure in list(_waiting):
        _show(figure)


def _show(figure: Picture) -> None:
    from IPython.display import display  # type: ignore[import-not-found, unused-ignore]

    _forget(figure)
    display({"image/png": figure._repr_png_(), "text/plain": repr(figure)}, raw=True)


def _forget(figure: Picture) -> None:
    if figure in _waiting:
        _waiting.remove(figure)
