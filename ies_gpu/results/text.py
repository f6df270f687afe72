"""A result in words and plain values: one list of facts behind print, cards, the page and JSON."""

import math
import textwrap
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from ..backend import at_home, backend_of, to_host
from ..backend.array import spaced_rows
from ..choice.criterion import coordinate_names, names_text
from ..choice.relations import find_relations, relations_text
from ..findings import ASKED, Answer, Finding, Words, in_python, note, option, question_of, render

PRINTED = ("verdict", *ASKED, "doubt", "warning", "note", "needed", "redundant", "features", "zeta", "mean score",
           "runners-up", "search", "automatic", "mean degree", "residuals", "device")  # fmt: skip
ON_PAGE = ("points", "needed", "redundant", "features", "mean score", "search", "automatic", "mean degree", "residuals",
           "device", "settings", "approximations", "audit", "versions")  # fmt: skip
RELATED = 5_000  # points on which relations between coordinates are looked for
NEXT, MOST = 4, 30  # coordinates after the last chosen one whose relations are told, and how many in all
BEST = 5  # sets of the ranking that are shown
# reasons to doubt whose sentence is the answer to their question
STATED = ("choice.lost_direction", "shape.folded", "choice.nearly_touch")
ONE_DIMENSION = f"with {option('intrinsic_dim', 1)} all scores are 0, so the first coordinates are chosen"


def facts(selection: Any, say: Callable[[Finding], str] = str) -> dict[str, list[str]]:
    """Return all that can be said about a result, by label, each thing once; ``say`` puts findings into words."""
    d, (low, high) = selection.diagnostics, selection.zeta_interval
    answers, findings, how = selection.judgement, selection.findings, d.get("search") or {}
    parts, known, s = d.get("graph_components") or 1, d.get("parameters") or {}, len(selection.subset)
    doubts = [finding for finding in findings if finding.is_doubt]
    stated = {question_of(finding) for finding in doubts if finding.code in STATED}
    sets, _, scores = selection.ranking
    of_set, of_first = (scores[(sets == own).all(axis=1)] for own in (selection.subset, range(s)))
    others = [own for own in sets[:4].tolist() if tuple(own) != selection.subset][:3]
    notes = [finding for finding in findings if finding.severity == "note" and question_of(finding) != "needed"]
    notes += [Finding("search.one_dimension", "note", ONE_DIMENSION)] if known.get("intrinsic_dim") == 1 else []
    reason = d.get("device_reason") if d.get("device_code") != "not-installed" else None
    found: dict[str, Any] = {
        "verdict": (selection.verdict or "not judged") + reason_text(selection, say),
        **{name: answer_text(answers[name], say, is_stated=name in stated) for name in ASKED},
        "doubt": [say(finding) for finding in doubts[1:]],  # the verdict has the first
        "warning": [say(finding) for finding in findings if finding.severity == "warning"],
        "note": [say(finding) for finding in notes],
        "needed": "" if answers["needed"].level == "unchecked" else answer_text(answers["needed"], say),
        "redundant": redundant_text(redundant(selection)),
        "features": d.get("features"),
        "zeta": f"{selection.zeta:.4g}, optimal on [{low:.4g}, {'inf)' if high is None else f'{high:.4g}]'}",
        "mean score": f"{of_set[0]:.3f} (first {'coordinate' if s == 1 else f'{s} coordinates'}: "
        f"{f'{of_first[0]:.3f}' if len(of_first) else 'not scored'})",
        "runners-up": "; ".join(map(names_text, others)) or "none",
        "search": ""
        if how.get("method", "exhaustive") == "exhaustive"  # also of files of earlier versions, which say nothing
        else f"{how['method']}, {how['sets_scored']:,} of {how['sets_total']:,} sets: {how['guarantee']}",
        "points": f"{len(selection.points):,} used" + (f"; the graph has {parts:,} parts" if parts > 1 else ""),
        "automatic": automatic_line(d["automatic"]) if d.get("automatic") else "",
        "mean degree": f"{d['mean_degree']:.0f}" if d.get("mean_degree") is not None else "",
        "residuals": f"at most {max(d['residuals']):.1e}" if d.get("residuals") else "",
        "device": d.get("device", "unknown") + (f" ({say(note('remark', reason))})" if reason else ""),
        "settings": ", ".join(f"{name}={short(value)}" for name, value in known.items() if value is not None),
        "approximations": "; ".join(map(str, d.get("approximations") or ())) or "none",
        "audit": f"sampled rows agree with plain code to {max(d['audit'].values()):.1e}" if d.get("audit") else "",
        "versions": ", ".join(f"{name} {version}" for name, version in (d.get("versions") or {}).items()),
    }
    return {label: [text] if isinstance(text, str) else text for label, text in found.items() if text}


