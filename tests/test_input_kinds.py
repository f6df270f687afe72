"""Arrays of every library on the host: seen without a copy where that is possible."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pytest

from ies_gpu import DiffusionMap, datasets, model_of, select_coordinates
from ies_gpu.estimators import IndependentCoordinates
from ies_gpu.validation import check_points

ARGUMENTS = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 1.0, "n_components": 8}


class OnlyDlpack:
    """An array of a library that speaks DLPack and nothing else."""

    def __init__(self, array):
        self.array = array
        self.shape = array.shape

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OnlyInterface:
    """An array that NumPy sees by its memory."""

    def __init__(self, array):
        self.array = array  # must stay alive
        self.__array_interface__ = array.__array_interface__


@pytest.fixture(scope="module")
def points():
    return datasets.load("D1", n_samples=600).X


@pytest.fixture(scope="module")
def expected(points):
    return select_coordinates(points, **ARGUMENTS)


@pytest.mark.parametrize("kind", [OnlyDlpack, OnlyInterface, np.ndarray.tolist, pandas.DataFrame])
def test_every_kind_gives_the_same(kind, points, expected):
    given = kind(points)
    np.testing.assert_array_equal(select_coordinates(given, **ARGUMENTS).embedding, expected.embedding)
    np.testing.assert_array_equal(IndependentCoordinates(**ARGUMENTS).fit_transform(given), expected.embedding)
    back = DiffusionMap(bandwidth=1.0, n_components=8).fit(given).transform(kind(points[:5]))
    np.testing.assert_allclose(back, expected.coordinates[:5], rtol=0, atol=1e-8)


@pytest.mark.parametrize("kind", [OnlyDlpack, OnlyInterface])
def test_memory_is_shared(kind, points):
    assert np.shares_memory(check_points(kind(points)), points)


def test_a_mapped_file_is_not_copied(points, expected, tmp_path):
    np.save(tmp_path / "X.npy", points)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert np.shares_memory(check_points(mapped), mapped)
    assert np.shares_memory(model_of(expected, mapped).X, mapped)
    fitted = IndependentCoordinates(**ARGUMENTS).fit(mapped)
    assert np.shares_memory(fitted.model_.X, mapped)
    np.testing.assert_array_equal(fitted.embedding_, expected.embedding)


def test_frames_out(expected):
    chosen = expected.to_pandas()
    assert list(chosen.columns) == list(expected.names) and chosen.index.name == "point"
    np.testing.assert_array_equal(chosen.to_numpy(), expected.embedding)
    every = expected.to_pandas(every=True)
    assert list(every.columns) == [f"phi{k}" for k in range(1, 9)]
    np.testing.assert_array_equal(every.to_numpy(), expected.coordinates)


def test_rows_of_a_frame_are_those_of_the_input(points):
    with pytest.warns(UserWarning, match="2 parts"):
        found = select_coordinates(np.vstack([[[1e4, 0, 0]], points]), **ARGUMENTS, components="largest")
    assert found.to_pandas().index.tolist() == list(range(1, 601))


def test_json_is_strict_and_plain(expected):
    said = json.loads(expected.to_json(), parse_constant=pytest.fail)
    assert said["names"] == list(expected.names) and said["subset"] == list(expected.subset)
    assert said["zeta_interval"] == list(expected.zeta_interval)
    assert said["eigenvalues"] == expected.eigenvalues.tolist()
    assert said["ranking"][0]["loss"] == expected.ranking.losses[0]
    assert said["n_points"] == 600 and "coordinates" not in said
