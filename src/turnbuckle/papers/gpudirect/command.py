"""Command ``turnbuckle model patterns``: GPUDirect against host copies on declared patterns, beside
the paper's ranges or by size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.table import Table

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.foundation.units import parse, show
from turnbuckle.show.terminal.console import Terminal
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import rank_counts
from turnbuckle.show.terminal.progress import working
from turnbuckle.show.terminal.tables import unframed

_SIZES = "1 KiB,4 KiB,16 KiB,32 KiB,64 KiB,256 KiB,1 MiB,4 MiB,16 MiB"


def patterns(
    *names: Annotated[
        str, Parameter(help="AmgX, LULESH, Minisweep, SW4lite; all of them if none is named")
    ],
    by_size: Annotated[
        bool,
        Parameter(
            help="a ping-pong and halos by message size instead of applications", negative=()
        ),
    ] = False,
    sizes: Annotated[
        str | None, Parameter(help="message sizes for --by-size (1 KiB to 16 MiB)")
    ] = None,
    ranks: Annotated[
        str | None,
        Parameter(
            help=(
                "numbers of ranks, or all of the paper's; its fewest and most if left out (by "
                "size: 64)"
            )
        ),
    ] = None,
    ranks_per_node: Annotated[str, Parameter(help="node shapes, one GPU a rank")] = "1,2,4,6",
    hop: Annotated[str | None, Parameter(help="latency of one link of the network")] = None,
    overhead: Annotated[
        str, Parameter(help="processor time of sending, and of receiving, a message")
    ] = "0 us",
    costs: Annotated[
        Literal["physics", "seed_G"],
        Parameter(
            help=(
                "seed_G: the paper's one copy and one pin a message; physics: a copy at either "
                "end, memory stays pinned"
            )
        ),
    ] = "seed_G",
    fidelity: Annotated[
        Literal["flow", "logp", "packet"],
        Parameter(
            help=(
                "flow: messages share links fairly; logp: LogGPS; packet: packets queue at every "
                "link"
            )
        ),
    ] = "flow",
    collectives: Annotated[
        Literal["short and long", "tracer", "open mpi", "mpich"],
        Parameter(help="algorithms of collectives"),
    ] = "tracer",
    eager_limit: Annotated[
        str, Parameter(help="messages up to this size do not wait for their receiver")
    ] = "8 KiB",
    set_: Annotated[
        list[str] | None, Parameter(help="any other setting of model messages as name=value")
    ] = None,
) -> ModelAnswer:
    """Compare GPUDirect with host copies on declared patterns: the paper's four applications beside
    its ranges, or by message size.
    """
    from turnbuckle.mpi.questions.messages.setup import with_settings
    from turnbuckle.mpi.questions.patterns.question import OF_THE_PAPER, ON_ONE_SWITCH

    _unused(names, by_size, sizes, set_ or [])
    machine = replace(
        ON_ONE_SWITCH if by_size else OF_THE_PAPER,
        hop_seconds=None if hop is None else parse(hop, "s"),
    )
    costed = replace(
        machine,
        overhead_seconds=parse(overhead, "s"),
        costs=costs,
        eager_limit_bytes=parse(eager_limit, "B"),
    )
    setup = with_settings(replace(costed, fidelity=fidelity, collectives=collectives), set_ or [])
    each = rank_counts(ranks_per_node, "--ranks-per-node 1,2,4,6")
    if by_size:
        several = [parse(word, "B") for word in (_SIZES if sizes is None else sizes).split(",")]
        return _sized(several, rank_counts(ranks or "64", "--ranks 64"), each, setup)
    return _applications(names, ranks, each, setup)


def _unused(names: Sequence[str], by_size: bool, sizes: str | None, words: Sequence[str]) -> None:
    """Refuse options that would have no effect (A093, A051)."""
    from turnbuckle.mpi.questions.gpudirect.question import refuse_varied

    if by_size and names:
        raise error_of("A093.application", found=f"{names[0][:40]} by size")
    if sizes is not None and not by_size:
        raise error_of("A093.sizes", found=sizes[:60])
    refuse_varied(words)
    if any(word.partition("=")[0].strip() == "ranks" for word in words):
        raise error_of("A051.ranks", found="ranks")


def _applications(
    names: Sequence[str], ranks: str | None, per_node: list[int], setup: Any
) -> ModelAnswer:
    from turnbuckle.papers.gpudirect import patterns as paper

    asked = {app.name: app for app in map(paper.application, names or paper.NAMES)}
    counts = (
        [] if ranks in (None, "all") else rank_counts(str(ranks), "--ranks 32,256, or --ranks all")
    )
    replays: list[paper.Replayed] = []
    with working("replaying"):
        for app in asked.values():
            several = app.ranks if ranks == "all" else counts or (app.ranks[0], app.ranks[-1])
            replays += paper.replayed(app, setup, ranks=several, ranks_per_node=per_node)
    answer = paper.Answered(replays, setup)
    return ModelAnswer(
        answer.as_dict(), answer.rows(), partial(_print, replays=replays, setup=setup)
    )


def _print(console: Terminal, replays: Sequence[Any], setup: Any) -> None:

    from turnbuckle.papers.gpudirect.patterns import ASSUMED, spans

    console.note(_headline(replays), "bold")
    for app in dict.fromkeys(r.application.name for r in replays):
        of_application = [r for r in replays if r.application.name == app]
        about = of_application[0].application
        several = sorted(
            {g.ranks for r in of_application for g in r.gains}
            | {n for r in of_application for n in r.lacking}
        )
        rises = [
            n
            for n in about.increases
            if any(
                c.what == "increase" and c.ranks == n for r in of_application for c in r.compared()
            )
        ]
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("assumed", overflow="fold", ratio=3)
        for head in ("gain of GPUDirect\n[%]", *(f"6 ranks a node,\n{n} ranks [%]" for n in rises)):
            table.add_column(head, overflow="fold", ratio=2)
        ends = [about.gain, *(about.increases[n] for n in rises)]
        table.add_row(
            "printed", *(_range(low.value, high.value, ".6g") for low, high in ends), style="bold"
        )
        for replay in of_application:
            by = {(c.what, c.ranks): c for c in replay.compared()}
            cells = [by["gain", 0], *(by.get(("increase", n)) for n in rises)]
            table.add_row(
                replay.assumption, *("" if c is None else _cell(c, c.verdict) for c in cells)
            )
        over = {(c.what, c.ranks): c for c in spans(of_application)}
        words = {
            "wholly": "hold it wholly",
            "in part": "hold it in part",
            "not at all": "do not hold it",
        }
        cells = [over["gain", 0], *(over["increase", n] for n in rises)]
        table.add_row("any of these", *(_cell(c, words[c.spanned]) for c in cells), style="bold")
        console.print()
        console.note(f"{app}, {', '.join(map(str, several))} ranks", "bold")
        console.print(table)
    console.print()
    console.note(
        "Gain: communication by host copies over GPUDirect, less 1, on all node shapes. 6 ranks "
        "a node: communication over that of 1 a "
        f"node, less 1, by either path. {_conditions(setup)}. Printed: section V of Khetawat et "
        "al., weak scaling. Not printed, and "
        f"assumed: {'; '.join(ASSUMED)}."
    )


def _headline(replays: Sequence[Any]) -> str:
    """Return how many printed ranges the replays cover, and how many replayed ranges lie inside the
    printed ones.
    """
    from turnbuckle.papers.gpudirect.patterns import spans

    printed = [c.spanned for c in spans(replays)]
    out = [c.verdict for r in replays for c in r.compared()]
    lacking = out.count("no such share")
    inside, overlap = out.count("inside"), out.count("overlaps")
    return (
        f"declared synthetic patterns, not recordings: of {len(printed)} printed ranges "
        f"{printed.count('wholly')} lie within what the "
        f"assumptions span, {printed.count('in part')} in part; of {len(out) - lacking} ranges "
        f"that come out {inside} lie inside what is "
        f"printed, {overlap} overlap it"
        + (f"; {lacking} need a share of communication that no compute gives" if lacking else "")
    )


def _conditions(setup: Any) -> str:
    from turnbuckle.mpi.questions.messages.setup import network_of

    paid, network = setup.paid, network_of(setup, 1)
    machine = Path(setup.network_name).name or "one switch"
    machine = machine if setup.topology == "as given" else f"a {setup.topology}"
    return (
        f"Replayed by {setup.fidelity} on {machine}, {show(network.bandwidth, 'B/s')} a card, "
        f"{show(network.hop_seconds, 's')} a link, {show(setup.peer_bandwidth, 'B/s')} between "
        "GPUs of a node; host copies a message: "
        f"{paid.copies:g}, of {show(paid.copy_latency, 's')} and "
        f"{show(1 / paid.copy_per_byte, 'B/s')}; pins: {paid.pins:g}, of "
        f"{show(paid.pin_seconds, 's')}"
    )


def _range(low: float, high: float, digits: str = ".1f") -> str:
    least, most = f"{100 * low:{digits}}", f"{100 * high:{digits}}"
    return least if least == most else f"{least} to {most}"


def _cell(compared: Any, verdict: str) -> str:
    if compared.verdict == "no such share":
        return "no such share"
    return f"{_range(compared.found_low, compared.found_high)}\n{verdict}"


def _sized(sizes: list[float], ranks: list[int], per_node: list[int], setup: Any) -> ModelAnswer:

    from turnbuckle.mpi.questions.gpudirect.cost import break_even_bytes
    from turnbuckle.mpi.questions.patterns.question import SIZED, by_size, crossover
    from turnbuckle.mpi.replay.patterns import LABEL

    if len(ranks) != 1:
        raise error_of("A093.one", found=f"halos of {len(ranks)} sizes")
    with working("replaying"):
        replays = list(by_size(sizes, per_node, setup, ranks=ranks[0]))
    rows = [
        {"pattern": s.what, "size_bytes": s.size_bytes, **asdict(g), "gain": g.gain}
        for s in replays
        for g in s.gains
    ]
    crossovers = [
        {
            "pattern": what,
            "ranks_per_node": n,
            "size_bytes": crossover([s for s in replays if s.what == what], n),
        }
        for what in SIZED
        for n in dict.fromkeys(per_node)
    ]
    document = {
        "schema_version": SCHEMA_VERSION,
        "label": LABEL,
        "setup": {
            k: v for k, v in setup.as_dict().items() if k not in ("path", "ranks_per_node", "ranks")
        },
        "paths": asdict(setup.paid),
        "break_even_bytes": break_even_bytes(setup.paid),
        "replays": rows,
        "crossovers": crossovers,
    }
    shown = {
        "replays": replays,
        "crossovers": crossovers,
        "per_node": list(dict.fromkeys(per_node)),
        "setup": setup,
    }
    return ModelAnswer(document, rows, partial(_print_sized, **shown))


def _print_sized(
    console: Terminal,
    replays: Sequence[Any],
    crossovers: Sequence[dict[str, Any]],
    per_node: list[int],
    setup: Any,
) -> None:

    from turnbuckle.mpi.questions.gpudirect.cost import break_even_bytes

    edge = break_even_bytes(setup.paid)
    alone = (
        "GPUDirect wins at every size" if edge == 0 else f"GPUDirect wins from {show(edge, 'B')} on"
    )
    console.note(f"declared synthetic patterns; by the closed form of one message {alone}", "bold")
    for what in dict.fromkeys(s.what for s in replays):
        of_pattern = [s for s in replays if s.what == what]
        table = unframed("message", *(f"{n} a node" for n in per_node), words=())
        for by_message in of_pattern:
            table.add_row(
                show(by_message.size_bytes, "B"), *(f"{g.gain:+.1%}" for g in by_message.gains)
            )
        sizes = [c["size_bytes"] for c in crossovers if c["pattern"] == what]
        table.add_row(
            "wins from", *("none" if math.isinf(s) else show(s, "B") for s in sizes), style="dim"
        )
        console.print()
        console.note(f"{what}, {of_pattern[0].gains[0].ranks} ranks", "bold")
        console.print(table)
    console.print()
    console.note(
        f"Communication by host copies over GPUDirect, less 1. {_conditions(setup)}; "
        f"{show(setup.eager_limit_bytes, 'B')} eager for "
        "host copies. A copy keeps its rank busy; pins of several messages pass at the same time."
    )
