"""What the package said, by code: sentences are tested in ``tests/findings`` alone."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import pytest

from ies_gpu import IESWarning
from ies_gpu.findings import Finding, code_of, finding_of


@contextmanager
def refused(code: str, kind: Any = ValueError) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect an error of a kind with a code; ``*`` in it stands for anything."""
    with pytest.raises(kind) as caught:
        yield caught
    assert fnmatchcase(code_of(caught.value), code), caught.value


@contextmanager
def warned(code: str, category: type[Warning] = IESWarning) -> Iterator[list[Finding]]:
    """Expect a warning with a code, or several; gives its findings afterwards, and lets all other warnings through."""
    found: list[Finding] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    for said in caught:
        if issubclass(said.category, category) and code_of(said.message) == code:
            found.append(finding_of(said.message))
        else:
            warnings.warn_explicit(said.message, said.category, said.filename, said.lineno)
    assert found, f"no {code} among {[str(said.message) for said in caught]}"
