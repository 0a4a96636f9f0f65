"""The pictures of the dependency rules are what the program finds today, and the page shows each of
them.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest
from scripts import script

from turnbuckle.profile.dependencies.graph import EDGES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SVG = "{http://www.w3.org/2000/svg}"


rules = script("docs/rules.py")
NAMES = [f"{rule.name}.svg" for rule in rules.RULES]
pictures = cache(rules.pictures)
PAGE = (DOCS / "models" / "dependencies.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_picture_is_current(name: str) -> None:
    assert (rules.FOLDER / name).read_text(encoding="utf-8") == pictures()[name], (
        "run: python docs/rules.py"
    )


def test_no_picture_is_left_over() -> None:
    assert {f.name for f in rules.FOLDER.iterdir()} == set(pictures())


@pytest.mark.parametrize("name", NAMES)
def test_picture_is_a_page_of_text_and_bars(name: str) -> None:
    """Well-formed, of the agreed width, nothing loaded from elsewhere, nothing outside, words as
    text.
    """
    root = ElementTree.fromstring(pictures()[name])
    width, height = (int(root.attrib[k]) for k in ("width", "height"))
    assert width == rules.WIDTH and 200 < height < 700
    assert not re.search(r"href|url\((?!#)|@import|<script|<image", pictures()[name])
    for mark in root.iter():
        for key, most in (("x", width), ("y", height)):
            assert 0 <= float(mark.get(key, 0)) <= most
        if mark.tag == f"{SVG}rect":
            assert float(mark.get("x", 0)) + float(mark.attrib["width"]) <= width
    rule = next(r for r in rules.RULES if f"{r.name}.svg" == name)
    said = ["".join(t.itertext()) for t in root.iter(f"{SVG}text")]
    assert {rule.title, "recorded", rule.change} <= set(said)
    assert any(t.get("class") == "lag" for t in root.iter(f"{SVG}text"))
    assert any(t.get("class") in ("hatch", "ghost") for t in root.iter(f"{SVG}rect")), (
        "nothing moves"
    )


def test_picture_escapes_what_it_shows() -> None:
    rule = rules.RULES[0]
    svg = rules.drawn(rules.replace(rule, title="a < b & c"))
    assert "a &lt; b &amp; c" in svg
    ElementTree.fromstring(svg)


@pytest.mark.parametrize("kind", EDGES)
def test_page_has_a_section_and_a_picture_for_every_rule(kind: str) -> None:
    section = PAGE.split(f"\n### {kind}\n", 1)[1].split("\n### ", 1)[0].split("\n## ", 1)[0]
    shown = re.findall(r"!\[[^\]]{30,}\]\(\.\./img/rules/([\w-]+\.svg)\)", section)
    assert shown == [f"{r.name}.svg" for r in rules.RULES if r.kind == kind]
    assert "*Holds*" in section or kind == "call"
    assert "*Can be wrong*" in section


def test_stale_pictures_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rules, "FOLDER", tmp_path / "rules")
    assert rules.main(["--check"]) == 1
    assert "stale: host.svg" in capsys.readouterr().out
    assert rules.main([]) == 0
    (tmp_path / "rules" / "old.svg").write_text("", encoding="utf-8")
    assert rules.main(["--check"]) == 1
    assert rules.main([]) == 0 and rules.main(["--check"]) == 0
