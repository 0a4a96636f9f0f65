"""A machine file that ``machines check`` calls wrong is refused by every verb that reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran
from refusals import refused

from turnbuckle.machine import all_machines, load
from turnbuckle.machine.check import believed

HEAD = '[machine]\nname = "ours"\ntitle = "T"\nsummary = "S"\nyear = 2024\ncoupling = "fabric"\n'
ORIGIN = 'error = "10 %"\nnature = "assumption"\nsource = "a guess"\n'
FAR = HEAD + f'base = "source"\n[change.link.h2d.latency.add]\nvalue = "60 s"\n{ORIGIN}'
FLAWED = {
    "added latency": FAR,
    "scaled bandwidth": HEAD
    + f'base = "source"\n[change.link.h2d.bandwidth.scale]\nvalue = "1e9"\n{ORIGIN}',
    "set latency": HEAD + f'base = "gh200"\n[launch.latency]\nvalue = "1 h"\n{ORIGIN}',
    "own bandwidth": HEAD + f'[link.h2d.bandwidth]\nvalue = "1 EB/s"\n{ORIGIN}',
}
VERBS = {
    "project": ("project", SAMPLE, "--on"),
    "project --source": ("project", SAMPLE, "--on", "self", "--source"),
    "transfers": ("transfers", SAMPLE, "--on"),
    "whatif": ("whatif", SAMPLE, "--on"),
    "report": ("report", SAMPLE, "-o", "page.html", "--on"),
    "suite": ("suite", SAMPLE, "--on"),
    "slack": ("slack", SAMPLE, "--mode", "remoting", "--machine"),
    "sweep": ("sweep", SAMPLE, "--model", "project", "--axis", "draws=0,10", "--set"),
    "export": ("export", SAMPLE, "--to", "json", "-o", "run.json", "--on"),
    "calibrate": ("calibrate", SAMPLE, "--base"),
}


@pytest.mark.parametrize("what", FLAWED)
def test_a_number_that_cannot_be_meant_is_refused(
    what: str, turnbuckle: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "ours.toml").write_text(FLAWED[what])
    refused("M021", load, str(tmp_path / "ours.toml"))
    checked, asked = (
        turnbuckle("machines", "check", "ours.toml"),
        turnbuckle("project", SAMPLE, "--on", "ours.toml"),
    )
    assert checked.code == 2 and "M020" in checked.err and "error: l" in checked.out
    assert (
        asked.code == 2
        and "error[M021]" in asked.err
        and "ours.toml" in asked.err
        and "not plausible" in asked.err
    )


@pytest.mark.parametrize("verb", VERBS)
def test_in_every_verb(verb: str, turnbuckle: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "ours.toml").write_text(FAR)
    *words, option = VERBS[verb]
    ran = turnbuckle(*words, option, "on=ours.toml" if option == "--set" else "ours.toml")
    assert ran.code in (2, 3) and "M021" in ran.err + ran.out, (ran.code, ran.err)


def test_a_base_that_is_wrong_is_wrong_in_all_that_stands_on_it(tmp_path: Path) -> None:
    (tmp_path / "ours.toml").write_text(FAR)
    (tmp_path / "upon.toml").write_text(
        HEAD.replace("ours", "upon") + f'base = "ours.toml"\n[node.gpus]\nvalue = "4"\n{ORIGIN}'
    )
    refused("M021", load, str(tmp_path / "upon.toml"))


def test_the_catalogue_is_sound() -> None:
    assert [believed(machine).name for machine in all_machines()] == [
        machine.name for machine in all_machines()
    ]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--set", "link.h2d.latency=1e300s"), "U005"),
        (("--set", "link.h2d.latency=60s"), "M021"),
        (("--axis", "link.h2d.latency=60s,70s"), "M021"),
        (("--set", "alpha=1e308"), "A081"),
    ],
)
def test_a_setting_beyond_reason_is_refused(
    words: tuple[str, ...], code: str, turnbuckle: Callable[..., Ran]
) -> None:
    ran = turnbuckle("sweep", SAMPLE, "--model", "project", "--axis", "on=gh200,mi300a", *words)
    assert ran.code in (2, 3) and code in ran.err + ran.out, (ran.code, ran.err)


@pytest.mark.parametrize("value", ["1e308", "1e-308", "1e4", "nan", "0"])
def test_a_lambda_has_the_range_of_alpha(value: str, turnbuckle: Callable[..., Ran]) -> None:
    for verb in (("project", SAMPLE, "--model", "additive"), ("model", "additive", SAMPLE)):
        ran = turnbuckle(*verb, "--lambda", f"data={value}")
        assert ran.code == 2 and "A004" in ran.err
    printed = turnbuckle(
        "project", "--totals", "gpu=1,control=1,data=1,cpu=1,mpi=1", "--lambda", f"data={value}"
    )
    assert printed.code == 2 and "A004" in printed.err
