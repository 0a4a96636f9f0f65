"""Where the GPUs of a node stand, as its tools print it: the NUMA side and the CPUs of each, and
how fast its link runs.

    nvidia-smi topo -m       CPUs and NUMA node of each GPU
    rocm-smi --showtopo      NUMA node of each GPU
    lstopo --of xml          CPUs, NUMA node and link of each GPU, and the CPUs that this process may use

Errors:

    A486  XML that is not read
    A487  none of these formats
    A488  a list of CPUs that is none
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.machine.measured.xml_text import Element, parsed

#: Highest number of a CPU, and longest text of a tool's output [B].
_MOST_CPUS, _MOST_BYTES = 1 << 16, 4 << 20
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]{0,20}m")
_DEVICE: Final = re.compile(r"(?:GPU|NIC|mlx5_|mlx4_|hfi1_|bnxt_re|irdma|ib)\d{1,4}")
_ROCM: Final = re.compile(
    r"GPU ?\[? ?(\d{1,4})\]?\s{0,40}:\s{0,9}\(Topology\) Numa Node:\s{0,9}(-?\d{1,4})"
)
#: PCI classes of GPUs: VGA, 3D and other display controllers, processing accelerators; and their
#: vendors: NVIDIA, AMD, Intel.
_CLASSES: Final = ("0300", "0302", "0380", "1200")
_VENDORS: Final = ("10de", "1002", "8086")
_NUMBERED: Final = re.compile(r"(?:cuda|nvml|rsmi|ze|opencl\d{1,3}d)(\d{1,4})")


@dataclass(frozen=True)
class Gpu:
    """One GPU of a node.

    Attributes
    ----------
    name : as the tool names it.
    numa : number of its NUMA node; None where the tool does not say.
    cpus : CPUs on its side; None where the tool does not say.
    link_bandwidth : of its link at the time, one direction, without the line code [B/s]; None where
        the tool does not say.
    """

    name: str
    numa: int | None = None
    cpus: frozenset[int] | None = None
    link_bandwidth: float | None = None


@dataclass(frozen=True)
class Topology:
    """The GPUs of a node.

    Attributes
    ----------
    tool : which one printed it.
    gpus : in the order of their numbers.
    allowed : CPUs that the process might use that printed it; None where the tool does not say, or
        these are all.
    """

    tool: str
    gpus: tuple[Gpu, ...] = field(default_factory=tuple)
    allowed: frozenset[int] | None = None


def read(path: Path) -> Topology:
    """Read a tool's output.  Raises A486, A487."""
    try:
        with opened(path) as file:
            head = file.read(_MOST_BYTES)
    except (OSError, ValueError) as error:
        raise error_of(
            "A487", where=clipped(path.name, 120), found=clipped(str(error), 120)
        ) from error
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return _hwloc(parsed(path), path)
    text = head.decode("utf-8", "replace")
    for tool, gpus in (("rocm-smi --showtopo", _rocm(text)), ("nvidia-smi topo -m", _nvidia(text))):
        if gpus:
            return Topology(tool, tuple(gpus))
    raise error_of(
        "A487", where=clipped(path.name, 120), found="no line of a GPU that these tools print"
    )


def cpu_list(text: str) -> frozenset[int]:
    """Return the CPUs of a list.  Raises A488.

    >>> sorted(cpu_list("0-2,8"))
    [0, 1, 2, 8]
    """
    out: set[int] = set()
    for part in text.split(","):
        bounds = re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", part)
        first, last = (int(bounds[1]), int(bounds[2] or bounds[1])) if bounds else (0, _MOST_CPUS)
        if not first <= last < _MOST_CPUS:
            raise error_of("A488", found=clipped(text, 60))
        out.update(range(first, last + 1))
    return frozenset(out)


def in_words(cpus: Iterable[int]) -> str:
    """Return CPUs as a list of ranges.

    >>> in_words([8, 0, 1, 2])
    '0-2,8'
    """
    out: list[list[int]] = []
    for cpu in sorted(cpus):
        if out and cpu == out[-1][1] + 1:
            out[-1][1] = cpu
        else:
            out.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in out)


