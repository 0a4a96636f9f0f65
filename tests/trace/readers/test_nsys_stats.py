"""CSV of nsys stats: the same run as its SQLite export tells, its calls beside it, and tables that
are no trace.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from refusals import codes, refused

import turnbuckle as tb
from turnbuckle.foundation.schema import words
from turnbuckle.profile.summary import summary
from turnbuckle.projection.run import Run
from turnbuckle.trace import Trace, read
from turnbuckle.trace.ids import process_number, thread_number

SAMPLE = Path(tb.__file__).parent / "examples" / "dgemm-like-synthetic.sqlite"
GPU = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem "
    "(MB),Bytes (MB),Throughput (MB/s),"
)
GPU += "SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name"
API = "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name"
SUM = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
WAYS = {
    "h2d": "Host-to-Device",
    "d2h": "Device-to-Host",
    "d2d": "Device-to-Device",
    "p2p": "Peer-to-Peer",
}
KERNEL = (
    '100000,2000000,10,160,1,1,1024,1,1,32,0.000,0.001,,,,,Tesla V100-SXM2-16GB (0),1,,13,"void '
    'step<int, 4>(int)"'
)
COPY = (
    "2200000,90000,11,,,,,,,,,,1.049,11650.844,Device,Pageable,Tesla V100-SXM2-16GB "
    "(0),1,,13,[CUDA memcpy Device-to-Host]"
)


def text(heading: str, rows: list[list[object]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return f"{heading}\n{out.getvalue()}"


def gpu_trace(trace: Trace) -> str:
    """Write kernels, copies and sets of a trace as ``nsys stats --report cuda_gpu_trace`` does."""
    rows: list[list[object]] = []
    memories = [word.replace("_", " ").title() for word in words("memories")]
    for name, k in zip(trace.text(trace.kernels), trace.kernels.iter_rows(named=True), strict=True):
        shape = [
            k["blocks"] or "",
            1,
            1,
            k["threads"] or "",
            1,
            1,
            k["registers"],
            "0.000",
            f"{(k['shared_bytes'] or 0) / 1e6:.6f}",
        ]
        end = ["", "", "", "", f"A100 ({k['device']})", k["context"], "", k["stream"], name]
        rows.append([k["start_ns"], k["end_ns"] - k["start_ns"], k["correlation"], *shape, *end])
    for c in trace.copies.iter_rows(named=True):
        lasts = c["end_ns"] - c["start_ns"]
        sizes = [f"{c['size_bytes'] / 1e6:.3f}", f"{c['size_bytes'] / lasts * 1e3:.3f}"]
        ends = [memories[c["source_memory"]], memories[c["target_memory"]]]
        name = f"[CUDA memcpy {WAYS[words('directions')[c['direction']]]}]"
        rows.append(
            [
                c["start_ns"],
                lasts,
                c["correlation"],
                *[""] * 9,
                *sizes,
                *ends,
                "A100 (0)",
                c["context"],
                "",
                c["stream"],
                name,
            ]
        )
    for m in trace.memsets.iter_rows(named=True):
        sizes = [
            f"{m['size_bytes'] / 1e6:.3f}",
            f"{m['size_bytes'] / (m['end_ns'] - m['start_ns']) * 1e3:.3f}",
        ]
        end = [*sizes, "Device", "", "A100 (0)", m["context"], "", m["stream"], "[CUDA memset]"]
        rows.append([m["start_ns"], m["end_ns"] - m["start_ns"], m["correlation"], *[""] * 9, *end])
    return text(GPU, sorted(rows, key=lambda row: int(str(row[0]))))


def api_trace(trace: Trace) -> str:
    """Write the calls of a trace as ``nsys stats --report cuda_api_trace`` does."""
    rows: list[list[object]] = []
    for name, a in zip(trace.text(trace.api), trace.api.iter_rows(named=True), strict=True):
        who = [process_number(a["process"]) % (1 << 22), thread_number(a["thread"]), "", "main"]
        rows.append(
            [a["start_ns"], a["end_ns"] - a["start_ns"], name, a["result"], a["correlation"], *who]
        )
    return text(API, rows)


def written(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_the_csv_of_a_run_tells_what_its_export_tells(tmp_path: Path) -> None:
    export = Run.read(SAMPLE)
    gpu = written(tmp_path / "report1_cuda_gpu_trace.csv", gpu_trace(export.trace))
    api = written(tmp_path / "report1_cuda_api_trace.csv", api_trace(export.trace))
    run = Run.read(gpu)
    assert "P260" not in codes(run)
    for table, columns in (
        ("kernels", ["start_ns", "end_ns", "stream", "blocks", "threads"]),
        ("copies", ["start_ns", "end_ns", "direction", "source_memory", "target_memory"]),
        ("api", ["start_ns", "end_ns"]),
    ):
        order = columns[:2]
        assert (
            run.trace.table(table)[columns]
            .sort(order)
            .equals(export.trace.table(table)[columns].sort(order))
        ), table
    near, far = (
        one.trace.copies.sort("start_ns", "stream")["size_bytes"].to_numpy()
        for one in (run, export)
    )
    assert (abs(near - far) <= 0.01 * far).all()
    assert summary.categories_ns(run.profile) == summary.categories_ns(export.profile)
    assert run.trace.launch_pairs.height == export.trace.launch_pairs.height
    assert Run.read(api).profile.activities.height == run.profile.activities.height, (
        "either of the two may be named"
    )
    assert run.project("self").projections[0].seconds == run.judged.seconds


def test_without_the_calls_it_is_a_recording_of_the_device_alone(tmp_path: Path) -> None:
    run = Run.read(written(tmp_path / "a_cuda_gpu_trace.csv", f"{GPU}\n{KERNEL}\n{COPY}\n"))
    assert summary.kernels(run.profile)["busy_ns"] == 2_000_000 and not run.projectable
    assert run.trace.copies["size_bytes"].to_list() == [1_048_576], (
        "from rate and time, which are rounded less than 1.049 MB"
    )
    assert run.trace.devices["name"].to_list() == ["Tesla V100-SXM2-16GB"]
    assert "cuda_api_trace" in refused("A140", run.project, "gh200").fix


@pytest.mark.parametrize(
    ("heading", "row", "start_ns", "size"),
    [
        (
            "Start(nsec),Duration(nsec),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem,DymSMem,Bytes(MB),Thru(MB/s),SrcMemKd,"
            "DstMemKd,Device,Ctx,Strm,Name",
            "5000,1000,1,,,,,,,,,,2.000,,Pinned,Device,V100 (1),1,7,[CUDA memcpy HtoD]",
            5_000,
            2_000_000,
        ),
        (
            "Start (us),Duration (us),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem "
            "(KiB),DymSMem (KiB),Bytes (KiB),"
            "Throughput (GiB/s),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name",
            "5.25,1,1,,,,,,,,,,4.000,,Pinned,Device,V100 (1),1,7,[CUDA memcpy HtoD]",
            5_250,
            4_096,
        ),
    ],
)
def test_units_are_those_of_the_heading(
    tmp_path: Path, heading: str, row: str, start_ns: int, size: int
) -> None:
    before = "Processing [a.sqlite] with [reports/gputrace.py]...\n\n"
    trace = read(written(tmp_path / "a_gputrace.csv", f"{before}{heading}\n{row}\n"))
    copy = trace.copies.row(0, named=True)
    assert (
        copy["start_ns"],
        copy["size_bytes"],
        copy["device"],
        copy["direction"],
        copy["source_memory"],
    ) == (start_ns, size, 1, 1, 2)


def test_a_size_that_the_text_rounds_away_is_counted(tmp_path: Path) -> None:
    small = (
        "2200000,900,11,,,,,,,,,,0.001,,Device,Pageable,V100 (0),1,,13,[CUDA memcpy Device-to-Host]"
    )
    trace = read(written(tmp_path / "a.csv", f"{GPU}\n{small}\n{COPY}\n"))
    assert codes(trace) == {"P260": 1}


def test_other_tables_are_named(tmp_path: Path) -> None:
    fixes = {
        "summary": (f"{SUM}\n100.0,5,1,5.0,5.0,5,5,0.0,step\n", "nsys export --type sqlite"),
        "memory": (
            (
                "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation\n"
                "1,1,1,1,1,1,0,[CUDA memset]\n"
            ),
            "nsys export",
        ),
        "ranges": (
            "Start (ns),End (ns),Duration (ns),Name,PID,TID\n1,2,1,step,1,1\n",
            "cuda_gpu_trace",
        ),
        "calls": (
            f"{API}\n1,2,cudaFree,0,1,7,7,,main\n",
            "put the cuda_gpu_trace of the same report beside it",
        ),
    }
    for name, (content, fix) in fixes.items():
        error = refused("P085", read, written(tmp_path / f"{name}.csv", content))
        assert fix in error.fix, name
    refused("P086", read, written(tmp_path / "empty.csv", GPU + "\n"))
    refused("P013", read, written(tmp_path / "other.csv", "time,value\n1,2\n"))


def test_broken_lines_are_counted_and_cost_no_other(tmp_path: Path) -> None:
    bad = [
        "x,1,2",
        KERNEL.replace("2000000", "-5"),
        KERNEL.replace("2000000", "1e300"),
        KERNEL.replace("100000", "nan", 1),
        '"open',
    ]
    trace = read(written(tmp_path / "a.csv", "\n".join([GPU, KERNEL, *bad])))
    assert trace.kernels.height == 1 and codes(trace)["P162"] == len(bad)
