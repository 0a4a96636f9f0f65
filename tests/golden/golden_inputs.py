"""Write the recordings and tables that the golden questions are asked of: ``inputs.tar.xz``.

    python tests/golden/golden_inputs.py

They are those from which the fuzzer starts, which the tests' own builders make, and runs of several
ranks made below.  They are kept as files and not built by each test: the same bytes are read
whatever becomes of the builders.  Run this only to add an input; a changed one changes answers that
no change of the package explains.
"""

from __future__ import annotations

import io
import lzma
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from golden_net import INPUTS, ROOT

sys.path += [str(ROOT / "validation" / "fuzz"), str(ROOT / "tests" / "builders")]

#: Seeds that the repository holds as files anyway, or that say nothing beyond another one.
LEFT_OUT = (
    "nsys_dgemm-like-synthetic",
    "nsys_milc-like-synthetic",
    "turnbuckle_sample",
    "kineto_archive",
    "paje_packed",
)
STEPS = 12
#: A workload of two recordings that lie beside the inputs.
PORTFOLIO = """\
[suite]
name = "two codes"
[recordings]
dgemm = "dgemm.sqlite"
[recordings.milc]
file = "milc.sqlite"
node_hours = 3
group = "lattice"
[targets.self]
price = 1.1
power = "900 W"
[targets.gh200]
price = {from = 1.6, to = 2.0}
nodes = 50
[targets.nvlink-c2c]
price = 1.3
"""


