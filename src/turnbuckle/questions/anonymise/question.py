"""A recording that can be handed on: names become keyed hashes, ids are renumbered, the clock
begins at the first record.

What a recording amounts to stays as it is: every answer of Turnbuckle is the same before and after.
So names that the rules read are kept (calls of CUDA, HIP and MPI), those of NCCL's kernels as far
as they say which collective they are, and a call of any other name gets a word beside its hash that
is read as the name was.  Environment, hosts, paths and arguments are not in a `Trace` to begin
with.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

import polars as pl

from turnbuckle.foundation import schema
from turnbuckle.foundation.errors import clipped
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.machine.catalog import host_of
from turnbuckle.profile.kernels import between_gpus
from turnbuckle.profile.messages.nccl import operation_in
from turnbuckle.profile.summary.host_work import SERIAL
from turnbuckle.profile.summary.start_up import LIBRARY
from turnbuckle.show.text import terms
from turnbuckle.trace.bounds import sound
from turnbuckle.trace.ids import id_of, process_of, thread_number
from turnbuckle.trace.trace import Trace
from turnbuckle.trace.window import numbers_a_step


def _words(file: str) -> frozenset[str]:
    """Return the words of a text file beside this one."""
    return frozenset(
        (files("turnbuckle.questions.anonymise") / f"{file}.txt")
        .read_text(encoding="utf-8")
        .split()
    )


#: Bytes of a hash: among a million names, two are alike with a chance of 3e-8.
DIGEST_BYTES: Final = 8
#: The first record begins here [ns]: a time of 0 means a lost one.
_FIRST_NS: Final = 1
_EXAMPLES: Final = 3
_SHOWN: Final = 40

#: What stands before the hashes of a table's names, and what they are called.
_PREFIX: Final = dict(
    kernels="kernel",
    api="call",
    mpi="call",
    ranges="range",
    os_calls="os",
    overheads="overhead",
    processes="file",
)
_WHAT: Final = terms("names of a table")
#: Columns with names: all that the vocabulary has.
ROLES: Final[dict[tuple[str, str], str]] = {
    (table, column.name): _PREFIX.get(table, "name")
    for table, columns in schema.tables("trace").items()
    for column in columns
    if "index into names" in column.meaning
}
#: Texts that stand in a table themselves: those of devices are looked at, others would be left out.
TEXTS: Final = tuple(
    (table, column.name)
    for table, columns in schema.tables("trace").items()
    for column in columns
    if column.type == "text"
)
TIMES: Final = ("start_ns", "end_ns", "time_ns")
"""Columns with instants."""

_API: Final = re.compile(
    r"(?:cuda|cu|hip|hsa_|hsaKmt|cl|ze|roctx|nvtx)[A-Z_]\w{1,79}|hsa_[a-z]\w{1,79}"
)
_MPI: Final = re.compile(r"p?mpix?_([a-z][a-z_0-9]{1,60}?)_{0,2}", re.IGNORECASE)
#: Words of MPI's own names (MPI 4.1), with or without an i before them: a user's function may begin
#: with mpi_ as well.
_MPI_WORDS: Final = _words("mpi_words")
_BARE_MPI: Final = re.compile(
    r"i?[bsr]?send(_init)?|i?m?recv(_init)?|i?sendrecv(_replace)?|(wait|test)(all|any|some)?|i?m?probe|start(all)?|init(_thread)?|finalize|"
    r"i?barrier|i?bcast|i?(all)?reduce(_scatter)?(_block)?|i?(all)?gatherv?|i?scatterv?|i?alltoall[vw]?|i?(ex)?scan",
    re.IGNORECASE,
)
#: A kernel of NCCL or RCCL, as the rules know it, the words that its name is made of, and the
#: arguments that it has.
_NCCL: Final = re.compile(r"(?:void )?(nccl\w*kernel\w*)", re.IGNORECASE)
_NCCL_WORD: Final = re.compile(
    r"(?:nccl|rccl|dev|kernel|main|debug|generic|all|reduce|gather|scatter|to|broadcast|send|recv|ring|tree|ll|simple|collnet|chain|"
    r"direct|nvls|pat|sum|prod|max|min|avg|pre|mul|post|div|copy|type|bf|fp|int|half|float|double|char|long|unsigned|[uifte]|\d)*",
    re.IGNORECASE,
)
_LONGEST_WORD: Final = 24
_NCCL_ARGUMENTS: Final = re.compile(
    r"\((?:WORD(?:[\s,*<>]+WORD){0,11}[\s,*<>]*)?\)".replace(
        "WORD",
        r"(?:ncclDevKernelArgs(?:Storage|\w{0,3})|ncclDevComm|ncclWork(?:Elem)?|ncclColl|unsigned|long|\d{1,9}u?l?)",
    )
)
_COLLECTIVES: Final = {
    w.lower(): w
    for w in (
        "AllReduce",
        "AllGather",
        "ReduceScatter",
        "AllToAll",
        "SendRecv",
        "Broadcast",
        "Reduce",
    )
}

#: Facts that are kept as they are.
_FACTS: Final = (
    "format",
    "schema_version",
    "analysis_duration_ns",
    "rank",
    "world_size",
    "node_of_rank",
    "record_shapes",
)
_PRODUCTS: Final = _words("products")
_PLAIN: Final = re.compile(r"[\w.-]{1,24}")
_NUMBER: Final = re.compile(r"v?\d{1,8}(?:\.\d{1,8}){0,4}")
#: Tables of profilers and kinds of their events; a recording may name its own.
_RECORDED: Final = re.compile(
    r"(?:CUPTI_|CUDA_|NVTX_|OSRT_|MPI_|UCP_|UCX_|ENUM_|TARGET_INFO_|PROFILER_|SAMPLING_|COMPOSITE_|DIAGNOSTIC_|SCHED_|GPU_|NIC_|META_DATA_|"
    r"EXPORT_|ANALYSIS_|SLI_|ETW_|FTRACE_|THREAD_|NETWORK_|SYSCALL|RMA_|OMP_|PROGRAM_|IO_|MEASUREMENT_|CALLING_|METRIC|PARAMETER_)[A-Z_0-9]{0,60}"
    r"|ENTER|LEAVE|BUFFER_FLUSH|StringIds|ThreadNames|ProcessStreams|PROCESSES|kernel|Kernel|concurrent_kernel|gpu_memcpy|Memcpy|gpu_memset|"
    r"Memset|cuda_runtime|hip_runtime|cuda_driver|Runtime|Operator|cpu_op|python_function|user_annotation|gpu_user_annotation|cuda_sync|"
    r"overhead|flow|fwdbwd|ac2g|instant|cpu_instant_event|metadata|Trace"
)
_DEVICE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .()/+_-]{0,63}")


@dataclass(frozen=True)
class Treated:
    """Treatment of one kind of content.

    Attributes
    ----------
    what, action : ``kernel names`` and ``kept``, ``hashed``, ``renumbered``, ``shifted`` or
        ``dropped``.
    count : how many different ones.
    examples : the first few; of hashed ones what they become stands behind an arrow.
    """

    what: str
    action: str
    count: int
    examples: tuple[str, ...] = ()


@dataclass
class _Names:
    """Texts after treatment, with one index each; columns that treat a text alike share its
    index.
    """

    key: bytes
    texts: list[str] = field(default_factory=list)
    taken: dict[str, str] = field(default_factory=dict)
    collisions: int = 0

    def hashed(self, text: str, role: str) -> str:
        """Return ``role-0123456789abcdef``.

        If another text has this hash already, a number is appended and the collision is counted.
        """
        made = f"{role}-{_digest(text, self.key)}"
        owner, number = self.taken.setdefault(made, text), 1
        while owner != text:
            number += 1
            again = f"{made}-{number}"
            if again not in self.taken:
                self.collisions += 1
            owner = self.taken.setdefault(again, text)
            if owner == text:
                return again
        return made


def anonymise(
    trace: Trace, key: bytes, *, stand_in: Callable[[str], str], keep: str | None = None
) -> tuple[Trace, list[Treated]]:
    """Return a trace without what identifies its origin, and the treatment of each kind of content.

    Parameters
    ----------
    trace : the recording.
    key : of the hashes; the same key makes the same hashes.
    stand_in : returns a placeholder that classifies like the name of a host call
        (`turnbuckle.questions.anonymise.stand_in`).
    keep : kernels whose names this regular expression matches keep them; ValueError where it is
        none.

    Rows that no answer counts with (`turnbuckle.trace.bounds.sound`) are left out; the findings
    that count them stay.
    """
    tables, set_aside = sound(trace.tables, trace.facts)
    tables = {name: frame for name, frame in tables.items() if frame.height}
    names = _Names(hashlib.sha512(key).digest())
    treated: list[Treated] = []
    kept = kept_kernels(trace.names, keep) if keep is not None else frozenset()
    tables = _renamed(tables, trace.names, names, stand_in, kept, treated)
    tables = _renumbered(tables, treated)
    tables = _shifted(tables, treated)
    tables = _devices(tables, names, treated)
    facts = _facts(trace.facts, names, treated)
    findings = _findings([*trace.findings, *set_aside], treated)
    if names.collisions:
        findings.append(finding("P183", names.collisions))
    findings.append(finding("P186"))
    treated.append(Treated("name of the file", "dropped", 1, (trace.name,)))
    return Trace(
        tables, pl.Series("name", names.texts, dtype=pl.String), facts, findings, "anonymised"
    ), treated


# --- names ----------------------------------------------------------------------------------------


def _digest(text: str, key: bytes) -> str:
    return hashlib.blake2b(
        text.encode("utf-8", "surrogatepass"), key=key[:64], digest_size=DIGEST_BYTES
    ).hexdigest()


def _renamed(
    tables: Mapping[str, pl.DataFrame],
    old: pl.Series,
    names: _Names,
    stand_in: Callable[[str], str],
    keep: frozenset[str],
    treated: list[Treated],
) -> dict[str, pl.DataFrame]:
    """Point every name column at the treated names."""
    out = dict(tables)
    index: dict[tuple[int, str], int] = {}
    seen: dict[tuple[str, str], dict[str, str]] = {}
    for (table, column), role in ROLES.items():
        if table not in out:
            continue
        values = out[table][column]
        given = values.drop_nulls().unique().sort().to_list()
        places = []
        for i in given:
            text = old[i] or ""
            new = _treatment(text, role, table, names, stand_in, keep)
            if text:
                action = "kept" if new == text else "hashed"
                seen.setdefault((_WHAT.get(table, f"names of {table}"), action), {})[text] = new
            if (i, new) not in index:
                index[i, new] = len(names.texts)
                names.texts.append(new)
            places.append(index[i, new])
        moved = values.replace_strict(given, places, return_dtype=pl.Int32) if given else values
        out[table] = out[table].with_columns(moved.alias(column))
    for (content, action), texts in seen.items():
        shown = [
            old if new == old else f"{clipped(old, _SHOWN)} -> {new}"
            for old, new in list(texts.items())[:_EXAMPLES]
        ]
        treated.append(Treated(content, action, len(texts), tuple(shown)))
    unused = len({t for t in old.to_list() if t} - {t for texts in seen.values() for t in texts})
    if unused:
        treated.append(Treated("texts that no row uses", "dropped", unused))
    return out


def _treatment(
    text: str,
    role: str,
    table: str,
    names: _Names,
    stand_in: Callable[[str], str],
    keep: frozenset[str],
) -> str:
    """Return what one name becomes."""
    if not text:
        return text
    if role == "kernel":
        return text if text in keep else _kernel(text, names)
    if table == "api":
        return text if _API.fullmatch(text) else f"{stand_in(text)}-{names.hashed(text, 'call')}"
    if table == "mpi":
        return text if _is_mpi(text) else names.hashed(text, role)
    return _range(text, names) if table == "ranges" else names.hashed(text, role)


def _range(text: str, names: _Names) -> str:
    """Hash the name of a range, but keep the number of a step and the fact that it creates a
    library's handle.

    The serial number of a numbered call is left out of its hash.

    >>> _range("ProfilerStep#5", _Names(b"key")), _range("ncclCommInitRank", _Names(b"key"))[:9]
    ('ProfilerStep#5', 'ncclInit-')
    """
    if numbers_a_step(text):
        return text
    hashed = names.hashed(re.sub(SERIAL, "", text) or text, "range")
    return f"ncclInit-{hashed}" if LIBRARY.search(text) else hashed


def _is_mpi(text: str) -> bool:
    """Return whether a name is one of MPI's.

    >>> [_is_mpi(name) for name in ("MPI_Ireduce_scatter_block", "PMPI_Comm_f2c", "mpi_bcast_", "mpi_exchange_plasma_", "waitall")]
    [True, True, True, False, True]
    """
    if _BARE_MPI.fullmatch(text):
        return True
    match = _MPI.fullmatch(text)
    words = match[1].lower().split("_") if match else [""]
    return all(word in _MPI_WORDS or (word[:1] == "i" and word[1:] in _MPI_WORDS) for word in words)


def kept_kernels(names: pl.Series, pattern: str) -> frozenset[str]:
    """Return the names that a regular expression matches, in time that grows linearly with their
    length.

    Raises
    ------
    ValueError : it is none, or one with look-around or back-references.
    """
    try:
        return frozenset(names.filter(names.str.contains(pattern)).drop_nulls().to_list())
    except pl.exceptions.PolarsError as error:
        lines = [line for line in str(error).splitlines() if line.startswith("error:")]
        raise ValueError(
            lines[0].removeprefix("error:").strip() if lines else str(error).splitlines()[0][:200]
        ) from error


def _kernel(text: str, names: _Names) -> str:
    """Keep the name that NCCL gave to one of its kernels; hash every other kernel's name.

    Another kernel between GPUs, or one whose name only begins like NCCL's, keeps the collective
    that the rules read from it.
    """
    if not between_gpus(text):
        return names.hashed(text, "kernel")
    does, match = operation_in(text), _NCCL.match(text)
    if (
        match is not None
        and does == operation_in(match[1])
        and all(
            len(word) <= _LONGEST_WORD and _NCCL_WORD.fullmatch(word)
            for word in match[1].split("_")
        )
    ):
        rest = text[match.end() :]
        return (
            text
            if not rest or _NCCL_ARGUMENTS.fullmatch(rest)
            else f"{match[1]}-{names.hashed(text, 'kernel')}"
        )
    return f"ncclKernel_{_COLLECTIVES.get(does, 'Other')}-{names.hashed(text, 'kernel')}"


# --- ids and times --------------------------------------------------------------------------------


def _columns(tables: Mapping[str, pl.DataFrame], *wanted: str) -> Iterable[tuple[str, str]]:
    return (
        (table, column)
        for table, frame in tables.items()
        for column in wanted
        if column in frame.columns
    )


def _renumbered(
    tables: Mapping[str, pl.DataFrame], treated: list[Treated]
) -> dict[str, pl.DataFrame]:
    """Number processes, threads and addresses from 1, in the order of their ids."""
    out = dict(tables)
    processes: set[int] = set()
    threads: set[int] = set()
    for table, column in _columns(out, "process"):
        processes.update(out[table][column].drop_nulls().unique().to_list())
    for table, column in _columns(out, "thread"):
        threads.update(out[table][column].drop_nulls().unique().to_list())
    process_ids = sorted({process_of(p) for p in processes | threads})
    number = {p: i for i, p in enumerate(process_ids, 1)}
    # processes whose ids share the high bits differ in the low ones
    new_thread: dict[int, int] = {}
    last: dict[int, int] = {}
    for id in sorted(processes | threads):
        process = process_of(id)
        low = 0 if id == process else last.get(process, 0) + 1
        last[process] = max(low, last.get(process, 0))
        new_thread[id] = id_of(number[process], thread_number(low))
    for table, column in _columns(out, "process", "thread"):
        out[table] = out[table].with_columns(_mapped(out[table][column], new_thread))
    for content, ids in (("processes", processes), ("threads", threads)):
        if ids:
            treated.append(Treated(f"ids of {content}", "renumbered", len(ids)))
    if "allocations" in out:
        given = sorted(out["allocations"]["address"].drop_nulls().unique().to_list())
        out["allocations"] = out["allocations"].with_columns(
            _mapped(out["allocations"]["address"], {a: i for i, a in enumerate(given, 1)})
        )
        treated.append(Treated("addresses of allocations", "renumbered", len(given)))
    return out


def _mapped(values: pl.Series, become: Mapping[int, int]) -> pl.Series:
    given = values.drop_nulls().unique().to_list()
    return (
        values.replace_strict(given, [become[v] for v in given], return_dtype=values.dtype)
        if given
        else values
    )


def _shifted(tables: Mapping[str, pl.DataFrame], treated: list[Treated]) -> dict[str, pl.DataFrame]:
    """Shift all times so that the first credible record begins at 1 ns; earlier stamps and stamps
    of 0 lie at 0.
    """
    begins = [frame["start_ns"].min() for frame in tables.values() if "start_ns" in frame.columns]
    # a time of 0 means that the time is not known
    begins += [
        frame["time_ns"].filter(frame["time_ns"] > 0).min()
        for frame in tables.values()
        if "time_ns" in frame.columns
    ]
    first_times = [begin for begin in begins if isinstance(begin, int)]
    if not first_times:
        return dict(tables)
    by = min(first_times) - _FIRST_NS
    out = {}
    for name, frame in tables.items():
        times = [c for c in TIMES if c in frame.columns]
        out[name] = (
            frame.with_columns((pl.col(c) - by).clip(lower_bound=0) for c in times)
            if times
            else frame
        )
    if "processes" in out:
        # keep how much the clocks of merged recordings differ, and drop their absolute offset
        out["processes"] = out["processes"].with_columns(
            pl.col("offset_ns") - pl.col("offset_ns").min()
        )
    treated.append(
        Treated("times", "shifted", 1, ("all by the same amount: the first record begins at 1 ns",))
    )
    return out


# --- devices, facts, findings ---------------------------------------------------------------------


def _devices(
    tables: Mapping[str, pl.DataFrame], names: _Names, treated: list[Treated]
) -> dict[str, pl.DataFrame]:
    """Keep names of devices that read like one; hash every other text in tables."""
    out = dict(tables)
    seen: dict[str, dict[str, str]] = {}
    for table, column in TEXTS:
        if table not in out:
            continue
        texts = out[table][column]
        is_device = table == "devices"
        become = {
            t: t
            if is_device and _DEVICE.fullmatch(t)
            else names.hashed(t, "device" if is_device else "text")
            for t in texts.drop_nulls().unique().sort().to_list()
            if t
        }
        for old, new in become.items():
            seen.setdefault("kept" if old == new else "hashed", {})[old] = new
        out[table] = out[table].with_columns(texts.replace(list(become), list(become.values())))
    for action, shown in seen.items():
        treated.append(
            Treated("names of devices", action, len(shown), tuple(list(shown)[:_EXAMPLES]))
        )
    return out


def _facts(facts: Mapping[str, Any], names: _Names, treated: list[Treated]) -> dict[str, Any]:
    """Keep the facts that say how to read the tables; drop when, where and from which file."""
    out = {name: facts[name] for name in _FACTS if name in facts}
    for name in ("format", "schema_version"):
        if isinstance(out.get(name), str) and not _PLAIN.fullmatch(out[name]):
            out[name] = None
    out["product_version"] = _product(facts.get("product_version"))
    if host := host_of(facts.get("processor", "")):
        # the entry of the host, by a name of its own: the recording's may be anything
        out["processor"] = host.recognise[0].replace("?", "0")
    recorded_tables = facts.get("tables") or {}
    out["tables"] = {
        name: count for name, count in recorded_tables.items() if _RECORDED.fullmatch(name)
    }
    if sources := facts.get("sources"):
        # keep the formats of merged files, under their names in the table of processes
        out["sources"] = [
            {
                "name": names.hashed(s["name"], "file"),
                "format": s["format"] if _PLAIN.fullmatch(s["format"]) else "",
                "sha256": "",
            }
            for s in sources
        ]
    out |= dict.fromkeys(("session_start_utc_ns", "sha256", "size_bytes"))
    kept = [name for name, value in out.items() if value is not None]
    lost = [name for name, value in facts.items() if value is not None and out.get(name) is None]
    treated.append(Treated("facts", "kept", len(kept), tuple(kept)))
    if lost:
        treated.append(Treated("facts", "dropped", len(lost), tuple(lost)))
    if strange := len(recorded_tables) - len(out["tables"]):
        treated.append(Treated("names of the profiler's tables", "dropped", strange))
    return out


def _product(text: Any) -> str | None:
    """Return product and version as far as both are known words and plain numbers.

    >>> _product("PyTorch profiler (roctracer 4.1)"), _product("2024.5.1.113-node17"), _product("built by someone")
    ('PyTorch profiler (roctracer 4.1)', '2024.5.1.113', None)
    """
    if not isinstance(text, str):
        return None
    words = []
    for word in text[:200].split():
        bare = word.strip("(),")
        number = _NUMBER.match(bare)
        if bare.lower() in _PRODUCTS or (number and number[0] == bare):
            words.append(word)
        elif number:
            words.append(number[0])
        else:
            break
    product = " ".join(words)
    return (product + ")" * (product.count("(") - product.count(")"))) or None


def _findings(findings: list[Finding], treated: list[Treated]) -> list[Finding]:
    """Return findings without details that hold words of the recording's own; P119 no longer
    holds.
    """
    column_names = {c.name for columns in schema.tables("trace").values() for c in columns} | set(
        schema.tables("trace")
    )
    out, lost = [], 0
    for f in merge(findings):
        if f.code == "P119":
            continue
        words = re.findall(r"[^\s,;:.%()/]+", f.detail)
        plain = all(
            w in column_names
            or _RECORDED.fullmatch(w)
            or re.fullmatch(r"\d+|[a-z]{1,12}|[a-zA-Z]{2,40}Id|[a-z]+[A-Z]\w{0,30}", w)
            for w in words
        )
        lost += bool(f.detail) and not plain
        out.append(finding(f.code, f.count, f.detail if plain else ""))
    if lost:
        treated.append(Treated("details of findings", "dropped", lost))
    return out


def treated_rows(treated: Iterable[Treated], *, originals: bool) -> list[dict[str, Any]]:
    """Return the treatments as rows: what, action, count, examples.

    Without `originals`, examples of what was not kept are left out.
    """
    order = {
        action: i for i, action in enumerate(("kept", "hashed", "renumbered", "shifted", "dropped"))
    }
    rows = sorted(treated, key=lambda t: (order.get(t.action, len(order)), t.what))
    shown = ("kept", "shifted")
    return [
        {
            "what": t.what,
            "action": t.action,
            "count": t.count,
            "examples": list(t.examples) if originals or t.action in shown else [],
        }
        for t in rows
    ]
