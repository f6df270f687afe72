"""The first call on many kinds of data: ``python -m benchmarks.strangers [--calibrate] [--json FILE]``.

Nothing is given but the points. For each set: the verdict, the chosen coordinates, and how well they tell the truth,
beside as many first eigenvectors, scikit-learn's SpectralEmbedding and UMAP with as many coordinates. R^2 is the worst
of the true coordinates, predicted by leave-one-out 10-nearest-neighbour regression (an angle: mean of cosine and sine).
The others get at most 2,000 of the points.

``--calibrate`` asks instead how often each verdict is right on the cases set aside: the dimension is the true one, and
R^2 is at least .8.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

from ies_gpu import (
    DisconnectedGraphError,
    Selection,
    datasets,
    gaussian_kernel,
    knn_graph,
    radius_graph,
    select_coordinates,
)
from ies_gpu.parameters.distances import degree_bandwidth, sampled_distances
from ies_gpu.parameters.judgement import unexplained_variance

from . import shapes
from .measure import keep, kept

RIGHT = 0.8  # R^2 of a map that is called right
MOST = 2000  # points for the others, which take long
TABLE = [
    ("strip", 300), ("strip", 3000), ("short strip", 200), ("square", 400), ("swiss roll", 500), ("swiss roll", 1500),
    ("swiss roll", 20_000), ("noisy swiss roll", 2000), ("S curve", 500), ("wave", 1000), ("disc", 800), ("ring", 1000),
    ("cap", 1500), ("Gaussian", 2000), ("uneven density", 2000), ("strip in 30-D", 3000), ("outliers", 2000),
    ("sphere", 500), ("ellipsoid", 3000), ("torus", 2000), ("flat torus", 4000), ("cylinder", 1500), ("circle", 400),
    ("spiral", 1500), ("helix", 1000), ("box", 4000), ("long box", 5000), ("tree", 2700), ("D1", 5000), ("D3", 3000),
    ("D7", 5000), ("D10", 10_000),
]  # fmt: skip


def load(name: str, n: int, seed: int) -> shapes.Shape:
    """A shape, or one of the paper's sets."""
    if name in shapes.SHAPES | shapes.UNEVEN_SHAPES | shapes.FRESH_SHAPES:
        return shapes.load(name, n, seed)
    data = datasets.load(name, n_samples=n, random_state=seed)
    return shapes.Shape(data.X, data.intrinsic_dim, data.colors)


def quality(Y: np.ndarray, truth: dict[str, np.ndarray], points: np.ndarray) -> float:
    """The worst R^2 of a true coordinate by a map of some points."""
    return min(explained(Y, name, values[points]) for name, values in truth.items())


def explained(Y: np.ndarray, name: str, values: np.ndarray) -> float:
    columns = [np.cos(values), np.sin(values)] if name in shapes.ANGLES else [values]
    return 1 - float(np.mean([unexplained_variance(column[:, None], Y) for column in columns]))


def called(data: shapes.Shape, way: str) -> Selection:
    """One call with nothing given, or in one of the ways of ``shapes.GIVEN``."""
    if not way:
        return select_coordinates(data.X, device="cpu")
    d, bandwidth = data.intrinsic_dim, degree_bandwidth(sampled_distances(data.X))
    more: dict[str, Any] = {"intrinsic_dim": d, "subset_size": d + (d < 3 and way in ("kernel", "half"))}
    more |= {"disconnected": "largest", "device": "cpu"}
    if way == "graph":
        return select_coordinates(graph=radius_graph(data.X, radius=3 * bandwidth), bandwidth=bandwidth, **more)
    if way == "kernel":
        kernel = gaussian_kernel(knn_graph(data.X, n_neighbors=30), bandwidth=bandwidth)
        return select_coordinates(kernel=kernel, **more)
    return select_coordinates(data.X, bandwidth={"half": 0.5, "twice": 2.0}[way] * bandwidth, **more)


