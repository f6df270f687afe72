"""Hostile arguments for every public function, and what counts as an answer."""

import dataclasses
import inspect
import linecache
import tempfile
import traceback
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse

import ies_gpu
from ies_gpu import datasets
from ies_gpu.choice.criterion import candidate_subsets

PACKAGE = str(Path(ies_gpu.__file__).parent)
EPS = 0.3
SOUND = object()  # in place of an argument that is written to


def fails(self, *_, **__):
    raise RuntimeError("no such thing")


# objects all of whose conversions fail, and one that cannot say what it is
Raises = type("Raises", (), dict.fromkeys(("__array__", "__len__", "__iter__", "__float__", "__fspath__"), fails))
Unprintable = type("Unprintable", (), {"__repr__": fails})


@cache
def sound() -> dict[str, Any]:
    """Arguments with which everything works, from 120 points of a strip."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(size=(120, 2)) * [3, 1], 0.01 * rng.normal(size=120)])
    graph = ies_gpu.radius_graph(X, radius=3 * EPS)
    kernel = ies_gpu.gaussian_kernel(graph, bandwidth=EPS)
    laplacian = ies_gpu.graph_laplacian(kernel, bandwidth=EPS)
    selection = ies_gpu.select_coordinates(
        X, bandwidth=EPS, intrinsic_dim=2, subset_size=2, n_components=6, keep_bases=True, device="cpu"
    )
    subsets = candidate_subsets(6, 2)
    folder = tempfile.mkdtemp()
    model = selection.model(X)
    selection.save(f"{folder}/result.npz")
    model.save(f"{folder}/model.npz")
    np.savez(f"{folder}/molecule.npz", R=rng.normal(size=(4, 2, 3)), z=[1, 1])
    return {
        "X": X, "graph": graph, "kernel": kernel, "laplacian": laplacian, "selection": selection, "model": model,
        "coordinates": selection.coordinates, "eigenvalues": selection.eigenvalues, "bases": selection.bases,
        "subsets": subsets, "scores": ies_gpu.score_subsets(selection.bases, subsets), "folder": folder,
        "combinatorial": scipy.sparse.csgraph.laplacian(kernel).tocsr(),
    }  # fmt: skip


def cells() -> SimpleNamespace:
    """What ``ies_gpu.anndata`` uses of an AnnData object."""
    X = sound()["X"]
    return SimpleNamespace(n_obs=len(X), X=X, obsm={"X_pca": X}, obsp={}, uns={}, var_names=["a", "b", "c"])


@cache
def calls() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Every public function with arguments that work; those left out have defaults."""
    s = sound()
    X, Y, L, U, S = (s[name] for name in ("X", "coordinates", "laplacian", "bases", "selection"))
    sizes = {"intrinsic_dim": 2, "subset_size": 2, "n_components": 6}
    search = {"bases": U, "eigenvalues": s["eigenvalues"], "subset_size": 2}
    late = {"laplacian": L, "coordinates": Y, "eigenvalues": s["eigenvalues"], "intrinsic_dim": 2, "subset_size": 2}
    arguments: dict[str, dict[str, Any]] = {
        "backend_of": {"array": X},
        "radius_graph": {"X": X, "radius": 3 * EPS},
        "knn_graph": {"X": X, "n_neighbors": 5},
        "gaussian_kernel": {"graph": s["graph"], "bandwidth": EPS},
        "graph_laplacian": {"kernel": s["kernel"]},
        "laplacian_of_points": {"X": X, "bandwidth": EPS},
        "diffusion_map": {"laplacian": L, "n_components": 6},
        "smallest_eigenpairs": {"laplacian": s["combinatorial"], "k": 3},
        "cometric": {"coordinates": Y, "laplacian": L},
        "tangent_bases": {"coordinates": Y, "laplacian": L, "intrinsic_dim": 2},
        "riemannian_metric": {"coordinates": Y, "laplacian": L, "intrinsic_dim": 2},
        "score_subsets": {"bases": U, "subsets": s["subsets"]},
        "search_exhaustive": search,
        "search_greedy": search,
        "search_submodular": search,
        "search_branch_and_bound": search,
        "regularization_path": {"scores": s["scores"], "subsets": s["subsets"], "eigenvalues": s["eigenvalues"]},
        "leave_one_out_regret": {"bases": U, "subsets": s["subsets"][:2], "candidates": s["subsets"]},
        "estimate_dimension": {"X": X, "bandwidth": EPS},
        "estimate_parameters": {"X": X, "bandwidth": EPS, "intrinsic_dim": 2, "n_components": 6},
        "select_coordinates": {"X": X, "bandwidth": EPS, **sizes},
        "select_each_part": {"X": X, "bandwidth": EPS, **sizes},
        "select_coordinates(graph)": {"graph": s["graph"], "bandwidth": EPS, **sizes},
        "select_coordinates(kernel)": {"kernel": s["kernel"], **sizes},
        "select_coordinates(laplacian)": late,
        "diagnose": {"selection": S, "laplacian": L},
        "selection_stability": {"selection": S, "X": X, "n_refits": 2},
        "load": {"path": f"{s['folder']}/result.npz"},
        "umap_init": {"selection": S},
    }
    fitted = ies_gpu.IndependentCoordinates(bandwidth=EPS, device="cpu", **sizes).fit(X)
    atoms = np.random.default_rng(1).normal(size=(6, 5, 3))
    file = f"{s['folder']}/again"
    methods = {
        "Model.save": (s["model"].save, {"path": f"{file}.npz"}),
        "Selection.save": (S.save, {"path": f"{file}.npz"}),
        "Selection.model": (S.model, {"X": X}),
        "Model.transform": (s["model"].transform, {"X_new": X[:5]}),
        "Model.inverse_transform": (s["model"].inverse_transform, {"Y": Y[:5, :2]}),
        "Selection.score": (S.score, {"subset": (0, 1)}),
        "Selection.to_html": (S.to_html, {"path": f"{file}.html"}),
        "Selection.explore": (lambda **o: S.explore(**o), {"height": 300}),
        "DiffusionMap.fit": (
            lambda X, **o: ies_gpu.DiffusionMap(**o).fit(X),
            {"X": X, "bandwidth": EPS, "n_components": 3, "random_state": 0},
        ),
        "IndependentCoordinates.fit": (
            lambda X, **o: ies_gpu.IndependentCoordinates(**o).fit(X),
            {"X": X, "bandwidth": EPS, "random_state": 0, **sizes},
        ),
        "IndependentCoordinates.transform": (fitted.transform, {"X": X[:5]}),
        "IndependentCoordinates.inverse_transform": (fitted.inverse_transform, {"X": Y[:5, :2]}),
        "anndata.select": (
            lambda adata=SOUND, **o: ies_gpu.anndata.select(cells() if adata is SOUND else adata, **o),
            {"bandwidth": EPS, "random_state": 0, **sizes},
        ),
        "datasets.load": (datasets.load, {"name": "D1", "n_samples": 50}),
        "datasets.load_molecule": (datasets.load_molecule, {"path": f"{s['folder']}/molecule.npz"}),
        "datasets.pairwise_distances": (datasets.pairwise_distances, {"R": atoms}),
        "datasets.planar_angles": (datasets.planar_angles, {"R": atoms}),
        "datasets.torsion_features": (datasets.torsion_features, {"R": atoms, "chains": [(0, 1, 2, 3)]}),
        "plot.embedding": (ies_gpu.plot.embedding, {"selection": S}),
        "plot.path": (ies_gpu.plot.path, {"selection": S}),
        "plot.points": (ies_gpu.plot.points, {"X": X}),
        "plot.volumes": (ies_gpu.plot.volumes, {"selection": S}),
        "plot.diagnosis": (ies_gpu.plot.diagnosis, {"found": ies_gpu.diagnose(S)}),
    }  # fmt: skip
    return {name: (getattr(ies_gpu, name.partition("(")[0]), own) for name, own in arguments.items()} | methods


