"""The verbs and their options."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console

from turnbuckle.cli.anonymise import anonymise
from turnbuckle.cli.calibrate import calibrate
from turnbuckle.cli.cores import cores
from turnbuckle.cli.merge import merge
from turnbuckle.cli.options import NO_PART, FormatOption, NoCache, Output, PartOptions, Source, flat, lambdas_of, window_ns
from turnbuckle.cli.record import record
from turnbuckle.cli.recording import inspected
from turnbuckle.cli.reproduce import reproduce
from turnbuckle.cli.sweep import sweep
from turnbuckle.cli.transfers import transfers
from turnbuckle.cli.validate import validate
from turnbuckle.errors import UsageError, did_you_mean
from turnbuckle.files import forget, noted, refuse_input

EXIT_CODES = (
    "exit codes: 0 done, 1 gate failed, 2 bad input or usage, 3 cannot be answered from this input, 4 internal error, 130 interrupted"
)

app = App(
    name="turnbuckle",
    help=f"""What a recorded GPU run would do if CPU and GPU stood closer or farther apart.

    turnbuckle FILE alone inspects the recording and projects it on a default set of couplings.

    {EXIT_CODES}
    """,
    version_flags=["--version"],
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)
machines_app = App(name="machines", help="The machines Turnbuckle knows: list them, show one with all sources, check a file of your own.")
app.command(machines_app)
# Named by its place: nineteen modules that only ``turnbuckle model`` needs would be a third of the time of --help.
app.command(
    "turnbuckle.cli.models:models_app", name="model", help="The papers' models, one by one, on numbers, tables and recordings of your own."
)
app.command(calibrate)
app.command(cores)
app.command(merge)
app.command(reproduce)
app.command(sweep)
app.command(transfers)
app.command(anonymise)
app.command(validate)
app.command(record)

Profile = Annotated[
    Path,
    Parameter(
        help="a recording: Nsight Systems (nsys export --type sqlite), PyTorch profiler (.json, .json.gz), nvprof (.nvvp), rocprof, "
        "OTF2 (traces.otf2), Chakra, Paraver (.prv), Paje, DUMPI (.meta), PMPI text, or a folder that Turnbuckle wrote"
    ),
]
On = Annotated[
    list[str] | None,
    Parameter(name="--on", help="target machine, a name, a TOML file or self; give it several times or with commas", negative=()),
]
Minus = Annotated[
    Path | None, Parameter(help="a run of the same program, all ranks on one node: shows the traffic bound for the network card")
]
Method = Annotated[Literal["nething", "additive"], Parameter(help="which published method")]
Lambda = Annotated[list[str] | None, Parameter(name="--lambda", help="additive: improvement by class, as data=10,control=10", negative=())]
Totals = Annotated[
    str | None,
    Parameter(help="additive from five printed numbers [s]: gpu=16.79,control=22.10,data=5.05,cpu=6.54,mpi=0.66[,total=50.5]"),
]
FailIf = Annotated[str | None, Parameter(help='gate for scripts, as "penalty > 5%"; exit 1 if true for any target')]
ReportTo = Annotated[
    Path | None, Parameter(name=["--output", "-o"], help="write the report there; turnbuckle-report-NAME.html in this folder if left out")
]
Question = Annotated[str, Parameter(help="the question, as the cover page should put it")]
Alpha = Annotated[str, Parameter(name="--alpha", help="how much faster kernels run on the target: a number, flop, memory or hold")]
Replay = Annotated[
    Literal["auto", "sum", "timeline"],
    Parameter(name="--replay", help="how activities add up; auto: the timeline where the recorded order can be trusted, else the sum"),
]
Draws = Annotated[
    int | None, Parameter(name="--draws", help="parameter draws for the interval: 1000, or fewer for very long runs; 0 leaves it out")
]
Seed = Annotated[int, Parameter(name="--seed", help="seed of the draws")]


def dispatch(words: Sequence[str]) -> int:
    """Run one command line; a first word that is no verb but a file means `turnbuckle FILE`."""
    words = list(words)
    verbs = [name for name in app if not name.startswith("-")]
    if words and not words[0].startswith("-") and words[0] not in verbs:
        if "." in words[0] or "/" in words[0] or (len(words[0]) < 256 and Path(words[0]).exists()):
            words = ["overview", *words]
        else:
            raise UsageError(
                "A001",
                f"{words[0][:60]!r} is neither a verb nor a file",
                found=f"verbs: {', '.join(v for v in verbs if v != 'overview')}",
                fix=did_you_mean(words[0], verbs) or "turnbuckle --help says what each does; a recording is named by its path",
            )
    if not words:
        words = ["--help"]
    try:
        command, bound, _ = app.parse_args(words, console=Console(), exit_on_error=False, print_error=False)
    except CycloptsError as e:
        from turnbuckle.vocabulary import refuse_old_options

        refuse_old_options(words)
        raise UsageError(
            "A002", str(e).splitlines()[0] if str(e) else type(e).__name__, fix="turnbuckle --help, or turnbuckle VERB --help"
        ) from e
    _keep_inputs(bound.arguments)
    return int(command(*bound.args, **bound.kwargs) or 0)


#: Options that name what is written.
_WRITTEN = ("output", "charts", "keep", "surface")


def _keep_inputs(arguments: Mapping[str, Any]) -> None:
    """Refuse an output that is a file of the same command line, before any work.  Raises `ReportError` R004.

    What else a command reads, such as the other files of an archive, is noted when it is opened, and refused when it is to be written.
    """
    forget()
    for name, value in arguments.items():
        for word in value if isinstance(value, list | tuple) else (value,):
            if name not in _WRITTEN and isinstance(word, str | Path):
                with suppress(OSError, ValueError):
                    noted(str(word).partition("::")[0])
    for name in _WRITTEN:
        if isinstance(path := arguments.get(name), Path):
            refuse_input(path, f"--{name}")


def _targets(on: Sequence[str] | None) -> list[str] | None:
    names = flat(on)
    if names == []:
        raise UsageError("A013", "--on names no machine", fix="turnbuckle machines list names them all; self is the source")
    return names


def _working() -> Any:
    from turnbuckle.cli.progress import working

    return working("replaying")


def _model(alpha: str, model: str, lambdas: list[str] | None) -> Any:
    from turnbuckle.model import additive, nething

    if model == "additive":
        return additive(lambdas_of(lambdas))
    if alpha in ("flop", "memory", "hold"):
        return nething(alpha)
    try:
        value = float(alpha)
    except ValueError:
        raise UsageError(
            "A003", f"--alpha {alpha} is no number and none of flop, memory, hold", fix=did_you_mean(alpha, ["flop", "memory", "hold"])
        ) from None
    if not 1e-3 <= value <= 1e3:
        raise UsageError("A003", f"--alpha {alpha} is out of range", found=alpha, fix="give a speed-up between 0.001 and 1000")
    return nething(value)


@app.command(show=False)
def overview(profile: Profile, /, *, source: Source = None, format: FormatOption = "table", no_cache: NoCache = False) -> int:
    """Inspect a recording and project it on the default couplings (what `turnbuckle FILE` does)."""
    from turnbuckle.cli import show
    from turnbuckle.cli.show_graph import without_times
    from turnbuckle.replay import schedules

    if schedules.sniff(profile) or without_times(profile) is not None:
        return inspect(profile, source=source, format=format, no_cache=no_cache)
    seen = inspected(profile, source, no_cache)
    show.emit(seen.project() if seen.projectable else seen, "overview", format, None)
    return 0


@app.command
def inspect(
    profile: Profile,
    /,
    *,
    minus: Minus = None,
    source: Source = None,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> int:
    """Say what a recording amounts to: where time goes, what the link did, what is wrong with the recording."""
    from turnbuckle.cli import show
    from turnbuckle.cli.show_graph import inspect_graph, without_times
    from turnbuckle.replay import schedules

    given: dict[str, object] = {"--minus": minus, "--source": source, "--window": part.window, "--nvtx": part.nvtx, "--rank": part.rank}
    given["--clean-time"] = part.clean_time
    if schedules.sniff(profile):
        from turnbuckle.cli.show_schedule import inspect_schedule

        inspect_schedule(profile, format, output, given)
        return 0
    if (graph := without_times(profile)) is not None:
        inspect_graph(profile, graph, format, output, given)
        return 0
    seen = inspected(profile, source, no_cache, part)
    if minus is not None:
        show.emit_placement(seen, inspected(minus, source, no_cache, part), format, output)
    else:
        show.emit(seen, "inspect", format, output)
    return 0


@app.command
def project(
    profile: Annotated[Path | None, Parameter(help="a recording; left out with --totals")] = None,
    /,
    *,
    on: On = None,
    source: Source = None,
    alpha: Alpha = "flop",
    model: Method = "nething",
    lambda_: Lambda = None,
    totals: Totals = None,
    replay: Replay = "auto",
    draws: Draws = None,
    seed: Seed = 20261121,
    fail_if: FailIf = None,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> int:
    """Project a recording on other machines: run time with interval, breakdown, and the change in coupling behind it."""
    from dataclasses import replace

    from turnbuckle.cli import show
    from turnbuckle.cli.gate import gate

    if totals is not None:
        return show.emit_totals(totals, lambdas_of(lambda_), format, output)
    if lambda_ and model != "additive":
        raise UsageError("A012", "--lambda belongs to the additive model", found=f"--model {model}", fix="add --model additive")
    if profile is None:
        raise UsageError("A006", "no recording given", fix="turnbuckle project FILE --on MACHINE")
    targets = _targets(on)
    condition = gate(fail_if) if fail_if else None
    # the published additive model is a sum
    chosen = replace(_model(alpha, model, lambda_), replay="sum" if model == "additive" and replay == "auto" else replay)
    seen = inspected(profile, source, no_cache, part)
    with _working():
        answer = seen.project(targets, model=chosen, draws=_positive(draws), seed=seed)
    show.emit(answer, "project", format, output)
    if condition:
        condition.hold(answer.projections)
    return 0


def _positive(draws: int | None) -> int | None:
    if draws is not None and not 0 <= draws <= 100_000:
        raise UsageError("A007", f"--draws {draws} is out of range", fix="0 to 100000")
    return draws


@app.command
def slack(
    profile: Profile,
    /,
    *,
    mode: Annotated[Literal["link", "api"], Parameter(help="link: the fabric is longer; api: every crossing call blocks")] = "link",
    over: Annotated[
        Literal["latency", "bandwidth", "launch", "kernel", "cpu", "both"],
        Parameter(help="what to vary: added latency, another kind of speed, or both latency and bandwidth at once"),
    ] = "latency",
    published: Annotated[
        str | None,
        Parameter(help="also the binned answer of Shorts and Grant: modelled (their proxy in our replay), or a CSV of a measured surface"),
    ] = None,
    starvation: Annotated[
        Path | None, Parameter(help="CSV of what idle gaps of the device cost, measured: lines as 1 ms, 15 us under a heading")
    ] = None,
    slack_class: Annotated[
        list[str] | None,
        Parameter(help="api: only calls of these classes are delayed, with commas: launch, copy, memset, sync, alloc, event"),
    ] = None,
    repeats: Annotated[
        list[str] | None,
        Parameter(
            help="run times of other runs of this program over the same stretch, with commas: their spread gives run times an interval"
        ),
    ] = None,
    source: Source = None,
    draws: Annotated[int, Parameter(name="--draws", help="draws for the interval of each tolerance; 0 leaves it out")] = 100,
    seed: Seed = 20261121,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> int:
    """Say how much distance a run tolerates: run time against added latency, exactly, and the calls that carry it."""
    from turnbuckle.cli import show_slack
    from turnbuckle.study import slack as slack_study
    from turnbuckle.study import sweep
    from turnbuckle.study.starvation import read_starvation
    from turnbuckle.units import parse

    _positive(draws)
    if over in ("bandwidth", "launch", "kernel", "cpu") and mode != "link":
        raise UsageError("A015", "--mode belongs to distance", found=f"--mode {mode} --over {over}", fix="leave --mode out")
    if format == "table" and output is not None:
        raise UsageError("A010", "tables are for the terminal", found=f"--output {output.name}", fix="add --format json, csv or parquet")
    if over != "latency" and any(word is not None for word in (published, starvation, slack_class, repeats)):
        what = "--published, --starvation, --slack-class and --repeats belong to added latency"
        raise UsageError("A015", what, found=f"--over {over}", fix="leave --over out")
    classes, others = flat(slack_class) or [], [parse(word, "s") for word in flat(repeats) or []]
    idle_cost = read_starvation(starvation) if starvation is not None else None
    seen = inspected(profile, source, no_cache, part)
    if over == "latency":
        with _working():
            found = slack_study.tolerate(seen, mode, draws=draws, seed=seed, starvation=idle_cost, classes=classes, repeats=others)
            beside = _published(seen, published)
        show_slack.emit_slack(found, beside, format, output)
    elif over == "both":
        with _working():
            surface = sweep.surface(seen, mode)
        show_slack.emit_surface(surface, format, output)
    else:
        with _working():
            swept = sweep.sweep(seen, over)
        show_slack.emit_sweep(swept, format, output)
    return 0


def _published(seen: Any, surface: str | None) -> list[Any]:
    """The binned answers of the slack study beside the timeline's: one thread, and as many as the surface has."""
    if surface is None:
        return []
    from turnbuckle.published.row_slack import beside
    from turnbuckle.published.slack_surface import read_surface

    slacks = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
    if surface == "modelled":
        return [*beside(seen.profile, slacks, threads=1), *beside(seen.profile, slacks, threads=8)]
    measured = read_surface(Path(surface))
    known = [s for s in sorted({p.slack_seconds for p in measured.points}) if s > 0]
    ends = dict.fromkeys((measured.threads[0], measured.threads[-1]))
    return [row for threads in ends for row in beside(seen.profile, known, measured, threads=threads)]


