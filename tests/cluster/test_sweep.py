"""Percentiles, searches and smoothing over blocks are those of one array."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu.backend.kernels import plain
from ies_gpu.choice.rmetric import Tangents
from ies_gpu.choice.search import choose_coordinates
from ies_gpu.cluster.arrays import Pieces, TallBackend, TeamBackend
from ies_gpu.cluster.team import Team, joined
from ies_gpu.embedding.diffusion import Embedding


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
