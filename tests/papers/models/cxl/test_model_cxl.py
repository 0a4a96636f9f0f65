"""``turnbuckle model cxl`` and ``turnbuckle model chain``: every way to ask, every way to print,
and what is refused.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from hostile_names import SAMPLE, SECRETS, Ran

from turnbuckle.papers.models.cxl import command

Run = Callable[..., Ran]
LIMIT = ("--tags", 256, "--round-trip", "101 us")

CHAIN = """
items = 99
[stage.unpack]
device = "fpga"
time = "70.9 ms"
[stage.integrate]
device = "gpu"
time = "2.73 ms"
receives = "16 MiB"
[link.fpga-host]
kind = "time"
time = "1.87 ms"
[link.host-gpu]
kind = "pcie"
[link.fpga-gpu]
kind = "cxl2"
"""
OPEN = CHAIN.replace('time = "2.73 ms"\nreceives = "16 MiB"\n', "").replace("items = 99\n", "")


@pytest.fixture(autouse=True)
def searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Crossovers are searched up to 128 KiB here; the golden answers search all 4 MiB."""
    monkeypatch.setattr(command, "_LIMIT_BYTES", 1 << 17)


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    path = tmp_path / "chain.toml"
    path.write_text(CHAIN, encoding="utf-8")
    return path


@pytest.fixture
def open_chain(tmp_path: Path) -> Path:
    path = tmp_path / "open.toml"
    path.write_text(OPEN, encoding="utf-8")
    return path


# --- cxl ------------------------------------------------------------------------------------------


def test_the_table_has_times_crossovers_and_the_ratio(turnbuckle: Run) -> None:
    ran = turnbuckle("model", "cxl", "--sizes", "64 B,16 MiB", "--share", "0.6")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert (
        " ".join(next(x for x in lines if x.startswith("64 B")).split())
        == "64 B 746 ns 40 ns 53.1 ns CXL 1 80 ns"
    )
    assert "CXL 1 is faster than PCIe below 1,345 B (1.313 KiB)" in ran.out
    assert "CXL 2 0.6 is faster than PCIe below 13,033 B (12.73 KiB)" in ran.out
    assert "CXL 2 0.6 1.66578" in ran.out


def test_json_has_every_law_at_every_size(turnbuckle: Run) -> None:
    ran = turnbuckle(
        "model",
        "cxl",
        "--sizes",
        "1 KiB",
        "--share",
        "60%",
        "--tags",
        "4",
        "--round-trip",
        "2 us",
        "--format",
        "json",
    )
    found = json.loads(ran.out)
    assert (
        found["schema_version"] == 2
        and found["link"] == "pcie3-x16"
        and found["start_up_seconds"] == pytest.approx(738e-9)
    )
    by_law = {(r["law"], r["share"]): r for r in found["rows"]}
    assert set(by_law) == {
        ("pcie", None),
        ("pcie_reads_limited", None),
        ("cxl1", None),
        ("cxl2", 0.6),
    }
    # 4 reads of 512 B in 2 us are 1.024 GB/s
    assert by_law["pcie_reads_limited", None]["seconds"] == pytest.approx(1024 / 1.024e9 + 738e-9)
    assert by_law["cxl1", None]["seconds"] == pytest.approx(16 * 40e-9)
    for row in found["rows"]:
        assert row["offload_bound_seconds"] == pytest.approx(2 * row["seconds"])
        assert row["relative"] == pytest.approx(row["seconds"] / by_law["pcie", None]["seconds"])
    assert [(c["law"], c["first_bytes"]) for c in found["crossovers"]] == [
        ("cxl1", 1345),
        ("cxl2", 13033),
    ]


