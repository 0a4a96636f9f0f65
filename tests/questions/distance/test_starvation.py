"""What idle gaps cost: nothing where nothing changes, and what the curve says where a device runs
dry.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from refusals import refused

import turnbuckle as tb
from turnbuckle.foundation.errors import UnitError, UsageError
from turnbuckle.projection.order import prepared
from turnbuckle.questions.distance.distance import MODEL
from turnbuckle.questions.distance.question import tolerate
from turnbuckle.questions.distance.starvation import Starvation, read_starvation, starved_seconds
from turnbuckle.replay.timeline import no_change

MILLISECOND = Starvation(np.array([0.0, 1e-3]), np.array([0.0, 1e-4]))


@pytest.fixture(scope="module")
def seen() -> tb.Run:
    with tb.sample() as path:
        return tb.read(path, use_cache=False)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_curve_is_read_with_its_units(tmp_path: Path) -> None:
    curve = read_starvation(
        written(
            tmp_path / "idle.csv",
            "idle gap, cost\n# measured twice\n100 us, 2 us\n1 ms, 0.015 ms\n",
        )
    )
    assert curve.idle.tolist() == pytest.approx(
        [0, 1e-4, 1e-3]
    ) and curve.cost.tolist() == pytest.approx([0, 2e-6, 1.5e-5])
    assert curve(np.array([0.0, 5e-5, 1.0])).tolist() == pytest.approx([0, 1e-6, 1.5e-5]), (
        "held beyond the last line"
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "A066"),
        ("idle gap, cost\n", "A066"),
        ("h\n1 ms\n", "A066"),
        ("h\n1 ms, 2 us, 3 us\n", "A066"),
        ("h\n2 ms, 2 us\n1 ms, 3 us\n", "A066"),
        ("h\n1 ms, 3 us\n2 ms, 2 us\n", "A066"),
        ("h\n1, 2 us\n", "U001"),
    ],
)
def test_a_curve_that_cannot_be(tmp_path: Path, text: str, code: str) -> None:
    with pytest.raises((UsageError, UnitError)) as caught:
        read_starvation(written(tmp_path / "idle.csv", text))
    assert caught.value.code == code and "idle.csv" in caught.value.where


def test_a_file_that_is_not_there_or_longer_than_any_curve(tmp_path: Path) -> None:
    refused("A061", read_starvation, tmp_path / "none.csv")
    longer = "".join(f"{k} us, 1 us\n" for k in range(1, 100_000))
    error = refused(
        "A061", read_starvation, written(tmp_path / "idle.csv", f"idle gap, cost\n{longer}")
    )
    assert "more than 1 MiB" in error.found, "a part of it is not the curve"


def test_the_recorded_run_has_its_gaps_in_it_already(seen: tb.Run) -> None:
    replay = prepared(seen.profile, MODEL).timeline
    assert replay is not None
    row = no_change(len(replay.run)).values[None, :]
    assert starved_seconds(seen.profile, replay, row, MILLISECOND)[0] == float(
        replay.seconds_at(row)[0]
    )


def test_a_device_that_runs_dry_costs_what_the_curve_says(seen: tb.Run) -> None:
    """Slack opens gaps; each kernel behind one pays, at most what the curve says of the longest gap
    there can be.
    """
    plain = seen.distance("api", draws=0)
    found = tolerate(seen, "api", draws=0, starvation=MILLISECOND)
    assert found.starved is not None and plain.starved is None
    assert float(found.starved(0.0)) == found.measured
    above = found.starved.seconds - found.curve(found.starved.at)
    kernels = found.run.profile.of("kernel").height
    # at great distance the calls hide what the kernels take
    assert (above >= -1e-9).all() and above.max() > 0 and above.max() <= kernels * 1e-4 * 1.01
    assert found.as_dict()["curve"][-1]["starved_seconds"] == pytest.approx(
        float(found.starved.seconds[-1])
    )
