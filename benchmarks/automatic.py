"""Is the automatic choice as good as the published? ``python -m benchmarks.automatic [--seeds 0 1] [--sets D1 D7]``.

Everything is automatic in one run. The quality of a set is the worst R^2 of a true coordinate predicted from it by
leave-one-out 10-nearest-neighbour regression (an angle: mean of its cosine and sine). "Good" is at most .05 below the
quality at the published parameters; for the molecules, whose torsions are the truth, .85 for both. "Fits" is its
processor time in units of one fit with the numbers that it found; the goal is 4. The forecast is that of
``ies-gpu fit --dry-run``; what loading the libraries takes by it is added to the time that was needed.
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
from ies_gpu.cli import build_parser
from ies_gpu.cli.dry_run import estimate
from ies_gpu.resources import LOADING

from .measure import keep, kept
from .sets import named
from .strangers import quality

SETS = tuple(f"D{k}" for k in range(1, 13))
MOLECULES = ("ethanol", "malondialdehyde")
DATA = Path(os.environ.get("IES_GPU_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
COLUMNS = ("set", "seed", "bandwidth / published", "d", "chosen", "published", "R²", "published", "")
COLUMNS += ("verdict", "fits", "seconds", "forecast", "forecast / seconds")


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
    row: dict[str, Any] = {"name": name, "seed": seed, "published": None, "published_subset": None}
    if is_molecule := name in MOLECULES:
        X, truth = molecule(name, seed)
        bandwidth, aim = 0.68, 0.85
    else:
        data = datasets.load(name, random_state=seed)
        X, truth, bandwidth = data.X, data.colors, data.bandwidth
        given = {"bandwidth": bandwidth, "intrinsic_dim": data.intrinsic_dim, "subset_size": data.subset_size}
    row["forecast"] = forecast(X, n_threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row["seconds"], found = processor_time(X, n_threads)
        auto = found.diagnostics["automatic"]
        once, _ = processor_time(X, n_threads, disconnected="largest", **auto["chosen"])
        if not is_molecule:
            _, published = processor_time(X, n_threads, **given)
            row["published"] = quality(published.embedding, truth, published.points)
            row["published_subset"], aim = published.subset, row["published"] - 0.05
    row |= {"quality": quality(found.embedding, truth, found.points), "subset": found.subset}
    row |= {"ratio": auto["bandwidth"] / bandwidth, "fits": row["seconds"] / once, "verdict": found.verdict}
    return row | {"good": row["quality"] >= aim, "automatic": auto}


def forecast(X: np.ndarray, n_threads: int | None) -> float:
    """Seconds that are foretold."""
    args = build_parser("fit").parse_args(["fit", "x.npy", *(["--threads", str(n_threads)] if n_threads else [])])
    return estimate(X, args)[1].seconds or np.nan


def processor_time(X: np.ndarray, n_threads: int | None, **given: Any) -> tuple[float, Selection]:
    """Seconds of all threads in one call, and its result."""
    begin = time.process_time()
    found = select_coordinates(X, n_threads=n_threads, device="cpu", **given)
    return time.process_time() - begin, found


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    auto, paper = row["automatic"], "" if row["published"] is None else named(row["published_subset"])
    cells = [row["name"], row["seed"], f"{row['ratio']:.2f}", auto["intrinsic_dim"], named(row["subset"]), paper]
    cells += [f"{row['quality']:.2f}", "" if row["published"] is None else f"{row['published']:.2f}"]
    cells += ["good" if row["good"] else "**missed**", row["verdict"], f"{row['fits']:.1f}"]
    needed = row["seconds"] + LOADING
    cells += [f"{needed:.1f}", f"{row['forecast']:.1f}", f"{row['forecast'] / needed:.2f}"]
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="python -m benchmarks.automatic")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--sets", nargs="+", default=[*SETS, *MOLECULES])
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--json", help="append each row to this file, and take from it those already there")
    options = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
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
