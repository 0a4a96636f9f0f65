"""What a cluster takes for very many recordings: measured with Dask on this machine's cores,
projected by a fitted model.

    python validation/cluster/many.py RECORDING [--recordings 25 50 100] [--workers 2] [--nodes 1 16 64] [--cores 64] [--total 100000]

Needs ``turnbuckle[cluster]``.  The recording is copied, each copy is asked for one `project` with
ranges, and every worker reads each copy that it is given.  Times are CPU times, so that other work
on the machine does not count.  Two straight lines are fitted to the number of recordings: what the
workers take together, and what the process takes that hands out and gathers (client and scheduler).
With n nodes of c cores, one worker each::

    T = workers' start + N x worker's seconds / (n c)        or        N x client's seconds, if that is longer

An array of n jobs, one shard of the study each (``--shard``), has n clients, which share the
latter.

Assumed, and not measured here: recordings alike in size, a file system that serves n c readers as
fast as one (the bytes that it must serve stand beside), cores of the speed of these, workers that
start at once, and a scheduler that takes no longer for more workers.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from turnbuckle.questions.sweep.grid import Study
from turnbuckle.questions.sweep.kinds import PROJECT
from turnbuckle.questions.sweep.question import sweep


def measured(recording: Path, count: int, workers: int) -> dict[str, float]:
    """Return the CPU seconds of all workers and of this process for `count` copies of a recording,
    in a cluster of its own.
    """
    from distributed import Client, LocalCluster

    with tempfile.TemporaryDirectory() as folder:
        copies = {
            f"run{i}": _copy(recording, Path(folder) / f"run{i}.sqlite", i) for i in range(count)
        }
        asked = Study("many", PROJECT, copies, {"draws": 1000}, (), {"on": ["cdi-row-link"]})
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as made,
            Client(made) as client,
        ):
            client.wait_for_workers(workers, timeout=120)
            own, began = time.process_time(), time.perf_counter()
            found = sweep(
                asked, client.get_executor(), output=Path(folder) / "table.parquet", workers=workers
            )
            own, wall = time.process_time() - own, time.perf_counter() - began
        assert not found.failed and found.computed == count, found.failed
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "recordings": count,
        "wall": wall,
        "client": own,
        "workers": sum(after[:2]) - sum(children[:2]),
    }


def _copy(recording: Path, place: Path, number: int) -> Path:
    """Copy an SQLite recording with another user version, an integer that nobody reads, so that no
    two copies have one digest.
    """
    content = bytearray(recording.read_bytes())
    content[60:64] = number.to_bytes(4, "big")
    place.write_bytes(content)
    return place


def line(points: Sequence[dict[str, float]], what: str) -> tuple[float, float, float]:
    """Return constant [s], seconds of a recording, and the largest deviation from the line as a
    share of its value.
    """
    x, y = (np.array([p[k] for p in points]) for k in ("recordings", what))
    slope, constant = np.polyfit(x, y, 1)
    return float(constant), float(slope), float(np.max(np.abs(constant + slope * x - y) / y))


def main(given: Sequence[str] | None = None) -> int:
    """Measure, fit, project."""
    reading = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reading.add_argument("recording", type=Path)
    reading.add_argument("--recordings", type=int, nargs="+", default=[25, 50, 100])
    reading.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    reading.add_argument("--nodes", type=int, nargs="+", default=[1, 16, 64])
    reading.add_argument("--cores", type=int, default=64)
    reading.add_argument("--total", type=int, default=100_000)
    reading.add_argument("--out", type=Path)
    words = reading.parse_args(given)
    points = [measured(words.recording, count, words.workers) for count in words.recordings]
    for p in points:
        took = (
            f"workers {p['workers']:.2f} CPU s, client and scheduler {p['client']:.2f}, elapsed "
            f"{p['wall']:.2f} s"
        )
        print(f"{p['recordings']:>8} recordings: {took}")
    fits = {what: line(points, what) for what in ("workers", "client")}
    for what, (constant, each, off) in fits.items():
        print(
            f"{what}: {constant:.2f} s + {each * 1e3:.1f} ms a recording, off by at most {off:.0%}"
        )
    size = words.recording.stat().st_size
    start, each, serial = fits["workers"][0] / words.workers, fits["workers"][1], fits["client"][1]
    for nodes in words.nodes:
        computing = start + words.total * each / (nodes * words.cores)
        one, array = (
            max(computing, words.total * serial),
            max(computing, words.total * serial / nodes),
        )
        rate = words.total * size / array / 1e9
        print(
            f"{words.total:,} recordings on {nodes} nodes of {words.cores} cores: computing "
            f"alone {computing:,.0f} s, from one client"
        )
        print(
            f"{one:,.0f} s, as an array of one shard a node {array:,.0f} s, which reads "
            f"{rate:.2f} GB/s"
        )
    if words.out:
        words.out.write_text(
            json.dumps({"points": points, "fits": fits}, indent=1) + "\n", encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
