"""Figures of an answer, as the report has them: the change of each target, and the parts of run times."""

from __future__ import annotations

from turnbuckle.page.answer_charts import breakdown, verdict_strip
from turnbuckle.projection.run import Answer
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.verdict import verdicts


def figures(answer: Answer) -> list[Figure]:
    """Return the strip of verdicts and the breakdown of run times; none for an answer without targets."""
    targets = verdicts(answer.projections)
    return [verdict_strip(targets), breakdown(targets)] if targets else []
