"""Machines that ship with Turnbuckle, and machines of user's files.

Errors (`turnbuckle.foundation.errors.MachineError`):

    M001  no machine of that name
    M030  several machines of that short name
    M012  machines that are each other's base
    M013  a base or a chip that does not exist
    M021  a number that `turnbuckle machines check` calls an error
    M035  a host that does not exist
    M036  a file named as a host that changes more than a host
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import TurnbuckleError, clipped, did_you_mean, error_of
from turnbuckle.foundation.schema.vocabulary import refuse_several

from .check import believed
from .load import read, texts_of_head
from .machine import SOURCE, Machine, Parameter, schema
from .parameter_names import HOST_WAYS, ParameterName
from .recognition.device_names import device_words, squeezed
from .recognition.families import RATES, families

_Key = TypeVar("_Key")


@cache
def folder() -> Path:
    """Return the folder of the catalogue's files."""
    return Path(str(files("turnbuckle") / "machine" / "catalog"))


@cache
def _places() -> Mapping[str, Path]:
    """Return the files by machine name: of the catalogue, and of the folders that third-party
    packages add (`turnbuckle.machines`).

    A third party's machine does not replace a machine of the catalogue with the same name.
    """
    foreign = {
        name: path
        for entry in registry.entries("machines").values()
        for name, path in _foreign(entry).items()
    }
    return foreign | {path.stem: path for path in sorted(folder().glob("*.toml"))}


def _foreign(entry: registry.Entry) -> dict[str, Path]:
    """Return the files by machine name that a package adds; none where its folder or one of its
    files cannot be read.
    """
    try:
        return entry.call(lambda: _files(entry))
    except TurnbuckleError as error:
        registry.left_out(entry, error)
        return {}


def _files(entry: registry.Entry) -> dict[str, Path]:
    place = entry.load()()
    if not isinstance(place, str | Path) or not Path(place).is_dir():
        raise entry.fault("A503.type", wanted="a function that returns a folder of machine files")
    paths = {path.stem: path for path in sorted(Path(place).glob("*.toml"))}
    for name, path in paths.items():
        read(path, f"{name}.toml")
    return paths


@cache
def names() -> tuple[str, ...]:
    """Return the names of the catalogue, in alphabetical order."""
    return tuple(sorted(_places()))


def load(name_or_path: str | Machine) -> Machine:
    """Return a machine of the catalogue by name, or any machine by the path of its TOML file; one
    made in Python as it is.

    A name may be in any case, an alias, the name of a device, or its begin where that leaves one
    machine (`called`).

    A text with a path separator or the ending ``.toml`` is a path.  The bases of the machine are
    read as well, so the result is either complete or relative to the source machine of the profile.

    Raises
    ------
    MachineError : M001 (with the nearest name), M030 (with those it may mean), M012, M013, M021, or
        what `turnbuckle.machine.load.read` raises.
    UsageError : A426 where several are named.
    """
    if isinstance(name_or_path, Machine):
        return name_or_path
    return _checked(unchecked(name_or_path))


def unchecked(name_or_path: str) -> Machine:
    """Return the same machine whatever its numbers are, so that `turnbuckle machines check` can
    tell all that is wrong with them.
    """
    if _is_path(name_or_path):
        return _chained(Path(name_or_path), name_or_path, ())
    return _named(name_or_path)


_checked = cache(believed)


@cache
def _named(name: str) -> Machine:
    if name in names():
        return _chained(_places()[name], f"{name}.toml", ())
    meant = called(name)
    if len(meant) == 1:
        machine = _named(meant[0])
        same = meant[0] == name.casefold()
        return (
            machine
            if same
            else replace(
                machine, title=f"{machine.title} ({machine.name}, asked as {clipped(name)})"
            )
        )
    if meant:
        raise error_of("M030", fix=f"one of {', '.join(meant)}", name=clipped(name))
    refuse_several(name, "machine")
    near = did_you_mean(name, names())
    fix = f"{near} " if near else ""
    fix += "turnbuckle machines list names them all; a path to a .toml file also works"
    raise error_of("M001", fix=fix, name=clipped(name))


def called(text: str) -> tuple[str, ...]:
    """Return the machines that people mean by a text: in any case, by an alias or a device's name,
    or by the begin of a name.

    Several where the text leaves open which one: ``mi300`` is an APU and a card.
    """
    word = text.strip().casefold()
    if same := _spelled(word):
        return (same,)
    if claim := claimed(text):
        return (claim,)
    for spelling in ("-".join(word.split()), "".join(word.split())):
        if same := _spelled(spelling):
            return (same,)
    if not any(letter.isdigit() for letter in word):
        return ()
    return tuple(name for name in names() if _begins(word, name))


def _spelled(word: str) -> str:
    """Return the machine whose name or alias a word is; empty where there is none."""
    return word if word in names() else _aliases().get(word, "")


def _begins(word: str, name: str) -> bool:
    """Return whether a text is a machine's name up to a hyphen, or up to the letter of a chip's
    variant.

    >>> _begins("b200", "b200-hgx"), _begins("mi300", "mi300a"), _begins("b20", "b200-hgx"), _begins("nvlink-c2", "nvlink-c2c")
    (True, True, False, False)
    """
    rest = name.removeprefix(word)
    if not word or rest == name:
        return False
    return rest.startswith("-") or (len(rest) == 1 and rest.isalpha() and "-" not in word)


