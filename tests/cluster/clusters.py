"""Clusters to run on, points for them, and whether two runs agree."""

from contextlib import contextmanager, nullcontext

import numpy as np
import pytest

from ..extras import needed
from ..real_cupy import plugged_in

distributed = needed("distributed", "dask")
ANY_PORT = {"dashboard_address": ":0", "scheduler_port": 0}
SMALL = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.25, "n_components": 8, "device": "cpu"}


def check_same_but_signs(found, expected, atol):
    """Signs follow the seed on a cluster, and the points on one machine."""
    np.testing.assert_allclose(found * np.sign((found * expected).sum(axis=0)), expected, atol=atol)


def check_same(one, other, scores=1e-6):
    """Sets, path and eigenvalues agree; scores as far as sets that lose rank allow."""
    assert other.subset == one.subset
    assert [segment.subset for segment in other.path] == [segment.subset for segment in one.path]
    np.testing.assert_allclose(other.eigenvalues, one.eigenvalues, rtol=0, atol=1e-9)
    score = {tuple(s): value for s, value in zip(one.ranking.subsets.tolist(), one.ranking.scores, strict=True)}
    found = np.array([score[tuple(s)] for s in other.ranking.subsets.tolist()])
    sound = found > -3
    np.testing.assert_allclose(other.ranking.scores[sound], found[sound], rtol=0, atol=scores)
    assert other.zeta == pytest.approx(one.zeta, rel=1e-5)
    check_same_but_signs(np.asarray(other.coordinates), one.coordinates, 1e-7)
    np.testing.assert_allclose(other.regret_percentiles, one.regret_percentiles, atol=1e-5)


def random_strip(n, length=6.0, seed=0):
    return np.random.default_rng(seed).uniform(0, 1, (n, 2)) * [length, 1]


@contextmanager
def device_of_workers(name):
    """The CPU, or CuPy on it."""
    from ies_gpu.cluster import team

    with plugged_in() if name == "cuda" else nullcontext():
        team._backend.cache_clear()
        try:
            yield
        finally:
            team._backend.cache_clear()


@contextmanager
def threads(count, workers=1, **limits):
    """Workers of this process with so many threads; the limits are told, but Dask does not hold to them."""
    import dask

    free = {f"distributed.worker.memory.{name}": False for name in ("target", "spill", "pause", "terminate")}
    made = {"n_workers": workers, "threads_per_worker": count, "processes": False} | ANY_PORT | limits
    with dask.config.set(free), distributed.LocalCluster(**made) as cluster, distributed.Client(cluster) as client:
        yield client


def processes(count):
    """Workers as processes of their own."""
    return threads(1, workers=count, processes=True)
