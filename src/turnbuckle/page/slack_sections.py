"""Sections made from the timeline: what distance costs, before and after, both replays, what the
run time is made of.
"""

from __future__ import annotations

from typing import Any, Final

from turnbuckle.machine.hops import hops
from turnbuckle.page.studied import HOSTS, Studies
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.projection import break_even_utilisation
from turnbuckle.projection.sensitivity import Share
from turnbuckle.questions.before_after.figures import before_after
from turnbuckle.questions.distance.figures import (
    ADDERS,
    DECISION,
    MODE_WORDS,
    TRIPS,
    break_even,
    fibre,
    interval_matters,
    reach,
    slack_curve,
)
from turnbuckle.questions.distance.question import Slack, Tolerance
from turnbuckle.questions.distance.shares_figure import drawn, per_cent, tornado
from turnbuckle.questions.distance.slack_tables import (
    bracket,
    carrier_table,
    carrier_words,
    tolerance_table,
)
from turnbuckle.questions.distance.speeds import Surface
from turnbuckle.questions.distance.surface_figure import penalty_at, placed, surface_map
from turnbuckle.show.table import Cell, Table, cells
from turnbuckle.show.text import (
    DASH,
    MINUS,
    clean,
    count,
    factor,
    listed,
    number,
    percent,
    plural,
    seconds,
    signed,
)
from turnbuckle.show.verdict import Verdict

#: Carriers put into a sentence.
NAMED = 3
#: A carrier worth a sentence carries this share of the penalty.
_WORTH: Final = 0.05
#: Two replays agree that differ by less than this share of the run time.
_SAME: Final = 5e-4
#: A change of calls worth a sentence takes this share off the penalty.
_GAIN: Final = 0.1
#: Lengths of fibre in a table, as latencies [s].
_FIBRES: Final = (1e-5, 1e-4)


def distance_section(studies: Studies, verdicts: list[Verdict], answer: Answer) -> dict[str, Any]:
    """Return curve, tolerances, carriers, map of latency and bandwidth, and break-even use."""
    modes = [studies.link, studies.api]
    marks = placed(
        studies.surface,
        [
            (m, p, v.colour)
            for m, (p, _), v in zip(answer.targets, studies.by_replay, verdicts, strict=True)
        ]
        if studies.by_replay
        else [],
    )
    return {
        "figures": [slack_curve(modes)],
        "modes": modes_sentences(studies.link, studies.api),
        "tolerances": tolerance_table(studies.link, studies.api),
        "carriers": [
            {"title": carrier_title(s), "words": carrier_sentences(s), "table": carrier_table(s)}
            for s in modes
        ],
        "surface": surface_map(studies.surface, marks),
        "surface_words": _surface_sentence(studies.surface),
        "break_even": [break_even(s, float(studies.surface.slack[-1])) for s in modes],
        "break_even_table": _break_even_table(modes),
        "break_even_words": _break_even_sentence(studies.link),
        "explained": percent(studies.link.trust.explained),
    }


def tolerated(study: Slack, share: float = DECISION) -> Tolerance:
    """Return the distance that lengthens the run by a share."""
    return next(t for t in study.tolerances if t.share == share)


def _with_interval(t: Tolerance) -> str:
    text = reach(t.slack)
    return (
        f"{text} {bracket(t)}"
        if t.slack is not None and interval_matters(t.slack, t.low, t.high)
        else text
    )


def answer_sentences(studies: Studies) -> list[str]:
    """Return the distance that the run tolerates, and how much of it hangs on the host, for the
    first page.
    """
    link, api, measured = tolerated(studies.link), tolerated(studies.api), studies.link.measured
    faster, slower = (signed(studies.host[cost] / measured - 1) for cost in HOSTS)
    return [
        f"Distance: the run stays within {percent(DECISION)} up to {_with_interval(link)} of "
        "added one-way latency on a longer link, and "
        f"up to {reach(api.slack)} where every crossing call blocks for it.",
        (
            "Host: were its own work and its calls twice as fast, the run would change by "
            f"{faster}; were they half as fast, by {slower}."
        ),
    ]


def modes_sentences(link: Slack, api: Slack) -> list[str]:
    """Describe the machine behind each way to be far away, and by how much the two differ in this
    run.
    """
    a, b = tolerated(link), tolerated(api)
    sentences = [
        "A longer link is a composable machine: the GPU sits behind PCIe or CXL switches or an "
        "optical cable. Asynchronous calls stay "
        "asynchronous; each one-way trip that something waits for takes longer, and reads of "
        "host memory slow down once the requests in "
        "flight cannot cover the round trip.",
        "Every call blocks: each call that crosses to the GPU holds its host thread for the "
        "added latency, as in studies that put a sleep "
        "into each call. It stands in for a network; what a remoting layer waits for, and what "
        "it does not, a machine of its own says.",
    ]
    text = (
        f"Here {percent(DECISION)} is reached at {_with_interval(a)} on a longer link and at "
        f"{reach(b.slack)} where every call blocks"
    )
    if a.slack is None or b.slack is None:
        return [*sentences, text + "."]
    ratio = max(a.slack, b.slack) / min(a.slack, b.slack)
    if ratio < 1.1:
        return [*sentences, text + ": no difference that matters."]
    return [*sentences, text + f": {_farther(a.slack > b.slack, ratio)}."]


