"""Reader of a network from a platform of SimGrid (XML, version 4 and 4.1): the same tables as a
network's TOML file holds.

A platform is read where it is a network that the replay has: hosts that each have a link up and a
link down to one switch, all with one bandwidth and one latency, with a backbone in the switch or
without, or a fat tree of such links.  It states them as ``<cluster>``, or host by host in a ``<zone
routing="Cluster">``.  Zones around the only zone inside add nothing.  Speeds and cores of hosts are
no part of a network, and are not read.

Messages on a loopback share it here, and not in SimGrid; its source says that this is assumed.

Whatever else stands there is refused, with the element and its line.  So are parallel cables of a
fat tree: on the way down SimGrid picks one by the sender, so that messages meet that do not here.
A torus and a dragonfly of SimGrid are refused too: in the torus a host is its own router, so that a
message crosses two links fewer than in ours; in the dragonfly the routers of a group stand in rows
and columns, and groups are joined by other routers.

Sources: SimGrid 3.32, its manual (Platform, "The XML reference") and ``xbt_parse_units.cpp``,
``ClusterZone.cpp``, ``FatTreeZone.cpp``.

Errors (`UsageError`): A486, no XML; A489, an element or attribute that is not read; A490, no
platform of a known version; A491, a value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.machine.measured.xml_text import Element, parsed

#: Attributes that are read, by element; those of hosts are no part of a network.
_LINK: Final = (
    "bw",
    "lat",
    "sharing_policy",
    "bb_bw",
    "bb_lat",
    "bb_sharing_policy",
    "loopback_bw",
    "loopback_lat",
)
_READ: Final[dict[str, tuple[str, ...]]] = {
    "platform": ("version",),
    "zone": ("id", "routing"),
    "cluster": (
        "id",
        "prefix",
        "suffix",
        "radical",
        "speed",
        "core",
        "router_id",
        *_LINK,
        "topology",
        "topo_parameters",
    ),
    "host": ("id", "speed", "core"),
    "router": ("id",),
    "link": ("id", "bandwidth", "latency", "sharing_policy"),
    "host_link": ("id", "up", "down"),
    "backbone": ("id", "bandwidth", "latency", "sharing_policy"),
}
_VERSIONS: Final = ("4", "4.1")
_MOST_HOSTS: Final = 1 << 24
#: A number, and SimGrid's unit behind it.
_QUANTITY: Final = re.compile(
    r"([0-9.eE+-]{1,32}?)\s?((?:[kMGTPE]i?|Ki)?[bB]ps|[munp]?s|m|h)?", re.ASCII
)
_RANGE: Final = re.compile(r"([0-9]{1,8})(?:-([0-9]{1,8}))?", re.ASCII)
_COUNT: Final = re.compile(r"[0-9]{1,8}", re.ASCII)
_LEVELS: Final = 16


def tables_of(path: str) -> dict[str, Any]:
    """Return the tables of a platform, named and spelt as in a network's TOML file.  Raises A486,
    A489 to A491.
    """
    return _Platform(Path(path)).tables()


class _Platform:
    def __init__(self, path: Path) -> None:
        self.file = path.name
        self.root = parsed(path)

    def tables(self) -> dict[str, Any]:
        root = self.root
        if root.name != "platform" or root.attributes.get("version") not in _VERSIONS:
            raise error_of("A490", where=self.position(root), found=self.words(root, "version"))
        inner = root
        while True:
            self.refuse_unread(inner)
            if inner is not root and inner.name == "cluster":
                return self.cluster(inner)
            zones = [e for e in inner.inside if e.name in ("zone", "cluster")]
            if inner.name == "zone" and not zones:
                return self.star(inner)
            if not zones:
                raise self.empty(inner, "no zone and no cluster")
            if others := [e for e in inner.inside if e is not zones[0]]:
                raise self.element(others[0], "beside another zone" if others[0] in zones else "")
            inner = zones[0]

    # --- a cluster --------------------------------------------------------------------------------

    def cluster(self, cluster: Element) -> dict[str, Any]:
        if cluster.inside:
            raise self.element(cluster.inside[0])
        given = cluster.attributes
        hosts = self.hosts(cluster, given.get("radical", ""))
        if given.get("sharing_policy", "SPLITDUPLEX") != "SPLITDUPLEX":
            raise self.attribute(cluster, "sharing_policy", "up and down share one capacity")
        shared = given.get("bb_bw") or given.get("bb_lat")
        shape: dict[str, Any] | None
        topology, shape = (
            given.get("topology", "FLAT"),
            self.backbone(cluster, "bb_") if shared else None,
        )
        if topology != "FLAT" and shape:
            raise self.attribute(cluster, "bb_bw", "of a cluster that is not flat")
        if topology == "FAT_TREE":
            shape = self.tree(cluster, hosts)
        elif topology != "FLAT":
            raise self.attribute(cluster, "topology")
        elif given.get("topo_parameters"):
            raise self.attribute(cluster, "topo_parameters", "of a flat cluster")
        bandwidth, hop = self.rate(cluster, "bw"), self.time(cluster, "lat")
        return self.network(cluster, hosts, bandwidth, hop, shape) | self.loopback(cluster)

    def hosts(self, cluster: Element, radical: str) -> int:
        """Return how many hosts a list of numbers and ranges names."""
        count = 0
        for part in radical.split(","):
            match = _RANGE.fullmatch(part.strip())
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            count += last - first + 1
            if last < first or count > _MOST_HOSTS:
                raise self.value(
                    cluster,
                    "radical",
                    f"numbers and ranges such as 0-63, at most {_MOST_HOSTS:,} hosts",
                )
        return count

    def backbone(self, element: Element, prefix: str) -> dict[str, Any]:
        """Return the shape of a switch with a backbone."""
        rate, time = ("bw", "lat") if prefix else ("bandwidth", "latency")
        if element.attributes.get(f"{prefix}sharing_policy", "SHARED") != "SHARED":
            raise self.attribute(element, f"{prefix}sharing_policy")
        bandwidth, seconds = (
            self.rate(element, f"{prefix}{rate}"),
            self.time(element, f"{prefix}{time}"),
        )
        return {"kind": "switch", "backbone": bandwidth, "backbone_latency": seconds}

    def tree(self, cluster: Element, hosts: int) -> dict[str, Any]:
        """Return a fat tree as its table."""
        fix = "levels; children; parents; cables, from the hosts up, as in 2;4,4;1,2;1,1"
        lists = [
            part.split(",") for part in cluster.attributes.get("topo_parameters", "").split(";")
        ]
        if not all(_COUNT.fullmatch(n.strip()) for numbers in lists for n in numbers) or [
            len(n) for n in lists[:1]
        ] != [1]:
            raise self.value(cluster, "topo_parameters", fix)
        (levels,), *each = ([int(n) for n in numbers] for numbers in lists)
        if not (
            len(each) == 3
            and 0 < levels <= _LEVELS
            and all(len(n) == levels and min(n) > 0 for n in each)
        ):
            raise self.value(cluster, "topo_parameters", fix)
        down, up, cables = each
        if math.prod(down) != hosts:
            raise self.value(
                cluster,
                "radical",
                f"the tree has {math.prod(down):,} leaves, the cluster {hosts:,} hosts",
            )
        if max(cables) > 1:
            raise self.attribute(
                cluster,
                "topo_parameters",
                "parallel cables, of which SimGrid's messages take others than ours",
            )
        return {"kind": "fat-tree", "down": down, "up": up, "cables": cables}

    def loopback(self, cluster: Element) -> dict[str, Any]:
        """Return the node: a host whose messages to itself take its loopback; nothing where the
        platform has none.
        """
        if not cluster.attributes.get("loopback_bw"):
            if cluster.attributes.get("loopback_lat"):
                raise self.attribute(cluster, "loopback_lat", "without loopback_bw")
            return {}
        source = self.source(cluster)
        wire = {
            **{"name": "loopback", "between": ["host 0", "host 0"]},
            **{
                "bandwidth": self.rate(cluster, "loopback_bw"),
                "latency": self.time(cluster, "loopback_lat"),
            },
            "source": f"{source}; that messages share a loopback is assumed, in SimGrid they do not",
            "latency_source": source,
        }
        return {
            "node": {
                "parts": ["host 0"],
                "cards": ["host 0"],
                "passes": ["host 0"],
                "source": self.source(cluster),
                "wires": [wire],
            }
        }

    # --- hosts one by one -------------------------------------------------------------------------

    def star(self, zone: Element) -> dict[str, Any]:
        if zone.attributes.get("routing") != "Cluster":
            first = next((e for e in zone.inside if e.name not in ("host", "link")), zone)
            raise self.element(
                first,
                f"in a zone whose routing is {clipped(zone.attributes.get('routing', 'none'), 20)}",
            )
        links: dict[str, Element] = {}
        hosts: dict[str, Element] = {}
        taken: dict[str, str] = {}
        shared: dict[str, Any] | None = None
        for element in zone.inside:
            self.refuse_unread(element)
            if element.inside:
                raise self.element(element.inside[0])
            name = element.attributes.get("id", "")
            if element.name == "link":
                policy = element.attributes.get("sharing_policy", "SHARED")
                if policy not in ("SHARED", "SPLITDUPLEX"):
                    raise self.attribute(element, "sharing_policy")
                links |= dict.fromkeys(
                    [name] if policy == "SHARED" else [f"{name}_UP", f"{name}_DOWN"], element
                )
            elif element.name == "host":
                hosts[name] = element
            elif element.name == "host_link":
                if name not in hosts:
                    raise self.value(element, "id", "a host that stands before it")
                for direction in ("up", "down"):
                    link = element.attributes.get(direction, "")
                    if link not in links:
                        raise self.value(
                            element,
                            direction,
                            (
                                "a link that stands before it: NAME, or NAME_UP and NAME_DOWN of "
                                "a SPLITDUPLEX one"
                            ),
                        )
                    if link in taken:
                        raise self.attribute(element, direction, "two ways share one link")
                    taken[link] = name
            elif element.name == "backbone":
                if shared:
                    raise self.element(element, "beside another one")
                shared = self.backbone(element, "")
            elif element.name != "router":
                raise self.element(element)
        if bare := [e for name, e in hosts.items() if name not in taken.values()]:
            raise self.element(bare[0], "without a host_link")
        if not hosts:
            raise self.empty(zone, "no host")
        used = [links[link] for link in taken]
        rates, times = (
            {read(e, name) for e in used}
            for read, name in ((self.rate, "bandwidth"), (self.time, "latency"))
        )
        for element in used[1:]:
            for name, values in (("bandwidth", rates), ("latency", times)):
                if len(values) > 1 and element.attributes.get(name) != used[0].attributes.get(name):
                    raise self.attribute(element, name, "links of hosts that differ")
        if spare := [e for link, e in links.items() if link not in taken]:
            raise self.element(spare[0], "a link that no host has")
        return self.network(zone, len(hosts), rates.pop(), times.pop(), shared)

    # --- what both state --------------------------------------------------------------------------

    def network(
        self,
        element: Element,
        hosts: int,
        bandwidth: str,
        hop: str,
        shape: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        name = clipped(element.attributes.get("id", "")) or self.file
        title = f"platform of SimGrid: {clipped(self.file)}"
        table: dict[str, Any] = {
            "name": name,
            "title": title,
            "nodes": hosts,
            "bandwidth": bandwidth,
            "hop": hop,
        }
        table["source"] = self.source(element)
        if shape is not None:
            table["shape"] = shape
        return {"network": table}

    def source(self, element: Element) -> str:
        return f"{clipped(self.file)}, line {element.line}"

    def rate(self, element: Element, name: str) -> str:
        """Return a bandwidth as this package spells it: bits a second as ``Gb/s``, bytes as
        ``GB/s``.
        """
        number, unit = self.quantity(element, name)
        if not unit.endswith("ps") or unit == "ps":
            raise self.value(
                element, name, "a bandwidth with its unit, as in 1.25GBps (bytes) or 10Gbps (bits)"
            )
        return f"{number} {unit[:-2]}/s"

    def time(self, element: Element, name: str) -> str:
        number, unit = self.quantity(element, name)
        if unit not in ("s", "ms", "us", "ns", "ps", "m", "h") and not (
            unit == "" and float(number) == 0
        ):
            raise self.value(element, name, "a time with its unit, as in 50us")
        return f"{number} {'min' if unit == 'm' else unit or 's'}"

    def quantity(self, element: Element, name: str) -> tuple[str, str]:
        match = _QUANTITY.fullmatch(element.attributes.get(name, "").strip())
        try:
            number = float(match[1]) if match else math.nan
        except ValueError:
            number = math.nan
        if match is None or not math.isfinite(number):
            raise self.value(
                element, name, "a number with SimGrid's unit, as in 1.25GBps, 10Gbps, 50us"
            )
        return match[1], match[2] or ""

    def refuse_unread(self, element: Element) -> None:
        """Refuse an element that is not read, or one with an attribute that is not read."""
        if element.name not in _READ:
            raise self.element(element)
        if unknown := [
            k for k, v in element.attributes.items() if k not in _READ[element.name] and v
        ]:
            raise self.attribute(element, unknown[0])

    # --- refusals ---------------------------------------------------------------------------------

    def element(self, element: Element, why: str = "") -> TurnbuckleError:
        name = element.attributes.get("id", "")
        tag = clipped(f"<{element.name}{f' id={name!r}' if name else ''}>")
        return error_of("A489", where=self.position(element), found=f"{tag}: {why}" if why else tag)

    def attribute(self, element: Element, name: str, why: str = "") -> TurnbuckleError:
        words = self.words(element, name)
        return error_of(
            "A489", where=self.position(element), found=f"{words}: {why}" if why else words
        )

    def value(self, element: Element, name: str, fix: str) -> TurnbuckleError:
        return error_of(
            "A491", where=self.position(element), found=self.words(element, name), fix=fix
        )

    def empty(self, element: Element, lack: str) -> TurnbuckleError:
        return error_of(
            "A491",
            where=self.position(element),
            found=lack,
            fix="one <cluster>, or one zone of hosts",
        )

    def words(self, element: Element, name: str) -> str:
        return clipped(f"<{element.name} {name}={element.attributes.get(name, '')!r}>", 80)

    def position(self, element: Element) -> str:
        return f"{self.file}:{element.line}"
