"""``turnbuckle slack``: how much distance a run tolerates."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.units import parse
from turnbuckle.machine import load
from turnbuckle.show.terminal.asked import (
    Network,
    NetworkSet,
    PcieOption,
    Seed,
    SourceNetwork,
    draws_of,
    network_of,
    replaying,
)
from turnbuckle.show.terminal.console import console_for
from turnbuckle.show.terminal.options import (
    ASKED_PART,
    EXPERT,
    AskedPart,
    FormatOption,
    NoCache,
    Output,
    Profile,
    Source,
    Verbose,
    flat,
)
from turnbuckle.show.terminal.output import emit
from turnbuckle.show.terminal.recording import judged


def slack(
    profile: Profile,
    /,
    *,
    mode: Annotated[
        Literal["link", "api", "remoting", "network"] | None,
        Parameter(
            help="link: the fabric is longer; api: every crossing call blocks; remoting: calls go "
            "through the layer of --machine; network: "
            "messages between nodes take longer; left out: link, and on a terminal remoting beside "
            "it"
        ),
    ] = None,
    machine: Annotated[
        str | None,
        Parameter(
            help=(
                "remoting: the machine whose layer it is, a name or a TOML file; its round trip "
                "is what varies"
            )
        ),
    ] = None,
    pcie: PcieOption = "whole",
    over: Annotated[
        Literal[
            "latency", "bandwidth", "copies", "launch", "kernel", "cpu", "communication", "both"
        ],
        Parameter(
            help=(
                "what to vary: added latency, another kind of speed, or both latency and "
                "bandwidth at once"
            )
        ),
    ] = "latency",
    published: Annotated[
        str | None,
        Parameter(
            group=EXPERT,
            help=(
                "also the binned answer of Shorts and Grant: modelled (their proxy in our "
                "replay), or a CSV of a measured surface"
            ),
        ),
    ] = None,
    starvation: Annotated[
        Path | None,
        Parameter(
            group=EXPERT,
            help="CSV of the measured cost of idle gaps: lines such as 1 ms, 15 us under a heading",
        ),
    ] = None,
    slack_class: Annotated[
        list[str] | None,
        Parameter(
            group=EXPERT,
            help=(
                "api: only calls of these classes are delayed, separated by commas: launch, "
                "copy, memset, sync, alloc, event"
            ),
        ),
    ] = None,
    repeats: Annotated[
        list[str] | None,
        Parameter(
            group=EXPERT,
            help=(
                "run times of other runs of this program over the same part, separated by "
                "commas; their spread gives the 90 % range"
            ),
        ),
    ] = None,
    source: Source = None,
    network: Network = None,
    network_set: NetworkSet = None,
    source_network: SourceNetwork = None,
    draws: Annotated[
        int | None,
        Parameter(
            group=EXPERT,
            name="--draws",
            help=(
                "draws for the 90 % range of run times and tolerances: 1000, or fewer for very "
                "long runs; 0 leaves it out"
            ),
        ),
    ] = None,
    seed: Seed = 20261121,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
    verbose: Verbose = False,
    part: AskedPart = ASKED_PART,
) -> int:
    """Say how much distance a run tolerates: run time against added latency, exactly, and the calls
    that carry it.
    """
    from turnbuckle.questions.distance import speeds as sweep
    from turnbuckle.questions.distance import tables as show_slack
    from turnbuckle.questions.distance.starvation import read_starvation

    draws_of(draws)
    alone = mode is None and format == "table" and not verbose
    mode = mode or "link"
    of_network = mode == "network" and over == "bandwidth"
    if (
        over != "latency"
        and mode != "link"
        and (over != "both" or mode == "remoting")
        and not of_network
    ):
        raise error_of("A015.mode", found=f"--mode {mode} --over {over}")
    if (mode == "remoting") != (machine is not None):
        raise error_of(
            "A015.machine", found=f"--mode {mode}" + (f" --machine {machine}" if machine else "")
        )
    if pcie != "whole" and (mode != "link" or over != "latency"):
        raise error_of("A015.pcie", found=f"--mode {mode} --over {over} --pcie {pcie}")
    layer = load(machine) if machine is not None else None
    if mode == "network" and network is None:
        network = "self"
    carried_by = network_of(network, network_set, source_network)
    if carried_by is not None and over != "latency" and not of_network:
        raise error_of("A015.latency", found=f"--over {over}")
    if over != "latency" and any(
        word is not None for word in (published, starvation, slack_class, repeats)
    ):
        raise error_of("A015.latency", found=f"--over {over}")
    classes, repeat_seconds = (
        flat(slack_class) or [],
        [parse(word, "s") for word in flat(repeats) or []],
    )
    idle_cost = read_starvation(starvation) if starvation is not None else None
    seen = judged(profile, source, no_cache, part)
    with replaying():
        plainly = alone and not any((published, idle_cost, repeat_seconds, carried_by, classes))
        if over == "latency" and plainly and pcie == "whole" and output is None:
            brief = sweep.beside_each_other(seen, draws, seed)
            show_slack.show_brief(console_for(None), *brief)
            return 0
        if over == "latency":
            given: dict[str, Any] = {
                "starvation": idle_cost,
                "classes": classes,
                "repeats": repeat_seconds,
                "machine": layer,
            }
            given |= {"pcie": pcie} if pcie != "whole" else {}
            slack_answer: Any = sweep.asked(
                seen, mode, draws=draws, seed=seed, network=carried_by, **given
            )
            beside = (
                []
                if published is None
                else list(registry.load("services", "binned slack")(seen.profile, published))
            )
        else:
            answer = sweep.asked(
                seen, mode, over, **({"network": carried_by} if of_network else {})
            )
    if over == "latency":
        binned: dict[str, Any] = (
            {"published": [show_slack.beside_row(b) for b in beside]} if beside else {}
        )
        emit(
            slack_answer,
            "curve",
            partial(show_slack.show_slack, published=beside),
            format,
            output,
            **binned,
        )
    elif isinstance(answer, sweep.Surface):
        emit(answer, answer.rows(), show_slack.show_surface, format, output)
    else:
        emit(answer, "curve", show_slack.show_sweep, format, output)
    return 0
