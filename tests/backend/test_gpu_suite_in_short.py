"""Some of the tests for a GPU on the stand-in, as they are: those that take a second or two. The others are slow."""

from __future__ import annotations

from tests.backend.test_gpu_suite import cupy, device  # noqa: F401 - the fixtures
from tests.backends import needs_cupy
from tests.gpu.test_gpu import (  # noqa: F401 - collected here as well
    test_kernels_agree_with_their_plain_twins,
    test_little_memory_is_enough_or_is_said,
    test_steps_take_and_return_device_arrays_and_agree_with_the_cpu,
    test_the_backend_knows_its_device,
    test_the_library_solver_agrees_with_ours,
    test_the_second_device_and_the_current_one_restored,
    test_totals_are_the_same_from_run_to_run,
)

pytestmark = needs_cupy