def test_pcie_is_not_the_fastest_where_its_reads_are_limited(turnbuckle: Run) -> None:
    question = ("model", "cxl", "--sizes", "16 MiB", "--share", "0.6")
    rows = [
        next(x for x in turnbuckle(*question, *more).out.splitlines() if x.startswith("16 MiB"))
        for more in ((), LIMIT)
    ]
    assert [" ".join(row.split()).partition("2.24 ms ")[2] for row in rows] == [
        "PCIe 2.69 ms",
        "CXL 2 0.6 4.49 ms",
    ]


def test_csv_and_parquet_hold_the_rows(turnbuckle: Run, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(turnbuckle("model", "cxl", "--format", "csv").out)))
    assert len(rows) == 8 * 4 and set(rows[0]) == {
        "size_bytes",
        "law",
        "share",
        "seconds",
        "relative",
        "offload_bound_seconds",
    }
    out = tmp_path / "rows.parquet"
    assert turnbuckle("model", "cxl", "--format", "parquet", "-o", out).code == 0
    assert pl.read_parquet(out)["seconds"].to_list() == pytest.approx(
        [float(r["seconds"]) for r in rows]
    )


def test_settings_change_the_answer(turnbuckle: Run) -> None:
    assert (
        "CXL 1 is faster than PCIe below 1,358 B" in turnbuckle("model", "cxl", "--as-printed").out
    )
    flown = ("model", "cxl", "--lines-in-flight", "256")
    ran = turnbuckle(*flown)
    assert "CXL 1 is faster than PCIe at every size" in ran.out
    assert "256 lines in flight ask for 410 GB/s; the link carries 12.5 GB/s" in " ".join(
        ran.out.split()
    )
    found = json.loads(turnbuckle(*flown, "--format", "json").out)
    largest = next(r for r in found["rows"] if r["law"] == "cxl1" and r["size_bytes"] == 1 << 24)
    assert largest["size_bytes"] / largest["seconds"] == pytest.approx(found["wire_bandwidth"])
    assert found["lines_bandwidth"] == pytest.approx(256 * 64 / 40e-9)
    assert "lines in flight ask" not in turnbuckle("model", "cxl").out
    assert (
        "CXL 2 0.6 is never faster than PCIe"
        in turnbuckle("model", "cxl", "--start-up", "0 s", "--share", "0.6").out
    )
    other = turnbuckle(
        "model", "cxl", "--link", "pcie5-x16", "--start-up", "300 ns", "--line-time", "150 ns"
    ).out
    assert "pcie5-x16 with both ways busy, start-up 300 ns; CXL 150 ns" in other


def test_measured_copies_give_the_start_up(turnbuckle: Run, tmp_path: Path) -> None:
    path = tmp_path / "copies.csv"
    lines = [f"h2d,pinned,{n},{n / 12e3 + 3.0}" for n in (1024, 2048, 4096, 1 << 20)]
    path.write_text(
        "direction,memory,size [B],time [us]\n" + "\n".join(lines) + "\n", encoding="utf-8"
    )
    found = json.loads(turnbuckle("model", "cxl", "--measured", path, "--format", "json").out)
    assert found["start_up_seconds"] == pytest.approx(3e-6, rel=0.02)
    assert (
        found["measured_start_up"]["copies"] == 3
        and found["measured_start_up"]["file"] == "copies.csv"
    )
    assert (
        "start-up from 3 copies of copies.csv" in turnbuckle("model", "cxl", "--measured", path).out
    )
    ran = turnbuckle("model", "cxl", "--measured", path, "--start-up", "1 us")
    assert ran.code == 2 and "error[A028]" in ran.err
    path.write_text(
        (
            "direction,memory,size [B],time [us]\nd2h,pageable,64,3\nh2d,pageable,64,3\n"
            "h2d,pinned,1000000,99\n"
        ),
        encoding="utf-8",
    )
    ran = turnbuckle("model", "cxl", "--measured", path)
    assert ran.code == 3 and "error[A148]" in ran.err
    path.write_text("direction,memory,size [B],time [us]\nd2h,pinned,64,3\n", encoding="utf-8")
    assert "of copies.csv, d2h pinned" in turnbuckle("model", "cxl", "--measured", path).out


