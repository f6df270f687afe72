"""The input that is refused, and the odd input that is accepted."""

from __future__ import annotations

import numpy as np
import pandas
import scipy.sparse

from ies_gpu import DisconnectedGraphError, diffusion_map, laplacian_of_points, select_coordinates
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


class AnnData:
    __module__ = "anndata"  # told by its name, without the library


LAPLACIAN = laplacian_of_points(X, bandwidth=EPS)
MAP = diffusion_map(LAPLACIAN, n_components=8)
LATE = {
    "X": None, "bandwidth": None, "laplacian": LAPLACIAN, "coordinates": MAP.coordinates,
    "eigenvalues": MAP.eigenvalues,
}  # fmt: skip
SCATTERED = np.r_[X[:6] * 1e-3, 1e6 * np.arange(1, 301)[:, None] * np.ones((300, 3))]
ASYMMETRIC = scipy.sparse.csr_array(np.triu(np.ones((10, 10))))

# by section, what is wrong: the arguments that are changed, the error's type and its code
# fmt: off
REFUSED = {
    "Points": {
        "NaN in two rows": ({"X": spoiled(np.nan)}, ValueError, "X.not_finite"),
        "a column without numbers": ({"X": np.hstack([X, np.full((600, 1), np.nan)])}, ValueError, "X.not_finite_columns"),
        "infinity in one row": ({"X": spoiled(np.inf, [9])}, ValueError, "X.not_finite"),
        "None among objects": ({"X": objects(None)}, ValueError, "X.not_finite"),
        "masked entries": ({"X": np.ma.masked_greater(X, 0.9)}, ValueError, "X.masked"),
        "no points": ({"X": np.empty((0, 3))}, ValueError, "X.shape"),
        "no columns": ({"X": np.empty((9, 0))}, ValueError, "X.shape"),
        "a single point": ({"X": X[:1]}, ValueError, "X.shape"),
        "fewer points than eigenvectors": ({"X": X[:9]}, ValueError, "points.too_few"),
        "copies of one point": ({"X": np.ones((50, 3))}, ValueError, "X.copies"),
        "a word among the numbers": ({"X": objects("a")}, TypeError, "X.type"),
        "strings": ({"X": X.astype(str)}, TypeError, "X.type"),
        "dates": ({"X": np.zeros((9, 2), dtype="datetime64[s]")}, TypeError, "X.type"),
        "complex numbers": ({"X": X + 1j}, TypeError, "X.complex"),
        "ragged lists": ({"X": [[1, 2], [3]]}, TypeError, "X.type"),
        "a one-dimensional array": ({"X": X[:, 0]}, ValueError, "X.shape"),
        "a three-dimensional array": ({"X": X.reshape(300, 2, 3)}, ValueError, "X.shape"),
        "sparse points": ({"X": scipy.sparse.csr_array(X)}, TypeError, "X.sparse"),
        "a path": ({"X": "points.npy"}, TypeError, "X.path"),
        "an AnnData object": ({"X": AnnData()}, TypeError, "X.anndata"),
        "no input": ({"X": None}, ValueError, "entry.number"),
        "two inputs": ({"kernel": np.eye(600)}, ValueError, "entry.number"),
    },
    "Options that depend on the points": {
        "a bandwidth too small for any neighbour": ({"bandwidth": EPS / 1e4}, DisconnectedGraphError, "graph.isolated"),
        "a largest part too small for a map": ({"X": SCATTERED, "bandwidth": 1.0, "disconnected": "largest"}, DisconnectedGraphError, "graph.*"),
        "a bandwidth that connects all points": ({"bandwidth": 100.0}, ValueError, "graph.all_pairs"),
        "intrinsic_dim above the columns": ({"intrinsic_dim": 4, "subset_size": 4}, ValueError, "intrinsic_dim.range"),
        "too many sets to score": ({"n_components": 100, "subset_size": 12}, ValueError, "search.too_many"),
        "device='tpu'": ({"device": "tpu"}, ValueError, "device.choice"),
        "progress=3": ({"progress": 3}, TypeError, "progress.type"),
    },
    "Your own graph, kernel or embedding": {
        "a graph of strings": ({"X": None, "graph": X.astype(str)}, TypeError, "graph.type"),
        "negative distances": ({"X": None, "graph": -X[:9, :1] @ X[:9, :1].T}, ValueError, "graph.negative"),
        "affinities as distances": ({"X": None, "graph": np.exp(-((X[:99, :1] - X[:99, :1].T) ** 2))}, ValueError, "graph.affinities"),
        "zeros for no neighbours": ({"X": None, "graph": np.diag(np.ones(98), 1) + np.diag(np.ones(98), -1)}, ValueError, "graph.zeros"),
        "a disconnected graph": ({"X": None, "graph": scipy.sparse.identity(50)}, DisconnectedGraphError, "graph.disconnected"),
        "an asymmetric kernel": ({"X": None, "kernel": ASYMMETRIC}, ValueError, "kernel.asymmetric"),
        "a negative kernel": ({"X": None, "kernel": -np.eye(9)}, ValueError, "kernel.negative"),
        "a kernel with NaN": ({"X": None, "kernel": np.full((9, 9), np.nan)}, ValueError, "kernel.not_finite"),
        "a kernel without rows": ({"X": None, "kernel": np.zeros((0, 0))}, ValueError, "kernel.shape"),
        "a matrix that is not I - P": ({**LATE, "laplacian": scipy.sparse.identity(600)}, ValueError, "laplacian.rows_sum"),
        "the generator P - I": ({**LATE, "laplacian": -LAPLACIAN.matrix}, ValueError, "laplacian.sign"),
        "a Laplacian that is not square": ({**LATE, "laplacian": np.ones((4, 5))}, ValueError, "laplacian.shape"),
        "coordinates with a row missing": ({**LATE, "coordinates": MAP.coordinates[:-1]}, ValueError, "coordinates.rows"),
        "no coordinates": ({**LATE, "coordinates": None}, ValueError, "laplacian.alone"),
        "coordinates with NaN": ({**LATE, "coordinates": MAP.coordinates * np.nan}, ValueError, "coordinates.not_finite"),
        "too few eigenvalues": ({**LATE, "eigenvalues": MAP.eigenvalues[:3]}, ValueError, "eigenvalues.number"),
        "falling eigenvalues": ({**LATE, "eigenvalues": MAP.eigenvalues[::-1]}, ValueError, "eigenvalues.order"),
        "negative eigenvalues": ({**LATE, "eigenvalues": -MAP.eigenvalues[::-1]}, ValueError, "eigenvalues.negative"),
        "the constant eigenvector": ({**LATE, "coordinates": np.column_stack([np.ones(600), MAP.coordinates[:, 1:]])}, ValueError, "coordinates.constant"),
        "another number of coordinates": ({**LATE, "n_components": 5}, ValueError, "n_components.coordinates"),
        "eigenvalues beside points": ({"eigenvalues": MAP.eigenvalues}, ValueError, "coordinates.entry"),
    },
}
# fmt: on
CASES = {name: case for section in REFUSED.values() for name, case in section.items()}


