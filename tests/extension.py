"""The Nystrom extension from bare arrays, as a model makes it."""

from contextlib import nullcontext
from typing import Any

from ies_gpu.backend import at_home, backend_of, reporting, to_device, to_host
from ies_gpu.embedding.nystrom import KernelRule, extend, kernel_degrees


@at_home
def nystrom_extension(
    X_new: Any, X: Any, coordinates: Any, eigenvalues: Any, *, bandwidth: Any, radius: Any = None,
    isolated: str = "nan", progress: Any = None, **rule: Any,
) -> Any:  # fmt: skip
    """Extend eigenvectors to new points, with degrees computed from the training points."""
    kernel = KernelRule(bandwidth, 3 * bandwidth if radius is None else radius, **rule)
    with (home := backend_of(X)).active():
        given = to_device(X_new, home), X, coordinates, to_host(eigenvalues), kernel_degrees(X, kernel), kernel
        with reporting(progress) if progress else nullcontext():
            return extend(*given, isolated)
