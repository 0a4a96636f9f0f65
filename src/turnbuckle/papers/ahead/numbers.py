"""Numbers of AHEAD (Abdelhafez et al., *Projecting Next-Generation Hardware Enhancements on
GPU-Accelerated Systems*), recomputed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from turnbuckle.cost.nvlink import Nvlink
from turnbuckle.cost.packet import Link
from turnbuckle.cost.pcie import RATE, Pcie, line_code, link_bandwidth
from turnbuckle.foundation.units import parse
from turnbuckle.papers.numbers import Paper, Recomputed, exact, judged, not_printed, stated, swept
from turnbuckle.profile.summary.compared import transfer_share
from turnbuckle.questions.transfers.datasheet import wmape

PAPER = Paper("ahead/numbers")
APPS = ("qmcpack", "lammps", "minife", "pennant", "laghos")
_APPROACHES = ("AHEAD", "peak bandwidth", "back of the envelope")
_SUMMIT_LINKS = (
    2  # from a processor to each GPU (OLCF Summit user guide); the paper gives the version only
)


def recompute() -> list[Recomputed]:
    """Return every number of the paper: printed, recomputed, verdict."""
    return [*_shares(), *_pcie(), *_nvlink(), *_packets(), *_errors()]


def _shares() -> Iterator[Recomputed]:
    for app in APPS:
        share = swept(
            lambda k, t: 100 * transfer_share(k, t),
            PAPER.number(app, "kernels"),
            PAPER.number(app, "transfers"),
        )
        yield judged(f"A.T1.{app}", PAPER.text(app, "transfer share"), share)
    shares = [PAPER.number(app, "transfer share") for app in APPS]
    average = swept(lambda *all_of: sum(all_of) / len(all_of), *shares)
    yield judged("A.1.avg", PAPER.text("CORAL-2", "average transfer share"), average)


def _pcie() -> Iterator[Recomputed]:
    lanes = {
        place: text.removeprefix("~")
        for place, text in PAPER.texts("PCIe", "lane bandwidth").items()
    }
    for place, text in lanes.items():
        rate = parse(f"{PAPER.text('PCIe', 'raw bit rate', place)} GHz", "Hz")
        yield judged(
            f"A.T2.gen{place}", text, link_bandwidth(1, rate, line_code(int(place))) * 1e-9
        )
    code = 100 * line_code(3)
    yield judged(
        "A.4A.eta", PAPER.text("PCIe", "efficiency of 128b/130b"), code, note=f"{code:.2f}"
    )
    titan, text = _titan(), PAPER.text("Titan", "PCIe bandwidth")
    yield judged("A.6B.titan", text, titan.raw_bandwidth * 1e-9)
    generation = str(titan.generation)
    # 8e9 * lane is the rate at which a lane without line code has the bandwidth of Table II
    taken = swept(
        lambda lane: link_bandwidth(titan.lanes, 8e9 * lane, line_code(titan.generation)) * 1e-9,
        exact(float(lanes[generation])),
    )
    note = (
        "Table II holds the line code, equation 3 takes it off again; with "
        f"{RATE[titan.generation] * 1e-9:g} GT/s it gives {text}"
    )
    yield judged("A.eq3", text, taken, note=note)
    increase = 100 * (_summit().raw_bandwidth / titan.raw_bandwidth - 1)
    yield judged(
        "A.8.525", PAPER.text("Summit", "increase of CPU-GPU bandwidth over Titan"), increase
    )


def _titan() -> Pcie:
    return Pcie(int(PAPER.text("Titan", "PCIe generation")), int(PAPER.text("Titan", "PCIe lanes")))


def _summit() -> Nvlink:
    return Nvlink(int(PAPER.text("Summit", "NVLink version")), _SUMMIT_LINKS)


def _nvlink() -> Iterator[Recomputed]:
    bits = float(
        sum(int(text) for text in PAPER.texts("NVLink", "bits of the header flit").values())
    )
    yield judged("A.4B.flit", PAPER.text("NVLink", "bits of a flit"), bits)
    text = PAPER.text("NVLink", "efficiency at large transfers")
    large = parse(f"{PAPER.text('NVLink', 'large transfer')} MB", "B")
    efficiency = 100 * float(_summit().efficiency(large, "write"))
    below = float(text) - 1.0
    note = f"{efficiency:.1f}; almost {text} is taken for {below:g} to {text}"
    yield judged("A.7B.nv", text, efficiency, within=(below, float(text)), note=note)


def _packets() -> Iterator[Recomputed]:
    as_printed = Pcie(3, completion="rcb", legacy_headers=True, legacy_mrrs=True)
    mended = replace(as_printed, legacy_mrrs=False)
    byte = [_received(link, 1.0) for link in (as_printed, mended)]
    summit = _received(_summit(), 1.0)
    requests = byte[1] - byte[0] == 0.0
    yield stated(
        "A.eq4.small",
        "MRd + MRRS + CplD + 1",
        f"{byte[0]:.0f} B as printed, {byte[1]:.0f} B without MRRS",
        requests,
        note=f"a request carries no data; NVLink's equation 6 has no such term ({summit:.0f} B)",
    )
    widths = {
        int(bits): int(text)
        for bits, text in PAPER.texts("PCIe", "bytes of overhead of a packet").items()
    }
    full = {bits: Pcie(3, address_bits=bits) for bits in widths}
    same = all(full[bits].request_header == bytes_printed for bits, bytes_printed in widths.items())
    short, long = (full[bits].request_header for bits in sorted(widths))
    completions = {link.completion_header for link in full.values()}
    yield stated(
        "A.hdr",
        "/".join(str(bytes_printed) for _, bytes_printed in sorted(widths.items())),
        f"{short} or {long}; completions {', '.join(map(str, sorted(completions)))}",
        same,
    )


def _received(link: Link, size_bytes: float) -> float:
    return float(link.wire_bytes(size_bytes, "read")[1])


def _errors() -> Iterator[Recomputed]:
    default = {
        who: [float(t) for t in PAPER.texts(who, "WMAPE, default size").values()]
        for who in _APPROACHES
    }
    larger = [float(t) for t in PAPER.texts("AHEAD", "WMAPE, 4 times the size").values()]
    default_sizes = default["AHEAD"]
    average = PAPER.text("Rodinia", "average weighted relative error")
    three, four, both = (
        float(np.mean(default_sizes)),
        float(np.mean(larger)),
        float(np.mean([*default_sizes, *larger])),
    )
    of_means = (three + four) / 2
    note = (
        f"Table IV alone {four:.1f}, all {len(default_sizes) + len(larger)} entries {both:.1f}, "
        f"mean of the two means {of_means:.1f}"
    )
    yield judged("A.abs.23", average, exact(three), note=note)
    yield judged("A.abs.23b", average, exact(of_means), note=f"the nearest reading; {of_means:.1f}")
    ordered = all(a <= b <= c for a, b, c in zip(*default.values(), strict=True))
    means = " / ".join(f"{np.mean(values):.1f}" for values in default.values())
    yield stated("A.T3.order", "yes", f"means {means}", ordered)
    # the count is QMCPACK's in the paper, and each transfer has the error of the worst column of
    # its table
    count = round(float(PAPER.text("qmcpack", "count of transfers").removesuffix("K")) * 1000)
    worst = max(max(values) for values in default.values())
    summed = wmape(np.ones(count), np.full(count, 1 + worst / 100))
    yield stated(
        "A.wmape",
        "average",
        "sum",
        summed / count >= worst,
        note=(
            f"the weights add up to 1 already; {count:,} transfers, each off by {worst:g} %, "
            f"would average {summed / count:.1g} %"
        ),
    )
    yield not_printed(
        "A.F11",
        PAPER.text("CORAL-2", "average weighted relative error"),
        "only drawn, as boxes, in Fig 11",
    )
    longer = PAPER.text("Summit", "one-byte transfer longer than on Titan by")
    yield not_printed("A.42", longer, "the times are not printed")