def _farther(link: bool, ratio: float) -> str:
    near, far = "calls that block", "a longer link"
    if not link:
        near, far = far, near
    return f"the run tolerates {factor(ratio, 2)} as much distance with {far} as with {near}"


def carrier_title(study: Slack) -> str:
    """Return the way to be far away, the added latency, and its cost."""
    words = MODE_WORDS[study.mode]
    change = float(study.curve(study.carried_at)) / study.measured - 1.0
    return (
        f"{words[:1].upper()}{words[1:]}, {reach(study.carried_at)} added: the run takes "
        f"{signed(change).lstrip('+')} longer"
    )


def carrier_sentences(study: Slack) -> list[str]:
    """Return the largest carriers as sentences."""
    delayed_seconds = float(study.curve(study.carried_at))
    if not study.carriers:
        return ["No call carries added latency into the run time."]
    out = []
    for c in study.carriers[:NAMED]:
        if c.share < _WORTH:
            continue
        lone, gain = c.count == 1, _GAIN * (delayed_seconds - study.measured)
        of = "" if c.call in c.what or not c.call else f" ({clean(c.call, 60)})"
        text = (
            f"{carrier_words(c)}{of} {'carries' if lone else 'carry'} {percent(c.share)} of the "
            "penalty"
        )
        options = []
        if c.asynchronous is not None and delayed_seconds - c.asynchronous > gain:
            subject = "it" if lone else "they"
            options.append(
                f"if {subject} did not wait, the run would take {seconds(c.asynchronous)}, "
                f"not {seconds(delayed_seconds)}"
            )
        if c.batched is not None and c.batches is not None and delayed_seconds - c.batched > gain:
            fewer = (
                f"if {plural(c.batches, 'batch', 'batches')} stood for all {count(c.of)} of them"
            )
            options.append(
                f"{fewer}, {'it' if options else 'the run'} would take {seconds(c.batched)}"
                + ("" if options else f", not {seconds(delayed_seconds)}")
            )
        out.append(text + (f": {'; '.join(options)}" if options else "") + ".")
    return out or [
        (
            f"No kind of call carries more than {percent(study.carriers[0].share)} of the "
            "penalty: it is spread over many."
        )
    ]


def _surface_sentence(surface: Surface) -> str:
    slow, fast = float(surface.bandwidth[0]), float(surface.bandwidth[-1])
    far = float(surface.slack[-1])
    return (
        f"With nothing added to the latency, {factor(fast, 1)} the bandwidth changes the run by "
        f"{_change(penalty_at(surface, 0.0, fast))} "
        f"and 1/{1 / slow:.0f} of it by {_change(penalty_at(surface, 0.0, slow))}; at the "
        f"recorded bandwidth, {number(far, 's', 2)} more "
        f"one-way latency changes it by {_change(penalty_at(surface, far, 1.0))}."
    )


def _change(penalty: float) -> str:
    """Format a penalty as a change.

    >>> _change(1.05), _change(14.2)
    ('+5.0\\xa0%', '+1300\\xa0%')
    """
    return signed(penalty - 1.0)


def _break_even_table(modes: list[Slack]) -> Table:
    distances = [(h.name, clean(h.what), h.one_way) for h in hops() if h.name not in TRIPS]
    distances += [(f"{fibre(s)} of fibre", "the delay of glass alone", s) for s in _FIBRES]
    rows = []
    for name, meaning, one_way in distances:
        row: list[str | Cell] = [Cell(name, meaning, tone="strong"), number(one_way, "s", 2)]
        for study in modes:
            penalty = study.penalty(one_way)
            row += [
                _change(penalty),
                *(factor(break_even_utilisation(penalty, adder)) for adder in ADDERS),
            ]
        rows.append(cells(*row))
    head = ["distance", ">one way"]
    for study in modes:
        head += [
            f">{MODE_WORDS[study.mode]}",
            *(f">{'use' if not a else 'use, +' + percent(a)}" for a in ADDERS),
        ]
    caption = (
        "How much longer the run takes, and the factor by which a pooled GPU must be used more "
        "than a local one to pay for that: the "
        "slowdown times (1 + the share that the fabric adds to the cost of a GPU). That share is "
        "assumed: nothing, "
        f"{listed(['+' + percent(a) for a in ADDERS[1:]])}."
    )
    return Table(caption, head, rows)


def _break_even_sentence(study: Slack) -> str:
    row = next(h for h in hops() if h.name == "row")
    need = break_even_utilisation(study.penalty(row.one_way), ADDERS[-1])
    return (
        "A run that takes longer holds its GPU longer, so a pooled GPU pays only if it is used "
        "more than a local one would be. For "
        f"example, a row away on a longer link, with a fabric that adds {percent(ADDERS[-1])} to "
        "the cost of a GPU, a pooled GPU must be "
        f"used {factor(need)} as much as a local one. No GPU is used more than all the time, so "
        "pooling can pay only where local GPUs are "
        f"in use less than {percent(1 / need, 2)} of the time."
    )


