"""The fuzzer's own machinery: a seed for every format, damage that repeats, a judge that sees every
kind of failure, and a short run.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from refusals import refused
from scripts import script

from turnbuckle.cli.run import run as cli
from turnbuckle.mpi import schedules
from turnbuckle.trace.read import read

ROOT = Path(__file__).resolve().parents[2]
FUZZ = ROOT / "validation" / "fuzz"
OUTCOMES = ("answered", "gate", "refused", "cannot", "interrupted", "other")
sys.path.insert(0, str(FUZZ))

import cases  # type: ignore[import-not-found]  # noqa: E402
import damage  # type: ignore[import-not-found]  # noqa: E402
import seeds  # type: ignore[import-not-found]  # noqa: E402
import server  # type: ignore[import-not-found]  # noqa: E402


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[seeds.Seed]:
    """The seeds that the repository alone gives."""
    return list(seeds.build(tmp_path_factory.mktemp("fuzz") / "seeds", real=None))


def test_every_format_has_a_sound_seed(built: list[seeds.Seed]) -> None:
    formats = {s.format for s in built}
    assert seeds.wanted() >= {"nsys", "turnbuckle", "goal", "ti"} and not seeds.wanted() - formats
    assert formats == seeds.wanted() | set(cases.OTHERS) | set(seeds.REFUSED), (
        "and every other file has its commands"
    )
    timeless = ("untimed", "json")
    for seed in built:
        path = f"{seed.folder / seed.anchor}{seed.member}"
        if seed.format in seeds.REFUSED:
            refused(seeds.REFUSED[seed.format], read, path)
        elif seed.format in ("goal", "ti"):
            assert schedules.figures(Path(path)).mpi()["ranks"] > 1
        elif seed.format in seeds.wanted() and not (
            seed.format == "chakra" and seed.name in timeless
        ):
            # a folder of ours keeps the format of what was written to it
            assert read(path, use_cache=False).facts["format"] == (
                seed.format if seed.format != "turnbuckle" else "nsys"
            )


@pytest.mark.parametrize("format", [*cases.OTHERS, *cases.SCHEDULES])
def test_the_commands_fit_the_file(
    built: list[seeds.Seed],
    format: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nearly all are answered where nothing is damaged: a command that no sound file passes tries
    nothing.
    """
    monkeypatch.chdir(tmp_path)
    # a sweep without --workers starts no processes
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    seed = next(s for s in built if s.format == format)
    codes = []
    for k, (_, words) in enumerate(cases.commands(format)):
        filled = {
            "{f}": str(seed.folder / seed.anchor),
            "{s}": str(seeds.EXAMPLES / "dgemm-like-synthetic.sqlite"),
            "{in}": str(seed.folder),
            "{o}": str(tmp_path / f"{k}"),
        }
        given = [
            next((w.replace(key, value) for key, value in filled.items() if key in w), w)
            for w in words
        ]
        monkeypatch.setattr("sys.argv", ["turnbuckle", *given])
        codes.append((cli(given), words, capsys.readouterr().err))
    assert sum(code == 0 for code, _, _ in codes) > len(codes) / 2, codes


def test_a_case_is_the_same_whenever_it_is_drawn(built: list[seeds.Seed], tmp_path: Path) -> None:
    kinds = set()
    for number in range(90):
        drawn = []
        for name in ("a", "b"):
            place = tmp_path / f"{number}{name}" / "case"
            case = cases.prepare(built, 5, number, place)
            words = [w.replace(str(place), "") for w in case.words]
            files = {
                p: entry[0:1] + entry[2:3] + entry[5:]
                for p, entry in server.contents(place / "in").items()
            }
            drawn.append(
                (
                    case.format,
                    case.seed,
                    case.kind,
                    case.done,
                    case.limits,
                    case.interrupt,
                    case.bound,
                    words,
                    files,
                )
            )
            server.unlocked(place)
        assert drawn[0] == drawn[1]
        kinds.add(drawn[0][2])
    assert kinds == set(cases.KINDS)


def test_each_kind_of_damage_is_done(built: list[seeds.Seed], tmp_path: Path) -> None:
    """Bytes, SQL, documents and texts; nearly every draw changes the file, also the inside of a
    packed one.
    """
    done: set[str] = set()
    for seed in built:
        whole = seed.folder / seed.anchor
        if not whole.is_file():
            continue
        changed = 0
        for number in range(8):
            path = tmp_path / whole.name
            path.write_bytes(whole.read_bytes())
            done.add(damage.damage(path, random.Random(number)).split(":")[0].split(" ")[0])
            changed += path.read_bytes() != whole.read_bytes()
        assert changed >= 6, seed
    assert done >= {"SQL", "JSON", "text", "packed", "cut"}


