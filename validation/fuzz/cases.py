"""One case: a file, what was done to it, the command that is given it, and what the command has to
live with.

Everything is drawn from the seed and the number of the case, so that both name it.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from damage import TEXTS, damage
from seeds import SAMPLE, Seed

from turnbuckle.questions.sweep.grid import files_of

#: Commands by what the file is, each with its weight.  {f} is the file, {s} a sound recording, {o}
#: the output's name without ending.
RECORDING = """
6 inspect {f}
3 inspect {f} --format json
2 inspect {f} --format csv -o {o}.csv
1 inspect {f} --format parquet -o {o}.parquet
2 {f}
5 project {f} --on gh200 --draws 20
2 project {f} --on self,cdi-row-link --draws 20 --format json -o {o}.json
1 project {f} --on nvlink-c2c --draws 20 --format csv --replay sum
1 project {f} --on gh200 --draws 0 --part 10us..1s
1 project {f} --model additive --lambda data=10,control=10
3 project {f} --on self,gh200 --draws 20 --format json
3 slack {f} --draws 10
2 slack {f} --draws 10 --format json
2 whatif {f} --format json
2 transfers {f} --on pcie5-x16 --format json
1 slack {f} --draws 10 --format csv -o {o}.csv --mode api
1 slack {f} --draws 0 --published modelled
2 report {f} --on gh200 --draws 20 -o {o}.html
3 export {f} --on gh200 -o {o}.json
1 export {f} --on self -o {o}.json.gz
4 anonymise {f} -o {o}.turnbuckle
1 anonymise {f} --dry-run --format json
2 merge {f} {s} -o {o}.turnbuckle
1 merge {s} {f} -o {o}.turnbuckle --clock recorded
2 sweep {f} --model project --axis on=gh200,cdi-row-link --set draws=0 --workers 1 -o {o}.csv
4 doctor {f}
1 doctor {f} --format json
1 transfers {f} --on pcie5-x16
1 cores {f} {s} {f} {s} --at 2,4,2,4 --draws 100
2 model functions {f}
1 model functions {f} --format csv -o {o}.csv
1 model sharing {f} --runs 1,2
1 model ssi {f} --link pcie4-x16
1 model order {f} {s}
1 model network {f}
2 model messages {f} --ranks-per-node 1 --costs seed_G
1 model integration {f} --bandwidth-ratio 8 --ranks-per-node 1
1 model memory {f} --on gh200
1 model dgemm {f} --kernel e --size 100
1 model additive {f} --lambda data=10
"""
SCHEDULE = """
4 inspect {f}
2 inspect {f} --format json -o {o}.json
1 project {f} --on gh200
"""
SPEED = "--flops-per-second 10GFLOP/s"
SCHEDULES = {
    "goal": f"""{SCHEDULE}
3 model messages {{f}} --ranks-per-node 1,2 --costs seed_G
1 model messages {{f}} --fidelity packet --ranks-per-node 1 --format csv -o {{o}}.csv
2 sweep {{f}} --axis path=hostcopy,gpudirect --workers 1 -o {{o}}.csv
""",
    "ti": f"""{SCHEDULE}
3 model messages {{f}} {SPEED} --ranks-per-node 1,2 --costs seed_G
1 model messages {{f}} {SPEED} --fidelity packet --ranks-per-node 1 --format csv -o {{o}}.csv
2 sweep {{f}} --axis path=hostcopy,gpudirect --set flops_per_second=10GFLOP/s --workers 1 -o {{o}}.csv
""",
}
OTHERS = {
    "machine": """
3 machines check {f}
2 machines show {f}
2 project {s} --on {f} --draws 10
1 project {s} --on gh200 --source {f} --draws 10 --format json -o {o}.json
1 export {s} --on {f} -o {o}.json
1 slack {s} --source {f} --draws 0
""",
    "network": """
