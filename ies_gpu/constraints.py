"""What a value may be: one object checks a value from Python, reads it from text, and says it in words."""

from __future__ import annotations

import math
import numbers
import os
import re
from dataclasses import dataclass
from typing import Any

from .findings import brief, option, refusal

LARGEST = 1e153  # squares of numbers up to here, and sums of them, are floats


class Constraint:
    """What values are accepted; ``str`` of it follows "must be"."""

    types: Any = object  # of the values; True and False are no numbers
    name: str = ""
    kind: type[Exception] = TypeError  # raised for a value of another kind altogether,
    code = "type"  # and the end of its code
    advice = ""

    def __str__(self) -> str:
        return self.name

    def takes(self, value: Any) -> bool:
        """Return whether a value is of the right kind, in range or not."""
        return isinstance(value, self.types) and not isinstance(value, bool)

    def within(self, name: str, value: Any) -> Any:
        """Return the value as it is used, or raise if it is out of range."""
        return value

    def check(self, name: str, value: Any) -> Any:
        """Return the value as it is used, or raise an error that names the option."""
        if not self.takes(value):
            raise self.error(name, value)
        return self.within(name, value)

    def error(self, name: str, value: Any, code: str = "", advice: str = "") -> Exception:
        """Return the error for a value of another kind, or with another code for one that is out of range."""
        text = f"{option(name)} must be {self}, got {brief(value)}"
        return refusal(f"{name}.{code or self.code}", text, advice or self.advice, ValueError if code else self.kind)

    def parse(self, text: str) -> Any:
        """Return the value that a flag, a variable or a line of a job file gives, or raise a ValueError."""
        if not self.takes(text):
            raise ValueError(text)
        return text

    def __or__(self, other: Constraint | None) -> Constraint:
        parts = getattr(self, "parts", (self,))
        return Either(parts if other is None else (*parts, other), or_none=other is None)


@dataclass(frozen=True)
class Number(Constraint):
    """A finite real number in (low, high), or [low, high] when closed."""

    low: float = 0.0
    high: float = math.inf
    closed: bool = False

    types = numbers.Real

    def within(self, name: str, value: Any) -> float:
        try:
            number = float(value)
        except Exception:  # an integer or fraction beyond the largest float
            number = math.nan
        inside = self.low <= number <= self.high if self.closed else self.low < number < self.high
        if not (math.isfinite(number) and inside):
            raise self.error(name, value, "range")
        return number

    def parse(self, text: str) -> float:
        return float(text)

    def __str__(self) -> str:
        if self.closed and self.high < math.inf:
            return f"a number between {self.low:g} and {self.high:g}"
        above = f", at least {self.low:g}" if self.closed else f" greater than {self.low:g}"
        return f"a finite number{above}" + (f" and below {self.high:g}" if self.high < math.inf else "")


class Length(Number):
    """A positive length whose square is a float, and one over it too."""

    def within(self, name: str, value: Any) -> float:
        length = super().within(name, value)
        if not 1 / LARGEST < length < LARGEST:
            span = f"between {1 / LARGEST:.0e} and {LARGEST:.0e}, so that its square is a float"
            text = f"{option(name)} must be {span}, got {brief(value)}"
            raise refusal(f"{name}.range", text, "measure the points in another unit")
        return length


@dataclass(frozen=True)
class Percentile(Number):
    """A number from 0 to 100; a share such as 0.75 is a slip."""

    high: float = 100.0
    closed: bool = True

    def within(self, name: str, value: Any) -> float:
        number = super().within(name, value)
        if 0 < number < 1:
            raise self.error(name, value, "range", f"pass {100 * number:g} if that is a share")
        return number


@dataclass(frozen=True)
class Integer(Constraint):
    """An integer in [low, high]; ``why`` gives the reason for the range."""

    low: int
    high: int | None = None
    why: str = ""

    types = numbers.Integral

    def within(self, name: str, value: Any) -> int:
        number = int(value)  # in eight bits of NumPy, products of them would wrap around
        if number < self.low or (self.high is not None and number > self.high):
            raise self.error(name, number, "range")
        return number

    def parse(self, text: str) -> int:
        if not float(text).is_integer():  # 1e6 is one too
            raise ValueError(text)
        return int(text) if text.isdecimal() else int(float(text))

    def __str__(self) -> str:
        span = f", at least {self.low}" if self.high is None else f" between {self.low} and {self.high}"
        return f"an integer{span}{self.why}"


