"""Checkpoints: each finished stage of a run is kept on disk, so that a run that was killed can go on.

One ``.npz`` per stage says which job it belongs to (a fingerprint of data, options and versions), and has the digests
of its content and of the stage that it was computed from. A stage is taken if it is whole, of the same job, and
computed from the very stage that the run now has. Sound stages behind a damaged one stay usable. The
number of threads is not part of the job: only products with tiles depend on it, and the digests tell where it mattered.
"""

from __future__ import annotations

import contextlib
import json
import os
import weakref
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import __version__
from ..backend import backend_of
from ..embedding.laplacian import Laplacian
from ..files.archive import pack, read_header, unpack, write_archive
from ..findings import CheckpointWarning, option, refusal, tell, warning
from ..validation import check_real_array

FORMAT, VERSION = "ies_gpu checkpoint", 3
LOCK = ".lock"
PIECE = 16 << 20  # bytes of a scattered array that are copied at a time
GO_ON = "the run continues without it"
OPEN: weakref.WeakSet[Checkpoint] = weakref.WeakSet()  # with a lock


class Saved(NamedTuple):
    """A stage as it was read: its content, whose digest was compared, and what was known of the run at its end."""

    digest: str
    state: dict[str, Any]
    content: dict[str, Any]


class Checkpoint:
    """A folder of finished stages of a ``job``, plain values that decide the result. One run has it to itself."""

    def __init__(self, folder: Any, resume: bool, job: dict[str, Any], stages: Sequence[str]) -> None:
        self.folder, self.stages = Path(folder), stages
        self.resumed: list[str] = []
        self.notes: list[str] = []
        self.lock: int | None = lock_folder(self.folder)
        OPEN.add(self)
        self.job = pack({**job, "format": VERSION})[0]
        self.fingerprint = content_digest(self.job, {})
        try:
            for leftover in (path for stage in stages for path in self.folder.glob(f".{stage}.npz.*.tmp")):
                leftover.unlink(missing_ok=True)  # of a process that was killed while it wrote
            sound = self.sound_headers()
            # that of the first stage of this job that is there
            self.own = next((header for header in sound if header["fingerprint"] == self.fingerprint), None)
            there = [stage for stage in stages if self.path(stage).exists()]
            if there and not resume:  # they may have taken days
                whose = "another" if self.own is None else "this"
                text = f"{self.folder} holds a checkpoint of {whose} job (stages {', '.join(there)})"
                way = f"pass {option('resume', True)} to continue from what can be used, delete the folder to start "
                raise refusal("checkpoint.there", text, f"{way}over, or choose another one")
            if sound and self.own is None:
                self.tell_of_other_job(sound[0]["job"])
        except BaseException:
            self.close()
            raise

    def note(self, code: str, text: str, advice: str = "") -> None:
        """Warn about what cannot be used or saved; the result is not affected."""
        finding = warning(code, text, advice)
        self.notes.append(str(finding))
        tell(finding, CheckpointWarning)

    def has(self, stage: str, after: str) -> bool:
        """Return whether there is a file for a stage of this job, computed from ``after``; it may be damaged."""
        try:
            header = read_header(self.path(stage))
            return header["fingerprint"] == self.fingerprint and header["after"] == after
        except FileNotFoundError:
            return False
        except Exception:  # reported when it is read
            return True

    def path(self, stage: str) -> Path:
        return self.folder / f"{stage}.npz"

    def close(self) -> None:
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def write(self, stage: str, after: str, state: dict[str, Any], content: dict[str, Any]) -> str:
        """Save a stage and return its digest; if saving fails, warn and continue."""
        fields, arrays = pack(content)
        digest = content_digest(fields, arrays)
        header = {"format": FORMAT, "version": VERSION, "written_by": f"ies_gpu {__version__}", "job": self.job}
        header |= {"fingerprint": self.fingerprint, "after": after, "digest": digest}
        header |= {"state": pack(state)[0], "fields": fields}
        try:
            write_archive(self.path(stage), header, arrays)
        except OSError as error:
            reason = error.strerror or str(error)
            self.note("checkpoint.not_saved", f"the stage {stage!r} was not saved in {self.folder} ({reason})", GO_ON)
        return digest

    def read(self, stage: str) -> Saved | None:
        """Return a stage that is there, or None if it is damaged, and say so."""
        path = self.path(stage)
        try:
            header = read_header(path)
            state, content = unpack(path, header["state"]), unpack(path, header["fields"])
            if content_digest(*pack(content)) != header["digest"]:
                raise ValueError("the digest differs")
            self.resumed.append(stage)
            return Saved(header["digest"], state, content)
        except Exception:  # whatever the libraries raise about it: computing again is always right
            self.note("checkpoint.damaged", f"{path} is damaged; the stage is recomputed")
            return None

    def sound_headers(self) -> list[dict[str, Any]]:
        """Return the headers of stages that can be read; never overwrite an archive of the user's."""
        sound = []
        for path in map(self.path, self.stages):
            header: Any = None
            with contextlib.suppress(Exception):  # damaged, or not there
                header = read_header(path)
                if header["format"] == FORMAT and header["fingerprint"] and header["job"].keys() and header["state"]:
                    sound.append(header)
            if isinstance(header, dict) and header.get("format") != FORMAT:
                text = f"{path} is not part of a checkpoint and would be overwritten"
                raise refusal("checkpoint.foreign_file", text, "choose another folder")
        return sound

    def tell_of_other_job(self, other: dict[str, Any]) -> None:
        """Warn that the stages there are from another job, and say how it differs."""
        own = self.job
        names = sorted(name for name in own.keys() | other.keys() if other.get(name) != own.get(name))
        told = [f"{name} {other.get(name)} there, {own.get(name)} here" for name in names]
        told = ["different data" if name == "data" else said for name, said in zip(names, told, strict=True)]
        text = f"{self.folder} holds a checkpoint of another job ({'; '.join(told)})"
        self.note("checkpoint.other_job", f"{text}; its stages are recomputed and replaced")


