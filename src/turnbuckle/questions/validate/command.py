"""``turnbuckle validate``: predictions against measurements, case by case, and the card that sums
them up.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from turnbuckle.foundation import units
from turnbuckle.foundation.errors import clipped, did_you_mean, error_of, require
from turnbuckle.questions.validate.card import FLOOR, MODEL_TITLES, TITLES, Group, shipped_kernels
from turnbuckle.questions.validate.measured.real_gpus import shipped_rows
from turnbuckle.show.figures.files import save
from turnbuckle.show.terminal.cells import clean
from turnbuckle.show.terminal.console import console_for
from turnbuckle.show.terminal.options import Charts, FormatOption, Output
from turnbuckle.show.terminal.output import write_answer
from turnbuckle.show.terminal.tables import unframed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from turnbuckle.questions.validate.question import Validation
    from turnbuckle.questions.validate.rows import Row

CaseNames = Annotated[
    str,
    Parameter(help="names or folders of cases, or folders of cases; all of --cases if left out"),
]
Cases = Annotated[Path, Parameter(name="--cases", help="folder of cases")]
DataFolder = Annotated[
    Path | None, Parameter(name="--data", help="folder that holds the recordings of the cases")
]
Card = Annotated[
    bool,
    Parameter(
        name="--card",
        help="the card that ships with this version, without running anything",
        negative=(),
    ),
]
FailIf = Annotated[
    str | None,
    Parameter(
        name="--fail-if",
        help=(
            'exit 1 if this is true: "coverage < 50%", "median > 30%", "worst > 200%", "not_run '
            '> 0"'
        ),
    ),
]
#: Cases that are explained beside their numbers, if there are no more.
_FEW = 3
#: Columns of a terminal in which an interval stands on one line.
_WIDE = 100
#: A table is no wider than this.
_MOST = 130
#: What a gate can look at: the largest of what the card holds decides, for the coverage all
#: intervals together.
GATES = ("coverage", "median", "worst", "not_run")


def validate(
    *cases: CaseNames,
    data: DataFolder = None,
    cases_folder: Cases = Path("validation/cases"),
    card: Card = False,
    fail_if: FailIf = None,
    charts: Charts = None,
    format: FormatOption = "table",
    output: Output = None,
) -> int:
    """Predict what was measured elsewhere, and say how far off that is: by case, and as a card by
    kind of question.

    It needs the extra scipy, for rank correlations; --card does not.
    """
    from turnbuckle.questions.validate.question import row_dict, shipped

    condition = _gate(fail_if) if fail_if else None
    if card and (cases or data is not None):
        raise error_of("A419", found="cases or a data folder with it")
    validation = shipped() if card else _run(cases, cases_folder, data)
    if charts is not None:
        from turnbuckle.questions.validate.figures import figures

        save(figures(validation), charts)
    if format != "table":
        write_answer(validation.as_dict(), [row_dict(r) for r in validation.rows], format, output)
    else:
        show(console_for(output), validation, card)
    if condition is not None:
        condition(validation)
    return 0


def _run(names: Sequence[str], root: Path, data: Path | None) -> Validation:
    from turnbuckle.questions.validate.cases import find
    from turnbuckle.questions.validate.question import validate as run

    require("scipy")
    if data is not None and not data.is_dir():
        raise error_of("A420", where=clipped(data.name))
    return run(find(names, root), data)


def _gate(text: str) -> Callable[[Validation], None]:
    """Parse ``QUANTITY < NUMBER%``."""
    from turnbuckle.show.terminal.gate import COMPARISONS

    match = re.fullmatch(r"\s*([a-z_]+)\s*(>=|<=|>|<)\s*([0-9]+(?:\.[0-9]+)?)\s*(?:(%)\s*)?", text)
    if match is None:
        raise error_of("A008.coverage", found=text)
    quantity, compare, number, percent = match.groups()
    if quantity not in GATES:
        raise error_of(
            "A008.quantity",
            found=text,
            fix=did_you_mean(quantity, GATES) or None,
            quantity=quantity,
            quantities=", ".join(GATES),
        )
    limit = float(number) / (100.0 if percent else 1.0)

    def hold(validation: Validation) -> None:
        values = _values(validation, quantity)
        if not values:
            raise error_of(
                "A191",
                found=f"{len(validation.rows)} quantities from {validation.cases} cases",
                quantity=quantity,
            )
        hit = [
            f"{name} {value:.3g}" for name, value in values if COMPARISONS[compare](value, limit)
        ]
        if hit:
            raise error_of("A201", found=", ".join(hit[:6]), text=text.strip())

    return hold


def _values(validation: Validation, quantity: str) -> list[tuple[str, float]]:
    if quantity == "not_run":
        return [("not run", float(sum(n.code != "A361" for n in validation.not_run)))]
    if quantity == "coverage":
        every = validation.coverage
        return [] if every is None or every.coverage is None else [("coverage", every.coverage)]
    groups = [
        (g, g.median if quantity == "median" else g.worst)
        for g in validation.card
        if g.kind != FLOOR
    ]
    return [(f"{TITLES[g.kind]} ({g.model})", value) for g, value in groups if value is not None]


# --- for people -----------------------------------------------------------------------------------


def show(console: Console, validation: Validation, card_alone: bool = False) -> None:
    """Print the rows by kind of question, the card, the cases not run, and what is not
    validated.
    """

    if not card_alone:
        for kind, title in TITLES.items():
            rows = [r for r in validation.rows if r.kind == kind]
            if rows:
                _print_rows(console, title, rows)
        if len(validation.abouts) <= _FEW:
            _print_abouts(console, validation)
    every = validation.coverage
    measured = len({r.case for r in validation.rows} - {"(all)"})
    head = (
        f"{len(validation.rows)} quantities of {measured} cases, {validation.day}, version "
        f"{validation.release}"
    )
    console.print(Text.assemble(("how good the predictions are", "bold"), f"  {head}"))
    if validation.rows:
        _print_card(console, validation.card)
    if every is not None and every.coverage is not None:
        console.print(
            f"{every.covered} of {every.stated} stated 90 % ranges contain the measured value: "
            f"{every.coverage:.0%} "
            f"(the 90 % range of that share: {every.low:.0%} to {every.high:.0%})"
        )
    console.print()
    if card_alone:
        _print_real(console)
        _print_kernels(console)
    if validation.not_run:
        console.print(Text("not run", "italic"))
        table = unframed("case", "code", "why", words=("case", "code", "why"))
        for n in validation.not_run:
            table.add_row(_plain(n.case), n.code, _plain(n.why))
        console.print(table)
        console.print()
    beyond = validation.not_validated if len(validation.abouts) > 1 else ()
    if beyond:
        console.print(Text("not validated", "italic"))
    for line in beyond:
        console.print(Text(f"- {line}"))
    for f in validation.findings:
        if f.code == "A363":
            console.print()
            console.print(Text(f"{f.code}  {f.meaning}: {f.detail}", "yellow"))


def _print_abouts(console: Console, validation: Validation) -> None:
    """Print what the cases are, if they are few; the manual describes them all."""
    for about in validation.abouts:
        console.print(Text.from_markup(_plain(about.title), style="bold"))
        facts = (
            ("from", about.a),
            ("answer", about.b),
            ("known before", about.known),
            ("why it is off", about.why),
        )
        for name, text in facts:
            if text:
                console.print(Text.from_markup(f"{name}: {clean(text, 1500)}"))
        console.print()


def _aligned(
    console: Console, first: str, columns: Sequence[tuple[str, int]], heading: bool
) -> Table:
    """Return a table as wide as the terminal whose number columns have fixed widths, so that
    several tables line up.
    """
    table = Table(
        box=None,
        pad_edge=False,
        header_style="dim",
        show_header=heading,
        expand=True,
        width=min(console.width, _MOST),
    )
    table.add_column(first, ratio=1, overflow="fold")
    for name, width in columns:
        table.add_column(name, justify="right", width=width, no_wrap=True)
    return table


def _print_rows(console: Console, title: str, rows: list[Row]) -> None:
    """Print a line for each quantity, under the name of its case."""

    wide = console.width >= _WIDE
    between = " .. " if wide else "\n.. "
    columns = (
        ("predicted", 9),
        ("90 % interval", 20 if wide else 13),
        ("measured", 9),
        ("off", 8),
        ("in it", 5),
        *([("n", 6)] if wide else []),
    )
    console.print(Text(title, "italic"))
    console.print(_aligned(console, "", columns, True))
    for case in dict.fromkeys(r.case for r in rows):
        console.print(Text.from_markup(_plain(case), style="bold"))
        table = _aligned(console, "", columns, False)
        for row in (r for r in rows if r.case == case):
            held = {True: "yes", False: "NO", None: ""}[row.covered]
            interval = (
                ""
                if row.low is None or row.high is None
                else f"{quantity(row.low, row.unit)}{between}{quantity(row.high, row.unit)}"
            )
            value = [
                quantity(row.predicted, row.unit),
                interval,
                quantity(row.measured, row.unit),
                _off(row),
                held,
            ]
            if row.tau is not None:
                value = [f"tau {row.tau:.2f}", f"p {row.p_value:.2g}", "", "", ""]
            name = (
                f"  {_plain(row.quantity)} [dim]by {MODEL_TITLES.get(row.model, row.model)}[/dim]"
            )
            table.add_row(name, *value, *([f"{row.count:,}"] if wide else []))
        console.print(table)
    console.print()


def _off(row: Row) -> str:
    """Format the error: WMAPE without a sign, a single error with one."""
    if row.wmape is not None:
        return f"{row.wmape:.1%}"
    return "" if row.error is None else f"{row.error:+.1%}"


def quantity(value: float | None, unit: str) -> str:
    """Format a value with its unit; counts and ratios have none."""
    if value is None:
        return ""
    return units.show(value, unit) if unit else f"{value:.4g}"


def _print_card(console: Console, card: list[Group]) -> None:
    """Print a line for each model, under its kind of question."""

    columns = (
        ("cases", 5),
        ("n", 3),
        ("median", 6),
        ("worst", 6),
        ("in 90 % range", 13),
        ("90 % of that", 12),
    )
    console.print(_aligned(console, "how far off, by", columns, True))
    for kind in dict.fromkeys(g.kind for g in card):
        console.print(Text(TITLES[kind], "bold"))
        table = _aligned(console, "", columns, False)
        for g in (g for g in card if g.kind == kind):
            held = (
                ("none stated", "")
                if g.low is None or g.high is None
                else (f"{g.covered} of {g.stated}", f"\\[{g.low:.0%}, {g.high:.0%}]")
            )
            if g.orders:
                tau, p_value, count = g.orders[0]
                held = (f"tau {tau:.2f}", f"p {p_value:.2g} of {count}")
            median, worst = (
                "" if v is None else f"{v:.1%}" if v < 1 else f"{v:.0%}"
                for v in (g.median, g.worst)
            )
            aside = (
                f" [dim]({g.right} of {g.directions} on the right side of 1)[/dim]"
                if g.directions
                else ""
            )
            table.add_row(
                f"  {MODEL_TITLES.get(g.model, g.model)}{aside}",
                f"{g.cases}",
                f"{g.count}",
                median,
                worst,
                *held,
            )
        console.print(table)


def _print_kernels(console: Console) -> None:
    """Print kernels of others on each GPU, left out of the fit."""
    columns = (
        ("off", 4),
        ("no change", 9),
        ("bandwidth", 9),
        ("in range", 8),
        ("range", 6),
    )
    title = "kernels of others on a GPU left out of the fit"
    console.print(_aligned(console, title, columns, True))
    table = _aligned(console, "", columns, False)
    for row in shipped_kernels():
        shares = (row.median, row.nothing, row.bandwidth, row.held)
        numbers = (f"{100 * share:.0f} %" for share in shares)
        table.add_row(f"{row.kind}, to {row.gpu}", *numbers, f"{row.width:.1f}x")
    console.print(table)
    console.print("validation/kernels/fit.py; pairs of FP32 operations of PyTorch over 0.2 ms")
    console.print()


def _print_real(console: Console) -> None:
    """Print what was held against real GPUs, rows that no file here repeats among it."""
    columns = (
        ("points", 7),
        ("off", 12),
        ("no change", 12),
        ("in range", 10),
    )
    console.print(_aligned(console, "held against real GPUs", columns, True))
    table = _aligned(console, "", columns, False)
    for row in shipped_rows():
        table.add_row(row.what, row.points, row.off, row.nothing, row.held)
    console.print(table)
    console.print("medians of what others measured; docs/accuracy.md says which command makes each")
    console.print()


def _plain(text: str) -> Any:
    """Return the text of a file without markup and without anything that steers a terminal."""
    return clean(text, 200)
