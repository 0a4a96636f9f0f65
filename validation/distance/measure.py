"""Measures programs whose OpenCL calls are delayed, and predicts each run from one undelayed
recording.

    run [--programs NAME...] [--delays 30us,1ms] [--class-delays 100us] [--classes launch,copy,sync] [--repeats 5] [--quick]
        [--minutes 55] [--longest 6] [--out FOLDER]

Resumable: every run that is done stands in the journal `OUT/journal.jsonl`, and is not done again.
It ends when all is measured or the minutes are over, and then writes `cases/` (recordings and raw
numbers), `machine.json` and `distance.md`. README.md says what is measured and how to read it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import compare
from points import Journal, Point, Setting, plan, settings

from turnbuckle.foundation.units import parse
from turnbuckle.profile.classify import call_class
from turnbuckle.questions.anonymise.question import anonymise
from turnbuckle.questions.anonymise.stand_in import stand_in
from turnbuckle.questions.validate.measured.distance import chosen as classes_of
from turnbuckle.recorder import opencl_layer
from turnbuckle.trace.readers.recorded import reader as recorded

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build" / "distance"
DELAYS = "3us,10us,30us,100us,300us,1ms"
#: PoCL 3.1 runs its device on so many threads, and puts the first of them on core 0 (seen in /proc:
#: README.md).
DEVICE_CORE = 0
POCL = {"POCL_MAX_PTHREAD_COUNT": "1", "POCL_AFFINITY": "1"}
PATIENCE_S = 120.0


def cores() -> list[int]:
    """Cores this process may use."""
    return sorted(os.sched_getaffinity(0))


def host_core() -> int:
    """The last core that is not the device's."""
    return [c for c in cores() if c != DEVICE_CORE][-1]


def look() -> dict[str, Any]:
    """The machine: cores, idle states, how exact a delay is, how long a wake takes, how steady the
    same work is.
    """
    states = []
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cpuidle").glob("state*")):
        states.append(
            [(folder / "name").read_text().strip(), int((folder / "latency").read_text())]
        )
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        "",
    )
    env = {**os.environ, "LD_PRELOAD": str(BUILD / "awaiting")}
    told = subprocess.run(
        [str(BUILD / "look"), str(host_core()), str(DEVICE_CORE)],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return {
        "cores": len(cores()),
        "processor": model,
        "kernel": platform.release().split("-")[0],
        "idle_states_us": states,
        "host_core": host_core(),
        "device_core": DEVICE_CORE,
        **json.loads(told.stdout),
    }


def build() -> Path:
    """Compile our programs and the OpenCL layer; its path."""
    BUILD.mkdir(parents=True, exist_ok=True)
    for name, *more in (
        ("shapes", "-lOpenCL"),
        ("look", "-pthread"),
        ("awaiting", "-shared", "-fPIC"),
    ):
        source = HERE / "programs" / f"{name}.c"
        written = max(file.stat().st_mtime for file in (source, HERE.parent / "opencl_frame.h"))
        if not (BUILD / name).is_file() or (BUILD / name).stat().st_mtime < written:
            subprocess.run(
                ["cc", "-O2", "-std=c11", str(source), "-o", str(BUILD / name), *more], check=True
            )
    layer = BUILD / opencl_layer.LIBRARY
    opencl_layer.build(layer)
    return layer


def steal() -> float:
    """Core time that the host of this virtual machine kept for others since its start [s]."""
    told = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(told[8]) / os.sysconf("SC_CLK_TCK") if len(told) > 8 else 0.0


def words(command: str) -> list[str]:
    """A command line of programs.toml with the places of this machine."""
    return shlex.split(
        command.format(build=BUILD, here=HERE, python=BUILD / "venv" / "bin" / "python")
    )


def run(
    command: Sequence[str],
    more: Mapping[str, str],
    layer: Path,
    setting: Setting,
    folder: Path,
    bandwidth: float,
) -> dict[str, Any]:
    """Run a program once, in a folder of its own, and say how long it took and what it did;
    ``failed`` says why it gives no number.
    """
    env = {**os.environ, **POCL, "POCL_CACHE_DIR": str(BUILD / "pocl-cache"), **more}
    env = {name: value for name, value in env.items() if not name.startswith("TB_")}
    env["LD_PRELOAD"] = str(BUILD / "awaiting")
    if setting.delay_ns >= 0:
        env |= {**opencl_layer.environment(layer, env), "TB_TRACE": str(folder / f"%p{SUFFIX}")}
    if setting.delay_ns > 0:
        env |= {"TB_SLACK_NS": str(setting.delay_ns), "TB_SLACK_WHERE": setting.where}
        env["TB_SLACK_CLASSES"] = ",".join(classes_of(setting.classes))
    if setting.slower:
        env["TB_LINK_BANDWIDTH"] = str(round(bandwidth / setting.slower))
    core = host_core()
    stolen, start = steal(), time.monotonic()
    try:
        ran = subprocess.run(
            command,
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"longer than {PATIENCE_S:g} s"}
    wall = time.monotonic() - start
    if ran.returncode:
        return {
            "failed": f"exit code {ran.returncode}: {(ran.stderr or ran.stdout).strip()[-300:]}"
        }
    loop = [
        int(word)
        for line in ran.stdout.splitlines()
        if line.startswith("loop_ns ")
        for word in line.split()[1:3]
    ]
    out: dict[str, Any] = {"process_s": round(wall, 6), "steal_s": round(steal() - stolen, 2)}
    if setting.delay_ns < 0:
        return {**out, **({"seconds": (loop[1] - loop[0]) / 1e9} if loop else {})}
    traces = sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_size)
    if not traces:
        return {"failed": "no recording"}
    return {**out, **timed(traces[-1], loop), "trace": str(traces[-1])}


