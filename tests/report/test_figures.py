"""Figures: valid Vega-Lite, drawn without anything a drawing should not hold."""

from __future__ import annotations

import json
import warnings
from xml.etree import ElementTree

import pytest
from pages import Page

from turnbuckle.csv_text import of_rows
from turnbuckle.report.charts import log_ticks
from turnbuckle.report.figure import harmless

RAW = """
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
 width="10" height="9" viewBox="0 0 10 9" onload="alert(1)">
<defs><clipPath id="clip0"><rect width="1" height="2"/></clipPath><style>@import 'x'</style></defs><script>alert(1)</script>
<foreignObject><p>x</p></foreignObject><a xlink:href="javascript:alert(1)"><text>linked</text></a><image href="http://x/y.png"/>
<g clip-path="url(#clip0)">
<path d="M0.123456,1h2" aria-label="a &lt; b" role="graphics-symbol" aria-roledescription="bar" style="fill:url(http://x)"/>
<text aria-label="tip" role="graphics-symbol">&lt;b&gt;</text><path d="M0,0h0v0h0Z"/></g></svg>""".strip()


def test_a_drawing_keeps_only_what_is_allowed() -> None:
    drawn = harmless(RAW, "fig-1", 'said "so" & <so>')
    root = ElementTree.fromstring(drawn)
    assert [e.tag for e in root.iter()] == ["svg", "defs", "clipPath", "rect", "g", "path", "title", "text", "title"]
    for word in ("script", "href", "onload", "style", "foreignObject", "xmlns", "@import", "http"):
        assert word not in drawn
    assert root.get("role") == "img" and root.get("aria-label") == 'said "so" & <so>'


def test_ids_of_drawings_do_not_clash() -> None:
    root = ElementTree.fromstring(harmless(RAW, "fig-1", ""))
    assert root.find("defs/clipPath").get("id") == "fig-1-clip0"  # type: ignore[union-attr]
    assert root.find("g").get("clip-path") == "url(#fig-1-clip0)"  # type: ignore[union-attr]


def test_the_description_of_a_mark_becomes_its_title() -> None:
    root = ElementTree.fromstring(harmless(RAW, "fig-1", ""))
    path, text = root.find("g/path"), root.find("g/text")
    assert path is not None and text is not None
    assert path.findtext("title") == "a < b"
    assert text.findtext("title") == "tip" and "".join(text.itertext()) == "tip<b>"
    assert path.get("d") == "M0.12,1h2"


def test_something_else_than_a_drawing_is_refused() -> None:
    with pytest.raises(ValueError, match="not an SVG"):
        harmless("<html xmlns='x'/>", "a", "")


def test_specifications_follow_the_schema(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import altair
    for name, figure in json.loads(Page(text).scripts[0][1]).items():
        kind = altair.FacetChart if "facet" in figure["spec"] else altair.LayerChart
        kind.from_dict(figure["spec"], validate=True)
        assert figure["spec"]["config"], name


def test_csv_quotes_and_disarms() -> None:
    rows = [{"a": "x,y", "b": 1.5}, {"a": "-2+3", "c": None}, {"a": '"', "b": -1.0}]
    assert of_rows(rows) == 'a,b,c\n"x,y",1.5,\n\'-2+3,,\n"""",-1.0,\n'


@pytest.mark.parametrize("low", [1e-9, 3.3e-7, 1.0, 900.0, 5e7])
@pytest.mark.parametrize("reach", [2.56, 11.0, 900.0, 1e6, 1e12])
def test_ticks_of_logarithmic_axes(low: float, reach: float) -> None:
    ticks = log_ticks(low, low * reach)
    assert 2 <= len(ticks) <= 7
    assert all(low <= t <= low * reach for t in ticks) and ticks == sorted(set(ticks))
