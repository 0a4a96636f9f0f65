"""``turnbuckle export``: the run before and after, for a trace viewer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.schema.vocabulary import refuse_several
from turnbuckle.machine import load
from turnbuckle.show.terminal.asked import Alpha, Host, model_of, targets
from turnbuckle.show.terminal.options import NoCache, Profile, Source, window_ns
from turnbuckle.show.terminal.recording import inspected


def export(
    profile: Profile,
    /,
    *,
    on: Annotated[list[str], Parameter(name="--on", help="target machine, one: a name, a TOML file or self", negative=())],
    format: Annotated[Literal["perfetto"], Parameter(name="--format", help="perfetto: trace-event JSON for ui.perfetto.dev")] = "perfetto",
    window: Annotated[str | None, Parameter(name="--window", help="only what was recorded from START:END of the run: 1.2s:1.3s")] = None,
    source: Source = None,
    alpha: Alpha = "flop",
    host: Host = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="write there; compressed if it ends in .gz")] = None,
    no_cache: NoCache = False,
) -> int:
    """Write measured and projected time lines side by side, with the critical path of both, for a trace viewer."""
    from turnbuckle.questions.before_after import perfetto

    if output is None and sys.stdout.isatty():
        raise error_of("A009.trace")
    within_ns = window_ns(window) if window is not None else None
    names = targets(on) or []
    refuse_several(",".join(names), "target", "export writes")
    seen = inspected(profile, source, no_cache)
    target = seen.source if names == ["self"] else load(names[0])
    run, answer = perfetto.asked(seen, target, model_of(alpha, "nething", None, host=host), within_ns)
    if output is None:
        perfetto.stream(run, answer, sys.stdout.buffer)
    else:
        print(perfetto.write(run, answer, output))
    return 0
