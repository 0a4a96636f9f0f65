"""The reference of the API shows every public name, from docstrings that say something of it."""

from __future__ import annotations

import doctest
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest import mock

import pytest
from scripts import script

import turnbuckle

DOCS = Path(__file__).resolve().parents[2] / "docs"


def _extension() -> ModuleType:
    """Return docs/docstrings.py; Griffe, which only the manual needs, need not be there."""
    with mock.patch.dict(sys.modules, {"griffe": SimpleNamespace(Extension=object)}):  # type: ignore[dict-item]
        return script("docs/docstrings.py")


def test_reference_has_every_public_name_once() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    shown = re.findall(r"^(?:::: turnbuckle\.|### )(\w+)$", page, re.MULTILINE)
    assert sorted(shown) == sorted(turnbuckle.__all__)


@pytest.mark.parametrize("name", turnbuckle.__all__)
def test_public_methods_have_docstrings(name: str) -> None:
    """The reference leaves out what has none."""
    thing = getattr(turnbuckle, name)
    assert inspect.getdoc(thing)
    if inspect.isclass(thing):
        public = {
            k: v
            for k, v in inspect.getmembers(thing)
            if not k.startswith("_") and (callable(v) or isinstance(v, property))
        }
        assert not [k for k, v in public.items() if not inspect.getdoc(v)]


def test_descriptions_stand_below_their_names() -> None:
    module = _extension()
    found = doctest.testmod(module)
    assert found.attempted >= 2 and found.failed == 0


def test_every_entry_of_a_public_docstring_is_rewritten() -> None:
    module = _extension()
    text = inspect.getdoc(turnbuckle.Run.project) or ""
    assert " : " in text and not re.search(r"^\w[\w, ]* : ", module.plain(text), re.MULTILINE)
