"""Bad input gets a clear error before long work; odd but sound input is accepted."""

import re
import sys
import time
from pathlib import Path

import numpy as np
import pandas
import pytest
import scipy.sparse

from ies_gpu import (
    DisconnectedGraphError,
    diffusion_map,
    knn_graph,
    laplacian_of_points,
    radius_graph,
    select_coordinates,
)
from ies_gpu.cli.parser import say_in_flags
from tests.manifolds import rectangle
from tests.said import refused

X, _, EPS = rectangle(600, 2.3, degree=60)
GOOD = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": EPS, "n_components": 8}
SPOILED = X.copy()
SPOILED[[3, 77], 1] = np.nan
LAPLACIAN = laplacian_of_points(X, bandwidth=EPS)
MAP = diffusion_map(LAPLACIAN, n_components=8)
LATE = {
    "X": None, "bandwidth": None, "laplacian": LAPLACIAN, "coordinates": MAP.coordinates,
    "eigenvalues": MAP.eigenvalues,
}  # fmt: skip
SCATTERED = np.r_[X[:6] * 1e-3, 1e6 * np.arange(1, 301)[:, None] * np.ones((300, 3))]
ASYMMETRIC = scipy.sparse.csr_array(np.triu(np.ones((10, 10))))

# what is wrong: the arguments that are changed, and the code of the error
TYPES, TORN = ("type", "complex", "sparse", "path", "anndata"), ("isolated", "disconnected", "*")
PAIRS = np.diag(np.ones(98), 1)
# fmt: off
REFUSED = {
    "NaN in two rows": ({"X": SPOILED}, "X.not_finite"),
    "a column without numbers": ({"X": np.hstack([X, np.full((600, 1), np.nan)])}, "X.not_finite"),
    "masked entries": ({"X": np.ma.masked_greater(X, 0.9)}, "X.masked"),
    "a single point": ({"X": X[:1]}, "X.shape"),
    "fewer points than eigenvectors": ({"X": X[:9]}, "points.too_few"),
    "copies of one point": ({"X": np.ones((50, 3))}, "X.copies"),
    "a word among the numbers": ({"X": np.array([*X.tolist(), ["a", 1, 2]], dtype=object)}, "X.type"),
    "dates": ({"X": np.zeros((9, 2), dtype="datetime64[s]")}, "X.type"),
    "complex numbers": ({"X": X + 1j}, "X.complex"),
    "ragged lists": ({"X": [[1, 2], [3]]}, "X.type"),
    "a one-dimensional array": ({"X": X[:, 0]}, "X.shape"),
    "sparse points": ({"X": scipy.sparse.csr_array(X)}, "X.sparse"),
    "a path": ({"X": "points.npy"}, "X.path"),
    "an AnnData object": ({"X": type("AnnData", (), {"__module__": "anndata"})()}, "X.anndata"),
    "no input": ({"X": None}, "entry.number"),
    "two inputs": ({"kernel": np.eye(600)}, "entry.number"),
    "a bandwidth too small for any neighbour": ({"bandwidth": EPS / 1e4}, "graph.isolated"),
    "a largest part too small for a map": ({"X": SCATTERED, "bandwidth": 1.0, "disconnected": "largest"}, "graph.*"),
    "a bandwidth that connects all points": ({"bandwidth": 100.0}, "graph.all_pairs"),
    "intrinsic_dim above the columns": ({"intrinsic_dim": 4, "subset_size": 4}, "intrinsic_dim.range"),
    "too many sets to score": ({"n_components": 100, "subset_size": 12}, "search.too_many"),
    "progress=3": ({"progress": 3}, "progress.type"),
    "negative distances": ({"X": None, "graph": -X[:9, :1] @ X[:9, :1].T}, "graph.negative"),
    "affinities as distances": ({"X": None, "graph": np.exp(-((X[:99, :1] - X[:99, :1].T) ** 2))}, "graph.affinities"),
    "zeros for no neighbours": ({"X": None, "graph": PAIRS + PAIRS.T}, "graph.zeros"),
    "a disconnected graph": ({"X": None, "graph": scipy.sparse.identity(50)}, "graph.disconnected"),
    "an asymmetric kernel": ({"X": None, "kernel": ASYMMETRIC}, "kernel.asymmetric"),
    "a negative kernel": ({"X": None, "kernel": -np.eye(9)}, "kernel.negative"),
    "a kernel with NaN": ({"X": None, "kernel": scipy.sparse.csr_array(np.full((9, 9), np.nan))}, "kernel.not_finite"),
    "a matrix that is not I - P": ({**LATE, "laplacian": scipy.sparse.identity(600)}, "laplacian.rows_sum"),
    "the generator P - I": ({**LATE, "laplacian": -LAPLACIAN.matrix}, "laplacian.sign"),
    "a Laplacian that is not square": ({**LATE, "laplacian": np.ones((4, 5))}, "laplacian.shape"),
    "coordinates with a row missing": ({**LATE, "coordinates": MAP.coordinates[:-1]}, "coordinates.rows"),
    "no coordinates": ({**LATE, "coordinates": None}, "laplacian.alone"),
    "too few eigenvalues": ({**LATE, "eigenvalues": MAP.eigenvalues[:3]}, "eigenvalues.number"),
    "falling eigenvalues": ({**LATE, "eigenvalues": MAP.eigenvalues[::-1]}, "eigenvalues.order"),
    "negative eigenvalues": ({**LATE, "eigenvalues": -MAP.eigenvalues[::-1]}, "eigenvalues.negative"),
    "the constant eigenvector": ({**LATE, "coordinates": np.ones((600, 8))}, "coordinates.constant"),
    "another number of coordinates": ({**LATE, "n_components": 5}, "n_components.coordinates"),
    "eigenvalues beside points": ({"eigenvalues": MAP.eigenvalues}, "coordinates.entry"),
}
# fmt: on
def frame(**columns):
    return pandas.DataFrame(X, columns=["x", "y", "z"]).assign(**columns)


