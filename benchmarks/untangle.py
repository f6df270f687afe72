"""What untangling changes on D1 to D12: ``python -m benchmarks.untangle rows.jsonl --n 2000 --seeds 100-119``.

Each line of the file is a run: R2 of the worst true coordinate by ten nearest neighbours, M2 to the truth and what
``diagnose`` finds wrong, of the eigenvectors and of the turned coordinates, and the last coordinate of both at places
that all samples of a set have in common. ``--table`` sums up a file. Bandwidths grow as the points get fewer.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from benchmarks.paper.procrustes import procrustes_error
from ies_gpu import Selection, datasets, diagnose, select_coordinates

PLACES = 400
SAME = 0.9  # correlation from which on two samples have the same coordinate
CLEAR, WORSE = 0.003, 0.01  # of R2 or M2


def worst_r2(truth: np.ndarray, Y: np.ndarray) -> float:
    """R2 of the true coordinate that the ten nearest neighbours in a map predict worst."""
    Z = Y / Y.std(axis=0)
    near = cKDTree(Z).query(Z, 11)[1][:, 1:]
    return float(1 - (((truth - truth[near].mean(axis=1)) ** 2).mean(axis=0) / truth.var(axis=0)).max())


def fitted(name: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, Selection]:
    """Points and truth of a sample, as far as they are used, and the result."""
    data = datasets.load(name, n_samples=n, random_state=seed)
    bandwidth = 1.3 * data.bandwidth * (4000 / n) ** (1 / (data.intrinsic_dim + 4))
    found = select_coordinates(
        data.X, intrinsic_dim=data.intrinsic_dim, subset_size=data.subset_size, bandwidth=bandwidth, keep_bases=True,
        disconnected="largest", device="cpu",
    )  # fmt: skip
    return data.X, data.truth[found.points], found


def row(name: str, n: int, seed: int) -> dict[str, Any]:
    """One run before and after the turn."""
    X, truth, found = fitted(name, n, seed)
    places = datasets.load(name, n_samples=PLACES, random_state=0).truth
    near = cKDTree(truth).query(places, 5)[1]
    codes = [finding.code for finding in found.findings]
    line: dict[str, Any] = {"set": name, "n": n, "seed": seed, "turned": found.rotation is not None}
    line |= {"new_choice": "untangle.new_choice" in codes, "seconds": found.diagnostics["seconds"]}
    for when, Y in (("before", found.coordinates[:, list(found.subset)]), ("after", found.embedding)):
        seen = diagnose(found, X=X, subset=found.names if when == "before" else None)
        line[when] = {"r2": worst_r2(truth, Y), "m2": procrustes_error(truth, Y), "knots": sum(seen.counts.values())}
        line[when]["last"] = np.round(Y[near, -1].mean(axis=1), 4).tolist()
    return line


def same(lines: list[dict[str, Any]], when: str) -> float:
    """The largest share of samples whose last coordinate is that of one of them."""
    likeness = np.abs(np.corrcoef([line[when]["last"] for line in lines]))
    return float((np.atleast_2d(likeness) > SAME).mean(axis=1).max())


def table(lines: list[dict[str, Any]]) -> None:
    """Print a line per set and number of points, and one for all."""
    print("| set | n | runs | turned | new choice | R2 | largest loss | M2 | M2 worse | faults | same coordinate |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, n in [*dict.fromkeys((line["set"], line["n"]) for line in lines), ("all", 0)]:
        own = [line for line in lines if n in (0, line["n"]) and name in ("all", line["set"])]
        r2, m2, knots = (
            np.array([[line[when][what] for when in ("before", "after")] for line in own])
            for what in ("r2", "m2", "knots")
        )
        gain, grown = r2[:, 1] - r2[:, 0], m2[:, 1] - m2[:, 0]
        shares = "" if n == 0 else " to ".join(f"{same(own, when):.2f}" for when in ("before", "after"))
        print(
            f"| {name} | {n or ''} | {len(own)} | {sum(line['turned'] for line in own)} "
            f"| {sum(line['new_choice'] for line in own)} | {r2[:, 0].mean():.3f} to {r2[:, 1].mean():.3f} "
            f"| {max(0.0, -gain.min()):.4f} | {m2[:, 0].mean():.3f} to {m2[:, 1].mean():.3f} | {(grown > WORSE).sum()} "
            f"| {(knots[:, 0] > 0).sum()} to {(knots[:, 1] > 0).sum()} | {shares} |"
        )
    counted = [(gain > CLEAR).sum(), (gain < -CLEAR).sum(), (gain < -WORSE).sum(), (grown < -WORSE).sum()]
    print(f"\nR2 better by {CLEAR}: {counted[0]}, worse by {CLEAR}: {counted[1]}, by {WORSE}: {counted[2]}")
    print(f"M2 better by {WORSE}: {counted[3]}, at worst {grown.max():+.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--sets", default=",".join(f"D{k}" for k in range(1, 13)))
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--seeds", default="100-104")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        lines = [json.loads(line) for line in args.file.read_text().splitlines()]
        order = [f"D{k}" for k in range(1, 13)]
        return table(sorted(lines, key=lambda line: (order.index(line["set"]), line["n"], line["seed"])))
    warnings.simplefilter("ignore")
    first, _, last = args.seeds.partition("-")
    for seed in range(int(first), int(last or first) + 1):
        for name in args.sets.split(","):
            with args.file.open("a") as file:
                file.write(json.dumps(row(name, args.n, seed)) + "\n")


if __name__ == "__main__":
    main()
