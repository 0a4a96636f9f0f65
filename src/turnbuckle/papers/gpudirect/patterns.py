"""Applications of *Predicting GPUDirect Benefits for HPC Workloads* as declared patterns, compared
with the paper's printed ranges.

The traces of the paper are not published.  The pattern of each application follows from the text:
partners, sizes, share of time. Unprinted properties are assumptions, and each is changed alone to
see its effect.  No parameter is fitted to an answer: compute time follows from the printed share of
communication, and the rest is the machine of the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np

from turnbuckle.foundation.errors import clipped, did_you_mean, error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION, Declared
from turnbuckle.foundation.units import parse
from turnbuckle.mpi.questions.messages.question import shapes
from turnbuckle.mpi.questions.messages.setup import Setup, checked, network_of
from turnbuckle.mpi.questions.patterns.question import Gain, gains, waited, with_share
from turnbuckle.mpi.replay.patterns import (
    LABEL,
    Pattern,
    balanced,
    neighbours,
    spread_sizes,
    traffic_of,
)
from turnbuckle.papers.numbers import Interval, Paper, exact, printed

Verdict = Literal["inside", "overlaps", "outside", "no such share"]
Spanned = Literal["wholly", "in part", "not at all"]
Band = tuple[float, float, float]
Ends = tuple[Interval, Interval]

PAPER, MORE = Paper("gpudirect/numbers"), Paper("gpudirect/patterns")
NAMES: Final = ("AmgX", "LULESH", "Minisweep", "SW4lite")
#: Node shapes of the paper, one GPU a rank.
SHAPES: Final = (1, 2, 4, 6)
_INCREASE: Final = "communication increase of 6 ranks a node"
#: Messages to a neighbour: as few as give every band of sizes its share to within a hundredth of
#: all, and no more than this.
_MOST_MESSAGES: Final = 25
#: What the paper does not print, and holds in every pattern here.
ASSUMED: Final = (
    (
        "ranks stand on the most nearly square plane, or cube in space, and on the nodes in "
        "their order"
    ),
    (
        "every rank sends each size to every neighbour in turn, the bands alternating; shares "
        "that do not add up to 100 % are scaled"
    ),
    (
        "sizes lie in the logarithmic middle of their band; a band without a printed end goes to "
        "twice its beginning; 1 KB is 1,024 B"
    ),
    (
        "compute is what makes the printed share of communication at 4 ranks a node; for numbers "
        "of ranks without one, their mean"
    ),
    "AmgX sums 8 B over all ranks after each exchange; the others have no collectives",
    "a copy keeps its rank busy, and pins of several messages pass at the same time",
    "latency of a link, overhead of a message and the eager limit; two levels of switches",
)
#: A band without a printed end goes to this multiple of its beginning.
_OPEN_END: Final = 2.0


@dataclass(frozen=True)
class Application:
    """Properties of an application that the paper prints."""

    name: str
    ranks: tuple[int, ...]
    partners: tuple[int, int]  #: fewest and most partners that a rank sends to
    #: (share of the messages, smallest size, largest size) of each band of sizes [B]; shares are
    #: empty where none are printed
    bands: tuple[Band, ...]
    shares: dict[int, float]
    gain: Ends  #: least and most gain of GPUDirect in communication, weak scaling [1]
    #: least and most increase of communication from 1 to 6 ranks per node, by ranks [1]
    increases: dict[int, Ends]
    small_payload: float  #: share of the bytes in messages below 32 KB, nan where none is printed

    def share(self, ranks: int) -> float:
        """Return the share of communication: as printed, or the mean of those printed for other
        numbers of ranks.
        """
        return self.shares.get(ranks, float(np.mean(list(self.shares.values()))))

    @property
    def printed_gain(self) -> list[float]:
        """Return the least and most gain of GPUDirect in the digits of the paper [1]."""
        return [end.value for end in self.gain]

    @property
    def printed_increases(self) -> dict[int, list[float]]:
        """Return the least and most increase of communication in the digits of the paper, by ranks
        [1].
        """
        return {ranks: [end.value for end in ends] for ranks, ends in self.increases.items()}


def application(name: str) -> Application:
    """Return one of `NAMES`, in any case.  Raises A093 for another name."""
    names = {n.lower(): n for n in NAMES}
    if name.lower() not in names:
        fix = did_you_mean(name.lower(), names) or ", ".join(NAMES)
        raise error_of("A093.setup", found=clipped(name), fix=fix)
    name = names[name.lower()]
    text = {(s.quantity, s.place): s for s in (*PAPER.all, *MORE.all) if s.subject == name}

    def size(quantity: str, place: str) -> float | None:
        row = text.get((quantity, place))
        return None if row is None else _bytes(row.text, row.unit)

    bands = []
    for place in ("small", "middle", "large"):
        low = size("smallest size", place)
        if low is not None:
            share = text.get(("share of messages", place))
            bands.append(
                (
                    float(share.text) / 100 if share else float("nan"),
                    low,
                    size("largest size", place) or _OPEN_END * low,
                )
            )
    increases = {}
    for n in sorted(
        {place.split(",")[0] for quantity, place in text if quantity == _INCREASE}, key=int
    ):
        ends = [
            _percent(text[_INCREASE, place].text)
            for place in (f"{n}, lower", f"{n}, upper", n)
            if (_INCREASE, place) in text
        ]
        increases[int(n)] = (ends[0], ends[-1])
    small = text.get(("payload of messages below 32KB", ""))
    ranks = tuple(int(s.text) for s in MORE.all if (s.subject, s.quantity) == (name, "ranks"))
    partners = (int(text["partners", "fewest"].text), int(text["partners", "most"].text))
    shares = {
        int(n): float(s.text) / 100
        for (quantity, n), s in text.items()
        if quantity == "share of communication" and n.isdecimal()
    }
    least = float(small.text) / 100 if small else float("nan")
    return Application(name, ranks, partners, tuple(bands), shares, _gain(name), increases, least)


def _gain(name: str) -> Ends:
    if name == "LULESH":
        # "less than" bounds gain and loss alike
        most = float(PAPER.text(name, "gain below", "weak scaling")) / 100
        return exact(-most), exact(most)
    if name == "SW4lite":
        return _percent(MORE.text(name, "gain", "smallest")), _percent(
            PAPER.text(name, "largest gain", "weak scaling")
        )
    paper = PAPER if name == "AmgX" else MORE
    return _percent(paper.text(name, "gain", "smallest")), _percent(
        paper.text(name, "gain", "largest")
    )


def _percent(text: str) -> Interval:
    return printed(text).times(0.01)


# --- patterns and assumptions ---------------------------------------------------------------------


@dataclass(frozen=True)
class Assumption:
    """Property of a pattern that the paper does not print."""

    name: str
    change: Callable[[Pattern], Pattern] = lambda pattern: pattern
    waiting: float = 0.0  #: share of communication that is waiting for ranks that compute longer

    def pattern(self, app: Application, ranks: int, setup: Setup) -> Pattern:
        """Return the pattern of an application on so many ranks.

        Where ranks are spread over compute times c (1 -+ i), they wait k i c for the slower ones;
        communication is c s / (1 - s), so that waiting is its share w where i = w s / (1 - s) / k.
        """
        made = self.change(declared(app))
        if not self.waiting:
            return made
        share = app.share(ranks)
        return replace(
            made, imbalance=self.waiting * share / (1 - share) / waited(made, ranks, setup)
        )


def _sizes(app: Application, within: float = 0.5) -> tuple[float, ...]:
    bands = [(1.0 if np.isnan(share) else share, low, high) for share, low, high in app.bands]
    whole = sum(share for share, _, _ in bands)
    fits = (
        n
        for n in range(1, _MOST_MESSAGES)
        if all(abs(round(n * s / whole) / n - s / whole) <= 0.01 for s, _, _ in bands)
    )
    return spread_sizes(bands, next(fits, _MOST_MESSAGES), within)


def declared(app: Application) -> Pattern:
    """Return the first pattern: all printed properties, with the assumptions that `assumptions`
    changes.
    """
    sizes = _sizes(app)
    if app.name == "Minisweep":
        # a discrete-ordinates sweep crosses a plane of ranks from each of its corners
        return Pattern("sweep", 2, sizes, 16)
    partners = app.partners[0] == app.partners[1]
    return Pattern(
        "halo",
        2,
        sizes,
        max(len(sizes), 4),
        periodic=partners,
        sum_bytes=8.0 if app.name == "AmgX" else None,
    )


def assumptions(app: Application) -> list[Assumption]:
    """Return the assumptions, each changing one property; the first changes nothing."""
    if app.name == "Minisweep":
        four, eight = (low for _, low, _ in app.bands)
        space = Pattern("halo", 3, _sizes(app), 2, corners=True)
        return [
            Assumption("16 blocks a wave"),
            Assumption("8 blocks a wave", lambda p: replace(p, exchanges=8)),
            Assumption("32 blocks a wave", lambda p: replace(p, exchanges=32)),
            Assumption("all messages of 4 MB", lambda p: replace(p, sizes=(four,))),
            Assumption("all messages of 8 MB", lambda p: replace(p, sizes=(eight,))),
            Assumption(
                "ranks up to 10 % slower than the mean", lambda p: replace(p, imbalance=0.1)
            ),
            Assumption("no sweep: 26 neighbours in space", lambda _: space),
        ]
    out = [
        Assumption("a plane of ranks, all messages of an exchange at once"),
        Assumption("one direction after the other", lambda p: replace(p, order="one by one")),
        Assumption("half of communication is waiting", waiting=0.5),
        Assumption("nine tenths of communication are waiting", waiting=0.9),
    ]
    if app.name == "SW4lite":
        rows = [s for s in MORE.all if (s.subject, s.quantity) == ("SW4lite", "size elsewhere")]
        ends = tuple(_bytes(s.text, s.unit) for s in rows)
        return [
            *out,
            Assumption(
                "680 KB and 11.5 MB, as section III e has it", lambda p: replace(p, sizes=ends)
            ),
        ]
    out += [
        Assumption("smallest size of each band", lambda p: replace(p, sizes=_sizes(app, 0.0))),
        Assumption("largest size of each band", lambda p: replace(p, sizes=_sizes(app, 1.0))),
    ]
    if app.name == "AmgX":
        large = float(1 << 20)
        return [
            *out,
            Assumption("no allreduce", lambda p: replace(p, sum_bytes=None)),
            Assumption(
                "an allreduce of 1 MiB instead of 8 B", lambda p: replace(p, sum_bytes=large)
            ),
        ]
    return [
        *out,
        Assumption("26 neighbours in space", lambda p: replace(p, dimensions=3, corners=True)),
    ]


def _bytes(text: str, unit: str) -> float:
    """Return a size in the paper's units, which are taken as powers of two [B]."""
    return parse(f"{text} {unit.replace('KB', 'KiB').replace('MB', 'MiB')}", "B")


