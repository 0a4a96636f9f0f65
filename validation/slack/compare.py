"""Predicted against measured: `python compare.py [RESULTS]`, RESULTS being a folder that ``run.py`` wrote.

For each program the record without delay is projected on a machine whose calls that cross to the device take s longer
(``slack.call``), by the timeline and by the sum, and the run time is set beside what was measured with that delay.  Writes
``predicted.csv`` (every figure) and ``predicted.md`` (the table and a summary) into the same folder.

All times are of one iteration, because runs of different delays have different numbers of them.  Two errors:

    error         predicted / measured - 1; holds what recording itself costs
    added error   (predicted(s) - predicted(0)) / (measured(s) - measured(0)) - 1; what the delay alone does
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

import to_nsys
from refusal import Refusal, told

import turnbuckle as tb
from turnbuckle.profile.pieces import pieces

Replay = Literal["timeline", "sum"]
REPLAYS: Final[tuple[Replay, ...]] = ("timeline", "sum")
_MACHINE: Final = """
[machine]
name = "slack-{delay_ns}"
title = "The recorded machine, every call that crosses to the device {delay_ns} ns later"
summary = "What delay.c does."
year = 0
coupling = "api-remoting"
base = "source"

[slack.call]
value = "{delay_ns} ns"
error = "0 %"
nature = "assumption"
source = "validation/slack: the delay that was set"
note = "exact by intent; the spin ends on the clock's next tick"
"""


@dataclass(frozen=True)
class Point:
    """One program at one delay; times of one iteration [s].

    Attributes
    ----------
    program, delay_ns : which.
    measured, low, high, runs : median, least, most and number of the runs.
    calls : delayed calls an iteration, as the library counted them.
    recorded_calls : calls an iteration that cross, as Turnbuckle counts them in the record.
    predicted : by replay.
    base : measured without delay (median), and predicted without delay.
    unwatched : measured without the library; None if that was not run.
    """

    program: str
    delay_ns: int
    measured: float
    low: float
    high: float
    runs: int
    calls: float
    recorded_calls: float
    predicted: Mapping[Replay, float]
    base: tuple[float, float]
    unwatched: float | None

    def error(self, replay: Replay) -> float:
        """Relative error of the run time."""
        return self.predicted[replay] / self.measured - 1.0

    def added(self, replay: Replay) -> tuple[float, float, float | None]:
        """Added time predicted and measured [s], and the relative error; None where the delay added less than runs scatter, or 1 %."""
        predicted, measured = self.predicted[replay] - self.base[1], self.measured - self.base[0]
        seen = self.delay_ns > 0 and measured > max(self.high - self.low, 0.01 * self.base[0])
        return predicted, measured, predicted / measured - 1.0 if seen else None


def compared(results: Path) -> list[Point]:
    """Every program and delay of a folder of results.

    Raises
    ------
    Refusal : V005, something is missing from it; V004, a record is damaged.
    """
    gpu, lines = _read(results)
    out = []
    for record in (line for line in lines if line.get("recorded")):
        name = str(record["program"])
        runs: dict[int, list[float]] = {}
        calls: dict[int, float] = {}
        for line in lines:
            if line["program"] == name and line.get("library"):
                runs.setdefault(int(line["delay_ns"]), []).append(line["seconds"] / line["iterations"])
                calls[int(line["delay_ns"])] = line["delayed_calls"] / line["iterations"]
        if 0 not in runs:
            raise Refusal("V005", f"{results.name} has no run of {name} without delay", "run.py again, with 0 among --delays")
        bare = [line["seconds"] / line["iterations"] for line in lines if line["program"] == name and line.get("library") is False]
        predicted, crossing = _predicted(results / f"{name}.record.csv.gz", gpu, sorted(runs), int(record["iterations"]))
        for delay, times in sorted(runs.items()):
            base = (median(runs[0]), predicted["timeline", 0])
            by_replay = {replay: predicted[replay, delay] for replay in REPLAYS}
            spread = (median(times), min(times), max(times), len(times))
            out.append(Point(name, delay, *spread, calls[delay], crossing, by_replay, base, median(bare) if bare else None))
    return out


def _read(results: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The machine and the raw lines, with what is counted on checked."""
    try:
        gpu = json.loads((results / "machine.json").read_text(encoding="utf-8"))
        lines = [json.loads(line) for line in (results / "measured.jsonl").read_text(encoding="utf-8").splitlines()]
        for line in lines:
            delayed = line.get("library")
            if not (re.fullmatch(r"[a-z]{1,20}", line["program"]) and line["seconds"] > 0 and line["iterations"] > 0):
                raise ValueError(f"{line}")
            if delayed and not (line["delayed_calls"] >= 0 and line["delay_ns"] >= 0):
                raise ValueError(f"{line}")
        missing = {r["program"] for r in lines if r.get("recorded")} ^ {r["program"] for r in lines if r.get("library")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refusal("V005", f"{results.name} holds no results ({type(error).__name__}: {error})", "run.py writes them") from error
    if missing or not lines:
        raise Refusal("V005", f"records or runs are missing: {', '.join(sorted(missing)) or 'all of them'}", "run.py again, to the end")
    if not isinstance(gpu, dict):
        raise Refusal("V005", "machine.json describes no machine", "run.py again")
    return gpu, lines


def _predicted(record: Path, gpu: Mapping[str, Any], delays: Sequence[int], iterations: int) -> tuple[dict[tuple[str, int], float], float]:
    """Seconds of an iteration by replay and delay, and the calls of an iteration that cross to the device."""
    if not record.is_file():
        raise Refusal("V005", f"{record.name} is missing", "run.py again, to the end")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        to_nsys.convert(record, folder / "run.sqlite", gpu)
        machines = []
        for delay in delays:
            machines.append(folder / f"slack-{delay}.toml")
            machines[-1].write_text(_MACHINE.format(delay_ns=delay), encoding="utf-8")
        seen = tb.inspect(folder / "run.sqlite", use_cache=False)
        out: dict[tuple[str, int], float] = {}
        for replay in REPLAYS:
            answer = tb.ask(seen, [str(path) for path in machines], model=replace(tb.nething("hold"), replay=replay), draws=0)
            out |= {(replay, d): p.seconds / iterations for d, p in zip(delays, answer.projections, strict=True)}
    run = pieces(seen.profile)
    return out, float(run.count[run.crosses].sum()) / iterations


def rows(points: Iterable[Point]) -> list[dict[str, Any]]:
    """The table, one row a point, in microseconds and percent; None where a figure cannot be formed."""
    out = []
    for p in points:
        row: dict[str, Any] = {
            "program": p.program, "slack_us": p.delay_ns * 1e-3, "calls": p.calls, "recorded_calls": p.recorded_calls, "runs": p.runs,
            "measured_us": p.measured * 1e6, "least_us": p.low * 1e6, "most_us": p.high * 1e6,
            "unwatched_us": None if p.unwatched is None else p.unwatched * 1e6,
        }  # fmt: skip
        for replay in REPLAYS:
            predicted, measured, error = p.added(replay)
            row |= {f"{replay}_us": p.predicted[replay] * 1e6, f"{replay}_error": p.error(replay), "added_us": measured * 1e6}
            row |= {f"{replay}_added_us": predicted * 1e6, f"{replay}_added_error": error}
        out.append(row)
    return out


def summary(points: Sequence[Point]) -> list[dict[str, Any]]:
    """A line a program: largest and mean error of each replay, watching and recording cost, calls that do not agree."""
    out = []
    for name in dict.fromkeys(p.program for p in points):
        mine = [p for p in points if p.program == name]
        line: dict[str, Any] = {"program": name, "points": len(mine)}
        for replay in REPLAYS:
            errors = [abs(p.error(replay)) for p in mine]
            added = [abs(e) for p in mine if (e := p.added(replay)[2]) is not None]
            line |= {f"{replay}_mean": sum(errors) / len(errors), f"{replay}_most": max(errors)}
            line |= {f"{replay}_added_most": max(added) if added else None}
        first = mine[0]
        line["watching"] = None if first.unwatched is None else first.base[0] / first.unwatched - 1.0
        line["recording"] = first.base[1] / first.base[0] - 1.0
        line["calls_agree"] = all(abs(p.calls - p.recorded_calls) <= 0.1 for p in mine)
        out.append(line)
    return out


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.2%}"


