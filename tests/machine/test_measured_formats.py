"""Outputs of the further tests (nvbandwidth, gdrcopy, OSU, nccl-tests, profiles and pages) are read
to what was measured.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.machine.measured.logs import Measured, format_of, read_measured

NVBANDWIDTH = """nvbandwidth Version: v0.6
Driver Version: 550.54.15

Device 0: NVIDIA H100 80GB HBM3 (00000009:01:00)

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     55.00     57.00

SUM host_to_device_memcpy_ce 112.00

Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A    390.00
 1    394.00       N/A
Waived:
Running host_device_latency_sm.
memory latency SM CPU(row) <-> GPU(column) (ns)
           0
 0    800.00
Running all_to_host_memcpy_ce.
           0
 0    295.15
"""
COPYLAT = """GPU id:0; name: NVIDIA B200; Bus id: 0000:1b:00
gdr_copy_to_mapping num iters for each size: 10000
Test \t\t\t Size(B) \t Median Time(us) \t Min. Time(us)
gdr_copy_to_mapping \t        1 \t      0.1000 \t      0.1011
gdr_copy_to_mapping \t     4096 \t      0.2730 \t      0.2718
gdr_copy_from_mapping \t        1 \t      1.1600 \t      1.1540
"""
COPYBW = """writing test, size=131072 offset=0 num_iters=10000
write BW: {write}
reading test, size=131072 offset=0 num_iters=100
read BW: 530.135MB/s
"""
NEW_NCCL = """# Collective test starting: sendrecv_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor)
#  Rank  0 Group  0 Pid  123 on {one} device  0 [0000:07:00] NVIDIA A100-SXM4-40GB
#  Rank  1 Group  0 Pid  124 on {two} device  0 [0000:0f:00] NVIDIA A100-SXM4-40GB
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           0             0     float     sum      -1     0.20    0.00    0.00      0     0.18    0.00    0.00      0
        1024           256     float     sum      -1    12.50    0.08    0.08      0    12.34    0.08    0.08      0
     1048576        262144     float    none      -1    20.00   52.42   52.42      0    19.00   55.19   55.19      0
"""
OLD_NCCL = """# nThread 1 nGpus 2 minBytes 1
#   Rank  0 Pid 1 on localhost device  0 [0x00] A100-SXM4-40GB
#   Rank  1 Pid 1 on localhost device  1 [0x00] A100-SXM4-40GB
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
          64            16   float     sum    35.00    0.00    0.00    N/A    34.00    0.00    0.00    N/A
         128            32   float            36.00    0.00    0.00    N/A    35.00    0.00    0.00    N/A
