"""What people have at hand and pass by mistake: the error says what to pass instead, and that works."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import DisconnectedGraphError, datasets, plot, select_coordinates
from tests.extras import needed
from tests.said import refused

pytestmark = pytest.mark.usefixtures("plain_kernels")
SIZES = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 1.2}
X = datasets.load("D1", n_samples=400).X


def test_an_anndata_object():
    anndata = needed("anndata", "anndata")
    with refused("X.anndata", TypeError):
        select_coordinates(anndata.AnnData(X), **SIZES)


def test_a_largest_part_that_is_too_small():
    scattered = np.r_[X[:6] * 1e-3, 1e6 * np.arange(1, 301)[:, None] * np.ones((300, X.shape[1]))]
    with refused("graph.*", DisconnectedGraphError):
        select_coordinates(scattered, **SIZES, disconnected="largest")


def test_names_beyond_the_last_coordinate():
    selection = select_coordinates(X, **SIZES, n_components=8)
    for act in (selection.score, lambda names: plot.embedding(selection, names)):
        with refused("subset.range"):
            act(("phi1", "phi9"))
