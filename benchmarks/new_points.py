"""How well new points fit into a map: ``python -m benchmarks.new_points [--sets D1,D3,D7] [--n 10000] [--seed 0]``.

A tenth of the points is held out. The others are embedded, and the held-out ones put into that map by the Nystrom
extension. For comparison all points are embedded together. The two maps differ by the sample, and by rotations where
eigenvalues nearly coincide: a linear map between their columns, fitted on the training points alone, takes the joint
map to the other. What is left on the training points is the difference between the two maps themselves, which no
extension can undo; what is left on the held-out points is to be compared with it.
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import numpy as np
from scipy.spatial import KDTree

from ies_gpu import (
    datasets,
    diffusion_map,
    laplacian_of_points,
    select_coordinates,
)


class Row(NamedTuple):
    """Root mean square differences from the joint map, as a share of the spread of the coordinates."""

    name: str
    chosen: tuple[str, ...]
    training: float  # between the two maps, on the training points
    extension: float  # of the extension, on the held-out points
    nearest: float  # of the nearest training point's coordinates, on the held-out points
    returned: float  # largest error of the extension of a training point
    isolated: int
    seconds: float


def held_out(name: str, n: int = 10_000, seed: int = 0) -> Row:
    """One data set at the paper's parameters, with the bandwidth adapted to the number of points."""
    data = datasets.load(name, n_samples=n, random_state=seed)
    full = len(datasets.load(name).X)
    bandwidth = data.bandwidth * (full / n) ** (1 / data.intrinsic_dim)
    out = np.random.default_rng(seed).permutation(n) < n // 10
    X = data.X[~out]
    sizes = {"intrinsic_dim": data.intrinsic_dim, "subset_size": data.subset_size}
    selection = select_coordinates(X, bandwidth=bandwidth, device="cpu", **sizes)
    model = selection.model(X)
    begin = time.perf_counter()
    new = model.transform(data.X[out])
    seconds = time.perf_counter() - begin
    joint = diffusion_map(laplacian_of_points(data.X, bandwidth=bandwidth)).coordinates
    # the joint eigenvectors that span the chosen ones: neighbours in the spectrum may have changed places
    near = sorted({j for k in selection.subset for j in range(max(0, k - 2), min(20, k + 3))})
    to_training = np.linalg.lstsq(joint[~out][:, near], selection.embedding, rcond=None)[0]
    expected = joint[:, near] @ to_training
    spread = np.sqrt((selection.embedding**2).mean(axis=0))

    def difference(found: np.ndarray, rows: np.ndarray) -> float:
        return float(np.sqrt(np.nanmean(((found - expected[rows]) / spread) ** 2)))

    nearest = selection.embedding[KDTree(X).query(data.X[out])[1]]
    back = model.transform(X) - selection.embedding
    return Row(
        name,
        selection.names,
        difference(selection.embedding, ~out),
        difference(new, out),
        difference(nearest, out),
        float(np.abs(back / spread).max()),
        int(np.isnan(new).any(axis=1).sum()),
        seconds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="D1,D3,D7")
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(
        "| set | chosen | two maps, training | extension, held out | nearest, held out | training points | alone | s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name in options.sets.split(","):
        row = held_out(name, options.n, options.seed)
        errors = f"{row.training:.2%} | {row.extension:.2%} | {row.nearest:.2%} | {row.returned:.0e}"
        print(f"| {name} | {', '.join(row.chosen)} | {errors} | {row.isolated} | {row.seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()
