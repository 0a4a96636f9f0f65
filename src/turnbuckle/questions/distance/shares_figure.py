"""Tornado: how much longer or shorter the run gets when one class of its time changes by one per
cent.
"""

from __future__ import annotations

from typing import Final

from turnbuckle.projection.sensitivity import Share
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import ADDED, INK, SAVED
from turnbuckle.show.figures.marks import Rows, of, plot, quantity, row_axis
from turnbuckle.show.text import NARROW, clean, number, percent

#: Classes drawn, at most, and the least share of the run time that is drawn.
MOST: Final = 10
LEAST: Final = 5e-4
_NAMES: Final = 190


def drawn(shares: list[Share], measured: float) -> list[Share]:
    """Return the classes worth a bar."""
    return [s for s in shares if max(s.left, s.right) >= LEAST * measured][:MOST]


def per_cent(seconds: float, measured: float) -> str:
    """Return the change of run time for one per cent of change in a class, an elasticity in per
    cent.

    >>> per_cent(0.0123, 1.0), per_cent(0.4, 1.0), per_cent(1e-6, 1.0)
    ('0.012\\xa0%', '0.40\\xa0%', '<\\xa00.001\\xa0%')
    """
    share = seconds / measured if measured else 0.0
    if 0 < share < 1e-3:
        return f"<{NARROW}0.001{NARROW}%"
    return number(share, "1", 2, all_digits=True) + NARROW + "%"


def tornado(shares: list[Share], measured: float) -> Figure:
    """Draw one bar a class: to the left what one per cent less of it saves, to the right what one
    per cent more costs.
    """
    rows: Rows = []
    for i, s in enumerate(drawn(shares, measured)):
        left, right = s.left / measured, s.right / measured
        name, less, more = clean(s.what), per_cent(s.left, measured), per_cent(s.right, measured)
        label = more if abs(left - right) < 1e-3 * max(right, 1e-12) else f"−{less} / +{more}"
        path = f"{number(s.seconds, 's')} on the critical path, {percent(s.seconds / measured)}"
        tip = f"{name}: one per cent less saves {less}, one per cent more costs {more}; {path}"
        rows.append(
            {
                "row": i,
                "what": name,
                "less": -left,
                "more": right,
                "zero": 0.0,
                "label": label,
                "tip": tip,
            }
        )
    widest = max([r["more"] for r in rows] + [-r["less"] for r in rows] + [1e-9])
    title, words = (
        "change of run time when this class of time changes by 1 %",
        "replace(format(datum.value, '+.2~f'), '-', '−') + ' %'",
    )
    x = quantity(
        "more",
        [-1.08 * widest, 1.3 * widest],
        title=title,
        labelExpr=f"datum.value == 0 ? '0' : {words}",
        tickCount=7,
    )
    y = row_axis(len(rows), inner=0.35, outer=0.2)
    layers = [
        marks.bars(None, of(x, "less"), y, x2="zero", tip=True, color=SAVED),
        marks.bars(None, x, y, x2="zero", tip=True, color=ADDED),
        marks.rules([{"zero": 0.0}], of(x, "zero"), color=INK),
        marks.labels(None, x, y, align="left", dx=6, fontWeight="bold"),
        marks.labels(None, -10, y, "what", align="right", fontSize=12, limit=_NAMES - 12),
    ]
    spec = plot(layers, 26 * len(rows), (_NAMES, 8, 2, 42), rows)
    table = [
        {
            "class": clean(s.what),
            "critical_path_seconds": s.seconds,
            "left_derivative_seconds": s.left,
            "right_derivative_seconds": s.right,
        }
        for s in shares
    ]
    alt = "Change of run time for one per cent of change. " + "; ".join(r["tip"] for r in rows)
    legend = (("one per cent less", SAVED), ("one per cent more", ADDED))
    return Figure("shares", "What the run time is made of", alt, spec, table, legend=legend)
