"""Predictions from the raw results of `run`, beside what was measured: `python predict.py RESULTS
[OTHER] [options]`.

    RESULTS         results of one GPU machine: run time with delayed calls, from the recording without delay (`turnbuckle slack`)
    RESULTS OTHER   of two: also run time, copies and launches of each from the other

A prediction is made of one iteration: the recorded loop is projected, and the change that comes out
is applied to the loop as it runs without a profiler.  Nothing is fitted to the answer.  The
machines are those of the catalogue, or files that `turnbuckle calibrate` wrote from the step
``calibrate`` of the same results.

Writes ``predicted.csv`` and ``predicted.json`` (rows and card as `turnbuckle validate` has them)
and prints the table.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.foundation.fields import finite
from turnbuckle.profile.pieces import pieces
from turnbuckle.profile.profile import build
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.model import nething
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.question import tolerate
from turnbuckle.questions.transfers.datasheet import project as on_sheet
from turnbuckle.questions.transfers.question import recorded as copies_of
from turnbuckle.questions.transfers.question import words
from turnbuckle.questions.transfers.sheet import sheet
from turnbuckle.questions.validate.question import About, NotRun, Validation, row_dict
from turnbuckle.questions.validate.rows import Row
from turnbuckle.show.terminal.output import write_rows
from turnbuckle.trace.readers.recorded import reader as recorded

#: Bytes of one file of an archive, and of a results folder.
LARGEST, MOST = 1 << 30, 4 << 30
CALLS = {
    "launch.call": "length of a launch call, median",
    "launch.latency": "launch to kernel on an idle device, median",
}
_NAME = re.compile(r"(look|build|calibrate|programs|slack|proxy|torch)/([A-Za-z0-9_.-]{1,120})")


@dataclass
class Results:
    """Raw results of one machine.

    Attributes
    ----------
    name : of the machine in the predictions.
    loops : per job, its timed loops: ``iters``, ``per_iter_ns``, ``slack_ns`` (-1 without the
        recorder).
    traces : per job, the recording of its last loop as a file.
    delayed : per job, calls that the recorder delayed or would have, from its first loop's begin to
        that loop's end.
    """

    name: str
    machine: str
    loops: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    traces: dict[str, Path] = field(default_factory=dict)
    delayed: dict[str, float] = field(default_factory=dict)

    def per_iteration(self, job: str, slack_ns: int = -1) -> tuple[float, float, float] | None:
        """Median, least and most time of an iteration [s] of a job at one delay; None where it was
        not run.
        """
        found = [
            loop["per_iter_ns"] * 1e-9
            for loop in self.loops.get(job, [])
            if int(loop["slack_ns"]) == slack_ns
        ]
        return (statistics.median(found), min(found), max(found)) if found else None

    def programs(self) -> list[str]:
        """Programs that were both timed and recorded."""
        return sorted(
            {j.rpartition(".")[0] for j in self.traces if j.endswith(".full")}
            & {j.rpartition(".")[0] for j in self.loops}
        )


def read(folder: Path, scratch: Path, machine: str, name: str) -> Results:
    """Read the archives of a results folder; recordings go to `scratch`, cut to their last timed
    loop.
    """
    out, total = Results(name, machine), 0
    scratch.mkdir(parents=True, exist_ok=True)
    archives = sorted(folder.glob("*.tar.gz"))
    if not archives:
        raise SystemExit(
            f"error[V103]: {folder.name} holds no results\n"
            "  fix:   give the folder that validation/gpu/run wrote its archives to"
        )
    for path in archives:
        try:
            with tarfile.open(path) as archive:
                for member in archive:
                    named = _NAME.fullmatch(member.name)
                    total += member.size
                    if (
                        named is None
                        or not member.isfile()
                        or member.size > LARGEST
                        or total > MOST
                    ):
                        raise SystemExit(
                            f"error[V104]: {path.name} holds something that no step writes: "
                            f"{member.name[:80]!r}"
                        )
                    file = archive.extractfile(member)
                    _take(out, named[2], file.read() if file else b"", scratch)
        except (tarfile.TarError, OSError, EOFError, ValueError, LookupError) as error:
            raise SystemExit(
                f"error[V104]: {path.name} cannot be read: {error}\n  fix:   fetch it again"
            ) from None
    return out


def _take(out: Results, name: str, raw: bytes, scratch: Path) -> None:
    if name.endswith(".jsonl"):
        out.loops[name.removesuffix(".jsonl")] = [
            loop for line in raw.splitlines() if (loop := _loop(line))
        ]
    elif name.endswith(".stats.json"):
        calls = calls_of(raw)
        if calls is not None:
            out.delayed[name.removesuffix(".stats.json")] = calls
    elif name.endswith(".trace.csv"):
        cut = loop_of(raw.decode("utf-8", "replace"))
        if cut:
            place = scratch / name
            place.write_text(cut, encoding="utf-8")
            out.traces[name.removesuffix(".trace.csv")] = place


def _loop(line: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(line)
        if (
            isinstance(told, dict)
            and "wall_ns" in told
            and float(told["per_iter_ns"]) > 0
            and int(told["iters"]) > 0
        ):
            return {
                "iters": int(told["iters"]),
                "per_iter_ns": float(told["per_iter_ns"]),
                "slack_ns": float(told.get("slack_ns", -1)),
            }
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def calls_of(raw: bytes) -> float | None:
    """Calls that the recorder counted in the first loop, from the file of TB_SLACK_STATS; None
    where it does not say.
    """
    try:
        marks = json.loads(raw)["marks"][:2]
        if [mark["label"] for mark in marks] == ["loop_begin", "loop_end"]:
            begun, ended = (sum(float(n) for n in mark["calls"].values()) for mark in marks)
            return ended - begun
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    return None


def loop_of(text: str) -> str:
    """The part of a recording between its last marks ``loop_begin`` and ``loop_end``: calls that
    begin there, and what they caused.

    Empty where there are no such marks.
    """
    marks = {"loop_begin": 0, "loop_end": 0}
    facts, rows, head = [], [], ""
    for line in text.splitlines():
        if line.startswith("#"):
            if found := re.fullmatch(r"#mark (\d{1,18}) (loop_begin|loop_end)", line):
                marks[found[2]] = int(found[1])
            if not line.startswith(("#rows ", "#mark ")):
                facts.append(line)
        elif not head:
            head = line
        else:
            rows.append(line.split(","))
    begin, end = marks["loop_begin"], marks["loop_end"]
    if not head or not 0 < begin < end:
        return ""
    at = {name: k for k, name in enumerate(head.split(","))}
    start, correlation, ahead = at["start"], at["corr"], _ahead(facts)

    def within(row: list[str]) -> bool:
        """Marks and delays are the recorder's own and on its clock; all other records are
        CUPTI's.
        """
        return begin <= int(row[start]) - (0 if row[0] == "L" else ahead) <= end

    calls = {r[correlation] for r in rows if r[0] in "AD" and r[start] and within(r)}
    keep = [
        r
        for r in rows
        if (within(r) if r[0] in "ADOUNLM" and r[start] else r[0] == "R" or r[correlation] in calls)
    ]
    ends = [line for line in facts if line.startswith("#end")]
    facts = [line for line in facts if not line.startswith("#end")]
    return (
        "\n".join([*facts, head, *(",".join(r) for r in keep), f"#rows {len(keep)}", *ends]) + "\n"
    )


def _ahead(facts: list[str]) -> int:
    """How far the clock of the records is ahead of that of the marks [ns]: the median of what the
    recorder saw, 0 where they are one.
    """
    seen = sorted(
        int(found[1])
        for line in facts
        if (
            found := re.fullmatch(
                r"#clock -?\d{1,19} (-?\d{1,19}) -?\d{1,19}(?: -?\d{1,19})?", line
            )
        )
    )
    return seen[len(seen) // 2] if seen and "#timebase cupti" in facts else 0


# --- predictions ----------------------------------------------------------------------------------


def seen(results: Results, program: str, label: str = "full") -> tuple[Run, int]:
    """The recorded loop of a program, and its iterations.  Raises what its reader raises."""
    job = f"{program}.{label}"
    trace = recorded.read(results.traces[job])
    iterations = max((loop["iters"] for loop in results.loops.get(job, [])), default=0)
    return Run.of(build(trace), source=results.machine), iterations


def slack_rows(results: Results, left: list[NotRun]) -> Iterator[Row]:
    """Run time of an iteration with every boundary call delayed, by `turnbuckle slack --mode api`
    from the recording without delay.

    A program of which the recorder delays other calls than the recording holds gets no prediction.
    """
    for program in results.programs():
        delays = sorted(
            {int(loop["slack_ns"]) for loop in results.loops.get(f"{program}.after", [])} - {-1, 0}
        )
        base = results.per_iteration(f"{program}.after", 0)
        if base is None:
            continue
        case = f"slack_{results.name}_{program}"
        try:
            answer, iterations = seen(results, program)
            curve = tolerate(answer, "api", draws=0).curve
        except TurnbuckleError as error:
            left.append(NotRun(case, "A362", f"{error.code} {error.what}"))
            continue
        run = pieces(answer.profile)
        crossing, job = float(run.count[run.crosses].sum()) / max(iterations, 1), f"{program}.after"
        if (counted := results.delayed.get(job)) is not None:
            counted /= results.loops[job][0]["iters"]
            # what is outside the iterations, a last wait, weighs little
            if abs(counted - crossing) > 0.1 + 0.01 * crossing:
                why = (
                    f"the recorder delays {counted:.4g} calls an iteration, the recording holds "
                    f"{crossing:.4g} that cross to the device"
                )
                left.append(NotRun(case, "A362", why))
                continue
        if not iterations:
            left.append(
                NotRun(case, "A362", "the recorded loop does not say how many iterations it has")
            )
            continue
        for delay in delays:
            measured = results.per_iteration(f"{program}.after", delay)
            if measured is None:
                continue
            added = (float(curve(delay * 1e-9)) - float(curve(0.0))) / iterations
            name = f"an iteration, {delay / 1000:g} us a call"
            yield Row(
                case,
                "slack",
                "timeline",
                name,
                "s",
                base[0] + added,
                measured[0],
                count=len(results.loops[job]),
            )


def run_rows(here: Results, there: Results, left: list[NotRun]) -> Iterator[Row]:
    """Run time, copies and launches of every program that both machines ran, from `here` on
    `there`.
    """
    for program in sorted({*here.programs()} & {*there.programs()}):
        case = f"{here.name}_to_{there.name}_{program}"
        try:
            (source, _), (target, _) = seen(here, program), seen(there, program)
        except TurnbuckleError as error:
            left.append(NotRun(case, "A362", f"{error.code} {error.what}"))
            continue
        for part in (
            _run_time(case, program, here, there, source),
            _copies(case, source, target, there.machine),
            _launches(case, source, target),
        ):
            try:
                yield from part
            except TurnbuckleError as error:
                left.append(NotRun(case, "A362", f"{error.code} {error.what}"))


def _run_time(
    case: str, program: str, here: Results, there: Results, source: Answer
) -> Iterator[Row]:
    before, after = here.per_iteration(f"{program}.plain"), there.per_iteration(f"{program}.plain")
    if before and after:
        (found,) = source.project(
            [there.machine], model=replace(nething(), replay="auto")
        ).projections
        scale = before[0] / found.measured_seconds
        low, high = (
            (found.interval.low * scale, found.interval.high * scale)
            if found.interval
            else (None, None)
        )
        yield Row(
            case,
            "run time",
            "projection",
            "an iteration",
            "s",
            found.seconds * scale,
            after[0],
            low,
            high,
        )


def _launches(case: str, source: Answer, target: Answer) -> Iterator[Row]:
    for name, what in CALLS.items():
        mine, theirs = source.source.value(name), target.source.value(name)
        if mine and theirs:
            yield Row(case, "launches", "projection", f"{what}, kept from A", "s", mine, theirs)


def _copies(case: str, source: Run, target: Run, machine: str) -> Iterator[Row]:
    if not {"copies"} & source.profile.has & target.profile.has:
        return
    found = on_sheet(copies_of(source), sheet(machine, source=source.source), copies_of(target))
    for error in found.errors:
        if error.approach == "projected" and error.direction != "all":
            kind = "pageable" if error.memory == "pageable" else "transfers"
            name = words((error.direction, error.memory))
            yield Row(
                case,
                kind,
                "datasheet",
                name,
                "s",
                error.predicted,
                error.actual,
                wmape=error.wmape / 100.0,
                count=error.count,
            )


def predicted(every: Sequence[Results]) -> Validation:
    """All predictions that the results allow."""
    left: list[NotRun] = []
    rows = [row for results in every for row in slack_rows(results, left)]
    if len(every) == 2:
        for here, there in (every, every[::-1]):
            rows += run_rows(here, there, left)
    names = dict.fromkeys(r.case for r in rows)
    abouts = tuple(About(n, n.replace("_", " "), "", "", "", "") for n in names)
    return Validation(
        tuple(rows),
        abouts,
        tuple(left),
        date.today().isoformat(),
        version("turnbuckle"),
        len(names),
        (),
    )


def main(arguments: list[str] | None = None) -> int:
    """Predict, write the tables, print the card."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "results",
        type=Path,
        nargs="+",
        metavar="RESULTS",
        help="folder of archives that `run` wrote; two for two machines",
    )
    parser.add_argument(
        "--machine",
        action="append",
        default=[],
        help="machine of each folder: a name of the catalogue or a TOML file",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path(),
        help="folder for predicted.csv and predicted.json",
    )
    given = parser.parse_args(arguments)
    if len(given.results) > 2 or len(given.machine) != len(given.results):
        parser.error(
            "one or two folders, and one --machine for each: --machine h100-sxm5 --machine h200-sxm"
        )
    with tempfile.TemporaryDirectory() as scratch:
        places = zip(given.results, given.machine, strict=True)
        every = [
            read(path, Path(scratch) / str(k), machine, Path(machine).stem)
            for k, (path, machine) in enumerate(places)
        ]
        found = predicted(every)
    given.output.mkdir(parents=True, exist_ok=True)
    if found.rows:
        write_rows([row_dict(r) for r in found.rows], "csv", given.output / "predicted.csv")
    (given.output / "predicted.json").write_text(
        json.dumps(finite(found.as_dict()), indent=1) + "\n", encoding="utf-8"
    )
    from rich.console import Console

    from turnbuckle.questions.validate.command import show

    show(Console(soft_wrap=False, highlight=False), found)
    return 0 if found.rows else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TurnbuckleError as refused:
        print("\n".join(refused.lines()), file=sys.stderr)
        sys.exit(refused.exit_code)
