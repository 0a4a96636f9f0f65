"""Packages of third parties that are broken in every way: each is named, and the others go on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran, all_of

#: What a module of a package does when it is imported.
AT_IMPORT = {
    "raises": "raise RuntimeError('no licence')",
    "missing": "import a_package_that_nobody_has",
    "ends": "import sys\nsys.exit(0)",
    "hangs": "import time\ntime.sleep(3600)",
    "wrong": "def (",
    "bare": "",
}
#: Objects of a package that imports: what an entry point of each kind may name by mistake.
OBJECTS = '''
import sys, time, itertools
import numpy as np
from pathlib import Path
from turnbuckle.projection.model import Charge

def every(p): return p.kind == "kernel"
def price(value): return lambda p, machine, source: value(p) if machine is not source else np.zeros(int(every(p).sum()))
def each(number): return price(lambda p: np.full(int(every(p).sum()), number))
def of(seconds, covers=every, **more): return Charge("toll", covers, seconds, "difference", **more)
def broken(p): raise ZeroDivisionError("no price")

c_sound = of(each(1e-6))
c_nan, c_negative, c_infinite = of(each(float("nan"))), of(each(-1.0)), of(each(float("inf")))
c_short, c_text, c_none_like = of(price(lambda p: np.zeros(5))), of(price(lambda p: "dear")), of(price(lambda p: {}))
c_raises, c_ends, c_hangs = of(price(broken)), of(price(lambda p: sys.exit(3))), of(price(lambda p: time.sleep(3600)))
c_mask, c_mask_short = of(each(1e-6), lambda p: p.count), of(each(1e-6), lambda p: np.ones(3, bool))
c_anchor, c_needs = Charge("toll", every, each(0.0), "somehow"), of(each(0.0), needs=("gpu.beauty",))
c_type = 17

def p_endless(kernels, source, target): return ((str(k), 1.0, 0.1) for k in itertools.count())
def p_raises(kernels, source, target): raise OSError("no table")
def p_rows(kernels, source, target): return [("a", "fast")]
def p_none(kernels, source, target): return None
def p_hangs(kernels, source, target): time.sleep(3600)
def p_ends(kernels, source, target): sys.exit()

class r_sniff_raises:
    def sniff(head, path): raise IndexError("short")
class r_sniff_hangs:
    def sniff(head, path): time.sleep(3600)
class r_sniff_missing: pass
class r_reads_nothing:
    def sniff(head, path): return path.name == "of.theirs"
    def read(path, **more): return None
class r_read_raises:
    def sniff(head, path): return path.name == "raises.theirs"
    def read(path, **more): raise KeyError("row")

def m_nowhere(): return Path("/nowhere/at/all")
def m_number(): return 7
def m_raises(): raise ValueError("no folder")
def m_damaged(): return Path(__file__).parent / "machines"

def verb() -> int:
    """Count to one."""
    print("one")
    return 0
def verb_raises() -> int:
    """Fail."""
    raise ValueError("lost count")
def verb_ends() -> int:
    """End."""
    sys.exit(0)
'''
#: Within this a broken package has to answer [s]; the sound ones here take milliseconds.
SOON = (
    "from turnbuckle.foundation import registry\n"
    "registry.SOON_SECONDS = registry.WORK_SECONDS = 1.0\n"
)
SOON += (
    "registry.Entry.call.__defaults__ = (1.0,)\n"
    "import turnbuckle.projection.elsewhere.foreign as f\nf.WORK_SECONDS = 1.0\n"
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder on the path of packages."""
    for name, text in AT_IMPORT.items():
        (tmp_path / f"lab_{name}.py").write_text(text)
    (tmp_path / "lab.py").write_text(OBJECTS)
    (tmp_path / "machines").mkdir()
    (tmp_path / "machines" / "ours.toml").write_text("[machine\n")
    return tmp_path


def named(site: Path, **points: str) -> None:
    """Write down entry points as pip does: kind -> lines."""
    about = site / "lab-1.0.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "".join(f"[turnbuckle.{kind}]\n{lines}\n" for kind, lines in points.items())
    )


def asked(site: Path, *lines: Sequence[str]) -> list[Ran]:
    return all_of(
        lines,
        start=SOON,
        cwd=site,
        env={"PYTHONPATH": str(site), "XDG_CACHE_HOME": str(site / "cache")},
    )


def fault(ran: Ran, code: str, *words: str) -> None:
    """Demand a coded error that names the package and the entry."""
    assert ran.code == 2 and f"error[{code}]" in ran.err, (words, ran)
    for word in ("lab 1.0", *words):
        assert word in ran.err, ran.err


PROJECT = (
    "project",
    str(SAMPLE),
    "--on",
    "cdi-row-link",
    "--draws",
    "0",
    "--format",
    "json",
    "--no-cache",
)
BAD_PRICES = ("nan", "negative", "infinite", "short", "text", "none_like", "mask", "mask_short")


