"""The report as a file: complete, self-contained, harmless whatever the recording says."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from drawings import each_kind_once
from hostile_texts import HOSTILE
from pages import Page
from refusals import refused
from runs import run_of

from turnbuckle.page.by_hand import premium_section
from turnbuckle.page.html import FIRST, SECTIONS, breakable, embedded, page, with_names, write
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.model import additive
from turnbuckle.projection.run import Run
from turnbuckle.show.figures.look import DARK
from turnbuckle.show.text import clean, seconds, span
from turnbuckle.show.verdict import headline, verdicts, which

#: All tags a report may have.
TAGS = {
    *(
        "html",
        "head",
        "meta",
        "link",
        "title",
        "style",
        "body",
        "script",
        "a",
        "div",
        "nav",
        "main",
        "header",
        "section",
        "footer",
    ),
    *(
        "h1",
        "h2",
        "h3",
        "h4",
        "p",
        "strong",
        "span",
        "ul",
        "ol",
        "li",
        "dl",
        "dt",
        "dd",
        "pre",
        "code",
        "wbr",
        "button",
        "label",
        "input",
        "output",
    ),
    *(
        "figure",
        "figcaption",
        "details",
        "summary",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    ),
    *("svg", "g", "path", "rect", "line", "text", "tspan", "circle", "defs", "clippath"),
}


def self_contained(text: str) -> None:
    """No tag, attribute or style that could load or run anything but the report's own script."""
    found = Page(text)
    assert {tag for tag, _ in found.tags} <= TAGS
    assert found.unclosed == []
    ids = [a["id"] for _, a in found.tags if "id" in a]
    assert len(ids) == len(set(ids))
    for tag, attributes in found.tags:
        assert not [k for k in attributes if k.startswith("on")], tag
        assert not {
            "src",
            "srcdoc",
            "action",
            "formaction",
            "data",
            "poster",
            "background",
            "xlink:href",
            "ping",
        } & set(attributes), tag
        assert attributes.get("href", "#").startswith("#") or attributes["href"] == "data:,", tag
    assert "@import" not in text and "@font-face" not in text
    assert re.findall(r"url\((?!#)", text) == []
    *held, (kind, script) = found.scripts
    assert kind == "" and held and {kind for kind, _ in held} == {"application/json"}
    policy = next(
        a["content"] for _, a in found.tags if a.get("http-equiv") == "Content-Security-Policy"
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith("default-src 'none';") and f"script-src 'sha256-{digest}'" in policy


def test_a_report_is_one_file_that_loads_nothing(text: str) -> None:
    self_contained(text)
    assert text.startswith("<!doctype html>")
    assert len(text.encode()) < 3_000_000


def test_every_section_is_there(text: str) -> None:
    found = Page(text)
    for key, title in SECTIONS:
        assert found.with_id(key) == ["section"]
        assert title in found.text
    headings = [tag for tag, _ in found.tags if tag in ("h1", "h2")]
    assert headings == ["h1"] + ["h2"] * len(SECTIONS)
    assert ("html", {"lang": "en"}) in found.tags


def test_a_brief_report_is_its_first_two_pages(text: str, answer: Answer) -> None:
    short = page(answer, question="How far may the GPU stand?", brief=True)
    self_contained(short)
    found = Page(short)
    assert [a["id"] for tag, a in found.tags if tag == "section"] == list(FIRST)
    assert [a["href"] for tag, a in found.tags if tag == "a" and a["href"] != "#answer"] == [
        "#hangs"
    ]
    assert headline(verdicts(answer.projections)) in found.text
    for printed in (
        f"{one.penalty:.3f}×" for p in answer.projections for one in (p, p.by_coupling)
    ):
        assert printed in found.text
    first, second = (text.index(f'<section id="{key}"') for key in FIRST)
    assert (
        first
        < second
        < min(text.index(f'<section id="{key}"') for key, _ in SECTIONS if key not in FIRST)
    )


def test_the_first_page_says_which_answer_it_is_and_how_good_such_answers_were(
    answer: Answer,
) -> None:
    short = page(answer, brief=True)
    first = Page(
        short[short.index('<section id="answer"') : short.index('<section id="hangs"')]
    ).text
    assert which(verdicts(answer.projections)) in first
    assert "with their own GPUs and hosts" in first and "by the coupling alone" in first
    assert answer.accuracy.removeprefix("checked") in first and "nothing changes" in first
    only = replace(answer, targets=answer.targets[:1], projections=answer.projections[:1])
    assert only.projections[0].alone is None and headline(verdicts(only.projections)).startswith(
        "By the coupling alone, "
    )


def test_annexes_are_folded_and_complete_without_a_script(text: str) -> None:
    for key in ("accuracy", "validity", "annex"):
        assert re.search(rf'<section id="{key}">\n<details class="folded"><summary><h2>', text), key


def test_what_a_fabric_may_cost_is_complete_without_a_script(text: str, answer: Answer) -> None:
    words = Page(text).text
    rows = premium_section(verdicts(answer.projections))["rows"]
    assert len(rows) == 3 and all(
        row[key] in words for row in rows for key in ("name", "penalty", "premium", "words")
    )


def test_every_colour_of_a_figure_has_a_partner_or_keeps_its_paper(text: str) -> None:
    drawings = re.findall(r"<svg.*?</svg>", text, re.S)
    kept = [d for d in drawings if 'class="figure-svg paper"' in d]
    assert 0 < len(kept) < len(drawings) / 4, "maps whose shades mean numbers keep their paper"
    for drawing in set(drawings) - set(kept):
        assert set(re.findall(r' (?:fill|stroke)="(#[^"]+)"', drawing)) <= {"#ffffff", *DARK}


def test_every_number_of_the_projections_is_printed(text: str, answer: Answer) -> None:
    words = Page(text).text
    for whole in answer.projections:
        for p in (whole, whole.by_coupling):
            assert p.interval is not None
            interval = (
                f"[{p.interval.low / p.measured_seconds:.3f}, "
                f"{p.interval.high / p.measured_seconds:.3f}]"
            )
            for printed in (seconds(p.seconds), f"{p.penalty:.3f}×", interval):
                assert printed in words, (p.target, printed)
        for printed in (f"{whole.benefit:.3f}×", span(*whole.envelope)):
            assert printed in words, (whole.target, printed)
    for m in answer.targets:
        assert m.name in words
        for number in (
            [part for c in m.changes for part in c.parts().values()]
            if m.relative
            else m.parameters.values()
        ):
            assert clean(number.source) in words and clean(number.note) in words, m.name


def test_provenance_and_question_stand_in_the_page(text: str, answer: Answer) -> None:
    words = Page(text).text
    assert "How far may the GPU stand?" in words
    assert str(answer.run.profile.trace.facts["sha256"]) in words
    assert json.dumps(answer.provenance(), indent=2) in words
    for f in answer.findings:
        assert f.code in words


def test_a_synthetic_recording_says_so(text: str, bare_text: str, brief: Run) -> None:
    assert (
        "SYNTHETIC." in Page(text).text
        and "SYNTHETIC." in bare_text
        and "SYNTHETIC." in page(brief, brief=True)
    )
    trace = replace(brief.trace, facts={**brief.trace.facts, "product_version": "2024.5.1"})
    measured = page(replace(brief, profile=replace(brief.profile, trace=trace)), brief=True)
    assert "SYNTHETIC." not in measured


def test_figures_have_their_numbers_and_their_specification(text: str) -> None:
    found = Page(text)
    data = found.figure_data
    buttons = [a["data-figure"] for tag, a in found.tags if tag == "button" and "data-copy" in a]
    assert set(buttons) == set(data) and len(buttons) == 2 * len(data)
    for name, figure in data.items():
        assert figure["csv"].count("\n") >= 2, name
        assert figure["spec"]["$schema"].endswith("vega-lite/v6.json")
    drawings = [a for tag, a in found.tags if tag == "svg"]
    assert len(drawings) == len(data)
    assert all(a["role"] == "img" and a["aria-label"] and a["viewbox"] for a in drawings)


def test_hostile_texts_stay_texts(hostile_text: str) -> None:
    self_contained(hostile_text)
    words = Page(hostile_text).text
    for told in (
        HOSTILE[0],
        HOSTILE[1],
        HOSTILE[2],
        HOSTILE[3],
        HOSTILE[5],
        HOSTILE[8],
        HOSTILE[12],
    ):
        assert told in words
    assert len(hostile_text.encode()) < 3_000_000


def test_hostile_texts_bring_no_control_or_direction_characters(hostile_text: str) -> None:
    strange = {
        c for c in hostile_text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    }
    assert strange == {"\n"}
    assert "\\u{202e}" in hostile_text


def test_hostile_texts_stay_inside_their_json(hostile_text: str) -> None:
    raw = Page(hostile_text).scripts[0][1]
    assert not set("<>&") & set(raw) and raw.isascii()
    told = "".join(figure["csv"] for figure in Page(hostile_text).figure_data.values())
    assert HOSTILE[1] in told
    assert "'=cmd" in told and "\n=cmd" not in told


def test_json_in_a_page_cannot_end_its_script() -> None:
    told = {"a": "</script><!--\u2028", "b": float("nan"), "c": [float("inf"), 1.5]}
    assert json.loads(embedded(told)) == {"a": "</script><!--\u2028", "b": None, "c": [None, 1.5]}
    assert "<" not in embedded(told)


def test_names_in_a_sentence_are_marked_and_escaped() -> None:
    assert with_names("a-b is <b>, a is not", ["a-b", "<b>"]) == (
        '<span class="name">a-b</span> is <span class="name">&lt;b&gt;</span>, a is not'
    )


def test_a_name_with_a_number_does_not_break_at_its_hyphen() -> None:
    assert (
        with_names("on NVLink-C2C <", [])
        == 'on <span class="whole">NVLink-C2C</span> &lt;'
        == breakable("on NVLink-C2C <")
    )


def test_a_report_without_projections(bare_text: str) -> None:
    self_contained(bare_text)
    words = Page(bare_text).text
    assert "nothing was projected" in words
    assert "Where the run time goes" in words


def test_a_report_without_draws(brief: Run) -> None:
    with each_kind_once():
        text = page(brief.project(["nvlink-c2c", "cdi-row-link"], draws=0))
    self_contained(text)
    assert "No range was drawn" in Page(text).text


def test_a_report_on_the_same_machine_only(brief: Run) -> None:
    text = page(brief.project(["self"], draws=50))
    self_contained(text)
    assert "as recorded" in Page(text).text


def test_a_report_of_one_target_asked_twice(brief: Run) -> None:
    with each_kind_once():
        self_contained(page(brief.project(["cdi-row-api", "cdi-row-api"], draws=50)))


def test_a_report_of_the_additive_model(brief: Run) -> None:
    with each_kind_once():
        text = page(brief.project(model=additive({"data": 10.0, "control": 0.1}), draws=50))
    self_contained(text)
    assert "lambda" in Page(text).text


@pytest.mark.shared
@pytest.mark.parametrize(
    "folder",
    [
        "nsys/softmax_uvm_t4",
        "nsys/extrap_exgpu_s10",
        "nsys/mfu_2gpu_before",
        "nsys/nvfuser_matmul_h100",
    ],
)
def test_real_recordings(shared: Path, folder: str) -> None:
    (file,) = (shared / "traces" / folder).glob("*.sqlite")
    with each_kind_once():
        text = page(run_of(file).project(["nvlink-c2c", "cdi-datacentre-api"], draws=50))
    self_contained(text)
    assert "SYNTHETIC." not in text


@pytest.mark.shared
@pytest.mark.parametrize("name", ["cannon-py-4r.sqlite", "nvtx-py.sqlite"])
def test_recordings_without_gpu_activity(shared: Path, name: str) -> None:
    text = page(run_of(shared / "traces" / "nsys-local" / name))
    self_contained(text)
    assert "no GPU activity" in Page(text).text


def test_write_replaces_a_file_as_a_whole(brief: Run, tmp_path: Path) -> None:
    place = tmp_path / "report.html"
    place.write_text("old", encoding="utf-8")
    assert write(brief, place, brief=True) == place
    assert place.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [place]


def test_write_says_why_it_cannot(answer: Answer, tmp_path: Path) -> None:
    cases = {
        "R001": tmp_path / ("x" * 300 + ".html"),
        "R002": tmp_path / "no" / "r.html",
        "R003": tmp_path,
    }
    for code, place in [*cases.items(), ("R001", tmp_path / "nu\0l.html")]:
        assert refused(code, write, answer, place).fix
    assert list(tmp_path.iterdir()) == []
