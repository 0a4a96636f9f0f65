"""Options of verbs that project: on which machines, by which model, with how many draws."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

from turnbuckle.foundation.errors import clipped, did_you_mean, error_of
from turnbuckle.show.terminal.options import EXPERT, flat, lambdas_of
from turnbuckle.show.terminal.progress import working

if TYPE_CHECKING:
    from turnbuckle.projection.elsewhere.network import OnNetwork
    from turnbuckle.projection.model import Port

#: What `--alpha` can be besides a number.
KERNEL_WORDS: Final = ("auto", "flop", "memory", "hold")

On = Annotated[
    list[str] | None,
    Parameter(
        name="--on",
        help="target machine: a name, a TOML file or self; several times or separated by commas",
        negative=(),
    ),
]
Alpha = Annotated[
    str,
    Parameter(
        name="--alpha",
        help=(
            "how much faster kernels run on the target: auto (each by its launch and name), a "
            "number, flop, memory, hold"
        ),
    ),
]
KernelFile = Annotated[
    list[Path] | None,
    Parameter(
        name="--kernels",
        help="CSV of kernels that you know: name, ratio (times faster on the target) or seconds "
        "there, error, source; their counters, of "
        "Nsight Compute (ncu --csv) or rocprof; or the name of an installed predictor; several "
        "times",
        negative=(),
    ),
]
Host = Annotated[
    float | None,
    Parameter(
        name="--host",
        help=(
            "how many times faster the target's host is than the source's; else as the machine "
            "files state, or a prior"
        ),
    ),
]
PortOption = Annotated[
    Literal["as-is", "zero-copy", "managed"] | None,
    Parameter(
        name="--port",
        help="copies if CPU and GPU share one memory (zero-copy: or a coherent link); left out, "
        "they are dropped, and the 90 % range "
        "holds that they stay",
    ),
]
PcieOption = Annotated[
    Literal["whole", "local"],
    Parameter(
        name="--pcie",
        help="what a fabric does with PCIe: whole (carries it from end to end) or local (ends it "
        "beside host and device, in a protocol of "
        "its own between them: one trip a command, no limit of read requests)",
    ),
]
Replay = Annotated[
    Literal["auto", "sum", "timeline"],
    Parameter(
        name="--replay",
        group=EXPERT,
        help=(
            "how activities add up; auto: the timeline where the recorded order can be trusted, "
            "else the sum"
        ),
    ),
]
Network = Annotated[
    str | None,
    Parameter(
        name="--network",
        help="network that messages between ranks are replayed on: a machine by its name "
        "(perlmutter, ...), file.toml or SimGrid's "
        "platform.xml; self is the recording's own; left out, messages keep their time",
    ),
]
NetworkSet = Annotated[
    list[str] | None,
    Parameter(
        name="--network-set",
        group=EXPERT,
        help="replaces a value of the network, as name=value: ranks_per_node, hop_seconds, ...",
        negative=(),
    ),
]
SourceNetwork = Annotated[
    str | None,
    Parameter(
        name="--source-network",
        group=EXPERT,
        help=(
            "network of the recording, a name or file; left out, it is fitted to the recording's "
            "messages"
        ),
    ),
]
Draws = Annotated[
    int | None,
    Parameter(
        name="--draws",
        group=EXPERT,
        help=(
            "parameter draws for the 90 % range: 1000, or fewer for very long runs; 0 leaves it out"
        ),
    ),
]
Seed = Annotated[int, Parameter(name="--seed", group=EXPERT, help="seed of the draws")]


def targets(on: Sequence[str] | None) -> list[str] | None:
    """Return the machines that ``--on`` names, None where it is left out.  Raises A013 where it
    names none.
    """
    names = flat(on)
    if names == []:
        raise error_of("A013")
    return names


def model_of(
    alpha: str,
    model: str,
    lambdas: list[str] | None,
    charges: Sequence[str] = (),
    host: float | None = None,
    port: Port | None = None,
    kernels: Sequence[Path] | None = None,
) -> Any:
    """Return the model that ``--model``, ``--alpha``, ``--host``, ``--port`` and ``--kernels``
    name.

    Raises A003 for an alpha or a host that is none, A012 for options that exclude each other.
    """
    from turnbuckle.projection.elsewhere.given import kernel_table
    from turnbuckle.projection.model import additive, nething

    if host is not None and not 1e-2 <= host <= 1e2:
        raise error_of("A003.host", found=f"{host:g}")
    if model == "additive":
        if host is not None or port is not None:
            raise error_of("A012.host" if host is not None else "A012.port")
        if kernels:
            raise error_of("A012.kernels", found="--model additive")
        return additive(lambdas_of(lambdas))
    ported: Port = port or ""
    if kernels and alpha != "auto":
        raise error_of("A012.kernels", found=f"--alpha {clipped(alpha, 40)}")
    if alpha in KERNEL_WORDS:
        return nething(alpha, charges, host, ported, kernel_table(*kernels) if kernels else None)
    try:
        value = float(alpha)
    except ValueError:
        raise error_of("A003.word", fix=did_you_mean(alpha, KERNEL_WORDS), alpha=alpha) from None
    if not 1e-3 <= value <= 1e3:
        raise error_of("A003.range", found=alpha, alpha=alpha)
    return nething(value, charges, host, ported)


def network_of(
    network: str | None, settings: Sequence[str] | None, source: str | None
) -> OnNetwork | None:
    """Return the network that ``--network`` names, None where it is left out.  Raises A012 for
    options that need it.
    """
    if network is None:
        if settings or source:
            raise error_of(
                "A012.network", found="--network-set" if settings else "--source-network"
            )
        return None
    from turnbuckle.projection.elsewhere.network import OnNetwork

    return OnNetwork(network, tuple(settings or ()), source or "")


def draws_of(draws: int | None) -> int | None:
    """Return the number of draws.  Raises A007 where it is out of range."""
    if draws is not None and not 0 <= draws <= 100_000:
        raise error_of("A007", draws=draws)
    return draws


def replaying() -> AbstractContextManager[Any]:
    """Show on a terminal that a replay runs."""
    return working("replaying")
