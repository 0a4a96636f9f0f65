"""Reader of AMD's profilers' CSV: rocprof's kernels (``results.csv``), rocprofv3's sets
(``X_kernel_trace.csv`` and its siblings).

A user names one file of a set, and the reader also reads the others with its prefix.  It refuses
files that hold sums only (``X.stats.csv``, ``X_kernel_stats.csv``), because they have no time line.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl

from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.trace.readers.parts.csv_lines import csv_rows, heading
from turnbuckle.trace.readers.parts.mpi_tables import NO
from turnbuckle.trace.readers.parts.packed_text import Text, beginning
from turnbuckle.trace.readers.rocprof import first as rocprof_v1
from turnbuckle.trace.readers.rocprof.parts import Agents, add_allocation
from turnbuckle.trace.readers.rocprof.reader import finished
from turnbuckle.trace.readers.rocprof.rows import (
    DRIVER,
    MARK,
    PUSHED,
    RUNTIME,
    Rows,
    blocks_of,
    kernel_name,
    named,
    present,
)
from turnbuckle.trace.trace import Trace

CACHED = False
_PIECE_ROWS: Final = 1 << 15
_HOUR_NS: Final = 3_600_000_000_000
#: Sorts of files, each with columns that only files of this sort have.
_SIGNS: Final = {
    "stats": ("Name", "Calls", "TotalDurationNs"),
    "kernels": ("Index", "KernelName"),
    "kernel_trace": ("Kernel_Name", "Grid_Size_X", "Start_Timestamp"),
    "counter_collection": ("Dispatch_Id", "Counter_Name", "Counter_Value"),
    "memory_copy_trace": ("Direction", "Correlation_Id", "Start_Timestamp"),
    "memory_allocation_trace": ("Operation", "Allocation_Size", "Start_Timestamp"),
    "scratch_memory_trace": ("Operation", "Alloc_Flags", "Start_Timestamp"),
    "api_trace": ("Domain", "Function", "Start_Timestamp"),
    "agent_info": ("Node_Id", "Agent_Type"),
}
#: Endings of the names of a set's files, in the order of reading.
_HIP: Final = (
    "hip_api_trace",
    "hip_runtime_api_trace",
    "hip_compiler_api_trace",
    "hsa_api_trace",
    "marker_api_trace",
)
_OTHER_APIS: Final = ("rccl_api_trace", "rocdecode_api_trace", "rocjpeg_api_trace")
_FIRST: Final = ("agent_info", "kernel_trace", "memory_copy_trace")
_KINDS: Final = (
    *_FIRST,
    *_HIP,
    "memory_allocation_trace",
    "counter_collection",
    *_OTHER_APIS,
    "scratch_memory_trace",
)
_NAMED: Final = re.compile(rf"(.*?)({'|'.join(_KINDS)})\.csv(?:\.gz)?", re.DOTALL)
_LABEL: Final = re.compile(r"(?:\s*(Agent|GPU|CPU))?[\s-]*(\d{1,18})\s*", re.IGNORECASE)
#: Added to the number of an agent that counts among GPUs only, or CPUs only.
_SORT_OFFSET: Final = {"gpu": 1 << 60, "cpu": 1 << 61}
_TIMES: Final = {"start_ns": "Start_Timestamp", "end_ns": "End_Timestamp"}


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the file's first line names columns as rocprof and rocprofv3 do."""
    line = beginning(head, path, 1 << 14).split(b"\n", 1)[0]
    return _sort(heading(line)) is not None


def _sort(columns: list[str]) -> str | None:
    return next((sort for sort, signs in _SIGNS.items() if set(signs) <= set(columns)), None)


