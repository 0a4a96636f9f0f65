"""Tables of `turnbuckle slack`, for terminal and report alike: what a run tolerates, and which
calls carry the latency.
"""

from __future__ import annotations

import re
from typing import Final

from turnbuckle.foundation.units import show
from turnbuckle.questions.distance.carriers import Carrier
from turnbuckle.questions.distance.distance import FARTHEST
from turnbuckle.questions.distance.figures import fibre, interval_matters, reach
from turnbuckle.questions.distance.question import Slack, Tolerance
from turnbuckle.show.table import Cell, Table, cells
from turnbuckle.show.text import (
    DASH,
    NARROW,
    clean,
    count,
    listed,
    number,
    percent,
    plural,
    seconds,
    terms,
)

#: Carriers in a table.
CARRIERS: Final = 8
#: Factor between the ends of a tolerance beyond which it says nothing.
_DECADES: Final = 1000.0
#: A changed run time worth showing saves this share of the run time.
_SAME: Final = 5e-4
_PAYS: Final = terms("part of a latency")
_BYTES: Final = re.compile(r"(?<=\d) B\b")
_GROUPED: Final = re.compile(r"(?<=\d),(?=\d{3})")
#: Ways to be far away, as heads of columns.
_AWAY: Final = terms("way to be far away")


def tolerance_table(*answers: Slack) -> Table:
    """Return, for each share by which the run may be longer, the added one-way latency that each
    answer allows.

    Parameters
    ----------
    answers : of one run, one for each way to be far away.
    """
    rows, head = [], ["run may be"]
    for answer in answers:
        head += [
            f">{_AWAY[answer.mode]}",
            *([f">90{NARROW}% range"] if answer.band is not None else []),
            ">as fibre",
        ]
    for tolerances in zip(*(answer.tolerances for answer in answers), strict=True):
        row = [Cell(f"{percent(tolerances[0].share)} longer", tone="strong")]
        for answer, t in zip(answers, tolerances, strict=True):
            interval = (
                DASH
                if t.slack is None
                else bracket(t)
                if interval_matters(t.slack, t.low, t.high)
                else "exact"
            )
            row += cells(
                reach(t.slack),
                *([interval] if answer.band is not None else []),
                fibre(t.slack / answer.trips) if t.slack is not None else DASH,
            )
        rows.append(row)
    varied = (
        "round trip"
        if all(answer.mode == "remoting" for answer in answers)
        else "added one-way latency"
    )
    caption = (
        f"Largest {varied} at which the run is longer by no more than the share in the first "
        "column, and the length of glass "
        "fibre with that delay (5 ns per metre)."
    )
    if any(answer.band is not None for answer in answers):
        caption += (
            f" Range: 90{NARROW}% of the draws of what is uncertain: the order where no rule "
            "derives it"
        )
        link = any(answer.mode == "link" for answer in answers)
        caption += (
            ", trips of a command, and reads in flight (their number, size and round trip)"
            if link
            else ""
        )
        caption += (
            "; those of the link were not measured but assumed."
            if link and any(answer.assumed for answer in answers)
            else "."
        )
    return Table(caption, head, rows, title="what the run tolerates")


def latency_words(value: float | None, low: float | None, high: float | None) -> str:
    """Return a tolerated latency with its range on a line of plain text; one whose range covers
    three decades says nothing.
    """
    if value is None:
        return f"more than {show(FARTHEST, 's')}"
    if high == 0.0:
        return "any"
    if low is None or high is None or low * _DECADES < high:
        ends = show(low or 0.0, "s"), show(FARTHEST if high is None else high, "s")
        return f"cannot say: {' to '.join(ends)}"
    ends = show(low, "s", 2), show(high, "s", 2)
    return f"{show(value, 's', 2)} ({' to '.join(ends)})"


def bracket(t: Tolerance) -> str:
    """Return the interval of a tolerance."""
    return f"[{reach(t.low)}, {reach(t.high)}]"


def carrier_table(study: Slack) -> Table | None:
    """Return the calls that carry added latency into the run time, the largest share first; None
    without any.
    """
    if not study.carriers:
        return None
    rows = []
    for c in study.carriers[:CARRIERS]:
        rows.append(
            cells(
                carrier_words(c).removesuffix(f" of {clean(c.call)}"),
                Cell(percent(c.share), bar=min(c.share, 1.0)),
                number(c.seconds, "s"),
                Cell(clean(c.call, 80), tone="code"),
                listed([_PAYS.get(p, p) for p in c.pays]),
                "; ".join(what_if(c, study)) or DASH,
            )
        )
    longer = float(study.curve(study.carried_at)) - float(study.curve.seconds[0])
    caption = (
        f"Calls along the critical path that add up to the {seconds(longer)} by which the run is "
        "longer; shares are of the whole penalty. "
        "What if: run time at the same distance with these calls changed. A batch: consecutive "
        "calls without another call to the GPU "
        "between them, merged into one."
    )
    head = ["what", "of the penalty", ">adds", "call", "pays for", "what if the run"]
    title = f"what carries the latency, at {seconds(study.carried_at)}"
    return Table(caption, head, rows, kind="carriers", title=title, wide=("pays for",))


def carrier_words(c: Carrier) -> str:
    """Name the calls, with digits grouped by three as everywhere in the report."""
    return clean(_BYTES.sub(NARROW + "B", _GROUPED.sub("\N{NARROW NO-BREAK SPACE}", c.what)))


def what_if(c: Carrier, study: Slack) -> list[str]:
    """Return the run times that result if these calls were changed, in short."""
    out = []
    most = float(study.curve(study.carried_at)) - _SAME * study.measured
    if c.asynchronous is not None and c.asynchronous < most:
        out.append(f"did not wait there: {seconds(c.asynchronous)}")
    if c.batched is not None and c.batches is not None and c.batched < most:
        out.append(
            f"made all {count(c.of)} in {plural(c.batches, 'batch', 'batches')}: "
            f"{seconds(c.batched)}"
        )
    return out
