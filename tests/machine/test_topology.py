"""Topologies of nodes: what each tool prints, what doctor says of it, and hostile files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import Ran
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from strategies import FEWER
from topologies import HWLOC, NVIDIA, ROCM

from turnbuckle.machine.measured.topology import Gpu, Topology, cpu_list, in_words, read
from turnbuckle.machine.measured.xml_text import parsed

Turnbuckle = Callable[..., Ran]


def written(place: Path, text: str) -> Path:
    place.write_text(text, encoding="utf-8")
    return place


def test_nvidias_matrix(tmp_path: Path) -> None:
    left, right = cpu_list("0-31,64-95"), cpu_list("32-63,96-127")
    assert read(written(tmp_path / "topo.txt", NVIDIA)) == Topology(
        "nvidia-smi topo -m", (Gpu("GPU0", 0, left), Gpu("GPU1", 1, right))
    )


def test_a_matrix_without_numa_columns(tmp_path: Path) -> None:
    text = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-11\nGPU1\tPHB\t X \tN/A\n"
    assert read(written(tmp_path / "topo.txt", text)).gpus == (
        Gpu("GPU0", None, cpu_list("0-11")),
        Gpu("GPU1"),
    )


def test_amds_lines(tmp_path: Path) -> None:
    assert read(written(tmp_path / "topo.txt", ROCM)) == Topology(
        "rocm-smi --showtopo", (Gpu("GPU0", 3), Gpu("GPU1"))
    )


def test_hwlocs_tree_and_the_slowest_link_on_the_way(tmp_path: Path) -> None:
    node = read(written(tmp_path / "node.xml", HWLOC))
    assert node.tool == "hwloc" and node.allowed == cpu_list("0-3")
    assert node.gpus == (
        Gpu("GPU0", 0, cpu_list("0-3"), pytest.approx(31.507692e9)),  # type: ignore[arg-type]
        Gpu("GPU1", 1, cpu_list("4-7"), pytest.approx(15.753846e9)),  # type: ignore[arg-type]
    )


def test_doctor_says_the_side_and_the_link(turnbuckle: Turnbuckle, tmp_path: Path) -> None:
    written(tmp_path / "node.xml", HWLOC)
    ran = turnbuckle(
        "doctor", "--node-topology", "node.xml", "--source", "a100-pcie-40", "--format", "csv"
    )
    assert ran.code == 0, ran.err
    lines = [line for line in ran.out.splitlines() if "GPU" in line]
    assert not any("A48" in line for line in lines if "GPU0" in line)
    assert ["A484" in "".join(lines), "A485" in "".join(lines)] == [True, True]
    assert "nodeofsecrets17" not in ran.out
    ran = turnbuckle("doctor", "--node-topology", "node.xml", "--cpus", "4-7", "--format", "csv")
    assert [line.split(",")[1] for line in ran.out.splitlines() if "A484" in line] == [
        "GPU0"
    ] and "A485" not in ran.out


def test_doctor_holds_a_list_of_cpus_against_nvidias_matrix(
    turnbuckle: Turnbuckle, tmp_path: Path
) -> None:
    written(tmp_path / "topo.txt", NVIDIA)
    ran = turnbuckle("doctor", "--node-topology", "topo.txt", "--cpus", "40-47", "--format", "csv")
    assert [line.split(",")[1] for line in ran.out.splitlines() if "A484" in line] == ["GPU0"]
    assert (
        "A484"
        not in turnbuckle(
            "doctor", "--node-topology", "topo.txt", "--cpus", "0,40", "--format", "csv"
        ).out
    )
    assert turnbuckle("doctor", "--node-topology", "topo.txt", "--cpus", "40-").code == 2


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "A487"),
        ("GPU0 is a word", "A487"),
        ("<html></html>", "A487"),
        ("<topology>", "A486"),
        ("<", "A486"),
        ('<!DOCTYPE t [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><topology>&b;</topology>', "A486"),
        (
            '<!DOCTYPE t [<!ENTITY x SYSTEM "file:///etc/hostname">]><topology>&x;</topology>',
            "A486",
        ),
        ("<topology>" + "<object>" * 300 + "</object>" * 300 + "</topology>", "A486"),
    ],
)
def test_hostile_files_are_refused(tmp_path: Path, text: str, code: str) -> None:
    refused(code, read, written(tmp_path / "node.xml", text))


def test_a_named_type_of_document_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "hwloc2.dtd").write_text('<!ENTITY x "never">', encoding="utf-8")
    assert parsed(written(tmp_path / "node.xml", HWLOC)).name == "topology"


@pytest.mark.parametrize("text", ["", "1-", "5-3", "0-99999999", "-1", "1;2", "65536"])
def test_lists_of_cpus_that_are_none(text: str) -> None:
    refused("A488", cpu_list, text)


@pytest.mark.hypothesis
@given(st.sets(st.integers(0, 300), min_size=1))
@FEWER
def test_lists_of_cpus_come_back(cpus: set[int]) -> None:
    assert cpu_list(in_words(cpus)) == cpus


@pytest.mark.hypothesis
@given(st.binary(max_size=300), st.sampled_from([NVIDIA, ROCM, HWLOC]), st.integers(0, 2000))
@FEWER
def test_no_damage_gets_past_an_error(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, text: str, where: int
) -> None:
    from turnbuckle.foundation.errors import UsageError

    place = tmp_path_factory.mktemp("topology") / "node.txt"
    place.write_bytes(text.encode()[:where] + noise + text.encode()[where + len(noise) :])
    try:
        read(place)
    except UsageError as error:
        assert error.code in ("A486", "A487", "A488")
