"""Runs cases, each in a process forked from one that has loaded everything, and judges what came of
them.

    python validation/fuzz/server.py PLACE --seed 1 --first 0 --step 2

One line of JSON a case goes to the standard output.  The parent never lets Polars work, so that no
thread of it is lost in the fork.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import gc
import hashlib
import importlib
import json
import os
import pkgutil
import re
import resource
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import invariants
from cases import Case, prepare, shown
from seeds import Seed

CPU_SECONDS, WALL_SECONDS, IDLE_SECONDS = 30, 180, 15
#: Time in which processes that a command left may end themselves [s].
LEFT_SECONDS = 2.0
#: Memory that a command may write to [B]; a small file needs far less.
DATA_BYTES = 4 << 30
MOST_OUTPUT = 64 << 20
KEPT = 3
NAMES = {0: "answered", 1: "gate", 2: "refused", 3: "cannot"}
NAMES |= dict.fromkeys((130, 143, -signal.SIGINT, -signal.SIGTERM), "interrupted")
FAILURES = (
    *(
        "crash",
        "internal",
        "code",
        "traceback",
        "uncoded",
        "hang",
        "leftover",
        "input changed",
        "half made",
        "network",
    ),
    *("process left", "control characters", "formula", "markup", "invariant"),
)
#: What Python says when it is about to reach for the network; native code is not seen here, see
#: README.md.
NETWORK = (
    *("socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind"),
    *("socket.getaddrinfo", "socket.gethostbyname", "urllib.Request"),
)
_BROKEN = re.compile(
    rb"Traceback \(most recent|panicked at|PanicException|RUST_BACKTRACE|Fatal Python error|# Fatal error|Exception ignored in|V8 .*memory"
)
_STEERING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069]")
_FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d.]*(?:[eE][+-]?\d+)?$|inf$|nan$)")


@dataclass
class Ran:
    """What a command came to.

    Attributes
    ----------
    code : exit code, or minus the signal that ended it.
    cpu, rss : processor time [s] and most memory [B].
    """

    code: int
    out: bytes
    err: bytes
    notes: bytes
    cpu: float
    rss: int
    idle: bool = False
    late: bool = False
    left: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)


def load() -> None:
    """Load all of Turnbuckle, and let nothing of it work."""
    import turnbuckle

    for module in pkgutil.walk_packages(turnbuckle.__path__, "turnbuckle."):
        importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


# --- the child ------------------------------------------------------------------------------------


def _child(case: Case, place: Path, ends: tuple[int, int, int]) -> None:
    """Become the command; does not return."""
    null = os.open(os.devnull, os.O_RDONLY)
    for to, end in enumerate((null, *ends[:2])):
        os.dup2(end, to)
    notes = os.dup2(ends[2], 63, inheritable=False)
    os.closerange(3, notes)
    os.closerange(notes + 1, 1024)
    os.setsid()
    os.chdir(place / "work")
    kept = ("PATH", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV")
    mine = {"HOME": "home", "XDG_CACHE_HOME": "cache", "TMPDIR": "tmp"}
    fixed = {"COLUMNS": "120", "POLARS_MAX_THREADS": "2"} | {
        name: str(place / part) for name, part in mine.items()
    }
    environment = {k: os.environ[k] for k in kept if k in os.environ} | fixed
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    os.umask(0o022)

    def note(event: str, given: tuple[Any, ...]) -> None:
        # an address that is a path stays on the machine
        if event in NETWORK and not (len(given) > 1 and isinstance(given[1], str | bytes)):
            os.write(notes, f"{event} {given[1:]!r:.100}\n".encode())

    sys.addaudithook(note)
    if case.bound:
        _give_up_rights()
    for name, value in {
        "CPU": CPU_SECONDS,
        "CORE": 0,
        "DATA": DATA_BYTES,
        "FSIZE": 1 << 30,
        **case.limits,
    }.items():
        resource.setrlimit(
            getattr(resource, f"RLIMIT_{name}"), (value, value + 5 * (name == "CPU"))
        )
    sys.argv = ["turnbuckle", *case.words]
    # streams of its own: those of the parent may stand for files, which pipes are not
    sys.stdin, sys.stdout, sys.stderr = (
        open(fd, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        for fd, mode in enumerate("rww")
    )
    from turnbuckle.cli.run import run

    os.write(notes, b"ready\n")
    code = run(case.words)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise SystemExit(code)


def _give_up_rights() -> None:
    """Let permissions bind, also where root runs this: no capability is left."""
    library = ctypes.CDLL(None, use_errno=True)
    head, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    library.capset(head, none)


# --- the parent -----------------------------------------------------------------------------------


def run(case: Case, place: Path) -> Ran:
    """Fork a child that becomes the command, wait for it, and say what it did."""
    pipes = [os.pipe() for _ in range(3)]
    pid = os.fork()
    if pid == 0:
        _child(case, place, (pipes[0][1], pipes[1][1], pipes[2][1]))
    began = time.monotonic()
    chosen = selectors.DefaultSelector()
    held: dict[int, bytearray] = {}
    for reading, writing in pipes:
        os.close(writing)
        os.set_blocking(reading, False)
        held[reading] = bytearray()
        chosen.register(reading, selectors.EVENT_READ)
    out, err, notes = held.values()
    due, ended, used, looked, moved = None, None, -1.0, began, began
    idle = late = False
    while True:
        for key, _ in chosen.select(0.02 if ended is None else 0):
            data = b""
            with suppress(BlockingIOError):
                data = os.read(key.fd, 1 << 20)
                if not data:
                    chosen.unregister(key.fd)
            if len(held[key.fd]) < MOST_OUTPUT:
                held[key.fd] += data
        now = time.monotonic()
        if ended is not None:
            break
        if case.interrupt and due is None and notes.startswith(b"ready"):
            due = now + case.interrupt[1]
        if case.interrupt and due is not None and now >= due:
            os.kill(pid, case.interrupt[0])
            due = float("inf")
        if now - looked > 0.5:
            looked, last, used = now, used, _cpu(pid)
            moved = now if used != last else moved
        idle, late = now - moved > IDLE_SECONDS, now - began > WALL_SECONDS
        if idle or late:
            os.kill(pid, signal.SIGKILL)
        done, status, usage = os.wait4(pid, 0 if idle or late else os.WNOHANG)
        if done:
            ended = status
    left = _stop(pid)
    for key in list(chosen.get_map().values()):
        with suppress(BlockingIOError):
            while data := os.read(key.fd, 1 << 20):
                held[key.fd] += data[: MOST_OUTPUT - len(held[key.fd])]
    chosen.close()
    for reading, _ in pipes:
        os.close(reading)
    cpu = usage.ru_utime + usage.ru_stime
    return Ran(
        os.waitstatus_to_exitcode(ended),
        bytes(out),
        bytes(err),
        bytes(notes),
        cpu,
        usage.ru_maxrss << 10,
        idle,
        late,
        left,
    )


def _cpu(pid: int) -> float:
    """Processor time of a process's whole session [ticks]: a parent that waits for a child that
    works is not idle.
    """
    total = 0
    for about in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            fields = about.read_bytes().rpartition(b")")[2].split()
            if int(fields[3]) == pid:
                total += int(fields[11]) + int(fields[12])
    return total


def _stop(pid: int) -> int:
    """End what the command left running; how many processes that were, after `LEFT_SECONDS` in
    which they may end themselves.
    """
    end = time.monotonic() + LEFT_SECONDS
    while left := [
        int(p.parent.name) for p in Path("/proc").glob("[0-9]*/stat") if _session(p) == pid
    ]:
        if time.monotonic() > end:
            break
        time.sleep(0.1)
    for other in left:
        with suppress(OSError):
            os.kill(other, signal.SIGKILL)
    return len(left)


def _session(about: Path) -> int:
    with suppress(OSError, ValueError, IndexError):
        fields = about.read_bytes().rpartition(b")")[2].split()
        return int(fields[3]) if fields[0] not in (b"Z", b"X") else -1
    return -1


def contents(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every entry below a folder: kind, size, place, time of its last change, and the hash of what
    it holds.
    """
    out: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        entry: tuple[object, ...] = (stat.S_IFMT(about.st_mode), about.st_mode)
        if stat.S_ISREG(about.st_mode):
            digest = ""
            if about.st_size < 64 << 20:
                with suppress(OSError):
                    digest = hashlib.sha256(path.read_bytes()).hexdigest()
            entry += (about.st_size, about.st_ino, about.st_mtime_ns, digest)
        elif stat.S_ISLNK(about.st_mode):
            entry += (str(path.readlink()),)
        out[str(path.relative_to(folder))] = entry
    return out


