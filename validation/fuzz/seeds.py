"""Sound files of every format, from which the fuzzer starts.

The code that the tests use builds them, so that a clone of the repository suffices.  Where the
project's real traces stand beside the repository (``../shared/traces``), those below 2 MB are used
too.
"""

from __future__ import annotations

import gzip
import importlib
import io
import json
import lzma
import pkgutil
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "src" / "turnbuckle" / "examples"
SAMPLE = EXAMPLES / "milc-like-synthetic.sqlite"
TRACES = ROOT.parent / "shared" / "traces"
LARGEST_BYTES = 2_000_000
#: Real traces: folder below `TRACES` -> format, and which names are a recording's anchor.
REAL = {
    "nsys": ("nsys", (".sqlite",)),
    "nsys-local": ("nsys", (".sqlite",)),
    "kineto": ("kineto", (".json", ".json.gz")),
    "otf2": ("otf2", (".otf2",)),
    "otf2-local": ("otf2", (".otf2",)),
    "simgrid-local": ("paje", (".trace", ".trace.xz")),
    "dumpi": ("dumpi", (".meta",)),
    "nvprof": ("nvprof summary", (".txt", ".csv")),
    "rocprof": ("rocprof", (".json", ".json.gz", ".db", ".csv")),
    "chakra": ("chakra", (".et", ".json", ".json.gz")),
    "xplane": ("xplane", (".xplane.pb",)),
    "goal": ("goal", (".goal",)),
    "measured": ("measured", (".txt", ".csv", ".log")),
}
#: What every verb refuses, and with which code: a file that only names its recordings.
REFUSED = {"nvprof session": "P089"}


@dataclass(frozen=True, order=True)
class Seed:
    """A sound file, with the files that belong to it.

    Attributes
    ----------
    format : a reader's name, or what else the file is.
    name : of its folder among the seeds.
    folder : holds the file and what belongs to it, and nothing else.
    anchor : name of the file inside the folder, as a command is given it.
    member : what is inside an archive, as ``::a.json``.
    """

    format: str
    name: str
    folder: Path
    anchor: str
    member: str = ""


def helper(name: str) -> Any:
    """A module of the tests, by its name."""
    places = {str(path.parent) for path in (ROOT / "tests").rglob(f"{name}.py")} | {
        str(ROOT / "tests" / "builders")
    }
    sys.path += sorted(places - set(sys.path))
    return importlib.import_module(name)


#: Writes the files of one seed into a folder and returns the anchor.
Build = Callable[[Path], Path]


def text(name: str, content: str | bytes) -> Build:
    """A file with this content."""

    def build(folder: Path) -> Path:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder / name

    return build


def _copied(path: Path) -> Build:
    return text(path.name, path.read_bytes())


def _packed(name: str, content: bytes) -> Build:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        about = tarfile.TarInfo("a/trace.json")
        about.size = len(content)
        archive.addfile(about, io.BytesIO(content))
    return text(name, gzip.compress(held.getvalue(), mtime=0))


def _nsys() -> Iterator[tuple[str, str, Build]]:
    nsys = helper("build_nsys")
    for path in (EXAMPLES / "dgemm-like-synthetic.sqlite", SAMPLE):
        yield "nsys", path.stem, _copied(path)
    for schema in ("none", "3.0", "3.24"):
        yield (
            "nsys",
            f"schema {schema}",
            lambda folder, schema=schema: nsys.make(folder / "run.sqlite", schema),
        )  # type: ignore[misc]


def _kineto() -> Iterator[tuple[str, str, Build]]:
    kineto = helper("test_kineto")
    events = [
        event
        for k in range(12)
        for event in (kineto.copied if k % 3 else kineto.launched)(100.0 * k, k + 1)
    ]
    content = kineto.text(
        events, deviceProperties=[{"id": 0, "name": "card", "totalGlobalMem": 1 << 34}]
    ).encode()
    yield "kineto", "json", text("trace.json", content)
    yield "kineto", "json.gz", text("trace.json.gz", gzip.compress(content, mtime=0))
    yield "kineto", "archive", _packed("run.tar.gz", content)


