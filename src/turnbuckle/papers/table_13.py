"""Table 13 of the ECP report with recomputed numbers: by application and technology, with interval, link, method and verdict.

The report sums up six technologies on sixteen applications (Austin et al. 2021, section 11).  Each of its 57 numbers is compared with
the value that the product's own functions compute from numbers that the report prints elsewhere.  Where the inputs are not printed,
the cell names the missing ones.  Intervals follow from the rounding of the inputs, because the report prints no errors.

    table_13() -> list[Cell]            the cells, by technology
    statements() -> list[Statement]     what section 11 says of them, from the printed and from the recomputed cells
"""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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
    "CPU-GPU integration", "CPU cores a GPU", "disaggregation penalty", "GPU-GPU integration", "unified memory", "FPGA-GPU integration"
]
_OF_CPU: Final[tuple[Technology, ...]] = ("CPU-GPU integration", "CPU cores a GPU", "disaggregation penalty")
TECHNOLOGIES: Final[tuple[Technology, ...]] = (*_OF_CPU, "GPU-GPU integration", "unified memory", "FPGA-GPU integration")
AMREX, GW = ("PeleC", "MFiX", "Castro", "WarpX"), ("Epsilon", "Sigma")

_CORI = "PCIe 3 x16 to a V100 (Cori-GPU)"
_SHMEM = "NVSHMEM puts (Summit)"
_AGO = "host to GPU, 16 GB/s"
_DRAWN = "the curve is only drawn, in {figure}"
_SOLVE = "the bandwidth of puts is only drawn, in Fig 18a, and the matrices are not published"
_TRACES = "the traces of its requests are not published"


@dataclass(frozen=True)
class Cell(Declared):
    """One number of Table 13, printed and recomputed."""

    application: str
    technology: Technology
    printed: str
    recomputed: float | None
    #: low, high: least and most within the rounding of the inputs; `high` is infinite for a lower bound
    low: float | None
    high: float | None
    link: str
    change: str
    method: str
    verdict: Verdict
    note: str = ""

    @property
    def number(self) -> Interval:
        """Return the recomputed number, or else the printed one, with its interval; whole cores are exact."""
        if self.recomputed is None or self.low is None or self.high is None:
            return exact(float(self.printed)) if self.technology == "CPU cores a GPU" and self.printed.isdigit() else printed(self.printed)
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
    """Return the report's rows of ``turnbuckle reproduce`` by their ids.  Recomputing them takes a fifth of a second."""
    return {row.id: row.now for row in reproduce(("ecp",)) if row.now is not None}


def _row(id: str) -> Recomputed:
    return _rows()[id]


def _of(id: str) -> Interval:
    row = _row(id)
    assert isinstance(row.recomputed, float) and row.low is not None and row.high is not None, id
    return Interval(row.recomputed, row.low, row.high)


@dataclass(frozen=True)
class _Column:
    """Properties that all cells of a column share."""

    technology: Technology
    link: str
    change: str
    method: str

    def cell(self, app: str, interval: Interval | None, note: str = "", *, assumed: bool = False, **about: Any) -> Cell:
        """Return a cell; None is a number whose inputs are missing; `about` gives a cell a link, change or method of its own."""
        column, text = replace(self, **about), tables.PAPER.text(app, self.technology, "Table 13")
        where = (column.link, column.change, column.method)
        if interval is None:
            return Cell(app, self.technology, text, None, None, None, *where, "n/r", note)
        verdict = judged("", text, interval).verdict
        verdict = "reproduced*" if assumed and verdict == "reproduced" else verdict
        return Cell(app, self.technology, text, interval.value, interval.low, interval.high, *where, verdict, note)

    def missing(self, app: str, note: str, **about: Any) -> Cell:
        return self.cell(app, None, note, **about)


def table_13() -> list[Cell]:
    """Return all 57 cells, by technology and then in the order of the report's rows.

    >>> next(c for c in table_13() if (c.application, c.technology) == ("WarpX", "CPU-GPU integration")).verdict
    'trunc'
    """
    return list(_cells())


