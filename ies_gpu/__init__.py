"""Independent eigencoordinate selection (Chen and Meila 2019), from points to the chosen coordinates.

Public names are loaded when first used: ``import ies_gpu`` itself loads nothing outside the standard library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "get_backend": "backend",
    "backend_of": "backend",
    "DeviceError": "backend",
    "DisconnectedGraphError": "validation",
    "IESWarning": "validation",
    "radius_graph": "graph",
    "knn_graph": "graph",
    "Laplacian": "laplacian",
    "gaussian_kernel": "laplacian",
    "graph_laplacian": "laplacian",
    "Embedding": "diffusion",
    "diffusion_map": "diffusion",
    "cometric": "rmetric",
    "riemannian_metric": "rmetric",
    "tangent_bases": "rmetric",
    "candidate_subsets": "criterion",
    "score_subsets": "criterion",
    "search_exhaustive": "search",
    "search_greedy": "search",
    "greedy_order": "search",
    "search_submodular": "search",
    "search_branch_and_bound": "search",
    "regularization_path": "path",
    "leave_one_out_regret": "path",
    "CheckpointWarning": "checkpoints.checkpoint",
    "estimate_dimension": "parameters.dimension",
    "levina_bickel_dimension": "parameters.levina_bickel",
    "two_nn_dimension": "parameters.dimension",
    "unexplained_variance": "parameters.scan",
    "estimate_bandwidth": "parameters.calibration",
    "suggest_subset_size": "parameters.calibration",
    "Selection": "selection",
    "select_coordinates": "selection",
    "Diagnosis": "diagnosis.diagnose",
    "diagnose": "diagnosis.diagnose",
    "Stability": "stability.result",
    "selection_stability": "stability.replicates",
    "llr_ranking": "baselines",
    "procrustes_error": "evaluation",
    "size_verdict": "evaluation",
    "volume_histogram": "evaluation",
    "nystrom_extension": "extension",
    "Model": "model",
    "model_of": "model",
    "save_model": "model",
    "load_model": "model",
    "DiffusionMap": "estimators",
    "IndependentCoordinates": "estimators",
    "estimate_resources": "estimate",
    "umap_init": "umap_start",
    "save": "storage",
    "load": "storage",
    "datasets": "",
    "plot": "",
}
__all__ = ["__version__", *_HOME]

if TYPE_CHECKING:
    from . import datasets, plot
    from .backend import DeviceError, backend_of, get_backend
    from .baselines import llr_ranking
    from .checkpoints.checkpoint import CheckpointWarning
    from .criterion import candidate_subsets, score_subsets
    from .diagnosis.diagnose import Diagnosis, diagnose
    from .diffusion import Embedding, diffusion_map
    from .estimate import estimate_resources
    from .estimators import DiffusionMap, IndependentCoordinates
    from .evaluation import procrustes_error, size_verdict, volume_histogram
    from .extension import nystrom_extension
    from .graph import knn_graph, radius_graph
    from .laplacian import Laplacian, gaussian_kernel, graph_laplacian
    from .model import Model, load_model, model_of, save_model
    from .parameters.calibration import estimate_bandwidth, suggest_subset_size
    from .parameters.dimension import estimate_dimension, two_nn_dimension
    from .parameters.levina_bickel import levina_bickel_dimension
    from .parameters.scan import unexplained_variance
    from .path import leave_one_out_regret, regularization_path
    from .rmetric import cometric, riemannian_metric, tangent_bases
    from .search import (
        greedy_order,
        search_branch_and_bound,
        search_exhaustive,
        search_greedy,
        search_submodular,
    )
    from .selection import Selection, select_coordinates
    from .stability.replicates import selection_stability
    from .stability.result import Stability
    from .storage import load, save
    from .umap_start import umap_init
    from .validation import DisconnectedGraphError, IESWarning


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ies_gpu' has no attribute {name!r}")
    home = _HOME[name]
    value = getattr(import_module(f".{home}", __name__), name) if home else import_module(f".{name}", __name__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
