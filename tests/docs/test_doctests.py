"""The examples in docstrings hold."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import turnbuckle

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = [
    "turnbuckle",
    *sorted(m.name for m in pkgutil.walk_packages(turnbuckle.__path__, "turnbuckle.") if not m.name.endswith("_native")),
]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=OPTIONS, report=True)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples in {name} fail"


def test_there_are_docstring_examples() -> None:
    """A walk that finds nothing would pass silently."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = sum(len(t.examples) for name in MODULES for t in finder.find(importlib.import_module(name)))
    assert found >= 20
