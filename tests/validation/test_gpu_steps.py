"""The steps on a GPU machine without one: jobs run, fail, hang and are resumed; results become
predictions; damage is told.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
GPU = ROOT / "validation" / "gpu"
sys.path.insert(0, str(GPU))

import builder  # type: ignore[import-not-found]  # noqa: E402
import predict  # type: ignore[import-not-found]  # noqa: E402
import steps  # type: ignore[import-not-found]  # noqa: E402

from turnbuckle.profile.kernels import kind_by_name  # noqa: E402

_HEAD = (
    "kind,start,end,corr,corr2,tid,dev,ctx,stream,name,bytes,what,src,dst,blocks,threads,regs,smem,event,evsync,graph,node,queued,submitted,"
    "ret,address,domain"
)
COLUMNS = _HEAD.split(",")
ITERATIONS, CALLS, WARMUP = 40, 3, 2


def record(kind: str, **values: int) -> str:
    return ",".join([kind, *(str(values.get(column, "")) for column in COLUMNS[1:])])


def recording(kernel_ns: int, copy_ns: int) -> tuple[str, float]:
    """Turns of a blocking copy, a launch and a wait, with marks around all but the first two; and
    the time of one turn [ns].
    """
    rows, now, number, begin = [], 10_000_000, 0, 0
    for turn in range(ITERATIONS + WARMUP):
        begin = now - 50 if turn == WARMUP else begin
        number += 1
        at = {"corr": number, "dev": 0, "ctx": 1, "stream": 7}
        rows.append(
            record(
                "C",
                start=now + 2000,
                end=now + 2000 + copy_ns,
                bytes=1 << 20,
                what=1,
                src=2,
                dst=3,
                **at,
            )
        )
        rows.append(
            record("A", start=now, end=now + 2500 + copy_ns, corr=number, tid=11, name=0, ret=0)
        )
        now += 3200 + copy_ns
        number += 1
        at["corr"] = number
        rows.append(
            record(
                "K",
                start=now + 5000,
                end=now + 5000 + kernel_ns,
                name=3,
                blocks=64,
                threads=256,
                regs=32,
                smem=0,
                **at,
            )
        )
        rows.append(record("A", start=now, end=now + 4000, corr=number, tid=11, name=1, ret=0))
        done = now + 5000 + kernel_ns + 1500
        number += 1
        rows.append(record("Y", start=now + 4700, end=done, corr=number, ctx=1, stream=7, what=3))
        rows.append(record("A", start=now + 4700, end=done, corr=number, tid=11, name=2, ret=0))
        now = done + 700
    names = ("cudaMemcpy_v3020", "cudaLaunchKernel_v7000", "cudaDeviceSynchronize_v3020", "work")
    facts = [
        "#turnbuckle-trace 1",
        "#timebase monotonic",
        "#process 77",
        "#clock 9000000 0 1700000000000000000 50",
    ]
    facts += [f"#name {k} {name}" for k, name in enumerate(names)]
    tail = [
        f"#mark {begin} loop_begin",
        f"#mark {now} loop_end",
        f"#rows {len(rows)}",
        "#dropped 0",
        "#end",
    ]
    return "\n".join([*facts, _HEAD, *rows, *tail]) + "\n", (now - begin) / ITERATIONS


def loop(per_iteration: float, slack_ns: int = -1) -> str:
    told = {
        "program": "cg",
        "iters": ITERATIONS,
        "wall_ns": per_iteration * ITERATIONS,
        "per_iter_ns": per_iteration,
        "slack_ns": slack_ns,
    }
    return json.dumps(told)


def results(folder: Path, kernel_ns: int = 50_000, copy_ns: int = 40_000) -> Path:
    """Results of a machine whose serial program feels every delay of its three calls in full, but
    for the launch's.
    """
    folder.mkdir(parents=True)
    text, turn = recording(kernel_ns, copy_ns)
    bare = 0.95 * turn
    archive(
        folder / "programs.tar.gz",
        {
            "programs/cg.plain.jsonl": "\n".join(
                ["{broken", *(loop(bare + k) for k in (-9, 0, 9))]
            ),
            "programs/cg.full.jsonl": loop(turn),
            "programs/cg.full.trace.csv": text,
        },
    )
    sweep = [loop(bare + CALLS * s, s) for s in (0, 1000, 10_000) for _ in range(3)]
    archive(folder / "slack.tar.gz", {"slack/cg.after.jsonl": "\n".join(sweep)})
    return folder


def archive(path: Path, files: dict[str, str]) -> None:
    with tarfile.open(path, "w:gz") as out:
        for name, text in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(text.encode())
            out.addfile(about, io.BytesIO(text.encode()))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that says it has a GPU, on which one program can be built: a shell script."""
    monkeypatch.setattr(steps, "machine", lambda: {"gpu": "stand-in"})


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


