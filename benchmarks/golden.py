"""Compare two trees of the package bit by bit: what a change of structure must not change.

    python -m benchmarks.golden . -o before.json      # record this tree
    python -m benchmarks.golden before.json .         # compare it after a change
    python -m benchmarks.golden ../old . --only D1    # or two trees at once, here only cases with "D1" in their names

Each tree runs in a process of its own, with one thread, on the CPU. The bits depend on the processor, the libraries and
the kernels, so a recording is worth something only on the machine where it was made.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "IES_GPU_DEVICE": "cpu"}
MEMORY = 4 << 30  # sums follow the blocks, whose length follows the limit
FIELDS = (
    "subset", "search_order", "zeta", "zeta_interval", "coordinates", "eigenvalues", "laplace_beltrami_eigenvalues",
    "path", "regrets", "regret_percentiles", "ranking", "log_volumes", "bases", "singular_values", "points", "index",
    "verdict",
)  # fmt: skip
# of the diagnostics, without seconds, versions and wording; warnings are compared by their number
FACTS = (
    "mean_degree", "graph_components", "residuals", "degenerate_points", "floored_points",
    "stray_coordinates", "stray_points", "regret_passed", "sets_scored", "approximations", "points_digest",
    "n_features",
)  # fmt: skip
VARIANTS: tuple[dict[str, Any], ...] = (
    {"dtype": "mixed"}, {"dtype": "float32"}, {"self_loops": False}, {"alpha": 0.5}, {"zeta": 0.1},
    {"search": "greedy"}, {"search": "submodular"}, {"search": "branch_and_bound"}, {"scale": "rms"},
    {"metric": "cosine"}, {"bandwidth": "local"}, {"n_neighbors": 40},
)  # fmt: skip
Work = Callable[[], Any]


class Skipped(Exception):  # noqa: N818 - as in pytest: not an error
    """Something that a case needs is not here."""


def digest(value: Any) -> Any:
    """Return a value as JSON in which no bit is lost: arrays by type, shape and hash, floats as hexadecimal numbers."""
    if hasattr(value, "get") and hasattr(value, "shape"):  # of CuPy
        value = value.get()
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
        return f"{value.dtype}{value.shape} {content}"
    names = getattr(value, "_fields", None) or getattr(value, "__dataclass_fields__", None)
    if names:
        return {name: digest(getattr(value, name)) for name in names}
    if isinstance(value, list | tuple):
        return [digest(part) for part in value]
    if isinstance(value, dict):
        return {str(key): digest(part) for key, part in value.items()}
    if isinstance(value, float | np.floating):
        return float(value).hex()
    return value.item() if isinstance(value, np.generic) else value


def facts(diagnostics: dict[str, Any]) -> dict[str, Any]:
    """Return what the diagnostics say of the result, and in which regime it was computed."""
    regime = {"storage": (diagnostics.get("storage") or {}).get("kernel")}
    return {name: digest(diagnostics.get(name)) for name in FACTS} | regime | {"warnings": len(diagnostics["warnings"])}


def selected(selection: Any) -> dict[str, Any]:
    """Return the digest of a ``Selection``."""
    return {name: digest(getattr(selection, name)) for name in FIELDS} | facts(selection.diagnostics)


@cache
def problem(name: str, n: int = 1500, wider: float = 1.0) -> tuple[np.ndarray, dict[str, Any]]:
    """Return points of a data set, fewer than in the paper, and options with a bandwidth that keeps the degrees."""
    from ies_gpu import datasets

    full, data = datasets.load(name), datasets.load(name, n_samples=n)
    bandwidth = wider * full.bandwidth * (len(full.X) / len(data.X)) ** (1 / full.intrinsic_dim)
    sizes = {"intrinsic_dim": full.intrinsic_dim, "subset_size": full.subset_size}
    return data.X, sizes | {"bandwidth": bandwidth, "scale": "unit"}


def run(name: str, *, n: int = 1500, wider: float = 1.0, **more: Any) -> dict[str, Any]:
    """Choose coordinates for a data set."""
    from ies_gpu import select_coordinates

    X, known = problem(name, n, wider)
    return selected(select_coordinates(X, **{"memory_limit": MEMORY, "device": "cpu"} | known | more))


def automatic(X: np.ndarray | None = None, **more: Any) -> dict[str, Any]:
    """Choose everything; by default for a strip."""
    from ies_gpu import select_coordinates

    X = problem("D1", 600)[0] if X is None else X
    return selected(select_coordinates(X, scale="unit", memory_limit=MEMORY, device="cpu", **more))


def noise() -> dict[str, Any]:
    """Choose everything for points without a manifold."""
    return automatic(np.random.default_rng(0).normal(size=(400, 6)), n_components=8)


def largest_part() -> dict[str, Any]:
    """Map the larger of two parts."""
    import ies_gpu

    X, known = problem("D1", 600)
    names = inspect.signature(ies_gpu.select_coordinates).parameters
    option = "disconnected" if "disconnected" in names else "components"
    two = np.concatenate([X, X[:40] + 100.0])
    return selected(ies_gpu.select_coordinates(two, **known, **{option: "largest"}, device="cpu"))


def from_matrix(entry: str) -> dict[str, Any]:
    """Choose coordinates for a graph or a kernel of the user's."""
    import ies_gpu

    X, known = problem("D1", 600)
    bandwidth = known["bandwidth"]
    graph = ies_gpu.radius_graph(X, radius=3 * bandwidth)
    if entry == "graph":
        return selected(ies_gpu.select_coordinates(graph=graph, **known))
    kernel = ies_gpu.gaussian_kernel(graph, bandwidth=bandwidth)
    return selected(ies_gpu.select_coordinates(kernel=kernel, **{k: v for k, v in known.items() if k != "bandwidth"}))


