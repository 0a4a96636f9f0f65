"""Data types, groups and communicators that a program recorded by DUMPI creates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple

from turnbuckle.trace.readers.parts.mpi_tables import LARGEST, NO

#: Largest number of members of all communicators together, and largest depth of groups made from
#: groups, that are resolved.
_MOST_MEMBERS: Final = 1 << 24
_MOST_DEEP: Final = 64


class Making(NamedTuple):
    """Creation of a communicator on one rank: the call, the number of the parent's creation,
    whether this rank is a member, and the arguments that decide the members: a group, (colour,
    key), (extents, reordered) or (members, reordered).
    """

    does: str
    parent: int
    inside: bool
    membership: Any


@dataclass(frozen=True)
class Made:
    """Communicators of the run; the first is the world."""

    #: for each rank, the handle of each communicator that it created: index in `members` plus 1,
    #: `NO` where it is unknown
    of_rank: list[list[int]]
    members: list[list[int]]
    unresolved: int


def type_made(does: str, a: list[Any], sizes: Mapping[int, int]) -> tuple[int, int] | None:
    """Return the handle and size [B] of a data type that a call creates or describes; None for
    other calls, and for an unknown size.
    """
    if does == "type_size":
        return (a[0], a[1]) if a[1] >= 0 else None
    if (
        not does.startswith("type_")
        or len(a) < 2
        or not isinstance(a[-1], int)
        or not isinstance(a[-2], int)
    ):
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
    """Return how many elements of the old type a new type holds; -1 where the number is unknown."""
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
    """Return the handle and size [B] of a struct type; None for other calls, and for an unknown
    size.
    """
    if does not in ("type_struct", "type_create_struct"):
        return None
    parts = [sizes.get(kind, -1) for kind in a[3]]
    if len(parts) != len(a[1]) or min(parts, default=0) < 0:
        return None
    size = sum(n * each for n, each in zip(a[1], parts, strict=True))
    return (a[4], size) if 0 <= size < LARGEST >> 24 else None


def group_made(does: str, a: list[Any], groups: dict[int, Any]) -> None:
    """Record how a group was made; its members are resolved only when a communicator needs them."""
    if does in ("group_incl", "group_excl", "group_range_incl", "group_range_excl"):
        parent = groups.get(a[0])
        deep = parent[-1] + 1 if parent is not None and parent[0] != "comm" else 1
        groups[a[3]] = (
            (does, parent, a[2], deep) if parent is not None and deep < _MOST_DEEP else None
        )
    elif does in ("group_union", "group_intersection", "group_difference"):
        first, other = groups.get(a[0]), groups.get(a[1])
        if first is None or other is None:
            groups[a[2]] = None
            return
        deep = max(g[-1] + 1 if g[0] != "comm" else 1 for g in (first, other))
        # Each level can double the work, so it counts as eight.
        groups[a[2]] = (does, first, other, deep + 8) if deep < _MOST_DEEP else None
    elif does == "group_free":
        groups.pop(a[0], None)


def _ranks(group: Any, members: dict[int, list[int]]) -> list[int] | None:
    """Return the ranks of the world in a group; `members` are the communicators known to its rank,
    by creation.
    """
    if group is None:
        return None
    does = group[0]
    if does == "comm":
        return members.get(group[1])
    ranks = _ranks(group[1], members)
    if ranks is None:
        return None
    if does in ("group_union", "group_intersection", "group_difference"):
        other = _ranks(group[2], members)
        if other is None:
            return None
        second_set, first_set = set(other), set(ranks)
        if does == "group_union":
            return ranks + [r for r in other if r not in first_set]
        return [r for r in ranks if (r in second_set) == (does == "group_intersection")]
    listed = list(group[2])
    if "range" in does:
        spans = [s for s in listed if len(s) == 3 and s[2]]
        if len(spans) != len(listed):
            return None
        listed = []
        for first, last, step in spans:
            span = range(first, last + (1 if step > 0 else -1), step)
            if len(span) > len(ranks):
                return None
            listed += span
    if any(not 0 <= i < len(ranks) for i in listed) or len(set(listed)) != len(listed):
        return None
    if does.endswith("incl"):
        return [ranks[i] for i in listed]
    left_out = set(listed)
    return [r for i, r in enumerate(ranks) if i not in left_out]


def communicators(makings: list[list[Making]], local_ranks: list[dict[int, int]]) -> Made:
    """Return which creations of communicators on the ranks are one communicator, and its members.

    The k-th communicator that one member makes from a parent is the k-th that every member makes
    from it.

    Parameters
    ----------
    makings : by rank, its creations in the order of its calls; the first has number 2, after the
        world and the rank alone.
    local_ranks : by rank, its rank inside each communicator by number of creation, where the
        program asked for it.
    """
    count = len(makings)
    of_rank = [[1, NO] + [NO] * len(created) for created in makings]
    members, total = [list(range(count))], count
    members_known: list[dict[int, list[int]]] = [
        {0: members[0], 1: [rank]} for rank in range(count)
    ]
    children: list[dict[int, list[int]]] = []
    for created in makings:
        by_parent: dict[int, list[int]] = {}
        for number, making in enumerate(created, 2):
            by_parent.setdefault(making.parent, []).append(number)
        children.append(by_parent)
    # The stack holds communicators whose children are unresolved: the members, and the number of
    # the creation on each.
    open_: list[tuple[list[int], dict[int, int]]] = [(members[0], dict.fromkeys(range(count), 0))]
    while open_:
        inside, creation = open_.pop()
        lists = [children[rank].pop(creation[rank], []) for rank in inside]
        for k in range(min(map(len, lists), default=0)):
            number_of = {rank: lists[i][k] for i, rank in enumerate(inside)}
            made = {rank: makings[rank][n - 2] for rank, n in number_of.items()}
            places = {rank: local_ranks[rank].get(number_of[rank], -1) for rank in inside}
            for group in _groups(inside, made, members_known, places):
                if not group or total + len(group) > _MOST_MEMBERS:
                    continue
                total += len(group)
                members.append(group)
                for rank in group:
                    of_rank[rank][number_of[rank]] = len(members)
                    members_known[rank][number_of[rank]] = group
                open_.append((group, {rank: number_of[rank] for rank in group}))
    lost = sum(
        making.inside and of_rank[rank][n] == NO
        for rank, created in enumerate(makings)
        for n, making in enumerate(created, 2)
    )
    return Made(of_rank, members, lost)


def _groups(
    inside: list[int],
    made: dict[int, Making],
    members_known: list[dict[int, list[int]]],
    local_ranks: dict[int, int],
) -> list[list[int]]:
    """Return the members of the communicators that one call on all of `inside` creates.

    The list is empty where the calls differ or do not determine the members.
    """
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
                colours.setdefault(made[rank].membership[0], []).append(rank)
        return [
            sorted(ranks, key=lambda r: int(made[r].membership[1])) for ranks in colours.values()
        ]
    if does in ("cart_create", "graph_create"):
        extents, reordered = first.membership
        number = prod(extents[:32]) if does == "cart_create" else extents
        if not 0 < number <= len(inside):
            return []
        if not reordered:
            return [inside[:number]]
        # The order after reordering is known only from the ranks that the program asked for
        # afterwards.
        order = sorted((place, rank) for rank, place in local_ranks.items() if made[rank].inside)
        return (
            [[rank for _, rank in order]]
            if [place for place, _ in order] == list(range(number))
            else []
        )
    if does == "comm_create":
        groups: list[list[int]] = []
        done: set[int] = set()
        everyone = set(inside)
        for rank in inside:
            if made[rank].inside and rank not in done:
                group = _ranks(made[rank].membership, members_known[rank])
                members = set(group or ())
                if (
                    group is None
                    or rank not in members
                    or not members <= everyone
                    or members & done
                    or len(members) < len(group)
                ):
                    return []
                groups.append(group)
                done |= members
        return groups
    return []
