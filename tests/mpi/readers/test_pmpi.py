"""Text traces of liballprof: calls, arguments, clocks and files of all ranks."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import refusals

from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.mpi.replay.messages import recorded
from turnbuckle.profile.messages.traffic import traffic
from turnbuckle.profile.profile import build
from turnbuckle.trace import Trace, read
from turnbuckle.trace.cache import cache

#: Microseconds at which the recordings made here begin.
ZERO = 1_237_759_886_000_000
DOUBLE = "11,8,8"


def made(
    folder: Path, *ranks: list[str], differences: tuple[float, ...] = (), stem: str = "run-rank-"
) -> Path:
    """A file a rank; in a line ``<T>`` is T us after `ZERO`, ``<C>`` the world."""
    for rank, lines in enumerate(ranks):
        head = "# collprof 0.9 output file\n# host: secret\n"
        head += f"# Init clockdiff: {differences[rank]:.6f}\n\n" if differences else "\n"
        text = head + "".join(line + "\n" for line in ["MPI_Comm_rank:<1>:<C>:7:<2>", *lines])
        text = text.replace("<C>", f"0,{rank},{len(ranks)}")
        while "<" in text:
            before, _, rest = text.partition("<")
            number, _, after = rest.partition(">")
            text = f"{before}{ZERO + float(number):.6f}{after}"
        (folder / f"{stem}{rank}.dat").write_text(text, encoding="ascii")
    return folder / f"{stem}0.dat"


def rows(trace: Trace, name: str) -> list[dict[str, object]]:
    """The rows of a call."""
    return (
        trace.mpi.with_columns(text=trace.text(trace.mpi)).filter(pl.col("text") == name).to_dicts()
    )


def refused(path: Path, code: str) -> TurnbuckleError:
    error = refusals.refused(code, read, path)
    assert error.fix, error.lines()
    return error


def test_messages(tmp_path: Path) -> None:
    first = [
        f"MPI_Send:<10>:99:5:{DOUBLE}:1:7:<C>:<11.5>",
        "MPI_Isend:<20>:99:2:1,4,4:1:8:<C>:5000:<21>",
        "MPI_Isend:<22>:99:3:1,4,4:1:8:<C>:5004:<23>",
        "MPI_Waitall:<30>:2:5000:0:<31>",
        f"MPI_Sendrecv:<40>:1:1:{DOUBLE}:1:1:2:1:{DOUBLE}:1:2:<C>:3:<41>",
    ]
    second = [
        f"MPI_Recv:<10>:99:5:{DOUBLE}:-1:-1:<C>:3:<12>",
        "MPI_Irecv:<20>:99:2:1,4,4:0:8:<C>:8000:<21>",
        "MPI_Irecv:<22>:99:3:1,4,4:0:8:<C>:8008:<23>",
        "MPI_Wait:<30>:8000:0:<31>",
        "MPI_Wait:<32>:8008:0:<33>",
        f"MPI_Sendrecv:<40>:1:1:{DOUBLE}:0:2:2:1:{DOUBLE}:0:1:<C>:3:<41>",
        f"MPI_Send:<50>:9:1:{DOUBLE}:-2:1:<C>:<51>",
    ]
    trace = read(made(tmp_path, first, second))
    send = rows(trace, "MPI_Send")[0]
    assert (send["size_bytes"], send["partner"], send["tag"], send["kind"]) == (40, 1, 7, 0)
    assert send["end_ns"] - send["start_ns"] == 1500  # type: ignore[operator]
    assert [(r["partner"], r["tag"]) for r in rows(trace, "MPI_Recv")] == [(-1, None)]
    assert sorted(r["request"] for r in rows(trace, "MPI_Waitall")) == [5000, 5004]  # type: ignore[type-var]
    assert len(rows(trace, "MPI_Sendrecv")) == 4
    mpi = traffic(trace)
    assert (
        mpi is not None
        and mpi["sends"] == {"count": 5, "bytes": 40 + 8 + 12 + 16}
        and mpi["receives"] == {"count": 5}
    )
    assert mpi["messages"] == {"matched": 5, "unmatched": 0}
    told = {f.code: f.count for f in trace.findings}
    assert told["P141"] == 1 and told["P119"] == 2 and "P152" not in told
    # requests of C lie 8 bytes apart, of Fortran 4: both waits are told
    assert (recorded(build(trace)).messages.sent >= 0).all()


@pytest.mark.parametrize(
    ("call", "name", "sent", "received", "root"),
    [
        ("MPI_Barrier:<5>:<C>:<6>", "MPI_Barrier", 0, 0, None),
        (f"MPI_Bcast:<5>:1:10:{DOUBLE}:0:<C>:<6>", "MPI_Bcast", 160, 80, 0),
        (f"MPI_Reduce:<5>:1:2:10:{DOUBLE}:3:1:<C>:<6>", "MPI_Reduce", 80, 0, 1),
        (f"MPI_Allreduce:<5>:1:2:10:{DOUBLE}:3:<C>:<6>", "MPI_Allreduce", 160, 160, None),
        (f"MPI_Scan:<5>:1:2:10:{DOUBLE}:3:<C>:<6>", "MPI_Scan", 80, 80, None),
        (f"MPI_Gather:<5>:1:4:{DOUBLE}:2:4:{DOUBLE}:0:<C>:<6>", "MPI_Gather", 32, 64, 0),
        (f"MPI_Scatter:<5>:1:4:{DOUBLE}:2:4:{DOUBLE}:1:<C>:<6>", "MPI_Scatter", 0, 32, 1),
        (f"MPI_Allgather:<5>:1:4:{DOUBLE}:2:4:{DOUBLE}:<C>:<6>", "MPI_Allgather", 64, 64, None),
        (f"MPI_Alltoall:<5>:1:4:{DOUBLE}:2:4:{DOUBLE}:<C>:<6>", "MPI_Alltoall", 64, 64, None),
        (f"MPI_Gatherv:<5>:1:4:{DOUBLE}:2:77:78:{DOUBLE}:1:<C>:<6>", "MPI_Gatherv", 32, None, 1),
        (
            f"MPI_Gatherv:<5>:1:4:{DOUBLE}:2:77:4,4:78:0,4:{DOUBLE}:1:<C>:<6>",
            "MPI_Gatherv",
            32,
            None,
            1,
        ),
        (f"MPI_Scatterv:<5>:1:77:78:{DOUBLE}:2:4:{DOUBLE}:1:<C>:<6>", "MPI_Scatterv", None, 32, 1),
        (
            f"MPI_Alltoallv:<5>:1:77:78:{DOUBLE}:2:77:78:{DOUBLE}:<C>:<6>",
            "MPI_Alltoallv",
            None,
            None,
            None,
        ),
    ],
)
def test_collectives(
    tmp_path: Path, call: str, name: str, sent: int | None, received: int | None, root: int | None
) -> None:
    """What rank 0 of two says; sizes as Score-P counts them."""
    trace = read(made(tmp_path, [call], [call]))
    row = rows(trace, name)[0]
    assert (row["kind"], row["size_bytes"], row["receive_bytes"], row["root"]) == (
        1,
        sent,
        received,
        root,
    )
    mpi = traffic(trace)
    assert mpi is not None and mpi["collectives"] == {name[4:].upper(): 2}
    assert len(recorded(build(trace)).rounds) == 1


def test_clocks(tmp_path: Path) -> None:
    """A difference is what the clock of a rank lacks to that of rank 0; between two of them it is
    on the line.
    """
    path = made(
        tmp_path,
        ["MPI_Barrier:<1000>:<C>:<1010>"],
        ["MPI_Barrier:<1000>:<C>:<1010>"],
        differences=(0.0, 40.0),
    )
    other = tmp_path / "run-rank-1.dat"
    other.write_text(
        other.read_text() + "# Finalize clockdiff: 60.000000\n" + f"MPI_Finalize:{ZERO + 2000}:-\n"
    )
    trace = read(path)
    mine, theirs = rows(trace, "MPI_Barrier")
    # the first call ends at 2, the last begins at 2000
    assert theirs["start_ns"] - mine["start_ns"] == pytest.approx(
        1000 * (40 + 20 * 998 / 1998), abs=1
    )  # type: ignore[operator]
    assert {f.code: (f.count, f.detail) for f in trace.findings}["P152"] == (1, "by up to 60 us")
    (end,) = rows(trace, "MPI_Finalize")
    assert end["start_ns"] == end["end_ns"] and trace.mpi["start_ns"].min() == 1


def test_files_of_all_ranks_are_found(tmp_path: Path) -> None:
    path = made(tmp_path, *[["MPI_Barrier:<5>:<C>:<6>"]] * 3)
    whole = read(path)
    assert (
        whole.mpi_ranks.height == 3
        and whole.facts["format"] == "pmpi"
        and sorted(whole.facts["tables"].values()) == [2, 2, 2]
    )
    again = read(tmp_path / "run-rank-2.dat")
    assert again.mpi.equals(whole.mpi) and again.facts["sha256"] == whole.facts["sha256"]
    path = made(tmp_path, *[["MPI_Barrier:<5>:<C>:<6>"]] * 3, stem="job7-step2-rank-")
    assert read(path).mpi.equals(whole.mpi), "the rank is the last number"
    path = tmp_path / "run-rank-0.dat"
    (tmp_path / "run-rank-1.dat").rename(tmp_path / "run-rank-01.dat")
    assert "run-rank-1.dat" in refused(path, "P020").found
    (tmp_path / "run-rank-1.dat").write_bytes((tmp_path / "run-rank-2.dat").read_bytes())
    assert "run-rank-1.dat is of rank 2 of 3" in refused(path, "P022").found


@pytest.mark.parametrize(("pack", "ending"), [(lzma.compress, "xz"), (gzip.compress, "gz")])
def test_packed_files_of_all_ranks_are_found(
    tmp_path: Path, pack: Callable[[bytes], bytes], ending: str
) -> None:
    whole = read(made(tmp_path, *[["MPI_Barrier:<5>:<C>:<6>"]] * 3))
    for place in tmp_path.glob("run-rank-*.dat"):
        place.with_name(f"{place.name}.{ending}").write_bytes(pack(place.read_bytes()))
        place.unlink()
    again = read(tmp_path / f"run-rank-1.dat.{ending}")
    assert (
        again.mpi.equals(whole.mpi)
        and again.mpi_ranks.equals(whole.mpi_ranks)
        and again.facts["format"] == "pmpi"
    )


def test_communicators(tmp_path: Path) -> None:
    """Handles are local to a rank; one of as many ranks in the order of the world, used later, is a
    copy of it.
    """
    calls = [
        [
            "MPI_Barrier:<5>:<C>:<6>",
            f"MPI_Barrier:<7>:{900 + rank},{rank},2:<8>",
            "MPI_Barrier:<9>:44,0,1:<9>",
        ]
        for rank in range(2)
    ]
    trace = read(made(tmp_path, *calls))
    made_of = trace.mpi_communicators
    assert made_of.height == 6 and made_of["parent"].null_count() == 2
    assert sum(r.activity.shape[0] for r in recorded(build(trace)).rounds) == 2


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("hello", "MPI_Name:begin:arguments:end"),
        ("MPI_Send:<5>", "MPI_Name:begin:arguments:end"),
        ("MPI_Send:x:1:2:3", "microseconds"),
        ("MPI_Send:<9>:1:<8>", "the end no earlier"),
        (f"MPI_Send:<5>:1:2:{DOUBLE}:1:<6>", "fewer arguments"),
        ("MPI_Send:<5>:1:2:3:1:2:<C>:<6>", "no data type"),
        (f"MPI_Send:<5>:1:many:{DOUBLE}:1:2:<C>:<6>", "no whole number"),
        (f"MPI_Send:<5>:1:2:{DOUBLE}:1:2:0,5,2:<6>", "no communicator"),
        ("MPI_Waitall:<5>:99999999999:1:0:<6>", "number of requests"),
        ("MPI_\x1b[31m:<5>:<6>", "MPI_Name"),
    ],
)
def test_a_line_that_cannot_be(tmp_path: Path, line: str, cause: str) -> None:
    error = refused(made(tmp_path, [line], []), "P024")
    assert (
        cause in error.cause and error.where.endswith(":5") and "\x1b" not in "".join(error.lines())
    ), error.lines()


def test_persistent_requests_are_begun_again(tmp_path: Path) -> None:
    """Requests of C, 8 bytes apart: the second Startall names the same ones as the first."""
    sent = [
        f"MPI_Send_init:<{3 + k}>:99:2:1,4,4:1:{8 + k}:<C>:{5000 + 8 * k}:<{3.5 + k}>"
        for k in range(2)
    ]
    got = [
        f"MPI_Recv_init:<{3 + k}>:99:2:1,4,4:0:{8 + k}:<C>:{6000 + 8 * k}:<{3.5 + k}>"
        for k in range(2)
    ]
    for lines, first in ((sent, 5000), (got, 6000)):
        for t in (10, 30, 50):
            lines += [
                f"MPI_Startall:<{t}>:2:{first}:<{t + 1}>",
                f"MPI_Waitall:<{t + 5}>:2:{first}:0:<{t + 6}>",
            ]
    trace = read(made(tmp_path, sent, got))
    mpi = traffic(trace)
    assert (
        mpi is not None
        and mpi["sends"]["count"] == 6
        and mpi["messages"] == {"matched": 6, "unmatched": 0}
    )


def test_a_count_of_requests_is_only_a_number(tmp_path: Path) -> None:
    lines = [
        "MPI_Isend:<3>:99:2:1,4,4:0:8:<C>:5000:<4>",
        "MPI_Irecv:<5>:99:2:1,4,4:0:8:<C>:5008:<6>",
    ]
    trace = read(
        made(
            tmp_path,
            [*lines, *(f"MPI_Waitall:<{10 + k}>:1000000000:5000:0:<{10 + k}>" for k in range(50))],
        )
    )
    assert trace.mpi.height == 1 + 2 + 2 + 49
    refused(made(tmp_path, [*lines, "MPI_Waitall:<10>:99999999999:5000:0:<11>"]), "P024")


def test_a_change_of_another_rank_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "FLOOR", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "kept"))
    path = made(tmp_path, ["MPI_Barrier:<10>:<C>:<11>"], ["MPI_Barrier:<10>:<C>:<11>"])
    before = read(path)
    other = tmp_path / "run-rank-1.dat"
    other.write_text(other.read_text() + f"MPI_Barrier:{ZERO + 20}:0,1,2:{ZERO + 30}\n")
    after = read(path)
    assert (
        after.mpi.height == before.mpi.height + 1
        and after.facts["sha256"] != before.facts["sha256"]
    )


def test_clocks_that_cannot_be(tmp_path: Path) -> None:
    for digits, code in (("9" * 400, "P024"), ("9" * 17, "P018")):
        path = made(
            tmp_path,
            ["MPI_Barrier:<10>:<C>:<11>"],
            ["MPI_Barrier:<10>:<C>:<11>"],
            differences=(0.0, 1.0),
        )
        other = tmp_path / "run-rank-1.dat"
        other.write_text(other.read_text().replace("clockdiff: 1.", f"clockdiff: {digits}."))
        refused(path, code)
    refused(
        made(tmp_path, ["MPI_Barrier:<10>:<C>:<11>"], [f"MPI_Barrier:<{10**14}>:<C>:<{10**14}>"]),
        "P018",
    )


def test_what_the_tracer_does_not_tell(tmp_path: Path) -> None:
    """Which request a Waitany or Test completed; counts for each rank; what a non-blocking
    collective carries.
    """
    calls = [
        "MPI_Waitany:<5>:2:5000:9:0:<6>",
        "MPI_Test:<7>:5000:9:0:<8>",
        f"MPI_Alltoallv:<9>:1:77:78:{DOUBLE}:2:77:78:{DOUBLE}:<C>:<9>",
        f"MPI_Iallreduce:<10>:1:2:10:{DOUBLE}:3:<C>:7:<11>",
        "MPI_Startall:<12>:2:5000:<13>",
    ]
    trace = read(made(tmp_path, calls, calls))
    told = {f.code: f.count for f in trace.findings}
    assert (told["P150"], told["A351"], told["P148"]) == (4, 2, 2)
    assert [r["kind"] for r in rows(trace, "MPI_Iallreduce")] == [3, 3] and rows(
        trace, "MPI_Waitany"
    )[0]["request"] is None


def test_a_file_without_calls(tmp_path: Path) -> None:
    path = tmp_path / "a-0.dat"
    path.write_text("# collprof 0.9 output file\n")
    assert "no call" in refused(path, "P024").found


def test_a_recorded_run(shared: Path) -> None:
    """SPHOT on four ranks: as many calls of each name as `truth.json` has, from whichever file."""
    folder = shared / "traces" / "goal" / "sphot_pmpi_4rank"
    truth = json.loads((shared / "traces" / "truth.json").read_text(encoding="utf-8"))[
        "goal/sphot_pmpi_4rank"
    ]["files"]
    trace = read(folder / "htor-coll-rank-2.dat", use_cache=False)
    counts = dict(trace.text(trace.mpi).value_counts().iter_rows())
    wanted = truth["_summary"]["calls"]
    # a Waitall is a row for each of its three requests
    assert {**counts, "MPI_Waitall": counts["MPI_Waitall"] // 3} == wanted
    # four lines of comments before, one after, and an empty one
    assert trace.facts["tables"] == {
        name: told["lines"] - 6 for name, told in truth.items() if name != "_summary"
    }
    mpi = traffic(trace)
    assert mpi is not None and (mpi["ranks"], mpi["sends"]["count"], mpi["receives"]["count"]) == (
        4,
        9,
        9,
    )
    assert mpi["collectives"] == {
        k[4:].upper(): wanted[k]
        for k in ("MPI_Allreduce", "MPI_Barrier", "MPI_Bcast", "MPI_Reduce")
    }
    # six receives from any source, three senders at a time
    assert mpi["messages"] == {"matched": 3, "unmatched": 12}
    kept = trace.mpi.filter(pl.col("kind") == 1).select(
        pl.col("start_ns").max() - pl.col("start_ns").min()
    )
    assert kept.item() == pytest.approx(2.94e9, rel=0.01)
    assert {f.code for f in trace.findings} == {"P119", "P123", "P130", "P152"} and trace.facts[
        "product_version"
    ] == "collprof 0.9"


def test_aligned_clocks_contradict_no_collective(shared: Path) -> None:
    """After the shift no rank leaves a barrier before another has come to it."""
    trace = read(
        shared / "traces" / "goal" / "sphot_pmpi_4rank" / "htor-coll-rank-0.dat", use_cache=False
    )
    calls = (
        trace.mpi.with_columns(text=trace.text(trace.mpi))
        .filter(pl.col("text") == "MPI_Barrier")
        .sort("start_ns")
    )
    numbered = calls.with_columns(k=pl.int_range(pl.len()).over("thread"))
    each = numbered.group_by("k").agg(come=pl.col("start_ns").max(), left=pl.col("end_ns").min())
    assert each.height == 3 and (each["come"] <= each["left"]).all()
