"""Natural experiments: recordings of variants of one program, one predicted from the other and
compared with what was measured.

    python validation/natural/experiments.py SHARED_FOLDER [-o table.md | -o table.csv | -o docs/validation.md]

Every experiment states one change of parameters.  The size of the change comes from costs of single
activities in the target (how long a kernel of that name takes), or from other runs alone; how long
the target took is read only afterwards, for the comparison.  Pairs that no single change explains
are listed without a number.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import parts
import polars as pl
from parts import (
    PARAMETERS,
    Costs,
    Part,
    by_sum,
    by_timeline,
    changed,
    costs,
    cut,
    prepare,
    without,
)

from turnbuckle.foundation.errors import ProfileError
from turnbuckle.profile.profile import build
from turnbuckle.replay.trust import trust
from turnbuckle.trace.read import read

WORK = ("kernels", "copies")
#: The tables stand between these two lines of a page.
MARKS = (
    "<!-- natural experiments: made by validation/natural/experiments.py -->\n",
    "<!-- end of natural experiments -->\n",
)


@dataclass(frozen=True)
class Law:
    """Costs of device work that grow by a straight line in the problem size, drawn through the
    source and another run.
    """

    other: str
    other_size: float
    source_size: float
    target_size: float


@dataclass(frozen=True)
class Experiment:
    """One stated change.

    Attributes
    ----------
    source, target : folders below ``traces/nsys``.
    states : which of `PARAMETERS` the change sets to the target's costs; with a `law` to the law's.
    phase : of the runs, see `cut`; None is the whole part that uses the GPU.
    removed : name of a host call that the target does without.
    """

    source: str
    target: str
    states: tuple[str, ...]
    phase: int | None = None
    law: Law | None = None
    removed: str = ""

    @property
    def change(self) -> str:
        """The change in words."""
        if self.removed:
            return f"no {self.removed}; nothing taken from the target"
        if self.law:
            return (
                "kernels and copies on the line through two smaller sizes; nothing taken from "
                "the target"
            )
        return f"mean time of {' and '.join(self.states)} by name"


def _sizes(
    name: str, sizes: tuple[int, int, int], phase: int | None = None
) -> Iterator[Experiment]:
    """Each size from the one below, and the largest from the two smaller ones alone."""
    runs = [f"{name}{s}" for s in sizes]
    for source, target in pairwise(runs):
        yield Experiment(source, target, WORK, phase)
    yield Experiment(runs[1], runs[2], WORK, phase, Law(runs[0], *map(float, sizes)))


EXPERIMENTS = (
    Experiment("rodinia_gaussian_rtx3090_a", "rodinia_gaussian_rtx3090_b", ("kernels",)),
    Experiment("rodinia_gaussian_rtx3090_b", "rodinia_gaussian_rtx3090_a", ("kernels",)),
    Experiment("balinski_gomory_r3", "balinski_gomory_r16", (), removed="cudaDeviceSynchronize"),
    *_sizes("extrap_exgpu_s", (10, 1000, 100000)),
    *(e for phase in (1, 2, 3, None) for e in _sizes("extrap_concurrent_s", (1, 2, 4), phase)),
)

#: Sets that look like an experiment and are none, and why: no number is given for them.
LEFT_OUT = (
    (
        ("nsys/balinski_gomory_r3", "nsys/balinski_gomory_r11"),
        (
            "managed memory: host page faults stall host and kernels, and no record says for how "
            "long each"
        ),
    ),
    (
        ("nsys/balinski_gomory_r16", "nsys/balinski_gomory_r19"),
        (
            "another input: the solver takes other steps, and a replay has only the steps that "
            "were recorded"
        ),
    ),
    (("nsys/mfu_2gpu_before",), "only the run before the optimisation is there"),
    (
        ("kineto/resnet50_v100_workers0",),
        "two runs of one configuration: no change to predict, and another format",
    ),
    (
        ("kineto/tracelens_h100_models", "kineto/tracelens_mi300x_models"),
        "another GPU and other kernels at once, and another format",
    ),
    (
        ("nvprof/qcu_wilson_hoststaged_2rank", "nvprof/qcu_wilson_nccl_2rank"),
        "other runs with other kernel counts, not a controlled pair, and another format",
    ),
)


@dataclass(frozen=True)
class Result:
    """What an experiment came to; times in seconds.

    Attributes
    ----------
    source, measured : length of the part in the two recordings.
    timeline, summed, serial : predictions: by dependencies, by the sum, and as if nothing
        overlapped.
    left : error of the timeline, relative to `measured`, when ever more costs of the target are
        taken over.
    summed_left : error of the sum when all are.
    explained : share of the source's critical path that the rules of the graph explain.
    calls : host calls in the source and the target.
    run_source, run_measured : run times of the whole recordings.
    """

    experiment: Experiment
    source: float
    measured: float
    timeline: float
    summed: float
    serial: float
    left: dict[str, float]
    summed_left: float
    explained: float
    calls: tuple[int, int]
    run_source: float
    run_measured: float

    def of_change(self, prediction: float) -> float:
        """Predicted over measured change of the part's length: 1 is right, 0 is no change seen."""
        return (
            (prediction - self.source) / (self.measured - self.source)
            if self.measured != self.source
            else math.nan
        )

    @property
    def run_timeline(self) -> float:
        """Predicted run time of the whole recording: what lies outside the part stays."""
        return self.run_source + self.timeline - self.source


