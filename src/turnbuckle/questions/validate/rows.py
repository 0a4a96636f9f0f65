"""One quantity of a validation case, predicted and measured, and the files that cases are made
from, each read once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import polars as pl

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.files import opened
from turnbuckle.machine import Machine
from turnbuckle.machine.measured.logs import LARGEST_BYTES, format_of, read_measured, split_part
from turnbuckle.profile.profile import Profile
from turnbuckle.projection.run import Run
from turnbuckle.projection.uncertainty import LEVEL
from turnbuckle.questions.transfers.question import Transfers, measured, recorded
from turnbuckle.questions.validate.cases import Case, Side
from turnbuckle.questions.validate.variants import Part, cut, prepare
from turnbuckle.trace.read import read

#: Kinds of question, in the order of the card; words for people stand in
#: `turnbuckle.questions.validate.card`.
_OF_RUNS: Final = (
    "run time",
    "slack",
    "distance",
    "bandwidth",
    "tolerance",
    "remoting",
    "message delay",
    "sharing",
    "transfers",
)
_OF_PARTS: Final = (
    "pageable",
    "migrations",
    "messages",
    "rates",
    "launches",
    "launch counts",
    "kernels",
    "kernel pairs",
    "collectives",
)
KINDS: Final = (*_OF_RUNS, *_OF_PARTS, "tables", "replay", "variants", "ranking", "noise")
#: Kinds whose values are ratios of two machines: above 1 one of them is faster, below it the other.
RATIOS: Final = ("kernels", "kernel pairs", "collectives", "tables")
_POINTS: Final = {
    "direction": pl.String,
    "memory": pl.String,
    "size_bytes": pl.Float64,
    "seconds": pl.Float64,
}


@dataclass(frozen=True)
class Row:
    """One quantity, predicted and measured.

    Attributes
    ----------
    case, kind, model, quantity : where it belongs and what it is.
    unit : of the values; empty for counts and ratios.
    predicted, measured : values; None for an order.
    low, high : the prediction's 90 % interval; None where the model states none.
    wmape : share of the measured time by which single activities are off, added up without sign;
        None where there is one value.
    count : activities, points or runs behind it.
    size_bytes : bytes behind a time of copies [B]; 0 otherwise.
    tau, p_value : of an order.
    """

    case: str
    kind: str
    model: str
    quantity: str
    unit: str
    predicted: float | None
    measured: float | None
    low: float | None = None
    high: float | None = None
    wmape: float | None = None
    count: int = 1
    size_bytes: float = 0.0
    tau: float | None = None
    p_value: float | None = None

    @property
    def error(self) -> float | None:
        """Return predicted over measured, less 1."""
        if self.predicted is None or not self.measured:
            return None
        return self.predicted / self.measured - 1.0

    @property
    def off(self) -> float | None:
        """Return the error without its sign: WMAPE for many activities, else the relative error."""
        return (
            self.wmape
            if self.wmape is not None
            else None
            if self.error is None
            else abs(self.error)
        )

    @property
    def score(self) -> float | None:
        """Return the interval score over the measured value (Gneiting and Raftery 2007, eq 43),
        smaller is better.

        A value without an interval counts as one of no width, so that a model and what it is
        compared with have one scale.
        """
        if self.predicted is None or not self.measured:
            return None
        low, high = (self.predicted if end is None else end for end in (self.low, self.high))
        missed = max(low - self.measured, self.measured - high, 0.0)
        return (high - low + 2.0 / (1.0 - LEVEL) * missed) / abs(self.measured)

    @property
    def direction(self) -> bool | None:
        """Return whether a ratio is predicted on the side of 1 that it was measured on; None for
        other values, and where either is 1.
        """
        if (
            self.kind not in RATIOS
            or not self.predicted
            or not self.measured
            or 1.0 in (self.predicted, self.measured)
        ):
            return None
        return (self.predicted > 1.0) == (self.measured > 1.0)

    @property
    def covered(self) -> bool | None:
        """Return whether the interval holds the measured value; None without an interval."""
        if self.low is None or self.high is None or self.measured is None:
            return None
        return self.low <= self.measured <= self.high


class Data:
    """The files of the cases, each read once."""

    def __init__(self, root: Path | None) -> None:
        self.root = root
        self._profiles: dict[tuple[Path, str], Profile] = {}
        self.seen = cache(self._seen)
        self.transfers = cache(self._transfers)
        self.points = cache(self._points)
        self.gpu_part = cache(self._gpu_part)

    def path(self, case: Case, file: str) -> Path:
        """Return the path of a file.

        Raise CannotAnswer A192 if the case names none.
        """
        place = case.place(file, self.root) if file else None
        if place is None:
            raise error_of("A192.file", where=case.name)
        return place

    def _seen(self, path: Path, machine: str, part: str = "") -> Run:
        if (path, part) in self._profiles:  # only said to be of another machine
            return Run.of(self._profiles[path, part], source=machine or None)
        run = Run.read(path, source=machine or None, use_cache=False, part=part or "whole")
        self._profiles[path, part] = run.profile
        return run

    def _gpu_part(self, path: Path, phase: int | None) -> Part:
        """Return the part of a recording that uses the GPU, or one phase of it.  Raises ValueError
        where there is none.
        """
        return prepare(cut(read(path, use_cache=False), phase))

    def side(self, case: Case, side: Side) -> Run:
        """Return the run at one end of a case, as `path` finds it."""
        return self.seen(self.path(case, side.file), side.machine, side.part)

    def _transfers(
        self, path: Path, machine: str, copied_size: float | None
    ) -> tuple[Transfers, Machine | None]:
        """Return the copies of a recording or of measured curves, depending on the content of the
        file.
        """
        if self._measured(path):
            return measured(read_measured(path, size_bytes=copied_size)), None
        seen = self.seen(path, machine)
        return recorded(seen), seen.source

    def _measured(self, path: Path) -> bool:
        place, _ = split_part(path)
        if not place.is_file() or place.stat().st_size > LARGEST_BYTES:
            return False
        with opened(place) as file:
            raw = file.read()
        return (
            b"\x00" not in raw[:4096]
            and not raw.startswith(b"\x1f\x8b")
            and format_of(raw.decode("utf-8", "replace")) is not None
        )

    def _points(self, path: Path) -> pl.DataFrame:
        """Return direction, memory, size [B] and time [s] of every copy, migration, measured point,
        or turn of a ping-pong.
        """
        if self._measured(path):
            parts = [
                pl.DataFrame(
                    {
                        "direction": c.direction,
                        "memory": c.memory,
                        "size_bytes": c.size_bytes,
                        "seconds": c.seconds,
                    },
                    schema=_POINTS,
                )
                for c in read_measured(path).curves
            ]
            return pl.concat(parts)
        profile = self.seen(path, "").profile
        if profile.trace.mpi.height and not profile.trace.copies.height:
            return ping_pong(profile)
        moved = pl.col("kind").cast(pl.String).str.starts_with("copy_") | (
            pl.col("kind") == "migration"
        )
        moves = profile.activities.filter(
            moved & (pl.col("size_bytes") > 0) & (pl.col("seconds") > 0)
        ).sort("start_ns")
        memory, size = (
            pl.col("memory").cast(pl.String).fill_null("unknown"),
            pl.col("size_bytes").cast(pl.Float64),
        )
        return moves.select(pl.col("direction").cast(pl.String), memory, size, "seconds")


def ping_pong(profile: Profile) -> pl.DataFrame:
    """Return half the time from each send of the first rank to the end of its answer: one way of a
    ping-pong.

    The answer is the receive of as many bytes right after the send.

    Raises
    ------
    CannotAnswer : A192 where no send is answered so.
    """
    calls = profile.trace.mpi
    names = profile.trace.text(calls).to_list()
    frame = calls.with_columns(called=pl.Series([(n or "").removeprefix("P") for n in names])).sort(
        "start_ns"
    )
    first = frame.filter(pl.col("thread") == frame["thread"].min())
    turn = first.with_columns(
        then=pl.col("called").shift(-1),
        then_bytes=pl.coalesce("receive_bytes", "size_bytes").shift(-1),
        returned_ns=pl.col("end_ns").shift(-1),
    )
    pairs = turn.filter(
        (pl.col("called") == "MPI_Send")
        & (pl.col("then") == "MPI_Recv")
        & (pl.col("size_bytes") == pl.col("then_bytes"))
    )
    if not pairs.height:
        raise error_of(
            "A192.ping-pong", where=profile.trace.name, found=f"{calls.height} MPI calls"
        )
    half = (pl.col("returned_ns") - pl.col("start_ns")) * 0.5e-9
    size = pl.col("size_bytes").cast(pl.Float64)
    halves = pairs.select(
        direction=pl.lit("h2h"), memory=pl.lit("unknown"), size_bytes=size, seconds=half
    )
    return halves.filter(pl.col("size_bytes") > 0)
