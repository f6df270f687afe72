"""Everything that may be asked of a run: one set of options, checked once.

The command line reads names and defaults from here before anything heavy is loaded, so this module imports nothing
outside the standard library until options are checked.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

from ..findings import option, refusal

AUTO = "auto"
LOCAL = "local"
FIXED = "fixed"
ENTRIES = ("X", "graph", "kernel", "laplacian")
INPUTS = (*ENTRIES, "coordinates", "eigenvalues")  # with what belongs to a Laplacian
CHOICES = {
    "search": ("exhaustive", "greedy", "submodular", "branch_and_bound"),
    "components": (AUTO, "raise", "most", "largest", "each"),
    "metric": ("euclidean", "cosine", "correlation"),
    "scale": ("unit", "rms", "diffusion"),
    "dtype": ("float64", "mixed", "float32"),
}
# where and how a job runs, but not what comes out of it
MACHINE = ("device", "memory_limit", "n_threads", "keep_bases", "checkpoint", "resume")


def is_auto(value: Any) -> bool:
    """Whether a parameter is "auto"."""
    return isinstance(value, str) and value == AUTO


def is_each(value: Any) -> bool:
    """Whether ``components`` asks for one map per part."""
    return isinstance(value, str) and value == "each"


def is_local(value: Any) -> bool:
    """Whether a bandwidth is to follow the density."""
    return isinstance(value, str) and value == LOCAL


def is_found(value: Any) -> bool:
    """Whether a bandwidth is to be found from the points."""
    return isinstance(value, str) and value in (AUTO, FIXED)


@dataclass(frozen=True)
class Options:
    """The options of :func:`ies_gpu.select_coordinates`, checked as far as they can be without the data.

    Attributes
    ----------
    entry : {"X", "graph", "kernel", "laplacian"}, default="X"
        What the run starts from.
    intrinsic_dim, subset_size : int or "auto", default="auto"
        The dimension of the manifold, and how many coordinates to choose.
    bandwidth : float, "auto", "fixed", "local" or None, default="auto"
        The bandwidth of the kernel; "local" to follow the density, "fixed" to find one for all points, None if the
        kernel or Laplacian is given.
    n_neighbors : int or None, default=None
        How many nearest neighbours make the graph; None for all within the radius, or with "local" for a rule.
    radius : float or None, default=None
        The largest distance between neighbours: ``3 * bandwidth`` if not given, once the bandwidth is known.
    self_loops : bool, default=True
        Whether each point is its own neighbour.
    metric : str, default="euclidean"
        How the distances between points are measured.
    alpha : float, default=1.0
        How strongly the sampling density is corrected for.
    n_components : int, default=20
        How many eigenvectors to choose from.
    zeta : float or "auto", default="auto"
        The weight of the smoothness penalty.
    percentile : float, default=75
        The percentile of the regret that must not be positive.
    search : {"exhaustive", "greedy", "submodular", "branch_and_bound"}, default="exhaustive"
        How to search for the best set.
    scale : {"unit", "rms", "diffusion"}, default="unit"
        How the coordinates of the result are scaled.
    diffusion_time : float, default=1.0
        The time t of ``scale="diffusion"``.
    components : {"raise", "largest"}, default="raise"
        What to do with a disconnected graph.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default="auto"
        Where to compute.
    dtype : {"float64", "mixed", "float32"}, default="float64"
        The precision, see :attr:`storage` and :attr:`arithmetic`.
    memory_limit : int or None, default=None
        How many bytes the run may use; None for half of the free memory.
    n_threads : int or None, default=None
        How many CPU threads to use; None for all that the process may.
    random_state : int, RandomState, Generator or None, default=0
        The seed of everything random.
    tol : float, default=1e-8
        The largest residual that an eigenpair may have.
    keep_bases : bool or None, default=None
        Whether to keep the tangent bases; None keeps them up to 512 MB, and none of a cluster.
    checkpoint : str, path-like or None, default=None
        The folder in which finished stages are saved.
    resume : bool, default=False
        Whether to continue from the stages in that folder.
    """

    entry: str = "X"
    intrinsic_dim: Any = AUTO
    subset_size: Any = AUTO
    bandwidth: Any = AUTO
    n_neighbors: int | None = None
    radius: Any = None  # a number once the bandwidth is known
    self_loops: bool = True
    metric: str = "euclidean"
    alpha: float = 1.0
    n_components: int = 20
    zeta: Any = AUTO
    percentile: float = 75
    search: str = "exhaustive"
    scale: str = "unit"
    diffusion_time: float = 1.0
    components: str = AUTO
    device: str = "auto"
    dtype: str = "float64"
    memory_limit: int | None = None
    n_threads: int | None = None
    random_state: Any = 0
    tol: float = 1e-8
    keep_bases: bool | None = None
    checkpoint: str | os.PathLike[str] | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        from ..choice.search import check_percentile
        from ..embedding.metrics import check_metric
        from ..errors import brief
        from ..validation import check_choice, check_flag, check_integer, check_number, check_seed

        def keep(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        check_metric(self.metric)
        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        if not isinstance(self.zeta, str):
            keep("zeta", check_number("zeta", self.zeta, closed=True))
        elif not is_auto(self.zeta):
            raise refusal("zeta.type", f"{option('zeta')} must be a number or 'auto', got {brief(self.zeta)}")
        keep("percentile", check_percentile(self.percentile))
        keep("alpha", check_number("alpha", self.alpha, low=0.0, high=1.0, closed=True))
        keep("diffusion_time", check_number("diffusion_time", self.diffusion_time, closed=True))
        if self.diffusion_time != 1 and self.scale != "diffusion":
            text = (
                f"{option('diffusion_time', self.diffusion_time)} works only with {option('scale', 'diffusion')}, got "
                f"{option('scale', self.scale)}"
            )
            raise refusal("diffusion_time.scale", text)
        keep("tol", check_number("tol", self.tol, high=1.0))
        keep("random_state", check_seed(self.random_state))
        for name in ("self_loops", "resume", *(["keep_bases"] if self.keep_bases is not None else [])):
            keep(name, check_flag(name, getattr(self, name)))
        if self.memory_limit is not None:
            limit = check_integer("memory_limit", self.memory_limit, low=1 << 20)  # too little is the usual mistake
            keep("memory_limit", check_integer("memory_limit", limit, low=1 << 20, high=1 << 62))
        if self.n_threads is not None:
            keep("n_threads", check_integer("n_threads", self.n_threads, low=1, high=65_536))
        if self.resume and self.checkpoint is None:
            text = f"{option('resume', True)} needs {option('checkpoint')}, the folder with the finished stages"
            raise refusal("resume.checkpoint", text)
        self._check_neighbors(keep)
        self._check_entry()
        self._check_automatic(keep)
        self._check_scales(keep)
        self.check_sizes()
        for name in ("intrinsic_dim", "subset_size", "n_components"):
            if not is_auto(value := getattr(self, name)):
                keep(name, int(value))  # in eight bits of NumPy, products of them would wrap around

    def _check_entry(self) -> None:
        """Check that what concerns points, kernels or eigenvectors comes with an entry before them."""
        for name, entries in (("metric", ("X",)), ("alpha", ENTRIES[:3]), ("scale", ENTRIES[:3])):
            value, usual = getattr(self, name), getattr(type(self), name)
            if value != usual and self.entry not in entries:
                text = f"{option(name, value)} works only with {' or '.join(entries)}, not with {self.entry}"
                raise refusal(f"{name}.entry", f"{text}, which has its own")
        if is_local(self.bandwidth) and self.alpha != 1:
            text = f"{option('bandwidth', 'local')} corrects for the density itself"
            raise refusal("alpha.local", text, f"leave {option('alpha', self.alpha)} out")

    def _check_neighbors(self, keep: Any) -> None:
        """Check that nearest neighbours are asked for only with points, and not together with a radius."""
        from ..validation import check_integer

        if not self.nearest:
            return
        if self.n_neighbors is not None:
            keep("n_neighbors", check_integer("n_neighbors", self.n_neighbors, low=2))
        asked = option("bandwidth", LOCAL) if self.n_neighbors is None else option("n_neighbors", self.n_neighbors)
        if self.entry != "X":
            text = f"{asked} works only with X"
            raise refusal("n_neighbors.entry", text, f"a {self.entry} already has its neighbours")
        if self.radius is not None:
            text = f"{asked} takes the nearest neighbours, so {option('radius')} does not apply"
            raise refusal("radius.n_neighbors", text, "leave one of them out")
        if is_auto(self.components):
            keep("components", "most" if isinstance(self.bandwidth, str) else "raise")
        if is_auto(self.bandwidth):
            keep("bandwidth", LOCAL)
        if is_found(self.bandwidth):
            text = f"{asked} needs {option('bandwidth', LOCAL)} or a number, got {option('bandwidth', self.bandwidth)}"
            raise refusal("bandwidth.n_neighbors", text)

    @property
    def nearest(self) -> bool:
        """Whether nearest neighbours make the graph."""
        return self.n_neighbors is not None or is_local(self.bandwidth)

    def _check_automatic(self, keep: Any) -> None:
        """Check that "auto" is used only with points."""
        if self.entry in ("kernel", "laplacian") and is_found(self.bandwidth):
            keep("bandwidth", None)  # it has gone into the kernel already
        if is_auto(self.components):  # with a given bandwidth a graph in parts may be a slip
            keep("components", "most" if is_found(self.bandwidth) else "raise")
        missing = self.automatic
        if missing and self.entry != "X":
            text = f"{option(missing[0])} is required with {self.entry}: 'auto' needs the points, X"
            raise refusal("entry.automatic", text)
        if is_found(self.bandwidth) and self.radius is not None:
            text = f"{option('radius', self.radius)} needs a number for bandwidth too"
            raise refusal("radius.automatic", text, "with one that is found, the radius is 3 * bandwidth")

    def _check_scales(self, keep: Any) -> None:
        """Check that bandwidth, radius and self-loops fit the entry."""
        from ..errors import brief
        from ..validation import check_length

        entry = self.entry
        if not self.self_loops and entry in ("kernel", "laplacian"):
            text = f"{option('self_loops', False)} works only with X or graph"
            raise refusal("self_loops.entry", text, f"a {entry} already has its diagonal")
        if entry in ("X", "graph") and self.bandwidth is None:
            text = f"{option('bandwidth')} is required with {entry}: the length scale of the kernel"
            raise refusal("bandwidth.missing", text)
        if self.bandwidth is not None and not (is_found(self.bandwidth) or is_local(self.bandwidth)):
            if isinstance(self.bandwidth, str):
                text = f"{option('bandwidth')} must be a number, 'auto', 'fixed' or 'local'"
                raise refusal("bandwidth.type", f"{text}, got {brief(self.bandwidth)}")
            keep("bandwidth", check_length("bandwidth", self.bandwidth))
        if self.radius is not None:
            keep("radius", check_length("radius", self.radius))
            if entry in ("kernel", "laplacian"):
                text = f"{option('radius')} works only with X or graph"
                raise refusal("radius.entry", text, f"a {entry} already has its neighbours")
        elif entry == "X" and not is_found(self.bandwidth) and not self.nearest:
            keep("radius", 3 * self.bandwidth)

    def check_shape(self, n: int, columns: int) -> None:
        """Check that the points suffice, in number and in columns, for what is asked.

        Parameters
        ----------
        n : int
            The number of points.
        columns : int
            The number of columns.
        """
        d = self.intrinsic_dim
        if not is_auto(d) and d > columns:
            text = f"{option('intrinsic_dim')} must be at most {columns}, the number of columns of X, got {d}"
            raise refusal("intrinsic_dim.range", text)
        self.check_sizes(n)

    def check_sizes(self, n: int | None = None) -> None:
        """Check that dimension, subset size and number of eigenvectors fit together.

        Parameters
        ----------
        n : int, optional
            The number of points, if it is known.

        Raises
        ------
        ValueError
            If they do not fit, or if the search would have to score too many sets.
        """
        from ..choice.search import check_counts
        from ..validation import check_sizes

        least = 1 if is_auto(self.intrinsic_dim) else self.intrinsic_dim
        d, s, m = check_sizes(n, least, least if is_auto(self.subset_size) else self.subset_size, self.n_components)
        check_counts(self.search, m, d, s)

    @property
    def automatic(self) -> list[str]:
        """The names of the parameters to find from the points."""
        names = [name for name in ("intrinsic_dim", "subset_size") if is_auto(getattr(self, name))]
        return ["bandwidth", *names] if is_found(self.bandwidth) else names

    @property
    def own_radius(self) -> bool:
        """Whether a radius was set that does not follow from the bandwidth."""
        return isinstance(self.bandwidth, float) and self.radius not in (None, 3 * self.bandwidth)

    @property
    def zeta_given(self) -> float | None:
        """The given zeta, or None if the regret decides."""
        return None if is_auto(self.zeta) else self.zeta

    @property
    def storage(self) -> str:
        """The precision of everything that is as large as the graph."""
        return "float64" if self.dtype == "float64" else "float32"

    @property
    def stored_bytes(self) -> int:
        """Bytes of one such number."""
        return 8 if self.storage == "float64" else 4

    @property
    def arithmetic(self) -> str:
        """The precision of tangent bases and scores."""
        return "float32" if self.dtype == "float32" else "float64"

    @property
    def parameters(self) -> dict[str, Any]:
        """What decides the result, as plain values: stored with it, and used to recognise the job of a checkpoint."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in MACHINE}