def summary(selection: Any, say: Callable[[Finding], str] = str) -> str:
    """Return what ``print(selection)`` shows, folded to 80 columns: the set, the verdict, and what led to them."""
    n, m = selection.coordinates.shape
    known = facts(selection, say)
    lines = [f"Selection of {', '.join(selection.names)} from phi1..phi{m} ({n:,} points)"]
    lines += [f"  {label:<16}{text}" for label in PRINTED for text in known.get(label, ())]
    return "\n".join(textwrap.fill(line, 80, subsequent_indent=18 * " ", break_long_words=False) for line in lines)


def reason_text(selection: Any, say: Callable[[Finding], str] = str) -> str:
    """Return the question that failed and why, or nothing."""
    first = next((finding for finding in selection.findings if finding.is_doubt), None)
    return "" if first is None else f" ({question_of(first)}): {say(first)}"


def answer_text(answer: Answer, say: Callable[[Finding], str] = str, *, is_stated: bool = False) -> str:
    """Return the answer to a question in words; in one word if a reason to doubt states it elsewhere."""
    word = "not checked" if answer.level == "unchecked" else answer.level
    return word if is_stated or not answer.text else f"{word}: {say(note('remark', answer.text))}"


@at_home
def redundant(selection: Any) -> dict[int, tuple[int, ...]]:
    """Return which coordinates that were passed over follow an earlier one or multiply two, chosen ones as turned."""
    Y = selection.coordinates
    last = min(max(selection.subset) + 1 + NEXT, MOST)
    rows = backend_of(Y).asarray(spaced_rows(len(Y), RELATED))
    few, values = np.array(to_host(Y[rows]), dtype=float), np.asarray(to_host(selection.eigenvalues), dtype=float)
    if selection.rotation is not None:
        few[:, list(selection.subset)] = few @ to_host(selection.rotation)
    found = find_relations(few[:, :last], values[:last])
    return {k: own for k, own in found.items() if k not in selection.subset}  # those were taken for what they add


def redundant_text(found: dict[int, tuple[int, ...]]) -> str:
    """Return relations in words that take up to two printed lines; the last are counted where there are more."""
    kept, text = dict(found), relations_text(found)
    while len(textwrap.wrap(text, 62)) > 2:
        kept.popitem()
        text = f"{relations_text(kept)}; and {len(found) - len(kept)} more"
    return text


def short(value: Any) -> str:
    """Return a setting without the digits of its rounding error."""
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def best_sets(selection: Any) -> list[tuple[list[int], float, float]]:
    return list(zip(*(part[:BEST].tolist() for part in selection.ranking), strict=True))


def as_plain(selection: Any, words: Words = in_python, **more: Any) -> dict[str, Any]:
    """Return a result without its arrays as JSON values; ``words`` write the options. Sets are 0-based, names not."""
    (n, m), d = selection.coordinates.shape, selection.diagnostics
    answers = {name: answer._asdict() for name, answer in selection.judgement.items()}
    own = ("zeta", "zeta_interval", "zeta_dimensionless", "rotation", "eigenvalues", "laplace_beltrami_eigenvalues")
    known = {
        "subset": selection.subset,
        "names": selection.names,
        "verdict": selection.verdict,
        "judgement": {name: answer | {"text": render(answer["text"], words)} for name, answer in answers.items()},
        "findings": [
            asdict(finding) | {"text": render(finding.text, words), "advice": render(finding.advice, words)}
            for finding in selection.findings
        ],
        **{name: getattr(selection, name) for name in own},
        "redundant": {f"phi{k + 1}": coordinate_names(others) for k, others in redundant(selection).items()},
        "n_points": n,
        "n_components": m,
        "ranking": [
            {"subset": subset, "names": coordinate_names(subset), "loss": loss, "score": score}
            for subset, loss, score in best_sets(selection)
        ],
        "diagnostics": {name: d[name] for name in d if name not in ("findings", "judgement")},
    }
    return plain(known | more)


def plain(value: Any) -> Any:
    """Return a value as strict JSON: arrays become lists, and numbers that are not finite become null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def in_input_rows(selection: Any, n: int) -> np.ndarray:
    """Return the chosen coordinates, one row per point of the input; those that were left out are NaN."""
    Y = to_host(selection.embedding)
    whole = np.full((n, Y.shape[1]), np.nan)
    whole[to_host(selection.points)] = Y
    return whole


def automatic_line(report: dict[str, Any]) -> str:
    chosen = report["chosen"].items()
    values = ", ".join(f"{name} {value if isinstance(value, str) else f'{value:.4g}'}" for name, value in chosen)
    share = 1 - report["fvu"]
    explained = f"{share:.1%}" if share >= 0.0005 else "none"
    return f"{values}; the chosen coordinates explain {explained} of the variance of X"