def moved_section(studies: Studies) -> dict[str, Any]:
    """Return before and after on the target that changes most."""
    if studies.moved is None or studies.window is None:
        return {"figure": None, "sentence": "", "command": ""}
    run = studies.moved
    figure, sentence = before_after(run, studies.window)
    target, called = clean(run.target.name, 60), clean(run.target.title, 60)
    return {
        "figure": figure,
        "sentence": (
            f"{called} changes the run most ({signed(run.projection.penalty - 1)} on the "
            f"timeline). {sentence}"
        ),
        "command": f"turnbuckle export {clean(run.profile.trace.name, 120)} --on {target} -o run.json.gz",
        "target": called,
    }


def replays_section(studies: Studies, verdicts: list[Verdict]) -> dict[str, Any]:
    """Return timeline and sum side by side."""
    if not studies.by_replay:
        return {"table": None, "words": ""}
    rows, apart = [], []
    for v, (timed, summed) in zip(verdicts, studies.by_replay, strict=True):
        if v.kind == "self" or timed.unknown:
            continue
        measured = timed.measured_seconds or 1.0
        difference = (timed.seconds - summed.seconds) / measured
        apart.append((abs(difference), v.name, difference, summed.penalty < 1))
        rows.append(
            cells(
                Cell(v.name, tone="strong", colour=v.colour),
                v.projection.replay,
                seconds(timed.seconds),
                signed(timed.penalty - 1),
                seconds(summed.seconds),
                signed(summed.penalty - 1),
                signed(difference),
            )
        )
    if not rows:
        return {"table": None, "words": ""}
    most, name, difference, saving = max(apart)
    words = (
        "The sum replay keeps the recorded overlap, so every exposed change counts in full. The "
        "timeline replay applies each change where "
        "it happens and recomputes what waits for it. "
    )
    if most < _SAME:
        words += "Here they agree: every change counts in full."
    else:
        why = {
            (True, True): "part of the saving is lost, because something else then waits",
            (True, False): "a saving also lets other work begin earlier",
            (False, True): "delays add up along the critical path, which the sum does not see",
            (False, False): "other work hides part of the delay",
        }[saving, difference > 0]
        words += (
            f"They differ most on {name}, by {signed(most).lstrip('+')} of the run time: on the "
            f"timeline {why}."
        )
    head = ["target", "this report uses", ">timeline", ">change", ">sum", ">change", ">apart"]
    caption = (
        "Both replays at the stated values, machines as they are. Apart: timeline minus sum, as "
        "a share of the recorded time."
    )
    return {"table": Table(caption, head, rows), "words": words}


def shares_section(studies: Studies, measured: float) -> dict[str, Any]:
    """Return tornado and table of the classes on the critical path."""
    rows = []
    for s in studies.shares:
        if max(s.seconds, s.right) < 1e-6 * measured:
            continue
        rest = studies.without.get(s.what)
        rows.append(
            cells(
                Cell(clean(s.what), tone="strong"),
                number(s.seconds, "s"),
                percent(s.seconds / measured),
                _signed(MINUS, per_cent(s.left, measured)),
                _signed("+", per_cent(s.right, measured)),
                DASH if rest is None else seconds(rest),
                DASH if rest is None else signed(rest / measured - 1),
            )
        )
    head = [
        "class of time",
        ">on the critical path",
        ">share",
        ">1 % less",
        ">1 % more",
        ">run without it",
        ">change",
    ]
    caption = (
        "Time on the critical path of the recorded run. The classes add up to the run time. 1 % "
        "less, 1 % more: change of the run time, "
        "exact for small changes; the two differ where another path is as long. Run without it: "
        "the run time if the whole class took no "
        "time and everything else its recorded time."
    )
    return {
        "figure": tornado(studies.shares, measured) if drawn(studies.shares, measured) else None,
        "sentence": _shares_sentence(studies.shares, measured),
        "table": Table(caption, head, rows) if rows else None,
    }


def _signed(sign: str, text: str) -> str:
    return text if text.startswith("<") else sign + text


#: Classes that a coupling acts on.
_COUPLED: Final = frozenset(
    {
        "copies to the device",
        "copies to the host",
        "pages to the device",
        "pages to the host",
        "deliveries to the device",
        "returns of waits",
    }
)


def _shares_sentence(shares: list[Share], measured: float) -> str:
    top = shares[0]
    coupled = sum(s.seconds for s in shares if s.what in _COUPLED)
    return (
        f"The run time is most sensitive to {clean(top.what)}: one per cent more makes it "
        f"{per_cent(top.right, measured)} longer. The link "
        "between CPU and GPU (copies and pages, deliveries, returns of waits) holds "
        f"{percent(coupled / measured)} of the critical path."
    )
