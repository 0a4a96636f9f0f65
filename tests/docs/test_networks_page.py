"""The tables of the page on networks are what the files say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from turnbuckle.replay.contention.network_file import bundled

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_tables_are_current() -> None:
    spec = importlib.util.spec_from_file_location("manual_networks", DOCS / "networks.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (DOCS / "networks.md").read_text(encoding="utf-8")
    assert text == module.page(text), "run: python docs/networks.py"
    assert all(text.count(f"\n### {name}\n") == 1 for name in bundled())
