"""What colours points: classes get a legend, numbers a colour bar, and what is missing is grey."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
from matplotlib.colors import to_rgb, to_rgba

from ies_gpu import plot
from ies_gpu.plot.style import COLORS, GREY, ON_DARK, colourings, colourings_of
from tests.said import refused

from .conftest import N, drawn

WORDS = np.array(["b", "a", "c"])[np.arange(N) % 3]


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


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


def test_names_are_labels_and_no_formulas(selection):
    numbers = np.linspace(0, 1, N)
    frame = pandas.DataFrame({"$a_$ to $b_$": numbers, "kind": np.array(["$5_$", "$$"])[np.arange(N) % 2]})
    first, second = drawn(plot.embedding(selection, colors=frame)).axes[:2]
    assert first.child_axes[0].get_ylabel() == r"\$a_\$ to \$b_\$"
    assert second.get_legend().get_title().get_text() == "kind" and legend(second) == [r"\$5_\$", r"\$\$"]
    axes = drawn(plot.embedding(selection, colors=pandas.Series(numbers, name="age"))).axes[0]
    assert axes.child_axes[0].get_ylabel() == "age"


@pytest.mark.parametrize("nothing", [None, np.nan, pandas.NA, np.ma.masked])
def test_missing_values_are_grey_and_counted(selection, nothing):
    words, numbers = WORDS.astype(object), np.linspace(0, 1, N).astype(object)
    if nothing is np.ma.masked:  # what is behind a mask
        words, numbers = (np.ma.masked_array(values, np.arange(N) < 7) for values in (words, numbers))
    else:
        words[:7], numbers[:7] = nothing, nothing
    axes = drawn(plot.embedding(selection, colors=words)).axes[0]
    assert legend(axes) == ["a", "b", "c", "missing (7)"]
    assert [len(marks.get_offsets()) for marks in axes.collections] == [7, N - 7]
    axes = drawn(plot.embedding(selection, colors={"age": numbers})).axes[0]
    assert axes.child_axes[0].get_ylabel() == "age (grey: 7 without a value)"
    np.testing.assert_allclose(axes.collections[0].get_facecolors(), [to_rgba(GREY)])
    np.testing.assert_allclose(axes.collections[0].get_offsets(), selection.embedding[:7])


def test_of_too_many_classes_the_smallest_are_joined_in_grey(selection):
    hundred = [str(k % 100) for k in range(N)]
    for most in (12, 36):
        (found,) = colourings(hundred, N, most=most)
        assert len(found.classes) == most and found.classes[-1] == f"{101 - most} others"
        assert (found.values == most - 1).sum() == (101 - most) * N // 100
    axes = drawn(plot.embedding(selection, colors=[f"cell{k}" for k in range(N)])).axes[0]
    assert legend(axes)[-1] == f"{N - 11} others"
    assert (axes.collections[0].get_facecolors() == to_rgba(GREY)).all(axis=1).sum() == N - 11
    text = (Path(plot.__file__).parents[1] / "report" / "charts.js").read_text()  # the report has the same colours
    assert f"const CLASSES = {json.dumps(COLORS)};" in text and f"const ON_DARK = {json.dumps(ON_DARK)};" in text


def test_colours_of_other_points_are_refused(selection):
    # where points were left out, how many the input had is not known for sure
    part = replace(selection, diagnostics=selection.diagnostics | {"graph_components": 2})
    for count in (N, N + 1):
        assert len(colourings_of(np.arange(float(count)), part)[0].values) == N
    for result, count in ((selection, N + 1), (part, N - 1)):
        with refused("colors.shape"):
            plot.embedding(result, colors=np.arange(float(count)))


def test_a_column_without_any_value_is_drawn_in_grey(selection):
    for subset in ((0, 1), (0, 1, 2)):
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
