"""The house stands as drawn: its list of rooms is its tree, and heavy or native things are known
where they belong.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from sources import PACKAGE, modules, nodes, parsed

ROOT = Path(__file__).resolve().parents[1]


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Every module a file imports, at its top or inside a function, with the package's own names
    written out.
    """
    here = ("turnbuckle", *path.relative_to(PACKAGE).parent.parts)
    out: list[str] = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            out += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            out += [module, *(f"{module}.{a.name}" for a in node.names)]
    return tuple(out)


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


#: Modules that open files themselves: the door, what is installed beside us, and what Turnbuckle
#: keeps for itself (its cache, libraries that it builds, CUPTI).
OWN_DOORS = (
    "foundation/files.py",
    "foundation/private_folder.py",
    "foundation/registry.py",
    "trace/cache/cache.py",
    "recorder/toolchain.py",
    "recorder/opencl_layer.py",
    "recorder/command.py",
    "recorder/run.py",
)
OPENING = (
    "open",
    "read_bytes",
    "read_text",
    "touch",
    "connect",
    "fdopen",
    "read_csv",
    "scan_csv",
    "read_ndjson",
    "memmap",
    "fromfile",
)


def opens(call: ast.Call) -> str:
    """What a call opens a file with; empty where it opens none, or one that ships with the package,
    or its own draft for writing.
    """
    name = (
        call.func.attr
        if isinstance(call.func, ast.Attribute)
        else call.func.id
        if isinstance(call.func, ast.Name)
        else ""
    )
    if name not in (OPENING if isinstance(call.func, ast.Attribute) else ("open",)):
        return ""
    text = ast.unparse(call)
    words = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    ours = (
        "files(" in text
        or "devnull" in text
        or "__file__" in text
        or "native()" in text
        or any(w in ("w", "wb", "xb") for w in words)
    )
    return text if not ours and "fileobj=" not in text else ""


def test_every_input_comes_through_one_door() -> None:
    """Who opens a file in another way might wait for a pipe, or let the file be written over:
    `foundation.files.opened` does neither.
    """
    #: SQLite opens by name, after `noted`; a journal is opened by who locks it; a folder of tables
    #: becomes a draft; a piece of text is no file; trace.json is the cache's.
    known = {
        "trace/readers/parts/sqlite_tables.py": 1,
        "questions/sweep/answers/journal.py": 2,
        "trace/trace.py": 1,
        "trace/readers/nsys_tables.py": 1,
        "trace/readers/recorded/text.py": 1,
    }
    counted: dict[str, list[str]] = {}
    for path in modules():
        place = path.relative_to(PACKAGE).as_posix()
        calls = [opens(node) for node in nodes(path) if isinstance(node, ast.Call)]
        if place not in OWN_DOORS and any(calls):
            counted[place] = [c for c in calls if c]
    assert {place: len(calls) for place, calls in counted.items()} == known, counted


def test_no_folder_is_overfull() -> None:
    """About twelve entries a folder; this bound is where a smell becomes a fault.  Of questions,
    one folder each, there may be more.
    """
    folders = {p.parent for p in modules()} - {PACKAGE}
    entries = {
        f: [
            e.name
            for e in f.iterdir()
            if e.name not in ("__pycache__", "__init__.py", "fields.csv")
        ]
        for f in folders
    }
    assert {
        f.relative_to(PACKAGE).as_posix(): names
        for f, names in entries.items()
        if len(names) > 13 + 3 * (f.name == "questions")
    } == {}


