"""Every public name has a complete docstring, by numpydoc's validator, and its examples run."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
from functools import cached_property

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

import ies_gpu

pytestmark = pytest.mark.usefixtures("plain_kernels")

LEFT_OUT = {
    "ES01": "a good summary can be all there is to say",
    "SA01": "other names are mentioned where they help",
    "SS05": "any first word that ends in s counts as a verb in the third person",
}
NOT_FOR_RESULTS = {"PR01", "PR02", "PR03"}  # you read their fields, Attributes, and never pass them to a constructor
ONLY_FOR_FUNCTIONS = {"EX01"}  # the function that returns an object shows it at work
# classes that are not in ``ies_gpu.__all__``, but are returned or taken by what is
MORE = (
    "choice.regularization.Segment",
    "choice.rmetric.RiemannianMetric",
    "choice.search.SearchResult",
    "choice.size_rule.SizeVerdict",
    "parameters.dimension.DimensionEstimate",
    "parameters.estimates.BandwidthEstimate",
    "parameters.estimates.SubsetSizeEstimate",
    "parameters.levina_bickel.NeighborDimension",
    "run.options.Options",
)
# names that are not complete yet, with all that belongs to them
# fmt: off
PENDING: tuple[str, ...] = (
    # results, analysis, interop, resources, datasets, plot
    "Selection", "Diagnosis", "diagnose", "selection_stability", "llr_ranking", "procrustes_error", "size_verdict",
    "volume_histogram", "Model", "model_of", "save_model", "load_model", "DiffusionMap", "IndependentCoordinates",
    "estimate_resources", "umap_init", "save", "load", "datasets.Components", "datasets.Dataset",
    "datasets.Spectra", "datasets.Trajectory", "datasets.load", "datasets.load_molecule", "datasets.load_spectra",
    "datasets.names", "datasets.normalize_spectra", "datasets.pairwise_distances", "datasets.pca",
    "datasets.planar_angles", "datasets.torsion", "datasets.write_xyz", "plot.embedding", "plot.path",
    "plot.points", "plot.set_label", "plot.volumes",
)
# fmt: on


def found(name: str):
    return pkgutil.resolve_name(f"ies_gpu.{name}")


def members(name: str) -> list[str]:
    """The public methods and properties that a class has from us."""
    thing = found(name)
    bases = (
        [base for base in inspect.getmro(thing) if base.__module__.startswith("ies_gpu")]
        if inspect.isclass(thing)
        else []
    )
    kinds = (property, cached_property, staticmethod, classmethod)
    ours = {
        member: None
        for base in bases
        for member, value in vars(base).items()
        if isinstance(value, kinds) or (inspect.isfunction(value) and value.__module__.startswith("ies_gpu"))
    }
    return [f"{name}.{member}" for member in ours if not member.startswith("_")]


def public_names() -> list[str]:
    names = [name for name in ies_gpu.__all__ if name not in ("__version__", "datasets", "plot")]
    for room in ("datasets", "plot"):
        names += [f"{room}.{name}" for name in found(room).__all__ if callable(found(f"{room}.{name}"))]
    names = [each for name in (*names, *MORE) for each in (name, *members(name))]
    return [name for name in names if not any(f"{name}.".startswith(f"{pending}.") for pending in PENDING)]


NAMES = public_names()


def fields_of(thing: type) -> set[str]:
    """The fields of a dataclass or a named tuple."""
    return set(getattr(thing, "__dataclass_fields__", getattr(thing, "_fields", ())))


def complaints(name: str) -> list[str]:
    thing = found(name)
    left_out = set(LEFT_OUT)
    errors = []
    if inspect.isclass(thing) and fields_of(thing):
        left_out |= NOT_FOR_RESULTS
        explained = {
            field
            for names, kind, text in NumpyDocString(inspect.getdoc(thing))["Attributes"]
            for field in names.split(", ")
            if kind and text
        }
        errors = (
            [("fields", f"without type or text: {sorted(missing)}")]
            if (missing := fields_of(thing) - explained)
            else []
        )
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
