"""Messages on a shared network: the contention replay beside SimPy and SimGrid, on HALO6-AR
(`halo.py`) at 64, 256 and 1024 ranks.

    python benchmarks/contention.py [--share 1.0] [--rounds 3] [--no-instructions] [--out benchmarks/out/contention.json]

The replay runs in a fresh process that loads the program from disk; its CPU seconds are those of
`replay` alone, its memory is that of the process. SimPy runs LogGP without congestion, written by
hand, on the short form; it must find the same time. SimGrid (`smpirun`, Debian's `libsimgrid-dev`;
never needed) replays the same messages on the same fat tree as its own time-independent trace; its
CPU seconds are those of its whole process. It runs with its own settings, and on the short form
with its factors off, as an oracle. Instructions are counted by valgrind's callgrind on two short
runs: what the longer took more, for each message more.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import numpy as np

import halo
from measuring import conclude, peak_bytes, restart_peak
from turnbuckle.replay.contention.contention import Fidelity, Program, replay

HERE = Path(__file__).resolve().parent
LIMIT_SECONDS: Final = 900
FIDELITIES: Final[tuple[Fidelity, ...]] = ("logp", "flow", "packet")
#: Messages a CPU second.
AIMS: Final = {
    ("logp", 64): 4e6,
    ("logp", 256): 3e6,
    ("logp", 1024): 2e6,
    ("flow", 64): 6e5,
    ("flow", 256): 4e5,
    ("flow", 1024): 2e5,
    ("packet", 64): 1.5e5,
    ("packet", 256): 1.2e5,
    ("packet", 1024): 1e5,
}
MEMORY_AIM: Final = 100e6
#: Time of an iteration above its work [us], least and most of others' simulators of one kind:
#: without congestion, with it, by packets (TraceR with packets of 8 KB, htsim with 4 KB), of any
#: kind.
BANDS: Final = {
    "logp": {64: (58.5, 72.0), 256: (61.5, 76.0), 1024: (64.5, 80.0)},
    "flow": {64: (68.0, 86.0), 256: (71.0, 93.0), 1024: (74.0, 99.0)},
    "packet": {64: (75.9, 85.5), 256: (80.4, 92.9), 1024: (85.0, 98.8)},
    "any": {64: (58.5, 86.0), 256: (61.5, 93.0), 1024: (64.5, 99.0)},
}
ORACLE_AIM: Final = 0.05
#: Times as fast as SimGrid where ranks do not keep step.
RAGGED_AIM: Final = 2.0
#: Ranks that do not keep step: their work differs by up to this much, so that hardly two flows
#: begin or end at one instant; iterations.
SPREAD_SECONDS: Final = 10e-6
RAGGED: Final = {64: 26, 256: 8, 1024: 3}
#: SimGrid without the factors it fits to Ethernet, without traffic of acknowledgements; short
#: messages do not wait for their receive.
PLAIN: Final = (
    "smpi/bw-factor:0:1",
    "smpi/lat-factor:0:1",
    "network/crosstraffic:0",
    "network/weight-S:0",
    "smpi/async-small-thresh:65000",
)
#: Our overheads in its words; it charges that of receiving only to messages the sender does not
#: wait for, so all of them are made so.
OVERHEADS: Final = ("smpi/ois:0:5e-7:0", "smpi/or:0:5e-7:0", "smpi/send-is-detached-thresh:200000")
#: Iterations of the two runs whose instructions are counted, as others were.
COUNTED: Final = {64: (13, 39), 1024: (1, 3)}
#: Runs a command and says what it took; a process of its own, because a child counts the memory of
#: who started it as its own.
WATCHED: Final = """import resource, subprocess, sys
subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"used {used.ru_utime + used.ru_stime} s, {used.ru_maxrss} KiB", flush=True)"""
#: One thread: what NumPy's library of linear algebra starts is no part of it.
CALM: Final = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
Row = dict[str, Any]


def save(program: Program, folder: Path) -> None:
    """A program as arrays on disk."""
    folder.mkdir(exist_ok=True)
    for field in fields(Program):
        np.save(folder / f"{field.name}.npy", getattr(program, field.name))


def child(folder: Path, ranks: int, fidelity: Fidelity, rounds: int) -> Row:
    """What a fresh process does: load, replay, and say what it took."""
    imported = restart_peak()
    program = Program(
        **{field.name: np.load(folder / f"{field.name}.npy") for field in fields(Program)}
    )
    network = halo.network(ranks)
    loaded, cpu, peak = restart_peak(), [], 0
    for _ in range(rounds):
        began = time.process_time()
        found = replay(program, network, fidelity)
        cpu.append(time.process_time() - began)
        peak = peak or peak_bytes()
    return {
        "seconds": found.seconds,
        "events": found.events,
        "cpu": cpu,
        "imported": imported,
        "loaded": loaded,
        "peak": peak,
    }


def own(ranks: int, iterations: int, fidelity: Fidelity, rounds: int, folder: Path) -> Row:
    """The replay of a saved program in a fresh process."""
    command = _child(folder, ranks, fidelity, rounds)
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=True,
        env=os.environ | CALM,
    )
    return {"name": fidelity, **_about(ranks, iterations), **json.loads(done.stdout)}


def instructions(ranks: int, fidelity: Fidelity) -> float | str:
    """Instructions for each message more, or why they were not counted."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    counts = []
    for iterations in COUNTED[ranks]:
        with tempfile.TemporaryDirectory() as kept:
            save(halo.program(ranks, iterations), Path(kept))
            tool = [
                "valgrind",
                "--tool=callgrind",
                f"--callgrind-out-file={kept}/out",
                *_child(Path(kept), ranks, fidelity, 1),
            ]
            done = subprocess.run(
                tool,
                capture_output=True,
                text=True,
                timeout=LIMIT_SECONDS,
                check=False,
                env=os.environ | CALM,
            )
        told = re.search(r"Collected : (\d+)", done.stderr)
        if told is None:
            return f"valgrind said: {(done.stderr.strip().splitlines() or ['nothing'])[-1][:100]}"
        counts.append(int(told[1]))
    more = COUNTED[ranks][1] - COUNTED[ranks][0]
    return float((counts[1] - counts[0]) / _about(ranks, more)["messages"])


