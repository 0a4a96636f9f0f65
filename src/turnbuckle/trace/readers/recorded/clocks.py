"""Alignment of an OpenCL device's clock with the host's, where the device is on another machine.

The recorder puts the profile of each command on the host's clock at once, and assumes that a
command is queued before its call returns (``opencl/commands.c``).  A runtime on another machine
reports "queued" when the command has arrived there, so that the recorder's offset wanders with the
length of the queue.  Two facts hold for any device.  A command is queued no earlier than its call
began.  It has ended by the first instant at which the host knew so: the return of a blocking call,
or of a wait for the command or for a later one in its queue. Where recorded times contradict this,
the recorder's offsets are removed, and one straight line puts the device's clock on the host's: the
middle of what all bounds allow at the first and at the last instant.  Kinds of commands without a
common line get one each, because some runtimes stamp copies on the device on the host.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.foundation.files import opened
from turnbuckle.trace.readers.recorded.text import Recorded

#: Error that the recorder's own bounds leave on a device of the same machine [ns].
TOLERANCE_NS: Final = 10_000
#: Share of a device's commands that may contradict their bounds, each for a reason of its own.
_BROKEN: Final = 0.01
#: Largest difference in speed between a device's clock and the host's [1].
FASTEST: Final = 200e-6
_STEPS: Final = 100
_FAR: Final = 1 << 60
_LETTERS: Final = "KCS"
_ON_EVENT, _ON_STREAM = 1, 3
_FACT: Final = re.compile(rb"#deviceclock (\d{1,9}) -?\d{1,18} (-?\d{1,18}) ")
_TIMES: Final = ("queued", "start", "end")


@dataclass(frozen=True)
class Line:
    """What to add to times of a device's clock to have the host's [ns]: a straight line over the
    device's instants `begin` to `end`.
    """

    begin: int
    end: int
    base: int  #: what to add everywhere, whole ns
    #: first, last: what to add besides, at `begin` and at `end`
    first: float
    last: float
    #: largest possible error, half of the interval between the bounds; None where one side is open
    half: float | None
    #: by how much all bounds were loosened, twice what lets a line through; 0 where they agree
    short: float

    def add(self, times: Int) -> Int:
        """Return what to add at each of `times` [ns]."""
        along = (times - self.begin) / max(self.end - self.begin, 1)
        added: Int = self.base + np.rint(self.first + (self.last - self.first) * along).astype(
            np.int64
        )
        return added

    @property
    def drift(self) -> float:
        """Return by how much the device's clock runs faster than the host's [1]."""
        return (self.first - self.last) / max(self.end - self.begin, 1)


def line(low_at: Int, low: Int, high_at: Int, high: Int) -> Line:
    """Return the straight line in the middle of bounds.

    Of all lines between the bounds that rise or fall by `FASTEST` at most, the extremes at the
    first and at the last instant are found; the line goes through the middle of each.  It holds all
    bounds too, and is off by half the distance of the extremes at most. Where no line holds all
    bounds, they are loosened alike, by as much as lets one through and as much again.

    Parameters
    ----------
    low_at, low : instants of the device's clock, at least one, and the least shift there [ns].
    high_at, high : other instants, and the largest shift there [ns]; without any, the shift is the
        least that the others allow.
    """
    begin, end = (int(f(np.concatenate([low_at, high_at]))) for f in (np.min, np.max))
    # relative to one of them, so that a float holds every nanosecond
    base = int(low[0])
    if not high.size:
        most = float(low.max() - base)
        return Line(begin, end, base, most, most, None, 0.0)
    span = max(end - begin, 1)
    steepest = FASTEST * span
    # times are whole ns
    below_at, below = _outer(
        ((low_at - begin) / span).astype(np.float64),
        (low - base).astype(np.float64) - 1.0,
        steepest,
    )
    above_at, above = _outer(
        ((high_at - begin) / span).astype(np.float64),
        (base - high).astype(np.float64) - 1.0,
        steepest,
    )
    above = -above

    def room(slope: float) -> float:
        return float((above - slope * above_at).min() - (below - slope * below_at).max())

    left, right = -steepest, steepest
    for _ in range(_STEPS):
        third = (right - left) / 3
        if room(left + third) < room(right - third):
            left += third
        else:
            right -= third
    best = (left + right) / 2
    loose = max(0.0, -room(best))
    # the slopes between which lines hold all bounds, and so the ends of such lines
    lowest, highest = (_edge(room, best, outer, -2 * loose) for outer in (-steepest, steepest))
    first = (
        float((below - highest * below_at).max()) - loose,
        float((above - lowest * above_at).min()) + loose,
    )
    last = (
        float((below + lowest * (1 - below_at)).max()) - loose,
        float((above + highest * (1 - above_at)).min()) + loose,
    )
    half = max(first[1] - first[0], last[1] - last[0]) / 2
    return Line(begin, end, base, sum(first) / 2, sum(last) / 2, half, loose)


def _outer(instants: Float, values: Float, steepest: float) -> tuple[Float, Float]:
    """Return lower bounds without those that another implies for every slope up to `steepest`."""
    order = np.argsort(instants, kind="stable")
    instants, values = instants[order], values[order]
    rising, falling = values + steepest * instants, (values - steepest * instants)[::-1]
    kept = (rising >= np.maximum.accumulate(rising)) & (falling >= np.maximum.accumulate(falling))[
        ::-1
    ]
    return instants[kept], values[kept]


def _edge(room: Callable[[float], float], inside: float, outer: float, least: float) -> float:
    """Return the slope farthest from `inside` towards `outer` that leaves as much room as
    `least`.
    """
    if room(outer) >= least:
        return outer
    for _ in range(_STEPS):
        middle = (inside + outer) / 2
        if room(middle) >= least:
            inside = middle
        else:
            outer = middle
    return inside


def aligned(file: Recorded) -> tuple[int, list[str]]:
    """Put commands of OpenCL devices on the host's clock, where their bounds contradict the
    recorded times.

    Returns the number of moved commands, and a description of each clock.
    """
    if file.last("api") != "opencl":
        return 0, []
    commands = _commands(file)
    by_commands = [
        int(fact.split(" ")[0])
        for fact in file.facts.get("deviceclock", [])
        if re.fullmatch(r"\d{1,9} .* commands", fact)
    ]
    early, late = (
        pl.col("called") - pl.col("queued") > TOLERANCE_NS,
        pl.col("end") - pl.col("done") > TOLERANCE_NS,
    )
    # Where the commands were the recorder's only clock, its offset is no better than theirs.
    elsewhere = pl.col("dev").is_in(pl.Series(by_commands, dtype=pl.Int64).implode()) & (
        pl.col("queued") - pl.col("returned") > TOLERANCE_NS
    )
    share = (early | late.fill_null(False) | elsewhere).mean()
    broken = (
        commands.group_by("dev")
        .agg(share=share)
        .filter(pl.col("share") > _BROKEN)["dev"]
        .sort()
        .to_list()
    )
    if not broken:
        return 0, []
    moved, words = [], []
    for device in broken:
        for clock, fit in _clocks(_undone(file, commands.filter(pl.col("dev") == device))):
            moved.append(
                clock.with_columns(
                    clock[name] + fit.add(clock[name].to_numpy()) for name in ("start", "end")
                )
            )
            words.append(_words(device, clock.height, fit))
    whole = pl.concat(moved)
    _put(file, whole)
    return whole.height, words


def _command_rows(file: Recorded, letter: str) -> pl.DataFrame:
    kind = pl.col("what") if letter == "C" else pl.lit(None, pl.Int64)
    made = {
        "letter": pl.lit(letter),
        "row": pl.int_range(pl.len()),
        "kind": kind,
        "queued": pl.coalesce("queued", "start"),
    }
    return file.table(letter).select("corr", "dev", "stream", "start", "end", **made)


def _commands(file: Recorded) -> pl.DataFrame:
    """Return commands whose call is recorded: place in the file, device, times, and when the host
    knew of their end (null: never).
    """
    commands = pl.concat(_command_rows(file, letter) for letter in _LETTERS)
    calls = file.table("A").select("corr", "name", "ret", called="start", returned="end")
    calls = calls.filter(
        pl.col("called").is_between(1, _FAR), pl.col("returned").is_between(1, _FAR)
    ).unique("corr", keep="first")
    # a failed call did not wait
    good = calls.filter(pl.col("ret").fill_null(0) == 0)
    waits = (
        file.table("Y")
        .filter(pl.col("end").is_between(1, _FAR))
        .join(good.select("corr"), on="corr", how="semi")
    )
    blocking = [number for number, text in file.names.items() if text.endswith(" (blocking)")]
    returned = good.filter(
        pl.col("name").is_in(pl.Series(blocking, dtype=pl.Int64).implode())
    ).select("corr", done="returned")
    waited = waits.filter(pl.col("what") == _ON_EVENT).select(corr="event", done="end")
    done = pl.concat([returned, waited]).group_by("corr").agg(pl.col("done").min())
    # markers and barriers are in a queue too; they are recorded as events
    queue = pl.concat(
        [commands.select("corr", "stream"), file.table("E").select("corr", "stream")]
    ).unique("corr", keep="first")
    queue = (
        queue.join(calls, on="corr")
        .join(done, on="corr")
        .select("stream", called="called", later="done")
    )
    finished = waits.filter(pl.col("what") == _ON_STREAM).select(
        "stream", called="start", later="end"
    )
    queue = (
        pl.concat([queue, finished])
        .drop_nulls()
        .sort("called")
        .with_columns(pl.col("later").cum_min(reverse=True).over("stream"))
    )
    near = [pl.col(name).is_between(-_FAR, _FAR) for name in ("dev", *_TIMES)]
    out = (
        commands.filter(*near)
        .join(calls, on="corr")
        .join(done, on="corr", how="left")
        .sort("returned")
    )
    # a command called after this call returned is behind it in the queue
    out = out.join_asof(
        queue,
        left_on="returned",
        right_on="called",
        by="stream",
        strategy="forward",
        check_sortedness=False,
    )
    return out.select(
        "letter",
        "row",
        "dev",
        "kind",
        *_TIMES,
        "called",
        "returned",
        done=pl.min_horizontal("done", "later"),
    )


def _undone(file: Recorded, commands: pl.DataFrame) -> pl.DataFrame:
    """Return the commands with the device's own times, without the recorder's offsets, which the
    file states before the rows.
    """
    offsets: list[tuple[str, int, int, int]] = []
    rows = dict.fromkeys(_LETTERS, 0)
    with opened(file.path) as lines:
        for text in lines:
            letter = chr(text[0])
            if letter in rows:
                rows[letter] += text.endswith(b"\n")
            elif match := _FACT.match(text):
                offsets += [
                    (letter, count, int(match[1]), int(match[2])) for letter, count in rows.items()
                ]
    if any(count != file.table(letter).height for letter, count in rows.items()):
        return commands  # with broken lines the row of an offset is unknown
    schema = {"letter": pl.String, "row": pl.Int64, "dev": pl.Int64, "less": pl.Int64}
    table = pl.DataFrame(offsets, schema=schema, orient="row").sort("row", maintain_order=True)
    out = commands.sort("row").join_asof(
        table, on="row", by=["letter", "dev"], strategy="backward", check_sortedness=False
    )
    return out.with_columns(pl.col(name) + pl.col("less").fill_null(0) for name in _TIMES).drop(
        "less"
    )


def _clocks(commands: pl.DataFrame) -> list[tuple[pl.DataFrame, Line]]:
    """Return the commands of a device by the clock that stamped them, each with its line; a kind
    joins the first clock that it fits.
    """
    out: list[tuple[pl.DataFrame, Line]] = []
    for kind in sorted(
        commands.partition_by("letter", "kind", maintain_order=True), key=lambda kind: -kind.height
    ):
        alone = _line(kind)
        for place, (clock, fit) in enumerate(out):
            joined = pl.concat([clock, kind])
            common = _line(joined)
            if common.short <= max(alone.short, fit.short) + TOLERANCE_NS:
                out[place] = joined, common
                break
        else:
            out.append((kind, alone))
    return out


def _line(commands: pl.DataFrame) -> Line:
    ended = commands.drop_nulls("done")
    queued, called = commands["queued"].to_numpy(), commands["called"].to_numpy()
    end, done = ended["end"].to_numpy(), ended["done"].to_numpy()
    return line(queued, called - queued, end, done - end)


def _put(file: Recorded, commands: pl.DataFrame) -> None:
    """Give commands their new times."""
    for (letter,), moved in commands.group_by("letter"):
        table = file.table(str(letter))
        file.rows[str(letter)] = [
            table.with_columns(
                table[name].scatter(moved["row"], moved[name]) for name in ("start", "end")
            )
        ]


def _words(device: int, commands: int, fit: Line) -> str:
    """Describe a clock in one line."""
    ahead = -(fit.base + fit.first)
    within = (
        "bounded from one side only" if fit.half is None else f"within {fit.half / 1e3:,.1f} us"
    )
    short = (
        f", with bounds that contradict each other by {fit.short / 1e3:,.1f} us"
        if fit.short >= 1
        else ""
    )
    return (
        f"device {device}, {commands:,} commands: clock {ahead / 1e6:+,.3f} ms from the host's "
        f"{within}, "
        f"drift {fit.drift * 1e6:+.1f} ppm{short}"
    )
