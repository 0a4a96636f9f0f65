"""Traps of the tests' outputs (several devices, failed tests, cut lines, unusual megabytes), and
the tests that sites run besides.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnbuckle.machine.measured.logs import Measured, read_measured

QUICK = """[CUDA Bandwidth Test] - Starting...
 Device 0: NVIDIA A100-SXM4-40GB
 Host to Device Bandwidth, {devices} Device(s)
 PINNED Memory Transfers
   Transfer Size (Bytes)\tBandwidth({unit})
   32000000\t\t\t{rate}
"""
ROCM = """          RocmBandwidthTest Version: 2.6.0
          Device: 0,  AMD EPYC 7763 64-Core Processor
          Device: 1,  AMD Instinct MI250X,  GPU-1234,  c1:0.0
          Device: 2,  AMD Instinct MI250X,  GPU-1235,  c6:0.0

          Unidirectional copy peak bandwidth GB/s
          D/D       0           1           2
          0         N/A         26.000      26.200
          1         28.000      1124.000    50.000
          2         28.200      52.000      1126.000

          Bidirectional copy peak bandwidth GB/s
          D/D       0           1           2
          0         N/A         38.0        38.0
          1         38.0        N/A         90.0
          2         38.0        90.0        N/A
"""
ROCM_SIZES = """================ Unidirectional Benchmark Result ================
================ Src Device Id: 0 Src Device Type: Cpu ================
================ Dst Device Id: 1 Dst Device Type: Gpu ================

Data Size      Avg Time(us)   Avg BW(GB/s)   Min Time(us)   Peak BW(GB/s)
1 KB           10.000         0.102          9.000          0.114
64 MB          2600.000       25.811         2590.000       25.911
"""
RDMA = """                    RDMA_Write {kind} Test
 Dual-port       : OFF          Device         : mlx5_0
 {heading}
 {rows}
