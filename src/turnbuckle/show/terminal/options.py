"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from turnbuckle.foundation.errors import UnitError, clipped, error_of
from turnbuckle.foundation.units import parse

Format = Literal["table", "json", "csv", "parquet"]
FormatOption = Annotated[Format, Parameter(name="--format", help="table for people, json for programs (stable), csv or parquet")]
Output = Annotated[Path | None, Parameter(name=["--output", "-o"], help="write there instead of to the terminal")]
Charts = Annotated[Path | None, Parameter(name="--charts", help="write the figures into this folder as SVG, with the numbers behind them")]
Profile = Annotated[
    Path,
    Parameter(
        help="a recording: Nsight Systems (nsys export --type sqlite), PyTorch profiler (.json, .json.gz), nvprof (.nvvp), rocprof, "
        "OTF2 (traces.otf2), Chakra, Paraver (.prv), Paje, DUMPI (.meta), PMPI text, or a folder that Turnbuckle wrote"
    ),
]
Minus = Annotated[
    Path | None,
    Parameter(
        name="--minus", help="a run of the same program, all ranks on one node: what this one copies beyond it goes to the network card"
    ),
]
Source = Annotated[
    str | None, Parameter(name="--source", help="machine it ran on: a name or a TOML file; recognised from the recording if left out")
]
NoCache = Annotated[bool, Parameter(name="--no-cache", help="read the recording again instead of its Parquet copy", negative=())]


@Parameter(name="*", group="Part of the recording")
@dataclass(frozen=True)
class PartOptions:
    """Which part of a recording is meant, and how long it takes without profiler."""

    window: Annotated[str | None, Parameter(help="only START:END, in time after the first GPU or MPI call: 1.2s:1.3s")] = None
    nvtx: Annotated[str | None, Parameter(help="only this NVTX range; NAME#3 is its third, NAME#3-5 from the third to the fifth")] = None
    rank: Annotated[int | None, Parameter(help="only this rank")] = None
    clean_time: Annotated[
        str | None, Parameter(help="run time without profiler, from the first call to the last: the recording is shortened to it")
    ] = None

    def asked(self) -> dict[str, Any]:
        """As `turnbuckle.projection.run.inspect` takes them.  Raises A070 for a window that is none."""
        from turnbuckle.trace.window import Part

        window = None if self.window is None else window_ns(self.window)
        clean = None if self.clean_time is None else seconds_of(self.clean_time, "--clean-time", "1.03s")
        return {"part": Part(window, self.nvtx, self.rank), "clean_seconds": clean}


NO_PART = PartOptions()


def window_ns(text: str) -> tuple[int, int]:
    """`1.2s:1.3s` -> nanoseconds after the run's start.  Raises A070, and U0xx for what is no time."""
    first, _, last = (end.strip() for end in text.partition(":"))
    if not first or not last or ":" in last:
        raise error_of("A070.form", where="--window", found=clipped(text))
    bounds = [round(min(seconds_of(end, "--window", "1.2s:1.3s"), 1e9) * 1e9) for end in (first, last)]
    if bounds[0] < 0:
        raise error_of("A070.before", where="--window", found=clipped(text))
    if bounds[0] >= bounds[1]:
        raise error_of("A070.order", where="--window", found=clipped(text))
    return bounds[0], bounds[1]


def seconds_of(text: str, option: str, example: str) -> float:
    """A time [s] that an option gives.  Raises U0xx, with the option's name."""
    try:
        return parse(text, "s")
    except UnitError as error:
        raise UnitError(error.code, error.what, where=option, found=error.found, cause=error.cause, fix=f"{option} {example}") from None


def listed(words: Sequence[str]) -> list[str]:
    """`--on a,b --on c` -> [a, b, c]."""
    return [part.strip() for word in words for part in word.split(",") if part.strip()]


def flat(names: Sequence[str] | None) -> list[str] | None:
    """`listed`, or None for an option that is left out."""
    return None if names is None else listed(names)


def rank_counts(text: str, fix: str) -> list[int]:
    """`32,256` -> [32, 256].  Raises A074, with how the option is given."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise error_of("A074.ranks", found=text[:60], fix=fix) from None


def lambdas_of(words: list[str] | None) -> dict[str, float]:
    """`--lambda data=10,control=10` -> {data: 10, control: 10}.  Raises A004 for what is no number."""
    out: dict[str, float] = {}
    for word in flat(words) or []:
        name, _, value = word.partition("=")
        if name in out:
            raise error_of("A004.twice", found=word, name=name)
        try:
            out[name] = float(value)
        except ValueError:
            raise error_of("A004.number", found=word, name=name) from None
    return out
