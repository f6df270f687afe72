"""
Spectra
=======

A family of spectra with two parameters: a temperature, which changes them a lot, and the depth of an absorption line,
which changes them a little. That makes a long, narrow sheet.

Run it with ``python examples/spectra.py [number of spectra]``. The spectra are made by Planck's formula;
:doc:`/real-data` has real ones, and says how to read FITS files.
"""

import sys

import numpy as np

from ies_gpu import datasets, plot, select_coordinates

n = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000
rng = np.random.default_rng(0)
wavelengths = np.linspace(400, 900, 120)  # nm
kelvin, depth = 1 / rng.uniform(1 / 7_000, 1 / 3_000, n), rng.uniform(0, 0.8, n)
planck = wavelengths**-5.0 / np.expm1(1.4388e7 / (wavelengths * kelvin[:, None]))
line = 1 - depth[:, None] * np.exp(-(((wavelengths - 656) / 20) ** 2))
brightness = rng.lognormal(sigma=1.0, size=(n, 1))
np.savez("spectra.npz", flux=brightness * planck * line, wavelengths=wavelengths)

# %%
# Brightness says how far away a star is, not what it is, so we scale each spectrum to unit length.

spectra = datasets.load_spectra("spectra.npz").normalized()
print(spectra)
X = datasets.pca(spectra.flux, 10).scores

# %%
selection = select_coordinates(X, intrinsic_dim=2, subset_size=2)
print(selection)
colors = {"temperature / K": kelvin[selection.points], "depth of the line": depth[selection.points]}
plot.embedding(selection, colors=colors).savefig("spectra.png")

# %%
# The first two eigenvectors see only the temperature.

plot.embedding(selection, (0, 1), colors=colors).savefig("spectra-first.png")
