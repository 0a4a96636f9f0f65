"""Reader of the recordings of ``turnbuckle record``: one text file per process, ``turnbuckle-trace
1``.

`read` reads one file, `together` those of all processes of a run.  Times are CLOCK_MONOTONIC, one
clock for all processes of a machine.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.schema import tables, words
from turnbuckle.trace.ids import id_of, process_number, thread_number
from turnbuckle.trace.readers.parts.mpi_tables import Names
from turnbuckle.trace.readers.recorded.clocks import aligned
from turnbuckle.trace.readers.recorded.delays import link_of, link_words, slack_of, slack_words
from turnbuckle.trace.readers.recorded.mpi import (
    asked_by_layer,
    carried_by,
    communicators_of,
    not_told,
    processes,
)
from turnbuckle.trace.readers.recorded.text import FIRST, KINDS, Recorded, load
from turnbuckle.trace.readers.rocprof.rows import BEGUN, MARK, PUSHED, short_name
from turnbuckle.trace.trace import Trace, dtypes

_DIRECTION: Final = {word: code for code, word in enumerate(words("directions"))}
#: CUPTI's kinds of copies, and its counters of unified memory that are migrations.
_COPIES: Final = {
    1: "h2d",
    2: "d2h",
    3: "h2d",
    4: "d2h",
    5: "d2d",
    6: "d2d",
    7: "d2d",
    8: "d2d",
    9: "h2h",
    10: "p2p",
}
_MIGRATIONS: Final = {1: "migration_h2d", 2: "migration_d2h", 8: "migration_d2d"}
_CPU_FAULT, _GPU_FAULT = 3, 4
#: The vocabulary's numbers for CUPTI's kinds of overhead; a delay by the recorder has its own
#: (`DELAY`).
_OVERHEADS: Final = {
    1: 2,
    1 << 16: 3,
    2 << 16: 4,
    3 << 16: 5,
    4 << 16: 6,
    5 << 16: 7,
    6 << 16: 8,
    7 << 16: 9,
    8 << 16: 10,
}
INSTRUMENTATION: Final = 4
DELAY: Final = 100
"""Kind of overhead that a delay of ``record --slack`` has."""
#: Flags of an NVTX record: mark, begin of a range, end of a range.
_SET, _BEGUN, _ENDED = 1, 2, 4
_MAPPED, _MIGRATED = 256, 512
_MEMORIES: Final = len(words("memories"))
_SMALL: Final = (1 << 31) - 1
_AWAY_NS: Final = 1 << 52
_LARGEST: Final = 1 << 62
#: The realtime clock minus the monotonic clock differs by less than this between processes of one
#: machine since its last boot [ns].
_ONE_MACHINE_NS: Final = 60_000_000_000
Progress = Callable[[float], object]


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the file begins as a Turnbuckle recording does."""
    return head.startswith(FIRST)


def read(path: Path, *, threads: int = 0, progress: Progress | None = None) -> Trace:
    """Read the recording of one process.  Raises `ProfileError` (P063 to P065)."""
    return together([path], progress=progress)


def together(paths: Sequence[Path], *, name: str = "", progress: Progress | None = None) -> Trace:
    """Read the recordings of all processes of a run into one trace.

    Raises P063 another version, P064 no columns, P065 no records at all, P066 files of several
    machines, or of one that was booted between them.

    Parameters
    ----------
    name : name of the trace; the first file's name if empty.
    """
    files: list[Recorded] = []
    for place, path in enumerate(paths):
        share = None if progress is None else _share(progress, place, len(paths))
        files.append(load(path, share))
    _one_machine(files)
    if not any(file.count for file in files):
        raise _empty(files)
    moved = [aligned(file) for file in files]
    commands, clocks = (
        sum(count for count, _ in moved),
        [text for _, texts in moved for text in texts],
    )
    skewed = [finding("P212", commands, "; ".join(clocks[:6]))] if commands else []
    return _Assembly([file for file in files if file.count], files, skewed).trace(
        name or paths[0].name
    )


def _share(progress: Progress, place: int, of: int) -> Progress:
    return lambda share: progress((place + share) / of)


def _empty(files: list[Recorded]) -> TurnbuckleError:
    refused = next((file.last("refused") for file in files if "refused" in file.facts), "")
    return error_of(
        "P065.refused" if refused else "P065.empty",
        where=str(files[0].path),
        found=f"refused: {clipped(refused, 120)}" if refused else "facts alone",
    )


