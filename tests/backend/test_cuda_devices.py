"""Several devices: every public name works on arrays of a device that is not the current one, and answers there.

CuPy starts kernels on the current device, some without a look at where the arrays are. Here CuPy runs on two devices of
which neither can reach the memory of the other: a kernel that is given it is refused. Public functions are those of
``tests/validation/hostile.py``, which misses none; methods are listed here.
"""

import dataclasses
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse

import ies_gpu
from ies_gpu import select_coordinates
from ies_gpu.backend import get_backend
from ies_gpu.embedding.laplacian import reorder
from ies_gpu.parameters.judgement import unexplained_variance
from tests.backends import needs_cupy, sent, to_host
from tests.comparison import assert_agreement
from tests.extension import nystrom_extension
from tests.real_cupy import plugged_in
from tests.validation.hostile import EPS, calls, sound

pytestmark = [needs_cupy, pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")]
GIVEN = {"bandwidth": EPS, "n_components": 6}
ALL = GIVEN | {"intrinsic_dim": 2, "subset_size": 2}
KINDS = ("DiffusionMap", "IndependentCoordinates")
# what returns numbers and NumPy arrays; all other functions return arrays of the device of the input
ANSWERS = (
    "backend_of", "regularization_path", "estimate_dimension", "estimate_parameters", "diagnose", "selection_stability",
    "umap_init",
)  # fmt: skip
FUNCTIONS = [
    name for name, (_, own) in calls().items()
    if not name.startswith(("Selection.", "Model.", "plot.", *KINDS, "anndata.")) and {"path", "name"}.isdisjoint(own)
]  # fmt: skip
SIGNS = ("diffusion_map", "smallest_eigenpairs", "tangent_bases", "riemannian_metric", "select")  # of eigenvectors
WITHOUT = (*SIGNS, "backend_of", "diagnose", "umap_init")
COMPARED = [name for name in FUNCTIONS if not name.startswith(WITHOUT)]
# methods, and functions in other ways
ON_DEVICE = {
    "radius_graph(cosine)": lambda at: ies_gpu.radius_graph(at.X, radius=0.3, metric="cosine"),
    **{f"Laplacian.{name}": lambda at, name=name: getattr(at.laplacian, name)
       for name in ("matrix", "scaled", "transition", "weights", "anchor")},
    "reorder": lambda at: reorder(at.laplacian).transition,
    "score_subsets(per_point)": lambda at: ies_gpu.score_subsets(at.bases, sound()["subsets"], per_point=True),
    "nystrom_extension": lambda at: nystrom_extension(
        at.X[:20], at.X, at.coordinates, at.eigenvalues, bandwidth=EPS),
    "select_coordinates(cpu)": lambda at: select_coordinates(at.X, device="cpu", **ALL),
    "select_coordinates(cuda:0)": lambda at: select_coordinates(at.X, device="cuda:0", **ALL),
    "Selection.embedding": lambda at: at.selection.embedding,
    "Selection.score": lambda at: at.selection.score((0, 2)),
    "Selection.model": lambda at: at.selection.model(at.X),
    "Model.embedding": lambda at: at.model.embedding,
    "Model.transform": lambda at: at.model.transform(at.X[:7]),
    "Model.inverse_transform": lambda at: at.model.inverse_transform(at.selection.embedding),
    **{f"{kind}.{method}": lambda at, kind=kind, method=method: getattr(at.fitted[kind], method)(at.X[:90])
       for kind in KINDS for method in ("fit_transform", "transform")},
    **{f"{kind}.inverse_transform": lambda at, kind=kind: at.fitted[kind].inverse_transform(
        at.fitted[kind].transform(at.X[:7])) for kind in KINDS},
    "anndata.select": lambda at: ies_gpu.anndata.select(cells(at), use="X_pca", **ALL),
}  # fmt: skip
ON_HOST = {
    "get_backend": lambda at: get_backend("cuda:1"),
    "unexplained_variance": lambda at: unexplained_variance(at.X, at.coordinates[:, :2]),
    "Selection.save": lambda at: (at.selection.save(at.folder / "run.npz"), ies_gpu.load(at.folder / "run.npz")),
    "Model.save": lambda at: (at.model.save(at.folder / "model.npz"), ies_gpu.load(at.folder / "model.npz")),
    "anndata.select(X)": lambda at: ies_gpu.anndata.select(cells(at, sparse=True), use="X", **ALL),
    **{f"anndata.select({use})": lambda at, use=use: ies_gpu.anndata.select(cells(at), use=use, **ALL)
       for use in ("connectivities", "distances")},
    "Model.inverse_error": lambda at: at.model.inverse_error,
    **{f"{kind}.inverse_error_": lambda at, kind=kind: at.fitted[kind].inverse_error_ for kind in KINDS},
    **{f"Selection.{name}": lambda at, name=name: getattr(at.selection, name)() for name in ("to_pandas", "to_json")},
    "Selection.to_html": lambda at: at.selection.to_html(at.folder / "page.html", points=at.X),
    "Selection.judgement": lambda at: at.selection.judgement,
    "plot.embedding": lambda at: ies_gpu.plot.embedding(at.selection),
    "plot.points": lambda at: ies_gpu.plot.points(at.X),
}  # fmt: skip


def there(values, device="cuda:1"):
    """Arrays on a device, by default the second."""
    with get_backend(device).active():
        return sent(values, get_backend(device))


def called(name, *, selection=None, device="cuda:1"):
    """What a function makes of its usual arguments, sent to a device."""
    function, own = calls()[name]
    known = {"selection": selection} if "selection" in own else {}
    return function(**there({key: value for key, value in own.items() if key not in known}, device), **known)


def assert_as_on_the_cpu(name, found):
    function, own = calls()[name]
    numbers = [[x for x in leaves(to_host(part)) if not isinstance(x, str | dict)] for part in (found, function(**own))]
    for ours, theirs in zip(*numbers, strict=True):
        if scipy.sparse.issparse(theirs):
            ours, theirs = ours.toarray(), theirs.toarray()
        if isinstance(theirs, np.ndarray | np.number | int | float):
            np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10 * np.abs(theirs).max())


