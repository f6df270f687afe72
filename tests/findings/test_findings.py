"""A finding: the verdict from it, what carries it, who hears it, and at which line a warning points."""

import pickle
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ies_gpu import IESWarning, IndependentCoordinates, datasets, select_coordinates
from ies_gpu.files.points import read_points
from ies_gpu.findings import (
    LIGHT,
    CheckpointWarning,
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


@pytest.fixture(scope="module")
def parted():
    X = datasets.load("D1", n_samples=600).X
    return np.concatenate([X, X[:40] + 100.0])


SIZES = {"intrinsic_dim": 2, "subset_size": 2}
FITTED = IndependentCoordinates(**SIZES, bandwidth=1.0, disconnected="largest")
PIPELINE = make_pipeline(StandardScaler(with_std=False), FITTED)  # whose wrappers are no lines of the user's either


def damaged_checkpoint(X, folder):
    options = {**SIZES, "bandwidth": 1.0, "checkpoint": folder / "saved"}
    select_coordinates(X, **options)
    for path in (folder / "saved").rglob("*.npz"):
        path.write_bytes(b"damaged")
    select_coordinates(X, resume=True, **options)


def counted_table(X, folder):
    (folder / "points.csv").write_text("0,1\n1.5,2.5\n2.5,1.5\n")
    read_points(folder / "points.csv")


@pytest.mark.parametrize(
    "call",
    [
        lambda X, _: select_coordinates(X, **SIZES, bandwidth=1.0, disconnected="largest"),
        lambda X, _: select_coordinates(X, **SIZES, disconnected="largest"),
        lambda X, _: FITTED.fit(X),
        lambda X, _: PIPELINE.fit_transform(X),
        lambda X, _: FITTED.fit(X[:600]).transform(X[:3] + 1000.0),
        lambda X, _: select_coordinates(X[:600], **SIZES, bandwidth=1.0).model(X[:600]).transform(X[:3] + 1000.0),
        lambda X, folder: damaged_checkpoint(X[:600], folder),
        counted_table,
    ],
)
def test_a_warning_points_at_the_line_that_called(call, parted, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(parted, tmp_path)
    assert {w.filename for w in caught if issubclass(w.category, IESWarning | CheckpointWarning)} == {__file__}
