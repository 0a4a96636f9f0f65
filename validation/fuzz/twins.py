"""Twins: the same run said in another way, which every verb must answer alike.

    python validation/fuzz/twins.py [RECORDING ...]      # the samples that ship, and one of each other format, if none is named

Rows in another order, a clock that began later, other correlation numbers, other numbers of
contexts and streams: of SQLite exports of Nsight Systems, Chrome traces of PyTorch, and databases
and JSON of rocprof.  Numbers and findings of both answers are compared; names and digests may
differ.  Exit 1 if an answer differs.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from invariants import broken, number, objects
from seeds import build

EXAMPLES = Path(__file__).resolve().parents[2] / "src" / "turnbuckle" / "examples"
VERBS = (
    ("inspect",),
    ("doctor",),
    ("project", "--on", "self,gh200,cdi-row-link", "--draws", "20"),
    ("slack", "--draws", "10"),
    ("whatif",),
    ("transfers", "--on", "pcie5-x16"),
    ("suite", "--on", "gh200", "--draws", "10"),
    (
        "sweep",
        "--model",
        "project",
        "--axis",
        "on=gh200,cdi-row-link",
        "--draws",
        "10",
        "--workers",
        "1",
    ),
)
#: Other formats that have twins, and the file of each that is one.
FORMATS = (("kineto", ".json"), ("rocprofv3", ".json"), ("rocpd", ".db"), ("rocprof", ".db"))
#: Times of the two answers may differ by what sums in another order do.
NEAR = 1e-6
#: Keys that hold digests, names, sizes of the file, and places in it.
FREE = {
    "provenance",
    "findings",
    "sha256",
    "size_bytes",
    "name",
    "places",
    "rows",
    "detail",
    "facts",
    "started",
    "session",
}
#: Rows that are not in the order of time are a finding of their own.
OF_ORDER = "P114"
CLOCK = {"start", "end", "timestamp", "rawTimestamp", "BeginNs", "EndNs"}
CORRELATION = {"correlationId", "correlation_id", "stack_id", "parent_stack_id", "Index"}
#: A number that stands for every stream.
_EVERY = (1 << 32) - 1
NUMBERS = {"contextId", "streamId", "oldContextId", "queue-id"}
#: The same in JSON of rocprofv3, and in a Chrome trace; there a flow has the number of its call,
#: and a stream is its thread.
JSON_CLOCK = {"start_timestamp", "end_timestamp", "ts"}
JSON_CORRELATION = {"internal", "correlation", "dispatch_id"}
JSON_NUMBERS = {"stream_id", "queue_id", "stream", "context"}
#: Tables that describe a machine, a session or the words of the others, and hold no event.
_NO_EVENTS = (
    "TARGET_INFO",
    "META",
    "ANALYSIS",
    "ENUM",
    "rocpd_info",
    "rocpd_metadata",
    "rocpd_string",
)


def shuffled(database: sqlite3.Connection, chance: random.Random) -> None:
    """Write the rows of every table in another order."""
    for table, _ in tables(database):
        rows = database.execute(f'SELECT * FROM "{table}"').fetchall()
        chance.shuffle(rows)
        database.execute(f'DELETE FROM "{table}"')
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            database.executemany(f'INSERT INTO "{table}" VALUES ({marks})', rows)


def later(database: sqlite3.Connection, chance: random.Random) -> None:
    """Let the clock begin later."""
    _add(database, CLOCK, chance.randrange(1, 10**12))


def renumbered(database: sqlite3.Connection, chance: random.Random) -> None:
    """Give calls and their work other correlation numbers."""
    _add(database, CORRELATION, chance.randrange(1, 10**6))


def streams_renamed(database: sqlite3.Connection, chance: random.Random) -> None:
    """Give contexts and streams other numbers."""
    _add(database, NUMBERS, chance.randrange(1, 1000))


def json_shuffled(document: Any, chance: random.Random) -> None:
    """Bring the events of every list in another order."""
    for events in event_lists(document):
        chance.shuffle(events)


def json_later(document: Any, chance: random.Random) -> None:
    """Let the clock begin later."""
    _raise(document, JSON_CLOCK, chance.randrange(1, 10**6), least=0)


def json_renumbered(document: Any, chance: random.Random) -> None:
    """Give calls, their work and the arrows between them other correlation numbers."""
    amount = chance.randrange(1, 10**6)
    _raise(document, JSON_CORRELATION, amount)
    for events in event_lists(document):
        _raise([event for event in events if event.get("cat") == "ac2g"], {"id"}, amount)


def json_streams_renamed(document: Any, chance: random.Random) -> None:
    """Give contexts and streams other numbers."""
    amount = chance.randrange(1, 1000)
    _raise(document, JSON_NUMBERS, amount)
    for events in event_lists(document):
        _raise([event for event in events if "stream" in event.get("args", {})], {"tid"}, amount)


#: What each way does to a database, and to a JSON document.
WAYS: dict[
    str,
    tuple[
        Callable[[sqlite3.Connection, random.Random], None], Callable[[Any, random.Random], None]
    ],
] = {
    "rows shuffled": (shuffled, json_shuffled),
    "clock moved": (later, json_later),
    "ids renumbered": (renumbered, json_renumbered),
    "contexts and streams renamed": (streams_renamed, json_streams_renamed),
}


def event_lists(document: Any) -> Iterator[list[Any]]:
    """Yield the lists of events of a Chrome trace, or of the processes of rocprofv3."""
    if "traceEvents" in document:
        yield document["traceEvents"]
    for process in document.get("rocprofiler-sdk-tool", ()):
        yield from (
            events for events in process["buffer_records"].values() if isinstance(events, list)
        )


def _raise(value: Any, keys: set[str], amount: int, least: int = 1) -> None:
    """Add an amount to the numbers of some keys, wherever they stand; what is below `least` stands
    for none.
    """
    if isinstance(value, list):
        for each in value:
            _raise(each, keys, amount, least)
    elif isinstance(value, dict):
        for key, inside in value.items():
            if key in keys and isinstance(inside, dict) and "handle" in inside:
                _raise(inside, {"handle"}, amount, least)
            elif key in keys and number(inside) and inside >= least:
                value[key] = inside + amount
            else:
                _raise(inside, keys, amount, least)


def tables(database: sqlite3.Connection) -> list[tuple[str, list[str]]]:
    """Return each table with its columns."""
    names = [
        name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    ]
    return [
        (name, [row[1] for row in database.execute(f'PRAGMA table_info("{name}")')])
        for name in names
    ]


def _add(database: sqlite3.Connection, columns: set[str], amount: int) -> None:
    for table, there in tables(database):
        if not table.startswith(_NO_EVENTS):
            times = {"value"} if columns is CLOCK and table.startswith("rocpd_timestamp") else set()
            for column in (columns | times).intersection(there):
                kept = f' WHERE "{column}" < {_EVERY}' if columns is NUMBERS else ""
                database.execute(f'UPDATE "{table}" SET "{column}" = "{column}" + {amount}{kept}')


def twin(recording: Path, way: str, place: Path, seed: int = 1) -> Path:
    """Write the twin of a recording into a folder, by the same name, and return its path."""
    place.mkdir(parents=True)
    path, chance = place / recording.name, random.Random(f"{seed}:{way}")
    of_database, of_json = WAYS[way]
    if recording.suffix == ".json":
        document = json.loads(recording.read_text(encoding="utf-8"))
        of_json(document, chance)
        path.write_text(json.dumps(document), encoding="utf-8")
        return path
    shutil.copyfile(recording, path)
    with closing(sqlite3.connect(path)) as database, database:
        of_database(database, chance)
    return path


def samples(place: Path) -> list[Path]:
    """Return the samples that ship, and one recording of each other format that has twins, built
    into a folder.
    """
    made = [seed for name, _ in FORMATS for seed in build(place / name, real=None, only=name)]
    kept = [
        seed.folder / seed.anchor
        for seed in made
        if (seed.format, Path(seed.anchor).suffix) in FORMATS
    ]
    return [*sorted(EXAMPLES.glob("*.sqlite")), *kept]


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each number, truth value, null and code of an answer with the keys that lead to it."""
    if isinstance(value, dict):
        for key, inside in value.items():
            if key not in FREE:
                yield from leaves(inside, f"{place}.{key}")
    elif isinstance(value, list):
        for k, inside in enumerate(value):
            yield from leaves(inside, f"{place}[{k}]")
    elif not isinstance(value, str) or place.endswith((".code", ".verdict", ".state")):
        yield place, value


