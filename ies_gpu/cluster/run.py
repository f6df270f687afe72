"""A run on the workers of a Dask cluster: the text of one machine, with points in blocks and some steps replaced."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..choice.rmetric import tangent_spaces
from ..embedding.diffusion import diffusion_map
from ..errors import ClusterError
from ..findings import option, refusal
from ..options import Options, check_on_cluster
from ..parameters.judgement import judge
from ..results.assembly import assemble
from ..run.inputs import Inputs, laplacian_of
from ..run.log import Log, Progress
from ..run.run import Run
from .arrays import TeamBackend
from .source import Source
from .steps import assemble_in_blocks, judge_in_blocks, laplacian_in_blocks, map_in_blocks, tangents_in_blocks
from .team import BYTES_PER_POINT, Team

REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {
    laplacian_of: laplacian_in_blocks,
    diffusion_map: map_in_blocks,
    tangent_spaces: tangents_in_blocks,
    judge: judge_in_blocks,
    assemble: assemble_in_blocks,
}


class ClusterRun(Run):
    """A run on the workers of a client."""

    def __init__(self, client: Any, options: Options, given: Inputs, progress: Progress | bool | None = None) -> None:
        check_on_cluster(options)
        self.team = Team(client, options.device)
        self.team.check_versions()
        log = Log(progress)
        with log.stage("order"):
            source = Source(self.team, given.value, options)
            self.team.data = source.n * BYTES_PER_POINT
        super().__init__(options, Inputs({"source": source}), log=log, backend=TeamBackend(self.team))

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return super().__call__(REPLACED.get(function, function), *args, **kwargs)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        if isinstance(error, KilledWorker):
            text = f"several workers died in the same task, probably out of memory ({error.args[0]})"
            advice = f"use more or larger workers, or {option('dtype', 'mixed')}, and start it again"
            raise refusal("cluster.workers_died", text, advice, ClusterError) from error
        if isinstance(error, CancelledError | CommClosedError):
            text = f"the scheduler was lost ({type(error).__name__})"
            raise refusal("cluster.scheduler_lost", text, "start a cluster and the run again", ClusterError) from error

    def results(self) -> dict[str, Any]:
        costs = {"blocks": len(self.team.near), "tasks": self.team.tasks, "rounds": self.team.rounds}
        return super().results() | {"cluster": costs}

    def _agrees(self, *_: Any) -> bool:
        return True  # nothing is sampled from pieces
