"""Predictions of the message replay beside MPI runs whose messages were really delayed.

A prediction is the measured run time without delay, plus the increase in the replay of an undelayed
recording when the latency of the network grows by the delay.  The network's parameters are fitted
to the undelayed recording of a ping-pong alone.

Recordings stand in one folder: a folder for each program, in it a text file for each rank
(``rank-0.txt``, packed or not).  A file of measurements is JSON, times in seconds unless a name
says otherwise::

    {"most_bytes": 131072,                                         no message is longer, and all of them leave at once
     "programs": {"halo": {"recorded_s": 0.096}},                  run time of the recording
     "points": [{"program": "halo", "delay_ns": 0, "seconds": [0.096, 0.095]},
                {"program": "halo", "delay_ns": 30000, "waited_ns": 30400, "seconds": [0.12, 0.13]}]}

`delay_ns` is the delay that was set.  `waited_ns`, which is optional, is the mean delay of the
receives that had to wait: the set delay and the time by which they went on later than due.  The
prediction is for `waited_ns`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.mpi.questions.messages.question import replayed
from turnbuckle.mpi.questions.messages.setup import Setup
from turnbuckle.mpi.replay.messages import Traffic, recorded
from turnbuckle.mpi.replay.program import all_messages
from turnbuckle.profile.profile import build
from turnbuckle.questions.distance.question import around
from turnbuckle.questions.validate.cases import Ask, Case
from turnbuckle.questions.validate.measured.measurements import read_measurements
from turnbuckle.questions.validate.rows import Data, Row
from turnbuckle.replay.contention.contention import Fidelity
from turnbuckle.trace import Trace, read

#: Fidelity whose results the accuracy card holds.
MODEL: Final[Fidelity] = "logp"
#: Baselines: the undelayed run, and the undelayed run plus one delay for each message that the
#: busiest rank receives.
BASELINES: Final = ("nothing", "count")
#: Bandwidth of a link that limits nothing [B/s].
UNLIMITED: Final = 1e15
#: Form of a file of measurements.
FORM: Final = {
    "most_bytes": float,
    "programs": {"*": {"recorded_s": float}},
    "points": [{"program": str, "delay_ns": int, "waited_ns?": float, "seconds": [float]}],
}


@dataclass(frozen=True)
class Point:
    """Measured and predicted run time at one delay of one program."""

    program: str
    delay_ns: (
        int  #: delay that was set; predictions are for the mean delay that messages really had [ns]
    )
    #: seconds, undelayed: run times with the delay, and without any [s]
    seconds: tuple[float, ...]
    undelayed: tuple[float, ...]
    predicted: Mapping[str, float]  #: run time [s] by fidelity of the replay, and by `BASELINES`

    @property
    def measured(self) -> float:
        """Return the median of the run times [s]."""
        return statistics.median(self.seconds)

    @property
    def base(self) -> float:
        """Return the median of the run times without delay [s]."""
        return statistics.median(self.undelayed)

    def interval(self, model: str = MODEL) -> tuple[float, float]:
        """Return the 90 % interval [s] of the median of the runs, from the spread of the undelayed
        runs.
        """
        return around(self.predicted[model], self.base, self.undelayed, len(self.seconds))

    def off(self, model: str = MODEL) -> float:
        """Return the predicted over the measured run time, less 1."""
        return self.predicted[model] / self.measured - 1.0

    def added_off(self, model: str = MODEL) -> float:
        """Return the predicted less the measured run time, as a share of the increase by the
        delay.
        """
        return (self.predicted[model] - self.measured) / (self.measured - self.base)


@dataclass(frozen=True)
class Program:
    """Measurements and predictions of one program."""

    name: str
    recorded: float  #: run time of the recording [s]
    replayed: Mapping[Fidelity, float]  #: run time of its replay without delay [s], by fidelity
    messages: int  #: number of messages that the busiest rank receives
    unmatched: int  #: number of calls whose other side the recording does not hold
    undelayed: tuple[float, ...]  #: run times without delay [s]
    points: tuple[Point, ...]


def calibrated(trace: Trace, most_bytes: float) -> Setup:
    """Fit the network's parameters to an undelayed ping-pong: straight lines through its shortest
    and its longest messages.

    Raises A192 where the first two ranks do not exchange messages of several sizes.

    A send occupies its processor for o + n O, and so does a receive; the rest of the time from the
    begin of the send to the end of the receive is L + n G.

    Parameters
    ----------
    most_bytes : no message is longer, and all of them leave at once.
    """
    mpi = (
        trace.mpi.with_columns(text=trace.text(trace.mpi))
        .join(trace.mpi_ranks, on="thread")
        .sort("start_ns")
    )
    send, receive = (
        mpi.filter(rank=rank, text=name) for rank, name in ((0, "MPI_Send"), (1, "MPI_Recv"))
    )
    if send.height != receive.height or send["size_bytes"].n_unique() < 2:
        raise error_of(
            "A192.sizes",
            where=trace.name,
            found=f"{send.height} sends of rank 0, {receive.height} receives of rank 1",
        )
    size = send["size_bytes"].to_numpy()
    sending = (send["end_ns"] - send["start_ns"]).to_numpy() * 1e-9
    whole = (receive["end_ns"].to_numpy() - send["start_ns"].to_numpy()) * 1e-9
    ends = [int(size.min()), int(size.max())]
    (short_sending, long_sending), (short, long) = (
        [float(np.median(times[size == n])) for n in ends] for times in (sending, whole)
    )
    span = ends[1] - ends[0]
    overhead_per_byte = max(long_sending - short_sending, 0.0) / span
    per_byte = max((long - short) / span - 2 * overhead_per_byte, 0.0)
    overhead = min(short_sending - ends[0] * overhead_per_byte, short / 2)
    latency = max(short - 2 * (overhead + ends[0] * overhead_per_byte) - ends[0] * per_byte, 0.0)
    overhead_bandwidth = 1 / overhead_per_byte if overhead_per_byte else 0.0
    setup = Setup(
        path="host",
        ranks_per_node=1,
        hop_seconds=latency / 2,
        overhead_seconds=overhead,
        eager_limit_bytes=most_bytes,
    )
    return replace(
        setup,
        overhead_bandwidth=overhead_bandwidth,
        card_bandwidth=1 / max(per_byte, 1 / UNLIMITED),
    )


def run_time(traffic: Traffic, setup: Setup, fidelity: Fidelity, delay_ns: float) -> float:
    """Return the replayed run time on the network of a setup whose latency is longer by the delay;
    two links lie between two ranks [s].
    """
    far = replace(
        setup, fidelity=fidelity, hop_seconds=(setup.hop_seconds or 0.0) + delay_ns * 1e-9 / 2
    )
    return replayed(traffic, far, followed=False).row.seconds


def most_messages(traffic: Traffic) -> int:
    """Count the messages that reach the rank that gets most of them, those of collectives among
    them.
    """
    messages, _ = all_messages(traffic)
    return int(np.bincount(traffic.rank[messages.receive]).max())


def programs(
    measurements: Mapping[str, Any],
    recordings: Path,
    network: str,
    fidelities: Sequence[Fidelity] = (MODEL,),
) -> tuple[Setup, list[Program]]:
    """Predict every point of measurements.  Raises A192 where a program has no recording or no
    points, or `network` is no ping-pong.

    Parameters
    ----------
    recordings : folder of a folder for each program.
    network : the ping-pong program to whose recording the network's parameters are fitted.

    Returns the network, and the programs in the order of the file.
    """
    # Only folders that exist are read, so a name in the measurements cannot lead outside the
    # recordings.
    places = {place.parent.name: place for place in sorted(recordings.glob("*/rank-0.txt*"))}

    def recording(name: str) -> Trace:
        if name not in places:
            raise error_of("A192.program", where=recordings.name, found=clipped(name))
        return read(places[name], use_cache=False)

    setup = calibrated(recording(network), measurements["most_bytes"])
    return setup, [
        _program(
            name,
            about["recorded_s"],
            measurements["points"],
            recorded(build(recording(name))),
            setup,
            fidelities,
        )
        for name, about in measurements["programs"].items()
    ]


def _program(
    name: str,
    seconds: float,
    measured: Sequence[Mapping[str, Any]],
    traffic: Traffic,
    setup: Setup,
    fidelities: Sequence[Fidelity],
) -> Program:
    """Predict the points of one program from its recording, of which `seconds` is the run time."""
    times = {
        p["delay_ns"]: tuple(p["seconds"])
        for p in measured
        if p["program"] == name and p["seconds"]
    }
    waited = {
        p["delay_ns"]: float(p.get("waited_ns", p["delay_ns"]))
        for p in measured
        if p["program"] == name
    }
    undelayed = times.pop(0, ())
    if len(undelayed) < 2 or not times:
        raise error_of(
            "A192.delays",
            where=clipped(name),
            found=f"{len(undelayed)} runs without delay, {len(times)} delays",
        )
    near = {fidelity: run_time(traffic, setup, fidelity, 0) for fidelity in fidelities}
    count, base = most_messages(traffic), statistics.median(undelayed)
    points = []
    for delay, delayed in times.items():
        predicted = {
            str(f): base + run_time(traffic, setup, f, waited[delay]) - near[f] for f in fidelities
        }
        predicted |= {"nothing": base, "count": base + count * waited[delay] * 1e-9}
        points.append(Point(name, delay, delayed, undelayed, predicted))
    return Program(name, seconds, near, count, traffic.unmatched, undelayed, tuple(points))


def words(delay_ns: int) -> str:
    """Write a delay with its unit."""
    return f"{delay_ns / 1e6:g} ms" if delay_ns >= 1_000_000 else f"{delay_ns / 1e3:g} us"


def delayed_messages(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Predict A's runs with delayed messages: every point by the replay, and the baselines as one
    line for each program.
    """
    measurements = read_measurements(data.path(case, question.text("measured")), FORM)
    _, measured = programs(measurements, data.path(case, case.a.file), question.text("network"))
    if not measured:
        raise error_of("A192.points", where=case.name)
    for program in measured:
        for p in program.points:
            quantity = f"{p.program}, messages {words(p.delay_ns)} later"
            yield Row(
                case.name,
                "message delay",
                MODEL,
                quantity,
                "s",
                p.predicted[MODEL],
                p.measured,
                *p.interval(),
                count=len(p.seconds),
            )
    for program in measured:
        for model in BASELINES:
            yield _together(case.name, model, program)


def _together(case: str, model: str, program: Program) -> Row:
    """Add up the points of a program."""
    measured = sum(p.measured for p in program.points)
    predicted = sum(p.predicted[model] for p in program.points)
    off = sum(abs(p.predicted[model] - p.measured) for p in program.points) / measured
    count = len(program.points)
    return Row(
        case,
        "message delay",
        model,
        f"{program.name}, all points",
        "s",
        predicted,
        measured,
        wmape=off,
        count=count,
    )
