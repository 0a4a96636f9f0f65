"""Summaries that nvprof prints, in each of its forms, and the additive model on them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.cli import run as cli
from turnbuckle.foundation.errors import ProfileError, UsageError
from turnbuckle.papers.models.node.nvprof_additive import summary_rows
from turnbuckle.papers.models.node.nvprof_summary import Row, Summary, read_summary
from turnbuckle.trace.readers.nvprof import reader as nvprof

PRINTED = """\
iteration 1 of 2
==10783== NVPROF is profiling process 10783, command: ./gpu --token=hunter2
==10783== Profiling application: ./gpu --token=hunter2
residual 12.5% after 3.0ms
==10783== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   60.00%  12.000ms         3  4.0000ms  3.0000ms  5.0000ms  scale(float*, int)
                   25.00%  5.0000ms         2  2.5000ms  2.0000ms  3.0000ms  [CUDA memcpy HtoD]
                   10.00%  2.0000ms         1  2.0000ms  2.0000ms  2.0000ms  [CUDA memcpy DtoH]
                    5.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  [CUDA memcpy DtoD]
      API calls:   50.00%  20.000ms         2  10.000ms  1.0000us  20.000ms  cudaMalloc
                   37.50%  15.000ms         1  15.000ms  15.000ms  15.000ms  cudaDeviceSynchronize
                   12.50%  5.0000ms         4  1.2500ms     805ns  2.0000ms  cudaLaunchKernel

==10783== Unified Memory profiling result:
Device "Tesla T4 (0)"
   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name
       4  64.000KB  4.0000KB  1.0000MB  256.0000KB  4.000000ms  Host To Device
       2  64.000KB  4.0000KB  0.9961MB  128.0000KB  2.000000ms  Device To Host
     315         -         -         -           -  58.43657ms  Gpu page fault groups
Total CPU Page faults: 1154
"""
#: The same as CSV, as before CUDA 9, and as traces of every activity.
CSV = """\
==10783== NVPROF is profiling process 10783, command: ./gpu
==10783== Profiling application: ./gpu
==10783== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,ms,ms,ms,
"GPU activities",60.000000,12.000000,3,4.000000,3.000000,5.000000,"scale(float*, int)"
"GPU activities",25.000000,5.000000,2,2.500000,2.000000,3.000000,"[CUDA memcpy HtoD]"
"GPU activities",10.000000,2.000000,1,2.000000,2.000000,2.000000,"[CUDA memcpy DtoH]"
"GPU activities",5.000000,1.000000,1,1.000000,1.000000,1.000000,"[CUDA memcpy DtoD]"
"API calls",50.000000,20.000000,2,10.000000,0.001000,20.000000,"cudaMalloc"
"API calls",37.500000,15.000000,1,15.000000,15.000000,15.000000,"cudaDeviceSynchronize"
"API calls",12.500000,5.000000,4,1.250000,0.000805,2.000000,"cudaLaunchKernel"

==10783== Unified Memory profiling result:
"Device","Count","Avg Size","Min Size","Max Size","Total Size","Total Time","Name"
,,KB,KB,MB,KB,ms,
"Tesla T4 (0)",4,64.000000,4.000000,1.000000,256.000000,4.000000,"Host To Device"
"Tesla T4 (0)",2,64.000000,4.000000,0.996100,128.000000,2.000000,"Device To Host"
"Tesla T4 (0)",315,,,,,58.436570,"Gpu page fault groups"
==10783== Total CPU Page faults: 1154
"""
OLD = """\
======== Profiling result:
Time(%)      Time     Calls       Avg       Min       Max  Name
 60.00%  12.000ms         3  4.0000ms  3.0000ms  5.0000ms  scale(float*, int)
 25.00%  5.0000ms         2  2.5000ms  2.0000ms  3.0000ms  [CUDA memcpy HtoD]
 10.00%  2.0000ms         1  2.0000ms  2.0000ms  2.0000ms  [CUDA memcpy DtoH]
  5.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  [CUDA memcpy DtoD]

