"""Constraints: what they take, what they read from text, and what they say."""

from fractions import Fraction

import numpy as np

from ies_gpu.constraints import Bytes, Device, Integer, Length, Number, Percentile, Seed, Switch, Words
from tests.said import refused

LENGTH = Length() | Words("auto", "fixed") | None


def test_a_value_is_taken_as_plain_python():
    for accepts, value, used in (
        (Number(), np.float32(0.5), 0.5),
        (Number(0, 1, closed=True), Fraction(1, 2), 0.5),
        (Integer(1), np.int8(3), 3),
        (Switch(), np.True_, True),
        (LENGTH, "auto", "auto"),
        (LENGTH, None, None),
        (LENGTH, 2, 2.0),
        (Seed(0), 7, 7),
        (Seed(0), np.random.default_rng(3), int(np.random.default_rng(3).integers(2**31))),
        (Seed(0), np.random.RandomState(3), int(np.random.RandomState(3).randint(2**31 - 1))),
    ):
        found = accepts.check("name", value)
        assert found == used and type(found) is type(used)


def test_what_is_refused_is_named_with_what_is_accepted():
    for accepts, value, kind, words in (
        (Number(), True, TypeError, "must be a finite number greater than 0"),
        (Number(0, 1, closed=True), 2, ValueError, "between 0 and 1"),
        (Integer(2, 5), 6, ValueError, "between 2 and 5"),
        (Length(), 1e200, ValueError, "so that its square is a float"),
        (Percentile(), 0.75, ValueError, "pass 75 if that is a share"),
        (LENGTH, "wide", ValueError, "must be a finite number greater than 0, 'auto' or 'fixed', got 'wide'"),
        (Words("a", "b"), 3, ValueError, "one of 'a', 'b'"),
        (Device(), "tpu", ValueError, "'cuda:N'"),
        (Words("a", "b", advice="or c"), "c", ValueError, "one of 'a', 'b', got 'c'; or c"),
    ):
        with refused("name.*", kind) as caught:
            accepts.check("name", value)
        assert words in str(caught.value)


def test_text_is_read_as_the_value_it_means():
    for accepts, text, value in (
        (Integer(1), "1e6", 10**6),
        (Bytes(), "1.5G", 3 << 29),
        (Bytes(), "500MB", 500 << 20),
        (LENGTH, "auto", "auto"),
        (LENGTH, "0.25", 0.25),
        (Device(), "cuda:3", "cuda:3"),
    ):
        assert accepts.check("name", accepts.parse(text)) == value


def test_none_is_the_global_state_of_numpy():
    found = []
    for _ in range(2):
        np.random.seed(5)  # noqa: NPY002
        found.append(Seed(0).check("name", None))
    assert found[0] == found[1]
