"""Measures programs that run at once on one OpenCL device, for `turnbuckle model sharing --form
shared` to predict from their recordings.

    python side_by_side.py [--programs NAME...] [--repeats 5] [--minutes 30] [--out FOLDER]

Every program alone, beside itself, and beside two others.  Both wait for one moment and begin their
loops there (`LOOP_FROM_NS`); each is a process of its own whose device thread is on core 0, so that
the kernel's scheduler shares the device between them.  Hosts share the other core, and sleep while
they wait: two that polled would keep each other from it.  So that nobody pays for the wake of a
core, loops of the lowest class (SCHED_IDLE) keep both cores awake; whoever has work interrupts
them.

Resumable, as `run`: every run that is done is a line of `OUT/journal.jsonl`.  It ends with
`OUT/sharing_opencl`, a case of `turnbuckle validate`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from measure import (
    BUILD,
    DEVICE_CORE,
    HERE,
    PATIENCE_S,
    POCL,
    SUFFIX,
    build,
    host_core,
    keep,
    look,
    machine,
    steal,
    timed,
    words,
)

from turnbuckle.recorder import opencl_layer

#: Programs of programs.toml that say when their loop began and ended, and that one core is done
#: with within half a second.
PROGRAMS = (
    *("shape_sync", "shape_async", "shape_copy", "shape_host", "shape_reduce", "shape_stream"),
    *("clesperanto_blobs", "reikna_fft", "reikna_matrix", "scan_and_sort", "loopy_heat"),
    *("molecular_dynamics", "random_numbers", "conjugate_gradient"),
)
#: How far behind in the list the other two stand that a program is measured beside.
STEPS = (1, 4)
#: A loop that began so much after its moment is measured again [ns].
LATE_NS = 2_000_000
TRIES = 3


def points(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Which programs run at once: each alone, with itself, with two others."""
    count = len(names)
    others = [
        (names[i], names[(i + step) % count])
        for step in STEPS
        if step < count
        for i in range(count)
    ]
    return [*((name,) for name in names), *((name, name) for name in names), *others]


