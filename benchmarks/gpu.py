"""One device against others that compute the same eigenvectors: seconds *and* residuals, of the strip at several n.

``python -m benchmarks.gpu 10000 100000 -o gpu.md`` on a machine with a GPU. Ours on the GPU and on the CPU, and of what
is installed: CuPy's ``eigsh`` on our matrix, cuML's ``SpectralEmbedding``, rapids-singlecell's ``diffmap``. The last
two make a graph of nearest neighbours of their own and return no residuals. A first run of everything compiles, and is
not timed.

With ``IES_GPU_EMULATED=1`` it is a rehearsal through CuPy on the CPU, whose seconds mean nothing.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ies_gpu import diffusion_map, laplacian_of_points, select_coordinates
from ies_gpu.backend import get_backend

from .problems import strip

M = 20
MOST = 200_000  # points up to which SciPy's eigsh takes minutes


class Timed(NamedTuple):
    """What one of them took, and the largest residual of its eigenpairs, None where it is not known."""

    who: str
    n: int
    degree: float
    seconds: float
    residual: float | None
    note: str = ""

    def __str__(self) -> str:
        cells = "" if self.residual is None else f"{self.residual:.1e}"
        return f"| {self.n:,} | {self.degree:.0f} | {self.who} | {self.seconds:.3f} | {cells} | {self.note} |"


def timed(work: Callable[[], Any], wait: Callable[[], None]) -> tuple[Any, float]:
    """The result of the second call, and its seconds."""
    work()
    wait()
    begin = time.perf_counter()
    result = work()
    wait()
    return result, time.perf_counter() - begin


def residual(S: Any, values: Any, vectors: Any) -> float:
    """Largest ``|S v - mu v| / |v|`` of some pairs of a symmetric matrix."""
    apart = S @ vectors - vectors * values
    return float(((apart * apart).sum(axis=0) / (vectors * vectors).sum(axis=0)).max() ** 0.5)


def symmetric(laplacian: Any) -> Any:
    """``diag(sqrt w) P diag(1 / sqrt w)`` as a matrix of the library that P is of."""
    S, root = laplacian.transition.tocoo(), laplacian.weights**0.5
    S.data = S.data * root[S.row] / root[S.col]
    return S.tocsr()


def ours(X: Any, bandwidth: float, device: str) -> Iterator[Timed]:
    """The eigenvectors of ours, the whole run, and what CuPy's ``eigsh`` makes of the same matrix."""
    backend = get_backend(device)
    points, wait, n = backend.asarray(X), backend.synchronise, len(X)
    with backend.active():
        laplacian, took = timed(lambda: laplacian_of_points(points, bandwidth=bandwidth), wait)
        degree = laplacian.transition.nnz / n
        yield Timed(f"our Laplacian, {device}", n, degree, took, None)
        found, took = timed(lambda: diffusion_map(laplacian, n_components=M), wait)
        S, root = symmetric(laplacian), laplacian.weights[:, None] ** 0.5
        off = residual(S, 1 - found.eigenvalues, root * found.coordinates)
        yield Timed(f"our eigenvectors, {device}", n, degree, took, off)
        run, took = timed(
            lambda: select_coordinates(points, bandwidth=bandwidth, intrinsic_dim=2, subset_size=2, device=device), wait
        )
        yield Timed(f"all of it, {device}", n, degree, took, None, f"chose {run.subset}")
        if device == "cpu" and n > MOST:
            return
        sparse = "scipy.sparse.linalg" if device == "cpu" else "cupyx.scipy.sparse.linalg"
        eigsh = importlib.import_module(sparse).eigsh
        start = backend.asarray(np.random.default_rng(0).normal(size=n))
        who = f"{sparse.partition('.')[0]}'s eigsh"
        try:
            (values, vectors), took = timed(lambda: eigsh(S, k=M + 1, which="LA", v0=start), wait)
            yield Timed(who, n, degree, took, residual(S, values, vectors))
        except Exception as error:  # such as no convergence
            yield Timed(who, n, degree, math.nan, None, f"{type(error).__name__}: {error}")


def cuml(X: Any, degree: float) -> Timed:
    """A graph of nearest neighbours, its normalised Laplacian, and Lanczos: it returns no eigenvalues."""
    model = importlib.import_module("cuml.manifold").SpectralEmbedding(n_components=M, n_neighbors=int(degree))
    wait = get_backend("cuda").synchronise
    _, took = timed(lambda: model.fit_transform(np.asarray(X, dtype=np.float32)), wait)
    return Timed("cuML's SpectralEmbedding", len(X), degree, took, None, "float32, nearest neighbours")


def rapids(X: Any, degree: float) -> Timed:
    """A graph of nearest neighbours with its own weights, and eigenvectors of its transition matrix."""
    anndata, rsc = importlib.import_module("anndata"), importlib.import_module("rapids_singlecell")
    data = anndata.AnnData(np.asarray(X, dtype=np.float32))
    rsc.pp.neighbors(data, n_neighbors=int(degree), use_rep="X")
    _, took = timed(lambda: rsc.tl.diffmap(data, n_comps=M), get_backend("cuda").synchronise)
    return Timed("rapids-singlecell's diffmap", len(X), degree, took, None, "float32; without its graph")


def rows(n: int, degree: float, devices: list[str]) -> Iterator[Timed]:
    """All that runs here; what is missing says so."""
    X, bandwidth = strip(n, degree)
    for device in devices:
        yield from ours(X, bandwidth, device)
    for peer in (cuml, rapids) if "cuda" in devices else ():
        try:
            yield peer(X, degree)
        except Exception as error:  # not installed, or not for the libraries that are
            yield Timed(peer.__name__, n, degree, math.nan, None, f"{type(error).__name__}: {error}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", type=int, nargs="+", help="number of points")
    parser.add_argument("--degree", type=float, default=60, help="neighbours of an inner point")
    parser.add_argument("--devices", default="cuda,cpu", help="such as cuda,cpu")
    parser.add_argument("-o", "--output", type=Path, help="file for the table")
    given = parser.parse_args(arguments)
    facts = get_backend(given.devices.partition(",")[0]).describe()
    lines = [f"{facts.get('gpu', 'no GPU')}, {facts['device_reason']}", ""]
    lines += ["| n | degree | what | seconds | residual | |", "|---|---|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    for n in given.n:
        for row in rows(n, given.degree, given.devices.split(",")):
            lines.append(str(row))
            print(row, flush=True)
    if given.output:
        given.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if os.environ.get("IES_GPU_EMULATED"):
        from tests.real_cupy import install, plugged_in

        install()
        with plugged_in():
            main()
    else:
        main()
