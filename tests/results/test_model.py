"""Models: what transform needs, kept, written, read again, also by a later version; and the command line."""

from __future__ import annotations

import dataclasses
import json
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas
import pytest

from ies_gpu import IESWarning, Model, Selection, datasets, load, radius_graph, select_coordinates
from ies_gpu.cli import main
from ies_gpu.parameters.explained import unexplained_variance
from ies_gpu.results import storage
from tests.backends import each_device
from tests.said import refused, warned

OLD = Path(__file__).parents[1] / "data" / "model-1.npz"  # 40 points, written by version 0.1.0


@pytest.fixture(scope="module")
def strip():
    return datasets.load("D1", n_samples=1200)


@pytest.fixture(scope="module")
def selection(strip):
    return select_coordinates(strip.X, intrinsic_dim=2, subset_size=2, bandwidth=0.7, n_components=10)


@pytest.fixture(scope="module")
def model(selection, strip):
    return selection.model(strip.X, feature_names=["x", "y", "z"])


def test_transform_gives_the_chosen_or_the_wanted_columns(model, selection, strip):
    assert model.names == selection.names
    np.testing.assert_allclose(model.transform(strip.X), selection.embedding, rtol=0, atol=1e-8)
    every = model.transform(strip.X[:9], columns=range(10))
    np.testing.assert_allclose(every, selection.coordinates[:9], rtol=0, atol=1e-8)
    for wrong in ([10], [-1], [0.5], [True, False]):
        with refused("columns.range"):
            model.transform(strip.X, columns=wrong)
    assert repr(model).startswith("Model of phi1, phi") and "1,200 points with 3 columns, bandwidth=0.7" in repr(model)


@each_device
def test_without_self_loops(backend, strip, tmp_path):
    """Training points and copies among them return to their coordinates."""
    X = np.vstack([strip.X[:700], strip.X[:40]])
    selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=0.9, self_loops=False, device="cpu")
    selection.model(X).save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz").transform(X, device=backend.device)
    np.testing.assert_allclose(again, selection.embedding, rtol=0, atol=1e-8)


@each_device
@pytest.mark.parametrize("isolated", ["nan", "nearest"])
def test_a_model_works_on_any_device(backend, model, strip, isolated):
    new = strip.X[:60] + 0.2
    new[7] = 1e5
    with warned("new_points.isolated"):
        expected = model.transform(new, device="cpu", isolated=isolated)
    with warned("new_points.isolated"):
        found = model.transform(new, device=backend.device, isolated=isolated)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_float32_storage_is_close_enough(strip):
    selection = select_coordinates(strip.X, intrinsic_dim=2, subset_size=2, bandwidth=0.7, dtype="float32")
    again = selection.model(strip.X).transform(strip.X)
    assert np.abs(again - selection.embedding).max() <= 1e-6 * np.abs(selection.embedding).max()


def test_points_left_out_are_no_training_points(strip):
    X = np.vstack([[[1e3, 0, 0]], strip.X, [[-1e3, 0, 0], [-1e3, 0.1, 0]]])
    with warned("graph.left_out"):
        selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=0.7, disconnected="largest")
    model = selection.model(X)
    np.testing.assert_array_equal(model.X, strip.X)
    with warned("new_points.isolated"):
        got = model.transform(X)
    np.testing.assert_allclose(got[1:1201], selection.embedding, rtol=0, atol=1e-8)


def test_a_map_of_a_graph_has_no_place_for_points(strip):
    graph = radius_graph(strip.X, radius=2.1)
    selection = select_coordinates(graph=graph, bandwidth=0.7, intrinsic_dim=2, subset_size=2)
    with refused("model.entry"):
        selection.model(strip.X)


def test_points_of_another_run_are_refused(strip):
    """Fewer or more rows, rows in another order, other columns, and one number in a row that is looked at."""
    selection = select_coordinates(strip.X, bandwidth=0.7, intrinsic_dim=2, subset_size=2)
    changed = strip.X.copy()
    changed[-1, 0] *= 1 + 1e-4
    others = [strip.X[:9], np.vstack([strip.X, strip.X[:5]]), strip.X[::-1], strip.X[:, :2], changed]
    for X in others:
        with refused("X.*"):
            selection.model(X)
    again = selection.model(strip.X.tolist())  # the same numbers, however they come
    np.testing.assert_array_equal(again.X, strip.X)
    older = dataclasses.replace(selection, diagnostics=selection.diagnostics | {"points_digest": None})
    assert len(older.model(strip.X[::-1]).X) == len(strip.X)  # nothing to compare with


