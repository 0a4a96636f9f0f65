"""Small files that commands of ``tests/cli/fixes.csv`` name: each is written where a command line
names it.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import build_nsys as nsys
import build_nvprof as nvprof
import numpy as np
import polars as pl
from build_rocprof import turns, v3
from frames import frame
from hostile_names import SAMPLE
from mpi_rows import call, recorded, thread

from turnbuckle.trace.trace import Trace

US: Final = 1_000
#: The case of a remoting layer, with a recording of each of its programs.
LAYER: Final = Path(__file__).resolve().parents[2] / "validation" / "cases" / "remoting_pocl"
MILC: Final = SAMPLE.with_name("milc-like-synthetic.sqlite")
#: Words that stand for a recording that ships.
RECORDINGS: Final = {"DGEMM": str(SAMPLE), "MILC": str(MILC)}
_RECORDING: Final = re.compile("|".join(RECORDINGS))

CHAIN: Final = """
items = 99
[stage.unpack]
device = "fpga"
time = "70.9 ms"
[stage.integrate]
device = "gpu"
time = "2.73 ms"
receives = "16 MiB"
[link.fpga-host]
kind = "time"
time = "1.87 ms"
[link.host-gpu]
kind = "pcie"
"""
RUNS: Final = "cores,run time [s]\n" + "".join(
    f"{n},{100 / n + 10}\n" for n in (1, 2, 3, 4, 6, 8, 12)
)
TIERS: Final = (
    "tier, latency, bandwidth\nsocket, 1 us, 1 GB/s\nnode, 2 us, 1 GB/s\nnetwork, 9 us, 1 GB/s\n"
)
FULL: Final = "%%MatrixMarket matrix coordinate real general\n2 2 4\n1 1 1\n1 2 1\n2 1 1\n2 2 1\n"

ORIGIN: Final = 'error = "10 %"\nnature = "assumption"\nsource = "a guess"\n'
MACHINE: Final = (
    '[machine]\nname = "ours"\ntitle = "T"\nsummary = "S"\nyear = 2024\ncoupling = "fabric"\n'
)
NVBANDWIDTH: Final = (
    "Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"
    " 0 1\n 0 55.00 57.00\n"
)
NVBANDWIDTH_TEST: Final = {
    "name": "host_to_device_memcpy_ce",
    "status": "Passed",
    "bandwidth_description": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
    "bandwidth_matrix": [["55.41"]],
}
SACCT: Final = "JobID|Partition|Submit|Start|Elapsed|Timelimit|NNodes|AllocTRES\n"
DISPATCHES: Final = "Index,KernelName,gpu-id,BeginNs,EndNs,DurationNs\n"
GPU_TRACE: Final = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem "
    "(MB),Bytes (MB),"
    "Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n"
)
COUNTERS: Final = (
    "ID,Process ID,Process Name,Host Name,Kernel Name,Context,Stream,Block Size,Grid "
    "Size,Device,CC,Section Name,"
    "Metric Name,Metric Unit,Metric Value,Rule Name,Rule Type"
)
COMPUTE: Final = (("GPU Speed Of Light Throughput", "Compute (SM) Throughput", "%", "30"),)
SUMMARY: Final = """\
==10783== NVPROF is profiling process 10783, command: ./gpu
==10783== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   60.00%  12.000ms         3  4.0000ms  3.0000ms  5.0000ms  scale(float*, int)
                   40.00%  8.0000ms         2  4.0000ms  4.0000ms  4.0000ms  [CUDA memcpy HtoD]
      API calls:   62.50%  20.000ms         2  10.000ms  1.0000us  20.000ms  cudaMalloc
                   37.50%  12.000ms         4  3.0000ms     805ns  6.0000ms  cudaLaunchKernel
