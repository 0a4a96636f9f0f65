"""Setup of a replay of an MPI run's messages: data path, node shape, network; everything that a
study of GPUDirect may vary.

The names of the fields are the names of the axes of `turnbuckle sweep`; a name that ends in
``_seconds``, ``_bytes`` or ``bandwidth`` shows its unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from turnbuckle.foundation.arrays import Int
from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.settings import setting_of, settings_of
from turnbuckle.machine import Machine
from turnbuckle.mpi.collectives.collectives import Selection
from turnbuckle.mpi.questions.gpudirect.cost import SEED_G, Paths, break_even_bytes, of_machine
from turnbuckle.mpi.replay.buffers import RECORDED, assumed, on_device
from turnbuckle.mpi.replay.compute_rules import with_rules
from turnbuckle.mpi.replay.extrapolate import repeated
from turnbuckle.mpi.replay.messages import Traffic
from turnbuckle.mpi.replay.node_layout import laid_out, seated
from turnbuckle.mpi.replay.operation_graph import OperationGraph
from turnbuckle.mpi.replay.operation_graph import program as graph_program
from turnbuckle.mpi.replay.placement import placed, read_placement, traffic_matrix
from turnbuckle.mpi.replay.program import EAGER_LIMIT, Charges, all_messages, program
from turnbuckle.mpi.replay.staging import Staging
from turnbuckle.replay.contention.contention import Fidelity, Program
from turnbuckle.replay.contention.network import Dragonfly, FatTree, Network, Node, Torus, Wire
from turnbuckle.replay.contention.network_file import Described, read_network
from turnbuckle.replay.contention.nodes import gpu_node

Path = Literal["host", "hostcopy", "p2p", "gpudirect"]
Costs = Literal["physics", "seed_G"]

#: Ranks and GPUs a node that can be asked for; all ways between the parts of a node are setting_of
#: beforehand.
MOST_RANKS: Final = 1_000_000
MOST_GPUS: Final = 512
#: Defaults where neither the question nor the network has a value.
LINK_BANDWIDTH: Final = 12.5e9
HOP_SECONDS: Final = 0.5e-6
INSIDE_BANDWIDTH: Final = 75e9


@dataclass(frozen=True)
class Setup:
    """Settings of one replay of the messages of a run.

    A `Machine` as `network` stands for the network of its name, or the one with its GPUs; host
    copies take what this machine states.

    Attributes
    ----------
    path : data path: ``host`` (buffers in host memory), ``hostcopy`` (copied to the host and back),
        ``p2p`` (as ``hostcopy``, but from GPU to GPU inside a node), ``gpudirect`` (from GPU to
        GPU, between nodes too).
    ranks : number of ranks to which the grid of a halo exchange is repeated; 0 for the recorded
        number.
    ranks_per_node, gpus_per_node : ranks and GPUs of each node; 0 for the network's number, or for
        those that the ranks drive without one.
    gpus_per_rank : GPUs that each rank drives; 0 for as many as its recorded kernels ran on, or one
        where none are recorded.
    gpu_shared : where ranks share a GPU, whether the time between their calls is the GPU's: ``no``
        (it is the host's), or it takes turns (``exclusive``), or runs at once with even shares of
        the GPU's time (``time``).
    mapping : placement of ranks on nodes: ``linear``, ``round robin``, ``random``, ``greedy``, or
        the name of a file.
    network : machine, by name or file; the other settings replace its values.
    topology : shape of the network between NICs; ``as given`` takes the network's, or one switch
        without a network.
    taper : oversubscription of a fat tree: NICs below a leaf switch over cables above it.
    leaf_cards : NICs below a leaf switch of a fat tree.
    cards : one NIC per node, or one per GPU; ``as given`` takes the network's, or one per node.
        Ranks near several take turns.
    card_bandwidth, hop_seconds : bandwidth [B/s] and latency [s] of every link of the network, one
        way; None for the network's values, or 12.5 GB/s and 0.5 us without a network.
    inside_bandwidth : bandwidth between processes of a node through host memory [B/s]; None for the
        network's, or 75 GB/s.
    link_bandwidth : bandwidth between host and GPU, one way [B/s]; None for the network's, or 75
        GB/s.
    peer_bandwidth : bandwidth between two GPUs of a node, one way [B/s]; 0 if they are linked
        through the host only; None for the network's, or 75 GB/s.  If it is set with
        `inside_bandwidth` and `link_bandwidth`, a generic node of one host and its GPUs replaces
        the network's node.  Otherwise the wires of that kind are scaled so that the narrowest at a
        GPU has this bandwidth.
    overhead_seconds : processor time of sending, and of receiving, a message [s].
    overhead_bandwidth : message bytes over the further processor time that they take at either end
        [B/s]; 0 for none.
    gap_seconds : least time between two messages of a NIC, in either direction, of any size
        (`logp`) [s].
    costs : ``physics``: one copy at each end, as the network's own machine copies, none on one
        memory; ``seed_G``: the paper's one copy and one pin per message (decision D8).
    copy_seconds, copy_bandwidth, pin_seconds : latency [s] and bandwidth [B/s] of a host copy, and
        time of pinning memory [s]; None for the values of `costs`.
    pinned : how often memory is pinned: by `costs`, never, once for all messages of one size
        between two ranks, or for each message.
    chunk_bytes : chunk size of host copies, which overlap with the network chunk by chunk [B]; 0
        for no overlap.
    eager_limit_bytes, device_eager_limit_bytes : largest size of messages that leave as soon as
        they are sent, from host memory and straight from device memory [B]; the second does not
        follow from the first (Open MPI's smcuda 0, UCX 8192).
    handshake : whether a rendezvous pays for its request and the answer.
    buffers : location of message buffers, as rules (`turnbuckle.mpi.replay.buffers`); by default as
        recorded, else in device memory.
    staging : host copies of collectives: of each message, or once per call of all bytes that a rank
        puts in and gets.
    fidelity, collectives : fidelity of the replay, and selection of the algorithms of collectives.
    compute : factor on the recorded compute.
    compute_of : factors on parts of it besides, as rules (`turnbuckle.mpi.replay.compute_rules`).
    seed : seed of a random mapping.
    """

    path: Path = "hostcopy"
    ranks: int = 0
    ranks_per_node: int = 1
    gpus_per_node: int = 0
    gpus_per_rank: int = 0
    gpu_shared: Literal["no", "exclusive", "time"] = "no"
    mapping: str = field(default="linear", metadata={"file": True})
    network: str | Machine = field(default="", metadata={"file": True})
    topology: Literal["as given", "switch", "fat-tree", "torus", "dragonfly"] = "as given"
    taper: float = 1.0
    leaf_cards: int = 18
    cards: Literal["as given", "node", "gpu"] = "as given"
    card_bandwidth: float | None = None
    hop_seconds: float | None = None
    inside_bandwidth: float | None = None
    link_bandwidth: float | None = None
    peer_bandwidth: float | None = None
    overhead_seconds: float = 0.5e-6
    overhead_bandwidth: float = 0.0
    gap_seconds: float = 0.0
    costs: Costs = "physics"
    copy_seconds: float | None = None
    copy_bandwidth: float | None = None
    pin_seconds: float | None = None
    pinned: Literal["by costs", "never", "once", "each"] = "by costs"
    chunk_bytes: float = 0.0
    eager_limit_bytes: float = EAGER_LIMIT
    device_eager_limit_bytes: float = 0.0
    handshake: bool = False
    buffers: str = RECORDED
    staging: Staging = "each message"
    fidelity: Fidelity = "flow"
    collectives: Selection = "short and long"
    compute: float = 1.0
    compute_of: str = ""
    seed: int = 0

    @property
    def gpus(self) -> int:
        """Return the number of GPUs of each node."""
        return self.gpus_per_node or self.ranks_per_node * self.driven

    @property
    def driven(self) -> int:
        """Return the number of GPUs that each rank drives, one where nothing tells (`driving`)."""
        return max(self.gpus_per_rank, 1)

    @property
    def network_name(self) -> str:
        """Name or file of the network; empty without one."""
        return self.network.name if isinstance(self.network, Machine) else self.network

    @property
    def paid(self) -> Paths:
        """Return the costs of copies and pins for a message of a buffer that has been sent
        before.
        """
        copying = (
            self.network
            if isinstance(self.network, Machine) or not self.network
            else read_network(self.network).machine
        )
        preset = of_machine(copying) if self.costs == "physics" else SEED_G
        latency, pins = (
            _first(self.copy_seconds, None, preset.copy_latency),
            _first(self.pin_seconds, None, preset.pin_seconds),
        )
        per_byte = (
            preset.copy_per_byte if self.copy_bandwidth is None else 1.0 / self.copy_bandwidth
        )
        return replace(
            preset,
            pins=float(self.pins == "each"),
            copy_latency=latency,
            copy_per_byte=per_byte,
            pin_seconds=pins,
        )

    @property
    def pins(self) -> Literal["never", "once", "each"]:
        """Return how often memory is pinned: by physics it stays pinned, in the paper it is pinned
        for every message.
        """
        if self.pinned == "by costs":
            return "once" if self.costs == "physics" else "each"
        return self.pinned

    @property
    def break_even_bytes(self) -> float:
        """Return the size from which GPUDirect is faster by the closed forms; 0 where it always is,
        infinite where it never is [B].
        """
        return break_even_bytes(self.paid)

    def as_dict(self) -> dict[str, Any]:
        """Return all settings by name; `turnbuckle.foundation.settings` holds their units and
        meanings.
        """
        return {**self.__dict__, "network": self.network_name}

    def held(self) -> dict[str, Any]:
        """Return the settings that hold in every replay of a study, which varies the path and the
        ranks per node.
        """
        return {
            name: value
            for name, value in self.as_dict().items()
            if name not in ("path", "ranks_per_node")
        }


def with_settings(setup: Setup, words: Sequence[str]) -> Setup:
    """Return a setup with some fields changed by ``name=value``.  Raises A081, an unknown name or
    an impossible value; U0xx.

    >>> with_settings(Setup(), ["topology=fat-tree", "chunk_bytes=64 KiB"]).chunk_bytes
    65536.0
    """
    settings = settings_of(Setup)
    changed = {}
    for word in words:
        name, _, value = word.partition("=")
        changed[name.strip()] = setting_of(name.strip(), settings, "the replay of messages").read(
            value.strip()
        )
    return replace(setup, **changed)  # type: ignore[arg-type]


def words_of(setup: Setup, leaving: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the settings that differ from those of messages in host memory, as `with_settings`
    reads them.

    >>> words_of(Setup(hop_seconds=2e-6, fidelity="logp"), ["fidelity"])
    ('path=hostcopy', 'hop_seconds=2e-06 s')
    """
    plain, known, words = Setup(path="host"), settings_of(Setup), list[str]()
    for name, default in plain.as_dict().items():
        value = getattr(setup, name)
        if value == default or name in leaving:
            continue
        if isinstance(value, bool):
            words.append(f"{name}={str(value).lower()}")
        elif isinstance(value, str) or known[name].unit == "1":
            words.append(f"{name}={value}")
        else:
            words.append(f"{name}={value!r} {known[name].unit}")
    return tuple(words)


def driving(setup: Setup, traffic: Traffic) -> Setup:
    """Return a setup with the number of GPUs that each rank of a run drives, by its recorded
    kernels unless it is set.

    Where ranks differ, every rank gets as many as the one that drives most.
    """
    return (
        setup
        if setup.gpus_per_rank
        else replace(setup, gpus_per_rank=max(int(traffic.gpus_of_rank.max(initial=1)), 1))
    )


def checked(setup: Setup) -> Setup:
    """Return a setup; raise A074 if it is impossible."""
    whole = {
        "ranks_per_node": (1, MOST_RANKS),
        "ranks": (0, MOST_RANKS),
        "leaf_cards": (1, MOST_RANKS),
    }
    whole |= dict.fromkeys(("gpus_per_node", "gpus_per_rank"), (0, MOST_GPUS))
    for name, (least, most) in whole.items():
        if not least <= getattr(setup, name) <= most:
            raise _refused(
                f"{name} of {getattr(setup, name)}", f"a whole number from {least} to {most:,}"
            )
    positive = ("card_bandwidth", "inside_bandwidth", "link_bandwidth", "taper", "copy_bandwidth")
    times = ("hop_seconds", "overhead_seconds", "gap_seconds", "copy_seconds", "pin_seconds")
    limits = (
        "peer_bandwidth",
        "overhead_bandwidth",
        "chunk_bytes",
        "eager_limit_bytes",
        "device_eager_limit_bytes",
    )
    others = (*times, *limits, "compute")
    for name in (*positive, *others):
        value = getattr(setup, name)
        if value is None:
            continue
        if not (value > 0 if name in positive else value >= 0) or (
            not name.endswith("eager_limit_bytes") and math.isinf(value)
        ):
            raise _refused(
                f"{name} of {value:g}", "a positive number" if name in positive else "0 or more"
            )
    if 0 < setup.chunk_bytes < 64:
        raise _refused(f"chunk_bytes of {setup.chunk_bytes:g}", "64 or more, or 0 for none")
    if setup.gpus > MOST_GPUS and not setup.network:
        raise _refused(
            f"{setup.gpus:,} GPUs per node, {setup.driven} for each rank",
            f"gpus_per_node: how many GPUs the ranks of a node share, at most {MOST_GPUS:,}",
        )
    if setup.gpus_per_node > setup.ranks_per_node * setup.driven:
        each = "" if setup.driven == 1 else f" that drive {setup.driven} each"
        raise _refused(
            f"{setup.gpus_per_node} GPUs for {setup.ranks_per_node} ranks per node{each}",
            "each GPU needs at least one rank",
        )
    if setup.gpus_per_node % setup.driven:
        raise _refused(
            f"{setup.gpus_per_node} GPUs per node for ranks that drive {setup.driven} each",
            f"a multiple of {setup.driven}",
        )
    if setup.taper != 1.0 and setup.topology != "fat-tree":
        raise _refused("a taper without a fat tree", "topology=fat-tree")
    return setup


def charges(path: Path, paid: Paths) -> Charges:
    """Return the costs that a path adds to a message.

    Host copies: half of the copies at each end, the odd one at the sender.  GPUDirect: pins, and
    both ends must be ready.
    """
    if path == "host":
        return Charges()
    if path == "gpudirect":
        return Charges(pin_seconds=paid.pins * paid.pin_seconds, eager_limit=0.0, direct=True)
    first, second = math.ceil(paid.copies / 2), math.floor(paid.copies / 2)
    sender, receiver = ((n * paid.copy_latency, n * paid.copy_per_byte) for n in (first, second))
    return Charges(sender, receiver)


def charges_of(setup: Setup) -> tuple[Charges, Charges]:
    """Return the costs of a message between nodes, and of one inside a node."""
    pins = 0.0 if setup.pins == "never" else setup.paid.pin_seconds
    direct = Charges(
        pin_seconds=pins,
        pin_once=setup.pins == "once",
        direct=True,
        eager_limit=setup.device_eager_limit_bytes,
    )
    if not setup.paid.copies:  # one memory: every buffer is sent from it
        return Charges(), Charges()
    copied = replace(charges("hostcopy", setup.paid), chunk_bytes=setup.chunk_bytes or math.inf)
    far, near = {
        "host": (Charges(), Charges()),
        "hostcopy": (copied, copied),
        "p2p": (copied, direct),
        "gpudirect": (direct, direct),
    }[setup.path]
    return far, near


def network_of(setup: Setup, nodes: int) -> Network:
    """Return the network of so many nodes.  Raises A074, more nodes than the machine has; A050, an
    unknown network.
    """
    described = read_network(setup.network) if setup.network else None
    if described and described.nodes and nodes > described.nodes:
        raise _refused(
            f"{nodes:,} nodes of {described.name}",
            f"it has {described.nodes:,}; more ranks per node",
        )
    made = _node(setup, described)
    ports = nodes * len(made.cards)
    shape: FatTree | Torus | Dragonfly | None = described.shape if described else None
    if setup.topology == "fat-tree":
        leaves, uplinks = -(-ports // setup.leaf_cards), setup.leaf_cards / setup.taper
        if uplinks > MOST_RANKS:
            raise _refused(
                f"a taper of {setup.taper:g}", f"at most {MOST_RANKS:,} cables above a leaf switch"
            )
        shape = FatTree((setup.leaf_cards, leaves), (1, max(1, round(uplinks))), (1, 1))
    elif setup.topology == "torus":
        shape = Torus(_cube(ports))
    elif setup.topology == "dragonfly":
        shape = _balanced(ports)
    elif setup.topology == "switch":
        shape = None
    backbone = (
        described.backbone
        if described and shape is described.shape is None and setup.topology != "switch"
        else None
    )
    bandwidth = _first(
        setup.card_bandwidth, described.bandwidth if described else None, LINK_BANDWIDTH
    )
    hop = _first(setup.hop_seconds, described.hop_seconds if described else None, HOP_SECONDS)
    costs: dict[str, Any] = dict.fromkeys(
        ("send_overhead", "receive_overhead"), setup.overhead_seconds
    )
    costs |= {
        "latency": 2 * hop + (backbone.seconds if backbone else 0.0),
        "handshake": setup.handshake,
        "gap": setup.gap_seconds,
    }
    costs["overhead_per_byte"] = 1.0 / setup.overhead_bandwidth if setup.overhead_bandwidth else 0.0
    per_byte = 1.0 / min(bandwidth, backbone.bandwidth if backbone else bandwidth)
    return Network(
        nodes,
        bandwidth,
        hop,
        shape,
        backbone=backbone,
        seconds_per_byte=per_byte,
        node=made,
        **costs,
    )


def _node(setup: Setup, described: Described | None) -> Node:
    """Return the parts of a node: those of the network's file, unless the setup sets all bandwidths
    inside the node.
    """
    bandwidths = (setup.inside_bandwidth, setup.link_bandwidth, setup.peer_bandwidth)
    if described and described.node and None in bandwidths:
        gpus = len(described.node.parts_of("gpu"))
        made = (
            described.node
            if setup.gpus_per_node in (0, gpus)
            else described.node_of(setup.gpus_per_node)
        )
        if made is None:
            raise _refused(
                f"{setup.gpus_per_node} GPUs on a node of {described.name}",
                f"it has {gpus}; 0 takes it as it is",
            )
        for kind, bandwidth in (
            ("inside", bandwidths[0]),
            ("link", bandwidths[1]),
            ("peer", bandwidths[2]),
        ):
            made = made if bandwidth is None else _scaled(made, kind, bandwidth, described.name)
        return seated(_with_nics(made, setup.cards))
    if setup.gpus > MOST_GPUS:
        raise _refused(f"{setup.gpus:,} GPUs per node", f"at most {MOST_GPUS:,}")
    link, peer = (
        _first(setup.link_bandwidth, None, INSIDE_BANDWIDTH),
        _first(setup.peer_bandwidth, None, INSIDE_BANDWIDTH),
    )
    # Of equally short routes the wider one is taken; a switch between GPU and host makes the route
    # over the host longer.
    nic_at_gpu = setup.cards == "gpu" or 0 < peer < link
    memory, beside = _first(setup.inside_bandwidth, None, INSIDE_BANDWIDTH), peer or None
    made = gpu_node(
        setup.gpus,
        link=link,
        memory=memory,
        peer=beside,
        joined="switch",
        cards="gpu" if nic_at_gpu else "node",
    )
    return seated(made if setup.cards == "gpu" else replace(made, cards=made.parts_of("host")))


def _scaled(made: Node, kind: str, bandwidth: float, name: str) -> Node:
    """Return a node whose wires of one kind are scaled by one factor, so that the narrowest at a
    GPU has the bandwidth; without them for 0.
    """
    of_kind = [kind_of(made, w) == kind for w in made.wires]
    ends = [
        w.bandwidth
        for w, m in zip(made.wires, of_kind, strict=True)
        if m and (kind == "inside" or _at_gpu(made, w))
    ]
    if not ends:
        if bandwidth == 0:
            return made
        what = {
            "inside": "memory that processes share",
            "link": "wire between host and GPU",
            "peer": "wire between GPUs",
        }[kind]
        raise _refused(f"{kind}_bandwidth on a node of {name}, which has no {what}", "leave it out")
    factor = bandwidth / min(ends)
    wires = [
        replace(w, bandwidth=w.bandwidth * factor) if m else w
        for w, m in zip(made.wires, of_kind, strict=True)
        if not m or factor > 0
    ]
    return replace(made, wires=tuple(wires))


def kind_of(made: Node, wire: Wire) -> str:
    """Return the bandwidth setting that applies to a wire: inside, link, peer, or an empty text."""
    ends = {made.parts[p].split()[0] for p in (wire.source, wire.target)}
    if wire.source == wire.target:
        return "inside" if ends == {"host"} else ""
    if ends <= {"gpu", "fabric"}:
        return "peer"
    return "link" if ends <= {"gpu", "host", "switch"} and ends != {"host"} else ""


def _at_gpu(made: Node, wire: Wire) -> bool:
    return any(made.parts[p].split()[0] == "gpu" for p in (wire.source, wire.target))


def _with_nics(made: Node, cards: str) -> Node:
    """Return a node with one NIC in all, or one for each GPU, where the link of the GPU ends."""
    if cards == "as given":
        return made
    if cards == "node":
        return replace(made, cards=made.cards[:1])
    at_gpus = [
        next((w.target for w in made.wires if w.source == gpu and kind_of(made, w) == "link"), gpu)
        for gpu in made.parts_of("gpu")
    ]
    return replace(made, cards=tuple(at_gpus) or made.cards)


def _first(*values: float | None) -> float:
    """Return the first value that is set."""
    return next(v for v in values if v is not None)


def _cube(ports: int) -> tuple[int, int, int]:
    """Return the smallest three-dimensional torus, as even as possible, with so many ports.

    >>> _cube(64), _cube(20)
    ((4, 4, 4), (3, 3, 3))
    """
    side = max(1, round(ports ** (1 / 3)))
    for dims in ((side, side, side), (side, side, side + 1), (side, side + 1, side + 1)):
        if math.prod(dims) >= ports:
            return dims
    return (side + 1, side + 1, side + 1)


def _balanced(ports: int) -> Dragonfly:
    """Return the smallest balanced dragonfly (a = 2p = 2h, groups a h + 1; Kim et al. 2008) with so
    many ports.

    >>> _balanced(72)
    Dragonfly(groups=9, routers=4, cards=2, channels=2)
    """
    h = 1
    while (2 * h * h + 1) * 2 * h * h < ports:
        h += 1
    return Dragonfly(2 * h * h + 1, 2 * h, h, h)


def shares_gpus(setup: Setup, network: Network) -> bool:
    """Return whether ranks of a node take turns on its GPUs between their calls."""
    return (
        0 < len(network.made_of.parts_of("gpu")) < setup.ranks_per_node * setup.driven
        and setup.gpu_shared != "no"
    )


def fitted(traffic: Traffic, setup: Setup) -> tuple[Traffic, Setup]:
    """Return traffic with the parts of its compute and the number of ranks that a setup asks for,
    and the setup without these parts.
    """
    traffic = with_rules(traffic, setup.compute_of)
    if setup.ranks not in (0, traffic.ranks):
        traffic = repeated(traffic, setup.ranks)
    return traffic, replace(setup, compute_of="")


def program_of(traffic: Traffic, setup: Setup) -> tuple[Program, Network, Int]:
    """Return a run as a program under a setup, the network that it runs on, and the node of each
    rank, shape (ranks,).
    """
    traffic, setup = with_rules(traffic, setup.compute_of), driving(setup, traffic)
    node = mapped(traffic, setup)
    network = network_of(setup, int(node.max(initial=0)) + 1)
    far, near = charges_of(setup)
    gpus = len(network.made_of.parts_of("gpu"))
    if gpus % setup.driven:
        raise _refused(
            f"{gpus} GPUs per node for ranks that drive {setup.driven} each",
            f"gpus_per_node: a multiple of {setup.driven}",
        )
    everywhere = assumed(setup.buffers, traffic)
    device = (
        None
        if everywhere
        else on_device(setup.buffers, traffic, *all_messages(traffic, setup.collectives))
    )
    shared = shares_gpus(setup, network)
    if shared and setup.fidelity == "logp" and setup.gpu_shared == "time":
        raise _refused(
            "GPUs shared in time by logp, which shares nothing",
            "--fidelity flow, or gpu_shared exclusive",
        )
    options: dict[str, Any] = {
        "charged": far,
        "inside": near,
        "on_device": device,
        "compute": setup.compute,
    }
    options |= {
        "layout": laid_out(node, network.made_of, setup.driven),
        "eager_limit": setup.eager_limit_bytes,
    }
    options["shared_gpu"] = setup.gpu_shared if shared else None
    if not isinstance(traffic, OperationGraph):
        return (
            program(traffic, **options, selection=setup.collectives, staging=setup.staging),
            network,
            node,
        )
    # The processors of a graph carry the overheads themselves.
    paid, per_byte = network.send_overhead, network.overhead_per_byte
    graph = graph_program(
        traffic,
        **options,
        overhead=paid,
        overhead_per_byte=per_byte,
        first_byte_free=setup.fidelity == "logp",
    )
    return (
        graph,
        replace(network, send_overhead=0.0, receive_overhead=0.0, overhead_per_byte=0.0),
        node,
    )


def mapped(traffic: Traffic, setup: Setup) -> Int:
    """Return the node of each rank."""
    ranks, each = traffic.ranks, setup.ranks_per_node
    match setup.mapping:
        case "linear" | "round robin" | "random":
            return placed(setup.mapping, ranks, each, seed=setup.seed)
        case "greedy":
            return placed("greedy", ranks, each, traffic_matrix(traffic, setup.collectives))
        case name:
            return placed("file", ranks, each, order=read_placement(name, ranks, each))


def _refused(evidence: str, fix: str) -> TurnbuckleError:
    return error_of("A074.setup", found=evidence, fix=fix)
