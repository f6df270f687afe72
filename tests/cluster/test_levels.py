"""The eigensolver in pieces: its levels, what travels between workers, and the equations it solves."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from ies_gpu import ClusterError, datasets, select_coordinates

from ..backends import needs_cupy
from .clusters import check_same, device_of_workers, too_large


def expected_bytes(info, n, width, m, d, workers):
    """The formulas of docs/cluster.md."""
    cluster, solver = info["cluster"], info["solver"]
    H, blocks = cluster["rows_exchanged"], cluster["blocks"]
    segments = len(info["path"])

    def level(went, rows, once):
        exchanged = (4 * went["fine"] + 8 * went["exact"] + once) * rows
        through_cells = 4 * (went["cells"] * went["up"] + went["wanted_cells"] * went["down"])
        small = 8 * (blocks * went["gram"] + went["sums"] + went["coarse_entries"] + 2 * went["cells"])
        return exchanged + through_cells + small

    return {
        "order": 8 * width * n + (1 - 1 / workers) * 8 * (width + 1) * n,  # of so few points all are the sample
        "laplacian": 16 * H,
        "eigenvectors": level(solver["travelled"], H, 16) + 4 * n
        + sum(level(went, went["rows"], 24) for went in solver["travelled_below"]),
        "tangents": 8 * m * H,
        "result": 8 * n * (m + d + segments + 3),
    }  # fmt: skip


def test_counted_bytes_are_those_of_the_formulas(client, strip):
    X, options, _ = strip
    found = select_coordinates(X, client=client, keep_bases=False, **options)
    info = found.diagnostics | {"path": found.path}
    for stage, bytes_ in expected_bytes(info, len(X), X.shape[1], 20, 2, 2).items():
        assert info["cluster"][stage]["bytes"] == pytest.approx(bytes_, rel=0.1), stage


def test_a_coarse_level_stays_in_blocks_where_half_of_a_worker_is_too_small_for_it():
    from ies_gpu.cluster.levels import first_share, stays_in_blocks

    def of(gigabytes, cells=6_000_000, held=0):
        team = SimpleNamespace(memory_of=lambda block: gigabytes * 1e9)
        level = SimpleNamespace(team=team, points=np.full(8, 6 * cells // 8))
        return stays_in_blocks(level, cells, held, 25 * cells, 20 + 1 + 11, 3)

    need = 6e6 * (28 * 26 + 450 + 8 * 25) / 1e9
    assert of(1.99 * need) and not of(2.01 * need)
    assert not of(4e-3, cells=2000)  # the next level would have too few cells for the eigenvectors
    assert not of(1.5 * need, held=5_000_000)  # or not smaller, but this one fits
    with pytest.raises(ClusterError, match=r"8\.3 GB on one worker, which has 4\.0 GB.*5,000,000 points are almost"):
        of(4.0, held=5_000_000)
    team = SimpleNamespace(memory_limits=lambda: {"a": 2 * 10**9, "b": 4 * 10**9})
    shares = [first_share(team, n, 20) for n in (4_000_000, 40_000_000, 400_000_000)]
    assert shares == pytest.approx([1 / 6, 1 / 48, 1 / 384])  # the first worker gets blocks instead


@pytest.mark.thorough
def test_coarse_levels_that_are_too_large_for_a_worker_stay_in_blocks(client, strip, monkeypatch):
    from ies_gpu.cluster import levels

    lone, begin = [], levels.LoneLevel.__init__

    def noted(self, *given):
        begin(self, *given)
        lone.append(self)

    monkeypatch.setattr(levels.LoneLevel, "__init__", noted)
    X, options = strip[0], strip[1] | {"tol": 1e-12}
    one = select_coordinates(X, **options)
    too_large(monkeypatch, client, 400)
    found = select_coordinates(X, client=client, keep_bases=False, **options)
    check_same(one, found, scores=1e-8)
    solver = found.diagnostics["solver"]
    assert solver["method"] == "multilevel"
    assert solver["coarse_sizes"] == pytest.approx([1024, 512, 256], rel=0.1)  # cells of 6, 12 and 24 points
    assert len(solver["travelled_below"]) == 2
    (last,) = lone
    assert last.whole.result().n == last.n == solver["coarse_sizes"][-1]
    assert len(client.who_has([last.whole])[last.whole.key]) == 1
    info = found.diagnostics | {"path": found.path}
    counted = info["cluster"]["eigenvectors"]["bytes"]
    assert counted == pytest.approx(expected_bytes(info, len(X), 3, 20, 2, 2)["eigenvectors"], rel=0.1)


@pytest.mark.slow
def test_a_coarse_level_in_blocks_with_cells_of_the_usual_sizes(client, monkeypatch):
    X = datasets.load("D1", n_samples=16_500).X
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.15, "tol": 4e-12, "device": "cpu"}
    one = select_coordinates(X, **options)
    too_large(monkeypatch, client, 2000, ratio=3)
    found = select_coordinates(X, client=client, keep_bases=False, **options)
    check_same(one, found, scores=1e-7)  # phi1 with phi6 nearly loses rank: 1.7e-8 with the level on one worker, too
    sizes = [selection.diagnostics["solver"]["coarse_sizes"] for selection in (one, found)]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.1) and len(sizes[1]) == 2


def there(backend, *arrays):
    """Arrays in the memory of a worker's device."""
    found = tuple(backend.asarray(array) for array in arrays)
    return found if len(found) > 1 else found[0]


