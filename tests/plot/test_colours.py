"""What colours points: classes get a legend, numbers a colour bar, and what is missing is grey."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
from matplotlib.colors import to_rgb, to_rgba

from ies_gpu import datasets, plot, select_coordinates
from ies_gpu.plot.colours import GREY, colourings, colourings_of
from ies_gpu.plot.figure import COLORS, ON_DARK

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


LONG = "c1" + 5000 * "0"  # more digits than Python converts
KINDS = [
    (WORDS, ["a", "b", "c"]),
    (WORDS.astype(object), ["a", "b", "c"]),
    (pandas.Categorical(WORDS, categories=["c", "b", "a", "unused"]), ["c", "b", "a"]),
    (pandas.Series(WORDS, dtype="category"), ["a", "b", "c"]),
    (np.arange(N) % 4, ["0", "1", "2", "3"]),
    (pandas.Series(np.arange(N) % 2, dtype="Int64"), ["0", "1"]),
    (np.arange(N) < 9, ["False", "True"]),
    (np.array(["10", "9"])[np.arange(N) % 2], ["9", "10"]),
    (np.array(["c10", LONG, "c9", "c", "c0"])[np.arange(N) % 5], ["c", "c0", "c9", "c10", LONG]),
]


def test_classes_get_a_legend(selection):
    for colors, names in KINDS:
        found = colourings(colors, N)[0]
        assert found.classes == tuple(names)
        np.testing.assert_array_equal(found.values, [names.index(str(value)) for value in np.asarray(colors)])
    axes = drawn(plot.embedding(selection, colors=WORDS)).axes[0]
    assert legend(axes) == ["a", "b", "c"]
    expected = [to_rgba(COLORS["abc".index(word)]) for word in WORDS]
    np.testing.assert_allclose(axes.collections[0].get_facecolors(), expected)


def test_numbers_get_a_colour_bar(selection):
    columns = (np.arange(N), np.linspace(0, 1, N), pandas.Series(range(N)), (np.arange(N) % 3) / 2)
    figure = drawn(plot.embedding(selection, colors=dict(enumerate(columns)), cmap="magma"))
    for axes, colors in zip(figure.axes, columns, strict=True):
        assert legend(axes) is None and axes.collections[0].get_cmap().name == "magma"
        np.testing.assert_array_equal(axes.collections[0].get_array(), colors)


def test_names_are_labels_and_no_formulas(selection):
    numbers = np.linspace(0, 1, N)
    frame = pandas.DataFrame({"$a_$ to $b_$": numbers, "kind": np.array(["$5_$", "$$"])[np.arange(N) % 2]})
    first, second = drawn(plot.embedding(selection, colors=frame)).axes[:2]
    assert first.child_axes[0].get_ylabel() == r"\$a_\$ to \$b_\$"
    assert second.get_legend().get_title().get_text() == "kind" and legend(second) == [r"\$5_\$", r"\$\$"]
    axes = drawn(plot.embedding(selection, colors=pandas.Series(numbers, name="age"))).axes[0]
    assert axes.child_axes[0].get_ylabel() == "age"


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
    for values in (np.where(hidden, -999.0, 1.5 * np.arange(N)), np.where(hidden, "bad", WORDS)):
        found = colourings(np.ma.masked_array(values, hidden), N)[0]
        np.testing.assert_array_equal(np.isnan(found.values), hidden)
        assert found.classes is None or "bad" not in found.classes


def test_of_too_many_classes_the_smallest_are_joined_in_grey(selection):
    hundred = [str(k % 100) for k in range(N)]
    for most, found in ((12, colourings(hundred, N)[0]), (36, colourings(hundred, N, most=36)[0])):
        assert len(found.classes) == most and found.classes[-1] == f"{101 - most} others"
        assert (found.values == most - 1).sum() == (101 - most) * N // 100
    axes = drawn(plot.embedding(selection, colors=[f"cell{k}" for k in range(N)])).axes[0]
    assert legend(axes)[-1] == f"{N - 11} others"
    assert (axes.collections[0].get_facecolors() == to_rgba(GREY)).all(axis=1).sum() == N - 11


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


def test_colours_of_other_points_are_refused(selection):
    with pytest.raises(ValueError, match=rf"one value for each of {N} points, got shape \({N + 1},\)"):
        plot.embedding(selection, colors=np.arange(N + 1.0))
    # where points were left out, how many the input had is not known for sure
    part = replace(selection, diagnostics=selection.diagnostics | {"graph_components": 2})
    for count in (N, N + 1):
        assert len(colourings_of(np.arange(float(count)), part)[0].values) == N
    with pytest.raises(ValueError, match=rf"{N} points in the map, or for each of the input \({N} or more\)"):
        colourings_of(np.arange(N - 1.0), part)


def test_a_column_without_any_value_is_drawn_in_grey(selection):
    for subset in ((0, 1), (0, 1, 2), (0, 1, 2, 3)):
        figure = drawn(plot.embedding(selection, subset, colors={"empty": [None] * N, "kind": WORDS}))
        clouds = [axes for axes in figure.findobj(type(figure.axes[0])) if axes.collections]
        tints = clouds[0].collections[0].get_facecolors()[:, :3]
        np.testing.assert_allclose(tints, np.broadcast_to(to_rgb(GREY), tints.shape))
    Y, ages = selection.coordinates.copy(), np.full(N, np.nan)
    Y[5, selection.subset[0]], ages[5] = 9.0, 30.0  # the only value is outside the picture
    axes = drawn(plot.embedding(replace(selection, coordinates=Y), colors=ages)).axes[0]
    assert len(axes.collections[0].get_offsets()) == N - 1
    for nothing in (None, {}, pandas.DataFrame(), pandas.DataFrame(index=range(N))):
        assert [each.values for each in colourings(nothing, N)] == [None]


def test_colours_are_matched_by_the_names_of_the_points(selection):
    names, ages = np.array([f"cell{k}" for k in range(N)]), np.linspace(0, 1, N)
    named = replace(selection, index=names)
    mixed = pandas.DataFrame({"age": ages, "kind": WORDS}, index=names).sample(frac=1, random_state=0)
    for colors in (mixed["age"], mixed, {"mine": mixed["age"]}):
        np.testing.assert_array_equal(colourings_of(colors, named)[0].values, ages)
    # without names, and with others, positions count
    renamed = mixed["age"].rename(lambda name: f"{name}!")
    for colors, result in ((mixed["age"], selection), (renamed, named)):
        np.testing.assert_array_equal(colourings_of(colors, result)[0].values, mixed["age"])
    # of a part, values for all of the input
    part = replace(named, coordinates=named.coordinates[::2], points=np.arange(0, N, 2), index=names[::2])
    np.testing.assert_array_equal(colourings_of(mixed["age"], part)[0].values, ages[::2])


def test_angles_get_a_colour_map_that_closes(selection):
    turn = np.linspace(0, 1, N)
    for values in (2 * np.pi * turn, 2 * np.pi * turn - np.pi, 360 * turn, 360 * turn - 180):
        cyclic = plot.embedding(selection, colors=values).axes[0].collections[0].get_cmap()
        np.testing.assert_allclose(cyclic(0.0), cyclic(1.0))
    for values in (turn, 6 * turn, 350 * turn, np.full(N, np.nan)):
        assert not colourings(values, N)[0].is_angle
    asked = plot.embedding(selection, colors=360 * turn, cmap="magma").axes[0].collections[0].get_cmap()
    assert asked.name == "magma"
