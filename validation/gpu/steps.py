#!/usr/bin/env python3
"""What is measured on a GPU machine, step by step: `run [STEP[:SECONDS]...]`, all steps that are
not finished where none is named.

    build      the recorder and the measuring program of Turnbuckle, and the programs of this folder
    look       a minute: whether the recorder records and delays rightly here, as a table of verdicts
    calibrate  what the link and the device do by themselves
    kernels    kernels of HPC classes, each timed on the device by events
    programs   each program timed bare, recorded in full and recorded lightly
    slack      each program with every call that crosses to the device really delayed
    proxy      the slack proxy by matrix size, threads and delay
    torch      PyTorch: training and inference, timed, recorded and delayed

A step is a list of jobs, each a process of its own.  One that fails or hangs is ended and noted,
and the next one begins; what is done is never repeated, so a step that was cut off goes on where it
stopped.  No step takes longer than its budget.  Needs Python 3.11, a C compiler, the driver, and
for the programs nvcc; nothing is downloaded, and no setting of the GPU is touched.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import builder

HERE = Path(__file__).resolve().parent
STEPS = ("build", "look", "calibrate", "kernels", "programs", "slack", "proxy", "torch")
SCRATCH = Path(tempfile.gettempdir()) / "turnbuckle-gpu"
#: Seconds of one step; a caller that allows ten minutes has room left to fetch what came out.
BUDGET = 540
#: Bytes of one archive, how many a step may have, and how many files one call may leave: a machine
#: may give back only a few.
PART, PARTS, FILES = 15 << 20, 4, 8
#: Every job gets this many seconds at least.
SHORTEST = 5.0
#: Programs of dependences.cu; all others are of programs.cu.
DEPENDENCES = ("launch", "copy", "synchronous", "overlapped", "beside", "turn", "reduce")
FINE_SLACKS = "0,1000,3000,10000,30000,100000,300000,1000000"
SLACKS = "0,1000,10000,100000,1000000"
LONG_SLACKS = f"{SLACKS},10000000"
LIGHT = "api,kernel,memcpy,memset,sync"
FULL = "api,driver,kernel,memcpy,memset,sync,event,memory,overhead,stream,device"


@dataclass(frozen=True)
class Job:
    """One process: name, command, environment beside the usual one, seconds it may take, files it
    must leave.
    """

    name: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    limit: float = 60.0
    keep: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where a step works, and what was built; what was not stands as ``?NAME``, and so do the jobs
    that need it.
    """

    work: Path
    built: dict[str, str]

    def injected(self, **settings: object) -> dict[str, str]:
        """Environment of a process with the recorder in it."""
        return {
            "CUDA_INJECTION64_PATH": self.built["recorder"],
            **{f"TB_{name}": str(value) for name, value in settings.items()},
        }

    def program(self, line: str, **more: object) -> tuple[str, ...]:
        """``"cg n=64"`` with further arguments as a command."""
        name, *words = line.split()
        given = dict(word.split("=", 1) for word in words) | {k: str(v) for k, v in more.items()}
        return (
            self.built["dependences" if name in DEPENDENCES else "programs"],
            name,
            *(f"{k}={v}" for k, v in given.items()),
        )

    def traced(
        self, name: str, line: str, iters: int, label: str, kinds: str, repeats: int = 1
    ) -> Job:
        """A recorded run of a program."""
        path = self.work / f"{name}.{label}.trace.csv"
        command = self.program(line, iters=iters, repeats=repeats, warmup=5)
        return Job(f"{name}.{label}", command, self.injected(TRACE=path, KINDS=kinds), 60, (path,))


# --- what the machine is --------------------------------------------------------------------------


def said(*command: str) -> str:
    """What a command prints; empty where it cannot be run."""
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=20, text=True, errors="replace", check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def clocks() -> dict[str, str]:
    """Clocks, power, temperature and link of the first GPU, as read."""
    limits = [
        f"pcie.link.{what}.{when}" for what in ("gen", "width") for when in ("current", "max")
    ]
    keys = [
        "clocks.sm",
        "clocks.mem",
        "clocks.max.sm",
        "clocks.max.mem",
        "power.draw",
        "temperature.gpu",
        "pstate",
        *limits,
    ]
    found = said(
        builder.smi() or "nvidia-smi", f"--query-gpu={','.join(keys)}", "--format=csv,noheader"
    ).splitlines()
    return dict(zip(keys, (v.strip() for v in found[0].split(",")), strict=False)) if found else {}


