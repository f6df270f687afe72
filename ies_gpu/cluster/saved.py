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
from ..findings import refusal
from ..run.checkpoint import GO_ON, Checkpoint, Saved
from ..run.fingerprint import add_array, content_digest
from .team import PARSING, Pieces, Team


class BlockCheckpoint(Checkpoint):
    """A folder of finished stages that all workers see; arrays in pieces are written and read by block."""

    def __init__(self, team: Team, folder: Path, *more: Any) -> None:
        self.team = team
        super().__init__(folder, *more)
        try:
            blind = [worker for worker, sees in team.client.run(Path.is_dir, folder).items() if not sees]
            if blind:
                text, advice = f"worker {blind[0]} cannot see {folder}", "put the checkpoint on storage that all share"
                raise refusal("cluster.not_shared", text, advice, ClusterError)
        except BaseException:
            self.close()
            raise

    def block_paths(self, stage: str, count: int) -> list[str]:
        """Where the blocks of a stage are."""
        return [str(self.folder / f"{stage}.block{block:05d}.npz") for block in range(count)]

    def write(self, stage: str, after: str, state: dict[str, Any], content: dict[str, Any]) -> str:
        tall = {name: value for name, value in content.items() if isinstance(value, Pieces)}
        names, parts = list(tall), (pieces.parts for pieces in tall.values())
        blocks = self.team.map(lambda _, *own: dict(zip(names, own, strict=True)), *parts)
        self.path(stage).unlink(missing_ok=True)  # the blocks that it speaks of are about to change
        try:
            paths = self.block_paths(stage, len(blocks))
            digests = self.team.gather(self.team.map(write_block, blocks, paths))
        except OSError as error:
            self.note("checkpoint.not_saved", f"the stage {stage!r} was not saved ({error})", GO_ON)
            return uuid4().hex  # what is saved after it belongs to no other run
        shapes = {name: pieces.shape for name, pieces in tall.items()}
        small = {name: value for name, value in content.items() if name not in tall}
        return super().write(stage, after, state, {"digests": digests, "shapes": shapes, "small": small})

    def read(self, stage: str, after: str) -> Saved | None:
        saved = super().read(stage, after)
        if saved is None:
            return None
        digests, team = saved.content["digests"], self.team
        team.assign_workers(len(digests))
        paths = self.block_paths(stage, len(digests))
        blocks = team.map(read_block, paths, digests)
        sound = team.gather(team.map(lambda _, content: content is not None, blocks))
        if not all(sound):
            self.resumed.remove(stage)
            path = paths[sound.index(False)]
            self.note("checkpoint.damaged", f"{path} is missing or damaged; the stage is recomputed")
            return None
        shapes = saved.content["shapes"].items()
        tall = {name: Pieces(team, team.map(part, blocks, name), shape) for name, shape in shapes}
        return saved._replace(content=saved.content["small"] | tall)


# --- tasks -----------------------------------------------------------------------------------------------------------


def digest_of(backend: Backend, rows: np.ndarray) -> str:
    total = sha256()
    add_array(total, rows)
    return total.hexdigest()


def part(backend: Backend, found: dict[str, Any], name: str) -> Any:
    value = found[name]
    return backend.asarray(value) if isinstance(value, np.ndarray) else value


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
