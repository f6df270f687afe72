"""Results as one ``.npz``: a JSON header and plain arrays beside it; no pickle, versioned, whole or not at all."""

from __future__ import annotations

import json
import math
import os
import zipfile
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__
from .backend import backend_of
from .files import DAMAGED, HEADER, check_output, check_readable, whole_or_nothing
from .path import Segment
from .selection import Ranking, Selection

FORMAT = "ies_gpu selection"
VERSION = 1
RECORDS = {"Segment": Segment, "Ranking": Ranking}  # small records that occur inside a result


def save(selection: Selection, path: str | os.PathLike[str]) -> None:
    """Write a result to an ``.npz`` file, whole or not at all; arrays on a GPU are brought to the host.

    ``numpy.load`` opens the file too, and ``unzip -p run.npz header.json`` shows everything but the arrays.
    """
    if not isinstance(selection, Selection):
        raise TypeError(f"save takes a Selection, as select_coordinates returns it, got {type(selection).__name__}")
    check_output(path, ".npz")
    arrays: dict[str, np.ndarray] = {}
    content = {field.name: _encode(getattr(selection, field.name), field.name, arrays) for field in fields(selection)}
    header = {"format": FORMAT, "version": VERSION, "written_by": f"ies_gpu {__version__}", "fields": content}
    text = json.dumps(header, indent=1, allow_nan=False)
    with whole_or_nothing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry(HEADER), text)
        for name, array in arrays.items():
            with archive.open(_entry(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def load(path: str | os.PathLike[str]) -> Selection:
    """Read a result that :func:`save` wrote; its arrays are NumPy arrays.

    Raises
    ------
    ValueError
        If the file is cut short, is something else, or was written by a newer version.
    """
    path = Path(path)
    check_readable(path)
    try:
        with zipfile.ZipFile(path) as archive:
            foreign = HEADER not in archive.namelist()
            header = {} if foreign else json.loads(archive.read(HEADER))
    except DAMAGED:
        raise ValueError(f"{path} is not an .npz file, or is cut short or damaged; make it again") from None
    _check_header(path, header)
    try:
        with zipfile.ZipFile(path) as archive:
            content = {name: _decode(value, archive) for name, value in header["fields"].items()}
        return Selection(**content)
    except (*DAMAGED, TypeError, AttributeError):
        raise ValueError(f"{path} is damaged: not all of its contents can be read; make it again") from None


def _entry(name: str) -> zipfile.ZipInfo:
    """A member of the archive with a fixed date, so that equal results are equal files."""
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o644 << 16  # otherwise unzip makes files that nobody may read
    return entry


def _check_header(path: Path, header: Any) -> None:
    if not isinstance(header, dict) or header.get("format") != FORMAT or not isinstance(header.get("version"), int):
        raise ValueError(f"{path} is not a result of ies_gpu; load takes files that 'ies-gpu fit -o' or save wrote")
    if header["version"] > VERSION:
        writer = header.get("written_by", "a newer version")
        raise ValueError(
            f"{path} was written by {writer} in format {header['version']}, and this "
            f"version ({__version__}) reads up to format {VERSION}; upgrade with pip install -U ies-gpu"
        )


def _encode(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """A value as strict JSON; what JSON lacks is an object with one key in @, and arrays go beside the header."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"@float": str(value)}
    if type(value) in RECORDS.values():
        parts = {f.name: getattr(value, f.name) for f in fields(value)} if is_dataclass(value) else value._asdict()
        return {f"@{type(value).__name__}": {k: _encode(v, f"{name}.{k}", arrays) for k, v in parts.items()}}
    if isinstance(value, list | tuple):
        items = [_encode(item, f"{name}.{k}", arrays) for k, item in enumerate(value)]
        return items if isinstance(value, list) else {"@tuple": items}
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("@") for key in value):
            return {key: _encode(item, f"{name}.{key}", arrays) for key, item in value.items()}
        return {"@dict": [_encode(list(pair), f"{name}.{k}", arrays) for k, pair in enumerate(value.items())]}
    array = backend_of(value).to_host(value)
    if array.dtype.hasobject:
        raise TypeError(f"{name} cannot be saved: it is a {type(value).__name__}")
    arrays[name] = array
    return {"@array": name}


def _decode(value: Any, archive: zipfile.ZipFile) -> Any:
    if isinstance(value, list):
        return [_decode(item, archive) for item in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value), "")
    if not tag.startswith("@"):
        return {key: _decode(item, archive) for key, item in value.items()}
    inner = value[tag]
    if tag == "@float":
        return float(inner)
    if tag == "@array":
        with archive.open(f"{inner}.npy") as member:
            array = np.lib.format.read_array(member, allow_pickle=False)
            if member.read(1):  # reading to the end makes zipfile compare the checksum
                raise ValueError(f"{inner} is longer than its header says")
            return array
    if tag in ("@tuple", "@dict"):
        items = [_decode(item, archive) for item in inner]
        return tuple(items) if tag == "@tuple" else dict(items)
    return RECORDS[tag[1:]](**{key: _decode(item, archive) for key, item in inner.items()})
