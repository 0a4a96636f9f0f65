"""``turnbuckle model memory | mdm | dgemm | power`` as typed: tables, JSON, figures, and words for
what cannot be.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from hostile_names import Ran

import turnbuckle as tb
from turnbuckle.machine import load

EXAMPLES = Path(tb.__file__).parent / "examples"
Turnbuckle = Callable[..., Ran]
WORK = (
    "name, flops, regular [GB], irregular [GB], h2d [GB], d2h [GB]\ntriad, 2e9, 24, 0, 16, 8\n"
    "walk, 1e8, 1, 4, 1, 0\n"
)
MEMORIES = (
    "memory, regular, irregular, error\nhbm, 786 GB/s, 90 GB/s, 5 %\nddr, 45 GB/s, 9 GB/s, 10 %\n"
)
INTERVALS = (
    "instructions, cycles, read misses, writes, times\n40, 60, 1, 0, 100\n12, 20, 8, 1, 100\n"
)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in (
        ("work.csv", WORK),
        ("memories.csv", MEMORIES),
        ("intervals.csv", INTERVALS),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "wild.csv").write_text("name, flops, regular\na, 1e308, 1 GB\n")
    (tmp_path / "less.csv").write_text("name, flops, regular\na, -1, 1 GB\n")
    (tmp_path / "fast.csv").write_text("instructions, cycles, read misses\n400, 60, 0\n")
    shutil.copy(EXAMPLES / "dgemm-like-synthetic.sqlite", tmp_path / "dgemm.sqlite")
    shutil.copy(EXAMPLES / "milc-like-synthetic.sqlite", tmp_path / "run.sqlite")
    return tmp_path


# --- memory ---------------------------------------------------------------------------------------


def test_memory_from_numbers(turnbuckle: Turnbuckle, files: Path) -> None:
    ran = turnbuckle("model", "memory", "work.csv", "--on", "summit", "--memories", "memories.csv")
    assert (
        ran.code == 0
        and "modelled by equation 8" in ran.out
        and "17.5 [14" in ran.out
        and "memories.csv:2" in ran.out
    )
    assert "copies behind arithmetic (--overlap full)" in ran.out and "[ ]: 90 %" in ran.out
    found = json.loads(
        turnbuckle(
            "model",
            "memory",
            "work.csv",
            "--on",
            "summit",
            "--memories",
            "memories.csv",
            "--format",
            "json",
        ).out
    )
    assert (
        found["schema_version"] == 2
        and found["basis"] == "numbers"
        and [r["name"] for r in found["rows"]] == ["triad", "walk", "all"]
    )
    low, value, high = found["rows"][0]["ddr_over_hbm"]
    assert value == pytest.approx(786 / 45) and low < value < high
    beside = turnbuckle(
        "model",
        "memory",
        "work.csv",
        "--on",
        "summit",
        "--memories",
        "memories.csv",
        "--overlap",
        "none",
        "--format",
        "csv",
    )
    assert (
        pl.read_csv(beside.out.encode())["migrated_value_seconds"][1]
        >= found["rows"][1]["seconds"]["migrated"][1]
    )


def test_memory_of_a_recording(turnbuckle: Turnbuckle, shared: Path) -> None:
    path = shared / "traces" / "nsys" / "softmax_uvm_t4" / "report2.sqlite"
    refused = turnbuckle("model", "memory", path)
    assert refused.code == 3 and "A159" in refused.err and "--memory-bound unknown" in refused.err
    ran = turnbuckle("model", "memory", path, "--memory-bound", "unknown", "--on", "summit")
    assert (
        ran.code == 0 and "[0 s, 35.6 ms]" in ran.out and "bracket" in ran.out and "A343" in ran.out
    )
    found = json.loads(
        turnbuckle(
            "model",
            "memory",
            path,
            "--memory-bound",
            "20 %:0.5",
            "--on",
            "summit",
            "--format",
            "json",
        ).out
    )
    assert found["migrated_bytes"] == {"migration_h2d": 268500992, "migration_d2h": 268435456}
    assert (
        found["memory_bound"] == [0.2, 0.5]
        and found["overlap"] is None
        and found["rows"][0]["bound_by"] == {"hbm": None, "ddr": None}
    )
    said = turnbuckle("model", "memory", path, "--memory-bound", "20 %:0.5", "--on", "summit").out
    assert (
        "20% to 50% of kernel time is bound by memory, as you say; the rest keeps its time in ddr"
        in said
    )
    assert (
        found["rows"][1]["name"] == "all"
        and found["rows"][1]["seconds"]["migrated"][1] == found["measured_seconds"]
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["work.csv"], "A045"),
        (["work.csv", "--on", "summit"], "A045"),
        (["work.csv", "--on", "summit", "--memory-bound", "unknown"], "A045"),
        (["work.csv", "--on", "summit", "--source", "summit"], "A045"),
        (["run.sqlite", "--memory-bound", "unknown", "--overlap", "none"], "A045"),
        (["run.sqlite", "--memory-bound", "0.5:"], "U004"),
        (["wild.csv", "--on", "summit"], "U005"),
        (["less.csv", "--on", "summit"], "A063"),
        (["run.sqlite", "--memory-bound", "unknown"], "A160"),
        (["work.csv", "--on", "nowhere"], "M001"),
        (["run.sqlite", "--memory-bound", "half"], "U004"),
        (["gone.csv", "--on", "summit"], "A061"),
        (["dgemm.sqlite", "--counters", "dgemm.sqlite"], "A061"),
    ],
)
def test_memory_refuses(turnbuckle: Turnbuckle, files: Path, words: list[str], code: str) -> None:
    ran = turnbuckle("model", "memory", *words)
    assert ran.code in (2, 3) and f"error[{code}]" in ran.err


# --- mdm ------------------------------------------------------------------------------------------


def test_mdm(turnbuckle: Turnbuckle, files: Path) -> None:
    words = (
        "model",
        "mdm",
        "intervals.csv",
        "--warps",
        "32",
        "--miss-rate",
        "40 %",
        "--instructions",
        "3e8",
    )
    ran = turnbuckle(*words)
    assert (
        ran.code == 0
        and "modelled  8.36 ms  [3.67 ms, 19 ms], 90 % of a prior with log-sd 0.5" in ran.out
    )
    assert "authors' script" in ran.out and "measured" not in ran.out
    found = json.loads(turnbuckle(*words, "--format", "json").out)
    assert (
        found["modelled_seconds"]["log_sd"] == 0.5
        and found["measured"] is None
        and found["device"]["sms"] == 28
    )
    assert [r["divergent"] for r in found["intervals"]] == [False, True]
    whole = json.loads(turnbuckle(*words, "--kappa-divergent", "1", "--format", "json").out)
    assert whole["instructions_per_cycle"] < found["instructions_per_cycle"]


def test_mdm_stands_beside_what_was_measured(turnbuckle: Turnbuckle, files: Path) -> None:
    words = (
        "model",
        "mdm",
        "intervals.csv",
        "--warps",
        "32",
        "--miss-rate",
        "0.4",
        "--instructions",
        "3e8",
        "--profile",
        "run.sqlite",
    )
    ran = turnbuckle(*words, "--kernel", "axpy")
    assert (
        ran.code == 0
        and "measured  47.6 us" in ran.out
        and "modelled  8.36 ms" in ran.out
        and "only if you give it" in ran.out
    )
    several = turnbuckle(*words)
    assert several.code == 3 and "error[A160]: 5 kernels" in several.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--warps", "0", "--miss-rate", "0.4"], "A046"),
        (["--warps", "nan", "--miss-rate", "0.4"], "A046"),
        (["--warps", "8", "--miss-rate", "140 %"], "A046"),
        (["--warps", "8", "--miss-rate", "0.4", "--kappa", "-1"], "A046"),
        (["--warps", "8", "--miss-rate", "0.4", "--instructions", "0"], "A046"),
        (["--warps", "8", "--miss-rate", "0.4", "--clock", "0 GHz"], "A046"),
        (["--warps", "8", "--miss-rate", "0.4", "--dram", "480"], "U001"),
        (["--warps", "8", "--miss-rate", "0.4", "--dram", "1e-300 B/s"], "A046"),
        (["--warps", "8", "--miss-rate", "0.4", "--kernel", "axpy"], "A046"),
    ],
)
def test_mdm_refuses(turnbuckle: Turnbuckle, files: Path, words: list[str], code: str) -> None:
    ran = turnbuckle("model", "mdm", "intervals.csv", *words)
    assert ran.code == 2 and f"error[{code}]" in ran.err


def test_no_sm_issues_so_much(turnbuckle: Turnbuckle, files: Path) -> None:
    ran = turnbuckle("model", "mdm", "fast.csv", "--warps", "32", "--miss-rate", "0.4")
    assert ran.code == 3 and "error[A160]" in ran.err and "213, above 8" in ran.err


# --- dgemm ----------------------------------------------------------------------------------------


def test_dgemm_by_alpha_says_so(turnbuckle: Turnbuckle) -> None:
    ran = turnbuckle("model", "dgemm")
    assert (
        ran.code == 0
        and "kernel times not measured: host time / 8" in ran.out
        and "6.98x" in ran.out
        and "5.04x" in ran.out
    )
    found = json.loads(
        turnbuckle(
            "model",
            "dgemm",
            "--alpha",
            "4",
            "--sizes",
            "512,1024",
            "--launch",
            "0 s,4 us",
            "--format",
            "json",
        ).out
    )
    assert found["kernel_times"] == {"mode": "alpha", "source": "host time / 4", "left_out": 0}
    assert [p["size"] for p in found["products"]] == [512, 1024] and found["launch_seconds"] == [
        0.0,
        4e-6,
    ]


def test_dgemm_of_a_recording(turnbuckle: Turnbuckle, files: Path) -> None:
    ran = turnbuckle(
        "model", "dgemm", "dgemm.sqlite", "--launch", "4.5 us", "--bandwidth", "25 GB/s,400 GB/s"
    )
    assert ran.code == 0 and "kernel times measured: dgemm.sqlite" in ran.out and "never" in ran.out
    mixed = turnbuckle("model", "dgemm", "run.sqlite", "--kernel", "lattice", "--size", "100")
    assert "measured: run.sqlite, 5 different kernels;" in mixed.out
    table = pl.read_csv(
        turnbuckle(
            "model", "dgemm", "dgemm.sqlite", "--sizes", "1024,3000", "--format", "csv"
        ).out.encode()
    )
    assert table["kernel_times"].unique().to_list() == ["measured"] and table.height == 2 * 6 * 7
    assert (table["speedup_low"] <= table["speedup"]).all() and (
        table["speedup"] <= table["speedup_high"]
    ).all()


def test_dgemm_in_a_narrow_terminal(
    turnbuckle: Turnbuckle, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    ran = turnbuckle(
        "model",
        "dgemm",
        "--bandwidth",
        ",".join(f"{k} GB/s" for k in range(1, 13)),
        "--launch",
        "9 us,1 us,5 us",
    )
    assert (
        all(f" {k} GB/s" in ran.out for k in range(1, 13))
        and max(map(len, ran.out.splitlines())) <= 60
    )
    assert (
        ran.out.count("launch 1 us\n") == ran.out.count("launch 9 us\n") > 1
        and "launch 5 us" not in ran.out
    )
    assert "the shortest and the longest of 3 launch times" in ran.out
    table = pl.read_csv(
        turnbuckle("model", "dgemm", "--launch", "9 us,1 us,5 us", "--format", "csv").out.encode()
    )
    assert table["launch_seconds"].unique(maintain_order=True).to_list() == [1e-6, 5e-6, 9e-6]


def test_dgemm_draws(turnbuckle: Turnbuckle, files: Path) -> None:
    assert (
        turnbuckle(
            "model", "dgemm", "dgemm.sqlite", "--sizes", "1024,2048,4096", "--charts", "figures"
        ).code
        == 0
    )
    drawing = ElementTree.parse(files / "figures" / "dgemm.svg").getroot()
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    assert pl.read_csv(files / "figures" / "dgemm.csv").height == 3 * 6 * 61
    (files / "taken").write_text("")
    assert "error[R001]" in turnbuckle("model", "dgemm", "--charts", "taken").err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["dgemm.sqlite", "--alpha", "8"], "A047"),
        (["--alpha", "1"], "A047"),
        (["--alpha", "nan"], "A047"),
        (["--sizes", "-5"], "A047"),
        (["--sizes", "0"], "A047"),
        (["--host-rate", "0 FLOP/s"], "A047"),
        (["--bandwidth", "0 GB/s"], "A047"),
        (["--bandwidth", "25"], "U001"),
        (["--element", "99"], "A047"),
        (["dgemm.sqlite", "--element", "0"], "A047"),
        (["dgemm.sqlite", "--element", "-8"], "A047"),
        (["dgemm.sqlite", "--size", "0"], "A047"),
        (["--size", "1024"], "A047"),
        (["--kernel", "gemm"], "A047"),
        (["--sizes", ","], "A047"),
        (["--launch", "1e25 s"], "A047"),
        (["--launch", "1e300 s"], "U005"),
        (["--bandwidth", "1e-300 B/s"], "A047"),
        (["dgemm.sqlite", "--sizes", "100000"], "A160"),
        (["dgemm.sqlite", "--kernel", "nothing"], "A160"),
        (["run.sqlite", "--kernel", "axpy"], "A160"),
        (["work.csv"], "A062"),
    ],
)
def test_dgemm_refuses(turnbuckle: Turnbuckle, files: Path, words: list[str], code: str) -> None:
    ran = turnbuckle("model", "dgemm", *words)
    assert ran.code in (2, 3) and f"error[{code}]" in ran.err


# --- power ----------------------------------------------------------------------------------------


def test_power(turnbuckle: Turnbuckle) -> None:
    ran = turnbuckle("model", "power")
    assert (
        ran.code == 0
        and "A100-SXM4-40GB (2020), doubled every 3 years" in ran.out
        and "133" in ran.out
        and "A344" in ran.out
    )
    found = json.loads(turnbuckle("model", "power", "--format", "json").out)
    assert found["published"]["flops_per_second_per_watt"]["value"] == pytest.approx(0.195e12)
    assert found["published"]["design_points"][0]["flops_per_second"]["value"] == pytest.approx(
        136.5e12
    )
    assert found["design_points"][0]["printed_flops_per_second"] == 133e12
    low, value, high = (found["doubling_years"][k] for k in ("low", "value", "high"))
    assert low < 3 < value and high is None, "no growth is not excluded"


def test_power_of_other_parts_and_splits(turnbuckle: Turnbuckle, tmp_path: Path) -> None:
    (tmp_path / "parts.csv").write_text(
        "part, year, rate [TFLOP/s], power [W]\na, 2016, 1, 100\nb, 2018, 2, 100\n"
        "c, 2020, 4.1, 100\n"
    )
    words = (
        "model",
        "power",
        "parts.csv",
        "--package",
        "600 W",
        "--share",
        "75 %",
        "--exponent",
        "1",
        "--format",
        "csv",
    )
    table = pl.read_csv(turnbuckle(*words).out.encode())
    full, apu = (
        table.filter(table["name"] == f"2026 {n}")["flops_per_second_value"][0]
        for n in ("on-board", "APU")
    )
    assert (
        apu == pytest.approx(0.75 * full)
        and (table["flops_per_second_low"] < table["flops_per_second_value"]).all()
    )
    paper = turnbuckle(
        "model", "power", "--doubling", "2", "--base", "MI100", "--year", "2024", "--format", "json"
    )
    assert json.loads(paper.out)["flops_per_second_per_watt"]["value"] == pytest.approx(
        11.5e12 / 300 * 4
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--year", "nan"], "A048"),
        (["--share", "0"], "A048"),
        (["--package=-5 W"], "A048"),
        (["--doubling", "0"], "A048"),
        (["--doubling", "3", "--base", "A100"], "A048"),
        (["--doubling", "3", "--since", "2020"], "A048"),
        (["--doubling", "3", "gone.csv"], "A048"),
        (["--base", "MI100"], "A048"),
        (["--since", "2024"], "A161"),
        (["--since", "nan"], "A161"),
        (["gone.csv"], "A061"),
        (["--package", "700"], "U001"),
    ],
)
def test_power_refuses(turnbuckle: Turnbuckle, words: list[str], code: str) -> None:
    ran = turnbuckle("model", "power", *words)
    assert ran.code in (2, 3) and f"error[{code}]" in ran.err


def test_a_steep_trend_has_no_end(turnbuckle: Turnbuckle, tmp_path: Path) -> None:
    lines = "a, 2016, 1, 1\nb, 2016, 1, 2\nc, 2016.001, 9, 1\n"
    (tmp_path / "parts.csv").write_text("part, year, rate [TFLOP/s], power [W]\n" + lines)
    ran = turnbuckle("model", "power", "parts.csv")
    assert ran.code == 0 and "no end" in ran.out and "inf" not in ran.out
    found = json.loads(turnbuckle("model", "power", "parts.csv", "--format", "json").out)
    assert found["flops_per_second_per_watt"] == {"value": None, "low": 0.0, "high": None}


def test_names_of_files_are_shown_as_they_are(turnbuckle: Turnbuckle, tmp_path: Path) -> None:
    (tmp_path / "a[b]<i>.csv").write_text("size, time\n1024, 1 ms\n")
    assert "measured: a[b]<i>.csv;" in turnbuckle("model", "dgemm", "a[b]<i>.csv").out


@pytest.mark.parametrize("words", [["memory", "work.csv", "--on", "summit"], ["dgemm"], ["power"]])
def test_tables_go_to_the_terminal_alone(
    turnbuckle: Turnbuckle, files: Path, words: list[str]
) -> None:
    ran = turnbuckle("model", *words, "-o", "out.txt")
    assert ran.code == 2 and "error[A010]" in ran.err


def test_a_hostile_recording_stays_harmless(
    turnbuckle: Turnbuckle, hostile: Path, files: Path
) -> None:
    words = (
        "model",
        "mdm",
        "intervals.csv",
        "--warps",
        "8",
        "--miss-rate",
        "0.4",
        "--profile",
        hostile,
        "--kernel",
    )
    for kernel in ("", "dslash_interior", "[bold]", "\x1b"):
        ran = turnbuckle(*words, kernel)
        assert "\x1b" not in ran.out + ran.err and "\x07" not in ran.out + ran.err


def test_power_on_a_machine(turnbuckle: Turnbuckle) -> None:
    """The rate per watt of its GPU, doubled in the fitted or the stated years; its power is the
    package's.
    """
    machine = load("h100-sxm5")
    watts, rate = machine.value("gpu.power"), machine.value("gpu.fp64_matrix")
    assert watts and rate
    doc = json.loads(
        turnbuckle("model", "power", "--on", "h100-sxm5", "--doubling", "2", "--format", "json").out
    )
    points = {p["name"]: p for p in doc["design_points"]}
    years = 2026 - machine.year
    assert (
        points["2026 on-board"]["power"] == watts and points["2026 discrete"]["power"] == watts / 2
    )
    assert points["2026 on-board"]["flops_per_second"]["value"] == pytest.approx(
        rate * 2 ** (years / 2)
    )
    fitted = json.loads(
        turnbuckle(
            "model", "power", "--on", "h100-sxm5", "--package", "1 kW", "--format", "json"
        ).out
    )
    least, value, most = (
        fitted["design_points"][0]["flops_per_second"][end] for end in ("low", "value", "high")
    )
    doubling = fitted["doubling_years"]["value"]
    assert (
        value == pytest.approx(rate / watts * 1000 * 2 ** (years / doubling))
        and rate / watts * 1000 <= least < value < most
    )
    for words, code in (
        (("--on", "h100-sxm5", "--base", "MI50", "--doubling", "2"), "A048"),
        (("--on", "pcie4-x16"), "A160"),
    ):
        ran = turnbuckle("model", "power", *words)
        assert ran.code != 0 and f"error[{code}]" in ran.err


def test_dgemm_on_a_machine(turnbuckle: Turnbuckle) -> None:
    """Its GPU's best rate makes alpha, its large copy the bandwidth, its launch and latency the
    rest; an option stands above it.
    """
    machine = load("perlmutter")
    asked = (
        "model",
        "dgemm",
        "--on",
        "perlmutter",
        "--host-rate",
        "2.5 TFLOP/s",
        "--format",
        "json",
    )
    doc = json.loads(turnbuckle(*asked).out)
    assert doc["machine"] == "perlmutter" and doc["latency_seconds"] == machine.value(
        "link.h2d.latency"
    )
    assert doc["launch_seconds"] == [machine.value("launch.latency")]
    copy = (machine.value("link.h2d.bandwidth") or 0.0) * (
        machine.value("link.h2d.efficiency") or 0.0
    )
    assert doc["bandwidth"] == [pytest.approx(copy)]
    assert doc["products"][0]["alpha"] == pytest.approx(
        (machine.value("gpu.fp64_matrix") or 0.0) / 2.5e12
    )
    single = json.loads(turnbuckle(*asked, "--element", 4).out)
    assert single["products"][0]["alpha"] == pytest.approx(
        (machine.value("gpu.fp32") or 0.0) / 2.5e12
    )
    other = json.loads(
        turnbuckle(
            *asked, "--alpha", 3, "--bandwidth", "1GB/s", "--latency", "5us", "--launch", "0us"
        ).out
    )
    assert (
        other["products"][0]["alpha"],
        other["bandwidth"],
        other["latency_seconds"],
        other["launch_seconds"],
    ) == (3, [1e9], 5e-6, [0])
    assert "perlmutter: host 2.5 TFLOP/s" in turnbuckle("model", "dgemm", "--on", "perlmutter").out
    for words, code in (
        (("perlmutter", "--element", 2), "A160"),
        (("cdi-row-link",), "A160"),
        (("titan",), "A047"),
    ):
        ran = turnbuckle("model", "dgemm", "--on", *words)
        assert ran.code != 0 and f"error[{code}]" in ran.err
