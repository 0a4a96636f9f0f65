"""The second look at a file: from the cache, never wrong, never in the way."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import build_nsys as b
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.foundation.errors import ProfileError
from turnbuckle.trace import Trace, read
from turnbuckle.trace.cache import cache, columns_file
from turnbuckle.trace.readers import nsys


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Names of the files that were really read; every file is big enough for the cache here."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("TURNBUCKLE_NO_CACHE", raising=False)
    monkeypatch.setattr(cache, "FLOOR", 1)
    monkeypatch.setattr(cache, "_RACY_NS", 0)
    seen: list[str] = []
    honest = nsys.read

    def watched(path: Path, **options: Any) -> Trace:
        seen.append(path.name)
        return honest(path, **options)

    monkeypatch.setattr(nsys, "read", watched)
    return seen


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return b.make(tmp_path / "run.sqlite")


def entries() -> list[Path]:
    return [p for p in cache.folder().iterdir() if p.name != "stamps"]


def alike(one: Trace, other: Trace) -> bool:
    same = (
        one.has == other.has
        and one.facts == other.facts
        and one.findings == other.findings
        and one.names.equals(other.names)
    )
    return same and all(one.table(name).equals(other.table(name)) for name in one.has)


def test_the_second_look_reads_nothing_and_says_the_same(reads: list[str], run: Path) -> None:
    first, second = read(run), read(run)
    assert reads == ["run.sqlite"]
    assert alike(first, second) and second.name == "run.sqlite"
    assert entries()[0].name.startswith(first.facts["sha256"][:16] + "-")


def test_the_second_look_asks_no_reader_whose_file_it_is(
    reads: list[str], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = read(run)
    monkeypatch.setattr(nsys, "sniff", lambda head, path: pytest.fail("the format was looked for"))
    assert alike(first, read(run)) and reads == ["run.sqlite"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_any_more_is_refused(reads: list[str], run: Path) -> None:
    read(run)
    run.chmod(0)
    refused("P010", read, run)


def test_tables_are_read_when_they_are_asked_for(reads: list[str], run: Path) -> None:
    read(run)
    second = read(run)
    assert second.has == {"api", "kernels", "copies", "devices", "streams"}
    (entries()[0] / "kernels.columns").unlink()
    assert second.copies.height == 1 and reads == ["run.sqlite"]
    assert second.kernels.height == 2 and reads == ["run.sqlite"] * 2


def test_a_changed_file_is_read_again(reads: list[str], run: Path) -> None:
    read(run)
    b.make(run, CUPTI_ACTIVITY_KIND_KERNEL=[b.kernel(1, 2, 1)])
    assert read(run).kernels.height == 1
    assert reads == ["run.sqlite"] * 2 and len(entries()) == 2


def test_a_file_changed_in_place_with_its_time_set_back_is_read_again(
    reads: list[str], run: Path
) -> None:
    read(run)
    about = run.stat()
    content = bytearray(run.read_bytes())
    content[content.index(b"saxpy")] = ord("d")
    with run.open("r+b") as file:
        file.write(content)
    os.utime(run, ns=(about.st_atime_ns, about.st_mtime_ns))
    while run.stat().st_ctime_ns == about.st_ctime_ns:  # a clock of files may tick only every 10 ms
        os.utime(run, ns=(about.st_atime_ns, about.st_mtime_ns))
    trace = read(run)
    assert len(reads) == 2 and "daxpy" in "".join(trace.names)


def test_a_copy_under_another_name_finds_the_content(reads: list[str], run: Path) -> None:
    first = read(run)
    copy = run.with_name("copy.sqlite")
    shutil.copy(run, copy)
    second = read(copy)
    assert reads == ["run.sqlite"] and alike(first, second) and second.name == "copy.sqlite"


def test_small_files_are_not_cached(
    reads: list[str], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "FLOOR", run.stat().st_size + 1)
    read(run), read(run)
    assert len(reads) == 2 and not cache.folder().exists()


def test_it_can_be_turned_off(reads: list[str], run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read(run, use_cache=False)
    assert not cache.folder().exists()
    monkeypatch.setenv("TURNBUCKLE_NO_CACHE", "1")
    read(run), read(run)
    assert len(reads) == 3 and not cache.folder().exists()


def _cut(place: Path) -> None:
    table = place / "kernels.columns"
    table.write_bytes(table.read_bytes()[:-20])


def _spoil(place: Path) -> None:
    table = place / "kernels.columns"
    table.write_bytes(b"\xff" * table.stat().st_size)


def _swap(place: Path) -> None:
    shutil.copy(place / "copies.columns", place / "kernels.columns")


def _forge(place: Path) -> None:
    """Another value, in a file that is sound and as long as before."""
    table = place / "kernels.columns"
    content = bytearray(table.read_bytes())
    content[64] ^= 1  # where the first column begins
    table.write_bytes(content)


def _forge_names(place: Path) -> None:
    table = place / "names.parquet"
    table.write_bytes(table.read_bytes().replace(b"saxpy", b"daxpy"))


def _forge_facts(place: Path) -> None:
    about = place / "trace.json"
    about.write_text(about.read_text().replace('"size_bytes": ', '"size_bytes": 1'))


def _lie(place: Path) -> None:
    about = place / "trace.json"
    about.write_text(about.read_text().replace('"layout": 1', '"layout": 99'))


DAMAGE = {
    "cut": _cut,
    "spoilt": _spoil,
    "swapped": _swap,
    "another value": _forge,
    "another name": _forge_names,
    "another fact": _forge_facts,
    "no digests": lambda place: (place / "digests.json").unlink(),
    "no digest of a table": lambda place: (place / "digests.json").write_text("{}"),
    "digests that are none": lambda place: (place / "digests.json").write_text("[]"),
    "other layout": _lie,
    "not json": lambda place: (place / "trace.json").write_text("{"),
    "wrong json": lambda place: (place / "trace.json").write_text("[]"),
    "empty": lambda place: (place / "trace.json").write_text(""),
    "names gone": lambda place: (place / "names.parquet").unlink(),
}


@pytest.mark.parametrize("harm", DAMAGE)
def test_a_damaged_entry_is_passed_over(reads: list[str], run: Path, harm: str) -> None:
    first = read(run)
    DAMAGE[harm](entries()[0])
    assert alike(first, read(run))
    assert len(reads) == 2


def test_a_damaged_entry_is_replaced(reads: list[str], run: Path) -> None:
    read(run)
    _spoil(entries()[0])
    assert read(run).kernels.height == 2
    read(run)
    assert len(reads) == 3
    assert alike(read(run), read(run)) and len(reads) == 3


@pytest.mark.parametrize("harm", DAMAGE)
def test_what_is_damaged_is_written_anew(reads: list[str], run: Path, harm: str) -> None:
    read(run)
    DAMAGE[harm](entries()[0])
    assert read(run).kernels.height == 2  # a table is held against its digest when it is asked for
    trace = read(run)
    assert trace.kernels.height == 2
    before = len(reads)
    assert alike(trace, read(run)) and len(reads) == before


# --- whose it is ----------------------------------------------------------------------------------

STRANGER = 54_321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file away")


def _given_away(path: Path) -> None:
    os.chown(path, STRANGER, -1)


def _opened_to_the_group(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o020)


PARTS: dict[str, Callable[[], Path]] = {
    "a folder above the cache folder": lambda: cache.folder().parent,
    "the cache folder": cache.folder,
    "stamps in the cache folder": lambda: cache.folder() / "stamps",
    "a stamp": lambda: next((cache.folder() / "stamps").iterdir()),
    "an entry": lambda: entries()[0],
    "a table": lambda: entries()[0] / "kernels.columns",
    "names": lambda: entries()[0] / "names.parquet",
    "facts": lambda: entries()[0] / "trace.json",
    "digests": lambda: entries()[0] / "digests.json",
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("harm", "why"),
    [
        pytest.param(_given_away, "it belongs to another user", marks=as_root),
        (_opened_to_the_group, "its group may change it"),
    ],
    ids=["stranger", "group"],
)
def test_what_others_may_change_is_not_believed(
    reads: list[str], run: Path, part: str, harm: Callable[[Path], None], why: str
) -> None:
    first = read(run)
    _forge_all(entries()[0])
    place = PARTS[part]()
    harm(place)
    second = read(run)
    assert len(reads) == 2 and second.kernels.equals(first.kernels), "the recording itself was read"
    (found,) = (f for f in second.findings if f.code == "P200")
    assert found.severity == "info" and found.detail.endswith(f": {why}")
    assert found.detail.startswith(
        part
        if part in ("the cache folder",) or " cache folder" in part
        else str(place.relative_to(cache.folder()))
    )
    assert str(cache.folder().parent) not in found.detail
    third = read(run)
    if " folder" in part:
        assert "P200" in {f.code for f in third.findings} and len(reads) == 3, (
            "who owns it must mend that"
        )
    else:
        assert alike(first, third) and len(reads) == 2, "an entry is made anew"


def _forge_all(place: Path) -> None:
    """What another user would write: other numbers, with digests that fit."""
    _forge(place)
    with (place / "kernels.columns").open("rb") as file:
        digest = cache._digest(file)
    about = json.loads((place / "digests.json").read_text())
    (place / "digests.json").write_text(json.dumps(about | {"kernels.columns": digest}))


def test_the_cache_is_for_its_owner_alone(reads: list[str], run: Path) -> None:
    before = os.umask(0o002)
    try:
        first = read(run)
    finally:
        os.umask(before)
    written = [cache.folder().parent, cache.folder(), *cache.folder().rglob("*")]
    assert {oct(p.stat().st_mode & 0o777) for p in written if p.is_dir()} == {oct(0o700)}
    assert {oct(p.stat().st_mode & 0o777) for p in written if p.is_file()} == {oct(0o600)}
    assert alike(first, read(run)) and len(reads) == 1


@pytest.mark.parametrize("unit", [1, 8], ids=["bytes", "words"])
def test_a_table_of_many_pieces_is_held_against_its_digest(
    unit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_PIECE", 10 * unit)
    monkeypatch.setattr(cache, "_STRIDE", 1 if unit > 1 else 4096)

    def digest(content: bytes) -> str:
        (tmp_path / "table").write_bytes(content)
        with (tmp_path / "table").open("rb") as file:
            return cache._digest(file)

    whole = b"0123456789" * 5 * unit + b"012"
    others = [
        whole[:-1],
        whole + b"\0",
        whole[11:] + whole[:11],
        whole[:25] + b"x" + whole[26:],
        b"",
    ]
    swapped = b"A" * 10 * unit + b"B" * 10 * unit, b"B" * 10 * unit + b"A" * 10 * unit
    assert len({digest(content) for content in (whole, *others, *swapped)}) == 8


@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.integers(-128, 127)), min_size=0, max_size=70),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.sampled_from([pl.Int8, pl.Int32, pl.Int64]), min_size=4, max_size=4),
)
def test_mapped_columns_are_those_written(
    values: list[list[int | None]], kinds: list[type[pl.DataType]]
) -> None:
    rows = min(len(v) for v in values)
    types = {f"c{i}": kind for i, (_, kind) in enumerate(zip(values, kinds, strict=False))}
    frame = pl.DataFrame(
        {name: v[:rows] for name, v in zip(types, values, strict=True)}, schema=types
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        columns_file.write(frame, path)
        with path.open("rb") as file:
            assert columns_file.mapped(file, types, rows).equals(frame)
            if frame.null_count().sum_horizontal()[0] < frame.width * rows:
                with pytest.raises(ValueError, match="shorter"):
                    columns_file.mapped(file, types, rows + 64)


def test_a_cache_that_may_not_be_written_is_no_trouble(reads: list[str], run: Path) -> None:
    cache.folder().parent.mkdir(parents=True)
    cache.folder().write_text("a file where the folder should be")
    assert read(run).kernels.height == 2 and read(run).kernels.height == 2
    assert len(reads) == 2


def test_a_recording_that_changed_after_it_was_opened_is_not_mixed_in(
    reads: list[str], run: Path
) -> None:
    read(run)
    second = read(run)
    _spoil(entries()[0])
    b.make(run, CUPTI_ACTIVITY_KIND_KERNEL=[b.kernel(1, 2, 1)])
    with pytest.raises(ProfileError, match="P005"):
        _ = second.kernels


def test_what_was_not_used_for_longest_goes_first(
    reads: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [
        b.make(tmp_path / f"{i}.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=[b.kernel(i + 1, i + 2, 1)])
        for i in range(4)
    ]
    sizes = []
    for age, file in zip((30, 20, 10), files, strict=False):
        known = set(entries()) if cache.folder().exists() else set()
        read(file)
        (made,) = set(entries()) - known
        sizes.append(sum(p.stat().st_size for p in made.iterdir() if p.suffix != ".json"))
        os.utime(made, (time.time() - age, time.time() - age))
    read(files[0])  # used again: now the second is the oldest
    monkeypatch.setattr(cache, "CAPACITY", sum(sizes) + 1)
    read(files[3])
    assert reads == ["0.sqlite", "1.sqlite", "2.sqlite", "3.sqlite"] and len(entries()) == 3
    read(files[0]), read(files[2]), read(files[3])
    assert len(reads) == 4
    read(files[1])
    assert reads[4:] == ["1.sqlite"]


def test_leftovers_of_a_crash_are_swept(reads: list[str], run: Path, tmp_path: Path) -> None:
    draft = cache.folder() / "draft-old"
    draft.mkdir(parents=True)
    os.utime(draft, (1, 1))
    stamp = cache.folder() / "stamps" / "gone"
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text("f" * 64)
    read(run)
    assert not draft.exists() and not stamp.exists() and len(entries()) == 1


def test_a_file_that_changed_just_now_is_not_remembered(
    reads: list[str], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_RACY_NS", 3_600_000_000_000)
    read(run)
    assert not list((cache.folder() / "stamps").glob("*"))
    assert read(run).kernels.height == 2 and reads == ["run.sqlite"]  # found by its content


def test_the_version_follows_the_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache.version()
    monkeypatch.setattr(cache, "READER", cache.READER + 1)
    assert cache.version() != before


def test_the_folder_is_where_the_desktop_standard_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == tmp_path / "turnbuckle"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache.folder() == tmp_path / "home" / ".cache" / "turnbuckle"