def by_hand() -> dict[str, Any]:
    """Call the steps one by one."""
    import ies_gpu

    X, known = problem("D1", 600)
    bandwidth = known["bandwidth"]
    kernel = ies_gpu.gaussian_kernel(ies_gpu.radius_graph(X, radius=3 * bandwidth), bandwidth=bandwidth)
    laplacian = ies_gpu.graph_laplacian(kernel, bandwidth=bandwidth)
    found = ies_gpu.diffusion_map(laplacian, n_components=10)
    bases = ies_gpu.tangent_bases(found.coordinates, laplacian, intrinsic_dim=2)
    search = ies_gpu.search_exhaustive(bases, found.eigenvalues, subset_size=2)
    steps = {"map": found.coordinates, "values": found.eigenvalues, "bases": bases, "search": search.percentiles}
    return digest(steps)


def resumed() -> dict[str, Any]:
    """Go on from a checkpoint that has lost its last stages."""
    from ies_gpu import select_coordinates

    X, known = problem("D1", 600)
    with tempfile.TemporaryDirectory() as folder:
        select_coordinates(X, **known, device="cpu", checkpoint=folder)
        for name in ("tangents", "search"):
            (Path(folder) / f"{name}.npz").unlink()
        return selected(select_coordinates(X, **known, device="cpu", checkpoint=folder, resume=True))


def transformer() -> dict[str, Any]:
    """Put new points into a map, and take points of the map back."""
    from ies_gpu import IndependentCoordinates

    X, known = problem("D1", 600)
    fitted = IndependentCoordinates(**{name: known[name] for name in known if name != "scale"}).fit(X)
    return digest({"new": fitted.transform(X[:50] + 0.01), "back": fitted.inverse_transform(fitted.embedding_[:50])})


