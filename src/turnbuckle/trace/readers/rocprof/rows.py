"""Rows that all readers of AMD's profilers produce, and their assembly to the tables of the
vocabulary.

Every format gives the same rows (`COLUMNS`): absolute times, process and thread numbers of the
system, agents as the file numbers them.  `assembled` puts the times on one clock that starts at the
first row, gives processes and threads the ids of the vocabulary, and joins calls to the work that
they started.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.schema import words
from turnbuckle.trace.ids import MOST_THREADS, id_of
from turnbuckle.trace.readers.parts.mpi_tables import LARGEST, NO, Names
from turnbuckle.trace.readers.rocprof import graphs as rocprof_graphs
from turnbuckle.trace.trace import completed, dtypes

_WORK: Final = ("start_ns", "end_ns", "pid", "device", "stream", "queue", "correlation")
#: Columns of the rows that a format gives, by table; all are integers, `NO` where the file does not
#: say.
COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "api": ("start_ns", "end_ns", "pid", "tid", "correlation", "ancestor", "name", "level", "size"),
    "kernels": (*_WORK, "name", "blocks", "threads", "registers", "shared_bytes"),
    "copies": (*_WORK, "size_bytes", "direction", "source_device", "target_device"),
    "memsets": (*_WORK, "size_bytes"),
    "ranges": ("start_ns", "end_ns", "pid", "tid", "kind", "name"),
    "allocations": (
        "time_ns",
        "pid",
        "device",
        "correlation",
        "size_bytes",
        "operation",
        "memory",
        "address",
    ),
}
RUNTIME, DRIVER = 0, 1
MARK, PUSHED, BEGUN = 34, 59, 60
DIRECTION: Final = {word: code for code, word in enumerate(words("directions"))}
MEMORY: Final = {word: code for code, word in enumerate(words("memories"))}
#: Process numbers of the file lie below this; larger ones are replaced.
LARGEST_PID: Final = 1 << 30
_PIECE_ROWS: Final = 1 << 16
_AWAY_NS: Final = 1 << 52
_SMALL: Final = (1 << 31) - 1
_AMOUNTS: Final = ("size_bytes", "blocks", "threads", "registers", "shared_bytes")
#: Kernels by which AMD's runtime copies and sets memory.
_BLIT: Final = re.compile(r"^(?:__amd_rocclr_|__hip)?(?:copy|fill)(?:Buffer|Image)", re.IGNORECASE)
_HOST_CLONE: Final = re.compile(r"(?: \[clone \.kd\]|\.kd)$")


class Rows:
    """Rows of all tables of `COLUMNS` in pieces of bounded size, and counts of flaws met while
    reading them.

    Attributes
    ----------
    flaws : counts of future findings, by code; `details` are their details.
    unread : number of records of each kind that no table holds.
    """

    def __init__(self) -> None:
        self.names = Names()
        self.flaws: Counter[str] = Counter()
        self.details: dict[str, str] = {}
        self.unread: Counter[str] = Counter()
        self._open: dict[str, list[tuple[int, ...]]] = {name: [] for name in COLUMNS}
        self._pieces: dict[str, list[pl.DataFrame]] = {name: [] for name in COLUMNS}

    def name(self, text: object) -> int:
        """Return the index of a text; `NO` for anything else."""
        if not isinstance(text, str):
            self.flaws["P105"] += text is not None
            return NO
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode("utf-8")
        return self.names(text)

    def add(self, table: str, row: tuple[int, ...]) -> None:
        """Add one row, in the order of `COLUMNS`."""
        rows = self._open[table]
        rows.append(row)
        if len(rows) >= _PIECE_ROWS:
            self._close(table)

    def frame(self, table: str, piece: pl.DataFrame) -> None:
        """Add many rows at once; columns that the piece lacks are null, further columns of it are
        ignored.
        """
        columns = [
            pl.col(c).cast(pl.Int64) if c in piece.columns else pl.lit(None, pl.Int64).alias(c)
            for c in COLUMNS[table]
        ]
        self._pieces[table].append(piece.select(columns))

    def _close(self, table: str) -> None:
        rows = self._open[table]
        if rows:
            values = np.array(rows, dtype=np.int64)
            piece = pl.DataFrame({c: values[:, i] for i, c in enumerate(COLUMNS[table])})
            self._pieces[table].append(present(piece))
            rows.clear()

    def table(self, name: str) -> pl.DataFrame:
        """Return all rows of a table so far, null where the file does not say."""
        self._close(name)
        if len(self._pieces[name]) > 1:
            self._pieces[name] = [pl.concat(self._pieces[name])]
        return (
            self._pieces[name][0]
            if self._pieces[name]
            else pl.DataFrame(schema=dict.fromkeys(COLUMNS[name], pl.Int64))
        )

    def replaced(self, name: str, frame: pl.DataFrame) -> None:
        """Replace the rows of a table."""
        self._open[name].clear()
        self._pieces[name] = [frame.select(COLUMNS[name])]

    def number(self, value: object) -> int:
        """Return an integer of the file, or one in a text; `NO`, and counted, for anything else."""
        if type(value) is int:
            if -LARGEST < value < LARGEST:
                return value
            self.flaws["P106"] += 1
            return NO
        if value is None:
            return NO
        if isinstance(value, str):
            return self._written(value)
        self.flaws["P105"] += 1
        return NO

    def _written(self, text: str) -> int:
        if text == "":
            return NO
        try:
            number = int(text[:40], 16) if text[:2] in ("0x", "0X") else int(text[:40])
        except ValueError:
            self.flaws["P105"] += 1
            return NO
        if -LARGEST < number < LARGEST and len(text) <= 40:
            return number
        self.flaws["P106"] += 1
        return NO


def present(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with null for `NO`."""
    return frame.select(pl.when(pl.all() != NO).then(pl.all()))


