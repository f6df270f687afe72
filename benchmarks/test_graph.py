"""Radius graph, kernel and Laplacian of 20,000 points (``python -m pytest benchmarks --benchmark-only``)."""

from __future__ import annotations

from ies_gpu.embedding.graph import ordered_radius_graph
from ies_gpu.embedding.laplacian import gaussian_of_distances, laplacian_in_place
from ies_gpu.embedding.order import spatial_order
from ies_gpu.embedding.transition import SparseKernel


def test_spatial_order(benchmark, problem, backend):
    benchmark(spatial_order, problem.X)


def test_radius_graph(benchmark, problem, backend):
    X = problem.X[problem.order]
    benchmark(ordered_radius_graph, X, 3 * problem.bandwidth, diagonal=True)


def test_kernel_and_laplacian(benchmark, problem, backend):
    graph = ordered_radius_graph(problem.X[problem.order], 3 * problem.bandwidth, diagonal=True)

    def copies():
        return (graph.copy(),), {}

    def work(matrix):
        return laplacian_in_place(SparseKernel(gaussian_of_distances(matrix, problem.bandwidth)), problem.bandwidth)

    benchmark.pedantic(work, setup=copies, rounds=5)
