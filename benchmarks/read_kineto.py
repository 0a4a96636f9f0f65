"""Read one Chrome trace of PyTorch by every route at hand, each in a fresh process, beside `wc` and
`gunzip`; print a table, write JSON.

    python benchmarks/read_kineto.py [--trace X.json | --megabytes 300] [--rounds 3] [--peers PYTHON] [--out out/read_kineto.json]

Without `--trace` it writes a trace of that size: a training loop as Kineto lays it out, with
operators, Python functions and flows.  The routes must tell the same kernels and the same sum of
their durations.  `--peers` names an interpreter that has ijson and HolisticTraceAnalysis where this
one has not.  README.md says how to read the table.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from measuring import conclude, in_fresh_process, peak_bytes, restart_peak

HERE = Path(__file__).resolve().parent
LIMIT_SECONDS = 900
#: Times of `wc` and `gunzip` together that a read may take, and sizes of the file that it may hold
#: in memory.
TARGET_TIME, TARGET_MEMORY = 2.0, 2.0
OURS, PACKED = "turnbuckle", "turnbuckle, gzip"
Sample = dict[str, Any]
Told = tuple[int, int]

_EVENT = """  {
    "ph": "X", "cat": "%s", "name": "%s", "pid": %d, "tid": %d,
    "ts": %d.%03d, "dur": %d.%03d,
    "args": {
      %s
    }
  }"""
_FLOW = (
    '  {\n    "ph": "%s", "id": %d, "pid": %d, "tid": %d, "ts": %d.%03d,\n'
    '    "cat": "ac2g", "name": "ac2g"\n  }'
)
_HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "synthetic", "totalGlobalMem": 85899345920, "numSms": 132}
  ],
  "baseTimeNanoseconds": 1735632360000000000,
  "traceEvents": [
"""


def _turn(k: int) -> Iterator[str]:
    """A Python function, two operators, a launch, its kernel, their flow; every eighth turn a
    copy.
    """
    at, fine, c = 4_458_000_000_000 + 40 * k, k % 1000, 2 * k + 1
    name = (
        f"void at::native::vectorized_elementwise_kernel<4, at::native::functor_{k % 300}<float>, "
        "std::array<char*, 3ul> >(int)"
    )
    grid = f'"grid": [{1 + k % 4096}, 1, 1], "block": [128, 1, 1]'
    work = f'"device": 0, "context": 1, "stream": 7, "correlation": {c}'
    shapes = (
        f'"External id": {k}, "Input Dims": [[64, {k % 512}], [64, 512], []], "Input type": '
        '["float", "float", "Scalar"]'
    )
    yield _EVENT % (
        "python_function",
        f"torch/nn/modules/module.py({k % 2000}): _call_impl",
        41,
        41,
        at,
        fine,
        38,
        0,
        f'"Python id": {k}',
    )
    yield _EVENT % ("cpu_op", "aten::add", 41, 41, at + 1, fine, 20, 500, shapes)
    yield _EVENT % ("cpu_op", "aten::empty", 41, 41, at + 2, fine, 3, 250, shapes)
    yield _EVENT % (
        "cuda_runtime",
        "cudaLaunchKernel",
        41,
        41,
        at + 6,
        fine,
        5,
        125,
        f'"cbid": 211, "correlation": {c}',
    )
    yield _FLOW % ("s", c, 41, 41, at + 6, fine)
    shape = (
        '"registers per thread": 32, "shared memory": 0, "blocks per SM": 2.5, "warps per SM": '
        f"10, {grid}"
    )
    yield _EVENT % (
        "kernel",
        name,
        0,
        7,
        at + 14,
        fine,
        k % 20,
        17 * k % 1000,
        f'{work},\n      {shape}, "est. achieved occupancy %": 31',
    )
    yield _FLOW % ("f", c, 0, 7, at + 14, fine)
    if k % 8 == 0:
        rate = f'"bytes": {1024 * (k % 99)}, "memory bandwidth (GB/s)": 12.5'
        yield _EVENT % (
            "gpu_memcpy",
            "Memcpy HtoD (Pinned -> Device)",
            0,
            7,
            at + 35,
            fine,
            2,
            112,
            f"{work}, {rate}",
        )


