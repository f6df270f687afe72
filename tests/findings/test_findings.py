"""A finding: the verdict from it, what carries it, and who hears it."""

from __future__ import annotations

import pickle
import threading
import warnings
from dataclasses import replace

from ies_gpu import IESWarning
from ies_gpu.findings import (
    LIGHT,
    DisconnectedGraphError,
    code_of,
    grave,
    light,
    listen,
    option,
    refusal,
    tell,
    teller,
    verdict_on,
    warning,
    warnings_for,
    without_repeats,
)
from tests.said import warned

FEW, REGRET = light("choice.few_points", "only 400 points"), grave("choice.regret", "no set passes")
TOUCH = light("choice.nearly_touch", "parts touch", "look at the map")


def test_one_word_from_the_reasons():
    assert verdict_on([]) == "sure"
    assert verdict_on([FEW]) == verdict_on(LIGHT * [FEW]) == "likely"
    assert verdict_on((LIGHT + 1) * [FEW]) == verdict_on([REGRET]) == "doubtful"
    assert verdict_on([warning("graph.left_out", "a warning is no reason")]) == "sure"


def test_a_doubtful_choice_is_one_warning_and_a_likely_one_warns_of_what_has_advice():
    (all_in_one,) = warnings_for([REGRET, TOUCH])
    assert all_in_one.code == "choice.doubtful" and REGRET.text in all_in_one.text
    assert warnings_for([FEW, TOUCH]) == [replace(TOUCH, severity="warning")]
    other = warning("graph.left_out", "40 rows")
    for reasons in ([REGRET, TOUCH], [FEW, TOUCH]):
        assert without_repeats([*reasons, *warnings_for(reasons), other]) == [*reasons, other]


def test_an_error_and_a_warning_carry_their_finding():
    error = refusal("graph.disconnected", "2 parts", f"raise {option('bandwidth')}", DisconnectedGraphError, parts=(1,))
    assert isinstance(error, DisconnectedGraphError) and error.parts == (1,)
    assert str(error) == "2 parts; raise bandwidth" and code_of(error) == "graph.disconnected"
    assert code_of(pickle.loads(pickle.dumps(error))) == "graph.disconnected"  # as one of a worker of a cluster is sent
    with warned("graph.left_out") as said:
        tell(warning("graph.left_out", "40 rows"))
    assert said == [warning("graph.left_out", "40 rows")]
    assert code_of(ValueError("of somebody else")) == ""


def test_one_thread_listens_and_no_other():
    """Two threads that overlap, the first ends first: ``catch_warnings`` would leave its filters behind."""
    filters, begun, ended, heard = list(warnings.filters), threading.Event(), threading.Event(), []

    def second():
        with listen() as found:
            begun.set()
            ended.wait(60)
            tell(warning("of.second", "second"))
            heard.extend(found)

    other = threading.Thread(target=second)
    with listen(IESWarning) as found:
        other.start()
        begun.wait(60)
        tell(warning("of.first", "first"))
        with warned("of.another", RuntimeWarning):
            tell(warning("of.another", "another kind"), RuntimeWarning)
    ended.set()
    other.join()
    assert [finding.code for finding in found + heard] == ["of.first", "of.second"]
    assert list(warnings.filters) == filters


def test_who_listens_first_hears_and_a_teller_reaches_those_who_listened_before():
    found = warning("graph.left_out", "40 rows")
    with listen() as beyond:
        speak = teller()
        with listen(RuntimeWarning) as other, listen(IESWarning, lambda finding: speak(finding)):
            tell(found)  # to the log of a run, say, which passes it on
        assert beyond == [found] and other == []
        with listen(RuntimeWarning) as other:
            tell(found)
        assert beyond == [found, found] and other == []