3 model fabric {f}
1 model fabric {f} --check
1 model fabric {f} --nodes 8 --format csv -o {o}.csv
""",
    "study": (
        "3 sweep {f} --workers 1\n3 sweep {f} --workers 1 -o {o}.parquet\n"
        "1 sweep {f} -o {o}.csv --shard 1/2"
    ),
    "case": (
        "3 validate {f}\n1 validate {f} --format json -o {o}.json\n"
        "1 validate --cases {in} --format csv"
    ),
    "runs": (
        "3 cores {f} --draws 100\n1 cores {f} --draws 100 --format csv -o {o}.csv\n"
        "1 cores {f} --draws 100 --charts {o}"
    ),
    "surface": "1 slack {s} --published {f} --draws 0",
    "starvation": "1 slack {s} --starvation {f} --draws 0",
    "work": "1 model memory {f} --on summit --memories {in}/memories.csv",
    "memories": "1 model memory {in}/work.csv --on summit --memories {f}",
    "intervals": "1 model mdm {f} --warps 8 --miss-rate 40%",
    "parts": "2 model power {f}\n1 model power {f} --format csv -o {o}.csv",
    "classes": "1 model additive {f} --lambda data=10,control=10",
    "communication": "1 model integration {f} --bandwidth-ratio 8",
    "chain": (
        "3 model chain {f}\n1 model chain {f} --profile {s} --stage sum\n"
        "1 model chain {f} --format csv -o {o}.csv"
    ),
    "messages": "1 model network {f}\n1 model network {f} --format csv -o {o}.csv",
    "matrix": "2 model dag {f}\n1 model dag {f} --gpus 1,2 --format json -o {o}.json",
    "nvprof summary": (
        "3 model additive {f} --lambda data=10 --total 2.5s\n"
        "1 model additive {f} --lambda data=10 --format csv -o {o}.csv"
    ),
    "measured": """
