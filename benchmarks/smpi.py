"""SimGrid as an oracle: its time-independent traces replayed by `flow`, on the same platform and by the rules of its SMPI.

    python benchmarks/smpi.py ANCHOR [--default]

What SimGrid 3.32 does with a trace and its own settings, as data:

- a message is 16 B longer than its buffer; a short one does not hold up its sender, and leaves when its receive is posted;
- ``smpi/bw-factor`` and ``smpi/lat-factor`` by size: a flow of factor f moves f bytes for each byte of its share, so that its size
  is divided by f; latencies are multiplied;
- ``network/crosstraffic``: a flow takes 5 % of its share on the way back too, here taken off all links;
- a cluster: a link up and down for each host, and a backbone that all messages share, both ways over one capacity;
- an allreduce is a reduce in which all send to rank 0 at once, and a binomial broadcast.

Where `smpirun` is installed (Debian's ``libsimgrid-dev``) the same trace is replayed by it, and each message is compared.
"""

from __future__ import annotations

import argparse
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
from numpy.typing import NDArray

from turnbuckle.replay import schedules
from turnbuckle.replay.collectives import pattern
from turnbuckle.replay.contention import Contended, Leaves, Op, Program, replay
from turnbuckle.replay.mpi import Messages, Rounds, Traffic
from turnbuckle.replay.mpi_program import program
from turnbuckle.replay.network import Network, Node, Wire

Float = NDArray[np.float64]
Int = NDArray[np.int64]

#: Factors from a size on [B].
BANDWIDTH_FACTOR: Final = {
    65472: 0.940694, 15424: 0.697866, 9376: 0.58729, 5776: 1.08739, 3484: 0.77493, 1426: 0.608902, 732: 0.341987,
    257: 0.338112, 0: 0.812084,
}  # fmt: skip
LATENCY_FACTOR: Final = {
    65472: 11.6436, 15424: 3.48845, 9376: 2.59299, 5776: 2.18796, 3484: 1.88101, 1426: 1.61075, 732: 1.9503,
    257: 1.95341, 0: 2.01467,
}  # fmt: skip
CROSSTRAFFIC: Final = 0.05
ENVELOPE_BYTES: Final = 16
#: The platform of the archived traces: links of hosts, the backbone, the latency of each, and the speed of a host.
LINK, BACKBONE, HOP_SECONDS, FLOPS_PER_SECOND = 1.25e9, 10e9, 1e-6, 1e9
HOPS: Final = 3
#: What turns SimGrid's factors off.
PLAIN: Final = ("smpi/bw-factor:0:1", "smpi/lat-factor:0:1", "network/crosstraffic:0", "network/weight-S:0")
_LINK_LINE: Final = re.compile(r"^1([56]) (\S+) .* (\d+)_(\d+)_-?\d+_(\d+)(?: \d+)?$")


@dataclass(frozen=True)
class Replayed:
    """A trace replayed by `flow`: its traffic, its program, the outcome, and messages of the program that are the trace's own."""

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
    return np.array([table[int(t)] for t in thresholds[np.searchsorted(thresholds, size, side="right") - 1].tolist()])


def expanded(rounds: Rounds) -> Messages:
    """An allreduce as SMPI does it: all to rank 0, then a binomial broadcast from there."""
    calls, ranks = rounds.activity, rounds.activity.shape[1]
    down = pattern("bcast", "binomial", ranks, 0)
    source, target = np.append(np.arange(1, ranks), down.source), np.append(np.zeros(ranks - 1, np.int64), down.target)
    step = np.append(np.zeros(ranks - 1, np.int64), 1 + down.step)
    send, receive = calls[:, source].reshape(-1), calls[:, target].reshape(-1)
    size = np.repeat(rounds.block_bytes, len(source))
    return Messages(send, np.full(len(send), -1), receive, receive, np.tile(step, len(calls)), size)


def network(ranks: int, *, latency: float, cross: float) -> Network:
    """The platform as one node that is a graph: host k is part k.

    Parameters
    ----------
    latency : factor of the latencies.
    cross : share of a flow that its way back takes.
    """
    inward, outward = ranks, ranks + 1
    hop, rate = HOP_SECONDS * latency, LINK / (1 + cross)
    wires = [Wire(inward, outward, BACKBONE / (1 + cross), hop)]
    for k in range(ranks):
        wires += [Wire(k, inward, rate, hop), Wire(outward, k, rate, hop)]
    names = (*(f"host {k}" for k in range(ranks)), "switch in", "switch out")
    return Network(1, LINK, 0.0, node=Node(names, tuple(wires), (inward,), tuple(range(ranks + 2))))


def replayed(anchor: Path, *, factors: bool, traced: bool = False) -> Replayed:
    """Replay a time-independent trace by `flow`, with SimGrid's factors or without."""
    traffic = schedules.read(anchor, flops_per_second=FLOPS_PER_SECOND)
    own = len(traffic.messages.send)
    # short messages do not hold up their sender
    parts = [replace(traffic.messages, sent=np.full(own, -1)), *(expanded(r) for r in traffic.rounds)]
    names = ("send", "sent", "receive", "received", "step", "size_bytes")
    traffic = replace(traffic, messages=Messages(*(np.concatenate([getattr(p, n) for p in parts]) for n in names)), rounds=())
    made = program(traffic)
    size = traffic.messages.size_bytes + ENVELOPE_BYTES
    late = factor(LATENCY_FACTOR, size) if factors else np.ones(len(size))
    least = float(late.min(initial=np.inf))
    made = replace(
        made, leaves=np.full(len(size), Leaves.READY, dtype=np.uint8),
        size_bytes=np.round(size / factor(BANDWIDTH_FACTOR, size)) if factors else size,
        delay_seconds=HOPS * HOP_SECONDS * (late - least),
    )  # fmt: skip
    platform = network(traffic.ranks, latency=least, cross=CROSSTRAFFIC if factors else 0.0)
    return Replayed(traffic, made, replay(made, platform, "flow", traced=traced), own)


