"""A record of the injected library (``delay.c``) as a file in the layout of an Nsight Systems export: `python to_nsys.py RECORD SQLITE`.

A record is text, gzipped where its name ends in ``.gz``; one record a line, the first letter says what it is:

==  ============================================================================================================
N   number, name
A   start, end, correlation, thread, name, driver (0 or 1), result: a call
K   start, end, correlation, device, context, stream, name, grid x 3, block x 3, registers, static, dynamic bytes
C   start, end, correlation, device, context, stream, bytes, kind, source memory, target memory: a copy
S   start, end, correlation, device, context, stream, bytes, memory, value: a memset
Y   start, end, correlation, type, context, stream, event, event record: a wait
E   correlation, device, context, stream, event, event record: an event is recorded
R   context, stream, flag: a stream
W   open, time: the part that counts begins (1) or ends (0)
==  ============================================================================================================

Times are ns on one clock of CUPTI's.  What lies outside the window is left out; without a window, nothing is.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from refusal import Refusal, told

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))

import nsys_tables

SCHEMA: Final = "3.24"
PRODUCT: Final = "Turnbuckle slack validation (CUPTI activity records)"
#: How many numbers follow each letter; N has one and a text.
_FIELDS: Final = {"N": 1, "A": 7, "K": 16, "C": 10, "S": 9, "Y": 8, "E": 6, "R": 3, "W": 2}
_MACHINE: Final = 1 << 48
_UNKNOWN_MEMORY: Final = 7
_CALLS, _KERNELS, _COPIES, _MEMSETS, _WAITS, _EVENTS, _STREAMS = (
    "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT", "TARGET_INFO_CUDA_STREAM",
)  # fmt: skip
_TABLE: Final = {"A": _CALLS, "K": _KERNELS, "C": _COPIES, "S": _MEMSETS, "Y": _WAITS, "E": _EVENTS}


@dataclass
class Record:
    """A record as read: the process, its names, its window, and the numbers of every line by its letter."""

    process: int
    names: dict[int, str] = field(default_factory=dict)
    window: tuple[int, int] = (-(1 << 62), 1 << 62)
    rows: dict[str, list[list[int]]] = field(default_factory=lambda: {letter: [] for letter in _FIELDS})


def load(path: Path) -> Record:
    """Read a record.

    Raises
    ------
    Refusal : V004, it cannot be read, was cut off, lost records, or has a line that means nothing.
    """
    record = Record(0)
    began, finished, kept, ends = False, False, 0, [0, 0]
    try:
        for number, line in enumerate(_lines(path), 1):
            began = began or line == "# turnbuckle-slack 1"
            if found := re.fullmatch(r"# process (\d{1,18})", line):
                record.process = int(found[1])
            elif found := re.fullmatch(r"# end (\d{1,18}) (\d{1,18})", line):
                finished, ends = True, [int(found[1]), int(found[2])]
            elif not line.startswith("#"):
                letter = _line(record, line, number)
                kept += letter not in ("N", "W")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise Refusal("V004", f"{path.name} cannot be read: {error}", "record again") from error
    if not began or not finished or ends[0] != kept:
        raise Refusal("V004", f"{path.name} is no whole record: {kept} of {ends[0] if finished else 'unknown'} records", "record again")
    if ends[1]:
        raise Refusal("V004", f"CUPTI dropped {ends[1]} records of {path.name}", "record fewer iterations")
    _close(record, path.name)
    return record


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file, gzip.open(file) if path.suffix == ".gz" else file as plain:
        for line in plain:
            yield line.decode("utf-8").rstrip("\n")


def _line(record: Record, line: str, number: int) -> str:
    letter, _, rest = line.partition(",")
    try:
        count = _FIELDS[letter]
        if letter == "N":
            name_number, name = rest.split(",", 1)
            record.names[int(name_number)] = name
            return letter
        values = [int(text) for text in rest.split(",")]
        if len(values) != count or max(values) >= 1 << 63 or min(values) < -1:
            raise ValueError
    except (KeyError, ValueError):
        raise Refusal("V004", f"line {number} of the record means nothing: {line[:60]!r}", "record again") from None
    record.rows[letter].append(values)
    return letter


def _close(record: Record, name: str) -> None:
    marks = [tuple(values) for values in record.rows["W"]]
    if marks:
        if [flag for flag, _ in marks] != [1, 0] or marks[0][1] > marks[1][1]:
            raise Refusal("V004", f"{name} does not hold one window, opened and closed", "record again")
        record.window = (marks[0][1], marks[1][1])
    unnamed = [row for row in record.rows["A"] if row[4] not in record.names] or [r for r in record.rows["K"] if r[6] not in record.names]
    if unnamed:
        raise Refusal("V004", f"{name} lacks the name of a call or kernel", "record again")


def convert(path: Path, target: Path, gpu: Mapping[str, Any] | None = None) -> dict[str, int]:
    """Write the record at `path` as the SQLite file `target` (replaced if it is there).

    Parameters
    ----------
    path : text record.
    target : file to write.
    gpu : what ``programs machine`` says of the GPU; None leaves it out.

    Returns
    -------
    Rows written, by table.
    """
    record = load(path)
    tables = _tables(record)
    if gpu:
        tables["TARGET_INFO_GPU"] = [_gpu(gpu)]
    target.unlink(missing_ok=True)
    with closing(sqlite3.connect(target)) as database, database:
        database.execute("PRAGMA synchronous = OFF")
        nsys_tables.create(database, SCHEMA, PRODUCT)
        database.execute("UPDATE META_DATA_EXPORT SET value = ? WHERE name = 'EXPORT_PRODUCT_NAME'", (PRODUCT,))
        for table, rows in tables.items():
            columns = nsys_tables.columns(table, SCHEMA)
            # columns that must have a value but that no record has are 0
            marks = ",".join("?" * len(columns))
            required = {name for _, name, _, must, *_ in database.execute(f"PRAGMA table_info({table})") if must}
            values = [[row.get(column, 0 if column in required else None) for column in columns] for row in rows]
            database.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
    return {table: len(rows) for table, rows in tables.items()}


def _tables(record: Record) -> dict[str, list[dict[str, Any]]]:
    """Rows of every table, those inside the window."""
    process = _MACHINE | (record.process & 0xFFFFFF) << 24
    threads: dict[int, int] = {}
    strings = {name: number for number, name in enumerate(dict.fromkeys(record.names.values()))}
    opened, closed = record.window
    inside = {row[2] for row in record.rows["A"] if opened <= row[0] <= closed}
    out: dict[str, list[dict[str, Any]]] = {table: [] for table in _TABLE.values()}
    for letter, table in _TABLE.items():
        for row in record.rows[letter]:
            # a device's work belongs to the window that its call lies in
            if row[0 if letter == "E" else 2] not in inside or (letter == "A" and not opened <= row[0] <= closed):
                continue
            if letter == "A":
                threads.setdefault(row[3], len(threads) + 1)
            out[table].append(_row(letter, row, record, strings, process, threads))
    out["StringIds"] = [{"id": number, "value": name} for name, number in strings.items()]
    ids = {"vmId": 0, "processId": record.process, "hwId": 0, "priority": 0}
    out[_STREAMS] = [{"contextId": c, "streamId": s, "flag": flag, **ids} for c, s, flag in dict.fromkeys(map(tuple, record.rows["R"]))]
    out["PROCESSES"] = [{"globalPid": process, "pid": record.process, "name": "program"}]
    return out


def _row(
    letter: str, row: list[int], record: Record, strings: Mapping[str, int], process: int, threads: Mapping[int, int]
) -> dict[str, Any]:
    """One line as a row of its table."""
    if letter == "A":
        start, end, correlation, thread, name, driver, result = row
        return {
            "start": start, "end": end, "eventClass": driver, "globalTid": process | threads[thread], "correlationId": correlation,
            "nameId": strings[record.names[name]], "returnValue": result,
        }  # fmt: skip
    if letter == "E":
        correlation, device, context, stream, event, event_record = row
        times: dict[str, Any] = {"correlationId": correlation, "globalPid": process, "timestamp": None}
        return {**times, "deviceId": device, "contextId": context, "streamId": stream, "eventId": event, "eventSyncId": event_record}
    times = {"start": row[0], "end": row[1], "correlationId": row[2], "globalPid": process}
    if letter == "Y":
        kind, context, stream, event, event_record = row[3:]
        return {**times, "syncType": kind, "contextId": context, "streamId": stream, "eventId": event, "eventSyncId": event_record}
    place = {**times, "deviceId": row[3], "contextId": row[4], "streamId": row[5]}
    if letter == "C":
        return {**place, "bytes": row[6], "copyKind": row[7], "srcKind": _memory(row[8]), "dstKind": _memory(row[9])}
    if letter == "S":
        return {**place, "bytes": row[6], "memKind": _memory(row[7]), "value": row[8]}
    name = strings[record.names[row[6]]]
    shape = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory")
    return {**place, "demangledName": name, "shortName": name, "mangledName": name, **dict(zip(shape, row[7:], strict=True))}


def _memory(kind: int) -> int:
    """CUPTI's number of a memory kind as the exporter's: one less, and 7 for unknown."""
    return kind - 1 if 1 <= kind <= _UNKNOWN_MEMORY else _UNKNOWN_MEMORY


def _gpu(gpu: Mapping[str, Any]) -> dict[str, Any]:
    columns = {
        "name": "gpu", "smCount": "multiprocessors", "totalMemory": "memory_bytes", "asyncEngines": "copy_engines",
        "computeMajor": "compute_major", "computeMinor": "compute_minor",
    }  # fmt: skip
    return {"vmId": 0, "id": 0, "cuDevice": 0, **{column: gpu.get(word) for column, word in columns.items()}}


def main() -> None:
    """Convert one record and say how many rows each table got."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("record", type=Path, help="text record, .csv or .csv.gz")
    parser.add_argument("sqlite", type=Path, help="file to write")
    words = parser.parse_args()
    for table, count in Counter(convert(words.record, words.sqlite)).most_common():
        print(f"{count:>10}  {table}")


if __name__ == "__main__":
    sys.exit(told(main))