def _amd() -> Iterator[tuple[str, str, Build]]:
    rocprof = helper("build_rocprof")

    def database(folder: Path) -> Path:
        rocprof.v1_database(folder / "results.db")
        return folder / "results.db"

    def rocpd(folder: Path, version: int) -> Path:
        made = helper("test_rocpd").Database(folder / "908_results.db", version=version).turns()
        made.db.commit()
        made.db.close()
        return Path(made.path)

    yield "rocprof", "database", database
    yield "rocprof", "json", text("results.json", rocprof.v1_json())
    yield "rocprof", "csv", text("results.csv", helper("test_rocprof").kernels_csv())
    yield (
        "rocprofv3",
        "json",
        text(
            "908_results.json", json.dumps({"rocprofiler-sdk-tool": [rocprof.v3(rocprof.turns())]})
        ),
    )
    yield "rocprofv3", "csv", lambda folder: helper("test_rocprof_csv").set_of_files(folder)
    for version in (3, 4):
        yield "rocpd", f"schema {version}", lambda folder, version=version: rocpd(folder, version)  # type: ignore[misc]


def _otf2(folder: Path) -> Path:
    built = helper("build_otf2")
    archive = built.Archive(chunk=1 << 10)
    send, receive, reduce = (
        archive.region(f"MPI_{name}", built.MPI) for name in ("Send", "Recv", "Allreduce")
    )
    first, second = threads = archive.ranks(2)
    for thread in threads:
        thread.offsets = [(0, 0)]
    for k in range(40):
        first.call(1000 * k + 10, 1000 * k + 20, send, (14, 1, 0, 7, 800 + k))
        second.call(1000 * k + 15, 1000 * k + 30, receive, (18, 0, 0, 7, 800 + k))
        for thread in threads:
            thread.collective(1000 * k + 100, 1000 * k + 200, reduce, built.ALLREDUCE, 0, 0)
    return Path(archive.write(folder))


def _mpi() -> Iterator[tuple[str, str, Build]]:
    paje, paraver, dumpi = helper("test_paje"), helper("test_paraver"), helper("test_dumpi")

    def packed(folder: Path) -> Path:
        place = paje.written(folder, paje.exchange())
        (folder / "run.trace.xz").write_bytes(lzma.compress(place.read_bytes()))
        place.unlink()
        return folder / "run.trace.xz"

    def pmpi(folder: Path) -> Path:
        helper("test_pmpi").test_messages(folder)
        return folder / "run-rank-0.dat"

    yield "otf2", "messages", _otf2
    yield "paje", "plain", lambda folder: paje.written(folder, paje.exchange())
    yield "paje", "packed", packed
    yield "paraver", "plain", lambda folder: paraver.written(folder, paraver.exchange())
    yield (
        "dumpi",
        "ring",
        lambda folder: dumpi.written(folder, [dumpi.exchange(rank) for rank in range(3)]),
    )
    yield "pmpi", "messages", pmpi


