"""Sparse triangular solves of the ECP report (Austin et al. 2021), sections 4.1, 5.4, 7.4 and 8.4:
their printed numbers, recomputed.

The model runs on any triangular matrix (`turnbuckle.papers.models.dag.question`).  The report's own
answers cannot be recomputed: its matrices are not published and its bandwidth curves are only
drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnbuckle.papers.numbers import Paper, Recomputed, judged, not_printed, swept

PAPER = Paper("ecp/dag")


def recompute() -> list[Recomputed]:
    """Return every number of the solve: printed, recomputed, verdict."""
    return [*_blocks(), *_puts(), _applications()]


def _blocks() -> Iterator[Recomputed]:
    processors, warps, warps_per_block = (
        float(PAPER.text("V100", q))
        for q in ("multiprocessors", "warps a multiprocessor", "warps a block")
    )
    blocks = processors * warps / warps_per_block
    yield judged("R.8.4.blocks", PAPER.text("V100", "blocks resident"), blocks)
    peak, few = (
        PAPER.number("V100", "memory bandwidth"),
        float(PAPER.text("V100", "supernodes at full bandwidth")),
    )
    for name, end, count in (("lo", "lower", blocks), ("hi", "upper", few)):
        bandwidth = peak.times(1 / count)
        yield judged(
            f"R.8.4.{name}",
            PAPER.text("V100", "bandwidth of a block", end),
            bandwidth,
            note=f"{count:.0f} blocks share it",
        )


def _puts() -> Iterator[Recomputed]:
    device, host = (
        float(PAPER.text("put", "time", f"started by the {who}")) for who in ("GPU", "host")
    )
    yield judged("R.5.4.put", PAPER.text("put", "ratio"), device / host)
    left = PAPER.number("put", "synchronisation left")
    speedup = swept(lambda rest: device / (host + rest), left)
    tenth = (
        f"a tenth of the {device - host:g} us between the two puts is {(device - host) / 10:g} us"
    )
    yield judged(
        "R.5.4.int",
        PAPER.text("put", "speedup"),
        speedup,
        note=f"{device:g} us over {host:g} + {left.value:g} us; {tenth}",
    )


def _applications() -> Recomputed:
    gains, losses = PAPER.texts("SpTRSV", "speedup"), PAPER.texts("SpTRSV", "slowdown")
    integrated = "/".join(f"{text}x" for place, text in gains.items() if "integrated" in place)
    merged = "/".join(f"{text}x" for place, text in gains.items() if "one node" in place)
    printed_texts = f"{integrated}, {'/'.join(f'{text}x' for text in losses.values())}, {merged}"
    missing = (
        "the bandwidth of puts over their size is only drawn (Fig 18a), neither the factored "
        "matrices nor their block layout are "
        "published; turnbuckle model dag runs the model on any triangular matrix"
    )
    return not_printed("R.5.4.app", printed_texts, missing)