"""
PAGE = """# A machine
| GPU           | NVIDIA H100 80GB HBM3 |
| NVIDIA Driver | 560.35.03   |
### HBM Bandwidth
|       | ND H100 V5 (TB/s) |
| ----- | ----------------- |
| Copy  | 2.90              |
| Triad | 3.00              |
### NV Bandwidth
|                       | ND H100 V5 (GB/s) |
| --------------------- | ----------------- |
| Host to Device        | 51.0              |
| Device to Host        | 52.0              |
"""


def written(folder: Path, text: str, name: str = "out.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def read(folder: Path, text: str, name: str = "out.txt", **options: object) -> Measured:
    return read_measured(written(folder, text, name), with_rates=True, **options)  # type: ignore[arg-type]


def values(found: Measured) -> dict[str, float]:
    return {q.what: q.value for q in found.quantities}


def code(folder: Path, text: str, name: str = "out.txt") -> str:
    with pytest.raises(TurnbuckleError) as caught:
        read(folder, text, name)
    assert caught.value.fix
    return caught.value.code


def test_nvbandwidth_as_text(tmp_path: Path) -> None:
    found = read(tmp_path, NVBANDWIDTH)
    assert (found.format, found.device, found.driver) == (
        "nvbandwidth",
        "NVIDIA H100 80GB HBM3",
        "550.54.15",
    )
    assert values(found) == pytest.approx(
        {"rate.h2d.pinned": 56e9, "rate.p2p": 392e9, "load.host": 800e-9}
    )
    assert all(q.unsized == q.what.startswith("rate.") for q in found.quantities)
    assert sum(f.count for f in found.findings) == 1


def test_nvbandwidth_as_json_is_the_same(tmp_path: Path) -> None:
    cases = [
        {
            "name": "host_to_device_memcpy_ce",
            "status": "Passed",
            "bandwidth_matrix": [["55.00", "57.00"]],
        },
        {
            "name": "device_to_device_memcpy_read_ce",
            "bandwidth_matrix": [["N/A", "390.00"], ["394.00", "N/A"]],
        },
        {"name": "host_device_latency_sm", "bandwidth_matrix": [[800.0]]},
        {"name": "device_to_device_latency_sm", "status": "Waived"},
    ]
    body = {
        "nvbandwidth": {
            "Driver Version": "550.54.15",
            "GPU Device list": ["0: NVIDIA H100 80GB HBM3 (00000009:01:00)"],
            "testcases": cases,
        }
    }
    found = read(tmp_path, "Running\n" + json.dumps(body))
    text = read(tmp_path, NVBANDWIDTH)
    assert values(found) == values(text) and (found.device, found.driver) == (
        text.device,
        text.driver,
    )
    assert code(tmp_path, '{"nvbandwidth": {') == "A412"
    assert code(tmp_path, '{"nvbandwidth": {"testcases": 4}}') == "A412"


def test_rates_without_a_size_need_one_where_a_time_is_wanted(tmp_path: Path) -> None:
    path = written(tmp_path, NVBANDWIDTH)
    refused("A145", read_measured, path)
    found = read_measured(path, size_bytes=5.6e8)
    assert {(c.direction, c.memory): c.seconds.tolist() for c in found.curves}[
        "h2d", "pinned"
    ] == pytest.approx([0.01])
    assert found.quantities == ()


@pytest.mark.parametrize("write", ["9638.54MB/s", "median 9638.54MB/s, min 20.2MB/s"])
def test_gdrcopy(write: str, tmp_path: Path) -> None:
    found = read(
        tmp_path,
        COPYLAT
        + COPYBW.format(write=write)
        + "Round-trip latency per iteration is (min) 2.2, (median) 2.4 us\n",
    )
    by_name = {c.name: c for c in found.curves}
    assert by_name["gdr_copy_to_mapping"].seconds.tolist() == pytest.approx([0.1e-6, 0.273e-6])
    assert by_name["copybw write"].seconds[0] == pytest.approx(131072 / (9638.54 * 2**20))
    assert {c.direction for c in found.curves} == {"mapped_h2d", "mapped_d2h"} and {
        c.means for c in found.curves
    } == {"cpu"}
    assert (
        values(found) == pytest.approx({"flag.round_trip": 2.4e-6})
        and found.device == "NVIDIA B200"
    )


def test_sendrecv_is_a_copy_between_devices_or_nodes(tmp_path: Path) -> None:
    near, far = (
        read(tmp_path, NEW_NCCL.format(one="node1", two=two)) for two in ("node1", "node2")
    )
    assert [c.direction for c in (*near.curves, *far.curves)] == ["p2p", "network"]
    assert (
        near.curves[0].seconds.tolist() == pytest.approx([12.5e-6, 20e-6])
        and near.device == "NVIDIA A100-SXM4-40GB"
    )


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("nccl_allreduce.log", "all_reduce"),
        ("x-all_gather_perf.txt", "all_gather"),
        ("x.log", "operation not named"),
    ],
)
def test_older_nccl_tests_are_named_by_their_file(
    name: str, operation: str, tmp_path: Path
) -> None:
    (curve,) = read(tmp_path, OLD_NCCL, name).curves
    assert curve.name == f"NCCL {operation}, 2 ranks" and curve.direction == "collective"
    assert curve.seconds.tolist() == pytest.approx([35e-6, 36e-6]) and curve.lines == (6, 7)


def test_vidur_by_workers_and_nodes_in_any_order_of_columns(tmp_path: Path) -> None:
    rows = [(2048, 2, 2, 0.02), (4096, 2, 2, 0.03), (2048, 2, 1, 0.05), (4096, 2, 1, 0.06)]
    one = "size,time_stats.send_recv.median,num_workers,devices_per_node,collective\n" + "".join(
        f"{s},{t},{w},{d},send_recv\n" for s, w, d, t in rows
    )
    two = ",devices_per_node,num_workers,time_stats.send_recv.median,size\n" + "".join(
        f"{k},{d},{w},{t},{s}\n" for k, (s, w, d, t) in enumerate(rows)
    )
    found = [read(tmp_path, text, "x.csv") for text in (one, two)]
    assert [(c.direction, c.seconds.tolist()) for c in found[0].curves] == [
        ("p2p", [2e-5, 3e-5]),
        ("network", [5e-5, 6e-5]),
    ]
    assert [c.seconds.tolist() for c in found[1].curves] == [
        c.seconds.tolist() for c in found[0].curves
    ]
    packed = tmp_path / "x.csv.gz"
    packed.write_bytes(gzip.compress(one.encode()))
    assert [c.name for c in read_measured(packed).curves] == [c.name for c in found[0].curves]
    assert code(tmp_path, "time_stats.x.median\n1\n") == "A023"
    packed.write_bytes(gzip.compress(one.encode())[:30])
    refused("A061", read_measured, packed)


def test_a_packed_file_does_not_fill_the_memory(tmp_path: Path) -> None:
    bomb = tmp_path / "x.csv.gz"
    bomb.write_bytes(gzip.compress(b"size,time_stats.a.median\n" + b"1,1\n" * 5_000_000))
    refused("A061", read_measured, bomb)


@given(gap=st.floats(1e-6, 2e-5), rate=st.floats(2e11, 5e12))
@settings(max_examples=20)
def test_small_kernels_by_elements(
    gap: float, rate: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The volume printed beside the elements is not believed: some versions divide it once too
    often.
    """
    elements = [4096 * 2**k for k in range(10)]
    shown = [16 * n / (gap + 16 * n / rate) / 1e9 for n in elements]
    text = "".join(
        f"{n}  0kB {0.7 * r:8.2f} {r:8.2f} \n" for n, r in zip(elements, shown, strict=True)
    )
    (curve,) = read(tmp_path_factory.mktemp("small"), text, "h200_graph.txt").curves
    assert curve.size_bytes.tolist() == [16.0 * n for n in elements] and "graph" in curve.name
    np.testing.assert_allclose(curve.seconds, gap + curve.size_bytes / rate, rtol=0.01)


