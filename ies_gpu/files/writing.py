"""Writing files: checked before long work, and then written completely or not at all."""

import contextlib
import csv
import io
import os
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..findings import brief, refusal
from .remote import check_local, check_remote_output, is_remote, shown, uploaded

WRITTEN = (".npy", ".csv")


def check_path(path: Any) -> str | os.PathLike[str]:
    """Return a path or URL that a file system could know and a terminal show: no long part, no control character."""
    try:
        text = os.fspath(path)
        parts = os.fsencode(text).split(os.fsencode(os.sep))
    except UnicodeEncodeError:  # half a character
        parts = []
    except Exception:
        text = None
    if not isinstance(text, str):
        raise TypeError(f"path must be the name of a file, as text or pathlib.Path, got {brief(path)}") from None
    if not text or max(map(len, parts), default=256) > 255 or any(unicodedata.category(each) == "Cc" for each in text):
        raise ValueError(f"path must be a name that a file can have, got {brief(shown(text))}") from None
    return path


def check_output(path: str | os.PathLike[str], *endings: str) -> str:
    """Check that a path can be written, before long work, and return its ending, one of some."""
    text, path = os.fspath(check_path(path)), Path(path)
    if not is_remote(text):
        check_local(path)
    ending = os.path.splitext(shown(text))[1].lower()
    if ending not in endings:
        raise refusal("output.ending", f"{shown(text)}: the output must be a {' or '.join(endings)} file")
    if is_remote(text):
        check_remote_output(text)
        return ending
    if path.exists() and not path.is_file():
        raise refusal("output.special", f"{path} is a folder or a device; give the path of a file")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        way = f"create it first (mkdir -p {folder})"
        raise refusal("output.no_folder", f"the folder {folder} does not exist", way, FileNotFoundError)
    if not os.access(folder, os.W_OK | os.X_OK):
        text = f"the folder {folder} cannot be written to"
        raise refusal("output.permission", text, "choose another output", PermissionError)
    return ending


@contextlib.contextmanager
def whole_or_nothing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces ``path`` at the end, in one step or not at all.

    It is written beside ``path``, flushed to disk and renamed, which POSIX and Windows do in one step. Only a process
    that is killed outright leaves a ``.path.*.tmp`` behind. For a URL this happens in a temporary folder.
    """
    if is_remote(path):
        with uploaded(os.fspath(path)) as local, whole_or_nothing(local) as file:
            yield file
        return
    target = os.path.realpath(path)  # replace the file behind a symbolic link, not the link
    folder, name = os.path.split(target)
    # a name of 255 bytes is legal but leaves no room for more
    temporary = os.path.join(folder, f".{name[:50]}.{os.urandom(6).hex()}.tmp")
    old = os.stat(target).st_mode & 0o777 if os.path.exists(target) else None
    try:
        # what replaces a file has its permissions from the first byte on, though the umask may take some away at first
        with open(temporary, "xb", opener=lambda at, flags: os.open(at, flags, 0o666 if old is None else old)) as file:
            if old is not None:
                with contextlib.suppress(OSError):
                    os.chmod(temporary, old)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.strerror:
            raise type(error)(error.errno, f"could not be written: {error.strerror}", os.fspath(path)) from None
        raise


def write_table(path: str | os.PathLike[str], X: Any, columns: Sequence[str] = (), *, rows: Any = None) -> None:
    """Write numbers by the ending of the path, as ``.csv`` with names of columns and rows."""
    ending, X = check_output(path, *WRITTEN), np.asarray(X)
    if X.dtype.kind not in "buif":
        raise refusal("output.type", f"only real numbers can be written, got dtype {X.dtype}", kind=TypeError)
    with whole_or_nothing(path) as file:
        if ending == ".npy":
            np.lib.format.write_array(file, X, allow_pickle=False)
            return
        names = {} if rows is None else {"name": [str(row) for row in rows]}
        text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*names, *columns])
        writer.writerows(zip(*names.values(), *X.T.tolist(), strict=True))  # floats read back to the same bits
        text.detach()
