"""Kernels and programs that others timed on several GPUs, beside the ratio that a projection gives
them without a recording.

    kernels  one benchmark on two GPUs, from its own output, both ways
    table    a public table of programs by GPU, a CSV file beside the case: each GPU with the next one that the row holds

A table has a line for each program::

    program,precision,quantity,v100-sxm2,a100-sxm4-80,h100-sxm5,source
    ResNet-50 training,fp16,images/s,833,1582,2616,https://...

`precision` is empty where the source does not state it.  A column `class` may name what most of a
program's kernels are, as `turnbuckle.profile.kernels.rules` does (``matrix product``); programs
without one are kernels of any kind.  A quantity with a ``/`` in it is a rate, others are times.  A
row is a ratio of times on two GPUs, so units cancel.

A061  the file cannot be read as text
A417  a column is missing, a cell that cannot be
A192  the files share no kernel
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.table_file import read_text
from turnbuckle.machine import Machine, Pair, load
from turnbuckle.machine.measured.logs import LARGEST_BYTES, read_measured
from turnbuckle.profile.kernels import OTHER, KernelKind, rules
from turnbuckle.projection.elsewhere.drawn import drawn_source, drawn_target
from turnbuckle.projection.elsewhere.kernels import kernels_longer
from turnbuckle.projection.elsewhere.priors import Draws
from turnbuckle.projection.uncertainty import DRAWS, LEVEL, SEED
from turnbuckle.questions.validate.cases import Ask, Case
from turnbuckle.questions.validate.rows import Data, Row

#: Elements of double precision that SCALE reads and writes once each, and threads a block: a factor
#: of four apart, in every file.
ELEMENTS: Final = tuple(1 << power for power in (20, 22, 24))
THREADS: Final = (64, 256, 1024)
#: Sizes of collectives [B], a factor of 32 apart.
SIZES: Final = tuple(1 << power for power in (11, 16, 21, 26))
#: Registers a thread of SCALE.
_REGISTERS: Final = 16
#: A table of programs is small.
_LARGEST_BYTES: Final = 1 << 20
_TAILS: Final = [(1.0 - LEVEL) / 2, (1.0 + LEVEL) / 2]
#: How SCALE is repeated where its launches are not those of the printed blocks, by the end of its
#: file's name.
_PERSISTENT: Final = ("gsync", "pt")
_COLLECTIVE: Final = KernelKind("collective", "none")
_COLUMNS: Final = ("program", "precision", "quantity", "source")
_CLASS: Final = "class"
_PRECISIONS: Final = ("", "fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")
#: From so many quantities on, a factor for all of them says something.
_SEVERAL: Final = 3

#: Time of one piece of work in a unit of its own, and the kernel that does it, by name.
Timed = Mapping[str, tuple[float, KernelKind]]


def longer(
    kinds: Sequence[KernelKind], source: Machine, target: Machine
) -> tuple[Float, Float, Float]:
    """Return time on the target over time on the source as a projection states it: middle and ends
    of its range, shapes (kinds,).
    """
    pair = Pair(source, target)
    drawn = drawn_source(pair.source, Draws(DRAWS, SEED))
    middle = kernels_longer(kinds, pair, pair.source, pair.target, Draws())
    there = drawn_target(pair.target, pair.target, drawn, Draws(DRAWS, SEED))
    sample = kernels_longer(kinds, pair, drawn, there, Draws(DRAWS, SEED))
    if middle is None or sample is None:
        raise error_of(
            "A192.machine",
            where=target.name,
            found=source.name,
            rates="gpu.memory_bandwidth, gpu.fp64, gpu.fp32",
        )
    low, high = np.quantile(sample, _TAILS, axis=0)
    return middle, np.minimum(low, middle), np.maximum(high, middle)


def kernels(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Yield kernels of a benchmark on one GPU from their times on another, both ways, beside what
    does not look at the kernel.
    """
    names = (case.a.machine, case.b.machine)
    sides = [_benchmark(data.path(case, side.file), question) for side in (case.a, case.b)]
    shared = [name for name in sides[0] if name in sides[1]]
    if not shared:
        raise error_of("A192.points", where=data.path(case, case.b.file).name)
    kind = (
        "collectives"
        if all(sides[0][name][1] == _COLLECTIVE for name in shared)
        else "kernel pairs"
    )
    for source, target in ((0, 1), (1, 0)):
        whole = [
            (name, sides[target][name][0] / sides[source][name][0], sides[source][name][1])
            for name in shared
        ]
        yield from _rows(case, kind, whole, load(names[source]), load(names[target]))


