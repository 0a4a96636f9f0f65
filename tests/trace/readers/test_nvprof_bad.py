"""Files of nvprof that are spoilt, locked, hostile or no recordings; and mangled names, sound and
unsound.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from build_nvprof import EPOCH, LAUNCH, call, copy, kernel, make, thread_object, turns
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import codes, refused

from turnbuckle._native import demangle
from turnbuckle.foundation.errors import ProfileError
from turnbuckle.profile.profile import build
from turnbuckle.trace import read
from turnbuckle.trace.readers.nvprof import reader as nvprof
from turnbuckle.trace.readers.nvprof.names import short
from turnbuckle.trace.readers.parts import sqlite_tables


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write a file as nvprof does."""
    return lambda tables, **more: make(tmp_path / "run.nvvp", tables, **more)


def refusal(path: Path) -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        nvprof.read(path)
    error = caught.value
    assert error.where == str(path) and error.fix and error.found
    return error


#: What the Visual Profiler writes for itself, with folders of the machine where it ran.
SESSION = """<?xml version="1.0" encoding="UTF-8"?>
<session version="2" name="NewSession1.nvvp" normalize="false">
<executable file="app" workingdir="." args="10"/>
<timeline file="C:\\runs\\secret-user\\timeline.nvprof"/><timeline file='other.nvprof'/>
</session>
"""

# --- what cannot be read --------------------------------------------------------------------------


def test_a_session_of_the_visual_profiler_names_its_recordings(tmp_path: Path) -> None:
    session = tmp_path / "session.nvvp"
    session.write_text(SESSION)
    elsewhere = refused("P089", read, session)
    assert (
        elsewhere.found == "timeline timeline.nvprof, other.nvprof"
        and "copy timeline.nvprof" in elsewhere.fix
    )
    make(tmp_path / "timeline.nvprof", turns(3))
    assert refused("P089", read, session).fix == "read timeline.nvprof, which stands beside it"
    session.write_text("<session>" + "<" * 100_000)
    assert refused("P089", read, session).found == "no timeline"
    session.write_text('<?xml version="1.0"?><topology><object type="Machine"/></topology>')
    refused("P013", read, session)


def test_sniff(written: Callable[..., Path], tmp_path: Path) -> None:
    path = written({"RUNTIME": [call(LAUNCH, 0, 5, 1)]})
    head = path.read_bytes()[:512]
    assert nvprof.sniff(head, path)
    for number, statements in enumerate(
        (
            [
                "CREATE TABLE StringIds(id INTEGER, value TEXT)",
                "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT, end INT)",
            ],
            ["CREATE TABLE StringTable(_id_ INTEGER, value TEXT)"],
            [
                "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT 1 AS _id_",
                "CREATE TABLE StringTable(_id_ INTEGER, value TEXT)",
            ],
            [
                "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT)",
                "CREATE TABLE StringTable(_id_ INTEGER, value TEXT)",
            ],
        )
    ):
        other = tmp_path / f"{number}.sqlite"
        with closing(sqlite3.connect(other)) as file, file:
            for statement in statements:
                file.execute(statement)
        file.close()
        assert not nvprof.sniff(other.read_bytes()[:512], other), statements
    assert not nvprof.sniff(b"SQLite format 3\x00", tmp_path / "missing.db")
    (tmp_path / "cut.nvvp").write_bytes(path.read_bytes()[:5000])
    assert (
        nvprof.sniff(head, tmp_path / "cut.nvvp") and refusal(tmp_path / "cut.nvvp").code == "P038"
    )
    (tmp_path / "short").write_bytes(head[:40])
    assert not nvprof.sniff(head[:40], tmp_path / "short")
    assert not nvprof.sniff(b'{"traceEvents": []}', tmp_path / "missing.json")


def test_a_summary_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "summary.txt"
    path.write_text(
        "step 1 done\n==77== NVPROF is profiling process 77, command: ./a\n"
        "==77== Profiling result:\n"
    )
    assert nvprof.sniff(path.read_bytes()[:512], path)
    error = refusal(path)
    assert error.code == "P043" and "turnbuckle model additive" in error.fix
    path.write_text("some ==77== text\n")
    assert not nvprof.sniff(path.read_bytes()[:512], path)