def written(
    path: Path, ranks: Iterable[int], of: int, *, late_ns: int = 0, busy: float = 1.0
) -> None:
    """Write an Nsight Systems export of some ranks of a run: copies, kernels, messages round the
    ring, reductions by MPI and by NCCL.

    Parameters
    ----------
    late_ns : by which the clock of the file is late.
    busy : times the kernels last longer.
    """
    import build_nsys as nsys

    strings = {
        **{
            0: "cudaLaunchKernel_v7000",
            1: "cudaMemcpyAsync_v3020",
            2: "cudaStreamSynchronize_v3020",
            3: "cudaEventRecord_v3020",
        },
        **{
            10: "void smooth<double>(double*, int)",
            11: "smooth",
            12: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)",
            13: "nccl",
        },
        **{
            20: "MPI_Sendrecv",
            21: "MPI_Allreduce",
            22: "MPI_Send",
            23: "MPI_Recv",
            30: "step",
            40: "solver",
        },
    }
    rows: dict[str, list[dict[str, Any]]] = {}

    def add(table: str, **row: Any) -> None:
        rows.setdefault(table, []).append(row)

    for rank in ranks:
        process, thread = (
            (1 << 48) | ((100 + rank) << 24),
            (1 << 48) | ((100 + rank) << 24) | (100 + rank),
        )
        add("MPI_RANKS", globalTid=thread, rank=rank)
        add(
            "MPI_COMMUNICATORS",
            **{
                "rank": rank,
                "timestamp": 1,
                "commHandle": 91,
                "localRank": rank,
                "size": of,
                "members": None,
                "groupRoot": 0,
            },
        )
        add("PROCESSES", globalPid=process, pid=100 + rank, name="solver")
        where = {"deviceId": rank, "contextId": 1, "streamId": 7, "globalPid": process}
        correlation = 0

        def call(start: int, length: int, name: int, thread: int = thread) -> int:
            nonlocal correlation
            correlation += 1
            add(
                "CUPTI_ACTIVITY_KIND_RUNTIME",
                **nsys.call(start, start + length, correlation, nameId=name, globalTid=thread),
            )
            return correlation

        for step in range(STEPS):
            at = late_ns + 10_000 + 2_000_000 * step + 137_000 * (step * 5 % 7) + 3_000 * rank
            size = 65_536 << (step % 4)
            add(
                "NVTX_EVENTS",
                start=at,
                end=at + 1_700_000,
                eventType=59,
                textId=30,
                globalTid=thread,
                domainId=0,
            )
            made = call(at, 4_000 + 10 * step, 1)
            add(
                "CUPTI_ACTIVITY_KIND_MEMCPY",
                **{
                    **nsys.copy(at + 9_000, at + 9_000 + 6_000 + size // 12, made, 1, 1, 2, size),
                    **where,
                },
            )
            at += 100_000
            made = call(at, 5_000, 0)
            length = int((400_000 + 9_000 * ((step * 7 + rank * 3) % 5)) * busy)
            add(
                "CUPTI_ACTIVITY_KIND_KERNEL",
                **{
                    **nsys.kernel(
                        at + 8_000, at + 8_000 + length, made, demangledName=10, shortName=11
                    ),
                    **where,
                },
            )
            made = call(at + 20_000, 4_000, 1)
            end = at + 8_000 + length + 2_000
            add(
                "CUPTI_ACTIVITY_KIND_MEMCPY",
                **{**nsys.copy(end, end + 5_000 + size // 11, made, 2, 2, 1, size), **where},
            )
            end += 5_000 + size // 11
            call(at + 30_000, end + 3_000 - at - 30_000, 2)
            at += 800_000
            message = {"globalTid": thread, "commHandle": 91, "size": size}
            # even ranks send first, so that nothing waits for ever where sends wait for their
            # receivers
            to, back = (0, 40_000) if rank % 2 == 0 else (40_000, 0)
            for name, after, other in ((22, to, rank + 1), (23, back, rank - 1)):
                add(
                    "MPI_P2P_EVENTS",
                    start=at + after,
                    end=at + after + 35_000,
                    textId=name,
                    tag=5,
                    remoteRank=other % of,
                    **message,
                )
            reduced = {**message, "size": 64, "recvSize": 64}
            add(
                "MPI_COLLECTIVES_EVENTS",
                start=at + 110_000,
                end=at + 190_000 - 3_000 * rank,
                textId=21,
                **reduced,
            )
            at += 200_000
            made = call(at, 4_500, 0)
            start, end = at + 9_000 + 2_000 * rank, at + 160_000 - 3_000 * rank
            add(
                "CUPTI_ACTIVITY_KIND_KERNEL",
                **{**nsys.kernel(start, end, made, demangledName=12, shortName=13), **where},
            )
            call(at + 20_000, end + 4_000 - at - 20_000, 2)
    gpus = [
        {
            **nsys.GPU,
            "id": n,
            "name": "NVIDIA A100-SXM4-40GB",
            "cuDevice": n,
            "chipName": "GA100",
            "smCount": 108,
        }
        for n in range(of)
    ]
    nsys.make(
        path, "3.7", strings=strings, TARGET_INFO_GPU=gpus, TARGET_INFO_CUDA_STREAM=[], **rows
    )


def changed(path: Path, *statements: str) -> None:
    """Write the smaller sample after some SQL."""
    shutil.copyfile(ROOT / "src" / "turnbuckle" / "examples" / "dgemm-like-synthetic.sqlite", path)
    with closing(sqlite3.connect(path)) as file, file:
        for statement in statements:
            file.execute(statement)
    file.close()


def build(place: Path) -> None:
    """Write all inputs into an empty folder."""
    import seeds  # type: ignore[import-not-found]
    import topologies

    seeds.build(place, real=None)
    for name in LEFT_OUT:
        shutil.rmtree(place / name)
    for path in place.glob("study_cards/*.sqlite"):
        path.unlink()
    study = (place / "study_cards" / "study.toml").read_text(encoding="utf-8")
    (place / "study_cards" / "study.toml").write_text(
        study.replace("melt.sqlite", "../dgemm.sqlite").replace(
            "other.sqlite", "../ranks/all.sqlite"
        ),
        encoding="utf-8",
    )
    ranks = place / "ranks"
    ranks.mkdir()
    written(ranks / "all.sqlite", range(4), 4)
    written(ranks / "two.sqlite", range(2), 2)
    for rank in range(3):
        written(ranks / f"rank{rank}.sqlite", [rank], 3, late_ns=400_000 * rank)
    written(ranks / "disturbed.sqlite", range(2), 2, busy=1.3)
    changed(
        place / "managed.sqlite",
        (
            "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyKind = copyKind + 10 WHERE correlationId "
            "% 2 = 0"
        ),
    )
    changed(
        place / "unhealthy.sqlite",
        "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId % 5 = 0",
    )
    chain = (
        (place / "chain_stages" / "chain.toml")
        .read_text(encoding="utf-8")
        .splitlines(keepends=True)
    )
    timed = max(k for k, line in enumerate(chain) if line.startswith("time ="))
    (place / "chain_open.toml").write_text(
        "".join(chain[:timed] + chain[timed + 1 :]), encoding="utf-8"
    )
    curve = [
        (
            f"h2d, pinned, {1 << k}, {3e-6 + (1 << k) / 50e9:.4e}\n"
            f"d2h, pinned, {1 << k}, {2e-6 + (1 << k) / 45e9:.4e}"
        )
        for k in range(8, 28, 2)
    ]
    (place / "curve.csv").write_text(
        "\n".join(["direction, memory, size [B], time [s]", *curve, ""]), encoding="utf-8"
    )
    (place / "mix.toml").write_text(PORTFOLIO, encoding="utf-8")
    (place / "key").write_bytes(bytes(range(32)))
    (place / "node.xml").write_text(topologies.HWLOC, encoding="utf-8")
    (place / "node.txt").write_text(topologies.NVIDIA, encoding="utf-8")
    (place / "places.csv").write_text("rank, node\n0, 1\n1, 1\n2, 0\n3, 0\n", encoding="utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "inputs"
        build(place)
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path in sorted(p for p in place.rglob("*") if p.is_file()):
                about = tarfile.TarInfo(path.relative_to(place).as_posix())
                about.size = path.stat().st_size
                archive.addfile(about, io.BytesIO(path.read_bytes()))
        INPUTS.write_bytes(lzma.compress(held.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{INPUTS}: {INPUTS.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
