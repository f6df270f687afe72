"""Spectra from FITS or ``.npz`` files, on a common grid of wavelengths and with the same brightness."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import at_home
from ..backend.array import Array
from ..files.points import check_readable, listed, read_numbers
from ..files.writing import check_path
from ..validation import check_choice, check_members, check_real_array

FLUX = ("spectra", "flux", "fluxes", "X")
WAVELENGTHS = ("wavelengths", "wavelength", "wave", "lambda", "lam")
LOG_WAVELENGTHS = ("loglam", "log_wavelength", "log_wavelengths")  # log10, as SDSS gives them
FITS = (".fits", ".fit", ".fits.gz", ".fit.gz", ".fits.fz")


@dataclass(frozen=True, eq=False)
class Spectra:
    """Spectra on one grid of wavelengths.

    Attributes
    ----------
    flux : ndarray of shape (n_spectra, n_channels)
        One spectrum per row.
    wavelengths : ndarray of shape (n_channels,)
        In rising order, in the unit of the file.
    values : dict of {str: ndarray of shape (n_spectra,)}
        What else the file gives per spectrum, such as a redshift.
    path : str
        Where they came from.
    """

    flux: np.ndarray
    wavelengths: np.ndarray
    values: dict[str, np.ndarray] = field(default_factory=dict)
    path: str = ""

    def normalized(self, how: str = "length") -> Spectra:
        """Return the same spectra without their brightness.

        Parameters
        ----------
        how : {"length", "mean", "none"}, default="length"
            As in :func:`normalize_spectra`.

        Returns
        -------
        Spectra
            A copy with normalised flux.
        """
        return replace(self, flux=normalize_spectra(self.flux, how=how))

    def band_ratio(self, above: tuple[float, float], below: tuple[float, float]) -> np.ndarray:
        """Compute a colour: the mean flux in one band divided by that in another.

        Parameters
        ----------
        above, below : tuple of (float, float)
            First and last wavelength of the two bands.

        Returns
        -------
        ndarray of shape (n_spectra,)
            The ratio for each spectrum.
        """
        return self._band(above) / self._band(below)

    def _band(self, ends: tuple[float, float]) -> np.ndarray:
        inside = (self.wavelengths >= ends[0]) & (self.wavelengths <= ends[1])
        if not inside.any():
            low, high = self.wavelengths[[0, -1]]
            raise ValueError(
                f"no channel lies between {ends[0]:g} and {ends[1]:g}; the channels go from {low:g} to {high:g}"
            )
        return self.flux[:, inside].mean(axis=1)

    def __len__(self) -> int:
        return len(self.flux)

    def __repr__(self) -> str:
        low, high = self.wavelengths[[0, -1]]
        n, p = self.flux.shape
        return f"Spectra({n:,} of {p} channels from {low:g} to {high:g}; {self.path})"


@at_home
def normalize_spectra(flux: Array, *, how: str = "length") -> Array:
    """Remove the brightness of spectra, so that distances compare shapes.

    Parameters
    ----------
    flux : ndarray of shape (n_spectra, n_channels)
        One spectrum per row.
    how : {"length", "mean", "none"}, default="length"
        What to divide each spectrum by: its Euclidean length, as is usual for the principal components of SDSS
        galaxies (Yip et al. 2004); its mean, which keeps the integrated flux; or nothing.

    Returns
    -------
    ndarray of shape (n_spectra, n_channels)
        The normalised spectra.

    Examples
    --------
    >>> import numpy as np
    >>> from ies_gpu import datasets
    >>> datasets.normalize_spectra(np.array([[3.0, 4.0], [6.0, 8.0]]))
    array([[0.6, 0.8],
           [0.6, 0.8]])
    """
    check_choice("how", how, ("length", "mean", "none"))
    flux = check_real_array("flux", flux, 2)
    if how == "none":
        return flux
    size = (flux**2).sum(axis=1) ** 0.5 if how == "length" else flux.mean(axis=1)
    bad = size <= 0
    if bool(bad.any()):
        raise ValueError(f"{int(bad.sum())} spectra have a {how} of zero or less; remove them before normalising")
    return flux / size[:, None]


def load_spectra(path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Spectra:
    """Read spectra from a file, a folder of FITS files, or several FITS files.

    Parameters
    ----------
    path : str or path-like, or iterable of these
        An ``.npz`` with spectra (or flux) (n_spectra, n_channels) and wavelengths (or loglam) (n_channels,). A FITS
        file with a table whose column flux holds one spectrum per row or one channel per row (as SDSS writes them), or
        with an image whose rows are spectra; this needs astropy: ``pip install 'ies-gpu[astro]'``. With several files,
        each holds one spectrum or more. Spectra with a redshift (an array redshift of an ``.npz``, a column z of a
        FITS table) are moved to the rest frame, and those of several files or redshifts are interpolated to a grid
        that all of them cover.

    Returns
    -------
    Spectra
        With the flux of the file; :meth:`Spectra.normalized` removes the brightness.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a file is damaged or holds no spectra; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from ies_gpu import datasets
    >>> np.savez("lamps.npz", flux=np.ones((5, 3)), wavelengths=[400.0, 500.0, 600.0])
    >>> datasets.load_spectra("lamps.npz")
    Spectra(5 of 3 channels from 400 to 600; lamps.npz)
    """
    if not isinstance(path, str | os.PathLike):
        several = check_members("path", path, "the name of a file, or several")
        return _joined([file for p in several for file in _files(Path(check_path(p)))], "several files")
    path = Path(check_path(path))
    if path.is_dir():
        return _joined(_files(path), str(path))
    part = _read(path)
    shifts = _shifts(part)
    if (shifts == shifts[0]).all():  # nothing to interpolate
        return replace(part, wavelengths=part.wavelengths / shifts[0])
    return _on_a_grid([part], str(path))


def _files(path: Path) -> list[Path]:
    """The FITS files of a folder, or the file itself."""
    return sorted(p for p in path.iterdir() if p.name.lower().endswith(FITS)) if path.is_dir() else [path]


def _read(path: Path) -> Spectra:
    """The spectra of one file as they were observed."""
    check_readable(path)
    if path.suffix.lower() == ".npz":
        return _checked(path, *_read_npz(path))
    if not path.name.lower().endswith(FITS):
        raise ValueError(f"{path}: spectra are read from .npz and .fits files, not from '{path.suffix}'")
    from .fits import read_fits

    return _checked(path, *read_fits(path))


def _read_npz(path: Path) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    arrays = read_numbers(path)
    there = listed(arrays)
    flux = next((arrays.pop(name) for name in FLUX if name in arrays), None)
    waves = wavelengths_of(arrays)
    if flux is None or waves is None:
        what, names = ("spectra", FLUX) if flux is None else ("wavelengths", (*WAVELENGTHS, *LOG_WAVELENGTHS))
        raise ValueError(f"{path} has no {what} (looked for {', '.join(names)}); its arrays of numbers: {there}")
    n = len(flux) if flux.ndim else 0
    if "redshift" in arrays:
        arrays["redshift"] = _one_each(path, arrays["redshift"], n)
    return flux, waves, {name: a for name, a in arrays.items() if a.shape == (n,)}


def _one_each(path: Path, redshift: np.ndarray, n: int) -> np.ndarray:
    """A redshift per spectrum, from a column or from one for all: left aside, it would leave them as observed."""
    if redshift.size not in (1, n):
        raise ValueError(f"{path}: redshift must have one value for each of {n} spectra, got shape {redshift.shape}")
    return np.broadcast_to(redshift.ravel().astype(np.float64), n).copy()


def wavelengths_of(arrays: dict[str, Any]) -> np.ndarray | None:
    """Take the wavelengths out of the named arrays; None if there are none."""
    for name in (*WAVELENGTHS, *LOG_WAVELENGTHS):
        if name in arrays:
            values = np.asarray(arrays.pop(name), dtype=np.float64)
            return 10**values if name in LOG_WAVELENGTHS else values
    return None


def _checked(path: Path | str, flux: np.ndarray, waves: np.ndarray, values: dict[str, np.ndarray]) -> Spectra:
    if flux.dtype.kind not in "buif" or waves.dtype.kind not in "buif":
        raise ValueError(f"{path}: spectra and wavelengths must be real numbers, got {flux.dtype} and {waves.dtype}")
    if flux.ndim != 2 or 0 in flux.shape or waves.shape != flux.shape[1:]:
        raise ValueError(
            f"{path}: spectra must have shape (n, channels) and wavelengths (channels,), got {flux.shape} and "
            f"{waves.shape}"
        )
    flux, waves = np.asarray(flux, dtype=np.float64), np.asarray(waves, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(flux).all(axis=1))
    if len(bad):
        raise ValueError(f"{path}: {len(bad)} spectra contain NaN or infinite values, the first is number {bad[0]}")
    if not np.isfinite(waves).all() or len(np.unique(waves)) < len(waves):
        raise ValueError(f"{path}: wavelengths must be finite and different")
    order = np.argsort(waves)
    return Spectra(flux[:, order], waves[order], values, str(path))


def _joined(paths: list[Path], where: str) -> Spectra:
    """Spectra of several files at rest."""
    if not paths:
        raise ValueError(f"{where} contains no FITS files ({', '.join(FITS)})")
    return _on_a_grid([_read(p) for p in paths], where)


def _shifts(part: Spectra) -> np.ndarray:
    """By what the wavelengths of each spectrum are divided at rest."""
    shifts = 1 + part.values.get("redshift", np.zeros(len(part)))
    bad = np.flatnonzero(~(np.isfinite(shifts) & (shifts > 0)))
    if len(bad):
        raise ValueError(f"{part.path}: spectrum {bad[0]} has a redshift of {shifts[bad[0]] - 1:g}; remove it")
    return shifts


def _on_a_grid(parts: list[Spectra], where: str) -> Spectra:
    """Spectra moved to the rest frame and to a grid that all of them cover."""
    rests = []
    for part in parts:
        rests += [(part.wavelengths / shift, row) for shift, row in zip(_shifts(part), part.flux, strict=True)]
    low, high = max(w[0] for w, _ in rests), min(w[-1] for w, _ in rests)
    if low >= high:
        raise ValueError(
            f"{where}: the spectra have no wavelengths in common (one begins at {low:g}, another ends at {high:g})"
        )
    count = min(int(((w >= low) & (w <= high)).sum()) for w, _ in rests)
    grid = np.geomspace(low, high, max(count, 2)) if low > 0 else np.linspace(low, high, max(count, 2))
    flux = np.array([np.interp(grid, w, row) for w, row in rests])
    shared = set.intersection(*(set(part.values) for part in parts))
    return Spectra(flux, grid, {k: np.concatenate([p.values[k] for p in parts]) for k in sorted(shared)}, where)
