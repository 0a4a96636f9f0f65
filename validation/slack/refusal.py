"""What these scripts cannot do, with a code, in the form of Turnbuckle's own errors; the standard library is all they need.

======  ====================================================================  ===========
V001    no CUDA driver, or no GPU behind it                                   exit code 3
V002    something to build with is missing, or does not compile               exit code 2
V003    a program failed, hung, or was not delayed as asked                   exit code 1
V004    a record of the injected library is damaged                           exit code 2
V005    the folder of results does not hold what the comparison needs         exit code 2
======  ====================================================================  ===========
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

EXITS: Final = {"V001": 3, "V002": 2, "V003": 1, "V004": 2, "V005": 2}


class Refusal(Exception):
    """Stops the work.

    Parameters
    ----------
    code : a key of `EXITS`.
    what : one line, no full stop.
    fix : what to do about it; left out when empty.
    """

    def __init__(self, code: str, what: str, fix: str = "") -> None:
        self.code, self.what, self.fix = code, what, fix
        super().__init__(f"{code}: {what}")

    @property
    def exit_code(self) -> int:
        """The exit code of a script that meets it."""
        return EXITS[self.code]


def told(main: Callable[[], None]) -> int:
    """Run a script's `main`; a refusal becomes a message on stderr and its exit code, which is returned."""
    try:
        main()
    except Refusal as refusal:
        fix = f"\n  fix:   {refusal.fix}" if refusal.fix else ""
        print(f"error[{refusal.code}]: {refusal.what}{fix}", file=sys.stderr)
        return refusal.exit_code
    return 0
