"""Libraries that some tests need and ``ies-gpu[test]`` does not bring."""

from types import ModuleType

import pytest

CUDA = "test-cuda"  # the extra with CuPy, which every skip for want of it names


def needed(module: str, extra: str) -> ModuleType:
    """The module, or a skip that says which extra brings it."""
    return pytest.importorskip(module, reason=f"{module} is not installed: pip install 'ies-gpu[{extra}]'")
