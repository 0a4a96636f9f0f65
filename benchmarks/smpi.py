"""SimGrid as an oracle: its time-independent traces replayed by `flow`, on the same platform and by
the rules of its SMPI.

    python benchmarks/smpi.py ANCHOR [--default]
    python benchmarks/smpi.py --collectives [--ranks 8,16] [--size 32768,1048576]

What SimGrid 3.32 does with a trace and its own settings, as data:

- a message is 16 B longer than its buffer; a short one does not hold up its sender, and leaves when
  its receive is posted;
- ``smpi/bw-factor`` and ``smpi/lat-factor`` by size: a flow of factor f moves f bytes for each byte
  of its share, so that its size is divided by f; latencies are multiplied;
- ``network/crosstraffic``: a flow takes 5 % of its share on the way back too, here taken off all
  links;
- a cluster: a link up and down for each host, and a backbone that all messages share, both ways
  over one capacity;
- an allreduce is a reduce in which all send to rank 0 at once, and a binomial broadcast.

Where `smpirun` is installed (Debian's ``libsimgrid-dev``) the same trace is replayed by it, and
each message is compared. With ``--collectives`` a program of one collective runs under SMPI by each
of its algorithms that we have too, its factors off, and the time at which the last rank leaves it
is compared with ours.
"""

from __future__ import annotations

import argparse
import math
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.mpi import schedules
from turnbuckle.mpi.collectives.collectives import pattern
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic
from turnbuckle.mpi.replay.program import program
from turnbuckle.replay.contention.contention import Contended, Leaves, Op, Program, replay
from turnbuckle.replay.contention.network import Backbone, Network

#: Factors from a size on [B].
FROM_BYTES: Final = (65472, 15424, 9376, 5776, 3484, 1426, 732, 257, 0)
BANDWIDTH_FACTOR: Final = dict(
    zip(
        FROM_BYTES,
        (0.940694, 0.697866, 0.58729, 1.08739, 0.77493, 0.608902, 0.341987, 0.338112, 0.812084),
        strict=True,
    )
)
LATENCY_FACTOR: Final = dict(
    zip(
        FROM_BYTES,
        (11.6436, 3.48845, 2.59299, 2.18796, 1.88101, 1.61075, 1.9503, 1.95341, 2.01467),
        strict=True,
    )
)
CROSSTRAFFIC: Final = 0.05
ENVELOPE_BYTES: Final = 16
#: The platform of the archived traces: links of hosts, the backbone, the latency of each, and the
#: speed of a host.
LINK, BACKBONE, HOP_SECONDS, FLOPS_PER_SECOND = 1.25e9, 10e9, 1e-6, 1e9
HOPS: Final = 3
#: What turns SimGrid's factors off.
PLAIN: Final = (
    "smpi/bw-factor:0:1",
    "smpi/lat-factor:0:1",
    "network/crosstraffic:0",
    "network/weight-S:0",
)
#: A sender does not wait for the receiver of a message that is shorter [B].
DETACHED_BYTES: Final = 65536
_LINK_LINE: Final = re.compile(r"^1([56]) (\S+) .* (\d+)_(\d+)_-?\d+_(\d+)(?: \d+)?$")


@dataclass(frozen=True)
class Replayed:
    """A trace replayed by `flow`: its traffic, its program, the outcome, and messages of the
    program that are the trace's own.
    """

    traffic: Traffic
    program: Program
    done: Contended
    own: int


def factor(table: dict[int, float], size: Float) -> Float:
    """Factor of each size: that of the largest threshold not above it.

    >>> factor(LATENCY_FACTOR, np.array([24.0, 528.0])).tolist()
    [2.01467, 1.95341]
    """
    thresholds = np.array(sorted(table))
    return np.array(
        [
            table[int(t)]
            for t in thresholds[np.searchsorted(thresholds, size, side="right") - 1].tolist()
        ]
    )


def expanded(rounds: Rounds) -> Messages:
    """An allreduce as SMPI does it: all to rank 0, then a binomial broadcast from there."""
    calls, ranks = rounds.activity, rounds.activity.shape[1]
    down = pattern("bcast", "binomial", ranks, 0)
    source, target = (
        np.append(np.arange(1, ranks), down.source),
        np.append(np.zeros(ranks - 1, np.int64), down.target),
    )
    step = np.append(np.zeros(ranks - 1, np.int64), 1 + down.step)
    send, receive = calls[:, source].reshape(-1), calls[:, target].reshape(-1)
    size = np.repeat(rounds.block_bytes, len(source))
    return Messages(send, np.full(len(send), -1), receive, receive, np.tile(step, len(calls)), size)


