"""Reader of rocpd databases, which rocprofv3 writes by default from ROCm 7 on.

The name of every table ends with the uuid of its process; a merged file holds the tables of
several.  Schema 3 keeps times and process in each row; schema 4 keeps them apart, in
``rocpd_timestamp`` and ``rocpd_track``.  A call, and what it started on a device, share the
``stack_id`` of their events.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl

from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.trace.readers.parts import sqlite_tables
from turnbuckle.trace.readers.parts.mpi_tables import NO
from turnbuckle.trace.readers.parts.sqlite_tables import quoted
from turnbuckle.trace.readers.rocprof.json import agent_facts
from turnbuckle.trace.readers.rocprof.parts import Agents, add_allocation, add_marker
from turnbuckle.trace.readers.rocprof.rows import (
    DRIVER,
    LARGEST_PID,
    RUNTIME,
    Rows,
    blocks_of,
    kernel_name,
    look_up,
    named,
    present,
)

OURS: Final = re.compile(r"rocpd_(?:metadata|string|kernel_dispatch|region|memory_copy|api|op)")
_SET: Final = re.compile(r"rocpd_(kernel_dispatch|region|memory_copy)(.*)", re.DOTALL)
_RPD: Final = frozenset(("rocpd_api", "rocpd_op"))
_READ: Final = ("kernel_dispatch", "memory_copy", "region", "sample", "memory_allocate")
_MARKER: Final = "MARKER"


def read(
    path: Path, rows: Rows, progress: Callable[[float], object] | None
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Read all processes of a file into `rows`; return the table ``devices`` and facts.

    Raises `ProfileError`: P045 tables of another kind, P049 the file cannot be read, P050 processes
    of several machines.
    """
    try:
        with sqlite_tables.connected(path) as connection:
            tables = sqlite_tables.columns(connection)
            return _read(path, connection, tables, rows, progress)
    except sqlite_tables.ERRORS as error:
        raise sqlite_tables.unreadable(path, error) from None


def _read(
    path: Path,
    connection: sqlite3.Connection,
    tables: dict[str, list[str]],
    rows: Rows,
    progress: Callable[[float], object] | None,
) -> tuple[pl.DataFrame, dict[str, Any]]:
    suffixes = sorted({m[2] for n in tables if (m := _SET.fullmatch(n))})
    if not suffixes:
        raise _unknown(path, tables)
    _one_machine(path, connection, tables, suffixes)
    seen: Counter[str] = Counter()
    versions: set[str] = set()
    agents: list[Agents] = []
    pids: Counter[int] = Counter()
    total = sum(
        sqlite_tables.count(connection, f"rocpd_{t}{e}")
        for e in suffixes
        for t in _READ
        if f"rocpd_{t}{e}" in tables
    )
    done = [0]

    def tick(count: int) -> None:
        done[0] += count
        if progress is not None:
            progress(min(done[0] / max(total, 1), 1.0))

    for number, suffix in enumerate(suffixes):
        process = _Process(path, connection, tables, suffix, rows, tick, number, pids)
        process.read()
        seen.update(process.seen)
        versions.add(process.version)
        agents.append(process.agents)
    devices = pl.concat([a.table() for a in agents]).unique("device", keep="first").sort("device")
    version = ", ".join(sorted(versions))
    written = f"rocpd schema {version}" if version else "rocpd"
    about = {
        "format": "rocpd",
        "product_version": written,
        "container": "sqlite",
        "schema_version": version or None,
        "tables": dict(seen),
    }
    return devices, about


def _unknown(path: Path, tables: dict[str, list[str]]) -> TurnbuckleError:
    rpd = set(tables) >= _RPD
    return error_of(
        "P045.prefix" if rpd else "P045.version",
        where=str(path),
        found="tables of rpd (rocmProfileData)"
        if rpd
        else "rocpd tables, but none of kernels, copies or calls",
    )


