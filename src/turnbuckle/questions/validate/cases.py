"""Validation cases: a prediction from one recording or measurement, and what was measured
elsewhere.

A case is a folder with a file ``case.toml``::

    title = "CloverLeaf's copies, from PCIe 4 to PCIe 5"
    known = "the link's generation; nothing of the copies on B"    # what was known before, besides A
    why = "two devices share one root port"                        # why it is wrong where it is
    waits = "a GPU whose calls can be delayed"                     # only where the answer is still to be measured

    [a]                                    # what the prediction is made from
    what = "CloverLeaf, A100-SXM4-80GB"
    file = "nsys/run.sqlite"               # under the data folder; "./run.csv" lies beside the case
    machine = "a100-sxm4-80"               # where the recording does not tell

    [b]                                    # the answer
    what = "an LLM workload on two H100"
    file = "nsys/other.sqlite"

    [[measured]]                           # or answers as numbers
    what = "managed copies to the device"
    value = "48.3 ms"
    source = "nvprof's summary"

    [[ask]]                                # one question and the model that answers it; keys by model: `ASKS`
    model = "datasheet"
    on = "pcie5-x16"

Nothing is guessed:

    A416  no such case, or no case in the folder
    A417  not TOML, an unknown or missing key, a value that cannot be
    A418  a path that leaves the data folder or the case
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from turnbuckle.foundation.errors import clipped, did_you_mean, error_of
from turnbuckle.foundation.table_file import read_text
from turnbuckle.foundation.toml_text import TomlReading
from turnbuckle.foundation.units import parse
from turnbuckle.trace.window import Part

FILE: Final = "case.toml"
#: Keys of a question by the model that answers it, and what each must be: ``text``, ``words`` (a
#: list), ``count`` or a unit.
ASKS: Final[dict[str, dict[str, str]]] = {
    "datasheet": {"on": "text", "host_memory": "B/s", "device_memory": "B/s", "copied_size": "B"},
    "machine": {"on": "text", "host_memory": "B/s", "device_memory": "B/s", "copied_size": "B"},
    "line": {
        "direction": "text",
        "memory": "text",
        "from_direction": "text",
        "from_memory": "text",
        "up_to": "B",
        "group": "text",
        "on_other": "text",
    },
    "slack": {"iterations": "count"},
    "distance": {"measured": "text"},
    "published": {"measured": "text"},
    "message delay": {"measured": "text", "network": "text"},
    "sharing": {"measured": "text", "cores": "count"},
    "remoting": {"layer": "text", "measured": "text"},
    "projection": {"on": "text", "alpha": "text"},
    "kernels": {"rows": "words", "of": "text"},
    "table": {"measured": "text"},
    "variant": {
        "states": "words",
        "phase": "count",
        "removed": "text",
        "other": "text",
        "sizes": "words",
    },
    "counts": {"variants": "words"},
    "repeat": {"others": "words"},
    "rate": {"on": "text"},
}
#: Questions that a part of a recording answers.
_OF_PARTS: Final = ("projection", "slack", "counts", "repeat")
_SIDE: Final = {"what": "text", "file": "text", "machine": "text", "part": "text"}
_MEASURED: Final = {
    **dict.fromkeys(("what", "value", "source", "direction", "file"), "text"),
    "count": "count",
    "size": "B",
    "delay": "s",
}
_TOP: Final = {
    "title": "text",
    "known": "text",
    "why": "text",
    "waits": "text",
    "blind": "text",
    "weak": "text",
}
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,79}")
_TEXT = 1500


@dataclass(frozen=True)
class Side:
    """One of the two ends of a case.

    Attributes
    ----------
    what : in words; empty where not given, as the others.
    file : relative, with ``/``.
    machine : a name, or a file beside the case.
    part : of the recording, as ``--part`` names it.
    """

    what: str = ""
    file: str = ""
    machine: str = ""
    part: str = ""


@dataclass(frozen=True)
class Number:
    """One answer as a number.

    Attributes
    ----------
    what : in words.
    value : the measured value as written, with unit; its unit follows from the question.
    source : who measured it, where it stands.
    direction : of copies, or of the rate.
    count, size_bytes : how many copies, of how many bytes in all; 0 where they do not apply.
    delay : of every boundary call in the run that was measured [s]; 0 without.
    file : where the number stands, under the data folder; empty for a printed source.
    """

    what: str
    value: str
    source: str
    direction: str = ""
    count: int = 0
    size_bytes: float = 0.0
    delay: float = 0.0
    file: str = ""


@dataclass(frozen=True)
class Ask:
    """One question: the model that answers it, and its keys."""

    model: str
    given: Mapping[str, Any]

    def text(self, key: str) -> str:
        """Return a word of the question; empty where it is not given."""
        return str(self.given.get(key, ""))

    def number(self, key: str) -> float | None:
        """Return a quantity of the question [SI], or None."""
        value = self.given.get(key)
        return None if value is None else float(value)

    def words(self, key: str) -> tuple[str, ...]:
        """Return a list of the question."""
        return tuple(self.given.get(key, ()))


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes
    ----------
    name, folder : of the folder that holds it.
    title, known, why : in words: what is compared, what was known before besides A, why it is wrong
        where it is.
    waits : what its measurement waits for; empty where there is one.
    a, b : what the prediction is made from, and the answer.
    measured : answers as numbers.
    asks : the questions.
    blind : version and day of the prediction, where it was made before the answer was opened; else
        empty.
    weak : why it proves less than it seems to; empty where it does not.
    """

    name: str
    folder: Path
    title: str
    known: str
    why: str
    waits: str
    a: Side
    b: Side
    measured: tuple[Number, ...]
    asks: tuple[Ask, ...]
    blind: str = ""
    weak: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """Return every file that its questions read, once."""
        more = [w for ask in self.asks for key in ("variants", "others") for w in ask.words(key)]
        more += [ask.text(key) for ask in self.asks for key in ("other", "measured")]
        return tuple(
            dict.fromkeys(
                f for f in (self.a.file, self.b.file, *(n.file for n in self.measured), *more) if f
            )
        )

    def place(self, file: str, data: Path | None) -> Path | None:
        """Return the path of a file of this case; None if it needs a data folder and there is none.

        ``*`` in its last part stands for anything, if exactly one file fits.
        """
        place = (
            self.folder / file[2:]
            if file.startswith("./")
            else None
            if data is None
            else data / file
        )
        if place is None or "*" not in place.name:
            return place
        fit = sorted(place.parent.glob(place.name))
        return fit[0] if len(fit) == 1 else place

    def missing(self, data: Path | None) -> tuple[str, ...]:
        """Return the files that do not exist; a file inside an archive counts as there if the
        archive is.
        """
        places = {f: self.place(f, data) for f in self.files}
        return tuple(
            f
            for f, place in places.items()
            if place is None or not Path(_outside(str(place))).exists()
        )


