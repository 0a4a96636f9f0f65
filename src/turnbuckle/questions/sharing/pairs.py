"""Two recorded runs at once, on one GPU or on a GPU each behind one link: how much does each slow
the other down?

The replay and what is shared are those of `turnbuckle.questions.sharing.question`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from turnbuckle.foundation.errors import error_of
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.run import Run
from turnbuckle.questions.sharing.question import (
    FULL,
    MOST_PROCESSES,
    Form,
    Sharer,
    core_count,
    delay,
    link_rate,
    ready,
    require_work,
)
from turnbuckle.replay.contention.contention import replay
from turnbuckle.replay.contention.graphs import beside, placed
from turnbuckle.replay.contention.network import Network


@dataclass(frozen=True, repr=False)
class Beside(Shown):
    """Two runs at once, each run one time."""

    form: Form
    alone: tuple[float, float]
    seconds: tuple[float, float]

    @property
    def penalties(self) -> tuple[float, float]:
        """Return the run time of each over its recorded one."""
        return self.seconds[0] / self.alone[0], self.seconds[1] / self.alone[1]

    @property
    def together(self) -> float:
        """Return the time until both are done [s]."""
        return max(self.seconds)

    @property
    def saved(self) -> float:
        """Return the share of time saved against running one after the other."""
        return 1.0 - self.together / sum(self.alone)

    def table(self) -> pl.DataFrame:
        """Return a row for each of the two: run time alone and beside the other [s], penalty."""
        return pl.DataFrame(
            {
                "alone_seconds": list(self.alone),
                "seconds": list(self.seconds),
                "penalty": list(self.penalties),
            }
        )

    def headline(self) -> str:
        """Return the two penalties in one line."""
        first, second = self.penalties
        return (
            f"Two runs at once ({self.form}): {first:.3f}x and {second:.3f}x what each takes alone"
        )


def pair(
    first: Sharer,
    other: Sharer,
    form: Form = "shared",
    *,
    bandwidth: float | None = None,
    hop_seconds: float = 0.0,
    speed: float = 1.0,
    cores: int = 0,
) -> Beside:
    """Replay two recorded runs that begin at once, on a GPU each behind one link (``loose``) or on
    one GPU (``shared``).

    Kernels and copies of both are as fast on what they share as each was recorded alone.

    Parameters
    ----------
    bandwidth : of the link, one way [B/s]; None takes the faster of the recorded links.
    hop_seconds, speed, cores : as in `Sharer.together`.

    Raises
    ------
    CannotAnswer : A165, a link without copies; A166, too large; A172, a GPU without kernels.
    UsageError : A096, a bandwidth or latency that cannot be; A097, a form or a speed that cannot
        be.
    """
    if form not in ("loose", "shared"):
        raise error_of("A097.pair", found=form)
    for run in (first, other):
        require_work(run, [form], speed)
    if (size := first.processes(form, 1, cores) + other.processes(form, 1, cores)) > MOST_PROCESSES:
        raise error_of("A166.recordings", found=f"{size:,}")
    if bandwidth is None:
        # one link for both: each run alone on it takes its recorded time
        rate = max(first.recorded_bandwidth, other.recorded_bandwidth)
        first, other = (replace(run, recorded_bandwidth=rate) for run in (first, other))
    else:
        rate = link_rate(bandwidth)
    devices = max(first.devices, other.devices) if form == "shared" else 0
    given: dict[str, Any] = {
        "hop_seconds": delay(hop_seconds),
        "speed": speed,
        "cores": core_count(cores),
        "devices": devices,
    }
    program, hosts = first.program(form, 1, rate, **given)
    other_program, more = other.program(form, 1, rate, **given)
    loose = form == "loose"
    hosts += more - 1 if loose else 0
    both = beside(program, other_program, hosts=first.devices if loose else 0, engines_apart=loose)
    both, hosts = placed(both, hosts)
    done = replay(both, Network(hosts, rate if loose and not cores else FULL, 0.0), "flow")
    ends = np.split(done.ends, [program.processes])
    seconds = tuple(
        float(end.max()) + run.beyond for end, run in zip(ends, (first, other), strict=True)
    )
    return Beside(form, (first.measured, other.measured), (seconds[0], seconds[1]))


def of_runs(run: Run, other: Run, form: Form = "shared", **settings: Any) -> Beside:
    """Replay two recorded runs at once: ``turnbuckle model sharing --beside``.  Settings as in
    `pair`.
    """
    return pair(ready(run), ready(other), form, **settings)
