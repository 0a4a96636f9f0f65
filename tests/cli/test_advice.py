"""Advice that can be followed: a verb's options are its own, a recorder's options are told to its
users alone.
"""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from fixes import registers
from parsers import options
from sources import modules, nodes

from turnbuckle.foundation.findings import advised, finding, recording_advice, register
from turnbuckle.foundation.registry import entries
from turnbuckle.trace.recorders import FORMATS

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "turnbuckle"
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
#: Programs of others whose options a text may name, behind their names.
OTHERS = re.compile(
    r"\b(nsys|ncu|nvprof|nvbandwidth|rocprof|rocprofv3|rocpd|rocm-smi|lstopo|sacct|smpirun|nvcc|cmake)\b[^;]*$"
)
#: Verbs that print the fixes of a module which is no verb's own.
VERBS = {
    "cli/run.py": ("project",),
    "cost/pcie.py": ("model link",),
    "machine/driver.py": ("record",),
    "machine/machine.py": ("project", "inspect", "slack", "report"),
    "machine/measured/logs.py": ("calibrate",),
    "mpi/questions/gpudirect/question.py": ("model messages",),
    "mpi/questions/messages/question.py": ("model messages",),
    "mpi/questions/network/question.py": ("model network",),
    "mpi/replay/messages.py": ("model messages",),
    "papers/models/cxl/chain.py": ("model chain",),
    "papers/models/dag/supernodes.py": ("model dag",),
    "papers/models/dgemm/question.py": ("model dgemm",),
    "papers/models/memory/question.py": ("model memory",),
    "papers/models/node/additive.py": ("model additive",),
    "papers/models/node/integration.py": ("model integration",),
    "papers/models/node/question.py": ("model integration",),
    "papers/models/node/nvprof_summary.py": ("model additive",),
    "papers/models/node/nvprof_additive.py": ("model additive",),
    "papers/models/ssi/question.py": ("model ssi",),
    "papers/row_slack/binned_slack.py": ("slack",),
    "projection/elsewhere/network.py": ("project",),
    "projection/model.py": ("project", "model additive"),
    "projection/project.py": ("project", "report"),
    "projection/run.py": ("project",),
    "questions/cores/question.py": ("cores",),
    "questions/cores/runs.py": ("cores",),
    "questions/distance/question.py": ("slack",),
    "questions/sharing/pairs.py": ("model sharing",),
    "questions/sharing/question.py": ("model sharing",),
    "questions/sharing/surface.py": ("model sharing",),
    "questions/sweep/grid.py": ("sweep",),
    "questions/sweep/question.py": ("sweep",),
    "questions/sweep/tables.py": ("sweep",),
    "questions/transfers/datasheet.py": ("transfers",),
    "questions/transfers/question.py": ("transfers",),
    "questions/validate/cases.py": ("validate",),
    "recorder/measuring.py": ("calibrate",),
    "recorder/opencl.py": ("record",),
    "recorder/opencl_layer.py": ("record",),
    "recorder/run.py": ("record",),
    "recorder/toolchain.py": ("record",),
    "show/terminal/console.py": ("project",),
    "show/terminal/gate.py": ("project",),
    "show/terminal/options.py": ("inspect", "project"),
    "show/terminal/output.py": ("project",),
    "show/terminal/projections.py": ("project",),
    "show/terminal/tables.py": ("model link",),
    "trace/merge/merge.py": ("merge",),
    "trace/window.py": ("inspect", "project"),
}


def named(text: str) -> Iterator[tuple[str, str]]:
    """Each option of ours that a text names, with the verb before it: empty where none is."""
    verbs = sorted(options(), key=len, reverse=True)
    for clause in re.split(r"[;.] ", text):
        for found in OPTION.finditer(clause):
            before = clause[: found.start()]
            verb = next((v for v in verbs if v and re.search(rf"turnbuckle {v}\b", before)), "")
            if found[0] not in ("--help", "--debug") and (verb or not OTHERS.search(before)):
                yield found[0], verb


def all_advice() -> dict[str, str]:
    """Every advice there is: of each finding, in words for any recorder and for each."""
    return {
        f"{code} {form}": advised([finding(code)], form)[0].advice
        for code in register()
        for form in ("", *FORMATS)
    }


