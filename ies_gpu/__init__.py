"""Independent eigencoordinate selection (Chen and Meila 2019), from points to the chosen coordinates.

Public names are loaded when first used: ``import ies_gpu`` itself loads nothing outside the standard library.

In all docstrings an ``ndarray`` is a NumPy or a CuPy array: results are on the device of the input.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "backend_of": "backend",
    "ClusterError": "errors",
    "DeviceError": "errors",
    "DisconnectedGraphError": "errors",
    "Finding": "findings",
    "IESWarning": "errors",
    "NotConvergedError": "errors",
    "OutOfMemoryError": "errors",
    "radius_graph": "embedding.graph",
    "knn_graph": "embedding.graph",
    "Laplacian": "embedding.laplacian",
    "gaussian_kernel": "embedding.laplacian",
    "graph_laplacian": "embedding.laplacian",
    "laplacian_of_points": "embedding.points",
    "Embedding": "embedding.diffusion",
    "diffusion_map": "embedding.diffusion",
    "smallest_eigenpairs": "embedding.smallest",
    "cometric": "choice.rmetric",
    "riemannian_metric": "choice.rmetric",
    "RiemannianMetric": "choice.rmetric",
    "tangent_bases": "choice.rmetric",
    "score_subsets": "choice.criterion",
    "search_exhaustive": "choice.search",
    "search_greedy": "choice.search",
    "search_submodular": "choice.search",
    "search_branch_and_bound": "choice.search",
    "SearchResult": "choice.search",
    "Segment": "choice.regularization",
    "regularization_path": "choice.regularization",
    "leave_one_out_regret": "choice.regularization",
    "CheckpointWarning": "errors",
    "DimensionEstimate": "parameters.dimension",
    "estimate_dimension": "parameters.dimension",
    "estimate_parameters": "analysis.parameters",
    "Parameters": "analysis.parameters",
    "Selection": "results.selection",
    "select_coordinates": "select",
    "select_each_part": "select",
    "Diagnosis": "analysis.diagnosis.diagnose",
    "diagnose": "analysis.diagnosis.diagnose",
    "Stability": "analysis.stability.result",
    "selection_stability": "analysis.stability.replicates",
    "Model": "results.model",
    "DiffusionMap": "interop.scikit_learn",
    "IndependentCoordinates": "interop.scikit_learn",
    "umap_init": "interop.umap",
    "load": "results.storage",
}
_MODULES = {"anndata": "interop.anndata", "datasets": "datasets", "plot": "plot"}
__all__ = [*_HOME, *_MODULES]

if TYPE_CHECKING:
    from . import datasets, plot
    from .analysis.diagnosis.diagnose import Diagnosis, diagnose
    from .analysis.parameters import Parameters, estimate_parameters
    from .analysis.stability.replicates import selection_stability
    from .analysis.stability.result import Stability
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
    from .embedding.graph import knn_graph, radius_graph
    from .embedding.laplacian import Laplacian, gaussian_kernel, graph_laplacian
    from .embedding.points import laplacian_of_points
    from .embedding.smallest import smallest_eigenpairs
    from .errors import (
        CheckpointWarning,
        ClusterError,
        DeviceError,
        DisconnectedGraphError,
        IESWarning,
        NotConvergedError,
        OutOfMemoryError,
    )
    from .findings import Finding
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
