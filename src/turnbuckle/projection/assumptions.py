"""What a projection rests on besides its numbers: the change of coupling it stands for, and
findings on what it assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from turnbuckle.cost.packet import behind
from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.foundation.findings import Finding, advised, finding, merge
from turnbuckle.machine import Pair
from turnbuckle.machine.parameter_names import (
    HOST_WAYS,
    LINK_WAYS,
    LinkWay,
    ParameterName,
    link_parameter,
    observed_parameter,
)
from turnbuckle.profile.pieces import UNSIZED, Pieces
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.summary import peak_memory_bytes
from turnbuckle.projection.anchor import Durations
from turnbuckle.projection.elsewhere.hosts import HOST_SPEED, INSTRUCTIONS, host_longer
from turnbuckle.projection.elsewhere.kernels import kernel_rate
from turnbuckle.projection.elsewhere.priors import (
    MANAGED,
    MOST_UNRECORDED,
    PAGEABLE,
    Draws,
    coherent,
    other_gpu,
    other_host,
    repaged,
    restaged,
    stated_here,
    unforwarded,
    zero_copy_longer,
)
from turnbuckle.projection.model import Model, Port, Priced, link_bandwidth, ported_bandwidth
from turnbuckle.projection.order import Prepared, waited_seconds
from turnbuckle.projection.projection import NOISE, Projection
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
    if model.alpha == "auto":  # each kernel has its own
        return None
    source_rate, target_rate = (
        kernel_rate(pair.source, model.alpha),
        kernel_rate(pair.target, model.alpha),
    )
    return None if source_rate is None or target_rate is None else float(target_rate / source_rate)


def coupling_change(pair: Pair, priced: Priced, port: Port = "") -> dict[str, Any]:
    """Return link, latency and bandwidth of both machines per direction; every ratio is shown with
    them (decision D17).

    `priced` is the target as the answer took it, with what its file does not say; `port` what
    becomes of the program's copies there.
    """
    source, target = pair.source, pair.target
    kept = None if target is source else ported_bandwidth(priced, port)
    out: dict[str, Any] = {
        "source": source.coupling,
        "target": target.coupling,
        "copies_vanish": target.copies_vanish and kept is None,
    }
    for direction in HOST_WAYS:
        source_bandwidth = link_bandwidth(source, direction, source)
        target_bandwidth = link_bandwidth(priced, direction, source) if kept is None else kept
        latencies = [m.value(link_parameter(direction, "latency")) for m in (source, priced)]
        out[direction] = {
            "source_bandwidth": None if source_bandwidth is None else float(source_bandwidth),
            "target_bandwidth": None if target_bandwidth is None else float(target_bandwidth),
            **{
                f"{m}_latency_s": None if v is None else float(v)
                for m, v in zip(("source", "target"), latencies, strict=True)
            },
        }
    for kind, name in _SLACK.items():
        out[f"added_{kind}_slack_s"] = (target.value(name) or 0.0) - (source.value(name) or 0.0)
    if (trip := target.value("remoting.round_trip")) is not None:
        out["round_trip_s"] = trip
        out["network_bandwidth"] = [
            target.value(name) for name in ("remoting.h2d.bandwidth", "remoting.d2h.bandwidth")
        ]
    return out


def findings(
    profile: Profile,
    ready: Prepared,
    pair: Pair,
    priced: Priced,
    model: Model,
    missing: tuple[str, ...],
) -> list[Finding]:
    """Return findings on what the projection assumed, lacked or took over; none for a run on its
    own machine.
    """
    if pair.target is pair.source:
        return []
    out = (
        [finding("A308")]
        if ready.timeline is None or ready.trust is None
        else [finding("A309", 1, ready.trust.words())]
    )
    if ready.timeline is not None and ready.timeline.graph.unmatched:
        out.append(
            finding("A311", ready.timeline.graph.unmatched, ready.timeline.graph.unmatched_calls)
        )
    if ready.timeline is None and ready.trust is not None:
        out.append(finding("A310", 1, ready.trust.refused))
    out += uncalled(profile)
    out += _unpriced(pair, model, ready.run, missing)
    if unsized := int(ready.run.count[ready.run.memory == UNSIZED].sum()):
        out.append(finding("A357", unsized))
    alpha = kernel_ratio(pair, model)
    if model.alpha == "auto" and other_gpu(pair):
        out.append(finding("A312"))
    elif model.alpha == "hold" or alpha is None or alpha == 1.0:
        out.append(finding("A305"))
    elif isinstance(model.alpha, str):
        out.append(finding("A301", 1, f"alpha {alpha:.2f} by {model.alpha}"))
        source_rate, target_rate = (
            m.value("gpu.memory_bandwidth") for m in (pair.source, pair.target)
        )
        if (
            model.alpha == "flop"
            and source_rate
            and target_rate
            and abs(np.log(alpha * source_rate / target_rate)) > np.log(1.5)
        ):
            out.append(
                finding(
                    "A302",
                    1,
                    f"{alpha:.2f} by FLOP, {target_rate / source_rate:.2f} by memory bandwidth",
                )
            )
    if pair.target.changes:
        out.append(finding("M103"))
    if model.machine_free or any(
        c.parameter == "alloc.call" and c.scale is not None for c in pair.target.changes
    ):
        out.append(finding("A304"))
    draws = Draws()
    longer = host_longer(pair, pair.target, pair.source, draws, model.host, ready.work)
    if longer is not None and HOST_SPEED in draws.asked and not pair.target.host:
        sets = [machine.instruction_set for machine in (pair.source, pair.target)]
        other = (
            f", because its instruction set is {sets[1]} in place of {sets[0]}"
            if INSTRUCTIONS in draws.asked
            else ""
        )
        out.append(finding("A364", 1, f"{float(longer):.2f} times the recorded time{other}"))
    if (slower := zero_copy_longer(pair, model.port, Draws())) is not None:
        out.append(finding("A372", 1, f"{float(slower):.2f} times as long"))
    if ready.nic_bound:
        words = ", ".join(
            f"{share:.1%} of the bytes {direction}" for direction, share in ready.nic_bound.items()
        )
        out.append(finding("A370", len(ready.nic_bound), words))
    if limited := _read_limited(pair, priced):
        out.append(finding("A306", 1, limited))
    if unforwarded(pair):
        assumed = (
            f"from none to {MOST_UNRECORDED:g} for each launch of a framework"
            if ready.work == "framework"
            else "taken for none"
        )
        out.append(finding("A532", 1, assumed))
    held = pair.target.value("gpu.memory_size")
    if held is not None and (peak := peak_memory_bytes(profile)) > held:
        out.append(finding("A307", 1, f"{peak / 1e9:.1f} of {held / 1e9:.1f} GB"))
    return advised(merge(out), recorder_of(profile.trace.facts))


def both_ways(ready: Prepared, durations: Durations, seconds: float) -> list[Finding]:
    """Return finding A700 where the run time hangs on whether work that meets waits: both ends over
    the recorded time.
    """
    waited = waited_seconds(ready, durations)
    if waited is None or abs(waited - seconds) <= NOISE * seconds:
        return []
    ends = sorted((seconds / ready.measured, waited / ready.measured))
    return [finding("A700", 1, f"{ends[0]:.3g} to {ends[1]:.3g} times the recorded time")]


def replays_apart(
    projection: Projection, apart: tuple[tuple[float, float], tuple[float, float]]
) -> Finding:
    """Return finding A390: what timeline and sum say of the run time, and where the order is least
    known.
    """
    words = [
        f"{low / projection.measured_seconds:.3g} to {high / projection.measured_seconds:.3g}"
        for low, high in apart
    ]
    doubts = projection.order.get("unexplained", [])
    least = (
        f"; least known: {doubts[0]['kind']} on {doubts[0]['track']}, {doubts[0]['share']:.1%}"
        if doubts
        else ""
    )
    return finding(
        "A390",
        1,
        f"{words[0]} times the recorded time by the timeline, {words[1]} by the sum{least}",
    )


def uncalled(profile: Profile) -> list[Finding]:
    """Return finding A365 where part of the device's work names no host call: the answer leaves out
    what distance does to it.
    """
    rows = profile.device_rows
    if rows is None:
        return []
    share = rows["with_call"] / rows["count"]
    least = min(share, share if rows["time_share"] is None else rows["time_share"])
    if least >= CALLED:
        return []
    timed = "" if rows["time_share"] is None else f", {1 - rows['time_share']:.0%} of their time"
    return [
        finding(
            "A365",
            rows["count"] - rows["with_call"],
            f"{1 - share:.0%} of the rows on devices{timed}",
        )
    ]


def _unpriced(pair: Pair, model: Model, run: Pieces, missing: tuple[str, ...]) -> list[Finding]:
    """Return findings on parameters that a charge needs and that one of the machines lacks.

    A target that only changes the coupling says nothing of what it leaves alone, and need not.
    """
    touched = {c.parameter for c in pair.target.changes}
    wanted: dict[ParameterName, None] = {}
    for charge in model.charges:
        if not run.rows(charge.covers).any() or (pair.target.copies_vanish and charge.kept):
            continue
        if charge.name in missing or any(pair.target.value(n) is None for n in charge.kept):
            wanted |= dict.fromkeys(charge.needs)
    relevant = [n for n in wanted if not pair.target.changes or n in touched]
    unseen = [n for n in relevant if pair.source.value(n) is None]
    unstated = [n for n in relevant if pair.target.value(n) is None and n not in unseen]
    return [
        finding(code, len(names), ", ".join(names))
        for code, names in (("M102", unstated), ("M104", unseen))
        if names
    ]


def _reads(pair: Pair, priced: Priced) -> tuple[Float, Float, Float] | None:
    """Return the target's host-to-device bandwidth as reads in flight cut it, eta, and BW [B/s];
    None where it is not known.
    """
    reached, nominal = (
        link_bandwidth(priced, "h2d", pair.source),
        pair.target.value("link.h2d.bandwidth"),
    )
    if reached is None or nominal is None:
        return None
    stated = (machine.value("link.h2d.efficiency") for machine in (priced, pair.source))
    efficiency = next((value for value in stated if value is not None), 1.0)
    return np.asarray(reached), np.asarray(efficiency), np.asarray(nominal)


def reads_limited(pair: Pair, priced: Priced) -> Bool:
    """Return whether reads in flight cut the target's host-to-device bandwidth below eta BW, shape
    () or that of its values.
    """
    if (reads := _reads(pair, priced)) is None:
        return np.zeros((), dtype=np.bool_)
    reached, efficiency, nominal = reads
    return np.asarray(reached < 0.999 * np.minimum(efficiency, 1.0) * nominal)


def _read_limited(pair: Pair, priced: Priced) -> str:
    """Say how far reads in flight cut the target's host-to-device bandwidth below eta BW; empty
    where they do not.
    """
    reads = _reads(pair, priced)
    if reads is None or not reads_limited(pair, priced):
        return ""
    reached, efficiency, nominal = map(float, reads)
    return f"{reached / 1e9:.1f} instead of {efficiency * nominal / 1e9:.1f} GB/s"


def copy_basis(direction: str, memory: str, pair: Pair, port: Port = "") -> str:
    """Say how a class of copies is priced on a target, and so what its number rests on."""
    link_way, target = direction.removeprefix("migration_"), pair.target
    if target is pair.source:
        return "as recorded"
    if memory == UNSIZED:
        return "kept as recorded: its size is not known"
    if direction == "d2d":
        return "time recorded, by the ratio of the memories' bandwidths"
    if link_way not in LINK_WAYS:
        return "kept as recorded: no link carries it"
    if port == "managed" and direction in HOST_WAYS:
        return "moved as managed memory, at the rate that the machine file states"
    if port == "zero-copy" and not target.copies_vanish and direction in HOST_WAYS:
        return (
            "no copy: the bytes cross the coherent link once; kernels that read them again take "
            "longer"
        )
    if target.copies_vanish and link_way in HOST_WAYS:
        stated = target.value("package.copy_bandwidth") is not None
        kept = (
            "copied inside the package, "
            f"{'as the machine file states' if stated else 'at half of its memory bandwidth'}"
        )
        return kept if port == "as-is" and direction in HOST_WAYS else "one memory: no copy"
    bandwidth = target.value(link_parameter(link_way, "bandwidth"))
    if bandwidth is None:
        return "kept as recorded: the target states no bandwidth of this link"
    if memory == "pageable" and restaged(pair):
        return _staging_basis(link_way, pair)
    if direction.startswith("migration") and repaged(pair):
        return "pages moved " + (
            "at the rate that the machine file states"
            if stated_here(target, MANAGED)
            else "as recorded, on the target's link"
        )
    if not other_host(pair):
        network = (
            ", and across the network" if target.value("remoting.round_trip") is not None else ""
        )
        return "line fitted to the recording, on the target's link" + network
    if target.value(link_parameter(link_way, "efficiency")) is not None:
        return "line fitted to the recording, at the share of the link that the machine file states"
    packets = behind(target.coupling, bandwidth)
    left = "the link's peak" if packets is None else f"what the packets of {packets.name} leave"
    return f"line fitted to the recording, at {left}"


def _staging_basis(link_way: LinkWay, pair: Pair) -> str:
    """Say how copies of pageable memory are priced where the source does not show what they
    cost.
    """
    if stated_here(pair.target, PAGEABLE):
        return "the share of its link that the machine file states for pageable copies"
    if coherent(pair.target, pair.source):
        return "no staging over a coherent link: as pinned copies"
    staged = (
        link_way != "p2p"
        and pair.source.value(observed_parameter(link_way, "pageable", "bandwidth")) is not None
    )
    recorded = staged and pair.source.coupling != "c2c"
    return f"staged by the host at the rate {'recorded' if recorded else 'of measured hosts'}"
