"""``turnbuckle record``: a program runs under our own recorder, and what it did becomes a trace."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

from turnbuckle.foundation import private_folder
from turnbuckle.foundation.errors import CannotAnswer, ProfileError, clipped, did_you_mean, error_of
from turnbuckle.foundation.schema import words
from turnbuckle.foundation.units import parse, show
from turnbuckle.machine import driver
from turnbuckle.recorder import mpi_layer, toolchain
from turnbuckle.recorder import run as record_run
from turnbuckle.recorder.opencl import record_opencl
from turnbuckle.show.terminal.options import flat
from turnbuckle.show.terminal.progress import working

if TYPE_CHECKING:
    from turnbuckle.projection.run import Run

#: Kinds of records, in the recorder's words: `KINDS` are recorded by default, `FURTHER` only where
#: ``--kinds`` names them.
KINDS: Final = (
    "api",
    "driver",
    "kernel",
    "memcpy",
    "memset",
    "sync",
    "event",
    "memory",
    "overhead",
    "stream",
    "device",
    "nvtx",
)
FURTHER: Final = ("latency", "eventts")
_MEMORY_BYTES, _FLUSH_SECONDS = (1 << 20, 1 << 40), (0.0, 1000.0)
_LONGEST_DELAY: Final = 100.0
_BANDWIDTH: Final = (1e3, 1e15)  # [B/s]
_LARGEST_SEED: Final = 1 << 53
_CLASSES: Final = (
    "launch",
    "copy",
    "memset",
    "sync",
    "alloc",
    "event",
    "query",
    "stream",
    "module",
    "other",
    "boundary",
    "all",
)

Words = Annotated[
    str, Parameter(help="the program and its arguments, after --", allow_leading_hyphen=True)
]
Place = Annotated[
    Path | None,
    Parameter(
        name=["--output", "-o"],
        help="folder of the trace: PROGRAM.turnbuckle if left out; %r in it is the rank",
    ),
]
Slack = Annotated[
    str | None,
    Parameter(
        help=(
            "delay every call that crosses to the device by this, as 10us: the run of a more "
            "distant device"
        )
    ),
]
SlackClass = Annotated[
    list[str] | None,
    Parameter(
        help="only calls of these classes: launch, copy, memset, sync, alloc, event; or all",
        negative=(),
    ),
]
SlackAt = Annotated[
    Literal["before", "after"],
    Parameter(help="whether the delay comes before the call or after it"),
]
Jitter = Annotated[
    str | None,
    Parameter(
        help="delay every such call by a random time between two bounds besides, as 0us..100us"
    ),
]
Seed = Annotated[
    int | None,
    Parameter(help="what the random delays follow from; one seed, one sequence a thread"),
]
Bandwidth = Annotated[
    str | None,
    Parameter(
        help=(
            "end copies between host and device no earlier than at this bandwidth, as 2GB/s: the "
            "run over a slower link"
        )
    ),
]
Graphs = Annotated[
    Literal["node", "whole"],
    Parameter(help="a record for every node of a CUDA graph, or one for the graph (cheaper)"),
]
Unified = Annotated[
    bool,
    Parameter(
        help="migrations and page faults of unified memory too (slows such programs)", negative=()
    ),
]
Kinds = Annotated[
    list[str] | None,
    Parameter(help="only these kinds of records: " + ", ".join((*KINDS, *FURTHER)), negative=()),
]
Memory = Annotated[
    str,
    Parameter(
        help=(
            "most memory for records on their way, each process; beyond it records are dropped "
            "and counted"
        )
    ),
]
Flush = Annotated[
    str,
    Parameter(
        help=(
            "how often records go to the file, and so what a crash can lose; 0s: when buffers "
            "are full"
        )
    ),
]
Cupti = Annotated[
    Path | None, Parameter(help="folder of the CUPTI to build against; looked for if left out")
]
Library = Annotated[
    Path | None, Parameter(help="use this recorder, made with --build, instead of building one")
]
Build = Annotated[
    bool, Parameter(help="only build the recorder, into the folder named with -o", negative=())
]
Anyway = Annotated[
    bool, Parameter(help="run the command though there is no driver or device", negative=())
]
MPI = Annotated[
    bool | None,
    Parameter(
        name="--mpi",
        negative="--no-mpi",
        help="record MPI too; if left out: where a launcher (mpirun, srun, ...) is used",
    ),
]
OpenCL = Annotated[
    bool,
    Parameter(name="--opencl", help="record OpenCL instead of CUDA, on any device", negative=()),
]
Headers = Annotated[
    Path | None,
    Parameter(
        name="--opencl-headers", help="folder of CL/cl_layer.h; the compiler's own if left out"
    ),
]


def record(
    *command: Words,
    output: Place = None,
    slack: Slack = None,
    slack_class: SlackClass = None,
    slack_at: SlackAt = "after",
    jitter: Jitter = None,
    seed: Seed = None,
    link_bandwidth: Bandwidth = None,
    graphs: Graphs = "node",
    unified_memory: Unified = False,
    kinds: Kinds = None,
    memory: Memory = "256 MiB",
    flush: Flush = "1s",
    cupti: Cupti = None,
    library: Library = None,
    build: Build = False,
    anyway: Anyway = False,
    opencl: OpenCL = False,
    opencl_headers: Headers = None,
    mpi: MPI = None,
) -> int:
    """Run a GPU program and record it: calls, kernels, copies, waits, events, graphs, memory, NVTX
    ranges, MPI.

    turnbuckle record -- ./program ARGUMENTS

    The recorder is built on first use, with the C compiler and the CUPTI of this machine; nothing
    is downloaded. The program's output and exit code are passed on.
    """
    from turnbuckle.trace.cache import cache

    settings = {
        **_settings(graphs, unified_memory, kinds, memory, flush),
        **_delays(slack, jitter, seed, slack_class, slack_at),
        **_slower_link(link_bandwidth),
    }
    if opencl:
        cupti_only = {
            "--graphs whole": graphs == "whole",
            "--unified-memory": unified_memory,
            "--kinds": kinds is not None,
        }
        cupti_only |= {
            "--build": build,
            "--cupti": cupti is not None,
            "--library": library is not None,
            "--anyway": anyway,
        }
        with mpi_layer.beside(command, mpi, cache.folder(), _say) as preload:
            return record_opencl(
                command, output, {**settings, **preload}, opencl_headers, cupti_only, _keep
            )
    if opencl_headers is not None:
        raise error_of("N011.headers")
    if build:
        return _build(command, output, cupti)
    program = record_run.program(command)
    place = record_run.place_of(output, command)
    version = None
    try:
        version = driver.present().version
    except CannotAnswer as why:
        if not anyway:
            raise
        _say(f"note       {why.what}; the command is run all the same")
    with ExitStack() as stack:
        if library is None:
            chosen = toolchain.choose(version, cupti)
            library, fresh = stack.enter_context(toolchain.cached(chosen, cache.folder()))
            if fresh:
                _say(f"built      the recorder, against {chosen.label}")
        else:
            _note_strangers(library)
        library = record_run.usable(library)
        settings |= stack.enter_context(mpi_layer.beside(command, mpi, cache.folder(), _say))
        folder = stack.enter_context(record_run.private(place))
        env = record_run.environment(library, folder, settings)
        ran = record_run.run([program, *command[1:]], env)
        _keep(folder, place, ran)
    return ran.code


def of_command(command: Sequence[str], output: str | Path | None = None, **options: Any) -> Run:
    """Run a program under the recorder, and read its recording: ``turnbuckle record``.

    The program's output is passed on.

    Parameters
    ----------
    command : the program and its arguments.
    output : folder of the recording, as ``--output``.
    options : those of the command line, by name and as text: ``slack="10us"``, ``opencl=True``; all
        but ``build``.

    Raises
    ------
    NativeError : N001 to N019, N024 to N026.
    CannotAnswer : A182, A183, and A180 where no driver is present.
    """
    from turnbuckle.projection.run import Run

    place = record_run.place_of(None if output is None else Path(output), command)
    record(*command, output=place, **options)
    return Run.read(place)


# --- options --------------------------------------------------------------------------------------


def _settings(
    graphs: str, unified: bool, kinds: list[str] | None, memory: str, flush: str
) -> dict[str, str]:
    """Return the environment variables of the recorder's settings.  Raise N011 for a value out of
    range, `UnitError` for a unit.
    """
    chosen = flat(kinds) or list(KINDS)
    _refuse_unknown("--kinds", chosen, (*KINDS, *FURTHER))
    chosen += [word for word, wanted in (("graph", graphs == "whole"), ("uvm", unified)) if wanted]
    space, period = parse(memory, "B"), parse(flush, "s")
    _within("--memory", memory, space, *_MEMORY_BYTES, "1 MiB to 1 TiB")
    _within("--flush", flush, period, *_FLUSH_SECONDS, "0s to 1000s")
    return {
        "TB_KINDS": ",".join(chosen),
        "TB_MEMORY_MB": str(int(space) >> 20),
        "TB_FLUSH_MS": str(max(round(period * 1e3), period > 0)),
    }


def _delays(
    slack: str | None, jitter: str | None, seed: int | None, classes: list[str] | None, side: str
) -> dict[str, str]:
    """Return the environment variables of delays, fixed and random; empty where there are none.
    Raise as `_settings`.
    """
    if jitter is None and seed is not None:
        raise error_of("N011.seed", seed=seed)
    if slack is None and jitter is None:
        if classes:
            raise error_of("N011.slack", classes=",".join(flat(classes) or []))
        return {}
    out = {}
    if slack is not None:
        delay = parse(slack, "s")
        _within("--slack", slack, delay, 0.0, _LONGEST_DELAY, "0s to 100s")
        out["TB_SLACK_NS"] = str(round(delay * 1e9))
    if jitter is not None:
        least, dots, most = jitter.partition("..")
        if not dots:
            raise error_of("N011.range", found=clipped(jitter))
        bounds = [parse(text.strip(), "s") for text in (least, most)]
        for bound in bounds:
            _within("--jitter", jitter, bound, 0.0, _LONGEST_DELAY, "0s to 100s")
        if bounds[0] > bounds[1]:
            raise error_of(
                "N011.bounds", found=clipped(jitter), fix=f"--jitter {most}..{least}"[:80]
            )
        _within("--seed", str(seed), seed or 0, 0, _LARGEST_SEED, f"0 to {_LARGEST_SEED}")
        out |= {
            "TB_JITTER_FROM_NS": str(round(bounds[0] * 1e9)),
            "TB_JITTER_TO_NS": str(round(bounds[1] * 1e9)),
            "TB_JITTER_SEED": str(seed or 0),
        }
    chosen = flat(classes) or ["boundary"]
    _refuse_unknown("--slack-class", chosen, _CLASSES)
    return {**out, "TB_SLACK_CLASSES": ",".join(chosen), "TB_SLACK_WHERE": side}


def _slower_link(bandwidth: str | None) -> dict[str, str]:
    """Return the environment variable of the link; empty where it is unchanged.  Raise as
    `_settings`.
    """
    if bandwidth is None:
        return {}
    rate = parse(bandwidth, "B/s")
    _within("--link-bandwidth", bandwidth, rate, *_BANDWIDTH, "1 kB/s to 1 PB/s")
    return {"TB_LINK_BANDWIDTH": str(round(rate))}


def _note_strangers(library: Path) -> None:
    """Warn where another user may change a library that is loaded into the program; a site's own is
    used all the same.
    """
    try:
        private_folder.trusted_path(library)
    except private_folder.Shared as shared:
        _say(
            "note       the recorder may be another's by the time it is loaded: "
            f"{shared.path}: {shared.why}"
        )
    except OSError:
        pass  # `usable` says why


def _refuse_unknown(option: str, words: list[str], choices: tuple[str, ...]) -> None:
    for word in words:
        if word not in choices:
            raise error_of(
                "N011.word",
                found=clipped(word),
                fix=did_you_mean(word, choices) or None,
                option=option,
                choices=", ".join(choices),
            )


def _within(option: str, text: str, value: float, least: float, most: float, words: str) -> None:
    if not least <= value <= most:
        raise error_of("N011.value", found=clipped(text), option=option, words=words)


def _build(command: tuple[str, ...], output: Path | None, cupti: Path | None) -> int:
    """Build a recorder for another machine (``--build``)."""
    if output is None or command:
        raise error_of(
            "N011.build", found=f"command {clipped(command[0])}" if command else "no folder"
        )
    try:
        version: int | None = driver.present().version
    except CannotAnswer:
        version = None  # it may be built where there is no device
    chosen = toolchain.choose(version, cupti)
    made = toolchain.carry(chosen, output)
    for path in made:
        print(path)
    _say(
        f"built      against {chosen.label}; turnbuckle record --library {made[0]} -- "
        "./program uses it where both files lie"
    )
    return 0


#: Cause and fix by the code of CUPTI, or of the recorder (-2).  Without a device CUPTI of CUDA 13
#: returns 999, older ones 15.
_NOT_STARTED: Final = (
    (
        "the driver finds no device, is older than CUPTI needs, or another process holds the "
        "device alone"
    ),
    (
        "look at nvidia-smi and CUDA_VISIBLE_DEVICES; name a CUPTI of the driver's own release "
        "with --cupti"
    ),
)
_REFUSALS: Final = {
    "15": _NOT_STARTED,
    "999": _NOT_STARTED,
    "35": (
        "the driver lets only administrators profile",
        "ask the administrator: ERR_NVGPUCTRPERM in NVIDIA's pages says what to set",
    ),
    "39": (
        "another profiler is attached to the program",
        "run without nsys, ncu, cuda-gdb or torch.profiler; a process can have one",
    ),
    "-2": (
        "the program brings another CUPTI, or a setting is wrong",
        "name the program's own CUPTI with --cupti",
    ),
}
_REFUSED_OTHERWISE: Final = (
    (
        "another profiler is attached to the program, the driver does not permit it, or the "
        "program brings another CUPTI"
    ),
    (
        "run without nsys, ncu or torch.profiler; ask the administrator for profiling "
        "permission; or see --cupti"
    ),
)


# --- after the run --------------------------------------------------------------------------------


def _keep(folder: Path, place: Path, ran: Any) -> None:
    """Convert the recorder's files into the trace at `place`, and report what it holds.

    Raises N008 where CUPTI refused; N009 where the trace cannot be written (the recorder's files
    are kept); A182 where the program made no call of CUDA; A183 where it did nothing on a device.
    """
    from turnbuckle.trace.readers import parquet
    from turnbuckle.trace.readers.recorded import reader as recorded
    from turnbuckle.trace.trace import Trace

    ended = f"the command ended with {ran.code} after {ran.seconds:.3g} s"
    files, raw = record_run.files(folder), place.with_name(place.name + ".raw")
    if not files:
        raise error_of("A182", found=ended)
    try:
        with working("reading the records"):
            trace = recorded.together(files, name=place.name)
    except ProfileError as error:
        if error.code != "P065":
            _rescued(folder, raw)
            raise
        _refused(files, ended)
        raise error_of("A183", found=f"{ended}; {error.what}") from None
    except BaseException:
        # a run cannot be recorded again
        _rescued(folder, raw)
        raise
    facts = {name: value for name, value in trace.facts.items() if name in parquet.FACTS}
    whole = folder / "trace"
    try:
        Trace(trace.tables, trace.names, facts, trace.findings, trace.name).to_parquet(whole)
        whole.rename(place)
    except OSError as error:
        kept = _rescued(folder, raw, say=False)
        raise (
            error_of(
                "N009.kept", where=str(place), found=error.strerror or str(error), name=raw.name
            )
            if kept
            else error_of("N009.lost", where=str(place), found=error.strerror or str(error))
        ) from error
    except BaseException:
        _rescued(folder, raw)
        raise
    _report(trace, place, ran)


def _refused(files: list[Path], ended: str) -> None:
    """Refuse a recording whose files hold CUPTI's refusal (N008)."""
    for path in files:
        text = path.read_bytes()[: 1 << 16].decode("utf-8", "replace")
        for line in text.splitlines():
            if line.startswith("#refused "):
                code, _, why = line.removeprefix("#refused ").partition(" ")
                cause, fix = _REFUSALS.get(code, _REFUSED_OTHERWISE)
                raise error_of(
                    "N008",
                    found=f"{clipped(why, 120)} ({clipped(code, 12)}); {ended}",
                    cause=cause,
                    fix=fix,
                )