def _one_machine(files: list[Recorded]) -> None:
    offsets = [offset for file in files if (offset := _utc(file)) is not None]
    if offsets and max(offsets) - min(offsets) > _ONE_MACHINE_NS:
        raise error_of(
            "P066",
            where=str(files[0].path),
            found=f"their clocks stand {(max(offsets) - min(offsets)) / 1e9:.0f} s apart",
        )


def _clocks(file: Recorded) -> list[tuple[int, int, int]]:
    """Return monotonic time, CUPTI's and UTC minus monotonic time [ns], for each look of the
    recorder at the clocks.
    """
    readings = []
    for line in file.facts.get("clock", []):
        if match := re.fullmatch(r"(-?\d{1,19}) (-?\d{1,19}) (-?\d{1,19})(?: -?\d{1,19})?", line):
            readings.append((int(match[1]), int(match[2]), int(match[3])))
    return readings


def _utc(file: Recorded) -> int | None:
    clocks = _clocks(file)
    return clocks[0][2] if clocks and abs(clocks[0][2]) < _LARGEST else None


class _Assembly:
    """Tables of all processes, on one clock that starts at the first record."""

    def __init__(
        self, files: list[Recorded], all_files: list[Recorded], skewed: list[Finding]
    ) -> None:
        self.files, self.all_files = files, all_files
        self.process = processes(files)
        self.names, self.flaws = Names(), dict.fromkeys(("P106", "P127", "P128", "P164"), 0)
        self.base = min(_begin(file, _moved_by(file)) for file in files)
        self.parts: dict[str, list[pl.DataFrame]] = {}
        # first of all, because making the tables removes the records one by one
        self.facts, self.stated_flaws = self._facts(), [*self._stated_flaws(), *skewed]

    def trace(self, name: str) -> Trace:
        """Return the trace of all processes."""
        for file, process in zip(self.files, self.process, strict=True):
            tables_of_process = _Process(file, process, self)
            for table, frame in tables_of_process.tables():
                if frame.height:
                    self.parts.setdefault(table, []).append(self.fitted(table, frame))
        tables = {}
        for table in dtypes_of_all():
            if table in self.parts:
                frame = pl.concat(self.parts.pop(table), rechunk=True)
                time = next((c for c in ("start_ns", "time_ns") if c in frame.columns), None)
                tables[table] = (
                    frame.sort(time, maintain_order=True)
                    if time
                    else frame.unique(maintain_order=True)
                )
        if (devices := _devices(self.files)).height:
            tables["devices"] = devices
        flaws = {**self.flaws, "P123": int("devices" not in tables)}
        findings = [
            *(finding(code, count) for code, count in flaws.items() if count),
            *self.stated_flaws,
        ]
        return Trace(tables, self.names.series(), self.facts, findings, name)

    def fitted(self, table: str, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the columns of the vocabulary; numbers that a column cannot hold are null, and
        counted.
        """
        out = []
        for column, kind in dtypes(table).items():
            if column not in frame.columns:
                out.append(pl.Series(column, [None], dtype=kind).new_from_index(0, frame.height))
                continue
            values = frame[column]
            if kind in (pl.Int32, pl.Int8):
                small = values.cast(kind, strict=False)
                self.flaws["P106"] += small.null_count() - values.null_count()
                values = small
            out.append(values.cast(kind).alias(column))
        return pl.DataFrame(out)

    def _facts(self) -> dict[str, Any]:
        recorders = sorted({clipped(file.last("recorder"), 40) for file in self.files} - {""})
        version = _cuda_version(self.files[0].number("cupti_library"))
        utc = _utc(self.files[0])
        counts = {
            words: sum(file.table(letter).height for file in self.files)
            for letter, (words, _) in KINDS.items()
        }
        writer = version or ", ".join(recorders) or "its kit"
        writing = sum(_writing_ns(f) for f in self.files if f.last("api") != "mpi")
        dropped = sum(map(_dropped, self.files))
        facts: dict[str, Any] = {
            "format": "recorded",
            "schema_version": "1",
            "product_version": f"Turnbuckle ({writer})",
            "tables": {word: count for word, count in counts.items() if count},
            "session_start_utc_ns": None
            if utc is None or abs(self.base + utc) > _LARGEST
            else self.base + utc,
            "analysis_duration_ns": self._length(),
            "size_bytes": sum(file.size_bytes for file in self.all_files),
            "sha256": _digest(self.all_files),
        }
        facts["recorder"] = {
            "processes": len(set(self.process)),
            "records": sum(counts.values()),
            "dropped": dropped,
            "writing_ns": writing,
        }
        boots = {file.last("boot") for file in self.files}
        if len(boots) == 1 and re.fullmatch(r"[0-9a-f-]{36}", boot := boots.pop()):
            facts["boot"], facts["base_ns"] = boot, self.base
        if layers := [_writing_ns(f) for f in self.files if f.last("api") == "mpi"]:
            facts["recorder"]["mpi_layer_ns"] = sum(layers)
        if slack := slack_of(self.files):
            facts["slack"] = slack
        if link := link_of(self.files):
            facts["link"] = link
        ranks = {file.number("rank", -1) for file in self.files}
        if len(ranks) == 1 and -1 not in ranks:
            facts["rank"], facts["world_size"] = ranks.pop(), self.files[0].number("ranks") or None
        return facts

    def _length(self) -> int | None:
        """Return the time from the first record to the end of the last recorder [ns]; None where a
        recorder has no end.
        """
        ends = [
            _clocks(file)[-1][0] for file in self.files if file.ended and len(_clocks(file)) > 1
        ]
        return max(0, max(ends) - self.base) if len(ends) == len(self.files) else None

    def _stated_flaws(self) -> list[Finding]:
        """Return the findings on flaws that the files state or that their lines show."""
        files = self.all_files
        bad = sum(f.bad + sum(f.unknown.values()) for f in files)
        bad += sum(
            max(0, f.number("rows") - f.count - f.bad - sum(f.unknown.values()))
            for f in files
            if f.ended
        )
        strange = ", ".join(sorted({f"kind {clipped(k, 8)}" for f in files for k in f.unknown})[:6])
        cut = [f for f in files if not f.ended]
        dropped, unwritten = sum(map(_dropped, files)), sum(f.number("unwritten") for f in files)
        refused = sorted(
            {
                line.partition(" ")[0]
                for f in files
                for line in f.facts.get("kind", [])
                if line.endswith(" refused")
            }
        )
        strangers = sum(
            f.table("U")
            .filter(~pl.col("what").is_in([*_MIGRATIONS, _CPU_FAULT, _GPU_FAULT]))
            .height
            for f in files
        )
        unknown = sum(f.number("unknown") for f in files) + strangers
        closed = sum("refused" in f.facts for f in files)
        counts = (
            (unknown, "records of unknown kinds"),
            (closed, "processes that could not be recorded"),
        )
        missing = [
            *map(clipped, refused[:8]),
            *(f"{count} {what}" for count, what in counts if count),
        ]
        mapped = sum(
            f.table("C").filter((pl.col("ret") & (_MAPPED | _MIGRATED)) != 0).height
            for f in files
            if f.last("api") == "opencl"
        )
        lines = [line for f in files for line in f.facts.get("unseen", [])]
        filled, unseen = (
            sum(f.table("M").filter(pl.col("src") == 1).height for f in files),
            sorted({clipped(s, 90) for s in lines})[:5],
        )
        unseen = (
            [f"{filled:,} buffer{'s' if filled > 1 else ''} filled when made", *unseen]
            if filled
            else unseen
        )
        full = f"{unwritten:,} because the file could not grow" if unwritten else ""
        counted = [
            ("P107", sum(f.undecoded for f in files), ""),
            ("P153", bad, strange),
            ("P192", dropped, full),
            ("P191", len(cut), ", ".join(clipped(f.last("program"), 40) for f in cut[:5])),
            ("P194", len(refused) + unknown + closed, ", ".join(missing)),
            ("P195", mapped, ""),
            ("P196", filled + len(lines), "; ".join(unseen)),
        ]
        findings = [
            finding(code, count, detail)
            for code, count, detail in [*counted, *not_told(files)]
            if count
        ]
        if delayed := sum(n for key, n in slack_of(files).items() if key.startswith("calls ")):
            findings.append(finding("P193", delayed, slack_words(files)))
        if link := link_of(files):
            limited = sum(n for key, n in link.items() if key.startswith("copies "))
            findings.append(finding("P211", limited or 1, link_words(link)))
        return findings


def dtypes_of_all() -> Iterator[str]:
    """Return the names of all tables, in the order of the vocabulary."""
    return iter(tables("trace"))


class _Process:
    """Tables of one process."""

    def __init__(self, file: Recorded, process: int, whole: _Assembly) -> None:
        self.file, self.process, self.whole = file, id_of(process), whole
        self.shift = _moved_by(file)
        indices = {number: whole.names(text) for number, text in sorted(file.names.items())}
        self.name_indices = pl.DataFrame(
            {"name": list(indices), "index": list(indices.values())},
            schema={"name": pl.Int64, "index": pl.Int64},
        )

    def tables(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """Yield every table, with the columns that it has."""
        yield "copies", self._copies()
        calls = self._calls()
        asked = self._asked(calls)
        yield "api", calls.filter(~asked)
        yield (
            "overheads",
            calls.filter(asked).select(
                "start_ns", "end_ns", "thread", "name", kind=pl.lit(INSTRUMENTATION, pl.Int64)
            ),
        )
        self._done("ACDP")
        yield "kernels", self._kernels()
        yield "memsets", self._on_device("S", memory=_memory("dst"), size_bytes=_size())
        yield (
            "syncs",
            self._rows("Y", sync_type="what", event="event", event_record="evsync", **_PLACE),
        )
        self._done("KSY")
        yield "events", self._events()
        yield "graphs", self._on_device("G", graph=pl.col("graph"))
        yield "copies", self._migrations()
        yield "page_faults", self._faults()
        yield "ranges", self._ranges()
        yield "ranges", self._marks()
        yield "allocations", self._allocations()
        self._done("EGUNM")
        yield (
            "overheads",
            self._overheads(
                "O", pl.col("what").replace_strict(_OVERHEADS, default=None, return_dtype=pl.Int64)
            ),
        )
        yield "overheads", self._overheads("L", pl.lit(DELAY, pl.Int64))
        yield "streams", self._streams()
        yield "mpi_ranks", self._rank()
        communicators = communicators_of(self.file, self.whole.base)
        yield "mpi_communicators", communicators
        yield "mpi", self._mpi(communicators)

    def _done(self, letters: str) -> None:
        """Remove records that are in tables now, to free their memory."""
        for letter in letters:
            self.file.rows.pop(letter, None)

    # --- parts of several tables

    def _rows(self, letter: str, **columns: str | pl.Expr) -> pl.DataFrame:
        """Return records of one kind: times, process, and `columns` by the vocabulary's names."""
        rows = self.file.table(letter)
        chosen = {
            name: pl.col(column) if isinstance(column, str) else column
            for name, column in columns.items()
        }
        moved = 0 if letter == "L" else self.shift
        times = {
            f"{c}_ns": _time(c, self.whole.base + moved)
            for c in ("start", "end")
            if c in rows.columns
        }
        return rows.select(process=pl.lit(self.process, pl.Int64), **{**times, **chosen})

    def _on_device(self, letter: str, **columns: pl.Expr) -> pl.DataFrame:
        place: dict[str, Any] = {"device": "dev", **_PLACE}
        if "node" in KINDS[letter][1].split():
            place["graph_node"] = "node"
        return self._rows(letter, **place, **columns)

    def _thread(self) -> pl.Expr:
        return pl.lit(self.process, pl.Int64) | thread_number(pl.col("tid"))

    def _named(self, frame: pl.DataFrame, column: str = "name") -> pl.DataFrame:
        """Replace the file's numbers of names by those of the trace; numbers without a name become
        null, and are counted.
        """
        out = frame.join(
            self.name_indices, left_on=column, right_on="name", how="left", maintain_order="left"
        )
        self.whole.flaws["P128"] += out["index"].null_count() - frame[column].null_count()
        return out.with_columns(pl.col("index").alias(column)).drop("index")

    # --- tables

    def _calls(self) -> pl.DataFrame:
        levels = [
            self._rows(
                letter,
                thread=self._thread(),
                correlation="corr",
                name="name",
                result="ret",
                level=pl.lit(level, pl.Int64),
            )
            for level, letter in enumerate("AD")
        ]
        return self._named(pl.concat(levels))

    def _asked(self, calls: pl.DataFrame) -> pl.Series:
        """Return a mask of the driver calls by which the MPI layer of the process asked where
        buffers are: none is inside a call of MPI.
        """
        beside = [
            f
            for f, process in zip(self.whole.files, self.whole.process, strict=True)
            if id_of(process) == self.process
        ]
        if not any("cuda" in f.facts.get("places", []) for f in beside):
            return pl.repeat(False, calls.height, dtype=pl.Boolean, eager=True)
        mpi = pl.concat([f.table("I").select("tid", "start", "end") for f in beside])
        return asked_by_layer(calls, self.whole.names.series(), mpi, self.process, self.whole.base)

    def _kernels(self) -> pl.DataFrame:
        size = {
            "blocks": _positive("blocks"),
            "threads": _positive("threads"),
            "registers": pl.col("regs"),
            "shared_bytes": pl.col("smem"),
        }
        rows = self._on_device("K", name=pl.col("name"), graph=pl.col("graph"), **size)
        rows = self._named(rows)
        names = rows["name"].drop_nulls().unique()
        texts = self.whole.names.series()
        short = {int(n): self.whole.names(short_name(texts[int(n)])) for n in names}
        return rows.with_columns(
            short_name=pl.col("name").replace_strict(
                list(short), list(short.values()), default=None, return_dtype=pl.Int64
            )
        )

    def _copies(self) -> pl.DataFrame:
        direction = pl.col("what").replace_strict(
            {k: _DIRECTION[w] for k, w in _COPIES.items()}, default=0, return_dtype=pl.Int64
        )
        plain = self._on_device(
            "C",
            size_bytes=_size(),
            direction=direction,
            source_memory=_memory("src"),
            target_memory=_memory("dst"),
            other=pl.col("corr2"),
        )
        self.whole.flaws["P127"] += plain.filter(pl.col("direction") == 0).height
        # the first call that a copy names may not be recorded; then the second counts
        correlations = [
            piece["corr"] for letter in "AD" for piece in self.file.rows.get(letter, [])
        ]
        calls = (
            (pl.concat(correlations) if correlations else pl.Series("corr", [], dtype=pl.Int64))
            .drop_nulls()
            .unique()
        )
        lonely = ~pl.col("correlation").is_in(calls.implode()) & pl.col("other").is_in(
            calls.implode()
        )
        plain = plain.with_columns(
            correlation=pl.when(lonely).then("other").otherwise("correlation")
        ).drop("other")
        other = pl.col("src").is_null() | pl.col("dst").is_null() | (pl.col("src") != pl.col("dst"))
        device = pl.lit(words("memories").index("device"), pl.Int64)
        kind = pl.when(other).then(_DIRECTION["p2p"]).otherwise(_DIRECTION["d2d"]).cast(pl.Int64)
        ends = {
            "source_memory": device,
            "target_memory": device,
            "source_device": pl.col("src"),
            "target_device": pl.col("dst"),
        }
        peer = self._on_device("P", size_bytes=_size(), direction=kind, **ends)
        return pl.concat([plain, peer], how="diagonal")

    def _migrations(self) -> pl.DataFrame:
        direction = pl.col("what").replace_strict(
            {k: _DIRECTION[w] for k, w in _MIGRATIONS.items()}, default=None, return_dtype=pl.Int64
        )
        managed = pl.lit(words("memories").index("managed"), pl.Int64)
        moved = {
            "direction": direction,
            "size_bytes": _size(),
            "source_memory": managed,
            "target_memory": managed,
        }
        rows = self._rows(
            "U",
            cause="ret",
            device=pl.when(pl.col("what") == 2).then("src").otherwise("dst"),
            **moved,
        )
        return rows.filter(pl.col("direction").is_not_null())

    def _faults(self) -> pl.DataFrame:
        on_gpu = pl.col("what") == _GPU_FAULT
        rows = self._rows(
            "U",
            count=pl.when(on_gpu).then("bytes").otherwise(1),
            device=pl.when(on_gpu).then("dst"),
            what="what",
        )
        return rows.filter(pl.col("what").is_in([_CPU_FAULT, _GPU_FAULT])).drop("what")

    def _events(self) -> pl.DataFrame:
        rows = self._rows("E", device="dev", event="event", event_record="evsync", **_PLACE)
        return rows.rename({"end_ns": "time_ns"})

    def _ranges(self) -> pl.DataFrame:
        """Return NVTX ranges and marks: begin and end of a range have one number; a range with only
        one of them is left out.
        """
        rows = self.file.table("N").with_columns(
            time=_time("start", self.whole.base + self.shift), thread=self._thread()
        )
        columns = ("time", "thread", "name", "domain", "end", "kind")

        def of(flag: int) -> pl.DataFrame:
            return rows.filter((pl.col("what") & flag) != 0).with_columns(
                kind=pl.lit(PUSHED), end=pl.lit(None, pl.Int64)
            )

        marks = of(_SET).with_columns(kind=pl.lit(MARK)).select(columns)
        begun, ended = (
            of(flag).unique("corr", keep="first", maintain_order=True) for flag in (_BEGUN, _ENDED)
        )
        whole = (
            begun.drop("end")
            .join(ended.select("corr", end="time"), on="corr", how="inner", maintain_order="left")
            .select(columns)
        )
        self.whole.flaws["P164"] += begun.height + ended.height - 2 * whole.height
        domains = pl.col("domain").fill_null(-1).rank("dense").cast(pl.Int64) - pl.col(
            "domain"
        ).is_null().any().cast(pl.Int64)
        out = self._named(pl.concat([marks, whole])).with_columns(domain=domains)
        return out.select(
            "thread", "name", "domain", pl.col("kind").cast(pl.Int64), start_ns="time", end_ns="end"
        )

    def _marks(self) -> pl.DataFrame:
        """Return marks that the program set through the recorder: X_begin and X_end are a range X,
        any other is a mark.
        """
        rows: list[tuple[int, int | None, int, int]] = []
        open_at: dict[str, int] = {}
        for line in self.file.facts.get("mark", []):
            match = re.fullmatch(r"(\d{1,18}) (.{1,200})", line)
            if not match:
                continue
            time, label = int(match[1]) - self.whole.base, match[2]
            name, _, edge = label.rpartition("_")
            if edge == "begin" and name not in open_at:
                open_at[name] = len(rows)
                rows.append((time, None, self.whole.names(label), MARK))
            elif edge == "end" and name in open_at:
                begun = open_at.pop(name)
                rows[begun] = (rows[begun][0], time, self.whole.names(name), BEGUN)
            else:
                rows.append((time, None, self.whole.names(label), MARK))
        columns = {"start_ns": pl.Int64, "end_ns": pl.Int64, "name": pl.Int64, "kind": pl.Int64}
        return pl.DataFrame(rows, schema=columns, orient="row")

    def _allocations(self) -> pl.DataFrame:
        place = {"device": "dev", "context": "ctx", "correlation": "corr", "address": "address"}
        rows = self._rows(
            "M", **place, size_bytes=_size(), operation=pl.col("what") - 1, memory=_memory("dst")
        )
        # a release does not state its size
        return rows.rename({"start_ns": "time_ns"}).with_columns(
            size_bytes=pl.when((pl.col("size_bytes") > 0) | (pl.col("operation") == 0)).then(
                "size_bytes"
            )
        )

    def _overheads(self, letter: str, kind: pl.Expr) -> pl.DataFrame:
        return self._rows(letter, thread=self._thread(), kind=kind).drop("process")

    def _streams(self) -> pl.DataFrame:
        return self._rows("R", context="ctx", stream="stream", kind="what", priority="dst").filter(
            pl.col("stream").is_not_null()
        )

    def _mpi(self, communicators: pl.DataFrame) -> pl.DataFrame:
        names = {
            "partner": "stream",
            "root": "dev",
            "tag": "node",
            "communicator": "ctx",
            "request": "event",
            "kind": "what",
        }
        memory = {"memory": _known_memory("src"), "receive_memory": _known_memory("dst")}
        sizes = {"size_bytes": _size(), "receive_bytes": _positive("submitted")}
        rows = self._rows("I", thread=self._thread(), name="name", **names, **sizes, **memory)
        return self._named(carried_by(rows.drop("process"), self.file.names, communicators))

    def _rank(self) -> pl.DataFrame:
        """Return the rank that a launcher gave the process, under its first thread."""
        number = self.file.number("rank", -1)
        thread = id_of(process_number(self.process), process_number(self.process))
        return pl.DataFrame(
            {"thread": [thread], "rank": [number]} if number >= 0 else None,
            schema=dtypes("mpi_ranks"),
        )


_PLACE: Final[dict[str, Any]] = {"context": "ctx", "stream": "stream", "correlation": "corr"}


def _time(column: str, base: int) -> pl.Expr:
    """Return a time on the recording's clock [ns]; one of 0 or less, or beyond `_LARGEST`, is a
    lost stamp and becomes null.
    """
    stamp = pl.col(column)
    return pl.when((stamp > 0) & (stamp < _LARGEST)).then(stamp - base)


def _size() -> pl.Expr:
    return pl.when(pl.col("bytes") >= 0).then("bytes")


def _positive(column: str) -> pl.Expr:
    return pl.when(pl.col(column) > 0).then(column)


def _memory(column: str) -> pl.Expr:
    return (
        pl.when(pl.col(column).is_between(0, _MEMORIES - 1))
        .then(column)
        .otherwise(0)
        .cast(pl.Int64)
    )


def _known_memory(column: str) -> pl.Expr:
    """Return a kind of memory, null where it is not stated."""
    return pl.when(pl.col(column).is_between(0, _MEMORIES - 1)).then(column)


# --- clocks, processes, devices -------------------------------------------------------------------


def _moved_by(file: Recorded) -> int:
    """Return what to subtract from CUPTI's times in a file to have them on the machine's clock
    [ns].
    """
    between = sorted(cupti for _, cupti, _ in _clocks(file))
    return between[len(between) // 2] if file.last("timebase") == "cupti" and between else 0


def _begin(file: Recorded, moved_by: int) -> int:
    """Return the first time of the bulk of records [ns]: a stray one may not move the clock."""
    none = pl.Series("start", [], dtype=pl.Int64)
    times = pl.concat(
        [
            none,
            *(
                piece["start"]
                for pieces in file.rows.values()
                for piece in pieces
                if "start" in piece.columns
            ),
        ]
    )
    times = times.filter((times > 0) & (times < _LARGEST)).drop_nulls()
    if times.is_empty():
        return _clocks(file)[0][0] if _clocks(file) else 0
    middle = int(times.median())  # type: ignore[arg-type]
    return int(times.filter(times > middle - _AWAY_NS).min()) - moved_by  # type: ignore[arg-type]


def _devices(files: list[Recorded]) -> pl.DataFrame:
    """Return the devices, each as the first file that describes it does."""
    devices: dict[int, dict[str, Any]] = {}
    kinds = dtypes("devices")
    for file in files:
        of_file: dict[int, dict[str, Any]] = {}
        for line in file.facts.get("device", []):
            match = re.fullmatch(r"(\d{1,9}) (\w{1,32}) (.{0,200})", line)
            if match:
                key, value = {"units": "multiprocessors"}.get(match[2], match[2]), match[3]
                about = of_file.setdefault(int(match[1]), {"device": int(match[1])})
                if key == "unified" and value in ("0", "1"):
                    about["discrete"] = 1 - int(value)
                elif kinds.get(key) == pl.String:
                    about[key] = value
                elif (
                    key in kinds
                    and re.fullmatch(r"\d{1,18}", value)
                    and (kinds[key] == pl.Int64 or int(value) <= _SMALL)
                ):
                    about[key] = int(value)
        for number, about in of_file.items():
            devices.setdefault(number, about)
    return pl.DataFrame(
        [{column: about.get(column) for column in kinds} for _, about in sorted(devices.items())],
        schema=kinds,
    )


# --- facts ----------------------------------------------------------------------------------------


def _cuda_version(number: int) -> str:
    """Return CUPTI's version number in words; an empty text where there is none.

    >>> _cuda_version(130501), _cuda_version(28), _cuda_version(0)
    ('CUPTI 13.5', 'CUPTI API 28', '')
    """
    if number >= 130000:
        return f"CUPTI {number // 10000}.{number // 100 % 100}"
    return f"CUPTI API {number}" if number > 0 else ""


def _writing_ns(file: Recorded) -> int:
    match = re.fullmatch(r"writing_ns=(\d{1,18})", file.last("cost"))
    return int(match[1]) if match else 0


def _dropped(file: Recorded) -> int:
    """Return the number of records that were taken and are not in the file."""
    return sum(file.number(word) for word in ("dropped", "lost", "slack_unwritten", "unwritten"))


def _digest(files: list[Recorded]) -> str:
    """Return the SHA-256 of the one file, or over those of all of them."""
    if len(files) == 1:
        return files[0].digest
    return hashlib.sha256("".join(sorted(file.digest for file in files)).encode()).hexdigest()
