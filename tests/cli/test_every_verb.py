"""Every question about every recording has an answer or a refusal with a code: never a defect of
Turnbuckle's own (exit 4).

The recordings are small, each with another reason why an order cannot be trusted, or with a part
missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from build_nsys import STRINGS, THREAD, call, copy, kernel, make
from hostile_names import SAMPLE, Ran
from runs import read_once

from turnbuckle.projection.run import Run

US: Final = 1_000
NAMES: Final = STRINGS | {
    10: "cudaDeviceSynchronize_v3020",
    11: "cudaMemcpyAsync_v3020",
    12: "cuCtxSynchronize",
}
_FEW: Final = ("--draws", "5")
#: Questions about one recording, ``{f}``; a verb with several forms has each.
QUESTIONS: Final = (
    "{f}",
    "inspect {f}",
    "doctor {f}",
    "project {f}",
    "project {f} --on gh200,cdi-row-link",
    "project {f} --on self",
    "project {f} --on gh200 --replay sum",
    "project {f} --on gh200 --replay timeline",
    "project {f} --on gh200 --network perlmutter",
    "project {f} --on self --clean-time 90us",
    "slack {f}",
    "slack {f} --mode api",
    "slack {f} --mode network",
    "slack {f} --mode remoting --machine cdi-row-api",
    "slack {f} --over bandwidth",
    "slack {f} --over both",
    "whatif {f}",
    "whatif {f} --on gh200",
    "whatif {f} --apply graph",
    "report {f} -o r.html",
    "report {f} --on gh200 -o r.html",
    *(f"export {{f}} --to {to} -o x.{to}" for to in ("json", "goal", "chakra", "otf2")),
    *(f"export {{f}} --on gh200 --to {to} -o x.{to}" for to in ("json", "goal", "chakra", "otf2")),
    "export {f} --on self -o x.json",
    "export {f} --apply graph -o x.json",
    "transfers {f}",
    "cores {f} {f} --at 1,2",
    "suite {f} --on gh200",
    "sweep {f} --model project --axis on=gh200,cdi-row-link --workers 1",
    "sweep {f} --model slack --axis slack_seconds=0s,10us --workers 1",
    "sweep {f} --model sharing --axis runs=1,2 --workers 1",
    "anonymise {f} -o copy",
    "model sharing {f} --form all",
    "model sharing {f} --form shared --beside {f}",
    "model messages {f}",
    "model order {f} {f}",
    "model additive {f} --lambda data=10,control=4",
    "model functions {f}",
    "model memory {f}",
    "model chain {f}",
    "model ssi {f} --link pcie4-x16",
    "model dgemm {f}",
    "model mdm {f}",
)
_DRAWN: Final = ("project", "slack", "whatif", "report", "suite")


def waiting(
    count: int = 40, *, begin: int = 6, length: int = 10, named: bool = True
) -> dict[str, list[dict[str, Any]]]:
    """Launch, kernel, wait, each `count` times: kernels begin so many us after their call, and last
    so long.
    """
    calls, kernels = [], []
    for i in range(count):
        t, number = 20 * US * i, 2 * i + 1
        calls += [call(t, t + 4 * US, number), call(t + 5 * US, t + 18 * US, number + 1, nameId=10)]
        kernels.append(kernel(t + begin * US, t + (begin + length) * US, number if named else None))
    return {
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "CUPTI_ACTIVITY_KIND_MEMCPY": [],
    }


def late() -> dict[str, list[dict[str, Any]]]:
    """One launch at once, and kernels that no call explains 4 ms later."""
    rows = waiting(1)
    rows["CUPTI_ACTIVITY_KIND_KERNEL"] += [
        kernel(4_000 * US + 20 * US * i, 4_012 * US + 20 * US * i, None) for i in range(3)
    ]
    return rows


def handed() -> dict[str, list[dict[str, Any]]]:
    """The wait for a kernel, and a later one on another thread, which made no call before."""
    calls = [
        call(0, 120_000 * US, 1, nameId=10),
        call(120_010 * US, 120_020 * US, 2),
        call(121_000 * US, 134_020 * US, 3, nameId=12),
    ]
    calls.append(call(137_000 * US, 137_010 * US, 4, nameId=12, globalTid=THREAD + 5))
    return {
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(120_012 * US, 134_000 * US, 2)],
    }


def without(*tables: str) -> dict[str, list[dict[str, Any]]]:
    return {**waiting(), **{f"CUPTI_ACTIVITY_KIND_{table}": [] for table in tables}}


def copies_alone() -> dict[str, list[dict[str, Any]]]:
    """Copies of all that is on the device, each with its call."""
    calls = [call(20 * US * i, 20 * US * i + 15 * US, i + 1, nameId=11) for i in range(40)]
    copies = [copy(20 * US * i + 5 * US, 20 * US * i + 14 * US, i + 1) for i in range(40)]
    return {
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_KERNEL": [],
        "CUPTI_ACTIVITY_KIND_MEMCPY": copies,
    }


#: Recordings by what is odd about them, and why their order cannot be trusted; empty where it can,
#: or where nothing is to be ordered.
RECORDINGS: Final = {
    "sound": (waiting, ""),
    "overlapping on a stream": (lambda: waiting(length=25), "overlap another on their own stream"),
    "begun before the call": (lambda: waiting(begin=-2), "start before the call"),
    "later than rules say": (late, "comes later than the dependency rules say"),
    "handed over to another thread": (handed, ""),
    "kernels without calls": (lambda: waiting(named=False), ""),
    "no calls": (lambda: without("RUNTIME"), ""),
    "no kernels": (lambda: without("KERNEL"), ""),
    "copies alone": (copies_alone, ""),
    "one launch": (lambda: waiting(1), ""),
    "nothing": (lambda: without("RUNTIME", "KERNEL"), ""),
}


@pytest.fixture(scope="module", autouse=True)
def _once() -> Iterator[None]:
    with read_once():
        yield


def written(folder: Path, name: str) -> Path:
    rows = {k: v for k, v in RECORDINGS[name][0]().items() if v}
    missing = {
        f"CUPTI_ACTIVITY_KIND_{table}" for table in ("RUNTIME", "KERNEL", "MEMCPY")
    } - rows.keys()
    return make(folder / "run.sqlite", strings=NAMES, **rows, **dict.fromkeys(missing))


@pytest.mark.parametrize("name", [name for name, (_, why) in RECORDINGS.items() if why])
def test_each_reason_of_an_order_that_cannot_be_trusted_has_a_recording(
    name: str, tmp_path: Path
) -> None:
    trust = Run.read(written(tmp_path, name)).ordered.trust
    assert trust is not None and RECORDINGS[name][1] in trust.refused and trust.record


def words_of(question: str, file: Path) -> list[str]:
    words = [str(file) if word == "{f}" else word for word in question.split()]
    return [*words, *_FEW] if words[0] in _DRAWN else words


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_question_is_answered_or_refused_with_a_code(
    name: str, tmp_path: Path, turnbuckle: Callable[..., Ran]
) -> None:
    file = written(tmp_path, name)
    wrong = {}
    for question in QUESTIONS:
        ran = turnbuckle(*words_of(question, file))
        refused = re.match(r"error\[([A-Z]\d+)\]", ran.err)
        if not (ran.code in (0, 1) or (ran.code in (2, 3) and refused)):
            wrong[question] = (ran.code, ran.err[:300])
    assert not wrong


def test_every_question_about_the_sample_is_answered_or_refused_with_a_code(
    turnbuckle: Callable[..., Ran],
) -> None:
    wrong = {}
    for question in QUESTIONS:
        ran = turnbuckle(*words_of(question, SAMPLE))
        if ran.code not in (0, 2, 3):
            wrong[question] = (ran.code, ran.err[:300])
    assert not wrong


def test_what_cannot_be_ordered_is_refused_by_all_who_need_an_order(
    tmp_path: Path, turnbuckle: Callable[..., Ran]
) -> None:
    """Nobody answers by an order that others refuse: the code is A122, with what would settle
    it.
    """
    file = written(tmp_path, "overlapping on a stream")
    needs = (
        "slack",
        "whatif --apply graph",
        "model sharing",
        "project --on gh200 --replay timeline",
        "export --on gh200 --to goal",
        "export --on self --apply graph",
    )
    for words in needs:
        verb, _, more = words.partition(" --")
        ran = turnbuckle(*verb.split(), file, *(f"--{more}".split() if more else ()))
        assert (
            ran.code == 3
            and ran.err.startswith("error[A122]")
            and "record with one clock" in ran.err
        ), words
    assert "turnbuckle whatif without --apply" in turnbuckle("whatif", file, "--apply", "graph").err
    assert turnbuckle("project", file, "--on", "gh200", "--replay", "sum", *_FEW).code == 0


@pytest.mark.parametrize(
    "more", ["", "--on gh200", "--on self", "--on gh200 --replay timeline", "--network perlmutter"]
)
@pytest.mark.parametrize("name", RECORDINGS)
def test_report_and_project_end_alike(
    name: str, more: str, tmp_path: Path, turnbuckle: Callable[..., Ran]
) -> None:
    """One exit status for one question; a recording that cannot be projected has its report all the
    same.
    """
    file = written(tmp_path, name)
    project, report = (
        turnbuckle(verb, file, *more.split(), *_FEW, *out)
        for verb, out in (("project", ()), ("report", ("-o", "r.html")))
    )
    assert (project.code, project.err[:11]) == (report.code, report.err[:11])
    assert more or name == "nothing" or Path("r.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    "others", [[], [copy(900 * US, 905 * US, None)]], ids=["nothing", "a copy"]
)
def test_a_device_whose_kernels_were_not_recorded_is_not_called_idle(
    others: list[dict[str, Any]], tmp_path: Path, turnbuckle: Callable[..., Ran]
) -> None:
    """Waits after launches show that it worked, whatever else has rows."""
    rows = {
        k: v for k, v in {**without("KERNEL"), "CUPTI_ACTIVITY_KIND_MEMCPY": others}.items() if v
    }
    missing = {f"CUPTI_ACTIVITY_KIND_{table}" for table in ("KERNEL", "MEMCPY")} - rows.keys()
    file = make(tmp_path / "run.sqlite", strings=NAMES, **rows, **dict.fromkeys(missing))
    for asked in ((file, "-v"), ("inspect", file)):
        said = turnbuckle(*asked).out
        assert (
            "device idle"
            not in said.partition("where the run time goes")[2].partition("findings")[0]
        )
        assert (
            re.search(r"kernels +not recorded +-", said)
            and "GPU calls, device not recorded" in said
        )
    turnbuckle("report", file, *_FEW, "-o", "r.html")
    assert "GPU calls, device idle" not in Path("r.html").read_text(encoding="utf-8")
