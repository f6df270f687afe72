"""The first call of two trees on the same data: worst R^2, verdict and processor seconds, side by side.

Nothing is given but the points: D1 to D13, the molecules where their data are there, and nine sets as a stranger brings
them. Only names that both trees have are used, so that the script runs in each of them:

    PYTHONPATH=../before python benchmarks/before_after.py run before.json
    PYTHONPATH=. python benchmarks/before_after.py run after.json
    python benchmarks/before_after.py table before.json after.json
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets as theirs
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

DATA = Path(os.environ.get("IES_GPU_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
ANGLES = ("alpha", "beta", "tau")  # and with a number
N = 5_000
MOLECULES = {"ethanol": "ethanol_sgdml_md", "malondialdehyde": "malondialdehyde_sgdml_md"}
MOLECULES |= {"aspirin": "aspirin_sgdml_md", "chloromethane": "sn2_xtb_md"}
Truth = dict[str, np.ndarray]


def paper_sets() -> Iterator[tuple[str, np.ndarray, Truth]]:
    """D1 to D13."""
    from ies_gpu import datasets

    for k in range(1, 14):
        data = datasets.load(f"D{k}", n_samples=N, random_state=0)
        yield f"D{k}", data.X, data.colors


def molecules() -> Iterator[tuple[str, np.ndarray, Truth]]:
    """Evenly spaced frames as 50 principal components of all planar angles; torsions, or the reaction coordinate."""
    from ies_gpu import datasets

    for name, file in MOLECULES.items():
        if not (DATA / name).exists():
            continue
        with np.load(DATA / name / f"{file}.npz") as content:
            frames = np.linspace(0, len(content["R"]) - 1, N).astype(int)
            R = content["R"][frames].astype(np.float64)
            truth = {"q": content["q"][frames]} if "q" in content else {}
            if "tau" in content:
                truth = {f"tau{k + 1}": tau for k, tau in enumerate(content["tau"][frames].T)}
        yield name, PCA(50, random_state=0).fit_transform(datasets.planar_angles(R)), truth


def strangers() -> Iterator[tuple[str, np.ndarray, Truth]]:
    """Nine sets of scikit-learn, the real ones scaled where their columns have units."""
    for name in ("iris", "wine", "breast_cancer", "diabetes", "digits"):
        X = getattr(theirs, f"load_{name}")().data
        yield name, StandardScaler().fit_transform(X) if name in ("wine", "breast_cancer") else X, {}
    for name in ("swiss_roll", "s_curve"):
        X, t = getattr(theirs, f"make_{name}")(1500, random_state=0)
        yield name, X, {"t": t, "y": X[:, 1]}
    yield "moons", theirs.make_moons(600, noise=0.01, random_state=0)[0], {}
    yield "blobs", theirs.make_blobs(600, centers=3, cluster_std=0.4, random_state=1)[0], {}


def worst(Y: np.ndarray, truth: Truth) -> float | None:
    """Return the worst R^2 of a true coordinate by its 10 nearest others in a map; None without a truth."""
    near = NearestNeighbors(n_neighbors=10).fit(Y / Y.std(axis=0)).kneighbors(return_distance=False)
    found = []
    for name, values in truth.items():
        columns = [np.cos(values), np.sin(values)] if name.rstrip("1234") in ANGLES else [values]
        found.append(np.mean([1 - ((v - v[near].mean(axis=1)) ** 2).mean() / v.var() for v in columns]))
    return float(min(found)) if found else None


def called(name: str, X: np.ndarray, truth: Truth) -> dict[str, Any]:
    """Return what one call with nothing given says, as plain values."""
    from ies_gpu import DisconnectedGraphError, select_coordinates

    row: dict[str, Any] = {"name": name, "n": len(X)}
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = select_coordinates(X, device="cpu")
        except DisconnectedGraphError:
            return row | {"verdict": "in parts", "seconds": time.process_time() - begin}
    row |= {"seconds": time.process_time() - begin, "verdict": found.verdict, "names": list(found.names)}
    return row | {"worst": worst(found.embedding, {key: values[found.points] for key, values in truth.items()})}


def run(target: str) -> None:
    """Call every set that the file does not have yet, and append a line for each."""
    file = Path(target)
    done = [json.loads(line)["name"] for line in file.read_text().splitlines()] if file.exists() else []
    called("", np.random.default_rng(0).uniform(size=(6_000, 2)) * [3, 1], {})  # compiles
    for kind in (strangers, paper_sets, molecules):
        for name, X, truth in kind():
            if name not in done:
                with file.open("a") as lines:
                    lines.write(json.dumps(called(name, X, truth)) + "\n")


def table(before: str, after: str) -> None:
    """Print both files as one table in Markdown."""
    old, new = ([json.loads(line) for line in Path(file).read_text().splitlines()] for file in (before, after))
    names = ["data", "points", *(word for what in ("R²", "verdict", "seconds", "chosen") for word in (what, "after"))]
    print("| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    for a, b in zip(old, new, strict=True):
        assert a["name"] == b["name"]
        cells = [["-" if row.get("worst") is None else f"{row['worst']:.2f}" for row in (a, b)]]
        cells += [[row["verdict"] for row in (a, b)], [f"{row['seconds']:.1f}" for row in (a, b)]]
        cells += [[", ".join(row.get("names", [])) for row in (a, b)]]
        print(f"| {a['name']} | {a['n']:,} | " + " | ".join(cell for pair in cells for cell in pair) + " |")


if __name__ == "__main__":
    {"run": run, "table": table}[sys.argv[1]](*sys.argv[2:])
