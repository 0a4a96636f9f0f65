"""What people see: tables on stdout, drawn with rich; programs get JSON, CSV or Parquet instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnbuckle.cost.ratio import AdditiveTotals
from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import did_you_mean, error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.foundation.findings import Finding
from turnbuckle.foundation.units import show as quantity
from turnbuckle.profile.messages.traffic import traffic
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary import summary
from turnbuckle.profile.summary.coverage import coverage
from turnbuckle.profile.summary.describe import scope
from turnbuckle.profile.summary.placement import nic_bound
from turnbuckle.projection.admission import default_targets
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.model import LAMBDAS
from turnbuckle.projection.run import Run
from turnbuckle.show.findings_table import findings_table
from turnbuckle.show.rendered import is_markup
from turnbuckle.show.run_tables import (
    calls_table,
    copies_table,
    gpus_table,
    host_work_tables,
    kernels_table,
    link_words,
    message_words,
    ranks_table,
    run_time_table,
    start_up_words,
    window_words,
)
from turnbuckle.show.target_table import targets_table
from turnbuckle.show.terminal.cells import clean, ns, seconds
from turnbuckle.show.terminal.console import Terminal, console_for
from turnbuckle.show.terminal.drawing import drawn, plain_text
from turnbuckle.show.terminal.output import (
    flattened,
    write_answer,
    write_frame,
    write_json,
    write_tables,
)
from turnbuckle.show.terminal.tables import unframed
from turnbuckle.show.unknowns import advice, unknown_label
from turnbuckle.show.verdict import verdicts
from turnbuckle.trace.recorders import recorder


def emit(answer: Answer | Run, what: str, format: str, output: Path | None) -> None:
    """Write an answer, or a run that was asked nothing: `what` is ``overview``, ``demo``,
    ``inspect`` or ``project``.
    """
    answer = Answer(answer) if isinstance(answer, Run) else answer
    if format == "table":
        show(console_for(output), answer, what)
        return
    if is_markup(format) and what != "inspect":
        write_tables([targets_table(verdicts(answer.projections))], format, output)
        return
    run = answer.run.whole or answer.run if what == "overview" else answer.run
    document = {
        **(run.as_dict() if what != "project" else {}),
        **(answer.as_dict() if what != "inspect" else {}),
    }
    rows = (
        [flattened(document["profile"])]
        if what == "inspect"
        else [_row(p) for p in document["projections"]]
    )
    write_answer(document, rows, format, output)


def _row(projection: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a projection as one row; what begins with ``coupling_`` is of the
    answer by the coupling alone.
    """
    alone = {
        f"coupling_{key}": value for key, value in _with_ends(projection["coupling_alone"]).items()
    }
    return flattened(
        {
            **{
                key: value
                for key, value in _with_ends(projection).items()
                if key != "coupling_alone"
            },
            **alone,
        }
    )


def _with_ends(answer: dict[str, Any]) -> dict[str, Any]:
    low, high = answer["interval"]
    return {**answer, "low_seconds": low, "high_seconds": high}


def show(console: Console, answer: Answer | Run | Any, what: str = "") -> None:
    """Print what `emit` writes to a terminal; without `what` a run or its summary as ``inspect``,
    an answer as ``project``.
    """
    if not isinstance(answer, Answer):
        answer, what = Answer(answer if isinstance(answer, Run) else answer.run), what or "inspect"
    what = what or "project"
    brief = what in ("overview", "demo")
    if what != "project":
        recorded = answer.run.whole if brief else None
        print_inspection(console, answer if recorded is None else Answer(recorded), brief=brief)
    if what != "inspect":
        print_projections(console, answer)
    print_findings(console, answer, brief=brief)
    print_next(console, answer, what)


