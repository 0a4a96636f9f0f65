"""Machines that ship with Turnbuckle, and machines of user's files.

Errors (`turnbuckle.foundation.errors.MachineError`):

    M001  no machine of that name
    M012  machines that are each other's base
    M013  a base or a chip that does not exist
    M021  a number that `turnbuckle machines check` calls an error
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import TurnbuckleError, clipped, did_you_mean, error_of
from turnbuckle.foundation.schema.vocabulary import refuse_several

from .check import believed
from .device_names import device_words, is_slice
from .load import devices_of, read
from .machine import SOURCE, Machine


@cache
def folder() -> Path:
    """Return the folder of the catalogue's files."""
    return Path(str(files("turnbuckle") / "machine" / "catalog"))


@cache
def _places() -> Mapping[str, Path]:
    """Return the files by machine name: of the catalogue, and of the folders that third-party packages add (`turnbuckle.machines`).

    A third party's machine does not replace a machine of the catalogue with the same name.
    """
    foreign = {name: path for entry in registry.entries("machines").values() for name, path in _foreign(entry).items()}
    return foreign | {path.stem: path for path in sorted(folder().glob("*.toml"))}


def _foreign(entry: registry.Entry) -> dict[str, Path]:
    """Return the files by machine name that a package adds; none where its folder or one of its files cannot be read."""
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
    """Return a machine of the catalogue by name, or any machine by the path of its TOML file; one made in Python as it is.

    A text with a path separator or the ending ``.toml`` is a path.  The bases of the machine are read as well, so the
    result is either complete or relative to the source machine of the profile.

    Raises
    ------
    MachineError : M001 (with the nearest name), M012, M013, M021, or what `turnbuckle.machine.load.read` raises.
    UsageError : A426 where several are named.
    """
    if isinstance(name_or_path, Machine):
        return name_or_path
    return _checked(unchecked(name_or_path))


def unchecked(name_or_path: str) -> Machine:
    """Return the same machine whatever its numbers are, so that `turnbuckle machines check` can tell all that is wrong with them."""
    if _is_path(name_or_path):
        return _chained(Path(name_or_path), name_or_path, ())
    return _named(name_or_path)


_checked = cache(believed)


@cache
def _named(name: str) -> Machine:
    if name not in names():
        refuse_several(name, "machine")
        near = did_you_mean(name, names())
        fix = f"{near} " if near else ""
        fix += "turnbuckle machines list names them all; a path to a .toml file also works"
        raise error_of("M001", fix=fix, name=clipped(name))
    return _chained(_places()[name], f"{name}.toml", ())


def _chained(path: Path, called: str, above: tuple[Path, ...]) -> Machine:
    """Read a machine file, and apply it to its base, which is read likewise."""
    machine = read(path, called)
    resolved = path.resolve()
    if machine.chip:
        other = _below(machine.chip, path, called, above, resolved)
        if other.relative:
            raise error_of("M013.chip", where=called, chip=clipped(machine.chip))
        machine = machine.with_chip(other)
    if machine.base in ("", SOURCE):
        return machine
    upon = machine.on(_below(machine.base, path, called, above, resolved))
    return upon if upon.relative else replace(upon, changes=())


def _below(name: str, path: Path, called: str, above: tuple[Path, ...], resolved: Path) -> Machine:
    """Return the machine that a file names as its base or its chip."""
    if resolved in above:
        ring = " -> ".join(p.stem for p in (*above[above.index(resolved) :], resolved))
        raise error_of("M012", where=called, found=clipped(ring))
    if _is_path(name):
        return _chained(path.parent / name, str(Path(called).parent / name), (*above, resolved))
    if name not in names():
        raise error_of("M013.base", where=called, fix=did_you_mean(name, names()) or None, base=clipped(name))
    return _chained(_places()[name], f"{name}.toml", (*above, resolved))


def all_machines() -> list[Machine]:
    """Return every machine of the catalogue, in the order of `names`."""
    return [_named(name) for name in names()]


def recognise(gpu_names: Sequence[str], has_c2c: bool | None = None) -> Machine | None:
    """Return the catalogue's machine behind the device names of a profile, or None where they do not identify one.

    Parameters
    ----------
    gpu_names : name of each device as profilers write it: ``"NVIDIA A100-SXM4-80GB"``.
    has_c2c : whether the recording shows a chip-to-chip link between GPU and host; None if it does not record this.

    Returns
    -------
    None if no name or several different machines are meant, or if `has_c2c` contradicts the name.  The name identifies the GPU
    and its usual host link only; a V100 counts as one behind PCIe, not behind a POWER9's NVLink.  For a slice of a GPU the
    machine has the link, but no numbers of the GPU.  `turnbuckle.machine.device_names` compares names.
    """
    meant = {_by_device().get(device_words(n), "") for n in gpu_names}
    if len(meant) != 1 or "" in meant:
        return None
    machine = _checked(_named(meant.pop()))
    if has_c2c is not None and has_c2c != (machine.coupling == "c2c"):
        return None
    if any(is_slice(n) for n in gpu_names):
        link = {n: p for n, p in machine.parameters.items() if not n.startswith("gpu.")}
        return replace(machine, title=f"a slice of {machine.title}", parameters=link)
    return machine


@cache
def _by_device() -> dict[tuple[str, ...], str]:
    """Return the machines by the words of their devices' names; a name that two machines claim identifies neither."""
    claims: dict[tuple[str, ...], set[str]] = {}
    for name, path in _places().items():
        for device in devices_of(path, f"{name}.toml"):
            claims.setdefault(device_words(device), set()).add(name)
    return {device: claimed.pop() for device, claimed in claims.items() if len(claimed) == 1}


def _is_path(text: str) -> bool:
    return text.endswith(".toml") or "/" in text or "\\" in text
