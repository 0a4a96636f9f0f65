"""The figure of edits: what each saves on the recorded machine, from least to most, and on the
others.
"""

from __future__ import annotations

from typing import Final

from turnbuckle.questions.whatif.question import WORTH, Gain, Whatif
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import RECORDED, SOFT, TARGET_COLOURS
from turnbuckle.show.figures.marks import CHANGE, Rows, digits, plot, quantity, row_axis, row_names
from turnbuckle.show.text import clean

#: Edits that are drawn, the best first.
MOST: Final = 8
_ROW, _LEFT, _NAME = 30, 250, 40


def figures(answer: Whatif) -> list[Figure]:
    """Return one figure; none where no edit changes the run time anywhere."""
    shown = best(answer)
    return [_drawn(answer, shown)] if shown else []


def best(answer: Whatif, most: int = MOST) -> list[Gain]:
    """Return the edits that change the run time on any of the machines, the best on the recorded
    one first.
    """
    return [g for g in answer.gains if any(_reach(g, k) >= WORTH for k in range(len(g.savings)))][
        :most
    ]


def _reach(gain: Gain, machine: int) -> float:
    return max(abs(share) for share in gain.ends(machine))


def _drawn(answer: Whatif, shown: list[Gain]) -> Figure:
    machines = answer.unchanged[: len(shown[0].savings)]
    colours = [
        RECORDED,
        *(TARGET_COLOURS[k % len(TARGET_COLOURS)] for k in range(len(machines) - 1)),
    ]
    ranges: Rows = []
    middles: Rows = []
    room = 1.0 / (len(machines) + 1)
    for row, gain in enumerate(shown):
        for k, colour in enumerate(colours):
            least, most = gain.ends(k)
            place = row + (k + 1) * room
            ranges.append(
                {"share": digits(least), "to": digits(most), "place": place, "colour": colour}
            )
            middles.append(
                {"share": digits(gain.savings[k].share), "place": place, "colour": colour}
            )
    ends = [row[key] for row in ranges for key in ("share", "to")]
    span = max(max(ends) - min(*ends, 0.0), 1e-3)
    x = quantity(
        "share",
        [min(*ends, 0.0) - 0.04 * span, max(ends) + 0.04 * span],
        title="run time saved",
        labelExpr=CHANGE.replace("+", ""),
    )
    y = quantity("place", [len(shown), 0], no_axis=True)
    named = [{"row": row, "name": clean(gain.name)[:_NAME]} for row, gain in enumerate(shown)]
    layers = [
        row_names(named, row_axis(len(shown)), _LEFT),
        marks.rules([{"share": 0.0}], x, None, 1, color=SOFT),
        marks.rules(ranges, x, y, 5, x2="to", hue="colour"),
        marks.points(middles, x, y, 46, hue="colour"),
    ]
    top = shown[0]
    least, most = top.on_source
    alt = (
        f"{len(shown)} edits; the first, {clean(top.title)}, saves {least:.1%} to {most:.1%} on "
        "the recorded machine."
    )
    caption = (
        "From the end of least gain to that of most; the dot is the middle. What an edit needs "
        "to be right, the recording does not show."
    )
    rows = answer.table().to_dicts()
    legend = tuple(
        (clean(m.title if m.target != "self" else "as recorded"), c)
        for m, c in zip(machines, colours, strict=True)
    )
    spec = plot(layers, 44 + _ROW * len(shown), (_LEFT, 16, 8, 44))
    return Figure(
        "edits", "What a change to the program saves", alt, spec, rows, caption, legend=legend
    )
