"""One map per part of a disconnected graph."""

import numpy as np
import pandas
import pytest
from sklearn import datasets as theirs

from ies_gpu import IESWarning, radius_graph, select_coordinates, select_each_part
from tests.manifolds import rectangle
from tests.said import refused, warned

STRIP, _, EPS = rectangle(900, 3.1, degree=60)
GIVEN = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": EPS, "n_components": 8}
TWO = np.vstack([STRIP[600:], STRIP[:600] + [0, 50, 0], [[30.0, 30.0, 30.0]]])  # 300 points, 600 points and one
ALONE = np.arange(100.0)[:, None] * [50, 0, 0] + [0, 200, 0]  # a tenth, more than a sample may show before a refusal
BALL = np.random.default_rng(0).normal(size=(60, 3)) * 0.1 * EPS + [0, 200, 0]  # without a shape


@pytest.mark.parametrize("entry", ["X", "graph"])
def test_each_part_has_the_map_of_its_points_alone(entry):
    given = {"X": TWO} if entry == "X" else {"graph": radius_graph(TWO, radius=3 * EPS)}
    with warned("graph.in_no_map"):
        large, small = select_each_part(**given, **GIVEN)
    np.testing.assert_array_equal(large.points, np.arange(300, 900))
    np.testing.assert_array_equal(small.points, np.arange(300))
    assert large.diagnostics["part"] == {"number": 1, "of": 2}
    for part in (large, small):
        alone = select_coordinates(TWO[part.points], **GIVEN)
        assert part.subset == alone.subset
        np.testing.assert_allclose(part.eigenvalues, alone.eigenvalues, atol=1e-8)


def test_points_that_make_no_map_do_not_hide_the_parts():
    for more in (ALONE, BALL):
        with warned("graph.in_no_map"):
            parts = select_each_part(np.vstack([TWO, more]), **GIVEN)
        assert [len(part.points) for part in parts] == [600, 300]


@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
def test_clusters_have_a_map_each_with_nothing_given():
    X, label = theirs.make_blobs(600, centers=3, cluster_std=0.4, random_state=1)
    parts = select_each_part(X)
    assert len(parts) == 3
    assert all(len(part.points) >= 150 and len(set(label[part.points])) == 1 for part in parts)


def test_what_cannot_be_split_is_refused():
    for code, given in (
        ("checkpoint.each", {"checkpoint": "folder"}),
        ("disconnected.each", {"disconnected": "largest"}),
        ("client.each", {"client": object()}),
        ("resume.each", {"resume": True}),
        ("n_components.type", {"n_components": "5"}),
        ("entry.number", {"X": None}),
        ("graph.small_part", {"X": np.arange(30)[:, None] // 10 * 100 + np.eye(30, 2), "n_components": 20}),
    ):
        with refused(code, (TypeError, ValueError)):
            select_each_part(**{"X": TWO} | GIVEN | given)


def test_rows_are_counted_in_the_whole_input_and_told_once():
    """A part that leaves an outlier of its own out says nothing of it; the whole does."""
    two = np.vstack([STRIP, STRIP + [0, 50, 0], STRIP[:1] + [0, 53, 0]])
    with pytest.warns(IESWarning) as told:
        parts = select_each_part(two, intrinsic_dim=2, subset_size=2, n_components=8)
    assert len(parts) == 2
    about_rows = [str(warning.message) for warning in told if "1800" in str(warning.message)]
    assert len(about_rows) == 1 and "1 row is in none of the 2 maps (1800)" in about_rows[0]


@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
@pytest.mark.parametrize("kind", [np.ndarray.tolist, pandas.DataFrame])
def test_a_graph_may_be_a_list_or_a_frame(kind):
    rows = np.r_[0:120, 300:480]
    dense = radius_graph(TWO[rows], radius=9 * EPS).toarray()
    dense[dense == 0] = np.inf
    first, second = select_each_part(graph=kind(dense), **GIVEN)
    assert min(len(first.points), len(second.points)) > 100 and len(np.union1d(first.points, second.points)) >= 299
