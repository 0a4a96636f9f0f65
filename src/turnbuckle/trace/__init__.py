"""One recorded run of a real application, as typed tables in one vocabulary
(``schema/trace.csv``).
"""

from turnbuckle.trace.read import read
from turnbuckle.trace.trace import Trace

__all__ = ["Trace", "read"]
