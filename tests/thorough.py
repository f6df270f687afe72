"""Cases of one fact, of which the default tests show the first."""

from typing import Any

import pytest


def first_of(*cases: Any) -> list[Any]:
    """Return the cases for ``parametrize``, all but the first marked ``thorough``: those run in ``.ci/run``."""
    first, *others = cases
    return [first, *(pytest.param(case, marks=pytest.mark.thorough) for case in others)]
