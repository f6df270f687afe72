"""Pictures show the numbers of the result, with labels, and need no display."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from ies_gpu import datasets, diagnose, plot, select_coordinates
from ies_gpu.analysis.stability.result import Stability
from ies_gpu.choice.regularization import Segment

from .pictures import drawn


@pytest.fixture(scope="module")
def data():
    return datasets.load("D1", n_samples=1500)


@pytest.fixture(scope="module")
def selection(data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_KERNELS", "plain")
        return select_coordinates(data.X, intrinsic_dim=2, subset_size=2, bandwidth=0.6)


def panels(figure):
    """The axes that are no colour bars."""
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>" and axes.get_xlabel()]


def test_embedding_shows_the_chosen_coordinates(selection, data):
    figure = drawn(plot.embedding(selection, colors=data.colors))
    shown = panels(figure)
    assert len(shown) == 2
    a, b = selection.subset
    for axes, values in zip(shown, data.colors.values(), strict=True):
        marks = axes.collections[0]
        np.testing.assert_allclose(marks.get_offsets(), selection.embedding)
        np.testing.assert_array_equal(marks.get_array(), values)
        assert marks.get_rasterized() and marks.get_cmap().name == "viridis"
        assert f"phi_{{{a + 1}}}" in axes.get_xlabel() and f"phi_{{{b + 1}}}" in axes.get_ylabel()
    assert [axes.child_axes[0].get_ylabel() for axes in shown] == list(data.colors)  # the colour bars


@pytest.mark.parametrize(("subset", "count"), [((0, 1), 1), ((0, 3, 5), 1), ((0, 1, 2, 3), 6), ((0, 1, 2, 3, 4), 10)])
def test_any_set_can_be_drawn(selection, subset, count):
    figure = drawn(plot.embedding(selection, subset, colors=selection.log_volumes))
    clouds = [axes for axes in figure.axes if axes.collections and axes.get_label() != "<colorbar>"]
    assert len(clouds) == count
    assert clouds[0].name == ("3d" if len(subset) == 3 else "rectilinear")
    assert all(f"phi_{{{k + 1}}}" in figure.get_suptitle() for k in subset)


def test_colours_of_the_input_follow_the_points_that_were_kept(selection, data):
    kept = np.arange(0, 1500, 2)
    part = dataclasses.replace(selection, coordinates=selection.coordinates[kept], points=kept)
    for colors in (data.colors["x"], data.colors["x"][kept]):
        marks = panels(plot.embedding(part, colors=colors))[0].collections[0]
        np.testing.assert_array_equal(marks.get_array(), data.colors["x"][kept])


def test_wrong_arguments(selection, data):
    with pytest.raises(ValueError, match="one value for each of 1500 points"):
        plot.embedding(selection, colors=np.arange(7.0))
    with pytest.raises(ValueError, match=r"colors\['x'\] must have one value"):
        plot.points(data.X, colors={"x": np.arange(7.0)})
    for subset in ((0, 20), (-1, 2)):
        with pytest.raises(ValueError, match="between 0 and 19"):
            plot.embedding(selection, subset)
    with pytest.raises(ValueError, match="2 columns or more"):
        plot.points(data.X[:, :1])
    with pytest.raises(ValueError, match="divide by a constant"):
        plot.embedding(selection, colors=np.where(np.arange(1500) < 2, 1e308, -1e308))
    with pytest.raises(TypeError, match="numbers or classes, got dtype datetime64"):
        plot.embedding(selection, colors=np.zeros(1500, dtype="datetime64[s]"))


def test_points_are_flat_to_scale_or_in_space(data):
    flat = drawn(plot.points(data.X, colors=data.colors))
    assert all(axes.get_aspect() == 1.0 for axes in panels(flat))
    torus = datasets.load("D7", n_samples=300)
    assert panels(drawn(plot.points(torus.X)))[0].name == "3d"


def test_path_draws_envelope_breakpoints_interval_and_regrets(selection):
    figure = drawn(plot.path(selection))
    left, right = figure.axes
    thick = [line for line in left.lines if line.get_linewidth() == 3]
    assert len(thick) == len(selection.path)
    for line, segment in zip(thick, selection.path, strict=True):
        zeta, loss = line.get_data()
        np.testing.assert_allclose(loss, segment.score - zeta * segment.penalty)
        assert zeta[0] == segment.low and (zeta[1] == segment.high or np.isinf(segment.high))
    breaks = [line.get_xdata()[0] for line in left.lines if line.get_linestyle() == ":"]
    np.testing.assert_array_equal(breaks, [segment.low for segment in selection.path if segment.low > 0])
    low, high = selection.zeta_interval
    assert left.patches[0].get_extents().transformed(left.transData.inverted()).intervalx == pytest.approx([low, high])
    labels = [text.get_text() for text in right.get_xticklabels()]
    assert labels == [plot.set_label(segment.subset) for segment in selection.path]
    medians = [line.get_ydata()[0] for line in right.lines if line.get_linewidth() == 1.5]
    np.testing.assert_allclose(medians, np.median(selection.regrets, axis=0))
    marked = np.sort(np.concatenate([marks.get_offsets()[:, 1] for marks in right.collections]))
    np.testing.assert_allclose(marked, np.sort(selection.regret_percentiles))


@pytest.mark.parametrize("count", [1, 30])
def test_paths_of_any_length_keep_the_chosen_set_in_sight(selection, count):
    """A single set for all zeta, and more sets than can be shown."""
    edges = [*np.geomspace(100, 0.1, count - 1), 0.0]
    sets = [(0, 1, k + 2) for k in range(count)]
    path = tuple(
        Segment(subset, low, high, 0.02 * k, 0.01 * (count - k) ** -2)
        for k, (subset, low, high) in enumerate(zip(sets, edges, [np.inf, *edges], strict=False))
    )
    chosen = path[-3] if count > 3 else path[0]
    high = None if np.isinf(chosen.high) else chosen.high
    regrets = np.random.default_rng(0).normal(size=(1500, count))
    changed = dataclasses.replace(
        selection, subset=chosen.subset, zeta=chosen.middle, zeta_interval=(chosen.low, high), path=path,
        regrets=regrets, regret_percentiles=np.percentile(regrets, 75, axis=0),
    )  # fmt: skip
    figure = drawn(plot.path(changed))
    labels = [text.get_text() for text in figure.axes[1].get_xticklabels()]
    assert plot.set_label(chosen.subset) in labels and len(labels) == min(count, 12)
    assert ("12 of 30 sets" in figure.get_suptitle()) == (count == 30)


def test_volumes_are_shares_of_all_points(selection):
    figure = drawn(plot.volumes(selection, [(0, 1), selection.subset]))
    axes = figure.axes[0]
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    means = [np.exp(selection.score((0, 1))).mean(), np.exp(selection.log_volumes).mean()]
    assert [text.rpartition(" ")[2] for text in legend] == [f"{mean:.2f}" for mean in means]
    heights = [patch.get_height() for patch in axes.patches if hasattr(patch, "get_height")]
    assert sum(heights) == pytest.approx(200)  # two sets, 100 % each


def test_volumes_of_the_chosen_set_need_no_bases(selection):
    drawn(plot.volumes(dataclasses.replace(selection, bases=None)))
    with pytest.raises(ValueError, match="bases were not kept"):
        plot.volumes(dataclasses.replace(selection, bases=None), [(0, 2)])


def test_settings_of_the_user_are_left_alone_and_a_notebook_shows_the_figure(selection):
    import matplotlib

    before = dict(matplotlib.rcParams)
    assert plot.path(selection)._repr_png_().startswith(b"\x89PNG")
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_the_error_tells_what_to_install(selection, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'ies-gpu\[plot\]'"):
        plot.path(selection)


def test_sets_are_given_by_number_or_name(selection):
    by_name = plot.embedding(selection, ("phi1", "phi3"))
    assert by_name._suptitle.get_text() == plot.embedding(selection, (0, 2))._suptitle.get_text()
    for wrong in (["phi0"], ["psi1", "phi2"], "phi1", [0, 99], [0, 0], [[0, 1]]):
        with pytest.raises((ValueError, TypeError), match="subset"):
            plot.embedding(selection, wrong)

    for subset in (np.array(selection.subset), list(selection.subset)):
        assert len(drawn(plot.volumes(selection, subset)).axes[0].get_legend().get_texts()) == 1


def test_stability_shows_the_shares_of_each_set():
    near = ((0, 6), (0, 7))
    found = Stability(
        (0, 6), dict(zip(near, (0.7, 0.3), strict=True)), {(0, 7): 0.5, (0, -1): 0.5}, 100, 10, 0, np.ones(10), (), ()
    )
    axes = drawn(plot.stability(found)).axes[0]
    assert [tick.get_text().partition("$ ")[2] for tick in axes.get_yticklabels()] == ["(chosen)", "", ""]
    assert axes.get_yticklabels()[2].get_text() == "a set with no counterpart"
    assert [bar.get_width() for bars in axes.containers for bar in bars] == pytest.approx([70, 30, 0, 0, 50, 50])
    with pytest.raises(TypeError, match="found must be a Stability"):
        plot.stability(axes)


def test_pictures_can_be_drawn_into_own_axes(selection):
    figure = Figure()
    pair = figure.subplots(1, 2)
    assert plot.path(selection, ax=pair) is figure and pair[0].get_legend() and pair[1].get_legend()
    for wrong in (pair[0], pair[:1], "x"):
        with pytest.raises((TypeError, ValueError), match="ax"):
            plot.path(selection, ax=wrong)
    found = diagnose(selection)
    assert plot.diagnosis(found, ax=pair[0]) is figure
    with pytest.raises(ValueError, match='without projection="3d"'):
        plot.diagnosis(found, ax=Figure().add_subplot(projection="3d"))


@pytest.mark.parametrize("own", [False, True], ids=["style", "axes"])
def test_nothing_is_lost_on_a_dark_background(selection, own):
    """Lines, words and marks differ from the background, in a dark style and in dark axes of the user."""
    import matplotlib.style

    with matplotlib.style.context("dark_background"):
        figure = drawn(plot.path(selection, ax=Figure().subplots(1, 2) if own else None))
    for axes in figure.axes:
        assert axes.get_facecolor() == (0, 0, 0, 1)
        words = [*axes.get_xticklabels(), *axes.get_yticklabels(), *axes.get_legend().get_texts(), axes.title]
        inks = [part.get_color() for part in (*words, *axes.lines, axes.xaxis.label)]
        inks += [edge for marks in axes.collections for edge in marks.get_edgecolors()]
        assert min(max(to_rgb(colour)) for colour in inks) > 0.4
