"""Every kernel of every backend against plain code, in all types and many shapes; and the CUDA texts by themselves."""

import itertools
import math
import mmap
import os
import shutil
import subprocess
from collections import Counter
from importlib import resources

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ies_gpu.backend.compare import TYPES, kernel_difference, small_cases, tolerance
from ies_gpu.backend.kernels import plain
from ies_gpu.backend.kernels.cuda import launch, text
from tests.backends import needs_cupy
from tests.cuda_emulator import SCHEDULES, DeadlockError, Kernel, SharedMemoryError, barriers, missing
from tests.extras import needed
from tests.thorough import first_of

from .kernel_sides import few_blocks, kernels_of

needs_emulator = pytest.mark.skipif(bool(missing()), reason=missing() or "emulator")
SHAPES = [(1, 1), (2, 3), (41, 7), (90, 20), (130, 33), (60, 64)]  # rows and columns
ROUNDING = {"float64": 2e-12, "float32": 1e-5}


def rounding(types) -> float:
    return ROUNDING[types[-1] if types else "float32"]


@pytest.mark.parametrize("kernels", ["numba", "random"])
@pytest.mark.parametrize("kernel", TYPES)
def test_every_kernel_agrees_with_plain_code_in_every_type_and_shape(kernels, kernel):
    with kernels_of(kernels) as side:
        for types, (seed, (n, k)) in itertools.product(TYPES[kernel], enumerate(SHAPES)):
            if kernel != "score_block" or n < 50:  # which has no columns
                apart = kernel_difference(side.module, side.xp, kernel, types, n=n, k=k, seed=seed)
                # the logarithm of a small volume magnifies what is rounded
                assert apart <= (tolerance(types) if kernel == "score_block" else rounding(types)), (types, n, k)


@needs_cupy
@pytest.mark.parametrize("kernel", TYPES)
def test_results_are_the_same_under_every_schedule(kernel):
    types, found = TYPES[kernel][0], []
    for schedule in SCHEDULES:
        with kernels_of(schedule) as side:
            for case in small_cases(kernel, types, n=41, k=20):
                made = side.run(kernel, *case)
                found += [*(made if isinstance(made, tuple) else [made]), *case]
    for one, two in itertools.pairwise(np.array_split(np.arange(len(found)), len(SCHEDULES))):
        for i, j in zip(one, two, strict=True):
            assert_array_equal(found[i], found[j])


OF_SOURCE = {
    "tangent_rows": {"tangent_rows": ("float64", "float64")},
    "score_block": {"score_block": (3, "float64")},
    "csr": dict.fromkeys(("merge_columns", "merge_rows", "shifted_product", "descend"), ())
    | dict.fromkeys(("smallest_labels", "column_products"), ("float32",))
    | {"spmm": ("float64", "float64"), "orthonormal": ("float64",)},
    "neighbours": {"near_pairs": ("float64",)},
}


@needs_emulator
@pytest.mark.parametrize(
    ("source", "line"), [(name, line) for name in OF_SOURCE for line in barriers(text.source(name))]
)
def test_a_removed_barrier_is_caught(source, line, monkeypatch):
    def caught(schedule: str) -> bool:
        monkeypatch.setattr(
            text, "load_kernel", lambda name, entry: Kernel(text.source(name, entry), entry, schedule=schedule,
                                                            skip_barrier=line)
        )  # fmt: skip
        sizes = {"n": {"neighbours": 200, "tangent_rows": 90}.get(source, 41), "k": 40 if source == "csr" else 20}
        try:
            with np.errstate(all="ignore"):
                return any(
                    kernel_difference(launch, np, kernel, types, **sizes) > rounding(types)
                    for kernel, types in OF_SOURCE[source].items()
                )
        except (DeadlockError, ValueError, IndexError, OverflowError):  # or sizes that are none
            return True

    with few_blocks():
        assert any(map(caught, SCHEDULES))


def test_every_source_has_its_tests():
    files = {file.name[:-3] for file in resources.files(text.__package__).iterdir() if file.name.endswith(".cu")}
    assert files == set(text.ENTRIES) == set(OF_SOURCE)


