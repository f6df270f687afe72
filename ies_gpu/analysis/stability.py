"""How certain is the choice: would another sample of the same size have chosen the same coordinates?

Subsamples are fitted again, from the graph on. They are to vary as a *fresh* sample does: this sample and the fresh one
each have their own error, so the variance to imitate is twice that of one sample. A third of the points, drawn without
replacement, has exactly that variance. (Resampling with the eigenvectors kept would miss most of it.)
"""

import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import betaincinv

from ..backend import at_home, backend_of, device_near, get_backend, to_host
from ..backend.array import Array
from ..choice.criterion import coordinate_names, names_text
from ..choice.search import near_pairs, same_up_to_twins
from ..findings import DisconnectedGraphError, IESWarning, NotConvergedError, code_of, listen, option, refusal
from ..options import TABLE
from ..results.selection import Selection, check_selection, used_points
from ..validation import check_integer, check_number, check_points, check_seed

MATCH = 0.5  # eigenvectors of two fits with a smaller correlation are not the same
KEPT = 0.9  # the share of a subsample that must lie in one connected part
OWN = {"entry", "disconnected", "keep_bases", "checkpoint", "resume"}  # of the first fit only, not of the refits


@dataclass(frozen=True, eq=False, repr=False)
class Stability:
    """How certain a choice is, as found by :func:`selection_stability`.

    Attributes
    ----------
    subset : tuple of int
        The set that was judged, 0-based.
    refits : dict of {tuple of int: float}
        The share of subsamples that chose each set, most frequent first, numbered by the matching eigenvectors of the
        full sample; -1 stands for one without a match.
    n_refits, failed_refits : int
        How many there were. A refit fails if the graph of its subsample falls apart.
    near_pairs : tuple of (int, int)
        Neighbouring coordinates, 0-based, whose eigenvalues differ by 5% or less.
    random_state : int
        The seed that was used.
    """

    subset: tuple[int, ...]
    refits: dict[tuple[int, ...], float]
    n_refits: int
    failed_refits: int
    near_pairs: tuple[tuple[int, int], ...]
    random_state: int = 0

    @property
    def recurrence(self) -> float | None:
        """The estimated share of fresh samples that would choose the same set; None if all refits failed.

        Half a success and half a failure are added (Jeffreys), because 20 out of 20 is not certainty.
        """
        return self._share({self.subset})[0]

    @property
    def confidence(self) -> float | None:
        """A lower bound on this share that holds with probability 90%, given the number of refits."""
        return self._share({self.subset})[1]

    @property
    def confidence_up_to_twins(self) -> float | None:
        """The same bound if members may be exchanged for nearly degenerate twins."""
        return self._share({s for s in self.refits if same_up_to_twins(self.subset, s, self.near_pairs)})[1]

    def _share(self, sets: set[tuple[int, ...]]) -> tuple[float | None, float | None]:
        if not self.n_refits:
            return None, None
        hits, all = self.n_refits * sum(self.refits.get(s, 0.0) for s in sets) + 0.5, self.n_refits + 1
        return hits / all, float(betaincinv(hits, all - hits, 0.1))

    @property
    def verdict(self) -> str:
        """The findings in a few sentences."""
        parts, lost = [], sum(share for subset, share in self.refits.items() if -1 in subset)
        least, wide = self.confidence, self.confidence_up_to_twins
        if least is not None and wide is not None:
            word = "sure" if least > 0.9 else "likely" if least > 0.5 else "uncertain"
            parts.append(
                f"The choice {{{names_text(self.subset)}}} is {word}: about {self.recurrence:.0%} of fresh samples of "
                f"this size would choose it (at least {least:.0%}, with 90% confidence)."
            )
            if wide > least + 0.05:
                parts.append(f"Allowing swaps of nearly degenerate twins, at least {wide:.0%} would.")
        if self.failed_refits:
            every = self.failed_refits + self.n_refits
            parts.append(f"The graph of {self.failed_refits} of {every} subsamples fell apart; they are not counted.")
        if lost >= 0.5:
            parts.append(f"In {lost:.0%} of the subsamples a chosen eigenvector has no counterpart.")
        if self.failed_refits or lost >= 0.5:
            parts.append("Use a larger share, or choose again with a larger bandwidth.")
        own = [" and ".join(coordinate_names(pair)) for pair in self.near_pairs if set(pair) & set(self.subset)]
        parts += [f"The eigenvalues of {names} nearly coincide: samples mix them, which does no harm." for names in own]
        return " ".join(parts)

    def __repr__(self) -> str:
        shares = "; ".join(f"{names_text(s)} {share:.0%}" for s, share in list(self.refits.items())[:4]) or "none"
        lines = [f"Stability of {names_text(self.subset)}", f"  refits        {shares} (of {self.n_refits})"]
        lines += [f"  {self.verdict}"]
        return "\n".join(textwrap.fill(line, width=80, subsequent_indent=16 * " ") for line in lines)