def test_a_page_of_results(tmp_path: Path) -> None:
    found = read(tmp_path, PAGE)
    assert (found.format, found.device, found.driver) == (
        "benchmark page",
        "NVIDIA H100 80GB HBM3",
        "560.35.03",
    )
    assert values(found) == pytest.approx(
        {"rate.h2d.pinned": 51e9, "rate.d2h.pinned": 52e9, "device.stream": 2.95e12}
    )


def test_osu_says_where_its_ranks_were_or_is_told(tmp_path: Path) -> None:
    plain = "# OSU MPI Latency Test v7.3\n# Size       Avg Latency(us)\n8 2.50\n64 2.60\n"
    rate = (
        "# OSU MPI Multiple Bandwidth / Message Rate Test v5.7\n"
        "# [ pairs: {} ] [ window size: 64 ]\n"
    )
    rate += "# Size MB/s Messages/s\n1024 1000.0 97.5\n"
    told = "$ srun -n2 -N2 osu_latency H H\n" + plain
    assert [read(tmp_path, text).curves[0].direction for text in (plain, told)] == [
        "h2h",
        "network",
    ]
    assert read(tmp_path, plain, between_nodes=True).curves[0].direction == "network"
    assert read(tmp_path, rate.format(1)).curves[0].seconds.tolist() == pytest.approx([1.024e-6])
    (several,) = read(tmp_path, rate.format(4)).curves
    assert several.direction == "several" and several.name.endswith("4 pairs")
    assert (
        code(
            tmp_path,
            "# OSU MPI Bi-Directional Bandwidth Test v7\n# Size  Bandwidth (MB/s)\n8 9.00\n",
        )
        == "A023"
    )