"""
BABEL = """BabelStream
Version: 4.0
Implementation: {kind}
Function    MBytes/sec  Min (sec)   Max         Average
Copy        2900000.0   0.00017     0.00018     0.00017
Mul         3000000.0   0.00017     0.00018     0.00017
Triad       3100000.0   0.00017     0.00018     0.00017
Dot         9000000.0   0.00017     0.00018     0.00017
"""


def read(folder: Path, text: str, name: str = "out.txt") -> Measured:
    (folder / name).write_text(text)
    return read_measured(folder / name, with_rates=True)


def left(found: Measured) -> int:
    return sum(f.count for f in found.findings if f.code == "A333")


def rates(found: Measured) -> dict[str, float]:
    return {q.what: q.value for q in found.quantities}


def test_rates_of_several_devices_are_divided_by_their_number(tmp_path: Path) -> None:
    assert read(tmp_path, QUICK.format(devices=2, unit="GB/s", rate=50.0)).curves[0].seconds[
        0
    ] == pytest.approx(32e6 / 25e9)
    line = (
        "bandwidthTest-H2D-Pinned, Bandwidth = 50.0 GB/s, Time = 0.00064 s, Size = 32000000 "
        "bytes, NumDevsUsed = {}\n"
    )
    one, two = (read(tmp_path, line.format(n)).curves[0].seconds[0] for n in (1, 2))
    assert two == pytest.approx(2 * one) and one == pytest.approx(32e6 / 50e9)


def test_megabytes_of_bandwidth_test_are_1024000_bytes(tmp_path: Path) -> None:
    text = QUICK.format(devices=1, unit="MB/s", rate=6000.0)
    assert read(tmp_path, text).curves[0].seconds[0] == pytest.approx(32e6 / (6000 * 1024e3))
    old = text.replace("[CUDA Bandwidth Test] - Starting", "[bandwidthTest] starting").replace(
        "Device(s)", "Device(s), Paged memory"
    )
    (curve,) = read(tmp_path, old.replace(" PINNED Memory Transfers\n", "")).curves
    assert curve.memory == "pageable" and curve.seconds[0] == pytest.approx(32e6 / (6000 * 2**20))


def test_a_row_of_small_kernels_that_was_cut_off_has_no_best(tmp_path: Path) -> None:
    whole = "4096  64kB  26  26  27\n8192  128kB  52  52  53\n"
    found = read(tmp_path, whole + "92076012  1438687kB  852\n")
    assert len(found.curves[0].size_bytes) == 2 and left(found) == 1


def test_nvbandwidth_says_what_failed_and_which_process(tmp_path: Path) -> None:
    cases = [
        {
            "name": "host_to_device_memcpy_ce",
            "status": "Passed",
            "bandwidth_matrix": [["55.0", "5.5e+01"]],
        },
        {"name": "device_to_host_memcpy_ce", "status": "Error", "bandwidth_matrix": [["1.0"]]},
        {"name": "host_device_latency_sm", "status": "Passed", "latency_matrix": [["800.0"]]},
        {
            "name": "device_local_copy",
            "status": "Passed",
            "bandwidth_matrix": [["1200.0", "garbage"]],
        },
    ]
    found = read(
        tmp_path, json.dumps({"nvbandwidth": {"Driver Version": "560.1", "testcases": cases}})
    )
    assert rates(found) == pytest.approx(
        {"rate.h2d.pinned": 55e9, "load.host": 8e-7, "rate.d2d": 1.2e12}
    )
    assert found.quantities[0].count == 2 and left(found) == 2
    text = (
        "Process 0 (one): device 0: NVIDIA GB200 (00000008:01:00)\n"
        "Running host_to_device_memcpy_ce.\n          0\n 0   2.0e+02\n"
    )
    assert read(tmp_path, text).device == "NVIDIA GB200" and rates(read(tmp_path, text)) == {
        "rate.h2d.pinned": 200e9
    }


def test_osu_rows_that_failed_or_cannot_be_read_are_counted(tmp_path: Path) -> None:
    head = (
        "# OSU MPI-CUDA Latency Test v7.2\n# Send Buffer on DEVICE (D) and Receive Buffer on "
        "DEVICE (D)\n"
    )
    head += "# Size  Avg Latency(us)  Validation\n"
    found = read(
        tmp_path, head + "8 2.00 Pass\n1024 3.00 Fail\n4096 1,000.0 Pass\n65536 9.00 Pass\n"
    )
    assert list(found.curves[0].size_bytes) == [8, 65536] and left(found) == 2
    nccl = read(
        tmp_path,
        (
            "# OSU NCCL-CUDA Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n1024  90.0\n"
            "4194304  22000.0\n"
        ),
    )
    assert (nccl.curves[0].direction, nccl.curves[0].means, nccl.curves[0].streamed) == (
        "p2p",
        "nccl",
        True,
    )


def test_rocm_bandwidth_test_tells_hosts_from_devices(tmp_path: Path) -> None:
    found = read(tmp_path, ROCM)
    assert found.format == "rocm_bandwidth_test" and found.device == "AMD Instinct MI250X"
    expected = {
        "rate.h2d.pinned": 26.1e9,
        "rate.d2h.pinned": 28.1e9,
        "rate.d2d": 1.125e12,
        "rate.p2p": 51e9,
        "rate.both": 19e9,
    }
    assert rates(found) == pytest.approx(expected) and left(found) == 2
    (curve,) = read(tmp_path, ROCM_SIZES).curves
    assert (curve.direction, list(curve.size_bytes)) == (
        "h2d",
        [1024, 64 << 20],
    ) and curve.seconds == pytest.approx([1e-5, 2.6e-3])


@pytest.mark.parametrize(("unit", "one"), [("MB/sec", 2.0**20), ("Gb/sec", 1.25e8)])
def test_rates_of_perftest_are_averages_in_its_own_units(
    tmp_path: Path, unit: str, one: float
) -> None:
    heading = f"#bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]"
    found = read(
        tmp_path,
        RDMA.format(
            kind="BW", heading=heading, rows="2 5000 8.46 8.37 4.39\n 65536 5000 191.6 190.4 0.37"
        ),
    )
    (curve,) = found.curves
    assert (found.format, curve.direction, curve.streamed, curve.means) == (
        "perftest",
        "network",
        True,
        "rdma",
    )
    assert curve.seconds == pytest.approx([2 / (8.37 * one), 65536 / (190.4 * one)])


def test_latencies_of_perftest_are_the_typical_ones_and_both_ways_is_left_out(
    tmp_path: Path,
) -> None:
    heading = "#bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]"
    (curve,) = read(
        tmp_path,
        RDMA.format(
            kind="Latency",
            heading=heading,
            rows="2 1000 0.81 3.0 0.85 0.93\n 4096 1000 2.0 9.0 2.5 3.0",
        ),
    ).curves
    assert not curve.streamed and curve.seconds == pytest.approx([8.5e-7, 2.5e-6])
    both = RDMA.format(
        kind="Bidirectional BW",
        heading="#bytes #iterations BW peak[MB/sec] BW average[MB/sec]",
        rows="65536 5000 1.0 46000.0",
    )
    one_way = RDMA.format(
        kind="BW",
        heading="#bytes #iterations BW peak[MB/sec] BW average[MB/sec]",
        rows="65536 5000 1.0 23000.0",
    )
    found = read(tmp_path, both + one_way)
    assert (
        len(found.curves) == 1
        and found.curves[0].seconds[0] == pytest.approx(65536 / (23000 * 2**20))
        and left(found) == 1
    )


@pytest.mark.parametrize(
    ("kind", "what"),
    [("CUDA", "device.stream"), ("HIP", "device.stream"), ("OpenMP", "host.stream")],
)
def test_babelstream_is_of_a_device_or_of_a_host(tmp_path: Path, kind: str, what: str) -> None:
    found = read(tmp_path, BABEL.format(kind=kind))
    assert rates(found) == {what: 3e12} and left(found) == 1


def test_gpu_copy_of_newer_versions_says_uni_and_bi(tmp_path: Path) -> None:
    text = (
        "cpu_to_gpu0_by_sm_under_numa0_uni 9.0\ncpu_to_gpu0_by_dma_under_numa0_uni 26.0\n"
        "gpu0_to_cpu_by_dma_under_numa0_uni 22.0\n"
    )
    text += (
        "gpu0_to_gpu0_by_dma_under_numa0_uni 630.0\n"
        "gpu0_to_gpu1_write_by_dma_under_numa0_uni 270.0\n"
    )
    text += (
        "cpu_to_gpu0_by_dma_under_numa0_bi 36.0\ngpu0_to_gpu1_write_by_dma_under_numa0_bi 520.0\n"
    )
    found = read(tmp_path, text)
    expected = {
        "rate.h2d.pinned": 26e9,
        "rate.d2h.pinned": 22e9,
        "rate.d2d": 630e9,
        "rate.p2p": 270e9,
        "rate.both": 18e9,
    }
    assert rates(found) == pytest.approx(expected) and left(found) == 2


def test_hip_tests_inside_a_device_are_no_copies_of_the_direction_before(tmp_path: Path) -> None:
    heading = (
        "=====================    HIP Bandwidth Test Type: {}    =====================\n"
        "Data Size      Avg Time(us)   Avg BW(GB/s)\n"
    )
    text = "Device: deviceId 0, PciBusID 159 Name=BW Mem=64.0GB #CUs=80\n"
    text += heading.format("H2D with host pinned") + "1 KB 10.0 0.1\n1 GB 33500.000 32.058\n"
    text += heading.format("D2D") + "1 KB 6.400 0.160\n1 GB 750.000 1431.655\n"
    found = read(tmp_path, text)
    assert [(c.direction, c.memory, len(c.size_bytes)) for c in found.curves] == [
        ("h2d", "pinned", 2),
        ("d2d", "device", 2),
    ]
    assert found.device == "BW" and found.curves[1].seconds[1] == pytest.approx(7.5e-4)


def test_gpu_stream_takes_the_best_number_of_threads(tmp_path: Path) -> None:
    text = (
        'STREAM Benchmark\nDevice 0: "NVIDIA B200"  152 SMs(10.0)  Memory: 4000MHz x 8192-bit = '
        "8192 GB/s PEAK   ECC is ON\n"
    )
    for kernel, one, two in (
        ("COPY", 6000.0, 6711.67),
        ("ADD", 7400.0, 7000.0),
        ("TRIAD", 7414.01, 6730.42),
    ):
        for block, rate in ((128, one), (1024, two)):
            text += (
                f"STREAM_{kernel}_double_gpu_0_buffer_4294967296_block_{block}    {rate} 81.93\n"
            )
    found = read(tmp_path, text)
    assert found.device == "NVIDIA B200" and rates(found) == pytest.approx(
        {"device.stream": 7.4e12}
    )


def test_stream_is_of_the_host(tmp_path: Path) -> None:
    text = (
        "STREAM version $Revision: 5.10 $\nFunction    Best Rate MB/s  Avg time     Min time     "
        "Max time\n"
    )
    text += "".join(
        f"{name}:  {rate}     0.018755     0.018713     0.018895\n"
        for name, rate in (("Copy", 342000.0), ("Triad", 364000.0))
    )
    assert rates(read(tmp_path, text)) == pytest.approx({"host.stream": 353e9})
