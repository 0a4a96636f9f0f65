"""Reports of recordings that no coupling can be asked of: what was recorded, no empty sections, and
no zeros for what was not.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import Page

from turnbuckle.page.html import RECORDED, SECTIONS, page
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.run import Run

pytestmark = pytest.mark.shared

#: Recordings of the device alone, and of MPI alone, below the shared traces.
FILES = {
    "device": "rocprof/laplacian_rocprof_mi200/results.db",
    "mpi": "dumpi/bgp_7rank/testbgp.meta",
}


@pytest.fixture(params=FILES)
def only(request: pytest.FixtureRequest, shared: Path) -> tuple[str, Answer]:
    return request.param, Run.read(shared / "traces" / FILES[request.param], use_cache=False)


def test_sections_that_would_say_nothing_are_left_out(only: tuple[str, Answer]) -> None:
    found = Page(page(only[1]))
    titles = [title for key, title in SECTIONS if key in RECORDED]
    assert [found.with_id(key) for key, _ in SECTIONS] == [
        ["section"] if key in RECORDED else [] for key, _ in SECTIONS
    ]
    assert [tag for tag, _ in found.tags].count("h2") == len(titles) and all(
        title in found.text for title in titles
    )
    assert "Left out." not in found.text and "was projected." not in found.text


def test_what_was_not_recorded_is_not_none(only: tuple[str, Answer]) -> None:
    kind, answer = only
    words = Page(page(answer)).text
    assert words.count("not recorded") >= 2
    if kind == "device":
        assert (
            "in the rest nothing was recorded" in words and "the host did was not recorded" in words
        )
        assert "host work, nothing else" not in words and "Launches and waits" not in words
        assert "The recording holds no GPU activity" not in words
    else:
        assert (
            "the application's own host work" in words
            and "The recording holds no GPU activity" in words
        )
