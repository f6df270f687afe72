"""Wide bandwidths tried on some of the points: what that measures, what it costs, and that the choice is a full fit."""

from contextlib import contextmanager
from functools import wraps

import numpy as np
import pytest

from ies_gpu import datasets, select_coordinates
from ies_gpu.backend.array import sample_rows
from ies_gpu.options import Options
from ies_gpu.parameters import trial as trials
from ies_gpu.parameters.scan import FACTORS
from ies_gpu.parameters.trial import thin_trial, trial
from ies_gpu.run.run import HeldLog, Inputs, Run, checked_points, fit
from tests.manifolds import rectangle


@contextmanager
def run_of(X, device="cpu", **options):
    """A run on points, and the points where it runs."""
    given = Inputs.of(X=X)
    with Run(Options(device=device, **options), given) as run:
        yield run, run(checked_points, given.value, run.options, run.backend)


@pytest.fixture
def small(monkeypatch):
    """What counts from 4,000 points on, from 500 on."""
    monkeypatch.setattr("ies_gpu.parameters.scan.THIN_FROM", 500)
    monkeypatch.setattr("ies_gpu.parameters.trial.FEW", 250)


@pytest.mark.parametrize("backend", ["cpu", "cuda", pytest.param("gpu", marks=pytest.mark.gpu)], indirect=True)
@pytest.mark.parametrize("self_loops", [True, False])
def test_every_point_gets_the_mean_over_the_others_that_the_laplacian_takes(backend, self_loops):
    X, _, bandwidth = rectangle(600, 3.0, noise=0.2, degree=80)
    eps, rows = 1.5 * bandwidth, sample_rows(600, 300, 0)
    with run_of(X, backend.device, n_components=6, self_loops=self_loops) as (run, Z):
        few = trial(Z[run.backend.asarray(rows)], eps, 2, run, HeldLog(), "raise")
        found = thin_trial(Z, eps, 2, run, HeldLog(), "raise", rows)
        Y, own, got = map(run.backend.to_host, (few.embedding.coordinates, few.X, found.embedding.coordinates))
        assert found.share == 1 and found.is_thin and len(found.tangents.bases) == 300
        assert found.graph.mean_degree == pytest.approx(few.graph.mean_degree * 599 / 299)

    def kernel(a, b):
        distance = np.linalg.norm(a[:, None] - b[None], axis=2)
        return np.where(distance <= 3 * eps, np.exp(-(distance**2) / eps**2), 0) * (distance > 0)

    K = kernel(X, own) / (kernel(own, own).sum(axis=1) + self_loops)
    np.testing.assert_allclose(got, K @ Y / K.sum(axis=1, keepdims=True), atol=1e-9)


def test_it_explains_what_the_full_one_does_and_there_is_none_where_points_are_out_of_reach_or_rows_in_parts():
    X, _, bandwidth = rectangle(2400, 4.3, noise=0.1, degree=240)
    with run_of(X, n_components=12) as (run, Z):
        full = trial(Z, bandwidth, 2, run, HeldLog(), "raise")
        thin = thin_trial(Z, bandwidth, 2, run, HeldLog(), "raise", sample_rows(2400, 800, 0))
        assert thin.search(2).subset == full.search(2).subset
        assert thin.fvu(2) == pytest.approx(full.fvu(2), abs=0.001)  # of the variance
        assert thin.limit(2).value == pytest.approx(full.limit(2).value, abs=0.002)
        assert thin.overlap(2) == pytest.approx(full.overlap(2), abs=0.02)
    X, _, bandwidth = rectangle(600, 3.0, degree=60)
    X = np.vstack([X, X[:1] + [2.9 * bandwidth, 0, 2.9 * bandwidth]])
    with run_of(X, n_components=6) as (run, Z):
        rows = np.arange(0, 600, 2)
        assert thin_trial(Z[:600], 2 * bandwidth, 2, run, HeldLog(), "raise", rows) is not None
        assert thin_trial(Z, 0.9 * bandwidth, 2, run, HeldLog(), "raise", rows) is None
        assert thin_trial(Z[:600], 0.2 * bandwidth, 2, run, HeldLog(), "raise", rows) is None


@pytest.fixture
def entries(monkeypatch):
    """The entries of every graph that is tried."""
    counted = []

    def counting(laplacian, options, run):
        counted.append((options.bandwidth, laplacian.shape[0], laplacian.operator.nnz))
        return fit(laplacian, options, run)

    monkeypatch.setattr(trials, "fit", counting)
    return counted


@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
def test_the_trials_of_many_points_take_less_than_three_times_the_entries_of_the_middle_one(small, entries):
    """On a surface, with all points in each, they take 1/4 + 1/2 + 1 + 2 + 4 times as many."""
    X = datasets.load("D3", n_samples=2000).X
    found = select_coordinates(X, device="cpu", bandwidth="fixed", intrinsic_dim=2, subset_size=2)
    centre = found.diagnostics["automatic"]["degree_bandwidth"]
    first = {eps / centre: (n, count) for eps, n, count in reversed(entries)}  # the first graph at each bandwidth
    trials_of = {factor: first[factor] for factor in first if min(abs(np.log(factor / np.array(FACTORS)))) < 1e-9}
    assert len(trials_of) == 3  # the widest and the narrowest are not worth it
    assert all((n < 2000) == (factor > 1.1) for factor, (n, _) in trials_of.items())
    assert sum(count for _, count in trials_of.values()) < 3 * first[1.0][1]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
def test_a_wide_bandwidth_that_wins_is_fitted_to_all_points(small, entries):
    X = datasets.load("D9", n_samples=1500).X
    found = select_coordinates(X, device="cpu")
    report = found.diagnostics["automatic"]
    assert report["bandwidth"] > report["degree_bandwidth"]
    assert [n for eps, n, _ in entries if eps == report["bandwidth"]][-1] == 1500
    given = select_coordinates(X, device="cpu", **report["chosen"])
    assert given.subset == found.subset
    np.testing.assert_allclose(given.coordinates, found.coordinates, atol=1e-8)
    row = next(row for row in report["scan"] if row["bandwidth"] == report["bandwidth"])
    assert row["fvu"] == report["fvu"] and row["mean_degree"] == found.diagnostics["mean_degree"]


@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
def test_where_a_bandwidth_leaves_parts_no_narrower_one_is_tried(monkeypatch):
    tried, laplacian_of = [], trials.laplacian_of

    @wraps(laplacian_of)
    def counting(given, options, do):
        tried.append(options.bandwidth)
        return laplacian_of(given, options, do=do)

    monkeypatch.setattr(trials, "laplacian_of", counting)
    X = rectangle(1000, 3.1, degree=60)[0]
    two = np.vstack([X[:500], X[500:] + [0, 1.75, 0]])  # joined by the widest alone
    found = select_coordinates(two, n_components=8, intrinsic_dim=2, subset_size=2, device="cpu")
    report = found.diagnostics["automatic"]
    assert min(eps for eps in tried if eps != "local") == report["degree_bandwidth"]
    assert [row["reason"] for row in report["left_out"]] == ["the graph falls into parts"] * 4
