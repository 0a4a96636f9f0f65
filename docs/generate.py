"""The pages that are made from the program itself: nomenclature, findings, errors, rooms, keys of
answers, the papers' numbers.

    python docs/generate.py            # write them
    python docs/generate.py --check    # 1 if a page is not current

The schema's CSV files, the Rust sources' errors and the heading of ``foundation.errors`` are the
sources; nothing in these pages is written by hand.
"""

from __future__ import annotations

import ast
import csv
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import notebooks
import papers

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "turnbuckle"
CORE = ROOT / "crates" / "turnbuckle-core" / "src"
HEAD = "<!-- made by docs/generate.py; do not edit -->\n\n"


def rows(name: str) -> list[dict[str, str]]:
    """The rows of one file of the schema."""
    with (PACKAGE / "foundation" / "schema" / f"{name}.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        return list(csv.DictReader(file))


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += [
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |"
        for row in body
    ]
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    """A word of the program in a Markdown cell; nothing where there is none."""
    return f"`{text}`" if text else ""


# --- nomenclature ---------------------------------------------------------------------------------

NOMENCLATURE = """# Nomenclature

Every table, column, coded word and machine parameter: name, type, unit, meaning. The readers, the checks, the Rust core and this page read
the same CSV files (`src/turnbuckle/foundation/schema`).

Columns that end in `_ns` are integer nanoseconds. All other quantities are SI: seconds, bytes, B/s, FLOP/s, W. An empty unit means that the
column is a code, an index or a name. `null` marks columns that may be missing.

"""


def nomenclature() -> str:
    """The page on tables, codes, links and machine parameters."""
    parts = [NOMENCLATURE]
    parts.append(
        "## Trace tables\n\nWhat a recording holds, as `turnbuckle.read` gives it. Empty "
        "tables are left out of files.\n"
    )
    parts += _tables("trace")
    parts.append(
        "## Profile tables\n\nWhat a recording amounts to, as `turnbuckle.build` gives it.\n"
    )
    parts += _tables("profile")
    parts.append(
        "## Coded words\n\nColumns that hold small integers hold these; a profile and all "
        "outputs show the word.\n"
    )
    for name, group in _grouped(rows("codes"), "list"):
        parts.append(
            f"### {name}\n\n"
            + table(
                ("code", "word", "meaning"),
                ((r["index"], code(r["word"]), r["meaning"]) for r in group),
            )
        )
    parts.append(_parameters())
    parts.append(
        (
            '## Links that can be named\n\nThe rates behind "looks like": the lowest one that a '
            "measured rate does not pass.\n\n"
        )
        + table(
            ("link", "one direction [B/s]", "kind", "source"),
            [[r[k] for k in ("name", "bandwidth", "kind", "source")] for r in rows("links")],
        )
    )
    parts.append(
        "## Words that have another name now\n\n"
        "An old word is refused (A425) with the new one named: some have come to mean something "
        "else.\n\n"
        + table(
            ("verb", "old", "new", "meaning"),
            [[r["verb"], code(r["old"]), code(r["new"]), r["meaning"]] for r in rows("renamed")],
        )
    )
    return "\n".join(parts)


def _tables(kind: str) -> list[str]:
    out = []
    for name, group in _grouped(rows(kind), "table"):
        cells = (
            (
                code(r["column"]),
                r["type"] + (", null" if r["nullable"] == "yes" else ""),
                r["unit"],
                r["meaning"],
            )
            for r in group
        )
        out.append(f"### {name}\n\n" + table(("column", "type", "unit", "meaning"), cells))
    return out


def _parameters() -> str:
    def cells(r: dict[str, str]) -> tuple[str, ...]:
        return (
            code(r["parameter"]),
            r["unit"],
            r["scope"],
            f"{r['minimum']} to {r['maximum']}",
            r["meaning"],
        )

    head = ("parameter", "unit", "of one", "plausible", "meaning")
    every = rows("machine")
    own = [cells(r) for r in every if not r["parameter"].startswith("observed.")]
    observed = [cells(r) for r in every if r["parameter"].startswith("observed.")]
    return (
        "## Machine parameters\n\nWhat a machine file may give ([how to write "
        "one](machines.md)). `turnbuckle machines check` doubts "
        "what lies outside the plausible range.\n\n"
        + table(head, own)
        + "\nThese are set from the profile and belong in no machine file:\n\n"
        + table(head, observed)
    )


def _grouped(every: list[dict[str, str]], key: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    for name in dict.fromkeys(r[key] for r in every):
        yield name, [r for r in every if r[key] == name]


# --- findings -------------------------------------------------------------------------------------

FINDINGS = """# Findings

A finding is a counted flaw: something that was dropped, repaired, missing or out of range. It never stops the work. It travels with the
answer and is printed with it.

A `warning` stands where a number of an answer rests, or may rest, on something assumed, estimated, repaired or left out. An `info` tells
how the answer was made (which replay, which change was asked for) or what the file holds; it changes no number.

In JSON each finding has `code`, `severity`, `count`, `meaning`, `detail` and `advice`. `detail` names a table, a column, a parameter or a
share; it never holds text from the recorded process.

P1xx is about the recording, P2xx about what it shows, M1xx about machines, A3xx about assumptions of a projection.

"""


RECORDERS = """
## In the options of the recorder

Where the recorder of a recording is known, its own options are named:

"""


def findings() -> str:
    """The page on findings."""
    every = sorted(rows("findings"), key=lambda r: ("PMA".index(r["code"][0]), r["code"]))
    words = rows("recorders")
    plain = {r["word"]: r["text"] for r in words if not r["format"]}
    body = (
        (code(r["code"]), r["severity"], r["meaning"], r["advice"].format_map(plain)) for r in every
    )
    after = {
        r["word"]: [e["code"] for e in every if f"{{{r['word']}}}" in e["advice"]] for r in words
    }
    told = (
        (", ".join(code(c) for c in after[r["word"]]), code(r["format"]), r["text"])
        for r in words
        if r["format"] and after[r["word"]]
    )
    return (
        FINDINGS
        + table(("code", "severity", "meaning", "what to do"), body)
        + RECORDERS
        + table(("code", "format", "what to do"), told)
    )


# --- errors ---------------------------------------------------------------------------------------

ERRORS = """# Errors

An error stops the work and says what happened, where, what was found, the likely cause and the fix. It goes to stderr; there is no
traceback unless `--debug` is given. Flaws that do not stop the work are [findings](findings.md).

```console
$ turnbuckle project run.sqlite --on gh2000
error[M001]: no machine is called gh2000
  fix:   did you mean gh200? turnbuckle machines list names them all; a path to a .toml file also works
$ echo $?
2
```

In Python every error is a `turnbuckle.TurnbuckleError` with the attributes `code`, `what`, `where`, `found`, `cause`, `fix` and
`exit_code`.

## Groups

"""


@dataclass(frozen=True, order=True)
class Raised:
    """One error that can be raised: its code, what it says, the number the process ends with."""

    code: str
    what: str
    cause: str
    fix: str
    exit_code: int


@dataclass(frozen=True)
class Group:
    """One class of errors, as the heading of `turnbuckle.foundation.errors` has it."""

    head: str
    klass: str
    exit_code: int
    meaning: str


@cache
def groups() -> tuple[Group, ...]:
    """The classes of errors in the order of the heading."""
    heading = (
        ast.get_docstring(ast.parse((PACKAGE / "foundation/errors.py").read_text(encoding="utf-8")))
        or ""
    )
    found = re.findall(r"^\s*\+-- (\w+)\s+([A-Z]\d)xx\s+(\d)\s+(.+)$", heading, re.MULTILINE)
    return tuple(
        Group(head, klass, int(exit_code), meaning) for klass, head, exit_code, meaning in found
    )


def raised() -> list[Raised]:
    """Every coded error that the tables and the Rust core hold, in the order of the groups."""
    exit_code = {g.head: g.exit_code for g in groups()}
    of_class = {g.klass: g.exit_code for g in groups()}
    out = [
        Raised(
            r["code"],
            *(_FIELD.sub(r"<\1>", r[k]).replace("{{", "{").replace("}}", "}") for k in _TEXTS),
            of_class[klass],
        )
        for klass in dict.fromkeys(g.klass for g in groups())
        for r in rows(f"errors/{klass}")
    ]
    for path in sorted((ROOT / "crates").rglob("src/**/*.rs")):
        out += [
            Raised(error, *told, exit_code[error[:2]])
            for error, *told in _native(path.read_text(encoding="utf-8"))
        ]
    order = list(exit_code)
    return sorted(set(out), key=lambda e: (order.index(e.code[:2]), e))


_TEXTS = ("what", "cause", "fix")
#: A field of a text, as `str.format` has it; braces for themselves are doubled.
_FIELD = re.compile(r"(?<!\{)\{(\w+)[^{}]*\}(?!\})")


def _native(source: str) -> Iterator[tuple[str, str, str, str]]:
    """Code, what, cause and fix of every error of a Rust source; a text that is computed is
    empty.
    """
    source = source.split("#[cfg(test)]")[0]
    pattern = r'(?:new\(|code:)\s*"([A-Z]\d{3})"(?:\.to_owned\(\))?,\s*(?:what:\s*)?'
    for match in re.finditer(pattern, source):
        what, *rest = [_literal(a) for a in _arguments(source[match.end() :])]
        if what:
            yield match[1], what, *(rest[1:3] if len(rest) == 3 else ("", ""))  # type: ignore[misc]


def _arguments(source: str) -> list[str]:
    """The arguments up to the bracket that closes the call."""
    out, depth = [""], 0
    for piece in re.findall(r'"(?:[^"\\]|\\.)*"|.', source, re.DOTALL):
        depth += (piece in "([{") - (piece in ")]}")
        if depth < 0:
            break
        if piece == "," and not depth:
            out.append("")
        else:
            out[-1] += piece
    return [a for a in (a.strip() for a in out) if a]


def _literal(argument: str) -> str:
    text = re.match(r'(?:format!\(\s*)?"((?:[^"\\]|\\.)*)"', argument)
    return (
        re.sub(r"\{(\w*)[^}]*\}", lambda m: f"<{m[1] or 'name'}>", text[1].replace('\\"', '"'))
        if text
        else ""
    )


def errors() -> str:
    """The page on errors."""
    every = raised()
    heads = ((f"{g.head}xx", code(g.klass), str(g.exit_code), g.meaning) for g in groups())
    parts = [
        ERRORS + table(("codes", "class", "exit code", "meaning"), heads),
        "Exit code 0 is success, 130 an interrupt from the keyboard, 143 an end by SIGTERM.\n",
        (
            "Words in angle brackets are filled in. A cell is empty where there is nothing to "
            "say, or where it depends on what was found.\n"
        ),
    ]
    for g in groups():
        body = [
            (code(e.code), *(_plain(getattr(e, k)) for k in _TEXTS))
            for e in every
            if (e.code[:2], e.exit_code) == (g.head, g.exit_code)
        ]
        if body:
            parts.append(
                f"## {g.head}xx: {g.meaning}\n\n"
                + table(("code", "what happened", "likely cause", "fix"), body)
            )
    return "\n".join(parts)


def _plain(text: str) -> str:
    return re.sub(
        r"([*_\[\]`])",
        r"\\\1",
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
    )


# --- all ------------------------------------------------------------------------------------------

# --- rooms ----------------------------------------------------------------------------------------


def sentence(path: Path) -> str:
    """The first sentence of a file: of its docstring, or of the heading of a Rust file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".rs":
        heading = " ".join(
            line.removeprefix("//!").strip() for line in text.splitlines() if line.startswith("//!")
        )
    else:
        # the docstring stands first; a parser would read all of the file
        heading = inspect.cleandoc(text.split('"""', 2)[1]) if text.startswith('"""') else ""
    return re.split(r"(?<=[.?])\s+(?=[A-Z`])|\n\n", heading, maxsplit=1)[0].replace("\n", " ")


def rooms() -> str:
    """Every folder with its files, one sentence each, as the files say it themselves."""
    out = [
        (
            "# Every room and file\n\nWhat each file says of itself. `ARCHITECTURE.md` says how "
            "the rooms hang together.\n"
        )
    ]
    for folder in sorted({p.parent for p in PACKAGE.rglob("*.py") if p.parent != PACKAGE}):
        out.append(
            f"## {folder.relative_to(PACKAGE).as_posix()}\n\n{sentence(folder / '__init__.py')}\n"
        )
        files = sorted(p for p in folder.glob("*.py") if p.name != "__init__.py")
        if files:
            out.append(table(("file", ""), [(code(p.name), sentence(p)) for p in files]))
    out.append("## crates\n")
    sources = sorted((ROOT / "crates").glob("*/src/**/*.rs"))
    out.append(
        table(
            ("file", ""),
            [(code(p.relative_to(ROOT / "crates").as_posix()), sentence(p)) for p in sources],
        )
    )
    return "\n".join(out)


# --- keys -----------------------------------------------------------------------------------------

KEYS = """# Every key of every answer

What `--format json` prints and `to_json()` returns, by class of answer; [JSON](json.md) says what holds for all. The program writes its
documents from the same tables (`fields.csv` beside each question). `[]` marks lists, `{a,b}` alternatives, `<...>` keys that are data; `?`
a key that is left out where there is nothing to say.

"""


def declared() -> dict[str, dict[str, list[dict[str, str]]]]:
    """Room -> class -> its rows, of every `fields.csv`."""
    out: dict[str, dict[str, list[dict[str, str]]]] = {}
    for path in sorted(PACKAGE.rglob("fields.csv")):
        classes = out.setdefault(path.parent.relative_to(PACKAGE).as_posix(), {})
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                classes.setdefault(row["answer"], []).append(row)
    return out


def heading_of_answer(
    rooms: dict[str, dict[str, list[dict[str, str]]]],
) -> dict[tuple[str, str], str]:
    """Heading of each answer: its class, with the room where another has one of that name."""
    names = [name for classes in rooms.values() for name in classes]
    return {
        (room, name): name if names.count(name) == 1 else f"{name} of {room.rpartition('/')[2]}"
        for room, classes in rooms.items()
        for name in classes
    }


def linked(meaning: str, headings: dict[str, str]) -> str:
    """A meaning, with the names of answers as links to their headings."""
    return re.sub(
        r"`(\w+)`",
        lambda m: (
            f"[{m[1]}](#{headings[m[1]].lower().replace(' ', '-')})" if m[1] in headings else m[0]
        ),
        meaning,
    )


def keys() -> str:
    """The keys of every answer, a table for each class; a part that has a table of its own is a
    link.
    """
    rooms = declared()
    headings = heading_of_answer(rooms)
    out = []
    for room, classes in rooms.items():
        out.append(f"## {room}\n")
        known = {
            name: heading
            for (place, name), heading in headings.items()
            if place == room or heading == name
        }
        for name, fields in classes.items():
            body = [(code(f["key"]), f["unit"], linked(f["meaning"], known)) for f in fields]
            out.append(f"### {headings[room, name]}\n\n{table(('key', 'unit', 'meaning'), body)}")
    return KEYS + "\n".join(out)


PAGES = {
    "rooms.md": rooms,
    "keys.md": keys,
    "nomenclature.md": nomenclature,
    "findings.md": findings,
    "errors.md": errors,
    "reproduced.md": lambda: papers.reproduced(table),
    "contradictions.md": lambda: papers.contradictions(table),
}


def generated() -> dict[str, str]:
    """Name -> text of every generated page."""
    return {name: HEAD + make().rstrip() + "\n" for name, make in PAGES.items()}


def main(words: Sequence[str]) -> int:
    """Write the pages, or with ``--check`` say which are not current."""
    stale = []
    for name, text in (
        generated() | papers.table_13(ROOT / "docs") | notebooks.notebooks(ROOT / "docs")
    ).items():
        path = ROOT / "docs" / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in words:
                path.write_text(text, encoding="utf-8")
    print(
        f"{'stale' if '--check' in words else 'written'}: {', '.join(stale)}"
        if stale
        else "all pages are current"
    )
    return 1 if stale and "--check" in words else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