def simpy(ranks: int, iterations: int) -> Row:
    """LogGP by hand in SimPy: one process a rank, a card is the time it is free from, an arrival is
    one callback.
    """
    try:
        from simpy import Environment, Event
    except ModuleNotFoundError:
        return {"name": "SimPy", **_about(ranks, iterations), "missing": "SimPy is not installed"}
    env, overhead, latency, per_byte = (
        Environment(),
        halo.OVERHEAD_SECONDS,
        4 * halo.HOP_SECONDS,
        1 / halo.BANDWIDTH,
    )
    to, sizes = halo.targets(ranks).tolist(), halo.sizes(ranks).tolist()
    free, box = [0.0] * ranks, [dict[tuple[int, int], float]() for _ in range(ranks)]
    waits: list[tuple[set[tuple[int, int]], Event] | None] = [None] * ranks

    def send(rank: int, iteration: int, slot: int, at: float) -> None:
        begin = max(at, free[rank])
        free[rank] = begin + sizes[slot] * per_byte
        whom, key = to[rank][slot], (iteration, slot)

        def arrive(_: Event) -> None:
            box[whom][key] = env.now
            waiting = waits[whom]
            if waiting is not None and key in waiting[0]:
                waiting[0].discard(key)
                if not waiting[0]:
                    waits[whom] = None
                    waiting[1].succeed()

        env.timeout(free[rank] + latency - env.now).callbacks.append(arrive)

    def exchange(rank: int, iteration: int, slots: range) -> Generator[Event, Any, None]:
        for place, slot in enumerate(slots, 1):
            send(rank, iteration, slot, env.now + place * overhead)
        ready = env.now + len(slots) * overhead
        keys = [(iteration, slot) for slot in slots]
        missing = {key for key in keys if key not in box[rank]}
        if missing:
            event = env.event()
            waits[rank] = (missing, event)
            yield event
        for key in keys:
            ready = max(ready, box[rank].pop(key)) + overhead
        yield env.timeout(ready - env.now)

    def live(rank: int) -> Generator[Event, Any, None]:
        for iteration in range(iterations):
            yield env.timeout(halo.WORK_SECONDS)
            yield from exchange(rank, iteration, range(halo.FACES))
            for slot in range(halo.FACES, len(sizes)):
                yield from exchange(rank, iteration, range(slot, slot + 1))

    began = time.process_time()
    for rank in range(ranks):
        env.process(live(rank))
    env.run()
    return {
        "name": "SimPy",
        **_about(ranks, iterations),
        "cpu": [time.process_time() - began],
        "seconds": env.now,
    }


