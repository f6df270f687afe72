"""Runs that go on after workers, a scheduler or a disk were lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

import ies_gpu
from ies_gpu import ClusterError, datasets, select_coordinates
from tests.said import refused, warned

from .clusters import check_same, distributed, threads


def test_what_follows_a_stage_that_could_not_be_saved_belongs_to_no_other_run(tmp_path):
    (tmp_path / "laplacian.block00001.npz").mkdir()  # which no file can replace
    X = np.random.default_rng(0).random((1500, 2)) * [6, 1]
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.3, "n_components": 8, "device": "cpu"}
    for count in (2, 4):  # the second with other blocks
        with threads(count) as client, warned("checkpoint.not_saved", ies_gpu.CheckpointWarning):
            found = select_coordinates(X, client=client, checkpoint=tmp_path, resume=count == 4, **options)
        assert found.diagnostics["checkpoint"]["resumed"] == []
    assert found.subset == select_coordinates(X, **options).subset
    assert "on 1 worker of the Dask cluster" in found.diagnostics["device_reason"]


class StruckError(Exception):
    pass


def test_a_run_goes_on_after_its_last_stage_on_other_workers(client, tmp_path):
    X = datasets.load("D1", n_samples=1500).X
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.4, "device": "cpu"}
    whole = select_coordinates(X, client=client, **options)

    def strike(stage, done, total):
        if stage == "tangents":
            raise StruckError

    with pytest.raises(StruckError):
        select_coordinates(X, client=client, checkpoint=tmp_path, progress=strike, **options)
    with refused("checkpoint.there"):
        select_coordinates(X, client=client, checkpoint=tmp_path, **options)
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0", scheduler_port=0) as cluster,
        distributed.Client(cluster) as other,
    ):
        again = select_coordinates(X, client=other, checkpoint=tmp_path, resume=True, **options)
    assert again.diagnostics["checkpoint"]["resumed"] == ["laplacian", "eigenvectors"]
    assert again.subset == whole.subset and (again.coordinates == whole.coordinates).all()
    damaged = tmp_path / "eigenvectors.block00001.npz"
    damaged.write_bytes(damaged.read_bytes()[:-2000])
    with warned("checkpoint.damaged", ies_gpu.CheckpointWarning):
        third = select_coordinates(X, client=client, checkpoint=tmp_path, resume=True, **options)
    assert third.diagnostics["checkpoint"]["resumed"] == ["laplacian", "tangents"]
    np.testing.assert_allclose(third.coordinates, whole.coordinates, atol=1e-10)
    with warned("checkpoint.other_job", ies_gpu.CheckpointWarning):
        select_coordinates(X, client=client, checkpoint=tmp_path, resume=True, **options | {"bandwidth": 0.45})


def await_file(path):
    while not path.exists():
        time.sleep(0.1)


@contextmanager
def scheduler_and_workers(folder, count):
    """A scheduler and workers as processes of their own: a client, and the scheduler's process."""
    address = folder / f"scheduler-{count}.json"
    command = [sys.executable, "-m", "dask"]
    to_file = ["--scheduler-file", str(address)]
    worker = [*command, "worker", *to_file, "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
    started = [subprocess.Popen([*command, "scheduler", *to_file, "--port", "0", "--dashboard-address", ":0"])]
    started += [subprocess.Popen(worker) for _ in range(count)]
    try:
        await_file(address)
        with distributed.Client(scheduler_file=str(address)) as client:
            client.wait_for_workers(count)
            yield client, started[0]
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_lost_scheduler_leaves_stages_from_which_a_new_cluster_goes_on(strip, tmp_path):
    X, options, one = strip
    with scheduler_and_workers(tmp_path, 2) as (client, scheduler):
        whole = select_coordinates(X, client=client, **options)

        def strike(stage, done, total):
            if stage == "tangents":
                scheduler.kill()

        with refused("cluster.scheduler_lost", ClusterError):
            select_coordinates(X, client=client, checkpoint=tmp_path / "stages", progress=strike, **options)
    with scheduler_and_workers(tmp_path, 3) as (client, _):
        again = select_coordinates(X, client=client, checkpoint=tmp_path / "stages", resume=True, **options)
    assert again.diagnostics["checkpoint"]["resumed"] == ["laplacian", "eigenvectors"]
    assert (again.coordinates == whole.coordinates).all() and (again.regrets == whole.regrets).all()
    check_same(one, again)


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["graph", "eigenvectors", "search"])
def test_a_killed_worker_costs_time_and_not_the_result(strip, stage):
    X, options, one = strip
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", scheduler_port=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
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
