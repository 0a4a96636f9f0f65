"""Simulators of the ECP report, from their printed results (Austin et al. 2021): SSI (4.4, 5.6,
7.6) and AgoChart (4.7, 5.5, 7.5).

Neither can be run again: SSI's quanta and transmission delays and AgoChart's traces are not
published.  Their printed results are compared with the laws of run time over a latency
(`turnbuckle.papers.models.bound.affine`):

SSI         all seven pairs of benefit and penalty lie on T(x) = A (1 + r x): one number was measured for each pair, not two
AgoChart    two of three penalties are below what their gain forces, if they are what the report says of disaggregation
"""

from __future__ import annotations

from collections.abc import Iterator

from turnbuckle.foundation.units import parse
from turnbuckle.papers.ecp.tables import PAPER as TABLES
from turnbuckle.papers.models.bound.affine import bound_on, farthest, least_penalty
from turnbuckle.papers.models.ssi.question import LIGHT
from turnbuckle.papers.numbers import (
    Interval,
    Paper,
    Recomputed,
    judged,
    not_printed,
    overlap,
    printed,
    stated,
    swept,
)

#: Numbers that the report prints of its simulators (``ecp/simulators.csv``); their summary is in
#: ``ecp/tables.csv``.
PAPER = Paper("ecp/simulators")
SSI, AGOCHART = ("SW4Lite", "MiniVite", "QuickSilver", "Laghos"), ("HACC", "LAMMPS", "OpenMC")


def recompute() -> list[Recomputed]:
    """Return every number of the two simulators: printed, recomputed, verdict."""
    return [*_agochart(), *_ssi()]


def stretch() -> Interval:
    """Return k, SSI's longest latency over today's: 16 in Table 13, 50 over 3 units of delay in
    section 7.6; the value is their mean.
    """
    table = PAPER.number("SSI", "stretch of the latency").value
    delays = (
        PAPER.number("SSI", "propagation delay", "longest").value
        / PAPER.number("SSI", "propagation delay", "now").value
    )
    return Interval((table + delays) / 2, min(table, delays), max(table, delays))


def implied_penalty(benefit: Interval) -> Interval:
    """Return the penalty that a benefit of SSI implies, if its run time is affine in the delay."""
    return swept(lambda b, k: float(bound_on(k, 0, 1, b)), benefit, stretch())


def table_link(app: str) -> str:
    """Return the link whose benefit and penalty Table 13 repeats: the text has both links, the
    table one number.
    """
    for link, text in PAPER.texts(app, "benefit").items():
        pairs = (
            ("benefit", "CPU-GPU integration", text),
            ("penalty", "disaggregation penalty", PAPER.text(app, "penalty", link)),
        )
        if all(
            overlap(printed(number), TABLES.number(app, column, "Table 13"))
            for _, column, number in pairs
        ):
            return link
    return "neither"


def _ssi() -> Iterator[Recomputed]:
    k = stretch()
    for app in SSI:
        for link, benefit in PAPER.texts(app, "benefit").items():
            penalty = implied_penalty(printed(benefit))
            note = (
                f"inferred: run time affine in the delay, (1 + (b - 1) k) / b with k of {k.low:g} "
                f"to {k.high:.1f}; the report prints no law"
            )
            yield judged(
                f"R.SSI.{app}.{link}", PAPER.text(app, "penalty", link), penalty, note=note
            )
    links = {app: table_link(app) for app in SSI if len(PAPER.texts(app, "benefit")) > 1}
    by_link = {
        link: [app for app in ("SW4Lite", "QuickSilver", "MiniVite") if links[app] == link]
        for link in ("PCIe4", "NVLink2")
    }
    yield stated(
        "R.SSI.T13",
        "one link",
        "; ".join(f"{', '.join(apps)}: {link}" for link, apps in by_link.items() if apps),
        len(set(links.values())) == 1,
    )
    yield _propagation()
    missing = (
        "transmission delays, quanta and queue lengths are not printed, and the times stand in "
        "Figs 24 to 27 only"
    )
    yield not_printed("R.SSI.abs", "-", missing)


def _propagation() -> Recomputed:
    """Compare the delay per message of a 1 cm link by the report's lengths with that by its
    ratios.
    """
    link = "NVLink2"
    by_length = PAPER.number("SSI", "length of the link", link).value * 1e-2 / LIGHT
    per_byte, per_call = [], []
    for app in SSI:
        benefits = PAPER.texts(app, "benefit")
        added = parse(f"{PAPER.text(app, 'time')} us", "s") * (
            float(benefits.get(link, benefits.get("both", "1"))) - 1.0
        )
        per_byte.append(added / float(PAPER.text(app, "bytes")))
        per_call.append(added / float(PAPER.text(app, "calls")))
    low, high = min(per_call) / by_length, max(per_call) / by_length
    return stated(
        "R.SSI.phys",
        f"{by_length * 1e9:.3f} ns/msg",
        f"{min(per_byte) * 1e9:.2f}..{max(per_byte) * 1e9:.2f} ns per BYTE",
        min(per_call) <= 1.02 * by_length,
        note=(
            "its gains need that much a byte (Table 7 read per call); as totals they are "
            f"{low:.0f} to {high:.0e} times "
            f"{by_length * 1e9:.3f} ns a message: propagation was charged byte after byte"
        ),
    )


def latencies() -> tuple[float, float, float]:
    """Return AgoChart's latencies [s]: the target of integration, the baseline, ten times the
    baseline.
    """
    near, now, longest = (
        parse(f"{PAPER.text('AgoChart', 'latency', place)} us", "s")
        for place in ("near", "now", "longest")
    )
    return near, now, longest


def forced_penalty(app: str) -> Interval:
    """Return the least penalty at the longest latency that an application's gain allows, as run
    time is convex in latency.
    """
    gain = TABLES.number(app, "CPU-GPU integration", "Table 13")
    return swept(lambda b: float(least_penalty(b, *latencies())), gain)


def farthest_for(app: str) -> float:
    """Return the largest latency [s] at which an application's printed penalty is compatible with
    its gain.
    """
    near, now, _ = latencies()
    gain, penalty = (
        TABLES.number(app, c, "Table 13").value
        for c in ("CPU-GPU integration", "disaggregation penalty")
    )
    return float(farthest(gain, penalty, near, now))


def _agochart() -> Iterator[Recomputed]:
    near, now, _ = latencies()
    missing = (
        "the traces of host-GPU requests are not published, nor is the latency of the "
        "disaggregated case"
    )
    yield not_printed("R.5.5", "various", missing)
    for app in AGOCHART:
        gain, penalty = (
            TABLES.number(app, c, "Table 13")
            for c in ("CPU-GPU integration", "disaggregation penalty")
        )
        forced = forced_penalty(app)
        holds = penalty.high >= forced.low
        note = (
            "the law is not printed (run time convex in latency), and no gain sets no bound: any "
            "penalty fits"
        )
        if not holds:
            rounded = float(farthest(gain.low, penalty.high, near, now))
            note = (
                "run time is convex in latency, so the gain from 100 to 10 us bounds the penalty "
                "at 1 ms from below; "
                f"the penalty printed allows {farthest_for(app) * 1e6:.0f} us at most "
                f"({rounded * 1e6:.0f} us with its rounding)"
            )
        yield stated(
            f"R.AGO.{app}",
            TABLES.text(app, "disaggregation penalty", "Table 13"),
            f">= {forced.low:.2f}",
            holds,
            note=note,
        )
