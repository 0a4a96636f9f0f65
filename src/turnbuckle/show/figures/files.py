"""Figures as files of their own: SVG with title, legend and caption, and the numbers behind each as
CSV.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from xml.etree import ElementTree

from turnbuckle.foundation.errors import unwritable
from turnbuckle.foundation.files import whole
from turnbuckle.show.figures.figure import Figure, draw
from turnbuckle.show.figures.look import FONT, INK, SOFT

_LINE, _MARGIN = 17, 14
#: Width of an average letter over the type size, and of a bold one, to know when a line is full.
_LETTER, _BOLD = 0.53, 0.64
#: The same of letters by kind, in the widest of the usual fonts: in a legend the next square stands
#: right behind the words.
_WIDE, _MIDDLE, _NARROW = 0.95, 0.64, 0.4


def save(figures: Iterable[Figure], folder: Path) -> list[Path]:
    """Draw figures into a folder, made if it is not there: ``NAME.svg`` and ``NAME.csv`` each.

    Returns
    -------
    The files, in order.

    Raises
    ------
    ReportError : R001, the folder cannot be written to; R004, one of the files was read; R006,
        R007, the figures cannot be drawn.
    """
    texts: dict[Path, str] = {}
    for figure in draw(figures):
        texts[folder / f"{figure.name}.svg"] = alone(figure)
        texts[folder / f"{figure.name}.csv"] = figure.csv
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable("R001.figures", folder, error) from error
    try:
        with ExitStack() as drafts:
            for path, text in texts.items():
                drafts.enter_context(whole(path, "the figures")).write_text(text, encoding="utf-8")
    except BaseException:
        if new:
            with suppress(OSError):
                folder.rmdir()
        raise
    return list(texts)


def alone(figure: Figure) -> str:
    """Return a drawn figure as an SVG document: what a page puts around a drawing stands
    inside it.
    """
    drawing = ElementTree.fromstring(figure.svg)
    width, height = (float(drawing.get(side, "0")) for side in ("width", "height"))
    full = max(width, 420.0) + 2 * _MARGIN
    page = ElementTree.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "role": "img",
            "aria-label": figure.alt,
            "font-family": FONT,
        },
    )
    ElementTree.SubElement(page, "title").text = figure.alt
    ElementTree.SubElement(page, "rect", {"width": "100%", "height": "100%", "fill": "#ffffff"})
    down = _text(page, figure.title, 15, INK, full, _MARGIN + 4.0, bold=True)
    down = _legend(page, figure.legend, full, down)
    across = (full - width) / 2
    held = ElementTree.SubElement(page, "g", {"transform": f"translate({across:g},{down + 6:g})"})
    held.extend(list(drawing))
    down = _text(page, figure.caption, 11, SOFT, full, down + 6 + height + 8)
    page.set("width", f"{full:g}")
    page.set("height", f"{down + _MARGIN:g}")
    page.set("viewBox", f"0 0 {full:g} {down + _MARGIN:g}")
    return ElementTree.tostring(page, encoding="unicode") + "\n"


def _text(
    page: ElementTree.Element,
    text: str,
    size: int,
    colour: str,
    width: float,
    down: float,
    *,
    bold: bool = False,
) -> float:
    """Write lines of text from `down` on; return where they end."""
    letters = max(int((width - 2 * _MARGIN) / (size * (_BOLD if bold else _LETTER))), 20)
    for line in textwrap.wrap(text, letters):
        down += _LINE * size / 13
        about = {"x": f"{_MARGIN}", "y": f"{down:g}", "font-size": f"{size}", "fill": colour}
        ElementTree.SubElement(
            page, "text", about | ({"font-weight": "600"} if bold else {})
        ).text = line
    return down


def _legend(
    page: ElementTree.Element, legend: tuple[tuple[str, str], ...], width: float, down: float
) -> float:
    """Draw coloured squares with their words, in as many lines as it takes; return where they
    end.
    """
    across = float(_MARGIN)
    if legend:
        down += _LINE + 4
    for words, colour in legend:
        long = (
            18
            + 11.5
            * sum(
                _WIDE if c in "mwMW%@" else _NARROW if c in "fijlrtI .,:;'()-" else _MIDDLE
                for c in words
            )
            + 14
        )
        if across > _MARGIN and across + long > width - _MARGIN:
            across, down = float(_MARGIN), down + _LINE
        ElementTree.SubElement(
            page,
            "rect",
            {
                "x": f"{across:g}",
                "y": f"{down - 9:g}",
                "width": "11",
                "height": "11",
                "fill": colour,
            },
        )
        about = {"x": f"{across + 16:g}", "y": f"{down:g}", "font-size": "11.5", "fill": INK}
        ElementTree.SubElement(page, "text", about).text = words
        across += long
    return down
