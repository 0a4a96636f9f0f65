"""Several runs behind one host link: how much does each slow the others down, and how many fit?

The same recorded run several times over at once, each on devices of its own, all copies on one link to the host, both directions
apart: a composable chassis, or a node with more GPUs than links (AgoChart's "loosely integrated", Austin et al. 2021, 4.7).  Fair
shares, link by link; nothing else is shared: every run has its own cores, its own memory and its own GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from turnbuckle.errors import CannotAnswer, UsageError
from turnbuckle.model import nething
from turnbuckle.order import prepared
from turnbuckle.project import require_activity, require_order
from turnbuckle.replay.contention import Network, replay
from turnbuckle.replay.graphs import behind_one_link, copies
from turnbuckle.study.study import SCHEMA_VERSION, Answer

#: Runs at once that can be asked for.
MOST: Final = 256
#: A run fits behind a link if it gets no longer than by this share.
FITS: Final = 0.05
#: Processes of the replay that fit into memory on a small machine.
_MOST_PROCESSES: Final = 20_000_000


@dataclass(frozen=True)
class Shared:
    """So many runs at once.

    Attributes
    ----------
    runs : at once.
    seconds : run time of each [s]; they are alike and end together but for the order in which ties are dealt with.
    penalty : over the recorded run time.
    busy_to_device, busy_to_host : share of that time in which the link would be busy if it always ran at full bandwidth.
    """

    runs: int
    seconds: float
    penalty: float
    busy_to_device: float
    busy_to_host: float


@dataclass(frozen=True)
class Sharing:
    """How runs share a link.

    Attributes
    ----------
    measured : recorded run time [s].
    devices : of one run.
    bandwidth : of the shared link, one way [B/s]; `stated` whether it was given or is the fastest copy's rate.
    hop_seconds : latency added to each copy by a link between [s].
    copies, to_device_bytes, to_host_bytes : of one run.
    """

    measured: float
    devices: int
    bandwidth: float
    stated: bool
    hop_seconds: float
    copies: int
    to_device_bytes: float
    to_host_bytes: float
    rows: tuple[Shared, ...]

    @property
    def fit(self) -> int | None:
        """Most runs that stay within `FITS` of the recorded run time each; None where not even one does."""
        fitting = [r.runs for r in self.rows if r.penalty <= 1.0 + FITS]
        return max(fitting) if fitting else None

    def as_dict(self) -> dict[str, Any]:
        """The JSON contract of ``model sharing``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "measured_seconds": self.measured,
            "devices": self.devices,
            "bandwidth": self.bandwidth,
            "bandwidth_stated": self.stated,
            "hop_seconds": self.hop_seconds,
            "copies": self.copies,
            "to_device_bytes": self.to_device_bytes,
            "to_host_bytes": self.to_host_bytes,
            "fit_within_5_percent": self.fit,
            "rows": [r.__dict__ for r in self.rows],
        }


def sharing(seen: Answer, runs: Sequence[int] = (1, 2, 4, 8), *, bandwidth: float | None = None, hop_seconds: float = 0.0) -> Sharing:
    """Replay a run several times over at once behind one host link.

    Parameters
    ----------
    seen : what `inspect` gave.
    runs : how many at once; each is replayed, and what it takes to find out how many fit.
    bandwidth : of the link, one way [B/s]; None takes the rate of the fastest copy recorded.
    hop_seconds : latency of the link and of each device's own, each [s].

    Raises
    ------
    CannotAnswer : A122, the recorded order cannot be trusted; A165, no copies between host and device; A166, too large.
    UsageError : A075, a number of runs that is none.
    """
    if not runs or min(runs) < 1 or max(runs) > MOST:
        raise UsageError("A075", f"runs at once are whole numbers from 1 to {MOST}", found=str(list(runs))[:60], fix="as in 1,2,4,8")
    profile = seen.profile
    require_activity(profile)
    ready = prepared(profile, replace(nething("hold"), replay="timeline"))
    require_order(ready)
    assert ready.timeline is not None
    graph = ready.timeline.graph
    moved = copies(profile, graph)
    if not len(moved.activity):
        raise CannotAnswer(
            "A165", "this run copies nothing between host and device", cause="its data stays on the device, or moves by page faults",
            fix="turnbuckle model memory knows moved pages",
        )  # fmt: skip
    processes = (len(graph.activity) + len(moved.activity)) * max(runs)
    if processes > _MOST_PROCESSES:
        fix = f"replay at most {_MOST_PROCESSES // (processes // max(runs))} runs at once, or a shorter recording"
        raise CannotAnswer("A166", "too many activities to replay at once", found=f"{processes:,}", fix=fix)
    devices = int(moved.device.max()) + 1
    rate = float(moved.rate.max()) if bandwidth is None else bandwidth
    beyond = profile.seconds - float(graph.time_ns.max()) * 1e-9

    def together(count: int) -> Shared:
        done = replay(behind_one_link(graph, moved, count), Network(1 + count * devices, rate, hop_seconds), "flow")
        seconds = done.seconds + beyond
        up, down = done.carried_bytes[0], done.carried_bytes[1 + count * devices]
        return Shared(count, seconds, seconds / profile.seconds, float(up / rate / seconds), float(down / rate / seconds))

    rows = {count: together(count) for count in sorted(set(runs))}
    # between the most that fit and the fewest that do not: how many do?
    few = max((r.runs for r in rows.values() if r.penalty <= 1.0 + FITS), default=0)
    many = min((r.runs for r in rows.values() if r.runs > few), default=few + 1)
    while many - few > 1:
        middle = (few + many) // 2
        rows[middle] = together(middle)
        few, many = (middle, many) if rows[middle].penalty <= 1.0 + FITS else (few, middle)
    into = float(moved.size_bytes[moved.to_device].sum())
    return Sharing(
        profile.seconds, devices, rate, bandwidth is not None, hop_seconds, len(moved.activity), into, float(moved.size_bytes.sum()) - into,
        tuple(rows[count] for count in sorted(rows)),
    )  # fmt: skip
