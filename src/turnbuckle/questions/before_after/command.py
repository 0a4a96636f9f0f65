"""``turnbuckle export``: the run before and after, for a trace viewer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.schema.vocabulary import refuse_several
from turnbuckle.machine import load
from turnbuckle.show.terminal.asked import Alpha, Host, Network, NetworkSet, SourceNetwork, model_of, network_of, targets
from turnbuckle.show.terminal.options import NO_PART, NoCache, PartOptions, Profile, Source, listed
from turnbuckle.show.terminal.recording import inspected


def export(
    profile: Profile,
    /,
    *,
    on: Annotated[list[str], Parameter(name="--on", help="target machine, one: a name, a TOML file or self", negative=())],
    format: Annotated[Literal["perfetto"], Parameter(name="--format", help="perfetto: trace-event JSON for ui.perfetto.dev")] = "perfetto",
    apply: Annotated[
        list[str] | None,
        Parameter(name="--apply", help="edits of whatif to make on the projected side; several times or with commas", negative=()),
    ] = None,
    source: Source = None,
    alpha: Alpha = "auto",
    host: Host = None,
    network: Network = None,
    network_set: NetworkSet = None,
    source_network: SourceNetwork = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="write there; compressed if it ends in .gz")] = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> int:
    """Write measured and projected time lines side by side, with the critical path of both, for a trace viewer."""
    from turnbuckle.questions.before_after import perfetto

    if output is None and sys.stdout.isatty():
        raise error_of("A009.trace")
    names = targets(on) or []
    refuse_several(",".join(names), "target", "export writes")
    carried_by = network_of(network, network_set, source_network)
    seen = inspected(profile, source, no_cache, part)
    target = seen.source if names == ["self"] else load(names[0])
    run, answer = perfetto.asked(seen, target, model_of(alpha, "nething", None, host=host), carried_by, listed(apply or []))
    if output is None:
        perfetto.stream(run, answer, sys.stdout.buffer)
    else:
        print(perfetto.write(run, answer, output))
    return 0
