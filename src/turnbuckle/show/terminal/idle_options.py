"""Options that would change nothing: refused, so that nobody takes an answer for one that heeds
them.

Errors:

    A056  an option that changes nothing here
"""

from __future__ import annotations

from turnbuckle.foundation.errors import error_of


def refuse_idle(given: dict[str, bool], cause: str, fix: str) -> None:
    """Raise A056 where an option is given that the question has no use for.

    Parameters
    ----------
    given : whether each option was given, by its name.
    cause, fix : why it has no effect, and what to ask instead.
    """
    idle = [option for option, there in given.items() if there]
    if idle:
        raise error_of("A056", found=", ".join(idle), cause=cause, fix=fix)
