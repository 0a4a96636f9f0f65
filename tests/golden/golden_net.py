"""The net of golden answers: questions, how they are asked, and how an answer differs from the one
that is kept.

A question is a line of ``questions.txt``, one command of ``turnbuckle`` or several joined by
``&&``.  It is asked in this process, in an empty folder in which ``in`` holds the recordings
(`unpacked`) and ``validation`` is the folder of that name.  Its answer is the exit code, the code
of the error, and what was written: JSON, the cells of a CSV table, or the data of a report's
figures.  What terminals show is not held, but for the verbs of `IN_WORDS`.

``answers`` keeps one file for each verb: JSON with sorted keys, packed with xz where it is long.
Floating-point numbers are kept with 12 digits and must agree to `TOLERANCE`; everything else must
be equal.  What changes by nature (`CHANGING`) is left out.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import gzip
import io
import json
import lzma
import math
import os
import re
import shlex
import shutil
import sys
import tarfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
QUESTIONS = FOLDER / "questions.txt"
ANSWERS = FOLDER / "answers"
INPUTS = FOLDER / "inputs.tar.xz"

#: Relative difference of two floating-point numbers that are one answer.
TOLERANCE = 1e-9
#: Absolute difference that is none: what is left of numbers near 1 that cancel.
SMALL = 1e-15
#: Keys of numbers that are differences of larger ones, or sums that come back to zero, and the
#: absolute difference that is none there.
CANCELLING = ("from", "to", "end", "off_the_affine_law")
CANCELLED = 1e-9
#: Most differences that a message lists.
SHOWN = 20
#: Longer files are packed [bytes].
PLAIN = 20_000
#: Ends of paths in an answer that lead to what changes by nature: with a release, a day, or the
#: words of the command.
CHANGING = (
    ("provenance", "version"),
    ("provenance", "command"),
    ("args", "tool"),
    ("date",),
    ("version",),
)
LAST = {end[-1] for end in CHANGING}
#: Checks of ``doctor`` that look at the installation.
INSTALLATION = ("turnbuckle", "native core", "libraries", "machine catalogue", "cache", "terminal")
#: Commands that answer in words alone.
IN_WORDS = ("machines check", "sweep --settings")
#: Verbs that no question can ask, and why.
NOT_ASKED = {
    "record": (
        "needs a GPU, or a compiler and a stand-in for one; what its recordings hold is asked of "
        "those in the inputs"
    ),
    "mcp": "speaks a protocol; its answers are those of the other verbs (tests/cli/test_agents.py)",
}
#: Verbs that consist of others.
GROUPS = ("machines", "model")
#: Questions that take long, or whose answer is a report, a recording or a table of many runs;
#: ``make check`` leaves them to ``make test``.
SLOW = re.compile(
    r"^(report|demo|anonymise|merge|sweep|validate|reproduce|machines) |overview in/(milc|managed|unhealthy)"
    r"|--(charts|study|published|repeats|by-size) |Minisweep|--mode api --(draws|slack)|model cxl"
    r"|export in/|slack in/milc|project in/(milc|managed|unhealthy|ranks)|project in/dgemm.sqlite --format"
)
#: What a terminal or a user may set.
TERMINAL = {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}

Answer = dict[str, Any]


# --- questions ------------------------------------------------------------------------------------


def verbs() -> set[str]:
    """Return every verb of the command line, those of a group as ``model sharing``."""
    from turnbuckle.cli.app import app

    def named(group: Any) -> list[str]:
        return [name for name in group if not name.startswith("-")]

    return {v for v in named(app) if v not in GROUPS} | {
        f"{group} {v}" for group in GROUPS for v in named(app[group])
    }


def verb_of(question: str) -> str:
    """Return the verb of a question, that of its first command."""
    first, *rest = question.split()
    return f"{first} {rest[0]}" if first in GROUPS else first


def questions() -> list[str]:
    """Read all questions.  A line ``NAME = WORDS`` names a list; a question with ``{NAME}`` is
    asked of each of its words.
    """
    lists: dict[str, list[str]] = {}
    out: list[str] = []
    for line in QUESTIONS.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if definition := re.fullmatch(r"(\w+) = (.+)", line):
            lists[definition[1]] = [
                w for word in definition[2].split() for w in lists.get(word.strip("{}"), [word])
            ]
            continue
        found = re.search(r"\{(\w+)\}", line)
        out += [line.replace(found[0], word) for word in lists[found[1]]] if found else [line]
    return out


# --- asking ---------------------------------------------------------------------------------------


def unpacked(place: Path) -> Path:
    """Write the inputs into a new folder: those packed, the samples that ship, and the recordings
    of messages.  Return the folder.
    """
    place.mkdir()
    with tarfile.open(INPUTS) as archive:
        archive.extractall(place, filter="data")
    for path in (ROOT / "src" / "turnbuckle" / "examples").glob("*-like-synthetic.sqlite"):
        shutil.copyfile(path, place / path.name.replace("-like-synthetic", ""))
    shutil.copyfile(ROOT / "src" / "turnbuckle" / "examples" / "jobs.toml", place / "jobs.toml")
    for packed in (ROOT / "validation" / "cases" / "message_delay" / "recordings").rglob(
        "rank-*.txt.xz"
    ):
        folder = place / "messages" / packed.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
    return place


def ask(question: str, inputs: Path, place: Path) -> Answer:
    """Ask a question in a new folder `place`, and return its answer; of several commands, that of
    the last, and the exit codes of all.
    """
    place.mkdir()
    (place / "in").symlink_to(inputs)
    (place / "validation").symlink_to(ROOT / "validation")
    before = Path.cwd()
    terminal = {**TERMINAL, "XDG_CACHE_HOME": str(inputs.parent / "cache")}
    with mock.patch.dict(os.environ, terminal):
        os.chdir(place)
        try:
            answers = [_asked(shlex.split(command), place) for command in question.split(" && ")]
        finally:
            os.chdir(before)
    text = json.dumps(
        answers[-1] | ({"exits": [a["exit"] for a in answers]} if len(answers) > 1 else {}),
        default=str,
    )
    for folder in (str(place), str(inputs.parent), str(ROOT)):
        text = text.replace(folder, "")
    return dict(steady(json.loads(text)))


def _asked(words: Sequence[str], place: Path) -> Answer:
    from turnbuckle.cli import run

    there = {p for p in place.iterdir()}
    out, err = _stream(), _stream()
    with (
        mock.patch.object(sys, "argv", ["turnbuckle", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = run.run(words)
        except SystemExit as stop:
            code = int(stop.code or 0)
    answer: Answer = {"exit": code}
    if error := re.search(r"error\[(\w+)\]", _text(err)):
        answer["error"] = error[1]
    said = _text(out)
    if said.startswith(("{", "[")):
        answer["json"] = json.loads(said)
    elif "csv" in words and said:
        answer["table"] = _table(said)
    elif said.startswith("//"):
        answer["records"] = _records(said)
    elif " ".join(words[:2]) in IN_WORDS:
        answer["words"] = said.split("\n")
    written = {
        p.name: content
        for p in sorted(set(place.iterdir()) - there)
        if (content := _written(p)) is not None
    }
    return answer | ({"written": written} if written else {})


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8", "replace")


def _written(path: Path) -> Any:
    """Return what a file holds, or a folder of figures; None for what only people read, and for
    recordings.
    """
    if path.is_dir():
        return {
            p.name: content
            for p in sorted(path.iterdir())
            if p.is_file() and (content := _written(p)) is not None
        } or None
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))
    if path.name.endswith(".json.gz"):
        return json.loads(gzip.decompress(path.read_bytes()))
    if path.suffix == ".goal":
        return _records(path.read_text(encoding="ascii"))
    if path.suffix == ".et":
        return _messages(path)
    if path.suffix == ".csv":
        return _table(path.read_text(encoding="utf-8"))
    if path.suffix == ".parquet":
        import polars as pl

        return pl.read_parquet(path).to_dict(as_series=False)
    if path.suffix == ".toml":
        return tomllib.loads(path.read_text(encoding="utf-8"))
    if path.suffix == ".html":
        data = re.search(
            r'<script type="application/json" id="figure-data">"(.*?)"</script>',
            path.read_text(encoding="utf-8"),
            re.DOTALL,
        )
        figures = json.loads(gzip.decompress(base64.b64decode(data[1]))) if data else {}
        return {name: figure | {"csv": _table(figure["csv"])} for name, figure in figures.items()}
    return None


def _records(text: str) -> dict[str, Any]:
    """Return how many records of each kind a schedule has, and the seconds of those that
    last.
    """
    kinds: Counter[str] = Counter()
    nanoseconds = 0
    for line in text.splitlines():
        if goal := re.match(r"\w+: (calc|send|recv) (\d+)|\w+ (requires)", line):
            kinds[goal[1] or goal[3]] += 1
            nanoseconds += int(goal[2]) if goal[1] == "calc" else 0
        else:
            kinds["other"] += 1
    # as a fraction, so that numbers of another machine may differ in their last nanosecond
    return dict(sorted(kinds.items())) | {"seconds": nanoseconds * 1e-9}


def _messages(path: Path) -> dict[str, int]:
    """Return how many messages a file of protobuf has."""
    from turnbuckle.trace.readers.chakra import wire

    content = path.read_bytes()
    return {"messages": sum(1 for _ in wire.Messages(iter([content])))}


def _table(text: str) -> dict[str, list[Any]]:
    """Return the columns of a CSV table, numbers as numbers."""
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("#")]
    head, *rows = [*csv.reader(lines)] or [[]]
    return {name: [_cell(row[k]) for row in rows] for k, name in enumerate(head)}


def _cell(text: str) -> Any:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


# --- comparing ------------------------------------------------------------------------------------


def steady(value: Any, path: tuple[str, ...] = ()) -> Any:
    """Return an answer without what changes by nature, floating-point numbers with 12 digits."""
    if isinstance(value, dict):
        if path[-1:] == ("checks[]",) and value.get("what") in INSTALLATION:
            return {k: v for k, v in value.items() if k != "detail"}
        return {
            k: steady(v, (*path, k))
            for k, v in value.items()
            if k not in LAST or not any((*path, k)[-len(e) :] == e for e in CHANGING)
        }
    if isinstance(value, list):
        return [steady(v, (*path[:-1], f"{path[-1] if path else ''}[]")) for v in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value


def differences(was: Any, now: Any, path: str = "") -> Iterator[str]:
    """Compare two answers key by key and yield each difference as ``path: was X, is Y``."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in sorted(was.keys() | now.keys()):
            place = f"{path}.{key}" if path else key
            if key not in now:
                yield f"{place}: was {_short(was[key])}, is gone"
            elif key not in was:
                yield f"{place}: was not there, is {_short(now[key])}"
            else:
                yield from differences(was[key], now[key], place)
    elif isinstance(was, list) and isinstance(now, list):
        if len(was) != len(now):
            yield f"{path}: was {len(was)} entries, is {len(now)}"
        for k, (a, b) in enumerate(zip(was, now, strict=False)):
            yield from differences(a, b, f"{path}[{k}]")
    elif not same(
        was, now, CANCELLED if re.sub(r".*\.|\[\d+\]", "", path) in CANCELLING else SMALL
    ):
        yield f"{path}: was {_short(was)}, is {_short(now)}"


