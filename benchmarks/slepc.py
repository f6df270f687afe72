"""``python slepc.py``: whether this Python has SLEPc. ``python slepc.py L.npz k shift FOUND.npz``: eigenpairs by it.

Nothing of ours is imported: it runs in whatever Python has slepc4py, as Debian's with python3-slepc4py-real. That of
Debian is several times slower on the reference BLAS than on OpenBLAS (libopenblas0-serial).
"""

from __future__ import annotations

import subprocess
import sys
import time
from glob import glob

import numpy as np

for package in ("petsc", "slepc"):  # Debian's are found by themselves only where the headers are installed too
    sys.path += glob(f"/usr/lib/{package}dir/*/*-real/lib/python3/dist-packages")


def find_python() -> str | None:
    """A Python that has slepc4py."""
    return next((one for one in (sys.executable, "/usr/bin/python3") if call(one).returncode == 0), None)


def call(python: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, __file__, *arguments], capture_output=True, text=True)


def solve(matrix: str, k: int, shift: float, found: str) -> None:
    """Save eigenpairs by Krylov-Schur around a shift below the spectrum, by a factor of CHOLMOD, and the seconds."""
    from petsc4py import PETSc
    from slepc4py import SLEPc

    L = np.load(matrix)
    csr = [L["indptr"].astype(PETSc.IntType), L["indices"].astype(PETSc.IntType), L["data"]]
    A = PETSc.Mat().createAIJ(tuple(L["shape"]), csr=csr)
    A.setOption(PETSc.Mat.Option.SYMMETRIC, True)
    v = A.createVecLeft()
    begin = time.process_time()
    eps = SLEPc.EPS().create()
    eps.setOperators(A)
    eps.setProblemType(SLEPc.EPS.ProblemType.HEP)
    eps.setDimensions(k)
    eps.setTolerances(1e-8)
    eps.setTarget(shift)
    eps.setWhichEigenpairs(SLEPc.EPS.Which.TARGET_MAGNITUDE)
    transform = eps.getST()
    transform.setType("sinvert")
    transform.getKSP().setType("preonly")
    factor = transform.getKSP().getPC()
    factor.setType("cholesky")
    factor.setFactorSolverType("cholmod")  # mostly quicker than MUMPS, and than PETSc's own by far
    eps.solve()
    values, vectors = [], []
    for j in range(min(k, eps.getConverged())):
        values.append(eps.getEigenpair(j, v).real)
        vectors.append(v.getArray().copy())
    seconds = time.process_time() - begin
    with open("/proc/self/maps") as maps:
        blas = "OpenBLAS" if "openblas" in maps.read() else "reference BLAS"
    np.savez(found, values=values, vectors=np.transpose(vectors), seconds=seconds, blas=blas)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        solve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
    else:
        from slepc4py import SLEPc  # noqa: F401
