"""The paper's synthetic manifolds D1 to D13."""

from __future__ import annotations

from .synthetic import Dataset, load, names

__all__ = ["Dataset", "load", "names"]