def partners(pattern: Pattern, ranks: int) -> tuple[int, int]:
    """Return the fewest and most partners that a rank of a pattern sends to."""
    to = neighbours(
        balanced(ranks, pattern.dimensions), periodic=pattern.periodic, corners=pattern.corners
    )
    count = [len({n for n in column if n >= 0}) for column in to.T.tolist()]
    return min(count), max(count)


def small_payload(pattern: Pattern) -> float:
    """Return the share of the bytes of a pattern in messages below 32 KB."""
    sizes = np.array(pattern.sizes)
    return float(sizes[sizes < 32 * 1024].sum() / sizes.sum())


# --- the comparison -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compared(Declared):
    """Printed range, and the replayed range under one assumption."""

    application: str
    assumption: str
    what: Literal["gain", "increase"]
    ranks: int
    printed_low: Interval
    printed_high: Interval
    found_low: float
    found_high: float

    @property
    def verdict(self) -> Verdict:
        """Return whether the replayed range lies inside the printed one, overlaps it, or lies
        outside.
        """
        if np.isnan(self.found_low):
            return "no such share"
        least, most = self.printed_low.low, self.printed_high.high
        if least <= self.found_low and self.found_high <= most:
            return "inside"
        return "overlaps" if self.found_low <= most and least <= self.found_high else "outside"

    @property
    def spanned(self) -> Spanned:
        """Return whether the replayed range covers the printed one wholly, in part, or not at
        all.
        """
        if np.isnan(self.found_low):
            return "not at all"
        if self.found_low <= self.printed_low.high and self.printed_high.low <= self.found_high:
            return "wholly"
        return "in part" if self.verdict != "outside" else "not at all"