======== API calls:
Time(%)      Time     Calls       Avg       Min       Max  Name
 50.00%  20.000ms         2  10.000ms  1.0000us  20.000ms  cudaMalloc
 37.50%  15.000ms         1  15.000ms  15.000ms  15.000ms  cudaDeviceSynchronize
 12.50%  5.0000ms         4  1.2500ms     805ns  2.0000ms  cudaLaunchKernel
"""
GPU_TRACE = """\
==9== Profiling result:
"Start","Duration","Grid X","Size","Throughput","Device","Context","Stream","Name"
ms,us,,MB,GB/s,,,,
250.100000,3000.000000,,8.000000,11.2,"Tesla T4 (0)","1","7","[CUDA memcpy HtoD]"
254.100000,2000.000000,,8.000000,11.2,"Tesla T4 (0)","1","7","[CUDA memcpy HtoD]"
257.100000,3000.000000,4,,,"Tesla T4 (0)","1","7","scale(float*, int) [118]"
261.100000,9000.000000,4,,,"Tesla T4 (0)","1","7","scale(float*, int) [125]"
"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str | bytes, name: str = "summary.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def by_name(summary: Summary, process: int = 0) -> dict[str, Row]:
    return {r.name: r for r in summary.processes[process].rows}


def ran(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: object
) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["turnbuckle", *map(str, words)])
    monkeypatch.setenv("COLUMNS", "120")
    capsys.readouterr()
    code = cli.run([str(w) for w in words])
    found = capsys.readouterr()
    return code, found.out, found.err


# --- what is printed ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [PRINTED, CSV, OLD, PRINTED.replace("\n", "\r\n"), "\ufeff" + CSV])
def test_every_form_says_the_same(written: Callable[..., Path], text: str) -> None:
    path = written(text)
    assert nvprof.is_summary(path)
    summary = read_summary(path)
    rows = by_name(summary)
    (process,) = summary.processes
    assert process.pid == (None if text is OLD else 10783) and summary.findings == []
    shown = {
        n: (r.section, r.calls, round(r.seconds * 1e9), r.share)
        for n, r in rows.items()
        if r.section != "unified"
    }
    assert shown["scale(float*, int)"] == ("gpu", 3, 12_000_000, pytest.approx(0.6))
    assert shown["[CUDA memcpy DtoD]"] == ("gpu", 1, 1_000_000, pytest.approx(0.05))
    assert (
        shown["cudaLaunchKernel"] == ("api", 4, 5_000_000, pytest.approx(0.125)) and len(shown) == 7
    )
    # half a unit of the last digit as printed
    assert rows["cudaMalloc"].half == pytest.approx(0.5e-9 if text.endswith(CSV) else 0.5e-6)
    assert rows["cudaLaunchKernel"].half == pytest.approx(0.5e-9 if text.endswith(CSV) else 0.05e-6)
    if text is not OLD:
        moved = rows["Host To Device"]
        assert (moved.calls, moved.size_bytes, round(moved.seconds * 1e9)) == (
            4,
            256 * 1024,
            4_000_000,
        )
        assert rows["Gpu page fault groups"].size_bytes is None and process.cpu_faults == 1154
    assert "hunter2" not in repr(summary)


def test_a_trace_is_added_up(written: Callable[..., Path]) -> None:
    summary = read_summary(written(GPU_TRACE, "trace.csv"))
    shown = {
        n: (r.section, r.calls, round(r.seconds * 1e6), r.share)
        for n, r in by_name(summary).items()
    }
    assert shown == {
        "[CUDA memcpy HtoD]": ("gpu", 2, 5000, None),
        "scale(float*, int)": ("gpu", 2, 12_000, None),
    }
    assert by_name(summary)["scale(float*, int)"].half == pytest.approx(2 * 0.5e-12)


