"""The number of BLAS threads belongs to the process: runs in several threads share it, and give it back."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from ies_gpu.backend import get_backend
from ies_gpu.backend.blas import for_any_thread, single_thread

np.eye(2) @ np.eye(2)


def numbers():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def _two_threads():
    limit = threadpool_limits(2, user_api="blas")
    for_any_thread()
    if set(numbers()) != {2}:
        pytest.skip("this BLAS does not use two threads")
    yield
    limit.restore_original_limits()
    for_any_thread()


def test_the_last_run_gives_back_what_the_first_found():
    """Two runs that overlap; the first ends first."""
    begun, ended = threading.Event(), threading.Event()
    seen = []

    def second():
        with get_backend("cpu").active():
            begun.set()
            ended.wait(60)
            seen.append(numbers())

    other = threading.Thread(target=second)
    with get_backend("cpu").active():
        other.start()
        begun.wait(60)
        with get_backend("cpu").active():
            assert set(numbers()) == {1}
        assert set(numbers()) == {1}
    ended.set()
    other.join()
    assert set(seen[0]) == {1}  # also while it is alone
    assert set(numbers()) == {2}


def test_an_error_gives_it_back_too():
    with pytest.raises(ZeroDivisionError), single_thread.held():
        1 / 0  # noqa: B018
    assert set(numbers()) == {2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("own", [False, True])
def test_a_child_does_not_wait_for_threads_that_it_does_not_have(own):
    begun, ended = threading.Event(), threading.Event()

    def run():
        with single_thread.held():
            begun.set()
            ended.wait(60)

    other = threading.Thread(target=run)
    other.start()
    begun.wait(60)

    def child_has(wanted):
        child = os.fork()
        if child == 0:
            os._exit(0 if set(numbers()) == {wanted} and single_thread.lock.acquire(timeout=60) else 3)
        return os.waitpid(child, 0)[1] == 0

    try:
        if own:  # the thread that forks is in a run itself
            with single_thread.held():
                assert child_has(1)
        else:
            assert child_has(2)
    finally:
        ended.set()
        other.join()
