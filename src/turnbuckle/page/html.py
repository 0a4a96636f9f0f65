"""Write the report: one HTML file that needs nothing but a browser.

    Answer -> sections (tables, figures) -> drawings -> template -> file

The page loads nothing: style, script and drawings stand inside it, and its content security policy
forbids the rest. Texts from the recording reach it through `text.clean` and the template's
escaping, drawings through `figure.harmless`.

Errors (`turnbuckle.foundation.errors.ReportError`):

    R001  the file cannot be written
    R002  the folder does not exist
    R003  the path is a folder
    R006, R007  the figures cannot be drawn: see `turnbuckle.show.figures.figure`
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from turnbuckle.foundation.fields import json_text
from turnbuckle.foundation.files import goal, whole
from turnbuckle.page.accuracy_section import accuracy_section
from turnbuckle.page.annex import annex_section
from turnbuckle.page.answer_sections import (
    answer_section,
    comparison_section,
    projection_section,
    uncertainty_section,
    validity_section,
)
from turnbuckle.page.by_hand import by_hand_section, premium_section
from turnbuckle.page.changes_section import changes_section
from turnbuckle.page.dark import on_paper, paint, style
from turnbuckle.page.profile_sections import (
    cover_facts,
    profiled_section,
    recorded_in_brief,
    synthetic,
    usage_section,
)
from turnbuckle.page.slack_sections import (
    answer_sentences,
    distance_section,
    moved_section,
    replays_section,
    shares_section,
)
from turnbuckle.page.studied import Studies, studied
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.run import Run
from turnbuckle.show.figures.figure import Figure, draw
from turnbuckle.show.text import clean
from turnbuckle.show.verdict import Verdict, capital, headline, sentence, verdicts

#: Sections of a recording that no coupling can be asked of: the others would each say the same,
#: that nothing was projected.
RECORDED: Final = frozenset({"answer", "hangs", "profiled", "usage", "validity", "annex"})

QUESTION: Final = "What would this run do if CPU and GPU stood closer or farther apart?"
NO_GPU_QUESTION: Final = "What did this run do?"

#: Sections of the first two pages, which are all of a brief report.
FIRST: Final = ("answer", "hangs")

#: Sections in the order of the page: key, title.
SECTIONS: Final = (
    ("answer", "Answer"),
    ("hangs", "What it hangs on"),
    ("by-hand", "Move it by hand"),
    ("comparison", "Which target is faster"),
    ("profiled", "What was profiled"),
    ("usage", "How the application uses the coupling"),
    ("projections", "Projections"),
    ("moved", "Before and after"),
    ("changes", "What a change to the program saves"),
    ("distance", "What distance costs"),
    ("made", "What the run is made of"),
    ("uncertainty", "Uncertainty"),
    ("accuracy", "How good are these predictions"),
    ("validity", "Validity"),
    ("annex", "Annex: machines and provenance"),
)


def write(
    answer: Answer | Run, path: str | Path, *, question: str = "", brief: bool = False
) -> Path:
    """Write the report of one answer.

    Parameters
    ----------
    answer : from `Run.project`, or a `Run` for a report without projections.
    path : where to write; an existing file is replaced, as a whole or not at all.
    question : the question as the cover should put it.
    brief : only the first two pages: question, answer, one picture, and what it hangs on.

    Returns
    -------
    The path written.

    Raises
    ------
    ReportError : R001 to R004, R006, R007.
    """
    place = goal(path, "the report", "report.html")
    text = page(answer, question=question, brief=brief)
    with whole(place, "the report") as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")
    return place


def page(answer: Answer | Run, *, question: str = "", brief: bool = False) -> str:
    """Return the report as text; see `write`."""
    answer = Answer(answer.judged) if isinstance(answer, Run) else answer
    targets = verdicts(answer.projections)
    studies = studied(answer)
    why_not = studies if isinstance(studies, str) else ""
    sections: dict[str, Any] = {
        "answer": answer_section(
            answer, targets, [] if isinstance(studies, str) else answer_sentences(studies)
        )
    }
    if not brief:
        sections |= _behind(answer, targets, None if isinstance(studies, str) else studies)
    graph = sections.get("by_hand", {}).get("graph")
    shown = answer.run.projectable or bool(targets)
    left_out = ("by-hand",) * bool(why_not)
    contents = [s for s in SECTIONS if (shown or s[0] in RECORDED) and s[0] not in left_out]
    return filled(
        "report.html.j2",
        sections,
        graph,
        ("by_hand.js",) * bool(graph)
        + ("premium.js",) * bool(sections.get("premium", {}).get("rows")),
        question=clean(question or (QUESTION if answer.run.projectable else NO_GPU_QUESTION)),
        names=[v.name for v in targets if v.kind != "self"],
        headline=headline(targets),
        sentence=sentence(targets, answer.run.profile.seconds),
        accuracy=capital(answer.accuracy) if targets else "",
        recorded=recorded_in_brief(answer),
        facts=cover_facts(answer),
        synthetic=synthetic(answer),
        projected=bool(targets),
        projectable=answer.run.projectable,
        on_device=answer.run.on_device,
        exchanged=answer.run.profile.trace.mpi.height > 0,
        timed=not why_not,
        why_not=why_not,
        brief=brief,
        contents=[s for s in contents if s[0] in FIRST] if brief else contents,
        shown=shown,
    )


def _behind(answer: Answer, targets: list[Verdict], studies: Studies | None) -> dict[str, Any]:
    """Return the sections behind the first two pages; those that need a time line are empty where
    there is none.
    """
    return {
        "by_hand": by_hand_section(studies, targets) if studies else {},
        "premium": premium_section(targets) if studies else {},
        "comparison": comparison_section(answer, targets),
        "profiled": profiled_section(answer),
        "usage": usage_section(answer),
        "projections": projection_section(answer, targets),
        "replays": replays_section(studies, targets) if studies else {},
        "moved": moved_section(studies) if studies else {},
        "changes": changes_section(answer) if studies else {},
        "distance": distance_section(studies, targets, answer) if studies else {},
        "made": shares_section(studies, answer.run.profile.seconds) if studies else {},
        "uncertainty": uncertainty_section(answer, targets),
        "accuracy": accuracy_section(answer),
        "validity": validity_section(answer, targets),
        "annex": annex_section(answer),
    }


def filled(
    template: str,
    sections: dict[str, Any],
    moved: dict[str, Any] | None = None,
    scripts: Sequence[str] = (),
    **words: Any,
) -> str:
    """Return a page of a template: its sections with their figures drawn (``s``), style, script,
    and the policy that forbids the rest.

    `moved` is what the page replays, if anything, and `scripts` are those that it needs beside its
    own.
    """
    drawn_sections, drawn = _drawn(sections)
    script = "".join(map(_part, ("report.js", *scripts)))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src "
        "data:; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "style": Markup(_part("report.css")) + style(),
        "script": Markup(script),
        "policy": policy,
        "by_hand": embedded(moved),
    }
    figures = {name: {"csv": f.csv, "spec": f.full_spec} for name, f in drawn.items()}
    packed = gzip.compress(json_text(figures, separators=(",", ":")).encode(), mtime=0)
    data = base64.b64encode(packed).decode()
    return (
        _environment().get_template(template).render(**words, **parts, s=drawn_sections, data=data)
    )


def embedded(value: Any) -> Markup:
    """Return JSON for a ``<script type="application/json">``: ASCII only, without anything that
    HTML could take for markup.
    """
    text = json_text(value, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _each(value: Any, change: Callable[[Figure], Figure]) -> Any:
    """Return the same nested value with every figure changed."""
    if isinstance(value, Figure):
        return change(value)
    if isinstance(value, dict):
        return {k: _each(v, change) for k, v in value.items()}
    return [_each(v, change) for v in value] if isinstance(value, list) else value


def _drawn(sections: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Figure]]:
    """Draw every figure with one engine, and return the sections and the figures by name."""
    named: dict[str, Figure] = {}

    def name(figure: Figure) -> Figure:
        if figure.name in named:
            figure = replace(figure, name=f"{figure.name}-{len(named)}")
        named[figure.name] = figure
        return figure

    sections = _each(sections, name)
    drawn = {figure.name: figure for figure in draw(named.values())}
    return _each(sections, lambda figure: drawn[figure.name]), drawn


def with_names(text: str, names: list[str]) -> Markup:
    """Escape a sentence, mark target names, and let no short word break at its hyphens."""
    if not names:
        return _whole_words(text)
    pieces = re.split(
        "(" + "|".join(re.escape(n) for n in sorted(set(names), key=len, reverse=True)) + ")", text
    )
    return Markup("").join(
        Markup('<span class="name">{}</span>').format(_whole_words(p))
        if p in names
        else _whole_words(p)
        for p in pieces
    )


def _whole_words(text: str) -> Markup:
    """Escape a text and keep names such as NVLink-C2C in one piece: short words with a hyphen and a
    digit.
    """
    return Markup("").join(
        Markup('<span class="whole">{}</span>').format(p)
        if "-" in p and len(p) <= _LONG and any(map(str.isdigit, p))
        else escape(p)
        for p in _BLANKS.split(text)
    )


#: Longest word that is never broken [characters].
_LONG: Final = 20
_BLANKS: Final = re.compile(r"(\s+)")
_BREAK = re.compile(r"(?<=[_./:,])(?=[\w\\])")


def breakable(text: str) -> Markup:
    """Escape a text and allow line breaks inside its long words."""
    if all(len(word) <= 16 for word in text.split()):
        return _whole_words(text)
    return Markup(" ").join(
        Markup("<wbr>").join(escape(p) for p in _BREAK.split(w)) if len(w) > 16 else escape(w)
        for w in text.split(" ")
    )


def _part(name: str) -> str:
    return (files("turnbuckle.page") / "template" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_part),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    environment.filters["names"] = with_names
    environment.filters["svg"] = lambda figure: on_paper(figure.svg)
    environment.filters["paint"] = paint
    return environment
