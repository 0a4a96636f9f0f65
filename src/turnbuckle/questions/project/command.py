"""``turnbuckle project``: a recording on other machines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from turnbuckle.foundation.errors import error_of
from turnbuckle.show.terminal.asked import (
    Alpha,
    Draws,
    Host,
    KernelFile,
    Network,
    NetworkSet,
    On,
    PcieOption,
    PortOption,
    Replay,
    Seed,
    SourceNetwork,
    draws_of,
    model_of,
    network_of,
    replaying,
    targets,
)
from turnbuckle.show.terminal.options import (
    ASKED_PART,
    EXPERT,
    AskedPart,
    FormatOption,
    NoCache,
    Output,
    Source,
    flat,
    lambdas_of,
)
from turnbuckle.show.terminal.recording import judged

Method = Annotated[
    Literal["nething", "additive"], Parameter(group=EXPERT, help="which published method")
]
Lambda = Annotated[
    list[str] | None,
    Parameter(
        name="--lambda",
        group=EXPERT,
        help="additive: improvement by class, as data=10,control=10",
        negative=(),
    ),
]
Charges = Annotated[
    list[str] | None,
    Parameter(
        name="--charge",
        group=EXPERT,
        help="also charge what an installed package adds under that name; not with additive",
        negative=(),
    ),
]
Totals = Annotated[
    str | None,
    Parameter(
        group=EXPERT,
        help=(
            "additive from five printed numbers [s]: "
            "gpu=16.79,control=22.10,data=5.05,cpu=6.54,mpi=0.66[,total=50.5]"
        ),
    ),
]
FailIf = Annotated[
    str | None,
    Parameter(
        help=(
            'gate for scripts, as "penalty > 5%", or "coupling penalty > 5%" for the coupling '
            "alone; exit 1 if true for any target"
        )
    ),
]


def project(
    profile: Annotated[Path | None, Parameter(help="a recording; left out with --totals")] = None,
    /,
    *,
    on: On = None,
    source: Source = None,
    alpha: Alpha = "auto",
    kernels: KernelFile = None,
    host: Host = None,
    port: PortOption = None,
    pcie: PcieOption = "whole",
    model: Method = "nething",
    lambda_: Lambda = None,
    charge: Charges = None,
    totals: Totals = None,
    network: Network = None,
    network_set: NetworkSet = None,
    source_network: SourceNetwork = None,
    replay: Replay = "auto",
    draws: Draws = None,
    seed: Seed = 20261121,
    fail_if: FailIf = None,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
    part: AskedPart = ASKED_PART,
) -> int:
    """Project a recording on other machines: run time with interval, breakdown, and the change in
    coupling behind it.
    """

    from turnbuckle.show.terminal import projections as show
    from turnbuckle.show.terminal.gate import gate

    if totals is not None:
        return show.emit_totals(totals, lambdas_of(lambda_), format, output)
    if lambda_ and model != "additive":
        raise error_of("A012.lambda", found=f"--model {model}")
    if charge and model == "additive":
        raise error_of("A012.charge")
    if profile is None:
        raise error_of("A006")
    machines = targets(on)
    condition = gate(fail_if) if fail_if else None
    carried_by = network_of(network, network_set, source_network)
    if carried_by is not None and (model == "additive" or replay == "sum"):
        raise error_of(
            "A012.network-sum", option="--model additive" if model == "additive" else "--replay sum"
        )
    # the published additive model is a sum
    priced = model_of(alpha, model, lambda_, flat(charge) or (), host, port, kernels)
    chosen = replace(priced, replay="sum" if model == "additive" and replay == "auto" else replay)
    seen = judged(profile, source, no_cache, part)
    with replaying():
        answer = seen.project(
            machines, model=chosen, draws=draws_of(draws), seed=seed, network=carried_by, pcie=pcie
        )
    show.emit(answer, "project", format, output)
    if condition:
        condition.hold(answer.projections)
    return 0
