"""Arrays of every library on the host: seen without a copy where that is possible."""

import tracemalloc

import numpy as np
import pandas
import pytest

from ies_gpu import DiffusionMap, datasets, gaussian_kernel, plot, select_coordinates
from ies_gpu.backend.cpu import CpuBackend
from ies_gpu.embedding.graph import in_order, is_mapped, rescale_to_radius
from ies_gpu.interop.scikit_learn import IndependentCoordinates
from ies_gpu.validation import check_points
from tests.said import refused
from tests.validation.hostile import fails

ARGUMENTS = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 1.0, "n_components": 8, "scale": "rms"}


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


@pytest.mark.parametrize("kind", [OnlyInterface, np.ndarray.tolist, pandas.DataFrame])
def test_every_kind_gives_the_same(kind, points, expected):
    given = kind(points)
    assert kind is not OnlyInterface or np.shares_memory(check_points(given), points)
    np.testing.assert_array_equal(select_coordinates(given, **ARGUMENTS).embedding, expected.embedding)
    np.testing.assert_array_equal(IndependentCoordinates(**ARGUMENTS).fit_transform(given), expected.embedding)
    back = DiffusionMap(bandwidth=1.0, n_components=8).fit(given).transform(kind(points[:5]))
    np.testing.assert_allclose(back, expected.coordinates[:5], rtol=0, atol=1e-8)
    if kind is pandas.DataFrame:
        days = pandas.date_range("2026-01-01", periods=600)
        frame = select_coordinates(given.set_index(days), **ARGUMENTS).to_pandas()
        assert (frame.index == days).all() and list(frame.columns) == list(expected.names)
        np.testing.assert_array_equal(frame.to_numpy(), expected.embedding)


def test_a_mapped_file_is_not_copied(points, expected, tmp_path):
    np.save(tmp_path / "X.npy", points)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert np.shares_memory(check_points(mapped), mapped)
    assert np.shares_memory(expected.model(mapped).X, mapped)
    fitted = IndependentCoordinates(**ARGUMENTS).fit(mapped)
    assert np.shares_memory(fitted.model_.X, mapped)
    np.testing.assert_array_equal(fitted.embedding_, expected.embedding)


def test_points_of_a_large_mapped_file_are_ordered_in_another_file(tmp_path, rng):
    X = rng.normal(size=(500, 30))
    np.save(tmp_path / "points.npy", X)
    mapped = np.asarray(np.load(tmp_path / "points.npy", mmap_mode="r"))
    order = rng.permutation(500)
    assert is_mapped(mapped) and is_mapped(mapped[3:]) and not is_mapped(X) and not is_mapped(in_order(mapped, order))
    with CpuBackend(memory_limit=mapped.nbytes).active():
        ordered = in_order(mapped, order)
        assert is_mapped(ordered) and not is_mapped(in_order(X, order))
        np.testing.assert_array_equal(ordered, X[order])
        points, reach, unit = rescale_to_radius(0.3, ordered)
    assert np.shares_memory(points, ordered) and (reach, unit) == (0.3, 1.0)


@pytest.mark.slow
def test_a_mapped_file_larger_than_the_memory_is_never_held_whole(tmp_path):
    """A strip in many columns: less is allocated than the file holds, and the result is that of points in memory."""
    rng = np.random.default_rng(0)
    n, columns = 60_000, 640
    flat = rng.uniform(0, 1, (n, 2)) * [8, 1]
    frame = np.linalg.qr(rng.normal(size=(columns, 2)))[0]
    np.save(tmp_path / "wide.npy", flat @ frame.T)
    mapped = np.load(tmp_path / "wide.npy", mmap_mode="r")
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.015, "n_components": 10, "tol": 1e-5}
    usual = select_coordinates(np.array(mapped), **options)
    tracemalloc.start()
    found = select_coordinates(mapped, memory_limit=128 << 20, **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # the graph takes 16,384 points at a time, three times 84 MB here whatever the size of the file
    assert mapped.nbytes > 2 * (128 << 20) and peak < 0.9 * mapped.nbytes
    assert found.subset == usual.subset
    np.testing.assert_allclose(found.eigenvalues, usual.eigenvalues, rtol=1e-4)


SMALL = datasets.load("D1", n_samples=150).X
MASKED = (
    lambda X, D: gaussian_kernel(D, bandwidth=1.0),
    lambda X, D: select_coordinates(graph=D, **ARGUMENTS),
    lambda X, D: DiffusionMap(bandwidth=1.0).fit(X),
    lambda X, D: DiffusionMap(bandwidth=1.0, metric="precomputed").fit(D),
    lambda X, D: DiffusionMap(bandwidth=1.0, n_components=3).fit(X.data).transform(X),
    lambda X, D: plot.points(X),
    lambda X, D: datasets.pairwise_distances(X[None]),
)


def test_what_is_behind_a_mask_is_never_used():
    distances = np.linalg.norm(SMALL[:, None] - SMALL, axis=2)
    masked = [np.ma.masked_greater(values, np.median(values)) for values in (SMALL, distances)]
    for use in MASKED:
        with refused("*.masked"):
            use(*masked)


# bfloat16 as PyTorch has it, which NumPy cannot read, and as ml_dtypes and JAX do, whose dtype is no number of NumPy
BFLOAT16 = [
    type("Tensor", (), {"dtype": "torch.bfloat16", "__array__": fails, "float": lambda self: SMALL.astype("f4")}),
    type("Typed", (), {
        "dtype": "bfloat16", "__array__": lambda self, *args, **options: np.zeros(SMALL.shape, dtype="V2"),
        "astype": lambda self, dtype: SMALL.astype(dtype),
    }),
]  # fmt: skip


def test_the_call_that_helps_with_bfloat16():
    for kind in BFLOAT16:
        with refused("X.type", TypeError) as caught:
            select_coordinates(kind(), **ARGUMENTS)
        advised = eval(caught.value.finding.advice.removeprefix("use "), {"X": kind()})
        assert check_points(advised).shape == SMALL.shape
