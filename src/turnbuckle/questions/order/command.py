"""``turnbuckle model order``: what several recordings of one program say about its order."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.units import parse, show
from turnbuckle.show.terminal.cells import clean, seconds
from turnbuckle.show.terminal.console import console_for
from turnbuckle.show.terminal.options import NO_PART, FormatOption, NoCache, Output, PartOptions, Source
from turnbuckle.show.terminal.output import write_frame, write_json
from turnbuckle.show.terminal.recording import inspected

Recordings = Annotated[list[Path], Parameter(help="two or more recordings of one program, disturbed differently; the first is replayed")]
Slack = Annotated[str, Parameter(name="--slack", help="added one-way latency at which the order is tried out")]
_SHOWN = 12
_LONGEST = 3600.0  # [s]


def order(
    recordings: Recordings,
    /,
    *,
    slack: Slack = "10 us",
    source: Source = None,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> int:
    """Find which order several recordings have in common: dependencies across threads and streams, and how many may be false."""
    from turnbuckle.questions.order import question as orders

    delay = parse(slack, "s")
    if not 0 <= delay <= _LONGEST:
        raise error_of("A017.slack", found=slack[:40], longest=_LONGEST)
    answers = [inspected(path, source, no_cache, part) for path in recordings]
    order_found = orders.order([a.profile for a in answers])
    if format in ("csv", "parquet"):
        write_frame(order_found.table(), format, output)
        return 0
    rules, with_order = orders.at_distance(answers[0], order_found, delay)
    about = {**order_found.as_dict(), "slack_s": delay, "seconds_by_rules": rules, "seconds_with_order": with_order}
    if format == "json":
        write_json({**about, "provenance": [a.provenance() for a in answers]}, output)
    else:
        _print(order_found, about, output)
    return 0


def _print(order_found: Any, about: dict[str, Any], output: Path | None) -> None:

    console = console_for(output)
    wrong = about["false_share"]
    console.print(
        f"{about['dependencies']:,} dependencies across {about['tracks']} threads and streams hold in all {about['runs']} recordings"
    )
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    explained = about["explained_share"]
    rows = (
        ("activities in all recordings", f"{about['activities']:,}; left out {', '.join(f'{n:,}' for n in about['unmatched'])}"),
        ("changed places on their own track", f"{about['disordered']:,}, set aside"),
        ("also follow from the rules", "not worked out for so long a run" if explained is None else f"{explained:.1%}"),
        ("refuted by the recording left out", ", ".join(f"{r:.1%}" for r in about["refuted"])),
        (
            "false among what is left",
            "cannot be told" if wrong is None else f"{wrong[0]:.1%} to {wrong[1]:.1%}, if disturbed independently",
        ),
        ("levels", f"{about['levels']:,} with {about['widest_level']:,} activities at most, {about['mean_level']:.2f} on average"),
        (
            f"run time with {show(about['slack_s'], 's')} of added latency",
            f"{seconds(about['seconds_by_rules'])} by the rules, {seconds(about['seconds_with_order'])} with this order besides",
        ),
    )
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print()
    for sentence in about["words"]:
        console.print(clean(sentence, 400), soft_wrap=True)
    pairs = about["at_once"]
    if pairs:
        beside = Table(title="kernels that may run at once", title_justify="left", box=None, pad_edge=False, header_style="dim")
        for column in ("pairs", "kernel", "on", "beside", "on"):
            beside.add_column(column, overflow="fold", justify="right" if column == "pairs" else "left")
        for pair in pairs[:_SHOWN]:
            named = (clean(pair["first"], 40), pair["first_track"], clean(pair["then"], 40), pair["then_track"])
            beside.add_row(f"{pair['pairs']:,}", *named)
        console.print(beside)
        if len(pairs) > _SHOWN:
            console.print(Text(f"and {len(pairs) - _SHOWN:,} more kinds of it; --format json has them", style="dim"))
        console.print()
    if not any(about["refuted"]):
        console.print(Text("no recording refutes another: disturbed too little, perhaps", style="yellow"))
    unknown = order_found.table()
    if explained is not None:
        unknown = unknown.filter(~unknown["rule"])
    if unknown.height:
        console.print()
        shown = Table(title="order that no rule explains", title_justify="left", box=None, pad_edge=False, header_style="dim")
        for column in ("count", "first", "on", "then", "on"):
            shown.add_column(column, overflow="fold", justify="right" if column == "count" else "left")
        groups = unknown.group_by("first", "first_instant", "first_track", "then", "then_instant", "then_track", maintain_order=True).len()
        for row in groups.sort("len", descending=True, maintain_order=True).head(_SHOWN).iter_rows(named=True):
            first, then = (f"{row[f'{w}_instant']} of {clean(row[w], 40)}" for w in ("first", "then"))
            shown.add_row(f"{row['len']:,}", first, row["first_track"], then, row["then_track"])
        console.print(shown)
        if groups.height > _SHOWN:
            console.print(Text(f"and {groups.height - _SHOWN:,} more kinds of it; --format csv has all", style="dim"))
