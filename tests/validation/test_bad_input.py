"""Bad input gets a clear error before long work; odd but sound input is accepted. A row of docs/input.md each."""

from __future__ import annotations

import re
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from ies_gpu import (
    DeviceError,
    DisconnectedGraphError,
    diffusion_map,
    knn_graph,
    laplacian_of_points,
    radius_graph,
    select_coordinates,
)
from tests.manifolds import rectangle

X, _, EPS = rectangle(600, 2.3, degree=60)
GOOD = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": EPS, "n_components": 8}


def spoiled(value, rows=(3, 77)):
    bad = X.copy()
    bad[list(rows), 1] = value
    return bad


def objects(value):
    bad = X.astype(object)
    bad[5, 0] = value
    return bad


LAPLACIAN = laplacian_of_points(X, bandwidth=EPS)
MAP = diffusion_map(LAPLACIAN, n_components=8)
LATE = {
    "X": None,
    "bandwidth": None,
    "laplacian": LAPLACIAN,
    "coordinates": MAP.coordinates,
    "eigenvalues": MAP.eigenvalues,
}
ASYMMETRIC = scipy.sparse.csr_array(np.triu(np.ones((10, 10))))

# what is wrong: changed arguments, the error's type, words of its message
# fmt: off
BAD = {
    "NaN in two rows": ({"X": spoiled(np.nan)}, ValueError, r"X contains NaN or infinite values in 2 rows \(3, 77\)"),
    "infinity": ({"X": spoiled(np.inf, [9])}, ValueError, r"in 1 row \(9\)"),
    "None among objects": ({"X": objects(None)}, ValueError, r"NaN or infinite values in 1 row \(5\)"),
    "no points": ({"X": np.empty((0, 3))}, ValueError, r"at least 2 points.*\(0, 3\)"),
    "no columns": ({"X": np.empty((9, 0))}, ValueError, r"at least 1 column.*\(9, 0\)"),
    "one point": ({"X": X[:1]}, ValueError, "at least 2 points"),
    "fewer points than eigenvectors": ({"X": X[:9]}, ValueError, "n_components must be at most 7 for 9 points, got 8"),
    "all points equal": ({"X": np.ones((50, 3))}, ValueError, "50 copies of one point"),
    "words": ({"X": objects("a")}, TypeError, "X must be numeric, but it contains 'a'"),
    "strings": ({"X": X.astype(str)}, TypeError, "X must be numeric, got dtype <U"),
    "dates": ({"X": np.zeros((9, 2), dtype="datetime64[s]")}, TypeError, "X must be numeric"),
    "complex numbers": ({"X": X + 1j}, TypeError, "X must be real, got dtype complex128"),
    "ragged lists": ({"X": [[1, 2], [3]]}, TypeError, "X must be an array of numbers"),
    "one axis": ({"X": X[:, 0]}, ValueError, r"X must have 2 axes, got shape \(600,\); use X.reshape\(-1, 1\)"),
    "three axes": ({"X": X[None]}, ValueError, r"X must have 2 axes, got shape \(1, 600, 3\)"),
    "sparse points": ({"X": scipy.sparse.csr_array(X)}, TypeError, r"X must be a dense array.*X.toarray\(\)"),
    "nothing": ({"X": None}, ValueError, "give exactly one of X, graph, kernel, laplacian; got none"),
    "two entries": ({"kernel": np.eye(600)}, ValueError, "got X, kernel"),
    "bandwidth missing": ({"bandwidth": None}, ValueError, "bandwidth is needed with X"),
    "bandwidth zero": ({"bandwidth": 0}, ValueError, "bandwidth must be a finite number greater than 0, got 0"),
    "bandwidth negative": ({"bandwidth": -1.0}, ValueError, "bandwidth must be a finite number greater than 0, got -1"),
    "bandwidth NaN": ({"bandwidth": np.nan}, ValueError, "bandwidth must be a finite number"),
    "bandwidth a word": ({"bandwidth": "wide"}, TypeError, "bandwidth must be a number, got 'wide'"),
    "bandwidth isolates": ({"bandwidth": EPS / 1e4}, DisconnectedGraphError, "have no neighbour within radius=.*raise bandwidth"),
    "bandwidth connects all": ({"bandwidth": 100.0}, ValueError, "connects every sampled point with all 600 points.*lower bandwidth"),
    "radius negative": ({"radius": -2}, ValueError, "radius must be a finite number greater than 0"),
    "intrinsic_dim zero": ({"intrinsic_dim": 0}, ValueError, "intrinsic_dim must lie between 1 and 8"),
    "intrinsic_dim above m": ({"intrinsic_dim": 9}, ValueError, r"intrinsic_dim must lie between 1 and 8 \(n_components is 8\), got 9"),
    "intrinsic_dim not whole": ({"intrinsic_dim": 2.5}, TypeError, "intrinsic_dim must be an integer, got 2.5"),
    "intrinsic_dim a bool": ({"intrinsic_dim": True}, TypeError, "intrinsic_dim must be an integer, got True"),
    "subset_size below d": ({"subset_size": 1}, ValueError, r"subset_size must lie between 2 and 8 \(intrinsic_dim is 2"),
    "subset_size above m": ({"subset_size": 9}, ValueError, "subset_size must lie between 2 and 8"),
    "n_components zero": ({"n_components": 0}, ValueError, "n_components must be 1 or more, got 0"),
    "n_components not whole": ({"n_components": 8.0}, TypeError, "n_components must be an integer, got 8.0"),
    "too many sets": ({"n_components": 100, "subset_size": 12}, ValueError, "sets, more than 2,000,000"),
    "percentile above 100": ({"percentile": 101}, ValueError, "percentile must lie between 0 and 100, got 101"),
    "percentile negative": ({"percentile": -1}, ValueError, "percentile must lie between 0 and 100"),
    "zeta negative": ({"zeta": -0.5}, ValueError, "zeta must be a finite number, 0 or more, got -0.5"),
    "zeta infinite": ({"zeta": np.inf}, ValueError, "zeta must be a finite number"),
    "zeta a word": ({"zeta": "best"}, ValueError, "zeta must be one of 'auto', got 'best'"),
    "device unknown": ({"device": "tpu"}, ValueError, "device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got 'tpu'"),
    "device odd": ({"device": 0}, ValueError, "device must be 'auto'"),
    "search unknown": ({"search": "psychic"}, ValueError, "search must be one of 'exhaustive'"),
    "dtype unknown": ({"dtype": "float16"}, ValueError, "dtype must be one of 'float64', 'mixed', 'float32', got 'float16'"),
    "components unknown": ({"components": "all"}, ValueError, "components must be one of 'raise', 'largest'"),
    "self_loops a number": ({"self_loops": 0.5}, TypeError, "self_loops must be True or False, got 0.5"),
    "memory_limit tiny": ({"memory_limit": 10}, ValueError, "memory_limit must be 1048576 or more"),
    "n_threads zero": ({"n_threads": 0}, ValueError, "n_threads must be 1 or more"),
    "tol zero": ({"tol": 0}, ValueError, "tol must be a finite number greater than 0 and below 1"),
    "random_state negative": ({"random_state": -1}, ValueError, "random_state must be 0 or more"),
    "progress no function": ({"progress": 3}, TypeError, "progress must be a function"),
    "coordinates short": ({**LATE, "coordinates": MAP.coordinates[:-1]}, ValueError, "coordinates has 599 rows but laplacian is for 600"),
    "coordinates missing": ({**LATE, "coordinates": None}, ValueError, "laplacian needs coordinates and eigenvalues"),
    "coordinates NaN": ({**LATE, "coordinates": MAP.coordinates * np.nan}, ValueError, "coordinates contains NaN"),
    "eigenvalues short": ({**LATE, "eigenvalues": MAP.eigenvalues[:3]}, ValueError, "one entry for each of 8 coordinates, got 3"),
    "eigenvalues falling": ({**LATE, "eigenvalues": MAP.eigenvalues[::-1]}, ValueError, "eigenvalues must rise"),
    "eigenvalues with X": ({"eigenvalues": MAP.eigenvalues}, ValueError, "go with laplacian, not with X"),
    "laplacian not I - P": ({**LATE, "laplacian": scipy.sparse.identity(600)}, ValueError, "rows that sum to 0"),
    "laplacian not square": ({**LATE, "laplacian": np.ones((4, 5))}, ValueError, r"laplacian must be square, got shape \(4, 5\)"),
    "kernel asymmetric": ({"X": None, "kernel": ASYMMETRIC}, ValueError, "kernel must be symmetric"),
    "kernel negative": ({"X": None, "kernel": -np.eye(9)}, ValueError, "kernel must not have negative entries, got -1"),
    "kernel NaN": ({"X": None, "kernel": np.full((9, 9), np.nan)}, ValueError, "kernel contains NaN"),
    "graph of words": ({"X": None, "graph": X.astype(str)}, TypeError, "graph must be numeric"),
    "radius with a kernel": ({"X": None, "kernel": np.eye(9), "radius": 1.0}, ValueError, "radius goes with X or graph"),
    "no rows at all": ({"X": None, "kernel": np.zeros((0, 0))}, ValueError, "at least 2 points"),
    "masked entries": ({"X": np.ma.masked_greater(X, 0.9)}, ValueError, "X has masked entries"),
    "graph negative": ({"X": None, "graph": -X[:9, :1] @ X[:9, :1].T}, ValueError, "graph must not have negative"),
    "graph disconnected": ({"X": None, "graph": scipy.sparse.identity(50)}, DisconnectedGraphError, "50 parts"),
}
# fmt: on


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_words(case):
    changed, kind, message = BAD[case]
    with pytest.raises(kind, match=message) as caught:
        select_coordinates(**{"X": X, **GOOD, **changed})
    text = str(caught.value)
    assert type(caught.value) is kind
    assert "\n" not in text
    assert len(text) < 400