def _one_machine(
    path: Path, connection: sqlite3.Connection, tables: dict[str, list[str]], suffixes: list[str]
) -> None:
    """Raise P050 where processes are of several machines: the clock counts from a machine's boot,
    so their times have no common clock.
    """
    machines: set[int] = set()
    for suffix in suffixes:
        table = f"rocpd_info_node{suffix}"
        if "hash" in tables.get(table, ()):
            machines.update(
                r[0]
                for r in connection.execute(f"SELECT DISTINCT hash FROM {quoted(table)} LIMIT 1000")
                if isinstance(r[0], int)
            )
    if len(machines) > 1:
        raise error_of(
            "P050.database", where=str(path), found=f"processes of {len(machines)} machines"
        )


class _Process:
    """Tables of one process, or of several with one uuid."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        tables: dict[str, list[str]],
        suffix: str,
        rows: Rows,
        tick: Callable[[int], None],
        number: int,
        pids: Counter[int],
    ) -> None:
        self.path, self.connection, self.tables, self.suffix, self.rows, self.tick = (
            path,
            connection,
            tables,
            suffix,
            rows,
            tick,
        )
        self.number, self.pids = number, pids
        self.agents = Agents()
        self.seen: Counter[str] = Counter()
        self.version = ""

    def read(self) -> None:
        """Read every table."""
        for table in _READ:
            if self._has(table):
                self.seen[table] = sqlite_tables.count(self.connection, self._name(table))
        if self._has("metadata"):
            version = self.connection.execute(
                f"SELECT CAST(value AS TEXT) FROM {quoted(self._name('metadata'))} WHERE tag "
                "= 'schema_version' LIMIT 1"
            ).fetchone()
            self.version = (
                version[0][:20]
                if version
                and isinstance(version[0], str)
                and re.fullmatch(r"[\w.]{1,20}", version[0])
                else ""
            )
        self._private()
        self._processes()
        self._agents()
        self.categories = self._categories()
        adding = {
            "kernel_dispatch": self._kernels,
            "memory_copy": self._copies,
            "region": self._regions,
            "sample": self._samples,
        }
        for table, add in {**adding, "memory_allocate": self._allocations}.items():
            if self.seen[table]:
                add()

    # --- tables that others refer to --------------------------------------------------------------

    def _name(self, table: str) -> str:
        return f"rocpd_{table}{self.suffix}"

    def _has(self, table: str) -> bool:
        return self._name(table) in self.tables

    def _texts(self, sql: str) -> dict[int, str]:
        return {
            i: s
            for i, s in self.connection.execute(sql)
            if isinstance(i, int) and isinstance(s, str)
        }

    def _processes(self) -> None:
        """Read process numbers; a number that another uuid also has gets one beyond those of a
        system, because it is another process.
        """
        self.pid: dict[int, int] = {}
        if not self._has("info_process"):
            return
        for id, pid in self.connection.execute(
            f"SELECT id, pid FROM {quoted(self._name('info_process'))}"
        ):
            if isinstance(id, int) and isinstance(pid, int):
                self.pids[pid] += 1
                self.pid[id] = (
                    pid
                    if self.pids[pid] == 1
                    else LARGEST_PID + (self.number << 32) + abs(pid) % (1 << 32)
                )

    def _private(self) -> None:
        """Report P119 where the file holds private data of the process."""
        for table, column in (
            ("info_process", "environment"),
            ("info_process", "command"),
            ("info_node", "hostname"),
        ):
            if column in self.tables.get(self._name(table), ()):
                sql = (
                    f"SELECT 1 FROM {quoted(self._name(table))} WHERE length({column}) > 2 LIMIT 1"
                )
                if self.connection.execute(sql).fetchone():
                    self.rows.flaws["P119"] = 1
                    self.rows.details["P119"] = "environment, command line, host name"

    def _agents(self) -> None:
        table = self._name("info_agent")
        columns = self.tables.get(table, ())
        if not {"id", "type"} <= set(columns):
            return
        wanted = ("id", "type", "type_index", "name", "product_name", "extdata")
        cells = ", ".join(quoted(c) if c in columns else "NULL" for c in wanted)
        for id, kind, place, chip, name, extra in self.connection.execute(
            f"SELECT {cells} FROM {quoted(table)}"
        ):
            if isinstance(id, int):
                told = _json(extra)
                description = {"chip": chip, "name": name} | {
                    k: v for k, v in agent_facts(told, self.rows).items() if v
                }
                cores = self.rows.number(told.get("cpu_cores_count")) > 0
                self.agents.add(
                    id,
                    kind if kind in ("CPU", "GPU") else "",
                    place if isinstance(place, int) else NO,
                    cores,
                    **description,
                )

    def _categories(self) -> dict[int, str]:
        if not self._has("event"):
            return {}
        table, column = (
            ("info_category", "name") if self._has("info_category") else ("string", "string")
        )
        if column not in self.tables.get(self._name(table), ()):
            return {}
        used = f"SELECT DISTINCT category_id FROM {quoted(self._name('event'))}"
        return self._texts(
            f"SELECT id, {column} FROM {quoted(self._name(table))} WHERE id IN ({used})"
        )

    def _named(self, table: str, column: str = "name_id") -> dict[int, str]:
        """Return the texts that a table's rows refer to."""
        if not self._has("string") or column not in self.tables[self._name(table)]:
            return {}
        used = f"SELECT DISTINCT {column} FROM {quoted(self._name(table))}"
        return self._texts(
            f"SELECT id, {sqlite_tables.text('string')} FROM {quoted(self._name('string'))} "
            f"WHERE id IN ({used})"
        )

    # --- rows -------------------------------------------------------------------------------------

    def _pieces(self, table: str, **wanted: str) -> Iterator[pl.DataFrame]:
        """Yield the rows of a table with times, process and event.

        Parameters
        ----------
        wanted : columns of the table or of its track, by the names to give them; a column that
            neither has is null.
        """
        have = set(self.tables[self._name(table)])
        joins = [f"{quoted(self._name(table))} AS r"]
        if "track_id" in have:
            self._need("track", "id")
            joins.append(f"LEFT JOIN {quoted(self._name('track'))} AS t ON t.id = r.track_id")
        track = set(self.tables.get(self._name("track"), ())) if "track_id" in have else set()
        select: dict[str, str] = {}
        for name, column in (
            {"start_ns": "start", "end_ns": "end"}
            if table != "sample"
            else {"start_ns": "timestamp"}
        ).items():
            if column in have:
                select[name] = f"r.{quoted(column)}"
            elif f"{column}_id" in have:
                self._need("timestamp", "id", "value")
                joins.append(
                    f"LEFT JOIN {quoted(self._name('timestamp'))} AS {name} ON {name}.id = "
                    f"r.{column}_id"
                )
                select[name] = f"{name}.value"
            else:
                raise self._lacks(table, column)
        if "event_id" in have and self._has("event"):
            joins.append(f"LEFT JOIN {quoted(self._name('event'))} AS e ON e.id = r.event_id")
            event = set(self.tables[self._name("event")])
            for name, column in {
                "correlation": "stack_id",
                "ancestor": "parent_stack_id",
                "category": "category_id",
            }.items():
                select[name] = f"e.{column}" if column in event else "NULL"
            select["text_more"] = (
                "e.extdata" if "extdata" in event and table in ("region", "sample") else "NULL"
            )
        if self._has("info_thread") and ("tid" in have or "tid" in track):
            joins.append(
                f"LEFT JOIN {quoted(self._name('info_thread'))} AS th ON th.id = "
                f"{'r' if 'tid' in have else 't'}.tid"
            )
            select["tid"] = f"coalesce(th.tid, {'r' if 'tid' in have else 't'}.tid)"
        for name, column in {"process": "pid", **wanted}.items():
            select[name] = (
                f"r.{quoted(column)}"
                if column in have
                else f"t.{quoted(column)}"
                if column in track
                else "NULL"
            )
        for piece in sqlite_tables.pieces(
            self.connection, select, " ".join(joins), self.seen[table], self.tick
        ):
            missing = [
                c for c in ("correlation", "ancestor", "category", "tid") if c not in piece.columns
            ]
            piece = piece.with_columns(pl.lit(None, pl.Int64).alias(c) for c in missing)
            if "text_more" not in piece.columns:
                piece = piece.with_columns(text_more=pl.lit(None, pl.String))
            nothing = pl.col("correlation") == 0
            yield piece.with_columns(
                pid=look_up(piece["process"], self.pid),
                correlation=pl.when(~nothing).then("correlation"),
                ancestor=pl.when(
                    (pl.col("ancestor") != 0) & (pl.col("ancestor") != pl.col("correlation"))
                ).then("ancestor"),
            )

    def _need(self, table: str, *columns: str) -> None:
        for column in columns:
            if column not in self.tables.get(self._name(table), ()):
                raise self._lacks(table, column)

    def _lacks(self, table: str, column: str) -> TurnbuckleError:
        return error_of(
            "P045.schema",
            where=str(self.path),
            found=f"rocpd schema {clipped(self.version) or '(not told)'} without {table}.{column}",
        )

    def _kernels(self) -> None:
        symbols = self._symbols()
        sides = {
            f"{what}_{axis}": f"{what}_size_{axis}"
            for what in ("grid", "workgroup")
            for axis in "xyz"
        }
        wanted = {
            "agent": "agent_id",
            "stream": "stream_id",
            "queue": "queue_id",
            "kernel": "kernel_id",
            "shared_bytes": "group_segment_size",
        }
        for piece in self._pieces("kernel_dispatch", **wanted, **sides):
            kernel = piece["kernel"].to_list()
            symbol_rows = [symbols.get(k, (NO, NO)) for k in kernel]
            extents = piece.select(list(sides)).fill_null(NO).iter_rows()
            shapes = [blocks_of(e[:3], e[3:]) for e in extents]
            columns = {
                "name": [k[0] for k in symbol_rows],
                "registers": [k[1] for k in symbol_rows],
            }
            columns |= {"blocks": [s[0] for s in shapes], "threads": [s[1] for s in shapes]}
            more = present(pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.Int64)))
            self.rows.flaws["P128"] += more["name"].null_count()
            self.rows.frame(
                "kernels",
                piece.drop("ancestor")
                .hstack(more)
                .with_columns(device=look_up(piece["agent"], self.agents.device)),
            )

    def _symbols(self) -> dict[int, tuple[int, int]]:
        """Return name and registers of every kernel."""
        table = self._name("info_kernel_symbol")
        have = self.tables.get(table, ())
        cells = [
            sqlite_tables.text(c) if c in have else "NULL" for c in ("display_name", "kernel_name")
        ]
        cells += [
            sqlite_tables.whole(c) if c in have else "NULL"
            for c in ("arch_vgpr_count", "accum_vgpr_count")
        ]
        out: dict[int, tuple[int, int]] = {}
        if "id" in have:
            for id, shown, plain, vectors, more in self.connection.execute(
                f"SELECT id, {', '.join(cells)} FROM {quoted(table)}"
            ):
                registers = (
                    vectors + min(max(more or 0, 0), 1 << 20)
                    if vectors is not None and 0 < vectors < 1 << 20
                    else NO
                )
                out[id] = (
                    self.rows.name(kernel_name(shown or plain)) if shown or plain else NO,
                    registers,
                )
        return out

    def _copies(self) -> None:
        words = self._named("memory_copy")
        wanted = {
            "source": "src_agent_id",
            "target": "dst_agent_id",
            "size_bytes": "size",
            "name": "name_id",
            "stream": "stream_id",
        }
        for piece in self._pieces("memory_copy", queue="queue_id", **wanted):
            ends = piece.select("name", "source", "target").fill_null(NO).iter_rows()
            directions = [
                self.agents.copy(words.get(name, ""), source, target)
                for name, source, target in ends
            ]
            columns = ("direction", "device", "source_device", "target_device")
            more = present(
                pl.DataFrame(directions, schema=dict.fromkeys(columns, pl.Int64), orient="row")
            )
            self.rows.frame("copies", piece.hstack(more))

    def _regions(self) -> None:
        words = self._named("region")
        for piece in self._pieces("region", name="name_id"):
            self._calls(piece, words)

    def _samples(self) -> None:
        """Read calls and marks without length."""
        words = self._named("sample")
        for piece in self._pieces("sample", name="name_id"):
            self._calls(piece.with_columns(end_ns="start_ns"), words)

    def _calls(self, piece: pl.DataFrame, words: dict[int, str]) -> None:
        category = piece["category"].replace_strict(
            self.categories, default="", return_dtype=pl.String
        )
        if (category == "").any():
            # a call without an event has no category; its name shows the library
            name = pl.Series(
                piece["name"].replace_strict(words, default="", return_dtype=pl.String)
            )
            hip, hsa, mark = (
                name.str.contains("^(?:__)?hip"),
                name.str.starts_with("hsa_"),
                name.str.starts_with("roctx"),
            )
            guess = (
                pl.when(hip)
                .then(pl.lit("HIP"))
                .when(hsa)
                .then(pl.lit("HSA"))
                .when(mark)
                .then(pl.lit(_MARKER))
                .otherwise(pl.lit(""))
            )
            category = pl.select(
                pl.when(category == "").then(guess).otherwise(category)
            ).to_series()
        marker = category.str.starts_with(_MARKER)
        for prefix, level in (("HIP", RUNTIME), ("HSA", DRIVER)):
            calls = piece.filter(category.str.starts_with(prefix))
            texts = calls["name"].replace_strict(words, default=None, return_dtype=pl.String)
            self.rows.flaws["P128"] += texts.null_count()
            self.rows.frame(
                "api", calls.with_columns(name=named(texts, self.rows), level=pl.lit(level))
            )
        columns = ("start_ns", "end_ns", "pid", "tid", "name", "text_more")
        for start, end, pid, tid, name, more in (
            piece.filter(marker).select(columns).fill_null(NO).iter_rows()
        ):
            function = words.get(name, "roctxMarkA" if start == end else "roctxRangePushA")
            message = _json(more).get("message", function if name in words else None)
            add_marker(self.rows, function, message, start, end, pid, tid)
        others = ~(marker | category.str.starts_with("HIP") | category.str.starts_with("HSA"))
        self.rows.unread["calls of other libraries"] += int(others.sum())

    def _allocations(self) -> None:
        wanted = {
            "agent": "agent_id",
            "address": "address",
            "size": "size",
            "text_type": "type",
            "text_level": "level",
        }
        columns = (
            "start_ns",
            "pid",
            "agent",
            "correlation",
            "size",
            "address",
            "text_type",
            "text_level",
        )
        for piece in self._pieces("memory_allocate", **wanted):
            numbers = piece.select(
                pl.col(columns[:6]).fill_null(NO), pl.col(columns[6:]).fill_null("")
            )
            for time, pid, agent, correlation, size, address, kind, level in numbers.iter_rows():
                if level == "SCRATCH":
                    self.rows.unread["scratch_memory"] += 1
                else:
                    add_allocation(
                        self.rows, kind, time, pid, self.agents, agent, (correlation, size, address)
                    )


def _json(text: object) -> dict[str, Any]:
    """Return a small object; an empty one for anything else."""
    if not isinstance(text, str) or len(text) >= 1 << 16:
        return {}
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
