"""Tasks of the workers: how many there are, where they run, and what they keep."""

import gc
import os
import signal
import weakref

import numpy as np
import pytest

from ies_gpu import select_coordinates
from ies_gpu.cluster.team import Call, Given, Team, joined, run_task
from ies_gpu.findings import ClusterError

from ..said import refused
from .clusters import check_same, processes, threads


def test_nothing_that_a_task_was_given_waits_for_the_garbage_collector(client):
    gc.disable()
    try:
        array = np.ones(3)
        seen = weakref.ref(array)
        assert len(run_task(Call(joined, (Given(0), (Given(0),))), "cpu", 1, array)) == 6
        del array
        assert seen() is None
        team = Team(client, "cpu")
        future = team.submit(joined, np.ones(3), ())
        seen = weakref.ref(future)
        assert len(team.gather([team.submit(joined, future, (Call(joined, (future, ())),))])[0]) == 6
        del future
        assert seen() is None
    finally:
        gc.enable()


def test_a_run_does_not_wait_for_ever_for_a_worker_that_is_paused_or_lost():
    """Dask pauses a worker whose libraries alone nearly fill its memory, and says nothing to those who wait."""
    from distributed import Status

    with threads(1, memory_limit="2GB") as client:
        team = Team(client, "cpu", patience=0.5)
        client.run(lambda dask_worker: setattr(dask_worker, "status", Status.paused))
        waiting = team.map(joined, [1, 2], ())
        with refused("cluster.idle", ClusterError) as told:
            team.gather(waiting)
        assert f"paused or lost: {team.workers[0]}" in str(told.value)
        client.run(lambda dask_worker: setattr(dask_worker, "status", Status.running))
        assert team.gather(waiting) == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["graph", "eigenvectors", "search"])
def test_a_killed_worker_costs_time_and_not_the_result(strip, stage):
    X, options, one = strip
    with processes(2) as client:
        whole = select_coordinates(X, client=client, **options)
        victims = list(client.run(os.getpid).values())

        def strike(name, done, total):
            if name == stage and victims and (done > 2 or stage != "eigenvectors"):
                os.kill(victims.pop(), signal.SIGKILL)
                victims.clear()

        again = select_coordinates(X, client=client, progress=strike, **options)
    assert not victims
    check_same(one, again)
    np.testing.assert_allclose(again.coordinates, whole.coordinates, atol=1e-10)  # sums may round another way
