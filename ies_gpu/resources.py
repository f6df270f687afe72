"""What a job will need: memory per stage, from the bytes that each stage allocates, and roughly how long it takes.

What each stage holds, and how a kernel is stored that does not fit into ``memory_limit``, is written in
:mod:`.embedding.cost`; this adds what Python, NumPy, SciPy and the kernels take (``START``), and the time.

With an automatic bandwidth, a scan comes first: three to nine bandwidths on at most 10,000 points, the largest of which
joins ``2^d`` to ``2^(d + 1)`` times as many pairs as the middle one does (noise and curvature add to the dimension), at
most 6 % of all. It takes what a run on that many points takes.
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

from .embedding.cost import (
    EIGEN,
    GRAPH,
    TANGENT,
    WORDS,
    Size,
    arrays_out,
    block_bytes,
    least_bytes,
    needs,
    over_limit,
    plan,
    storage_on_gpu,
)
from .embedding.cost import seconds as storage_seconds
from .options import MAX_SUBSETS, Options, check_sizes
from .parameters.bandwidth import DEGREE
from .parameters.dimension import SAMPLE_SIZE
from .parameters.scan import DENSEST, FACTORS
from .validation import check_choice, check_integer, check_number

START = 220 << 20  # Python with all libraries; about half of what compiling the kernels takes in a first run
CONTEXT = 500 << 20  # what CUDA itself takes on a device: a guess
SAMPLES = 24 << 20  # on a device: rows that guard and audit compute by plain code
DEVICE_BLOCK = 512 << 20  # temporaries of one block there, at most; see ``CudaBackend.block_bytes``
SLACK = 1.25  # what to request, relative to the peak
SCORE = 2e-9  # seconds of one thread for one number of a score


class StageNeeds(NamedTuple):
    """The needs of one stage.

    Attributes
    ----------
    stage : str
        Its name.
    bytes : int
        The most memory that the process holds during the stage.
    seconds : float or None
        Rough time; None where it was not measured.
    """

    stage: str
    bytes: int
    seconds: float | None


class Estimate(NamedTuple):
    """What a job will need.

    Attributes
    ----------
    stages : tuple of StageNeeds
        The needs of each stage.
    peak_bytes : int
        The largest of the stages.
    request_bytes : int
        A quarter more: what to request from a batch service.
    device_bytes : int
        GPU memory (0 on the CPU). Computed, and compared with what CuPy asks for on a CPU; never with a GPU.
    checkpoint_bytes : int
        Disk space for the checkpoint.
    seconds : float or None
        Total time; rough, within a factor of five or so on an idle machine.
    tiled : bool
        Whether the kernel is too dense for a sparse matrix within the memory limit and is held as tiles.
    scan_bytes : int
        What the search for an automatic bandwidth takes. It comes first and is not part of the numbers above, so an
        automatic run needs the larger of the two.
    storage : str
        How the kernel is stored, in words.
    factor : float
        How many times as long the graph and the eigenvectors take as with enough memory.
    """

    stages: tuple[StageNeeds, ...]
    peak_bytes: int
    request_bytes: int
    device_bytes: int
    checkpoint_bytes: int
    seconds: float | None
    tiled: bool
    scan_bytes: int
    storage: str
    factor: float


def estimate_resources(
    *,
    n: int,
    dim: int,
    degree: float,
    intrinsic_dim: int = 2,
    subset_size: int | None = None,
    n_components: int = 20,
    device: str = "cpu",
    dtype: str = "float64",
    memory_limit: int | None = None,
    n_threads: int = 1,
) -> Estimate:
    """Estimate the memory and the rough time of a job.

    Parameters
    ----------
    n, dim : int
        Number of points and of columns.
    degree : float
        Mean number of neighbours per point. ``diagnostics["mean_degree"]`` of a smaller run gives it; at a fixed
        bandwidth it grows in proportion to n.
    intrinsic_dim : int, default=2
        Dimension of the manifold.
    subset_size : int, optional
        How many coordinates to choose; ``intrinsic_dim`` by default.
    n_components : int, default=20
        How many eigenvectors to choose from.
    device : {"cpu", "cuda", "cuda:N"}, default="cpu"
        Where the job will run.
    dtype : {"float64", "mixed", "float32"}, default="float64"
        Precision, as in :func:`ies_gpu.select_coordinates`.
    memory_limit : int, optional
        Bytes that the job may use, as in :func:`ies_gpu.select_coordinates`; unlimited by default.
    n_threads : int, default=1
        CPU threads.

    Returns
    -------
    Estimate
        Memory and seconds per stage, peak memory, and disk space for a checkpoint.

    Examples
    --------
    >>> from ies_gpu.resources import estimate_resources
    >>> job = estimate_resources(n=100_000, dim=3, degree=170)
    >>> [stage.stage for stage in job.stages]
    ['checks', 'graph', 'laplacian', 'eigenvectors', 'tangents', 'result']
    >>> print(f"{job.peak_bytes / 1e9:.1f} GB")
    0.7 GB
    """
    n, D = check_integer("n", n, low=3, high=10**12), check_integer("dim", dim, low=1, high=10**12)
    degree = check_number("degree", degree, high=n)
    d, s, m = check_sizes(n, intrinsic_dim, intrinsic_dim if subset_size is None else subset_size, n_components)
    options = Options(intrinsic_dim=d, subset_size=d, n_components=m, dtype=dtype, memory_limit=memory_limit)
    check_choice("device", device.partition(":")[0] if isinstance(device, str) else device, ("cpu", "cuda"))
    size = Size(n, D, n * (degree + 1.0), m, d, s, 4 if dtype == "float32" else 8)  # mixed: an upper bound
    threads, on_cpu = check_integer("n_threads", n_threads, low=1, high=65_536), device.startswith("cpu")
    limit = float("inf") if memory_limit is None else float(memory_limit)
    if on_cpu:
        if (way := plan(size, limit)) is None:
            raise over_limit(size, limit, 1.02 * least_bytes(size), True)
        storage, multilevel, factor = way.storage, way.multilevel, way.factor
    else:  # a sparse matrix that takes at most half of the budget, or tiles
        storage, factor = storage_on_gpu(n, degree, options.stored_bytes, limit), 1.0
        multilevel = size.wants_multilevel and storage == "memory"
    bytes_of = needs(size, storage, multilevel, block_bytes(limit))
    tiled = storage in ("tiles", "recomputed")
    times = {} if tiled else seconds(size, threads)
    if factor > 1 and times:
        times["eigenvectors"] += storage_seconds(size, storage, multilevel) * (1 - 1 / factor) / threads
    stages = [StageNeeds(k, int(START + b), times.get(k)) for k, b in bytes_of.items()]
    on_device = 0
    if not on_cpu:  # the arrays are there; the host has the points and what goes back to it
        on_device = int(CONTEXT + max(device_needs(size, storage, multilevel, limit).values()))
        host = 8.0 * n * D + arrays_out(size)
        stages = [StageNeeds("host", int(START + host), None)]
    peak = max(stage.bytes for stage in stages)
    matrix = size.matrix if storage == "memory" else 0.0
    disk = int(matrix + 8.0 * n * (m + 6) + size.w * n * m * d + 8.0 * n * d)
    total = sum(times.values()) if on_cpu and "result" in times else None
    sampled, share = min(n, SAMPLE_SIZE), min(DENSEST, DEGREE * max(FACTORS) ** (d + 0.5))
    small = size._replace(n=sampled, z=share * sampled**2)
    scan = START + max(needs(small, "memory", small.wants_multilevel, block_bytes(limit)).values())
    told = tuple(stages), peak, int(SLACK * peak), on_device, disk, total, tiled, int(scan)
    return Estimate(*told, WORDS[storage], factor)


def device_needs(size: Size, storage: str, multilevel: bool, limit: float) -> dict[str, float]:
    """Return the bytes of a GPU by stage: no array has to grow, but blocks of temporaries are larger.

    The kernels count and write: no stage before the eigenvectors holds more than the matrix once, beside a block. The
    distances become affinities in blocks of 24 bytes per entry.
    """
    block = max(16 << 20, min(DEVICE_BLOCK, limit / 16))
    if storage != "memory":
        return {stage: most + SAMPLES for stage, most in needs(size, storage, multilevel, block).items()}
    points, matrix = 8.0 * size.n * size.D, (size.w + 4) * size.z + 8.0 * size.n
    found = needs(size, "memory", multilevel, block)
    spare = (size.index_bytes - 4) * size.z  # columns keep 4 bytes there
    return {
        "checks": found["checks"],
        "graph": 3 * points + matrix + 24.0 * size.n,
        "kernel": 2 * points + matrix + min(block, 24 * size.z),
        "laplacian": 2 * points + matrix + 40.0 * size.n + SAMPLES,
        "eigenvectors": found["eigenvectors"] - spare + SAMPLES,
        "tangents": found["tangents"] - spare + SAMPLES,
        "result": found["result"],
    }


def seconds(size: Size, threads: int) -> dict[str, float]:
    """Return rough seconds per stage; the matrix is read once per vector and product, whatever the method."""
    sets = comb(size.m - 1, size.s - 1)
    work = {
        "checks": 2.0,  # loading the libraries
        "graph": GRAPH * size.z * (1 + size.D / 16),
        "laplacian": 0.1 * GRAPH * size.z,
        "eigenvectors": EIGEN * size.z * (size.m + 1),
        "tangents": TANGENT * size.z * size.m,
    }
    if sets <= MAX_SUBSETS:  # more sets need another search, whose time nobody can predict
        work["result"] = SCORE * sets * size.n * size.s * size.d
    return {stage: t if stage == "checks" else t / threads for stage, t in work.items()}
