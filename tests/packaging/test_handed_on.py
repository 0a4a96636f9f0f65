"""What is handed on: completion, the page for `man`, and what the source package holds."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest
from scripts import script

from turnbuckle.cli.app import VERBS

ROOT = Path(__file__).resolve().parents[2]
WORDS = sorted({*(name.rpartition(" ")[2] for name in VERBS), "model", "machines", "demo"})
release = script("packaging/release.py")
completion, man_page = cache(release.completion), cache(release.man_page)


def completed(*words: str) -> list[str]:
    """What bash offers for a command line whose last word is under way."""
    ask = (
        'eval "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _turnbuckle; printf '
        '"%s\\n" "${COMPREPLY[@]}"'
    )
    said = subprocess.run(
        ["bash", "-c", ask, "bash", completion()["bash"], "turnbuckle", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return said.stdout.split()


def test_bash_completes_verbs_and_options() -> None:
    assert completed("pro") == ["project"]
    assert completed("model", "sha") == ["sharing"]
    assert "--on" in completed("project", "run.sqlite", "--o") and "--over" not in completed(
        "project", "run.sqlite", "--o"
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_verb(shell: str) -> None:
    assert [word for word in WORDS if word not in completion()[shell]] == []


def test_completion_starts_no_program() -> None:
    """A key pressed costs no start of Python: the scripts hold what there is to say."""
    for text in completion().values():
        assert "python" not in text.lower() and "$(turnbuckle" not in text


def test_the_page_for_man_has_every_verb_and_the_exit_codes() -> None:
    page = man_page()
    assert page.count('.TH "turnbuckle" "1"') == 1 and "System Message" not in page
    assert f'"turnbuckle {version("turnbuckle")}"' in page.partition("\n.SH")[0]
    plain = page.replace("\\-", "-").replace("\\fB", "").replace("\\fP", "")
    assert [
        word
        for word in WORDS
        if f"\n.SS {word}\n" not in plain and f"\n.SH {word.upper()}\n" not in plain.upper()
    ] == []
    assert "130 interrupted" in plain and "--fail-if" in plain


def test_files_stand_where_shells_and_man_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "completion", completion)
    monkeypatch.setattr(release, "man_page", man_page)
    release.shell(tmp_path)
    places = sorted(
        p.relative_to(tmp_path / "share").as_posix() for p in tmp_path.rglob("*") if p.is_file()
    )
    assert places == [
        "bash-completion/completions/turnbuckle",
        "fish/vendor_completions.d/turnbuckle.fish",
        "man/man1/turnbuckle.1",
        "zsh/site-functions/_turnbuckle",
    ]


def test_a_wheel_without_completion_and_man_page_is_refused(tmp_path: Path) -> None:
    """maturin takes the folder that has the native module's name, and is silent about others."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert f"{project['tool']['maturin']['module-name']}.data" == release.DATA
    files = (
        "data/share/man/man1/turnbuckle.1",
        "data/share/fish/vendor_completions.d/turnbuckle.fish",
    )
    for file in files:
        (tmp_path / release.DATA / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / release.DATA / file).touch()
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        wheel.writestr(f"turnbuckle-0.2.0.data/{files[0]}", "")
    assert release.left_out(tmp_path / "a.whl", tmp_path / release.DATA) == [files[1]]


def test_a_wheel_names_the_scripts_of_others_in_it(tmp_path: Path) -> None:
    """The list that goes into a wheel has the digest of each file, the version of its table, and
    every name of its licence.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (place,) = project["tool"]["maturin"]["sbom"]["include"]
    text = (ROOT / place).read_text(encoding="utf-8")
    package = ROOT / "src" / "turnbuckle"
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        for script in package.rglob("*.min.js"):
            wheel.write(script, script.relative_to(package.parent).as_posix())
    assert len(release.unnamed(tmp_path / "a.whl")) == 2
    with zipfile.ZipFile(tmp_path / "a.whl", "a") as wheel:
        wheel.writestr(f"turnbuckle-0.2.0.dist-info/sboms/{Path(place).name}", text)
    assert release.unnamed(tmp_path / "a.whl") == []
    table = (package / "show" / "figures" / "vega" / "README.md").read_text(encoding="utf-8")
    licence = (
        (package / "show" / "figures" / "vega" / "LICENSE").read_text(encoding="utf-8").lower()
    )
    for part in json.loads(text)["components"]:
        assert f"| {part['name']} | {part['version']} | `{part['hashes'][0]['content']}` |" in table
        assert all(inside["name"] in licence for inside in (part, *part["components"]))


def test_the_source_package_holds_every_file_of_the_project(tmp_path: Path) -> None:
    """Sources, tests, manual, recipes: whoever has it can build, test and change the project."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone: nothing says which files are the project's")
    maturin = Path(sys.executable).with_name("maturin")
    subprocess.run([maturin, "sdist", "--out", tmp_path], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    tracked = set(
        subprocess.run(
            ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    )
    assert sorted(path for path in tracked - held if (ROOT / path).is_file()) == []
