"""How large a replay fits one machine: HALO6-AR (`halo.py`) at 4,096 ranks and ten million
messages.

    python benchmarks/scale.py [--messages 10000000] [--kind logp flow calls] [--out benchmarks/out/scale.json]

Each fidelity runs in a fresh process: it builds the program in the types that the native core
counts in, so that nothing is copied, and replays it once with progress. `calls` takes the way of a
recording: the same messages as MPI calls (`mpi.replay.messages.Traffic`), made into a program and
replayed as `logp`, on fewer of them. The peak is the most memory that the process ever held, Python
included. Ranks keep step; out of step `flow` is far slower (see `contention.py`), and its memory is
the same.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import numpy as np

import halo
from measuring import conclude, peak_bytes
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic
from turnbuckle.mpi.replay.program import program as of_calls
from turnbuckle.replay.contention.contention import Fidelity, Program, replay

HERE = Path(__file__).resolve().parent
RANKS: Final = 4096
MESSAGES: Final = 10_000_000
#: Of the whole process, at `MESSAGES` [B].
MEMORY_AIM: Final = 8e9
LIMIT_SECONDS: Final = 3600
KINDS: Final = ("logp", "flow", "calls")
#: Messages that go as calls at most.
CALLS_MOST: Final = 10_000_000
Row = dict[str, Any]


def iterations_of(messages: int, ranks: int = RANKS) -> int:
    """Whole iterations that hold that many messages, one at least.

    >>> iterations_of(10_000_000)
    136
    """
    return max(1, -(-messages // (ranks * len(halo.sizes(ranks)))))


def traffic(ranks: int, iterations: int) -> Traffic:
    """The same as calls: six receives and six sends begun, one wait for all, an allreduce."""
    calls = halo.FACES * 2 + 2
    first = (np.arange(iterations)[:, None] + np.arange(ranks)[None, :] * iterations) * calls
    slot, to = np.arange(halo.FACES), halo.targets(ranks)[:, : halo.FACES]
    wait = 2 * halo.FACES
    send, receive = first[:, :, None] + halo.FACES + slot, first[:, to] + slot
    sent, received = (
        np.broadcast_to(at, send.shape).reshape(-1)
        for at in (first[:, :, None] + wait, first[:, to] + wait)
    )
    count = send.size
    messages = Messages(
        send.reshape(-1),
        sent,
        receive.reshape(-1),
        received,
        np.full(count, -1),
        np.full(count, float(halo.FACE_BYTES)),
    )
    gaps = np.zeros((ranks, iterations, calls))
    gaps[:, :, 0] = halo.work_seconds(ranks)[:, None]
    sums = Rounds("allreduce", np.full(iterations, float(halo.SUM_BYTES)), first + wait + 1, 0)
    nothing = np.zeros(ranks * iterations * calls)
    return Traffic(
        ranks,
        np.repeat(np.arange(ranks), iterations * calls),
        gaps.reshape(-1),
        nothing,
        np.zeros(ranks),
        messages,
        (sums,),
        1.0,
        0,
    )


def size_of(one: Program) -> int:
    """Bytes that a program holds."""
    return sum(int(getattr(one, field.name).nbytes) for field in fields(Program))


def child(messages: int, kind: str) -> Row:
    """What a fresh process does: build, replay, and say what it took."""
    imported, began = peak_bytes(), time.perf_counter()
    iterations = iterations_of(messages)
    fidelity: Fidelity = "flow" if kind == "flow" else "logp"
    one = (
        of_calls(traffic(RANKS, iterations), eager_limit=halo.EAGER_BYTES)
        if kind == "calls"
        else halo.program(RANKS, iterations)
    )
    built, loaded, told = time.perf_counter() - began, peak_bytes(), []

    def tell(share: float) -> None:
        told.append(share)
        print(f"\r{kind}: {share:6.1%}", end="", file=sys.stderr, flush=True)

    wall, cpu = time.perf_counter(), time.process_time()
    found = replay(one, halo.network(RANKS), fidelity, progress=tell)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(file=sys.stderr)
    return {
        "name": kind,
        "ranks": RANKS,
        "iterations": iterations,
        "messages": len(one.source),
        "program": size_of(one),
        "imported": imported,
        "loaded": loaded,
        "peak": peak_bytes(),
        "built": built,
        "wall": wall,
        "cpu": cpu,
        "told": len(told),
        "seconds": found.seconds,
        "events": found.events,
    }


def measure(messages: int = MESSAGES, kinds: Sequence[str] = KINDS) -> dict[str, Any]:
    """Each kind in a process of its own."""
    rows = []
    for kind in kinds:
        count = min(messages, CALLS_MOST) if kind == "calls" else messages
        # one thread: what NumPy's library of linear algebra starts is no part of it
        command = [sys.executable, str(Path(__file__).resolve()), "--child", str(count), kind]
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            text=True,
            timeout=LIMIT_SECONDS,
            check=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )
        rows.append(json.loads(done.stdout))
    return {"rows": rows}


def each(row: Row, beyond: str = "imported") -> float:
    """Memory of a message: peak beyond what the process held at that point [B]."""
    return float((row["peak"] - row[beyond]) / row["messages"])


def above(row: Row) -> float:
    """Time of an iteration beyond its work [us]."""
    return float(row["seconds"] / row["iterations"] - halo.WORK_SECONDS) * 1e6


def table(result: dict[str, Any]) -> str:
    """The measurements as text."""
    head = (
        "ranks  replay    messages   build s   CPU s  k msg/s  program MB  peak MB  B/message  "
        "us/iter"
    )
    lines = [head, "-" * len(head)]
    for row in result["rows"]:
        first = (
            f"{row['ranks']:>5}  "
            f"{row['name']:<6}{row['messages']:>12,}{row['built']:>10.1f}{row['cpu']:>8.1f}"
        )
        held = f"{row['program'] / 1e6:>12.0f}{row['peak'] / 1e6:>9.0f}{each(row):>11.1f}"
        lines.append(f"{first}{row['messages'] / row['cpu'] / 1e3:>9.0f}{held}{above(row):>9.2f}")
    lines.append(
        "B/message: peak of the process beyond Python and its imports; us/iter: an iteration "
        "above its 1 ms of work"
    )
    return "\n".join(lines)


def targets(result: dict[str, Any]) -> list[tuple[bool, str]]:
    """Each aim: whether it is met, and the sentence that says by how much; a shorter run is judged
    by what the full one would take.
    """
    out: list[tuple[bool, str]] = []
    for row in result["rows"]:
        full = row["imported"] + each(row) * max(row["messages"], MESSAGES)
        words = (
            f"scale, {row['name']}, {row['ranks']:,} ranks: {row['peak'] / 1e9:.2f} GB for "
            f"{row['messages']:,} messages"
        )
        if row["messages"] < MESSAGES:
            words += f", {full / 1e9:.2f} GB at {MESSAGES:,}"
        out.append(
            (
                full < MEMORY_AIM,
                (
                    f"{words}; aim {MEMORY_AIM / 1e9:g} GB; {row['wall']:.0f} s, told "
                    f"{row['told']} times how far it was"
                ),
            )
        )
    return out


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(int(sys.argv[2]), sys.argv[3])))
        return
    parser = argparse.ArgumentParser(
        description="the largest replay: 4,096 ranks, ten million messages"
    )
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--out", type=Path, default=HERE / "out" / "scale.json")
    chosen = parser.parse_args()
    if not 0 < chosen.messages <= 100 * MESSAGES:
        parser.error(f"1 to {100 * MESSAGES:,} messages")
    result = measure(chosen.messages, chosen.kind)
    conclude(result, table(result), targets(result), chosen.out)


if __name__ == "__main__":
    main()
