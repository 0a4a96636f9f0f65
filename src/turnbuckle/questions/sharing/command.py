"""``turnbuckle model sharing``: several runs behind one host link, or one larger GPU instead."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.text import Text

from turnbuckle.foundation import units
from turnbuckle.foundation.errors import did_you_mean, error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.foundation.units import parse
from turnbuckle.foundation.units import show as quantity
from turnbuckle.questions.validate.card import away_in_words
from turnbuckle.show.figures.files import save
from turnbuckle.show.terminal.cells import seconds
from turnbuckle.show.terminal.idle_options import refuse_idle
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import (
    ASKED_PART,
    AskedPart,
    Charts,
    NoCache,
    Recorded,
    Source,
    listed,
)
from turnbuckle.show.terminal.progress import working
from turnbuckle.show.terminal.recording import judged, provenance_of
from turnbuckle.show.terminal.tables import print_findings, titled, unframed
from turnbuckle.show.text import terms

if TYPE_CHECKING:
    from rich.console import Console

    from turnbuckle.questions.sharing.differences import Difference
    from turnbuckle.questions.sharing.pairs import Beside as Pair
    from turnbuckle.questions.sharing.question import Form, Sharer, Sharing
    from turnbuckle.questions.sharing.surface import SharingSurface

Recording = Annotated[Recorded, Parameter(help="a recording of a run on a GPU, of any kind")]
Runs = Annotated[
    str, Parameter(name="--runs", help="how many at once, or how many times as large a GPU")
]
Forms = Annotated[
    str,
    Parameter(
        name="--form",
        help="loose: a GPU for each run, one link; tight: one run on a GPU as many times as "
        "large; pooled: all runs on that GPU; shared: "
        "all runs on the recorded GPU; separated by commas; both: loose,tight; all: all four",
    ),
]
Link = Annotated[
    str | None,
    Parameter(
        name="--link",
        help=(
            "the shared link: its bandwidth one way, or pcie4-x16; the recorded machine's if "
            "left out"
        ),
    ),
]
Hop = Annotated[str, Parameter(name="--hop", help="latency that a switch adds to each copy")]
Surface = Annotated[
    bool,
    Parameter(
        name="--surface", help="run time over latency, bandwidth and number of runs", negative=()
    ),
]
Latency = Annotated[
    list[str] | None,
    Parameter(
        help=(
            "surface: times from a call to the start of its work, separated by commas; 1 us to 1 ms"
        ),
        negative=(),
    ),
]
Bandwidth = Annotated[
    list[str] | None,
    Parameter(
        help="surface: bandwidths of the link, separated by commas; 1 to 64 GB/s", negative=()
    ),
]
LawOption = Annotated[
    Literal["anchored", "agochart"],
    Parameter(
        name="--law",
        help=(
            "surface: anchored keeps the costs of copies and deliveries beyond link and latency; "
            "agochart drops them"
        ),
    ),
]
Units = Annotated[
    int, Parameter(help="multiprocessors of the recorded GPU; 0: as recorded", show_default=False)
]
Speed = Annotated[
    float, Parameter(help="speed of a multiprocessor over the recorded one's, in every form")
]
Kernels = Annotated[
    Literal["blocks", "rounds", "full"],
    Parameter(
        help="larger GPU: a kernel gains by fewer blocks or fewer rounds of blocks per "
        "multiprocessor: the larger gain (blocks), the "
        "smaller (rounds), or the GPU's full size (full)"
    ),
]
Apart = Annotated[
    bool,
    Parameter(
        help="GPUs of two processes are different even if they have the same number", negative=()
    ),
]
Beside = Annotated[
    Recorded | None,
    Parameter(
        name="--beside", help="another recording: both run at once, with --form loose or shared"
    ),
]
Cores = Annotated[
    int,
    Parameter(
        help="host cores that all runs share; a waiting call releases its core; 0: one per thread",
        show_default=False,
    ),
]
Steps = Annotated[
    bool,
    Parameter(
        name="--differences",
        help="change of the run time with each parameter, for the most runs asked",
        negative=(),
    ),
]


def sharing(
    recording: Recording,
    /,
    *,
    runs: Runs = "1,2,4,8",
    beside: Beside = None,
    form: Forms = "loose",
    link: Link = None,
    hop: Hop = "0 us",
    surface: Surface = False,
    latency: Latency = None,
    bandwidth: Bandwidth = None,
    law: LawOption = "anchored",
    units: Units = 0,
    speed: Speed = 1.0,
    cores: Cores = 0,
    kernels: Kernels = "blocks",
    apart: Apart = False,
    differences: Steps = False,
    charts: Charts = None,
    source: Source = None,
    no_cache: NoCache = False,
    part: AskedPart = ASKED_PART,
) -> ModelAnswer:
    """Replay a run several times over at once behind one host link, or on one larger GPU: how much
    each slows the others down.
    """
    from turnbuckle.questions.sharing import question as study
    from turnbuckle.questions.sharing.surface import parameter_differences, sharing_surface

    counts, forms = _counts(runs), _forms(form)
    mapped = surface or latency is not None or bandwidth is not None or charts is not None
    if mapped and (link is not None or differences):
        raise error_of("A096.steps", found="--link" if link is not None else "--differences")
    if law != "anchored" and not mapped:
        raise error_of("A096.law", found=f"--law {law}")
    if beside is not None:
        refuse_idle(
            {
                "--surface": mapped,
                "--differences": differences,
                "--runs": runs != "1,2,4,8",
                "--kernels": kernels != "blocks",
            },
            "two recordings run once each",
            "--runs asks about a recording several times over",
        )
    elif set(forms) == {"loose"}:
        idle = {"--kernels": kernels != "blocks", "--units": units != 0}
        refuse_idle(
            idle,
            "loose runs keep the GPUs they have",
            "--form tight, pooled or all asks about a larger GPU",
        )
    rate, delay = _bandwidth(link), parse(hop, "s")
    given: dict[str, Any] = {"hop_seconds": delay, "speed": speed, "gain": kernels, "cores": cores}
    axes = {
        "latencies": None if latency is None else [parse(word, "s") for word in listed(latency)],
        "bandwidths": None
        if bandwidth is None
        else [parse(word, "B/s") for word in listed(bandwidth)],
    }
    seen = judged(recording, source, no_cache, part)
    run = study.ready(seen, units=units, apart=apart)
    if beside is not None:
        from turnbuckle.questions.sharing.pairs import pair

        other = judged(beside, source, no_cache, part)
        with working("replaying"):
            second = study.ready(other, units=units, apart=apart)
            pairs = [
                pair(run, second, f, bandwidth=rate, hop_seconds=delay, speed=speed, cores=cores)
                for f in forms
            ]
        rows = [p.as_dict() for p in pairs]
        document = {
            "schema_version": SCHEMA_VERSION,
            "rows": rows,
            **provenance_of(seen),
            "provenance_beside": other.provenance(),
        }
        names = (seen.profile.trace.name, other.profile.trace.name)
        return ModelAnswer(
            document, rows, partial(_print_pairs, pairs=pairs, cores=cores, names=names)
        )
    if mapped:
        asked = {
            **{name: values for name, values in axes.items() if values is not None},
            "law": law,
            **given,
        }
        with working("replaying"):
            grid = sharing_surface(run, forms, counts, **asked)
        if charts is not None:
            save(grid.figures(), charts)
        points = [p.as_dict() for p in grid.points]
        return ModelAnswer(
            {**grid.as_dict(), **provenance_of(seen)},
            points,
            partial(show_surface, answer=grid),
            grid.figures,
        )
    with working("replaying"):
        answer = study.sharing(run, counts, forms, bandwidth=rate, **given)
        steps = (
            {f: parameter_differences(run, f, max(counts), bandwidth=rate, **given) for f in forms}
            if differences
            else {}
        )
    document = {
        **answer.as_dict(),
        **({"differences": _step_rows(steps)} if differences else {}),
        **provenance_of(seen),
    }

    def view(console: Console) -> None:
        show(console, answer)
        print_findings(console, seen.left_out)
        if differences:
            _print_steps(console, steps, max(counts))

    return ModelAnswer(document, document["differences" if differences else "rows"], view)


def _counts(text: str) -> list[int]:
    from turnbuckle.questions.sharing.question import MOST, counted

    try:
        counts = [int(word) for word in text.split(",")]
    except ValueError:
        raise error_of("A075.option", found=text[:60], most=MOST) from None
    counted(counts)
    return counts


def _forms(text: str) -> list[Form]:
    from turnbuckle.questions.sharing.question import FORMS

    sets: dict[str, tuple[Form, ...]] = {
        "both": ("loose", "tight"),
        "all": FORMS,
        **{f: (f,) for f in FORMS},
    }
    chosen: list[Form] = []
    for word in (w.strip() for w in text.split(",")):
        if word not in sets:
            raise error_of(
                "A097.form",
                found=word[:40] or "nothing",
                fix=did_you_mean(word, list(sets)) or None,
            )
        chosen += sets[word]
    return list(dict.fromkeys(chosen))


def _bandwidth(text: str | None) -> float | None:
    """Return a bandwidth such as ``25 GB/s``, or what a named link such as pcie4-x16 gives one way
    to a large copy.
    """
    if text is None:
        return None
    if text.strip()[:1].isalpha():
        from turnbuckle.cost.packet import link

        return float(link(text).bandwidth(1 << 30, "read"))
    return parse(text, "B/s")


# --- several runs ---------------------------------------------------------------------------------


def show(console: Console, answer: Sharing) -> None:
    """Print the verdict, and each form by number of runs."""

    for form in answer.forms:
        console.print(Text(_verdict(answer) if form == "loose" else _larger(answer, form), "bold"))
    run, several = answer.run, len(answer.forms) > 1 or answer.forms != ("loose",)
    alone = (
        "runs at once",
        "GPUs",
        "run time of each",
        "vs recorded",
        "link busy to device",
        "to host",
    )
    beside = (
        "form",
        "runs",
        "GPUs",
        "run time",
        "vs recorded",
        "work done",
        "busy to device",
        "to host",
    )
    table = unframed(*(beside if several else alone), words=("form",))
    for row in answer.rows:
        many = {"loose": str(row.runs * run.devices), "shared": str(run.devices)}
        large = many.get(row.form, f"{run.devices} ({row.runs}x)")
        cells = [
            str(1 if row.form == "tight" else row.runs),
            large,
            seconds(row.seconds),
            f"{row.penalty:.3f}x",
        ]
        cells += [f"{row.gain:.2f}x"] if several else []
        table.add_row(
            *([row.form] if several else []),
            *cells,
            f"{row.busy_to_device:.1%}",
            f"{row.busy_to_host:.1%}",
        )
    console.print(table)
    if several:
        console.print(
            Text(
                (
                    "work done: runs per time, relative to one run alone; busy: the link, at "
                    "full bandwidth; (2x): twice as large"
                ),
                "dim",
            )
        )
    whence = "stated" if answer.stated else run.link_from
    note = (
        f"link {quantity(answer.bandwidth, 'B/s')} each way ({whence}), "
        f"{quantity(answer.hop_seconds, 's')} added to each copy; "
        f"a run makes {len(run.moved.activity):,} copies, {quantity(answer.to_device_bytes, 'B')} "
        "to its devices and "
        f"{quantity(answer.to_host_bytes, 'B')} back; "
        "the cost of a copy beyond its link stays as recorded; runs share fairly; "
        f"{_hosts(answer.cores)}"
    )
    console.print(Text(note, style="dim"))
    _notes(
        console, run, not {"tight", "pooled"}.isdisjoint(answer.forms), answer.speed, answer.gain
    )


def _print_pairs(console: Console, pairs: list[Pair], cores: int, names: tuple[str, str]) -> None:
    words = {"shared": "on one GPU", "loose": "on a GPU each, behind one link"}
    for p in pairs:
        line = (
            f"{words[p.form]}: both are done in {seconds(p.together)}; one after the other they "
            f"take {seconds(sum(p.alone))}"
        )
        console.print(Text(line, "bold"))
    table = unframed("form", "run", "recorded", "beside the other", "ratio", words=("form", "run"))
    for p in pairs:
        for name, alone, beside, ratio in zip(names, p.alone, p.seconds, p.penalties, strict=True):
            table.add_row(p.form, Text(name), seconds(alone), seconds(beside), f"{ratio:.3f}x")
    console.print(table)
    line = (
        "both begin at once and share the link and the GPU fairly; when one ends, the other has "
        "all of both; "
    )
    console.print(Text(line + _hosts(cores), style="dim"))


def _hosts(cores: int) -> str:
    """Return what runs share besides GPUs and link."""
    if not cores:
        return "cores and host memory are not shared"
    return (
        f"{cores} host core{'s' if cores > 1 else ''} shared fairly, which waiting calls release; "
        "host memory is not shared"
    )


def _notes(console: Console, run: Sharer, larger: bool, speed: float, kernels: str) -> None:
    """Print the assumptions of the answer."""
    if run.devices > 1:
        console.print(
            Text(
                f"all {run.devices} GPUs of a run share the one link, even when a run is alone",
                "yellow",
            )
        )
    if run.sharers > 1:
        gain = (
            f"{run.sharers} processes use the same GPU number: treated as one GPU; --apart treats "
            "each process's GPU as its own"
        )
        console.print(Text(gain, "yellow"))
    faster = f"a multiprocessor is {speed:g} times as fast as recorded" if speed != 1.0 else ""
    if not larger:
        if faster:
            console.print(Text(faster, "dim"))
        return
    if kernels == "full":
        gain = "every kernel is assumed to fill the larger GPU, which is the best case"
    elif run.blocks_known:
        gain = (
            "a kernel gains if each multiprocessor gets fewer of its blocks, or fewer rounds of "
            "resident blocks: "
        )
        gain += (
            "the range is from the larger to the smaller gain"
            if kernels == "blocks"
            else "the smaller gain is taken"
        )
        gain += f"; {run.unfilled:.1%} of kernel time is in kernels with too few blocks to gain"
        gain += (
            ""
            if run.blocks_known > 0.995
            else (
                f"; kernels with {1 - run.blocks_known:.1%} of the time have unknown blocks and "
                "are assumed to fill any GPU"
            )
        )
    else:
        gain = (
            "thread blocks or multiprocessors are unknown (give --units): every kernel is "
            "assumed to fill the larger GPU, the best case"
        )
    console.print(Text("; ".join(word for word in (gain, faster) if word), "dim"))


def _verdict(answer: Sharing) -> str:
    fit, most = answer.fit, max(r.runs for r in answer.rows if r.form == "loose")
    if fit is None:
        return "not even one run stays within 5 % of its recorded time behind this link"
    if fit == most:
        return (
            f"{fit} of these runs fit behind one link, each at most 5 % slower; more were not tried"
        )
    return f"{fit} of these runs fit behind one link, each at most 5 % slower; {fit + 1} do not"


def _larger(answer: Sharing, form: Form) -> str:
    """Return the answer for the largest GPU that was asked."""
    most = max(r.runs for r in answer.rows if r.form == form)
    row = next(r for r in answer.rows if (r.form, r.runs) == (form, most))
    slow, better = answer.slowest(form, most), answer.benefit(most, form)
    span = (
        f"{row.penalty:.3f}x"
        if slow is None or f"{slow:.3f}" == f"{row.penalty:.3f}"
        else f"{row.penalty:.3f}x to {slow:.3f}x"
    )
    runs = "one run takes" if form == "tight" else f"{most} runs take"
    gpus = "a GPU" if answer.run.devices == 1 else f"{answer.run.devices} GPUs"
    if form == "shared":
        of_it = "one GPU" if answer.run.devices == 1 else f"the {gpus} of one run"
        return (
            f"on {of_it} {runs} {span} the recorded time: {row.gain:.2f} times the work of one "
            "run alone"
        )
    line = f"on {gpus} {most} times as large {runs} {span} the recorded time"
    return (
        line
        if better is None or most == 1
        else f"{line}: {better:.2f} times the work of {most} on {gpus} each"
    )


# --- steps ----------------------------------------------------------------------------------------

_SHOWN = {"latency": "s", "bandwidth": "B/s"}


def _step_rows(steps: dict[Form, dict[str, Difference]]) -> list[dict[str, Any]]:
    return [
        {"form": form, "parameter": name, **d.as_dict()}
        for form, by_parameter in steps.items()
        for name, d in by_parameter.items()
    ]


def _print_steps(console: Console, steps: dict[Form, dict[str, Difference]], runs: int) -> None:

    from turnbuckle.questions.sharing.differences import SPREAD
    from turnbuckle.questions.sharing.surface import STEPS

    console.print()
    title = f"a step of each parameter, {runs} at once: run time for 1 % of it"
    table = titled(
        console,
        title,
        "form",
        "parameter",
        "at",
        "median",
        "from",
        "to",
        "run time",
        words=("parameter", "run time"),
    )
    scattered = len(next(iter(next(iter(steps.values())).values())).forward)
    for form, by_parameter in steps.items():
        for name, d in by_parameter.items():
            place = units.show(d.at, _SHOWN[name]) if name in _SHOWN else "1"
            share = 0.01 * abs(d.at) / d.seconds if d.at else 0.0
            low, high = d.interval
            table.add_row(
                form, name, place, *(f"{v * share:+.3%}" for v in (d.slope, low, high)), d.sign
            )
    console.print(table)
    note = (
        f"steps of {' and '.join(f'{h:.0%}' for h in STEPS)} to either side, in {scattered} runs "
        f"with work scattered by {SPREAD:.0%}, "
        "the same on both sides; competing runs have no derivative, so 'not stable' means that "
        "the steps disagree"
    )
    console.print(Text(note, "dim"))


# --- surface --------------------------------------------------------------------------------------


def show_surface(console: Console, answer: SharingSurface) -> None:
    """Print a table of penalties for each form and number of runs, and the report's comparisons."""
    words = terms("several runs")
    for form in answer.forms:
        for count in answer.runs:
            if count == 1 and form != answer.forms[0]:
                continue
            title = words[form].format(count) if count > 1 else "one run alone"
            table = titled(
                console,
                f"{title}: run time over the recorded one",
                "latency",
                *(units.show(b, "B/s") for b in answer.bandwidths),
            )
            for latency in answer.latencies:
                row = [answer.point(form, count, latency, b) for b in answer.bandwidths]
                table.add_row(
                    units.show(latency, "s"),
                    *("" if s is None else f"{s.penalty:.3f}x" for s in row),
                )
            console.print(table)
            console.print()
    for name, value in answer.comparisons().items():
        line = terms("comparison of runs")[name]
        console.print(Text(line.format(value, max(answer.runs)), "bold"))
    run = answer.run
    kept = (
        "costs of copies and deliveries beyond link and latency stay as recorded"
        if answer.law == "anchored"
        else "copies and deliveries cost nothing else"
    )
    line = (
        f"recorded: {units.show(run.recorded_latency, 's')} from a call to the work it starts "
        "(median), link "
        f"{units.show(run.recorded_bandwidth, 'B/s')} ({run.link_from}); {kept}; "
        f"{units.show(answer.hop_seconds, 's')} added to each copy; "
        "every point is a replay"
    )
    console.print(Text(line, "dim"))
    _notes(
        console, run, not {"tight", "pooled"}.isdisjoint(answer.forms), answer.speed, answer.gain
    )
    if answer.law == "agochart":
        console.print(Text(away_in_words("agochart"), "dim"))
