"""One function a goal: ours and the peer on the same data in one run. Each returns rows for the table."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg
from threadpoolctl import threadpool_limits

from ies_gpu import select_coordinates
from ies_gpu.backend.cpu import CpuBackend
from ies_gpu.backend.kernels import plain
from ies_gpu.choice.criterion import candidate_subsets, score_pass
from ies_gpu.choice.rmetric import tangents
from ies_gpu.choice.search import independent_coordinates
from ies_gpu.embedding.diffusion import diffusion_map, start_vector
from ies_gpu.embedding.eigensolvers.choose_solver import SymmetricTransition, leading_eigenpairs
from ies_gpu.embedding.graph import permute
from ies_gpu.embedding.laplacian import Laplacian

from .measure import peak_bytes, seconds
from .problems import ordered_laplacian, strip, torus_in_100_columns, wide_torus

Row = dict[str, Any]
PATIENCE = 240.0  # seconds that ARPACK gets, so that all of this ends within 20 minutes
STOPPED = f"stopped after {PATIENCE:.0f} s: the ratio is a lower bound"


def backends() -> tuple[CpuBackend, CpuBackend]:
    """Ours, and the same code on plain kernels."""
    ours, baseline = CpuBackend(reason="benchmark"), CpuBackend(reason="benchmark")
    baseline.kernels = plain
    return ours, baseline


def row(stage: str, peer: str, ours: float | None, theirs: float | None, goal: float | None, **more: Any) -> Row:
    """One line of the table; with the ratio of processor time, where both sides know theirs."""
    ratio = None if ours is None or theirs is None else theirs / ours
    work = [getattr(side, "processor", None) for side in (ours, theirs)]
    if None not in work:
        more["processor"] = {"ours": work[0], "theirs": work[1], "ratio": work[1] / max(work[0], 1e-9)}
    return {"stage": stage, "peer": peer, "ours": ours, "theirs": theirs, "ratio": ratio, "goal": goal, **more}


def arpack(S: Any, count: int = 21) -> tuple[float, Any]:
    """SciPy's ``eigsh`` to 1e-8, or None where it was stopped after ``PATIENCE`` seconds."""
    end = time.perf_counter() + PATIENCE

    def product(x: np.ndarray) -> np.ndarray:
        if time.perf_counter() > end:
            raise TimeoutError
        return S @ x

    def solve() -> Any:
        wrapped = scipy.sparse.linalg.LinearOperator(S.shape, matvec=product, dtype=np.float64)
        try:
            return np.sort(scipy.sparse.linalg.eigsh(wrapped, count, which="LA", tol=1e-8)[0])[::-1]
        except TimeoutError:
            return None

    return seconds(solve)


def select_from(laplacian: Laplacian, Y: np.ndarray, values: np.ndarray, backend: CpuBackend) -> Any:
    """From the co-metric on: tangent bases, all scores, path, regret, choice, at d = s = 2."""
    with backend.active():
        U, _ = tangents(Y, laplacian, 2, backend)
        return independent_coordinates(U, values, 2)


def selection(n: int = 100_000) -> list[Row]:
    """Co-metric, bases, search, path, regret."""
    ours, baseline = backends()
    X, bandwidth = strip(n)
    laplacian, _ = ordered_laplacian(X, bandwidth, ours)
    embedding = diffusion_map(laplacian, n_components=20)
    Y, values = embedding.coordinates, embedding.eigenvalues
    small, _ = ordered_laplacian(*strip(5000), ours)
    few = diffusion_map(small, n_components=20, tol=1e-6)
    select_from(small, few.coordinates, few.eigenvalues, ours)  # compiles
    peak, _ = peak_bytes(lambda: select_from(laplacian, Y, values, ours))
    mine, found = seconds(lambda: select_from(laplacian, Y, values, ours), 3)
    shuffle = np.random.default_rng(0).permutation(n)
    unordered = Laplacian(permute(laplacian.transition, shuffle), None, bandwidth)
    theirs, other = seconds(lambda: select_from(unordered, np.ascontiguousarray(Y[shuffle]), values, baseline))
    assert found.subset == other.subset
    return [
        row(f"co-metric to zeta*, n={n:,}", "vectorised NumPy, unordered points", mine, theirs, 15, peak=peak),
        row(f"co-metric to zeta*, n={n:,}", "authors' code (54 s, measured earlier on such a machine)", mine, 54.3, 50),
    ]


