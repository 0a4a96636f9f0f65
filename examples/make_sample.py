"""Write the sample profiles that ship with Turnbuckle: synthetic runs with the published
characteristics of MILC and of DGEMM.

    python examples/make_sample.py [--out FOLDER]

Writes ``milc-like-synthetic.sqlite`` and ``dgemm-like-synthetic.sqlite`` (layout of an Nsight
Systems export), each with a ``.truth.json`` beside it (the numbers it was made from). No GPU is
used and nothing of this machine goes into the files. What is published and what is made up is
listed in ``src/turnbuckle/examples/README.md``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import nsys_tables as nsys
from nsys_tables import D2H, DEVICE, H2D, PAGEABLE, PINNED
from simulated_run import SCHEMA, THREAD, Costs, Kernel, Link, Run

FOLDER = Path(__file__).resolve().parents[1] / "src" / "turnbuckle" / "examples"
MILC, DGEMM = "milc-like-synthetic", "dgemm-like-synthetic"
PRODUCT = "synthetic (Turnbuckle make_sample)"
MARK = "synthetic: written from published {} characteristics"

SEED = 20220718
SOLVES = 10
ITERATIONS = 31  # in each solve

# Groves et al. 2022, Fig 8 and its text: efficiency of 31.5 GB/s and overhead plus latency. The
# spreads, and all of pageable, are made up.
PCIE = 31.5e9
LINKS = {
    (H2D, PINNED): Link(2_000, 0.85 * PCIE, 0.025),
    (D2H, PINNED): Link(2_200, 0.83 * PCIE, 0.035),
    (H2D, PAGEABLE): Link(5_500, 9.4e9, 0.04),
    (D2H, PAGEABLE): Link(6_000, 8.1e9, 0.05),
}
COSTS = Costs(launch_call=4_500)  # median launch 4.4 to 4.6 us, section V.D

# Local lattice 32^3 x 8 sites: 32^3 x 32 (section V.B) over four GPUs. A staggered spinor is 6
# numbers a site, half the sites are even.
SITES = 32**3 * 8
FACE_SITES = 32**3 // 2
NULL, COMPUTE, COMM = 7, 13, 14
PACKED, ARRIVED = 1, 2  # events
RANKS, WORLD = 4, 0x44000000

KERNELS = {
    k.short_name: k
    for k in (
        Kernel(
            "xpay_pack",
            (
                "void lattice::xpay_pack<double, 3>(lattice::Spinor, lattice::Spinor, double, "
                "double*, int)"
            ),
            40_000,
            1024,
            128,
            40,
        ),
        Kernel(
            "dslash_interior",
            (
                "void lattice::dslash_interior<double, 3>(lattice::Gauge, lattice::Spinor, "
                "lattice::Spinor, int)"
            ),
            285_000,
            2048,
            64,
            96,
        ),
        Kernel(
            "dslash_boundary",
            (
                "void lattice::dslash_boundary<double, 3>(lattice::Gauge, lattice::Spinor, "
                "double const*, int)"
            ),
            52_000,
            512,
            64,
            104,
        ),
        Kernel(
            "dot",
            "void lattice::dot<double, 256>(lattice::Spinor, lattice::Spinor, double*, int)",
            27_000,
            432,
            256,
            32,
            2048,
        ),
        Kernel(
            "axpy_norm",
            (
                "void lattice::axpy_norm<double, 256>(lattice::Spinor, lattice::Spinor, double, "
                "double*, int)"
            ),
            48_000,
            432,
            256,
            36,
            2048,
        ),
    )
}
# precision of one iteration: chance, kernel time against double, bytes of one face in its parts
# (half precision sends norms apart)
PRECISIONS: tuple[tuple[float, float, tuple[int, ...]], ...] = (
    (0.7, 1.00, (FACE_SITES * 48,)),
    (0.2, 0.55, (FACE_SITES * 24,)),
    (0.1, 0.34, (FACE_SITES * 12, FACE_SITES * 4)),
)
# ns (section II), B/s (half of two NICs' 25 GB/s, section V.A)
NETWORK_LATENCY, NETWORK_BANDWIDTH = (
    1_860,
    12.5e9,
)


class Milc:
    """A conjugate-gradient solver on a lattice, rank 0 of 4, halo exchange through host memory."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.request = 0x10
        self.device: list[tuple[int, int, int]] = []
        self.host: list[tuple[int, int, int]] = []

    def exchange(self, parts: tuple[int, ...], scale: float) -> None:
        """Halo exchange beside the interior kernel: faces to the host, to the neighbours, back to
        the device.
        """
        run = self.run
        run.record(PACKED, COMPUTE)
        run.launch(KERNELS["dslash_interior"], COMPUTE, scale)
        run.wait_event(COMM, PACKED)
        for _ in range(2):  # forward and backward face
            for size in parts:
                run.copy(D2H, size, PINNED, COMM)
        message, requests = sum(parts), [self.request + i for i in range(4)]
        for i, neighbour in enumerate((1, RANKS - 1)):
            self._message("MPI_Irecv", 700, neighbour, message, requests[i])
        run.wait(COMM)
        for i, neighbour in enumerate((1, RANKS - 1)):
            self._message("MPI_Isend", 1_300, neighbour, message, requests[2 + i])
        start = run.now
        late = run.around(55_000, 0.45)  # the neighbour's own lag
        end = start + late + round(NETWORK_LATENCY + 2 * message * 1e9 / NETWORK_BANDWIDTH)
        for request in requests:
            run.mpi("MPI_START_WAIT_EVENTS", "MPI_Waitall", start, end, requestHandle=request)
        run.work(1_500)
        for _ in range(2):
            for size in parts:
                run.copy(H2D, size, PINNED, COMM)
        run.record(ARRIVED, COMM)
        run.wait_event(COMPUTE, ARRIVED)

    def _message(self, name: str, mean: float, neighbour: int, size: int, request: int) -> None:
        start = self.run.now
        end = start + self.run.around(mean, 0.15)
        self.run.mpi(
            "MPI_P2P_EVENTS",
            name,
            start,
            end,
            commHandle=WORLD,
            tag=7,
            remoteRank=neighbour,
            size=size,
            requestHandle=request,
        )
        self.run.work(200)

    def reduce(self) -> None:
        """Bring one number to the host, wait for it, add it up over the ranks."""
        run = self.run
        run.copy(D2H, 8, PINNED, COMPUTE)
        run.wait(COMPUTE)
        start = run.now
        end = start + run.around(38_000, 0.3)
        run.mpi(
            "MPI_COLLECTIVES_EVENTS",
            "MPI_Allreduce",
            start,
            end,
            commHandle=WORLD,
            size=8,
            recvSize=8,
        )
        run.work(2_000)

    def iterate(self) -> None:
        """One iteration of the solver, in the precision drawn for it."""
        run = self.run
        draw, chosen = run.random.random(), PRECISIONS[-1]
        for precision in PRECISIONS:
            if draw < precision[0]:
                chosen = precision
                break
            draw -= precision[0]
        _, scale, parts = chosen
        run.launch(KERNELS["xpay_pack"], COMPUTE, scale)
        self.exchange(parts, scale)
        run.launch(KERNELS["dslash_boundary"], COMPUTE, scale)
        run.launch(KERNELS["dot"], COMPUTE, scale)
        self.reduce()
        run.launch(KERNELS["axpy_norm"], COMPUTE, scale)
        self.reduce()
        run.work(1_020_000, 0.12)  # serial host work of the application

    def solve(self, number: int) -> None:
        """Load the links and the source, iterate, fetch the solution; every second solve also
        fetches the force.
        """
        run = self.run
        run.copy(H2D, SITES * 4 * 18 * 4, PINNED, COMPUTE)  # fat links, single precision
        run.copy(H2D, SITES // 2 * 48, PINNED, COMPUTE)
        for _ in range(3):
            run.memset(SITES // 2 * 48, COMPUTE)
        for _ in range(ITERATIONS):
            with run.range("CG iteration", registered=True):
                self.iterate()
        run.copy(D2H, SITES // 2 * 48, PINNED, COMPUTE)
        if number % 2:
            run.copy(D2H, SITES * 4 * 10 * 8, PINNED, COMPUTE)
        run.wait(COMPUTE)
        run.work(1_400_000, 0.2)

    def start(self) -> None:
        """Start MPI and CUDA, allocate, bring the configuration to the device from pageable and
        from pinned memory.
        """
        run = self.run
        run.domain("synthetic", 1)
        run.mark(MARK.format("MILC"))
        begin = run.now
        run.mpi("MPI_OTHER_EVENTS", "MPI_Init", begin, begin + run.around(46_000_000, 0.1))
        run.write("MPI_RANKS", globalTid=THREAD, rank=0)
        run.write(
            "MPI_COMMUNICATORS",
            rank=0,
            timestamp=run.now,
            commHandle=WORLD,
            parentHandle=0,
            localRank=0,
            size=RANKS,
        )
        for _ in range(8):
            run.os_call("ioctl", 310_000, 0.3)
        run.call("cudaFree", 262_000_000)  # the first call makes the context
        for name in (
            "cudaStreamCreateWithFlags",
            "cudaStreamCreateWithFlags",
            "cudaEventCreateWithFlags",
            "cudaEventCreateWithFlags",
        ):
            run.call(name, 9_000)
        for gigabytes, milliseconds in (
            (1.21, 3.6),
            (1.21, 3.3),
            (0.6, 2.2),
            (0.6, 2.3),
            (0.3, 1.7),
            (0.15, 1.6),
        ):
            self.device.append(run.allocate(int(gigabytes * 2**30), DEVICE, milliseconds * 1e6))
        for mebibytes in (96, 16, 8):
            self.host.append(run.allocate(mebibytes << 20, PINNED, 290_000 * mebibytes))
        for _ in range(4):
            run.os_call("mmap", 14_000, 0.3)
        run.os_call("read", 21_000_000, 0.2)
        # the configuration, double precision
        run.copy(H2D, SITES * 4 * 18 * 8, PAGEABLE, NULL, blocking=True)
        run.work(2_600_000)
        for _ in range(4):
            run.copy(H2D, SITES * 18 * 8, PINNED, COMM)
        run.wait()

    def finish(self) -> None:
        """Fetch the result, free everything."""
        run = self.run
        run.wait()
        run.copy(D2H, SITES * 4 * 18 * 8, PAGEABLE, NULL, blocking=True)
        run.os_call("write", 12_000_000, 0.2)
        for place in self.device:
            run.free(place, 620_000)
        for place in self.host:
            run.free(place, 900_000)
        run.mpi("MPI_OTHER_EVENTS", "MPI_Finalize", run.now, run.now + run.around(6_000_000, 0.2))
        run.work(1_000_000)


def milc_like(path: Path, seed: int = SEED, solves: int = SOLVES) -> dict[str, object]:
    """Write the MILC-like sample to `path`; returns the truth it was made from."""
    run = Run(LINKS, seed, COSTS)
    program = Milc(run)
    with run.range("setup"):
        program.start()
    for number in range(solves):
        with run.range(f"solve {number}"):
            program.solve(number)
    with run.range("teardown"):
        program.finish()
    run.save(path, MILC, {NULL: 3, COMPUTE: 2, COMM: 2}, PRODUCT)
    own = {
        "solves": solves,
        "iterations": solves * ITERATIONS,
        "kernel_seconds": {kernel.short_name: kernel.mean_ns / 1e9 for kernel in KERNELS.values()},
        "precisions": [
            {"chance": c, "kernel_scale": s, "face_bytes": list(parts)}
            for c, s, parts in PRECISIONS
        ],
    }
    return truth(run, MILC, seed, own)


# rows and columns of the matrices; section III.A has footprints from 500 kB to 8.3 GB, three
# matrices of 8-byte numbers each
ORDERS = (144, 256, 512, 1024, 2048, 4096, 8192)
REPEATS = 5


def dgemm_seconds(order: int) -> float:
    """Time of one kernel [s]: 20 TFLOP/s (section III.A), 90 % of it for large matrices, half of
    that at order 700 (both made up).
    """
    rate = 0.9 * 20e12 * order / (order + 700)
    return 3e-6 + 2 * order**3 / rate


def dgemm_like(path: Path, seed: int = SEED) -> dict[str, object]:
    """Write the DGEMM-like sample to `path`: blocking copies in, one kernel, one blocking copy out;
    returns its truth.
    """
    run = Run(LINKS, seed, COSTS)
    run.domain("synthetic", 1)
    run.mark(MARK.format("DGEMM"))
    run.call("cudaFree", 262_000_000)
    for order in ORDERS:
        size = 8 * order * order
        kernel = Kernel(
            "dgemm_nn",
            "void dense::dgemm_nn<double, 128, 64>(int, double const*, double const*, double*)",
            dgemm_seconds(order) * 1e9,
            (-(-order // 128)) * (-(-order // 64)),
            128,
            234,
            49152,
        )
        with run.range(f"order {order}"):
            host = [run.allocate(size, PINNED, 120_000 + 0.27 * size) for _ in range(3)]
            device = [run.allocate(size, DEVICE, 240_000 + 0.002 * size) for _ in range(3)]
            for _ in range(REPEATS):
                run.copy(H2D, size, PINNED, NULL, blocking=True)
                run.copy(H2D, size, PINNED, NULL, blocking=True)
                run.launch(kernel, NULL)
                run.copy(D2H, size, PINNED, NULL, blocking=True)
                run.work(40_000)
            for place in device:
                run.free(place, 180_000)
            for place in host:
                run.free(place, 90_000)
    run.save(path, DGEMM, {NULL: 3}, PRODUCT)
    own = {
        "repeats": REPEATS,
        "kernel_seconds": {str(order): dgemm_seconds(order) for order in ORDERS},
    }
    return truth(run, DGEMM, seed, own)


def truth(run: Run, name: str, seed: int, own: dict[str, object]) -> dict[str, object]:
    """The parameters of the run (`own` are those of its program), and what the simulation itself
    knows of it.
    """
    directions = {H2D: "h2d", D2H: "d2h"}
    memories = {PAGEABLE: "pageable", PINNED: "pinned"}
    links = {
        f"{directions[direction]}_{memories[memory]}": {
            "latency_seconds": link.latency_ns / 1e9,
            "bandwidth": link.bandwidth,
            "relative_spread": link.spread,
        }
        for (direction, memory), link in run.links.items()
    }
    return {
        "what": f"synthetic; parameters of {name}.sqlite, written by examples/make_sample.py",
        "seed": seed,
        "copy_time": (
            "seconds = latency_seconds + size_bytes / bandwidth, times 1 + relative_spread * "
            "normal draw"
        ),
        "copies": links,
        "link_peak_bandwidth": PCIE,
        "launch_call_seconds": run.costs.launch_call / 1e9,
        "launch_to_start_seconds": run.costs.launch_to_start / 1e9,
        **own,
        "rows": {table: len(rows) for table, rows in run.rows.items() if rows},
        "run_seconds": run.now / 1e9,
    }


def main() -> None:
    """Write the samples."""
    parser = argparse.ArgumentParser(description="write the synthetic sample profiles")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder to write to")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in ((MILC, milc_like), (DGEMM, dgemm_like)):
        path = folder / f"{name}.sqlite"
        facts = write(path)
        (folder / f"{name}.truth.json").write_text(
            json.dumps(facts, indent=1) + "\n", encoding="utf-8"
        )
        print(f"{path.name}: {path.stat().st_size} bytes, schema {nsys.VERSIONS[SCHEMA]}")


if __name__ == "__main__":
    main()
