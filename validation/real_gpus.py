"""What has been held against real GPUs, one row for each kind of measurement: how many points, off
by how much, beside what is simpler.

    python validation/real_gpus.py        # prints the table and its two sentences

`validation/accuracy_page.py` puts the table on docs/accuracy.md, and the sentences there and into
README.md.  Every measurement is others'. A file of `JOINED` adds rows; its columns are the fields
of `Judged`, shares as numbers (``0.083``).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import astuple, fields
from pathlib import Path

from turnbuckle.questions.validate.card import shipped_kernels
from turnbuckle.questions.validate.measured.real_gpus import SHIPPED, Judged, line
from turnbuckle.questions.validate.question import Validation, shipped

HERE = Path(__file__).resolve().parent
#: The rows as they ship.
FILE = HERE.parent / "src" / "turnbuckle" / SHIPPED
#: Files whose rows join, where they are there: through a remoting layer, on one memory, and on one
#: machine with one change.
JOINED = ("remoting/*.csv", "grace_hopper.csv", "public_pairs_sums.csv")
VALIDATE = "turnbuckle validate --card"
MLPERF = "table_mlperf_inference"
HEAD = (
    "held against real GPUs",
    "points",
    "off",
    "nothing changes",
    "simplest model",
    "in the range",
    "fitted on them",
    "command",
)


def share(value: float | None) -> str:
    """Return a share in words; empty where there is none."""
    if value is None:
        return ""
    return f"{100 * value:.0f} %" if value >= 0.095 else f"{100 * value:.1f} %"


def kernels() -> Judged:
    """Return operations of PyTorch timed on eight GPUs, each GPU left out of the fit in turn: least
    and most of the classes.
    """
    with (HERE / "kernels" / "residuals.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))

    def ends(rule: str) -> str:
        medians = [float(row["median"]) for row in found if row["rule"] == rule]
        return f"{share(min(medians))} to {share(max(medians))}"

    asked = shipped_kernels()
    kept = sum(row.held * row.pairs for row in asked) / sum(row.pairs for row in asked)
    pairs = sum(int(row["pairs"]) for row in found if row["rule"] == "each left out")
    what = "kernels of PyTorch in FP32 on another GPU, by class"
    fitted = "yes, but none of the GPU asked about"
    rule = ends("each left out"), ends("nothing changes"), ends("bandwidth")
    return Judged(
        "kernels on another GPU",
        what,
        f"{pairs:,}",
        *rule,
        "bandwidth",
        f"{share(kept)} of them",
        fitted,
        "python validation/kernels/fit.py",
    )


def of_card(
    found: Validation,
    short: str,
    what: str,
    asked: tuple[str, str, str],
    words: str,
    fitted: str = "no",
    cases: Sequence[str] = (),
    but: str = "",
) -> Judged:
    """Return the row of a kind, a model and the simplest one, of some cases, or of all but one;
    each model on the same cases.
    """
    kind, model, simplest = asked
    answered = {
        r.case
        for r in found.rows
        if (r.kind, r.model) == (kind, model) and (not cases or r.case in cases) and r.case != but
    }
    rows = [r for r in found.rows if r.kind == kind and r.case in answered]
    groups = {g.model: g for g in Validation(tuple(rows), found.abouts).card}
    group, none, plain = groups[model], groups.get("nothing"), groups.get(simplest)
    held = f"{group.covered} of {group.stated}" if group.stated else ""
    medians = [share(g.median if g is not None else None) for g in (group, none, plain)]
    return Judged(short, what, f"{group.count:,}", *medians, words, held, fitted, VALIDATE)


def carded(found: Validation) -> list[Judged]:
    """Return what the card holds of real GPUs."""
    memory, peak = "projection, kernels by memory", "peak bandwidth"
    pairs, tables = ("kernel pairs", "projection", memory), ("tables", "projection", memory)
    together, runs = ("collectives", "projection", memory), ("run time", "projection", memory)
    spreads, classes = (
        "no; spreads set after they were seen",
        "no; classes of networks set after they were seen",
    )
    vendors = "no; the root between vendors set after they were seen"
    return [
        of_card(
            found,
            "benchmarks' kernels",
            "kernels of two benchmarks on another GPU",
            pairs,
            "bandwidth",
        ),
        of_card(
            found,
            "programs of public tables",
            "programs of public tables on another GPU",
            tables,
            "bandwidth",
            but=MLPERF,
        ),
        of_card(
            found,
            "MLPerf",
            "MLPerf inference on another GPU or node",
            tables,
            "bandwidth",
            classes,
            (MLPERF,),
        ),
        of_card(found, "collectives", "collectives on another node", together, "bandwidth"),
        of_card(
            found,
            "pinned copies",
            "pinned and device copies by data sheet",
            ("transfers", "datasheet", "peak"),
            peak,
            spreads,
        ),
        of_card(
            found,
            "pageable copies",
            "pageable copies by data sheet",
            ("pageable", "datasheet", "peak"),
            peak,
            spreads,
        ),
        of_card(
            found,
            "launches",
            "launches on another node",
            ("launches", "projection", ""),
            "",
            spreads,
        ),
        of_card(
            found,
            "whole runs",
            "whole recorded runs on another machine",
            runs,
            "bandwidth",
            vendors,
        ),
    ]


def null_cases(found: Validation) -> str:
    """Return how many null cases of coupling hold: one GPU of MLPerf beside Grace, and the like GPU
    behind PCIe.
    """
    pairs = (": gh200 over h100-sxm5", ": gh200-141 over h200-sxm")
    rows = [
        r
        for r in found.rows
        if r.case == MLPERF
        and r.model == "projection"
        and r.quantity.endswith(pairs)
        and r.measured
    ]
    measured, promised = (
        [1.0 / value for value in values if value]
        for values in zip(*((r.measured, r.predicted) for r in rows), strict=True)
    )
    near = sum(p <= max(measured) for p in promised)
    return (
        "**Null cases of coupling.** One GPU of MLPerf beside Grace over the like GPU behind "
        f"PCIe gains {min(measured):.2f} to "
        f"{max(measured):.2f} times, memory, clock, power and host among it. "
        f"{sum(bool(r.covered) for r in rows)} of {len(rows)} ranges "
        f"hold; {near} of {len(rows)} predictions promise no more than the most that was "
        f"measured, the others up to {max(promised):.2f} "
        "(networks of no class, by what memory reaches). No recording stands behind them: "
        "kernels by rates, nothing of the link."
    )


def joined(folder: Path = HERE, patterns: Sequence[str] = JOINED) -> Iterator[Judged]:
    """Yield the rows of the files of `JOINED` that are there and have the columns of `Judged`;
    other files there hold points, not sums.
    """
    names = [field.name for field in fields(Judged)]
    numbers = ("off", "nothing", "simplest")
    for pattern in patterns:
        for place in sorted(folder.glob(pattern)):
            with place.open(newline="", encoding="utf-8") as file:
                lines = csv.DictReader(file)
                if not set(names) <= set(lines.fieldnames or ()):
                    continue
                for row in lines:
                    said = {
                        name: share(float(row[name]))
                        if name in numbers and row[name]
                        else row[name]
                        for name in names
                    }
                    yield Judged(**said)


def tested(found: Validation) -> list[Judged]:
    """Return all rows."""
    return [kernels(), *carded(found), *joined()]


def table(rows: Sequence[Judged]) -> str:
    """Return the table as Markdown."""
    lines = [HEAD, ("---",) + ("--:",) * 3 + ("---",) * 4, *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def ship(rows: Sequence[Judged]) -> str:
    """Return the rows as the file that ships."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow([field.name for field in fields(Judged)])
    lines.writerows(astuple(row) for row in rows)
    return out.getvalue()


def main() -> None:
    """Print the table and its line."""
    rows = tested(shipped())
    print(table(rows), line(rows), null_cases(shipped()), sep="\n\n")


if __name__ == "__main__":
    main()
