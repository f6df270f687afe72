"""Percentiles and scales over blocks are those of one machine."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import select_coordinates

from .clusters import check_same_but_signs


@pytest.mark.parametrize("percent", [0, 33.3, 50, 75, 100])
def test_percentile_over_blocks_is_that_of_numpy(client, percent):
    from ies_gpu.cluster import scores
    from ies_gpu.cluster.team import Team, as_it_is

    rng = np.random.default_rng(1)
    tables = [rng.normal(size=(n, 4)) for n in (400, 1, 7500, 2)]
    for table in tables:
        table[::2, 1] = 0.0  # ties
        table[:, 2] = 5.0
        table[:, 3] = len(table)  # blocks that do not overlap
    team = Team(client, "cpu")
    found = scores.percentile_of(team, team.map(as_it_is, tables), percent, 7903)
    np.testing.assert_allclose(found, np.percentile(np.concatenate(tables), percent, axis=0), rtol=1e-12, atol=0)


def test_few_values_are_sent_to_find_a_percentile():
    from ies_gpu.cluster import scores

    tables = [np.sort(np.random.default_rng(k).normal(k / 10, 1, (10_000, 1)), axis=0) for k in range(4)]
    marks = [scores.marks_of(None, table) for table in tables]
    for ranks in ((0, 0), (12_345, 12_346), (39_999, 39_999)):
        ends = scores.enclosing([(at, values[:, 0]) for at, values in marks], ranks)
        found = [scores.inside_of(None, table, np.array([ends]))[0] for table in tables]
        below, inside = sum(first for first, _, _ in found), sum(counts.sum() for _, _, counts in found)
        assert below <= ranks[0] and ranks[1] < below + inside
        assert inside < 5 * np.sqrt(40_000 * 4)


@pytest.mark.parametrize("scale", ["rms", "diffusion"])
def test_scales_are_those_of_one_machine(client, scale):
    X = np.random.default_rng(3).uniform(0, 1, (600, 2)) * [4, 1]
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.4, "n_components": 6, "device": "cpu"}
    one, found = (select_coordinates(X, scale=scale, client=where, **options) for where in (None, client))
    check_same_but_signs(found.coordinates, one.coordinates, 1e-5 * np.abs(one.coordinates).max())
