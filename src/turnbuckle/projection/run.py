"""A run, read once; and what it would be on other machines.

A `Run` is a recording with what is made of it once: its profile, the machine it ran on as observed,
and its activities in order. Questions are its methods, and each has an answer of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

import polars as pl

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.foundation.units import show
from turnbuckle.machine import Machine, Pair, load
from turnbuckle.machine.fabric import Pcie, ended_locally
from turnbuckle.profile.messages.exchange_numbers import exchange_numbers
from turnbuckle.profile.profile import Profile, build
from turnbuckle.profile.source import observed_machine
from turnbuckle.profile.summary.describe import untold
from turnbuckle.profile.summary.placement import nic_shares
from turnbuckle.profile.summary.start_up import StartUp, start_up, steady_ns
from turnbuckle.profile.transfers import LinkFit
from turnbuckle.projection.admission import (
    DEVICE_ACTIVITY,
    answers,
    default_targets,
    require_calls,
    require_no_other,
)
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.clean import cleaned
from turnbuckle.projection.elsewhere.foreign import failed_packages
from turnbuckle.projection.elsewhere.network import Between, OnNetwork, on_other
from turnbuckle.projection.model import Model, nething, with_kernels
from turnbuckle.projection.order import Prepared, on_network, prepared
from turnbuckle.projection.uncertainty import DRAWS, SEED, project_many
from turnbuckle.trace.read import read, recordings_in
from turnbuckle.trace.secrets import look
from turnbuckle.trace.trace import Trace
from turnbuckle.trace.window import Part, cut

if TYPE_CHECKING:
    from turnbuckle.mpi.questions.messages.question import Answered as Messages
    from turnbuckle.mpi.questions.messages.setup import Setup
    from turnbuckle.questions.anonymise.copy import Anonymised
    from turnbuckle.questions.before_after.diff import Diff
    from turnbuckle.questions.distance.distance import Mode
    from turnbuckle.questions.distance.question import Slack
    from turnbuckle.questions.distance.speeds import Surface, Sweep
    from turnbuckle.questions.inspect.first import First
    from turnbuckle.questions.inspect.question import Summary
    from turnbuckle.questions.sharing.pairs import Beside
    from turnbuckle.questions.sharing.question import Form, Sharing
    from turnbuckle.questions.sharing.surface import SharingSurface
    from turnbuckle.questions.transfers.datasheet import Study as Transfers
    from turnbuckle.questions.whatif.question import Whatif

#: Values that cannot be: told of the whole recording, also where they lie in the start-up.
SET_ASIDE = ("P240", "P241", "P242")
#: The target of the additive model: the lambdas say all there is.
LAMBDA = Machine(
    name="lambda",
    title="each class of time divided by its lambda",
    summary="",
    year=0,
    coupling="relative",
    base="source",
)


@dataclass(frozen=True, eq=False, repr=False)
class Run(Shown):
    """A recorded run.

    Attributes
    ----------
    profile : the recording as activities in an order.
    source : the machine it ran on, as far as it is known.
    fits : the links, fitted to its copies, by direction and host memory.
    source_findings : what could not be recognised or fitted.
    command : the command line that reads it; file names without folders.
    stated : the machine that the user says it ran on; None recognises it.
    auto : whether questions leave out a start-up of more than a tenth; False where the part that
        they are about was named.
    whole : the run that this is the part without start-up of; None for every other.
    nic_bound : share of the bytes by direction that go on to the network card (`minus`); empty
        where nothing tells.
    """

    question: ClassVar[str] = "inspect"

    profile: Profile
    source: Machine
    fits: Mapping[tuple[str, str], LinkFit]
    source_findings: list[Finding] = field(default_factory=list)
    command: str = ""
    stated: Machine | None = None
    auto: bool = False
    whole: Run | None = None
    nic_bound: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        source: str | Machine | None = None,
        use_cache: bool = True,
        progress: Callable[[float], None] | None = None,
        command: str = "",
        part: Part | str | None = None,
        clean_seconds: float | None = None,
    ) -> Run:
        """Read one recording.

        Parameters
        ----------
        path : the recording.
        source : the machine it ran on, or its name or file; None recognises it.
        use_cache : keep and use the cached copy of a large recording.
        progress : called with the share read so far.
        command : the command line that asks, for the provenance of answers.
        part : what is asked about, as ``--part`` names it (``whole``, ``steady``, ``2s..3s``,
            ``step=5-9``) or a `Part`; None is the whole recording, whose questions are about
            `judged`.
        clean_seconds : run time of the same stretch without profiler, to which the recording is
            shortened [s] (`projection.clean`).

        Raises
        ------
        ProfileError : the recording cannot be read.
        UsageError, CannotAnswer : the part is not in it, or cannot be shortened so.
        MachineError : the source is unknown or relative.
        """
        trace = read(path, use_cache=use_cache, progress=progress)
        files = recordings_in(Path(path)) or [Path(path)]
        carried = [flaw for file in files for flaw in look(file, texts=False).findings()]
        trace = replace(trace, findings=[*trace.findings, *carried])
        return cls.of_trace(
            trace, part, source=source, command=command, clean_seconds=clean_seconds
        )

    @classmethod
    def of_trace(
        cls,
        trace: Trace,
        part: Part | str | None = None,
        *,
        source: str | Machine | None = None,
        command: str = "",
        clean_seconds: float | None = None,
    ) -> Run:
        """Make a run of a recording that was read already; everything else as in `read`."""
        chosen = Part.parse(part) if isinstance(part, str) else part
        chosen = Part() if chosen is None else chosen
        if chosen == Part(of="steady", rank=chosen.rank):
            whole = cls.of_trace(trace, replace(chosen, of="whole"), source=source, command=command)
            return whole.without_start_up(clean_seconds)
        profile = build(part_of(trace, chosen))
        if clean_seconds is not None:
            profile = cleaned(profile, clean_seconds)
        run = cls.of(profile, source=source, command=command)
        return replace(run, auto=chosen == Part(rank=chosen.rank))

    @classmethod
    def of(cls, profile: Profile, *, source: str | Machine | None = None, command: str = "") -> Run:
        """Make a run of a profile in memory; `source` as in `read`."""
        named = load(source) if source else None
        if named is not None and named.relative:
            Pair(named, named)  # says why a relative machine cannot be a source
        machine, fits, findings = observed_machine(profile, named)
        return cls(profile, machine, fits, findings, command, named)

    def without_start_up(self, clean_seconds: float | None = None) -> Run:
        """Return the part after the start-up, on the machine that the whole recording shows.

        Raises
        ------
        UsageError : A421, the recording does not show the end of its start-up.  CannotAnswer,
            UsageError : as `read` of a part.
        """
        profile = build(part_of(self.trace, "steady"))
        if clean_seconds is not None:
            profile = cleaned(profile, clean_seconds)
        return replace(self, profile=profile, whole=self, auto=False)

    def minus(self, packed: Run) -> Run:
        """Return the run with what it copies beyond `packed`, the same program on one node, bound
        for the network card.

        Raises
        ------
        CannotAnswer : A110, one of the two has no copies between host and device.
        """
        run, other = self.judged, packed.judged
        return replace(run, nic_bound=nic_shares(run.profile, other.profile))

    @cached_property
    def start_up(self) -> StartUp | None:
        """Recognise the start-up; None where the recording does not show its end, and of a stretch
        of a run.
        """
        return start_up(self.profile)

    @cached_property
    def steady(self) -> Run | None:
        """Return the run without its start-up, as `read` does with ``part="steady"``; None where
        that is a tenth of the run or less.

        A run that is shortened to its time without profiler has none: the time left belongs to the
        whole.
        """
        started = self.start_up
        if started is None or not started.tells or "clean_ns" in self.trace.facts.get("part", {}):
            return None
        return None if started.end_ns >= self.profile.last_ns else self.without_start_up()

    @cached_property
    def judged(self) -> Run:
        """Return the part that questions are about: without a start-up of more than a tenth, unless
        a part was named.

        It is the run itself where what is left has no work on a device, or not the calls behind it.
        """
        part = self.steady if self.auto else None
        return self if part is None or not answers(part.profile) else part

    @property
    def name(self) -> str:
        """Return the name of the recording."""
        return self.trace.name

    @property
    def trace(self) -> Trace:
        """Return the tables of the recording."""
        return self.profile.trace

    @property
    def seconds(self) -> float:
        """Return the recorded run time [s]."""
        return self.profile.seconds

    @property
    def findings(self) -> list[Finding]:
        """Return the flaws of the recording, of the source machine and of installed packages that
        were to help.
        """
        return merge(
            [
                *self.profile.findings,
                *self.source_findings,
                *self._unfit,
                *self.left_out,
                *failed_packages(),
            ]
        )

    @cached_property
    def _unfit(self) -> list[Finding]:
        """Return what makes the recording unfit for an answer about a longer run."""
        begun = (self.whole or self).start_up
        return (
            [
                finding(
                    "P220", 1, f"{begun.share:.1%} of its time, {begun.call_share:.1%} of its calls"
                )
            ]
            if begun and begun.is_all
            else []
        )

    @property
    def left_out(self) -> list[Finding]:
        """Return what an answer about a run of a long start-up is about."""
        if self.whole is not None:
            words = f"{show(self.seconds, 's')} of {show(self.whole.seconds, 's')}"
            own = {f.code for f in self.profile.findings}
            impossible = [
                f for f in self.whole.profile.findings if f.code in SET_ASIDE and f.code not in own
            ]
            return [finding("A560", 1, words), *impossible]
        if self.auto and self.steady is not None and self.judged is self:
            return [
                finding(
                    "A561",
                    1,
                    f"{show(self.steady.seconds, 's')} of {show(self.seconds, 's')} are left",
                )
            ]
        return []

    @property
    def on_device(self) -> bool:
        """Return whether the recording holds GPU activity."""
        return bool(self.profile.has & DEVICE_ACTIVITY)

    @property
    def projectable(self) -> bool:
        """Return whether it also holds the host calls behind it, so that another coupling could
        change anything that was recorded.
        """
        return self.on_device and self.trace.api.height > 0

    @property
    def untold(self) -> frozenset[str]:
        """Return categories of the time line that were not recorded; their time is missing, not
        zero.
        """
        return untold(self.profile)

    @cached_property
    def ordered(self) -> Prepared:
        """Compile the graph of activities once, at first use, and score how far its order can be
        trusted.
        """
        ready = prepared(self.profile, replace(nething("hold"), replay="timeline"))
        return replace(ready, nic_bound=self.nic_bound)

    @cached_property
    def between(self) -> Between:
        """Find what goes between its ranks, once."""
        return Between.of(self.profile)

    def prepared(self, model: Model) -> Prepared:
        """Prepare the run for a model's replay; ``auto`` takes the sum where the order cannot be
        trusted.
        """
        if model.kernels is not None or (model.replay == "sum" and "ordered" not in self.__dict__):
            ready = prepared(self.profile, model)  # pieces of its own, or no graph
            return replace(ready, nic_bound=self.nic_bound)
        return self.ordered.to(model.replay)

    def summary(self) -> Summary:
        """Summarise the recording: ``turnbuckle inspect``."""
        answer: Summary = registry.load("asks", "inspect")(self)
        return answer

    def first(self) -> First:
        """Say what holds the run up, what distance does to it, and what to change first:
        ``turnbuckle FILE``.
        """
        answer: First = registry.load("asks", "first")(self)
        return answer

    #: Each question has the name of its verb as well.
    inspect = summary

    def project(
        self,
        on: Sequence[str | Machine] | str | Machine | None = None,
        *,
        model: Model | None = None,
        draws: int | None = None,
        seed: int = SEED,
        minus: Run | None = None,
        network: OnNetwork | str | None = None,
        pcie: Pcie = "whole",
    ) -> Answer:
        """Project the run on machines: ``turnbuckle project``.

        Parameters
        ----------
        on : machines, or their names or files; ``"self"`` is the source; None asks
            `admission.default_targets`.
        model : None is `nething` with kernels by the machines' double precision rates, replayed as
            ``auto``.
        draws : parameter draws for the interval; 0 leaves it out; None is 1000, or fewer for a
            timeline of millions of activities.
        seed : of the draws.
        minus : the same program with all ranks on one node: what this run copies beyond it goes on
            to the network card, and keeps its rate.
        network : the network that messages between ranks are replayed on, by name or file, or with
            settings; None keeps their time. With it, `on` left out asks the source machine alone.
        pcie : whether fabrics carry PCIe from end to end (``"whole"``) or end it at both sides
            (``"local"``); other links do neither.

        Raises
        ------
        CannotAnswer : A110, A121, A122, A158; with a network A164, A193.
        MachineError : a machine that is unknown.
        UsageError : A014, the additive model has no machine; with a network A050, A074, A081, A091,
            A092, A570.
        """
        if minus is not None or self.judged is not self:
            run = self.judged if minus is None else self.minus(minus)
            return run.project(on, model=model, draws=draws, seed=seed, network=network, pcie=pcie)
        model = model or replace(nething(), replay="auto")
        # before there is a graph: looking for a start-up takes memory for a while
        unfit = self._unfit
        asked = [on] if isinstance(on, str | Machine) else on
        if asked is None and network is not None:
            asked = ["self"]
        if model.machine_free:
            if asked is not None and set(asked) != {"self"}:
                names = ", ".join(m if isinstance(m, str) else m.name for m in asked)
                raise error_of("A014", found=f"--on {names}")
            targets: tuple[Machine, ...] = (LAMBDA,) if asked is None else (self.source,)
        else:
            targets = tuple(
                self.source if m == "self" else load(m)
                for m in (default_targets(self.source) if asked is None else asked)
            )
        if pcie == "local":
            targets = tuple(t if t is self.source else ended_locally(t) for t in targets)
        if not model.machine_free and all(target is self.source for target in targets):
            require_no_other(model)
        if any(target is not self.source for target in targets):
            require_calls(self.profile)
        if model.kernels is not None:
            model = with_kernels(model, model.kernels.on(self.trace, self.source, targets))
        ready = self.prepared(model)
        carried_by = on_other(network)
        if carried_by is not None:
            ready = on_network(self.between, ready, carried_by)
        projections = project_many(
            self.profile, self.source, targets, model, self.fits, draws, seed, ready
        )
        if doubts := [*unfit, *(model.kernels.findings if model.kernels is not None else ())]:
            projections = [
                p if p.target == "self" else replace(p, findings=[*p.findings, *doubts])
                for p in projections
            ]
        drawn = max((p.interval.draws for p in projections if p.interval), default=draws or 0)
        return Answer(self, model, targets, projections, seed, drawn, carried_by)

    @overload
    def distance(
        self,
        mode: Mode = "link",
        over: Literal["latency"] = "latency",
        *,
        draws: int | None = ...,
        seed: int = ...,
        classes: Sequence[str] = ...,
        repeats: Sequence[float] = ...,
        machine: Machine | str | None = ...,
        network: OnNetwork | str | None = ...,
        pcie: Pcie = ...,
    ) -> Slack: ...
    @overload
    def distance(
        self,
        mode: Mode = "link",
        over: Literal["bandwidth", "copies", "launch", "kernel", "cpu", "communication"] = ...,
        *,
        network: OnNetwork | str | None = ...,
    ) -> Sweep: ...
    @overload
    def distance(self, mode: Mode = "link", over: Literal["both"] = ...) -> Surface: ...
    def distance(
        self,
        mode: Mode = "link",
        over: str = "latency",
        *,
        draws: int | None = None,
        seed: int = SEED,
        classes: Sequence[str] = (),
        repeats: Sequence[float] = (),
        machine: Machine | str | None = None,
        network: OnNetwork | str | None = None,
        pcie: Pcie = "whole",
    ) -> Slack | Sweep | Surface:
        """Say how much distance the run tolerates: ``turnbuckle slack``.

        Parameters
        ----------
        mode : ``"link"``: the fabric is longer; ``"api"``: every call that crosses to the device
            blocks; ``"remoting"``: calls go through the layer of a machine; ``"network"``: every
            message between nodes takes longer.
        over : ``"latency"``, another kind of speed (of ``"network"`` its bandwidth), or latency and
            bandwidth at once (``"both"``).
        draws, seed : parameter draws for the interval of each tolerance; 0 leaves it out, None is
            as many as in `project`.
        classes : ``"api"`` only: delay only calls of these classes; empty delays every call that
            crosses to the device.
        repeats : run times of other runs of this program over the same stretch [s]; empty leaves
            out the intervals of run times.
        machine : ``"remoting"`` only: the machine whose layer it is, or its name or file; its round
            trip is what varies.
        network : the network that messages are replayed on, as in `project`; with ``"network"``
            left out, the recording's own.
        pcie : ``"link"`` only: whether the fabric carries PCIe from end to end (``"whole"``) or
            ends it at both sides (``"local"``).

        Raises
        ------
        CannotAnswer : A121, A122; with a network A164, A193, A195.
        UsageError : A004, A015, A427.
        """
        given = {
            "draws": draws,
            "classes": tuple(classes),
            "repeats": tuple(repeats),
            "machine": machine,
            "network": network,
        }
        settings = {
            name: value for name, value in given.items() if value is not None and value != ()
        }
        settings |= {"pcie": pcie} if pcie != "whole" else {}
        settings |= {"seed": seed} if seed != SEED else {}
        answer: Slack | Sweep | Surface = registry.load("asks", "distance")(
            self, mode, over, **settings
        )
        return answer

    slack = distance

    @overload
    def sharing(
        self,
        runs: Sequence[int] = ...,
        forms: Sequence[Form] = ...,
        *,
        over: Literal["runs"] = ...,
        **settings: Any,
    ) -> Sharing: ...
    @overload
    def sharing(
        self,
        runs: Sequence[int] = ...,
        forms: Sequence[Form] = ...,
        *,
        over: Literal["both"],
        **settings: Any,
    ) -> SharingSurface: ...
    def sharing(
        self,
        runs: Sequence[int] = (1, 2, 4, 8),
        forms: Sequence[Form] = ("loose",),
        *,
        over: str = "runs",
        **settings: Any,
    ) -> Sharing | SharingSurface:
        """Replay the run several times over at once: ``turnbuckle model sharing``.

        Parameters
        ----------
        runs : how many runs at once; each number is replayed.
        forms : ``"loose"``: all runs behind one link, each with a GPU of its own; ``"tight"``: one
            run on one GPU that is as many times larger; ``"pooled"``: all runs on that larger GPU;
            ``"shared"``: all runs on one GPU as recorded.
        over : ``"runs"``; ``"both"``: at every latency and bandwidth of a grid besides
            (``--surface``).
        settings : as `questions.sharing.question.sharing`, or
            `questions.sharing.surface.sharing_surface`, has them.

        Raises
        ------
        CannotAnswer : A121, A122, A165, A166, A172, A173.
        UsageError : A075, A096, A097.
        """
        question = "sharing surface" if over == "both" else "sharing"
        answer: Sharing | SharingSurface = registry.load("asks", question)(
            self, runs, forms, **settings
        )
        return answer

    def beside(self, other: Run, form: Form = "shared", **settings: Any) -> Beside:
        """Replay the run and another at once: ``turnbuckle model sharing --beside``.  Settings:
        `questions.sharing.pairs.pair`.
        """
        answer: Beside = registry.load("asks", "beside")(self, other, form, **settings)
        return answer

    def whatif(
        self,
        on: Sequence[str | Machine] | str | Machine = (),
        apply: Sequence[str] = (),
        **settings: Any,
    ) -> Whatif:
        """Rank changes to the program by what they save: ``turnbuckle whatif``.  Settings:
        `questions.whatif.question.of_run`.
        """
        answer: Whatif = registry.load("asks", "whatif")(self, on, apply, **settings)
        return answer

    def transfers(
        self, on: Sequence[str | Machine] | str | Machine | None = None, **settings: Any
    ) -> Transfers:
        """Price every copy on data sheets of other nodes: ``turnbuckle transfers``.  Settings:
        `questions.transfers.datasheet.of_run`.
        """
        answer: Transfers = registry.load("asks", "transfers")(
            self, **({} if on is None else {"on": on}), **settings
        )
        return answer

    def messages(
        self, ranks_per_node: Sequence[int] = (1, 2, 4), setup: Setup | None = None
    ) -> Messages:
        """Replay its MPI messages through host memory and by GPUDirect: ``turnbuckle model
        messages``.
        """
        answer: Messages = registry.load("asks", "messages")(self, ranks_per_node, setup)
        return answer

    def diff(self, after: Run) -> Diff:
        """Say what changed in another recording of this program: ``turnbuckle diff``."""
        answer: Diff = registry.load("asks", "diff")(self, after)
        return answer

    def export(
        self,
        path: str | Path,
        on: str | Machine | None = None,
        model: Model | None = None,
        **more: Any,
    ) -> Path:
        """Write the run for a trace viewer or a simulator, and return the path: ``turnbuckle
        export``.

        Parameters
        ----------
        path, on : the file, compressed where it ends in ``.gz``; for ``otf2`` a folder.  The target
            by name or object, None as recorded.
        model : the price list, `nething` where it is None.
        more : ``to``: the form, as ``export --to`` names it; ``network`` as in `project`;
            ``apply``: names of edits (`whatif`) to make.

        Raises
        ------
        UsageError : A440, A450, A480 to A483, A500.  CannotAnswer : A121, A122; with a network
            A164, A193.  ReportError : R001 to R003.
        """
        target = None if on is None else self.source if on == "self" else load(on)
        written: Path = registry.load("asks", "export")(self, path, target, model, **more)
        return written

    def anonymise(
        self, folder: str | Path, key: bytes | None = None, keep: str | None = None
    ) -> Anonymised:
        """Write a copy without names, ids, dates and places: ``turnbuckle anonymise``.

        Parameters
        ----------
        folder : new or empty; `read` takes it.
        key : of the hashes; the same key makes the same hashes, None a random one.
        keep : kernels whose names match this regular expression keep them.

        Returns
        -------
        What was kept, hashed and dropped, one row of `table` each.  Names of the original are not
        in it.

        Raises
        ------
        UsageError : A402.
        ReportError : R005.
        """
        treated: Anonymised = registry.load("asks", "anonymise")(self, folder, key, keep)
        return treated

    def provenance(
        self,
        model: Model | None = None,
        targets: Sequence[Machine] = (),
        seed: int = SEED,
        draws: int = DRAWS,
    ) -> dict[str, Any]:
        """Return what is needed to repeat an answer: versions, hashes, machines, model, seed,
        command.
        """
        facts = self.trace.facts
        return {
            "tool": "turnbuckle",
            "version": version("turnbuckle"),
            "profile": {
                "file": self.trace.name,
                "sha256": facts.get("sha256"),
                "size_bytes": facts.get("size_bytes"),
                "format": facts.get("format"),
                "profiler_version": facts.get("product_version"),
                "schema_version": facts.get("schema_version"),
                "recorded_utc_ns": facts.get("session_start_utc_ns"),
                "part": facts.get("part"),
            },
            "source_machine": {"name": self.source.name, "sha256": self.source.sha256},
            "targets": [{"name": m.name, "sha256": m.sha256} for m in targets],
            "model": None
            if model is None
            else {
                "name": model.name,
                "paper": model.paper,
                "alpha": model.alpha,
                "replay": model.replay,
            },
            "seed": seed,
            "draws": draws,
            "command": self.command,
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON contract of ``inspect``."""
        return self.summary().as_dict()

    def table(self) -> pl.DataFrame:
        """Return where its time goes, as `Summary.table`."""
        return self.summary().table()

    def headline(self) -> str:
        """Return the run in one line."""
        counts = (
            f"{self.trace.kernels.height:,} kernels, {self.trace.copies.height:,} copies, "
            f"{self.trace.api.height:,} host calls"
        )
        flaws = len(self.findings)
        return (
            f"Run {self.trace.name}: {show(self.seconds, 's')} on {self.source.title}; {counts}; "
            f"{flaws} finding{'s' * (flaws != 1)}"
        )


def part_of(trace: Trace, part: Part | str | None) -> Trace:
    """Return a part of a recording, as `turnbuckle.trace.window.cut` does, by its name or as a
    `Part`.
    """
    chosen = Part.parse(part) if isinstance(part, str) else part
    return cut(trace, chosen, exchange_numbers, steady_ns) if chosen else trace
