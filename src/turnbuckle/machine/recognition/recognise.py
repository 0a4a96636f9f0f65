"""Which machine a recording is of: by the names of its devices, by what it states of them, or by
their family.

exact       a name of a device that a machine of the catalogue claims
by facts    the one machine of the catalogue with these multiprocessors, this memory, this clock
family      a GPU of a known family: rates from multiprocessors and clock, with a wider error
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from turnbuckle.machine import catalog
from turnbuckle.machine.machine import Coupling, Machine, Parameter, schema
from turnbuckle.machine.parameter_names import HOST_WAYS, ParameterName, link_parameter

from .device_names import is_slice
from .families import CLOCK_ERROR, Family, families, family_of

How = Literal["name", "facts", "family", ""]

#: Memory that a driver states over that of the data sheet: powers of 1024 above, what ECC and the
#: driver keep below.
_MEMORY: Final = (0.90, 1.085)
#: Bandwidths and clocks of one board differ between data sheets and drivers by less than this
#: factor.
_BANDWIDTH, _CLOCK = 1.06, 1.1
#: A fact of a device that contradicts the machine of its name: other multiprocessors, or memory
#: apart by more than this factor.
_OTHER_MEMORY: Final = 1.2
#: Memory bandwidth a multiprocessor of boards of one family (log-sd), at least.
_BANDWIDTH_ERROR: Final = 0.3
_AMD: Final = re.compile(
    r"\bamd\b|amd(?=instinct|radeon)|radeon|instinct|\bgfx\d|\bvega", re.IGNORECASE
)
_ONE_PACKAGE: Final = ("apu",)
#: Drivers of a Jetson before this compute capability state another clock than the memory's: the
#: GPU's (918 MHz of an Orin NX, 624 of an Orin Nano) or the memory's of a power mode (612 MHz of an
#: AGX Orin), where their data sheets have 3200 and 2133 MHz (deviceQuery in public repositories).
_MEMORY_CLOCK_STATED: Final = 11


@dataclass(frozen=True)
class Device:
    """What a recording states of one device; None for what it does not say.

    Attributes
    ----------
    name, chip : product name and name of the chip.
    discrete : False where CPU and GPU share one memory.
    memory_bytes, memory_bandwidth, clock_hz, multiprocessors : as the profiler states them [B],
        [B/s], [Hz], [1].
    major, minor : compute capability.
    """

    name: str = ""
    chip: str = ""
    discrete: bool | None = None
    memory_bytes: float | None = None
    memory_bandwidth: float | None = None
    clock_hz: float | None = None
    multiprocessors: float | None = None
    major: int | None = None
    minor: int | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Device:
        """Return a row of the table ``devices``."""
        return cls(
            name=row.get("name") or "",
            chip=row.get("chip") or "",
            discrete=None if row.get("discrete") is None else bool(row["discrete"]),
            memory_bytes=_plausible(row.get("memory_bytes"), "gpu.memory_size"),
            memory_bandwidth=_plausible(row.get("memory_bandwidth"), "gpu.memory_bandwidth"),
            clock_hz=_plausible(row.get("clock_hz"), "gpu.clock"),
            multiprocessors=_plausible(row.get("multiprocessors"), "gpu.multiprocessors"),
            major=row.get("compute_major"),
            minor=row.get("compute_minor"),
        )

    @property
    def amd(self) -> bool:
        """Return whether this is a GPU of AMD's."""
        return bool(_AMD.search(f"{self.name} {self.chip}"))

    @property
    def family(self) -> Family | None:
        """Return its family; None where nothing tells it."""
        return family_of(self.major, self.minor, self.chip, self.amd)

    @property
    def bandwidth(self) -> float | None:
        """Return its memory bandwidth [B/s]; None where it is not stated, or computed from a clock
        that is not the memory's.
        """
        family = self.family
        if family is None or self.amd or not family.integrated:
            return self.memory_bandwidth
        return self.memory_bandwidth if float(family.name) >= _MEMORY_CLOCK_STATED else None

    @property
    def integrated(self) -> bool:
        """Return whether CPU and GPU share one memory, as the recording or the family says."""
        if self.discrete is not None:
            return not self.discrete
        return self.family is not None and self.family.integrated