def test_a_charge_is_a_time_for_each_activity(site: Path) -> None:
    names = ["sound", *BAD_PRICES, "raises", "ends", "hangs", "anchor", "needs", "type"]
    named(site, charges="\n".join(f"{name} = lab:c_{name}" for name in names))
    sound, *others = asked(site, *([*PROJECT, "--charge", name] for name in names))
    assert json.loads(sound.out)["projections"][0]["penalty"] > 1.0
    for name, ran in zip(names[1:], others, strict=True):
        fault(ran, *(("A505", "toll") if name in BAD_PRICES else ("A503", name)))


def test_a_predictor_gives_rows_and_an_end(site: Path) -> None:
    names = ["endless", "raises", "rows", "none", "hangs", "ends"]
    named(site, predictors="\n".join(f"{name} = lab:p_{name}" for name in names))
    for name, ran in zip(
        names,
        asked(site, *([*PROJECT, "--on", "gh200", "--kernels", name] for name in names)),
        strict=True,
    ):
        fault(ran, "A503", name)


@pytest.mark.parametrize("how", list(AT_IMPORT))
def test_a_package_that_cannot_be_imported_is_left_out(how: str, site: Path) -> None:
    """The same module behind each door: readers and machines go on without it, the others refuse
    when asked by name.
    """
    point = f"lab_{how}:thing"
    named(
        site,
        readers=f"theirs = {point}",
        machines=f"theirs = {point}",
        charges=f"toll = {point}",
        questions=f"count = {point}",
    )
    doctor, project, charged, count, page, machines = asked(
        site,
        ["doctor", "--format", "json"],
        PROJECT,
        [*PROJECT, "--charge", "toll"],
        ["count"],
        ["--help"],
        ["machines", "list"],
    )
    bad = [check["detail"] for check in json.loads(doctor.out)["checks"] if check["state"] == "bad"]
    assert len(bad) == 4 and all("of lab 1.0 (A503: " in detail for detail in bad)
    (found,) = (f for f in json.loads(project.out)["findings"] if f["code"] == "P243")
    assert (
        found["count"] >= 2
        and "readers theirs of lab 1.0" in found["detail"]
        and "machines theirs of lab 1.0" in found["detail"]
    )
    fault(charged, "A503", "toll")
    fault(count, "A503", "count")
    assert page.code == 0 and "project" in page.out and "A503" in page.out
    assert machines.code == 0 and "gh200" in machines.out


def test_readers_that_fail_leave_the_file_to_the_others(site: Path) -> None:
    names = ("sniff_raises", "sniff_hangs", "sniff_missing", "reads_nothing", "read_raises")
    named(site, readers="\n".join(f"{name} = lab:r_{name}" for name in names))
    for name in ("of.theirs", "raises.theirs"):
        (site / name).write_bytes(b"their format")
    project, nothing, raised = asked(
        site, PROJECT, ["inspect", "of.theirs"], ["inspect", "raises.theirs"]
    )
    detail = next(f["detail"] for f in json.loads(project.out)["findings"] if f["code"] == "P243")
    assert all(f"readers {name} of lab 1.0" in detail for name in names[:3])
    fault(nothing, "A503", "reads_nothing", "Trace")
    fault(raised, "A503", "read_raises", "KeyError")


@pytest.mark.parametrize("name", ["nowhere", "number", "raises", "damaged"])
def test_machines_that_cannot_be_read_leave_the_catalogue_whole(name: str, site: Path) -> None:
    named(site, machines=f"theirs = lab:m_{name}")
    project, machines = asked(site, PROJECT, ["machines", "list"])
    assert [f["count"] for f in json.loads(project.out)["findings"] if f["code"] == "P243"] == [1]
    assert machines.code == 0 and "gh200" in machines.out


def test_a_verb_says_whose_it_is_where_it_fails(site: Path) -> None:
    named(
        site,
        questions="count = lab:verb\nlost = lab:verb_raises\nend = lab:verb_ends\nnumber = lab:c_type",
    )
    count, lost, ended, number, page = asked(
        site, ["count"], ["lost"], ["end"], ["number"], ["--help"]
    )
    assert (count.code, count.out) == (0, "one\n")
    fault(lost, "A503", "lost", "ValueError: lost count")
    fault(ended, "A503", "end", "SystemExit")
    fault(number, "A503", "number")
    assert "Count to one" in page.out


def test_damaged_metadata_of_a_package_is_named(site: Path) -> None:
    named(site, readers="theirs = lab:verb")
    (site / "lab-1.0.dist-info" / "entry_points.txt").write_text("[turnbuckle.readers]\ntheirs\n")
    (project,) = asked(site, PROJECT)
    assert project.code == 0, project.err
    assert [f["count"] for f in json.loads(project.out)["findings"] if f["code"] == "P243"] == [1]