def frame():
    return pd.DataFrame({"x": X[:, 0], "y": X[:, 1].astype(np.float32), "n": np.arange(600) / 600})


ACCEPTED = {
    "constant columns": lambda: np.column_stack([X, np.full(600, 7.0)]),
    "duplicates": lambda: np.concatenate([X, X[:40]]),
    "numeric objects": lambda: X.astype(object),
    "fractions": lambda: np.array([[Fraction(float(v)) for v in row] for row in X], dtype=object),
    "integers": lambda: np.round(1e6 * X).astype(np.int64),
    "unsigned bytes": lambda: np.round(80 * X[:, :2]).astype(np.uint8),
    "half precision": lambda: X.astype(np.float16),
    "single precision": lambda: X.astype(np.float32),
    "big-endian": lambda: X.astype(">f8"),
    "Fortran order": lambda: np.asfortranarray(X),
    "strided": lambda: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda: X[::-1],
    "read-only": lambda: readonly(X),
    "a data frame": frame,
    "a list of lists": lambda: X.tolist(),
    "huge numbers": lambda: 1e150 * X,
    "tiny numbers": lambda: 1e-150 * X,
    "far from the origin": lambda: X + 1e6,
}
SCALE = {"integers": 1e6, "unsigned bytes": 80.0, "huge numbers": 1e150, "tiny numbers": 1e-150}


