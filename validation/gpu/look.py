#!/usr/bin/env python3
"""A first look at the recorder on a real device, in a minute: what a stand-in cannot tell, each as
one line with a verdict.

    look.py BUILT.json FOLDER            (the step ``look`` of `run` does this)

BUILT.json is what `builder.build` left.  Small programs run bare, recorded and delayed; the
recordings, read here with nothing but Python, are held to what the programs themselves say they
did.  A verdict is ``ok``, ``BAD`` (a defect: mend it before anything else is measured), or ``note``
(a fact about this machine that a model or a page of the manual needs).  FOLDER gets ``look.json``,
``look.txt`` and the recordings.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import builder

HERE = Path(__file__).resolve().parent
LIMIT = 60.0
#: Kinds of records of the verb's default, and those that must not harm a recording.
DEFAULT = "api,driver,kernel,memcpy,memset,sync,event,memory,overhead,stream,device,nvtx"
SLACK_NS, MARK_NS = 20_000, 1000
#: Iterations of the program that is run in every way.
ITERATIONS = 100
#: Clocks that move apart by more within a minute were set, not steered [ns].
STEP_NS = 100_000


@dataclass
class Record:
    """A recording of one process: texts of facts by their first word, records by their letter, each
    a dict of whole numbers.
    """

    facts: dict[str, list[str]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    rows: dict[str, list[dict[str, int]]] = field(default_factory=dict)

    def number(self, word: str) -> int:
        """The last fact of a word as a number; 0 where it is none."""
        text = self.facts.get(word, ["0"])[-1]
        return int(text) if re.fullmatch(r"-?\d{1,18}", text) else 0

    def of(self, letter: str) -> list[dict[str, int]]:
        return self.rows.get(letter, [])


@dataclass(frozen=True)
class Ran:
    """One run: exit code (None: it did not end), seconds, what it printed, end of its error output,
    its recording.
    """

    name: str
    code: int | None
    seconds: float
    loops: list[dict[str, object]]
    errors: str
    record: Record | None
    stats: dict[str, object]

    def per_iteration(self, slack: int = -1) -> float:
        """Median time of an iteration [ns]; 0 where there is none."""
        found = [
            float(str(loop["per_iter_ns"]))
            for loop in self.loops
            if int(float(str(loop.get("slack_ns", -1)))) == slack
        ]
        return statistics.median(found) if found else 0.0


def read(path: Path) -> Record:
    """Read a recording; lines that are no records are left out."""
    out, columns = Record(), list[str]()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("#"):
            word, _, text = line[1:].partition(" ")
            out.facts.setdefault(word, []).append(text)
            if word == "name" and (found := re.fullmatch(r"(\d+) (.*)", text)):
                out.names[int(found[1])] = found[2]
        elif not columns:
            columns = line.split(",")
        else:
            letter, *values = line.split(",")
            try:
                row = {
                    name: int(value)
                    for name, value in zip(columns[1:], values, strict=True)
                    if value
                }
            except ValueError:
                continue
            out.rows.setdefault(letter, []).append(row)
    return out


def run(
    name: str, command: list[str], folder: Path, environment: dict[str, str], limit: float = LIMIT
) -> Ran:
    """Run a program to its end or its limit, and read what the recorder left."""
    trace, counts = folder / f"{name}.trace.csv", folder / f"{name}.stats.json"
    env = {
        k: v for k, v in os.environ.items() if not k.startswith("TB_") and "INJECTION" not in k
    } | builder.environment()
    if environment:
        env |= {"TB_TRACE": str(trace), "TB_SLACK_STATS": str(counts)} | environment
        if "TB_SLACK_NS" not in environment:
            del env["TB_SLACK_STATS"]
    for path in (trace, counts):
        path.unlink(missing_ok=True)
    began = time.monotonic()
    try:
        done = subprocess.run(
            command,
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
        )
        code, out, errors = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        code, out, errors = (
            None,
            (error.stdout or b"").decode(errors="replace"),
            (error.stderr or b"").decode(errors="replace"),
        )
    except OSError as error:
        code, out, errors = None, "", str(error)
    seconds = time.monotonic() - began
    loops = []
    for line in out.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and "per_iter_ns" in told:
            loops.append(told)
    stats = json.loads(counts.read_text()) if counts.exists() else {}
    return Ran(
        name,
        code,
        round(seconds, 2),
        loops,
        errors[-800:],
        read(trace) if trace.exists() else None,
        stats,
    )


# --- what is run ----------------------------------------------------------------------------------


def runs(built: dict[str, str], folder: Path) -> Iterator[Ran]:
    """All runs, the simplest first."""
    own = {"CUDA_INJECTION64_PATH": built["recorder"], "NVTX_INJECTION64_PATH": built["recorder"]}
    if dependences := built.get("dependences"):
        few = [f"iters={ITERATIONS}", "warmup=5", "repeats=3"]
        yield run("launch.bare", [dependences, "launch", *few], folder, {})
        yield run("launch", [dependences, "launch", *few], folder, own)
        yield run(
            "launch.cupti", [dependences, "launch", *few], folder, own | {"TB_CLOCK": "cupti"}
        )
        yield run(
            "launch.monotonic",
            [dependences, "launch", *few],
            folder,
            own | {"TB_CLOCK": "monotonic"},
        )
        yield run(
            "launch.light",
            [dependences, "launch", *few],
            folder,
            own | {"TB_KINDS": "api,kernel,memcpy,memset,sync"},
        )
        yield run(
            "latency",
            [dependences, "launch", "iters=20"],
            folder,
            own | {"TB_KINDS": f"{DEFAULT},latency,eventts"},
        )
        yield run("copy", [dependences, "copy", "iters=50"], folder, own)
        yield run("synchronous", [dependences, "synchronous", "iters=200"], folder, own)
        yield run("overlapped", [dependences, "overlapped", "iters=50"], folder, own)
        for where in ("after", "before"):
            delays = {"TB_SLACK_NS": "0", "TB_SLACK_WHERE": where}
            yield run(
                f"delayed.{where}",
                [dependences, "launch", "iters=50", f"slacks=0,{SLACK_NS}", "repeats=2"],
                folder,
                own | delays,
            )
    if programs := built.get("programs"):
        graph = [programs, "smallk", "n=4096", "kernels=20", "iters=20", "mode=graph", "warmup=2"]
        yield run("graph.node", graph, folder, own)
        yield run("graph.whole", graph, folder, own | {"TB_KINDS": f"{DEFAULT},graph"})
        yield run(
            "threads",
            [programs, "proxy", "n=512", "threads=4", "iters=10", "stream=own", "mem=pinned"],
            folder,
            own,
        )
        delayed = [
            programs,
            "proxy",
            "n=512",
            "threads=4",
            "iters=20",
            "stream=own",
            "mem=pinned",
            f"slacks=0,{SLACK_NS}",
            "repeats=2",
        ]
        yield run("delayed.threads", delayed, folder, own | {"TB_SLACK_NS": "0"})
        yield run(
            "pageable", [programs, "vecadd", "n=65536", "mem=pageable", "iters=20"], folder, own
        )
    torch = [
        sys.executable,
        str(HERE / "torch_programs.py"),
        "run",
        "infer_item",
        "--iters",
        "20",
        "--repeats",
        "1",
        "--no-trace",
    ]
    yield run("torch", torch, folder, own, 90)


# --- what it says ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """One line."""

    what: str
    how: str
    found: str


def verdicts(ran: dict[str, Ran]) -> Iterator[Verdict]:
    """All verdicts, run by run, then those that compare runs."""
    for name, one in ran.items():
        yield _ended(name, one)
        if one.record is not None and one.code == 0:
            yield from _whole(name, one.record)
            yield from _times(name, one.record)
            yield from _truth(name, one)
    yield from _costs(ran)
    yield from _delays(ran)


def _ended(name: str, one: Ran) -> Verdict:
    refused = one.record.facts.get("refused", [""])[-1] if one.record else ""
    if one.code == 0 and not refused:
        return Verdict(f"{name}: runs", "ok", f"{one.seconds} s")
    last = one.errors.strip().splitlines()[-1:] or [""]
    code = "it did not end" if one.code is None else f"ended with {one.code}"
    return Verdict(
        f"{name}: runs",
        "BAD",
        f"{code} after {one.seconds} s; refused: {refused or 'no'}; {last[0][:160]}",
    )


def _whole(name: str, record: Record) -> Iterator[Verdict]:
    """Whether the file has an end, and whether anything is missing in it."""
    kinds = [line for line in record.facts.get("kind", []) if line.endswith("refused")]
    header, library = record.number("cupti_header"), record.number("cupti_library")
    lost = {
        word: record.number(word)
        for word in ("dropped", "lost", "unknown", "notime", "slack_unwritten")
        if record.number(word)
    }
    if "unread" in record.facts:
        lost["unread " + record.facts["unread"][-1]] = 1
    good = "end" in record.facts and not kinds and not lost
    counts = ", ".join(f"{letter} {len(rows)}" for letter, rows in sorted(record.rows.items()))
    found = (
        f"{'whole' if 'end' in record.facts else 'no end'}; {lost or 'nothing lost'}; refused "
        f"{kinds or 'none'}; {counts}"
    )
    yield Verdict(f"{name}: records", "ok" if good else "BAD", found)
    if name == "launch":
        about = (
            f"header {header}, library {library}, {record.facts.get('timebase', ['?'])[-1]} "
            f"clock; {record.facts.get('buffers', ['?'])[-1]}"
        )
        yield Verdict(
            "CUPTI", "ok" if header // 100 == library // 100 or header == library else "BAD", about
        )


def _times(name: str, record: Record) -> Iterator[Verdict]:
    """Kernels and copies begin after their calls, and have times; calls of driver and runtime are
    told apart.
    """
    calls: dict[int, list[tuple[str, int]]] = {}
    for level in "AD":
        for row in record.of(level):
            calls.setdefault(row.get("corr", -1), []).append((level, row.get("start", 0)))
    for letter, word in (("K", "kernels"), ("C", "copies")):
        rows = record.of(letter)
        if not rows:
            continue
        timed = [r for r in rows if r.get("start", 0) > 0 and r.get("end", 0) >= r.get("start", 0)]
        matched = [
            (r, min(begun for _, begun in calls[r["corr"]]))
            for r in timed
            if r.get("corr", -2) in calls
        ]
        gaps = sorted(r["start"] - begun for r, begun in matched)
        early = sum(gap < 0 for gap in gaps)
        found = f"{len(rows)}: {len(timed)} timed, {len(matched)} with a call, {early} before it"
        found += (
            f"; after the call's begin by {gaps[0]} / {gaps[len(gaps) // 2]} / {gaps[-1]} ns"
            if gaps
            else ""
        )
        good = (
            len(timed) == len(rows)
            and len(matched) >= 0.99 * len(rows)
            and early <= len(rows) // 100
        )
        yield Verdict(f"{name}: {word} and calls", "ok" if good else "BAD", found)
    inner = sum({level for level, _ in found} == {"A", "D"} for found in calls.values())
    if name in ("launch", "copy", "torch"):
        seen = Counter(
            record.names.get(row.get("name", -1), "?") for row in record.of("D")
        ).most_common(6)
        yield Verdict(
            f"{name}: driver calls in runtime calls",
            "note",
            f"{inner} of {len(calls)} numbers are of both; driver calls {seen}",
        )


#: Records per iteration of the programs of dependences.cu: calls that wait, kernels, copies.
TRUTH = {
    "launch": (1, 64, 0),
    "copy": (0, 0, 10),
    "synchronous": (1, 1, 0),
    "overlapped": (0, 1, 2),
}


def _truth(name: str, one: Ran) -> Iterator[Verdict]:
    """What is recorded in the last timed loop beside what the program did in it."""
    record, program = one.record, name.partition(".")[0]
    if record is None or not one.loops or program not in (*TRUTH, "graph", "threads", "pageable"):
        return
    loop = one.loops[-1]
    begin, end, iters = (int(float(str(loop[key]))) for key in ("t0_ns", "t1_ns", "iters"))
    ahead = _ahead(record)
    # clocks are compared to some tens of ns, and nothing is called between the mark and the loop
    begin -= MARK_NS
    inside = {
        r["corr"]
        for letter in "AD"
        for r in record.of(letter)
        if begin <= r.get("start", 0) - ahead <= end and "corr" in r
    }
    have = {
        letter: sum(r.get("corr", -1) in inside for r in record.of(letter)) for letter in "KCYG"
    }
    if program in TRUTH:
        waits, kernels, copies = (n * iters for n in TRUTH[program])
    else:
        calls, inner = loop.get("calls", {}), int(str(loop.get("kernels_in_graphs", 0)))
        assert isinstance(calls, dict)
        whole = name == "graph.whole"
        waits, copies = int(calls.get("sync", 0)), int(calls.get("copy", 0))
        kernels = int(calls.get("launch", 0)) + (0 if whole else inner)
        if whole:
            good = have["G"] == int(calls.get("graph", 0))
            yield Verdict(
                f"{name}: whole graphs",
                "ok" if good else "BAD",
                f"{have['G']} recorded, {calls.get('graph', 0)} launched",
            )
    told = (
        f"kernels {have['K']} of {kernels}, copies {have['C']} of {copies}, waits {have['Y']} of "
        f"at least {waits}"
    )
    good = have["K"] == kernels and have["C"] == copies and have["Y"] >= waits
    yield Verdict(f"{name}: as the program did", "ok" if good else "BAD", told)


def _clocks(record: Record | None) -> list[tuple[int, int, int]]:
    """Our time, CUPTI's less ours, and how well both are known [ns], as often as the recorder
    looked.
    """
    lines = record.facts.get("clock", []) if record else []
    found = [
        re.fullmatch(r"(-?\d{1,19}) (-?\d{1,19}) -?\d{1,19} (-?\d{1,19})", line) for line in lines
    ]
    return [(int(match[1]), int(match[2]), int(match[3])) for match in found if match]


def _ahead(record: Record) -> int:
    """How far the clock of the records is ahead of the recorder's [ns]."""
    clocks = sorted(away for _, away, _ in _clocks(record))
    return (
        clocks[len(clocks) // 2]
        if clocks and record.facts.get("timebase", [""])[-1] == "cupti"
        else 0
    )


def _costs(ran: dict[str, Ran]) -> Iterator[Verdict]:
    """What recording costs a program that does little but call."""
    bare = ran["launch.bare"].per_iteration() if "launch.bare" in ran else 0
    for name in ("launch", "launch.light", "launch.cupti", "launch.monotonic"):
        if bare and name in ran and (recorded := ran[name].per_iteration()):
            more = (recorded - bare) / 65
            yield Verdict(
                f"{name}: cost of recording",
                "note",
                f"{recorded / bare:.2f} of {bare:.0f} ns an iteration: {more:.0f} ns a call",
            )
    for name in ("launch", "launch.cupti"):
        clocks = _clocks(ran[name].record if name in ran else None)
        if len(clocks) > 1:
            away, seconds = [a for _, a, _ in clocks], (clocks[-1][0] - clocks[0][0]) * 1e-9
            moved = (
                f"CUPTI's less ours moved by {max(away) - min(away)} ns in {seconds:.1f} s, known "
                f"to {clocks[-1][2]} ns"
            )
            yield Verdict(
                f"{name}: clocks", "note" if max(away) - min(away) < STEP_NS else "BAD", moved
            )


#: Calls of an iteration that are delayed, and what of it may be felt: beside each other, threads
#: must not wait for each other's delays.
DELAYED = {
    "delayed.after": (65, 0.9, 1.1),
    "delayed.before": (65, 0.9, 1.1),
    "delayed.threads": (5, 0.2, 1.5),
}


def _delays(ran: dict[str, Ran]) -> Iterator[Verdict]:
    """Every call that crosses is delayed once, by the delay."""
    for name, (per_turn, least, most) in DELAYED.items():
        one = ran.get(name)
        if one is None or not one.stats or len(one.loops) < 2:
            continue
        marks = one.stats.get("marks")
        assert isinstance(marks, list)
        for loop, begun, ended in zip(one.loops, marks[::2], marks[1::2], strict=False):
            delay, iters = int(float(str(loop["slack_ns"]))), int(str(loop["iters"]))
            calls = sum(ended["calls"].values()) - sum(begun["calls"].values())
            waited = sum(ended["waited_ns"].values()) - sum(begun["waited_ns"].values())
            each = waited / calls if calls else 0
            good = calls == int(str(loop["boundary_calls"])) and (
                not delay or delay <= each < delay + 1000
            )
            found = (
                f"{calls} calls of {loop['boundary_calls']}, each held {each:.0f} ns; "
                f"{float(str(loop['per_iter_ns'])):.0f} ns a turn"
            )
            yield Verdict(f"{name}: {delay} ns, {iters} iterations", "ok" if good else "BAD", found)
        still, slow = one.per_iteration(0), one.per_iteration(SLACK_NS)
        felt, inner = (slow - still) / (per_turn * SLACK_NS), one.stats.get("nested_not_delayed")
        words = f"{felt:.3f} of the delay of {per_turn} calls; calls in calls {inner}"
        yield Verdict(f"{name}: felt", "ok" if least < felt < most else "BAD", words)


# --- the machine ----------------------------------------------------------------------------------


def facts(built: dict[str, str]) -> Iterator[Verdict]:
    """What there is to build and run with."""

    def said(word: str, *command: str) -> str:
        """The first line that has a word in it."""
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return "not there"
        return next(
            (line[:120] for line in (done.stdout + done.stderr).splitlines() if word in line),
            f"ended with {done.returncode}",
        )

    chain = builder.toolchain()
    found = [
        cupti.label
        for place in dict.fromkeys(chain.folders())
        if place.is_dir() and (cupti := chain.cupti_in(place))
    ]
    yield Verdict("python", "note", sys.version.split()[0])
    yield Verdict("nvcc", "note", said("release", "nvcc", "--version"))
    yield Verdict("C compiler", "note", said(".", "cc", "--version"))
    place = (
        "found by the loader"
        if not builder.environment()
        else "in a folder that the loader does not know"
    )
    yield Verdict("driver", "note", f"{builder.device() or 'none'}; its library is {place}")
    yield Verdict(
        "CUPTI here",
        "ok" if found else "BAD",
        f"{', '.join(found) or 'none'}; built against {built.get('cupti', 'none')}",
    )
    for name in ("recorder", "microbench", "dependences", "programs"):
        yield Verdict(
            f"{name} built",
            "ok" if name in built else "BAD",
            built.get(f"no_{name}", "")[-160:].replace("\n", " | "),
        )
    yield Verdict("cuBLAS", "note", built.get("cublas", "no"))


def lengths(folder: Path) -> Iterator[Verdict]:
    """CUPTI's own iterator steps by the lengths of the records that the recorder reads."""
    chain = builder.toolchain()
    source = HERE.parents[1] / "tests" / "recorder" / "real_cupti.c"
    try:
        cupti = builder.chosen(chain)
        text = "".join(
            p.read_text(encoding="utf-8", errors="replace")
            for p in cupti.includes[0].glob("cupti_activity*.h")
        )
        headers = [word for path in cupti.includes for word in ("-isystem", str(path))]
        words = [
            *chain.compiler(),
            "-std=gnu11",
            *chain.record_options(text),
            *headers,
            "-idirafter",
            str(chain.stand_ins()),
        ]
        words += [
            str(source),
            str(cupti.library),
            f"-Wl,-rpath,{cupti.library.parent}",
            "-ldl",
            "-o",
            str(folder / "real_cupti"),
        ]
        subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
        env = os.environ | builder.environment()
        said = subprocess.run(
            [str(folder / "real_cupti")],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
    except Exception as error:
        yield Verdict("lengths of records", "BAD", str(error)[-200:])
        return
    finally:
        (folder / "real_cupti").unlink(missing_ok=True)
    rows = [line.split() for line in said.splitlines() if len(line.split()) == 3]
    wrong = [row for row in rows if row[1] != row[2]]
    yield Verdict(
        "lengths of records",
        "ok" if rows and not wrong else "BAD",
        f"{len(rows)} kinds, wrong: {wrong or 'none'}",
    )


def main(arguments: list[str]) -> int:
    """0 where no verdict is BAD, else 1."""
    built = json.loads(Path(arguments[0]).read_text())
    folder = Path(arguments[1])
    folder.mkdir(parents=True, exist_ok=True)
    told: list[Verdict] = []

    def tell(verdict: Verdict) -> None:
        told.append(verdict)
        print(f"{verdict.how:4} {verdict.what}: {verdict.found}", flush=True)

    ran: dict[str, Ran] = {}
    try:
        for verdict in [*facts(built), *lengths(folder)]:
            tell(verdict)
        if "recorder" in built:
            ran = {one.name: one for one in runs(built, folder)}
            for verdict in verdicts(ran):
                tell(verdict)
    finally:
        lines = [f"{v.how:4} {v.what}: {v.found}" for v in told]
        (folder / "look.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        every = [{"what": v.what, "verdict": v.how, "found": v.found} for v in told]
        runs_told = [
            {
                "name": r.name,
                "rc": r.code,
                "wall_s": r.seconds,
                "loops": r.loops,
                "errors": r.errors,
            }
            for r in ran.values()
        ]
        (folder / "look.json").write_text(
            json.dumps({"verdicts": every, "runs": runs_told}, indent=1), encoding="utf-8"
        )
    return int(any(v.how == "BAD" for v in told))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
