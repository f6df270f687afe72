"""A figure that a notebook shows without a window, apart from the rest because it needs Matplotlib."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class Picture(Figure):
    """A figure that belongs to no window; a notebook shows it as the last expression of a cell."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()
