"""The report's own methods on runs whose calls were really delayed, and whose copies were really
slowed down (Austin et al. 2021).

    equation 4   the run times the penalty of its plain sums: lambda is the recorded latency over that with the delay; with the calls
                 that wait counted as the report does, and counted once
    additive     the run with the calls and the copies that show on its time line as much longer as equation 4 says; no wait is scaled
    ssi          the run times the penalty of its closed loop, or the run and what the loop gains in time: the delay is the propagation
                 of one way
    agochart     the replay by AgoChart's law, at the recorded latency and the delay

Each is asked as its verb answers (`turnbuckle model additive`, `project --model additive`, `model
ssi`, `model sharing --law agochart`), from one recording without delay.  A slower copy is a slower
link in all.  None tells classes of calls apart, so only points that delay every call are asked.
What the slack study (Shorts and Grant) takes off, calls times delay, is the row ``sum`` of
`turnbuckle.questions.validate.measured.distance`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from turnbuckle.cost.ratio import AdditiveTotals
from turnbuckle.papers.models.node.functions import functions
from turnbuckle.papers.models.on_machine import large_copy
from turnbuckle.papers.models.ssi.question import recorded
from turnbuckle.projection.model import additive as by_lambda
from turnbuckle.projection.run import Run
from turnbuckle.questions.sharing.question import ready
from turnbuckle.questions.validate.cases import Ask, Case
from turnbuckle.questions.validate.measured.distance import opened, places, together, waited
from turnbuckle.questions.validate.rows import Data, Row
from turnbuckle.replay.contention.loop import Link
from turnbuckle.replay.contention.loop import run as replayed

#: Run time [s] of a delay [s] and of what the bandwidth is divided by.
Method = Callable[[float, float], float]


def additive(run: Run, *, waits_once: bool = False) -> Method:
    """Return equation 4 on the terms of equation 3."""
    totals = AdditiveTotals.by_difference(
        **functions(run.profile).terms(), without_waits=waits_once
    )
    latency = ready(run).recorded_latency

    def seconds(delay: float, slower: float) -> float:
        lambdas = {"control": latency / (latency + delay), "data": 1.0 / slower}
        return run.profile.seconds * totals.penalty(lambdas)

    return seconds


def time_line(run: Run) -> Method:
    """Return the time line with its calls and copies scaled: what shows of each grows as one over
    its lambda, so that one lambda tells how much shows.
    """
    latency, tenfold = ready(run).recorded_latency, 0.1

    def shown(name: str) -> float:
        model = replace(by_lambda({name: tenfold}), replay="sum")
        longer = run.project(model=model, draws=0).projections[0].seconds - run.profile.seconds
        return longer / (1.0 / tenfold - 1.0)

    control, data = shown("control"), shown("data")

    def seconds(delay: float, slower: float) -> float:
        return run.profile.seconds + control * delay / latency + data * (slower - 1.0)

    return seconds


def ssi(run: Run, *, added: bool = False) -> Method:
    """Return a closed loop of the run's calls, one after the other: its penalty, or the time that
    it gains.
    """
    loop = recorded(run.profile).loop()
    link = Link(run.source.name, large_copy(run.source), 1)
    now = replayed(loop, link, 0.0, "message").seconds

    def seconds(delay: float, slower: float) -> float:
        far = replayed(
            loop, replace(link, bandwidth=link.bandwidth / slower), delay, "message"
        ).seconds
        if added:
            return run.profile.seconds + far - now
        return run.profile.seconds * far / now

    return seconds


def agochart(run: Run) -> Method:
    """Return a replay in which every delivery takes the latency, and a copy its bytes over the
    bandwidth.
    """
    sharer = ready(run)

    def seconds(delay: float, slower: float) -> float:
        latency, bandwidth = sharer.recorded_latency + delay, sharer.recorded_bandwidth / slower
        return sharer.together(
            "loose", 1, bandwidth=bandwidth, latency=latency, law="agochart"
        ).seconds

    return seconds


METHODS: Final[dict[str, Callable[[Run], Method]]] = {
    "equation 4": additive,
    "equation 4, waits once": partial(additive, waits_once=True),
    "additive": time_line,
    "ssi": ssi,
    "ssi, added": partial(ssi, added=True),
    "agochart": agochart,
}


def published(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Yield what each method says of a program whose calls were delayed, and of one whose copies
    were slowed: a row each.
    """
    run, _, points = opened(*places(case, question, data))
    for name, method in METHODS.items():
        seconds = method(run)
        for kind in ("distance", "bandwidth"):
            asked = [
                p
                for p in points
                if p["classes"] == "all" and bool(p["slower"]) == (kind == "bandwidth")
            ]
            times = [
                (seconds(waited(p), p["slower"] or 1), statistics.median(p["seconds"]))
                for p in asked
            ]
            if times:
                yield together(case.name, kind, name, "every call later, all points", times)
