"""Installable peers, each in an environment of its own that is made here; skipped with a reason where it cannot be."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np

from ies_gpu import select_coordinates

from .measure import seconds
from .problems import strip
from .stages import Row, row

N = 10_000
PYDIFFMAP = """
import json, sys, time, numpy as np
from pydiffmap import diffusion_map
X, eps = np.load(sys.argv[1]), float(sys.argv[2])
begin = time.perf_counter()
model = diffusion_map.DiffusionMap.from_sklearn(n_evecs=20, epsilon=eps**2 / 4, alpha=1.0, k=160)
model.fit(X)
print(json.dumps({"diffusion map": time.perf_counter() - begin}))
"""
DATAFOLD = """
import json, sys, time, numpy as np
from datafold.dynfold import DiffusionMaps, LocalRegressionSelection
from datafold.pcfold import GaussianKernel
X, eps = np.load(sys.argv[1]), float(sys.argv[2])
begin = time.perf_counter()
model = DiffusionMaps(kernel=GaussianKernel(epsilon=eps**2 / 2, distance=dict(cut_off=3 * eps)),
                      n_eigenpairs=21)
model.fit(X)
took = time.perf_counter() - begin
begin = time.perf_counter()
LocalRegressionSelection(intrinsic_dim=2, n_subsample=1000, strategy="dim").fit(model.eigenvectors_)
print(json.dumps({"diffusion map": took, "selection by regression, 1,000 points": time.perf_counter() - begin}))
"""
PEERS = {"pydiffmap": ("pydiffmap", PYDIFFMAP), "datafold": ("datafold", DATAFOLD)}


def environment(name: str, package: str, folder: Path) -> Path:
    """A virtual environment with one package in it; its Python."""
    home = folder / name
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
    install = [str(python), "-m", "pip", "install", "-q", package]
    subprocess.run(install, check=True, capture_output=True, text=True, timeout=600)
    return python


def peers(folder: Path | None = None) -> list[Row]:
    """Diffusion map and selection of the strip at n = 10,000 by each peer, against our whole run."""
    X, bandwidth = strip(N)
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": bandwidth, "device": "cpu"}
    select_coordinates(X, **options)  # type: ignore[arg-type]
    mine, _ = seconds(lambda: select_coordinates(X, **options), 3)  # type: ignore[arg-type]
    rows = []
    folder = folder or Path(tempfile.gettempdir()) / "ies-gpu-peers"
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "points.npy", X)
    for name, (package, code) in PEERS.items():
        stage = f"strip, n={N:,}: points to zeta* (ours)"
        try:
            python = environment(name, package, folder)
            arguments = [str(python), "-c", code, str(folder / "points.npy"), str(bandwidth)]
            done = subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=1200)
        except (subprocess.SubprocessError, OSError) as error:
            words = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            rows.append(row(stage, f"{name}: skipped", mine, None, None, reason=words[-1][:200] if words else "failed"))
            continue
        times = json.loads(done.stdout.splitlines()[-1])
        rows += [row(stage, f"{name}: {what}", mine, took, None) for what, took in times.items()]
    return rows


if __name__ == "__main__":
    print(json.dumps(peers(), indent=1), file=sys.stdout)