def line(first: Costs, second: Costs, law: Law) -> Costs:
    """Costs of kernels and copies at the law's target size."""
    return parts.line(first, second, law.other_size, law.source_size, law.target_size)


def predicted(
    source: Part, states: tuple[str, ...], old: Costs, new: Costs
) -> tuple[float, float, float]:
    """Length of the part [s] by the timeline, by the sum, and without overlap, when the `states`
    cost what `new` says.
    """
    change = changed(source, old, new, frozenset(states))
    return by_timeline(source, change), *by_sum(source, old, change)


class Recordings:
    """The recordings of a shared folder; each is read once, and each part is made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "traces"
        self.trace = cache(lambda name: read(self.file(name), use_cache=False))
        self.part = cache(self._part)
        self.seconds = cache(self._seconds)

    def file(self, name: str) -> Path:
        """The one recording of a folder below ``traces/nsys``.  Raises `FileNotFoundError` where it
        is missing.
        """
        found = sorted((self.folder / "nsys" / name).glob("*.sqlite"))
        if not found:
            raise FileNotFoundError(f"{self.folder / 'nsys' / name} holds no recording")
        return found[0]

    def _part(self, name: str, phase: int | None) -> Part:
        return prepare(cut(self.trace(name), phase))

    def _seconds(self, name: str) -> float:
        return build(self.trace(name)).seconds


def run(experiment: Experiment, recordings: Recordings) -> Result:
    """Predict, then compare."""
    part, target = (
        recordings.part(name, experiment.phase) for name in (experiment.source, experiment.target)
    )
    calls = tuple(int((p.replay.run.category == "api").sum()) for p in (part, target))
    recorded = part
    if experiment.removed:
        part = without(part, experiment.removed)
    old, seen = costs(part), costs(target)
    new = seen
    if experiment.law:
        new = line(
            costs(recordings.part(experiment.law.other, experiment.phase)), old, experiment.law
        )
    timeline, summed, serial = predicted(part, experiment.states, old, new)
    measured = target.seconds
    left = {"stated": timeline / measured - 1.0}
    taken: tuple[str, ...] = ()
    summed_left = summed
    for parameter in PARAMETERS:
        taken = (*taken, parameter)
        both = predicted(part, tuple(dict.fromkeys((*experiment.states, *taken))), old, seen)
        left[parameter] = both[0] / measured - 1.0
        summed_left = both[1]
    return Result(
        experiment,
        part.seconds,
        measured,
        timeline,
        summed,
        serial,
        left,
        summed_left / measured - 1.0,
        trust(recorded.profile, recorded.replay).explained,
        (calls[0], calls[1]),
        recordings.seconds(experiment.source),
        recordings.seconds(experiment.target),
    )


def table(results: list[Result]) -> pl.DataFrame:
    """One row an experiment, all figures."""
    return pl.DataFrame(
        [
            {
                "source": r.experiment.source,
                "target": r.experiment.target,
                "phase": r.experiment.phase,
                "change": r.experiment.change,
                "source_seconds": r.source,
                "measured_seconds": r.measured,
                "timeline_seconds": r.timeline,
                "sum_seconds": r.summed,
                "serial_seconds": r.serial,
                "timeline_error": r.left["stated"],
                "sum_error": r.summed / r.measured - 1.0,
                "serial_error": r.serial / r.measured - 1.0,
                "timeline_of_change": r.of_change(r.timeline),
                "sum_of_change": r.of_change(r.summed),
                "explained_path": r.explained,
                **{f"error_with_{p}": r.left[p] for p in PARAMETERS},
                "sum_error_with_all": r.summed_left,
                "source_calls": r.calls[0],
                "target_calls": r.calls[1],
                "source_run_seconds": r.run_source,
                "measured_run_seconds": r.run_measured,
                "timeline_run_seconds": r.run_timeline,
            }
            for r in results
        ],
        infer_schema_length=None,
    )


def left_out(folder: Path) -> list[tuple[str, str, str]]:
    """Sets without a number: their names, what the reader makes of the files there, and why no
    change is stated.
    """
    rows = []
    for names, why in LEFT_OUT:
        files = [
            f for name in names for f in sorted((folder / "traces" / name).glob("*")) if f.is_file()
        ]
        seen = []
        for file in files:
            try:
                kernels = read(file, use_cache=False).kernels
                seen.append(
                    f"{kernels.height} kernels, "
                    f"{float((kernels['end_ns'] - kernels['start_ns']).sum()) * 1e-6:.1f} ms"
                )
            except ProfileError as error:
                seen.append(f"not read ({error.code})")
        rows.append(
            (", ".join(n.partition("/")[2] for n in names), "; ".join(seen) or "not there", why)
        )
    return rows


def _percent(share: float) -> str:
    return f"{share * 100:+.1f} %"


def markdown(results: list[Result], out: list[tuple[str, str, str]]) -> str:
    """The three tables of docs/validation.md."""

    def name(r: Result) -> str:
        common = "_".join(r.experiment.source.split("_")[:-1])
        phase = "" if r.experiment.phase is None else f", phase {r.experiment.phase}"
        return (
            f"{common} {r.experiment.source.split('_')[-1]} → "
            f"{r.experiment.target.split('_')[-1]}{phase}"
        )

    def lines(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
        return "\n".join("| " + " | ".join(r) + " |" for r in (head, ("---",) * len(head), *rows))

    head = ("pair", "stated change", "source [ms]", "measured [ms]")
    first = [
        (
            name(r),
            r.experiment.change,
            f"{r.source * 1e3:.2f}",
            f"{r.measured * 1e3:.2f}",
            f"{r.timeline * 1e3:.2f}",
            _percent(r.left["stated"]),
            _percent(r.summed / r.measured - 1),
            _percent(r.serial / r.measured - 1),
            f"{r.of_change(r.timeline):.2f}",
            f"{r.of_change(r.summed):.2f}",
            f"{r.explained:.0%}",
        )
        for r in results
    ]
    second = [
        (name(r), *(_percent(r.left[p]) for p in ("stated", *PARAMETERS)), _percent(r.summed_left))
        for r in results
    ]
    third = [
        (
            name(r),
            f"{r.run_source * 1e3:.1f}",
            f"{r.run_measured * 1e3:.1f}",
            f"{r.run_timeline * 1e3:.1f}",
            _percent(r.run_timeline / r.run_measured - 1),
            f"{r.calls[0]} → {r.calls[1]}",
        )
        for r in results
        if r.experiment.phase is None
    ]
    return (
        "\n\n".join(
            (
                lines(
                    (
                        *head,
                        "timeline [ms]",
                        "timeline",
                        "sum",
                        "no overlap",
                        "timeline / change",
                        "sum / change",
                        "path explained",
                    ),
                    first,
                ),
                lines(("pair", "stated", *(f"+ {p}" for p in PARAMETERS), "sum, all"), second),
                lines(
                    (
                        "pair",
                        "source run [ms]",
                        "measured run [ms]",
                        "predicted run [ms]",
                        "error",
                        "host calls",
                    ),
                    third,
                ),
                lines(("set", "files", "why no number"), out),
            )
        )
        + "\n"
    )


def placed(page: str, tables: str) -> str:
    """A page with the tables between its `MARKS`; the tables alone where it has none."""
    before, first, rest = page.partition(MARKS[0])
    _, second, after = rest.partition(MARKS[1])
    return f"{before}{first}\n{tables}\n{second}{after}" if first and second else tables


def main(arguments: list[str] | None = None) -> int:
    """Run every experiment of a shared folder."""
    parser = argparse.ArgumentParser(
        description="Predict recorded variants of programs from each other and print the errors."
    )
    parser.add_argument("folder", type=Path, help="folder that holds traces/nsys")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        help="write here: all figures (.csv), or Markdown, into a page's marks",
    )
    given = parser.parse_args(arguments)
    recordings = Recordings(given.folder)
    try:
        results = [run(experiment, recordings) for experiment in EXPERIMENTS]
    except FileNotFoundError as error:
        print(f"{error}: give the folder that holds traces/nsys", file=sys.stderr)
        return 2
    if given.output and given.output.suffix == ".csv":
        table(results).write_csv(given.output)
        return 0
    text = markdown(results, left_out(given.folder))
    if given.output:
        page = given.output.read_text(encoding="utf-8") if given.output.exists() else ""
        given.output.write_text(placed(page, text), encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
