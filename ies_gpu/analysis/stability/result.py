"""What ``selection_stability`` found, in numbers and in words."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from ...choice.naming import coordinate_names, names_text
from ...choice.stable import NearPair, same_up_to_twins


@dataclass(frozen=True, eq=False, repr=False)
class Stability:
    """How certain a choice is, as found by :func:`selection_stability`.

    Attributes
    ----------
    subset : tuple of int
        The set that was judged, 0-based.
    bootstrap, refits : dict of {tuple of int: float}
        The share of resamples, and of subsamples, that chose each set, most frequent first. Sets of subsamples are
        numbered by the matching eigenvectors of the full sample; -1 stands for one without a match.
    n_bootstrap, n_refits, failed_refits : int
        How many there were. A refit fails if the graph of its subsample falls apart.
    match_correlations : ndarray of shape (n_refits,)
        The weakest correlation of a chosen eigenvector of each subsample with its counterpart.
    near_pairs : tuple of NearPair
        Neighbouring eigenvalues that nearly coincide.
    points_known : bool
        Whether the points could be compared with those of the selection. In files of older versions they cannot.
    random_state : int
        The seed that was used.
    """

    subset: tuple[int, ...]
    bootstrap: dict[tuple[int, ...], float]
    refits: dict[tuple[int, ...], float]
    n_bootstrap: int
    n_refits: int
    failed_refits: int
    match_correlations: np.ndarray
    near_pairs: tuple[NearPair, ...]
    points_known: bool = True
    random_state: int = 0

    @property
    def recurrence(self) -> float | None:
        """The estimated share of fresh samples that would choose the same set; None without refits.

        The smaller of the bootstrap's and the refits' share, each with half a success and half a failure added
        (Jeffreys), because 20 out of 20 is not certainty.
        """
        return self._judged({self.subset}, bound=False)

    @property
    def confidence(self) -> float | None:
        """A lower bound on this share that holds with probability 90 %, given the number of refits."""
        return self._judged({self.subset}, bound=True)

    @property
    def confidence_up_to_twins(self) -> float | None:
        """The same bound if members may be exchanged for nearly degenerate twins."""
        every = (*self.bootstrap, *self.refits)
        return self._judged({s for s in every if same_up_to_twins(self.subset, s, self.near_pairs)}, bound=True)

    def _judged(self, sets: set[tuple[int, ...]], *, bound: bool) -> float | None:
        if self.n_refits == 0:
            return None
        found = []
        for shares, count in ((self.refits, self.n_refits), (self.bootstrap, self.n_bootstrap)):
            hits = count * sum(shares.get(s, 0.0) for s in sets) + 0.5
            rest = count + 1 - hits
            found.append(float(betaincinv(hits, rest, 0.1)) if bound else hits / (count + 1))
        return min(found[: 2 if self.n_bootstrap else 1])

    @property
    def verdict(self) -> str:
        """The findings in a few sentences."""
        chosen = names_text(self.subset)
        parts = []
        if self.confidence is None:
            share = self.bootstrap.get(self.subset, 0.0)
            if self.n_bootstrap:
                parts.append(f"{{{chosen}}} wins in {share:.0%} of the resamples, with the eigenvectors kept fixed.")
            if not self.failed_refits:
                parts.append("Refits are needed to see how much the eigenvectors vary (pass X, and n_refits above 0).")
        else:
            word = "sure" if self.confidence > 0.9 else "likely" if self.confidence > 0.5 else "uncertain"
            parts.append(
                f"The choice {{{chosen}}} is {word}: about {self.recurrence:.0%} of fresh samples of this size would "
                f"choose it (at least {self.confidence:.0%}, with 90 % confidence)."
            )
            wide = self.confidence_up_to_twins
            if wide is not None and wide > self.confidence + 0.05:
                parts.append(f"Allowing swaps of nearly degenerate twins, at least {wide:.0%} would.")
        parts += self._doubts()
        rivals = [s for s in {**self.refits, **self.bootstrap} if s != self.subset]
        if rivals:
            parts.append("Rivals: " + "; ".join(map(names_text, rivals[:3])) + ".")
        named = [p for p in self.near_pairs if p.first in self.subset or p.second in self.subset]
        for pair in named:
            names = " and ".join(coordinate_names(pair[:2]))
            parts.append(f"The eigenvalues of {names} differ by only {pair.difference:.1%}, so the sample mixes them.")
        return " ".join(parts)

    def _doubts(self) -> list[str]:
        """Reasons to doubt the refits themselves."""
        doubts = []
        if self.failed_refits:
            doubts.append(
                f"The graph of {self.failed_refits} of {self.failed_refits + self.n_refits} subsamples fell apart; "
                "they are not counted. Use a larger share or bandwidth."
            )
        lost = sum(share for subset, share in self.refits.items() if -1 in subset)
        if lost >= 0.5:
            order = "" if self.points_known else " Or X is not in the order of the selection, which cannot be checked."
            doubts.append(
                f"In {lost:.0%} of the subsamples a chosen eigenvector has no counterpart: they have too few points "
                f"for the bandwidth. Use a larger share or bandwidth.{order}"
            )
        return doubts

    def __repr__(self) -> str:
        lines = [f"Stability of {names_text(self.subset)}"]
        for what, shares, count in (
            ("bootstrap", self.bootstrap, self.n_bootstrap),
            ("refits", self.refits, self.n_refits),
        ):
            listed = "; ".join(f"{names_text(s)} {share:.0%}" for s, share in list(shares.items())[:4]) or "none"
            lines.append(f"  {what:<14}{listed} (of {count})")
        lines.append(f"  {self.verdict}")
        return "\n".join(textwrap.fill(line, width=80, subsequent_indent=16 * " ") for line in lines)
