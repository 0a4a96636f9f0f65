"""The security page names what holds each promise: every file that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_each_promise_names_what_holds_it() -> None:
    lines = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").splitlines()
    promises = [
        line.split("|")[1:-1]
        for line in lines
        if line.startswith("| ") and not line.startswith(("| ---", "| promise"))
    ]
    assert len(promises) >= 10 and all(len(row) == 3 for row in promises)
    for name, _, holders in promises:
        files = re.findall(r"`([^` ]+)`", holders)
        assert files and not [f for f in files if not (ROOT / f).is_file()], name


def test_the_failures_of_the_fuzzer_are_all_explained() -> None:
    text = (ROOT / "validation" / "fuzz" / "README.md").read_text(encoding="utf-8")
    source = (ROOT / "validation" / "fuzz" / "server.py").read_text(encoding="utf-8")
    listed = re.search(r"FAILURES = \((.*?)^\)", source, re.DOTALL | re.MULTILINE)
    assert listed and set(re.findall(r'"([^"]+)"', listed[1])) == set(
        re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    )
