"""Sentences and cells of the answer where numbers are small or stand for more than one thing."""

from __future__ import annotations

from dataclasses import replace

from turnbuckle.page.answer_sections import uncertainty_section
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.model import nething
from turnbuckle.projection.run import Run
from turnbuckle.show.verdict import three_sentences, verdicts


def test_what_an_idle_device_waits_for_is_not_launches_alone(seen: Run) -> None:
    """On the timeline the part holds the way of copies to the device too."""
    timeline, summed = (
        three_sentences(
            verdicts(
                seen.project(
                    ["cdi-row-link"], model=replace(nething(), replay=replay), draws=0
                ).projections
            )
        )[0]
        for replay in ("timeline", "sum")
    )
    assert "launches and other deliveries to an idle device" in timeline
    assert "launches of an idle device" in summed


def test_an_interval_too_narrow_to_tell_does_not_shrink(answer: Answer) -> None:
    p = next(
        p for p in answer.projections if p.interval is not None and p.drivers and p.target != "self"
    )
    drawn = p.interval
    assert drawn is not None

    def told(width: float, share: float) -> str:
        interval = replace(drawn, low=p.seconds, high=p.seconds + width * p.measured_seconds)
        one = replace(p, interval=interval, drivers={"launch.latency": share})
        table = uncertainty_section(answer, verdicts([one]))["table"]
        return (
            str(table.rows[0][3].text)
            .replace("\N{NARROW NO-BREAK SPACE}", " ")
            .replace("\N{NO-BREAK SPACE}", " ")
        )

    assert told(5e-5, 0.8) == "< 0.01 % as it is"
    assert told(2e-4, 0.8) == "0.02 % to almost nothing"
    assert told(0.04, 0.75) == "4 % to about 2 %"
    assert told(0.04, 0.999) == "4 % to almost nothing"
