"""Kind of sweep that replays the messages of an MPI run, with one `Setup` per point, for a
recording or a schedule.

A068  a schedule without the speed of a rank
A069  a speed for a recording or a GOAL schedule, which have durations of their own
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, get_args

from turnbuckle.foundation.errors import UsageError, clipped, did_you_mean, error_of
from turnbuckle.machine import Machine
from turnbuckle.mpi import schedules
from turnbuckle.mpi.questions.messages.question import Recorded, replayed
from turnbuckle.mpi.questions.messages.setup import Setup, checked, driving
from turnbuckle.mpi.replay.compute_rules import with_rules
from turnbuckle.mpi.replay.extrapolate import described, grid_of, larger, repeated
from turnbuckle.mpi.replay.messages import Traffic, recorded
from turnbuckle.mpi.replay.placement import Kind as Placement
from turnbuckle.projection.elsewhere.network import OBSERVED
from turnbuckle.projection.run import Run
from turnbuckle.questions.sweep.points import Held, Kind, hashed
from turnbuckle.replay.contention.network_file import read_network
from turnbuckle.trace.window import Part


@dataclass(frozen=True)
class Exchange(Setup):
    """Settings of a replay, and the speed of the ranks of a schedule.

    Attributes
    ----------
    flops_per_second : speed of each rank, for schedules that count work in flops [FLOP/s];
        recordings and GOAL hold times instead.
    part : what is asked about of a recording: auto, whole, steady, kernels, 2s..3s, step=5-9 or
        nvtx=NAME.
    source_network : network of the recording, by name or file; empty fits it to the recording's
        messages.
    """

    flops_per_second: float | None = field(default=None, metadata={"unit": "FLOP/s"})
    part: str = "auto"
    source_network: str = field(default="", metadata={"file": True})

    def __post_init__(self) -> None:
        """Refuse values that are impossible for every recording and every other setting."""
        Part.parse(self.part)
        for setting in fields(self):
            value = getattr(self, setting.name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                _possible(setting.name, value)
        if isinstance(self.network, Machine):
            read_network(self.network)
        elif self.network not in ("", OBSERVED) and not self.network.endswith((".toml", ".xml")):
            _possible("network", self.network)
        if self.mapping not in _MAPPINGS and not _file(self.mapping):
            raise error_of(
                "A081.mapping",
                found=clipped(self.mapping, 40),
                fix=did_you_mean(self.mapping, _MAPPINGS) or None,
                mappings=", ".join(_MAPPINGS),
            )


_MAPPINGS: Final = tuple(word for word in get_args(Placement) if word != "file")


def _file(name: str) -> bool:
    return "/" in name or Path(name).suffix != ""


@lru_cache(maxsize=4096)
def _possible(name: str, value: float | str) -> None:
    """Refuse a value that is impossible whatever the other settings are."""
    if name == "part":
        return
    if name == "flops_per_second":
        if not isinstance(value, str) and value <= 0:
            raise error_of("A081.speed", found=f"{value:g} FLOP/s")
    elif name == "network":
        read_network(str(value))
    else:
        try:
            checked(replace(Setup(), **{name: value}))  # type: ignore[arg-type]
        except UsageError as error:
            # and not two settings that do not go together
            if error.found.startswith(f"{name} of "):
                raise


def traffic_of(given: Path | Run, *, flops_per_second: float | None = None) -> Traffic:
    """Return the traffic of a recording or of a schedule.

    Raises A068, A069; A077 to A079, an impossible schedule; P0xx; A164.

    Parameters
    ----------
    given : a schedule, a recording, or one that was read.
    flops_per_second : speed of each rank [FLOP/s]; needed for a time-independent trace, refused for
        recordings and GOAL.
    """
    schedule = given if isinstance(given, Path) and schedules.sniff(given) else None
    counts_flops = schedule is not None and not schedules.timed(schedule)
    if counts_flops and flops_per_second is None:
        raise error_of("A068", where=given.name, found="no flops_per_second")
    if flops_per_second is not None and not counts_flops:
        raise error_of("A069.speed", where=given.name, found=f"{flops_per_second:g} FLOP/s")
    if schedule is not None:
        return schedules.read(schedule, flops_per_second=flops_per_second)
    return recorded(given.profile if isinstance(given, Run) else Held(given).profile())


def _exchanged(held: Held, asked: Exchange) -> Mapping[str, Any]:
    """Return the row of one point of the sweep."""
    # A sweep may mix schedules and recordings, and the speed applies only to schedules that count
    # flops.
    schedule, timed = held.once(
        "schedule", lambda: (schedules.sniff(held.path), schedules.timed(held.path))
    )
    if schedule and asked.part not in ("auto", "whole"):
        raise error_of("A069.part", where=held.path.name, found=f"part {clipped(asked.part, 40)}")
    speed = asked.flops_per_second if schedule and not timed else None
    run: tuple[object, ...] = (speed, asked.part)
    recording = (
        None
        if schedule
        else held.once(
            ("timeline", asked.part, asked.source_network), lambda: _recording(held, asked)
        )
    )
    given = held.path if recording is None else recording.run
    traffic = held.once(("traffic", *run), lambda: traffic_of(given, flops_per_second=speed))
    if recording is not None:
        recording, setup = recording.on(asked)
        asked = replace(
            asked,
            **{
                name: getattr(setup, name)
                for name in ("network", "hop_seconds", "overhead_seconds", "card_bandwidth")
            },
        )
    checked(driving(asked, traffic))
    on_timeline = recording is not None and asked.ranks in (0, traffic.ranks)
    if asked.compute_of and not on_timeline:
        whole, run = traffic, (*run, asked.compute_of)
        traffic = held.once(("traffic", *run), lambda: with_rules(whole, asked.compute_of))
        asked = replace(asked, compute_of="")
    share = _unmatched(traffic)
    grid = None
    if asked.ranks not in (0, traffic.ranks):
        recorded_traffic = traffic
        recorded_grid = held.once(("grid", *run), lambda: grid_of(recorded_traffic))
        grid = described(recorded_grid, larger(recorded_grid, asked.ranks))
        # Only the latest repeated run is kept, because one of thousands of ranks is large.
        kept: dict[object, Traffic] = held.once("repeated", dict)
        if (*run, asked.ranks) not in kept:
            kept.clear()
            kept[*run, asked.ranks] = repeated(traffic, asked.ranks, recorded_grid)
        traffic = kept[*run, asked.ranks]
    row = replayed(traffic, asked, recording=recording if on_timeline else None).row
    if row.stuck:
        raise error_of("A071.schedule", found=row.stuck)
    columns = {name: value for name, value in row.__dict__.items() if name != "stuck"}
    return {**columns, "unmatched_share": share, "grid": grid}


def _recording(held: Held, asked: Exchange) -> Recorded:
    """Return the part of a recording that is asked about, with the network that it ran on."""
    return Recorded(held.seen(part=asked.part), asked.source_network)


def _unmatched(traffic: Traffic) -> float:
    """Return the share of the calls without a counterpart in the recording."""
    matched_calls = 2 * len(traffic.messages.send) + sum(r.activity.size for r in traffic.rounds)
    return traffic.unmatched / (traffic.unmatched + matched_calls) if traffic.unmatched else 0.0


def _files(asked: Exchange) -> Mapping[str, Any]:
    """Return hashes of the files that place ranks and describe the network, where the settings name
    such files.
    """
    named = {name: getattr(asked, name) for name in ("mapping", "network", "source_network")}
    made = {
        name: machine.content for name, machine in named.items() if isinstance(machine, Machine)
    }
    return made | {
        n: hashed(Path(file))
        for n, file in named.items()
        if n not in made and _file(file) and Path(file).is_file()
    }


MESSAGES: Final = Kind("messages", Exchange, _exchanged, inputs=_files)
