"""One run: what it starts from, how it calls the steps of the pipeline, and these steps as its options ask for them.

A run times, reports, retries, audits and saves every step alike. Its log has seconds and memory by stage, progress for
the listener, and findings for the result. Every trial of the automatic search takes the same steps.
"""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from copy import copy
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from .. import __version__
from ..backend import Backend, active_backend, backend_of, device_near, get_backend, reporting, step, to_device, to_host
from ..backend.array import Array
from ..backend.cpu import peak_memory
from ..backend.kernels import plain
from ..choice.rmetric import Tangents, tangent_spaces
from ..choice.search import SearchResult, choose_coordinates
from ..choice.untangle import untangle
from ..embedding.diffusion import Embedding, diffusion_map
from ..embedding.graph import SPHERICAL, csr, points_in_metric
from ..embedding.laplacian import Laplacian, Rows, SparseMatrix
from ..findings import Finding, IESWarning, OutOfMemoryError, listen, option, refusal, teller, warning, without_repeats
from ..options import ENTRIES, Options, is_auto
from ..validation import check_integer, check_points, check_real_array

if TYPE_CHECKING:
    from ..backend import Do, Step
    from .checkpoint import Checkpoint, Saved

SAVED = ("automatic", "graph", "laplacian", "eigenvectors", "tangents", "search")  # the files of a checkpoint
AUDIT_TOLERANCE = {"float64": 1e-7, "mixed": 1e-4, "float32": 1e-2}
REPORT = "please report this with the output of 'ies-gpu doctor --selftest'"
UNUSABLE = "kernel.not_used"  # said once in a process, whichever trial comes by
logger = logging.getLogger("ies_gpu")
AT_ONCE = "memory.slow"  # said before long work, even in a trial whose other warnings are held back
Progress = Callable[[str, int, int], None]


class Inputs(NamedTuple):
    """The inputs by name, exactly one of which is the entry; and the user's points, where a metric changed them."""

    values: dict[str, Any]
    before: Any = None

    @classmethod
    def of(cls, **values: Any) -> Inputs:
        """Check that exactly one entry was given, and eigenvectors only with a Laplacian."""
        entries = [name for name in ENTRIES if values.get(name) is not None]
        if len(entries) != 1:
            text = f"pass exactly one of X, graph, kernel, laplacian, got {', '.join(entries) or 'none'}"
            raise refusal("entry.number", text)
        late = [name for name in ("coordinates", "eigenvalues") if values.get(name) is not None]
        if entries[0] != "laplacian" and late:
            text = f"coordinates and eigenvalues work only with laplacian, not with {entries[0]}"
            raise refusal("coordinates.entry", text)
        if entries[0] == "laplacian" and len(late) < 2:
            text = "laplacian needs coordinates and eigenvalues too, as diffusion_map returns them"
            raise refusal("laplacian.alone", text)
        return cls({name: value for name, value in values.items() if value is not None})

    def to_euclidean(self, metric: str) -> Inputs:
        """Return inputs whose points have the distances of the metric as Euclidean ones, where such points exist."""
        if metric not in SPHERICAL:
            return self
        return Inputs(self.values | {"X": points_in_metric(self.value, metric)}, before=self.value)

    @property
    def entry(self) -> str:
        return next(name for name in ENTRIES if name in self.values)

    @property
    def value(self) -> Any:
        return self.values[self.entry]

    @property
    def points(self) -> Any:
        """The user's points, as they came; None without points."""
        return self.values.get("X") if self.before is None else self.before

    @property
    def home(self) -> Backend:
        return backend_of(self.values.get("coordinates", self.value))

    def n_components(self, otherwise: int) -> int:
        """Return the number of eigenvectors that were given, or else the number requested."""
        if "coordinates" not in self.values:
            return otherwise
        m = check_real_array("coordinates", self.values["coordinates"], 2).shape[1]
        if check_integer("n_components", otherwise, low=1) not in (m, Options.n_components):
            text = f"{option('n_components', otherwise)} differs from the {m} columns of coordinates"
            raise refusal("n_components.coordinates", text, "leave it out, or pass as many columns and eigenvalues")
        return int(m)


