"""What float32 and mixed precision cost: ``python -m benchmarks.precision`` prints the table of results/precision.md.

Each data set of the paper (n = 10,000) is run in float64, mixed and float32 on the CPU, and compared with float64 at a
tolerance of 1e-12. The numbers are rounding, so they move by a factor from machine to machine.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from ies_gpu import Selection, datasets, select_coordinates

DTYPES = ("float64", "mixed", "float32")
SOUND = -2.0  # mean scores above this are not the logarithm of rounding


class Cost(NamedTuple):
    """A run against a reference."""

    same_set: bool
    same_path: bool
    score: float  # largest difference of mean scores above SOUND
    eigenvalue: float  # largest difference
    vector: float  # largest entry of a difference of unit eigenvectors
    residual: float  # largest


def compare(found: Selection, reference: Selection) -> Cost:
    """What the one lost against the other."""
    scores, expected = (in_order(selection) for selection in (found, reference))
    sound = expected > SOUND
    return Cost(
        found.subset == reference.subset,
        [segment.subset for segment in found.path] == [segment.subset for segment in reference.path],
        float(np.abs(scores - expected)[sound].max()),
        float(np.abs(found.eigenvalues - reference.eigenvalues).max()),
        float(np.abs(found.coordinates - reference.coordinates).max()),
        float(max(found.diagnostics["residuals"])),
    )


def in_order(selection: Selection) -> np.ndarray:
    """Mean scores of all sets in lexicographic order."""
    return selection.ranking.scores[np.lexsort(selection.ranking.subsets.T[::-1])]


def measure(name: str, n_samples: int | None = None, dtypes: tuple[str, ...] = DTYPES) -> dict[str, Cost]:
    """The cost of each precision on one data set; with fewer points the bandwidth keeps the degrees."""
    data, usual = datasets.load(name, n_samples=n_samples), len(datasets.load(name).X)
    bandwidth = data.bandwidth * (usual / len(data.X)) ** (1 / data.intrinsic_dim)
    arguments = {"intrinsic_dim": data.intrinsic_dim, "subset_size": data.subset_size, "bandwidth": bandwidth}
    reference = select_coordinates(data.X, device="cpu", tol=1e-12, **arguments)
    return {
        dtype: compare(select_coordinates(data.X, device="cpu", dtype=dtype, **arguments), reference)
        for dtype in dtypes
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["D1", "D6", "D7"])
    names = parser.parse_args().names
    print("| data | precision | set, path | scores above -2 | eigenvalues | eigenvectors | residuals |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        for dtype, cost in measure(name).items():
            same = "both equal" if cost.same_set and cost.same_path else f"{cost.same_set}, {cost.same_path}"
            numbers = " | ".join(f"{value:.1e}" for value in cost[2:])
            print(f"| {name} | {dtype} | {same} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