@pytest.mark.parametrize(("metric", "bandwidth"), [("cosine", 0.1), ("correlation", 0.02)])
def test_points_of_another_run_are_refused_in_every_metric(strip, metric, bandwidth):
    X = strip.X[:400] + [30.0, 5.0, 5.0]
    asked = {"intrinsic_dim": 1, "subset_size": 1, "n_components": 5, "disconnected": "largest"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IESWarning)
        selection = select_coordinates(X, metric=metric, bandwidth=bandwidth, **asked)
    for other in (X[::-1], 2 * X):
        with refused("X.other_points"):
            selection.model(other)
    np.testing.assert_array_equal(selection.model(X.tolist()).X, X[selection.points])


def test_columns_of_a_frame_are_compared_by_name(selection, strip):
    frame = pandas.DataFrame(strip.X, columns=["x", "y", "z"])
    model = selection.model(frame)
    assert model.feature_names == ("x", "y", "z")
    expected = model.transform(strip.X[:5])  # an array has no names
    np.testing.assert_array_equal(model.transform(frame[:5]), expected)
    with refused("columns.names"):
        model.transform(frame[["y", "x", "z"]])
    with refused("columns.names"):
        model.transform(frame.rename(columns={"z": "height"}))
    with refused("columns.names"):
        model.transform(frame.assign(more=1.0))
    numbered = pandas.DataFrame(strip.X)  # as pandas numbers columns: no names
    assert selection.model(numbered).feature_names is None
    np.testing.assert_array_equal(model.transform(numbered[:5]), expected)


