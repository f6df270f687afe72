"""
An astronomer's first half hour
===============================

From a FITS table of magnitudes to a map of the stars by their colours, and a table with their names for further work.

Run it with ``python examples/astronomer.py [number of stars]`` (``pip install astropy pandas``). **The stars are made
up**: black bodies whose metals absorb in the blue. :doc:`/real-data` has spectra.
"""

import subprocess
import sys

import numpy as np
import pandas
from astropy.table import Table

from ies_gpu import plot, select_coordinates

n = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000
rng = np.random.default_rng(0)
kelvin, metals = 1 / rng.uniform(1 / 9_000, 1 / 3_500, n), rng.uniform(0, 1, n)
bands = {"u": 354, "g": 477, "r": 623, "i": 762, "z": 913}  # nm
flux = {b: nm**-5.0 / np.expm1(1.4388e7 / (nm * kelvin)) for b, nm in bands.items()}
absorbed = {"u": 1.2, "g": 0.2}  # magnitudes
stars = Table({"name": [f"star{k}" for k in range(n)]})
for band in bands:
    noise = rng.normal(scale=0.01, size=n)
    stars[band] = -2.5 * np.log10(flux[band]) + metals * absorbed.get(band, 0) + noise
colours = ["ug", "gr", "ri", "iz"]  # differences of magnitudes do not depend on how far away a star is
for a, b in colours:
    stars[a + b] = stars[a] - stars[b]
stars.write("stars.fits", overwrite=True)

# %%
# Read the colours into a data frame, with the names of the stars as its index.

frame = Table.read("stars.fits").to_pandas().set_index("name")
selection = select_coordinates(frame[colours], intrinsic_dim=2, subset_size=2)
print(selection)
print(selection.to_pandas().head())  # the names of the stars are still there
truth = {"temperature / K": kelvin[selection.points], "metals": metals[selection.points]}
plot.embedding(selection, colors=truth).savefig("astronomer.png")

# %%
# The same from a shell, from table to table. The command line reads CSV and Parquet, among others.

frame.to_csv("stars.csv")
command = "fit stars.csv --index-col name --columns ug,gr,ri,iz -d 2 -s 2 --bandwidth 0.06 --coordinates map.csv -q"
subprocess.run([sys.executable, "-m", "ies_gpu", *command.split()], check=True)
print(pandas.read_csv("map.csv", index_col="name").head())
