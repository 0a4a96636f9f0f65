"""Reads a machine file (TOML), and says for every flaw at which line and column it stands.

A machine file names a machine and gives its parameters, each with value, error, nature and source::

    [machine]
    name = "our-node"
    title = "Our node: two H100 over PCIe 5"
    summary = "What we measured in March."
    year = 2024
    coupling = "pcie"

    [link.h2d.bandwidth]
    value = "63 GB/s"
    nature = "spec"
    source = "PCI Express 5.0, 16 lanes"

With ``base = "source"`` (or a machine of the catalogue, or another file) it describes changes: parameters given as above
replace those of the base, and ``[change.PARAMETER]`` holds `scale`, `add`, `limit`
(at most) and `assume` (where the base does not know).

Errors (`turnbuckle.foundation.errors.MachineError`), each with ``file:line:column``:

    M002  the file cannot be read                M009  the value is not a quantity in the parameter's unit
    M003  larger than 1 MB, or not text          M010  the value or its error is out of range
    M004  not TOML                               M011  a word that is not one of the words allowed
    M005  a name that is not a parameter         M014  a change in a file without a base
    M006  something required is missing          M015  a change that changes nothing
    M007  a number without a source              M020  several of these at once
    M008  of another type than it must be
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from turnbuckle.foundation.errors import MachineError, UnitError, clipped, did_you_mean
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.toml_text import NotToml, Positions, parsed
from turnbuckle.foundation.toml_text import Path as Keys
from turnbuckle.foundation.units import parse

from .machine import CHANGES, COUPLINGS, NATURES, SOURCE, Change, Coupling, Fact, Machine, Meaning, Nature, Parameter, schema

LIMIT_BYTES = 1_000_000
"""Larger files are refused."""

_MOST_FLAWS = 50
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_HEAD = ("name", "title", "summary", "year", "coupling", "base", "recognise", "copies_vanish")
_PARTS = ("value", "error", "nature", "source", "note", "common")
_CHANGES = tuple(word for word in CHANGES if word != "set")


class InvalidMachine(MachineError):
    """All flaws of one machine file: `problems` holds them in the order of the file."""

    def __init__(self, file: str, problems: tuple[MachineError, ...]) -> None:
        super().__init__("M020", f"the machine file has {len(problems)} flaws", where=file)
        self.problems = problems

    def lines(self) -> list[str]:
        """Return every flaw in full, then the number of flaws."""
        return [line for p in self.problems for line in p.lines()] + [f"error[{self.code}]: {self.what}", f"  --> {self.where}"]


def read(path: Path, called: str | None = None) -> Machine:
    """Read one machine file; its base, if it has one, is not looked up here.

    Parameters
    ----------
    path : a TOML file.
    called : how the file is named in messages and in the machine; by default as `path` is written.

    Raises
    ------
    MachineError : the flaw, or `InvalidMachine` (M020) with all of them.
    """
    machine, problems = examine(path, called)
    if machine is None:
        raise problems[0] if len(problems) == 1 else InvalidMachine(called or str(path), tuple(problems))
    return machine


def examine(path: Path, called: str | None = None) -> tuple[Machine | None, list[MachineError]]:
    """Return the machine, or None and every flaw of its file in the order of the file.  Raises nothing."""
    file = called or str(path)
    try:
        raw = _bytes(path, file)
        reader = _Reader(file, *_document(raw, file))
    except MachineError as error:
        return None, [error]
    machine = None
    with suppress(_Enough):
        machine = reader.machine(hashlib.sha256(raw).hexdigest())
    problems = [problem for _, problem in sorted(reader.problems, key=lambda p: p[0])]
    return (None if problems else machine), problems


def _bytes(path: Path, file: str) -> bytes:
    try:
        if path.is_dir():
            raise MachineError("M002", "a directory, not a machine file", where=file, fix="name the .toml file inside it")
        if path.exists() and not path.is_file():
            raise MachineError("M002", "not a regular file", where=file)
        with opened(path) as stream:
            raw = stream.read(LIMIT_BYTES + 1)
    except FileNotFoundError:
        raise MachineError(
            "M002", "there is no such machine file", where=file, fix="turnbuckle machines list names the catalogue"
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a usable path"
        raise MachineError("M002", "the machine file cannot be read", where=file, cause=reason.lower()) from None
    if len(raw) > LIMIT_BYTES:
        raise MachineError("M003", "a machine file larger than 1 MB", where=file, cause="not a machine file, or generated text")
    return raw


def _document(raw: bytes, file: str) -> tuple[dict[str, Any], Positions]:
    try:
        return parsed(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise MachineError("M003", "not text in UTF-8", where=f"{file}:{line}:1", fix="save the file as UTF-8") from None
    except NotToml as flaw:
        fix = 'texts need quotes: value = "25 GB/s"' if "quote" in flaw.why else ""
        raise MachineError("M004", "not valid TOML", where=file + (flaw.at or ":1:1"), found=flaw.why, fix=fix) from None


def _plain(value: object) -> str:
    """Return a value from the file for a message: one printable line, not too long."""
    text = value if isinstance(value, str) else repr(value)
    return clipped(text)


class _Enough(Exception):
    """More flaws than anybody would read, so that reading stops."""


class _Reader:
    """Reader of one document, which collects flaws with their place instead of stopping at the first."""

    def __init__(self, file: str, document: dict[str, Any], positions: Positions) -> None:
        self.file, self.document, self.positions = file, document, positions
        self.problems: list[tuple[tuple[int, int], MachineError]] = []

    def machine(self, sha256: str) -> Machine | None:
        head = self._table(("machine",), self.document.get("machine"), _HEAD)
        if head is None:
            if "machine" not in self.document:
                self._flaw("M006", (), "the file does not say which machine it is", fix='begin with [machine] and name = "..."')
            return None
        name = self._name(head)
        title, summary = self._text(head, "title"), self._text(head, "summary")
        base = self._text(head, "base", required=False)
        coupling = self._word(("machine", "coupling"), head, "coupling", COUPLINGS)
        year = head.get("year", 0)
        if not isinstance(year, int) or isinstance(year, bool) or not (year == 0 or 1990 <= year <= 2100):
            self._flaw(
                "M008", ("machine", "year"), "the year must be a whole number from 1990 to 2100, or 0", found=_plain(year), value=True
            )
        shared = self._fact(("machine", "copies_vanish"), head["copies_vanish"]) if "copies_vanish" in head else None
        recognise = self._texts(("machine", "recognise"), head.get("recognise", []))
        given = dict(self._parameters((), {k: v for k, v in self.document.items() if k not in ("machine", "change")}))
        changes = self._changes(given, base)
        if self.problems:
            return None
        return Machine(
            name=name,
            title=title,
            summary=summary,
            year=year,
            coupling=cast(Coupling, coupling),
            base=base,
            parameters={} if base else {n: given[n] for n in schema() if n in given},
            changes=changes,
            recognise=recognise,
            memory_shared=shared,
            file=self.file,
            sha256=sha256,
        )

    # the head

    def _name(self, head: dict[str, Any]) -> str:
        name = self._text(head, "name")
        if name and (not _NAME.fullmatch(name) or name in (SOURCE, "self")):
            self._flaw(
                "M010",
                ("machine", "name"),
                "not a machine name",
                found=_plain(name),
                fix="small letters, digits, '-' and '.'; 64 at most",
                value=True,
            )
        return name

    def _text(self, head: dict[str, Any], key: str, required: bool = True) -> str:
        text = self._string(("machine",), head, key)
        if required and not text and key not in head:
            self._flaw("M006", ("machine",), f"the machine has no {key}", fix=f'add {key} = "..." under [machine]')
        elif required and text is not None and not text.strip():
            self._flaw("M006", ("machine", key), f"the machine's {key} is empty", value=True)
        return text or ""

    def _texts(self, path: Keys, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(v, str) and v.strip() and v.isprintable() for v in value):
            self._flaw("M008", path, f"{path[-1]} must be a list of texts", found=_plain(value), value=True)
            return ()
        return tuple(value)

    def _fact(self, path: Keys, value: object) -> Fact | None:
        if not isinstance(value, dict):
            fix = f'{path[-1]} = {{ value = true, nature = "spec", source = "..." }}'
            self._flaw("M007", path, f"{path[-1]} without a source does not load", found=_plain(value), fix=fix)
            return None
        parts = self._table(path, value, ("value", "nature", "source", "note")) or {}
        truth = parts.get("value")
        if not isinstance(truth, bool):
            self._flaw("M008", (*path, "value"), f"{path[-1]} must be true or false", found=_plain(truth), value=True)
        nature, source, note = self._origin(path, parts)
        return Fact(bool(truth), nature, source, note)

    # parameters and changes

    def _parameters(self, path: Keys, table: dict[str, Any]) -> Iterable[tuple[str, Parameter]]:
        """Walk the tables down to the names of the schema."""
        for key, value in table.items():
            place = (*path, key)
            dotted = ".".join(place)
            if meaning := schema().get(dotted):
                parameter = self._parameter(place, value, meaning.unit, dotted, meaning)
                if parameter is not None:
                    yield dotted, parameter
            elif isinstance(value, dict) and any(n.startswith(dotted + ".") for n in schema()):
                yield from self._parameters(place, value)
            else:
                self._unknown(place)

    def _changes(self, given: dict[str, Parameter], base: str) -> tuple[Change, ...]:
        table = self.document.get("change", {})
        if "change" in self.document and not base:
            self._flaw("M014", ("change",), "changes need a base", fix='add base = "source" (or a machine\'s name) under [machine]')
        changes = dict(self._change_tables(("change",), table)) if isinstance(table, dict) else {}
        if not isinstance(table, dict):
            self._flaw("M008", ("change",), "change must be a table", found=_plain(table), value=True)
        if not base:
            return ()
        names = [n for n in schema() if n in given or n in changes]
        return tuple(Change(n, set=given.get(n), **changes.get(n, {})) for n in names)

    def _change_tables(self, path: Keys, table: dict[str, Any]) -> Iterable[tuple[str, dict[str, Parameter]]]:
        for key, value in table.items():
            place = (*path, key)
            dotted = ".".join(place[1:])
            if meaning := schema().get(dotted):
                parts = self._table(place, value, _CHANGES)
                if parts is None:
                    continue
                if not value:
                    self._flaw(
                        "M015",
                        place,
                        f"the change of {dotted} changes nothing",
                        fix="give scale or add, each with value, nature and source",
                    )
                read = {
                    word: self._parameter((*place, word), part, "1" if word == "scale" else meaning.unit, f"{word} of {dotted}", None)
                    for word, part in parts.items()
                }
                yield dotted, {word: part for word, part in read.items() if part is not None}
            elif isinstance(value, dict) and any(n.startswith(dotted + ".") for n in schema()):
                yield from self._change_tables(place, value)
            else:
                self._unknown(place, after=1)

    def _parameter(self, path: Keys, value: object, unit: str, name: str, meaning: Meaning | None) -> Parameter | None:
        if not isinstance(value, dict):
            fix = f'{path[-1]} = {{ value = "...", error = "5 %", nature = "measured", source = "..." }}'
            self._flaw("M007", path, f"{name}: a number without a source does not load", found=_plain(value), fix=fix)
            return None
        before = len(self.problems)
        parts = self._table(path, value, _PARTS) or {}
        nature, source, note = self._origin(path, parts, name)
        number = self._quantity(path, parts, "value", unit, name)
        error = 0.0
        if "error" in parts:
            error = self._quantity(path, parts, "error", "1", f"the error of {name}")
            if not 0 <= error <= 3:
                self._flaw(
                    "M010", (*path, "error"), f"the error of {name} must lie between 0 and 300 %", found=_plain(parts["error"]), value=True
                )
        elif nature != "spec" and len(self.problems) == before:
            self._flaw(
                "M006",
                path,
                f"{name} has no error",
                cause=f"a number of nature {nature} is uncertain",
                fix='add error = "10 %" (one sigma, relative)',
            )
        if "value" in parts and len(self.problems) == before:
            self._in_range(path, number, parts["value"], name, meaning)
        common = self._string(path, parts, "common") or ""
        return Parameter(number, error, unit, nature, source, note, common) if len(self.problems) == before else None

    def _in_range(self, path: Keys, number: float, written: object, name: str, meaning: Meaning | None) -> None:
        if meaning is None or meaning.minimum > 0:
            allowed = number > 0
            must = "must be above 0"
        else:
            allowed, must = number >= 0, "must not be negative"
        if not allowed:
            self._flaw("M010", (*path, "value"), f"{name} {must}", found=_plain(written), value=True)
        elif name.endswith(".efficiency") and meaning is not None and number > 1:
            self._flaw(
                "M010", (*path, "value"), f"{name} is a share of the nominal bandwidth: 1 at most", found=_plain(written), value=True
            )

    def _quantity(self, path: Keys, parts: dict[str, Any], key: str, unit: str, name: str) -> float:
        value = parts.get(key)
        if value is None:
            self._flaw("M006", path, f"{name} has no {key}", fix=f'add {key} = "..."')
            return 1.0
        if isinstance(value, int | float) and not isinstance(value, bool) and unit == "1":
            value = repr(value)
        if not isinstance(value, str):
            self._flaw(
                "M008",
                (*path, key),
                f"{name} must be a text with a unit",
                found=_plain(value),
                fix='write it in quotes, for example "25 GB/s"',
                value=True,
            )
            return 1.0
        try:
            return parse(value, unit)
        except UnitError as error:
            what = f"{name}: {error.what}"
            self._flaw("M009", (*path, key), what, found=error.found, cause=error.cause, fix=error.fix, value=True)
            return 1.0

    def _origin(self, path: Keys, parts: dict[str, Any], name: str = "") -> tuple[Nature, str, str]:
        """Return nature, source and note; a missing or empty source is a flaw."""
        nature = self._word((*path, "nature"), parts, "nature", NATURES)
        source = self._string(path, parts, "source")
        if "source" not in parts or (source is not None and not source.strip()):
            place = (*path, "source") if "source" in parts else path
            name = name or path[-1]
            self._flaw("M007", place, f"{name}: a number without a source does not load", fix='add source = "who says so, and where"')
        return cast(Nature, nature), (source or "").strip(), self._string(path, parts, "note") or ""

    # small ones

    def _table(self, path: Keys, value: object, allowed: tuple[str, ...]) -> dict[str, Any] | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            self._flaw("M008", path, f"{'.'.join(path)} must be a table", found=_plain(value), value=True)
            return None
        for key in value:
            if key not in allowed:
                fix = did_you_mean(key, allowed) or f"one of {', '.join(allowed)}"
                if path[0] == "change" and key in ("set", "value"):
                    fix = f"to replace the parameter write [{'.'.join(path[1:])}] with value, nature and source"
                self._flaw("M005", (*path, key), f"unknown key: {_plain(key)}", fix=fix)
        return {k: v for k, v in value.items() if k in allowed}

    def _string(self, path: Keys, parts: dict[str, Any], key: str) -> str | None:
        value = parts.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self._flaw("M008", (*path, key), f"{key} must be a text", found=_plain(value), value=True)
            return None
        if not all(c.isprintable() or c == "\n" for c in value):
            self._flaw("M010", (*path, key), f"{key} holds control characters", found=_plain(value), value=True)
        return " ".join(value.split())

    def _word(self, path: Keys, parts: dict[str, Any], key: str, allowed: tuple[str, ...]) -> str:
        value = parts.get(key)
        if value is None:
            self._flaw("M006", path[:-1], f"{'.'.join(path[:-1])} has no {key}", fix=f"add {key} = one of {', '.join(allowed)}")
        elif value not in allowed:
            fix = did_you_mean(value, allowed) if isinstance(value, str) else ""
            self._flaw("M011", path, f"not a {key}: {_plain(value)}", fix=fix or f"one of {', '.join(allowed)}", value=True)
        return value if value in allowed else allowed[0]

    def _unknown(self, path: Keys, after: int = 0) -> None:
        dotted = ".".join(path[after:])
        near = did_you_mean(dotted, schema())
        if not near and not after:
            near = did_you_mean(path[0], ["machine", "change", *{n.split(".")[0] for n in schema()}])
        self._flaw("M005", path, f"not a machine parameter: {_plain(dotted)}", fix=near or "docs/machines.md lists all parameters")

    def _flaw(self, code: str, path: Keys, what: str, *, found: str = "", cause: str = "", fix: str = "", value: bool = False) -> None:
        place = self.positions.value(path) if value else self.positions.key(path)
        where = f"{self.file}:{place[0]}:{place[1]}"
        self.problems.append((place, MachineError(code, what, where=where, found=found, cause=cause, fix=fix)))
        if len(self.problems) >= _MOST_FLAWS:
            raise _Enough
