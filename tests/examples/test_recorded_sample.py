"""The recording that ships: it is what its README says, and tells nothing of where it was made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from turnbuckle.examples import RECORDED, SAMPLE, sample
from turnbuckle.projection.run import Run
from turnbuckle.recorder.run import SUFFIX
from turnbuckle.trace.readers.recorded import reader as recorded


def test_it_is_read_whole_and_is_a_run_of_200_sweeps() -> None:
    with sample(RECORDED) as path:
        assert path.name.endswith(SUFFIX) and path.stat().st_size < 60_000
        seen = Run.read(path, use_cache=False)
        trace = recorded.read(path)
    assert (
        trace.kernels.height == 220
        and trace.copies.height == 22
        and trace.facts["recorder"]["dropped"] == 0
    )
    assert trace.findings == [] and 0.06 < seen.profile.seconds < 0.07
    assert set(trace.text(trace.kernels)) == {"sweep", "residual"}


def test_it_names_no_place_and_nobody() -> None:
    with sample(RECORDED) as path:
        facts = [
            line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")
        ]
    assert not [
        line
        for line in facts
        if "/" in line or "@" in line or re.search(r"\b(home|user|root|localhost)\b", line)
    ]
    words = {line[1:].split(" ")[0] for line in facts}
    assert words.isdisjoint({"environment", "arguments", "host", "user"}) and "program" in words


def test_the_readme_names_every_sample() -> None:
    with sample() as path:
        assert path.name == SAMPLE
        folder = Path(path).parent
    text = (folder / "README.md").read_text(encoding="utf-8")
    for place in folder.iterdir():
        if place.suffix in (".sqlite", ".csv"):
            assert place.name in text
    with pytest.raises(ValueError, match="no sample is called"), sample("../cli/app.py"):
        pass
