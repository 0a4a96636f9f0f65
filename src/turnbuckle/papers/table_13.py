"""Table 13 of the ECP report with recomputed numbers: by application and technology, with interval,
link, method and verdict.

The report sums up six technologies on sixteen applications (Austin et al. 2021, section 11).  Each
of its 57 numbers is compared with the value that the product's own functions compute from numbers
that the report prints elsewhere.  Where the inputs are not printed, the cell names the missing
ones.  Intervals follow from the rounding of the inputs, because the report prints no errors.
"""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from turnbuckle.cost.ratio import fraction_benefit
from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.schema import table_rows
from turnbuckle.papers.ecp import simulators, tables
from turnbuckle.papers.models.bound.affine import most_benefit
from turnbuckle.papers.numbers import Interval, Recomputed, Verdict, exact, judged, printed, swept
from turnbuckle.papers.reproduce import reproduce

Technology = Literal[
    "CPU-GPU integration",
    "CPU cores a GPU",
    "disaggregation penalty",
    "GPU-GPU integration",
    "unified memory",
    "FPGA-GPU integration",
]
_OF_CPU: Final[tuple[Technology, ...]] = (
    "CPU-GPU integration",
    "CPU cores a GPU",
    "disaggregation penalty",
)
TECHNOLOGIES: Final[tuple[Technology, ...]] = (
    *_OF_CPU,
    "GPU-GPU integration",
    "unified memory",
    "FPGA-GPU integration",
)


@dataclass(frozen=True)
class Cell(Declared):
    """One number of Table 13, printed and recomputed."""

    application: str
    technology: Technology
    printed: str
    recomputed: float | None
    #: low, high: least and most within the rounding of the inputs; `high` is infinite for a lower
    #: bound
    low: float | None
    high: float | None
    link: str
    change: str
    method: str
    verdict: Verdict
    note: str = ""

    @property
    def number(self) -> Interval:
        """Return the recomputed number, or else the printed one, with its interval; whole cores are
        exact.
        """
        if self.recomputed is None or self.low is None or self.high is None:
            return (
                exact(float(self.printed))
                if self.technology == "CPU cores a GPU" and self.printed.isdigit()
                else printed(self.printed)
            )
        return Interval(self.recomputed, self.low, self.high)

    @property
    def is_bound(self) -> bool:
        """Return whether only a lower bound of the number can be computed."""
        return self.high is not None and math.isinf(self.high)

    @property
    def greatest(self) -> float | None:
        """Return the most within the rounding of the inputs; None for a lower bound."""
        return None if self.is_bound else self.high


@cache
def _rows() -> dict[str, Recomputed]:
    """Return the report's rows of ``turnbuckle reproduce`` by their ids.  Recomputing them takes a
    fifth of a second.
    """
    return {row.id: row.now for row in reproduce(("ecp",)) if row.now is not None}


def _row(id: str) -> Recomputed:
    return _rows()[id]


def _of(id: str) -> Interval:
    row = _row(id)
    assert isinstance(row.recomputed, float) and row.low is not None and row.high is not None, id
    return Interval(row.recomputed, row.low, row.high)


def table_13() -> list[Cell]:
    """Return all 57 cells, by technology and then in the order of the report's rows.

    >>> next(c for c in table_13() if (c.application, c.technology) == ("WarpX", "CPU-GPU integration")).verdict
    'trunc'
    """
    return list(_cells())


@cache
def _cells() -> tuple[Cell, ...]:
    """Return the lines of ``table_13.csv`` as cells; a line names the row of `reproduce` whose
    number, star and note its cell has.
    """
    return tuple(_cell(**line) for line in table_rows("papers/table_13.csv"))  # type: ignore[arg-type]


def _cell(
    application: str,
    technology: Technology,
    row: str,
    link: str,
    change: str,
    method: str,
    note: str,
) -> Cell:
    text = tables.PAPER.text(application, technology, "Table 13")
    source = _row(row) if row else None
    words = _Words(application=application, printed=text, note=source.note if source else "")
    about = link, change.format_map(words), method
    number = _NUMBERS[application, technology]() if (application, technology) in _NUMBERS else None
    if source is not None and isinstance(source.recomputed, float):
        number = _of(row)
    castro = _row("R.T13.Castro")
    if (application, technology) == (
        "Castro",
        "disaggregation penalty",
    ) and castro.verdict == "contradiction":
        assert number is not None
        return Cell(
            application,
            technology,
            text,
            number.value,
            number.low,
            number.high,
            *about,
            castro.verdict,
            castro.note,
        )
    note = note.format_map(words)
    if row.startswith("R.AGO.") and source is not None and source.verdict == "contradiction":
        least = simulators.forced_penalty(application).low
        return Cell(
            application, technology, text, least, least, math.inf, *about, source.verdict, note
        )
    if number is None:
        return Cell(application, technology, text, None, None, None, *about, "n/r", note)
    verdict = _in_range(text, number) if "–" in text else judged("", text, number).verdict
    verdict = (
        "reproduced*"
        if source is not None and source.verdict.endswith("*") and verdict == "reproduced"
        else verdict
    )
    return Cell(
        application, technology, text, number.value, number.low, number.high, *about, verdict, note
    )


