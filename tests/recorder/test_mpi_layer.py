"""The MPI layer on a real MPI: programs that know what they do, recorded, and read back with the
place of every buffer.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from recorder_bench import WARNINGS, Bench, Said, missing

from turnbuckle.cli import run as cli_run
from turnbuckle.foundation.errors import NativeError
from turnbuckle.foundation.schema import words
from turnbuckle.mpi.questions.messages.question import paths
from turnbuckle.mpi.questions.messages.setup import Setup
from turnbuckle.mpi.replay.messages import recorded as traffic_of
from turnbuckle.profile.dependencies.sides import activities
from turnbuckle.profile.messages.staging_pairs import staging_pairs
from turnbuckle.profile.profile import build
from turnbuckle.recorder import mpi_layer, opencl_layer
from turnbuckle.recorder.command import record
from turnbuckle.trace import read
from turnbuckle.trace.ids import process_of
from turnbuckle.trace.readers.recorded import reader as recorded
from turnbuckle.trace.trace import Trace

HERE = Path(__file__).resolve().parent
LIMIT_SECONDS = 300
PLACES = {word: code for code, word in enumerate(words("memories"))}
#: A container's user may be root, and have one core.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl_base_warn_component_unused": "0",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the layer and the programs, built with warnings as errors."""
    if not shutil.which("mpicc") or not shutil.which("mpirun"):
        missing("MPI")
    mpicc, *_ = compiler = mpi_layer.compiler([])
    folder = tmp_path_factory.mktemp("mpi")
    mpi_layer.build(compiler, folder / mpi_layer.LIBRARY)
    for name, libraries in (
        ("mpi_ping_pong", ["-lOpenCL", "-pthread"]),
        ("mpi_places", ["-ldl"]),
        ("mpi_fortran", ["-lmpi_mpifh"]),
    ):
        done = subprocess.run(
            [
                mpicc,
                *WARNINGS,
                "-Wno-stringop-overflow",
                str(HERE / f"{name}.c"),
                *libraries,
                "-o",
                str(folder / name),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode and ("CL/cl.h" in done.stderr or "-lOpenCL" in done.stderr):
            missing("OpenCL's headers and loader")
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def here(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    for name in [
        n
        for n in os.environ
        if n.startswith(("TB_", "OPENCL_", "OMPI_", "PMIX_", "PMI_", "SLURM_", "LD_PRELOAD"))
    ]:
        monkeypatch.delenv(name)
    for name, value in {**OPEN_MPI, "POCL_CACHE_DIR": str(built / "kernels")}.items():
        monkeypatch.setenv(name, value)
    yield tmp_path


def plain(
    built: Path,
    folder: Path,
    *arguments: str,
    ranks: int = 1,
    program: str = "mpi_places",
    **environment: str,
) -> list[Path]:
    """Run a program under the layer alone, and return its files."""
    env = {
        **os.environ,
        **mpi_layer.environment(built / mpi_layer.LIBRARY, {}),
        "TB_TRACE": str(folder / "%p.trace.csv"),
        **environment,
    }
    done = subprocess.run(
        ["mpirun", "-n", str(ranks), str(built / program), *arguments],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return sorted(folder.glob("*.trace.csv*"))


def calls(trace: Trace, rank: int) -> pl.DataFrame:
    """Return the MPI calls of a rank, with their names."""
    rows = trace.mpi.with_columns(
        call=trace.text(trace.mpi.select("name")).str.to_lowercase().str.strip_prefix("mpi_")
    )
    thread = trace.mpi_ranks.filter(pl.col("rank") == rank)["thread"].item()
    return rows.filter(process_of(pl.col("thread")) == process_of(thread))


def test_no_mpi_library_is_linked(built: Path) -> None:
    """The layer is loaded into shells, launchers and programs without MPI too."""
    layer = built / mpi_layer.LIBRARY
    assert b"libmpi" not in re.sub(rb"libturnbuckle-mpi\S*", b"", layer.read_bytes())
    done = subprocess.run(
        ["true"],
        env={**os.environ, "LD_PRELOAD": str(layer), "LD_BIND_NOW": "1"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_kernels_copies_and_messages_of_one_run(
    built: Path, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if not any(Path("/etc/OpenCL/vendors").glob("*.icd")):
        missing("an OpenCL runtime (PoCL)")
    assert (
        record("mpirun", "-n", "2", str(built / "mpi_ping_pong"), opencl=True, output=here / "run")
        == 0
    )
    printed, said = capfd.readouterr()
    shared = "svm 1" in printed
    assert "rows of MPI calls" in said
    trace = read(here / "run")
    assert trace.facts["recorder"]["processes"] == 2 and trace.mpi_ranks[
        "rank"
    ].sort().to_list() == [0, 1]
    for rank, (first, second) in enumerate((("send", "recv"), ("recv", "send"))):
        of_rank = calls(trace, rank)
        between = of_rank.filter(pl.col("kind") == 0)
        assert between["call"].to_list() == [first, second] * 20 and between["tag"].to_list() == [
            n // 2 for n in range(40)
        ]
        assert between["size_bytes"].unique().to_list() == [40000] and between[
            "partner"
        ].unique().to_list() == [1 - rank]
        assert between["memory"].unique().to_list() == [PLACES["pageable"]]
        assert of_rank["call"][0] == "init_thread" and of_rank["call"][-1] == "finalize"
        assert (
            of_rank.filter(pl.col("call") == "bcast")["memory"].to_list()
            == [PLACES["managed"]] * shared
        )
    # on the clock of the copies: rank 0 reads its device before each send
    sends = calls(trace, 0).filter(pl.col("call") == "send")
    reads = trace.copies.filter(
        pl.col("process") == process_of(sends["thread"][0]),
        pl.col("source_memory") == PLACES["device"],
    )
    assert (reads["end_ns"] <= sends["start_ns"]).all() and (
        reads["start_ns"][1:] >= sends["end_ns"][:-1]
    ).all()
    profile = build(trace)
    pairs = staging_pairs(activities(profile), trace)
    assert len(pairs) == 40 and pairs.sends.sum() == 20, (
        "each of rank 0's messages is staged by the copy beside it"
    )


def test_every_kind_of_call(built: Path, here: Path) -> None:
    assert (
        record(
            "mpirun",
            "-n",
            "2",
            str(built / "mpi_ping_pong"),
            "calls",
            opencl=True,
            output=here / "run",
        )
        == 0
    )
    trace = read(here / "run")
    traffic = traffic_of(build(trace))
    assert (len(traffic.messages.send), traffic.unmatched) == (25, 0), (
        "each message that the program sends has both sides"
    )
    assert {round.operation for round in traffic.rounds} == {
        "bcast",
        "allreduce",
        "reduce",
        "gather",
        "allgather",
        "alltoall",
    }
    one = calls(trace, 1)

    def row(call: str, **where: int) -> dict[str, object]:
        return one.filter(
            pl.col("call") == call, *(pl.col(name) == value for name, value in where.items())
        ).row(0, named=True)

    assert row("recv", tag=30)["size_bytes"] == 24 and row("recv", tag=30)["partner"] == 1, (
        "its partner's place in that communicator"
    )
    assert row("recv", tag=31)["partner"] == 0, "a receive from anyone tells whom it was from"
    assert (
        row("recv", tag=80)["size_bytes"] == 16
        and row("recv", tag=80)["memory"] == PLACES["pageable"]
    ), "a type with holes, from MPI_BOTTOM"
    nobody = one.filter(pl.col("kind") == 0, pl.col("partner").is_null())
    assert nobody["call"].to_list() == ["send", "recv"]
    assert one.filter(pl.col("call") == "sendrecv")["size_bytes"].to_list() == [32, 32]
    waited = one.filter(pl.col("call") == "waitall")["request"].to_list()
    assert len(set(waited[:4])) == 4 and waited[4:6] == waited[6:8] == waited[8:10], (
        "a request is one number, each time it is started"
    )
    assert (row("allreduce")["size_bytes"], row("allreduce")["receive_bytes"]) == (64, 64), (
        "as Score-P counts: of all members"
    )
    assert one.filter(pl.col("call") == "test").height < 1000, (
        "10,000 polls; more than one row where another program had the core"
    )
    assert row("reduce")["receive_bytes"] == 0 and row("bcast")["root"] == 1
    assert {f.code: f.count for f in trace.findings}["P221"] == 4
    assert "2 on intercommunicators" in next(f.detail for f in trace.findings if f.code == "P221")


def test_a_recording_for_each_rank(built: Path, here: Path) -> None:
    """``mpirun turnbuckle record``, and then one run of all."""
    words_ = [
        "mpirun",
        "-n",
        "2",
        sys.executable,
        "-m",
        "turnbuckle",
        "record",
        "--opencl",
        "-o",
        "out.%r",
        "--",
        str(built / "mpi_ping_pong"),
        "calls",
    ]
    done = subprocess.run(
        words_, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert [read(here / f"out.{rank}").facts["rank"] for rank in (0, 1)] == [0, 1]
    assert cli_run.run(["merge", "out.0", "out.1", "-o", "run"]) == 0
    merged = read(here / "run")
    traffic = traffic_of(build(merged))
    assert (traffic.ranks, len(traffic.messages.send), traffic.unmatched) == (2, 25, 0)
    assert merged.table("processes")["shift_ns"].to_list() == [0, 0], (
        "one clock, whatever the ends of the calls look like"
    )
    parts = [read(here / f"out.{rank}") for rank in (0, 1)]
    apart = parts[1].facts["base_ns"] - parts[0].facts["base_ns"]
    first, second = merged.table("processes")["offset_ns"]
    assert second - first == apart


def test_threads_that_send_at_once(built: Path, here: Path) -> None:
    """Requests of several threads are told apart, though the library may give them one handle."""
    trace = recorded.together(plain(built, here, "threads", ranks=2, program="mpi_ping_pong"))
    rows = trace.mpi.with_columns(process=process_of(pl.col("thread")))
    posts = rows.filter(pl.col("kind") == 0)
    assert posts.height == 2 * 4 * 2 * 100 and posts.filter(pl.col("request").is_null()).is_empty()
    waits = rows.filter(pl.col("kind") == 2).select("process", "request")
    assert waits.n_unique() == waits.height == posts.height, "each request is completed once"
    on_thread = posts.select("process", "request", own="thread")
    both = rows.filter(pl.col("kind") == 2).join(on_thread, on=["process", "request"])
    assert (both["thread"] == both["own"]).mean() > 0.9
    received = posts.filter(pl.col("name") == trace.names.to_list().index("MPI_Irecv"))
    assert (received["size_bytes"] == 8 * (1 + received["tag"] % 2)).all(), (
        "what came, not what there was room for"
    )
    traffic = traffic_of(build(trace))
    assert (len(traffic.messages.send), traffic.unmatched) == (800, 0)


def test_a_run_that_is_aborted_keeps_what_it_did(
    built: Path, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (
        record(
            "mpirun",
            "-n",
            "2",
            str(built / "mpi_ping_pong"),
            "abort",
            opencl=True,
            output=here / "run",
        )
        == 7
    )
    trace = read(here / "run")
    assert trace.text(trace.mpi.select("name")).to_list().count("MPI_Barrier") >= 1 and "P191" in {
        f.code for f in trace.findings
    }


def test_calls_of_fortran(built: Path, here: Path) -> None:
    """Open MPI's functions for Fortran call PMPI, which is the layer's too."""
    trace = recorded.together(plain(built, here, ranks=2, program="mpi_fortran"))
    for rank in (0, 1):
        rows = calls(trace, rank)
        assert rows["call"].to_list() == [
            "init",
            "isend",
            "recv",
            "wait",
            "allreduce",
            "finalize",
        ], "each once"
        assert (
            rows["size_bytes"].to_list()[1:3] == [32, 32]
            and rows["memory"].to_list()[1:3] == [PLACES["pageable"]] * 2
        )
    assert not trace.findings or {f.code for f in trace.findings} <= {"P123"}


def test_a_program_that_never_begins_mpi_leaves_nothing(built: Path, here: Path) -> None:
    with pytest.raises(NativeError, match="N019"):
        record(str(built / "mpi_ping_pong"), "nothing", opencl=True, mpi=True)
    assert not list(here.glob("*.turnbuckle"))


def test_where_buffers_are_by_cuda(built: Path, bench: Bench, here: Path) -> None:
    """The driver is loaded after the first message; its recorder and the MPI layer write of one
    process.
    """
    files = plain(
        built,
        here,
        str(bench.driver / "libcuda.so.1"),
        CUDA_INJECTION64_PATH=str(bench.library),
        LD_LIBRARY_PATH=str(bench.driver),
    )
    assert len(files) == 2
    trace = recorded.together(files)
    assert (
        trace.facts["recorder"]["processes"] == 1
        and trace.copies.height == 1
        and trace.allocations.height == 3
    )
    assert places(trace) == CUDA_PLACES
    assert trace.api["thread"].unique().to_list() == trace.mpi["thread"].unique().to_list(), (
        "one thread is one track"
    )
    assert trace.copies["process"].item() == process_of(trace.mpi["thread"][0])


def test_cuda_and_mpi_in_one_command(
    built: Path, bench: Bench, verb: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``turnbuckle record -- mpirun``: a file of each recorder in one process, one trace."""
    for name, value in OPEN_MPI.items():
        monkeypatch.setenv(name, value)
    said = verb(
        "record",
        "-o",
        "run",
        "--",
        "mpirun",
        "-n",
        "1",
        built / "mpi_places",
        bench.driver / "libcuda.so.1",
    )
    assert said.code == 0, said.err
    assert (
        "rows of MPI calls" in said.err and "1 copies" in said.err and "of 1 process in" in said.err
    )
    trace = Trace.from_parquet(Path("run"))
    assert places(trace) == CUDA_PLACES and trace.copies.height == 1
    without = verb(
        "record",
        "--no-mpi",
        "-o",
        "bare",
        "--",
        "mpirun",
        "-n",
        "1",
        built / "mpi_places",
        bench.driver / "libcuda.so.1",
    )
    assert without.code == 0 and Trace.from_parquet(Path("bare")).mpi.is_empty()


CUDA_PLACES = {
    0: ("pageable", "pageable"),
    1: ("device", "pageable"),
    2: ("device", "pinned"),
    3: ("managed", "pageable"),
    4: ("pageable", "pageable"),
    -1: ("device", "pageable"),
}


def places(trace: Trace) -> dict[int, tuple[str, str]]:
    """Return where the buffers of each exchange are, by its tag; -1 for the collective."""
    named = words("memories")
    rows = calls(trace, 0)
    both = (
        rows.filter(pl.col("call") == "sendrecv").group_by("tag", maintain_order=True).agg("memory")
    )
    out = {tag: (named[memory[0]], named[memory[1]]) for tag, memory in both.iter_rows()}
    collective = rows.filter(pl.col("kind") == 1).row(0, named=True)
    return {**out, -1: (named[collective["memory"]], named[collective["receive_memory"]])}


def compiled(library: Path, *words: str | Path) -> str:
    """Compile a stand-in for a library of a GPU, and return its path."""
    subprocess.run(
        ["gcc", "-O0", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", *words, "-o", library],
        check=True,
    )
    return str(library)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("libamdhip64.so.6", ["-DHIP=6"]),
        ("libamdhip64.so.5", ["-DHIP=5"]),
        ("libhsa-runtime64.so.1", []),
    ],
    ids=str,
)
def test_where_buffers_are_by_amd(built: Path, here: Path, name: str, options: list[str]) -> None:
    library = compiled(here / name, *options, HERE / "standin_places.c")
    found = places(recorded.together(plain(built, here, library)))
    # HSA has no word for managed memory: it is that of the processor's agent
    assert found == ({**CUDA_PLACES, 3: ("pinned", "pageable")} if "hsa" in name else CUDA_PLACES)


def test_a_verdict_stands_on_recorded_buffers(built: Path, here: Path) -> None:
    """Two ranks exchange what AMD's library places: of 22 ends 6 in device memory; without a
    recording all would be taken to be there.
    """
    library = compiled(here / "libamdhip64.so.6", "-DHIP=6", HERE / "standin_places.c")
    traffic = traffic_of(build(recorded.together(plain(built, here, library, ranks=2))))
    found = paths(traffic, ranks_per_node=[1])
    said = "buffers as recorded: 6 in device memory, 2 in unified memory, 14 in host memory"
    assert found.buffers == said and found.verdict.sentence.endswith(said)
    assert 0 < found.gain(1) < paths(traffic, Setup(buffers="device"), ranks_per_node=[1]).gain(1)


def test_a_library_that_cannot_be_asked_leaves_places_unknown(built: Path, here: Path) -> None:
    library = compiled(here / "libze_loader.so.1", "-x", "c", "/dev/null")
    assert set(places(recorded.together(plain(built, here, library))).values()) == {
        ("unknown", "unknown"),
        ("pageable", "pageable"),
    }


# --- building -------------------------------------------------------------------------------------


def test_without_a_compiler_it_is_an_error_if_asked_for_and_a_note_if_not(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(here))
    said: list[str] = []
    with (
        pytest.raises(NativeError, match="N025"),
        mpi_layer.beside(["./a"], True, here, said.append),
    ):
        pass
    assert not said
    with mpi_layer.beside(["mpirun", "./a"], None, here, said.append) as found:
        assert found == {}
    assert len(said) == 1 and "MPI is not recorded" in said[0] and "mpicc" in said[0]
    with mpi_layer.beside(["./a"], None, here, said.append) as found:
        assert found == {} and len(said) == 1, "a program by itself"


def test_the_compiler_beside_the_launcher_is_taken(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MPICC")
    for name in ("mpirun", "mpicc"):
        (here / name).write_text("#!/bin/sh\n")
        (here / name).chmod(0o755)
    assert mpi_layer.compiler([str(here / "mpirun")]) == [str(here / "mpicc")]
    monkeypatch.setenv("MPICC", "gcc -isystem x")
    assert mpi_layer.compiler([str(here / "mpirun")])[1:] == ["-isystem", "x"]


def test_what_does_not_compile_is_told(here: Path) -> None:
    gcc = shutil.which("gcc")
    assert gcc
    with pytest.raises(NativeError, match="N026") as caught:
        mpi_layer.build([gcc, "-nostdinc"], here / "layer.so")
    assert "error" in caught.value.found and not list(here.iterdir())


def test_libraries_of_the_user_stay_and_paths_with_blanks_are_refused() -> None:
    assert mpi_layer.environment(Path("/a.so"), {}) == {"LD_PRELOAD": "/a.so"}
    assert mpi_layer.environment(Path("/a.so"), {"LD_PRELOAD": "/b.so"}) == {
        "LD_PRELOAD": "/a.so:/b.so"
    }
    with pytest.raises(NativeError, match="N025"):
        mpi_layer.environment(Path("/my folder/a.so"), {})
    assert opencl_layer.FOLDERS[0] == mpi_layer.FOLDERS[0]