def here(backend, array):
    return backend.to_host(array)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cupy)])
def test_rows_of_a_block_merged_by_cells_are_products_with_the_weights(device):
    from ies_gpu.backend import get_backend
    from ies_gpu.cluster.cells import Cells, cells_wanted, extents_of, merged_rows

    rng = np.random.default_rng(2)
    S = np.where(rng.random((40, 70)) < 0.3, rng.random((40, 70)), 0).astype(np.float32)
    starts = np.array([0, 8, 15, 16, 30, 40])
    own = np.stack([np.repeat(7 + np.arange(5), np.diff(starts)), rng.random(40)], axis=1)
    others = [np.stack([np.repeat(cells, 5), rng.random(15)], axis=1) for cells in ([0, 1, 4], [12, 13, 20])]
    labels, weights = np.concatenate([own, *others]).T
    wanted = [7, 8, 9, 10, 11, 0, 1, 4, 12, 13, 20]
    P0 = weights[:, None] * (labels[:, None] == wanted)
    A = csr_array(S)
    with device_of_workers(device):
        backend = get_backend(device)
        entries = there(backend, A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data)
        cells = Cells(starts, starts, np.arange(0), np.ones(5), backend.asarray(own[:, 1].astype(np.float32)))
        found = merged_rows(backend, entries, cells, own, *others)
        product = csr_array(tuple(backend.to_host(part) for part in found.product[::-1]), shape=(40, 11))
        first = np.array([0, 7, 12, 21])  # cells of three blocks, of which this is the second
        away = {j: here(backend, want).tolist() for j, want in cells_wanted(backend, found, [0, 2], first).items()}
    assert found.wanted.tolist() == wanted and away == {0: [0, 1, 4], 2: [0, 1, 8]}
    assert extents_of(backend, found, first) == ({0: 3, 1: 5, 2: 3}, len(found.rows[2]))
    np.testing.assert_allclose(product.toarray(), S @ P0, rtol=1e-5)
    np.testing.assert_allclose(csr_array(found.rows[::-1], shape=(5, 11)).toarray(), P0[:40, :5].T @ S @ P0, rtol=1e-5)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cupy)])
def test_conjugate_gradients_in_pieces_solve_the_shifted_equations_beside_some_vectors(client, device):
    from ies_gpu.cluster.levels import TallLevel
    from ies_gpu.cluster.team import Pieces, Several, Team

    rng = np.random.default_rng(5)
    sizes = np.array([70, 50])
    n, rows = sizes.sum(), [np.arange(70), np.arange(70, 120)]
    vectors = np.linalg.qr(rng.normal(size=(n, n)))[0]
    values = np.sort(rng.uniform(0, 0.9, n))[::-1]
    values[:3] = 1, 0.99, 0.98
    S, Q, F = (vectors * values) @ vectors.T, vectors[:, :3], rng.normal(size=(n, 8))
    F[:, 5] = 0
    shift = np.linspace(0.97, 1.1, 8)
    beside = F - Q @ (Q.T @ F)
    expected = np.stack([np.linalg.solve(s * np.eye(n) - S, f) for s, f in zip(shift, beside.T, strict=True)], axis=1)

    def solved(steps):
        level.steps = steps
        Z = np.concatenate(team.gather(team.map(here, level.inverse(F_there, shift, Q_there).parts)))
        return Z, np.linalg.norm(beside - (Z * shift - S @ Z), axis=0)

    with device_of_workers(device):
        team = Team(client, device)
        team.places, team.near = team.workers, [[1], [0]]
        outgoing = [{1: np.arange(70)}, {0: np.arange(50)}]
        columns = [np.arange(n), np.concatenate([rows[1], rows[0]])]
        parts = [csr_array(S[own][:, others].astype(np.float32)) for own, others in zip(rows, columns, strict=True)]
        entries = team.map(there, [Several((A.indptr.astype(np.int64), A.indices, A.data)) for A in parts])
        level = TallLevel(team, sizes, sizes, entries, outgoing)
        F_there, Q_there = (
            Pieces(team, team.map(there, [A[own].astype(np.float32) for own in rows]), A.shape) for A in (F, Q)
        )
        found, _ = solved(25)
        np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())
        assert (found[:, 5] == 0).all()
        (late,) = team.gather([level.late])
        # so many steps leave more than a tenth of some column, and one more leaves less
        goal = 0.1 * np.linalg.norm(beside, axis=0) + 1e-6
        assert (solved(late)[1] > 0.999 * goal).any() and (solved(late + 1)[1] <= 1.001 * goal).all()
