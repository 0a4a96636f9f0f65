"""Two answers of one shape, and one number for one name: on the screen, in the gate, in JSON, in
CSV and in Python.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator

import pytest
from hostile_names import FEW, SAMPLE, Ran, document

from turnbuckle import read
from turnbuckle.foundation.errors import CannotAnswer, GateFailed
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.projection import BOTH, Projection
from turnbuckle.show.target_table import targets_table
from turnbuckle.show.terminal.gate import gate
from turnbuckle.show.verdict import verdicts

pytestmark = pytest.mark.usefixtures("read_once")
Run = Callable[..., Ran]
#: Two whose own GPU and host are faster, one of faster coupling and slower FP64, one whose coupling
#: alone differs.
NAMES = ("mi300a", "gh200", "gb300", "nvlink-c2c")
ASKED = ("project", SAMPLE, "--on", ",".join(NAMES), *FEW)


@pytest.fixture(scope="module")
def answer() -> Answer:
    return read(SAMPLE).project(NAMES, draws=int(FEW[1]))


def screen(out: str) -> Iterator[tuple[str, str]]:
    """Return the penalty and the coupling penalty of each row of the table, as printed."""
    head = next(line for line in out.splitlines() if "coupling penalty" in line)
    assert re.search(r"\bpenalty .*\bcoupling penalty\b", head)
    for line in out.split(head, 1)[1].splitlines()[1 : 1 + len(NAMES)]:
        penalty, alone = re.findall(r"([0-9.]+)x", line)
        yield penalty, alone


def test_one_number_for_one_name(
    turnbuckle: Run, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    rows = document(turnbuckle(*ASKED, "--format", "json"))["projections"]
    table = list(csv.DictReader(io.StringIO(turnbuckle(*ASKED, "--format", "csv").out)))
    python = answer.table().to_dicts()
    printed = list(screen(turnbuckle(*ASKED).out))
    assert len(rows) == len(table) == len(printed) == len(NAMES)
    for row, cells, columns, shown in zip(rows, table, python, printed, strict=True):
        both = (row["penalty"], row["coupling_alone"]["penalty"])
        assert tuple(f"{value:.3f}" for value in both) == shown
        for prefix, of, value in zip(
            ("", "coupling_"), (row, row["coupling_alone"]), both, strict=True
        ):
            assert float(cells[f"{prefix}penalty"]) == columns[f"{prefix}penalty"] == value
            assert float(cells[f"{prefix}seconds"]) == columns[f"{prefix}seconds"] == of["seconds"]
            assert cells[f"{prefix}verdict"] == columns[f"{prefix}verdict"] == of["verdict"]
            ends = (float(cells[f"{prefix}low_seconds"]), float(cells[f"{prefix}high_seconds"]))
            assert (
                ends
                == (columns[f"{prefix}low_seconds"], columns[f"{prefix}high_seconds"])
                == tuple(of["interval"])
            )
    for name, prefix in (("penalty", ""), ("coupling penalty", "coupling ")):
        told = turnbuckle(*ASKED, "--fail-if", f"{name} > 0")
        found = dict(
            re.findall(r"(\S+) ([0-9.]+)(?:,|$)", told.err.split("found: ")[1].splitlines()[0])
        )
        expected = [row["coupling_alone"]["penalty"] if prefix else row["penalty"] for row in rows]
        assert found == {
            target: f"{value:.4g}" for target, value in zip(NAMES, expected, strict=True)
        }


def test_both_answers_have_one_shape_and_each_its_own_verdict(answer: Answer) -> None:
    for p, row in zip(answer.projections, answer.as_dict()["projections"], strict=True):
        alone = row["coupling_alone"]
        assert list(alone) == [key for key in row if key in BOTH.split()] and len(alone) > 15
        assert (p.alone is None) == (alone == {key: row[key] for key in alone})
        for one, of in ((p, row), (p.by_coupling, alone)):
            (v,) = verdicts([one]) if one.alone is None else (verdicts([one])[0].machine,)
            assert v is not None and of["verdict"] == v.words.replace("\N{NO-BREAK SPACE}", " ")
            assert of["interval"] == list(one.ends) and of["penalty"] == one.penalty
    assert any(
        row["verdict"] != row["coupling_alone"]["verdict"]
        for row in answer.as_dict()["projections"]
    )


def test_a_gate_names_the_answer_it_tests(answer: Answer) -> None:
    apu = answer["mi300a"]
    between = (apu.penalty + apu.by_coupling.penalty) / 2
    smaller, larger = (
        ("", "coupling ") if apu.penalty < apu.by_coupling.penalty else ("coupling ", "")
    )
    gate(f"{smaller}penalty > {between}").hold([apu])
    with pytest.raises(GateFailed):
        gate(f"{larger}penalty > {between}").hold([apu])


def test_no_gate_passes_on_an_answer_that_cannot_be_given(answer: Answer) -> None:
    unsaid = answer["mi300a"].unanswered("FP64 of mi300a")
    for text in ("penalty > 5%", "penalty < 5%", "seconds > 1", "upper > 0"):
        with pytest.raises(CannotAnswer, match="A190") as caught:
            gate(text).hold([unsaid])
        assert caught.value.exit_code == 3 and "FP64 of mi300a" in caught.value.what
    gate("coupling penalty > 1000").hold([unsaid])
    with pytest.raises(GateFailed):  # what is known decides
        gate("penalty > 0").hold([answer["nvlink-c2c"], unsaid])


def test_a_table_shows_an_answer_that_cannot_be_given_without_numbers(answer: Answer) -> None:
    unsaid: Projection = answer["mi300a"].unanswered("FP64 of mi300a")
    (row,) = targets_table(verdicts([unsaid])).rows
    texts = [cell.text for cell in row]
    assert "cannot say: FP64 of mi300a" in texts and not any("nan" in text for text in texts)
    assert f"{unsaid.by_coupling.penalty:.3f}×" in texts