_PLANTED = """
import json, os, signal, socket, subprocess, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import cases, server
import turnbuckle.cli.run as cli

place, wanted = Path(sys.argv[2]), {}
server.IDLE_SECONDS, server.CPU_SECONDS, server.LEFT_SECONDS = 1, 1, 0.3

def say(code, out="", err="error[A001]: no"):
    sys.stdout.write(out)
    sys.stderr.write(err)
    return code

def endless():
    while True:
        pass

def connect():
    try:
        socket.create_connection(("127.0.0.1", 9), 0.1)
    except OSError:
        pass
    return say(2)

def write(path, code=2):
    Path(path).write_text("x")
    return say(code)

case = lambda *words: cases.Case("toy", "toy", "damage", words=["inspect", *words])
inside = lambda name: str(place / "case" / name)
planted = {
    "crash": (lambda w: os.abort(), case()),
    "internal": (lambda w: say(4), case()),
    "code": (lambda w: say(77), case()),
    "traceback": (lambda w: say(2, err="error[A001]: Traceback (most recent call last):"), case()),
    "uncoded": (lambda w: say(2, err="no"), case()),
    "hang": (lambda w: endless(), case()),
    "hang ": (lambda w: time.sleep(60), case()),
    "leftover": (lambda w: write(inside("tmp/a")), case()),
    "leftover ": (lambda w: write(inside("out/.answer.7.part"), 0), case()),
    "input changed": (lambda w: write(inside("in/a")), case()),
    "half made": (lambda w: write(inside("out/answer.csv")), case()),
    "network": (lambda w: connect(), case()),
    "process left": (lambda w: subprocess.Popen(["sleep", "60"]) and say(2), case()),
    "control characters": (lambda w: say(0, "\\x1b[31m"), case()),
    "formula": (lambda w: say(0, "name\\n=1+1\\n"), case("--format", "csv")),
    "markup": (lambda w: (Path(inside("out/a.html")).write_text("<img src=x onerror=1>"), 0)[1], case()),
    "invariant": (lambda w: say(0, '{"ratio": NaN}'), case("--format", "json")),
    "": (lambda w: say(0, "name,value\\na,-1.5e-3\\nb,+inf\\n", ""), case("--format", "csv")),
    " ": (lambda w: write(inside("out/answer.csv"), 0), case()),
    "  ": (lambda w: os.kill(os.getpid(), signal.SIGTERM), case()),
}
planted["  "][1].interrupt = (signal.SIGTERM, 9.0)
for name, (run, about) in planted.items():
    for part in ("in", "out", "tmp", "work", "home"):
        (place / "case" / part).mkdir(parents=True)
    (place / "case/in/a").write_text("a recording")
    before = {part: server.contents(place / "case" / part) for part in ("in", "out")}
    cli.run = run
    ran = server.run(about, place / "case")
    outcome = server.judge(about, ran, place / "case", None, before)
    wanted[name] = [outcome, [kind for kind, _ in ran.failures]]
    server.unlocked(place / "case")
print(json.dumps(wanted))
"""


def test_the_judge_sees_each_kind_of_failure(tmp_path: Path) -> None:
    """Commands that do what they must not, each in a place of its own; and three that do nothing
    wrong.
    """
    ran = subprocess.run(
        [sys.executable, "-c", _PLANTED, str(FUZZ), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(ran.stdout)
    assert {name.strip() for name in found} - {""} == set(server.FAILURES)
    assert {name: kinds for name, (_, kinds) in found.items()} == {
        name: [name.strip()] if name.strip() else [] for name in found
    }
    assert (found[""][0], found["uncoded"][0], found["  "][0]) == (
        "answered",
        "refused",
        "interrupted",
    )


def test_a_short_run_fails_nowhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    # what the clock and the size of the machine decide, signals and limits, is left to `make fuzz`
    words = [
        "--seed=2",
        "--kinds=damage,odd,output,words",
        "--count=10",
        "--jobs=1",
        "--repository-only",
        f"--output={tmp_path / 'kept'}",
    ]
    code, printed = script("validation/fuzz/run.py").main(words), capfd.readouterr().out
    assert code == 0, printed
    assert printed.splitlines()[0].split() == ["format", "cases", *OUTCOMES, "FAILURES"]
    assert "10 cases of" in printed and not list((tmp_path / "kept").iterdir())


def test_a_case_can_be_repeated_and_its_files_are_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--seed=1", "--case=3", "--repository-only", "--only=runs", f"--output={tmp_path}"]
    script("validation/fuzz/run.py").main(words)
    about = (tmp_path / "case-3" / "case.txt").read_text(encoding="utf-8")
    assert "runs" in capfd.readouterr().out and "turnbuckle cores" in about
    assert (
        "run.py --seed 1 --only 'runs' --repository-only --case 3" in about
        and (tmp_path / "case-3" / "in").is_dir()
    )
