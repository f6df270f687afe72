"""How long each stage would take on a GPU at the very least: ``python -m benchmarks.roofline`` prints a table.

An estimate, not a measurement: bytes that must be moved and operations that must be done, by formula, divided by the
peak figures that NVIDIA prints. Real kernels reach a part of them, often a third to two thirds. Launches and waits are
those that were counted without a GPU, at an assumed time each. It can tell which stages memory bounds and which
arithmetic, and what a precision can win.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

DTYPES = ("float32", "mixed", "float64")
INDEX = 4  # bytes of a column number
LAUNCH, WAIT = 5e-6, 20e-6  # seconds, assumed


class Card(NamedTuple):
    """Peak figures: bytes a second, operations a second in float32 and in float64 (no tensor cores)."""

    name: str
    bandwidth: float
    single: float
    double: float
    source: str


CARDS = (
    Card("A100", 2.039e12, 19.5e12, 9.7e12, "NVIDIA A100 datasheet, SXM, 80 GB"),
    Card("RTX 4090", 1.008e12, 82.6e12, 82.6e12 / 64, "NVIDIA Ada GPU architecture whitepaper; float64 at 1/64"),
)


class Work(NamedTuple):
    """What a stage moves and computes."""

    bytes: float
    single: float = 0.0
    double: float = 0.0

    def __add__(self, other: Work) -> Work:  # type: ignore[override]
        return Work(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, factor: float) -> Work:
        return Work(*(factor * part for part in self))

    def seconds(self, card: Card) -> float:
        return max(self.bytes / card.bandwidth, self.arithmetic(card))

    def arithmetic(self, card: Card) -> float:
        return self.single / card.single + self.double / card.double


@dataclass(frozen=True)
class Problem:
    """Sizes: n points in D columns with ``degree`` neighbours, m eigenvectors, d, s; and counts that depend on data.

    ``candidates`` are the points that the graph compares with each point. Of the eigensolver, counted in a run of
    200,000 points on an earlier stand-in for CuPy: ``iterations`` of the finest level, ``products`` of S with a vector,
    ``coarse`` those of its coarse forms in vectors of length n, ``waits`` and ``launches`` of the whole run.
    """

    n: int = 1_000_000
    columns: int = 3
    degree: float = 120
    m: int = 20
    d: int = 2
    s: int = 2
    candidates: float = 520
    iterations: int = 18
    products: int = 1_200
    coarse: float = 1_860.0
    launches: int = 16_700
    waits: int = 262

    @property
    def nnz(self) -> float:
        return self.n * (self.degree + 1)

    @property
    def block(self) -> int:
        """Vectors that the eigensolver works on: those wanted, the constant one and guards."""
        return self.m + 12

    @property
    def coarse_degree(self) -> float:
        """Entries per row where the columns are cells of eight points: those that a disc of the radius touches."""
        return float(np.pi * (np.sqrt(self.degree / (8 * np.pi)) + 0.8) ** 2)

    @property
    def sets(self) -> int:
        return int(np.prod([(self.m - k) / k for k in range(1, self.s)]).round())


def stored(dtype: str) -> int:
    """Bytes of what is as large as the graph."""
    return 8 if dtype == "float64" else 4


def arithmetic(dtype: str) -> int:
    """Bytes of tangent bases and scores."""
    return 4 if dtype == "float32" else 8


def in_dtype(moved: float, operations: float, itemsize: int) -> Work:
    return Work(moved, operations) if itemsize == 4 else Work(moved, 0.0, operations)


def graph(p: Problem, dtype: str) -> Work:
    """``near_pairs``, up to 32 columns: each pair of points in near cells twice, to count and to write, in float64.

    A cell of 64 points reads the points of the others once for all of its own.
    """
    pairs = 2 * p.n * p.candidates
    found = Work(p.nnz * (stored(dtype) + INDEX) + 2 * p.n * 8)
    return found + Work(pairs / 64 * p.columns * 8, 0.0, pairs * 3 * p.columns)


def product(n: float, nnz: float, k: int, item: int, vector: int = 8) -> Work:
    """``A V``: entries and their columns once, V and the result once; two operations an entry and column."""
    return in_dtype(nnz * (item + INDEX) + n * INDEX + 2 * n * k * vector, 2 * nnz * k, vector)


def laplacian(p: Problem, dtype: str) -> Work:
    """exp of each distance, two products for the weights, and a scaling of the entries."""
    item = stored(dtype)
    kernel = Work(2 * p.nnz * item, 0.0, 20 * p.nnz)  # an exp in float64 is about twenty operations
    scaling = Work(p.nnz * (2 * item + INDEX), 0.0, 2 * p.nnz)
    return kernel + product(p.n, p.nnz, 1, item).times(2) + scaling


def ritz(p: Problem) -> Work:
    """Rayleigh-Ritz of one outer iteration on k vectors X and 2k directions: inner products, then the update.

    X is float64; residuals, directions and images are float32. Both read all of them, and the second writes X, the
    residuals, and k directions with their images. The operations are those of matrix products in float64.
    """
    k, read = p.block, 8 + 4 + 4 * 4
    inner = 2 * p.n * k * k * (1 + 2 + 2 + 4 + 4)
    update = 2 * p.n * k * k * (2 * 2 + 4 + 2)
    return Work(p.n * k * (2 * read + 8 + 4 + 8), 0.0, inner + update)


def coarse_step(p: Problem) -> Work:
    """A step of conjugate gradients for one vector of length n on a coarse level, in float32, k of them at a time.

    The product, and 11 vectors read or written by its three kernels.
    """
    entries = p.n * p.coarse_degree
    return Work(entries * (4 + INDEX) / p.block + 11 * p.n * 4, 2 * entries + 8 * p.n)


def multilevel(p: Problem, dtype: str) -> Work:
    """The multilevel method: products of S in float32, Rayleigh-Ritz, and conjugate gradients on the coarse levels.

    S and its coarse forms are float32 in every precision. One product of two has the columns of S merged by cells.
    The last residuals are computed with P in float64, twice.
    """
    whole, merged = (product(p.n, entries, p.block, 4, 4).times(0.5 / p.block)
                     for entries in (p.nnz, p.n * p.coarse_degree))  # fmt: skip
    levels = Work(p.nnz * (stored(dtype) + INDEX + 4) + 2 * p.nnz * (4 + INDEX), 0.0, 2 * p.nnz)
    last = product(p.n, p.nnz, p.m + 1, stored(dtype)).times(2)
    work = (whole + merged).times(p.products) + ritz(p).times(p.iterations) + coarse_step(p).times(p.coarse)
    return levels + work + last


def cometric_operations(m: int) -> float:
    """For one neighbour: a difference, a weighted difference, and half of the outer product, added."""
    return m + m + m * (m + 1)


def eigen_operations(m: int) -> float:
    """Tridiagonal form with its basis (8/3 m^3) and implicit QL applied to it (about 3 m^3, of two sweeps a value)."""
    return 8 / 3 * m**3 + 6 * m**3


def tangents(p: Problem, dtype: str) -> Work:
    """Weights, columns and Y once (neighbours are near in memory), bases and values written."""
    item = arithmetic(dtype)
    moved = p.nnz * (stored(dtype) + INDEX) + p.n * (p.m + p.m * p.d + p.d) * item
    return in_dtype(moved, p.nnz * cometric_operations(p.m) + p.n * eigen_operations(p.m), item)


def score_operations(s: int, d: int) -> float:
    """Gram-Schmidt of one set's frame, s x d, as ``plain.volume_ratio`` does it, without the logarithm."""
    return sum((2 * s - 1) + k * (4 * s - 1) + (2 * s - 1) + 2 + s + 1 for k in range(d))


