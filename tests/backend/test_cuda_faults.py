"""Kernels that do not compile or compute wrongly give way to plain code."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ies_gpu
import ies_gpu.embedding.diffusion
import ies_gpu.embedding.eigensolvers.eigenpairs
import ies_gpu.embedding.tiles
from ies_gpu.backend import backend_of
from ies_gpu.backend.audit import ROWS, audit_tangents, sampled_rows
from ies_gpu.backend.guard import Kernels
from tests.backends import needs_cupy, on_cpu, on_cuda, problem
from tests.comparison import assert_agreement
from tests.real_cupy import plugged_in

pytestmark = needs_cupy
SEARCHES = ("greedy", "submodular", "branch_and_bound")


def quietly(*args, **kwargs) -> tuple[ies_gpu.Selection, list[str]]:
    """A run on the device, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = on_cuda(*args, **kwargs)
    return found, [str(warning.message) for warning in caught]


def test_kernels_that_do_not_compile_give_way_to_plain_code():
    with plugged_in(compiles=False):
        found, said = quietly("D1", 700)
        assert len(said) == 1
        assert "the CUDA kernels are not used on cuda:0: neighbours does not run (kernel.cu(1): error" in said[0]
        assert found.diagnostics["kernels"] == "plain"
        assert "does not run" in found.diagnostics["kernel_fault"]
        assert said[0] in found.diagnostics["warnings"]
        assert_agreement(found, on_cpu("D1", 700))
        again, said_again = quietly("D1", 700)
        assert said_again == []  # said once for each device
        assert again.diagnostics["warnings"] == (said[0],)  # but kept with every result


@pytest.mark.parametrize("kernel", ["tangent_rows", "score_block"])
def test_the_guard_finds_a_wrong_kernel_before_its_first_use(kernel):
    def spoil(name, values):
        if name.startswith(kernel):
            values[-1 if kernel == "tangent_rows" else -3].ravel()[0] += 0.01  # sigma; partial totals

    with plugged_in(spoil=spoil) as machine:
        found, said = quietly("D1", 700)
        assert len(said) == 1
        assert f"{kernel} differs from plain code by" in said[0]
        entry = {"tangent_rows": "tangent_rows_f64", "score_block": "score_block_2_f64"}[kernel]
        assert machine.counts[f"kernel {entry}"] == 1  # the guard's
        assert_agreement(found, on_cpu("D1", 700))


@pytest.mark.parametrize(
    ("check", "entry", "place"),
    [
        ("rows float64 float64", "product_f64_f64", -2),
        ("rows float64 float64", "scaled_f64_f64", -1),
        ("levels", "scaled_f64_f32", -1),
        ("levels", "merge_columns", -1),
        ("levels", "restricted", -1),
        ("levels", "descend", 0),
        ("levels", "turn", 1),
        ("levels", "totals", -1),
        ("pairs", "near_pairs_f64", -1),
    ],
)
def test_no_kernel_is_trusted_that_gives_nan(machine, check, entry, place):
    def spoil(name, values):
        if name == entry and not isinstance(values[place], np.generic):  # near_pairs and merge_columns count first
            values[place].ravel()[-1] = np.nan

    machine.spoil = spoil
    with pytest.warns(ies_gpu.IESWarning, match="differs from plain code by inf"):
        assert not Kernels("cuda:0").trusted(check)
    machine.spoil = None
    assert Kernels("cuda:0").trusted(check)


def test_the_audit_finds_what_appears_after_the_guard():
    """Sizes that the guard did not try: both kernels are wrong from a hundred rows on."""

    def spoil(name, values):
        if name.startswith("tangent_rows") and len(values[-1]) > 100:
            values[-1][:] *= 1.001
        if name.startswith("score_block") and len(values[-1]) > 100:
            values[-1][:] += 0.01

    with plugged_in(spoil=spoil):
        found, said = quietly("D1", 700)
    assert len(said) == 1  # after tangent_rows all of the run is plain
    assert "tangent_rows differs from plain code by 1.0e-03 on sampled rows" in said[0]
    assert found.diagnostics["kernels"] == "plain"
    assert said[0] in found.diagnostics["warnings"]
    assert_agreement(found, on_cpu("D1", 700))