def _outside(path: str) -> str:
    """Return the file on disk of a path that may lead into an archive (``x.tar.gz::y``) or name a
    part (``x.txt#2``).
    """
    return re.sub(r"#[0-9]{1,4}$", "", path.partition("::")[0])


def find(words: Sequence[str], root: Path) -> list[Case]:
    """Return the cases named, or all cases of a folder.

    Parameters
    ----------
    words : names of cases below `root`, folders of a case, or folders of cases; none is all of
        `root`.
    root : the folder of cases.

    Raises
    ------
    UsageError : A416, A417, A418, A061.
    """
    if not words:
        cases = _inside(root)
        if not cases:
            raise error_of(
                "A416.folder",
                where=str(root),
                found="no such folder" if not root.is_dir() else "no folder with case.toml",
            )
        return cases
    out: dict[Path, Case] = {}
    for word in words:
        folder = next((p for p in (Path(word), root / word) if _is_case(p)), None)
        cases = [read_case(folder)] if folder else _inside(Path(word))
        if not cases:
            names = [c.name for c in sorted(root.iterdir()) if _is_case(c)] if root.is_dir() else []
            raise error_of(
                "A416.name" if names else "A416.alone",
                where=clipped(str(root)),
                fix=did_you_mean(word, names) or None,
                word=clipped(word),
                known=", ".join(names[:8]),
            )
        out |= {case.folder.resolve(): case for case in cases}
    return list(out.values())


