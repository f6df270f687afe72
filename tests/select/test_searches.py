"""Every search through ``select_coordinates``: what is promised, what is kept, what is refused."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from ies_gpu import datasets, select_coordinates
from ies_gpu.choice.pool import branch_sets
from ies_gpu.choice.search import SEARCHES
from ies_gpu.options import TABLE
from tests.said import refused, warned

TORUS = datasets.load("D7", n_samples=1200)
OPTIONS = {"intrinsic_dim": 2, "subset_size": 3, "bandwidth": 4.0, "n_components": 12}


def select(search, **more):
    return select_coordinates(TORUS.X, search=search, **{**OPTIONS, **more})


@pytest.fixture(scope="module", params=TABLE["search"].accepts.words)
def found(request):
    return select(request.param)


def test_the_result_says_which_search_ran_and_what_it_promises(found):
    how = found.diagnostics["search"]
    assert how["method"] == found.diagnostics["parameters"]["search"]
    few = "exact over the pool only"
    expected = {"exhaustive": "exact", "branch_and_bound": f"exact path; regret {few}"}
    assert how["guarantee"] == expected.get(how["method"], few)
    assert how["path_exact"] == (how["method"] in ("exhaustive", "branch_and_bound"))
    assert how["sets_total"] == 55 and how["pool_size"] == len(found.ranking.subsets)
    assert found.diagnostics["sets_scored"] == how["sets_scored"] >= how["pool_size"]
    assert (how["method"] in repr(found)) == (how["method"] != "exhaustive")
    assert max(map(len, repr(found).splitlines())) <= 80


def test_a_given_zeta_works_in_every_search():
    exact = select("exhaustive", zeta=1.5)
    for search in TABLE["search"].accepts.words[1:]:
        other = select(search, zeta=1.5)
        assert other.zeta == 1.5 and other.subset == exact.subset
    assert other.diagnostics["search"]["guarantee"] == "exact"


def test_the_summary_does_without_the_first_coordinates(found):
    rest = ~(found.ranking.subsets == np.arange(3)).all(axis=1)
    ranking = found.ranking._replace(**{k: v[rest] for k, v in found.ranking._asdict().items()})
    assert "not scored" in repr(replace(found, ranking=ranking, subset=tuple(ranking.subsets[0].tolist())))


def test_too_many_sets_for_enumeration_names_the_other_searches():
    large = {"n_components": 60, "subset_size": 9}
    with refused("search.too_many"):
        select("exhaustive", **large)
    assert len(select("greedy", **large, zeta=1.0).subset) == 9
    with refused("search.too_many"):
        select("greedy", n_components=60, intrinsic_dim=9, subset_size=10)


def test_a_search_that_was_stopped_warns_with_its_gap(monkeypatch):
    monkeypatch.setitem(SEARCHES, "branch_and_bound", partial(branch_sets, node_limit=0))
    with warned("search.gap"):
        found = select("branch_and_bound", zeta=0.1)
    assert found.diagnostics["search"]["gap"] > 0 and "proved gap" in repr(found)
