"""Command ``turnbuckle model network``: run time of one set of messages on several networks."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.units import parse, show
from turnbuckle.show.terminal.cells import plain
from turnbuckle.show.terminal.console import Terminal
from turnbuckle.show.terminal.idle_options import refuse_idle
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import NO_PART, NoCache, PartOptions, Recorded, Source
from turnbuckle.show.terminal.progress import working
from turnbuckle.show.terminal.recording import inspected, provenance_of

if TYPE_CHECKING:
    from turnbuckle.mpi.networks.limppy import Protocol
    from turnbuckle.mpi.questions.network.question import Answered

Given = Annotated[
    Recorded | None,
    Parameter(
        help=(
            "a recording that holds all ranks of an MPI run, or a CSV of messages: message, "
            "from, to, size [B], after, delay [s]"
        )
    ),
]
PatternOption = Annotated[
    str | None,
    Parameter(
        name="--pattern",
        help=(
            "instead of a file: ping-pong:10 (rounds), sweep:4x4 (grid), shift:16x4 (nodes, by "
            "how many)"
        ),
    ),
]
MessageSize = Annotated[
    str | None,
    Parameter(name="--message-size", help="of every message of a pattern; 64 KiB if left out"),
]
Topology = Annotated[
    str,
    Parameter(
        name="--topology",
        help="shapes: switch, fat-tree, torus, dragonfly, as large as needed; or with numbers: "
        "fat-tree:4x4:1x2, torus:4x4x2, "
        "dragonfly:9x4x2x2; or a CSV of cables between switches with a node each: from, to",
    ),
]
FidelityOption = Annotated[
    Literal["limppy", "packet", "flow"],
    Parameter(
        name="--fidelity",
        help="limppy: packets hold link after link, first come first served; packet: they wait in "
        "queues of finite room before each link; "
        "flow: messages share links fairly",
    ),
]
Compute = Annotated[
    float,
    Parameter(
        name="--compute", help="times the recorded compute between calls: 0 leaves messages alone"
    ),
]
Packet = Annotated[str, Parameter(name="--packet", help="payload of a full packet")]
Header = Annotated[str, Parameter(name="--header", help="what every packet carries besides")]
Eager = Annotated[
    str, Parameter(name="--eager-limit", help="messages up to this size are sent at once")
]
Bandwidth = Annotated[
    str,
    Parameter(
        name="--bandwidth",
        help="of a link for remote memory access, and for eager packets: two, or one for both",
    ),
]
NodeLatency = Annotated[
    str,
    Parameter(
        name="--node-latency", help="of a node for eager packets, and for remote memory access"
    ),
]
SwitchLatency = Annotated[str, Parameter(name="--switch-latency", help="of a switch, likewise")]
Legacy = Annotated[
    bool,
    Parameter(name="--legacy-headers", help="add the header twice, as LiMPPy does", negative=()),
]
Acknowledged = Annotated[
    bool,
    Parameter(
        name="--acknowledged",
        help="a packet back when a message is complete, as LiMPPy can",
        negative=(),
    ),
]


def network(
    given: Given = None,
    /,
    *,
    pattern: PatternOption = None,
    message_size: MessageSize = None,
    topology: Topology = "switch,fat-tree,torus,dragonfly",
    fidelity: FidelityOption = "limppy",
    compute: Compute = 1.0,
    packet: Packet = "4096 B",
    header: Header = "98 B",
    eager_limit: Eager = "16384 B",
    bandwidth: Bandwidth = "12.5GB/s,3.5GB/s",
    node_latency: NodeLatency = "650ns,750ns",
    switch_latency: SwitchLatency = "100ns,90ns",
    legacy_headers: Legacy = False,
    acknowledged: Acknowledged = False,
    source: Source = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> ModelAnswer:
    """Replay the messages of an MPI run, or a graph of messages, on several topologies: run time
    and load of links on each.
    """
    from turnbuckle.mpi.networks import message_graphs
    from turnbuckle.mpi.networks.limppy import Protocol
    from turnbuckle.mpi.questions.network import question as study

    if (given is None) == (pattern is None):
        raise error_of("A089.nothing", found="both" if given else "none")
    table = given if isinstance(given, Path) and given.suffix.lower() == ".csv" else None
    if given is None or table is not None:
        idle = {
            "--compute": compute != 1.0,
            "--source": source is not None,
            "--no-cache": no_cache,
            **part.idle(),
        }
        refuse_idle(
            idle,
            "messages that nobody recorded have no machine and no compute",
            "delays stand in the table of messages",
        )
    if given is not None:
        refuse_idle(
            {"--message-size": message_size is not None},
            "the messages given have sizes of their own",
            "--pattern takes a size",
        )
    remote, eager = _two(bandwidth, "B/s")
    (eager_node, remote_node), (eager_switch, remote_switch) = (
        _two(node_latency, "s"),
        _two(switch_latency, "s"),
    )
    sizes = (round(parse(packet, "B")), round(parse(header, "B")), round(parse(eager_limit, "B")))
    delays = (eager_node, remote_node, eager_switch, remote_switch)
    protocol = Protocol(*sizes, eager, remote, *delays, legacy_headers, acknowledged)
    seen = None
    if given is None:
        assert pattern is not None
        messages = study.of_graph(
            message_graphs.pattern(pattern, parse(message_size or "64 KiB", "B")), protocol
        )
    elif table is not None:
        messages = study.of_graph(message_graphs.read(table), protocol)
    else:
        from turnbuckle.mpi.replay.messages import recorded

        seen = inspected(given, source, no_cache, part)
        messages = study.of_run(recorded(seen.profile), protocol, compute)
    with working("replaying"):
        answer = study.networks(
            messages, [word for word in topology.split(",") if word.strip()], fidelity=fidelity
        )
    document = {**answer.as_dict(), **provenance_of(seen)}
    return ModelAnswer(document, [r.as_dict() for r in answer.rows], partial(_print, answer=answer))


def _two(text: str, unit: str) -> tuple[float, float]:
    """Return two quantities separated by a comma, or one for both."""
    words = text.split(",")
    if len(words) > 2:
        raise error_of("A090.values", found=text[:60])
    return parse(words[0], unit), parse(words[-1], unit)


def _print(console: Terminal, answer: Answered) -> None:

    best, worst = (plain(row.topology) for row in (answer.best, answer.worst))
    shortest, longest = answer.best.seconds, answer.worst.seconds
    gain = longest / shortest - 1 if shortest else 0.0
    if len(answer.rows) == 1:
        verdict = f"{show(shortest, 's', 4)} on {best}"
    elif gain < 5e-4:
        verdict = f"the topology makes no difference: {show(shortest, 's', 4)} on each"
    else:
        verdict = (
            f"fastest on {best}: {show(shortest, 's', 4)}, slowest on {worst}: {gain:.1%} longer"
        )
    console.note(verdict, "bold")
    table = Table(box=None, pad_edge=False, header_style="dim")
    packets = answer.fidelity == "limppy"
    for k, name in enumerate(
        (
            "topology",
            "run time",
            "waiting" if packets else "",
            "links used",
            "busy",
            "most",
            "which",
        )
    ):
        if name:
            table.add_column(
                name, justify="left" if k in (0, 6) else "right", overflow="fold", no_wrap=0 < k < 6
            )
    for row in answer.rows:
        waiting = (
            [f"{1 - row.alone_seconds / row.seconds:.1%}" if row.seconds else ""] if packets else []
        )
        shares = (
            f"{row.used:,} of {row.links:,}",
            _share(row.mean_share),
            _share(row.busiest_share),
        )
        table.add_row(
            Text(plain(row.topology)), show(row.seconds, "s", 4), *waiting, *shares, row.busiest
        )
    console.print(table)
    console.note(_rests_on(answer))


def _share(value: float) -> str:
    return (
        f"{value:.1%}"
        if value >= 0.01 or not value
        else f"{value:.1g}"
        if value < 1e-5
        else f"{value:.3%}"
    )


def _rests_on(answer: Answered) -> str:
    p: Protocol = answer.protocol
    header = p.header_bytes * (2 if p.legacy_headers else 1)
    source = (
        f"{answer.messages:,} message{'s' if answer.messages > 1 else ''} among {answer.nodes} "
        "nodes"
    )
    if not math.isnan(answer.recorded_seconds):
        source = (
            f"{answer.messages:,} messages and collectives of {answer.nodes} ranks, one node each"
        )
        source += f", recorded run time {show(answer.recorded_seconds, 's')}"
        source += (
            ", compute as recorded"
            if answer.compute == 1
            else f", compute times {answer.compute:g}"
        )
    sharing = "links shared fairly"
    if answer.fidelity == "packet":
        sharing = "packets wait wholly before each link, in queues of finite room"
    if answer.fidelity == "limppy":
        sharing = (
            "packets hold link after link, first come first served; waiting: what messages that "
            "wait for others add to the run time"
        )
    return (
        f"{source}; {sharing}; eager up to {show(p.eager_bytes, 'B')} at "
        f"{show(p.eager_bandwidth, 'B/s')}, remote memory access at "
        f"{show(p.remote_bandwidth, 'B/s')}; packets of {show(p.packet_bytes, 'B')} and "
        f"{show(header, 'B')}; "
        f"a node {show(p.eager_node_seconds, 's')} and {show(p.remote_node_seconds, 's')}, a "
        "switch "
        f"{show(p.eager_switch_seconds, 's')} and {show(p.remote_switch_seconds, 's')}; "
        "topologies differ in cost: see their links"
    )
