"""Summary of each recording of a sweep: its best point, and whether GPUDirect helps if both paths
were asked.

Two points that differ in the path alone are compared, at every combination of the other settings
where both have an answer:

    gain = communication by host copies / communication by GPUDirect - 1

GPUDirect helps at a combination where that is above `NO_DIFFERENCE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.settings import Setting, unit_of
from turnbuckle.foundation.units import show
from turnbuckle.questions.sweep.grid import Study
from turnbuckle.questions.sweep.points import SHORTEST, Best

#: A path that makes less of a difference than this to the communication makes none.
NO_DIFFERENCE: Final = 0.01
HOST, DIRECT, TALK = "hostcopy", "gpudirect", "communication_seconds"
#: More ranks have more to do: points are best among those of as many.
_SIZE: Final = "ranks"
#: Values of an axis that a sentence names.
_NAMED: Final = 4


def gain_word(low: float, high: float, mixed: str = "undecided") -> str:
    """Return whether GPUDirect helps, from the least and the largest gain of communication; `mixed`
    where it helps at one end alone.

    >>> gain_word(0.2, 0.4), gain_word(-0.2, 0.4), gain_word(-0.2, 0.0), gain_word(0.0, 0.005)
    ('helps', 'undecided', 'does not help', 'makes no difference')
    """
    if low > NO_DIFFERENCE:
        return "helps"
    if high > NO_DIFFERENCE:
        return mixed
    return "does not help" if low < -NO_DIFFERENCE else "makes no difference"


@dataclass(frozen=True)
class Gained:
    """Gain of GPUDirect over host copies at one combination of the other settings.

    Attributes
    ----------
    values : what varies besides the path.
    gain, run_gain : of communication, and of the run time.
    """

    values: Mapping[str, Any]
    gain: float
    run_gain: float


@dataclass(frozen=True)
class SweepSummary(Declared):
    """Summary of one recording of a sweep.

    Attributes
    ----------
    best : the row with the shortest run (of most ranks where those vary), or whatever `by`
        compares; None where no point has an answer.
    varied : names of what varies.
    gained : GPUDirect against host copies; empty where the sweep does not ask for both.
    unpaired : combinations at which one of the two paths has no answer.
    unmatched : share of the calls that have no other side in the recording.
    """

    recording: str
    best: Mapping[str, Any] | None
    varied: tuple[str, ...]
    gained: tuple[Gained, ...]
    unpaired: int
    unmatched: float
    settings: Mapping[str, Setting]
    by: Best = SHORTEST

    @property
    def verdict(self) -> str:
        """Return whether GPUDirect helps; empty where nothing is compared."""
        if not self.gained:
            return ""
        if self.unmatched > 0.5:
            return "cannot be told"
        gains = [g.gain for g in self.gained]
        return gain_word(min(gains), max(gains), "depends")

    @property
    def sentence(self) -> str:
        """Return the summary in words, without the name of the recording."""
        if self.best is None:
            return "no point has an answer"
        parts = [f"{self.by.words} {self._value(self.by.result, self.best[self.by.result])}"]
        if TALK in self.best:
            parts[0] += f", {self._value(TALK, self.best[TALK])} of it communication"
        if place := self._place(self.best) if self.varied else "":
            # "at on gh200" would say it twice
            parts[0] += f", {place}" if place.startswith("on ") else f", at {place}"
        if self.verdict == "cannot be told":
            parts.append(
                f"it is unknown whether GPUDirect helps: {self.unmatched:.0%} of the calls "
                "have no matching call in the recording"
            )
        elif self.verdict:
            parts.append(self._compared())
        if self.unpaired:
            some = f"{self.unpaired:,} combination{'s' * (self.unpaired > 1)}"
            parts.append(f"at {some} one path or both have no answer")
        return "; ".join(parts)

    def _compared(self) -> str:
        low, high = (end(self.gained, key=lambda g: g.gain) for end in (min, max))
        runs = [g.run_gain for g in self.gained]
        several = len(self.gained) > 1 and high.gain > low.gain
        ends = f"{_signed(low.gain)} to {_signed(high.gain)}" if several else _signed(high.gain)
        run = (
            f"{_signed(min(runs))} to {_signed(max(runs))}"
            if _signed(min(runs)) != _signed(max(runs))
            else _signed(max(runs))
        )
        sentence = f"GPUDirect {self.verdict}"
        if self.verdict == "depends":
            sentence = "whether GPUDirect helps depends" + (
                f" (it {decided})" if (decided := self._decided()) else ""
            )
        sentence += f": gain of communication {ends}"
        if several and low.values:
            sentence += f" (least at {self._place(low.values)}; most at {self._place(high.values)})"
        return f"{sentence}, of the run {run}"

    def _decided(self) -> str:
        """Return the one setting whose value decides whether GPUDirect helps, in words; empty if no
        setting does.
        """
        for name in self.varied:
            by: dict[Any, set[bool]] = {}
            for g in self.gained:
                if name in g.values:
                    by.setdefault(g.values[name], set()).add(g.gain > NO_DIFFERENCE)
            if not by or any(len(kinds) > 1 for kinds in by.values()):
                continue
            yes = [v for v, kinds in by.items() if True in kinds]
            no = [v for v in by if v not in yes]
            if (
                all(isinstance(v, int | float) and not isinstance(v, bool) for v in by)
                and len(by) > 2
            ):
                if min(yes) > max(no):
                    return f"helps from {name} {self._value(name, min(yes))} on"
                if max(yes) < min(no):
                    return f"helps up to {name} {self._value(name, max(yes))}"
            if min(len(yes), len(no)) <= _NAMED:
                word, some = ("helps at", yes) if len(yes) <= _NAMED else ("helps but at", no)
                return f"{word} {name} {', '.join(self._value(name, v) for v in some)}"
        return ""

    def _place(self, values: Mapping[str, Any]) -> str:
        return ", ".join(f"{n} {self._value(n, values[n])}" for n in self.varied if n in values)

    def _value(self, name: str, value: Any) -> str:
        return valued(value, unit_of(name, self.settings))

    @property
    def shortest(self) -> dict[str, Any] | None:
        """Return settings and results of the shortest run; None where no point has an answer."""
        return (
            None
            if self.best is None
            else {n: self.best[n] for n in (*self.varied, self.by.result, TALK) if n in self.best}
        )

    @property
    def gpudirect(self) -> dict[str, Any] | None:
        """Return the least and the largest gain by GPUDirect and their settings; None where no two
        paths were compared.
        """
        if not self.gained:
            return None
        least, most = (end(self.gained, key=lambda g: g.gain) for end in (min, max))
        return {
            "verdict": self.verdict,
            "combinations": len(self.gained),
            "unpaired": self.unpaired,
            "least": least,
            "most": most,
        }


def valued(value: Any, unit: str) -> str:
    """Format a setting or a result for a sentence."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, int | float):
        return str(value)
    return (
        f"{value:,}"
        if isinstance(value, int)
        else show(value, unit, 4)
        if unit == "1"
        else show(value, unit)
    )