def _plausible(amount: float | None, name: ParameterName) -> float | None:
    """Return an amount of a recording, or None where no GPU can have it."""
    meaning = schema()[name]
    return amount if amount is not None and meaning.minimum <= amount <= meaning.maximum else None


@dataclass(frozen=True)
class Recognised:
    """The machine of a recording.

    Attributes
    ----------
    machine : None where nothing of its GPU is known.
    how : what it was recognised by.
    words : how, in words; empty by name.
    """

    machine: Machine | None
    how: How
    words: str = ""


def recognise(gpu_names: Sequence[str], has_c2c: bool | None = None) -> Machine | None:
    """Return the catalogue's machine behind the device names of a profile, or None where they do
    not identify one.

    Parameters
    ----------
    gpu_names : name of each device as profilers write it: ``"NVIDIA A100-SXM4-80GB"``.
    has_c2c : whether the recording shows a chip-to-chip link between GPU and host; None if it does
        not record this.

    Returns
    -------
    None if no name or several different machines are meant, or if `has_c2c` contradicts the name.
    The name identifies the GPU and its usual host link only; a V100 counts as one behind PCIe, not
    behind a POWER9's NVLink.  For a slice of a GPU the machine has the link, but no numbers of the
    GPU.  `device_names` compares names.
    """
    meant = {catalog.claimed(n) for n in gpu_names}
    if len(meant) != 1 or "" in meant:
        return None
    machine = catalog.load(meant.pop())
    if has_c2c is not None and has_c2c != (machine.coupling == "c2c"):
        return None
    if any(is_slice(n) for n in gpu_names):
        link = {n: p for n, p in machine.parameters.items() if not n.startswith("gpu.")}
        return replace(machine, title=f"a slice of {machine.title}", parameters=link)
    return machine


def machine_of(devices: Sequence[Device]) -> Recognised:
    """Return the machine that a recording is of, from all that it states of the devices that did
    its work.
    """
    names = [d.name for d in devices if d.name]
    first = max(devices, key=_told, default=Device())
    named = recognise(names)
    if named is not None:
        if not _contradicts(first, named):
            return Recognised(named, "name")
        family = _of_family(first, names)
        if family is None:
            return Recognised(named, "name")
        # its link and its host are those of the name; the GPU is what the recording states
        gpu = {n: p for n, p in family.parameters.items() if n.startswith("gpu.")}
        kept = {n: p for n, p in named.parameters.items() if not n.startswith("gpu.")}
        return Recognised(
            replace(named, parameters={**kept, **gpu}), "family", f"{names[0]}, {_stated(first)}"
        )
    if (
        len({(d.multiprocessors, d.family and d.family.name) for d in devices if d.multiprocessors})
        > 1
    ):
        return Recognised(None, "")
    if alike := _by_facts(first):
        return Recognised(
            _blend(alike, first, names),
            "facts",
            f"{names[0] if names else 'no name'}: {_stated(first)}",
        )
    family_machine = _of_family(first, names)
    if family_machine is None:
        return Recognised(None, "")
    return Recognised(
        family_machine, "family", f"{names[0] if names else 'no name'}: {_stated(first)}"
    )


def _told(device: Device) -> int:
    return sum(
        value is not None
        for value in (device.memory_bytes, device.clock_hz, device.multiprocessors, device.major)
    )


def _stated(device: Device) -> str:
    """Return what decided, in words."""
    family, units = device.family, device.multiprocessors
    words = [family.title + f" ({family.name})"] if family else []
    if units:
        words.append(f"{units:.0f} {'compute units' if device.amd else 'multiprocessors'}")
    if device.memory_bytes:
        words.append(f"{device.memory_bytes / 1e9:.0f} GB")
    return ", ".join(words)


