"""DUMPI traces: small sets written here, and two real ones against their truth."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi_rows import named
from refusals import codes, refused

from turnbuckle.foundation.errors import ProfileError
from turnbuckle.mpi.readers.dumpi import reader as dumpi
from turnbuckle.mpi.readers.dumpi.clocks import shifts
from turnbuckle.mpi.readers.dumpi.groups import Making, communicators
from turnbuckle.mpi.readers.dumpi.layouts import CALLS, END, Unreadable, record
from turnbuckle.mpi.replay.messages import recorded
from turnbuckle.profile.messages.traffic import traffic
from turnbuckle.profile.profile import build
from turnbuckle.trace import Trace, read

MAGIC = b"\xff\xaa\xddDUMPI"
NUMBER = {name: n for n, (name, _) in enumerate(CALLS)}
WORLD, INT, DOUBLE = 2, 9, 14
SIZES = [0, 0, 1, 1, 1, 1, 4, 2, 2, 4, 4, 8, 8, 4, 8]
Call = tuple[str, int, int, Sequence[Any]]


def packed(layout: str, arguments: Sequence[Any], statuses: bool = True) -> bytes:
    """Arguments by their layout; a part in braces is there if its arguments are."""
    out, rest = b"", list(arguments)
    inside = False
    for letter in layout:
        if letter in "{}":
            inside = letter == "{"
            continue
        if (inside and not rest) or (inside and layout.endswith("}h") and len(rest) == 1):
            continue
        value = rest.pop(0)
        if letter in "ihbq":
            out += struct.pack(">" + {"i": "i", "h": "H", "b": "B", "q": "q"}[letter], value)
        elif letter in "aHB":
            out += struct.pack(
                f">i{len(value)}" + {"a": "i", "H": "H", "B": "B"}[letter], len(value), *value
            )
        elif letter == "s":
            if statuses:
                out += struct.pack(">i", len(value)) + b"".join(
                    struct.pack(">iiBBi", n, s, 0, 0, t) for n, s, t in value
                )
        elif letter == "A":
            out += struct.pack(">i", len(value)) + b"".join(
                struct.pack(f">i{len(v)}i", len(v), *v) for v in value
            )
        else:
            texts = [value] if letter == "c" else value
            out += b"" if letter == "c" else struct.pack(">i", len(texts))
            out += b"".join(struct.pack(">i", len(t)) + t for t in texts)
    return out


def one_call(name: str, start: int, end: int, arguments: Sequence[Any], mask: int = 0x4F) -> bytes:
    times = [t for ns in (start, end) for t in divmod(ns, 10**9)]
    head = struct.pack(">HB", NUMBER[name], mask)
    head += struct.pack(">H", 0) if mask & 0x40 else b""
    head += struct.pack(">HIHI", 0, 0, 0, 0) if mask & 4 else b""
    head += (
        struct.pack(">HIHI", times[0] & 0xFFFF, times[1], times[2] & 0xFFFF, times[3])
        if mask & 8
        else b""
    )
    return head + packed(CALLS[NUMBER[name]][1], arguments, bool(mask & 3))


def one_rank(
    calls: Sequence[Call],
    offset: int = 0,
    version: tuple[int, int, int] = (8, 1, 0),
    mask: int = 0x4F,
) -> bytes:
    body = b"".join(one_call(*call, mask) for call in calls)
    out = MAGIC + struct.pack(">ii", 0, offset) + body + struct.pack(">H", END)
    header = len(out)
    out += (
        bytes(version)
        + struct.pack(">q", 1_500_000_000)
        + struct.pack(">H", 4)
        + b"node"
        + struct.pack(">H", 4)
        + b"user"
        + bytes(8)
    )
    footer = len(out)
    out += struct.pack(">Q", 0xF007FEE7) + bytes(8 * (len(CALLS) + 1))
    sizes = len(out)
    out += struct.pack(f">I{len(SIZES)}I", len(SIZES), *SIZES)
    return out + MAGIC + struct.pack(">7Q", sizes, 0, 0, header, 8, footer, 0)


def written(
    folder: Path, ranks: Sequence[Sequence[Call]], offsets: Sequence[int] = (), **options: Any
) -> Path:
    for n, calls in enumerate(ranks):
        (folder / f"run-{n:04d}.bin").write_bytes(
            one_rank(calls, offsets[n] if offsets else 0, **options)
        )
    meta = folder / "run.meta"
    meta.write_text(
        f"hostname=secret\nnumprocs={len(ranks)}\nfileprefix=run\nversion=8\n", encoding="utf-8"
    )
    return meta


def exchange(me: int, count: int = 3) -> list[Call]:
    """A ring: post, send right, wait for both, sum, barrier."""
    left, right = (me - 1) % count, (me + 1) % count
    return [
        ("Init", 1000, 2000, [[b"/home/secret/a.out", b"-x"]]),
        ("Comm_rank", 2100, 2200, [WORLD, me]),
        ("Irecv", 3000, 3100, [10, DOUBLE, left, 7, WORLD, 2]),
        ("Isend", 3200, 3300, [10, DOUBLE, right, 7, WORLD, 3]),
        ("Waitall", 4000, 5000 + me, [2, (2, 3), ()]),
        ("Allreduce", 6000, 7000 + me, [2, INT, 3, WORLD]),
        ("Barrier", 8000, 9000 + me, [WORLD]),
        ("Finalize", 9500, 9600, []),
    ]


def reading(
    folder: Path, ranks: Sequence[Sequence[Call]], offsets: Sequence[int] = (), **options: Any
) -> Trace:
    return read(written(folder, ranks, offsets, **options), use_cache=False)


def test_a_ring_and_its_sizes(tmp_path: Path) -> None:
    trace = reading(tmp_path, [exchange(me) for me in range(3)])
    said = traffic(trace)
    assert (
        said is not None
        and said["ranks"] == 3
        and said["collectives"] == {"ALLREDUCE": 3, "BARRIER": 3}
    )
    assert said["sends"] == {"count": 3, "bytes": 240} and said["messages"] == {
        "matched": 3,
        "unmatched": 0,
    }
    calls = named(trace)
    assert calls.filter(pl.col("text") == "MPI_Isend", pl.col("rank") == 1).select(
        "partner", "tag", "size_bytes", "request"
    ).row(0) == (
        2,
        7,
        80,
        3,
    )
    assert calls.filter(pl.col("text") == "MPI_Allreduce")["size_bytes"].to_list() == [24] * 3
    assert (
        trace.facts["product_version"] == "DUMPI 8.1.0"
        and trace.facts["session_start_utc_ns"] == 15 * 10**17
    )
    assert set(codes(trace)) == {"P119", "P123", "P130"} and not any(
        "secret" in t for t in trace.names
    )
    replayed = recorded(build(trace))
    assert replayed.unmatched == 0 and replayed.rounds[0].block_bytes.tolist() == [8.0]


def test_any_file_of_the_set_names_it_and_all_are_needed(tmp_path: Path) -> None:
    meta = written(tmp_path, [exchange(me) for me in range(3)])
    whole = read(meta, use_cache=False).mpi
    assert read(tmp_path / "run-0002.bin", use_cache=False).mpi.equals(whole)
    (tmp_path / "run-0001.bin").rename(tmp_path / "elsewhere")
    assert "run-0001.bin" in refused("P034", read, meta, use_cache=False).found
    meta.write_text("numprocs=99999999\nfileprefix=../../run\n", encoding="utf-8")
    refused("P034", read, meta, use_cache=False)


def test_files_beyond_the_set_are_not_left_out_in_silence(tmp_path: Path) -> None:
    meta = written(tmp_path, [exchange(me) for me in range(3)])
    meta.write_text("numprocs=2\nfileprefix=run\n", encoding="utf-8")
    for name in ("run.meta", "run-0002.bin"):
        assert "3 of 2 files" in refused("P034", read, tmp_path / name, use_cache=False).found
    meta.write_text("numprocs=3\nfileprefix=run\n", encoding="utf-8")
    (tmp_path / "run-1.bin").write_bytes(b"")
    assert "run-0001.bin and run-1.bin" in refused("P034", read, meta, use_cache=False).found


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "an empty file"), (b"\0" * 99, "no DUMPI file")]
)
def test_a_file_of_the_set_that_is_none(tmp_path: Path, content: bytes, words: str) -> None:
    meta = written(tmp_path, [exchange(me) for me in range(3)])
    (tmp_path / "run-0001.bin").write_bytes(content)
    assert words in refused("P032", read, meta, use_cache=False).found


def test_wildcards_are_told_by_their_status(tmp_path: Path) -> None:
    one: list[Call] = [
        ("Recv", 1000, 2000, [4, INT, -1, -1, WORLD, [(16, 1, 9)]]),
        ("Irecv", 2100, 2200, [4, INT, -1, 8, WORLD, 5]),
        ("Waitany", 2300, 3000, [2, (1, 5), 1, [(16, 1, 8)]]),
        ("Irecv", 3100, 3200, [4, INT, -1, 6, WORLD, 5]),
        ("Wait", 3300, 4000, [5, ()]),
    ]
    other: list[Call] = [
        ("Send", 1000 * n, 1000 * n + 50, [4, INT, 0, tag, WORLD])
        for n, tag in ((1, 9), (2, 8), (3, 6))
    ]
    trace = reading(tmp_path, [one, other])
    got = named(trace).filter(pl.col("kind") == 0, pl.col("rank") == 0)
    assert got.select("partner", "tag").rows() == [(1, 9), (1, 8), (-1, 6)]
    # without a status the profile finds the one stream that can feed it
    assert codes(trace)["P155"] == 1 and traffic(trace)["messages"] == {
        "matched": 3,
        "unmatched": 0,
    }  # type: ignore[index]


def test_tests_complete_only_what_they_say(tmp_path: Path) -> None:
    one: list[Call] = [
        ("Irecv", 100, 110, [1, INT, 1, 1, WORLD, 4]),
        ("Test", 200, 210, [4, 0, ()]),
        ("Testsome", 300, 310, [1, (4,), 1, (0,), ()]),
        ("Isend", 400, 410, [1, INT, -3, 1, WORLD, 5]),
        ("Testall", 500, 510, [1, (5,), 1, ()]),
        ("Sendrecv", 600, 700, [1, INT, 1, 2, 3, INT, 1, 2, WORLD, ()]),
        ("Send_init", 710, 720, [1, INT, -3, 1, WORLD, 7]),
        ("Recv_init", 730, 740, [1, INT, -3, 1, WORLD, 8]),
        ("Startall", 800, 810, [3, (7, 8, 9)]),
        ("Waitall", 820, 830, [3, (7, 8, 9), ()]),
    ]
    other: list[Call] = [
        ("Send", 150, 160, [1, INT, 0, 1, WORLD]),
        ("Sendrecv", 600, 700, [3, INT, 0, 2, 1, INT, 0, 2, WORLD, ()]),
    ]
    trace = reading(tmp_path, [one, other])
    waits = named(trace).filter(pl.col("kind") == 2)
    assert waits.select("text", "request").rows() == [
        ("MPI_Test", None),
        ("MPI_Testsome", 4),
        ("MPI_Testall", 5),
        ("MPI_Startall", 7),
        ("MPI_Startall", 8),
        ("MPI_Waitall", 7),
        ("MPI_Waitall", 8),
    ]
    assert codes(trace)["P141"] == 3
    halves = named(trace).filter(pl.col("text") == "MPI_Sendrecv", pl.col("rank") == 0)
    assert (halves["end_ns"] - halves["start_ns"]).to_list() == [0, 100] and halves[
        "size_bytes"
    ].to_list() == [4, 12]


def test_collectives_of_every_kind_count_as_score_p_does(tmp_path: Path) -> None:
    def calls(me: int) -> list[Call]:
        root = me == 1
        given_: list[tuple[str, list[Any]]] = [
            ("Bcast", [2, INT, 1, WORLD]),
            ("Reduce", [2, INT, 3, 1, WORLD]),
            ("Gather", [me, 2, INT, 1, WORLD, *([2, INT] if root else [])]),
            ("Scatter", [me, 2, INT, 1, WORLD, *([2, INT] if root else [])]),
            ("Gatherv", [me, 2, 2, INT, 1, WORLD, *([(2, 2), (0, 2)] if root else []), INT]),
            ("Scatterv", [me, 2, INT, 2, INT, 1, WORLD, *([(2, 2), (0, 2)] if root else [])]),
            ("Allgather", [2, INT, 2, INT, WORLD]),
            ("Allgatherv", [2, 2, INT, (2, 2), (0, 2), INT, WORLD]),
            ("Alltoall", [2, INT, 2, INT, WORLD]),
            ("Alltoallv", [2, (2, 2), (0, 2), INT, (2, 2), (0, 2), INT, WORLD]),
            ("Alltoallw", [2, (2, 2), (0, 8), (INT, INT), (2, 2), (0, 8), (INT, INT), WORLD]),
            ("Reduce_scatter", [2, (2, 2), INT, 3, WORLD]),
            ("Scan", [2, INT, 3, WORLD]),
            ("Exscan", [2, INT, 3, WORLD]),
        ]
        return [
            (name, 100 * n, 100 * n + 50, arguments)
            for n, (name, arguments) in enumerate(given_, 1)
        ]

    trace = reading(tmp_path, [calls(0), calls(1)])
    sizes = {
        (t, r): (s, g)
        for t, r, s, g in named(trace)
        .select("text", "rank", "size_bytes", "receive_bytes")
        .iter_rows()
    }
    assert (
        sizes["MPI_Bcast", 0] == (0, 8)
        and sizes["MPI_Bcast", 1] == (16, 8)
        and sizes["MPI_Reduce", 1] == (8, 16)
    )
    assert (
        sizes["MPI_Gather", 1] == (8, 16)
        and sizes["MPI_Scatter", 1] == (16, 8)
        and sizes["MPI_Gatherv", 1] == (8, 16)
    )
    assert sizes["MPI_Scatterv", 0] == (0, 8) and sizes["MPI_Alltoallv", 0] == sizes[
        "MPI_Alltoallw", 0
    ] == (16, 16)
    replayed = recorded(build(trace))
    assert replayed.unmatched == 0
    assert {b for r in replayed.rounds for b in r.block_bytes.tolist()} == {8.0}


def test_types_that_the_program_makes(tmp_path: Path) -> None:
    calls: list[Call] = [
        ("Type_contiguous", 10, 11, [3, INT, 40]),
        ("Type_vector", 20, 21, [2, 5, 9, 40, 41]),
        ("Type_indexed", 30, 31, [2, (1, 2), (0, 4), INT, 42]),
        ("Type_create_struct", 40, 41, [2, (1, 2), (0, 8), (40, DOUBLE), 43]),
        ("Type_create_subarray", 50, 51, [2, (9, 9), (2, 3), (0, 0), 1, INT, 44]),
        ("Type_create_resized", 60, 61, [INT, 0, 64, 45]),
        ("Type_size", 70, 71, [46, 123]),
        *(
            (("Send", 100 + k, 101 + k, [2, kind, 1, 1, WORLD]))
            for k, kind in enumerate((40, 41, 42, 43, 44, 45, 46, 47))
        ),
    ]
    trace = reading(tmp_path, [calls, [("Barrier", 1, 2, [WORLD])]])
    assert named(trace).filter(pl.col("kind") == 0)["size_bytes"].to_list() == [
        24,
        240,
        24,
        56,
        48,
        8,
        246,
        None,
    ]
    assert codes(trace)["A351"] == 1


def test_communicators_are_brought_together_across_ranks(tmp_path: Path) -> None:
    """Handles differ from rank to rank; the even and the odd half each have their own sums, in the
    order of the key.
    """

    def calls(me: int) -> list[Call]:
        handle = 10 + me
        group = 30 + me
        return [
            ("Comm_split", 100, 110, [WORLD, me % 2, -me, handle]),
            ("Allreduce", 200, 210, [1, INT, 3, handle]),
            (
                "Send" if me == 0 else "Recv",
                300,
                310,
                [1, INT, 0 if me == 0 else 1, 1, handle, *([] if me == 0 else [()])],
            )
            if me in (0, 2)
            else ("Wtime", 300, 301, []),
            ("Comm_group", 400, 401, [WORLD, group]),
            ("Group_range_incl", 410, 411, [group, 1, [(3, 1, -1)], group + 10]),
            ("Comm_create", 420, 430, [WORLD, group + 10, handle + 20 if me else 1]),
            *([("Barrier", 500, 510, [handle + 20])] if me else []),
        ]

    trace = reading(tmp_path, [calls(me) for me in range(4)])
    members = (
        trace.mpi_communicators.sort("communicator", "local_rank")
        .group_by("communicator", maintain_order=True)
        .agg("rank")
    )
    assert sorted(members["rank"].to_list()) == [[0, 1, 2, 3], [2, 0], [3, 1], [3, 2, 1]]
    said = traffic(trace)
    assert (
        said is not None
        and said["messages"] == {"matched": 1, "unmatched": 0}
        and "P144" not in codes(trace)
    )
    assert recorded(build(trace)).unmatched == 0


def test_groups_and_grids() -> None:
    def made(*all_of: list[Making], said: list[dict[int, int]] | None = None) -> list[list[int]]:
        return communicators(list(all_of), said or [{} for _ in all_of]).members

    world = ("comm", 0)
    incl = ("group_incl", world, (2, 0), 1)
    both = ("group_union", incl, ("group_excl", world, (0, 2), 1), 9)
    assert made(*([Making("comm_create", 0, True, both)] for _ in range(3))) == [
        [0, 1, 2],
        [2, 0, 1],
    ]
    assert made(
        *([Making("comm_create", 0, True, ("group_incl", world, (5,), 1))] for _ in range(3))
    ) == [[0, 1, 2]]
    assert made(*([Making("cart_create", 0, True, ((2, 1), False))] for _ in range(2))) == [
        [0, 1],
        [0, 1],
    ]
    # reordered ranks are known only where the program asked for them
    turned = [[Making("cart_create", 0, True, ((2,), True))] for _ in range(2)]
    assert made(*turned, said=[{2: 1}, {2: 0}]) == [[0, 1], [1, 0]] and made(*turned) == [[0, 1]]
    # children of different calls are not one communicator
    assert made([Making("comm_dup", 0, True, None)], [Making("comm_split", 0, True, (0, 0))]) == [
        [0, 1]
    ]


def test_clocks_that_contradict_are_shifted(tmp_path: Path) -> None:
    """Each rank has its own clock, seconds apart; the ring and its barrier bring them together
    again.
    """
    plain = named(reading(tmp_path, [exchange(me) for me in range(3)]))
    trace = reading(tmp_path, [exchange(me) for me in range(3)], offsets=(5, 700_000, 20))
    counts = codes(trace)
    assert counts["P145"] == 2 and not {"P146", "P149"} & set(counts)
    mine = named(trace)
    for rank in range(3):
        was, now = (
            f.filter(pl.col("rank") == rank).sort("start_ns")["start_ns"].to_numpy()
            for f in (plain, mine)
        )
        assert np.ptp(now - was) == 0, "a shift is one number a rank"
    shift = (
        mine.sort("rank", "start_ns")["start_ns"].to_numpy()
        - plain.sort("rank", "start_ns")["start_ns"].to_numpy()
    )
    assert np.abs(shift - shift[0]).max() < 1000, "within the length of the barrier"
    assert build(trace).seconds < 2e-5


def test_clocks_that_drift_are_shifted_as_well_as_can_be(tmp_path: Path) -> None:
    one: list[Call] = [("Barrier", t, t + 10, [WORLD]) for t in (1000, 101_000, 201_000)]
    other: list[Call] = [
        ("Barrier", t + 5_000_000, t + 5_000_010, [WORLD]) for t in (1000, 103_000, 205_000)
    ]
    trace = reading(tmp_path, [one, other])
    assert codes(trace)["P145"] == 1
    starts = named(trace).sort("rank", "start_ns")["start_ns"].to_numpy().reshape(2, 3)
    assert np.abs(starts[0] - starts[1]).max() <= 8192


@settings(max_examples=40)
@given(st.lists(st.integers(-(10**12), 10**12), min_size=2, max_size=5))
def test_any_constant_shifts_are_found_again(by: list[int]) -> None:
    """A barrier that all leave within 10 ns of the last one's coming pins every clock to 10 ns."""
    ranks = len(by)
    come = np.arange(ranks) * 100
    left = come.max() + np.arange(ranks)
    thread = (np.arange(ranks) + 1 << 24) | 1
    columns = {
        "start_ns": come + by,
        "end_ns": left + by,
        "thread": thread,
        "kind": [1] * ranks,
        "communicator": [1] * ranks,
    }
    columns |= dict.fromkeys(("name", "size_bytes"), [0] * ranks) | dict.fromkeys(
        ("partner", "tag", "request"), [None] * ranks
    )
    mpi = pl.DataFrame(columns)
    members = pl.DataFrame(
        {"rank": range(ranks), "communicator": [1] * ranks, "local_rank": range(ranks)}
    )
    mpi = mpi.with_columns(pl.col("partner", "tag", "request").cast(pl.Int64))
    found_ = shifts(mpi, members, pl.Series(["MPI_Barrier"]), ranks)
    start, end = mpi["start_ns"].to_numpy() + found_.by, mpi["end_ns"].to_numpy() + found_.by
    assert start.max() <= end.min() and found_.left == 0


