"""Figures as files: they open on their own, and nothing in their words is markup."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from refusals import refused

from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.files import save

SVG = "{http://www.w3.org/2000/svg}"


def figure(**changed: object) -> Figure:
    spec = {
        "data": {"values": [{"x": 1, "y": 2}]},
        "mark": "bar",
        "encoding": {
            "x": {"field": "x", "type": "quantitative"},
            "y": {"field": "y", "type": "quantitative"},
        },
    }
    about = {
        "name": "one",
        "title": "A title",
        "alt": "what it says",
        "spec": spec,
        "rows": [{"x": 1.0, "y": 2.0}],
    }
    return Figure(**{**about, **changed})  # type: ignore[arg-type]


def test_a_file_opens_on_its_own(tmp_path: Path) -> None:
    legend = tuple((f"a rather long word number {i}", "#123456") for i in range(9))
    files = save([figure(legend=legend, caption="made so " * 40)], tmp_path / "new" / "folder")
    assert [f.name for f in files] == ["one.svg", "one.csv"]
    page = ElementTree.parse(files[0]).getroot()
    assert page.tag == f"{SVG}svg" and page.find(f"{SVG}title") is not None
    texts = [
        (t.text or "", float(t.get("y", "nan")), float(t.get("font-size", "nan")))
        for t in page.findall(f"{SVG}text")
    ]
    assert texts[0][0] == "A title"
    assert [t for t, _, _ in texts if t.startswith("a rather")] == [words for words, _ in legend]
    assert all(y < float(page.get("height", "0")) for _, y, _ in texts), (
        "nothing lies outside the drawing"
    )
    assert len({y for t, y, _ in texts if t.startswith("a rather")}) > 1, (
        "a long legend takes several lines"
    )
    assert files[1].read_text(encoding="utf-8") == "x,y\n1.0,2.0\n"


def test_words_are_no_markup(tmp_path: Path) -> None:
    evil = "</text><script>alert(1)</script>"
    (drawing, _) = save(
        [figure(title=evil, caption=evil, alt=evil, legend=((evil, "#000000"),))], tmp_path
    )
    assert "<script" not in drawing.read_text(encoding="utf-8")


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("", encoding="utf-8")
    refused("R001", save, [figure()], taken)