def test_advice_of_findings_names_the_verb_of_an_option() -> None:
    wrong = [
        f"{c}: {option} of {verb or 'no verb'}"
        for c, text in all_advice().items()
        for option, verb in named(text)
        if not verb or option not in options()[verb]
    ]
    assert not wrong


def test_advice_names_the_options_of_the_recorder_at_hand_alone() -> None:
    own = ("nsys", "nvprof", "rocprof", "rocprofv3")
    programs = {**{name: {name} for name in own}, "nsys_stats": {"nsys"}, "rocpd": {"rocprofv3"}}
    for word, text in recording_advice().items():
        for form in FORMATS:
            told = recording_advice(form)[word]
            theirs = {
                o[1]
                for o in re.finditer(r"\b(nsys|nvprof|rocprof|rocprofv3)\b[^;,]* --?[a-z]", told)
            }
            assert told == text or theirs <= programs.get(form, set()), (word, form)
    assert not any("--" in text for word, text in recording_advice().items() if word != "calls")
    for form in ("otf2", "kineto", "dumpi"):
        (unmatched,) = advised([finding("A311")], form)
        assert "nsys" not in unmatched.advice and "--trace" not in unmatched.advice
    assert "nsys profile --trace=cuda,mpi" in advised([finding("A311")], "nsys")[0].advice
    rows = csv.DictReader(
        (PACKAGE / "foundation" / "schema" / "recorders.csv")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    assert {row["format"] for row in rows} - {""} <= set(FORMATS)


def texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts below a node and their lines; what is worked out stands as FILE."""
    if isinstance(node, ast.JoinedStr):
        yield (
            node.lineno,
            "".join(str(v.value) if isinstance(v, ast.Constant) else "FILE" for v in node.values),
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    else:
        for below in ast.iter_child_nodes(node):
            yield from texts(below)


def fixes(path: Path) -> Iterator[tuple[int, str]]:
    """The texts that follow ``fix=`` in a module, by line."""
    for call in nodes(path):
        for keyword in call.keywords if isinstance(call, ast.Call) else ():
            if keyword.arg == "fix":
                yield from texts(keyword.value)


@cache
def verbs_of(module: str) -> tuple[str, ...]:
    """The verbs that a module's fixes are printed by."""
    if module in VERBS:
        return VERBS[module]
    here = f"turnbuckle.{module.removesuffix('.py').replace('/', '.')}:"
    of_questions = [
        name for name, entry in entries("questions").items() if entry.place.startswith(here)
    ]
    return tuple(of_questions) or (("report", "demo") if module == "page/command.py" else ())


MODULES = sorted(
    p.relative_to(PACKAGE).as_posix()
    for p in PACKAGE.rglob("*.py")
    if "fix=" in p.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", MODULES)
def test_fixes_name_options_that_their_verb_has(module: str) -> None:
    wrong = []
    for line, text in fixes(PACKAGE / module):
        for option, verb in named(text):
            verbs = (verb,) if verb else verbs_of(module)
            # a verb's own module may hold several verbs: one of them has it; a module below them
            # prints it for all
            have = [option in options()[v] for v in verbs]
            several = (
                module.endswith("command.py")
                or module.startswith("show/terminal/")
                or module.startswith("papers/models/node/")
            )
            if not (any(have) if several else have and all(have)):
                wrong.append(f"line {line}: {option} of {' or '.join(verbs) or 'no verb'}: {text}")
    assert not wrong


@cache
def raised() -> dict[str, tuple[str, ...]]:
    """Case of an error -> the modules that call something with it."""
    found: dict[str, set[str]] = {name: set() for name in registers()}
    for path in modules():
        arguments = [
            argument for node in nodes(path) if isinstance(node, ast.Call) for argument in node.args
        ]
        for argument in arguments:
            for _, text in texts(argument):
                if text in found:
                    found[text].add(path.relative_to(PACKAGE).as_posix())
    return {name: tuple(sorted(places)) for name, places in found.items()}


def test_texts_of_errors_name_options_that_their_verb_has() -> None:
    wrong = set()
    for name, texts in registers().items():
        for option, verb in (pair for text in texts for pair in named(text)):
            for module in raised()[name] or ("",):
                verbs = (verb,) if verb else verbs_of(module) or tuple(options())
                if not any(option in options()[v] for v in verbs):
                    wrong.add(f"{name}: {option} of {' or '.join(verbs[:4])}")
    assert not wrong