def test_processes_stand_apart(written: Callable[..., Path]) -> None:
    other = PRINTED.replace("10783", "10784").replace("12.000ms         3", "24.000ms         3")
    summary = read_summary(written(PRINTED + other))
    assert [p.pid for p in summary.processes] == [10783, 10784]
    assert [round(by_name(summary, k)["scale(float*, int)"].seconds * 1e3) for k in (0, 1)] == [
        12,
        24,
    ]


def test_shares_that_are_not_those_of_the_times(written: Callable[..., Path]) -> None:
    summary = read_summary(written(PRINTED.replace("12.50%  5.0000ms", "12.50%  5.5000ms")))
    (found,) = summary.findings
    # the changed line, and those whose share it shifts
    assert found.code == "P175" and found.count == 3
    assert (
        read_summary(written(PRINTED.replace("12.50%  5.0000ms", "12.51%  5.0000ms")))
        .findings[0]
        .count
        == 1
    )
    assert read_summary(written(PRINTED.replace("12.50%", "12.504%"))).findings == []


def test_lines_that_cannot_be_read_are_counted(written: Callable[..., Path]) -> None:
    spoilt = PRINTED.replace("10.00%  2.0000ms", "10.00%  2.0000xs").replace(
        "GPU activities:", "OpenACC (incl):"
    )
    summary = read_summary(written(spoilt))
    assert [(f.code, f.count) for f in summary.findings if f.code == "P153"] == [("P153", 2)]
    cut = read_summary(written(CSV.replace('20.000000,"cudaMalloc"', "20.000000")))
    assert [(f.code, f.count) for f in cut.findings if f.code == "P153"] == [("P153", 1)]


def test_a_unit_for_the_whole_column_is_not_passed_over(written: Callable[..., Path]) -> None:
    """Numbers without a unit stand in a table, and none of them is taken for anything."""
    spoilt = PRINTED.replace("25.00%  5.0000ms", "25.00    5.0000  ").replace(
        "     805ns  2.0000ms", "  805  2.0000"
    )
    summary = read_summary(written(spoilt))
    assert [f.count for f in summary.findings if f.code == "P153"] == [
        2
    ] and "[CUDA memcpy HtoD]" not in by_name(summary)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (
            (
                "==1== NVPROF is profiling process 1, command: a\n==1== Profiling result:\n"
                "No kernels were profiled.\n"
            ),
            "P041",
            "no table",
        ),
        ("==1== Profiling result:\n GPU activities:   1e%  5xs  1 2 3 4 k\n", "P041", "1 lines"),
        (
            (
                "==1== Profiling result:\n   Start  Duration            Grid Size      Block "
                "Size     Regs*\n250ms  3us - - - -\n"
            ),
            "P042",
            "--csv",
        ),
        ("", "P041", "no table"),
    ],
)
def test_what_is_no_summary(written: Callable[..., Path], text: str, code: str, said: str) -> None:
    with pytest.raises(ProfileError) as caught:
        read_summary(written(text))
    error = caught.value
    assert (
        error.code == code
        and error.where.startswith("summary.txt")
        and said in "\n".join(error.lines())
        and error.fix
    )


def test_files_that_are_no_text(written: Callable[..., Path], tmp_path: Path) -> None:
    for path in (written(b"==1== Profiling result:\n\xff\xfe"), tmp_path / "missing.txt", tmp_path):
        refused("A061", read_summary, path)
    assert not nvprof.is_summary(tmp_path) and not nvprof.is_summary(tmp_path / "missing.txt")


def test_spoilt_text_never_breaks(written: Callable[..., Path]) -> None:
    dice = random.Random(3)
    for text in (PRINTED, CSV, OLD, GPU_TRACE):
        for _ in range(60):
            spoilt = list(text)
            for _ in range(dice.choice((1, 3, 30))):
                at = dice.randrange(len(spoilt))
                spoilt[at] = dice.choice('"\n ,%=9e-.\x1b\u00b2x')
            try:
                summary_rows(
                    written(
                        "".join(spoilt[: dice.choice((len(spoilt), dice.randrange(len(spoilt))))])
                    ),
                    {"data": 10.0},
                    None,
                )
            except ProfileError as error:
                assert error.code in ("P041", "P042")
            except UsageError as error:
                assert error.code == "A401"


