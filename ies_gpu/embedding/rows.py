"""Which rows of the input are used, and in which order they stand on the device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..backend import backend_of
from ..backend.array import Array


class Rows(NamedTuple):
    """The rows of the input that a Laplacian is of, and their order on the device.

    Of ``n_input`` rows those in ``used``, rising, are used; ``order`` has the number in ``used`` of the row at each
    place. ``edges`` is True for the order in space, has the edges of groups if the order was found from a matrix, and
    is False for the order of the input.
    """

    n_input: int
    used: np.ndarray
    order: np.ndarray
    edges: bool | np.ndarray = False

    @classmethod
    def every(cls, n: int) -> Rows:
        """Return all n rows of the input, as they stand there."""
        return cls(n, np.arange(n), np.arange(n))

    @property
    def stand_as_given(self) -> bool:
        """Whether the device has the order of the input."""
        return self.edges is False

    @property
    def numbers(self) -> np.ndarray:
        """The row of the input at each place on the device."""
        return self.used[self.order]

    def to_user(self, array: Array) -> Array:
        """Return an array of one row per point in the order of the input; the same array if it stands so."""
        return array if self.stand_as_given else array[backend_of(array).asarray(np.argsort(self.order))]

    def to_device(self, array: Array) -> Array:
        """Return an array of one row per point that is used, given in the order of the input, in that of the device."""
        return array if self.stand_as_given else array[backend_of(array).asarray(self.order)]
