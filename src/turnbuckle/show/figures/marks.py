"""Pieces that figures are made of: marks, axes and frames as Vega-Lite, and the numbers that place
them.

A mark takes its rows (none: those of its plot), its channels, and Vega-Lite's own names for the
rest of its look.  Without ``color`` each row states its colour in the field ``colour``.  A place
that is a number is one in pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from turnbuckle.show.figures.look import FULL, SOFT

Spec = dict[str, Any]
Rows = list[dict[str, Any]]
Value = TypeVar("Value")
#: A channel, a place in pixels, or none.
Place = Spec | float | None
#: A second channel by its field, a place in pixels, or none.
End = str | float | Spec | None

#: Vega labels of a change: a sign, no sign on zero.
CHANGE: Final = "datum.value == 0 ? '0 %' : replace(format(datum.value, '+.3~p'), '%', ' %')"
#: Vega labels with a unit: ``2 MB``, ``10 µs``.
BYTES, SECONDS = (
    f"replace(format(datum.value, '.3~s'), regexp('([a-zA-Zµ]?)$'), ' $1') + '{unit}'"
    for unit in ("B", "s")
)
#: Vega labels of a number; a format of its own would write 200 as 2e+2.
PLAIN: Final = "format(datum.value, ',~r')"
#: Vega labels of a multiple: ``1.5×``.
TIMES: Final = "format(datum.value, '~r') + '×'"


# --- channels and axes ----------------------------------------------------------------------------


def quantity(
    field: str,
    ends: Sequence[float] = (),
    *,
    log: int = 0,
    scale: Spec | None = None,
    no_axis: bool = False,
    **axis: Any,
) -> Spec:
    """Return a continuous channel.

    Parameters
    ----------
    ends : those of the scale; none leaves them to the numbers.
    log : base of a logarithmic scale; 0 for a linear one.
    scale, axis : whatever else Vega-Lite knows of them.
    no_axis : draw no axis.
    """
    bounds = {"domain": list(ends), "nice": False} if len(ends) else {}
    bounds |= {"type": "log", "base": log} if log else {}
    bounds |= scale or {}
    drawn: Spec = {"axis": None} if no_axis else {"axis": axis} if axis else {}
    return {
        "field": field,
        "type": "quantitative",
        **({"scale": bounds} if bounds else {}),
        **drawn,
    }


def of(channel: Spec, field: str) -> Spec:
    """Return the same channel for another field."""
    return {**channel, "field": field}


def row_axis(count: int, *, inner: float | None = None, outer: float | None = None) -> Spec:
    """Return the channel of numbered rows, without an axis; `inner` and `outer` are their
    paddings.
    """
    padding = {
        name: value
        for name, value in (("paddingInner", inner), ("paddingOuter", outer))
        if value is not None
    }
    return {
        "field": "row",
        "type": "ordinal",
        "axis": None,
        "scale": {"domain": list(range(count)), **padding},
    }


def stated(field: str = "colour") -> Spec:
    """Return the channel of colours, or shapes, that rows state themselves."""
    return {"field": field, "type": "nominal", "scale": None, "legend": None}


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round values on a logarithmic axis: powers of ten, with 2 and 5 between them where
    there is room.

    >>> log_ticks(3e-6, 4e-3)
    [1e-05, 0.0001, 0.001]
    >>> log_ticks(90.0, 240.0)
    [100.0, 150.0, 200.0]
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))

    def inside(steps: tuple[float, ...]) -> list[float]:
        # a power with a negative exponent by division, which rounds to the number as written
        values = [
            s * 10.0**k if k >= 0 else s / 10.0**-k for k in range(first, last + 1) for s in steps
        ]
        return [v for v in values if low <= v <= high]

    for choice in ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0)):
        if 2 <= len(ticks := inside(choice)) <= most:
            return ticks
    decades = inside((1.0,))
    return decades[:: math.ceil(len(decades) / most)] if decades else inside((1.0, 2.0, 5.0))


def few(values: Sequence[Value], most: int) -> list[Value]:
    """Return the ends and some between, evenly, where there are more than `most`."""
    return (
        list(values)
        if len(values) <= most
        else [values[round(k * (len(values) - 1) / (most - 1))] for k in range(most)]
    )


def log_share(value: float, low: float, high: float) -> float:
    """Return where a value lies on a logarithmic axis: 0 at its lower end, 1 at its upper one."""
    return math.log(value / low) / math.log(high / low)


def time_unit(longest: float) -> tuple[float, str]:
    """Return divisor and name of the unit in which `longest` seconds reads well.

    >>> time_unit(0.5), time_unit(12.0)
    ((0.001, 'ms'), (1.0, 's'))
    """
    for divisor, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if longest >= divisor:
            return divisor, name
    return 1e-9, "ns"


def digits(value: float, most: int = 5) -> float:
    """Round a number to what a drawing needs."""
    return float(f"{value:.{most}g}")


# --- marks ----------------------------------------------------------------------------------------


def mark(
    kind: str,
    rows: Rows | None,
    x: Place = None,
    y: Place = None,
    *,
    x2: End = None,
    y2: End = None,
    tip: bool = False,
    hue: str = "colour",
    series: str = "",
    where: str = "",
    encode: Spec | None = None,
    **look: Any,
) -> Spec:
    """Return one layer.

    Parameters
    ----------
    tip : let the field ``tip`` be what a screen reader says and a browser shows.
    hue : the field with the colour, if `look` gives none; empty for none.
    series : the field that tells lines, or bands, from each other.
    where : draw only rows of which this Vega expression holds.
    encode, look : other channels, and properties of the mark, as Vega-Lite names them.
    """
    encoding: Spec = {}
    shape: Spec = {"type": kind, **look, **({"aria": True} if tip else {})}
    for name, place in (("x", x), ("y", y), ("x2", x2), ("y2", y2)):
        if isinstance(place, str):
            encoding[name] = {"field": place}
        elif isinstance(place, dict):
            encoding[name] = place
        elif place is not None:
            shape[name] = place
    encoding |= {"description": {"field": "tip"}} if tip else {}
    encoding |= {"color": stated(hue)} if hue and "color" not in look else {}
    encoding |= {"detail": {"field": series, "type": "nominal"}} if series else {}
    encoding |= encode or {}
    data: Spec = {} if rows is None else {"data": {"values": rows}}
    return {
        **data,
        **({"transform": [{"filter": where}]} if where else {}),
        "mark": shape,
        "encoding": encoding,
    }


def line(rows: Rows | None, x: Place, y: Place, width: float = 2, **look: Any) -> Spec:
    """Draw a line through the rows, from left to right."""
    return mark("line", rows, x, y, strokeWidth=width, **look)


def path(rows: Rows, x: Place, y: Place, *, encode: Spec | None = None, **look: Any) -> Spec:
    """Draw a line through the rows in the order of their field ``i``."""
    return mark(
        "line",
        rows,
        x,
        y,
        encode={"order": {"field": "i", "type": "quantitative"}, **(encode or {})},
        **look,
    )


def band(rows: Rows | None, x: Place, y: Spec, low: str, high: str, **look: Any) -> Spec:
    """Fill what lies between two fields along an axis."""
    return mark("area", rows, x, of(y, low), y2=high, **look)


def points(
    rows: Rows | None, x: Place, y: Place, size: float | None = None, edge: float = 0.8, **look: Any
) -> Spec:
    """Draw filled dots with a white edge."""
    sized: Spec = {} if size is None else {"size": size}
    return mark(
        "point",
        rows,
        x,
        y,
        **{"filled": True, "stroke": "white", "strokeWidth": edge, "opacity": 1, **sized, **look},
    )


def rings(rows: Rows, x: Place, y: Place, size: float, width: float, **look: Any) -> Spec:
    """Draw circles that leave what they enclose visible."""
    return mark(
        "point",
        rows,
        x,
        y,
        **{"filled": False, "size": size, "strokeWidth": width, "opacity": 1, **look},
    )


def bars(rows: Rows | None, x: Place, y: Place, **look: Any) -> Spec:
    """Draw bars, each in the middle of its row or column."""
    return mark("bar", rows, x, y, **look)


def cells(rows: Rows | None, x: Place, y: Place, **look: Any) -> Spec:
    """Fill rectangles: the cells of a heat map, zones behind a plot, activities on a time line."""
    return mark("rect", rows, x, y, **look)


def rules(
    rows: Rows | None, x: Place = None, y: Place = None, width: float | None = None, **look: Any
) -> Spec:
    """Draw straight lines along an axis, across the plot or between two fields."""
    drawn: Spec = {} if width is None else {"strokeWidth": width}
    return mark("rule", rows, x, y, **drawn, **look)


def labels(
    rows: Rows | None,
    x: Place = None,
    y: Place = None,
    text: str = "label",
    *,
    encode: Spec | None = None,
    **look: Any,
) -> Spec:
    """Write a field of each row; in the usual ink unless ``color`` or `hue` says otherwise."""
    return mark(
        "text",
        rows,
        x,
        y,
        encode={"text": {"field": text}, **(encode or {})},
        **{"hue": "", **look},
    )


def haloed(label: Spec, width: float = 3, **halo: Any) -> list[Spec]:
    """Return two layers, a white outline of the labels and the labels over it, so that they can be
    read over what they cross.

    Parameters
    ----------
    label : the layer of labels; it stays as it is.
    width : of the outline [px].
    halo : further properties of the outline's mark, as ``opacity``.
    """
    return [
        {
            **label,
            "mark": {
                **label["mark"],
                "stroke": "white",
                "strokeWidth": width,
                "strokeJoin": "round",
                **halo,
            },
        },
        label,
    ]


def words(text: str, x: float, y: float, **look: Any) -> Spec:
    """Write one text at a place in pixels."""
    return labels([{"label": text}], x, y, **look)


def row_names(rows: Rows | None, y: Place, room: float, text: str = "name", **look: Any) -> Spec:
    """Write the names of rows left of a plot, in a margin of `room` pixels."""
    return labels(
        rows, -12, y, text, **{"align": "right", "fontWeight": "bold", "limit": room - 14, **look}
    )


# --- stacks ---------------------------------------------------------------------------------------


def stack(parts: Iterable[tuple[float, Spec]], start: float = 0.0) -> Rows:
    """Put parts, each a size and a row, end to end: the rows with ``from``, ``to`` and ``middle``.

    >>> stack([(2.0, {"a": 1}), (4.0, {"a": 2})])[1]
    {'from': 2.0, 'to': 6.0, 'middle': 4.0, 'a': 2}
    """
    rows: Rows = []
    for size, row in parts:
        rows.append({"from": start, "to": start + size, "middle": start + size / 2, **row})
        start += size
    return rows


@dataclass(frozen=True)
class Bar:
    """One bar of times: its name, what its tip says, and its parts, each in seconds with a
    colour.
    """

    name: str
    tip: str
    parts: list[tuple[float, str]]


def stacked_bars(
    groups: list[tuple[str, list[Bar]]],
    width: int,
    title: str,
    *,
    foot: float = 4,
    named: bool = True,
) -> Spec:
    """Return a view of bars below each other, in groups with a heading each.

    Parameters
    ----------
    title : of the axis, without the unit.
    foot : room below the last bar [px].
    named : write names and headings left of the bars.
    """
    rows: Rows = []
    heads: Rows = []
    top = 0.0
    for heading, bars in groups:
        for k, bar in enumerate(bars):
            heads.append({"y": top + 8, "name": bar.name, "shape": "" if k else heading})
            parts = stack((seconds, {"colour": colour}) for seconds, colour in bar.parts)
            rows += [
                {
                    "y": top,
                    "y2": top + 15,
                    "a": part["from"],
                    "b": part["to"],
                    "colour": part["colour"],
                    "tip": bar.tip,
                }
                for part in parts
            ]
            top += 18
        top += 10
    height = top - 13 + foot
    longest = max((r["b"] for r in rows), default=0.0) or 1.0
    divisor, unit = time_unit(longest)
    y = quantity("y", [-4, height], scale={"reverse": True}, no_axis=True)
    x = quantity(
        "a", [0, longest / divisor * 1.03], title=f"{title} [{unit}]", tickCount=5, grid=True
    )
    drawn = [{**r, "a": r["a"] / divisor, "b": r["b"] / divisor} for r in rows if r["b"] > r["a"]]
    layers = [cells(drawn, x, y, x2="b", y2="y2", tip=True)]
    if named:
        headings_at = -18 - max(len(h["name"]) for h in heads) * 5.6
        look: Spec = {"align": "right", "baseline": "middle", "fontSize": 10.5}
        layers.append(labels(heads, -8.0, y, "name", color=SOFT, **look))
        layers.append(labels(heads, headings_at, y, "shape", fontWeight="bold", **look))
    return {"width": width, "height": int(height), "layer": layers}


# --- frames ---------------------------------------------------------------------------------------


def plot(
    layers: list[Spec],
    height: float,
    margins: tuple[float, float, float, float],
    rows: Rows | None = None,
    width: int = FULL,
) -> Spec:
    """Return a layered view of exactly `width` px, margins (left, right, top, bottom) included:
    plots of a column stand in line.
    """
    left, right, top, bottom = margins
    view: Spec = {
        "width": width - left - right,
        "height": height,
        "padding": {"left": left, "right": right, "top": top, "bottom": bottom},
        "autosize": {"type": "none"},
        "layer": layers,
    }
    return view if rows is None else {"data": {"values": rows}, **view}


def beside(panels: list[Spec], spacing: float, **frame: Any) -> Spec:
    """Return views beside each other."""
    return {"hconcat": panels, "spacing": spacing, **frame}


def below(views: list[Spec], spacing: float, **frame: Any) -> Spec:
    """Return views below each other."""
    return {"vconcat": views, "spacing": spacing, **frame}
