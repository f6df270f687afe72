"""What a job will need: memory per stage, from the bytes that each stage allocates, and roughly how long it takes.

With n points in D columns, ``z = n (degree + 1)`` matrix entries (from 2^31 entries on, indices take 8 bytes instead of
4), m eigenvectors, dimension d, w bytes per stored number, and on top of what Python, NumPy, SciPy and the kernels take
(``START``):

=============  ======================================================================================================
stage          bytes
=============  ======================================================================================================
points         ``8 n D`` all the time; a reordered copy until the Laplacian exists; another copy, in units of the
               radius, during checks and graph
checks         distances of sampled rows, at most 64 MB
graph          ``12 z`` for distances and indices, ``10 z`` for the blocks that they were gathered from, which the
               allocator keeps until something else needs the room
laplacian      ``(w + 4) z`` for the matrix, ``10 z`` as above (and ``8 z`` to convert float32 and count the connected
               parts)
eigenvectors   the matrix, ``4 z`` for it in float32, and ``72 n (m + 10)`` for vectors, their images and the
               correction of the multilevel method; ``36 n (m + 5)`` for Lanczos
tangents       the matrix, coordinates twice, ``w n m d`` bases
result         the same, plus a copy of all arrays in the user's order
=============  ======================================================================================================

A kernel that would take more than half of ``memory_limit`` is kept as tiles, ``2 n^2`` bytes, or recomputed.

With an automatic bandwidth, a scan comes first: five to nine bandwidths on at most 10,000 points, the largest of which
joins ``2^d`` to ``2^(d + 1)`` times as many pairs as the middle one does (noise and curvature add to the dimension), at
most 6 % of all. It takes what a run on that many points takes.
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

from .choice.criterion import MAX_SUBSETS
from .embedding.eigensolvers.eigenpairs import MULTILEVEL_FROM, NEIGHBOURHOODS
from .parameters.bandwidth import DEGREE
from .parameters.dimension import SAMPLE_SIZE
from .parameters.scan import DENSEST, FACTORS
from .run.options import Options
from .run.stages.graph import csr_bytes
from .validation import check_choice, check_integer, check_number, check_sizes

START = 220 << 20  # Python with all libraries; about half of what compiling the kernels takes in a first run
CONTEXT = 500 << 20  # what CUDA itself takes on a device: a guess
SAMPLED = 64 << 20
SLACK = 1.25  # what to request, relative to the peak

# Seconds of one thread, from benchmarks on two noisy cores of an AMD EPYC.
GRAPH, EIGEN, TANGENT, SCORE = 1.3e-7, 2.5e-8, 6e-9, 2e-9


class StageNeeds(NamedTuple):
    """The needs of one stage.

    Attributes
    ----------
    stage : str
        Its name.
    bytes : int
        The most memory that the process holds during the stage.
    seconds : float or None
        Rough time; None where nobody has measured.
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
        GPU memory (0 on the CPU). Computed; never compared with a run.
    checkpoint_bytes : int
        Disk space for the checkpoint.
    seconds : float or None
        Total time; rough, within a factor of five or so on an idle machine.
    tiled : bool
        Whether the kernel is too dense for a sparse matrix within the memory limit.
    scan_bytes : int
        What the search for an automatic bandwidth takes. It comes first and is not part of the numbers above, so an
        automatic run needs the larger of the two.
    """

    stages: tuple[StageNeeds, ...]
    peak_bytes: int
    request_bytes: int
    device_bytes: int
    checkpoint_bytes: int
    seconds: float | None
    tiled: bool
    scan_bytes: int


class Size(NamedTuple):
    """The numbers that everything follows from."""

    n: int
    D: int
    z: float
    m: int
    d: int
    s: int
    w: int


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
        Precision, as in :func:`select_coordinates`.
    memory_limit : int, optional
        Bytes that the job may use, as in :func:`select_coordinates`; unlimited by default.
    n_threads : int, default=1
        CPU threads.

    Returns
    -------
    Estimate
        Memory and seconds per stage, peak memory, and disk space for a checkpoint.

    Examples
    --------
    >>> from ies_gpu import estimate_resources
    >>> job = estimate_resources(n=100_000, dim=3, degree=170)
    >>> [stage.stage for stage in job.stages]
    ['checks', 'graph', 'laplacian', 'eigenvectors', 'tangents', 'result']
    >>> print(f"{job.peak_bytes / 1e9:.1f} GB")
    0.7 GB
    """
    n, D = check_integer("n", n, low=3), check_integer("dim", dim, low=1)
    degree = check_number("degree", degree, high=n)
    d, s, m = check_sizes(n, intrinsic_dim, intrinsic_dim if subset_size is None else subset_size, n_components)
    options = Options(intrinsic_dim=d, subset_size=d, n_components=m, dtype=dtype, memory_limit=memory_limit)
    check_choice("device", device.partition(":")[0], ("cpu", "cuda"))
    size = Size(n, D, n * (degree + 1.0), m, d, s, 4 if dtype == "float32" else 8)  # mixed: an upper bound
    tiled = memory_limit is not None and 2 * csr_bytes(n, degree, options.storage) > memory_limit
    store = tiled and memory_limit is not None and 4.0 * n * n < memory_limit
    needs = tiled_bytes(size, store) if tiled else sparse_bytes(size)
    threads = check_integer("n_threads", n_threads, low=1)
    on_cpu = device.startswith("cpu")
    times = {} if tiled else seconds(size, threads)
    stages = [StageNeeds(k, int(START + b), times.get(k)) for k, b in needs.items()]
    on_device = 0
    if not on_cpu:  # the arrays are there; the host has the points and what goes back to it
        on_device = int(CONTEXT + max(needs.values()))
        host = 8.0 * n * D + arrays_out(size)
        stages = [StageNeeds("host", int(START + host), None)]
    peak = max(stage.bytes for stage in stages)
    matrix = 0.0 if tiled else (size.w + index_bytes(size)) * size.z
    disk = int(matrix + 8.0 * n * (m + 6) + size.w * n * m * d + 8.0 * n * d)
    total = sum(times.values()) if on_cpu and "result" in times else None
    sampled, share = min(n, SAMPLE_SIZE), min(DENSEST, DEGREE * max(FACTORS) ** (d + 0.5))
    scan = START + max(sparse_bytes(size._replace(n=sampled, z=share * sampled**2)).values())
    return Estimate(tuple(stages), peak, int(SLACK * peak), on_device, disk, total, tiled, int(scan))


