"""The kernels for the host, fused and threaded with Numba.

Results do not depend on the number of threads: a row is computed by one, and sums over points are taken in parts of a
fixed size and order. Nothing is compiled on import; what a first call compiles is kept on disk.
"""

from .. import kernels_in, plain
from . import neighbours, products, tangent, tasks

globals().update(kernels_in(plain, tasks, neighbours, products, tangent))

NAME = "numba"