def differences(one: str, other: str) -> list[str]:
    """Return where two answers differ, a sentence each."""
    here, there = (_compared(json.loads(text)) for text in (one, other))
    out = [f"{place} is in one answer only" for place in here.keys() ^ there.keys()]
    for place in here.keys() & there.keys():
        a, b = here[place], there[place]
        alike = a == b or (
            number(a) and number(b) and abs(a - b) <= NEAR * max(abs(a), abs(b), 1e-6)
        )
        if not alike:
            out.append(f"{place} is {a} and {b}")
    return sorted(out)


def _compared(document: dict[str, Any]) -> dict[str, Any]:
    """Return what is compared of an answer: its numbers, and how often each finding counts."""
    found = {
        f["code"]: f["count"] for _, held in objects(document) for f in held.get("findings") or ()
    }
    return dict(leaves(document)) | {
        f"finding {code}": count for code, count in found.items() if code != OF_ORDER
    }


def answer(recording: Path, verb: Sequence[str]) -> tuple[int, str]:
    """Return the exit code of a verb, and the JSON that it prints."""
    words = [
        sys.executable,
        "-m",
        "turnbuckle",
        verb[0],
        str(recording),
        *verb[1:],
        "--format",
        "json",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def main(words: Sequence[str] | None = None) -> int:
    """Ask every verb of each recording and of its twins, and print what differs."""
    reading = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reading.add_argument("recordings", nargs="*", type=Path)
    reading.add_argument("--seed", type=int, default=1)
    given = reading.parse_args(words)
    asked = failed = 0
    with tempfile.TemporaryDirectory(prefix="turnbuckle-twins-") as folder:
        for number_of, recording in enumerate(
            given.recordings or samples(Path(folder) / "samples")
        ):
            paths = {
                way: twin(recording, way, Path(folder) / f"{number_of} {way}", given.seed)
                for way in WAYS
            }
            for verb in VERBS:
                code, text = answer(recording, verb)
                flaws = [(verb, "as recorded", flaw) for flaw in (broken(text) if not code else [])]
                for way, path in paths.items():
                    other, twins = answer(path, verb)
                    found = (
                        [f"exit code {code} and {other}"]
                        if code != other
                        else differences(text, twins)
                        if not code
                        else []
                    )
                    flaws += [(verb, way, flaw) for flaw in found[:5]]
                asked += 1 + len(paths)
                failed += bool(flaws)
                for words_of, way, flaw in flaws:
                    print(f"{recording.name}: {' '.join(words_of)}: {way}: {flaw}")
    print(f"twins: {asked} answers, {failed} questions with a difference")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
