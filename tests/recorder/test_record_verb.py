"""``turnbuckle record`` from its command line to the trace that it leaves, on the machine that the
stand-in plays.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from recorder_bench import Bench, Said, draws

import turnbuckle as tb
from turnbuckle.foundation.errors import CannotAnswer, NativeError
from turnbuckle.machine import driver
from turnbuckle.recorder import toolchain
from turnbuckle.trace.cache import cache
from turnbuckle.trace.readers import parquet
from turnbuckle.trace.trace import Trace

Verb = Callable[..., Said]


def codes(trace: Trace) -> dict[str, int]:
    return {found.code: found.count for found in trace.findings}


def left() -> list[str]:
    """What lies in the folder, hidden files included."""
    return sorted(path.name for path in Path().iterdir())


def test_record_inspect_project(verb: Verb, bench: Bench) -> None:
    done = verb("record", "--library", bench.library, "--", bench.program, "loop", 40)
    assert done.code == 0 and done.out == "" and left() == ["program.turnbuckle"]
    said = done.err.splitlines()
    assert said[0].startswith("recorded   program.turnbuckle: 486 records of 1 process in ")
    assert (
        "324 calls, 40 kernels, 80 copies, 40 waits, 2 allocations" in said[1]
        and "0 records dropped" in said[2]
    )
    assert said[-1] == "next       turnbuckle inspect program.turnbuckle"
    trace = parquet.read(Path("program.turnbuckle"))
    assert trace.kernels.height == 40 and trace.facts["format"] == "recorded" and codes(trace) == {}
    found = json.loads(verb("inspect", "program.turnbuckle", "--format", "json").out)
    assert (
        found["profile"]["kernels"]["count"] == 40
        and found["profile"]["copies"]["h2d"]["bytes"] == 40 * 4096
    )
    assert str(bench.program.parent) not in json.dumps(found)
    projected = verb(
        "project", "program.turnbuckle", "--on", "self", "--source", "gh200", "--format", "json"
    )
    assert projected.code == 0, projected.err


def test_python_records_what_the_command_records(
    verb: Verb, bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tb.record([str(bench.program), "loop", "40"], "far", library=bench.library, slack="10us")
    assert "40 kernels, 80 copies" in run.headline() and left() == ["far"]
    assert "by 10 us each" in capfd.readouterr().err


def test_the_programs_output_arguments_and_exit_code_are_its_own(verb: Verb, bench: Bench) -> None:
    use = ("record", "--library", bench.library)
    printed = verb(*use, "--", bench.program, "print", "--slack", "-o", "--help", "a b")
    assert printed.code == 0 and printed.out == "--slack\n-o\n--help\na b\n"
    debugged = verb(*use, "-o", "d", "--", bench.program, "print", "--debug", "--")
    assert debugged.code == 0 and debugged.out == "--debug\n--\n"
    failed = verb(*use, "-o", "b", "--flush", "50ms", "--", bench.program, "ends", 1, "_exit")
    assert (
        failed.code == 7
        and "the command ended with 7, which is passed on" in failed.err
        and "P191" in failed.err
    )
    assert (
        "cost       not known: the recording has no end" in failed.err
        and "0 records dropped" not in failed.err
    )
    killed = verb(*use, "-o", "c", "--flush", "50ms", "--", bench.program, "ends", 1, "kill")
    assert killed.code == 128 + 9 and codes(parquet.read(Path("c")))["P191"] == 1


def test_a_script_of_several_programs_is_one_trace(verb: Verb, bench: Bench) -> None:
    script = Path("job")
    script.write_text(
        f"#!/bin/sh\n{bench.program} loop 3\n{bench.program} nothing\n"
        f"({bench.program} loop 4; touch over) &\n"
        f"until [ -e over ]; do sleep 0.02; done\n{bench.program} ends 2 _exit\n"
    )
    script.chmod(0o755)
    done = verb("record", "--library", bench.library, "-o", "run", "--flush", "50ms", "--", "./job")
    assert done.code == 7 and "of 3 processes" in done.err, done.err
    assert "not known of 1 of 3 processes: the recording has no end" in done.err
    trace = parquet.read(Path("run"))
    *whole, cut = sorted(trace.kernels.group_by("process").len()["len"])
    assert whole == [3, 4] and 20 <= cut <= 22 and codes(trace)["P191"] == 1, (
        "the last two turns may meet a flush"
    )


def test_the_environment_of_the_program_is_its_own(
    verb: Verb, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What begins like a setting of the recorder and is none stays; a setting that was left in the
    shell does not steer the recorder.
    """
    monkeypatch.setenv("TB_LOGDIR", "runs/7")
    monkeypatch.setenv("TB_SLACK_NS", "5000000")
    script = Path("job")
    script.write_text(f'#!/bin/sh\necho "$TB_LOGDIR [$TB_SLACK_NS]"\n{bench.program} loop 3\n')
    script.chmod(0o755)
    done = verb("record", "--library", bench.library, "-o", "run", "--", "./job")
    assert done.code == 0 and done.out == "runs/7 []\n" and "delayed" not in done.err
    raw = b"".join(path.read_bytes() for path in Path("run").iterdir())
    assert b"runs/7" not in raw and b"TB_LOGDIR" not in raw


