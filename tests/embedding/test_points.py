"""The Laplacian of points by itself, with the bits of a run; and how its kernel is stored, within a limit of memory."""

import json
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from ies_gpu import (
    DisconnectedGraphError,
    diffusion_map,
    gaussian_kernel,
    laplacian_of_points,
    radius_graph,
    select_coordinates,
    tangent_bases,
)
from ies_gpu.embedding.graph import ordered_radius_graph, spatial_order
from ies_gpu.embedding.points import SLOW, Size, plan, smallest_limit
from ies_gpu.findings import listen
from tests.manifolds import rectangle
from tests.said import refused, warned

X, _, EPS = rectangle(500, 3.0, degree=40)
FAR = np.vstack([X[:250], [[90.0] * X.shape[1], [90.01] * X.shape[1]], X[250:]])  # two points on their own
ON_HOST = pytest.mark.parametrize("backend", ["plain", "numba"], indirect=True)  # the same kernels by hand and in a run
SIZES = {"intrinsic_dim": 2, "subset_size": 2, "n_components": 8}


@pytest.mark.parametrize("asked", [
    {"bandwidth": EPS}, {"bandwidth": EPS, "self_loops": False}, {"bandwidth": EPS, "alpha": 0.5},
    {"bandwidth": EPS, "n_neighbors": 20}, {"bandwidth": "local"},
])  # fmt: skip
@ON_HOST
def test_steps_by_hand_give_the_bits_of_a_run(backend, asked):
    found = select_coordinates(X, **asked, **SIZES, scale="unit", device="cpu")
    laplacian = laplacian_of_points(X, **asked, intrinsic_dim=2)
    embedding = diffusion_map(laplacian, n_components=8)
    np.testing.assert_array_equal(embedding.eigenvalues, found.eigenvalues)
    # signs follow X in a run, which also scales once more
    np.testing.assert_allclose(abs(embedding.coordinates), abs(found.coordinates), rtol=1e-14)
    U = tangent_bases(embedding.coordinates, laplacian, intrinsic_dim=2)
    np.testing.assert_array_equal(abs(U), abs(found.bases))


def test_a_graph_in_parts_is_kept_refused_or_reduced():
    assert laplacian_of_points(FAR, bandwidth=EPS).shape == (502, 502)
    with refused("graph.disconnected", DisconnectedGraphError):
        laplacian_of_points(FAR, bandwidth=EPS, disconnected="raise")
    with warned("graph.left_out"):
        largest = laplacian_of_points(FAR, bandwidth=EPS, disconnected="largest")
    assert largest.facts["graph_components"] == 2 and set(range(502)) - {*largest.rows.used} == {250, 251}
    alone = laplacian_of_points(X, bandwidth=EPS)
    np.testing.assert_allclose(largest.transition.toarray(), alone.transition.toarray(), atol=1e-14)
    assert not np.array_equal(alone.rows.order, np.arange(500))  # though that is the order of the matrix
    assert diffusion_map(largest, n_components=3).coordinates.shape == (500, 3)


@ON_HOST
def test_a_laplacian_with_its_rows_can_be_given_with_its_map(backend):
    """Its own order is not that of the input, in which the coordinates are passed."""
    laplacian = laplacian_of_points(X, bandwidth=EPS)
    embedding = diffusion_map(laplacian, n_components=8)
    given = {"laplacian": laplacian, "coordinates": -embedding.coordinates, "eigenvalues": embedding.eigenvalues}
    found = select_coordinates(**given, intrinsic_dim=2, subset_size=2, device="cpu")
    expected = select_coordinates(X, bandwidth=EPS, **SIZES, device="cpu")
    np.testing.assert_array_equal(found.coordinates, -embedding.coordinates)  # as they were given, signs too
    assert found.subset == expected.subset
    np.testing.assert_array_equal(found.singular_values, expected.singular_values)


GB = 1 << 30
STRIP = Size(n=200_000, D=2, z=200_000 * 99.0, m=20, d=2, w=8)
DENSE = Size(n=50_000, D=14, z=50_000 * 26_600.0, m=20, d=3, w=8)


def test_less_memory_never_gives_a_faster_plan_and_every_plan_fits():
    for size in (STRIP, DENSE, STRIP._replace(z=200_000 * 1270.0)):
        limits = np.geomspace(100 * GB, 1.001 * smallest_limit(size, np.inf), 60)
        plans = [plan(size, limit) for limit in limits]
        assert all(found.bytes <= limit for found, limit in zip(plans, limits, strict=True))
        assert (np.diff([found.seconds for found in plans]) >= 0).all()
        with refused("memory.too_little"):
            plan(size, 0.9 * smallest_limit(size, np.inf))
    # the limit that a warning names is enough, and not much too large
    assert plan(STRIP, 0.45 * GB).slow and plan(STRIP, 0.98 * smallest_limit(STRIP, SLOW)).slow
    assert not plan(STRIP, smallest_limit(STRIP, SLOW)).slow


