"""What the timed stages share: both sets of kernels on one strip of 20,000 points, made once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from ies_gpu.backend.cpu import CpuBackend
from ies_gpu.embedding.diffusion import eigenmap, start_vector
from ies_gpu.embedding.laplacian import Laplacian

from .problems import ordered_laplacian, strip
from .stages import backends

N = 20_000


class Strip(NamedTuple):
    X: np.ndarray
    bandwidth: float
    laplacian: Laplacian
    order: np.ndarray
    start: np.ndarray
    embedding: Any


@pytest.fixture(scope="session")
def problem() -> Strip:
    ours, _ = backends()
    X, bandwidth = strip(N)
    laplacian, order = ordered_laplacian(X, bandwidth, ours)
    start = start_vector(N, 0)[order]
    with ours.active():
        embedding = eigenmap(laplacian, 20, start, 1e-8, ordered=True)
    return Strip(X, bandwidth, laplacian, order, start, embedding)


@pytest.fixture(params=["numba", "plain"])
def backend(request: Any) -> CpuBackend:
    ours, plain = backends()
    chosen = ours if request.param == "numba" else plain
    with chosen.active():
        yield chosen