def print_inspection(console: Console, answer: Answer, brief: bool) -> None:
    """Print the head lines, then where time goes, then (unless brief) calls, kernels and copies."""
    profile, facts = answer.run.profile, answer.run.profile.trace.facts
    head = Table.grid(padding=(0, 2))
    head.add_column(style="bold cyan")
    head.add_column(overflow="fold")
    kernels = summary.kernels(profile)
    writer, schema = facts.get("product_version") or "", facts.get("schema_version") or "before 2.7"
    made = clean(recorder(facts), 120)
    if "synthetic" in writer:
        made = (
            "[bold yellow]SYNTHETIC: written by a script, nobody ran this[/]  Nsight Systems "
            f"schema {clean(schema)}"
        )
    devices = (
        answer.run.profile.trace.devices["name"].drop_nulls().unique(maintain_order=True).to_list()
    )
    counts = [
        f"{what} not recorded" if category in answer.run.untold else many(rows, singular, what)
        for category, rows, singular, what in (
            ("kernel", kernels["count"], "kernel", "kernels"),
            ("copy", profile.trace.copies.height, "copy", "copies"),
            ("api", profile.trace.api.height, "host call", "host calls"),
        )
    ]
    if not answer.run.on_device and not profile.trace.api.height:
        counts = ["no GPU activity recorded"]
    if facts.get("rank") is not None:
        counts.append(
            f"rank {facts['rank']:,}"
            + (f" of {facts['world_size']}" if facts.get("world_size") else "")
        )
    mpi = traffic(profile.trace)
    if mpi:
        counts.append(f"{mpi['calls']:,} MPI calls")
    head.add_row("profile", f"{clean(profile.trace.name)}  {made}")
    head.add_row("", f"run time {seconds(profile.seconds)}, {', '.join(counts)}")
    if "part" in facts:
        head.add_row("part", scope(facts["part"]))
    begun = answer.run.start_up
    if begun is not None and (begun.tells or not brief):
        head.add_row("start-up", plain_text(start_up_words(answer.run, begun)))
    if mpi:
        head.add_row("MPI", plain_text(message_words(profile)))
    head.add_row(
        "source",
        f"{clean(answer.run.source.title)}"
        + (f"  (device: {clean(', '.join(devices))})" if devices else ""),
    )
    for direction, words in link_words(answer.run).items():
        head.add_row(f"link {direction.replace('migration_', 'moved ')}", plain_text(words))
    if kernels["count"]:
        head.add_row("launch", launch_line(answer))
        head.add_row("window", plain_text(window_words(profile)))
    if among := kernels["collective"]:
        alone = f"{ns(among['alone_ns'])} of it without another kernel on their device"
        head.add_row(
            "collective",
            (
                f"{many(among['count'], 'kernel', 'kernels')} between GPUs, busy "
                f"{ns(among['union_ns'])}, {alone}"
            ),
        )
    for line in coverage_lines(profile):
        head.add_row("coverage", line)
    hidden = summary.overlap(profile)
    if hidden["copy_hidden_fraction"] is not None:
        head.add_row(
            "overlap",
            (
                f"{hidden['copy_hidden_fraction']:.1%} of copy time hidden behind kernels, "
                f"{ns(hidden['copy_exposed_ns'])} exposed"
            ),
        )
    console.print(head)
    console.print()
    console.print(drawn(run_time_table(answer.run), bars=True))
    if not brief:
        for table in (
            ranks_table(profile),
            gpus_table(profile),
            copies_table(profile),
            calls_table(profile),
            kernels_table(profile),
            *host_work_tables(profile),
        ):
            if table is not None:
                console.print()
                console.print(drawn(table, most=10))


def many(count: int, singular: str, more: str) -> str:
    """Return `1 kernel`, `2 kernels`."""
    return f"{count:,} {singular if count == 1 else more}"


def launch_line(answer: Answer) -> str:
    """Return what a launch keeps the host busy for, and how late an idle device begins."""
    launch = summary.launch(answer.run.profile)
    if not launch["count"]:
        return "host calls not recorded" if "api" in answer.run.untold else "no launch recorded"
    idle = f"{launch['idle_count']:,} of {many(launch['count'], 'launch', 'launches')}"
    latency = f"call {ns(launch['call_median_ns'])} median; device idle to kernel start "
    return latency + (
        f"{ns(launch['latency_median_ns'])} ({idle})"
        if launch["idle_count"]
        else f"unknown ({idle} found the device idle)"
    )


