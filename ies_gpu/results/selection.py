"""The result of a run: the chosen coordinates and everything that led to them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..backend import at_home
from ..choice.criterion import log_volumes
from ..choice.naming import coordinate_names, coordinate_numbers
from ..choice.regularization import Segment
from ..parameters.verdict import automatic_line
from .export import as_frame, as_plain


class Ranking(NamedTuple):
    """All sets scored to the end by falling loss at zeta*: subsets (q, s), losses (q,), unpenalised scores (q,)."""

    subsets: np.ndarray
    losses: np.ndarray
    scores: np.ndarray


@dataclass(frozen=True, repr=False, eq=False)
class Selection:
    """The chosen coordinates and everything that led to them; arrays live where the input did.

    Attributes
    ----------
    subset : tuple of int
        S*, 0-based, rising, 0 always in it.
    names : tuple of str
        The same for people: ``("phi1", "phi7")``.
    search_order : tuple of int
        The order in which the search added them.
    zeta, zeta_interval, zeta_dimensionless
        zeta*, the interval on which S* is optimal (None for no upper end), and ``zeta * lambda_1``.
    coordinates, embedding : array (n, m), (n, s)
        All eigenvectors, and the chosen ones.
    eigenvalues, laplace_beltrami_eigenvalues : array (m,)
        Of ``L = I - P``, rising, the constant left out; and times ``4/eps^2`` (None without a bandwidth).
    path : tuple of Segment
        The regularization path from zeta = inf down.
    regrets, regret_percentiles : array (n, len(path)), (len(path),)
        Leave-one-out regret of each set of the path.
    ranking : Ranking
    log_volumes : array (n,)
        ``R(S*; i)``.
    bases, singular_values : array (n, m, d) or None, (n, d)
        Tangent bases of the co-metric (kept up to a size) and its leading singular values.
    points : array (n,)
        The rows of the input that were used.
    diagnostics : dict
    """

    subset: tuple[int, ...]
    search_order: tuple[int, ...]
    zeta: float
    zeta_interval: tuple[float, float | None]
    coordinates: Any
    eigenvalues: Any
    laplace_beltrami_eigenvalues: Any
    path: tuple[Segment, ...]
    regrets: Any
    regret_percentiles: np.ndarray
    ranking: Ranking
    log_volumes: Any
    bases: Any
    singular_values: Any
    points: Any
    diagnostics: dict[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        return coordinate_names(self.subset)

    @property
    @at_home
    def embedding(self) -> Any:
        return self.coordinates[:, list(self.subset)]

    @property
    def zeta_dimensionless(self) -> float:
        return self.zeta * float(self.eigenvalues[0])

    def score(self, subset: Sequence[int | str]) -> Any:
        """``R(S; i)`` of any set, 0-based numbers or names, at every point."""
        if self.bases is None:
            raise ValueError("the tangent bases were not kept; run select_coordinates with keep_bases=True")
        d = self.bases.shape[2]
        sets = np.array([sorted(coordinate_numbers(subset, self.bases.shape[1]))], dtype=np.int32)
        if sets.shape[1] < d:
            raise ValueError(f"subset must have at least intrinsic_dim={d} members, got {tuple(subset)}")
        return log_volumes(self.bases, sets)[:, 0]

    def to_pandas(self, *, every: bool = False) -> Any:
        """The chosen coordinates, or every one, as a ``pandas.DataFrame`` with columns ``phi1``, ``phi7``.

        Rows are named by their numbers in the input, which matter when ``components="largest"`` left some out.
        """
        return as_frame(self, every)

    def to_json(self) -> str:
        """The result less the arrays over points as one line of strict JSON, as ``ies-gpu fit --json`` prints it."""
        return json.dumps(as_plain(self))

    def __repr__(self) -> str:
        d = self.diagnostics
        n, m = self.coordinates.shape
        low, high = self.zeta_interval
        upper = "inf)" if high is None else f"{high:.4g}]"
        quiet = d["device"] == "cpu" and "not installed" in d["device_reason"]  # nobody asked for CUDA
        lines = [
            f"Selection of {', '.join(self.names)} from phi1..phi{m} ({n:,} points)",
            f"  zeta            {self.zeta:.4g}, optimal on [{low:.4g}, {upper}",
            f"  mean score      {self.ranking.scores[self._rank]:.3f} "
            f"(first {len(self.subset)} coordinates: {self._first_score()})",
            f"  runners-up      {self._runners_up()}",
            self._search_line(),
            f"  mean degree     {d['mean_degree']:.0f}",
            f"  automatic       {automatic_line(d['automatic'])}" if d.get("automatic") else "",
            f"  residuals       at most {max(d['residuals']):.1e}" if d["residuals"] else "",
            f"  device          {d['device']}" + ("" if quiet else f" ({d['device_reason']})"),
            *(f"  warning         {message}" for message in d["warnings"]),
        ]
        wrap = partial(textwrap.fill, width=80, subsequent_indent=18 * " ", break_long_words=False)
        return "\n".join(wrap(line) for line in lines if line)

    @property
    def _rank(self) -> int:
        return int(np.flatnonzero((self.ranking.subsets == self.subset).all(axis=1))[0])

    def _first_score(self) -> str:
        first = np.arange(len(self.subset))
        scores = self.ranking.scores[(self.ranking.subsets == first).all(axis=1)]
        return f"{scores[0]:.3f}" if len(scores) else "not scored"

    def _search_line(self) -> str:
        how = self.diagnostics.get("search", {})  # not in files of earlier versions
        if how.get("method", "exhaustive") == "exhaustive":
            return ""
        share = f"{how['sets_scored']:,} of {how['sets_total']:,} sets"
        return f"  search          {how['method']}, {share}: {how['guarantee']}"

    def _runners_up(self) -> str:
        others = [s for s in self.ranking.subsets[:4].tolist() if tuple(s) != self.subset][:3]
        return "; ".join(", ".join(coordinate_names(s)) for s in others) or "none"
