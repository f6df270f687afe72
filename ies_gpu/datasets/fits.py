"""FITS files of spectra, read with astropy: tables as SDSS writes them, and images whose rows are spectra."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ..files.chosen import ContentError
from ..files.tables import native
from .spectra import wavelengths_of

Read = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]


def read_fits(path: Path) -> Read:
    """Flux (n, channels), wavelengths (channels,) and other values per spectrum, such as the redshift."""
    try:
        from astropy.io import fits
    except ImportError:
        raise ImportError("FITS files need astropy: pip install 'ies-gpu[astro]'") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # oddities of headers; what matters is checked below
        try:
            with fits.open(path, memmap=False) as units:
                found = _from_tables(path, units) or _from_image(path, units)
                redshift = _redshift(units)
        except ContentError:
            raise
        except Exception as error:  # astropy raises many kinds about a damaged file
            raise ValueError(
                f"{path} is not a FITS file, or is cut short or damaged ({error}); fetch it again"
            ) from None
    if found is None:
        raise ValueError(f"{path} has neither a table with a column flux nor an image of spectra")
    flux, waves, values = found
    if redshift is not None and "redshift" not in values and len(flux) == 1:
        values["redshift"] = np.array([redshift])
    return flux, waves, values


def _from_tables(path: Path, units: Any) -> Read | None:
    for unit in units:
        names = {name.lower(): name for name in getattr(getattr(unit, "columns", None), "names", None) or ()}
        if "flux" not in names:
            continue
        columns = {low: native(unit.data[name]) for low, name in names.items()}
        flux, weights = columns.pop("flux"), columns.get("ivar")
        waves = wavelengths_of(columns)
        if flux.ndim == 1:  # one spectrum, a channel in each row
            if waves is None:
                raise ContentError(f"{path}: the table has a column flux but no wavelength or loglam")
            return _filled(path, flux[None], None if weights is None else weights[None], waves), waves, {}
        if waves is not None and waves.ndim == 2:
            if (waves != waves[0]).any():
                raise ContentError(f"{path}: each spectrum has its own wavelengths; write one file per spectrum")
            waves = waves[0]
        if waves is None:
            waves = _header_wavelengths(unit.header, flux.shape[1])
        if waves is None:
            raise ContentError(f"{path}: the table has spectra but no wavelength or loglam")
        values = {name: c for name, c in columns.items() if c.shape == (len(flux),) and c.dtype.kind in "buif"}
        if "z" in values:
            values["redshift"] = values.pop("z")
        return _filled(path, flux, weights, waves), waves, values
    return None


def _from_image(path: Path, units: Any) -> Read | None:
    for unit in units:
        if not getattr(unit, "is_image", False) or unit.data is None or unit.data.ndim not in (1, 2):
            continue
        flux = np.atleast_2d(native(unit.data))
        if "FIBERID" in unit.header:  # the older spSpec files: below the flux stand its error and masks
            flux = flux[:1]
        waves = _header_wavelengths(unit.header, flux.shape[1])
        if waves is None:
            raise ContentError(
                f"{path}: the image's header gives no wavelengths (COEFF0 and COEFF1, or CRVAL1 and CDELT1)"
            )
        return flux, waves, {}
    return None


def _header_wavelengths(header: Any, count: int) -> np.ndarray | None:
    """``COEFF0, COEFF1`` in log10 as SDSS writes them, or ``CRVAL1, CDELT1``."""
    steps = np.arange(count)
    if "COEFF0" in header and "COEFF1" in header:
        return 10 ** (float(header["COEFF0"]) + float(header["COEFF1"]) * steps)
    step = header.get("CDELT1", header.get("CD1_1"))
    if "CRVAL1" not in header or step is None:
        return None
    values = float(header["CRVAL1"]) + float(step) * (steps + 1 - float(header.get("CRPIX1", 1)))
    return 10**values if int(header.get("DC-FLAG", 0)) == 1 else values


def _redshift(units: Any) -> float | None:
    """The redshift from the header, or from the table in which SDSS keeps its fit to the spectrum."""
    for unit in units:
        names = {name.lower(): name for name in getattr(getattr(unit, "columns", None), "names", None) or ()}
        if "z" in names and "flux" not in names and len(unit.data) == 1:
            return float(unit.data[names["z"]][0])
    value = units[0].header.get("Z")
    return float(value) if isinstance(value, int | float) else None


def _filled(path: Path, flux: np.ndarray, weights: np.ndarray | None, waves: np.ndarray) -> np.ndarray:
    """Flux (n, channels), with channels that were not measured (weight 0) interpolated between their neighbours."""
    if weights is None or weights.shape != flux.shape or waves.shape != flux.shape[1:]:
        return flux
    order = np.argsort(waves)  # np.interp asks for rising wavelengths
    good = (weights > 0) & np.isfinite(flux)
    filled = flux.astype(np.float64)
    for row in np.flatnonzero(~good.all(axis=1)):
        known = order[good[row, order]]
        if len(known) < 2:
            raise ContentError(
                f"{path}: only {len(known)} channels of spectrum {row} were measured; at least 2 are needed"
            )
        filled[row] = np.interp(waves, waves[known], flux[row, known])
    return filled
