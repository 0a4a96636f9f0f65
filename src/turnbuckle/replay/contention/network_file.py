"""Reader of a network and its nodes from a TOML file.

::

    [network]
    name = "lassen"
    title = "Lassen as simulated"
    machine = "lassen"                      # whose GPUs it has, of `turnbuckle machines`; may be left out
    nodes = 810                             # 0 for as many as are asked for
    bandwidth = "12.5 GB/s"                 # of a link, one way
    hop = "0.5 us"                          # latency of a link
    source = "..."                          # where the numbers are from; a text that begins with "assumed" says that nobody measured it

    [network.sources]                       # of single numbers: nodes, bandwidth, hop, shape
    hop = "assumed: ..."

    [network.shape]                         # none for one switch
    kind = "fat-tree"                       # or switch (backbone, backbone_latency: of a link that all messages share), or
                                            # torus (dims, cards), dragonfly (groups, routers, cards, channels)
    down = [18, 45]
    up = [1, 12]
    cables = [1, 1]

    [node]                                  # by its parts
    parts = ["host 0", "host 1", "gpu 0", "gpu 1"]
    cards = ["host 0"]                      # where a link of the network ends; a part named twice has two
    passes = ["host 0", "host 1"]           # a path may lead through
    source = "..."

    [[node.wires]]                          # full bandwidth each way, unless shared = true
    name = "NVLink 2, three links"
    between = [["host 0", "gpu 0"], ["host 1", "gpu 1"]]        # or one pair
    bandwidth = "75 GB/s"
    latency = "1 us"
    source = "..."
    latency_source = "..."

Instead of parts, cards, passes and wires a node may have one of [node.gpus], [node.pool] and
[node.graph]: the arguments of `turnbuckle.replay.contention.nodes`, with the source of each in
[node.sources].  A graph has ``gpus``, ``link``, ``seconds``, ``cards`` and ``pairs = [[0, 1], [0,
3, 2]]``: the third number is how many links there are, one unless said.

Errors (`UsageError`): A050, with the file and the key; A061 where the file cannot be read; U0xx for
quantities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from turnbuckle.foundation.errors import TurnbuckleError, UnitError, clipped, did_you_mean, error_of
from turnbuckle.foundation.schema.vocabulary import refuse_several
from turnbuckle.foundation.table_file import read_text
from turnbuckle.foundation.toml_text import NotToml, parsed
from turnbuckle.foundation.units import parse, show
from turnbuckle.machine import Machine
from turnbuckle.replay.contention.network import Backbone, Dragonfly, FatTree, Node, Torus, Wire
from turnbuckle.replay.contention.nodes import both_ways, gpu_node, graph, pool, reached, shared
from turnbuckle.replay.contention.simgrid_platform import tables_of

_MOST_PARTS: Final = 4096
_SHAPES: Final[dict[str, tuple[type, tuple[str, ...]]]] = {
    "fat-tree": (FatTree, ("down", "up", "cables")),
    "torus": (Torus, ("dims", "cards")),
    "dragonfly": (Dragonfly, ("groups", "routers", "cards", "channels")),
}
_QUANTITY: Final = ("B/s", "s")
#: What may be given of each kind of node: a unit, the largest whole number, or words.
_Limits = Mapping[str, str | int | tuple[str, ...]]
#: In the order in which facts are listed.
_INSIDE: Final[_Limits] = {
    "per_switch": 64,
    "switch_cards": 64,
    "link": "B/s",
    "link_seconds": "s",
    "memory": "B/s",
    "memory_seconds": "s",
}
_OF_GPUS: Final[_Limits] = {
    **{"gpus": 64, "hosts": 64},
    **{"joined": ("mesh", "switch"), "cards": ("node", "host", "gpu")},
    **_INSIDE,
    **{"between_hosts": "B/s", "peer": "B/s", "peer_seconds": "s"},
}
_OF_POOL: Final[_Limits] = (
    dict.fromkeys(("hosts", "gpus", "per_switch", "uplinks"), 1024)
    | dict.fromkeys(("link", "host_link"), "B/s")
    | dict.fromkeys(("link_seconds", "switch_seconds"), "s")
    | {"memory": "B/s"}
)
_BUILT: Final[dict[str, tuple[Callable[..., Node], _Limits, tuple[str, ...]]]] = {
    "gpus": (gpu_node, _OF_GPUS, ("gpus", "link")),
    "pool": (pool, _OF_POOL, ("hosts", "gpus", "link")),
    "graph": (
        graph,
        {"gpus": 1024, "cards": 1024, "link": "B/s", "seconds": "s"},
        ("gpus", "link"),
    ),
}
_NUMBERS: Final = ("nodes", "bandwidth", "hop", "shape")
_NAMES: Final = {
    "nodes": "nodes",
    "bandwidth": "link, one way",
    "hop": "latency of a link",
    "shape": "shape",
}
_WORDS: Final = ("name", "title", "source", "machine")
#: Parts between which every way is looked for; of more the replay itself refuses what is not
#: joined.
_LOOKED_AT: Final = 256


@dataclass(frozen=True)
class Fact:
    """Number of a network as its file states it, and its source."""

    what: str
    value: str
    source: str

    @property
    def nature(self) -> str:
        """Return ``assumed`` where its source begins with that word, ``assumed in part`` where it
        holds it, else ``cited``.
        """
        text = self.source.lower()
        return (
            "assumed"
            if text.startswith("assumed")
            else "assumed in part"
            if "assumed" in text
            else "cited"
        )


@dataclass(frozen=True)
class Described:
    """Network as a file describes it.

    Attributes
    ----------
    name, title, source : name, title, and source of the numbers.
    nodes : number of nodes; 0 for any number.
    bandwidth, hop_seconds : bandwidth [B/s] and latency [s] of a link, one way.
    shape : shape of the network between NICs.
    backbone : link that all messages through one switch share, or None.
    node : parts of each node, or None where the file does not state them.
    machine : machine of the catalogue that has the same GPUs, or an empty text.
    facts : every number with its source.
    built : function and arguments that made the node, where its file states a node of GPUs and not
        its parts.
    """

    name: str
    title: str
    source: str
    nodes: int
    bandwidth: float
    hop_seconds: float
    shape: FatTree | Torus | Dragonfly | None
    node: Node | None
    machine: str = ""
    facts: tuple[Fact, ...] = ()
    built: Mapping[str, Any] | None = None
    backbone: Backbone | None = None

    def node_of(self, gpus: int) -> Node | None:
        """Return the node with another number of GPUs; None where the file states its parts one by
        one.
        """
        return None if self.built is None else gpu_node(**{**self.built, "gpus": gpus})


def bundled() -> list[str]:
    """Return the names of the networks that ship with the package."""
    return sorted(
        f.name.removesuffix(".toml")
        for f in files("turnbuckle.replay.contention").joinpath("networks").iterdir()
        if f.name.endswith(".toml")
    )


def read_network(name: str | Machine) -> Described:
    """Read a network by its name, or by the path of a file: TOML, or a platform of SimGrid.

    Of a machine it is the network of its name, or one with its GPUs.

    Raises
    ------
    UsageError : A050, A061; of a platform A486, A489 to A491.  UnitError : U0xx.
    """
    if isinstance(name, Machine):
        machine = name.name
        alike = [network for network in bundled() if read_network(network).machine == machine]
        return read_network(machine if machine in bundled() or not alike else alike[0])
    if name in bundled():
        return _read(
            f"{name}.toml",
            files("turnbuckle.replay.contention")
            .joinpath("networks", f"{name}.toml")
            .read_text(encoding="utf-8"),
        )
    if name.endswith(".xml"):
        return _Reading(Path(name).name, tables_of(name)).network()
    if not name.endswith(".toml"):
        refuse_several(name, "network")
        raise error_of(
            "A050.name",
            found=clipped(name, 60),
            fix=did_you_mean(name, bundled()) or None,
            names=", ".join(bundled()),
        )
    return _read(
        Path(name).name,
        read_text(name, "the network", largest_bytes=1 << 20, fix="give a TOML file in UTF-8"),
    )


@lru_cache(maxsize=64)
def _read(name: str, text: str) -> Described:
    """Parse a network's text, which is the key of the cache, so that a changed file is parsed
    again.
    """
    return _Reading(name, text).network()


class _Reading:
    def __init__(self, name: str, given: str | Mapping[str, Any]) -> None:
        self.name = name
        self.facts: list[Fact] = []
        self.values: Mapping[str, Any] | None = None
        try:
            self.document: Mapping[str, Any] = parsed(given)[0] if isinstance(given, str) else given
        except NotToml as flaw:
            raise error_of("A050.toml", where=name + flaw.at, cause=flaw.why) from None

    def flaw(self, key: str, value: str, fix: str = "") -> TurnbuckleError:
        where = f"{self.name}: {key}" if key else self.name
        return error_of("A050.file", where=where, found=clipped(value, 80), fix=fix)

    def network(self) -> Described:
        self.keys("", self.document, ("network", "node"))
        head = self.table("network", self.document.get("network"))
        self.keys(
            "network",
            head,
            ("name", "title", "machine", "nodes", "bandwidth", "hop", "source", "sources", "shape"),
        )
        nodes = head.get("nodes", 0)
        if not _whole(nodes, 0, 1 << 24):
            raise self.flaw("network.nodes", str(nodes), "a whole number")
        words = {
            k: self.text(f"network.{k}", head.get(k, ""), needed=k in ("name", "source"))
            for k in _WORDS
        }
        bandwidth, hop = (
            self.quantity("network.bandwidth", head.get("bandwidth"), "B/s"),
            self.quantity("network.hop", head.get("hop"), "s"),
        )
        shape, backbone = self.shape(head.get("shape")), self.backbone(head.get("shape"))
        sources = self.sources("network.sources", head.get("sources", {}), _NUMBERS)
        shown = {
            "nodes": f"{nodes:,}" if nodes else "any",
            "shape": shape_words(shape, backbone),
            **{k: head[k] for k in ("bandwidth", "hop")},
        }
        self.facts += [
            Fact(_NAMES[k], str(shown[k]), sources.get(k, words["source"])) for k in _NUMBERS
        ]
        if backbone:
            self.facts.append(
                Fact(
                    "latency of the backbone",
                    show(backbone.seconds, "s"),
                    sources.get("shape", words["source"]),
                )
            )
        given = self.document.get("node")
        made = None if given is None else self.node(self.table("node", given), words["source"])
        ports = nodes * (len(made.cards) if made else 1)
        if shape is not None and ports > places(shape):
            raise self.flaw(
                "network.shape",
                f"{places(shape):,} places for {ports:,} cards",
                "a larger shape, or fewer nodes",
            )
        return Described(
            **words,
            nodes=nodes,
            bandwidth=bandwidth,
            hop_seconds=hop,
            shape=shape,
            node=made,
            facts=tuple(self.facts),
            built=self.values,
            backbone=backbone,
        )

    def shape(self, given: object) -> FatTree | Torus | Dragonfly | None:
        if given is None:
            return None
        table = self.table("network.shape", given)
        kind = table.get("kind")
        if kind == "switch":
            self.keys("network.shape", table, ("kind", "backbone", "backbone_latency"))
            return None
        if not isinstance(kind, str) or kind not in _SHAPES:
            raise self.flaw(
                "network.shape.kind",
                str(kind),
                did_you_mean(str(kind), _SHAPES) or "switch, fat-tree, torus or dragonfly",
            )
        made, names = _SHAPES[kind]
        self.keys("network.shape", table, ("kind", *names))
        values: dict[str, Any] = {}
        for name in names:
            value = table.get(name)
            if (
                name in ("down", "up", "cables", "dims")
                and isinstance(value, list)
                and 0 < len(value) <= 16
            ):
                if any(not _whole(v, 1, 1 << 24) for v in value):
                    raise self.flaw(f"network.shape.{name}", str(value), "whole numbers from 1")
                values[name] = tuple(value)
            elif name not in ("down", "up", "cables", "dims") and _whole(value, 1, 1 << 24):
                values[name] = value
            elif not (name == "cards" and value is None):
                raise self.flaw(
                    f"network.shape.{name}",
                    str(value),
                    "a list of whole numbers, or one, as the shape needs",
                )
        if kind == "fat-tree" and len({len(v) for v in values.values()}) != 1:
            raise self.flaw(
                "network.shape",
                "lists of different lengths",
                "down, up and cables have one number a level",
            )
        if kind == "dragonfly":
            if "cards" not in values:
                raise self.flaw("network.shape.cards", "none", "cards of a router")
            if values["routers"] * values["channels"] < values["groups"] - 1:
                raise self.flaw(
                    "network.shape.channels",
                    str(values["channels"]),
                    "routers x channels of a group, one to every other at least",
                )
        return made(**values)  # type: ignore[no-any-return]

    def backbone(self, shape: object) -> Backbone | None:
        if not isinstance(shape, Mapping) or not {"backbone", "backbone_latency"} & set(shape):
            return None
        key = "network.shape.backbone"
        return Backbone(
            self.quantity(key, shape.get("backbone"), "B/s"),
            self.quantity(f"{key}_latency", shape.get("backbone_latency", "0 s"), "s"),
        )

    def node(self, given: Mapping[str, Any], source: str) -> Node:
        source = self.text("node.source", given.get("source", source), needed=True)
        if kinds := [k for k in _BUILT if k in given]:
            self.keys("node", given, (kinds[0], "source", "sources"))
            made = self.built(kinds[0], given, source)
        else:
            self.keys("node", given, ("parts", "cards", "passes", "wires", "source"))
            made = self.by_parts(given, source)
        if len(made.parts) > _MOST_PARTS:
            raise self.flaw("node", f"{len(made.parts):,} parts", f"at most {_MOST_PARTS}")
        self.joined(made)
        return made

    def by_parts(self, given: Mapping[str, Any], source: str) -> Node:
        parts = self.names("node.parts", given.get("parts"), None)
        if len(set(parts)) != len(parts) or len(parts) > _MOST_PARTS:
            raise self.flaw(
                "node.parts", f"{len(parts)} parts", f"different names, at most {_MOST_PARTS}"
            )
        number = {name: k for k, name in enumerate(parts)}
        cards = self.names("node.cards", given.get("cards"), parts)
        passes = self.names("node.passes", given.get("passes", []), parts, empty=True)
        wires: list[Wire] = []
        listed = given.get("wires", [])
        if not isinstance(listed, list):
            raise self.flaw("node.wires", "no list of tables", "[[node.wires]]")
        for k, entry in enumerate(listed):
            wires += self.wires(f"node.wires[{k}]", entry, parts, number, source)
        self.facts.append(Fact("network cards", ", ".join(cards), source))
        made = Node(
            tuple(parts),
            tuple(wires),
            tuple(number[c] for c in cards),
            tuple(number[p] for p in passes),
        )
        return made if made.parts_of("share") else shared(made)

    def wires(
        self, key: str, entry: object, parts: Sequence[str], number: Mapping[str, int], source: str
    ) -> list[Wire]:
        """Return the wires of one table: equal wires between one or several pairs of parts."""
        wire = self.table(key, entry)
        self.keys(
            key,
            wire,
            ("name", "between", "bandwidth", "latency", "shared", "source", "latency_source"),
        )
        between = wire.get("between")
        pairs = (
            between
            if isinstance(between, list) and between and all(isinstance(p, list) for p in between)
            else [between]
        )
        ends = [
            tuple(number[n] for n in self.names(f"{key}.between", pair, parts)) for pair in pairs
        ]
        shared = wire.get("shared", False)
        if any(len(e) != 2 for e in ends) or not isinstance(shared, bool):
            raise self.flaw(
                key,
                str(entry),
                'between = ["host 0", "gpu 0"], or a list of such pairs; shared = true or false',
            )
        latency = wire.get("latency", "0 s")
        bandwidth, seconds = (
            self.quantity(f"{key}.bandwidth", wire.get("bandwidth"), "B/s"),
            self.quantity(f"{key}.latency", latency, "s"),
        )
        source = self.text(f"{key}.source", wire.get("source", source), needed=True)
        after = self.text(f"{key}.latency_source", wire.get("latency_source", source), needed=True)
        a, b = (parts[e] for e in ends[0])
        what = self.text(
            f"{key}.name", wire.get("name", a if a == b else f"{a} - {b}"), needed=True
        )
        self.facts.append(Fact(what, str(wire.get("bandwidth")), source))
        if "latency" in wire:
            self.facts.append(Fact(f"{what}: latency", str(latency), after))
        made: list[Wire] = []
        for one_end, other in ends:
            alone = shared or one_end == other
            made += (
                [Wire(one_end, other, bandwidth, seconds, shared=True)]
                if alone
                else both_ways(one_end, other, bandwidth, seconds)
            )
        return made

    def built(self, kind: str, node: Mapping[str, Any], source: str) -> Node:
        build, allowed, needed = _BUILT[kind]
        key = f"node.{kind}"
        given = self.table(key, node[kind])
        self.keys(key, given, (*allowed, "pairs") if kind == "graph" else tuple(allowed))
        sources = self.sources("node.sources", node.get("sources", {}), (*allowed, "pairs"))
        values: dict[str, Any] = {}
        for name, may in allowed.items():
            value = given.get(name)
            if value is None:
                continue
            if isinstance(may, str):
                values[name] = self.quantity(f"{key}.{name}", value, may)
            elif _whole(value, 1, may) if isinstance(may, int) else value in may:
                values[name] = value
            else:
                raise self.flaw(
                    f"{key}.{name}",
                    str(value),
                    f"1 to {may}" if isinstance(may, int) else f"one of {', '.join(may)}",
                )
        if missing := [k for k in needed if k not in given]:
            raise self.flaw(key, f"no {missing[0]}", 'as in gpus = 4, link = "75 GB/s"')
        self.facts += [
            Fact(f"{kind}: {n.replace('_', ' ')}", str(given[n]), sources.get(n, source))
            for n in allowed
            if n in given
        ]
        if kind != "graph":
            self.values = dict(values) if kind == "gpus" else None
            return build(**values)
        places, link = values.pop("gpus"), values.pop("link")
        if values.get("cards", 1) > places:
            raise self.flaw(f"{key}.cards", str(values["cards"]), "at most one a GPU")
        listed = given.get("pairs")
        pairs = (
            [tuple(p) if len(p) == 3 else (*p, 1) for p in listed if isinstance(p, list)]
            if isinstance(listed, list)
            else []
        )

        def sound(a: object, b: object, links: object) -> bool:
            return (
                _whole(a, 0, places - 1)
                and _whole(b, 0, places - 1)
                and a != b
                and _whole(links, 1, 1024)
            )

        if (
            not isinstance(listed, list)
            or len(pairs) != len(listed)
            or not all(len(p) == 3 and sound(*p) for p in pairs)
        ):
            raise self.flaw(
                f"{key}.pairs",
                str(listed),
                "pairs of GPUs, counted from 0, and how many links join them: [[0, 1], [0, 3, 2]]",
            )
        self.facts.append(
            Fact("graph: pairs", f"{len(pairs)} of GPUs", sources.get("pairs", source))
        )
        return graph(places, [(a, b, link * links) for a, b, links in pairs], **values)

    def joined(self, made: Node) -> None:
        """Refuse a node whose GPUs and hosts do not reach each other and its NICs."""
        ends = [*made.parts_of("gpu"), *made.parts_of("host")][:_LOOKED_AT]
        if not ends:
            raise self.flaw("node.parts", "no host and no GPU", 'name parts "host 0", "gpu 0", ...')
        for start in dict.fromkeys([*ends, *made.cards]):
            reachable = reached(made, start)
            for end in ends if start in made.cards else [*ends, *made.cards]:
                if end not in reachable:
                    problem = f"no way from {made.parts[start]} to {made.parts[end]}"
                    raise self.flaw(
                        "node",
                        problem,
                        (
                            "a wire, or a part in passes: GPUs and switches let traffic through "
                            "only if they are named there"
                        ),
                    )

    def sources(self, key: str, given: object, allowed: Sequence[str]) -> dict[str, str]:
        """Return the sources of single numbers."""
        table = self.table(key, given)
        self.keys(key, table, allowed)
        return {
            name: self.text(f"{key}.{name}", value, needed=True) for name, value in table.items()
        }

    def names(
        self, key: str, given: object, among: Sequence[str] | None, *, empty: bool = False
    ) -> list[str]:
        if (
            not isinstance(given, list)
            or not (given or empty)
            or not all(isinstance(n, str) and n.strip() and n.isprintable() for n in given)
        ):
            raise self.flaw(key, str(given), "a list of names")
        if among is not None and (unknown := [n for n in given if n not in among]):
            raise self.flaw(
                key, unknown[0], did_you_mean(unknown[0], among) or "a name of node.parts"
            )
        return given

    def keys(self, key: str, given: Mapping[str, Any], allowed: Sequence[str]) -> None:
        if unknown := [k for k in given if k not in allowed]:
            raise self.flaw(
                key, unknown[0], did_you_mean(unknown[0], allowed) or f"one of {', '.join(allowed)}"
            )

    def table(self, key: str, given: object) -> Mapping[str, Any]:
        if not isinstance(given, Mapping):
            raise self.flaw(key, "nothing" if given is None else str(given), f"a table [{key}]")
        return given

    def text(self, key: str, given: object, *, needed: bool) -> str:
        if not isinstance(given, str) or not given.isprintable() or (needed and not given.strip()):
            raise self.flaw(key, str(given), "a text")
        return given

    def quantity(self, key: str, given: object, unit: str) -> float:
        if not isinstance(given, str):
            raise self.flaw(
                key,
                str(given),
                f'a quantity in quotes, as in "{"12.5 GB/s" if unit == "B/s" else "0.5 us"}"',
            )
        try:
            value = parse(given, unit)
        except UnitError as error:
            raise self.flaw(key, given, error.fix or unit) from None
        if not (value > 0 or (unit == "s" and value == 0)) or value == float("inf"):
            raise self.flaw(key, given, "more than nothing")
        return value


def places(shape: FatTree | Torus | Dragonfly) -> int:
    """Return the number of NICs that a shape has room for.

    >>> places(Torus((4, 4), 2))
    32
    """
    match shape:
        case FatTree(down):
            return math.prod(down)
        case Torus(dims, cards):
            return math.prod(dims) * cards
        case Dragonfly(groups, routers, cards):
            return groups * routers * cards


def shape_words(shape: FatTree | Torus | Dragonfly | None, backbone: Backbone | None = None) -> str:
    """Return a shape in words.

    >>> shape_words(FatTree((18, 45), (1, 12), (1, 1)))
    'fat tree, 18 x 45 below, 1 x 12 above'
    """
    match shape:
        case FatTree(down, up, cables):
            doubled = f", {' x '.join(map(str, cables))} cables" if set(cables) != {1} else ""
            return (
                f"fat tree, {' x '.join(map(str, down))} below, {' x '.join(map(str, up))} "
                f"above{doubled}"
            )
        case Torus(dims, cards):
            return f"torus, {' x '.join(map(str, dims))}, {_counted(cards, 'card')} a router"
        case Dragonfly(groups, routers, cards, channels):
            of_router = (
                f"{_counted(cards, 'card')} and {_counted(channels, 'global channel')} a router"
            )
            return f"dragonfly, {groups} groups of {routers} routers, {of_router}"
        case None:
            return (
                f"one switch with a backbone of {show(backbone.bandwidth, 'B/s')}"
                if backbone
                else "one switch"
            )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
