"""Held-out points of the paper's data sets land where a joint embedding has them."""

from __future__ import annotations

import pytest

from benchmarks.new_points import held_out


@pytest.mark.parametrize(
    ("name", "n"), [("D1", 2000), *(pytest.param(name, 10_000, marks=pytest.mark.slow) for name in ("D1", "D3", "D7"))]
)
def test_held_out_points(name, n):
    row = held_out(name, n)
    assert row.isolated == 0
    assert row.returned < 1e-6  # training points return
    # as near to the joint map as the training points, which were embedded twice, are to themselves
    assert row.extension < 1.5 * row.training < 0.1
    assert row.extension < row.nearest
