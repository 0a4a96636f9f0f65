"""A workload: recordings with their weights, machines with price and power; read from a TOML file,
with the position of each flaw.

::

    [suite]
    name = "our centre, 2026"
    currency = "EUR"                          # of every price; EUR if left out

    [recordings]
    qmc = "qmc.sqlite"                        # weight 1, or a table:

    [recordings.milc]
    file = "milc/traces.otf2"                 # relative to this file
    node_hours = 1200                         # today, on the machine that it was recorded on
    group = "lattice"
    source = "a100-pcie-40"                   # recognised if left out
    part = "steady"                            # else without a start-up of over a tenth; "whole" keeps it
    minus = "hydro-one-node.sqlite"            # the same program on one node: what is copied beyond it goes on to the NIC
    rank = 0                                  # only this rank; all if left out
    clean_time = "1.03 s"                     # run time of that part without profiler: the recording is shortened to it
    capability = 4                            # SSI: how many times larger the problem is than that of the reference; 1 if left out

    [targets.self]                            # the machines of the recordings
    price = 1.10                              # of a node-hour
    power = "900 W"                           # of a node
    nodes = 100                               # of the whole machine, for SSI

    [targets.gh200]                           # a name of the catalogue, or machine = "file.toml"
    price = {from = 1.60, to = 2.00}          # a 90 % range

Nothing is guessed:

    A441  not TOML, an unknown or missing key, a value that cannot be
    A442  two recordings of one name
    U0xx  a quantity without a unit, or with the wrong one
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.table_file import read_text
from turnbuckle.foundation.toml_text import TomlReading
from turnbuckle.foundation.units import parse
from turnbuckle.machine import Machine, load
from turnbuckle.projection.elsewhere.priors import normals
from turnbuckle.projection.run import Run
from turnbuckle.trace.window import Part

#: Standard deviations between the middle of a normal distribution and either end of its 90 % range.
_TO_END: Final = 1.6448536269514722
_LARGEST: Final = 1e15


@dataclass(frozen=True)
class Estimate(Declared):
    """A number with its 90 % range: log-normal around the geometric mean of both ends.

    Attributes
    ----------
    low, high : both ends; equal for a number that is certain.
    """

    low: float
    high: float

    @property
    def value(self) -> float:
        """Return the middle."""
        return math.sqrt(self.low * self.high) if self.low != self.high else self.low

    def drawn(self, name: str, draws: int, seed: int) -> Float:
        """Return draws of the number, shape (draws,); the same for the same name and seed."""
        spread = math.log(self.high / self.low) / 2 / _TO_END if self.low else 0.0
        return np.asarray(self.value * np.exp(spread * normals(name, draws, seed)))


@dataclass(frozen=True)
class Member:
    """A recording of the workload.

    Attributes
    ----------
    recording : its file, or the run where it was read already.
    weight : node-hours that the application takes today; only ratios of weights matter.
    group : empty for none.
    source, part : machine and part of the recording, as `Run.read` takes them; empty as it does
        without.
    rank : the only rank that is asked about; None for all.
    clean_seconds : run time of the part without profiler, as `Run.read` takes it [s]; None keeps
        the recorded one.
    minus : recording of the same program on one node, as `Run.minus` takes it; None for none.
    capability : SSI's factor for a larger problem.
    """

    name: str
    recording: Path | Run
    weight: float = 1.0
    group: str = ""
    source: str = ""
    part: str = ""
    capability: float = 1.0
    rank: int | None = None
    clean_seconds: float | None = None
    minus: Path | None = None

    def parted(
        self,
        part: str | None,
        rank: int | None,
        clean_seconds: float | None,
        minus: Path | None = None,
    ) -> Member:
        """Return the same recording with what it does not name itself."""
        return replace(
            self,
            part=self.part or part or "",
            rank=rank if self.rank is None else self.rank,
            clean_seconds=clean_seconds if self.clean_seconds is None else self.clean_seconds,
            minus=self.minus or minus,
        )

    def run(self, use_cache: bool, command: str) -> Run:
        """Return the part of the run that questions are about, read from its file if it was not."""
        run = self._read(self.recording, use_cache, command)
        return (
            run.judged
            if self.minus is None
            else run.minus(self._read(self.minus, use_cache, command))
        )

    def _read(self, recording: Path | Run, use_cache: bool, command: str) -> Run:
        if isinstance(recording, Run):
            return recording
        part = Part.parse(self.part or "auto", self.rank)
        return Run.read(
            recording,
            source=self.source or None,
            use_cache=use_cache,
            command=command,
            part=part,
            clean_seconds=self.clean_seconds,
        )


@dataclass(frozen=True)
class Offer:
    """A machine that the workload might run on.

    Attributes
    ----------
    machine : name, file or machine; ``self`` is the one that each recording was made on.
    price : of a node-hour; None if unknown.
    power : of a node under this load [W]; None if unknown.
    nodes : of the whole machine, for SSI; None if unknown.
    """

    machine: str | Machine
    price: Estimate | None = None
    power: Estimate | None = None
    nodes: float | None = None

    @property
    def name(self) -> str:
        """Return what the machine is asked by."""
        return self.machine if isinstance(self.machine, str) else self.machine.name


@dataclass(frozen=True)
class Portfolio:
    """A workload and the machines that it might run on."""

    members: tuple[Member, ...]
    offers: tuple[Offer, ...] = ()
    name: str = ""
    currency: str = "EUR"

    def parted(
        self,
        part: str | None,
        rank: int | None,
        clean_seconds: float | None,
        minus: Path | None = None,
    ) -> Portfolio:
        """Return the same workload with a part, a rank and a run time without profiler of each
        recording for which none is named.

        Raises
        ------
        UsageError : A056 for a run that was read already, A492 for a run time or a packed run that
            is not that of one recording.
        """
        given = {"part": part, "rank": rank, "clean_seconds": clean_seconds}
        if named := [name for name, value in given.items() if value is not None]:
            if any(isinstance(m.recording, Run) for m in self.members):
                raise error_of(
                    "A056",
                    found=", ".join(named),
                    cause="a run was read already",
                    fix="give these to turnbuckle.read",
                )
            without = sum(m.clean_seconds is None for m in self.members)
            if clean_seconds is not None and without != 1:
                raise error_of(
                    "A492.time",
                    where="--clean-time",
                    found=f"{without:,} recordings without one of their own",
                )
        without = sum(m.minus is None for m in self.members)
        if minus is not None and without != 1:
            raise error_of(
                "A492.minus",
                where="--minus",
                found=f"{without:,} recordings without one of their own",
            )
        return replace(
            self, members=tuple(m.parted(part, rank, clean_seconds, minus) for m in self.members)
        )

    def on(self, machines: Sequence[str | Machine]) -> Portfolio:
        """Return the same workload on the machines named: those that it has, with their prices, and
        others.
        """
        if not machines:
            return self
        offers = {offer.name: offer for offer in self.offers}
        wanted = [offers.get(m if isinstance(m, str) else m.name) or Offer(m) for m in machines]
        today = [offer for offer in self.offers if offer.name == "self" and offer not in wanted]
        return Portfolio(self.members, (*today, *wanted), self.name, self.currency)


def of_recordings(
    recordings: Sequence[str | Path | Run], source: str = "", part: str = ""
) -> Portfolio:
    """Return recordings of equal weights as a workload.  Raises A442 for two of one name, A443 for
    none.
    """
    if not recordings:
        raise error_of("A443")
    paths = [None if isinstance(r, Run) else Path(r) for r in recordings]
    names = [
        Path(r.name).stem if isinstance(r, Run) else Path(r).name.split(".")[0] for r in recordings
    ]
    # files of one name in folders of their own, as tracers write them, go by the folder
    twice = [names.count(name) > 1 for name in names]
    names = [
        p.resolve().parent.name if many and p else name
        for name, p, many in zip(names, paths, twice, strict=True)
    ]
    _unique(names)
    kept = [r if isinstance(r, Run) else Path(r) for r in recordings]
    return Portfolio(
        tuple(Member(n, r, source=source, part=part) for n, r in zip(names, kept, strict=True))
    )


def _unique(names: Sequence[str]) -> None:
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise error_of("A442", found=clipped(twice, 60))


def read_portfolio(path: str | Path) -> Portfolio:
    """Read a portfolio.  Raises A061 where the file cannot be read, A441 and U0xx with
    file:line:column.
    """
    return _Reading(
        Path(path),
        read_text(path, "the portfolio", largest_bytes=1 << 24, fix="give a TOML file in UTF-8"),
    ).portfolio()


class _Reading(TomlReading):
    """One portfolio being read."""

    code = "A441"

    def __init__(self, path: Path, text: str) -> None:
        self.folder = path.parent
        super().__init__(path.name, text)

    def portfolio(self) -> Portfolio:
        self._keys((), self.document, ("suite", "recordings", "targets"))
        head = self._table(("suite",), self.document.get("suite", {}))
        self._keys(("suite",), head, ("name", "currency"))
        recordings = self._table(("recordings",), self.document.get("recordings", {}))
        if not recordings:
            raise self._flaw("A441.recordings", ())
        targets = self._table(("targets",), self.document.get("targets", {}))
        members = tuple(self._member(name, given) for name, given in recordings.items())
        offers = tuple(self._offer(name, given) for name, given in targets.items())
        offers = tuple(sorted(offers, key=lambda offer: offer.name != "self"))
        words = {key: self._text(("suite", key), head[key]) for key in head}
        return Portfolio(members, offers, words.get("name", ""), words.get("currency", "EUR"))

    def _member(self, name: str, given: object) -> Member:
        path = ("recordings", name)
        table = {"file": given} if isinstance(given, str) else self._table(path, given)
        self._keys(
            path,
            table,
            (
                "file",
                "node_hours",
                "group",
                "source",
                "part",
                "rank",
                "clean_time",
                "minus",
                "capability",
            ),
        )
        if "file" not in table:
            raise self._flaw("A441.file", path)
        words = {
            key: self._text((*path, key), table[key])
            for key in ("file", "group", "source", "part", "minus")
            if key in table
        }
        numbers = {
            key: self._number((*path, key), table[key], "1")
            for key in ("node_hours", "capability")
            if key in table
        }
        if part := words.get("part", ""):
            self._located((*path, "part"), lambda: Part.parse(part))
        rank = table.get("rank")
        if rank is not None and (isinstance(rank, bool) or not isinstance(rank, int) or rank < 0):
            raise self._flaw("A441.rank", (*path, "rank"), found=str(rank))
        clean = (
            self._number((*path, "clean_time"), table["clean_time"], "s")
            if "clean_time" in table
            else None
        )
        minus = self.folder / words["minus"] if "minus" in words else None
        source, hours, file = (
            self._machine(words.get("source", "")),
            numbers.get("node_hours", 1.0),
            self.folder / words["file"],
        )
        return Member(
            name,
            file,
            hours,
            words.get("group", ""),
            source,
            part,
            numbers.get("capability", 1.0),
            rank,
            clean,
            minus,
        )

    def _offer(self, name: str, given: object) -> Offer:
        path = ("targets", name)
        table = self._table(path, given)
        self._keys(path, table, ("machine", "price", "power", "nodes"))
        machine = self._text((*path, "machine"), table["machine"]) if "machine" in table else name
        if machine != "self":
            machine = self._machine(machine)
            self._located(path, lambda: load(machine))
        price, power = (
            self._estimate((*path, key), table[key], unit) if key in table else None
            for key, unit in _UNITS
        )
        return Offer(
            machine,
            price,
            power,
            self._number((*path, "nodes"), table["nodes"], "1") if "nodes" in table else None,
        )

    def _machine(self, name: str) -> str:
        """Return a machine's name, or its file relative to the portfolio."""
        return str(self.folder / name) if name.endswith(".toml") else name

    def _estimate(self, path: tuple[str, ...], given: object, unit: str) -> Estimate:
        if not isinstance(given, dict):
            value = self._number(path, given, unit)
            return Estimate(value, value)
        self._keys(path, given, ("from", "to"))
        if lacking := next((key for key in ("from", "to") if key not in given), None):
            raise self._flaw("A441.range", path, missing=lacking)
        low, high = (self._number((*path, key), given[key], unit) for key in ("from", "to"))
        if low > high:
            raise self._flaw("A441.order", path, found=f"{low:g} to {high:g}")
        return Estimate(low, high)

    def _number(self, path: tuple[str, ...], given: object, unit: str) -> float:
        if unit == "1" and isinstance(given, int | float) and not isinstance(given, bool):
            value = float(given)
        elif isinstance(given, str):
            value = self._located(path, lambda: parse(given, unit))
        else:
            raise self._flaw("A441.number", path, found=str(given), name=path[-1])
        if not 0 < value <= _LARGEST:
            raise self._flaw("A441.number", path, found=str(given), name=path[-1])
        return value

    def _text(self, path: tuple[str, ...], given: object) -> str:
        if not isinstance(given, str) or not given or len(given) > 1024 or not given.isprintable():
            raise self._flaw("A441.text", path, found=str(given), name=path[-1])
        return given

    def _table(self, path: tuple[str, ...], given: object) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise self._flaw("A441.table", path, found=str(given), name=".".join(path))
        return given


_UNITS: Final = (("price", "1"), ("power", "W"))