def test_delays_are_in_the_trace_and_in_every_answer_from_it(verb: Verb, bench: Bench) -> None:
    use = (
        "record",
        "--library",
        bench.library,
        "-o",
        "far",
        "--slack",
        "10us",
        "--slack-class",
        "launch,copy",
        "--slack-at",
        "before",
    )
    done = verb(*use, "--", bench.program, "loop", 20)
    assert (
        "delayed    60 calls by 10 us each, 600 us in all: not this machine's own run" in done.err
    )
    found = json.loads(verb("inspect", "far", "--format", "json").out)
    (delayed,) = (f for f in found["findings"] if f["code"] == "P193")
    assert (
        delayed["count"] == 60
        and "10,000 ns before calls" in delayed["detail"]
        and "launch 20, copy 40" in delayed["detail"]
    )


def test_random_delays_are_in_the_trace_with_their_seed(verb: Verb, bench: Bench) -> None:
    use = ("record", "--library", bench.library, "--jitter", "1us..9us", "--seed", "5")
    done = verb(*use, "-o", "a", "--slack-class", "launch", "--", bench.program, "loop", 20)
    assert "delayed    20 calls by 1 us to 9 us at random (seed 5), " in done.err
    assert (
        verb(*use, "-o", "b", "--slack", "10us", "--", bench.program, "loop", 20).err.count(
            "by 10 us each and 1 us to 9 us at random"
        )
        == 1
    )
    slack = [parquet.read(Path(name)).facts["slack"] for name in ("a", "b")]
    assert slack[0]["calls launch"] == 20 and slack[0]["jitter_ns"] == sum(
        draws(5, 0, 1000, 9000, 20)
    )
    assert slack[1]["delay_ns"] == 10_000 and slack[1]["jitter_ns"] == sum(
        draws(5, 0, 1000, 9000, 82)
    )


def test_options_reach_the_recorder(verb: Verb, bench: Bench) -> None:
    use = ("record", "--library", bench.library)
    verb(*use, "-o", "whole", "--graphs", "whole", "--", bench.program, "graphs", 4)
    assert parquet.read(Path("whole")).graphs.height == 4
    told = verb(
        *use,
        "-o",
        "managed",
        "--unified-memory",
        "--kinds",
        "api,kernel",
        "--memory",
        "8 MiB",
        "--",
        bench.program,
        "other",
    )
    assert "unified memory was allocated" not in told.err
    managed = parquet.read(Path("managed"))
    assert (
        managed.copies.height == 3
        and managed.page_faults.height == 2
        and "ranges" not in managed.tables
        and managed.api.height == 3
    )
    assert (
        "unified memory was allocated, and no migration is recorded"
        in verb(*use, "--", bench.program, "other").err
    )