def _rescued(folder: Path, raw: Path, *, say: bool = True) -> bool:
    """Keep the recorder's files as the folder `raw`, because no trace can be made of them, and
    return whether they could be kept.
    """
    shutil.rmtree(folder / "trace", ignore_errors=True)
    try:
        folder.rename(raw)
    except OSError:
        return False
    if say:
        _say(f"kept       what was recorded, in {raw}: turnbuckle inspect reads its files")
    return True


def _report(trace: Any, place: Path, ran: Any) -> None:
    """Report records, cost, place and the next command; on stderr, because stdout belongs to the
    program.
    """
    facts = trace.facts["recorder"]
    tables: Mapping[str, Any] = trace.tables
    shown = (
        "api",
        "kernels",
        "graphs",
        "copies",
        "memsets",
        "syncs",
        "events",
        "allocations",
        "ranges",
        "page_faults",
        "mpi",
    )
    called = {
        "api": "calls",
        "graphs": "whole graphs",
        "memsets": "memory sets",
        "syncs": "waits",
        "page_faults": "page faults",
    }
    called["mpi"] = "rows of MPI calls"
    counts = [
        f"{tables[name].height:,} {called.get(name, name)}" for name in shown if name in tables
    ]
    processes = f"{facts['processes']} process" + ("es" if facts["processes"] > 1 else "")
    _say(f"recorded   {place}: {facts['records']:,} records of {processes} in {ran.seconds:.3g} s")
    _say(f"           {', '.join(counts)}")
    cupti_ns, delays = _overheads(trace)
    cost = f"writing records {_time(facts['writing_ns'])}, beside the program where a core is free"
    cost += f"; CUPTI's own work {_time(cupti_ns)}" if cupti_ns else ""
    cost += (
        f"; the MPI layer {_time(facts['mpi_layer_ns'])}, in the program's own threads"
        if "mpi_layer_ns" in facts
        else ""
    )
    cut = sum(finding.count for finding in trace.findings if finding.code == "P191")
    whole = f"{cost}; {facts['dropped']:,} records dropped" if cut < facts["processes"] else ""
    unknown = (
        "not known"
        + (f" of {cut} of {facts['processes']} processes" if whole else "")
        + ": the recording has no end"
    )
    _say(f"cost       {'; '.join(part for part in (whole, unknown if cut else '') if part)}")
    if slack := trace.facts.get("slack"):
        calls = sum(value for key, value in slack.items() if key.startswith("calls "))
        delays_of_call = (
            [f"{_time(slack['delay_ns'])} each"]
            if slack["delay_ns"] or "jitter_seed" not in slack
            else []
        )
        if "jitter_seed" in slack:
            delays_of_call.append(
                f"{_time(slack['jitter_from_ns'])} to {_time(slack['jitter_to_ns'])} at "
                f"random (seed {slack['jitter_seed']})"
            )
        _say(
            f"delayed    {calls:,} calls by {' and '.join(delays_of_call)}, {_time(delays)} "
            "in all: not this machine's own run"
        )
    for finding in trace.findings:
        if finding.code == "P211":
            _say(f"slower     link of {finding.detail}: not this machine's own run")
        elif finding.severity != "info" and finding.code != "P193":
            _say(
                f"{finding.code}       {finding.count:,}: {finding.meaning}"
                + (f" ({finding.detail})" if finding.detail else "")
            )
    if _moves_unseen(trace):
        _say(
            "note       unified memory was allocated, and no migration is recorded; "
            "--unified-memory records them"
        )
    if ran.code:
        _say(f"note       the command ended with {ran.code}, which is passed on")
    _say(f"next       turnbuckle inspect {shlex.quote(str(place))}")


