"""What colours points: classes get a legend, numbers a colour bar, and what is missing is grey."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure

from ies_gpu import datasets, plot, select_coordinates
from ies_gpu.plot.clouds import near
from ies_gpu.plot.colours import GREY, colourings, colourings_of
from ies_gpu.plot.style import COLORS, ON_DARK
from tests.thorough import first_of

from .pictures import drawn

N = 600
WORDS = np.array(["b", "a", "c"])[np.arange(N) % 3]


@pytest.fixture(scope="module")
def selection():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_KERNELS", "plain")
        X = datasets.load("D1", n_samples=N).X
        return select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.1)


def legend(axes):
    found = axes.get_legend()
    return None if found is None else [text.get_text() for text in found.get_texts()]


KINDS = [
    (WORDS, ["a", "b", "c"]),
    (WORDS.astype(object), ["a", "b", "c"]),
    (pandas.Series(WORDS), ["a", "b", "c"]),
    (pandas.Categorical(WORDS, categories=["c", "b", "a", "unused"]), ["c", "b", "a"]),
    (pandas.Series(WORDS, dtype="category"), ["a", "b", "c"]),
    (np.arange(N) % 4, ["0", "1", "2", "3"]),
    (pandas.Series(np.arange(N) % 2, dtype="Int64"), ["0", "1"]),
    (np.arange(N) < 9, ["False", "True"]),
    (np.array(["10", "9"])[np.arange(N) % 2], ["9", "10"]),
    (np.array(["c10", "c9", "b"])[np.arange(N) % 3], ["b", "c9", "c10"]),
]


def test_classes_get_a_legend(selection):
    for colors, names in KINDS:
        found = colourings(colors, N)[0]
        assert found.classes == tuple(names)
        np.testing.assert_array_equal(found.values, [names.index(str(value)) for value in np.asarray(colors)])
    axes = drawn(plot.embedding(selection, colors=WORDS)).axes[0]
    assert legend(axes) == ["a", "b", "c"]
    np.testing.assert_allclose(
        axes.collections[0].get_facecolors(), [to_rgba(COLORS["abc".index(word)]) for word in WORDS]
    )


def test_numbers_get_a_colour_bar(selection):
    columns = (np.arange(N), np.linspace(0, 1, N), pandas.Series(range(N)), (np.arange(N) % 3) / 2)
    figure = drawn(plot.embedding(selection, colors=dict(enumerate(columns))))
    for axes, colors in zip(figure.axes, columns, strict=True):
        assert legend(axes) is None
        np.testing.assert_array_equal(axes.collections[0].get_array(), colors)


def test_names_of_a_series_and_of_columns_are_labels(selection):
    numbers = np.linspace(0, 1, N)
    figure = drawn(plot.embedding(selection, colors=pandas.Series(numbers, name="age")))
    assert figure.axes[0].child_axes[0].get_ylabel() == "age"
    frame = pandas.DataFrame({"age": numbers, "kind": WORDS})
    first, second = drawn(plot.embedding(selection, colors=frame)).axes[:2]
    assert first.child_axes[0].get_ylabel() == "age" and second.get_legend().get_title().get_text() == "kind"
    assert len(drawn(plot.embedding(selection, colors={str(k): numbers for k in range(5)})).axes) == 5


@pytest.mark.parametrize("nothing", [None, np.nan, pandas.NA])
def test_missing_values_are_grey_and_counted(selection, nothing):
    words, numbers = WORDS.astype(object), np.linspace(0, 1, N).astype(object)
    words[:7], numbers[:7] = nothing, nothing
    axes = drawn(plot.embedding(selection, colors=words)).axes[0]
    assert legend(axes) == ["a", "b", "c", "missing (7)"]
    assert [len(marks.get_offsets()) for marks in axes.collections] == [7, N - 7]
    axes = drawn(plot.embedding(selection, colors=pandas.Series(numbers, name="age"))).axes[0]
    assert axes.child_axes[0].get_ylabel() == "age (grey: 7 without a value)"
    np.testing.assert_allclose(axes.collections[0].get_facecolors(), [to_rgba(GREY)])
    np.testing.assert_allclose(axes.collections[0].get_offsets(), selection.embedding[:7])


def test_what_is_behind_a_mask_is_missing():
    hidden = np.arange(N) % 5 == 0
    for values in (np.where(hidden, -999.0, 1.5 * np.arange(N)), np.where(hidden, "bad", WORDS), np.arange(N) % 3):
        found = colourings(np.ma.masked_array(values, hidden), N)[0]
        np.testing.assert_array_equal(np.isnan(found.values), hidden)
        assert found.classes is None or "bad" not in found.classes
    assert colourings(np.ma.masked_array(np.arange(N) + 0.5), N)[0].missing == 0


def test_more_classes_than_colours_are_joined():
    hundred = [str(k % 100) for k in range(N)]
    for most, found in ((12, colourings(hundred, N)[0]), (36, colourings(hundred, N, most=36)[0])):
        assert len(found.classes) == most and found.classes[-1] == f"{101 - most} others"
        assert (found.values == most - 1).sum() == (101 - most) * N // 100


# full loss of one kind of cone, on linear RGB (Machado, Oliveira and Fernandes 2009)
VISION = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]


def lab_of(tints, vision):
    """Colours in CIELAB, as eyes of one kind see them; a difference of 2 is just visible side by side."""
    shown = np.array([to_rgb(tint) for tint in tints])
    linear = np.where(shown <= 0.04045, shown / 12.92, ((shown + 0.055) / 1.055) ** 2.4)
    xyz = np.clip(linear @ np.transpose(vision), 0, 1) @ np.transpose(TO_XYZ) / (0.95047, 1, 1.08883)
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.column_stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])])


@pytest.mark.parametrize("back", ["white", "#1c2024"])
@pytest.mark.parametrize("vision", VISION)
def test_no_two_colours_of_classes_look_alike(vision, back):
    """Nor does one look like the grey of missing values, or like paper. Two greens were once 6 apart for tritans."""
    tints = COLORS if back == "white" else [ON_DARK.get(colour, colour) for colour in COLORS]
    seen = lab_of([*tints, GREY, back], VISION[vision])
    apart = np.linalg.norm(seen[: len(COLORS), None] - seen, axis=2)[np.triu_indices(len(COLORS), 1, len(seen))]
    assert apart.min() > (25 if vision == "normal" else 14)


def test_the_report_has_the_same_colours():
    text = (Path(plot.__file__).parents[1] / "report" / "charts.js").read_text()
    assert f"const CLASSES = {json.dumps(COLORS)};" in text and f"const ON_DARK = {json.dumps(ON_DARK)};" in text


def test_angles_get_a_colour_map_that_closes(selection):
    turn = np.linspace(0, 1, N)
    for values in (2 * np.pi * turn, 2 * np.pi * turn - np.pi, 360 * turn, 360 * turn - 180):
        cyclic = drawn(plot.embedding(selection, colors=values)).axes[0].collections[0].get_cmap()
        np.testing.assert_allclose(cyclic(0.0), cyclic(1.0))
    for values in (turn, 6 * turn, 350 * turn):
        assert not colourings(values, N)[0].is_angle
    assert (
        drawn(plot.embedding(selection, colors=360 * turn, cmap="magma")).axes[0].collections[0].get_cmap().name
        == "magma"
    )


def test_a_set_of_one_is_drawn_as_a_curve(selection):
    axes = drawn(plot.embedding(replace(selection, subset=(0,)))).axes[0]
    np.testing.assert_allclose(axes.collections[0].get_offsets(), selection.coordinates[:, :2])
    assert "not in the set" in axes.get_ylabel()
    only = replace(selection, subset=(0,), coordinates=selection.coordinates[:, :1])
    assert np.ptp(drawn(plot.embedding(only)).axes[0].collections[0].get_offsets()[:, 1]) == 0


def test_one_stray_point_does_not_set_the_axes(selection):
    Y = selection.coordinates.copy()
    Y[5, selection.subset[0]] = 9.0 * np.sqrt(N)
    axes = drawn(plot.embedding(replace(selection, coordinates=Y))).axes[0]
    assert axes.get_title(loc="right") == f"1 of {N} points lies outside"
    assert axes.get_xlim()[1] < 3 and len(axes.collections[0].get_offsets()) == N - 1
    for subset in ((0, 1, 6), (0, 1, 2, 6)):
        drawn(plot.embedding(replace(selection, coordinates=Y), subset))


def test_heavy_tails_and_small_clusters_are_no_strays():
    rng = np.random.default_rng(0)
    assert near(rng.exponential(size=(5000, 2))).all()
    assert near(np.r_[rng.normal(size=(980, 2)), rng.normal(size=(20, 2)) + 100]).all()  # 2 %
    assert near(np.r_[rng.normal(size=(998, 2)), rng.normal(size=(2, 2)) + 100]).sum() == 998
    assert near(np.zeros((9, 2))).all()


def test_own_axes(selection):
    flat = Figure().subplots()
    assert plot.embedding(selection, colors=WORDS, ax=flat, title="mine") is flat.figure
    assert flat.get_title(loc="left") == "mine"
    space = Figure().add_subplot(projection="3d")
    plot.embedding(selection, (0, 1, 2), ax=space)
    drawn(space.figure)
    plot.volumes(selection, ax=flat)
    for subset, colors, words in (
        ((0, 1, 2), None, 'with projection="3d"'),
        ((0, 1, 2, 3), None, "grid of pairs"),
        ((0, 1), {"a": WORDS, "b": WORDS}, "one way to colour"),
    ):
        with pytest.raises(ValueError, match=words):
            plot.embedding(selection, subset, colors=colors, ax=flat)


LONG = np.array(["CD8+/CD45RA+ Naive Cytotoxic", "T", "B"])[np.arange(N) % 3]


@pytest.mark.parametrize("subset", [(0, 1), (0, 1, 2), (0, 1, 2, 3)], ids=["flat", "in space", "grid"])
@pytest.mark.parametrize("colors", [WORDS, LONG], ids=["short", "long"])
def test_the_legend_is_inside_the_picture_at_the_first_drawing(selection, subset, colors):
    figure = plot.embedding(selection, subset, colors=colors)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    (key,) = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    box, page = key.get_window_extent(canvas.get_renderer()), figure.bbox
    assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= page.x1 and box.y1 <= page.y1
    if len(subset) == 4:  # a long legend leaves the panels their width
        widths = {round(axes.get_position().width, 3) for axes in figure.axes if axes.axison}
        assert max(widths) < 1.02 * min(widths)


@pytest.mark.parametrize("colors", [LONG, np.linspace(0, 1, N)], ids=["classes", "numbers"])
def test_a_key_in_the_user_s_figure_does_not_cover_the_next_axes(selection, colors):
    figure = Figure(figsize=(9, 4))
    mine, other = figure.subplots(1, 2)
    before = other.get_position().bounds
    plot.embedding(selection, colors=colors, ax=mine)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    key = mine.get_legend() or figure.axes[-1]
    assert key.get_tightbbox(canvas.get_renderer()).x1 < other.get_tightbbox(canvas.get_renderer()).x0
    assert other.get_position().bounds == before


def test_a_frame_of_points_names_axes_and_colours():
    X = pandas.DataFrame(datasets.load("D1", n_samples=N).X[:, :3], columns=["length", "width", "height"])
    axes = drawn(plot.points(X, colors="height")).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("length", "width")
    assert axes.child_axes[0].get_ylabel() == "height"
    with pytest.raises(ValueError, match=r"colors='age' must name a column of X, which has length, width, height"):
        plot.points(X, colors="age")


def test_the_title_says_which_columns_are_drawn():
    X = np.random.default_rng(0).normal(size=(100, 5))
    assert drawn(plot.points(X)).get_suptitle() == "The first 3 of 5 columns"
    assert drawn(plot.points(X * [1, 1, 0.01, 1, 1])).get_suptitle() == "The first 2 of 5 columns"
    assert plot.points(X, title="mine").get_suptitle() == "mine" and plot.points(X[:, :3]).get_suptitle() == ""


@pytest.mark.usefixtures("plain_kernels")
def test_a_spiral_is_drawn_as_a_curve():
    t = np.sqrt(np.linspace(1, 40, 400))
    spiral = select_coordinates(
        np.c_[t * np.cos(2 * t), t * np.sin(2 * t)], intrinsic_dim=1, subset_size=1, bandwidth=0.3, n_components=6
    )
    rounded = replace(spiral, regrets=spiral.regrets + 1e-17 * np.arange(400)[:, None])
    regrets = drawn(plot.path(rounded)).axes[1]
    labels = [*regrets.get_yticklabels(), regrets.yaxis.get_offset_text()]
    assert "1e" not in "".join(label.get_text() for label in labels)
    figure = drawn(plot.embedding(spiral, colors=pandas.Series(t, name="along")))
    assert figure.axes[0].child_axes[0].get_ylabel() == "along"


def test_colours_of_other_points_are_refused(selection):
    with pytest.raises(ValueError, match=rf"one value for each of {N} points, got shape \({N + 1},\)"):
        plot.embedding(selection, colors=np.arange(N + 1.0))
    # where points were left out, how many the input had is not known for sure
    part = replace(selection, diagnostics=selection.diagnostics | {"graph_components": 2})
    for count in (N, N + 1):
        assert len(colourings_of(np.arange(float(count)), part)[0].values) == N
    with pytest.raises(ValueError, match=rf"{N} points in the map, or for each of the input \({N} or more\)"):
        colourings_of(np.arange(N - 1.0), part)


@pytest.mark.parametrize(
    "nothing", first_of(np.full(N, np.nan), [None] * N, pandas.Series([pandas.NA] * N, dtype="Int64"))
)
def test_a_column_without_any_value_is_drawn_in_grey(selection, nothing):
    for subset in ((0, 1), (0, 1, 2), (0, 1, 2, 3)):
        figure = drawn(plot.embedding(selection, subset, colors={"empty": nothing, "kind": WORDS}))
        clouds = [axes for axes in figure.findobj(type(figure.axes[0])) if axes.collections]
        tints = clouds[0].collections[0].get_facecolors()[:, :3]
        np.testing.assert_allclose(tints, np.broadcast_to(to_rgb(GREY), tints.shape))
    axes = drawn(plot.embedding(selection, colors=pandas.DataFrame({"empty": nothing}))).axes[0]
    assert legend(axes) == [f"missing ({N})"] and axes.get_legend().get_title().get_text() == "empty"


def test_no_columns_are_no_colours():
    for nothing in (None, {}, pandas.DataFrame(), pandas.DataFrame(index=range(N))):
        assert [each.values for each in colourings(nothing, N)] == [None]


def test_points_whose_values_are_all_missing_within_the_picture_are_grey(selection):
    Y, ages = selection.coordinates.copy(), np.full(N, np.nan)
    Y[5, selection.subset[0]], ages[5] = 9.0, 30.0
    axes = drawn(plot.embedding(replace(selection, coordinates=Y), colors=ages)).axes[0]
    assert len(axes.collections[0].get_offsets()) == N - 1


def test_dollars_in_names_are_no_formulas(selection):
    prices = np.array(["$5_$", "$10-$20", "$$"])[np.arange(N) % 3]
    axes = drawn(plot.embedding(selection, colors=pandas.Series(prices, name="$a_$"))).axes[0]
    assert legend(axes) == [r"\$5_\$", r"\$10-\$20", r"\$\$"]
    assert axes.get_legend().get_title().get_text() == r"\$a_\$"
    found = drawn(plot.embedding(selection, colors=pandas.Series(np.linspace(0, 1, N), name="$a_$ to $b_$")))
    assert found.axes[0].child_axes[0].get_ylabel() == r"\$a_\$ to \$b_\$"
    X = pandas.DataFrame(datasets.load("D1", n_samples=N).X[:, :2], columns=["$x_$", "y"])
    assert drawn(plot.points(X, title="$x^2$")).axes[0].get_xlabel() == r"\$x_\$"


def test_names_with_thousands_of_digits_are_sorted_by_size():
    long = "c1" + 5000 * "0"
    found = colourings(np.array(["c10", long, "c9", "c", "c0"])[np.arange(N) % 5], N)[0]
    assert found.classes == ("c", "c0", "c9", "c10", long)


def test_colours_are_matched_by_the_names_of_the_points(selection):
    names, ages = np.array([f"cell{k}" for k in range(N)]), np.linspace(0, 1, N)
    named = replace(selection, index=names)
    mixed = pandas.DataFrame({"age": ages, "kind": WORDS}, index=names).sample(frac=1, random_state=0)
    for colors in (mixed["age"], mixed, {"mine": mixed["age"]}):
        np.testing.assert_array_equal(colourings_of(colors, named)[0].values, ages)
    assert colourings_of(mixed, named)[1].classes == ("a", "b", "c")
    # without names, with others, and for the points themselves positions count
    np.testing.assert_array_equal(colourings_of(mixed["age"], selection)[0].values, mixed["age"])
    renamed = mixed["age"].rename(lambda name: f"{name}!")
    np.testing.assert_array_equal(colourings_of(renamed, named)[0].values, mixed["age"])
    # of a part, values for all of the input
    part = replace(named, coordinates=named.coordinates[::2], points=np.arange(0, N, 2), index=names[::2])
    np.testing.assert_array_equal(colourings_of(mixed["age"], part)[0].values, ages[::2])


def test_classes_that_are_joined_are_grey(selection):
    axes = drawn(plot.embedding(selection, colors=[f"cell{k}" for k in range(N)])).axes[0]
    assert legend(axes)[-1] == f"{N - 11} others"
    assert axes.get_legend().legend_handles[-1].get_color() == GREY
    assert (axes.collections[0].get_facecolors() == to_rgba(GREY)).all(axis=1).sum() == N - 11


def test_names_of_points_are_told_from_classes():
    names = [f"cell{k}" for k in range(N)]
    assert colourings(names, N)[0].all_differ and colourings([None, *names[1:]], N)[0].all_differ
    assert colourings(["a", "b", "c"], 3)[0].all_differ
    for colors in (WORDS, [names[0], *names[:-1]], np.arange(N), ["a"] * N, [None] * N):
        assert not colourings(colors, N)[0].all_differ
