"""Conjugate gradients over arrays in pieces: the client hands out all steps at once and waits for none.

The sums over blocks of each step are added up by a task of the first worker. So that one such task is enough, the
length of the next residual r is found from sums of this step: ``|r - a i|^2 = r'r - 2 a r'i + a^2 i'i``, i the image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..backend import Backend
from ..backend.kernels.plain_multilevel import step_lengths
from ..embedding.eigensolvers.multilevel import CG_TOL
from .team import Call, Pieces, Team, item, joined

if TYPE_CHECKING:
    from .levels import TallLevel

CLEANED = 10  # steps after which rounding has let the removed vectors grow back


class Sums(NamedTuple):
    """Of one step, by column: squared lengths of residuals before and after it, curvatures of directions, Q'image."""

    square: np.ndarray
    left: np.ndarray
    curvature: np.ndarray
    shadow: np.ndarray | None


def tall_inverse(level: TallLevel, F: Pieces, shift: np.ndarray, Q: Pieces) -> Pieces:
    """What :func:`.multilevel.coarse_inverse` computes on a device, in ``level.steps`` steps.

    ``level.late`` becomes the future of the number of steps that ended above the goal.
    """
    team, columns = level.team, F.shape[1]
    inside, shift = columns * Q.shape[1], shift.astype(np.float32)
    given = team.map(with_shadow, F.parts, Q.parts)
    states = team.map(begun, given, Q.parts, summed(team, total_of, given))
    steps = []
    for step in range(1, level.steps + 1):
        level.count_product(columns)
        cleaned = step % CLEANED == 0
        others = team.exchanged([Call(item, (state, 2)) for state in states], level.outgoing)
        images = team.map(image_of, level.entries, Q.parts if cleaned else None, shift, states, others)
        steps.append(summed(team, sums_of_step, images))
        states = team.map(descended, states, images, Q.parts, steps[-1])
        level.count_sums(4 * columns + cleaned * inside, 3 * columns + cleaned * inside)
    level.late = team.submit(late_of, *steps, block=0)
    found = team.map(with_shadow, [Call(item, (state, 0)) for state in states], Q.parts)
    level.count_sums(2 * inside, 2 * inside)
    return Pieces(team, team.map(outside, found, Q.parts, summed(team, total_of, found)), F.shape)


def summed(team: Team, function: Any, results: list[Any]) -> Any:
    """A task of the first worker with the second of each block's results."""
    small = [team.passed(item, result, 1, at=i, to=0) for i, result in enumerate(results)]
    return team.submit(function, *small, block=0)


# --- tasks -----------------------------------------------------------------------------------------------------------


def with_shadow(backend: Backend, F: Any, Q: Any) -> tuple[Any, np.ndarray]:
    """An array and its inner products with Q."""
    return F, backend.to_host(backend.kernels.inner(Q, F))


def total_of(backend: Backend, *parts: np.ndarray) -> np.ndarray:
    return sum(parts[1:], parts[0])


def outside(backend: Backend, given: tuple[Any, np.ndarray], Q: Any, inside: np.ndarray) -> Any:
    """``F - Q (Q'F)``."""
    return given[0] - Q @ backend.asarray(inside.astype(np.float32))


def begun(backend: Backend, given: tuple[Any, np.ndarray], Q: Any, inside: np.ndarray) -> tuple[Any, Any, Any]:
    """Solution, residual and direction before the first step."""
    R = outside(backend, given, Q, inside)
    return backend.xp.zeros_like(R), R, R


def image_of(
    backend: Backend, S: tuple[Any, Any, Any], Q: Any, shift: np.ndarray, state: tuple[Any, Any, Any], *others: Any
) -> tuple[Any, tuple[np.ndarray, np.ndarray | None]]:
    """``(shift - S) P``, and the block's part of the sums, with those for ``Q'`` of it where Q is given."""
    xp, kernels = backend.xp, backend.kernels
    _, R, P = state
    each = xp.arange(P.shape[1]), backend.asarray(shift)
    image = kernels.block_product(*S, joined(backend, P, *others), P, np.float32(-1), chosen=each)
    pairs = (R, R), (P, image), (R, image), (image, image)
    sums = backend.to_host(xp.stack([kernels.column_products(*pair) for pair in pairs]))
    return image, (sums, None if Q is None else backend.to_host(kernels.inner(Q, image)))


def sums_of_step(backend: Backend, *parts: tuple[np.ndarray, np.ndarray | None]) -> Sums:
    sums, shadows = zip(*parts, strict=True)
    square, curvature, across, image = sum(sums[1:], sums[0])
    square = square + 1e-30  # it is divided by
    shadow = None if shadows[0] is None else sum(shadows[1:], shadows[0])
    if shadow is not None:
        image = image - (shadow * shadow).sum(axis=0)
    step = step_lengths(square, curvature).astype(np.float64)
    left = np.maximum(square - 2 * step * across + step * step * image, 0) + 1e-30
    return Sums(square, left, curvature, shadow)


def descended(
    backend: Backend, state: tuple[Any, Any, Any], image: tuple[Any, Any], Q: Any, sums: Sums
) -> tuple[Any, Any, Any]:
    """Solution, residual and direction after a step; copies, since another task may still read the old ones."""
    Z, R, P = (part.copy() for part in state)
    along = image[0]
    if sums.shadow is not None:
        along = along - Q @ backend.asarray(sums.shadow.astype(np.float32))
    square, left, curvature = (backend.asarray(part) for part in sums[:3])
    backend.kernels.descend(Z, R, P, along, square, curvature)
    backend.kernels.turn(R, P, left, square)
    return Z, R, P


def late_of(backend: Backend, *steps: Sums) -> int:
    """How many steps ended above the goal."""
    goal = CG_TOL**2 * steps[0].square + 1e-29
    return sum(bool((sums.left > goal).any()) for sums in steps)
