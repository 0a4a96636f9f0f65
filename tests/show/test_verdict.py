"""Words made from numbers: the verdict follows the interval, and never claims more than the draws
hold.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from turnbuckle.foundation.findings import finding
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.projection import Interval, Projection
from turnbuckle.projection.run import Run
from turnbuckle.show.figures.look import colours
from turnbuckle.show.kernel_names import kernel_labels
from turnbuckle.show.terminal.projections import print_projections
from turnbuckle.show.text import clean, percent, probability, signed
from turnbuckle.show.unknowns import advice, parameter_label, unknown_label
from turnbuckle.show.verdict import headline, sentence, three_sentences, verdicts, what_would_change


def projection(target: str, change: float, low: float, high: float, **more: Any) -> Projection:
    """A projection of a run of 2 s with 200 draws spread evenly over an interval of changes."""
    parts = {"launch": 0.1, "kernel": 1.0, "copy": 0.4, "other": 0.5}
    return Projection(
        target=target,
        title=target,
        model="nething",
        replay="sum",
        seconds=2.0 * (1 + change),
        measured_seconds=2.0,
        breakdown={**parts, "copy": 0.4 + 2.0 * change},
        measured_breakdown=parts,
        change={**dict.fromkeys(parts, 0.0), "copy": 2.0 * change},
        envelope=(2.0 * (1 + min(change, 0)), 2.0 * (1 + max(change, 0))),
        coupling=more.pop("coupling", {}),
        interval=Interval(2.0 * (1 + low), 2.0 * (1 + change), 2.0 * (1 + high), 0.9, 200, 1),
        sample=2.0 * (1 + np.linspace(low, high, 200)),
        **more,
    )


@pytest.mark.parametrize(
    ("change", "low", "high", "kind", "words"),
    [
        (-0.10, -0.12, -0.08, "faster", "faster"),
        (-0.006, -0.007, -0.0055, "faster", "faster"),
        (-0.003, -0.004, -0.002, "inside", "within 1\xa0%"),
        (-0.01, -0.02, 0.004, "inside", "within 1\xa0%, perhaps faster"),
        (0.005, 0.002, 0.009, "inside", "within 1\xa0%"),
        (0.015, 0.01, 0.019, "inside", "within 2\xa0%"),
        (0.03, 0.01, 0.0499, "inside", "within 5\xa0%"),
        (0.03, 0.01, 0.09, "undecided", "undecided, 50\xa0% within 5\xa0%"),
        (0.07, 0.06, 0.08, "over", "over 5\xa0%"),
        (0.50, 0.40, 0.60, "over", "over 10\xa0%"),
    ],
)
def test_the_verdict_follows_the_interval(
    change: float, low: float, high: float, kind: str, words: str
) -> None:
    (found,) = verdicts([projection("t", change, low, high)])
    assert (found.kind, found.words) == (kind, words)


def page_verdicts() -> dict[str, str]:
    """The table of verdicts in the manual: words -> the condition, as the page gives it."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "start.md").read_text(encoding="utf-8")
    section = page.split("### Reading the verdict", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$", section, re.MULTILINE)
    return {words: where for words, where in rows if words not in ("verdict", "---")}


def from_page(low: float, high: float) -> str:
    """The verdict that the page's conditions give an interval of slowdowns."""
    ends = {"low": 1 + low, "high": 1 + high}
    held = [
        words
        for words, where in page_verdicts().items()
        if re.fullmatch(r"`[^`]*<[^`]*`", where) and eval(where.strip("`"), {}, ends)
    ]
    (words,) = [w for w in held if not w.startswith("...")]
    return words + "".join(
        w.removeprefix("...") for w in held if w.startswith("...") and words.startswith("within")
    )


def test_the_page_gives_every_verdict_with_its_thresholds() -> None:
    edges = (-0.2, -0.01, -0.005, 0.0, 0.01, 0.02, 0.05, 0.1, 0.5)
    ends = sorted(edge + shift for edge in edges for shift in (-1e-6, 1e-6))
    met = set()
    for i, low in enumerate(ends):
        for high in ends[i:]:
            (found,) = verdicts([projection("t", (low + high) / 2, low, high)])
            chance = re.sub(
                r"([<>] )?[\d.]+ % within", "94 % within", found.words.replace("\xa0", " ")
            )
            assert chance == from_page(low, high), (low, high)
            met.add(chance)
    withheld = verdicts(
        [projection("t", 0.0, 0.0, 0.0, findings=[finding(code)]) for code in ("A365", "P220")]
    )
    (itself,) = verdicts([projection("self", 0.0, 0.0, 0.0)])
    apart = verdicts(
        [projection("t", 0.0, -0.5, 0.0, findings=[finding(code)]) for code in ("A390", "A399")]
    )
    (unsaid,) = verdicts([projection("gb300", 0.0, 0.0, 0.0).unanswered("FP64 of gb300")])
    met |= {*(v.words for v in withheld), itself.words, *(v.words for v in apart), unsaid.words}
    assert {words for words in page_verdicts() if not words.startswith("...")} <= met
    assert {words.partition(", perhaps")[0] for words in met} <= set(page_verdicts())


@pytest.mark.parametrize("missing", [False, True])
def test_the_screen_shows_the_whole_verdict(seen: Run, missing: bool) -> None:
    flaws = [finding("A365", 7, "40% of their time")] if missing else []
    found = projection(
        "t",
        0.004,
        0.001,
        0.04 if missing else 0.2,
        findings=flaws,
        coupling=seen.project(["self"]).projections[0].coupling,
    )
    printed = io.StringIO()
    print_projections(Console(file=printed, width=200), Answer(seen, projections=[found]))
    (shown,) = verdicts([found])
    assert (
        shown.kind == "undecided"
        and "," in shown.words
        and shown.words.replace("\xa0", " ") in printed.getvalue()
    )


def test_an_undecided_target_says_what_to_measure() -> None:
    far = projection(
        "row", 0.03, 0.01, 0.09, drivers={"common/distance of a row": 0.8, "kernel alpha": 0.2}
    )
    found = verdicts([far])
    said = sentence(found, 2.0)
    assert (
        "row is 50\xa0% likely to cost less than 5\xa0%; to be sure, measure the distance of a row"
        in said
    )
    assert "one-way delay" in what_would_change(found)[0]


@pytest.mark.parametrize(
    ("code", "why"), [("A365", "host calls are missing"), ("P220", "the run is all start-up")]
)
@pytest.mark.parametrize(
    ("change", "kind"), [(0.004, "undecided"), (-0.2, "faster"), (0.3, "over")]
)
def test_nothing_is_inside_where_a_finding_withholds_it(
    change: float, kind: str, code: str, why: str
) -> None:
    missing = projection(
        "gh200",
        change,
        change - 0.002,
        change + 0.002,
        findings=[finding(code, 7, "40% of their time")],
    )
    (v,) = verdicts([missing])
    assert (v.kind, v.withheld) == (kind, why if kind == "undecided" else "")
    if v.withheld:
        assert v.words == f"undecided, {why}"
        assert f"gh200 is undecided at 5\xa0% ({why})" in sentence([v], 1.0)
        assert "likely" not in sentence([v], 1.0) and not any(
            "decides" in line for line in what_would_change([v])
        )


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-0.8, 0.2, "cannot say, the two replays disagree"),
        (-0.8, 0.0, "cannot say, the two replays disagree"),
        (0.0, 0.2, "cannot say, the two replays disagree"),
        (-0.89, -0.82, "faster"),
        (0.0, 0.012, "within 2\xa0%"),
        (0.12, 0.9, "over 10\xa0%"),
    ],
)
def test_replays_that_disagree_decide_only_what_both_say(
    low: float, high: float, words: str
) -> None:
    apart = projection(
        "t",
        (low + high) / 2,
        low,
        high,
        findings=[finding("A390", 1, "by the timeline, by the sum")],
    )
    (v,) = verdicts([apart])
    assert v.words == words
    if words.startswith("cannot"):
        assert (v.kind, v.withheld) == ("undecided", "the two replays disagree")
        assert "t is undecided at 5\xa0% (the two replays disagree)" in sentence([v], 1.0)