def coverage_lines(profile: Profile) -> list[str]:
    """Return what of the launches has rows on a device, and what of the device's time has its
    call.
    """
    shares = coverage(profile)
    rows, launches, graphs = shares["device_rows"], shares["launches"], shares["graph_launches"]
    clauses = []
    if launches and launches["share"] is not None:
        of_graphs = (
            f"; of {graphs['count']:,} graph launches {graphs['share']:.1%}"
            if graphs["share"] is not None
            else ""
        )
        clauses.append(
            f"{launches['share']:.1%} of {launches['count']:,} launches have rows on a "
            f"device{of_graphs}"
        )
    if rows and rows["time_share"] is not None:
        clauses.append(f"{rows['time_share']:.1%} of device time has its host call")
    return ["; ".join(clauses)] if clauses else []


def print_projections(console: Console, answer: Answer) -> None:
    """Print one line for each target, what changes under it, and what to measure to be surer."""
    if not answer.projections:
        return
    targets = verdicts(answer.projections)
    about = "projected run time" + (" without start-up" if answer.run.whole else "")
    table = targets_table(targets, about)
    console.print()
    console.print(drawn(table))
    console.print()
    console.print(Text("what changes", style="dim italic"))
    changes = Table.grid(padding=(0, 2))
    for v, note in zip(targets, table.notes, strict=True):
        changes.add_row(plain_text(clean(v.projection.target)), plain_text(note), style="dim")
    console.print(changes)
    if uncalled := next(
        (f.detail for p in answer.projections for f in p.findings if f.code == "A365"), ""
    ):
        console.print()
        console.print(
            Text(
                (
                    f"changes are larger than this table says: {uncalled} have no host call in "
                    "the recording"
                ),
                style="yellow",
            )
        )
    if explained := next(
        (f.detail for p in answer.projections for f in p.findings if f.code == "A309"), ""
    ):
        console.print()
        console.print(
            Text(f"replayed as a timeline: dependency rules explain {explained}", style="dim")
        )
    uncertain = [v for v in targets if v.whole.interval and v.whole.drivers]
    if uncertain:
        widest = max(
            uncertain,
            key=lambda v: v.whole.interval.high - v.whole.interval.low if v.whole.interval else 0.0,
        )
        name, share = next(iter(widest.whole.drivers.items()))
        console.print()
        console.print(
            Text.assemble(
                ("biggest unknown  ", "bold cyan"),
                f"{unknown_label(name)}: {share:.0%} of the spread of {widest.name}",
            )
        )
        console.print(Text.assemble(("measure next     ", "bold cyan"), advice(name)))
    if accuracy := answer.accuracy:
        console.print()
        console.print(Text(accuracy, style="dim"))


def print_findings(console: Console, answer: Answer, brief: bool) -> None:
    """Print findings, worst first; `brief` leaves out what changes no number."""
    findings: list[Finding] = list(answer.findings)
    seen = {f.code for f in findings}
    for p in answer.projections:
        findings += [f for f in p.findings if f.code not in seen and not seen.add(f.code)]  # type: ignore[func-returns-value]
    findings.sort(key=lambda f: ("error", "warning", "info").index(f.severity))
    shown = [f for f in findings if not brief or f.severity != "info"]
    table = findings_table(shown)
    if table is None:
        return
    console.print()
    console.print(drawn(table))
    if brief and len(shown) < len(findings):
        console.print(
            Text(
                (
                    f"and {len(findings) - len(shown)} remarks that change no number: turnbuckle "
                    "inspect"
                ),
                style="dim",
            )
        )


def print_next(console: Console, answer: Answer, what: str) -> None:
    """Say what to do next."""
    file = clean(answer.run.profile.trace.name, 200)
    asked = tuple(p.target for p in answer.projections)
    default = asked == default_targets(answer.run.source)
    following = {
        "demo": "turnbuckle YOUR_RUN.sqlite, exported with nsys export --type sqlite",
        "overview": f"turnbuckle report {file} -o report.html",
        "inspect": f"turnbuckle project {file} --on nvlink-c2c,cdi-row-link",
        "project": f"turnbuckle report {file}"
        + (
            " --on " + ",".join(asked)
            if answer.model and answer.model.name != "additive" and not default
            else ""
        ),
    }[what]
    if not answer.run.projectable and what != "demo":
        # no coupling to move it to: what an MPI run without a GPU can be asked, or what can always
        # be made
        following = (
            f"turnbuckle model messages {file}"
            if answer.run.trace.mpi.height
            else f"turnbuckle report {file} -o report.html"
        )
    console.print()
    # a command is copied: it stands on one line, however long
    console.print(Text.assemble(("next  ", "bold cyan"), following), soft_wrap=True)


