"""Names of the parameters of machines as a type: an editor completes them, and a type checker
refuses all others.

``foundation/schema/machine.csv`` holds their meanings; a test compares this list with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, get_args

from turnbuckle.foundation.errors import did_you_mean

ParameterName: TypeAlias = Literal[
    "gpu.count",
    "gpu.fp64",
    "gpu.fp64_matrix",
    "gpu.fp32",
    "gpu.fp16",
    "gpu.tf32_matrix",
    "gpu.fp16_matrix",
    "gpu.fp8_matrix",
    "gpu.int8_matrix",
    "gpu.memory_bandwidth",
    "gpu.memory_efficiency",
    "gpu.memory_size",
    "gpu.power",
    "gpu.multiprocessors",
    "gpu.clock",
    "gpu.base_clock",
    "gpu.cache",
    "gpu.warp",
    "gpu.threads",
    "gpu.registers",
    "gpu.blocks",
    "gpu.shared_memory",
    "gpu.shared_memory_block",
    "host.cores",
    "host.speed",
    "host.framework",
    "host.driver",
    "host.code",
    "host.loop",
    "host.memory_bandwidth",
    "host.memory_size",
    "package.copy_bandwidth",
    "package.managed_bandwidth",
    "package.staging_threshold",
    "link.h2d.bandwidth",
    "link.h2d.efficiency",
    "link.h2d.latency",
    "link.d2h.bandwidth",
    "link.d2h.efficiency",
    "link.d2h.latency",
    "link.both.efficiency",
    "link.p2p.bandwidth",
    "link.p2p.efficiency",
    "link.p2p.latency",
    "link.pageable.efficiency",
    "link.tags",
    "link.read_request",
    "link.round_trip",
    "link.command_trips",
    "launch.call",
    "launch.latency",
    "sync.return",
    "alloc.call",
    "bare.launch",
    "bare.sync",
    "bare.copy",
    "slack.link",
    "slack.call",
    "remoting.round_trip",
    "remoting.h2d.bandwidth",
    "remoting.d2h.bandwidth",
    "remoting.command",
    "remoting.launch_command",
    "remoting.byte",
    "remoting.command_bytes",
    "remoting.answer_bytes",
    "remoting.launch",
    "remoting.write",
    "remoting.read",
    "remoting.wait",
    "remoting.event",
    "remoting.allocation",
    "remoting.query",
    "remoting.calls_unrecorded",
    "remoting.commands_unrecorded",
    "node.gpus",
    "nic.bandwidth",
    "nic.count",
    "nic.latency",
    "observed.d2d.bandwidth",
    "observed.d2d.latency",
    "observed.h2d.pageable.bandwidth",
    "observed.h2d.pageable.latency",
    "observed.h2d.pinned.bandwidth",
    "observed.h2d.pinned.latency",
    "observed.h2d.managed.bandwidth",
    "observed.h2d.managed.latency",
    "observed.h2d.unknown.bandwidth",
    "observed.h2d.unknown.latency",
    "observed.h2d.device.bandwidth",
    "observed.h2d.device.latency",
    "observed.h2d.array.bandwidth",
    "observed.h2d.array.latency",
    "observed.h2d.device_static.bandwidth",
    "observed.h2d.device_static.latency",
    "observed.h2d.managed_static.bandwidth",
    "observed.h2d.managed_static.latency",
    "observed.h2d.migration.bandwidth",
    "observed.h2d.migration.latency",
    "observed.d2h.pageable.bandwidth",
    "observed.d2h.pageable.latency",
    "observed.d2h.pinned.bandwidth",
    "observed.d2h.pinned.latency",
    "observed.d2h.managed.bandwidth",
    "observed.d2h.managed.latency",
    "observed.d2h.unknown.bandwidth",
    "observed.d2h.unknown.latency",
    "observed.d2h.device.bandwidth",
    "observed.d2h.device.latency",
    "observed.d2h.array.bandwidth",
    "observed.d2h.array.latency",
    "observed.d2h.device_static.bandwidth",
    "observed.d2h.device_static.latency",
    "observed.d2h.managed_static.bandwidth",
    "observed.d2h.managed_static.latency",
    "observed.d2h.migration.bandwidth",
    "observed.d2h.migration.latency",
]
#: Directions between host and device; of every copy over the link; and what is stated of them.
HostWay: TypeAlias = Literal["h2d", "d2h"]
LinkWay: TypeAlias = Literal["h2d", "d2h", "p2p"]
LinkTerm: TypeAlias = Literal["bandwidth", "efficiency", "latency"]

HOST_WAYS: Final[tuple[HostWay, ...]] = get_args(HostWay)
LINK_WAYS: Final[tuple[LinkWay, ...]] = get_args(LinkWay)
#: What limits reads in flight: the device asks for so many, of that size, and waits so long for
#: each.
READS_IN_FLIGHT: Final[tuple[ParameterName, ...]] = (
    "link.tags",
    "link.read_request",
    "link.round_trip",
)
#: What distance does to a link besides its length.
FABRIC: Final[tuple[ParameterName, ...]] = (*READS_IN_FLIGHT, "link.command_trips")
#: The two ways to describe distance.
DISTANCES: Final[tuple[ParameterName, ...]] = ("slack.call", "slack.link")
#: Classes of calls that a remoting layer may treat each in its own manner: ``remoting.CLASS``.
REMOTING_CLASSES: Final = ("launch", "write", "read", "wait", "event", "allocation", "query")
#: Every name, in the order of the manual.
PARAMETER_NAMES: Final[tuple[ParameterName, ...]] = get_args(ParameterName)
_BY_TEXT: Final[Mapping[str, ParameterName]] = {name: name for name in PARAMETER_NAMES}
_BY_PARTS: Final[Mapping[tuple[str, ...], ParameterName]] = {
    tuple(name.split(".")): name for name in PARAMETER_NAMES
}


def link_parameter(direction: LinkWay, term: LinkTerm) -> ParameterName:
    """Return the name of a parameter of the link in one direction.

    >>> link_parameter("h2d", "bandwidth")
    'link.h2d.bandwidth'
    """
    return _BY_PARTS["link", direction, term]


def observed_parameter(
    direction: HostWay, memory: str, term: Literal["bandwidth", "latency"]
) -> ParameterName:
    """Return the name of an observed parameter of the link for a kind of host memory, as copies of
    the recording reached it.

    >>> observed_parameter("d2h", "pageable", "latency")
    'observed.d2h.pageable.latency'

    Raises
    ------
    KeyError : no such kind of memory.
    """
    return _BY_PARTS["observed", direction, memory, term]


def found_parameter(text: str) -> ParameterName | None:
    """Return an external text as a parameter name; None where no parameter has that name."""
    return _BY_TEXT.get(text)


def parameter_name(text: str) -> ParameterName:
    """Return an external text as a parameter name.

    Raises
    ------
    KeyError : no parameter has that name; the message states the nearest name.
    """
    name = found_parameter(text)
    if name is None:
        raise KeyError(
            f"{text}: {did_you_mean(text, PARAMETER_NAMES) or 'not a machine parameter'}"
        )
    return name
