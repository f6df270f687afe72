"""Everything that may be asked of a run: one set of options, checked once.

The command line reads names and defaults from here before anything heavy is loaded, so this module imports nothing
outside the standard library until options are checked.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

AUTO = "auto"
ENTRIES = ("X", "graph", "kernel", "laplacian")
CHOICES = {
    "search": ("exhaustive", "greedy", "submodular", "branch_and_bound"),
    "components": ("raise", "largest"),
    "dtype": ("float64", "mixed", "float32"),
}
# where and how a job runs, but not what comes out of it
MACHINE = ("device", "memory_limit", "n_threads", "keep_bases", "checkpoint", "resume")


def is_auto(value: Any) -> bool:
    """Whether a parameter is to be found."""
    return isinstance(value, str) and value == AUTO


@dataclass(frozen=True)
class Options:
    """The options of :func:`ies_gpu.select_coordinates`, checked as far as they can be without the data.

    Attributes
    ----------
    entry : {"X", "graph", "kernel", "laplacian"}
        What the run starts from. All other names are those of ``select_coordinates``.
    """

    entry: str = "X"
    intrinsic_dim: Any = AUTO
    subset_size: Any = AUTO
    bandwidth: Any = AUTO
    radius: Any = None  # a number once the bandwidth is known
    self_loops: bool = True
    n_components: int = 20
    zeta: Any = AUTO
    percentile: float = 75
    search: str = "exhaustive"
    components: str = "raise"
    device: str = "auto"
    dtype: str = "float64"
    memory_limit: int | None = None
    n_threads: int | None = None
    random_state: int = 0
    tol: float = 1e-8
    keep_bases: bool | None = None
    checkpoint: str | os.PathLike[str] | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        from ..validation import check_choice, check_flag, check_integer, check_number

        def keep(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        if not isinstance(self.zeta, str):
            keep("zeta", check_number("zeta", self.zeta, closed=True))
        else:
            check_choice("zeta", self.zeta, (AUTO,))
        keep("percentile", check_number("percentile", self.percentile, low=0.0, high=100.0, closed=True))
        keep("tol", check_number("tol", self.tol, high=1.0))
        keep("random_state", check_integer("random_state", self.random_state, low=0))
        for name in ("self_loops", "resume", *(["keep_bases"] if self.keep_bases is not None else [])):
            keep(name, check_flag(name, getattr(self, name)))
        if self.memory_limit is not None:
            keep("memory_limit", check_integer("memory_limit", self.memory_limit, low=1 << 20))
        if self.n_threads is not None:
            keep("n_threads", check_integer("n_threads", self.n_threads, low=1, high=65_536))
        if self.resume and self.checkpoint is None:
            raise ValueError("resume=True needs checkpoint, the folder with the finished stages")
        self._check_automatic(keep)
        self._check_scales(keep)
        self.check_sizes()

    def _check_automatic(self, keep: Any) -> None:
        """What is "auto" is found from points, and only there."""
        if self.entry in ("kernel", "laplacian") and is_auto(self.bandwidth):
            keep("bandwidth", None)  # it has gone into the kernel already
        missing = self.automatic
        if missing and self.entry != "X":
            raise ValueError(f"{missing[0]} is needed with {self.entry}: 'auto' looks at the points, X")
        if is_auto(self.bandwidth) and self.radius is not None:
            raise ValueError(
                f"radius goes with a bandwidth; with bandwidth='auto' it is 3 * bandwidth, got {self.radius!r}"
            )

    def _check_scales(self, keep: Any) -> None:
        """Bandwidth, radius and self-loops that fit the entry."""
        from ..validation import check_length

        entry = self.entry
        if not self.self_loops and entry in ("kernel", "laplacian"):
            raise ValueError(f"self_loops=False goes with X or graph; a {entry} has its diagonal already")
        if entry in ("X", "graph") and self.bandwidth is None:
            raise ValueError(f"bandwidth is needed with {entry}: the length over which neighbours count")
        if self.bandwidth is not None and not is_auto(self.bandwidth):
            keep("bandwidth", check_length("bandwidth", self.bandwidth))
        if self.radius is not None:
            keep("radius", check_length("radius", self.radius))
            if entry in ("kernel", "laplacian"):
                raise ValueError(f"radius goes with X or graph; a {entry} has its neighbours already")
        elif entry == "X" and not is_auto(self.bandwidth):
            keep("radius", 3 * self.bandwidth)

    def check_sizes(self, n: int | None = None) -> None:
        """d, s and m that fit together and, where it is known, to the number of points."""
        from ..choice.search import check_counts
        from ..validation import check_sizes

        least = 1 if is_auto(self.intrinsic_dim) else self.intrinsic_dim
        d, s, m = check_sizes(n, least, least if is_auto(self.subset_size) else self.subset_size, self.n_components)
        check_counts(self.search, m, d, s)

    @property
    def automatic(self) -> list[str]:
        """The names of what is to be found from the points."""
        return [name for name in ("bandwidth", "intrinsic_dim", "subset_size") if is_auto(getattr(self, name))]

    @property
    def zeta_given(self) -> float | None:
        """zeta, or None where the regret decides."""
        return None if is_auto(self.zeta) else self.zeta

    @property
    def storage(self) -> str:
        """The precision of what is as large as the graph."""
        return "float64" if self.dtype == "float64" else "float32"

    @property
    def arithmetic(self) -> str:
        """The precision of tangent bases and scores."""
        return "float32" if self.dtype == "float32" else "float64"

    @property
    def parameters(self) -> dict[str, Any]:
        """What decides the result, as plain values: stored with it, and the job that a checkpoint belongs to."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in MACHINE}


def chosen_solver() -> str:
    """``auto``, or what the environment variable IES_GPU_SOLVER asks for: a way to compare, like IES_GPU_KERNELS."""
    from ..embedding.eigensolvers.library import SOLVERS
    from ..validation import check_choice

    return check_choice("the environment variable IES_GPU_SOLVER", os.environ.get("IES_GPU_SOLVER") or AUTO, SOLVERS)
