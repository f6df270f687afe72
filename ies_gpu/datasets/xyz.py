"""The XYZ format, plain and extended: frames of atoms as text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import to_host
from ..backend.array import Array
from ..errors import brief
from ..files.text import is_number
from ..files.writing import check_output, whole_or_nothing
from ..validation import check_array, check_real_array

_ELEMENTS = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb "
    "Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au "
    "Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts "
    "Og"
)
SYMBOLS = tuple(_ELEMENTS.split())
ATOMIC_NUMBER = {symbol: k for k, symbol in enumerate(SYMBOLS, 1)} | {str(k): k for k in range(1, len(SYMBOLS) + 1)}
NAME = re.compile(r"[A-Za-z_][\w-]*")
PAIR = re.compile(r"""([A-Za-z_][\w-]*)\s*=\s*("[^"]*"|'[^']*'|[^\s"']+)""")
PLAIN = "species:S:1:pos:R:3"


def read_xyz(path: Path) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Positions (n, atoms, 3), atomic numbers (atoms,) and the numbers that every comment line gives (energy=...)."""
    positions: list[np.ndarray] = []
    comments: list[dict[str, float]] = []
    atoms: list[str] | None = None
    for line, comment, rows in _frames(path):
        properties = {key.lower(): value.strip("\"'") for key, value in PAIR.findall(comment)}
        who, where = _layout(path, line, properties.get("properties", PLAIN))
        names = [_cell(path, line + 2 + k, row, who).capitalize() for k, row in enumerate(rows)]
        if atoms is None:
            atoms = names
        elif names != atoms:
            raise ValueError(
                f"{path}, line {line}: the atoms differ from those of the first frame, or their order does"
            )
        positions.append(_numbers(path, line, rows, where))
        comments.append({key: float(value) for key, value in properties.items() if is_number(value)})
    if atoms is None:
        raise ValueError(f"{path} contains no frames")
    known = [ATOMIC_NUMBER.get(name, 0) for name in atoms]
    if 0 in known:
        raise ValueError(f"{path}: {atoms[known.index(0)]!r} is not a chemical element")
    shared = [key for key in comments[0] if all(key in comment for comment in comments)]
    values = {key: np.array([comment[key] for comment in comments]) for key in shared}
    return np.stack(positions), np.array(known), values


def write_xyz(path: str | os.PathLike[str], R: Array, z: Array, *, values: dict[str, Any] | None = None) -> None:
    """Write frames as extended XYZ.

    The file is written completely or not at all, and positions keep every digit.

    Parameters
    ----------
    path : str or path-like
        An ``.xyz`` file.
    R : ndarray of shape (n_frames, n_atoms, 3)
        Positions.
    z : ndarray of shape (n_atoms,)
        Atomic numbers.
    values : dict of {str: ndarray of shape (n_frames,)}, optional
        Numbers per frame, for its comment line.

    Examples
    --------
    >>> import numpy as np
    >>> from ies_gpu import datasets
    >>> frames = np.array([[[0.0, 0.0, 0.0], [0.74, 0.0, 0.0]]])
    >>> datasets.write_xyz("hydrogen.xyz", frames, [1, 1], values={"energy": [-1.17]})
    >>> datasets.load_molecule("hydrogen.xyz").values["energy"].tolist()
    [-1.17]
    """
    check_output(path, ".xyz")
    R, z = (to_host(check_array(name, array)) for name, array in (("R", R), ("z", z)))
    R, z = check_real_array("R", R, 3), check_real_array("z", z, 1)
    if R.shape[2] != 3 or z.shape != R.shape[1:2]:
        raise ValueError(f"R must have shape (frames, atoms, 3) and z (atoms,), got {R.shape} and {z.shape}")
    check_atoms("z", z)
    columns = _columns({} if values is None else values, len(R))
    symbols = [SYMBOLS[int(k) - 1] for k in z]
    with whole_or_nothing(path) as file:
        for i, frame in enumerate(R):
            pairs = "".join(f" {key}={float(column[i])!r}" for key, column in columns.items())
            rows = [f"{symbol} {x!r} {y!r} {w!r}" for symbol, (x, y, w) in zip(symbols, frame.tolist(), strict=True)]
            file.write("\n".join([str(len(rows)), f"Properties={PLAIN}{pairs}", *rows, ""]).encode())


def _columns(values: Any, frames: int) -> dict[str, Any]:
    """Numbers per frame under names that a comment line can hold."""
    if not isinstance(values, Mapping):
        raise TypeError(f"values must be a dict with one array per name, got {brief(values)}")
    columns: dict[str, Any] = {}
    for key, column in values.items():
        if not isinstance(key, str) or not NAME.fullmatch(key):
            raise ValueError(f"values: {brief(key)} cannot be a name; use letters, digits, - and _ only")
        if key.lower() == "properties":
            raise ValueError(f"values: {key!r} names the columns of an XYZ file; rename it")
        twin = next((other for other in columns if other.lower() == key.lower()), None)
        if twin is not None:
            raise ValueError(f"values: {twin!r} and {key!r} are one name in an XYZ file; rename one of them")
        columns[key] = to_host(check_array(f"values[{key!r}]", column))
        if columns[key].shape != (frames,) or columns[key].dtype.kind not in "buif":
            shape, kind = columns[key].shape, columns[key].dtype
            raise ValueError(
                f"values[{key!r}] must have one number for each of the {frames} frames, got shape {shape}, dtype {kind}"
            )
    return columns


def check_atoms(name: str, z: np.ndarray) -> None:
    """Check that all are whole numbers of known elements."""
    bad = np.flatnonzero(~((z == np.floor(z)) & (z >= 1) & (z <= len(SYMBOLS))))
    if len(bad):
        first = brief(z[bad[0]].item())
        raise ValueError(f"{name}: atomic numbers must be between 1 and {len(SYMBOLS)}, but atom {bad[0]} has {first}")


def _frames(path: Path) -> Iterator[tuple[int, str, list[list[str]]]]:
    """For each frame, the number of its first line, its comment and the cells of its atoms."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            numbered = enumerate(file, 1)
            for number, text in numbered:
                if not text.strip():
                    continue  # blank lines between or after frames
                if not text.strip().isdecimal() or int(text) == 0:
                    raise ValueError(f"{path}, line {number}: expected the number of atoms, got {text.strip()!r}")
                body = [line for _, (_, line) in zip(range(int(text) + 1), numbered, strict=False)]
                if len(body) < int(text) + 1:
                    raise ValueError(f"{path}, line {number}: a frame of {int(text)} atoms is cut short")
                yield number, body[0], [line.split() for line in body[1:]]
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8, as XYZ files must be; write it again as UTF-8") from None


