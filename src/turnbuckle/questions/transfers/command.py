"""``turnbuckle transfers``: copies of one node on the data sheet of another, and how far off that
is where both were measured.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.text import Text

from turnbuckle.foundation.errors import ProfileError, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.units import parse
from turnbuckle.foundation.units import show as quantity
from turnbuckle.machine.measured.logs import (
    LARGEST_BYTES,
    format_of,
    read_measured,
    split_part,
    unknown_format,
)
from turnbuckle.projection.uncertainty import LEVEL
from turnbuckle.questions.transfers.datasheet import study
from turnbuckle.questions.transfers.figures import figures
from turnbuckle.questions.transfers.question import distribution, measured, recorded, words
from turnbuckle.questions.transfers.sheet import DEFAULT_LINKS, sheet
from turnbuckle.show.figures.files import save
from turnbuckle.show.terminal.cells import clean, plain, seconds
from turnbuckle.show.terminal.options import (
    ASKED_PART,
    AskedPart,
    Charts,
    FormatOption,
    MachineName,
    NoCache,
    Output,
    Source,
    listed,
)
from turnbuckle.show.terminal.output import emit
from turnbuckle.show.terminal.recording import judged, refuse_asked
from turnbuckle.show.terminal.tables import print_findings, titled

if TYPE_CHECKING:
    from rich.console import Console

    from turnbuckle.machine import Machine
    from turnbuckle.questions.transfers.datasheet import Error, Projected, Study
    from turnbuckle.questions.transfers.question import Transfers

#: Columns of a terminal in which an interval stands on one line.
_WIDE = 90
#: Of any time, size or bandwidth that is given, SI.
_LEAST, _MOST = 1e-15, 1e18
#: Approaches that a terminal shows; documents and tables hold the back of the envelope as well.
WORDS = ("projected", "packets", "peak")

File = Annotated[
    str,
    Parameter(
        help=(
            "recordings or measured copies (bandwidthTest, hipBusBandwidth, OSU, gpu_copy, CSV); "
            "NAME=FILE names one, FILE#2 picks"
        )
    ),
]
On = Annotated[
    list[str] | None,
    Parameter(
        name="--on",
        help=(
            "link (pcie5-x16, nvlink2-x2) or machine of the other node, or self; several times "
            "or with commas"
        ),
        negative=(),
    ),
]
MeasuredThere = Annotated[
    list[str] | None,
    Parameter(
        name="--measured",
        help="recording or measured copies of the other node; one for each file, in the same order",
        negative=(),
    ),
]
TransfersOf = Annotated[
    Literal["own", "measured"],
    Parameter(
        name="--transfers-of",
        help=(
            "whose transfers are priced: the files' own, or those of --measured with (L+O) of "
            "the files"
        ),
    ),
]
HostMemory = Annotated[
    str | None,
    Parameter(help="bandwidth of host memory there, for pageable copies; instead of the machine's"),
]
DeviceMemory = Annotated[
    str | None, Parameter(help="bandwidth of device memory there, for copies inside a device")
]
Peer = Annotated[str | None, Parameter(help="link between devices there, as nvlink3-x4")]
Latency = Annotated[
    str | None,
    Parameter(
        help="(L+O), the time of a one-byte copy; instead of the smallest copies of each file"
    ),
]
CopiedSize = Annotated[
    str | None,
    Parameter(help="size of the copies in a file of rates that does not say it (gpu_copy)"),
]


def transfers(
    *files: File,
    on: On = None,
    measured: MeasuredThere = None,
    transfers_of: TransfersOf = "own",
    host_memory: HostMemory = None,
    device_memory: DeviceMemory = None,
    peer: Peer = None,
    latency: Latency = None,
    copied_size: CopiedSize = None,
    source: Source = None,
    charts: Charts = None,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
    part: AskedPart = ASKED_PART,
) -> int:
    """Project every copy of a run on the data sheet of another node (AHEAD), and say how far off
    that is where both were measured.
    """
    if not files:
        raise error_of("A024.nothing")
    there, targets = _flat("--measured", measured), _flat("--on", on) or list(DEFAULT_LINKS)
    if there and len(there) != len(files):
        raise error_of("A024.measured", found=f"{len(files)} files, {len(there)} measured")
    if there and len(files) > 1 and len(targets) not in (1, len(files)):
        raise error_of("A024.target", found=f"{len(files)} files, {len(targets)} nodes")
    if transfers_of == "measured" and not there:
        raise error_of("A024.other")
    size = None if copied_size is None else _above(parse(copied_size, "B"), "--copied-size")
    options: dict[str, Any] = {
        "host_memory": None
        if host_memory is None
        else _above(parse(host_memory, "B/s"), "--host-memory"),
        "device_memory": None
        if device_memory is None
        else _above(parse(device_memory, "B/s"), "--device-memory"),
        "peer": peer,
    }
    fixed = None if latency is None else _above(parse(latency, "s"), "--latency")
    subjects = [_read(word, source, size, no_cache, part) for word in files]
    if source is not None and not any(machine for _, machine in subjects):
        raise error_of("A024.source", found="measured copies alone")
    others = [_read(word, None, size, no_cache, part) for word in there]
    if all(machine is None for _, machine in [*subjects, *others]):
        refuse_asked(Path(subjects[0][0].name), part.given(), "measured copies")
    beyond: list[Transfers | None] = (
        [copies for copies, _ in others] if others else [None] * len(subjects)
    )
    named = _apart([answer for answer, _ in subjects])
    paired = bool(there) and len(targets) == len(files) > 1
    nodes = [[targets[k]] if paired else targets for k in range(len(subjects))]
    sheets = [
        [sheet(n, source=machine, **options) for n in names]
        for names, (_, machine) in zip(nodes, subjects, strict=True)
    ]
    answer = study(
        list(zip(named, beyond, strict=True)),
        sheets,
        all_of_there=transfers_of == "measured",
        latency=fixed,
    )
    if charts is not None:
        save(figures(answer), charts)
    emit(answer, answer.rows(), show, format, output)
    return 0


def _flat(option: str, words: list[str] | None) -> list[str]:
    """Return the words of an option that takes several, also with commas; none where it is left
    out.
    """
    flat = listed(words or [])
    if words is not None and not flat:
        raise error_of("A024.empty", option=option)
    return flat


def _above(value: float, option: str) -> float:
    if value <= 0:
        raise error_of("A023.zero", found=f"{value:g}", option=option)
    if not _LEAST <= value <= _MOST:
        raise error_of("A023.large", found=f"{value:g}", option=option)
    return value


def _read(
    word: str, source: MachineName | None, size: float | None, no_cache: bool, part: AskedPart
) -> tuple[Transfers, Machine | None]:
    """Return a recording, or measured copies, as the first bytes tell."""
    name, equals, file = word.partition("=")
    if not equals or not name or not file or Path(word).exists():
        name, file = "", word
    place, _ = split_part(file)
    text = _text_of(place)
    if text is not None and format_of(text) is not None:
        return measured(read_measured(file, size_bytes=size), name), None

    try:
        seen = judged(place, source, no_cache, part)
    except ProfileError as error:
        if text is not None and error.code == "P013":
            raise unknown_format(place.name) from None
        raise
    return recorded(seen, name), seen.source


def _text_of(place: Path) -> str | None:
    """Return the text of a small file, or None where it is something else."""
    try:
        if not place.is_file() or place.stat().st_size > LARGEST_BYTES:
            return None
        with opened(place) as file:
            raw = file.read()
    except (OSError, ValueError):
        return None
    if b"\x00" in raw[:4096]:
        return None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _apart(subjects: list[Transfers]) -> list[Transfers]:
    """Number names that occur twice."""
    names = [subject.name for subject in subjects]
    numbered = [
        f"{name} ({names[: k + 1].count(name)})" if names.count(name) > 1 else name
        for k, name in enumerate(names)
    ]
    return [replace(subject, name=name) for subject, name in zip(subjects, numbered, strict=True)]


def show(console: Console, study: Study) -> None:
    """Print each application on each node, and over all where times were measured."""
    last = ""
    for projected in study.projected:
        if projected.application != last:
            of_application = [p for p in study.projected if p.application == projected.application]
            _print_application(
                console,
                of_application,
                next(s for s in study.subjects if s.name == projected.application),
            )
            last = projected.application
        console.print()
        _print_totals(console, projected)
        if projected.errors:
            console.print()
            _print_errors(console, projected)
        print_findings(console, projected.findings)
    judged = [p for p in study.projected if p.errors]
    if len(judged) > 1:
        console.print()
        _print_summary(console, judged)


def _class(direction: str, memory: str) -> str:
    return "all" if direction == "all" else clean(words((direction, memory)))


def _print_application(console: Console, on: list[Projected], subject: Transfers) -> None:
    """Print what is the same on every node, with the answer first."""

    count, projected = subject.rows.height, on[0]
    console.print(
        Text.assemble(
            (plain(projected.application), "bold"),
            f"  {count:,} transfer{'' if count == 1 else 's'}",
        )
    )
    if projected.transfers_of != projected.application:
        console.print(
            Text(
                (
                    f"transfers of {plain(projected.transfers_of)}, (L+O) of "
                    f"{plain(projected.application)}"
                ),
                "dim",
            )
        )
    for projection in on:
        console.print(_answer(projection, count))
    console.print()
    table = titled(
        console,
        "(L+O), the fixed part of a copy, kept for the other node",
        "copies",
        "(L+O)",
        "read off",
        "of size",
    )
    for (direction, memory), latency in projected.latency.items():
        size = f"{latency.size_bytes:,.0f} B" if latency.copies else ""
        of = (
            f"{latency.copies:,} {latency.source if latency.borrowed else 'smallest'}"
            if latency.copies
            else "as given"
        )
        table.add_row(_class(direction, memory), quantity(latency.seconds, "s"), of, size)
    console.print(table)
    console.print()
    table = titled(console, "transfers by size", "size", "transfers", "of them", "of their time")
    for row in distribution(subject):
        low, high = (quantity(row[k], "B") for k in ("low_bytes", "high_bytes"))
        table.add_row(
            f"{low} to {high}",
            f"{row['count']:,}",
            f"{row['count_share']:.1%}",
            f"{row['time_share']:.1%}",
        )
    console.print(table)


def _answer(projected: Projected, count: int) -> Text:
    """Return all transfers on one node, in a line."""

    total = projected.total
    words = f"{seconds(total.seconds)} projected on {plain(projected.target)}"
    words += (
        f", {seconds(total.measured_seconds)} here" if total.measured_seconds is not None else ""
    )
    return Text(
        words + (f" ({count - total.count:,} of them not priced)" if total.count < count else "")
    )


def _print_totals(console: Console, projected: Projected) -> None:
    timed = projected.total.measured_seconds is not None
    target = plain(projected.target)
    title = (
        f"on {target}" if projected.link == projected.target else f"on {target} ({projected.link})"
    )
    interval = f"{LEVEL:.0%} interval"
    columns = [
        "transfers",
        "count",
        "size",
        *(["here"] if timed else []),
        "projected",
        interval,
        *WORDS[1:],
    ]
    table = titled(console, title, *columns, words=(interval,))
    totals = projected.totals if len(projected.totals) > 2 else projected.totals[:1]
    between = " " if console.width >= _WIDE else "\n"
    for t in totals:
        low, high = (quantity(end, "s") for end in t.ends)
        measured = [seconds(t.measured_seconds)] if timed else []
        sheet_times = ["" if v is None else seconds(v) for v in (t.packets, t.peak)]
        times = [*measured, seconds(t.seconds), f"\\[{low},{between}{high}]", *sheet_times]
        table.add_row(
            _class(t.direction, t.memory), f"{t.count:,}", quantity(t.size_bytes, "B"), *times
        )
    console.print(table)
    for t in totals[: len(totals) - 1] or totals:
        console.print(Text(f"{_class(t.direction, t.memory)}: {t.basis}", "dim"))
    parts = [f"{name} {share:.0%}" for name, share in list(projected.total.drivers.items())[:3]]
    if parts:
        console.print(Text(f"the interval is most of all: {', '.join(parts)}", "dim"))


def _print_errors(console: Console, projected: Projected) -> None:
    title = "against the times measured there: WMAPE and spread [%] of three approaches"
    table = titled(console, title, "transfers", "count", "there", *WORDS, "projected is")
    by_class: dict[tuple[str, str], list[Error]] = {}
    for e in projected.errors:
        by_class.setdefault((e.direction, e.memory), []).append(e)
    shown = list(by_class.items())
    for which, group in shown if len(shown) > 2 else shown[:1]:
        first = group[0]
        by_approach = {e.approach: _off(e) for e in group}
        cells = [by_approach.get(a, "") for a in WORDS]
        table.add_row(
            _class(*which),
            f"{first.count:,}",
            seconds(first.actual),
            *cells,
            f"{first.predicted / first.actual:.2f}x there",
        )
    console.print(table)


def _off(error: Error) -> str:
    return f"{error.wmape:.1f} ± {error.spread:.1f}"


def _print_summary(console: Console, judged: list[Projected]) -> None:
    """Print the paper's Tables III and IV, a row for each application."""
    columns = ("application", "node", "transfers", *WORDS)
    table = titled(console, "by application: WMAPE and spread [%]", *columns, words=("node",))
    errors = {
        a: [e.wmape for p in judged for e in p.errors if (e.direction, e.approach) == ("all", a)]
        for a in WORDS
    }
    for p in judged:
        by_approach = {e.approach: e for e in p.errors if e.direction == "all"}
        count = by_approach["projected"].count
        cells = [_off(by_approach[a]) if a in by_approach else "" for a in WORDS]
        table.add_row(clean(p.application, 60), clean(p.target, 40), f"{count:,}", *cells)
    table.add_row(
        "mean",
        "",
        "",
        *(
            f"{sum(each) / len(each):.1f}" if len(each) == len(judged) else ""
            for each in errors.values()
        ),
    )
    console.print(table)
