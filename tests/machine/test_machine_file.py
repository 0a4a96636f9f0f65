"""Machine files: what loads, and what is said, at which line and column, about what does not."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.foundation.errors import MachineError
from turnbuckle.machine import catalog, load, schema
from turnbuckle.machine.check import check
from turnbuckle.machine.load import InvalidMachine, examine, read
from turnbuckle.machine.machine import OF_A_CHIP

HEAD = """\
[machine]
name = "ours"
title = "Our node"
summary = "What we measured."
year = 2024
coupling = "pcie"
"""

GOOD = (
    HEAD
    + """
[link.h2d.bandwidth]
value = "63 GB/s"
nature = "spec"
source = "PCI Express 5.0"

[link.h2d]
latency = { value = "1.9 us", error = "10 %", nature = "measured", source = "our benchmark", note = "pinned" }

[gpu.count]
value = 4
nature = "spec"
source = "the data sheet"
"""
)


def write(folder: Path, text: str) -> Path:
    path = folder / "ours.toml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def flaws(folder: Path, text: str) -> list[tuple[str, str, str]]:
    """(code, line:column, everything said) for each flaw."""
    machine, problems = examine(write(folder, text), "ours.toml")
    assert machine is None and problems
    assert all(p.where.startswith("ours.toml") for p in problems)
    return [(p.code, p.where.removeprefix("ours.toml:"), "\n".join(p.lines())) for p in problems]


def only_flaw(folder: Path, text: str, code: str, place: str) -> str:
    found = flaws(folder, text)
    assert [(c, w) for c, w, _ in found] == [(code, place)]
    return found[0][2]


def test_a_good_file(tmp_path: Path) -> None:
    machine = load(str(write(tmp_path, GOOD)))
    assert (
        machine.name == "ours"
        and machine.year == 2024
        and machine.file.endswith("ours.toml")
        and len(machine.sha256) == 64
    )
    latency = machine.get("link.h2d.latency")
    assert latency is not None and (latency.value, latency.error, latency.unit, latency.nature) == (
        1.9e-6,
        0.1,
        "s",
        "measured",
    )
    assert latency.note == "pinned"
    bandwidth = machine.get("link.h2d.bandwidth")
    assert bandwidth is not None and bandwidth.value == 63e9 and bandwidth.error == 0
    assert machine.get("gpu.count").value == 4  # type: ignore[union-attr]


def test_a_manner_is_a_word_without_an_error(tmp_path: Path) -> None:
    layer = (
        HEAD.replace('"pcie"', '"remoting"\nbase = "source"')
        + '\n[remoting.launch]\nvalue = "VALUE"\nnature = "measured"\nsource = "a ping"\n'
    )
    machine = load(str(write(tmp_path, layer.replace("VALUE", "serial"))))
    (change,) = machine.changes
    assert change.set is not None and (change.set.value, change.set.error, str(change.set)) == (
        3.0,
        0.0,
        "serial",
    )
    assert check(machine) == []
    said = only_flaw(tmp_path, layer.replace("VALUE", "serail"), "M009", "10:9")
    assert "not a manner of crossing" in said and "did you mean serial" in said
    assert "one of local, sent, waits, serial" in only_flaw(
        tmp_path, layer.replace("VALUE", "2 us"), "M009", "10:9"
    )


def test_a_number_without_a_source_does_not_load(tmp_path: Path) -> None:
    text = HEAD + '\n[gpu.fp64]\nvalue = "9.7 TFLOP/s"\nnature = "spec"\n'
    assert "a number without a source is refused" in only_flaw(tmp_path, text, "M007", "8:6")
    assert "M007" in only_flaw(tmp_path, text + 'source = "  "\n', "M007", "11:1")


@pytest.mark.parametrize("bare", ['fp64 = "9.7 TFLOP/s"', "fp64 = 9.7e12", "fp64 = true"])
def test_a_bare_number_is_a_number_without_a_source(tmp_path: Path, bare: str) -> None:
    message = only_flaw(tmp_path, HEAD + f"[gpu]\n{bare}\n", "M007", "8:1")
    assert "fix:" in message and "source =" in message


def test_an_unknown_parameter_suggests(tmp_path: Path) -> None:
    text = HEAD + '\n[link.h2d.bandwith]\nvalue = "63 GB/s"\nnature = "spec"\nsource = "x"\n'
    assert "did you mean link.h2d.bandwidth?" in only_flaw(tmp_path, text, "M005", "8:11")
    assert "did you mean gpu.fp64?" in only_flaw(
        tmp_path, HEAD + "[gpu]\nfp46 = 3\n", "M005", "8:1"
    )
    assert "did you mean link?" in only_flaw(tmp_path, HEAD + "[lonk]\n", "M005", "7:2")


def test_an_unknown_key_suggests(tmp_path: Path) -> None:
    text = (
        HEAD
        + '\n[gpu.fp64]\nvalue = "9.7 TFLOP/s"\nnature = "spec"\nsource = "x"\n  eror = "3 %"\n'
    )
    assert "did you mean error?" in only_flaw(tmp_path, text, "M005", "12:3")
    assert "did you mean coupling?" in "".join(
        m for _, _, m in flaws(tmp_path, HEAD.replace("coupling", "copling"))
    )


def test_all_flaws_are_told_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = """\
    [machine]
    name = "Ours!"
    title = "Our node"
    summary = "What we measured."
    coupling = "pci"
    [gpu.fp64]
    value = "9.7"
    nature = "spec"
    source = "x"
    [gpu.fp32]
    value = "19.5 TB/s"
    nature = "guess"
    source = "x"
    [link]
    h2d = { latency = { value = "2 us", nature = "measured", source = "x" }, speed = 3 }
    [link.d2h.efficiency]
    value = "120 %"
    error = "5 %"
    nature = "measured"
    source = "x"
    [change.slack.call.add]
    value = "1 us"
    error = "5 %"
    nature = "assumption"
    source = "x"
    """
    found = flaws(tmp_path, text)
    assert [(c, w) for c, w, _ in found] == [
        ("M010", "2:8"),
        ("M011", "5:12"),
        ("M009", "7:9"),
        ("M009", "11:9"),
        ("M011", "12:10"),
        ("M006", "15:9"),
        ("M005", "15:74"),
        ("M010", "17:9"),
        ("M014", "21:2"),
    ]
    said = "\n".join(m for _, _, m in found)
    assert (
        "did you mean pcie?" in said
        and "this number has no unit" in said
        and "TB/s is a unit of bandwidth" in said
    )
    with pytest.raises(InvalidMachine, match="M020") as caught:
        read(tmp_path / "ours.toml")
    assert len(caught.value.problems) == 9
    assert caught.value.exit_code == 2
    lines = caught.value.lines()
    assert sum(line.startswith("error[") for line in lines) == 10 and "9 errors" in lines[-2]


@pytest.mark.parametrize(
    ("old", "new", "code", "place"),
    [
        ('title = "Our node"\n', "", "M006", "1:2"),
        ('title = "Our node"', 'title = ""', "M006", "3:9"),
        ('title = "Our node"', "title = 3", "M008", "3:9"),
        ('title = "Our node"', 'title = "\\u001b[31m"', "M010", "3:9"),
        ('name = "ours"', 'name = "source"', "M010", "2:8"),
        ('name = "ours"', 'name = "../ours"', "M010", "2:8"),
        ("year = 2024", "year = true", "M008", "5:8"),
        ("year = 2024", 'year = "2024"', "M008", "5:8"),
        ("year = 2024", "year = 2024\nrecognise = [1]", "M008", "6:13"),
        ("year = 2024", "year = 2024\ncopies_vanish = true", "M007", "6:1"),
        (
            "year = 2024",
            'year = 2024\ncopies_vanish = { value = 1, nature = "spec", source = "x" }',
            "M008",
            "6:27",
        ),
        ('coupling = "pcie"', 'coupling = ["pcie"]', "M011", "6:12"),
        ('value = "63 GB/s"', "value = 63e9", "M008", "9:9"),
        ('value = "63 GB/s"', 'value = "63 GT/s x16"', "M009", "9:9"),
        ('value = "63 GB/s"', 'value = "-63 GB/s"', "M010", "9:9"),
        ('value = "63 GB/s"', 'value = "0 GB/s"', "M010", "9:9"),
        ('value = "63 GB/s"\n', "", "M006", "8:11"),
        ('nature = "spec"\nsource = "PCI', 'nature = "spek"\nsource = "PCI', "M011", "10:10"),
        ('nature = "spec"\nsource = "PCI', 'source = "PCI', "M006", "8:11"),
        ('source = "PCI Express 5.0"', 'source = ["x"]', "M008", "11:10"),
        ('error = "10 %"', 'error = "-1 %"', "M010", "14:39"),
        ('error = "10 %"', 'error = "400 %"', "M010", "14:39"),
        ('error = "10 %"', 'error = "10 us"', "M009", "14:39"),
        ("value = 4", 'value = "four"', "M009", "17:9"),
        ("value = 4", "value = true", "M008", "17:9"),
        ("value = 4", "value = inf", "M009", "17:9"),
    ],
)
def test_one_flaw_one_place(tmp_path: Path, old: str, new: str, code: str, place: str) -> None:
    assert old in GOOD
    only_flaw(tmp_path, GOOD.replace(old, new, 1), code, place)


def test_no_machine_table(tmp_path: Path) -> None:
    only_flaw(tmp_path, "", "M006", "1:1")
    only_flaw(tmp_path, "machine = 3", "M008", "1:11")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[machine]\nname = ours\n", "2:8"),
        ("[machine\n", "1:9"),
        ("a = 1\na = 2\n", "2:1"),
        ('a = "open', "1:10"),
        ("a = \x00", "1:5"),
    ],
)
def test_not_toml(tmp_path: Path, text: str, place: str) -> None:
    only_flaw(tmp_path, text, "M004", place)


def test_changes(tmp_path: Path) -> None:
    text = (
        HEAD
        + """base = "source"

