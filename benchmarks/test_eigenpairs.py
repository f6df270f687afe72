"""21 eigenpairs of 20,000 points, and the block product that they are made of."""

from __future__ import annotations

import numpy as np

from ies_gpu.embedding.eigensolvers.eigenpairs import SymmetricTransition, leading_eigenpairs


def test_leading_eigenpairs(benchmark, problem, backend):
    operator = SymmetricTransition(problem.laplacian, backend)
    found = benchmark(leading_eigenpairs, operator, 21, start=problem.start, tol=1e-8, ordered=True)
    benchmark.extra_info["products"] = found.info["products"]


def test_block_product(benchmark, problem, backend):
    P = problem.laplacian.transition
    V = np.random.default_rng(0).normal(size=(P.shape[0], 24))
    benchmark(backend.kernels.spmm, P.indptr, P.indices, P.data, V)