def simgrid(
    ranks: int, iterations: int, *settings: str, switch: bool = False, spread: float = 0.0
) -> Row:
    """SimGrid's replay of the same messages: CPU seconds and memory of its whole process."""
    row: Row = {"name": "SimGrid", **_about(ranks, iterations)}
    if shutil.which("smpirun") is None:
        return row | {"missing": "smpirun is not installed (Debian: libsimgrid-dev)"}
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        (folder / "platform.xml").write_text(halo.platform(ranks, switch=switch), encoding="ascii")
        (folder / "hosts").write_text(
            "".join(f"node-{rank}\n" for rank in range(ranks)), encoding="ascii"
        )
        for rank, text in enumerate(halo.lines(ranks, iterations, spread)):
            (folder / f"{rank}.txt").write_text(text, encoding="ascii")
        (folder / "all").write_text(
            "".join(f"{folder / str(rank)}.txt\n" for rank in range(ranks)), encoding="ascii"
        )
        command = [
            "smpirun",
            "-np",
            str(ranks),
            "-platform",
            "platform.xml",
            "-hostfile",
            "hosts",
            "-replay",
            "all",
        ]
        command += [f"--cfg={one}" for one in ("smpi/host-speed:1Gf", *settings)]
        with (folder / "said").open("w+", encoding="utf-8", errors="replace") as said:
            watching = [sys.executable, "-ISc", WATCHED, *command]
            subprocess.run(
                watching, stdout=said, stderr=said, cwd=folder, timeout=LIMIT_SECONDS, check=False
            )
            said.seek(0)
            words = said.read()
    told, used = (
        re.search(pattern, words)
        for pattern in (r"Simulation time ([0-9.]+)", r"used ([0-9.]+) s, (\d+) KiB")
    )
    if told is None or used is None:
        return row | {
            "missing": f"smpirun said: {(words.strip().splitlines() or ['nothing'])[-1][:100]}"
        }
    return row | {"cpu": [float(used[1])], "peak": int(used[2]) * 1024, "seconds": float(told[1])}


def oracle(ranks: int) -> list[Row]:
    """The short form on one switch and on the tree, ranks in step and not, without and with
    overheads: `flow`, and SimGrid, factors off.
    """
    iterations, rows = halo.SHORT[ranks], []
    for switch, spread, overhead in itertools.product(
        (True, False), (0.0, SPREAD_SECONDS), (0.0, halo.OVERHEAD_SECONDS)
    ):
        theirs = simgrid(
            ranks,
            iterations,
            *PLAIN,
            *(OVERHEADS if overhead else ()),
            switch=switch,
            spread=spread,
        )
        one = halo.program(ranks, iterations, spread_seconds=spread)
        ours = replay(one, halo.network(ranks, overhead, switch=switch), "flow").seconds
        about = {
            "ranks": ranks,
            "switch": switch,
            "spread": spread,
            "overhead": overhead,
            "ours": ours / iterations,
        }
        rows.append(
            about
            | (
                {"missing": theirs["missing"]}
                if "missing" in theirs
                else {"theirs": theirs["seconds"] / iterations}
            )
        )
    return rows


