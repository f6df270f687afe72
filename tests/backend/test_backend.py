"""What every backend answers alike, and where a step works."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from ies_gpu.backend import Step, active_backend, backend_of, call, report, step
from ies_gpu.backend.base import current
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


@step("counted", kernel="spmm", again=False)
def counted(X, twice=False):
    """Report every row of some points."""
    for row in range(len(X)):
        report(row + 1, len(X))
    return backend_of(X), current.get()


def test_a_step_works_on_the_backend_of_its_arrays_which_is_active():
    assert current.get() is None or current.get() is active_backend()
    home, active = call(counted, np.zeros((3, 2)), twice=True)
    assert home is active and active.device == "cpu"
    assert counted.step == Step("counted", kernel="spmm", again=False) and counted.__name__ == "counted"