RACE = r"""
extern "C" __global__ void turn(int* out) {
    extern __shared__ int values[];
    values[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = values[(threadIdx.x + 1) % blockDim.x];
}
extern "C" __global__ void split(int* out) {
    if (threadIdx.x % 2) __syncthreads();
    out[threadIdx.x] = 1;
}
extern "C" __global__ void too_far(int size) {
    extern __shared__ int values[];
    values[threadIdx.x + size] = 0;
}
"""


@needs_emulator
def test_the_emulator_notices_what_it_is_for():
    out = np.zeros(5, np.int32)
    for schedule in SCHEDULES:
        Kernel(RACE, "turn", schedule=schedule)((1,), (5,), (out,), shared_mem=20)
        assert_array_equal(out, (np.arange(5) + 1) % 5)
        Kernel(RACE, "turn", schedule=schedule, skip_barrier=barriers(RACE)[0])((1,), (5,), (out,), shared_mem=20)
        assert (out == -1).any()  # shared memory that nobody has written yet
        with pytest.raises(DeadlockError, match=schedule):
            Kernel(RACE, "split", schedule=schedule)((1,), (5,), (out,))
    with pytest.raises(SharedMemoryError):
        Kernel(RACE, "too_far")((1,), (5,), (np.int32(1),), shared_mem=20)
    with pytest.raises(TypeError, match="typed"):
        Kernel(RACE, "too_far")((1,), (5,), (0,), shared_mem=20)
    with pytest.raises(ValueError, match="48 KB"):
        Kernel(RACE, "turn")((1,), (5,), (out,), shared_mem=50_000)


def vast(shape: tuple[int, ...], dtype) -> np.ndarray:
    """Zeros that take memory only where they are written to."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    try:
        return np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=dtype).reshape(shape)
    except OSError:
        pytest.skip(f"no {size} bytes of address space")


@needs_emulator
def test_offsets_beyond_31_bits(monkeypatch):
    monkeypatch.setattr(text, "load_kernel", lambda name, entry: Kernel(text.source(name, entry), entry))
    (case,) = small_cases("tangent_rows", ("float32", "float32"), n=41, k=64)
    small_indptr, small_indices, small_weights, small_Y, rows, d = case
    n = 2**31 // 64 + 77
    shift = n - len(small_Y)
    Y, indptr, indices = vast((n, 64), np.float32), vast((n + 1,), np.int64), vast((2**31 + 9_999,), np.int32)
    weights = vast(indices.shape, np.float32)
    first = len(indices) - len(small_indices)
    Y[shift:], indptr[shift:] = small_Y, small_indptr + first
    indices[first:], weights[first:] = small_indices + shift, small_weights
    found = launch.tangent_rows(indptr, indices, weights, Y, rows + shift, d)
    for ours, expected in zip(found, launch.tangent_rows(*case), strict=True):
        assert_array_equal(ours, expected)


def test_sizes_beyond_the_kernels_run_on_plain_code():
    """``load_kernel`` would fail here: no emulator, and perhaps no CuPy."""
    for m, d in ((65, 2), (20, 9)):
        (case,) = small_cases("tangent_rows", ("float64", "float64"), n=20, k=m)
        for ours, expected in zip(launch.tangent_rows(*case[:5], d), plain.tangent_rows(*case[:5], d), strict=True):
            assert_array_equal(ours, expected)
        U, sets, found = np.ones((5, m, d)), np.arange(d)[None], []
        for module in (launch, plain):
            found.append((np.zeros(1), np.zeros(5, dtype=int), np.zeros(5)))
            module.score_block(U, sets, *found[-1])
        for ours, expected in zip(*found, strict=True):
            assert_array_equal(ours, expected)
    Z = np.zeros((4, launch.MAX_COLUMNS + 1))
    assert launch.near_pairs(Z, np.array([0, 4]), Z[:1], Z[:1], 1.0, 1.0, True, 1.0, "float64") is None


def test_every_launch_fits_into_shared_memory():
    for m, itemsize in itertools.product(range(1, 65), (4, 8)):
        assert launch.tangent_launch(10**9, m, itemsize).shared_bytes <= 48 << 10
        for d, q in itertools.product(range(1, 9), (1, 171, launch.MAX_SETS)):
            score = launch.score_launch(10**9, m, d, q, itemsize)
            assert score.shared_bytes <= 48 << 10 and score.blocks * q * 8 <= 32 << 20
    assert launch.pairs_bytes(launch.MAX_COLUMNS) <= (164 << 10) // 9  # nine blocks on a multiprocessor of sm_80


def turns(places: list[int], size: int) -> float:
    """How many times as long a warp's reads take as if no two of them met in a bank of shared memory."""
    at_once = 128 // size
    groups = [{places[k] for k in range(first, first + at_once)} for first in range(0, len(places), at_once)]
    taken = [max(Counter(place % at_once for place in group).values()) for group in groups]
    return sum(taken) / len(groups)


