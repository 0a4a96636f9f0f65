"""Damaged files, hostile numbers, odd places and small machines, given to every verb: what comes of
them, counted.

    make fuzz                                                   # ten minutes
    python validation/fuzz/run.py --seconds 60 --only kineto
    python validation/fuzz/run.py --seed 1 --case 4711          # one case again; its files are kept

Exit 1 if anything failed.  README.md says what counts as a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import seeds as sound
from cases import KINDS
from server import unlocked

HERE = Path(__file__).resolve().parent
OUTCOMES = ("answered", "gate", "refused", "cannot", "interrupted", "other")


@dataclass
class Counts:
    """What came of all cases.

    Attributes
    ----------
    outcomes : cases by format and outcome.
    failed : cases with a failure, by format.
    causes : numbers of the cases by kind and detail of the failure.
    examples : the first case of each cause.
    """

    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    failed: Counter[str] = field(default_factory=Counter)
    causes: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    examples: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    cpu: float = 0.0
    most_cpu: float = 0.0
    most_rss: int = 0

    def add(self, about: dict[str, Any]) -> None:
        """Count a case."""
        self.outcomes[about["format"]][about["outcome"]] += 1
        self.cpu += about["cpu"]
        self.most_cpu, self.most_rss = (
            max(self.most_cpu, about["cpu"]),
            max(self.most_rss, about["rss"]),
        )
        if about["failures"]:
            self.failed[about["format"]] += 1
        for kind, detail in about["failures"]:
            self.causes[kind, detail].append(about["number"])
            if about["number"] <= self.examples.get((kind, detail), about)["number"]:
                self.examples[kind, detail] = about

    @property
    def cases(self) -> int:
        """How many cases were run."""
        return sum(sum(row.values()) for row in self.outcomes.values())

    def table(self) -> list[str]:
        """Lines of the table: a format, its outcomes, its failures."""
        width = max(map(len, self.outcomes), default=6) + 2
        head = "".join(f"{name:>12}" for name in ("cases", *OUTCOMES, "FAILURES"))
        lines = [f"{'format':<{width}}{head}"]
        total: Counter[str] = Counter()
        for format, row in sorted(self.outcomes.items()):
            total.update(row)
            lines.append(f"{format:<{width}}{_cells(row, self.failed[format])}")
        return [*lines, f"{'all':<{width}}{_cells(total, sum(self.failed.values()))}"]

    def failures(self, repeat: str, kept: Path) -> list[str]:
        """Lines about the failures, one cause after the other, the most frequent first."""
        lines = []
        for (kind, detail), numbers in sorted(
            self.causes.items(), key=lambda item: (-len(item[1]), item[0])
        ):
            about = self.examples[kind, detail]
            number = about["number"]
            lines.append(f"{kind}: {detail or '-'}")
            lines.append(
                f"    {len(numbers)} cases, {number} the first: {about['format']}, "
                f"{about['done'][:160]}"
            )
            lines += [
                f"    {about['command'][:300]}",
                f"    {repeat} --case {number}    files: {kept / 'case-'}{number}",
            ]
        return lines


def _cells(row: Counter[str], failed: int) -> str:
    return "".join(
        f"{n:>12,}" for n in (sum(row.values()), *(row[name] for name in OUTCOMES), failed)
    )


def isolation() -> list[str]:
    """Words before a command that give it an empty network and mounts of its own; none where that
    is not allowed.
    """
    for words in (["unshare", "-m", "-n"], ["unshare", "-r", "-m", "-n"]):
        if (
            shutil.which("unshare")
            and not subprocess.run([*words, "true"], check=False, capture_output=True).returncode
        ):
            return words
    return []


def _started(
    place: Path, kept: Path, given: argparse.Namespace, repeat: str
) -> Iterator[subprocess.Popen[str]]:
    before = isolation()
    environment = {**os.environ, "FUZZ_OWN_MOUNTS": "1" if before else ""}
    jobs = 1 if given.case is not None else given.jobs
    for k in range(jobs):
        words = [
            *before,
            sys.executable,
            str(HERE / "server.py"),
            str(place),
            "--kept",
            str(kept),
            f"--words={repeat}",
        ]
        first = k if given.case is None else given.case
        words += [
            f"--seed={given.seed}",
            f"--kinds={given.kinds}",
            f"--first={first}",
            f"--step={jobs}",
            f"--seconds={given.seconds}",
        ]
        words += (
            ["--count=1", "--keep-all"]
            if given.case is not None
            else [f"--count={-(-given.count // jobs)}"]
            if given.count
            else []
        )
        yield subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)


def cases(
    place: Path, kept: Path, given: argparse.Namespace, repeat: str
) -> Iterator[dict[str, Any]]:
    """Run the cases in as many processes as asked for, and give a line about each as it ends."""
    servers = list(_started(place, kept, given, repeat))
    chosen = selectors.DefaultSelector()
    for server in servers:
        assert server.stdout is not None
        chosen.register(server.stdout, selectors.EVENT_READ, server)
    try:
        while chosen.get_map():
            for key, _ in chosen.select():
                line = key.fileobj.readline()  # type: ignore[union-attr]
                if line:
                    yield json.loads(line)
                else:
                    chosen.unregister(key.fileobj)
                    if key.data.wait():
                        raise SystemExit(
                            f"a server of the fuzzer ended with {key.data.returncode}: a "
                            "defect of the fuzzer"
                        )
    finally:
        chosen.close()
        for server in servers:
            if server.poll() is None:
                server.terminate()
            with server:  # which waits, and closes its output
                pass


def main(words: Sequence[str] | None = None) -> int:
    """Build the seeds, run the cases, print what came of them."""
    reading = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reading.add_argument("--seconds", type=float, default=600.0)
    reading.add_argument("--seed", type=int, default=1)
    reading.add_argument("--case", type=int, default=None, help="this case alone")
    reading.add_argument("--count", type=int, default=None, help="so many cases and no more")
    reading.add_argument(
        "--only",
        default="",
        metavar="FORMAT",
        help="this format alone, for example kineto or machine",
    )
    reading.add_argument(
        "--kinds",
        default=",".join(KINDS),
        help="kinds of cases, with commas: all of them if left out",
    )
    reading.add_argument("--jobs", type=int, default=2)
    reading.add_argument(
        "--output",
        type=Path,
        default=Path("build") / "fuzz",
        help="folder for the files of failing cases",
    )
    reading.add_argument(
        "--repository-only",
        action="store_true",
        help="without the real traces beside the repository",
    )
    given = reading.parse_args(words)
    if strange := set(given.kinds.split(",")) - set(KINDS):
        raise SystemExit(f"{', '.join(sorted(strange))}: kinds are {', '.join(KINDS)}")
    repeat = f" --only '{given.only}'" * bool(given.only) + f" --kinds {given.kinds}" * (
        given.kinds != ",".join(KINDS)
    )
    repeat += " --repository-only" * given.repository_only
    base = Path(tempfile.mkdtemp(prefix="turnbuckle-fuzz-"))
    counts, began = Counts(), time.monotonic()
    try:
        place, kept = base / "cases", given.output.absolute()
        place.mkdir()
        kept.mkdir(parents=True, exist_ok=True)
        built = sound.build(
            base / "seeds", real=None if given.repository_only else sound.TRACES, only=given.only
        )
        if not built:
            raise SystemExit(f"no seed has the format {given.only}")
        if not given.only and (missing := sound.wanted() - {s.format for s in built}):
            raise SystemExit(
                f"no seed has the format {', '.join(sorted(missing))}: add one to "
                "validation/fuzz/seeds.py"
            )
        listed = [asdict(s) for s in built]
        (place / "seeds.json").write_text(json.dumps(listed, default=str), encoding="utf-8")
        for about in cases(place, kept, given, repeat):
            counts.add(about)
            if sys.stderr.isatty():
                line = (
                    f"{counts.cases:,} cases, {sum(counts.failed.values()):,} failures of "
                    f"{len(counts.causes)} causes, {about['format']}"
                )
                print(
                    f"\r\x1b[K{time.monotonic() - began:5.0f} s  {line}",
                    end="",
                    file=sys.stderr,
                    flush=True,
                )
            if given.case is not None:
                print(
                    *(f"{k}: {v}" for k, v in about.items()),
                    f"files: {kept / 'case-'}{given.case}",
                    sep="\n",
                )
    except KeyboardInterrupt:
        print("\ninterrupted: what came until here", file=sys.stderr)
    finally:
        unlocked(base)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    again = f"python validation/fuzz/run.py --seed {given.seed}{repeat}"
    print(*counts.table(), "", *counts.failures(again, kept), sep="\n")
    print(
        f"\n{counts.cases:,} cases of {len(built)} seeds in {time.monotonic() - began:.0f} s, "
        f"{sum(counts.failed.values()):,} failures of "
        f"{len(counts.causes)} causes; seed {given.seed}; {counts.cpu:.0f} s of CPU time, at most "
        f"{counts.most_cpu:.1f} s and "
        f"{counts.most_rss / 1e9:.1f} GB in one case; network: "
        f"{'cut off and watched' if isolation() else 'watched in Python only'}"
    )
    return 1 if counts.causes else 0


if __name__ == "__main__":
    sys.exit(main())
