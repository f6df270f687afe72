"""The paper's tables and figures, computed again: ``ies-gpu reproduce``.

Each experiment is a module with ``run(book, *, full, device, data, progress)``; it is imported when it runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# name: what it shows; the module of that name holds ``run``
EXPERIMENTS = {
    "synthetic": "the manifolds D1 to D13, the theory, the choice of s, the verification, run times",
    "real": "molecules and spectra from the folder --data",
    "umap": "UMAP started from the chosen coordinates, from the first ones, and at random",
}


def experiment(name: str) -> Any:
    """The module of an experiment."""
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}; choose from {', '.join(EXPERIMENTS)}")
    return import_module(f".{name}", __name__)