def test_ranks_and_processes(verb: Verb, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    verb("record", "--library", bench.library, "--", bench.program, "forked", 5)
    assert parquet.read(Path("program.turnbuckle")).kernels["process"].n_unique() == 2
    monkeypatch.setenv("PMI_RANK", "6")
    verb("record", "--library", bench.library, "--", bench.program, "loop", 2)
    verb("record", "--library", bench.library, "-o", "run%r", "--", bench.program, "loop", 2)
    assert {"program.6.turnbuckle", "run6"} < set(left()) and parquet.read(Path("run6")).facts[
        "rank"
    ] == 6


def test_it_is_built_once_and_kept(
    verb: Verb, bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first = verb("record", "-o", "a", "--", bench.program, "loop", 2)
    second = verb("record", "-o", "b", "--", bench.program, "loop", 2)
    assert (
        first.code == second.code == 0
        and "built      the recorder, against CUPTI" in first.err
        and "built" not in second.err
    )
    (built,) = (tmp_path / "cache").rglob("*.so")
    assert built.parent.parent.parent.name == "turnbuckle" and {
        p.name for p in built.parent.iterdir()
    } == {built.name, "sha256"}


@pytest.fixture
def kept(verb: Verb, bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The recorder in the cache, built where files are open to the group."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = os.umask(0o002)
    try:
        with toolchain.cached(toolchain.choose(driver.present().version), cache.folder()) as (
            _,
            fresh,
        ):
            assert fresh
    finally:
        os.umask(before)
    (built,) = (tmp_path / "cache").rglob("*.so")
    return built


def test_only_its_owner_may_change_the_recorder_that_is_kept(kept: Path, tmp_path: Path) -> None:
    modes = {
        p.relative_to(tmp_path).as_posix(): p.stat().st_mode & 0o777
        for p in (tmp_path / "cache", *(tmp_path / "cache").rglob("*"))
    }
    key = f"cache/turnbuckle/native/{kept.parent.name}"
    assert modes == {
        "cache": 0o700,
        "cache/turnbuckle": 0o700,
        "cache/turnbuckle/native": 0o700,
        key: 0o700,
        f"{key}/{kept.name}": 0o600,
        f"{key}/sha256": 0o600,
    }


def test_the_program_loads_a_private_copy_of_what_was_checked(
    verb: Verb, bench: Bench, kept: Path
) -> None:
    script = Path("job")
    script.write_text(
        '#!/bin/sh\ncp "$CUDA_INJECTION64_PATH" loaded\n'
        f'stat -c %a "$CUDA_INJECTION64_PATH" "${{CUDA_INJECTION64_PATH%/*}}"\n'
        f'echo "$CUDA_INJECTION64_PATH"\necho damaged > {kept}\n{bench.program} loop 2\n'
    )
    script.chmod(0o755)
    content = kept.read_bytes()
    done = verb("record", "-o", "run", "--", "./job")
    *modes, loaded = done.out.split()
    assert (
        done.code == 0
        and modes == ["600", "700"]
        and Path(loaded) != kept
        and Path("loaded").read_bytes() == content
    )
    assert parquet.read(Path("run")).kernels.height == 2, (
        "what happens to the cache does not reach the program"
    )
    assert not Path(loaded).parent.exists()


def _opened_to_the_group(path: Path) -> None:
    path.chmod(0o660)


def _given_away(path: Path) -> None:
    os.chown(path, 54_321, -1)


def _changed(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def _linked(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("other")


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file away")


@pytest.mark.parametrize("name", [toolchain.LIBRARY, "sha256"])
@pytest.mark.parametrize(
    "harm",
    [
        _opened_to_the_group,
        pytest.param(_given_away, marks=as_root),
        _changed,
        _linked,
        Path.unlink,
    ],
)
def test_a_recorder_that_is_not_what_was_built_is_built_anew(
    kept: Path, harm: Callable[[Path], None], name: str
) -> None:
    content = kept.read_bytes()
    harm(kept.with_name(name))
    for anew in (True, False):
        with toolchain.cached(toolchain.choose(driver.present().version), cache.folder()) as (
            copy,
            fresh,
        ):
            assert fresh is anew and copy.read_bytes() == kept.read_bytes() == content


@pytest.mark.parametrize("part", ["cache", "cache/turnbuckle", "cache/turnbuckle/native", "key"])
@pytest.mark.parametrize(
    "harm", ["its group may change it", pytest.param("it belongs to another user", marks=as_root)]
)
def test_a_recorder_is_not_loaded_from_where_others_may_change_it(
    verb: Verb, bench: Bench, kept: Path, tmp_path: Path, part: str, harm: str
) -> None:
    folder = kept.parent if part == "key" else tmp_path / part
    if harm == "its group may change it":
        folder.chmod(0o770)
    else:
        _given_away(folder)
    refused(
        verb("record", "--", "touch", "ran"),
        "N024",
        2,
        str(folder),
        harm,
        "chmod go-w",
        "XDG_CACHE_HOME",
    )


def test_a_recorder_that_others_may_change_is_named_where_it_was_asked_for(
    verb: Verb, bench: Bench
) -> None:
    assert verb("record", "--build", "-o", "kit").code == 0
    use = ("record", "--library", f"kit/{toolchain.LIBRARY}", "--", bench.program, "loop", 2)
    assert "note" not in verb(*use).err
    shutil.rmtree("program.turnbuckle")
    Path("kit").chmod(0o775)
    done = verb(*use)
    assert done.code == 0 and f"{Path('kit').absolute()}: its group may change it" in done.err


def test_a_recorder_to_take_along(
    verb: Verb, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = verb("record", "--build", "-o", "kit")
    assert made.code == 0 and [Path(line).name for line in made.out.split()] == left_in("kit")
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.delenv("CUDA_HOME")
    assert (
        verb(
            "record",
            "--library",
            f"kit/{toolchain.LIBRARY}",
            "-o",
            "a",
            "--",
            bench.program,
            "loop",
            2,
        ).code
        == 0
    )
    needed = subprocess.run(
        ["readelf", "-d", f"kit/{toolchain.LIBRARY}"], capture_output=True, text=True, check=True
    ).stdout
    assert "$ORIGIN" in needed


def left_in(folder: str) -> list[str]:
    return sorted(
        (p.name for p in Path(folder).iterdir()),
        key=lambda name: "cupti.so" in name and not name.startswith("libturnbuckle"),
    )


def refused(done: Said, code: str, exit_code: int, *words: str) -> None:
    """An error with code, cause or fix, and nothing left behind."""
    assert done.code == exit_code and done.err.count(f"error[{code}]") == 1, done.err
    assert "  fix: " in done.err and all(word in done.err for word in words), done.err
    assert left() == []


def test_without_driver_or_device_the_command_is_not_run(
    verb: Verb, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch = ("record", "--library", bench.library, "--", "touch", "ran")
    with monkeypatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", "/nonexistent")
        if verb(*touch).code == 3:  # a machine with a GPU has a driver elsewhere
            refused(verb(*touch), "A180", 3, "no CUDA driver", "--build")
    monkeypatch.setenv("STANDIN_NO_INIT", "100")
    refused(verb(*touch), "A181", 3, "cuInit says 100: no device")
    monkeypatch.delenv("STANDIN_NO_INIT")
    monkeypatch.setenv("STANDIN_DEVICES", "0")
    refused(verb(*touch), "A181", 3, "sees no device")
    anyway = verb("record", "--anyway", *touch[1:])
    assert (
        anyway.code == 3
        and "error[A182]" in anyway.err
        and "all the same" in anyway.err
        and left() == ["ran"]
    )


def test_a_driver_that_hangs_or_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    for ask, says in (
        ("import os; os.abort()", "ended the process"),
        ("import time; time.sleep(9)", "does not return"),
    ):
        monkeypatch.setattr(driver, "_ASK", ask)
        monkeypatch.setattr(driver, "_LIMIT_SECONDS", 0.2)
        with pytest.raises(CannotAnswer, match="A181") as error:
            driver.present()
        assert says in error.value.found or says == "ended the process"


def test_what_is_asked_wrongly(
    verb: Verb, bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use = ("record", "--library", bench.library)
    refused(verb(*use), "N004", 2, "no command")
    refused(verb("record", "--formt", "json", "--", "true"), "N004", 2, "begins with an option")
    refused(verb(*use, "--", "no-such-program"), "N004", 2, "no such program")
    refused(verb(*use, "--", bench.toolkit / "include" / "cupti.h"), "N004", 2, "not executable")
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF nonsense")
    broken.chmod(0o755)
    refused(verb(*use, "--", broken), "N004", 2, "Exec format error")
    refused(verb(*use, "-o", "no/such/folder", "--", "true"), "N007", 2, "no such folder")
    refused(verb("record", "--library", bench.program, "--", "true"), "N006", 2, "not a recorder")
    refused(verb("record", "--library", "nothing.so", "--", "true"), "N006", 2, "No such file")
    for options, word in (
        (("--slack", "101s"), "0s to 100s"),
        (("--slack=-1us",), "--slack"),
        (("--slack-class", "copy"), "without a delay"),
        (("--seed", "3"), "without random delays"),
        (("--jitter", "5us"), "two bounds"),
        (("--jitter", "5us..101s"), "0s to 100s"),
        (("--jitter", "5us..1us"), "1us..5us"),
        (("--jitter", "0us..1us", "--seed=-1"), "--seed"),
        (("--jitter", "0us..later"), "later"),
        (("--link-bandwidth", "1 B/s"), "1 kB/s to 1 PB/s"),
        (("--link-bandwidth", "2GB"), "B/s"),
        (("--slack", "1us", "--slack-class", "lunch"), "launch"),
        (("--kinds", "apu"), "api"),
        (("--memory", "1 B"), "1 MiB"),
        (("--flush", "1h"), "1000s"),
    ):
        done = verb(*use, *options, "--", "true")
        assert (
            done.code == 2
            and word in done.err
            and ("error[N011]" in done.err or "error[U0" in done.err)
        ), done.err
    refused(verb("record", "--opencl-headers", ".", "--", "true"), "N011", 2, "--opencl")
    refused(verb("record", "--build"), "N011", 2, "-o FOLDER")
    refused(verb("record", "--build", "-o", "kit", "--", "true"), "N011", 2, "command true")
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/site/libtool.so")
    refused(verb(*use, "--", "true"), "N010", 2, "libtool.so")
    monkeypatch.delenv("CUDA_INJECTION64_PATH")
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/opt/site/libnvtx.so")
    refused(verb(*use, "--", "true"), "N010", 2, "libnvtx.so")


def test_an_output_is_never_written_over(verb: Verb, bench: Bench) -> None:
    Path("mine").mkdir()
    Path("mine/file").write_text("mine", encoding="utf-8")
    done = verb("record", "--library", bench.library, "-o", "mine", "--", bench.program, "loop", 2)
    assert (
        done.code == 2
        and "error[N005]" in done.err
        and left() == ["mine"]
        and Path("mine/file").read_text(encoding="utf-8") == "mine"
    )


def test_what_a_build_lacks_is_named(
    verb: Verb, bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    words = ("record", "--", bench.program, "loop", 2)
    refused(verb("record", "--cupti", tmp_path, *words[1:]), "N002", 2, "no folder with cupti.h")
    with monkeypatch.context() as patch:
        patch.setenv("STANDIN_DRIVER", "9020")
        refused(verb(*words), "N002", 2, "newer than the driver")
    with monkeypatch.context() as patch:
        patch.setenv("CC", "no-such-compiler")
        refused(verb(*words), "N001", 2, "CC=no-such-compiler")
        patch.setenv("CC", "false")
        refused(verb(*words), "N003", 2, "no message")
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    refused(verb(*words), "N012", 2, "XDG_CACHE_HOME")


def test_what_cupti_refuses(verb: Verb, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    use = ("record", "--library", bench.library, "--", bench.program)
    monkeypatch.setenv("STANDIN_REFUSE", "39")
    refused(verb(*use, "print", "x"), "N008", 2, "MULTIPLE_SUBSCRIBERS", "the command ended with 0")
    monkeypatch.delenv("STANDIN_REFUSE")
    monkeypatch.setenv("STANDIN_VERSION", "120000")
    refused(verb(*use, "print", "x"), "N008", 2, "another version of CUPTI", "--cupti")
    monkeypatch.delenv("STANDIN_VERSION")
    monkeypatch.setenv("STANDIN_NO_INIT", "100")
    refused(
        verb("record", "--anyway", *use[1:], "print", "x"),
        "N008",
        2,
        "the driver finds no device",
        "nvidia-smi",
    )
    monkeypatch.delenv("STANDIN_NO_INIT")
    refused(verb(*use, "nothing", 3), "A182", 3, "the command ended with 3")
    refused(verb("record", "--kinds", "nvtx", *use[1:], "loop", 1), "A183", 3, "--kinds")


def test_a_disk_without_room_keeps_the_recorders_files(
    verb: Verb, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Trace, folder: Path, **options: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Trace, "to_parquet", full)
        done = verb(
            "record", "--library", bench.library, "-o", "run", "--", bench.program, "loop", 2
        )
    assert done.code == 2 and "error[N009]" in done.err and "No space left" in done.err
    assert left() == ["run.raw"] and [p.suffix for p in Path("run.raw").iterdir()] == [".csv"]
    assert "turnbuckle inspect run.raw/FILE" in done.err
    (kept,) = Path("run.raw").iterdir()
    assert verb("inspect", kept).code == 0


@pytest.mark.parametrize(
    "at",
    [
        "turnbuckle.trace.readers.recorded.reader.together",
        "turnbuckle.trace.trace.Trace.to_parquet",
    ],
)
def test_an_interrupt_after_the_run_keeps_the_recorders_files(
    verb: Verb, bench: Bench, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(at, interrupted)
        done = verb(
            "record", "--library", bench.library, "-o", "run", "--", bench.program, "loop", 2
        )
    assert done.code == 130 and "run.raw" in done.err
    assert left() == ["run.raw"]
    (file,) = Path("run.raw").iterdir()
    assert verb("inspect", file).code == 0


@contextmanager
def waiting(
    bench: Bench, folder: Path, turns: int, *options: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start ``turnbuckle record`` in a process, and yield it when its program waits for a
    signal.
    """
    env = {
        **os.environ,
        "LD_LIBRARY_PATH": str(bench.driver),
        "CUDA_HOME": str(bench.toolkit),
        "PYTHONUNBUFFERED": "1",
    }
    words = [
        "record",
        *options,
        "-o",
        "run",
        "--flush",
        "50ms",
        "--",
        str(bench.program),
        "waits",
        str(turns),
    ]
    start = [
        sys.executable,
        "-c",
        "import sys; from turnbuckle.cli import main; sys.exit(main())",
        *words,
    ]
    with subprocess.Popen(
        start,
        env=env,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        yield child


def test_signals_go_to_the_program(bench: Bench, tmp_path: Path) -> None:
    with waiting(bench, tmp_path, 30, "--library", str(bench.library)) as child:
        end = time.monotonic() + 120
        while sum(path.read_bytes().count(b"\nK,") for path in tmp_path.rglob("*.trace.csv")) < 30:
            assert time.monotonic() < end, "no flush"
            time.sleep(0.02)
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=300)
    assert out == f"got {signal.SIGTERM.value}\n".encode() and child.returncode == 40, err
    assert parquet.read(tmp_path / "run").kernels.height == 30


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_no_copy_of_the_recorder(
    bench: Bench, kept: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with waiting(bench, tmp_path, 3) as child:
        assert len(list((tmp_path / "cache").rglob("run-*"))) == 1
        child.send_signal(number)
        child.communicate(timeout=300)
    assert list((tmp_path / "cache").rglob("run-*")) == []
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_finding_cupti(
    real: toolchain.Cupti, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fake(name: str, release: int, number: int) -> Path:
        folder = tmp_path / name
        for place in ("extras/CUPTI/include", "extras/CUPTI/lib64", "include"):
            (folder / place).mkdir(parents=True)
        (folder / "extras/CUPTI/include/cupti.h").touch()
        (folder / "extras/CUPTI/include/cupti_version.h").write_text(
            f"#define CUPTI_API_VERSION {number}\n", encoding="utf-8"
        )
        (folder / "extras/CUPTI/lib64/libcupti.so.12").write_bytes(
            b"\0libcupti.so\0libcupti.so.12\0"
        )
        (folder / "include/cuda.h").write_text(
            f"#define CUDA_VERSION {release}\n", encoding="utf-8"
        )
        return folder

    old, new = fake("old", 12040, 22), fake("new", 13010, 130100)
    monkeypatch.setattr(toolchain, "folders", lambda: iter([old, new, tmp_path / "gone"]))
    assert (
        toolchain.choose().cuda == (13, 1)
        and toolchain.choose(12080).version == 22
        and toolchain.choose(13000).label.endswith("CUDA 13.1")
    )
    # a driver's own release first, its newest update; of newer releases the nearest; what is equal,
    # in the order of the folders
    near, first, again = (
        fake("near", 13000, 130000),
        fake("first", 13000, 130001),
        fake("again", 13000, 130001),
    )
    far = fake("far", 13050, 130500)
    monkeypatch.setattr(toolchain, "folders", lambda: iter([old, near, far, new, first, again]))
    chosen = {
        driver: toolchain.choose(driver).library.parents[3].name
        for driver in (None, 12020, 12080, 13000, 13010, 13020, 13050, 14000)
    }
    assert chosen == {
        None: "far",
        12020: "old",
        12080: "old",
        13000: "first",
        13010: "new",
        13020: "new",
        13050: "far",
        14000: "far",
    }
    monkeypatch.setattr(toolchain, "folders", lambda: iter([old, far, new]))
    assert toolchain.choose(13000).version == 130100
    monkeypatch.setattr(toolchain, "folders", lambda: iter([old, new, tmp_path / "gone"]))
    assert toolchain.choose(None, old).includes == (old / "extras/CUPTI/include", old / "include")
    (new / "include/cuda.h").write_text("nothing", encoding="utf-8")
    assert toolchain.cupti_in(new) is None and toolchain.cupti_in(tmp_path) is None
    assert toolchain.key(toolchain.choose()) != toolchain.key(real)


def test_a_library_that_a_header_does_not_fit_names_the_compilers_complaint(
    real: toolchain.Cupti, tmp_path: Path
) -> None:
    (tmp_path / "cupti.h").write_text("#error no such CUPTI\n", encoding="utf-8")
    broken = toolchain.Cupti((tmp_path, *real.includes), real.library, real.version, real.cuda)
    with pytest.raises(NativeError, match="N003") as error:
        toolchain.build(broken, tmp_path / "out" / "a.so")
    assert "error" in error.value.found and list((tmp_path / "out").iterdir()) == []
