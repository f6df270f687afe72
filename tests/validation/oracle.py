"""What every public function should return, computed again: dense, slow, and straight from the formulas.

:data:`CHECKS` has one entry per public function and method. Each takes a :class:`Problem`, calls the function and
compares. Steps take the package's own result of the step before, so that each is judged alone.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable

import ies_gpu
from tests.validation import oracle_data as data
from tests.validation import oracle_results as results
from tests.validation import oracle_steps as steps
from tests.validation.oracle_problem import Problem

# a check that is called like a public function is the check of that function
CHECKS: dict[str, Callable[[Problem], None]] = {
    name: check
    for module in (steps, results)
    for name, check in inspect.getmembers(module, inspect.isfunction)
    if inspect.isfunction(getattr(ies_gpu, name, None))
}
# what public functions are made of
INTERNAL = {
    name.removeprefix("check_"): check
    for module in (steps, results)
    for name, check in inspect.getmembers(module, inspect.isfunction)
    if name.startswith("check_") and list(inspect.signature(check).parameters) == ["p"]
}
# fmt: off
CHECKS |= INTERNAL | {
    "backend_of": results.devices,
    "Selection.save": results.saved_selection, "load": results.saved_selection, "Model.save": results.saved_model,
    "Selection.model": results.selection_model,
    "Model.transform": results.model_transform, "Model.inverse_transform": results.model_inverse_transform,
    "Selection.score": results.selection_score,
    "Selection.to_pandas": results.selection_exports, "Selection.to_json": results.selection_exports,
    "Selection.to_html": results.selection_pages, "Selection.explore": results.selection_pages,
    "Parameters.plot": data.pictures,
    "DiffusionMap.fit": results.diffusion_map_fit, "IndependentCoordinates.fit": results.independent_coordinates_fit,
    "anndata.select": results.anndata,
    "datasets.load": data.load_data, "datasets.names": data.load_data,
    "datasets.load_molecule": data.molecules,
    "datasets.pairwise_distances": data.pairwise_distances, "datasets.planar_angles": data.planar_angles,
    "datasets.torsion_features": data.torsion_features,
    "plot.embedding": data.pictures, "plot.path": data.pictures, "plot.points": data.pictures,
    "plot.volumes": data.pictures, "plot.diagnosis": data.pictures,
}
# fmt: on


def check(name: str, problem: Problem) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        CHECKS[name](problem)
