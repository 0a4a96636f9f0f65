"""``turnbuckle sweep``: every combination of settings on every recording, resumable, as one
table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.settings import setting_of
from turnbuckle.foundation.units import parse
from turnbuckle.questions.sweep.grid import Study, shard_of
from turnbuckle.questions.sweep.ranges import (
    SEED,
    WITHIN,
    Range,
    Sample,
    Sampler,
    planned,
    read_range,
)
from turnbuckle.show.figures.files import save
from turnbuckle.show.terminal.console import console_for
from turnbuckle.show.terminal.options import Charts, FormatOption, Output
from turnbuckle.show.terminal.output import write_frame, write_json

if TYPE_CHECKING:
    from turnbuckle.foundation.settings import Scalar
    from turnbuckle.questions.sweep.question import Progress, Swept

What = Annotated[
    list[Path] | None,
    Parameter(
        help="a study file (TOML), or recordings with --axis (of pool: logs of jobs, mixes)",
        json_list=False,
    ),
]
Axis = Annotated[
    list[str] | None,
    Parameter(
        name="--axis",
        help=(
            "a setting that varies: path=hostcopy,gpudirect; a range: hop_seconds='100ns..10us log'"
        ),
        negative=(),
    ),
]
Fixed = Annotated[
    list[str] | None, Parameter(name="--set", help="a fixed setting: hop_seconds=1us", negative=())
]
PartOf = Annotated[
    str | None,
    Parameter(
        name="--part",
        help=(
            "what is asked about, as --set part=...: whole, steady, kernels, 2s..3s, step=5-9 or "
            "nvtx=NAME"
        ),
    ),
]
ModelName = Annotated[
    str | None,
    Parameter(
        name="--model", help="messages (if left out), project, slack, sharing or pool; with --axis"
    ),
]
Places = Annotated[
    int | None,
    Parameter(
        name="--sample",
        help="places taken from the axes that are ranges, any number; needs the extra scipy",
    ),
]
SamplerName = Annotated[
    Literal["sobol", "latin"],
    Parameter(name="--sampler", help="Sobol points, or a Latin hypercube"),
]
Seed = Annotated[int | None, Parameter(name="--seed", help="of the sample")]
Budget = Annotated[
    int | None,
    Parameter(
        name="--refine", help="points added where the answer changes along the one axis of numbers"
    ),
]
Within = Annotated[
    str | None,
    Parameter(name="--within", help="width to which --refine narrows a change; 1% if left out"),
]
Shard = Annotated[
    str | None,
    Parameter(name="--shard", help="one part of several, for job arrays: 2/8; needs --output"),
]
Workers = Annotated[
    int | None,
    Parameter(name="--workers", help="processes; as many as there are cores if left out"),
]
Again = Annotated[
    bool,
    Parameter(
        name="--again", help="retry the points that the journal holds as refused", negative=()
    ),
]
By = Annotated[
    str | None, Parameter(name="--by", help="show the smallest values of this column first")
]
Settings = Annotated[
    str | None,
    Parameter(name="--settings", help="list the settings of a model, as --model names it"),
]
Most = Annotated[int, Parameter(name="--rows", help="rows shown; the file has all")]
#: Names that tools give to every recording, or people to the folder of each.
_ALIKE = ("traces", "trace", "archive", "anchor", "report1")


def sweep(
    what: What = None,
    /,
    *,
    axis: Axis = None,
    set_: Fixed = None,
    part: PartOf = None,
    model: ModelName = None,
    sample: Places = None,
    sampler: SamplerName = "sobol",
    seed: Seed = None,
    refine: Budget = None,
    within: Within = None,
    shard: Shard = None,
    workers: Workers = None,
    again: Again = False,
    by: By = None,
    rows: Most = 20,
    settings: Settings = None,
    charts: Charts = None,
    format: FormatOption = "table",
    output: Output = None,
) -> int:
    """Answer every combination of settings on every recording: a study file, or --axis on the
    command line.

    --sample takes places from axes that are ranges; --refine adds points where the answer changes.
    With --output what is answered is kept in a journal beside the table; the same command goes on
    where a stopped one was.
    """

    from turnbuckle.questions.sweep.kinds import kind_named
    from turnbuckle.questions.sweep.question import sweep as swept_of
    from turnbuckle.questions.sweep.tables import print_settings, print_swept

    if settings is not None:
        print_settings(kind_named(settings))
        return 0
    points = _points(sample, sampler, seed, refine, within)
    study = _study(what or [], axis or [], set_ or [], model, part, points)
    piece = shard_of(shard) if shard is not None else None
    try:
        with _progress(study.name) as progress:
            swept = swept_of(
                study, output=output, shard=piece, workers=workers, again=again, progress=progress
            )
    except KeyboardInterrupt:
        kept = (
            "the journal holds all answers so far; the same command continues from there"
            if output
            else "without --output nothing is kept"
        )
        print(kept, file=sys.stderr)
        raise
    for note in swept.notes:
        print(f"note: {note}", file=sys.stderr)
    if output is not None and not swept.missing:
        _emit(swept, format, output)
    if charts is not None:
        _draw(swept, charts)
    if output is None and format != "table":
        _emit(swept, format, None)
    else:
        print_swept(console_for(None), swept, output, by=by, most=rows)
    failed = sum(swept.failed.values())
    if failed and failed == len(study):
        code, count = max(swept.failed.items(), key=lambda entry: entry[1])
        why = swept.why(code)
        raise error_of("A167", found=f"{code} at {count:,} of {len(study):,} points: {why}"[:200])
    return 0


@dataclass(frozen=True)
class _Points:
    """How many points of ranges are asked: in a sample, or where the answer changes; None as the
    study file has it.
    """

    sample: Sample | None
    budget: int | None
    within: float


def _points(
    sample: int | None, sampler: Sampler, seed: int | None, budget: int | None, within: str | None
) -> _Points:
    if sample is None and (seed is not None or sampler != "sobol"):
        raise error_of(
            "A083.needs",
            given="--sampler" if sampler != "sobol" else "--seed",
            other="--sample 256",
        )
    if budget is None and within is not None:
        raise error_of("A083.needs", given="--within", other="--refine 100")
    taken = None if sample is None else Sample(sample, sampler, SEED if seed is None else seed)
    return _Points(taken, budget, WITHIN if within is None else parse(within, "1"))


def _study(
    inputs: list[Path],
    axes: list[str],
    fixed: list[str],
    model: str | None,
    part: str | None,
    points: _Points,
) -> Study:
    """Return the study of a file, or of recordings and options.

    Raise A083 if it is neither, or both.
    """
    from turnbuckle.questions.sweep.kinds import kind_named
    from turnbuckle.questions.sweep.study_file import read_study

    if not inputs:
        raise error_of("A083.nothing")
    # what this model asks about may be TOML itself
    reads_toml = model is not None and kind_named(model).files is not None
    if [p.suffix.lower() for p in inputs] == [".toml"] and not reads_toml:
        if axes or fixed or model or part or points.sample or points.budget is not None:
            raise error_of("A083.options", where=inputs[0].name)
        return read_study(inputs[0])
    if any(p.suffix.lower() == ".toml" for p in inputs) and not reads_toml:
        names = ", ".join(p.name for p in inputs)[:60]
        raise error_of("A083.file", found=names)
    study = _quick(inputs, axes, fixed, model or "messages", points)
    if part is None:
        return study
    if "part" in study.settings or "part" in study.axes:
        raise error_of("A081.twice", where="--part", found=part[:60], name="part")
    return replace(study, settings={**study.settings, "part": part})


def _draw(swept: Swept, folder: Path) -> None:
    """Write the figures into a folder; print a note if there are none."""

    from turnbuckle.questions.sweep.figures import MOST, figures

    if swept.missing:
        print("note: figures follow when all shards are done", file=sys.stderr)
        return
    made = figures(swept)
    save(made, folder)
    if len(made) in (0, MOST):
        why = (
            f"the first {MOST} figures are drawn"
            if made
            else "no figures: no setting varies, or no point has an answer"
        )
        print(f"note: {why}", file=sys.stderr)


def _quick(
    recordings: list[Path], axes: list[str], fixed: list[str], model: str, points: _Points
) -> Study:
    """Return the study that the command line describes."""
    from turnbuckle.questions.sweep.kinds import kind_named

    kind = kind_named(model)
    legal = kind.legal

    def given(words: list[str], option: str) -> Iterator[tuple[str, list[Scalar] | Range]]:
        for word in words:
            name, equals, values = word.partition("=")
            name = name.strip().replace("-", "_") if name.strip() not in legal else name.strip()
            setting = setting_of(name, legal, f"model {model}")
            if not equals or not values.strip():
                raise error_of(
                    "A081.setting-value",
                    where=option,
                    found=word[:60],
                    fix=f"{option} {name}={setting.wanted}"[:160],
                    name=name,
                )
            if option == "--axis" and (over := read_range(name, values, setting)) is not None:
                yield name, over
                continue
            try:
                yield name, [setting.read(value.strip()) for value in values.split(",")]
            except TurnbuckleError as error:
                error.where = f"{option} {name}"
                raise

    names = [_called(p) for p in recordings]
    if len({*names}) < len(names):
        # archives are often called alike, and their folders are not
        names = [f"{p.absolute().parent.name}-{p.stem}" for p in recordings]
    safe = [
        "".join(c if c.isascii() and (c.isalnum() or c in "_.+-") else "_" for c in n).lstrip(
            "_.+-"
        )[:80]
        or "run"
        for n in names
    ]
    if len({*safe}) < len(safe):
        raise error_of("A081.recordings", found=", ".join(p.name for p in recordings)[:60])
    settings = {}
    for name, values in given(fixed, "--set"):
        assert isinstance(values, list)
        if len(values) > 1:
            raise error_of("A081.single", where="--set", found=f"{len(values)} values", name=name)
        settings[name] = values[0]
    varied: dict[str, Sequence[Scalar] | Range] = {}
    for name, values in given(axes, "--axis"):
        earlier = varied.get(name, [])
        if name in varied and isinstance(earlier, list) and isinstance(values, list):
            varied[name] = [*earlier, *values]
        elif name in varied:
            raise error_of("A081.twice", where="--axis", found=name, name=name)
        else:
            varied[name] = values
    paths = [p.absolute() for p in recordings]
    every, refine = planned(varied, points.budget, points.within, points.sample)
    return Study(
        "sweep",
        kind,
        dict(zip(safe, paths, strict=True)),
        settings,
        (),
        every,
        Path.cwd(),
        points.sample,
        refine,
    )


def _called(recording: Path) -> str:
    """Return the name of a recording.

    Score-P calls every archive traces.otf2; the name of its folder says more.
    """
    path = recording.absolute()
    named = [path.stem, *(p.name for p in path.parents if p.name)]
    return next((n for n in named[:3] if n.lower() not in _ALIKE), path.stem)


def _emit(swept: Swept, format: str, output: Path | None) -> None:
    if format == "json":
        write_json(swept.as_dict(), output)
    else:
        write_frame(swept.table(), format, output)


@contextmanager
def _progress(name: str) -> Iterator[Progress | None]:
    """Show a progress bar on stderr, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    # a bar is of use on a terminal only
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None, failed="")

        def report(done: int, total: int, failed: int) -> None:
            bar.update(
                task, completed=done, total=total, failed=f"{failed:,} failed" if failed else ""
            )

        yield report
