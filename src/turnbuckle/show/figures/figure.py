"""A figure: a Vega-Lite specification drawn to static SVG while the report is written, and the
numbers behind it.

Nothing runs in the reader's browser: `draw` renders with Vega in a small JavaScript engine inside
this process, which reaches no file and no network, then rebuilds the drawing element by element
from a short list of allowed elements and attributes.

Errors (`turnbuckle.foundation.errors.ReportError`):

    R006  the process may not use the memory that drawing takes
    R007  a figure cannot be drawn
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, Final
from xml.etree import ElementTree

from turnbuckle.foundation import csv_text
from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.foundation.fields import json_text
from turnbuckle.show.figures.look import FONT, config

#: What the engine runs, in this order; where it comes from stands beside it.
SCRIPTS: Final = ("vega.min.js", "draw.js", "vega-lite.min.js")
#: Address space that the engine may use.
MEMORY_BYTES: Final = 256 << 20
SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"

ELEMENTS: Final = frozenset(
    {"svg", "g", "path", "rect", "line", "text", "tspan", "circle", "defs", "clipPath", "title"}
)
_ATTRIBUTES: Final = (
    "d x y x1 x2 y1 y2 dx dy r cx cy id width height viewBox transform clip-path fill "
    "fill-opacity fill-rule opacity stroke "
    "stroke-width stroke-opacity stroke-dasharray stroke-linecap stroke-linejoin "
    "stroke-miterlimit font-family font-size font-weight "
    "font-style text-anchor"
)
ATTRIBUTES: Final = frozenset(_ATTRIBUTES.split())
_IMPLIED: Final = frozenset({("font-family", FONT), ("opacity", "1"), ("font-weight", "normal")})
_LONG_DECIMAL = re.compile(r"(?<=\d)(\.\d{2})\d+")
_REFERENCE = re.compile(r"url\(#([\w-]+)\)")


@dataclass(frozen=True)
class Figure:
    """One figure of the report.

    Attributes
    ----------
    name : identifies it in the page: letters, digits, hyphens.
    title, caption : what it shows; what to see in it and how it was made.
    alt : the finding in words, for those who do not see it.
    spec : Vega-Lite specification without ``$schema`` and ``config``.
    rows : the numbers behind it, SI units in the column names.
    half : takes half the width of the page.
    legend : words and colours, printed above the drawing.
    svg : the drawing, set by `draw`.
    """

    name: str
    title: str
    alt: str
    spec: dict[str, Any]
    rows: list[dict[str, Any]] = field(repr=False)
    caption: str = ""
    half: bool = False
    legend: tuple[tuple[str, str], ...] = ()
    svg: str = field(default="", repr=False)

    @property
    def full_spec(self) -> dict[str, Any]:
        """Return the specification as Vega-Lite reads it."""
        return {"$schema": SCHEMA, **self.spec, "config": config()}

    def _repr_svg_(self) -> str:
        """Return the drawing with its title, legend and caption, for a notebook."""
        from turnbuckle.show.figures.files import alone  # which writes figures

        return alone(draw([self])[0])

    @property
    def csv(self) -> str:
        """Return the numbers as CSV."""
        return csv_text.of_rows(self.rows)


def draw(figures: Iterable[Figure]) -> list[Figure]:
    """Render figures to SVG.  A thread starts its engine once, in 0.15 s; a figure takes some 60
    ms.

    Raises
    ------
    ReportError : R006, R007.
    """
    figures = list(figures)
    if not figures:
        return []
    from turnbuckle._native import run_script

    scripts = [
        (files("turnbuckle.show.figures") / "vega" / name).read_text(encoding="utf-8")
        for name in SCRIPTS
    ]
    try:
        drawings = run_script(
            scripts, "draw", [json_text(f.full_spec) for f in figures], memory=MEMORY_BYTES
        )
    except MemoryError:
        raise error_of("R006", found=f"drawing takes up to {MEMORY_BYTES >> 20} MB") from None
    except RuntimeError as error:
        answered, message = error.args
        raise _undrawn(figures[answered], message) from error
    return [
        replace(figure, svg=_rebuilt_svg(raw, figure))
        for figure, raw in zip(figures, drawings, strict=True)
    ]


def _rebuilt_svg(raw: str, figure: Figure) -> str:
    try:
        return harmless(raw, figure.name, figure.alt)
    except (ElementTree.ParseError, ValueError) as error:
        raise _undrawn(figure, str(error)) from error


def _undrawn(figure: Figure, why: str) -> TurnbuckleError:
    return error_of("R007", where=clipped(figure.name, 120), found=clipped(why, 200))


def harmless(raw: str, name: str, alt: str) -> str:
    """Return an SVG drawing rebuilt from allowed elements and attributes only.

    Parameters
    ----------
    raw : the drawing as Vega wrote it (XML without a document type).
    name : put before every id, so that drawings of one page do not clash.
    alt : text alternative of the whole.

    Returns
    -------
    ``<svg>`` element without namespace declarations, for use inside HTML.  The description of a
    mark becomes its ``<title>``, which browsers show as a tool tip.
    """
    drawing = ElementTree.fromstring(raw)
    # Vega counts its clips through all drawings of a process
    named = dict.fromkeys(e.get("id", "") for e in drawing.iter() if "id" in e.attrib)
    root = _rebuilt(drawing, {old: f"{name}-clip{k}" for k, old in enumerate(named)})
    if root is None or root.tag != "svg":
        raise ValueError("not an SVG drawing")
    root.set("role", "img")
    root.set("aria-label", alt)
    root.set("class", "figure-svg")
    root.set("font-family", FONT)
    return ElementTree.tostring(root, encoding="unicode")


def _rebuilt(element: ElementTree.Element, ids: Mapping[str, str]) -> ElementTree.Element | None:
    tag = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
    if (
        tag not in ELEMENTS
        or element.get("display") == "none"
        or (tag == "path" and not element.get("d", "").strip("Mh0vZz, "))
    ):
        return None
    new = ElementTree.Element(tag)
    for key, value in element.attrib.items():
        # what holds anyway, or for the whole drawing, need not be said at every mark
        if key in ATTRIBUTES and (key, value) not in _IMPLIED:
            value = (
                _REFERENCE.sub(lambda m: f"url(#{ids.get(m[1], '')})", value)
                if key == "clip-path"
                else _LONG_DECIMAL.sub(r"\1", value)
            )
            new.set(key, ids[value] if key == "id" else value)
    new.text = element.text if tag in ("text", "tspan", "title") else None
    description = element.get("aria-label")
    if (
        description
        and element.get("role") == "graphics-symbol"
        and element.get("aria-roledescription") != "axis"
    ):
        title = ElementTree.SubElement(new, "title")
        title.text = description
        if tag == "text":
            # the title must come first, the text after it
            title.tail, new.text = new.text, None
    for child in element:
        rebuilt = _rebuilt(child, ids)
        if rebuilt is not None:
            new.append(rebuilt)
    if tag == "g" and not len(new):
        return None
    return new