def test_hips_own_test_prints_sizes_with_units(tmp_path: Path) -> None:
    text = (
        "=== HIP Bandwidth Test Type: H2D with host pinned ===\n"
        "Data Size      Avg Time(us)   Avg BW(GB/s)\n"
    )
    text += "16 B  11.876  0.001\n1 MB  46.044  22.773\n"
    (curve,) = read(tmp_path, text).curves
    assert (curve.direction, curve.memory) == ("h2d", "pinned")
    assert curve.size_bytes.tolist() == [16.0, 2.0**20] and curve.seconds.tolist() == pytest.approx(
        [11.876e-6, 46.044e-6]
    )


def test_runs_of_the_slack_proxy_are_a_surface(tmp_path: Path) -> None:
    run = (
        '{{"program": "proxy", "args": {{"n": "512", "threads": "2"}}, "slack_ns": {}, '
        '"per_iter_ns": {}}}\n'
    )
    found = read(
        tmp_path,
        '{"machine": {"gpu": "NVIDIA H100"}}\n'
        + run.format(-1, 9000)
        + run.format(1000, 14000)
        + run.format(1000, 16000),
    )
    assert [(p["size"], p["threads"], p["slack_s"], p["seconds"]) for p in found.surface] == [
        (512.0, 2.0, 0.0, pytest.approx(9e-6)),
        (512.0, 2.0, pytest.approx(1e-6), pytest.approx(15e-6)),
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"section": "copy", "rows": [', "A412"),
        ('{"section": "copy", "rows": 4}', "A412"),
        ('{"section": "copy", "rows": []} [1]', "A412"),
        (
            (
                '{"section": "copy", "rows": [{"dir": "h2d", "mem": "pinned", "bytes": 1e300, '
                '"call": "async"}]}'
            ),
            "A413",
        ),
        ('{"section": "host", "rows": [{"case": "cores", "count": 1%s}]}' % ("0" * 400), "A413"),
        ('{"section": "copy", "rows": [{"dir": "h2d"}, 4, null]}', "A023"),
    ],
)
def test_a_damaged_file_of_ours_is_refused(text: str, wanted: str, tmp_path: Path) -> None:
    assert code(tmp_path, text) == wanted


def test_every_format_is_told_from_the_others() -> None:
    texts = {
        "nvbandwidth": NVBANDWIDTH,
        "gdrcopy": COPYLAT,
        "nccl-tests": OLD_NCCL,
        "benchmark page": PAGE,
        "small kernels": "4096  64kB  26  27\n",
        "vidur": "a,time_stats.b.median,size\n1,2,3\n",
        "microbench": '{"section": "copy"}',
        "OSU": "# OSU MPI Latency Test v7.3\n",
    }
    assert {name: format_of(text) for name, text in texts.items()} == {name: name for name in texts}


def test_the_real_sets_are_taken(shared: Path) -> None:
    """Every file of the measured sets gives curves or numbers."""
    files = [p for p in (shared / "traces" / "measured").rglob("*") if p.is_file()]
    assert len(files) >= 20
    for file in files:
        found = read_measured(file, with_rates=True)
        assert found.curves or found.quantities, file.name
