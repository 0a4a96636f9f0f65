"""Speeds of hosts by kind of work, combined from public measurements, beside what the hosts'
entries state.

Every row of `machine/measured/hosts/evidence.csv` compares two processors at one benchmark.

- Rows of one source on one pair and kind of work are averaged in logs: a source counts once,
  however much it timed.
- Speeds are the weighted least squares over all pairs, in logs, the Xeon Platinum 8480C at 1.
- `clock` and `measured_clock` (GHz) carry a ratio that was measured on the same cores at another
  clock.
- The error of a host is that of its middle, times how far its sources lie apart where that is more
  than was weighed, and what two programs of one kind differ by (`HOST_ERROR`).
- A driver's calls are compiled code: the speed at that counts as one more source, within
  `OTHER_KIND`, and is the only one where no call was timed.

    python validation/hosts.py             # prints the table; fails where an entry states something else
    python validation/hosts.py --renew     # writes the entries
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final, get_args

import numpy as np

from turnbuckle.machine.catalog import hosts
from turnbuckle.machine.load import read
from turnbuckle.projection.elsewhere.hosts import HOST_ERROR, OTHER_SET, HostWork

EVIDENCE: Final = hosts()["grace"].parent / "evidence.csv"
REFERENCE: Final = "xeon-8480c"
KINDS: Final[tuple[HostWork, ...]] = get_args(HostWork)
#: Units of which less is better.
_LESS: Final = ("us", "times as long")
#: What one source leaves open between two instruction sets (log-sd): of a framework, what its own
#: two sources and benchmarks of one thread lie apart on Grace; of compiled code, what two
#: benchmarks on one thread do (0.36).
_ACROSS: Final[dict[HostWork, float]] = {"framework": OTHER_SET, "driver": 0.3, "code": 0.3}
#: Calls of a driver against compiled code (log-sd): twice what Milan and POWER9, the hosts that
#: were timed at both, lie off (0.15).
OTHER_KIND: Final = 0.3


@dataclass(frozen=True)
class Pair:
    """One source's word on two processors at one kind of work: the log of the ratio of their
    speeds, and its log-sd.
    """

    host: str
    against: str
    log: float
    sd: float
    by: str


@dataclass(frozen=True)
class Speed:
    """Speed of a host at a kind of work, its error (log-sd), its sources, and the least and the
    most that one says.
    """

    value: float
    error: float
    sources: tuple[str, ...]
    least: float
    most: float


def log_ratio(row: dict[str, str]) -> float:
    """Return the log of the ratio of speeds that a row of the table states, at the clock of the
    host.
    """
    ratio = float(row["value"]) / float(row["against_value"])
    clock = float(row["clock"] or 1) / float(row["measured_clock"] or 1)
    return math.log(clock) + math.log(ratio) * (-1 if row["unit"] in _LESS else 1)


def pairs(rows: list[dict[str, str]], kind: HostWork) -> list[Pair]:
    """Return the words of all sources on a kind of work."""
    logs: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in rows:
        if row["kind"] == kind:
            logs[row["host"], row["against"], row["by"]].append(log_ratio(row))
    sets = {name: read(path).instruction_set for name, path in hosts().items()}
    sd = {True: HOST_ERROR, False: _ACROSS[kind]}
    return [
        Pair(
            host,
            against,
            float(np.mean(found)),
            sd[sets.get(host, "x86") == sets.get(against, "x86")],
            by,
        )
        for (host, against, by), found in logs.items()
    ]


def solve(found: list[Pair]) -> dict[str, tuple[float, float]]:
    """Return the log speed of every host by least squares, and the log-sd of that middle."""
    logs = {n: log for n, (log, _) in _least_squares(found).items()}
    return _least_squares([replace(p, sd=p.sd * _apart(p.host, found, logs)) for p in found])


def _least_squares(found: list[Pair]) -> dict[str, tuple[float, float]]:
    names = sorted({p.host for p in found} | {p.against for p in found} - {REFERENCE})
    weights = np.array([1 / p.sd for p in found])
    rows = (
        np.array([[(p.host == n) - (p.against == n) for n in names] for p in found], dtype=float)
        * weights[:, None]
    )
    middle = np.linalg.lstsq(rows, np.array([p.log for p in found]) * weights, rcond=None)[0]
    sd = np.sqrt(np.diag(np.linalg.inv(rows.T @ rows)))
    return {REFERENCE: (0.0, 0.0)} | dict(
        zip(names, zip(middle.tolist(), sd.tolist(), strict=True), strict=True)
    )


def _apart(host: str, found: list[Pair], logs: dict[str, float]) -> float:
    """Return how many times farther the sources on a host lie apart than was weighed; 1 where they
    do not.
    """
    off = [(p.log - logs[host] + logs[p.against]) / p.sd for p in found if p.host == host]
    return max(1.0, math.sqrt(sum(x * x for x in off) / max(len(off) - 1, 1)))


@cache
def combined() -> dict[str, dict[HostWork, Speed]]:
    """Return the speeds of every host that has an entry, by kind of work."""
    with EVIDENCE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {kind: pairs(rows, kind) for kind in KINDS}
    logs = {kind: solve(found[kind]) for kind in ("framework", "code")}
    code = [
        Pair(n, REFERENCE, log, math.hypot(sd, OTHER_KIND), "")
        for n, (log, sd) in logs["code"].items()
        if n != REFERENCE
    ]
    logs["driver"] = solve(found["driver"] + code)
    return {
        host: {kind: _speed(host, found[kind], logs[kind]) for kind in KINDS}
        for host in hosts()
        if host != REFERENCE
    }


def _speed(host: str, found: list[Pair], logs: dict[str, tuple[float, float]]) -> Speed:
    middle, sd = logs[host]
    own = [p for p in found if p.host == host]
    said = [math.exp(p.log + logs[p.against][0]) for p in own] or [math.exp(middle)]
    return Speed(
        round(math.exp(middle), 2),
        round(math.hypot(sd, HOST_ERROR), 2),
        tuple(p.by for p in own),
        min(said),
        max(said),
    )


def block(kind: HostWork, speed: Speed) -> str:
    """Return the table of an entry that states a speed."""
    by = "; ".join(speed.sources) or "no call was timed"
    lines = {
        "value": f"{speed.value:g}",
        "error": f"{100 * speed.error:.0f} %",
        "nature": "measured" if speed.sources else "assumption",
        "source": f"hosts/evidence.csv, combined by validation/hosts.py: {by}",
        "note": _note(speed),
    }
    return f"[host.{kind}]\n" + "".join(f'{key} = "{text}"\n' for key, text in lines.items())


def _note(speed: Speed) -> str:
    if not speed.sources:
        return f"its speed at compiled code, within {100 * OTHER_KIND:.0f} %"
    if len(speed.sources) == 1:
        return "one source"
    return f"one source says {speed.least:.2f}, another {speed.most:.2f}"


def text_of(path: Path, speeds: dict[HostWork, Speed]) -> str:
    """Return the file of a host with what the table gives."""
    head = re.split(r"^\[host\.", path.read_text(encoding="utf-8"), maxsplit=1, flags=re.MULTILINE)[
        0
    ]
    return head + "\n".join(block(kind, speeds[kind]) for kind in KINDS)


def main() -> int:
    """Print the table, or write the entries; return how many entries state something else."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--renew", action="store_true", help="write the entries")
    renew = parser.parse_args().renew
    print(f"{'host':14}{'kind':11}{'speed':>6}{'error':>7}{'90 % range':>14}  sources")
    other = []
    for host, speeds in combined().items():
        for kind, s in speeds.items():
            far = math.exp(1.645 * s.error)
            ends = f"{s.value / far:.2f} to {s.value * far:.2f}"
            by = ", ".join(s.sources) or "compiled code"
            print(f"{host:14}{kind:11}{s.value:6.2f}{s.error:7.2f}{ends:>14}  {by}")
        path = hosts()[host]
        text = text_of(path, speeds)
        if renew:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            other.append(path.name)
    if other:
        print(
            f"other than the table gives: {', '.join(other)}; --renew writes them", file=sys.stderr
        )
    return len(other)


if __name__ == "__main__":
    sys.exit(main())
