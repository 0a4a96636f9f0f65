"""``turnbuckle calibrate``: measurements of a machine, or measuring it, to a machine file with
errors and provenance.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.foundation.files import refuse_input
from turnbuckle.foundation.findings import finding
from turnbuckle.foundation.units import parse
from turnbuckle.machine import Parameter as MachineParameter
from turnbuckle.machine import load
from turnbuckle.machine.machine import COUPLINGS
from turnbuckle.questions.calibrate.machine_file import is_name, machine_text
from turnbuckle.show.terminal.options import before_work, flat
from turnbuckle.show.terminal.output import write_json, write_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from turnbuckle.machine import Machine, ParameterName
    from turnbuckle.machine.measured.logs import Measured
    from turnbuckle.questions.calibrate.calibration import Calibration, Origin

Files = Annotated[
    Path,
    Parameter(
        help=(
            "outputs of nvbandwidth, bandwidthTest, hipBusBandwidth, OSU, gdrcopy, nccl-tests, "
            "gpu_copy, CSV, microbench, ..."
        )
    ),
]
Run = Annotated[
    bool,
    Parameter(
        name="--run",
        help="measure this machine's first GPU: needs its driver and a C compiler, nothing else",
        negative=(),
    ),
]
Quick = Annotated[
    bool, Parameter(name="--quick", help="with --run: fewer sizes and repetitions", negative=())
]
Managed = Annotated[
    bool, Parameter(name="--managed", help="with --run: unified memory too (32 MiB)", negative=())
]
Only = Annotated[
    list[str] | None,
    Parameter(
        name="--only", help="with --run: only these sections, separated by commas", negative=()
    ),
]
Keep = Annotated[
    Path | None,
    Parameter(
        name="--keep", help="with --run: write the raw lines there; they can be read again as FILE"
    ),
]
Base = Annotated[
    str | None,
    Parameter(
        name="--base", help="machine that gives the numbers not measured: a name or a TOML file"
    ),
]
Name = Annotated[str | None, Parameter(name="--name", help="name of the machine")]
Pings = Annotated[
    Path | None,
    Parameter(
        name="--pings",
        help=(
            "JSON: programs that ran without and through a remoting layer; --base is the layer "
            "as far as it is known"
        ),
    ),
]
Beside = Annotated[
    list[Path] | None,
    Parameter(
        name="--beside",
        help=(
            "probe of the same machine without the coupling (bare, not virtualised): the machine "
            "file then holds what both differ in"
        ),
        negative=(),
    ),
]
CopiedSize = Annotated[
    str | None,
    Parameter(
        name="--copied-size", help="size of the copies, for a file of rates that does not state it"
    ),
]
Between = Annotated[
    bool,
    Parameter(
        name="--between-nodes",
        help="the ranks of messages were on different nodes, if the file does not state it",
        negative=(),
    ),
]
Form = Annotated[
    Literal["table", "json"],
    Parameter(name="--format", help="summary: table for people, json for programs (stable)"),
]
Surface = Annotated[
    Path | None,
    Parameter(
        name="--surface",
        help=(
            "write run times of the slack proxy there (CSV), as turnbuckle slack --published "
            "reads them"
        ),
    ),
]
Written = Annotated[
    Path | None,
    Parameter(
        name=["--output", "-o"],
        help="write the machine file there (TOML)",
        validator=before_work("the machine file", "machine.toml"),
    ),
]


def calibrate(
    *files: Files,
    run: Run = False,
    base: Base = None,
    name: Name = None,
    copied_size: CopiedSize = None,
    between_nodes: Between = False,
    quick: Quick = False,
    managed: Managed = False,
    only: Only = None,
    keep: Keep = None,
    surface: Surface = None,
    pings: Pings = None,
    beside: Beside = None,
    format: Form = "table",
    output: Written = None,
) -> int:
    """Turn measurements of a machine into a machine file: values, errors, and which line of which
    file each is from.
    """

    from turnbuckle.questions.calibrate.question import calibrate as fitted
    from turnbuckle.questions.calibrate.question import one_device, read_origin

    if beside and (base is not None or pings is not None or surface is not None):
        raise error_of("A410.beside")
    if pings is not None:
        if files or run or base is None:
            raise error_of("A410.pings")
        return _layer(pings, base, name, format, output)
    if not files and not run:
        raise error_of("A408")
    if not run:
        _refuse_idle(
            {
                "--quick": quick,
                "--managed": managed,
                "--only": bool(only),
                "--keep": keep is not None,
            }
        )
    if name is not None and not is_name(name):
        raise error_of("A409", found=name[:60])
    on = load(base) if base is not None else None
    size = None if copied_size is None else parse(copied_size, "B")
    read: list[tuple[Origin, Measured]] = []
    for file in files:
        read.append(read_origin(file, size, between_nodes))
    failed: list[str] = []
    if run:
        # the raw lines stay beside the machine file, which names their hash
        keep = keep or (output.with_suffix(".jsonl") if output is not None else None)
        if keep is not None:
            refuse_input(keep, "the file of measured lines")
        measurement, failed = _measured_here(keep, quick, managed, only)
        read.append(measurement)
    one_device([o for o, _ in read])
    answer = fitted(read, on)
    if failed:
        answer = replace(
            answer,
            findings=(
                *answer.findings,
                finding("A333", len(failed), "sections that did not end: " + "; ".join(failed)),
            ),
        )
    if beside:
        bare = [read_origin(file, size, between_nodes) for file in beside]
        one_device([o for o, _ in bare])
        return _coupled(answer, fitted(bare), name, format, output)
    if output is not None:
        if not answer.parameters:
            raise error_of(
                "A184",
                where=", ".join(o.file for o, _ in read)[:120],
                found=", ".join(dict.fromkeys(e.name for e in answer.others))[:120]
                or "no curve with sizes enough for a line",
            )
        _write(answer, read, name or _name_of(output), base, on, output)
    if surface is not None:
        _write_surface(answer, surface)
    if format == "json":
        write_json(
            {
                "schema_version": SCHEMA_VERSION,
                "machine_file": output.name if output else None,
                **answer.as_dict(),
            },
            None,
        )
    else:
        from turnbuckle.questions.calibrate.tables import emit

        emit(answer, output, keep)
    return 0


def _layer(pings: Path, base: str, name: str | None, format: str, output: Path | None) -> int:
    """Write a remoting layer from programs that ran through it: what they say, and a machine file
    on the layer that was known.
    """
    from turnbuckle.questions.calibrate.layer import calibrated, read_pings

    if name is not None and not is_name(name):
        raise error_of("A409", found=name[:60])
    layer = load(base)
    fitted = calibrated(read_pings(pings), layer, f"turnbuckle calibrate --pings {pings.name}")
    if output is not None:
        below = (
            os.path.relpath(base, output.parent) if base.endswith(".toml") or "/" in base else base
        )
        text = machine_text(
            {str(n): p for n, p in fitted.items()},
            name=name or layer.name,
            title=f"{layer.title}, as measured",
            summary=f"{', '.join(fitted)} from {pings.name}; the rest is {layer.name}'s.",
            coupling="remoting",
            base=below if "/" in below or not below.endswith(".toml") else f"./{below}",
        )
        write_text(text, output)
        load(f"{output.parent}/{output.name}")
    if format == "json":
        write_json(
            {
                "schema_version": SCHEMA_VERSION,
                "machine_file": output.name if output else None,
                "parameters": _rows(fitted),
            },
            None,
        )
    else:
        from turnbuckle.questions.calibrate.tables import emit_layer

        emit_layer(fitted, layer, output)
    return 0


def _coupled(
    behind: Calibration, bare: Calibration, name: str | None, format: str, output: Path | None
) -> int:
    """Write the coupling between two probes of one machine: what it multiplies, and a machine file
    of these changes.
    """
    from turnbuckle.questions.calibrate.coupling import factors, title

    scales = factors(behind, bare)
    if output is not None:
        text = machine_text(
            {f"change.{n}.scale": p for n, p in scales.items()},
            [
                (
                    f"Written by turnbuckle calibrate on {datetime.now(UTC).date().isoformat()}: "
                    "what one machine's two probes differ in."
                ),
                *(
                    f"  {o.file}  sha256 {o.sha256}  {o.tool}"
                    for o in (*behind.origins, *bare.origins)
                ),
            ],
            name=name or _name_of(output),
            title=title(behind),
            summary=(
                f"Multiplies {len(scales)} numbers of the link by what two probes of one machine "
                "differ in."
            ),
            coupling="relative",
            base="source",
        )
        write_text(text, output)
        load(f"{output.parent}/{output.name}")
    if format == "json":
        write_json(
            {
                "schema_version": SCHEMA_VERSION,
                "machine_file": output.name if output else None,
                "parameters": _rows(scales),
            },
            None,
        )
    else:
        from turnbuckle.questions.calibrate.tables import emit_coupling

        emit_coupling(scales, output)
    return 0


def _rows(parameters: Mapping[ParameterName, MachineParameter]) -> list[dict[str, Any]]:
    """Return fitted parameters as a document holds them."""
    return [
        {
            "parameter": n,
            "value": p.value,
            "unit": p.unit,
            "error": p.error,
            "source": p.source,
            "note": p.note,
        }
        for n, p in parameters.items()
    ]


def _name_of(output: Path) -> str:
    """Return the name of a machine by that of its file."""
    name = re.sub(r"[^a-z0-9.-]+", "-", output.stem.lower()).strip(".-")[:64]
    return name if is_name(name) else "calibrated"


def _refuse_idle(given: dict[str, bool]) -> None:
    """Raise A410 where an option of --run is given without it."""
    word = next((option for option, is_given in given.items() if is_given), None)
    if word is not None:
        raise error_of("A410.run", word=word)


def _measured_here(
    keep: Path | None, quick: bool, managed: bool, only: list[str] | None
) -> tuple[tuple[Origin, Measured], list[str]]:
    """Measure this machine; return the measurements and the names of the sections that failed."""

    from turnbuckle.questions.calibrate.question import read_origin

    with tempfile.TemporaryDirectory(prefix="turnbuckle-") as folder:
        place = keep or Path(folder) / "microbench.jsonl"
        says = _say if sys.stderr.isatty() else None
        failed = registry.load("services", "measure")(
            place, quick=quick, managed=managed, only=flat(only), says=says
        )
        return read_origin(place), failed


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _write(
    answer: Calibration,
    read: list[tuple[Origin, Measured]],
    name: str,
    base: str | None,
    on: Machine | None,
    output: Path,
) -> None:
    """Write the machine file, and read it back before its name is printed."""

    below = ""
    if base is not None and on is not None:
        below = (
            os.path.relpath(base, output.parent) if base.endswith(".toml") or "/" in base else base
        )
        below = below if "/" in below or not below.endswith(".toml") else f"./{below}"
    parameters = {
        e.name: MachineParameter(e.value, e.error, e.unit, e.nature, e.source, e.note)
        for e in answer.parameters
    }
    devices, drivers = (
        ", ".join(answer.devices) or "device not named",
        ", ".join(answer.drivers) or "driver not named",
    )
    comments = [
        f"Written by turnbuckle calibrate on {datetime.now(UTC).date().isoformat()} from",
        *(f"  {o.file}  sha256 {o.sha256}  {o.tool}" for o, _ in read),
        f"Device: {devices}.  Driver: {drivers}.  Errors are one standard deviation, relative.",
        *(
            [f"The base is known by other device names than {answer.stranger}."]
            if answer.stranger
            else []
        ),
        *(
            [f"What is not named here is {base}'s."]
            if base
            else ["What is not named here was not measured."]
        ),
    ]
    text = machine_text(
        parameters,
        comments,
        name=name,
        title=f"{devices}, as measured",
        summary=f"{len(parameters)} numbers from {len(read)} files of measurements.",
        year=0 if on is not None else int(max(o.date for o, _ in read)[:4]),
        coupling=_coupling(answer),
        base=below,
        recognise=answer.devices,
    )
    write_text(text, output)
    load(f"{output.parent}/{output.name}")


#: Device calls of one turn of the slack proxy, and bytes of an element of its matrices.
_CALLS, _ELEMENT = 5, 4


def _write_surface(answer: Calibration, place: Path) -> None:
    """Write one line per point and turn.

    Raise A188 without a run of the proxy.
    """
    if not answer.surface:
        raise error_of("A188")
    alone = all("kernel_seconds" in p for p in answer.surface)
    lines = [
        "size [B], threads, slack [s], run time [s], calls" + (", kernel [s]" if alone else "")
    ]
    for p in answer.surface:
        size = _ELEMENT * p["size"] ** 2
        line = f"{size:.0f}, {p['threads']:.0f}, {p['slack_s']:.9g}, {p['seconds']:.9g}, {_CALLS}"
        lines.append(line + (f", {p['kernel_seconds']:.9g}" if alone else ""))
    write_text("\n".join(lines) + "\n", place)


def _coupling(answer: Calibration) -> str:
    """Return the base's coupling, else that of the link whose rate the measured one fits; PCIe if
    none does.
    """
    from turnbuckle.profile.transfers import looks_like

    if answer.base is not None:
        return answer.base.coupling
    rate = answer.value("link.h2d.bandwidth") or answer.value("link.d2h.bandwidth")
    kinds = {link.kind for link in looks_like(rate, answer.devices)} if rate else set()
    kind = kinds.pop() if len(kinds) == 1 else "pcie"
    return kind if kind in COUPLINGS else "pcie"
