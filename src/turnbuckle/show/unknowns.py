"""What the uncertain numbers of a projection are called in words, and what would make each of them
certain.
"""

from __future__ import annotations

import re
from typing import Final

from turnbuckle.show.text import NARROW, clean, number, terms

DIRECTION: Final = terms("direction")
LABELS: Final = terms("parameter")
"""Short names of parameters; those of links are put together by `parameter_label`."""

_LINK = re.compile(r"link\.(h2d|d2h|p2p)\.(bandwidth|efficiency|latency)")
_OBSERVED = re.compile(r"observed\.(h2d|d2h)\.(\w+)\.(bandwidth|latency)")
_FORM = re.compile(r"form/(\w+?)/(\w*)/1e(-?\d+)")
_PART: Final = terms("part of a link")

#: What to do about an unknown: the first pattern found in its name decides.
_ADVICE: Final = terms("advice")


def parameter_label(name: str) -> str:
    """Return a machine parameter in words.

    >>> parameter_label("link.h2d.latency")
    'copy latency, host to device'
    """
    if name in LABELS:
        return LABELS[name]
    if link := _LINK.fullmatch(name):
        return f"{_PART[link[2]]}, {DIRECTION[link[1]]}"
    if observed := _OBSERVED.fullmatch(name):
        return (
            f"{_PART[observed[3]]} of {observed[2].replace('_', ' ')} copies, "
            f"{DIRECTION[observed[1]]}"
        )
    return clean(name).replace(".", " ").replace("_", " ")


def unknown_label(name: str) -> str:
    """Return an uncertain number of `Projection.drivers` in words.

    >>> unknown_label("common/distance of a row"), unknown_label("gh200/launch.latency"), unknown_label("kernel alpha")
    ('distance of a row', 'launch latency (gh200)', 'kernel speed ratio')
    """
    if name == "kernel alpha":
        return "kernel speed ratio"
    if name == "host of the other machine":
        return "speed of the other machine's host"
    if form := _FORM.fullmatch(name):
        kind, memory, decade = form[1], form[2].replace("_", " "), int(form[3])
        what = (
            f"scatter of {memory} copies"
            if kind.startswith("copy")
            else "scatter of page migrations"
        )
        where = DIRECTION.get(kind.removeprefix("copy_"), "") if kind.startswith("copy") else ""
        size = (
            f"{number(10.0**decade, 'B')} to {number(10.0 ** (decade + 1), 'B')}"
            if decade > 0
            else f"below 10{NARROW}B"
        )
        return f"{what}{', ' + where if where else ''}, {size}"
    first, _, rest = name.partition("/")
    if first == "common":
        return clean(rest)
    parameter = rest.split("/", 1)[0]
    return f"{parameter_label(parameter)} ({clean(first)})" if parameter else clean(name)


def advice(name: str) -> str:
    """Return what to measure so that this number is no longer in doubt."""
    return next(text for pattern, text in _ADVICE.items() if re.search(pattern, name))
