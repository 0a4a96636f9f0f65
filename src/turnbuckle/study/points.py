"""What a sweep can ask of a recording: kinds of question, each a dataclass of settings and a function that answers one point.

`messages`  an MPI run with its messages taken one way, on one machine (`turnbuckle.study.messages`)
`project`   run time on another machine (`turnbuckle.project`)
`slack`     run time at one added latency, and what a run tolerates (`turnbuckle.study.slack`)
`sharing`   so many runs behind one host link (`turnbuckle.study.sharing`)

A kind of your own is a `Kind` with a frozen dataclass and a function, both at the top of a module, so that other processes find them.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from turnbuckle.errors import CannotAnswer, TurnbuckleError, UsageError, clipped, did_you_mean
from turnbuckle.study.settings import Scalar, Setting, known, settings_of

Made = TypeVar("Made")
_MACHINE: Final = {"file": True}
#: Things made of one recording that a worker keeps.
_KEPT: Final = 6
_FILES: Final = (".toml", ".csv", ".txt")
#: Of a replay of several runs, on a small machine.
_MOST_PROCESSES: Final = 20_000_000


class Held:
    """The recording a worker has at hand; what was made of it is kept with it, as long as it is asked for.

    Attributes
    ----------
    reading_seconds : what reading it took [s].
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reading_seconds = 0.0
        self._profile: Any = None
        self._made: dict[object, Any] = {}

    @property
    def profile(self) -> Any:
        """The recording as a profile, read when first asked for."""
        if self._profile is None:
            self._profile = _caught(self._read)
        return _given(self._profile)

    def given(self) -> Any:
        """The same, asked for as a function."""
        return self.profile

    def _read(self) -> Any:
        from turnbuckle.profile.profile import build
        from turnbuckle.trace.read import read

        began = time.perf_counter()
        try:
            return build(read(self.path))
        finally:
            self.reading_seconds += time.perf_counter() - began

    def seen(self, on: str = "") -> Any:
        """The recording inspected, as run on a machine; recognised where none is named."""
        from turnbuckle.study.study import inspect_profile

        return self.once(("seen", on), lambda: inspect_profile(self.profile, source=on or None))

    def once(self, name: object, make: Callable[[], Made]) -> Made:
        """What `make` gives, made once for this recording; a refusal is kept as well.  Of many, those asked for last are kept."""
        made = self._made.pop(name) if name in self._made else _caught(make)
        self._made[name] = made
        if len(self._made) > _KEPT:
            del self._made[next(iter(self._made))]
        found: Made = _given(made)
        return found


