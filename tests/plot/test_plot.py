"""Pictures show the numbers of the result, with labels, and need no display."""

import sys
from dataclasses import replace

import matplotlib
import numpy as np
import pandas
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ies_gpu import datasets, diagnose, plot
from ies_gpu.choice.regularization import Segment
from ies_gpu.plot.style import set_label
from tests.said import refused

from .conftest import N, drawn

WORDS = np.array(["CD8+/CD45RA+ Naive Cytotoxic", "T", "B"])[np.arange(N) % 3]


def panels(figure):
    """The axes that are no colour bars."""
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>" and axes.get_xlabel()]


def test_embedding_shows_the_chosen_coordinates(selection, data):
    shown, (a, b) = panels(drawn(plot.embedding(selection, colors=data.colors))), selection.subset
    assert len(shown) == 2
    for axes, values in zip(shown, data.colors.values(), strict=True):
        marks = axes.collections[0]
        np.testing.assert_allclose(marks.get_offsets(), selection.embedding)
        np.testing.assert_array_equal(marks.get_array(), values)
        assert marks.get_rasterized() and marks.get_cmap().name == "viridis"
        assert f"phi_{{{a + 1}}}" in axes.get_xlabel() and f"phi_{{{b + 1}}}" in axes.get_ylabel()
    assert [axes.child_axes[0].get_ylabel() for axes in shown] == list(data.colors)  # the colour bars


@pytest.mark.parametrize(("subset", "count"), [((0, 1), 1), (("phi1", "phi4", 5), 1), ((0, 1, 2, 3), 6)])
def test_any_set_can_be_drawn(selection, subset, count):
    figure = drawn(plot.embedding(selection, subset, colors=selection.log_volumes))
    clouds = [axes for axes in figure.axes if axes.collections and axes.get_label() != "<colorbar>"]
    assert len(clouds) == count and sum(len(axes.child_axes) for axes in clouds) == (len(subset) != 3)  # colour bars
    assert clouds[0].name == ("3d" if len(subset) == 3 else "rectilinear")
    numbers = [int(k[3:]) if isinstance(k, str) else k + 1 for k in subset]
    assert all(f"phi_{{{k}}}" in figure.get_suptitle() for k in numbers)


def test_a_set_of_one_is_drawn_as_a_curve(selection):
    axes = drawn(plot.embedding(one := replace(selection, subset=(0,), rotation=None))).axes[0]
    np.testing.assert_allclose(axes.collections[0].get_offsets(), selection.coordinates[:, :2])
    assert "not in the set" in axes.get_ylabel()
    only = replace(one, coordinates=selection.coordinates[:, :1])
    assert np.ptp(drawn(plot.embedding(only)).axes[0].collections[0].get_offsets()[:, 1]) == 0


def test_wrong_arguments(selection):
    for code, draw, wrong in (
        ("subsets.*", plot.embedding, {"subset": (0, 20)}),
        ("subset.type", plot.embedding, {"subset": ["phi0"]}),
        ("subsets.*", plot.embedding, {"subset": [0, 0]}),
        ("X.shape", plot.points, {"selection": selection.embedding[:, :1]}),
        ("colors.range", plot.embedding, {"colors": 1e305 * np.arange(N)}),
        ("colors.type", plot.embedding, {"colors": np.zeros(N, dtype="datetime64[s]")}),
        ("found.type", plot.diagnosis, {}),
        ("cmap.choice", plot.embedding, {"cmap": "none such"}),
    ):
        with refused(code, (TypeError, ValueError)):
            draw(wrong.pop("selection", selection), **wrong)


def test_points_are_flat_to_scale_or_in_space(data):
    frame = pandas.DataFrame(data.X, columns=["length", "$width_$", "height"])
    flat = drawn(plot.points(frame, colors=data.colors))
    assert all(axes.get_aspect() == 1.0 for axes in panels(flat)) and flat.get_suptitle() == ""
    assert (flat.axes[0].get_xlabel(), flat.axes[0].get_ylabel()) == ("length", r"\$width_\$")
    torus = drawn(plot.points(datasets.load("D7", n_samples=300).X))
    assert panels(torus)[0].name == "3d" and torus.get_suptitle() == "The first 3 of 13 columns"
    assert plot.points(data.X, title="mine").get_suptitle() == "mine"


def test_one_stray_point_does_not_set_the_axes(selection):
    Y = selection.coordinates.copy()
    Y[5, selection.subset[0]] = 9.0 * np.sqrt(N)
    axes = drawn(plot.embedding(replace(selection, coordinates=Y))).axes[0]
    assert axes.get_title(loc="right") == f"1 of {N:,} points lies outside"
    assert axes.get_xlim()[1] < 3 and len(axes.collections[0].get_offsets()) == N - 1


def test_the_legend_is_inside_the_picture_at_the_first_drawing(selection):
    for subset in ((0, 1), (0, 1, 2)):  # flat, and in space
        figure = plot.embedding(selection, subset, colors=WORDS)
        (canvas := FigureCanvasAgg(figure)).draw()
        (key,) = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
        box, page = key.get_window_extent(canvas.get_renderer()), figure.bbox
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= page.x1 and box.y1 <= page.y1


