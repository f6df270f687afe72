"""What untangling changes: ``python -m benchmarks.untangle paper rows.jsonl --n 2000 --seeds 300-309``.

``paper`` (D1 to D12), ``kernel`` (the same, given as kernels without points), ``rectangle`` (of random sides, bent and
turned into random dimensions), ``windows`` (moving over a picture), ``molecule`` and ``cells`` append a line per run to
a file: R2 of the worst true coordinate by ten nearest neighbours, M2 to the truth and what ``diagnose`` finds wrong, of
the eigenvectors and of the turned coordinates. On D1 to D12, the last coordinate of both is kept at places that all
samples of a set have in common. ``--table`` sums up a file, on D2 and D5 also with mirror images taken for the same.
Bandwidths grow as the points get fewer.

``angles`` (to eigenfunctions known in closed form), ``products`` (named and present) and ``time`` print their tables.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

import ies_gpu.run.run as steps
from benchmarks.paper.procrustes import procrustes_error
from ies_gpu import Selection, datasets, diagnose, gaussian_kernel, radius_graph, select_coordinates
from ies_gpu.choice.relations import find_relations
from ies_gpu.parameters.distances import degree_bandwidth, sampled_distances

from . import shapes
from .automatic import molecule
from .problems import strip

PLACES = 400
SAME = 0.9  # correlation from which on two samples have the same coordinate
CLEAR, WORSE = 0.003, 0.01  # of R2 or M2
NEIGHBOURS = 120  # of a point of a rectangle or box
SETS = {
    "paper": [f"D{k}" for k in range(1, 13)],
    "kernel": [f"D{k}" for k in range(1, 13)],
    "rectangle": ["rectangle"],
    "windows": ["moving windows"],
    "molecule": ["ethanol", "malondialdehyde"],
    "cells": ["pbmc68k_reduced"],
}


class Case(NamedTuple):
    """Points, their true coordinates, and the parameters of a run."""

    X: np.ndarray
    truth: np.ndarray
    options: dict[str, Any]


def case(kind: str, name: str, n: int, seed: int) -> Case:
    """Return a sample by its kind and name."""
    rng = np.random.default_rng(seed)
    if kind in ("paper", "kernel"):
        data = datasets.load(name, n_samples=n, random_state=seed)
        bandwidth = 1.3 * data.bandwidth * (4000 / n) ** (1 / (data.intrinsic_dim + 4))
        return Case(data.X, data.truth, sizes(data.intrinsic_dim, data.subset_size, bandwidth))
    if kind == "rectangle":
        side, bend = rng.uniform(2, 9), rng.uniform(0.3, 2)
        flat = rng.uniform(size=(n, 2)) * [side, 1]
        bent = np.column_stack([np.cos(flat[:, 0] / bend) * bend, np.sin(flat[:, 0] / bend) * bend, flat])
        X = shapes.turned(bent, rng, int(rng.integers(4, 30)), 0.01)
        stretch = 2**0.5  # of the length, which is in the bend and in the column
        return Case(X, flat, sizes(2, 2, (NEIGHBOURS * stretch * side / n / (9 * np.pi)) ** 0.5))
    if kind == "windows":
        shape = shapes.load(name, n, seed)
        truth = np.column_stack(list(shape.truth.values()))
        return Case(shape.X, truth, sizes(2, 2, degree_bandwidth(sampled_distances(shape.X))))
    if kind == "molecule":
        X, torsions = molecule(name, seed, n)
        truth = np.column_stack([part(angle) for angle in torsions.values() for part in (np.cos, np.sin)])
        return Case(X, truth, sizes(2, 3, "auto") | {"self_loops": False})
    import scanpy
    from sklearn.decomposition import PCA

    genes = scanpy.datasets.pbmc68k_reduced().X  # (700, 765)
    seen, unseen = np.array_split(rng.permutation(genes.shape[1]), 2)
    X, truth = (PCA(k, random_state=0).fit_transform(genes[:, own]) for k, own in ((30, seen), (2, unseen)))
    return Case(X, truth, sizes(2, 2, "auto"))


def sizes(d: int, s: int, bandwidth: float | str) -> dict[str, Any]:
    return {"intrinsic_dim": d, "subset_size": s, "bandwidth": bandwidth}


def fitted(kind: str, sample: Case) -> Selection:
    """Return the result of a run, from the points or from a kernel in their place."""
    more = sample.options | {"keep_bases": True, "disconnected": "largest", "device": "cpu"}
    if kind != "kernel":
        return select_coordinates(sample.X, **more)
    bandwidth = more.pop("bandwidth")
    kernel = gaussian_kernel(radius_graph(sample.X, radius=3 * bandwidth), bandwidth=bandwidth)
    return select_coordinates(kernel=kernel, **more)


def worst_r2(truth: np.ndarray, Y: np.ndarray) -> float:
    """R2 of the true coordinate that the ten nearest neighbours in a map predict worst."""
    Z = Y / Y.std(axis=0)
    near = cKDTree(Z).query(Z, 11)[1][:, 1:]
    return float(1 - (((truth - truth[near].mean(axis=1)) ** 2).mean(axis=0) / truth.var(axis=0)).max())


def row(kind: str, name: str, n: int, seed: int) -> dict[str, Any]:
    """One run before and after the turn."""
    sample = case(kind, name, n, seed)
    found = fitted(kind, sample)
    truth = sample.truth[found.points]
    codes = [finding.code for finding in found.findings]
    line: dict[str, Any] = {"set": name, "n": n, "seed": seed, "turned": found.rotation is not None}
    line |= {"names": found.names, "new_choice": "untangle.new_choice" in codes}
    for when, Y in (("before", found.coordinates[:, list(found.subset)]), ("after", found.embedding)):
        seen = diagnose(found, X=sample.X, subset=found.names if when == "before" else None)
        line[when] = {"r2": worst_r2(truth, Y), "m2": procrustes_error(truth, Y), "knots": sum(seen.counts.values())}
        if kind in ("paper", "kernel"):
            places = datasets.load(name, n_samples=PLACES, random_state=0).truth
            line[when]["last"] = np.round(Y[cKDTree(truth).query(places, 5)[1], -1].mean(axis=1), 4).tolist()
    return line


def same(lines: list[dict[str, Any]], when: str, images: bool = False) -> float:
    """The largest share of samples whose last coordinate is that of one of them, or for D2 and D5 a mirror image."""
    last = np.array([line[when]["last"] for line in lines])
    likeness = np.atleast_2d(np.abs(np.corrcoef(last)))
    places = datasets.load(lines[0]["set"], n_samples=PLACES, random_state=0).truth
    for flip in ([-1, 1], [1, -1], [-1, -1]) if images else ():
        seen = last[:, cKDTree(places).query(places * flip, 3)[1]].mean(axis=2)
        likeness = np.maximum(likeness, np.abs(np.corrcoef(last, seen))[: len(last), len(last) :])
    return float((likeness > SAME).mean(axis=1).max())


def pairs(lines: list[dict[str, Any]], what: str) -> np.ndarray:
    """A figure of each run before and after (runs, 2)."""
    return np.array([[line[when][what] for when in ("before", "after")] for line in lines])


def table(lines: list[dict[str, Any]]) -> None:
    """Print a line per set and number of points, and one for all."""
    print("| set | n | runs | turned | new choice | R2 | largest loss | M2 | M2 worse | faults | same coordinate |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, n in [*dict.fromkeys((line["set"], line["n"]) for line in lines), ("all", 0)]:
        own = [line for line in lines if n in (0, line["n"]) and name in ("all", line["set"])]
        r2, m2, knots = (pairs(own, what) for what in ("r2", "m2", "knots"))
        gain, grown = r2[:, 1] - r2[:, 0], m2[:, 1] - m2[:, 0]
        known = n > 0 and "last" in own[0]["after"]
        shares = " to ".join(f"{same(own, when):.2f}" for when in ("before", "after")) if known else ""
        if known and name in ("D2", "D5"):
            shares += f" ({same(own, 'after', images=True):.2f})"
        print(
            f"| {name} | {n or ''} | {len(own)} | {sum(line['turned'] for line in own)} "
            f"| {sum(line['new_choice'] for line in own)} | {r2[:, 0].mean():.3f} to {r2[:, 1].mean():.3f} "
            f"| {max(0.0, -gain.min()):.4f} | {m2[:, 0].mean():.3f} to {m2[:, 1].mean():.3f} | {(grown > WORSE).sum()} "
            f"| {(knots[:, 0] > 0).sum()} to {(knots[:, 1] > 0).sum()} | {shares} |"
        )
    counted = [(gain > CLEAR).sum(), (gain < -CLEAR).sum(), (gain < -WORSE).sum(), (grown < -WORSE).sum()]
    print(f"\nR2 better by {CLEAR}: {counted[0]}, worse by {CLEAR}: {counted[1]}, by {WORSE}: {counted[2]}")
    print(f"M2 better by {WORSE}: {counted[3]}, at worst {grown.max():+.3f}")


class Known(NamedTuple):
    """Points of a manifold, and its eigenfunctions by their numbers, those of one eigenspace under one key."""

    X: np.ndarray
    d: int
    functions: dict[tuple[int, ...], np.ndarray]  # (n, dimension of the eigenspace)
    factors: list[tuple[int, ...]]  # the first eigenspace of each factor


def known(name: str, n: int, rng: np.random.Generator) -> Known:
    """Return a product of intervals and circles, such as ``rectangle 6.05`` or ``torus 3.02``, or a sphere."""
    kind, *numbers = name.split()
    if kind == "sphere":
        X = rng.normal(size=(n, 3))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        return Known(X, 2, {(1,): X}, [(1,)])
    lengths = [float(number) for number in numbers] + [1.0]
    u = rng.uniform(size=(n, len(lengths)))
    circles = {"rectangle": 0, "box": 0, "cylinder": 1, "torus": 2}[kind]
    columns, spaces = [], []
    for j, length in enumerate(lengths):
        if j >= len(lengths) - circles:
            angle, radius = 2 * np.pi * u[:, j], length / (2 * np.pi)
            columns += [radius * np.cos(angle), radius * np.sin(angle)]
            spaces.append(
                [np.ones((n, 1))] + [np.column_stack([np.cos(k * angle), np.sin(k * angle)]) for k in (1, 2, 3, 4)]
            )
        else:
            columns.append(length * u[:, j])
            spaces.append([np.cos(np.pi * k * u[:, [j]]) for k in range(16)])
    functions = {
        index: products([spaces[j][k] for j, k in enumerate(index)])
        for index in np.ndindex(*map(len, spaces))
        if any(index)
    }
    factors = [tuple(row) for row in np.eye(len(lengths), dtype=int).tolist()]
    return Known(np.column_stack(columns), len(lengths), functions, factors)


def products(parts: list[np.ndarray]) -> np.ndarray:
    """All products of one function of each part (n, number of them)."""
    found = parts[0]
    for part in parts[1:]:
        found = (found[:, :, None] * part[:, None, :]).reshape(len(part), -1)
    return found


def angle(v: np.ndarray, space: np.ndarray) -> float:
    """Between a function on the points and a space of functions, in degrees."""
    v, space = v - v.mean(), space - space.mean(axis=0)
    within = np.linalg.qr(space)[0].T @ v
    cosine = float(np.linalg.norm(within) / np.linalg.norm(v))
    return float(np.degrees(np.arccos(min(1.0, cosine))))


def bandwidth_of(data: Known) -> float:
    """Return the bandwidth whose radius gives a point about as many neighbours as a rectangle's."""
    near = cKDTree(data.X).query(data.X[:200], NEIGHBOURS + 1)[0][:, -1]
    return float(np.median(near)) / 3