@dataclass(frozen=True)
class Replayed:
    """Replays of one application under one assumption; `lacking` holds the ranks at which no
    compute gives the printed share.
    """

    application: Application
    assumption: str
    pattern: Pattern
    partners: tuple[int, int]
    gains: tuple[Gain, ...]
    compute_seconds: dict[int, float]
    lacking: tuple[int, ...]

    @property
    def small_payload(self) -> float:
        """Return `small_payload` of the pattern."""
        return small_payload(self.pattern)

    def compared(self) -> Iterator[Compared]:
        """Compare the replays with each printed range."""
        app = self.application
        gain = [g.gain for g in self.gains] or [float("nan")]
        yield Compared(app.name, self.assumption, "gain", 0, *app.gain, min(gain), max(gain))
        for ranks, (low, high) in app.increases.items():
            one_per_node, six_per_node = (
                next((g for g in self.gains if (g.ranks, g.ranks_per_node) == (ranks, n)), None)
                for n in (1, 6)
            )
            if ranks in self.lacking:
                yield Compared(
                    app.name,
                    self.assumption,
                    "increase",
                    ranks,
                    low,
                    high,
                    float("nan"),
                    float("nan"),
                )
            elif one_per_node and six_per_node:
                rise = (
                    six_per_node.hostcopy_seconds / one_per_node.hostcopy_seconds - 1,
                    six_per_node.gpudirect_seconds / one_per_node.gpudirect_seconds - 1,
                )
                yield Compared(
                    app.name, self.assumption, "increase", ranks, low, high, min(rise), max(rise)
                )


