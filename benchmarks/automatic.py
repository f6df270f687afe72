"""Is the automatic choice as good as the published? ``python -m benchmarks.automatic [--seeds 0 1] [--sets D1 D7]``.

Everything is automatic in one run. The quality of a set is the worst R^2 of a true coordinate predicted from it by
leave-one-out 10-nearest-neighbour regression (an angle: mean of its cosine and sine). "Good" is at most .05 below the
quality at the published parameters; for the molecules, whose torsions are the truth, .85 for both. "Fits" is its
processor time in units of one fit with the numbers that it found; the goal is 4.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from ies_gpu import Selection, datasets, select_coordinates

from .measure import keep, kept
from .sets import named
from .strangers import quality

SETS = tuple(f"D{k}" for k in range(1, 13))
MOLECULES = ("ethanol", "malondialdehyde")
DATA = Path(os.environ.get("IES_GPU_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
MARKS = {"e": "bandwidth.narrow", "d": "dimension.close", "s": "size.largest_tried", "r": "search.regret"}


def molecule(name: str, seed: int, n: int = 10_000) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Evenly spaced frames as 50 principal components of all planar angles, and both torsions; seeds shift frames."""
    with np.load(DATA / name / f"{name}_sgdml_md.npz") as file:
        R, tau = file["R"].astype(np.float64), file["tau"]
    step = len(R) / n
    frames = (np.arange(n) * step + (3 * seed) % int(step)).astype(int)
    X = PCA(50, random_state=0).fit_transform(datasets.planar_angles(R[frames]))
    return X, {"tau1": tau[frames, 0], "tau2": tau[frames, 1]}


def case(name: str, seed: int, n_threads: int | None) -> dict[str, Any]:
    """One set: automatic, and at the published parameters."""
    if name in MOLECULES:
        X, truth = molecule(name, seed)
    else:
        data = datasets.load(name, random_state=seed)
        X, truth = data.X, data.colors
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds, found = processor_time(X, n_threads)
        auto = found.diagnostics["automatic"]
        once, _ = processor_time(X, n_threads, disconnected="largest", **auto["chosen"])
        aim = 0.85
        row: dict[str, Any] = {"name": name, "seed": seed, "published": None, "published_subset": None}
        if name not in MOLECULES:
            reference = select_coordinates(
                X, bandwidth=data.bandwidth, intrinsic_dim=data.intrinsic_dim, subset_size=data.subset_size,
                n_threads=n_threads, device="cpu",
            )  # fmt: skip
            row["published"], row["published_subset"] = (
                quality(reference.embedding, truth, reference.points),
                reference.subset,
            )
            aim = row["published"] - 0.05
    ratio = auto["bandwidth"] / (data.bandwidth if name not in MOLECULES else 0.68)
    row |= {
        "quality": quality(found.embedding, truth, found.points),
        "subset": found.subset,
        "ratio": ratio,
        "seconds": seconds,
    }
    row["fits"] = seconds / once
    row |= {"good": row["quality"] >= aim, "automatic": auto, "codes": [finding.code for finding in found.findings]}
    return row


def processor_time(X: np.ndarray, n_threads: int | None, **given: Any) -> tuple[float, Selection]:
    """Seconds of all threads in one call, and its result."""
    begin = time.process_time()
    found = select_coordinates(X, n_threads=n_threads, device="cpu", **given)
    return time.process_time() - begin, found


def line(row: dict[str, Any]) -> str:
    auto = row["automatic"]
    published, paper = "  - ", "-"
    if row["published"] is not None:
        published, paper = f"{row['published']:4.2f}", named(row["published_subset"])
    marks = "".join(mark for mark, code in MARKS.items() if code in row["codes"])
    return (
        f"{row['name']:<16}{row['seed']:>2}  {row['ratio']:5.2f} {auto['intrinsic_dim']:>2} {auto['subset_size']:>2}  "
        f"{named(row['subset']):<12}{row['quality']:5.2f}   {paper:<9}{published}  "
        f"{'good' if row['good'] else 'MISS':<5}{row['seconds']:5.0f} {row['fits']:5.1f}  {marks}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="python -m benchmarks.automatic")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--sets", nargs="+", default=[*SETS, *MOLECULES])
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--json", help="append each row to this file, and take from it those already there")
    options = parser.parse_args()
    print("set            seed  f      d  s  chosen        q    published   q   within  s  fits warns")
    print("(f: bandwidth over the published one, .68 for molecules; s: CPU seconds; fits: these over those of one fit;")
    print(" warns: e narrow bandwidth, d dimension, s size at its cap, r regret)")
    processor_time(datasets.load("D1", n_samples=6000).X, options.threads)  # compiles
    done = {(row["name"], row["seed"]): row for row in kept(options.json)}
    rows = []
    for seed in options.seeds:
        for name in options.sets:
            if name in MOLECULES and not (DATA / name).exists():
                continue
            old = done.get((name, seed))
            rows.append(old or case(name, seed, options.threads))
            print(line(rows[-1]), flush=True)
            if not old:
                keep(options.json, rows[-1])
    for kind, members in (("synthetic sets", SETS), ("molecules", MOLECULES)):
        own = [row for row in rows if row["name"] in members]
        if own:
            print(f"{kind}: {sum(row['good'] for row in own)} of {len(own)} good")


if __name__ == "__main__":
    main()
