"""Bad OTF2 archives: each gives a coded error with a way out, or a recording with findings; never a
traceback, a panic or a hang.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import refusals
from build_otf2 import CUDA, MPI, STREAM, UNDEFINED, Archive

from turnbuckle.foundation.errors import ProfileError, TurnbuckleError
from turnbuckle.profile.profile import build
from turnbuckle.trace import Trace, read


def refused(path: Path, code: str) -> TurnbuckleError:
    """The error of a file that must be refused: coded, placed, exit 2, and with a way out."""
    error = refusals.refused(code, read, path, use_cache=False)
    assert error.exit_code == 2 and error.where == str(path) and error.fix, error.lines()
    return error


def small(chunk: int = 1 << 18) -> Archive:
    """Two ranks, a stream, and one of everything that the reader looks at."""
    archive = Archive(chunk=chunk)
    send, recv, main = (
        archive.region("MPI_Send", MPI),
        archive.region("MPI_Recv", MPI),
        archive.region("main"),
    )
    isend, wait, barrier = (
        archive.region("MPI_Isend", MPI),
        archive.region("MPI_Wait", MPI),
        archive.region("MPI_Barrier", MPI),
    )
    kernel = archive.region("axpy", CUDA, 40)
    one, two = threads = archive.ranks(2)
    stream = archive.location(archive.process(kind=2, creator=0), STREAM)
    for thread in threads:
        thread.map(3, list(range(7)))
        thread.offsets = [(0, 0), (5000, 3)]
        thread.enter(1, main)
    one.call(10, 20, send, (14, 1, 0, 5, 100))
    two.call(12, 30, recv, (18, 0, 0, 5, 100))
    one.call(40, 50, isend, (15, 1, 0, 5, 100, 7))
    one.call(60, 70, wait, (16, 7))
    two.call(42, 80, recv, (18, 0, 0, 5, 100))
    for thread in threads:
        thread.collective(90, 100, barrier, 0, 0, UNDEFINED, 0, 0)
        thread.leave(200, main)
    stream.call(30, 60, kernel)
    return archive


def test_parts_that_are_not_there(tmp_path: Path) -> None:
    anchor = small().write(tmp_path / "a")
    for name in ("traces/1.evt", "traces/0.def", "traces.def"):
        part = anchor.parent / name
        content = part.read_bytes()
        part.unlink()
        assert part.name in refused(anchor, "P015").found
        part.write_bytes(content)
    assert read(anchor, use_cache=False).mpi.height == 7
    anchor.unlink()
    refused(anchor, "P001")


def test_a_part_in_place_of_the_anchor_names_the_anchor(tmp_path: Path) -> None:
    anchor = small().write(tmp_path / "a")
    for name in ("traces.def", "traces/0.evt", "traces/0.def"):
        assert refused(anchor.parent / name, "P019").fix == "name traces.otf2"
    (tmp_path / "alone.evt").write_bytes((anchor.parent / "traces" / "0.evt").read_bytes())
    assert "ends in .otf2" in refused(tmp_path / "alone.evt", "P019").fix
    assert "traces.otf2" in refused(anchor.parent, "P002").fix


def test_a_folder_or_a_pipe_in_place_of_a_part(tmp_path: Path) -> None:
    anchor = small().write(tmp_path / "a")
    (anchor.parent / "traces" / "0.evt").unlink()
    (anchor.parent / "traces" / "0.evt").mkdir()
    assert "no ordinary file" in refused(anchor, "P016").found
    (anchor.parent / "traces" / "0.evt").rmdir()
    os.mkfifo(anchor.parent / "traces" / "0.evt")
    refused(anchor, "P016")


@pytest.mark.parametrize("name", ["traces.otf2", "traces.def", "traces/0.def", "traces/0.evt"])
def test_files_cut_off(tmp_path: Path, name: str) -> None:
    anchor = small().write(tmp_path / "a")
    part = anchor.parent / name
    content = part.read_bytes()
    for length in (1, 2, 10, 18, 19, len(content) // 2, len(content) - 1):
        part.write_bytes(content[:length])
        if name == "traces.otf2" and length > 60:
            # what follows the creator's name is not needed
            assert read(anchor, use_cache=False).mpi.height == 7
        else:
            with pytest.raises(ProfileError) as caught:
                read(anchor, use_cache=False)
            assert caught.value.code in ("P016", "P013")
    part.write_bytes(b"")
    refused(anchor, "P003" if name == "traces.otf2" else "P016")


def _substrate(archive: Archive) -> None:
    archive.substrate = 2


def _compression(archive: Archive) -> None:
    archive.compression = 2


def _tiny_chunks(archive: Archive) -> None:
    archive.chunk = 64


@pytest.mark.parametrize(
    ("change", "words"),
    [(_substrate, "SION"), (_compression, "compressed"), (_tiny_chunks, "chunks of 64 bytes")],
)
def test_archives_written_in_another_way(
    tmp_path: Path, change: Callable[[Archive], None], words: str
) -> None:
    archive = small()
    change(archive)
    anchor = archive.write(tmp_path / "a") if archive.chunk > 64 else None
    if anchor is None:
        archive.chunk = 1 << 18
        anchor = archive.write(tmp_path / "a")
        archive.chunk = 64
        anchor.write_bytes(archive.anchor())
    assert words in refused(anchor, "P017").found


def test_an_archive_without_a_clock_or_without_events(tmp_path: Path) -> None:
    still = small()
    still.globals.records[0] = b"\x05\x03\x00\x00\x00"
    assert "clock" in refused(still.write(tmp_path / "still"), "P016").found
    empty = Archive()
    empty.ranks(2)
    refused(empty.write(tmp_path / "empty"), "P007")


def test_counts_and_lengths_that_the_file_does_not_hold(tmp_path: Path) -> None:
    """A huge count must not become a huge allocation."""

    def with_record(kind: int, *fields: int | bytes) -> Archive:
        archive = small()
        archive.globals.record(kind, *fields)
        return archive

    started = time.process_time()
    refused(with_record(18, 5, 0, b"\0", 2**31, 1, 2).write(tmp_path / "group"), "P016")
    mapped = small()
    mapped.locations[0].maps.append(b"\3" + mapped.globals.packed(2**60) + b"\1" + b"\1\1" * 4)
    refused(mapped.write(tmp_path / "map"), "P016")
    refused(with_record(10, 77, b"no end").write(tmp_path / "text"), "P016")
    assert time.process_time() - started < 5


def test_many_communicators_of_one_large_group(tmp_path: Path) -> None:
    archive = small()
    archive.group(5, [0, 1] * 5000, 4000)
    for number in range(100, 15_000):
        archive.globals.record(22, number, 0, 4000, UNDEFINED, 0)
        archive.locations[0].event(300, 87, number)
    assert "members of communicators" in refused(archive.write(tmp_path / "a"), "P017").found


def test_calls_inside_calls_without_end(tmp_path: Path) -> None:
    archive = small()
    for time_ns in range(70_000):
        archive.locations[0].enter(300 + time_ns, 2)
    assert "calls inside calls" in refused(archive.write(tmp_path / "a"), "P016").found


def test_times_that_no_recording_has(tmp_path: Path) -> None:
    archive = small()
    archive.locations[0].call(2**63, 2**64 - 1, 0, (14, 1, 0, 5, 2**64 - 2))
    trace = read(archive.write(tmp_path / "a"), use_cache=False)
    assert "P103" in {f.code for f in build(trace).findings}
    assert {f.code for f in trace.findings} >= {"P144"}


def test_findings_hold_no_text_of_the_recorded_process(tmp_path: Path) -> None:
    archive = small()
    evil = "\x1b[31m</script>"
    strange = [
        archive.region(name, MPI)
        for name in (f"MPI_{evil}", f"MPI_Neighbor_{evil}", f"MPI_I{evil}", f"mpi_send{evil}_")
    ]
    host = archive.text(evil)
    archive.globals.record(12, 1, host, host, 0)
    for place, region in enumerate(strange):
        archive.locations[0].event(300 + 10 * place, 22)
        archive.locations[0].call(301 + 10 * place, 305 + 10 * place, region)
    trace = read(archive.write(tmp_path / "a"), use_cache=False)
    assert {f.code for f in trace.findings} >= {"P119"}
    assert not any(evil in f.detail or "\x1b" in f.detail for f in trace.findings)
    assert evil not in str(trace.facts) and evil in "".join(trace.names)


def test_progress_is_told_and_stops_the_read(tmp_path: Path) -> None:
    anchor = small().write(tmp_path / "a")
    told: list[float] = []
    read(anchor, use_cache=False, progress=told.append)
    assert told[0] == 0.0 and told[-1] == 1.0 and told == sorted(told)

    def enough(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read(anchor, use_cache=False, progress=enough)


def test_one_thread_and_many_read_the_same(tmp_path: Path) -> None:
    anchor = small().write(tmp_path / "a")
    one, many = (read(anchor, use_cache=False, threads=t) for t in (1, 8))
    assert (
        one.facts == many.facts
        and one.findings == many.findings
        and one.names.to_list() == many.names.to_list()
    )
    assert all(frame.equals(many.tables[name]) for name, frame in one.tables.items())


def flipped(content: bytes, rng: random.Random) -> bytes:
    """The bytes, cut, overwritten, or with some more."""
    data = bytearray(content)
    match rng.randrange(4):
        case 0:
            del data[rng.randrange(len(data)) :]
        case 1:
            for _ in range(rng.choice((1, 1, 2, 8))):
                data[rng.randrange(len(data))] = rng.choice((0, 1, 5, 255, rng.randrange(256)))
        case 2:
            at = rng.randrange(len(data))
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        case _:
            at = rng.randrange(len(data))
            data[at : at + 8] = b"\xff" * 8
    return bytes(data)


def survived(anchor: Path, rng: random.Random, rounds: int) -> tuple[int, int]:
    """Reads of an archive with one or more files changed: how many gave a recording, and how many a
    coded error.
    """
    parts = sorted(f for f in anchor.parent.rglob("*") if f.suffix in (".otf2", ".def", ".evt"))
    good = bad = 0
    for _ in range(rounds):
        chosen = rng.sample(parts, rng.choice((1, 1, 1, 2)))
        kept = [part.read_bytes() for part in chosen]
        for part, content in zip(chosen, kept, strict=True):
            part.write_bytes(flipped(content, rng))
        started = time.process_time()
        try:
            trace: Trace = read(anchor, use_cache=False)
            if rng.random() < 0.1:
                build(trace)
            good += 1
        except ProfileError as error:
            assert error.code in ("P003", "P007", "P013", "P015", "P016", "P017", "P018"), (
                error.lines()
            )
            bad += 1
        assert time.process_time() - started < 10, (
            "on the clock of the process: others may keep it waiting"
        )
        for part, content in zip(chosen, kept, strict=True):
            part.write_bytes(content)
    return good, bad


@pytest.mark.parametrize("seed", range(2))
def test_changed_bytes_never_do_worse_than_a_coded_error(tmp_path: Path, seed: int) -> None:
    good, bad = survived(
        small(1 << 10 if seed % 2 else 1 << 18).write(tmp_path / "a"), random.Random(seed), 150
    )
    assert good > 10 and bad > 10


@pytest.mark.parametrize(
    "name",
    [
        "otf2-local/mpi-p2pkinds-2r/archive",
        "otf2-local/scorep-p2pkinds-2r/archive",
        "otf2/sstmacro_halo_10rank",
    ],
)
def test_changed_bytes_of_real_archives(shared: Path, tmp_path: Path, name: str) -> None:
    source = shared / "traces" / name
    for part in source.rglob("*"):
        if part.suffix in (".otf2", ".def", ".evt"):
            place = tmp_path / part.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(part.read_bytes())
    good, bad = survived(next(tmp_path.glob("*.otf2")), random.Random(name), 60)
    assert good > 2 and bad > 5
