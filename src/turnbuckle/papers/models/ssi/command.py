"""Command ``turnbuckle model ssi``: a closed loop of calls over a shorter and a longer link."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.table import Table

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.units import parse, show
from turnbuckle.machine import load
from turnbuckle.questions.validate.card import away_in_words
from turnbuckle.show.terminal.cells import clean, seconds
from turnbuckle.show.terminal.console import Terminal
from turnbuckle.show.terminal.idle_options import refuse_idle
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import (
    NO_PART,
    MachineName,
    NoCache,
    PartOptions,
    Recorded,
    Source,
)
from turnbuckle.show.terminal.progress import working
from turnbuckle.show.terminal.recording import inspected, provenance_of

if TYPE_CHECKING:
    from turnbuckle.papers.models.ssi.question import Answered, Simulated
    from turnbuckle.replay.contention.loop import Link


def ssi(
    recording: Annotated[
        Recorded | None,
        Parameter(
            help=(
                "a recording that gives calls, bytes and kernel time; without one, give them as "
                "options"
            )
        ),
    ] = None,
    /,
    *,
    link: Annotated[
        str | None,
        Parameter(
            help="between host and device: pcie4-x16, nvlink2-x2, or a bandwidth one way as 25GB/s"
        ),
    ] = None,
    on: Annotated[
        MachineName | None,
        Parameter(help="instead of --link: a machine, with what a large copy reaches on its link"),
    ] = None,
    now: Annotated[
        str | None,
        Parameter(
            help=(
                "how long the link is: 2cm, 70ns one way, or PCIe; the report's 2 cm of PCIe and "
                "1 cm of NVLink if left out"
            )
        ),
    ] = None,
    far: Annotated[
        str,
        Parameter(
            help=(
                "longer links asked for, as 16cm,1m,1us, or rack for one on top of --now; the "
                "farthest makes the penalty"
            )
        ),
    ] = "16cm",
    speed: Annotated[
        float,
        Parameter(
            help=(
                "of a signal over that of light, where a length is given: 1 as in the report, "
                "0.67 in glass"
            )
        ),
    ] = 1.0,
    width: Annotated[
        int,
        Parameter(
            help="links side by side, each of that bandwidth, each for one message at a time"
        ),
    ] = 1,
    quantum: Annotated[
        Literal["message", "byte"],
        Parameter(
            help="what pays propagation: message as on a wire, byte as the report's numbers need it"
        ),
    ] = "message",
    kernel: Annotated[
        str,
        Parameter(
            help=(
                "of the recording: part of a name, or largest (the one with the most time, as in "
                "the report); all if left out"
            )
        ),
    ] = "",
    calls: Annotated[int | None, Parameter(help="of each stream")] = None,
    to_device: Annotated[str | None, Parameter(help="bytes to the device of one call")] = None,
    to_host: Annotated[str | None, Parameter(help="bytes back of one call")] = None,
    kernel_time: Annotated[str | None, Parameter(help="of one call")] = None,
    host_time: Annotated[str, Parameter(help="of the host before each call")] = "0 s",
    streams: Annotated[
        int, Parameter(help="loops at once, each with a host thread of its own")
    ] = 1,
    workers: Annotated[int, Parameter(help="kernels at once")] = 1,
    in_flight: Annotated[
        int,
        Parameter(
            help="calls of a stream on their way before a result is back: 1 blocks, 0 is no limit"
        ),
    ] = 1,
    queue: Annotated[
        int, Parameter(help="entries of a stream that fit at the device, 0 for no limit")
    ] = 0,
    source: Source = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> ModelAnswer:
    """Replay calls in a closed loop (send, kernel, receive) over a shorter and a longer link:
    benefit and penalty of distance.
    """

    from turnbuckle.papers.models.ssi import question as study
    from turnbuckle.replay.contention.loop import Loop

    if (link is None) == (on is None):
        raise error_of("A087.link")
    over, length = _link(link, width) if link is not None else _machine(on or "", width)
    if now is None and not length:
        raise error_of("A088.unknown", found=over.name[:40])
    today = study.distance(length if now is None else now, speed)
    longer = [study.distance(word, speed) for word in far.split(",") if word.strip()]
    if recording is None:
        idle = {
            "--kernel": bool(kernel),
            "--source": source is not None,
            "--no-cache": no_cache,
            **part.idle(),
        }
        refuse_idle(idle, "they are about a recording", "give a recording, or leave them out")
    if speed != 1.0 and not any(link_length.length for link_length in (today, *longer)):
        refuse_idle(
            {"--speed": True},
            "no length is asked for: a time one way is what it is",
            "--now 2cm --far 1m",
        )
    given: dict[str, Any] = {
        "calls": calls,
        "to_device_bytes": None if to_device is None else parse(to_device, "B"),
        "to_host_bytes": None if to_host is None else parse(to_host, "B"),
        "kernel_seconds": None if kernel_time is None else parse(kernel_time, "s"),
    }
    rest: dict[str, Any] = {
        "host_seconds": parse(host_time, "s"),
        "streams": streams,
        "workers": workers,
    }
    rest |= {"in_flight": in_flight, "queue": queue}
    run = simulated = None
    if recording is not None:
        run = inspected(recording, source, no_cache, part)
        simulated = study.recorded(run.profile, kernel)
        loop = simulated.loop(
            **rest | {name: value for name, value in given.items() if value is not None}
        )
    else:
        options = zip(
            ("--calls", "--to-device", "--to-host", "--kernel-time"), given.values(), strict=True
        )
        if missing := [option for option, value in options if value is None]:
            raise error_of("A087.missing", found=f"without {', '.join(missing)}")
        loop = Loop(**given, **rest)
    with working("replaying"):
        answer = study.answer(loop, over, today, longer, quantum)
    about = {
        **answer.as_dict(),
        "recorded": None if simulated is None else asdict(simulated),
        **provenance_of(run),
    }
    rows = [{"link": over.name, "quantum": quantum, **r.__dict__} for r in answer.rows]
    return ModelAnswer(about, rows, partial(_print, answer=answer, simulated=simulated))


def _link(text: str, width: int) -> tuple[Link, str]:
    """Return the link, and its length as the report takes it for its kind; an empty text for a
    bandwidth.
    """
    from turnbuckle.replay.contention.loop import Link

    if not text.strip()[:1].isalpha():
        bandwidth = parse(text, "B/s")
        return Link(f"link of {show(bandwidth, 'B/s')}", bandwidth, width), ""
    from turnbuckle.cost.packet import link

    bandwidth = float(link(text).bandwidth(1 << 30, "read"))
    return Link(text.strip().lower(), bandwidth, width), _printed_length(
        "pcie" if text.strip().lower().startswith("pcie") else "nvlink"
    )


def _machine(name: MachineName, width: int) -> tuple[Link, str]:
    """Return the link of a machine, and its length as the report takes it for its kind; an empty
    text where the report has no such link.
    """
    from turnbuckle.papers.models.on_machine import large_copy
    from turnbuckle.replay.contention.loop import Link

    machine = load(name)
    return Link(machine.name, large_copy(machine), width), _printed_length(machine.coupling)


def _printed_length(kind: str) -> str:
    from turnbuckle.papers.ecp.simulators import PAPER

    word = {"pcie": "PCIe4", "nvlink": "NVLink2"}.get(kind)
    return "" if word is None else f"{PAPER.text('SSI', 'length of the link', word)} cm"


def _print(console: Terminal, answer: Answered, simulated: Simulated | None) -> None:

    loop, link = answer.loop, answer.link
    farthest = max(answer.longer, key=lambda r: r.propagation_seconds)
    console.note(
        f"{link.name}, now {answer.now.distance}: without any length {_ratio(answer.benefit)} "
        f"faster, with {farthest.distance} "
        f"{_ratio(farthest.ratio)} slower",
        "bold",
    )
    if simulated is not None:
        whose = (
            f"call{'s' if loop.calls > 1 else ''} of "
            f"{clean(simulated.kernel, 60) if simulated.kernel else 'all kernels'}"
        )
        part = (
            answer.now.seconds / simulated.recorded_seconds if simulated.recorded_seconds else 0.0
        )
        console.print(
            f"{loop.calls:,} {whose}; today's loop is {part:.1%} of the recorded "
            f"{seconds(simulated.recorded_seconds)}"
        )
        if simulated.devices > min(loop.workers, loop.streams * (loop.in_flight or loop.calls)):
            apart = (
                f"--streams {simulated.devices} --workers {simulated.devices} --calls "
                f"{-(-simulated.calls // simulated.devices)}"
            )
            warning = (
                f"calls of {simulated.devices} GPUs, here one after the other; {apart} has them "
                "side by side"
            )
            console.note(warning, "yellow")
        if simulated.migrated_bytes:
            console.note(
                f"{show(simulated.migrated_bytes, 'B')} of pages moved on demand are left out",
                "yellow",
            )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for k, name in enumerate(
        ("link", "one way", "run time", "vs now", "affine law", "link out / back", "workers")
    ):
        table.add_column(
            name, justify="left" if k == 0 else "right", overflow="fold", no_wrap=k > 0
        )
    for row in answer.rows:
        times = (
            show(row.propagation_seconds, "s"),
            show(row.seconds, "s", 4),
            _ratio(row.ratio),
            _ratio(row.affine_ratio),
        )
        busy = f"{row.busy_to_device:.1%} / {row.busy_to_host:.1%}"
        table.add_row(row.distance, *times, busy, f"{row.busy_workers:.1%}")
    console.print(table)
    flown = (
        "no limit on calls in flight"
        if not loop.in_flight
        else f"{loop.in_flight:,} in flight"
        if loop.in_flight > 1
        else "blocking calls"
    )
    queued = f", {loop.queue:,} entries at the device" if loop.queue else ""
    on = "on it" if answer.affine else f"off it by {answer.off_the_line:.1%}"
    console.note(
        f"{loop.streams} x {loop.calls:,} call{'s' if loop.calls > 1 else ''} of "
        f"{show(loop.to_device_bytes, 'B')} out, "
        f"{show(loop.to_host_bytes, 'B')} back and "
        f"{show(loop.kernel_seconds, 's')} on {loop.workers} "
        f"worker{'s' if loop.workers > 1 else ''}, {flown}{queued}; "
        f"{link.width} x {show(link.bandwidth, 'B/s')} each way; propagation paid by the "
        f"{answer.quantum}; "
        f"last columns: how busy; the affine law (1 + (b - 1) k) / b: {on}"
    )
    console.note(away_in_words("ssi"))


def _ratio(value: float) -> str:
    """Return a ratio as text; close to 1 as its difference from 1."""
    if value == 1 or abs(value - 1) >= 5e-4:
        return f"{value:.3f}x"
    return f"1{value - 1:+.1e}".replace("e-0", "e-")
