"""The paper's tables and figures, recomputed from a clone: ``python -m benchmarks.paper -o FOLDER``.

Each experiment is a module with ``run(book, *, full, device, data, progress)``, imported when it runs. With ``full`` it
uses as many points as the paper; ``data`` is the folder of molecules and spectra, or None; ``progress`` is called as
``progress(part, done, total)``. The modules and the figures and tables of the paper that they hold:

    strip_example       Figure 1
    d4_size             Figure 2, and the rule for s over all data sets
    theory              Lemma 2 and Theorem 3, the limit
    d1_to_d13           Figures 3 (D1, D7, D13), S3, S4, S5 and S8
    llr_on_d7           Figure 4, its part on D7
    real                Figure 4, Table 1
    runtimes            Figure S1
    umap                Figure S2
    results_table       Table S3
    verification        Figures S6 and S7
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
