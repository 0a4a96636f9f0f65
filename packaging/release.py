"""What is handed on: the source package, the wheels, completion for shells and the page for `man`.

    python packaging/release.py sdist       # dist/turnbuckle-VERSION.tar.gz: tests, manual and crates in it, builds without a network
    python packaging/release.py wheels      # dist/*.whl for x86-64 and aarch64, audited
    python packaging/release.py shell DIR   # completion and man page alone, into DIR/share
    python packaging/release.py notes v0.2.0    # what the changelog says of that version; refused while something is to be filled in

`make sdist` and `make wheels` call it.  What is packed is the last commit, never what lies beside
it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "release"
DIST = ROOT / "dist"
#: Oldest system the wheels run on: glibc 2.28 is that of RHEL 8, Debian 10 and Ubuntu 20.04.
PLATFORM = "manylinux_2_28"
PROCESSORS = ("x86_64", "aarch64")
#: Folder whose contents maturin installs beside the package: it goes by the name of the native
#: module.
DATA = "turnbuckle._native.data"
SHELLS = {
    "bash": "bash-completion/completions/turnbuckle",
    "zsh": "zsh/site-functions/_turnbuckle",
    "fish": "fish/vendor_completions.d/turnbuckle.fish",
}


def run(*words: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command -> its output.  What it says on stderr passes through."""
    return subprocess.run(
        words, cwd=cwd, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


# --- completion and man page ----------------------------------------------------------------------


def completion() -> dict[str, str]:
    """Return the completion script of each shell."""
    from turnbuckle.cli.app import app

    return {shell: app.generate_completion(shell=shell) for shell in SHELLS}


def man_page() -> str:
    """Return the page for `man`: every verb and option, as their help says it."""
    from docutils.core import publish_string

    from turnbuckle.cli.app import app

    text = app.generate_docs(output_format="rst")
    sentence, body = text.partition("::\n\n    turnbuckle COMMAND\n\n")[2].split("\n\n", 1)
    body = body.replace(".. contents:: Table of Contents\n   :local:\n   :depth: 6\n\n", "")
    version = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"][
        "package"
    ]["version"]
    line = "=" * 100
    head = (
        f"{line}\nturnbuckle\n{line}\n{sentence.rstrip('.')}\n{'~' * 100}\n\n:Manual section: 1\n"
        f":Version: turnbuckle {version}\n\n"
    )
    usage = (
        "Synopsis\n--------\n\n**turnbuckle** *FILE*\n\n**turnbuckle** *COMMAND* [*OPTIONS*]\n\n"
        "Description\n-----------\n\n"
    )
    settings = {
        "report_level": 3,
        "halt_level": 3,
        "file_insertion_enabled": False,
        "datestamp": None,
    }
    return str(
        publish_string(
            head + usage + body,
            writer="manpage",
            settings_overrides=settings | {"output_encoding": "unicode"},
        )
    )


def shell(place: Path) -> None:
    """Write completion and man page below ``place/share``, where shells and `man` look for them."""
    files = {SHELLS[name]: text for name, text in completion().items()} | {
        "man/man1/turnbuckle.1": man_page()
    }
    for name, text in files.items():
        path = place / "share" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


# --- the tree -------------------------------------------------------------------------------------


def tree() -> Path:
    """Make the tree that is packed: the last commit, completion and man page."""
    if run("git", "status", "--porcelain", "--untracked-files=no"):
        raise SystemExit(
            "what is packed is the last commit, and there are changes since: commit or stash "
            "them first"
        )
    place = BUILD / "tree"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    ).stdout
    subprocess.run(["tar", "-x"], cwd=place, input=archive, check=True)
    shell(place / DATA / "data")
    return place


def vendor(place: Path) -> None:
    """Put the crates into a tree, and tell cargo that they are there."""
    run("cargo", "vendor", "--quiet", "--locked", "vendor", cwd=place)
    (place / ".cargo").mkdir()
    (place / ".cargo" / "config.toml").write_text(VENDORED, encoding="utf-8")
    prune(place)


#: Takes every crate from the folder beside it.
VENDORED = (
    '[source.crates-io]\nreplace-with = "vendored-sources"\n\n[source.vendored-sources]\n'
    'directory = "vendor"\n'
)


def prune(place: Path) -> None:
    """Empty the crates that no build or test on Linux compiles: cargo wants to see them, and reads
    their manifests only.
    """
    used = {
        package
        for processor in PROCESSORS
        for package in run(
            *(
                "cargo",
                "tree",
                "--offline",
                "--locked",
                "--workspace",
                "--all-features",
                "--prefix=none",
                "--format={p}",
            ),
            f"--target={processor}-unknown-linux-gnu",
            cwd=place,
        ).splitlines()
    }
    kept = {tuple(line.split()[:2]) for line in used if line}
    for crate in (place / "vendor").iterdir():
        package = tomllib.loads((crate / "Cargo.toml").read_text(encoding="utf-8"))["package"]
        if (package["name"], f"v{package['version']}") in kept:
            continue
        for entry in crate.iterdir():
            if entry.name not in ("Cargo.toml", ".cargo-checksum.json"):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        for path in entries(
            package, tomllib.loads((crate / "Cargo.toml").read_text(encoding="utf-8"))
        ):
            (crate / path).parent.mkdir(parents=True, exist_ok=True)
            (crate / path).write_text("", encoding="utf-8")
        sums = crate / ".cargo-checksum.json"
        sums.write_text(
            json.dumps(json.loads(sums.read_text(encoding="utf-8")) | {"files": {}}),
            encoding="utf-8",
        )


