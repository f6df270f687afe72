"""A run on the workers of a Dask cluster: the text of one machine, with points in blocks and some steps replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any

from ..choice.rmetric import tangent_spaces
from ..embedding.diffusion import diffusion_map
from ..errors import ClusterError
from ..findings import option, refusal
from ..options import Options, check_on_cluster
from ..parameters.judgement import judge
from ..results.assembly import assemble
from ..run.fingerprint import versions
from ..run.inputs import Inputs, laplacian_of
from ..run.log import Log, Report
from ..run.progress import Progress
from ..run.run import Run
from .saved import BlockCheckpoint, digest_of
from .source import Source
from .steps import assemble_in_blocks, judge_in_blocks, laplacian_in_blocks, map_in_blocks, tangents_in_blocks
from .sweep import TeamBackend
from .team import BYTES_PER_POINT, Team

REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {
    laplacian_of: laplacian_in_blocks,
    diffusion_map: map_in_blocks,
    tangent_spaces: tangents_in_blocks,
    judge: judge_in_blocks,
    assemble: assemble_in_blocks,
}
SAVED = ("laplacian", "eigenvectors", "tangents")  # the files of a checkpoint


class ClusterRun(Run):
    """A run on the workers of a client."""

    def __init__(self, client: Any, options: Options, given: Inputs, progress: Progress | bool | None = None) -> None:
        check_on_cluster(options)
        self.team = Team(client, options.device)
        self.team.check_versions()
        self.counts = log = CountingLog(self.team, progress)
        with log.stage("order"):
            source = Source(self.team, given.value, options)
            self.team.data = source.n * BYTES_PER_POINT
        given = Inputs({"source": source})
        super().__init__(options, given, saved=SAVED, log=log, backend=TeamBackend(self.team))

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return super().__call__(REPLACED.get(function, function), *args, **kwargs)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if error is not None:
            explain_loss(error, self.options)

    def results(self) -> dict[str, Any]:
        costs = {"blocks": len(self.team.near), "rows_exchanged": self.team.rows_exchanged()}
        return super().results() | {"cluster": self.counts.costs | costs}

    def _opened(self) -> BlockCheckpoint:
        with self.log.stage("checkpoint"):
            digests = self.team.gather(self.team.map(digest_of, self.given.values["source"].chunks))
            job = self.options.parameters | {"versions": versions(), "device": self.options.device}
            job["data"] = sha256("".join(digests).encode()).hexdigest()
            folder = Path(self.options.checkpoint or "").absolute()
            return BlockCheckpoint(self.team, folder, self.options.resume, job, self.saved)

    def _agrees(self, *_: Any) -> bool:
        return True  # nothing is sampled from pieces


def explain_loss(error: BaseException, options: Options) -> None:
    """Say what was lost where Dask gave up, and how to go on."""
    from distributed import CancelledError, KilledWorker
    from distributed.comm import CommClosedError

    resume = option("resume", True)
    again = f"pass {resume}" if options.checkpoint else f"start it again with {option('checkpoint')} and {resume}"
    if isinstance(error, KilledWorker):
        text = f"several workers died in the same task, probably out of memory ({error.args[0]})"
        advice = f"use more or larger workers, or {option('dtype', 'mixed')}, and {again}"
        raise refusal("cluster.workers_died", text, advice, ClusterError) from error
    if isinstance(error, CancelledError | CommClosedError):
        text = f"the scheduler was lost ({type(error).__name__})"
        raise refusal("cluster.scheduler_lost", text, f"start a cluster and {again}", ClusterError) from error


class CountingLog(Log):
    """A log that also keeps what each stage asked of the cluster: tasks, rounds, bytes sent by workers."""

    def __init__(self, team: Team, progress: Progress | bool | None) -> None:
        super().__init__(progress)
        self.team = team
        self.costs: dict[str, dict[str, int]] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[Report]:
        if name == self.current:
            with super().stage(name) as report:
                yield report
            return
        before = self.team.tasks, self.team.rounds, self.team.bytes_sent()
        with super().stage(name) as report:
            yield report
        after = self.team.tasks, self.team.rounds, self.team.bytes_sent()
        own = self.costs.setdefault(name, dict.fromkeys(("tasks", "rounds", "bytes"), 0))
        for key, begin, end in zip(own, before, after, strict=True):
            own[key] += max(0, end - begin)  # a worker that was lost takes its count with it