@cache
def places() -> list[tuple[str, str]]:
    """Every argument of every function but callables, folders, and what belongs to another start of a run."""
    found = []
    for name, (function, own) in calls().items():
        names = [] if "(" in name else [p.name for p in inspect.signature(function).parameters.values() if p.kind < 4]
        found += [(name, argument) for argument in dict.fromkeys([*names, *own])]
    left_out = {"progress", "checkpoint", "do", "room", "asked", "self"}
    others = {("select_coordinates", word) for word in ("graph", "kernel", "laplacian", "coordinates", "eigenvalues")}
    return [place for place in found if place[1] not in left_out and place not in others]


@cache
def values() -> dict[str, Any]:
    s = sound()
    X, Y, U = s["X"], s["coordinates"], s["bases"]
    return {
        "10**400": 10**400, "-10**400": -(10**400), "1e308": 1e308, "-1e300": -1e300, "1e-320": 1e-320, "nan": np.nan,
        "inf": np.inf, "Fraction(10**400)": Fraction(10**400), "Decimal": Decimal("1e5"), "complex": 1j, "None": None,
        "bytes": b"ab", "str": "ab", "slice": slice(3), "function": len, "type": list, "Ellipsis": ..., "set": {1, 2},
        "dict": {"a": 1}, "ragged": [[1, 2], [3]], "ragged 3": [[[1, 2], [3]], [[1], [2, 3]]], "empty list": [],
        "raises": Raises(), "unprintable": Unprintable(), "object": object(), "date": np.datetime64("2020-01-01"),
        "dates": np.zeros((120, 3), "datetime64[s]"), "range": range(3), "no axes": np.array(3.0),
        "-1": -1, "1": 1, "True": True, "-2**63": np.int64(-(2**63)), "2**64-1": np.uint64(2**64 - 1),
        "float16": np.float16(1), "words": np.array(["a", "b"]), "record": np.zeros(3, dtype=[("a", int)]),
        "names": ["phi1", "phi99"], "empty": "", "empty bytes": b"", "number in a list": [0.5],
        "pairs": [(0, 1), (1, 2)],
        "half an array": np.array([1.0, None], dtype=object), "float16s": np.full((4, 3), 1.0, "f2"),
        "big-endian": np.ones((4, 3), ">f8"), "switches": np.ones((4, 4), bool), "no columns": np.zeros((4, 0)),
        "complex numbers": np.ones((4, 3), complex), "nested": [[[[1]]]], "huge integers": [[10**400, 1], [2, 3]],
        "objects": np.array([object(), None]), "huge points": np.full((120, 3), 1e300) * X, "huge map": 1e300 * Y,
        "huge bases": 1e300 * U, "huge scores": np.full(5, 1e300) * np.arange(5), "infinite scores": np.full(5, np.inf),
        "huge eigenvalues": 1e300 * np.arange(6), "tiny points": 1e-320 * X, "ones": np.ones((120, 3)),
        "zeros": np.zeros((120, 3)), "zero map": np.zeros((120, 6)), "zero bases": np.zeros((120, 6, 2)),
        "no rows": np.zeros((0, 0)), "one row": X[:1], "sparse": scipy.sparse.csr_array((5, 5)),
        "no edges": scipy.sparse.coo_array((120, 120)), "huge kernel": 1e300 * s["kernel"],
        "huge graph": 1e300 * s["graph"],
        "tiny kernel": 1e-300 * s["kernel"], "masked": np.ma.masked_greater(X, 0.5), "long text": "x" * 100_000,
        "half a character": "\ud800", "a null character": "a\0b", "a Laplacian": s["laplacian"],
        "a result": s["selection"],
        "a model": s["model"], "points": X, "a folder": s["folder"],
    }  # fmt: skip


