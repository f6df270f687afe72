"""Several devices: every public name works on arrays of a device that is not the current one, and answers there.

CuPy starts kernels on the current device, some without a look at where the arrays are. Here CuPy runs on two devices of
which neither can reach the memory of the other: a kernel that is given it is refused. The tables below must name all
that is public, so that nothing new is forgotten.
"""

from __future__ import annotations

import dataclasses
import sys
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse.csgraph

import ies_gpu
from ies_gpu import datasets, select_coordinates
from ies_gpu.backend import get_backend
from ies_gpu.embedding.laplacian import reorder
from ies_gpu.parameters.judgement import unexplained_variance
from tests.backends import needs_cupy, sent, to_host
from tests.comparison import assert_agreement
from tests.extension import nystrom_extension
from tests.real_cupy import plugged_in

pytestmark = [needs_cupy, pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")]
BANDWIDTH, SETS = 1.2, np.array([[0, k] for k in range(1, 6)])
GIVEN = {"bandwidth": BANDWIDTH, "n_components": 6}
ALL = GIVEN | {"intrinsic_dim": 2, "subset_size": 2}
# what comes back of each: arrays of the device of the input, or numbers and NumPy arrays
ON_DEVICE = {
    "radius_graph": lambda at: ies_gpu.radius_graph(at.X, radius=3 * BANDWIDTH),
    "radius_graph(cosine)": lambda at: ies_gpu.radius_graph(at.X, radius=0.3, metric="cosine"),
    "knn_graph": lambda at: ies_gpu.knn_graph(at.X, n_neighbors=5),
    "gaussian_kernel": lambda at: ies_gpu.gaussian_kernel(at.graph, bandwidth=BANDWIDTH),
    "graph_laplacian": lambda at: ies_gpu.graph_laplacian(at.kernel, bandwidth=BANDWIDTH),
    "laplacian_of_points": lambda at: ies_gpu.laplacian_of_points(at.X, bandwidth=BANDWIDTH),
    "Laplacian.matrix": lambda at: at.laplacian.matrix,
    "Laplacian.scaled": lambda at: at.laplacian.scaled,
    "reorder": lambda at: reorder(at.laplacian).transition,
    "Laplacian.transition": lambda at: at.laplacian.transition,
    "Laplacian.weights": lambda at: at.laplacian.weights,
    "Laplacian.anchor": lambda at: at.laplacian.anchor,
    "diffusion_map": lambda at: ies_gpu.diffusion_map(at.laplacian, n_components=6),
    "smallest_eigenpairs": lambda at: ies_gpu.smallest_eigenpairs(at.combinatorial, 3),
    "cometric": lambda at: ies_gpu.cometric(at.Y, at.laplacian),
    "tangent_bases": lambda at: ies_gpu.tangent_bases(at.Y, at.laplacian, intrinsic_dim=2),
    "riemannian_metric": lambda at: ies_gpu.riemannian_metric(at.Y, at.laplacian, intrinsic_dim=2),
    "score_subsets": lambda at: ies_gpu.score_subsets(at.U, SETS),
    "score_subsets(per_point)": lambda at: ies_gpu.score_subsets(at.U, SETS, per_point=True),
    "leave_one_out_regret": lambda at: ies_gpu.leave_one_out_regret(at.U, SETS[:3], candidates=SETS),
    **{
        name: lambda at, name=name: getattr(ies_gpu, name)(at.U, at.values, subset_size=2)
        for name in ("search_exhaustive", "search_greedy", "search_submodular", "search_branch_and_bound")
    },
    "nystrom_extension": lambda at: nystrom_extension(at.X[:20], at.X, at.Y, at.values, bandwidth=BANDWIDTH),
    "select_coordinates": lambda at: select_coordinates(at.X, **ALL),
    "select_each_part": lambda at: ies_gpu.select_each_part(at.X, **ALL)[0],
    "select_coordinates(graph)": lambda at: select_coordinates(graph=at.graph, **ALL),
    "select_coordinates(kernel)": lambda at: select_coordinates(kernel=at.kernel, **ALL),
    "select_coordinates(cpu)": lambda at: select_coordinates(at.X, device="cpu", **ALL),
    "select_coordinates(cuda:0)": lambda at: select_coordinates(at.X, device="cuda:0", **ALL),
    "Selection.embedding": lambda at: at.selection.embedding,
    "Selection.score": lambda at: at.selection.score((0, 2)),
    "Selection.model": lambda at: at.selection.model(at.X),
    "Model.embedding": lambda at: at.model.embedding,
    "Model.transform": lambda at: at.model.transform(at.X[:7]),
    "Model.inverse_transform": lambda at: at.model.inverse_transform(at.selection.embedding),
    **{
        f"{kind}.{method}": lambda at, kind=kind, method=method: getattr(at.fitted[kind], method)(at.X[:90])
        for kind in ("DiffusionMap", "IndependentCoordinates")
        for method in ("fit_transform", "transform")
    },
    **{
        f"{kind}.inverse_transform": lambda at, kind=kind: at.fitted[kind].inverse_transform(
            at.fitted[kind].transform(at.X[:7])
        )
        for kind in ("DiffusionMap", "IndependentCoordinates")
    },
    "anndata.select": lambda at: ies_gpu.anndata.select(cells(at), use="X_pca", **ALL),
    "datasets.pairwise_distances": lambda at: datasets.pairwise_distances(at.R),
    "datasets.planar_angles": lambda at: datasets.planar_angles(at.R),
    "datasets.torsion_features": lambda at: datasets.torsion_features(at.R, [(0, 1, 2, 3)]),
}
ON_HOST = {
    "backend_of": lambda at: ies_gpu.backend_of(at.X),
    "get_backend": lambda at: get_backend("cuda:1"),
    "regularization_path": lambda at: ies_gpu.regularization_path(ies_gpu.score_subsets(at.U, SETS), SETS, at.values),
    "estimate_dimension": lambda at: ies_gpu.estimate_dimension(at.X),
    "estimate_parameters": lambda at: ies_gpu.estimate_parameters(at.X, **GIVEN, intrinsic_dim=2),
    "unexplained_variance": lambda at: unexplained_variance(at.X, at.Y[:, :2]),
    "diagnose": lambda at: ies_gpu.diagnose(at.selection, laplacian=at.laplacian),
    "selection_stability": lambda at: ies_gpu.selection_stability(at.selection, X=at.X, n_refits=2),
    "umap_init": lambda at: ies_gpu.umap_init(at.selection),
    "Selection.save": lambda at: (at.selection.save(at.folder / "run.npz"), ies_gpu.load(at.folder / "run.npz")),
    "Model.save": lambda at: (at.model.save(at.folder / "model.npz"), ies_gpu.load(at.folder / "model.npz")),
    "anndata.select(X)": lambda at: ies_gpu.anndata.select(cells(at, sparse=True), use="X", **ALL),
    "anndata.select(connectivities)": lambda at: ies_gpu.anndata.select(cells(at), use="connectivities", **ALL),
    "anndata.select(distances)": lambda at: ies_gpu.anndata.select(cells(at), use="distances", **ALL),
    "Model.inverse_error": lambda at: at.model.inverse_error,
    **{
        f"{kind}.inverse_error_": lambda at, kind=kind: at.fitted[kind].inverse_error_
        for kind in ("DiffusionMap", "IndependentCoordinates")
    },
    **{f"Selection.{name}": lambda at, name=name: getattr(at.selection, name)() for name in ("to_pandas", "to_json")},
    "Selection.to_html": lambda at: at.selection.to_html(at.folder / "page.html", points=at.X),
    "Selection.judgement": lambda at: at.selection.judgement,
    "plot.embedding": lambda at: ies_gpu.plot.embedding(at.selection),
    "plot.points": lambda at: ies_gpu.plot.points(at.X),
}


# those without eigenvectors of their own, whose signs may differ
SAME = (
    "radius_graph", "radius_graph(cosine)", "knn_graph", "gaussian_kernel", "graph_laplacian", "Laplacian.matrix",
    "Laplacian.weights", "cometric", "score_subsets", "score_subsets(per_point)", "leave_one_out_regret",
    "regularization_path", "search_exhaustive", "search_greedy", "search_submodular", "search_branch_and_bound",
    "nystrom_extension", "unexplained_variance",
)  # fmt: skip


def cells(at, *, sparse: bool = False) -> SimpleNamespace:
    """An AnnData as rapids-singlecell leaves it: dense and sparse arrays on a GPU."""
    X = at.X if not sparse else at.sparse_X
    parts = {"obsm": {"X_pca": at.X}, "obsp": {"connectivities": at.kernel, "distances": at.graph}}
    return SimpleNamespace(X=X, n_obs=400, uns={}, var_names=["x", "y", "z"], **parts)


def devices_in(value) -> set[int]:
    """The devices of all arrays in a result."""
    cupy, sparse = sys.modules["cupy"], sys.modules["cupyx.scipy.sparse"]
    if isinstance(value, cupy.ndarray):
        return {value.device.id}
    if sparse.issparse(value):
        return {value.data.device.id}
    if isinstance(value, ies_gpu.Laplacian):
        value = value.transition, value.weights
    if dataclasses.is_dataclass(value):
        value = tuple(getattr(value, field.name) for field in dataclasses.fields(value))
    return set().union(*map(devices_in, value)) if isinstance(value, tuple) else set()


def numbers_in(value) -> list[np.ndarray]:
    """All arrays and numbers in a result, on the host."""
    value = to_host(value)
    if scipy.sparse.issparse(value):
        value = value.toarray()
    if isinstance(value, ies_gpu.Laplacian):
        value = value.transition, value.weights
    if dataclasses.is_dataclass(value):
        value = tuple(vars(value).values())
    if isinstance(value, tuple):
        return [number for part in value for number in numbers_in(part)]
    return [value] if isinstance(value, np.ndarray | np.number | int | float) else []


@cache
def on_the_cpu() -> tuple:
    """Arrays of 400 points of D1, computed once."""
    X = datasets.load("D1", n_samples=400).X
    laplacian = ies_gpu.laplacian_of_points(X, bandwidth=BANDWIDTH)
    found = ies_gpu.diffusion_map(laplacian, n_components=6)
    U = ies_gpu.tangent_bases(found.coordinates, laplacian, intrinsic_dim=2)
    return X, found.coordinates, found.eigenvalues, U, np.random.default_rng(0).normal(size=(30, 4, 3))


@pytest.fixture(scope="module")
def at(tmp_path_factory):
    """Two devices, arrays on the second, the first is the current one."""
    pytest.importorskip("sklearn")
    with plugged_in(n_devices=2) as machine:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(1):
            X, Y, values, U, R = map(cupy.asarray, on_the_cpu())
            graph = ies_gpu.radius_graph(X, radius=3 * BANDWIDTH)
            kernel = ies_gpu.gaussian_kernel(graph, bandwidth=BANDWIDTH)
            laplacian = ies_gpu.graph_laplacian(kernel, bandwidth=BANDWIDTH)
            weights = ies_gpu.radius_graph(on_the_cpu()[0], radius=3 * BANDWIDTH)
            combinatorial = sent(scipy.sparse.csgraph.laplacian(weights).tocsr(), get_backend("cuda:1"))
            selection = select_coordinates(X, **ALL)
            fitted = {
                "DiffusionMap": ies_gpu.DiffusionMap(**GIVEN).fit(X),
                "IndependentCoordinates": ies_gpu.IndependentCoordinates(**ALL).fit(X),
            }
            model = selection.model(X)
            sparse_X = sys.modules["cupyx.scipy.sparse"].csr_matrix(X)
        assert machine.current == 0
        yield SimpleNamespace(
            X=X, Y=Y, values=values, U=U, R=R, graph=graph, kernel=kernel, combinatorial=combinatorial,
            laplacian=laplacian, selection=selection, fitted=fitted, model=model, sparse_X=sparse_X, machine=machine,
            folder=tmp_path_factory.mktemp("devices"),
        )  # fmt: skip


def test_a_kernel_on_the_other_device_would_be_noticed(at):
    for value in (at.X, at.graph):
        with pytest.raises(Exception, match="device"):
            abs(value)


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


@pytest.mark.parametrize("name", SAME)
def test_values_are_those_of_the_cpu(at, name):
    X, Y, values, U, _ = on_the_cpu()
    laplacian = ies_gpu.laplacian_of_points(X, bandwidth=BANDWIDTH)
    graph = ies_gpu.radius_graph(X, radius=3 * BANDWIDTH)
    kernel = ies_gpu.gaussian_kernel(graph, bandwidth=BANDWIDTH)
    host = SimpleNamespace(X=X, Y=Y, values=values, U=U, graph=graph, kernel=kernel, laplacian=laplacian)
    found, expected = (numbers_in((ON_DEVICE | ON_HOST)[name](where)) for where in (at, host))
    assert len(found) == len(expected) > 0
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10 * np.abs(theirs).max())


@pytest.mark.parametrize("device", ["cuda:1", "cpu"])
def test_points_of_the_host_may_be_sent_to_any_device(at, device, monkeypatch):
    monkeypatch.delenv("IES_GPU_DEVICE", raising=False)
    assert_agreement(select_coordinates(on_the_cpu()[0], device=device, **ALL), at.selection)
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
    cupy, host = sys.modules["cupy"], on_the_cpu()
    with cupy.cuda.Device(1):
        pairs = [
            (ies_gpu.cometric(host[1], at.laplacian), ies_gpu.cometric(at.Y, at.laplacian)),
            (ies_gpu.riemannian_metric(host[1], at.laplacian, intrinsic_dim=2).G,
             ies_gpu.riemannian_metric(at.Y, at.laplacian, intrinsic_dim=2).G),
        ]  # fmt: skip
        for found, expected in pairs:
            assert found.device.id == 1 and (cupy.asnumpy(found) == cupy.asnumpy(expected)).all()
        explained = [unexplained_variance(at.X, Y) for Y in (host[1], at.Y)]
    assert explained[0] == explained[1]
