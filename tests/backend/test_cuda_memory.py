"""Device memory that runs out: a run goes on in smaller pieces or says what does not fit."""

import importlib
from contextlib import nullcontext
from functools import cache

import numpy as np
import pytest

import ies_gpu
from ies_gpu.backend import array, get_backend
from ies_gpu.backend.base import ran_out_of_memory
from ies_gpu.backend.kernels import plain
from ies_gpu.findings import DeviceError, OutOfMemoryError
from tests.backends import ask_for, needs_cupy, on_cpu, on_cuda
from tests.comparison import assert_agreement
from tests.real_cupy import plugged_in
from tests.said import refused
from tests.thorough import first_of

pytestmark = needs_cupy

STAGES = (
    "checks", "neighbours", "order", "graph", "kernel", "components", "products", "laplacian", "eigenvectors",
    "tangents", "search", "untangle", "verdict", "result",
)  # fmt: skip


@pytest.fixture(autouse=True)
def many(monkeypatch):
    """Arrays count as large, so that what is seen here is what a device does with many points."""
    monkeypatch.setattr(array, "FEW_BYTES", 0)


class Watch:
    """Follows the stages of a run, counts the allocations in each, and refuses some of those in one of them."""

    def __init__(self, machine, stage: str = "", *, number: int = -1, above: float = np.inf) -> None:
        self.machine, self.stage, self.number, self.above = machine, stage, number, above
        self.now = "probe"
        self.seen = dict.fromkeys(("probe", *STAGES), 0)
        self.largest = dict.fromkeys(("probe", *STAGES), 0)
        machine.refuse = self.refuse

    def progress(self, stage: str, done: int, total: int) -> None:
        after = {"kernel": "components", "search": "untangle", "untangle": "verdict", "verdict": "result"}
        self.now = after.get(stage, stage) if done == total == 1 else stage

    def refuse(self, size: int) -> bool:
        self.seen[self.now] += 1
        self.largest[self.now] = max(self.largest[self.now], size)
        return self.now == self.stage and (self.seen[self.now] == self.number or size > self.above)


def small_run(watch: Watch) -> ies_gpu.Selection:
    return on_cuda("D1", 700, n_components=8, progress=watch.progress)


@cache
def undisturbed() -> tuple[ies_gpu.Selection, dict, dict]:
    """The result of a run with memory enough, and the number and largest size of the allocations of each stage."""
    with plugged_in(pool=False) as machine:
        watch = Watch(machine)
        return small_run(watch), watch.seen, watch.largest