def machine() -> dict[str, object]:
    """GPU, driver, processor and date; no name of a host or a user."""
    about: dict[str, object] = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cores": os.cpu_count(),
        "kernel": os.uname().release,
        "arch": os.uname().machine,
    }
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        about["cpu"] = next(
            (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), ""
        )
        about["memory_kib"] = int(re.findall(r"\d+", Path("/proc/meminfo").read_text())[0])
    except (OSError, IndexError):
        pass
    gpu = said(
        builder.smi() or "nvidia-smi",
        "--query-gpu=name,driver_version,memory.total",
        "--format=csv,noheader",
    ).splitlines()
    if not gpu and (device := builder.device()):
        gpu = [f"{device['name']}, CUDA driver {device['driver']}"]
    return about | ({"gpu": gpu[0]} if gpu else {})


# --- jobs -----------------------------------------------------------------------------------------


def configurations(cublas: bool, managed: bool) -> dict[str, tuple[str, int]]:
    """Programs by name: arguments, and iterations of the recorded run."""
    found = {
        "dependence_launch": ("launch iters=500", 200),
        "dependence_copy": ("copy iters=500", 200),
        "dependence_synchronous": ("synchronous iters=5000", 1000),
        "dependence_overlapped": ("overlapped iters=1000", 400),
        "dependence_beside": ("beside iters=1000", 400),
        "dependence_turn": ("turn iters=1000", 400),
        "dependence_reduce": ("reduce iters=1000", 400),
        "dgemm_tiled": ("dgemm n=2048 iters=20", 10),
        "dgemm_resident": ("dgemm n=1024 iters=200 copy=0", 100),
        "vecadd_pinned": ("vecadd n=4194304 iters=100 mem=pinned", 50),
        "vecadd_pinned_async": ("vecadd n=4194304 iters=100 mem=pinned async=1", 50),
        "vecadd_pageable": ("vecadd n=4194304 iters=50 mem=pageable", 30),
        "vecadd_small": ("vecadd n=1024 iters=2000 mem=pageable", 1000),
        "jacobi_check1": ("jacobi nx=2048 ny=2048 iters=1000 every=1", 500),
        "jacobi_check10": ("jacobi nx=2048 ny=2048 iters=1000 every=10", 500),
        "pipeline_overlap": ("pipeline chunk=1048576 work=512 iters=300 streams=3", 150),
        "pipeline_serial": ("pipeline chunk=1048576 work=512 iters=300 streams=1", 150),
        "smallk_stream": ("smallk n=4096 kernels=50 iters=200 mode=stream", 60),
        "smallk_graph": ("smallk n=4096 kernels=50 iters=200 mode=graph", 60),
        "smallk_nosync": ("smallk n=4096 kernels=50 iters=200 mode=stream sync=0", 60),
        "cg": ("cg n=64 iters=500", 300),
        "cg_large": ("cg n=160 iters=200", 200),
        "proxy_512": ("proxy n=512 threads=1 iters=300", 100),
        "proxy_512_t4": ("proxy n=512 threads=4 iters=200 stream=own mem=pinned", 60),
    }
    if cublas:
        found["dgemm_cublas"] = ("dgemm n=4096 iters=20 mode=cublas", 10)
    # managed memory can hang a GPU that has too little left: only where it is asked for
    if managed:
        found["managed"] = ("managed bytes=33554432 iters=20", 10)
        found["managed_prefetch"] = ("managed bytes=33554432 iters=20 prefetch=1", 10)
    return found


def jobs(step: str, place: Place, managed: bool) -> tuple[list[Job], list[str]]:
    """The jobs of a step, the important ones first and managed memory last, and what cannot be done
    for want of a tool.
    """
    made: dict[str, tuple[tuple[str, ...], list[Job]]] = {
        "look": (("recorder",), _look(place)),
        "calibrate": (("microbench",), _calibrate(place)),
        "kernels": (("kernels",), _kernels(place, managed)),
        "programs": (("programs", "recorder"), _programs(place, managed)),
        "slack": (("programs", "recorder"), _slack(place, managed)),
        "proxy": (("programs", "recorder"), _proxy(place)),
        "torch": (("recorder",), _torch(place)),
    }
    needs, found = made.get(step, ((), []))
    missing = [f"{need} was not built" for need in needs if place.built[need].startswith("?")]
    able = [
        j
        for j in found
        if not any(word.startswith("?") for word in (*j.command, *j.environment.values()))
    ]
    return sorted(able, key=lambda j: j.name.startswith("managed")), missing


