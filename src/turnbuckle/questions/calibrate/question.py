"""Machine parameters from measurements: each with its error, interval and source.

Curves give latency and rate (`turnbuckle.questions.calibrate.curve_fit`); rates become shares of
the nominal rate of a base, or stand for themselves where there is no base.  Nothing is guessed:
what was not measured is the base's, or absent, and the answer says so.

Errors:

    M017  a base that describes changes
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.machine import Machine, load
from turnbuckle.machine.machine import schema
from turnbuckle.machine.measured.logs import Curve, Measured, Quantity, read_measured, split_part
from turnbuckle.machine.parameter_names import (
    HOST_WAYS,
    LINK_WAYS,
    LinkWay,
    ParameterName,
    link_parameter,
    parameter_name,
)
from turnbuckle.machine.recognition.device_names import device_words, is_slice
from turnbuckle.questions.calibrate.calibration import (
    DIRECT,
    NINETY,
    QUANTITIES,
    STATED,
    Calibration,
    Estimate,
    Origin,
)
from turnbuckle.questions.calibrate.curve_fit import CurveFit, fit_curve, step_of

#: One run does not show what another run would: no median is believed better than this.
RUN_TO_RUN: Final = 0.02
#: Error of a rate whose copies have no size: a copy of 64 MiB still holds about this much latency.
UNSIZED: Final = 0.01
#: A measured rate this far above a nominal one contradicts it.
ABOVE: Final = 1.02
#: Beyond this median error a curve is no line at all: its rate is read off its largest copies.
NO_LINE: Final = 0.10


def calibrate(files: Sequence[tuple[Origin, Measured]], base: Machine | None = None) -> Calibration:
    """Fit curves, and name the results that are parameters of the schema.

    Parameters
    ----------
    files : what was read, with its origin.
    base : the machine that gives what was not measured.

    Raises
    ------
    MachineError : M017.
    """
    if base is not None and base.relative:
        raise error_of("M017", where=base.file, name=base.name)
    gathered = _Gathered(base)
    fits: list[tuple[Origin, CurveFit]] = []
    for origin, measured in files:
        for quantity in measured.quantities:
            gathered.quantity(origin, quantity)
        for curve in measured.curves:
            gathered.calls(origin, curve)
            if curve.means != "call" and (fitted := fit_curve(curve)) is not None:
                fits.append((origin, fitted))
                gathered.curve(origin, fitted)
            elif curve.means != "call":
                gathered.few(origin, curve)
    parameters, others = gathered.chosen()
    measured_names = {e.name for e in parameters}
    findings = [*gathered.findings, *(f for _, m in files for f in m.findings)]
    if broken := [f"{o.file}: {f.curve.name}" for o, f in fits if f.broken]:
        findings.append(finding("A358", len(broken), ", ".join(broken[:6])))
    unkeyed = [e for e in others if e.name not in schema()]
    if unkeyed:
        findings.append(
            finding("A359", len(unkeyed), ", ".join(dict.fromkeys(e.name for e in unkeyed)))
        )
    kept = tuple(n for n in base.parameters if n not in measured_names) if base else ()
    surface, merged, origins = (
        tuple(p for _, m in files for p in m.surface),
        tuple(merge(findings)),
        tuple(o for o, _ in files),
    )
    return Calibration(
        tuple(parameters), tuple(others), tuple(fits), kept, surface, merged, base, origins
    )


#: Which means is believed first, for the rate and for the latency of a copy.
_RATE_RANK: Final = {"copy": 0.0, "event": 0.5, "queued": 2.0, "host": 3.0, "nccl": 4.0, "mpi": 5.0}
_LATENCY_RANK: Final = {
    "queued": 0.0,
    "copy": 0.5,
    "event": 1.0,
    "host": 3.0,
    "nccl": 4.0,
    "mpi": 5.0,
}
_PAGEABLE_RANK: Final = {"copy": 0.0, "host": 1.0, "event": 2.0}


class _Gathered:
    """Everything measured, by name; shares of nominal rates are computed at the end."""

    def __init__(self, base: Machine | None) -> None:
        self.base = base
        self.by_name: dict[str, list[Estimate]] = {}
        self.findings: list[Finding] = []
        self.unsized: list[str] = []
        self.used: set[str] = set()

    def add(
        self,
        name: str,
        value: float,
        unit: str,
        error: float,
        origin: Origin,
        where: str,
        note: str = "",
        rank: float = 0.0,
    ) -> None:
        if not math.isfinite(value) or value <= 0:
            return
        source, short = origin.words(where), f"{origin.file}: {where}"
        estimate = Estimate(
            name,
            value,
            unit,
            min(error, 3.0),
            "measured",
            source,
            short,
            note,
            name in schema(),
            rank,
        )
        self.by_name.setdefault(name, []).append(estimate)

    def quantity(self, origin: Origin, q: Quantity) -> None:
        error = (
            0.0
            if q.what in STATED
            else math.hypot(q.error, RUN_TO_RUN, UNSIZED if q.unsized else 0.0)
        )
        if q.unsized:
            self.unsized.append(f"{origin.file}: {q.what}")
        name = q.what.removesuffix(".pinned") if q.what.startswith("rate.") else q.what
        self.add(
            DIRECT.get(name, name),
            q.value,
            q.unit,
            error,
            origin,
            q.where,
            q.note,
            1.0 if q.unsized else 0.0,
        )

    def calls(self, origin: Origin, curve: Curve) -> None:
        """Find how the time of a call of pageable copies jumps with their size."""
        if curve.means == "call" and (step := step_of(curve)) is not None:
            below, above, times = step
            middle, where = math.sqrt(below * above), _where(curve)
            note = (
                f"the call takes {times:.3g} times as long from {above:.0f} B on as up to "
                f"{below:.0f} B"
            )
            # the interval is the two sizes themselves
            self.add(
                f"pageable.threshold.{curve.direction}",
                middle,
                "B",
                math.log(above / below) / 2 / NINETY,
                origin,
                where,
                note,
            )

    def few(self, origin: Origin, curve: Curve) -> None:
        """Take the rate of the largest size of a curve with too few sizes for a line, if latency
        does not matter there.
        """
        if curve.size_bytes[-1] < 16 << 20:
            self.findings.append(
                finding(
                    "A333",
                    len(curve.size_bytes),
                    (
                        f"{origin.file}: {len(curve.size_bytes)} points of {curve.name}: too few "
                        "sizes for a line"
                    ),
                )
            )
            return
        rate = float(curve.size_bytes[-1] / curve.seconds[-1])
        coarse = float(curve.resolution[-1]) if len(curve.resolution) else 0.0
        error = math.hypot(RUN_TO_RUN, UNSIZED, coarse)
        where = f"{_where(curve)}, its largest size {curve.size_bytes[-1]:.0f} B"
        for name, rank in self._rates(curve):
            self.add(
                name,
                rate,
                "B/s",
                error,
                origin,
                where,
                "one size: the latency is in it",
                rank + 1.0,
            )

    def _rates(self, curve: Curve) -> list[tuple[str, float]]:
        if curve.means == "period":
            return []
        direction, unsure = curve.direction, 0.25 if curve.memory == "unknown" else 0.0
        if direction in ("h2d", "d2h") and curve.means in _PAGEABLE_RANK | _RATE_RANK:
            if curve.memory == "pageable":
                return [(f"rate.pageable.{direction}", _PAGEABLE_RANK.get(curve.means, 9.0))]
            if curve.memory in ("pinned", "unknown") and curve.means not in ("mpi", "nccl"):
                return [(f"rate.{direction}", _RATE_RANK[curve.means] + unsure)]
            return []
        if direction in ("p2p", "d2d") and curve.means in _RATE_RANK:
            return [(f"rate.{direction}", _RATE_RANK[curve.means])]
        if direction == "network":
            return [("nic.bandwidth", 0.0 if curve.memory == "unknown" else 1.0)]
        return []

    def curve(self, origin: Origin, fit: CurveFit) -> None:
        curve, where = fit.curve, _where(fit.curve)
        first = fit.pieces[0]
        rate, error, method = _rate(fit)
        error = math.hypot(error, RUN_TO_RUN)
        off = (
            f"held-out sizes: {fit.held_median:.1%} median, {fit.held_worst:.0%} worst error"
            if fit.held_points
            else "too few sizes to hold some out"
        )
        shape = f"{len(fit.pieces)} lines by size; " if fit.broken else "one line; "
        for name, rank in self._rates(curve):
            self.add(name, rate, "B/s", error, origin, where, f"{shape}{method}; {off}", rank)
        latency, spread = first.latency, math.hypot(first.latency_error, RUN_TO_RUN)
        if curve.means == "period":
            self.add(
                f"copy.gap.{curve.direction}",
                latency,
                "s",
                spread,
                origin,
                where,
                "of small copies",
            )
            return
        host_way = next(
            (direction for direction in HOST_WAYS if direction == curve.direction), None
        )
        if (
            host_way is not None
            and curve.memory in ("pinned", "unknown")
            and curve.means in _LATENCY_RANK
        ):
            if curve.means in ("mpi", "nccl"):
                return
            defined = {
                "queued": "device time of a copy behind a busy kernel",
                "event": "between two events",
                "host": "as the host sees it",
            }
            rank = _LATENCY_RANK[curve.means] + (0.25 if curve.memory == "unknown" else 0.0)
            self.add(
                link_parameter(host_way, "latency"),
                latency,
                "s",
                spread,
                origin,
                where,
                defined.get(curve.means, "") or shape.strip("; "),
                rank,
            )
        elif curve.direction == "p2p" and not curve.streamed:
            note = (
                f"{shape}between two events"
                if curve.means == "event"
                else f"{shape}by {curve.means}"
            )
            self.add(
                "link.p2p.latency",
                latency,
                "s",
                spread,
                origin,
                where,
                note,
                _LATENCY_RANK.get(curve.means, 9.0),
            )
        elif curve.direction == "network" and not curve.streamed:
            ends = "host memories" if curve.memory == "unknown" else "device memories"
            smallest = float(curve.seconds[0])
            self.add(
                "nic.latency",
                smallest,
                "s",
                spread,
                origin,
                f"{where}, its smallest message",
                f"between {ends}, by {curve.means}",
                0.0 if curve.memory == "unknown" else 1.0,
            )
        elif curve.direction == "kernel":
            self.add("launch.gap", latency, "s", spread, origin, where, curve.name)
            self.add(
                "device.stream",
                rate,
                "B/s",
                error,
                origin,
                where,
                f"largest kernels; {shape}{off}",
                2.0,
            )
        elif curve.direction in ("collective", "mapped_h2d", "mapped_d2h", "h2h", "several"):
            note = (
                f"{curve.name}; --between-nodes says that its ranks were on two nodes"
                if curve.direction == "h2h"
                else curve.name
            )
            if not curve.streamed:
                self.add(f"{curve.direction}.latency", latency, "s", spread, origin, where, note)
            self.add(f"{curve.direction}.rate", rate, "B/s", error, origin, where, note)

    # parameters derived from the measurements

    def best(self, name: str, uses: bool = True) -> Estimate | None:
        """Return the measurement of the best rank; `uses` marks it as the source of another
        number.
        """
        estimates = self.by_name.get(name)
        if estimates and uses and name.startswith(("rate.", "device.", "memory.", "host.")):
            self.used.add(name)
        return min(estimates, key=lambda e: e.rank) if estimates else None

    def chosen(self) -> tuple[list[Estimate], list[Estimate]]:
        self._event_latency()
        out: dict[str, Estimate] = {}
        for name in list(self.by_name):
            if name in schema() and (best := self.best(name)):
                out[name] = best
        for direction in LINK_WAYS:
            self._link(direction, out)
        self._both_directions(out)
        self._pageable(out)
        self._memory(out)
        self._waits(out)
        self._device(out)
        self._agreement()
        if self.unsized:
            self.findings.append(finding("M105", len(self.unsized), ", ".join(self.unsized[:6])))
        kept = self._plausible(out)
        taken = {id(e) for e in kept.values()}
        others = [
            e
            for name, estimates in self.by_name.items()
            if name not in self.used
            for e in estimates
            if id(e) not in taken
        ]
        return [kept[n] for n in schema() if n in kept], others

    def _event_latency(self) -> None:
        """Subtract the time of two events from what they enclose."""
        empty = self.best("event.empty")
        for name in ("link.h2d.latency", "link.d2h.latency", "link.p2p.latency"):
            for k, e in enumerate(self.by_name.get(name, [])):
                if empty is None or "between two events" not in e.note or e.value <= empty.value:
                    continue
                value = e.value - empty.value
                error = math.hypot(e.value * e.error, empty.value * empty.error) / value
                note = (
                    f"{e.note}, less {empty.value * 1e6:.3g} us of two events with nothing between"
                )
                self.by_name[name][k] = replace(e, value=value, error=min(error, 3.0), note=note)

    def _nominal(self, name: ParameterName) -> float | None:
        return self.base.value(name) if self.base is not None else None

    def _derived(
        self, like: Estimate, name: ParameterName, value: float, error: float, note: str
    ) -> Estimate:
        return replace(
            like,
            name=name,
            value=value,
            error=error,
            unit=schema()[name].unit,
            note=note,
            keyed=True,
        )

    def _link(self, direction: LinkWay, out: dict[str, Estimate]) -> None:
        best = self.best(f"rate.{direction}")
        if best is None:
            return
        nominal, shown = (
            self._nominal(link_parameter(direction, "bandwidth")),
            f"{best.value / 1e9:.4g} GB/s",
        )
        self._share(
            best,
            link_parameter(direction, "bandwidth"),
            link_parameter(direction, "efficiency"),
            nominal,
            shown,
            out,
        )

    def _share(
        self,
        best: Estimate,
        nominal_name: ParameterName,
        share: ParameterName,
        nominal: float | None,
        shown: str,
        out: dict[str, Estimate],
    ) -> None:
        """Express a rate as a share of the nominal one.

        Without a nominal rate it stands for itself, and the share is 1 by definition.
        """
        if nominal is None:
            note = "what copies reached: no base states the nominal rate" + (
                f"; {best.note}" if best.note else ""
            )
            out[nominal_name] = self._derived(best, nominal_name, best.value, best.error, note)
            definition = "by definition: the bandwidth above is the one that was measured"
            out[share] = replace(
                out[nominal_name],
                name=share,
                value=1.0,
                error=0.0,
                unit="1",
                nature="spec",
                source=definition,
                where="definition",
                note="",
            )
        elif best.value > ABOVE * nominal:
            self._above(best, nominal)
        else:
            note = f"{shown} of {nominal / 1e9:.4g}" + (f"; {best.note}" if best.note else "")
            out[share] = self._derived(
                best, share, min(best.value / nominal, 1.0), best.error, note
            )

    def _above(self, best: Estimate, nominal: float) -> None:
        detail = f"{best.where}: {best.value / 1e9:.4g} GB/s of nominal {nominal / 1e9:.4g} GB/s"
        self.findings.append(finding("M108", 1, detail))

    def _bandwidth(self, direction: LinkWay, out: dict[str, Estimate]) -> float | None:
        measured = out.get(link_parameter(direction, "bandwidth"))
        return measured.value if measured else self._nominal(link_parameter(direction, "bandwidth"))

    def _both_directions(self, out: dict[str, Estimate]) -> None:
        best, bandwidth = (
            self.best("rate.both"),
            self._bandwidth("h2d", out) or self._bandwidth("d2h", out),
        )
        if best is None or bandwidth is None:
            return
        value, most = best.value / bandwidth, 1.0
        if value > ABOVE:
            self._above(best, bandwidth)
            return
        for direction in HOST_WAYS:
            measured = out.get(link_parameter(direction, "efficiency"))
            alone = (
                measured.value
                if measured
                else self._nominal(link_parameter(direction, "efficiency"))
            )
            if alone is not None:
                one_way = self._bandwidth(direction, out) or bandwidth
                most = min(most, alone * one_way / bandwidth, alone)
        note = f"{best.value / 1e9:.4g} GB/s each way" + (
            "; no more than one direction alone reaches" if value > most else ""
        )
        out["link.both.efficiency"] = self._derived(
            best, "link.both.efficiency", min(value, most), best.error, note
        )

    def _pageable(self, out: dict[str, Estimate]) -> None:
        """Derive one share for both directions: their mean, with half their difference as an
        error.
        """
        rates = [
            (w, e, bandwidth)
            for w in HOST_WAYS
            if (e := self.best(f"rate.pageable.{w}")) and (bandwidth := self._bandwidth(w, out))
        ]
        if not rates:
            return
        shares = [e.value / bandwidth for _, e, bandwidth in rates]
        value = sum(shares) / len(shares)
        differ = (max(shares) - min(shares)) / 2 / value
        error = math.hypot(max(e.error for _, e, _ in rates), differ)
        note = ", ".join(f"{w} {e.value / 1e9:.4g} GB/s" for w, e, _ in rates)
        if value > ABOVE:
            self._above(
                max((e for _, e, _ in rates), key=lambda e: e.value),
                max(bandwidth for _, _, bandwidth in rates),
            )
        else:
            out["link.pageable.efficiency"] = self._derived(
                rates[0][1], "link.pageable.efficiency", min(value, 1.0), error, note
            )

    def _memory(self, out: dict[str, Estimate]) -> None:
        best = self.best("device.stream")
        if best is None and (copies := self.best("rate.d2d")):
            best = replace(
                copies,
                value=2 * copies.value,
                note=f"copies inside the device, read and written; {copies.note}",
            )
        if best is None:
            return
        peak, stated = self._nominal("gpu.memory_bandwidth"), self.best("memory.peak")
        if peak is None and stated is not None:
            peak = stated.value
            peak_estimate = self._derived(stated, "gpu.memory_bandwidth", peak, 0.0, "")
            out["gpu.memory_bandwidth"] = replace(peak_estimate, nature="spec")
        self._share(
            best,
            "gpu.memory_bandwidth",
            "gpu.memory_efficiency",
            peak,
            f"{best.value / 1e9:.4g} GB/s",
            out,
        )

    def _waits(self, out: dict[str, Estimate]) -> None:
        """Derive times whose ends are on two clocks, by subtracting or adding the way of a store
        over the link.
        """
        trip, load = self.best("flag.round_trip"), self.best("load.host")
        store = load or trip
        if load is not None and self._nominal("link.tags") is None:
            out["link.round_trip"] = self._derived(
                load,
                "link.round_trip",
                load.value,
                load.error,
                f"a load of the device from host memory; {load.note}".strip("; "),
            )
        if store is None:
            return
        flight, uncertainty = store.value / 2, store.value / 2 * (0.3 if store is load else 0.5)
        shown = f"{flight * 1e6:.3g} us, half of {QUANTITIES[store.name]}"
        waits: tuple[tuple[ParameterName, str, int], ...] = (
            ("launch.latency", "launch.to_flag", -1),
            ("sync.return", "sync.seen", 1),
        )
        for name, quantity, sign in waits:
            if (estimate := self.best(quantity)) is None:
                continue
            value = estimate.value + sign * flight
            if value > 0:
                error = math.hypot(estimate.value * estimate.error, uncertainty) / value
                note = (
                    f"{QUANTITIES[quantity]} {estimate.value * 1e6:.3g} us, "
                    f"{'less' if sign < 0 else 'plus'} the way of the store, {shown}"
                )
                out[name] = self._derived(estimate, name, value, min(error, 3.0), note)

    def _device(self, out: dict[str, Estimate]) -> None:
        """Derive what matters only if the base says nothing better."""
        rates: tuple[tuple[ParameterName, str], ...] = (
            ("gpu.fp64", "fma.fp64"),
            ("gpu.fp32", "fma.fp32"),
        )
        for name, quantity in rates:
            if (estimate := self.best(quantity)) and self._nominal(name) is None:
                out[name] = self._derived(
                    estimate,
                    name,
                    estimate.value,
                    estimate.error,
                    f"reached by {QUANTITIES[quantity]}",
                )
        if (size := self.best("memory.size")) and self._nominal("gpu.memory_size") is None:
            out["gpu.memory_size"] = replace(
                self._derived(size, "gpu.memory_size", size.value, 0.0, "as the driver states it"),
                nature="spec",
            )
        out.pop("host.cores", None)
        if cores := self.best("host.cores"):
            out["host.cores"] = replace(
                self._derived(cores, "host.cores", cores.value, 0.0, "as the system states them"),
                nature="spec",
            )

    def _agreement(self) -> None:
        for name, estimates in self.by_name.items():
            best = self.best(name, uses=False)
            alike = [
                e
                for e in estimates
                if best is not None and e is not best and e.rank - best.rank < 1.0
            ]
            if (
                not alike
                or best is None
                or name.startswith(("collective", "launch.gap", "mapped", "h2h", "several"))
            ):
                continue
            for e in alike:
                apart = abs(math.log(e.value / best.value))
                if apart > 3 * math.hypot(e.error, best.error) and apart > 0.05:
                    self.findings.append(
                        finding(
                            "M107",
                            1,
                            (
                                f"{name}: {best.where} ({best.value:.4g}) and {e.where} "
                                f"({e.value:.4g} {e.unit})"
                            ),
                        )
                    )

    def _plausible(self, out: dict[str, Estimate]) -> dict[str, Estimate]:
        kept = {}
        for name, e in out.items():
            meaning = schema()[parameter_name(name)]
            if not meaning.minimum <= e.value <= meaning.maximum:
                self.findings.append(
                    finding("M106", 1, f"{name} {e.value:.4g} {e.unit}, {e.where}")
                )
            else:
                kept[name] = e
        return kept


def _where(curve: Curve) -> str:
    first, last = curve.lines
    return curve.name + (
        f", lines {first} to {last}" if 0 < first < last else f", line {first}" if first else ""
    )


def _rate(fit: CurveFit) -> tuple[float, float, str]:
    """Return the rate of the last line [B/s], its relative error, and the method."""
    last, curve = fit.pieces[-1], fit.curve
    top = curve.size_bytes >= curve.size_bytes[-1] / 4
    if (
        fit.pieces_median <= NO_LINE
        and math.isfinite(last.rate)
        and (last.largest >= 2 * last.smallest)
    ):
        return last.rate, last.rate_error, "rate of the largest sizes' line"
    seconds = np.maximum(curve.seconds[top] - fit.line.latency, 0.05 * curve.seconds[top])
    rates = curve.size_bytes[top] / seconds
    middle = float(np.median(rates))
    spread = float(np.std(np.log(rates))) if len(rates) > 1 else 0.1
    return middle, spread, "no line holds; rate read off the largest copies"


def read_origin(
    path: Path, size_bytes: float | None = None, between_nodes: bool = False
) -> tuple[Origin, Measured]:
    """Read a file of measurements and its provenance: name, hash, date, tool, device."""
    measured = read_measured(
        path, size_bytes=size_bytes, with_rates=True, between_nodes=between_nodes
    )
    place, _ = split_part(path)
    with opened(place) as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    dated = datetime.fromtimestamp(place.stat().st_mtime, UTC).date().isoformat()
    return Origin(
        place.name, digest, dated, measured.format, measured.device, measured.driver
    ), measured


def one_device(origins: Sequence[Origin]) -> None:
    """Refuse (A411) numbers of several devices, because they make no machine."""
    # a slice and the whole device differ in their measured numbers
    named = {
        (device_words(o.device), o.device if is_slice(o.device) else ""): o
        for o in origins
        if o.device
    }
    if len(named) > 1:
        devices = ", ".join(f"{o.file}: {o.device}" for o in named.values())
        raise error_of("A411", found=clipped(devices, 200))


def of_files(files: Sequence[str | Path], base: str | Machine | None = None) -> Calibration:
    """Return what files of measurements say of a machine: ``turnbuckle calibrate``.

    Parameters
    ----------
    files : outputs of benchmarks, packed or not.
    base : the machine whose other numbers are taken over, or its name or file.

    Raises
    ------
    UsageError, CannotAnswer, MachineError : as `turnbuckle.machine.measured.logs.read_measured` and
        `calibrate`.
    """
    read = [read_origin(Path(file)) for file in files]
    one_device([origin for origin, _ in read])
    return calibrate(read, None if base is None else load(base))
