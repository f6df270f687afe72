"""Draw rectangle.png: exact eigenfunctions of a rectangle, and maps by two of them. python docs/theory/rectangle.py"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

LENGTH, WIDTH = 3.3, 1.0
rng = np.random.default_rng(0)
x, y = rng.uniform(0, LENGTH, 4_000), rng.uniform(0, WIDTH, 4_000)


def mode(j, k, x, y):
    return np.cos(j * np.pi * x / LENGTH) * np.cos(k * np.pi * y / WIDTH)


figure = Figure(figsize=(10, 4.6), layout="constrained")
upper, lower = figure.subfigures(2, 1, height_ratios=(1, 2))
grid = np.meshgrid(np.linspace(0, LENGTH, 200), np.linspace(0, WIDTH, 60))
for number, (axes, (j, k)) in enumerate(zip(upper.subplots(1, 4), [(1, 0), (2, 0), (3, 0), (0, 1)], strict=True), 1):
    axes.imshow(mode(j, k, *grid), origin="lower", extent=(0, LENGTH, 0, WIDTH), cmap="RdBu", vmin=-1, vmax=1)
    axes.set_title(rf"$\phi_{number}$: $j={j},\ k={k}$", fontsize=10)
    axes.set_axis_off()
pairs = [((1, 0), (2, 0), r"$\phi_1, \phi_2$: rank 1"), ((1, 0), (0, 1), r"$\phi_1, \phi_4$: the rectangle")]
pairs.append(((1, 0), (1, 1), "(1,0) with (1,1): a knot"))
for axes, (first, second, title) in zip(lower.subplots(1, 3), pairs, strict=True):
    axes.scatter(mode(*first, x, y), mode(*second, x, y), c=y, s=2, cmap="viridis")
    axes.set_title(title, fontsize=10)
    axes.set_aspect("equal")
figure.savefig(Path(__file__).with_name("rectangle.png"), dpi=110)