def test_the_audit_of_scores():
    def spoil(name, values):
        if name.startswith("score_block") and len(values[-1]) > 100:
            values[-1][:] += 0.01

    with plugged_in(spoil=spoil):
        found, said = quietly("D1", 700)
    assert len(said) == 1
    assert "score_block differs" in said[0]
    assert_agreement(found, on_cpu("D1", 700))


@pytest.mark.parametrize("kernel", ["tangent_rows", "score_block"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_one_number_that_is_not_finite_is_always_found(kernel, value):
    """Wherever it stands: here in a row that is not among the sampled ones."""
    sampled = np.random.default_rng(700).choice(700, size=ROWS, replace=False)
    row = int(np.setdiff1d(np.arange(700), sampled)[0])

    def spoil(name, values):
        if name.startswith(kernel) and len(values[-1]) > ROWS:
            values[-1][row] = value

    with plugged_in(spoil=spoil):
        found, said = quietly("D1", 700)
    assert len(said) == 1
    assert f"{kernel} differs from plain code by inf" in said[0]
    assert_agreement(found, on_cpu("D1", 700))


def test_eigenvectors_that_are_not_finite_are_an_error(machine, monkeypatch):
    original = ies_gpu.embedding.diffusion.leading_eigenpairs

    def wrong(*args, **kwargs):
        pairs = original(*args, **kwargs)
        pairs.residuals[3] = np.nan
        return pairs

    monkeypatch.setattr(ies_gpu.embedding.diffusion, "leading_eigenpairs", wrong)
    with pytest.raises(ArithmeticError, match="computed on cuda:0 are not finite"):
        on_cuda("D1", 700)


@pytest.mark.thorough
def test_odds_of_the_audit_with_one_wrong_row_in_a_thousand(cupy):
    """256 rows are computed again, so one wrong row in a thousand is found with odds of 1 - 0.999^256, or 23 %.

    Of n rows with k wrong ones the odds are ``1 - C(n - k, 256) / C(n, 256)``. The sample is seeded by n: a
    fault that depends on the row alone is found always or never for a given n, and over many n at these odds. Wrong
    rows that are not found are few, so a mean score moves by no more than their share. What is not finite, or wrong
    in a whole tile, block or size, is found with certainty or nearly so (64 rows of 10,000: 81 %).
    """
    X, arguments = problem("D1", 1500)
    laplacian = ies_gpu.laplacian_of_points(cupy.asarray(X), bandwidth=arguments["bandwidth"])
    Y = cupy.asarray(on_cpu("D1", 1500).coordinates)
    metric = ies_gpu.riemannian_metric(Y, laplacian, intrinsic_dim=2)
    backend = backend_of(Y)
    sampled = set(sampled_rows(1500, backend).get().tolist())
    assert len(sampled) == ROWS
    found = []
    for residue in range(0, 500, 10):
        wrong = [row for row in range(1500) if row % 1000 == residue]  # two of them
        U = metric.U.copy()
        U[cupy.asarray(wrong)] *= 1.01
        caught = audit_tangents(laplacian, Y, U, metric.sigma, backend) > 1e-3
        assert caught == bool(sampled & set(wrong))
        found.append(caught)
    odds = 1 - (1 - ROWS / 1500) * (1 - ROWS / 1499)
    assert abs(np.mean(found) - odds) < 4 * np.sqrt(odds * (1 - odds) / len(found))
    assert abs((1 - 0.999**ROWS) - 0.23) < 0.005
    assert abs((1 - (1 - 64 / 10_000) ** ROWS) - 0.81) < 0.005


@pytest.mark.parametrize(("kernel", "entry"), [("tile_graph", "near_pairs_f64"), ("spmm", "product_f64_f64")])
def test_the_audit_of_the_other_kernels(kernel, entry):
    """What is wrong on more than the few rows of the guard is not used."""

    def spoil(name, values):
        written = values[-1 if kernel == "tile_graph" else -2]
        if name == entry and not isinstance(written, np.generic) and (written.size > 5000 or len(values[0]) == 701):
            written *= 1.001

    with plugged_in(spoil=spoil):
        found, said = quietly("D1", 700)
    assert len(said) == 1
    assert f"the kernel {kernel} differs from plain code by" in said[0]
    assert_agreement(found, on_cpu("D1", 700))
