"""A model: what it charges for each kind of activity on a machine, where that meets what was
measured, how it adds up.

The presets are the published methods:

`nething`   copies by LogGP, launches and waits by their latency, kernels by alpha (Groves et al., PMBS 2022).
`additive`  every category divided by its lambda (Austin et al. 2021, eqs 3-4; lambda per class of call, decision D2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

import numpy as np

from turnbuckle.cost import remoting
from turnbuckle.cost.loggp import loggp_seconds, on_other_link, rate, read_limited_bandwidth
from turnbuckle.cost.ratio import scaled_seconds
from turnbuckle.cost.slack import (
    COMMAND_TRIPS,
    READ_TRIPS,
    REPORT_TRIPS,
    RETURN_TRIPS,
    slack_seconds,
    trip_seconds,
)
from turnbuckle.foundation import registry
from turnbuckle.foundation.arrays import Bool, Float, Text, or_zero
from turnbuckle.foundation.errors import clipped, did_you_mean, error_of
from turnbuckle.machine.parameter_names import (
    HOST_WAYS,
    READS_IN_FLIGHT,
    HostWay,
    LinkWay,
    ParameterName,
    link_parameter,
    observed_parameter,
    parameter_name,
)
from turnbuckle.profile.classify import CALL_CLASSES
from turnbuckle.profile.pieces import UNSIZED, Pieces
from turnbuckle.projection.elsewhere.foreign import held_charge
from turnbuckle.projection.elsewhere.given import KernelTable
from turnbuckle.projection.elsewhere.kernels import ALPHA_RATES, kernel_seconds
from turnbuckle.projection.elsewhere.priors import UNRECORDED, Elsewhere, repaged, restaged

Anchor = Literal["ratio", "difference", "absolute"]
#: Smallest and largest improvement that a class of time can be divided by, as of kernels.
LAMBDAS: Final = (1e-3, 1e3)
#: How activities add up; auto is the timeline where the recorded order can be trusted, else the
#: sum.
Replay = Literal["auto", "sum", "timeline"]
#: How a program is ported to a target with one memory: its copies stay, are dropped, or give way to
#: managed memory; empty drops them, and leaves in doubt whether they stay.
Port = Literal["", "as-is", "zero-copy", "managed"]
#: Where a delay falls on the time line: on an activity itself, before device work begins, before a
#: wait returns, or between the end of work and the start of the next in its queue.
Falls = Literal["activity", "delivery", "return", "queue"]


class Priced(Protocol):
    """A machine as a cost sees it: a value for a parameter name, or None.  Arrays of draws have
    shape (draws, 1).
    """

    def value(self, name: ParameterName) -> Float | float | None:
        """Return the value in SI units."""

    @property
    def copies_vanish(self) -> bool:
        """Return whether host and device share one memory, so that a copy costs nothing."""


@dataclass(frozen=True)
class Charge:
    """One line of a model's price list.

    Attributes
    ----------
    name : what it charges for.
    covers : which pieces.
    seconds : price of one activity on (machine, source): shape (..., pieces covered) [s]; None
        where a parameter is missing.
    anchor : ``ratio``: measured x target / source; ``difference``: measured + target - source;
        ``absolute``: target.  Only the first two leave the measured time where source and target
        are one machine.
    needs : parameters it reads; where one is missing the measured time stays, and a finding says
        so.
    kept : those of them that are taken over from the source where the target does not give them; a
        finding says so too.
    fitted : whether it follows a line fitted to the run's own copies, and so shares that line's
        scatter.
    falls : where a ``difference`` falls on the time line.
    replayed : which pieces it covers there, None for those of `covers`.  The sum has to guess from
        the recording which delays can be felt, and where; the timeline puts each where it happens
        and finds out.
    only : a parameter without which it charges nothing on a machine; None where there is none.
    """

    name: str
    covers: Callable[[Pieces], Bool]
    seconds: Callable[[Pieces, Priced, Priced], Float | None]
    anchor: Anchor
    needs: tuple[ParameterName, ...] = ()
    kept: tuple[ParameterName, ...] = ()
    fitted: bool = False
    falls: Falls = "activity"
    replayed: Callable[[Pieces], Bool] | None = None
    only: ParameterName | None = None


@dataclass(frozen=True)
class Model:
    """Price list and replay, with the paper it comes from.

    Attributes
    ----------
    name : how the command line calls it.
    sentence : what it charges, in one sentence.
    paper : where it was published.
    charges : the price list.
    replay : how activities add up; ``auto`` is the timeline where the recorded order can be
        trusted, else the sum.
    alpha : how much faster kernels run on the target, as in `nething`.
    machine_free : whether its charges hold all that changes, so that it has no target machine.
    host : how many times faster the target's host is, where the user states it; None takes what the
        machines say.
    port : how the program is ported to one memory.
    kernels : what the user states of kernels on the target; None for nothing.
    carded : whether the accuracy card has rows for its run times.
    """

    name: str
    sentence: str
    paper: str
    charges: tuple[Charge, ...]
    replay: Replay = "sum"
    alpha: float | str = "auto"
    machine_free: bool = False
    host: float | None = None
    port: Port = ""
    kernels: KernelTable | None = None
    carded: bool = False


def nething(
    alpha: float | str = "auto",
    charges: Sequence[str] = (),
    host: float | None = None,
    port: Port = "",
    kernels: KernelTable | None = None,
) -> Model:
    """Build the model: copies by LogGP on the target's link, launches and waits by their latency,
    kernels by `alpha`.

    Parameters
    ----------
    alpha : how much faster kernels run on the target: ``"auto"`` (each by its launch and name:
        `projection.elsewhere.kernels`), a number, ``"flop"`` (ratio of double precision rates),
        ``"memory"`` (ratio of memory bandwidths) or ``"hold"`` (kernels keep their time).
    charges : names of further charges, of packages of third parties (entry points
        ``turnbuckle.charges``), which come on top.
    host : how many times faster the target's host runs the code between calls; None takes what the
        machines say, else a prior.
    kernels : ratios that the user states for kernels of a name; with ``"auto"`` alone.
    port : what becomes of copies where CPU and GPU share one memory: ``"as-is"`` (they stay),
        ``"zero-copy"`` (they are dropped; over a coherent link the bytes cross it as kernels use
        them) or ``"managed"`` (pages move instead); empty drops them, and the interval holds that
        they stay.

    Raises
    ------
    UsageError : A429 for a charge that no installed package has.
    """
    priced = [
        *(_copy_charge(direction, port) for direction in HOST_WAYS),
        *(_migration_charge(direction) for direction in HOST_WAYS),
        Charge(
            "p2p",
            lambda p: p.kind == "copy_p2p",
            _p2p_seconds,
            "ratio",
            ("link.p2p.bandwidth",),
            fitted=True,
        ),
        Charge(
            "launch",
            lambda p: (p.kind == "launch") & p.idle_device,
            _parameter("launch.latency"),
            "difference",
            ("launch.latency",),
            falls="delivery",
            replayed=lambda p: p.kind == "launch",
        ),
        Charge(
            "launch call",
            lambda p: (p.kind == "launch") & ~p.idle_device,
            _parameter("launch.call"),
            "difference",
            ("launch.call",),
            replayed=lambda p: p.kind == "launch",
        ),
        Charge(
            "sync",
            lambda p: p.kind == "sync",
            _parameter("sync.return"),
            "difference",
            ("sync.return",),
            falls="return",
        ),
        Charge(
            "alloc",
            lambda p: p.kind == "alloc",
            _parameter("alloc.call"),
            "difference",
            ("alloc.call",),
        ),
        Charge("slack", lambda p: p.crosses, _slack_seconds, "difference"),
        *_distance_charges(),
        *_remoting_charges(),
    ]
    if alpha != "hold":
        memory: ParameterName = "gpu.memory_bandwidth"
        priced += [
            Charge(
                "kernel",
                lambda p: p.kind == "kernel",
                kernel_seconds(alpha, kernels),
                "ratio",
                ALPHA_RATES.get(str(alpha), ()),
            ),
            Charge(
                "copies inside a device",
                lambda p: p.kind == "copy_d2d",
                _inside_seconds,
                "ratio",
                (memory,),
            ),
            Charge(
                "memset", lambda p: p.kind == "memset", _parameter(memory, -1), "ratio", (memory,)
            ),
        ]
    return Model(
        "nething",
        "copies by LogGP, launches by latency, kernels by alpha"
        + "".join(f", {name}" for name in charges),
        "Groves et al., PMBS 2022",
        (*priced, *map(charge_named, charges)),
        alpha=alpha,
        host=host,
        port=port,
        kernels=kernels,
        carded=not charges and not port and host is None and kernels is None,
    )


def ported(model: Model, port: Port) -> Model:
    """Return the model with the program ported to one memory in another way."""
    copies = {f"copy_{direction}": direction for direction in HOST_WAYS}
    return replace(
        model,
        port=port,
        charges=tuple(
            _copy_charge(copies[c.name], port) if c.name in copies else c for c in model.charges
        ),
    )


def with_kernels(model: Model, kernels: KernelTable) -> Model:
    """Return the model with another table of kernels."""
    cost = kernel_seconds(model.alpha, kernels)
    return replace(
        model,
        kernels=kernels,
        charges=tuple(replace(c, seconds=cost) if c.name == "kernel" else c for c in model.charges),
    )


def coupling_alone(model: Model) -> Model:
    """Return the model with the kernels and the host of the recording: what the coupling changes by
    itself.
    """
    device = ("kernel", "copies inside a device", "memset")
    return replace(
        model,
        charges=tuple(c for c in model.charges if c.name not in device),
        alpha="hold",
        host=1.0,
        kernels=None,
    )


def charge_named(name: str) -> Charge:
    """Return the charge of that name from the registry.  Raises A429 where no installed package has
    it, A503 where it is no charge.
    """
    charges = registry.entries("charges")
    if name not in charges:
        fix = did_you_mean(name, charges) or (
            f"one of {', '.join(charges)}" if charges else "install the package that has it"
        )
        raise error_of("A429", fix=fix, name=clipped(name))
    return held_charge(charges[name], Charge, (Anchor, Falls))


def additive(lambdas: dict[str, float]) -> Model:
    """Build the model that divides each class of time by its lambda; waiting is never scaled.

    Parameters
    ----------
    lambdas : improvement by class: ``data`` (copies and migrations), ``kernel``, and any class of
        host call (``launch``, ``copy``, ``alloc``, ``event``, ...); ``control`` stands for all
        classes not named, except ``sync``, which is waiting (D2).

    Raises
    ------
    UsageError : A004 for an unknown class, waiting, or a lambda outside `LAMBDAS`; A005 without
        any.
    """
    classes = ["data", "kernel", "control", *(c for c in CALL_CLASSES if c != "sync")]
    for name, improvement in lambdas.items():
        if name == "sync":
            raise error_of("A004.waiting", found=name)
        if name not in classes:
            raise error_of(
                "A004.class",
                found=name,
                fix=did_you_mean(name, classes) or None,
                name=name,
                known=", ".join(classes),
            )
        if not LAMBDAS[0] <= improvement <= LAMBDAS[1]:
            raise error_of("A004.sign", found=str(improvement), name=name)
    if not lambdas:
        raise error_of("A005")
    moved = ("copy_h2d", "copy_d2h", "migration")

    def factor(name: str, covers: Callable[[Pieces], Bool]) -> Charge:
        improvement = lambdas[name]

        def seconds(p: Pieces, machine: Priced, source: Priced) -> Float:
            return scaled_seconds(
                np.ones(int(covers(p).sum())), 1.0 if machine is source else improvement
            )

        return Charge(name, covers, seconds, "ratio")

    named = set(lambdas) - {"data", "kernel", "control"}
    charges = [factor(name, lambda p, n=name: p.call_class == n) for name in sorted(named)]  # type: ignore[misc]
    if "control" in lambdas:
        charges.append(
            factor(
                "control",
                lambda p: (p.category == "api") & ~np.isin(p.call_class, [*named, "sync"]),
            )
        )
    if "data" in lambdas:
        charges.append(factor("data", lambda p: np.isin(p.kind, moved)))
    if "kernel" in lambdas:
        charges.append(factor("kernel", lambda p: p.kind == "kernel"))
    return Model(
        "additive",
        "each class of time divided by its lambda",
        "Austin et al. 2021, eqs 3-4",
        tuple(charges),
        alpha="hold",
        machine_free=True,
    )


# --- prices ---------------------------------------------------------------------------------------


def link_bandwidth(machine: Priced, direction: LinkWay, source: Priced) -> Float | float | None:
    """Return the bandwidth of a pinned copy on a link [B/s]: eta BW (observed eta where none is
    stated), limited by reads in flight.
    """
    nominal = machine.value(link_parameter(direction, "bandwidth"))
    if nominal is None:
        return None
    efficiency = machine.value(link_parameter(direction, "efficiency"))
    if efficiency is None:
        efficiency = source.value(link_parameter(direction, "efficiency"))
    reached = np.minimum(1.0 if efficiency is None else efficiency, 1.0) * nominal
    tags, request, trip = (machine.value(n) for n in READS_IN_FLIGHT)
    if direction != "h2d" or tags is None or request is None or trip is None:
        return reached
    distance = machine.value("slack.link")
    if distance is not None and source.value("slack.link") is None:
        # what the same GPU reached there it had in flight (Little's law)
        there = link_bandwidth(source, direction, source)
        tags = tags if there is None else np.maximum(tags, there * trip / request)
    return read_limited_bandwidth(
        reached, tags, request, trip + trip_seconds(READ_TRIPS, or_zero(distance))
    )


def _link_charge(
    name: str,
    covers: Callable[[Pieces], Bool],
    seconds: Callable[[Pieces, Priced, Priced], Float | None],
    direction: HostWay,
) -> Charge:
    latency = link_parameter(direction, "latency")
    return Charge(
        name,
        covers,
        seconds,
        "ratio",
        (link_parameter(direction, "bandwidth"), latency),
        (latency,),
        fitted=True,
    )


def _copy_charge(direction: HostWay, port: Port = "") -> Charge:
    kind = f"copy_{direction}"

    def covers(p: Pieces) -> Bool:
        return np.asarray(p.kind == kind)

    def seconds(p: Pieces, machine: Priced, source: Priced) -> Float | None:
        mask = p.rows(covers)
        if machine is not source and port == "zero-copy" and not machine.copies_vanish:
            # kernels write as fast as they read: 379 and 393 GB/s on GH200
            across = link_bandwidth(machine, "h2d", source)
            return None if across is None else loggp_seconds(p.size_bytes[mask], 0.0, across)
        if machine is not source and (bandwidth := ported_bandwidth(machine, port)) is not None:
            name = link_parameter(direction, "latency")
            latency = source.value(name) if machine.value(name) is None else machine.value(name)
            staged = machine.value("package.staging_threshold") if port == "as-is" else None
            twice = (p.memory[mask] == "pageable") & (
                p.size_bytes[mask] < (0.0 if staged is None else staged)
            )
            return loggp_seconds(
                p.size_bytes[mask] * np.where(twice, 2.0, 1.0), or_zero(latency), bandwidth
            )
        if machine.copies_vanish:
            return np.zeros(int(mask.sum()))
        return _class_seconds(p.size_bytes[mask], p.memory[mask], direction, machine, source)

    return _link_charge(kind, covers, seconds, direction)


def ported_bandwidth(machine: Priced, port: Port) -> Float | float | None:
    """Return the rate of copies as the program is ported to one memory [B/s]; None where they are
    dropped or cross a link as recorded.
    """
    if port == "managed":
        return machine.value("package.managed_bandwidth")
    if port != "as-is" or not machine.copies_vanish:
        return None
    stated, memory = machine.value("package.copy_bandwidth"), machine.value("gpu.memory_bandwidth")
    # read once, written once
    return stated if stated is not None else None if memory is None else memory / 2.0


def _migration_charge(direction: HostWay) -> Charge:
    def covers(p: Pieces) -> Bool:
        return np.asarray((p.kind == "migration") & (p.direction == f"migration_{direction}"))

    def seconds(p: Pieces, machine: Priced, source: Priced) -> Float | None:
        mask = p.rows(covers)
        if machine.copies_vanish:
            return np.zeros(int(mask.sum()))
        memory = np.where(p.memory[mask] == UNSIZED, UNSIZED, "migration").astype(object)
        return _class_seconds(p.size_bytes[mask], memory, direction, machine, source)

    return _link_charge(f"migration_{direction}", covers, seconds, direction)


def _class_seconds(
    size: Float, memory: Text, direction: HostWay, machine: Priced, source: Priced
) -> Float | None:
    """Price copies by LogGP per memory class: the link's line, plus what the class cost beyond its
    link on the source [s].

    On another host, pageable memory is staged at the rate recorded, and never faster than the link
    there; over a coherent link it crosses as pinned memory does.
    """
    source_bandwidth, target_bandwidth = (
        link_bandwidth(source, direction, source),
        link_bandwidth(machine, direction, source),
    )
    source_latency, target_latency = (
        source.value(link_parameter(direction, "latency")),
        machine.value(link_parameter(direction, "latency")),
    )
    if target_bandwidth is None or source_latency is None:
        return None
    if source_bandwidth is None:  # nothing is known of what copies cost beyond their link
        source_bandwidth = target_bandwidth
    # the target's file gives none: keep the source's, and a finding says so
    if target_latency is None:
        target_latency = source_latency
    parts: list[tuple[Bool, Float]] = []
    for word in dict.fromkeys(memory.tolist()):
        rows = memory == word
        if word == UNSIZED:  # alike on both machines: what is not known is not changed
            parts.append((rows, np.ones(int(rows.sum()))))
            continue
        class_bandwidth = source.value(observed_parameter(direction, word, "bandwidth"))
        class_latency = source.value(observed_parameter(direction, word, "latency"))
        bytes_cost = _byte_seconds(
            size[rows],
            word,
            class_bandwidth,
            (source_bandwidth, target_bandwidth),
            direction,
            machine,
        )
        fixed = on_other_link(
            source_latency if class_latency is None else class_latency,
            source_latency,
            target_latency,
        )
        parts.append((rows, loggp_seconds(size[rows], fixed, rate(bytes_cost))))
    out = np.zeros((*np.broadcast_shapes(*(part.shape[:-1] for _, part in parts)), len(size)))
    for rows, part in parts:
        out[..., rows] = part
    return out


_Rate = Float | float


def _byte_seconds(
    size: Float,
    memory: str,
    observed: _Rate | None,
    bandwidths: tuple[_Rate, _Rate],
    direction: HostWay,
    machine: Priced,
) -> Float:
    """Return what a byte of one memory class costs on a machine [s/B].

    Parameters
    ----------
    size : of the copies [B].
    memory : their class.
    observed : bandwidth of the class in the recording [B/s]; None where it is not shown.
    bandwidths : of the link on source and target [B/s].
    """
    source, target = (np.asarray(1.0 / bandwidth) for bandwidth in bandwidths)
    of_class = source if observed is None else np.asarray(1.0 / observed)
    if isinstance(machine, Elsewhere):
        if memory == "pageable" and restaged(machine.pair):
            return machine.staged(size, None if observed is None else of_class, target, direction)
        if memory == "migration" and repaged(machine.pair):
            return machine.migrated(of_class, source, target)
    return on_other_link(of_class, source, target)


def _inside_seconds(p: Pieces, machine: Priced, source: Priced) -> Float | None:
    """Price copies inside a device: a fixed part, and bytes read and written at the share of its
    memory's rate that the source shows.

    Where the source shows no such copy, the fixed part is that of a copy to the host.
    """
    size, peak = p.size_bytes[p.kind == "copy_d2d"], machine.value("gpu.memory_bandwidth")
    if peak is None:
        return None
    latency, reached, source_peak = (
        source.value(n)
        for n in ("observed.d2d.latency", "observed.d2d.bandwidth", "gpu.memory_bandwidth")
    )
    if latency is None and reached is None:
        latency = source.value("link.d2h.latency")
    share = 1.0 if reached is None or source_peak is None else 2.0 * reached / source_peak
    late, longer = (
        machine.inside(reached is not None) if isinstance(machine, Elsewhere) else (1.0, 1.0)
    )
    each = (0.0 if latency is None else latency) * late + 2.0 * size / (peak * share) * longer
    return np.asarray(np.where(p.memory[p.kind == "copy_d2d"] == UNSIZED, 1.0 / peak, each))


def _p2p_seconds(p: Pieces, machine: Priced, source: Priced) -> Float | None:
    mask = p.kind == "copy_p2p"
    bandwidth = machine.value("link.p2p.bandwidth")
    if bandwidth is None:
        return None
    efficiency = machine.value("link.p2p.efficiency")
    if efficiency is None:
        efficiency = source.value("link.p2p.efficiency")
    latency = machine.value("link.p2p.latency")
    if latency is None:
        latency = source.value("link.p2p.latency")
    each = loggp_seconds(
        p.size_bytes[mask],
        0.0 if latency is None else latency,
        (1.0 if efficiency is None else efficiency) * bandwidth,
    )
    return np.asarray(np.where(p.memory[mask] == UNSIZED, 1.0, each))


def _parameter(
    name: ParameterName, power: int = 1
) -> Callable[[Pieces, Priced, Priced], Float | None]:
    def seconds(p: Pieces, machine: Priced, source: Priced) -> Float | None:
        value = machine.value(name)
        return None if value is None else np.asarray(value, dtype=np.float64) ** power

    return seconds


def _slack_seconds(p: Pieces, machine: Priced, source: Priced) -> Float:
    return slack_seconds(p.crosses[p.crosses], or_zero(machine.value("slack.call")))


def _distance_charges() -> list[Charge]:
    """Return charges for a longer link: what each operation waits for, trip by trip
    (`turnbuckle.cost.slack`).
    """

    def trips(number: int, commands: bool = False) -> Callable[[Pieces, Priced, Priced], Float]:
        def seconds(p: Pieces, machine: Priced, source: Priced) -> Float:
            stated = machine.value("link.command_trips") if commands else 0
            return trip_seconds(
                number + (COMMAND_TRIPS if stated is None else stated),
                or_zero(machine.value("slack.link")),
            )

        return seconds

    def commanded(p: Pieces) -> Bool:
        return np.asarray(
            ((p.kind == "launch") & p.idle_device) | np.isin(p.kind, ("copy_h2d", "copy_d2h"))
        )

    def queued(p: Pieces) -> Bool:
        return np.isin(p.call_class, ("launch", "copy", "memset"))

    def read(p: Pieces) -> Bool:
        fetched = (p.kind == "migration") & (p.direction == "migration_h2d")
        return (p.kind == "copy_h2d") | fetched  # type: ignore[no-any-return]

    return [
        Charge(
            "distance of commands",
            commanded,
            trips(0, commands=True),
            "difference",
            falls="delivery",
            replayed=queued,
        ),
        Charge("distance of reads", read, trips(READ_TRIPS), "difference"),
        Charge(
            "distance of faults",
            lambda p: p.kind == "migration",
            trips(REPORT_TRIPS, commands=True),
            "difference",
        ),
        Charge(
            "distance of returns",
            lambda p: p.kind == "sync",
            trips(RETURN_TRIPS),
            "difference",
            falls="return",
        ),
    ]


def _remoting_charges() -> list[Charge]:
    """Return charges for calls that cross a network to a GPU on another host, by the manner of each
    class (`turnbuckle.cost.remoting`).
    """
    Mask = Callable[[Pieces], Bool]

    def manner(machine: Priced, word: str) -> int:
        value = machine.value(parameter_name(f"remoting.{word}"))
        # a class of which nothing is known waits
        return remoting.WAITS if value is None else int(np.max(value))

    def charge(
        cost: Callable[..., Float],
        word: str,
        covers: Mask,
        falls: Falls = "activity",
        replayed: Mask | None = None,
    ) -> Charge:
        def seconds(p: Pieces, machine: Priced, source: Priced) -> Float:
            trip = machine.value("remoting.round_trip")
            return (
                np.zeros(())
                if trip is None
                else cost(manner(machine, word), trip, *_message_seconds(machine, word))
            )

        name = f"remoting: {cost.__name__.removesuffix('_seconds')} of {word}"
        return Charge(
            name,
            covers,
            seconds,
            "difference",
            falls=falls,
            replayed=replayed,
            only="remoting.round_trip",
        )

    def batch(word: str, covers: Mask, falls: Falls, replayed: Mask | None = None) -> Charge:
        def seconds(p: Pieces, machine: Priced, source: Priced) -> Float:
            trip, (command, _) = (
                machine.value("remoting.round_trip"),
                _message_seconds(machine, word),
            )
            if trip is None:
                return np.zeros(())
            return remoting.batch_seconds(
                manner(machine, "launch"), manner(machine, word), trip, command
            )

        return Charge(
            f"remoting: batch of {word}",
            covers,
            seconds,
            "difference",
            falls=falls,
            replayed=replayed,
            only="remoting.round_trip",
        )

    def data(word: str, side: HostWay) -> Charge:
        bandwidth = parameter_name(f"remoting.{side}.bandwidth")

        def covers(p: Pieces) -> Bool:
            return np.asarray(
                np.isin(p.kind, (f"copy_{side}", "migration"))
                & np.isin(p.direction, (side, f"migration_{side}"))
            )

        def seconds(p: Pieces, machine: Priced, source: Priced) -> Float:
            return remoting.data_seconds(
                p.size_bytes[p.rows(covers)],
                machine.value(bandwidth),
                or_zero(machine.value("remoting.byte")),
            )

        return Charge(
            f"remoting: data of {word}", covers, seconds, "difference", only="remoting.round_trip"
        )

    def unrecorded(p: Pieces, machine: Priced, source: Priced) -> Float:
        calls, trip = machine.value(UNRECORDED), machine.value("remoting.round_trip")
        if trip is None:
            return np.zeros(())
        command, answer = _message_seconds(machine)
        waiting = or_zero(calls) * remoting.call_seconds(remoting.WAITS, trip, command, answer)
        return np.asarray(
            waiting + or_zero(machine.value("remoting.commands_unrecorded")) * command
        )

    def starting(word: str) -> Callable[[Pieces], Bool]:
        # in the sum, a launch behind other work starts no later, and a copy stands for its call
        return lambda p: (
            p.idle_device & (p.kind == "launch") if word == "launch" else remoting.WORK[word](p)
        )

    def plain(word: str) -> Callable[[Pieces], Bool]:
        return lambda p: (
            remoting.CALLS[word](p) & (~remoting.waiting(p) if word != "wait" else True)
        )

    return [
        *(charge(remoting.call_seconds, word, plain(word)) for word in remoting.CALLS),
        Charge(
            "remoting: calls not recorded",
            remoting.launches,
            unrecorded,
            "difference",
            only="remoting.round_trip",
        ),
        charge(remoting.return_seconds, "wait", remoting.nothing, "return", remoting.CALLS["wait"]),
        charge(remoting.news_seconds, "write", remoting.blocking_writes, "return"),
        charge(remoting.news_seconds, "read", remoting.blocking_copies, "return"),
        *(
            charge(remoting.start_seconds, word, starting(word), "delivery", remoting.CALLS[word])
            for word in remoting.WORK
        ),
        *(
            charge(remoting.queue_seconds, word, covers, "queue")
            for word, covers in remoting.WORK.items()
        ),
        batch("read", remoting.WORK["read"], "queue"),
        batch("wait", remoting.nothing, "return", remoting.CALLS["wait"]),
        data("writes", "h2d"),
        data("reads", "d2h"),
    ]


def _message_seconds(machine: Priced, word: str = "") -> tuple[Float, Float]:
    """Return the time of a command of a class of calls, software and bytes, and that of an answer's
    bytes [s].
    """
    sent = remoting.size_seconds(
        machine.value("remoting.command_bytes"), machine.value("remoting.h2d.bandwidth")
    )
    answer = remoting.size_seconds(
        machine.value("remoting.answer_bytes"), machine.value("remoting.d2h.bandwidth")
    )
    software = machine.value("remoting.launch_command") if word == "launch" else None
    return sent + or_zero(
        machine.value("remoting.command") if software is None else software
    ), answer