class Log:
    """The log of one run; ``progress`` is True for a bar, or a function of (stage, done, total)."""

    def __init__(self, progress: Progress | bool | None = None) -> None:
        if progress is True:
            from .progress import Bar

            progress = Bar()
        self.progress: Any = None if progress is False else progress
        if self.progress is not None and not callable(progress):
            text = f"progress must be True or a function of (stage, done, total), got {progress!r}"
            raise refusal("progress.type", text, kind=TypeError)
        self.seconds: dict[str, float] = {}
        self.peak_bytes: dict[str, int] = {}
        self.findings: list[Finding] = []
        self.current = ""
        self.tell = teller()  # a run listens to its steps, and speaks to its caller

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage, and with it its parts of the same name; what it reports goes to the listener."""
        if name == self.current:
            yield
            return

        report = (lambda *_: None) if self.progress is None else partial(self.progress, name)
        logger.debug("%s: begins", name)
        report(0, 0)
        begin, before, self.current = time.perf_counter(), self.current, name
        try:
            with reporting(report):
                yield
        finally:
            self.current = before
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin
        self.peak_bytes[name] = peak_memory()
        report(1, 1)
        logger.info("%s: %.2f s", name, self.seconds[name])

    def warn(self, finding: Finding) -> None:
        """Keep a finding, and pass it to the caller of ``select_coordinates`` if it is a warning."""
        if finding not in self.findings:  # a scan and the run after it come by the same place
            self.findings.append(finding)
            if finding.severity == "warning":
                self.tell(finding)

    def keep(self, findings: list[Finding]) -> None:
        """Keep findings that need no warning, or were issued elsewhere."""
        self.findings += [finding for finding in findings if finding not in self.findings]


class HeldLog(Log):
    """The log of a trial that may be discarded: warnings wait until it is chosen; what cannot goes to ``shown``."""

    def __init__(self, shown: Log | None = None, progress: Progress | None = None) -> None:
        super().__init__(progress if shown is None else shown.progress)
        self.shown = shown
        if shown is not None:
            self.seconds, self.peak_bytes = shown.seconds, shown.peak_bytes

    def warn(self, finding: Finding) -> None:
        if finding.code == UNUSABLE:
            self.tell(finding)
        elif finding.code != AT_ONCE:
            self.findings.append(finding)
        elif self.shown is not None:
            self.shown.warn(finding)


class Run:
    """One run on one backend, by default that of the options: ``run(step, *args, **kwargs)`` is the ``do`` of steps."""

    def __init__(
        self, options: Options, given: Inputs, progress: Progress | bool | None = None, *, log: Log | None = None,
        backend: Backend | None = None,
    ) -> None:  # fmt: skip
        self.options, self.given, self.log = options, given, log or Log(progress)
        self.backend: Backend = backend or get_backend(
            device_near(given.home, options.device), memory_limit=options.memory_limit, n_threads=options.n_threads
        )
        self.audit: dict[str, float] = {}
        self.checkpoint: Checkpoint | None = None
        self.after = ""  # the digest of the last step that was saved
        self.open = ExitStack()

    def apart(self, options: Options, log: Log, audit: dict[str, float]) -> Run:
        """Return a run on the same backend with options, a log and audits of its own, for a trial; it saves nothing."""
        trial = copy(self)
        trial.options, trial.log, trial.audit, trial.checkpoint = options, log, audit, None
        return trial

    def __enter__(self) -> Self:
        if longer := self.backend.first_run():
            getattr(self.log.progress, "write", logger.info)(f"ies_gpu: {longer}")  # above a bar
        with ExitStack() as stack:
            stack.enter_context(self.backend.active())
            if self.options.checkpoint is not None:
                self.checkpoint = stack.enter_context(closing(self._opened()))
            if self.backend.memory_limit is None:  # it decides on storage and the length of blocks: once for the run
                before = None if self.checkpoint is None else self.checkpoint.own
                self.backend.memory_limit = int(before["state"]["memory"]) if before else self.backend.memory_budget()
            self.open = stack.pop_all()
        return self

    def _opened(self) -> Checkpoint:
        """Open the checkpoint of the job that these options, data, device and versions are."""
        from .checkpoint import Checkpoint, data_digest

        options, backend = self.options, self.backend
        job = options.parameters | {"versions": versions()}
        job |= {"device": backend.device.partition(":")[0], "kernels": backend.kernels.NAME}
        job["data"] = data_digest(self.given.values)
        return Checkpoint(options.checkpoint, options.resume, job, SAVED)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        getattr(self.log.progress, "close", bool)()  # a bar leaves nothing behind, wherever the run ended
        self.open.__exit__(kind, error, trace)

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return the result of a step: read from the checkpoint, or computed and saved. The log hears its findings."""
        step: Step = function.step  # type: ignore[attr-defined]
        compute = partial(function, *args, **kwargs)
        with listen(IESWarning, self.log.warn):
            if self.checkpoint is None or step.pack is None or step.unpack is None:
                return self._computed(step, compute)
            if (saved := self._read(step.name, self.after)) is not None:
                self.after = saved.digest
                load = partial(self._load, step, compute, saved.digest)
                return step.unpack(saved.content, load, *args, **kwargs)
            result = self._computed(step, compute)
            if (packed := step.pack(result)) is not None:
                self.after = self._write(step.name, self.after, packed)
                self._write_heavy(step, result, self.after)
            return result

    def results(self) -> dict[str, Any]:
        """Return what is known at the end, for ``diagnostics``; warnings are the sentences that were issued."""
        said = self.log.findings
        found = {"seconds": self.log.seconds, "peak_bytes": self.log.peak_bytes}
        found |= {"findings": [asdict(finding) for finding in without_repeats(said)]}
        found |= {"warnings": tuple(str(finding) for finding in said if finding.severity == "warning")}
        found |= {"parameters": self.options.parameters, "audit": self.audit}
        if (saved := self.checkpoint) is not None:
            found["checkpoint"] = {"folder": str(saved.folder), "resumed": saved.resumed, "notes": saved.notes}
        return found

    def _load(self, step: Step, compute: partial[Any], digest: str) -> Any:
        """Return the heavy part of a saved result; where it is missing or damaged, the result, computed again."""
        if (saved := self._read(step.heavy_name, digest)) is not None:
            return saved.content
        result = self._computed(step, compute)
        self._write_heavy(step, result, digest)
        return result

    def _read(self, name: str, after: str) -> Saved | None:
        """Return a saved result, and take over what was known of the run at its end."""
        assert self.checkpoint is not None
        if not self.checkpoint.has(name, after):
            return None
        with self.log.stage(f"resume {name}"):
            if (saved := self.checkpoint.read(name)) is None:
                return None
        for kernel, difference in saved.state["audit"].items():
            self.audit[kernel] = max(difference, self.audit.get(kernel, 0.0))
        self.log.seconds = saved.state["seconds"] | self.log.seconds
        for record in saved.state["findings"]:  # told again
            self.log.warn(Finding(**record))
        if saved.state["kernels"] == plain.NAME:  # an audit had failed
            self.backend.kernels = plain
        return saved

    def _write(self, name: str, after: str, content: dict[str, Any]) -> str:
        """Save a result with what is known of the run, and return its digest."""
        assert self.checkpoint is not None
        state: dict[str, Any] = {"audit": self.audit, "findings": list(map(asdict, self.log.findings))}
        state |= {"seconds": self.log.seconds, "kernels": self.backend.kernels.NAME}
        state["memory"] = self.backend.memory_limit
        with self.log.stage(f"checkpoint {name}"):
            return self.checkpoint.write(name, after, state, content)

    def _write_heavy(self, step: Step, result: Any, digest: str) -> None:
        if step.heavy is not None and (content := step.heavy(result)) is not None:
            self._write(step.heavy_name, digest, content)

    def _computed(self, step: Step, compute: partial[Any]) -> Any:
        if step.composite:
            return compute(do=self)
        with self.log.stage(step.name):
            work = partial(compute, do=self) if step.calls else compute
            result = self.backend.retried(step.name, work)
            if step.audit is None:
                return result
            audit = partial(step.audit, result, *compute.args, **compute.keywords)
            if self._agrees(step, audit) or not step.again:
                return result
            return self.backend.retried(step.name, work)

    def _agrees(self, step: Step, difference: Callable[[], float | None]) -> bool:
        """Return whether a sample agrees with plain code; if not, the run says so and goes on with plain code."""
        if self.backend.kernels is plain:
            return True
        try:
            found = self.backend.retried(step.name, difference)
        except (OutOfMemoryError, np.linalg.LinAlgError) as error:  # the check failed, not what it checks
            text = f"the kernel {step.kernel} was not compared with plain code on sampled rows: {error}"
            self.log.warn(warning("kernel.not_compared", text))
            return True
        if found is None:
            return True
        self.audit[step.kernel] = max(found, self.audit.get(step.kernel, 0.0))
        precision = self.options.arithmetic if step.single else "float64"
        if step.kernel == "tangent_rows" and self.options.dtype == "mixed" and self.backend.slow_double:
            precision = "mixed"  # see plain.tangent_rows_single
        if found <= AUDIT_TOLERANCE[precision]:
            return True
        text = f"the kernel {step.kernel} differs from plain code by {found:.1e} on sampled rows"
        self.log.warn(warning("kernel.differs", f"{text}; the stage was repeated on plain code", REPORT))
        self.backend.kernels = plain
        return False


