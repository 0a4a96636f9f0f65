"""The tables of the page on networks are what the files say."""

from __future__ import annotations

from pathlib import Path

from scripts import script

from turnbuckle.replay.contention.network_file import bundled

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_tables_are_current() -> None:
    module = script("docs/networks.py")
    text = (DOCS / "networks.md").read_text(encoding="utf-8")
    assert text == module.page(text), "run: python docs/networks.py"
    assert all(text.count(f"\n### {name}\n") == 1 for name in bundled())
