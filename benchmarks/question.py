"""What whole questions take on a large recording, beside fetching its columns by ADBC.

    python benchmarks/question.py FILE [--rounds 1] [--only inspect ...] [--peers PYTHON] [--out benchmarks/out/question.json]

Each run is a whole fresh process, imports and all, on the command line as a user has it: `inspect`,
`project` on two targets with ranges and drivers, `slack` with curve, tolerances and carriers,
`report`. **again** is the second read of the same file, of every table of the cache, against the
first; its clock begins after the imports. FILE comes from `nsys_generator.py`, or is an export of
your own.

Peers stand below, each with the command that answers as much of `inspect` as it can: `nsys stats`,
where `nsys` is on the path, and nsys-ai, where this Python has it, or the one that `--peers` names
(its dependencies need not fit Turnbuckle's).
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import routes
from measuring import Aims, conclude, in_fresh_process, spread

HERE = Path(__file__).resolve().parent
SAMPLE = HERE.parent / "src" / "turnbuckle" / "examples" / "milc-like-synthetic.sqlite"
LIMIT_SECONDS = 3600
FETCHED, AGAIN = "ADBC", "again"
#: Words after the verb and the file, and how many times the CPU time of fetching the columns the
#: question may take.
QUESTIONS: dict[str, tuple[tuple[str, ...], float]] = {
    "inspect": (("--format", "json"), 1.5),
    "project": (("--on", "nvlink-c2c,cdi-row-link", "--format", "json"), 3.0),
    "slack": (("--format", "json"), 4.0),
    "report": (("-o", os.devnull), 6.0),
}
#: Words of a peer's command, which follow the program and come before the file.
PEERS: dict[str, tuple[str, ...]] = {
    "nsys stats": (
        "stats",
        "--quiet",
        "--report",
        "cuda_gpu_kern_sum,cuda_gpu_mem_time_sum,cuda_api_sum",
    ),
    "nsys-ai summary": ("-m", "nsys_ai", "summary"),
    "nsys-ai analyze": ("-m", "nsys_ai", "analyze", "--format", "json"),
}
#: Share of the first read that the second may take, and memory beyond that of a small recording for
#: each row [B].
SECOND, ROW_BYTES = 0.10, 250.0
Sample = dict[str, Any]


def command(question: str, path: Path, output: Path) -> list[str]:
    """Return the command line that asks a question."""
    words = [str(output) if word == os.devnull else word for word in QUESTIONS[question][0]]
    return [sys.executable, "-m", "turnbuckle", question, str(path), "--no-cache", *words]


def whole_process(words: Sequence[str]) -> Sample:
    """Run a command; return the wall time, the CPU time of its process and its peak memory, or
    ``{"missing": why}``.
    """
    began = time.perf_counter()
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=errors) as process,
    ):
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip()
    if process.returncode:
        return {"missing": said[-160:] or f"exit {process.returncode}"}
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"wall": time.perf_counter() - began, "cpu": used.ru_utime + used.ru_stime, "peak": peak}


def by_peer(peer: str, path: Path, python: str) -> Sample:
    """Run a peer's command on a copy of the file, because peers write indexes and caches beside
    what they read.
    """
    name = "nsys" if peer == "nsys stats" else python
    if (program := shutil.which(name)) is None:
        return {"missing": f"{name} is not on the path"}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "recording.sqlite"
        shutil.copyfile(path, copy)
        return whole_process([program, *PEERS[peer], str(copy)])


def child(route: str, path: str) -> Sample:
    """Fetch the columns by ADBC, or read every table by way of the cache; say how many rows there
    were.
    """
    read, tell = routes.adbc() if route == FETCHED else routes.turnbuckle(use_cache=True)
    began, spent = time.perf_counter(), time.process_time()
    tables = read(path)
    rows = (
        tell(tables)[1]
        if route == FETCHED
        else sum(frame.height for frame in tables.tables.values())
    )
    return {"wall": time.perf_counter() - began, "cpu": time.process_time() - spent, "rows": rows}


def measure(
    path: Path, rounds: int, only: Sequence[str] = (), peers: str = sys.executable
) -> dict[str, Any]:
    """Every question in turn, `rounds` times, beside ADBC and the peers; then the second read.

    Returns ``{"rows", "samples": {name: [...]}, "small": {name: peak bytes on the sample}}``.
    """
    asked = [name for name in QUESTIONS if not only or name in only]
    samples: dict[str, list[Sample]] = {
        name: [] for name in (FETCHED, *asked, *PEERS, "first", AGAIN)
    }
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "report.html"
        for _ in range(rounds):
            samples[FETCHED].append(
                whole_process(
                    [sys.executable, str(Path(__file__).resolve()), "--child", FETCHED, str(path)]
                )
            )
            for name in asked:
                samples[name].append(whole_process(command(name, path, output)))
            for name in PEERS:
                samples[name].append(by_peer(name, path, peers))
        for name in ("first", AGAIN):
            samples[name].append(
                in_fresh_process(
                    __file__, (name, path), LIMIT_SECONDS, environment={"XDG_CACHE_HOME": folder}
                )
            )
        small = {
            name: whole_process(command(name, SAMPLE, output)).get("peak", 0) for name in asked
        }
    rows = samples[AGAIN][0].get("rows", 0)
    return {"file_bytes": path.stat().st_size, "rows": rows, "samples": samples, "small": small}


def _median(result: dict[str, Any], name: str, what: str) -> float | None:
    values = [sample[what] for sample in result["samples"].get(name, ()) if what in sample]
    return float(statistics.median(values)) if values else None


def _row_bytes(result: dict[str, Any], name: str) -> float | None:
    peak = _median(result, name, "peak")
    return (
        None
        if peak is None or not result["rows"]
        else (peak - result["small"].get(name, 0)) / result["rows"]
    )


def table(result: dict[str, Any]) -> str:
    """The measurements as text."""
    title = f"whole processes, {result['rows']:,} rows"
    head = f"{title:<34}{'wall s':>9}{'(min-max)':>18}{'CPU s':>9}{'x ADBC':>9}{'peak MB':>9}{'B/row':>7}"
    lines, fetched = [head, "-" * len(head)], _median(result, FETCHED, "cpu")
    for name, samples in result["samples"].items():
        wall, cpu, peak, row = (
            _median(result, name, "wall"),
            _median(result, name, "cpu"),
            _median(result, name, "peak"),
            None,
        )
        if wall is None or cpu is None:
            lines += [
                f"{name:<34}not measured: {sample['missing']}"
                for sample in samples[:1]
                if "missing" in sample
            ]
            continue
        ratio = f"{cpu / fetched:.2f}" if fetched and name in (*QUESTIONS, *PEERS) else ""
        row = _row_bytes(result, name) if name in QUESTIONS else None
        memory = f"{'' if peak is None else format(peak / 1e6, '.0f'):>9}{'' if row is None else format(row, '.0f'):>7}"
        lines.append(
            f"{name:<34}{wall:>9.2f}{spread([s['wall'] for s in samples if 'wall' in s]):>18}{cpu:>9.2f}{ratio:>9}{memory}"
        )
    return "\n".join(lines)


def targets(result: dict[str, Any]) -> Aims:
    """CPU time against the columns fetched by ADBC, the second read against the first, memory for
    each row.
    """
    fetched, aims = _median(result, FETCHED, "cpu"), Aims()
    for name, (_, most) in QUESTIONS.items():
        if name not in result["samples"]:
            continue
        cpu, row = _median(result, name, "cpu"), _row_bytes(result, name)
        if cpu is None or fetched is None or row is None:
            aims.append((False, f"{name} was not measured"))
            continue
        words = (
            f"{name} takes {cpu / fetched:.2f} times the CPU time of fetching the columns by ADBC "
            f"({cpu:.2f} s); target {most:g}"
        )
        aims += [
            (cpu / fetched < most, words),
            (
                row < ROW_BYTES,
                f"{name} takes {row:.0f} bytes of memory a row; target under {ROW_BYTES:.0f}",
            ),
        ]
    first, again = (_median(result, name, "cpu") for name in ("first", AGAIN))
    if first and again:
        words = (
            f"the second read takes {again / first:.0%} of the CPU time of the first ({again:.2f} "
            f"s); target {SECOND:.0%}"
        )
        aims.append((again / first < SECOND, words))
    return aims


def main() -> None:
    """Measure one file."""
    parser = argparse.ArgumentParser(
        description="what whole questions take on a large recording, beside fetching its columns by ADBC"
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--only", nargs="*", default=(), choices=tuple(QUESTIONS), help="only these questions"
    )
    parser.add_argument("--peers", default=sys.executable, help="a Python that has nsys-ai")
    parser.add_argument("--out", type=Path, default=HERE / "out" / "question.json")
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(sys.argv[2], sys.argv[3])))
        return
    chosen = parser.parse_args()
    result = measure(chosen.file, chosen.rounds, chosen.only, chosen.peers)
    conclude(result, table(result), targets(result), chosen.out)


if __name__ == "__main__":
    main()
