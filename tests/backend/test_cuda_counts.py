"""What a run by CuPy asks of a device: launches, waits, transfers and memory, counted on the CPU by stage."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

from benchmarks.device_counts import stages_named
from benchmarks.problems import strip
from ies_gpu import select_coordinates
from ies_gpu.backend import array, get_backend
from ies_gpu.backend.compare import TYPES
from ies_gpu.backend.kernels import plain
from ies_gpu.parameters.dimension import times_each
from ies_gpu.parameters.distances import mean_degree, sampled_distances
from ies_gpu.parameters.scan import is_idle
from ies_gpu.validation import check_points
from tests.backends import needs_cupy
from tests.real_cupy import plugged_in

pytestmark = needs_cupy


@pytest.fixture(scope="module")
def counted():
    """One run by the multilevel method, the machine without a pool, which knows the size of every array, and the number
    of kernels of different names at each message."""
    (X, bandwidth), known = strip(6000, 60), [0]

    def progress(*_):
        known.append(sum(name.startswith("kernel ") for name in machine.counts))

    with plugged_in(pool=False) as machine, stages_named(machine):
        kernels = get_backend("cuda").kernels  # known to agree: comparisons are not counted
        kernels.compared |= {" ".join(map(str, (name, *one))) for name, kinds in TYPES.items() for one in kinds}
        given = {"bandwidth": bandwidth, "intrinsic_dim": 2, "subset_size": 2, "device": "cuda"}
        found = select_coordinates(X, n_components=8, progress=progress, **given)
    assert found.diagnostics["solver"]["method"] == "multilevel"
    return found, machine, known


def test_no_sum_over_the_points_has_fewer_than_32_blocks(counted):
    """The blocks of a sum over rows depend on the columns alone: what has few for 6,000 rows has few for a million."""
    reductions = counted[1].reductions
    assert [name for name, size, blocks in reductions if "sum" in name and size >= 8 * 2 * 6000 and blocks < 32] == []


def test_a_first_run_is_not_silent_while_it_compiles(counted):
    """NVRTC takes about a twentieth of a second for a kernel."""
    assert max(np.diff(counted[2])) <= 45


def test_no_kernel_needs_cub(counted, cupy, machine, rng):
    """Of each, such as CuPy's ``any``, ``median`` and sums of masks, NVRTC takes nearly a second."""
    X = check_points(cupy.asarray(rng.random((900, 3))))
    distances = sampled_distances(X)
    assert times_each(distances) == 1 and mean_degree(distances, 0.1) > 1 and not is_idle(distances, 0.1)
    assert [name for name in counted[1].counts | machine.counts if re.search(r"cub_|_pass\d", name)] == []


@pytest.mark.parametrize("k", [1, 2, 3, 20])
def test_sums_maxima_and_spreads_of_columns(rng, k):
    A = rng.normal(size=(20_001, k))
    with plugged_in(pool=False) as machine:
        there = sys.modules["cupy"].asarray(A)
        for name in ("column_sums", "column_means", "column_maxima", "column_ends", "column_units", "column_norms"):
            found, expected = (getattr(array, name)(part) for part in (there, A))
            pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
            for part, other in pairs:
                np.testing.assert_allclose(part.get(), other, rtol=1e-10, atol=1e-10)
    assert min(blocks for _, size, blocks in machine.reductions if size >= 8 * 20_000) >= 32


def test_products_are_kernels_of_ours_whose_sums_do_not_vary(counted):
    counts = counted[1].counts
    assert counts["kernel product_f32_f32"] > 50
    assert counts["library spMV"] + counts["library spMM"] + counts["library spGEMM_compute"] <= 4  # of the audit


def test_signs_go_up_as_bits_and_boxes_stay_on_the_device(counted):
    up = [size for way, size in counted[1].transfers if way == "up" and size % 6000 == 0]
    assert max(up) <= 8 * 3 * 6000  # the points; drawn on the host, signs were 32 columns
    graph = counted[1].by_stage["graph"]
    assert graph["downloads"] + graph["syncs"] <= 12
    audited = 32 * 8 * (counted[0].diagnostics["mean_degree"] + 6)
    assert graph["down"] < audited + 6000  # bytes: not even the boxes


def test_no_stage_holds_more_than_the_matrix_twice(counted):
    """Merging columns took 44 to 50 bytes per entry, components 32; the entries themselves are 12."""
    found, stages = counted[0], counted[1].by_stage
    entries = 12 * 6000 * (found.diagnostics["mean_degree"] + 1)
    for stage in ("graph", "components", "products", "laplacian"):
        assert stages[stage]["peak"] <= 2 * entries, stage
    vectors = 6000 * 20 * (8 + 5 * 4)  # of twenty pairs: X in float64, R, two kinds of directions and their images
    assert stages["eigenvectors"]["peak"] <= 2 * entries + 3 * vectors  # and what replaces them while they are turned


def test_the_order_in_space_takes_radix_sorts_and_no_wait(counted, cupy, monkeypatch, rng):
    """``lexsort`` is a merge sort through random reads, for each key; two stable sorts of one key give its order."""
    X = rng.random((3000, 3)).round(2)  # with equal numbers: the sorts must be stable
    expected = plain.kd_order(X, 6)
    monkeypatch.setattr(cupy, "lexsort", None)
    np.testing.assert_array_equal(plain.kd_order(cupy.asarray(X), 6).get(), expected)
    assert counted[1].by_stage["order"]["syncs"] == 0
