"""``turnbuckle model sharing``."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hostile_names import SAMPLE, Ran

Run = Callable[..., Ran]


def test_the_sample_shares_its_link(turnbuckle: Run) -> None:
    ran = turnbuckle("model", "sharing", SAMPLE)
    assert ran.code == 0, ran.err
    assert (
        "fit behind one link, each at most 5 % slower" in ran.out
        and "the fastest recorded copy's rate" in ran.out
    )
    about = json.loads(
        turnbuckle("model", "sharing", SAMPLE, "--runs", "1,2,16", "--format", "json").out
    )
    penalties = [r["penalty"] for r in about["rows"]]
    assert penalties[0] == pytest.approx(1.0, abs=1e-9) and penalties == sorted(penalties)
    busiest = max(about["rows"][-1]["busy_to_device"], about["rows"][-1]["busy_to_host"])
    assert 0 < busiest <= 1 + 1e-9, "a link carries no more than it can"


def test_a_named_link_and_a_switch(turnbuckle: Run) -> None:
    narrow, wide = (
        json.loads(turnbuckle("model", "sharing", SAMPLE, "--link", k, "--format", "json").out)
        for k in ("pcie3-x1", "pcie6-x16")
    )
    own = json.loads(turnbuckle("model", "sharing", SAMPLE, "--format", "json").out)
    assert narrow["rows"][0]["penalty"] > 1 > wide["rows"][0]["penalty"], (
        "a wider link makes copies faster, as far as the link is what they cost"
    )
    assert (
        own["bandwidth"] == own["recorded_bandwidth"] < wide["bandwidth"]
        and not own["bandwidth_stated"]
        and wide["bandwidth_stated"]
    )
    far = json.loads(
        turnbuckle(
            "model", "sharing", SAMPLE, "--hop", "1 ms", "--runs", "1", "--format", "json"
        ).out
    )
    assert far["rows"][0]["penalty"] > 1 and far["hop_seconds"] == 1e-3


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (("--runs", "0"), "A075", 2),
        (("--runs", "many"), "A075", 2),
        (("--runs", "100000"), "A075", 2),
        (("--link", "pcie9-x16"), "A016", 2),
        (("--link", "12"), "U001", 2),
        (("--hop", "far"), "U0", 2),
        (("--hop", "1e30 s"), "A096", 2),
        (("--hop=-1 us",), "A096", 2),
        (("--link", "0 B/s"), "A096", 2),
        (("--form", "loos"), "A097", 2),
        (("--form", ""), "A097", 2),
        (("--form", "tight", "--speed", "0"), "A097", 2),
        (("--form", "tight", "--speed", "nan"), "A097", 2),
        (("--form", "tight", "--units=-3"), "A097", 2),
        (("--units", "108"), "A056", 2),
        (("--kernels", "full"), "A056", 2),
        (("--surface", "--kernels", "rounds"), "A056", 2),
        (("--surface", "--link", "pcie4-x16"), "A096", 2),
        (("--surface", "--differences"), "A096", 2),
        (("--law", "agochart"), "A096", 2),
        (("--latency=-1us",), "A096", 2),
        (("--latency", ","), "A096", 2),
        (("--bandwidth", "0 GB/s"), "A096", 2),
        (("--bandwidth", "fast"), "U0", 2),
        (("--latency", "1 GB/s"), "U0", 2),
        (("--beside", SAMPLE, "--form", "tight"), "A097", 2),
        (("--cores=-1",), "A075", 2),
        (("--beside", SAMPLE, "--cores", "1000000"), "A075", 2),
        (("--beside", SAMPLE, "--runs", "2"), "A056", 2),
        (("--beside", SAMPLE, "--surface"), "A056", 2),
        (("--beside", "nothing.sqlite"), "P001", 2),
        (
            (
                "--runs",
                "256",
                "--form",
                "all",
                "--latency",
                ",".join(f"{k} us" for k in range(1, 600)),
            ),
            "A173",
            3,
        ),
    ],
)
def test_questions_that_cannot_be(
    turnbuckle: Run, words: tuple[str, ...], code: str, exit_code: int
) -> None:
    ran = turnbuckle("model", "sharing", SAMPLE, *words)
    assert ran.code == exit_code and f"error[{code}" in ran.err


def test_two_recordings_at_once(turnbuckle: Run) -> None:
    ran = turnbuckle(
        "model", "sharing", SAMPLE, "--beside", SAMPLE, "--form", "shared,loose", "--format", "json"
    )
    rows = json.loads(ran.out)["rows"]
    assert ran.code == 0 and [r["form"] for r in rows] == ["shared", "loose"]
    shared = rows[0]
    assert all(
        r["until_both_are_done_seconds"] == max(r["seconds"]) >= max(r["alone_seconds"])
        for r in rows
    )
    twice = json.loads(
        turnbuckle(
            "model", "sharing", SAMPLE, "--runs", "2", "--form", "shared", "--format", "json"
        ).out
    )["rows"]
    assert max(shared["seconds"]) == pytest.approx(twice[0]["seconds"], rel=1e-9), (
        "one answer to one question"
    )
    one = turnbuckle(
        "model",
        "sharing",
        SAMPLE,
        "--beside",
        SAMPLE,
        "--form",
        "shared",
        "--cores",
        "1",
        "--format",
        "json",
    )
    assert max(json.loads(one.out)["rows"][0]["seconds"]) > max(shared["seconds"])
    table = turnbuckle("model", "sharing", SAMPLE, "--beside", SAMPLE, "--form", "shared")
    assert table.code == 0 and "on one GPU: both are done in" in table.out


def test_nothing_to_share(turnbuckle: Run, shared: Path) -> None:
    ran = turnbuckle(
        "model", "sharing", next((shared / "traces" / "nsys" / "extrap_exgpu_s10").glob("*.sqlite"))
    )
    assert ran.code == 3 and "A165" in ran.err


def test_one_larger_gpu_instead(turnbuckle: Run) -> None:
    ran = turnbuckle("model", "sharing", SAMPLE, "--form", "all", "--runs", "1,4")
    assert ran.code == 0, ran.err
    words = " ".join(ran.out.split())
    assert (
        "on a GPU 4 times as large one run takes" in words
        and "on a GPU 4 times as large 4 runs take" in words
    )
    assert (
        "times the work of 4 on a GPU each" in words
        and "from the larger to the smaller gain" in words
    )
    about = json.loads(
        turnbuckle(
            "model", "sharing", SAMPLE, "--form", "both", "--runs", "1,4", "--format", "json"
        ).out
    )
    tight = {r["runs"]: r for r in about["rows"] if r["form"] == "tight"}
    assert {r["form"] for r in about["rows"]} == {"loose", "tight"} and tight[4]["penalty"] < tight[
        1
    ]["penalty"] == pytest.approx(1.0, abs=1e-8)
    few = json.loads(
        turnbuckle(
            "model",
            "sharing",
            SAMPLE,
            "--form",
            "tight",
            "--units",
            "1000000",
            "--runs",
            "4",
            "--format",
            "json",
        ).out
    )
    assert few["kernels"]["share_that_does_not_fill"] == 1.0 and few["rows"][0][
        "penalty"
    ] == pytest.approx(1.0, abs=1e-8)
    full = json.loads(
        turnbuckle(
            "model",
            "sharing",
            SAMPLE,
            "--form",
            "tight",
            "--kernels",
            "full",
            "--runs",
            "4",
            "--format",
            "json",
        ).out
    )
    assert (
        full["rows"][0]["seconds"] <= tight[4]["seconds"] and full["fit_within_5_percent"] is None
    )


def test_steps_say_whether_they_agree(turnbuckle: Run) -> None:
    ran = turnbuckle("model", "sharing", SAMPLE, "--runs", "1", "--differences")
    assert ran.code == 0, ran.err
    assert "rises" in ran.out and "falls" in ran.out and "steps of 2% and 10%" in ran.out
    told = json.loads(
        turnbuckle(
            "model", "sharing", SAMPLE, "--runs", "1", "--differences", "--format", "json"
        ).out
    )["differences"]
    assert [d["parameter"] for d in told] == ["latency", "bandwidth", "copy cost", "kernel time"]
    assert all(d["slope_low"] <= d["slope"] <= d["slope_high"] and d["runs"] == 5 for d in told)


def test_a_surface_as_table_numbers_and_figure(turnbuckle: Run, tmp_path: Path) -> None:
    grid = (
        "--runs",
        "1,3",
        "--form",
        "both",
        "--latency",
        "10us,100us",
        "--latency",
        "1 ms",
        "--bandwidth",
        "4GB/s,16 GB/s",
    )
    ran = turnbuckle("model", "sharing", SAMPLE, *grid, "--charts", tmp_path / "figures")
    assert ran.code == 0, ran.err
    assert (
        "3 runs on a GPU each, one link" in ran.out
        and "times as fast" in ran.out
        and "times as long" in ran.out
    )
    drawing = (tmp_path / "figures" / "sharing.svg").read_text(encoding="utf-8")
    assert "3 runs" in drawing and "GPU 3× as large" in drawing
    points = json.loads(turnbuckle("model", "sharing", SAMPLE, *grid, "--format", "json").out)[
        "points"
    ]
    assert (
        len(points)
        == 24
        == len((tmp_path / "figures" / "sharing.csv").read_text(encoding="utf-8").splitlines()) - 1
    )
    table = pl.read_csv(
        io.StringIO(turnbuckle("model", "sharing", SAMPLE, *grid, "--format", "csv").out)
    )
    file = tmp_path / "points.parquet"
    assert (
        turnbuckle("model", "sharing", SAMPLE, *grid, "--format", "parquet", "--output", file).code
        == 0
    )
    assert table.to_dicts() == points == pl.read_parquet(file).to_dicts()
    pure = json.loads(
        turnbuckle("model", "sharing", SAMPLE, *grid, "--law", "agochart", "--format", "json").out
    )
    assert pure["law"] == "agochart" and pure["points"] != points


@pytest.mark.parametrize("form", ["loose", "both"])
def test_a_faster_multiprocessor_is_named_beside_the_ratio(turnbuckle: Run, form: str) -> None:
    asked = ("model", "sharing", SAMPLE, "--runs", "1", "--form", form, "--speed", "2")
    assert "a multiprocessor is 2 times as fast" in " ".join(turnbuckle(*asked).out.split())
    about = json.loads(turnbuckle(*asked, "--hop", "1us", "--format", "json").out)
    assert (
        about["speed"] == 2.0 and about["kernels_gain"] == "blocks" and about["hop_seconds"] == 1e-6
    )
    point = (*asked, "--hop", "1us", "--latency", "1us", "--bandwidth", "1GB/s")
    points = json.loads(turnbuckle(*point, "--format", "json").out)
    assert points["speed"] == 2.0 and points["hop_seconds"] == 1e-6
    words = " ".join(turnbuckle(*point).out.split())
    assert "a multiprocessor is 2 times as fast" in words and "1 us added to each copy" in words
