"""Measures MPI programs whose messages are delayed, and predicts each run from one undelayed
recording.

    measure.py [--programs NAME...] [--delays 10us,1ms] [--repeats 5] [--ranks 2] [--out FOLDER]

Resumable: every run that is done stands in `OUT/journal.jsonl`, and is not done again.  At the end
it writes `measured.json` (raw numbers), `recordings/`, `predictions.json` and `messages.md`.
README.md says what a delay is and how to read the table.
"""

from __future__ import annotations

import argparse
import lzma
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnbuckle.foundation.units import parse

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from points import Journal, Point, Setting, plan  # noqa: E402

BUILD = HERE.parents[2] / "build" / "distance" / "messages"
DELAYS = "10us,30us,100us,300us,1ms"
MOST_BYTES = 131072
PATIENCE_S = 60.0
#: Loop of about a tenth of a second without delay, a second or so at 1 ms.
PROGRAMS = {
    "pingpong": "{build}/shapes pingpong 250 1 8 1024 8192 65536",
    "window": "{build}/shapes pingpong 150 16 8 8192",
    "halo": "{build}/shapes halo 400 8192 60000 20000",
    "halo-bare": "{build}/shapes halo 400 8192 0 40000",
    "collectives": "{build}/shapes collectives 300 20000",
    "melt-500": "lmp -log none -in {here}/programs/melt.in -var cells 5 -var steps 200",
    "melt-4000": "lmp -log none -in {here}/programs/melt.in -var cells 10 -var steps 60",
}
#: Every message leaves at once (eager), through memory that the ranks share, by copies of the
#: processors.
OPTIONS = {
    "pml": "ob1",
    "btl": "self,vader",
    "btl_vader_single_copy_mechanism": "none",
    "btl_vader_eager_limit": str(MOST_BYTES + 4096),
    "btl_vader_max_send_size": str(MOST_BYTES + 4096),
    "btl_vader_flags": "1",
    "btl_vader_free_list_inc": "16",
    "btl_vader_segment_size": str(64 << 20),
}
_LOOP = re.compile(r"^(?:loop_s|Loop time of) ([\d.]+)", re.MULTILINE)


def build() -> Path:
    """Compile the layer and our programs; the path of the layer."""
    BUILD.mkdir(parents=True, exist_ok=True)
    layer, shapes = BUILD / "layer.so", BUILD / "shapes"
    made = (
        (layer, HERE / "layer.c", ["-shared", "-fPIC"]),
        (shapes, HERE / "programs" / "shapes.c", []),
    )
    for target, source, more in made:
        if not target.is_file() or target.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(
                ["mpicc", "-O2", "-Wall", "-std=gnu11", *more, str(source), "-o", str(target)],
                check=True,
            )
    return layer


def run(command: str, layer: Path, delay_ns: int, ranks: int, folder: Path) -> dict[str, Any]:
    """Run a program once, a rank a core; its loop [s], or in ``failed`` why it gives no number.
    Recordings are left in the folder.
    """
    words = command.format(build=BUILD, here=HERE).split()
    layered = {"DELAY_NS": delay_ns, "TRACE": f"{folder}/", "MOST_BYTES": MOST_BYTES}
    passed = {
        "LD_PRELOAD": layer,
        **{f"TB_MESSAGES_{name}": value for name, value in layered.items()},
    }
    options = [word for name, value in OPTIONS.items() for word in ("--mca", name, value)]
    exported = [word for name, value in passed.items() for word in ("-x", f"{name}={value}")]
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    enough = ranks <= len(os.sched_getaffinity(0))
    place = (
        ["--bind-to", "core", "--map-by", "core"]
        if enough
        else ["--oversubscribe", "--bind-to", "none"]
    )
    start = ["mpirun", *root, "-n", str(ranks), *place, *options, *exported]
    stolen = steal()
    try:
        ran = subprocess.run(
            [*start, *words],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"longer than {PATIENCE_S:g} s"}
    loops = _LOOP.findall(ran.stdout)
    if ran.returncode or not loops:
        # what the layer itself refused comes first: mpirun prints its own words before or after
        # them, as it happens
        refused = [line for line in ran.stderr.splitlines() if line.startswith("messages layer: ")]
        reason = "; ".join(refused) or (ran.stderr or ran.stdout).strip()
        return {"failed": f"exit code {ran.returncode}: {reason[:400]}"}
    return {
        "seconds": float(loops[-1]),
        "steal_s": round(steal() - stolen, 2),
        "load": os.getloadavg()[0],
    }


def steal() -> float:
    """Core time that the host of this virtual machine kept for others since its start [s]."""
    told = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(told[8]) / os.sysconf("SC_CLK_TCK") if len(told) > 8 else 0.0


@dataclass(frozen=True)
class Loop:
    """The timed loop of a recording: what follows one barrier, up to another.

    Attributes
    ----------
    lines : of each rank, the whole file.
    barriers : lines at which each rank's barriers stand.
    first, last : which of its barriers the loop lies between.
    """

    lines: list[list[str]]
    barriers: list[list[int]]
    first: int
    last: int

    def calls(self) -> list[list[str]]:
        """The lines of each rank that belong to the loop, behind the first line of its file."""
        return [
            [one[0], *one[at[self.first] + 1 : at[self.last] + 1]]
            for one, at in zip(self.lines, self.barriers, strict=True)
        ]

    def late_ns(self) -> float | None:
        """Time from when a message was due until its receive went on, mean of all receives that had
        to wait; None where none had to.
        """
        waited = late = 0
        for one in self.lines:
            until = [
                [int(word) for word in line.split(":")[1:]]
                for line in one
                if line.startswith("# waited until a barrier:")
            ]
            waited += until[self.last][0] - until[self.first][0]
            late += until[self.last][1] - until[self.first][1]
        return late / waited if waited else None


