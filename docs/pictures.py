"""Draw demo.png (the front page), parameters/, umap.png and the logo: python docs/pictures.py (needs umap-learn)"""

import warnings
from pathlib import Path

import numpy as np
import umap
from matplotlib import colormaps
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from ies_gpu import datasets, select_coordinates, umap_init

HERE = Path(__file__).parent
warnings.simplefilter("ignore")  # of settings that are wrong on purpose


def panel(axes, points, colors, title, *, shape=0.62):
    points = points / points.std(axis=0)
    axes.scatter(*points[:, :2].T, c=colors, s=2, cmap="viridis")
    axes.set_title(title, fontsize=11)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_box_aspect(shape)


strip = datasets.load("D1", n_samples=10_000)
chosen = select_coordinates(strip.X, intrinsic_dim=2, subset_size=2, bandwidth=0.25)
width = strip.truth[:, 1]
figure = Figure(figsize=(10, 1.95), layout="constrained")
flat, first, both = figure.subplots(1, 3)
flat.scatter(*strip.truth[:, :2].T, c=width, s=1, cmap="viridis")
flat.set_title("the data: a strip of 25 by 4", fontsize=11)
flat.set_xticks([])
flat.set_yticks([])
flat.set_aspect("equal")
panel(first, chosen.coordinates[:, :2], width, "first two: the width is lost", shape=0.5)
panel(both, chosen.embedding, width, f"chosen ({', '.join(chosen.names)}): both directions", shape=0.5)
figure.savefig(HERE / "demo.png", dpi=150, bbox_inches="tight", pad_inches=0.03)


def small(name, points, colors):
    """Draw one cell of the table of parameters, which must be seen on a light and on a dark ground."""
    space = points.shape[1] > 2
    figure = Figure(figsize=(2, 1.4))
    axes = figure.add_axes((0, 0, 1, 1), projection="3d" if space else None)
    seen = ListedColormap(colormaps["viridis"](np.linspace(0.2, 0.95, 99)))
    axes.scatter(*(points / points.std(axis=0)).T[:3], c=colors, s=2, cmap=seen)
    axes.set_axis_off()
    axes.margins(0.04)
    if space:
        axes.set_box_aspect(None, zoom=1.6)
    figure.savefig(HERE / "parameters" / f"{name}.png", dpi=100, transparent=True)


roll = datasets.load("D3", n_samples=3_000)
strip = datasets.load("D1", n_samples=3_000)
torus = datasets.load("D7", n_samples=3_000)
SIZES = ("small", "right", "large")
(HERE / "parameters").mkdir(exist_ok=True)
for size, factor in zip(SIZES, (0.4, 1.0, 3.0), strict=True):
    fit = select_coordinates(roll.X, intrinsic_dim=2, subset_size=2, bandwidth=0.75 * factor, disconnected="largest")
    small(f"bandwidth-{size}", fit.embedding, roll.truth[fit.points, 1])
for size, d in zip(SIZES, (1, 2, 3), strict=True):
    fit = select_coordinates(strip.X, intrinsic_dim=d, subset_size=max(2, d), bandwidth=0.45)
    small(f"dimension-{size}", fit.embedding, strip.truth[:, 1])
for size, m in zip(SIZES, (4, 20, 40), strict=True):
    fit = select_coordinates(strip.X, intrinsic_dim=2, subset_size=2, bandwidth=0.45, n_components=m)
    small(f"eigenvectors-{size}", fit.embedding, strip.truth[:, 1])
for size, s in zip(SIZES, (2, 3, 4), strict=True):
    fit = select_coordinates(torus.X, intrinsic_dim=2, subset_size=s, bandwidth=2.7)
    small(f"size-{size}", fit.embedding, torus.truth[:, -1])

strip = datasets.load("D1", n_samples=2_000)
chosen = select_coordinates(strip.X, intrinsic_dim=2, subset_size=2, bandwidth=0.55)
starts = {
    "from the chosen two": umap_init(chosen),
    "from the first two": umap_init(chosen, (0, 1)),
    "from a random start": "random",
}
figure = Figure(figsize=(10, 2.6), layout="constrained")
for axes, (title, start) in zip(figure.subplots(1, 3), starts.items(), strict=True):
    points = umap.UMAP(n_components=2, init=start, n_epochs=500, random_state=0, n_jobs=1).fit_transform(strip.X)
    axes.scatter(*points.T, c=strip.truth[:, 1], s=2, cmap="viridis")
    axes.set_title(title, fontsize=11)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", adjustable="datalim")
figure.savefig(HERE / "umap.png", dpi=110)

t = np.linspace(-1.2, 1.2, 60)
figure = Figure(figsize=(1, 1))
axes = figure.add_axes((0, 0, 1, 1))
axes.set_axis_off()
for shift, color in zip(np.linspace(-0.45, 0.45, 7), np.linspace(0, 1, 7), strict=True):
    axes.plot(t, 0.35 * np.sin(2.4 * t) + shift, color=(0.27 + 0.7 * color, 0.1 + 0.8 * color, 0.35), linewidth=3)
figure.savefig(HERE / "_static" / "logo.png", dpi=96, transparent=True)