def versions() -> dict[str, str]:
    found = {"ies_gpu": __version__, "python": platform.python_version()}
    for name in ("numpy", "scipy", "numba"):
        with suppress(ImportError):
            found[name] = import_module(name).__version__
    return found


# --- the steps as the options ask for them --------------------------------------------------------------------------


@step("checks")
def checked_points(X: Any, options: Options, backend: Backend) -> Array:
    X = to_device(check_points(X), backend)
    options.check_shape(*X.shape)
    return X


def packed_laplacian(found: Laplacian) -> dict[str, Any]:
    """Return what a checkpoint saves of a Laplacian, but for its matrix."""
    own = {"weights": found.operator_weights, "bandwidth": found.bandwidth, "facts": found.facts}
    return own | found.rows._asdict()


def packed_matrix(found: Laplacian) -> dict[str, Any] | None:
    """Return the matrix; tiles are computed again: they would fill the disk, and take less time than the rest."""
    if not found.operator.has_matrix:
        return None
    P = found.operator.matrix
    return {"data": P.data, "indices": P.indices, "indptr": P.indptr}


def unpacked_laplacian(content: dict[str, Any], load: Any, *_: Any) -> Laplacian:
    """Return a Laplacian whose matrix is read, or computed again, when it is first used."""
    backend = active_backend()

    def stored() -> Any:
        found = load()
        if isinstance(found, Laplacian):
            return found.operator
        return SparseMatrix(csr(backend, *(backend.asarray(found[name]) for name in ("data", "indices", "indptr"))))

    rows = Rows(*(content[name] for name in Rows._fields))
    weights = backend.asarray(content["weights"])
    return Laplacian(stored, weights, content["bandwidth"], rows=rows, facts=content["facts"])