def _contradicts(device: Device, machine: Machine) -> bool:
    """Return whether a device cannot be that of the machine whose name it has: boards of one name
    come in several builds.
    """
    if is_slice(device.name):
        return False
    units, memory = machine.value("gpu.multiprocessors"), machine.value("gpu.memory_size")
    if units and device.multiprocessors and units != device.multiprocessors:
        return True
    return bool(
        memory
        and device.memory_bytes
        and device.multiprocessors
        and _apart(device.memory_bytes, memory) > _OTHER_MEMORY
    )


def _apart(a: float, b: float) -> float:
    return max(a / b, b / a)


def _by_facts(device: Device) -> list[Machine]:
    """Return the machines of the catalogue that have the GPU which the recording describes."""
    if not device.multiprocessors or not device.memory_bytes:
        return []
    return [m for m in catalog.all_machines() if m.recognise and _matches(device, m)]


def _matches(device: Device, machine: Machine) -> bool:
    memory, units = machine.value("gpu.memory_size"), machine.value("gpu.multiprocessors")
    if not memory or not units or units != device.multiprocessors or device.memory_bytes is None:
        return False
    if not _same_memory(device.memory_bytes, memory):
        return False
    family = device.family
    if family is not None and machine.family and family.name != machine.family:
        return False
    if family is None and device.amd and not machine.family.startswith("gfx"):
        return False
    if device.discrete is not None and device.discrete == (machine.coupling in _ONE_PACKAGE):
        return False
    for stated, name, most in (
        (device.bandwidth, "gpu.memory_bandwidth", _BANDWIDTH),
        (device.clock_hz, "gpu.clock", _CLOCK),
    ):
        other = machine.parameters.get(name)  # type: ignore[call-overload]
        if stated and other and _apart(stated, other.value) > most:
            return False
    return True


def _blend(machines: Sequence[Machine], device: Device, names: Sequence[str]) -> Machine:
    """Return one machine for several that the facts do not tell apart: what they agree in, and the
    middle of what they do not.
    """
    first = machines[0]
    shared = set.intersection(*(set(m.parameters) for m in machines))
    parameters = {n: p for n, p in first.parameters.items() if n in shared}
    for name, parameter in parameters.items():
        values = [m.parameters[name].value for m in machines]
        low, high = min(values), max(values)
        if low > 0 and high > low:
            spread = math.log(high / low) / 2
            source = f"between {' and '.join(m.name for m in machines)}"
            parameters[name] = replace(
                parameter,
                value=math.sqrt(low * high),
                error=max(parameter.error, spread),
                nature="assumption",
                source=source,
            )
    family = device.family or families().get(first.family)
    link = "" if family is None else family.link
    # a named board that is not the machine's own may sit behind another link
    other = bool(names) or len({m.coupling for m in machines}) > 1
    if other and first.coupling not in _ONE_PACKAGE:
        parameters = {
            n: p for n, p in parameters.items() if not n.startswith("link.")
        } | catalog.link_of(link)
    coupling: Coupling = "pcie" if other and first.coupling not in _ONE_PACKAGE else first.coupling
    if len(machines) == 1 and not other:
        return replace(first, parameters=parameters)
    title = (
        " or ".join(m.title for m in machines)
        if not names
        else f"{names[0]}, the GPU of {' or '.join(m.name for m in machines)}"
    )
    return replace(
        first,
        name="observed",
        title=title,
        summary="recognised by what the recording states of its GPU",
        coupling=coupling,
        parameters=parameters,
        recognise=tuple(dict.fromkeys(names)) or first.recognise,
    )