def _is_case(folder: Path) -> bool:
    try:
        return (folder / FILE).is_file()
    except (OSError, ValueError):
        return False


def _inside(root: Path) -> list[Case]:
    try:
        folders = sorted(p for p in root.iterdir() if _is_case(p))
    except (OSError, ValueError):
        return []
    return [read_case(folder) for folder in folders]


def read_case(folder: Path) -> Case:
    """Read one case.

    Raises
    ------
    UsageError : A061 where its file cannot be read; A417, A418 with file:line:column.
    """
    text = read_text(
        folder / FILE, "the case", largest_bytes=1 << 20, fix="give a TOML file in UTF-8"
    )
    return _Reading(folder, text).case()


def clusters(cases: Sequence[Case]) -> dict[str, str]:
    """Return the cluster of each case: cases that share a recording, or that were made on one
    machine of their own, may err together.

    A cluster is called by what most of its cases share, and a case that shares nothing by its own
    name.
    """
    shared: dict[str, list[str]] = {}
    for case in cases:
        machines = [
            side.machine
            for side in (case.a, case.b)
            if side.machine.startswith("./") and (case.folder / side.machine).is_file()
        ]
        machine_files = [
            f"machine {read_text(case.folder / m, 'the machine of a case')}" for m in machines
        ]
        for what in [*(f for f in case.files if not f.startswith("./")), *machine_files]:
            shared.setdefault(what, []).append(case.name)
    of = {case.name: case.name for case in cases}
    for what, names in sorted(shared.items(), key=lambda item: -len(item[1])):
        title = re.search(r'^name = "(.+)"', what, re.MULTILINE)
        label = (
            (title[1] if title else Path(what.partition("::")[0]).parent.name)
            if len(names) > 1
            else names[0]
        )
        joined = dict.fromkeys(of[name] for name in names)
        kept = next((c for c in joined if c not in names), label)
        of |= {name: kept for name, cluster in of.items() if cluster in joined}
    return of


