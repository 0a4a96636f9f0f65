"""The recipes in `packaging` can be read, as far as Python can do that, and name the version and
libraries of pyproject.toml.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version
from scripts import script

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"][
    "version"
]
RUST = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"][
    "rust-version"
]
BACKEND = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"][
    "requires"
]
RECIPES = (
    "spack/package.py",
    "conda/meta.yaml",
    "turnbuckle-0.2.0.eb",
    "Containerfile",
    "turnbuckle.def",
    "turnbuckle.lua",
)


def bounds(requirement: str) -> tuple[str, str, str]:
    """Name, lowest version and first version that is too high."""
    needed = Requirement(requirement)
    versions = {s.operator: s.version for s in needed.specifier}
    return needed.name, versions[">="], versions["<"]


# --- Spack ----------------------------------------------------------------------------------------


def spack() -> dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """The directives of Spack's recipe, each with its arguments, in the order of the file."""
    called: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {}

    def directive(name: str) -> Any:
        return lambda *words, **options: called.setdefault(name, []).append((words, options))

    names = {name: directive(name) for name in ("version", "license", "variant", "depends_on")}
    text = (PACKAGING / "spack" / "package.py").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("from spack")]
    scope = {**names, "default_args": lambda **_: nullcontext(), "PythonPackage": object}
    exec(compile("\n".join(lines), "package.py", "exec"), scope)
    assert scope["PyTurnbuckle"].manual_download, "no address is known to fetch it from"
    return called


def test_spack_asks_for_what_pyproject_asks_for() -> None:
    called = spack()
    assert [words for words, _ in called["version"]] == [(VERSION,)]
    asked = {
        words[0].partition("@")[0]: words[0].partition("@")[2] for words, _ in called["depends_on"]
    }

    def spelled(requirement: str) -> tuple[str, str]:
        name, low, high = bounds(requirement)
        return f"py-{name}", f"{low}:{Version(high).major - 1}"

    scipy = PROJECT["optional-dependencies"]["scipy"]
    libraries = dict(spelled(r) for r in [*PROJECT["dependencies"], *scipy, *BACKEND])
    assert asked == libraries | {"python": "3.11:", "rust": f"{RUST}:", "c": ""}


# --- conda ----------------------------------------------------------------------------------------


def test_conda_asks_for_what_pyproject_asks_for() -> None:
    text = (PACKAGING / "conda" / "meta.yaml").read_text(encoding="utf-8")
    words = {
        "compiler": lambda name: f"{name}-compiler",
        "stdlib": lambda name: f"{name}-stdlib",
        "PYTHON": "python",
    }
    recipe = yaml.safe_load(
        jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(text).render(words)
    )
    assert recipe["package"] == {"name": PROJECT["name"], "version": VERSION}

    def spelled(requirement: str) -> str:
        name, low, high = bounds(requirement)
        return f"{name} >={low},<{high}"

    python = f"python {PROJECT['requires-python']}"
    assert recipe["requirements"]["run"] == [python, *map(spelled, PROJECT["dependencies"])]
    assert recipe["requirements"]["host"] == [python, "pip", *map(spelled, BACKEND)]
    assert recipe["build"]["entry_points"] == [
        f"{name} = {place}" for name, place in PROJECT["scripts"].items()
    ]
    assert (
        recipe["about"]["license"] == PROJECT["license"]
        and recipe["about"]["license_file"] == PROJECT["license-files"]
    )
    # its tests are run by a shell, and a folder is where the recipe says the sources are
    assert (PACKAGING / "conda" / recipe["source"]["path"] / "pyproject.toml").is_file()


# --- the others -----------------------------------------------------------------------------------


def test_easybuild_names_the_wheel_that_is_made() -> None:
    (path,) = PACKAGING.glob("*.eb")
    recipe: dict[str, Any] = {"SYSTEM": {"name": "system", "version": "system"}}
    exec(compile(path.read_text(encoding="utf-8"), path.name, "exec"), recipe)
    assert path.name == f"{recipe['name']}-{recipe['version']}.eb"
    assert (recipe["name"], recipe["version"]) == (PROJECT["name"], VERSION)
    assert '"turnbuckle[scipy]==%(version)s"' in recipe["install_cmd"]