def test_the_sentence_names_every_target_once() -> None:
    asked = [
        projection("near", -0.1, -0.12, -0.08),
        projection("mid", 0.01, 0.0, 0.02),
        projection("far", 0.2, 0.15, 0.3),
    ]
    said = sentence(verdicts(asked), 2.0)
    assert said.startswith(
        "Against the recorded 2.000\xa0s, by the coupling alone, near is 10\xa0% faster "
        "(8.0\xa0% to 12\xa0%); "
    )
    assert (
        "mid stays within 5\xa0%" in said
        and "far (+20\xa0%, [+15, +30]\xa0%) lies beyond 5\xa0%" in said
    )
    assert all(said.count(p.target) == 1 for p in asked)


NEAR, MID, FAR = (
    projection("near", -0.1, -0.12, -0.08),
    projection("mid", 0.01, 0.0, 0.02),
    projection("far", 0.2, 0.15, 0.3),
)
OPEN = projection("row", 0.03, 0.01, 0.09)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([NEAR], "By the coupling alone, near is 10 % faster (8.0 % to 12 %)."),
        ([MID], "By the coupling alone, mid stays within 5 % of the recorded time."),
        (
            [FAR, projection("self", 0, 0, 0)],
            "By the coupling alone, far costs more than 5 %, +20 % [+15, +30] %.",
        ),
        (
            [NEAR, NEAR, MID, OPEN, OPEN, FAR],
            "By the coupling alone, 2 of 6 machines are faster, near most: 10 % faster (8.0 % to "
            "12 %); "
            "mid stays within 5 % of the recorded time; "
            "2 are undecided at 5 % (50 % and 50 % likely within it); far costs more than 5 %, "
            "+20 % [+15, +30] %.",
        ),
        (
            [MID, MID],
            (
                "By the coupling alone, no machine asked is surely faster; both machines stay "
                "within 5 % of the recorded time."
            ),
        ),
        (
            [OPEN, FAR, FAR],
            "By the coupling alone, no machine asked is surely faster; row is 50 % likely to "
            "cost less than 5 %; "
            "2 of 3 machines cost more than 5 %, far most: +20 % [+15, +30] %.",
        ),
        ([], ""),
    ],
)
def test_the_headline_sorts_the_targets_by_verdict(asked: list[Projection], said: str) -> None:
    assert headline(verdicts(asked)).replace("\xa0", " ") == said