def _caught(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except TurnbuckleError as error:
        return error


def _given(made: Any) -> Any:
    if isinstance(made, TurnbuckleError):
        raise made
    return made


@cache
def _version() -> str:
    """Looked up once: it reads a file, and every point asks."""
    return version("turnbuckle")


@dataclass(frozen=True)
class Kind:
    """One kind of question.

    Attributes
    ----------
    name : as in a study file.
    settings : frozen dataclass whose fields are the settings; its own checks may refuse values.
    evaluate : (recording at hand, settings) -> results by name: numbers, texts, truth values or None.
    more : settings beyond the fields: they reach the field `others` as pairs of name and value.
    inputs : what stands in a point's key for settings that name files: by setting, what the file holds and not where it is.
    release : of what answers, Turnbuckle's own where empty: answers of another release are not used again.
    """

    name: str
    settings: type
    evaluate: Callable[[Held, Any], Mapping[str, Any]]
    more: Callable[[], Mapping[str, Setting]] = dict
    inputs: Callable[[Any], Mapping[str, Any]] = lambda _: {}
    release: str = ""

    @property
    def legal(self) -> dict[str, Setting]:
        """Every setting by name."""
        return {**settings_of(self.settings), **self.more()}

    @property
    def released(self) -> str:
        """The release that answers."""
        return self.release or _version()

    def made(self, values: Mapping[str, Scalar], folder: Path) -> Any:
        """The settings of one point.

        Parameters
        ----------
        values : by name; what is not named keeps its default.
        folder : files are relative to it.

        Raises
        ------
        UsageError : A081 a name that is not known or one that is needed; and what the dataclass itself refuses.
        """
        legal = self.legal
        own = settings_of(self.settings)
        given: dict[str, Any] = {}
        others: list[tuple[str, Scalar]] = []
        for name, value in values.items():
            setting = known(name, legal, f"model {self.name}")
            if setting.file and isinstance(value, str) and ("/" in value or Path(value).suffix.lower() in _FILES):
                value = str(folder / value)
            if name in own:
                given[name] = value
            else:
                others.append((name, value))
        if missing := [s.name for s in own.values() if s.needed and s.name not in given]:
            raise UsageError("A081", f"model {self.name} needs {missing[0]}", fix=f"give {missing[0]} in settings, axes or pairs")
        return self.settings(**given, **({"others": tuple(others)} if others else {}))

    def identity(self, made: Any) -> Any:
        """What makes an answer, besides the recording: settings with defaults, other files, release."""
        files = self.inputs(made)
        settings = {f.name: getattr(made, f.name) for f in fields(made) if f.name not in files}
        return {"model": self.name, "release": self.released, "settings": settings, "files": files}


def scalars(found: Mapping[str, Any]) -> dict[str, Any]:
    """Results as a table can hold them: what is no number (nan) or has no bound becomes None, NumPy's numbers become Python's."""
    out: dict[str, Any] = {}
    for name, value in found.items():
        plain = value.item() if hasattr(value, "item") else value
        if isinstance(plain, float) and not math.isfinite(plain):
            plain = None
        if plain is None or isinstance(plain, str | int | float | bool):
            out[name] = plain
    return out


def hashed(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- on another machine -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Projected:
    """A recording on another machine.

    Attributes
    ----------
    to : machine, a name or a TOML file; ``self`` is the machine it ran on.
    on : machine it ran on; recognised if left out.
    alpha : how much faster kernels run: a number, flop, memory or hold.
    replay : how activities add up.
    draws : parameter draws for the interval; 0 leaves it out.
    seed : of the draws.
    others : parameters of the target machine, by name, as ``link.h2d.bandwidth``, in place of its own.
    """

    to: str = field(metadata=_MACHINE)
    on: str = field(default="", metadata=_MACHINE)
    alpha: float | Literal["flop", "memory", "hold"] = "flop"
    replay: Literal["auto", "sum", "timeline"] = "auto"
    draws: int = 200
    seed: int = 20261121
    others: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.alpha, str) and not 1e-3 <= self.alpha <= 1e3:
            raise UsageError("A081", "no value for alpha", found=f"{self.alpha:g}", fix="a speed-up between 0.001 and 1000")
        if not 0 <= self.draws <= 100_000:
            raise UsageError("A081", "no value for draws", found=str(self.draws), fix="0 to 100000")
        for name, value in self.others:
            if not 0 <= value < math.inf or (value == 0 and not name.startswith("slack.")):
                raise UsageError("A081", f"no value for {name}", found=f"{value:g}", fix="a number above 0")


@cache
def _parameters() -> Mapping[str, Setting]:
    """Parameters of machines that a target may be given, as settings."""
    from turnbuckle.machine import schema

    rows = schema().values()
    target = [m for m in rows if not m.parameter.startswith("observed.")]
    return {m.parameter: Setting(m.parameter, m.unit, frozenset({"float"}), meaning=f"of the target: {m.meaning}") for m in target}


def _machines(made: Any) -> Mapping[str, Any]:
    """Name and hash of the machines a question names, and of what they are based on."""
    from turnbuckle.machine import load

    names = {name: value for name in ("to", "on") if (value := getattr(made, name, "")) not in ("", "self")}
    return {name: [m.name, m.sha256, [digest for _, digest in m.lineage]] for name, m in ((n, load(v)) for n, v in names.items())}


def _projected(held: Held, asked: Projected) -> Mapping[str, Any]:
    from dataclasses import replace

    from turnbuckle.machine import Pair, Parameter, load, schema
    from turnbuckle.model import nething
    from turnbuckle.order import prepared
    from turnbuckle.project import answered, require_calls
    from turnbuckle.study.uncertainty import uncertain, with_interval

    seen = held.seen(asked.on)
    target = seen.source if asked.to == "self" else load(asked.to)
    given = {n: Parameter(v, 0.0, schema()[n].unit, "assumption", "set by the study") for n, v in asked.others}
    if given:
        target = target.with_parameters(given)
    how = (asked.alpha, asked.replay)
    model = replace(nething(asked.alpha), replay=asked.replay)
    ready = held.once(("prepared", *how), lambda: prepared(seen.profile, model))
    pair = Pair(seen.source, target)
    if target is not seen.source:
        require_calls(seen.profile)
    found = answered(seen.profile, ready, pair, model)
    if asked.draws:
        drawn = ("drawn", *how, asked.on, asked.draws, asked.seed)
        question = held.once(drawn, lambda: uncertain(ready, seen.source, seen.fits, asked.draws, asked.seed))
        found = with_interval(found, question, target, pair, model, drivers=False)
    interval = found.interval
    return {
        "seconds": found.seconds,
        "low_seconds": interval.low if interval else None,
        "high_seconds": interval.high if interval else None,
        "measured_seconds": found.measured_seconds,
        "penalty": found.penalty,
        **{f"{part}_seconds": value for part, value in found.breakdown.items()},
        "replayed": found.replay,
        "findings": " ".join(sorted({f.code for f in found.findings})),
    }


# --- farther away -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Distant:
    """A recording with its device farther away.

    Attributes
    ----------
    slack_seconds : added one-way latency [s].
    mode : link, the fabric is longer; api, every crossing call blocks.
    on : machine it ran on; recognised if left out.
    """

    slack_seconds: float
    mode: Literal["link", "api"] = "link"
    on: str = field(default="", metadata=_MACHINE)

    def __post_init__(self) -> None:
        from turnbuckle.study.slack import FARTHEST

        if not 0 <= self.slack_seconds <= FARTHEST:
            raise UsageError("A081", "no value for slack_seconds", found=f"{self.slack_seconds:g} s", fix=f"0 to {FARTHEST:g} s")


def _distant(held: Held, asked: Distant) -> Mapping[str, Any]:
    from turnbuckle.study.slack import tolerate

    found = held.once((asked.on, asked.mode), lambda: tolerate(held.seen(asked.on), asked.mode, draws=0))
    return {
        "seconds": float(found.curve(asked.slack_seconds)),
        "penalty": found.penalty(asked.slack_seconds),
        "measured_seconds": found.measured,
        **{f"tolerance_{t.share * 100:.0f}_percent_seconds": t.slack for t in found.tolerances},
    }


# --- behind one link --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Together:
    """Several runs of a recording behind one host link, or one on a larger GPU.

    Attributes
    ----------
    runs : at once, or times as large.
    form : what is shared.
    bandwidth : of the link, one way [B/s]; the recorded one if left out.
    latency_seconds : initiation latency of copies and kernels [s]; as recorded if left out.
    hop_seconds : latency that a switch adds to each copy [s].
    on : machine it ran on; recognised if left out.
    """

    runs: int
    form: Literal["loose", "tight", "pooled"] = "loose"
    bandwidth: float | None = None
    latency_seconds: float | None = None
    hop_seconds: float = 0.0
    on: str = field(default="", metadata=_MACHINE)

    def __post_init__(self) -> None:
        from turnbuckle.study import sharing

        sharing.counted([self.runs])
        sharing.delay(self.hop_seconds)
        if self.bandwidth is not None:
            sharing.link_rate(self.bandwidth)
        if self.latency_seconds is not None:
            sharing.delay(self.latency_seconds)


def _together(held: Held, asked: Together) -> Mapping[str, Any]:
    from turnbuckle.study import sharing

    run = held.once(("sharing", asked.on), lambda: sharing.ready(held.seen(asked.on)))
    sharing.require_kernels(run, [asked.form])
    if (size := run.processes(asked.form, asked.runs)) > _MOST_PROCESSES:
        raise CannotAnswer("A166", "too many activities to replay at once", found=f"{size:,}", fix="fewer runs, or a shorter recording")
    found = run.together(asked.form, asked.runs, bandwidth=asked.bandwidth, latency=asked.latency_seconds, hop_seconds=asked.hop_seconds)
    return {**found.__dict__, "measured_seconds": run.measured, "recorded_bandwidth": run.recorded_bandwidth}


PROJECT: Final = Kind("project", Projected, _projected, _parameters, _machines)
SLACK: Final = Kind("slack", Distant, _distant, inputs=_machines)
SHARING: Final = Kind("sharing", Together, _together, inputs=_machines)


def kinds() -> dict[str, Kind]:
    """Every kind that a study file can name."""
    from turnbuckle.study.exchanged import MESSAGES

    return {k.name: k for k in (MESSAGES, PROJECT, SLACK, SHARING)}


def kind_named(name: object) -> Kind:
    """The kind of a name.  Raises A081."""
    every = kinds()
    if not isinstance(name, str) or name not in every:
        fix = did_you_mean(str(name), every) or f"one of {', '.join(every)}"
        raise UsageError("A081", "no model of a sweep", found=clipped(str(name), 40), fix=fix)
    return every[name]
