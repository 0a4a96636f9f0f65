"""Outputs of bandwidth tests are read to what was measured, and text of any other kind is
refused.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.machine.measured.logs import (
    COARSEST,
    Curve,
    Measured,
    format_of,
    read_measured,
    split_part,
)

SHMOO = """[CUDA Bandwidth Test] - Starting...
Running on...

 Device 0: Tesla V100-PCIE-32GB
 Shmoo Mode

..
bandwidthTest-{way}, Bandwidth = {small} GB/s, Time = 0.00000 s, Size = 1000 bytes, NumDevsUsed = 1
bandwidthTest-{way}, Bandwidth = 12.4 GB/s, Time = 0.00549 s, Size = 68000000 bytes, NumDevsUsed = 1
Result = PASS
"""
QUICK = """[CUDA Bandwidth Test] - Starting...
 Device 0: Tesla T4
 Quick Mode

 Host to Device Bandwidth, 1 Device(s)
 PAGEABLE Memory Transfers
   Transfer Size (Bytes)\tBandwidth({unit}B/s)
   32000000\t\t\t{rate}

 Device to Host Bandwidth, 1 Device(s)
 PINNED Memory Transfers
   Transfer Size (Bytes)\tBandwidth({unit}B/s)
   32000000\t\t\t{rate}

Result = PASS
"""
HIP = """Device:Device 738c Mem=32.0GB #CUs=120 Freq=1502Mhz  MallocMode=pinned
                   test        atts        units        median  mean    stddev  min     max
   H2D_Bandwidth_pinned      +064By       GB/sec        0.0000  0.0000  0.0000  0.0000  0.0000
   H2D_Bandwidth_pinned         1kB       GB/sec        0.0414  0.0411  0.0017  0.0189  0.0434
         H2D_Timepinned      +064By           ms        0.0245  0.0253  0.0240  0.0232  0.7821
         H2D_Timepinned         1kB           ms        0.0242  0.0244  0.0016  0.0230  0.0530
      D2H_Time_unpinned      4kBx10           ms        0.2420  0.2440  0.0016  0.0230  0.0530
      Bidir_Time_pinned         1kB           ms        0.0242  0.0244  0.0016  0.0230  0.0530
"""
OSU = """## GPU-to-GPU memory intra-node
$ srun -n2 -N1 /opt/osu/pt2pt/osu_bw D D
# OSU MPI-CUDA Bandwidth Test v7.5
# Datatype: MPI_CHAR.
# Size      Bandwidth (MB/s)
1                       0.14
4194304            115214.94