SUFFIX = ".trace.csv"


def timed(path: Path, loop: Sequence[int]) -> dict[str, Any]:
    """How long a recorded run took [s]: its loop, or what follows its first launch; and as a whole,
    with the calls of each class inside.
    """
    names: dict[str, str] = {}
    columns: list[str] = []
    calls: list[tuple[int, int, str]] = []
    first, last, delayed, waited, launch, copied = 1 << 63, 0, 0, 0, 1 << 63, 0
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("#"):
                if line.startswith("#name "):
                    _, number, name = line.rstrip("\n").split(" ", 2)
                    names[number] = name
                continue
            row = line.rstrip("\n").split(",")
            if not columns:
                columns = row
                kind, start, end, name_at, size = (
                    columns.index(c) for c in ("kind", "start", "end", "name", "bytes")
                )
            elif row[kind] in "AKCG" and row[start] and row[end]:
                begin, until = int(row[start]), int(row[end])
                first, last = min(first, begin), max(last, until)
                if row[kind] == "C":
                    copied += int(row[size] or 0)
                if row[kind] == "A":
                    calls.append((begin, until, row[name_at]))
            elif row[kind] == "L":
                delayed += 1
                waited += int(row[end]) - int(row[start])
    classes = {number: call_class(name) for number, name in names.items()}
    launch = min(
        (begin for begin, _, name in calls if classes.get(name) == "launch"), default=first
    )
    begin, until = loop if loop else (launch, last)
    count: dict[str, int] = {}
    for at, _, name in calls:
        if begin <= at <= until:
            word = classes.get(name, "other")
            count[word] = count.get(word, 0) + 1
    return {
        "seconds": (until - begin) / 1e9,
        "whole_s": (last - first) / 1e9,
        "window_ns": [begin - first, until - first],
        "calls": count,
        "delayed": delayed,
        "waited_s": waited / 1e9,
        "copied_bytes": copied,
        "bytes": path.stat().st_size,
    }