def _layout(path: Path, line: int, properties: str) -> tuple[int, int]:
    """The columns of the species and of the first coordinate, from ``species:S:1:pos:R:3``."""
    cells, column, found = properties.split(":"), 0, {}
    try:
        for name, width in zip(cells[::3], cells[2::3], strict=True):
            if name.lower() not in ("pos", "positions") or int(width) == 3:
                found[name.lower()] = column
            column += int(width)
        species = next(found[name] for name in ("species", "symbol", "element", "z") if name in found)
        return species, found["pos"] if "pos" in found else found["positions"]
    except (KeyError, StopIteration, ValueError):
        raise ValueError(f"{path}, line {line + 1}: Properties={properties} lacks species or pos (3 columns)") from None


def _cell(path: Path, line: int, row: list[str], column: int) -> str:
    if column >= len(row):
        raise ValueError(f"{path}, line {line}: expected an atom and its position, got {' '.join(row)!r}")
    return row[column]


def _numbers(path: Path, line: int, rows: list[list[str]], first: int) -> np.ndarray:
    for k, row in enumerate(rows):
        cells = row[first : first + 3]
        if len(cells) < 3 or not all(map(is_number, cells)):
            raise ValueError(f"{path}, line {line + 2 + k}: expected three coordinates, got {' '.join(row)!r}")
    return np.array([row[first : first + 3] for row in rows], dtype=np.float64)