@app.command
def report(
    profile: Profile,
    /,
    *,
    on: On = None,
    source: Source = None,
    alpha: Alpha = "flop",
    replay: Replay = "auto",
    draws: Draws = None,
    seed: Seed = 20261121,
    question: Question = "",
    output: ReportTo = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> int:
    """Write one self-contained HTML report: answer, evidence, assumptions, machine files, provenance."""
    from dataclasses import replace

    from turnbuckle.page.html import write

    chosen = replace(_model(alpha, "nething", None), replay=replay)
    seen, targets = inspected(profile, source, no_cache, part), _targets(on)
    # a recording without GPU activity still has a report; only a question about targets is refused
    answer = seen if targets is None and not seen.projectable else seen.project(targets, model=chosen, draws=_positive(draws), seed=seed)
    path = write(answer, output or Path(f"turnbuckle-report-{profile.stem}.html"), question=question)
    print(path)
    return 0


@app.command
def export(
    profile: Profile,
    /,
    *,
    on: Annotated[list[str], Parameter(name="--on", help="target machine, one: a name, a TOML file or self", negative=())],
    format: Annotated[Literal["perfetto"], Parameter(name="--format", help="perfetto: trace-event JSON for ui.perfetto.dev")] = "perfetto",
    window: Annotated[str | None, Parameter(name="--window", help="only what was recorded from START:END of the run: 1.2s:1.3s")] = None,
    source: Source = None,
    alpha: Alpha = "flop",
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="write there; compressed if it ends in .gz")] = None,
    no_cache: NoCache = False,
) -> int:
    """Write measured and projected time lines side by side, with the critical path of both, for a trace viewer."""
    from dataclasses import replace

    from turnbuckle.machine import load
    from turnbuckle.page import perfetto
    from turnbuckle.study.moved import moved
    from turnbuckle.study.run import Answer
    from turnbuckle.vocabulary import refuse_several

    if output is None and sys.stdout.isatty():
        raise UsageError("A009", "a trace is not for a terminal", fix="give a file with --output FILE.json.gz")
    within_ns = window_ns(window) if window is not None else None
    names = _targets(on) or []
    refuse_several(",".join(names), "target", "export writes")
    seen, model = inspected(profile, source, no_cache), replace(_model(alpha, "nething", None), replay="timeline")
    target = seen.source if names == ["self"] else load(names[0])
    run = moved(seen.profile, seen.source, target, model, within_ns=within_ns)
    if within_ns is not None and not run.table.height:
        raise UsageError(
            "A070", "nothing was recorded in the window", found=window or "", fix=f"the run ends at {seen.profile.seconds:.9g} s"
        )
    answer = Answer(seen, model, (target,), [run.projection], draws=0)
    if output is None:
        perfetto.stream(run, answer, sys.stdout.buffer)
    else:
        print(perfetto.write(run, answer, output))
    return 0


