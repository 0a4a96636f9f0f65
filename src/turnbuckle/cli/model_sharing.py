"""``turnbuckle model sharing``: several runs behind one host link."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from turnbuckle.cli.options import FormatOption, NoCache, Output, Source

Recording = Annotated[Path, Parameter(help="a recording: Nsight Systems SQLite export")]
Runs = Annotated[str, Parameter(name="--runs", help="how many at once, each on GPUs of its own")]
Link = Annotated[
    str | None,
    Parameter(name="--link", help="the shared link: its bandwidth one way, or pcie4x16; the fastest recorded copy's rate if left out"),
]
Hop = Annotated[str, Parameter(name="--hop", help="latency that a switch adds to each copy")]


def sharing(
    recording: Recording,
    /,
    *,
    runs: Runs = "1,2,4,8",
    link: Link = None,
    hop: Hop = "0 us",
    source: Source = None,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
) -> int:
    """Replay a run several times over at once behind one host link: how much each slows the others down, and how many fit."""
    from turnbuckle.cli.output import write_json, write_rows
    from turnbuckle.cli.progress import working
    from turnbuckle.cli.recording import inspected
    from turnbuckle.errors import UsageError
    from turnbuckle.study import sharing as study
    from turnbuckle.units import parse

    try:
        counts = [int(word) for word in runs.split(",")]
    except ValueError:
        raise UsageError("A075", f"runs at once are whole numbers from 1 to {study.MOST}", found=runs[:60], fix="--runs 1,2,4,8") from None
    bandwidth, delay = _bandwidth(link), parse(hop, "s")
    seen = inspected(recording, source, no_cache)
    with working("replaying"):
        # a copy crosses the shared link and its device's own
        found = study.sharing(seen, counts, bandwidth=bandwidth, hop_seconds=delay / 2)
    if format == "json":
        write_json({**found.as_dict(), "provenance": seen.provenance()}, output)
    elif format != "table":
        write_rows([r.__dict__ for r in found.rows], format, output)
    else:
        _print(found, output)
    return 0


def _bandwidth(text: str | None) -> float | None:
    """``25 GB/s``, or what a link named as pcie4x16 gives one way to a large copy."""
    from turnbuckle.units import parse

    if text is None:
        return None
    if text.strip()[:1].isalpha():
        from turnbuckle.cost.packet import link

        return float(link(text).bandwidth(1 << 30, "read"))
    return parse(text, "B/s")


def _print(found: Any, output: Path | None) -> None:
    from rich.table import Table
    from rich.text import Text

    from turnbuckle.cli.show import seconds
    from turnbuckle.cli.terminal import console_for
    from turnbuckle.units import show

    console = console_for(output)
    fit, most = found.fit, max(r.runs for r in found.rows)
    if fit is None:
        verdict = "not even one run keeps within 5 % of its recorded time behind this link"
    elif fit == most:
        verdict = f"{fit} of these runs fit behind one link within 5 % each; more were not tried"
    else:
        verdict = f"{fit} of these runs fit behind one link within 5 % each, {fit + 1} do not"
    console.print(Text(verdict, "bold"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("runs at once", "GPUs", "run time of each", "vs recorded", "link busy to device", "to host"):
        table.add_column(name, justify="right", overflow="fold")
    for row in found.rows:
        table.add_row(
            str(row.runs), str(row.runs * found.devices), seconds(row.seconds), f"{row.penalty:.3f}x", f"{row.busy_to_device:.1%}",
            f"{row.busy_to_host:.1%}",
        )  # fmt: skip
    console.print(table)
    whence = "stated" if found.stated else "the fastest recorded copy's rate"
    console.print(
        Text(
            f"link {show(found.bandwidth, 'B/s')} each way ({whence}), {show(2 * found.hop_seconds, 's')} added to each copy; a run makes "
            f"{found.copies:,} copies, {show(found.to_device_bytes, 'B')} to its devices and {show(found.to_host_bytes, 'B')} back; "
            "no copy is faster than it was recorded; fair shares; cores, memory and GPUs are not shared",
            style="dim",
        )
    )
