"""The table of options: what each accepts, what it means, its flag, and which of them go together. Written once.

It drives the checks, the command line with its variables and job files, the docstrings of ``select_coordinates``
and of the estimators. Only the standard library is imported.
"""

import inspect
import os
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import wraps
from math import comb
from types import MappingProxyType
from typing import Any, NamedTuple, ParamSpec, TypeVar

from .constraints import PATH, Bytes, Constraint, Device, Integer, Length, Number, Percentile, Seed, Switch, Words
from .findings import option, refusal

AUTO, LOCAL, FIXED = "auto", "local", "fixed"
ENTRIES = ("X", "graph", "kernel", "laplacian")
INPUTS = (*ENTRIES, "coordinates", "eigenvalues")  # with what belongs to a Laplacian
METRICS = ("euclidean", "cosine", "correlation")
_CALL = f"sklearn.neighbors.radius_neighbors_graph(X, radius, mode='distance', {option('metric', 'manhattan')})"
OTHER_METRICS = (
    f"for another distance pass graph={_CALL} instead of X, or {option('metric', 'precomputed')} to an estimator"
)
MAX_SUBSETS = 2_000_000  # sets that an exhaustive search scores
Owner = TypeVar("Owner")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


class About(NamedTuple):
    """What the table knows of one option."""

    accepts: Constraint
    kind: str  # in a docstring
    help: str  # of the command line
    doc: str  # of a docstring
    flag: str = ""  # instead of --name-with-dashes, or a short one beside it
    metavar: str = ""
    entries: tuple[str, ...] = ENTRIES  # what it works with
    cluster: str = ""  # where it does not work on a cluster: what to do instead
    decides: bool = True  # the result, or only where and how it is computed


def row(default: Any, accepts: Constraint, kind: str, help: str, doc: str = "", **more: Any) -> Any:
    return field(default=default, metadata={"about": About(accepts, kind, help, textwrap.dedent(doc).strip(), **more)})