def expression(source: str, before: str, after: str) -> str:
    """What stands between two words of a text, and means the same in Python."""
    return text.source(source).partition(before)[2].partition(after)[0]


def test_a_warp_reads_shared_memory_without_conflicts():
    """From the indices in the texts: at most 1.1 turns in the inner loops, where each read was 1.9 and up to 16."""
    stride, own = expression("neighbours", "int stride = ", ";"), expression("neighbours", "= own[", "] - others")
    for D in range(1, launch.MAX_COLUMNS + 1):
        known = {"D": D, "stride": eval(stride, {"D": D}), "c": 0}
        assert turns([eval(own, known | {"thread": thread}) for thread in range(32)], 8) == 1
    stride = expression("tangent_rows", "tile_stride(int side) {\n    return ", ";")
    across = expression("tangent_rows", "across[x] = difference[", "]")
    for m in range(4, 65, 4):
        side, threads = m // 4, launch.tangent_launch(1, m, 8).threads
        patches = [(top, left) for top in range(side) for left in range(top, side)]
        slices, found = min(threads // len(patches), 8), []
        for first, x in itertools.product(range(0, threads, 32), range(4)):
            busy = range(first, min(first + 32, slices * len(patches)))
            known = {"side": side, "PATCH": 4, "x": x}
            row = eval(stride, known)
            lefts = [patches[thread % len(patches)][1] for thread in busy]
            places = [eval(across, known | {"left": left}) for left in lefts]
            places = [place + thread // len(patches) * row for place, thread in zip(places, busy, strict=True)]
            if places:
                found.append(turns(places + places[-1:] * (32 - len(places)), 8))
        assert np.mean(found) <= 1.1, m


@pytest.fixture(scope="module")
def nvrtc():
    needed("cupy", "test-cuda")
    module = pytest.importorskip("tests.cuda_emulator.nvrtc", exc_type=ImportError)
    try:
        module.architectures()
    except RuntimeError as error:  # cuda-pathfinder's: CuPy without the CUDA libraries
        pytest.skip(f"NVRTC cannot be loaded: {error}")
    return module


@pytest.mark.parametrize("arch", first_of(80, 70, 75, 86, 89, 90, 100, 120))
@pytest.mark.parametrize("name", text.ENTRIES)
def test_kernels_compile_for_real_gpus_without_spills(nvrtc, name, arch):
    if arch not in nvrtc.architectures():
        pytest.skip(f"this NVRTC does not know sm_{arch}")
    # of the sixteen entry points of the scores, the one that takes most
    entries = ["score_block_8_f64"] if name == "score_block" and arch == 80 else [*text.ENTRIES[name]]
    assert nvrtc.spilled_bytes(name, arch, *entries) == dict.fromkeys(entries, 0)


@pytest.mark.skipif(not shutil.which("hipcc"), reason="hipcc is not installed (Debian: apt-get install hipcc)")
@pytest.mark.parametrize("arch", first_of("gfx90a", "gfx906", "gfx1030"))
@pytest.mark.parametrize("name", first_of(*text.ENTRIES))
def test_kernels_compile_for_amd(name, arch, tmp_path):
    """The same texts, by clang for AMD's GPUs: no more is known, since CuPy for them is another build."""
    source = tmp_path / f"{name}.hip"
    source.write_text(f"#include <hip/hip_runtime.h>\n{text.source(name)}")
    command = ["hipcc", "-std=c++17", f"--offload-arch={arch}", "--genco", "-o", tmp_path / "made", source]
    environment = os.environ | {"HIP_PLATFORM": "amd", "HIP_COMPILER": "clang"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "made").read_bytes().startswith((b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE__"))
