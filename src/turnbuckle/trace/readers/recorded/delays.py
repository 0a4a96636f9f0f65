"""Delays that Turnbuckle's recorders put into a run on purpose: of calls, fixed and random, and by
a slower link.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from turnbuckle.trace.readers.recorded.text import Recorded


def slack_of(files: Sequence[Recorded]) -> dict[str, int]:
    """Return the delays: ``delay_ns``, ``before`` (1: before calls), and by class of call ``calls
    CLASS`` and ``waited_ns CLASS``.

    Random delays add ``jitter_from_ns``, ``jitter_to_ns``, ``jitter_seed``, and their sum
    ``jitter_ns``.  The result is empty where nothing was delayed.  A recording that was cut off
    gives the delays recorded in it.
    """
    out: dict[str, int] = {}
    for file in files:
        delays = file.table("L")
        jitter = re.fullmatch(r"(\d{1,18}) (\d{1,18}) (\d{1,18})", file.last("jitter"))
        if file.number("slack_ns", -1) <= 0 and not delays.height and not jitter:
            continue
        if jitter:
            out |= {
                f"jitter_{word}": int(number)
                for word, number in zip(("from_ns", "to_ns", "seed"), jitter.groups(), strict=True)
            }
            drawn = re.fullmatch(r"calls=\d{1,18} drawn_ns=(\d{1,18})", file.last("jitter_total"))
            out["jitter_ns"] = out.get("jitter_ns", 0) + (int(drawn[1]) if drawn else 0)
        out["delay_ns"] = max(out.get("delay_ns", 0), file.number("slack_ns"))
        out["before"] = int(file.last("slack_at") == "before")
        classes = dict(re.findall(r"(\d{1,4})=(\w{1,20})", file.last("slackclass")))
        totals = [
            re.fullmatch(r"(\w{1,20}) calls=(\d{1,18}) waited_ns=(\d{1,18})", line)
            for line in file.facts.get("slack_total", [])
        ]
        totals_by_class = [(match[1], int(match[2]), int(match[3])) for match in totals if match]
        if not totals_by_class:
            seen = (
                delays.group_by("what")
                .agg(pl.len(), (pl.col("end") - pl.col("start")).sum().alias("waited"))
                .sort("what")
            )
            totals_by_class = [
                (classes.get(str(what), "other"), count, waited or 0)
                for what, count, waited in seen.iter_rows()
            ]
        for word, count, waited in totals_by_class:
            out[f"calls {word}"] = out.get(f"calls {word}", 0) + count
            out[f"waited_ns {word}"] = out.get(f"waited_ns {word}", 0) + waited
    return out


def slack_words(files: Sequence[Recorded]) -> str:
    """Describe the delays of calls in one line."""
    slack = slack_of(files)
    waited = sum(value for key, value in slack.items() if key.startswith("waited_ns "))
    classes = ", ".join(
        f"{key.removeprefix('calls ')} {value:,}"
        for key, value in slack.items()
        if key.startswith("calls ") and value
    )
    when = "before" if slack["before"] else "after"
    changed = any("slack_set" in file.facts for file in files)
    random = ""
    if "jitter_seed" in slack:
        random = (
            f" and {slack['jitter_from_ns']:,} to {slack['jitter_to_ns']:,} ns at random (seed "
            f"{slack['jitter_seed']})"
        )
    length = (
        f"{slack['delay_ns']:,} ns{random} {when} "
        f"calls{' (the program changed it)' if changed else ''}"
    )
    return f"{length}, {waited / 1e9:.6g} s in all: {classes}"


def link_of(files: Sequence[Recorded]) -> dict[str, int]:
    """Return a slower link's ``bandwidth`` [B/s]; by direction ``copies``, ``bytes``,
    ``missing_ns`` and ``waited_ns``; ``missed`` copies.

    ``missing_ns`` is how much longer the copies would have taken, ``waited_ns`` how long they were
    held.  The result is empty where no link was made slower.  A recording that was cut off gives
    the bandwidth alone.
    """
    out: dict[str, int] = {}
    for file in files:
        if file.number("link_bandwidth") <= 0:
            continue
        out["bandwidth"] = file.number("link_bandwidth")
        out["missed"] = out.get("missed", 0) + file.number("link_missed")
        for line in file.facts.get("link_total", []):
            match = re.fullmatch(
                r"(h2d|d2h) copies=(\d{1,18}) bytes=(\d{1,18}) missing_ns=(\d{1,18}) waited_ns=(\d{1,18})",
                line,
            )
            for word, number in zip(
                ("copies", "bytes", "missing_ns", "waited_ns"),
                match.groups()[1:] if match else (),
                strict=False,
            ):
                key = f"{word} {line[:3]}"
                out[key] = out.get(key, 0) + int(number)
    return out


def link_words(link: dict[str, int]) -> str:
    """Describe the slower link in one line."""
    directions = [
        (
            f"{direction} {link[f'copies {direction}']:,} of {link[f'bytes {direction}']:,} B "
            f"held {link[f'waited_ns {direction}'] / 1e9:.6g} s"
        )
        for direction in ("h2d", "d2h")
        if f"copies {direction}" in link
    ]
    missed = [f"{link['missed']:,} not limited"] if link["missed"] else []
    return (
        f"{link['bandwidth']:,} B/s: "
        f"{'; '.join([*directions, *missed]) or 'the recording has no end'}"
    )
