"""Record the programs of `pairs.c` with and without their change, in turn: ``record_pairs.py OUT
[--group first]``.

Wants PoCL, a C compiler, two cores, and the right to run in real time (``chrt``): elsewhere other
processes are measured too. OUT gets ``measured.json`` (the loop of every run [s]) and of each
program without its change the recording of the median run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "distance"))
from measure import keep, timed  # noqa: E402

from turnbuckle.recorder import opencl_layer  # noqa: E402

#: Program as it is, with its change, and the edit that stands for the change: chosen before
#: anything was measured.  The first were known when the edits got their widths (decision 53), the
#: others were made after that.
PAIRS = {
    "first": (
        ("copies", "copies-one", "batch"),
        ("buffer", "buffer-two", "prefetch"),
        ("wait", "wait-later", "later clFinish"),
        ("host", "host-beside", "beside before clEnqueueNDRangeKernel"),
        ("kernels", "kernels-one", "fuse"),
    ),
    "after": (
        ("feed", "feed-two", "prefetch"),
        ("queue", "queue-two", "own stream"),
        ("alloc", "alloc-pool", "pool"),
        ("early", "early-later", "later clFinish"),
        ("short", "short-beside", "beside before clEnqueueNDRangeKernel"),
        # a core's vectors hold up to sixteen numbers
        ("loop", "loop-device", "device before clEnqueueNDRangeKernel=0.0625..1"),
        ("long", "long-one", "fuse"),
        ("tiny", "tiny-one", "fuse"),
        ("reads", "reads-one", "batch"),
        ("waits", "waits-one", "wait clFinish"),
    ),
}
#: Programs whose copy runs beside a kernel: it needs a worker of its own.
_TWO_WORKERS = ("buffer", "feed", "queue")


def once(kind: str, iterations: int, folder: Path, program: Path, layer: Path) -> dict[str, Any]:
    """Record a program once: how long its loop took [s], and where it lies in the recording
    [ns].
    """
    env = {**os.environ, "POCL_AFFINITY": "1", "POCL_CACHE_DIR": str(program.parent / "cache")}
    env["POCL_MAX_PTHREAD_COUNT"] = "2" if kind.startswith(_TWO_WORKERS) else "1"
    env |= {
        **opencl_layer.environment(layer, env),
        "TB_TRACE": str(folder / f"{kind}-%p.trace.csv"),
    }
    before = set(folder.glob("*.trace.csv"))
    command = ["chrt", "-f", "10", "taskset", "-c", "1", str(program), kind, str(iterations)]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60)
    loop = [
        int(word)
        for line in ran.stdout.splitlines()
        if line.startswith("loop_ns ")
        for word in line.split()[1:3]
    ]
    (trace,) = set(folder.glob("*.trace.csv")) - before
    about = timed(trace, loop)
    return {"seconds": about["seconds"], "window_ns": about["window_ns"], "trace": trace}


def main() -> int:
    """Measure the pairs of one group."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("out", type=Path)
    asked.add_argument("--group", choices=tuple(PAIRS), default="after")
    asked.add_argument("--repeats", type=int, default=7)
    asked.add_argument("--iterations", type=int, default=20)
    options = asked.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        program, layer = folder / "pairs", folder / opencl_layer.LIBRARY
        opencl_layer.build(layer)
        subprocess.run(
            ["cc", "-O2", str(HERE / "pairs.c"), "-o", str(program), "-lOpenCL", "-lpthread"],
            check=True,
        )
        kinds = [kind for pair in PAIRS[options.group] for kind in pair[:2]]
        for kind in kinds:  # kernels are compiled once
            once(kind, 2, folder, program, layer)
        runs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
        for _ in range(options.repeats):
            for kind in kinds:
                runs[kind].append(once(kind, options.iterations, folder, program, layer))
        document = {}
        for kind, several in runs.items():
            median = sorted(several, key=lambda run: run["seconds"])[len(several) // 2]
            if kind in (pair[0] for pair in PAIRS[options.group]):
                keep(median["trace"], options.out / kind)
            document[kind] = {
                "seconds": [run["seconds"] for run in several],
                "window_ns": median["window_ns"],
            }
            print(f"{kind:12} {statistics.median(document[kind]['seconds']) * 1e3:8.3f} ms")
    (options.out / "measured.json").write_text(
        json.dumps(document, indent=1) + "\n", encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