def test_clocks_that_nothing_ties_may_be_too_far_apart(tmp_path: Path) -> None:
    lone: list[Call] = [("Wtime", 10, 20, [])]
    refused("P018", reading, tmp_path, [lone, lone], offsets=(0, 20_000_000))


def test_a_file_that_the_disk_does_not_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path, **options: Any) -> Trace:
        raise OSError("input/output error")

    meta = written(tmp_path, [exchange(0, 1)])
    monkeypatch.setattr(dumpi, "read", fails)
    refused("P005", read, meta, use_cache=False)


def test_seconds_that_wrap_go_on(tmp_path: Path) -> None:
    late = 65_530 * 10**9
    calls: list[Call] = [
        ("Barrier", late + n * 4 * 10**9, late + n * 4 * 10**9 + 10, [WORLD]) for n in range(4)
    ]
    trace = reading(tmp_path, [calls, calls])
    assert (
        named(trace).filter(pl.col("rank") == 0)["start_ns"].diff().drop_nulls().to_list()
        == [4 * 10**9] * 3
    )


def test_masks_leave_out_what_they_say(tmp_path: Path) -> None:
    full = reading(tmp_path, [exchange(me) for me in range(3)])
    for mask in (0x4B, 0x0B, 0x08):
        assert reading(tmp_path, [exchange(me) for me in range(3)], mask=mask).mpi.equals(full.mpi)
    assert (
        "wall"
        in refused("P033", reading, tmp_path, [exchange(me) for me in range(3)], mask=0x47).found
    )