def measure(share: float, rounds: int, *, counted: bool = True) -> dict[str, Any]:
    """All measurements, at a share of the full length; ``{"missing": why}`` where SimPy finds
    another time.

    Parameters
    ----------
    counted : count instructions too (minutes).
    """
    rows: list[Row] = []
    for ranks, full in halo.FULL.items():
        iterations = max(1, round(full * share))
        with tempfile.TemporaryDirectory() as kept:
            save(halo.program(ranks, iterations), Path(kept))
            rows += [
                own(ranks, iterations, fidelity, rounds, Path(kept)) for fidelity in FIDELITIES
            ]
            few = min(RAGGED[ranks], iterations)
            save(halo.program(ranks, few, spread_seconds=SPREAD_SECONDS), Path(kept))
            rows += [
                own(ranks, few, one, 1, Path(kept)) | {"name": f"{one}, ragged"}
                for one in FIDELITIES[1:]
            ]
        short = min(halo.SHORT[ranks], iterations)
        by_hand = simpy(ranks, short)
        if "missing" not in by_hand:
            eager = replay(
                halo.program(ranks, short, eager_bytes=halo.FACE_BYTES), halo.network(ranks), "logp"
            ).seconds
            if abs(by_hand["seconds"] - eager) > 1e-9 * eager:
                return {
                    "missing": f"SimPy finds {by_hand['seconds']} s, logp {eager} s, at {ranks} ranks"
                }
        rows += [
            by_hand,
            simgrid(ranks, iterations),
            simgrid(ranks, few, spread=SPREAD_SECONDS) | {"name": "SimGrid, ragged"},
        ]
    marked = (
        [{"ranks": n, "name": f, "each": instructions(n, f)} for n in COUNTED for f in FIDELITIES]
        if counted
        else []
    )
    return {"rows": rows, "instructions": marked, "oracle": oracle(64)}


def rate(row: Row) -> float:
    """Messages a CPU second, by the median."""
    return float(row["messages"] / statistics.median(row["cpu"]))


def above(row: Row) -> float:
    """Time of an iteration beyond its work [us]."""
    return float(row["seconds"] / row["iterations"] - halo.WORK_SECONDS) * 1e6


def table(result: dict[str, Any]) -> str:
    """The measurements as text."""
    if "missing" in result:
        return f"contention: not measured: {result['missing']}"
    head = (
        "ranks  replay             messages   CPU s  k msg/s  events/msg  peak MB  beyond  us/iter"
    )
    lines = [head, "-" * len(head)]
    for row in result["rows"]:
        first = f"{row['ranks']:>5}  {row['name']:<17}{row['messages']:>10,}"
        if "missing" in row:
            lines.append(f"{first}  {row['missing']}")
            continue
        events = f"{row['events'] / row['messages']:.2f}" if "events" in row else ""
        peak = f"{row['peak'] / 1e6:.0f}" if "peak" in row else ""
        beyond = f"{(row['peak'] - row['loaded']) / 1e6:.0f}" if "loaded" in row else ""
        spent = f"{statistics.median(row['cpu']):>8.2f}{rate(row) / 1e3:>9.0f}"
        lines.append(f"{first}{spent}{events:>12}{peak:>9}{beyond:>8}{above(row):>9.2f}")
    lines.append(
        "k msg/s: thousand messages a CPU second; beyond: peak beyond the program; us/iter: "
        "an iteration above its 1 ms of work"
    )
    lines.append(
        f"ragged: ranks whose work differs by up to {SPREAD_SECONDS * 1e6:g} us; the others "
        "are all alike and keep step"
    )
    for one in result["instructions"]:
        said = (
            one["each"]
            if isinstance(one["each"], str)
            else f"{one['each']:,.0f} instructions a message"
        )
        lines.append(f"{one['ranks']:>5}  {one['name']:<17}{said}")
    for one in result["oracle"]:
        place = f"{_case(one)}: {_us(one['ours'])} us"
        lines.append(
            f"{one['ranks']:>5}  {'flow':<17}{place}, SimGrid, factors off: "
            f"{one.get('missing') or _us(one['theirs']) + ' us'}"
        )
    return "\n".join(lines)


