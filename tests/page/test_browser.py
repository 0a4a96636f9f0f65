"""The report in a real browser: it draws, says nothing on the console and asks for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import Browser, Visit

from turnbuckle.page.html import page
from turnbuckle.projection.run import Run

pytestmark = pytest.mark.browser

#: Run in the page after its own script: what stands where, written into an attribute for the test
#: to read.
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


#: Which colours the page and its figures have after a choice, and whether they tell apart [ratio of
#: luminance].
COLOURS = """
const light = (colour) => {
  const [r, g, b] = colour.match(/[\\d.]+/g).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const apart = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
const seen = {};
for (const choice of ["light", "dark"]) {
  document.getElementById(`theme-${choice}`).click();
  const paper = getComputedStyle(document.body).backgroundColor;
  const words = [...document.querySelectorAll(".figure-svg text")].filter((t) => t.getAttribute("fill") === "#1d2733");
  const under = (t) => (t.closest(".paper") ? "rgb(255,255,255)" : paper);
  seen[choice] = {
    paper: light(paper),
    words: Math.min(...[...document.querySelectorAll("h1, .aside p, td")].map((e) => apart(getComputedStyle(e).color, paper))),
    figures: Math.min(...words.map((t) => apart(getComputedStyle(t).fill, under(t)))),
  };
}
document.body.setAttribute("data-colours", JSON.stringify(seen));
"""


def test_the_harness_sees_requests_and_errors(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "bad.html"
    file.write_text(
        (
            "<!doctype html><img "
            'src="http://nowhere.invalid/x.png"><script>console.error("boom")</script>'
        ),
        encoding="utf-8",
    )
    visit = chromium.visit(file)
    assert visit.requests == ["http://nowhere.invalid/x.png"]
    assert any("boom" in line for line in visit.console)


@pytest.fixture(scope="module")
def wide(chromium: Browser, text: str, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """The report in a wide window, looked at by all scripts."""
    return chromium.look(text, tmp_path_factory.mktemp("wide") / "report.html", PROBE + COLOURS)


@pytest.mark.parametrize("width", [1280, 700])
def test_the_report_draws(
    chromium: Browser, text: str, wide: Visit, tmp_path: Path, width: int
) -> None:
    told = (
        wide if width == 1280 else chromium.look(text, tmp_path / "report.html", PROBE, width)
    ).told()
    assert len(told["drawings"]) == text.count("<svg")
    for drawing in told["drawings"]:
        assert drawing["box"][0] > 200 and drawing["box"][1] > 20
        assert drawing["marks"] > 0
    assert told["wide"] <= 0, "the page is wider than the window"
    assert min(told["sections"]) > 60
    assert told["tips"] > 20 and told["titles"] == 0
    assert told["buttons"] == len(told["drawings"])


def test_hostile_texts_do_nothing(chromium: Browser, hostile_text: str, tmp_path: Path) -> None:
    told = chromium.look(hostile_text, tmp_path / "report.html", PROBE).told()
    assert told["alerts"] == 0
    assert told["wide"] <= 0
    assert all(drawing["marks"] > 0 for drawing in told["drawings"])


def test_a_report_without_projections_draws(
    chromium: Browser, bare_text: str, tmp_path: Path
) -> None:
    told = chromium.look(bare_text, tmp_path / "report.html", PROBE).told()
    assert len(told["drawings"]) > 3
    assert told["wide"] <= 0


def test_a_brief_report_prints_on_two_sheets(chromium: Browser, brief: Run, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(
        page(
            brief.project(
                ["nvlink-c2c", "gh200", "cdi-rack-link", "cdi-row-link", "cdi-row-api"], draws=50
            ),
            brief=True,
        ),
        "utf-8",
    )
    assert chromium.sheets(file) == 2


def test_both_papers_can_be_read(wide: Visit) -> None:
    told = wide.told("colours")
    assert told["light"]["paper"] > 0.9 and told["dark"]["paper"] < 0.05
    for paper in told.values():
        assert paper["words"] > 4.5 and paper["figures"] > 4.5
