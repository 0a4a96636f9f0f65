"""What a program recorded by DUMPI makes: types, groups, and communicators, which belong to several ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple

from turnbuckle.trace.readers.parts.mpi_tables import LARGEST, NO

#: Members of all communicators together, and groups made from groups: more are left untold.
_MOST_MEMBERS: Final = 1 << 24
_MOST_DEEP: Final = 64


class Making(NamedTuple):
    """A communicator made on one rank: by which call, from the parent of which making, whether this rank is in it, and what decides
    who is: a group, (colour, key), (extents, reordered) or (members, reordered)."""

    does: str
    parent: int
    inside: bool
    told: Any


@dataclass(frozen=True)
class Made:
    """Communicators of the run; the first is the world.

    Attributes
    ----------
    of_rank : for each rank, the handle of each of its makings: number in `members` plus 1, `NO` where it cannot be told.
    members : ranks in the world of each.
    unresolved : makings that cannot be told.
    """

    of_rank: list[list[int]]
    members: list[list[int]]
    unresolved: int


def type_made(does: str, a: list[Any], sizes: Mapping[int, int]) -> tuple[int, int] | None:
    """Handle and size [B] of a type that a call makes or tells of; None for any other call, and where the size is not known."""
    if does == "type_size":
        return (a[0], a[1]) if a[1] >= 0 else None
    if not does.startswith("type_") or len(a) < 2 or not isinstance(a[-1], int) or not isinstance(a[-2], int):
        return _of_struct(does, a, sizes)
    old, new = sizes.get(a[-2], -1), a[-1]
    if does == "type_create_resized":
        old = sizes.get(a[0], -1)
    elements = _elements(does, a)
    if elements < 0 or old < 0:
        return None
    size = elements * old
    return (new, size) if 0 <= size < LARGEST >> 24 else None


def _elements(does: str, a: list[Any]) -> int:
    """How many of its old type a new one holds; -1 where that is not known."""
    if does == "type_contiguous":
        return int(a[0])
    if does in ("type_vector", "type_hvector", "type_create_hvector", "type_create_indexed_block"):
        return int(a[0]) * int(a[1])
    if does in ("type_indexed", "type_hindexed", "type_create_hindexed"):
        return sum(a[1])
    if does == "type_create_subarray":
        return prod(a[2][:32])
    return 1 if does in ("type_dup", "type_create_resized") else -1


def _of_struct(does: str, a: list[Any], sizes: Mapping[int, int]) -> tuple[int, int] | None:
    if does not in ("type_struct", "type_create_struct"):
        return None
    parts = [sizes.get(kind, -1) for kind in a[3]]
    if len(parts) != len(a[1]) or min(parts, default=0) < 0:
        return None
    size = sum(n * each for n, each in zip(a[1], parts, strict=True))
    return (a[4], size) if 0 <= size < LARGEST >> 24 else None


def group_made(does: str, a: list[Any], groups: dict[int, Any]) -> None:
    """Keep how a group was made; its members are worked out when a communicator needs them."""
    if does in ("group_incl", "group_excl", "group_range_incl", "group_range_excl"):
        told = groups.get(a[0])
        deep = told[-1] + 1 if told is not None and told[0] != "comm" else 1
        groups[a[3]] = (does, told, a[2], deep) if told is not None and deep < _MOST_DEEP else None
    elif does in ("group_union", "group_intersection", "group_difference"):
        one, other = groups.get(a[0]), groups.get(a[1])
        if one is None or other is None:
            groups[a[2]] = None
            return
        deep = max(g[-1] + 1 if g[0] != "comm" else 1 for g in (one, other))
        # twice as many to work out at each level
        groups[a[2]] = (does, one, other, deep + 8) if deep < _MOST_DEEP else None
    elif does == "group_free":
        groups.pop(a[0], None)


def _ranks(group: Any, members: dict[int, list[int]]) -> list[int] | None:
    """Ranks in the world of a group; `members` are the communicators that its rank knows, by their making."""
    if group is None:
        return None
    does = group[0]
    if does == "comm":
        return members.get(group[1])
    one = _ranks(group[1], members)
    if one is None:
        return None
    if does in ("group_union", "group_intersection", "group_difference"):
        other = _ranks(group[2], members)
        if other is None:
            return None
        there, mine = set(other), set(one)
        if does == "group_union":
            return one + [r for r in other if r not in mine]
        return [r for r in one if (r in there) == (does == "group_intersection")]
    listed = list(group[2])
    if "range" in does:
        spans = [s for s in listed if len(s) == 3 and s[2]]
        if len(spans) != len(listed):
            return None
        listed = []
        for first, last, step in spans:
            span = range(first, last + (1 if step > 0 else -1), step)
            if len(span) > len(one):
                return None
            listed += span
    if any(not 0 <= i < len(one) for i in listed) or len(set(listed)) != len(listed):
        return None
    if does.endswith("incl"):
        return [one[i] for i in listed]
    left_out = set(listed)
    return [r for i, r in enumerate(one) if i not in left_out]


def communicators(makings: list[list[Making]], said: list[dict[int, int]]) -> Made:
    """Bring the ranks' makings together: the k-th child of a communicator on one member is the k-th on all.

    `said` is, for each rank, its rank inside the communicator of a making, where the program asked for it.
    """
    count = len(makings)
    of_rank = [[1, NO] + [NO] * len(one) for one in makings]
    members, total = [list(range(count))], count
    known: list[dict[int, list[int]]] = [{0: members[0], 1: [rank]} for rank in range(count)]
    children: list[dict[int, list[int]]] = []
    for one in makings:
        mine: dict[int, list[int]] = {}
        for number, making in enumerate(one, 2):
            mine.setdefault(making.parent, []).append(number)
        children.append(mine)
    # communicators whose children are still to be told: number, and its making on each member
    open_: list[tuple[list[int], dict[int, int]]] = [(members[0], dict.fromkeys(range(count), 0))]
    while open_:
        inside, own = open_.pop()
        lists = [children[rank].pop(own[rank], []) for rank in inside]
        for k in range(min(map(len, lists), default=0)):
            at = {rank: lists[i][k] for i, rank in enumerate(inside)}
            made = {rank: makings[rank][n - 2] for rank, n in at.items()}
            places = {rank: said[rank].get(at[rank], -1) for rank in inside}
            for group in _groups(inside, made, known, places):
                if not group or total + len(group) > _MOST_MEMBERS:
                    continue
                total += len(group)
                members.append(group)
                for rank in group:
                    of_rank[rank][at[rank]] = len(members)
                    known[rank][at[rank]] = group
                open_.append((group, {rank: at[rank] for rank in group}))
    lost = sum(making.inside and of_rank[rank][n] == NO for rank, one in enumerate(makings) for n, making in enumerate(one, 2))
    return Made(of_rank, members, lost)


def _groups(inside: list[int], made: dict[int, Making], known: list[dict[int, list[int]]], said: dict[int, int]) -> list[list[int]]:
    """Members of the communicators that one call of all of `inside` makes; nothing where the calls differ or do not tell."""
    kinds = {making.does for making in made.values()}
    if len(kinds) != 1:
        return []
    does, first = kinds.pop(), made[inside[0]]
    if does == "comm_dup":
        return [inside]
    if does == "comm_split":
        colours: dict[int, list[int]] = {}
        for rank in inside:
            if made[rank].inside:
                colours.setdefault(made[rank].told[0], []).append(rank)
        return [sorted(ranks, key=lambda r: int(made[r].told[1])) for ranks in colours.values()]
    if does in ("cart_create", "graph_create"):
        extents, reordered = first.told
        number = prod(extents[:32]) if does == "cart_create" else extents
        if not 0 < number <= len(inside):
            return []
        if not reordered:
            return [inside[:number]]
        # only what the ranks asked afterwards tells the new order
        order = sorted((place, rank) for rank, place in said.items() if made[rank].inside)
        return [[rank for _, rank in order]] if [place for place, _ in order] == list(range(number)) else []
    if does == "comm_create":
        groups: list[list[int]] = []
        done: set[int] = set()
        everyone = set(inside)
        for rank in inside:
            if made[rank].inside and rank not in done:
                group = _ranks(made[rank].told, known[rank])
                members = set(group or ())
                if group is None or rank not in members or not members <= everyone or members & done or len(members) < len(group):
                    return []
                groups.append(group)
                done |= members
        return groups
    return []
