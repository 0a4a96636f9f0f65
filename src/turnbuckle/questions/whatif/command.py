"""``turnbuckle whatif``: which change to the program pays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter
from rich.text import Text

from turnbuckle.show.kernel_names import kernel_labels
from turnbuckle.show.terminal.asked import Draws, On, Seed, draws_of, replaying, targets
from turnbuckle.show.terminal.cells import plain, seconds
from turnbuckle.show.terminal.options import (
    ASKED_PART,
    AskedPart,
    FormatOption,
    NoCache,
    Output,
    Recorded,
    Source,
    Verbose,
    listed,
)
from turnbuckle.show.terminal.output import emit
from turnbuckle.show.terminal.recording import judged
from turnbuckle.show.terminal.tables import print_findings, unframed
from turnbuckle.show.text import shorten

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from turnbuckle.questions.whatif.places import Place
    from turnbuckle.questions.whatif.question import Gain, Saving, Whatif

#: Lines of edits, edits that are written out, and letters of their names, without `-v`.
_MOST, _WRITTEN, _NAMES = 10, 2, 40
#: Savings that are listed: half of what the last digit shows.
_SHOWN: Final = 0.0005

Apply = Annotated[
    list[str] | None,
    Parameter(
        name="--apply",
        help="edits to make together, by their names; several times or with commas",
        negative=(),
    ),
]


def whatif(
    recording: Annotated[Recorded, Parameter(help="a recording with calls, kernels and copies")],
    /,
    *,
    on: On = None,
    apply: Apply = None,
    source: Source = None,
    draws: Draws = None,
    seed: Seed = 20261121,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
    verbose: Verbose = False,
    part: AskedPart = ASKED_PART,
) -> int:
    """Say which change to the program pays, here and on other machines: other copies, launches,
    waits, allocations, host work.

    Each edit is made on the graph of the run and replayed. Those that take a wait or an order away
    save between nothing and all of it: the recording does not show what the program reads.
    """
    from turnbuckle.questions.whatif.question import of_run

    seen = judged(recording, source, no_cache, part)
    with replaying():
        answer = of_run(
            seen, targets(on) or (), listed(apply or []), draws=draws_of(draws), seed=seed
        )
    emit(answer, answer.table().to_dicts(), partial(show, verbose=verbose), format, output)
    return 0


def show(console: Console, answer: Whatif, verbose: bool = True) -> None:
    """Print what edits save, those of one number on one line; `verbose` says of each what it
    needs.
    """
    console.print(Text(answer.headline(), "bold"))
    console.print()
    shown = [gain for gain in answer.gains if max(_reach(s) for s in gain.savings) >= _SHOWN]
    console.print(_table(answer, shown, None if verbose else _MOST))
    for sentence in answer.beside():
        console.print(Text(plain(sentence, 400)))
    if verbose:
        for gain in shown:
            _print_gain(console, gain)
        if none := [plain(gain.name) for gain in answer.gains if gain not in shown]:
            console.print()
            without = f"without effect on any of these machines: {', '.join(none)}"
            console.print(Text(without, "dim"))
        told = [f for f in answer.findings if f.code in ("A309", "A741", "A560", "A561")]
        print_findings(console, told)
        return
    _print_first(console, answer, shown)


def _table(answer: Whatif, shown: Sequence[Gain], most: int | None) -> Table:
    """Return run times as they are, and a line for each number that edits save."""
    machines = (plain(u.title if u.target != "self" else "here", 28) for u in answer.unchanged)
    table = unframed("saves, with range", *machines)
    table.columns[0].no_wrap = True
    table.add_row("none: run time", *(seconds(u.seconds) for u in answer.unchanged))
    if len(answer.unchanged) > 1:
        saved = (_ranged(u.share, u.share_lower, u.share_upper) for u in answer.unchanged)
        table.add_row("none: saves", *saved)
    alike: dict[tuple[str, ...], list[str]] = {}
    for gain in [*shown, *([answer.together] if answer.together else [])]:
        cells = tuple(_share(s) for s in gain.savings)
        alike.setdefault(cells, []).append(plain(gain.name))
    for cells, names in [*alike.items()][:most]:
        table.add_row(shorten(", ".join(names), _NAMES), *cells)
    return table


def _print_first(console: Console, answer: Whatif, shown: Sequence[Gain]) -> None:
    """Print how the best edits are written, where, and on what the order rests."""
    console.print()
    for gain in shown[:_WRITTEN]:
        console.print(Text(f"{plain(gain.name)}: {plain(gain.title, 120)}"))
        if gain.remedy:
            console.print(Text(f"  {gain.remedy}"))
        if gain.places:
            console.print(Text(f"  {_placed(gain.places[0])}"))
    trust = answer.run.ordered.trust
    if trust is not None:
        why = trust.refused or f"{100 * trust.explained:.0f} % of the critical path follows from "
        console.print()
        console.print(Text(f"trust: {why}{'' if trust.refused else 'recorded causes'}"))
    rest = len(shown) - _WRITTEN
    more = f"{rest} more edits: " if rest > 0 else ""
    console.print(Text(f"more:  {more}turnbuckle whatif FILE -v | --on gh200 | --apply EDIT"))


def _print_gain(console: Console, gain: Gain) -> None:
    """Print an edit: where, how, what it needs, on what its range rests."""
    console.print()
    recorded = f"{gain.count:,}; {seconds(gain.recorded_seconds)} as recorded"
    console.print(Text(f"{plain(gain.name)}: {plain(gain.title, 120)} ({recorded})"))
    words = unframed("", "", words=("",), heading=False)
    for place in gain.places:
        words.add_row("  where", _placed(place))
    if gain.remedy:
        words.add_row("  in code", gain.remedy)
    words.add_row("  needs", gain.needs)
    words.add_row("  range", gain.rests)
    console.print(words)


def _placed(place: Place) -> str:
    """Return a place in words.

    >>> from turnbuckle.questions.whatif.places import Place
    >>> _placed(Place("cudaMemcpy", "solve", (3, 50), "jacobi", 96, 0.0034))
    '96 in solve, steps 3 to 50: cudaMemcpy with jacobi, 3.4 ms'
    """
    within = [] if place.range is None else [f"in {plain(place.range, 60)}"]
    steps = (
        []
        if place.steps is None
        else [
            f"step {place.steps[0]}"
            if len(set(place.steps)) == 1
            else "steps {} to {}".format(*place.steps)
        ]
    )
    where = ", ".join([*within, *steps])
    kernel = "" if place.kernel is None else f" with {plain(kernel_labels([place.kernel])[0], 60)}"
    call = "work without a call" if place.call is None else plain(place.call, 60)
    return f"{place.count:,}{' ' * bool(where)}{where}: {call}{kernel}, {seconds(place.seconds)}"


def _reach(saving: Saving) -> float:
    """Return the largest change of the run time in the range of a saving, either way."""
    return max(abs(saving.share), abs(saving.lower or 0.0), abs(saving.upper or 0.0))


def _share(saving: Saving) -> str:
    """Return a saving and its range, in per cent.

    >>> from turnbuckle.questions.whatif.question import Saving
    >>> _share(Saving("self", "", 0.9, 1.0, 0.8, 0.1, 0.0, 0.2))
    '10.0% [0.0, 20.0]'
    """
    return _ranged(saving.share, saving.lower, saving.upper)


def _ranged(share: float, lower: float | None, upper: float | None) -> str:
    """Return a share and its range, in per cent."""
    if lower is None or upper is None:
        return _signed(share) + "%"
    return f"{_signed(share)}% [{_signed(lower)}, {_signed(upper)}]"


def _signed(share: float) -> str:
    """Return a share in per cent, without the sign of a zero."""
    text = f"{share * 100:.1f}"
    return "0.0" if float(text) == 0 else text
