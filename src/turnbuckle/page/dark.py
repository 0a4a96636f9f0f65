"""Dark mode without a script: each colour of a figure has a partner for dark paper, and style
sheets choose between the two.

A figure with a colour that has no partner, such as a map whose shades mean numbers, keeps its light
paper.
"""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup

from turnbuckle.show.figures.look import DARK

_COLOUR: Final = re.compile(r' (?:fill|stroke)="([^"]+)"')
#: Paint that is the same on both papers: white is a name on a strong colour, or an edge, which the
#: style sheet gives the paper's colour.
_EITHER: Final = frozenset({"none", "transparent", "white", "#fff", "#ffffff"})


def paint(colour: str) -> str:
    """Return a colour as a style sheet names it: the partner on dark paper, itself on light paper
    and in old browsers.

    >>> paint("#1d2733"), paint("#123456")
    ('var(--c1d2733,#1d2733)', '#123456')
    """
    return f"var(--c{colour[1:]},{colour})" if colour in DARK else colour


def style() -> Markup:
    """Return the style sheet that gives every colour of `DARK` its partner, where the browser can
    choose.
    """
    names = "".join(f"--c{light[1:]}:light-dark({light},{dark});" for light, dark in DARK.items())
    of_figures = "".join(
        f'.figure-svg [{of}="{light}"]{{{of}:var(--c{light[1:]})}}'
        for light in DARK
        for of in ("fill", "stroke")
    )
    return Markup(f"@supports (color:light-dark(#000,#fff)) {{ :root{{{names}}} {of_figures} }}")


def on_paper(svg: str) -> Markup:
    """Return a drawing that keeps its light paper if one of its colours has no partner.

    >>> on_paper('<svg class="figure-svg"><path fill="#123456" /></svg>')
    Markup('<svg class="figure-svg paper"><path fill="#123456" /></svg>')
    """
    paired = set(_COLOUR.findall(svg)) <= _EITHER | DARK.keys()
    return Markup(
        svg if paired else svg.replace('class="figure-svg"', 'class="figure-svg paper"', 1)
    )
