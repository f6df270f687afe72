"""A gate that cannot flake: ratios against plain code with wide margins, counted work, bytes allocated."""

import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest

from ies_gpu import datasets, diffusion_map, laplacian_of_points, select_coordinates
from ies_gpu.choice.criterion import candidate_subsets, score_pass
from ies_gpu.choice.rmetric import tangents
from tests.backends import cpu_backend
from tests.manifolds import rectangle

pytest.importorskip("numba")
N, REPEAT = 1000, 3


@pytest.fixture(scope="module")
def geometry():
    X, _, bandwidth = rectangle(N, 6.3, noise=0.2)
    laplacian = laplacian_of_points(X, bandwidth=bandwidth)
    return laplacian, diffusion_map(laplacian, tol=1e-6).coordinates


def least_seconds(*functions) -> list[float]:
    """The least processor time of each, taken in turn, so that a busy machine slows all of them."""
    best = [np.inf] * len(functions)
    for _ in range(REPEAT):
        for k, function in enumerate(functions):
            begin = time.process_time()
            function()
            best[k] = min(best[k], time.process_time() - begin)
    return best


def with_kernels(kernels, work):
    backend = cpu_backend(kernels)

    def run():
        with backend.active():
            return work(backend)

    return run


def test_kernels_are_well_ahead_of_plain_code(geometry):
    """On a quiet machine tangents six times and scores thirty times."""
    laplacian, Y = geometry
    U, subsets = np.linalg.qr(np.random.default_rng(0).normal(size=(N, 20, 3)))[0], candidate_subsets(20, 4)
    for work, factor in (
        (lambda backend: tangents(Y, laplacian, 2, backend), 2),
        (lambda _: score_pass(U, subsets), 5),
    ):
        quick, plain = (with_kernels(kernels, work) for kernels in ("numba", "plain"))
        quick()  # compiles
        mine, theirs = least_seconds(quick, plain)
        assert theirs > factor * mine


def test_the_selection_allocates_its_bases_and_little_more(geometry):
    """Bases and singular values are n (m + 1) d numbers; co-metrics or an n x sets table would be 8 times that."""
    laplacian, Y = geometry
    backend = cpu_backend("numba")
    subsets = candidate_subsets(20, 3)
    with backend.active():
        tangents(Y, laplacian, 2, backend)
        tracemalloc.start()
        U, sigma = tangents(Y, laplacian, 2, backend)
        score_pass(U, subsets)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 2 * (U.nbytes + sigma.nbytes) + 2e6


@pytest.mark.thorough
def test_the_work_of_a_run_is_linear_in_n():
    """Products of the eigensolver do not grow with n, and the graph's entries grow like n at a constant degree."""
    counted = {}
    for n in (12_000, 24_000):
        X, _, bandwidth = rectangle(n, 6.3, noise=0.2, degree=100)
        info = select_coordinates(X, bandwidth=bandwidth, intrinsic_dim=2, subset_size=2).diagnostics
        counted[n] = info["solver"]["products"], info["mean_degree"]
    (few, degree), (many, other) = counted.values()
    assert many <= 1.25 * few
    assert other == pytest.approx(degree, rel=0.05)


def test_everything_works_without_numba():
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "from ies_gpu import datasets, select_coordinates\n"
        "strip = datasets.load('D1', n_samples=2000)\n"
        "s = select_coordinates(strip.X, intrinsic_dim=2, subset_size=2, bandwidth=0.5, device='cpu')\n"
        "print(s.diagnostics['kernels'], *s.subset)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    points = datasets.load("D1", n_samples=2000).X
    usual = select_coordinates(points, intrinsic_dim=2, subset_size=2, bandwidth=0.5, device="cpu")
    assert usual.diagnostics["kernels"] == "numba"
    assert out == ["plain", *map(str, usual.subset)]