def network(ranks: int, *, latency: float, cross: float) -> Network:
    """The platform: a node a host, and the backbone.

    Parameters
    ----------
    latency : factor of the latencies.
    cross : share of a flow that its way back takes.
    """
    hop = HOP_SECONDS * latency
    return Network(ranks, LINK / (1 + cross), hop, backbone=Backbone(BACKBONE / (1 + cross), hop))


def read(anchor: Path) -> Traffic:
    """The traffic of a time-independent trace, on hosts of the platform's speed."""
    return schedules.read(anchor, flops_per_second=FLOPS_PER_SECOND)


def replayed(traffic: Traffic, *, factors: bool, traced: bool = False) -> Replayed:
    """Replay a time-independent trace by `flow`, with SimGrid's factors or without."""
    own = len(traffic.messages.send)
    # short messages do not hold up their sender
    parts = [
        replace(traffic.messages, sent=np.full(own, -1)),
        *(expanded(r) for r in traffic.rounds),
    ]
    names = ("send", "sent", "receive", "received", "step", "size_bytes")
    traffic = replace(
        traffic,
        messages=Messages(*(np.concatenate([getattr(p, n) for p in parts]) for n in names)),
        rounds=(),
    )
    made = program(traffic)
    size = traffic.messages.size_bytes + ENVELOPE_BYTES
    late = factor(LATENCY_FACTOR, size) if factors else np.ones(len(size))
    least = float(late.min(initial=np.inf))
    made = replace(
        made,
        leaves=np.full(len(size), Leaves.READY, dtype=np.uint8),
        size_bytes=np.round(size / factor(BANDWIDTH_FACTOR, size)) if factors else size,
        delay_seconds=HOPS * HOP_SECONDS * (late - least),
    )
    platform = network(traffic.ranks, latency=least, cross=CROSSTRAFFIC if factors else 0.0)
    return Replayed(traffic, made, replay(made, platform, "flow", traced=traced), own)


def exchanges(one: Replayed) -> dict[tuple[int, int], Float]:
    """Begin of the send and end of the call that receives, of each message of a pair of ranks in
    order, shape (messages, 2) [s].
    """
    made, done, own = one.program, one.done, one.own
    sent, got = np.zeros(len(made.source)), np.zeros(len(made.source))
    for op, held in ((Op.SEND, sent), (Op.AWAIT, got)):
        at = np.flatnonzero(made.code == op)
        held[made.arg[at]] = done.done[at]
    call = one.traffic.messages.received[:own]
    ends = np.zeros(len(one.traffic.rank))
    np.maximum.at(ends, call, got[:own])
    out: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for pair, begin, end in zip(
        zip(made.source[:own].tolist(), made.target[:own].tolist(), strict=True),
        sent,
        ends[call],
        strict=False,
    ):
        out[pair].append((float(begin), float(end)))
    return {pair: np.sort(np.array(times), axis=0) for pair, times in out.items()}


# --- SimGrid itself -------------------------------------------------------------------------------


def platform(ranks: int) -> str:
    """The platform as SimGrid's file."""
    speed, hop = (
        f'bw="{LINK:.0f}Bps" lat="{HOP_SECONDS * 1e6:g}us"',
        f'bb_bw="{BACKBONE:.0f}Bps" bb_lat="{HOP_SECONDS * 1e6:g}us"',
    )
    return (
        '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
        '<platform version="4.1">\n'
        f'  <cluster id="c" prefix="node-" suffix="" radical="0-{ranks - 1}" speed="1Gf" {speed} '
        f"{hop}/>\n</platform>\n"
    )


