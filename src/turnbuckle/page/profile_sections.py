"""Sections made from the recording: what was profiled, how it uses the coupling, machine files,
provenance.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl

from turnbuckle.foundation.findings import Finding
from turnbuckle.machine.parameter_names import LINK_WAYS, link_parameter
from turnbuckle.page.answer_sections import named
from turnbuckle.page.charts import profile_charts
from turnbuckle.page.charts.offload_map import offload_figure
from turnbuckle.profile.messages.mpi_calls import same_call
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary import each, host_work, summary
from turnbuckle.profile.summary.describe import scope, transfer_distribution
from turnbuckle.profile.summary.offload import DEFAULT_ALPHA, offload_map
from turnbuckle.profile.transfers import LinkFit
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.offload_zones import added_latency
from turnbuckle.show.findings_table import findings_table
from turnbuckle.show.kernel_names import kernel_labels
from turnbuckle.show.run_tables import (
    MOST,
    TOP,
    calls_table,
    category_words,
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
from turnbuckle.show.table import Cell, Table, cells
from turnbuckle.show.text import (
    DASH,
    clean,
    count,
    listed,
    number,
    percent,
    plural,
    seconds,
    shorten,
)
from turnbuckle.show.unknowns import DIRECTION
from turnbuckle.trace.recorders import recorder

PLURALS = {"copy": "copies", "launch of a CUDA graph": "launches of CUDA graphs"}

Facts = list[tuple[str, str]]


def synthetic(answer: Answer) -> bool:
    """Return whether the recording states that it is synthetic."""
    return "synthetic" in str(answer.run.profile.trace.facts.get("product_version") or "").lower()


def recorded_with(answer: Answer) -> str:
    """Return format, profiler and version in words."""
    facts = answer.run.profile.trace.facts
    if synthetic(answer):
        return (
            f"a script ({clean(facts['product_version'])}), in the layout of Nsight Systems schema "
            f"{clean(facts.get('schema_version') or 'unknown')}"
        )
    return clean(recorder(facts))


def cover_facts(answer: Answer) -> Facts:
    """Return label and value of the lines on the cover."""
    profile, facts = answer.run.profile, answer.run.profile.trace.facts
    about = answer.provenance()
    kernels = summary.kernels(profile)
    devices = _devices(answer)
    out: Facts = [
        ("recording", shorten(clean(profile.trace.name), 120)),
        ("recorded with", recorded_with(answer)),
        (
            "recorded on",
            (
                f"{listed(devices) or 'unknown device'}; source machine "
                f"{clean(answer.run.source.name)} ({clean(answer.run.source.title)})"
            ),
        ),
        ("recorded at", _date(facts.get("session_start_utc_ns"))),
        *([("part", clean(scope(facts["part"])))] if "part" in facts else []),
        ("run time", seconds(profile.seconds)),
        (
            "activities",
            ", ".join(
                plural(n, noun, PLURALS.get(noun, ""))
                for noun, n in _counts(answer, kernels).items()
                if n
            )
            or "none",
        ),
    ]
    if answer.model is not None:
        out.append(
            (
                "model",
                (
                    f"{answer.model.name}: {answer.model.sentence} ({answer.model.paper}); "
                    f"{replay_words(answer)}"
                ),
            )
        )
    out += [
        ("written by", f"Turnbuckle {about['version']}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
        ("SHA-256 of the recording", clean(facts.get("sha256") or "not known")),
    ]
    return out


def recorded_in_brief(answer: Answer) -> str:
    """Return what was recorded, where, and its run time, on one line."""
    profile = answer.run.profile
    on = f" on {listed(devices)}" if (devices := _devices(answer)) else ""
    return f"{shorten(clean(profile.trace.name), 60)}, {seconds(profile.seconds)}{shorten(on, 80)}"


def _devices(answer: Answer) -> list[str]:
    return [
        clean(n)
        for n in dict.fromkeys(answer.run.profile.trace.devices["name"].drop_nulls().to_list())
    ]


def replay_words(answer: Answer) -> str:
    """Name the replays that the answers used."""
    used = list(dict.fromkeys(p.replay for p in answer.projections)) or (
        [answer.model.replay] if answer.model else []
    )
    return f"{listed(used)} replay"


def _counts(answer: Answer, kernels: dict[str, Any]) -> dict[str, int]:
    trace = answer.run.profile.trace
    return {
        "kernel": kernels["count"],
        "launch of a CUDA graph": kernels["graph_launches"],
        "copy": trace.copies.height,
        "memory set": trace.memsets.height,
        "GPU runtime call": trace.api.height,
        "MPI call": len(np.unique(same_call(trace))),
    }


def _date(utc_ns: object) -> str:
    if not isinstance(utc_ns, int) or not 0 < utc_ns < 4_102_444_800_000_000_000:
        return "not recorded"
    return f"{datetime.fromtimestamp(utc_ns / 1e9, UTC):%Y-%m-%d %H:%M} UTC"


def profiled_section(answer: Answer) -> dict[str, Any]:
    """Return inputs, coverage, overhead, observed link, data quality and findings."""
    profile = answer.run.profile
    shares = each.categories_ns(profile)
    total = max(profile.run_time_ns, 1)
    overhead = summary.overhead_share(profile)
    facts: Facts = [
        ("run time", f"{seconds(profile.seconds)}, first recorded activity to last"),
        ("kernel window", window_words(profile) or "no kernels"),
        *(
            [("start-up", start_up_words(answer.run, begun))]
            if (begun := answer.run.start_up) is not None
            else []
        ),
        (
            "coverage",
            (
                (
                    f"{percent(1 - shares['cpu'] / total)} of the run time holds a recorded GPU "
                    "activity, GPU call or MPI call; "
                )
                + (
                    "in the rest nothing was recorded"
                    if _device_alone(answer)
                    else _host_work(profile)
                )
            ),
        ),
        (
            "profiler overhead",
            f"{percent(overhead)} of the run time has the profiler itself at work"
            if profile.trace.overheads.height
            else "not recorded",
        ),
        *(
            (f"link, {DIRECTION[direction]}", words)
            for direction, words in link_words(answer.run).items()
        ),
        *([("MPI", words)] if (words := message_words(profile)) else []),
        (
            "tracks",
            (
                f"{_tracks(profile.tracks, 'thread', 'host thread')}, "
                f"{_tracks(profile.tracks, 'stream', 'device stream')}"
            ),
        ),
    ]
    if (cpu := summary.cpu_activity(profile)) is not None:
        facts.append(
            (
                "CPU activity",
                (
                    f"one thread on a core for {number(cpu['serial_s'], 's')}, two or more for "
                    f"{number(cpu['parallel_s'], 's')}; {cpu['threads']} threads"
                ),
            )
        )
    findings = answer.findings
    return {
        "facts": facts,
        "devices": _devices_table(answer),
        "findings": findings_table(findings),
        "quality": _quality(findings),
    }


def _device_alone(answer: Answer) -> bool:
    """Return whether nothing of the host was recorded, so that the rest of the run is not known to
    be host work.
    """
    return answer.run.on_device and not answer.run.projectable


def _host_work(profile: Profile) -> str:
    """Return how much of the host work the recording names."""
    work = host_work.described(profile, 0)
    total = 0.0 if work is None else work["named_s"] + work["unnamed_s"]
    if work is None or not total:
        return "the rest is host work that no record explains"
    return (
        "the rest is host work, of which ranges, annotations or operators name "
        f"{percent(work['named_s'] / total)}"
    )


def _tracks(tracks: pl.DataFrame, kind: str, name: str) -> str:
    return plural(tracks.filter(pl.col("what") == kind).height, name)


def _quality(findings: list[Finding]) -> str:
    bad = [f for f in findings if f.severity == "error"]
    doubtful = [f for f in findings if f.severity == "warning"]
    if not bad and not doubtful:
        return "No flaw was found that would change a number."
    counts = []
    if bad:
        counts.append(plural(len(bad), "error"))
    if doubtful:
        counts.append(plural(len(doubtful), "warning"))
    return f"{listed(counts)}; they stand first in the table."


def _devices_table(answer: Answer) -> Table | None:
    rows = [
        cells(
            str(r["device"]),
            clean(r["name"] or DASH),
            clean(r["chip"] or DASH),
            number(r["memory_bytes"], "B"),
            number(r["memory_bandwidth"], "B/s"),
            str(r["multiprocessors"] or DASH),
            str(r["copy_engines"] or DASH),
        )
        for r in answer.run.profile.trace.devices.head(64).to_dicts()
    ]
    head = [
        ">device",
        "name",
        "chip",
        ">memory",
        ">memory bandwidth",
        ">multiprocessors",
        ">copy engines",
    ]
    return Table("Devices as the profiler describes them.", head, rows, 8) if rows else None


def usage_section(answer: Answer) -> dict[str, Any]:
    """Return how the run uses the coupling: time line, copies, links, launches, kernels, calls,
    memory, offload map.
    """
    profile = answer.run.profile
    gpu = profile.has & {"kernels", "copies", "graphs", "memsets"}
    lapped = summary.overlap(profile) if gpu else {"copy_union_ns": 0}
    return {
        "categories": profile_charts.categories(
            each.categories_ns(profile), category_words(answer.run)
        )
        if profile.run_time_ns
        else None,
        "categories_table": run_time_table(answer.run),
        "each_tables": [
            table for table in (ranks_table(profile), gpus_table(profile)) if table is not None
        ],
        "distributions": profile_charts.distributions(sizes)
        if (sizes := transfer_distribution(profile))
        else [],
        "copies_table": copies_table(profile) if gpu else None,
        "overlap": profile_charts.overlap(lapped) if lapped["copy_union_ns"] else None,
        "exposed": number(lapped["copy_exposed_ns"] * 1e-9, "s") if lapped["copy_union_ns"] else "",
        "fits": _fit_figures(answer),
        "fits_table": _fits_table(answer),
        "launch_table": _launch_table(answer) if answer.run.projectable else None,
        "kernels_table": kernels_table(profile),
        "calls_table": calls_table(profile),
        "host_work_tables": host_work_tables(profile),
        "memory": profile_charts.memory(line, profile.seconds)
        if (line := summary.memory_timeline(profile)).height
        else None,
        **_offload(answer),
    }


def _fits(answer: Answer) -> list[tuple[LinkFit, float | None, bool]]:
    """Return the fits with the nominal rate of their link and whether that is assumed.

    Order: to the device first, pinned first, then by bytes.
    """
    order = ("h2d", "d2h", "p2p", "migration_h2d", "migration_d2h")
    out = []
    for (direction, _), fit in answer.run.fits.items():
        base = direction.removeprefix("migration_")
        stated = next(
            (
                answer.run.source.get(link_parameter(direction_of_link, "bandwidth"))
                for direction_of_link in LINK_WAYS
                if direction_of_link == base
            ),
            None,
        )
        out.append(
            (
                fit,
                stated.value if stated else None,
                stated is not None and stated.nature == "assumption",
            )
        )
    return sorted(
        out,
        key=lambda f: (
            order.index(f[0].direction) if f[0].direction in order else 9,
            f[0].memory != "pinned",
            -f[0].size_bytes,
        ),
    )


def _fit_figures(answer: Answer) -> list[Figure]:
    return named(
        [
            profile_charts.link_fit(fit, rate, assumed)
            for fit, rate, assumed in _fits(answer)
            if profile_charts.drawable(fit).height > 1
        ]
    )


def _fits_table(answer: Answer) -> Table | None:
    rows = [
        cells(
            profile_charts.class_label(fit),
            count(fit.count),
            number(fit.size_bytes, "B"),
            f"{number(fit.smallest_bytes, 'B')} to {number(fit.largest_bytes, 'B')}",
            number(fit.latency_s, "s") if fit.latency_s > 0 else DASH,
            number(fit.bandwidth, "B/s"),
            percent(fit.bandwidth / rate, 2) if fit.bandwidth and rate else DASH,
            profile_charts.r_squared(fit),
            percent(fit.residual_spread, 2),
        )
        for fit, rate, _ in _fits(answer)
    ]
    caption = (
        "Classes of copies. o+L: fixed cost of a copy. η·BW: rate of large copies. Spread: how "
        "far the sizes lie off the fitted line. A "
        "class with too few sizes is estimated from its smallest and largest copies."
    )
    head = [
        "class",
        ">copies",
        ">bytes",
        ">sizes",
        ">fixed cost (o+L)",
        ">rate (η·BW)",
        ">of nominal",
        ">R²",
        ">spread",
    ]
    return Table(caption, head, rows) if rows else None


def _launch_table(answer: Answer) -> Table:
    launch = summary.launch(answer.run.profile)

    def ns(value: int | None) -> str:
        return number(None if value is None else value * 1e-9, "s")

    rows = [
        cells(
            "launch call",
            "from the start of the host call to its return: how long a launch occupies the host",
            count(launch["count"]),
            ns(launch["call_median_ns"]),
            ns(launch["call_p95_ns"]),
        ),
        cells(
            "launch latency",
            (
                "from the start of the host call to the start of what it launched, where the "
                "device was idle"
            ),
            count(launch["idle_count"]),
            ns(launch["latency_median_ns"]),
            DASH,
        ),
        cells(
            "return from a wait",
            "from the end of the device's work to the return of the call that waits for it",
            count(summary.synchronisations(answer.run.profile).height),
            number(summary.sync_return_s(answer.run.profile), "s"),
            DASH,
        ),
        cells(
            "allocation or release",
            "length of the host call",
            count(answer.run.profile.of("alloc").height),
            number(summary.alloc_call_s(answer.run.profile), "s"),
            DASH,
        ),
    ]
    return Table(
        (
            "Calls that cross to the device. The two launch costs are different numbers and are "
            "never added."
        ),
        ["cost", "definition", ">count", ">median", ">95th percentile"],
        rows,
    )


def _offload(answer: Answer) -> dict[str, Any]:
    profile = answer.run.profile
    if not profile.of("kernel").height:
        return {"offload": None, "offload_table": None}
    launch_s = (
        answer.run.source.value("launch.latency") or answer.run.source.value("launch.call") or 0.0
    )
    table = offload_map(profile, launch_s)
    if not table.filter(pl.col("kernel_s") > 0).height:
        return {"offload": None, "offload_table": None}
    shown = table.head(MOST)
    rows = [
        cells(
            Cell(label, clean(r["kernel"]), tone="code"),
            count(r["count"]),
            number(r["kernel_s"], "s"),
            number(r["transfer_s"], "s"),
            number(r["exposed_transfer_s"], "s"),
            percent(r["ratio"]),
            r["pays"],
        )
        for r, label in zip(
            shown.to_dicts(), kernel_labels(shown["kernel"].to_list(), 56), strict=True
        )
    ]
    limit = percent(float(table["limit"][0]))
    caption = (
        f"Offload decision: (copies + launch) / host time must stay below (α−1)/α = {limit}, with "
        f"α = {DEFAULT_ALPHA:g} "
        f"(kernels on the host CPU assumed {DEFAULT_ALPHA:g} times slower)."
    )
    head = [
        "kernel",
        ">count",
        ">kernel",
        ">copies",
        ">of them exposed",
        ">offload : compute",
        "pays",
    ]
    return {
        "offload": offload_figure(
            table,
            launch_s,
            DEFAULT_ALPHA,
            added_latency(answer.projections),
            profile.of("migration").height > 0,
        ),
        "offload_table": Table(caption, head, rows, TOP, table.height - len(rows)),
    }
