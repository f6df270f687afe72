"""Models: what transform needs, kept, written, read again, also by a later version."""

import dataclasses
from pathlib import Path

import numpy as np
import pandas
import pytest

from ies_gpu import Model, Selection, datasets, load, radius_graph, select_coordinates
from ies_gpu.results import storage
from tests.said import refused, warned

OLD = Path(__file__).parents[1] / "data" / "model-1.npz"  # 40 points, written by version 0.1.0


@pytest.fixture(scope="module")
def strip():
    return datasets.load("D1", n_samples=700)


@pytest.fixture(scope="module")
def selection(strip):
    return select_coordinates(strip.X, intrinsic_dim=2, subset_size=2, bandwidth=0.9, n_components=10)


@pytest.fixture(scope="module")
def model(selection, strip):
    return selection.model(strip.X, feature_names=["x", "y", "z"])


def test_training_points_get_their_coordinates_and_points_left_out_are_none(model, selection, strip):
    assert model.names == selection.names
    np.testing.assert_allclose(model.transform(strip.X), selection.embedding, rtol=0, atol=1e-8)
    X = np.vstack([[[1e3, 0, 0]], strip.X, [[-1e3, 0, 0], [-1e3, 0.1, 0]]])
    with warned("graph.left_out"):
        selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=0.9, disconnected="largest")
    model = selection.model(X)
    np.testing.assert_array_equal(model.X, strip.X)
    with warned("new_points.isolated"):
        got = model.transform(X)
    np.testing.assert_allclose(got[1:701], selection.embedding, rtol=0, atol=1e-8)


@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
def test_points_of_another_run_are_refused(selection, strip):
    """Fewer or more rows, rows in another order, other columns, and one number in a row that is looked at."""
    changed = strip.X.copy()
    changed[-1, 0] *= 1 + 1e-4
    for X, kind in (
        (strip.X[:9], "rows"),
        (np.vstack([strip.X, strip.X[:5]]), "rows"),
        (strip.X[:, :2], "columns"),
        (strip.X[::-1], "other_points"),
        (changed, "other_points"),
    ):
        with refused(f"X.{kind}"):
            selection.model(X)
    np.testing.assert_array_equal(selection.model(strip.X.tolist()).X, strip.X)  # the same, however they come
    selection.model(np.nextafter(strip.X, np.inf))  # programs that read a table of text differ in the last digits
    older = dataclasses.replace(selection, diagnostics=selection.diagnostics | {"points_digest": None})
    assert len(older.model(strip.X[::-1]).X) == len(strip.X)  # nothing to compare with
    X = strip.X[:400] + [30.0, 5.0, 5.0]
    cosine = select_coordinates(X, metric="cosine", bandwidth=0.1, intrinsic_dim=1, subset_size=1, n_components=5)
    with refused("X.other_points"):  # of the same directions
        cosine.model(2 * X)
    np.testing.assert_array_equal(cosine.model(X).X, X)
    graph = select_coordinates(graph=radius_graph(X, radius=2.7), bandwidth=0.9, intrinsic_dim=2, subset_size=2)
    with refused("model.entry"):
        graph.model(X)


def test_columns_of_a_frame_are_compared_by_name(selection, strip):
    frame = pandas.DataFrame(strip.X, columns=["x", "y", "z"])
    model = selection.model(frame)
    assert model.feature_names == ("x", "y", "z")
    expected = model.transform(strip.X[:5])  # an array has no names
    np.testing.assert_array_equal(model.transform(frame[:5]), expected)
    for other in (frame[["y", "x", "z"]], frame.rename(columns={"z": "height"}), frame.assign(more=1.0)):
        with refused("columns.names"):
            model.transform(other)
    numbered = pandas.DataFrame(strip.X)  # as pandas numbers columns: no names
    assert selection.model(numbered).feature_names is None
    np.testing.assert_array_equal(model.transform(numbered[:5]), expected)


def test_a_round_trip_keeps_everything(model, selection, tmp_path):
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    for field in dataclasses.fields(Model):
        a, b = getattr(model, field.name), getattr(again, field.name)
        assert type(a) is type(b), field.name
        np.testing.assert_array_equal(a, b, err_msg=field.name)
    selection.save(tmp_path / "run.npz")
    for wanted, name in ((Model, "run.npz"), (Selection, "model.npz")):
        with refused("file.kind"):
            storage.load_as(wanted, tmp_path / name)


def test_the_first_format_stays_readable_and_so_do_later_ones(model, tmp_path, monkeypatch):
    model.save(tmp_path / "model.npz")
    old = load(OLD)
    assert old.X.shape == (40, 2) and old.subset == (0, 2) and old.feature_names == ("x", "y")
    # the file is its own witness: its points must return to its coordinates
    every = dataclasses.replace(old, subset=range(5))
    np.testing.assert_allclose(every.transform(old.X), old.coordinates, rtol=0, atol=1e-7)
    later = dataclasses.make_dataclass("Later", [("shift", float, 0.25)], bases=(Model,), frozen=True)
    monkeypatch.setitem(storage.FORMATS, "ies_gpu model", (later, 3))
    assert load(OLD).shift == 0.25
    monkeypatch.setitem(storage.FORMATS, "ies_gpu model", (Model, 1))
    with refused("file.newer"):
        load(tmp_path / "model.npz")


def test_the_way_back(rng):
    """On a flat strip in space whose embedding is known, points come back to within their noise and spacing."""
    flat = rng.uniform(0, 1, (1500, 2)) * [4, 1]
    frame = np.linalg.qr(rng.normal(size=(5, 5)))[0][:2]
    X = flat @ frame + 0.01 * rng.normal(size=(1500, 5))
    known = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.15, "scale": "rms"}
    train, held_out = slice(0, 1200), slice(1200, 1500)
    model = select_coordinates(X[train], **known).model(X[train])
    back = model.inverse_transform(model.transform(X[held_out]))
    rms = np.sqrt(((back - X[held_out]) ** 2).sum(axis=1).mean())
    assert rms < 0.12 and rms == pytest.approx(model.inverse_error.rms, rel=0.25)  # points are .06 apart, edges shrink
    total = ((X[train] - X[train].mean(axis=0)) ** 2).sum(axis=1).mean()
    assert model.inverse_error.unexplained == pytest.approx(model.inverse_error.rms**2 / total, rel=1e-9)


def test_the_way_back_of_odd_coordinates(model):
    Y = np.vstack([model.coordinates[:3, list(model.subset)], [[np.nan, 0.0]]])
    back = model.inverse_transform(Y)
    assert np.isnan(back[3]).all() and np.isfinite(back[:3]).all()
    with refused("Y.columns"):
        model.inverse_transform(np.zeros((4, 3)))
    with refused("model.precomputed"):
        dataclasses.replace(model, metric="precomputed").inverse_transform(Y)