@cache
def _cells() -> tuple[Cell, ...]:
    order = list(dict.fromkeys(s.subject for s in tables.PAPER.all if s.place == "Table 13"))
    cells = [*_closer(), *_cores(), *_apart(), *_gpus(), *_memory(), *_chain()]
    return tuple(sorted(cells, key=lambda c: (TECHNOLOGIES.index(c.technology), order.index(c.application))))


def _closer() -> Iterator[Cell]:
    """Yield the cells of CPU-GPU integration: run time now over run time with the better link."""
    ten = tables.tenfold()
    column = _Column("CPU-GPU integration", _CORI, "latency a tenth, bandwidth tenfold", "shares of run time (Table 2), eq 4")
    for app in AMREX:
        alone = {"PeleC": "bandwidth tenfold", "Castro": column.change}.get(app, "latency of launches a tenth")
        whole = float(fraction_benefit(tables.amrex_share(app, "Table 11").value, ten))
        note = f"{whole:.2f} with all three shares of Table 11, which its penalty uses"
        yield column.cell(app, _of(f"R.T2.{app}"), change=alone, assumed=_row(f"R.T2.{app}").verdict.endswith("*"), note=note)
    for app, id in (("Epsilon", "R.T3.int2"), ("Sigma", "R.T4.int")):
        over_total = _of("R.T3.int").value
        note = f"over the sum of its terms; the printed total gives {over_total:.2f}"
        note = note if app == "Epsilon" else "launches, allocations and waits alike"
        yield column.cell(app, _of(id), method="five terms (Tables 3 and 4), eq 4", note=note)
    bandwidth = swept(lambda *t: tables.gtcp(*t).benefit({"data": ten}), *tables.gtcp_terms())
    data, launch = (tables.PAPER.number("GTC-P", *place) for place in (("time", "data"), ("control function, time", "cudaLaunchKernel")))
    both = float(fraction_benefit((data.value + launch.value) / tables.PAPER.number("GTC-P", "time", "total").value, ten))
    note = f"{both:.3f} with launches as well; all other control time is waiting"
    yield column.cell("GTC-P", bandwidth, change="bandwidth tenfold", method="terms of Table 5 without waits, eq 4", note=note)
    put = _of("R.5.4.int").value
    yield column.missing("SpTRSV", _SOLVE, link=_SHMEM, change=f"puts between nodes {put:.1f} times faster", method="critical path")
    for app in simulators.SSI:
        link = simulators.table_link(app) if app != "Laghos" else "both"
        low, high = _implied_benefit(app, link)
        note = f"simulated, with inputs that are not printed; its penalty implies {low:.3f} to {high:.3f}"
        yield column.missing(app, note, link=_ssi(link), change="no propagation delay at all", method="SSI")
    for app in simulators.AGOCHART:
        note = f"{_TRACES}; its penalty, if it were at 1 ms, would allow {_allowed(app):.2f} at most"
        yield column.missing(app, note, link=_AGO, change="latency 100 to 10 us", method="AgoChart")


def _ssi(link: str) -> str:
    return {"NVLink2": "NVLink 2, 1 cm", "PCIe4": "PCIe 4, 2 cm", "both": "NVLink 2 and PCIe 4 alike"}[link]


def _implied_benefit(app: str, link: str) -> tuple[float, float]:
    """Return the benefit that a penalty of SSI implies, if its run time is affine in the delay."""
    penalty = simulators.PAPER.number(app, "penalty", link)
    benefit = swept(lambda p, k: float(most_benefit(p, 0, 1, k)), penalty, simulators.stretch())
    return benefit.low, benefit.high


def _allowed(app: str) -> float:
    """Return the largest gain from 100 to 10 us that is compatible with a penalty of AgoChart at 1 ms."""
    penalty = tables.PAPER.number(app, "disaggregation penalty", "Table 13")
    return float(most_benefit(penalty.high, *simulators.latencies()))