def markdown(points: Sequence[Point], gpu: str) -> str:
    """Summary and table for people."""
    text = [f"Measured on {gpu}; times of one iteration. Errors are of the run time, in brackets of the added time alone.", ""]
    text += ["| program | timeline: mean, largest error | sum: mean, largest error | watching costs | recording costs | calls agree |"]
    text += ["| --- | --- | --- | ---: | ---: | --- |"]
    for s in summary(points):
        both = [f"{s[f'{r}_mean']:.2%}, {s[f'{r}_most']:.2%} ({_percent(s[f'{r}_added_most']).lstrip('+') or '-'})" for r in REPLAYS]
        agree = "yes" if s["calls_agree"] else "**no**"
        text.append(f"| {s['program']} | {both[0]} | {both[1]} | {_percent(s['watching'])} | {_percent(s['recording'])} | {agree} |")
    text += ["", "| program | slack [us] | measured [us] | timeline [us] | error | sum [us] | error |", "| --- " + "| ---: " * 6 + "|"]
    for r in rows(points):
        cells = [f"{r['program']}", f"{r['slack_us']:g}", f"{r['measured_us']:.2f} ({r['least_us']:.2f} to {r['most_us']:.2f})"]
        for replay in REPLAYS:
            added = _percent(r[f"{replay}_added_error"])
            cells += [f"{r[f'{replay}_us']:.2f}", _percent(r[f"{replay}_error"]) + (f" ({added})" if added else "")]
        text.append(f"| {' | '.join(cells)} |")
    return "\n".join(text) + "\n"


def write(results: Path, points: Sequence[Point]) -> None:
    """Put ``predicted.csv`` and ``predicted.md`` into the folder of results."""
    table = rows(points)
    with (results / "predicted.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    gpu = re.sub(r"[^\w .()/-]", " ", str(_read(results)[0].get("gpu", "an unnamed GPU")))
    (results / "predicted.md").write_text(markdown(points, gpu), encoding="utf-8")


def main() -> None:
    """Compare one folder of results and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("results", type=Path, nargs="?", default=Path(__file__).parent / "results", help="folder that run.py wrote")
    results: Path = parser.parse_args().results
    points = compared(results)
    write(results, points)
    print((results / "predicted.md").read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    sys.exit(told(main))
