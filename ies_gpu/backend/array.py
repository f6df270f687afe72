"""What an array is here, for readers and type checkers."""

from __future__ import annotations

from typing import Any, TypeAlias

# A NumPy or CuPy array or, where the docstring says so, a sparse matrix of SciPy or cupyx. Neither library's types
# describe the other's arrays, so this says what is meant and leaves the checking to the tests.
Array: TypeAlias = Any