def emit_placement(spread: Run, packed: Run, format: str, output: Path | None) -> None:
    """Write the traffic bound for the network card: the spread run minus the packed one."""
    frame = nic_bound(spread.profile, packed.profile)
    if format == "json":
        write_json(
            {
                "schema_version": SCHEMA_VERSION,
                "placement": frame.to_dicts(),
                "provenance": [spread.provenance(), packed.provenance()],
            },
            output,
        )
    elif format != "table":
        write_frame(frame, format, output)
    else:
        heads = ("direction", "spread", "packed", "bound for the NIC", "share", "copies")
        table = unframed(
            *heads, title="host-link traffic bound for the NIC (spread run - packed run)"
        )
        for r in frame.to_dicts():
            share = "-" if r["nic_bound_share"] is None else f"{r['nic_bound_share']:.1%}"
            sign = "-" if r["nic_bound_bytes"] < 0 else ""
            table.add_row(
                r["direction"],
                quantity(r["spread_bytes"], "B"),
                quantity(r["packed_bytes"], "B"),
                sign + quantity(abs(r["nic_bound_bytes"]), "B"),
                share,
                f"{r['nic_bound_count']:,}",
            )
        Terminal(highlight=False).print(table)


#: Longest time that is read as one [s].
_MOST_SECONDS = 1e12


def emit_totals(text: str, lambdas: dict[str, float], format: str, output: Path | None) -> int:
    """Write the additive model on five numbers as printed in a paper or a table."""
    classes = ("gpu", "control", "data", "cpu", "mpi", "total")
    values: dict[str, Any] = {}
    for word in text.split(","):
        name, _, number = word.strip().partition("=")
        if name not in classes:
            raise error_of(
                "A011.class",
                found=text,
                fix=did_you_mean(name, classes) or None,
                name=name,
                known=", ".join(classes[:5]),
            )
        try:
            values[name] = float(number)
            if not 0 <= values[name] <= _MOST_SECONDS:
                raise ValueError
        except ValueError:
            raise error_of("A011.time", found=word, name=name) from None
    if missing := [n for n in classes[:5] if n not in values]:
        raise error_of("A011.incomplete", found=text, missing=", ".join(missing))
    if extra := set(lambdas) - {"data", "control"}:
        raise error_of("A011.printed", name=sorted(extra)[0])
    if bad := [n for n, v in lambdas.items() if not LAMBDAS[0] <= v <= LAMBDAS[1]]:
        raise error_of("A004.sign", found=str(lambdas[bad[0]]), name=bad[0])
    totals = AdditiveTotals(**values)
    projected = totals.projected(lambdas.get("data", 1.0), lambdas.get("control", 1.0))
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "totals": values,
        "lambda": lambdas,
        "summed_seconds": totals.summed,
        "closure_defect_seconds": totals.closure_defect,
        "projected_seconds": projected,
        "benefit": totals.summed / projected if projected else None,
        "penalty": projected / totals.summed if totals.summed else None,
    }
    if format != "table":
        write_answer(document, [flattened(document)], format, output)
    else:
        console = Terminal(highlight=False)
        console.print(
            f"sum of the five terms {seconds(totals.summed)}, projected {seconds(projected)}: "
            + (
                f"benefit {totals.summed / projected:.3g}, penalty {projected / totals.summed:.3g}"
                if projected and totals.summed
                else "no ratio"
            )
        )
        if totals.closure_defect is not None:
            console.print(
                (
                    f"closure defect (stated total - sum) {totals.closure_defect:+.4g} s; ratios "
                    "are taken over the sum"
                ),
                style="dim",
            )
        console.note(registry.load("services", "away in words")("equation 4"))
    return 0
