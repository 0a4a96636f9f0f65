"""How time and memory of whole questions grow with the rows of a recording: the exponent of each,
fitted.

    python benchmarks/growth.py [--rows 10000 100000 1000000 3000000] [--only inspect ...] [--figures FOLDER] [--out FILE]

Each question is asked in a whole fresh process (`question.py`) of generated recordings
(`nsys_generator.py`). What a process takes on any recording, its imports above all, is taken off:
the exponent is that of ``a + b rows^k``, where `a` is what the same question takes on the smallest
recording. An exponent of 1 is as many seconds a row however many rows there are.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import nsys_generator
import question
from measuring import Aims, conclude

HERE = Path(__file__).resolve().parent
ROWS = (10_000, 100_000, 1_000_000, 3_000_000)
MOST = 1.05
WHAT = {"cpu": "CPU time", "peak": "memory"}


def measure(rows: Sequence[int], only: Sequence[str] = ()) -> dict[str, Any]:
    """Ask every question of a recording of each size: ``{"points": [{"rows", "question", "cpu",
    "peak"}]}``.
    """
    points = []
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder) / "generated.sqlite", Path(folder) / "report.html"
        for count in sorted(rows):
            path.unlink(missing_ok=True)
            written = sum(nsys_generator.generate(path, count, "3.7").values())
            for name in question.QUESTIONS:
                if not only or name in only:
                    points.append(
                        {
                            "rows": written,
                            "question": name,
                            **question.whole_process(question.command(name, path, output)),
                        }
                    )
    return {"points": points}


def exponent(rows: Sequence[float], values: Sequence[float]) -> float:
    """Return the exponent of a power law through points, less what the smallest of them takes; nan
    from fewer than three points.

    >>> round(exponent([10, 100, 1000], [5.1, 6.0, 15.0]), 2)
    1.04
    """
    beyond = [(n, v - values[0]) for n, v in zip(rows[1:], values[1:], strict=True)]
    if len(beyond) < 2 or any(v <= 0 for _, v in beyond):
        return math.nan
    x, y = np.log([n - rows[0] for n, _ in beyond]), np.log([v for _, v in beyond])
    return float(np.polyfit(x, y, 1)[0])


def series(result: dict[str, Any], name: str, what: str) -> tuple[list[float], list[float]]:
    """Return rows and values of one question, smallest first."""
    points = sorted(
        (p["rows"], p[what]) for p in result["points"] if p["question"] == name and what in p
    )
    return [float(n) for n, _ in points], [float(v) for _, v in points]


def exponents(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return the exponent of CPU time and memory by question."""
    names = dict.fromkeys(p["question"] for p in result["points"])
    return {name: {what: exponent(*series(result, name, what)) for what in WHAT} for name in names}


def table(result: dict[str, Any]) -> str:
    """The measurements as text."""
    head = f"{'growth':<10}{'rows':>12}{'CPU s':>9}{'us/row':>9}{'peak MB':>9}{'exponents: CPU':>17}{'memory':>8}"
    lines, fitted = [head, "-" * len(head)], exponents(result)
    for name, of in fitted.items():
        points = [p for p in result["points"] if p["question"] == name]
        for point in points:
            if "missing" in point:
                lines.append(f"{name:<10}{point['rows']:>12,}  not measured: {point['missing']}")
                continue
            last = f"{of['cpu']:>17.2f}{of['peak']:>8.2f}" if point is points[-1] else ""
            each = point["cpu"] / point["rows"] * 1e6
            lines.append(
                f"{name:<10}{point['rows']:>12,}{point['cpu']:>9.2f}{each:>9.1f}{point['peak'] / 1e6:>9.0f}{last}"
            )
    return "\n".join(lines)


def targets(result: dict[str, Any]) -> Aims:
    """No exponent above `MOST`."""
    aims: Aims = []
    for name, of in exponents(result).items():
        for what, value in of.items():
            words = (
                "was not measured"
                if math.isnan(value)
                else f"grows as rows to the {value:.2f}; target {MOST} or less"
            )
            aims.append((value <= MOST, f"{WHAT[what]} of {name} {words}"))
    return aims


def figure(result: dict[str, Any], folder: Path) -> None:
    """Draw CPU time and memory against rows with the program's own figures: ``growth.svg`` and
    ``growth.csv``.
    """
    from turnbuckle.show.figures import marks
    from turnbuckle.show.figures.figure import Figure
    from turnbuckle.show.figures.files import save
    from turnbuckle.show.figures.look import FULL, TARGET_COLOURS

    fitted = exponents(result)
    hues = dict(zip(fitted, TARGET_COLOURS, strict=False))
    known = [
        {**p, "mb": p["peak"] / 1e6, "colour": hues[p["question"]]}
        for p in result["points"]
        if "cpu" in p
    ]
    panels = []
    for field, title in (("cpu", "CPU time [s]"), ("mb", "peak memory [MB]")):
        x = marks.quantity(
            "rows",
            log=10,
            title="rows of the recording",
            values=sorted({p["rows"] for p in known}),
            labelExpr=marks.PLAIN,
        )
        y = marks.quantity(field, log=10, title=title, tickCount=4, labelExpr=marks.PLAIN)
        drawn = [marks.line(known, x, y, series="question"), marks.points(known, x, y, size=40)]
        panels.append({"width": FULL / 2 - 70, "height": 220, "layer": drawn})

    def fit(name: str, of: dict[str, float]) -> str:
        told = [
            f"{WHAT[what]} as rows to the {value:.2f}"
            for what, value in of.items()
            if not math.isnan(value)
        ]
        return f"{name}: {', '.join(told)}" if told else name

    legend = tuple((fit(name, of), hues[name]) for name, of in fitted.items())
    save(
        [
            Figure(
                name="growth",
                title="Time and memory of whole questions",
                alt=(
                    "CPU time and peak memory of each question against the rows of a recording: "
                    "on logarithmic axes, near slope one"
                ),
                spec=marks.beside(panels, 24),
                rows=[
                    {
                        "rows": p["rows"],
                        "question": p["question"],
                        "cpu_s": p["cpu"],
                        "peak_bytes": p["peak"],
                    }
                    for p in known
                ],
                caption=(
                    "Whole processes, one run each. The exponents are of what comes on top of "
                    "the smallest recording."
                ),
                legend=legend,
            )
        ],
        folder,
    )


def main() -> None:
    """Measure, fit, draw."""
    parser = argparse.ArgumentParser(
        description="how time and memory of whole questions grow with the rows of a recording"
    )
    parser.add_argument(
        "--rows",
        type=int,
        nargs="+",
        default=ROWS,
        help="up to 30000000, which takes 60 bytes of disk a row",
    )
    parser.add_argument(
        "--only",
        nargs="*",
        default=(),
        choices=tuple(question.QUESTIONS),
        help="only these questions",
    )
    parser.add_argument("--figures", type=Path, help="folder to draw into")
    parser.add_argument(
        "--drawn-from", type=Path, help="draw what was measured before, the file that --out wrote"
    )
    parser.add_argument("--out", type=Path, default=HERE / "out" / "growth.json")
    chosen = parser.parse_args()
    result = (
        json.loads(chosen.drawn_from.read_text(encoding="utf-8"))
        if chosen.drawn_from
        else measure(chosen.rows, chosen.only)
    )
    conclude(result, table(result), targets(result), chosen.out)
    if chosen.figures:
        figure(result, chosen.figures)


if __name__ == "__main__":
    main()