# --- steps ----------------------------------------------------------------------------------------


def test_every_step_lists_its_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert steps.main(["--dry-run"]) == 0
    listed = capsys.readouterr().out.splitlines()
    names = [line.partition(" |")[0] for line in listed]
    assert len(set(names)) == len(names) > 150
    programs = {n.partition(": ")[2].partition(".")[0] for n in names if n.startswith("programs: ")}
    assert {
        "dgemm_tiled",
        "vecadd_pinned",
        "vecadd_pageable",
        "jacobi_check1",
        "pipeline_overlap",
        "smallk_stream",
        "smallk_graph",
        "cg",
    } <= programs
    assert any(
        "0,1000,10000,100000,1000000,10000000" in line
        for line in listed
        if line.startswith("slack: ")
    )
    assert not any("managed" in n for n in names)
    steps.main(["--dry-run", "--managed", "programs"])
    assert capsys.readouterr().out.splitlines()[-1].startswith("programs: managed")


def test_kernels_of_hpc_classes_are_jobs_of_their_own_and_first_touch_only_where_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert steps.main(["--dry-run", "kernels"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert {line.split()[4] for line in listed} == {"stencil", "spmv", "gemm", "reduction", "sort"}
    assert {word for line in listed for word in line.split() if word.startswith("precision")} == {
        f"precision=fp{bits}" for bits in (64, 32, 16)
    }
    steps.main(["--dry-run", "--managed", "kernels"])
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[-2:]] == [
        "managed_touch_host",
        "managed_touch_device",
    ]


def test_a_kernel_says_the_class_that_its_name_tells() -> None:
    """What is measured of a class must be what a recording of that kernel would be priced by."""
    text = (GPU / "kernels.cu").read_text(encoding="utf-8")
    stated = re.findall(r'Shape s = \{"(\w+)", "([a-z -]+)", "(\w+)"', text)
    stated += re.findall(r'multiplied\(a, "(\w+)", "(\w+)"', text)
    assert len(stated) == 7
    for name, *about in stated:
        kind = kind_by_name(name)
        assert f"__global__ void {name}(" in text
        assert about == (
            [kind.name, kind.precision or "int32"] if len(about) == 2 else [kind.precision]
        ), name


def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name, program in (("python3", sys.executable), ("dirname", shutil.which("dirname"))):
        (tmp_path / "bin" / name).symlink_to(str(program))
    # whoever runs this may have a GPU, and the tool that tells of it
    command, alone = (
        [GPU / "run", "--out", tmp_path / "out", "--scratch", tmp_path / "work"],
        {**os.environ, "PATH": str(tmp_path / "bin")},
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
    assert done.returncode == 3 and "error[V101]" in done.stderr and not (tmp_path / "out").exists()


def test_jobs_that_fail_hang_or_leave_nothing_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "SHORTEST", 0.3)
    soon = time.time() + 600
    good, bad, slow = (
        script(tmp_path, n, t)
        for n, t in (
            ("good", "echo fine"),
            ("bad", "echo /a/b/c broke >&2; exit 4"),
            ("slow", "sleep 60"),
        )
    )
    assert steps.run_job(steps.Job("good", (str(good),)), tmp_path, soon)["status"] == "ok"
    told = steps.run_job(steps.Job("bad", (str(bad),)), tmp_path, soon)
    assert (told["status"], told["rc"], told["tail"]) == ("failed", 4, "c broke")
    assert (
        steps.run_job(steps.Job("slow", (str(slow),), limit=0.0), tmp_path, time.time() - 30)[
            "status"
        ]
        == "timeout"
    )
    assert (
        steps.run_job(steps.Job("none", (str(good),), keep=(tmp_path / "x",)), tmp_path, soon)[
            "status"
        ]
        == "no_file"
    )
    assert (
        steps.run_job(steps.Job("gone", (str(tmp_path / "nowhere"),)), tmp_path, soon)["status"]
        == "failed"
    )


def test_a_step_that_was_cut_off_goes_on_where_it_stopped(
    tmp_path: Path, machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = tmp_path / "count"
    program = script(tmp_path, "microbench", f'echo "$1" >> {counter}; echo "{{}}"')
    monkeypatch.setattr(
        builder, "build", lambda folder, fresh=False: {"microbench": str(program), "cublas": "no"}
    )
    words = [
        "calibrate",
        "--out",
        str(tmp_path / "out"),
        "--scratch",
        str(tmp_path / "work"),
        "--only",
        "c",
    ]
    assert steps.main([*words, "--budget", "0"]) == 1
    cut = json.loads((tmp_path / "out" / "calibrate.summary.json").read_text())
    assert cut["skipped"] and not cut["finished"] and not counter.exists()
    assert steps.main([*words, "--budget", "600"]) == 0
    first = counter.read_text().split()
    assert {"copy", "concurrent"} <= set(first)
    assert steps.main([*words, "--budget", "600"]) == 0 and counter.read_text().split() == first
    done = json.loads((tmp_path / "out" / "calibrate.summary.json").read_text())
    assert (
        done["finished"]
        and done["archives"] == ["calibrate.tar.gz"]
        and str(tmp_path) not in json.dumps(done)
    )
    assert steps.main([*words, "--budget", "600", "--fresh"]) == 0 and len(
        counter.read_text().split()
    ) == 2 * len(first)


def test_steps_that_need_what_was_not_built_say_so(
    tmp_path: Path, machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "build", lambda folder, fresh=False: {"cublas": "no"})
    assert (
        steps.main(["slack", "--out", str(tmp_path / "out"), "--scratch", str(tmp_path / "work")])
        == 1
    )
    told = json.loads((tmp_path / "out" / "slack.summary.json").read_text())
    assert (
        told["missing"] == ["programs was not built", "recorder was not built"]
        and told["jobs"] == []
    )


def test_large_results_are_packed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "PART", 20_000)
    work, out = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    out.mkdir()
    for name, size in (
        ("a.jsonl", 100),
        ("b.trace.csv", 9000),
        ("c.trace.csv", 9000),
        ("d.trace.csv", 90_000),
    ):
        (work / name).write_bytes(random.Random(size).randbytes(size))
    written, left = steps.pack("programs", work, out)
    assert written == ["programs.tar.gz", "programs-2.tar.gz"] and left == ["d.trace.csv"]
    assert steps.pack("programs", work, out, 1) == (
        ["programs.tar.gz"],
        ["c.trace.csv", "d.trace.csv"],
    )


@pytest.mark.parametrize(
    ("asked", "files"),
    [(("slack",), 5), (("programs", "slack"), 8), (("build", "look", "programs", "slack"), 8)],
)
def test_a_call_leaves_few_files(
    tmp_path: Path,
    machine: None,
    monkeypatch: pytest.MonkeyPatch,
    asked: tuple[str, ...],
    files: int,
) -> None:
    """However much a step brings, and however many steps there are: a machine may give back only a
    few files.
    """
    monkeypatch.setattr(steps, "PART", 3000)
    monkeypatch.setattr(builder, "build", lambda folder, fresh=False: {"cublas": "no"})
    for step in asked:
        (tmp_path / "work" / step).mkdir(parents=True)
        for k in range(9):
            (tmp_path / "work" / step / f"{k}.trace.csv").write_bytes(
                random.Random(k).randbytes(500)
            )
    steps.main([*asked, "--out", str(tmp_path / "out"), "--scratch", str(tmp_path / "work")])
    left = list((tmp_path / "out").iterdir())
    assert len(left) <= files <= steps.FILES and all(
        path.is_file() and path.stat().st_size < 16 << 20 for path in left
    )
    assert {path.name for path in left} >= {f"{step}.summary.json" for step in asked} | {
        f"{step}.tar.gz" for step in asked
    }
    summaries = [
        json.loads((tmp_path / "out" / f"{step}.summary.json").read_text()) for step in asked
    ]
    assert all(summary["left_out"] for summary in summaries), "what had no room is told"


def test_every_step_may_have_a_budget_of_its_own(
    tmp_path: Path, machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, float] = {}

    def note(step: str, words: Any, budget: float, out: Path, parts: int) -> bool:
        given[step] = budget
        return True

    monkeypatch.setattr(steps, "run_step", note)
    where = ["--out", str(tmp_path), "--scratch", str(tmp_path)]
    assert steps.main(["programs:190", "slack", "--budget", "310", *where]) == 0 and given == {
        "programs": 190,
        "slack": 310,
    }
    for wrong in ("programs:soon", "programs:", "pro:5"):
        with pytest.raises(SystemExit):
            steps.main([wrong, *where])


def test_the_first_look_is_shown_at_once(
    tmp_path: Path,
    machine: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It runs with nothing but Python, and its verdicts are the end of what is printed."""
    monkeypatch.setattr(builder, "build", lambda folder, fresh=False: built)
    built = {"recorder": str(script(tmp_path, "recorder", "")), "cublas": "no"}
    (tmp_path / "work" / "built").mkdir(parents=True)
    (tmp_path / "work" / "built" / "built.json").write_text(json.dumps(built), encoding="utf-8")
    words = ["look", "--out", str(tmp_path / "out"), "--scratch", str(tmp_path / "work")]
    steps.main(words)
    shown = capsys.readouterr().out
    assert "BAD  microbench built" in shown and "BAD  torch: runs" in shown
    with tarfile.open(tmp_path / "out" / "look.tar.gz") as packed:
        assert {"look/look.json", "look/look.txt"} <= set(packed.getnames())


def test_a_device_is_named_by_the_driver_where_nvidia_smi_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "said", lambda *command: "")
    monkeypatch.setattr(
        builder, "device", lambda: {"name": "NVIDIA H100", "capability": "9.0", "driver": "13000"}
    )
    assert (
        steps.machine()["gpu"] == "NVIDIA H100, CUDA driver 13000"
        and builder._architecture() == "sm_90"
    )
    monkeypatch.setattr(builder, "device", dict)
    assert "gpu" not in steps.machine() and builder._architecture() == "sm_90"


def test_a_driver_that_the_loader_does_not_find_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libcuda.so.1").touch()
    monkeypatch.setattr(builder, "_DRIVERS", (str(tmp_path / "none"), str(tmp_path)))

    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(builder.ctypes, "CDLL", missing)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/mine")
    assert builder.driver_library() == str(tmp_path / "libcuda.so.1")
    assert builder.environment() == {"LD_LIBRARY_PATH": f"{tmp_path}:/mine"}
    monkeypatch.setattr(builder, "_DRIVERS", ())
    assert builder.driver_library() == "" and builder.environment() == {}


def test_the_recorder_s_tools_are_found_without_the_package_s_dependencies() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.modules['polars'] = None; import "
        "builder; chain = builder.toolchain(); "
        "assert chain.FOLDERS and chain.native().is_dir() and 'turnbuckle' not in sys.modules"
    )
    subprocess.run([sys.executable, "-S", "-c", code, str(GPU)], check=True)


# --- predictions ----------------------------------------------------------------------------------


def predicted(*folders: Path, machines: tuple[str, ...] = ("h100-sxm5", "h200-sxm")) -> Any:
    scratch = folders[0].parent / "scratch"
    every = [
        predict.read(f, scratch / str(k), m, m)
        for k, (f, m) in enumerate(zip(folders, machines, strict=False))
    ]
    return predict.predicted(every)


def test_delays_are_predicted_from_the_recording_without_delay(tmp_path: Path) -> None:
    found = predicted(results(tmp_path / "a"))
    rows = {r.quantity: r for r in found.rows}
    assert list(rows) == ["an iteration, 1 us a call", "an iteration, 10 us a call"], (
        "no delay is no prediction"
    )
    # a launch hides behind its kernel as long as the wait is longer: copy and wait are felt
    for row, delay in zip(found.rows, (1e-6, 10e-6), strict=True):
        base = row.measured - CALLS * delay
        assert 2 * delay - 1e-9 <= row.predicted - base <= CALLS * delay + 1e-9


def test_each_machine_is_predicted_from_the_other(tmp_path: Path) -> None:
    found = predicted(results(tmp_path / "a"), results(tmp_path / "b", copy_ns=20_000))
    runs = [r for r in found.rows if r.kind == "run time"]
    assert [r.case for r in runs] == ["h100-sxm5_to_h200-sxm_cg", "h200-sxm_to_h100-sxm5_cg"]
    assert all(r.low <= r.predicted <= r.high for r in runs)
    assert {r.kind for r in found.rows} == {"run time", "slack", "launches", "transfers"}, (
        "the fixed part of a copy may be assumed"
    )
    assert not found.not_run


def test_only_the_last_loop_of_a_recording_counts() -> None:
    text, _ = recording(50_000, 40_000)
    cut = predict.loop_of(text)
    kinds = [line[0] for line in cut.splitlines() if line[:2] in ("A,", "K,", "C,", "Y,")]
    assert {k: kinds.count(k) for k in "AKCY"} == {
        "A": 3 * ITERATIONS,
        "K": ITERATIONS,
        "C": ITERATIONS,
        "Y": ITERATIONS,
    }
    assert f"#rows {len(kinds)}" in cut and cut.endswith("#end\n")
    assert predict.loop_of(text.replace("loop_begin", "other")) == ""


def test_tables_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        predict.main(
            [str(results(tmp_path / "a")), "--machine", "h100-sxm5", "-o", str(tmp_path / "out")]
        )
        == 0
    )
    assert "run time with every boundary call delayed" in capsys.readouterr().out
    told = json.loads((tmp_path / "out" / "predicted.json").read_text())
    assert len(told["rows"]) == 2 and told["not_validated"] == []
    assert (tmp_path / "out" / "predicted.csv").read_text().count("\n") == 3


@pytest.mark.parametrize(
    "files",
    [
        {"programs/../../evil": "x"},
        {"/etc/passwd": "x"},
        {
            "programs/cg.full.trace.csv": "#mark 5 loop_begin\n#mark 9 loop_end\nkind,start,end\nA,x,1\n"
        },
    ],
)
def test_archives_that_no_step_writes_are_refused(tmp_path: Path, files: dict[str, str]) -> None:
    archive(tmp_path / "programs.tar.gz", files)
    with pytest.raises(SystemExit) as told:
        predict.read(tmp_path, tmp_path / "scratch", "h100-sxm5", "a")
    assert "V104" in str(told.value) and not (tmp_path / "evil").exists()


def test_damaged_and_missing_results_are_told(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="V103"):
        predict.read(tmp_path, tmp_path / "scratch", "h100-sxm5", "a")
    folder = results(tmp_path / "a")
    raw = (folder / "programs.tar.gz").read_bytes()
    (folder / "programs.tar.gz").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(SystemExit, match="V104"):
        predict.read(folder, tmp_path / "scratch", "h100-sxm5", "a")
