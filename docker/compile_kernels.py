"""Fill CuPy's cache with the kernels of typical runs, for GPUs that are not here.

    python docker/compile_kernels.py FOLDER ARCHITECTURE ...        such as /cache/cupy 80 90

NVRTC needs no GPU, and CuPy runs on the CPU as in the tests (``tests/real_cupy``). Each text that it asks for goes to
g++, so that the run goes on, and to NVRTC for each architecture, whose machine code is kept under CuPy's own name. It
counts how many the run itself, which believes to be on an sm_80, would have found in the folder.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ies_gpu import datasets, diffusion_map, laplacian_of_points, select_coordinates
from ies_gpu.backend import array, get_backend
from tests import real_cupy


class Kept(Exception):  # noqa: N818 - says that there is nothing to run
    """The machine code is in the folder: CuPy must not load it here."""


def fill(folder: str, architectures: list[str]) -> Counter[str]:
    """Do typical runs, and count texts: ``compiled``, ``there`` before, and ``found`` or not by the run."""
    real_cupy.install()
    from cupy.cuda import _compiler_cache, compiler

    class Folder(_compiler_cache.DiskKernelCacheBackend):
        def load(self, name: str) -> None:
            if super().load(name) is not None:
                counts["there"] += 1
                raise Kept

        def look(self, name: str) -> None:
            counts["not found" if super().load(name) is None else "found"] += 1

        def save(self, name: str, cubin: bytes, source: str) -> None:
            super().save(name, cubin, source)
            counts["compiled"] += 1
            raise Kept

    def compile_for_each(*args: Any, **more: Any) -> Any:
        with patch.multiple(compiler, _kernel_cache_backend=kept, _compile_using_nvrtc_no_warning=real_cupy.by_nvrtc):
            for architecture in architectures:
                with suppress(Kept):
                    original(*args, **more | {"arch": architecture})
        return original(*args, **more)

    counts, kept, original = Counter[str](), Folder(folder), compiler._compile_module_with_cache
    with (
        patch.object(compiler, "_compile_module_with_cache", compile_for_each),
        patch.object(compiler._kernel_cache_backend, "load", kept.look),
        real_cupy.plugged_in(),
    ):
        for few in (array.FEW_BYTES, 0):  # as few points, and as many
            with patch.object(array, "FEW_BYTES", few):
                run_typical()
    return counts


def run_typical() -> None:
    """Given and automatic parameters, both precisions, both eigensolvers, and new points."""
    X, given = datasets.load("D1", n_samples=800).X, {"bandwidth": 0.6, "intrinsic_dim": 2, "subset_size": 2}
    for dtype in ("float64", "mixed"):
        select_coordinates(X, device="cuda", dtype=dtype, **given).model(X).transform(X[:50])
    select_coordinates(X[:400], device="cuda")
    backend = get_backend("cuda")
    with backend.active():
        laplacian = laplacian_of_points(backend.asarray(X), bandwidth=0.6)
        diffusion_map(laplacian, n_components=20, solver="multilevel")


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    reason = real_cupy.missing()
    print(f"nothing is compiled in advance: {reason}" if reason else dict(fill(sys.argv[1], sys.argv[2:])))
