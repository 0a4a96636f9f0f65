"""The report's own methods at added distance: nothing changes without it, and a run made by hand is
what each prints by hand.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from rows import call, on_device, profile_of

from turnbuckle.cli import run as cli_run
from turnbuckle.papers.models.at_distance import METHODS
from turnbuckle.projection.run import Run
from turnbuckle.questions.validate.card import shipped_groups, shipped_in_words
from turnbuckle.questions.validate.cases import find

US = 1_000
ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "src" / "turnbuckle" / "examples"
#: Turns of the run made by hand, and the length of one: 2 us launch, 3 us until the kernel of 10 us
#: begins, a wait that ends 1 us after it.
TURNS, TURN = 20, 20 * US


@pytest.fixture(scope="module")
def loop() -> Run:
    """Launch, kernel, wait, and 4 us of the host, twenty times over."""
    api, kernels = [], []
    for n in range(TURNS):
        at = n * TURN
        api += [
            call(at, at + 2 * US, n + 1),
            call(at + 2 * US, at + 16 * US, name="cudaDeviceSynchronize"),
        ]
        kernels.append(on_device(at + 5 * US, at + 15 * US, n + 1))
    return Run.of(profile_of(api=api, kernels=kernels), source="h100-sxm5")


@pytest.mark.parametrize("name", [name for name in METHODS if name != "agochart"])
def test_without_distance_nothing_changes(name: str, loop: Run) -> None:
    assert METHODS[name](loop)(0.0, 1.0) == pytest.approx(loop.profile.seconds, rel=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_farther_is_never_faster(name: str, loop: Run) -> None:
    seconds = METHODS[name](loop)
    times = [seconds(delay, 1.0) for delay in (0.0, 1e-6, 1e-5, 1e-4, 1e-3)]
    assert times == sorted(times) and times[-1] > times[0]


def test_each_method_is_what_its_law_says_by_hand(loop: Run) -> None:
    delay, measured = 100e-6, loop.profile.seconds
    launch, wait, kernel, latency = 2e-6, 14e-6, 10e-6, 5e-6
    slower = (latency + delay) / latency
    told = {name: method(loop)(delay, 1.0) for name, method in METHODS.items()}
    assert told["ssi, added"] == pytest.approx(measured + TURNS * 2 * delay)
    assert told["ssi"] == pytest.approx(measured * (kernel + 2 * delay) / kernel)
    # a kernel begins the latency after its call, and each wait waits for it: one delay a turn,
    # where two were waited for
    assert told["agochart"] == pytest.approx(measured + TURNS * delay, rel=0.01)
    control, gpu = TURNS * (launch + wait), TURNS * kernel
    counted = control + gpu + max(measured - gpu - control, 0.0)
    assert told["equation 4"] == pytest.approx(
        measured * (counted + control * (slower - 1)) / counted
    )
    assert told["equation 4, waits once"] == pytest.approx(measured + TURNS * launch * (slower - 1))
    # what shows is the time from a launch to its kernel; a wait lies beside the kernel that it waits
    # for, and has no lambda
    assert told["additive"] == pytest.approx(measured + TURNS * latency * (slower - 1))


def test_slower_copies_change_nothing_where_nothing_is_copied(loop: Run) -> None:
    for name, method in METHODS.items():
        seconds = method(loop)
        assert seconds(0.0, 10.0) == pytest.approx(seconds(0.0, 1.0)), name


def test_every_program_whose_calls_were_delayed_is_asked_by_the_report_too() -> None:
    asked = {
        case.name: [ask.model for ask in case.asks]
        for case in find([], ROOT / "validation" / "cases")
    }
    assert {name for name, models in asked.items() if "distance" in models} == {
        n for n, models in asked.items() if "published" in models
    }
    cases = {g.model: g.cases for g in shipped_groups() if g.kind == "distance"}
    assert {cases[name] for name in METHODS} == {cases["timeline"]} == {cases["sum"]}


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("ssi", "model ssi {run} --link 25GB/s --now 2cm --no-cache"),
        ("equation 4", "model additive {run} --lambda control=0.1 --no-cache"),
        ("equation 4", "project --totals gpu=1,control=1,data=1,cpu=1,mpi=1 --lambda control=0.1"),
        ("additive", "project {run} --model additive --lambda control=0.1 --no-cache"),
        (
            "agochart",
            "model sharing {run} --law agochart --latency 1us,1ms --bandwidth 16GB/s --runs 1 "
            "--no-cache",
        ),
    ],
)
def test_a_verb_says_how_far_off_its_method_was(
    model: str, asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = asked.format(run=EXAMPLES / "dgemm-like-synthetic.sqlite").split()
    assert cli_run.run(words) == 0
    said = shipped_in_words("distance", model)
    assert said and said in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "asked",
    [
        "model sharing {} --latency 1us,1ms --bandwidth 16GB/s --runs 1",
        "project {} --model additive --lambda control=0.1 --replay timeline",
    ],
)
def test_another_law_or_replay_is_not_judged_as_the_reports(
    asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = asked.format(EXAMPLES / "dgemm-like-synthetic.sqlite").split()
    assert cli_run.run([*words, "--no-cache"]) == 0
    assert "checked against" not in capsys.readouterr().out
