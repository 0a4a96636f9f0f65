"""Predictions from the undelayed recordings beside what was measured: `python compare.py RESULTS.json RECORDINGS [--out FOLDER]`.

Nothing here needs MPI or time.  Predicted: the measured undelayed run, and what the product's replay of its recording gets longer by when
the latency of the network does (`turnbuckle model messages RECORDING --fidelity logp`, row ``host``, `--hop` by half the delay).  The
network of the undelayed run is read off the recording of ``pingpong`` alone.
"""

from __future__ import annotations

import argparse
import json
import lzma
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from turnbuckle.profile.profile import build
from turnbuckle.replay.contention import Fidelity
from turnbuckle.replay.mpi import Traffic, recorded
from turnbuckle.replay.mpi_program import all_messages
from turnbuckle.study.messages import replayed
from turnbuckle.study.setup import Setup
from turnbuckle.trace import Trace, read

CALIBRATION = "pingpong"
FIDELITIES: tuple[Fidelity, ...] = ("logp", "flow")
NAMES = {
    "logp": "replay, logp",
    "flow": "replay, flow",
    "nothing": "nothing changes",
    "count": "messages of the busiest rank x delay",
}
#: A link that limits nothing [B/s].
UNLIMITED = 1e15
#: Above this spread of the undelayed runs a table shows nothing.
SANE = 0.10


@dataclass(frozen=True)
class Row:
    """One point: the median of its runs, and the predictions of it [s].

    Attributes
    ----------
    base : median without delay.
    predicted : by `NAMES`.
    """

    program: str
    delay_ns: int
    repeats: int
    measured: float
    low: float
    high: float
    base: float
    predicted: Mapping[str, float]

    def off(self, name: str) -> float:
        """By how much a prediction is too long, as a share of the measured run time."""
        return self.predicted[name] / self.measured - 1.0

    def added_off(self, name: str) -> float:
        """The same as a share of what the delay added."""
        return (self.predicted[name] - self.measured) / (self.measured - self.base)


