"""The inner loops: readable array code (plain, the oracle), Numba on the CPU (fused) and CUDA (cuda).

The functions of ``plain`` are the interface. The other modules have fast forms of some of them, with the same
arguments, and take the rest from ``plain``; their ``NAME`` says which they are.
"""

from types import ModuleType
from typing import Any

from . import plain

INTERFACE = [name for name, kernel in vars(plain).items() if getattr(kernel, "__module__", "") == plain.__name__]


def kernels_in(*modules: ModuleType) -> dict[str, Any]:
    """Return the functions of the interface by name, each from the last of some modules that defines it."""
    return {name: vars(module)[name] for module in modules for name in INTERFACE if name in vars(module)}