def scores(n: int = 50_000) -> list[Row]:
    """Scores and best sets at d = 3, s = 4: 969 sets."""
    ours, baseline = backends()
    U = np.linalg.qr(np.random.default_rng(0).normal(size=(n, 20, 3)))[0]
    subsets = candidate_subsets(20, 4)
    score_pass(U[:1000], subsets)
    with ours.active():
        mine, found = seconds(lambda: score_pass(U, subsets), 3)
    with baseline.active():
        theirs, other = seconds(lambda: score_pass(U[: n // 10], subsets))
    assert found.totals.shape == other.totals.shape
    return [
        row(f"969 sets at d=3, s=4, n={n:,}", "vectorised NumPy (a tenth, times 10)", mine, 10 * theirs, None),
        row(f"969 sets at d=3, s=4, n={n:,}", "authors' three passes (70 s, measured earlier)", mine, 70.0, 40),
    ]


def eigenpairs(cases: tuple[tuple[int, float], ...] = ((100_000, 0.2), (100_000, 0.6), (500_000, 0.2))) -> list[Row]:
    """21 eigenpairs to a residual of 1e-8 against ARPACK on the same ordered matrix."""
    ours, _ = backends()
    rows = []
    warm, _ = ordered_laplacian(*strip(20_000), ours)
    diffusion_map(warm, n_components=20)
    for n, noise in cases:
        laplacian, order = ordered_laplacian(*strip(n, noise=noise), ours)
        start = start_vector(n, 0)[order]
        with ours.active():
            operator = SymmetricTransition(laplacian, ours)
            mine, pairs = seconds(lambda: leading_eigenpairs(operator, 21, start=start, tol=1e-8, ordered=True))
        S = scipy.sparse.diags(operator.root) @ laplacian.transition @ scipy.sparse.diags(1 / operator.root)
        S = S.tocsr()
        theirs = []
        for threads in (1, 2) if n <= 100_000 else (1,):
            with threadpool_limits(threads):
                took, values = arpack(S)
            theirs.append(took)
        assert values is None or np.abs(values - pairs.values).max() < 1e-10
        goal = {100_000: 6, 500_000: 12}[n] if noise == 0.2 else None
        more = {"residual": float(pairs.residuals.max()), "products": pairs.info["products"]}
        more |= {"reason": STOPPED} if values is None else {}
        name = "strip" if noise == 0.2 else "noisy strip"
        rows.append(
            row(f"21 eigenpairs, {name}, n={n:,}", "scipy eigsh, best threads", mine, min(theirs), goal, **more)
        )
    return rows


def small_eigenpairs() -> list[Row]:
    """Never slower than ARPACK on D1 to D12."""
    from ies_gpu import datasets

    ours, _ = backends()
    rows = []
    for name in list(datasets.names())[:12]:
        data = datasets.load(name)
        laplacian, order = ordered_laplacian(data.X, data.bandwidth, ours)
        start = start_vector(len(data.X), 0)[order]
        with ours.active():
            operator = SymmetricTransition(laplacian, ours)
            leading_eigenpairs(operator, 21, start=start, tol=1e-8, ordered=True)
            mine, _ = seconds(lambda: leading_eigenpairs(operator, 21, start=start, tol=1e-8, ordered=True), 3)
        S = scipy.sparse.diags(operator.root) @ laplacian.transition @ scipy.sparse.diags(1 / operator.root)
        theirs = []
        for threads in (1, 2):
            with threadpool_limits(threads):
                theirs.append(seconds(lambda: scipy.sparse.linalg.eigsh(S, 21, which="LA", tol=1e-8), 3)[0])
        rows.append(row(f"21 eigenpairs, {name}", "scipy eigsh, best threads", mine, min(theirs), 0.95))
    return rows


def sklearn_laplacian(X: np.ndarray, bandwidth: float) -> Any:
    """What a user of scikit-learn and SciPy writes."""
    from sklearn.neighbors import radius_neighbors_graph

    K = radius_neighbors_graph(X, 3 * bandwidth, mode="distance", n_jobs=-1).tocsr()
    K.data = np.exp(-((K.data / bandwidth) ** 2))
    K = K + scipy.sparse.identity(len(X), format="csr")
    inverse = scipy.sparse.diags(1 / np.asarray(K.sum(axis=1)).ravel())
    Lt = inverse @ K @ inverse
    return scipy.sparse.identity(len(X), format="csr") - scipy.sparse.diags(1 / np.asarray(Lt.sum(axis=1)).ravel()) @ Lt


def graphs(scale: float = 1.0) -> list[Row]:
    """Radius graph, kernel, Laplacian."""
    ours, _ = backends()
    problems = (
        ("strip", strip, 100_000),
        ("D8", wide_torus, 50_000),
        ("D7 in 100 columns", torus_in_100_columns, 50_000),
    )
    rows = []
    for name, make, n in problems:
        n = int(scale * n)
        X, bandwidth = make(n)
        ordered_laplacian(X[:2000], 4 * bandwidth, ours)
        mine, (laplacian, _) = seconds(lambda X=X, b=bandwidth: ordered_laplacian(X, b, ours))
        theirs, matrix = seconds(lambda X=X, b=bandwidth: sklearn_laplacian(X, b))
        assert abs(matrix.nnz - laplacian.transition.nnz) <= 1e-6 * matrix.nnz + 2
        degree = laplacian.transition.nnz / n
        rows.append(row(f"graph to Laplacian, {name}, n={n:,}", "scikit-learn, SciPy", mine, theirs, 3, degree=degree))
    return rows


def end_to_end(n: int = 100_000) -> list[Row]:
    """Points to zeta* against scikit-learn's SpectralEmbedding on the same graph and the plain selection."""
    from sklearn.manifold import SpectralEmbedding

    ours, baseline = backends()
    X, bandwidth = strip(n)
    options: dict[str, Any] = {"intrinsic_dim": 2, "subset_size": 2, "device": "cpu"}
    small, width = strip(20_000)
    select_coordinates(small, bandwidth=width, **options)
    mine, found = seconds(lambda: select_coordinates(X, bandwidth=bandwidth, **options))
    build, matrix = seconds(lambda: sklearn_laplacian(X, bandwidth))
    laplacian, _ = ordered_laplacian(X, bandwidth, ours)
    kernel = laplacian.transition.copy()
    kernel.data[:] = 1.0
    plain_selection, _ = seconds(
        lambda: select_from(Laplacian(laplacian.transition), found.coordinates, found.eigenvalues, baseline)
    )
    assert matrix.shape[0] == n
    rows = []
    for solver in ("lobpcg", "arpack"):
        model = SpectralEmbedding(n_components=20, affinity="precomputed", eigen_solver=solver, random_state=0)
        solved, fitted = seconds(lambda model=model: model.fit(kernel))
        theirs = build + solved + plain_selection
        peer = f"scikit-learn graph + SpectralEmbedding ({solver}) + plain selection"
        more = {"eigensolver": solved, "reason": residual_in_words(kernel, fitted.embedding_)}
        more |= {"own_residual": float((np.array(found.diagnostics["residuals"]) / found.eigenvalues).max())}
        rows.append(row(f"end to end, n={n:,}", peer, mine, theirs, 10, by_stage=found.diagnostics["seconds"], **more))
    return rows


def residual_in_words(kernel: Any, embedding: np.ndarray) -> str:
    """The worst ``|L v - lambda v| / lambda`` of scikit-learn's vectors; from 1 on they are no eigenvectors."""
    L, root = scipy.sparse.csgraph.laplacian(kernel, normed=True, return_diag=True)
    V = embedding * root[:, None]
    V /= np.linalg.norm(V, axis=0)
    values = np.einsum("ij,ij->j", V, L @ V)
    worst = (np.linalg.norm(L @ V - V * values, axis=0) / values).max()
    return f"residual up to {worst:.1g} of the eigenvalue"


def automatic(n: int = 100_000) -> list[Row]:
    """Everything automatic, in units of one fit with the numbers that it found: at most 4 by processor time."""
    from ies_gpu import datasets

    rows = []
    small, width = strip(12_000)
    select_coordinates(small, bandwidth=width, intrinsic_dim=2, subset_size=2, device="cpu")  # compiles
    for name, X in (("D1, n=10,000", datasets.load("D1").X), (f"strip, n={n:,}", strip(n)[0])):
        mine, found = seconds(lambda X=X: select_coordinates(X, device="cpu"))
        facts = found.diagnostics["automatic"]
        given = {key: facts[key] for key in ("bandwidth", "intrinsic_dim", "subset_size")}
        once, _ = seconds(lambda X=X, given=given: select_coordinates(X, device="cpu", **given))
        assert mine.processor is not None and once.processor is not None
        times = mine.processor / once.processor
        stage = f"everything automatic, {name}, in fits with the numbers found (processor time)"
        rows.append(row(stage, "none", times, None, 4, seconds=mine, one_fit=once, **given))
    return rows


def growth(sizes: tuple[int, ...] = (50_000, 100_000, 200_000, 500_000, 1_000_000)) -> list[Row]:
    """Time and memory against n at a constant degree of about 110, each n in a process of its own."""
    code = (
        "import json,sys\nfrom benchmarks.problems import strip\nfrom ies_gpu import select_coordinates\n"
        "o=dict(intrinsic_dim=2,subset_size=2,device='cpu')\n"
        "X,b=strip(20000,110)\nselect_coordinates(X,bandwidth=b,**o)\n"
        "X,b=strip(int(sys.argv[1]),110)\ns=select_coordinates(X,bandwidth=b,**o)\nd=s.diagnostics\n"
        "print(json.dumps({'seconds':d['seconds'],'peak':max(d['peak_bytes'].values()),'solver':d['solver'],"
        "'degree':d['mean_degree'],'subset':s.subset}))"
    )
    rows = []
    for n in sizes:
        out = subprocess.run([sys.executable, "-c", code, str(n)], capture_output=True, text=True, check=True).stdout
        import json

        found = json.loads(out)
        total = sum(found["seconds"].values())
        late = found["seconds"]["tangents"] + found["seconds"]["search"]
        rows.append(row(f"growth, n={n:,}", "none", total, None, None, n=n, late=late, **found))
    span = np.log(rows[-1]["n"] / rows[0]["n"])
    base = 2.5e8  # the interpreter and Numba
    for r in rows:
        r["above"] = r["peak"] - base
    names = (
        ("end to end", "ours", 1.2),
        ("from the co-metric on", "late", 1.05),
        ("peak memory of the whole run", "above", None),
    )
    grown = list(rows)
    for name, key, goal in names:
        exponent = float(np.log(grown[-1][key] / grown[0][key]) / span)
        rows.append(row(f"exponent of n, {name}", "none", exponent, None, goal))
    return rows


def start() -> list[Row]:
    """Import, help, and the first run with an empty cache of compiled code."""

    def timed(*command: str, **environment: str) -> float:
        run = [sys.executable, *command]
        return seconds(lambda: subprocess.run(run, check=True, capture_output=True, env=os.environ | environment), 3)[0]

    bare = timed("-c", "pass")
    small = (
        "from benchmarks.problems import strip\nfrom ies_gpu import select_coordinates\nX,b=strip(12000)\n"
        "select_coordinates(X,bandwidth=b,intrinsic_dim=2,subset_size=2,device='cpu')"
    )
    with tempfile.TemporaryDirectory() as folder:
        run = [sys.executable, "-c", small]
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        before = os.times()
        cold, _ = seconds(lambda: subprocess.run(run, check=True, capture_output=True, env=environment))
        between = os.times()
        warm, _ = seconds(lambda: subprocess.run(run, check=True, capture_output=True, env=environment))
        after = os.times()
    worked = [b.children_user + b.children_system for b in (before, between, after)]
    return [
        row(
            "import ies_gpu, seconds beyond Python's own start",
            "none",
            timed("-c", "import ies_gpu") - bare,
            None,
            0.05,
        ),
        row("ies-gpu --help, seconds", "none", timed("-m", "ies_gpu", "--help"), None, 0.3),
        row("compilation, once, seconds", "none", cold - warm, None, 10),
        row("the same, processor time of both processes", "none", 2 * worked[1] - worked[0] - worked[2], None, None),
    ]


ALL = {
    "selection": selection,
    "scores": scores,
    "eigenpairs": eigenpairs,
    "small_eigenpairs": small_eigenpairs,
    "graphs": graphs,
    "end_to_end": end_to_end,
    "automatic": automatic,
    "growth": growth,
    "start": start,
}