def generate(path: Path, megabytes: float) -> None:
    """Write a trace of about that size."""
    size, k = 0, 0
    with path.open("w", encoding="ascii") as file:
        size += file.write(_HEAD)
        while size < megabytes * 1e6:
            size += file.write(
                ("" if k == 0 else ",\n")
                + ",\n".join(event for turn in range(k, k + 100) for event in _turn(turn))
            )
            k += 100
        file.write('\n  ],\n  "traceName": "synthetic.json"\n}\n')


def by_turnbuckle(path: str) -> Told:
    """Every table, sorted and checked, findings, and the file's hash."""
    from turnbuckle.trace.read import read

    kernels = read(path, use_cache=False).kernels
    return kernels.height, int((kernels["end_ns"] - kernels["start_ns"]).sum())


def _of_events(events: Any) -> Told:
    count = total = 0
    for event in events:
        if event.get("cat") == "kernel" and event.get("ph") == "X":
            count += 1
            total += round(float(event["dur"]) * 1000)
    return count, total


def by_json(path: str) -> Told:
    """The standard library: the whole file as Python objects."""
    with Path(path).open("rb") as file:
        return _of_events(json.load(file)["traceEvents"])


def by_ijson(path: str) -> Told:
    """ijson: one event at a time."""
    import ijson  # type: ignore[import-not-found]

    with Path(path).open("rb") as file:
        return _of_events(ijson.items(file, "traceEvents.item", use_float=True))


def by_hta(path: str) -> Told:
    """HolisticTraceAnalysis: its table of one trace, as its analyses take it, but for its rounding
    of times.
    """
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
    from hta.common.trace_parser import parse_trace_dataframe  # type: ignore[import-not-found]
    from hta.configs.parser_config import ParserConfig  # type: ignore[import-not-found]

    _, frame, symbols = parse_trace_dataframe(path, ParserConfig.get_default_cfg())[:3]
    number = symbols.get_sym_id_map()["kernel"]
    kernels = frame[frame["cat"] == number]
    return len(kernels), round(float(kernels["dur"].sum()) * 1000)


ROUTES: dict[str, Callable[[str], Told]] = {
    OURS: by_turnbuckle,
    PACKED: by_turnbuckle,
    "json": by_json,
    "ijson": by_ijson,
    "HolisticTraceAnalysis": by_hta,
}


def child(route: str, path: str) -> Sample:
    """What one fresh process does: import, then read on the clock."""
    if route in (OURS, PACKED):
        import turnbuckle.trace.read  # noqa: F401
    elif route == "ijson":
        import ijson  # noqa: F401
    elif route == "HolisticTraceAnalysis":
        import hta.common.trace_parser  # type: ignore[import-not-found]  # noqa: F401
    baseline, began, spent = restart_peak(), time.perf_counter(), time.process_time()
    told = ROUTES[route](path)
    wall, cpu = time.perf_counter() - began, time.process_time() - spent
    return {"wall": wall, "cpu": cpu, "peak": peak_bytes(), "baseline": baseline, "told": told}


def run_child(route: str, path: Path, python: str) -> Sample:
    """One measurement in a fresh process, or ``{"missing": why}``."""
    return in_fresh_process(__file__, (route, path), LIMIT_SECONDS, python=python)