def judge(
    case: Case,
    ran: Ran,
    place: Path,
    disk: Path | None,
    before: dict[str, dict[str, tuple[object, ...]]],
) -> str:
    """Name the outcome of a case, and put what was wrong with it into `ran.failures`."""

    def fail(kind: str, detail: str = "") -> None:
        ran.failures.append((kind, detail))

    outcome = NAMES.get(ran.code, "other")
    said = ran.out + ran.err
    if ran.idle or ran.late or ran.code == -signal.SIGXCPU:
        bound = (
            f"more than {WALL_SECONDS} s" if ran.late else f"more than {CPU_SECONDS} s of CPU time"
        )
        fail("hang", f"{case.words[0]}: {'waits for something' if ran.idle else bound}")
    elif ran.code < 0 and not (
        case.interrupt
        and ran.code in (-signal.SIGTERM, -signal.SIGINT)
        and -ran.code == case.interrupt[0]
    ):
        fail("crash", f"{signal.Signals(-ran.code).name}: {_line(ran.err)}")
    elif ran.code == 4:
        fail("internal", _line(ran.err))
    elif outcome == "other" or (outcome == "interrupted" and not case.interrupt):
        fail("code", f"{ran.code}: {_line(ran.err)}")
    if broken := _BROKEN.search(said):
        fail("traceback", f"{broken[0].decode(errors='replace')}: {_line(ran.err, last=True)}")
    if ran.code in (2, 3) and not re.search(rb"error\[[A-Z]\d{3}\]", ran.err):
        fail("uncoded", _line(ran.err))
    if calls := ran.notes.replace(b"ready\n", b""):
        fail("network", calls.decode(errors="replace").splitlines()[0])
    if ran.left:
        fail("process left", str(ran.left))
    for name in ("tmp", "work", "home"):
        if left := contents(place / name):
            fail("leftover", f"in {name}: {_pattern(next(iter(left)))}")
    now = contents(place / "in")
    if now != before["in"]:
        names = sorted(
            k for k in now.keys() | before["in"].keys() if now.get(k) != before["in"].get(k)
        )
        fail("input changed", f"{case.words[0]}: {_pattern(names[0])}")
    _look_at_output(case, ran, fail, place / "out", before["out"])
    if disk is not None and case.disk:
        _look_at_output(case, ran, fail, disk, {})
    if "--format csv" in " ".join(case.words) and "-o" not in case.words and ran.code == 0:
        _cells(case, ran.out, fail)
    if "--format json" in " ".join(case.words) and "-o" not in case.words and ran.code in (0, 1):
        for flaw in invariants.broken(ran.out)[:KEPT]:
            fail("invariant", f"{case.words[0]}: {_pattern(flaw)}")
    match = _STEERING.search(said.decode("utf-8", "replace"))
    if match and "--format parquet" not in " ".join(case.words):
        fail(
            "control characters",
            (
                f"{match[0]!r} from {case.words[0]} "
                f"{' '.join(w for w in case.words if w in ('csv', 'json'))}"
            ),
        )
    return outcome


