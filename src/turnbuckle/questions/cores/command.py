"""``turnbuckle cores``: how many CPU cores a GPU needs, from runs with more and fewer of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from turnbuckle.foundation import units
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.foundation.units import parse
from turnbuckle.show.figures.files import save
from turnbuckle.show.terminal.cells import clean, seconds
from turnbuckle.show.terminal.console import console_for
from turnbuckle.show.terminal.options import (
    NO_PART,
    Charts,
    FormatOption,
    NoCache,
    Output,
    PartOptions,
)
from turnbuckle.show.terminal.output import emit, provenance, write_json, write_rows
from turnbuckle.show.terminal.recording import inspected, refuse_asked
from turnbuckle.show.terminal.tables import print_findings, titled, unframed

if TYPE_CHECKING:
    from rich.console import Console

    from turnbuckle.projection.run import Run
    from turnbuckle.questions.cores.answer import Cores
    from turnbuckle.questions.cores.oversubscription import Curve
    from turnbuckle.questions.cores.replayed import Replayed
    from turnbuckle.questions.cores.runs import Runs

Given = Annotated[
    Path,
    Parameter(
        help=(
            "CSV table of runs (cores, or ranks and threads; gpus; run time [s]; mpi time, "
            "repeat, program), or a recording"
        )
    ),
]
More = Annotated[
    Path, Parameter(help="recordings of the same program with other core counts, or further tables")
]
Efficiency = Annotated[
    str,
    Parameter(
        name="--efficiency", help="share of the shortest run time that any number of cores allows"
    ),
]
Law = Annotated[
    Literal["auto", "hybrid", "exponential", "usl", "floor"],
    Parameter(
        name="--law",
        help=(
            "law of run time against cores; auto: the one with the lowest AICc, beside those "
            "that fit as well"
        ),
    ),
]
At = Annotated[
    str | None,
    Parameter(
        name="--at",
        help="cores per GPU of each recording, in order, as 4,8,16; else its number of ranks",
    ),
]
Worth = Annotated[
    str,
    Parameter(name="--worth", help="gain in performance from which one more rank on a GPU pays"),
]
Node = Annotated[
    str | None,
    Parameter(
        name="--node", help="CPU cores and GPUs of a node, as 64:4: print the efficiency it reaches"
    ),
]
Extrapolate = Annotated[
    bool,
    Parameter(
        name="--extrapolate",
        help="answer even beyond twice the most cores that were measured",
        negative=(),
    ),
]
HostSpeed = Annotated[
    float,
    Parameter(
        name="--host-speed",
        help="of one recording: speed of another CPU over that of the recorded one",
    ),
]
Draws = Annotated[int, Parameter(name="--draws", help="draws for the 90 % ranges, 100 to 100000")]
Seed = Annotated[int, Parameter(name="--seed", help="seed of the draws")]


def cores(
    runs: Given,
    /,
    *profiles: More,
    efficiency: Efficiency = "90%",
    law: Law = "auto",
    core_counts: At = None,
    worth: Worth = "5%",
    node: Node = None,
    extrapolate: Extrapolate = False,
    draws: Draws = 1000,
    seed: Seed = 20261121,
    host_speed: HostSpeed = 1.0,
    charts: Charts = None,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> int:
    """Say how many CPU cores a GPU needs for 90 % of what it can do, and how many ranks may share
    it, from runs that vary them.

    One recording with context switches is replayed with fewer cores.
    """
    from turnbuckle.questions.cores.question import cores_per_gpu

    share, gain = parse(efficiency, "1"), parse(worth, "1")
    if not profiles and core_counts is None and runs.suffix.lower() != ".csv":
        idle = {"--law": law != "auto", "--node": node is not None, "--extrapolate": extrapolate}
        return _of_one(
            inspected(runs, None, no_cache, part), share, host_speed, idle, charts, format, output
        )
    if host_speed != 1.0:
        raise error_of("A471.one")
    console = console_for(output) if format == "table" else None
    if not 0 <= seed < 2**63:
        raise error_of("A031.seed", found=str(seed))
    have = _per_gpu(node)
    given = _runs((runs, *profiles), core_counts, no_cache, part)
    answers = [
        cores_per_gpu(
            r,
            efficiency=share,
            law=law,
            worth=gain,
            extrapolate=extrapolate,
            have=have,
            draws=draws,
            seed=seed,
        )
        for r in given
    ]
    if charts is not None:
        from turnbuckle.questions.cores.figures import figures

        save(figures(answers), charts)
    if console is not None:
        _print(console, answers, have is not None)
    else:
        _emit(answers, seed, draws, format, output)
    return 0


def _of_one(
    run: Run,
    efficiency: float,
    speed: float,
    idle: dict[str, bool],
    charts: Path | None,
    format: FormatOption,
    output: Path | None,
) -> int:
    """Answer for one recording with fewer cores.  Raises A471 for an option that needs several
    runs.
    """
    from turnbuckle.questions.cores.replayed import replayed

    for option in (option for option, given in idle.items() if given):
        raise error_of("A471.several", where=option, option=option)
    answer = replayed(run.profile, efficiency=efficiency, speed=speed)
    if charts is not None:
        save(answer.figures(), charts)
    emit(answer, answer.table().to_dicts(), show_one, format, output)
    return 0


def show_one(console: Console, answer: Replayed) -> None:
    """Print the cores that one recording needs, then the bounds of its run time with fewer."""
    console.print(Text(answer.headline(), "bold"))
    console.print()
    gpus = f"{answer.gpus} GPU{'s' * (answer.gpus != 1)}"
    busy = answer.busy_seconds / answer.seconds
    console.print(
        Text(
            f"{answer.threads} threads on {gpus}, at most {answer.at_once} at once, "
            f"{busy:.3g} on average"
        )
    )
    console.print()
    table = titled(console, "the same threads with fewer cores", "cores", "cores/GPU", "run time")
    for c in answer.counts:
        least, most = c.least_seconds / answer.seconds, c.most_seconds / answer.seconds
        table.add_row(
            f"{c.cores}",
            f"{c.cores_per_gpu:.3g}",
            f"{least:.3f}x" + (f" to {most:.3f}x" if most > least * 1.0005 else ""),
        )
    console.print(table)
    console.print(
        Text(
            (
                "run time: over the recorded one; its bounds whatever order the system lets "
                "threads run in"
            ),
            "dim",
        )
    )
    print_findings(console, answer.findings)


def _runs(
    files: tuple[Path, ...], core_counts: str | None, no_cache: bool, part: PartOptions
) -> list[Runs]:
    """Read tables by their ending, and everything else as a recording."""

    from turnbuckle.questions.cores.runs import from_profiles, read_runs, readable

    tables = [f for f in files if f.suffix.lower() == ".csv"]
    recordings = [f for f in files if f not in tables]
    counts = _core_counts(core_counts)
    if counts is not None and not recordings:
        raise error_of("A032.recordings", found=core_counts or "")
    for table in tables:
        refuse_asked(table, part.given(), "a table of runs")
    out = [(table.name, r) for table in tables for r in read_runs(table)]
    if recordings:
        out.append(
            (
                "recordings",
                from_profiles(
                    [inspected(f, None, no_cache, part).profile for f in recordings], counts
                ),
            )
        )
    # programs without a name are named after their files
    return [
        r if r.program or len(out) == 1 else replace(r, program=readable(file)) for file, r in out
    ]


def _per_gpu(node: str | None) -> float | None:
    """Return the cores per GPU of a node: `64:4` -> 16."""
    if node is None:
        return None
    cores, _, gpus = node.partition(":")
    if not (
        cores.isascii()
        and cores.isdigit()
        and gpus.isascii()
        and gpus.isdigit()
        and len(node) < 20
        and int(gpus)
        and int(cores)
    ):
        raise error_of("A031.node", where="--node", found=node[:60])
    return int(cores) / int(gpus)


def _core_counts(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise error_of("A032.numbers", where="--at", found=text[:60]) from None


def _emit(answers: list[Cores], seed: int, draws: int, format: str, output: Path | None) -> None:
    if format == "json":
        whence = {**provenance(), "seed": seed, "draws": draws}
        write_json(
            {
                "schema_version": SCHEMA_VERSION,
                "programs": [c.as_dict() for c in answers],
                "provenance": whence,
            },
            output,
        )
        return
    rows = [{"program": c.runs.program, **n.as_dict()} for c in answers for n in c.counts]
    if not rows:
        raise error_of("A150.row", found=answers[0].why)
    write_rows(rows, format, output)


def show(console: Console, answer: Cores) -> None:
    """Print the answer, then what it rests on."""
    _print(console, [answer], node=False)


def _print(console: Console, answers: list[Cores], node: bool) -> None:
    """Print the answers, one sentence each, then what each rests on."""

    from turnbuckle.questions.cores.answer import node_sentence

    for c in answers:
        console.print(Text.from_markup(f"[bold]{clean(c.sentence(), 400)}[/]"))
        if node:
            console.print(Text.from_markup(clean(node_sentence(c), 400)))
    if len(answers) > 1:
        _print_all(console, answers)
    for c in answers:
        console.print()
        if len(answers) > 1:
            console.print(Text.from_markup(f"[bold cyan]{clean(c.runs.program)}[/]"))
        console.print(Text(_basis(c), "dim"))
        if c.chosen is not None:
            console.print(_counts_table(c))
            console.print()
        if any(not law.fit.missing for law in c.candidates):
            console.print(_laws_table(c))
        for curve in c.shared:
            console.print()
            console.print(_curve_table(curve, c.runs))
        print_findings(console, c.findings)


def _print_all(console: Console, answers: list[Cores]) -> None:
    """Print the answer for the program that needs most, because it decides the node."""
    from turnbuckle.questions.cores.answer import percent, shape

    needs = [
        (c.whole.cores, c) for c in answers if c.whole is not None and not c.few and not c.missed
    ]
    if len(needs) < len(answers):
        return
    _, most = max(needs, key=lambda pair: pair[0])
    assert most.whole is not None
    console.print(
        f"[bold]all {len(answers)}: {shape(most.whole)} per GPU for "
        f"{percent(most.efficiency)} ({clean(most.runs.program)})[/]"
    )


def _basis(answer: Cores) -> str:
    """Return what the answer rests on, in words."""
    runs = answer.runs
    low, high = float(runs.cores.min()), float(runs.cores.max())
    spare = len(runs) - runs.shapes
    repeats = (
        ", no repeats"
        if not spare
        else ", one of them a repeat"
        if spare == 1
        else f", {spare} of them repeats"
    )
    out = f"{len(runs)} runs{repeats}, {low:g} to {high:g} cores per GPU; {answer.why}"
    if answer.chosen is not None:
        best = "Highest throughput" if runs.throughput else "Shortest run time"
        out += f". {best} by the law {_time(runs, answer.chosen.limit_seconds)}"
        fastest = float(runs.mean_of_repeats(runs.seconds).min())
        out += f", {'highest' if runs.throughput else 'fastest'} measured {_time(runs, fastest)}"
    return out


def _time(runs: Runs, seconds: float | None) -> str:
    """Format a run time, or the throughput where that was given."""
    return (
        "-"
        if seconds is None
        else f"{1.0 / seconds:.4g}"
        if runs.throughput
        else units.show(seconds, "s", 4)
    )


def _counts_table(answer: Cores) -> Table:
    from turnbuckle.questions.cores.answer import percent, reached

    split = any(c.ranks is not None for c in answer.counts)
    asked = percent(answer.efficiency)
    heads = (
        "cores",
        *(["ranks x threads"] if split else []),
        "measured",
        "by the law",
        "efficiency",
        f"reaches {asked}",
    )
    table = unframed(*heads, title="cores per GPU")
    for c in answer.counts:
        chance = (
            "surely"
            if c.reaches >= 0.995
            else "surely not"
            if c.reaches <= 0.005
            else f"{c.reaches:.0%} likely"
        )
        splits = [f"{c.ranks:g} x {c.threads:g}" if c.ranks is not None else ""] if split else []
        style = (
            "bold"
            if c is answer.whole or (answer.whole is not None and c.cores == answer.whole.cores)
            else ""
        )
        table.add_row(
            f"{c.cores:g}",
            *splits,
            _time(answer.runs, c.measured_seconds),
            _time(answer.runs, c.seconds),
            reached(c.efficiency, answer.efficiency),
            chance,
            style=style,
        )
    return table


def _laws_table(answer: Cores) -> Table:
    from turnbuckle.questions.cores.answer import apart, span

    table = unframed("law", "cores (90% range)", "AICc", "RMS", "parameters", title="laws")
    for c in answer.candidates:
        law = c.fit.law
        if c.fit.missing:
            table.add_row(law.words, "", "", "", f"needs {c.fit.missing}", style="dim")
            continue
        values = [
            f"{name} {seconds(value) if unit == 's' else f'{value:.3g}'}"
            for (name, unit), value in zip(law.parameters, c.fit.values[0].tolist(), strict=True)
        ]
        aicc = apart(c)
        table.add_row(
            law.words, span(c.cores, c.low, c.high), aicc, f"{c.fit.rms:.2%}", ", ".join(values)
        )
    return table


def _curve_table(curve: Curve, runs: Runs) -> Table:
    from turnbuckle.questions.cores.answer import percent, sharing

    against, pays = f"against {curve.steps[0].ranks:g}", f"pays {percent(curve.worth)}"
    table = unframed(
        "ranks on a GPU",
        "runs",
        "throughput" if runs.throughput else "run time",
        against,
        "gain of the step",
        "90% range",
        pays,
        title=sharing(curve),
    )
    for s in curve.steps:
        gain = "" if s.gain is None else f"{s.gain:+.1%}"
        interval = "" if s.low is None or s.high is None else f"{s.low:+.1%} to {s.high:+.1%}"
        table.add_row(
            f"{s.ranks:g}",
            str(s.runs),
            _time(runs, s.seconds),
            f"{s.performance:.3f}x",
            gain,
            interval,
            s.pays,
        )
    return table
