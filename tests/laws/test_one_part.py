"""Every question about a run of a long start-up is about the part without it, with every setting,
unless a part is named.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hostile_names import Ran

import turnbuckle as tb
from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.projection.model import nething
from turnbuckle.questions.suite.portfolio import Member, Offer, Portfolio
from turnbuckle.questions.suite.question import of_files

MILC = Path(tb.__file__).parent / "examples" / "milc-like-synthetic.sqlite"
#: Settings of `project`, one at a time.
SETTINGS = (
    (),
    ("--port", "as-is"),
    ("--pcie", "local"),
    ("--host", "0.5"),
    ("--alpha", "2"),
    ("--replay", "sum"),
    ("--seed", "3"),
    ("--source", "a100-sxm4-80"),
    ("--minus", MILC),
)
#: Verbs that judge a run, with what makes them quick, and where their answers lie.
VERBS = (
    ("slack", "--draws", "0"),
    ("slack", "--mode", "api", "--draws", "0"),
    ("slack", "--over", "kernel"),
    ("whatif", "--draws", "0"),
    ("transfers", "--on", "pcie5-x16"),
    ("suite", "--on", "gh200", "--draws", "0"),
    ("model", "sharing", "--runs", "1,2"),
)


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample with all ranks on one node: it copies a quarter of the bytes."""
    path = tmp_path_factory.mktemp("packed") / "packed.sqlite"
    shutil.copy(MILC, path)
    with sqlite3.connect(path) as tables:
        tables.execute("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = bytes / 4")
    return path


def document(turnbuckle: Callable[..., Ran], *words: object) -> Any:
    return json.loads(turnbuckle(*words, "--format", "json").out)


def without_commands(found: Any) -> Any:
    """Return a document without what names the command that asked."""
    if isinstance(found, dict):
        return {k: without_commands(v) for k, v in found.items() if k != "command"}
    return [without_commands(each) for each in found] if isinstance(found, list) else found


def test_the_sample_starts_up_for_more_than_a_tenth() -> None:
    run = tb.Run.read(MILC)
    assert run.start_up is not None and run.start_up.tells and run.judged is run.steady
    assert run.judged.seconds + run.start_up.seconds == pytest.approx(run.seconds)
    assert run.judged.source is run.source, "one machine, whatever part of the run is asked about"


@pytest.mark.parametrize(
    "settings", SETTINGS, ids=lambda words: "-".join(map(str, words[:1])) or "none"
)
def test_a_projection_keeps_its_settings_without_start_up(
    turnbuckle: Callable[..., Ran], settings: tuple[str, ...]
) -> None:
    asked = ("project", MILC, "--on", "mi300a,cdi-row-link", "--draws", "20", *settings)
    plain, steady, whole = (
        document(turnbuckle, *asked, *part)
        for part in ((), ("--part", "steady"), ("--part", "whole"))
    )
    assert plain["projections"] == steady["projections"]
    assert plain["projections"][0]["measured_seconds"] < whole["projections"][0]["measured_seconds"]
    assert "A560" in {f["code"] for f in plain["findings"]} - {f["code"] for f in whole["findings"]}


@pytest.mark.parametrize("verb", VERBS, ids=lambda words: "-".join(words))
def test_every_verb_judges_the_part_without_start_up(
    turnbuckle: Callable[..., Ran], verb: tuple[str, ...]
) -> None:
    plain, steady, whole = (
        without_commands(document(turnbuckle, *verb, MILC, *part))
        for part in ((), ("--part", "steady"), ("--part", "whole"))
    )
    assert plain == steady and plain != whole


def test_what_goes_on_to_the_network_card_keeps_its_rate_in_every_verb(
    turnbuckle: Callable[..., Ran], packed: Path
) -> None:
    for verb in (
        ("project", "--on", "gh200"),
        ("slack",),
        ("whatif", "--on", "gh200"),
        ("suite", "--on", "gh200"),
        ("transfers",),
    ):
        plain, less = (
            without_commands(document(turnbuckle, *verb, MILC, *words))
            for words in ((), ("--minus", packed))
        )
        assert plain != less, verb


def test_python_asks_as_the_command_line_does(turnbuckle: Callable[..., Ran], packed: Path) -> None:
    run, less = tb.Run.read(MILC), tb.Run.read(packed)
    said = document(
        turnbuckle, "project", MILC, "--on", "gh200", "--minus", packed, "--draws", "20"
    )["projections"]
    assert [p.as_dict() for p in run.project("gh200", minus=less, draws=20).projections] == said
    (cell,) = (
        of_files(Portfolio((Member("milc", MILC, minus=packed),), (Offer("gh200"),)), draws=20)
        .applications[0]
        .cells[-1:]
    )
    assert (cell.seconds, cell.penalty.value) == (said[0]["seconds"], said[0]["penalty"])


def test_a_named_part_is_asked_about_as_it_is() -> None:
    for part in ("whole", "steady", "kernels"):
        run = tb.Run.read(MILC, part=part)
        assert run.judged is run
    whole = tb.Run.read(MILC, part="whole").project("self", model=nething("hold"), draws=0)
    assert whole.projections[0].seconds == tb.Run.read(MILC).seconds


def test_without_calls_behind_what_is_left_the_whole_run_answers(shared: Path) -> None:
    run = tb.Run.read(
        shared / "traces" / "kineto" / "vllm_decode_graph" / "graph_execution.json.gz"
    )
    assert run.judged is run and [f.code for f in run.left_out] == ["A561"]
    with pytest.raises(CannotAnswer):
        tb.Run.read(
            shared / "traces" / "kineto" / "vllm_decode_graph" / "graph_execution.json.gz",
            part="steady",
        ).project("gh200")


def test_a_value_that_cannot_be_is_told_where_it_lies_in_the_start_up(tmp_path: Path) -> None:
    path = tmp_path / "flipped.sqlite"
    shutil.copy(MILC, path)
    with sqlite3.connect(path) as tables:
        tables.execute(
            "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = 1 << 50 WHERE start = (SELECT "
            "min(start) FROM CUPTI_ACTIVITY_KIND_MEMCPY)"
        )
    run = tb.Run.read(path)
    assert run.judged.whole is run and "P240" in {f.code for f in run.judged.findings}
