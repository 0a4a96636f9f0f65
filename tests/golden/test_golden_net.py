"""The net itself: no verb is forgotten, and a difference is seen and said."""

from __future__ import annotations

from pathlib import Path

import golden_api as api
import golden_net as net
import pytest


def test_every_verb_is_asked() -> None:
    asked = {net.verb_of(q) for q in net.questions()}
    assert net.verbs() == asked | set(net.NOT_ASKED), (
        "a verb without a golden answer, or a question of none"
    )
    assert len(net.verbs()) > 35 and not asked & set(net.NOT_ASKED)


def test_an_answer_is_kept_for_every_question_and_no_other() -> None:
    questions = net.questions()
    assert len(set(questions)) == len(questions)
    kept = {q for verb in {net.verb_of(q) for q in questions} for q in net.kept(verb)}
    assert kept == set(questions)
    files = {net.file_of(net.verb_of(q)) for q in questions} | {net.file_of(api.VERB)}
    assert set(net.ANSWERS.iterdir()) == files and all(path.exists() for path in files)


def test_the_folder_is_small() -> None:
    assert (
        sum(p.stat().st_size for p in net.FOLDER.rglob("*") if p.is_file() and p.suffix != ".pyc")
        < 1_000_000
    )


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ({"a": {"b": 1.0}}, {"a": {"b": 1.0 + 1e-8}}, ["a.b: was 1.0, is 1.00000001"]),
        ({"a": {"b": 1.0}}, {"a": {"b": 1.0 + 1e-10}}, []),
        ({"a": [1, 2]}, {"a": [2, 1]}, ["a[0]: was 1, is 2", "a[1]: was 2, is 1"]),
        ({"a": [1, 2]}, {"a": [1]}, ["a: was 2 entries, is 1"]),
        (
            {"a": 1_000_000_000_000},
            {"a": 1_000_000_000_001},
            ["a: was 1000000000000, is 1000000000001"],
        ),
        ({"a": None}, {"b": None}, ["a: was null, is gone", "b: was not there, is null"]),
        ({"a": True}, {"a": 1}, ["a: was true, is 1"]),
        ({"a": "x"}, {"a": "y"}, ['a: was "x", is "y"']),
        ({"a": 0.0}, {"a": 4e-16}, []),
        ({"a": 4e-11}, {"a": 4.001e-11}, ["a: was 4e-11, is 4.001e-11"]),
        ({"a": [{"to": 1e-13}]}, {"a": [{"to": 2e-12}]}, []),
        ({"a": [{"size": 1e-13}]}, {"a": [{"size": 2e-12}]}, ["a[0].size: was 1e-13, is 2e-12"]),
    ],
)
def test_a_difference_is_said_with_its_place(was: object, now: object, said: list[str]) -> None:
    assert list(net.differences(was, now)) == said


def test_a_long_list_of_differences_is_cut() -> None:
    found = list(net.differences(list(range(50)), list(range(1, 51))))
    text = net.message("slack run", found).splitlines()
    assert text[0] == "slack run" and len(text) == net.SHOWN + 2 and text[-1] == "  and 30 more"


def test_what_changes_by_nature_is_left_out() -> None:
    answer = {
        "json": {
            "provenance": {"version": "0.1.0", "command": "x", "seed": 1},
            "date": "2026-01-01",
            "checks": [],
        }
    }
    assert net.steady(answer) == {"json": {"provenance": {"seed": 1}, "checks": []}}


def test_a_kept_file_is_the_same_bytes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(net, "ANSWERS", tmp_path)
    for answers in (
        {"q": {"exit": 0}},
        {f"q{k}": {"exit": k, "json": {"x": k / 7}} for k in range(2000)},
    ):
        net.keep("a verb", answers)
        (path,) = tmp_path.iterdir()
        content = path.read_bytes()
        assert net.kept("a verb") == answers
        path.unlink()
        net.keep("a verb", answers)
        assert path.read_bytes() == content and net.file_of("a verb") == path
