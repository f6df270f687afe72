"""Nearly equal eigenvalues, and what rotating their two eigenvectors into each other does to the choice.

Eigenvectors of equal eigenvalues are only defined up to a rotation, and those of nearly equal ones are mixed by the
sample. When the coordinates are rotated, the tangent bases rotate too: the co-metric of ``Q y`` is ``Q H Q'``, and
its bases are ``Q U``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...backend import backend_of
from ...backend.array import Array
from ...choice.criterion import log_volumes
from ...choice.stable import NearPair

if TYPE_CHECKING:
    from ...results.selection import Selection

ANGLES = 72  # tried over half a turn, then refined


@dataclass(frozen=True)
class Rotation:
    """A member of the chosen set, replaced by a mixture of itself and its near twin.

    Attributes
    ----------
    member, twin : int
        0-based: ``cos(angle) phi_member + sin(angle) phi_twin`` takes the place of the member.
    angle : float
        The angle in (-pi/2, pi/2] with the highest mean score.
    score, score_of_member, score_of_twin : float
        Mean scores R of the set with the mixture, with the member, and with the twin in its place.
    """

    member: int
    twin: int
    angle: float
    score: float
    score_of_member: float
    score_of_twin: float

    def apply(self, coordinates: Array) -> Array:
        """Rotate the two columns.

        Parameters
        ----------
        coordinates : ndarray of shape (n_samples, n_components)
            The eigenvectors.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            A copy, with the mixture in the member's place and the rest in the twin's.
        """
        turned = coordinates.copy()
        c, s = np.cos(self.angle), np.sin(self.angle)
        turned[:, self.member] = c * coordinates[:, self.member] + s * coordinates[:, self.twin]
        turned[:, self.twin] = c * coordinates[:, self.twin] - s * coordinates[:, self.member]
        return turned


def rotations_of(
    selection: Selection, pairs: tuple[NearPair, ...], rivals: set[tuple[int, ...]]
) -> tuple[Rotation, ...]:
    """For each near twin whose set is a rival of the chosen one: the rotation that scores best, if it gains anything.

    It explains a tie: where the sample has mixed two eigenvectors, neither of them need be a good coordinate, and a
    mixture is better than both. The gain must exceed twice its standard error. A small gain does not prove mixing: on
    an exact strip ``cos(35 degrees) (0,1) + sin(35 degrees) (1,1)`` beats (0,1) by .05.
    """
    found = []
    for pair in pairs:
        inside = [k for k in pair[:2] if k in selection.subset]
        if len(inside) != 1 or inside[0] == 0:
            continue
        member, twin = inside[0], pair.second if inside[0] == pair.first else pair.first
        swapped = tuple(sorted(twin if k == member else k for k in selection.subset))
        if swapped in rivals:
            with backend_of(selection.bases).active():  # once for many small passes
                found.append(best_rotation(selection, member, twin))
    return tuple(rotation for rotation in found if rotation is not None)


def best_rotation(selection: Selection, member: int, twin: int) -> Rotation | None:
    """The best mixture of two eigenvectors in the chosen set; None where it does not beat both of them."""
    others = [k for k in selection.subset if k != member]
    rows = selection.bases[:, [*others, member, twin]]
    backend = backend_of(rows)
    last = len(others)
    chosen = np.arange(last + 1, dtype=np.int32)[None]

    def volumes(angle: float) -> np.ndarray:
        mixed = rows[:, : last + 1].copy()
        mixed[:, last] = np.cos(angle) * rows[:, last] + np.sin(angle) * rows[:, last + 1]
        return backend.to_host(log_volumes(mixed, chosen)[:, 0])

    grid = np.linspace(-np.pi / 2, np.pi / 2, ANGLES, endpoint=False)
    scores = [float(volumes(angle).mean()) for angle in grid]
    step, angle = grid[1] - grid[0], float(grid[int(np.argmax(scores))])
    for _ in range(6):  # halve the step around the best
        around = [angle - step / 2, angle, angle + step / 2]
        angle = max(around, key=lambda a: float(volumes(a).mean()))
        step /= 2
    mixed, own, other = volumes(angle), volumes(0.0), volumes(np.pi / 2)
    better = own if own.mean() >= other.mean() else other
    gain = mixed - better
    if gain.mean() <= 2 * gain.std() / np.sqrt(len(gain)):
        return None
    angle = (angle + np.pi / 2) % np.pi - np.pi / 2
    return Rotation(member, twin, angle, float(mixed.mean()), float(own.mean()), float(other.mean()))
