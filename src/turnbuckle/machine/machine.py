"""Machines: named parameters, each with value, error, unit, nature and source; or a set of changes
to another machine.

Only ``schema/machine.csv`` lists the parameters, their units and their meanings.  A machine is
either complete (``base == ""``) or *relative* (``base == "source"``): a list of changes to the
machine of the recording.  `Machine.resolved` makes a relative machine complete.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.schema import table_rows
from turnbuckle.foundation.units import show
from turnbuckle.machine.parameter_names import ParameterName, parameter_name

if TYPE_CHECKING:
    from turnbuckle.machine.check import Remark

Nature = Literal["spec", "measured", "assumption"]
Coupling = Literal["apu", "c2c", "nvlink", "xgmi", "pcie", "fabric", "remoting", "relative"]

NATURES: Final[tuple[str, ...]] = get_args(Nature)
InstructionSet = Literal["", "x86", "arm", "power"]
INSTRUCTION_SETS: Final[tuple[str, ...]] = ("x86", "arm", "power")
COUPLINGS: Final[tuple[str, ...]] = get_args(Coupling)
CHANGES: Final[tuple[str, ...]] = ("set", "scale", "add", "limit", "assume")
OF_A_CHIP: Final = ("chip", "multiprocessor")
"""Scopes of the parameters that all machines with one chip share."""
SOURCE: Final = "source"
"""The base of a relative machine: the machine the profile was recorded on."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """Row of ``schema/machine.csv``: meaning of a parameter, and its plausible range [`unit`]."""

    parameter: ParameterName
    unit: str
    scope: str
    minimum: float
    maximum: float
    meaning: str


@cache
def schema() -> Mapping[ParameterName, Meaning]:
    """Return the meanings of all parameters, in the order of the manual."""
    rows = table_rows("foundation/schema/machine.csv")
    return {
        (name := parameter_name(r["parameter"])): Meaning(
            name, r["unit"], r["scope"], float(r["minimum"]), float(r["maximum"]), r["meaning"]
        )
        for r in rows
    }


@dataclass(frozen=True, slots=True)
class Parameter:
    """Number with its source.

    Attributes
    ----------
    value : value in `unit`, SI.
    error : relative standard deviation of a log-normal distribution around `value` (0.05 is 5 %).
    unit : SI unit as in the schema.
    nature : ``spec`` (stated by a vendor, centre or standard), ``measured``, or ``assumption`` (a
        design point or a guess).
    source : source of the number.
    note : conditions and caveats.
    common : word that numbers share whose errors are equal (one distance behind several delays), in
        all machines.
    """

    value: float
    error: float
    unit: str
    nature: Nature
    source: str
    note: str = ""
    common: str = ""

    def unknown(self, name: str) -> str:
        """Return the name under which draws vary this number's error: `common` where it is set,
        else its own `name`.
        """
        return f"common/{self.common}" if self.common else name

    def drawn(self, normal: float) -> Parameter:
        """Return this parameter, `normal` standard deviations away: value x exp(error x normal)."""
        return (
            self
            if self.error == 0 or normal == 0
            else replace(self, value=self.value * math.exp(self.error * normal))
        )

    def __str__(self) -> str:
        return show(self.value, self.unit) + (f" +- {show(self.error, '%')}" if self.error else "")


@dataclass(frozen=True, slots=True)
class Fact:
    """Statement about a machine that is not a number, with its source."""

    value: bool
    nature: Nature
    source: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """Change of one parameter of another machine: replaced by `set`, multiplied by `scale`,
    increased by `add`, bounded by `limit`.

    Where the other machine lacks the parameter, the change starts from `assume`; without `set` and
    `assume` the parameter stays unknown.  `scale` is a plain number, the others have the
    parameter's unit.
    """

    parameter: ParameterName
    set: Parameter | None = None
    scale: Parameter | None = None
    add: Parameter | None = None
    limit: Parameter | None = None
    assume: Parameter | None = None

    def apply(self, below: Parameter | None) -> Parameter | None:
        """Return the changed parameter; None where there is nothing to change.  Errors count as
        independent.
        """
        out = self.set or below or self.assume
        if out is None:
            return None
        if self.scale is not None:
            value = out.value * self.scale.value
            out = _combined(
                out,
                self.scale,
                value,
                math.hypot(out.error, self.scale.error),
                f"times {show(self.scale.value, '1')}",
            )
        if self.add is not None:
            value = out.value + self.add.value
            spread = math.hypot(out.value * out.error, self.add.value * self.add.error)
            out = _combined(
                out,
                self.add,
                value,
                spread / value if value else 0.0,
                f"plus {show(self.add.value, out.unit)}",
            )
        return self.limit if self.limit is not None and self.limit.value < out.value else out

    def drawn(self, machine: str, normals: Mapping[str, float]) -> Change:
        """Return this change with each part drawn; see `Machine.drawn`."""
        parts: dict[str, Any] = {
            w: p.drawn(normals.get(p.unknown(f"{machine}/{self.parameter}/{w}"), 0.0))
            for w, p in self.parts().items()
        }
        return replace(self, **parts)

    def parts(self) -> dict[str, Parameter]:
        """Return the parts that are given, by their word."""
        return {word: part for word in CHANGES if (part := getattr(self, word)) is not None}


def _combined(first: Parameter, then: Parameter, value: float, error: float, how: str) -> Parameter:
    nature = max(first.nature, then.nature, key=NATURES.index)
    return Parameter(
        value, error, first.unit, nature, f"{first.source}; {how}: {then.source}", first.note
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Machine of the catalogue or of a user's file.

    Attributes
    ----------
    name : name on the command line.
    title, summary : title (one line) and summary (one sentence).
    year : year of first use; 0 where it has none.
    coupling : coupling of GPU and CPU, one of `COUPLINGS`.
    chip : the machine whose numbers of the chip hold where this one states none; empty where this
        one states its own.
    family : compute capability or gfx name of the GPU, as `recognition.families` has them; empty
        where it is not stated.
    base : ``""`` (complete) or ``"source"`` (relative; not yet resolved).
    parameters : known parameters by dotted name of the schema; empty while relative.
    changes : changes to the source machine; kept after resolving, for the report.
    recognise : device names, as profilers write them, that identify this machine.
    memory_shared : set where CPU and GPU share one memory, so that copies between them vanish.
    instruction_set : instruction set of the host, one of `INSTRUCTION_SETS`; empty where it is not
        stated.
    host : the entry of the host, whose speeds hold where this machine states none of its own; empty
        where no host is named.
    file, sha256 : file of the machine, and its hash.
    lineage : (file, sha256) of the machines that it is based on, nearest first.
    """

    name: str
    title: str
    summary: str
    year: int
    coupling: Coupling
    base: str = ""
    chip: str = ""
    family: str = ""
    parameters: Mapping[ParameterName, Parameter] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    recognise: tuple[str, ...] = ()
    memory_shared: Fact | None = None
    instruction_set: InstructionSet = ""
    host: str = ""
    file: str = ""
    sha256: str = ""
    lineage: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def load(name_or_path: str) -> Machine:
        """Return a machine of the catalogue by name, or any machine by the path of its TOML file;
        see `turnbuckle.machine.load`.
        """
        from turnbuckle.machine.catalog import load  # the catalogue reads machines

        return load(name_or_path)

    def check(self) -> list[Remark]:
        """Return what is doubtful about the machine, errors first: ``turnbuckle machines
        check``.
        """
        from turnbuckle.machine.check import check  # which reads machines

        return check(self)

    def __hash__(self) -> int:
        return hash((self.name, self.sha256, len(self.parameters), len(self.changes)))

    @property
    def content(self) -> str:
        """Return a hash of all that the machine says, in a file or changed in Python."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def __repr__(self) -> str:
        numbers = (
            f"{len(self.changes)} changes of the source"
            if self.relative
            else f"{len(self.parameters)} numbers"
        )
        return f"Machine {self.name}: {self.title}; {numbers}, {self.file}"

    @property
    def relative(self) -> bool:
        """Return whether this machine is not yet resolved on the machine that it changes."""
        return self.base != ""

    @property
    def copies_vanish(self) -> bool:
        """Return whether copies between host and device cost nothing because there is one
        memory.
        """
        return self.memory_shared is not None and self.memory_shared.value

    @property
    def has(self) -> frozenset[ParameterName]:
        """Return the names of the parameters that this machine has."""
        return frozenset(self.parameters)

    def get(self, name: ParameterName) -> Parameter | None:
        """Return the parameter `name`, or None where this machine lacks it.

        Raises
        ------
        KeyError : `name` is not in the schema (an error of the program, not of a file).
        """
        parameter = self.parameters.get(name)
        return self.parameters.get(parameter_name(name)) if parameter is None else parameter

    def value(self, name: ParameterName) -> float | None:
        """Return the value of the parameter `name` in SI units, or None where this machine lacks
        it.
        """
        parameter = self.get(name)
        return None if parameter is None else parameter.value

    def with_parameters(self, parameters: Mapping[ParameterName, Parameter]) -> Machine:
        """Return this machine with some parameters replaced or added; for a relative machine they
        become changes.
        """
        for name in parameters:
            parameter_name(name)
        if self.relative:
            return replace(
                self, changes=self.changes + tuple(Change(n, set=p) for n, p in parameters.items())
            )
        return replace(self, parameters={**self.parameters, **parameters})

    def resolved(self, source: Machine) -> Machine:
        """Return this machine complete, with its changes applied to the `source` machine of the
        profile.

        Raises
        ------
        MachineError : M016 where `source` is itself relative.
        """
        if not self.relative:
            return self
        _stands_alone(source)
        return self.on(source)

    def with_chip(self, other: Machine) -> Machine:
        """Return this machine with the numbers of `other`'s chip where it states none of its
        own.
        """
        shared = {n: p for n, p in other.parameters.items() if schema()[n].scope in OF_A_CHIP}
        lineage = (*self.lineage, (other.file, other.sha256), *other.lineage)
        family = self.family or other.family
        if self.relative:
            changes = (*(Change(n, set=p) for n, p in shared.items()), *self.changes)
            return replace(self, changes=changes, lineage=lineage, family=family)
        stated = {**shared, **self.parameters}
        return replace(
            self,
            parameters={n: stated[n] for n in schema() if n in stated},
            lineage=lineage,
            family=family,
        )

    def with_host(self, other: Machine) -> Machine:
        """Return this machine with the speeds of a host that it names, where it states none;
        machines of one host share their errors.
        """
        speeds = {
            change.parameter: replace(
                change.set, common=f"host {other.name}, {change.parameter.removeprefix('host.')}"
            )
            for change in other.changes
            if change.set is not None
        }
        upon = replace(
            self,
            host=other.name,
            instruction_set=self.instruction_set or other.instruction_set,
            lineage=(*self.lineage, (other.file, other.sha256)),
        )
        if self.relative:
            return replace(
                upon, changes=(*(Change(n, set=p) for n, p in speeds.items()), *self.changes)
            )
        stated = {**speeds, **self.parameters}
        return replace(upon, parameters={n: stated[n] for n in schema() if n in stated})

    def on(self, below: Machine) -> Machine:
        """Return this machine's changes applied to `below`.  If `below` is relative, so is the
        result, with both lists of changes.
        """
        inherits = self.coupling in ("relative", "apu", below.coupling)
        upon = replace(
            self,
            base=below.base,
            coupling=below.coupling if self.coupling == "relative" else self.coupling,
            memory_shared=self.memory_shared or (below.memory_shared if inherits else None),
            year=self.year or below.year,
            instruction_set=self.instruction_set or below.instruction_set,
            family=self.family or below.family,
            host=self.host or below.host,
            lineage=(*self.lineage, (below.file, below.sha256), *below.lineage),
        )
        if below.relative:
            return replace(upon, changes=below.changes + self.changes)
        parameters = dict(below.parameters)
        for change in self.changes:
            after = change.apply(parameters.get(change.parameter))
            if after is not None:
                parameters[change.parameter] = after
        return replace(upon, parameters={n: parameters[n] for n in schema() if n in parameters})

    def lacking(self, source: Machine) -> tuple[ParameterName, ...]:
        """Return the parameters that this relative machine changes but `source` lacks; they stay
        unknown.
        """
        given = set(source.parameters)
        out = []
        for change in self.changes if self.relative else ():
            if change.parameter in given or change.set is not None or change.assume is not None:
                given.add(change.parameter)
            else:
                out.append(change.parameter)
        return tuple(dict.fromkeys(out))

    def unknowns(self) -> dict[str, float]:
        """Return the relative error (one standard deviation) of every uncertain number, by its
        name.

        The names are what `drawn` takes: ``machine/parameter``, ``machine/parameter/change`` or
        ``common/word``.  Those of a relative machine name its changes, so that the source's own
        error cancels where source and target are compared.
        """
        if self.relative:
            named = [
                (f"{c.parameter}/{word}", part)
                for c in self.changes
                for word, part in c.parts().items()
            ]
        else:
            named = list(self.parameters.items())
        return {p.unknown(f"{self.name}/{name}"): p.error for name, p in named if p.error > 0}

    def drawn(self, normals: Mapping[str, float]) -> Machine:
        """Return a machine that the errors allow: each number lies `normals[name]` standard
        deviations away from its value.

        Names are those of `unknowns`; numbers that are not named stay.  Draw a relative machine
        first and resolve it on the drawn source.
        """
        if self.relative:
            return replace(self, changes=tuple(c.drawn(self.name, normals) for c in self.changes))
        drawn = {
            n: p.drawn(normals.get(p.unknown(f"{self.name}/{n}"), 0.0))
            for n, p in self.parameters.items()
        }
        return replace(self, parameters={n: _within(n, p) for n, p in drawn.items()})


def _stands_alone(source: Machine) -> None:
    if source.relative:
        raise error_of("M016", where=source.file, name=source.name)


def _within(name: ParameterName, parameter: Parameter) -> Parameter:
    """Return a parameter within what is possible: no efficiency exceeds 1, and no command gets
    there without a trip.
    """
    beyond = (
        parameter.value > 1
        if name.endswith(".efficiency")
        else name == "link.command_trips" and parameter.value < 1
    )
    return replace(parameter, value=1.0) if beyond else parameter


@dataclass(frozen=True, slots=True)
class Pair:
    """Source and target of one projection; the target is always complete.

    Attributes
    ----------
    source : machine of the recording.
    target : machine that the run is projected on; a relative one is resolved on the source.

    Raises
    ------
    MachineError : M016 where the source is relative.
    """

    source: Machine
    target: Machine

    def __post_init__(self) -> None:
        _stands_alone(self.source)
        object.__setattr__(self, "target", self.target.resolved(self.source))
