"""Hold predictions of a remoting layer against times that others measured through GPUless.

    python validation/remoting/judge.py MEASURED [TABLE.csv]

MEASURED holds hot.csv, cold.csv, rodinia.csv, programs.csv, roundtrip.csv and the logs of calls
(medians and logs of spcl/gpuless-thesis at c2434d85fbc9).  Each program is rebuilt as a recording
(`rebuild.py`) as long as its native row of the same set, and asked on the layer. Rows of the RTX
3060 and of the A100 have layers of their own.  Constants are chosen on AlexNet, VGG-19 and
ResNet-50, on exchanges of bytes and on the empty program `latency`.  None of these tells the round
trip (the 13 of bfs drown in its 43 MB): srad_v1 is judged with that of myocyte, and all others with
that of srad_v1.  All other rows judge.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import polars as pl
from rebuild import TO_DEVICE, Call, calls, inference, rebuilt, unrecorded
from scipy.optimize import minimize_scalar

from turnbuckle.machine import Machine, Parameter, load
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.projection.run import Run

CHOSEN_ON = ("alexnet", "vgg19", "resnet50")
NETWORKS = (*CHOSEN_ON, "resnext50", "resnext101")
#: Programs that wait for answers all along; gaussian launches 2,046 times and waits for each, which
#: this layer does not.
ROUND_TRIPS = ("srad_v1", "myocyte", "gaussian")
IMAGE = 3 * 224 * 224 * 4
OVER, SAME, NATIVE = "remote over network", "remote same host", "native"
READY, FRESH = "cold-server-device-ready", "cold-server-fresh"
#: Stretches that were timed by themselves.
PARTS = {"srad_v1": "compute", "myocyte": "compute with its copies"}
BITS = 8
#: What the layer must add to a run for its bandwidth to show in it, as a share of the run.
CLEAR = 0.05
#: Deviations of a normal distribution between its median and the end of the 90 % range.
Z90 = 1.645
#: By how much a start is longer, and its deviation [s].
Start = tuple[float, float]
DRAWS = 500
#: The bandwidth that no program feels [Gb/s], and by which shares a run is longer where its
#: bandwidth is called tolerated.
FREE = 100.0
SHARES = (0.05, 0.10, 0.25)


@dataclass(frozen=True)
class Row:
    """One measured time beside its prediction and three simpler ones [ms]."""

    kind: str
    set: str
    program: str
    where: str
    bandwidth_gbps: float | None
    measured_ms: float
    predicted_ms: float
    low_ms: float
    high_ms: float
    nothing_changes_ms: float
    bytes_over_bandwidth_ms: float
    calls_times_round_trip_ms: float
    chosen_on: bool


@dataclass(frozen=True)
class Layer:
    """The constants of one set: a round trip [s], a bandwidth [B/s], and what launches, commands
    and answers take [s, B].
    """

    round_trip: float
    bandwidth: float
    launch: float
    command_bytes: float
    answer_bytes: float
    unrecorded: float
    #: By how much the bandwidth may be off, as a share; None is the catalogue's.
    bandwidth_error: float | None = None

    def machine(self) -> Machine:
        """Return the layer as a machine; errors as the catalogue's."""
        values: dict[ParameterName, tuple[float, str]] = {
            "remoting.round_trip": (self.round_trip, "s"),
            "remoting.h2d.bandwidth": (self.bandwidth, "B/s"),
            "remoting.d2h.bandwidth": (self.bandwidth, "B/s"),
            "remoting.command": (0.0, "s"),
            "remoting.launch_command": (self.launch, "s"),
            "remoting.command_bytes": (self.command_bytes, "B"),
            "remoting.answer_bytes": (self.answer_bytes, "B"),
            "remoting.commands_unrecorded": (self.unrecorded, "1"),
        }
        base = load("gpuless-network")
        errors = {
            change.parameter: change.set.error for change in base.changes if change.set is not None
        }
        if self.bandwidth_error is not None:
            errors |= dict.fromkeys(
                ("remoting.h2d.bandwidth", "remoting.d2h.bandwidth"), self.bandwidth_error
            )
        return base.with_parameters(
            {
                n: Parameter(
                    v, errors.get(n, 0.0), unit, "measured", "validation/remoting/judge.py"
                )
                for n, (v, unit) in values.items()
            }
        )


