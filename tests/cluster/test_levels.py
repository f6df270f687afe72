"""The eigensolver in pieces, and arrays in pieces: what they give is what one array gives."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from ies_gpu import ClusterError
from ies_gpu.backend import get_backend
from ies_gpu.backend.kernels import plain
from ies_gpu.choice.rmetric import Tangents
from ies_gpu.choice.search import choose_coordinates
from ies_gpu.cluster.arrays import Pieces, TallBackend, TeamBackend
from ies_gpu.cluster.levels import Cells, merged_rows, refuse_beyond
from ies_gpu.cluster.team import Team, joined
from ies_gpu.embedding.diffusion import Embedding

from ..backends import needs_cupy
from ..said import refused
from .clusters import device_of_workers


def test_coarse_levels_that_do_not_fit_one_worker_are_refused():
    team = SimpleNamespace(memory_of_first=lambda: 4e9)
    refuse_beyond(team, 4e9, "cluster.level_too_large", "a coarse level", "")
    with refused("cluster.level_too_large", ClusterError) as told:
        refuse_beyond(team, 8.3e9, "cluster.level_too_large", "a coarse level", "")
    assert "8.3 GB on one worker, and the largest has 4.0 GB" in str(told.value)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cupy)])
def test_rows_of_a_block_merged_by_cells_are_products_with_the_weights(device):
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
        entries = tuple(map(backend.asarray, (A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data)))
        cells = Cells(starts, np.arange(0), np.ones(5), backend.asarray(own[:, 1].astype(np.float32)))
        product, cells_of_columns, rows = merged_rows(backend, entries, cells, own, others)
        product = csr_array(tuple(backend.to_host(part) for part in product[::-1]), shape=(40, 11))
    assert cells_of_columns.tolist() == wanted
    np.testing.assert_allclose(product.toarray(), S @ P0, rtol=1e-5)
    np.testing.assert_allclose(rows.toarray()[:, wanted], P0[:40, :5].T @ S @ P0, rtol=1e-5)


def in_pieces(team, array, cuts):
    return Pieces(team, team.map(joined, np.split(array, cuts), ()), array.shape)


@pytest.mark.parametrize("percent", [0, 33.3, 50, 75, 100])
def test_percentile_over_blocks_is_that_of_numpy(client, percent):
    rng = np.random.default_rng(1)
    tables = [rng.normal(size=(n, 4)) for n in (400, 1, 7500, 2)]
    for table in tables:
        table[::2, 1] = 0.0  # ties
        table[:, 2] = 5.0
        table[:, 3] = len(table)  # blocks that do not overlap
    team, table = Team(client, "cpu"), np.concatenate(tables)
    found = TeamBackend(team).percentile(in_pieces(team, table, [400, 401, 7901]), percent)
    np.testing.assert_allclose(found, np.percentile(table, percent, axis=0), rtol=1e-12, atol=0)


@pytest.mark.parametrize("stray", [False, True])
def test_the_search_on_pieces_is_that_on_an_array(client, stray):
    rng = np.random.default_rng(2)
    Y, U = (np.linalg.qr(rng.normal(size=shape))[0] for shape in ((1200, 7), (1200, 7, 2)))
    if stray:
        Y[:, 2] = np.arange(1200) == 5
    few = [np.sort(rng.uniform(0.01, 1, 7)), *np.zeros((3, 7))]
    one = choose_coordinates(Tangents(U, None), Embedding(Y, *few), subset_size=3)
    team = Team(client, "cpu")
    team.assign_workers(3)
    pieces = [in_pieces(team, A, [100, 101]) for A in (U, Y)]
    tasks, rounds = team.tasks, team.rounds
    with TeamBackend(team).active():
        found = choose_coordinates(Tangents(pieces[0], None), Embedding(pieces[1], *few), subset_size=3)
    regrets = np.concatenate(team.gather(team.map(joined, found.regrets.parts, ())))
    assert found.subset == one.subset and (2 in one.subsets) != stray
    np.testing.assert_array_equal(found.subsets, one.subsets)
    np.testing.assert_allclose(found.scores, one.scores, rtol=1e-12)
    np.testing.assert_allclose(found.percentiles, one.percentiles, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(regrets, one.regrets, atol=1e-15)
    assert (team.tasks - tasks, team.rounds - rounds) == (6 * 3 + 4, 4 + 1)  # with the regrets above


def test_a_second_step_of_smoothing_is_that_of_one_array(client):
    rng, team = np.random.default_rng(4), Team(client, "cpu")
    R, P = rng.normal(size=(2, 50, 8)).astype(np.float32)
    smooth, T = (in_pieces(team, A.copy(), [20]) for A in (R, P))
    factors = rng.random(8), np.ones(8)
    TallBackend(team, np.array([20, 30])).turn(smooth, T, *factors)
    plain.turn(R, P, *factors)
    np.testing.assert_allclose(np.concatenate(team.gather(T.parts)), P, atol=1e-6)