def test_a_file_that_is_written(
    written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(turns(2))
    monkeypatch.setattr(sqlite_tables, "LOCK_SECONDS", 0.1)
    with closing(sqlite3.connect(path, isolation_level=None)) as file, file:
        file.execute("BEGIN EXCLUSIVE")
        assert refusal(path).code == "P039"
        file.execute("ROLLBACK")
    file.close()
    assert nvprof.read(path).kernels.height == 2


def test_columns_that_are_needed(written: Callable[..., Path]) -> None:
    path = written({"CONCURRENT_KERNEL": [{"start": EPOCH, "name": 1}]})
    error = refusal(path)
    assert error.code == "P040" and "without end" in error.found
    # a table without rows needs none
    assert nvprof.read(written({"CONCURRENT_KERNEL": []})).has == frozenset()


def test_values_of_other_types(written: Callable[..., Path]) -> None:
    rows = [
        kernel(100, 50, 1),
        kernel(200, 50, 2, registersPerThread="many", gridX=2.5),
        kernel(300, 50, 3, streamId=2**40, name=b"x"),
    ]
    trace = nvprof.read(written({"RUNTIME": [call(LAUNCH, 0, 5, 1)], "CONCURRENT_KERNEL": rows}))
    assert trace.kernels["registers"].to_list() == [31, None, 31] and trace.kernels[
        "blocks"
    ].to_list() == [8, None, 8]
    assert trace.kernels["stream"].to_list() == [7, 7, None]
    found = codes(trace)
    assert (found["P105"], found["P106"]) == (3, 1)


def test_lost_and_wild_times(written: Callable[..., Path]) -> None:
    """As in every recording: set aside and counted, each once."""
    rows = [
        kernel(100, 50, 1),
        kernel(200, 50, 2),
        kernel(300, 50, 3),
        kernel(400, 50, 4),
        {**kernel(0, 0, 5), "start": 0, "end": 0},
        {**kernel(0, 0, 6), "start": 0},
        kernel(500, -50, 7),
        {**kernel(0, 0, 8), "start": 2**63 - 1, "end": 2**63 - 1},
        {**kernel(0, 0, 9), "start": -(2**63), "end": 5},
        {**kernel(0, 0, 10), "start": None},
    ]
    trace = nvprof.read(
        written(
            {"RUNTIME": [call(LAUNCH, 0, 5, k) for k in range(1, 11)], "CONCURRENT_KERNEL": rows}
        )
    )
    assert trace.kernels.height == len(rows) and trace.facts["session_start_utc_ns"] == EPOCH - 1000
    profile = build(trace)
    found = codes(profile)
    assert profile.trace.kernels.height == 4
    assert found["P101"] + found["P102"] + found.get("P103", 0) == 6


def test_what_is_stored_is_not_run(written: Callable[..., Path]) -> None:
    path = written(turns(3))
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(
            "CREATE VIEW CUPTI_ACTIVITY_KIND_MEMCPY AS SELECT * FROM (SELECT "
            "zeroblob(1000000000) AS start)"
        )
        file.execute("CREATE TRIGGER t AFTER INSERT ON Version BEGIN DELETE FROM StringTable; END")
        file.execute('CREATE TABLE "CUPTI_ACTIVITY_KIND_""; DROP TABLE StringTable; --"(a INT)')
        file.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET(start INT, end INT, _id_ INT, bytes AS "
            "(length(zeroblob(9))))"
        )
        file.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET(start, end, _id_) VALUES (1, 2, 3)")
    file.close()
    before = path.read_bytes()
    trace = nvprof.read(path)
    assert (
        trace.kernels.height == 3
        and "copies" not in trace.has
        and trace.memsets["size_bytes"].to_list() == [None]
    )
    assert path.read_bytes() == before


def test_texts_that_are_none(written: Callable[..., Path]) -> None:
    path = written(
        {
            "RUNTIME": [call(LAUNCH, 0, 5, 1)],
            "CONCURRENT_KERNEL": [kernel(9, 5, 1, n) for n in (1, 2, 3)],
        },
        texts=("a", "b", "c"),
    )
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE StringTable SET value = CAST(x'ff6b' AS TEXT) WHERE _id_ = 1")
        file.execute("UPDATE StringTable SET value = 12 WHERE _id_ = 2")
        file.execute("UPDATE StringTable SET value = zeroblob(10000000) WHERE _id_ = 3")
    file.close()
    trace = nvprof.read(path)
    assert (
        trace.text(trace.kernels).to_list()[:2] == ["\N{REPLACEMENT CHARACTER}k", "12"]
        and codes(trace)["P107"] == 1
    )
    assert max(map(len, trace.names)) <= 1 << 16


def test_a_schema_that_is_no_text(written: Callable[..., Path]) -> None:
    """SQLite's message repeats the spoilt bytes, and Python cannot decode them."""
    path = written(turns(3))
    path.write_bytes(
        path.read_bytes().replace(
            b"CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME",
            b"CREATE TAB\xb3E CUPTI_ACTIVITY_KIND_RUNTIME",
        )
    )
    assert refusal(path).code == "P038"
    assert nvprof.sniff(path.read_bytes()[:512], path) and not nvprof.sniff(
        path.read_bytes()[:512], path.with_suffix(".db")
    )


def mutations(content: bytes) -> Iterator[bytes]:
    """The file cut, with bytes changed, with pages swapped: the same ones every time."""
    dice = random.Random(7)
    for _ in range(15):
        yield content[: dice.randrange(100, len(content))]
    for _ in range(20):
        changed = bytearray(content)
        for _ in range(dice.choice((1, 5, 40))):
            changed[dice.randrange(16, len(changed))] = dice.choice(
                (0, 1, 127, 255, dice.randrange(256))
            )
        yield bytes(changed)
    for _ in range(8):
        at, other = (4096 * dice.randrange(1, len(content) // 4096) for _ in range(2))
        swapped = bytearray(content)
        swapped[at : at + 4096], swapped[other : other + 4096] = (
            content[other : other + 4096],
            content[at : at + 4096],
        )
        yield bytes(swapped)


def test_spoilt_files_are_read_or_refused(written: Callable[..., Path], tmp_path: Path) -> None:
    tables = turns(60) | {"MEMCPY": [copy(k * 100, 50, k) for k in range(50)]}
    tables["MARKER"] = [
        {
            "flags": 2,
            "timestamp": EPOCH,
            "id": k,
            "objectKind": 2,
            "objectId": thread_object(),
            "name": 1,
        }
        for k in range(9)
    ]
    content = written(tables).read_bytes()
    refused = 0
    for spoilt in mutations(content):
        path = tmp_path / "spoilt.nvvp"
        path.write_bytes(spoilt)
        nvprof.sniff(spoilt[:512], path)
        try:
            build(nvprof.read(path))
        except ProfileError as error:
            refused += 1
            assert error.code in ("P038", "P040", "P043"), error
    assert refused > 10


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mangled", "plain", "brief"),
    [
        (
            "_Z12saxpy_kernelPv7ComplexS_S_i",
            "saxpy_kernel(void*, Complex, void*, void*, int)",
            "saxpy_kernel",
        ),
        (
            "_ZN12_GLOBAL__N_11fILb1EEEvSt6vectorIiE",
            "void (anonymous namespace)::f<true>(std::vector<int>)",
            "f",
        ),
        ("_ZNK1AclEi", "A::operator()(int) const", "operator()"),
        ("_Z1fIJiPdEEvDpT_", "void f<int, double*>(int, double*)", "f"),
        ("_Z1gIRiEvOT_", "void g<int&>(int&)", "g"),
        ("_Z1hv.part.0", "h() [clone .part.0]", "h"),
        ("main", "main", "main"),
        ("_ZN3abc", "_ZN3abc", "abc"),
        ("_Z9999999999f", "_Z9999999999f", "_Z9999999999f"),
    ],
)
def test_names_as_people_say_them(mangled: str, plain: str, brief: str) -> None:
    assert demangle([mangled, "f"]) == [plain, "f"]
    assert short(plain) == brief


@settings(max_examples=300)
@given(st.text(alphabet="_ZNSTIEJKPRFA0123456789abcdefilmvxXLDCtp.", max_size=60))
def test_no_name_breaks_the_reader(tail: str) -> None:
    assert len(demangle(["_Z" + tail])) == 1
    assert isinstance(short("_Z" + tail), str) and isinstance(short(tail), str)
