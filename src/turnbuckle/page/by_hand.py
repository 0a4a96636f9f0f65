"""The answer that moves: the compiled graph of a run, replayed in the browser for what a reader
sets, or bounds of its run time.
"""

from __future__ import annotations

import base64
import gzip
import math
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.page.dark import paint
from turnbuckle.page.studied import PASSES, Studies
from turnbuckle.projection.projection import PART_OF_CATEGORY, PARTS, break_even_premium
from turnbuckle.questions.distance.speeds import Levers, planes
from turnbuckle.replay.timeline import Flat, way
from turnbuckle.show.figures.look import PARTS as PART_COLOURS
from turnbuckle.show.text import bounds, number, percent, signed
from turnbuckle.show.verdict import Verdict

#: Largest graph that a page holds, as it is written there [B]: a replay of it takes some 10 ms in a
#: browser.
MOST_BYTES: Final = 1_500_000
#: Most dependencies of a graph that is written at all, to see how large it is.
MOST_EDGES: Final = 300_000
#: Places on the way to what is set at which a page looks at the critical path.
WALKED: Final = 8
#: Distinct parameters that an edge can name.
_MOST_PARAMETERS: Final = 1 << 16
_WORDS: Final = {
    "launch": "launches",
    "kernel": "kernels",
    "copy": "copies",
    "other": "host and other",
}
#: Sliders: name, words, lowest and highest position, what a position means.
_Lever = tuple[str, str, int, int, str]
_LEVERS: Final[tuple[_Lever, ...]] = (
    ("latency", "added one-way latency", 0, 61, "none, then 100 ns to 100 ms, ten steps a decade"),
    ("byte", "bandwidth of the link", -12, 12, "an eighth to eight times the recorded one"),
    ("launch", "launches cost", -20, 20, "a tenth to ten times"),
    ("kernel", "kernels take", -20, 20, "a tenth to ten times"),
    ("host", "host work and calls take", -20, 20, "a tenth to ten times"),
)
#: Known points of a run that is bounded, at most and at least, and how many times as long its
#: longest added latency makes it.
_MOST_POINTS, _FEWEST_POINTS, _FAR = 200, 64, 3.0
_REPLAYED: Final = (
    "The recorded run, replayed in this page for what you set: every call, copy and kernel in "
    "its order, with what waits for what. "
    "Kernels keep their kinds, the program stays as it is."
)
_BOUNDED: Final = (
    "The recorded run for what you set, between two bounds: with {edges} dependencies it is too "
    "large to be replayed in a page. It was "
    "replayed at {points} places of the sliders. The run time is convex in all of them, so the "
    "planes that touch it there bound it from "
    "below, and means of those places bound it from above. The sliders end where both bounds "
    "hold. The command line replays any place."
)
_ABOUT: Final = (
    "Each slider alone gives what turnbuckle slack gives over both (the first two), launch, "
    "kernel and cpu. Together they add up "
    "in every call, copy and kernel before the order is replayed. Targets stand beside it by "
    "their coupling alone, at "
    "their stated values; the answer above has their ranges."
)