def scores(p: Problem, dtype: str) -> Work:
    """Bases once; the best set and its score of each point; the logarithms in float64."""
    item, pairs = arithmetic(dtype), p.n * p.sets
    work = in_dtype(p.n * (p.m * p.d * item + 4 + 8), pairs * score_operations(p.s, p.d), item)
    return work + Work(0.0, 0.0, 25 * pairs)


STAGES = {
    "graph": graph,
    "kernel, Laplacian": laplacian,
    "eigenvectors (multilevel)": multilevel,
    "tangent bases": tangents,
    "scores": scores,
}


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f}" if seconds >= 0.1 else f"{1e3 * seconds:.2g}"


def table(p: Problem) -> str:
    """Markdown: milliseconds at peak by stage, card and precision; * where arithmetic is the bound."""
    heads = [f"{card.name}, {dtype}" for card in CARDS for dtype in DTYPES]
    lines = ["| stage | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    totals = dict.fromkeys(heads, 0.0)
    for stage, formula in STAGES.items():
        cells = []
        for card in CARDS:
            for dtype in DTYPES:
                work = formula(p, dtype)
                seconds = work.seconds(card)
                totals[f"{card.name}, {dtype}"] += seconds
                mark = "\\*" if work.arithmetic(card) == seconds else ""
                cells.append(f"{milliseconds(seconds)}{mark}")
        lines.append(f"| {stage} | " + " | ".join(cells) + " |")
    around = p.launches * LAUNCH + p.waits * WAIT
    lines.append("| launches and waits | " + " | ".join([milliseconds(around)] * len(heads)) + " |")
    lines.append("| all | " + " | ".join(milliseconds(total + around) for total in totals.values()) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in vars(Problem()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    problem = Problem(**vars(parser.parse_args()))
    print(f"Milliseconds at peak, an estimate ({problem}):\n")
    print(table(problem))
    print("\nPeak figures: " + "; ".join(f"{card.name}: {card.source}" for card in CARDS) + ".")


if __name__ == "__main__":
    main()