def readonly(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


@pytest.mark.parametrize("case", ACCEPTED)
def test_odd_but_sound_input_is_accepted(case):
    factor = 2.5 if case == "a data frame" else 1.0  # its third column moves points apart
    options = GOOD | {"bandwidth": factor * EPS * SCALE.get(case, 1.0)}
    selection = select_coordinates(ACCEPTED[case](), **options)
    assert selection.subset[0] == 0
    assert np.isfinite(selection.coordinates).all()
    if case not in ("a data frame", "duplicates", "unsigned bytes"):
        reference = select_coordinates(X[::-1] if case == "reversed" else X, **GOOD)
        assert selection.subset == reference.subset
        np.testing.assert_allclose(selection.eigenvalues, reference.eigenvalues, rtol=2e-2 if "half" in case else 1e-4)


def test_the_input_array_is_left_alone():
    before = X.copy()
    select_coordinates(X, **GOOD)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("bandwidth", [1e-6, 1e3])
def test_hopeless_bandwidths_are_found_at_once(bandwidth):
    """At n = 100,000 the sampled rows tell, long before a graph would be built."""
    points, _, _ = rectangle(100_000, 3.0)
    with pytest.raises(ValueError, match="bandwidth"):
        select_coordinates(points[:500], **GOOD | {"bandwidth": bandwidth})  # compiles, if need be
    begin = time.perf_counter()
    with pytest.raises(ValueError, match="bandwidth"):
        select_coordinates(points, **GOOD | {"bandwidth": bandwidth})
    assert time.perf_counter() - begin < 5  # a second on a quiet machine


def test_steps_refuse_too():
    with pytest.raises(ValueError, match="radius must be"):
        radius_graph(X, radius=0)
    with pytest.raises(ValueError, match=r"n_neighbors must lie between 1 and 599 for 600 points, got 600"):
        knn_graph(X, n_neighbors=600)
    with pytest.raises(TypeError, match="laplacian must come from graph_laplacian"):
        diffusion_map(LAPLACIAN.matrix)
    with pytest.raises(ValueError, match="n_components must lie between 1 and 598"):
        diffusion_map(LAPLACIAN, n_components=599)


def test_cuda_is_refused_where_there_is_none(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(DeviceError, match=r"device='cuda' cannot be used: .*install"):
        select_coordinates(X, **GOOD, device="cuda")
    assert select_coordinates(X, **GOOD, device="auto").diagnostics["device"] == "cpu"
    monkeypatch.setenv("IES_GPU_DEVICE", "cpu")
    assert "IES_GPU_DEVICE=cpu" in select_coordinates(X, **GOOD).diagnostics["device_reason"]
    monkeypatch.setenv("IES_GPU_DEVICE", "tpu")
    with pytest.raises(ValueError, match=r"the environment variable IES_GPU_DEVICE must be .* got 'tpu'"):
        select_coordinates(X, **GOOD)


def test_an_empty_variable_counts_as_not_set(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    for name in ("IES_GPU_DEVICE", "IES_GPU_SOLVER", "IES_GPU_KERNELS"):
        monkeypatch.setenv(name, "")
    assert "IES_GPU_DEVICE" not in select_coordinates(X, **GOOD).diagnostics["device_reason"]


def test_the_documented_table_is_the_tested_one():
    text = (Path(__file__).parents[2] / "docs" / "input.md").read_text()
    rows = set(re.findall(r"^\| ([^|]+?) \|", text, flags=re.MULTILINE)) - {"what", "---"}
    assert rows == set(BAD) | set(ACCEPTED)