def exchanges(one: Replayed) -> dict[tuple[int, int], Float]:
    """Begin of the send and end of the call that receives, of each message of a pair of ranks in order, shape (messages, 2) [s]."""
    made, done, own = one.program, one.done, one.own
    sent, got = np.zeros(len(made.source)), np.zeros(len(made.source))
    for op, held in ((Op.SEND, sent), (Op.AWAIT, got)):
        at = np.flatnonzero(made.code == op)
        held[made.arg[at]] = done.done[at]
    call = one.traffic.messages.received[:own]
    ends = np.zeros(len(one.traffic.rank))
    np.maximum.at(ends, call, got[:own])
    out: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for pair, begin, end in zip(zip(made.source[:own].tolist(), made.target[:own].tolist(), strict=True), sent, ends[call], strict=False):
        out[pair].append((float(begin), float(end)))
    return {pair: np.sort(np.array(times), axis=0) for pair, times in out.items()}


# --- SimGrid itself ---------------------------------------------------------------------------------------------------


def platform(ranks: int) -> str:
    """The platform as SimGrid's file."""
    speed, hop = f'bw="{LINK:.0f}Bps" lat="{HOP_SECONDS * 1e6:g}us"', f'bb_bw="{BACKBONE:.0f}Bps" bb_lat="{HOP_SECONDS * 1e6:g}us"'
    return (
        '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n<platform version="4.1">\n'
        f'  <cluster id="c" prefix="node-" suffix="" radical="0-{ranks - 1}" speed="1Gf" {speed} {hop}/>\n</platform>\n'
    )


def simgrid(anchor: Path, ranks: int, *, factors: bool) -> tuple[float, dict[tuple[int, int], Float]] | str:
    """End of SimGrid's replay [s], and each message as `exchanges` has it; or why there is none."""
    if shutil.which("smpirun") is None:
        return "smpirun is not installed (Debian: libsimgrid-dev)"
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        (folder / "platform.xml").write_text(platform(ranks), encoding="ascii")
        (folder / "hosts").write_text("".join(f"node-{k}\n" for k in range(ranks)), encoding="ascii")
        command = ["smpirun", "-np", str(ranks), "-platform", str(folder / "platform.xml"), "-hostfile", str(folder / "hosts")]
        command += ["-replay", anchor.name, "-trace", "-trace-file", str(folder / "out"), "--cfg=tracing/precision:9"]
        command += ["--log=root.thres:warning", "--log=smpi_replay.thres:info"]
        command += [f"--cfg={one}" for one in ("smpi/host-speed:1Gf", *(() if factors else PLAIN))]
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=anchor.parent, timeout=900, check=False)
        told = re.search(r"Simulation time ([0-9.]+)", ran.stdout + ran.stderr)
        if told is None:
            return f"smpirun said: {((ran.stdout + ran.stderr).strip().splitlines() or ['nothing'])[-1][:100]}"
        ends: tuple[dict[tuple[int, int], list[float]], ...] = (defaultdict(list), defaultdict(list))
        with (folder / "out").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if said := _LINK_LINE.match(line):
                    ends[said[1] == "6"][int(said[3]) - 1, int(said[4]) - 1].append(float(said[2]))
    # the writer of the ends has no tags: messages of a pair are told by their order
    return float(told[1]), {pair: np.sort(np.array([ends[0][pair], ends[1][pair]]).T, axis=0) for pair in ends[0]}


def compared(ours: dict[tuple[int, int], Float], theirs: dict[tuple[int, int], Float]) -> dict[str, float]:
    """How durations of single messages agree: how many, correlation, mean of both [s], median and largest difference [s]."""
    mine, other = (np.concatenate([side[pair] for pair in sorted(ours)]) for side in (ours, theirs))
    a, b = mine[:, 1] - mine[:, 0], other[:, 1] - other[:, 0]
    apart = np.abs(a - b)
    return {
        "messages": len(a), "correlation": float(np.corrcoef(a, b)[0, 1]), "ours": float(a.mean()), "theirs": float(b.mean()),
        "median": float(np.median(apart)), "most": float(apart.max()),
    }  # fmt: skip


def main() -> None:
    """Replay and compare."""
    parser = argparse.ArgumentParser(description="a time-independent trace replayed by flow and by SimGrid")
    parser.add_argument("anchor", type=Path)
    parser.add_argument("--default", action="store_true", help="with SimGrid's factors, not without")
    chosen = parser.parse_args()
    one = replayed(chosen.anchor, factors=chosen.default, traced=True)
    print(f"flow     {one.done.seconds:.6f} s, {one.traffic.ranks} ranks, {one.own:,} messages, {one.done.events:,} events")
    theirs = simgrid(chosen.anchor, one.traffic.ranks, factors=chosen.default)
    if isinstance(theirs, str):
        sys.exit(theirs)
    print(f"SimGrid  {theirs[0]:.6f} s, {one.done.seconds / theirs[0] - 1:+.3%}")
    for name, value in compared(exchanges(one), theirs[1]).items():
        print(f"{name:<12} {value:,.10g}")


if __name__ == "__main__":
    main()
