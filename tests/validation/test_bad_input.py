"""Bad input gets a clear error before long work; odd but sound input is accepted."""

from __future__ import annotations

import re
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

from ies_gpu import DeviceError, diffusion_map, knn_graph, laplacian_of_points, radius_graph, select_coordinates
from ies_gpu.cli.parser import say_in_flags
from tests.manifolds import rectangle
from tests.said import refused
from tests.validation.cases import ACCEPTED, CASES, EPS, GOOD, LAPLACIAN, REFUSED, X, refusal

USUAL = select_coordinates(X, device="cpu", **GOOD)


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_in_words(case):
    _, kind, code = CASES[case]
    error = refusal(case)
    assert type(error) is kind and str(error) == str(error.finding)
    assert fnmatch(error.finding.code, code)
    for text in (str(error), say_in_flags(error.finding)):
        assert "\n" not in text and len(text) < 400
        if case != "ragged lists":  # which ends in the words of NumPy
            assert "`" not in text and "  " not in text and not text.endswith((".", ";", ":", " "))


@pytest.mark.parametrize("case", ACCEPTED)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_odd_but_sound_input_is_accepted(case):
    make, factor = ACCEPTED[case]
    selection = select_coordinates(make(), **GOOD | {"bandwidth": factor * EPS})
    assert selection.subset[0] == 0
    assert np.isfinite(selection.coordinates).all()
    if case not in ("a data frame", "duplicates"):  # other points
        assert selection.subset == USUAL.subset
        np.testing.assert_allclose(selection.eigenvalues, USUAL.eigenvalues, rtol=2e-2 if "half" in case else 1e-4)


@pytest.mark.parametrize(("bandwidth", "code"), [(1e-6, "graph.isolated"), (1e3, "graph.all_pairs")])
def test_hopeless_bandwidths_are_found_at_once(bandwidth, code):
    """At n = 100,000 the sampled rows tell, long before a graph would be built."""
    points, _, _ = rectangle(100_000, 3.0)
    with refused("graph.*"):
        select_coordinates(points[:500], **GOOD | {"bandwidth": bandwidth})  # compiles, if need be
    begin = time.process_time()
    with refused(code):
        select_coordinates(points, **GOOD | {"bandwidth": bandwidth})
    assert time.process_time() - begin < 5  # a second on a quiet machine


def test_steps_refuse_too():
    with refused("radius.range"):
        radius_graph(X, radius=0)
    with refused("n_neighbors.range"):
        knn_graph(X, n_neighbors=600)
    with refused("laplacian.*", TypeError):
        diffusion_map("laplacian")
    with refused("n_components.range"):
        diffusion_map(LAPLACIAN, n_components=599)
    with refused("kernel.empty_rows"):
        laplacian_of_points(np.vstack([X, [[50.0, 0, 0]]]), bandwidth=3 * EPS, self_loops=False)
    with refused("subset.range"):
        USUAL.score(("phi1", "phi9"))


def test_cuda_is_refused_where_there_is_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with refused("device.unusable", DeviceError):
        select_coordinates(X, **GOOD, device="cuda")
    assert select_coordinates(X, **GOOD, device="auto").diagnostics["device"] == "cpu"
    monkeypatch.setenv("IES_GPU_DEVICE", "cpu")
    assert "IES_GPU_DEVICE=cpu" in select_coordinates(X, **GOOD).diagnostics["device_reason"]
    monkeypatch.setenv("IES_GPU_DEVICE", "tpu")
    with refused("device.choice"):
        select_coordinates(X, **GOOD)
    for name in ("IES_GPU_DEVICE", "IES_GPU_KERNELS"):  # which count as not set
        monkeypatch.setenv(name, "")
    assert "IES_GPU_DEVICE" not in select_coordinates(X, **GOOD).diagnostics["device_reason"]


def test_the_codes_on_the_page_about_data_are_those_of_refusals():
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text().partition("## What is refused")[2]
    named = set(
        re.findall(r"`([a-zX]+\.[a-z_]+)`", "".join(line.split("|")[2] for line in page.splitlines() if "|" in line))
    )
    known = {code for cases in REFUSED.values() for _, _, code in cases.values()}
    assert len(named) > 10 and named <= known
