"""The measuring program against a driver whose costs are planted: what it measures, and what is
made of it, are the planted numbers.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import Ran

from turnbuckle.foundation.errors import CannotAnswer, NativeError, TurnbuckleError, UsageError
from turnbuckle.machine import load
from turnbuckle.machine.measured.logs import read_measured
from turnbuckle.papers.row_slack.surface import read_surface
from turnbuckle.questions.calibrate.calibration import Calibration, Origin
from turnbuckle.questions.calibrate.question import calibrate, read_origin
from turnbuckle.recorder import measuring

HERE = Path(__file__).parent

#: Two machines unlike each other: times [ns], rates [bytes a us], sizes [bytes].
NAMES = (
    "LAUNCH_CALL",
    "LAUNCH_LATENCY",
    "SYNC_RETURN",
    "SYNC_IDLE",
    "FLIGHT",
    "KERNEL",
    "KERNEL_GAP",
    "H2D_LATENCY",
    "D2H_LATENCY",
)
RATES = (
    "COPY_GAP",
    "H2D_RATE",
    "D2H_RATE",
    "PAGEABLE_RATE",
    "PAGEABLE_THRESHOLD",
    "CONCURRENCY",
    "ALLOC",
    "MEMORY_RATE",
    "FP64",
    "FP32",
)
TIMES_NEAR, RATES_NEAR = (
    (2100, 3300, 1500, 900, 450, 700, 400, 1300, 1600),
    (350, 24000, 26000, 9000, 65536, 32, 80000, 1400000, 9000, 18000),
)
TIMES_FAR, RATES_FAR = (
    (5200, 11000, 4400, 2500, 2100, 1500, 900, 7300, 5600),
    (1250, 9500, 7700, 3100, 32768, 16, 230000, 760000, 3500, 7100),
)
NEAR = dict(zip((*NAMES, *RATES), (*TIMES_NEAR, *RATES_NEAR), strict=True)) | {"BOTH_SHARE": 0.8}
FAR = dict(zip((*NAMES, *RATES), (*TIMES_FAR, *RATES_FAR), strict=True)) | {"BOTH_SHARE": 0.6}

#: What compiles the program; `standin` puts a copy of the compiled one in its place.
build = measuring.build


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the stand-in for libcuda.so.1."""
    folder = tmp_path_factory.mktemp("driver")
    words = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*words, HERE / "standin_libcuda.c", "-o", folder / "libcuda.so.1"], check=True)
    return folder