class Tables:
    """The measured tables, and the programs rebuilt from their logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names = ("hot", "cold", "rodinia", "roundtrip", "programs")
        self.tables = {
            name: pl.read_csv(folder / f"{name}.csv", infer_schema_length=None) for name in names
        }

    def times(self, table: str, **where: object) -> pl.DataFrame:
        """Return the rows of a table in which columns have values, once each."""
        kept = self.tables[table].filter(*(pl.col(name) == value for name, value in where.items()))
        return kept.unique(
            ["program", "set", "where", "part", "bandwidth_gbps"], keep="first", maintain_order=True
        )

    def seconds(self, table: str, **where: object) -> float:
        """Return the one time of a table with these values [s]."""
        rows = self.times(table, **where)
        assert rows.height == 1, (where, rows)
        return float(rows["median_ms"][0]) / 1e3

    def log(self, program: str) -> list[Call]:
        """Return the calls of a program: the client's log of a network, the native log of a plain
        program.
        """
        if program in NETWORKS:
            return list(calls(self.folder / "recorded" / f"{program}.csv.gz"))
        log = list(calls(self.folder / "calls" / f"{program}.csv.gz"))
        if program != "gaussian":
            return log
        # the native log leaves out the calls that wait behind each launch
        return [
            piece
            for one in log
            for piece in ([one, Call("wait")] if one.what == "launch" else [one])
        ]

    def hidden(self, program: str) -> float:
        """Return the commands for each launch that no profiler records."""
        launches = sum(one.what == "launch" for one in self.log(program))
        return unrecorded(self.folder / "recorded" / f"{program}.csv.gz") / launches

    def wire(self, program: str) -> dict[str, float]:
        """Return what was counted on the network for a program."""
        return self.tables["programs"].row(by_predicate=pl.col("program") == program, named=True)


class Judge:
    """Constants chosen on some rows, and all rows beside what the program says with them."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.rate = {where: self._exchange_rate(where) for where in (OVER, SAME)}
        self.code = float(np.median([self._code(program) for program in CHOSEN_ON]))
        self.answer = float(np.median([self._answer(program) for program in CHOSEN_ON]))
        self.hidden = float(np.median([tables.hidden(program) for program in CHOSEN_ON]))
        self.command_bytes = self._command_bytes()
        self.launch = self._launch()
        self.trip = {
            where: {program: self._round_trip(program, where) for program in ("srad_v1", "myocyte")}
            for where in (OVER, SAME)
        }

    # --- chosen -----------------------------------------------------------------------------------

    def _exchange_rate(self, where: str) -> float:
        """Return the bandwidth of 1 GiB there and back, with and without the layer [B/s]."""
        table = self.tables.tables["roundtrip"].filter(pl.col("bytes_each_way") == 1 << 30)
        through, without = (
            float(table.filter(where=w)["median_ms"][0]) / 1e3 for w in (where, "no network")
        )
        return 2.0 * (1 << 30) / (through - without)

    def _code(self, program: str) -> float:
        wire = self.tables.wire(program)
        return float(wire["wire_bytes_sent"] - wire["recorded_bytes_to_device"])

    def _answer(self, program: str) -> float:
        wire = self.tables.wire(program)
        return float(
            (wire["wire_bytes_received"] - wire["recorded_bytes_from_device"])
            / wire["wire_synchronisations"]
        )

    def _launches(self, program: str) -> int:
        """Return the launches of one inference."""
        return sum(one.what == "launch" for one in inference(self.tables.log(program), IMAGE))

    def _commands(self, program: str) -> float:
        """Return the commands of one inference: its image, a wait, and launches with what libraries
        send for each.
        """
        return self._launches(program) * (1.0 + self.hidden) + 2

    def _command_bytes(self) -> float:
        """Return the bytes of a command: the slope of ResNet-50's inference by one over the
        bandwidth, all rows equally exact.
        """
        rows = self.tables.times("hot", program="resnet50", set="bandwidth-limit", where=SAME)
        seconds, inverse = (
            rows["median_ms"].to_numpy() / 1e3,
            BITS / (rows["bandwidth_gbps"].to_numpy() * 1e9),
        )
        slope, _ = np.polyfit(inverse, seconds, 1, w=1.0 / seconds)
        return float((slope - IMAGE) / self._commands("resnet50"))

    def _launch(self) -> float:
        """Return the software's time for a launch that leaves the least relative error of the three
        networks' inferences.
        """
        rows = self.tables.times("hot").filter(
            pl.col("program").is_in(CHOSEN_ON), pl.col("where") != NATIVE
        )
        free = rows.filter(pl.col("bandwidth_gbps").is_null() | (pl.col("bandwidth_gbps") == 100))
        launches = np.array([self._launches(program) for program in free["program"]])
        commands = np.array([self._commands(program) for program in free["program"]])
        measured = free["median_ms"].to_numpy() / 1e3
        native = [
            self.tables.seconds("hot", program=p, set=s, where=NATIVE)
            for p, s in free.select("program", "set").iter_rows()
        ]
        rates = [
            np.inf if b is not None else self.rate[w]
            for b, w in free.select("bandwidth_gbps", "where").iter_rows()
        ]
        rest = np.array(native) + (IMAGE + commands * self.command_bytes) / np.array(rates)

        def left(launch: float) -> float:
            return float(np.mean(np.abs((rest + launch * launches) / measured - 1.0)))

        return float(
            minimize_scalar(left, bounds=(0, 1e-3), method="bounded", options={"xatol": 1e-9}).x
        )

    def _round_trip(self, program: str, where: str) -> float:
        """Return the round trip with which a program takes as long as was measured [s]: whole, or
        the part that was timed.
        """
        part, set_of_rows = (
            ("total", READY)
            if (program, where) != ("myocyte", SAME)
            else (PARTS[program], "a100-2023")
        )
        native_set = "cold-native" if part == "total" else set_of_rows
        native = self.tables.seconds(
            "rodinia", program=program, set=native_set, where=NATIVE, part=part
        )
        measured = self.tables.seconds(
            "rodinia", program=program, set=set_of_rows, where=where, part=part
        )
        start, _ = self.start(READY, where) if part == "total" else self.connecting()
        run = self._run(program, "whole" if part == "total" else "part", native)

        def off(trip: float) -> float:
            answer = run.project(self.layer(where, trip).machine(), draws=0).projections[0]
            return abs(answer.seconds + start - measured)

        return float(
            minimize_scalar(off, bounds=(1e-5, 1e-3), method="bounded", options={"xatol": 1e-7}).x
        )

    def _longer(self, *rows: Mapping[str, object]) -> tuple[float, float]:
        """Return by how much the first row of `latency` is longer than the second [s], and its
        deviation from their quartiles.
        """
        times = [
            self.tables.times("cold", program="latency", part="total", **row).row(0, named=True)
            for row in rows
        ]
        spread = [(time["q75_ms"] - time["q25_ms"]) / 1.349 for time in times]
        return (times[0]["median_ms"] - times[1]["median_ms"]) / 1e3, float(np.hypot(*spread)) / 1e3

    def start(self, state: str, where: str) -> tuple[float, float]:
        """Return by how much the start of a plain program is longer through the layer, and its
        deviation [s].
        """
        return self._longer({"set": state, "where": where}, {"set": "cold-native", "where": NATIVE})

    def connecting(self) -> tuple[float, float]:
        """Return how long a client takes to connect, and its deviation [s]: against a program whose
        context was made before.
        """
        return self._longer(
            {"set": READY, "where": SAME}, {"set": "native-context-made-before", "where": NATIVE}
        )

    @cache  # noqa: B019
    def network_start(self, state: str, where: str) -> tuple[float, float]:
        """Return by how much the start of a PyTorch program is longer through the layer, and its
        deviation: AlexNet, VGG-19 [s].
        """
        out = []
        for program in ("alexnet", "vgg19"):
            native = self.tables.seconds(
                "cold", program=program, set="cold-native", where=NATIVE, part="total"
            )
            through = self.tables.seconds(
                "cold", program=program, set=state, where=where, part="total"
            )
            out.append(through - native - self._bytes(program) / self.rate[where])
        return float(np.mean(out)), float(np.std(out, ddof=1))

    def _bytes(self, program: str) -> float:
        """Return the bytes that a whole run of a network sends: its copies and code."""
        return sum(one.size for one in self.tables.log(program) if one.way == TO_DEVICE) + self.code

    def layer(
        self, where: str, trip: float, gbps: float | None = None, hidden: float = 0.0
    ) -> Layer:
        """Return the layer of a place, at a bandwidth that was set or at its own."""
        bandwidth = self.rate[where] if gbps is None else gbps * 1e9 / BITS
        return Layer(trip, bandwidth, self.launch, self.command_bytes, self.answer, hidden)

    def for_networks(self, where: str, gbps: float | None = None) -> Layer:
        """Return the layer with the commands of libraries that no profiler records."""
        return self.layer(where, self.trip[where]["srad_v1"], gbps, self.hidden)

    def for_plain(self, where: str, program: str) -> Layer:
        """Return the layer with the round trip of another program."""
        return self.layer(where, self.trip[where]["myocyte" if program == "srad_v1" else "srad_v1"])

    @cached_property
    def limit_error(self) -> float:
        """Return how far off the bandwidths that were set are: the mean square of ResNet-50's whole
        runs, against that at 100 Gb/s.
        """
        rows = self.tables.times(
            "cold", program="resnet50", set="bandwidth-limit", part="total"
        ).filter(pl.col("bandwidth_gbps") < 100)
        free = self.tables.seconds(
            "cold", program="resnet50", set="bandwidth-limit", bandwidth_gbps=100.0, part="total"
        )
        inverse = 1.0 / rows["bandwidth_gbps"].to_numpy() - 0.01
        added = self._bytes("resnet50") * BITS / 1e9 * inverse
        slow = added > CLEAR * free
        return float(
            np.sqrt(
                np.mean(
                    np.log((rows["median_ms"].to_numpy() / 1e3 - free)[slow] / added[slow]) ** 2
                )
            )
        )

    @cached_property
    def native_start(self) -> Start:
        """Return no difference of starts between the native run and the layer's, give or take what
        ResNet-50's is at 100 Gb/s [s].
        """
        native = self.tables.seconds(
            "cold", program="resnet50", set="bandwidth-limit", where=NATIVE, part="total"
        )
        free = self.tables.seconds(
            "cold", program="resnet50", set="bandwidth-limit", bandwidth_gbps=100.0, part="total"
        )
        return 0.0, abs(free - native - self._bytes("resnet50") * BITS / 100e9)

    # --- asked ------------------------------------------------------------------------------------

    @cache  # noqa: B019
    def _run(self, program: str, kind: str, seconds: float) -> Run:
        log, share = self.tables.log(program), 0.3
        if kind == "hot":
            log, share = inference(log, IMAGE), None  # type: ignore[assignment]
        elif program in NETWORKS:
            log = [Call("copy", int(self.code), TO_DEVICE), Call("wait"), *log]
        elif kind == "part":
            log, share = [one for one in log if one.what != "alloc"], None  # type: ignore[assignment]
        return Run.of_trace(rebuilt(program, log, seconds, share), "whole")

    def row(
        self,
        kind: str,
        program: str,
        measured: Mapping[str, object],
        native: float,
        layer: Layer,
        stated: Start = (0.0, 0.0),
    ) -> Row:
        """Ask one program on one layer."""
        run = self._run(program, kind.split()[0], native)
        answer = run.project(layer.machine(), draws=DRAWS).projections[0]
        start, deviation = stated
        below, above = (
            np.hypot(answer.seconds - end, Z90 * deviation)
            for end in (answer.interval.low, answer.interval.high)
        )
        middle = float(answer.seconds) + start
        sizes = run.profile.trace.copies["size_bytes"].sum()
        crossing = run.profile.trace.api.height
        chosen = program in (*CHOSEN_ON, "bfs")
        gbps = measured["bandwidth_gbps"]
        return Row(
            kind,
            str(measured["set"]),
            program,
            str(measured["where"]),
            None if gbps is None else float(gbps),  # type: ignore[arg-type]
            float(measured["median_ms"]),  # type: ignore[arg-type]
            1e3 * middle,
            1e3 * float(middle - below),
            1e3 * float(middle + above),
            1e3 * native,
            1e3 * (native + sizes / layer.bandwidth),
            1e3 * (native + crossing * layer.round_trip),
            chosen,
        )

    def hot(self) -> Iterator[Row]:
        """Yield one inference of each network on each layer."""
        for measured in (
            self.tables.times("hot").filter(pl.col("where") != NATIVE).iter_rows(named=True)
        ):
            program = measured["program"]
            native = self.tables.seconds("hot", program=program, set=measured["set"], where=NATIVE)
            layer = self.for_networks(measured["where"], measured["bandwidth_gbps"])
            yield self.row("hot", program, measured, native, layer)

    def cold(self) -> Iterator[Row]:
        """Yield whole programs: at set bandwidths from the native run and from the run at 100 Gb/s,
        and on the A100.
        """
        limited = self.tables.times("cold", set="bandwidth-limit", part="total").filter(
            pl.col("where") != NATIVE
        )
        for measured in limited.iter_rows(named=True):
            program, where = (
                measured["program"],
                {"program": measured["program"], "set": "bandwidth-limit", "part": "total"},
            )
            layer = replace(
                self.for_networks(SAME, measured["bandwidth_gbps"]),
                bandwidth_error=self.limit_error,
            )
            yield self.row(
                "cold",
                program,
                measured,
                self.tables.seconds("cold", where=NATIVE, **where),
                layer,
                self.native_start,
            )
            if measured["bandwidth_gbps"] == 100:
                continue
            free = self.tables.seconds("cold", bandwidth_gbps=100.0, **where)
            # that run holds what the layer takes at 100 Gb/s
            at_free = (
                self._run(program, "cold", free)
                .project(self.for_networks(SAME, 100.0).machine(), draws=0)
                .projections[0]
            )
            yield self.row(
                "cold from 100 Gb/s",
                program,
                measured,
                free,
                layer,
                (free - float(at_free.seconds), 0.0),
            )
        for state, where in ((READY, OVER), (READY, SAME), (FRESH, OVER)):
            rows = self.tables.times("cold", set=state, where=where, part="total").filter(
                pl.col("program").is_in(NETWORKS)
            )
            for measured in rows.iter_rows(named=True):
                native = self.tables.seconds(
                    "cold",
                    program=measured["program"],
                    set="cold-native",
                    where=NATIVE,
                    part="total",
                )
                start = self.network_start(state, where)
                yield self.row(
                    "cold A100",
                    measured["program"],
                    measured,
                    native,
                    self.for_networks(where),
                    start,
                )

    def rodinia(self) -> Iterator[Row]:
        """Yield plain programs, their starts stated."""
        for state, where in ((READY, OVER), (READY, SAME), (FRESH, OVER)):
            rows = self.tables.times("rodinia", set=state, where=where, part="total").filter(
                pl.col("program") != "latency"
            )
            for measured in rows.iter_rows(named=True):
                program = measured["program"]
                native = self.tables.seconds(
                    "rodinia", program=program, set="cold-native", where=NATIVE, part="total"
                )
                kind = "rodinia that waits" if program in ROUND_TRIPS else "rodinia"
                yield self.row(
                    kind,
                    program,
                    measured,
                    native,
                    self.for_plain(where, program),
                    self.start(state, where),
                )
        for program, part in PARTS.items():
            native = self.tables.seconds(
                "rodinia", program=program, set="a100-2023", where=NATIVE, part=part
            )
            for measured in self.tables.times(
                "rodinia", program=program, set="a100-2023", where=SAME, part=part
            ).iter_rows(named=True):
                yield self.row(
                    "part of rodinia",
                    program,
                    measured,
                    native,
                    self.for_plain(SAME, program),
                    self.connecting(),
                )


