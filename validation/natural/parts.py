"""What `experiments.py` takes from the package; `turnbuckle validate` runs the same experiments
(``validation/cases/variant_*``).
"""

from turnbuckle.questions.validate.variants import (
    PARAMETERS,
    Costs,
    Part,
    by_sum,
    by_timeline,
    changed,
    costs,
    cut,
    line,
    prepare,
    without,
)

__all__ = [
    "PARAMETERS",
    "Costs",
    "Part",
    "by_sum",
    "by_timeline",
    "changed",
    "costs",
    "cut",
    "line",
    "prepare",
    "without",
]
