"""What every backend answers alike."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from tests.backends import each_device, sent, to_host


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
