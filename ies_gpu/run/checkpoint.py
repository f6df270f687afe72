"""Checkpoints: each finished stage of a run is saved, so that a run that was killed can go on.

A stage is taken from the folder only if it is whole, belongs to the same job, and was computed from the very stage
before it that the run now has; everything else is computed again. As the stages are deterministic, what is computed
again has the same bits, and later stages that are sound stay usable behind one that was damaged. The number of threads
is no part of the job: only products with tiles depend on it, and the digests tell where it mattered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from ..backend.kernels import plain
from ..choice.regularization import Segment
from ..choice.search import SearchResult
from ..embedding.graph import csr
from ..embedding.laplacian import Laplacian
from ..errors import CheckpointWarning, warn_caller
from ..parameters.automatic import Calibrated
from .fingerprint import data_digest
from .inputs import Prepared
from .log import Run
from .stage_files import Saved, StageFiles

FOUND = "automatic"  # comes before them where parameters are to be found
STAGES = ("graph", "laplacian", "eigenvectors", "tangents", "search")
RECORDS = {"SearchResult": SearchResult, "Segment": Segment}
Result = TypeVar("Result")


class NotLoaded(NamedTuple):
    """Stands for a matrix that no later stage needs any more."""

    shape: tuple[int, int]
    nnz: int


class Checkpoint:
    """The stages of one run, from a folder where they are there; without a folder each is simply computed.

    Parameters
    ----------
    folder : path or None
        A local folder.
    resume : bool
        Take finished stages from the folder. Without it a folder that holds stages is an error.
    job : dict
        Everything beside the data and the device that decides about the result, as plain values.
    given : dict
        The inputs by name.
    run : Run

    Raises
    ------
    ValueError
        Before any work: ``resume`` without a folder, a folder in use by another run, or one that holds stages
        or somebody's file with the name of one.
    """

    def __init__(self, folder: Any, resume: bool, job: dict[str, Any], given: dict[str, Any], run: Run) -> None:
        self.run, self.resume = run, resume
        self.resumed: list[str] = []
        self.notes: list[str] = []
        self.digests: dict[str, str] = {}
        self.waiting: dict[str, Saved | None] = {}  # read, but not yet asked for
        self.given_embedding = given["coordinates"] is not None
        self.files: StageFiles | None = None
        if folder is None:
            if resume:
                raise ValueError("resume=True needs checkpoint, the folder with the finished stages")
            return
        backend = run.backend
        kind = {"device": backend.device.partition(":")[0], "kernels": backend.kernels.NAME}
        self.files = StageFiles(
            folder, {**job, **kind, "data": data_digest(given)}, (FOUND, *STAGES), RECORDS, self._note
        )
        try:
            self.files.refuse_foreign_files()
            if resume:
                self.files.tell_of_others()
            else:
                self.files.refuse_what_is_there()
        except BaseException:
            self.files.close()
            raise
        if backend.memory_limit is None:  # it sets the length of blocks, and so the order of sums: one for the job
            first = self.files.peek()
            ours = first is not None and first["fingerprint"] == self.files.fingerprint
            backend.memory_limit = int(first["state"]["memory"]) if first and ours else backend.memory_budget()

    def calibrated(self, compute: Callable[[], Calibrated]) -> Calibrated:
        """The parameters that were found; with a folder without the stages, which are then saved one by one."""
        if self.files is None:
            return compute()
        found = self._stage(
            FOUND,
            "",
            compute,
            lambda found: {name: value for name, value in found._asdict().items() if name != "stage"},
            lambda content: Calibrated(None, **content),
        )
        return found._replace(stage=None)

    def prepared(self, compute: Callable[[], Prepared]) -> Prepared:
        """The Laplacian and all about its points; the matrix is read only if tangent bases are still to be computed."""
        if self.files is None or self.given_embedding:  # nothing to save: what was given only has to be checked
            return compute()
        before = self.digests.get(FOUND, "")
        graph = self._read("graph", before)
        if graph is not None:
            vectors = self._read("eigenvectors", graph.digest)
            tangents = None if vectors is None else self._read("tangents", vectors.digest)
            matrix = self._read("laplacian", graph.digest) if tangents is None else None
            if tangents is not None or matrix is not None:
                self._use("graph", graph)
                if matrix is not None:
                    self._use("laplacian", matrix)
                return self._assembled(graph.content, None if matrix is None else matrix.content)
        work = compute()
        self._write("graph", before, described(work))
        if work.laplacian.operator.has_matrix:  # tiles are computed again: they would fill the disk, and are quick
            P = work.laplacian.transition
            parts = {"data": P.data, "indices": P.indices, "indptr": P.indptr}
            self._write("laplacian", self.digests["graph"], parts)
        return work

    def embedded(self, work: Prepared, compute: Callable[[], Prepared]) -> Prepared:
        """The work with its eigenvectors."""
        if self.given_embedding:
            return compute()
        names = ("coordinates", "eigenvalues", "residuals", "solver")

        def unpacked(content: dict[str, Any]) -> Prepared:
            uploaded = self.run.backend.asarray(content["coordinates"])
            return work._replace(**content | {"coordinates": uploaded})

        return self._stage(
            "eigenvectors", "graph", compute, lambda work: {name: getattr(work, name) for name in names}, unpacked
        )

    def tangents(self, compute: Callable[[], tuple[Any, Any]]) -> tuple[Any, Any]:
        """Tangent bases and singular values."""
        upload = self.run.backend.asarray
        return self._stage(
            "tangents",
            "eigenvectors",
            compute,
            lambda found: {"bases": found[0], "singular_values": found[1]},
            lambda content: (upload(content["bases"]), upload(content["singular_values"])),
        )

    def search(self, compute: Callable[[], SearchResult]) -> SearchResult:
        """The chosen set, the path and the scores."""
        upload = self.run.backend.asarray
        return self._stage(
            "search",
            "tangents",
            compute,
            lambda found: {"found": found},
            lambda content: replace(content["found"], regrets=upload(content["found"].regrets)),
        )

    def results(self) -> dict[str, Any]:
        """For ``diagnostics``."""
        if self.files is None:
            return {}
        return {"checkpoint": {"folder": str(self.files.folder), "resumed": self.resumed, "notes": self.notes}}

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.waiting.clear()
        if self.files is not None:
            self.files.close()

    def _stage(
        self,
        name: str,
        after: str,
        compute: Callable[[], Result],
        packed: Callable[[Result], dict[str, Any]],
        unpacked: Callable[[dict[str, Any]], Result],
    ) -> Result:
        """One stage, from the folder, or else computed and saved."""
        if self.files is None:
            return compute()
        before = self.digests.get(after, "")
        saved = self._read(name, before)
        if saved is not None:
            self._use(name, saved)
            return unpacked(saved.content)
        result = compute()
        self._write(name, before, packed(result))
        return result

    def _assembled(self, graph: dict[str, Any], matrix: dict[str, Any] | None) -> Prepared:
        """What ``described`` took apart, with the matrix or without."""
        content, backend = dict(graph), self.run.backend
        weights, bandwidth = backend.asarray(content.pop("weights")), content.pop("bandwidth")
        nnz, n = content.pop("nnz"), len(content["points"])
        if matrix is None:
            transition: Any = NotLoaded((n, n), nnz)
        else:
            transition = csr(backend, *(backend.asarray(matrix[part]) for part in ("data", "indices", "indptr")))
        return Prepared(laplacian=Laplacian(transition, weights, bandwidth), **content)

    def _write(self, name: str, after: str, content: dict[str, Any]) -> None:
        assert self.files is not None
        log, backend = self.run.log, self.run.backend
        with log.stage("checkpoint"):
            state: dict[str, Any] = {"audit": self.run.audit, "warnings": log.warnings}
            state |= {"seconds": log.seconds, "kernels": backend.kernels.NAME, "memory": backend.memory_limit}
            self.digests[name] = self.files.write(name, after, state, content)

    def _read(self, name: str, after: str) -> Saved | None:
        """A stage that was computed from what has the digest ``after``; its file is read once."""
        assert self.files is not None
        if not self.resume:
            return None
        if name not in self.waiting:
            with self.run.log.stage("resume"):
                self.waiting[name] = self.files.read(name)
        saved = self.waiting[name]
        return saved if saved is not None and saved.after == after else None

    def _use(self, name: str, saved: Saved) -> None:
        """Take a stage, and with it what was known of the run at its end."""
        self.waiting[name] = None  # nothing is held twice
        state, run = saved.state, self.run
        self.digests[name] = saved.digest
        self.resumed.append(name)
        run.audit.update(state["audit"])
        for stage, seconds in state["seconds"].items():
            run.log.seconds.setdefault(stage, seconds)
        for message in state["warnings"]:
            if message not in run.log.warnings:
                run.log.warn(message)
        if state["kernels"] == plain.NAME:  # an audit had failed
            run.backend.kernels = plain

    def _note(self, message: str) -> None:
        self.notes.append(message)
        warn_caller(message, CheckpointWarning)


def described(work: Prepared) -> dict[str, Any]:
    """Everything about the points and the Laplacian but its matrix."""
    content = {name: value for name, value in work._asdict().items() if name != "laplacian"}
    laplacian = work.laplacian
    entries = int(laplacian.transition.nnz)
    return content | {"weights": laplacian.weights, "bandwidth": laplacian.bandwidth, "nnz": entries}