def _look_at_output(
    case: Case, ran: Ran, fail: Any, folder: Path, before: dict[str, tuple[object, ...]]
) -> None:
    """Look for what is half made: all is there where the command says so, and nothing where it does
    not.
    """
    now = contents(folder)
    new = {k: v for k, v in now.items() if v != before.get(k)}
    gone = before.keys() - now.keys()
    if ran.code in (0, 1):
        if drafts := [
            k
            for k in new
            if Path(k).name.startswith(".") or k.endswith((".part", ".draft", ".tmp"))
        ]:
            fail("leftover", f"beside the output: {_pattern(drafts[0])}")
        for name in new:
            path = folder / name
            if path.is_file() and name.endswith(".csv"):
                _cells(case, path.read_bytes(), fail)
            if (
                path.is_file()
                and name.endswith(".html")
                and re.search(rb"<img src=x onerror|<script>alert", path.read_bytes())
            ):
                fail("markup", "a name of the recording is markup in the report")
        return
    # a sweep that was stopped, or whose disk was full (A086), keeps what it answered, to go on from
    # there; one without any answer (A167) tells each refusal in its table
    sweep = case.words[0] == "sweep"
    stopped = sweep and (NAMES.get(ran.code) == "interrupted" or b"error[A086]" in ran.err)
    left = (
        []
        if sweep and b"error[A167]" in ran.err
        else sorted(k for k in new if not (stopped and ".journal" in k))
    )
    if left or gone:
        fail("half made", f"{case.words[0]}: {_pattern((left or sorted(gone))[0])}")


def _cells(case: Case, content: bytes, fail: Any) -> None:
    """Refuse cells that a spreadsheet would run."""
    csv.field_size_limit(1 << 30)
    with suppress(csv.Error):
        for row in csv.reader(content.decode("utf-8", "replace").splitlines()):
            for cell in row:
                if _FORMULA.match(cell):
                    return fail(
                        "formula",
                        (
                            f"{' '.join(case.words[: 2 if case.words[0] == 'model' else 1])}: "
                            f"{cell[:20]!r}"
                        ),
                    )