[link.h2d.bandwidth]
value = "63 GB/s"
nature = "spec"
source = "x"

[change.link.h2d.latency]
scale = { value = "2x", error = "5 %", nature = "assumption", source = "x" }
add = { value = "1 us", error = "5 %", nature = "assumption", source = "x", common = "distance" }
"""
    )
    machine = load(str(write(tmp_path, text)))
    assert machine.relative and not machine.parameters
    by_name = {c.parameter: c for c in machine.changes}
    assert by_name["link.h2d.bandwidth"].set.value == 63e9  # type: ignore[union-attr]
    latency = by_name["link.h2d.latency"]
    assert latency.scale is not None and latency.scale.unit == "1" and latency.scale.value == 2
    assert latency.add is not None and latency.add.unit == "s" and latency.add.common == "distance"


@pytest.mark.parametrize(
    ("table", "code", "place", "help"),
    [
        ("[change.link.h2d.latency]\n", "M015", "8:18", "scale or add"),
        ("[change.link.h2d.latancy]\n", "M005", "8:18", "did you mean link.h2d.latency?"),
        ("[change.link.h2d.latency]\nset = 3\n", "M005", "9:1", "write [link.h2d.latency]"),
        ("[change.link.h2d.latency]\nadd = 3\n", "M007", "9:1", "without a source"),
        ("[change]\nlink = 3\n", "M005", "9:1", "did you mean"),
    ],
)
def test_flawed_changes(tmp_path: Path, table: str, code: str, place: str, help: str) -> None:
    found = flaws(tmp_path, HEAD + 'base = "source"\n' + table)
    assert (code, place) == found[0][:2] and help in found[0][2]


def test_a_base_from_the_catalogue_or_beside_the_file(tmp_path: Path) -> None:
    machine = load(str(write(tmp_path, GOOD.replace("year = 2024", 'year = 2024\nbase = "gh200"'))))
    grace = load("gh200")
    assert not machine.relative and machine.changes == () and machine.coupling == "pcie"
    assert machine.parameters["link.h2d.bandwidth"].value == 63e9
    assert machine.parameters["gpu.memory_size"] == grace.parameters["gpu.memory_size"]
    assert machine.lineage == (("gh200.toml", grace.sha256), *grace.lineage)
    (tmp_path / "near.toml").write_text(
        HEAD.replace('"ours"', '"near"') + 'base = "./ours.toml"\n', encoding="utf-8"
    )
    near = load(str(tmp_path / "near.toml"))
    assert near.parameters == machine.parameters and near.lineage[1:] == machine.lineage


CHIP = HEAD.replace('coupling = "pcie"', 'coupling = "pcie"\nchip = "h100-sxm5"')


def test_a_chip_gives_what_the_file_does_not_state(tmp_path: Path) -> None:
    own = '\n[gpu.clock]\nvalue = "1.5 GHz"\nnature = "spec"\nsource = "our power limit"\n'
    machine, other = load(str(write(tmp_path, CHIP + own))), load("h100-sxm5")
    assert (
        machine.value("gpu.clock") == 1.5e9
        and machine.parameters["gpu.fp64"] == other.parameters["gpu.fp64"]
    )
    of_a_chip = {n for n in other.parameters if schema()[n].scope in OF_A_CHIP}
    assert (
        machine.has == of_a_chip
        and "gpu.registers" in of_a_chip
        and "gpu.memory_bandwidth" not in of_a_chip
    )
    assert machine.lineage == ((other.file, other.sha256),)


def test_a_chip_in_the_place_of_the_sources(tmp_path: Path) -> None:
    machine = load(str(write(tmp_path, CHIP.replace("\nchip", '\nbase = "source"\nchip'))))
    target = machine.resolved(load("perlmutter"))
    assert target.value("gpu.fp64") == load("h100-sxm5").value("gpu.fp64")
    assert target.value("link.h2d.bandwidth") == load("perlmutter").value("link.h2d.bandwidth")


@pytest.mark.parametrize(
    ("chip", "code"),
    [("h100", "M013"), ("source", "M013"), ("pcie5-x16", "M013"), ("./ours.toml", "M012")],
)
def test_a_chip_that_is_none(tmp_path: Path, chip: str, code: str) -> None:
    with pytest.raises(MachineError, match=code) as caught:
        load(str(write(tmp_path, CHIP.replace("h100-sxm5", chip))))
    assert caught.value.fix


def test_a_base_that_is_relative_makes_a_relative_machine(tmp_path: Path) -> None:
    text = HEAD + (
        'base = "cdi-rack-link"\n[change.link.h2d.latency.add]\nvalue = "1 us"\n'
        'error = "0 %"\nnature = "assumption"\nsource = "x"\n'
    )
    machine = load(str(write(tmp_path, text)))
    source = load("perlmutter")
    alone = load("cdi-rack-link").resolved(source).parameters["link.h2d.latency"].value
    assert machine.relative
    assert machine.resolved(source).parameters["link.h2d.latency"].value == pytest.approx(
        alone + 1e-6
    )


def test_bases_in_a_ring(tmp_path: Path) -> None:
    for name, base in (("a", "./b.toml"), ("b", "./c.toml"), ("c", "./a.toml")):
        (tmp_path / f"{name}.toml").write_text(
            HEAD.replace('"ours"', f'"{name}"') + f'base = "{base}"\n', encoding="utf-8"
        )
    with pytest.raises(MachineError, match="M012") as caught:
        load(str(tmp_path / "a.toml"))
    assert caught.value.found == "a -> b -> c -> a"


def test_an_unknown_base(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="M013") as caught:
        load(str(write(tmp_path, HEAD + 'base = "perlmuter"\n')))
    assert caught.value.fix == "did you mean perlmutter?"


@pytest.mark.parametrize("path", ["nowhere.toml", "", "a\0.toml", "x" * 5000 + ".toml"])
def test_paths_that_cannot_be_read(tmp_path: Path, path: str) -> None:
    refused("M002", load, f"{tmp_path}/{path}")


def test_files_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"a = 1\n\xff\xfe")
    (tmp_path / "large.toml").write_bytes(b"#\n" * 500_001)
    for name, place in (("binary", ":2:1"), ("large", "")):
        with pytest.raises(MachineError, match="M003") as caught:
            load(str(tmp_path / f"{name}.toml"))
        assert caught.value.where.endswith(f"{name}.toml{place}")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    refused("M002", load, str(tmp_path / "pipe.toml"))


def test_deep_nesting_and_endless_flaws_end(tmp_path: Path) -> None:
    for text in ("a = [\n" + "[\n" * 5000 + "]\n" * 5000 + "]", "a" + ".b" * 100 + " = 1"):
        assert flaws(tmp_path, text)[0][0] == "M004"
    many = HEAD + "".join(f"[gpu.x{i}]\n" for i in range(20_000))
    assert len(flaws(tmp_path, many)) == 50


def test_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read(path).parameters == load(str(write(tmp_path, GOOD))).parameters


def test_the_manuals_examples_load_and_check_clean(tmp_path: Path) -> None:
    manual = (Path(__file__).resolve().parents[2] / "docs" / "machines.md").read_text(
        encoding="utf-8"
    )
    examples = [text.split("```")[0] for text in manual.split("```toml\n")[1:]]
    assert len(examples) >= 3
    for example in examples:
        machine = load(str(write(tmp_path, example)))
        assert check(machine) == []
        assert not machine.resolved(load("perlmutter")).relative


CATALOGUE = [
    (catalog.folder() / f"{n}.toml").read_text(encoding="utf-8")
    for n in ("gh200", "cdi-row-link", "mi300a")
]


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.sampled_from(CATALOGUE), st.data())
def test_damaged_files_are_refused_with_a_code_and_never_crash(
    tmp_path: Path, text: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(text)))
    gone = data.draw(st.integers(0, 40))
    put = data.draw(st.text(alphabet="[]{}=\"'.,#\n\t \\aé0-", max_size=12))
    path = tmp_path / "damaged.toml"
    path.write_text(text[:at] + put + text[at + gone :], encoding="utf-8")
    machine, problems = examine(path, "damaged.toml")
    assert (machine is None) == bool(problems)
    lines = path.read_text(encoding="utf-8").split("\n")
    for problem in problems:
        assert problem.code.startswith("M0") and problem.what
        _, line, column = problem.where.split(":")
        assert 1 <= int(line) <= len(lines) + 1
        assert 1 <= int(column) <= len([*lines, ""][int(line) - 1]) + 2