4 calibrate {f} --copied-size 1MiB
2 calibrate {f} -o {o}.toml --name ours
1 calibrate {f} --format json --base gh200
2 transfers {f} --on pcie5-x16
1 model cxl --measured {f}
""",
}
#: How often each kind of case is drawn.
KINDS = {"damage": 70, "odd": 7, "output": 8, "limit": 8, "signal": 4, "words": 3}
ODD = (
    *(
        "fifo",
        "socket",
        "folder",
        "broken link",
        "loop",
        "empty",
        "zeros",
        "unreadable",
        "gone",
        "link",
        "locked folder",
    ),
    *("/dev/zero", "/dev/null", "/dev/full", "/dev/random", "sparse"),
    *("name not UTF-8", "name with a line end", "long name", "name of an option"),
)
OUTPUTS = (
    *(
        "the input",
        "link to the input",
        "hard link to the input",
        "another input",
        "folder of the input",
    ),
    *("/dev/full", "/dev/null", "full disk"),
    *(
        "locked folder",
        "no folder",
        "a folder",
        "name not UTF-8",
        "long name",
        "existing",
        "broken link",
        "name too long",
    ),
)


@dataclass
class Case:
    """A case that is ready to run.

    Attributes
    ----------
    format, seed, kind, done : the file, its seed, the kind of case, and what was done, in words.
    words : the command line.
    limits : soft and hard limit by name of the resource (``NOFILE``, ``AS``, ``FSIZE``).
    interrupt : signal and seconds after which it is sent.
    bound : whether permissions bind the command, also where root runs it.
    disk : whether the output lies on a small full disk.
    """

    format: str
    seed: str
    kind: str
    done: str = ""
    words: list[str] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)
    interrupt: tuple[int, float] | None = None
    bound: bool = False
    disk: bool = False


def commands(format: str) -> list[tuple[int, list[str]]]:
    """Weight and words of each command that fits a format."""
    lines = OTHERS.get(format) or SCHEDULES.get(format) or RECORDING
    return [(int(words[0]), words[1:]) for words in map(str.split, lines.splitlines()) if words]


def chosen(seeds: list[Seed], rng: random.Random) -> Seed:
    """A seed: each recording format is as likely as the next, the tables of a user together weigh a
    third.
    """
    recordings = sorted({s.format for s in seeds} - set(OTHERS))
    tables = sorted({s.format for s in seeds} & set(OTHERS))
    formats = recordings if recordings and (not tables or rng.random() < 0.67) else tables
    format = rng.choice(formats)
    return rng.choice([s for s in seeds if s.format == format])


def prepare(
    seeds: list[Seed],
    seed: int,
    number: int,
    place: Path,
    disk: Path | None = None,
    kinds: Sequence[str] = tuple(KINDS),
) -> Case:
    """Draw case `number` of these kinds and write its files below `place`: ``in``, ``out``,
    ``tmp``, ``work`` and ``home``.

    `disk` is where a small disk is mounted, if one is.
    """
    rng = random.Random(f"{seed}:{number}")
    start = chosen(seeds, rng)
    kind = rng.choices(kinds, [KINDS[k] for k in kinds])[0]
    case = Case(start.format, start.name, kind)
    for name in ("in", "out", "tmp", "work", "home"):
        (place / name).mkdir(parents=True)
    given = place / "in"
    shutil.copytree(start.folder, given, dirs_exist_ok=True, copy_function=shutil.copyfile)
    sound = given / "sound.sqlite"
    shutil.copyfile(SAMPLE, sound)
    file, output = given / start.anchor, place / "out" / "answer"
    listed = commands(start.format)
    if kind in ("output", "signal") and (
        writing := [c for c in listed if any("{o}" in w for w in c[1])]
    ):
        listed = writing
    words = rng.choices([w for _, w in listed], [n for n, _ in listed])[0]
    if kind == "damage" or (kind != "words" and rng.random() < 0.15):
        targets = sorted(p for p in given.rglob("*") if p.is_file() and p != sound) or [file]
        # the file that is named takes most of it
        drawn = [
            file if file.is_file() and rng.random() < 0.6 else rng.choice(targets)
            for _ in range(rng.choice((1, 1, 1, 2)))
        ]
        for target in dict.fromkeys(drawn):
            case.done += f"{target.relative_to(given)}: {damage(target, rng)}; "
    if kind == "odd":
        file = _odd(case, file, rng)
    if kind == "limit":
        _limit(case, rng)
    if kind == "signal":
        after = rng.choice((0.005, 0.05, 0.2, 0.5, 1.5)) * rng.random()
        case.interrupt = (rng.choice((signal.SIGINT, signal.SIGINT, signal.SIGTERM)), after)
        case.done += f"{signal.Signals(case.interrupt[0]).name} after {case.interrupt[1]:.3f} s"
    read = any("{s}" in word for word in words)
    target, exact = (
        _output(case, file, output, sound, rng, disk, read)
        if kind == "output"
        else (str(output), False)
    )
    filled = {"{f}": f"{file}{start.member}", "{s}": str(sound), "{in}": str(given)}
    for word in words:
        held = word
        for key, value in filled.items():
            held = held.replace(key, value)
        # an output that is an input, a device or a link keeps its name; others take the ending that
        # the command wants
        case.words.append(target if exact and "{o}" in word else held.replace("{o}", target))
    if kind == "words":
        # another name of the output would be an output too
        at = rng.choice([i for i in range(len(case.words)) if not i or case.words[i - 1] != "-o"])
        put = rng.choice([t for t in TEXTS if "\0" not in t and len(t) < 100_000])
        flag = case.words[at].startswith("-")
        case.words[at] = put if not flag else f"{case.words[at]}={put}"
        case.done += f"word {at + 1} of the command is {put!r:.60}"
    return case


def _odd(case: Case, file: Path, rng: random.Random) -> Path:
    """Something else in the file's place, or the file by an odd name; returns its path."""
    what = rng.choice(ODD)
    case.done += f"the file is: {what}"
    if what.startswith("/dev/"):
        _gone(file)
        file.symlink_to(what)
        return file
    if what.startswith(("name", "long")):
        name = {
            "name not UTF-8": os.fsdecode(b"\xff\xfe-") + file.name,
            "name with a line end": f"a\nb\r{file.name}",
        }.get(what)
        ending = "".join(file.suffixes[-2:])[-40:]
        name = name or (
            f"--format={file.name}" if "option" in what else "n" * (255 - len(ending)) + ending
        )
        return file.rename(file.with_name(name))
    if what == "link":
        moved = file.rename(file.with_name(f"moved-{file.name}"))
        file.symlink_to(moved.name)
        return file
    if what in ("unreadable", "locked folder"):
        (file if what == "unreadable" else file.parent).chmod(0 if what == "unreadable" else 0o500)
        case.bound = True
        return file
    if what == "sparse" and file.is_file():
        with file.open("r+b") as held:
            # a text ends at its first NUL; a file in binary may be that long, and takes time in
            # proportion
            held.truncate(50_000_000_000 if b"\0" not in held.read(512) else 4_000_000_000)
        return file
    _gone(file)
    if what == "fifo":
        os.mkfifo(file)
    elif what == "socket":
        held = socket.socket(socket.AF_UNIX)
        back = Path.cwd()
        os.chdir(file.parent)
        try:
            held.bind(file.name[:90])
        finally:
            os.chdir(back)
            held.close()
    elif what == "folder":
        file.mkdir()
    elif what == "broken link":
        file.symlink_to("nowhere")
    elif what == "loop":
        file.symlink_to(file.name)
    elif what in ("empty", "zeros", "sparse"):
        file.write_bytes(b"" if what == "empty" else bytes(10_000))
    return file