def table(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Yield the programs of a public table on each GPU from the one before it, beside what does not
    look at the program.
    """
    place = data.path(case, question.text("measured"))
    machines, lines = _table(place)
    pairs: dict[tuple[str, str], list[tuple[str, float, KernelKind]]] = {}
    for program, kind, rate, values in lines:
        for source, target in pairwise(name for name in machines if name in values):
            ratio = values[source] / values[target] if rate else values[target] / values[source]
            pairs.setdefault((source, target), []).append((program, ratio, kind))
    for source, target in sorted(
        pairs, key=lambda pair: (machines.index(pair[0]), machines.index(pair[1]))
    ):
        yield from _rows(case, "tables", pairs[source, target], load(source), load(target))


def _rows(
    case: Case,
    kind: str,
    whole: Sequence[tuple[str, float, KernelKind]],
    source: Machine,
    target: Machine,
) -> Iterator[Row]:
    """Yield what a projection says of each, that nothing changes, the ratio of memory bandwidths,
    and one factor that knows the answers.
    """
    middle, low, high = longer([k for _, _, k in whole], source, target)
    memory = [machine.value("gpu.memory_bandwidth") for machine in (source, target)]
    same = {"nothing": 1.0}
    if memory[0] and memory[1]:
        same["projection, kernels by memory"] = memory[0] / memory[1]
    if len(whole) >= _SEVERAL:
        same["constant"] = math.exp(sum(math.log(ratio) for _, ratio, _ in whole) / len(whole))
    for k, (name, ratio, _) in enumerate(whole):
        what = f"{name}: {target.name} over {source.name}"
        yield Row(
            case.name,
            kind,
            "projection",
            what,
            "",
            float(middle[k]),
            ratio,
            float(low[k]),
            float(high[k]),
        )
        for model, value in same.items():
            yield Row(case.name, kind, model, what, "", value, ratio)


def _benchmark(place: Path, question: Ask) -> Timed:
    if question.text("of") == "collective" and not question.words("rows"):
        curves = [curve for curve in read_measured(place).curves if curve.direction == "collective"]
        return {
            f"{curve.name}, {size:,} B": (
                float(np.interp(size, curve.size_bytes, curve.seconds)),
                _COLLECTIVE,
            )
            for curve in curves
            for size in SIZES
        }
    text = read_text(place, "the output of a benchmark", largest_bytes=LARGEST_BYTES)
    return _page(text, question) if question.words("rows") else _scale(text, place)


def _page(text: str, question: Ask) -> Timed:
    """Read rates from the rows of a page's tables by their first cells; the first row of a name
    counts.
    """
    kind = _COLLECTIVE if question.text("of") == "collective" else KernelKind()
    rows = re.findall(r"^\|([^|\n]*)\|[ \t]*([0-9.]+)[ \t]*\|[ \t]*$", text, re.MULTILINE)
    named = [(cell.strip(), value) for cell, value in reversed(rows)]
    rates = {
        name: float(value)
        for name, value in named
        if name in question.words("rows") and float(value) > 0
    }
    return {name: (1.0 / rates[name], kind) for name in question.words("rows") if name in rates}


def _scale(text: str, place: Path) -> Timed:
    """Read gpu-small-kernels: elements, volume, and a rate for each size of blocks, which doubles
    up to 1,024 threads.

    A row with fewer sizes than those before it was cut off.
    """
    rows = [line.split() for line in text.splitlines() if line.strip()]
    full = [
        row
        for row in rows
        if len(row) == len(rows[0]) > 2
        and all(cell.replace(".", "").isdigit() for cell in (row[0], *row[2:]))
    ]
    if not full:
        raise error_of("A192.points", where=place.name)
    count = np.array([float(row[0]) for row in full])
    persistent = place.stem.rpartition("_")[2] in _PERSISTENT
    out: dict[str, tuple[float, KernelKind]] = {}
    for elements in ELEMENTS:
        near = full[int(np.argmin(np.abs(count - elements)))]
        for threads in THREADS:
            column = int(math.log2(threads)) - 11
            rate = float(near[2:][column]) if -column <= len(near) - 2 else 0.0
            if rate > 0:
                kind = (
                    KernelKind()
                    if persistent
                    else KernelKind(
                        blocks=elements // threads + 1, threads=threads, registers=_REGISTERS
                    )
                )
                out[f"{elements:,} elements, {threads} threads a block"] = (
                    16.0 / (rate * 1e9),
                    kind,
                )
    return out


def _table(place: Path) -> tuple[list[str], list[tuple[str, KernelKind, bool, dict[str, float]]]]:
    """Return the machines of a table, and of each line the program, its kernel, whether its values
    are rates, and the values by machine.
    """
    text = read_text(place, "a table of programs by GPU", largest_bytes=_LARGEST_BYTES)
    lines = csv.DictReader(io.StringIO(text))
    heading = [*(lines.fieldnames or ())]
    if missing := [name for name in _COLUMNS if name not in heading]:
        raise error_of(
            "A417.missing",
            where=place.name,
            found=clipped(", ".join(heading)),
            wanted=f"a column {missing[0]}",
        )
    machines = [name for name in heading if name not in (*_COLUMNS, _CLASS)]
    bounds = {rule.word: rule.bound for rule in rules() if rule.what == "class"} | {
        "": KernelKind().bound
    }
    if len(machines) < 2 or len(set(machines)) < len(machines):
        raise error_of(
            "A417.missing",
            where=place.name,
            found=clipped(", ".join(machines)),
            wanted="a column for each of several machines",
        )
    out = []
    for row in lines:
        where = f"{place.name}:{lines.line_num}"
        values: dict[str, float] = {}
        for name in machines:
            cell = (row[name] or "").strip()
            if cell and not re.fullmatch(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?", cell):
                raise error_of(
                    "A417.missing",
                    where=where,
                    found=clipped(cell, 40),
                    wanted=f"a number of 0 or more for {name}",
                )
            if cell and float(cell) > 0:
                values[name] = float(cell)
        program, precision, quantity, source = ((row[name] or "").strip() for name in _COLUMNS)
        if not program or not quantity or not source or precision not in _PRECISIONS:
            cells = clipped(", ".join((program, precision, quantity, source)), 80)
            raise error_of(
                "A417.missing",
                where=where,
                found=cells,
                wanted="program, quantity and source, and a precision or none",
            )
        of = (row.get(_CLASS) or "").strip()
        if of not in bounds:
            raise error_of(
                "A417.missing",
                where=where,
                found=clipped(of, 40),
                wanted=f"a class: {', '.join(filter(None, bounds))}",
            )
        kind = KernelKind(of or OTHER, bounds[of], precision)
        out.append((program, kind, "/" in quantity, values))
    if not out:
        raise error_of("A192.points", where=place.name)
    return machines, out
