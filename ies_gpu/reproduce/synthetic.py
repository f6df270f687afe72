"""The paper's synthetic manifolds: all of its tables and figures about D1 to D13."""

from __future__ import annotations

from pathlib import Path

from ..stages import Progress
from .book import Book


def run(book: Book, *, full: bool, device: str, data: Path | None, progress: Progress | None) -> None:
    """Fill the book; D13 at full size only with ``full``."""
