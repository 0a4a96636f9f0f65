"""``turnbuckle model fabric``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import Ran, document

from turnbuckle.replay.contention.network_file import bundled

Run = Callable[..., Ran]
OURS = """[network]
name = "ours"
title = "a [bold]test[/bold]"
bandwidth = "25 GB/s"
hop = "0.5 us"
source = "measured in March"
[node.gpus]
gpus = 4
link = "32 GB/s"
cards = "gpu"
per_switch = 4
"""


def test_all_networks(turnbuckle: Run) -> None:
    ran = turnbuckle("model", "fabric")
    assert (
        ran.code == 0
        and all(f"\n{name} " in f"\n{ran.out}" for name in bundled())
        and "Lassen as simulated" in ran.out
    )
    about = document(turnbuckle("model", "fabric", "--format", "json"))
    assert [n["name"] for n in about["networks"]] == bundled()
    lassen = about["networks"][bundled().index("lassen")]
    assert (
        lassen["injection_bandwidth"] / lassen["bisection_bandwidth"] == 1.5 and lassen["gpus"] == 4
    )
    lines = turnbuckle("model", "fabric", "--format", "csv").out.splitlines()
    assert len(lines) == 1 + len(bundled()) and lines[0].startswith(
        "name,title,machine,nodes,gpus,cards,bandwidth,shape"
    )
    checked = turnbuckle("model", "fabric", "--check").out
    assert all(f"{name}  " in checked for name in bundled())


@pytest.mark.parametrize("name", bundled())
def test_one_network(turnbuckle: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Fits a small terminal: no number is cut."""
    monkeypatch.setenv("COLUMNS", "80")
    ran = turnbuckle("model", "fabric", name)
    assert ran.code == 0, ran.err
    assert "…" not in ran.out and "all at once" in ran.out and "longest route" in ran.out
    assert max(len(line.rstrip()) for line in ran.out.splitlines()) <= 80
    about = document(turnbuckle("model", "fabric", name, "--format", "json"))
    assert (
        about["schema_version"] == 2
        and about["facts"]
        and all(f["source"] for f in about["facts"])
        and not about["idle_wires"]
    )
    assert not any(p.startswith("share") for p in about["node"]["parts"])


def test_ways_and_sharing(turnbuckle: Run) -> None:
    about = document(turnbuckle("model", "fabric", "cdi-rack", "--format", "json"))
    way = next(w for w in about["ways"] if (w["source"], w["target"]) == ("host 0", "gpu 3"))
    assert way["wires"] == ["host 0 -> switch 0", "switch 0 -> switch 1", "switch 1 -> gpu 3"]
    assert way["seconds"] == pytest.approx(0.26e-6) and way["bandwidth"] == 31.508e9
    shared = next(t for t in about["together"] if t["what"] == "every host to its GPUs")
    assert shared["sharing"] == 8 and shared["bandwidth"] == pytest.approx(31.508e9 / 8)
    lines = turnbuckle("model", "fabric", "cdi-rack", "--format", "csv").out.splitlines()
    assert lines[0] == "source,target,wires,bandwidth,seconds" or set(lines[0].split(",")) == {
        "source",
        "target",
        "wires",
        "bandwidth",
        "seconds",
    }
    assert len(lines) == 1 + 16**2


def test_a_file_of_ones_own(turnbuckle: Run, tmp_path: Path) -> None:
    (tmp_path / "ours.toml").write_text(OURS, encoding="utf-8")
    ran = turnbuckle("model", "fabric", "ours.toml", "--nodes", "8")
    assert (
        ran.code == 0
        and "a [bold]test[/bold]" in ran.out
        and "8 nodes, 8 NICs" in ran.out
        and "8 GB/s" in ran.out
    )
    assert "ours  8 numbers, 0 remarks" in turnbuckle("model", "fabric", "ours.toml", "--check").out
    about = document(turnbuckle("model", "fabric", "ours.toml", "--nodes", "8", "--format", "json"))
    assert (
        about["nodes"] == 8
        and about["provenance"]["inputs"][0]["file"] == "ours.toml"
        and about["remarks"] == []
    )


def test_files_that_say_little(turnbuckle: Run, tmp_path: Path) -> None:
    """No node, a torus; a node without GPUs."""
    head = OURS.split("[node")[0]
    (tmp_path / "bare.toml").write_text(
        f'{head}[network.shape]\nkind = "torus"\ndims = [4, 4]\n', encoding="utf-8"
    )
    ran = turnbuckle("model", "fabric", "bare.toml", "--nodes", "16")
    assert (
        ran.code == 0
        and "torus, 4 x 4, 1 card a router" in ran.out
        and "longest route 6 links, 3 us" in ran.out
    )
    assert "96 links between nodes and 16 wires inside" in ran.out and "one part each" in ran.out
    node = (
        '[node]\nparts = ["host 0", "host 1"]\ncards = ["host 0"]\n[[node.wires]]\n'
        'between = ["host 0", "host 1"]\nbandwidth = "20 GB/s"\n'
    )
    (tmp_path / "cpu.toml").write_text(head + node, encoding="utf-8")
    ran = turnbuckle("model", "fabric", "cpu.toml")
    assert (
        ran.code == 0
        and "every host to another node" in ran.out
        and "GPU" not in ran.out
        and "longest route" not in ran.out
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("lasen",), "A050"),
        (("none.toml",), "A061"),
        (("bad.toml",), "A050"),
        (("lassen", "--nodes", "811"), "A052"),
        (("lassen", "--nodes", "0"), "A052"),
        (("lassen", "--nodes", "-3"), "A052"),
        (("--nodes", "3"), "A052"),
        (("lassen", "-o", "x.txt"), "A010"),
        (("binary.toml",), "A061"),
    ],
)
def test_questions_that_cannot_be(
    turnbuckle: Run, tmp_path: Path, words: tuple[str, ...], code: str
) -> None:
    (tmp_path / "bad.toml").write_text(OURS.replace("per_switch", "per_swich"), encoding="utf-8")
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)))
    ran = turnbuckle("model", "fabric", *words)
    assert ran.code != 0 and code in ran.err and not ran.out
    if words == ("bad.toml",):
        assert "per_switch" in ran.err
