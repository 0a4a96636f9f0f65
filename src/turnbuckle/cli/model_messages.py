"""``turnbuckle model messages``: would GPUDirect help this MPI run, and on how many ranks a node?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from turnbuckle.cli.options import FormatOption, NoCache, Output, Source

Recording = Annotated[Path, Parameter(help="a recording that holds all ranks: an OTF2 archive, or nsys profile --trace=mpi around mpirun")]
Each = Annotated[str, Parameter(name="--ranks-per-node", help="node shapes to replay, one GPU a rank")]
Bandwidth = Annotated[str, Parameter(name="--bandwidth", help="of a network card, one way")]
Hop = Annotated[str, Parameter(name="--hop", help="latency of one link of the network")]
Inside = Annotated[str, Parameter(name="--inside", help="bandwidth between ranks of one node")]
Overhead = Annotated[str, Parameter(name="--overhead", help="processor time of sending, and of receiving, a message")]
Charged = Annotated[
    Literal["physics", "seed_G"],
    Parameter(
        name="--paths", help="physics: a copy at either end, memory stays pinned; seed_G: the paper's one copy and one pin a message"
    ),
]
FidelityOption = Annotated[
    Literal["flow", "logp"],
    Parameter(name="--fidelity", help="flow: messages share links fairly; logp: LogGPS, no congestion beyond the card"),
]
Algorithms = Annotated[Literal["short and long", "tracer"], Parameter(name="--collectives", help="algorithms of collectives")]
Eager = Annotated[str, Parameter(name="--eager-limit", help="messages up to this size do not wait for their receiver")]


def messages(
    recording: Recording,
    /,
    *,
    ranks_per_node: Each = "1,2,4",
    bandwidth: Bandwidth = "12.5 GB/s",
    hop: Hop = "0.5 us",
    inside: Inside = "75 GB/s",
    overhead: Overhead = "0.5 us",
    paths: Charged = "physics",
    fidelity: FidelityOption = "flow",
    collectives: Algorithms = "short and long",
    eager_limit: Eager = "8 KiB",
    source: Source = None,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
) -> int:
    """Replay the messages of a recorded MPI run between GPUs: through host memory and by GPUDirect, for several node shapes."""
    from turnbuckle.cli.output import write_json, write_rows
    from turnbuckle.cli.progress import working
    from turnbuckle.cli.recording import inspected
    from turnbuckle.cost.gpudirect import PHYSICS, SEED_G
    from turnbuckle.replay.contention import Network
    from turnbuckle.study import messages as study
    from turnbuckle.units import parse

    one_link, cost, rate = parse(hop, "s"), parse(overhead, "s"), parse(bandwidth, "B/s")
    network = Network(
        1, rate, one_link, inside_bandwidth=parse(inside, "B/s"), latency=2 * one_link, send_overhead=cost, receive_overhead=cost,
        seconds_per_byte=1.0 / rate if rate > 0 else 0.0,
    )  # fmt: skip
    limit, each = parse(eager_limit, "B"), _numbers(ranks_per_node)
    seen = inspected(recording, source, no_cache)
    with working("replaying"):
        found = study.paths(
            seen.profile, network, ranks_per_node=each, fidelity=fidelity, charged=PHYSICS if paths == "physics" else SEED_G,
            selection=collectives, eager_limit=limit,
        )  # fmt: skip
    if format == "json":
        write_json({**found.as_dict(), "provenance": seen.provenance()}, output)
    elif format != "table":
        write_rows([r.__dict__ for r in found.rows], format, output)
    else:
        _print(found, output)
    return 0


def _numbers(text: str) -> list[int]:
    from turnbuckle.errors import UsageError

    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise UsageError("A074", "ranks a node are whole numbers from 1", found=text[:60], fix="--ranks-per-node 1,2,4") from None


def _print(found: Any, output: Path | None) -> None:
    from rich.table import Table
    from rich.text import Text

    from turnbuckle.cli.show import seconds
    from turnbuckle.cli.terminal import console_for
    from turnbuckle.cost.gpudirect import break_even_bytes
    from turnbuckle.units import show

    console = console_for(output)
    shapes = list(dict.fromkeys(r.ranks_per_node for r in found.rows))
    stuck = {r.path: r.stuck for r in found.rows if r.stuck}
    told = [n for n in shapes if not math.isnan(found.gain(n))]
    best = max(told or shapes, key=found.gain)
    gain, run = found.gain(best), found.run_gain(best)
    traffic = found.traffic
    known = 2 * len(traffic.messages.send) + sum(r.activity.size for r in traffic.rounds)
    if traffic.unmatched > known:
        verdict = f"no verdict: {traffic.unmatched:,} of {traffic.unmatched + known:,} calls have no other side in this recording"
    elif stuck:
        verdict = f"by {' and '.join(stuck)} this run gets stuck: its sends rely on being buffered ({next(iter(stuck.values()))})"
    elif max(abs(found.gain(n)) for n in shapes) < 0.01:
        verdict = "GPUDirect makes no difference of 1 % to the communication of this run"
    elif gain > 0:
        verdict = f"GPUDirect makes communication up to {gain:.1%} faster than host copies, and the run {run:.1%} ({best} ranks a node)"
    else:
        verdict = f"GPUDirect does not pay: communication is {-gain:.1%} slower at best"
    console.print(Text(verdict, "bold"))
    console.print(
        f"{traffic.ranks} ranks, {len(traffic.messages.send):,} messages, {sum(len(r.block_bytes) for r in traffic.rounds):,} collectives, "
        f"{traffic.unmatched:,} calls unmatched; recorded run time {seconds(traffic.seconds)}"
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for k, name in enumerate(("ranks\na node", "nodes", "path", "run time", "communication", "vs host\ncopies", "busiest\nlink")):
        table.add_column(name, justify="left" if k == 2 else "right", overflow="fold")
    for row in found.rows:
        if row.stuck:
            table.add_row(str(row.ranks_per_node), str(row.nodes), row.path, "stuck", "", "", "")
            continue
        host = found.row(row.ranks_per_node, "hostcopy")
        against = f"{row.communication_seconds / host.communication_seconds:.3f}x" if host.communication_seconds > 0 else ""
        table.add_row(
            str(row.ranks_per_node), str(row.nodes), row.path, seconds(row.seconds), seconds(row.communication_seconds), against,
            show(row.card_bytes, "B") if found.fidelity == "flow" else "",
        )  # fmt: skip
    console.print(table)
    edge = break_even_bytes(found.charged)
    network = found.network
    console.print(
        Text(
            f"{found.fidelity} on one switch, {show(network.bandwidth, 'B/s')} a card, {show(network.hop_seconds, 's')} a link, "
            f"{show(network.inside_bandwidth, 'B/s')} inside a node; "
            f"host copies a message: {found.charged.copies:g}, of {show(found.charged.copy_latency, 's')} and "
            f"{show(1 / found.charged.copy_per_byte, 'B/s')}; pins: {found.charged.pins:g}, of {show(found.charged.pin_seconds, 's')}; "
            + ("GPUDirect wins at every size" if edge == 0 else f"GPUDirect wins from {show(edge, 'B')} on")
            + "; all buffers taken to be in device memory; compute as recorded",
            style="dim",
        )
    )
