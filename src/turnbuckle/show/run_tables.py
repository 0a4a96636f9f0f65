"""What a recording shows, for terminal and report alike: its run time, copies, host calls, kernels;
links and messages in a line.
"""

from __future__ import annotations

from typing import Any, Final

from turnbuckle.profile.messages.traffic import traffic
from turnbuckle.profile.profile import Profile, device_busy
from turnbuckle.profile.summary import each, host_work, summary
from turnbuckle.profile.summary.describe import links
from turnbuckle.profile.summary.start_up import StartUp
from turnbuckle.profile.transfers import known_links
from turnbuckle.projection.run import Run
from turnbuckle.show.kernel_names import kernel_labels
from turnbuckle.show.table import Cell, Table, cells
from turnbuckle.show.text import (
    DASH,
    clean,
    count,
    number,
    percent,
    plural,
    seconds,
    shorten,
    terms,
)
from turnbuckle.show.unknowns import DIRECTION

#: Rows of long tables: printed at once, and at most.
TOP, MOST = 15, 200
CATEGORY_WORDS: Final = terms("category")
_MEANING: Final = terms("meaning of a category")
#: The same where nothing tells whether the device is idle.
_BESIDE_UNRECORDED: Final = terms("category beside an unrecorded device")
_MEANING_UNRECORDED: Final = terms("meaning beside an unrecorded device")


def category_words(run: Run) -> dict[str, str]:
    """Return the categories of the time line that were recorded, in words; without kernels nothing
    tells that the device is idle.
    """
    shares = each.categories_ns(run.profile)
    named = {**CATEGORY_WORDS, **(_BESIDE_UNRECORDED if "kernel" in run.untold else {})}
    words = {name: text for name, text in named.items() if shares[name] or name not in run.untold}
    if run.on_device and not run.projectable:
        words["cpu"] = "nothing recorded"
    return words


_STARTS: Final = terms("start-up")


def start_up_words(run: Run, begun: StartUp, least: float = 0.01) -> str:
    """Return the start-up in words: its time, its share of the run, and what it is made of."""
    starts = {**_STARTS} | (
        {"host": "nothing recorded"} if run.on_device and not run.projectable else {}
    )
    made = sorted(begun.made_of.items(), key=lambda part: -part[1])
    parts = [
        f"{starts[name]} {percent(spent / begun.seconds, 2)}"
        for name, spent in made
        if begun.seconds and spent >= least * begun.seconds
    ]
    return (
        f"{seconds(begun.seconds)}, {percent(begun.share)} of the run, until the "
        f"{_ENDS[begun.until]}: {', '.join(parts) or 'nothing'}"
    )


_ENDS: Final = terms("end of the start-up")


def run_time_table(run: Run) -> Table:
    """Return where the run time goes: each instant belongs to one category, of several ranks in the
    mean over them.

    The steady part stands beside a run of much start-up.
    """
    shares, words, of_ranks = (
        each.categories_ns(run.profile),
        category_words(run),
        len(each.ranks(run.profile)),
    )
    total = max(run.profile.run_time_ns, 1)
    meaning = {**_MEANING, **(_MEANING_UNRECORDED if "kernel" in run.untold else {})}
    if words["cpu"] == "nothing recorded":
        meaning["cpu"] = "the rest: what the host did was not recorded"
    # without the device's share the others are no picture of the run
    bars = {} if "kernel" in run.untold else {name: value / total for name, value in shares.items()}
    rows = [
        cells(
            words[name],
            meaning[name],
            number(value * 1e-9, "s"),
            Cell(percent(value / total), bar=bars.get(name)),
        )
        if name in words
        else cells(CATEGORY_WORDS[name], meaning[name], "not recorded", DASH)
        for name, value in shares.items()
    ]
    defect = number(summary.closure_defect_ns(run.profile) * 1e-9, "s")
    rows.append(
        [
            Cell(text, tone="soft")
            for text in ("closure defect", "run time minus all of the above", defect, "")
        ]
    )
    head = ["category", "what it is", ">time", ">share"]
    if run.steady is not None:
        left = each.categories_ns(run.steady.profile)
        head += [">steady", ">share "]
        for row, name in zip(rows, shares, strict=False):
            recorded = name in words
            row += (
                cells(
                    number(left[name] * 1e-9, "s"),
                    percent(left[name] / max(run.steady.profile.run_time_ns, 1)),
                )
                if recorded
                else cells("", DASH)
            )
        rows[-1] += [
            Cell(number(summary.closure_defect_ns(run.steady.profile) * 1e-9, "s"), tone="soft"),
            Cell(""),
        ]
    caption, counted = (
        "The exclusive time line: each instant belongs to one category.",
        "each instant counted once",
    )
    if of_ranks:
        caption = (
            f"The exclusive time line, mean of {of_ranks:,} ranks: each instant of a rank belongs "
            "to one category."
        )
        counted = f"mean of {of_ranks:,} ranks, each instant counted once"
    return Table(
        caption, head, rows, title=f"where the run time goes ({counted})", wide=("what it is",)
    )


