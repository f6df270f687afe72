"""The stage that finds tangent bases: the co-metric at every point and its leading eigenvectors."""

from __future__ import annotations

from typing import NamedTuple

from ...backend.array import Array
from ...choice.rmetric import tangents
from ...embedding.diffusion import Embedding
from ...embedding.laplacian import Laplacian
from ..audit import audit_tangents
from ..log import Report
from ..stage import Run, Stage


class Tangents(NamedTuple):
    """Tangent bases (n, m, d) of the co-metric and its leading singular values (n, d), in the order of the device."""

    bases: Array
    singular_values: Array


def tangent_bases(run: Run, report: Report, laplacian: Laplacian, embedding: Embedding) -> Tangents:
    """U and sigma at every point."""
    Y = embedding.coordinates.astype(run.options.arithmetic, copy=False)
    return Tangents(*tangents(Y, laplacian, run.options.intrinsic_dim, run.backend, report))


def tangent_difference(run: Run, found: Tangents, laplacian: Laplacian, embedding: Embedding) -> float | None:
    """A sample against plain code; tiles are plain code already."""
    if not laplacian.operator.has_matrix:
        return None
    Y = embedding.coordinates.astype(run.options.arithmetic, copy=False)
    return audit_tangents(laplacian, Y, *found, run.backend)


TANGENTS = Stage(
    "tangents", tangent_bases, kernel="tangent_rows", difference=tangent_difference, precision="arithmetic",
    pack=lambda run, found: found._asdict(), after="eigenvectors",
    unpack=lambda run, content, *_: Tangents(*(run.backend.asarray(content[name]) for name in Tangents._fields)),
)  # fmt: skip
