"""``turnbuckle pool``: how many GPUs to share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.text import Text

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.units import parse
from turnbuckle.show.figures.files import save
from turnbuckle.show.terminal.asked import targets
from turnbuckle.show.terminal.cells import plain, seconds
from turnbuckle.show.terminal.options import (
    ASKED_PART,
    AskedPart,
    Charts,
    FormatOption,
    NoCache,
    Output,
    listed,
)
from turnbuckle.show.terminal.output import emit
from turnbuckle.show.terminal.progress import working
from turnbuckle.show.terminal.recording import judged
from turnbuckle.show.terminal.tables import print_findings, titled

if TYPE_CHECKING:
    from rich.console import Console

    from turnbuckle.projection.run import Run
    from turnbuckle.questions.pool.question import Cluster, Measure, Pool

Jobs = Annotated[
    Path,
    Parameter(
        help=(
            "a log of jobs: sacct --parsable2, Standard Workload Format, or a table of Alibaba's "
            "GPU fleets; or a declared mix (.toml)"
        )
    ),
]
Nodes = Annotated[
    str | None,
    Parameter(
        name="--nodes",
        help=(
            "the fixed nodes: shapes as 64:4x100 (cores, GPUs, how many), or a table (cores, "
            "gpus, count)"
        ),
    ),
]
On = Annotated[
    list[str] | None,
    Parameter(
        name="--on",
        help="fabrics between hosts and pool: names or TOML files; else a switch, a rack, a row",
        negative=(),
    ),
]
Classes = Annotated[
    list[str] | None,
    Parameter(
        name="--class",
        help=(
            "recording of a class of jobs, as 'CLASS=run.sqlite': it slows down as project says; "
            "several times"
        ),
        negative=(),
    ),
]
Reach = Annotated[
    list[str] | None,
    Parameter(
        name="--reach",
        help=(
            "hosts that share a pool: a number, or MACHINE=NUMBER; else 8, 32 and 320 for a "
            "switch, a rack, a row"
        ),
        negative=(),
    ),
]
Load = Annotated[
    str | None,
    Parameter(
        name="--load",
        help=(
            "as many draws of the log at once as would keep this share of the fixed GPUs in use, "
            "as 80%"
        ),
    ),
]
Resident = Annotated[
    bool,
    Parameter(
        name="--resident",
        help="all jobs stay: how many find a place, one after the other",
        negative=(),
    ),
]
KeepOption = Annotated[
    Literal["waiting", "throughput"],
    Parameter(name="--keep", help="what the fewest GPUs have to keep, up to 1 %"),
]
PolicyOption = Annotated[
    Literal["order", "backfill", "any"],
    Parameter(
        name="--policy",
        help=(
            "who may start before a job that came earlier: nobody; who does not delay it (EASY); "
            "whoever fits"
        ),
    ),
]
Trunk = Annotated[
    str | None,
    Parameter(
        name="--trunk",
        help=(
            "bandwidth that the jobs of a pool share, for each of its GPUs, as 16GB/s; else enough"
        ),
    ),
]
CoresPerGpu = Annotated[
    int,
    Parameter(
        name="--cores-per-gpu",
        help=(
            "processors of a job that have one GPU, where the log has no GPUs (Standard Workload "
            "Format)"
        ),
    ),
]
HostPrice = Annotated[
    float,
    Parameter(
        name="--host-price",
        help="price of a host over that of a GPU in a fixed node: then pools may have fewer hosts",
    ),
]
Fewest = Annotated[
    bool, Parameter(name="--fewest", help="look for the fewest GPUs that are enough")
]
Seeds = Annotated[
    int,
    Parameter(
        name="--seeds", help="times that the days of the log are drawn again, for the 90 % ranges"
    ),
]
DrawsOption = Annotated[
    int, Parameter(name="--draws", help="draws for the range of each recording")
]
Seed = Annotated[int, Parameter(name="--seed", help="seed of the draws")]


def pool(
    jobs: Jobs,
    /,
    *,
    nodes: Nodes = None,
    on: On = None,
    classes: Classes = None,
    reach: Reach = None,
    load: Load = None,
    resident: Resident = False,
    keep: KeepOption = "waiting",
    policy: PolicyOption = "backfill",
    trunk: Trunk = None,
    cores_per_gpu: CoresPerGpu = 1,
    host_price: HostPrice = 0.0,
    fewest: Fewest = True,
    seeds: Seeds = 8,
    draws: DrawsOption = 200,
    seed: Seed = 20261121,
    charts: Charts = None,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
    part: AskedPart = ASKED_PART,
) -> int:
    """Say how many GPUs to share: the same jobs on fixed nodes and on pools a switch, a rack or a
    row away, event by event.

    Jobs of a class with a recording slow down by it; of others the slowdown is a range, and named.
    The first row is that nothing changes.
    """
    from turnbuckle.questions.pool.question import DEFAULT_ON, of_jobs

    with working("simulating"):
        asked: dict[str, Any] = {
            "resident": resident,
            "keep": keep,
            "policy": policy,
            "cores_per_gpu": cores_per_gpu,
        }
        asked |= {
            "load": None if load is None else parse(load, "1"),
            "trunk": None if trunk is None else parse(trunk, "B/s"),
        }
        asked |= {
            "host_price": host_price,
            "search": fewest,
            "seeds": seeds,
            "draws": draws,
            "seed": seed,
        }
        recorded = _recordings(classes, no_cache, part)
        answer = of_jobs(
            jobs, nodes, targets(on) or DEFAULT_ON, classes=recorded, reach=_reaches(reach), **asked
        )
    if charts is not None:
        save(answer.figures(), charts)
    emit(answer, answer.table().to_dicts(), show, format, output)
    return 0


def _recordings(words: list[str] | None, no_cache: bool, part: AskedPart) -> dict[str, Run]:
    """Return the part of the recording of each class that is asked about.  Raises A452 for a word
    without both.
    """
    out = {}
    for word in words or []:
        name, equals, file = word.rpartition("=")
        if not equals or not name or not file:
            raise error_of("A452.class", found=plain(word))
        out[name] = judged(Path(file), None, no_cache, part)
    return out


def _reaches(words: list[str] | None) -> dict[str, int] | int | None:
    """Return the hosts of a pool: of all fabrics, or by name.  Raises A452 for what is no
    number.
    """
    given = [word.rpartition("=") for word in listed(words or [])]
    if any(
        not number.isascii() or not number.isdigit() or len(number) > 9 for _, _, number in given
    ):
        raise error_of("A452.reach", found=plain(",".join(words or [])))
    every = [int(number) for name, _, number in given if not name]
    return every[-1] if every else {name: int(number) for name, _, number in given} or None


def show(console: Console, answer: Pool) -> None:
    """Print the fixed nodes beside the pools, then what becomes of each class."""
    console.print(Text(answer.headline(), "bold"))
    console.print()
    fixed = answer.fixed
    span = (
        "all stay"
        if answer.resident
        else (
            f"over {answer.seconds / 86400:,.1f} days; they would keep {answer.load:,.4g} GPUs in "
            "use"
        )
    )
    console.print(Text(f"{answer.jobs:,} jobs ({answer.source}), {span}"))
    console.print(
        Text(
            f"{fixed.hosts:,} nodes, {fixed.gpus:,} GPUs, {fixed.cores:,.0f} cores; "
            f"{_POLICIES[answer.policy]}"
        )
    )
    console.print()
    heads = (
        "GPUs used",
        "stranded",
        "cores",
        "stranded",
        *(() if answer.resident else ("waiting [s]",)),
    )
    table = titled(console, "the same jobs", "", *heads)
    table.columns[0].no_wrap = True
    for c in answer.clusters:
        shares = (
            f"{m.value:.1%}"
            for m in (c.utilisation, c.stranded, c.core_utilisation, c.stranded_cores)
        )
        table.add_row(_name(c), *shares, *(() if answer.resident else (_ranged(c.waiting, "s"),)))
    console.print(table)
    console.print(Text("stranded: free while a job for GPUs (or any job) waits", "dim"))
    if any(c.fewest for c in answer.clusters):
        _print_fewest(console, answer)
    _print_classes(console, answer)
    print_findings(console, answer.findings)


_POLICIES = {
    "order": "in the order of submission",
    "backfill": "in the order of submission, with EASY backfilling",
    "any": "whoever fits",
}


def _print_fewest(console: Console, answer: Pool) -> None:
    console.print()
    kept = "as many GPUs in use" if answer.resident else f"{answer.keep} as on all fixed nodes"
    table = titled(
        console, f"the fewest that keep {kept}", "", "GPUs", "hosts", "cores/GPU", "premium"
    )
    table.columns[0].no_wrap = True
    for c in answer.clusters:
        few = c.fewest
        if few is None:
            table.add_row(_name(c), "not enough", "", "", "")
            continue
        premium = "" if few.premium is None else _whole_percent(few.premium)
        table.add_row(
            _name(c),
            _ranged(few.gpus, ""),
            f"{few.hosts.value:,.0f}",
            f"{few.cores_per_gpu:.3g}",
            premium,
        )
    console.print(table)
    priced = (
        f"a host costs {answer.host_price:g} of these"
        if answer.host_price
        else "beside as many hosts"
    )
    console.print(
        Text(
            (
                "premium: what a pooled GPU may cost more than one of the fewest fixed nodes; "
                f"{priced}"
            ),
            "dim",
        )
    )


def _print_classes(console: Console, answer: Pool) -> None:
    console.print()
    table = titled(
        console,
        "run time over that on fixed nodes, by class of jobs; waiting on fixed nodes",
        "class",
        "jobs",
        "waiting",
        "on",
        "run time",
    )
    for k, of_class in enumerate(answer.fixed.classes):
        about = (plain(of_class.name, 30), f"{of_class.jobs:,}", seconds(of_class.waiting))
        for place, cluster in enumerate(answer.clusters[1:]):
            m = cluster.classes[k]
            first = about if place == 0 else ("", "", "")
            table.add_row(
                *first, _name(cluster), f"{m.took.value:.4g} [{m.took.low:.4g}, {m.took.high:.4g}]"
            )
    console.print(table)
    for c in answer.clusters[1:]:
        console.print(
            Text(
                (
                    f"{c.machine}: {c.pools:,} pool{'s' * (c.pools != 1)} of {c.reach:,} hosts "
                    f"({c.reach_source})"
                ),
                "dim",
            )
        )


def _name(cluster: Cluster) -> Text:
    return Text(
        "fixed, nothing changes" if cluster.machine == "fixed" else plain(cluster.machine, 28)
    )


def _whole_percent(measure: Measure) -> str:
    """Return a share and its range; digits behind the point only below 10 %.

    >>> from turnbuckle.questions.pool.question import Measure
    >>> _whole_percent(Measure(0.374, 0.18, 0.374)), _whole_percent(Measure(0.042, 0.042, 0.042))
    ('37% [18, 37]', '4.2%')
    """
    text, *ends = (
        f"{n * 100:.0f}" if abs(n) >= 0.0995 else f"{n * 100:.1f}"
        for n in (measure.value, measure.low, measure.high)
    )
    return f"{text}%" + (f" [{ends[0]}, {ends[1]}]" if set(ends) != {text} else "")


def _ranged(measure: Measure, unit: str) -> str:
    """Return a number and its range.

    >>> from turnbuckle.questions.pool.question import Measure
    >>> _ranged(Measure(12.0, 12.0, 12.0), ""), _ranged(Measure(443.0, 42.8, 1320.0), "s")
    ('12', '443 [42.8, 1320]')
    """
    numbers = (measure.value, measure.low, measure.high)
    if unit == "s":
        text, *ends = (f"{n:.0f}" if n >= 1000 else f"{n:.3g}" for n in numbers)
    else:
        text, *ends = (f"{n:,.0f}" for n in numbers)
    return text + (f" [{ends[0]}, {ends[1]}]" if set(ends) != {text} else "")
