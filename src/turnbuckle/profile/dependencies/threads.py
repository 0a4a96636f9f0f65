"""Host threads that hand over to each other: the calls of one begin just after a call of the other
has returned.

No recording says what a thread waits for between two calls: a lock (Python's, between forward and
backward pass), a queue, the next task of a pool.  It shows when the threads called.  A *turn* of
thread B after thread A is a call of B before which A returned while B made none:

    lag    from the last return of A to the begin of the call of B
    pause  from that return to the next call of A
    wait   from the last return of B to the begin of its call

Of threads that know nothing of each other, the pause of the one lies anywhere beside the wait of
the other: the lag is evenly distributed between 0 and the shorter of the two, whatever their
lengths.  So the probability of lags as short as those recorded is known (Fisher's product of the
shares), and no rate of a particular program enters.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from turnbuckle._native import gamma_tail
from turnbuckle.foundation.arrays import Bool, Float, Int

#: A lag is small up to this share of the shorter of pause and wait: an even lag is that small once
#: in four times.
_SMALL: Final = 0.25
#: Share of the turns of one thread after another that must be hand-overs, for one to be what the
#: other always waits for.
_ALWAYS: Final = 0.9
#: The same share for one to be what the other may wait for, where a quarter is chance; or the
#: scatter of their shares, where it is 0.25 by chance; and turns from which on either is looked at.
_HALF: Final = 0.5
_EVEN: Final = 0.15
_MANY: Final = 8
#: Probability, over all pairs of threads of a process, of taking independent threads for threads
#: that hand over.
_CHANCE: Final = 1e-3
#: Turns of a pair of threads from which on a hand-over counts as repeated.
_REPEATED: Final = 3
#: Most threads of a process that are compared, those with the most calls.
_THREADS: Final = 16
#: Questions asked of each pair of threads: whether one hands over to the other, the reverse, and
#: both.
_QUESTIONS: Final = 3


@dataclass(frozen=True)
class _Turns:
    """Turns of one thread after another; arrays of one length.

    Attributes
    ----------
    taker, giver : places of the call that begins and of the call that returned last, in the calls
        of their threads.
    lag : between them [ns].
    share : lag as a share of the shorter of pause and wait, or less: a thread waits before its
        first call, and pauses after its last, for longer than the recording says; 1 where the
        giving thread was in a call.
    wait : how long the taking thread had made no call [ns]; before its first, since the run began.
    cut : whether the recording cuts the pause.
    """

    taker: Int
    giver: Int
    lag: Int
    share: Float
    wait: Int
    cut: Bool

    @property
    def handed(self) -> Bool:
        """Return which turns look like hand-overs: the lag is a small share; of a pause that was
        cut it may be any.
        """
        return (self.lag > 0) & (
            (self.share <= _SMALL) | (self.cut & (self.lag <= _SMALL * self.wait))
        )

    @property
    def always(self) -> bool:
        """Return whether nearly all of them are."""
        return len(self.lag) > 0 and float(self.handed.mean()) >= _ALWAYS

    @property
    def possible(self) -> bool:
        """Return whether they may be hand-overs: half of them look like it, their lags are no even
        chance, or they are too few to tell.
        """
        few = len(self.lag) < _MANY
        return len(self.lag) > 0 and (
            few or float(self.handed.mean()) >= _HALF or _scatter(self.share) <= _EVEN
        )

    @property
    def surprise(self) -> float:
        """Return minus the sum of the logarithms of the shares."""
        return float(-np.log(np.maximum(self.share, 1e-12)).sum())

    def steadier(self, than: float) -> bool:
        """Return whether lags scatter less than `than` times as much as waits: else the thread's
        own rhythm explains its begins as well.
        """
        waited = self.taker > 0
        return _scatter(self.lag[waited]) <= than * _scatter(self.wait[waited])


def handed_over(
    calls: Int, thread: Int, process: Int, starts: Int, ends: Int, perhaps: bool = False
) -> tuple[Int, Int, Int, Bool]:
    """Return the calls that begin when another thread hands over.

    A thread hands over to another if nearly all turns of the other are hand-overs, if they are too
    many to be chance, and if its returns say more of when the other begins than the other's own
    rhythm does: the lags scatter no more than half as much as the waits.  Two threads that hand
    over both ways cover the time between them, which two rhythms do not: there lags may scatter as
    much as waits.

    Parameters
    ----------
    calls : outermost calls of all threads, sorted by thread and time; those of a thread do not
        overlap.
    thread, process : per activity.
    starts, ends : per activity [ns].
    perhaps : also take threads that may hand over: half of the turns look like it, or there are too
        few to tell.

    Returns
    -------
    Per edge the call that returns, the call that begins, the lag between the last return and the
    begin [ns], and whether the two threads hand over both ways.  A call that waits for several
    threads begins one lag after the last of them, whichever that is.
    """
    givers, takers, returns, ways = [], [], [], []
    horizon = int(ends[calls].max(initial=0))
    for number in np.unique(process[calls]):
        of_process = calls[process[calls] == number]
        groups = np.split(of_process, np.flatnonzero(np.diff(thread[of_process])) + 1)
        groups = sorted(groups, key=len, reverse=True)[:_THREADS]
        for giving, taking, turns, both in _hand_overs(groups, starts, ends, horizon, perhaps):
            # a call that takes time closes no ring, even if it begins when the other returns
            kept = (turns.lag > 0) | (perhaps & (ends[taking] > starts[taking])[turns.taker])
            givers.append(giving[turns.giver[kept]])
            takers.append(taking[turns.taker[kept]])
            returns.append(turns.handed[kept] | perhaps)
            ways.append(np.full(len(givers[-1]), both))
    if not givers:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing, nothing, nothing > 0
    giver, taker, handed, mutual = (
        np.concatenate(parts) for parts in (givers, takers, returns, ways)
    )
    last = np.full(len(starts), -1, dtype=np.int64)
    np.maximum.at(last, taker, ends[giver])
    # the thread that returned last is the one that handed over
    by_last = np.zeros(len(starts), dtype=np.bool_)
    by_last[taker[handed & (ends[giver] == last[taker])]] = True
    kept = by_last[taker]
    return giver[kept], taker[kept], (starts[taker] - last[taker])[kept], mutual[kept]


def first_calls(calls: Int, thread: Int, process: Int, starts: Int, ends: Int) -> tuple[Int, Int]:
    """Return the calls that returned last before the first call of a thread, and those first calls;
    arguments as `handed_over`.

    A thread is made, or a task of a pool moves to it: something in its process came before.  What,
    no recording says, so the time between them is a gap like that between two calls of one thread.

    >>> first_calls(np.arange(3), np.array([1, 1, 2]), np.array([7, 7, 7]), np.array([0, 5, 8]), np.array([2, 6, 9]))
    (array([1]), array([2]))
    """
    heads = calls[np.diff(thread[calls], prepend=thread[calls[:1]] - 1) != 0]
    before, after = [heads[:0]], [heads[:0]]
    for number in np.unique(process[heads]):
        first = heads[process[heads] == number]
        of_process = calls[process[calls] == number]
        returned = of_process[np.argsort(ends[of_process], kind="stable")]
        place = np.searchsorted(ends[returned], starts[first], side="right") - 1
        last = returned[np.maximum(place, 0)]
        found = (place >= 0) & (thread[last] != thread[first]) & (starts[last] < starts[first])
        before.append(last[found])
        after.append(first[found])
    return np.concatenate(before), np.concatenate(after)


def _hand_overs(
    groups: list[Int], starts: Int, ends: Int, horizon: int, perhaps: bool
) -> list[tuple[Int, Int, _Turns, bool]]:
    """Return the pairs of threads of one process of which the first hands over to the second: calls
    of both, turns, whether both ways.
    """
    hand_overs: list[tuple[Int, Int, _Turns, bool]] = []
    pairs = list(combinations(groups, 2))
    for first, second in pairs:
        there, back = (
            _turns(a, b, starts, ends, horizon) for a, b in ((first, second), (second, first))
        )
        chance = _CHANCE / (_QUESTIONS * len(pairs))
        count, surprise = len(there.lag) + len(back.lag), there.surprise + back.surprise
        both = (
            count >= _REPEATED
            and there.always
            and back.always
            and there.steadier(1.0)
            and back.steadier(1.0)
        )
        if both and _chance(surprise, count) <= chance:
            hand_overs += [(first, second, there, True), (second, first, back, True)]
            continue
        for giving, taking, turns in ((first, second, there), (second, first, back)):
            repeated = (
                len(turns.lag) >= _REPEATED
                and turns.always
                and _scatter(turns.wait[turns.taker > 0]) > 0
            )
            if (
                repeated
                and turns.steadier(0.5)
                and _chance(turns.surprise, len(turns.lag)) <= chance
            ):
                hand_overs.append((giving, taking, turns, False))
            elif perhaps and turns.possible:
                hand_overs.append((giving, taking, turns, True))
    return hand_overs


def _turns(giving: Int, taking: Int, starts: Int, ends: Int, horizon: int) -> _Turns:
    """Return the turns of one thread after another; what is recorded ends at the `horizon`."""
    begins, returned = starts[taking], ends[giving]
    place = np.searchsorted(returned, begins, side="right") - 1
    since = np.concatenate([[0], ends[taking[:-1]]])
    # before its first call a thread has waited all the time
    turn = np.flatnonzero(
        (place >= 0) & ((returned[np.maximum(place, 0)] > since) | (np.arange(len(taking)) == 0))
    )
    place, begins, since = place[turn], begins[turn], since[turn]
    lag, again = begins - returned[place], np.append(starts[giving[1:]], horizon)[place]
    shorter = np.minimum(again - returned[place], begins - since)
    share = np.where(again < begins, 1.0, np.minimum(lag / np.maximum(shorter, 1), 1.0))
    return _Turns(turn, place, lag, share, begins - since, place == len(giving) - 1)


def _chance(surprise: float, count: int) -> float:
    """Return the probability that the product of so many even shares is as small: Fisher's method.

    >>> round(_chance(-np.log(0.05), 1), 3)
    0.05
    """
    return gamma_tail(count, surprise)


def _scatter(values: Int | Float) -> float:
    """Return the median distance from the median."""
    return float(np.median(np.abs(values - np.median(values)))) if len(values) else 0.0
