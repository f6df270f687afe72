"""Digests of data: equal for equal data, whatever holds them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from ies_gpu.run.checkpoint import data_digest

pytestmark = pytest.mark.usefixtures("plain_kernels")


def test_equal_data_have_equal_digests(points):
    base = data_digest({"X": points})
    wide = np.zeros((len(points), 7))
    wide[:, 2:5] = points
    assert data_digest({"X": np.array(points)}) == base == data_digest({"X": wide[:, 2:5]})
    assert data_digest({"X": points.astype("float32")}) != base != data_digest({"X": points[::-1]})
    assert data_digest({"graph": points}) != base
    objects = points[:5].astype(object)
    assert data_digest({"X": objects}) == data_digest({"X": points[:5].astype(object)})
    assert data_digest({"X": points[:5].tolist()}) == data_digest({"X": points[:5]})
    matrix = scipy.sparse.random(40, 40, 0.2, random_state=0)
    assert data_digest({"graph": matrix}) == data_digest({"graph": matrix.tocsr()})
    changed = matrix.tocsr()
    changed.data[3] += 1
    assert data_digest({"graph": matrix}) != data_digest({"graph": changed})
