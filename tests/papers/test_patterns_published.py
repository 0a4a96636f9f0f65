"""The four applications as declared patterns: what is not printed has a name, verdicts follow."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from refusals import refused

from turnbuckle.foundation.fields import finite
from turnbuckle.mpi.questions.messages import question as messages
from turnbuckle.mpi.questions.patterns.question import OF_THE_PAPER
from turnbuckle.mpi.replay.patterns import traffic_of
from turnbuckle.papers.gpudirect.patterns import (
    MORE,
    NAMES,
    Answered,
    Compared,
    application,
    assumptions,
    declared,
    partners,
    replayed,
    small_payload,
    spans,
)
from turnbuckle.papers.numbers import exact, printed


def test_every_application_is_there() -> None:
    assert {p.subject for p in MORE.all} == set(NAMES)


def test_what_is_printed() -> None:
    found = application("sw4lite")
    assert (found.name, found.ranks, found.partners) == ("SW4lite", (32, 64, 128, 256), (2, 4))
    assert found.bands == ((0.5, 65536.0, 65536.0), (0.5, 12582912.0, 12582912.0))
    assert found.gain == (printed("15.8").times(0.01), printed("74.4").times(0.01))
    assert found.share(64) == pytest.approx(0.343) and found.share(32) == pytest.approx(
        (0.343 + 0.425) / 2
    ), "the mean of what is printed"
    assert application("LULESH").gain == (exact(-0.03), exact(0.03))
    assert application("Minisweep").increases[256][1].value == pytest.approx(2.42)
    assert (
        math.isnan(application("Minisweep").small_payload)
        and application("AmgX").small_payload == 0.04
    )
    assert application("AmgX").bands[-1] == (0.08, 512000.0, 1024000.0), (
        "an open band goes to twice its beginning"
    )


@pytest.mark.parametrize("name", ["AmgX", "LULESH", "SW4lite"])
def test_declared_patterns_have_the_printed_partners_and_shares(name: str) -> None:
    app = application(name)
    pattern = declared(app)
    assert [partners(pattern, n) for n in app.ranks] == [app.partners] * 4
    whole = sum(share for share, _, _ in app.bands)
    sizes = np.array(pattern.sizes)
    for share, low, high in app.bands:
        # a band begins where the one before it ends
        assert ((sizes >= low) & (sizes <= high)).mean() == pytest.approx(share / whole, abs=0.011)


def test_what_is_printed_of_small_messages_bounds_the_sizes() -> None:
    """The share of bytes below 32 KB that the paper prints lies among those at the ends and in the
    middle of the bands.
    """
    for name in ("AmgX", "LULESH"):
        app = application(name)
        by_name = {a.name: a.pattern(app, 64, OF_THE_PAPER) for a in assumptions(app)}
        found = [
            small_payload(p)
            for p in (
                declared(app),
                *(by_name[f"{end} size of each band"] for end in ("smallest", "largest")),
            )
        ]
        assert min(found) <= app.small_payload <= max(found)


def test_assumptions_change_one_thing_at_a_time() -> None:
    for name in NAMES:
        app = application(name)
        several = assumptions(app)
        made = [a.pattern(app, app.ranks[0], OF_THE_PAPER) for a in several]
        assert made[0] == declared(app)
        assert len({a.name for a in several}) == len(set(made)) == len(several)


@pytest.mark.parametrize("ranks", [64, 27])
def test_waiting_has_its_share_of_communication(ranks: int) -> None:
    """With messages that cost nothing, what is left of communication is the waiting: w of what is
    printed of it.
    """
    app = application("LULESH")
    several = [a for a in assumptions(app) if a.waiting]
    assert [a.waiting for a in several] == [0.5, 0.9]
    for one in several:
        free = replace(one.pattern(app, ranks, OF_THE_PAPER), sizes=(0.0,), compute_seconds=1.0)
        row = messages.replayed(traffic_of(free, ranks), replace(OF_THE_PAPER, path="host")).row
        share = app.share(ranks)
        assert row.communication_seconds / row.compute_seconds == pytest.approx(
            one.waiting * share / (1 - share), rel=0.01
        )


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.16, 0.17, "inside"),
        (0.158, 0.744, "inside"),
        (0.1575, 0.7445, "inside"),
        (0.1, 0.2, "overlaps"),
        (0.7, 0.8, "overlaps"),
        (0.1, 0.9, "overlaps"),
        (0.1, 0.15, "outside"),
        (0.75, 0.9, "outside"),
        (math.nan, math.nan, "no such share"),
    ],
)
def test_verdicts_follow_from_the_numbers(low: float, high: float, verdict: str) -> None:
    assert (
        Compared("SW4lite", "", "gain", 0, *application("SW4lite").gain, low, high).verdict
        == verdict
    )


@pytest.mark.parametrize(
    ("low", "high", "spanned"),
    [
        (0.1, 0.8, "wholly"),
        (0.1585, 0.7435, "wholly"),
        (0.16, 0.8, "in part"),
        (0.16, 0.17, "in part"),
        (0.8, 0.9, "not at all"),
        (math.nan, math.nan, "not at all"),
    ],
)
def test_printed_ranges_within_what_assumptions_span(low: float, high: float, spanned: str) -> None:
    assert (
        Compared("SW4lite", "", "gain", 0, *application("SW4lite").gain, low, high).spanned
        == spanned
    )


def test_an_application_is_replayed_under_every_assumption() -> None:
    app = application("SW4lite")
    found = list(replayed(app, OF_THE_PAPER, ranks=(32,), ranks_per_node=(1, 6)))
    assert [r.assumption for r in found] == [a.name for a in assumptions(app)]
    for one in found:
        assert one.partners == (2, 4) and not one.lacking and one.compute_seconds[32] > 0
        gain, increase = one.compared()
        assert (gain.what, increase.what, increase.ranks) == ("gain", "increase", 32)
        assert gain.found_low == min(g.gain for g in one.gains) and gain.found_high == max(
            g.gain for g in one.gains
        )
        slow = [g.hostcopy_seconds for g in one.gains], [g.gpudirect_seconds for g in one.gains]
        assert [increase.found_low, increase.found_high] == pytest.approx(
            sorted(b / a - 1 for a, b in slow)
        )
    gains = [c for r in found for c in r.compared() if c.what == "gain"]
    over = spans(found)
    assert [(c.what, c.ranks) for c in over] == [("gain", 0), ("increase", 32)]
    assert (over[0].found_low, over[0].found_high) == (
        min(c.found_low for c in gains),
        max(c.found_high for c in gains),
    )
    answer = Answered(found, OF_THE_PAPER)
    document = answer.as_dict()
    json.dumps(finite(document), allow_nan=False)
    assert document["label"] == "declared synthetic pattern" and document[
        "break_even_bytes"
    ] == pytest.approx(28571.4, abs=0.1)
    assert len(document["replays"]) == len(answer.rows()) == 2 * len(found)
    assert {c["verdict"] for c in document["comparisons"]} <= {"inside", "overlaps", "outside"}


def test_a_share_that_no_compute_gives_is_said() -> None:
    app = replace(application("Minisweep"), shares={32: 0.2})
    one = next(replayed(app, OF_THE_PAPER, ranks=(32,), ranks_per_node=(1,)))
    assert one.lacking == (32,) and not one.gains
    assert [c.verdict for c in one.compared()] == ["no such share", "no such share"]
    assert [c.spanned for c in spans([one])] == ["not at all"] * 2


def test_names_that_are_none() -> None:
    error = refused("A093", application, "SW4\x1b[0mlight")
    assert "sw4lite" in error.fix and "\x1b" not in error.found
