"""Checkpoints of a cluster run: the workers write their blocks to shared storage, the client what holds for all.

A stage is one ``.npz`` per block and, written last, the ``.npz`` of :class:`ies_gpu.run.checkpoint.Checkpoint` with the
digest of each block. Blocks are read by whichever workers there are, so a run may go on with another number of them.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from ..backend import Backend
from ..errors import ClusterError
from ..files.archive import pack, read_header, unpack, write_archive
from ..run.checkpoint import GO_ON, Checkpoint
from ..run.fingerprint import add_array, content_digest, versions
from ..run.options import Options
from .matrix import Graph, Rows, exchange_by
from .team import PARSING, Team

STAGES = ("laplacian", "eigenvectors", "tangents")


class Shelf:
    """The checkpoint of a run; without a folder it holds nothing.

    Parameters
    ----------
    team : Team
    options : Options
    chunks : list of Future
        The points, which the job is known by.
    log : Log
    """

    def __init__(self, team: Team, options: Options, chunks: list[Any], log: Any) -> None:
        self.team, self.log, self.digest = team, log, ""
        self.checkpoint: Checkpoint | None = None
        if options.checkpoint is None:
            return
        with log.stage("checkpoint"):
            data = sha256("".join(team.gather(team.map(digest_of, chunks))).encode()).hexdigest()
            job = options.parameters | {"versions": versions(), "data": data}
            folder = Path(options.checkpoint).absolute()
            self.checkpoint = Checkpoint(folder, options.resume, job | {"device": options.device}, STAGES)
            try:
                seen = team.client.run(Path.is_dir, folder)
            except BaseException:
                self.close()
                raise
            if not all(seen.values()):
                self.close()
                blind = next(worker for worker, sees in seen.items() if not sees)
                raise ClusterError(f"worker {blind} cannot see {folder}; put the checkpoint on storage that all share")

    def close(self) -> None:
        if self.checkpoint is not None:
            self.checkpoint.close()

    def results(self) -> dict[str, Any]:
        return {} if self.checkpoint is None else self.checkpoint.results()

    def path(self, stage: str, block: int) -> str:
        assert self.checkpoint is not None
        return str(self.checkpoint.folder / f"{stage}.block{block:05d}.npz")

    def put(self, stage: str, blocks: list[Any], **known: Any) -> None:
        """Save a stage: futures of dicts of arrays by block, and small values that are known to the client."""
        if self.checkpoint is None:
            return
        with self.log.stage(f"checkpoint {stage}"):
            self.checkpoint.path(stage).unlink(missing_ok=True)  # the blocks that it speaks of are about to change
            paths = [self.path(stage, i) for i in range(len(blocks))]
            try:
                digests = self.team.gather(self.team.map(write_block, blocks, paths))
            except OSError as error:
                self.checkpoint.note("checkpoint.not_saved", f"the stage {stage!r} was not saved ({error})", GO_ON)
                self.digest = uuid4().hex  # what is saved after it belongs to no other run
                return
            state = {"findings": self.log.state()}
            self.digest = self.checkpoint.write(stage, self.digest, state, {"digests": digests, "known": known})

    def get(self, stage: str) -> tuple[list[Any], dict[str, Any]] | None:
        """What was saved: futures of dicts by block, and the small values."""
        if self.checkpoint is None or not self.checkpoint.has(stage, self.digest):
            return None
        with self.log.stage(f"resume {stage}"):
            saved = self.checkpoint.read(stage, self.digest)
            if saved is None:
                return None
            digests = saved.content["digests"]
            self.team.settle(len(digests))
            blocks = self.team.map(read_block, [self.path(stage, i) for i in range(len(digests))], digests)
            sound = self.team.gather(self.team.map(is_there, blocks))
            if not all(sound):
                self.checkpoint.resumed.remove(stage)
                path = self.path(stage, sound.index(False))
                self.checkpoint.note("checkpoint.damaged", f"{path} is missing or damaged; the stage is recomputed")
                return None
            self.digest = saved.digest
            self.log.restore(saved.state["findings"])
            return blocks, saved.content["known"]

    # the stages

    def put_graph(self, graph: Graph, facts: dict[str, Any]) -> None:
        if self.checkpoint is not None:
            packed = self.team.map(packed_rows, graph.transitions, graph.roots)
            self.put("laplacian", packed, sizes=graph.sizes, nnz=graph.nnz, near=self.team.near, facts=facts)

    def get_graph(self) -> tuple[Graph, dict[str, Any]] | None:
        found = self.get("laplacian")
        if found is None:
            return None
        blocks, known = found
        exchange_by(self.team, known["near"], self.team.map(part, blocks, "wants"))
        transitions, roots = self.team.map(unpacked_rows, blocks), self.team.map(part, blocks, "root")
        return Graph(known["sizes"], transitions, roots, known["nnz"]), known["facts"]

    def put_arrays(self, stage: str, names: tuple[str, ...], arrays: list[list[Any]], **known: Any) -> None:
        """Save arrays of which each has one future per block."""
        if self.checkpoint is not None:
            self.put(stage, self.team.map(packed_arrays, names, *arrays), **known)

    def get_arrays(self, stage: str, names: tuple[str, ...]) -> tuple[list[list[Any]], dict[str, Any]] | None:
        found = self.get(stage)
        if found is None:
            return None
        return [self.team.map(part, found[0], name) for name in names], found[1]


# --- tasks -----------------------------------------------------------------------------------------------------------


def digest_of(backend: Backend, rows: np.ndarray) -> str:
    total = sha256()
    add_array(total, rows)
    return total.hexdigest()


def packed_rows(backend: Backend, P: Rows, root: Any) -> dict[str, Any]:
    matrix = P.matrix
    names = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "rows": P.rows, "root": root}
    return names | {"columns": int(matrix.shape[1]), "wants": P.wants}


def unpacked_rows(backend: Backend, found: dict[str, Any]) -> Rows:
    parts = tuple(backend.asarray(found[name]) for name in ("data", "indices", "indptr"))
    matrix = backend.sparse.csr_matrix(parts, shape=(len(found["rows"]), found["columns"]))
    return Rows(matrix, found["rows"], {j: backend.asarray(want) for j, want in found["wants"].items()})


def packed_arrays(backend: Backend, names: tuple[str, ...], *arrays: Any) -> dict[str, Any]:
    return dict(zip(names, arrays, strict=True))


def part(backend: Backend, found: dict[str, Any], name: str) -> Any:
    value = found[name]
    return {j: backend.asarray(v) for j, v in value.items()} if isinstance(value, dict) else backend.asarray(value)


def write_block(backend: Backend, content: dict[str, Any], path: str) -> str:
    """Write a block, completely or not at all, and give its digest."""
    fields, arrays = pack(content)
    write_archive(path, {"fields": fields}, arrays)
    return content_digest(fields, arrays)


def read_block(backend: Backend, path: str, digest: str) -> dict[str, Any] | None:
    """A block as it was written, or None if it is not that."""
    try:
        fields = read_header(path)["fields"]
        with PARSING:
            content = unpack(path, fields)
        return content if content_digest(*pack(content)) == digest else None
    except Exception:  # whatever the libraries raise about it: computing again is always right
        return None


def is_there(backend: Backend, content: Any) -> bool:
    return content is not None