def test_every_known_layout_is_read_to_its_end() -> None:
    value = {
        "i": 1,
        "h": 3,
        "b": 1,
        "q": 9,
        "a": (1, 2),
        "H": (3,),
        "B": (1,),
        "A": [(1, 2), ()],
        "c": b"<b>",
        "C": [b"a", b""],
        "s": [(1, 2, 3)],
    }
    for number, (name, layout) in enumerate(CALLS):
        if layout == "?":
            continue
        with_root = [value[x] for x in layout if x not in "{}"]
        data = one_call(name, 5, 6, with_root)
        one = record(data, 0, len(data))
        assert (one.number, one.next) == (number, len(data)), name
        with pytest.raises(Unreadable):
            record(data, 0, len(data) - 1)


@pytest.mark.parametrize("cut", [4, 30, 120, 400, -1, -64])
def test_a_file_that_is_cut_off(tmp_path: Path, cut: int) -> None:
    written(tmp_path, [exchange(0, 1)])
    place = tmp_path / "run-0000.bin"
    place.write_bytes(place.read_bytes()[:cut])
    with pytest.raises(ProfileError) as error:
        read(tmp_path / "run.meta", use_cache=False)
    assert error.value.code in ("P032", "P033") and error.value.fix


def test_versions_and_calls_that_are_not_known(tmp_path: Path) -> None:
    assert (
        "dumpi2ascii" in refused("P033", reading, tmp_path, [exchange(0, 1)], version=(0, 6, 2)).fix
    )
    place = tmp_path / "run-0000.bin"
    for number, says in ((NUMBER["Pcontrol"], "MPI_Pcontrol"), (9999, "9999")):
        data = one_rank([("Barrier", 1, 2, [WORLD])])
        place.write_bytes(
            data.replace(
                struct.pack(">HB", NUMBER["Barrier"], 0x4F), struct.pack(">HB", number, 0x4F)
            )
        )
        assert says in refused("P033", read, place, use_cache=False).found
    place.write_bytes(one_rank([]))
    refused("P007", read, place, use_cache=False)


