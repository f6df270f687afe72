"""Independent eigencoordinate selection (Chen and Meila 2019), from points to the chosen coordinates.

Public names are loaded when first used: ``import ies_gpu`` itself loads nothing outside the standard library.

In all docstrings an ``ndarray`` is a NumPy or a CuPy array: results are on the device of the input.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_NAMES = {
    "analysis.diagnose": "Diagnosis diagnose",
    "analysis.parameters": "Parameters estimate_parameters",
    "analysis.stability": "Stability selection_stability",
    "backend": "backend_of",
    "choice.criterion": "score_subsets",
    "choice.regularization": "Segment leave_one_out_regret regularization_path",
    "choice.rmetric": "RiemannianMetric cometric riemannian_metric tangent_bases",
    "choice.search": "SearchResult search_branch_and_bound search_exhaustive search_greedy search_submodular",
    "embedding.diffusion": "Embedding diffusion_map",
    "embedding.given": "gaussian_kernel",
    "embedding.graph": "radius_graph",
    "embedding.laplacian": "Laplacian graph_laplacian",
    "embedding.local": "knn_graph",
    "embedding.points": "laplacian_of_points",
    "embedding.smallest": "smallest_eigenpairs",
    "findings": "CheckpointWarning ClusterError DeviceError DisconnectedGraphError Finding IESWarning "
    "NotConvergedError OutOfMemoryError",
    "interop.scikit_learn": "DiffusionMap IndependentCoordinates",
    "interop.umap": "umap_init",
    "parameters.dimension": "DimensionEstimate estimate_dimension",
    "results.model": "Model",
    "results.selection": "Selection",
    "results.storage": "load",
    "select": "select_coordinates select_each_part",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = {"anndata": "interop.anndata", "datasets": "datasets", "plot": "plot"}
__all__ = [*_HOME, *_MODULES]

if TYPE_CHECKING:
    from . import datasets, plot
    from .analysis.diagnose import Diagnosis, diagnose
    from .analysis.parameters import Parameters, estimate_parameters
    from .analysis.stability import Stability, selection_stability
    from .backend import backend_of
    from .choice.criterion import score_subsets
    from .choice.regularization import Segment, leave_one_out_regret, regularization_path
    from .choice.rmetric import RiemannianMetric, cometric, riemannian_metric, tangent_bases
    from .choice.search import (
        SearchResult,
        search_branch_and_bound,
        search_exhaustive,
        search_greedy,
        search_submodular,
    )
    from .embedding.diffusion import Embedding, diffusion_map
    from .embedding.given import gaussian_kernel
    from .embedding.graph import radius_graph
    from .embedding.laplacian import Laplacian, graph_laplacian
    from .embedding.local import knn_graph
    from .embedding.points import laplacian_of_points
    from .embedding.smallest import smallest_eigenpairs
    from .findings import (
        CheckpointWarning,
        ClusterError,
        DeviceError,
        DisconnectedGraphError,
        Finding,
        IESWarning,
        NotConvergedError,
        OutOfMemoryError,
    )
    from .interop import anndata
    from .interop.scikit_learn import DiffusionMap, IndependentCoordinates
    from .interop.umap import umap_init
    from .parameters.dimension import DimensionEstimate, estimate_dimension
    from .results.model import Model
    from .results.selection import Selection
    from .results.storage import load
    from .select import select_coordinates, select_each_part


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = import_module(f".{_MODULES[name]}", __name__)
    elif name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    else:
        raise AttributeError(f"module 'ies_gpu' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
