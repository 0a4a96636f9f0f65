"""What another machine may do that no recording and no machine file says: priors, each with its
sources (decision 0018).

A number of another machine of which nothing is known is drawn from how far such numbers lie apart
on machines that were measured.  None of the facts is a validation case, and no constant is fitted
to one.

    share of the link        a node reaches at most `LINK_FASTEST` of what its data sheet leaves, less by a half-normal logarithm;
                             inside one module it reaches the share that the machine file states
    staging by the host      pageable copies run at a rate of the host's, that of A where A shows one, never faster than the link;
                             nobody stages them over a coherent link, where they run as pinned ones
                             do, less a half-normal logarithm
    fixed part of a copy     log-normal around that of A
    host of the other node   `turnbuckle.projection.elsewhere.hosts`
    launches                 log-normal around those of A, where the machine does not say them
    GPUs of another vendor   log-normal around a ratio of peak rates
    copies at the same time  each gets between all of the link and an equal share of it

An answer takes the middle of each prior, its interval takes draws (decision 0024).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from turnbuckle.cost.loggp import on_other_link
from turnbuckle.cost.packet import PAGEABLE_THRESHOLD, large_share
from turnbuckle.foundation.arrays import Float, below, quantile
from turnbuckle.machine import Machine, Pair
from turnbuckle.machine.parameter_names import (
    HOST_WAYS,
    LINK_WAYS,
    LinkWay,
    ParameterName,
    link_parameter,
)

if TYPE_CHECKING:
    from turnbuckle.projection.model import Priced

#: Two machines differ by this much more (log-sd) than one differs from the middle of all.
_PAIR: Final = float(np.sqrt(2.0))
#: The share of a data sheet's link (after its packets, or its peak where no packets are known) that
#: nodes reach: log-sd of the half-normal below the best.  Root mean square of ln(measured / data
#: sheet / 1.06) over 34 pinned copies on some 20 machines: PCIe 3 to 5, NVLink 2, xGMI, NVLink-C2C;
#: same and other socket, narrow slots (Siefert 2023, Pearson 2019 and 2023, nvbandwidth logs).
LINK_SHARE: Final = 0.47
#: The best of them over its data sheet: 55.2 GB/s where the packets of PCIe 5 leave 52.0.
LINK_FASTEST: Final = 1.06
#: The same below the share that a machine file states: other sockets, narrow slots, other tests of
#: one kind of node (the same 34).
NODE_SHARE: Final = 0.31
#: The same of links between devices: root mean square over 11 facts, from 92 % of NVLink 3 to 19 %
#: in a default environment.
PEER_SHARE: Final = 0.76
#: The same of device memory against its peak: 18 stream measurements between 74 and 96 %.
DEVICE_SHARE: Final = 0.17
#: Pageable copies [B/s], and log-sd between hosts: 4.0 (TITAN Black), 5.5 (a node of Dask's
#: developers), 13.2 (RTX 4090) and 14.3 GB/s (Khetawat et al., Table I).
STAGED_RATE: Final = 8.0e9
STAGED_SPREAD: Final = 0.64
#: Couplings over which a GPU works on any memory of the host, as it does on its own.
COHERENT: Final = ("apu", "c2c")
#: Pageable copies over a coherent link against pinned ones (log-sd of the half-normal by which they
#: take longer): root mean square over 93.0 of 97.4 GiB/s to the device (GH200, 1 GiB:
#: vortex-data/vortex pull request 7815), 406.9 of 406.9 GB/s to it and 296.8 of 296.8 from it
#: (GH200, 8 GiB: ntua-el20062/grace-hopper-benchmark, commit 505e82c).
COHERENT_SHARE: Final = 0.027
#: Fixed part of a small copy between two machines (log-sd): root of 2 times 0.41, that of eight
#: machines (Siefert 2023, 128 B).
COPY_LATENCY_SD: Final = 0.58
#: Launches between two machines (log-sd): root of 2 times 0.47, that of the launch call on eight
#: machines (Siefert 2023, empty kernel).
LAUNCH_ERROR: Final = 0.67
#: Kernels on another vendor's GPU against a ratio of rates (log-sd): 90 of 100 within a factor of
#: 2.  Kernels of two networks on an H100 and an MI300X were off by 1.53 at most, a solver on a V100
#: and a die of an MI250X by 1.8 (docs/models/kernels.md); layer norms on MI100 and MI210 against
#: five GPUs of NVIDIA by 1.24 in 90 of 100 (validation/kernels).
VENDOR_ERROR: Final = 0.42
#: Kernels that work on what the host allocated in one memory (log-sd of the half-normal by which
#: they take longer): 95 of 100 within 1.35, the most of three published: about 1.3, so up to 1.35
#: (spectral elements: ExtremeFLOW/neko pull request 2666), 1.11 (the worst of SPECaccel 2023:
#: Bertolli et al., PMBS 2024), 1.05 (page faults that can be retried: LLNL/conduit pull request
#: 1693); all on MI300A.
HOST_ALLOCATED: Final = 0.153
#: Devices of one node that can copy at once: the catalogue's nodes have at most eight GPUs.
MOST_SHARERS: Final = 8

#: Most calls of a framework for each launch that no profiler records and that wait where a layer
#: forwards them: the last error after each launch, and the current device before it
#: (lupinemachines/lupine, pull requests 870 and 743).
MOST_UNRECORDED: Final = 2.0
#: Such calls for each launch.
UNRECORDED: Final[ParameterName] = "remoting.calls_unrecorded"
#: The share of a link that copies of pageable memory reach.
PAGEABLE: Final[ParameterName] = "link.pageable.efficiency"
#: The rate at which pages of managed memory move [B/s].
MANAGED: Final[ParameterName] = "package.managed_bandwidth"
#: What decides every answer with another GPU where nothing tells which one the recording is of.
SOURCE_GPU: Final = "the GPU of the recording"
#: What decides every answer of a program with managed memory whose calls a layer forwards: pages
#: move by faults, not by calls.
PAGES: Final = "paging through a remoting layer"
#: Names among the drivers.
LINK: Final = "share of the link that the other node reaches"
PEER: Final = "share of the link between the other node's devices"
DEVICE: Final = "share of the other device's memory bandwidth"
STAGED: Final = "staging by the other machine's host"
STAGED_BELOW: Final = "whether small pageable copies are staged"
LATENCY: Final = "fixed part of a copy on the target"
LAUNCHES: Final = "launches on the target"
NOTES: Final = "what the profiler's notes of the host took"
SHARING: Final = "copies of other ranks on the same link"
FORWARDED: Final = "calls that no profiler records and the layer forwards"
ZERO_COPY: Final = "kernels on memory that the host allocated"

#: How a vendor is told: names of devices as profilers and people write them.
_VENDORS: Final = (
    ("amd", re.compile(r"\bAMD\b|Instinct|Radeon|\bMI ?\d{2,3}[AX]?\b|\bgfx\d", re.IGNORECASE)),
    ("intel", re.compile(r"\bIntel\b|Max 1550|\bPVC\b|Ponte Vecchio", re.IGNORECASE)),
    (
        "nvidia",
        re.compile(
            r"NVIDIA|Tesla|GeForce|Quadro|\b[RG]TX\b|\b(K20X?|K40|K80|P100|V100|T4|A10G?|A[34]0|A100|L4|L40S?|G?[BH][123]00)\b",
            re.IGNORECASE,
        ),
    ),
)


@lru_cache(1024)
def normals(name: str, draws: int, seed: int) -> Float:
    """Return the standard normal draws that belong to one name, shape (draws,), not to be changed;
    the same for the same (name, seed).
    """
    key = int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:16], "little")
    drawn = np.random.Generator(np.random.Philox(key=key)).standard_normal(draws)
    drawn.flags.writeable = False
    return drawn


@dataclass(frozen=True)
class Draws:
    """Standard normal draws by name, for one column of pieces each.

    Attributes
    ----------
    draws : how many; 0 leaves each unknown at its middle.
    seed : of the draws.
    alone : names that are drawn one after the other, each in an equal share of the draws, while all
        others stay at their middle; empty draws all names together.
    asked : the names that were asked for, filled in as they are.
    """

    draws: int = 0
    seed: int = 0
    alone: tuple[str, ...] = ()
    asked: dict[str, None] = field(default_factory=dict, repr=False, compare=False)

    def of(self, name: str) -> Float:
        """Return the draws of one name, shape (draws, 1); a zero, the middle, where nothing is
        drawn.
        """
        self.asked[name] = None
        if not self.draws:
            return np.zeros(())
        return self.normal(name)[:, None]

    def normal(self, name: str) -> Float:
        """Return the draws of one name, shape (draws,); zeros where another name is drawn."""
        if not self.alone:
            return normals(name, self.draws, self.seed)
        out = np.zeros(self.draws)
        if name in self.alone:
            out[self.rows(name)] = normals(name, self.draws // len(self.alone), self.seed)
        return out

    def rows(self, name: str) -> slice:
        """Return the draws in which one name is drawn; elsewhere it stays as stated."""
        if not self.alone:
            return slice(None)
        count = self.draws // len(self.alone)
        return (
            slice(count * self.alone.index(name), count * (self.alone.index(name) + 1))
            if name in self.alone
            else slice(0)
        )

    def share(self, name: str) -> Float:
        """Return draws of a number between 0 and 1, shape (draws,), each as likely; 0 as stated."""
        self.asked[name] = None
        out = np.zeros(max(self.draws, 1))
        if self.draws:
            out[self.rows(name)] = below(self.normal(name)[self.rows(name)])
        return out


def half_normal(z: Float, spread: float) -> Float:
    """Return the factor exp(spread h), 1 or more, by which something that may only be slower takes
    longer.

    h is half-normal and grows with `z`, so that the middle of `z` gives the middle of the factor.

    >>> float(half_normal(np.zeros(()), 1.0).round(3)), float(half_normal(np.array(-9.0), 1.0).round(3))
    (1.963, 1.0)
    """
    return np.asarray(np.exp(-spread * quantile(below(-np.asarray(z)) / 2)))


def shared(z: Float, sharers: int) -> Float:
    """Return the factor by which a copy on a shared link takes longer: between 1 and `sharers`,
    uniform on a log scale.
    """
    return np.asarray(float(max(min(sharers, MOST_SHARERS), 1)) ** below(z))


def other_host(pair: Pair) -> bool:
    """Return whether the target has another host: a changed coupling keeps the source's, and so
    does a machine of the source's name.
    """
    return (
        pair.target is not pair.source
        and not pair.target.changes
        and pair.target.name != pair.source.name
    )


def other_gpu(pair: Pair) -> bool:
    """Return whether the target has another GPU, or one changed in what the time of kernels depends
    on.
    """
    if pair.target.changes:
        return any(change.parameter in GPU_RATES for change in pair.target.changes)
    return other_host(pair)


def unstated(pair: Pair, name: ParameterName) -> bool:
    """Return whether the target's file leaves open a number that another host, or another kind of
    link, has of its own.
    """
    if pair.target.changes:
        same = _PROTOCOL.get(pair.target.coupling, pair.target.coupling) in (
            "",
            _PROTOCOL.get(pair.source.coupling, pair.source.coupling),
        )
        return not same and all(change.parameter != name for change in pair.target.changes)
    return other_host(pair) and pair.target.value(name) is None


def coherent(machine: Machine, source: Machine) -> bool:
    """Return whether CPU and GPU share memory over the machine's link; one that leaves the link as
    it is has the source's.
    """
    kept = not _PROTOCOL.get(machine.coupling, machine.coupling)
    return (source if kept else machine).coupling in COHERENT


def stated_here(machine: Machine, name: ParameterName) -> bool:
    """Return whether a machine's own file states a number, and not only the machine that it
    changes.
    """
    return (
        any(change.parameter == name for change in machine.changes)
        if machine.changes
        else machine.value(name) is not None
    )


def restaged(pair: Pair) -> bool:
    """Return whether what the source's copies of pageable memory cost beyond its link says nothing
    of the target.

    Its host is another, only one of the two links is coherent, or the target's file states what
    such copies reach.  A source with one memory has no link that another could take the place of.
    """
    if pair.source.coupling != "apu" and coherent(pair.target, pair.source) != coherent(
        pair.source, pair.source
    ):
        return True
    return other_host(pair) or bool(pair.target.changes and stated_here(pair.target, PAGEABLE))


def repaged(pair: Pair) -> bool:
    """Return whether the target moves pages at a rate of its own: its host is another, or states
    one for a link of another kind.
    """
    other_kind = coherent(pair.target, pair.source) != coherent(pair.source, pair.source)
    return other_host(pair) or (other_kind and stated_here(pair.target, MANAGED))


#: Parameters that the time of kernels depends on.
_FLOPS: Final[tuple[ParameterName, ...]] = ("gpu.fp64", "gpu.fp64_matrix", "gpu.fp32")
GPU_RATES: Final[tuple[ParameterName, ...]] = (
    *_FLOPS,
    "gpu.memory_bandwidth",
    "gpu.multiprocessors",
    "gpu.clock",
)
#: Couplings that carry another's packets farther; empty for one that leaves the link as it is.
_PROTOCOL: Final = {"fabric": "pcie", "remoting": "", "relative": ""}


@dataclass(frozen=True)
class Elsewhere:
    """A target as charges see it: what its file says, and what no file says at the middle of its
    prior or drawn.

    Attributes
    ----------
    machine, source : target and source, as values or draws.
    pair : the same as stated.
    draws : of the unknowns.
    sharers : devices or ranks that copied at once in the recording.
    framework : whether a framework makes the calls, and so more than a profiler records.
    """

    machine: Priced
    source: Priced
    pair: Pair
    draws: Draws
    sharers: int = 1
    framework: bool = False

    @property
    def copies_vanish(self) -> bool:
        """Return whether host and device share one memory, so that a copy costs nothing."""
        return self.machine.copies_vanish

    def value(self, name: ParameterName) -> Float | float | None:
        """Return a parameter in SI units; draws have shape (draws, 1)."""
        if name == UNRECORDED and self.framework and unforwarded(self.pair):
            drawn = self.draws.share(FORWARDED)
            return MOST_UNRECORDED * (drawn[:, None] if self.draws.draws else drawn[0])
        if (direction := _OF_LINK.get(name)) is None:
            return self.machine.value(name)
        if name.endswith("latency"):
            if not unstated(self.pair, name):
                return self.machine.value(name)
            kept = self.source.value(name)
            return None if kept is None else kept * self._longer(LATENCY, COPY_LATENCY_SD)
        return self._reached(direction) if other_host(self.pair) else self.machine.value(name)

    def _longer(self, name: str, spread: float) -> Float:
        return np.asarray(np.exp(spread * self.draws.of(name)))

    def _reached(self, direction: LinkWay) -> Float | None:
        """Return the share of its nominal bandwidth that the link reaches."""
        nominal, stated = (
            self.pair.target.value(link_parameter(direction, "bandwidth")),
            self.machine.value(link_parameter(direction, "efficiency")),
        )
        if nominal is None:
            return None
        if direction == "p2p":
            return np.asarray(
                (1.0 if stated is None else stated) / half_normal(self.draws.of(PEER), PEER_SHARE)
            )
        best = stated
        if best is None:
            shares = [
                large_share(self.pair.target.coupling, each, direction)
                for each in np.ravel(nominal).tolist()
            ]
            best = LINK_FASTEST * np.reshape(shares, np.shape(nominal))
        slower: Float | float = 1.0
        # a link inside one module has no other socket and no narrow slot: nodes differ by the error
        # that the file states
        if stated is None or self.pair.target.coupling != "c2c":
            slower = half_normal(self.draws.of(LINK), LINK_SHARE if stated is None else NODE_SHARE)
        if self.sharers > 1:
            slower = slower * shared(self.draws.of(SHARING), self.sharers)
        return np.asarray(best / slower)

    def staged(
        self, size: Float, observed: Float | float | None, link: Float | float, direction: LinkWay
    ) -> Float:
        """Return what a byte of pageable memory costs [s/B] where the source does not show it
        (`restaged`).

        The host stages at a rate of its own, never faster than the link; over a coherent link
        nobody stages.

        Parameters
        ----------
        size : of the copies [B].
        observed : what a byte costs on the source [s/B]; None where the recording does not show it.
        link : what a byte costs on the target's link [s/B].
        direction : direction of that link.
        """
        share = self.machine.value(PAGEABLE) if stated_here(self.pair.target, PAGEABLE) else None
        nominal = self.pair.target.value(link_parameter(direction, "bandwidth"))
        if share is not None and nominal is not None:
            return np.asarray(np.maximum(link, 1.0 / (share * nominal)) + 0.0 * size)
        if coherent(self.pair.target, self.pair.source):
            return np.asarray(
                link * half_normal(self.draws.of(STAGED), COHERENT_SHARE) + 0.0 * size
            )
        if observed is not None and self.pair.source.coupling != "c2c":
            return np.asarray(
                np.maximum(link, observed * self._longer(STAGED, of_pair(STAGED_SPREAD)))
                + 0.0 * size
            )
        staged = np.maximum(link, self._longer(STAGED, STAGED_SPREAD) / STAGED_RATE)
        part = np.where(size < PAGEABLE_THRESHOLD, below(self.draws.of(STAGED_BELOW)), 1.0)
        return np.asarray(link + part * (staged - link))

    def migrated(
        self, observed: Float | float, source: Float | float, link: Float | float
    ) -> Float:
        """Return what a byte of unified memory costs [s/B]: at the rate that the target's file
        states.

        Else what it costs beyond the link is the host's work, as staging is.
        """
        rate = self.machine.value(MANAGED) if stated_here(self.pair.target, MANAGED) else None
        if rate is not None:
            return np.asarray(np.maximum(link, 1.0 / rate))
        return np.asarray(
            np.maximum(
                link,
                on_other_link(observed, source, link)
                * self._longer(STAGED, of_pair(STAGED_SPREAD)),
            )
        )

    def inside(self, measured: bool) -> tuple[Float, Float]:
        """Return how many times longer a copy inside a device takes: its fixed part, and its bytes.

        `measured` says whether the share of the source's memory bandwidth that its copies reach is
        known.
        """
        if not other_host(self.pair):
            return np.ones(()), np.ones(())
        z = self.draws.of(DEVICE)
        bytes_longer = (
            np.exp(of_pair(DEVICE_SHARE) * z) if measured else half_normal(z, DEVICE_SHARE)
        )
        return self._longer(LATENCY, COPY_LATENCY_SD), np.asarray(bytes_longer)


#: Parameters of a link that no file may say, and the direction of each.
_OF_LINK: Final[dict[ParameterName, LinkWay]] = {
    **{link_parameter(direction, "latency"): direction for direction in LINK_WAYS},
    **{link_parameter(direction, "efficiency"): direction for direction in LINK_WAYS},
}


def zero_copy_longer(pair: Pair, port: str, draws: Draws) -> Float | None:
    """Return how many times longer kernels take on memory that the host allocated; None where the
    program does not newly use any.
    """
    if port != "zero-copy" or not pair.target.copies_vanish or pair.source.copies_vanish:
        return None
    return half_normal(draws.of(ZERO_COPY), HOST_ALLOCATED)


def forwards(pair: Pair) -> bool:
    """Return whether a layer forwards the program's calls to the target, and none did in the
    recording.
    """
    trips = [machine.value("remoting.round_trip") for machine in (pair.source, pair.target)]
    return trips[0] is None and trips[1] is not None


def unforwarded(pair: Pair) -> bool:
    """Return whether nothing states how many calls a layer forwards that no profiler records."""
    return forwards(pair) and pair.target.value(UNRECORDED) is None


def elsewhere(
    pair: Pair,
    target: Priced,
    source: Priced,
    draws: Draws,
    sharers: int = 1,
    framework: bool = False,
) -> Priced:
    """Return the target with what no file says of it; the target itself where nothing is left
    open.
    """
    open_ends = framework and unforwarded(pair)
    open_ends |= (
        restaged(pair)
        or other_gpu(pair)
        or any(unstated(pair, link_parameter(direction, "latency")) for direction in HOST_WAYS)
    )
    return Elsewhere(target, source, pair, draws, sharers, framework) if open_ends else target


def vendor(machine: Machine) -> str:
    """Return the vendor of a machine's GPUs: ``nvidia``, ``amd``, ``intel``, or empty where neither
    family nor name shows it.
    """
    if machine.family:
        return "amd" if machine.family.startswith("gfx") else "nvidia"
    return _named(" ".join((*machine.recognise, machine.title, machine.name.replace("-", " "))))


@lru_cache(256)  # asked for every class of kernels and every price of a pair
def _named(text: str) -> str:
    return next((name for name, pattern in _VENDORS if pattern.search(text)), "")


def other_vendor(pair: Pair) -> bool:
    """Return whether the GPUs of source and target are known to be of two vendors."""
    source, target = vendor(pair.source), vendor(pair.target)
    return bool(source and target) and source != target


def of_pair(spread: float) -> float:
    """Return the log-sd between two machines of numbers that lie `spread` apart around their
    middle.
    """
    return _PAIR * spread