def ranks_table(profile: Profile) -> Table | None:
    """Return where the run time of each rank goes; None for a run of one process."""
    each_rank, total = each.ranks(profile), max(profile.run_time_ns, 1)
    if not each_rank:
        return None
    shown = [
        name for name in CATEGORY_WORDS if any(row["categories_ns"][name] for row in each_rank)
    ]
    rows = [
        cells(
            f"process {row['process']}" if row["rank"] is None else f"rank {row['rank']}",
            *(percent(row["categories_ns"][name] / total) for name in shown),
        )
        for row in each_rank[:MOST]
    ]
    head = ["rank", *(f">{CATEGORY_WORDS[name].partition(',')[0]}" for name in shown)]
    caption = "Each rank's run time: each of its instants belongs to one category."
    return Table(caption, head, rows, TOP, len(each_rank) - len(rows), title="each rank")


def gpus_table(profile: Profile) -> Table | None:
    """Return what each GPU does during the run; None for a single one."""
    each_gpu, total = each.gpus(profile), max(profile.run_time_ns, 1)
    if len(each_gpu) < 2:
        return None
    shares = ("kernels_ns", "between_gpus_ns", "copies_ns", "idle_ns")
    rows = [
        cells(_gpu_name(row), *(percent(row[name] / total) for name in shares))
        for row in each_gpu[:MOST]
    ]
    head = ["GPU", ">kernels", ">between GPUs alone", ">copies, no kernel", ">idle"]
    caption = (
        "Each GPU's share of the run time: kernels, of them those between GPUs that run alone, "
        "copies beside no kernel, nothing."
    )
    return Table(caption, head, rows, TOP, len(each_gpu) - len(rows), title="each GPU")


def _gpu_name(row: dict[str, Any]) -> str:
    number = "not numbered" if row["device"] is None else str(row["device"])
    if row["rank"] is not None:
        return f"{number} of rank {row['rank']}"
    return number if row["process"] is None else f"{number} of process {row['process']}"


def copies_table(profile: Profile) -> Table | None:
    """Return copies and migrations by direction; None where there are none."""
    rows = [
        cells(
            DIRECTION[name],
            count(c["count"]),
            DASH if c["bytes"] is None else number(c["bytes"], "B"),
            number(c["busy_ns"] * 1e-9, "s"),
            DASH if c["bytes"] is None else number(c["bytes"] / c["count"], "B"),
            DASH
            if c["bytes"] is None or not c["busy_ns"]
            else number(c["bytes"] / (c["busy_ns"] * 1e-9), "B/s"),
        )
        for name, c in summary.copies(profile).items()
        if c["count"]
    ]
    caption = "Copies and migrations by direction. Busy: the sum of their times."
    head = ["direction", ">count", ">bytes", ">busy", ">mean size", ">mean rate"]
    return Table(caption, head, rows, title="copies") if rows else None


def kernels_table(profile: Profile) -> Table | None:
    """Return kernels by time, the longest first; None where there are none."""
    table = summary.kernel_table(profile)
    shown = table.head(MOST)
    rows = [
        cells(
            Cell(label, clean(r["kernel"]), tone="code"),
            count(r["count"]),
            number(r["seconds"], "s"),
            number(r["median_seconds"], "s"),
            number(r["mean_seconds"], "s"),
            Cell(percent(r["share"]), bar=r["share"]),
        )
        for r, label in zip(
            shown.to_dicts(), kernel_labels(shown["kernel"].to_list(), 64), strict=True
        )
    ]
    caption = f"Kernels by time, {plural(table.height, 'name')}."
    head = ["kernel", ">count", ">time", ">median", ">mean", ">share of kernels"]
    return (
        Table(caption, head, rows, TOP, table.height - len(rows), title="kernels", wide=("mean",))
        if rows
        else None
    )


def calls_table(profile: Profile) -> Table | None:
    """Return host calls of the GPU runtime by time, the longest first; None where there are
    none.
    """
    table = summary.calls(profile)
    rows = [
        cells(
            Cell(shorten(clean(r["call"] or "(no name)"), 64), clean(r["call"] or ""), tone="code"),
            r["call_class"] or DASH,
            count(r["count"]),
            number(r["seconds"], "s"),
            number(r["median_seconds"], "s"),
            Cell(percent(r["exposed_share"]), bar=r["exposed_share"]),
        )
        for r in table.head(MOST).to_dicts()
    ]
    caption = (
        f"Host calls of the GPU runtime by time, {plural(table.height, 'name')}. A call that "
        "finds the device idle lasts "
        "until what it started begins."
    )
    head = ["call", "class", ">count", ">time", ">median", ">exposed share of run"]
    return (
        Table(caption, head, rows, TOP, table.height - len(rows), title="host calls")
        if rows
        else None
    )