def simgrid(
    anchor: Path, ranks: int, *, factors: bool
) -> tuple[float, dict[tuple[int, int], Float]] | str:
    """End of SimGrid's replay [s], and each message as `exchanges` has it; or why there is none."""
    if shutil.which("smpirun") is None:
        return "smpirun is not installed (Debian: libsimgrid-dev)"
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        (folder / "platform.xml").write_text(platform(ranks), encoding="ascii")
        (folder / "hosts").write_text(
            "".join(f"node-{k}\n" for k in range(ranks)), encoding="ascii"
        )
        command = [
            "smpirun",
            "-np",
            str(ranks),
            "-platform",
            str(folder / "platform.xml"),
            "-hostfile",
            str(folder / "hosts"),
        ]
        command += [
            "-replay",
            anchor.name,
            "-trace",
            "-trace-file",
            str(folder / "out"),
            "--cfg=tracing/precision:9",
        ]
        command += ["--log=root.thres:warning", "--log=smpi_replay.thres:info"]
        command += [f"--cfg={one}" for one in ("smpi/host-speed:1Gf", *(() if factors else PLAIN))]
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            cwd=anchor.parent,
            timeout=900,
            check=False,
        )
        told = re.search(r"Simulation time ([0-9.]+)", ran.stdout + ran.stderr)
        if told is None:
            return (
                "smpirun said: "
                f"{((ran.stdout + ran.stderr).strip().splitlines() or ['nothing'])[-1][:100]}"
            )
        ends: tuple[dict[tuple[int, int], list[float]], ...] = (
            defaultdict(list),
            defaultdict(list),
        )
        with (folder / "out").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if said := _LINK_LINE.match(line):
                    ends[said[1] == "6"][int(said[3]) - 1, int(said[4]) - 1].append(float(said[2]))
    # the writer of the ends has no tags: messages of a pair are told by their order
    return float(told[1]), {
        pair: np.sort(np.array([ends[0][pair], ends[1][pair]]).T, axis=0) for pair in ends[0]
    }


def compared(
    ours: dict[tuple[int, int], Float], theirs: dict[tuple[int, int], Float]
) -> dict[str, float]:
    """How durations of single messages agree: how many, correlation, mean of both [s], median and
    largest difference [s].
    """
    mine, other = (np.concatenate([side[pair] for pair in sorted(ours)]) for side in (ours, theirs))
    a, b = mine[:, 1] - mine[:, 0], other[:, 1] - other[:, 0]
    apart = np.abs(a - b)
    return {
        "messages": len(a),
        "correlation": float(np.corrcoef(a, b)[0, 1]),
        "ours": float(a.mean()),
        "theirs": float(b.mean()),
        "median": float(np.median(apart)),
        "most": float(apart.max()),
    }


# --- one collective at a time ---------------------------------------------------------------------

