"""``turnbuckle model messages``: the effect of GPUDirect on an MPI run, by number of ranks per
node.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.text import Text

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.units import parse
from turnbuckle.foundation.units import show as quantity
from turnbuckle.show.figures.files import save
from turnbuckle.show.terminal.asked import SourceNetwork
from turnbuckle.show.terminal.cells import seconds
from turnbuckle.show.terminal.console import Terminal
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import (
    NO_PART,
    Charts,
    MachineName,
    NoCache,
    PartOptions,
    Recorded,
    Source,
    rank_counts,
)
from turnbuckle.show.terminal.progress import working
from turnbuckle.show.terminal.recording import inspected, provenance_of, refuse_asked
from turnbuckle.show.terminal.tables import print_findings, unframed

if TYPE_CHECKING:
    from turnbuckle.mpi.questions.gpudirect.question import GpuDirectStudy
    from turnbuckle.mpi.questions.messages.question import Answered
    from turnbuckle.mpi.replay.messages import Traffic
    from turnbuckle.projection.run import Run
    from turnbuckle.show.figures.figure import Figure

Recording = Annotated[
    Recorded,
    Parameter(
        help=(
            "all ranks of an MPI run: an OTF2 archive, nsys profile --trace=mpi, ..., or a "
            "schedule of SimGrid or GOAL"
        )
    ),
]
Others = Annotated[
    Recorded,
    Parameter(
        help=(
            "the same program on other numbers of ranks, three or more in all: a law says what "
            "--set ranks=64 would do"
        )
    ),
]
Speed = Annotated[
    str | None,
    Parameter(
        name="--flops-per-second",
        help="of a rank, for a schedule that counts work in flops (10 GFLOP/s)",
    ),
]
Each = Annotated[
    str, Parameter(name="--ranks-per-node", help="node shapes to replay, one GPU a rank")
]
Bandwidth = Annotated[
    str | None, Parameter(name="--bandwidth", help="bandwidth of a NIC, one way (12.5 GB/s)")
]
Hop = Annotated[
    str | None, Parameter(name="--hop", help="latency of one link of the network (0.5 us)")
]
Inside = Annotated[
    str | None, Parameter(name="--inside", help="bandwidth between ranks of one node (75 GB/s)")
]
Machine = Annotated[
    MachineName,
    Parameter(
        name="--network",
        help="a machine by its name (lassen, ...), file.toml, SimGrid's platform.xml, or self, "
        "the recording's own; "
        "options besides replace what it says",
    ),
]
Overhead = Annotated[
    str, Parameter(name="--overhead", help="processor time of sending, and of receiving, a message")
]
Charged = Annotated[
    Literal["physics", "seed_G"],
    Parameter(
        name="--costs",
        help=(
            "physics: a copy at either end, memory stays pinned; seed_G: the paper's one copy "
            "and one pin a message"
        ),
    ),
]
Set = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        help=(
            "any other setting as name=value: topology, taper, mapping, cards, chunk_bytes, "
            "buffers, ... (docs)"
        ),
    ),
]
FidelityOption = Annotated[
    Literal["flow", "logp", "packet"],
    Parameter(
        name="--fidelity",
        help=(
            "flow: messages share links fairly; logp: LogGPS, no congestion beyond the NIC; "
            "packet: packets queue before each link"
        ),
    ),
]
Algorithms = Annotated[
    Literal["short and long", "tracer", "open mpi", "mpich"],
    Parameter(name="--collectives", help="whose algorithms of collectives"),
]
InDepth = Annotated[
    bool,
    Parameter(
        name="--study",
        negative=(),
        help=(
            "also by message size, by bandwidth a GPU, by link, from rank to rank, and what a "
            "step of each parameter does"
        ),
    ),
]
Eager = Annotated[
    str,
    Parameter(name="--eager-limit", help="messages up to this size do not wait for their receiver"),
]


#: Calls that keep their recorded duration are listed where they take more than this share of the
#: compute.
_WORTH_TELLING = 0.01


def messages(
    recording: Recording,
    /,
    *others: Others,
    ranks_per_node: Each = "1,2,4",
    bandwidth: Bandwidth = None,
    hop: Hop = None,
    inside: Inside = None,
    overhead: Overhead = "0.5 us",
    network: Machine = "",
    costs: Charged = "physics",
    fidelity: FidelityOption = "flow",
    collectives: Algorithms = "short and long",
    eager_limit: Eager = "8 KiB",
    set_: Set = None,
    flops_per_second: Speed = None,
    study: InDepth = False,
    charts: Charts = None,
    source_network: SourceNetwork = None,
    source: Source = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> ModelAnswer:
    """Replay the messages of a recorded MPI run between GPUs: through host memory and by GPUDirect,
    for several node shapes.

    --study answers more questions with more replays; --charts draws its figures.  Several
    recordings are of one program on different numbers of ranks: strong scaling to the number of
    --set ranks=N, with the error of the law on the largest of them.
    """
    from turnbuckle.mpi.questions.gpudirect.question import refuse_varied
    from turnbuckle.mpi.questions.gpudirect.question import study as studied
    from turnbuckle.mpi.questions.messages.question import Recorded as Recording
    from turnbuckle.mpi.questions.messages.question import paths as answered
    from turnbuckle.mpi.questions.messages.question import shapes
    from turnbuckle.mpi.questions.messages.scaling import scaled
    from turnbuckle.mpi.questions.messages.setup import Setup, with_settings
    from turnbuckle.mpi.questions.messages.tables import print_scaled

    def parsed(text: str | None, unit: str) -> float | None:
        return None if text is None else parse(text, unit)

    speeds: dict[str, Any] = {
        "card_bandwidth": parsed(bandwidth, "B/s"),
        "inside_bandwidth": parsed(inside, "B/s"),
        "hop_seconds": parsed(hop, "s"),
    }
    costed: dict[str, Any] = {
        "overhead_seconds": parse(overhead, "s"),
        "eager_limit_bytes": parse(eager_limit, "B"),
        "costs": costs,
    }
    made = Setup(network=network, fidelity=fidelity, collectives=collectives, **speeds, **costed)
    setup = with_settings(made, set_ or [])
    refuse_varied(set_ or [])
    each = shapes(rank_counts(ranks_per_node, "--ranks-per-node 1,2,4"))
    if others:
        if study or charts is not None:
            raise error_of("A435.study", found="--study" if study else "--charts")
        several = [
            _read(given, flops_per_second, source, no_cache, part)[0]
            for given in (recording, *others)
        ]
        with working("replaying"):
            laws = scaled(several, setup, ranks_per_node=each)
        return ModelAnswer(laws.as_dict(), laws.rows(), partial(print_scaled, answer=laws))
    traffic, run = _read(recording, flops_per_second, source, no_cache, part)
    held = None if run is None else Recording(run, source_network or "")
    deep = None
    with working("replaying"):
        if study or charts is not None:
            deep = studied(traffic, setup, ranks_per_node=each, recording=held)
        answer = (
            deep.answered if deep else answered(traffic, setup, ranks_per_node=each, recording=held)
        )

    def figures() -> list[Figure]:
        from turnbuckle.mpi.questions.messages.figures import figures

        return figures(deep or studied(traffic, setup, ranks_per_node=each, recording=held))

    if charts is not None:
        save(figures(), charts)
    about = {
        **answer.as_dict(),
        **({"study": deep.as_dict()} if deep else {}),
        **provenance_of(run),
    }
    rows = [
        {k: v for k, v in row.as_dict().items() if k != "links"}
        for row in (deep.cases if deep else answer.rows)
    ]
    return ModelAnswer(about, rows, partial(show, answer=answer, deep=deep), figures)


def _read(
    given: Recorded, flops_per_second: str | None, source: Source, no_cache: bool, part: PartOptions
) -> tuple[Traffic, Run | None]:
    """Return the traffic of a recording or a schedule, and the recording; None for a schedule."""
    from turnbuckle.mpi import schedules
    from turnbuckle.mpi.questions.messages.exchanged import traffic_of

    run = None
    if isinstance(given, Path) and schedules.sniff(given):
        refuse_asked(given, part.given(), "a schedule, which states no times")
    else:
        given = run = inspected(given, source, no_cache, part).judged
    return traffic_of(
        given,
        flops_per_second=None if flops_per_second is None else parse(flops_per_second, "FLOP/s"),
    ), run


def _seen(traffic: Traffic, recorded: float) -> str:
    """Describe what was read in one line."""
    from turnbuckle.mpi.replay.operation_graph import OperationGraph

    counted = f"{traffic.ranks} ranks, {len(traffic.messages.send):,} messages, "
    if isinstance(traffic, OperationGraph):
        alone = f", {traffic.unmatched:,} sends that nobody receives" if traffic.unmatched else ""
        return (
            f"{counted}{len(traffic.rank):,} operations{alone}; a GOAL schedule, whose operations "
            "are a graph and have no names"
        )
    counted += (
        f"{sum(len(r.block_bytes) for r in traffic.rounds):,} collectives, {traffic.unmatched:,} "
        "calls unmatched; "
    )
    return counted + (
        f"recorded run time {seconds(recorded)}"
        if math.isfinite(recorded)
        else "a schedule, which holds no times"
    )


def show(console: Terminal, answer: Answered, deep: GpuDirectStudy | None = None) -> None:
    """Print the verdict, what was read, and each replay; `deep` adds its tables."""
    from turnbuckle.mpi.questions.gpudirect.cost import break_even_bytes

    console.note(deep.verdict if deep else answer.verdict.sentence, "bold")
    traffic, setup = answer.traffic, answer.setup
    console.print(_seen(traffic, answer.recorded_seconds))
    if answer.grid:
        console.print(Text(answer.grid))
    kept = traffic.kept()
    if sum(time for _, time in kept.values()) > _WORTH_TELLING * sum(traffic.compute_seconds):
        each = (
            f"{name}, {count:,} calls, {seconds(time / traffic.ranks)} per rank"
            for name, (count, time) in list(kept.items())[:3]
        )
        console.note(
            "not simulated, recorded duration kept: "
            f"{'; '.join(each)}{'; ...' if len(kept) > 3 else ''}"
        )
    if answer.recording is not None and (mpi := answer.recording.mpi) is not None:
        of = {
            "messages": mpi.messages_seconds,
            "waiting": mpi.waiting_seconds,
            "not explained": mpi.unexplained_seconds,
        }
        of["not simulated"] = mpi.kept_seconds
        parts = ", ".join(f"{name} {seconds(time)}" for name, time in of.items())
        console.note(f"in calls of MPI as recorded, per rank: {parts}")
    print_findings(console, answer.findings)
    heads = (
        "ranks\nper node",
        "nodes",
        "path",
        "run time",
        "communication",
        "vs host\ncopies",
        "busiest\nlink",
    )
    table = unframed(*heads, words=("path",))
    for row in answer.rows:
        if row.stuck:
            table.add_row(str(row.ranks_per_node), str(row.nodes), row.path, "stuck", "", "", "")
            continue
        host = answer.row(row.ranks_per_node, "hostcopy")
        against = (
            f"{row.communication_seconds / host.communication_seconds:.3f}x"
            if host.communication_seconds > 0
            else ""
        )
        busy = f"{row.busiest_share:.1%} busy" if setup.fidelity != "logp" else ""
        times = (seconds(row.seconds), seconds(row.communication_seconds))
        table.add_row(str(row.ranks_per_node), str(row.nodes), row.path, *times, against, busy)
    console.print(table)
    paid = setup.paid
    break_even = break_even_bytes(paid)
    console.note(
        f"{setup.fidelity} on {answer.described}; "
        + (
            f"host copies per message: {paid.copies:g}, of {quantity(paid.copy_latency, 's')} and "
            f"{quantity(1 / paid.copy_per_byte, 'B/s')}; "
            f"memory pinned: {setup.pins}, in {quantity(paid.pin_seconds, 's')}; "
            + (
                "GPUDirect wins at every size"
                if break_even == 0
                else f"GPUDirect wins from {quantity(break_even, 'B')} on"
            )
            if paid.copies
            else "one memory: nothing is copied"
        )
        + f"; {answer.buffers}; compute "
        + (f"{setup.compute:g} times what was recorded" if setup.compute != 1 else "as recorded")
        + (f", {setup.compute_of}" if setup.compute_of else "")
    )
    if deep:
        from turnbuckle.mpi.questions.messages.tables import print_study

        print_study(console, deep)