def _of_family(device: Device, names: Sequence[str]) -> Machine | None:
    """Return a machine of the device's family; None without a family or multiprocessors."""
    family = device.family
    if family is None or not device.multiprocessors:
        return None

    def stated(value: float, unit: str) -> Parameter:
        return Parameter(float(value), 0.0, unit, "spec", "this profile: device description")

    clock = stated(device.clock_hz, "Hz") if device.clock_hz else _usual_clock(family)
    parameters = family.parameters(stated(device.multiprocessors, "1"), clock, " ".join(names))
    if device.memory_bytes:
        parameters["gpu.memory_size"] = stated(device.memory_bytes, "B")
    if device.bandwidth:
        parameters["gpu.memory_bandwidth"] = stated(device.bandwidth, "B/s")
    elif (middle := _usual_bandwidth(family, device)) is not None:
        parameters["gpu.memory_bandwidth"] = middle
    if not device.integrated:
        parameters |= catalog.link_of(family.link)
    return Machine(
        name="observed",
        title=", ".join(dict.fromkeys(names)) or f"a GPU of {family.title}",
        summary="what the profile and the family of its GPU say of the machine it ran on",
        year=0,
        coupling="apu" if device.integrated else "pcie",
        family=family.name,
        parameters=parameters,
        recognise=tuple(dict.fromkeys(names)) or (family.title,),
    )


def _usual_bandwidth(family: Family, device: Device) -> Parameter | None:
    """Return the memory bandwidth of a GPU that states none, from the catalogue's GPUs of its
    family [B/s].

    Of an integrated GPU it is that of the modules with its memory: a power mode switches
    multiprocessors off, and no memory.
    """
    name: ParameterName = "gpu.memory_bandwidth"
    boards = _boards(family, name, "gpu.multiprocessors", "gpu.memory_size")
    whole = f"middle of the catalogue's GPUs of {family.title}"
    if family.integrated and device.memory_bytes:
        alike = [
            m
            for m in boards
            if _same_memory(device.memory_bytes, m.parameters["gpu.memory_size"].value)
        ]
        if alike:
            each = [m.parameters[name].value for m in alike]
            return _middle(each, _BANDWIDTH_ERROR, "B/s", f"{whole} with this memory")
    units = device.multiprocessors or 1.0
    each = [
        units * m.parameters[name].value / m.parameters["gpu.multiprocessors"].value for m in boards
    ]
    return _middle(each, _BANDWIDTH_ERROR, "B/s", f"{whole}: memory bandwidth a multiprocessor")


def _same_memory(stated: float, catalogued: float) -> bool:
    """Return whether a driver states a memory size [B] for what a data sheet does."""
    return _MEMORY[0] <= stated / catalogued <= _MEMORY[1]


def _usual_clock(family: Family) -> Parameter | None:
    """Return the clock of a GPU of which only the family is known, from the catalogue's or the
    family's own [Hz].
    """
    each = [m.parameters["gpu.clock"].value for m in _boards(family, "gpu.clock")]
    source = f"middle of the catalogue's GPUs of {family.title}"
    return _middle(each, CLOCK_ERROR, "Hz", source) or family.typical_clock()


def _boards(family: Family, *names: ParameterName) -> list[Machine]:
    """Return the GPUs of the catalogue that are of a family and state all of some parameters."""
    return [
        m
        for m in catalog.all_machines()
        if m.family == family.name and m.recognise and m.has >= set(names)
    ]


def _middle(values: Sequence[float], least: float, unit: str, source: str) -> Parameter | None:
    """Return the middle of some values, with half their spread for an error, at least `least`; None
    of nothing.
    """
    if not values:
        return None
    each = sorted(values)
    error = max(least, math.log(each[-1] / each[0]) / 2)
    return Parameter(each[len(each) // 2], error, unit, "assumption", source)


def fastest_link(machine: Machine | None) -> float | None:
    """Return the bandwidth of the fastest slot that the GPU of a machine fits [B/s]; None where its
    family is not known or has none.
    """
    family = families().get(machine.family) if machine is not None else None
    link = catalog.link_of(family.link) if family is not None else {}
    rates = [
        link[name].value for way in HOST_WAYS if (name := link_parameter(way, "bandwidth")) in link
    ]
    return max(rates, default=None)