def host_work_tables(profile: Profile) -> list[Table]:
    """Return exposed host work by the innermost range, the most first, and by annotation where
    operators run inside those.

    Empty where the recording names no ranges.
    """
    work = host_work.described(profile, MOST)
    if work is None:
        return []
    tables = [
        _host_work_table(
            work, "host work by range", "NVTX range, annotation, operator or Python function"
        )
    ]
    if work["annotations"] is not None:
        tables.append(
            _host_work_table(
                work["annotations"],
                "host work by annotation",
                "annotation, whatever operators run inside it",
            )
        )
    return [table for table in tables if table.rows]


def _host_work_table(work: dict[str, Any], title: str, what: str) -> Table:
    total = max(work["named_s"] + work["unnamed_s"], 1e-300)
    ranges = [*work["ranges"], {"name": None, "count": None, "seconds": work["unnamed_s"]}]
    rows = [
        cells(
            Cell("outside of all ranges", tone="soft")
            if r["count"] is None
            else Cell(shorten(clean(r["name"]), 64), clean(r["name"]), tone="code"),
            DASH if r["count"] is None else count(r["count"]),
            number(r["seconds"], "s"),
            Cell(percent(r["seconds"] / total), bar=r["seconds"] / total),
        )
        for r in sorted(ranges, key=lambda row: -row["seconds"])
        if r["seconds"] > 0
    ]
    head = ["range", ">count", ">time", ">share of host work"]
    caption = f"Host work while nothing else runs, by its innermost {what}."
    return Table(caption, head, rows, TOP, work["distinct"] - len(work["ranges"]), title=title)


def window_words(profile: Profile) -> str:
    """Return how long it is from the first kernel to the last, and in how much of that kernels run;
    empty without kernels.
    """
    window = summary.kernel_window_ns(profile)
    if not window:
        return ""
    devices = summary.devices(profile)
    busy = [
        device_busy(profile.trace, device, ("kernels",), process) for device, process in devices
    ]
    shares = sorted(share for start, end in busy if (share := int((end - start).sum()) / window))
    ran = percent(shares[-1])
    if len(shares) > 1:
        ran = f"{percent(shares[0])} to {ran} (by GPU)"
    return f"{seconds(window * 1e-9)}, first kernel to last; kernels run in {ran} of it"


def link_words(run: Run) -> dict[str, str]:
    """Return what each direction of the link reached, what it looks like, and its fixed cost of a
    copy.
    """
    out: dict[str, str] = {}
    rates = {n.name: n.bandwidth for n in known_links()}
    for direction, link in links(run.source, run.fits).items():
        if link["bandwidth"] is None:
            continue
        rate, memory = number(link["bandwidth"], "B/s"), clean(link["memory"]).replace("_", " ")
        # a fit with zero latency could not separate latency from rate
        fixed = number(link["latency_s"], "s") if link["latency_s"] else "unknown"
        text, like = (
            f"{rate} with {memory} copies, fixed copy cost (o+L) {fixed}",
            link["looks_like"],
        )
        if run.source.coupling == "apu":
            out[direction] = text.replace(
                "copies,", "copies inside the one memory of CPU and GPU,", 1
            )
            continue
        if like:
            reached = (
                f"{number(rates[like[0]], 'B/s')} "
                f"({percent(link['bandwidth'] / rates[like[0]], 2)})"
            )
            text = f"looks like {' or '.join(like)}: {rate} of {reached}{text.removeprefix(rate)}"
        if link["nominal"] and not (like and abs(link["nominal"] / rates[like[0]] - 1) < 0.01):
            text += (
                f"; the machine file states {number(link['nominal'], 'B/s')} "
                f"({percent(link['efficiency'], 2)} reached)"
            )
        out[direction] = text
    return out


def message_words(profile: Profile) -> str:
    """Return what the MPI calls exchange; empty without any."""
    mpi = traffic(profile.trace)
    if mpi is None:
        return ""
    return ", ".join(
        [
            plural(mpi["ranks"], "rank") if mpi["ranks"] else "ranks not recorded",
            f"{plural(mpi['sends']['count'], 'send')} of {number(mpi['sends']['bytes'], 'B')}",
            plural(mpi["receives"]["count"], "receive"),
            f"{plural(mpi['messages']['matched'], 'message')} with both sides",
            plural(sum(mpi["collectives"].values()), "collective call"),
        ]
    )