def outcome(place: tuple[str, str], value: Any) -> str:
    """What a call with one hostile argument comes to: "answer", "refused", or what is wrong with it."""
    name, argument = place
    function, own = calls()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(**own | {argument: value})
        except Exception as error:
            return judged(error)
    return "answer" if finite(result, nan_allowed=name == "Model.transform") else "not finite"


def judged(error: Exception) -> str:
    """An error of ours is raised by a ``raise`` of the package, of a type that says what is wrong, in a sentence."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = str(error)
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    ours = last.filename.startswith(PACKAGE) and line.startswith("raise")
    kinds = (ValueError, TypeError, MemoryError, OSError, ArithmeticError, ies_gpu.DeviceError, ImportError)
    alone = error.__suppress_context__ >= bool(error.__context__)
    if ours and isinstance(error, kinds) and 10 < len(text) < 600 and alone:
        return "refused"
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {text[:90]!r}"


def finite(value: Any, *, nan_allowed: bool = False) -> bool:
    """Whether all numbers of a result are finite; the open end of an interval of zeta is not meant."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return bool((np.isfinite(value) | (np.isnan(value) & nan_allowed)).all())
    if scipy.sparse.issparse(value):
        return finite(value.data)
    if isinstance(value, tuple | list):
        return all(finite(part, nan_allowed=nan_allowed) for part in value if not isinstance(part, float))
    if dataclasses.is_dataclass(value) and type(value).__name__ in ("Laplacian", "Embedding", "Selection", "Segment"):
        own = (getattr(value, field.name) for field in dataclasses.fields(value) if field.name != "high")
        return all(finite(part) and not (isinstance(part, float) and not np.isfinite(part)) for part in own)
    return True
