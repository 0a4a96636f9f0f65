"""Reader of machine files (TOML), which names the line and column of every flaw.

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

With ``base = "source"`` (or a machine of the catalogue, or another file) it describes changes:
parameters given as above replace those of the base, and ``[change.PARAMETER]`` holds `scale`,
`add`, `limit` (at most) and `assume` (where the base does not know).

Errors (`turnbuckle.foundation.errors.MachineError`), each with ``file:line:column``:

    M002  the file cannot be read                M009  the value is not a quantity in the parameter's unit
    M003  larger than 1 MB, or not text          M010  the value or its error is out of range
    M004  not TOML                               M011  a word that is not among those allowed
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

from turnbuckle.foundation.errors import (
    MachineError,
    TurnbuckleError,
    UnitError,
    clipped,
    did_you_mean,
    error_of,
    texts_of,
)
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.toml_text import NotToml, Positions, parsed
from turnbuckle.foundation.toml_text import Path as Keys
from turnbuckle.foundation.units import MANNER, parse
from turnbuckle.machine.parameter_names import ParameterName, found_parameter

from .machine import (
    CHANGES,
    COUPLINGS,
    INSTRUCTION_SETS,
    NATURES,
    SOURCE,
    Change,
    Coupling,
    Fact,
    InstructionSet,
    Machine,
    Meaning,
    Nature,
    Parameter,
    schema,
)
from .recognition.families import families

LIMIT_BYTES = 1_000_000
"""Larger files are refused."""

_MOST_FLAWS = 50
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_HEAD = (
    *(
        "name",
        "title",
        "summary",
        "year",
        "coupling",
        "base",
        "chip",
        "family",
        "alias",
        "recognise",
    ),
    *("copies_vanish", "instruction_set", "host"),
)
_PARTS = ("value", "error", "nature", "source", "note", "common")
_CHANGES = tuple(word for word in CHANGES if word != "set")


class InvalidMachine(MachineError):
    """Error with all flaws of one machine file; `problems` holds them in the order of the file."""

    def __init__(self, file: str, problems: tuple[TurnbuckleError, ...]) -> None:
        super().__init__("M020", texts_of("M020.file", count=len(problems)).what, where=file)
        self.problems = problems

    def lines(self) -> list[str]:
        """Return every flaw in full, then the number of flaws."""
        return [line for p in self.problems for line in p.lines()] + [
            f"error[{self.code}]: {self.what}",
            f"  --> {self.where}",
        ]


def read(path: Path, called: str | None = None) -> Machine:
    """Read one machine file without its base.

    Parameters
    ----------
    path : path of a TOML file.
    called : name of the file in messages and in the machine; by default `path` as written.

    Raises
    ------
    MachineError : the flaw, or `InvalidMachine` (M020) with all of them.
    """
    machine, problems = examine(path, called)
    if machine is None:
        raise (
            problems[0]
            if len(problems) == 1
            else InvalidMachine(called or str(path), tuple(problems))
        )
    return machine


def texts_of_head(path: Path, called: str, key: str) -> tuple[str, ...]:
    """Return a list of texts of a machine file's head, without its numbers: what else is wrong with
    it is told when it is loaded.

    Raises
    ------
    MachineError : M002, M003, M004.
    """
    raw = _bytes(path, called)
    head = _document(raw, called)[0].get("machine") if key.encode() in raw else None
    texts = head.get(key) if isinstance(head, dict) else None
    return tuple(text for text in texts if isinstance(text, str)) if isinstance(texts, list) else ()


def examine(path: Path, called: str | None = None) -> tuple[Machine | None, list[TurnbuckleError]]:
    """Return the machine, or None and every flaw of its file in the order of the file.  Raises
    nothing.
    """
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
            raise error_of("M002.directory", where=file)
        if path.exists() and not path.is_file():
            raise error_of("M002.special", where=file)
        with opened(path) as stream:
            raw = stream.read(LIMIT_BYTES + 1)
    except FileNotFoundError:
        raise error_of("M002.missing", where=file) from None
    except (OSError, ValueError) as error:
        reason = (
            error.strerror if isinstance(error, OSError) and error.strerror else "not a usable path"
        )
        raise error_of("M002.unreadable", where=file, cause=reason.lower()) from error
    if len(raw) > LIMIT_BYTES:
        raise error_of("M003.large", where=file)
    return raw


def _document(raw: bytes, file: str) -> tuple[dict[str, Any], Positions]:
    try:
        return parsed(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise error_of("M003.text", where=f"{file}:{line}:1") from None
    except NotToml as flaw:
        raise error_of(
            "M004.quotes" if "quote" in flaw.why else "M004.toml",
            where=file + (flaw.at or ":1:1"),
            found=flaw.why,
        ) from None


def _plain(value: object) -> str:
    """Return a value from the file for a message: one printable line, not too long."""
    text = value if isinstance(value, str) else repr(value)
    return clipped(text)


class _Enough(Exception):
    """Exception that stops the reading after the largest number of flaws that is reported."""


class _Reader:
    """Reader of one document, which collects all flaws with their places."""

    def __init__(self, file: str, document: dict[str, Any], positions: Positions) -> None:
        self.file, self.document, self.positions = file, document, positions
        self.problems: list[tuple[tuple[int, int], TurnbuckleError]] = []

    def machine(self, sha256: str) -> Machine | None:
        head = self._table(("machine",), self.document.get("machine"), _HEAD)
        if head is None:
            if "machine" not in self.document:
                self._flaw("M006.name", ())
            return None
        name = self._name(head)
        title, summary = self._text(head, "title"), self._text(head, "summary")
        base = self._text(head, "base", required=False)
        coupling = self._word(("machine", "coupling"), head, "coupling", COUPLINGS)
        year = head.get("year", 0)
        if (
            not isinstance(year, int)
            or isinstance(year, bool)
            or not (year == 0 or 1990 <= year <= 2100)
        ):
            self._flaw("M008.year", ("machine", "year"), found=_plain(year), value=True)
        shared = (
            self._fact(("machine", "copies_vanish"), head["copies_vanish"])
            if "copies_vanish" in head
            else None
        )
        instructions = (
            self._word(("machine", "instruction_set"), head, "instruction_set", INSTRUCTION_SETS)
            if "instruction_set" in head
            else ""
        )
        family = (
            self._word(("machine", "family"), head, "family", tuple(families()))
            if "family" in head
            else ""
        )
        self._texts(("machine", "alias"), head.get("alias", []))
        recognise = self._texts(("machine", "recognise"), head.get("recognise", []))
        given = dict(
            self._parameters(
                (), {k: v for k, v in self.document.items() if k not in ("machine", "change")}
            )
        )
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
            chip=self._text(head, "chip", required=False),
            family=family,
            parameters={} if base else {n: given[n] for n in schema() if n in given},
            changes=changes,
            recognise=recognise,
            memory_shared=shared,
            instruction_set=cast(InstructionSet, instructions),
            host=self._text(head, "host", required=False),
            file=self.file,
            sha256=sha256,
        )

    # the head

    def _name(self, head: dict[str, Any]) -> str:
        name = self._text(head, "name")
        if name and (not _NAME.fullmatch(name) or name in (SOURCE, "self")):
            self._flaw("M010.name", ("machine", "name"), found=_plain(name), value=True)
        return name

    def _text(self, head: dict[str, Any], key: str, required: bool = True) -> str:
        text = self._string(("machine",), head, key)
        if required and not text and key not in head:
            self._flaw("M006.machine", ("machine",), key=key)
        elif required and text is not None and not text.strip():
            self._flaw("M006.empty", ("machine", key), value=True, key=key)
        return text or ""

    def _texts(self, path: Keys, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(
            isinstance(v, str) and v.strip() and v.isprintable() for v in value
        ):
            self._flaw("M008.list", path, found=_plain(value), value=True, key=path[-1])
            return ()
        return tuple(value)

    def _fact(self, path: Keys, value: object) -> Fact | None:
        if not isinstance(value, dict):
            self._flaw("M007.fact", path, found=_plain(value), key=path[-1])
            return None
        parts = self._table(path, value, ("value", "nature", "source", "note")) or {}
        truth = parts.get("value")
        if not isinstance(truth, bool):
            self._flaw(
                "M008.truth", (*path, "value"), found=_plain(truth), value=True, key=path[-1]
            )
        nature, source, note = self._origin(path, parts)
        return Fact(bool(truth), nature, source, note)

    # parameters and changes

    def _parameters(
        self, path: Keys, table: dict[str, Any]
    ) -> Iterable[tuple[ParameterName, Parameter]]:
        """Read the tables down to the names of the schema."""
        for key, value in table.items():
            place = (*path, key)
            dotted = ".".join(place)
            if (name := found_parameter(dotted)) is not None:
                meaning = schema()[name]
                parameter = self._parameter(place, value, meaning.unit, dotted, meaning)
                if parameter is not None:
                    yield name, parameter
            elif isinstance(value, dict) and any(n.startswith(dotted + ".") for n in schema()):
                yield from self._parameters(place, value)
            else:
                self._unknown(place)

    def _changes(self, given: dict[ParameterName, Parameter], base: str) -> tuple[Change, ...]:
        table = self.document.get("change", {})
        if "change" in self.document and not base:
            self._flaw("M014", ("change",))
        changes = dict(self._change_tables(("change",), table)) if isinstance(table, dict) else {}
        if not isinstance(table, dict):
            self._flaw("M008.change", ("change",), found=_plain(table), value=True)
        if not base:
            return ()
        names = [n for n in schema() if n in given or n in changes]
        return tuple(Change(n, set=given.get(n), **changes.get(n, {})) for n in names)

    def _change_tables(
        self, path: Keys, table: dict[str, Any]
    ) -> Iterable[tuple[ParameterName, dict[str, Parameter]]]:
        for key, value in table.items():
            place = (*path, key)
            dotted = ".".join(place[1:])
            if (name := found_parameter(dotted)) is not None:
                meaning = schema()[name]
                parts = self._table(place, value, _CHANGES)
                if parts is None:
                    continue
                if not value:
                    self._flaw("M015", place, dotted=dotted)
                read = {
                    word: self._parameter(
                        (*place, word),
                        part,
                        "1" if word == "scale" else meaning.unit,
                        f"{word} of {dotted}",
                        None,
                    )
                    for word, part in parts.items()
                }
                yield name, {word: part for word, part in read.items() if part is not None}
            elif isinstance(value, dict) and any(n.startswith(dotted + ".") for n in schema()):
                yield from self._change_tables(place, value)
            else:
                self._unknown(place, after=1)

    def _parameter(
        self, path: Keys, value: object, unit: str, name: str, meaning: Meaning | None
    ) -> Parameter | None:
        if not isinstance(value, dict):
            self._flaw("M007.bare", path, found=_plain(value), name=name, key=path[-1])
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
                    "M010.error",
                    (*path, "error"),
                    found=_plain(parts["error"]),
                    value=True,
                    name=name,
                )
        elif nature != "spec" and unit != MANNER and len(self.problems) == before:
            self._flaw("M006.error", path, name=name, nature=nature)
        if "value" in parts and len(self.problems) == before:
            self._in_range(path, number, parts["value"], name, meaning)
        common = self._string(path, parts, "common") or ""
        return (
            Parameter(number, error, unit, nature, source, note, common)
            if len(self.problems) == before
            else None
        )

    def _in_range(
        self, path: Keys, number: float, written: object, name: str, meaning: Meaning | None
    ) -> None:
        if meaning is None or meaning.minimum > 0:
            allowed = number > 0
            must = "must be above 0"
        else:
            allowed, must = number >= 0, "must not be negative"
        if not allowed:
            self._flaw(
                "M010.range",
                (*path, "value"),
                found=_plain(written),
                value=True,
                name=name,
                must=must,
            )
        elif name.endswith(".efficiency") and meaning is not None and number > 1:
            self._flaw("M010.share", (*path, "value"), found=_plain(written), value=True, name=name)

    def _quantity(self, path: Keys, parts: dict[str, Any], key: str, unit: str, name: str) -> float:
        value = parts.get(key)
        if value is None:
            self._flaw("M006.key", path, name=name, key=key)
            return 1.0
        if isinstance(value, int | float) and not isinstance(value, bool) and unit == "1":
            value = repr(value)
        if not isinstance(value, str):
            self._flaw("M008.quantity", (*path, key), found=_plain(value), value=True, name=name)
            return 1.0
        try:
            return parse(value, unit)
        except UnitError as error:
            self._flaw(
                "M009",
                (*path, key),
                found=error.found,
                value=True,
                cause=error.cause,
                fix=error.fix,
                name=name,
                problem=error.what,
            )
            return 1.0

    def _origin(self, path: Keys, parts: dict[str, Any], name: str = "") -> tuple[Nature, str, str]:
        """Return nature, source and note; a missing or empty source is a flaw."""
        nature = self._word((*path, "nature"), parts, "nature", NATURES)
        source = self._string(path, parts, "source")
        if "source" not in parts or (source is not None and not source.strip()):
            place = (*path, "source") if "source" in parts else path
            name = name or path[-1]
            self._flaw("M007.table", place, name=name)
        return cast(Nature, nature), (source or "").strip(), self._string(path, parts, "note") or ""

    # small ones

    def _table(self, path: Keys, value: object, allowed: tuple[str, ...]) -> dict[str, Any] | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            self._flaw("M008.table", path, found=_plain(value), value=True, path=".".join(path))
            return None
        for key in value:
            if key not in allowed:
                fix = did_you_mean(key, allowed) or f"one of {', '.join(allowed)}"
                if path[0] == "change" and key in ("set", "value"):
                    fix = (
                        f"to replace the parameter write [{'.'.join(path[1:])}] with value, "
                        "nature and source"
                    )
                self._flaw("M005.key", (*path, key), fix=fix, key=_plain(key))
        return {k: v for k, v in value.items() if k in allowed}

    def _string(self, path: Keys, parts: dict[str, Any], key: str) -> str | None:
        value = parts.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self._flaw("M008.text", (*path, key), found=_plain(value), value=True, key=key)
            return None
        if not value.replace("\n", "").isprintable():
            self._flaw("M010.control", (*path, key), found=_plain(value), value=True, key=key)
        return " ".join(value.split())

    def _word(self, path: Keys, parts: dict[str, Any], key: str, allowed: tuple[str, ...]) -> str:
        value = parts.get(key)
        if value is None:
            self._flaw(
                "M006.word",
                path[:-1],
                path=".".join(path[:-1]),
                key=key,
                allowed=", ".join(allowed),
            )
        elif value not in allowed:
            fix = did_you_mean(value, allowed) if isinstance(value, str) else ""
            self._flaw(
                "M011",
                path,
                value=True,
                fix=fix or None,
                key=key,
                word=_plain(value),
                allowed=", ".join(allowed),
            )
        return value if value in allowed else allowed[0]

    def _unknown(self, path: Keys, after: int = 0) -> None:
        dotted = ".".join(path[after:])
        near = did_you_mean(dotted, schema())
        if not near and not after:
            near = did_you_mean(
                path[0], ["machine", "change", *{n.split(".")[0] for n in schema()}]
            )
        self._flaw("M005.parameter", path, fix=near or None, dotted=_plain(dotted))

    def _flaw(
        self,
        name: str,
        path: Keys,
        /,
        *,
        found: str = "",
        cause: str | None = None,
        fix: str | None = None,
        value: bool = False,
        **words: Any,
    ) -> None:
        place = self.positions.value(path) if value else self.positions.key(path)
        where = f"{self.file}:{place[0]}:{place[1]}"
        self.problems.append(
            (place, error_of(name, where=where, found=found, cause=cause, fix=fix, **words))
        )
        if len(self.problems) >= _MOST_FLAWS:
            raise _Enough
