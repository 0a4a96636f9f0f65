"""Tables of what was measured and predicted: `python compare.py [CASES] [--out FILE]`.

Nothing here needs OpenCL.  Predictions are those of `turnbuckle validate`
(`questions.validate.measured.distance`).  The commands behind them are `turnbuckle slack RECORDING
--mode api`, with `--slack-class` for single classes, and `--over both` for less bandwidth.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.questions.validate.measured.distance import Point, Program, program

CASES = Path(__file__).resolve().parents[1] / "cases"
NAMES = {"timeline": "timeline", "sum": "sum", "nothing": "nothing changes"}
#: Delays from which on the aim is stated [ns].
FROM_NS = 30_000
Pairs = Sequence[tuple[Program, Point]]


def programs(cases: Path) -> tuple[list[Program], dict[str, str]]:
    """The measured programs with their predictions, and what the product refuses with its code."""
    out, refused = [], {}
    for folder in sorted(cases.glob("distance_*")):
        name = folder.name.removeprefix("distance_")
        try:
            out.append(
                program(
                    name,
                    folder / "recording",
                    folder / "measured.json",
                    str(folder / "machine.toml"),
                )
            )
        except CannotAnswer as error:
            refused[name] = error.code
    return out, refused


def _off(pairs: Pairs, model: str) -> str:
    offs = [abs(p.off(model)) for _, p in pairs if model in p.predicted]
    return f"{statistics.median(offs):.1%} / {max(offs):.1%}" if offs else ""


def _held(pairs: Pairs) -> str:
    inside = sum(p.low <= p.measured <= p.high for _, p in pairs)
    return f"{inside} of {len(pairs)} ({inside / len(pairs):.0%})" if pairs else ""


def _matrix(found: Sequence[Program], kept: Callable[[Point], bool]) -> list[str]:
    heads = list(dict.fromkeys(p.words() for one in found for p in one.points if kept(p)))
    lines = [
        f"| program | undelayed [ms] (spread) | {' | '.join(heads)} |",
        "| --- | --- |" + " --- |" * len(heads),
    ]
    for one in found:
        offs = {p.words(): p.off() for p in one.points if kept(p)}
        if offs:
            middle = statistics.median(one.undelayed)
            spread = (max(one.undelayed) - min(one.undelayed)) / middle
            cells = [f"{offs[w]:+.1%}" if w in offs else "" for w in heads]
            lines.append(
                f"| {one.name} | {middle * 1e3:.1f} ({spread:.0%}) | {' | '.join(cells)} |"
            )
    for model, words in NAMES.items():
        pairs = [(one, p) for one in found for p in one.points if kept(p)]
        cells = [_off([(one, p) for one, p in pairs if p.words() == w], model) for w in heads]
        if any(cells):
            lines.append(f"| **{words}**, median / worst | | {' | '.join(cells)} |")
    return lines


def markdown(found: Sequence[Program], refused: Mapping[str, str], about: Mapping[str, Any]) -> str:
    """The tables."""
    every = [(one, p) for one in found for p in one.points]
    groups: dict[str, Pairs] = {
        "every call delayed, 3 and 10 us": [
            (o, p) for o, p in every if p.plain and p.delay_ns < FROM_NS
        ],
        "every call delayed, from 30 us on": [
            (o, p) for o, p in every if p.plain and p.delay_ns >= FROM_NS
        ],
        "some classes, or before the call": [
            (o, p) for o, p in every if not p.plain and not p.slower
        ],
        "less bandwidth": [(o, p) for o, p in every if p.slower and not p.delay_ns],
        "less bandwidth and every call delayed": [
            (o, p) for o, p in every if p.slower and p.delay_ns
        ],
    }
    runs = sum(len(p.seconds) for _, p in every)
    lines = [
        "# Run time at added distance, measured and predicted\n",
        f"{len(found)} programs, {len(every)} points, {runs:,} runs with delayed calls or slowed "
        "copies, "
        f"{sum(len(o.undelayed) for o in found)} without. "
        "Off: predicted over measured run time (median of the runs), less one; positive: "
        "predicted too long.",
        f"Machine: {about.get('processor', '')}, {about.get('cores', '')} cores (virtual); load "
        "when it began and ended: "
        f"{', '.join(f'{x:.1f}' for x in about.get('load', []))}.\n",
        "| what was changed | points | timeline | sum | nothing changes | in the 90 % interval |",
        "| --- | --: | --: | --: | --: | --: |",
    ]
    for words, pairs in groups.items():
        lines.append(
            f"| {words} | {len(pairs)} | {' | '.join(_off(pairs, m) for m in NAMES)} | "
            f"{_held(pairs)} |"
        )
    lines.append(
        f"| **all** | {len(every)} | {' | '.join(_off(every, m) for m in NAMES)} | {_held(every)} |"
    )
    noise = [abs(s / statistics.median(o.undelayed) - 1) for o in found for s in o.undelayed]
    lines += [
        "",
        "Median / worst. The undelayed runs of a program are off their own median by "
        f"{statistics.mean(noise):.1%} on average, {max(noise):.0%} at most: no prediction from "
        "one run can be better.",
        f"Refused by the product: {', '.join(f'{n} ({c})' for n, c in refused.items()) or 'none'}.",
        "\n## Every call that crosses to the device delayed\n",
        *_matrix(found, lambda p: p.plain),
        "\n## Some classes of calls, or the delay before the call\n",
        *_matrix(found, lambda p: not p.plain and not p.slower),
        "\n## Less bandwidth\n",
        *_matrix(found, lambda p: p.slower > 0),
        "\n## What a class carries\n",
        (
            "By how much the run gets shorter where one class is not delayed, of what all delays "
            "cost; measured, then predicted.\n"
        ),
        "| program | class | measured | predicted |",
        "| --- | --- | --: | --: |",
    ]
    for one in found:
        for p in one.points:
            whole = next((w for w in one.points if w.plain and w.delay_ns == p.delay_ns), None)
            base = statistics.median(one.undelayed)
            if (
                p.classes.startswith("all-")
                and whole
                and whole.measured > 1.1 * base
                and whole.predicted["timeline"] > one.recorded
            ):
                was = (whole.measured - p.measured) / (whole.measured - base)
                told = (whole.predicted["timeline"] - p.predicted["timeline"]) / (
                    whole.predicted["timeline"] - one.recorded
                )
                lines.append(f"| {one.name} | {p.classes[4:]} | {was:.0%} | {told:.0%} |")
    lines += [
        "\n## Tolerances\n",
        "The delay at which the run is longer by a share; measured: a straight line between two "
        "points. "
        "Within the noise: the undelayed runs alone differ by as much.\n",
        "| program | share | predicted [us] | measured [us] | off |",
        "| --- | --- | --: | --: | --: |",
    ]
    for one in found:
        for share, told, seen in one.tolerances:
            off = (
                "within the noise"
                if not one.shows(share)
                else f"{told / seen - 1:+.0%}"
                if told and seen
                else ""
            )
            cells = " | ".join("beyond" if x is None else f"{x * 1e6:.2f}" for x in (told, seen))
            lines.append(f"| {one.name} | {share:.0%} | {cells} | {off} |")
    kept = [
        abs(t / s - 1)
        for one in found
        for share, t, s in one.tolerances
        if t and s and one.shows(share)
    ]
    if kept:
        within = sum(x <= 0.2 for x in kept)
        lines += [
            "",
            (
                f"{len(kept)} beyond the noise: {statistics.median(kept):.0%} off in the median, "
                f"{within} within 20 %."
            ),
        ]
    return "\n".join([*lines, ""])


def main() -> None:
    """Write the tables of a folder of cases."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", type=Path, nargs="?", default=CASES)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "distance.md")
    asked = parser.parse_args()
    about = asked.out.with_name("machine.json")
    told = json.loads(about.read_text(encoding="utf-8")) if about.is_file() else {}
    asked.out.write_text(markdown(*programs(asked.cases), told), encoding="utf-8")


if __name__ == "__main__":
    main()