def test_in_own_axes_the_key_does_not_cover_the_next_ones(selection):
    for colors in (WORDS, np.linspace(0, 1, N)):
        figure = Figure(figsize=(9, 4))
        mine, other = figure.subplots(1, 2)
        before = other.get_position().bounds
        assert plot.embedding(selection, colors=colors, ax=mine, title="mine") is figure
        assert mine.get_title(loc="left") == "mine"
        (canvas := FigureCanvasAgg(figure)).draw()
        key = mine.get_legend() or figure.axes[-1]
        assert key.get_tightbbox(canvas.get_renderer()).x1 < other.get_tightbbox(canvas.get_renderer()).x0
        assert other.get_position().bounds == before
    two = {"a": WORDS, "b": WORDS}
    for size, wrong, code in ((3, WORDS, "ax.projection"), (4, WORDS, "ax.panels"), (2, two, "ax.panels")):
        with refused(code):
            plot.embedding(selection, range(size), colors=wrong, ax=mine)


def test_all_pictures_can_be_drawn_into_own_axes(selection, data):
    pictures = ("embedding", selection), ("points", data.X), ("volumes", selection), ("diagnosis", diagnose(selection))
    for name, what in (*pictures, ("path", selection)):
        figure, two = Figure(), name == "path"
        mine = figure.subplots(1, 1 + two)
        assert getattr(plot, name)(what, ax=mine) is figure and len(figure.axes) == 1 + two
        assert all(axes.has_data() and axes.get_xlabel() + axes.get_title() for axes in figure.axes)
        for wrong in ("x", figure.add_subplot(projection="3d"), *([mine[:1], mine[0]] if two else [])):
            with refused("ax.*", (TypeError, ValueError)):
                getattr(plot, name)(what, ax=wrong)


def test_path_draws_envelope_breakpoints_interval_and_regrets(selection):
    figure = drawn(plot.path(selection))
    left, right = figure.axes
    thick = [line for line in left.lines if line.get_linewidth() == 3]
    for line, segment in zip(thick, selection.path, strict=True):
        zeta, loss = line.get_data()
        np.testing.assert_allclose(loss, segment.score - zeta * segment.penalty)
        assert zeta[0] == segment.low and (zeta[1] == segment.high or np.isinf(segment.high))
    breaks = [line.get_xdata()[0] for line in left.lines if line.get_linestyle() == ":"]
    np.testing.assert_array_equal(breaks, [segment.low for segment in selection.path if segment.low > 0])
    low, high = selection.zeta_interval
    assert left.patches[0].get_extents().transformed(left.transData.inverted()).intervalx == pytest.approx([low, high])
    labels = [text.get_text() for text in right.get_xticklabels()]
    assert labels == [set_label(segment.subset) for segment in selection.path]
    medians = [line.get_ydata()[0] for line in right.lines if line.get_linewidth() == 1.5]
    np.testing.assert_allclose(medians, np.median(selection.regrets, axis=0))
    marked = np.sort(np.concatenate([marks.get_offsets()[:, 1] for marks in right.collections]))
    np.testing.assert_allclose(marked, np.sort(selection.regret_percentiles))


@pytest.mark.parametrize("count", [1, 30])
def test_paths_of_any_length_keep_the_chosen_set_in_sight(selection, count):
    """A single set for all zeta, and more sets than can be shown."""
    edges = [np.inf, *np.geomspace(100, 0.1, count - 1), 0.0]
    values = [(edges[k + 1], edges[k], 0.02 * k, 0.01 * (count - k) ** -2) for k in range(count)]
    path = tuple(Segment((0, 1, k + 2), *values[k]) for k in range(count))
    chosen, regrets = path[-3:][0], np.random.default_rng(0).normal(size=(N, count))
    changed = replace(
        selection, subset=chosen.subset, zeta=chosen.middle, zeta_interval=(chosen.low, None), path=path,
        regrets=regrets, regret_percentiles=np.percentile(regrets, 75, axis=0),
    )  # fmt: skip
    figure = drawn(plot.path(changed))
    labels = [text.get_text() for text in figure.axes[1].get_xticklabels()]
    assert set_label(chosen.subset) in labels and len(labels) == min(count, 12)
    assert ("12 of 30 sets" in figure.get_suptitle()) == (count == 30)


def test_volumes_are_shares_of_all_points(selection):
    axes = drawn(plot.volumes(selection, [(0, 1), selection.subset])).axes[0]
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    means = [np.exp(selection.score((0, 1))).mean(), np.exp(selection.log_volumes).mean()]
    assert [text.rpartition(" ")[2] for text in legend] == [f"{mean:.2f}" for mean in means]
    heights = [patch.get_height() for patch in axes.patches if hasattr(patch, "get_height")]
    assert sum(heights) == pytest.approx(200)  # two sets, 100 % each
    one = drawn(plot.volumes(replace(selection, bases=None), np.array(selection.subset)))  # needs no bases
    assert len(one.axes[0].get_legend().get_texts()) == 1


def test_settings_of_the_user_are_left_alone_and_a_notebook_shows_the_figure(selection, monkeypatch):
    before = dict(matplotlib.rcParams)
    assert plot.path(selection)._repr_png_().startswith(b"\x89PNG")
    assert dict(matplotlib.rcParams) == before
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install 'ies-gpu"):
        plot.path(selection)
