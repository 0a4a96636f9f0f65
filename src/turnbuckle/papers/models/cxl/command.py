"""Commands ``turnbuckle model cxl`` and ``turnbuckle model chain``: transfers over CXL and PCIe,
and chains of accelerators.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.text import Text

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.foundation.units import parse, show
from turnbuckle.show.terminal.cells import clean
from turnbuckle.show.terminal.console import Terminal
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import NO_PART, NoCache, PartOptions, Recorded, listed
from turnbuckle.show.terminal.progress import working
from turnbuckle.show.terminal.recording import inspected
from turnbuckle.show.terminal.tables import unframed

if TYPE_CHECKING:
    from turnbuckle.cost.pcie import Pcie
    from turnbuckle.cost.wire import Way
    from turnbuckle.foundation.arrays import Float
    from turnbuckle.papers.models.cxl.chain import Played

#: Sizes shown where none are asked for.
SIZES = ("64 B", "256 B", "1 KiB", "4 KiB", "16 KiB", "64 KiB", "1 MiB", "16 MiB")
_LIMIT_BYTES = 1 << 22
#: Longest time and smallest share that are accepted [s], [1].
_LONGEST, _LEAST_SHARE = 1e9, 1e-6
#: Among flows within this relative difference of the fastest, the simplest one is named.
_ALIKE = 0.01
#: Width of a column of times in characters.
_COLUMN = 10


def cxl(
    *,
    sizes: Annotated[
        list[str] | None,
        Parameter(help="bytes of a transfer: several times or with commas", negative=()),
    ] = None,
    link: Annotated[
        str, Parameter(help="PCI Express below both: generation and lanes")
    ] = "pcie3-x16",
    start_up: Annotated[
        str | None,
        Parameter(
            help=(
                "of a PCIe transfer (equation 9); 738 ns if left out, which is what the report's "
                "numbers leave"
            )
        ),
    ] = None,
    measured: Annotated[
        Path | None,
        Parameter(help="copies you measured (bandwidthTest, CSV, ...): their start-up instead"),
    ] = None,
    share: Annotated[
        list[str] | None,
        Parameter(
            help="of PCIe's bandwidth that CXL reaches (equation 11); 0.6 and 90% if left out",
            negative=(),
        ),
    ] = None,
    line_time: Annotated[str, Parameter(help="access to one cache line of 64 B")] = "40 ns",
    lines_in_flight: Annotated[
        int,
        Parameter(
            help=(
                "cache misses open at once (equation 10), up to what the link carries; the "
                "report has 1"
            )
        ),
    ] = 1,
    as_printed: Annotated[
        bool,
        Parameter(help="equation 10 without its ceil: a part of a line costs a part", negative=()),
    ] = False,
    tags: Annotated[
        int | None,
        Parameter(help="reads that may be on their way at once, with --round-trip: limits PCIe"),
    ] = None,
    round_trip: Annotated[
        str | None, Parameter(help="from a read request to its data, with --tags")
    ] = None,
) -> ModelAnswer:
    """Compare transfers over PCIe with those over CXL: times by size, crossovers, what offloading
    must save (equations 9 to 11).
    """
    from turnbuckle.cost import packet
    from turnbuckle.cost.pcie import Pcie

    if (tags is None) != (round_trip is None):
        raise error_of("A028.pair")
    wire = packet.link(link)
    if not isinstance(wire, Pcie):
        raise error_of("A028.cxl", found=link[:40])
    shares = _values(share, ("0.6", "0.9"), "--share")
    if start_up is not None and measured is not None:
        raise error_of("A028.start")
    times = {"--start-up": parse(start_up or "738 ns", "s"), "--line-time": parse(line_time, "s")}
    for name, value in times.items():
        if not 0 <= value <= _LONGEST:
            raise error_of(
                "A028.negative" if value < 0 else "A028.large", found=f"{value:g} s", name=name
            )
    if lines_in_flight < 1 or (tags is not None and tags < 1):
        raise error_of("A028.flight")
    shown = None if measured is None else _measured(measured, wire)
    document = compared(
        wire,
        _values(sizes, SIZES, "--sizes"),
        shares=list(dict.fromkeys(shares)),
        start_up=times["--start-up"] if shown is None else shown["seconds"],
        line_seconds=times["--line-time"],
        lines_in_flight=lines_in_flight,
        whole_lines=not as_printed,
        reads=None if tags is None or round_trip is None else (tags, parse(round_trip, "s")),
    )
    document["measured_start_up"] = shown
    return ModelAnswer(document, document["rows"], partial(_print_compared, document=document))


def _measured(path: Path, wire: Pcie) -> dict[str, Any]:
    """Return the start-up of measured copies: of the first curve to the device, else of the first
    to the host.
    """
    from turnbuckle.machine.measured.logs import read_measured
    from turnbuckle.papers.models.cxl.cost import measured_start_up

    file = read_measured(path)
    directions: tuple[tuple[str, Way], ...] = (("h2d", "read"), ("d2h", "write"))
    for direction, transfer in directions:
        for curve in file.curves:
            if curve.direction != direction or curve.memory == "pageable" or curve.streamed:
                continue
            start_up = measured_start_up(
                curve.size_bytes, curve.seconds, wire.bandwidth(curve.size_bytes, transfer)
            )
            if start_up is None:
                continue
            seconds, copies = start_up
            if not seconds.value:
                raise error_of("A148.fast", where=file.name, found=curve.name, name=wire.name)
            about = {
                "file": file.name,
                "curve": curve.name,
                "copies": copies,
                "seconds": seconds.value,
            }
            return {**about, "middle_half_seconds": [seconds.low, seconds.high]}
    raise error_of("A148.copies", where=file.name)


def _values(given: list[str] | None, otherwise: tuple[str, ...], option: str) -> list[float]:
    """Return the shares, or sizes [B], of an option, or its defaults (A028)."""
    words = list(otherwise) if given is None else listed(given)
    if not words:
        raise error_of("A028.empty", option=option, otherwise=otherwise[0])
    unit, least, most = ("1", _LEAST_SHARE, 1.0) if option == "--share" else ("B", 1.0, 1e15)
    values = [parse(word, unit) for word in words]
    for word, value in zip(words, values, strict=True):
        if not least <= value <= most:
            raise error_of("A028.share" if option == "--share" else "A028.size", found=word[:40])
    return values


def compared(
    wire: Pcie,
    sizes: list[float],
    *,
    shares: list[float],
    start_up: float,
    line_seconds: float,
    lines_in_flight: int,
    whole_lines: bool,
    reads: tuple[int, float] | None,
) -> dict[str, Any]:
    """Return the document of ``model cxl``: one row for each size and law, and where each law stops
    being faster than PCIe.

    ``wire_bandwidth`` is what the link carries at the largest size, ``lines_bandwidth`` what the
    lines in flight would ask of it.
    """
    import numpy as np

    from turnbuckle.cost import packet
    from turnbuckle.cost.loggp import loggp_seconds
    from turnbuckle.papers.models.cxl import cost as law

    def free(n: Float, carried: Float) -> Float:
        return loggp_seconds(n, start_up, carried)

    def lines(n: Float, carried: Float) -> Float:
        return law.cxl_line_seconds(
            n,
            line_seconds,
            lines_in_flight=lines_in_flight,
            whole_lines=whole_lines,
            bandwidth=carried,
        )

    def streamed(share: float) -> law.Law:
        return lambda n, carried: loggp_seconds(n, line_seconds, share * carried)

    laws: list[tuple[str, float | None, law.Law]] = [("pcie", None, free)]
    if reads is not None:
        asked = {"tags": reads[0], "round_trip": reads[1]}
        laws.append(
            (
                "pcie_reads_limited",
                None,
                lambda n, _: loggp_seconds(
                    n, start_up, packet.read_limited(n, wire, "both", **asked)
                ),
            )
        )
    of_cxl: list[tuple[str, float | None, law.Law]] = [
        ("cxl1", None, lines),
        *(("cxl2", share, streamed(share)) for share in shares),
    ]
    sizes_bytes = np.array(sizes)
    bandwidths = wire.bandwidth(sizes_bytes, "both")
    base = free(sizes_bytes, bandwidths)
    rows: list[dict[str, Any]] = []
    for name, share, seconds in (*laws, *of_cxl):
        for n, t, b in zip(sizes_bytes, seconds(sizes_bytes, bandwidths), base, strict=True):
            row = {
                "size_bytes": float(n),
                "law": name,
                "share": share,
                "seconds": float(t),
                "relative": float(t / b) if b else None,
            }
            rows.append({**row, "offload_bound_seconds": 2.0 * float(t)})
    where = law.crossovers(
        [seconds for *_, seconds in of_cxl], free, lambda n: wire.bandwidth(n, "both"), _LIMIT_BYTES
    )
    ends = [
        (None, None) if crossing is None else (crossing.first, min(crossing.last, _LIMIT_BYTES))
        for crossing in where
    ]
    crossings = [
        {"law": name, "share": share, "first_bytes": first, "last_bytes": last}
        for (name, share, _), (first, last) in zip(of_cxl, ends, strict=True)
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "link": wire.name,
        "start_up_seconds": start_up,
        "line_seconds": line_seconds,
        "line_bytes": law.LINE_BYTES,
        "lines_in_flight": lines_in_flight,
        "lines_bandwidth": lines_in_flight * law.LINE_BYTES / line_seconds
        if line_seconds
        else None,
        "wire_bandwidth": float(wire.bandwidth(sizes_bytes.max(), "both")),
        "whole_lines": whole_lines,
        "tags": None if reads is None else reads[0],
        "round_trip_seconds": None if reads is None else reads[1],
        "searched_bytes": _LIMIT_BYTES,
        "rows": rows,
        "crossovers": crossings,
    }


def _label(name: str, share: float | None) -> str:
    words = {"pcie": "PCIe", "pcie_reads_limited": "reads limited", "cxl1": "CXL 1"}
    return words.get(name) or f"CXL 2 {share:.4g}"


def _print_compared(console: Terminal, document: dict[str, Any]) -> None:

    rows = document["rows"]
    laws = list(dict.fromkeys((r["law"], r["share"]) for r in rows))
    by_law = {key: [r for r in rows if (r["law"], r["share"]) == key] for key in laws}
    access, start = show(document["line_seconds"], "s"), show(document["start_up_seconds"], "s")
    console.print(
        Text(
            f"{document['link']} with both ways busy, start-up {start}; CXL {access} a line of 64 B"
        )
    )
    if (shown := document["measured_start_up"]) is not None:
        low, high = (show(t, "s") for t in shown["middle_half_seconds"])
        copies = "1 copy" if shown["copies"] == 1 else f"{shown['copies']:,} copies"
        words = (
            f"start-up from {copies} of {clean(shown['file'])}, {clean(shown['curve'])}: half of "
            f"them {low} to {high}"
        )
        console.print(words, style="dim")
    console.print()
    heads = [_label(*key) for key in laws]
    sizes = [show(r["size_bytes"], "B") for r in by_law[laws[0]]]
    columns = [
        (head, [show(r["seconds"], "s") for r in by_law[key]])
        for head, key in zip(heads, laws, strict=True)
    ]
    # a limit on reads replaces unlimited PCIe in the comparison
    real = (
        [key for key in laws if key[0] != "pcie"] if ("pcie_reads_limited", None) in laws else laws
    )
    best = [min(real, key=lambda key, k=k: by_law[key][k]["seconds"]) for k in range(len(sizes))]  # type: ignore[misc]
    columns.append(("fastest", [_label(*key) for key in best]))
    columns.append(
        (
            "worth moving",
            [show(by_law[key][k]["offload_bound_seconds"], "s") for k, key in enumerate(best)],
        )
    )
    fits = max(2, (console.width - 8) // _COLUMN)
    for first in range(0, len(columns), fits):
        part = columns[first : first + fits]
        table = unframed("size", *(head for head, _ in part))
        for k, size in enumerate(sizes):
            table.add_row(size, *(cells[k] for _, cells in part))
        console.print(table)
        console.print()
    console.note("worth moving: a task that saves more than two such transfers, by the fastest")
    if real is not laws:
        console.note(
            "fastest: PCIe with its reads limited; --line-time says what the same distance "
            "does to CXL"
        )
    console.note("CXL 1: line after line; CXL 2: a stream at a share of PCIe's bandwidth")
    asked, carried = document["lines_bandwidth"], document["wire_bandwidth"]
    if asked is None or asked > carried:
        flown = (
            f"{document['lines_in_flight']:,} lines in flight ask for "
            f"{'any speed' if asked is None else show(asked, 'B/s')}"
        )
        console.note(f"CXL 1: {flown}; the link carries {show(carried, 'B/s')}, which bounds them")
    console.print()
    for crossing in document["crossovers"]:
        console.print(_crossed(crossing, document["searched_bytes"]))
    largest = max(r["size_bytes"] for r in rows)
    largest_rows = [
        r for r in rows if r["size_bytes"] == largest and r["law"] != "pcie" and r["relative"]
    ]
    ratios = ", ".join(f"{_label(r['law'], r['share'])} {r['relative']:.6g}" for r in largest_rows)
    console.print(Text(f"at {show(largest, 'B')}, in times of PCIe: {ratios}"))


def _crossed(crossing: dict[str, Any], searched: int) -> str:
    """Return the crossover of a CXL law with PCIe as a sentence."""
    name, first, last = (
        _label(crossing["law"], crossing["share"]),
        crossing["first_bytes"],
        crossing["last_bytes"],
    )
    if first is None:
        return f"{name} is faster than PCIe at every size up to {show(searched, 'B')}"
    if first == 1:
        return (
            f"{name} is never faster than PCIe"
            if last <= 1
            else f"{name} is faster than PCIe at some sizes below {last:,} B only"
        )
    again = f", and here and there up to {last:,} B" if last > first else ""
    return f"{name} is faster than PCIe below {first:,} B ({first / 1024:.4g} KiB){again}"


def chain(
    file: Annotated[
        Path, Parameter(help="TOML: stages, the bytes they receive, links between devices")
    ],
    /,
    *,
    items: Annotated[
        int | None, Parameter(help="how often the chain runs; as the file says if left out")
    ] = None,
    in_flight: Annotated[
        int | None,
        Parameter(help="items under way at once when pipelined; as the file says if left out"),
    ] = None,
    profile: Annotated[
        Recorded | None, Parameter(help="a recording for the stage without a time")
    ] = None,
    per: Annotated[
        Literal["run", "kernel"],
        Parameter(help="what one item of the recording is: all of it, or one kernel"),
    ] = "run",
    stage: Annotated[
        str | None,
        Parameter(help="the stage to take from the recording; the one without a time if left out"),
    ] = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> ModelAnswer:
    """Replay a chain of accelerators: through the host, directly, through a shared cache, and each
    of them pipelined.
    """

    from turnbuckle.papers.models.cxl.chain import play
    from turnbuckle.papers.models.cxl.chain_file import read_chain

    for name, value in (("--items", items), ("--in-flight", in_flight)):
        if value is not None and value < 1:
            raise error_of("A029.count", found=str(value), name=name)
    if profile is None and (stage is not None or per != "run" or any(part.idle().values())):
        raise error_of("A029.recording")
    declared = read_chain(file)
    declared = replace(
        declared, items=items or declared.items, in_flight=in_flight or declared.in_flight
    )
    if profile is not None:
        from turnbuckle.papers.models.cxl.chain import with_recording

        declared = with_recording(
            declared, inspected(profile, None, no_cache, part).profile, per=per, stage=stage
        )
    with working("replaying"):
        played = play(declared)
    document = played.as_dict()
    return ModelAnswer(document, document["flows"], partial(_print_chain, played=played))


def _print_chain(console: Terminal, played: Played) -> None:

    chain, today = played.chain, played.today
    stages = ", ".join(
        f"{s.name} on {s.device} {show(s.seconds or 0.0, 's')}" for s in chain.stages
    )
    console.print(
        f"{clean(chain.name)}: {chain.items or 0:,} {'item' if chain.items == 1 else 'items'} "
        f"of {stages}"
    )
    console.print()
    table = unframed("flow", "run time", "speed-up", "one item", "busiest", "busy")
    for f in played.flows:
        busy = f"{f.busy_seconds / f.seconds:.1%}" if f.seconds else "-"
        gain = f"{today.seconds / f.seconds:.3g}x" if f.seconds else "-"
        table.add_row(
            f.name, show(f.seconds, "s"), gain, show(f.first_seconds, "s"), f.busiest, busy
        )
    console.print(table)
    console.print()
    for left in played.left_out:
        console.note(f"left out, {left}")
    _print_path(console, played)
    if played.penalty is not None:
        console.print(
            f"disaggregation penalty (run time over the time of all stages): {played.penalty:.4g}"
        )
    for flaw in chain.findings:
        if flaw.severity != "info":
            console.note(f"{flaw.code}  {flaw.count:,}  {flaw.meaning} ({flaw.detail})", "yellow")


def _print_path(console: Terminal, played: Played) -> None:
    fastest = min(f.seconds for f in played.flows)
    simplest = next(f for f in played.flows if f.seconds <= fastest * (1 + _ALIKE))
    shown = {
        played.today.name: "today",
        simplest.name: f"simplest flow within {_ALIKE:.0%} of the fastest",
    }
    for flow in (played.today, *([] if simplest is played.today else [simplest])):
        parts = sorted(flow.path_seconds.items(), key=lambda part: -part[1])
        if flow.seconds:
            shares = ", ".join(
                f"{where} {spent / flow.seconds:.1%}"
                for where, spent in parts
                if spent >= 5e-4 * flow.seconds
            )
            console.print(Text(f"{shown[flow.name]}: {flow.name}; its critical path: {shares}"))
