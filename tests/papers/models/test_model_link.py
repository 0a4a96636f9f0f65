"""``turnbuckle model link``: tables people read, documents programs read, and what is refused."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hostile_names import Ran, document

from turnbuckle.cost.nvlink import Nvlink
from turnbuckle.cost.packet import Link, copy_seconds, pageable_log_sd, read_limited
from turnbuckle.cost.pcie import Pcie
from turnbuckle.machine import load

Run = Callable[..., Ran]
KEYS = [
    "link",
    "way",
    "size_bytes",
    "sent_bytes",
    "received_bytes",
    "efficiency",
    "bandwidth",
    "seconds",
]


def asked(turnbuckle: Run, *words: object) -> dict[str, Any]:
    return document(turnbuckle("model", "link", *words, "--format", "json"))


# --- answers --------------------------------------------------------------------------------------


def test_table_of_one_link(turnbuckle: Run) -> None:
    ran = turnbuckle("model", "link", "pcie3-x16", "--sizes", "64 B,1 GiB", "--latency", "2 us")
    lines = ran.out.splitlines()
    assert ran.code == 0 and "14.21 GB/s for packets" in ran.out
    assert lines[3].split() == ["size", "sent", "received", "efficiency", "bandwidth", "time"]
    assert lines[4].split() == ["64", "B", "24", "84", "76.2%", "10.8", "GB/s", "2.01", "us"]
    assert lines[5].split() == [
        "1",
        "GiB",
        "50,331,648",
        "1.158",
        "GB",
        "92.8%",
        "13.2",
        "GB/s",
        "81.5",
        "ms",
    ]


def test_json_is_the_equations(turnbuckle: Run) -> None:
    found = asked(
        turnbuckle,
        "pcie4-x16",
        "nvlink2-x2",
        "--sizes",
        "100 B",
        "--sizes",
        "1 MiB",
        "--way",
        "both",
        "--latency",
        "3 us",
    )
    rows = found["rows"]
    assert [list(row) for row in rows] == [KEYS] * 4
    assert [(r["link"], r["size_bytes"]) for r in rows] == [
        ("pcie4-x16", 100),
        ("pcie4-x16", 2**20),
        ("nvlink2-x2", 100),
        ("nvlink2-x2", 2**20),
    ]
    links: list[Link] = [Pcie(4), Pcie(4), Nvlink(2, 2), Nvlink(2, 2)]
    for row, link in zip(rows, links, strict=True):
        n = row["size_bytes"]
        assert row["seconds"] == float(copy_seconds(n, link, "both", latency=3e-6))
        assert row["bandwidth"] == float(link.bandwidth(n, "both")) and row["efficiency"] == float(
            link.efficiency(n, "both")
        )
        assert [row["sent_bytes"], row["received_bytes"]] == [
            float(b) for b in link.wire_bytes(n, "both")
        ]
    assert found["schema_version"] == 2 and found["findings"] == [] and found["tags"] is None
    assert found["links"][1] == {
        "name": "nvlink2-x2",
        "link": "nvlink2-x2",
        "latency_seconds": 3e-6,
        "raw_bandwidth": 50e9,
        "packet_bandwidth": 50e9,
        "settings": {"version": 2, "links": 2, "address_extension": False, "byte_enable": False},
    }


def test_settings_reach_the_link(turnbuckle: Run) -> None:
    words = (
        "--mps",
        512,
        "--mrrs",
        1024,
        "--rcb",
        128,
        "--address-bits",
        32,
        "--ecrc",
        "--symbol-intervals",
        "--legacy-headers",
        "--legacy-mrrs",
    )
    links = asked(turnbuckle, "pcie5-x8,nvlink3-x4", *words)["links"]
    assert Pcie(**links[0]["settings"]) == Pcie(
        5, 8, 512, 1024, 128, "rcb", 32, True, "symbols", True, True
    )


def test_pageable_copies_and_their_doubt(turnbuckle: Run) -> None:
    words = ("pcie4-x16", "--host-memory", "50 GB/s", "--latency", "2 us", "--sizes", "4 KiB,1 MiB")
    found = asked(turnbuckle, *words)
    rows = found["rows"]
    for row in rows:
        given = {"latency": 2e-6, "host_memory_bandwidth": 50e9}
        assert row["seconds"] == float(copy_seconds(row["size_bytes"], Pcie(4), "read", **given))
        assert row["log_sd"] == float(pageable_log_sd(row["size_bytes"], Pcie(4), "read", **given))
    assert [(f["code"], f["count"]) for f in found["findings"]] == [("A331", 1)]
    table = turnbuckle("model", "link", *words).out
    assert "at most" in table and "A331" in table
    assert asked(turnbuckle, *words, "--pageable-threshold", "0 B")["findings"] == []


def test_reads_in_flight_stand_beside_the_papers_answer(turnbuckle: Run) -> None:
    words = ("pcie4-x16", "--tags", 256, "--round-trip", "101 us", "--sizes", "1 MiB")
    found = asked(turnbuckle, *words)
    (row,) = found["rows"]
    limited = float(read_limited(2**20, Pcie(4), "read", tags=256, round_trip=101e-6))
    assert row["limited_bandwidth"] == limited < row["bandwidth"]
    assert row["limited_seconds"] == pytest.approx(2**20 / limited) and row[
        "seconds"
    ] == pytest.approx(2**20 / row["bandwidth"])
    assert [f["code"] for f in found["findings"]] == ["A332"]
    table = turnbuckle("model", "link", *words)
    assert "1.3 GB/s" in table.out and "A332" in table.out
    assert asked(turnbuckle, *words, "--way", "write")["findings"] == [], "writes are posted"


def test_no_number_is_cut_however_many_links(
    turnbuckle: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in (
        (),
        ("--tags", 64, "--round-trip", "3 us"),
        ("--host-memory", "50 GB/s", "--tags", 64, "--round-trip", "3 us"),
    ):
        out = turnbuckle(
            "model", "link", "pcie1-x1", "pcie4-x16", "pcie7-x32", "nvlink5-x18", *words
        ).out
        assert "…" not in out and max(map(len, out.splitlines())) <= 80
        heads = " ".join(line for line in out.splitlines() if "each way" not in line)
        assert all(name in heads for name in ("pcie1-x1", "pcie4-x16", "pcie7-x32", "nvlink5-x18"))


def test_units_stay_on_a_narrow_terminal(turnbuckle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    for words in ((), ("--host-memory", "50 GB/s", "--tags", 64, "--round-trip", "3 us")):
        rows = [
            line
            for line in turnbuckle("model", "link", "pcie4-x16", *words).out.splitlines()
            if line.startswith(("64 B", "256 MiB"))
        ]
        assert [row.rstrip()[-2:] for row in rows] == ["ns", "ms"] and all(
            len(row) <= 60 for row in rows
        )


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_rows_for_programs(turnbuckle: Run, tmp_path: Path, format: str) -> None:
    file = tmp_path / f"rows.{format}"
    assert (
        turnbuckle("model", "link", "pcie4-x16", "pcie5-x16", "--format", format, "-o", file).code
        == 0
    )
    frame = pl.read_parquet(file) if format == "parquet" else pl.read_csv(file)
    assert frame.columns == KEYS and frame.height == 20
    assert frame["bandwidth"][19] == pytest.approx(float(Pcie(5).bandwidth(2**28, "read")))


def test_csv_goes_to_the_terminal(turnbuckle: Run) -> None:
    out = turnbuckle("model", "link", "pcie4-x16", "--sizes", "1 KiB", "--format", "csv").out
    (row,) = csv.DictReader(io.StringIO(out))
    assert row["link"] == "pcie4-x16" and float(row["size_bytes"]) == 1024


# --- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("A019", ()),
        ("A019", (",",)),
        ("A019", ("pcie4-x16", "--tags", "64")),
        ("A019", ("pcie4-x16", "--round-trip", "1 us")),
        ("A019", ("pcie4-x16", "--pageable-threshold", "1 MiB")),
        ("A019", ("pcie4-x16", "--sizes", " , ")),
        ("A019", ("nvlink2-x2", "--mps", "256")),
        ("A010", ("pcie4-x16", "-o", "table.txt")),
        ("A016", ("pcie4-x17",)),
        ("A016", ("pcie4-x16", "\x1b]0;owned\x07")),
        ("A017", ("pcie4-x16", "--mps", "100")),
        ("A017", ("pcie4-x16", "--legacy-mrrs")),
        ("A017", ("pcie4-x16", "--tags", "0", "--round-trip", "1 us")),
        ("A017", ("pcie4-x16", "--latency=-1 us")),
        ("A017", ("pcie4-x16", "--host-memory", "0 GB/s")),
        ("A017", ("pcie4-x16", "--host-memory", "1e-300 GB/s")),
        ("A017", ("pcie4-x16", "--tags", "64", "--round-trip", "0 s")),
        ("U005", ("pcie4-x16", "--tags", "64", "--round-trip", "1e300 s")),
        ("A018", ("pcie4-x16", "--sizes=-1 B")),
        ("A018", ("pcie4-x16", "--sizes", "1e25 B")),
        ("U005", ("pcie4-x16", "--sizes", "1e300 B")),
        ("U001", ("pcie4-x16", "--sizes", "64")),
        ("U003", ("pcie4-x16", "--latency", "2 GB/s")),
        ("A002", ("pcie4-x16", "--way", "up")),
        ("A002", ("pcie4-x16", "--tags", "many", "--round-trip", "1 us")),
    ],
)
def test_refused_with_cause_or_fix(turnbuckle: Run, code: str, words: tuple[str, ...]) -> None:
    ran = turnbuckle("model", "link", *words)
    assert (ran.code, ran.out) == (2, "")
    assert (
        f"error[{code}]" in ran.err
        and ("fix:" in ran.err or "cause:" in ran.err)
        and "\x1b]" not in ran.err
    )


def test_links_of_machines_by_name(turnbuckle: Run) -> None:
    """Perlmutter's GPUs hang on PCIe 4 x16 and its copies take 2 us besides their bytes; Summit
    states no latency.
    """
    asked = (
        "model",
        "link",
        "pcie4-x16",
        "--on",
        "perlmutter,summit",
        "--sizes",
        "1 MiB",
        "--format",
        "json",
    )
    found = document(turnbuckle(*asked))
    by_name = {link["name"]: link for link in found["links"]}
    assert [(n, link["link"]) for n, link in by_name.items()] == [
        ("pcie4-x16", "pcie4-x16"),
        ("perlmutter", "pcie4-x16"),
        ("summit", "nvlink2-x2"),
    ]
    late = load("perlmutter").value("link.h2d.latency")
    assert (
        late
        and by_name["perlmutter"]["latency_seconds"] == late
        and by_name["summit"]["latency_seconds"] == 0.0
    )
    seconds = {row["link"]: row["seconds"] for row in found["rows"]}
    assert seconds["perlmutter"] == pytest.approx(seconds["pcie4-x16"] + late)
    same = document(turnbuckle(*asked, "--latency", "1us"))
    assert {link["latency_seconds"] for link in same["links"]} == {1e-6}
    assert "perlmutter (pcie4-x16, latency" in turnbuckle("model", "link", "--on", "perlmutter").out
    for machine, code in (("gh200", "A019"), ("cdi-row-link", "A160"), ("nowhere", "M001")):
        ran = turnbuckle("model", "link", "--on", machine)
        assert ran.code != 0 and f"error[{code}]" in ran.err
