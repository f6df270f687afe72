"""Whether two results are the same: to the bit, or as far as two devices can agree."""

import dataclasses
import zipfile
from contextlib import contextmanager

import numpy as np

from ies_gpu import Selection

# how long it took, how much memory, and what was resumed may differ between two runs of one job
TOLD_APART = ("seconds", "peak_bytes", "checkpoint", "configuration", "storage")


def assert_same(a, b, where="", ignored=TOLD_APART):
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


@contextmanager
def changed(path):
    """The members of an archive by name, which are written when they have been changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    yield members
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def resumed(selection):
    return selection.diagnostics["checkpoint"]["resumed"]


def in_order(selection: Selection) -> tuple[np.ndarray, np.ndarray]:
    order = np.lexsort(selection.ranking.subsets.T[::-1])
    return selection.ranking.subsets[order], selection.ranking.scores[order]


def assert_agreement(found: Selection, expected: Selection, tolerance: float = 1e-6) -> None:
    """The same sets along the path, and mean scores that agree wherever they are not the logarithm of rounding."""
    assert found.subset == expected.subset
    assert [segment.subset for segment in found.path] == [segment.subset for segment in expected.path]
    (sets, scores), (others, reference) = in_order(found), in_order(expected)
    np.testing.assert_array_equal(sets, others)
    sound = reference > -2
    assert sound.any()
    assert np.abs(scores - reference)[sound].max() <= tolerance


def stored_as(monkeypatch, storage):
    """Store the kernels of points in one of the ways of ``embedding/points.py``, whatever the memory would allow."""
    monkeypatch.setattr("ies_gpu.embedding.points.plan_storage", lambda *_: (storage, {"multilevel_fits": False}))