def off(rows: pl.DataFrame, column: str = "predicted_ms") -> np.ndarray:
    """Return how far a column is off, as shares of what was measured."""
    return np.abs(rows[column].to_numpy() / rows["measured_ms"].to_numpy() - 1.0)


def summary(rows: pl.DataFrame) -> Iterator[str]:
    """Yield a line for each kind of row and each half: chosen on, and judged."""
    simple = ("nothing_changes_ms", "bytes_over_bandwidth_ms", "calls_times_round_trip_ms")
    for (kind, chosen), group in rows.group_by("kind", "chosen_on", maintain_order=True):
        errors = ", ".join(
            f"{np.median(off(group, name)):.1%}" for name in ("predicted_ms", *simple)
        )
        held = (
            (group["low_ms"] <= group["measured_ms"]) & (group["measured_ms"] <= group["high_ms"])
        ).sum()
        worst = f"worst {off(group).max():.1%}"
        yield (
            f"{kind}, {'chosen on' if chosen else 'judged'}: {group.height} rows, off by "
            f"{errors}; {worst}; {held} ranges hold"
        )


#: Kinds of rows that stand in the table of what was held against real GPUs, and their names there.
JUDGED = {
    "hot": "one inference, calls sent over TCP at 0.1 to 100 Gb/s",
    "cold": "whole programs, from native, with their device code",
    "rodinia that waits": "Rodinia's programs with hundreds of round trips",
}