def test_what_does_not_fit_as_a_matrix_is_recomputed_or_kept_as_tiles():
    assert [plan(STRIP, limit * GB).storage for limit in (2, 1, 0.45)] == ["memory"] * 3
    assert plan(STRIP, 2 * GB).multilevel and not plan(STRIP, 0.45 * GB).multilevel
    assert plan(STRIP, 0.3 * GB).storage == "recomputed"
    # a graph that joins half of all pairs: 16 GB as rows, 5 GB as tiles
    assert plan(DENSE, 8 * GB).storage == "tiles" and plan(DENSE, GB).storage == "recomputed"


def test_a_graph_is_built_within_its_own_size_and_an_eighth(backend):
    """Ten million points of degree 66 fit 16 GB because no second copy of the rows is held."""
    size = Size(n=10**7, D=3, z=10**7 * 67.0, m=20, d=2, w=4)
    assert plan(size, 16e9).storage == "memory" and plan(size, 16e9).multilevel
    points, _, bandwidth = rectangle(20_000, 4.0, degree=150)
    X = points[spatial_order(points)]
    with backend.active():
        tracemalloc.start()
        graph = ordered_radius_graph(X, 3 * bandwidth, diagonal=True)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    own = graph.data.nbytes + graph.indices.nbytes
    assert peak < 1.125 * own + 3 * X.nbytes + 2 * backend.block_bytes() + (12 << 20)


def least_limit(*args, **options):
    """The limit that a run refuses to go below."""
    with refused("memory.too_little") as caught:
        select_coordinates(*args, **options)
    return float(caught.value.finding.advised["memory_limit"])


def test_a_limit_that_cannot_be_held_is_refused_before_the_work():
    points, _, bandwidth = rectangle(3000, 4.0, degree=150)
    options, seen = SIZES | {"bandwidth": bandwidth}, []
    least = least_limit(points, memory_limit=2 << 20, progress=lambda *now: seen.append(now[0]), **options)
    assert set(seen) <= {"checks", "neighbours", "order"}
    found = select_coordinates(points, memory_limit=int(least), **options)  # what it asks for is enough
    usual = select_coordinates(points, **options)
    assert found.subset == usual.subset
    np.testing.assert_allclose(found.eigenvalues, usual.eigenvalues, rtol=1e-6)


@pytest.mark.parametrize("entry", ["graph", "kernel"])
def test_a_given_matrix_takes_what_is_said_or_is_refused(entry):
    """What Python and NumPy allocate, against the limit that the error asks for."""
    points, _, bandwidth = rectangle(4000, 4.0, degree=100)
    graph = radius_graph(points, radius=3 * bandwidth)
    given = {entry: graph if entry == "graph" else gaussian_kernel(graph, bandwidth=bandwidth)}
    options = SIZES | {"bandwidth": bandwidth, "n_components": 20} | given
    least = least_limit(memory_limit=4 << 20, **options)
    tracemalloc.start()
    select_coordinates(memory_limit=int(1.001 * least), **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.5 * least < peak < 1.1 * least + 18e6  # a turn and the verdict look at a sample, however many points


def test_what_takes_much_longer_is_said_before_the_graph(monkeypatch):
    monkeypatch.setattr("ies_gpu.embedding.points.SHORT", 0.0)
    points, _, bandwidth = rectangle(6000, 4.0, degree=60)
    options, begun, before = SIZES | {"bandwidth": bandwidth, "n_components": 12, "untangle": False}, [], []
    with listen(hear=lambda finding: before.append(list(begun))):
        found = select_coordinates(points, memory_limit=14 << 20, progress=lambda *now: begun.append(now[0]), **options)
    (said,) = found.findings
    assert said.code == "memory.slow" and "memory_limit" in said.advised and "graph" not in before[0]


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")
@pytest.mark.parametrize("limit", [0.45, 0.6, 1.0, 2.0])
def test_the_limit_is_kept_within_a_tenth(limit):
    """200,000 points with 98 neighbours; the memory of a small run before it is the baseline."""
    code = f"""
import json, resource, warnings
import numpy as np
from ies_gpu import select_coordinates
from ies_gpu.backend.cpu import resident_memory
warnings.simplefilter("ignore")
rng, options = np.random.default_rng(0), dict(intrinsic_dim=2, subset_size=2, device="cpu")
select_coordinates(rng.uniform(size=(6000, 2)) * [25.0, 4.0], bandwidth=0.3, **options)
X, eps = rng.uniform(size=(200_000, 2)) * [25.0, 4.0], float(np.sqrt(1e4 / (np.pi * 200_000)) / 3)
before = resident_memory()
found = select_coordinates(X, bandwidth=eps, memory_limit=int({limit} * 2**30), **options)
peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps([peak, found.diagnostics["storage"]["kernel"], found.subset]))
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    peak, kernel, subset = json.loads(process.stdout)
    print(f"limit {limit} GB: peak {peak / GB:.3f} GB over the baseline, {kernel}")
    assert peak <= 1.1 * limit * GB and subset == [0, 6]
