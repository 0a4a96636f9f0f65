"""Predictions from the undelayed recordings beside what was measured: `python compare.py [FOLDER]
[--out FOLDER]`.

Nothing here needs MPI or time.  FOLDER holds ``measured.json`` and ``recordings``, as the case
`message_delay` does.  Predictions are those of `turnbuckle validate`
(`turnbuckle.mpi.questions.delay.question`), and the command behind them is `turnbuckle model
messages RECORDING --fidelity logp`, row ``host``, `--hop` longer by half the delay.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from turnbuckle.mpi.questions.delay.question import UNLIMITED, Point, Program, programs, words
from turnbuckle.mpi.questions.messages.setup import Setup
from turnbuckle.replay.contention.contention import Fidelity

HERE = Path(__file__).resolve().parent
CASE = HERE.parents[1] / "cases" / "message_delay"
CALIBRATION = "pingpong"
FIDELITIES: tuple[Fidelity, ...] = ("logp", "flow")
NAMES = {
    "logp": "replay, logp",
    "flow": "replay, flow",
    "nothing": "nothing changes",
    "count": "messages of the busiest rank x delay",
}
#: Above this spread of the undelayed runs a table shows nothing.
SANE = 0.10


def rows(measurements: Mapping[str, Any], recordings: Path) -> tuple[Setup, list[Program]]:
    """Predict every point of a measurement by each fidelity, on the network of the ping-pong."""
    return programs(measurements, recordings, CALIBRATION, FIDELITIES)


def spread(seconds: Sequence[float]) -> float:
    """Longest less shortest, as a share of the median."""
    return (max(seconds) - min(seconds)) / statistics.median(seconds)


def _off(offs: Sequence[float]) -> str:
    found = [abs(off) for off in offs]
    return f"{statistics.median(found):.1%} / {max(found):.1%}" if found else ""


def markdown(results: Mapping[str, Any], setup: Setup, measured: Sequence[Program]) -> str:
    """The tables made of the programs."""
    table = [point for program in measured for point in program.points]
    delays = sorted({row.delay_ns for row in table})
    loads = [load for p in results["points"] for load in p["load"]]
    stolen = sum(t for p in results["points"] for t in p["steal_s"])
    overhead = f"{setup.overhead_seconds * 1e9:.0f} ns"
    overhead += (
        f" + n / {setup.overhead_bandwidth / 1e9:.2f} GB/s" if setup.overhead_bandwidth else ""
    )
    wire = f"{2 * (setup.hop_seconds or 0) * 1e9:.0f} ns"
    wire += (
        f" + n / {setup.card_bandwidth / 1e9:.2f} GB/s"
        if setup.card_bandwidth and setup.card_bandwidth < UNLIMITED
        else ""
    )
    lines = [
        "# Run time at added message latency, measured and predicted\n",
        f"{len(measured)} programs on {results['ranks']} ranks, {len(table)} points, "
        f"up to {max((len(p.seconds) for p in table), default=0)} runs each, {results['mpi']}. "
        f"Load of the machine, the runs among it: {min(loads):.1f} to {max(loads):.1f}; core time "
        f"kept by its host: {stolen:.1f} s.",
        f"The network, from `{CALIBRATION}` alone: each end {overhead}, the way {wire}.\n",
        (
            "Off: predicted over measured run time (median of the runs), less one. Positive: "
            "predicted too long.\n"
        ),
        "| program | messages | undelayed [ms] (spread) | replay undelayed | "
        + " | ".join(words(d) for d in delays)
        + " |",
        "| --- | --- | --- | --- |" + " --- |" * len(delays),
    ]
    for program in measured:
        at = {row.delay_ns: row for row in program.points}
        cells = [f"{at[d].off():+.1%}" if d in at else "" for d in delays]
        head = (
            f"{program.messages} | {statistics.median(program.undelayed) * 1e3:.2f} "
            f"({spread(program.undelayed):.0%})"
        )
        lines.append(
            f"| {program.name} | {head} | {program.replayed['logp'] / program.recorded - 1:+.1%} | "
            + " | ".join(cells)
            + " |"
        )
    for kind, title in NAMES.items():
        cells = [_off([row.off(kind) for row in table if row.delay_ns == d]) for d in delays]
        lines.append(f"| **{title}**, median / worst | | | | " + " | ".join(cells) + " |")
    others = [row for row in table if row.program != CALIBRATION]
    counted = [row for row in others if row.measured > 1.1 * row.base]
    lines += [
        "",
        f"Without `{CALIBRATION}`, {len(others)} points: "
        + "; ".join(
            f"{title} {_off([row.off(kind) for row in others])}" for kind, title in NAMES.items()
        )
        + ".",
        f"Of what the delay added, where that is over 10 % of the run ({len(counted)} points): "
        + "; ".join(
            f"{title} {_off([row.added_off(kind) for row in counted])}"
            for kind, title in NAMES.items()
        )
        + ".",
        f"Inside the spread of the measured runs themselves: "
        f"{sum(min(row.seconds) <= row.predicted['logp'] <= max(row.seconds) for row in table)} "
        f"of {len(table)} (logp).",
        "\n## Run times [ms]: measured, predicted (logp)\n",
        "| program | " + " | ".join(words(d) for d in delays) + " |",
        "| --- |" + " --- |" * len(delays),
    ]
    for program in measured:
        at = {row.delay_ns: row for row in program.points}
        cells = [
            f"{at[d].measured * 1e3:.2f}, {at[d].predicted['logp'] * 1e3:.2f}" if d in at else ""
            for d in delays
        ]
        lines.append(f"| {program.name} | " + " | ".join(cells) + " |")
    late = {
        (p["program"], p["delay_ns"]): p["waited_ns"] - p["delay_ns"]
        for p in results["points"]
        if "waited_ns" in p
    }
    lines += [
        "\n## How much later than due receives went on that had to wait [us]\n",
        "Mean of a run, median of the runs. Predictions are for a delay that is longer by it.\n",
        "| program | " + " | ".join(words(d) for d in delays) + " |",
        "| --- |" + " --- |" * len(delays),
    ]
    for program in measured:
        cells = [
            f"{late[program.name, d] / 1e3:.2f}" if (program.name, d) in late else ""
            for d in delays
        ]
        lines.append(f"| {program.name} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def lines_of(data: Mapping[str, Any]) -> str:
    """JSON with a point a line."""
    head = (
        json.dumps({key: value for key, value in data.items() if key != "points"}, indent=1)
        .rstrip("}")
        .rstrip()
    )
    points = ",\n".join(json.dumps(point) for point in data["points"])
    return f'{head},\n "points": [\n{points}\n]}}\n'


def predictions(measured: Sequence[Program]) -> str:
    """The predictions as JSON, to the nanosecond."""

    def line(p: Point) -> str:
        return json.dumps(
            {
                "program": p.program,
                "delay_ns": p.delay_ns,
                **{k: round(s, 9) for k, s in p.predicted.items()},
            }
        )

    return "[\n" + ",\n".join(line(p) for program in measured for p in program.points) + "\n]\n"


def write(folder: Path, out: Path) -> None:
    """Write ``predictions.json`` and ``messages.md``; say where the undelayed runs vary too much
    for a table.
    """
    results = json.loads((folder / "measured.json").read_text(encoding="utf-8"))
    setup, measured = rows(results, folder / "recordings")
    out.mkdir(parents=True, exist_ok=True)
    (out / "predictions.json").write_text(predictions(measured), encoding="utf-8")
    (out / "messages.md").write_text(markdown(results, setup, measured), encoding="utf-8")
    for program in measured:
        if not spread(program.undelayed) < SANE:
            varied = f"its undelayed runs vary by {spread(program.undelayed):.0%}"
            print(f"{program.name}: {varied}: no evidence, measure again on a quiet machine")


def main() -> None:
    """Compare the results of a measurement with predictions."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", default=CASE)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    asked = parser.parse_args()
    write(asked.folder, asked.out)


if __name__ == "__main__":
    main()
