"""
Spectra
=======

A family of spectra with two parameters: a temperature, which changes them a lot, and the depth of an absorption line,
which changes them a little. That makes a long, narrow sheet. The spectra are made by Planck's formula; the last lines
read real ones from FITS files.
"""

import numpy as np
from sklearn.decomposition import PCA

from ies_gpu import plot, select_coordinates

n = 2_000
rng = np.random.default_rng(0)
wavelengths = np.linspace(400, 900, 120)  # nm
kelvin, depth = 1 / rng.uniform(1 / 7_000, 1 / 3_000, n), rng.uniform(0, 0.8, n)
planck = wavelengths**-5.0 / np.expm1(1.4388e7 / (wavelengths * kelvin[:, None]))
line = 1 - depth[:, None] * np.exp(-(((wavelengths - 656) / 20) ** 2))
brightness = rng.lognormal(sigma=1.0, size=(n, 1))
flux = brightness * planck * line

# %%
# Brightness says how far away a star is, not what it is, so we scale each spectrum to unit length.

X = PCA(10, random_state=0).fit_transform(flux / np.linalg.norm(flux, axis=1, keepdims=True))
print(X.shape)

# %%
selection = select_coordinates(X, intrinsic_dim=2, subset_size=2)
print(selection)
colors = {"temperature / K": kelvin[selection.points], "depth of the line": depth[selection.points]}
plot.embedding(selection, colors=colors).savefig("spectra.png")

# %%
# The first two eigenvectors see only the temperature.

plot.embedding(selection, (0, 1), colors=colors).savefig("spectra-first.png")

# %%
# Galaxies of SDSS come one per FITS file, each with its own redshift, and with channels that were not measured
# (``ivar`` = 0). This moves them to rest and to the wavelengths that you ask for (``pip install astropy``).


def read_sdss(path, wavelengths):
    from astropy.table import Table

    spectrum, galaxy = Table.read(path, hdu=1), Table.read(path, hdu=2)
    at_rest = 10 ** np.asarray(spectrum["loglam"], dtype=float) / (1 + galaxy["Z"][0])
    measured = np.asarray(spectrum["ivar"]) > 0
    return np.interp(wavelengths, at_rest[measured], np.asarray(spectrum["flux"], dtype=float)[measured])
