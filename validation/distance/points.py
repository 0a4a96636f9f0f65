"""What is measured, in which order, and what of it is done: the plan of points and the journal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Setting:
    """What is done to a program's calls.  A delay of 0 is the recorded run without delays, a
    negative one the run without the recorder.

    Attributes
    ----------
    classes : as `compare.chosen` takes them.
    where : before or after the call.
    slower : by how much the link's bandwidth is divided, as `look` measured it; 0 leaves it as it
        is.
    """

    delay_ns: int
    classes: str = "all"
    where: str = "after"
    slower: int = 0


@dataclass(frozen=True)
class Point:
    """One run of one program."""

    program: str
    setting: Setting
    repeat: int

    def key(self) -> str:
        """What the journal knows it by."""
        return json.dumps([self.program, self.repeat, asdict(self.setting)], sort_keys=True)


#: Divisors of the bandwidth by themselves, and some with a delay [ns] of all calls.
SLOWER = (2, 10, 100)
BOTH = ((100_000, 10), (1_000_000, 100))


def settings(
    delays_ns: Sequence[int], class_delays_ns: Sequence[int], classes: Sequence[str]
) -> list[Setting]:
    """No delay; every delay on all calls; at some delays single classes, all but one, and before
    the call; less bandwidth; both.
    """
    some = [word for name in classes for word in (name, f"all-{name}")]
    return [
        Setting(-1),
        Setting(0),
        *(Setting(ns) for ns in delays_ns),
        *(Setting(ns, word) for ns in class_delays_ns for word in some),
        *(Setting(ns, where="before") for ns in class_delays_ns),
        *(Setting(0, slower=by) for by in SLOWER),
        *(Setting(ns, slower=by) for ns, by in BOTH),
    ]


def plan(programs: Sequence[str], chosen: Sequence[Setting], repeats: int) -> Iterator[Point]:
    """All runs: every repeat goes through everything, and begins elsewhere, so that drift of the
    machine meets all points alike.
    """
    for repeat in range(repeats):
        turned = repeat * len(chosen) // max(repeats, 1)
        for program in programs:
            for setting in [*chosen[turned:], *chosen[:turned]]:
                yield Point(program, setting, repeat)


class Journal:
    """Runs that are done, one JSON object a line.  A last line that was cut off by the end of a run
    is done again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: dict[str, dict[str, Any]] = {}
        whole = ""
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
                if not line.endswith("\n"):
                    break
                entry = json.loads(line)
                self.entries[entry["key"]] = entry
                whole += line
            path.write_text(whole, encoding="utf-8")

    def add(self, point: Point, result: Mapping[str, Any]) -> None:
        """Note one run."""
        entry = {"key": point.key(), **result}
        self.entries[entry["key"]] = entry
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def settings(self) -> list[Setting]:
        """The settings there are runs of, nearest first."""
        kept = {
            Setting(**json.loads(key)[2])
            for key, entry in self.entries.items()
            if "seconds" in entry and key.startswith("[")
        }
        return sorted(kept, key=lambda s: (s.delay_ns, s.classes, s.where, s.slower))

    def of(self, program: str, setting: Setting) -> list[dict[str, Any]]:
        """The runs of a program at one setting that succeeded, by repeat."""
        found = []
        for key, entry in self.entries.items():
            if not key.startswith("["):
                continue
            name, repeat, kept = json.loads(key)
            if name == program and kept == asdict(setting) and "seconds" in entry:
                found.append((repeat, entry))
        return [entry for _, entry in sorted(found, key=lambda pair: pair[0])]