def _others() -> Iterator[tuple[str, str, Build]]:
    nvprof, chakra, own = helper("build_nvprof"), helper("test_chakra"), helper("test_own_folder")

    def folder_of(folder: Path, name: str) -> Path:
        from turnbuckle.trace.read import read

        trace = own.small() if name == "small" else read(SAMPLE, use_cache=False)
        trace.to_parquet(folder / "run.turnbuckle")
        return folder / "run.turnbuckle"

    nodes = [
        {
            "id": k,
            "name": f"aten::mm {k}",
            "start_ts": 100 * k,
            "duration": 50,
            "cat": "kernel",
            "tid": 1,
            "ctrl_deps": max(k - 1, 1),
        }
        for k in range(1, 9)
    ]
    yield "nvprof", "turns", lambda folder: nvprof.make(folder / "run.nvvp", nvprof.turns(20))
    yield "chakra", "protobuf", text("run.et", chakra.run())
    yield "chakra", "untimed", text("run.et", chakra.run(timed=False))
    yield (
        "chakra",
        "json",
        text("run.json", json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": nodes})),
    )
    stats = helper("test_nsys_stats")
    yield "xplane", "turns", text("run.xplane.pb", helper("build_xplane").turns(20))
    yield (
        "nsys_stats",
        "gpu",
        text("run_cuda_gpu_trace.csv", f"{stats.GPU}\n{stats.KERNEL}\n{stats.COPY}\n"),
    )
    yield "nvprof session", "xml", text("run.nvvp", helper("test_nvprof_bad").SESSION)
    recorded = helper("test_recorded_reader")
    yield "recorded", "opencl", _copied(EXAMPLES / "jacobi-opencl-pocl.trace.csv")
    yield "recorded", "kit", lambda folder: recorded.written(folder, recorded.lines())
    for name in ("small", "sample"):
        yield "turnbuckle", name, lambda folder, name=name: folder_of(folder, name)  # type: ignore[misc]


def _schedules() -> Iterator[tuple[str, str, Build]]:
    ti = helper("test_ti")
    first = (
        "init; compute 3000; isend 1 7 10 0; compute 500; irecv 1 8 10 0; wait 0 1 7; wait 1 0 "
        "8; allreduce 4 100 0; finalize"
    )
    second = "init; recv 0 7 10 0; send 0 8 10 0; allreduce 4 100 0; finalize"
    yield "goal", "ring", text("ring.goal", helper("test_model_messages").GOAL)
    yield "ti", "two ranks", lambda folder: ti.made(folder, first, second)


def _tables() -> Iterator[tuple[str, str, Build]]:
    """Files that a user writes: machines, networks, studies, cases, tables."""
    kernels, node, dag = (
        helper("test_model_kernels"),
        helper("test_model_node"),
        helper("test_model_dag"),
    )
    case, measured, formats, others = (
        helper(name)
        for name in (
            "test_validate",
            "test_measured",
            "test_measured_formats",
            "test_measured_others",
        )
    )

    def study(folder: Path) -> Path:
        for name in ("melt", "other"):
            shutil.copy(EXAMPLES / "dgemm-like-synthetic.sqlite", folder / f"{name}.sqlite")
        content = (
            helper("test_study_file")
            .GOOD.replace("deep/", "")
            .replace("machines/ours.toml", "pcie5-x16")
        )
        return text("study.toml", content)(folder)

    def validation(folder: Path) -> Path:
        question = 'model = "line"\ndirection = "d2h"\nmemory = "pinned"\nfrom_direction = "h2d"'
        return Path(
            case.case_at(
                folder,
                case.asking(question),
                "case",
                a=case.CURVE,
                b=case.CURVE.replace("h2d", "d2h"),
            )
        )

    network, cxl, summary = (
        helper("test_network_file"),
        helper("test_model_cxl"),
        helper("test_nvprof_summary"),
    )
    yield "machine", "ours", text("ours.toml", helper("test_machine_file").GOOD)
    yield (
        "machine",
        "catalogue",
        _copied(ROOT / "src" / "turnbuckle" / "machine" / "catalog" / "gh200.toml"),
    )
    yield "network", "parts", text("ours.toml", network.HEAD + network.NODE)
    yield "network", "gpus", text("ours.toml", helper("test_model_fabric").OURS)
    yield "study", "cards", study
    yield "case", "line", validation
    yield (
        "runs",
        "cores",
        text("runs.csv", "cores, run time [s]\n1, 186\n2, 152\n3, 136\n4, 128\n6, 123\n8, 122\n"),
    )
    yield "surface", "runs", text("runs.csv", helper("test_slack_surface").GOOD)
    yield (
        "starvation",
        "idle",
        text("idle.csv", "idle gap, cost\n# measured twice\n100 us, 2 us\n1 ms, 0.015 ms\n"),
    )
    # each is read beside the other
    for name in ("work", "memories"):
        yield name, "kernels", lambda folder, name=name: _kernels(kernels, folder) / f"{name}.csv"  # type: ignore[misc]
    yield "intervals", "kernels", text("intervals.csv", kernels.INTERVALS)
    yield (
        "parts",
        "power",
        text(
            "parts.csv",
            (
                "part, year, rate [TFLOP/s], power [W], source\na, 2016, 1, 100, me\n"
                "b, 2018, 2, 100,\nc, 2020, 4, 100, me\n"
            ),
        ),
    )
    yield "classes", "five", text("five.csv", node.FIVE)
    yield "communication", "twelve", text("twelve.csv", node.TWELVE)
    yield "chain", "stages", text("chain.toml", helper("test_chain").FILE)
    yield "chain", "cxl", text("chain.toml", cxl.CHAIN)
    yield "messages", "graph", text("graph.csv", helper("test_model_network").TABLE)
    yield "matrix", "laplace", lambda folder: _matrix(dag, folder)
    for name in ("PRINTED", "CSV", "OLD", "GPU_TRACE"):
        yield "nvprof summary", name.lower(), text("summary.txt", getattr(summary, name))
    tables = {
        measured: ("SHMOO", "QUICK", "HIP", "OSU", "LATENCY", "COPY", "TABLE"),
        formats: ("NVBANDWIDTH", "COPYLAT", "COPYBW", "NEW_NCCL", "OLD_NCCL", "PAGE"),
        others: ("ROCM", "ROCM_SIZES", "BABEL"),
    }
    for module, names in tables.items():
        for name in names:
            yield (
                "measured",
                name.lower(),
                text("page.md" if name == "PAGE" else "measured.txt", getattr(module, name)),
            )


def _kernels(kernels: Any, folder: Path) -> Path:
    for name, content in (("work.csv", kernels.WORK), ("memories.csv", kernels.MEMORIES)):
        (folder / name).write_text(content, encoding="utf-8")
    return folder


def _matrix(dag: Any, folder: Path) -> Path:
    line = dag.sp.diags_array(
        [-dag.np.ones(7), 2 * dag.np.ones(8), -dag.np.ones(7)], offsets=[-1, 0, 1]
    )
    whole = dag.sp.kron(line, dag.sp.eye_array(8)) + dag.sp.kron(dag.sp.eye_array(8), line)
    dag.scipy.io.mmwrite(folder / "square.mtx", dag.sp.tril(whole), symmetry="general")
    return folder / "square.mtx"


def _real(traces: Path) -> Iterator[tuple[str, str, Build]]:
    """Small real traces, each with all that stands in its folder where that is small too."""
    for part, (format, endings) in REAL.items():
        for path in sorted((traces / part).rglob("*")):
            if (
                not path.name.endswith(endings)
                or not path.is_file()
                or path.stat().st_size > LARGEST_BYTES
            ):
                continue
            beside = sum(p.stat().st_size for p in path.parent.rglob("*") if p.is_file())
            name = f"real {'-'.join(path.relative_to(traces).parts)}"
            yield (
                format,
                name,
                _copied(path)
                if beside > 2 * LARGEST_BYTES
                else lambda folder, path=path: _all(path, folder),
            )  # type: ignore[misc]


def _all(path: Path, folder: Path) -> Path:
    shutil.copytree(path.parent, folder, dirs_exist_ok=True, copy_function=shutil.copyfile)
    return folder / path.name


def plain(name: str) -> str:
    """A name for a folder."""
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in name)


