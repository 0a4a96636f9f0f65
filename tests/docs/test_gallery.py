"""The gallery has every figure as it is drawn now."""

from __future__ import annotations

import pytest
from runs import read_once
from scripts import script

from turnbuckle.foundation import registry

gallery = script("docs/gallery.py")
#: Answers with figures -> one that stands in the gallery; accuracy has a page of its own, since no
#: measurements of others ship.
DRAWN = {
    "project": "the-report-breakdown",
    "distance": "the-report-slack",
    "surface": "the-report-surface",
    "whatif": "edits-of-the-program-edits",
    "suite": "a-mix-of-programs-suite-map",
    "pool": "gpus-to-share-pool-fewest",
    "transfers": "copies-on-other-nodes-transfers-by-size",
    "cores": "cores-a-gpu-cores",
    "sweep": "sweeps-sweep-run-over-mode",
    "sharing surface": "several-runs-behind-one-link-sharing",
    "messages": "messages-between-gpus-messages-by-size",
}


def test_each_answer_with_figures_is_there() -> None:
    assert DRAWN.keys() | {"validate"} == set(registry.entries("figures"))
    assert [
        name for name in DRAWN.values() if not (gallery.PICTURES / f"{name}.svg").exists()
    ] == []


def test_numbers_may_differ_by_rounding_and_nothing_else() -> None:
    assert gallery.alike("<path d='M1.0,200'/>", "<path d='M1.4,201'/>")
    assert not gallery.alike("<path d='M1.0,200'/>", "<path d='M1.0,210'/>")
    assert not gallery.alike("<text>faster</text>", "<text>slower</text>")


@pytest.mark.slow
def test_the_gallery_is_current() -> None:
    with read_once():
        assert gallery.stale() == [], "run: python docs/gallery.py"
