"""Hold what `whatif` says of the program as it is against the program with its change:
``hold_pairs.py RESULTS``; a Markdown table.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
from record_pairs import PAIRS

from turnbuckle.projection.run import Run
from turnbuckle.questions.whatif.question import of_run
from turnbuckle.trace.window import Part


class Held(NamedTuple):
    """One pair: loop as it is, with the change as measured, least and most of the runs, noise, and
    the two ends of the prediction [s].
    """

    before: str
    after: str
    edit: str
    as_it_is: float
    measured: float
    fastest: float
    slowest: float
    noise: float
    most: float | None
    least: float | None

    @property
    def inside(self) -> bool:
        """Return whether the measured median lies in the range of the prediction."""
        return (
            self.most is not None
            and self.least is not None
            and self.most <= self.measured <= self.least
        )

    @property
    def off(self) -> float:
        """Return how far the measured median lies outside the range of the prediction; what is not
        offered predicts no change [s].
        """
        most, least = (
            (self.as_it_is, self.as_it_is)
            if self.most is None or self.least is None
            else (self.most, self.least)
        )
        return max(most - self.measured, self.measured - least, 0.0)

    @property
    def verdict(self) -> str:
        """Return ``inside`` or ``missed``; ``undecided`` where the change changed less than the
        runs differ among themselves.
        """
        if abs(self.as_it_is - self.measured) < self.noise:
            return "undecided"
        return "inside" if self.inside else "missed"


def _spread(runs: list[float]) -> float:
    """Return the interquartile range of some runs [s]."""
    first, _, third = statistics.quantiles(runs, n=4)
    return third - first


def held(folder: Path) -> list[Held]:
    """Predict every pair of a folder from the recording of the program as it is; an edit that is
    not offered predicts nothing.
    """
    document = json.loads((folder / "measured.json").read_text(encoding="utf-8"))
    out = []
    for before, after, edit in (
        pair for group in PAIRS.values() for pair in group if pair[0] in document
    ):
        begin, end = document[before]["window_ns"]
        answer = of_run(
            Run.read(folder / before, use_cache=False, part=Part(window_ns=(begin, end))),
            apply=[edit] * edit.startswith("device "),
            draws=0,
        )
        gain = next((gain for gain in answer.gains if gain.name == edit), None)
        ends = (
            (None, None)
            if gain is None
            else (gain.savings[0].most_seconds, gain.savings[0].least_seconds)
        )
        runs = document[after]["seconds"]
        noise = max(_spread(document[kind]["seconds"]) for kind in (before, after))
        out.append(
            Held(
                before,
                after,
                edit,
                answer.measured,
                statistics.median(runs),
                min(runs),
                max(runs),
                noise,
                *ends,
            )
        )
    return out


def table(rows: list[Held]) -> str:
    """Return the table as Markdown."""
    lines = [
        (
            "| as it is | with the change | edit | as it is [ms] | predicted [ms] | measured "
            "[ms] | noise [ms] | |"
        ),
        "|" + " --- |" * 8,
    ]
    for row in rows:
        said = (
            "not offered"
            if row.most is None or row.least is None
            else f"{row.most * 1e3:.2f} to {row.least * 1e3:.2f}"
        )
        runs = f"{row.measured * 1e3:.2f} ({row.fastest * 1e3:.2f} to {row.slowest * 1e3:.2f})"
        cells = [
            row.before,
            row.after,
            f"`{row.edit}`",
            f"{row.as_it_is * 1e3:.2f}",
            said,
            runs,
            f"{row.noise * 1e3:.2f}",
        ]
        off = f" by {row.off * 1e3:.2f}" if row.verdict == "missed" else ""
        lines.append(f"| {' | '.join(cells)} | {row.verdict}{off} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(held(Path(sys.argv[1]))))
