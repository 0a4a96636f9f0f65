"""Operations put in order by one sort: against sorting them one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnbuckle.replay.contention import operations
from turnbuckle.replay.contention.operations import Operations, as_one


@settings(deadline=None, derandomize=True, database=None, max_examples=60)
@given(st.data(), st.sampled_from([3, 1 << 18]), st.sampled_from([operations._KEY_BITS, 0]))
def test_runs_of_operations_stand_where_one_by_one_they_would(
    data: st.DataObject, block: int, bits: int
) -> None:
    """Whatever the size of the blocks, and whether keys are packed or not."""
    threads = data.draw(st.integers(1, 4))
    thread = np.array(
        data.draw(st.lists(st.integers(0, threads - 1), min_size=1, max_size=8)), dtype=np.uint32
    )
    steps = Operations(thread, 2)
    expected: list[tuple[int, int, int, int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operations, "_BLOCK", block)
        patch.setattr(operations, "_KEY_BITS", bits)
        for number in range(data.draw(st.integers(0, 4))):
            calls = np.array(
                data.draw(st.lists(st.integers(0, len(thread) - 1), max_size=9)), dtype=np.int64
            )
            slots = np.array(
                data.draw(
                    st.lists(st.integers(0, steps.kept), min_size=len(calls), max_size=len(calls))
                ),
                dtype=np.int64,
            )
            many = np.array(
                data.draw(st.lists(st.integers(1, 5), min_size=len(calls), max_size=len(calls))),
                dtype=np.uint8,
            )
            runs = data.draw(st.booleans())
            many = many if runs else np.ones(len(calls), dtype=np.uint8)
            arg = 1000 * number + np.arange(int(many.sum()))
            code = (arg % 7).astype(np.uint8)
            steps.add(calls, slots, code, arg, many if runs else None)
            at = 0
            for call, slot, count in zip(
                calls.tolist(), slots.tolist(), many.tolist(), strict=True
            ):
                for k in range(at, at + count):
                    expected.append(
                        (int(thread[call]), int(steps.place[call]), slot, int(code[k]), int(arg[k]))
                    )
                at += count
        first, codes, args = steps.ordered()
    expected.sort(key=lambda one: one[:3])
    assert codes.tolist() == [one[3] for one in expected] and args.tolist() == [
        one[4] for one in expected
    ]
    of = [one[0] for one in expected]
    assert first.tolist() == [sum(t < k for t in of) for k in range(int(thread.max()) + 2)]
    assert [one.dtype.name for one in (first, codes, args)] == ["uint32", "uint8", "uint32"]


def test_values_that_are_alike_take_no_room() -> None:
    assert (
        as_one(np.full(1000, 2.5)).strides == (0,) and as_one(np.full(3, 2.5)).tolist() == [2.5] * 3
    )
    assert as_one(np.array([1.0, 2.0])).tolist() == [1.0, 2.0] and len(as_one(np.zeros(0))) == 0