def keep(trace: Path, target: Path) -> None:
    """Keep a recording as a folder, without names of this machine."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    # kernels keep their names: they are the packages'
    made, _ = anonymise(recorded.read(trace), b"turnbuckle distance", stand_in=stand_in, keep=".*")
    made.to_parquet(target)


def left_out(
    setting: Setting, base: Mapping[str, Any] | None, longest: float, bandwidth: float
) -> str:
    """Why a point is not measured; empty where it is."""
    if base is None or setting.delay_ns < 0 or setting == Setting(0):
        return ""
    if setting.slower and not base["calls"].get("copy"):
        return "no copies"
    own = [word for word in classes_of(setting.classes) if base["calls"].get(word)]
    if not own:
        return "no such calls"
    if setting.classes.startswith("all-") and not base["calls"].get(setting.classes[4:]):
        return "no such calls"
    expected = (
        base["process_s"] + sum(base["calls"][word] for word in own) * setting.delay_ns * 1e-9
    )
    expected += setting.slower * base["copied_bytes"] / bandwidth if setting.slower else 0.0
    return f"about {expected:.0f} s" if expected > longest else ""


def publish(
    journal: Journal, programs: Mapping[str, Any], about: Mapping[str, Any], out: Path
) -> None:
    """Write a case of `turnbuckle validate` for each program: the undelayed recording of the median
    run time, and the raw numbers.
    """
    for name, told in programs.items():
        runs = {
            r: e
            for r in range(100)
            if (e := journal.entries.get(Point(name, Setting(0), r).key())) and "seconds" in e
        }
        if not runs:
            continue
        middle = statistics.median_low(e["seconds"] for e in runs.values())
        repeat = next(r for r, e in runs.items() if e["seconds"] == middle)
        trace = out / "undelayed" / f"{name}-{repeat}{SUFFIX}"
        if not trace.is_file():
            continue
        folder = out / "cases" / f"distance_{name}"
        keep(trace, folder / "recording")
        points = []
        for setting in journal.settings():
            found = journal.of(name, setting)
            if setting.delay_ns < 0 or setting == Setting(0) or not found:
                continue
            waited = [e["waited_s"] / e["delayed"] * 1e9 for e in found if e["delayed"]]
            real = {"waited_ns": round(statistics.median(waited))} if waited else {}
            points.append(
                {**asdict(setting), **real, "seconds": [round(e["seconds"], 9) for e in found]}
            )
        facts = {
            "window_ns": runs[repeat]["window_ns"],
            "calls": runs[repeat]["calls"],
            "undelayed": [e["seconds"] for e in runs.values()],
            "without_recorder": [e["seconds"] for e in journal.of(name, Setting(-1))],
        }
        (folder / "measured.json").write_text(
            one_line({**facts, "points": points}), encoding="utf-8"
        )
        (folder / "machine.toml").write_text(machine(about["copy_bytes_per_s"]), encoding="utf-8")
        base = sorted(e["seconds"] * 1e3 for e in runs.values())
        why = (
            f"its own undelayed runs took {base[0]:.1f} to {base[-1]:.1f} ms; what changes it by "
            "less is lost in that"
        )
        why += f". {told['why']}" if "why" in told else ""
        (folder / "case.toml").write_text(
            f'title = "{name}: calls delayed and copies slowed on an OpenCL device, from its '
            'undelayed recording"\n'
            'known = "the delays and bandwidths, and which calls they were put into; nothing of '
            'the delayed runs"\n'
            + (f'why = "{why}"\n' if why else "")
            + f'\n[a]\nwhat = "{name} ({told["from"]}), PoCL 3.1 on one core"\n'
            'file = "./recording"\nmachine = "./machine.toml"\n'
            '\n[[ask]]\nmodel = "distance"\nmeasured = "./measured.json"\n',
            encoding="utf-8",
        )


def machine(copy_bytes_per_s: float) -> str:
    """The machine as far as `look` measured it: what its link reaches."""
    lines = [
        (
            "# An OpenCL device on a processor: its copies are copies of one core "
            "(validation/distance/programs/look.c).\n"
        ),
        "[machine]",
        'name = "opencl-processor"',
        'title = "OpenCL device on a processor"',
        'summary = "PoCL with one worker thread on a core of its own."',
        f"year = {date.today().year}",
        'coupling = "c2c"',
        'recognise = ["pthread"]',
    ]
    for way in ("h2d", "d2h"):
        lines += [
            f"\n[link.{way}.bandwidth]",
            f'value = "{copy_bytes_per_s / 1e9:.4g} GB/s"',
            'error = "10 %"',
            'nature = "measured"',
            'source = "validation/distance/machine.json, copy_bytes_per_s"',
            f"\n[link.{way}.latency]",
            'value = "100 ns"',
            'error = "50 %"',
            'nature = "assumption"',
            'source = "a call of memcpy; what a copy costs besides is in the recording"',
        ]
    return "\n".join([*lines, ""])


def one_line(data: Mapping[str, Any]) -> str:
    """Measurements as JSON, a point a line."""
    head = ",\n".join(
        f'"{key}": {json.dumps(value)}' for key, value in data.items() if key != "points"
    )
    rows = ",\n".join(json.dumps(point) for point in data["points"])
    return f'{{{head},\n"points": [\n{rows}\n]}}\n'


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--programs", nargs="*", help="names of programs.toml; all that are installed if left out"
    )
    parser.add_argument("--delays", default=DELAYS)
    parser.add_argument("--class-delays", default="100us")
    parser.add_argument("--classes", default="launch,copy,sync")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=55.0)
    parser.add_argument(
        "--longest", type=float, default=6.0, help="runs that would take longer [s] are left out"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="our own programs, three delays, three repeats: a few minutes",
    )
    parser.add_argument("--out", type=Path, default=BUILD / "measured")
    asked = parser.parse_args()
    if asked.quick:
        asked.programs = asked.programs or [
            "shape_sync",
            "shape_async",
            "shape_copy",
            "shape_host",
            "shape_reduce",
            "shape_stream",
        ]
        asked.delays, asked.class_delays, asked.repeats = "30us,100us,1ms", "100us", 3
    return asked


def main() -> int:
    """Look at the machine, measure what is planned, compare."""
    asked = arguments()
    if len(cores()) < 2 or DEVICE_CORE not in cores():
        print(
            (
                f"this needs core {DEVICE_CORE} for the device and another for the host; there "
                f"are {cores()}"
            ),
            file=sys.stderr,
        )
        return 1
    deadline = time.monotonic() + asked.minutes * 60
    programs = tomllib.loads((HERE / "programs.toml").read_text(encoding="utf-8"))
    names = asked.programs or [name for name, told in programs.items() if not told.get("slow")]
    layer, out = build(), asked.out
    out.mkdir(parents=True, exist_ok=True)
    delays = [round(parse(word, "s") * 1e9) for word in asked.delays.split(",") if word]
    some = [round(parse(word, "s") * 1e9) for word in asked.class_delays.split(",") if word]
    chosen = settings(delays, some, [word for word in asked.classes.split(",") if word])
    journal = Journal(out / "journal.jsonl")
    load = [os.getloadavg()[0]]
    noted = out / "look.json"
    if not noted.is_file():
        noted.write_text(json.dumps(look()), encoding="utf-8")
    about = json.loads(noted.read_text(encoding="utf-8"))
    bandwidth = about["copy_bytes_per_s"]
    print(json.dumps(about, indent=1), flush=True)
    missing: dict[str, str] = {}
    scratch = Path(tempfile.mkdtemp(prefix="distance-"))
    bases: dict[str, dict[str, Any]] = {}
    measured = 0
    try:
        for point in plan(names, chosen, asked.repeats):
            name, setting = point.program, point.setting
            if name in missing or point.key() in journal.entries:
                continue
            if time.monotonic() > deadline:
                print("the time is over; the same command goes on from here", flush=True)
                break
            told = programs[name]
            more = told.get("environment", {})
            if name not in bases:
                # the first run compiles kernels, and tells how many calls there are to delay
                for _ in range(2):
                    first = fresh(
                        words(told["command"]), more, layer, Setting(0), scratch, bandwidth
                    )
                if "failed" in first or "seconds" not in first:
                    missing[name] = first.get("failed", "nothing timed")
                    print(f"{name}: left out: {missing[name]}", flush=True)
                    continue
                bases[name] = first
            if why := left_out(setting, bases[name], asked.longest, bandwidth):
                journal.add(point, {"left_out": why})
                continue
            result = fresh(words(told["command"]), more, layer, setting, scratch, bandwidth)
            measured += 1
            trace = result.pop("trace", None)
            if setting == Setting(0) and trace:
                hold = out / "undelayed" / f"{name}-{point.repeat}{SUFFIX}"
                hold.parent.mkdir(exist_ok=True)
                shutil.copy(trace, hold)
            journal.add(point, result)
            said = (
                f"{result['seconds'] * 1e3:.2f} ms"
                if "seconds" in result
                else result.get("failed", "")
            )
            slower = f" 1/{setting.slower}" if setting.slower else ""
            print(
                (
                    f"{point.repeat} {name} {setting.classes} {setting.where} "
                    f"{setting.delay_ns / 1e3:g} us{slower}: {said}"
                ),
                flush=True,
            )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    load.append(os.getloadavg()[0])
    facts = {**about, "load": load, "not_run": missing, "repeats": asked.repeats}
    before = out / "machine.json"
    if not measured and before.is_file():
        facts = json.loads(before.read_text(encoding="utf-8"))  # nothing was measured this time
    (out / "machine.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    publish(journal, programs, about, out)
    table = out / "distance.md"
    table.write_text(compare.markdown(*compare.programs(out / "cases"), facts), encoding="utf-8")
    print(f"cases, machine.json and distance.md are in {out}")
    return 0


def fresh(
    command: Sequence[str],
    more: Mapping[str, str],
    layer: Path,
    setting: Setting,
    scratch: Path,
    bandwidth: float,
) -> dict[str, Any]:
    """Run in an empty folder."""
    folder = scratch / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return run(command, more, layer, setting, folder, bandwidth)


if __name__ == "__main__":
    sys.exit(main())
