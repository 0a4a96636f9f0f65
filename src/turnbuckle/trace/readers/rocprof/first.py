"""Reader of the first rocprof (up to ROCm 6): its database ``results.db`` and the Chrome JSON made
of it, ``results.json``.

Both hold calls (HIP, HSA), kernels (OPS, or KERN where they were profiled one by one), copies and
sets (COPY) and the ranges of roctx.  The database joins them by an index, the JSON by flow arrows
in whole microseconds.
"""

from __future__ import annotations

import os
import re
import sqlite3
from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.trace.readers.parts import sqlite_tables
from turnbuckle.trace.readers.parts.json_pieces import Cut, Json
from turnbuckle.trace.readers.parts.mpi_tables import NO
from turnbuckle.trace.readers.rocprof.parts import ALLOCATED, FREED, Agents
from turnbuckle.trace.readers.rocprof.rows import (
    DRIVER,
    MARK,
    MEMORY,
    PUSHED,
    RUNTIME,
    Rows,
    direction_of,
    kernel_name,
    named,
    unquoted,
)

#: Tables of a database.
TABLES: Final = frozenset(("rocTX", "HIP", "HSA", "OPS", "COPY", "KERN"))
#: Text at the begin of rocprof's JSON that no other Chrome trace has.
SIGNS: Final = re.compile(
    rb'"(?:BeginNs|DispatchNs)"|"(?:CPU (?:HIP|HSA) API|Markers and Ranges)"|^\s*\{ ?"traceEvents":\[\{\}'
)
#: Added to the numbers of HSA calls, which would collide with those of HIP calls.
_HSA_IDS: Final = 1 << 40
_HSA_COPY: Final = "async-copy"
#: Commands of a queue that do no work.
_MARKERS: Final = re.compile(r"Unknown command type|<barrier packet>|Marker")
_FILLS: Final = re.compile(r"Fill(?:Buffer|Image)\w*")
#: Names of copies; rocprof also lists kernels with ``Copy`` or ``Fill`` in their names as copies.
_COPIES: Final = re.compile(r"async-copy|\w+")
_OF_AGENT: Final = r"Agent(\d{1,4})\.(Name|MarketingName|DeviceType|ComputeUnit|MaxClockFreq\.\(MHz\)|PoolInfo\.Pool1\.Size)"
_AGENT: Final = re.compile(_OF_AGENT)
#: The same in the text of a JSON that is not read whole: its first time lies in its head, the
#: agents at its end [B].
_AGENT_TEXT: Final = re.compile(rf'"{_OF_AGENT}"\s*:\s*"([^"\\]{{0,200}})"'.encode())
_BEGUN: Final = re.compile(rb'"BeginNs"\s*:\s*"?(\d{1,18})')
_HEAD: Final = 1 << 16
_TAIL: Final = 1 << 20
_STARTS_WORK: Final = r"Memcpy|Memset|Launch|WaitEvent|Synchronize|WaitValue|WriteValue"
_MOVES: Final = r"^hip(?:Memcpy|Memset)"
_ALLOCATES: Final = r"^hip(?:Ext)?(?:Host)?(?:Malloc|Alloc)(?:Host|Managed|Async|WithFlags|FromPoolAsync)?$|^hipMemAlloc"
_FREES: Final = r"^hip(?:Host)?Free(?:Host|Async)?$"
_ON_HOST: Final = r"Host"


# --- database -------------------------------------------------------------------------------------


def recognised(path: Path) -> bool:
    """Return whether one of the tables has times under rocprof's names."""
    try:
        with sqlite_tables.connected(path) as connection:
            tables = sqlite_tables.columns(connection)
    except (*sqlite_tables.ERRORS, OSError, UnicodeError):
        return False
    return any(
        "Index" in tables[t] and ("BeginNs" in tables[t] or "KernelName" in tables[t])
        for t in TABLES & set(tables)
    )