# what is odd: how it is made, and what its bandwidth is multiplied by
ACCEPTED = {
    "constant columns": (lambda: np.column_stack([X, np.full(600, 7.0)]), 1.0),
    "duplicates": (lambda: np.concatenate([X, X[:40]]), 1.0),
    "integers": (lambda: np.round(1e6 * X).astype(np.int64), 1e6),
    "half precision": (lambda: X.astype(np.float16), 1.0),
    "single precision": (lambda: X.astype(np.float32), 1.0),
    "big-endian numbers": (lambda: X.astype(">f8"), 1.0),
    "numbers as Python objects": (lambda: X.astype(object), 1.0),
    "a data frame": (lambda: frame(n=np.arange(600) / 600), 2.5),
    "nullable floats": (lambda: frame().astype("Float64"), 1.0),
    "sparse columns": (lambda: frame().astype("Sparse[float]"), 1.0),
    "a name of 100,000 letters": (lambda: frame().rename(columns={"x": "n" * 100_000}), 1.0),
    "a subclass": (lambda: X.view(type("Own", (np.ndarray,), {})), 1.0),
    "a matrix": (lambda: np.asmatrix(X), 1.0),
    "Fortran order": (lambda: np.asfortranarray(X), 1.0),
    "a strided view": (lambda: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3], 1.0),
    "a read-only array": (lambda: np.broadcast_to(X, X.shape), 1.0),
    "huge numbers": (lambda: 1e150 * X, 1e150),
    "tiny numbers": (lambda: 1e-150 * X, 1e-150),
    "points far from the origin": (lambda: X + 1e6, 1.0),
}
USUAL = select_coordinates(X, device="cpu", **GOOD)


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_words(case):
    changed, code = REFUSED[case]
    what = code.partition(".")[2]
    kind = TypeError if what in TYPES else DisconnectedGraphError if what in TORN else ValueError
    with refused(code, kind) as caught:
        select_coordinates(**{"X": X, **GOOD, **changed})
    error = caught.value
    assert type(error) is kind and str(error) == str(error.finding)
    for text in (str(error), say_in_flags(error.finding)):
        assert "\n" not in text and len(text) < 400
        if case != "ragged lists":  # which ends in the words of NumPy
            assert "`" not in text and "  " not in text and not text.endswith((".", ";", ":", " "))


def test_of_points_rows_are_dropped_though_there_are_as_many_columns():
    spoiled = X.repeat(200, axis=1)[:600].copy()
    spoiled[3, 5] = np.nan
    with refused("X.not_finite") as caught:
        select_coordinates(spoiled, **GOOD)
    assert spoiled.shape == (600, 600) and "X[np.isfinite(X).all(axis=1)]" in str(caught.value)


@pytest.mark.parametrize("case", ACCEPTED)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_odd_but_sound_input_is_accepted(case):
    make, factor = ACCEPTED[case]
    selection = select_coordinates(make(), **GOOD | {"bandwidth": factor * EPS})
    assert selection.subset[0] == 0
    assert np.isfinite(selection.coordinates).all()
    if case not in ("a data frame", "duplicates"):  # other points
        assert selection.subset == USUAL.subset
        np.testing.assert_allclose(selection.eigenvalues, USUAL.eigenvalues, rtol=2e-2 if "half" in case else 1e-4)


@pytest.mark.parametrize(("bandwidth", "code"), [(1e-6, "graph.isolated"), (1e3, "graph.all_pairs")])
def test_hopeless_bandwidths_are_found_at_once(bandwidth, code):
    """At n = 100,000 the sampled rows tell, long before a graph would be built."""
    points, _, _ = rectangle(100_000, 3.0)
    with refused("graph.*"):
        select_coordinates(points[:500], **GOOD | {"bandwidth": bandwidth})  # compiles, if need be
    begin = time.process_time()
    with refused(code):
        select_coordinates(points, **GOOD | {"bandwidth": bandwidth})
    assert time.process_time() - begin < 5  # a second on a quiet machine


def test_steps_refuse_too():
    for code, call in (
        ("radius.range", lambda: radius_graph(X, radius=0)),
        ("n_neighbors.range", lambda: knn_graph(X, n_neighbors=600)),
        ("laplacian.*", lambda: diffusion_map("laplacian")),
        ("n_components.range", lambda: diffusion_map(LAPLACIAN, n_components=599)),
        ("kernel.empty_rows", lambda: laplacian_of_points(np.r_[X, [[50, 0, 0]]], bandwidth=3 * EPS, self_loops=False)),
        ("subset.range", lambda: USUAL.score(("phi1", "phi9"))),
    ):
        with refused(code, (TypeError, ValueError)):
            call()


def test_the_variable_for_the_device_is_checked_and_an_empty_one_is_not_set(monkeypatch):
    monkeypatch.setenv("IES_GPU_DEVICE", "tpu")
    with refused("device.choice"):
        select_coordinates(X, **GOOD)
    for name in ("IES_GPU_DEVICE", "IES_GPU_KERNELS"):
        monkeypatch.setenv(name, "")
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert "IES_GPU_DEVICE" not in select_coordinates(X, **GOOD).diagnostics["device_reason"]


def test_the_codes_on_the_page_about_data_are_those_of_refusals():
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text().partition("## What is refused")[2]
    cells = "".join(line.split("|")[2] for line in page.splitlines() if "|" in line)
    named, known = set(re.findall(r"`([a-zX]+\.[a-z_]+)`", cells)), {code for _, code in REFUSED.values()}
    assert len(named) > 10 and named <= known
