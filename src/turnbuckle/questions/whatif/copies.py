"""Edits of copies: pinned memory, a stream of their own, small ones in one, the next one ahead,
pages before they are missed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.machine import Machine
from turnbuckle.profile.dependencies.graph import EDGE, begin, finish
from turnbuckle.profile.pieces import UNSIZED, Pieces
from turnbuckle.projection.model import Model, link_bandwidth
from turnbuckle.projection.order import Prepared
from turnbuckle.questions.whatif.graphs import (
    Merged,
    like,
    merged,
    prompt,
    redirected,
    relagged,
    removed,
    shorter_pieces,
    still,
    waiting,
    without,
)
from turnbuckle.questions.whatif.offered import Edit, Seen

_HOST_COPIES: Final = ("copy_h2d", "copy_d2h")


def pin(seen: Seen) -> Edit | None:
    """Return the edit that pins the host memory of copies."""
    run = seen.ready.run
    rows = _pageable(run)
    ratio = pinned_ratio(run, seen.source, seen.model)
    if (ratio == 1.0).all():
        return None

    def apply(ready: Prepared) -> Prepared:
        assert ready.timeline is not None
        shorter = shorter_pieces(ready, ratio)
        graph = ready.timeline.graph
        runs = graph.kind == EDGE["run"]
        by_edge = np.concatenate([ratio, np.ones(len(ready.run) - len(ratio))])[
            ready.timeline.piece[graph.owner[runs]]
        ]
        now = shorter.run.memory.copy()
        now[: len(rows)][rows] = "pinned"
        return relagged(
            replace(shorter, run=replace(shorter.run, memory=now)), runs, lambda lag: lag * by_edge
        )

    count, seconds = round(float(run.count[rows].sum())), float(run.seconds[rows].sum())
    return Edit.worded("pin", count, seconds, apply, apply, np.flatnonzero(rows[seen.piece]))


def _pageable(run: Pieces) -> Bool:
    """Return which pieces are copies of pageable memory."""
    return np.asarray(
        np.isin(run.kind, _HOST_COPIES) & (run.memory == "pageable") & (run.seconds > 0)
    )


def pinned_ratio(run: Pieces, source: Machine, model: Model) -> Float:
    """Return per piece what copies of pageable memory take of their time once the memory is pinned;
    1 for everything else.
    """
    rows = _pageable(run)
    memory = run.memory.copy()
    memory[rows] = "pinned"
    before, after = (
        copy_seconds(pieces, source, model) for pieces in (run, replace(run, memory=memory))
    )
    if before is None or after is None:
        return np.ones(len(run))
    ratio = np.divide(after, before, out=np.ones(len(run)), where=before > 0)
    return np.asarray(np.where(rows, np.minimum(ratio, 1.0), 1.0))


def own_stream(seen: Seen) -> Edit | None:
    """Return the edit that gives copies a stream of their own."""
    graph, kind = seen.graph, seen.kind
    stream = (graph.kind == EDGE["stream"]) & ~graph.begun_within
    before, after = (np.maximum(ends - 1, 0) // 2 for ends in (graph.source, graph.target))
    to_device, to_host = kind == "copy_h2d", kind == "copy_d2h"
    moved = stream & ((to_device[after] & ~to_device[before]) | (to_host[before] & ~to_host[after]))
    if not moved.any():
        return None

    def apply(ready: Prepared) -> Prepared:
        for copies in (to_device, to_host):
            ready = _in_turn(ready, seen, copies)
        return _passed(ready, seen, to_device, to_host)

    rows = np.isin(seen.ready.run.kind, _HOST_COPIES)
    copies, seconds = np.flatnonzero(to_device | to_host), float(seen.ready.run.seconds[rows].sum())
    return Edit.worded("own stream", len(copies), seconds, apply, activities=copies)


def batch(seen: Seen) -> Edit | None:
    """Return the edit that makes one copy of those that follow each other in one direction, at the
    place of the last of them.
    """
    run, piece, kind = seen.ready.run, seen.piece, seen.kind
    each, empty = (
        copy_seconds(p, seen.source, seen.model)
        for p in (run, replace(run, size_bytes=np.zeros(len(run))))
    )
    if each is None or empty is None:
        return None
    # small: the bytes take less than the copy's fixed cost
    copies = np.isin(kind, _HOST_COPIES) & ((run.memory != UNSIZED) & (each < 2 * empty))[piece]
    length = seen.ends - seen.begins

    def joined(first_copy: Int, next_copy: Int) -> Bool:
        alike = (kind[first_copy] == kind[next_copy]) & (
            run.memory[piece[first_copy]] == run.memory[piece[next_copy]]
        )
        # the host may read what a copy to it brought: a pause that is longer than the calls around
        # it is taken for that
        first, then = seen.caller[first_copy], seen.caller[next_copy]
        pause = seen.begins[then] - seen.ends[first]
        return np.asarray(
            alike
            & (
                (kind[first_copy] == "copy_h2d")
                | (pause <= np.maximum(length[first], length[then]))
            )
        )

    groups = seen.groups(copies, joined)
    if not groups:
        return None
    members, group = (
        np.concatenate(groups),
        np.repeat(np.arange(len(groups)), [len(g) for g in groups]),
    )
    last = np.array([g[-1] for g in groups])
    size = np.bincount(group, run.size_bytes[piece[members]]).astype(np.float64)
    whole = copy_seconds(like(run, piece[last], size), seen.source, seen.model)
    if whole is None:
        return None
    apart = np.bincount(group, each[piece[members]])
    shorter: Float = np.minimum(
        np.divide(whole, apart, out=np.ones(len(groups)), where=apart > 0), 1.0
    )
    of = np.full(len(kind), -1, dtype=np.int64)
    of[members] = group
    earlier = np.setdiff1d(members, last)
    graph = seen.graph
    gone = np.zeros(len(kind), dtype=np.bool_)
    gone[seen.caller[earlier]] = True
    # a call that is not made waits for nothing, and delivers nothing
    idle = ((graph.kind == EDGE["sync"]) & gone[graph.owner]) | (
        (graph.kind == EDGE["deliver"]) & gone[np.maximum(graph.source - 1, 0) // 2]
    )
    idled = np.concatenate([begin(earlier), finish(earlier), finish(np.flatnonzero(gone))])
    loops = seen.loops(gone)

    def apply(*, packed: bool) -> Callable[[Prepared], Prepared]:
        def make(ready: Prepared) -> Prepared:
            share = np.ones(len(groups)) if packed else shorter
            joint = prompt(
                without(removed(merged(ready, Merged(of, last, size, share)), gone), idle), idled
            )
            if packed:
                return _packing(
                    joint, seen, last, np.bincount(group, length[members]).astype(np.float64)
                )
            return prompt(
                relagged(joint, loops, np.zeros_like),
                begin(seen.graph.owner[loops].astype(np.int64)),
            )

        return make

    seconds, ends = float(length[members].sum()) * 1e-9, (apply(packed=False), apply(packed=True))
    return Edit.worded(
        "batch", len(members), seconds, *ends, members, members=len(members), groups=len(groups)
    )


def prefetch(seen: Seen) -> Edit | None:
    """Return the edit that copies the input of the next step while the kernels of this one run,
    into the second of two buffers.
    """
    kind, track, work = seen.kind, seen.track, seen.work
    rows = work[np.isin(kind[work], ("copy_h2d", "kernel"))]
    rows = rows[(kind[rows] == "kernel") | (seen.caller[rows] >= 0)]
    copied = kind[rows] == "copy_h2d"
    if not copied.any() or copied.all():
        return None
    new_stream = np.diff(track[rows], prepend=-1) != 0
    # a step begins with the first copy behind a kernel
    step = np.cumsum(new_stream | (copied & ~np.concatenate([[False], copied[:-1]])))
    number = step - step[np.maximum.accumulate(np.where(new_stream, np.arange(len(rows)), 0))]
    has_copy = np.bincount(step[copied], minlength=step[-1] + 1) > 0
    first_copy = has_copy[step - number]
    ahead = copied & (number >= 1) & ((number >= 2) | first_copy)
    if not ahead.any():
        return None
    copies = rows[ahead]
    issued, ran = (np.full(step[-1] + 2, -1, dtype=np.int64) for _ in range(2))
    issued[step[copied]] = seen.caller[rows[copied]]  # the last call of each step's copies
    ran[step[~copied]] = rows[~copied]  # and the last of its kernels
    before = issued[step[ahead] - 1]
    kept = before >= 0
    copies, before, buffer_step = copies[kept], before[kept], (step[ahead] - 2)[kept]
    buffer = np.where((number[ahead][kept] >= 2) & (buffer_step >= 0), ran[buffer_step], -1)
    graph = seen.graph
    taken = np.zeros(len(kind), dtype=np.bool_)
    taken[copies] = True
    delivery = np.zeros(len(kind), dtype=np.int64)
    delivers = (graph.kind == EDGE["deliver"]) & taken[graph.owner]
    delivery[graph.owner[delivers]] = graph.lag_ns[delivers]
    returns = (
        (graph.kind == EDGE["sync"])
        & (graph.source > 0)
        & taken[np.maximum(graph.source // 2 - 1, 0)]
    )
    returns &= seen.caller[np.maximum(graph.source // 2 - 1, 0)] == graph.owner

    def apply(ready: Prepared) -> Prepared:
        free = without(
            _passed(_in_turn(ready, seen, kind == "copy_h2d"), seen, taken, np.zeros_like(taken)),
            delivers | returns,
        )
        early = waiting(
            prompt(free, begin(copies)), finish(before), begin(copies), delivery[copies], "deliver"
        )
        held = buffer >= 0
        return waiting(
            early,
            finish(buffer[held]),
            begin(copies[held]),
            np.zeros(int(held.sum()), dtype=np.int64),
            "event",
        )

    return Edit.worded(
        "prefetch",
        len(copies),
        float((seen.ends - seen.begins)[copies].sum()) * 1e-9,
        apply,
        activities=copies,
    )


def prefetch_pages(seen: Seen) -> Edit | None:
    """Return the edit that moves pages of managed memory to the device before the kernel that would
    wait for them.
    """
    pages = _waited_pages(seen)
    return (
        None
        if not pages.any()
        else _unfaulted("prefetch pages", seen, pages, seen.source.value("gpu.memory_bandwidth"))
    )


def advise(seen: Seen) -> Edit | None:
    """Return the edit that keeps pages in one place which host and device use in turn: those that
    come again behind one that left.
    """
    pages = _waited_pages(seen)
    left = seen.direction == "migration_d2h"
    if not pages.any() or not left.any():
        return None
    again = pages & (seen.begins > seen.begins[left].min())
    return (
        None
        if not again.any()
        else _unfaulted(
            "advise", seen, again, link_bandwidth(seen.source, "h2d", seen.source), left
        )
    )


def _waited_pages(seen: Seen) -> Bool:
    """Return which activities are pages that a kernel stood still for."""
    graph = seen.graph
    pages = np.zeros(len(seen.kind), dtype=np.bool_)
    pages[graph.owner[graph.kind == EDGE["fault"]]] = True
    return np.asarray(pages & (seen.kind == "migration"))


def _unfaulted(
    kind: str, seen: Seen, pages: Bool, rate: Float | float | None, left: Bool | None = None
) -> Edit:
    """Return an edit after which kernels do not stand still for some pages; at best what lay
    between takes no longer than the bytes.

    Parameters
    ----------
    pages : per activity, whether it is such a page.
    rate : at which a kernel reads these bytes where they lie then [B/s]; None for at once.
    left : pages that do not move to the host either; None for none.
    """
    graph, piece = seen.graph, seen.piece
    edges = graph.kind == EDGE["fault"]
    kernel = graph.payer.astype(np.int64)
    others = np.zeros(len(seen.kind), dtype=np.bool_)
    others[kernel[edges & ~pages[graph.owner] & (seen.kind[graph.owner] == "migration")]] = True
    # the stretch behind a kernel's last page goes along where no page of it stays
    between = edges & (
        pages[graph.owner] | ((seen.kind[graph.owner] == "kernel") & ~others[kernel])
    )
    own, size = np.zeros(len(seen.kind)), np.zeros(len(seen.kind))
    np.add.at(own, kernel[between], graph.lag_ns[between].astype(np.float64))
    brought = edges & pages[graph.owner]
    np.add.at(size, kernel[brought], seen.ready.run.size_bytes[piece[graph.owner[brought]]])
    read_ns = np.zeros(len(own)) if rate is None else size / float(np.max(rate)) * 1e9
    share = np.minimum(np.divide(read_ns, own, out=np.ones(len(own)), where=own > 0), 1.0)
    kernels = np.unique(kernel[brought])
    alone = (graph.kind == EDGE["run"]) & np.isin(graph.owner, kernels[~others[kernels]])
    shorter = between | alone
    still_there = pages if left is None else pages | left
    gone = np.flatnonzero(still_there)
    instants = np.concatenate([begin(gone), finish(gone), finish(kernels)])

    def apply(ready: Prepared) -> Prepared:
        ahead = relagged(
            removed(ready, still_there), shorter, lambda lag: lag * share[kernel[shorter]]
        )
        return prompt(ahead, instants)

    seconds = float((seen.ends - seen.begins)[kernels].sum()) * 1e-9
    return Edit.worded(kind, len(gone), seconds, apply, activities=kernels, kernels=len(kernels))


def copy_seconds(pieces: Pieces, machine: Machine, model: Model) -> Float | None:
    """Return the price of one copy of each piece on a machine [s], 0 for what is no copy; None
    where a parameter is missing.
    """
    out = np.zeros(len(pieces))
    for charge in model.charges:
        covered = charge.covers(pieces) & np.isin(pieces.kind, _HOST_COPIES)
        if charge.anchor != "ratio" or not covered.any():
            continue
        seconds = charge.seconds(pieces, machine, machine)
        if seconds is None:
            return None
        out[covered] = np.broadcast_to(seconds, (int(charge.covers(pieces).sum()),))[
            covered[charge.covers(pieces)]
        ]
    return out


def _in_turn(ready: Prepared, seen: Seen, copies: Bool) -> Prepared:
    """Return the run where each copy of one direction waits for the copy before it on its stream:
    one engine makes both.
    """
    ordered = seen.work[copies[seen.work]]
    before, after = ordered[:-1], ordered[1:]
    near = (seen.track[before] == seen.track[after]) & (seen.ends[before] <= seen.begins[after])
    return waiting(
        ready,
        finish(before[near]),
        begin(after[near]),
        np.zeros(int(near.sum()), dtype=np.int64),
        "engine",
    )


def _passed(ready: Prepared, seen: Seen, to_device: Bool, to_host: Bool) -> Prepared:
    """Return the run where copies to the device do not wait for other work of their stream, nor
    such work for copies to the host.

    What came before a copy to the host is what its follower waits for then, and a copy to the
    device is passed over.
    """
    graph = seen.graph
    stream = (graph.kind == EDGE["stream"]) & ~graph.begun_within
    before, after = (np.maximum(ends - 1, 0) // 2 for ends in (graph.source, graph.target))
    moved = (
        stream
        & ((to_device[after] & ~to_device[before]) | (to_host[before] & ~to_host[after]))
        & still(ready, graph)
    )
    first = _beyond(after[stream], before[stream], to_host)[before]
    last = _beyond(before[stream], after[stream], to_device)[after]
    none = len(to_device)
    loose = moved & ((first == none) | (last == none))
    kept = moved & ~loose
    return without(redirected(ready, kept, finish(first[kept]), begin(last[kept])), loose)


def _beyond(links: Int, leads_to: Int, passed: Bool) -> Int:
    """Return where each activity's chain leads if some are passed over, shape (activities + 1,);
    the number of activities for nowhere.

    Parameters
    ----------
    links, leads_to : activities, and the one that each leads to.
    passed : mask of the activities passed over; any other leads to itself.
    """
    none = len(passed)
    place = np.full(none + 1, none, dtype=np.int64)
    place[links] = leads_to
    place[:none] = np.where(passed, place[:none], np.arange(none))
    for _ in range(max(none, 1).bit_length()):
        place = place[place]
    return place


def _packing(ready: Prepared, seen: Seen, last: Int, longer_ns: Float) -> Prepared:
    """Return the run whose host packs bytes before the call of a copy to the device, and unpacks
    them behind that of one to the host.
    """
    graph = seen.graph
    added = np.zeros(len(seen.kind))
    added[seen.caller[last]] = longer_ns
    in_front = np.zeros(len(seen.kind), dtype=np.bool_)
    in_front[seen.caller[last]] = seen.kind[last] == "copy_h2d"
    host = graph.kind == EDGE["host"]
    target, source = np.maximum(graph.target - 1, 0) // 2, np.maximum(graph.source - 1, 0) // 2
    packs = host & (graph.target % 2 == 1) & in_front[target]
    unpacks = host & (graph.source % 2 == 0) & (graph.source > 0) & ~in_front[source]
    extra = np.where(packs, added[target], 0.0) + np.where(unpacks, added[source], 0.0)
    return relagged(ready, extra > 0, lambda lag: lag + extra[extra > 0])