def _cores() -> Iterator[Cell]:
    column = _Column("CPU cores a GPU", "none: cores beside a V100", "none", "runs over ranks or threads")
    for app in AMREX:
        yield column.missing(app, _DRAWN.format(figure="Fig 28" if app == "Castro" else "Fig 29"), method="ranks until it stops paying")
    for app in GW:
        yield column.missing(app, "the fitted parameters are only drawn, in Fig 31a", method="eqs 5 and 6, 90 % of the limit")
    share = _row("R.T6.eff3").recomputed
    note = f"3 cores reach {share}: the first whole number above 90 % is 4 (D3)"
    yield column.cell("GTC-P", _of("R.T6.Total"), method="exponential (Table 6), 90 % of the limit", note=note)
    parts = [tables.PAPER.number("SpTRSV", f"{what} a GPU").value for what in ("MPI processes", "proxy threads")]
    yield column.cell(
        "SpTRSV", exact(sum(parts)), method="counted", note="one process and its proxy thread: a demand of the library, not a fit"
    )
    figures = {"SW4Lite": "Fig 39", "MiniVite": "Fig 43", "QuickSilver": "Fig 47", "Laghos": "Fig 48"}
    for app, figure in figures.items():
        yield column.missing(app, _DRAWN.format(figure=figure), method="ranks that share a GPU, the fastest")


def _apart() -> Iterator[Cell]:
    """Yield the cells of disaggregation: run time with the worse link over run time now."""
    column = _Column("disaggregation penalty", _CORI, "latency tenfold, bandwidth a tenth", "shares of run time (Table 11), eq 4")
    for app in AMREX:
        cell, castro = column.cell(app, _of(f"R.T11.{app}"), note=_row(f"R.T11.{app}").note), _row("R.T13.Castro")
        disagrees = app == "Castro" and castro.verdict == "contradiction"
        yield replace(cell, verdict=castro.verdict, note=castro.note) if disagrees else cell
    for app, id in (("Epsilon", "R.T3.dis2"), ("Sigma", "R.T4.dis")):
        yield column.cell(app, _of(id), method="five terms (Tables 3 and 4), eq 4", note=_row(id).note)
    note = _row("R.T13.GTCP").note
    yield column.cell("GTC-P", _of("R.T13.GTCP"), change="bandwidth a tenth", method="terms of Table 5 without waits, eq 4", note=note)
    yield column.missing("SpTRSV", _SOLVE, link=_SHMEM, change="puts on the node a quarter of the bandwidth", method="critical path")
    stretch = simulators.stretch()
    for app in simulators.SSI:
        link = simulators.table_link(app) if app != "Laghos" else "both"
        penalty = simulators.implied_penalty(simulators.PAPER.number(app, "benefit", link))
        change = f"propagation delay {stretch.low:g} to {stretch.high:.1f} times"
        note = "follows from its gain if run time is affine in the delay: one number, not two"
        yield column.cell(app, penalty, assumed=True, link=_ssi(link), change=change, method="affine law for SSI", note=note)
    column = _Column("disaggregation penalty", _AGO, "not printed; latency tenfold by section 7", "least penalty that the gain forces")
    for app in simulators.AGOCHART:
        if _row(f"R.AGO.{app}").verdict != "contradiction":
            yield column.missing(app, f"its gain of 1.00 forces nothing; {_TRACES}")
            continue
        least, text = simulators.forced_penalty(app).low, tables.PAPER.text(app, column.technology, "Table 13")
        note = f"what its gain forces at 1 ms; {text} could hold up to {1e6 * simulators.farthest_for(app):.0f} us"
        cell = column.missing(app, note)
        yield replace(cell, recomputed=least, low=least, high=math.inf, verdict=_row(f"R.AGO.{app}").verdict)
    path = "FPGA to GPU through the host, PCIe 3 x16 each"
    yield column.missing("ORNLapp", "the total run time is not printed", link=path, change="none: measured as it is", method="eq 13")