def arrays_out(size: Size) -> float:
    """Coordinates, bases, singular values, regrets of a path of about ten sets, and volumes."""
    return size.n * (8.0 * size.m + size.w * size.m * size.d + size.w * size.d + 8.0 * 12)


def index_bytes(size: Size) -> int:
    """Bytes per column number in a sparse matrix."""
    return 4 if size.z < 2**31 else 8


def sparse_bytes(size: Size) -> dict[str, float]:
    """Bytes per stage on top of START, with the kernel as a sparse matrix."""
    n, z, w, points = size.n, size.z, size.w, 8.0 * size.n * size.D
    matrix, kept = (w + index_bytes(size)) * z, 10 * z
    count = 8 * z if w == 4 else 0.0
    vectors = 72.0 * n * (size.m + 10) + 4 * z if takes_multilevel(size) else 36.0 * n * (size.m + 5)
    coordinates = 8.0 * n * size.m
    after = points + matrix
    return {
        "checks": 2 * points + min(SAMPLED, 1200.0 * n),
        "graph": 3 * points + (8 + index_bytes(size)) * z + kept,
        "laplacian": 2 * points + matrix + kept + count,
        "eigenvectors": after + max(kept, vectors),
        "tangents": after + max(kept, 2 * coordinates + float(w) * n * size.m * size.d),
        "result": after + max(kept, coordinates + 2 * arrays_out(size)),
    }


def tiled_bytes(size: Size, store: bool) -> dict[str, float]:
    """The same with the kernel as tiles in float32, stored or not."""
    n, points = size.n, 8.0 * size.n * size.D
    kernel = points + (2.0 * n * n if store else 0.0)
    temporary = 64.0 * (1 << 20)  # one tile in float64, and the products with it
    needs = {"checks": 2 * points + min(SAMPLED, 1200.0 * n), "graph": 2 * points + kernel + temporary}
    needs["eigenvectors"] = points + kernel + temporary + 36.0 * n * (size.m + 5)
    needs["tangents"] = points + kernel + temporary + 8.0 * n * size.m * (2 + size.d)
    needs["result"] = points + kernel + 8.0 * n * size.m + 2 * arrays_out(size)
    return needs


def takes_multilevel(size: Size) -> bool:
    """As ``eigen.prefers_multilevel`` decides."""
    count = size.m + 1
    return size.n >= max(MULTILEVEL_FROM, 100 * count) and size.n**2 >= NEIGHBOURHOODS * count * size.z


def seconds(size: Size, threads: int) -> dict[str, float]:
    """Rough seconds per stage; the matrix is read once per vector and product, whatever the method."""
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
