"""The generated pages are what the program would write today, and the written ones are complete."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from scripts import script

import turnbuckle as tb
from turnbuckle.foundation import errors, findings, schema
from turnbuckle.projection.projection import BOTH

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


generate = script("docs/generate.py")
generated = cache(generate.generated)
declared = cache(generate.declared)


@pytest.mark.parametrize("name", sorted(generate.PAGES))
def test_generated_page_is_current(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == generated()[name], (
        "run: python docs/generate.py"
    )


def test_nomenclature_names_every_column() -> None:
    page = (DOCS / "nomenclature.md").read_text(encoding="utf-8")
    for kind in ("trace", "profile"):
        for table, columns in schema.tables(kind).items():
            assert f"### {table}\n" in page
            assert all(f"| `{column.name}` |" in page for column in columns)


def test_findings_page_names_every_code() -> None:
    page = (DOCS / "findings.md").read_text(encoding="utf-8")
    assert all(f"| `{code}` |" in page for code in findings.register())


def test_errors_page_has_the_exit_codes_of_the_classes() -> None:
    classes = {g.klass: g.exit_code for g in generate.groups()}
    real = {
        c.__name__: c.exit_code
        for c in vars(errors).values()
        if isinstance(c, type) and issubclass(c, errors.TurnbuckleError)
    }
    del real["TurnbuckleError"]
    assert classes == real


def test_errors_page_knows_errors_of_every_kind() -> None:
    """Some of the tables, one of the Rust core alone, with a field and its texts."""
    raised = {(e.code, e.exit_code) for e in generate.raised()}
    assert {("A121", 3), ("M005", 2), ("M009", 2), ("P009", 2), ("A201", 1), ("I001", 4)} <= raised
    whole = next(e for e in generate.raised() if e.code == "P008")
    assert (
        whole.what == "the table <name> lacks a column that is needed" and whole.cause and whole.fix
    )
    assert "<subject> is empty" in {e.what for e in generate.raised()}


# --- the JSON contract ----------------------------------------------------------------------------


def _keys(value: Any, path: str = "") -> set[str]:
    """Dotted paths of all leaves; a list adds [], keys that are data become <...>."""
    if isinstance(value, dict):
        words = {
            "projections[].drivers": "<parameter>",
            "steady[].drivers": "<parameter>",
            "projections[].coupling_alone.drivers": "<parameter>",
            "tolerance": "<share>",
            "profile.mpi.collectives": "<name>",
        }
        if path == "provenance.profile.part":
            return {path}  # its keys stand in its meaning
        if path in (
            *words,
            *(
                f"{name}{inner}"
                for name in ("faster", "coupling_faster")
                for inner in ("", ".<target>")
            ),
        ):
            inner = words.get(path, "<target>")
            return (
                set().union(*(_keys(v, f"{path}.{inner}") for v in value.values()))
                if value
                else {path}
            )
        return (
            set().union(*(_keys(v, f"{path}.{k}".removeprefix(".")) for k, v in value.items()))
            if value
            else {path}
        )
    if isinstance(value, list) and any(isinstance(v, dict) for v in value):
        return set().union(*(_keys(v, f"{path}[]") for v in value))
    return {path + "[]"} if isinstance(value, list) else {path}


def _listed(answer: str) -> set[str]:
    """Keys of an answer by docs/keys.md, with those of its parts; `a.{b,c}.d` stands for both."""
    tables = {name: rows for classes in declared().values() for name, rows in classes.items()}
    out: set[str] = set()
    for row in tables[answer]:
        keys = _spread(row["key"].replace("?", ""))
        if row["key"] == "coupling_alone":
            alike = _listed_of_both(tables["Projection"])
            out |= {f"coupling_alone.{key}" for key in alike}
            continue
        part = re.search(f"`({'|'.join(tables)})`", row["meaning"])
        out |= {f"{key}.{inner}" for key in keys for inner in _listed(part[1])} if part else keys
    return out


def _listed_of_both(rows: list[dict[str, str]]) -> set[str]:
    """Keys that the answer by the coupling alone shares with the machine as it is."""
    shared = [row for row in rows if re.split(r"[.?\[]", row["key"])[0] in BOTH]
    out: set[str] = set()
    for row in shared:
        keys = _spread(row["key"].replace("?", ""))
        part = re.search(r"`(Copies|Staging)`", row["meaning"])
        out |= {f"{key}.{inner}" for key in keys for inner in _listed(part[1])} if part else keys
    return out


def _spread(key: str) -> set[str]:
    braces = re.search(r"\{([^}]+)\}", key)
    if not braces:
        return {key}
    return set().union(
        *(
            _spread(key[: braces.start()] + word + key[braces.end() :])
            for word in braces[1].split(",")
        )
    )


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    with tb.sample() as path:
        seen = tb.read(path, command="turnbuckle")
        asked = seen.project(["self", "gh200", "cdi-row-api"], draws=50)
        found = {
            "Summary": seen,
            "Answer": asked,
            "Slack": seen.distance(draws=20),
            "Sweep": seen.distance(over="kernel"),
        }
        return {name: json.loads(json.dumps(answer.as_dict())) for name, answer in found.items()}


@pytest.mark.parametrize("answer", ["Summary", "Answer", "Slack", "Sweep"])
def test_page_of_keys_lists_every_key(documents: dict[str, Any], answer: str) -> None:
    listed = _listed(answer)
    real = _keys(documents[answer])
    unlisted = {
        k for k in real if k not in listed and not any(v.startswith(f"{k}.") for v in listed)
    }
    assert not unlisted, f"fields.csv lacks {sorted(unlisted)}"


def test_page_of_keys_lists_no_key_that_does_not_exist(documents: dict[str, Any]) -> None:
    real = set().union(*(_keys(document) for document in documents.values()))
    groups = {key[: end.start()] for key in real for end in re.finditer(r"\.|$", key)}
    # the sample holds neither scheduling records nor kernels of NCCL nor all kinds of copies nor
    # other ranks; nobody asked for the published answer
    absent = {
        k
        for answer in documents
        for k in _listed(answer)
        if k not in groups and k + "[]" not in groups
    }
    others = (
        r"profile\.(cpu_activity|kernels\.collective|ranks|gpus)\b|profile\.links\.(p2p|migration_...)\.|published\[\]|machine$|"
        r"projections\[\]\.nic_bound|(projections\[\]\.(coupling_alone\.)?)?(network|staging|kept_network_seconds)\b|latencies_on_path|"
        r"curve\[\]\.(interval|starved_seconds)"
    )
    assert not [k for k in sorted(absent) if not re.match(others, k)]


@pytest.mark.parametrize("word", ["target", "h2d"])
def test_keys_that_are_data_and_keys_that_are_alternatives(word: str) -> None:
    assert _spread("a.{h2d,target}.b") == {"a.h2d.b", "a.target.b"}
    assert _keys({"faster": {word: {"x": 1.0}}}) == {"faster.<target>.<target>"}


def test_command_line_page_shows_every_verb() -> None:
    from turnbuckle.cli.app import app, models_app
    from turnbuckle.cli.machines import machines_app

    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    verbs = [v for v in app if not v.startswith("-")] + [
        f"{group.name[0]} {v}"
        for group in (machines_app, models_app)
        for v in group
        if not v.startswith("-")
    ]
    assert len(verbs) >= 9
    for verb in verbs:
        head = "###" if " " in verb else "##"
        section = rf"^{head} {verb}\n(?:(?!#).*\n)*?\$ turnbuckle {verb} --help\nUsage: turnbuckle {verb}\b"
        assert re.search(section, page, re.MULTILINE), (
            f"{verb} has no head of its own, or shows no help"
        )
    listed = set(re.findall(r"^\| \[`[^`]+`\]\(#([\w-]+)\)", page, re.MULTILINE))
    assert listed == {verb.replace(" ", "-") for verb in verbs if not verb.startswith("machines ")}


def test_the_readme_counts_the_published_numbers() -> None:
    from turnbuckle.papers.reproduce import counts, reproduce

    found = counts(reproduce())
    told = (
        found["reproduced"] + found["reproduced*"],
        found["trunc"] + found["off"],
        found["contradiction"],
        found["n/r"],
    )
    words = (
        "{} match; {} differ, or were cut off where they should have been rounded; "
        "{} contradict other statements of their paper; {} cannot be recomputed"
    ).format(*told)
    assert words in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


# --- the site -------------------------------------------------------------------------------------


def test_navigation_holds_every_page() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in sorted(DOCS.rglob("*.md")):
        assert page.relative_to(DOCS).as_posix() in navigation, (
            f"mkdocs.yml does not lead to {page.name}"
        )


def test_the_site_names_no_address() -> None:
    """Pages opened from a folder load everything from it; the offline plugin would load its worker
    from elsewhere if none were named.
    """
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "://" not in site and "  - offline\n" in site
    scripts = re.search(r"^  polyfills:\n((?:    - .*\n)+)", site, re.MULTILINE)
    assert scripts and "iframe-worker" in scripts[1]
    assert all((DOCS / line.strip(" -")).is_file() for line in scripts[1].splitlines())


@pytest.mark.parametrize("page", sorted((DOCS / "models").glob("*.md")), ids=lambda p: p.stem)
def test_model_pages_have_the_same_headings(page: Path) -> None:
    headings = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    every = ["Equation", "Inputs", "Assumptions", "Where it breaks", "Evidence", "Sources"]
    # examples, files and JSON may stand between
    assert [h for h in headings if h in every] == every


def test_local_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]:
        text = re.sub(
            r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
        )
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "://" not in target and not target.endswith("report.png"):
                assert (page.parent / target).exists(), (
                    f"{page.name} leads to {target}, which is not there"
                )


def test_tests_named_as_evidence_exist() -> None:
    """The manual names tests as evidence; a renamed test must not leave it lying."""
    for page in DOCS.rglob("*.md"):
        for name in re.findall(r"`(tests/[\w/.-]+)`", page.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{page.name} names {name}"