@settings(max_examples=100)
@given(st.text(alphabet='0123456789.eE%msnukKMB-"=, \n:PGUAactivitiescalls', max_size=300))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, tail: str) -> None:
    path = tmp_path_factory.mktemp("any") / "any.txt"
    path.write_text(
        "==1== Profiling result:\n GPU activities:   60.00%  12.000ms   3  4.0ms  3.0ms  5.0ms  k\n"
        + tail,
        encoding="utf-8",
    )
    try:
        assert read_summary(path).processes
    except ProfileError as error:
        assert error.code == "P042"


# --- the model ------------------------------------------------------------------------------------

TEN = {"data": 10.0, "control": 10.0}


def test_without_a_run_time_only_a_bound_is_left(written: Callable[..., Path]) -> None:
    (row,), findings = summary_rows(written(PRINTED), TEN, None)
    assert findings == [] and row["name"] == "process 10783"
    assert (row["gpu_seconds"], row["data_seconds"], row["control_seconds"]) == pytest.approx(
        (0.013, 0.013, 0.040)
    )
    assert row["waits_seconds"] == pytest.approx(0.015) and row["saved_seconds"] == pytest.approx(
        0.9 * (0.013 + 0.025)
    )
    # now: 13 + 13 + 25 ms, waits counted once; then: 13 + 1.3 + 2.5 ms
    bound = 51 / 16.8
    assert (
        row["benefit_low"] == 1.0
        and row["benefit_high"] == pytest.approx(bound, rel=1e-3)
        and row["benefit_high"] > bound
    )
    for unknown in (
        "benefit",
        "penalty",
        "cpu_seconds",
        "stated_seconds",
        "projected_seconds",
        "closure_defect_seconds",
    ):
        assert row[unknown] is None
    (worse,), _ = summary_rows(written(PRINTED), {"data": 0.1}, None)
    assert worse["penalty_low"] == 1.0 and worse["penalty_high"] == pytest.approx(
        (51 + 9 * 13) / 51, rel=1e-3
    )


def test_with_a_run_time_the_rest_is_cpu_and_mpi(written: Callable[..., Path]) -> None:
    (row,), findings = summary_rows(written(PRINTED), TEN, "100 ms")
    assert (
        row["cpu_seconds"] == pytest.approx(0.049)
        and row["closure_defect_seconds"] == pytest.approx(-0.015)
        and findings == []
    )
    assert row["benefit"] == pytest.approx(100 / (100 - 34.2), rel=1e-6)
    assert row["benefit_low"] < row["benefit"] < row["benefit_high"] < row["benefit"] * 1.01
    (_,), findings = summary_rows(written(PRINTED), TEN, "20 ms")
    assert [f.code for f in findings] == ["A341"]
    # a longer run lies inside the bound of the run of unknown length
    (bound,), _ = summary_rows(written(PRINTED), TEN, None)
    for total in ("60 ms", "1 s", "1000 s"):
        (longer,), _ = summary_rows(written(PRINTED), TEN, total)
        assert (
            bound["benefit_low"]
            <= longer["benefit_low"]
            <= longer["benefit_high"]
            <= bound["benefit_high"]
        )


def test_classes_of_calls_have_lambdas_of_their_own(written: Callable[..., Path]) -> None:
    (row,), _ = summary_rows(written(PRINTED), {"alloc": 2.0}, "100 ms")
    assert row["benefit"] == pytest.approx(100 / 90, rel=1e-6)