def judged(rows: pl.DataFrame) -> Iterator[dict[str, str | int | float]]:
    """Yield the row of each of `JUDGED` for the table of real GPUs (`validation/real_gpus.py`):
    programs that no constant comes from.
    """
    for kind, what in JUDGED.items():
        group = rows.filter(~pl.col("chosen_on"), kind=kind)
        inside = (
            group.select(pl.col("measured_ms").is_between("low_ms", "high_ms")).to_series().sum()
        )
        yield {
            "short": f"calls over a network, {kind}",
            "what": what,
            "points": group.height,
            "off": round(float(np.median(off(group))), 3),
            "nothing": round(float(np.median(off(group, "nothing_changes_ms"))), 3),
            "simplest": round(float(np.median(off(group, "bytes_over_bandwidth_ms"))), 3),
            "model": "bytes over bandwidth",
            "held": f"{inside} of {group.height}",
            "fitted": "on other programs of the set",
            "command": "validation/remoting/judge.py",
        }


def over_free(group: pl.DataFrame) -> dict[str, np.ndarray]:
    """Return a program's times over those at `FREE`, from narrow to wide: bandwidths [Gb/s],
    measured, said, and bytes over bandwidth.

    Where a program is asked from its run at `FREE`, that run is the one they stand over.
    """
    group = group.sort("bandwidth_gbps")
    free = group.filter(bandwidth_gbps=FREE)
    found = {"bandwidth_gbps": group["bandwidth_gbps"].to_numpy()}
    for name, column in {
        "measured": "measured_ms",
        "said": "predicted_ms",
        "bytes": "bytes_over_bandwidth_ms",
    }.items():
        unit = float(free[column][0]) if free.height else float(group["nothing_changes_ms"][0])
        found[name] = group[column].to_numpy() / unit
    return found