def replayed(
    app: Application,
    setup: Setup,
    *,
    ranks: Sequence[int] = (),
    ranks_per_node: Sequence[int] = SHAPES,
) -> Iterator[Replayed]:
    """Replay an application under each assumption, on all numbers of ranks of the paper if none are
    given.

    Raises A074, A093 for shapes out of range, or larger than the network.
    """
    if alone := [n for n in ranks if n < 2]:
        raise error_of("A093.ranks", found=f"{app.name} on {alone[0]} ranks")
    for per_node in shapes(ranks_per_node):
        for count in ranks or app.ranks:
            network_of(checked(replace(setup, ranks_per_node=per_node)), -(-count // per_node))
    for assumed in assumptions(app):
        replays: list[Gain] = []
        compute: dict[int, float] = {}
        lacking = []
        several = tuple(ranks) or app.ranks
        for count in several:
            full = with_share(assumed.pattern(app, count, setup), count, app.share(count), setup)
            if full is None:
                lacking.append(count)
                continue
            compute[count] = full.compute_seconds
            replays += gains(traffic_of(full, count), ranks_per_node, setup)
        pattern = assumed.pattern(app, max(several), setup)
        seen = [partners(pattern, n) for n in several]
        both = min(a for a, _ in seen), max(b for _, b in seen)
        yield Replayed(app, assumed.name, pattern, both, tuple(replays), compute, tuple(lacking))


def spans(replays: Sequence[Replayed]) -> list[Compared]:
    """Return the least and most of the replays under any assumption, for each printed range."""
    kept: dict[tuple[str, str, int], list[Compared]] = {}
    for comparison in (c for r in replays for c in r.compared()):
        kept.setdefault((comparison.application, comparison.what, comparison.ranks), []).append(
            comparison
        )
    out = []
    for several in kept.values():
        ends = [c for c in several if not np.isnan(c.found_low)]
        low = min((c.found_low for c in ends), default=float("nan"))
        high = max((c.found_high for c in ends), default=float("nan"))
        out.append(replace(several[0], assumption="any of these", found_low=low, found_high=high))
    return out


@dataclass(frozen=True)
class Answered(Declared):
    """Replays of applications under every assumption, and the settings that they share."""

    schema_version: ClassVar[int] = SCHEMA_VERSION
    label: ClassVar[str] = LABEL
    source: ClassVar[str] = (
        "Khetawat, Jain, Bhatele, Mueller, Predicting GPUDirect Benefits for HPC Workloads"
    )
    assumed: ClassVar[tuple[str, ...]] = ASSUMED
    not_compared: ClassVar[tuple[str, ...]] = (
        "strong scaling: the sizes of its messages are not printed",
        "Fig 7: run times are only drawn",
    )

    replays: Sequence[Replayed]
    setup: Setup

    def settings(self) -> dict[str, Any]:
        """Return the settings that hold in every replay; the ranks are those of the paper."""
        return {name: value for name, value in self.setup.held().items() if name != "ranks"}

    def applications(self) -> list[Application]:
        """Return the applications replayed, each once."""
        return list({r.application.name: r.application for r in self.replays}.values())

    def comparisons(self) -> list[Compared]:
        """Return every printed range beside the replays under each assumption."""
        return [c for r in self.replays for c in r.compared()]

    def spans(self) -> list[Compared]:
        """Return every printed range beside the replays under any assumption."""
        return spans(self.replays)

    def rows(self) -> list[dict[str, Any]]:
        """Return the replays, one row each."""
        return [
            {
                "application": r.application.name,
                "assumption": r.assumption,
                **asdict(g),
                "gain": g.gain,
                "run_gain": g.run_gain,
            }
            for r in self.replays
            for g in r.gains
        ]