def cells(at, *, sparse: bool = False) -> SimpleNamespace:
    """An AnnData as rapids-singlecell leaves it: dense and sparse arrays on a GPU."""
    X = at.X if not sparse else at.sparse_X
    parts = {"obsm": {"X_pca": at.X}, "obsp": {"connectivities": at.kernel, "distances": at.graph}}
    return SimpleNamespace(X=X, n_obs=len(at.X), uns={}, var_names=["x", "y", "z"], **parts)


def leaves(value) -> list:
    """All arrays and numbers in a result."""
    if isinstance(value, ies_gpu.Laplacian):
        value = value.transition, value.weights
    if dataclasses.is_dataclass(value):
        value = tuple(getattr(value, field.name) for field in dataclasses.fields(value))
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple | list) else [value]


def devices_in(value) -> set[int]:
    """The devices of all arrays in a result."""
    cupy, sparse = sys.modules["cupy"], sys.modules["cupyx.scipy.sparse"]
    data = [leaf.data if sparse.issparse(leaf) else leaf for leaf in leaves(value)]
    return {array.device.id for array in data if isinstance(array, cupy.ndarray)}


@pytest.fixture(scope="module")
def at(tmp_path_factory):
    """Two devices, arrays on the second, the first is the current one."""
    pytest.importorskip("sklearn")
    names = ("X", "coordinates", "eigenvalues", "bases", "graph", "kernel", "laplacian")
    with plugged_in(n_devices=2) as machine:
        cupy = sys.modules["cupy"]
        given = there({name: sound()[name] for name in names})
        with cupy.cuda.Device(1):
            selection = select_coordinates(given["X"], **ALL)
            fitted = {
                "DiffusionMap": ies_gpu.DiffusionMap(**GIVEN).fit(given["X"]),
                "IndependentCoordinates": ies_gpu.IndependentCoordinates(**ALL).fit(given["X"]),
            }
            model = selection.model(given["X"])
            sparse_X = sys.modules["cupyx.scipy.sparse"].csr_matrix(given["X"])
        assert machine.current == 0
        folder = tmp_path_factory.mktemp("devices")
        more = {"selection": selection, "fitted": fitted, "model": model, "sparse_X": sparse_X, "folder": folder}
        yield SimpleNamespace(**given, **more, machine=machine)


def test_a_kernel_on_the_other_device_would_be_noticed(at):
    for value in (at.X, at.graph):
        with pytest.raises(Exception, match="device"):
            abs(value)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_answer_where_the_arrays_live_and_as_on_the_cpu(at, name):
    found = called(name, selection=at.selection)
    assert devices_in(found) == (set() if name in ANSWERS else {1})
    assert at.machine.current == 0
    if name in COMPARED:
        assert_as_on_the_cpu(name, found)


@pytest.mark.parametrize("name", ON_DEVICE)
def test_arrays_come_back_where_those_given_live(at, name):
    assert devices_in(ON_DEVICE[name](at)) == {1}
    assert at.machine.current == 0


@pytest.mark.parametrize("name", ON_HOST)
def test_numbers_come_from_wherever_the_arrays_live(at, name):
    if name.startswith("plot"):
        pytest.importorskip("matplotlib")
    assert devices_in(ON_HOST[name](at)) == set()
    assert at.machine.current == 0


@pytest.mark.parametrize("device", ["cuda:1", "cpu"])
def test_points_of_the_host_may_be_sent_to_any_device(at, device, monkeypatch):
    monkeypatch.delenv("IES_GPU_DEVICE", raising=False)
    assert_agreement(select_coordinates(sound()["X"], device=device, **ALL), at.selection)
    assert at.machine.current == 0
    with pytest.raises(ZeroDivisionError), get_backend("cuda:1").active():
        assert at.machine.current == 1
        raise ZeroDivisionError
    assert at.machine.current == 0


def test_downloads_wait_for_the_device_of_the_array(at):
    """``get`` uses the current stream of the current device: another one does not know when the array is ready."""
    at.machine.waited.clear()
    ies_gpu.backend_of(at.X).to_host(at.X)
    assert at.machine.waited == [1]


def test_coordinates_may_live_elsewhere_than_the_laplacian_or_the_points(at):
    """They are brought there, and the result lives there."""
    cupy, host = sys.modules["cupy"], sound()["coordinates"]
    with cupy.cuda.Device(1):
        pairs = [
            (ies_gpu.cometric(host, at.laplacian), ies_gpu.cometric(at.coordinates, at.laplacian)),
            (ies_gpu.riemannian_metric(host, at.laplacian, intrinsic_dim=2).G,
             ies_gpu.riemannian_metric(at.coordinates, at.laplacian, intrinsic_dim=2).G),
        ]  # fmt: skip
        for found, expected in pairs:
            assert found.device.id == 1 and (cupy.asnumpy(found) == cupy.asnumpy(expected)).all()
        explained = [unexplained_variance(at.X, Y) for Y in (host, at.coordinates)]
    assert explained[0] == explained[1]
