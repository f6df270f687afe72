"""The distance of a map from a known truth."""

from __future__ import annotations

from ..backend import at_home, backend_of, to_device
from ..backend.array import Array
from ..findings import option, refusal
from ..validation import check_real_array


@at_home
def procrustes_error(truth: Array, embedding: Array) -> float:
    """Compute the Procrustes error of a map against a known truth.

    ``M^2`` is the sum of squares left after the best shift, scaling, rotation and reflection:
    ``1 - (sum of singular values of A' B)^2`` with both sides centred and of unit Frobenius norm. Reflections are
    allowed because the signs of eigenvectors are arbitrary. The side with fewer columns is padded with zeros.

    Parameters
    ----------
    truth : ndarray of shape (n_samples, n_true)
        The true coordinates.
    embedding : ndarray of shape (n_samples, n_components)
        The coordinates to judge.

    Returns
    -------
    float
        ``M^2``, from 0 (the same up to a similarity) to 1.
    """
    A, B = check_real_array("truth", truth, 2), check_real_array("embedding", embedding, 2)
    if len(A) != len(B):
        text = f"truth and embedding must have the same number of rows, got {len(A)} and {len(B)}"
        raise refusal("embedding.rows", text)
    xp = backend_of(B).xp
    sides = []
    for name, part in (("truth", to_device(A, backend_of(B))), ("embedding", B)):
        same = bool((part == part[:1]).all())  # a mean may differ from its copies by a rounding
        part = part - part.mean(axis=0)
        norm = float(xp.linalg.norm(part))
        if same or norm == 0:
            raise refusal(f"{name}.copies", f"{option(name)} must not consist of {len(part)} copies of one point")
        sides.append(part / norm)
    overlap = float(xp.linalg.svd(sides[0].T @ sides[1], compute_uv=False).sum())
    return max(0.0, 1 - overlap**2)
