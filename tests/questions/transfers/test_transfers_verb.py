"""``turnbuckle transfers``: from recordings and measurements to tables, documents and figures, and
what is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest
from hostile_names import SAMPLE

import turnbuckle as tb
from turnbuckle.cli.app import dispatch
from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.foundation.units import show

Run = Callable[..., str]
CURVE = """direction, memory, size [B], time [us]
h2d, pinned,         8,   2.1
h2d, pinned,      8192,   3.1
h2d, pinned,   1048576,  22.4
h2d, pinned, 134217728,  2440
d2h, pinned,         8,   1.9
d2h, pinned, 134217728,  2440
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the verb in an empty folder -> what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "there.csv").write_text(CURVE, encoding="utf-8")

    def call(*words: object) -> str:
        given = [str(w) for w in words]
        monkeypatch.setattr("sys.argv", ["turnbuckle", "transfers", *given])
        capsys.readouterr()
        assert dispatch(["transfers", *given]) == 0
        return capsys.readouterr().out

    return call


def document(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


def code(run: Run, *words: object) -> str:
    with pytest.raises(TurnbuckleError) as refused:
        run(*words)
    assert "\x1b" not in "".join(refused.value.lines())
    return refused.value.code


# --- what it says ---------------------------------------------------------------------------------


def test_a_recording_on_todays_links(run: Run) -> None:
    said = run(SAMPLE)
    nodes = ("projected on pcie4-x16, ", "on pcie5-x16", "on pcie6-x16")
    for word in (*nodes, "(L+O)", "peak", "90% interval", "A334", "transfers by size"):
        assert word in said
    assert "WMAPE" not in said


def test_the_contract(run: Run) -> None:
    found = document(
        run(SAMPLE, "--on", "pcie5-x16,h100-sxm5", "--measured", "there.csv", "--format", "json")
    )
    assert set(found) == {
        "schema_version",
        "level",
        "latency_sd",
        "projections",
        "distributions",
        "provenance",
    }
    one, other = found["projections"]
    assert set(one) == {
        "application",
        "target",
        "link",
        "transfers_of",
        "latency",
        "totals",
        "total",
        "errors",
        "findings",
    }
    assert set(one["latency"][0]) == {
        "direction",
        "memory",
        "seconds",
        "size_bytes",
        "copies",
        "source",
    }
    times = {
        "seconds",
        "low_seconds",
        "high_seconds",
        "packets_seconds",
        "peak_seconds",
        "envelope_seconds",
    }
    assert (
        set(one["totals"][0])
        == {"direction", "memory", "count", "size_bytes", "measured_seconds", "basis", "drivers"}
        | times
    )
    errors = {"wmape_percent", "spread_percent", "median_percent"}
    assert (
        set(one["errors"][0])
        == {"direction", "memory", "approach", "count", "actual_seconds", "seconds"} | errors
    )
    assert {e["approach"] for e in one["errors"]} == {"projected", "packets", "peak", "envelope"}
    assert other["link"] == "pcie5-x16", "the machine's link is that link"
    by_sheet = [
        [e["seconds"] for e in p["errors"] if e["approach"] != "projected"] for p in (one, other)
    ]
    assert by_sheet[0] == pytest.approx(by_sheet[1], rel=1e-4)
    total = one["total"]
    assert (
        total == one["totals"][-1]
        and total["envelope_seconds"] < total["peak_seconds"] < total["packets_seconds"]
    )
    assert total["low_seconds"] < total["seconds"] < total["high_seconds"]
    assert str(SAMPLE.parent) not in json.dumps(found) and found["provenance"][
        "command"
    ].startswith("turnbuckle transfers")


def test_one_answer_in_every_format(run: Run, tmp_path: Path) -> None:
    totals = [
        t for p in document(run(SAMPLE, "--format", "json"))["projections"] for t in p["totals"]
    ]
    run(SAMPLE, "--format", "csv", "-o", "out.csv")
    run(SAMPLE, "--format", "parquet", "-o", "out.parquet")
    for frame in (
        pl.read_csv(tmp_path / "out.csv", infer_schema_length=None),
        pl.read_parquet(tmp_path / "out.parquet"),
    ):
        assert frame["seconds"].to_list() == pytest.approx([t["seconds"] for t in totals])
        assert frame["application"].unique().to_list() == [SAMPLE.name]


def test_the_table_against_measured_times(run: Run) -> None:
    said = run(SAMPLE, "--on", "pcie5-x16", "--measured", "there.csv")
    assert (
        "against the times measured there" in said
        and "projected is" in said
        and "by application" not in said
    )


def test_several_applications_side_by_side(run: Run) -> None:
    said = run(
        f"heat={SAMPLE}",
        "curve=there.csv",
        "--on",
        "pcie4-x16,pcie5-x16",
        "--measured",
        "there.csv,there.csv",
    )
    summary = said[said.index("by application") :]
    first, second, mean = (line.split() for line in summary.splitlines()[2:5])
    assert (first[:2], second[:2], mean[0]) == (
        ["heat", "pcie4-x16"],
        ["curve", "pcie5-x16"],
        "mean",
    )
    assert float(mean[1]) == pytest.approx((float(first[3]) + float(second[3])) / 2, abs=0.11)
    twice = document(run("there.csv", "there.csv", "--on", "pcie4-x16", "--format", "json"))
    assert [p["application"] for p in twice["projections"]] == ["there.csv (1)", "there.csv (2)"]


def test_options_change_what_they_should(run: Run, tmp_path: Path) -> None:
    def total(*words: object, file: object = "there.csv") -> dict[str, Any]:
        found: dict[str, Any] = document(
            run(file, "--on", "pcie4-x16", "--format", "json", *words)
        )["projections"][0]["totals"][-1]
        return found

    plain = total()
    latency = 4 * 2.1e-6 + 2 * 1.9e-6
    assert total("--latency", "1 ms")["packets_seconds"] == pytest.approx(
        plain["packets_seconds"] - latency + 6e-3
    )
    assert total("--transfers-of", "measured", "--measured", "there.csv", file=SAMPLE)["count"] == 6
    (tmp_path / "pageable.csv").write_text(CURVE.replace("pinned", "pageable"), encoding="utf-8")
    staged = total("--host-memory", "10 GB/s", file="pageable.csv")
    assert staged["packets_seconds"] == pytest.approx(
        plain["packets_seconds"] + 2 * (2**20 + 2 * 2**27) / 10e9
    )
    assert staged["seconds"] == total(file="pageable.csv")["seconds"], (
        "only the paper's equation stages at the memory's bandwidth"
    )


def test_a_file_of_rates(run: Run, tmp_path: Path) -> None:
    (tmp_path / "copy.log").write_text(
        "cpu_to_gpu0_by_dma_under_numa0 26.2\ngpu0_to_gpu0_by_dma 657.3\n", encoding="utf-8"
    )
    assert code(run, "copy.log") == "A145"
    found = document(run("copy.log", "--copied-size", "256 MiB", "--format", "json"))[
        "projections"
    ][0]
    assert found["latency"][0]["source"].startswith("assumed"), (
        "a file of rates holds no fixed part"
    )
    found = document(
        run(
            "copy.log",
            "--copied-size",
            "256 MiB",
            "--latency",
            "2 us",
            "--device-memory",
            "2 TB/s",
            "--format",
            "json",
        )
    )
    assert [t["count"] for t in found["projections"][0]["totals"]] == [1, 1, 2]


def test_hostile_names_are_shown_and_not_obeyed(run: Run) -> None:
    said = run(
        "\x1b[31m[bold]evil[/bold]=there.csv", "--on", "pcie4-x16", "--measured", "there.csv"
    )
    assert "\x1b" not in said and "[bold]evil[/bold]" in said and "\\[" not in said


# --- figures --------------------------------------------------------------------------------------


def test_figures(run: Run, tmp_path: Path) -> None:
    run(
        "<b>evil</b>=there.csv",
        SAMPLE,
        "--on",
        "pcie5-x16",
        "--measured",
        "there.csv,there.csv",
        "--charts",
        "figures",
    )
    names = {"transfer-errors", "transfers-by-size", "transfer-time-by-size"}
    assert {f.name for f in (tmp_path / "figures").iterdir()} == {
        f"{n}.{end}" for n in names for end in ("svg", "csv")
    }
    for name in names:
        text = (tmp_path / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)
        # without its name space no browser or word processor shows it
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.get("aria-label") and "<b>" not in text and "script" not in text
        rows = pl.read_csv(tmp_path / "figures" / f"{name}.csv")
        assert rows["application"].unique(maintain_order=True).to_list() == [
            "<b>evil</b>",
            SAMPLE.name,
        ]
    boxes = pl.read_csv(tmp_path / "figures" / "transfer-errors.csv")
    assert boxes.height == 8
    for low, high in (
        ("low", "first"),
        ("first", "median"),
        ("median", "third"),
        ("third", "high"),
    ):
        assert (boxes[low] <= boxes[high] + 1e-9).all()
    shares = (
        pl.read_csv(tmp_path / "figures" / "transfer-time-by-size.csv")
        .group_by("application")
        .agg(pl.col("share").sum())
    )
    assert shares["share"].to_list() == pytest.approx([1, 1])


def test_errors_beyond_the_plain_axis(run: Run, tmp_path: Path) -> None:
    run("there.csv", "--on", "pcie1-x1", "--measured", "there.csv", "--charts", "figures")
    assert pl.read_csv(tmp_path / "figures" / "transfer-errors.csv")["high"].max() > 1000  # type: ignore[operator]
    ElementTree.fromstring(
        (tmp_path / "figures" / "transfer-errors.svg").read_text(encoding="utf-8")
    )


def test_no_folder_for_figures(run: Run, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")
    assert code(run, "there.csv", "--charts", "taken") == "R001"


@pytest.mark.parametrize("columns", [60, 80])
def test_no_number_is_cut(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """Neither by classes of unknown memory nor by long names."""
    monkeypatch.setenv("COLUMNS", str(columns))
    text = (
        "direction, size [B], time [us]\nh2d, 1, 2\nh2d, 1048576, 90\nd2h, 1, 3\nd2h, 1048576, 70\n"
    )
    (tmp_path / "here.csv").write_text(text, encoding="utf-8")
    (tmp_path / "far.csv").write_text(text.replace("90", "900"), encoding="utf-8")
    long = "name" * 14
    words = (f"{long}=here.csv", "b=here.csv", "--measured", "far.csv,far.csv", "--on", "pcie5-x16")
    out = run(*words)
    assert max(map(len, out.splitlines())) <= columns
    errors = [
        e for p in document(run(*words, "--format", "json"))["projections"] for e in p["errors"]
    ]
    shown = " ".join(out.split())
    for e in (e for e in errors if e["approach"] != "envelope"):
        whole = (
            f"{e['wmape_percent']:.1f} ± {e['spread_percent']:.1f}",
            show(e["actual_seconds"], "s"),
            "x there",
        )
        # a narrow terminal parts words, never numbers
        assert (
            all(word in shown or columns == 60 for word in whole)
            and whole[0].partition(" ±")[0] in shown
        )


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "A024"),
        (("there.csv", "--measured", "there.csv,there.csv"), "A024"),
        (
            (
                "there.csv",
                "there.csv",
                "there.csv",
                "--measured",
                "there.csv,there.csv,there.csv",
                "--on",
                "pcie4-x16,pcie5-x16",
            ),
            "A024",
        ),
        (("there.csv", "--transfers-of", "measured"), "A024"),
        (("there.csv", "--on", " , "), "A024"),
        (("there.csv", "--measured", ""), "A024"),
        (("there.csv", "--source", "titan"), "A024"),
        (("there.csv", "--latency", "0 s"), "A023"),
        (("there.csv", "--latency", "1e25 s"), "A023"),
        (("there.csv", "--latency", "1e300 s"), "U005"),
        (("there.csv", "--host-memory", "1e-300 B/s"), "A023"),
        (("there.csv", "--latency=-1 us"), "A023"),
        (("there.csv", "--host-memory", "50"), "U001"),
        (("there.csv", "--on", "warp9"), "A022"),
        (("there.csv", "--on", "pcie9-x16"), "A016"),
        (("there.csv", "--peer", "rope"), "A016"),
        (("there.csv#7",), "A021"),
        (("note.txt",), "A020"),
        (("missing.sqlite",), "P001"),
        (("broken.sqlite",), "P004"),
        (("there.csv", "-o", "out.txt"), "A010"),
    ],
)
def test_what_cannot_be_is_refused(
    run: Run, tmp_path: Path, words: tuple[str, ...], expected: str
) -> None:
    (tmp_path / "note.txt").write_text("hello\n", encoding="utf-8")
    (tmp_path / "broken.sqlite").write_bytes(b"\x00\x01" * 400)
    assert code(run, *words) == expected


