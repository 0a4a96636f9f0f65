"""``turnbuckle model order``: what several recordings of one program say about its order."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.units import parse
from turnbuckle.show.terminal.cells import clean, seconds
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import NO_PART, NoCache, PartOptions, Recorded, Source
from turnbuckle.show.terminal.recording import inspected
from turnbuckle.show.terminal.tables import unframed

if TYPE_CHECKING:
    from rich.console import Console

    from turnbuckle.questions.order.question import Order

Recordings = Annotated[
    list[Recorded],
    Parameter(
        help="two or more recordings of one program, disturbed differently; the first is replayed"
    ),
]
Slack = Annotated[
    str, Parameter(name="--slack", help="added one-way latency at which the order is tried out")
]
_SHOWN = 12
_LONGEST = 3600.0  # [s]


def order(
    recordings: Recordings,
    /,
    *,
    slack: Slack = "10 us",
    source: Source = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> ModelAnswer:
    """Find which order several recordings have in common: dependencies across threads and streams,
    and how many may be false.
    """
    from turnbuckle.questions.order import question as orders

    delay = parse(slack, "s")
    if not 0 <= delay <= _LONGEST:
        raise error_of("A017.slack", found=slack[:40], longest=_LONGEST)
    answers = [inspected(path, source, no_cache, part) for path in recordings]
    order_found = orders.order([a.profile for a in answers])

    @cache
    def delayed() -> tuple[float, float, float]:  # a table does without
        return (delay, *orders.at_distance(answers[0], order_found, delay))

    def document() -> dict[str, Any]:
        keys = dict(
            zip(("slack_s", "seconds_by_rules", "seconds_with_order"), delayed(), strict=True)
        )
        return {**order_found.as_dict(), **keys, "provenance": [a.provenance() for a in answers]}

    return ModelAnswer(
        document, order_found.table(), lambda console: show(console, order_found, delayed())
    )


def show(
    console: Console, answer: Order, delayed: tuple[float, float, float] | None = None
) -> None:
    """Print the order; `delayed` is an added latency, the run time with it by the rules, and with
    this order besides [s].
    """
    about = answer.as_dict()
    wrong = about["false_share"]
    console.print(
        f"{about['dependencies']:,} dependencies across {about['tracks']} threads and streams "
        f"hold in all {about['runs']} recordings"
    )
    table = unframed("what", "answer", words=("what", "answer"), heading=False)
    explained = about["explained_share"]
    rows = (
        (
            "activities in all recordings",
            f"{about['activities']:,}; left out {', '.join(f'{n:,}' for n in about['unmatched'])}",
        ),
        ("changed places on their own track", f"{about['disordered']:,}, set aside"),
        (
            "also follow from the rules",
            "not computed for a run this long" if explained is None else f"{explained:.1%}",
        ),
        ("refuted by the recording left out", ", ".join(f"{r:.1%}" for r in about["refuted"])),
        (
            "false among the rest",
            "unknown"
            if wrong is None
            else f"{wrong[0]:.1%} to {wrong[1]:.1%}, if disturbed independently",
        ),
        (
            "levels",
            (
                f"{about['levels']:,} with {about['widest_level']:,} activities at most, "
                f"{about['mean_level']:.2f} on average"
            ),
        ),
    )
    for what, text in rows:
        table.add_row(Text(what, "dim"), text)
    if delayed is not None:
        added, rules, with_order = delayed
        times = f"{seconds(rules)} by the rules, {seconds(with_order)} with this order besides"
        table.add_row(Text(f"run time with {seconds(added)} of added latency", "dim"), times)
    console.print(table)
    console.print()
    for sentence in about["words"]:
        console.print(clean(sentence, 400), soft_wrap=True)
    pairs = about["at_once"]
    if pairs:
        words = ("kernel", "on", "beside")
        beside = unframed(
            "pairs",
            "kernel",
            "on",
            "beside",
            "on",
            words=words,
            title="kernels that may run at once",
        )
        for pair in pairs[:_SHOWN]:
            named = (
                clean(pair["first"], 40),
                pair["first_track"],
                clean(pair["then"], 40),
                pair["then_track"],
            )
            beside.add_row(f"{pair['pairs']:,}", *named)
        console.print(beside)
        if len(pairs) > _SHOWN:
            console.print(
                Text(
                    f"and {len(pairs) - _SHOWN:,} more kinds; --format json lists them", style="dim"
                )
            )
        console.print()
    if not any(about["refuted"]):
        console.print(
            Text(
                "no recording refutes another; perhaps the runs were disturbed too little",
                style="yellow",
            )
        )
    unknown = answer.table()
    if explained is not None:
        unknown = unknown.filter(~unknown["rule"])
    if unknown.height:
        console.print()
        words = ("first", "on", "then")
        shown = unframed(
            "count", "first", "on", "then", "on", words=words, title="order that no rule explains"
        )
        groups = unknown.group_by(
            "first",
            "first_instant",
            "first_track",
            "then",
            "then_instant",
            "then_track",
            maintain_order=True,
        ).len()
        for group in (
            groups.sort("len", descending=True, maintain_order=True)
            .head(_SHOWN)
            .iter_rows(named=True)
        ):
            first, then = (
                f"{group[f'{w}_instant']} of {clean(group[w], 40)}" for w in ("first", "then")
            )
            shown.add_row(
                f"{group['len']:,}", first, group["first_track"], then, group["then_track"]
            )
        console.print(shown)
        if groups.height > _SHOWN:
            console.print(
                Text(
                    f"and {groups.height - _SHOWN:,} more kinds; --format csv lists all",
                    style="dim",
                )
            )