def chosen(name: str, n: int, seed: int) -> tuple[dict[str, Any], shapes.Shape, Selection | None]:
    """One call: what came out as plain values, the data, and the result where there is one."""
    way, _, shape = name.rpartition("/")
    data = load(shape, n, seed)
    row: dict[str, Any] = {"name": name, "n": len(data.X), "seed": seed}
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = called(data, way)
        except DisconnectedGraphError as error:
            return row | {"error": str(error)}, data, None
    used = found.diagnostics["parameters"]["intrinsic_dim"]
    row |= {"seconds": time.perf_counter() - begin, "verdict": found.verdict, "names": found.names}
    row |= {"verdict_seconds": found.diagnostics["seconds"]["verdict"], "intrinsic_dim": used}
    row["reasons"] = [(finding.code, finding.severity) for finding in found.findings]
    row["judgement"] = {question: answer[:2] for question, answer in found.judgement.items()}
    row["chosen"] = quality(found.embedding, data.truth, found.points)
    row["first"] = quality(found.coordinates[:, : len(found.subset)], data.truth, found.points)
    row["right"] = used == data.intrinsic_dim and row["chosen"] >= RIGHT
    return row, data, found


def beside_others(name: str, n: int, seed: int) -> dict[str, Any]:
    """One set with the maps of others, with as many coordinates and at their defaults."""
    row, data, found = chosen(name, n, seed)
    if found is None:
        return row
    from sklearn.manifold import SpectralEmbedding
    from umap import UMAP

    rows = np.sort(np.random.default_rng(0).permutation(found.points)[:MOST])
    X, s = data.X[rows], len(found.subset)
    for key, other in (
        ("spectral", SpectralEmbedding(s, random_state=0)),
        ("umap", UMAP(n_components=s, random_state=0)),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row[key] = quality(np.asarray(other.fit_transform(X), dtype=np.float64), data.truth, rows)
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a table in Markdown, with a line of counts."""
    lines = [
        "| data | n | verdict | d | chosen | R² | first | SpectralEmbedding | UMAP |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        begin = f"| {row['name']} | {row['n']:,} "
        if "error" in row:
            lines.append(begin + f"| error: {row['error'].partition(';')[0]} | | | | | | |")
            continue
        numbers = " | ".join(f"{row[key]:.2f}" for key in ("chosen", "first", "spectral", "umap"))
        lines.append(begin + f"| {row['verdict']} | {row['intrinsic_dim']} | {', '.join(row['names'])} | {numbers} |")
    done = [row for row in rows if "error" not in row]
    as_good = sum(row["chosen"] >= row["first"] - 0.01 for row in done)
    counts = f"at least as good as the first (to .01) on {as_good} of {len(done)}; errors: {len(rows) - len(done)}"
    lines += ["", f"The chosen are {counts}."]
    return "\n".join(lines)


def calibration(rows: list[dict[str, Any]]) -> str:
    """How often each verdict is right."""
    lines = []
    for word in ("sure", "likely", "doubtful"):
        own = [row for row in rows if row.get("verdict") == word]
        lines.append(f"{word}: right in {sum(row['right'] for row in own)} of {len(own)}")
    wrong = [f"{row['name']} {row['n']}" for row in rows if row.get("verdict") == "sure" and not row["right"]]
    return "\n".join(
        [*lines, f"errors: {sum('error' in row for row in rows)}", f"sure and wrong: {', '.join(wrong) or 'none'}"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="python -m benchmarks.strangers")
    parser.add_argument(
        "--calibrate",
        choices=("tuned", "set-aside", "uneven", "afresh", "given"),
        help="count right verdicts on a list of cases",
    )
    parser.add_argument("--json", help="append each row to this file, and take from it those already there")
    parser.add_argument("--shift", type=int, default=0, help="added to every seed: the same shapes, sampled afresh")
    options = parser.parse_args()
    lists: dict[str | None, list[tuple[str, int, int]]] = {
        "tuned": shapes.TUNED,
        "set-aside": shapes.SET_ASIDE,
        "uneven": shapes.UNEVEN,
        "afresh": shapes.AFRESH,
        "given": shapes.GIVEN,
    }
    lists |= {None: [(name, n, 0) for name, n in TABLE]}
    done, rows = {(row["name"], row["asked"], row["seed"]): row for row in kept(options.json)}, []
    for name, n, seed in lists[options.calibrate]:
        case = name, n, seed + options.shift
        if case not in done:
            done[case] = (chosen(*case)[0] if options.calibrate else beside_others(*case)) | {"asked": case[1]}
            keep(options.json, done[case])
        rows.append(done[case])
    print(calibration(rows) if options.calibrate else table(rows))


if __name__ == "__main__":
    main()