@dataclass(frozen=True)
class Bytes(Integer):
    """A number of bytes; text may have a unit, in powers of 1024."""

    low: int = 1 << 20
    high: int | None = 1 << 62

    def parse(self, text: str) -> int:
        match = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
        if match is None:
            raise ValueError(text)
        return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))

    def __str__(self) -> str:
        return f"a number of bytes, at least {self.low} (on the command line also 4G or 500M)"


class Words(Constraint):
    """One of several words, with what to do if another was meant."""

    kind = ValueError
    code = "choice"

    def __init__(self, *words: str, advice: str = "") -> None:
        self.words, self.advice = words, advice

    def takes(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.words

    def __str__(self) -> str:
        return f"one of {', '.join(map(repr, self.words))}" if len(self.words) > 1 else repr(self.words[0])


class Device(Constraint):
    """The name of a device."""

    kind = ValueError
    code = "choice"
    name = "'auto', 'cpu', 'cuda' or 'cuda:N'"

    def takes(self, value: Any) -> bool:
        return isinstance(value, str) and re.fullmatch(r"auto|cpu|cuda(:\d{1,6})?", value) is not None


class Switch(Constraint):
    """True or False, in Python's form or NumPy's."""

    name = "True or False"

    def takes(self, value: Any) -> bool:
        kind = type(value)
        return kind is bool or (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"))

    def within(self, name: str, value: Any) -> bool:
        return bool(value)


class Seed(Integer):
    """A seed, or what NumPy and scikit-learn call a random state; one is drawn from a generator, or for None."""

    def takes(self, value: Any) -> bool:
        return value is None or self._draws(value) or super().takes(value)

    def within(self, name: str, value: Any) -> int:
        if value is None:
            import numpy

            value = numpy.random.mtrand._rand  # NumPy's global state, as in scikit-learn
        if self._draws(value):
            value = value.integers(2**31) if hasattr(value, "integers") else value.randint(2**31 - 1)
        return super().within(name, value)

    @staticmethod
    def _draws(value: Any) -> bool:
        kind = type(value)
        return kind.__module__.startswith("numpy.random") and kind.__name__ in ("Generator", "RandomState")


@dataclass(frozen=True)
class Kind(Constraint):
    """Any value of some types."""

    types: Any
    name: str


TEXT, PATH = Kind(str, "text"), Kind(str | os.PathLike, "a path")


@dataclass(frozen=True)
class Either(Constraint):
    """What any of several constraints accepts, the first of which is the usual kind, or None."""

    parts: tuple[Constraint, ...]
    or_none: bool = False  # which no text stands for, and no message names

    def takes(self, value: Any) -> bool:
        return (self.or_none and value is None) or any(part.takes(value) for part in self.parts)

    def within(self, name: str, value: Any) -> Any:
        return next((part.within(name, value) for part in self.parts if part.takes(value)), None)

    def error(self, name: str, value: Any, code: str = "", advice: str = "") -> Exception:
        word = isinstance(value, str) and any(isinstance(part, Words) for part in self.parts)
        text = f"{option(name)} must be {self}, got {brief(value)}"
        return refusal(f"{name}.type", text, kind=ValueError if word else self.parts[0].kind)

    def parse(self, text: str) -> Any:
        for part in reversed(self.parts):  # words before numbers
            try:
                return part.parse(text)
            except ValueError:
                continue
        raise ValueError(text)

    def __str__(self) -> str:
        kinds = [str(part) for part in self.parts if not isinstance(part, Words)]
        kinds += [repr(word) for part in self.parts if isinstance(part, Words) for word in part.words]
        last = ", or " if any("," in kind for kind in kinds) else " or "
        return last.join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))