def read(
    path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Read a file, and the other files of its set.

    Raises `ProfileError`: P025, P026, P029 packed and damaged, or no text; P044 a summary without a
    time line; P046 nothing of a GPU in it; P048 columns that are missing; P050 files of several
    runs under one prefix.
    """
    rows = Rows()
    first = Table(path, rows)
    if first.sort == "stats":
        raise _summary(path)
    if first.sort == "kernels":
        return _profiled(path, first, rows, progress)
    return _Set(path, rows, progress).read()


class Table:
    """CSV file read in pieces; every cell is a text.

    Attributes
    ----------
    sort : key of `_SIGNS` whose columns it has, or None.
    """

    def __init__(
        self, path: Path, rows: Rows, progress: Callable[[float], object] | None = None
    ) -> None:
        self.path, self.rows = path, rows
        self.text = Text(path, progress)
        self._lines = iter(self.text)
        self.columns = heading(next(self._lines, b""))
        self.sort = _sort(self.columns)
        self.height = 0

    def need(self, *columns: str) -> None:
        """Raise P048 where a column is missing."""
        missing = [c for c in columns if c not in self.columns]
        if missing or self.sort is None:
            raise error_of(
                "P048",
                where=str(self.path),
                found=f"no {', '.join(missing) or 'column that tells its kind'}",
            )

    def pieces(self) -> Iterator[pl.DataFrame]:
        """Yield rows in pieces of bounded size; a row with more or fewer cells than there are
        columns is left out and counted.
        """
        # of two columns with one name the first counts
        places = {c: i for i, c in reversed(list(enumerate(self.columns)))}
        names, order = list(places), list(places.values())
        batch: list[list[str]] = []
        for cells, lines in csv_rows(self._lines):
            if (
                cells is None
                or len(cells) < len(self.columns)
                or len(cells) > len(self.columns) + (cells[-1] == "")
            ):
                self.rows.flaws["P162"] += lines
                continue
            batch.append([cells[i] for i in order])
            if len(batch) >= _PIECE_ROWS:
                yield self._frame(batch, names)
                batch = []
        if batch:
            yield self._frame(batch, names)

    def _frame(self, batch: list[list[str]], names: list[str]) -> pl.DataFrame:
        self.height += len(batch)
        return pl.DataFrame(batch, schema=dict.fromkeys(names, pl.String), orient="row")


def numbers(piece: pl.DataFrame, rows: Rows, wanted: dict[str, str]) -> pl.DataFrame:
    """Return columns of integers under other names; an empty or absent cell is null, one of another
    type too, and counted.
    """
    out: dict[str, pl.Series] = {}
    for new, old in wanted.items():
        if old not in piece.columns:
            out[new] = pl.Series(new, [None] * piece.height, dtype=pl.Int64)
            continue
        cells = piece[old].str.strip_chars()
        out[new] = cells.cast(pl.Int64, strict=False).alias(new)
        rows.flaws["P105"] += int((cells != "").sum()) - (piece.height - out[new].null_count())
    return pl.DataFrame(out)


# --- rocprof --------------------------------------------------------------------------------------


def _profiled(
    path: Path, table: Table, rows: Rows, progress: Callable[[float], object] | None
) -> Trace:
    """Read kernels that were profiled one by one, with counters or without."""
    if not {"BeginNs", "EndNs"} <= set(table.columns):
        raise rocprof_v1.untimed(path)
    columns = {
        new: old for new, old in rocprof_v1.KERNEL_COLUMNS.items() if not new.startswith("text_")
    }
    table.text.progress = progress
    for piece in table.pieces():
        rocprof_v1.add_kernels(
            rows, numbers(piece, rows, columns).with_columns(text_name=piece["KernelName"])
        )
    if set(table.columns) - rocprof_v1.PLAIN_COLUMNS - {""}:
        rows.flaws["P181"] += table.height
    about = {
        "format": "rocprof",
        "product_version": "rocprof",
        "container": "csv",
        "tables": {"kernels": table.height},
    }
    return finished(path, rows, Agents().table(), about, (table.text.digest, table.text.size_bytes))


def _summary(path: Path) -> TurnbuckleError:
    name = re.sub(r"\.gz$", "", path.name)
    stem = re.sub(r"\.csv$", "", name)
    stem = re.sub(r"\.(?:hip_|hsa_|copy_|kern_)?stats$", "", stem)
    old = [f"{stem}.db", f"{stem}.json", f"{stem}.csv"]
    prefix = re.sub(r"_[a-z]+(?:_(?:api|copy|allocation|memory|collection))?_stats$", "", stem)
    new = [
        f"{prefix}_{kind}"
        for kind in ("results.db", "results.json", "kernel_trace.csv", "hip_api_trace.csv")
    ]
    present = next(
        (n for n in (*old, *new) if n != path.name and (path.parent / n).is_file()), None
    )
    return (
        error_of(
            "P044.stands", where=str(path), found="sums of time by name", present=clipped(present)
        )
        if present
        else error_of("P044.only", where=str(path), found="sums of time by name")
    )


# --- rocprofv3 ------------------------------------------------------------------------------------


class _Set:
    """Files of one run: the one that the user named and those with its prefix."""

    def __init__(self, path: Path, rows: Rows, progress: Callable[[float], object] | None) -> None:
        self.path, self.rows, self.progress = path, rows, progress
        self.agents = Agents()
        self.seen: Counter[str] = Counter()
        #: first and last time [ns] of every file
        self.spans: dict[str, tuple[int, int]] = {}
        self.places = self._places()

    def _places(self) -> dict[str, Path]:
        """Return the files of the set by their kinds."""
        match = _NAMED.fullmatch(self.path.name)
        if match is None:
            return {"": self.path}
        out: dict[str, Path] = {}
        for kind in _KINDS:
            names = (f"{match[1]}{kind}.csv", f"{match[1]}{kind}.csv.gz")
            file = (
                self.path
                if kind == match[2]
                else next((p for n in names if (p := self.path.parent / n).is_file()), None)
            )
            if file is not None and file.stat().st_size:
                out[kind] = file
        return out

    def read(self) -> Trace:
        """Read all files."""
        digests: list[str] = []
        size, done, total = 0, 0, sum(p.stat().st_size for p in self.places.values())
        for kind, place in self.places.items():
            table = Table(place, self.rows, self._part(done, place.stat().st_size, total))
            self._table(kind, table)
            # the digest covers the whole file, also where its rows were not all read
            for _ in table._lines:
                pass
            digests.append(table.text.digest)
            size += table.text.size_bytes
            done += table.text.size_bytes
        self._one_run()
        whole = (
            hashlib.sha256("".join(digests).encode()).hexdigest()
            if len(digests) > 1
            else digests[0]
        )
        if len(self.places) > 1:
            self.rows.flaws["P177"] += len(self.places) - 1
            self.rows.details["P177"] = ", ".join(
                k for k, p in self.places.items() if p != self.path
            )
        about: dict[str, Any] = {
            "format": "rocprofv3",
            "product_version": "rocprofv3",
            "container": "csv",
            "tables": dict(self.seen),
            "files": [k for k in self.places if k],
        }
        return finished(self.path, self.rows, self.agents.table(), about, (whole, size))

    def _part(self, done: int, size: int, total: int) -> Callable[[float], object] | None:
        progress = self.progress
        return (
            None
            if progress is None
            else lambda share: progress(min((done + share * size) / max(total, 1), 1.0))
        )

    def _table(self, kind: str, table: Table) -> None:
        table.need(*_SIGNS.get("api_trace" if kind.endswith("api_trace") else kind, ()))
        sort = table.sort or ""
        if sort == "counter_collection" and "kernel_trace" in self.places:
            self.rows.unread["counter_collection"] += sum(1 for _ in table._lines)
            return
        if sort not in ("agent_info", "scratch_memory_trace"):
            table.need(*_TIMES.values())
        on_device = {
            "kernel_trace": self._kernels,
            "memory_copy_trace": self._copies,
            "counter_collection": self._counted,
        }
        other = {
            "agent_info": self._infos,
            "memory_allocation_trace": self._allocations,
            "scratch_memory_trace": self._scratch,
        }
        add = {**on_device, **other, "api_trace": self._calls}[sort]
        dispatches: set[int] = set()
        for piece in table.pieces():
            times = numbers(piece, self.rows, _TIMES)
            self._spanned(kind, times["start_ns"])
            if add == self._counted:
                dispatch = numbers(piece, self.rows, {"d": "Dispatch_Id"})["d"].to_list()
                fresh = [d not in dispatches and not dispatches.add(d) for d in dispatch]  # type: ignore[func-returns-value]
                piece, times = piece.filter(pl.Series(fresh)), times.filter(pl.Series(fresh))
            add(piece, times)
        self.seen[kind or sort] += table.height

    def _spanned(self, kind: str, starts: pl.Series) -> None:
        times = starts.filter(starts > 0)
        if len(times):
            low, high = int(times.min()), int(times.max())  # type: ignore[arg-type]
            before = self.spans.get(kind, (low, high))
            self.spans[kind] = min(before[0], low), max(before[1], high)

    def _one_run(self) -> None:
        """Raise P050 where files of the set lie more than an hour apart: they are of several
        runs.
        """
        spans = sorted((low, high, kind) for kind, (low, high) in self.spans.items())
        reach = spans[0][1] if spans else 0
        for low, high, kind in spans[1:]:
            if low - reach > _HOUR_NS:
                raise error_of(
                    "P050.set",
                    where=str(self.path),
                    found=(
                        f"{kind}.csv begins {(low - reach) / _HOUR_NS:.1f} h after all before it "
                        "ended"
                    ),
                )
            reach = max(reach, high)

    # --- rows -------------------------------------------------------------------------------------

    def _agent(self, labels: pl.Series, kind: str = "") -> list[int]:
        """Return the numbers of agents by their labels; an agent that the file of agents lacks gets
        the kind that its use shows.
        """
        numbers_of: dict[str, int] = {}
        for label in labels.drop_nulls().unique():
            match = _LABEL.fullmatch(label)
            if match is None:
                continue
            sort = (match[1] or "").lower()
            agent = int(match[2]) + _SORT_OFFSET.get(sort, 0)
            agent_kind = sort.upper() if sort in _SORT_OFFSET else kind
            if agent_kind and agent not in self.agents.kind:
                self.agents.kind[agent] = agent_kind
                if agent_kind == "GPU":
                    self.agents.device[agent] = int(match[2])
                    self.rows.flaws["P169"] += not sort or sort == "agent"
            numbers_of[label] = agent
        return [numbers_of.get(label, NO) if label is not None else NO for label in labels]

    def _infos(self, piece: pl.DataFrame, _: pl.DataFrame) -> None:
        columns = {
            "multiprocessors": "Cu_Count",
            "copy_engines": "Num_Sdma_Engines",
            "clock": "Max_Engine_Clk_Fcompute",
        }
        words_of = piece.select(
            c for c in ("Agent_Type", "Name", "Product_Name") if c in piece.columns
        )
        agents = numbers(piece, self.rows, {"node": "Node_Id", **columns}).hstack(words_of)
        counted: Counter[str] = Counter(
            self.agents.kind[a] for a in self.agents.kind if a < _SORT_OFFSET["gpu"]
        )
        for row in agents.sort("node").iter_rows(named=True):
            kind = str(row["Agent_Type"]).strip()
            if row["node"] is None or kind not in ("CPU", "GPU"):
                continue
            figures = {c: row[c] for c in ("multiprocessors", "copy_engines") if row[c]}
            clock = 1_000_000 * min(row["clock"] or 0, 1_000_000)
            place = counted[kind]
            self.agents.add(
                row["node"],
                kind,
                place,
                chip=row.get("Name"),
                name=row.get("Product_Name"),
                clock_hz=clock,
                **figures,
            )
            key = place + _SORT_OFFSET[kind.lower()]
            self.agents.kind[key] = kind
            if kind == "GPU":
                self.agents.device[key] = place
            counted[kind] += 1

    def _works(
        self, piece: pl.DataFrame, times: pl.DataFrame, columns: dict[str, str]
    ) -> pl.DataFrame:
        common = {
            "pid": "Process_Id",
            "stream": "Stream_Id",
            "queue": "Queue_Id",
            "correlation": "Correlation_Id",
        }
        out = times.hstack(numbers(piece, self.rows, common | columns))
        return out.with_columns(pl.when(pl.col("correlation") != 0).then("correlation"))

    def _kernels(self, piece: pl.DataFrame, times: pl.DataFrame) -> None:
        sides = {
            f"{what}_{axis}": f"{what}_Size_{axis}"
            for what in ("Grid", "Workgroup")
            for axis in "XYZ"
        }
        shared = "LDS_Block_Size" if "LDS_Block_Size" in piece.columns else "Group_Segment_Size"
        columns = {
            "vectors": "VGPR_Count",
            "more": "Accum_VGPR_Count",
            "shared_bytes": shared,
            **sides,
        }
        out = self._works(piece, times, columns)
        shapes = [
            blocks_of(e[:3], e[3:]) for e in out.select(list(sides)).fill_null(NO).iter_rows()
        ]
        self._shaped(piece, out, [s[0] for s in shapes], [s[1] for s in shapes])

    def _counted(self, piece: pl.DataFrame, times: pl.DataFrame) -> None:
        columns = {
            "vectors": "VGPR_Count",
            "more": "Accum_VGPR_Count",
            "shared_bytes": "LDS_Block_Size",
        }
        sizes = {"grid": "Grid_Size", "group": "Workgroup_Size"}
        out = self._works(piece, times, columns | sizes)
        shapes = [
            blocks_of((g,), (w,)) for g, w in out.select(list(sizes)).fill_null(NO).iter_rows()
        ]
        self.rows.flaws["P181"] += piece.height
        self._shaped(piece, out, [s[0] for s in shapes], [s[1] for s in shapes])

    def _shaped(
        self, piece: pl.DataFrame, out: pl.DataFrame, blocks: list[int], threads: list[int]
    ) -> None:
        device = [self.agents.gpu(a) for a in self._agent(_texts(piece, "Agent_Id"), "GPU")]
        columns = {"blocks": blocks, "threads": threads, "device": device}
        more = present(pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.Int64)))
        registers = pl.when(pl.col("vectors") > 0).then(
            pl.col("vectors") + pl.col("more").fill_null(0).clip(0)
        )
        name = named(_texts(piece, "Kernel_Name"), self.rows, kernel_name)
        self.rows.frame("kernels", out.hstack(more).with_columns(name=name, registers=registers))

    def _copies(self, piece: pl.DataFrame, times: pl.DataFrame) -> None:
        out = self._works(piece, times, {"size_bytes": "Size"})
        words = _texts(piece, "Direction").fill_null("").to_list()
        sides = {
            w: ["GPU" if s == "DEVICE" else "CPU" for s in re.findall("HOST|DEVICE", w)]
            for w in set(words)
        }
        ends: list[list[int]] = []
        for column, side in (("Source_Agent_Id", 0), ("Destination_Agent_Id", 1)):
            labels, agents = _texts(piece, column), [NO] * piece.height
            for kind in ("CPU", "GPU", ""):
                rows_of_kind = [
                    i
                    for i, w in enumerate(words)
                    if (sides[w][side] if len(sides[w]) == 2 else "") == kind
                ]
                for i, agent in zip(
                    rows_of_kind, self._agent(labels.gather(rows_of_kind), kind), strict=True
                ):
                    agents[i] = agent
            ends.append(agents)
        directions = [self.agents.copy(w, s, t) for w, s, t in zip(words, *ends, strict=True)]
        columns = ("direction", "device", "source_device", "target_device")
        more = present(
            pl.DataFrame(directions, schema=dict.fromkeys(columns, pl.Int64), orient="row")
        )
        self.rows.frame("copies", out.hstack(more))

    def _calls(self, piece: pl.DataFrame, times: pl.DataFrame) -> None:
        out = self._works(piece, times, {"tid": "Thread_Id"}).with_columns(
            domain=_texts(piece, "Domain").fill_null("")
        )
        out = out.with_columns(text=_texts(piece, "Function"))
        domain = pl.col("domain")
        for prefix, level in (("HIP", RUNTIME), ("HSA", DRIVER)):
            calls = out.filter(domain.str.starts_with(prefix))
            self.rows.frame(
                "api", calls.with_columns(name=named(calls["text"], self.rows), level=pl.lit(level))
            )
        mark = pl.col("end_ns") == pl.col("start_ns")
        marks = out.filter(domain.str.starts_with("MARKER"))
        marks = marks.with_columns(
            name=named(marks["text"], self.rows), kind=pl.when(mark).then(MARK).otherwise(PUSHED)
        )
        self.rows.frame("ranges", marks.with_columns(end_ns=pl.when(~mark).then("end_ns")))
        read = (
            domain.str.starts_with("HIP")
            | domain.str.starts_with("HSA")
            | domain.str.starts_with("MARKER")
        )
        self.rows.unread["calls of other libraries"] += int(out.select((~read).sum()).item())

    def _allocations(self, piece: pl.DataFrame, times: pl.DataFrame) -> None:
        out = self._works(piece, times, {"size": "Allocation_Size"}).with_columns(
            agent=pl.Series(self._agent(_texts(piece, "Agent_Id")), dtype=pl.Int64),
            operation=_texts(piece, "Operation").fill_null(""),
            address=_texts(piece, "Address")
            .str.strip_prefix("0x")
            .str.to_integer(base=16, strict=False),
        )
        wanted = ("start_ns", "pid", "agent", "correlation", "size", "address")
        for time, pid, agent, *amounts, operation in out.select(
            pl.col(wanted).cast(pl.Int64).fill_null(NO), "operation"
        ).iter_rows():
            add_allocation(self.rows, operation, time, pid, self.agents, agent, amounts)

    def _scratch(self, piece: pl.DataFrame, _: pl.DataFrame) -> None:
        self.rows.unread["scratch_memory"] += piece.height


def _texts(piece: pl.DataFrame, column: str) -> pl.Series:
    return (
        piece[column]
        if column in piece.columns
        else pl.Series(column, [None] * piece.height, dtype=pl.String)
    )
