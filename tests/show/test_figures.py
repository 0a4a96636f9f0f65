"""Figures: valid Vega-Lite, drawn without anything a drawing should not hold."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import warnings
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pages import Page
from refusals import refused

from turnbuckle._native import run_script
from turnbuckle.foundation.csv_text import of_rows
from turnbuckle.foundation.errors import ReportError
from turnbuckle.show.figures import figure as drawing
from turnbuckle.show.figures.figure import Figure, draw, harmless
from turnbuckle.show.figures.marks import log_ticks

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
    assert [e.tag for e in root.iter()] == [
        "svg",
        "defs",
        "clipPath",
        "rect",
        "g",
        "path",
        "title",
        "text",
        "title",
    ]
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


def test_specifications_follow_the_schema(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # the grammar of addresses takes two seconds to load, and a specification holds none
    monkeypatch.setitem(sys.modules, "rfc3987_syntax", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import altair
    for name, figure in Page(text).figure_data.items():
        kind = altair.FacetChart if "facet" in figure["spec"] else altair.LayerChart
        kind.validate(figure["spec"])
        assert figure["spec"]["config"], name


def bars(*names: str, **more: object) -> Figure:
    """A bar with a label for each name."""
    spec = {
        "data": {"values": [{"name": name, "size": 1.0} for name in names]},
        "mark": "bar",
        "encoding": {
            "y": {"field": "name", "type": "nominal", "sort": None},
            "x": {"field": "size", "type": "quantitative"},
        },
    }
    return Figure("bars", "Bars", "bars", {**spec, **more}, [])


def words(figure: Figure) -> list[str]:
    """All texts of a drawing, as a browser shows them."""
    return ["".join(text.itertext()) for text in ElementTree.fromstring(figure.svg).iter("text")]


def test_drawings_keep_their_order_and_what_is_no_number_is_left_out() -> None:
    first, second = draw(
        [bars("one"), bars("two", data={"values": [{"name": "two", "size": float("nan")}]})]
    )
    assert "one" in words(first) and "one" not in words(second)


#: Names that would be code if a drawing took them for it.
EVIL = (
    "'+(()=>{throw Error(1)})()+'",
    "datum.size",
    '"}]);globalThis.draw=null;([{"',
    "{'signal': 'now()'}",
    "`${1}` \\u0041 \\",
    "function(){}",
    "😀 ́",
)


def evil(name: str) -> Figure:
    """A bar of one name, which is its label, its description and what its colour goes by."""
    colour = {
        "field": "name",
        "type": "nominal",
        "scale": {"domain": [name], "range": ["#123456"]},
        "legend": None,
    }
    figure = bars(name, mark={"type": "bar", "aria": True})
    figure.spec["encoding"] |= {
        "color": colour,
        "description": {"field": "name", "type": "nominal"},
    }
    return figure


def test_names_are_data_and_never_code() -> None:
    *figures, after = draw([*map(evil, EVIL), bars("after")])
    for name, figure in zip(EVIL, figures, strict=True):
        assert name in words(figure)
        assert [
            e.get("fill")
            for e in ElementTree.fromstring(figure.svg).iter("path")
            if e.findtext("title") == name
        ] == ["#123456"]
    assert "after" in words(after)


def test_letters_have_their_width() -> None:
    """The axis keeps 260 px for a label: 60 narrow letters fit into it, 60 wide ones are cut."""
    narrow, wide = "i" * 60, "W" * 60
    told = words(draw([bars(narrow, wide)])[0])
    assert narrow in told
    assert wide not in told and any(re.fullmatch("W{20,30}…", word) for word in told)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"mark": "nothing of the kind"}, ""),
        ({"transform": [{"filter": "nothing(datum)"}]}, "nothing"),
        ({"transform": [{"calculate": "datum.nothing.at.all", "as": "size"}]}, "undefined"),
    ],
)
def test_what_cannot_be_drawn_is_told_by_name(wrong: dict[str, object], why: str) -> None:
    with pytest.raises(ReportError, match="R007") as caught:
        draw([bars("one"), Figure("second", "", "", bars("two", **wrong).spec, [])])
    assert caught.value.where == "second"
    assert why in caught.value.found


@pytest.mark.parametrize("limit", [1, 1 << 20, 4 << 20, 1 << 60])
def test_too_little_memory_is_told(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the scripts, or the drawing, do not fit into what is allowed, and where that is not to
    be had.
    """
    monkeypatch.setattr(drawing, "MEMORY_BYTES", limit)
    refused("R006", draw, [bars(*map(str, range(20)))])


def test_a_report_needs_little_address_space(tmp_path: Path) -> None:
    """Login nodes and batch systems limit it.  Without the settings the libraries beside would take
    more on machines with more cores.
    """
    few = {
        "OPENBLAS_NUM_THREADS": "2",
        "POLARS_MAX_THREADS": "2",
        "MALLOC_ARENA_MAX": "2",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    limited = ["sh", "-c", 'ulimit -v 2000000 && exec "$@"', "sh"]
    program = "import sys; from turnbuckle.cli.run import run; sys.exit(run())"
    verb = [
        sys.executable,
        "-c",
        program,
        *["report", "--on", "nvlink-c2c", "--draws", "10", "-o", "report.html"],
    ]
    path = files("turnbuckle") / "examples" / "dgemm-like-synthetic.sqlite"
    ran = subprocess.run(
        [*limited, *verb, str(path)],
        cwd=tmp_path,
        env={**os.environ, **few},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    found = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert len([tag for tag, _ in found.tags if tag == "svg"]) == len(found.figure_data) > 10


def test_the_scripts_are_those_that_were_published() -> None:
    folder = files("turnbuckle.show.figures") / "vega"
    rows = re.findall(
        r"^\| `(\S+)` \| \S+ \| (\S+) \| `(\w+)` \|$",
        (folder / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert {name: digest for name, _, digest in rows} == {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in drawing.SCRIPTS
        if name != "draw.js"
    }
    scripts = [(folder / name).read_text(encoding="utf-8") for name in drawing.SCRIPTS]
    versions = "globalThis.versions = () => [vega.version, vegaLite.version].join()"
    assert run_script([*scripts, versions], "versions", [""], memory=drawing.MEMORY_BYTES) == [
        ",".join(version for _, version, _ in rows)
    ]


def test_csv_quotes_and_disarms() -> None:
    rows = [{"a": "x,y", "b": 1.5}, {"a": "-2+3", "c": None}, {"a": '"', "b": -1.0}]
    assert of_rows(rows) == 'a,b,c\n"x,y",1.5,\n\'-2+3,,\n"""",-1.0,\n'


@pytest.mark.parametrize("low", [1e-9, 3.3e-7, 1.0, 900.0, 5e7])
@pytest.mark.parametrize("reach", [2.56, 11.0, 900.0, 1e6, 1e12])
def test_ticks_of_logarithmic_axes(low: float, reach: float) -> None:
    ticks = log_ticks(low, low * reach)
    assert 2 <= len(ticks) <= 7
    assert all(low <= t <= low * reach for t in ticks) and ticks == sorted(set(ticks))
