"""The eigensolver in pieces: its levels and the equations it solves."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from ies_gpu import ClusterError
from ies_gpu.backend import get_backend
from ies_gpu.cluster.levels import Cells, merged_rows, refuse_beyond

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
