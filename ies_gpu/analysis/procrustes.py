"""The distance of a map from a known truth."""

from __future__ import annotations

from typing import Any

from ..backend import at_home, backend_of, to_device
from ..validation import check_real_array


@at_home
def procrustes_error(truth: Any, embedding: Any) -> float:
    """``M^2``, the sum of squares left after the best shift, scaling, rotation and reflection: 0 to 1.

    ``1 - (sum of singular values of A' B)^2`` for both centred and of unit Frobenius norm. Reflections are allowed,
    because the signs of eigenvectors are arbitrary. Where one has fewer columns it counts as filled up with zeros.

    Parameters
    ----------
    truth, embedding : array (n, k), (n, l)
    """
    A, B = check_real_array("truth", truth, 2), check_real_array("embedding", embedding, 2)
    if len(A) != len(B):
        raise ValueError(f"truth and embedding must have the same number of rows, got {len(A)} and {len(B)}")
    xp = backend_of(B).xp
    sides = []
    for name, part in (("truth", to_device(A, backend_of(B))), ("embedding", B)):
        part = part - part.mean(axis=0)
        norm = float(xp.linalg.norm(part))
        if norm == 0:
            raise ValueError(f"{name} must not consist of {len(part)} copies of one point")
        sides.append(part / norm)
    overlap = float(xp.linalg.svd(sides[0].T @ sides[1], compute_uv=False).sum())
    return max(0.0, 1 - overlap**2)
