"""Results, checkpoints and models as one ``.npz``, a JSON header and plain arrays: no pickle."""

import json
import math
import os
import zipfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from ..backend import to_host
from .points import HEADER, read_member
from .writing import whole_or_nothing

Records = Mapping[str, type]  # small dataclasses and named tuples that may occur in a value, by name
NONE: Records = {}


def pack(content: Mapping[str, Any], records: Records = NONE) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return named values as strict JSON, and the arrays in them by name."""
    arrays: dict[str, np.ndarray] = {}
    return {name: _encoded(value, name, arrays, records) for name, value in content.items()}, arrays


def unpack(path: str | os.PathLike[str], fields: Mapping[str, Any], records: Records = NONE) -> dict[str, Any]:
    """Return the values that were packed; what a damaged archive raises is for :func:`.points.sound` to say."""
    with zipfile.ZipFile(path) as archive:
        return {name: _decoded(value, archive, records) for name, value in fields.items()}


def _encoded(value: Any, name: str, arrays: dict[str, np.ndarray], records: Records) -> Any:
    """Return a value as strict JSON; what JSON lacks is an object with one key in @, and arrays go to ``arrays``."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"@float": str(value)}
    if type(value) in records.values():
        parts = {f.name: getattr(value, f.name) for f in fields(value)} if is_dataclass(value) else value._asdict()
        return {f"@{type(value).__name__}": {k: _encoded(v, f"{name}.{k}", arrays, records) for k, v in parts.items()}}
    if isinstance(value, list | tuple):
        items = [_encoded(item, f"{name}.{k}", arrays, records) for k, item in enumerate(value)]
        return items if isinstance(value, list) else {"@tuple": items}
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("@") for key in value):
            return {key: _encoded(item, f"{name}.{key}", arrays, records) for key, item in value.items()}
        return {"@dict": [_encoded(list(pair), f"{name}.{k}", arrays, records) for k, pair in enumerate(value.items())]}
    array = to_host(value)
    if array.dtype.hasobject:
        raise TypeError(f"{name} cannot be saved, because it is a {type(value).__name__}")
    arrays[name] = array
    return {"@array": name}


def _decoded(value: Any, archive: zipfile.ZipFile, records: Records) -> Any:
    """Return the value that was encoded; arrays are read from the archive."""
    if isinstance(value, list):
        return [_decoded(item, archive, records) for item in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value), "")
    if not tag.startswith("@"):
        return {key: _decoded(item, archive, records) for key, item in value.items()}
    inner = value[tag]
    if tag == "@float":
        return float(inner)
    if tag == "@array":
        return read_member(archive, _stored(archive, f"{inner}.npy"))
    if tag in ("@tuple", "@dict"):
        items = [_decoded(item, archive, records) for item in inner]
        return tuple(items) if tag == "@tuple" else dict(items)
    return records[tag[1:]](**{key: _decoded(item, archive, records) for key, item in inner.items()})


def write_archive(path: str | os.PathLike[str], header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write the header and the arrays as one ``.npz``, completely or not at all."""
    text = json.dumps(header, indent=1, allow_nan=False)
    with whole_or_nothing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry(HEADER), text)
        for name, array in arrays.items():
            with archive.open(_entry(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read_header(path: str | os.PathLike[str]) -> Any:
    """Return the header of an archive, ``{}`` if it has none."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(_stored(archive, HEADER))) if HEADER in archive.namelist() else {}


def _stored(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    """Return a member that is not compressed, as ours never are: a few bytes could unpack to gigabytes."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise ValueError(f"{name} is compressed")
    return info


def _entry(name: str) -> zipfile.ZipInfo:
    """Make a member of the archive with a fixed date, so that equal results give equal files."""
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o644 << 16  # otherwise unzip creates files without permissions
    return entry
