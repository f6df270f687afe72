"""Results as one ``.npz``: a JSON header and plain arrays, versioned, no pickle, written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from .. import __version__
from ..choice.regularization import Segment
from ..files.archive import pack, read_header, unpack, write_archive
from ..files.points import DAMAGED, check_readable
from ..files.remote import fetched, is_remote
from ..files.writing import check_output, check_path
from ..findings import refusal
from .selection import Ranking, Selection

FORMAT = "ies_gpu selection"
VERSION = 2  # a field that is added later has a default, so that older files stay readable
Result = TypeVar("Result")
RECORDS = {"Segment": Segment, "Ranking": Ranking}  # small records that occur inside a result


def save(selection: Selection, path: str | os.PathLike[str]) -> None:
    """Write a result to a file.

    The file is written completely or not at all, without pickle. Arrays on a GPU are copied to the host.
    ``numpy.load`` opens the file too, and ``unzip -p run.npz header.json`` shows everything but the arrays.

    Parameters
    ----------
    selection : Selection
        The result of :func:`select_coordinates`.
    path : str or path-like
        An ``.npz`` file, or a URL such as ``s3://bucket/run.npz``.

    Raises
    ------
    TypeError
        If ``selection`` is something else.
    OSError
        If the file cannot be written.

    See Also
    --------
    load : Read it again.

    Examples
    --------
    >>> from ies_gpu import datasets, load, save, select_coordinates
    >>> X = datasets.load("D1", n_samples=400).X
    >>> selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.2)
    >>> save(selection, "run.npz")
    >>> load("run.npz").names
    ('phi1', 'phi7')
    """
    if not isinstance(selection, Selection):
        text = f"save takes a Selection from select_coordinates, got {type(selection).__name__}"
        raise refusal("selection.type", text, kind=TypeError)
    write_as(path, FORMAT, VERSION, {field.name: getattr(selection, field.name) for field in fields(selection)})


def load(path: str | os.PathLike[str]) -> Selection:
    """Read a result that :func:`save` or ``ies-gpu fit -o`` wrote.

    Parameters
    ----------
    path : str or path-like
        An ``.npz`` file or a URL.

    Returns
    -------
    Selection
        The result; its arrays are NumPy arrays.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is truncated, is something else, or was written by a newer version.

    See Also
    --------
    save : Write a result.

    Examples
    --------
    >>> from ies_gpu import datasets, load, save, select_coordinates
    >>> X = datasets.load("D1", n_samples=400).X
    >>> save(select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.2), "run.npz")
    >>> load("run.npz").embedding.shape
    (400, 2)
    """
    return read_as(
        path, FORMAT, VERSION, "a result of ies_gpu; load reads what 'ies-gpu fit -o' or save wrote", Selection
    )


def write_as(path: str | os.PathLike[str], format: str, version: int, content: dict[str, Any]) -> None:
    """Write named values in a format of ours to a file or URL, completely or not at all."""
    check_output(path, ".npz")
    packed, arrays = pack(content, RECORDS)
    header = {"format": format, "version": version, "written_by": f"ies_gpu {__version__}", "fields": packed}
    write_archive(path, header, arrays)


def read_as(
    path: str | os.PathLike[str], format: str, version: int, wanted: str, build: Callable[..., Result]
) -> Result:
    """What :func:`write_as` wrote in this version of the format or an older one, built from its named values."""
    if is_remote(check_path(path)):
        with fetched(os.fspath(path)) as local:
            return read_as(local, format, version, wanted, build)
    path = Path(path)
    check_readable(path)
    try:
        header = read_header(path)
    except DAMAGED:
        if path.suffix.lower() != ".npz":
            raise refusal("file.kind", f"{path} is not an .npz file, so it is not {wanted}") from None
        text = f"{path} is not an .npz file, or is cut short or damaged"
        raise refusal("file.damaged", text, "write it again") from None
    _check_header(path, header, format, version, wanted)
    try:
        return build(**unpack(path, header["fields"], RECORDS))
    except (*DAMAGED, MemoryError):  # the latter of an array that says it is longer than its file
        text = f"{path} is damaged: not all of its contents can be read"
        raise refusal("file.damaged", text, "write it again") from None


def _check_header(path: Path, header: Any, format: str, version: int, wanted: str) -> None:
    own = isinstance(header, dict) and isinstance(header.get("version"), int)
    if not own or header.get("format") != format:
        kind = str(header.get("format")) if own else ""
        what = f"an {kind}, not {wanted}" if kind.startswith("ies_gpu ") else f"not {wanted}"
        raise refusal("file.kind", f"{path} is {what}")
    if header["version"] > version:
        writer = header.get("written_by", "a newer version")
        text = (
            f"{path} was written by {writer} in format {header['version']}, but this version ({__version__}) only "
            f"reads formats up to {version}"
        )
        raise refusal("file.newer", text, "upgrade with pip install -U ies-gpu")