def by_hand_section(studies: Studies, verdicts: list[Verdict]) -> dict[str, Any]:
    """Return what the page needs to move the run, what each slider changes, and the targets to
    stand beside it.

    ``graph`` holds the compiled graph of the run, which the page replays, or where that is too
    large for a page the known points and planes that bound its run time. It is None where neither
    can be had; ``words`` says which it is.
    """
    timeline, levers = studies.by_hand
    replayed = (
        _written(timeline.flat(PART_OF_CATEGORY), levers)
        if len(timeline.graph.kind) <= MOST_EDGES
        else None
    )
    sliders, graph, words = _LEVERS, replayed, _REPLAYED
    if replayed is None or len(replayed["arrays"]) > MOST_BYTES:
        edges = f"{len(timeline.graph.kind):,}"
        sliders = _limited(studies)
        limits = planes(
            timeline,
            levers,
            _axes(sliders),
            min(max(PASSES // len(timeline.graph.time_ns), _FEWEST_POINTS), _MOST_POINTS),
        )
        if limits is None:
            return {
                "graph": None,
                "words": (
                    f"This run has {edges} dependencies, more than a page replays. The command "
                    "line asks the same of it."
                ),
            }
        recorded = timeline.unchanged_parts(PART_OF_CATEGORY, levers.beyond)
        graph = {name: getattr(limits, name).tolist() for name in ("points", "seconds", "slopes")}
        graph["recorded"] = [recorded[part] for part in PARTS]
        words = _BOUNDED.format(edges=edges, points=len(limits.points))
    shown = [
        {"name": v.name, "seconds": v.whole.by_coupling.seconds, "colour": paint(v.colour)}
        for v in verdicts
        if v.kind != "self" and not v.whole.by_coupling.unknown
    ]
    parts = [{"words": _WORDS[p], "colour": paint(PART_COLOURS[p])} for p in PARTS]
    more = {"measured": studies.link.measured, "parts": parts, "targets": shown, "way": way(WALKED)}
    return {"graph": (graph or {}) | more, "words": words, "levers": sliders, "about": _ABOUT}


def _limited(studies: Studies) -> tuple[_Lever, ...]:
    """Return the sliders of a long run: they end where the known points end."""
    far = studies.link.curve.reaches(_FAR * studies.link.measured)
    latest = (
        _LEVERS[0][3]
        if far is None
        else min(max(math.floor(1 + 10 * math.log10(max(far, 1e-7) / 1e-7)), 1), _LEVERS[0][3])
    )
    ends = (
        (
            "latency",
            0,
            latest,
            f"none, then 100 ns to {number(_moved('latency', latest), 's', 2)}, ten steps a decade",
        ),
        ("byte", -8, 8, "a quarter to four times the recorded one"),
        *((name, -12, 12, "a quarter to four times") for name in ("launch", "kernel", "host")),
    )
    return tuple(
        (name, words, low, high, more)
        for (_, words, *_), (name, low, high, more) in zip(_LEVERS, ends, strict=True)
    )


def _axes(sliders: tuple[_Lever, ...]) -> list[Float]:
    """Return the values that each slider may take, rising."""
    return [
        np.sort([_moved(name, position) for position in range(low, high + 1)])
        for name, _, low, high, _ in sliders
    ]


def _moved(name: str, position: int) -> float:
    """Return what a position of a slider means: added latency [s], or the cost of a unit of work;
    the page's script has the same.
    """
    if name == "latency":
        return 0.0 if position <= 0 else 1e-7 * 10 ** ((position - 1) / 10)
    return float(2 ** (-position / 4) if name == "byte" else 10 ** (position / 20))


#: Couplings that stand behind a fabric.
_FABRICS: Final = frozenset({"fabric", "remoting"})
#: What the sliders of the premium show first: a share of the price of the GPU, and how many times
#: as much it is used.
_PREMIUM, _USE = 0.10, 1.0


def premium_section(verdicts: list[Verdict]) -> dict[str, Any]:
    """Return the targets behind a fabric: time for a unit of work, what the fabric may cost, and
    whether a first premium pays.
    """
    rows = []
    for v in verdicts:
        p = v.whole.by_coupling
        if p.unknown or p.coupling["target"] not in _FABRICS or v.kind == "self":
            continue
        ends = [end / p.measured_seconds for end in p.ends] if p.measured_seconds else [1.0, 1.0]
        penalties = (p.penalty, *ends)
        stated, most, least = (break_even_premium(penalty) for penalty in penalties)
        ranged = f" {bounds(least, most)}" if p.interval else ""
        paid, words = pays(penalties, _PREMIUM, _USE)
        price = {
            "penalties": " ".join(map(repr, penalties)),
            "penalty": f"{p.penalty:.3f}×",
            "premium": signed(stated) + ranged,
        }
        rows.append(
            {"name": v.name, "colour": paint(v.colour), **price, "words": words, "tone": paid}
        )
    return {
        "rows": rows,
        "premium": round(100 * _PREMIUM),
        "use": _USE,
        "premium_words": percent(_PREMIUM),
        "use_words": f"{_USE:.2f}×",
    }


def pays(penalties: tuple[float, ...], premium: float, use: float) -> tuple[str, str]:
    """Return whether a premium pays, as a tone and in words.

    Parameters
    ----------
    penalties : time for a unit of work relative to the recorded machine: as stated, and at both
        ends of its range.
    """
    cost, low, high = (penalty * (1.0 + premium) / use - 1.0 for penalty in penalties)
    less = f"the work costs {percent(abs(cost))} {'less' if cost < 0 else 'more'}"
    if high <= 0:
        return "good", f"pays: {less}"
    return ("poor", f"does not pay: {less}") if low > 0 else ("fair", f"not decided: {less}")


def _written(flat: Flat, levers: Levers) -> dict[str, Any] | None:
    """Return the graph as compressed arrays; None where it has too many parameters.

    The arrays follow each other, little-endian: parameters as float64 of shape (9, parameters), one
    of which is always 0 and stands for none; residuals of the instants and lags of the edges as
    float64 [ns]; then, per edge, source and target as uint32, both parameters as uint16, and a
    byte: which of the two is worth a second rather than the lag (bits 0 and 1), and the part of the
    run time (bits 2 and 3).
    """
    rows = np.stack(
        [
            *levers.link,
            *levers.reads,
            *(levers.dearer[name] for name in ("launch", "kernel", "cpu")),
        ]
    )
    rows = np.concatenate([rows, np.zeros((len(rows), 1))], axis=1)
    # pieces that all sliders move alike are one parameter
    alike, number_of = np.unique(rows, axis=1, return_inverse=True)
    number_of = number_of.reshape(-1)
    if alike.shape[1] > _MOST_PARAMETERS:
        return None
    seconds = (flat.worth == 1e9) & (flat.worth != flat.lag_ns)
    exact = seconds | (flat.worth == flat.lag_ns) | (flat.term < 0)
    if not exact.all():
        return None
    first, second = (number_of[term] for term in flat.term)  # -1 is the last one, which is 0
    kind = (
        seconds[0].astype(np.uint8)
        | seconds[1].astype(np.uint8) << 1
        | flat.part.astype(np.uint8) << 2
    )
    columns = (
        (alike, "<f8"),
        (flat.residual_ns, "<f8"),
        (flat.lag_ns, "<f8"),
        # neighbours differ by little, and steps take a twentieth of the room when compressed
        (np.diff(flat.source, prepend=0), "<u4"),
        (np.diff(flat.target, prepend=0), "<u4"),
    )
    arrays = (
        *(values.astype(dtype) for values, dtype in columns),
        first.astype("<u2"),
        second.astype("<u2"),
        kind,
    )
    packed = gzip.compress(b"".join(a.tobytes() for a in arrays), 6, mtime=0)
    counts = {
        "instants": len(flat.residual_ns),
        "edges": len(flat.lag_ns),
        "parameters": int(alike.shape[1]),
    }
    return {"arrays": base64.b64encode(packed).decode(), **counts, "beyond": levers.beyond}
