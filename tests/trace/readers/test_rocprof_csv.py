"""CSV of rocprof and rocprofv3: sets of files, summaries, and broken ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from build_rocprof import START, open_with_reader, refused
from refusals import codes

from turnbuckle.profile.profile import build
from turnbuckle.trace.check import launch_pairs

# --- rocprofv3, CSV -------------------------------------------------------------------------------


def line(*cells: object) -> str:
    return ",".join(f'"{c}"' for c in cells) + "\n"


TIMES = ("Start_Timestamp", "End_Timestamp")
API = line("Domain", "Function", "Process_Id", "Thread_Id", "Correlation_Id", *TIMES)
SIZES = tuple(f"{what}_Size_{axis}" for what in ("Workgroup", "Grid") for axis in "XYZ")
IDS = (
    "Kind",
    "Agent_Id",
    "Queue_Id",
    "Stream_Id",
    "Thread_Id",
    "Dispatch_Id",
    "Kernel_Id",
    "Kernel_Name",
    "Correlation_Id",
)
KERNEL = line(*IDS, *TIMES, "LDS_Block_Size", "VGPR_Count", "Accum_VGPR_Count", *SIZES)
COPY = line(
    "Kind",
    "Direction",
    "Stream_Id",
    "Source_Agent_Id",
    "Destination_Agent_Id",
    "Correlation_Id",
    *TIMES,
)
MEMORY = line(
    "Kind", "Operation", "Agent_Id", "Allocation_Size", "Address", "Correlation_Id", *TIMES
)
AGENTS = line(
    "Node_Id",
    "Logical_Node_Id",
    "Agent_Type",
    "Cu_Count",
    "Max_Engine_Clk_Fcompute",
    "Name",
    "Product_Name",
) + "".join(
    line(n, n, kind, 304, 2100, "gfx942", "MI300X")
    for n, kind in ((0, "CPU"), (4, "GPU"), (5, "GPU"))
)


def call(
    name: str, correlation: int, at: int, domain: str = "HIP_RUNTIME_API_EXT", lasts: int = 50
) -> str:
    return line(domain, name, 908, 910, correlation, START + at, START + at + lasts)


def set_of_files(folder: Path, label: str = "Agent {}", agents: bool = True) -> Path:
    of = label.format(5)
    kernels = []
    for k in range(3):
        times = (START + 1000 * k + 500, START + 1000 * k + 700)
        kernels.append(
            line(
                "KERNEL_DISPATCH",
                of,
                1,
                7,
                910,
                k,
                3,
                "void s<a, b>(int*)",
                2 * k + 2,
                *times,
                0,
                8,
                4,
                256,
                1,
                1,
                512,
                3,
                1,
            )
        )
    names = ((1, "hipMemcpyAsync"), (2, "hipLaunchKernel"))
    allocation = "MEMORY_ALLOCATION"
    files = {
        "kernel_trace": KERNEL + "".join(kernels),
        "hip_api_trace": API
        + "".join(call(n, 2 * k + j, 1000 * k + 100 * j) for k in range(3) for j, n in names),
        "memory_copy_trace": COPY
        + line(
            "MEMORY_COPY",
            "MEMORY_COPY_HOST_TO_DEVICE",
            7,
            label.format(0),
            of,
            1,
            START + 150,
            START + 190,
        ),
        "marker_api_trace": API + call('a step, ""x""', 99, 0, "MARKER_CORE_API", 5000),
        "rccl_api_trace": API + call("ncclAllReduce", 98, 0, "RCCL_API"),
        "memory_allocation_trace": MEMORY
        + line(
            allocation,
            f"{allocation}_ALLOCATE",
            of,
            64,
            "0x00000000000000ff",
            1,
            START + 1,
            START + 2,
        )
        + line(
            allocation, f"{allocation}_FREE", "", 0, "0x00000000000000ff", 2, START + 3, START + 4
        ),
    } | ({"agent_info": AGENTS} if agents else {})
    for kind, text in files.items():
        (folder / f"run_{kind}.csv").write_text(text)
    return folder / "run_kernel_trace.csv"


def test_a_set_is_read_by_any_of_its_files(tmp_path: Path) -> None:
    first = open_with_reader(set_of_files(tmp_path))
    assert {t: f.height for t, f in first.tables.items()} == {
        "api": 6,
        "kernels": 3,
        "copies": 1,
        "ranges": 1,
        "allocations": 2,
        "streams": 1,
        "devices": 2,
    }
    kernel = first.kernels.row(0, named=True)
    assert (
        kernel
        | {
            "device": 1,
            "stream": 7,
            "blocks": 6,
            "threads": 256,
            "registers": 12,
            "process": 908 << 24,
        }
        == kernel
    )
    copy = first.copies.row(0, named=True)
    assert copy | {"direction": 1, "device": 1, "size_bytes": None} == copy
    assert (
        first.text(first.ranges).to_list() == ['a step, "x"']
        and launch_pairs(first.tables).height == 4
    )
    assert first.allocations.select("operation", "size_bytes", "memory", "address").rows() == [
        (0, 64, 3, 255),
        (1, 64, 3, 255),
    ]
    found = codes(first)
    assert found == {"P113": 1, "P166": 1, "P177": 6, "P178": 1}
    for other in sorted(tmp_path.iterdir()):
        second = open_with_reader(other)
        assert [t for t, f in first.tables.items() if not f.equals(second.table(t))] == [], (
            other.name
        )
        assert (
            second.facts["sha256"] == first.facts["sha256"]
            and second.facts["files"] == first.facts["files"]
        )


@pytest.mark.parametrize(
    ("label", "agents", "device"),
    [("Agent {}", False, 5), ("GPU-{}", False, 5), ("{}", True, 1), ("{}", False, 5)],
)
def test_agents_by_their_labels(tmp_path: Path, label: str, agents: bool, device: int) -> None:
    trace = open_with_reader(set_of_files(tmp_path, label, agents))
    assert trace.kernels["device"].unique().to_list() == [device] and trace.copies[
        "device"
    ].to_list() == [device]
    assert ("P169" in codes(trace)) == (not agents and label != "GPU-{}")


def test_older_headers_counters_and_packed_files(tmp_path: Path) -> None:
    old = line(
        "Kind",
        "Agent_Id",
        "Queue_Id",
        "Kernel_Id",
        "Kernel_Name",
        "Correlation_Id",
        *TIMES,
        "Group_Segment_Size",
        *SIZES,
    )
    old += line(
        "KERNEL_DISPATCH",
        1,
        139690710949888,
        15,
        "t(float*, int)",
        0,
        START,
        START + 66,
        128,
        4,
        4,
        1,
        1024,
        1024,
        1,
    )
    (tmp_path / "9_kernel_trace.csv.gz").write_bytes(gzip.compress(old.encode(), mtime=0))
    trace = open_with_reader(tmp_path / "9_kernel_trace.csv.gz")
    row = trace.kernels.row(0, named=True)
    assert (
        row
        | {
            "blocks": 65536,
            "threads": 16,
            "shared_bytes": 128,
            "stream": 0,
            "correlation": None,
            "registers": None,
        }
        == row
    )
    assert codes(trace)["P180"] == 1
    sizes = (
        "Grid_Size",
        "Kernel_Name",
        "Workgroup_Size",
        "LDS_Block_Size",
        "VGPR_Count",
        "Accum_VGPR_Count",
    )
    ids = ("Correlation_Id", "Dispatch_Id", "Agent_Id", "Queue_Id", "Process_Id", "Thread_Id")
    head = line(*ids, *sizes, "Counter_Name", "Counter_Value", *TIMES)
    counted = ((d, c) for d in (1, 2) for c in ("A", "B"))
    rows = [
        line(
            d, d, "Agent 4", 1, 908, 910, 1000, "k", 256, 0, 8, 0, c, 1.5, START + d, START + d + 1
        )
        for d, c in counted
    ]
    (tmp_path / "c_counter_collection.csv").write_text(head + "".join(rows))
    trace = open_with_reader(tmp_path / "c_counter_collection.csv")
    assert (
        trace.kernels.height == 2
        and trace.kernels["blocks"].to_list() == [4, 4]
        and codes(trace)["P181"] == 2
    )


def test_broken_csv(tmp_path: Path) -> None:
    path = set_of_files(tmp_path)
    text = path.read_text()
    path.write_text(
        text
        + "1,2,3\n"
        + text.splitlines()[1].replace(str(START + 500), "soon")
        + '\n"KERNEL_DISPATCH","Agent 5","1'
    )
    trace = open_with_reader(path)
    assert trace.kernels.height == 4 and codes(trace)["P162"] == 2 and codes(trace)["P105"] == 1
    build(trace)
    path.write_text(
        text.replace("Correlation_Id", "Correlation").replace("End_Timestamp", "Finish")
    )
    assert refused(tmp_path / "run_hip_api_trace.csv").code == "P048"
    path.write_text("a,b\n1,2\n")
    assert refused(tmp_path / "run_hip_api_trace.csv").code == "P048"


def test_a_mark_that_is_not_closed_counts_all_that_it_takes(tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    rows = [call("hipMalloc", k, 100 * k) for k in range(1, 4001)]
    rows[9] = rows[9].replace('"hipMalloc"', '"hipMalloc')
    path.write_text(API + "".join(rows))
    trace = open_with_reader(path)
    assert trace.api.height + codes(trace)["P162"] == 4000 and trace.api.height > 1000


def test_files_of_another_run_are_refused(tmp_path: Path) -> None:
    path = set_of_files(tmp_path)
    api = tmp_path / "run_hip_api_trace.csv"
    api.write_text(api.read_text().replace(str(START)[:8], str(START + 10**13)[:8]))
    error = refused(path)
    assert error.code == "P050" and "hip_api_trace" in error.found


def test_a_file_without_the_names_of_a_set_stands_alone(tmp_path: Path) -> None:
    set_of_files(tmp_path)
    alone = (tmp_path / "run_hip_api_trace.csv").rename(tmp_path / "calls.csv")
    trace = open_with_reader(alone)
    assert set(trace.tables) == {"api"} and "P177" not in codes(trace)