def _look(place: Place) -> list[Job]:
    built = place.work.parent / "built" / "built.json"
    return [
        Job(
            "look",
            (sys.executable, "-B", str(HERE / "look.py"), str(built), str(place.work)),
            {},
            420,
            (place.work / "look.txt",),
        )
    ]


def _calibrate(place: Place) -> list[Job]:
    program = place.built["microbench"]
    sections = (
        "launch",
        "sync",
        "copy",
        "device",
        "event",
        "host",
        "gap",
        "threshold",
        "alloc",
        "contention",
        "concurrent",
    )
    out = [Job(s, (program, s), {}, 150 if s == "copy" else 60) for s in sections]
    out += [
        Job("launch_again", (program, "launch"), {}, 60),
        Job("copy_again", (program, "copy", "quick=1"), {}, 60),
    ]
    return [
        *out,
        Job("torch_rates", (sys.executable, str(HERE / "torch_programs.py"), "rates"), {}, 90),
    ]


def _kernels(place: Place, managed: bool) -> list[Job]:
    """Kernels of HPC classes by size; what the first touch of managed memory costs only where that
    is asked for.
    """
    lines = [
        f"gemm n={n} precision={precision}"
        for n in (1024, 4096)
        for precision in ("fp64", "fp32", "fp16")
    ]
    lines += [f"stencil n={n}" for n in (128, 256, 384)] + [f"spmv n={n}" for n in (64, 128, 192)]
    lines += [f"reduction n=2^{power}" for power in (20, 23, 26)] + [
        f"sort power={power} iters=5" for power in (20, 24)
    ]
    named = {
        line.replace(" iters=5", "").replace(" ", "_").replace("=", "").replace("^", "to"): line
        for line in lines
    }
    if managed:
        named |= {f"managed_touch_{where}": f"touch first={where}" for where in ("host", "device")}
    return [
        Job(name, (place.built["kernels"], *line.split()), {}, 60) for name, line in named.items()
    ]


def _programs(place: Place, managed: bool) -> list[Job]:
    found = configurations(place.built.get("cublas") == "yes", managed)
    out = []
    for name, (line, iters) in found.items():
        out.append(Job(f"{name}.plain", place.program(line, repeats=5, cap_s=5), {}, 60))
        out.append(
            place.traced(
                name, line, iters, "full", FULL + (",uvm" if name.startswith("managed") else "")
            )
        )
    out += [
        place.traced(name, line, iters, "light", LIGHT, 3) for name, (line, iters) in found.items()
    ]
    return [
        *out,
        place.traced("smallk_graph", *found["smallk_graph"], "wholegraph", f"{LIGHT},graph"),
    ]


def _slack(place: Place, managed: bool) -> list[Job]:
    found = configurations(place.built.get("cublas") == "yes", managed)
    out = []
    far = ("vecadd_small", "cg", "jacobi_check10", "smallk_graph", "proxy_512", "pipeline_overlap")
    for name, (line, _) in found.items():
        counts = place.work / f"{name}.after.stats.json"
        slacks = (
            LONG_SLACKS
            if name in far
            else FINE_SLACKS
            if name.startswith("dependence_")
            else SLACKS
        )
        command = place.program(line, slacks=slacks, cap_s=1.2, repeats=3)
        out.append(Job(f"{name}.bare", place.program(line, repeats=3, cap_s=5), {}, 40))
        out.append(
            Job(
                f"{name}.after",
                command,
                place.injected(SLACK_NS=0, SLACK_STATS=counts),
                90,
                (counts,),
            )
        )
    ways: dict[str, dict[str, object]] = {
        "before": {"SLACK_WHERE": "before"},
        "copy_only": {"SLACK_CLASSES": "copy"},
        "launch_only": {"SLACK_CLASSES": "launch"},
        "sync_only": {"SLACK_CLASSES": "sync"},
    }
    for name in (
        "vecadd_small",
        "vecadd_pinned_async",
        "jacobi_check1",
        "jacobi_check10",
        "pipeline_overlap",
        "smallk_stream",
        "cg",
    ):
        for label, settings in ways.items():
            counts = place.work / f"{name}.{label}.stats.json"
            command = place.program(
                found[name][0], slacks="0,10000,100000,1000000", repeats=1, cap_s=1
            )
            out.append(
                Job(
                    f"{name}.{label}",
                    command,
                    place.injected(SLACK_NS=0, SLACK_STATS=counts, **settings),
                    60,
                    (counts,),
                )
            )
    return out