def looped(folder: Path, seconds: float) -> Loop:
    """Find the timed loop: it lies between two barriers that are as far apart as it is long.

    Raises
    ------
    ValueError : no two barriers are, or a call in between was not delayed.
    """
    ranks = sorted(folder.glob("rank-*.txt"), key=lambda path: int(path.stem[5:]))
    lines = [path.read_text(encoding="ascii").splitlines() for path in ranks]
    places = [[k for k, line in enumerate(one) if line.startswith("MPI_Barrier:")] for one in lines]
    ends = [float(lines[0][k].rsplit(":", 1)[1]) * 1e-6 for k in places[0]]
    pairs = [
        (abs(ends[b] - ends[a] - seconds), a, b)
        for a in range(len(ends))
        for b in range(a + 1, len(ends))
    ]
    off, first, last = min(pairs, default=(seconds, 0, 0))
    if off > 20e-6 + 1e-3 * seconds:
        raise ValueError(f"no two barriers are {seconds} s apart")
    begin, end = ends[first], ends[last]
    for one in lines:
        passed = [
            line
            for line in one
            if line.startswith("# not delayed")
            and begin <= float(line.rsplit(":", 1)[1]) * 1e-6 <= end
        ]
        if passed:
            raise ValueError(f"inside the loop: {passed[0]}")
    return Loop(lines, places, first, last)


def keep(loop: Loop, target: Path) -> None:
    """Keep the loop of a recording, packed."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for rank, lines in enumerate(loop.calls()):
        text = "".join(f"{line}\n" for line in lines)
        (target / f"rank-{rank}.txt.xz").write_bytes(lzma.compress(text.encode("ascii"), preset=9))


def late_ns(folder: Path, seconds: float) -> float | None:
    """Mean lateness of the waits of a delayed run's loop [ns]; None where its loop is not found, or
    nobody waited.
    """
    try:
        return looped(folder, seconds).late_ns()
    except ValueError:
        return None


def about(ranks: int) -> dict[str, Any]:
    """The machine, and with what messages are passed."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        "",
    )
    told = subprocess.run(
        ["mpirun", "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "kernel": platform.release().split("-")[0],
        "mpi": told,
        "options": OPTIONS,
        "ranks": ranks,
        "most_bytes": MOST_BYTES,
    }


def results(
    journal: Journal, facts: Mapping[str, Any], kept: Mapping[str, float]
) -> dict[str, Any]:
    """The raw numbers of the journal, by program and delay; ``recorded_s``: the loop of the
    recording that is kept.

    ``waited_ns`` of a point is its delay and how much later than due receives went on: of those
    that had to wait the mean of a run, of the runs the median.
    """
    points = []
    for name in kept:
        for setting in journal.settings():
            runs = journal.of(name, setting)
            if runs:
                seconds = [entry["seconds"] for entry in runs]
                late = [entry["late_ns"] for entry in runs if entry.get("late_ns") is not None]
                real = (
                    {"waited_ns": round(setting.delay_ns + statistics.median(late))} if late else {}
                )
                more = {
                    "steal_s": [entry["steal_s"] for entry in runs],
                    "load": [round(entry["load"], 2) for entry in runs],
                }
                points.append(
                    {
                        "program": name,
                        "delay_ns": setting.delay_ns,
                        **real,
                        "seconds": seconds,
                        **more,
                    }
                )
    programs = {
        name: {"command": PROGRAMS[name].format(build=".", here="."), "recorded_s": seconds}
        for name, seconds in kept.items()
    }
    return {**facts, "programs": programs, "points": points}


def main(words: Sequence[str] | None = None) -> int:
    """Measure what is planned, keep recordings, compare."""
    import compare  # the one beside this file, which is found when this file is run

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--delays", default=DELAYS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--out", type=Path, default=BUILD / "measured")
    asked = parser.parse_args(words)
    layer, out = build(), asked.out
    out.mkdir(parents=True, exist_ok=True)
    settings = [
        Setting(0),
        *(Setting(round(parse(word, "s") * 1e9)) for word in asked.delays.split(",")),
    ]
    journal = Journal(out / "journal.jsonl")
    for point in plan(asked.programs, settings, asked.repeats):
        if point.key() in journal.entries:
            continue
        delay = point.setting.delay_ns
        with tempfile.TemporaryDirectory(prefix="messages-") as name:
            folder = Path(name)
            result = run(PROGRAMS[point.program], layer, delay, asked.ranks, folder)
            if "seconds" in result and delay == 0:
                keep(
                    looped(folder, result["seconds"]),
                    out / "undelayed" / f"{point.program}-{point.repeat}",
                )
            elif "seconds" in result:
                result["late_ns"] = late_ns(folder, result["seconds"])
        journal.add(point, result)
        said = f"{result['seconds'] * 1e3:.3f} ms" if "seconds" in result else result["failed"]
        print(f"{point.repeat} {point.program} {delay / 1e3:g} us: {said}", flush=True)
    kept = {}
    for name in asked.programs:
        runs = {
            k: e["seconds"]
            for k in range(asked.repeats)
            if "seconds" in (e := journal.entries[Point(name, Setting(0), k).key()])
        }
        if runs:
            kept[name] = statistics.median_low(runs.values())
            repeat = next(k for k, seconds in runs.items() if seconds == kept[name])
            shutil.rmtree(out / "recordings" / name, ignore_errors=True)
            shutil.copytree(out / "undelayed" / f"{name}-{repeat}", out / "recordings" / name)
    text = compare.lines_of(results(journal, about(asked.ranks), kept))
    (out / "measured.json").write_text(text, encoding="utf-8")
    compare.write(out, out)
    print(f"measured.json, predictions.json and messages.md are in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