def targets(result: dict[str, Any]) -> list[tuple[bool, str]]:
    """Each aim: whether it is met, and the sentence that says by how much."""
    if "missing" in result:
        return [(False, f"contention was not measured: {result['missing']}")]
    by = {(row["ranks"], row["name"]): row for row in result["rows"] if "missing" not in row}
    out: list[tuple[bool, str]] = []
    for ranks, name in (
        (ranks, name) for ranks in halo.FULL for name in FIDELITIES if (ranks, name) in by
    ):
        row, aim, what = by[ranks, name], AIMS[name, ranks], f"contention, {name}, {ranks} ranks"
        ratios = "".join(
            f"; {rate(row) / rate(by[ranks, o]):.1f}x of {o}"
            for o in ("SimPy", "SimGrid")
            if (ranks, o) in by
        )
        out.append(
            (
                rate(row) >= aim,
                f"{what}: {rate(row) / 1e6:.2f} M messages a CPU second; aim {aim / 1e6:g}{ratios}",
            )
        )
        found = above(row)
        kinds = {
            "logp": {"logp": "simulators without congestion"},
            "flow": {"flow": "simulators with congestion", "any": "all simulators"},
            "packet": {"packet": "simulators by packets", "any": "all simulators"},
        }
        for kind, whose in kinds[name].items():
            least, most = BANDS[kind][ranks]
            out.append(
                (
                    least <= round(found, 1) <= most,
                    f"{what}: {found:.1f} us an iteration; {whose}: {least} to {most}",
                )
            )
        if name == "flow" and all((ranks, f"{one}, ragged") in by for one in ("flow", "SimGrid")):
            mine, theirs = rate(by[ranks, "flow, ragged"]), rate(by[ranks, "SimGrid, ragged"])
            words = f"{mine / 1e3:.0f} k messages a CPU second, {mine / theirs:.1f}x of SimGrid"
            out.append(
                (mine >= RAGGED_AIM * theirs, f"{what}, ragged: {words}; aim {RAGGED_AIM:g}x")
            )
    widest = max(
        (row for row in result["rows"] if row["name"] in FIDELITIES),
        key=lambda row: (row["ranks"], row["peak"]),
    )
    size = (
        f"{widest['peak'] / 1e6:.0f} MB, of it {(widest['peak'] - widest['loaded']) / 1e6:.0f} "
        "beyond the program"
    )
    imported = f"{widest['imported'] / 1e6:.0f} for Python and its imports"
    out.append(
        (
            widest["peak"] < MEMORY_AIM,
            (
                f"contention, {widest['name']}, {widest['ranks']} ranks: {size}, {imported}; aim "
                "under 100 MB"
            ),
        )
    )
    off = {_case(one): _off(one) for one in result["oracle"] if "theirs" in one}
    if off:
        worst, best = max(off, key=lambda case: off[case]), min(off, key=lambda case: off[case])
        said = f"most off {off[worst]:.2%} ({worst}), least {off[best]:.2%} ({best})"
        out.append(
            (
                off[worst] <= ORACLE_AIM,
                (
                    "contention, flow against SimGrid with its factors off, communication time: "
                    f"{said}; aim 5 %"
                ),
            )
        )
    return out


def _case(one: Row) -> str:
    return (
        f"{'switch' if one['switch'] else 'tree'}{', ragged' if one['spread'] else ''}, overheads "
        f"{one['overhead'] * 1e6:g} us"
    )


def _off(one: Row) -> float:
    """Share by which our communication time differs from theirs."""
    return float(abs(one["ours"] - one["theirs"]) / (one["theirs"] - halo.WORK_SECONDS))


def _us(seconds: float) -> str:
    return f"{(seconds - halo.WORK_SECONDS) * 1e6:.2f}"


def _about(ranks: int, iterations: int) -> Row:
    return {
        "ranks": ranks,
        "iterations": iterations,
        "messages": iterations * ranks * (halo.FACES + halo.steps(ranks)),
    }


def _child(folder: Path, ranks: int, fidelity: Fidelity, rounds: int) -> list[str]:
    return [
        sys.executable,
        str(Path(__file__).resolve()),
        "--child",
        str(folder),
        str(ranks),
        fidelity,
        str(rounds),
    ]


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--child"]:
        fidelity = next(one for one in FIDELITIES if one == sys.argv[4])
        print(json.dumps(child(Path(sys.argv[2]), int(sys.argv[3]), fidelity, int(sys.argv[5]))))
        return
    parser = argparse.ArgumentParser(
        description="replay messages on a shared network, ours and by others"
    )
    parser.add_argument(
        "--share",
        type=float,
        default=1.0,
        help="of the full length, about a million messages at each size",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--no-instructions", action="store_true", help="do not count instructions (takes minutes)"
    )
    parser.add_argument("--out", type=Path, default=HERE / "out" / "contention.json")
    chosen = parser.parse_args()
    if not 0 < chosen.share <= 1 or chosen.rounds < 1:
        parser.error("a share above 0 and up to 1, and 1 round at least")
    result = measure(chosen.share, chosen.rounds, counted=not chosen.no_instructions)
    conclude(result, table(result), targets(result), chosen.out)


if __name__ == "__main__":
    main()