def each_bandwidth(rows: pl.DataFrame) -> Iterator[tuple[dict[str, object], dict[str, np.ndarray]]]:
    """Yield each program that was measured at several bandwidths, with its times over those at
    `FREE`.
    """
    limited = rows.filter(pl.col("bandwidth_gbps").is_not_null())
    for (kind, program), group in limited.group_by("kind", "program", maintain_order=True):
        yield (
            {"kind": kind, "program": program, "chosen_on": bool(group["chosen_on"][0])},
            over_free(group),
        )


def sensitivity(rows: pl.DataFrame) -> pl.DataFrame:
    """Return how much longer each program takes at each bandwidth than at `FREE`: measured, said,
    and the factor between them.
    """
    out = []
    for whose, found in each_bandwidth(rows):
        for gbps, measured, said in zip(
            found["bandwidth_gbps"], found["measured"], found["said"], strict=True
        ):
            if gbps != FREE:
                out.append(
                    whose
                    | {
                        "bandwidth_gbps": gbps,
                        "measured": measured,
                        "said": said,
                        "factor": said / measured,
                    }
                )
    return pl.DataFrame(out)


def reached(bandwidths: np.ndarray, times: np.ndarray, share: float) -> float | None:
    """Return the bandwidth below which every time is longer by a share [Gb/s], straight in one over
    the bandwidth between two rows.

    Seen from the narrowest, so that one bad row among wide ones moves nothing; None where the
    narrowest is within the share.

    >>> reached(np.array([1.0, 2.0, 4.0]), np.array([1.6, 1.2, 1.0]), 0.2)
    2.0
    """
    limit = 1.0 + share
    within = np.flatnonzero(times <= limit)
    if not within.size or within[0] == 0:
        return None
    wide = int(within[0])
    pace = 1.0 / bandwidths[wide - 1 : wide + 1]
    return float(1.0 / np.interp(-limit, -times[wide - 1 : wide + 1], pace))


