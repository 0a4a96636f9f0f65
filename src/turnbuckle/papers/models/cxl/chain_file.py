"""Reader of a chain of accelerators from a TOML file, with the position of each flaw.

::

    items = 99                       # how often the chain runs
    in_flight = 4                    # items under way at once when pipelined; as many as there are steps if left out
    start_up = "2 ms"                # once, before everything

    [stage.unpack]
    device = "fpga"
    time = "70.9 ms"                 # of one item; left out where it comes from a recording

    [stage.integrate]
    device = "gpu"
    time = "2.73 ms"
    receives = "16 MiB"              # from the stage before; {unpack = "16 MiB", read = "1 MiB"} names others

    [link.fpga-host]                 # both ways, unless host-fpga stands there too
    kind = "pcie"                    # pcie: eq 9; cxl1: eq 10; cxl2: eq 11; time: a time; loggp: latency and bandwidth

Nothing is guessed: an unknown key, a quantity without a unit and a link between devices that no
stage uses are errors:

    A027  not TOML, an unknown or missing key, a value out of range
    U0xx  a quantity without a unit, or with the wrong one
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from turnbuckle.cost import packet
from turnbuckle.cost.pcie import Pcie
from turnbuckle.foundation.errors import did_you_mean
from turnbuckle.foundation.table_file import read_text
from turnbuckle.foundation.toml_text import TomlReading
from turnbuckle.foundation.units import parse
from turnbuckle.papers.models.cxl.chain import HOST, KINDS, LINK_KEYS, Chain, Link, Stage

_NAME = re.compile(r"[a-z0-9_]{1,40}")
_LEAST, _MOST = 1e-15, 1e18  # of any quantity, SI


def read_chain(path: str | Path) -> Chain:
    """Read a chain file.  Raises A061 where the file cannot be read, A027 with file:line:column;
    U0xx.
    """
    text = read_text(path, "the chain", largest_bytes=1 << 20, fix="give a TOML file in UTF-8")
    return _Reading(Path(path).name, text).chain()


class _Reading(TomlReading):
    """One chain file being read."""

    code = "A027"

    def chain(self) -> Chain:
        self._keys((), self.document, ("items", "in_flight", "start_up", "stage", "link"))
        stages: list[Stage] = []
        for name, table in self._tables("stage"):
            stages.append(self._stage(name, table, [s.name for s in stages]))
        if not stages:
            raise self._flaw("A027.empty", ())
        links = {}
        for name, table in self._tables("link"):
            sender, _, receiver = name.partition("-")
            devices = list(dict.fromkeys([HOST, *(s.device for s in stages)]))
            if sender == receiver or not {sender, receiver} <= set(devices):
                raise self._flaw(
                    "A027.device",
                    ("link", name),
                    found=name,
                    fix=did_you_mean(name, [f"{a}-{b}" for a in devices for b in devices if a != b])
                    or None,
                    devices=", ".join(devices),
                )
            links[sender, receiver] = self._link(("link", name), table)
        items, in_flight = (
            self._count((key,), self.document.get(key)) for key in ("items", "in_flight")
        )
        start_up = self._quantity(("start_up",), self.document.get("start_up", "0 s"), "s")
        return Chain(tuple(stages), links, items, in_flight, start_up, self.file)

    def _stage(self, name: str, table: dict[str, Any], before: list[str]) -> Stage:
        path = ("stage", name)
        self._keys(path, table, ("device", "time", "receives"))
        device = table.get("device")
        if not isinstance(device, str) or not _NAME.fullmatch(device):
            raise self._flaw("A027.stage", (*path, "device"), found=str(device), name=name)
        seconds = self._quantity((*path, "time"), table["time"], "s") if "time" in table else None
        given = table.get("receives")
        if given is None:
            return Stage(name, device, seconds)
        if not isinstance(given, dict):
            if not before:
                raise self._flaw("A027.first", (*path, "receives"))
            given = {before[-1]: given}
        for source in given:
            if source not in before:
                raise self._flaw(
                    "A027.source",
                    (*path, "receives", source),
                    found=source,
                    fix=did_you_mean(source, before) or None,
                    stages=", ".join(before) or "none",
                )
        sizes = {
            source: self._quantity((*path, "receives", source), size, "B")
            for source, size in given.items()
        }
        return Stage(name, device, seconds, sizes)

    def _link(self, path: tuple[str, ...], table: dict[str, Any]) -> Link:
        given = table.get("kind")
        kind = next((k for k in KINDS if k == given), None)
        if kind is None:
            raise self._flaw(
                "A027.kind",
                (*path, "kind"),
                found=str(given),
                fix=did_you_mean(str(given), KINDS) or None,
                kinds=", ".join(KINDS),
            )
        self._keys(path, table, ("kind", *KINDS[kind]))
        values: dict[str, Any] = {}
        for key in table.keys() - {"kind"}:
            if key == "pcie":
                if not isinstance(table[key], str) or not isinstance(packet.link(table[key]), Pcie):
                    raise self._flaw("A027.pcie", (*path, key), found=str(table[key]))
                values[key] = table[key]
            else:
                values[key] = self._quantity((*path, key), table[key], LINK_KEYS[key])
        for key in {"time": ("time",), "loggp": ("latency", "bandwidth")}.get(kind, ()):
            if key not in table:
                raise self._flaw("A027.needs", path, kind=kind, key=key)
        if (
            not 0 < values.get("share", 0.5) <= 1
            or values.get("lines_in_flight", 1) < 1
            or values.get("bandwidth", 1) <= 0
        ):
            raise self._flaw("A027.value", path)
        return Link(kind, **values)

    def _tables(self, kind: str) -> list[tuple[str, dict[str, Any]]]:
        tables = self.document.get(kind, {})
        if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
            raise self._flaw("A027.table", (kind,), kind=kind)
        for name in tables:
            if not all(
                _NAME.fullmatch(part) for part in (name.split("-") if kind == "link" else [name])
            ):
                raise self._flaw("A027.name", (kind, name), found=name, kind=kind)
        return list(tables.items())

    def _quantity(self, path: tuple[str, ...], value: object, unit: str) -> float:
        plain = unit == "1" and isinstance(value, int | float) and not isinstance(value, bool)
        if not isinstance(value, str) and not plain:
            raise self._flaw("A027.quantity", path, found=str(value), key=path[-1])
        quantity = self._located(path, lambda: parse(str(value), unit))
        if quantity < 0 or (path[-1] in ("share", "lines_in_flight") and quantity == 0):
            raise self._flaw("A027.negative", path, found=str(value), key=path[-1])
        if quantity and not _LEAST <= quantity <= _MOST:
            raise self._flaw("A027.large", path, found=str(value), key=path[-1])
        return quantity

    def _count(self, path: tuple[str, ...], value: object) -> int | None:
        if value is not None and (
            not isinstance(value, int) or isinstance(value, bool) or value < 1
        ):
            raise self._flaw("A027.count", path, found=str(value), key=path[-1])
        return value
