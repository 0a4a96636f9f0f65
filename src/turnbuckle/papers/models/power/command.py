"""Command ``turnbuckle model power``: what GPUs of a given power compute in a later year."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from turnbuckle.foundation.errors import did_you_mean, error_of
from turnbuckle.foundation.units import parse, show
from turnbuckle.machine import load
from turnbuckle.show.terminal.cells import clean
from turnbuckle.show.terminal.console import Terminal
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import MachineName
from turnbuckle.show.terminal.tables import print_findings, titled

if TYPE_CHECKING:
    from turnbuckle.papers.models.power.question import PowerStudy
    from turnbuckle.papers.numbers import Interval


def power(
    parts: Annotated[
        Path | None,
        Parameter(
            help="CSV of parts: part, year, rate, power, source; those that ship if left out"
        ),
    ] = None,
    /,
    *,
    rate: Annotated[
        Literal["best", "vector"],
        Parameter(help="double precision of the best units there are, or of the vector units"),
    ] = "best",
    since: Annotated[
        float | None, Parameter(help="first year of launch of the parts of the trend")
    ] = None,
    until: Annotated[float | None, Parameter(help="last one")] = None,
    doubling: Annotated[
        float | None,
        Parameter(help="years in which the rate per watt doubles, in place of the fitted trend"),
    ] = None,
    base: Annotated[
        str | None, Parameter(help="part that --doubling starts from; A100-SXM4-40GB if left out")
    ] = None,
    on: Annotated[
        MachineName | None,
        Parameter(
            name="--on",
            help=(
                "a machine: the rate per watt of its GPU grows as the trend does, or as "
                "--doubling says"
            ),
        ),
    ] = None,
    year: Annotated[float, Parameter(help="of the design points")] = 2026,
    package: Annotated[
        str | None,
        Parameter(
            help=(
                "power of a part on the board, and of an APU with its CPU; 700 W, or that of the "
                "machine"
            )
        ),
    ] = None,
    card: Annotated[
        str | None, Parameter(help="power of a part on a card; 350 W, or half of the machine's")
    ] = None,
    share: Annotated[str, Parameter(help="of an APU's package for its GPU")] = "50 %",
    exponent: Annotated[
        float | None, Parameter(help="x of rate ~ power^x; from two boards of one chip if left out")
    ] = None,
) -> ModelAnswer:
    """Project what GPUs of a given power compute in a later year, from the trend of the rate per
    watt.
    """

    from turnbuckle.papers.models.power import question as study

    names = [p.name for p in study.shipped()]
    if base is not None and base not in names:
        raise error_of(
            "A048.part",
            where="--base",
            found=base[:40],
            fix=did_you_mean(base, names) or ", ".join(names),
        )
    of_fit = {"--since": since, "--until": until, "the table of parts": parts}
    idle = {"--base": base} if doubling is None else of_fit
    if base is not None and on is not None:
        raise error_of(
            "A048.option", unused="--base", against="with --on, which names the part to start from"
        )
    if unused := [name for name, value in idle.items() if value is not None]:
        against = (
            "without --doubling" if doubling is None else "with --doubling, which fits no trend"
        )
        raise error_of("A048.option", unused=unused[0], against=against)
    given = study.read_parts(parts) if parts is not None else study.shipped()
    start = None if on is None else study.part_of(load(on))
    watts = (700.0, 350.0) if start is None else (start.power, start.power / 2)
    split: dict[str, Any] = {"which": rate, "year": year}
    split |= {
        k: w if t is None else parse(t, "W")
        for k, t, w in zip(("package", "card_power"), (package, card), watts, strict=True)
    }
    split |= {"share": parse(share, "1"), "exponent": exponent}
    within = study.chosen(
        given, -math.inf if since is None else since, math.inf if until is None else until
    )
    paper = study.power_study(
        (),
        doubling_years=study.PAPER_DOUBLING,
        base=study.part_named(study.PAPER_BASE),
        **{**split, "which": "best"},
    )
    if doubling is not None:
        projection = study.power_study(
            (),
            doubling_years=doubling,
            base=start or study.part_named(base or study.PAPER_BASE),
            **split,
        )
    else:
        projection = study.power_study(within, base=start, **split)
    document = {**projection.as_dict(), "published": paper.as_dict()}
    by = "" if exponent is None else "given"
    view = partial(
        _print_power, projection=projection, paper=paper, exponent=by, started=start is not None
    )
    return ModelAnswer(document, [_point_row(p) for p in document["design_points"]], view)


def _point_row(point: dict[str, Any]) -> dict[str, Any]:
    ends = {
        f"flops_per_second_{end}": point["flops_per_second"][end]
        for end in ("low", "value", "high")
    }
    return {"name": point["name"], "power": point["power"], **ends}


def _print_power(
    console: Terminal, projection: PowerStudy, paper: PowerStudy, exponent: str, *, started: bool
) -> None:
    from turnbuckle.papers.models.power.question import FULL_POWER, HALF_POWER

    units = {"best": "best of vector and matrix units", "vector": "vector units"}
    which = (
        units[projection.which]
        if projection.parts and projection.parts[0].form
        else "as the table has it"
    )
    other = "the paper's" + ("" if which == units["best"] else f", {units['best']}")
    table = titled(
        console,
        f"peak double precision per watt, {which}",
        "trend",
        "doubles in",
        f"GFLOP/s/W in {projection.year:g}",
    )
    for words, trend in ((projection.basis, projection), (f"{other}: {paper.basis}", paper)):
        table.add_row(
            clean(words, 120),
            _estimate(trend.doubling_years, 1.0, " years", endless="never"),
            _estimate(trend.efficiency, 1e-9, ""),
        )
    console.print(table)
    console.print()
    table = titled(
        console,
        f"design points of {projection.year:g} [TFLOP/s]",
        "",
        "power",
        "this trend",
        "the paper's trend",
        "its Table I",
    )
    for point, paper_point in zip(projection.points, paper.points, strict=True):
        printed = projection.printed.get(point.name)
        cells = [
            _estimate(point.rate, 1e-12, ""),
            _estimate(paper_point.rate, 1e-12, ""),
            "" if printed is None else show(printed * 1e-12, "1"),
        ]
        table.add_row(point.name, show(point.power, "W"), *cells)
    console.print(table)
    by = exponent or f"of one chip: {HALF_POWER} and {FULL_POWER}"
    console.note(f"less power: rate ~ power^{projection.exponent:.3f}, {by}")
    if projection.trend is not None:
        lie = "" if started else ", and for where one further part would lie"
        words = f"[ ]: 90 % for the years of a doubling{lie}, if the trend goes on"
        console.note(words)
        console.print()
        table = titled(
            console,
            "parts of the trend",
            "part",
            "year",
            "rate",
            "power",
            "GFLOP/s/W",
            "source",
            words=("source",),
        )
        for p in projection.parts:
            per_watt = f"{p.rate(projection.which) / p.power * 1e-9:.3g}"
            table.add_row(
                clean(p.name),
                f"{p.year:g}",
                show(p.rate(projection.which), "FLOP/s"),
                show(p.power, "W"),
                per_watt,
                clean(p.source, 200),
            )
        console.print(table)
        if any(p.form for p in projection.parts):
            console.note("boards that run a chip at less power than it has elsewhere are left out")
    print_findings(console, projection.findings)


def _estimate(estimate: Interval, factor: float, unit: str, endless: str = "no end") -> str:

    def shown(value: float) -> str:
        return endless if math.isinf(value) else show(value * factor, "1")

    words = shown(estimate.value) + ("" if math.isinf(estimate.value) else unit)
    return words + (
        "" if estimate.low == estimate.high else f" [{shown(estimate.low)}, {shown(estimate.high)}]"
    )
