"""Reader of a mix (TOML): classes of jobs that are declared, or what the classes of a log slow down
by.

::

    [mix]
    days = 30                     # how long jobs are submitted
    nodes = "64:4x16"             # the fixed nodes; --nodes stands above it
    # jobs = "log.csv"            # a log in place of declared jobs: its classes are only tied

    [classes.solver]
    every = "20 min"              # mean time between submissions, at random (Poisson)
    run_time = "3 h"              # mean
    spread = "exponential"        # or fixed, or a number: standard deviation over mean, log-normal
    gpus = 1                      # of each part; a share of one below 1
    cores = 8
    memory = "32 GiB"
    parts = 1                     # placed together
    recording = "run.sqlite"      # slows down as project says; relative to this file
    # curve = [["1 us", 1.01], ["10 us", 1.2]]    # or run time over that without delay, at added one-way latencies
    # slowdown = [1.0, 1.05]                      # or least and most, on every fabric
    bandwidth = "2 GB/s"          # what each GPU moves on average, for --trunk; else that of the recording
    exposed = 0.1                 # share of the run time in which nothing but copies runs
    moving = 0.2                  # share in which any runs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.table_file import read_text
from turnbuckle.foundation.toml_text import TomlReading
from turnbuckle.foundation.units import parse
from turnbuckle.projection.run import Run
from turnbuckle.questions.pool.logs import read_log
from turnbuckle.questions.pool.slowdown import Tie
from turnbuckle.questions.pool.stream import MILLI, MOST_JOBS, Stream
from turnbuckle.trace.window import Part

DAY: Final = 86_400.0
_MIX: Final = ("days", "nodes", "jobs")
_JOBS: Final = ("every", "run_time", "spread", "gpus", "cores", "memory", "parts")
_TIES: Final = ("recording", "part", "curve", "slowdown", "bandwidth", "exposed", "moving")


@dataclass(frozen=True)
class Mix:
    """What a mix says.

    Attributes
    ----------
    stream : its jobs.
    nodes : the fixed nodes as it names them; empty where it does not.
    ties : what its classes slow down by.
    """

    stream: Stream
    nodes: str
    ties: Mapping[str, Tie]


@dataclass(frozen=True)
class _Class:
    every: float
    run_time: float
    spread: float | str
    parts: int
    cores: int
    gpus: int
    memory: int


def read_mix(path: Path, cores_per_gpu: int, resident: bool, seed: int) -> Mix:
    """Read a mix.

    Parameters
    ----------
    cores_per_gpu, resident : of a log that it names, as of `read_log`.
    seed : of the jobs that it declares.

    Raises
    ------
    UsageError : A061, A447, A452 with file:line:column.  UnitError : U0xx.
    """
    text = read_text(path, "the mix", largest_bytes=1 << 20, fix="give a TOML file in UTF-8")
    return _Reading(path, text).mix(cores_per_gpu, resident, seed)


def named_files(path: Path) -> list[Path]:
    """Return the log and the recordings that a mix names, unread.  Raises A061, A452."""
    return _Reading(
        path, read_text(path, "the mix", largest_bytes=1 << 20, fix="give a TOML file in UTF-8")
    ).files()


class _Reading(TomlReading):
    """One mix being read."""

    code = "A452"

    def __init__(self, path: Path, text: str) -> None:
        self.folder = path.parent
        super().__init__(path.name, text)

    def files(self) -> list[Path]:
        head, classes = (
            self._table((name,), self.document.get(name, {})) for name in ("mix", "classes")
        )
        recordings = [
            self._table(("classes", name), each).get("recording") for name, each in classes.items()
        ]
        return [
            self.folder / str(name) for name in (head.get("jobs"), *recordings) if name is not None
        ]

    def mix(self, cores_per_gpu: int, resident: bool, seed: int) -> Mix:
        self._keys((), self.document, ("mix", "classes"))
        head, classes = (
            self._table((name,), self.document.get(name, {})) for name in ("mix", "classes")
        )
        self._keys(("mix",), head, _MIX)
        nodes = head.get("nodes", "")
        if not isinstance(nodes, str):
            raise self._wrong(("mix", "nodes"), nodes, wanted="shapes as 64:4x16")
        log = head.get("jobs")
        legal = _TIES if log is not None else (*_JOBS, *_TIES)
        tables = {name: self._table(("classes", name), each) for name, each in classes.items()}
        for name, each in tables.items():
            self._keys(("classes", name), each, legal)
        ties = {
            name: self._tie(name, each)
            for name, each in tables.items()
            if any(key in each for key in _TIES)
        }
        if log is not None:
            return Mix(read_log(self.folder / str(log), cores_per_gpu, resident), nodes, ties)
        days = self._number(("mix", "days"), head.get("days"), 1e-3, 36_525)
        declared = {name: self._class(name, each) for name, each in tables.items()}
        jobs = sum(days * DAY / c.every for c in declared.values())
        if not declared or jobs > MOST_JOBS:
            raise error_of("A447.jobs", where=self.file, found=f"{jobs:,.0f}", most=MOST_JOBS)
        return Mix(_drawn(declared, days * DAY, seed), nodes, ties)

    def _class(self, name: str, given: Mapping[str, Any]) -> _Class:
        place = ("classes", name)
        every, run_time = (
            self._quantity((*place, key), given.get(key), "s", 1e-3, 1e10)
            for key in ("every", "run_time")
        )
        spread = given.get("spread", "exponential")
        if spread not in ("exponential", "fixed"):
            spread = self._number((*place, "spread"), spread, 0.0, 100.0)
        gpus = self._number((*place, "gpus"), given.get("gpus"), 0.0, 1e6)
        if gpus > 1 and gpus != int(gpus):
            raise self._wrong(
                (*place, "gpus"), gpus, wanted="a whole number of GPUs, or a share of one"
            )
        cores = self._number((*place, "cores"), given.get("cores", 1), 0.0, 1e6)
        parts = self._number((*place, "parts"), given.get("parts", 1), 1.0, 1e5)
        memory = (
            self._quantity((*place, "memory"), given.get("memory", "0 B"), "B", 0.0, 1e18) / 2**20
        )
        return _Class(
            every,
            run_time,
            spread,
            int(parts),
            round(cores * MILLI),
            round(gpus * MILLI),
            int(np.ceil(memory)),
        )

    def _tie(self, name: str, given: Mapping[str, Any]) -> Tie:
        place = ("classes", name)
        if sum(key in given for key in ("recording", "curve", "slowdown")) > 1:
            raise self._wrong(place, name, wanted="one of recording, curve and slowdown")
        bandwidth = (
            self._quantity((*place, "bandwidth"), given["bandwidth"], "B/s", 0.0, 1e15)
            if "bandwidth" in given
            else None
        )
        exposed, moving = (
            self._number((*place, k), given[k], 0.0, 1.0) if k in given else None
            for k in ("exposed", "moving")
        )
        span = self._pair((*place, "slowdown"), given["slowdown"]) if "slowdown" in given else None
        curve = self._curve((*place, "curve"), given["curve"]) if "curve" in given else ()
        run = self._run(place, given) if "recording" in given else None
        return Tie(
            run,
            curve,
            span,
            bandwidth,
            exposed,
            moving if moving is None or exposed is None else max(moving, exposed),
        )

    def _run(self, place: tuple[str, ...], given: Mapping[str, Any]) -> Run:
        part = str(given.get("part", "auto"))
        self._located((*place, "part"), lambda: Part.parse(part))
        return Run.read(self.folder / str(given["recording"]), part=part).judged

    def _pair(self, place: tuple[str, ...], given: object) -> tuple[float, float]:
        if not isinstance(given, list) or len(given) != 2:
            raise self._wrong(
                place,
                given,
                wanted="least and most run time over that on fixed nodes, as [1.0, 1.05]",
            )
        low, high = (self._number(place, each, 0.01, 1e6) for each in given)
        if low > high:
            raise self._wrong(place, given, wanted="the least before the most")
        return low, high

    def _curve(self, place: tuple[str, ...], given: object) -> Sequence[tuple[float, float]]:
        if (
            not isinstance(given, list)
            or not given
            or not all(isinstance(p, list) and len(p) == 2 for p in given)
        ):
            raise self._wrong(
                place,
                given,
                wanted='pairs of delay and run time, as [["1 us", 1.01], ["10 us", 1.2]]',
            )
        out = [
            (self._quantity(place, delay, "s", 1e-12, 10.0), self._number(place, ratio, 0.01, 1e6))
            for delay, ratio in given
        ]
        if [delay for delay, _ in out] != sorted({delay for delay, _ in out}):
            raise self._wrong(place, given, wanted="delays that rise")
        return out

    # --- values

    def _table(self, place: tuple[str, ...], given: object) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise self._wrong(place, given, wanted="a table")
        return given

    def _number(self, place: tuple[str, ...], given: object, least: float, most: float) -> float:
        if (
            isinstance(given, bool)
            or not isinstance(given, int | float)
            or not least <= given <= most
        ):
            raise self._wrong(place, given, wanted=f"a number from {least:g} to {most:g}")
        return float(given)

    def _quantity(
        self, place: tuple[str, ...], given: object, unit: str, least: float, most: float
    ) -> float:
        value = self._located(place, lambda: parse(str(given), unit))
        if not least <= value <= most:
            raise self._wrong(place, given, wanted=f"{least:g} to {most:g} {unit}")
        return value

    def _wrong(self, place: tuple[str, ...], given: object, wanted: str) -> TurnbuckleError:
        return self._flaw("A452.value", place, found=str(given), wanted=wanted)


def _drawn(declared: Mapping[str, _Class], seconds: float, seed: int) -> Stream:
    """Return jobs of each class: submitted at random at its rate, with run times that scatter as it
    says.
    """
    rows = []
    for k, each in enumerate(declared.values()):
        draw = np.random.Generator(np.random.Philox([seed, k]))
        count = int(draw.poisson(seconds / each.every))
        arrival = np.sort(draw.uniform(0.0, seconds, count))
        work = _run_times(each, count, draw)
        fixed = np.broadcast_to(
            np.array([each.parts, each.cores, each.gpus, each.memory, k], dtype=np.float64),
            (count, 5),
        )
        rows.append(np.column_stack([arrival, work, fixed]))
    numbers = np.concatenate(rows)
    arrival, work = numbers[:, 0], np.maximum(numbers[:, 1], 1e-3)
    parts, cores, gpus, memory, class_of = (numbers[:, k].astype(np.int64) for k in range(2, 7))
    again = partial(_drawn, declared, seconds)
    return Stream(
        "a declared mix",
        arrival,
        work,
        work,
        parts,
        cores,
        gpus,
        memory,
        class_of,
        tuple(declared),
        drawn=again,
    ).sorted()


def _run_times(each: _Class, count: int, draw: np.random.Generator) -> Float:
    if each.spread == "exponential":
        return draw.exponential(each.run_time, count)
    if each.spread == "fixed":
        return np.full(count, each.run_time)
    sigma = float(np.sqrt(np.log1p(float(each.spread) ** 2)))
    return draw.lognormal(np.log(each.run_time) - sigma**2 / 2, sigma, count)
