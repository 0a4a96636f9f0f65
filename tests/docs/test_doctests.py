"""The examples in docstrings hold."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import turnbuckle

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PACKAGE = Path(turnbuckle.__file__).parent
#: Modules whose text has an example.
MODULES = [
    ".".join(("turnbuckle", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
        ".__init__"
    )
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    tests = [
        test
        for test in doctest.DocTestFinder().find(importlib.import_module(name))
        if test.examples
    ]
    assert tests, "an example that no docstring has is never run"
    for test in tests:
        runner.run(test)
    result = runner.summarize(verbose=False)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples in {name} fail"


def test_there_are_docstring_examples() -> None:
    """A walk that finds nothing would pass silently."""
    assert len(MODULES) >= 100
