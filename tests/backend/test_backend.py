"""What every backend answers alike."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from ies_gpu.backend import get_backend
from tests.backends import each_device, needs_cupy, sent, to_host


@each_device
def test_components_agree_with_scipy(backend):
    rng = np.random.default_rng(0)
    path = scipy.sparse.diags([np.ones(299)], [1], shape=(300, 300))
    scattered = scipy.sparse.random(300, 300, density=0.004, random_state=rng)
    apart = scipy.sparse.csr_matrix((300, 300))
    for matrix in (path, scattered, apart):
        matrix = (matrix + matrix.T).tocsr()
        count, labels = scipy.sparse.csgraph.connected_components(matrix, directed=False)
        found, numbers = backend.connected_components(sent(matrix, backend))
        assert found == count
        pairs = set(zip(to_host(numbers).tolist(), labels.tolist(), strict=True))
        assert len(pairs) == count  # the same parts under other numbers


@needs_cupy
def test_parts_of_a_long_graph_are_found_in_few_rounds_in_any_order(machine, rng):
    """A path of 2,000 rows, each joined to the ten next to it, is 400 steps long."""
    path = scipy.sparse.diags([np.ones(2000 - k) for k in range(1, 6)], range(1, 6))
    path, backend, rounds = (path + path.T).tocsr(), get_backend("cuda"), []
    for order in (np.arange(2000), rng.permutation(2000)):
        machine.counts.clear()
        assert backend.connected_components(sent(path[order][:, order], backend))[0] == 1
        rounds.append(machine.counts["kernel smallest_label_f64"])
    assert max(rounds) <= 20
