"""``turnbuckle suite``: a workload of several recordings on several machines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.text import Text

from turnbuckle.show.terminal.asked import Alpha, Draws, Host, On, PortOption, Replay, Seed, draws_of, model_of, replaying, targets
from turnbuckle.show.terminal.drawing import drawn
from turnbuckle.show.terminal.options import FormatOption, NoCache, Output, Recorded
from turnbuckle.show.terminal.output import emit
from turnbuckle.show.terminal.recording import command_line
from turnbuckle.show.terminal.tables import print_findings

if TYPE_CHECKING:
    from rich.console import Console

    from turnbuckle.questions.suite.answer import Suite

Workload = Annotated[
    list[Recorded], Parameter(help="a portfolio (TOML: recordings with node-hours, machines with prices), or recordings of equal weight")
]


def suite(
    workload: Workload,
    /,
    *,
    on: On = None,
    alpha: Alpha = "auto",
    host: Host = None,
    port: PortOption = None,
    replay: Replay = "auto",
    draws: Draws = None,
    seed: Seed = 20261121,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
) -> int:
    """Ask a workload of several recordings on several machines: who gains and who loses, the mix, cost, and what turns the ranking."""
    from turnbuckle.questions.suite.question import of_files

    model = replace(model_of(alpha, "nething", None, host=host, port=port), replay=replay)
    with replaying():
        answer = of_files(
            workload, targets(on) or (), model=model, draws=draws_of(draws), seed=seed, use_cache=not no_cache, command=command_line()
        )  # fmt: skip
    emit(answer, answer.table().to_dicts(), show, format, output)
    return 0


def show(console: Console, answer: Suite) -> None:
    """Print the best machine for the mix, then each table, and what is doubtful."""
    from turnbuckle.questions.suite.tables import of_suite

    console.print(Text(answer.headline(), "bold"))
    for table in of_suite(answer, short=True):
        console.print()
        console.print(drawn(table, most=12))
    print_findings(console, [replace(f, detail="") for f in answer.findings if f.severity == "warning"])
