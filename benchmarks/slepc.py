"""``python slepc.py``: whether this Python has SLEPc. ``python slepc.py L.npz k shift FOUND.npz``: eigenpairs by it.

Nothing of ours is imported: it runs in whatever Python has slepc4py, as Debian's with python3-slepc4py-real. That of
Debian is several times slower on the reference BLAS than on OpenBLAS (libopenblas0-serial).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np

for package in ("petsc", "slepc"):  # Debian's are found by themselves only where the headers are installed too
    sys.path += glob(f"/usr/lib/{package}dir/*/*-real/lib/python3/dist-packages")


def call(python: str, *arguments: str) -> int:
    return subprocess.run([python, __file__, *arguments], capture_output=True).returncode


def eigenpairs(L: Any, k: int, shift: float) -> tuple[np.ndarray, np.ndarray, float, str]:
    """The k smallest eigenvalues, vectors, seconds and the kind of BLAS, from a Python that has slepc4py."""
    import scipy.sparse

    python = next((one for one in (sys.executable, "/usr/bin/python3") if call(one) == 0), None)
    if python is None:
        raise ModuleNotFoundError("not installed")
    with tempfile.TemporaryDirectory() as folder:
        matrix, found = f"{folder}/matrix.npz", f"{folder}/found.npz"
        scipy.sparse.save_npz(matrix, L, compressed=False)
        if call(python, matrix, str(k), str(shift), found):
            raise TimeoutError("stopped")
        with np.load(found) as saved:
            return saved["values"], saved["vectors"], float(saved["seconds"]), str(saved["blas"])


def solve(matrix: str, k: str, shift: str, found: str) -> None:
    """Save eigenpairs by Krylov-Schur around a shift below the spectrum, and the seconds.

    CHOLMOD's factor is mostly quicker than that of MUMPS, and than PETSc's own by far.
    """
    import slepc4py

    ways = f"-eps_hermitian -eps_nev {k} -eps_tol 1e-8 -eps_target {shift} -eps_target_magnitude -st_type sinvert"
    factor = "-st_ksp_type preonly -st_pc_type cholesky -st_pc_factor_mat_solver_type cholmod"
    slepc4py.init([found, *ways.split(), *factor.split()])
    from petsc4py import PETSc
    from slepc4py import SLEPc

    L = np.load(matrix)
    csr = [L["indptr"].astype(PETSc.IntType), L["indices"].astype(PETSc.IntType), L["data"]]
    A = PETSc.Mat().createAIJ(tuple(L["shape"]), csr=csr)
    A.setOption(PETSc.Mat.Option.SYMMETRIC, True)
    begin, v = time.process_time(), A.createVecLeft()
    eps = SLEPc.EPS().create()
    eps.setOperators(A)
    eps.setFromOptions()
    eps.solve()
    pairs = [(eps.getEigenpair(j, v).real, v.getArray().copy()) for j in range(min(int(k), eps.getConverged()))]
    seconds, (values, vectors) = time.process_time() - begin, zip(*pairs, strict=True)
    blas = "OpenBLAS" if "openblas" in Path("/proc/self/maps").read_text() else "reference BLAS"
    np.savez(found, values=values, vectors=np.transpose(vectors), seconds=seconds, blas=blas)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        solve(*sys.argv[1:])
    else:
        from slepc4py import SLEPc  # noqa: F401
