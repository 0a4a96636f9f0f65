"""What small questions cost: CPU seconds of the whole command in a fresh process, beside loading
NumPy and Polars alone.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from measuring import Aims, conclude
from read_mpi import goal

CALL = "import sys; from turnbuckle.cli import main; sys.exit(main())"
SAMPLE = str(files("turnbuckle") / "examples" / "milc-like-synthetic.sqlite")
FLOOR = "NumPy and Polars loaded"
#: Each with the most times `FLOOR` that it may take.
AIMS = {"--help": 0.45, "project": 2.3, "FILE alone": 2.7, "report": 6.8}
#: Points of a sweep: its cost is what more points take longer than one.
POINTS = 65
#: Turns of the ring of eight ranks whose messages are swept.
TURNS = 20
#: Each with the largest share of `FLOOR` that one point may take.
SWEEPS = {
    "project": (
        1 / 200,
        ["--set", "on=cdi-row-link", "--axis", "slack.link="],
        [f"{k}us" for k in range(1, POINTS + 1)],
    ),
    "messages": (1 / 70, ["--axis", "hop_seconds="], [f"{k}ns" for k in range(100, 100 + POINTS)]),
}
#: The sweep's own work: points of `slack`, each of which reads a curve that is there, in a sample
#: of this many places.
SAMPLED, SAMPLED_SHARE = 10_001, 1 / 1000


def commands(file: str, folder: str) -> dict[str, list[str]]:
    """The command lines by name, the floor first."""
    fresh = [sys.executable, "-c", CALL]
    asked = {
        "--help": ["--help"],
        "inspect": ["inspect", file],
        "project": ["project", file],
        "FILE alone": [file],
        "report": ["report", file, "--output", f"{folder}/report.html"],
    }
    recordings = {"project": file, "messages": str(goal(Path(folder), TURNS))}
    for model, (_, options, values) in SWEEPS.items():
        for name, some in (("one point", values[:1]), (f"{POINTS} points", values)):
            words = [*options[:-1], options[-1] + ",".join(some)]
            asked[f"sweep of {model}, {name}"] = [
                "sweep",
                recordings[model],
                "--model",
                model,
                "--workers",
                "1",
                *words,
            ]
    for name, places in (("one point", 1), (f"{SAMPLED} points", SAMPLED)):
        words = [
            "--axis",
            "slack_seconds=100ns..1ms log",
            "--sample",
            str(places),
            "--output",
            f"{folder}/{places}.parquet",
        ]
        asked[f"sweep of slack, {name}"] = [
            "sweep",
            file,
            "--model",
            "slack",
            "--workers",
            "1",
            *words,
        ]
    return {
        FLOOR: [sys.executable, "-c", "import numpy, polars"],
        **{name: [*fresh, *words] for name, words in asked.items()},
    }


def measure(rounds: int, file: str = SAMPLE) -> dict[str, Any]:
    """Wall and CPU seconds of every command, in turn, `rounds` times after one that is not counted;
    or why there are none.
    """
    out: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        # modules are compiled once, as where they are installed
        environment = {
            **os.environ,
            "XDG_CACHE_HOME": folder,
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "",
        }
        asked = commands(file, folder)
        for turn in range(rounds + 1):
            for name, command in asked.items():
                if "missing" in out.get(name, {}):
                    continue
                for kept in Path(folder).glob("*.journal"):
                    kept.unlink()  # each round computes its points
                sample = _run(command, environment)
                if turn or "missing" in sample:
                    for what, value in sample.items():
                        out.setdefault(name, {}).setdefault(what, []).append(value)
    for one in out.values():
        if "missing" in one:
            one["missing"] = one["missing"][0]
        else:
            one |= {
                "median": statistics.median(one["seconds"]),
                "median_cpu": statistics.median(one["cpu"]),
            }
    return out


def _run(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        return {"missing": lines[0][:160] if lines else f"exit {done.returncode}"}
    return {
        "seconds": time.perf_counter() - began,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }


def table(result: Mapping[str, Any]) -> str:
    """The measurements as text."""
    head = f"{'a small question':<38}{'wall s':>9}{'CPU s':>9}{'x floor':>9}"
    lines = [head, "-" * len(head)]
    for name, one in result.items():
        if "missing" in one:
            lines.append(f"{name:<38}not measured: {one['missing']}")
        else:
            lines.append(
                f"{name:<38}{one['median']:>9.3f}{one['median_cpu']:>9.3f}{_over(result, one['median_cpu']):>9.2f}"
            )
    return "\n".join(lines)


def _over(result: Mapping[str, Any], cpu: float) -> float:
    return float(cpu / result[FLOOR]["median_cpu"])


def targets(result: Mapping[str, Any]) -> Aims:
    """CPU time of each question, and of a point of each sweep, against loading NumPy and Polars."""
    missing = [
        f"{name} was not measured: {one['missing']}"
        for name, one in result.items()
        if "missing" in one
    ]
    if missing:
        return [(False, words) for words in missing]
    out = []
    for name, most in AIMS.items():
        ratio = _over(result, result[name]["median_cpu"])
        out.append(
            (
                ratio < most,
                (
                    f"{name} takes {ratio:.2f} times the CPU time of loading NumPy and Polars; "
                    f"target under {most:g}"
                ),
            )
        )
    swept = [
        *((model, POINTS, most) for model, (most, *_) in SWEEPS.items()),
        ("slack", SAMPLED, SAMPLED_SHARE),
    ]
    for model, points, most in swept:
        one, all_of_them = (
            result[f"sweep of {model}, {name}"]["median_cpu"]
            for name in ("one point", f"{points} points")
        )
        each = (all_of_them - one) / (points - 1)
        share = _over(result, each)
        rate = f"{1 / each:,.0f} points/s" if each > 0 else "too short to be timed"
        words = (
            f"a point of a sweep of {model} takes {share:.5f} of loading NumPy and Polars "
            f"({each * 1e3:.3g} ms of CPU time, {rate})"
        )
        out.append((share < most, f"{words}; target under {most:.5f}"))
    return out


def main() -> None:
    """Measure one file."""
    parser = argparse.ArgumentParser(description="what small questions cost")
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        default=Path(SAMPLE),
        help="a recording; the shipped sample if left out",
    )
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    result = measure(chosen.rounds, str(chosen.file))
    conclude(
        result,
        table(result),
        targets(result),
        Path(__file__).resolve().parent / "out" / "start_up.json",
    )


if __name__ == "__main__":
    main()
