"""The report in a real browser: it draws, says nothing on the console and asks for nothing."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from browsing import Browser, with_script

from turnbuckle.page.html import page
from turnbuckle.projection.run import Run

pytestmark = pytest.mark.browser

#: Run in the page after its own script: what stands where, written into an attribute for the test to read.
PROBE = """
const box = (e) => { const b = e.getBoundingClientRect(); return [b.width, b.height]; };
const svgs = [...document.querySelectorAll("svg")];
document.querySelector("button[data-copy=csv]").click();
document.body.setAttribute("data-probe", JSON.stringify({
  drawings: svgs.map((s) => ({
    box: box(s),
    marks: [...s.querySelectorAll("path,rect,line,circle")].filter((m) => Math.max(...box(m)) > 0).length,
  })),
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  tips: document.querySelectorAll("[data-tip]").length,
  titles: document.querySelectorAll("svg title").length,
  sections: [...document.querySelectorAll("section")].map((s) => box(s)[1]),
  buttons: [...document.querySelectorAll(".tools")].filter((t) => !t.hidden).length,
  alerts: window.alerted || 0,
}));
"""


def looked(browser: Browser, text: str, file: Path, width: int) -> dict[str, Any]:
    """What the probe saw."""
    file.write_text(with_script(text, PROBE), encoding="utf-8")
    visit = browser.visit(file, width)
    assert visit.console == [] and visit.requests == []
    found = re.search(r'data-probe="([^"]*)"', visit.document)
    assert found is not None, "the probe did not run"
    told: dict[str, Any] = json.loads(unescape(found[1]))
    return told


def test_the_harness_sees_requests_and_errors(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "bad.html"
    file.write_text('<!doctype html><img src="http://nowhere.invalid/x.png"><script>console.error("boom")</script>', encoding="utf-8")
    visit = chromium.visit(file)
    assert visit.requests == ["http://nowhere.invalid/x.png"]
    assert any("boom" in line for line in visit.console)


def test_the_report_is_silent(chromium: Browser, text: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(text, encoding="utf-8")
    visit = chromium.visit(file)
    assert visit.console == []
    assert visit.requests == []
    assert "data-tip" in visit.document, "the page's own script did not run"


@pytest.mark.parametrize("width", [1280, 700])
def test_the_report_draws(chromium: Browser, text: str, tmp_path: Path, width: int) -> None:
    told = looked(chromium, text, tmp_path / "report.html", width)
    assert len(told["drawings"]) == text.count("<svg")
    for drawing in told["drawings"]:
        assert drawing["box"][0] > 200 and drawing["box"][1] > 20
        assert drawing["marks"] > 0
    assert told["wide"] <= 0, "the page is wider than the window"
    assert min(told["sections"]) > 60
    assert told["tips"] > 20 and told["titles"] == 0
    assert told["buttons"] == len(told["drawings"])


def test_hostile_texts_do_nothing(chromium: Browser, hostile_text: str, tmp_path: Path) -> None:
    told = looked(chromium, hostile_text, tmp_path / "report.html", 1280)
    assert told["alerts"] == 0
    assert told["wide"] <= 0
    assert all(drawing["marks"] > 0 for drawing in told["drawings"])


def test_a_report_without_projections_draws(chromium: Browser, seen: Run, tmp_path: Path) -> None:
    told = looked(chromium, page(seen), tmp_path / "report.html", 1280)
    assert len(told["drawings"]) > 3
    assert told["wide"] <= 0
