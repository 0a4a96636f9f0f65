"""One study on a Dask cluster: on this machine, or through Slurm; the table must be the one that a
single process writes.

    python validation/cluster/run.py local --workers 2
    python validation/cluster/run.py slurm --workers 2 --queue debug --interface lo

Needs ``turnbuckle[cluster]``.  It sweeps the recording that ships with Turnbuckle over machines,
latencies and bandwidths, once in this process and once on the cluster's `concurrent.futures`
executor, interrupted half-way and gone on with.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from turnbuckle.examples import sample
from turnbuckle.foundation.settings import spaced
from turnbuckle.questions.sweep.grid import Study
from turnbuckle.questions.sweep.kinds import PROJECT
from turnbuckle.questions.sweep.question import Serial, Swept, sweep


class HalfWay(Exception):
    """The interruption."""


def study(recording: Path, latencies: int) -> Study:
    """Machines x kernels x latencies x bandwidths."""
    axes: dict[str, Any] = {
        "on": ["nvlink-c2c", "gh200", "cdi-row-link", "cdi-row-api"],
        "alpha": ["hold", "flop"],
        "slack.link": spaced(1e-7, 1e-4, latencies, "log"),
        "link.h2d.bandwidth": [12.5e9, 25e9, 50e9, 100e9],
    }
    return Study("cluster", PROJECT, {"sample": recording}, {"draws": 20}, (), axes)


def cluster(words: argparse.Namespace, log: str) -> AbstractContextManager[Any]:
    """A Dask cluster."""
    if words.where == "local":
        from distributed import LocalCluster

        return LocalCluster(n_workers=words.workers, threads_per_worker=1, dashboard_address=None)
    from dask_jobqueue import SLURMCluster

    made = SLURMCluster(
        queue=words.queue,
        cores=1,
        processes=1,
        memory=words.memory,
        interface=words.interface,
        walltime="00:10:00",
        python=sys.executable,
        log_directory=log,
        scheduler_options={"dashboard_address": None},
        local_directory=log,
    )
    made.scale(words.workers)
    return made


def parquet(found: Swept) -> bytes:
    """The table's bytes."""
    held = io.BytesIO()
    found.table().write_parquet(held)
    return held.getvalue()


def main(given: Sequence[str] | None = None) -> int:
    """Sweep twice and compare."""
    reading = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reading.add_argument("where", choices=("local", "slurm"))
    reading.add_argument("--workers", type=int, default=2)
    reading.add_argument("--latencies", type=int, default=15, help="32 points each")
    reading.add_argument("--queue", default="debug")
    reading.add_argument("--memory", default="2GB")
    reading.add_argument("--interface", default=None)
    words = reading.parse_args(given)
    from distributed import Client

    with tempfile.TemporaryDirectory() as folder, sample() as recording:
        asked = study(recording, words.latencies)
        alone = sweep(asked, Serial())
        print(
            f"one process: {len(asked)} points in {alone.seconds:.2f} s, "
            f"{len(asked) / alone.seconds:.0f} points/s"
        )
        began = time.perf_counter()
        output = Path(folder) / "table.parquet"
        with cluster(words, folder) as made, Client(made) as client:
            client.wait_for_workers(words.workers, timeout=120)
            print(
                f"{words.where}: {words.workers} workers up after "
                f"{time.perf_counter() - began:.1f} s"
            )

            def stop(done: int, total: int, failed: int) -> None:
                if done >= total // 2:
                    raise HalfWay

            try:
                sweep(
                    asked,
                    client.get_executor(),
                    output=output,
                    workers=words.workers,
                    progress=stop,
                )
            except HalfWay:
                print("interrupted half-way")
            found = sweep(asked, client.get_executor(), output=output, workers=words.workers)
            rate = found.computed / found.seconds
            print(
                f"gone on: {found.computed} computed, {found.from_journal} from the journal, "
                f"{rate:.0f} points/s"
            )
        same = parquet(found) == parquet(alone)
        print(f"the same table to the byte: {same}")
        return 0 if same and 0 < found.from_journal < len(asked) else 1


if __name__ == "__main__":
    sys.exit(main())
