"""The formulas behind benchmarks/results/gpu-estimates.md, against operations and bytes that are counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import device_counts, roofline
from ies_gpu import datasets
from ies_gpu.backend.kernels import plain
from ies_gpu.choice.criterion import candidate_subsets
from ies_gpu.embedding.graph import Cells, in_units_of, ordered_radius_graph
from ies_gpu.embedding.laplacian import gaussian_kernel, graph_laplacian
from ies_gpu.embedding.order import spatial_order
from tests.backends import needs_cupy

ROOT = Path(__file__).parents[2]


def chain():
    data = datasets.load("D1", n_samples=1500)
    X = data.X[spatial_order(data.X)]
    kernel = gaussian_kernel(ordered_radius_graph(X, 1.5), bandwidth=0.5)
    return X, graph_laplacian(kernel, bandwidth=0.5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bytes_and_operations_of_a_product(dtype):
    """What goes in and what comes out, each once; one multiplication and one addition for each entry and column."""
    _, laplacian = chain()
    P = laplacian.transition.astype(dtype)
    V = np.ones((P.shape[0], 5))
    parts = (P.indptr[1:], P.indices, P.data, V, plain.spmm(P.indptr, P.indices, P.data, V))
    work = roofline.product(len(V), P.nnz, 5, P.dtype.itemsize)
    assert work.bytes == sum(part.nbytes for part in parts)
    assert (work.single, work.double) == (0, 2 * P.nnz * 5)


def test_bytes_of_tangents_and_scores():
    """Compulsory traffic: each array of the problem read or written once."""
    _, laplacian = chain()
    P, n = laplacian.transition, laplacian.shape[0]
    Y = np.random.default_rng(0).normal(size=(n, 20))
    U, sigma = plain.tangent_rows(P.indptr, P.indices, P.data, Y, np.arange(n), 2)
    p = roofline.Problem(n=n, degree=P.nnz / n - 1)
    moved = sum(part.nbytes for part in (P.indices, P.data, Y, U, sigma))
    assert roofline.tangents(p, "float64").bytes == pytest.approx(moved)
    best, best_score = np.empty(n, np.int32), np.empty(n)
    assert roofline.scores(p, "float64").bytes == sum(part.nbytes for part in (U, best, best_score))


@pytest.mark.parametrize(("m", "s"), [(20, 2), (20, 3), (20, 4), (7, 7)])
def test_number_of_sets(m, s):
    assert roofline.Problem(m=m, s=s).sets == len(candidate_subsets(m, s))


@pytest.mark.thorough
@needs_cupy
def test_work_of_the_multilevel_method_is_what_is_counted():
    """Bytes by formula, with the counts of that run, leave out temporaries: a good part of those counted."""
    machine, found = device_counts.counted(6000, 60, n_components=8)
    solver, counts = found.diagnostics["solver"], machine.by_stage["eigenvectors"]
    coarse = sum(a * b for a, b in zip(solver["coarse_sizes"], solver["coarse_products"], strict=True)) / 6000
    given = {"iterations": solver["iterations"], "products": solver["products"], "coarse": coarse}
    p = roofline.Problem(n=6000, degree=found.diagnostics["mean_degree"], m=8, **given)
    assert 0.25 < roofline.multilevel(p, "float64").bytes / counts["moved"] < 1
    assert machine.counts["syncs"] <= roofline.Problem().waits


def test_candidates_of_the_table_are_counted():
    """Pairs compared for each point of a strip, 120 neighbours each, cell by cell: about the table's 520."""
    n = 40_000
    X = datasets.load("D1", n_samples=n).X[:, :2]
    radius = np.sqrt(120 * (8 * np.pi * 4) / (np.pi * n))  # the strip is 8 pi by 4
    Z, reach, _ = in_units_of(radius, X[spatial_order(X)])
    cells = Cells(Z, reach)
    sizes = np.diff(cells.starts)
    near = (sizes[cells.near_box(low, high)].sum() for low, high in zip(cells.low, cells.high, strict=True))
    pairs = sum(own * others for own, others in zip(sizes, near, strict=True))
    assert 0.8 < pairs / n / roofline.Problem().candidates < 1.25


def test_the_document_has_the_table_of_the_script():
    assert roofline.table(roofline.Problem()) in (ROOT / "benchmarks" / "results" / "gpu-estimates.md").read_text()


def test_a_card_with_twice_the_bandwidth_takes_half_the_time_where_memory_bounds():
    card = roofline.CARDS[0]
    work = roofline.laplacian(roofline.Problem(), "float64")
    assert work.seconds(card._replace(bandwidth=2 * card.bandwidth)) == pytest.approx(work.seconds(card) / 2)
    assert roofline.Work(0, 1e12, 1e12).seconds(card) == pytest.approx(1e12 / card.single + 1e12 / card.double)
