"""Queues of whole recordings: as one of Python's would serve them."""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from turnbuckle.trace.readers.parts.first_come import FirstCome

#: Queue, and how many are asked for; -1: one comes.
EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([-1, -1, -1, 0, 1, 1, 2, 1 << 30])), max_size=40
)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(events=EVENTS)
def test_what_comes_first_is_fetched_first(events: list[tuple[int, int]]) -> None:
    events.sort(key=lambda event: event[0])
    queues: dict[int, deque[int]] = defaultdict(deque)
    served, waiting, fetched, came = [], [], [], 0
    for queue, asks in events:
        got = [queues[queue].popleft() for _ in range(min(asks, len(queues[queue])))]
        if asks < 0:
            queues[queue].append(came)
            came += 1
        served.append(len(got))
        waiting.append(len(queues[queue]))
        fetched += got
    names, asks_of = (np.array([event[at] for event in events], dtype=np.int64) for at in (0, 1))
    found = FirstCome(
        np.unique(names, return_inverse=True)[1].reshape(-1), asks_of < 0, np.maximum(asks_of, 0)
    )
    assert (
        found.served.tolist() == served
        and found.waiting.tolist() == waiting
        and found.fetched().tolist() == fetched
    )
    assert found.left()[0].tolist() == sorted(one for queue in queues.values() for one in queue)