def _moves_unseen(trace: Any) -> bool:
    """Return whether the program uses unified memory while the trace holds no migration."""
    import polars as pl

    managed, moved = (
        words("memories").index("managed"),
        [code for code, word in enumerate(words("directions")) if "migration" in word],
    )
    used = trace.allocations.filter(pl.col("memory") == managed).height
    return (
        bool(used)
        and trace.copies.filter(pl.col("direction").is_in(moved)).is_empty()
        and trace.page_faults.is_empty()
    )


def _overheads(trace: Any) -> tuple[int, int]:
    """Return the time [ns] that CUPTI reports for itself, and the time of the delays."""
    import polars as pl

    from turnbuckle.trace.readers.recorded.reader import DELAY

    rows = trace.overheads.select(
        pl.col("kind").fill_null(0), length=pl.col("end_ns") - pl.col("start_ns")
    )
    cupti_ns = rows.filter(pl.col("kind").is_between(3, 5) | pl.col("kind").is_between(9, 10))[
        "length"
    ].sum()
    return int(cupti_ns or 0), int(rows.filter(pl.col("kind") == DELAY)["length"].sum() or 0)


def _time(ns: int) -> str:
    return show(ns * 1e-9, "s")


def _say(line: str) -> None:
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
    print(text, file=sys.stderr, flush=True)