if hasattr(os, "register_at_fork"):  # a worker of a pool, which inherits the locks, may outlive the run by far
    os.register_at_fork(after_in_child=lambda: [*map(Checkpoint.close, list(OPEN))])


def lock_folder(folder: Path) -> int:
    """Make a folder, and return a lock on it that ends with the process: two runs must not share a folder."""
    if folder.exists() and not folder.is_dir():
        text = f"{option('checkpoint')} must be a folder, but {folder} is a file"
        raise refusal("checkpoint.file", text, kind=NotADirectoryError)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        reason = f"the checkpoint folder cannot be made or written to: {error.strerror}"
        raise type(error)(error.errno, reason, str(folder)) from None
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        text = f"the checkpoint folder {folder} is in use by another run"
        raise refusal("checkpoint.in_use", text, "choose another one") from None
    except (ImportError, OSError):  # Windows, and network folders without locks
        pass
    return descriptor


def data_digest(given: Mapping[str, Any]) -> str:
    return content_digest(*pack({name: plain_input(name, value) for name, value in sorted(given.items())}))


def plain_input(name: str, value: Any) -> Any:
    if isinstance(value, Laplacian):
        return [value.bandwidth, value.operator_weights, value.rows.numbers, *value.operator.parts()]
    if backend_of(value).sparse.issparse(value):
        matrix = value.tocsr()
        return [matrix.shape, matrix.data, matrix.indices, matrix.indptr]
    if isinstance(value, np.ma.MaskedArray) or np.dtype(getattr(value, "dtype", object)).hasobject:
        # bytes of objects are addresses, and a mask is no part of the bytes
        value = check_real_array(name, value, np.ndim(value))
    return value


def content_digest(content: Any, arrays: Mapping[str, np.ndarray]) -> str:
    """Return the digest of a JSON value and the arrays that belong to it."""
    total = sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode())
    for name in sorted(arrays):
        total.update(f"{name}:".encode())
        add_array(total, arrays[name])
    return total.hexdigest()


def add_array(total: Any, array: np.ndarray) -> None:
    """Add type, shape, order in memory and bytes of a host array; a scattered one is copied piece by piece."""
    array = np.asarray(array)
    columns = array.flags.f_contiguous and not array.flags.c_contiguous
    total.update(f"{array.dtype.str}{array.shape}{'F' if columns else 'C'}".encode())
    array = array.T if columns else np.atleast_1d(array)
    rows = max(1, PIECE * len(array) // max(1, array.nbytes))
    for first in range(0, len(array), rows):
        total.update(np.ascontiguousarray(array[first : first + rows]).reshape(-1).view(np.uint8).data)