def unpacked(recordings: Path, program: str) -> Trace:
    """The recording of a program: one packed file per rank."""
    with tempfile.TemporaryDirectory(prefix="messages-") as name:
        for packed in (recordings / program).glob("rank-*.txt.xz"):
            (Path(name) / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
        return read(Path(name) / "rank-0.txt")


def calibrated(trace: Trace, most_bytes: float) -> Setup:
    """The network of an undelayed ping-pong, straight lines over the size through its shortest and its longest messages.

    A send keeps its processor for o + n O, which a receive does too; what is left of the time from the begin of the send to the end of
    the receive is L + n G.
    """
    mpi = trace.mpi.with_columns(text=trace.text(trace.mpi)).join(trace.mpi_ranks, on="thread").sort("start_ns")
    send, receive = (mpi.filter(rank=rank, text=name) for rank, name in ((0, "MPI_Send"), (1, "MPI_Recv")))
    size = send["size_bytes"].to_numpy()
    own = (send["end_ns"] - send["start_ns"]).to_numpy() * 1e-9
    whole = (receive["end_ns"].to_numpy() - send["start_ns"].to_numpy()) * 1e-9
    ends = [int(size.min()), int(size.max())]
    (short_own, long_own), (short, long) = ([float(np.median(times[size == n])) for n in ends] for times in (own, whole))
    span = ends[1] - ends[0]
    overhead_per_byte = max(long_own - short_own, 0.0) / span
    per_byte = max((long - short) / span - 2 * overhead_per_byte, 0.0)
    overhead = min(short_own - ends[0] * overhead_per_byte, short / 2)
    latency = max(short - 2 * (overhead + ends[0] * overhead_per_byte) - ends[0] * per_byte, 0.0)
    return Setup(
        path="host", ranks_per_node=1, hop_seconds=latency / 2, overhead_seconds=overhead,
        overhead_bandwidth=1 / overhead_per_byte if overhead_per_byte else 0.0, card_bandwidth=1 / max(per_byte, 1 / UNLIMITED),
        eager_limit_bytes=most_bytes,
    )  # fmt: skip


def run_time(traffic: Traffic, setup: Setup, fidelity: Fidelity, delay_ns: int) -> float:
    """Replayed run time [s] on the network of a setup, with a latency that is longer by the delay: two links lie between two ranks."""
    far = replace(setup, fidelity=fidelity, hop_seconds=(setup.hop_seconds or 0.0) + delay_ns * 1e-9 / 2)
    return replayed(traffic, far).row.seconds


def most_messages(traffic: Traffic) -> int:
    """Messages that reach the rank that gets most of them, those of collectives among them."""
    messages, _ = all_messages(traffic)
    return int(np.bincount(traffic.rank[messages.receive]).max())


def rows(results: Mapping[str, Any], recordings: Path) -> tuple[Setup, dict[str, dict[str, float]], list[Row]]:
    """The network, what each program's replay without delay is, and every point with its predictions."""
    setup = calibrated(unpacked(recordings, CALIBRATION), results["most_bytes"])
    out, undelayed = [], {}
    for name, program in results["programs"].items():
        traffic = recorded(build(unpacked(recordings, name)))
        near = {fidelity: run_time(traffic, setup, fidelity, 0) for fidelity in FIDELITIES}
        count = most_messages(traffic)
        undelayed[name] = {"recorded": program["recorded_s"], **near, "messages": count, "unmatched": traffic.unmatched}
        points = [p for p in results["points"] if p["program"] == name]
        base = statistics.median(next(p for p in points if p["delay_ns"] == 0)["seconds"])
        for p in (p for p in points if p["delay_ns"] > 0):
            delay = p["delay_ns"]
            predicted = {f: base + run_time(traffic, setup, f, delay) - near[f] for f in FIDELITIES}
            predicted |= {"nothing": base, "count": base + count * delay * 1e-9}
            times = p["seconds"]
            out.append(Row(name, delay, len(times), statistics.median(times), min(times), max(times), base, predicted))
    return setup, undelayed, out


def spread(seconds: Sequence[float]) -> float:
    """Longest less shortest, as a share of the median."""
    return (max(seconds) - min(seconds)) / statistics.median(seconds)


def _delay(ns: int) -> str:
    return f"{ns / 1e6:g} ms" if ns >= 1_000_000 else f"{ns / 1e3:g} us"


def _off(offs: Sequence[float]) -> str:
    found = [abs(off) for off in offs]
    return f"{statistics.median(found):.1%} / {max(found):.1%}" if found else ""


def markdown(results: Mapping[str, Any], setup: Setup, undelayed: Mapping[str, Mapping[str, float]], table: Sequence[Row]) -> str:
    """The tables made of the rows."""
    delays = sorted({row.delay_ns for row in table})
    loads = [load for p in results["points"] for load in p["load"]]
    stolen = sum(t for p in results["points"] for t in p["steal_s"])
    overhead = f"{setup.overhead_seconds * 1e9:.0f} ns"
    overhead += f" + n / {setup.overhead_bandwidth / 1e9:.2f} GB/s" if setup.overhead_bandwidth else ""
    wire = f"{2 * (setup.hop_seconds or 0) * 1e9:.0f} ns"
    wire += f" + n / {setup.card_bandwidth / 1e9:.2f} GB/s" if setup.card_bandwidth and setup.card_bandwidth < UNLIMITED else ""
    lines = [
        "# Run time at added message latency, measured and predicted", "",
        f"{len(undelayed)} programs on {results['ranks']} ranks, {len(table)} points, "
        f"up to {max((r.repeats for r in table), default=0)} runs each, {results['mpi']}. "
        f"Load of the machine, the runs among it: {min(loads):.1f} to {max(loads):.1f}; core time kept by its host: {stolen:.1f} s.",
        f"The network, from `{CALIBRATION}` alone: each end {overhead}, the way {wire}.", "",
        "Off: predicted over measured run time (median of the runs), less one. Positive: predicted too long.", "",
        "| program | messages | undelayed [ms] (spread) | replay undelayed | " + " | ".join(_delay(d) for d in delays) + " |",
        "| --- | --- | --- | --- |" + " --- |" * len(delays),
    ]  # fmt: skip
    for name, near in undelayed.items():
        at = {row.delay_ns: row for row in table if row.program == name}
        base = next(p["seconds"] for p in results["points"] if p["program"] == name and p["delay_ns"] == 0)
        cells = [f"{at[d].off('logp'):+.1%}" if d in at else "" for d in delays]
        head = f"{near['messages']:.0f} | {statistics.median(base) * 1e3:.2f} ({spread(base):.0%})"
        lines.append(f"| {name} | {head} | {near['logp'] / near['recorded'] - 1:+.1%} | " + " | ".join(cells) + " |")
    for kind, words in NAMES.items():
        cells = [_off([row.off(kind) for row in table if row.delay_ns == d]) for d in delays]
        lines.append(f"| **{words}**, median / worst | | | | " + " | ".join(cells) + " |")
    others = [row for row in table if row.program != CALIBRATION]
    counted = [row for row in others if row.measured > 1.1 * row.base]
    lines += [
        "", f"Without `{CALIBRATION}`, {len(others)} points: "
        + "; ".join(f"{words} {_off([row.off(kind) for row in others])}" for kind, words in NAMES.items()) + ".",
        f"Of what the delay added, where that is over 10 % of the run ({len(counted)} points): "
        + "; ".join(f"{words} {_off([row.added_off(kind) for row in counted])}" for kind, words in NAMES.items()) + ".",
        f"Inside the spread of the measured runs themselves: {sum(row.low <= row.predicted['logp'] <= row.high for row in table)} "
        f"of {len(table)} (logp).",
        "", "## Run times [ms]: measured, predicted (logp)", "",
        "| program | " + " | ".join(_delay(d) for d in delays) + " |", "| --- |" + " --- |" * len(delays),
    ]  # fmt: skip
    for name in undelayed:
        at = {row.delay_ns: row for row in table if row.program == name}
        cells = [f"{at[d].measured * 1e3:.2f}, {at[d].predicted['logp'] * 1e3:.2f}" if d in at else "" for d in delays]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def lines_of(data: Mapping[str, Any]) -> str:
    """JSON with a point a line."""
    head = json.dumps({key: value for key, value in data.items() if key != "points"}, indent=1).rstrip("}").rstrip()
    points = ",\n".join(json.dumps(point) for point in data["points"])
    return f'{head},\n "points": [\n{points}\n]}}\n'


def predictions(table: Sequence[Row]) -> str:
    """The predictions as JSON, to the nanosecond."""
    told = [{"program": r.program, "delay_ns": r.delay_ns, **{k: round(s, 9) for k, s in r.predicted.items()}} for r in table]
    return "[\n" + ",\n".join(json.dumps(row) for row in told) + "\n]\n"


def write(results_file: Path, recordings: Path, out: Path) -> None:
    """Write ``predictions.json`` and ``messages.md``; say where the undelayed runs vary too much for a table."""
    results = json.loads(results_file.read_text(encoding="utf-8"))
    setup, undelayed, table = rows(results, recordings)
    out.mkdir(parents=True, exist_ok=True)
    (out / "predictions.json").write_text(predictions(table), encoding="utf-8")
    (out / "messages.md").write_text(markdown(results, setup, undelayed, table), encoding="utf-8")
    for p in results["points"]:
        if p["delay_ns"] == 0 and not spread(p["seconds"]) < SANE:
            print(f"{p['program']}: its undelayed runs vary by {spread(p['seconds']):.0%}: no evidence, measure again on a quiet machine")


def main() -> None:
    """Compare the results of a measurement with predictions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("recordings", type=Path)
    parser.add_argument("--out", type=Path, default=None)
    words = parser.parse_args()
    write(words.results, words.recordings, words.out or words.results.parent)


if __name__ == "__main__":
    main()