@contextmanager
def awake() -> Iterator[None]:
    """Keep both cores from idling: a sleeping one is woken late on a virtual machine, and a second
    program would seem to help the first.
    """

    def lowest(core: int) -> None:
        os.sched_setaffinity(0, {core})
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    loops = [
        subprocess.Popen(
            [sys.executable, "-c", "while True: pass"], preexec_fn=partial(lowest, core)
        )
        for core in (DEVICE_CORE, host_core())
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run(
    chosen: Sequence[str], programs: Mapping[str, Any], layer: Path, folder: Path, lead_s: float
) -> dict[str, Any]:
    """Run programs at once; what each took, and ``failed`` where one gives no number."""
    begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + round(lead_s * 1e9)
    core, stolen, started, running = host_core(), steal(), time.monotonic(), []
    for k, name in enumerate(chosen):
        place = folder / str(k)
        place.mkdir(parents=True)
        env = {
            **os.environ,
            **POCL,
            "POCL_CACHE_DIR": str(BUILD / "pocl-cache"),
            **programs[name].get("environment", {}),
        }
        env = {key: value for key, value in env.items() if not key.startswith("TB_")}
        env |= {
            **opencl_layer.environment(layer, env),
            "TB_TRACE": str(place / f"%p{SUFFIX}"),
            "LOOP_FROM_NS": str(begin),
        }
        process = subprocess.Popen(
            words(programs[name]["command"]),
            env=env,
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
        running.append(process)
    ended = []
    for process in running:
        try:
            ended.append(process.communicate(timeout=PATIENCE_S))
        except subprocess.TimeoutExpired:
            process.kill()
            ended.append(process.communicate())
    out: dict[str, Any] = {
        "process_s": round(time.monotonic() - started, 3),
        "steal_s": round(steal() - stolen, 2),
        "runs": [],
    }
    for k, (process, (said, complained)) in enumerate(zip(running, ended, strict=True)):
        loop = [
            int(word)
            for line in said.splitlines()
            if line.startswith("loop_ns ")
            for word in line.split()[1:3]
        ]
        traces = sorted((folder / str(k)).glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_size)
        if process.returncode or not loop or not traces:
            return {
                "failed": f"{chosen[k]}, exit code {process.returncode}: {complained.strip()[-300:]}"
            }
        out["runs"].append(
            {**timed(traces[-1], loop), "late_ns": loop[0] - begin, "trace": str(traces[-1])}
        )
    return out


def on_time(
    chosen: Sequence[str], programs: Mapping[str, Any], layer: Path, folder: Path, lead_s: float
) -> tuple[dict[str, Any], float]:
    """Run programs until all begin at their moment, with more time ahead of it after each run that
    was late; that time too.
    """
    for _ in range(TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        found = run(chosen, programs, layer, folder, lead_s)
        if "failed" in found or max(one["late_ns"] for one in found["runs"]) <= LATE_NS:
            return found, lead_s
        lead_s *= 1.5
    return {"failed": f"late in {TRIES} runs"}, lead_s


def measure(
    names: Sequence[str], repeats: int, deadline: float, out: Path
) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    """All points as often as asked, those of the journal left out; what was measured of each, in
    order of repeats.
    """
    programs = tomllib.loads((HERE / "programs.toml").read_text(encoding="utf-8"))
    layer, journal = build(), out / "journal.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.is_file() else []
    done = {(tuple(e["programs"]), e["repeat"]): e for e in map(json.loads, lines)}
    lead: dict[str, float] = {}
    scratch = Path(tempfile.mkdtemp(prefix="side-by-side-"))
    try:
        with journal.open("a", encoding="utf-8") as file:
            for repeat in range(repeats):
                for chosen in points(names):
                    if (chosen, repeat) in done or time.monotonic() > deadline:
                        continue
                    for name in chosen:
                        if name not in lead:
                            # compiles what is not compiled yet, and tells how long a program takes
                            # to its loop
                            first = [
                                run([name], programs, layer, scratch / f"{name}-{k}", 0.0)
                                for k in range(2)
                            ][-1]
                            lead[name] = first["process_s"] if "runs" in first else 1.0
                    found, waited = on_time(
                        chosen,
                        programs,
                        layer,
                        scratch / "run",
                        0.3 + sum(lead[name] for name in chosen),
                    )
                    for k, one in enumerate(found.get("runs", [])):
                        trace = one.pop("trace")
                        if len(chosen) == 1:
                            (out / "alone").mkdir(exist_ok=True)
                            shutil.copy(trace, out / "alone" / f"{chosen[k]}-{repeat}{SUFFIX}")
                    entry = {"programs": chosen, "repeat": repeat, **found}
                    done[chosen, repeat] = entry
                    file.write(json.dumps(entry) + "\n")
                    file.flush()
                    took = (
                        ", ".join(f"{one['seconds'] * 1e3:.1f} ms" for one in found.get("runs", []))
                        or found["failed"]
                    )
                    print(
                        f"{repeat} {' beside '.join(chosen)}: {took} (begun after {waited:.1f} s)",
                        flush=True,
                    )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return {
        chosen: [done[chosen, r] for r in range(repeats) if (chosen, r) in done]
        for chosen in points(names)
    }


def publish(
    found: Mapping[tuple[str, ...], Sequence[Mapping[str, Any]]],
    about: Mapping[str, Any],
    out: Path,
) -> None:
    """Write the case: the recording of each program alone that is the median of its run time, and
    the raw numbers.
    """
    case = out / "sharing_opencl"
    shutil.rmtree(case, ignore_errors=True)
    alone: dict[str, Any] = {}
    for chosen, entries in found.items():
        runs = {e["repeat"]: e["runs"][0] for e in entries if "runs" in e}
        if len(chosen) > 1 or not runs:
            continue
        middle = statistics.median_low(r["seconds"] for r in runs.values())
        repeat = next(k for k, r in runs.items() if r["seconds"] == middle)
        keep(out / "alone" / f"{chosen[0]}-{repeat}{SUFFIX}", case / "recordings" / chosen[0])
        alone[chosen[0]] = {
            "window_ns": runs[repeat]["window_ns"],
            "seconds": [r["seconds"] for r in runs.values()],
        }
    rows = []
    for chosen, entries in found.items():
        runs = [[r["seconds"] for r in e["runs"]] for e in entries if "runs" in e]
        if len(chosen) > 1 and runs and set(chosen) <= set(alone):
            rows.append(json.dumps({"programs": chosen, "seconds": runs}))
    told = ",\n".join(f" {json.dumps(name)}: {json.dumps(one)}" for name, one in alone.items())
    (case / "measured.json").write_text(
        f'{{"alone": {{\n{told}}},\n"points": [\n' + ",\n".join(rows) + "\n]}\n", encoding="utf-8"
    )
    (case / "machine.toml").write_text(machine(about["copy_bytes_per_s"]), encoding="utf-8")
    (case / "case.toml").write_text(
        'title = "Programs at once on one OpenCL device, from the recording of each alone"\n'
        'known = "which programs run at once, and that the hosts of both share a core; nothing '
        'of how long they take together"\n'
        'why = "an operating system shares this device in slices of some ms: who has short '
        "kernels waits for a slice to end, where the "
        "model has both at work at once. That hosts share a core was told to the model after the "
        "first table was seen, which was 13 % off "
        'in the median"\n'
        '\n[a]\nwhat = "14 programs, PoCL 3.1 on one core"\nfile = "./recordings"\n'
        'machine = "./machine.toml"\n'
        '\n[[ask]]\nmodel = "sharing"\nmeasured = "./measured.json"\ncores = 1\n',
        encoding="utf-8",
    )


def main() -> int:
    """Measure what is asked, and write the case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--out", type=Path, default=BUILD / "side-by-side")
    asked = parser.parse_args()
    deadline = time.monotonic() + asked.minutes * 60
    asked.out.mkdir(parents=True, exist_ok=True)
    build()
    noted = asked.out / "look.json"
    if not noted.is_file():
        noted.write_text(json.dumps(look()), encoding="utf-8")
    with awake():
        found = measure(asked.programs, asked.repeats, deadline, asked.out)
    publish(found, json.loads(noted.read_text(encoding="utf-8")), asked.out)
    print(f"the case is {asked.out / 'sharing_opencl'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
