"""Answers about the shipped sample, one of them made of hostile texts, and a browser."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from unittest import mock

import polars as pl
import pytest
from browsing import Browser
from hostile_texts import HOSTILE

from turnbuckle import _native
from turnbuckle.examples import sample
from turnbuckle.foundation.findings import finding
from turnbuckle.machine import Machine, Parameter
from turnbuckle.page.html import page
from turnbuckle.page.studied import Studies, studied
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.run import Run

TARGETS = (
    "nvlink-c2c",
    "gh200",
    "mi300a",
    "cdi-row-link",
    "cdi-row-api",
    "cdi-datacentre-link",
    "self",
)


@pytest.fixture(scope="session")
def seen() -> Run:
    """The sample, inspected."""
    with sample() as path:
        return Run.read(
            path, use_cache=False, command="turnbuckle report milc-like-synthetic.sqlite"
        )


@pytest.fixture(scope="session")
def brief() -> Run:
    """The smaller sample, inspected: its report is made in a quarter of the time, for what every
    recording's report has.
    """
    path = Path(str(files("turnbuckle") / "examples" / "dgemm-like-synthetic.sqlite"))
    return Run.read(path, use_cache=False, command="turnbuckle report dgemm-like-synthetic.sqlite")


@pytest.fixture(scope="session")
def bare_text(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of the smaller sample alone, where nothing was projected."""
    return once(tmp_path_factory, "bare.html", lambda: page(request.getfixturevalue("brief")))


@pytest.fixture(scope="session")
def answer(seen: Run) -> Answer:
    """The sample on targets near and far, and on itself."""
    return seen.project(TARGETS, draws=20)


@pytest.fixture(scope="session")
def studies(answer: Answer) -> Studies:
    """What the report of `answer` asks beyond its projections."""
    found = studied(answer)
    assert isinstance(found, Studies)
    return found


def of_all_workers(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the workers of a session share."""
    return (
        factory.getbasetemp().parent
        if "PYTEST_XDIST_WORKER" in os.environ
        else factory.getbasetemp()
    )


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[], str]) -> str:
    """Return a text that the first worker to ask makes for all of them."""
    place = of_all_workers(factory) / name
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            place.write_bytes(make().encode())
    return place.read_bytes().decode()


@pytest.fixture(scope="session", autouse=True)
def _drawn_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Draw each figure once for all workers: a drawing depends on the scripts, the specification
    and the limit alone.
    """
    folder = of_all_workers(tmp_path_factory) / "drawings"
    folder.mkdir(exist_ok=True)
    run_script = _native.run_script

    def run(scripts: list[str], function: str, documents: list[str], memory: int) -> list[str]:
        of_all = [*scripts, function, str(memory)]
        places = [
            folder / hashlib.sha256("\0".join([*of_all, document]).encode()).hexdigest()
            for document in documents
        ]
        new = [k for k, place in enumerate(places) if not place.exists()]
        try:
            drawings = (
                run_script(scripts, function, [documents[k] for k in new], memory=memory)
                if new
                else []
            )
        except (MemoryError, RuntimeError):
            if len(new) == len(documents):
                raise
            # an error counts the figures before it
            return list(run_script(scripts, function, documents, memory=memory))
        drawn = dict(zip(new, drawings, strict=True))
        for k, drawing in drawn.items():
            draft = places[k].with_suffix(f".{os.getpid()}")
            with contextlib.suppress(OSError):  # a test may let no file grow
                draft.write_bytes(drawing.encode())
                draft.replace(places[k])
        return [
            drawn[k] if k in drawn else place.read_bytes().decode()
            for k, place in enumerate(places)
        ]

    with mock.patch.object(_native, "run_script", run):
        yield


@pytest.fixture(scope="session")
def text(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of `answer`."""
    return once(
        tmp_path_factory,
        "report.html",
        lambda: page(request.getfixturevalue("answer"), question="How far may the GPU stand?"),
    )


@pytest.fixture(scope="session")
def hostile_text(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of the smaller sample on the same targets, made of hostile texts."""
    return once(
        tmp_path_factory,
        "hostile.html",
        lambda: page(
            hostile(request.getfixturevalue("brief").project(TARGETS, draws=20)),
            question=HOSTILE[0],
        ),
    )


def hostile(answer: Answer) -> Answer:
    """The same answer with hostile text wherever a recording, a machine file or a command line may
    bring one.
    """

    def bad(i: int) -> str:
        return HOSTILE[i % len(HOSTILE)]

    trace = answer.run.profile.trace
    names = pl.Series("name", [bad(i) + str(i) for i in range(len(trace.names))], dtype=pl.String)
    devices = trace.devices.with_columns(name=pl.lit(HOSTILE[0]), chip=pl.lit(HOSTILE[1]))
    facts = {
        **trace.facts,
        "product_version": HOSTILE[0],
        "schema_version": HOSTILE[2],
        "sha256": HOSTILE[3],
        "format": HOSTILE[4],
    }
    worse = replace(
        trace,
        names=names,
        tables={**trace.tables, "devices": devices},
        facts=facts,
        name=HOSTILE[0] + "\u202e.sqlite",
    )
    found = [finding("P101", 1, HOSTILE[0]), finding("P119", 2, HOSTILE[6])]

    def machine(m: Machine, i: int) -> Machine:
        number = Parameter(2e-6, 0.1, "s", "assumption", bad(i), bad(i + 1))
        return replace(
            m.with_parameters({"launch.latency": number}),
            name=bad(i),
            title=bad(i + 1),
            summary=bad(i + 2),
            sha256=bad(i + 3),
        )

    projections = [
        replace(
            p,
            target=bad(i) if p.target != "self" else "self",
            title=bad(i + 1),
            drivers={bad(i + 3): 0.6, "common/" + bad(i + 1): 0.4},
            findings=[finding("M102", 1, bad(i))],
        )
        for i, p in enumerate(answer.projections)
    ]
    run = answer.run
    profile = replace(run.profile, trace=worse, findings=found)
    return replace(
        answer,
        run=replace(run, profile=profile, source=machine(run.source, 0), command=HOSTILE[0]),
        targets=tuple(
            m if m is run.source else machine(m, i) for i, m in enumerate(answer.targets)
        ),
        projections=projections,
    )


@pytest.fixture(scope="session")
def chromium() -> Browser:
    """The browser of TURNBUCKLE_CHROMIUM, or the one on the path."""
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    program = os.environ.get("TURNBUCKLE_CHROMIUM") or next(filter(None, found), None)
    if program is None:
        if os.environ.get("TURNBUCKLE_REQUIRE_ALL"):
            pytest.fail(
                "a browser is required here: install chromium, or name one in TURNBUCKLE_CHROMIUM"
            )
        pytest.skip("no chromium on this machine (install it, or name one in TURNBUCKLE_CHROMIUM)")
    return Browser(program)
