"""Readers of ``sacct --parsable2`` and of the Standard Workload Format (Chapin et al. 1999).

Of Slurm each job needs a time of submission and of its start, how long it ran, and what it was
given: ``sacct -P --format JobID,Partition,Submit,Start,Elapsed,Timelimit,NNodes,AllocTRES``.  Steps
of a job (``123.batch``) are not jobs.  The Standard Workload Format knows processors and no GPUs:
so many processors have one GPU as the user says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.findings import finding
from turnbuckle.questions.pool.lines import number, refused, rows_of
from turnbuckle.questions.pool.stream import MILLI, Stream, logged

_NEEDED: Final = ("JobID", "Submit", "Start")
_ELAPSED: Final = re.compile(
    r"(?:([0-9]{1,5})-)?(?:([0-9]{1,5}):)?([0-9]{1,5}):([0-9]{2})(?:\.[0-9]+)?"
)
_MEMORY: Final = re.compile(r"([0-9.]{1,15})([KMGTP]?)")
_MIB: Final = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
#: Columns of the Standard Workload Format, counted from 0.
_SUBMIT, _WAIT, _RUN, _ALLOCATED, _MEMORY_KB, _REQUESTED, _LIMIT, _QUEUE = 1, 2, 3, 4, 6, 7, 8, 14


def read_sacct(path: Path, text: str) -> Stream:
    """Read what ``sacct -P`` prints.  Raises P070.columns, P071."""
    header, rows = rows_of(path, text, "|")
    column = {name: k for k, name in enumerate(header)}
    elapsed = next((name for name in ("ElapsedRaw", "Elapsed") if name in column), None)
    given = next((name for name in ("AllocTRES", "ReqTRES", "TRESReq") if name in column), None)
    if missing := [
        *(n for n in _NEEDED if n not in column),
        *([] if elapsed else ["Elapsed"]),
        *([] if given else ["AllocTRES"]),
    ]:
        raise error_of("P070.columns", where=path.name, missing=", ".join(missing))
    assert elapsed is not None and given is not None
    jobs, names, keys, aside = [], [], [], 0
    for line, row in rows:
        if "." in row[column["JobID"]]:
            continue
        submit, start = (_instant(row[column[name]], path, line) for name in ("Submit", "Start"))
        ran = _duration(row[column[elapsed]], path, line)
        if math.isnan(submit) or math.isnan(start) or not ran > 0:
            aside += 1
            continue
        limit = next(
            (
                _duration(row[column[n]], path, line)
                for n in ("TimelimitRaw", "Timelimit")
                if n in column
            ),
            math.nan,
        )
        limit *= 60.0 if "TimelimitRaw" in column else 1.0
        tres = _tres(row[column[given]], path, line)
        nodes = max(
            1,
            round(
                tres.get(
                    "node", number(row[column["NNodes"]], path, line) if "NNodes" in column else 1.0
                )
            ),
        )
        each = (
            tres.get("cpu", math.nan) / nodes,
            tres.get("gpu", 0.0) / nodes,
            tres.get("mem", 0.0) / nodes,
        )
        jobs.append(
            (submit, start, ran, ran if math.isnan(limit) else max(limit, ran), nodes, *each)
        )
        keys.append(row[column["JobID"]])
        names.append(clipped(row[column["Partition"]], 40) if "Partition" in column else "jobs")
    return _made("sacct", jobs, names, keys, aside)


def read_swf(path: Path, text: str, cores_per_gpu: int) -> Stream:
    """Read the Standard Workload Format: processors are cores, and every `cores_per_gpu` of them
    have one GPU.
    """
    jobs, names, keys, aside = [], [], [], 0
    for k, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        cells = line.split()
        if len(cells) != 18:
            raise error_of("P071.line", where=f"{path.name}:{k}", found=str(len(cells)), count=18)
        # negative: not known
        values = [-1.0 if cell.startswith("-") else number(cell, path, k) for cell in cells]
        processors = values[_ALLOCATED] if values[_ALLOCATED] > 0 else values[_REQUESTED]
        if values[_SUBMIT] < 0 or values[_RUN] <= 0 or processors <= 0:
            aside += 1
            continue
        limit = max(values[_LIMIT], values[_RUN])
        gpus = math.ceil(processors / cores_per_gpu) if cores_per_gpu else 0
        start = values[_SUBMIT] + values[_WAIT] if values[_WAIT] >= 0 else math.nan
        memory = max(values[_MEMORY_KB], 0.0) * processors / 1024
        jobs.append((values[_SUBMIT], start, values[_RUN], limit, 1, processors, gpus, memory))
        keys.append(cells[0])
        names.append(f"queue {cells[_QUEUE]}" if values[_QUEUE] >= 0 else "jobs")
    return _made("Standard Workload Format", jobs, names, keys, aside, divided=True)


def _made(
    source: str,
    jobs: Sequence[tuple[float, ...]],
    names: Sequence[str],
    keys: Sequence[str],
    aside: int,
    *,
    divided: bool = False,
) -> Stream:
    numbers = np.array(jobs, dtype=np.float64).reshape(-1, 8)
    columns = dict(zip(("arrival", "start", "work", "limit", "parts"), numbers.T[:5], strict=True))
    # several nodes share what a job was given
    cores, gpus = np.ceil(numbers[:, 5:7] * MILLI).T
    columns |= {"cores": cores, "gpus": gpus, "memory": np.ceil(numbers[:, 7])}
    findings = (finding("P224", aside),) if aside else ()
    return logged(source, columns, names, keys, findings=findings, divided=divided)


def _instant(text: str, path: Path, line: int) -> float:
    """Return a time of Slurm [s]; nan where it has none."""
    if text in ("Unknown", "None", ""):
        return math.nan
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise refused(path, line, text) from None


def _duration(text: str, path: Path, line: int) -> float:
    """Return a duration [s]: seconds, or days-hours:minutes:seconds; nan where there is none, or a
    negative one.

    >>> _duration("1-02:03:04", Path("jobs"), 1), _duration("05:06", Path("jobs"), 1), _duration("90", Path("jobs"), 1)
    (93784.0, 306.0, 90.0)
    """
    if text in ("", "UNLIMITED", "Partition_Limit", "INVALID") or text.startswith("-"):
        return math.nan
    if match := _ELAPSED.fullmatch(text):
        days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return number(text, path, line)


def _tres(text: str, path: Path, line: int) -> dict[str, float]:
    """Return what a job was given: cpu, gpu, node, mem [MiB].

    >>> _tres("billing=64,cpu=64,gres/gpu:a100=8,gres/gpu=8,mem=480G,node=2", Path("jobs"), 1)
    {'cpu': 64.0, 'gpu': 8.0, 'mem': 491520.0, 'node': 2.0}
    """
    out: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name in ("cpu", "node"):
            out[name] = number(value, path, line)
        elif name == "gres/gpu":
            out["gpu"] = number(value, path, line)
        elif name.startswith("gres/gpu:") and "gres/gpu=" not in text:
            out["gpu"] = out.get("gpu", 0.0) + number(value, path, line)
        elif name == "mem" and (match := _MEMORY.fullmatch(value)):
            out["mem"] = number(match[1], path, line) * _MIB[match[2]]
    return out
