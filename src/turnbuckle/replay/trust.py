"""Trust in the order of a recording: the time that no rule explains, where it is, and when the
timeline refuses.

Time on the recorded critical path that no rule derives is taken as recorded: residuals, the
application's own time between calls, and launches far longer than a launch that no queue explains.
Its share bounds what the timeline cannot know.  Where work of one stream overlaps, or starts before
its call, the clocks or the order are wrong, and a replay of that order would be a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.arrays import Text
from turnbuckle.foundation.fields import Declared
from turnbuckle.profile.dependencies.graph import EDGE
from turnbuckle.profile.profile import Profile
from turnbuckle.replay.timeline import TimelineReplay
from turnbuckle.trace.recorders import with_calls

#: Share of device work that may overlap its predecessor on a stream, or start before its call,
#: before order counts as lost.
LOST: Final = 0.01
#: Share of the critical path that must come when the rules say.
EXPLAINED: Final = 0.5
#: A launch this many times as long as launches are in the middle is taken as recorded, unless a
#: full queue held it.
_SLOW: Final = 10.0
#: Edges of a path that are looked at together.
_BLOCK: Final = 1 << 18
_NSYS: Final = (
    "--trace=cuda,nvtx,mpi, --cuda-event-trace=true, --cuda-graph-trace=node, all processes of "
    "the job"
)


@dataclass(frozen=True)
class Doubt(Declared):
    """Time on the critical path that no rule explains.

    Attributes
    ----------
    track : host thread or device stream, in words without ids of the recording's machine.
    kind : kind of the activities that began or ended later than the rules explain; ``gap`` for the
        time between two calls.
    seconds : sum of these delays [s].
    share : their share of the run time.
    """

    track: str
    kind: str
    seconds: float
    share: float


@dataclass(frozen=True)
class Trust(Declared):
    """Trust in the recorded order.

    Attributes
    ----------
    explained : share of the recorded critical path that rules derive.
    doubts : places of the rest, largest first.
    guessed : share of it that comes later than the rules say, and nothing tells why; what is left
        besides is time kept as recorded.
    refused : reason why the order cannot be trusted, and advice on what to record instead; empty
        where it can be trusted.
    """

    explained: float
    doubts: tuple[Doubt, ...]
    refused: str = ""
    record: str = ""
    guessed: float = 0.0

    def words(self) -> str:
        """Return what the critical path rests on, and the largest doubt."""
        text = f"{self.explained:.1%} of the critical path"
        if not self.doubts:
            return text
        worst, kept = self.doubts[0], max(1.0 - self.explained - self.guessed, 0.0)
        rest = f"{kept:.1%} keeps its time, {self.guessed:.1%} is a guess"
        return f"{text}; {rest}; most of it: {worst.kind} on {worst.track}, {worst.share:.1%}"


def trust(profile: Profile, replay: TimelineReplay) -> Trust:
    """Score the order of a profile."""
    doubts, late = _doubts(profile, replay)
    refused, record = _refusal(replay, late, profile.trace.facts)
    explained = max(1.0 - sum(d.share for d in doubts), 0.0)
    return Trust(explained, doubts, refused, record, min(late, 1.0 - explained))


def _doubts(profile: Profile, replay: TimelineReplay) -> tuple[tuple[Doubt, ...], float]:
    """Return what the rules leave of the recorded critical path, by track and kind, and the share
    that comes later than they say.

    That is residuals, origins of device work and cut edges; the rest is time taken as recorded:
    between calls and before the first of a thread, and in launches that are far longer than
    launches are.
    """
    graph, last = replay.graph, float(replay.graph.time_ns.max())
    if not last:
        return (), 0.0
    _, whole = replay.unchanged_path
    words, code_of_piece = np.unique(
        np.append(replay.run.kind.astype(str), "gap"), return_inverse=True
    )
    no_work, launch, typical = (
        int(code_of_piece[-1]),
        np.searchsorted(words, "launch"),
        _SLOW * _launch_ns(replay),
    )
    calls = np.isin(replay.run.category.astype(str), ("api", "mpi"))
    track_of, sums, all_late = profile.activities["track"].to_numpy(), dict[int, int](), 0
    # block by block: a path is as long as a run, and each of a dozen columns of it as well
    for path in np.split(whole, range(_BLOCK, len(whole), _BLOCK)):
        target, edge, lag = graph.target[path], graph.kind[path], graph.lag_ns[path]
        owner = (target - 1) // 2
        # what a thread does before its first call is the application's own, as between two calls
        first, of_host = edge == EDGE["origin"], calls[replay.piece[owner]]
        late = (
            graph.residual_ns[target]
            + graph.clipped_ns[target]
            + np.where(first & ~of_host, lag, 0)
        )
        kinds, tracks = (
            code_of_piece[replay.piece[owner]],
            track_of[graph.activity[owner]].astype(np.int64) * len(words),
        )
        gap = np.where((edge == EDGE["host"]) | (first & of_host), lag, 0)
        slow = np.where((edge == EDGE["call"]) & (kinds == launch), lag - typical, 0)
        for kind, taken in (
            (kinds, late),
            (no_work, gap),
            (kinds, np.maximum(slow, 0).astype(np.int64)),
        ):
            some = np.flatnonzero(taken > 0)
            keys, of = np.unique((tracks + kind)[some], return_inverse=True)
            added = np.zeros(len(keys), dtype=np.int64)
            np.add.at(added, of, taken[some])
            for key, ns in zip(keys.tolist(), added.tolist(), strict=True):
                sums[key] = sums.get(key, 0) + ns
        all_late += int(late.sum())
    names, seconds = _tracks(profile), dict[tuple[str, str], int]()
    for number, ns in sums.items():
        key = (names[number // len(words)], str(words[number % len(words)]))
        seconds[key] = seconds.get(key, 0) + ns
    ranked = sorted(seconds.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Doubt(track, kind, ns * 1e-9, ns / last) for (track, kind), ns in ranked), float(
        all_late
    ) / last


def _launch_ns(replay: TimelineReplay) -> float:
    """Return what a launch takes by itself, in the middle [ns]."""
    graph = replay.graph
    calls = np.flatnonzero(graph.kind == EDGE["call"])
    launches = calls[
        (replay.run.kind == "launch")[replay.piece[np.maximum(graph.target[calls] - 1, 0) // 2]]
    ]
    return float(np.median(graph.lag_ns[launches])) if len(launches) else 0.0


def _tracks(profile: Profile) -> Text:
    """Return the names of tracks: threads and processes are numbered in the order they appear."""
    names = []
    threads: dict[tuple[int | None, int | None], int] = {}
    for what, process, thread, device, stream in profile.tracks.select(
        "what", "process", "thread", "device", "stream"
    ).iter_rows():
        if what == "thread":
            names.append(f"host thread {threads.setdefault((process, thread), len(threads) + 1)}")
        elif what == "stream":
            names.append(
                f"device {device} stream {stream}" if stream is not None else f"device {device}"
            )
        else:
            names.append("the run")
    return np.array(names, dtype=object)


def _refusal(replay: TimelineReplay, late: float, facts: Mapping[str, Any]) -> tuple[str, str]:
    nsys = facts.get("format") in (None, "nsys")
    graph = replay.graph
    works = graph.kind == EDGE["run"]
    count = int(works.sum())
    if count and graph.overlapping / count > LOST:
        return (
            f"{graph.overlapping:,} of {count:,} activities overlap another on their own stream",
            "record with one clock: a newer profiler"
            + (
                ", or nsys profile without sampling; nsys stats --report cuda_gpu_trace shows them"
                if nsys
                else " or a shorter window"
            ),
        )
    if count and graph.early / count > LOST:
        return (
            f"{graph.early:,} of {count:,} activities start before the call that started them",
            (
                "the clocks of host and device differ: record again with a newer profiler or a "
                "shorter window"
            ),
        )
    if count and late > 1.0 - EXPLAINED:
        return (
            f"{late:.0%} of the critical path comes later than the dependency rules say",
            "record what is missing: "
            + (_NSYS if nsys else f"{with_calls(facts)}; all processes of the job"),
        )
    return "", ""
