"""Ratios from public threads: the manual's table is what the calculations give, misses among it."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "validation"))

from public_pairs import (  # type: ignore[import-not-found]  # noqa: E402
    SUMS,
    page,
    pairs,
    row,
    sums,
)


def test_the_page_shows_what_the_calculations_give() -> None:
    text = (ROOT / "docs" / "public-pairs.md").read_text(encoding="utf-8")
    assert page(text) == text, "python validation/public_pairs.py -o docs/public-pairs.md renews it"


def test_pairs_with_one_change_are_summed_up_for_the_table_of_real_gpus() -> None:
    """One machine measured twice; a number that the program has from the thread judges nothing."""
    with SUMS.open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == [sums()]
    judged = [pair for pair in pairs() if pair.one_change and pair.calculated and not pair.own]
    assert sums()["points"] == str(len(judged)) and len(judged) >= 3
    assert {"nvlink_off", "weights_cross", "graphs"} == {
        pair.calculated.func.__name__ for pair in judged
    }


def test_how_many_ratios_lie_inside() -> None:
    """Rows whose number is the thread's own are counted apart; a miss is a row of the table, never
    left out.
    """
    inside = [row(pair)[5] for pair in pairs() if not pair.own]
    assert (inside.count("yes"), inside.count("no"), inside.count("cannot say")) == (9, 0, 5)
    assert all(row(pair)[5] == "yes" for pair in pairs() if pair.own), (
        "a number that the program has did not arrive"
    )


def test_a_row_judges_or_is_a_source_or_says_what_would_settle_it() -> None:
    for pair in pairs():
        inside, judges, settles = row(pair)[5:8]
        assert {"yes": "yes", "no": "yes", "cannot say": ""}[inside] == judges or (
            pair.own and judges == "no, a source"
        )
        assert settles and not settles.startswith("none"), pair.what


def test_every_pair_of_the_pages_has_a_row_with_its_values(shared: Path) -> None:
    place = shared / "measured" / "mlperf" / "pages.csv"
    if not place.is_file():
        pytest.skip("the collection of measured pairs is not there")
    with place.open(encoding="utf-8", newline="") as file:
        measured = list(csv.DictReader(file))
    ratios = {round(pair.ratio, 9) for pair in pairs()}
    for name in {each["pair"] for each in measured}:
        one, other = (float(each["value"]) for each in measured if each["pair"] == name)
        assert {round(one / other, 9), round(other / one, 9)} & ratios, name
        alone = next(each["one_change_only"] for each in measured if each["pair"] == name) == "yes"
        changed = {round(p.ratio, 9) for p in pairs() if p.one_change}
        assert bool({round(one / other, 9), round(other / one, 9)} & changed) == alone, name


def test_every_thread_of_the_collection_has_a_row_with_its_values(shared: Path) -> None:
    place = shared / "measured" / "public-pairs" / "public-pairs.json"
    if not place.is_file():
        pytest.skip("the collection of measured pairs is not there")
    threads = {pair.pair for pair in pairs()}
    for each in json.loads(place.read_text(encoding="utf-8")):
        name = each["source"].replace(" pull ", " pull request ")
        assert any(thread.startswith(name) for thread in threads), name
