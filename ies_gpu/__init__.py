"""Independent eigencoordinate selection (Chen and Meila 2019), from points to the chosen coordinates.

Public names are loaded when first used: ``import ies_gpu`` itself loads nothing outside the standard library.

In all docstrings an ``ndarray`` is a NumPy or a CuPy array: results are on the device of the input.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "get_backend": "backend",
    "backend_of": "backend",
    "ClusterError": "errors",
    "DeviceError": "errors",
    "DisconnectedGraphError": "errors",
    "Finding": "findings",
    "IESWarning": "errors",
    "radius_graph": "embedding.graph",
    "knn_graph": "embedding.graph",
    "Laplacian": "embedding.laplacian",
    "gaussian_kernel": "embedding.laplacian",
    "graph_laplacian": "embedding.laplacian",
    "laplacian_of_points": "embedding.laplacian",
    "Embedding": "embedding.diffusion",
    "diffusion_map": "embedding.diffusion",
    "cometric": "choice.rmetric",
    "riemannian_metric": "choice.rmetric",
    "tangent_bases": "choice.rmetric",
    "candidate_subsets": "choice.criterion",
    "score_subsets": "choice.criterion",
    "search_exhaustive": "choice.search",
    "search_greedy": "choice.search",
    "greedy_order": "choice.greedy",
    "search_submodular": "choice.search",
    "search_branch_and_bound": "choice.search",
    "regularization_path": "choice.regularization",
    "leave_one_out_regret": "choice.regularization",
    "CheckpointWarning": "errors",
    "estimate_dimension": "parameters.dimension",
    "levina_bickel_dimension": "parameters.levina_bickel",
    "two_nn_dimension": "parameters.dimension",
    "unexplained_variance": "parameters.explained",
    "estimate_bandwidth": "parameters.estimates",
    "suggest_subset_size": "parameters.estimates",
    "Selection": "results.selection",
    "select_coordinates": "select",
    "Diagnosis": "analysis.diagnosis.diagnose",
    "diagnose": "analysis.diagnosis.diagnose",
    "Stability": "analysis.stability.result",
    "selection_stability": "analysis.stability.replicates",
    "llr_ranking": "analysis.llr",
    "procrustes_error": "analysis.procrustes",
    "size_verdict": "analysis.volumes",
    "volume_histogram": "analysis.volumes",
    "nystrom_extension": "embedding.nystrom",
    "Model": "results.model",
    "model_of": "results.model",
    "save_model": "results.model",
    "load_model": "results.model",
    "DiffusionMap": "interop.scikit_learn",
    "IndependentCoordinates": "interop.scikit_learn",
    "estimate_resources": "resources",
    "umap_init": "interop.umap",
    "save": "results.storage",
    "load": "results.storage",
}
_MODULES = {"anndata": "interop.anndata", "datasets": "datasets", "plot": "plot"}
__all__ = ["__version__", *_HOME, *_MODULES]

if TYPE_CHECKING:
    from . import datasets, plot
    from .analysis.diagnosis.diagnose import Diagnosis, diagnose
    from .analysis.llr import llr_ranking
    from .analysis.procrustes import procrustes_error
    from .analysis.stability.replicates import selection_stability
    from .analysis.stability.result import Stability
    from .analysis.volumes import size_verdict, volume_histogram
    from .backend import backend_of, get_backend
    from .choice.criterion import candidate_subsets, score_subsets
    from .choice.greedy import greedy_order
    from .choice.regularization import leave_one_out_regret, regularization_path
    from .choice.rmetric import cometric, riemannian_metric, tangent_bases
    from .choice.search import (
        search_branch_and_bound,
        search_exhaustive,
        search_greedy,
        search_submodular,
    )
    from .embedding.diffusion import Embedding, diffusion_map
    from .embedding.graph import knn_graph, radius_graph
    from .embedding.laplacian import Laplacian, gaussian_kernel, graph_laplacian, laplacian_of_points
    from .embedding.nystrom import nystrom_extension
    from .errors import CheckpointWarning, ClusterError, DeviceError, DisconnectedGraphError, IESWarning
    from .findings import Finding
    from .interop import anndata
    from .interop.scikit_learn import DiffusionMap, IndependentCoordinates
    from .interop.umap import umap_init
    from .parameters.dimension import estimate_dimension, two_nn_dimension
    from .parameters.estimates import estimate_bandwidth, suggest_subset_size
    from .parameters.explained import unexplained_variance
    from .parameters.levina_bickel import levina_bickel_dimension
    from .resources import estimate_resources
    from .results.model import Model, load_model, model_of, save_model
    from .results.selection import Selection
    from .results.storage import load, save
    from .select import select_coordinates


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