def kernel_name(text: str) -> str:
    """Return a kernel's name without quotation marks and without the suffixes of the compiler.

    >>> kernel_name('"void f(int) [clone .kd]"'), kernel_name("__amd_rocclr_copyBuffer.kd")
    ('void f(int)', '__amd_rocclr_copyBuffer')
    """
    return _HOST_CLONE.sub("", unquoted(text))


def unquoted(text: str) -> str:
    """Return a text without the quotation marks around it."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def named(texts: pl.Series, rows: Rows, change: Callable[[str], str] = unquoted) -> pl.Series:
    """Return the indices of texts, each distinct text changed and looked up once."""
    distinct = texts.drop_nulls().unique(maintain_order=True).to_list()
    return texts.replace_strict(
        distinct, [rows.name(change(t)) for t in distinct], default=None, return_dtype=pl.Int64
    )


def short_name(text: str) -> str:
    """Return a kernel's name without result, name spaces, template and call arguments.

    >>> short_name("void a::b<int, c::d>::scale<float>(float*, int)"), short_name("f(int)"), short_name("")
    ('scale', 'f', '')
    """
    plain = _without_brackets(text.replace("(anonymous namespace)", "anonymous")).strip()
    return plain.split(" ")[-1].rsplit("::", 1)[-1] or text


def _without_brackets(text: str) -> str:
    out: list[str] = []
    depth = 0
    for letter in text:
        if letter == "<":
            depth += 1
        elif letter == ">" and depth:
            depth -= 1
        elif not depth:
            if letter == "(":
                break
            out.append(letter)
    return "".join(out)


def blocks_of(grid: Sequence[int], group: Sequence[int]) -> tuple[int, int]:
    """Return blocks and threads per block of a grid in work-items and a work-group, each by
    dimension; `NO` where one is not recorded.

    >>> blocks_of((1024, 6, 1), (256, 4, 1))
    (8, 1024)
    """
    if NO in grid or NO in group or min(group) < 1 or min(grid) < 1:
        return NO, NO
    blocks = threads = 1
    for items, size in zip(grid, group, strict=True):
        blocks *= -(-items // size)
        threads *= size
    return (blocks, threads) if blocks < LARGEST and threads < LARGEST else (NO, NO)


def direction_of(word: str, source: str, target: str, same: bool | None) -> int:
    """Return the direction code of a copy.

    Parameters
    ----------
    word : the profiler's name of the direction (``MEMORY_COPY_HOST_TO_DEVICE``,
        ``CopyDeviceToHost``), where it has one.
    source, target : ``CPU``, ``GPU`` or nothing, for the two agents.
    same : whether both are one agent; None where that is not recorded.

    >>> [direction_of("", "CPU", "GPU", False), direction_of("", "GPU", "GPU", False), direction_of("CopyDeviceToHost", "", "", None)]
    [1, 4, 2]
    """
    ends = (source, target) if source and target else _ends(word)
    if ends == ("GPU", "GPU"):
        return DIRECTION["p2p" if same is False else "d2d"]
    return DIRECTION[
        {("CPU", "GPU"): "h2d", ("GPU", "CPU"): "d2h", ("CPU", "CPU"): "h2h"}.get(ends, "unknown")
    ]


@lru_cache(maxsize=4096)
def _ends(word: str) -> tuple[str, str]:
    match = re.search(r"(host|device)_?to_?(host|device)", word[:200], re.IGNORECASE)
    side = {"host": "CPU", "device": "GPU"}
    return (side[match[1].lower()], side[match[2].lower()]) if match else ("", "")


# --- rows to tables -------------------------------------------------------------------------------


def assembled(
    rows: Rows, devices: pl.DataFrame | None = None
) -> tuple[dict[str, pl.DataFrame], pl.Series, int, list[Finding]]:
    """Return tables of the vocabulary, names, the base of the clock [ns], and findings.

    Parameters
    ----------
    devices : the table ``devices``, where the file describes any.
    """
    frames = {name: _stamped(rows.table(name)) for name in COLUMNS}
    base = _base(frames)
    only_process = _only_process(frames)
    if only_process is not None:
        frames = {
            name: frame.with_columns(pl.col("pid").fill_null(only_process))
            for name, frame in frames.items()
        }
    frames["allocations"] = _frees(frames["allocations"])
    _numbered(frames, rows)
    _sizes_of_calls(frames, rows)
    frames["api"], outermost = _rooted(frames["api"])
    process, threads = _places(frames)
    tables: dict[str, pl.DataFrame] = {}
    shorts = _shorts(frames["kernels"], rows)
    for name, frame in frames.items():
        if not frame.height:
            continue
        if name not in ("api", "ranges"):
            frame = frame.with_columns(correlation=_follow(frame, outermost))
        frame = frame.with_columns(process=look_up(frame["pid"], process))
        if "tid" in frame.columns:
            frame = frame.join(
                threads, on=["pid", "tid"], how="left", maintain_order="left", nulls_equal=True
            )
        tables[name] = _table(name, frame, base, shorts)
        rows.flaws["P106"] += sum(
            tables[name][c].null_count() - frame[c].null_count()
            for c in _AMOUNTS
            if c in frame.columns
        )
    rows.flaws["P167"] += rocprof_graphs.numbered(tables, rows.names.series())
    _count(tables, rows)
    streams = _streams(tables)
    if streams.height:
        tables["streams"] = streams
    if devices is not None and devices.height:
        tables["devices"] = devices
    else:
        rows.flaws["P123"] += 1
    findings = [
        finding(code, count, rows.details.get(code, ""))
        for code, count in sorted(rows.flaws.items())
        if count
    ]
    return tables, rows.names.series(), base, findings


def _stamped(frame: pl.DataFrame) -> pl.DataFrame:
    """Replace times of 0 or less, which are lost stamps, by null."""
    times = [c for c in ("start_ns", "end_ns", "time_ns") if c in frame.columns]
    return frame.with_columns(pl.when(pl.col(c) > 0).then(pl.col(c)) for c in times)


def _base(frames: dict[str, pl.DataFrame]) -> int:
    """Return the first time [ns] of the recording's bulk: a stray row may not move the clock."""
    starts = [
        f[c]
        for f in frames.values()
        for c in ("start_ns", "time_ns")
        if c in f.columns and f.height
    ]
    times = (
        pl.concat([s.drop_nulls().alias("t") for s in starts])
        if starts
        else pl.Series("t", [], dtype=pl.Int64)
    )
    if times.is_empty():
        return 0
    middle = int(times.sort()[len(times) // 2])
    return int(times.filter(times > middle - _AWAY_NS).min())  # type: ignore[arg-type]


def _sizes_of_calls(frames: dict[str, pl.DataFrame], rows: Rows) -> None:
    """Fill sizes of copies and sets that only their calls state, where a call started one record of
    that kind.
    """
    calls = frames["api"].filter(pl.col("size").is_not_null() & pl.col("correlation").is_not_null())
    detail = ""
    for name in ("copies", "memsets"):
        frame = frames[name]
        if calls.height and frame["size_bytes"].null_count():
            keys = (
                ["pid", "correlation"]
                if frame["pid"].null_count() == 0 and calls["pid"].null_count() == 0
                else ["correlation"]
            )
            sizes = calls.group_by(keys).agg(
                pl.col("size").first(), unique=pl.col("size").n_unique() == 1
            )
            sizes = sizes.filter("unique").select(*keys, "size")
            before = frame["size_bytes"].null_count()
            alone = pl.len().over(keys) == 1
            frame = frame.with_columns(alone=alone).join(
                sizes, on=keys, how="left", maintain_order="left"
            )
            size = pl.when("alone").then(pl.coalesce("size_bytes", "size")).otherwise("size_bytes")
            frames[name] = frame.with_columns(size_bytes=size).select(COLUMNS[name])
            if name == "copies" and (more := before - frames[name]["size_bytes"].null_count()):
                detail = f"of {more} more the call tells it"
    if missing := frames["copies"]["size_bytes"].null_count():
        rows.flaws["P166"] += missing
        rows.details["P166"] = detail


def _rooted(api: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the calls under the id of the outermost call around them, and that id by process and
    the call's own id.

    The profilers number every call, also those inside another, and a device record has the number
    of the innermost.
    """
    numbered = api.filter(pl.col("correlation").is_not_null()).unique(
        ["pid", "correlation"], keep="first", maintain_order=True
    )
    # an ancestor that is no recorded call (a range, a call of a library) is ignored
    calls = numbered.select("pid", ancestor="correlation", above="correlation")
    numbered = numbered.join(
        calls, on=["pid", "ancestor"], how="left", maintain_order="left", nulls_equal=True
    )
    parents = numbered.select("pid", "correlation", above=pl.coalesce("above", "correlation"))
    root = parents.rename({"above": "root"})
    for _ in range(16):
        on = {"left_on": ["pid", "root"], "right_on": ["pid", "correlation"]}
        step = root.join(parents, how="left", maintain_order="left", nulls_equal=True, **on)  # type: ignore[arg-type]
        higher = step.select("pid", "correlation", root=pl.coalesce("above", "root"))
        if higher["root"].equals(root["root"]):
            break
        root = higher
    joined = api.join(
        root, on=["pid", "correlation"], how="left", maintain_order="left", nulls_equal=True
    )
    moved = root.filter(pl.col("root") != pl.col("correlation"))
    return joined.with_columns(correlation=pl.coalesce("root", "correlation")).drop("root"), moved


def _follow(frame: pl.DataFrame, outermost: pl.DataFrame) -> pl.Series:
    if not outermost.height:
        return frame["correlation"]
    joined = frame.select("pid", "correlation").join(
        outermost, on=["pid", "correlation"], how="left", maintain_order="left", nulls_equal=True
    )
    return joined.select(pl.coalesce("root", "correlation")).to_series()


def _only_process(frames: dict[str, pl.DataFrame]) -> int | None:
    """Return the process, where the file names exactly one."""
    pids = pl.concat([f["pid"].drop_nulls().unique() for f in frames.values()]).unique()
    return int(pids[0]) if len(pids) == 1 else None


def _places(frames: dict[str, pl.DataFrame]) -> tuple[dict[int, int], pl.DataFrame]:
    """Return the ids of processes, and of threads by process and thread number; a number beyond its
    bits gets another one.
    """
    pids = sorted(
        pl.concat([f["pid"].drop_nulls().unique() for f in frames.values()]).unique().to_list()
    )
    free = _free({p for p in pids if 0 < p < LARGEST_PID}, LARGEST_PID - 1)
    process = {p: id_of(p if 0 < p < LARGEST_PID else next(free)) for p in pids}
    places = (
        pl.concat([f.select("pid", "tid").unique() for f in (frames["api"], frames["ranges"])])
        .unique()
        .sort("pid", "tid")
    )
    out: list[tuple[int | None, int | None, int]] = []
    for _, group in places.group_by("pid", maintain_order=True):
        others = _free(
            {t for t in group["tid"] if t is not None and 0 < t < MOST_THREADS}, MOST_THREADS - 1
        )
        for pid, tid in group.iter_rows():
            number = tid if tid is not None and 0 < tid < MOST_THREADS else next(others)
            out.append((pid, tid, (process[pid] if pid is not None else 0) | number))
    return process, pl.DataFrame(
        out, schema={"pid": pl.Int64, "tid": pl.Int64, "thread": pl.Int64}, orient="row"
    )


def _free(used: set[int], top: int) -> Iterator[int]:
    """Yield unused numbers, from the largest down; past the last one they are shared."""
    number = top
    while True:
        while number > 1 and number in used:
            number -= 1
        yield number
        number = max(number - 1, 1)


def look_up(keys: pl.Series, values: dict[int, int]) -> pl.Series:
    """Return the value of each key, null where it has none; the keys themselves where no key has a
    value.
    """
    return (
        keys.replace_strict(
            list(values), list(values.values()), default=None, return_dtype=pl.Int64
        )
        if values
        else keys
    )


def _shorts(kernels: pl.DataFrame, rows: Rows) -> dict[int, int]:
    used = kernels["name"].drop_nulls().unique().sort().to_list()
    names = rows.names.series()
    if blit := [n for n in used if _BLIT.match(names[n])]:
        rows.flaws["P179"] += int(kernels["name"].is_in(blit).sum())
    return {n: rows.names(short_name(names[n])) for n in used}


def _table(name: str, frame: pl.DataFrame, base: int, shorts: dict[int, int]) -> pl.DataFrame:
    """Return a table of the vocabulary in ascending order of time; columns that the rows lack are
    null.
    """
    times = [c for c in ("start_ns", "end_ns", "time_ns") if c in frame.columns]
    frame = frame.with_columns(*(pl.col(c) - base for c in times))
    if name == "api":
        frame = frame.with_columns(pl.col("process").fill_null(0))
    elif name == "kernels":
        frame = frame.with_columns(short_name=look_up(frame["name"], shorts))
    elif name == "copies":
        ends = {"target_memory": ("h2d", "d2d", "p2p"), "source_memory": ("d2h", "d2d", "p2p")}
        on_device = {
            c: pl.col("direction").is_in([DIRECTION[w] for w in which]) for c, which in ends.items()
        }
        frame = frame.with_columns(
            pl.when(is_it).then(MEMORY["device"]).otherwise(MEMORY["unknown"]).alias(c)
            for c, is_it in on_device.items()
        )
    elif name == "memsets":
        frame = frame.with_columns(memory=pl.lit(MEMORY["unknown"]))
    frame = completed(
        name,
        frame.with_columns(_within(c, t) for c, t in dtypes(name).items() if c in frame.columns),
    )
    by = [times[0], *(["end_ns"] if "end_ns" in times else [])]
    return frame.sort(by, descending=[False, True][: len(by)], nulls_last=True, maintain_order=True)


def _within(column: str, kind: type[pl.DataType]) -> pl.Expr:
    """Return a column without numbers that its type cannot hold, or that no amount can be."""
    most = 127 if kind == pl.Int8 else _SMALL if kind == pl.Int32 else None
    value = pl.col(column)
    if column in _AMOUNTS:
        return pl.when(value.is_between(0, most or LARGEST)).then(value).alias(column)
    return (
        value if most is None else pl.when(value.is_between(-most, most)).then(value).alias(column)
    )


def _numbered(frames: dict[str, pl.DataFrame], rows: Rows) -> None:
    """Replace streams and devices by numbers that their columns can hold; the stream is the HIP
    stream where recorded, else the queue.
    """
    works = ("kernels", "copies", "memsets")
    for name in works:
        frames[name] = frames[name].with_columns(stream=pl.coalesce("stream", "queue"))
    for column, tables in (("stream", works), ("device", (*works, "allocations"))):
        used = pl.concat([frames[t][column] for t in tables]).drop_nulls().unique().sort()
        if len(used) and not (used.is_between(-_SMALL, _SMALL)).all():
            anew = {int(handle): number for number, handle in enumerate(used)}
            rows.flaws["P180"] += len(anew)
            for name in tables:
                frames[name] = frames[name].with_columns(
                    look_up(frames[name][column], anew).alias(column)
                )


def _count(tables: dict[str, pl.DataFrame], rows: Rows) -> None:
    copies = tables.get("copies")
    if copies is not None:
        host = copies["direction"].is_in([DIRECTION["h2d"], DIRECTION["d2h"]])
        rows.flaws["P113"] += int(host.sum())
        rows.flaws["P127"] += int((copies["direction"] == DIRECTION["unknown"]).sum())
    rows.flaws["P178"] += sum(rows.unread.values())
    rows.details["P178"] = ", ".join(f"{what} {count}" for what, count in rows.unread.most_common())


def _frees(frame: pl.DataFrame) -> pl.DataFrame:
    """Give releases the size, device and memory of the last allocation at their address, where they
    do not state their own.
    """
    if not frame.height:
        return frame
    frame = frame.sort("time_ns", nulls_last=True, maintain_order=True)
    live: dict[tuple[int | None, int | None], tuple[int | None, int | None, int | None]] = {}
    amounts: list[tuple[int | None, int | None, int | None]] = []
    for pid, address, operation, *amounts_of_row in frame.select(
        "pid", "address", "operation", "size_bytes", "device", "memory"
    ).iter_rows():
        size, device, memory = amounts_of_row
        if operation == 0:
            live[pid, address] = size, device, memory
        elif address is not None and (allocation := live.pop((pid, address), None)) is not None:
            size, device, memory = allocation
        amounts.append((size, device, memory))
    better = pl.DataFrame(
        amounts, schema={c: pl.Int64 for c in ("size_bytes", "device", "memory")}, orient="row"
    )
    return frame.with_columns(better)


def _streams(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    used = [
        tables[t].select("process", "stream")
        for t in ("kernels", "copies", "memsets")
        if t in tables
    ]
    if not used:
        return pl.DataFrame(schema=dtypes("streams"))
    frame = (
        pl.concat(used).filter(pl.col("stream").is_not_null()).unique().sort("process", "stream")
    )
    return completed("streams", frame)
