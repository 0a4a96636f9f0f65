"""What a recording does not hold is called not recorded, never none; and rows, commands and
findings stand as people need them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran

from turnbuckle.show.target_table import arrow

Run = Callable[..., Ran]

NOT = r" +not recorded  +- *$"


def line(text: str, begins: str) -> str:
    found = [row for row in text.splitlines() if row.startswith(begins)]
    assert len(found) == 1, (begins, found)
    return found[0]


@pytest.mark.shared
def test_a_recording_of_the_device_alone_has_no_zeros_for_host_calls_and_copies(
    turnbuckle: Run, shared: Path
) -> None:
    said = turnbuckle(
        "inspect", shared / "traces" / "rocprof" / "laplacian_rocprof_mi200" / "results.db"
    ).out
    assert re.search(NOT, line(said, "copies, no kernel running"), re.M)
    assert re.search(NOT, line(said, "GPU calls, device idle"), re.M)
    assert "host work" not in said.split("findings")[0] and "1.44 %" in line(
        said, "nothing recorded"
    )
    assert line(said, "launch ").split(maxsplit=1)[1].strip() == "host calls not recorded"


@pytest.mark.shared
def test_a_run_of_mpi_alone_has_no_zeros_for_the_device(turnbuckle: Run, shared: Path) -> None:
    said = turnbuckle("inspect", shared / "traces" / "dumpi" / "bgp_7rank" / "testbgp.meta").out
    assert "no GPU activity recorded, 1,589 MPI calls" in said
    for category in ("kernels", "copies, no kernel running", "GPU calls, device idle"):
        assert re.search(NOT, line(said, category), re.M)
    assert "36.1 %" in line(said, "MPI, device not recorded") and "63.9 %" in line(
        said, "host work, device not recorded"
    )


def test_what_was_recorded_and_took_no_time_is_none(turnbuckle: Run) -> None:
    assert "not recorded" not in turnbuckle("inspect", SAMPLE).out


@pytest.mark.shared
def test_a_link_that_nothing_crossed_is_not_an_empty_line(turnbuckle: Run, shared: Path) -> None:
    file = shared / "traces" / "kineto" / "vllm_decode_graph" / "graph_execution.json.gz"
    said = turnbuckle("project", file, "--on", "nvlink-c2c", "--draws", "0").out
    # the link of the chip that the recording describes
    assert re.search(
        r"to device [\d.]+ GB/s -> [\d.]+ GB/s; to host [\d.]+ GB/s -> [\d.]+ GB/s",
        " ".join(said.split()),
    )
    assert (arrow(None, 374e9, "B/s"), arrow(None, None, "s")) == (
        "not stated → 374\N{NO-BREAK SPACE}GB/s",
        "",
    )
    assert "rank 0 of 1" in turnbuckle("inspect", file).out


@pytest.mark.shared
def test_a_latency_that_the_fit_could_not_tell_is_not_none(turnbuckle: Run, shared: Path) -> None:
    said = turnbuckle(
        "inspect", shared / "traces" / "nsys" / "extrap_concurrent_s1" / "profile1.sqlite"
    ).out
    assert "(o+L) 0 s" not in said and said.count("(o+L) unknown") == 2


@pytest.mark.shared
def test_changes_that_are_only_a_part_are_told_beside_the_verdicts(
    turnbuckle: Run, shared: Path
) -> None:
    said = turnbuckle(
        "project",
        shared / "traces" / "nsys" / "h100_2gpu_1s" / "h100_2gpu_1s.sqlite",
        "--draws",
        "0",
    ).out
    assert said.index("changes are larger than this table says") < said.index("findings")
    codes = re.findall(r"^([A-Z]\d{3}) ", said.split("findings")[1], re.M)
    assert codes.index("A365") < codes.index("P114"), (
        "a warning stands before what changes no number"
    )


@pytest.mark.shared
def test_rows_of_kernels_and_calls_are_one_line_each(
    turnbuckle: Run, monkeypatch: pytest.MonkeyPatch, shared: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = turnbuckle(
        "inspect",
        shared
        / "traces"
        / "nsys"
        / "cloverleaf_a100_perlmutter"
        / "perlmutter-cloverleaf-cuda.sqlite",
    ).out
    kernels = said.split("\nkernels (top 10 by time)")[1].split("findings")[0].strip().splitlines()
    a_row = re.compile(r"\d+ +\S+ [mun]?s +\S+ [mun]?s +(< )?[\d.]+ %$")
    assert len(kernels) == 11 and all(a_row.search(row.rstrip()) for row in kernels[1:])
    assert all(len(row) <= 80 for row in said.splitlines()[:-1])


def test_the_next_command_stands_on_one_line(
    turnbuckle: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert (
        turnbuckle("project", SAMPLE, "--draws", "0").out.splitlines()[-1]
        == f"next  turnbuckle report {SAMPLE.name}"
    )
    asked = "gh200,h100-sxm5,mi300a,a100-pcie-40"
    assert (
        turnbuckle("project", SAMPLE, "--on", asked, "--draws", "0")
        .out.splitlines()[-1]
        .endswith(f" --on {asked}")
    )


@pytest.mark.shared
def test_doctor_vouches_for_nothing_that_was_not_recorded(turnbuckle: Run, shared: Path) -> None:
    said = turnbuckle(
        "doctor", shared / "traces" / "rocprof" / "laplacian_rocprof_mi200" / "results.db"
    ).out
    assert (
        line(said, "look  clock")
        .rstrip()
        .endswith("no host call is recorded to hold the device's times against")
    )
    assert line(said, "look  profiler overhead").rstrip().endswith("not recorded")


def test_a_word_that_is_no_verb_gets_a_fix(turnbuckle: Run) -> None:
    ran = turnbuckle("nosuchverb")
    assert ran.code == 2 and "fix:" in ran.err and "turnbuckle --help" in ran.err
    assert "did you mean inspect" in turnbuckle("inspekt").err


@pytest.mark.parametrize("verb", ["report", "demo"])
def test_help_of_a_report_says_where_it_goes(turnbuckle: Run, verb: str) -> None:
    said = " ".join(turnbuckle(verb, "--help").out.replace("│", " ").split())
    assert "turnbuckle-report-NAME.html" in said and "instead of to the terminal" not in said


@pytest.mark.shared
def test_credentials_of_a_recording_are_not_told_of_its_anonymous_copy(
    turnbuckle: Run, shared: Path
) -> None:
    file = (
        shared
        / "traces"
        / "nsys"
        / "cloverleaf_a100_perlmutter"
        / "perlmutter-cloverleaf-cuda.sqlite"
    )
    ran = turnbuckle("anonymise", file, "-o", "copy")
    assert ran.code == 0 and "P182  1  in the original recording, not in the copy: " in " ".join(
        ran.out.split("\n")
    ).replace("   ", " ")


@pytest.mark.shared
def test_batches_are_of_all_calls_and_not_of_those_on_the_path(
    turnbuckle: Run, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    file = (
        shared
        / "traces"
        / "nsys"
        / "cloverleaf_a100_perlmutter"
        / "perlmutter-cloverleaf-cuda.sqlite"
    )
    said = turnbuckle("slack", file, "-v", "--part", "whole", "--draws", "0").out
    (row,) = [r for r in said.splitlines() if "122 copies of 1,229,600 B" in r]
    assert re.search(r"all [\d,]+ in 61 batches: ", row)


@pytest.mark.shared
def test_calls_that_carry_latency_are_named_without_a_break(
    turnbuckle: Run, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    file = (
        shared
        / "traces"
        / "nsys"
        / "cloverleaf_a100_perlmutter"
        / "perlmutter-cloverleaf-cuda.sqlite"
    )
    carriers = turnbuckle("slack", file, "-v", "--part", "whole", "--draws", "0").out.split(
        "what carries the latency"
    )[1]
    assert "cudaDeviceSynchronize" in carriers and "1,312 waits" in carriers
    assert carriers.count("cudaLaunchKernel") == 1 and "1,251 calls" in carriers
    assert all(len(row) <= 80 for row in carriers.splitlines())


@pytest.mark.shared
def test_where_a_bar_has_no_room_the_numbers_stand(
    turnbuckle: Run, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (file,) = (shared / "traces" / "dumpi" / "naive_all_to_all_4rank_run0").glob("*.meta")
    said = turnbuckle("inspect", file).out
    # without the device's share a bar is no picture of the run
    assert re.search(r" 1 s +99 % *$", line(said, "MPI, device not recorded")) and re.search(
        NOT, line(said, "GPU calls, device idle")
    )
    held = turnbuckle("inspect", SAMPLE).out
    assert re.search(
        r" 970 ms +55\.1 % +635 ms +44\.6 %  █+ *$", line(held, "GPU calls, device idle")
    )
    for each in (said, held):
        assert "…" not in each.split("where the run time goes")[1].split("closure defect")[0]
