"""Figure of the speed-up of a matrix product over link bandwidth, one panel per size, one line per launch time (Fig 3 of Groves et al.)."""

from __future__ import annotations

from typing import Final

from turnbuckle.papers.models.dgemm.question import Product, Study
from turnbuckle.show.figures.charts import Rows, Spec, log_ticks, own_colour, quantitative
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FAINT, FULL, INK, SOFT
from turnbuckle.show.text import NARROW, clean, factor, number

#: Panels drawn, at most.
MOST: Final = 3
#: Speed-ups up to this are drawn on a plain axis.
_PLAIN: Final = 20.0
#: Launch times, short to long: dark to light.
_SHADES: Final = ("#0b3c68", "#1f5b91", "#3a7ab3", "#5f9ac9", "#85b5d9", "#a9cce6")
_HEIGHT, _LEGEND, _GAP = 230, 26, 26
_BANDWIDTH: Final = "format(datum.value / 1e9, '~r')"


def panels(study: Study) -> list[Product]:
    """Return the sizes that get a panel: all, or first, middle and last of many, by size."""
    products = sorted(study.products, key=lambda p: p.size)
    return products if len(products) <= MOST else [products[0], products[len(products) // 2], products[-1]]


def dgemm_figure(study: Study) -> Figure:
    """Draw the speed-up over the host against bandwidth. A study on many bandwidths draws smooth lines."""
    shown = panels(study)
    # there are only so many shades, so that many launch times are thinned out
    step = max(1, -(-len(study.launches) // len(_SHADES)))
    launches = list(range(0, len(study.launches), step))
    colours = [_SHADES[round(k * (len(_SHADES) - 1) / max(len(launches) - 1, 1))] for k in range(len(launches))]
    y = _axis(shown)
    width = (FULL - 60 - _GAP * (len(shown) - 1)) / len(shown)
    legend_rows: Rows = [
        {"x": 98 + 74 * k, "colour": c, "label": number(float(study.launches[i]), "s")}
        for k, (i, c) in enumerate(zip(launches, colours, strict=True))
    ]
    spec: Spec = {
        "padding": {"left": 4, "right": 8, "top": 4, "bottom": 4},
        "vconcat": [
            _legend(legend_rows),
            {"hconcat": [_panel(study, p, launches, colours, width, y, first=k == 0) for k, p in enumerate(shown)], "spacing": _GAP},
        ],
        "spacing": 4,
    }
    alt = "; ".join(f"{p.size:,} reaches {factor(float(p.speedup.max()))} of at most {factor(p.alpha)}" for p in shown)
    return Figure("dgemm", "Is a matrix product worth moving?", f"Speed-up over the host: {alt}.", spec, study.rows(), _caption(study))


def _axis(shown: list[Product]) -> Spec:
    """Return scale and ticks that all panels share, logarithmic where a linear scale would flatten the smallest product."""
    top, bottom = max(p.alpha for p in shown), min(1.0, *(float(p.speedup.min()) for p in shown))
    if top <= _PLAIN:
        return {"scale": {"domain": [0, max(top, 1.0) * 1.08], "nice": False}, "axis": {"tickCount": 8}}
    low, high = bottom / 1.3, top * 1.6
    return {"scale": {"type": "log", "domain": [low, high], "nice": False}, "axis": {"values": log_ticks(low, high, 8)}}


def _caption(study: Study) -> str:
    how = (
        f"Kernel times are measured ({clean(study.times.source)})"
        if study.times.mode == "measured"
        else f"Nobody measured these kernels: each takes the {clean(study.times.source)}"
    )
    spread = any(p.kernel_ends is not None for p in study.products)
    band = " Band: from the shortest to the longest kernel measured, at the shortest launch time." if spread else ""
    return (
        f"{how}; copies and launches are modelled. The host computes {number(study.host_rate, 'FLOP/s')}. Below the thick line the "
        "host is faster; the dashed line is what the kernel alone would reach." + band
    )


def _legend(rows: Rows) -> Spec:
    across: Spec = {"field": "x", "type": "quantitative", "scale": {"domain": [0, FULL], "nice": False, "zero": True}, "axis": None}
    return {
        "width": FULL - 60,
        "height": _LEGEND,
        "data": {"values": rows},
        "layer": [
            {
                "data": {"values": [{"label": "launch time"}]},
                "mark": {"type": "text", "align": "left", "x": 0, "y": _LEGEND / 2, "color": SOFT},
                "encoding": {"text": {"field": "label"}},
            },
            {
                "mark": {"type": "point", "shape": "square", "filled": True, "size": 110, "opacity": 1, "y": _LEGEND / 2},
                "encoding": {"x": across, "fill": own_colour()},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 11, "y": _LEGEND / 2},
                "encoding": {"x": across, "text": {"field": "label"}},
            },
        ],
    }


def _panel(study: Study, product: Product, launches: list[int], colours: list[str], width: float, axis: Spec, first: bool) -> Spec:
    low, high = float(study.bandwidths.min()), float(study.bandwidths.max())
    ticks = [t for t in (1e9, 3e9, 12.5e9, 25e9, 50e9, 100e9, 200e9, 400e9, 900e9, 1.8e12) if low * 0.999 <= t <= high * 1.001]
    x = quantitative(
        "bandwidth",
        scale={"type": "log", "domain": [low, high], "nice": False},
        axis={"title": f"bandwidth of a copy [GB/s]{NARROW}", "values": ticks, "labelExpr": _BANDWIDTH, "grid": False},
    )
    y = quantitative(
        "speedup",
        scale=axis["scale"],
        axis={**axis["axis"], "title": "speed-up over the host" if first else None, "labels": first, "ticks": first, "domain": first},
    )
    lines: Rows = [
        {
            "bandwidth": float(b), "launch": i, "colour": colour,
            "speedup": float(product.speedup[i, j]), "low": float(product.low[i, j]), "high": float(product.high[i, j]),
        }
        for i, colour in reversed(list(zip(launches, colours, strict=True)))  # the dark line of no launch time on top
        for j, b in enumerate(study.bandwidths)
    ]  # fmt: skip
    levels: Rows = [{"speedup": 1.0, "label": ""}, {"speedup": product.alpha, "label": f"kernel alone {factor(product.alpha)}"}]
    heading = f"N = {product.size:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    stroke = {"condition": {"test": "datum.speedup == 1", "value": [1, 0]}, "value": [5, 4]}
    return {
        "width": width,
        "height": _HEIGHT,
        "title": {"text": heading, "subtitle": f"kernel {number(product.kernel_seconds, 's')}, host {number(product.host_seconds, 's')}"},
        "layer": [
            {
                "data": {"values": levels},
                "mark": {"type": "rule", "color": INK},
                "encoding": {
                    "y": y,
                    "strokeDash": stroke,
                    "strokeWidth": {"condition": {"test": "datum.speedup == 1", "value": 1.8}, "value": 1},
                    "stroke": {"condition": {"test": "datum.speedup == 1", "value": INK}, "value": FAINT},
                },
            },
            *(
                {
                    "data": {"values": levels[1:]},
                    "mark": {"type": "text", "align": "left", "x": 4, "dy": -7, "fontSize": 10, "color": SOFT, **extra},
                    "encoding": {"y": y, "text": {"field": "label"}},
                }
                for extra in ({"stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}, {})
            ),
            {
                "data": {"values": [r for r in lines if r["launch"] == launches[0] and r["low"] < r["high"]]},
                "mark": {"type": "area", "opacity": 0.14, "clip": True},
                "encoding": {
                    "x": x,
                    "y": {**y, "field": "low"},
                    "y2": {"field": "high"},
                    "fill": own_colour(),
                    "detail": {"field": "launch", "type": "nominal"},
                },
            },
            {
                "data": {"values": lines},
                "mark": {"type": "line", "strokeWidth": 2, "clip": True},
                "encoding": {"x": x, "y": y, "stroke": own_colour(), "detail": {"field": "launch", "type": "nominal"}},
            },
        ],
    }