def _line(text: bytes, last: bool = False) -> str:
    """The line of a message that says most: what was found, or the first, or the last."""
    lines = [x.strip() for x in text.decode("utf-8", "replace").splitlines() if x.strip()]
    told = [x for x in lines if x.startswith("found:")]
    return _pattern(
        (lines[-1] if last and lines else told[0] if told else lines[0] if lines else "")[:160]
    )


def _pattern(text: str) -> str:
    """A message without its numbers and paths, so that those of one cause are equal."""
    return re.sub(r"n{20,}", "n..", re.sub(r"\d+", "N", re.sub(r"/\S*/", "", text)))[:120]


# --- many cases -----------------------------------------------------------------------------------


def unlocked(place: Path) -> None:
    """Remove a folder, whatever modes its parts have."""
    for folder, names, _ in os.walk(place):
        Path(folder).chmod(0o700)
        for name in names:
            if not (path := Path(folder, name)).is_symlink():
                path.chmod(0o700)
    shutil.rmtree(place, ignore_errors=True)


def small_disk(place: Path) -> Path | None:
    """Mount a disk of 48 kB, if that is allowed and nobody else sees it."""
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=48k", "none", str(place)]
    alone = bool(os.environ.get("FUZZ_OWN_MOUNTS"))
    return (
        place
        if alone and not subprocess.run(words, check=False, capture_output=True).returncode
        else None
    )


def one(
    seeds: list[Seed], seed: int, number: int, place: Path, disk: Path | None, kinds: list[str]
) -> tuple[Case, Ran, str]:
    """Prepare, run and judge case `number`; its files stay in `place`."""
    unlocked(place)
    for path in disk.iterdir() if disk else ():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    case = prepare(seeds, seed, number, place, disk, kinds)
    before = {name: contents(place / name) for name in ("in", "out")}
    ran = run(case, place)
    return case, ran, judge(case, ran, place, disk, before)


def keep(case: Case, ran: Ran, place: Path, to: Path, repeat: str) -> None:
    """Keep the files of a case, what it said, and how it is repeated."""
    unlocked(to)
    place.rename(to)
    (to / "stdout").write_bytes(ran.out)
    (to / "stderr").write_bytes(ran.err)
    about = [
        *(f"{k}: {d}" for k, d in ran.failures),
        shown(case.words),
        f"exit code {ran.code}",
        f"{case.format}, {case.seed}: {case.done}",
    ]
    about.append(repeat)
    text = "\n".join(about).replace(str(place), str(to)) + "\n"
    (to / "case.txt").write_text(text, encoding="utf-8", errors="backslashreplace")


def serve(seeds: list[Seed], given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Run cases for as long as there is time; each gives a line about it."""
    place, disk = (
        given.place / f"case-{given.first}",
        small_disk(given.place / f"disk-{given.first}"),
    )
    seen: Counter[tuple[str, str]] = Counter()
    until, number, parent = time.monotonic() + given.seconds, given.first, os.getppid()
    while (
        time.monotonic() < until
        and os.getppid() == parent
        and (given.count is None or number < given.first + given.count * given.step)
    ):
        case, ran, outcome = one(seeds, given.seed, number, place, disk, given.kinds.split(","))
        seen.update(ran.failures)
        if given.keep_all or any(seen[f] <= KEPT for f in ran.failures):
            repeat = (
                f"python validation/fuzz/run.py --seed {given.seed}{given.words} --case {number}"
            )
            keep(case, ran, place, given.kept / f"case-{number}", repeat)
        yield {
            "number": number,
            "format": case.format,
            "seed": case.seed,
            "kind": case.kind,
            "done": case.done,
            "command": shown(case.words),
            "outcome": outcome,
            "failures": ran.failures,
            "cpu": ran.cpu,
            "rss": ran.rss,
        }
        number += given.step
    unlocked(place)


def main() -> None:
    """Serve cases until the time is up."""
    reading = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reading.add_argument("place", type=Path, help="folder for the cases; seeds.json lies there")
    reading.add_argument("--kept", type=Path, required=True)
    for name, default in (("seed", 1), ("first", 0), ("step", 1), ("count", None)):
        reading.add_argument(f"--{name}", type=int, default=default)
    reading.add_argument("--seconds", type=float, default=600.0)
    reading.add_argument("--kinds", required=True)
    reading.add_argument("--words", default="", help="options by which a case is repeated")
    reading.add_argument("--keep-all", action="store_true")
    given = reading.parse_args()
    listed = json.loads((given.place / "seeds.json").read_text(encoding="utf-8"))
    seeds = [
        Seed(s["format"], s["name"], Path(s["folder"]), s["anchor"], s["member"]) for s in listed
    ]
    load()
    for about in serve(seeds, given):
        os.write(1, json.dumps(about).encode() + b"\n")


if __name__ == "__main__":
    main()
