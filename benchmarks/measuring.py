"""What every benchmark does alike: runs on the clock, peak memory, a fresh process, and the end,
where figures are written and said.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Aims = list[tuple[bool, str]]


def clocked(work: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    """Wall and CPU seconds of `rounds` runs after one that is not counted."""
    work()
    wall, cpu = [], []
    for _ in range(rounds):
        began, spent = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - spent)
    return wall, cpu


def _status(field: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    return next(
        (int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), None
    )


def restart_peak() -> int:
    """Resident bytes now; on Linux the kernel's high-water mark starts again from here."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return peak_bytes()
    return _status("VmRSS") or peak_bytes()


def peak_bytes() -> int:
    """Most resident bytes since the mark was last restarted, or since the process began."""
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def in_fresh_process(
    script: str,
    words: Sequence[object],
    seconds: float,
    *,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The JSON object that `python script --child words` prints last; ``{"missing": why}`` if it
    fails or takes longer than `seconds`.
    """
    command = [python, str(Path(script).resolve()), "--child", *map(str, words)]
    around = {**os.environ, **(environment or {})}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=around, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return {"missing": f"longer than {seconds:g} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        return {
            "missing": next(
                (line for line in lines[::-1] if "Error" in line or "Exception" in line), lines[-1]
            )[:160]
        }
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def spread(seconds: Sequence[float]) -> str:
    """Least and most of a row's seconds, for a table."""
    return f"({min(seconds):.3f}-{max(seconds):.3f})"


def judged(aims: Aims) -> str:
    """Each aim on a line: met or not, and by how much."""
    return "\n".join(f"{'met    ' if met else 'NOT MET'}  {what}" for met, what in aims)


def conclude(result: dict[str, Any], table: str, aims: Aims, out: Path | None) -> None:
    """Write the figures, where there is a file for them, and say them."""
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(table)
    if aims:
        print(judged(aims))
