"""What a projection rests on besides its numbers: the change of coupling it stands for, and findings on what it assumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.findings import Finding, advised, finding, merge
from turnbuckle.machine import Machine, Pair
from turnbuckle.machine.parameter_names import HOST_WAYS, ParameterName, link_parameter
from turnbuckle.profile.pieces import UNSIZED, Pieces
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.summary import peak_memory_bytes
from turnbuckle.projection.model import Model, kernel_rate, link_bandwidth
from turnbuckle.projection.order import Prepared
from turnbuckle.trace.recorders import recorder_of

#: Share of the device's rows, and of their time, that must name their call for A365 to stay silent.
CALLED: Final = 0.95

#: Ways to describe distance, by what an added second falls on.
_SLACK: Final[Mapping[str, ParameterName]] = {"call": "slack.call", "link": "slack.link"}


def kernel_ratio(pair: Pair, model: Model) -> float | None:
    """Return how much faster kernels run on the target; None where they keep their time."""
    if pair.target is pair.source or model.alpha == "hold":
        return None
    if not isinstance(model.alpha, str):
        return float(model.alpha)
    source_rate, target_rate = kernel_rate(pair.source, model.alpha), kernel_rate(pair.target, model.alpha)
    return None if source_rate is None or target_rate is None else float(target_rate / source_rate)


def coupling_change(source: Machine, target: Machine) -> dict[str, Any]:
    """Return link, latency and bandwidth of both machines per direction; every ratio is shown with them (decision D17)."""
    out: dict[str, Any] = {"source": source.coupling, "target": target.coupling, "copies_vanish": target.copies_vanish}
    for direction in HOST_WAYS:
        source_bandwidth, target_bandwidth = link_bandwidth(source, direction, source), link_bandwidth(target, direction, source)
        latency = source.value(link_parameter(direction, "latency")), target.value(link_parameter(direction, "latency"))
        out[direction] = {
            "source_bandwidth": None if source_bandwidth is None else float(source_bandwidth),
            "target_bandwidth": None if target_bandwidth is None else float(target_bandwidth),
            "source_latency_s": latency[0],
            "target_latency_s": latency[1],
        }
    for kind, name in _SLACK.items():
        out[f"added_{kind}_slack_s"] = (target.value(name) or 0.0) - (source.value(name) or 0.0)
    return out


def findings(profile: Profile, ready: Prepared, pair: Pair, model: Model, missing: tuple[str, ...]) -> list[Finding]:
    """Return findings on what the projection assumed, lacked or took over; none for a run on its own machine."""
    if pair.target is pair.source:
        return []
    out = [finding("A308")] if ready.timeline is None or ready.trust is None else [finding("A309", 1, ready.trust.words())]
    if ready.timeline is not None and ready.timeline.graph.unmatched:
        out.append(finding("A311", ready.timeline.graph.unmatched, ready.timeline.graph.unmatched_calls))
    if ready.timeline is None and ready.trust is not None:
        out.append(finding("A310", 1, ready.trust.refused))
    out += uncalled(profile)
    out += _unpriced(pair, model, ready.run, missing)
    if unsized := int(ready.run.count[ready.run.memory == UNSIZED].sum()):
        out.append(finding("A357", unsized))
    alpha = kernel_ratio(pair, model)
    if model.alpha == "hold" or alpha is None or alpha == 1.0:
        out.append(finding("A305"))
    elif isinstance(model.alpha, str):
        out.append(finding("A301", 1, f"alpha {alpha:.2f} by {model.alpha}"))
        source_rate, target_rate = (m.value("gpu.memory_bandwidth") for m in (pair.source, pair.target))
        if model.alpha == "flop" and source_rate and target_rate and abs(np.log(alpha * source_rate / target_rate)) > np.log(1.5):
            out.append(finding("A302", 1, f"{alpha:.2f} by FLOP, {target_rate / source_rate:.2f} by memory bandwidth"))
    if pair.target.changes:
        out.append(finding("M103"))
    else:
        out.append(finding("A364"))
    if limited := _read_limited(pair):
        out.append(finding("A306", 1, limited))
    held = pair.target.value("gpu.memory_size")
    peak = peak_memory_bytes(profile)
    if held is not None and peak > held:
        out.append(finding("A307", 1, f"{peak / 1e9:.1f} of {held / 1e9:.1f} GB"))
    return advised(merge(out), recorder_of(profile.trace.facts))


def uncalled(profile: Profile) -> list[Finding]:
    """Return finding A365 where part of the device's work names no host call: the answer leaves out what distance does to it."""
    rows = profile.device_rows
    if rows is None:
        return []
    share = rows["with_call"] / rows["count"]
    least = min(share, share if rows["time_share"] is None else rows["time_share"])
    if least >= CALLED:
        return []
    timed = "" if rows["time_share"] is None else f", {1 - rows['time_share']:.0%} of their time"
    return [finding("A365", rows["count"] - rows["with_call"], f"{1 - share:.0%} of the rows on devices{timed}")]


def _unpriced(pair: Pair, model: Model, run: Pieces, missing: tuple[str, ...]) -> list[Finding]:
    """Return findings on parameters that a charge needs and that one of the machines lacks.

    A target that only changes the coupling says nothing of what it leaves alone, and need not.
    """
    touched = {c.parameter for c in pair.target.changes}
    wanted: dict[ParameterName, None] = {}
    for charge in model.charges:
        if not charge.covers(run).any() or (pair.target.copies_vanish and charge.kept):
            continue
        if charge.name in missing or any(pair.target.value(n) is None for n in charge.kept):
            wanted |= dict.fromkeys(charge.needs)
    relevant = [n for n in wanted if not pair.target.changes or n in touched]
    unseen = [n for n in relevant if pair.source.value(n) is None]
    unstated = [n for n in relevant if pair.target.value(n) is None and n not in unseen]
    return [finding(code, len(names), ", ".join(names)) for code, names in (("M102", unstated), ("M104", unseen)) if names]


def _read_limited(pair: Pair) -> str:
    """Say how far reads in flight cut the target's host-to-device bandwidth below eta BW; empty where they do not."""
    reached, nominal = link_bandwidth(pair.target, "h2d", pair.source), pair.target.value("link.h2d.bandwidth")
    efficiency = pair.target.value("link.h2d.efficiency") or pair.source.value("link.h2d.efficiency") or 1.0
    if reached is None or nominal is None or float(reached) >= 0.999 * min(efficiency, 1.0) * nominal:
        return ""
    return f"{float(reached) / 1e9:.1f} instead of {efficiency * nominal / 1e9:.1f} GB/s"