def frame(**columns):
    return pandas.DataFrame(X, columns=["x", "y", "z"]).assign(**columns)


def readonly(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


# what is odd: how it is made, and what its bandwidth is multiplied by
ACCEPTED = {
    "constant columns": (lambda: np.column_stack([X, np.full(600, 7.0)]), 1.0),
    "duplicates": (lambda: np.concatenate([X, X[:40]]), 1.0),
    "integers": (lambda: np.round(1e6 * X).astype(np.int64), 1e6),
    "half precision": (lambda: X.astype(np.float16), 1.0),
    "single precision": (lambda: X.astype(np.float32), 1.0),
    "big-endian numbers": (lambda: X.astype(">f8"), 1.0),
    "numbers as Python objects": (lambda: X.astype(object), 1.0),
    "a list of lists": (lambda: X.tolist(), 1.0),
    "a data frame": (lambda: frame(n=np.arange(600) / 600), 2.5),
    "nullable floats": (lambda: frame().astype("Float64"), 1.0),
    "sparse columns": (lambda: frame().astype("Sparse[float]"), 1.0),
    "a name of 100,000 letters": (lambda: frame().rename(columns={"x": "n" * 100_000}), 1.0),
    "a subclass": (lambda: X.view(type("Own", (np.ndarray,), {})), 1.0),
    "a matrix": (lambda: np.asmatrix(X), 1.0),
    "Fortran order": (lambda: np.asfortranarray(X), 1.0),
    "a strided view": (lambda: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3], 1.0),
    "a read-only array": (lambda: readonly(X), 1.0),
    "huge numbers": (lambda: 1e150 * X, 1e150),
    "tiny numbers": (lambda: 1e-150 * X, 1e-150),
    "points far from the origin": (lambda: X + 1e6, 1.0),
}


def refusal(name: str) -> Exception:
    """The error that a case raises."""
    changed, kind, _ = CASES[name]
    try:
        select_coordinates(**{"X": X, **GOOD, **changed})
    except kind as error:
        return error
    raise AssertionError(f"{name} is not refused")
