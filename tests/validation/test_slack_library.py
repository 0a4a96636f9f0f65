"""The delaying library and the four programs, driven through the stand-in: what is delayed, by how much, and what is recorded."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from slack_scripts import FOLDER, refusal, run, toolchain

from turnbuckle.profile.classify import BOUNDARY_CLASSES, CALL_CLASSES, call_class

NAMES = [
    "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel", "cuLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch",
    "cuGraphLaunch", "cudaLaunchHostFunc", "cuLaunchHostFunc", "cudaMemcpy", "cudaMemcpyAsync", "cudaMemcpy2DAsync",
    "cudaMemcpyPeerAsync", "cudaMemcpyToSymbol", "cuMemcpyHtoD_v2", "cuMemcpyDtoHAsync_v2", "cudaMemPrefetchAsync", "cuMemPrefetchAsync",
    "cudaMemset", "cudaMemsetAsync", "cuMemsetD8Async", "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize",
    "cuCtxSynchronize", "cudaThreadSynchronize", "cudaMalloc", "cudaMallocHost", "cudaMallocAsync", "cudaMallocManaged", "cudaFree",
    "cudaFreeHost", "cudaFreeAsync", "cudaHostAlloc", "cudaHostRegister", "cudaHostUnregister", "cuMemHostRegister_v2", "cuMemAlloc_v2",
    "cuMemFree_v2", "cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemAddressReserve", "cudaMemAdvise",
    "cudaMemPoolCreate", "cudaMallocArray", "cuArrayCreate_v2", "cuArray3DCreate_v2", "cudaEventRecord", "cudaEventRecordWithFlags",
    "cudaEventCreate", "cudaEventCreateWithFlags", "cudaEventDestroy", "cudaEventElapsedTime", "cudaStreamWaitEvent",
    "cuStreamWriteValue32", "cuStreamWaitValue32", "cudaEventQuery", "cudaStreamQuery", "cudaMemGetInfo", "cudaGetLastError",
    "cudaPeekAtLastError", "cudaGetDevice", "cudaSetDevice", "cudaGetDeviceProperties", "cudaDeviceGetAttribute",
    "cudaPointerGetAttributes", "cudaOccupancyMaxActiveBlocksPerMultiprocessor", "cudaStreamIsCapturing", "cudaStreamGetCaptureInfo",
    "cudaStreamCreate", "cudaStreamCreateWithFlags", "cudaStreamDestroy", "cudaStreamBeginCapture", "cudaStreamEndCapture",
    "cudaThreadExchangeStreamCaptureMode", "cudaGraphInstantiate", "cudaGraphCreate", "cudaGraphAddKernelNode", "cudaGraphAddMemcpyNode",
    "cudaGraphExecUpdate", "cudaGraphKernelNodeSetParams", "cudaGraphMemsetNodeSetParams", "cudaGraphDestroy", "cuModuleLoadData",
    "cuModuleGetFunction", "cuLibraryLoadData", "cudaFuncGetAttributes", "cudaFuncSetAttribute", "cuLinkCreate_v2", "cuLinkComplete",
    "cuGetProcAddress", "cudaGetDriverEntryPoint", "cudaGetFuncBySymbol", "cuKernelGetFunction", "cudaRuntimeGetVersion",
    "cuCtxGetCurrent", "cudaProfilerStart",
]  # fmt: skip
#: One iteration's calls that cross, by class, as programs.cu makes them.
CALLS = {
    "launch": {"launch": 64, "sync": 1},
    "copy": {"copy": 10},
    "synchronous": {"launch": 1, "sync": 1},
    "overlapped": {"sync": 1, "copy": 2, "event": 3, "launch": 1},
}


def delayed(built: Any, folder: Path, name: str, iterations: int, **settings: str) -> dict[str, Any]:
    """Run a program with the library and return what it counted; empty if it wrote nothing."""
    counts = folder / "counts.json"
    counts.unlink(missing_ok=True)
    run.ran(built, ["run", name, "5000", str(iterations)], {"SLACK_COUNTS": str(counts), **settings})
    found: dict[str, Any] = json.loads(counts.read_text(encoding="utf-8")) if counts.exists() else {}
    return found


def test_classes_are_turnbuckles(built: Any) -> None:
    library = ctypes.CDLL(str(built.library))
    library.slack_class.restype, library.slack_class.argtypes = ctypes.c_char_p, [ctypes.c_char_p]
    found = {name: library.slack_class(name.encode()).decode() for name in NAMES}
    assert {n: (word, call_class(n)) for n, word in found.items() if word != call_class(n)} == {}
    assert set(found.values()) >= set(BOUNDARY_CLASSES) and set(found.values()) <= set(CALL_CLASSES)
    assert {library.slack_class(f"{n}_v3020".encode()).decode() for n in NAMES if call_class(n) == "launch"} == {"launch"}


@pytest.mark.parametrize("name", run.PROGRAMS)
def test_every_crossing_call_of_the_window_is_delayed_once_by_exactly_the_delay(built: Any, tmp_path: Path, name: str) -> None:
    end = 1 if name == "overlapped" else 0  # its last wait
    found = delayed(built, tmp_path, name, 30, SLACK_WINDOW="1", SLACK_DELAY_NS="1230")
    assert {c: n for c, n in found["calls"].items() if n} == {c: 30 * n + (end if c == "sync" else 0) for c, n in CALLS[name].items()}
    assert found["delayed_calls"] == sum(found["calls"].values()) and found["delay_ns"] == 1230
    assert found["waited_ns"] == 1230 * found["delayed_calls"]
    assert run.ran(built, ["calibrate", name])["calls"] == sum(CALLS[name].values())


def test_the_delay_is_in_the_programs_own_time(built: Any) -> None:
    plan = {"program": "copy", "work": 0, "iteration_s": 1e-4, "calls": 10}
    free, slow = (run.measured(built, plan, 0.01, delay, 0) for delay in (0, 50_000))
    each = [line["seconds"] / line["iterations"] for line in (free, slow)]
    assert each[1] - each[0] == pytest.approx(10 * 50e-6, rel=1e-3) and free["waited_ns"] == 0
    assert run.measured(built, plan, 0.01, None, 0)["library"] is False


def test_driver_calls_inside_runtime_calls_are_no_crossings_of_their_own(built: Any, tmp_path: Path, record: Callable[..., Path]) -> None:
    settings = {"SLACK_WINDOW": "1", "SLACK_DELAY_NS": "100"}
    both = delayed(built, tmp_path, "overlapped", 30, SLACK_API="runtime,driver", **settings)
    assert both == delayed(built, tmp_path, "overlapped", 30, **settings) and both["delayed_calls"] == 211
    lines = record("synchronous", 100, 5, SLACK_API="runtime,driver").read_text(encoding="utf-8").splitlines()
    levels = [line.split(",")[6] for line in lines if line.startswith("A")]
    assert levels.count("0") == levels.count("1") > 0


def test_one_class_alone_and_no_window(built: Any, tmp_path: Path) -> None:
    only = delayed(built, tmp_path, "overlapped", 10, SLACK_WINDOW="1", SLACK_DELAY_NS="10", SLACK_CLASSES="event")
    assert only["calls"] == {"event": 30}
    # set-up, 20 iterations to warm up, and a wait at either end
    all_of_it = delayed(built, tmp_path, "synchronous", 10, SLACK_DELAY_NS="0")
    assert all_of_it["calls"] == {"launch": 30, "copy": 0, "memset": 2, "sync": 33, "alloc": 6, "event": 4}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"SLACK_DELAY_NS": "soon"}, "not a number"),
        ({"SLACK_DELAY_NS": "-1"}, "not a number"),
        ({"SLACK_DELAY_NS": "10", "SLACK_CLASSES": "launch,lunch"}, "unknown class"),
        ({"SLACK_DELAY_NS": "10", "SLACK_CLASSES": ""}, "unknown class"),
        ({"SLACK_DELAY_NS": "10", "SLACK_API": "driver"}, "neither runtime"),
        ({"SLACK_DELAY_NS": "10", "STANDIN_REFUSE": "1"}, "subscribe: CUPTI_ERROR_UNKNOWN"),
        ({"SLACK_RECORD": "no/such/folder/a.csv"}, "cannot write"),
    ],
)
def test_wrong_settings_never_pass_for_a_delay(built: Any, tmp_path: Path, settings: dict[str, str], says: str) -> None:
    counts = tmp_path / "counts.json"
    env = {**os.environ, "CUDA_INJECTION64_PATH": str(built.library), "SLACK_COUNTS": str(counts), **settings}
    done = subprocess.run([built.programs, "run", "copy", "0", "3"], env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and json.loads(done.stdout)["iterations"] == 3, "the program itself must go on"
    assert says in done.stderr and not counts.exists()


def test_a_run_without_the_delay_it_was_to_have_is_refused(built: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STANDIN_REFUSE", "1")
    plan = {"program": "copy", "work": 0, "iteration_s": 1e-4, "calls": 10}
    with pytest.raises(refusal.Refusal, match="V003: copy ran without delay"):
        run.measured(built, plan, 0.01, 1000, 0)
    with pytest.raises(refusal.Refusal, match="V003: copy was not recorded"):
        run.recorded(built, plan, 0.01, tmp_path / "copy.record.csv.gz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words", [["run", "copy", "0", "0"], ["run", "cpoy", "0", "1"], ["run", "copy"], ["calibrate", "x"], []], ids=" ".join
)
def test_programs_refuse_words_they_do_not_know(built: Any, words: list[str]) -> None:
    with pytest.raises(refusal.Refusal, match=r"V003: programs .* failed \(1\)"):
        run.ran(built, words)


def test_newest_records_of_a_header() -> None:
    names = ("Kernel9", "Kernel10", "Memcpy6", "MemcpyPtoP4", "CudaEvent")
    text = "".join(f"typedef struct {{ int kind; }} CUpti_Activity{name};\n" for name in names)
    assert toolchain.records(text) == [
        "-DKERNEL_RECORD=CUpti_ActivityKernel10", "-DCOPY_RECORD=CUpti_ActivityMemcpy6", "-DEVENT_RECORD=CUpti_ActivityCudaEvent"
    ]  # fmt: skip


def test_what_a_build_lacks_is_named(toolkit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "toolkits", list)
    with pytest.raises(refusal.Refusal, match=r"V002: there is no cupti\.h"):
        toolchain.tools(str(toolkit / "nvcc"), str(tmp_path))
    with pytest.raises(refusal.Refusal, match="V002: there is no nvcc"):
        toolchain.tools(str(tmp_path / "nvcc"), str(toolkit))
    (tmp_path / "cupti.h").write_text("#error no such CUPTI\n", encoding="utf-8")
    (tmp_path / "libcupti.so").write_bytes(b"")
    with pytest.raises(refusal.Refusal, match=r"V002: .*no such CUPTI"):
        toolchain.build(toolchain.tools(str(toolkit / "nvcc"), str(tmp_path)), tmp_path / "out")


def test_without_a_device_it_says_so(toolkit: Path, tmp_path: Path) -> None:
    for driver, settings, says in (
        ("libno-such-driver.so", {}, "libno-such-driver.so cannot be loaded"),
        (str(toolkit / "libcupti.so"), {"STANDIN_NO_DEVICE": "1"}, "cuInit says 100"),
    ):
        words = [sys.executable, str(FOLDER / "run.py"), "--driver", driver, "--out", str(tmp_path / "results")]
        done = subprocess.run(words, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
        assert done.returncode == 3 and done.stderr.startswith(f"error[V001]: no CUDA driver: {says}")
        assert "Traceback" not in done.stderr and not (tmp_path / "results").exists()
