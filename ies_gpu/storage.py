"""Results as one ``.npz``: a JSON header and plain arrays beside it; no pickle, versioned, whole or not at all."""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from . import __version__
from .backend import backend_of
from .files import DAMAGED, HEADER, check_output, check_readable, whole_or_nothing
from .path import Segment
from .selection import Ranking, Selection

FORMAT = "ies_gpu selection"
VERSION = 1
Result = TypeVar("Result")
RECORDS = {"Segment": Segment, "Ranking": Ranking}  # small records that occur inside a result


def save(selection: Selection, path: str | os.PathLike[str]) -> None:
    """Write a result to an ``.npz`` file, whole or not at all; arrays on a GPU are brought to the host.

    ``numpy.load`` opens the file too, and ``unzip -p run.npz header.json`` shows everything but the arrays.
    """
    if not isinstance(selection, Selection):
        raise TypeError(f"save takes a Selection, as select_coordinates returns it, got {type(selection).__name__}")
    write_archive(path, FORMAT, VERSION, {field.name: getattr(selection, field.name) for field in fields(selection)})


def load(path: str | os.PathLike[str]) -> Selection:
    """Read a result that :func:`save` wrote; its arrays are NumPy arrays.

    Raises
    ------
    ValueError
        If the file is cut short, is something else, or was written by a newer version.
    """
    return read_archive(
        path, FORMAT, VERSION, "a result of ies_gpu; load takes what 'ies-gpu fit -o' or save wrote", Selection
    )


def write_archive(path: str | os.PathLike[str], format: str, version: int, content: dict[str, Any]) -> None:
    """Write named values of any kind that :func:`_encode` knows, whole or not at all."""
    check_output(path, ".npz")
    arrays: dict[str, np.ndarray] = {}
    encoded = {name: _encode(value, name, arrays) for name, value in content.items()}
    header = {"format": format, "version": version, "written_by": f"ies_gpu {__version__}", "fields": encoded}
    text = json.dumps(header, indent=1, allow_nan=False)
    with whole_or_nothing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry(HEADER), text)
        for name, array in arrays.items():
            with archive.open(_entry(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read_archive(
    path: str | os.PathLike[str], format: str, version: int, wanted: str, build: Callable[..., Result]
) -> Result:
    """What :func:`write_archive` wrote in this version of the format or an older one, built from its named values."""
    path = Path(path)
    check_readable(path)
    try:
        with zipfile.ZipFile(path) as archive:
            foreign = HEADER not in archive.namelist()
            header = {} if foreign else json.loads(archive.read(HEADER))
    except DAMAGED:
        raise ValueError(f"{path} is not an .npz file, or is cut short or damaged; make it again") from None
    _check_header(path, header, format, version, wanted)
    try:
        with zipfile.ZipFile(path) as archive:
            content = {name: _decode(value, archive) for name, value in header["fields"].items()}
        return build(**content)
    except (*DAMAGED, TypeError, AttributeError):
        raise ValueError(f"{path} is damaged: not all of its contents can be read; make it again") from None


def _entry(name: str) -> zipfile.ZipInfo:
    """A member of the archive with a fixed date, so that equal results are equal files."""
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o644 << 16  # otherwise unzip makes files that nobody may read
    return entry


def _check_header(path: Path, header: Any, format: str, version: int, wanted: str) -> None:
    own = isinstance(header, dict) and isinstance(header.get("version"), int)
    if not own or header.get("format") != format:
        kind = str(header.get("format")) if own else ""
        what = f"an {kind}, not {wanted}" if kind.startswith("ies_gpu ") else f"not {wanted}"
        raise ValueError(f"{path} is {what}")
    if header["version"] > version:
        writer = header.get("written_by", "a newer version")
        raise ValueError(
            f"{path} was written by {writer} in format {header['version']}, and this "
            f"version ({__version__}) reads up to format {version}; upgrade with pip install -U ies-gpu"
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