@settings(max_examples=50)
@given(data=st.data())
def test_no_change_makes_anything_but_a_trace_or_a_coded_error(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    written(folder, [exchange(me, 2) for me in range(2)])
    for n in range(2):
        place = folder / f"run-{n:04d}.bin"
        whole = bytearray(place.read_bytes())
        # the stream of calls and the index are what is worth spoiling
        spots = st.one_of(st.integers(8, 420), st.integers(len(whole) - 70, len(whole) - 1))
        for at in data.draw(st.lists(spots, max_size=4)):
            whole[at] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
        place.write_bytes(whole)
    try:
        trace = dumpi.read(folder / "run.meta")
    except ProfileError as error:
        assert error.code in ("P007", "P018", "P032", "P033", "P034")
        return
    traffic(build(trace).trace)


@pytest.mark.parametrize("name", ["bgp_7rank", "naive_all_to_all_4rank_run0"])
def test_real_sets(shared: Path, name: str) -> None:
    folder = shared / "traces" / "dumpi" / name
    truth = json.loads((shared / "traces" / "truth.json").read_text(encoding="utf-8"))[
        f"dumpi/{name}"
    ]["files"]["trace"]
    trace = read(next(folder.glob("*.meta")), use_cache=False)
    assert trace.facts["tables"] == truth["calls"] and trace.mpi_ranks.height == truth["ranks"]
    said = traffic(trace)
    assert said is not None and said["messages"] == {
        "matched": truth["calls"]["MPI_Isend"],
        "unmatched": 0,
    }
    assert set(codes(trace)) == {"P119", "P123", "P130"}
    assert recorded(build(trace)).unmatched == 0