def test_the_command_line_compares_names_of_columns(strip, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame = pandas.DataFrame(strip.X[:600], columns=["length", "width", "height"])
    frame.to_csv("train.csv", index=False)
    frame[["width", "length", "height"]][:5].to_csv("new.csv", index=False)
    np.save("new.npy", frame[:5].values)
    assert command("fit train.csv -d 2 -s 2 --bandwidth 0.9 -m 8 --threads 1 --model model.npz -q") == 0
    assert load("model.npz").feature_names == ("length", "width", "height")
    assert command("transform model.npz new.csv -o phi.npy") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "new.csv has its columns in another order" in said and "pass --columns length,width,height" in said
    assert command("transform model.npz new.csv --columns length,width,height -o phi.npy -q") == 0
    assert command("transform model.npz new.npy -o same.npy -q") == 0  # no names to compare
    np.testing.assert_array_equal(np.load("phi.npy"), np.load("same.npy"))


def test_a_round_trip_keeps_everything(model, strip, tmp_path):
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    for field in dataclasses.fields(Model):
        a, b = getattr(model, field.name), getattr(again, field.name)
        assert type(a) is type(b), field.name
        np.testing.assert_array_equal(a, b, err_msg=field.name)
    np.testing.assert_array_equal(again.transform(strip.X[::7] + 0.1), model.transform(strip.X[::7] + 0.1))
    with zipfile.ZipFile(tmp_path / "model.npz") as archive:
        header = json.loads(archive.read("header.json"), parse_constant=pytest.fail)
    assert header["format"] == "ies_gpu model" and header["version"] == 2


def test_the_first_format_stays_readable():
    old = load(OLD)
    assert old.X.shape == (40, 2) and old.subset == (0, 2) and old.feature_names == ("x", "y")
    # the file is its own witness: its points must return to its coordinates
    np.testing.assert_allclose(old.transform(old.X, columns=range(5)), old.coordinates, rtol=0, atol=1e-7)


def test_a_later_version_with_more_fields_reads_it(monkeypatch):
    later = dataclasses.make_dataclass("Later", [("shift", float, 0.25)], bases=(Model,), frozen=True)
    monkeypatch.setitem(storage.FORMATS, "ies_gpu model", (later, 3))
    found = load(OLD)
    assert found.shift == 0.25 and found.names == ("phi1", "phi3")


def test_a_file_from_the_future_is_refused(model, tmp_path, monkeypatch):
    model.save(tmp_path / "model.npz")
    monkeypatch.setitem(storage.FORMATS, "ies_gpu model", (Model, 1))
    with refused("file.newer"):
        load(tmp_path / "model.npz")


def test_results_and_models_are_not_confused(model, selection, tmp_path):
    model.save(tmp_path / "model.npz")
    selection.save(tmp_path / "run.npz")
    assert isinstance(load(tmp_path / "model.npz"), Model) and isinstance(load(tmp_path / "run.npz"), Selection)
    for wanted, name in ((Model, "run.npz"), (Selection, "model.npz")):
        with refused("file.kind"):
            storage.load_as(wanted, tmp_path / name)


def test_a_damaged_file_is_refused(model, tmp_path):
    path = tmp_path / "model.npz"
    model.save(path)
    whole = path.read_bytes()
    for share in (0.0, 0.5, 0.99):
        path.write_bytes(whole[: int(share * len(whole))])
        with refused("file.damaged"):
            load(path)


def command(line):
    return main(line.split())


def test_the_command_line_fits_and_transforms(strip, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("train.npy", strip.X)
    np.save("new.npy", strip.X[:50] + 0.05)
    assert command("fit train.npy -d 2 -s 2 --bandwidth 0.7 -m 10 -o run.npz --model model.npz") == 0
    assert "model           model.npz" in capsys.readouterr().out
    assert command("transform model.npz train.npy -o back.npy --quiet") == 0
    np.testing.assert_allclose(np.load("back.npy"), load("run.npz").embedding, rtol=0, atol=1e-8)
    assert command("transform model.npz new.npy -o phi.npy --json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {"output": "phi.npy", "names": list(load("run.npz").names), "n_points": 50}
    assert np.load("phi.npy").shape == (50, 2)


def test_the_command_line_does_not_write_over_what_it_reads(strip, tmp_path, capsys):
    np.save(tmp_path / "new.npy", strip.X[:5])
    new = str(tmp_path / "new.npy")
    assert main(["transform", str(tmp_path / "model.npz"), new, "-o", new]) == 2
    assert "POINTS and -o must be different files" in capsys.readouterr().err
    np.testing.assert_array_equal(np.load(new), strip.X[:5])


@pytest.mark.filterwarnings("default::ies_gpu.IESWarning")
def test_the_command_line_names_what_is_wrong(strip, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("train.npy", strip.X)
    np.save("two.npy", strip.X[:, :2])
    np.save("far.npy", strip.X[:3] + 99)
    assert command("fit train.npy -d 2 -s 2 --bandwidth 0.7 --model model.npz --quiet") == 0
    cases = {
        "transform model.npz two.npy -o out.npy": (1, "X_new must have 3 columns like the training points, got 2"),
        "transform train.npy two.npy -o out.npy": (1, "train.npy is not an .npz file"),
        "transform model.npz two.npy -o out.txt": (2, "-o must name a .npy, .csv"),
        "transform model.npz two.npy": (2, "-o/--output"),
        "show model.npz": (1, "model.npz holds a model, and a result is needed"),
        "fit train.npy -d 2 -s 2 --bandwidth 0.7 --model a.npy": (2, "--model must name an .npz file"),
        "fit train.npy -d 2 -s 2 --bandwidth 0.7 -o a.npz --model a.npz": (2, "must be different files"),
        "fit a.npz -d 2 -s 2 --bandwidth 0.7 -o a.npz": (2, "POINTS and -o must be different files, got a.npz twice"),
        "transform model.npz far.npy -o out.npy": (0, "3 of 3 new points have no training point"),
    }
    for line, (status, message) in cases.items():
        assert command(line) == status, line
        assert message in capsys.readouterr().err, line
    assert np.isnan(np.load("out.npy")).all()
    assert command("transform model.npz far.npy -o out.npy --isolated nearest --quiet") == 0
    assert np.isfinite(np.load("out.npy")).all()


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
    assert model.inverse_error.unexplained == pytest.approx(unexplained_variance(X[train], model.embedding), rel=1e-9)


def test_the_way_back_of_odd_coordinates(model):
    Y = np.vstack([model.coordinates[:3, list(model.subset)], [[np.nan, 0.0]]])
    back = model.inverse_transform(Y)
    assert np.isnan(back[3]).all() and np.isfinite(back[:3]).all()
    with refused("Y.columns"):
        model.inverse_transform(np.zeros((4, 3)))
    with refused("model.precomputed"):
        dataclasses.replace(model, metric="precomputed").inverse_transform(Y)


def test_points_whose_last_digits_differ_are_the_same():
    """Programs that read a table of text differ in them."""
    X = datasets.load("D1", n_samples=300).X
    selection = select_coordinates(X, bandwidth=0.9, intrinsic_dim=2, subset_size=2)
    assert selection.model(np.nextafter(X, np.inf)) is not None
    with refused("X.other_points"):
        selection.model(X * (1 + 1e-4))
