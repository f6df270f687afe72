"""Whether two results are the same, to the bit."""

from __future__ import annotations

import dataclasses

import numpy as np

# how long it took, how much memory, and what was resumed may differ between two runs of one job
TOLD_APART = ("seconds", "peak_bytes", "checkpoint", "configuration")


def assert_same(a, b, where="", ignored=TOLD_APART):
    """The same types and bits, all the way down."""
    assert type(a) is type(b), (where, type(a), type(b))
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes(), where
    elif isinstance(a, dict):
        keys = [key for key in a if key not in ignored]
        assert keys == [key for key in b if key not in ignored], where
        for key in keys:
            assert_same(a[key], b[key], f"{where}.{key}", ignored)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for k, pair in enumerate(zip(a, b, strict=True)):
            assert_same(*pair, f"{where}.{k}", ignored)
    else:
        assert a == b or (a != a and b != b), where


def assert_equal_selections(a, b, ignored=TOLD_APART):
    for field in dataclasses.fields(a):
        assert_same(getattr(a, field.name), getattr(b, field.name), field.name, ignored)


def resumed(selection):
    return selection.diagnostics["checkpoint"]["resumed"]