#: A machine with its own GPU and host, whose range holds that of its coupling; one where it is the
#: other way round; one where neither does.
WIDE = projection("apu", -0.058, -0.10, 0.02, alone=projection("apu", 0.0, -0.01, 0.01))
NARROW_OWN = projection("odd", 0.0, -0.01, 0.01, alone=projection("odd", -0.05, -0.33, 0.18))
APART = projection("fast", -0.5, -0.6, -0.4, alone=projection("fast", 0.0, -0.01, 0.01))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([WIDE], "With its own GPU and host, apu stays within 5 % of the recorded time."),
        ([NARROW_OWN], "By the coupling alone, odd is 74 % likely to cost less than 5 %."),
        ([APART], "With its own GPU and host, fast is 50 % faster (40 % to 60 %)."),
        (
            [APART, APART],
            (
                "With their own GPUs and hosts, both machines are faster, fast most: 50 % faster "
                "(40 % to 60 %)."
            ),
        ),
        (
            [APART, NEAR],
            "Both machines are faster, fast most: 50 % faster (40 % to 60 %). "
            "Fast: with its own GPU and host; near: by the coupling alone.",
        ),
        (
            [APART.unanswered("FP64 of gb300")],
            "By the coupling alone, fast stays within 5 % of the recorded time. With its own GPU "
            "and host fast cannot be told "
            "(FP64 of gb300 is not stated).",
        ),
    ],
)
def test_a_headline_says_which_of_the_two_answers_it_is_and_takes_the_one_whose_range_holds_the_other(
    asked: list[Projection], said: str
) -> None:
    assert headline(verdicts(asked)).replace("\xa0", " ") == said
    told = sentence(verdicts(asked), 2.0)
    assert "by the coupling alone" in told.lower() and all(
        p.alone is None or "own GPU" in told for p in asked
    )


