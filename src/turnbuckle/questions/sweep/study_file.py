"""Reader of study files (TOML), which reports the position of every flaw.

::

    [study]
    name = "cards"
    model = "messages"                    # messages, project, slack, sharing or pool
    # sample = 256                        # places of the axes that are ranges, and not lists: {from = "0.5 us", to = "50 us"}
    # refine = 100                        # points that are added where the answer changes along such an axis

    [recordings]
    melt = "melt-16/traces.otf2"          # relative to this file

    [settings]                            # the same at every point
    fidelity = "flow"

    [axes]                                # every combination of their values is a point
    path = ["hostcopy", "gpudirect"]
    card_bandwidth = ["100 Gb/s", "200 Gb/s"]
    hop_seconds = {from = "0.5 us", to = "50 us", points = 5, spacing = "log"}

    [[pairs]]                             # settings that change together, one table a combination
    source = "a100-pcie-40"
    on = "gh200"

Nothing is guessed: a name that the model does not have, a quantity without a unit, a value that
stands twice stops the reading:

    A080  not TOML, an unknown or missing key, a table that is none
    A081  a setting that is not setting_of, or a value that it cannot have
    A084  no points, or too many
    U0xx  a quantity without a unit, or with the wrong one
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

from turnbuckle.foundation.settings import Scalar, Setting, setting_of, spaced
from turnbuckle.foundation.table_file import read_text
from turnbuckle.foundation.toml_text import TomlReading
from turnbuckle.foundation.units import parse
from turnbuckle.questions.sweep.grid import Study
from turnbuckle.questions.sweep.kinds import kind_named
from turnbuckle.questions.sweep.ranges import WITHIN, Range, Sample, Spacing, planned, range_of

_RANGE = ("from", "to", "points", "spacing")
_HEAD = ("name", "model", "sample", "sampler", "seed", "refine", "within")
#: Values of one axis that a file may ask for by their number.
_LONGEST = 1_000_000
_TABLES = ("study", "recordings", "settings", "axes", "pairs")


def read_study(path: str | Path) -> Study:
    """Read a study file.

    Raises
    ------
    UsageError : A061 where the file cannot be read; A080, A081, A084 with file:line:column.
        UnitError : U0xx.
    """
    text = read_text(path, "the study", largest_bytes=1 << 24, fix="give a TOML file in UTF-8")
    return _Reading(Path(path), text).study()


class _Reading(TomlReading):
    """One study file being read."""

    code = "A080"

    def __init__(self, path: Path, text: str) -> None:
        self.folder = path.parent
        super().__init__(path.name, text)

    def study(self) -> Study:
        self._keys((), self.document, _TABLES, subject="a table")
        head = self._table("study", needed=True)
        self._keys(("study",), head, _HEAD, subject="a key")
        for key in ("name", "model"):
            if not isinstance(head.get(key), str):
                raise self._flaw("A080.key", ("study", key), key=key)
        kind = self._located(("study", "model"), lambda: kind_named(head["model"]))
        legal = kind.legal
        settings = {
            n: self._value(("settings", n), n, v, legal, kind.name)
            for n, v in self._table("settings").items()
        }
        sample, budget, within = self._points(head)
        ranges = sample is not None or budget is not None
        axes = {
            n: self._axis(n, v, legal, kind.name, ranges) for n, v in self._table("axes").items()
        }
        pairs = self._pairs(legal, kind.name)
        recordings = self._recordings()
        where = ("axes",) if axes else ("study",)

        def made() -> Study:
            every, refine = planned(axes, budget, within, sample)
            return Study(
                head["name"], kind, recordings, settings, pairs, every, self.folder, sample, refine
            )

        return self._located(where, made)

    def _points(self, head: dict[str, Any]) -> tuple[Sample | None, int | None, float]:
        """Return how ranges are sampled, how many points are added where the answer changes, and
        the width that is narrow enough.
        """
        for key in ("sample", "seed", "refine"):
            if key in head and (not isinstance(head[key], int) or isinstance(head[key], bool)):
                raise self._flaw("A080.number", ("study", key), found=str(head[key]), key=key)
        if "sample" not in head and (
            key := next((k for k in ("sampler", "seed") if k in head), "")
        ):
            raise self._flaw("A080.needs", ("study", key), key=key, other="sample")
        if "refine" not in head and "within" in head:
            raise self._flaw("A080.needs", ("study", "within"), key="within", other="refine")
        given = {
            new: head[key]
            for key, new in (("sample", "count"), ("sampler", "sampler"), ("seed", "seed"))
            if key in head
        }
        sample = self._located(("study", "sample"), lambda: Sample(**given)) if given else None
        within = (
            self._located(("study", "within"), lambda: parse(str(head["within"]), "1"))
            if "within" in head
            else WITHIN
        )
        return sample, head.get("refine"), within

    def _recordings(self) -> dict[str, Path]:
        given = self._table("recordings", needed=True)
        for name, file in given.items():
            if not isinstance(file, str) or not file or not file.isprintable():
                raise self._flaw("A080.path", ("recordings", name), found=str(file), name=name[:40])
        return {name: self.folder / file for name, file in given.items()}

    def _pairs(self, legal: Mapping[str, Setting], model: str) -> list[dict[str, Scalar]]:
        given = self.document.get("pairs", [])
        if not isinstance(given, list) or not all(isinstance(p, dict) and p for p in given):
            raise self._flaw("A080.pairs", ("pairs",))
        return [
            {n: self._value(("pairs", n), n, v, legal, model) for n, v in pair.items()}
            for pair in given
        ]

    def _axis(
        self, name: str, given: object, legal: Mapping[str, Setting], model: str, ranges: bool
    ) -> Sequence[Scalar] | Range:
        place = ("axes", name)
        setting = self._located(place, lambda: setting_of(name, legal, f"model {model}"))
        if isinstance(given, list):
            return [
                self._located((*place, str(k)), partial(setting.read, v))
                for k, v in enumerate(given)
            ]
        if not isinstance(given, dict):
            raise self._flaw("A080.axis", place, found=str(given), name=name)
        self._keys(place, given, _RANGE, subject="a key of a range")
        if missing := [k for k in _RANGE[: 2 if ranges else 3] if k not in given]:
            raise self._flaw("A080.end", place, missing=missing[0])
        points, spacing = given.get("points", 2), given.get("spacing", "linear")
        if not isinstance(points, int) or isinstance(points, bool) or not 2 <= points <= _LONGEST:
            raise self._flaw("A080.points", (*place, "points"), found=str(points), most=_LONGEST)
        if spacing not in get_args(Spacing):
            raise self._flaw("A080.spacing", (*place, "spacing"), found=str(spacing))
        ends = [
            self._located((*place, end), partial(setting.read, given[end]))
            for end in ("from", "to")
        ]
        over = self._located(
            place, lambda: range_of((ends[0], ends[1]), spacing, "float" not in setting.kinds)
        )
        if "points" not in given:
            return over
        values = spaced(float(ends[0]), float(ends[1]), points, spacing)
        if "float" in setting.kinds:
            return values
        if any(v != int(v) for v in values):
            odd = next(v for v in values if v != int(v))
            raise self._flaw("A080.whole", place, found=f"{odd:g} between the ends", name=name)
        return [int(v) for v in values]

    def _value(
        self,
        place: tuple[str, ...],
        name: str,
        value: object,
        legal: Mapping[str, Setting],
        model: str,
    ) -> Scalar:
        setting = self._located(place, lambda: setting_of(name, legal, f"model {model}"))
        return self._located(place, partial(setting.read, value))

    def _table(self, name: str, needed: bool = False) -> dict[str, Any]:
        table = self.document.get(name, {})
        if not isinstance(table, dict) or (needed and not table):
            raise self._flaw("A080.table", (name,), name=name)
        return table
