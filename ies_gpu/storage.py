"""Results as one ``.npz``: a JSON header and plain arrays beside it; no pickle, versioned, whole or not at all."""

from __future__ import annotations

import os
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__
from .encoding import decode, encode, read_header, write_archive
from .files import DAMAGED, check_output, check_readable
from .path import Segment
from .remote import fetched, is_remote, uploaded
from .selection import Ranking, Selection

FORMAT = "ies_gpu selection"
VERSION = 1
RECORDS = {"Segment": Segment, "Ranking": Ranking}  # small records that occur inside a result


def save(selection: Selection, path: str | os.PathLike[str]) -> None:
    """Write a result to an ``.npz`` file or URL, whole or not at all; arrays on a GPU are brought to the host.

    ``numpy.load`` opens the file too, and ``unzip -p run.npz header.json`` shows everything but the arrays.
    """
    if not isinstance(selection, Selection):
        raise TypeError(f"save takes a Selection, as select_coordinates returns it, got {type(selection).__name__}")
    check_output(path, ".npz")
    if is_remote(path):
        with uploaded(os.fspath(path)) as local:
            return save(selection, local)
    arrays: dict[str, np.ndarray] = {}
    content = {
        field.name: encode(getattr(selection, field.name), field.name, arrays, RECORDS) for field in fields(selection)
    }
    header = {"format": FORMAT, "version": VERSION, "written_by": f"ies_gpu {__version__}", "fields": content}
    write_archive(path, header, arrays)


def load(path: str | os.PathLike[str]) -> Selection:
    """Read a result that :func:`save` wrote; its arrays are NumPy arrays.

    Raises
    ------
    ValueError
        If the file is cut short, is something else, or was written by a newer version.
    """
    if is_remote(path):
        with fetched(os.fspath(path)) as local:
            return load(local)
    path = Path(path)
    check_readable(path)
    try:
        header = read_header(path)
    except DAMAGED:
        raise ValueError(f"{path} is not an .npz file, or is cut short or damaged; make it again") from None
    _check_header(path, header)
    try:
        with zipfile.ZipFile(path) as archive:
            content = {name: decode(value, archive, RECORDS) for name, value in header["fields"].items()}
        return Selection(**content)
    except (*DAMAGED, TypeError, AttributeError):
        raise ValueError(f"{path} is damaged: not all of its contents can be read; make it again") from None


def _check_header(path: Path, header: Any) -> None:
    if not isinstance(header, dict) or header.get("format") != FORMAT or not isinstance(header.get("version"), int):
        raise ValueError(f"{path} is not a result of ies_gpu; load takes files that 'ies-gpu fit -o' or save wrote")
    if header["version"] > VERSION:
        writer = header.get("written_by", "a newer version")
        raise ValueError(
            f"{path} was written by {writer} in format {header['version']}, and this "
            f"version ({__version__}) reads up to format {VERSION}; upgrade with pip install -U ies-gpu"
        )