def entries(package: dict[str, object], manifest: dict[str, object]) -> list[str]:
    """Return the files that a manifest names as targets; cargo looks whether they are there."""
    library = manifest.get("lib")
    named = [library.get("path") if isinstance(library, dict) else None, package.get("build")]
    return [str(path) for path in named if isinstance(path, str)] or ["src/lib.rs"]


# --- packages -------------------------------------------------------------------------------------


def sdist() -> Path:
    """Pack the tree -> the source package."""
    place = tree()
    vendor(place)
    date = run("git", "log", "-1", "--format=%ct").strip()
    run(
        "maturin",
        "sdist",
        "--manifest-path",
        place / "crates/turnbuckle-py/Cargo.toml",
        "--out",
        DIST,
        cwd=place,
        SOURCE_DATE_EPOCH=date,
    )
    return next(DIST.glob("turnbuckle-*.tar.gz"))


def left_out(wheel: Path, data: Path) -> list[str]:
    """Return the files of the data folder that a wheel lacks.  maturin says nothing when it does
    not take a folder for its own.
    """
    names = zipfile.ZipFile(wheel).namelist()
    files = sorted(path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file())
    return [file for file in files if not any(name.endswith(f".data/{file}") for name in names)]


def unnamed(wheel: Path) -> list[str]:
    """Return the scripts of others in a wheel that none of its lists (SBOM) names with their
    digest.
    """
    archive = zipfile.ZipFile(wheel)
    lists = [json.loads(archive.read(name)) for name in archive.namelist() if "/sboms/" in name]
    digests = {
        h["content"]
        for one in lists
        for part in one.get("components", ())
        for h in part.get("hashes", ())
    }
    scripts = [name for name in archive.namelist() if name.endswith(".min.js")]
    return [
        name for name in scripts if hashlib.sha256(archive.read(name)).hexdigest() not in digests
    ]


def wheels(processors: tuple[str, ...]) -> None:
    """Build a wheel for each processor and audit it."""
    place = tree()
    commit = run("git", "rev-parse", "--short=12", "HEAD").strip()
    for processor in processors:
        words = (
            "--release",
            "--locked",
            "--strip",
            "--zig",
            "--auditwheel=check",
            f"--compatibility={PLATFORM}",
        )
        target = BUILD / "target"
        run(
            "maturin",
            "build",
            *words,
            f"--target={processor}-unknown-linux-gnu",
            "--out",
            DIST,
            cwd=place,
            CARGO_TARGET_DIR=str(target),
            TURNBUCKLE_COMMIT=commit,
        )
        (wheel,) = DIST.glob(f"*-{PLATFORM}_{processor}.whl")
        if lacking := left_out(wheel, place / DATA):
            raise SystemExit(f"{wheel.name} lacks {', '.join(lacking)}")
        if scripts := unnamed(wheel):
            raise SystemExit(f"no list in {wheel.name} names {', '.join(scripts)}")
        print(
            run("auditwheel", "show", wheel),
            f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB",
            sep="",
        )


#: Files that name the project's address once it has one, and the words before it.  EasyBuild wants
#: a homepage: it is empty until then.
ADDRESSES = {
    "CITATION.cff": "repository-code: {}",
    "packaging/conda/meta.yaml": "home: {}",
    "packaging/spack/package.py": 'homepage = "{}"',
    "packaging/turnbuckle-0.2.0.eb": "homepage = '{}'",
}


def missing(root: Path = ROOT) -> list[str]:
    """Return what must be filled in before a release, as sentences."""
    name, _, body = (
        (root / "CHANGELOG.md")
        .read_text(encoding="utf-8")
        .partition("\n## [Unreleased]\n")[2]
        .partition("\n## ")
    )
    sentences = []
    if any(line for line in name.splitlines() if line and not line.startswith("#")):
        sentences.append(
            "CHANGELOG.md: what stands under [Unreleased] belongs to the version that is released"
        )
    if not re.match(r"\[\S+\] - \d{4}-\d{2}-\d{2}\n", body):
        sentences.append("CHANGELOG.md: the version has no date")
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    address = project.get("urls", {}).get("Repository", "")
    if not address:
        sentences.append(
            "pyproject.toml: [project.urls] has no Repository, so nobody learns where the "
            "project lives"
        )
    for path, words in ADDRESSES.items():
        if address and words.format(address) not in (root / path).read_text(encoding="utf-8"):
            sentences.append(f"{path}: does not say {words.format(address)}")
    return sentences


def notes(tag: str, root: Path = ROOT) -> str:
    """Return what the changelog says of a tagged version.  Tag, crates and changelog name one
    version, and nothing is missing.
    """
    version = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))["workspace"][
        "package"
    ]["version"]
    if tag != f"v{version}":
        raise SystemExit(f"the tag is {tag}, and the crates have version {version}")
    sections = (root / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")
    texts = [s.partition("\n")[2].strip() for s in sections if s.startswith(f"[{version}]")]
    if not texts:
        raise SystemExit(f"the changelog has no section [{version}]")
    if sentences := missing(root):
        raise SystemExit("\n".join(["not yet:", *sentences]))
    return texts[0]


def main() -> None:
    """Do what the command line asks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("sdist")
    verbs.add_parser("wheels").add_argument(
        "processors", nargs="*", default=PROCESSORS, help="both if left out"
    )
    verbs.add_parser("shell").add_argument("place", type=Path)
    verbs.add_parser("notes").add_argument("tag", help="v0.2.0")
    asked = parser.parse_args()
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if asked.verb == "notes":
        print(notes(asked.tag))
    elif asked.verb == "sdist":
        print(sdist())
    elif asked.verb == "wheels":
        wheels(tuple(asked.processors))
    else:
        shell(asked.place)


if __name__ == "__main__":
    main()
