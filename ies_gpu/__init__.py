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
    "regularization_path": "path",
    "leave_one_out_regret": "path",
    "estimate_dimension": "dimension",
    "levina_bickel_dimension": "dimension",
    "two_nn_dimension": "dimension",
    "unexplained_variance": "scan",
    "estimate_bandwidth": "calibration",
    "suggest_subset_size": "calibration",
    "Selection": "selection",
    "select_coordinates": "selection",
    "nystrom_extension": "extension",
    "Model": "model",
    "model_of": "model",
    "save_model": "model",
    "load_model": "model",
    "DiffusionMap": "estimators",
    "IndependentCoordinates": "estimators",
    "save": "storage",
    "load": "storage",
    "datasets": "",
    "plot": "",
}
__all__ = ["__version__", *_HOME]

if TYPE_CHECKING:
    from . import datasets, plot
    from .backend import DeviceError, backend_of, get_backend
    from .calibration import estimate_bandwidth, suggest_subset_size
    from .criterion import candidate_subsets, score_subsets
    from .diffusion import Embedding, diffusion_map
    from .dimension import estimate_dimension, levina_bickel_dimension, two_nn_dimension
    from .estimators import DiffusionMap, IndependentCoordinates
    from .extension import nystrom_extension
    from .graph import knn_graph, radius_graph
    from .laplacian import Laplacian, gaussian_kernel, graph_laplacian
    from .model import Model, load_model, model_of, save_model
    from .path import leave_one_out_regret, regularization_path
    from .rmetric import cometric, riemannian_metric, tangent_bases
    from .scan import unexplained_variance
    from .search import search_exhaustive
    from .selection import Selection, select_coordinates
    from .storage import load, save
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