def test_nothing_in_common(run: Run, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text(
        "direction, size [B], time [us]\nd2d, 8, 1\n", encoding="utf-8"
    )
    assert code(run, "there.csv", "--measured", "other.csv", "--on", "pcie4-x16") == "A146"
    (tmp_path / "host.csv").write_text(
        "direction, size [B], time [us]\nh2h, 8, 1\n", encoding="utf-8"
    )
    assert code(run, "host.csv") == "A146"


# --- real runs ------------------------------------------------------------------------------------


def test_real_pairs(run: Run, shared: Path) -> None:
    """A100 to H100 and GH200: the method says less there, and says so."""
    nsys = shared / "traces" / "nsys"
    here = nsys / "cloverleaf_a100_perlmutter" / "perlmutter-cloverleaf-cuda.sqlite"
    there = [
        nsys / "h100_2gpu_1s" / "h100_2gpu_1s.sqlite",
        nsys / "jacobi_gh200" / "jacobi_report.sqlite",
    ]
    priced = ("--measured", f"{there[0]},{there[1]}", "--transfers-of", "measured")
    words = (here, here, "--on", "h100-sxm5,gh200", *priced, "--format", "json")
    h100, gh200 = document(run(*words))["projections"]
    assert (h100["link"], gh200["link"]) == ("pcie5-x16", "no packet model")
    off = {
        p["target"]: {
            e["approach"]: e["wmape_percent"] for e in p["errors"] if e["direction"] == "all"
        }
        for p in (h100, gh200)
    }
    assert off["h100-sxm5"]["packets"] == pytest.approx(47.5, abs=0.5), (
        "that node's copies ran at 27.7 of 63 GB/s"
    )
    assert (
        off["h100-sxm5"]["projected"] < off["h100-sxm5"]["packets"]
        and off["gh200"]["packets"] == off["gh200"]["peak"]
    )
    assert any("without packets" in f["detail"] for f in gh200["findings"])


@pytest.mark.parametrize("part", ["auto", "whole"])
def test_self_is_the_machine_of_the_recording_as_in_project(run: Run, part: str) -> None:
    total = document(run(SAMPLE, "--on", "self", "--part", part, "--format", "json"))[
        "projections"
    ][0]["total"]
    # a machine onto itself is what was measured, to the last bit
    assert (
        total["seconds"]
        == total["low_seconds"]
        == total["high_seconds"]
        == total["measured_seconds"]
    )
    assert total["drivers"] == {}
    seen = tb.read(SAMPLE, part=part)
    assert seen.transfers("self").projected[0].total.seconds == total["seconds"]
    same = seen.project("self", draws=0).projections[0]
    assert same.seconds == same.measured_seconds


def test_measured_copies_have_no_self(run: Run) -> None:
    with pytest.raises(TurnbuckleError, match="A022"):
        run("there.csv", "--on", "self")


@pytest.mark.parametrize("part", ["whole", "kernels"])
def test_the_part_is_of_the_recording_whichever_side_it_is_on(run: Run, part: str) -> None:
    """The finding that start-up is left out names `--part whole`, which is taken beside measured
    copies too.
    """
    words = ("there.csv", "--on", "pcie5-x16", "--transfers-of", "measured", "--format", "json")
    found = document(run(*words, "--measured", SAMPLE, "--part", part))["projections"][0]
    there = document(run(SAMPLE, "--on", "pcie5-x16", "--part", part, "--format", "json"))[
        "projections"
    ][0]
    assert found["total"]["count"] == there["total"]["count"]
    assert found["total"]["size_bytes"] == there["total"]["size_bytes"]
    with pytest.raises(TurnbuckleError, match="A077"):
        run(*words, "--measured", "there.csv", "--part", part)