def test_what_a_summary_does_not_hold_is_refused_by_name(written: Callable[..., Path]) -> None:
    text = PRINTED.partition("      API calls")[0]
    (row,), _ = summary_rows(written(text), {"data": 10.0}, None)
    assert row["control_seconds"] is None and row["data_seconds"] == pytest.approx(0.007)
    for name, said in (
        ("control", "its host calls were not printed"),
        ("memset", "its host calls were not printed"),
        ("sense", ""),
    ):
        caught = refused("A401", summary_rows, written(text), {name: 10.0}, None)
        assert name in caught.what and said in caught.found
    for total in ("0 s", "-1 s"):
        refused("A400", summary_rows, written(PRINTED), TEN, total)
    refused("A039", summary_rows, written(PRINTED), {"data": 0.0}, None)


def test_the_verb(
    written: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = written(PRINTED.replace("scale(float*, int)", "\x1b[31mred\x1b[0m"), "run.csv")
    code, out, _ = ran(
        capsys, monkeypatch, "model", "additive", path, "--lambda", "data=10,control=10"
    )
    assert (
        code == 0
        and "run gets at most" in out
        and "3.0" in out
        and "--total" in out
        and "\x1b" not in out
    )
    code, out, _ = ran(
        capsys,
        monkeypatch,
        "model",
        "additive",
        path,
        "--lambda",
        "data=10",
        "--total",
        "100 ms",
        "--format",
        "json",
    )
    told: dict[str, Any] = json.loads(out)
    assert (
        code == 0
        and told["schema_version"] == 2
        and told["rows"][0]["benefit"] == pytest.approx(100 / (100 - 11.7), rel=1e-6)
    )
    code, out, _ = ran(
        capsys, monkeypatch, "model", "additive", path, "--lambda", "data=10", "--format", "csv"
    )
    assert code == 0 and out.count("\n") == 2
    table = written(
        "name, gpu [s], control [s], data [s], cpu [s], mpi [s]\na, 1, 1, 1, 1, 1\n", "table.csv"
    )
    code, _, err = ran(
        capsys, monkeypatch, "model", "additive", table, "--lambda", "data=10", "--total", "5 s"
    )
    assert code == 2 and "A400" in err
    code, _, err = ran(
        capsys,
        monkeypatch,
        "model",
        "additive",
        path,
        "--lambda",
        "data=10",
        "--source",
        "h100-pcie5",
    )
    assert code == 2 and "A039" in err


# --- real files -----------------------------------------------------------------------------------


def test_real_summaries(shared: Path) -> None:
    """Times and shares of every line of seven files agree, and what their owner wrote of one of
    them.
    """
    folder = shared / "traces" / "nvprof" / "aws_t4_softmax_text"
    found = {p.name: read_summary(p) for p in sorted(folder.glob("*.txt"))}
    assert len(found) == 7 and not any(s.findings for s in found.values())
    rows = by_name(found["profile_softmax_1stream_sz-3e7_thd-512_blckeq_v2.txt"])
    kernels = (
        "row_red_max(float const *, int const &)",
        "exponent(float*, float const *)",
        "normalize(float*, int const &)",
    )
    assert [rows[k].seconds for k in kernels] == pytest.approx(
        [39.873e-3, 11.903e-3, 7.9593e-3], abs=0
    )
    for name, count in (("Host To Device", 3159), ("Device To Host", 1542)):
        assert rows[name].calls == count and rows[name].size_bytes == 256.0781 * (1 << 20)
    for path in folder.glob("*.txt"):
        lines = path.read_text().splitlines()
        (process,) = found[path.name].processes
        assert len(process.rows) == sum(
            "%" in line and "Time(%)" not in line for line in lines
        ) + sum(
            line.endswith(("Host To Device", "Device To Host", "Gpu page fault groups"))
            for line in lines
        )
        assert nvprof.sniff(path.read_bytes()[:512], path)
        refused("P043", nvprof.read, path)
        (row,), _ = summary_rows(path, TEN, None)
        assert 1 < row["benefit_high"] < 10
