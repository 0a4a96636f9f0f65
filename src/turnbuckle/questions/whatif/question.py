"""``turnbuckle whatif``: which change to the program pays, on the recorded machine and on others.

Every edit makes another run of the recorded one (`edits`), and both are projected alike, with the
same draws: a saving is the difference of two answers of `project`, and without an edit the answer
is that of `project`.

    saving = (seconds(T) - seconds_with_edit(T)) / seconds(T)

The range of a saving goes from the end of least gain to that of most gain, and through the 90 % of
the draws that both answers share. Where the recorded order cannot be trusted no edit is replayed:
each saves between nothing and what it changes takes (`unordered`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import clipped, did_you_mean, error_of
from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.machine import Machine, Pair, load
from turnbuckle.projection.admission import (
    require_activity,
    require_calls,
    require_numbers,
    trusted_timeline,
)
from turnbuckle.projection.anchor import Durations
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.elsewhere.priors import Draws
from turnbuckle.projection.model import Model, nething
from turnbuckle.projection.order import Prepared, run_times
from turnbuckle.projection.project import priced
from turnbuckle.projection.projection import Projection
from turnbuckle.projection.run import Run
from turnbuckle.projection.uncertainty import LEVEL, SEED, affordable, project_many, uncertain
from turnbuckle.questions.whatif.edits import combined, edits
from turnbuckle.questions.whatif.offered import Edit, Seen
from turnbuckle.questions.whatif.phases import to_device
from turnbuckle.questions.whatif.places import Place, places
from turnbuckle.questions.whatif.unordered import RESTS, Part, parts

#: Replay and prices of `project` as it is asked without options.
_MODEL: Final = replace(nething(), replay="auto")
#: Savings of less than this share of the run time are no reason to change a program.
WORTH: Final = 0.001


@dataclass(frozen=True)
class Saving(Declared):
    """Saving by an edit on one machine.

    Attributes
    ----------
    target : machine, ``self`` for the recorded one; `title` in words.
    seconds : run time with the edit, the middle of `least_seconds` and `most_seconds` [s].
    least_seconds, most_seconds : run time by the end of least gain, and of most gain [s].
    share : run time saved over the run time without it, by `seconds`.
    lower, upper : range of that share; None without draws.
    """

    target: str
    title: str
    seconds: float
    least_seconds: float
    most_seconds: float
    share: float
    lower: float | None
    upper: float | None


@dataclass(frozen=True)
class Gain(Declared):
    """An edit and what it saves on each machine, as stated by `offered.Edit`; `places` are those of
    its calls that take longest.
    """

    name: str
    title: str
    count: int
    recorded_seconds: float
    needs: str
    remedy: str
    rests: str
    places: tuple[Place, ...]
    savings: tuple[Saving, ...]

    @property
    def on_source(self) -> tuple[float, float]:
        """Return the least and the most that it saves on the recorded machine, as shares of the run
        time.
        """
        return self.ends(0)

    def ends(self, machine: int) -> tuple[float, float]:
        """Return the least and the most that it saves on one of the machines at its stated values,
        as shares of the run time there.
        """
        saving = self.savings[machine]
        was = saving.seconds / (1.0 - saving.share) if saving.share < 1.0 else 0.0
        least, most = (
            1.0 - seconds / was if was else 0.0
            for seconds in (saving.least_seconds, saving.most_seconds)
        )
        return least, most

    def on(self, target: str) -> Saving:
        """Return what it saves on one machine."""
        return next(saving for saving in self.savings if saving.target == target)


@dataclass(frozen=True)
class Unchanged(Declared):
    """The program as it is, on one machine, as `project` answers; `share` is what the machine saves
    of the recorded run by itself.
    """

    target: str
    title: str
    seconds: float
    lower: float | None
    upper: float | None
    share: float
    share_lower: float | None
    share_upper: float | None


@dataclass(frozen=True, repr=False)
class Whatif(Shown):
    """Which change to the program pays: the edits of a run, the best on the recorded machine first.

    Attributes
    ----------
    run : the run.
    measured : its recorded time [s].
    unchanged : the program as it is on each machine, the recorded one first.
    gains : each edit by itself.
    together : the edits that were asked for together; None where none was.
    draws : of each range.
    """

    question: ClassVar[str] = "whatif"

    run: Run
    measured: float
    unchanged: tuple[Unchanged, ...]
    gains: tuple[Gain, ...]
    together: Gain | None
    draws: int

    @property
    def findings(self) -> list[Finding]:
        """Return the findings of the recording, and on what the order rests."""
        trust = self.run.ordered.trust
        if trust is None:
            return [*self.run.findings]
        told = (
            finding("A741", 1, trust.refused)
            if trust.refused
            else finding("A309", 1, trust.words())
        )
        return [*self.run.findings, told]

    def table(self) -> pl.DataFrame:
        """Return a row for each edit and machine: edit, target, seconds, share, lower, upper,
        needs.
        """
        every = [*self.gains, *([self.together] if self.together else [])]
        rows = [
            {"edit": g.name, "count": g.count, **s.as_dict(), "needs": g.needs}
            for g in every
            for s in g.savings
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def headline(self) -> str:
        """Return what pays most, in one line."""
        best = max(self.gains, key=lambda g: g.savings[0].share, default=None)
        if best is None or best.savings[0].share < WORTH:
            return f"What if: no edit saves {WORTH:.1%} of {self.measured:.4g} s here"
        least, most = best.on_source
        saved = f"{most:.1%}" if most - least < WORTH else f"{max(least, 0.0):.1%} to {most:.1%}"
        return f"What if: {best.title}: {saved} of {self.measured:.4g} s here"

    @property
    def sure(self) -> Gain | None:
        """Return the edit that saves most in any case; None where none surely saves `WORTH`."""
        best = max(self.gains, key=lambda gain: gain.on_source[0], default=None)
        return best if best is not None and best.on_source[0] >= WORTH else None

    def beside(self) -> list[str]:
        """Return, for each other machine that saves something by itself, which edits save as much
        here, in a sentence.
        """
        out = []
        for machine in self.unchanged[1:]:
            if machine.share < WORTH:
                continue
            sure = [
                f"{g.name} ({g.on_source[0]:.1%})"
                for g in self.gains
                if g.on_source[0] >= machine.share
            ]
            best = [
                f"{g.name} ({g.on_source[1]:.1%})"
                for g in self.gains
                if g.on_source[0] < machine.share <= g.on_source[1]
            ]
            parts = [f"as much here: {', '.join(sure)}"] * bool(sure) + [
                f"as much at best: {', '.join(best)}"
            ] * bool(best)
            out.append(
                f"{machine.title} saves {machine.share:.1%} without an edit; "
                f"{'; '.join(parts) or 'no edit saves as much here'}."
            )
        return out

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {**super().as_dict(), "provenance": self.run.provenance()}


def of_run(
    run: Run,
    on: Sequence[str | Machine] | str | Machine = (),
    apply: Sequence[str] = (),
    *,
    draws: int | None = None,
    seed: int = SEED,
) -> Whatif:
    """Rank the edits that a run offers: ``turnbuckle whatif``.

    Parameters
    ----------
    on : other machines, by name or as they are; the recorded one always comes first.
    apply : edits that are made together.
    draws, seed : as in `Run.project`.

    Raises
    ------
    CannotAnswer : A121, A140; A122, edits are made on an order that cannot be trusted; A190, a
        number that decides is not stated; A196.
    UsageError : A436, an edit that the run does not offer; A437 to A439, a host phase that cannot
        be moved so.
    """
    run = run.judged
    named = [on] if isinstance(on, str | Machine) else on
    targets = [run.source, *(load(m) if isinstance(m, str) else m for m in named if m != "self")]
    require_activity(run.profile)
    if len(targets) > 1 or not run.projectable:
        require_calls(run.profile)
    ready = run.prepared(_MODEL)
    ordered = ready.trust is None or not ready.trust.refused
    if apply or ordered:
        trusted_timeline(
            ready, "; turnbuckle whatif without --apply says what each edit saves at most"
        )
    count = affordable(ready) if draws is None else draws
    seen = seen_of(run, ready)
    offered, chosen = _chosen(seen, apply) if ordered else ([], [])
    before = project_many(
        run.profile, run.source, targets, _MODEL, run.fits, count, seed, ready, details=False
    )
    for projection in before:
        require_numbers(projection)
    unchanged = tuple(_unchanged(p, before[0].seconds) for p in before)
    if not ordered:
        bounds = tuple(
            _at_most(part, unchanged[0]) for part in parts(ready.run, run.source, _MODEL)
        )
        return Whatif(run, run.seconds, unchanged, bounds, None, count)
    asked = _Asked(run, seen, targets, ready, unchanged, [p.sample for p in before], count, seed)
    gains = sorted(
        (asked.gain(edit, [edit]) for edit in offered), key=lambda g: -g.savings[0].share
    )
    together = asked.gain(_all(chosen), chosen) if chosen else None
    return Whatif(run, run.seconds, unchanged, tuple(gains), together, count)


def _at_most(part: Part, here: Unchanged) -> Gain:
    """Return what an edit saves at most on the recorded machine, where no order can be trusted."""
    left = max(here.seconds - part.most, 0.0)
    share = 1.0 - left / here.seconds if here.seconds else 0.0
    saving = Saving(
        here.target,
        here.title,
        (here.seconds + left) / 2,
        here.seconds,
        left,
        share / 2,
        0.0,
        share,
    )
    return Gain(
        part.name,
        part.title,
        part.count,
        part.seconds,
        part.needs,
        part.remedy,
        RESTS,
        (),
        (saving,),
    )


def edited(run: Run, apply: Sequence[str], model: Model) -> Prepared:
    """Return the run with some edits made together, by the end of most gain, ready for the
    timeline.  Raises as `of_run`.
    """
    ready = run.prepared(replace(model, replay="timeline"))
    trusted_timeline(ready)
    return combined(_chosen(seen_of(run, ready, model), apply)[1], ready, most=True)


def _chosen(seen: Seen, apply: Sequence[str]) -> tuple[list[Edit], list[Edit]]:
    """Return the edits that a run offers, and those of some names, in the order in which they are
    made.
    """
    offered = edits(seen)
    offered += [
        edit for name in dict.fromkeys(apply) if (edit := to_device(seen, name)) is not None
    ]
    names = {_offered(name, offered).name for name in apply}
    chosen = [edit for edit in offered if edit.name in names]
    _agree([edit.name for edit in chosen])
    return offered, chosen


def seen_of(run: Run, ready: Prepared, model: Model = _MODEL) -> Seen:
    """Return a run as edits see it."""
    begun = run.start_up
    return Seen(
        run.profile,
        ready,
        run.source,
        model,
        0 if begun is None else begun.end_ns - run.profile.first_ns,
    )


def _unchanged(projected: Projection, recorded: float) -> Unchanged:
    """Return the program as it is on one machine, beside the run time of the recorded one [s]."""
    low, high = (
        (projected.interval.low, projected.interval.high) if projected.interval else (None, None)
    )
    lower, share, upper = (
        None if s is None or not recorded else 1.0 - s / recorded
        for s in (high, projected.seconds, low)
    )
    return Unchanged(
        projected.target, projected.title, projected.seconds, low, high, share or 0.0, lower, upper
    )


def _offered(name: str, offered: Sequence[Edit]) -> Edit:
    """Return the edit of a name, or the only one whose name goes on behind that word; raise A436
    where the run offers none.
    """
    chosen = next((edit for edit in offered if edit.name == name), None)
    longer = [edit for edit in offered if edit.name.startswith(f"{name} ")]
    if chosen is None and len(longer) == 1:
        return longer[0]
    if chosen is None:
        names = [edit.name for edit in offered]
        raise error_of(
            "A436",
            found=clipped(name, 60),
            fix=did_you_mean(name, names) or None,
            names=", ".join(names) or "none",
        )
    return chosen


def _agree(names: Sequence[str]) -> None:
    """Raise A439 where a host phase is to go two ways at once."""
    gone = [
        word
        for name in names
        for kind, word in [name.split(" ", 1) if " " in name else ("", "")]
        if kind in ("beside", "device")
    ]
    phases = [word.rsplit("=", 1)[0] for word in gone]
    if twice := [word for word in phases if phases.count(word) > 1]:
        raise error_of("A439", found=clipped(twice[0], 60))


def _all(chosen: Sequence[Edit]) -> Edit:
    """Return several edits as one, in words."""
    needs, remedy, rests = (
        "; ".join(dict.fromkeys(getattr(edit, part) for edit in chosen if getattr(edit, part)))
        for part in ("needs", "remedy", "rests")
    )
    title = " and ".join(edit.title for edit in chosen)
    return Edit(
        "together",
        title,
        sum(e.count for e in chosen),
        sum(e.seconds for e in chosen),
        needs,
        rests,
        chosen[0].most,
        activities=np.unique(np.concatenate([edit.activities for edit in chosen])),
        remedy=remedy,
    )


@dataclass(frozen=True)
class _Asked:
    """The unchanged run on each machine, with which every edit of one question is compared."""

    run: Run
    seen: Seen
    targets: list[Machine]
    ready: Prepared
    unchanged: tuple[Unchanged, ...]
    samples: list[Float | None]
    draws: int
    seed: int
    prices: dict[tuple[int, int], Durations] = field(default_factory=dict, repr=False)

    def gain(self, edit: Edit, chosen: Sequence[Edit]) -> Gain:
        """Return what edits save together, described as `edit`."""
        ends = [combined(chosen, self.ready, most=most) for most in (False, True)]
        savings = []
        for k, (declared, machine) in enumerate(zip(self.targets, self.unchanged, strict=True)):
            pair, was = Pair(self.run.source, declared), machine.seconds
            least, most = (self._seconds(end, pair, k) for end in ends)
            shares = [
                1.0 - seconds / was if was else 0.0 for seconds in ((least + most) / 2, least, most)
            ]
            low, high = self._range(k, ends, shares) if self.draws else (None, None)
            savings.append(
                Saving(
                    machine.target,
                    machine.title,
                    (least + most) / 2,
                    least,
                    most,
                    shares[0],
                    low,
                    high,
                )
            )
        where = places(self.seen, edit.activities)
        return Gain(
            edit.name,
            edit.title,
            edit.count,
            edit.seconds,
            edit.needs,
            edit.remedy,
            edit.rests,
            where,
            tuple(savings),
        )

    def _seconds(self, ready: Prepared, pair: Pair, target: int) -> float:
        """Return the run time on one of the machines at its stated values [s]; runs of the same
        pieces share their durations.
        """
        durations = self.prices.get((id(ready.run), target))
        if durations is None:
            # durations hold their pieces, so that no other pieces get their identity
            durations = self.prices[id(ready.run), target] = priced(ready, pair, _MODEL)
        return float(np.squeeze(run_times(ready, durations)))

    def _range(
        self, target: int, ends: Sequence[Prepared], shares: Sequence[float]
    ) -> tuple[float, float]:
        """Return the range of a saving: from least gain to most, each through its draws."""
        declared = self.targets[target]
        pair = Pair(self.run.source, declared)
        if pair.target is pair.source:
            return min(shares), max(shares)
        was, (least, most) = self.samples[target], self._samples(ends, declared, pair)
        assert was is not None
        tail = (1.0 - LEVEL) / 2
        low, high = np.quantile(1.0 - least / was, tail), np.quantile(1.0 - most / was, 1.0 - tail)
        return min(float(low), *shares), max(float(high), *shares)

    def _samples(self, ends: Sequence[Prepared], declared: Machine, pair: Pair) -> list[Float]:
        """Return draws of each run's time [s]; runs of the same pieces share those of their
        durations.
        """
        drawn: dict[int, tuple[Draws, Durations]] = {}
        out = []
        for ready in ends:
            # an edit is replayed in the recorded order, and so is what it is compared with
            question = uncertain(
                replace(ready, waiting=None), self.run.source, self.run.fits, self.draws, self.seed
            )
            if id(ready.run) not in drawn:
                draws = Draws(self.draws, self.seed)
                drawn[id(ready.run)] = draws, question.durations(declared, pair, _MODEL, draws)
            out.append(question.samples(declared, pair, _MODEL, drawn=drawn[id(ready.run)])[1])
        return out