def test_an_apptainer_definition_has_sections_that_a_shell_reads() -> None:
    head, *sections = re.split(
        r"^%(?=[a-z]+$)",
        (PACKAGING / "turnbuckle.def").read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    assert {
        line.partition(":")[0] for line in head.splitlines() if line and not line.startswith("#")
    } == {"Bootstrap", "From"}
    bodies = dict(section.split("\n", 1) for section in sections)
    assert set(bodies) == {"files", "post", "environment", "runscript", "test", "labels"}
    for name in ("post", "environment", "runscript", "test"):
        subprocess.run(["sh", "-n"], input=bodies[name], text=True, check=True)


def test_a_container_file_has_instructions_that_builders_know() -> None:
    text = (PACKAGING / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    assert {word for word, _ in lines} <= {
        "ARG",
        "FROM",
        "COPY",
        "RUN",
        "ENV",
        "WORKDIR",
        "ENTRYPOINT",
        "CMD",
    }
    for _, command in (line for line in lines if line[0] == "RUN"):
        subprocess.run(["sh", "-n"], input=command, text=True, check=True)


@pytest.mark.parametrize(
    "name", [*RECIPES, "../CITATION.cff", "../docs/install.md", "../docs/gates.md"]
)
def test_a_recipe_names_one_version(name: str) -> None:
    """Of Turnbuckle itself: behind its name, as a word of its own, or as `version`."""
    text = (PACKAGING / name).read_text(encoding="utf-8")
    named = re.findall(
        r"turnbuckle(?:\[\w+\])?(?:==|[-/ ])(\d+\.\d+\.\d+)|ersion\W{1,6}(\d+\.\d+\.\d+)",
        text,
        re.IGNORECASE,
    )
    versions = {a or b for a, b in named if "cff-version" not in text or (a or b) != "1.2.0"}
    assert versions == {VERSION}


def test_the_table_of_recipes_says_the_state_of_each() -> None:
    page = (PACKAGING / "README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `([^`]+)` \|.*\| (built|parsed|run|never run)[^|]*\|$", page, re.MULTILINE
    )
    assert {name for name, _ in rows} == {*RECIPES, "release.py"}


# --- a release ------------------------------------------------------------------------------------

release = script("packaging/release.py")
ADDRESS = "https://forge.invalid/turnbuckle"


def filled_in(root: Path) -> Path:
    """Copy what a release reads to `root`, with date and address filled in."""
    for name in ("pyproject.toml", "Cargo.toml", "CHANGELOG.md", *release.ADDRESSES):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    for name, words in release.ADDRESSES.items():
        (root / name).write_text(
            (root / name).read_text(encoding="utf-8") + words.format(ADDRESS), encoding="utf-8"
        )
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    if "urls" not in PROJECT:
        text = text.replace(
            "\n# [project.urls]\n# Repository", "\n[project.urls]\nRepository"
        ).replace('"ADDRESS"', f'"{ADDRESS}"')
    (root / "pyproject.toml").write_text(text, encoding="utf-8")
    change(
        root / "CHANGELOG.md",
        r"(\n## \[Unreleased\]\n).*?(\n## \[\S+\] - )[^\n]*",
        r"\1\g<2>2027-01-31",
    )
    return root


def change(path: Path, pattern: str, text: str) -> None:
    before = path.read_text(encoding="utf-8")
    after = re.sub(pattern, text, before, count=1, flags=re.DOTALL)
    assert after != before
    path.write_text(after, encoding="utf-8")


def test_a_release_needs_a_tag_of_the_version_and_its_section_in_the_changelog(
    tmp_path: Path,
) -> None:
    root = filled_in(tmp_path)
    assert release.missing(root) == []
    assert release.notes(f"v{VERSION}", root).count("\n") > 5
    for tag in ("v0.0.1", VERSION, ""):
        with pytest.raises(SystemExit, match="the crates have version"):
            release.notes(tag, root)


@pytest.mark.parametrize(
    ("name", "pattern", "text", "sentence"),
    [
        (
            "pyproject.toml",
            r"Repository = ",
            "Homepage = ",
            r"pyproject.toml: \[project.urls\] has no Repository",
        ),
        ("CHANGELOG.md", r"- 2027-01-31", "- not tagged yet", "the version has no date"),
        ("CHANGELOG.md", r"\[Unreleased\]\n", "[Unreleased]\n\n- more\n", r"under \[Unreleased\]"),
        *(
            (name, re.escape(ADDRESS), "", f"{name}: does not say .*{ADDRESS}")
            for name in release.ADDRESSES
            if "urls" not in PROJECT
        ),
    ],
)
def test_a_release_is_refused_until_what_it_needs_is_filled_in(
    tmp_path: Path, name: str, pattern: str, text: str, sentence: str
) -> None:
    root = filled_in(tmp_path)
    change(root / name, pattern, text)
    with pytest.raises(SystemExit, match=sentence):
        release.notes(f"v{VERSION}", root)


def test_what_a_user_must_read_of_a_version_takes_five_minutes() -> None:
    """At 200 words a minute; the rest of a version's section is folded."""
    section = (
        (ROOT / "CHANGELOG.md")
        .read_text(encoding="utf-8")
        .partition(f"\n## [{VERSION}]")[2]
        .partition("\n## ")[0]
    )
    first, _, folded = section.partition("<details>")
    assert re.findall(r"^### (.+)$", first, re.MULTILINE)[:3] == [
        "New",
        "Changed under your feet",
        "What you must do",
    ]
    assert len(first.split()) <= 1000
    assert folded.count("</details>") == 1 and folded.rstrip().endswith("</details>")


def test_every_place_that_shows_a_version_shows_one() -> None:
    """The crates have it; the package, the program, the lock file and the changelog follow, and the
    page for `man` (`test_handed_on`).
    """
    assert "version" in PROJECT["dynamic"]
    assert version("turnbuckle") == VERSION
    lines = subprocess.run(
        [sys.executable, "-m", "turnbuckle", "--version"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert lines[0] == f"turnbuckle {VERSION}" and lines[1].startswith(f"native core {VERSION},")
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    assert {
        package["version"] for package in locked if package["name"].startswith("turnbuckle")
    } == {VERSION}
    headings = re.findall(
        r"^## \[(\S+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert headings[:2] == ["Unreleased", VERSION]


# --- the forge ------------------------------------------------------------------------------------


def workflows() -> dict[str, dict[str, Any]]:
    return {
        p.name: yaml.safe_load(p.read_text(encoding="utf-8"))
        for p in (ROOT / ".github" / "workflows").glob("*.yml")
    }


def test_workflows_use_actions_at_one_commit_and_targets_that_exist() -> None:
    """An action's tag can be moved by whoever owns it; what a workflow calls of ours is a target of
    the Makefile or a file.
    """
    targets = set(
        re.findall(
            r"^([\w -]+):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    known = {word for line in targets for word in line.split()}
    pins: dict[str, set[str]] = {}
    found = workflows()
    assert set(found) == {"check.yml", "test.yml", "wheels.yml", "release.yml"}
    for name, workflow in found.items():
        assert workflow["permissions"] == {"contents": "read"}, name
        for job in workflow["jobs"].values():
            assert "uses" in job or job["timeout-minutes"], name
            for step in job.get("steps", ()):
                if "uses" in step:
                    action, _, commit = step["uses"].partition("@")
                    assert re.fullmatch(r"[0-9a-f]{40}", commit), step["uses"]
                    pins.setdefault(action, set()).add(commit)
                for word in re.findall(r"\bmake ([\w-]+)", step.get("run", "")):
                    assert word in known, word
    assert all(len(commits) == 1 for commits in pins.values()), pins


def test_classifiers_are_versions_that_the_workflows_try() -> None:
    tried = {
        str(row["python"])
        for row in workflows()["test.yml"]["jobs"]["test"]["strategy"]["matrix"]["include"]
    }
    named = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)}
    assert named and named <= tried


def test_issue_forms_have_what_the_forge_asks_for() -> None:
    forms = [
        p for p in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if p.name != "config.yml"
    ]
    assert len(forms) == 3
    for path in forms:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= set(form), path.name
        ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
        assert ids and len(ids) == len(set(ids)), path.name
        assert all(
            part["type"] in ("markdown", "input", "textarea", "checkboxes") for part in form["body"]
        )
