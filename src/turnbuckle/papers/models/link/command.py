"""Command ``turnbuckle model link``: bytes on a link, what they leave for data, and the time of a
copy.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.foundation.findings import finding, merge
from turnbuckle.foundation.units import parse, show
from turnbuckle.machine import load
from turnbuckle.show.terminal.console import Terminal
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import MachineName, listed

if TYPE_CHECKING:
    from turnbuckle.cost.packet import Link

#: Sizes shown where none are asked for.
SIZES = (
    "64 B",
    "256 B",
    "1 KiB",
    "4 KiB",
    "16 KiB",
    "64 KiB",
    "256 KiB",
    "1 MiB",
    "16 MiB",
    "256 MiB",
)
#: Width of a terminal in which the bytes of each direction fit.
_WIRE = 63
WORDS = {
    "read": "copies to the device",
    "write": "copies to the host or to a peer",
    "both": "copies both ways at once",
}


def link(
    *links: Annotated[
        str,
        Parameter(
            help=(
                "generation and lanes as pcie4-x16, version and links as nvlink2-x2; several "
                "stand side by side"
            )
        ),
    ],
    on: Annotated[
        list[MachineName] | None,
        Parameter(
            help="machines whose links are meant, with commas, each with its latency of a copy",
            negative=(),
        ),
    ] = None,
    sizes: Annotated[
        list[str] | None,
        Parameter(help="bytes of a copy: several times or with commas", negative=()),
    ] = None,
    way: Annotated[
        Literal["read", "write", "both"],
        Parameter(help="what the device does: read from the host, write to it, or both at once"),
    ] = "read",
    latency: Annotated[
        str | None,
        Parameter(
            help=(
                "o + L, the time of a one-byte copy; that of the machine, or nothing for a link "
                "by name: the link alone"
            )
        ),
    ] = None,
    host_memory: Annotated[
        str | None,
        Parameter(help="bandwidth of host memory: copies are pageable and staged through it"),
    ] = None,
    pageable_threshold: Annotated[
        str | None,
        Parameter(
            help=(
                "pageable: from this size on the staging shows; 512 KiB, 0 B for the paper's "
                "equation 9"
            )
        ),
    ] = None,
    tags: Annotated[
        int | None, Parameter(help="reads that may be on their way at once, with --round-trip")
    ] = None,
    round_trip: Annotated[
        str | None, Parameter(help="from a read request to its data, with --tags")
    ] = None,
    mps: Annotated[
        int | None,
        Parameter(help="PCIe: most bytes of data in a packet (maximum payload size), 256"),
    ] = None,
    mrrs: Annotated[
        int | None,
        Parameter(help="PCIe: most bytes a read asks for (maximum read request size), 512"),
    ] = None,
    rcb: Annotated[
        int | None,
        Parameter(
            help=(
                "PCIe: the host cuts its answers at so many bytes (read completion boundary); "
                "else at MPS"
            )
        ),
    ] = None,
    address_bits: Annotated[int | None, Parameter(help="PCIe: 64 or 32")] = None,
    ecrc: Annotated[
        bool, Parameter(help="PCIe: packets end with an end-to-end checksum", negative=())
    ] = False,
    symbol_intervals: Annotated[
        bool,
        Parameter(
            help=(
                "PCIe: acknowledgements by the specification's symbol times, not Neugebauer's bytes"
            ),
            negative=(),
        ),
    ] = False,
    legacy_headers: Annotated[
        bool,
        Parameter(
            help="PCIe: AHEAD's equations 3 to 5 as printed, without the MRRS term", negative=()
        ),
    ] = False,
    legacy_mrrs: Annotated[
        bool, Parameter(help="PCIe: that term too, with --legacy-headers", negative=())
    ] = False,
) -> ModelAnswer:
    """Price copies over a PCI Express or NVLink connection: bytes on the wire, efficiency,
    bandwidth and time by size.
    """
    if not links and on is None:
        raise error_of("A019.nothing")
    if (tags is None) != (round_trip is None):
        given, missing = (
            ("--tags", "--round-trip") if round_trip is None else ("--round-trip", "--tags")
        )
        raise error_of("A019.alone", given=given, missing=missing)
    if pageable_threshold is not None and host_memory is None:
        raise error_of("A019.pageable")
    given_settings = {"mps": mps, "mrrs": mrrs, "rcb": rcb, "address_bits": address_bits}
    settings: dict[str, Any] = {
        name: value for name, value in given_settings.items() if value is not None
    }
    settings |= {"completion": "rcb"} if rcb is not None else {}
    settings |= {"interval": "symbols"} if symbol_intervals else {}
    settings |= {
        name: True
        for name, asked in (
            ("ecrc", ecrc),
            ("legacy_headers", legacy_headers),
            ("legacy_mrrs", legacy_mrrs),
        )
        if asked
    }
    document = answer(
        _links(links, on or [], way, settings),
        [parse(word, "B") for word in _words(sizes)],
        way,
        latency=None if latency is None else parse(latency, "s"),
        memory=None if host_memory is None else parse(host_memory, "B/s"),
        threshold=None if pageable_threshold is None else parse(pageable_threshold, "B"),
        reads=None if tags is None or round_trip is None else (tags, parse(round_trip, "s")),
    )
    return ModelAnswer(document, document["rows"], partial(_print, document=document))


def _words(sizes: list[str] | None) -> list[str]:
    words = list(SIZES) if sizes is None else listed(sizes)
    if not words:
        raise error_of("A019.sizes")
    return words


class Chosen(NamedTuple):
    """Link, its name in the answer (of the machine where one is asked about), and the latency of a
    copy over it [s].
    """

    link: Link
    name: str
    latency: float = 0.0


def _links(
    names: tuple[str, ...], machines: list[MachineName], way: str, settings: dict[str, Any]
) -> list[Chosen]:
    """Return the links of the command line, with the settings of PCI Express on those that are PCI
    Express.
    """

    from turnbuckle.cost.packet import link as named
    from turnbuckle.cost.pcie import Pcie
    from turnbuckle.papers.models.on_machine import wire

    links = [
        Chosen(link, link.name)
        for name in names
        for part in name.split(",")
        if part.strip()
        for link in [named(part)]
    ]
    for machine in (
        load(name)
        for word in machines
        for name in (listed([word]) if isinstance(word, str) else [word])
    ):
        latency = machine.value("link.d2h.latency" if way == "write" else "link.h2d.latency")
        links.append(Chosen(wire(machine), machine.name, latency or 0.0))
    if not links:
        raise error_of("A019.nothing")
    if settings and not any(isinstance(chosen.link, Pcie) for chosen in links):
        raise error_of("A019.pcie", found=", ".join(chosen.link.name for chosen in links))
    return [
        chosen._replace(link=replace(chosen.link, **settings))
        if isinstance(chosen.link, Pcie)
        else chosen
        for chosen in links
    ]


def answer(
    links: list[Chosen],
    sizes: list[float],
    way: Literal["read", "write", "both"],
    *,
    latency: float | None,
    memory: float | None,
    threshold: float | None,
    reads: tuple[int, float] | None,
) -> dict[str, Any]:
    """Return the document of the command: the question, the links, and one row for each link and
    size.
    """

    import numpy as np

    from turnbuckle.cost import packet

    size, rows, findings = np.array(sizes), [], []
    border = packet.PAGEABLE_THRESHOLD if threshold is None else threshold
    if latency is not None:
        links = [chosen._replace(latency=latency) for chosen in links]
    for link, name, start in links:
        sent, received = link.wire_bytes(size, way)
        seconds = packet.copy_seconds(
            size, link, way, latency=start, host_memory_bandwidth=memory, pageable_threshold=border
        )
        columns: dict[str, Any] = {
            "size_bytes": size,
            "sent_bytes": sent,
            "received_bytes": received,
        }
        columns |= {
            "efficiency": link.efficiency(size, way),
            "bandwidth": link.bandwidth(size, way),
            "seconds": seconds,
        }
        if memory is not None:
            columns["log_sd"] = packet.pageable_log_sd(
                size,
                link,
                way,
                latency=start,
                host_memory_bandwidth=memory,
                pageable_threshold=border,
            )
            findings.append(finding("A331", int((columns["log_sd"] > 0).sum()), name))
        if reads is not None:
            limited = packet.read_limited(size, link, way, tags=reads[0], round_trip=reads[1])
            columns["limited_bandwidth"] = limited
            columns["limited_seconds"] = seconds + size / limited - size / columns["bandwidth"]
            slower = int((limited < columns["bandwidth"]).sum())
            findings.append(
                finding("A332", slower, f"{name}, {reads[0]} reads of {link.request_bytes} B")
            )
        rows += [
            {
                "link": name,
                "way": way,
                **{column: float(values[k]) for column, values in columns.items()},
            }
            for k in range(size.size)
        ]
    return {
        "schema_version": SCHEMA_VERSION,
        "way": way,
        "latency_seconds": latency or 0.0,
        "host_memory_bandwidth": memory,
        "pageable_threshold_bytes": None if memory is None else border,
        "tags": None if reads is None else reads[0],
        "round_trip_seconds": None if reads is None else reads[1],
        "links": [
            {
                "name": name,
                "link": link.name,
                "latency_seconds": start,
                "raw_bandwidth": link.raw_bandwidth,
                "packet_bandwidth": link.packet_bandwidth,
                "settings": asdict(link),
            }
            for link, name, start in links
        ],
        "rows": rows,
        "findings": [f.as_dict() for f in merge(f for f in findings if f.count)],
    }


def _print(console: Terminal, document: dict[str, Any]) -> None:

    links, rows = document["links"], document["rows"]
    per_link = len(rows) // len(links)
    console.print(Text(f"{WORDS[document['way']]}, {_path(document)}"))
    for link in links:
        late = f", latency {show(link['latency_seconds'], 's')}" if link["latency_seconds"] else ""
        words = (
            link["name"]
            if link["link"] == link["name"]
            else f"{link['name']} ({link['link']}{late})"
        )
        words += f": {show(link['raw_bandwidth'], 'B/s', 4)} each way"
        left = link["packet_bandwidth"]
        console.note(
            words
            + (f", {show(left, 'B/s', 4)} for packets" if left < link["raw_bandwidth"] else "")
        )
    shown = (
        ["bandwidth", "time"]
        + (["at most"] if "log_sd" in rows[0] else [])
        + (["limited", "limited time"] if "limited_seconds" in rows[0] else [])
    )
    fits = max(1, (console.width - 9) // (12 * len(shown)))
    for first in range(0, len(links), fits):
        console.print()
        side_by_side = [
            (links[k]["name"], rows[k * per_link : (k + 1) * per_link])
            for k in range(first, min(first + fits, len(links)))
        ]
        console.print(
            _table(
                side_by_side,
                shown,
                wire=len(links) == 1 and len(shown) == 2 and console.width >= _WIRE,
                named=len(links) > 1,
                width=console.width,
            )
        )
    if "at most" in shown or "limited" in shown:
        console.print()
    if "at most" in shown:
        console.note("at most: equation 9, staged piece by piece whatever the size")
    if "limited" in shown:
        console.note("limited: by reads on their way, which the papers leave out")
    for f in document["findings"]:
        console.note(
            f"{f['code']}  {f['count']:,}  {f['meaning']} ({f['detail']})",
            "yellow" if f["severity"] == "warning" else "dim",
        )


def _table(
    links: list[tuple[str, list[dict[str, Any]]]],
    shown: list[str],
    *,
    wire: bool,
    named: bool,
    width: int,
) -> Table:
    """Return a table with links side by side and one row per size; `wire` adds the bytes of each
    direction.
    """

    cells = {
        "sent": lambda row: _bytes(row["sent_bytes"]),
        "received": lambda row: _bytes(row["received_bytes"]),
        "efficiency": lambda row: f"{row['efficiency']:.1%}",
        "bandwidth": lambda row: show(row["bandwidth"], "B/s"),
        "time": lambda row: show(row["seconds"], "s"),
        "at most": lambda row: show(row["seconds"] * math.exp(row["log_sd"]), "s"),
        "limited": lambda row: show(row["limited_bandwidth"], "B/s"),
        "limited time": lambda row: show(row["limited_seconds"], "s"),
    }
    heads = [*(("sent", "received", "efficiency") if wire else ()), *shown]
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("size", overflow="fold", min_width=6)
    least = 9 if 8 + 11 * len(heads) * len(links) <= width else None
    for name, _ in links:
        for k, head in enumerate(heads):
            above = f"{name if k == 0 else ''}\n" if named else ""
            # on a narrow terminal cells wrap, so that nothing is cut
            table.add_column(above + head, justify="right", overflow="fold", min_width=least)
    for k, row in enumerate(links[0][1]):
        table.add_row(
            show(row["size_bytes"], "B"),
            *(cells[head](rows[k]) for _, rows in links for head in heads),
        )
    return table


def _bytes(count: float) -> str:
    return f"{count:,.0f}" if count < 1e9 else show(count, "B", 4)


def _path(document: dict[str, Any]) -> str:
    """Describe the limits of a copy: latency and staging."""
    latency, latencies = (
        document["latency_seconds"],
        {link["latency_seconds"] for link in document["links"]},
    )
    start = (
        f"latency {show(latency, 's')}"
        if latency
        else "without latency"
        if latencies == {0.0}
        else "with the latency of each machine"
    )
    memory = document["host_memory_bandwidth"]
    if memory is None:
        return start
    return (
        f"pageable, staged at {show(memory, 'B/s')} from "
        f"{show(document['pageable_threshold_bytes'], 'B')} on, {start}"
    )