@pytest.fixture
def standin(program: Path, driver: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Programs that are started find the stand-in; it may be planted with more.  The measuring
    program is compiled once for all tests.
    """
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    monkeypatch.setattr(
        measuring, "build", lambda folder: shutil.copy(program, folder / program.name)
    )
    return monkeypatch


def plant(standin: pytest.MonkeyPatch, numbers: dict[str, float]) -> None:
    for name, value in numbers.items():
        standin.setenv(f"TB_STANDIN_{name}", f"{value:.9g}")


def printed(program: Path, driver: Path, *words: str) -> str:
    """Return what the program prints on the stand-in."""
    env = os.environ | {"LD_LIBRARY_PATH": str(driver)}
    return subprocess.run(
        [program, *words], env=env, capture_output=True, text=True, check=True
    ).stdout


def measured(folder: Path, **options: object) -> Calibration:
    place = folder / "raw.jsonl"
    assert measuring.measure(place, quick=True, **options) == []  # type: ignore[arg-type]
    return calibrate(
        [
            (
                Origin("raw.jsonl", "0" * 64, "2026-01-01", "microbench", "", ""),
                read_measured(place, with_rates=True),
            )
        ]
    )


@pytest.mark.parametrize("machine", [NEAR, FAR], ids=["near", "far"])
def test_the_planted_machine_is_found_again(
    machine: dict[str, float], standin: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(standin, machine)
    # one by all sections, of which that of the host, which is the one that runs the test, is cut
    # short; the other without it
    standin.setitem(measuring.SECTIONS, "host", 1e-6)
    found = measured(
        tmp_path,
        only=None
        if machine is NEAR
        else [s for s in measuring.SECTIONS if s not in ("host", "managed")],
    )
    ns, rate = 1e-9, 1e6
    truth = {
        "bare.launch": (machine["LAUNCH_CALL"] + 20) * ns,
        "launch.latency": machine["LAUNCH_LATENCY"] * ns,
        "bare.sync": (machine["SYNC_IDLE"] + 20) * ns,
        "sync.return": machine["SYNC_RETURN"] * ns,
        "alloc.call": machine["ALLOC"] * ns,
        "link.h2d.latency": machine["H2D_LATENCY"] * ns,
        "link.d2h.latency": machine["D2H_LATENCY"] * ns,
        "link.h2d.bandwidth": machine["H2D_RATE"] * rate,
        "link.d2h.bandwidth": machine["D2H_RATE"] * rate,
        "link.round_trip": 2 * machine["FLIGHT"] * ns,
        "gpu.fp64": machine["FP64"] * 1e9,
        "gpu.fp32": machine["FP32"] * 1e9,
        "pageable.threshold.h2d": machine["PAGEABLE_THRESHOLD"],
        "copy.gap.h2d": (machine["H2D_LATENCY"] + machine["COPY_GAP"]) * ns,
        "copy.gap.d2h": (machine["D2H_LATENCY"] + machine["COPY_GAP"]) * ns,
        "launch.device_period": (machine["KERNEL"] + machine["KERNEL_GAP"]) * ns,
        "kernel.concurrency": machine["CONCURRENCY"],
    }
    by_name = {e.name: e for e in (*found.others, *found.parameters)}
    outside = {}
    for name, planted in truth.items():
        low, high = by_name[name].interval
        if not low * 0.999 <= planted <= high * 1.001:
            outside[name] = (planted, low, high)
    assert not outside
    peak = 2e3 * 1215000 * 5120 / 8
    assert by_name["gpu.memory_efficiency"].value == pytest.approx(
        machine["MEMORY_RATE"] * rate / peak, rel=0.02
    )
    pageable = by_name["link.pageable.efficiency"]
    shares = [machine["PAGEABLE_RATE"] / machine[way] for way in ("H2D_RATE", "D2H_RATE")]
    assert pageable.interval[0] <= sum(shares) / 2 <= pageable.interval[1]
    assert by_name["contention.h2d"].value == pytest.approx(1 / 0.9, rel=0.03)


def test_a_planted_number_moves_its_parameter_alone(
    standin: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(standin, NEAR)
    before = {e.name: e.value for e in measured(tmp_path, only=["launch", "gap"]).parameters}
    plant(standin, {"H2D_LATENCY": 2600})
    after = {e.name: e.value for e in measured(tmp_path, only=["launch", "gap"]).parameters}
    assert after["link.h2d.latency"] == pytest.approx(2 * before["link.h2d.latency"], rel=0.03)
    assert after["bare.launch"] == pytest.approx(before["bare.launch"], rel=0.01)
    assert after["link.d2h.latency"] == pytest.approx(before["link.d2h.latency"], rel=0.03)


def test_copies_between_devices_where_there_are_two(
    standin: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert measured(tmp_path, only=["peer", "event"]).value("link.p2p.latency") is None
    plant(standin, {"DEVICES": 2, "PEER_LATENCY": 3700, "PEER_RATE": 182000})
    by_name = {e.name: e for e in measured(tmp_path, only=["peer", "event"]).parameters}
    for name, planted in (("link.p2p.latency", 3.7e-6), ("link.p2p.bandwidth", 182e9)):
        low, high = by_name[name].interval
        assert low <= planted <= high, name


def test_what_events_cost_the_device_is_no_latency_of_copies(
    standin: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(standin, NEAR | {"EVENT_DEVICE": 1100})
    by_name = {e.name: e for e in measured(tmp_path, only=["gap"]).parameters}
    for name, planted in (("link.h2d.latency", 1.3e-6), ("link.d2h.latency", 1.6e-6)):
        low, high = by_name[name].interval
        assert low <= planted <= high, (name, planted, low, high)


def test_slow_launches_do_not_hide_kernels_side_by_side(
    standin: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(standin, NEAR | {"CONCURRENCY": 128, "LAUNCH_CALL": 4200})
    assert measured(tmp_path, only=["concurrent"]).value("kernel.concurrency") == 128


def test_sections_keep_to_a_share_of_a_small_device(
    standin: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(standin, {"FREE": 96 << 20, "DEVICES": 2})
    wanted = ["copy", "gap", "contention", "peer", "slack", "threshold", "concurrent"]
    assert measuring.measure(tmp_path / "raw.jsonl", quick=True, only=wanted) == []


def test_cores_are_counted_not_their_threads(program: Path, driver: Path) -> None:
    siblings = [
        p.read_text()
        for p in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list")
    ]
    out = printed(program, driver, "host", "quick=1", "seconds=0.000001")
    cores = next(r for r in json.loads(out)["rows"] if r.get("case") == "cores")
    assert cores["usable_processors"] == len(os.sched_getaffinity(0))
    assert cores["count"] == (len(set(siblings)) if siblings else cores["usable_processors"])


def test_a_step_of_the_loop_is_a_parameter_of_the_host(program: Path, tmp_path: Path) -> None:
    """The loop runs on this host without any driver; the time of a step becomes `host.loop`."""
    out = printed(program, tmp_path, "host", "quick=1", "seconds=0.000001")
    row = next(r for r in json.loads(out)["rows"] if r.get("case") == "interpreter")
    assert row["step"]["n"] >= 8 and 0.1 < row["step"]["min"] <= row["step"]["median"] < 1000, (
        "nanoseconds a step"
    )
    (tmp_path / "raw.jsonl").write_text(out)
    answer = calibrate([read_origin(tmp_path / "raw.jsonl", None, False)], None)
    assert answer.value("host.loop") == pytest.approx(row["step"]["median"] * 1e-9)


@pytest.mark.parametrize(
    "word", ["seconds=1e300", "seconds=nan", "seconds=-1", "seconds=soon", "quick=2", "quick="]
)
def test_numbers_that_are_none_are_refused(program: Path, word: str) -> None:
    done = subprocess.run([program, "host", word], capture_output=True, text=True, check=False)
    name = word.partition("=")[0]
    assert (done.returncode, done.stdout) == (1, "") and done.stderr.startswith(
        f"{name} is not a number from 0 to 1"
    )


def test_unified_memory_is_measured_where_it_is_asked_for(
    standin: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(standin, {"MIGRATION_RATE": 8800})
    assert measured(tmp_path, only=["launch"]).value("migration.h2d") is None
    assert measured(tmp_path, only=["managed"]).value("migration.h2d") == pytest.approx(
        8.8e9, rel=0.05
    )


def test_the_kits_words_are_read_the_same(program: Path, driver: Path, tmp_path: Path) -> None:
    """The kit writes the key `call` twice, the CUDA runtime's names, and its objects over many
    lines.
    """
    lines = [
        printed(program, driver, section, "quick=1")
        for section in ("copy", "launch", "sync", "alloc", "threshold")
    ]
    own, kit = tmp_path / "own.jsonl", tmp_path / "kit.jsonl"
    own.write_text("".join(lines))
    text = "".join(
        json.dumps(json.loads(line), indent=1).replace('"call_time"', '"call"') for line in lines
    )
    kit.write_text(
        text.replace("cuCtxSynchronize", "cudaDeviceSynchronize")
        .replace("cuStream", "cudaStream")
        .replace("cuMemAlloc", "cudaMalloc")
    )
    one, other = (read_measured(p, with_rates=True) for p in (own, kit))
    assert [(c.name, c.seconds.tolist()) for c in one.curves] == [
        (c.name, c.seconds.tolist()) for c in other.curves
    ]
    assert {q.what: q.value for q in one.quantities} == {q.what: q.value for q in other.quantities}


def test_other_verbs_see_one_curve_a_class(program: Path, driver: Path, tmp_path: Path) -> None:
    """A file of ours where times of copies are wanted: the device's own times, not also those of
    the host.
    """
    own = tmp_path / "own.jsonl"
    own.write_text(
        "".join(printed(program, driver, section, "quick=1") for section in ("copy", "gap"))
    )
    found = read_measured(own)
    classes = [(c.direction, c.memory) for c in found.curves]
    assert (
        len(classes) == len(set(classes)) == 5
        and {c.means for c in found.curves} == {"event"}
        and found.findings
    )


def test_every_section_writes_one_object(program: Path, driver: Path) -> None:
    listed = printed(program, driver, "list")
    assert {line.split()[0] for line in listed.splitlines()} == set(measuring.SECTIONS)
    for section in measuring.SECTIONS:
        out = printed(program, driver, section, "quick=1", "seconds=0.000001")
        document = json.loads(out)
        assert document["section"] == section and out.count("\n") == 1
        assert any("skipped" in r for r in document["rows"]), section
    assert subprocess.run([program, "nothing"], capture_output=True).returncode == 1


def code(place: Path, **options: object) -> TurnbuckleError:
    with pytest.raises(TurnbuckleError) as caught:
        measuring.measure(place, quick=True, **options)  # type: ignore[arg-type]
    assert caught.value.fix
    return caught.value


def test_no_driver_and_no_device_are_told_apart(
    standin: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "raw.jsonl"
    plant(standin, {"DEVICES": 0})
    error = code(place)
    assert isinstance(error, CannotAnswer) and error.code == "A186"
    plant(standin, {"DEVICES": 1, "INIT": 100})
    assert code(place).code == "A186"
    # what lies here is no library, whatever driver this machine has
    (tmp_path / "libcuda.so.1").write_text("no library")
    standin.setenv("LD_LIBRARY_PATH", str(tmp_path))
    error = code(place)
    assert isinstance(error, CannotAnswer) and error.code == "A185" and error.exit_code == 3
    assert not place.exists()


def test_an_old_driver_is_told(standin: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = (
        (HERE / "standin_libcuda.c")
        .read_text()
        .replace("int cuEventElapsedTime(", "int elapsed_of_old(")
    )
    (tmp_path / "old.c").write_text(source)
    subprocess.run(
        ["cc", "-shared", "-fPIC", str(tmp_path / "old.c"), "-o", str(tmp_path / "libcuda.so.1")],
        check=True,
    )
    standin.setenv("LD_LIBRARY_PATH", str(tmp_path))
    error = code(tmp_path / "raw.jsonl")
    assert error.code == "A187" and "cuEventElapsedTime" in error.found


def test_what_cannot_be_built_is_told(standin: pytest.MonkeyPatch, tmp_path: Path) -> None:
    standin.setattr(measuring, "build", build)
    standin.setenv("CC", "no-such-compiler")
    error = code(tmp_path / "raw.jsonl")
    assert isinstance(error, NativeError) and error.code == "N020"
    standin.setenv("CC", "false")
    assert code(tmp_path / "raw.jsonl").code == "N021"


def test_sections_that_fail_or_hang_do_not_stop_the_others(
    standin: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "raw.jsonl"
    standin.setattr(measuring, "QUICK_SECONDS", 0.2)
    standin.setitem(measuring.SECTIONS, "host", 1e-6)
    plant(standin, {"FAIL": 1})
    error = code(place, only=["launch", "sync"])
    assert error.code == "N022" and "launch" in error.found
    failed = measuring.measure(place, quick=True, only=["launch", "host"])
    assert [f.partition(":")[0] for f in failed] == ["launch"]
    assert json.loads(place.read_text())["section"] == "host"
    plant(standin, {"FAIL": 0, "HANG": 1})
    standin.setattr(measuring, "GRACE", 0.8)
    # where the machine is busy, the next one may take as long
    assert measuring.measure(place, quick=True, only=["sync", "host"])[:1] == [
        "sync: no end within 1.0 s"
    ]


def test_the_program_is_not_run_where_others_may_change_it(
    standin: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    standin.setattr(measuring, "QUICK_SECONDS", 0.2)
    shared = tmp_path / "scratch"
    shared.mkdir()
    shared.chmod(0o770)
    standin.setattr("tempfile.tempdir", str(shared))
    error = code(tmp_path / "raw.jsonl", only=["sync"])
    assert error.code == "N024" and error.where == str(shared) and "TMPDIR" in error.fix
    assert list(shared.iterdir()) == []
    shared.chmod(0o1777)
    assert measuring.measure(tmp_path / "raw.jsonl", quick=True, only=["sync"]) == []


def test_words_and_places_are_checked_first(standin: pytest.MonkeyPatch, tmp_path: Path) -> None:
    error = code(tmp_path / "raw.jsonl", only=["copies"])
    assert isinstance(error, UsageError) and error.code == "A414" and "copy" in error.fix
    assert code(tmp_path / "none" / "raw.jsonl", only=["host"]).code == "N023"


def test_measuring_keeps_its_lines_and_they_read_again(
    turnbuckle: Callable[..., Ran], standin: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran = turnbuckle(
        "calibrate",
        "--run",
        "--quick",
        "--only",
        "launch,gap,slack",
        "-o",
        "here.toml",
        "--surface",
        "surface.csv",
    )
    assert ran.code == 0 and "slack proxy" in ran.out
    here, raw = load(str(tmp_path / "here.toml")), tmp_path / "here.jsonl"
    assert here.value("link.h2d.latency") == pytest.approx(1.3e-6, rel=0.05) and raw.exists()
    again = json.loads(turnbuckle("calibrate", raw, "--format", "json").out)
    assert {p["name"]: p["value"] for p in again["parameters"]} == pytest.approx(
        {n: p.value for n, p in here.parameters.items()}, rel=1e-6
    )
    by_slack = {(p["size"], round(p["slack_s"] * 1e9)): p["seconds"] for p in again["surface"]}
    assert by_slack[512, 10_000_000] - by_slack[512, 1_000_000] == pytest.approx(5 * 9e-3, rel=0.02)
    surface = read_surface(tmp_path / "surface.csv")
    assert surface.threads == (1,) and surface.sizes(1).tolist() == [2.0**20, 2.0**22]
    assert surface.kernel_seconds(1).tolist() == pytest.approx(
        [2 * 512**3 / 18e12, 2 * 1024**3 / 18e12], rel=0.15
    )
    plant(standin, {"FAIL": 1})
    standin.setattr(measuring, "QUICK_SECONDS", 1e-6)
    refused = turnbuckle(
        "calibrate", "--run", "--quick", "--only", "host,launch", "--keep", "none/raw.jsonl"
    )
    assert refused.code == 2 and "error[N023]" in refused.err and "--keep" in refused.err
    ran = turnbuckle(
        "calibrate", "--run", "--quick", "--only", "host,launch", "--keep", "raw.jsonl"
    )
    assert ran.code == 0 and "sections that did not end: launch" in ran.out


def test_a_scheduler_that_ends_it_leaves_nothing_behind(
    program: Path, driver: Path, tmp_path: Path
) -> None:
    """A SIGTERM in the middle of a section that hangs: program and folders go with it."""
    compiler = tmp_path / "cc"
    compiler.write_text(f'#!/bin/sh\nexec cp {program} "$5"\n')
    compiler.chmod(0o755)
    folders = tmp_path / "folders"
    folders.mkdir()
    env = os.environ | {
        "CC": str(compiler),
        "LD_LIBRARY_PATH": str(driver),
        "TMPDIR": str(folders),
        "TB_STANDIN_HANG": "1",
    }
    starts = "import sys; from turnbuckle.cli import main; sys.exit(main())"
    words = [
        sys.executable,
        "-c",
        starts,
        "calibrate",
        "--run",
        "--quick",
        "--only",
        "launch",
        "--keep",
        str(tmp_path / "raw.jsonl"),
    ]
    running = subprocess.Popen(words, env=env, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while not (tmp_path / "raw.jsonl").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert any(folders.iterdir())
    running.terminate()
    assert running.wait(120) == 128 + signal.SIGTERM
    assert not any(folders.iterdir())