def read_database(
    path: Path, rows: Rows, progress: Callable[[float], object] | None
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Read all tables into `rows`; return the table ``devices`` and facts.  Raises `ProfileError`
    P045, P049.
    """
    try:
        with sqlite_tables.connected(path) as connection:
            return _Database(path, connection, rows, progress).read()
    except sqlite_tables.ERRORS as error:
        raise sqlite_tables.unreadable(path, error) from None


class _Database:
    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        rows: Rows,
        progress: Callable[[float], object] | None,
    ) -> None:
        self.path, self.connection, self.rows, self.progress = path, connection, rows, progress
        tables = sqlite_tables.columns(connection)
        self.columns = {t: c for t, c in tables.items() if t in TABLES}
        self.seen = {t: sqlite_tables.count(connection, t) for t in tables if t in TABLES}
        self.done = 0

    def read(self) -> tuple[pl.DataFrame, dict[str, Any]]:
        timed = [t for t, c in self.columns.items() if {"BeginNs", "EndNs"} <= set(c)]
        if not any(self.seen[t] for t in timed) and any(self.seen.values()):
            raise untimed(self.path)
        for table, level in (("HIP", RUNTIME), ("HSA", DRIVER)):
            if table in timed:
                self._calls(table, level)
        for table in ("OPS", "COPY"):
            if table in timed:
                self._works(table)
        if "KERN" in timed and not self.seen.get("OPS"):
            self._kernels()
        elif self.seen.get("KERN"):
            self.rows.unread["kernels that two tables hold"] += self.seen["KERN"]
        if "rocTX" in timed:
            self._ranges()
        complete(self.rows)
        return self._described(timed), {
            "format": "rocprof",
            "product_version": "rocprof",
            "container": "sqlite",
            "tables": self.seen,
        }

    def _described(self, timed: list[str]) -> pl.DataFrame:
        """Return the devices as the JSON of the same run describes them, which rocprof writes
        beside the database; none without it.

        It is of the same run if the first time in it is one of the database's.
        """
        try:
            with opened(self.path.with_suffix(".json")) as file:
                head = file.read(_HEAD)
                file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, 0))
                tail = file.read(_TAIL).rpartition(b'"otherData"')[2]
        except (OSError, ValueError):
            return Agents().table()
        begun = _BEGUN.search(head)
        same = begun is not None and any(self._holds(table, int(begun[1])) for table in timed)
        agents: dict[int, dict[str, str]] = {}
        for number, name, value in _AGENT_TEXT.findall(tail) if same else ():
            agents.setdefault(int(number), {})[name.decode()] = value.decode("utf-8", "replace")
        devices = _devices(agents)
        self.rows.flaws["P230"] += devices.height
        return devices

    def _holds(self, table: str, time: int) -> bool:
        """Return whether a row of a table begins at a time [ns]."""
        found = self.connection.execute(
            f"SELECT 1 FROM {sqlite_tables.quoted(table)} WHERE BeginNs = ? LIMIT 1", (time,)
        ).fetchone()
        return found is not None

    def _select(self, table: str, wanted: Mapping[str, str]) -> Any:
        """Return the pieces of a table; a column that the table lacks is null.  Names that begin
        with ``text_`` are texts.
        """
        columns = self.columns[table]
        select = {n: sqlite_tables.quoted(c) if c in columns else "NULL" for n, c in wanted.items()}
        return sqlite_tables.pieces(
            self.connection, select, sqlite_tables.quoted(table), self.seen[table], self._tick
        )

    def _tick(self, rows: int) -> None:
        self.done += rows
        if self.progress is not None:
            self.progress(min(self.done / max(sum(self.seen.values()), 1), 1.0))

    def _process(self, table: str) -> str:
        """Return the column of the process: the first versions wrote a number of their own under
        ``pid``.
        """
        have = self.columns[table]
        if "proc-id" in have:
            return "proc-id"
        return "pid" if "__section" in have or table == "KERN" else ""

    def _calls(self, table: str, level: int) -> None:
        wanted = {
            "start_ns": "BeginNs",
            "end_ns": "EndNs",
            "pid": self._process(table),
            "tid": "tid",
            "correlation": "Index",
        }
        wanted |= {"text_name": "Name", "text_args": "args"}
        for piece in self._select(table, wanted):
            add_calls(self.rows, piece, level)

    def _works(self, table: str) -> None:
        new = "stream-id" in self.columns[table]
        place = {"device": "dev-id", "queue": "queue-id", "stream": "stream-id" if new else "tid"}
        times = {"start_ns": "BeginNs", "end_ns": "EndNs", "pid": self._process(table)}
        wanted = {**times, **place, "correlation": "Index", "text_name": "Name"}
        for piece in self._select(table, wanted):
            add_works(self.rows, piece, copies=table == "COPY")

    def _kernels(self) -> None:
        if set(self.columns["KERN"]) - PLAIN_COLUMNS:
            self.rows.flaws["P181"] += self.seen["KERN"]
        for piece in self._select("KERN", KERNEL_COLUMNS):
            add_kernels(self.rows, piece)

    def _ranges(self) -> None:
        wanted = {
            "start_ns": "BeginNs",
            "end_ns": "EndNs",
            "pid": self._process("rocTX"),
            "tid": "tid",
            "text_name": "Name",
        }
        for piece in self._select("rocTX", wanted):
            add_ranges(self.rows, piece)


def untimed(path: Path) -> TurnbuckleError:
    """Build P044: kernels without times."""
    return error_of("P044.timestamp", where=str(path), found="kernels without BeginNs and EndNs")


# --- rows of both ---------------------------------------------------------------------------------


#: Columns of a profiled kernel's values, in the database and in the CSV.
KERNEL_COLUMNS: Final = (
    {
        "start_ns": "BeginNs",
        "end_ns": "EndNs",
        "pid": "pid",
        "device": "gpu-id",
        "queue": "queue-id",
    }
    | {"items": "grd", "threads": "wgr", "shared_bytes": "lds"}
    | {
        "vectors": "arch_vgpr",
        "accumulators": "accum_vgpr",
        "registers": "vgpr",
        "text_name": "KernelName",
    }
)


#: Columns of profiled kernels other than counters.
PLAIN_COLUMNS: Final = (
    frozenset(KERNEL_COLUMNS.values())
    | {
        "Index",
        "queue-index",
        "tid",
        "scr",
        "sgpr",
        "wave_size",
        "sig",
        "obj",
        "DispatchNs",
        "CompleteNs",
        "DurationNs",
    }
    | {"fbar", "Data", "stream-id", "roctx-range", "__section", "__lane"}
)


def add_kernels(rows: Rows, piece: pl.DataFrame) -> None:
    """Add profiled kernels; grid and work-group are products of their three sides."""
    fits = (pl.col("threads") > 0) & (pl.col("items") > 0)
    vectors = pl.when(pl.col("vectors") > 0).then(
        pl.col("vectors") + pl.col("accumulators").fill_null(0).clip(0)
    )
    piece = piece.with_columns(
        blocks=pl.when(fits).then((pl.col("items") - 1) // pl.col("threads") + 1),
        registers=pl.coalesce(vectors, pl.when(pl.col("registers") > 0).then("registers")),
        name=named(piece["text_name"], rows, kernel_name),
    )
    rows.flaws["P128"] += piece["name"].null_count()
    rows.flaws["P169"] = max(rows.flaws["P169"], piece["device"].drop_nulls().n_unique())
    rows.frame("kernels", piece)


def add_calls(rows: Rows, piece: pl.DataFrame, level: int) -> None:
    """Add calls, and the memory that their arguments state: bytes moved or set, allocations and
    releases.
    """
    name, args = pl.col("text_name"), pl.col("text_args")
    plain = args.str.extract(r"\b(?:sizeBytes|ByteCount)\((\d{1,18})\)").cast(pl.Int64)
    sides = [
        args.str.extract(rf"\b{side}\((\d{{1,9}})\)").cast(pl.Int64) for side in ("width", "height")
    ]
    moves = name.str.contains(_MOVES)
    piece = piece.with_columns(
        name=named(piece["text_name"], rows),
        level=pl.lit(level),
        size=pl.when(moves & ~name.str.contains("2D|3D|Array"))
        .then(plain)
        .when(moves & name.str.contains("2D"))
        .then(sides[0] * sides[1]),
    )
    if level == DRIVER:
        piece = piece.with_columns(pl.col("correlation") + _HSA_IDS)
    rows.frame("api", piece)
    address = args.str.extract(
        r"\b(?:ptr|dev_ptr|hostPtr)\(0x([0-9a-fA-F]{1,15})\)"
    ).str.to_integer(base=16, strict=False)
    memory_calls = piece.lazy().with_columns(
        address=address,
        size_bytes=args.str.extract(r"\bsize(?:Bytes)?\((\d{1,18})\)").cast(pl.Int64),
    )
    host = (
        pl.when(name.str.contains(_ON_HOST))
        .then(MEMORY["pinned"])
        .when(name.str.contains("Managed"))
        .then(MEMORY["managed"])
    )
    made = memory_calls.filter(name.str.contains(_ALLOCATES)).with_columns(
        time_ns="end_ns", operation=pl.lit(ALLOCATED), memory=host.otherwise(3)
    )
    freed = memory_calls.filter(name.str.contains(_FREES)).with_columns(
        time_ns="start_ns", operation=pl.lit(FREED), memory=pl.lit(0), size_bytes=None
    )
    for frame in (made, freed):
        addressed = frame.filter(
            pl.col("address").is_not_null() & (pl.col("address") != 0)
        ).collect()
        if addressed.height:
            rows.frame("allocations", addressed)


def add_works(rows: Rows, piece: pl.DataFrame, *, copies: bool) -> None:
    """Add work of a device: kernels and barriers, or copies and sets."""
    names = [unquoted(n) if n is not None else "" for n in piece["text_name"]]
    if copies:
        fills = pl.Series([bool(_FILLS.fullmatch(n)) for n in names], dtype=pl.Boolean)
        kernels = pl.Series([not _COPIES.fullmatch(n) for n in names], dtype=pl.Boolean)
        rows.frame("memsets", piece.filter(fills))
        kernel_rows = piece.filter(kernels)
        rows.frame(
            "kernels",
            kernel_rows.with_columns(name=named(kernel_rows["text_name"], rows, kernel_name)),
        )
        direction = pl.Series([direction_of(n, "", "", None) for n in names], dtype=pl.Int64)
        of_hsa = pl.Series([n == _HSA_COPY for n in names], dtype=pl.Boolean)
        moved = pl.select(
            pl.when(of_hsa).then(piece["correlation"] + _HSA_IDS).otherwise(piece["correlation"])
        ).to_series()
        rows.frame(
            "copies",
            piece.with_columns(direction=direction, correlation=moved).filter(~fills & ~kernels),
        )
        return
    idle = pl.Series([bool(_MARKERS.fullmatch(n)) for n in names], dtype=pl.Boolean)
    rows.flaws["P176"] += int(idle.sum())
    piece = piece.filter(~idle)
    rows.frame("kernels", piece.with_columns(name=named(piece["text_name"], rows, kernel_name)))


def add_ranges(rows: Rows, piece: pl.DataFrame) -> None:
    """Add ranges of roctx; rocprof writes a mark as a range of one nanosecond."""
    mark = pl.col("end_ns") - pl.col("start_ns") <= 1
    piece = piece.with_columns(
        name=named(piece["text_name"], rows), kind=pl.when(mark).then(MARK).otherwise(PUSHED)
    )
    rows.frame("ranges", piece.with_columns(end_ns=pl.when(~mark).then("end_ns")))


def complete(rows: Rows) -> None:
    """Complete rows that depend on all others: processes, calls inside others, and copies that are
    recorded twice.
    """
    _processes(rows)
    api = rows.table("api").sort(
        "pid",
        "tid",
        "start_ns",
        "end_ns",
        descending=[False, False, False, True],
        maintain_order=True,
    )
    thread = ["pid", "tid"]
    reach = pl.col("end_ns").cum_max().shift(1).over(thread)
    api = api.with_columns(
        inside=((pl.col("start_ns") < reach) & (pl.col("end_ns") <= reach)).fill_null(False)
    )
    outer = pl.col("correlation").first().over(*thread, (~pl.col("inside")).cum_sum().over(thread))
    rows.replaced("api", api.with_columns(ancestor=pl.when("inside").then(outer)))
    copies = rows.table("copies")
    of_hsa = pl.col("correlation").fill_null(0) >= _HSA_IDS
    low, high = copies.filter(of_hsa), copies.filter(~of_hsa)
    if low.height and high.height:
        # the runtime makes its copies through HSA, so HIP's records hold the same ones
        rows.unread["copies that two traces hold"] += low.height
        rows.replaced("copies", high)


def _processes(rows: Rows) -> None:
    """Give calls and ranges of the first versions, which name no process, the process whose number
    their (main) thread has.
    """
    works = [rows.table(t)["pid"].drop_nulls().unique() for t in ("kernels", "copies", "memsets")]
    pids = pl.concat(works).unique()
    if len(pids) > 1:
        for table in ("api", "ranges"):
            frame = rows.table(table)
            main_thread = pl.when(pl.col("tid").is_in(pids.implode())).then("tid")
            rows.replaced(table, frame.with_columns(pid=pl.coalesce("pid", main_thread)))


# --- Chrome JSON ----------------------------------------------------------------------------------


def read_json(text: Json, rows: Rows) -> tuple[pl.DataFrame, dict[str, int], bool]:
    """Read all events into `rows`; return the table ``devices``, rows of every lane, and whether
    the text's end was reached.
    """
    events = _Events(rows)
    whole = True
    agents: dict[int, dict[str, str]] = {}
    try:
        for key in text.members():
            if key == "traceEvents":
                for event in text.elements():
                    events.add(event)
            elif key == "otherData" and text.peek() == "{":
                _agents(text, agents)
            else:
                text.skip()
    except (Cut, ValueError):
        whole = False
    events.close()
    complete(rows)
    return _devices(agents), dict(events.seen), whole


def _agents(text: Json, agents: dict[int, dict[str, str]]) -> None:
    # the command line and the system's texts are private, and skipped
    for key in text.members():
        match = _AGENT.fullmatch(key)
        if match is None:
            text.skip()
        elif isinstance(value := text.value(), str):
            agents.setdefault(int(match[1]), {})[match[2]] = value


def _devices(agents: Mapping[int, Mapping[str, str]]) -> pl.DataFrame:
    out = Agents()
    for number, description in sorted(agents.items()):
        memory = re.match(r"(\d{1,15})", description.get("PoolInfo.Pool1.Size", ""))
        figures = {
            k: re.match(r"\d{1,9}", description.get(k, ""))
            for k in ("ComputeUnit", "MaxClockFreq.(MHz)")
        }
        units, clock = (int(m[0]) if m else 0 for m in figures.values())
        names = {"name": description.get("MarketingName", ""), "chip": description.get("Name", "")}
        size = 1024 * int(memory[1]) if memory else 0
        sort = description.get("DeviceType", "")
        out.add(
            number,
            sort,
            NO,
            **names,
            memory_bytes=size,
            multiprocessors=units,
            clock_hz=1_000_000 * clock,
        )
    return out.table()


class _Lane:
    """Events of one kind in pieces of bounded size, and where each stands in the picture, which the
    arrows refer to.
    """

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self._rows: list[tuple[Any, ...]] = []
        self._pieces: list[pl.DataFrame] = []
        #: lane, row of the lane, begin and length [us] of every event
        self.places = array("q")

    def add(self, row: tuple[Any, ...]) -> None:
        self._rows.append(row)
        if len(self._rows) >= _PIECE_ROWS:
            self._close()

    def _close(self) -> None:
        schema: dict[str, Any] = {
            c: pl.String if c.startswith("text_") else pl.Int64 for c in self.columns
        }
        frame = pl.DataFrame(self._rows, schema=schema, orient="row")
        self._pieces.append(
            frame.with_columns(
                pl.when(pl.col(c) != NO).then(c) for c in self.columns if not c.startswith("text_")
            )
        )
        self._rows = []

    def taken(self) -> pl.DataFrame:
        """Return all events."""
        self._close()
        return pl.concat(self._pieces)


_PIECE_ROWS: Final = 1 << 16
_CALL = ("start_ns", "end_ns", "pid", "tid", "correlation", "text_name", "text_args", "driver")
_WORK = ("start_ns", "end_ns", "pid", "device", "queue", "stream", "correlation", "text_name")
_RANGE = ("start_ns", "end_ns", "pid", "tid", "text_name")
_LANES: Final = re.compile(r"(Markers and Ranges)|(COPY)|CPU (HIP|HSA) API|GPU(?: Barriers)?\d+")


class _Events:
    """Events of the Chrome JSON; each names its lane, and further events name the lanes."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.seen: Counter[str] = Counter()
        self.lane: dict[int, str] = {}
        columns = {
            "HIP": _CALL,
            "OPS": _WORK,
            "COPY": _WORK,
            "rocTX": _RANGE,
            "KERN": tuple(KERNEL_COLUMNS),
        }
        self.held = {lane: _Lane(names) for lane, names in columns.items()}
        #: id, begin [us], lane, row of the lane; of tails and of heads
        self.tails, self.heads = array("q"), array("q")

    def add(self, event: object) -> None:
        """Add one event."""
        if not isinstance(event, dict):
            self.rows.flaws["P162"] += 1
            return
        phase = event.get("ph")
        number = self.rows.number
        if phase == "X":
            self._complete(event)
        elif phase in ("s", "t", "f"):
            row = [number(event.get(k)) for k in ("id", "ts", "pid", "tid")]
            if NO not in row:
                (self.tails if phase == "s" else self.heads).extend(row)
        elif phase == "M" and event.get("name") == "process_name":
            args = event.get("args")
            match = _LANES.match(str(args.get("name"))) if isinstance(args, dict) else None
            if match:
                self.lane[number(event.get("pid"))] = (
                    "rocTX" if match[1] else "COPY" if match[2] else match[3] or "GPU"
                )
        elif phase is not None:
            self.rows.unread["other events"] += 1

    def _complete(self, event: dict[str, Any]) -> None:
        number, args = self.rows.number, event.get("args")
        lane = self.lane.get(number(event.get("pid")), "")
        if not isinstance(args, dict) or "BeginNs" not in args or not lane:
            self.rows.unread["events of unknown lanes"] += 1
            return
        times = number(args["BeginNs"]), number(args.get("EndNs"))
        pid_argument = number(args.get("pid"))
        # the first versions write the lane's number under pid
        pid = (
            number(args["proc-id"])
            if "proc-id" in args
            else pid_argument
            if pid_argument != number(event.get("pid"))
            else NO
        )
        kind = (
            "KERN"
            if lane == "GPU" and "KernelName" in args
            else {"HSA": "HIP", "GPU": "OPS"}.get(lane, lane)
        )
        self.seen["HSA" if lane == "HSA" else kind] += 1
        held = self.held[kind]
        name = _text(args.get("KernelName" if kind == "KERN" else "Name"))
        if kind == "HIP":
            held.add(
                (
                    *times,
                    pid,
                    number(args.get("tid")),
                    NO,
                    name,
                    _text(args.get("args")),
                    int(lane == "HSA"),
                )
            )
        elif kind == "rocTX":
            held.add((*times, pid, number(args.get("tid")), name))
        elif kind == "KERN":
            held.add(
                tuple(
                    name if c == "text_name" else number(args.get(k))
                    for c, k in KERNEL_COLUMNS.items()
                )
            )
        else:
            stream = number(args.get("stream-id", args.get("tid")))
            held.add(
                (
                    *times,
                    pid,
                    number(args.get("dev-id")),
                    number(args.get("queue-id")),
                    stream,
                    NO,
                    name,
                )
            )
        if kind in ("HIP", "OPS", "COPY"):
            held.places.extend(number(event.get(k)) for k in ("pid", "tid", "ts", "dur"))

    def close(self) -> None:
        """Add all events to the rows, joined by the arrows."""
        places = {
            k: np.frombuffer(self.held[k].places, np.int64).reshape(-1, 4)
            for k in ("HIP", "OPS", "COPY")
            if self.held[k].places
        }
        frames = {k: lane.taken() for k, lane in self.held.items()}
        ids = _arrows(self.tails, self.heads, places, frames["HIP"]["text_name"])
        for kind, correlation in ids.items():
            frames[kind] = frames[kind].with_columns(
                correlation=pl.Series(correlation).replace(NO, None)
            )
        for level in (RUNTIME, DRIVER):
            calls = frames["HIP"].filter(pl.col("driver") == level)
            if calls.height:
                add_calls(self.rows, calls, level)
        add_works(self.rows, frames["OPS"], copies=False)
        add_works(self.rows, frames["COPY"], copies=True)
        if frames["KERN"].height and not frames["OPS"].height:
            add_kernels(self.rows, frames["KERN"])
        elif frames["KERN"].height:
            self.rows.unread["kernels that two lanes hold"] += frames["KERN"].height
        add_ranges(self.rows, frames["rocTX"])


def _text(value: object) -> str | None:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _arrows(tails: Any, heads: Any, places: Mapping[str, Any], names: pl.Series) -> dict[str, Any]:
    """Return ids of calls, and of the call that the arrows name for each work: shape (rows,) per
    kind, `NO` without an arrow.

    An arrow's tail lies in the call [us], its head at the begin of the work that the call started.
    Of calls inside each other the arrow belongs to the innermost that starts work.
    """
    out = {k: np.full(len(p), NO, np.int64) for k, p in places.items()}
    if "HIP" not in out:
        return out
    out["HIP"] = np.arange(1, len(out["HIP"]) + 1)
    if not len(tails) or not len(heads):
        return out
    tail = np.frombuffer(tails, np.int64).reshape(-1, 4)
    head = np.frombuffer(heads, np.int64).reshape(-1, 4)
    called = _callers(tail, places["HIP"], names)
    for kind in ("OPS", "COPY"):
        if kind not in out:
            continue
        keys = ["lane", "row", "at"]
        records = (
            pl.DataFrame(places[kind][:, :3], schema=keys)
            .with_row_index("record")
            .unique(keys, keep="last")
        )
        targets = pl.DataFrame(
            {"id": head[:, 0], "at": head[:, 1], "lane": head[:, 2], "row": head[:, 3]}
        )
        joined = (
            targets.join(records, on=keys)
            .join(called, on="id")
            .unique("id", keep="first")
            .unique("call", keep="first")
        )
        begun = places["HIP"][joined["call"].to_numpy(), 2]
        matches = joined.select(
            pl.col("record").cast(pl.Int64), id=pl.col("call").cast(pl.Int64) + 1
        )
        out[kind] = _shared(places[kind], matches.with_columns(begun=pl.Series(begun)))
    return out


def _shared(place: Any, matches: pl.DataFrame) -> Any:
    """Give records without an arrow the call of the next arrow on their stream: of several records
    of one call only the last has one.
    """
    records = pl.DataFrame(
        {"lane": place[:, 0], "row": place[:, 1], "at": place[:, 2]}
    ).with_row_index("record")
    records = records.with_columns(pl.col("record").cast(pl.Int64)).join(
        matches, on="record", how="left"
    )
    filled = records.sort("lane", "row", "at", "record").with_columns(
        pl.col("id", "begun").backward_fill().over("lane", "row")
    )
    with_calls = filled.with_columns(id=pl.when(pl.col("begun") <= pl.col("at")).then("id")).sort(
        "record"
    )
    return with_calls["id"].fill_null(NO).to_numpy()


def _callers(tail: Any, place: Any, names: pl.Series) -> pl.DataFrame:
    """Return the call that every tail lies in: columns ``id`` and ``call``."""
    able = np.flatnonzero(names.str.contains(_STARTS_WORK).fill_null(False).to_numpy())
    calls = pl.DataFrame(
        {"call": able, "thread": place[able, 1], "begin": place[able, 2], "length": place[able, 3]}
    )
    # of calls that begin together the shorter is the inner one
    calls = calls.sort("begin", "length", descending=[False, True])
    tails = (
        pl.DataFrame({"id": tail[:, 0], "at": tail[:, 1], "thread": tail[:, 3]})
        .unique("id")
        .sort("at")
    )
    joined = tails.join_asof(
        calls,
        left_on="at",
        right_on="begin",
        by="thread",
        strategy="backward",
        check_sortedness=False,
    )
    inside = joined.filter(
        pl.col("call").is_not_null() & (pl.col("at") <= pl.col("begin") + pl.col("length") + 1)
    )
    return inside.select("id", "call")
