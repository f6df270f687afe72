"""Every public name has a complete docstring, by numpydoc's validator, and its examples run."""

import doctest
import inspect
import pkgutil
from functools import cached_property

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate
from sklearn.base import BaseEstimator

import ies_gpu

pytestmark = pytest.mark.usefixtures("plain_kernels")

LEFT_OUT = {
    "GL01": "before 1.11 it refuses a summary on the line of the quotes",
    "ES01": "a good summary can be all there is to say",
    "SA01": "other names are mentioned where they help",
    "SS05": "any first word that ends in s counts as a verb in the third person",
}
NOT_FOR_RESULTS = {"PR01", "PR02", "PR03"}  # you read their fields, Attributes, and never pass them to a constructor
ONLY_FOR_FUNCTIONS = {"EX01"}  # the function that returns an object shows it at work
# on the reference page, but not in ``ies_gpu.__all__``
MORE = ("resources.estimate_resources", "resources.Estimate", "results.selection.Ranking", "choice.untangle.untangle")


def found(name: str):
    return pkgutil.resolve_name(f"ies_gpu.{name}")


def members(name: str) -> list[str]:
    known = inspect.classify_class_attrs(found(name)) if inspect.isclass(found(name)) else []
    ours = [each for each in known if all(from_us(thing) for thing in (each.defining_class, each.object))]
    functions = [each.name for each in ours if each.kind != "data" or isinstance(each.object, cached_property)]
    return [f"{name}.{function}" for function in functions if not function.startswith("_")]


def from_us(thing: object) -> bool:
    return (getattr(thing, "__module__", None) or "ies_gpu").startswith("ies_gpu")


def public_names() -> list[str]:
    names = [name for name in ies_gpu.__all__ if name not in ("datasets", "plot")]
    for room in ("datasets", "plot"):
        names += [f"{room}.{name}" for name in found(room).__all__ if callable(found(f"{room}.{name}"))]
    return [each for name in (*names, *MORE) for each in (name, *members(name))]


NAMES = public_names()


def complaints(name: str) -> list[str]:
    thing, left_out, errors = found(name), set(LEFT_OUT), []
    fields = set(getattr(thing, "__dataclass_fields__", getattr(thing, "_fields", ())))
    if fields and not issubclass(thing, BaseEstimator):
        left_out |= NOT_FOR_RESULTS
        table = NumpyDocString(inspect.getdoc(thing))["Attributes"]
        explained = {field for names, kind, text in table for field in names.split(", ") if kind and text}
        errors = [("fields", f"{field} has no type or no description") for field in fields - explained]
    if not inspect.isfunction(thing) or "." in thing.__qualname__:
        left_out |= ONLY_FOR_FUNCTIONS
    errors += validate(f"ies_gpu.{name}")["errors"]
    return [f"{code} {text}" for code, text in errors if code not in left_out]


@pytest.mark.parametrize("name", NAMES)
def test_docstring_is_complete(name):
    assert complaints(name) == []


@pytest.mark.parametrize("name", [name for name in NAMES if ">>>" in (found(name).__doc__ or "")])
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (test,) = doctest.DocTestFinder(recurse=False).find(found(name), name, module=False, globs={})
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not said, "".join(said)
