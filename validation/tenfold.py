"""The ECP report's tenfold on every shared recording: its recipe beside the time line and the
replay, both ways.

python validation/tenfold.py                 # writes validation/tenfold.csv, where the shared recordings are, and the page's table
python validation/tenfold.py --page          # the table of docs/models/tenfold.md from the committed numbers
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.papers.models.node.additive import additive_readings, longest_allocation
from turnbuckle.projection.model import additive
from turnbuckle.projection.run import Run

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("TURNBUCKLE_SHARED", ROOT.parent / "shared"))
TABLE, PAGE = ROOT / "validation" / "tenfold.csv", ROOT / "docs" / "models" / "tenfold.md"
BEGIN, END = "<!-- made by validation/tenfold.py; do not edit -->\n", "<!-- until here -->\n"
#: Folders of recordings of GPUs, and how their files end.
KINDS = {"nsys": ".sqlite", "nvprof": ".nvvp", "kineto": ".json.gz", "rocprof": ""}
READINGS = ("as the report", "waits once", "time line", "replay")
COLUMNS = (
    "recording",
    "run_seconds",
    "longest_allocation_seconds",
    *(f"{ratio} {r}" for ratio in ("gain", "penalty") for r in READINGS),
)


def recordings(shared: Path) -> Iterator[Path]:
    """Every file of a kind that may hold a run on a GPU, in order."""
    for kind, end in KINDS.items():
        for path in sorted((shared / "traces" / kind).rglob("*")):
            if path.is_file() and path.name.endswith(end) and path.suffix != ".md":
                yield path


def row(path: Path, shared: Path) -> dict[str, str] | None:
    """The row of one recording; None where it has no such answer: no GPU, no host calls."""
    try:
        run = Run.read(path, part="whole")  # the report has whole runs
        ratios: dict[str, float] = {}
        for name, improvement, ratio in (("gain", 10.0, "benefit"), ("penalty", 0.1, "penalty")):
            lambdas = {"data": improvement, "control": improvement}
            found, _ = additive_readings(run, lambdas, additive(lambdas))
            ratios |= {f"{name} {r['name']}": r[ratio] for r in found}
    except TurnbuckleError as refused:
        print(f"{path.relative_to(shared)}: {refused.code}", file=sys.stderr)
        return None
    numbers = {
        "run_seconds": run.profile.seconds,
        "longest_allocation_seconds": longest_allocation(run),
        **ratios,
    }
    return {
        "recording": named(path, shared),
        **{name: f"{value:.6g}" for name, value in numbers.items()},
    }


def named(path: Path, shared: Path) -> str:
    """Name of a recording: its folder, and its file where the folder has several."""
    folder, kind = path.parent, path.relative_to(shared / "traces").parts[0]
    end = KINDS[kind]
    alone = len([p for p in folder.iterdir() if p.is_file() and p.name.endswith(end)]) == 1
    return f"{kind}/{folder.relative_to(shared / 'traces' / kind)}" + (
        "" if alone else f"/{path.name.removesuffix(end)[:40]}"
    )


def committed() -> list[dict[str, str]]:
    """The committed rows."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def page(text: str) -> str:
    """The page with its table as the committed numbers make it."""
    head = "| recording | run time | longest allocation | " + " | ".join(
        f"{ratio}: {reading}"
        for ratio in ("gain", "penalty")
        for reading in ("recipe", "waits once", "time line", "replay")
    )
    lines = [head + " |", "| --- |" + " --- |" * (len(COLUMNS) - 1)]
    for r in committed():
        ratios = [f"{float(r[c]):.2f}" for c in COLUMNS[3:]]
        cells = [
            f"`{r['recording']}`",
            f"{float(r['run_seconds']):.3g} s",
            f"{float(r['longest_allocation_seconds']) * 1e3:.3g} ms",
            *ratios,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    middle = [f"{median(float(r[c]) for r in committed()):.2f}" for c in COLUMNS[3:]]
    lines.append(f"| median of {len(committed())} | | | {' | '.join(middle)} |")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n\n{END}{rest.partition(END)[2]}"


def main(words: list[str]) -> int:
    """Write the numbers, unless only the page is asked for, and the page."""
    if "--page" not in words:
        if not (SHARED / "traces").is_dir():
            print(
                f"the shared recordings are not at {SHARED.name}: set TURNBUCKLE_SHARED",
                file=sys.stderr,
            )
            return 1
        rows = [found for path in recordings(SHARED) if (found := row(path, SHARED)) is not None]
        with TABLE.open("w", encoding="utf-8", newline="") as file:
            out = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            out.writeheader()
            out.writerows(rows)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
