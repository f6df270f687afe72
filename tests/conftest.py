"""Fixtures of all tests."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from ies_gpu import backend as backends
from ies_gpu import diffusion_map, laplacian_of_points
from ies_gpu.backend.cpu import for_any_thread
from ies_gpu.embedding.graph import spatial_order
from tests import real_cupy
from tests.backends import active_backend, sent, to_host
from tests.extras import CUDA
from tests.manifolds import rectangle
from tests.real_cupy import missing

# For matrices as small as those of tests, more threads of BLAS only wait for each other. The variable is for child
# processes and for what is loaded later; a plugin may have loaded NumPy already.
threads = os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
threadpool_limits(int(threads), user_api="blas")
for_any_thread()


def pytest_configure(config):
    """CuPy runs on the CPU, unless the tests for a GPU are asked for, and no emulated one."""
    if os.environ.get("IES_GPU_EMULATED") or "gpu" not in config.option.markexpr.replace("not gpu", ""):
        real_cupy.install()


@pytest.fixture(autouse=True, scope="session")
def surroundings():
    """The same for all tests, wherever they are started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_DEVICE", "cpu")  # with CuPy and no driver, "auto" would warn, which is an error here
        patch.setenv("COLUMNS", "1000")  # messages are compared as sentences: the command line folds them
        # a shell starts background jobs with SIGINT ignored; they and all their children would be deaf to it
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
        signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def nothing_was_said():
    """What a process says once about its device, it says once per test."""
    backends._warn_once.cache_clear()


@pytest.fixture(scope="module")
def plain_kernels():
    """For modules in which nothing depends on the kernels: a fresh machine would compile the others first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_KERNELS", "plain")
        yield


@pytest.fixture(params=["plain", "numba", "cuda", pytest.param("gpu", marks=pytest.mark.gpu)])
def backend(request):
    """Every backend there is, active during the test: "cuda" is CuPy on the CPU, "gpu" a real device."""
    with active_backend(request.param) as chosen:
        yield chosen


@pytest.fixture
def on(backend):
    """``on(function)(...)`` is ``function(...)`` on the backend: arrays go up before and come down afterwards."""

    def on(function):
        def call(*args, **kwargs):
            return to_host(function(*sent(args, backend), **sent(kwargs, backend)))

        return call

    return on


@pytest.fixture
def machine():
    """The device of CuPy on the CPU, which counts what is asked of it."""
    with real_cupy.plugged_in() as made:
        yield made


@pytest.fixture
def cupy(machine):
    return sys.modules["cupy"]


@pytest.fixture(scope="session")
def flat_strip():
    """Points in spatial order, their bandwidth, Laplacian and map of a 3 x 1 rectangle."""
    X, _, bandwidth = rectangle(800, 3.0, degree=60)
    X = X[spatial_order(X)]
    laplacian = laplacian_of_points(X, bandwidth=bandwidth)
    return X, bandwidth, laplacian, diffusion_map(laplacian, n_components=8)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


# ---- tests that were skipped, one per line in the file that IES_GPU_SKIPPED_TESTS names: .ci/run runs them again with
# every library installed (pytest @file)

skipped: list[str] = []


def pytest_runtest_logreport(report):
    if report.skipped and not hasattr(report, "wasxfail"):
        skipped.append(report.nodeid)
        if "pip install" in report.longrepr[2]:  # one line of the summary for each library, not for each test
            report.longrepr = (str(Path(__file__).parent), None, report.longrepr[2])


def pytest_collectreport(report):
    if report.skipped:
        skipped.append(report.nodeid)


def pytest_sessionfinish():
    if path := os.environ.get("IES_GPU_SKIPPED_TESTS"):
        Path(path).write_text("\n".join(dict.fromkeys(skipped)))


def pytest_terminal_summary(terminalreporter):
    """Say so if CuPy is missing: the report is green then, and says nothing of the CUDA path."""
    reports = terminalreporter.stats.get("skipped", [])
    if count := sum(bool(missing()) and missing() in report.longrepr[2] for report in reports):
        terminalreporter.write_line(
            f"The CUDA path was not exercised: {count} of its tests were skipped. No GPU is needed: on Linux, "
            f"install g++ and CuPy (pip install 'ies-gpu[{CUDA}]').",
            yellow=True,
        )