def _proxy(place: Place) -> list[Job]:
    out = [
        place.traced(f"n{n}_t{t}", f"proxy n={n} threads={t}", 20, "full", FULL)
        for n, t in ((512, 1), (2048, 1), (512, 4))
    ]
    for n, cap, repeats, slacks in (
        (512, 2, 2, LONG_SLACKS),
        (2048, 2, 2, LONG_SLACKS),
        (8192, 8, 1, SLACKS),
    ):
        for threads in (1, 2, 4, 8):
            line = f"proxy n={n} threads={threads} cap_s={cap}"
            out.append(Job(f"n{n}_t{threads}.bare", place.program(line, repeats=repeats), {}, 90))
            out.append(
                Job(
                    f"n{n}_t{threads}.slack",
                    place.program(line, repeats=repeats, slacks=slacks),
                    place.injected(SLACK_NS=0),
                    150,
                )
            )
    return out


def _torch(place: Place) -> list[Job]:
    program = (sys.executable, str(HERE / "torch_programs.py"))
    names = said(*program, "list").split()
    out = [
        Job(
            f"{n}.plain",
            (*program, "run", n, "--out", str(place.work)),
            {},
            90,
            (place.work / f"{n}.kineto.json.gz",),
        )
        for n in names
    ]
    for n in names:
        command = (
            *program,
            "run",
            n,
            "--out",
            str(place.work),
            "--repeats",
            "2",
            "--cap_s",
            "3",
            "--slacks",
            SLACKS,
        )
        out.append(
            Job(
                f"{n}.slack",
                command,
                place.injected(SLACK_NS=0, SLACK_STATS=place.work / f"{n}.stats.json"),
                90,
            )
        )
    return out


# --- running --------------------------------------------------------------------------------------


def run_job(job: Job, work: Path, deadline: float) -> dict[str, object]:
    """Run one job: its status (ok, failed, timeout, no_file), exit status, seconds, and the end of
    its error output.
    """
    environment = {
        **os.environ,
        **builder.environment(),
        "TB_DEADLINE": f"{deadline - 4:.0f}",
        **job.environment,
    }
    if "CUDA_INJECTION64_PATH" not in job.environment:
        environment.pop("CUDA_INJECTION64_PATH", None)
    began, status = time.monotonic(), "ok"
    errors = work / f"{job.name}.err"
    with (work / f"{job.name}.jsonl").open("wb") as out, errors.open("wb") as err:
        try:
            process = subprocess.Popen(
                job.command,
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=work,
                start_new_session=True,
            )
        except OSError as error:
            return {
                "name": job.name,
                "status": "failed",
                "rc": None,
                "wall_s": 0.0,
                "error": error.strerror or "cannot be started",
            }
        try:
            rc = process.wait(max(SHORTEST, min(job.limit, deadline + 8 - time.time())))
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # the job's own group, begun above
            rc = process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            status = "timeout"
    if status == "ok" and rc:
        status = "failed"
    elif status == "ok" and not all(path.exists() for path in job.keep):
        status = "no_file"
    tail = without_paths(errors.read_bytes()[-1500:].decode(errors="replace").strip())
    return {
        "name": job.name,
        "status": status,
        "rc": rc,
        "wall_s": round(time.monotonic() - began, 2),
        **({"tail": tail} if tail else {}),
    }


def without_paths(text: str) -> str:
    """Text with the last part of each path only."""
    return re.sub(r"(?:/[\w.+-]+){2,}", lambda m: m.group(0).rsplit("/", 1)[-1], text)