def _nvidia(text: str) -> list[Gpu]:
    """Return the rows of the matrix: the device, a cell for each device, then the CPUs and the NUMA
    node.
    """
    devices, out = 0, []
    for line in _COLOUR.sub("", text).splitlines():
        words = line[:100_000].split()
        if not words or not _DEVICE.fullmatch(words[0]):
            continue
        if (len(words) > 1 and _DEVICE.fullmatch(words[1])) or "Affinity" in words:
            devices = sum(_DEVICE.fullmatch(word) is not None for word in words)
        elif words[0].startswith("GPU") and 0 < devices < len(words):
            rest = words[1 + devices :]
            cpus = cpu_list(rest[0]) if rest and re.fullmatch(r"[\d,-]{1,2000}", rest[0]) else None
            numa = int(rest[1]) if len(rest) > 1 and re.fullmatch(r"\d{1,4}", rest[1]) else None
            out.append(Gpu(words[0], numa, cpus))
    return out


def _rocm(text: str) -> list[Gpu]:
    return [
        Gpu(f"GPU{number}", int(numa) if int(numa) >= 0 else None)
        for number, numa in _ROCM.findall(text)
    ]


def _hwloc(root: Element, path: Path) -> Topology:
    """Return the PCI devices that are GPUs, with the CPUs of the closest object around each that
    has some.
    """
    if root.name != "topology":
        raise error_of(
            "A487",
            where=clipped(path.name, 120),
            found=f"XML whose outermost element is {clipped(root.name, 40)}",
        )
    nodes: dict[int, frozenset[int]] = {}
    gpus: list[Gpu] = []
    allowed: frozenset[int] | None = None
    everything: frozenset[int] = frozenset()
    for element, cpus, link in _objects(root, None, None):
        about = element.attributes
        if about.get("type") == "Machine":
            everything, allowed = (
                _cpu_set(about.get("complete_cpuset", "")),
                _cpu_set(about.get("allowed_cpuset", "")) or None,
            )
        elif about.get("type") == "NUMANode" and about.get("os_index", "").isdigit():
            nodes[int(about["os_index"][:6])] = _cpu_set(about.get("cpuset", ""))
        elif about.get("type") == "PCIDev" and _is_gpu(about.get("pci_type", "")):
            gpus.append(Gpu(_name(element), None, cpus, link))
    # an object around all nodes is on no side
    sided = [
        Gpu(
            gpu.name,
            next((k for k, node in nodes.items() if gpu.cpus and gpu.cpus <= node), None),
            gpu.cpus,
            gpu.link_bandwidth,
        )
        for gpu in gpus
    ]
    return Topology(
        "hwloc",
        tuple(sorted(sided, key=lambda gpu: (len(gpu.name), gpu.name))),
        None if allowed == everything else allowed,
    )


def _objects(
    element: Element, cpus: frozenset[int] | None, link: float | None
) -> Iterator[tuple[Element, frozenset[int] | None, float | None]]:
    """Yield each object with the CPUs around it, and the slowest link on the way to it [B/s]."""
    for inner in element.inside:
        if inner.name != "object":
            continue
        around = _cpu_set(inner.attributes["cpuset"]) if inner.attributes.get("cpuset") else cpus
        speed = _gigabytes(inner.attributes.get("pci_link_speed", ""))
        slowest = min((s for s in (link, speed) if s), default=None)
        yield inner, around, slowest
        yield from _objects(inner, around, slowest)


def _is_gpu(kind: str) -> bool:
    match = re.match(r"([0-9a-f]{4}) \[([0-9a-f]{4}):", kind)
    return match is not None and match[1] in _CLASSES and match[2] in _VENDORS


def _name(element: Element) -> str:
    """Return the number that the GPU's own tools give it, or else its place on the bus."""
    for inner in element.inside:
        if match := _NUMBERED.fullmatch(inner.attributes.get("name", "")[:40]):
            return f"GPU{match[1]}"
    bus = element.attributes.get("pci_busid", "")
    return f"GPU at {bus}" if re.fullmatch(r"[0-9a-f:.]{1,20}", bus) else "GPU"


def _gigabytes(text: str) -> float | None:
    speed = float(text) if re.fullmatch(r"\d{1,6}(\.\d{1,9})?", text) else 0.0
    return speed * 1e9 if speed > 0 else None


def _cpu_set(text: str) -> frozenset[int]:
    """Return the CPUs of hwloc's sets: words of 32 bits, the highest first; empty for sets without
    an end.

    >>> sorted(_cpu_set("0x00000001,0x00000003"))
    [0, 1, 32]
    """
    words = text.split(",")
    if len(words) > _MOST_CPUS // 32 or not all(
        re.fullmatch(r"(0x[0-9a-f]{1,8})?", word) for word in words
    ):
        return frozenset()
    value = 0
    for word in words:
        value = value << 32 | int(word or "0", 16)
    return frozenset(k for k in range(value.bit_length()) if value >> k & 1)
