"""``turnbuckle doctor``: checks of the installation, of a recording, and of a node's topology."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, ClassVar

import polars as pl
from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from turnbuckle._native import __build__
from turnbuckle._native import __version__ as native
from turnbuckle.foundation import private_folder, registry
from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.units import show as show_unit
from turnbuckle.machine import Machine, all_machines, load
from turnbuckle.machine.measured.topology import Topology, cpu_list, in_words
from turnbuckle.machine.measured.topology import read as read_topology
from turnbuckle.profile.messages.traffic import traffic
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary import summary
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.model import charge_named
from turnbuckle.projection.run import Run
from turnbuckle.show.run_tables import start_up_words
from turnbuckle.show.terminal.drawing import plain_text
from turnbuckle.show.terminal.options import FormatOption, Source
from turnbuckle.show.terminal.output import emit
from turnbuckle.show.terminal.recording import inspected
from turnbuckle.show.terminal.tables import unframed
from turnbuckle.trace.cache.cache import folder
from turnbuckle.trace.recorders import recorder
from turnbuckle.trace.secrets import look


@dataclass(frozen=True, repr=False)
class Checks(Shown):
    """Checks: each has a state (``ok``, ``look`` or ``bad``), a subject and a detail."""

    question: ClassVar[str] = "doctor"

    checks: list[dict[str, Any]]

    def table(self) -> pl.DataFrame:
        """Return a row for each check."""
        return pl.DataFrame(self.checks)

    def headline(self) -> str:
        """Return how many checks are in which state, in one line."""
        states = [check["state"] for check in self.checks]
        return (
            f"{len(states)} checks: "
            f"{', '.join(f'{states.count(s)} {s}' for s in ('ok', 'look', 'bad') if s in states)}"
        )


def examined(
    profile: str | Path | None = None,
    *,
    node_topology: str | Path | None = None,
    cpus: str | None = None,
    source: str | Machine | None = None,
) -> Checks:
    """Check the installation, and a recording and the place of a node's GPUs if they are given:
    ``turnbuckle doctor``.

    Parameters
    ----------
    profile : a recording.
    node_topology : what ``nvidia-smi topo -m``, ``rocm-smi --showtopo`` or ``lstopo --of xml``
        printed on the node.
    cpus : the CPUs that the program ran on, as ``0-15,32``; None takes those that it states as
        allowed.
    source : the machine that it ran on, whose link the GPUs' are held against.

    Raises
    ------
    ProfileError : the recording cannot be read.
    UsageError : A486 to A488, the topology or the list of CPUs.
    """
    lines = [*installation(), *(recording(Path(profile)) if profile is not None else [])]
    if node_topology is not None:
        lines += placed(
            read_topology(Path(node_topology)),
            None if cpus is None else cpu_list(cpus),
            None if source is None else load(source),
        )
    return Checks(lines)


def placed(
    node: Topology, cpus: frozenset[int] | None, machine: Machine | None
) -> list[dict[str, Any]]:
    """Check each GPU: its NUMA node, whether its CPUs are on the same node, and whether its link is
    as fast as the machine file states.
    """
    out = []
    drive = node.allowed if cpus is None else cpus
    stated = None if machine is None else machine.value("link.h2d.bandwidth")
    for gpu in node.gpus:
        about = [f"NUMA node {gpu.numa}"] if gpu.numa is not None else []
        about += [f"CPUs {in_words(gpu.cpus)[:60]}"] if gpu.cpus else []
        about += [f"link of {show_unit(gpu.link_bandwidth, 'B/s')}"] if gpu.link_bandwidth else []
        out.append(
            _line(
                "ok" if about else "look",
                gpu.name,
                ", ".join(about) or f"{node.tool} does not say where it stands",
            )
        )
        if drive and gpu.cpus and not drive & gpu.cpus:
            flaw = finding(
                "A484",
                1,
                (
                    f"it stands beside CPUs {in_words(gpu.cpus)[:60]}, the program ran on "
                    f"{in_words(drive)[:60]}"
                ),
            )
            out.append(
                _line("look", gpu.name, f"A484: {flaw.meaning}: {flaw.detail}; {flaw.advice}")
            )
        if stated and gpu.link_bandwidth and gpu.link_bandwidth < _AS_STATED * stated:
            flaw = finding(
                "A485", 1, f"{show_unit(gpu.link_bandwidth, 'B/s')}, not {show_unit(stated, 'B/s')}"
            )
            out.append(
                _line("look", gpu.name, f"A485: {flaw.meaning}: {flaw.detail}; {flaw.advice}")
            )
    return out


#: Least share of the stated bandwidth of a link: files round, and some count the line code.
_AS_STATED = 0.9


def show(console: Console, answer: Checks) -> None:
    """Print a line for each check."""
    table = unframed("state", "what", "detail", words=("state", "what", "detail"), heading=False)
    for c in answer.checks:
        table.add_row(
            Text(c["state"], _COLOURS[c["state"]]), c["what"], Text(c["detail"], style="dim")
        )
    console.print(table)


_COLOURS = {"ok": "green", "look": "yellow", "bad": "red"}


def _line(state: str, what: str, detail: str) -> dict[str, Any]:
    return {"state": state, "what": what, "detail": detail}


def installation() -> list[dict[str, Any]]:
    """Return the checks of the installation: versions, native core, catalogue, cache."""
    installed = version("turnbuckle")
    machines = all_machines()
    return [
        _line(
            "ok",
            "turnbuckle",
            (
                f"{installed}, Python {platform.python_version()}, {platform.machine()}, "
                f"{os.cpu_count()} cores"
            ),
        ),
        _line(
            "ok" if native == installed else "bad",
            "native core",
            f"{native}, {__build__}"
            if native == installed
            else f"{native}: built for another version; reinstall",
        ),
        _line("ok", "libraries", ", ".join(_libraries())),
        _line("ok", "machine catalogue", f"{len(machines)} machines"),
        *_plugins(),
        _cache(),
        _line(
            "ok" if sys.stdout.encoding.lower().startswith("utf") else "look",
            "terminal",
            f"encoding {sys.stdout.encoding}",
        ),
    ]


def _plugins() -> Iterator[dict[str, Any]]:
    """Check what packages of third parties add; the catalogue has asked for their machines."""
    for entry in registry.foreign():
        try:
            charge_named(entry.name) if entry.kind == "charges" else entry.load()
        except TurnbuckleError as error:
            registry.left_out(entry, error)
        else:
            yield _line("ok", entry.package, f"{entry.kind} {entry.name}")
    yield from (_line("bad", "package", fault) for fault in registry.faults())


def _libraries() -> Iterator[str]:
    """Return name and version of each library that computes; those of extras where they are
    installed.
    """
    for name in ("numpy", "polars", "scipy", "pandas", "pyarrow", "distributed"):
        with suppress(PackageNotFoundError):
            yield f"{name} {version(name)}"


def _cache() -> dict[str, Any]:
    cache = folder()
    above = next(p for p in (cache, *cache.parents) if p.exists())
    try:
        private_folder.trusted_path(above)
        if cache.exists():
            private_folder.look(cache)
    except private_folder.Shared as shared:
        return _line(
            "look",
            "cache",
            f"not used, every recording is read afresh: {shared.why}: {_clean(str(shared.path))}",
        )
    except OSError:
        pass  # a file where the folder should be
    writable = os.access(above, os.W_OK)
    return _line(
        "ok" if writable else "look",
        "cache",
        "writable" if writable else "not writable: every recording is read afresh",
    )


def recording(path: Path) -> list[dict[str, Any]]:
    """Return the checks of a recording."""
    answer = inspected(path, None, False)
    profile, trace = answer.profile, answer.profile.trace
    findings = {f.code: f for f in answer.findings}
    gap = findings.get("P205")
    nsys = trace.facts.get("format", "nsys") == "nsys"
    schema, writer = trace.facts.get("schema_version"), trace.facts.get("product_version")
    written = f"{schema or 'none recorded (before 2.7)'}, by {writer or 'an unknown version'}"
    memory = {"nsys": "--cuda-memory-usage=true", "kineto": "profile_memory=True"}.get(
        trace.facts.get("format", "nsys")
    )
    in_checks = ("P115", "P109", "P111", "P119", "P182", "P220", "P261")
    # a run of MPI calls alone has no device to check
    device = nsys or answer.on_device
    return [
        _line("ok" if schema else "look", "schema", _clean(written))
        if nsys
        else _line("ok", "format", _clean(recorder(trace.facts))),
        *_if(
            device,
            _rows(
                "kernels",
                trace.kernels.height,
                "none: record with --trace=cuda" if nsys else "none recorded",
            ),
            _state(
                findings.get("P115"),
                "CUDA graphs",
                "every kernel of a graph has its own row, or there are no graphs",
            ),
            _state(findings.get("P109"), "host calls", "every device activity has its host call"),
            _state(findings.get("P111"), "clock", "no device activity begins before its call")
            if answer.projectable
            else _line(
                "look", "clock", "no host call is recorded to hold the device's times against"
            ),
        ),
        *_start_up(answer),
        *_messages(traffic(trace)),
        _overhead(profile, findings.get("P261")),
        *_if(
            device,
            _rows(
                "synchronisations",
                trace.syncs.height,
                "none: what waits for what will have to be inferred",
            ),
            _rows(
                "allocations",
                trace.allocations.height,
                f"none: record with {memory} for a memory time line" if memory else "none",
            ),
        ),
        _line(
            "ok" if gap is None else "look",
            "host time",
            "explained" if gap is None else f"{gap.detail} explained by no record",
        ),
        *(
            _line("look", "credentials", f"{f.count:,}: {f.meaning}; {f.advice}")
            for f in look(path).findings()
        ),
        _state(
            findings.get("P119"),
            "secrets",
            "no environment, command line, host or user names in the file",
        ),
        *(
            _line("look", f.code, f"{f.count:,}: {f.meaning}")
            for f in answer.findings
            if f.severity != "info" and f.code not in in_checks
        ),
    ]


def _overhead(profile: Profile, notes: Finding | None) -> dict[str, Any]:
    """Check what the profiler itself took: what it wrote of its own work, and what its notes of the
    host may have taken beside.
    """
    share = summary.overhead_share(profile)
    written = f"{share:.1%} of run time" if profile.trace.overheads.height else "not recorded"
    if notes is not None:
        return _line(
            "look",
            "profiler overhead",
            f"{written}, and beside it notes of {notes.detail}; {notes.advice}",
        )
    return _line(
        "ok" if profile.trace.overheads.height and share < 0.1 else "look",
        "profiler overhead",
        written,
    )


def _start_up(run: Run) -> list[dict[str, Any]]:
    """Check that the recording holds more than its start-up; otherwise it says nothing about a
    longer run.
    """
    begun = run.start_up
    if begun is None:
        return []
    words = plain_text(start_up_words(run, begun)).plain
    if begun.is_all:
        calls = f", {begun.call_share:.0%} of its calls" if begun.call_share > begun.share else ""
        return [
            _line(
                "bad",
                "start-up",
                (
                    f"unfit, the run is all start-up{calls}: {words}; record more of the work "
                    "that repeats"
                ),
            )
        ]
    if begun.tells:
        return [_line("look", "start-up", f"{words}; --part steady leaves it out")]
    return [_line("ok", "start-up", words)]


def _if(shown: bool, *lines: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return lines if shown else ()


def _messages(mpi: dict[str, Any] | None) -> list[dict[str, Any]]:
    if mpi is None:
        return []
    met, open_ = mpi["messages"]["matched"], mpi["messages"]["unmatched"]
    counts = f"{met:,} with both sides" + (
        f", {open_:,} sends and receives without the other" if open_ else ""
    )
    return [_line("look" if open_ else "ok", "messages", counts)]


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)[:120]


def _rows(what: str, count: int, none: str) -> dict[str, Any]:
    return _line("ok", what, f"{count:,} recorded") if count else _line("look", what, none)


def _state(finding: Finding | None, what: str, good: str) -> dict[str, Any]:
    return (
        _line("ok", what, good)
        if finding is None
        else _line("look", what, f"{finding.count:,}: {finding.meaning}; {finding.advice}")
    )


def doctor(
    profile: Annotated[Path | None, Parameter(help="a recording to look over")] = None,
    /,
    *,
    node_topology: Annotated[
        Path | None,
        Parameter(
            help=(
                "where a node's GPUs stand, as nvidia-smi topo -m, rocm-smi --showtopo or lstopo "
                "--of xml prints it"
            )
        ),
    ] = None,
    cpus: Annotated[
        str | None,
        Parameter(
            help="CPUs that the program ran on, as 0-15,32; those that lstopo may use if left out"
        ),
    ] = None,
    source: Source = None,
    format: FormatOption = "table",
) -> int:
    """Check the installation, and a recording or a node's topology if given: schema, clock,
    coverage, secrets; GPUs' NUMA side, link.
    """
    emit(
        examined(profile, node_topology=node_topology, cpus=cpus, source=source),
        "checks",
        show,
        format,
        None,
    )
    return 0