def tools(path: Path, packed: Path) -> float:
    """Seconds that `wc` takes for the text and `gunzip` for the packed file, one after the
    other.
    """
    began = time.perf_counter()
    for command in (["wc", str(path)], ["gunzip", "-c", str(packed)]):
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def measure(path: Path, rounds: int, peers: str = sys.executable) -> dict[str, Any]:
    """All routes in turn, `rounds` times.  Raises `SystemExit` where two routes do not tell the
    same kernels.
    """
    with tempfile.TemporaryDirectory() as place:
        packed = Path(place) / "trace.json.gz"
        with path.open("rb") as text, gzip.open(packed, "wb", compresslevel=6) as file:
            while piece := text.read(1 << 22):
                file.write(piece)
        found: dict[str, list[Sample]] = {route: [] for route in ROUTES}
        both = []
        for number in range(rounds):
            both.append(tools(path, packed))
            for route, samples in found.items():
                if number and "missing" in samples[0]:
                    continue
                print(f"  round {number + 1} of {rounds}: {route}", file=sys.stderr, flush=True)
                python = sys.executable if route in (OURS, PACKED, "json") else peers
                samples.append(run_child(route, packed if route == PACKED else path, python))
        sizes = {"file_bytes": path.stat().st_size, "packed_bytes": packed.stat().st_size}
    told = {route: samples[0]["told"] for route, samples in found.items() if "told" in samples[0]}
    if len({tuple(one) for one in told.values()}) > 1:
        raise SystemExit(f"the routes do not tell the same kernels: {told}")
    return {**sizes, "wc_and_gunzip": both, "routes": found}


def generated(megabytes: float, rounds: int, peers: str = sys.executable) -> dict[str, Any]:
    """`measure` on a trace that is written for it."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "synthetic.json"
        generate(path, megabytes)
        return measure(path, rounds, peers)


def table(result: dict[str, Any]) -> str:
    """The measurements as text."""
    both, size = statistics.median(result["wc_and_gunzip"]), result["file_bytes"]
    lines = [
        (
            f"{size / 1e6:.0f} MB of JSON, {result['packed_bytes'] / 1e6:.0f} MB packed; wc and "
            f"gunzip together {both:.2f} s"
        ),
        "",
    ]
    lines.append(
        f"{'route':24}{'seconds':>10}{'CPU':>8}{'of wc+gunzip':>14}{'MB/s':>8}{'peak MB':>9}{'of file':>9}"
    )
    for route, samples in result["routes"].items():
        if "missing" in samples[0]:
            lines.append(f"{route:24}  not measured: {samples[0]['missing']}")
            continue
        wall, cpu = (
            statistics.median(sample[clock] for sample in samples) for clock in ("wall", "cpu")
        )
        peak = max(sample["peak"] - sample["baseline"] for sample in samples)
        share, speed = wall / both, size / wall / 1e6
        lines.append(
            f"{route:24}{wall:10.2f}{cpu:8.2f}{share:14.2f}{speed:8.0f}{peak / 1e6:9.0f}{peak / size:9.2f}"
        )
    return "\n".join(lines)


def targets(result: dict[str, Any]) -> list[tuple[bool, str]]:
    """Whether a packed trace is read in twice the time of `wc` and `gunzip`, in less memory than
    twice the file.
    """
    both, out = statistics.median(result["wc_and_gunzip"]), []
    for route in (OURS, PACKED):
        samples = result["routes"][route]
        if "missing" in samples[0]:
            out.append((False, f"{route} was not measured: {samples[0]['missing']}"))
            continue
        wall = statistics.median(sample["wall"] for sample in samples)
        peak = max(sample["peak"] - sample["baseline"] for sample in samples)
        good = wall <= TARGET_TIME * both and peak <= TARGET_MEMORY * result["file_bytes"]
        words = (
            f"{route}: {wall / both:.2f} of wc and gunzip (target {TARGET_TIME:g}), memory "
            f"{peak / result['file_bytes']:.2f} of the file"
        )
        out.append((good, f"{words} (target {TARGET_MEMORY:g})"))
    return out


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--megabytes", type=float, default=300.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--out", type=Path, default=HERE / "out" / "read_kineto.json")
    parser.add_argument("--child", nargs=2)
    chosen = parser.parse_args()
    if chosen.child:
        print(json.dumps(child(*chosen.child)))
        return 0
    result = (
        measure(chosen.trace, chosen.rounds, chosen.peers)
        if chosen.trace
        else generated(chosen.megabytes, chosen.rounds, chosen.peers)
    )
    aims = targets(result)
    conclude(result | {"cores": os.cpu_count()}, table(result), aims, chosen.out)
    return 0 if all(met for met, _ in aims) else 1


if __name__ == "__main__":
    sys.exit(main())
