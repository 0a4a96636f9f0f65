"""What the numbers on CXL identify, and the chain that ORNLapp is."""

from __future__ import annotations

import pytest

from turnbuckle.papers.ecp.cxl import PAPER, recompute, share
from turnbuckle.papers.models.cxl.chain import Chain, Link, Played, Stage, play
from turnbuckle.papers.models.cxl.cost import pipeline_seconds


def test_the_identification_says_what_it_found() -> None:
    found = {r.id: r for r in recompute()}
    assert found["R.CXL.ts"].recomputed == "696..751 | 734..739 | 737..745 -> 736.7..739.1 ns"
    assert (
        found["R.CXL.scan"].recomputed
        == "18 of 144: both at MPS 256, both at MPS 512, write at MPS 256"
    )


def ornlapp() -> Played:
    """Replay ORNLapp as a chain, as far as it is printed: kernels and transfers of 99 items, no
    time between them.

    The GPU's copies are not printed, so equation 9 gives them.  A direct link between FPGA and GPU
    is CXL model 2.
    """

    def seconds(quantity: str, scale: float = 1e-3) -> float:
        return float(PAPER.text("ORNLapp", quantity)) * scale

    items = int(PAPER.text("ORNLapp", "FPGA kernels"))
    write, read = (
        float(PAPER.text("ORNLapp", f"{direction} size")) * 2**20 for direction in ("write", "read")
    )
    stages = (
        Stage("read", "host", 0.0),
        Stage("unpack", "fpga", seconds("slowest stage of the pipeline", 1.0), {"read": write}),
        Stage("integrate", "gpu", seconds("GPU kernel time in all", 1.0) / items, {"unpack": read}),
        Stage("sum", "host", 0.0, {"integrate": 8.0}),
    )
    links = {
        ("host", "fpga"): Link("time", time=seconds("write time")),
        ("fpga", "host"): Link("time", time=seconds("read time")),
        ("host", "gpu"): Link("pcie"),
        ("fpga", "gpu"): Link("cxl2", share=share()),
    }
    return play(Chain(stages, links, items, name="ORNLapp"))


def test_ornlapp_reaches_what_equation_12_allows_and_not_what_is_printed() -> None:
    played = ornlapp()
    pipelined = next(f for f in played.flows if f.through == "host" and f.pipelined)
    stage = float(PAPER.text("ORNLapp", "slowest stage of the pipeline"))
    assert pipelined.seconds == pytest.approx(pipelined.first_seconds + 98 * stage, rel=1e-12)
    assert pipelined.seconds < float(pipeline_seconds([stage] * 3, 99)), (
        "only the longest stage takes that long"
    )
    gain = played.today.seconds / min(f.seconds for f in played.flows)
    assert 1.09 < gain < 1.12, (
        "the rest of the printed 1.48 is time that the paper does not break down"
    )