def medians(work: Path) -> dict[str, dict[str, float]]:
    """Median time of an iteration [ns] by job and delay, for a first look; delay -1 is without the
    recorder.
    """
    out = {}
    for path in sorted(work.glob("*.jsonl")):
        by: dict[str, list[float]] = {}
        for line in path.read_text(errors="replace").splitlines():
            try:
                told = json.loads(line)
                if isinstance(told, dict) and "wall_ns" in told:
                    by.setdefault(str(int(told.get("slack_ns", -1))), []).append(
                        float(told["per_iter_ns"])
                    )
            except (ValueError, KeyError, TypeError):
                continue
        if by:
            out[path.stem] = {k: round(statistics.median(v), 1) for k, v in by.items()}
    return out


def pack(step: str, work: Path, out: Path, parts: int = PARTS) -> tuple[list[str], list[str]]:
    """Write at most `parts` archives of at most `PART` bytes, long traces last; what was written,
    and what had no room.
    """
    files = [
        p
        for p in work.iterdir()
        if p.is_file() and p.stat().st_size and p.name != "done.json" and ".tmp." not in p.name
    ]
    sizes = {p: len(gzip.compress(p.read_bytes(), 6)) + 2048 for p in files}
    bins: list[list[Path]] = [[]]
    room, left = PART, []
    for path in sorted(files, key=lambda p: (p.name.endswith(".trace.csv"), sizes[p])):
        if sizes[path] > PART or (sizes[path] > room and len(bins) == parts):
            left.append(path.name)
            continue
        if sizes[path] > room:
            bins.append([])
            room = PART
        bins[-1].append(path)
        room -= sizes[path]
    written = []
    for number, paths in enumerate((b for b in bins if b), 1):
        name = f"{step}.tar.gz" if number == 1 else f"{step}-{number}.tar.gz"
        with tarfile.open(out / name, "w:gz", compresslevel=6) as archive:
            for path in paths:
                raw = path.read_bytes()
                about = tarfile.TarInfo(f"{step}/{path.name}")
                about.size, about.mode = len(raw), 0o644
                archive.addfile(about, BytesIO(raw))
        written.append(name)
    return written, left


def run_step(step: str, words: argparse.Namespace, budget: float, out: Path, parts: int) -> bool:
    """Run one step until it is done or its budget [s] is over, and pack it into at most `parts`
    archives; whether it is finished.
    """
    deadline, began = time.time() + budget, time.monotonic()
    scratch: Path = words.scratch
    work = scratch / step
    if words.fresh:
        shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    summary: dict[str, object] = {
        "kit": 2,
        "step": step,
        "machine": machine(),
        "clocks_begin": clocks(),
    }
    built = builder.build(scratch / "built", fresh=words.fresh and step == "build")
    summary["built"] = {k: without_paths(v) for k, v in built.items()}
    place = Place(
        work,
        {
            **{
                k: f"?{k}" for k in ("recorder", "programs", "dependences", "kernels", "microbench")
            },
            **built,
        },
    )
    found, missing = jobs(step, place, words.managed)
    found = [j for j in found if words.only in j.name]
    done_file = work / "done.json"
    done = (
        [r for r in json.loads(done_file.read_text()) if r["status"] == "ok"]
        if done_file.exists()
        else []
    )
    have, skipped = {r["name"] for r in done}, []
    for job in found:
        if job.name in have:
            continue
        if time.time() > deadline - 6:
            skipped.append(job.name)
            continue
        result = run_job(job, work, deadline)
        done.append(result)
        done_file.write_text(json.dumps(done))
        why = (
            ""
            if result["status"] == "ok"
            else "  " + str(result.get("tail", result.get("error", ""))).rpartition("\n")[2][:160]
        )
        print(
            (
                f"{time.monotonic() - began:6.1f} s  {result['status']:8} {result['wall_s']:7} s  "
                f"{job.name}{why}"
            ),
            flush=True,
        )
    bad = [r["name"] for r in done if r["status"] != "ok"]
    summary |= {
        "clocks_end": clocks(),
        "jobs": done,
        "skipped": skipped,
        "missing": missing,
        "median_per_iter_ns": medians(work),
    }
    finished = not skipped
    (work / "summary.json").write_text(json.dumps(summary, indent=1))
    archives, left = pack(step, work, out, parts)
    told = {
        "step": step,
        "finished": finished,
        "ok": len(done) - len(bad),
        "not_ok": bad,
        "skipped": skipped,
        "missing": missing,
    }
    told |= {"archives": archives, "left_out": left, "wall_s": round(time.monotonic() - began, 1)}
    (out / f"{step}.summary.json").write_text(json.dumps(summary | told, indent=1))
    if (verdicts := work / "look.txt").exists():
        print(verdicts.read_text(encoding="utf-8"), flush=True)
    print(json.dumps(told), flush=True)
    return finished and not missing