@step(
    "graph", composite=True, pack=packed_laplacian, unpack=unpacked_laplacian, heavy=packed_matrix,
    heavy_name="laplacian",
)  # fmt: skip
def laplacian_of(given: Inputs, options: Options, do: Do) -> Laplacian:
    """Return the Laplacian of whichever input was given: points, a graph or a kernel."""
    if given.entry == "X":
        from ..embedding.points import laplacian_of_points

        X = do(checked_points, given.value, options, active_backend())
        found = laplacian_of_points(
            X, bandwidth=options.bandwidth, radius=options.radius,
            n_neighbors=options.n_neighbors, self_loops=options.self_loops, alpha=options.alpha,
            intrinsic_dim=options.intrinsic_dim, dtype=options.storage, disconnected=options.disconnected,
            asked=options, do=do,
        )  # fmt: skip
    else:
        from ..embedding.given import laplacian_of_given

        found = laplacian_of_given(given.value, options, do)
    options.check_sizes(found.shape[0])
    return found


class Fit(NamedTuple):
    """A map with its tangent spaces. The Laplacian is without its matrix: several would not fit beside each other."""

    laplacian: Laplacian
    embedding: Embedding
    tangents: Tangents


def map_laplacian(laplacian: Laplacian, options: Options, do: Do) -> Embedding:
    """Return the diffusion map that the options ask for, with its few numbers on the host."""
    m, seed = options.n_components, options.random_state
    found = do(diffusion_map, laplacian, n_components=m, tol=options.tol, random_state=seed)
    few = ("eigenvalues", "residuals", "gaps", "angles")
    return replace(found, **{name: to_host(getattr(found, name)) for name in few})


def fit(laplacian: Laplacian, options: Options, do: Do, embedding: Embedding | None = None) -> Fit:
    """Return the map of a Laplacian, unless it is given, and its tangent spaces."""
    embedding = embedding or map_laplacian(laplacian, options, do)
    d, dtype = options.intrinsic_dim, options.arithmetic
    tangents = do(tangent_spaces, laplacian, embedding, intrinsic_dim=d, dtype=dtype)
    return Fit(laplacian.without_matrix, embedding, tangents)


def fit_input(given: Inputs, options: Options, do: Do) -> tuple[Fit, Laplacian | None]:
    """Return the map of whichever input was given; without points also the Laplacian with its matrix."""
    embedding = None
    if options.entry == "laplacian":
        from ..embedding.given import given_map

        laplacian, embedding = do(given_map, **given.values, bandwidth=options.bandwidth, backend=active_backend())
    else:
        laplacian = do(laplacian_of, given, options)
    return fit(laplacian, options, do, embedding), None if options.entry == "X" else laplacian


def choose(tangents: Tangents, embedding: Embedding, options: Options, do: Do) -> SearchResult:
    zeta = None if is_auto(options.zeta) else options.zeta  # by the regret, or as given
    return do(
        choose_coordinates, tangents, embedding, subset_size=options.subset_size, zeta=zeta,
        percentile=options.percentile, search=options.search, random_state=options.random_state,
    )  # fmt: skip


def find_turn(fit: Fit, found: SearchResult, X: Array | None, graph: Laplacian | None, n: int, do: Do) -> Array | None:
    """Return the weights of eigenvectors in the chosen coordinates, tested by points as given, or by the graph."""
    values, rows = fit.laplacian.scale * fit.embedding.eigenvalues, fit.laplacian.rows.order
    known = fit.embedding.vectors, values, *fit.tangents, found.subset
    return do(untangle, *known, X=X, laplacian=graph, rows=rows, n_samples=n)
