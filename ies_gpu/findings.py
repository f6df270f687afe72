"""What the package says: errors, warnings and one record behind them, with a code, a sentence and advice.

Code and tests ask for ``finding.code``; no decision reads a sentence. Options in a sentence are marked by
:func:`option`, so that one text serves Python (``bandwidth=0.6``) and the command line (``--bandwidth 0.6``).
"""

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Literal, NamedTuple

Severity = Literal["note", "light", "grave", "warning", "error"]
Words = Callable[[str, str | None], str]  # an option and its value, if it has one, as they are written somewhere
DOUBTS = ("light", "grave")
LIGHT = 2  # light reasons that leave a choice likely; more make it doubtful
DOUBTFUL = "choice.doubtful"  # the warning that sums up the reasons to doubt a choice
ASKED = ("rank", "shape", "stable")  # the questions behind the verdict: see ``Selection.judgement``
QUESTIONS = (*ASKED, "needed")  # which stands beside the verdict
QUESTION_OF = {"shape": "shape", "choice.nearly_touch": "shape", "stable": "stable", "choice.leading_as_good": "needed"}
INSIDE = ("ies_gpu", "sklearn")  # whose lines tell a user nothing; scikit-learn wraps our methods
UNSET: Any = object()
MARK = re.compile(r"`(\w+)(?:=([^`]*))?`")


def brief(value: Any) -> str:
    """Return a value as an error message shows it: on one line, cut short, whatever its ``repr`` does."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # integers of more than 4,300 digits, and objects that cannot say what they are
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:90]}..."


def first_few(items: Iterable[Any], most: int = 5) -> str:
    """Return the first of some items as a message lists them: ``3, 5, 8, ...``."""
    listed = [str(item) for item in islice(items, most + 1)]
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")


def one_line(error: BaseException, most: int = 200) -> str:
    """Return an error's whole message on one line, cut short, or the name of its class if it has none."""
    return " ".join(str(error).split())[:most] or type(error).__name__


def in_bytes(size: float) -> str:
    """Return a size for people, in powers of 1000."""
    if size < 1e6:
        return f"{size / 1e3:.1f} kB"
    return f"{size / 1e6:.1f} MB" if size < 1e9 else f"{size / 1e9:.2f} GB"


def option(name: str, value: Any = UNSET) -> str:
    """Mark an option in a sentence, with a value or without one."""
    if value is UNSET:
        return f"`{name}`" if name.isidentifier() else name
    shown = f"{value:.6g}" if isinstance(value, float) else brief(value)
    return f"`{name}={shown.replace('`', '')}`"


def in_python(name: str, value: str | None) -> str:
    return name if value is None else f"{name}={value}"


def render(text: str, words: Words = in_python) -> str:
    """Return a text with its options written out, by default as arguments of Python."""
    return MARK.sub(lambda mark: words(mark[1], mark[2]), text)


class DeviceError(RuntimeError):
    """The requested device cannot be used. The message says why and what to do."""


class ClusterError(RuntimeError):
    """The workers of a cluster cannot run the job. The message says why and what to do."""


class IESWarning(UserWarning):
    """The result may be wrong. The message says why and what to do."""


class OutOfMemoryError(MemoryError):
    """Not even the smallest block fits into memory. The message says which stage it was and what would help."""


