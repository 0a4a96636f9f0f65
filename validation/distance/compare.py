"""Predictions from the undelayed recordings beside what was measured: `python compare.py RESULTS.json RECORDINGS [--out FOLDER]`.

Nothing here needs OpenCL or time.  A prediction is made through the product: `turnbuckle slack RECORDING --mode api` is the row
``timeline`` of all classes, and the model behind it with one charge, the delay of the chosen calls, the other rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from turnbuckle.anchor import anchored
from turnbuckle.cost.slack import slack_seconds
from turnbuckle.errors import CannotAnswer
from turnbuckle.model import Charge, nething
from turnbuckle.order import prepared, replayed
from turnbuckle.profile.classify import BOUNDARY_CLASSES
from turnbuckle.study.slack import tolerate
from turnbuckle.study.study import Answer, inspect
from turnbuckle.study.uncertainty import DrawnMachine
from turnbuckle.trace.window import Part

REPLAYS = ("timeline", "sum")
NAMES = {"timeline": "timeline", "sum": "sum", "nothing": "nothing changes"}
#: Shares of the run time at which tolerances are held against the measured crossing.
SHARES = (0.01, 0.05)


@dataclass(frozen=True)
class Row:
    """One point: medians and the predictions of it [s].

    Attributes
    ----------
    measured, low, high : median, least and most of the repeats.
    base : median without delay.
    predicted : per replay, and ``nothing``: the run as it was.
    """

    program: str
    classes: str
    where: str
    delay_ns: int
    repeats: int
    measured: float
    low: float
    high: float
    base: float
    predicted: Mapping[str, float]

    def off(self, replay: str) -> float:
        """By how much a prediction is too long, as a share of the measured run time."""
        return self.predicted[replay] / self.measured - 1.0


def chosen(classes: str) -> tuple[str, ...]:
    """Classes of calls that a point delays: ``all``, ``all-copy`` for all but one, or names joined by commas."""
    if classes == "all":
        return BOUNDARY_CLASSES
    if classes.startswith("all-"):
        return tuple(word for word in BOUNDARY_CLASSES if word != classes[4:])
    return tuple(classes.split(","))


def seen(recordings: Path, name: str, window_ns: Sequence[int]) -> Answer:
    """The undelayed recording of a program, cut to the stretch that was timed."""
    return inspect(recordings / name, use_cache=False, part=Part(window_ns=(int(window_ns[0]), int(window_ns[1]))))


def run_times(answer: Answer, classes: str, delays_ns: Iterable[int], replay: str) -> list[float]:
    """Run time [s] with every call of the classes delayed, at each delay."""
    words = chosen(classes)
    charge = Charge(
        "slack",
        lambda p: np.isin(p.call_class, words),
        lambda p, machine, _: slack_seconds(np.ones(int(np.isin(p.call_class, words).sum()), dtype=np.bool_), machine.value("slack.call")),
        "difference",
    )  # fmt: skip
    model = replace(nething("hold"), replay=replay, charges=(charge,))  # type: ignore[arg-type]
    ready = prepared(answer.profile, model)
    near = DrawnMachine({"slack.call": np.zeros((1, 1))}, answer.source.copies_vanish)
    far = DrawnMachine({"slack.call": np.array([[ns * 1e-9] for ns in delays_ns])}, answer.source.copies_vanish)
    seconds = replayed(ready, anchored(ready.run, near, far, model)).seconds
    return [float(s) for s in np.broadcast_to(seconds, (len(far.values["slack.call"]),))]


def rows(results: Mapping[str, Any], recordings: Path) -> list[Row]:
    """Every point that was measured, with its predictions; points of a program whose recording is missing are left out."""
    out = []
    for name, program in results["programs"].items():
        if not (recordings / name / "trace.json").is_file():
            continue
        answer = seen(recordings, name, program["window_ns"])
        points = [p for p in results["points"] if p["program"] == name and p["delay_ns"] > 0]
        base = next((p for p in results["points"] if p["program"] == name and p["delay_ns"] == 0), None)
        if base is None:
            continue
        try:
            tolerate(answer, "api", draws=0)
        except CannotAnswer:
            continue  # named under the table: the product refuses
        told = {
            (classes, replay): dict(
                zip(delays, run_times(answer, classes, delays, replay), strict=True)
            )
            for classes in {p["classes"] for p in points}
            for delays in [sorted({p["delay_ns"] for p in points if p["classes"] == classes})]
            for replay in REPLAYS
        }  # fmt: skip
        for p in points:
            predicted = {replay: told[p["classes"], replay][p["delay_ns"]] for replay in REPLAYS}
            times = p["seconds"]
            out.append(
                Row(
                    name, p["classes"], p["where"], p["delay_ns"], len(times), statistics.median(times), min(times), max(times),
                    statistics.median(base["seconds"]), {**predicted, "nothing": answer.profile.seconds},
                )
            )  # fmt: skip
    return out


def crossing(base: float, points: Sequence[tuple[int, float]], share: float) -> float | None:
    """Delay [ns] at which the run is longer by a share, between two measured points on a straight line; None where it is beyond them."""
    before = (0, base)
    for point in sorted(points):
        if point[1] >= base * (1 + share):
            return before[0] + (base * (1 + share) - before[1]) / (point[1] - before[1]) * (point[0] - before[0])
        before = point
    return None


def tolerances(table: Sequence[Row], results: Mapping[str, Any], recordings: Path) -> list[dict[str, Any]]:
    """Per program and share, the predicted tolerance and the measured crossing [us]."""
    out = []
    for name in dict.fromkeys(row.program for row in table):
        mine = [row for row in table if row.program == name and row.classes == "all" and row.where == "after"]
        if not mine:
            continue
        slack = tolerate(seen(recordings, name, results["programs"][name]["window_ns"]), "api", draws=0)
        for share in SHARES:
            told = slack.curve.reaches(slack.measured * (1 + share))
            found = crossing(mine[0].base, [(row.delay_ns, row.measured) for row in mine], share)
            limits = {"predicted_us": None if told is None else told * 1e6, "measured_us": found and found / 1e3}
            out.append({"program": name, "share": share, **limits})
    return out


def _off(table: Sequence[Row], replay: str) -> str:
    offs = [abs(row.off(replay)) for row in table]
    return f"{statistics.median(offs):.1%} / {max(offs):.1%}" if offs else ""


def _delay(ns: int) -> str:
    return f"{ns / 1e6:g} ms" if ns >= 1_000_000 else f"{ns / 1e3:g} us"


def markdown(results: Mapping[str, Any], table: Sequence[Row], limits: Sequence[Mapping[str, Any]]) -> str:
    """The tables made of the rows."""
    plain = [row for row in table if row.classes == "all" and row.where == "after"]
    delays = sorted({row.delay_ns for row in plain})
    names = list(dict.fromkeys(row.program for row in table))
    lines = [
        "# Run time at added distance, measured and predicted", "",
        f"{len(names)} programs, {len(table)} points, up to {max((row.repeats for row in table), default=0)} runs each; "
        f"load of the machine while it was measured: {', '.join(f'{x:.1f}' for x in results['load'])} (first and last).",
        "Off: predicted over measured run time (median of the runs), less one. Positive: predicted too long.", "",
        "## Every boundary call delayed, `turnbuckle slack --mode api`", "",
        "| program | undelayed [ms] (spread) | " + " | ".join(_delay(d) for d in delays) + " |",
        "| --- | --- |" + " --- |" * len(delays),
    ]  # fmt: skip
    for name in names:
        at = {row.delay_ns: row for row in plain if row.program == name}
        base = next(p for p in results["points"] if p["program"] == name and p["delay_ns"] == 0)
        middle = statistics.median(base["seconds"])
        spread = (max(base["seconds"]) - min(base["seconds"])) / middle
        cells = [f"{at[d].off('timeline'):+.1%}" if d in at else "" for d in delays]
        lines.append(f"| {name} | {middle * 1e3:.1f} ({spread:.0%}) | " + " | ".join(cells) + " |")
    for replay, words in NAMES.items():
        cells = [_off([row for row in plain if row.delay_ns == d], replay) for d in delays]
        lines.append(f"| **{words}**, median / worst | | " + " | ".join(cells) + " |")
    far = [row for row in plain if row.delay_ns >= 30_000]
    offs = ", ".join(f"{words} {_off(far, replay)}" for replay, words in NAMES.items())
    refused = [name for name in results["programs"] if name not in names]
    inside = sum(row.low <= row.predicted["timeline"] <= row.high for row in far)
    lines += [
        "",
        f"From 30 us on, {len(far)} points: {offs} (median / worst).",
        f"Inside the spread of the measured runs themselves: {inside} of {len(far)}.",
        "`slack --mode api` gives no interval: its prediction is one number, and no share of intervals that hold can be told.",
        f"Refused by the product, from a recording whose order it does not trust (A122): {', '.join(refused) or 'none'}.",
        "", "## Some classes of calls, or the delay before the call", "",
        "| classes | place | delay | points | timeline | sum | nothing changes |", "| --- | --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    rest = [row for row in table if row not in plain]
    for classes, where, delay in sorted({(row.classes, row.where, row.delay_ns) for row in rest}):
        mine = [row for row in rest if (row.classes, row.where, row.delay_ns) == (classes, where, delay)]
        cells = " | ".join(_off(mine, replay) for replay in ("timeline", "sum", "nothing"))
        lines.append(f"| {classes.replace('all-', 'all but ')} | {where} | {_delay(delay)} | {len(mine)} | {cells} |")
    lines += [
        "", "## What a class carries", "",
        "What the run gets shorter by when one class is not delayed, of what all delays cost; measured, then predicted.", "",
        "| program | class | delay | measured | predicted |", "| --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    whole = {(row.program, row.delay_ns): row for row in plain}
    for row in rest:
        of = whole.get((row.program, row.delay_ns))
        if row.classes.startswith("all-") and of and of.measured > of.base * 1.05:
            was = (of.measured - row.measured) / (of.measured - of.base)
            told = (of.predicted["timeline"] - row.predicted["timeline"]) / (of.predicted["timeline"] - of.predicted["nothing"])
            lines.append(f"| {row.program} | {row.classes[4:]} | {_delay(row.delay_ns)} | {was:.0%} | {told:.0%} |")
    lines += [
        "", "## Tolerances", "", "The delay at which the run is longer by a share; measured: a straight line between two points.", "",
        "| program | share | predicted [us] | measured [us] | off |", "| --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for one in limits:
        told, found = one["predicted_us"], one["measured_us"]
        off = f"{told / found - 1:+.0%}" if told and found else ""
        cells = " | ".join("beyond" if x is None else f"{x:.2f}" for x in (told, found))
        lines.append(f"| {one['program']} | {one['share']:.0%} | {cells} | {off} |")
    return "\n".join([*lines, ""])


def write(results_file: Path, recordings: Path, out: Path) -> None:
    """Write ``predictions.json`` and ``distance.md`` beside each other."""
    results = json.loads(results_file.read_text(encoding="utf-8"))
    table = rows(results, recordings)
    limits = tolerances(table, results, recordings)
    told = [
        {
            "program": r.program, "classes": r.classes, "where": r.where, "delay_ns": r.delay_ns,
            **{replay: round(seconds, 9) for replay, seconds in r.predicted.items()},
        }
        for r in table
    ]  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    text = ",\n".join(json.dumps(row) for row in told)
    limit = ",\n".join(json.dumps(row) for row in limits)
    (out / "predictions.json").write_text(f'{{"points": [\n{text}\n],\n"tolerances": [\n{limit}\n]}}\n', encoding="utf-8")
    (out / "distance.md").write_text(markdown(results, table, limits), encoding="utf-8")


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