def build(place: Path, *, real: Path | None = TRACES, only: str = "") -> list[Seed]:
    """Write all seeds into a folder, each into one of its own, and return them in a fixed order."""
    made: Iterable[Callable[[], Iterator[tuple[str, str, Build]]]] = (
        _nsys,
        _kineto,
        _amd,
        _mpi,
        _others,
        _schedules,
        _tables,
    )
    every = [entry for source in made for entry in source()]
    if real is not None and real.is_dir():
        every += _real(real)
    out = []
    for format, name, write in every:
        if only and format != only:
            continue
        folder = place / plain(f"{format} {name}")
        folder.mkdir(parents=True)
        anchor = write(folder)
        out.append(
            Seed(
                format,
                name,
                folder,
                anchor.relative_to(folder).as_posix(),
                "::a/trace.json" if name == "archive" else "",
            )
        )
    return sorted(out)


def wanted() -> set[str]:
    """Every format of a recording or a schedule that Turnbuckle reads: each must have a seed."""
    from turnbuckle.mpi import schedules
    from turnbuckle.trace.recorders import FORMATS

    modules = [
        importlib.import_module(f"{schedules.__name__}.{m.name}")
        for m in pkgutil.iter_modules(schedules.__path__)
    ]
    return set(FORMATS) | {m.__name__.rpartition(".")[2] for m in modules if hasattr(m, "read")}