#: Operation, our algorithm, and SMPI's name for it.
NAMED: Final = (
    ("bcast", "binomial", "binomial_tree"),
    ("bcast", "linear", "flattree"),
    ("bcast", "scatter_allgather", "scatter_rdb_allgather"),
    ("bcast", "scatter_ring", "scatter_LR_allgather"),
    ("bcast", "pipeline", "ompi_pipeline"),
    ("bcast", "split_binary", "ompi_split_bintree"),
    ("reduce", "binomial", "binomial"),
    ("reduce", "linear", "default"),
    ("reduce", "linear_in_turn", "ompi_basic_linear"),
    ("reduce", "rabenseifner", "scatter_gather"),
    ("reduce", "pipeline", "ompi_pipeline"),
    ("reduce", "binary_levels", "ompi_binary"),
    ("reduce", "in_order_binary", "ompi_in_order_binary"),
    ("reduce", "binomial", "ompi_binomial"),
    ("allreduce", "recursive_doubling", "rdb"),
    ("allreduce", "ring", "lr"),
    ("allreduce", "rabenseifner", "rab_rdb"),
    ("allreduce", "linear + binomial", "default"),
    ("allgather", "bruck", "bruck"),
    ("allgather", "recursive_doubling", "rdb"),
    ("allgather", "ring", "NTSLR"),
    ("allgather", "neighbor_exchange", "ompi_neighborexchange"),
    ("allgather", "linear", "spreading_simple"),
    ("alltoall", "bruck", "bruck"),
    ("alltoall", "pairwise", "pair"),
    ("alltoall", "shifted", "ring"),
    ("alltoall", "linear", "basic_linear"),
    ("reduce_scatter", "ring", "ompi_ring"),
    ("reduce_scatter", "recursive_halving", "ompi_basic_recursivehalving"),
    ("reduce_scatter", "butterfly", "ompi_butterfly"),
    ("reduce_scatter", "shifted", "mpich_pair"),
    ("reduce_scatter", "recursive_doubling", "mpich_rdb"),
    ("gather", "binomial", "ompi_binomial"),
    ("gather", "linear", "default"),
    ("gather", "linear_in_turn", "ompi_basic_linear"),
    ("gather", "linear_sync", "ompi_linear_sync"),
    ("scatter", "binomial", "ompi_binomial"),
    ("scatter", "linear", "default"),
    ("scatter", "linear_in_turn", "ompi_basic_linear"),
    ("barrier", "dissemination", "ompi_bruck"),
    ("barrier", "recursive_doubling", "ompi_recursivedoubling"),
    ("barrier", "linear", "ompi_basic_linear"),
    ("barrier", "double_ring", "ompi_doublering"),
    ("barrier", "binomial", "ompi_tree"),
)
PROGRAM: Final = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int ranks, rank, n = atoi(argv[2]);
  MPI_Comm world = MPI_COMM_WORLD;
  MPI_Comm_size(world, &ranks);
  MPI_Comm_rank(world, &rank);
  char *in = calloc((size_t)n * ranks + 8, 1), *out = calloc((size_t)n * ranks + 8, 1);
  int *counts = malloc(ranks * sizeof(int));
  for (int k = 0; k < ranks; k++) counts[k] = n;
  double begin = MPI_Wtime();
  if (!strcmp(argv[1], "bcast")) MPI_Bcast(in, n, MPI_CHAR, 0, world);
  if (!strcmp(argv[1], "reduce")) MPI_Reduce(in, out, n, MPI_CHAR, MPI_SUM, 0, world);
  if (!strcmp(argv[1], "allreduce")) MPI_Allreduce(in, out, n, MPI_CHAR, MPI_SUM, world);
  if (!strcmp(argv[1], "allgather")) MPI_Allgather(in, n, MPI_CHAR, out, n, MPI_CHAR, world);
  if (!strcmp(argv[1], "alltoall")) MPI_Alltoall(in, n, MPI_CHAR, out, n, MPI_CHAR, world);
  if (!strcmp(argv[1], "reduce_scatter")) MPI_Reduce_scatter(in, out, counts, MPI_CHAR, MPI_SUM, world);
  if (!strcmp(argv[1], "gather")) MPI_Gather(in, n, MPI_CHAR, out, n, MPI_CHAR, 0, world);
  if (!strcmp(argv[1], "scatter")) MPI_Scatter(in, n, MPI_CHAR, out, n, MPI_CHAR, 0, world);
  if (!strcmp(argv[1], "barrier")) MPI_Barrier(world);
  printf("took %.12f\n", MPI_Wtime() - begin);
  MPI_Finalize();
  return 0;
}
"""


def segments_of(operation: str, named: str, ranks: int, size: int) -> int:
    """Pieces that SMPI's version of Open MPI's trees cuts a vector of this size [B] into."""
    kib = size / 1024
    match operation, named:
        case "bcast", "ompi_pipeline":
            limits = (
                (1.6134e-6 * size + 2.1102, 128),
                (2.3679e-6 * size + 1.1787, 64),
                (3.2118e-6 * size + 8.7936, 16),
            )
            piece = next((each for least, each in limits if ranks < least), 128)
        case "bcast", "ompi_split_bintree":
            kib, piece = kib / 2, 1 if size < 370728 else 8
        case "reduce", "ompi_pipeline":
            piece = (
                1 if ranks > 0.0410 * kib + 9.7128 else 32 if ranks > 0.0033 * kib + 1.6761 else 64
            )
        case "reduce", "ompi_binary":
            piece = 32
        case "reduce", "ompi_binomial" if (
            ranks >= 8 and size >= 2048 and ranks > 0.6016 * kib + 1.3496
        ):
            piece = 1
        case _:
            return 1
    return max(1, math.ceil(kib / piece))


def collective(operation: str, algorithm: str, ranks: int, size: int, segments: int = 1) -> float:
    """Time at which the last rank leaves a collective of a block of `size` [B] that all begin at 0,
    by `flow` [s].
    """
    made = pattern(operation, algorithm, ranks, 0, segments)
    carried = np.round(made.share * (size if operation != "barrier" else 0))
    waits = np.where(carried < DETACHED_BYTES, -1, made.source)
    messages = Messages(made.source, waits, made.target, made.target, made.step, carried)
    zero = np.zeros(ranks)
    traffic = Traffic(ranks, np.arange(ranks), zero, zero, zero, messages, (), 0.0, 0)
    run = program(traffic)
    run = replace(
        run,
        leaves=np.full(len(carried), Leaves.READY, dtype=np.uint8),
        size_bytes=carried + ENVELOPE_BYTES,
    )
    return replay(run, network(ranks, latency=1.0, cross=0.0), "flow").seconds


def smpi_collective(folder: Path, operation: str, named: str, ranks: int, size: int) -> float | str:
    """The same under SMPI [s], or what it said."""
    command = [
        "smpirun",
        "-np",
        str(ranks),
        "-platform",
        str(folder / f"{ranks}.xml"),
        "-hostfile",
        str(folder / f"{ranks}.txt"),
    ]
    settings = (
        "smpi/host-speed:1Gf",
        "smpi/simulate-computation:no",
        "smpi/wtime:0",
        f"smpi/{operation}:{named}",
        *PLAIN,
    )
    command += [
        "--log=root.thres:critical",
        *(f"--cfg={one}" for one in settings),
        str(folder / "one"),
        operation,
        str(size),
    ]
    ran = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=300, check=False
    )
    took = [float(t) for t in re.findall(r"took ([0-9.]+)", ran.stdout)]
    return (
        max(took)
        if len(took) == ranks
        else ((ran.stdout + ran.stderr).strip().splitlines() or ["nothing"])[0][:100]
    )


def collectives(ranks: list[int], sizes: list[int]) -> None:
    """Compare every algorithm that both have."""
    if shutil.which("smpirun") is None or shutil.which("smpicc") is None:
        sys.exit("smpirun is not installed (Debian: libsimgrid-dev)")
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        (folder / "one.c").write_text(PROGRAM, encoding="ascii")
        subprocess.run(
            ["smpicc", "-O1", "-w", str(folder / "one.c"), "-o", str(folder / "one")], check=True
        )
        for count in ranks:
            (folder / f"{count}.xml").write_text(platform(count), encoding="ascii")
            (folder / f"{count}.txt").write_text(
                "".join(f"node-{k}\n" for k in range(count)), encoding="ascii"
            )
        print(
            "operation       algorithm            SMPI's                      ranks      "
            "bytes      ours [us]      SMPI [us]  difference"
        )
        for operation, algorithm, named in NAMED:
            for count in ranks:
                for size in sizes if operation != "barrier" else [0]:
                    mine = (
                        collective(
                            operation,
                            algorithm,
                            count,
                            size,
                            segments_of(operation, named, count, size),
                        )
                        * 1e6
                    )
                    theirs = smpi_collective(folder, operation, named, count, size)
                    said = (
                        theirs
                        if isinstance(theirs, str)
                        else f"{theirs * 1e6:14,.3f} {mine / (theirs * 1e6) - 1:+11.2%}"
                    )
                    print(
                        (
                            f"{operation:<15} {algorithm:<20} {named:<27} {count:>5} {size:>10,} "
                            f"{mine:14,.3f} {said}"
                        ),
                        flush=True,
                    )


def main() -> None:
    """Replay and compare."""
    parser = argparse.ArgumentParser(
        description="a time-independent trace, or collectives, replayed by flow and by SimGrid"
    )
    parser.add_argument("anchor", type=Path, nargs="?")
    parser.add_argument(
        "--default", action="store_true", help="with SimGrid's factors, not without"
    )
    parser.add_argument(
        "--collectives",
        action="store_true",
        help="each algorithm that both have, instead of a trace",
    )
    parser.add_argument("--ranks", default="8,16", help="of --collectives")
    parser.add_argument("--size", default="32768,1048576", help="blocks of --collectives [B]")
    chosen = parser.parse_args()
    if chosen.collectives:
        collectives(
            [int(n) for n in chosen.ranks.split(",")], [int(n) for n in chosen.size.split(",")]
        )
        return
    if chosen.anchor is None:
        parser.error("a trace, or --collectives")
    one = replayed(read(chosen.anchor), factors=chosen.default, traced=True)
    print(
        f"flow     {one.done.seconds:.6f} s, {one.traffic.ranks} ranks, {one.own:,} messages, "
        f"{one.done.events:,} events"
    )
    theirs = simgrid(chosen.anchor, one.traffic.ranks, factors=chosen.default)
    if isinstance(theirs, str):
        sys.exit(theirs)
    print(f"SimGrid  {theirs[0]:.6f} s, {one.done.seconds / theirs[0] - 1:+.3%}")
    for name, value in compared(exchanges(one), theirs[1]).items():
        print(f"{name:<12} {value:,.10g}")


if __name__ == "__main__":
    main()
