"""Measure on a machine with a GPU: record four programs, then run them with every call delayed: `python run.py`.

Builds ``programs.cu`` and ``delay.c``, then writes to the folder of results

    machine.json            the GPU, the host's processor, settings; no names of people or hosts
    NAME.record.csv.gz      one record of each program without delay
    measured.jsonl          one line a run: program, delay, iterations, seconds, delayed calls

Every run lasts about ``--seconds``, whatever the delay; iterations differ, so runs are compared by the iteration.  Runs without
the library (``"library": false``) tell what watching costs.  The order of runs is shuffled, so that a slow minute does not hit
one delay alone.  Needs no Turnbuckle; ``compare.py`` does.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import json
import math
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from refusal import Refusal, told
from toolchain import HERE, Built, build, tools

PROGRAMS: Final = ("launch", "copy", "synchronous", "overlapped")
DELAYS_NS: Final = (0, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
#: Fewer would let the begin and the end of a pipeline show.
LEAST_ITERATIONS: Final = 100
#: Calls in one record: enough for a median of each kind, small enough to be committed.
RECORDED_CALLS: Final = 10_000
_LIMIT_SECONDS: Final = 120


def require_device(driver: str) -> None:
    """Load the driver and ask it for a GPU.

    Raises
    ------
    Refusal : V001.
    """
    fix = "run this on a machine with an NVIDIA GPU and its driver; everything else works without"
    try:
        library = ctypes.CDLL(driver)
    except OSError as error:
        raise Refusal("V001", f"no CUDA driver: {driver} cannot be loaded", fix) from error
    if status := library.cuInit(0):
        raise Refusal("V001", f"no CUDA driver: cuInit says {status}", fix)


def ran(built: Built, words: list[str], settings: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run the programs once, with the library where there are `settings` for it; returns the line of JSON they print.

    Raises
    ------
    Refusal : V003, it failed, hung or printed something else.
    """
    kept = {k: v for k, v in os.environ.items() if k != "CUDA_INJECTION64_PATH" and not k.startswith("SLACK_")}
    library = {"CUDA_INJECTION64_PATH": str(built.library)} if settings is not None else {}
    name, env = " ".join(words), {**kept, **library, **(settings or {})}
    try:
        done = subprocess.run(
            [str(built.programs), *words], env=env, capture_output=True, text=True, errors="replace", timeout=_LIMIT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refusal("V003", f"programs {name} did not end: {type(error).__name__}") from error
    try:
        said = json.loads(done.stdout) if done.returncode == 0 else None
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise Refusal("V003", f"programs {name} failed ({done.returncode}): {done.stderr.strip()[-300:] or 'no message'}")
    return said


def iterations_for(seconds: float, plan: Mapping[str, Any], delay_ns: int) -> int:
    """Iterations that last about `seconds` if every call's delay shows in the run time."""
    expected: float = plan["iteration_s"] + plan["calls"] * delay_ns * 1e-9
    return max(LEAST_ITERATIONS, math.ceil(seconds / expected))


def recorded(built: Built, plan: Mapping[str, Any], seconds: float, target: Path) -> dict[str, Any]:
    """Record one program without delay; the record goes to `target`, gzipped."""
    iterations = max(LEAST_ITERATIONS, min(iterations_for(seconds, plan, 0), RECORDED_CALLS // plan["calls"]))
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "record.csv"
        words = ["run", plan["program"], str(plan["work"]), str(iterations)]
        line = ran(built, words, {"SLACK_WINDOW": "1", "SLACK_RECORD": str(text)})
        whole = text.is_file() and b"\n# end " in text.read_bytes()[-100:]
        if not whole:
            raise Refusal("V003", f"{plan['program']} was not recorded: CUDA did not load the library or CUPTI refused")
        # no time stamp in the gzip header: the same record is the same file
        with text.open("rb") as plain, target.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
            shutil.copyfileobj(plain, packed)
    return {"recorded": True, **line}


def measured(built: Built, plan: Mapping[str, Any], seconds: float, delay_ns: int | None, repeat: int) -> dict[str, Any]:
    """Run one program with a delay (None: without the library) and return the line of raw numbers.

    Raises
    ------
    Refusal : V003, also if the library did not delay what it was told to.
    """
    words = ["run", plan["program"], str(plan["work"]), str(iterations_for(seconds, plan, delay_ns or 0))]
    if delay_ns is None:
        return {**ran(built, words), "library": False, "repeat": repeat}
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts.json"
        line = ran(built, words, {"SLACK_WINDOW": "1", "SLACK_DELAY_NS": str(delay_ns), "SLACK_COUNTS": str(counts)})
        try:
            delayed = json.loads(counts.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise Refusal("V003", f"{plan['program']} ran without delay: CUDA did not load the library or CUPTI refused") from error
    if delayed["delay_ns"] != delay_ns or not delayed["delayed_calls"]:
        raise Refusal("V003", f"{plan['program']} was not delayed as asked: {delayed}")
    return {**line, "library": True, "repeat": repeat, **delayed}


def machine(built: Built, words: argparse.Namespace) -> dict[str, Any]:
    """What the figures belong to: GPU, host processor, date, settings."""
    processor = platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), processor)
    settings = {"seconds": words.seconds, "repeats": words.repeats, "seed": words.seed, "delays_ns": words.delays}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {**ran(built, ["machine"]), "processor": processor, "cores": cores, "date": datetime.now(UTC).date().isoformat(), **settings}


def everything(built: Built, words: argparse.Namespace) -> None:
    """All records and all runs, into the folder of results."""
    words.out.mkdir(parents=True, exist_ok=True)
    (words.out / "machine.json").write_text(json.dumps(machine(built, words), indent=1) + "\n", encoding="utf-8")
    plans = {name: ran(built, ["calibrate", name]) for name in words.programs}
    jobs = [(name, delay, repeat) for name in words.programs for delay in (None, *words.delays) for repeat in range(words.repeats)]
    random.Random(words.seed).shuffle(jobs)
    with (words.out / "measured.jsonl").open("w", encoding="utf-8") as file:
        for name, plan in plans.items():
            file.write(json.dumps(recorded(built, plan, words.seconds, words.out / f"{name}.record.csv.gz")) + "\n")
        for at, (name, delay, repeat) in enumerate(jobs, 1):
            line = measured(built, plans[name], words.seconds, delay, repeat)
            file.write(json.dumps(line) + "\n")
            file.flush()
            shown = "no library" if delay is None else f"{delay * 1e-3:g} us"
            each = line["seconds"] / line["iterations"] * 1e6
            print(f"{at:>4}/{len(jobs)}  {name:<12} {shown:<10} {each:12.2f} us an iteration", flush=True)


def _delays(text: str) -> list[int]:
    values = sorted({int(part) for part in text.split(",")})
    if not values or values[0] != 0:
        raise argparse.ArgumentTypeError("whole ns, separated by commas, 0 among them")
    return values


def _programs(text: str) -> list[str]:
    names = list(dict.fromkeys(text.split(",")))
    if unknown := sorted(set(names) - set(PROGRAMS)):
        raise argparse.ArgumentTypeError(f"no program is called {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    return names


def main() -> None:
    """Parse the options, look for a GPU, build, measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of results")
    parser.add_argument("--programs", type=_programs, default=",".join(PROGRAMS), help="which programs")
    parser.add_argument("--delays", type=_delays, default=",".join(map(str, DELAYS_NS)), help="delays [ns]")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one run, about [s]")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each program and delay")
    parser.add_argument("--seed", type=int, default=20261121, help="of the order of runs")
    parser.add_argument("--build", type=Path, default=HERE.parents[1] / "build" / "slack", help="folder to build in")
    parser.add_argument("--nvcc", default="", help="CUDA compiler, if it is not found by itself")
    parser.add_argument("--cupti", default="", help="folder of CUPTI, if it is not found by itself")
    parser.add_argument("--driver", default="libcuda.so.1", help="library of the CUDA driver")
    words = parser.parse_args()
    if not words.seconds > 0 or words.repeats < 1:
        parser.error("--seconds is more than 0, --repeats at least 1")
    require_device(words.driver)
    everything(build(tools(words.nvcc, words.cupti), words.build.resolve()), words)
    print(f"now: python {Path(__file__).with_name('compare.py').name} {words.out.name}")


if __name__ == "__main__":
    sys.exit(told(main))