@app.command
def demo(*, output: ReportTo = None) -> int:
    """Run the main job on the recording that ships with Turnbuckle and write its report."""
    from turnbuckle.cli import show
    from turnbuckle.examples import sample
    from turnbuckle.page.html import write

    with sample() as path:
        answer = inspected(path, None, False).project()
        show.emit(answer, "demo", "table", None)
        written = write(
            answer,
            output or Path("turnbuckle-report-demo.html"),
            question="What would this solver do if CPU and GPU stood closer or farther apart?",
        )
    print(f"\nreport: {written}")
    return 0


@app.command
def doctor(profile: Annotated[Path | None, Parameter(help="a recording to look over")] = None, /, *, format: FormatOption = "table") -> int:
    """Check the installation, and a recording if one is given: schema, clock, coverage, overhead, secrets."""
    from turnbuckle.cli.doctor import examine

    return examine(profile, format)


@machines_app.command(name="list")
def machines_list(*, format: FormatOption = "table") -> int:
    """List the machines."""
    from turnbuckle.cli import machines

    return machines.list_all(format)


@machines_app.command(name="show")
def machines_show(name: Annotated[str, Parameter(help="name or TOML file")], /, *, format: FormatOption = "table") -> int:
    """Show one machine: every number with its error, nature and source."""
    from turnbuckle.cli import machines

    return machines.show(name, format)


@machines_app.command(name="check")
def machines_check(files: Annotated[list[Path] | None, Parameter(help="TOML files; the whole catalogue if left out")] = None, /) -> int:
    """Check machine files: units, sources, plausible values."""
    from turnbuckle.cli import machines

    return machines.check(files or [])