@pytest.mark.parametrize(
    ("low", "high", "alone_low", "alone_high"),
    [(-0.5, 0.5, -0.1, 0.1), (-0.1, 0.1, -0.5, 0.5), (-0.5, 0.0, -0.1, 0.1)],
)
def test_no_headline_leaves_out_what_the_other_answer_holds(
    low: float, high: float, alone_low: float, alone_high: float
) -> None:
    (v,) = verdicts(
        [
            projection(
                "t", (low + high) / 2, low, high, alone=projection("t", 0.0, alone_low, alone_high)
            )
        ]
    )
    assert (
        v.machine is not None
        and v.coupling is not None
        and (v.machine.low, v.coupling.low) == pytest.approx((low, alone_low))
    )
    other = v.coupling if v.owns else v.machine
    contained = v.low <= other.low and other.high <= v.high
    assert contained or (v.owns and not (other.low <= v.low and v.high <= other.high))


def test_a_target_is_never_certain() -> None:
    (found,) = verdicts([projection("near", -0.1, -0.12, -0.08)])
    assert found.inside == 1.0 and found.sure == ">\xa099\xa0%"


def test_three_sentences_say_where_gain_and_loss_come_from() -> None:
    said = three_sentences(
        verdicts([projection("near", -0.1, -0.12, -0.08), projection("far", 0.2, 0.15, 0.3)])
    )
    assert len(said) == 3
    assert "20\xa0% is copies" in said[0] and "50\xa0% is kernels" in said[0]
    assert "near" in said[1] and "all of it in copies" in said[1]
    assert "far" in said[2] and "+20\xa0%" in said[2]


def test_no_gain_and_no_loss_are_said_too() -> None:
    said = three_sentences(verdicts([projection("same", 0.0, 0.0, 0.0)]))
    assert "No target asked is faster" in said[1] and "No target asked is slower" in said[2]


def test_an_envelope_beyond_the_line_is_mentioned() -> None:
    inside = projection("t", 0.01, 0.0, 0.02)
    wide = Projection(**{**inside.__dict__, "envelope": (1.9, 2.4)})
    assert "+20\xa0%" in what_would_change(verdicts([wide]))[0]


def test_a_target_keeps_its_colour() -> None:
    names = ["a", "self", "b", "a", *"cdefghijkl"]
    found = colours(names)
    assert found[0] == found[3] and len({*found[:3]}) == 3
    assert found[1] not in found[:1] + found[2:]
    assert len(set(found)) == 10


def test_numbers_never_round_up_to_certainty_or_down_to_nothing() -> None:
    assert (
        percent(0.99996) == "99.99\xa0%"
        and percent(1.0) == "100\xa0%"
        and percent(1e-6) == "<\xa00.01\xa0%"
    )
    assert signed(1e-7) == "0\xa0%" and signed(-0.5) == "−50\xa0%"
    assert probability(0.996) == ">\xa099\xa0%" and probability(0.5) == "50\xa0%"


def test_kernel_labels_tell_instances_apart() -> None:
    names = [
        "void k<Add, 4>(int)",
        "void k<Mul, 4>(int)",
        "void k<Mul, 4>(float)",
        "other(int)",
        "x<" * 30_000,
        "a>b>>c)",
        "(",
        "<unnamed>::f(int)",
        "",
    ]
    labels = kernel_labels(names, 40)
    assert labels[:4] == ["k<Add>", "k<Mul>", "k<Mul> (2)", "other"]
    assert len(set(labels)) == len(names) and max(map(len, labels)) < 48
    assert labels[7] == "f"


def test_unknowns_have_words_and_advice() -> None:
    parameters = (
        "gh200/link.h2d.latency",
        "x/launch.latency/add",
        "x/observed.d2h.pageable.bandwidth",
    )
    forms = ("form/copy_h2d/pinned/1e5", "form/migration/managed/1e0")
    for name in (*parameters, *forms, "common/distance of a row", "kernel alpha", "nonsense", ""):
        assert "/" not in unknown_label(name) or not name
        assert advice(name)
    assert (
        unknown_label("form/copy_h2d/pinned/1e5")
        == "scatter of pinned copies, host to device, 100\xa0kB to 1\xa0MB"
    )
    assert (
        parameter_label("observed.d2h.pageable.bandwidth")
        == "bandwidth of pageable copies, device to host"
    )


def test_clean_shows_what_it_hides() -> None:
    assert clean("a\u202eb\x00c\u200d\td") == "a\\u{202e}b\\u{0}c\\u{200d} d"
    assert clean("\ud800") == "\N{REPLACEMENT CHARACTER}"
    assert len(clean("x" * 10_000)) == 600
    assert clean("e" + "\u0301" * 50) == "e" + "\u0301" * 3