def analysed(which: str) -> Any:
    """Judge a result: is the choice stable, where does the map fail?"""
    import ies_gpu

    X, known = problem("D1", 600)
    selection = ies_gpu.select_coordinates(X, **known, device="cpu")
    if which == "stability":
        return digest(ies_gpu.selection_stability(selection, X=X, n_refits=3).refits)
    return digest(ies_gpu.diagnose(selection).counts)


def on_cluster() -> dict[str, Any]:
    """Choose coordinates on two workers."""
    try:
        from distributed import Client
    except ImportError as error:
        raise Skipped("needs the extra dask") from error
    from ies_gpu import select_coordinates

    X, known = problem("D1", 600)
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        found = select_coordinates(X, **known, client=client)
    return {name: digest(getattr(found, name)) for name in ("subset", "zeta", "coordinates", "eigenvalues", "regrets")}


def on_cuda(dtype: str) -> dict[str, Any]:
    """Choose coordinates by the CUDA path, on whatever stands for a GPU in the tests of this tree."""
    try:
        import pytest

        from tests.backends import active_backend
    except ImportError as error:
        raise Skipped("needs the extra test") from error
    try:
        with active_backend("cuda"):
            return run("D1", n=600, device="cuda", dtype=dtype)
    except pytest.skip.Exception as error:
        raise Skipped(str(error)) from error


def turning_molecule(n: int = 500) -> np.ndarray:
    """Return frames of six atoms, of which the first and the last turn about the same axis and all tremble."""
    rng = np.random.default_rng(0)
    atoms = np.array([[-0.5, 0, 0], [0, 0, 0], [1.5, 0, 0], [-0.5, -1, 0.3], [2, 1, 0.5], [2, 0, 0]])
    frames = np.tile(atoms, (n, 1, 1)) + 0.02 * rng.normal(size=(n, 6, 3))
    for atom, angle in zip((0, 5), rng.uniform(-np.pi, np.pi, (2, n)), strict=True):
        frames[:, atom, 1:] += np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return frames


def on_command_line(*options: str, **arrays: np.ndarray) -> dict[str, Any]:
    """Run ``fit --json`` on a file of arrays; of the output, seconds, versions, paths and wording are left out."""
    from ies_gpu import cli

    out = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(out), redirect_stderr(io.StringIO()):
        path = Path(folder) / "points.npz"
        np.savez(path, **arrays)
        status = cli.main(["fit", str(path), *options, "--scale", "unit", "--device", "cpu", "--json"])
    found = json.loads(out.getvalue()) if status == 0 else {"diagnostics": {"warnings": []}}
    kept = {name: digest(value) for name, value in found.items() if name not in ("diagnostics", "output", "model")}
    return {"status": status, **kept} | facts(found["diagnostics"])


def cases() -> dict[str, Work]:
    """Return what is computed, by name."""
    X, known = problem("D1", 600)
    flags = {"-d": "intrinsic_dim", "-s": "subset_size", "--bandwidth": "bandwidth"}
    given = [word for flag, name in flags.items() for word in (flag, repr(known[name]))]
    molecule = {"R": turning_molecule(), "z": np.array([1, 6, 6, 1, 1, 8])}
    return {
        **{f"D{k}": partial(run, f"D{k}") for k in range(1, 13)},  # the paper
        **{f"D1 {more}": partial(run, "D1", **more) for more in VARIANTS},
        "D1 multilevel": partial(run, "D1", n=8000),
        "D6 tiles": partial(run, "D6", n=4000, wider=1.45, memory_limit=110 << 20),
        "D6 recomputed": partial(run, "D6", n=4000, wider=1.45, memory_limit=80 << 20),
        "automatic D1": automatic,
        "automatic noise": noise,
        "largest part": largest_part,
        "from a graph": partial(from_matrix, "graph"),
        "from a kernel": partial(from_matrix, "kernel"),
        "the steps": by_hand,
        "resumed": resumed,
        "transformer": transformer,
        "stability": partial(analysed, "stability"),
        "diagnosis": partial(analysed, "diagnosis"),
        "cluster": on_cluster,
        "CUDA path": partial(on_cuda, "float64"),
        "CUDA path, mixed": partial(on_cuda, "mixed"),
        "fit --json": partial(on_command_line, *given, X=X),
        "a molecule": partial(on_command_line, "-d", "2", "-s", "3", "--no-self-loops", **molecule),
    }