@dataclass(frozen=True)
class Options:
    """The options of :func:`ies_gpu.select_coordinates`, checked as far as they can be without the data."""

    entry: str = row("X", Words(*ENTRIES), "str", "what the run starts from")
    intrinsic_dim: Any = row(AUTO, Integer(1) | Words(AUTO), 'int or "auto"', "dimension of the manifold", """
        The dimension d of the manifold. "auto" estimates it from ``X``; a graph, kernel or Laplacian needs a number.
        """, flag="-d", metavar="D")  # fmt: skip
    subset_size: Any = row(AUTO, Integer(1) | Words(AUTO), 'int or "auto"', "how many coordinates to choose", """
        How many coordinates to choose, at least ``intrinsic_dim``. "auto" adds them while each explains enough of
        ``X``; a graph, kernel or Laplacian needs a number.
        """, flag="-s", metavar="S")  # fmt: skip
    bandwidth: Any = row(
        AUTO, Length() | Words(AUTO, FIXED, LOCAL) | None, 'float, "auto", "fixed" or "local"',
        "bandwidth of the kernel in the units of the data, or auto, fixed or local", """
        The length eps in the Gaussian kernel ``exp(-distance^2 / eps^2)``. "fixed" takes the one, of several, whose
        chosen coordinates explain ``X`` best. "local" follows the density: points with distant neighbours get a longer
        one [2]_. "auto" is "fixed", or "local" where the density is uneven and that explains more: see
        ``diagnostics["automatic"]``. A graph needs a number; a kernel or Laplacian needs none.
        """, metavar="EPS")  # fmt: skip
    n_neighbors: int | None = row(
        None, Integer(2) | None, "int", "connect each point to its K nearest ones", """
        Join each point to this many nearest ones, instead of all within the radius; two points are neighbours if either
        is among the nearest of the other. The bandwidth is then "local" unless you pass a number.
        """, flag="--neighbors", metavar="K", entries=("X",),
        cluster=f"pass a number for {option('bandwidth')}")  # fmt: skip
    radius: Any = row(None, Length() | None, "float", "largest distance between neighbours (3 * EPS)", """
        Points no further apart than this are neighbours, by default ``3 * bandwidth``. A sparse graph is used as given
        unless you pass a radius; a dense one, which has a distance for every pair, is cut at the default too.
        """, metavar="R", entries=("X", "graph"))  # fmt: skip
    self_loops: bool = row(
        True, Switch(), "bool", "do not count a point as its own neighbour; use for high-dimensional noise", """
        Whether each point is its own neighbour, ``K_ii = 1``, as in the paper. With noise in many dimensions a point
        can outweigh its neighbours and get a coordinate of its own; False prevents that. A kernel keeps its diagonal.
        """, entries=("X", "graph"))  # fmt: skip
    metric: str = row(
        "euclidean", Words(*METRICS, advice=OTHER_METRICS), '{"euclidean", "cosine", "correlation"}',
        "how distances are measured", """
        How distances between the rows of ``X`` are measured. "cosine" and "correlation" are chords between rows of unit
        length, ``sqrt(2 - 2 cos)``, and as fast as "euclidean". For other distances, pass ``graph``, for example from
        ``sklearn.neighbors.radius_neighbors_graph(X, radius, mode="distance", metric="manhattan")``.
        """, metavar="NAME", entries=("X",), cluster="only 'euclidean' does")  # fmt: skip
    alpha: float = row(1.0, Number(0, 1, closed=True), "float", "how strongly sampling density is corrected for", """
        How strongly the sampling density is corrected for: 1 as in the paper, so that only the shape counts; 1/2 for
        the process whose density the points have (Fokker-Planck); 0 for the plain random walk on the graph, which is
        slow to leave dense regions.
        """, metavar="A", entries=ENTRIES[:3], cluster="only 1.0 does")  # fmt: skip
    n_components: int = row(20, Integer(1), "int", "how many eigenvectors to choose from",
        "How many eigenvectors to choose from.", flag="-m", metavar="M")  # fmt: skip
    zeta: Any = row(
        AUTO, Number(0, closed=True) | Words(AUTO), 'float or "auto"', "weight of the smoothness penalty", """
        The weight of the smoothness penalty. "auto" lowers it from infinity to the first set that passes the
        leave-one-out regret test, and takes the middle of the range on which that set is the best.
        """, metavar="Z")  # fmt: skip
    percentile: float = row(75, Percentile(), "float", "percentile of the regret, for --zeta auto",
        "The percentile of the regret that must not be positive for a set to be accepted.", metavar="P")  # fmt: skip
    search: str = row(
        "exhaustive", Words("exhaustive", "greedy", "submodular", "branch_and_bound"),
        '{"exhaustive", "greedy", "submodular", "branch_and_bound"}', "how to search", """
        Score every set; the paper's greedy search; a local search for large ``n_components`` and ``subset_size``; or an
        exact search that skips sets which provably cannot win. ``diagnostics["search"]`` says what was guaranteed.
        """, cluster="use 'exhaustive'")  # fmt: skip
    untangle: bool = row(
        True, Switch(), "bool", "leave the chosen coordinates as they are, as in the paper", """
        Whether to turn the chosen coordinates, but the first, towards eigenvectors that the sample cannot tell from
        them, if the map keeps more of the points for it. False leaves them as in the paper.
        """)  # fmt: skip
    scale: str = row(
        "rms", Words("rms", "unit", "diffusion"), '{"rms", "unit", "diffusion"}', "scale of the coordinates", """
        How the coordinates are scaled: to root mean square 1, so that an entry does not depend on the number of points;
        to Euclidean length 1, as in the paper; or to lengths ``(1 - lambda_k)^t``, so that distances in all coordinates
        are the diffusion distances at time t. It changes nothing but ``coordinates`` and ``embedding``.
        """, entries=ENTRIES[:3])  # fmt: skip
    diffusion_time: float = row(1.0, Number(0, closed=True), "float", "time of --scale diffusion",
        'The time t of ``scale="diffusion"``; with it, fast coordinates become shorter.', metavar="T")  # fmt: skip
    disconnected: str = row(
        AUTO, Words(AUTO, "raise", "most", "largest"), '{"auto", "raise", "most", "largest"}',
        "what to do if the graph is disconnected", """
        What to do with a disconnected graph: raise an error, continue with its largest part if that holds at least 95%
        of the points, or 90% where all others are scattered ("most"), or in any case ("largest"). "auto" is "most"
        while the bandwidth is being found, and "raise" with a given one. See also :func:`select_each_part`.
        """)  # fmt: skip
    device: str = row(AUTO, Device(), '{"auto", "cpu", "cuda", "cuda:N"}', "auto, cpu, cuda or cuda:N",
        'Where to compute. "auto" uses CUDA if it works and the CPU otherwise.',
        metavar="DEV", decides=False)  # fmt: skip
    dtype: str = row(
        "float64", Words("float64", "mixed", "float32"), '{"float64", "mixed", "float32"}', "precision", """
        "mixed" stores the graph in float32 and computes in float64, which takes two thirds of the memory; on a GPU
        where float64 is slow, it computes tangent bases in float32. "float32" computes these and scores in float32. The
        eigensolver always uses float64.
        """)  # fmt: skip
    memory_limit: int | None = row(
        None, Bytes() | None, "int", "memory to use, such as 4G or 500M (half of what is free)", """
        How many bytes the run may use beside what the process holds at the start and the libraries take (220 MB); by
        default half of the free memory. Slower ways are announced; ``diagnostics["storage"]`` says what was done.
        """, metavar="SIZE", cluster="set it when you start the workers", decides=False)  # fmt: skip
    n_threads: int | None = row(None, Integer(1, 65_536) | None, "int", "CPU threads (all that the process may use)",
        "How many CPU threads to use, by default all that the process may.", flag="--threads", metavar="N",
        cluster="set it when you start the workers", decides=False)  # fmt: skip
    random_state: Any = row(0, Seed(0), "int, RandomState, Generator or None", "seed of the eigensolver", """
        The seed for the eigensolver's start vector, the samples behind "auto", and the starts of the submodular search;
        ``diagnostics["parameters"]`` has the one that was used. Signs do not depend on it.
        """, flag="--seed", metavar="N")  # fmt: skip
    tol: float = row(1e-8, Number(0, 1), "float", "upper bound on eigenvector residuals",
        "The largest residual that an eigenpair may have.", metavar="T")  # fmt: skip
    keep_bases: bool | None = row(None, Switch() | None, "bool", "keep the tangent bases", """
        Whether to keep the tangent bases, which :meth:`Selection.score` needs. By default they are kept up to 512 MB,
        and with ``client`` not at all.
        """, decides=False)  # fmt: skip
    checkpoint: str | os.PathLike[str] | None = row(
        None, PATH | None, "str or path-like", "save each finished stage in a local folder", """
        A local folder in which to save each finished stage. If it holds stages already, ``resume`` must be True.
        """, metavar="DIR", cluster="a cluster saves no stages; leave it out", decides=False)  # fmt: skip
    resume: bool = row(False, Switch(), "bool", "continue from the stages in DIR, if there are any", """
        Continue from the stages in ``checkpoint``; the result is the same to the bit. Damaged stages, and those of
        another job, are recomputed with a warning.
        """, decides=False)  # fmt: skip

    def __post_init__(self) -> None:
        for name, about in TABLE.items():
            self._keep(name, about.accepts.check(name, getattr(self, name)))
        check_together(self)
        settle_neighbors(self)
        check_entry(self)
        settle_lengths(self)
        self.check_sizes()

    def _keep(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def check_shape(self, n: int, columns: int) -> None:
        """Check that the points suffice, in number and in columns, for what is asked."""
        d = self.intrinsic_dim
        if not is_auto(d) and d > columns:
            text = f"{option('intrinsic_dim')} must be at most {columns}, the number of columns of X, got {d}"
            raise refusal("intrinsic_dim.range", text)
        self.check_sizes(n)

    def check_sizes(self, n: int | None = None) -> None:
        """Check that dimension, subset size and number of eigenvectors fit together, and the number n of points."""
        least = 1 if is_auto(self.intrinsic_dim) else self.intrinsic_dim
        d, s, m = check_sizes(n, least, least if is_auto(self.subset_size) else self.subset_size, self.n_components)
        if self.search == "exhaustive":
            count_subsets(m, s)
        if self.search == "greedy":  # which starts from all sets of d
            count_subsets(m, d, "intrinsic_dim")

    @property
    def changed(self) -> dict[str, Any]:
        return {name: value for name in TABLE if (value := getattr(self, name)) != DEFAULTS[name]}

    @property
    def nearest(self) -> bool:
        return self.n_neighbors is not None or is_local(self.bandwidth)

    @property
    def automatic(self) -> list[str]:
        """The names of the parameters to find from the points."""
        names = [name for name in ("intrinsic_dim", "subset_size") if is_auto(getattr(self, name))]
        return ["bandwidth", *names] if is_found(self.bandwidth) else names

    @property
    def storage(self) -> str:
        """The precision of everything that is as large as the graph."""
        return "float64" if self.dtype == "float64" else "float32"

    @property
    def stored_bytes(self) -> int:
        return 8 if self.dtype == "float64" else 4

    @property
    def arithmetic(self) -> str:
        """The precision of tangent bases and scores."""
        return "float32" if self.dtype == "float32" else "float64"

    @property
    def parameters(self) -> dict[str, Any]:
        """What decides the result, as plain values: stored with it, and used to recognise the job of a checkpoint."""
        return {name: getattr(self, name) for name, about in TABLE.items() if about.decides}


TABLE: dict[str, About] = {each.name: each.metadata["about"] for each in fields(Options)}
DEFAULTS = {each.name: each.default for each in fields(Options)}


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == AUTO


def is_local(value: Any) -> bool:
    """Return whether a bandwidth is to follow the density."""
    return isinstance(value, str) and value == LOCAL


def is_found(value: Any) -> bool:
    """Return whether a bandwidth is to be found from the points."""
    return isinstance(value, str) and value in (AUTO, FIXED)


# --- rules between options -------------------------------------------------------------------------------------------


def check_entry(options: Options) -> None:
    """Check that each option works with the input: the column ``entries`` of the table."""
    for name, value in options.changed.items():
        if options.entry not in (entries := TABLE[name].entries):
            text = f"{option(name, value)} works only with {' or '.join(entries)}, not with {options.entry}"
            raise refusal(f"{name}.entry", f"{text}, which has its own")


def check_together(options: Options) -> None:
    """Refuse options that mean nothing without another."""
    if options.diffusion_time != 1 and options.scale != "diffusion":
        text = f"{option('diffusion_time', options.diffusion_time)} works only with {option('scale', 'diffusion')}"
        raise refusal("diffusion_time.scale", text)
    if options.resume and options.checkpoint is None:
        text = f"{option('resume', True)} needs {option('checkpoint')}, the folder with the finished stages"
        raise refusal("resume.checkpoint", text)
    scheme, colon, _ = str(options.checkpoint).partition(":/")  # pathlib makes one slash of two
    if colon and len(scheme) > 1 and "/" not in scheme:
        text = f"{option('checkpoint')} must be a local folder, not a URL"
        raise refusal("checkpoint.remote", text, "mount a volume for it")
    if is_local(options.bandwidth) and options.alpha != 1:
        text = f"{option('bandwidth', LOCAL)} corrects for the density itself"
        raise refusal("alpha.local", text, f"leave {option('alpha', options.alpha)} out")


def settle_neighbors(options: Options) -> None:
    """Settle a graph of nearest neighbours: of points, without a radius, and with a local bandwidth by default."""
    if not options.nearest:
        return
    near = options.n_neighbors
    asked = option("bandwidth", LOCAL) if near is None else option("n_neighbors", near)
    if options.entry != "X":
        text = f"{asked} works only with X"
        raise refusal("n_neighbors.entry", text, f"a {options.entry} already has its neighbours")
    if options.radius is not None:
        text = f"{asked} takes the nearest neighbours, so {option('radius')} does not apply"
        raise refusal("radius.n_neighbors", text, "leave one of them out")
    if is_auto(options.bandwidth):
        options._keep("bandwidth", LOCAL)
    if is_found(options.bandwidth):
        text = f"{asked} needs {option('bandwidth', LOCAL)} or a number, got {option('bandwidth', options.bandwidth)}"
        raise refusal("bandwidth.n_neighbors", text)


def settle_lengths(options: Options) -> None:
    """Settle bandwidth and radius: only points let a bandwidth be found, and the radius follows from it."""
    entry = options.entry
    if entry in ("kernel", "laplacian") and is_found(options.bandwidth):
        options._keep("bandwidth", None)  # it has gone into the kernel already
    if is_auto(options.disconnected):  # with a given bandwidth a graph in parts may be a slip
        options._keep("disconnected", "most" if isinstance(options.bandwidth, str) else "raise")
    if options.automatic and entry != "X":
        text = f"{option(options.automatic[0])} is required with {entry}: 'auto' needs the points, X"
        raise refusal("entry.automatic", text)
    if is_found(options.bandwidth) and options.radius is not None:
        text = f"{option('radius', options.radius)} needs a number for {option('bandwidth')} too"
        raise refusal("radius.automatic", text, "with one that is found, the radius is 3 * bandwidth")
    if entry in ("X", "graph") and options.bandwidth is None:
        text = f"{option('bandwidth')} is required with {entry}: the length scale of the kernel"
        raise refusal("bandwidth.missing", text)
    if options.radius is None and entry == "X" and not is_found(options.bandwidth) and not options.nearest:
        options._keep("radius", 3 * options.bandwidth)


def check_sizes(n: int | None, intrinsic_dim: Any, subset_size: Any, n_components: Any) -> tuple[int, int, int]:
    """Check that d, s and m fit together and, if it is known, the number n of points."""
    m = Integer(1).check("n_components", n_components)
    if n is not None and m > n - 2:
        if n < 3:
            text = f"{n} points are too few for a map"
            raise refusal("points.too_few", text, f"at least {option('n_components')} + 2 are needed, here {m + 2}")
        text = f"{n} points are too few for {option('n_components', m)}, which may be {n - 2} at most"
        raise refusal("points.too_few", text, "lower it or add points")
    d = Integer(1, m, f" ({option('n_components')} is {m})").check("intrinsic_dim", intrinsic_dim)
    why = f" ({option('intrinsic_dim')} is {d}, {option('n_components')} is {m})"
    return d, Integer(d, m, why).check("subset_size", subset_size), m


def count_subsets(m: int, s: int, name: str = "subset_size") -> int:
    """Return how many sets of s there are, s being the option ``name``; an error if they are too many to score."""
    count = comb(m - 1, s - 1)
    if count > MAX_SUBSETS:
        many = f"{count:,}" if count < 10**30 else "too many"
        text = f"{option('n_components', m)} and {option(name, s)} give {many} sets, more than {MAX_SUBSETS:,}"
        first = f"{option('search', 'greedy')}, " if name == "subset_size" else ""
        others = f"{first}{option('search', 'submodular')} or 'branch_and_bound', which do not score every set"
        raise refusal("search.too_many", text, f"lower one of them, or use {others}")
    return count


def check_on_cluster(options: Options) -> None:
    """Refuse what a cluster run does not do: the column ``cluster`` of the table, and what must be a number there."""
    if options.entry != "X":
        raise refusal("client.entry", f"{option('client')} works only with X, not with {options.entry}")
    for name, value in options.changed.items():
        if TABLE[name].cluster:
            text = f"{option(name, value)} does not work with {option('client')}"
            raise refusal(f"client.{name}", text, TABLE[name].cluster)
    for name in [*options.automatic, *(["bandwidth"] if is_local(options.bandwidth) else [])]:
        text = f"{option(name, getattr(options, name))} does not work with {option('client')}"
        raise refusal("client.automatic", text, "find it on a sample of the points on one machine, and pass the number")


def parameter(name: str) -> str:
    """Return the entry of an option in a numpydoc section."""
    default = DEFAULTS[name]
    tail = ", optional" if default is None else f', default="{default}"' if isinstance(default, str) else ""
    first = f"{name} : {TABLE[name].kind}{tail or f', default={default}'}"
    return f"{first}\n{textwrap.indent(TABLE[name].doc, '    ')}"


def documented(owner: Owner, own: Mapping[str, str] = MappingProxyType({})) -> Owner:
    """Decorator: a line ``{alpha, tol}`` of a docstring becomes the documentation of these options.

    ``own`` has texts for names that mean something else here, or are no options.
    """

    def filled(match: re.Match[str]) -> str:
        texts = [own[name] if name in own else parameter(name) for name in re.split(r",\s*", match[2])]
        return textwrap.indent("\n".join(texts), match[1])

    owner.__doc__ = re.sub(r"^( *)\{([a-z_,\s]+)\}$", filled, owner.__doc__ or "", flags=re.MULTILINE)
    return owner


# ours, by the name elsewhere
SAME = {"n_jobs": "n_threads", "eigen_tol": "tol", "k": "n_neighbors", "seed": "random_state", "verbose": "progress"}
SAME["components"] = "disconnected"  # in our earlier versions
KERNEL = "the kernel is exp(-distance^2 / bandwidth^2), so pass bandwidth ="
ELSEWHERE = {  # what has no name here; of lengths how to convert them
    "gamma": f"{KERNEL} 1 / sqrt(gamma)",
    "sigma": f"{KERNEL} sqrt(2) * sigma",
    "epsilon": f"{KERNEL} 2 * sqrt(epsilon) as for pydiffmap, or sqrt(2 * epsilon) as for datafold",
    "eigen_solver": "leave it out: the eigensolver is chosen by the graph",
    "affinity": 'pass affinities of your own as X with metric="precomputed_affinity", or as kernel',
}


def explain_keywords(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorator: the error for an unknown keyword names the one that was meant."""
    known = [name for name in inspect.signature(function).parameters if name != "self"]

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        for name in (name for name in kwargs if name not in known):
            near = [SAME[name]] if SAME.get(name) in known else get_close_matches(name, known, n=1, cutoff=0.7)
            advice = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
            advice = ELSEWHERE.get(name, advice) if "bandwidth" in known else advice
            text = f"{function.__qualname__.removesuffix('.__init__')} has no option {name!r}"
            raise refusal("keyword.unknown", text, advice, TypeError)
        return function(*args, **kwargs)

    return call
