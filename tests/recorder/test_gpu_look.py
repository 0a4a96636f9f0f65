"""The first look at a device: on the machine that stands in everything is as it should be, and what
is planted wrong is called so.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from recorder_bench import Bench

GPU = Path(__file__).resolve().parents[2] / "validation" / "gpu"
sys.path.insert(0, str(GPU))

import look  # type: ignore[import-not-found]  # noqa: E402

Verdicts = dict[str, tuple[str, str]]


@pytest.fixture
def looked(
    bench: Bench, dependences: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Verdicts]:
    """Verdicts by what they are of, without the machine's own and PyTorch's; settings of the
    stand-in as keywords.
    """

    def at(**settings: str) -> Verdicts:
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        built = {
            "recorder": str(bench.library),
            "dependences": str(dependences),
            "cublas": "no",
            "cupti": "CUPTI",
        }
        monkeypatch.setattr(look, "ITERATIONS", 20)
        monkeypatch.setattr(look, "HERE", tmp_path)  # there is no torch_programs.py
        monkeypatch.setattr(look, "lengths", lambda folder: iter(()))
        monkeypatch.setattr(look, "facts", lambda built: iter(()))
        (tmp_path / "built.json").write_text(json.dumps(built), encoding="utf-8")
        assert look.main([str(tmp_path / "built.json"), str(tmp_path / "out")]) == 1, (
            "PyTorch is missing"
        )
        found = json.loads((tmp_path / "out" / "look.json").read_text(encoding="utf-8"))["verdicts"]
        assert (tmp_path / "out" / "look.txt").read_text(encoding="utf-8").count("\n") == len(found)
        return {
            v["what"]: (v["verdict"], v["found"])
            for v in found
            if not v["what"].startswith("torch")
        }

    return at


def test_all_is_well_where_all_is_well(looked: Callable[..., Verdicts]) -> None:
    found = looked()
    assert {what: how for what, how in found.items() if how[0] == "BAD"} == {} and len(found) > 40
    assert "kernels 1280 of 1280" in found["launch: as the program did"][1]
    assert found["delayed.after: 20000 ns, 50 iterations"] == (
        "ok",
        found["delayed.after: 20000 ns, 50 iterations"][1],
    )
    assert (
        "3250 calls of 3250, each held 20000 ns"
        in found["delayed.after: 20000 ns, 50 iterations"][1]
    )
    assert (
        found["launch.cupti: clocks"][0] == "note"
        and "are of both" in found["launch: driver calls in runtime calls"][1]
    )


@pytest.mark.parametrize(
    ("settings", "bad"),
    [
        (
            {"STANDIN_TIMELESS": "1"},
            {"launch.monotonic: kernels and calls", "launch.monotonic: records"},
        ),
        ({"STANDIN_NO_KIND": "38"}, {"launch: records", "launch: as the program did"}),  # waits
        ({"STANDIN_REFUSE": "39"}, {"launch: runs", "copy: runs", "delayed.after: runs"}),
        ({"STANDIN_VERSION": "120000"}, {"launch: runs"}),
    ],
)
def test_what_is_wrong_is_called_so(
    looked: Callable[..., Verdicts],
    settings: dict[str, str],
    bad: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "STANDIN_REFUSE" not in settings:
        # the verdicts in question are those of one program
        run = look.run
        nothing = (0, 0.0, [], "", None, {})
        monkeypatch.setattr(
            look,
            "run",
            lambda name, *of: (
                run(name, *of) if name.startswith("launch") else look.Ran(name, *nothing)
            ),
        )
    found = looked(**settings)
    assert bad <= {what for what, (how, _) in found.items() if how == "BAD"}, found
    if "STANDIN_TIMELESS" in settings:
        assert found["launch.cupti: kernels and calls"][0] == "ok", (
            "CUPTI's own clock is not touched by that defect"
        )
    if "STANDIN_REFUSE" in settings:
        assert "MULTIPLE_SUBSCRIBERS" in found["launch: runs"][1]


def test_a_program_that_hangs_is_told(tmp_path: Path) -> None:
    one = look.run("sleep", ["sleep", "60"], tmp_path, {}, 0.2)
    assert one.code is None and look._ended("sleep", one).how == "BAD"
    gone = look.run("gone", [str(tmp_path / "nothing")], tmp_path, {})
    assert gone.code is None and "No such file" in gone.errors