def _gone(file: Path) -> None:
    shutil.rmtree(file) if file.is_dir() else file.unlink()


def _limit(case: Case, rng: random.Random) -> None:
    """Few descriptors, little memory, or small files only."""
    name = rng.choice(("NOFILE", "AS", "FSIZE"))
    case.limits[name] = {
        "NOFILE": rng.randrange(4, 33),
        "AS": rng.choice((1, 1, 2, 4, 16)) * (1 << 30) + rng.randrange(1 << 29),
        "FSIZE": rng.choice((0, 1, 512, 4096, 30_000, 200_000)),
    }[name]
    case.done += f"RLIMIT_{name} {case.limits[name]}"


def _output(
    case: Case,
    file: Path,
    output: Path,
    sound: Path,
    rng: random.Random,
    disk: Path | None,
    sound_is_read: bool,
) -> tuple[str, bool]:
    """Where the output is to go, and whether that is its whole name or wants an ending."""
    what = rng.choice(OUTPUTS)
    case.done += f"the output is: {what}"
    link = output.with_name("answer.csv")
    if what == "full disk":
        case.disk = disk is not None
        if disk is None:
            case.limits["FSIZE"] = rng.choice((0, 100, 5000))
        return str((disk or output.parent) / "answer"), False
    if what == "the input":
        return str(file), True
    if what == "another input":
        # a file beside a recording belongs to it only where its format says so
        return str(rng.choice([*files_of(file), *([sound] if sound_is_read else [])])), True
    if what == "folder of the input":
        return str(file.parent), True
    if what in ("link to the input", "broken link"):
        link.symlink_to(file if "input" in what else output.with_name("nowhere"))
        return str(link), True
    if what == "hard link to the input":
        if file.is_file():
            os.link(file, link)
        return str(link), True
    if what == "a folder":
        link.mkdir()
        return str(link), True
    if what.startswith("/dev/"):
        return what, True
    if what == "no folder":
        return str(output.parent / "missing" / "answer"), False
    if what == "locked folder":
        output.parent.chmod(0o500)
        case.bound = True
    if what == "existing":
        for ending in ("csv", "json", "json.gz", "html", "parquet", "toml"):
            output.with_name(f"answer.{ending}").write_text(
                "what was there before", encoding="utf-8"
            )
    names = {
        "name not UTF-8": os.fsdecode(b"answer\xff\xfe"),
        "long name": "answer" + "n" * 230,
        "name too long": "answer" + "n" * 300,
    }
    return str(output.with_name(names.get(what, "answer"))), False


def shown(words: list[str]) -> str:
    """A command line for people, whatever bytes its words have."""
    text = " ".join(
        repr(w) if not w.isprintable() or " " in w or not w else w for w in ["turnbuckle", *words]
    )
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
