"""Readers of job logs: tables of two public fleets, ``sacct --parsable2``, and the Standard
Workload Format.

P070  no log of jobs that is known
P071  a line of a log that cannot be read
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.questions.pool.lines import Rows, number, read_text, rows_of, time, whole
from turnbuckle.questions.pool.slurm import read_sacct, read_swf
from turnbuckle.questions.pool.stream import MILLI, Stream, logged, together

_PODS: Final = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
_REQUESTS: Final = ("cpu_request", "gpu_request", "memory_request")
_INSTANCES: Final = (
    "instance_sn",
    "role",
    *_REQUESTS,
    "creation_time",
    "scheduled_time",
    "deletion_time",
)


def read_log(path: Path, cores_per_gpu: int = 1, resident: bool = False) -> Stream:
    """Read a log of jobs, whatever its format.

    Parameters
    ----------
    cores_per_gpu : processors of a job that have one GPU, where a format has none (Standard
        Workload Format).
    resident : the jobs are meant to stay: those that never found a place count as well.

    Raises
    ------
    ProfileError : P070, P071.  UsageError : A447.
    """
    text = read_text(path)
    first = next((line for line in text.splitlines() if line.strip()), "")
    if first.startswith(";") or (
        len(first.split()) == 18 and "|" not in first and "," not in first
    ):
        return read_swf(path, text, cores_per_gpu).sorted()
    if "|" in first:
        return read_sacct(path, text).sorted()
    header, rows = rows_of(path, text, ",")
    if set(_PODS) <= set(header):
        return _pods(path, header, rows, resident).sorted()
    if set(_INSTANCES) <= set(header):
        return _instances(path, header, rows).sorted()
    raise error_of("P070.format", where=path.name, found=clipped(first, 60))


def _pods(path: Path, header: Sequence[str], rows: Rows, resident: bool) -> Stream:
    """Read the pods of Alibaba's GPU fleet of 2023: shares of a GPU, and pods that never found a
    place.
    """
    columns = [header.index(name) for name in _PODS]
    table, names, keys = [], [], []
    for line, row in rows:
        cores, memory, count, share = (whole(row[k], path, line) for k in columns[1:5])
        gpus = count * MILLI if count != 1 else min(share, MILLI)
        table.append((cores, memory, gpus, *(time(row[k], path, line) for k in columns[5:])))
        keys.append(row[columns[0]])
        names.append(
            "no GPU"
            if not gpus
            else "a share of a GPU"
            if gpus < MILLI
            else "1 GPU"
            if gpus == MILLI
            else f"{count} GPUs"
        )
    numbers = np.array(table, dtype=np.float64).reshape(-1, 6)
    created, deleted, scheduled = numbers[:, 3], numbers[:, 4], numbers[:, 5]
    ran = np.isfinite(created) & (resident | (np.isfinite(scheduled) & (deleted > scheduled)))
    times = {"arrival": created, "start": scheduled, "work": deleted - scheduled}
    return _stream("pods of Alibaba's GPU fleet, 2023", numbers, times, names, keys, ran)


def _instances(path: Path, header: Sequence[str], rows: Rows) -> Stream:
    """Read the instances of Alibaba's disaggregated fleet of 2025: those on CPU nodes (CN) and
    those on GPU nodes (HN).
    """
    columns = [header.index(name) for name in _INSTANCES]
    table, names, keys = [], [], []
    for line, row in rows:
        cores, gpus, memory = (number(row[k], path, line, 1e9) for k in columns[2:5])
        table.append(
            (
                cores * MILLI,
                memory * 1024,
                gpus * MILLI,
                *(time(row[k], path, line) for k in columns[5:]),
            )
        )
        keys.append(row[columns[0]])
        names.append(clipped(row[columns[1]], 20))
    numbers = np.array(table, dtype=np.float64).reshape(-1, 6)
    # what ran before the log begins comes first: every draw of its days has it
    order = np.argsort(~np.isnan(numbers[:, 4]), kind="stable")
    numbers, names, keys = numbers[order], [names[k] for k in order], [keys[k] for k in order]
    created, scheduled, deleted = numbers[:, 3], numbers[:, 4], numbers[:, 5]
    instants = np.concatenate(
        [[0.0], scheduled[np.isfinite(scheduled)], deleted[np.isfinite(deleted)]]
    )
    last = float(instants[together(instants)].max())
    early, late = np.isnan(scheduled), np.isnan(deleted)
    findings = []
    if early.any() or late.any():
        evidence = f"{early.sum():,} ran before the log begins, {late.sum():,} when it ends"
        findings.append(finding("P225", int((early | late).sum()), evidence))
    begun, ended = np.where(early, 0.0, scheduled), np.where(late, last, deleted)
    times = {"arrival": np.where(early, 0.0, created), "start": begun, "work": ended - begun}
    source, ran = (
        "instances of Alibaba's disaggregated fleet, 2025",
        np.isfinite(times["arrival"]) & (ended > begun),
    )
    return _stream(source, numbers, times, names, keys, ran, findings=findings, standing=early)


def _stream(
    source: str,
    numbers: Float,
    times: Mapping[str, Float],
    names: Sequence[str],
    keys: Sequence[str],
    ran: Bool,
    *,
    findings: Sequence[Finding] = (),
    standing: Bool | None = None,
) -> Stream:
    """Return the stream of a table whose first columns are cores, memory and GPUs; jobs that did
    not run are set aside.
    """
    kept = np.flatnonzero(ran)
    aside = () if ran.all() else (finding("P224", int((~ran).sum())),)
    cores, memory, gpus = np.round(numbers[kept, :3]).T
    columns = {name: values[kept] for name, values in times.items()}
    columns |= {
        "limit": columns["work"],
        "parts": np.ones(len(kept)),
        "cores": cores,
        "gpus": gpus,
        "memory": memory,
    }
    before = np.zeros(len(ran), dtype=bool) if standing is None else standing
    more = {"findings": (*findings, *aside), "standing": before[kept]}
    rows = kept.tolist()
    return logged(source, columns, [names[k] for k in rows], [keys[k] for k in rows], **more)
