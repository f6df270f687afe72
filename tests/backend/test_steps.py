"""A step by itself and in a run: where it works, whom it reports to, and what a run does with it."""

from __future__ import annotations

import numpy as np

from ies_gpu.backend import active_backend, backend_of
from ies_gpu.backend.base import current
from ies_gpu.backend.steps import Step, call, report, reporting, step


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


def test_a_step_reports_to_whoever_listens_and_else_to_nobody():
    heard = []
    with reporting(lambda *done: heard.append(done)):
        counted(np.zeros((2, 2)))
        with reporting(lambda *done: None):
            counted(np.zeros((5, 2)))
    counted(np.zeros((2, 2)))
    assert heard == [(1, 2), (2, 2)]