def _gpus() -> Iterator[Cell]:
    """Yield the cells of GPU-GPU integration: run time now over run time with the better link."""
    column = _Column(
        "GPU-GPU integration",
        "two nodes of 8 V100: 24 GB/s shared",
        f"off-node messages {tables.node_ratio():.1f} times faster",
        "shares of messages (Table 12), D13",
    )
    for app, id in (("PeleC", "R.T12.PeleC"), ("MFiX", "R.T12.MFIX"), ("Castro", "R.T12.Castro"), ("WarpX", "R.T12.WarpX")):
        yield column.cell(app, _of(id), assumed=True, note=_row(id).note)
    links = "NVLink 2 between V100 of a node"
    yield column.cell(
        "Epsilon",
        _of("R.T13.eps"),
        link=links,
        change="twice the bandwidth, 16 GPUs on a node",
        method="stages of a tree",
        note="both steps together",
    )
    note = _row("R.T13.sig").note
    yield column.cell("Sigma", _of("R.T13.sig"), link=links, change="twice the bandwidth", method="shares of messages", note=note)
    yield column.missing("GTC-P", _row("R.8.3").note, link=links, change="four times the bandwidth", method="share of messages")
    yield column.missing("SpTRSV", _SOLVE, link=_SHMEM, change="twelve GPUs on one node, for two of six", method="critical path")
    for app in simulators.AGOCHART:
        note = f"{_TRACES}; shared links need a replay with contention"
        yield column.missing(app, note, link="one PCIe for three GPUs", change="latency 10 us; one larger GPU for three", method="AgoChart")


def _memory() -> Iterator[Cell]:
    column = _Column(
        "unified memory", "V100 to DDR4 of a POWER9, NVLink 2", "all data in DDR for all in HBM", "roofline with both kinds of access"
    )
    yield column.missing("QuickSilver", _row("R.9.1").note)
    least, most = (float(end) for end in tables.PAPER.text("ORNLapp", "unified memory", "Table 13").split("–"))
    ratio = swept(lambda r: 1 / r, _of("R.CXL.rel"))
    holds = printed(f"{least}").low <= ratio.value <= most
    place: tuple[str, Technology] = ("ORNLapp", "unified memory")
    text, ends = tables.PAPER.text(*place, "Table 13"), (ratio.value, ratio.low, ratio.high)
    note = "the lower end; both ends are the assumed efficiency of CXL, put in and got out again"
    change = "60 % of the bandwidth, 40 ns of latency"
    verdict: Verdict = "reproduced*" if holds else "off"
    yield Cell(place[0], place[1], text, *ends, "CXL on PCIe 3 x16", change, "eqs 9 and 11 at 16 MiB", verdict, note)


def _chain() -> Iterator[Cell]:
    column = _Column("FPGA-GPU integration", "FPGA to GPU over CXL", "transfers hidden in a pipeline", "eq 12 over eq 13")
    yield column.cell("ORNLapp", _of("R.10.x"), note=_row("R.10.x").note)


# --- what section 11 says ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Statement:
    """One sentence of section 11 as a number: as the report states it, from the printed cells, and from the recomputed ones."""

    what: str
    said: str
    printed_cells: float
    recomputed_cells: float  #: number from the recomputed cells; printed cells where none can be recomputed, bounds at their least
    bounds_as_printed: float  #: number from the recomputed cells, with the printed cell where only a bound can be computed
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
        return statistics.median if words == "median" else lambda values: 100 * (statistics.median(values) - 1)
    kind, compare, limit = words.split()

    def counted(values: Sequence[float]) -> float:
        count = sum(_COMPARED[compare](round(v, 9), float(limit)) for v in values)
        return 100 * count / len(values) if kind == "share" else float(count)

    return counted


def statements() -> list[Statement]:
    """Return the nine numbers of section 11, printed and recomputed.

    Each is monotone in each cell, so the ends of its interval follow from all cells at their low or high ends.
    """
    out = []
    for line in table_rows("papers/ecp/section_11.csv"):
        cells, function = [c for c in table_13() if c.technology == line["technology"]], _function(line["function"])
        intervals = [c.number for c in cells]
        low, high = sorted(function(values) for values in ([k.low for k in intervals], [k.high for k in intervals]))
        as_printed, recomputed = function([float(c.printed) for c in cells]), function([k.value for k in intervals])
        without = function([float(c.printed) if c.is_bound else k.value for c, k in zip(cells, intervals, strict=True)])
        text = tables.PAPER.text("report", line["quantity"], line["at"] or None)
        out.append(Statement(line["what"], text, as_printed, recomputed, without, low, high, line["note"]))
    return out
