"""``turnbuckle suite``: a workload of several recordings on several machines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter
from rich.text import Text

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.units import seconds_of
from turnbuckle.show.figures.files import save
from turnbuckle.show.terminal.asked import (
    Alpha,
    Draws,
    Host,
    KernelFile,
    Network,
    NetworkSet,
    On,
    PortOption,
    Replay,
    Seed,
    SourceNetwork,
    draws_of,
    model_of,
    network_of,
    replaying,
    targets,
)
from turnbuckle.show.terminal.drawing import drawn
from turnbuckle.show.terminal.options import (
    PART,
    Charts,
    FormatOption,
    Minus,
    NoCache,
    Output,
    Recorded,
)
from turnbuckle.show.terminal.output import emit
from turnbuckle.show.terminal.recording import command_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from turnbuckle.questions.suite.answer import Suite

#: Formats that are a file of their own, and its name where none is given.
_FILES: Final = {"html": "turnbuckle-suite.html", "xlsx": "turnbuckle-suite.xlsx"}
Workload = Annotated[
    list[Recorded],
    Parameter(
        help=(
            "a portfolio (TOML: recordings with node-hours, machines with prices), or recordings "
            "of equal weight"
        )
    ),
]
WorkloadPart = Annotated[
    str | None,
    Parameter(
        name="--part",
        group="Part of the recording",
        help=f"of each recording for which the portfolio names none. {PART}",
    ),
]

WorkloadRank = Annotated[
    int | None,
    Parameter(
        name="--rank",
        group="Part of the recording",
        help="only this rank of each recording for which the portfolio names none",
    ),
]
WorkloadCleanTime = Annotated[
    str | None,
    Parameter(
        name="--clean-time",
        group="Part of the recording",
        help=(
            "run time without profiler of the only recording for which the portfolio names none: "
            "it is shortened to it"
        ),
    ),
]


def suite(
    workload: Workload,
    /,
    *,
    on: On = None,
    alpha: Alpha = "auto",
    kernels: KernelFile = None,
    host: Host = None,
    port: PortOption = None,
    network: Network = None,
    network_set: NetworkSet = None,
    source_network: SourceNetwork = None,
    replay: Replay = "auto",
    draws: Draws = None,
    seed: Seed = 20261121,
    charts: Charts = None,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
    part: WorkloadPart = None,
    rank: WorkloadRank = None,
    clean_time: WorkloadCleanTime = None,
    minus: Minus = None,
) -> int:
    """Ask a workload of several recordings on several machines: who gains and who loses, the mix,
    cost, and what turns the ranking.
    """
    from turnbuckle.questions.suite.question import of_files
    from turnbuckle.questions.suite.tables import of_suite

    carried_by = network_of(network, network_set, source_network)
    if carried_by is not None and replay == "sum":
        raise error_of("A012.network-sum", option="--replay sum")
    model = replace(
        model_of(alpha, "nething", None, host=host, port=port, kernels=kernels), replay=replay
    )
    with replaying():
        answer = of_files(
            workload,
            targets(on) or (),
            model=model,
            draws=draws_of(draws),
            seed=seed,
            network=carried_by,
            part=part,
            rank=rank,
            clean_seconds=None
            if clean_time is None
            else seconds_of(clean_time, "--clean-time", "1.03s"),
            minus=minus,
            use_cache=not no_cache,
            command=command_line(),
        )
    if charts is not None:
        save(answer.figures(), charts)
    if format in _FILES:
        write: Callable[[Suite, Path], Path] = registry.load("services", f"suite {format}")
        print(write(answer, output or Path(_FILES[format])))
        return 0
    emit(answer, answer.table().to_dicts(), show, format, output, tables=lambda: of_suite(answer))
    return 0


def show(console: Console, answer: Suite) -> None:
    """Print the best machine for the mix, then each table, and what is doubtful."""
    from turnbuckle.questions.suite.tables import of_suite

    console.print(Text(answer.headline(), "bold"))
    for table in of_suite(answer, short=True):
        console.print()
        console.print(drawn(table))
    if answer.accuracy:
        console.print()
        console.print(Text(answer.accuracy, "dim"))
    counts: dict[str, tuple[str, int]] = {}
    for f in (f for a in answer.applications for f in a.findings if f.severity == "warning"):
        counts[f.code] = (f.meaning, counts.get(f.code, ("", 0))[1] + 1)
    if counts:
        console.print()
    for code, (meaning, count) in sorted(counts.items()):
        console.print(
            Text(f"{code}  {meaning} ({count} of {len(answer.applications)} recordings)", "yellow")
        )
