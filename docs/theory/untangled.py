"""Draw untangled.png: a strip by chosen eigenvectors and by turned coordinates. python docs/theory/untangled.py"""

from pathlib import Path

from matplotlib.figure import Figure

from ies_gpu import datasets, select_coordinates

strip = datasets.load("D1", n_samples=2_000, random_state=105)
found = select_coordinates(strip.X, intrinsic_dim=2, subset_size=2, bandwidth=0.3648, device="cpu")
figure = Figure(figsize=(9, 3.6), layout="constrained")
maps = {"two eigenvectors": found.coordinates[:, list(found.subset)], "the same, turned": found.embedding}
sides = figure.subplots(1, 2)
for axes, (title, Y) in zip(sides, maps.items(), strict=True):
    drawn = axes.scatter(*Y.T, c=strip.truth[:, 1], s=4, cmap="viridis")
    axes.set_title(title, fontsize=10)
figure.colorbar(drawn, ax=sides, label="true y")
figure.savefig(Path(__file__).with_name("untangled.png"), dpi=110)