def _in_range(text: str, number: Interval) -> Verdict:
    least, most = text.split("–")
    return "reproduced*" if printed(f"{float(least)}").low <= number.value <= float(most) else "off"


class _Words(dict[str, Any]):
    """Numbers that the words of a cell name, each computed where it is named."""

    def __missing__(self, name: str) -> Any:
        return _WORDS[name](self["application"])


def _with_launches(_: str) -> float:
    """Return the gain of GTC-P where launches get faster as well."""
    places = (("time", "data"), ("control function, time", "cudaLaunchKernel"), ("time", "total"))
    data, launch, total = (tables.PAPER.number("GTC-P", *place).value for place in places)
    return float(fraction_benefit((data + launch) / total, tables.tenfold()))


def _implied(app: str) -> str:
    """Return the benefit that a penalty of SSI implies, if its run time is affine in the delay."""
    link = simulators.table_link(app) if app != "Laghos" else "both"
    penalty = simulators.PAPER.number(app, "penalty", link)
    benefit = swept(lambda p, k: float(most_benefit(p, 0, 1, k)), penalty, simulators.stretch())
    return f"{benefit.low:.3f} to {benefit.high:.3f}"


def _allowed(app: str) -> float:
    """Return the largest gain from 100 to 10 us that is compatible with a penalty of AgoChart at 1
    ms.
    """
    penalty = tables.PAPER.number(app, "disaggregation penalty", "Table 13")
    return float(most_benefit(penalty.high, *simulators.latencies()))


#: Numbers of cells that no row of `reproduce` has.
_NUMBERS: Final[dict[tuple[str, Technology], Callable[[], Interval]]] = {
    ("GTC-P", "CPU-GPU integration"): lambda: swept(
        lambda *t: tables.gtcp(*t).benefit({"data": tables.tenfold()}), *tables.gtcp_terms()
    ),
    ("SpTRSV", "CPU cores a GPU"): lambda: exact(
        sum(
            tables.PAPER.number("SpTRSV", f"{part} a GPU").value
            for part in ("MPI processes", "proxy threads")
        )
    ),
    ("ORNLapp", "unified memory"): lambda: swept(lambda r: 1 / r, _of("R.CXL.rel")),
}
#: Numbers that the words of cells name, by application.
_WORDS: Final[dict[str, Callable[[str], object]]] = {
    "all_shares": lambda app: float(
        fraction_benefit(tables.amrex_share(app, "Table 11").value, tables.tenfold())
    ),
    "over_total": lambda _: _of("R.T3.int").value,
    "with_launches": _with_launches,
    "puts": lambda _: _of("R.5.4.int").value,
    "implied": _implied,
    "allowed": _allowed,
    "three_cores": lambda _: _row("R.T6.eff3").recomputed,
    "stretch": lambda _: "{0.low:g} to {0.high:.1f}".format(simulators.stretch()),
    "farthest": lambda app: 1e6 * simulators.farthest_for(app),
    "node": lambda _: tables.node_ratio(),
}


# --- what section 11 says -------------------------------------------------------------------------


@dataclass(frozen=True)
class Statement:
    """One sentence of section 11 as a number: as the report states it, from the printed cells, and
    from the recomputed ones.
    """

    what: str
    said: str
    printed_cells: float
    #: number from the recomputed cells; printed cells where none can be recomputed, bounds at their
    #: least
    recomputed_cells: float
    #: number from the recomputed cells, with the printed cell where only a bound can be computed
    bounds_as_printed: float
    low: float
    high: float
    note: str


_Function = Callable[[Sequence[float]], float]
_COMPARED: Final = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


def _function(words: str) -> _Function:
    """Return the function of a column's cells that a line of ``section_11.csv`` names.

    >>> [_function(words)([1.0, 2.0, 4.0]) for words in ("median", "gain", "count > 1.25")]
    [2.0, 100.0, 2.0]
    """
    if words in ("median", "gain"):
        return (
            statistics.median
            if words == "median"
            else lambda values: 100 * (statistics.median(values) - 1)
        )
    kind, compare, limit = words.split()

    def counted(values: Sequence[float]) -> float:
        count = sum(_COMPARED[compare](round(v, 9), float(limit)) for v in values)
        return 100 * count / len(values) if kind == "share" else float(count)

    return counted


def statements() -> list[Statement]:
    """Return the nine numbers of section 11, printed and recomputed.

    Each is monotone in each cell, so the ends of its interval follow from all cells at their low or
    high ends.
    """
    out = []
    for line in table_rows("papers/ecp/section_11.csv"):
        cells, function = (
            [c for c in table_13() if c.technology == line["technology"]],
            _function(line["function"]),
        )
        intervals = [c.number for c in cells]
        low, high = sorted(
            function(values) for values in ([k.low for k in intervals], [k.high for k in intervals])
        )
        as_printed, recomputed = (
            function([float(c.printed) for c in cells]),
            function([k.value for k in intervals]),
        )
        without = function(
            [
                float(c.printed) if c.is_bound else k.value
                for c, k in zip(cells, intervals, strict=True)
            ]
        )
        text = tables.PAPER.text("report", line["quantity"], line["at"] or None)
        out.append(
            Statement(line["what"], text, as_printed, recomputed, without, low, high, line["note"])
        )
    return out
