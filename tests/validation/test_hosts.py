"""Hosts' entries are what the table of measurements gives, and the rule by which they are
combined.
"""

from __future__ import annotations

import csv
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from turnbuckle.machine.catalog import hosts
from turnbuckle.machine.load import read

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "validation"))

from hosts import (  # type: ignore[import-not-found]  # noqa: E402
    EVIDENCE,
    KINDS,
    OTHER_KIND,
    REFERENCE,
    Pair,
    combined,
    log_ratio,
    pairs,
    solve,
    text_of,
)


def table() -> list[dict[str, str]]:
    with EVIDENCE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("host", sorted(set(hosts()) - {REFERENCE}))
def test_an_entry_states_what_the_table_gives(host: str) -> None:
    path = hosts()[host]
    assert path.read_text(encoding="utf-8") == text_of(path, combined()[host]), (
        "python validation/hosts.py --renew"
    )
    stated = {str(change.parameter): change.set for change in read(path).changes}
    for kind, speed in combined()[host].items():
        here = stated[f"host.{kind}"]
        assert (
            here
            and here.value == pytest.approx(speed.value)
            and here.error == pytest.approx(speed.error)
        )


def test_every_row_is_a_fact_with_its_source() -> None:
    rows = table()
    compared = {row["host"] for row in rows} | {REFERENCE}
    for row in rows:
        assert row["kind"] in KINDS and row["against"] in compared - {row["host"]}, row
        assert (
            row["by"] and row["source"] and row["processor"] and row["compared"] and row["unit"]
        ), row
        assert math.isfinite(log_ratio(row)) and abs(log_ratio(row)) < math.log(5), row
        assert bool(row["clock"]) == bool(row["measured_clock"]) and (
            not row["clock"] or "GHz" in row["note"]
        ), row


def test_every_host_has_more_than_a_guess() -> None:
    """A framework's work and compiled code were measured on each host, or on the same cores; a
    driver's calls say where not.
    """
    for host, speeds in combined().items():
        assert speeds["framework"].sources and speeds["code"].sources, host
        assert speeds["driver"].sources or speeds["driver"].error > OTHER_KIND, host


def test_no_host_rests_on_one_number_that_it_hides() -> None:
    """One source leaves at least what two programs differ by, twice; sources that lie apart leave
    as much as they do.
    """
    for host, speeds in combined().items():
        for kind, speed in speeds.items():
            assert speed.error >= (0.2 if len(speed.sources) < 2 else 0.17), (host, kind)
            apart = math.log(speed.most / speed.least)
            assert speed.error > apart / (2 * 1.645) - 0.01, (host, kind)


def test_a_source_counts_once() -> None:
    """More rows of one source at what it says already change nothing."""
    rows = table()
    again = [row for row in rows if row["by"] == "TransformerEngine issue 2053"]
    once, twice = (
        [pair.log for pair in pairs(found, "framework")] for found in (rows, rows + again)
    )
    assert again and twice == pytest.approx(once, abs=1e-12)


def test_less_time_is_more_speed() -> None:
    row = table()[0] | {"value": "2", "against_value": "1", "clock": "", "measured_clock": ""}
    assert (
        log_ratio(row | {"unit": "points"})
        == -log_ratio(row | {"unit": "us"})
        == pytest.approx(math.log(2))
    )
    carried = row | {"unit": "points", "clock": "3", "measured_clock": "2"}
    assert log_ratio(carried) == pytest.approx(math.log(3))


def test_pairs_are_chained_and_errors_with_them() -> None:
    first, second = Pair("a", REFERENCE, 0.2, 0.1, "x"), Pair("b", "a", 0.3, 0.2, "y")
    found = solve([first, second])
    assert found["b"] == pytest.approx((0.5, math.hypot(0.1, 0.2)))
    assert found["a"] == pytest.approx((0.2, 0.1)), "what hangs on a host says nothing of it"


def test_sources_that_lie_apart_widen_the_error() -> None:
    one = Pair("a", REFERENCE, 0.0, 0.1, "x")
    near, far = (solve([one, replace(one, log=log, by="y")])["a"] for log in (0.01, 1.0))
    assert near == pytest.approx((0.005, 0.1 / math.sqrt(2)))
    assert far == pytest.approx((0.5, 0.5)), "two that are 1 apart leave 0.5"
