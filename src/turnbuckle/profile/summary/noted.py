"""What a profiler notes of the host beside calls: functions of Python, and the shapes of operators'
inputs; what that may cost.

Neither PyTorch nor JAX writes down how long its notes take.  The cost is bounded: from nothing to
`FUNCTION_S` for each function of Python and `SHAPES_S` for each operator with shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnbuckle.trace.trace import Trace

#: Most that noting one call of a Python function and its return takes [s].  CPython calls the
#: profiler at both; its own profiler in C took 0.76 us more a call than no profiler (1,038 and 274
#: ns, 10^6 empty calls, Python 3.11, one x86 core of a shared server).  Whole runs took about 7 %
#: longer with stacks than without (vllm-project/vllm pull request 35240).
FUNCTION_S: Final = 1e-6
#: Most that noting the shapes of one operator's inputs takes [s]: a bound of ours.  Its authors
#: call it negligible (pytorch/torchtitan pull request 419), and warn that it can skew results
#: (pytorch/pytorch pull request 20035).
SHAPES_S: Final = 1e-6
#: Share of the run from which the notes are told.
SEEN: Final = 0.01
#: Kinds of ranges: an operator, and a function of Python.
_OPERATOR, _FUNCTION = 1, 2


@dataclass(frozen=True)
class Noted:
    """Notes of a recording.

    Attributes
    ----------
    functions : calls of Python functions (``with_stack``).
    shaped : operators whose inputs' shapes were noted (``record_shapes``).
    """

    functions: int
    shaped: int

    @property
    def most_seconds(self) -> float:
        """Return the most time that the notes took [s]; they took anything from nothing to this."""
        return self.functions * FUNCTION_S + self.shaped * SHAPES_S

    @property
    def count(self) -> int:
        """Return how many functions and operators were noted."""
        return self.functions + self.shaped

    def share(self, run_time_ns: int) -> float:
        """Return the most time that the notes took over the run time; none beyond all of it."""
        return min(self.most_seconds * 1e9 / max(run_time_ns, 1), 1.0)

    def in_words(self, run_time_ns: int) -> str:
        """Return what was noted, and what it may have cost."""
        parts = ((self.functions, "functions of Python"), (self.shaped, "operators with shapes"))
        what = " and ".join(f"{count:,} {name}" for count, name in parts if count)
        return (
            f"{what}: up to {self.most_seconds * 1e3:.3g} ms, {self.share(run_time_ns):.0%} of "
            "the run"
        )


def noted(trace: Trace) -> Noted:
    """Return how much a recording notes of the host beside calls."""
    if not trace.ranges.height:
        return Noted(0, 0)
    kinds = dict(trace.ranges.group_by("kind").len().iter_rows())
    shaped = kinds.get(_OPERATOR, 0) if trace.facts.get("record_shapes") else 0
    return Noted(kinds.get(_FUNCTION, 0), shaped)
