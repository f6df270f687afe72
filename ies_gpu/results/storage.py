"""Results and models as ``.npz`` files: a JSON header and plain arrays, versioned, without pickle."""

import os
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from .. import __version__
from ..choice.regularization import Segment
from ..files.archive import pack, read_header, unpack, write_archive
from ..files.points import check_readable, sound
from ..files.remote import fetched, is_remote
from ..files.writing import check_output, check_path
from ..findings import refusal
from .model import Model
from .selection import Ranking, Selection

# the class and the version of each; a field that is added later has a default, so that older files stay readable
FORMATS: dict[str, tuple[type, int]] = {"ies_gpu selection": (Selection, 2), "ies_gpu model": (Model, 2)}
OTHER = "neither a result nor a model of ies_gpu, which 'ies-gpu fit -o' and 'ies-gpu fit --model' write"
Result = TypeVar("Result", Selection, Model)
RECORDS = {"Segment": Segment, "Ranking": Ranking}  # small records that occur inside a result


def save(result: Any, path: str | os.PathLike[str]) -> None:
    """Write a result or a model to a file or URL, completely or not at all."""
    check_output(path, ".npz")
    format = next(name for name, (kind, _) in FORMATS.items() if isinstance(result, kind))
    packed, arrays = pack({field.name: getattr(result, field.name) for field in fields(result)}, RECORDS)
    header = {"format": format, "version": FORMATS[format][1], "written_by": f"ies_gpu {__version__}", "fields": packed}
    write_archive(path, header, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a result or a model from a file, also of an older version.

    Parameters
    ----------
    path : str or path-like
        An ``.npz`` file or a URL, written by ``selection.save``, ``model.save`` or ``ies-gpu fit``.

    Returns
    -------
    Selection or Model
        What the file holds; the arrays are NumPy arrays.

    Examples
    --------
    >>> from ies_gpu import datasets, load, select_coordinates
    >>> X = datasets.load("D1", n_samples=400).X
    >>> selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.2)
    >>> selection.save("run.npz")
    >>> load("run.npz").names
    ('phi1', 'phi7')
    """
    if is_remote(check_path(path)):
        with fetched(os.fspath(path)) as local:
            return load(local)
    path = Path(path)
    check_readable(path)
    try:
        with sound(path):
            header = read_header(path)
    except ValueError:
        if path.suffix.lower() == ".npz":
            raise
        raise refusal("file.kind", f"{path} is not an .npz file, so it is {OTHER}") from None
    own = isinstance(header, dict) and isinstance(header.get("version"), int)
    if not own or header.get("format") not in FORMATS:
        raise refusal("file.kind", f"{path} is {OTHER}")
    kind, version = FORMATS[header["format"]]
    if header["version"] > version:
        writer = header.get("written_by", "a newer version")
        text = f"{path} was written by {writer} in format {header['version']}, and {__version__} reads up to {version}"
        raise refusal("file.newer", text, "upgrade with pip install -U ies-gpu")
    with sound(path):
        found = kind(**unpack(path, header["fields"], RECORDS))
    used = getattr(found, "diagnostics", {}).get("parameters") or {}
    if "components" in used:  # its name until November 2026
        used["disconnected"] = used.pop("components")
    return found


def load_as(kind: type[Result], path: str | os.PathLike[str]) -> Result:
    """Read a file that must hold a Selection, or must hold a Model."""
    found = load(path)
    if not isinstance(found, kind):
        held, wanted = ("a model", "a result") if isinstance(found, Model) else ("a result", "a model")
        raise refusal("file.kind", f"{os.fspath(path)} holds {held}, and {wanted} is needed")
    return found
