"""What the uncertain numbers of a projection are called in words, and what would make each of them certain."""

from __future__ import annotations

import re
from typing import Final

from turnbuckle.show.text import NARROW, clean, number

DIRECTION: Final = {
    "h2d": "host to device",
    "d2h": "device to host",
    "d2d": "inside a device",
    "p2p": "device to device",
    "h2h": "inside the host",
    "migration_h2d": "moved to the device",
    "migration_d2h": "moved to the host",
    "migration_d2d": "moved between devices",
}
"""Directions in words."""

LABELS: Final = {
    "launch.call": "length of a launch call",
    "launch.latency": "launch latency",
    "sync.return": "return from a wait",
    "alloc.call": "length of an allocation",
    "bare.launch": "launch call without profiler",
    "bare.sync": "wait without profiler",
    "bare.copy": "small copy without profiler",
    "slack.call": "delay added to each call",
    "remoting.round_trip": "round trip of the remoting layer",
    "remoting.h2d.bandwidth": "network bandwidth, host to device",
    "remoting.d2h.bandwidth": "network bandwidth, device to host",
    "remoting.command": "software of the remoting layer, a command",
    "remoting.byte": "software of the remoting layer, a byte",
    "slack.link": "one-way distance added to the link",
    "gpu.fp64": "double precision rate",
    "gpu.fp64_matrix": "double precision matrix rate",
    "gpu.memory_bandwidth": "device memory bandwidth",
    "link.tags": "read requests in flight",
    "link.read_request": "read request size",
    "link.round_trip": "read round trip",
    "link.both.efficiency": "link share with both directions busy",
    "link.pageable.efficiency": "link share of pageable copies",
}
"""Short names of parameters; those of links are put together by `parameter_label`."""

_LINK = re.compile(r"link\.(h2d|d2h|p2p)\.(bandwidth|efficiency|latency)")
_OBSERVED = re.compile(r"observed\.(h2d|d2h)\.(\w+)\.(bandwidth|latency)")
_FORM = re.compile(r"form/(\w+?)/(\w*)/1e(-?\d+)")
_PART: Final = {"bandwidth": "bandwidth", "efficiency": "share of bandwidth reached", "latency": "copy latency"}

#: What to do about an unknown: the first pattern found in its name decides.
_ADVICE: Final[tuple[tuple[str, str], ...]] = (
    (r"^kernel alpha|gpu\.(fp64|memory)", "run one of the main kernels on the target (or a GPU like it) and give the ratio with --alpha"),
    (
        r"^(host|instruction set) of the other",
        "time the program's own work between calls on a host of the target, and give the ratio with --host",
    ),
    (
        r"^share of the (link|other device)|^staging by|staged$|^fixed part of a copy|^copies of other ranks",
        "run a bandwidth test on the target: turnbuckle calibrate makes a machine file of its output",
    ),
    (
        r"remoting layer|remoting\.(command|byte)",
        "run a program of many launches through the layer: what it adds, over its launches, is what the software takes for a command",
    ),
    (r"remoting\..{0,20}bandwidth", "copy large arrays through the layer and put the rate into a machine file"),
    (
        r"^common/distance|remoting\.round_trip|slack\.(call|link)|/add$",
        "measure the one-way delay to the remote GPU and put it into a machine file",
    ),
    (
        r"link\.(tags|read_request|round_trip)|read request|requests in flight|round trip",
        "measure large host-to-device copies across the longer path: they show how many reads are in flight",
    ),
    (
        r"^form/.*pageable|observed\..{0,80}pageable",
        "use pinned host memory for these copies, or repeat the run a few times: pageable copies scatter",
    ),
    (r"^form/migration|observed\..{0,80}migration", "repeat the run: how the driver batches page migrations differs from run to run"),
    (r"^form/", "record copies of more sizes, or repeat the run: these copies do not follow one line"),
    (
        r"link\..{0,80}(bandwidth|efficiency)|observed\..{0,80}bandwidth",
        "run a bandwidth test of this link and put the result into a machine file",
    ),
    (r"^kernels on memory", "run a kernel of the program on memory that the host allocated, and on device memory"),
    (r"link\..{0,80}latency|observed\..{0,80}latency", "time small copies on this link and put the result into a machine file"),
    (r"launch|sync|alloc", "time empty launches and waits on the target's host and put the result into a machine file"),
)


def parameter_label(name: str) -> str:
    """A machine parameter in words.

    >>> parameter_label("link.h2d.latency")
    'copy latency, host to device'
    """
    if name in LABELS:
        return LABELS[name]
    if link := _LINK.fullmatch(name):
        return f"{_PART[link[2]]}, {DIRECTION[link[1]]}"
    if observed := _OBSERVED.fullmatch(name):
        return f"{_PART[observed[3]]} of {observed[2].replace('_', ' ')} copies, {DIRECTION[observed[1]]}"
    return clean(name).replace(".", " ").replace("_", " ")


def unknown_label(name: str) -> str:
    """An uncertain number of `Projection.drivers` in words.

    >>> unknown_label("common/distance of a row"), unknown_label("gh200/launch.latency"), unknown_label("kernel alpha")
    ('distance of a row', 'launch latency (gh200)', 'kernel speed ratio')
    """
    if name == "kernel alpha":
        return "kernel speed ratio"
    if name == "host of the other machine":
        return "speed of the other machine's host"
    if form := _FORM.fullmatch(name):
        kind, memory, decade = form[1], form[2].replace("_", " "), int(form[3])
        what = f"scatter of {memory} copies" if kind.startswith("copy") else "scatter of page migrations"
        where = DIRECTION.get(kind.removeprefix("copy_"), "") if kind.startswith("copy") else ""
        size = f"{number(10.0**decade, 'B')} to {number(10.0 ** (decade + 1), 'B')}" if decade > 0 else f"below 10{NARROW}B"
        return f"{what}{', ' + where if where else ''}, {size}"
    first, _, rest = name.partition("/")
    if first == "common":
        return clean(rest)
    parameter = rest.split("/", 1)[0]
    return f"{parameter_label(parameter)} ({clean(first)})" if parameter else clean(name)


def advice(name: str) -> str:
    """What to measure so that this number is no longer in doubt."""
    return next(
        (text for pattern, text in _ADVICE if re.search(pattern, name)), "measure it and put it, with its source, into a machine file"
    )