def same(was: Any, now: Any, small: float = SMALL) -> bool:
    """Say whether two values are one: numbers within `TOLERANCE`, or `small`, where one has a
    point; all else if equal.
    """
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (was, now))
    if numbers and (isinstance(was, float) or isinstance(now, float)):
        return math.isclose(was, now, rel_tol=TOLERANCE, abs_tol=small)
    return type(was) is type(now) and bool(was == now)


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}..."


def message(question: str, found: Sequence[str]) -> str:
    """Say how an answer differs: the first `SHOWN` differences and how many more there are."""
    more = [f"  and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return "\n".join([question, *(f"  {line}" for line in found[:SHOWN]), *more])


# --- keeping --------------------------------------------------------------------------------------


def file_of(verb: str) -> Path:
    """Return where the answers of a verb are kept: packed, or plain."""
    plain = ANSWERS / f"{verb.replace(' ', '-')}.json"
    packed = plain.with_suffix(".json.xz")
    return packed if packed.exists() else plain


def kept(verb: str) -> dict[str, Answer]:
    """Read the kept answers of a verb, by question."""
    path = file_of(verb)
    if not path.exists():
        return {}
    content = path.read_bytes()
    return dict(json.loads(lzma.decompress(content) if path.suffix == ".xz" else content))


def keep(verb: str, answers: dict[str, Answer]) -> None:
    """Write the answers of a verb; a file that holds them already stays as it is."""
    if answers == kept(verb):
        return
    content = (json.dumps(answers, sort_keys=True, indent=0, ensure_ascii=False) + "\n").encode()
    plain = ANSWERS / f"{verb.replace(' ', '-')}.json"
    packed = plain.with_suffix(".json.xz")
    plain.unlink(missing_ok=True)
    packed.unlink(missing_ok=True)
    if len(content) <= PLAIN:
        plain.write_bytes(content)
    else:
        packed.write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))


@cache
def kept_once(verb: str) -> dict[str, Answer]:
    return kept(verb)


def hold(question: str, now: Answer, verb: str = "") -> None:
    """Fail where an answer is not the kept one."""
    was = kept_once(verb or verb_of(question)).get(question)
    assert was is not None, f"{question}: no answer is kept; `make golden` adds it"
    # at once; types count as they do one by one
    if json.dumps(was, sort_keys=True) == json.dumps(now, sort_keys=True):
        return
    found = list(differences(was, now))
    assert not found, (
        f"{message(question, found)}\n`make golden` renews what is kept, if the change is meant"
    )
