"""A suite as a workbook (XLSX) whose sums are formulas: who changes node-hours, prices or powers in
it sees what follows.

Run times are values, as `project` answers them, and so are ranges: those need draws.  The formulas
are those of `mix`; the workbook keeps the results that Turnbuckle has beside them, so that viewers
without formulas show the same numbers.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from turnbuckle.foundation.errors import needs
from turnbuckle.foundation.files import goal, whole
from turnbuckle.projection.uncertainty import LEVEL
from turnbuckle.questions.suite.answer import SELF, Mix, Suite
from turnbuckle.show.text import clean

if TYPE_CHECKING:
    from xlsxwriter import Workbook
    from xlsxwriter.worksheet import Worksheet

#: Where SSI is defined.
SSI_SOURCE: Final = (
    "https://www.nersc.gov/research-and-development/benchmarking-and-workload-characterization/ssi/"
)
#: First row of the applications on their sheet, from 0.
_TOP: Final = 4
_SHEET: Final = "Applications"
_TITLES: Final = 3
#: Stands for a number that the answer does not have.
_UNKNOWN: Final = "cannot say"


def write(suite: Suite, path: str | Path) -> Path:
    """Write the workbook, and return its path.

    Raises
    ------
    UsageError : A450, XlsxWriter is not installed.  ReportError : R001 to R004.
    """
    with needs("sheet"):
        from xlsxwriter import Workbook  # an extra of its own
    place = goal(path, "the workbook", "suite.xlsx")
    with whole(place, "the workbook") as beside:
        # names of recordings and machines are never links or formulas
        book = Workbook(
            str(beside),
            {"strings_to_urls": False, "strings_to_formulas": False, "strings_to_numbers": False},
        )
        _Written(book, suite).all()
        book.close()
    return place


class _Written:
    """The sheets of one suite."""

    def __init__(self, book: Workbook, suite: Suite) -> None:
        self.book, self.suite = book, suite
        self.first, self.last = _TOP + 1, _TOP + len(suite.applications)
        style = book.add_format
        self.bold, self.note = (
            style({"bold": True, "text_wrap": True, "valign": "top"}),
            style({"italic": True, "font_color": "#5b6774"}),
        )
        self.given = style({"bg_color": "#fff6da", "num_format": "#,##0.####"})
        self.ratio, self.share = style({"num_format": "0.000"}), style({"num_format": "0.0%"})
        self.money, self.wrapped = (
            style({"num_format": "#,##0.000"}),
            style({"text_wrap": True, "valign": "top"}),
        )
        self.targets = [m for m in suite.mixes if m.target != SELF]

    def all(self) -> None:
        """Write every sheet; the answer comes first."""
        sheets = [
            self.book.add_worksheet(name)
            for name in ("Mix", _SHEET, "Ranges", "Turns", "Recorded", "Sources")
        ]
        self._mix(sheets[0])
        self._applications(sheets[1])
        self._ranges(sheets[2])
        self._turns(sheets[3])
        self._recorded(sheets[4])
        self._sources(sheets[5])

    def _head(self, sheet: Worksheet, title: str, note: str, names: list[str]) -> None:
        sheet.write_string(0, 0, title, self.bold)
        sheet.write_string(1, 0, note, self.note)
        for k, name in enumerate(names):
            sheet.write_string(_TOP - 1, k, name, self.bold)
        sheet.freeze_panes(_TOP, 1)
        sheet.set_column(0, 0, 30)
        sheet.set_column(1, len(names), 15)

    def _column(self, k: int) -> str:
        """Return the range of a column of the applications, by its number."""
        from xlsxwriter.utility import xl_col_to_name  # the same extra

        name = xl_col_to_name(k)
        return f"{_SHEET}!${name}${self.first}:${name}${self.last}"

    def _applications(self, sheet: Worksheet) -> None:
        targets = [clean(m.target) for m in self.targets]
        names = [
            "application",
            "group",
            "node-hours",
            "share",
            "capability c",
            "recorded [s]",
            *targets,
        ]
        names += [f"{name}, coupling" for name in targets]
        note = "Run time over recorded run time. Yellow cells are yours to change."
        self._head(sheet, "Applications by targets", note, names)
        for k, a in enumerate(self.suite.applications):
            row = _TOP + k
            sheet.write_string(row, 0, clean(a.name))
            sheet.write_string(row, 1, clean(a.group))
            sheet.write_number(row, 2, a.weight, self.given)
            sheet.write_formula(
                row, 3, f"=C{row + 1}/SUM($C${self.first}:$C${self.last})", self.share, a.share
            )
            sheet.write_number(row, 4, a.capability, self.given)
            sheet.write_number(row, 5, a.measured_seconds, self.money)
            for n, cell in enumerate(a.cells):
                self._number(sheet, row, 6 + n, cell.penalty.value)
                self._number(sheet, row, 6 + len(targets) + n, cell.coupling_alone.value)

    def _mix(self, sheet: Worksheet) -> None:
        currency = clean(self.suite.portfolio.currency, 12)
        names = [
            "machine",
            "node-hours",
            "by coupling",
            "throughput",
            "nodes N",
            "SSI raw",
            "SSI by rule",
        ]
        names += [
            f"price [{currency} a node-hour]",
            f"cost [{currency}]",
            "power [W a node]",
            "energy [kWh]",
        ]
        names += ["may cost more than today by", "by coupling"]
        note = (
            "For each node-hour of today. Sums follow the yellow cells here and on the sheet "
            "Applications; ranges do not."
        )
        self._head(sheet, clean(self.suite.name) or "The mix on each machine", note, names)
        nodes = {o.name: o.nodes for o in self.suite.portfolio.offers}
        offers = [
            nodes.get(SELF),
            *(o.nodes for o in self.suite.portfolio.offers if o.name != SELF),
        ]
        for k, m in enumerate(self.suite.mixes):
            self._machine(sheet, k, m, offers[k])

    def _machine(self, sheet: Worksheet, k: int, m: Mix, nodes: float | None) -> None:
        row, r, top = _TOP + k, _TOP + k + 1, _TOP + 1
        shares, count = self._column(3), len(self.targets)
        whole, alone = (
            (self._column(6 + k - 1 + offset) for offset in (0, count)) if k else ("", "")
        )
        sheet.write_string(row, 0, clean(m.title), self.wrapped)
        if k:
            if m.unknown:
                sheet.write_string(row, 1, f"{_UNKNOWN}: {clean(m.unknown)}", self.wrapped)
            else:
                sheet.write_formula(
                    row, 1, f"=SUMPRODUCT({shares},{whole})", self.ratio, m.node_hours.value
                )
            sheet.write_formula(
                row, 2, f"=SUMPRODUCT({shares},{alone})", self.ratio, m.coupling_alone.value
            )
        else:
            sheet.write_number(row, 1, 1.0, self.ratio)
            sheet.write_number(row, 2, 1.0, self.ratio)
        self._input(sheet, row, 4, nodes)
        if m.unknown:
            return
        sheet.write_formula(row, 3, f"=1/B{r}", self.ratio, m.throughput.value)
        if m.ssi is not None:
            utilisation = f"IF(AND(ISNUMBER(E{r}),ISNUMBER($E${top})),E{r}/$E${top},1)"
            sheet.write_formula(
                row,
                5,
                f"=EXP(SUMPRODUCT({shares},LN({self._column(4)}/{whole})))*{utilisation}",
                self.ratio,
                m.ssi.raw.value,
            )
            rule: float | str = "" if m.ssi.conformant is None else m.ssi.conformant
            sheet.write_formula(row, 6, f'=IF(MAX({whole})>1,"",F{r})', self.ratio, rule)
        self._input(sheet, row, 7, m.price.value if m.price else None)
        sheet.write_formula(
            row, 8, f'=IF(ISNUMBER(H{r}),H{r}*B{r},"")', self.money, m.cost.value if m.cost else ""
        )
        self._input(sheet, row, 9, m.power.value if m.power else None)
        energy: float | str = m.energy.value / 3.6e6 if m.energy else ""
        sheet.write_formula(row, 10, f'=IF(ISNUMBER(J{r}),J{r}*B{r}/1000,"")', self.money, energy)
        if k:
            v = self.suite.pair(m.target, SELF)
            sheet.write_formula(row, 11, f"=$B${top}/B{r}-1", self.share, v.premium.value)
            sheet.write_formula(
                row, 12, f"=$C${top}/C{r}-1", self.share, v.premium_by_coupling.value
            )

    def _number(self, sheet: Worksheet, row: int, column: int, value: float) -> None:
        """Write a ratio, or that none can be given."""
        if math.isnan(value):
            sheet.write_string(row, column, _UNKNOWN)
        else:
            sheet.write_number(row, column, value, self.ratio)

    def _input(self, sheet: Worksheet, row: int, column: int, value: float | None) -> None:
        """Write a cell that the reader may fill in."""
        if value is None:
            sheet.write_blank(row, column, None, self.given)
        else:
            sheet.write_number(row, column, value, self.given)

    def _ranges(self, sheet: Worksheet) -> None:
        names = [
            "application or mix",
            "target",
            "run time over recorded",
            "low",
            "high",
            "by coupling",
            "low",
            "high",
            "verdict",
            "verdict of the coupling",
        ]
        self._head(
            sheet,
            f"{LEVEL:.0%} ranges, as answered",
            (
                "Of common draws; they do not follow a change. By coupling: GPU and host stay "
                "those of the recording."
            ),
            names,
        )
        every: list[tuple[str, Any, Any, tuple[str, ...]]] = []
        for a in self.suite.applications:
            every += [
                (a.name, c, (c.penalty, c.coupling_alone), (c.verdict, c.coupling_verdict))
                for c in a.cells
            ]
        for name, mixes in [
            *((f"group {g.name}", g.mixes) for g in self.suite.groups),
            ("the mix", self.suite.mixes),
        ]:
            every += [
                (name, m, (m.node_hours, m.coupling_alone), ()) for m in mixes if m.target != SELF
            ]
        for k, (name, of, ratios, verdicts) in enumerate(every):
            row = _TOP + k
            sheet.write_string(row, 0, clean(name))
            sheet.write_string(row, 1, clean(of.target))
            for n, value in enumerate(v for r in ratios for v in (r.value, r.low, r.high)):
                self._number(sheet, row, 2 + n, value)
            for n, verdict in enumerate(verdicts):
                sheet.write_string(row, 8 + n, verdict)

    def _turns(self, sheet: Worksheet) -> None:
        names = [
            "ranked by",
            "first",
            "against",
            "application",
            "share today",
            "turns at",
            "low",
            "high",
            "likely",
        ]
        note = (
            "Share at which both machines come to the same; its 90 % range over the draws in "
            "which some share does; how many those are."
        )
        self._head(sheet, "What turns the ranking, as answered", note, names)
        for k, f in enumerate(self.suite.flips):
            for n, text in enumerate((f.by, f.better, f.worse, f.application)):
                sheet.write_string(_TOP + k, n, clean(text))
            for n, value in enumerate((f.share, f.flips_at, f.low, f.high, f.turns), start=4):
                if value is not None:
                    sheet.write_number(_TOP + k, n, value, self.share)

    def _recorded(self, sheet: Worksheet) -> None:
        names = [
            "application",
            "kernels [s]",
            "copies [s]",
            "share of copies",
            "copies",
            "below 1 MiB",
            "below 16 MiB",
            "below 256 MiB",
        ]
        names += ["below 4096 MiB", "larger", "size not recorded", "mean size [B]"]
        note = (
            "Sums of durations; copies between host and device; each column of sizes is without "
            "those before it."
        )
        self._head(sheet, "Kernels and copies, as recorded", note, names)
        for k, a in enumerate(self.suite.applications):
            r, row = a.recorded, _TOP + k
            sheet.write_string(row, 0, clean(a.name))
            for n, seconds in enumerate((r.kernel_seconds, r.copy_seconds), start=1):
                sheet.write_number(row, n, seconds, self.money)
            both = f"(B{row + 1}+C{row + 1})"
            sheet.write_formula(
                row, 3, f"=IF({both}>0,C{row + 1}/{both},0)", self.share, r.copy_share
            )
            for n, value in enumerate((r.copies, *r.sizes.table_iii, r.sizes.unsized), start=4):
                sheet.write_number(row, n, value)
            if r.sizes.mean_bytes is not None:
                sheet.write_number(row, 11, round(r.sizes.mean_bytes))

    def _sources(self, sheet: Worksheet) -> None:
        self._head(
            sheet,
            "Sources",
            "Where every number comes from.",
            ["what", "which", "SHA-256, or where"],
        )
        about = self.suite.as_dict()["provenance"]
        rows = [("Turnbuckle", about["version"], about["command"])]
        for a, profile in zip(self.suite.applications, about["profiles"], strict=True):
            rows.append(
                (
                    f"recording of {a.name}",
                    str(profile.get("file") or ""),
                    str(profile.get("sha256") or ""),
                )
            )
            rows.append((f"machine of {a.name}", a.machine, ""))
        rows += [
            ("machine file", str(m["name"]), str(m.get("sha256") or "")) for m in about["targets"]
        ]
        rows += [
            (
                "draws, seed",
                f"{about['draws']}, {about['seed']}",
                "common to all applications and targets",
            ),
            (
                "prices, powers, nodes, node-hours",
                "as the reader of this workbook or the portfolio gives them",
                "",
            ),
            ("SSI", "weighted geometric mean of c U S; by rule every S is 1 or more", SSI_SOURCE),
            (
                "throughput",
                "1 / sum of share x run time over recorded: weighted harmonic mean of the speedups",
                "",
            ),
        ]
        for k, row in enumerate(rows):
            for n, text in enumerate(row):
                sheet.write_string(_TOP + k, n, clean(text), self.wrapped)
        sheet.set_column(1, 2, 70)
