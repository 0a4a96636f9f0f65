"""What a recording shows, as tables for terminal and report alike: where its run time goes, copies, host calls, kernels."""

from __future__ import annotations

from typing import Any, Final

from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary import host_work, summary
from turnbuckle.profile.summary.start_up import StartUp
from turnbuckle.projection.run import Run
from turnbuckle.show.kernel_names import kernel_labels
from turnbuckle.show.table import Cell, Table, cells
from turnbuckle.show.text import DASH, clean, count, number, percent, plural, seconds, shorten
from turnbuckle.show.unknowns import DIRECTION

#: Rows of long tables: printed at once, and at most.
TOP, MOST = 15, 200
CATEGORY_WORDS: Final = {
    "kernel": "kernels",
    "copy": "copies, no kernel running",
    "mpi": "MPI, device idle",
    "api": "GPU calls, device idle",
    "cpu": "host work, nothing else",
}
_MEANING: Final = {
    "kernel": "device computes: kernels, graphs, memory sets",
    "copy": "copies and migrations where no kernel runs",
    "mpi": "MPI calls where the device is idle",
    "api": "GPU runtime calls where the device is idle",
    "cpu": "the rest: the application's own host work",
}


def category_words(run: Run) -> dict[str, str]:
    """Return the categories of the time line that were recorded, in words."""
    shares = summary.categories_ns(run.profile)
    words = {name: text for name, text in CATEGORY_WORDS.items() if shares[name] or name not in run.untold}
    if run.on_device and not run.projectable:
        words["cpu"] = "nothing recorded"
    return words


_STARTS: Final = {
    "mpi_init": "MPI_Init",
    "context": "GPU context",
    "modules": "loading code",
    "libraries": "handles of libraries",
    "calls": "other GPU calls",
    "device": "work on the GPU",
    "host": "host work",
}


def start_up_words(run: Run, begun: StartUp, least: float = 0.01) -> str:
    """Return the start-up in words: its time, its share of the run, and what it is made of."""
    starts = _STARTS | ({"host": "nothing recorded"} if run.on_device and not run.projectable else {})
    made = sorted(begun.made_of.items(), key=lambda part: -part[1])
    parts = [
        f"{starts[name]} {percent(spent / begun.seconds, 2)}" for name, spent in made if begun.seconds and spent >= least * begun.seconds
    ]
    return f"{seconds(begun.seconds)}, {percent(begun.share)} of the run, until the {_ENDS[begun.until]}: {', '.join(parts) or 'nothing'}"


_ENDS: Final = {"repeated kernel": "first kernel that repeats", "first kernel": "first kernel", "MPI_Init": "end of MPI_Init"}


def run_time_table(run: Run) -> Table:
    """Return where the run time goes: each instant belongs to one category.  The steady part stands beside a run of much start-up."""
    shares, words = summary.categories_ns(run.profile), category_words(run)
    total = max(run.profile.run_time_ns, 1)
    meaning = dict(_MEANING)
    if words["cpu"] != CATEGORY_WORDS["cpu"]:
        meaning["cpu"] = "the rest: what the host did was not recorded"
    rows = [
        cells(words[name], meaning[name], number(value * 1e-9, "s"), Cell(percent(value / total), bar=value / total))
        if name in words
        else cells(CATEGORY_WORDS[name], meaning[name], "not recorded", DASH)
        for name, value in shares.items()
    ]
    defect = number(summary.closure_defect_ns(run.profile) * 1e-9, "s")
    rows.append([Cell(text, tone="soft") for text in ("closure defect", "run time minus all of the above", defect, "")])
    head = ["category", "what it is", ">time", ">share"]
    if run.steady is not None:
        left = summary.categories_ns(run.steady.profile)
        head += [">steady", ">share "]
        for row, name in zip(rows, shares, strict=False):
            known = name in words
            row += (
                cells(number(left[name] * 1e-9, "s"), percent(left[name] / max(run.steady.profile.run_time_ns, 1)))
                if known
                else cells("", DASH)
            )
        rows[-1] += [Cell(number(summary.closure_defect_ns(run.steady.profile) * 1e-9, "s"), tone="soft"), Cell("")]
    caption = "The exclusive time line: each instant belongs to one category."
    return Table(caption, head, rows, title="where the run time goes (each instant counted once)", wide=("what it is",))


def copies_table(profile: Profile) -> Table | None:
    """Return copies and migrations by direction; None where there are none."""
    rows = [
        cells(
            DIRECTION[name],
            count(c["count"]),
            DASH if c["bytes"] is None else number(c["bytes"], "B"),
            number(c["busy_ns"] * 1e-9, "s"),
            DASH if c["bytes"] is None else number(c["bytes"] / c["count"], "B"),
            DASH if c["bytes"] is None or not c["busy_ns"] else number(c["bytes"] / (c["busy_ns"] * 1e-9), "B/s"),
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
        for r, label in zip(shown.to_dicts(), kernel_labels(shown["kernel"].to_list(), 64), strict=True)
    ]
    caption = f"Kernels by time, {plural(table.height, 'name')}."
    head = ["kernel", ">count", ">time", ">median", ">mean", ">share of kernels"]
    return Table(caption, head, rows, TOP, table.height - len(rows), title="kernels", wide=("mean",)) if rows else None


def calls_table(profile: Profile) -> Table | None:
    """Return host calls of the GPU runtime by time, the longest first; None where there are none."""
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
        f"Host calls of the GPU runtime by time, {plural(table.height, 'name')}. A call that finds the device idle lasts "
        "until what it started begins."
    )
    head = ["call", "class", ">count", ">time", ">median", ">exposed share of run"]
    return Table(caption, head, rows, TOP, table.height - len(rows), title="host calls") if rows else None


def host_work_tables(profile: Profile) -> list[Table]:
    """Return exposed host work by the innermost range, the most first, and by annotation where operators run inside those.

    Empty where the recording names no ranges.
    """
    found = host_work.described(profile, MOST)
    if found is None:
        return []
    tables = [_host_work_table(found, "host work by range", "NVTX range, annotation, operator or Python function")]
    if found["annotations"] is not None:
        tables.append(_host_work_table(found["annotations"], "host work by annotation", "annotation, whatever operators run inside it"))
    return [table for table in tables if table.rows]


def _host_work_table(found: dict[str, Any], title: str, what: str) -> Table:
    total = max(found["named_s"] + found["unnamed_s"], 1e-300)
    ranges = [*found["ranges"], {"name": None, "count": None, "seconds": found["unnamed_s"]}]
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
    return Table(caption, head, rows, TOP, found["distinct"] - len(found["ranges"]), title=title)