@at_home
def selection_stability(
    selection: Selection, *, X: Array, n_refits: int = 20, share: float = 1 / 3, random_state: Any = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Stability:  # fmt: skip
    """Estimate how often other samples would choose the same coordinates, from fits of subsamples.

    Two sets count as the same if their eigenvectors match (by correlation on common points), whatever their numbers.

    Parameters
    ----------
    selection : Selection
        A result of :func:`select_coordinates`.
    X : ndarray of shape (n_samples, n_features)
        The points it was made from.
    n_refits : int, default=20
        How many subsamples are fitted, from the graph on.
    share : float, default=1/3
        Size of a subsample. A third varies around this sample as a fresh sample of the full size would.
    random_state : int, RandomState, Generator or None, default=0
        Seed for the subsamples.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    Stability
        ``recurrence`` is the share of fresh samples of this size that would choose the same set, ``confidence`` a
        lower bound on it.

    Examples
    --------
    >>> from ies_gpu import datasets, select_coordinates, selection_stability
    >>> X = datasets.load("D1", n_samples=400).X
    >>> selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.2)
    >>> stability = selection_stability(selection, X=X, n_refits=3, share=0.5)
    >>> sum(stability.refits.values())
    1.0
    """
    from ..select import select_coordinates  # pictures of a Stability need no run

    check_selection(selection)
    n_refits = check_integer("n_refits", n_refits, low=1, high=100_000)
    share = check_number("share", share, high=1.0)
    seed = check_seed(random_state)
    known = selection.diagnostics.get("parameters", {})
    if known.get("entry", "X") != "X":
        text = f"refits need a selection made from X, but this one was made from a {known['entry']}"
        raise refusal("selection.entry", text, "call select_coordinates with X")
    X = used_points(selection, check_points(X))
    n, m = selection.coordinates.shape
    size = round(share * n)
    if size < m + 2:
        text = f"{option('share', share)} leaves {size} points, but {option('n_components', m)} needs {m + 2}"
        raise refusal("share.too_few", text, "use a larger share")
    names = TABLE.keys() - OWN  # a file of another version may have more
    options = {name: value for name, value in known.items() if name in names and value is not None}
    # the device is found once, so that a word on it comes once too
    options |= {"untangle": False, "device": get_backend(device_near(backend_of(X), "auto")).device}
    rng, host = np.random.default_rng(seed), to_host(selection.coordinates)
    refits = []
    for k in range(n_refits):
        rows = np.sort(rng.choice(n, size, replace=False))
        if (subset := chosen_by(select_coordinates, X, rows, host, options)) is not None:
            refits.append(subset)
        if progress is not None:
            progress("refits", k + 1, n_refits)
    shares = {subset: count / len(refits) for subset, count in Counter(refits).most_common()}
    pairs = near_pairs(to_host(selection.eigenvalues))
    return Stability(selection.subset, shares, len(refits), n_refits - len(refits), pairs, seed)


def chosen_by(
    select: Callable[..., Selection], X: Array, rows: np.ndarray, coordinates: np.ndarray, options: dict[str, Any]
) -> tuple[int, ...] | None:
    """Return the set that a subsample chooses, numbered as in the full sample; None where it falls apart."""
    try:
        with listen(IESWarning):
            fit = select(X[rows], **options | {"disconnected": "largest", "keep_bases": False})
    except (DisconnectedGraphError, NotConvergedError, np.linalg.LinAlgError):
        return None
    except ValueError as error:  # the largest part has fewer points than eigenvectors: the subsample has enough
        if code_of(error) != "points.too_few":
            raise
        return None
    kept = to_host(fit.points)
    return matched_subset(coordinates[rows[kept]], fit) if len(kept) >= KEPT * len(rows) else None


def matched_subset(coordinates: np.ndarray, fit: Selection) -> tuple[int, ...]:
    """Return a fit's chosen set, numbered as the eigenvectors that correlate most, one to one; -1 for one without."""
    ours, theirs = (Y - Y.mean(axis=0) for Y in (coordinates, to_host(fit.coordinates)))
    lengths = np.outer(np.linalg.norm(ours, axis=0), np.linalg.norm(theirs, axis=0))
    correlation = np.abs(ours.T @ theirs) / np.maximum(lengths, 1e-300)  # of a column that is constant here, none
    rows, columns = linear_sum_assignment(-correlation)
    partner = {k: j for j, k in zip(rows.tolist(), columns.tolist(), strict=True) if correlation[j, k] >= MATCH}
    return tuple(sorted(partner.get(k, -1) for k in fit.subset))
