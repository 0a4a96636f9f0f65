"""Commands ``turnbuckle model functions``, ``additive`` and ``integration``: run time by function,
and the effect of tighter coupling.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.foundation.units import parse
from turnbuckle.questions.validate.card import away_in_words
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import (
    NO_PART,
    NoCache,
    PartOptions,
    Recorded,
    Source,
    lambdas_of,
)
from turnbuckle.show.terminal.output import flattened
from turnbuckle.show.terminal.recording import inspected, provenance_of, refuse_asked
from turnbuckle.show.terminal.tables import is_table

if TYPE_CHECKING:
    from turnbuckle.foundation.findings import Finding
    from turnbuckle.papers.models.node.question import Link
    from turnbuckle.show.terminal.console import Terminal


def functions(
    profile: Annotated[Recorded, Parameter(help="a recording of a run on a GPU, of any kind")],
    /,
    *,
    top: Annotated[
        int, Parameter(help="how many functions of each class the table shows; files hold all")
    ] = 5,
    source: Source = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> ModelAnswer:
    """Say where the time goes, function by function: its plain time, and its part of the exclusive
    time line.
    """
    import polars as pl

    from turnbuckle.papers.models.node.functions import functions as table_of
    from turnbuckle.papers.models.node.tables import print_functions
    from turnbuckle.trace.recorders import what_to_record

    if top < 1:
        raise error_of("A037.top", found=str(top))
    run = inspected(profile, source, no_cache, part)
    table = table_of(run.profile)
    if set(table.rows["class"]) <= {"cpu"}:
        raise error_of(
            "A155", where=run.profile.trace.name, fix=what_to_record("gpu", run.profile.trace.facts)
        )
    # a name may hold what steers a terminal
    rows = table.table().with_columns(
        pl.col("function").str.replace_all(r"\p{C}", "\N{REPLACEMENT CHARACTER}")
    )
    document = {"schema_version": SCHEMA_VERSION, **table.as_dict(), **provenance_of(run)}
    return ModelAnswer(document, rows, partial(print_functions, functions=table, top=top))


def additive(
    given: Annotated[
        Recorded,
        Parameter(
            help=(
                "applications as a table (.csv: name; gpu, control, data, cpu, mpi, total; or "
                "shares), what nvprof prints, or a recording"
            )
        ),
    ],
    /,
    *,
    lambda_: Annotated[
        list[str] | None, Parameter(help="improvement by class, as data=10,control=10", negative=())
    ] = None,
    total: Annotated[
        str | None, Parameter(help='run time, which a summary of nvprof does not say, as "2.5 s"')
    ] = None,
    source: Source = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> ModelAnswer:
    """Divide each class of time by its lambda: a table, a summary of nvprof, or a recording in the
    report's way and in ours.
    """
    from turnbuckle.papers.models.node.additive import (
        additive_readings,
        additive_rows,
        longest_allocation,
    )
    from turnbuckle.papers.models.node.nvprof_additive import print_summaries, summary_rows
    from turnbuckle.papers.models.node.tables import print_additive, print_readings
    from turnbuckle.projection.model import additive as priced
    from turnbuckle.trace.readers.nvprof.reader import is_summary

    lambdas = lambdas_of(lambda_)
    model = priced(lambdas)
    findings: list[Finding]
    summary = isinstance(given, Path) and is_summary(given)
    if total is not None and not summary:
        raise error_of("A400.summary", found=given.name)
    if source is not None and (summary or is_table(given)):
        raise error_of("A039.source", found=given.name)
    if summary or is_table(given):
        refuse_asked(given, part.given(), "sums of times")
    recorded: dict[str, Any] = {}
    show: Callable[..., None]
    if isinstance(given, Path) and summary:
        rows, findings = summary_rows(given, lambdas, total)
        show = print_summaries
    elif is_table(given):
        rows, findings = additive_rows(given, lambdas)
        show = print_additive
    else:
        run = inspected(given, source, no_cache, part).judged  # as the projections in its rows
        rows, findings = additive_readings(run, lambdas, model)
        longest = longest_allocation(run)
        recorded = {
            "longest_allocation_seconds": longest,
            "findings": [f.as_dict() for f in (*findings, *run.findings)],
            **provenance_of(run),
        }
        show = partial(print_readings, longest_allocation=longest)
        findings = [*findings, *run.left_out]
    document = {
        "schema_version": SCHEMA_VERSION,
        "lambda": lambdas,
        "rows": rows,
        "findings": [f.as_dict() for f in findings],
        **recorded,
    }

    def view(console: Terminal) -> None:
        show(console, rows=rows, lambdas=lambdas, findings=findings)
        console.note(away_in_words("equation 4"))

    return ModelAnswer(document, rows, view)


def integration(
    given: Annotated[
        Recorded | None,
        Parameter(
            help="a recording with MPI, or applications as a table (.csv); left out with shares"
        ),
    ] = None,
    /,
    *,
    communication: Annotated[
        str | None, Parameter(help="share of run time in communication, as 7.8%")
    ] = None,
    p2p: Annotated[
        str | None, Parameter(help="share of it in point-to-point messages, as 36%")
    ] = None,
    off_node: Annotated[
        str | None,
        Parameter(
            help="share of these that leaves the node, as 12%; a recording shows it by its partners"
        ),
    ] = None,
    bandwidth_ratio: Annotated[
        float | None,
        Parameter(
            help="messages that come to stay on a node get a path so many times faster, as 8.33"
        ),
    ] = None,
    old_path: Annotated[
        str | None,
        Parameter(
            help='instead of a ratio: latency and bandwidth of their path now, as "2 us, 24 GB/s"'
        ),
    ] = None,
    new_path: Annotated[
        str | None, Parameter(help='and of the path they would take, as "1 us, 200 GB/s"')
    ] = None,
    message_size: Annotated[
        str | None, Parameter(help="size of the messages for --old-path; a recording has its own")
    ] = None,
    on_node_factor: Annotated[
        float | None, Parameter(help="bandwidth on the node becomes so many times higher, as 2")
    ] = None,
    stages: Annotated[
        list[str] | None,
        Parameter(
            help="share of run time, stages on the node, stages in all: 5.8%:3/4,1.4%:1/1",
            negative=(),
        ),
    ] = None,
    ranks_per_node: Annotated[
        int | None, Parameter(help="ranks on a node of the recorded run; a recording does not say")
    ] = None,
    gpus_per_node: Annotated[
        int | None, Parameter(help="ranks, one a GPU, on the new node; all of them if left out")
    ] = None,
    mapping: Annotated[
        Literal["linear", "round robin"] | None,
        Parameter(
            help="of a recording: rank r on node r // ranks-per-node (if left out), or r mod nodes"
        ),
    ] = None,
    least_size: Annotated[
        str | None,
        Parameter(
            help=(
                "of a recording: bandwidth limits messages and collectives from this size on; "
                "smaller ones keep their time"
            )
        ),
    ] = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> ModelAnswer:
    """Say what GPUs closer to each other would give: more of them on a node, or a faster node."""
    from turnbuckle.papers.models.node.tables import print_integration

    _belongs(
        given is not None and not is_table(given),
        {
            "--communication": communication,
            "--p2p": p2p,
            "--stages": stages,
            "--message-size": message_size,
        },
        {
            "--ranks-per-node": ranks_per_node,
            "--gpus-per-node": gpus_per_node,
            "--mapping": mapping,
            "--least-size": least_size,
            **part.given(),
        },
    )
    paths = _paths(old_path, new_path, bandwidth_ratio)
    if paths is None and message_size is not None:
        raise error_of("A035.size")
    for option, number in (
        ("--bandwidth-ratio", bandwidth_ratio),
        ("--on-node-factor", on_node_factor),
    ):
        _positive(option, number)
    if given is not None and not is_table(given):
        placed: dict[str, Any] = {
            "ranks_per_node": ranks_per_node,
            "gpus_per_node": gpus_per_node,
            "mapping": mapping,
            "paths": paths,
        }
        factors: dict[str, Any] = {
            "bandwidth_ratio": bandwidth_ratio,
            "on_node_factor": on_node_factor,
            "off_node": off_node,
        }
        document = _of_recording(
            given, no_cache, part, **placed, **factors, least_size=least_size or "0 B"
        )
    else:
        ratio = bandwidth_ratio if paths is None else _path_ratio(paths, message_size)
        document = _of_shares(given, (communication, p2p, off_node), ratio, stages, on_node_factor)
    rows = document.get("rows")
    flat = rows if rows is not None else [flattened(document)]
    return ModelAnswer(
        {"schema_version": SCHEMA_VERSION, **document},
        flat,
        partial(print_integration, document=document),
    )


def _belongs(recording: bool, to_shares: dict[str, Any], to_recording: dict[str, Any]) -> None:
    """Refuse options of shares with a recording, and options of a recording with shares (A035)."""
    for name, value in (to_shares if recording else to_recording).items():
        if value is not None:
            of = "shares given on the command line" if recording else "a recording"
            raise error_of("A035.option", name=name, of=of)


def _positive(option: str, number: float | None) -> None:
    from turnbuckle.papers.models.node.application_table import MOST_RATIO

    if number is not None and not 1 / MOST_RATIO <= number <= MOST_RATIO:
        raise error_of(
            "A037.factor",
            found=f"{number:g}",
            option=option,
            least=1 / MOST_RATIO,
            most_ratio=MOST_RATIO,
        )


def _paths(
    old_path: str | None, new_path: str | None, ratio: float | None
) -> tuple[Link, Link] | None:
    """Return the paths of messages now and then, or None where a ratio replaces them."""
    if old_path is None and new_path is None:
        return None
    if old_path is None or new_path is None or ratio is not None:
        raise error_of("A035.paths")
    paths = []
    for option, text in (("--old-path", old_path), ("--new-path", new_path)):
        words = text.split(",")
        if len(words) != 2:
            raise error_of("A037.form", found=text[:40], option=option)
        latency, bandwidth = parse(words[0].strip(), "s"), parse(words[1].strip(), "B/s")
        if latency < 0 or bandwidth <= 0:
            raise error_of("A037.option", found=text[:40], option=option)
        paths.append((latency, bandwidth))
    return paths[0], paths[1]


def _path_ratio(paths: tuple[Link, Link], message_size: str | None) -> float:
    import numpy as np

    from turnbuckle.papers.models.node.cost import path_ratio

    if message_size is None:
        raise error_of("A035.unsized")
    size = parse(message_size, "B")
    if size <= 0:
        raise error_of("A037.size", found=message_size[:40])
    return path_ratio(np.array([size]), *paths[0], *paths[1])


def _of_shares(
    table: Path | None,
    shares: tuple[str | None, ...],
    ratio: float | None,
    stages: list[str] | None,
    factor: float | None,
) -> dict[str, Any]:
    from turnbuckle.papers.models.node import integration as sections
    from turnbuckle.papers.models.node.application_table import share

    options = ("--communication", "--p2p", "--off-node")
    given = [name for name, text in zip(options, shares, strict=True) if text is not None]
    if (stages is None) != (factor is None):
        raise error_of("A035.stages")
    if stages is not None and factor is not None:
        if table is not None or given or ratio is not None:
            raise error_of("A035.questions")
        return {"stages": sections.by_stages(sections.staged(stages), factor)}
    if table is not None:
        if given:
            raise error_of("A035.column", given=given[0])
        return {"rows": sections.integration_rows(table, ratio)}
    missing = [name for name, text in zip(options, shares, strict=True) if text is None]
    if missing or ratio is None:
        raise error_of(
            "A035.missing",
            options=", ".join([*missing, *(["--bandwidth-ratio"] if ratio is None else [])]),
        )
    read = [share(text or "", name) for name, text in zip(options, shares, strict=True)]
    return {"rows": [{"name": "given", **sections.by_fractions(read[0], read[1], read[2], ratio)}]}


def _of_recording(
    profile: Recorded,
    no_cache: bool,
    part: PartOptions,
    *,
    ranks_per_node: int | None,
    off_node: str | None,
    least_size: str,
    **how: Any,
) -> dict[str, Any]:
    from turnbuckle.papers.models.node.application_table import share
    from turnbuckle.papers.models.node.question import closer, recorded_placement

    off_node_share = None if off_node is None else share(off_node, "--off-node").value
    run = inspected(profile, None, no_cache, part)
    placement = recorded_placement(run.profile.trace.facts)
    recorded_mapping = "linear"
    if ranks_per_node is None:
        if placement is None:
            raise error_of("A035.ranks")
        ranks_per_node, recorded_mapping = placement
    how["mapping"] = how["mapping"] or recorded_mapping
    answer = closer(
        run.profile,
        ranks_per_node=ranks_per_node,
        off_node=off_node_share,
        least_bytes=parse(least_size, "B"),
        **how,
    )
    return {**answer.as_dict(), **provenance_of(run)}
