"""What a chart leaves unexplained or loses, and how sizes and bandwidths are compared by it."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from ies_gpu.parameters.judgement import unexplained_variance
from ies_gpu.parameters.scan import SHEETS, VISIBLE, Scan, needless, show_trial, with_trial
from ies_gpu.parameters.trial import Estimated


def test_a_chart_explains_everything_and_noise_nothing():
    rng = np.random.default_rng(0)
    flat = rng.uniform(0, 1, (2000, 2))
    X = np.column_stack([flat[:, 0], np.sin(3 * flat[:, 0]), flat[:, 1]])
    assert unexplained_variance(X, np.exp(flat)) < 0.01
    # independent coordinates: the mean of 10 others is off by 1 + 1/10 of the variance
    assert unexplained_variance(X, rng.normal(size=(2000, 2))) == pytest.approx(1.1, abs=0.05)
    # values hidden in the sixth digit of a coordinate are found by nearest neighbours, but not after a blur of 1 %
    values, spikes = flat[:, :1], np.where(np.arange(2000) < 5, 1.0, 0.0)[:, None]
    assert unexplained_variance(values, spikes + 1e-6 * values) < 0.05
    assert unexplained_variance(values, spikes + 1e-6 * values, blur=0.01) > 0.9
    assert unexplained_variance(values, values, blur=0.01) < 0.01
    assert unexplained_variance(X, flat[:, :1]) == pytest.approx(1.1 * X[:, 2].var() / X.var(axis=0).sum(), rel=0.1)


def test_unexplained_variance_by_brute_force(on):
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(70, 4)), rng.normal(size=(70, 2)) * [1, 100]
    D = cdist(Y / Y.std(axis=0), Y / Y.std(axis=0))
    np.fill_diagonal(D, np.inf)
    predicted = np.array([X[np.argsort(row)[:10]].mean(axis=0) for row in D])
    expected = ((X - predicted) ** 2).sum() / ((X - X.mean(axis=0)) ** 2).sum()
    assert on(unexplained_variance)(X, Y) == pytest.approx(expected)
    assert on(unexplained_variance)(1e-160 * X + 5e-160, Y) == pytest.approx(expected)


def whole(**facts):
    """A trial whose maps have no fold."""
    return SimpleNamespace(**{"is_folded": lambda s: False, "is_thin": False} | facts)


def scanned(*tables: dict[int, float], largest: int = 4, **facts) -> Scan:
    """Trials at bandwidths 1, 2, 4, ... that leave given fractions for given sizes, 2 or more."""
    known = {"embedding": SimpleNamespace(eigenvalues=np.arange(20)), "share": 1.0}
    trials = [whole(bandwidth=2.0**k, lost=table.__getitem__, **known) for k, table in enumerate(tables)]
    for trial in trials:
        trial.limit = lambda s, trial=trial: Estimated(trial.lost(s), 0.0)
        trial.lost_by_planes = trial.lost
    return Scan(tuple(trials), {}, 1.0, (2, largest), **facts)


def test_sizes_are_compared_each_at_its_own_best_bandwidth():
    """As on D7: at the bandwidth that is best for two coordinates a third adds nothing, at another it adds much."""
    tables = {2: 0.053, 3: 0.052, 4: 0.051}, {2: 0.060, 3: 0.021, 4: 0.021}, {2: 0.061, 3: 0.060, 4: 0.05}
    torus = scanned(*tables)
    assert (torus.best(2).bandwidth, torus.size, torus.best(3).bandwidth) == (1, 3, 2)
    assert torus.gain(3).value == pytest.approx(0)
    assert scanned(*tables, largest=2).size == 2  # no further than allowed


def test_no_more_bandwidths_are_tried_than_can_be_visibly_better():
    """After one that loses nothing visible none, and none beyond one that loses no less than the one before it."""

    def skipped(*lost, **facts):
        tried = scanned(*({2: left} for left in lost), largest=2)
        tried.trials[0].__dict__.update(facts)
        tried = replace(tried, centre=2.0 ** (len(lost) - 1))  # the widest
        return [bool(needless(eps, tried)) for eps in (0.5, 2.0 ** len(lost))]

    assert skipped(0.9 * VISIBLE) == [True, True]
    assert skipped(1.1 * VISIBLE) == skipped(0.9 * VISIBLE, share=0.97) == [False, False]
    assert skipped(0.9 * VISIBLE, is_thin=True) == [False, False]  # one of all points may show what it does not
    assert skipped(1.1 * VISIBLE, lost_by_planes=lambda s: 0.9 * VISIBLE) == [True, True]
    assert skipped(0.3, 0.3) == [True, False] and skipped(0.2, 0.3) == [False, False]  # all narrower ones may fail
    assert skipped(0.3, 0.4, 0.3) == [False, False] and skipped(0.2, 0.3, 0.3) == [False, True]
    assert not needless(3.0, scanned({2: 0.3}, {2: 0.3}, {2: 0.3}, largest=2))  # between two
    # the only trial is alone where others gave no graph
    one = scanned({2: 0.3}, largest=2)
    assert not one.is_alone and replace(one, left_out={2.0: "in parts"}).is_alone
    assert not replace(scanned({2: 0.05}, largest=2), left_out={2.0: "not tried"}).is_alone


def test_a_scan_shows_how_far_the_eigenvectors_of_a_trial_are():
    shown = []
    for stage, done, total in (("graph", 1, 2), ("eigenvectors", 3, 4), ("eigenvectors", 7, 0), ("eigenvectors", 4, 4)):
        show_trial(lambda *args: shown.append(args), 2, 5, stage, done, total)
    assert shown == [("scan", done, 500) for done in (275, 200, 299)]


def test_few_points_do_not_make_a_sound_map_larger():
    """A gain of .03 counts if few points cannot feign it (resolution .005), or if the map has several sheets."""
    for limits, resolution, overlap, size in (
        ((0.03, 0.0, 0.0), 0.005, 0.1, 3), ((0.03, 0.0, 0.0), 0.05, 0.1, 2), ((0.03, 0.0, 0.0), 0.05, SHEETS + 0.1, 3),
        ((0.04, 0.035, 0.0), 0.0, 0.9, 4), ((0.04, 0.035, 0.025), 0.0, 0.9, 2),  # two more, where one does not help
    ):  # fmt: skip
        tried = scanned(dict(enumerate(limits, 2)))
        (only,) = tried.trials
        only.limit = lambda s, only=only, resolution=resolution: Estimated(only.lost(s), 0.0, resolution)
        only.overlap = lambda s, overlap=overlap: overlap
        assert tried.size == size
    for left, size in ((0.1, 3), (0.4, 2)):  # one that brings a lost direction back, however little of the variance
        narrow = scanned({2: 0.5, 3: left, 4: left})
        narrow.trials[0].limit = lambda s: Estimated(0.001, 0.0)
        assert narrow.size == size


def test_equally_good_bandwidths_are_decided_by_the_rule_of_neighbours():
    for left, best in ((0.0950, 1), (0.0850, 2)):
        assert scanned({2: 0.1000}, {2: left}, {2: 0.2}).best(2).bandwidth == best
    for left, best in ((0.23, 2), (0.4, 1)):  # a map without a fold is preferred where it loses little more
        both = scanned({2: 0.2}, {2: left})
        both.trials[0].is_folded = lambda s: True
        assert both.best(2).bandwidth == best
    thin = scanned({2: 0.3}, {2: 0.2})
    thin.trials[1].is_thin = True  # a full trial that explains less than its thin one gives way
    full = with_trial(thin, whole(bandwidth=2.0, lost=lambda s: 0.4))
    assert thin.best(2).is_thin and full.best(2).bandwidth == 1 and [t.lost(2) for t in full.trials] == [0.3, 0.4]


def test_a_narrow_choice_is_looked_at_more_closely():
    """The best bandwidth loses .4, a step beside it half as much again; trials between do not take the doubt away."""
    narrow = scanned({2: 0.6}, {2: 0.4}, {2: 0.6})
    assert narrow.is_narrow(2) and narrow.beside(2) == pytest.approx(1.5)
    np.testing.assert_allclose(narrow.between(2), [2**0.5, 2**1.5])
    assert not scanned({2: 0.46}, {2: 0.4}, {2: 0.46}).is_narrow(2)  # 15 % more
    assert not scanned({2: 0.06}, {2: 0.04}, {2: 0.06}).is_narrow(2)  # .02 of a direction
    assert scanned({2: 0.04}).beside(2) == 0
    steps = [whole(bandwidth=2 ** (0.5 * k), lost=lambda s, k=k: 0.4 + 0.2 * abs(k)) for k in (-1, 0, 1)]
    tables = {2: 0.09}, {2: 0.06}, {2: 0.04}, {2: 0.06}
    np.testing.assert_allclose(scanned(*tables).between(2), [2**1.5, 2**2.5])  # beside the best alone
    both = Scan(tuple(steps), {}, 1.0, (2, 2))
    for k in (1, -1):
        both = with_trial(both, whole(bandwidth=2 ** (0.25 * k), lost=lambda s: 0.5))
    assert [t.bandwidth for t in both.trials] == sorted(2 ** (0.25 * k) for k in (-2, -1, 0, 1, 2))
    assert replace(narrow, sizes=(2, 2)).may_miss_the_best
    assert not scanned({2: 1.4}, {2: 0.95}, {2: 1.4}, largest=2).may_miss_the_best
    assert both.best(2).lost(2) == 0.4 and both.beside(2) == pytest.approx(1.5)  # a step away, as before
