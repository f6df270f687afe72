"""What a job will need: memory by stage, as planned by :mod:`.embedding.points`, and roughly how long it takes."""

from math import comb
from typing import NamedTuple

from .embedding.points import WORDS, Size, arrays_out, block_bytes, bytes_by_stage, plan, storage_on_gpu
from .options import MAX_SUBSETS, Options, check_sizes, documented
from .validation import check_choice, check_integer, check_number

START = 220 << 20  # Python with all libraries; about half of what compiling the kernels takes in a first run
CONTEXT = 500 << 20  # what CUDA itself takes on a device: a guess
SAMPLES = 24 << 20  # on a device: rows that guard and audit compute by plain code
DEVICE_BLOCK = 512 << 20  # temporaries of one block there, at most; see ``CudaBackend.block_bytes``
SLACK = 1.25  # what to request, relative to the peak
SCORE = 2e-9  # seconds of one thread for one number of a score
LOADING = 1.5  # seconds until all libraries are there


class Estimate(NamedTuple):
    """What a job will need.

    Attributes
    ----------
    stages : dict of str to int
        The most memory, in bytes, that the process holds during each stage.
    peak_bytes, request_bytes : int
        The largest of the stages; and a quarter more, to be requested from a batch service.
    device_bytes : int
        GPU memory (0 on the CPU). Computed, and compared with what CuPy asks for on a CPU; never with a GPU.
    seconds : float or None
        Total time, within a factor of two or so on an idle machine. None where it cannot be told.
    storage : str
        How the kernel is stored, in words.
    factor : float
        How many times as long the graph and the eigenvectors take as with enough memory.
    """

    stages: dict[str, int]
    peak_bytes: int
    request_bytes: int
    device_bytes: int
    seconds: float | None
    storage: str
    factor: float


@documented
def estimate_resources(
    *, n: int, dim: int, degree: float, intrinsic_dim: int = 2, subset_size: int | None = None, n_components: int = 20,
    device: str = "cpu", dtype: str = "float64", memory_limit: int | None = None, n_threads: int = 1,
) -> Estimate:  # fmt: skip
    """Estimate the memory and the rough time of a job.

    Parameters
    ----------
    n, dim : int
        Number of points and of columns.
    degree : float
        Mean number of neighbours, ``diagnostics["mean_degree"]``; at a fixed bandwidth it grows in proportion to n.
    intrinsic_dim : int, default=2
        The dimension of the manifold.
    subset_size : int, optional
        How many coordinates to choose; ``intrinsic_dim`` by default.
    {n_components}
    device : {"cpu", "cuda", "cuda:N"}, default="cpu"
        Where the job will run.
    {dtype}
    memory_limit : int, optional
        Bytes that the job may use, as in :func:`ies_gpu.select_coordinates`; unlimited by default.
    n_threads : int, default=1
        CPU threads.

    Returns
    -------
    Estimate
        Memory by stage, its peak, and the time in all.

    Examples
    --------
    >>> from ies_gpu.resources import estimate_resources
    >>> job = estimate_resources(n=100_000, dim=3, degree=170)
    >>> print(f"{job.peak_bytes / 1e9:.1f} GB")
    0.7 GB
    """
    n, D = check_integer("n", n, low=3, high=10**12), check_integer("dim", dim, low=1, high=10**12)
    degree = check_number("degree", degree, high=n)
    d, s, m = check_sizes(n, intrinsic_dim, intrinsic_dim if subset_size is None else subset_size, n_components)
    options = Options(intrinsic_dim=d, subset_size=d, n_components=m, dtype=dtype, memory_limit=memory_limit)
    check_choice("device", device.partition(":")[0] if isinstance(device, str) else device, ("cpu", "cuda"))
    size = Size(n, D, n * (degree + 1.0), m, d, 4 if dtype == "float32" else 8)  # mixed: an upper bound
    threads = check_integer("n_threads", n_threads, low=1, high=65_536)
    limit = float("inf") if memory_limit is None else float(memory_limit)
    if not device.startswith("cpu"):
        storage, _ = storage_on_gpu(n, degree, options.stored_bytes, limit)
        # the arrays are on the device, where none has to grow; the host has the points and what goes back to it
        peak, block = int(START + 8.0 * n * D + arrays_out(size)), max(16 << 20, min(DEVICE_BLOCK, limit / 16))
        found = bytes_by_stage(size, storage, size.wants_multilevel and storage == "memory", block)
        if storage == "memory":  # the kernels count and write; distances become affinities in blocks of 24 bytes each
            found["graph"] = 24.0 * n * D + size.matrix + min(block, 24 * size.z) + 24.0 * n
        on_device = int(CONTEXT + SAMPLES + max(found.values()))
        return Estimate({"host": peak}, peak, int(SLACK * peak), on_device, None, WORDS[storage], 1.0)
    way = plan(size, limit)
    found = bytes_by_stage(size, way.storage, way.multilevel, block_bytes(limit))
    stages = {stage: int(START + most) for stage, most in found.items()}
    peak, sets = max(stages.values()), comb(m - 1, s - 1)
    # more sets need another search, whose time nobody can predict
    took = None if sets > MAX_SUBSETS else LOADING + (way.seconds + SCORE * sets * n * s * d) / threads
    return Estimate(stages, peak, int(SLACK * peak), 0, took, WORDS[way.storage], way.factor)