class DisconnectedGraphError(ValueError):
    """The neighbour graph falls into several parts, each of which would need its own map.

    Parameters
    ----------
    message : str
        What is wrong, and what to do.
    parts : tuple of ndarray, default=()
        The rows of each part, the largest first; empty where they are not known.
    """

    def __init__(self, message: str, parts: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.parts = parts


class NotConvergedError(ArithmeticError):
    """An eigensolver cannot vouch for its result, so another one takes over. The message says why."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be read or written. The result is unaffected, but a restart may take longer."""


@dataclass(frozen=True)
class Finding:
    """What was found, how bad it is, and what to do about it.

    Attributes
    ----------
    code : str
        ``topic.kind``, such as ``graph.left_out``. Sentences may be reworded, codes are not.
    severity : {"note", "light", "grave", "warning", "error"}
        A "light" or "grave" finding is a reason to doubt an automatic choice; a "warning" was issued at once; an
        "error" ended the run.
    text, advice : str
        What was found, without a full stop, options between backquotes; and what to do about it, or empty.
    """

    code: str
    severity: Severity
    text: str
    advice: str = ""

    @property
    def topic(self) -> str:
        """What it is about, such as "choice" or "graph"."""
        return self.code.partition(".")[0]

    @property
    def is_doubt(self) -> bool:
        """Whether it is a reason to doubt an automatic choice."""
        return self.severity in DOUBTS

    @property
    def advised(self) -> dict[str, str]:
        """The options that the advice gives a value for."""
        return {name: value for name, value in MARK.findall(self.advice) if value}

    def __str__(self) -> str:
        return sentence(self)


def sentence(finding: Finding, words: Words = in_python) -> str:
    """Return what was found with its advice, options written by ``words(name, value)``."""
    return render(f"{finding.text}; {finding.advice}" if finding.advice else finding.text, words)


class Judged(NamedTuple):
    """How sure one automatic value is: a level ("high", "fair" or "low"), the numbers behind it, and the doubts."""

    level: str
    facts: str
    doubts: tuple[Finding, ...] = ()

    def __str__(self) -> str:
        return f"{self.level}: {self.facts}"


class Answer(NamedTuple):
    """The answer to one of the ``QUESTIONS`` about a map, with the number behind it if something was looked at."""

    level: str  # "good", "fair", "bad" or "unchecked"
    figure: float | None
    text: str


def question_of(finding: Finding) -> str:
    """Return which of the ``QUESTIONS`` a reason to doubt belongs to, by its code or topic; "rank" without a word."""
    return QUESTION_OF.get(finding.code) or QUESTION_OF.get(finding.topic, "rank")


def answer_on(question: str, figure: float, text: str, findings: Iterable[Finding]) -> Answer:
    """Return the answer to a question, as good as the reasons to doubt among some findings leave it."""
    own = {finding.severity for finding in findings if question_of(finding) == question}
    return Answer("bad" if "grave" in own else "fair" if "light" in own else "good", figure, text)


def judgement_in(diagnostics: dict[str, Any]) -> dict[str, Answer]:
    """Return the answers to the ``QUESTIONS`` about a result; files of earlier versions have none."""
    known = diagnostics.get("judgement") or {}
    return {name: Answer(**known[name]) if name in known else Answer("unchecked", None, "") for name in QUESTIONS}


def make(severity: Severity, code: str, text: str, advice: str = "") -> Finding:
    return Finding(code, severity, text, advice)


warning = partial(make, "warning")  # the result may be wrong
note = partial(make, "note")  # speaks neither for nor against a choice
light = partial(make, "light")  # leaves an automatic choice likely
grave = partial(make, "grave")  # alone makes an automatic choice doubtful


def refusal(code: str, text: str, advice: str = "", kind: Callable[..., Exception] = ValueError, **more: Any) -> Any:
    """Make an error to raise, which carries its finding as ``error.finding``; ``more`` goes to its class."""
    finding = Finding(code, "error", text, advice)
    error = kind(str(finding), **more)
    error.finding = finding  # type: ignore[attr-defined]
    return error


def finding_of(said: BaseException | str) -> Finding | None:
    """Return the finding behind an error or a warning, or None if it is not one of ours."""
    return getattr(said, "finding", None)


def code_of(said: BaseException | str) -> str:
    """Return the code of an error or a warning, empty if it has none."""
    return getattr(finding_of(said), "code", "")


def warn_caller(finding: Finding, category: type[Warning]) -> None:
    """Warn the line outside this package that called it."""
    said = category(str(finding))
    said.finding = finding  # type: ignore[attr-defined]
    frame, level, ours = sys._getframe(), 1, 1
    while frame.f_back is not None:
        frame, level = frame.f_back, level + 1
        if frame.f_globals.get("__name__", "").partition(".")[0] in INSIDE:
            ours = level
    warnings.warn(said, stacklevel=ours + 1)


_listener: ContextVar[Callable[[Finding, type[Warning]], None]] = ContextVar("listener", default=warn_caller)


def tell(finding: Finding, category: type[Warning] = IESWarning) -> None:
    """Hand a finding to whoever listens, or else to the caller of the package, as a warning."""
    _listener.get()(finding, category)


def teller() -> Callable[[Finding], None]:
    """Return a :func:`tell` for those who listen now, whoever listens when it is called."""
    hear = _listener.get()
    return lambda finding: hear(finding, IESWarning)


@contextmanager
def listen(category: type[Warning] = Warning, hear: Callable[[Finding], None] | None = None) -> Iterator[list[Finding]]:
    """Hear, or by default collect, what this thread would warn its caller of, instead of warning."""
    found: list[Finding] = []
    beyond = _listener.get()  # catch_warnings would change the whole process, with all its threads

    def heard(finding: Finding, kind: type[Warning]) -> None:
        (hear or found.append)(finding) if issubclass(kind, category) else beyond(finding, kind)

    token = _listener.set(heard)
    try:
        yield found
    finally:
        _listener.reset(token)


def verdict_on(reasons: Iterable[Finding]) -> str:
    """Sum up the reasons to doubt a map in one word: "sure", "likely" or "doubtful"."""
    found = [finding.severity for finding in reasons if finding.is_doubt]
    if "grave" in found or len(found) > LIGHT:
        return "doubtful"
    return "likely" if found else "sure"


def warnings_for(reasons: list[Finding]) -> list[Finding]:
    """Return the warnings that reasons to doubt deserve: one for all of a doubtful choice, else those with advice."""
    if verdict_on(reasons) == "doubtful":
        text = "; ".join(reason.text for reason in reasons if reason.is_doubt)
        return [warning(DOUBTFUL, f"the automatic choice is doubtful: {text}. Try your own values and compare")]
    return [replace(reason, severity="warning") for reason in reasons if reason.advice and reason.is_doubt]


def without_repeats(findings: Iterable[Finding]) -> list[Finding]:
    """Return the reasons to doubt, the gravest first, and then the warnings that say something else."""
    findings = list(findings)
    reasons = sorted((finding for finding in findings if finding.is_doubt), key=lambda doubt: doubt.severity != "grave")
    known = {DOUBTFUL, *(reason.code for reason in reasons)}
    return reasons + [finding for finding in findings if not finding.is_doubt and finding.code not in known]