@pytest.mark.parametrize("stage", first_of("tangents", *(stage for stage in STAGES if stage != "tangents")))
def test_memory_that_runs_out_once_changes_nothing(stage):
    expected, seen, _ = undisturbed()
    assert seen[stage] > 0
    with plugged_in(pool=False) as machine:
        found = small_run(Watch(machine, stage, number=-(-seen[stage] // 2)))
    assert machine.counts["freed"] == 1
    assert_agreement(found, expected, 1e-12)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:the CUDA kernels are not used")  # plain code needs more memory
def test_blocks_are_halved_until_they_fit():
    """Scores agree to 1e-12. Only other tiles of the graph round distances differently, by an ulp, and eigenvectors
    are good to a residual of 1e-8: 5e-11 was seen."""
    with plugged_in(compiles=False, pool=False) as machine:
        watch = Watch(machine)
        expected = on_cuda("D1", 1200, progress=watch.progress)
    for stage, parts in {"graph": 3, "kernel": 3, "laplacian": 3, "tangents": 8, "search": 3}.items():
        with plugged_in(compiles=False, pool=False) as machine:
            tight = Watch(machine, stage, above=watch.largest[stage] / parts)
            found = on_cuda("D1", 1200, progress=tight.progress)
        assert machine.counts["freed"] >= 1, stage
        assert_agreement(found, expected, 1e-8 if stage == "graph" else 1e-12)


# the stage "products" has nothing but the check of a kernel, which does not fit either
@pytest.mark.filterwarnings("ignore:the kernel spmm was not compared")
@pytest.mark.parametrize("stage", first_of("search", *(s for s in STAGES if s not in ("search", "products"))))
def test_too_little_memory_is_said_with_stage_and_size(stage):
    with plugged_in(pool=False) as machine:
        with pytest.raises(OutOfMemoryError) as caught:
            small_run(Watch(machine, stage, above=0))
        assert machine.current == 0
    assert isinstance(caught.value, MemoryError)
    assert f"cuda:0 does not have enough memory for the stage {stage!r}" in str(caught.value)
    assert "bytes" in str(caught.value)


def test_a_whole_card_too_small():
    with plugged_in(limit=300 << 20) as machine:
        machine.limit = 6 << 20  # another program took the rest after the probe
        with refused("device.unusable", DeviceError):
            on_cuda("D1", 700)
        machine.limit = 300 << 20
        assert_agreement(on_cuda("D1", 700), on_cpu("D1", 700))


def test_memory_that_cupy_keeps_is_there_for_the_next_run():
    """The driver counts what the pool keeps as taken: after one run that filled the card, the next was refused."""
    with plugged_in(limit=300 << 20):
        cupy = importlib.import_module("cupy")
        large = cupy.zeros(30 << 20)
        del large
        assert cupy.cuda.runtime.memGetInfo()[0] < 64 << 20
        assert get_backend("cuda").free_memory() > 290 << 20
        large = cupy.zeros(30 << 20)
        with refused("device.unusable", DeviceError):
            get_backend("cuda")
        del large  # which was no cache


@pytest.mark.parametrize("source", ["malloc", "malloc_managed"])
def test_memory_is_planned_from_the_allocator_in_use(source, cupy):
    """What CuPy's own pool keeps is of no use to RMM's, which cuML sets."""

    def as_rmm(size):
        own = memory.Memory(size)
        return memory.MemoryPointer(cupy.cuda.UnownedMemory(own.ptr, size, own, -1 if own.ptr else 0), 0)

    memory, backend = cupy.cuda.memory, get_backend("cuda")
    kept = cupy.zeros(16 << 20)
    size = kept.nbytes
    del kept
    cupy.cuda.set_allocator(as_rmm)
    assert backend.free_memory() == cupy.cuda.runtime.memGetInfo()[0]
    assert_agreement(on_cuda("D1", 300, n_components=6), on_cpu("D1", 300, n_components=6))
    backend.free_cache()
    assert cupy.get_default_memory_pool().free_bytes() < size
    own = cupy.cuda.MemoryPool(getattr(memory, source, None))
    own.set_limit(size=64 << 20)
    cupy.cuda.set_allocator(own.malloc)
    here = cupy.zeros(1 << 20)
    assert backend.free_memory() == (64 << 20) - here.nbytes
    del here
    backend.free_cache()
    assert own.total_bytes() == 0


@pytest.mark.parametrize("kept", [5 << 30, (8 << 30) - (100 << 20)])
def test_an_allocator_that_keeps_the_card_to_itself_is_asked_what_it_grants(cupy, kept):
    """As RMM's with a pool: the driver has little left, or too little to begin with, but a run gets what it needs."""
    pool = cupy.cuda.MemoryPool()
    cupy.cuda.set_allocator(lambda size: pool.malloc(size))
    held = cupy.cuda.alloc(kept)
    with refused("device.unusable", DeviceError) if kept > 7 << 30 else nullcontext():
        assert get_backend("cuda").free_memory() <= (8 << 30) - kept
    del held
    assert cupy.cuda.runtime.memGetInfo()[0] <= (8 << 30) - kept
    assert get_backend("cuda").free_memory() >= kept / 2
    assert_agreement(on_cuda("D1", 300, n_components=6), on_cpu("D1", 300, n_components=6))
    pool.free_all_blocks()


def library_errors() -> list[BaseException]:
    """How the libraries beneath CuPy say that there is no memory: none of them is a MemoryError."""
    libraries, api = importlib.import_module("cupy_backends.cuda.libs"), "cupy_backends.cuda.api.runtime"
    return [
        libraries.cublas.CUBLASError(3), libraries.cusolver.CUSOLVERError(2), libraries.cusparse.CuSparseError(11),
        libraries.cusparse.CuSparseError(2), importlib.import_module(api).CUDARuntimeError(2),
        RuntimeError("CUDA_ERROR_OUT_OF_MEMORY: out of memory"),  # of the driver: its class needs one to be made
    ]  # fmt: skip


def test_memory_errors_of_the_libraries_are_memory_errors():
    assert all(ran_out_of_memory(error) and not isinstance(error, MemoryError) for error in library_errors())
    assert not ran_out_of_memory(type(library_errors()[0])(13))  # another error of the same class stays what it is
    expected, seen, _ = undisturbed()
    with plugged_in(pool=False) as machine:
        watch = Watch(machine, "tangents", number=-(-seen["tangents"] // 2))
        machine.refuse = lambda size: library_errors()[3] if watch.refuse(size) else False
        found = small_run(watch)
    assert machine.counts["freed"] == 1
    assert_agreement(found, expected, 1e-12)


def test_without_memory_for_its_levels_the_multilevel_solver_gives_way_to_another(machine, monkeypatch):
    """The levels take several times what P does."""

    def refuse(*_, **__):
        raise importlib.import_module("cupy.cuda.memory").OutOfMemoryError(10**10, 10**9, 0)

    expected = on_cpu("D1", 1500)
    monkeypatch.setattr(plain, "merge_columns", refuse)
    ask_for(monkeypatch, "multilevel")
    found = on_cuda("D1", 1500)
    solver = found.diagnostics["solver"]
    assert solver["method"] != "multilevel" and "no memory" in solver["fallback"]
    assert machine.counts["freed"] == 1
    assert_agreement(found, expected)