## Inter node
$ srun -n2 -N2 osu_bw H H
# OSU MPI Bandwidth Test v7.5
# Size      Bandwidth (MB/s)
8                       0.00
1024                 1009.57
"""
LATENCY = """# OSU MPI-CUDA Latency Test v5.6.2
# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)
# Size          Latency (us)
0                       1.50
8                       2.75
1048576                80.00
"""
COPY = """cpu_to_gpu0_by_sm_under_numa0 26.2409
cpu_to_gpu0_by_dma_under_numa0 26.0
cpu_to_gpu1_by_dma_under_numa1 27.0
gpu0_to_gpu0_by_dma 657.332
gpu0_to_gpu1_write_by_dma 280
gpu1_to_cpu_by_dma_under_numa0 25.0
cpu_and_gpu0_by_dma_under_numa0 49.4624
gpu0_to_gpu_all_write_by_dma 55.6522
"""
TABLE = """# from a colleague
direction, memory, size [KiB], time [us], bandwidth [GB/s], name
h2d,       pinned,          1,       2.5,                 , tiny
d2d,             ,       1024,          ,            100  ,
"""


def written(tmp_path: Path, text: str | bytes, name: str = "measured.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(tmp_path: Path, text: str, **more: float) -> Measured:
    return read_measured(written(tmp_path, text), **more)


def code(path: Path | str, **more: float) -> str:
    with pytest.raises(TurnbuckleError) as refused:
        read_measured(path, **more)
    assert refused.value.where
    return refused.value.code


# --- formats --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (SHMOO, "bandwidthTest"),
        (QUICK, "bandwidthTest"),
        (HIP, "hipBusBandwidth"),
        (OSU, "OSU"),
        (LATENCY, "OSU"),
        (COPY, "gpu_copy"),
        (TABLE, "CSV"),
        ("time,size,collective\n", "CSV"),
        ("a, b\n1, 2\n", None),
        ("", None),
        ("\n" * 5000 + "hello\n", None),
        ("# a\n\n" * 5000 + "hello\n", None),
        ("# a\n\n \r\n" + TABLE, "CSV"),
        ("\n" * 5000 + HIP, "hipBusBandwidth"),
        ("SQLite format 3", None),
    ],
)
def test_a_format_is_told_by_its_text(text: str, name: str | None) -> None:
    assert format_of(text) == name


def test_shmoo_mode_takes_the_finer_of_rate_and_time(tmp_path: Path) -> None:
    found = read(tmp_path, SHMOO.format(way="H2D-Pinned", small="0.4"))
    (curve,) = found.curves
    assert (found.device, curve.direction, curve.memory, curve.streamed) == (
        "Tesla V100-PCIE-32GB",
        "h2d",
        "pinned",
        False,
    )
    assert curve.size_bytes.tolist() == [1000, 68000000]
    assert curve.seconds == pytest.approx([1000 / 0.4e9, 0.00549])
    assert curve.resolution == pytest.approx([0.05 / 0.4, 0.000005 / 0.00549])


def test_copies_inside_a_device_are_counted_twice_by_the_test(tmp_path: Path) -> None:
    """Its rate adds what is read to what is written, and its time is size over that rate."""
    (curve,) = read(tmp_path, SHMOO.format(way="D2D", small="0.4")).curves
    assert (curve.direction, curve.memory) == ("d2d", "device")
    assert curve.seconds == pytest.approx([2 * 1000 / 0.4e9, 2 * 0.00549])


def test_what_printing_rounded_away_is_left_out_and_counted(tmp_path: Path) -> None:
    found = read(tmp_path, SHMOO.format(way="D2H-Paged", small="0.1"))
    assert found.curves[0].memory == "pageable" and found.curves[0].size_bytes.tolist() == [
        68000000
    ]
    assert [(f.code, f.count) for f in found.findings] == [("A333", 1)]
    assert all(c.resolution.max() <= COARSEST for c in found.curves)


@pytest.mark.parametrize(
    ("unit", "rate", "seconds"),
    [("G", "12.5", 32e6 / 12.5e9), ("M", "5000.0", 32e6 / (5000 * 1024e3))],
)
def test_quick_mode(tmp_path: Path, unit: str, rate: str, seconds: float) -> None:
    found = read(tmp_path, QUICK.format(unit=unit, rate=rate))
    assert [(c.direction, c.memory) for c in found.curves] == [
        ("h2d", "pageable"),
        ("d2h", "pinned"),
    ]
    assert all(c.seconds.tolist() == pytest.approx([seconds]) for c in found.curves)


def test_hip_times_stand_above_its_rates(tmp_path: Path) -> None:
    """Old versions divide the size by 1000 in whole numbers: 64 B are no bytes and 1 KiB is 1 kB in
    their rates.
    """
    found = read(tmp_path, HIP)
    up, down = found.curves
    assert found.device == "Device 738c" and (up.direction, up.memory) == ("h2d", "pinned")
    assert up.size_bytes.tolist() == [64, 1024] and up.seconds == pytest.approx([24.5e-6, 24.2e-6])
    assert (down.direction, down.memory) == ("d2h", "pageable") and down.seconds == pytest.approx(
        [24.2e-6]
    ), "ten copies were timed"
    assert [f.count for f in found.findings] == [1], "both directions at once"
    rates = "\n".join(line for line in HIP.splitlines() if "_Time" not in line)
    assert read(tmp_path, rates).curves[0].seconds == pytest.approx([1024 / 0.0414e9])


def test_osu_rates_hold_no_latency(tmp_path: Path) -> None:
    near, far = read(tmp_path, OSU).curves
    assert (near.direction, near.memory, near.streamed, near.name) == (
        "p2p",
        "device",
        True,
        "GPU-to-GPU memory intra-node",
    )
    assert near.seconds == pytest.approx([1 / 0.14e6, 4194304 / 115214.94e6])
    assert far.direction == "network" and far.size_bytes.tolist() == [1024], (
        "a rate printed as zero is no time"
    )


def test_osu_latencies_are_times(tmp_path: Path) -> None:
    (curve,) = read(tmp_path, LATENCY).curves
    assert (curve.direction, curve.streamed) == ("p2p", False)
    assert curve.size_bytes.tolist() == [8, 1048576] and curve.seconds == pytest.approx(
        [2.75e-6, 80e-6]
    )


def test_osu_blocks_of_both_directions_are_left_out(tmp_path: Path) -> None:
    both = OSU.replace("MPI-CUDA Bandwidth Test", "MPI-CUDA Bi-Directional Bandwidth Test")
    found = read(tmp_path, both)
    assert len(found.curves) == 1 and found.findings[0].code == "A333"


def test_gpu_copy_needs_a_size(tmp_path: Path) -> None:
    path = written(tmp_path, COPY)
    assert (
        code(path) == "A145"
        and code(path, size_bytes=0.0) == "A023"
        and code(path, size_bytes=float("nan")) == "A023"
    )
    found = read_measured(path, size_bytes=2.0**28)
    seconds = {c.direction: float(c.seconds[0]) for c in found.curves}
    rates = {"h2d": 26.5e9, "d2h": 25e9, "d2d": 657.332e9, "p2p": 280e9}
    assert seconds == pytest.approx({way: 2**28 / rate for way, rate in rates.items()}, rel=0.01)
    assert sum(f.count for f in found.findings) == 3


def test_a_table_has_times_or_rates(tmp_path: Path) -> None:
    one, two = read(tmp_path, TABLE).curves
    assert (one.name, one.direction, one.memory) == (
        "tiny",
        "h2d",
        "pinned",
    ) and one.seconds.tolist() == pytest.approx([2.5e-6])
    assert (two.direction, two.memory) == (
        "d2d",
        "device",
    ) and two.seconds.tolist() == pytest.approx([2**20 / 100e9])


def test_repeated_sizes_become_their_median_and_sizes_ascend(tmp_path: Path) -> None:
    text = "direction, size [B], time [us]\n" + "\n".join(
        f"h2d, {n}, {t}" for n, t in [(8, 3), (4, 1), (8, 9), (8, 4)]
    )
    (curve,) = read(tmp_path, text).curves
    assert curve.size_bytes.tolist() == [4, 8] and curve.seconds == pytest.approx([1e-6, 4e-6])


def test_one_measurement_of_a_file(tmp_path: Path) -> None:
    path = written(tmp_path, OSU)
    assert [c.direction for c in read_measured(f"{path}#2").curves] == ["network"]
    assert code(f"{path}#3") == "A021" and code(f"{path}#0") == "A021"
    odd = written(tmp_path, OSU, "odd#1")
    assert split_part(odd) == (odd, None), "a file of that very name"


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello\n", "A020"),
        (b"\x00\xff\xfe", "A061"),
        ("[CUDA Bandwidth Test] - Starting...\n", "A023"),
        (SHMOO.format(way="H2D-Pinned", small="1.2.3"), "A023"),
        (OSU.replace("osu_bw D D", "osu_bw"), "A023"),
        ("direction, size [B], time [us]\nsideways, 8, 1\n", "A023"),
        ("direction, memory, size [B], time [us]\nh2d, paper, 8, 1\n", "A023"),
        ("direction, size [B], time [us], bandwidth [GB/s]\nh2d, 8, 1, 1\n", "A023"),
        ("direction, size [B], time [us], bandwidth [GB/s]\nh2d, 8, , \n", "A023"),
        ("direction, size [B], time [us]\nh2d, -8, 1\n", "A063"),
        ("direction, size [B], time [us]\nh2d, 0.5, 1\n", "A063"),
        ("direction, size [B], time [us]\nh2d, 1e300, 1\n", "U005"),
        ("direction, size [B], time [us]\nh2d, 8, 1e-300\n", "A023"),
        ("direction, size [B], bandwidth [GB/s]\nh2d, 1e15, 1e-300\n", "A023"),
        (f"H2D_Time_pinned +{'9' * 400}kB ms 1.00\n", "A023"),
        (f"H2D_Time_pinned +{'9' * 5000}kB ms 1.00\n", "A023"),
        (f"H2D_Time_pinned +{'9' * 15}MB ms 1.00\n", "A023"),
        (f"H2D_Time_pinned +1kBx{'9' * 400} ms 1.00\n", "A023"),
        (
            (
                "bandwidthTest-H2D-Pinned, Bandwidth = 12.4 GB/s, Time = 0.001 s, Size = "
                f"{'9' * 400} bytes\n"
            ),
            "A023",
        ),
        ("direction, size [B], time [us]\nh2d, 8, 0\n", "A063"),
        ("direction, size [B], time\nh2d, 8, 5\n", "U001"),
        ("direction, size [B], weight\nh2d, 8, 5\n", "A062"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str | bytes, expected: str) -> None:
    assert code(written(tmp_path, text)) == expected


def test_missing_and_folder(tmp_path: Path) -> None:
    assert code(tmp_path / "no.log") == "A061" and code(tmp_path) == "A061"


def test_hostile_text_does_not_reach_the_terminal(tmp_path: Path) -> None:
    path = written(tmp_path, OSU.replace("GPU-to-GPU", "\x1b]0;x\x07"))
    with pytest.raises(TurnbuckleError) as refused:
        read_measured(f"{path}#9")
    assert "\x1b" not in "".join(refused.value.lines())
    assert all(c.name.isprintable() for c in read_measured(path).curves)


# --- curves ---------------------------------------------------------------------------------------

points = st.dictionaries(st.integers(1, 10**9), st.floats(1e-7, 1.0), min_size=1, max_size=8)


@given(points, st.lists(st.floats(0, 2e9), min_size=1, max_size=10))
def test_a_curve_passes_its_points_and_says_nothing_outside(
    at: dict[int, float], sizes: list[float]
) -> None:
    size = np.array(sorted(at), dtype=np.float64)
    curve = Curve("h2d", "pinned", size, np.array([at[int(n)] for n in size]), "")
    assert curve.times(size) == pytest.approx(curve.seconds)
    found = curve.times(np.array(sizes))
    outside = (np.array(sizes) < size[0]) | (np.array(sizes) > size[-1])
    assert (np.isnan(found) == outside).all()
    inside = found[~outside]
    assert (
        (inside >= curve.seconds.min() * (1 - 1e-9)) & (inside <= curve.seconds.max() * (1 + 1e-9))
    ).all()


# --- real files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "rate", "traffic"), [("h2d", 12.4, 1), ("d2h", 13.1, 1), ("d2d", 762.8, 2)]
)
def test_v100(shared: Path, way: str, rate: float, traffic: int) -> None:
    found = read_measured(
        shared / "traces" / "measured" / "superbench_v100_pcie_copy" / f"cuda_memory_{way}_bw.log"
    )
    (curve,) = found.curves
    assert (found.device, curve.direction, len(curve.size_bytes)) == (
        "Tesla V100-PCIE-32GB",
        way,
        81,
    )
    assert curve.size_bytes[-1] == 68_000_000
    assert traffic * 68e6 / float(curve.seconds[-1]) / 1e9 == pytest.approx(rate, rel=0.005)


def test_mi100(shared: Path) -> None:
    found = read_measured(
        shared / "traces" / "measured" / "superbench_mi100_h2d" / "rocm_memory_h2d_bw.log"
    )
    (curve,) = found.curves
    assert (found.device, curve.direction, curve.memory, len(curve.size_bytes)) == (
        "Device 738c",
        "h2d",
        "pinned",
        23,
    )
    for size, rate in ((2**20, 16.3342), (2**28, 25.3280)):
        assert size / float(curve.times(np.array([size]))[0]) / 1e9 == pytest.approx(rate, rel=1e-3)


def test_alps(shared: Path) -> None:
    found = read_measured(shared / "traces" / "measured" / "osu_alps_gh200_mpich" / "osu_mpich.txt")
    assert [(c.direction, len(c.size_bytes), c.streamed) for c in found.curves] == [
        ("h2h", 23, True),
        ("network", 23, True),
        ("p2p", 23, True),
        ("network", 23, True),
    ]
    rates = [float(c.size_bytes[-1] / c.seconds[-1]) / 1e6 for c in found.curves]
    assert rates == pytest.approx([23906.16, 24037.14, 115214.94, 23974.34])


def test_two_gpus(shared: Path) -> None:
    path = (
        shared / "traces" / "measured" / "superbench_gpu_copy_2gpu" / "gpu_copy_bw_performance.log"
    )
    found = read_measured(path, size_bytes=2.0**28)
    rates = {c.direction: float(c.size_bytes[0] / c.seconds[0]) / 1e9 for c in found.curves}
    assert rates == pytest.approx(
        {"h2d": 26.2387, "d2h": 25.8516, "d2d": 657.332, "p2p": 279.287}, rel=0.01
    )
