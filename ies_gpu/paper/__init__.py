"""The paper's tables and figures, recomputed: ``ies-gpu reproduce``.

Each experiment is a module with ``run(book, *, full, device, data, progress)``, imported when it runs. With ``full`` it
uses as many points as the paper; ``data`` is the folder of molecules and spectra, or None; ``progress`` is called as
``progress(part, done, total)``. The modules and the figures and tables of the paper that they hold:

    strip_example       fig:cont-long-strip-example
    d1_to_d13           fig:synth-data-all (D1, D7, D13), fig:synth-data-s-d-equal-addi, fig:synth-data-s-geq-d-addi,
                        fig:synth-data-3-torus, fig:d8-emb-rank-2
    d4_size             fig:d4-embedding-otherview, and the rule for s over all data sets
    llr_on_d7           fig:rest-images-table, its part on D7
    results_table       tab:result-comp-synth-data
    verification        fig:fig-all-m2-dim-verify, fig:d14-m2-dim
    runtimes            fig:runtime-alg
    theory              the limit theorem and Lemma 2
    real                fig:rest-images-table, tab:real-dataset-runtime
    umap                fig:umap-discussion
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