def test_a_recording_without_kernels_is_refused(
    turnbuckle: Run, open_chain: Path, tmp_path: Path
) -> None:
    path = tmp_path / "empty.sqlite"
    shutil.copy(SAMPLE, path)
    path.chmod(0o600)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL")
    ran = turnbuckle("model", "chain", open_chain, "--profile", path)
    assert ran.code == 3 and "error[A147]" in ran.err


def test_copies_of_a_faster_link_tell_no_start_up(turnbuckle: Run, tmp_path: Path) -> None:
    """Nothing beyond n / b_n is no start-up of 0 s, but the wrong link."""
    path = tmp_path / "fast.csv"
    path.write_text(
        "direction, size [B], time [us]\nh2d, 65536, 3\nh2d, 32768, 1.5\n", encoding="utf-8"
    )
    ran = turnbuckle("model", "cxl", "--measured", path)
    assert (
        ran.code == 3
        and "error[A148]: the copies are faster than pcie3-x16" in ran.err
        and "--link" in ran.err
    )
    assert turnbuckle("model", "cxl", "--measured", path, "--link", "pcie5-x16").code == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--sizes", ","), "A028"),
        (("--sizes", "0 B"), "A028"),
        (("--sizes", "64"), "U001"),
        (("--sizes=-64 B",), "A028"),
        (("--share", "0"), "A028"),
        (("--share", "1.2"), "A028"),
        (("--share", "nan"), "U004"),
        (("--share", "1e-320"), "A028"),
        (("--start-up", "1e25 s"), "A028"),
        (("--line-time", "1e25 s"), "A028"),
        (("--start-up", "1e300 s"), "U005"),
        (("--line-time", "1e300 s"), "U005"),
        (("--start-up=-1 ns",), "A028"),
        (("--line-time", "40"), "U001"),
        (("--lines-in-flight", "0"), "A028"),
        (("--tags", "3"), "A028"),
        (("--tags", "0", "--round-trip", "1 us"), "A028"),
        (("--tags", "3", "--round-trip", "0 s"), "A017"),
        (("--link", "nvlink3-x4"), "A028"),
        (("--link", "pcie9-x16"), "A016"),
        (("--output", "x.txt"), "A010"),
    ],
)
def test_a_question_that_cannot_be_is_refused(
    turnbuckle: Run, words: tuple[str, ...], code: str
) -> None:
    ran = turnbuckle("model", "cxl", *words)
    assert ran.code == 2 and f"error[{code}]" in ran.err and not ran.out


