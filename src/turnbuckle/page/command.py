"""``turnbuckle report`` and ``turnbuckle demo``: the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from turnbuckle.examples import sample
from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.show.terminal.asked import (
    Alpha,
    Draws,
    Host,
    KernelFile,
    Network,
    NetworkSet,
    On,
    PortOption,
    Replay,
    Seed,
    SourceNetwork,
    draws_of,
    model_of,
    network_of,
    targets,
)
from turnbuckle.show.terminal.console import console_for
from turnbuckle.show.terminal.options import (
    ASKED_PART,
    AskedPart,
    NoCache,
    Profile,
    Source,
    before_work,
)
from turnbuckle.show.terminal.recording import inspected, judged

if TYPE_CHECKING:
    from turnbuckle.projection.answers.answer import Answer
    from turnbuckle.projection.run import Run

ReportTo = Annotated[
    Path | None,
    Parameter(
        name=["--output", "-o"],
        help="write the report there; turnbuckle-report-NAME.html in this folder if left out",
        validator=before_work("the report", "report.html"),
    ),
]
Brief = Annotated[
    bool,
    Parameter(
        negative="",
        help="write only the first two pages: answer, one picture, and what it hangs on",
    ),
]
Question = Annotated[str, Parameter(help="the question, as the cover page should put it")]


def report(
    profile: Profile,
    /,
    *,
    on: On = None,
    source: Source = None,
    alpha: Alpha = "auto",
    kernels: KernelFile = None,
    host: Host = None,
    port: PortOption = None,
    network: Network = None,
    network_set: NetworkSet = None,
    source_network: SourceNetwork = None,
    replay: Replay = "auto",
    draws: Draws = None,
    seed: Seed = 20261121,
    question: Question = "",
    brief: Brief = False,
    output: ReportTo = None,
    no_cache: NoCache = False,
    part: AskedPart = ASKED_PART,
) -> int:
    """Write one self-contained HTML report: answer, evidence, assumptions, machine files,
    provenance.

    A recording that no projection can be made of has a report of what was recorded; the exit status
    is that of ``project``.
    """
    from turnbuckle.page.html import write

    chosen = replace(
        model_of(alpha, "nething", None, host=host, port=port, kernels=kernels), replay=replay
    )
    seen, machines = judged(profile, source, no_cache, part), targets(on)
    carried_by = network_of(network, network_set, source_network)
    answer: Answer | Run = seen
    refused: CannotAnswer | None = None
    try:
        answer = seen.project(
            machines, model=chosen, draws=draws_of(draws), seed=seed, network=carried_by
        )
    except CannotAnswer as error:
        if machines is not None or carried_by is not None:
            raise
        refused = error
    path = write(
        answer,
        output or Path(f"turnbuckle-report-{profile.stem}.html"),
        question=question,
        brief=brief,
    )
    print(path)
    if refused is not None:
        raise refused
    return 0


def demo(*, output: ReportTo = None) -> int:
    """Run the main job on the recording that ships with Turnbuckle and write its report."""
    from turnbuckle.page.html import write
    from turnbuckle.questions.inspect import tables

    with sample() as path:
        seen = inspected(path, None, False)
        tables.show(console_for(None), seen.first())
        answer = seen.project()
        written = write(
            answer,
            output or Path("turnbuckle-report-demo.html"),
            question="What would this solver do if CPU and GPU stood closer or farther apart?",
        )
    print(f"\nreport: {written}")
    return 0
