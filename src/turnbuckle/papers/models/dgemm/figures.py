"""Speed-up of a matrix product over link bandwidth: one panel for each size, one line for each
launch time (Groves et al., Fig 3).
"""

from __future__ import annotations

from typing import Final

from turnbuckle.papers.models.dgemm.question import Product, Study
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FAINT, FULL, INK, SOFT, shade
from turnbuckle.show.figures.marks import Rows, Spec, below, beside, log_ticks, quantity
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
    """Return the sizes that get a panel: all, or the first, middle and last of many."""
    products = sorted(study.products, key=lambda p: p.size)
    return (
        products
        if len(products) <= MOST
        else [products[0], products[len(products) // 2], products[-1]]
    )


def dgemm_figure(study: Study) -> Figure:
    """Draw speed-up over the host against bandwidth; a study with many bandwidths gives smooth
    lines.
    """
    shown = panels(study)
    # a line a launch time, as many as there are shades
    step = max(1, -(-len(study.launches) // len(_SHADES)))
    launches = list(range(0, len(study.launches), step))
    colours = [shade(_SHADES, k, len(launches)) for k in range(len(launches))]
    y = _axis(shown)
    width = (FULL - 60 - _GAP * (len(shown) - 1)) / len(shown)
    legend_rows: Rows = [
        {"x": 98 + 74 * k, "colour": c, "label": number(float(study.launches[i]), "s")}
        for k, (i, c) in enumerate(zip(launches, colours, strict=True))
    ]
    views = [
        _panel(study, p, launches, colours, width, y, first=k == 0) for k, p in enumerate(shown)
    ]
    spec = below(
        [_legend(legend_rows), beside(views, _GAP)],
        4,
        padding={"left": 4, "right": 8, "top": 4, "bottom": 4},
    )
    alt = "; ".join(
        f"{p.size:,} reaches {factor(float(p.speedup.max()))} of at most {factor(p.alpha)}"
        for p in shown
    )
    return Figure(
        "dgemm",
        "Is a matrix product worth moving?",
        f"Speed-up over the host: {alt}.",
        spec,
        study.rows(),
        _caption(study),
    )


def _axis(shown: list[Product]) -> Spec:
    """Return the speed-up channel that all panels share; logarithmic where a linear one would not
    show the smallest product.
    """
    top, bottom = max(p.alpha for p in shown), min(1.0, *(float(p.speedup.min()) for p in shown))
    if top <= _PLAIN:
        return quantity("speedup", [0, max(top, 1.0) * 1.08], tickCount=8)
    low, high = bottom / 1.3, top * 1.6
    return quantity("speedup", [low, high], log=10, values=log_ticks(low, high, 8))


def _caption(study: Study) -> str:
    how = (
        f"Kernel times are measured ({clean(study.times.source)})"
        if study.times.mode == "measured"
        else f"Nobody measured these kernels: each takes the {clean(study.times.source)}"
    )
    spread = any(p.kernel_ends is not None for p in study.products)
    band = (
        " Band: from the shortest to the longest kernel measured, at the shortest launch time."
        if spread
        else ""
    )
    return (
        f"{how}; copies and launches are modelled. The host computes "
        f"{number(study.host_rate, 'FLOP/s')}. Below the thick line the "
        "host is faster; the dashed line is what the kernel alone would reach." + band
    )


def _legend(rows: Rows) -> Spec:
    x = quantity("x", [0, FULL], scale={"zero": True}, no_axis=True)
    middle = _LEGEND / 2
    layers = [
        marks.words("launch time", 0, middle, align="left", color=SOFT),
        marks.mark("point", None, x, middle, shape="square", filled=True, size=110, opacity=1),
        marks.labels(None, x, middle, align="left", dx=11),
    ]
    return {"width": FULL - 60, "height": _LEGEND, "data": {"values": rows}, "layer": layers}


def _panel(
    study: Study,
    product: Product,
    launches: list[int],
    colours: list[str],
    width: float,
    axis: Spec,
    first: bool,
) -> Spec:
    low, high = float(study.bandwidths.min()), float(study.bandwidths.max())
    ticks = [
        t
        for t in (1e9, 3e9, 12.5e9, 25e9, 50e9, 100e9, 200e9, 400e9, 900e9, 1.8e12)
        if low * 0.999 <= t <= high * 1.001
    ]
    title = f"bandwidth of a copy [GB/s]{NARROW}"
    x = quantity(
        "bandwidth",
        [low, high],
        log=10,
        title=title,
        values=ticks,
        labelExpr=_BANDWIDTH,
        grid=False,
    )
    side = {
        "title": "speed-up over the host" if first else None,
        "labels": first,
        "ticks": first,
        "domain": first,
    }
    y = {**axis, "axis": {**axis["axis"], **side}}
    lines: Rows = [
        {
            **{
                "bandwidth": float(b),
                "launch": i,
                "colour": colour,
                "speedup": float(product.speedup[i, j]),
            },
            **{"low": float(product.low[i, j]), "high": float(product.high[i, j])},
        }
        # the dark line of no launch time on top
        for i, colour in reversed(list(zip(launches, colours, strict=True)))
        for j, b in enumerate(study.bandwidths)
    ]
    levels: Rows = [
        {"speedup": 1.0, "label": ""},
        {"speedup": product.alpha, "label": f"kernel alone {factor(product.alpha)}"},
    ]
    size = f"N = {product.size:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    name = marks.labels(levels[1:], 4, y, align="left", dy=-7, fontSize=10, color=SOFT)
    spread = [r for r in lines if r["launch"] == launches[0] and r["low"] < r["high"]]
    layers = [
        marks.rules(levels[:1], None, y, 1.8, color=INK),
        marks.rules(levels[1:], None, y, color=FAINT, strokeDash=[5, 4]),
        *marks.haloed(name, 4),
        marks.band(spread, x, y, "low", "high", series="launch", opacity=0.14, clip=True),
        marks.line(lines, x, y, series="launch", clip=True),
    ]
    heading = {
        "text": size,
        "subtitle": (
            f"kernel {number(product.kernel_seconds, 's')}, host "
            f"{number(product.host_seconds, 's')}"
        ),
    }
    return {"width": width, "height": _HEIGHT, "title": heading, "layer": layers}
