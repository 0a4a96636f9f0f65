"""``turnbuckle model bound``: what people and programs get, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hostile_names import Ran

Run = Callable[..., Ran]
KNOWN = ("--gain", "1.21", "--from", "100us", "--to", "10us")


def test_a_claim_that_contradicts_its_gain(turnbuckle: Run) -> None:
    """LAMMPS in Table 13 of the ECP report, as its section 7 tells what disaggregation is."""
    ran = turnbuckle("model", "bound", *KNOWN, "--at", "1ms", "--claimed", "2.39")
    assert ran.code == 0 and "at least 2.736x" in ran.out and "2.701x" in ran.out
    assert (
        "2.39x at 1 ms contradicts the gain: it is reached by 821 us (838 us with rounding)"
        in " ".join(ran.out.split())
    )


def test_a_claim_that_is_possible(turnbuckle: Run) -> None:
    ran = turnbuckle("model", "bound", *KNOWN, "--at", "1ms", "--claimed", "3.1x")
    assert ran.code == 0 and "3.1x at 1 ms is possible with the gain" in ran.out
    # 2.7 stands for 2.65 to 2.75, and the gain for a bound of 2.701 or more
    assert "possible" in turnbuckle("model", "bound", *KNOWN, "--at", "1ms", "--claimed", "2.7").out
    assert (
        "contradicts"
        in turnbuckle("model", "bound", *KNOWN, "--at", "1ms", "--claimed", "2.69").out
    )


def test_between_the_two_latencies_the_bound_is_an_upper_one(turnbuckle: Run) -> None:
    document = json.loads(
        turnbuckle(
            "model", "bound", *KNOWN, "--at", "55us", "--claimed", "0.95", "--format", "json"
        ).out
    )
    (row,) = document["bounds"]
    assert (
        row["holds"] == "at most"
        and row["ratio"] == pytest.approx(0.9132, abs=1e-4)
        and row["rounded_ratio"] > row["ratio"]
    )
    assert (
        document["claimed"]["verdict"] == "contradicts"
        and "reached_seconds" not in document["claimed"]
    )


@pytest.mark.parametrize(
    ("at", "claimed", "possible"),
    [
        ("1us", "0.82", True),
        ("1us", "2", False),
        ("1us", "0.7", False),
        ("10us", "0.83", True),
        ("10us", "0.9", False),
        ("10us", "0.5", False),
        ("50us", "0.9", True),
        ("50us", "0.10", False),
        ("50us", "2", False),
        ("100us", "1", True),
        ("100us", "2", False),
        ("100us", "0.9", False),
        ("1ms", "900", True),
        ("1ms", "0.5", False),
    ],
)
def test_a_claim_is_held_against_both_ends(
    turnbuckle: Run, at: str, claimed: str, possible: bool
) -> None:
    """Run time is convex in latency, and no latency shortens it."""
    question = ("model", "bound", *KNOWN, "--at", at, "--claimed", claimed)
    document = json.loads(turnbuckle(*question, "--format", "json").out)
    assert (document["claimed"]["verdict"] == "possible") == possible
    assert (document["bounds"][0]["high"] is None) == (at == "1ms")
    assert ("reached_seconds" in document["claimed"]) == ((at, claimed) == ("1ms", "900"))
    assert ("is possible" if possible else "contradicts") in turnbuckle(*question).out


def test_json_csv_and_parquet_hold_the_same_rows(turnbuckle: Run, tmp_path: Path) -> None:
    question = ("model", "bound", *KNOWN, "--at", "0s,1ms", "--at", "10ms")
    document = json.loads(turnbuckle(*question, "--format", "json").out)
    assert document["schema_version"] == 2 and document["over"] == "latency"
    assert (document["from_seconds"], document["to_seconds"]) == (
        pytest.approx(1e-4),
        pytest.approx(1e-5),
    )
    assert (
        document["gain"] == {"ratio": 1.21, "low": 1.205, "high": 1.215}
        and document["claimed"] is None
    )
    assert [row["ratio"] for row in document["bounds"]] == pytest.approx(
        [0.8072, 2.7355, 20.0909], abs=1e-4
    )
    written = list(csv.DictReader(io.StringIO(turnbuckle(*question, "--format", "csv").out)))
    assert [float(row["ratio"]) for row in written] == [row["ratio"] for row in document["bounds"]]
    assert turnbuckle(*question, "--format", "parquet", "-o", "bounds.parquet").code == 0
    assert pl.read_parquet(tmp_path / "bounds.parquet").rows(named=True) == document["bounds"]


def test_bandwidths(turnbuckle: Run) -> None:
    """Run time is convex in seconds a byte: the same line, read along one over the bandwidth."""
    question = (
        "model",
        "bound",
        "--gain",
        "1.90",
        "--from",
        "16 GB/s",
        "--to",
        "160 GB/s",
        "--at",
        "1.6 GB/s",
    )
    document = json.loads(turnbuckle(*question, "--claimed", "1.9", "--format", "json").out)
    assert document["over"] == "bandwidth" and document["bounds"][0][
        "at_bandwidth"
    ] == pytest.approx(1.6e9)
    assert document["bounds"][0]["ratio"] == pytest.approx(1 + 10 * (1 - 1 / 1.9))
    # 16 GB/s over 1 + 0.9 x 0.9 / (1 - 1/1.9)
    assert document["claimed"]["reached_bandwidth"] == pytest.approx(
        16e9 / (1 + 0.9 * 0.9 / (1 - 1 / 1.9)), rel=1e-9
    )
    shown = turnbuckle("model", "bound", "--gain", "1.90", "--from", "16 GB/s", "--to", "160 GB/s")
    assert "no limit" in shown.out and "every byte counts" in shown.out


def test_a_gain_that_may_be_none_says_nothing(turnbuckle: Run) -> None:
    ran = turnbuckle(
        "model",
        "bound",
        "--gain",
        "1.00",
        "--from",
        "100us",
        "--to",
        "10us",
        "--at",
        "1ms",
        "--claimed",
        "1.1",
    )
    assert (
        ran.code == 0
        and "nothing follows" in ran.out
        and "at least 1.000x" in ran.out
        and "possible" in ran.out
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--gain", "abc", "--from", "100us", "--to", "10us"), "A044"),
        (("--gain", "-1.2", "--from", "100us", "--to", "10us"), "A044"),
        (("--gain", "nan", "--from", "100us", "--to", "10us"), "A044"),
        (("--gain", "0", "--from", "100us", "--to", "10us"), "A044"),
        (("--gain", "21%", "--from", "100us", "--to", "10us"), "A044"),
        (("--gain", "1e9999", "--from", "100us", "--to", "10us"), "A044"),
        (("--gain", "0.83", "--from", "100us", "--to", "10us"), "A044"),
        (("--gain", "1.21", "--from", "10us", "--to", "100us"), "A044"),
        (("--gain", "1.21", "--from", "10us", "--to", "10us"), "A044"),
        (("--gain", "1.21", "--from=-100us", "--to=-200us"), "A044"),
        (("--gain", "1.21", "--from", "0 GB/s", "--to", "10 GB/s"), "A044"),
        (("--gain", "1.21", "--from", "1e-320 B/s", "--to", "10 GB/s"), "A044"),
        (("--gain", "1.21", "--from", "100", "--to", "10us"), "U001"),
        (("--gain", "1.21", "--from", "100us", "--to", "16GB/s"), "U003"),
        (("--gain", "1.21", "--from", "16GB/s", "--to", "10us"), "U003"),
        ((*KNOWN, "--at", "1 parsec"), "U002"),
        ((*KNOWN, "--at=-1ms"), "A044"),
        ((*KNOWN, "--at", " , "), "A044"),
        ((*KNOWN, "--at", "1e25 s"), "A044"),
        ((*KNOWN, "--at", "1e300 s"), "U005"),
        (("--gain", "1.21", "--from", "1 GB/s", "--to", "1e25 B/s"), "A044"),
        (("--gain", "1.21", "--from", "1 GB/s", "--to", "1e300 B/s"), "U005"),
        ((*KNOWN, "--claimed", "2.39"), "A044"),
        ((*KNOWN, "--at", "1ms,2ms", "--claimed", "2.39"), "A044"),
        ((*KNOWN, "--at", "1ms", "--claimed", "slow"), "A044"),
        ((*KNOWN, "-o", "table.txt"), "A010"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, tuple) else x,
)
def test_bad_questions(turnbuckle: Run, words: tuple[str, ...], code: str) -> None:
    ran = turnbuckle("model", "bound", *words)
    assert ran.code == 2 and f"error[{code}]" in ran.err and "fix:" in ran.err and not ran.out