"""


def copies(latency: float = 2e-6, rate: float = 50e9, smallest: int = 8, largest: int = 27) -> str:
    """Return what bandwidthTest prints of a link: copies of 2**smallest to 2**largest bytes."""
    lines = "".join(
        f"bandwidthTest-H2D-Pinned, Bandwidth = {n / (latency + n / rate) / 1e9:.4f} GB/s, Time = "
        f"{latency + n / rate:.9f} s, "
        f"Size = {n} bytes, NumDevsUsed = 1\n"
        for n in (2**k for k in range(smallest, largest + 1))
    )
    return "[CUDA Bandwidth Test] - Starting...\n Device 0: NVIDIA H100 80GB HBM3\n" + lines


def rocprofv3(records: dict[str, list[dict[str, Any]]]) -> str:
    """Return what rocprofv3 writes as JSON of such records."""
    return json.dumps({"rocprofiler-sdk-tool": [v3(records)]})


def counters(*metrics: tuple[str, str, str, str]) -> str:
    """Return what Nsight Compute prints of one launch: section, metric, unit, value."""
    launch = '0,77,app,127.0.0.1,dgemm_kernel,1,7,"(256, 1, 1)","(4096, 1, 1)",0,8.0'
    return "\n".join([COUNTERS, *(f"{launch},{','.join(metric)},," for metric in metrics)]) + "\n"


TEXTS: Final[dict[str, str]] = {
    "chain.toml": CHAIN,
    "open.toml": CHAIN.replace('time = "2.73 ms"\nreceives = "16 MiB"\n', "").replace(
        "items = 99\n", ""
    ),
    "p2p.txt": NVBANDWIDTH.replace(
        "host_to_device_memcpy_ce", "device_to_device_memcpy_read_ce"
    ).replace("CPU(row)", "GPU(row)"),
    "endless.toml": CHAIN.replace("items = 99\n", ""),
    "runs.csv": RUNS,
    "many.csv": "cores,run time [s]\n"
    + "".join(f"{n},{100 / n + 0.01 * k}\n" for n in (1, 2, 4, 8, 16, 32) for k in range(500)),
    "counters.csv": counters(
        ("GPU Speed Of Light Throughput", "DRAM Throughput", "%", "80"), *COMPUTE
    ),
    "unit.csv": counters(("GPU Speed Of Light Throughput", "Duration", "fortnight", "1")),
    "uncounted.csv": counters(("GPU Speed Of Light Throughput", "Duration", "us", "1")),
    "other.json": "{}",
    "small.csv": "message, from, to, size [B], after, delay [s]\na, 0, 1, 100, , 0\n",
    "cables.csv": "from, to\n0, 1\n",
    "text.sqlite": "a text and no database\n" * 20,
    "text.txt": "hello\n",
    "session.nvvp": '<?xml version="1.0" encoding="UTF-8"?>\n<session version="2" name="a.nvvp"></session>\n',
    "untimed.csv": DISPATCHES.replace("BeginNs,EndNs,", "") + "0,k,8,490\n",
    "timed.csv": DISPATCHES + "0,k,8,1000,1490,490\n",
    "gpu.json": rocprofv3(turns()),
    "empty.json": rocprofv3({}),
    "r_cuda_gpu_trace.csv": GPU_TRACE
    + '100000,2000000,10,160,1,1,1024,1,1,32,0,0.001,,,,,Tesla V100 (0),1,,13,"void step(int)"\n',
    "header.csv": GPU_TRACE,
    "r_cuda_api_trace.csv": (
        "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name\n"
        "1,2,cudaFree,0,1,7,7,,main\n"
    ),
    "ranges.csv": "Start (ns),End (ns),Duration (ns),Name,PID,TID\n1,2,1,step,1,1\n",
    "sums.csv": (
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev "
        "(ns),Name\n100,1,1,1,1,1,1,0,k\n"
    ),
    "few.csv": "ranks,throughput\n1,203.198\n2,256.53\n",
    "flat.csv": "cores,run time [s]\n"
    + "".join(f"{n},{100 / n + 10}\n" for n in (1, 2, 4, 8, 16, 32, 64, 90)),
    "shares.csv": "name, communication [%], p2p [%], off node [%]\nCastro, 7.8, 36, 12\n",
    "full.mtx": FULL,
    "lower.mtx": FULL.replace("2 2 4", "2 2 3").replace("1 2 1\n", ""),
    "tiers.csv": TIERS,
    "tasks.csv": "task, time [s]\na, 1\nb, 2\n",
    "edges.csv": "from, to, bytes [B]\na, b, 100\n",
    "work.csv": "name, flops, regular [GB], irregular [GB]\nwalk, 1e8, 1, 4\n",
    "memories.csv": "memory, regular, irregular\nhbm, 786 GB/s, 90 GB/s\nddr, 45 GB/s, 9 GB/s\n",
    "intervals.csv": "instructions, cycles, read misses, writes, times\n40, 60, 1, 0, 100\n",
    "fast.csv": "instructions, cycles, read misses\n400, 60, 0\n",
    "counted.csv": "name, flops, regular [GB]\nnothing, 1, 1\n",
    "twice.csv": "name, flops, regular [B]\nsaxpy, 1, 1\nsax, 1, 1\n",
    "saxpy.csv": "name, flops, regular [B]\nsaxpy, 1, 1\n",
    "rates.txt": NVBANDWIDTH,
    "cut.json": '{"nvbandwidth": {"testcases": [',
    "whole.json": json.dumps({"nvbandwidth": {"testcases": [NVBANDWIDTH_TEST]}}),
    "bare.json": '{"nvbandwidth": {}}',
    "copies.txt": copies(),
    "bare.txt": copies(1e-6, 60e9),
    "short.txt": copies(largest=12),
    "long.txt": copies(smallest=20),
    "quick.txt": copies(1e-8, 30e9),
    "mapped.txt": "".join(f"gdr_copy_to_mapping {4**k} {0.1 + 4**k / 2e4:.4f}\n" for k in range(9)),
    "gpu.sacct": SACCT
    + "1|gpu|2026-01-01T00:00:00|2026-01-01T00:00:10|01:00:00|02:00:00|1|cpu=8,gres/gpu=1,mem=8G,node=1\n",
    "cpu.sacct": SACCT
    + "1|cpu|2026-01-01T00:00:00|2026-01-01T00:00:10|01:00:00|02:00:00|1|cpu=8,mem=8G,node=1\n",
    "less.sacct": "JobID|Submit\n1|2\n",
    "jobs.swf": "1 0 5 100 8 -1 1024 8 200 -1 1 1 1 1 2 1 -1 -1\n",
    "summary.txt": SUMMARY,
    "device.txt": SUMMARY.partition("      API calls")[0],
    "nothing.txt": (
        "==1== NVPROF is profiling process 1, command: a\n==1== Profiling result:\n"
        "No kernels were profiled.\n"
    ),
    "spaces.txt": (
        "==1== Profiling result:\n   Start  Duration            Grid Size      Block Size     "
        "Regs*\n250ms  3us - - - -\n"
    ),
    "far.toml": MACHINE
    + f'base = "source"\n[change.link.h2d.latency.add]\nvalue = "60 s"\n{ORIGIN}',
    "based.toml": MACHINE
    + f'base = "xyzzyq"\n[change.link.h2d.latency.add]\nvalue = "1 us"\n{ORIGIN}',
    "added.toml": MACHINE
    + f'base = "source"\n[change.link.h2d.latency.add]\nvalue = "1 us"\n{ORIGIN}',
    "chip.toml": MACHINE + f'chip = "pcie5-x16"\n[node.gpus]\nvalue = "4"\n{ORIGIN}',
    "chipped.toml": MACHINE + f'chip = "h100-sxm5"\n[node.gpus]\nvalue = "4"\n{ORIGIN}',
    "topology.txt": "nothing of a GPU\n",
    "topo.txt": "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-15\t0\n",
    "ring.goal": "num_ranks 2\nrank 0 {\na: calc 1\nb: send 8b to 1\n}\nrank 1 {\na: recv 8b from 0\n}\n",
    "node.et": json.dumps(
        {"schema": "1.0.1", "nodes": [{"id": 1, "name": "aten::mm", "parent": 1}]}
    ),
}


def ping_pong(path: Path) -> None:
    """Write two ranks that send a message to and fro six times."""
    rows = []
    for k in range(6):
        source, target, now = k % 2, 1 - k % 2, 40 * k * US
        rows.append(call(source, "Send", now, now + US, partner=target, tag=0, size_bytes=4096))
        rows.append(
            call(target, "Recv", now, now + 20 * US, partner=source, tag=0, size_bytes=4096)
        )
    whose = {"process": 100 << 24, "correlation": 1}
    launch = {
        "start_ns": 2 * US,
        "end_ns": 3 * US,
        "thread": thread(0),
        "name": "cudaLaunchKernel",
        **whose,
    }
    there = {"start_ns": 4 * US, "end_ns": 6 * US, "name": "kernel", **whose}
    recorded(*rows, api=[launch], kernels=[there]).to_parquet(path)


def late(path: Path) -> None:
    """Write two messages that arrive long before their receive: how long they were under way is not
    in the recording.
    """
    rows = []
    for now in (0, 10):
        rows.append(call(0, "Send", now * US, (now + 1) * US, partner=1, tag=0, size_bytes=4096))
        rows.append(
            call(1, "Recv", (now + 100) * US, (now + 101) * US, partner=0, tag=0, size_bytes=4096)
        )
    recorded(*rows).to_parquet(path)


def alone(path: Path) -> None:
    """Write a send and a receive whose partners were not recorded."""
    recorded(call(0, "Send", 0, 50 * US), call(1, "Recv", 0, 100 * US)).to_parquet(path)


def ring(path: Path) -> None:
    """Write a ring of as many ranks as the name says, each of which sends to the next ten times."""
    ranks, rows = int("".join(filter(str.isdigit, path.name))), []
    for k in range(10):
        for r in range(ranks):
            now = 100 * k * US
            rows.append(
                call(
                    r,
                    "Send",
                    now,
                    now + US,
                    partner=(r + 1) % ranks,
                    tag=k,
                    size_bytes=4096 * (1 + k),
                )
            )
            rows.append(
                call(
                    r,
                    "Recv",
                    now + 2 * US,
                    now + 40 * US,
                    partner=(r - 1) % ranks,
                    tag=k,
                    size_bytes=4096 * (1 + k),
                )
            )
    recorded(*rows, ranks=ranks).to_parquet(path)


def copied(size: int) -> Callable[[Path], Path]:
    """Return what writes a recording of a copy of so many bytes, without kernels."""

    def write(path: Path) -> Path:
        return nsys.make(
            path,
            CUPTI_ACTIVITY_KIND_KERNEL=[],
            CUPTI_ACTIVITY_KIND_MEMCPY=[nsys.copy(7_000, 8_000, 3, size=size)],
        )

    return write


def migrated(path: Path) -> None:
    """Write kernels whose data the driver moves on demand."""
    moved = [nsys.copy(2_600, 3_600, None, kind=11, size=4096, source=0, target=4)]
    nsys.make(path, CUPTI_ACTIVITY_KIND_MEMCPY=moved)


def reduced(path: Path, elements: int) -> None:
    """Write steps of PyTorch, each with an all-reduce of so many numbers by NCCL."""
    events: list[dict[str, Any]] = []
    for k in range(4):
        at, number = 500.0 * k, 2 * k + 1
        host = {"ph": "X", "pid": 1, "tid": 2}
        kernel = {
            "ph": "X",
            "cat": "kernel",
            "pid": 0,
            "tid": 7,
            "name": "ncclDevKernel_AllReduce_Sum_f32_RING_SIMPLE(x)",
        }
        told = {
            "Collective name": "allreduce",
            "In msg nelems": elements,
            "Out msg nelems": elements,
            "dtype": "Float",
            "Group size": 2,
        }
        where = {"device": 0, "context": 1, "stream": 7, "correlation": number}
        launch = {
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "ts": at,
            "dur": 4,
            "args": {"correlation": number},
        }
        wait = {
            "cat": "cuda_runtime",
            "name": "cudaDeviceSynchronize",
            "ts": at + 9,
            "dur": 60,
            "args": {"correlation": number + 1},
        }
        events += [host | launch, kernel | {"ts": at + 20, "dur": 20.0, "args": where}, host | wait]
        ranks = {"Global rank start": 0, "Global rank stride": 1}
        events.append(
            host
            | {
                "cat": "cpu_op",
                "name": "record_param_comms",
                "ts": at - 0.5,
                "dur": 5.0,
                "args": told | ranks,
            }
        )
    head = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2}}
    head |= {"deviceProperties": [{"id": 0, "name": "NVIDIA A100"}]}
    path.write_text(json.dumps(head | {"traceEvents": events}), encoding="utf-8")


def whole(folder: Path) -> None:
    """Write the sample as nsys exports it into a folder of tables."""
    folder.mkdir()
    with closing(sqlite3.connect(SAMPLE)) as file:
        names = [
            name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for name in names:
            pl.read_database(
                f'SELECT * FROM "{name}"', file, infer_schema_length=None
            ).write_parquet(folder / f"{name}.parquet")


def damaged(folder: Path) -> None:
    """Write a folder of tables of which one is damaged."""
    folder.mkdir()
    (folder / "StringIds.parquet").write_bytes(b"PAR1")


def steps(path: Path) -> None:
    """Write a recording whose steps are numbered."""
    nsys.make(
        path,
        NVTX_EVENTS=[
            {
                "start": 2_000,
                "end": 9_000,
                "eventType": 59,
                "text": "step 5",
                "globalTid": nsys.THREAD,
            }
        ],
    )


def one_of(rank: int, apart: int = 0, **facts: Any) -> Callable[[Path], None]:
    """Return what writes the recording of a rank with all-reduces of NCCL, which end so much later
    [ns] in the last four.
    """

    def write(path: Path) -> None:
        process = (rank + 1) << 24
        at = np.cumsum(np.random.default_rng(3).integers(2_000_000, 9_000_000, 40)) + apart * (
            np.arange(40) >= 36
        )
        api = [
            {
                "start_ns": t,
                "end_ns": t + 5_000,
                "process": process,
                "thread": process | 1,
                "correlation": k,
                "name": 1,
            }
            for k, t in enumerate(at)
        ]
        kernels = [
            {
                "start_ns": t + 9_000,
                "end_ns": t + 99_000,
                "process": process,
                "correlation": k,
                "name": 0,
            }
            for k, t in enumerate(at)
        ]
        names = pl.Series(
            "name",
            [facts.pop("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"), "cudaLaunchKernel"],
        )
        about = {
            "format": "nsys",
            "session_start_utc_ns": 10**18,
            "rank": rank,
            "world_size": 2,
            "tables": {},
            **facts,
        }
        Trace(
            {"api": frame("api", api), "kernels": frame("kernels", kernels)},
            names,
            about,
            [],
            path.name,
        ).to_parquet(path)

    return write


def scheduled(path: Path) -> None:
    """Write a recording of which it is known when its thread has a core."""
    turns = [
        {"start": at, "cpu": 0, "isSchedIn": turn, "globalTid": nsys.THREAD}
        for at, turn in ((500, 1), (2_500, 0), (3_000, 1))
    ]
    nsys.make(path, SCHED_EVENTS=turns)


def streams(path: Path) -> None:
    """Write kernels that run at once on more streams than a GOAL schedule has processors, after one
    by itself.
    """
    calls = [nsys.call(1_000 + 10 * k, 1_005 + 10 * k, k) for k in range(1, 301)]
    kernels = [nsys.kernel(5_000_000, 9_000_000, k, streamId=k) for k in range(1, 301)]
    tables = {
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "CUPTI_ACTIVITY_KIND_MEMCPY": [],
    }
    nsys.make(path, **tables)


def case(folder: Path) -> None:
    """Write a case of validation whose measurements lie in a folder of data."""
    text = (
        'title = "a curve"\nwhy = "it is one"\n[a]\nfile = "far/a.csv"\n[b]\nfile = "./b.csv"\n'
        '[[ask]]\nmodel = "line"\ndirection = "h2d"\n'
    )
    rows = (f"h2d, pinned, {n}, {2 + n / 25e3}" for n in (1, 100, 10_000, 1_000_000, 100_000_000))
    curve = "\n".join(["direction, memory, size [B], time [us]", *rows])
    for name, written in (
        ("elsewhere/case.toml", text),
        ("elsewhere/b.csv", curve),
        ("far/a.csv", curve),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(written, encoding="utf-8")


def pings(path: Path) -> None:
    """Write what a program took through a layer, beside its recording and the layer."""
    program = "sync"
    shutil.copytree(LAYER / "recordings" / program, path.parent / program)
    shutil.copy(LAYER / "layer.toml", path.parent)
    measured = json.loads((LAYER / "measured.json").read_text(encoding="utf-8"))["programs"][
        program
    ]
    ping = {
        "class": "launch",
        "recording": program,
        "window_ns": measured["window_ns"],
        "round_trip_ns": 0,
    }
    path.write_text(
        json.dumps({"pings": [{**ping, "seconds": measured["points"][0]["seconds"]}]}),
        encoding="utf-8",
    )


def integrated(path: Path) -> None:
    """Write a recording of a GPU that shares its memory with the CPU."""
    nsys.make(path, TARGET_INFO_GPU=[{**nsys.GPU, "isDiscrete": 0, "name": "Orin"}])


MADE: Final[dict[str, Callable[[Path], object]]] = {
    "mpi.turnbuckle": ping_pong,
    "late.turnbuckle": late,
    "alone.turnbuckle": alone,
    **{f"ring{n}.turnbuckle": ring for n in (2, 4, 8)},
    "copies.sqlite": copied(4096),
    "more.sqlite": copied(8192),
    "peer.sqlite": lambda path: nsys.make(
        path, CUPTI_ACTIVITY_KIND_MEMCPY=[nsys.copy(7_000, 8_000, 3, kind=10, source=2, target=2)]
    ),
    "run.nvvp": lambda path: nvprof.make(path, nvprof.turns(3)),
    "cut.nvvp": lambda path: path.write_bytes(
        nvprof.make(path, nvprof.turns(3)).read_bytes()[:5000]
    ),
    "lacking.nvvp": lambda path: nvprof.make(
        path, {"CONCURRENT_KERNEL": [{"start": 10**18, "name": 1}]}
    ),
    "tables_pqtdir": damaged,
    "whole_pqtdir": whole,
    "short.json": lambda path: reduced(path, 8),
    "long.json": lambda path: reduced(path, 1_000_000),
    "steps.sqlite": steps,
    "rank0.turnbuckle": one_of(0),
    "rank1.turnbuckle": one_of(1),
    "jumps.turnbuckle": one_of(1, 30_000_000),
    "clock0.turnbuckle": one_of(0, session_start_utc_ns=None),
    "clock1.turnbuckle": one_of(1, session_start_utc_ns=None),
    "plain0.turnbuckle": one_of(0, kernel="k"),
    "plain1.turnbuckle": one_of(1, kernel="k"),
    "managed.sqlite": migrated,
    "integrated.sqlite": integrated,
    "scheduled.sqlite": scheduled,
    "cases": case,
    "pings.json": pings,
    "streams.sqlite": streams,
}


def words_of(line: str, folder: Path) -> list[str]:
    """Return the words of a command line, and write each file that it names and that is known here
    into the folder.
    """
    words = shlex.split(line)
    for word in words:
        for name in re.split("[,=/]", word):
            if (folder / name).exists():
                continue
            if name in TEXTS:
                (folder / name).write_text(TEXTS[name], encoding="utf-8")
            elif name in MADE:
                MADE[name](folder / name)
    return [_RECORDING.sub(lambda found: RECORDINGS[found[0]], word) for word in words]
