"""Draw demo.png (the front page), parameters.png, umap.png and the logo: python docs/pictures.py (needs umap-learn)"""

import warnings
from pathlib import Path

import numpy as np
import umap
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

roll = datasets.load("D3", n_samples=3_000)
strip = datasets.load("D1", n_samples=3_000)
torus = datasets.load("D7", n_samples=3_000)
figure = Figure(figsize=(10, 8.6), layout="constrained")
titles = {0.4: "bandwidth too small: it twists", 1.0: "bandwidth right", 3.0: "bandwidth too large: turns touch"}
for place, (factor, title) in enumerate(titles.items(), 1):
    fit = select_coordinates(roll.X, intrinsic_dim=2, subset_size=2, bandwidth=0.75 * factor, disconnected="largest")
    panel(figure.add_subplot(4, 3, place), fit.embedding, roll.truth[fit.points, 1], title)
titles = {1: "d = 1, too small: a curve", 2: "d = 2: the strip", 3: "d = 3, too large: one coordinate too many"}
for place, (d, title) in enumerate(titles.items(), 4):
    fit = select_coordinates(strip.X, intrinsic_dim=d, subset_size=max(2, d), bandwidth=0.45)
    panel(figure.add_subplot(4, 3, place), fit.embedding, strip.truth[:, 1], title)
titles = {4: "m = 4, too small: a curve", 20: "m = 20: the strip", 40: "m = 40: no better, slower"}
for place, (m, title) in enumerate(titles.items(), 7):
    fit = select_coordinates(strip.X, intrinsic_dim=2, subset_size=2, bandwidth=0.45, n_components=m)
    panel(figure.add_subplot(4, 3, place), fit.embedding, strip.truth[:, 1], title)
titles = {2: "s = 2, too small: the torus folds", 3: "s = 3: a tube", 4: "s = 4: one more than it needs"}
for place, (s, title) in enumerate(titles.items(), 10):
    fit = select_coordinates(torus.X, intrinsic_dim=2, subset_size=s, bandwidth=2.7)
    height = torus.truth[:, -1]
    if s == 2:
        panel(figure.add_subplot(4, 3, place), fit.embedding, height, title)
        continue
    axes = figure.add_subplot(4, 3, place, projection="3d")
    axes.scatter(*(fit.embedding / fit.embedding.std(axis=0)).T[:3], c=height, s=2, cmap="viridis")
    axes.set_title(title, fontsize=11)
    axes.set_axis_off()
    axes.set_box_aspect(None, zoom=1.35)
figure.savefig(HERE / "parameters.png", dpi=110)

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
