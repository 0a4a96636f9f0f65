"""The timeline replay: activities with their recorded dependencies, replayed as a longest path.

Every instant of the run happens when its last predecessor has happened
(`turnbuckle.profile.dependencies.dependencies`). Prices change the lags of edges.  Waiting is never
priced; it is a result.  At the identity every recorded instant comes back exactly. The run time is
convex and piecewise linear in every parameter.

Messages between ranks keep their recorded time, unless a network is given
(`TimelineReplay.on_network`): then the lag of each message and of each collective changes by what
the network makes of it.

Two things are not modelled.  The order on a track stays as recorded.  Work that shares a resource
without an edge (concurrent kernels on one device, ranks on one network) does not slow down.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from turnbuckle._native import Timeline
from turnbuckle.foundation.arrays import Bool, Float, Int, Whole, returned
from turnbuckle.profile.dependencies.graph import EDGE, Graph, Index
from turnbuckle.profile.pieces import Pieces

#: Per edge the first and the second parameter that changes its lag, -1 for none.
Terms = tuple[Index, Index]
#: Parts of a run time, in the order of their numbers.
_PARTS = ("launch", "kernel", "copy", "other")
#: What a unit of added time is worth [ns].
_ADDED = 1e9
#: Edges that are added up together.
_BLOCK = 1 << 18
#: What the native core spares an edge, bit by bit: the edge itself, the first and the second term
#: of its change.
_LEFT_OUT, _NO_FIRST, _NO_SECOND = np.uint8(1), np.uint8(2), np.uint8(4)


@dataclass(frozen=True)
class Change:
    """Changes of a target for each piece; arrays have shape (..., pieces), draws along leading
    axes.

    Attributes
    ----------
    ratio : new over measured duration.
    added : time added to each activity: device work takes longer, a host call returns later, after
        any wait [s].
    delivery : time added between a host call and the start of each piece of device work it started,
        by the call's piece [s].
    back : time added between the end of work and the return of a call that waits for it, by the
        call's piece [s].
    host : new over measured length of the application's own work between calls, shape (..., 1).
    delivery_ratio : new over measured delivery, by the call's piece; None leaves deliveries as they
        are.
    queue : time added between the end of work and the start of the work that the next call put
        behind it on its stream, by the piece of the latter [s]; None is none.
    network : how much of the two changes of `TimelineReplay.on_network` or
        `TimelineReplay.on_latency` applies, shape (..., 1) for both alike or (..., 2): 1 for the
        whole of it; None is none.
    """

    ratio: Float
    added: Float
    delivery: Float
    back: Float
    host: Float
    delivery_ratio: Float | None = None
    queue: Float | None = None
    network: Float | None = None

    @property
    def values(self) -> Float:
        """Return the parameters of the compiled graph, shape (..., `parameters`)."""
        nothing = np.zeros(self.ratio.shape[-1])
        handed = nothing if self.delivery_ratio is None else self.delivery_ratio - 1.0
        queue = nothing if self.queue is None else self.queue
        network = np.zeros(1) if self.network is None else self.network
        both = network[..., :1], network[..., -1:]
        columns = (
            self.ratio - 1.0,
            self.added,
            self.delivery,
            self.back,
            self.host - 1.0,
            handed,
            queue,
            *both,
        )
        out = np.empty(
            (
                *np.broadcast_shapes(*(c.shape[:-1] for c in columns)),
                sum(c.shape[-1] for c in columns),
            )
        )
        first = 0
        for column in columns:
            out[..., first : first + column.shape[-1]] = column
            first += column.shape[-1]
        return out


@cache
def way(points: int) -> list[tuple[float, float]]:
    """Return places between 0 and 1 and their weights, by Gauss and Legendre."""
    places, weights = np.polynomial.legendre.leggauss(points)
    return list(zip(((1.0 + places) / 2.0).tolist(), (weights / 2.0).tolist(), strict=True))


def parameters(pieces: int) -> int:
    """Return how many parameters a compiled graph has."""
    return 6 * pieces + 3


def no_change(pieces: int) -> Change:
    """Return the change that leaves everything as recorded."""
    nothing = np.zeros(pieces)
    return Change(np.ones(pieces), nothing, nothing, nothing, np.ones(1))


@dataclass(frozen=True)
class Flat:
    """A compiled graph as arrays: instants in an order in which each comes after all that it waits
    for, edges by their targets.

    Attributes
    ----------
    source, target : places of the instants that an edge leads from and to, shape (edges,).
    lag_ns : lag of each edge [ns]; with parameters p it is max(0, lag + the sum over both terms of
        p[term] * worth).
    term, worth : its two parameters (-1 for none), and what a unit of each is worth [ns], shape (2,
        edges).
    part : part of the run time that it belongs to: its place among launch, kernel, copy, other.
    residual_ns : what is added to each instant after the last that it waits for [ns], shape
        (instants,).
    """

    source: Int
    target: Int
    lag_ns: Int
    term: Int
    worth: Float
    part: Int
    residual_ns: Int


@dataclass(frozen=True)
class TimelineReplay:
    """A graph compiled for many replays; its parameters are `Change.values`."""

    graph: Graph
    run: Pieces
    piece: Index
    native: Timeline

    @classmethod
    def compiled(cls, graph: Graph, run: Pieces, piece_of_row: Int | Index) -> TimelineReplay:
        """Compile a graph: every edge gets its terms.

        Parameters
        ----------
        graph : instants and edges of a profile.
        run, piece_of_row : pieces of the profile, and the piece of every activity.
        """
        piece = (
            piece_of_row[graph.activity].astype(np.int32)
            if len(graph.activity)
            else np.zeros(0, dtype=np.int32)
        )
        return _compiled(graph, run, piece)

    def on(self, graph: Graph) -> TimelineReplay:
        """Compile the same activities on a changed graph; one with the same edges keeps what the
        network adds to them (`on_network`).
        """
        if "_amounts" not in self.__dict__ or len(graph.kind) != len(self.graph.kind):
            return _compiled(graph, self.run, self.piece)
        made = _compiled(
            graph,
            self.run,
            self.piece,
            self._terms,
            (_scaled(graph, slice(None)) * self._slower, self._worth(1, slice(None))),
        )
        made.__dict__["_slower"] = self._slower
        return made

    def on_network(
        self, graph: Graph, added_ns: Float, slower: Float | float = 1.0
    ) -> TimelineReplay:
        """Compile the same activities where the network changes the lags of messages.

        Parameters
        ----------
        graph : the run's graph, with the edges of messages.
        added_ns : per edge of `graph`, the change of its lag where `Change.network` is 1 [ns]; 0
            for every edge that carries no message.
        slower : per edge, how many times as long it takes there besides; 1 for every edge but those
            of kernels that share a GPU.

        An edge that carries a message gets this change in place of time added to its activity
        (`Change.added`).
        """
        first, second = _parameters(graph, self.piece, len(self.run))
        added = np.full(len(second), _ADDED)
        added_ns = added_ns + (slower - 1.0) * graph.lag_ns
        carries = added_ns != 0.0
        # delays and savings have a parameter each, so that their limits can be told apart
        second[carries] = np.where(added_ns > 0.0, *(6 * len(self.run) + k for k in (1, 2)))[
            carries
        ]
        added[carries] = added_ns[carries]
        made = _compiled(
            graph,
            self.run,
            self.piece,
            (first, second),
            (_scaled(graph, slice(None)) * slower, added),
        )
        made.__dict__["_slower"] = slower
        return made

    def on_latency(self, graph: Graph, base_ns: Float, slope_ns: Float) -> TimelineReplay:
        """Compile the same activities where the network changes the lags of messages, and latency
        adds to them.

        Parameters
        ----------
        graph : the run's graph, with the edges of messages.
        base_ns, slope_ns : per edge of `graph`, the change of its lag where the first number of
            `Change.network` is 1 [ns], and for every second that its second number holds [ns/s].

        An edge that carries a message has these changes alone.
        """
        first, second = _parameters(graph, self.piece, len(self.run))
        scaled, added = _scaled(graph, slice(None)), np.full(len(second), _ADDED)
        carries = (base_ns != 0.0) | (slope_ns != 0.0)
        first[carries], scaled[carries] = 6 * len(self.run) + 1, base_ns[carries]
        second[carries], added[carries] = 6 * len(self.run) + 2, slope_ns[carries]
        return _compiled(graph, self.run, self.piece, (first, second), (scaled, added))

    def dropping(self, activities: Bool, later_ns: Int) -> TimelineReplay:
        """Compile the same run where some device activities take no time and begin at once.

        Parameters
        ----------
        activities : mask of these, shape (activities,).
        later_ns : time added to the lag of every edge, whatever the target [ns], shape (edges,).
        """
        gone = activities[self.graph.owner] & np.isin(
            self.graph.kind, [EDGE["run"], EDGE["deliver"]]
        )
        graph = replace(self.graph, lag_ns=np.where(gone, 0, self.graph.lag_ns) + later_ns)
        first, second = (np.where(gone, np.int32(-1), parameter) for parameter in self._terms)
        return _compiled(
            graph,
            self.run,
            self.piece,
            (first, second),
            (self._worth(0, slice(None)), self._worth(1, slice(None))),
        )

    def seconds_without(self, values: Float, edges: Bool) -> float:
        """Return the run time at a row of parameters [s] without some edges, as if nothing waited
        there; other edges still hold.
        """
        return self._sparing(values, edges * _LEFT_OUT)

    def seconds_sparing(self, values: Float, activities: Bool) -> float:
        """Return the run time at a row of parameters [s] where some activities get no added time;
        their durations still scale.
        """
        whose = activities[self.graph.payer]
        waits = whose & ((self.graph.kind == EDGE["sync"]) | (self.graph.kind == EDGE["queue"]))
        return self._sparing(values, whose * _NO_SECOND + waits * _NO_FIRST)

    def _sparing(self, values: Float, spared: Whole) -> float:
        return self.native.last_sparing(np.ascontiguousarray(values), spared) * 1e-9

    def slopes(self, edges: Int, direction: Float) -> Float:
        """Return the change of each edge's lag along a direction of the parameters [s a unit],
        shape (edges,).
        """
        out = np.empty(len(edges))
        for some in (slice(k, k + _BLOCK) for k in range(0, len(edges), _BLOCK)):
            first, second = (parameter[edges[some]] for parameter in self._terms)
            slope = np.where(first >= 0, direction[first] * self._worth(0, edges[some]), 0.0) * 1e-9
            out[some] = (
                slope
                + np.where(second >= 0, direction[second] * self._worth(1, edges[some]), 0.0) * 1e-9
            )
        return out

    @cached_property
    def unchanged_seconds(self) -> float:
        """Return the run time of the unchanged run [s], replayed once."""
        return float(self.seconds(no_change(len(self.run))))

    @cached_property
    def unchanged_path(self) -> tuple[Float, Int]:
        """Return `path` of the unchanged run, replayed once."""
        return self.path(no_change(len(self.run)))

    def recorded_ns(self) -> Int:
        """Return every instant of the unchanged run [ns]; equal to the recording."""
        return np.frombuffer(self.native.recorded(), dtype=np.int64)

    def seconds(self, change: Change, threads: int | None = None) -> Float:
        """Return the run time after a change [s], shape of the change's leading axes."""
        return self.seconds_at(change.values, threads)

    def seconds_at(self, values: Float, threads: int | None = None) -> Float:
        """Compute `seconds` for rows of parameters, as `Change.values` has them."""
        flat = np.ascontiguousarray(values.reshape(-1, values.shape[-1]))
        last = np.frombuffer(
            self.native.last(flat, threads=threads or os.cpu_count() or 1), dtype=np.float64
        )
        return last.reshape(values.shape[:-1]) * 1e-9

    def tangents(self, values: Float, threads: int | None = None) -> tuple[Float, Float]:
        """Return the run time for rows of parameters [s], and how one longest path there changes
        with each parameter [s a unit].

        The shapes are (rows,) and (rows, parameters). The run time is convex in the parameters, so
        that the plane of a row lies nowhere above it. A lag that has shrunk to nothing does not
        shrink further.
        """
        last, slopes = self.native.tangents(
            np.ascontiguousarray(values), threads=threads or os.cpu_count() or 1
        )
        return np.frombuffer(last) * 1e-9, np.frombuffer(slopes).reshape(values.shape) * 1e-9

    def path(self, change: Change) -> tuple[Float, Int]:
        """Return every instant after one change [s], and the edges of the critical path, last
        first.
        """
        return self.replayed(change.values)

    def replayed(self, values: Float) -> tuple[Float, Int]:
        """Compute `path` for a row of parameters, as `Change.values` has them."""
        instants, path = self.native.replayed(np.ascontiguousarray(values))
        return np.frombuffer(instants, dtype=np.float64) * 1e-9, np.frombuffer(
            path, dtype=np.uint32
        ).astype(np.int64)

    def path_at(self, values: Float) -> Int:
        """Return the edges of the critical path, last first, for a row of parameters."""
        return np.frombuffer(
            self.native.path(np.ascontiguousarray(values)), dtype=np.uint32
        ).astype(np.int64)

    def budget(self, change: Change) -> tuple[Float, Float]:
        """Add up all savings and all delays of all edges [s], the limits of the change each way
        (shape of the draws).
        """
        effects = change.values * self._weights
        return np.minimum(effects, 0.0).sum(-1), np.maximum(effects, 0.0).sum(-1)

    def kernel_window(self, instants: Float) -> float | None:
        """Return the first kernel's start to the last kernel's end [s], of the instants that `path`
        returns; None without kernels.
        """
        kernels = self._kernels
        return (
            float(instants[2::2][kernels].max() - instants[1::2][kernels].min())
            if kernels.any()
            else None
        )

    @cached_property
    def unchanged_window(self) -> float | None:
        """Return `kernel_window` of the unchanged run."""
        return self.kernel_window(self.unchanged_path[0])

    def unchanged_parts(self, part_of_category: dict[str, str], beyond: float) -> dict[str, float]:
        """Return `parts` of the unchanged run, added up once."""
        if "_unchanged_parts" not in self.__dict__:
            self.__dict__["_unchanged_parts"] = self.parts(
                *self.unchanged_path, part_of_category, 0.0
            )
        seconds: dict[str, float] = self.__dict__["_unchanged_parts"]
        return {**seconds, "other": seconds["other"] + beyond}

    @cached_property
    def _kernels(self) -> Bool:
        return np.asarray((self.run.kind == "kernel")[self.piece])

    def parts(
        self, instants: Float, path: Int, part_of_category: dict[str, str], beyond: float
    ) -> dict[str, float]:
        """Return where a path that `path` returns spends its time [s]: launch, kernel, copy, other.

        `beyond`, run time outside the graph, counts as other.
        """
        spent = instants[self.graph.target[path]] - instants[self.graph.source[path]]
        part = self._part_of(path, part_of_category)
        seconds = {name: float(spent[part == k].sum()) for k, name in enumerate(_PARTS)}
        return {**seconds, "other": seconds["other"] + beyond}

    def change_by_part(
        self,
        values: Float,
        instants: Float,
        path: Int,
        part_of_category: dict[str, str],
        points: int,
    ) -> dict[str, float]:
        """Return which parts a change of the run time comes from [s]; they add up to it.

        On the way from the recorded run to the changed one, each step is what the edges of the
        critical path there take longer or shorter (Aumann and Shapley 1974): a part changes by no
        more than its own durations do, even where the critical path goes over to another. The way
        is walked at so many points, by Gauss and Legendre; what they miss is shared in proportion,
        and bounds the statement. A path that is critical at both ends is so all the way, since the
        run time is convex: then its own edges say it exactly.

        Parameters
        ----------
        values : parameters of the changed run, as `Change.values` has them.
        instants, path : of the changed run, as `replayed` returns them.
        """
        before, unchanged = self.unchanged_path
        if np.array_equal(path, unchanged):
            changed, recorded = (
                self.parts(at, path, part_of_category, 0.0) for at in (instants, before)
            )
            return {part: changed[part] - recorded[part] for part in _PARTS}
        changes, slope = np.zeros(len(_PARTS)), np.zeros(len(_PARTS))
        walked: Int = np.full(1, -1)
        for place, weight in way(points):
            last, walked = walked, self.path_at(values * place)
            if not np.array_equal(walked, last):
                slopes = self.slopes(walked, values)
                slope[:] = np.bincount(
                    self._part_of(walked, part_of_category), weights=slopes, minlength=len(_PARTS)
                )
            changes += weight * slope
        missed = float(instants.max()) - self.unchanged_seconds - float(changes.sum())
        share = (
            np.abs(changes) / np.abs(changes).sum() if changes.any() else np.eye(len(_PARTS))[-1]
        )
        return dict(zip(_PARTS, (changes + missed * share).tolist(), strict=True))

    def _part_of(self, path: Int, part_of_category: dict[str, str]) -> Int:
        """Return the part that each edge of a path belongs to, as its place in `_PARTS`."""
        if "_edge_parts" not in self.__dict__:
            self.__dict__["_edge_parts"] = self._part_of_edges(part_of_category)
        return self.__dict__["_edge_parts"][path].astype(np.int64)  # type: ignore[no-any-return]

    def _part_of_edges(self, part_of_category: dict[str, str]) -> NDArray[np.int8]:
        """Return the part of every edge, a byte each: a run is asked for many paths."""
        graph, launch = self.graph, self.run.kind == "launch"
        part_of_piece = np.array(
            [_PARTS.index(part_of_category[c]) for c in self.run.category.tolist()], dtype=np.int8
        )
        owner = (
            self.piece[np.maximum(graph.target - 1, 0) // 2]
            if len(self.piece)
            else np.zeros(len(graph.kind), dtype=np.int32)
        )
        works = (graph.kind == EDGE["run"]) | graph.begun_within
        part = np.full(len(graph.kind), _PARTS.index("other"), dtype=np.int8)
        part[works] = part_of_piece[owner[works]]
        calls, delivers = (np.flatnonzero(graph.kind == EDGE[kind]) for kind in ("call", "deliver"))
        part[calls[launch[owner[calls]]]] = _PARTS.index("launch")
        part[delivers[launch[self.piece[(graph.source[delivers] - 1) // 2]]]] = _PARTS.index(
            "launch"
        )
        return part

    def flat(self, part_of_category: dict[str, str]) -> Flat:
        """Return the graph in the order in which its instants are computed."""
        graph = self.graph
        count = len(graph.time_ns)
        waiting = np.bincount(graph.target, minlength=count).tolist()
        order_by_source = np.argsort(graph.source, kind="stable")
        first = np.searchsorted(graph.source[order_by_source], np.arange(count + 1)).tolist()
        after = graph.target[order_by_source].tolist()
        order = [v for v in range(count) if not waiting[v]]
        for v in order:  # grows while it is walked
            for target in after[first[v] : first[v + 1]]:
                waiting[target] -= 1
                if not waiting[target]:
                    order.append(target)
        place = np.empty(count, dtype=np.int64)
        place[order] = np.arange(count)
        edges = np.argsort(place[graph.target], kind="stable")
        terms = np.stack(self._terms)[:, edges].astype(np.int64)
        worth = np.stack([self._worth(k, edges) for k in (0, 1)])
        part = self._part_of(edges, part_of_category)
        return Flat(
            place[graph.source][edges],
            place[graph.target][edges],
            graph.lag_ns[edges],
            terms,
            worth,
            part,
            graph.residual_ns[order],
        )

    @cached_property
    def _terms(self) -> Terms:
        return _parameters(self.graph, self.piece, len(self.run))

    @cached_property
    def _slower(self) -> Float | float:
        """Return how many times as long every edge takes on another network (`on_network`)."""
        return 1.0

    def _worth(self, which: int, edges: Int | Bool | slice) -> Float:
        """Return what a unit of the first (0) or second (1) parameter of some edges is worth
        [ns].
        """
        if "_amounts" in self.__dict__:
            amounts: Float = self.__dict__["_amounts"][which][edges]
            return amounts
        return (
            _scaled(self.graph, edges)
            if which == 0
            else np.full(len(self.graph.kind[edges]), _ADDED)
        )

    @cached_property
    def _weights(self) -> Float:
        """Return how far one unit of each parameter changes the run at most [s]: recorded time it
        scales, or how often it is added.
        """
        kind, count = self.graph.kind, parameters(len(self.run))
        first, second = self._terms
        # several edges lead to the end of one activity, which changes once: what it takes and its
        # delay stand on its own edge as well
        once = np.ones(len(kind), dtype=np.bool_)
        syncs = np.flatnonzero(kind == EDGE["sync"])
        once[syncs] = False
        once[syncs[np.unique(self.graph.target[syncs], return_index=True)[1]]] = True
        within, network = self.graph.begun_within, 6 * len(self.run)
        weights = np.zeros(count)
        # of several messages that a call waits for, one decides
        for parameter in (
            count - 2,
            count - 1,
        ):
            edges = np.flatnonzero(second == parameter)
            most = np.zeros(len(self.graph.time_ns))
            np.maximum.at(most, self.graph.target[edges], np.abs(self._worth(1, edges)))
            weights[parameter] = most.sum() if parameter == count - 2 else -most.sum()
        scaled, added = np.zeros(count), np.zeros(count)
        # whole numbers of nanoseconds add up exactly, block by block
        step = max(len(kind), 1) if "_amounts" in self.__dict__ else _BLOCK
        for some in (slice(k, k + step) for k in range(0, len(kind), step)):
            again = np.isin(kind[some], [EDGE["sync"], EDGE["queue"], EDGE["meet"]]) | within[some]
            scales = (first[some] >= 0) & ~again
            adds = (
                (second[some] >= 0)
                & once[some]
                & (kind[some] != EDGE["meet"])
                & ~within[some]
                & (second[some] <= network)
            )
            scaled += np.bincount(first[some][scales], self._worth(0, some)[scales], count)
            added += np.bincount(second[some][adds], self._worth(1, some)[adds], count)
        return (weights + (scaled + added)) * 1e-9


def _compiled(
    graph: Graph,
    run: Pieces,
    piece: Index,
    terms: Terms | None = None,
    amounts: tuple[Float, Float] | None = None,
) -> TimelineReplay:
    """Build the graph in the native core.

    Parameters
    ----------
    terms, amounts : the parameters of every edge, and what a unit of each is worth [ns]; None as
        the kinds of edges have them.
    """
    if terms is None:
        terms = _parameters(graph, piece, len(run))
        returned(len(graph.kind))
    made = TimelineReplay(graph, run, piece, _native(graph, run, terms, amounts))
    made.__dict__["_terms"] = terms
    if amounts is not None:
        made.__dict__["_amounts"] = amounts
    return made


def _native(
    graph: Graph, run: Pieces, terms: Terms, amounts: tuple[Float, Float] | None
) -> Timeline:
    first, second = terms
    # one number for all edges is no array of it
    scaled, added = (
        (_scaled(graph, slice(None)), np.broadcast_to(_ADDED, second.shape))
        if amounts is None
        else amounts
    )
    return Timeline(
        len(graph.time_ns),
        graph.source.astype(np.int32, copy=False).view(np.uint32),
        graph.target.astype(np.int32, copy=False).view(np.uint32),
        np.ascontiguousarray(graph.lag_ns),
        first.view(np.uint32),  # -1 is `NONE` there
        scaled,
        second.view(np.uint32),
        added,
        np.ascontiguousarray(graph.residual_ns),
        parameters(len(run)),
    )


def _scaled(graph: Graph, edges: Int | Bool | slice) -> Float:
    """Return what a unit of the first parameter of some edges is worth [ns]: their lag, or a second
    after a wait.
    """
    kind = graph.kind[edges]
    return np.where(
        (kind == EDGE["sync"]) | (kind == EDGE["queue"]),
        _ADDED,
        graph.lag_ns[edges].astype(np.float64),
    )


def _parameters(graph: Graph, piece: Index, count: int) -> Terms:
    """Return per edge the two parameters that change its lag (-1 for none)."""
    kind = graph.kind
    payer = (
        piece[graph.payer].astype(np.int32, copy=False)
        if len(kind)
        else np.zeros(0, dtype=np.int32)
    )
    # where the parameters of each kind begin; they are numbered by the piece that pays
    begins = np.full((2, len(EDGE)), -1, dtype=np.int32)
    for word in ("run", "call", "meet"):
        begins[:, EDGE[word]] = 0, count
    begins[0, EDGE["fault"]] = 0
    begins[:, EDGE["sync"]] = count, 3 * count
    begins[0, EDGE["queue"]] = count
    begins[:, EDGE["deliver"]] = 4 * count + 1, 2 * count
    first, second = (np.where(of[kind] >= 0, of[kind] + payer, np.int32(-1)) for of in begins)
    first[kind == EDGE["host"]] = 4 * count
    # works that one call started are one command
    delivers, streams = (np.flatnonzero(kind == EDGE[word]) for word in ("deliver", "stream"))
    caller = np.full(len(piece), -1, dtype=np.int64)
    caller[graph.owner[delivers]] = (graph.source[delivers] - 1) // 2
    owner = (graph.target[streams] - 1) // 2
    next_command = streams[caller[owner] != caller[np.maximum(graph.source[streams] - 1, 0) // 2]]
    second[next_command] = 5 * count + 1 + payer[next_command]
    # a kernel that was launched to overlap the one before it begins as far into that one as it did
    overlaps = np.flatnonzero(graph.begun_within)
    first[overlaps], second[overlaps] = payer[overlaps], count + payer[overlaps]
    return first, second