def wanted(name: str, only: list[str]) -> bool:
    return not only or any(part in name for part in only)


def record(only: list[str]) -> dict[str, Any]:
    """Compute the cases with the package that is imported; an error is a result, by its kind."""
    warnings.simplefilter("ignore")
    with suppress(ImportError):
        from tests.real_cupy import install, missing

        if not missing():
            install()  # before anything imports CuPy
    found = {}
    for name, work in cases().items():
        if not wanted(name, only):
            continue
        begin = time.perf_counter()
        try:
            found[name] = work()
        except Skipped as reason:
            found[name] = {"skipped": str(reason)}
        except Exception as error:
            found[name] = {"error": type(error).__name__}
        mishap = next((f"{kind}: {found[name][kind]}" for kind in ("skipped", "error") if kind in found[name]), "")
        print(f"{name:<40}{time.perf_counter() - begin:7.2f} s  {mishap}", file=sys.stderr)
    return found


def recorded(source: str, only: list[str]) -> dict[str, Any]:
    """Return what a file holds, or what the tree in a folder computes in a process of its own."""
    if Path(source).is_file():
        return {name: part for name, part in json.loads(Path(source).read_text()).items() if wanted(name, only)}
    tree = Path(source).resolve()
    if not (tree / "ies_gpu").is_dir():
        raise SystemExit(f"{source} is neither a recording nor a folder with the package ies_gpu")
    print(tree, file=sys.stderr)
    with in_temporary_file() as out:
        # -P: the package comes from the tree, not from the folder of this script
        command = [sys.executable, "-P", str(Path(__file__).resolve()), "--into", out, "--only", *only]
        subprocess.run(command, env=os.environ | ALONE | {"PYTHONPATH": str(tree)}, cwd=tree, check=True)
        return json.loads(Path(out).read_text())


@contextmanager
def in_temporary_file() -> Iterator[str]:
    """Lend the name of a file that is deleted in the end."""
    with tempfile.TemporaryDirectory() as folder:
        yield str(Path(folder) / "found.json")


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[str]]:
    """Return the cases that differ, and in what; cases that were skipped on either side are left out."""
    found = {}
    for name in before | after:
        if name not in before or name not in after:
            found[name] = ["only in one of them"]
        elif "skipped" not in before[name] | after[name] and before[name] != after[name]:
            a, b = before[name], after[name]
            found[name] = sorted(key for key in a | b if a.get(key) != b.get(key))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.golden", description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="*", metavar="TREE", help="a folder with the package, or a recording of it")
    parser.add_argument("-o", "--output", metavar="FILE.JSON", help="where to save what the last tree computed")
    parser.add_argument("--only", nargs="*", default=[], metavar="PART", help="only cases with PART in their names")
    parser.add_argument("--into", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.into:
        Path(args.into).write_text(json.dumps(record(args.only)))
        return 0
    if not 1 <= len(args.sources) <= 2 or (len(args.sources) == 1 and not args.output):
        parser.error("give two trees to compare, or one and -o FILE.JSON")
    found = [recorded(source, args.only) for source in args.sources]
    if args.output:
        Path(args.output).write_text(json.dumps(found[-1], indent=1))
    if len(found) == 1:
        return 0
    wrong = differences(*found)
    for name, parts in wrong.items():
        print(f"{name}: {', '.join(parts)}")
    skipped = sum(any("skipped" in tree.get(name, {}) for tree in found) for name in found[0] | found[1])
    print(f"{len(wrong)} of {len(found[0] | found[1]) - skipped} cases differ ({skipped} skipped)")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