def test_no_two_test_modules_have_one_name() -> None:
    """They are imported by their names alone: the second would not be collected."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_the_page_is_read_in_ten_minutes() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(page.encode()) < 8000
    rooms = set(re.findall(r"^  (\w+)/", page, re.MULTILINE))
    assert rooms == {
        p.name for p in PACKAGE.iterdir() if p.is_dir() and (p / "__init__.py").is_file()
    } - {"examples"}


def test_who_knows_the_native_core() -> None:
    """Readers, profiles and replays work there, TOML is parsed, names demangled, figures drawn;
    anybody may ask for a distribution.
    """
    readers = {"trace/readers", "trace/readers/nvprof", "trace/readers/parts"}
    allowed = readers | {
        "trace",
        "foundation",
        "profile",
        "replay",
        "replay/contention",
        "show/figures",
        "cli",
    }
    distributions = {
        f"turnbuckle._native.{n}"
        for n in ("beta_quantile", "f_tail", "gamma_tail", "student_cdf", "student_quantile")
    }
    found = {}
    for path in modules():
        names = {name for name in imports(path) if name.startswith("turnbuckle._native.")}
        if names - distributions:
            found[path.relative_to(PACKAGE).as_posix()] = path.relative_to(
                PACKAGE
            ).parent.as_posix()
    assert found, "somebody reads files"
    assert set(found.values()) <= allowed, found
    assert {p for p, folder in found.items() if folder == "cli"} <= {"cli/app.py", "cli/doctor.py"}


@pytest.mark.parametrize(
    ("libraries", "rooms"),
    [
        (("altair",), set()),
        (("jinja2",), {"page"}),
        (("pandas", "pyarrow"), set()),
        (("urllib", "http", "socket", "requests", "ssl", "ftplib"), set()),
        (("pickle", "marshal", "shelve"), set()),
    ],
    ids=lambda x: x[0] if isinstance(x, tuple) else "",
)
def test_who_knows_a_library(libraries: tuple[str, ...], rooms: set[str]) -> None:
    """Computations draw nothing, nothing is fetched at run time, and nothing is unpickled."""
    users = {
        room(p): p.name
        for p in modules()
        if any(name.split(".")[0] in libraries for name in imports(p))
    }
    assert set(users) <= rooms, users


def test_who_talks_to_a_terminal() -> None:
    """Commands and the tables they print; a question knows no terminal."""
    users = {
        p.relative_to(PACKAGE)
        for p in modules()
        if any(name.split(".")[0] in ("rich", "cyclopts") for name in imports(p))
    }
    speaking = {
        p
        for p in users
        if p.parts[0] == "cli"
        or p.parts[:2] == ("show", "terminal")
        or p.stem in ("command", "tables")
    }
    assert sorted(p.as_posix() for p in users - speaking) == ["questions/inspect/graph.py"]


def test_nothing_is_computed_from_text() -> None:
    for path in modules():
        for node in nodes(path):
            assert not (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("eval", "exec")
            ), path.name


def test_the_heart_stays_small() -> None:
    assert len((PACKAGE / "projection/project.py").read_text(encoding="utf-8").splitlines()) < 260


def test_files_and_functions_stay_readable() -> None:
    """About 500 lines a file and 60 a function; these bounds are where a smell becomes a fault."""
    for path in modules():
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 810, path.name
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno <= 190, f"{path.name}: {node.name}"


def test_no_line_is_kept_from_the_formatter() -> None:
    """A table that is long under it is data, and stands in a file; a call that is long takes names
    for its parts.
    """
    marks = ("fmt: " + word for word in ("skip", "off", "on"))
    pattern = re.compile("# (?:" + "|".join(marks) + ")")
    rooms = ("src", "tests", "benchmarks", "docs", "examples", "packaging", "validation")
    paths = [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]
    assert (
        len(paths) > 900
        and [
            p.relative_to(ROOT).as_posix()
            for p in paths
            if pattern.search(p.read_text(encoding="utf-8"))
        ]
        == []
    )


def test_words_that_say_nothing_are_not_names() -> None:
    for path in modules():
        stem = path.stem.lower()
        assert stem not in ("utils", "util", "common", "helpers", "helper", "misc", "manager"), path
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                assert "Manager" not in node.name, path
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.arg | ast.Name):
                name = (
                    node.name
                    if isinstance(node, ast.FunctionDef | ast.ClassDef)
                    else node.arg
                    if isinstance(node, ast.arg)
                    else node.id
                )
                assert name not in ("dur", "sz", "bw", "tmp"), f"{path.name}: {name}"


def test_public_things_say_what_they_are() -> None:
    for path in modules():
        tree = parsed(path)
        assert path.name == "__init__.py" or ast.get_docstring(tree), path
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{path.name}: {node.name}"


def test_the_public_names_exist() -> None:
    import turnbuckle

    assert sorted(turnbuckle.__all__) == sorted(set(turnbuckle.__all__))
    for name in turnbuckle.__all__:
        assert getattr(turnbuckle, name) is not None
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = turnbuckle.nothing_of_the_kind


# --- imports inside functions ---------------------------------------------------------------------

#: What takes a tenth of a second and more to load; the help of a verb and of the whole program do
#: without.
HEAVY = ("numpy", "polars", "scipy", "altair", "jinja2", "turnbuckle._native")
#: Loaded by every command, so that each import there is looked at: they name what the shortest
#: commands do without.
START = (
    "cli/__init__.py",
    "cli/app.py",
    "cli/limits.py",
    "cli/run.py",
    "foundation/files.py",
    "foundation/registry.py",
)


def steps(module: str) -> list[str]:
    """The packages of a module, and itself."""
    parts = module.split(".")
    return [".".join(parts[:k]) for k in range(1, len(parts) + 1)]


@cache
def brought(module: str) -> frozenset[str]:
    """What the file of a module imports when it is imported, and the packages of all that."""
    place = PACKAGE.parent.joinpath(*module.split("."))
    path = next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()), None)
    return frozenset(
        step
        for target in (at_import(path) if path and module.startswith("turnbuckle") else ())
        for step in steps(target)
    )


@cache
def loads(module: str) -> frozenset[str]:
    """What importing a module imports at once, itself and its packages among it."""
    reached = set(steps(module))
    seen: set[str] = set()
    while new := reached - seen:
        seen |= new
        reached = reached.union(*map(brought, new))
    return frozenset(seen)


@cache
def at_import(path: Path) -> tuple[str, ...]:
    """What a file imports when it is imported itself."""
    waiting: list[ast.AST] = [*parsed(path).body]
    out: list[str] = []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            out += targets(path, node)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return tuple(out)


def targets(path: Path, node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [a.name for a in node.names]
    here = ("turnbuckle", *path.relative_to(PACKAGE).parent.parts)
    above = here[: len(here) - node.level + 1] if node.level else ()
    module = ".".join([*above, *([node.module] if node.module else [])])
    return [module, *(f"{module}.{a.name}" for a in node.names)]


def test_an_import_in_a_function_has_a_reason() -> None:
    """It stands at the head of the file, unless it loads what is heavy and the file does without;
    another reason is a comment beside it.
    """
    idle = []
    for path in modules():
        name = path.relative_to(PACKAGE).as_posix()
        lines = path.read_text(encoding="utf-8").splitlines()
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        )
        have = {n for n in HEAVY if n in loads(module)}
        functions = [
            range(f.lineno, (f.end_lineno or 0) + 1)
            for f in nodes(path)
            if isinstance(f, ast.FunctionDef)
        ]
        inside = [
            n
            for n in nodes(path)
            if isinstance(n, ast.Import | ast.ImportFrom)
            and any(n.lineno in lines_of for lines_of in functions)
        ]
        for node in inside if name not in START else ():
            if not any("#" in lines[k - 1] for k in (node.lineno - 1, node.lineno)):
                brings = {
                    n for target in targets(path, node) for n in HEAVY if n in loads(target)
                } - have
                idle += [f"{name}:{node.lineno}"] if not brings else []
    assert not idle
