"""Numbers of Groves et al., PMBS 2022, *Tightly-integrated and Disaggregated Accelerated
Architectures* (Nething), recomputed.

The offload rule and the product study are `turnbuckle.profile.summary.offload` and
`turnbuckle.papers.models.dgemm.question`, links are `turnbuckle.cost.pcie` and
`turnbuckle.cost.loggp`, design points `turnbuckle.papers.models.power.question`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from turnbuckle.cost.loggp import loggp_seconds
from turnbuckle.cost.pcie import Pcie
from turnbuckle.cost.ratio import scaled_seconds
from turnbuckle.cost.slack import trip_seconds
from turnbuckle.papers.models.dgemm.question import (
    break_even_bandwidth,
    by_alpha,
    copy_seconds,
    host_seconds,
    operations,
)
from turnbuckle.papers.models.power.question import part_named, power_exponent, preset
from turnbuckle.papers.numbers import (
    Paper,
    Recomputed,
    exact,
    judged,
    not_printed,
    printed,
    stated,
    swept,
)
from turnbuckle.profile.summary.offload import disaggregation_penalty, offload_ratio_limit

PAPER = Paper("nething/numbers")
_WORDS = {"twice": 2.0, "three": 3.0}


def recompute() -> list[Recomputed]:
    """Return every number of the paper: printed, recomputed, verdict."""
    return [
        *_offload(),
        *_links(),
        *_dgemm(),
        *_design_points(),
        *_far_2022(),
        *_far_2026(),
        *_milc(),
        *_figures(),
    ]


def _value(subject: str, quantity: str, place: str | None = None) -> float:
    """Return one number in its printed unit; counts have commas."""
    text = PAPER.text(subject, quantity, place)
    return _WORDS.get(text) or float(text.replace(",", ""))


def _offload() -> Iterator[Recomputed]:
    twice, most = (
        1 / _value("offload", "host time over offload time that breaks even"),
        _value("offload", "largest offload to compute ratio") / 100,
    )
    for place, name, text in (("first", "N.3.a2", f"{twice:g}"), ("second", "N.3.a5", f"{most:g}")):
        alpha = _value("offload", "acceleration of the example", place)
        limit = float(offload_ratio_limit(alpha))
        note = (
            "the paper: twice the offload time breaks even"
            if place == "first"
            else "the paper: less than 80 % of the host's time"
        )
        yield judged(name, text, limit, note=note)
    peak = math.prod(
        _value("host", q) for q in ("cores", "base clock", "operations a cycle and core")
    )
    yield judged("N.3.cpu", PAPER.text("DGEMM", "host rate"), peak * 1e-3)
    rates = PAPER.number("DGEMM", "accelerator rate"), PAPER.number("DGEMM", "host rate")
    yield judged("N.3.alpha", PAPER.text("DGEMM", "acceleration"), swept(_over, *rates))


def _over(a: float, b: float) -> float:
    return a / b


def _links() -> Iterator[Recomputed]:
    four, six = (Pcie(generation, 16).raw_bandwidth * 1e-9 for generation in (4, 6))
    yield judged("N.pcie4", PAPER.text("link", "bandwidth", "PCIe 4"), four)
    yield judged("N.pcie6", PAPER.text("link", "bandwidth", "PCIe 6"), six)


def _speedup(size: float, bandwidth: float) -> float:
    """Return the speed-up over the host without launch time, with kernels alpha times as fast as
    the host.
    """
    times = by_alpha(_value("DGEMM", "acceleration"), _value("DGEMM", "host rate") * 1e12)
    host = float(host_seconds(size, times.host_rate))
    return host / float(times.seconds_of(size) + copy_seconds(size, bandwidth))


def _dgemm() -> Iterator[Recomputed]:
    large, small = (_value("DGEMM", "size", end) for end in ("largest", "smallest"))
    widest = _value("DGEMM", "bandwidth of that speedup") * 1e9
    yield judged(
        "N.F3.4096", PAPER.text("DGEMM", "speedup of the largest size"), _speedup(large, widest)
    )
    least, speedup = (
        _value("DGEMM", "speedup of the smallest size stays below"),
        _speedup(small, widest),
    )
    rate, alpha = _value("DGEMM", "host rate") * 1e12, _value("DGEMM", "acceleration")
    host = float(host_seconds(small, rate))
    left = host / least - host / alpha
    slow = float(operations(small)) / (host / least) * 1e-12
    note = (
        f"with alpha {alpha:g} at 400 GB/s; below {least:g} it needs {left * 1e6:.0f} us of "
        f"overhead besides, or a kernel at {slow:.1f} "
        "TFLOP/s without any: Fig 3 rests on measured kernel times"
    )
    limit = f"<{least:g}"
    yield replace(
        stated("N.F3.1024", limit, "", speedup < least, note=note),
        recomputed=speedup,
        low=speedup,
        high=speedup,
    )
    needed = break_even_bandwidth(small, rate, host / alpha, speedup=least)
    yield stated(
        "N.F3.1024b",
        "never",
        f"{needed * 1e-9:.0f} GB/s",
        math.isinf(needed),
        note=(
            f"T_a with kernels alpha {alpha:g} times as fast reaches it; the text of Fig 3 has it "
            "never reached"
        ),
    )


def _design_points() -> Iterator[Recomputed]:
    efficiency, full = PAPER.number("trend", "rate per watt", "2026"), _value("on-board", "power")
    on_board = efficiency.times(full)
    yield judged("N.T1.obtf", PAPER.text("on-board", "rate"), on_board)
    printed_rate, a100 = (
        PAPER.number("on-board", "rate"),
        exact(_value("DGEMM", "accelerator rate")),
    )
    yield judged(
        "N.T1.obx", PAPER.text("on-board", "times an A100"), swept(_over, printed_rate, a100)
    )
    share, half = (
        PAPER.number("discrete", "share of the on-board rate").times(0.01),
        _value("discrete", "power"),
    )

    def on_a_card(rate: float, kept: float) -> float:
        return float(rate * (half / full) ** power_exponent(kept, half / full))

    reduced_rate = swept(on_a_card, printed_rate, share)
    yield judged(
        "N.T1.tf",
        PAPER.text("discrete", "rate"),
        reduced_rate,
        note=f"{reduced_rate.value:.1f} from 133 and 76 %; 102 is 5.1 times 20",
    )
    small = PAPER.number("discrete", "rate")
    yield judged("N.T1.x", PAPER.text("discrete", "times an A100"), swept(_over, small, a100))
    h100 = _value("H100", "matrix rate", "card") / _value("H100", "matrix rate", "module")
    kept = f"{_value('discrete', 'share of the on-board rate') / 100:g}"
    yield judged("N.T1.h100", kept, h100)
    a100_part = replace(part_named("A100-SXM4-40GB"), year=_value("trend", "year", "start"))
    years, every = _value("trend", "year", "end"), _value("trend", "doubling time")
    trend = preset(a100_part, years, every).value * 1e-12
    yield judged("N.F4.trend", PAPER.text("trend", "rate per watt", "2026"), trend)
    gain = swept(lambda big, less: 100 * (big / less - 1), printed_rate, small)
    yield judged("N.7.33", PAPER.text("APU", "gain from all power"), gain)
    less = swept(lambda a, b: 100 * a / b, small, printed_rate)
    yield judged(
        "N.7.75", PAPER.text("APU", "share of the on-board rate"), less, rounded_down_to=5.0
    )
    now = _value("host", "cores") / _value("host", "GPUs")
    yield judged(
        "N.6B.cores",
        PAPER.text("2026", "growth of cores a GPU"),
        _value("2026", "cores a GPU") / now,
    )


def _far_2022() -> Iterator[Recomputed]:
    """Yield the penalties of +2 us on each operation at the same bandwidth."""
    added = _value("2022", "latency added by the network") * 1e-6
    launches, window = (
        _value("MILC", "launches", "smallest"),
        _value("MILC", "kernel window", "smallest"),
    )
    operations = launches * (_value("MILC", "transfers a launch") + 1)
    milc = 100 * float(trip_seconds(1, added)) * operations / window
    below = _value("MILC", "disaggregation penalty below")
    yield stated("N.F9.milc", f"<{below:g}%", f"<={milc:.1f}%", milc < below)
    below, size = (
        _value("DGEMM", "disaggregation penalty below"),
        _value("DGEMM", "size", "smallest"),
    )
    copies, kernel, _ = _product(size)
    penalty = 100 * float(disaggregation_penalty(added, copies + kernel))
    yield stated("N.F9.dgemm", f"<{below:g}%", f"{penalty:.2f}%", penalty < below)
    size = _value("DGEMM", "size from which the accelerator pays")
    copies, kernel, host = _product(size)
    ratio = host / (kernel + copies + _value("2022", "launch time") * 1e-6)
    yield stated("N.F9.512", f"{size:g}^2", f"T_c/T_a at {size:g}: {ratio:.2f}", ratio < 1)


def _product(size: float) -> tuple[float, float, float]:
    """Return the time of one mean copy each way by Fig 8's lines, the kernel time and the host time
    of a product [s].
    """
    copies = math.fsum(
        _copy(
            8.0 * size**2,
            _value("link", "latency", direction) * 1e-6,
            _reached(direction, "PCIe 4"),
        )
        for direction in ("h2d", "d2h")
    )
    host = float(host_seconds(size, _value("DGEMM", "host rate") * 1e12))
    return copies, _faster(host, _value("DGEMM", "acceleration")), host


def _copy(size: float, latency: float, bandwidth: float) -> float:
    return float(loggp_seconds(np.asarray(size), latency, bandwidth))


def _faster(seconds: float, times: float) -> float:
    return float(scaled_seconds(np.asarray(seconds), times))


def _reached(direction: str, link: str) -> float:
    """Return the bandwidth that a large copy reaches [B/s]."""
    return _value("link", "efficiency", direction) / 100 * _value("link", "bandwidth", link) * 1e9


def _far_2026() -> Iterator[Recomputed]:
    """Yield the smallest MILC on the discrete design point, and across the network, from the shares
    that the text prints.
    """
    launches, window = (
        _value("MILC", "launches", "smallest"),
        _value("MILC", "kernel window", "smallest"),
    )
    kernel, copies = (
        window * _value("MILC", f"share of time in {of}") / 100 / launches
        for of in ("kernels", "PCIe")
    )
    fixed = sum(_value("link", "latency", direction) * 1e-6 for direction in ("h2d", "d2h"))
    carried = (copies - fixed) * _reached("h2d", "PCIe 4")
    moved = _copy(carried, 2 * _value("discrete", "latency") * 1e-6, _reached("h2d", "PCIe 6"))
    computed = _faster(kernel, _value("discrete", "times an A100"))
    total = computed + moved + _value("2026", "launch time") * 1e-6
    added = _value("2022", "latency added by the network") * 1e-6
    low, high = (
        100 * float(disaggregation_penalty(added, total, launch)) for launch in (False, True)
    )
    seen = _value("MILC", "disaggregation penalty", "2026")
    yield stated("N.F10.milc", f"{seen:g}%", f"{low:.0f}..{high:.0f}%", low <= seen <= high)


def _milc() -> Iterator[Recomputed]:
    d2h, h2d = _value("link", "latency", "d2h"), _value("link", "latency", "h2d")
    yield judged("N.F8.ratio", PAPER.text("link", "d2h overhead above h2d"), 100 * (d2h / h2d - 1))
    window, volume = (
        _value("MILC", "kernel window", "smallest"),
        _value("MILC", "volume over PCIe", "smallest") * 1e9,
    )
    one_link = 100 * _copy(volume, 0.0, _value("link", "bandwidth", "PCIe 4") * 1e9) / window
    four_links = one_link / _value("host", "GPUs")
    within = printed(PAPER.text("MILC", "share of time in PCIe"))
    yield stated(
        "N.5D.pcie",
        f"{PAPER.text('MILC', 'share of time in PCIe')}%",
        f"{one_link:.1f}% (one link), {four_links:.1f}% (four links)",
        any(within.low <= share <= within.high for share in (one_link, four_links)),
    )
    ends = [
        _value("MILC", "launches", size)
        * _value("MILC", "launch latency", end)
        * 1e-6
        / _value("MILC", "kernel window", size)
        * 100
        for size, end in (("largest", "least"), ("smallest", "most"))
    ]
    most = _value("MILC", "share of launches")
    yield stated("N.5D.launch", f"<={most:g}%", f"{ends[0]:.2f}..{ends[1]:.2f}%", ends[1] <= most)
    yield from _signs(h2d)


def _signs(latency_us: float) -> Iterator[Recomputed]:
    # the share is of the 4-node traffic, and the rest of that traffic is the 1-node traffic
    packed = 100.0
    shares = [_value("MILC", "NIC-bound share", end) / 100 for end in ("least", "most")]
    as_said = [packed - packed / (1 - share) for share in shares]
    volumes = " and ".join(f"{volume:.0f}" for volume in as_said)
    yield stated(
        "N.4.sub",
        "1-node minus 4-node",
        "1-node minus 4-node" if min(as_said) > 0 else "4-node minus 1-node",
        min(as_said) > 0,
        note=(
            f"runs on four nodes carry the extra traffic: the printed order gives {volumes} % of "
            "the traffic on one node"
        ),
    )
    reached = _reached("h2d", "PCIe 4")

    def a_byte(size: float) -> float:
        return _copy(size, latency_us * 1e-6, reached) / size

    finite = math.isclose(a_byte(1e-9), a_byte(1e-12), rel_tol=0.01)
    yield stated(
        "N.F8.axis", "o+L", "o+L" if finite else "G + (o+L)/n has no finite intercept", finite
    )


def _figures() -> Iterator[Recomputed]:
    yield not_printed(
        "N.F10", "-", "mean kernel times and copy sizes are only drawn, in Fig 9", "-"
    )
    texts = [
        PAPER.text("link", q, direction)
        for q in ("efficiency", "latency")
        for direction in ("h2d", "d2h", "NVLink")
    ]
    lines = ", ".join(f"{t} %" for t in texts[:3]) + "; " + ", ".join(f"{t} us" for t in texts[3:])
    row = not_printed("N.F8", "-", "the transfers are only drawn, in Fig 8", "-")
    yield replace(row, what=f"fitted lines of three links: {lines}")