def main(arguments: list[str] | None = None) -> int:
    """0 all named steps are finished; 1 some are not: give the command again; 3 there is no GPU."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0], prog="run")
    parser.add_argument(
        "steps",
        nargs="*",
        metavar="STEP[:SECONDS]",
        help=f"{', '.join(STEPS)}; next: the first that is not finished; all if left out",
    )
    parser.add_argument(
        "--budget", type=float, default=BUDGET, help="seconds of one step (%(default)s)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=None,
        help="folder of the results ($OUT, or results/ beside this file)",
    )
    parser.add_argument(
        "--scratch",
        type=Path,
        default=Path(os.environ.get("TB_SCRATCH") or SCRATCH),
        help="work folder (%(default)s)",
    )
    parser.add_argument("--only", default="", help="only jobs whose name holds this")
    parser.add_argument(
        "--managed",
        action="store_true",
        help="unified memory too (32 MiB); it can hang a GPU that is nearly full",
    )
    parser.add_argument("--dry-run", action="store_true", help="list the jobs and stop")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier call finished")
    words = parser.parse_args(arguments)
    out = (words.out or Path(os.environ.get("OUT") or HERE / "results")).resolve()
    words.scratch = words.scratch.resolve()  # jobs run in folders of their own
    budgets: dict[str, float] = {}
    for word in words.steps:
        step, colon, seconds = word.partition(":")
        if step not in (*STEPS, "next"):
            parser.error(f"no step is called {step}: {', '.join(STEPS)}, next")
        if colon and not re.fullmatch(r"\d{1,5}", seconds):
            parser.error(f"{word}: the budget of a step is whole seconds, as {step}:300")
        budgets[step] = float(seconds) if colon else words.budget
    steps = [s for s in budgets if s != "next"] or list(STEPS)
    if words.dry_run:
        stand_in = Place(
            Path("work"),
            {
                "recorder": "librecorder.so",
                "programs": "programs",
                "dependences": "dependences",
                "kernels": "kernels",
                "microbench": "microbench",
                "cublas": "yes",
            },
        )
        for step in steps:
            found, _ = jobs(step, stand_in, words.managed)
            for job in found:
                settings = " ".join(f"{k}={v}" for k, v in job.environment.items())
                print(f"{step}: {job.name} | {settings} {shlex.join(job.command)}")
        return 0
    if not machine().get("gpu"):
        print(
            "error[V101]: no GPU to measure\n  found: neither nvidia-smi nor the driver names one\n"
            "  fix:   run this where a driver and a GPU are",
            file=sys.stderr,
        )
        return 3
    if not budgets or "next" in budgets:
        steps = [s for s in steps if words.fresh or not _finished(out, s)]
    if "next" in budgets:
        steps = steps[:1]
    parts = max(1, min(PARTS, FILES // max(1, len(steps)) - 1))  # beside each step's summary
    with held_open():
        finished = [run_step(s, words, budgets.get(s, words.budget), out, parts) for s in steps]
    return 0 if all(finished) else 1


@contextmanager
def held_open() -> Iterator[None]:
    """Keeps the device's file open: a driver that nobody uses lets go of the device, and may take a
    second to start it for every job.
    """
    file = None
    with suppress(OSError):
        file = os.open("/dev/nvidia0", os.O_RDWR)
    try:
        yield
    finally:
        if file is not None:
            os.close(file)


def _finished(out: Path, step: str) -> bool:
    try:
        return bool(json.loads((out / f"{step}.summary.json").read_text())["finished"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


if __name__ == "__main__":
    sys.exit(main())
