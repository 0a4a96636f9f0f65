"""The picture of what a kernel's ratio rests on: `docs/img/kernel-ratio.svg`, from the catalogue
and the program's own functions.

python docs/kernel_ratio.py            # draw it
python docs/kernel_ratio.py --check    # 1 if it is not current
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np

from turnbuckle.machine import Pair, load
from turnbuckle.profile.kernels import kind_by_name
from turnbuckle.projection.elsewhere.counters import Counted
from turnbuckle.projection.elsewhere.given import KernelTable
from turnbuckle.projection.elsewhere.kernels import basis_of, kernels_longer
from turnbuckle.projection.elsewhere.priors import Draws
from turnbuckle.projection.uncertainty import DRAWS, SEED, drawn_source, drawn_target

PICTURE = Path(__file__).resolve().parent / "img" / "kernel-ratio.svg"
SOURCE = "a100-sxm4-40"
#: Kernels of an A100: what they are, their name, thread blocks (256 threads each; 0: the recording
#: does not say), and where they go.
KERNELS: Sequence[tuple[str, str, int, str]] = (
    ("a kernel that you measured: 2.4 times, 5 %", "measured", 4096, "h100-sxm5"),
    ("all-reduce of NCCL", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 24, "h100-sxm5"),
    ("any kernel, the same GPU in another node", "k", 4096, "another node"),
    ("stencil, 32,768 blocks", "jacobi_stencil<double>", 32_768, "h100-sxm5"),
    (
        "matrix product in BF16, 4,096 blocks",
        "ampere_bf16_s16816gemm_bf16_256x128",
        4096,
        "h100-sxm5",
    ),
    ("a name that tells nothing, 32,768 blocks", "k", 32_768, "h100-sxm5"),
    ("the same, counted: 80 % of bandwidth, 30 % of SM", "counted", 32_768, "h100-sxm5"),
    ("a name that tells nothing, 40 blocks", "k", 40, "h100-sxm5"),
    ("a name that tells nothing, no launch recorded", "k", 0, "h100-sxm5"),
    ("stencil, another vendor", "jacobi_stencil<double>", 32_768, "mi300x"),
    (
        "matrix product in BF16, another vendor",
        "ampere_bf16_s16816gemm_bf16_256x128",
        4096,
        "mi300x",
    ),
    ("the counted one, another vendor", "counted", 32_768, "mi300x"),
    ("40 blocks, another vendor", "k", 40, "mi300x"),
)
#: What is stated of two of them.
TABLE = KernelTable(
    ("measured", "counted"),
    (2.4, 1.0),
    (0.05, 0.0),
    "you",
    counted=(None, Counted(memory=0.8, arithmetic=0.3)),
)
WIDTH, ROW, LEFT, TOP, AXIS = 860, 30, 330, 46, 440
LOW, HIGH = 0.2, 26.0


def ratios(name: str, blocks: int, target: str) -> tuple[str, float, float, float]:
    """Return what the ratio rests on, and its middle and range: how many times faster on the
    target.
    """
    source = load(SOURCE)
    there = replace(source, name="another node") if target == "another node" else load(target)
    kind = replace(
        kind_by_name(name),
        blocks=blocks,
        threads=256 if blocks else 0,
        registers=64,
        given=TABLE.row(name),
    )
    pair = Pair(source, there)
    drawn = drawn_source(source, Draws(DRAWS, SEED))
    far = drawn_target(there, pair.target, drawn, Draws(DRAWS, SEED))
    middle = kernels_longer([kind], pair, source, pair.target, Draws(), TABLE)
    sample = kernels_longer([kind], pair, drawn, far, Draws(DRAWS, SEED), TABLE)
    assert middle is not None and sample is not None
    low, high = np.quantile(1.0 / sample, [0.05, 0.95])
    return basis_of(kind, pair, TABLE), float(1.0 / middle[0]), float(low), float(high)


def _x(ratio: float) -> float:
    return LEFT + AXIS * float(np.log(ratio / LOW) / np.log(HIGH / LOW))


def picture() -> str:
    """Return the SVG."""
    height = TOP + ROW * len(KERNELS) + 44
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13" role="img"'
        ' aria-label="What the ratio of kernels rests on, and how wide its range is">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        (
            f'<text x="{LEFT}" y="20" font-weight="bold" fill="#222222">times faster than on an '
            "A100: middle and 90 % range</text>"
        ),
    ]
    bottom = TOP + ROW * len(KERNELS)
    for tick in (0.25, 0.5, 1, 2, 4, 8, 16):
        x = f"{_x(tick):.1f}"
        out.append(
            f'<line x1="{x}" y1="{TOP - 12}" x2="{x}" y2="{bottom}" '
            f'stroke="{"#888888" if tick == 1 else "#dddddd"}"/>'
        )
        out.append(
            f'<text x="{x}" y="{bottom + 18}" text-anchor="middle" fill="#444444">{tick:g}</text>'
        )
    colours = {
        "given": "#1b7f5c",
        "counters": "#7a4fa3",
        "kept": "#666666",
        "same GPU": "#666666",
        "class": "#2a6fb0",
        "range of rates": "#c0632c",
    }
    for k, (what, name, blocks, target) in enumerate(KERNELS):
        basis, middle, low, high = ratios(name, blocks, target)
        y, colour = TOP + ROW * k + ROW / 2, colours[basis]
        out.append(
            f'<text x="{LEFT - 12}" y="{y - 1:.0f}" text-anchor="end" '
            f'fill="#222222">{escape(what)}</text>'
        )
        out.append(
            f'<text x="{LEFT - 12}" y="{y + 12:.0f}" text-anchor="end" font-size="11" '
            f'fill="{colour}">{basis}</text>'
        )
        out.append(
            f'<path d="M{_x(low):.1f} {y:.0f}H{_x(high):.1f}" stroke="{colour}" '
            'stroke-width="6" stroke-opacity="0.45"/>'
        )
        out.append(f'<circle cx="{_x(middle):.1f}" cy="{y:.0f}" r="5" fill="{colour}"/>')
        out.append(
            f'<text x="{LEFT + AXIS + 12}" y="{y + 4:.0f}" fill="#444444">{middle:.2g}</text>'
        )
    out.append(
        f'<text x="{LEFT}" y="{bottom + 36}" font-size="11" fill="#666666">to an H100 (SXM5); '
        "another vendor: to an MI300X</text>"
    )
    return "\n".join([*out, "</svg>"]) + "\n"


def main(words: Sequence[str]) -> int:
    """Draw the picture, or say that it is not current."""
    now = picture()
    if "--check" in words:
        current = PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == now
        print(
            "the picture is current"
            if current
            else f"{PICTURE.name} is not current: python docs/kernel_ratio.py"
        )
        return 0 if current else 1
    PICTURE.write_text(now, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