@pytest.mark.parametrize("columns", [50, 60, 80, 200])
def test_nothing_is_cut(
    turnbuckle: Run, chain: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for words in (("cxl",), ("cxl", "--tags", "64", "--round-trip", "3 us"), ("chain", chain)):
        out = turnbuckle("model", *words).out
        assert "…" not in out and max(map(len, out.splitlines())) <= columns


# --- chain ----------------------------------------------------------------------------------------


def test_the_flows_of_a_chain(turnbuckle: Run, chain: Path) -> None:
    ran = turnbuckle("model", "chain", chain)
    assert ran.code == 0
    rows = [x.split("  ")[0] for x in ran.out.splitlines()[3:9]]
    assert rows == [
        "through the host",
        "through the host, pipelined",
        "direct",
        "direct, pipelined",
        "cached",
        "cached, pipelined",
    ]
    for words in (
        "today: through the host; its critical path: fpga 9",
        "simplest flow within 1% of the fastest",
        "disaggregation penalty",
    ):
        assert words in ran.out


def test_json_of_a_chain(turnbuckle: Run, chain: Path) -> None:
    found = json.loads(
        turnbuckle(
            "model", "chain", chain, "--items", "10", "--in-flight", "2", "--format", "json"
        ).out
    )
    assert (found["items"], found["in_flight"], found["chain"]) == (10, 2, "chain.toml")
    today, *rest = found["flows"]
    assert (
        today["seconds"] == pytest.approx(10 * today["first_item_seconds"])
        and today["speedup"] == 1.0
    )
    assert all(f["seconds"] <= today["seconds"] * (1 + 1e-12) for f in rest)
    assert sum(today["path_seconds"].values()) == pytest.approx(today["seconds"])
    rows = list(
        csv.DictReader(io.StringIO(turnbuckle("model", "chain", chain, "--format", "csv").out))
    )
    assert len(rows) == 6 and {
        "flow",
        "pipelined",
        "seconds",
        "speedup",
        "busiest",
        "busy_fraction",
    } <= set(rows[0])


def test_a_recording_as_the_gpu_stage(turnbuckle: Run, open_chain: Path) -> None:
    whole = json.loads(
        turnbuckle("model", "chain", open_chain, "--profile", SAMPLE, "--format", "json").out
    )
    assert (
        whole["items"] == 1
        and "A335" not in {f["code"] for f in whole["findings"]}
        and whole["stages"][1]["seconds"] > 0
    )
    each = json.loads(
        turnbuckle(
            "model", "chain", open_chain, "--profile", SAMPLE, "--per", "kernel", "--format", "json"
        ).out
    )
    assert each["items"] * each["stages"][1]["seconds"] == pytest.approx(
        whole["stages"][1]["seconds"]
    )
    assert "A335" in {f["code"] for f in each["findings"]}
    assert (
        "A335"
        in turnbuckle("model", "chain", open_chain, "--profile", SAMPLE, "--per", "kernel").out
    )


def test_flows_that_lack_a_link_are_named(turnbuckle: Run, tmp_path: Path) -> None:
    path = tmp_path / "chain.toml"
    path.write_text(CHAIN.split("[link.fpga-gpu]")[0], encoding="utf-8")
    ran = turnbuckle("model", "chain", path)
    assert ran.code == 0 and "left out, direct: no link between fpga and gpu" in ran.out


def test_a_hostile_recording_says_nothing(turnbuckle: Run, open_chain: Path, hostile: Path) -> None:
    ran = turnbuckle("model", "chain", open_chain, "--profile", hostile)
    assert (
        ran.code == 0 and "\x1b" not in ran.out and not any(secret in ran.out for secret in SECRETS)
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--items", "0"), "A029"),
        (("--in-flight", "-1"), "A029"),
        (("--items", "100000000"), "A029"),
        (("--per", "kernel"), "A029"),
        (("--stage", "integrate"), "A029"),
        (("--profile", str(SAMPLE)), "A029"),
        (("--profile", "nothing.sqlite"), "P001"),
        (("--output", "x.txt"), "A010"),
    ],
)
def test_a_chain_question_that_cannot_be_is_refused(
    turnbuckle: Run, chain: Path, words: tuple[str, ...], code: str
) -> None:
    ran = turnbuckle("model", "chain", chain, *words)
    assert ran.code == 2 and f"error[{code}]" in ran.err and not ran.out


def test_a_file_that_is_no_chain_is_refused(
    turnbuckle: Run, tmp_path: Path, open_chain: Path
) -> None:
    for name, data, code in (
        ("a.toml", b"\x00\xff", "A061"),
        ("b.toml", b"items = ", "A027"),
        ("c\x1b[31m.toml", b"x = 1", "A027"),
    ):
        (tmp_path / name).write_bytes(data)
        ran = turnbuckle("model", "chain", tmp_path / name)
        assert ran.code == 2 and f"error[{code}]" in ran.err and "\x1b" not in ran.err
    assert "A061" in turnbuckle("model", "chain", tmp_path).err
    ran = turnbuckle("model", "chain", open_chain)
    assert "stage integrate has no time" in ran.err and "--profile" in ran.err