def tolerance(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the bandwidth at which each program is longer by each of `SHARES` than at `FREE`
    [Gb/s]: measured, said, by bytes alone.
    """
    out = []
    for whose, found in each_bandwidth(rows):
        for share in SHARES:
            at = {
                f"{name}_gbps": reached(found["bandwidth_gbps"], found[name], share)
                for name in ("measured", "said", "bytes")
            }
            out.append(whose | {"share": share} | at)
    return pl.DataFrame(out)


def told(rows: pl.DataFrame) -> Iterator[str]:
    """Yield how far the sensitivities and the tolerated bandwidths of each program are off."""
    sensitivities, tolerances = sensitivity(rows), tolerance(rows)
    for (kind, program), group in sensitivities.group_by("kind", "program", maintain_order=True):
        factors = group["factor"].to_numpy()
        yield (
            f"{kind} {program}: over {FREE:g} Gb/s within a factor of "
            f"{np.exp(np.abs(np.log(factors))).max():.2f} at every bandwidth"
        )
        for row in tolerances.filter(kind=kind, program=program).iter_rows(named=True):
            yield (
                f"    {row['share']:.0%} longer at {row['measured_gbps']:.3g} Gb/s measured, "
                f"{row['said_gbps']:.3g} said, "
                f"{row['bytes_gbps']:.3g} by bytes alone"
            )


def table(folder: Path) -> tuple[Judge, pl.DataFrame]:
    """Return the constants, and every row."""
    judge = Judge(Tables(folder))
    kinds: tuple[Callable[[], Iterator[Row]], ...] = (judge.hot, judge.cold, judge.rodinia)
    rows = [row for kind in kinds for row in kind()]
    return judge, pl.DataFrame(rows, infer_schema_length=None)


def main() -> None:
    """Print the constants and the errors, and write the table."""
    judge, rows = table(Path(sys.argv[1]))
    print(
        f"a command {judge.command_bytes:.0f} B, a launch {1e6 * judge.launch:.1f} us, an "
        f"answer {judge.answer:.0f} B"
    )
    print(
        f"code {judge.code / 1e6:.1f} MB, {judge.hidden:.1f} commands of libraries for each launch"
    )
    for where in (OVER, SAME):
        trips = ", ".join(
            f"{1e6 * trip:.0f} us a round trip of {program}"
            for program, trip in judge.trip[where].items()
        )
        print(f"{where}: {judge.rate[where] / 1e9:.2f} GB/s, {trips}")
    print("off by: predicted, nothing changes, bytes over bandwidth, calls x round trip; medians")
    print("\n".join([*summary(rows), *told(rows)]))
    held = rows.filter(~pl.col("chosen_on")).select(
        pl.col("measured_ms").is_between("low_ms", "high_ms")
    )
    print(f"judged: {held.to_series().sum()} of {held.height} ranges hold")
    if len(sys.argv) > 2:
        place = Path(sys.argv[2])
        tables = {
            place.name: rows,
            "sensitivity.csv": sensitivity(rows),
            "tolerance.csv": tolerance(rows),
        }
        for name, found in tables.items():
            found.with_columns(pl.col(pl.Float64).round_sig_figs(5)).write_csv(
                place.with_name(name)
            )
        pl.DataFrame(list(judged(rows))).write_csv(place.with_name("summary.csv"))


if __name__ == "__main__":
    main()
