"""Reads a network, and what its nodes are made of, from a TOML file.

::

    [network]
    name = "lassen"
    title = "Lassen as simulated"
    nodes = 810
    bandwidth = "12.5 GB/s"                 # of a link, one way
    hop = "0.5 us"                          # latency of a link
    source = "..."                          # where the numbers are from

    [network.shape]                         # none for one switch
    kind = "fat-tree"                       # or torus (dims, cards), dragonfly (groups, routers, cards, channels)
    down = [18, 45]
    up = [1, 12]
    cables = [1, 1]

    [node]                                  # by its parts, or by [node.gpus]: the arguments of `turnbuckle.replay.nodes.gpu_node`
    parts = ["host 0", "host 1", "gpu 0", "gpu 1"]
    cards = ["host 0"]
    passes = ["host 0", "host 1"]

    [[node.wires]]                          # full bandwidth each way, unless shared = true
    between = ["host 0", "gpu 0"]
    bandwidth = "75 GB/s"
    latency = "1 us"

Errors (`UsageError`): A050, with the file and the key; A061 where the file cannot be read; U0xx for quantities.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from turnbuckle.errors import UnitError, UsageError, clipped, did_you_mean
from turnbuckle.replay.network import Dragonfly, FatTree, Node, Torus, Wire
from turnbuckle.replay.nodes import both_ways, gpu_node
from turnbuckle.table_file import read_text
from turnbuckle.units import parse

_MOST_PARTS: Final = 4096
_LONGEST_LINE: Final = 4096
_MOST_DOTS: Final = 64
_SHAPES: Final[dict[str, tuple[type, tuple[str, ...]]]] = {
    "fat-tree": (FatTree, ("down", "up", "cables")),
    "torus": (Torus, ("dims", "cards")),
    "dragonfly": (Dragonfly, ("groups", "routers", "cards", "channels")),
}
_GPUS: Final = {"gpus": int, "hosts": int, "joined": str, "cards": str, "link": "B/s", "link_seconds": "s", "memory": "B/s",
                "memory_seconds": "s", "between_hosts": "B/s", "peer": "B/s", "peer_seconds": "s"}  # fmt: skip

_WORDS: Final = {"joined": ("mesh", "switch"), "cards": ("node", "host", "gpu")}


@dataclass(frozen=True)
class Described:
    """A network as a file describes it.

    Attributes
    ----------
    name, title, source : what it is called, and where its numbers are from.
    nodes : how many it has; 0 for as many as are asked for.
    bandwidth, hop_seconds : of a link, one way [B/s], [s].
    shape : of the network between cards.
    node : what nodes are made of, or None where the file does not say.
    """

    name: str
    title: str
    source: str
    nodes: int
    bandwidth: float
    hop_seconds: float
    shape: FatTree | Torus | Dragonfly | None
    node: Node | None


def bundled() -> list[str]:
    """Names of the networks that come with the package."""
    return sorted(
        f.name.removesuffix(".toml") for f in files("turnbuckle.replay").joinpath("networks").iterdir() if f.name.endswith(".toml")
    )


@cache
def read_network(name: str) -> Described:
    """A network by its name, or by the path of a file.

    Raises
    ------
    UsageError : A050, A061.  UnitError : U0xx.
    """
    if name in bundled():
        return _Reading(
            f"{name}.toml", files("turnbuckle.replay").joinpath("networks", f"{name}.toml").read_text(encoding="utf-8")
        ).network()
    if not name.endswith(".toml"):
        near = did_you_mean(name, bundled()) or f"one of {', '.join(bundled())}, or a file that ends in .toml"
        raise UsageError("A050", "no such network", found=clipped(name, 60), fix=near)
    return _Reading(Path(name).name, read_text(name, "the network", largest_bytes=1 << 20, fix="give a TOML file in UTF-8")).network()


class _Reading:
    def __init__(self, name: str, text: str) -> None:
        self.name = name
        # tomllib takes time quadratic in the parts of a dotted key
        if any(len(line) > _LONGEST_LINE or line.count(".") > _MOST_DOTS for line in text.split("\n")):
            raise self.flaw("", "a line that no network needs", "break it into shorter ones")
        try:
            self.document: Mapping[str, Any] = tomllib.loads(text.replace("\r\n", "\n"))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise UsageError("A050", "the network is not TOML", where=name, cause=clipped(str(error).lower(), 80)) from None

    def flaw(self, key: str, found: str, fix: str = "") -> UsageError:
        where = f"{self.name}: {key}" if key else self.name
        return UsageError("A050", "the file does not describe a network", where=where, found=clipped(found, 80), fix=fix)

    def network(self) -> Described:
        self.keys("", self.document, ("network", "node"))
        head = self.table("network", self.document.get("network"))
        self.keys("network", head, ("name", "title", "nodes", "bandwidth", "hop", "source", "shape"))
        nodes = head.get("nodes", 0)
        if not _whole(nodes, 0, 1 << 24):
            raise self.flaw("network.nodes", str(nodes), "a whole number")
        node = self.document.get("node")
        name, title, source = (self.text(f"network.{k}", head.get(k, ""), needed=k != "title") for k in ("name", "title", "source"))
        bandwidth, hop = (
            self.quantity("network.bandwidth", head.get("bandwidth"), "B/s"),
            self.quantity("network.hop", head.get("hop"), "s"),
        )
        made = None if node is None else self.node(self.table("node", node))
        return Described(name, title, source, nodes, bandwidth, hop, self.shape(head.get("shape")), made)

    def shape(self, given: object) -> FatTree | Torus | Dragonfly | None:
        if given is None:
            return None
        at = self.table("network.shape", given)
        kind = at.get("kind")
        if kind == "switch":
            self.keys("network.shape", at, ("kind",))
            return None
        if not isinstance(kind, str) or kind not in _SHAPES:
            raise self.flaw("network.shape.kind", str(kind), did_you_mean(str(kind), _SHAPES) or "switch, fat-tree, torus or dragonfly")
        made, names = _SHAPES[kind]
        self.keys("network.shape", at, ("kind", *names))
        values: dict[str, Any] = {}
        for name in names:
            value = at.get(name)
            if name in ("down", "up", "cables", "dims") and isinstance(value, list) and 0 < len(value) <= 16:
                if any(not _whole(v, 1, 1 << 24) for v in value):
                    raise self.flaw(f"network.shape.{name}", str(value), "whole numbers from 1")
                values[name] = tuple(value)
            elif name not in ("down", "up", "cables", "dims") and _whole(value, 1, 1 << 24):
                values[name] = value
            elif not (name == "cards" and value is None):
                raise self.flaw(f"network.shape.{name}", str(value), "a list of whole numbers, or one, as the shape needs")
        if kind == "fat-tree" and len({len(v) for v in values.values()}) != 1:
            raise self.flaw("network.shape", "lists of different lengths", "down, up and cables have one number a level")
        if kind == "dragonfly" and "cards" not in values:
            raise self.flaw("network.shape.cards", "none", "cards of a router")
        return made(**values)  # type: ignore[no-any-return]

    def node(self, given: Mapping[str, Any]) -> Node:
        if "gpus" in given:
            self.keys("node", given, ("gpus", "source"))
            return self.built(self.table("node.gpus", given["gpus"]))
        self.keys("node", given, ("parts", "cards", "passes", "wires", "source"))
        parts = self.names("node.parts", given.get("parts"), None)
        if len(set(parts)) != len(parts) or len(parts) > _MOST_PARTS:
            raise self.flaw("node.parts", f"{len(parts)} parts", f"different names, at most {_MOST_PARTS}")
        number = {name: k for k, name in enumerate(parts)}
        cards = self.names("node.cards", given.get("cards"), parts)
        passes = self.names("node.passes", given.get("passes", []), parts, empty=True)
        wires: list[Wire] = []
        listed = given.get("wires", [])
        if not isinstance(listed, list):
            raise self.flaw("node.wires", "no list of tables", "[[node.wires]]")
        for k, one in enumerate(listed):
            at = f"node.wires[{k}]"
            wire = self.table(at, one)
            self.keys(at, wire, ("between", "bandwidth", "latency", "shared", "source"))
            ends = tuple(number[n] for n in self.names(f"{at}.between", wire.get("between"), parts))
            if len(ends) != 2 or not isinstance(wire.get("shared", False), bool):
                raise self.flaw(at, str(wire), 'between = ["host 0", "gpu 0"], shared = true or false')
            bandwidth, seconds = (
                self.quantity(f"{at}.bandwidth", wire.get("bandwidth"), "B/s"),
                self.quantity(f"{at}.latency", wire.get("latency", "0 s"), "s"),
            )
            if wire.get("shared", False) or ends[0] == ends[1]:
                wires.append(Wire(ends[0], ends[1], bandwidth, seconds, shared=True))
            else:
                wires += both_ways(ends[0], ends[1], bandwidth, seconds)
        return Node(tuple(parts), tuple(wires), tuple(number[c] for c in cards), tuple(number[p] for p in passes))

    def built(self, given: Mapping[str, Any]) -> Node:
        self.keys("node.gpus", given, tuple(_GPUS))
        values: dict[str, Any] = {}
        for name, value in given.items():
            kind = _GPUS[name]
            if isinstance(kind, str):
                values[name] = self.quantity(f"node.gpus.{name}", value, kind)
            elif _whole(value, 1, 64) if kind is int else value in _WORDS[name]:
                values[name] = value
            else:
                raise self.flaw(f"node.gpus.{name}", str(value), "1 to 64 GPUs or hosts; joined: mesh, switch; cards: node, host, gpu")
        if missing := [k for k in ("gpus", "link") if k not in values]:
            raise self.flaw("node.gpus", f"no {missing[0]}", 'gpus = 4, link = "75 GB/s"')
        return gpu_node(**values)

    def names(self, key: str, given: object, among: Sequence[str] | None, *, empty: bool = False) -> list[str]:
        if (
            not isinstance(given, list)
            or not (given or empty)
            or not all(isinstance(n, str) and n.strip() and n.isprintable() for n in given)
        ):
            raise self.flaw(key, str(given), "a list of names")
        if among is not None and (unknown := [n for n in given if n not in among]):
            raise self.flaw(key, unknown[0], did_you_mean(unknown[0], among) or "a name of node.parts")
        return given

    def keys(self, key: str, given: Mapping[str, Any], allowed: Sequence[str]) -> None:
        if unknown := [k for k in given if k not in allowed]:
            raise self.flaw(key, unknown[0], did_you_mean(unknown[0], allowed) or f"one of {', '.join(allowed)}")

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
            raise self.flaw(key, str(given), f'a quantity in quotes, as in "{"12.5 GB/s" if unit == "B/s" else "0.5 us"}"')
        try:
            value = parse(given, unit)
        except UnitError as error:
            raise self.flaw(key, given, error.fix or unit) from None
        if not (value > 0 or (unit == "s" and value == 0)) or value == float("inf"):
            raise self.flaw(key, given, "more than nothing")
        return value


def _whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
