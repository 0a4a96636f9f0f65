"""Numbers of Khetawat et al., *Predicting GPUDirect Benefits for HPC Workloads* (GPUDirect in
TraceR-CODES), recomputed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from turnbuckle.foundation.units import parse
from turnbuckle.mpi.questions.gpudirect.cost import (
    SEED_G,
    break_even_bytes,
    copy_bandwidth,
    largest_gain,
    run_time_increase,
)
from turnbuckle.papers.numbers import (
    Interval,
    Paper,
    Recomputed,
    exact,
    judged,
    not_printed,
    printed,
    stated,
    swept,
)

PAPER = Paper("gpudirect/numbers")
_EDR = "12.5 GB/s"  # InfiniBand EDR, 100 Gbit/s, one direction
_INCREASE = "communication increase of 6 ranks a node"


def recompute() -> list[Recomputed]:
    """Return every number of the paper: printed, recomputed, verdict."""
    return [*_paths(), *_ranks_a_node(), *_network(), *_statements()]


def _paths() -> Iterator[Recomputed]:
    per_byte = PAPER.number("GPU", "copy cost")
    bandwidth = swept(
        lambda c: copy_bandwidth(replace(SEED_G, copy_per_byte=c * 1e-9)) * 1e-9, per_byte
    )
    yield judged("G.T1.bw", PAPER.text("node", "NVLink bandwidth"), bandwidth)
    one_copy, two_copies = (
        break_even_bytes(SEED_G),
        break_even_bytes(replace(SEED_G, copies=2, pins=2)),
    )
    never = break_even_bytes(replace(SEED_G, copies=2, pins=1)) == 0.0
    smallest = PAPER.text("validation", "smallest size judged")
    # the paper judges its model from this power of two on
    holds = (
        one_copy == two_copies
        and never
        and parse(f"{smallest} KiB", "B") / 2 < one_copy <= parse(f"{smallest} KiB", "B")
    )
    yield stated("G.T1.be", f"{smallest} KB", f"{one_copy:.0f} B / {two_copies:.0f} B", holds)
    wire = parse(_EDR, "B/s")
    gain, doubled = 100 * largest_gain(wire), 100 * largest_gain(wire, replace(SEED_G, copies=2))
    seen = [float(t) for t in PAPER.texts("SW4lite", "largest gain").values()]
    yield stated("G.obs.sp", f"{max(seen):g} %", f"{gain:.1f} / {doubled:.0f} %", max(seen) <= gain)


def _increase(app: str, ranks: str, end: str) -> Interval:
    """Return the run time increase [%] for either end of a communication increase, over the printed
    shares of communication.
    """
    shares = PAPER.texts(app, "share of communication")
    low, high = printed(shares["smallest"]), printed(shares["largest"])
    at_32 = Interval(low.value, low.low, high.high)  # the shares of other rank counts
    share = exact(high.value) if app == "SW4lite" and ranks == "256" else at_32
    return swept(
        lambda s, c: 100 * run_time_increase(s / 100, c / 100),
        share,
        PAPER.number(app, _INCREASE, f"{ranks}, {end}"),
    )


def _ranks_a_node() -> Iterator[Recomputed]:
    note = (
        "the formula is not printed: share of communication times the lower of the two printed "
        "increases of communication"
    )
    for app, short in (("SW4lite", "SW4"), ("Minisweep", "MS")):
        for ranks in ("32", "256"):
            text = PAPER.text(app, "run time increase of 6 ranks a node", ranks)
            increase = _increase(app, ranks, "lower")
            middle = (increase.low + increase.high) / 2
            yield judged(f"G.{short}.{ranks}", text, replace(increase, value=middle), note=note)
            if (app, ranks) == ("SW4lite", "256"):
                upper = _increase(app, ranks, "upper")
                within = upper.value <= printed(text).high
                yield stated("G.SW4.hi", f"up to {text} %", f"{upper.value:.0f} %", within)


def _network() -> Iterator[Recomputed]:
    leaf = int(PAPER.text("network", "nodes")) / int(PAPER.text("network", "leaf switches"))
    # the links down are the taper times the links up, of 30 ports per switch
    taper = PAPER.text("network", "tapering")
    ports = leaf * (1 + 1 / float(taper))
    whole = float(round(leaf))
    yield judged("G.leaf", f"{whole:.0f}", leaf, within=(whole, whole))
    up = round(ports - leaf)
    yield judged(
        "G.taper",
        taper,
        leaf / up,
        note=f"{up} links up are inferred, from switches of {ports:.0f} ports",
    )


def _statements() -> Iterator[Recomputed]:
    most, seen = PAPER.text("AmgX", "gain up to"), PAPER.number("AmgX", "gain", "largest")
    rounded = round(seen.value) == int(most)
    yield stated("G.obs.amgx", f"{most} %", f"{seen.value:g} %", rounded)
    claimed, strong = (
        PAPER.text("LULESH", "gain up to", "Observation 1"),
        PAPER.text("LULESH", "gain up to", "strong scaling"),
    )
    yield stated("G.lulesh", f"{claimed} %", f"{strong} %", float(strong) <= float(claimed))
    yield not_printed("G.F3", "-", "the measured times are only drawn, in Fig 3")
    yield not_printed("G.F5", "-", "the traces are not published")