def angles(n: int, seeds: range) -> None:
    """Print the worst angle of a factor's first eigenfunction to the nearest chosen coordinate, before and after."""
    names = [f"rectangle {side}" for side in (2.3, 6.05, 6.283, 9.05, 12.04, 16.1)]
    names += ["box 3.1 2.1", "box 5.05 2.02", "torus 1.5", "torus 3.02", "cylinder 2.5", "cylinder 4.02", "sphere"]
    print("| shape | n | runs | turned | before, median (largest) | after | worse by 2 degrees |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        found = np.array([worst_angles(name, n, seed) for seed in seeds])
        median, largest = np.median(found, axis=0), found.max(axis=0)
        said = [f"{median[k]:.0f} ({largest[k]:.0f})" for k in (0, 1)]
        print(f"| {name} | {n} | {len(found)} | {int(found[:, 2].sum())} | {said[0]} | {said[1]} "
              f"| {(found[:, 1] > found[:, 0] + 2).sum()} |", flush=True)  # fmt: skip


def worst_angles(name: str, n: int, seed: int) -> tuple[float, float, bool]:
    """The worst angle to a factor before and after the turn in one sample, and whether anything was turned."""
    data = known(name, n, np.random.default_rng(seed))
    s = {"torus": 4, "cylinder": 3, "sphere": 3}.get(name.split()[0], data.d)
    found = select_coordinates(data.X, **sizes(data.d, s, bandwidth_of(data)), device="cpu", disconnected="largest")
    worst = []
    for Y in (found.coordinates[:, list(found.subset)], found.embedding):
        spaces = [data.functions[factor][found.points] for factor in data.factors]
        worst.append(max(min(angle(column, space) for column in Y.T) for space in spaces))
    return worst[0], worst[1], found.rotation is not None


def count_relations(n: int, seeds: range) -> None:
    """Print how many products and harmonics are named, of those that are there, and how many falsely."""
    names = [f"rectangle {side}" for side in (1.7, 2.2, 3.3, 6.3)]
    names += ["box 2.2 1.5", "box 3.1 2.1", "torus 1.5", "torus 3.02"]
    print("| shape | n | products named | of | harmonics named | of | false | of mixed ones |")
    print("|---|---|---|---|---|---|---|---|")
    total = np.zeros(6, dtype=int)
    for name in names:
        counts = np.sum([relations_of(name, n, seed) for seed in seeds], axis=0)
        total += counts
        print(f"| {name} | {n} | " + " | ".join(map(str, counts)) + " |", flush=True)
    print("| all | | " + " | ".join(map(str, total)) + " |")


def relations_of(name: str, n: int, seed: int) -> list[int]:
    """Products named and present, harmonics named and present, false ones, and those said of mixed eigenvectors.

    An eigenvector that no eigenspace holds to 80 % is mixed, and not judged. A product is there if its factors came
    before it. Harmonics count on intervals only: on circles, two coordinates are needed to say one.
    """
    data = known(name, n, np.random.default_rng(seed))
    found = select_coordinates(data.X, **sizes(data.d, data.d, bandwidth_of(data)), device="cpu", untangle=False)
    labels, clear = [], []
    for column in found.coordinates.T:
        apart = {index: angle(column, space[found.points]) for index, space in data.functions.items()}
        labels.append(min(apart, key=lambda index: apart[index]))
        clear.append(np.cos(np.radians(apart[labels[-1]])) ** 2 > 0.8)
    said, counts = find_relations(found.coordinates, found.eigenvalues), np.zeros(6, dtype=int)
    for k, label in enumerate(labels):
        parts = [tuple(np.where(np.arange(data.d) == j, label, 0).tolist()) for j in np.flatnonzero(label)]
        own = sorted(labels[i] for i in said.get(k, ()))
        if not clear[k]:
            counts[5] += k in said
        elif len(parts) == 1:
            right = len(own) == 1 and np.sign(own[0]).tolist() == np.sign(label).tolist()
            counts[[2, 4]] += right, k in said and not right
            counts[3] += max(label) > 1 and name.split()[0] != "torus"
        else:
            right = own == sorted(parts) if len(parts) == 2 else len(own) == 2  # of three, two ways to pair them
            counts[[0, 4]] += right, k in said and not right
            counts[1] += all(part in labels[:k] for part in parts)
    return counts.tolist()


def times(numbers: list[int], degree: float) -> None:
    """Print the processor seconds of a fit of D1's strip with one thread, and those of its step ``untangle``."""
    spent: list[float] = []

    @wraps(steps.untangle)
    def measured(*args: Any, **kwargs: Any) -> Any:
        begin = time.process_time()
        found = step(*args, **kwargs)
        spent.append(time.process_time() - begin)
        return found

    step, steps.untangle = steps.untangle, measured
    print("| n | neighbours | fit | untangling | share |\n|---|---|---|---|---|")
    for n in (1_000, *numbers):  # the first one compiles
        X, bandwidth = strip(n, degree)
        runs = []
        for _ in range(5 if n < 10**6 else 1):
            begin = time.process_time()
            select_coordinates(X, **sizes(2, 2, bandwidth), n_threads=1, device="cpu")
            runs.append((time.process_time() - begin, spent.pop()))
        fit, own = np.min(runs, axis=0)
        if n in numbers:
            print(f"| {n:,} | {degree:g} | {fit:.2f} | {own:.3f} | {own / fit:.1%} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=[*SETS, "angles", "products", "time"])
    parser.add_argument("file", type=Path, nargs="?", help="one line per run; not for angles, products and time")
    parser.add_argument("--sets", help="some of them only, such as D1,D7")
    parser.add_argument("--n", default="2000", help="numbers of points, such as 1000,2000")
    parser.add_argument("--seeds", default="300-304")
    parser.add_argument("--degree", type=float, default=158, help="neighbours of a point, for time")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    numbers = [int(n) for n in args.n.split(",")]
    first, _, last = args.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if args.kind == "time":
        return times(numbers, args.degree)
    if args.kind in ("angles", "products"):
        return {"angles": angles, "products": count_relations}[args.kind](numbers[0], seeds)
    names = args.sets.split(",") if args.sets else SETS[args.kind]
    if args.table:
        lines = [json.loads(line) for line in args.file.read_text().splitlines()]
        return table(sorted(lines, key=lambda line: (names.index(line["set"]), line["n"], line["seed"])))
    for seed in seeds:
        for n in numbers:
            for name in names:
                with args.file.open("a") as file:
                    file.write(json.dumps(row(args.kind, name, n, seed)) + "\n")


if __name__ == "__main__":
    main()