def _signed(share: float) -> str:
    """Format a relative change in three digits.

    >>> _signed(0.123456), _signed(-2e-5), _signed(1.5)
    ('+12.3%', '-0.002%', '+150%')
    """
    text = f"{100 * share:+.3g}" if abs(share) < 10 else f"{100 * share:+.0f}"
    return f"{text}%" if share else "0%"


def gained(rows: Iterable[Mapping[str, Any]], varied: Sequence[str]) -> tuple[list[Gained], int]:
    """Return the gain at each combination of settings besides the path, and the number of
    combinations without a gain.

    A combination has a gain if both of its paths have an answer.
    """
    varied_besides = [n for n in varied if n != "path"]
    pairs: dict[tuple[Any, ...], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if row["path"] in (HOST, DIRECT):
            pairs.setdefault(tuple(row[n] for n in varied_besides), {})[row["path"]] = row
    out = []
    for combination, pair in pairs.items():
        times = [_times(pair[p]) for p in (HOST, DIRECT) if p in pair]
        if len(times) == 2 and times[0] and times[1]:
            (host, host_run), (direct, direct_run) = times[0], times[1]
            out.append(
                Gained(
                    dict(zip(varied_besides, combination, strict=True)),
                    host / direct - 1.0,
                    host_run / direct_run - 1.0,
                )
            )
    return out, len(pairs) - len(out)


def _times(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return communication and run time of an answer, if both take time."""
    talk, run = row.get(TALK), row.get("seconds")
    return (float(talk), float(run)) if not row["code"] and talk and run else None


def varying(study: Study) -> tuple[str, ...]:
    """Return the settings that have more than one value in a study."""
    pairs = [
        n for n in (study.pairs[0] if study.pairs else ()) if len({p[n] for p in study.pairs}) > 1
    ]
    return (*pairs, *(n for n in study.axes if n in study.ranges or len(study.lists[n]) > 1))


def summaries(study: Study, rows: Iterable[Mapping[str, Any]]) -> list[SweepSummary]:
    """Summarise each recording of a sweep.

    Parameters
    ----------
    rows : as `turnbuckle.questions.sweep.question.Swept.rows` gives them; of more than the answers
        compared none is kept.
    """
    varied, legal, by = varying(study), study.kind.legal, study.kind.best
    paths = study.lists.get("path") or [pair["path"] for pair in study.pairs if "path" in pair]
    compares_paths = "path" in varied and {HOST, DIRECT} <= set(paths)
    best: dict[str, Mapping[str, Any]] = {}
    unmatched: dict[str, float] = {}
    both: dict[str, list[Mapping[str, Any]]] = {name: [] for name in study.recordings}
    for row in rows:
        name = row["recording"]
        if compares_paths:
            both[name].append(row)
        if row["code"] or not isinstance(row.get(by.result), int | float):
            continue
        if name not in best or _order(row, varied, by) < _order(best[name], varied, by):
            best[name] = row
        unmatched[name] = max(unmatched.get(name, 0.0), float(row.get("unmatched_share") or 0.0))
    out = []
    for name in study.recordings:
        compared, unpaired = gained(both[name], varied)
        out.append(
            SweepSummary(
                name,
                best.get(name),
                varied,
                tuple(compared),
                unpaired,
                unmatched.get(name, 0.0),
                legal,
                by,
            )
        )
    return out


def _order(row: Mapping[str, Any], varied: Sequence[str], by: Best) -> tuple[float, float, float]:
    """Return what the best row has least of: of most ranks, the shortest run, then the least
    communication.
    """
    return -float(row[_SIZE]) if _SIZE in varied else 0.0, by.cost(row), float(row.get(TALK) or 0.0)