@cache
def _aliases() -> Mapping[str, str]:
    """Return the machines by the short names that their files claim."""
    return {
        alias: name
        for name, path in _places().items()
        for alias in texts_of_head(path, f"{name}.toml", "alias")
    }


def claimed(device: str) -> str:
    """Return the name of the machine that claims a device's name, written with blanks or without;
    empty where none does.
    """
    by_words, by_letters = _claims()
    return by_words.get(device_words(device), "") or by_letters.get(squeezed(device), "")


@cache
def _claims() -> tuple[Mapping[tuple[str, ...], str], Mapping[str, str]]:
    """Return the machines by the words and by the letters of their devices' names; a name that two
    claim identifies neither.
    """
    by_words: dict[tuple[str, ...], set[str]] = {}
    by_letters: dict[str, set[str]] = {}
    for name, path in _places().items():
        for device in texts_of_head(path, f"{name}.toml", "recognise"):
            by_words.setdefault(device_words(device), set()).add(name)
            by_letters.setdefault(squeezed(device), set()).add(name)
    return _of_one(by_words), _of_one(by_letters)


def _of_one(claims: Mapping[_Key, set[str]]) -> dict[_Key, str]:
    """Return the claims of one machine alone."""
    return {key: min(names) for key, names in claims.items() if len(names) == 1}


def _chained(path: Path, called: str, above: tuple[Path, ...]) -> Machine:
    """Read a machine file, and apply it to its base, which is read likewise."""
    machine = read(path, called)
    resolved = path.resolve()
    if machine.chip:
        other = _below(machine.chip, path, called, above, resolved)
        if other.relative:
            raise error_of("M013.chip", where=called, chip=clipped(machine.chip))
        machine = machine.with_chip(other)
    if machine.family and not machine.base and machine.has.isdisjoint(RATES):
        machine = _of_family(machine)
    if machine.host:
        machine = machine.with_host(_host(machine.host, path, called))
    if machine.base in ("", SOURCE):
        return machine
    upon = machine.on(_below(machine.base, path, called, above, resolved))
    return upon if upon.relative else replace(upon, changes=())


def _of_family(machine: Machine) -> Machine:
    """Return a machine that states no rate of its GPU with those of its family, and with the link
    of its chip where it states none.
    """
    family = families()[machine.family]
    units, clock = machine.get("gpu.multiprocessors"), machine.get("gpu.clock")
    rates = (
        {}
        if units is None or clock is None
        else family.parameters(units, clock, " ".join((*machine.recognise, machine.title)))
    )
    stated = {**rates, **link_of(family.link), **machine.parameters}
    return replace(machine, parameters={n: stated[n] for n in schema() if n in stated})


@cache
def hosts() -> Mapping[str, Path]:
    """Return the files of the hosts that machines may name, by name, in alphabetical order."""
    place = Path(str(files("turnbuckle") / "machine" / "measured" / "hosts"))
    return {path.stem: path for path in sorted(place.glob("*.toml"))}


@cache
def host_of(processor: str) -> Machine | None:
    """Return the host whose processors have such a name, as a profiler writes it; None where no
    entry is of that processor.

    Of several, the one that says most of the name.
    """
    entries = [read(path, f"hosts/{name}.toml") for name, path in hosts().items()]
    found = [
        (pattern.count("?"), host)
        for host in entries
        for pattern in host.recognise
        if fnmatchcase(processor, f"*{pattern}*")
    ]
    return min(found, key=lambda each: each[0])[1] if found else None


def _host(name: str, path: Path, called: str) -> Machine:
    """Return the host that a file names: a list of changes to any machine, all of the host
    alone.
    """
    if _is_path(name):
        host = read(path.parent / name, str(Path(called).parent / name))
    elif name in hosts():
        host = read(hosts()[name], f"hosts/{name}.toml")
    else:
        raise error_of(
            "M035",
            where=called,
            fix=did_you_mean(name, hosts()) or None,
            host=clipped(name),
            hosts=", ".join(hosts()),
        )
    if host.base != SOURCE or not all(
        change.parameter.startswith("host.") for change in host.changes
    ):
        raise error_of("M036", where=called, host=clipped(name))
    return host


def _below(name: str, path: Path, called: str, above: tuple[Path, ...], resolved: Path) -> Machine:
    """Return the machine that a file names as its base or its chip."""
    if resolved in above:
        ring = " -> ".join(p.stem for p in (*above[above.index(resolved) :], resolved))
        raise error_of("M012", where=called, found=clipped(ring))
    if _is_path(name):
        return _chained(path.parent / name, str(Path(called).parent / name), (*above, resolved))
    if name not in names():
        raise error_of(
            "M013.base",
            where=called,
            fix=did_you_mean(name, ["source", *names()]) or None,
            base=clipped(name),
        )
    return _chained(_places()[name], f"{name}.toml", (*above, resolved))


def all_machines() -> list[Machine]:
    """Return every machine of the catalogue, in the order of `names`."""
    return [_named(name) for name in names()]


@cache
def link_of(name: str) -> dict[ParameterName, Parameter]:
    """Return what a machine of the catalogue states of the link to the host, such as ``pcie4-x16``;
    nothing for an empty name.
    """
    if not name:
        return {}
    machine = _named(name)
    stated = {
        change.parameter: change.set for change in machine.changes if change.set is not None
    } or machine.parameters
    ways = tuple(f"link.{way}." for way in HOST_WAYS)
    return {parameter: value for parameter, value in stated.items() if parameter.startswith(ways)}


def _is_path(text: str) -> bool:
    return text.endswith(".toml") or "/" in text or "\\" in text