class _Reading(TomlReading):
    """One case file being read.  The first of tables that stand several times has a position, for
    all of them.
    """

    code = "A417"

    def __init__(self, folder: Path, text: str) -> None:
        self.folder, self.name = folder, folder.resolve().name
        super().__init__(f"{self.name}/{FILE}", text)

    def case(self) -> Case:
        if not _NAME.fullmatch(self.name):
            raise error_of("A417.name", where=clipped(self.name))
        top = {k: v for k, v in self.document.items() if k not in ("a", "b", "measured", "ask")}
        about = self._table((), top, _TOP, ("title",), ("a", "b", "measured", "ask"))
        waits = str(about.get("waits", ""))
        a, b = (Side(**self._table((k,), self._single(k), _SIDE, ())) for k in ("a", "b"))
        numbers = tuple(map(self._number, self._several("measured")))
        asks = tuple(map(self._ask, self._several("ask")))
        if not asks and not waits:
            raise self._flaw("A417.nothing", ())
        if asks and not a.file and any(ask.model not in ("rate", "table") for ask in asks):
            raise self._flaw("A417.source", ("a",))
        self._parts(a, b, asks)
        known, why, blind, weak = (
            str(about.get(key, "")) for key in ("known", "why", "blind", "weak")
        )
        case = Case(
            self.name,
            self.folder,
            about["title"],
            known,
            why,
            waits,
            a,
            b,
            numbers,
            asks,
            blind,
            weak,
        )
        for file in case.files:
            self._stays(file)
        self._can_fail(case)
        return case

    def _parts(self, a: Side, b: Side, asks: Sequence[Ask]) -> None:
        """Refuse a part that is none, and one of a question that is asked of whole files."""
        for key, side in (("a", a), ("b", b)):
            if side.part and (whole := [ask.model for ask in asks if ask.model not in _OF_PARTS]):
                raise self._flaw(
                    "A417.part", (key, "part"), found=whole[0], models=", ".join(_OF_PARTS)
                )
            if side.part:
                Part.parse(side.part)

    def _can_fail(self, case: Case) -> None:
        """Refuse a prediction made from its own answer, because it shows nothing."""
        self_answered = not case.b.file or case.b.file == case.a.file
        lines = [
            ask for ask in case.asks if ask.model == "line" and self_answered and not case.measured
        ]
        closed = [
            ask
            for ask in lines
            if not any(ask.given.get(k) for k in ("up_to", "from_direction", "from_memory"))
        ]
        if closed or (
            case.b.file
            and case.b.file == case.a.file
            and any(ask.model not in ("line", "rate") for ask in case.asks)
        ):
            raise self._flaw(
                "A417.answer", ("b",) if case.b.file else (), found=case.b.file or case.a.file
            )

    def _stays(self, file: str) -> None:
        path = PurePosixPath(file.partition("::")[0])
        if (
            path.is_absolute()
            or ".." in path.parts
            or "**" in file
            or "\\" in file
            or "\0" in file
            or re.match(r"[A-Za-z]:", file)
        ):
            raise error_of("A418", where=self.file, found=clipped(file))

    def _number(self, table: dict[str, Any]) -> Number:
        given = self._table(("measured",), table, _MEASURED, ("what", "value", "source"))
        size = given.pop("size", 0.0)
        return Number(**given, size_bytes=size)

    def _ask(self, table: dict[str, Any]) -> Ask:
        model = table.get("model")
        if not isinstance(model, str) or model not in ASKS:
            raise self._flaw(
                "A417.model",
                ("ask",),
                found=str(model),
                fix=did_you_mean(str(model), ASKS) or None,
                asks=", ".join(ASKS),
            )
        given = self._table(
            ("ask",), {k: v for k, v in table.items() if k != "model"}, ASKS[model], ()
        )
        return Ask(model, given)

    def _single(self, key: str) -> dict[str, Any]:
        table = self.document.get(key, {})
        if not isinstance(table, dict):
            raise self._flaw("A417.table", (key,), key=key)
        return table

    def _several(self, key: str) -> list[dict[str, Any]]:
        tables = self.document.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
            raise self._flaw("A417.tables", (key,), key=key)
        return tables

    def _table(
        self,
        place: tuple[str, ...],
        table: dict[str, Any],
        keys: Mapping[str, str],
        needed: Sequence[str],
        tables: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return a table's values by key; refuse unknown keys, missing keys and values of another
        kind.
        """
        self._keys(place, table, (*keys, *tables))
        out = {key: self._value((*place, key), value, keys[key]) for key, value in table.items()}
        for key in needed:
            if key not in out:
                raise self._flaw("A417.needed", place, key=key)
        return out

    def _value(self, place: tuple[str, ...], value: Any, kind: str) -> Any:
        if kind == "count":
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 10**12:
                raise self._flaw("A417.count", place, found=str(value), key=place[-1])
            return value
        if kind == "words":
            if (
                not isinstance(value, list)
                or not 1 <= len(value) <= 64
                or not all(isinstance(v, str) and v for v in value)
            ):
                raise self._flaw("A417.list", place, found=str(value), key=place[-1])
            return tuple(value)
        if not isinstance(value, str) or not 0 < len(value) <= _TEXT:
            raise self._flaw("A417.text", place, found=str(value), key=place[-1])
        if kind == "text":
            return " ".join(value.split())
        number = self._located(place, lambda: parse(value, kind))
        if not 0 < number <= 1e18:
            raise self._flaw("A417.large", place, found=value, key=place[-1])
        return number
